"""Memory of this process by address: views, access checks, and pages at a wanted address."""

import ctypes
import errno
import mmap
import os
import weakref
from pathlib import Path

__all__ = ["PAGE", "accessible", "map_pages", "view_at"]

PAGE = mmap.PAGESIZE
"""Bytes of a page."""
_ADDRESS_END = 1 << 64
_MAPS = Path("/proc/self/maps")
_MAP_FIXED_NOREPLACE = 0x100000
"""Linux's flag: map at this address, unless the address is in use."""
_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_mmap = _libc.mmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_munmap = _libc.munmap
_munmap.restype = ctypes.c_int
_munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def view_at(address: int, length: int) -> memoryview:
    """Return the bytes at an address. The caller ensures that the memory outlives the view."""
    return memoryview((ctypes.c_char * length).from_address(address)).cast("B")


def accessible(address: int, length: int, *, writable: bool = False) -> bool:
    """Return whether all of this range is readable memory of the process, and writable if that is asked.

    Always true where the operating system does not list the process's memory.
    """
    if not 0 <= address <= address + length <= _ADDRESS_END:
        return False
    if not _MAPS.exists():
        return True
    at, end = address, address + length
    for line in _MAPS.read_text().splitlines():
        place, rights, _ = line.split(maxsplit=2)
        start, stop = (int(number, 16) for number in place.split("-"))
        if start <= at < stop:
            if rights[0] != "r" or (writable and rights[1] != "w"):
                return False
            at = stop
        if at >= end:
            return True
    return at >= end


def map_pages(length: int, address: int = 0, *, fixed: bool = False) -> memoryview:
    """Return zeroed memory of at least ``length`` bytes in whole pages, unmapped with its last view.

    ``address``: preferred address, used if it is free. ``fixed``: the address is binding, a multiple of :data:`PAGE`.
    Raises MemoryError if memory is exhausted, or, if ``fixed``, the address is in use.
    """
    size = -(-length // PAGE) * PAGE
    if size >= _ADDRESS_END or address >= _ADDRESS_END:
        raise MemoryError(f"expected less than 2^64 bytes, got {length} at {address:#x}")
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | (_MAP_FIXED_NOREPLACE if fixed else 0)
    found = _mmap(address, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    if found in (_FAILED, None):
        code = ctypes.get_errno()
        where = f" at {address:#x}, where something is" if fixed and code == errno.EEXIST else ""
        raise MemoryError(f"{size} bytes cannot be mapped{where}: {os.strerror(code)}")
    if fixed and found != address:  # old kernels take the unknown flag for a hint
        _munmap(found, size)
        raise MemoryError(f"{size} bytes cannot be mapped at {address:#x}: something is there")
    array = (ctypes.c_char * size).from_address(found)
    weakref.finalize(array, _munmap, found, size).atexit = False
    return memoryview(array).cast("B")
