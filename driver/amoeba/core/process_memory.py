"""Memory of this process by its address: views of it, whether it may be used, pages where one wants them."""

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
"""Linux's: at this address, unless something is there."""
_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_mmap = _libc.mmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_munmap = _libc.munmap
_munmap.restype = ctypes.c_int
_munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def view_at(address: int, length: int) -> memoryview:
    """The bytes at an address, which the caller knows to be there for as long as the view is."""
    return memoryview((ctypes.c_char * length).from_address(address)).cast("B")


def accessible(address: int, length: int, *, writable: bool = False) -> bool:
    """Whether all of this is memory of the process that can be read, and written if that is asked.

    Always so where the operating system does not say what is.
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
    """Zeroed memory of at least ``length`` bytes in whole pages, which are given back with the last view of them.

    ``address``: where it is to be, if there is room, or ``fixed``, and then it is a multiple of :data:`PAGE`.
    Raises MemoryError if there is none, or, if ``fixed``, something else at the address.
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
    if fixed and found != address:  # a kernel that does not know the flag took it for a hint
        _munmap(found, size)
        raise MemoryError(f"{size} bytes cannot be mapped at {address:#x}: something is there")
    array = (ctypes.c_char * size).from_address(found)
    weakref.finalize(array, _munmap, found, size).atexit = False
    return memoryview(array).cast("B")
