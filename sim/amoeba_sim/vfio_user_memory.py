"""A host's memory, as the files and offsets that it names to a device server, where the NIC finds it."""

import bisect
import errno
import fcntl
import mmap
import os
import stat
from dataclasses import dataclass

import numpy as np
from amoeba_model.network import SimulatedDevice

__all__ = ["MAX_MAPS", "PAGE", "GuestMemory"]

PAGE = 4096
MAX_MAPS = 65535
_MAX_BYTES = 1 << 42
"""Of address space, for files of one host."""
_ADDRESSES = 1 << 64

_FileKey = tuple[int, int, int, bool]
"""(device, inode, size, writable)."""


@dataclass
class _File:
    address: int
    view: np.ndarray
    users: int = 0


@dataclass
class _Map:
    iova: int
    size: int
    writable: bool
    file: _FileKey | None
    """None: a host that keeps this memory to itself. The NIC cannot access it."""
    address: int


class GuestMemory:
    """Memory that a host has mapped for one NIC: VFIO type 1's rules, checked against an untrusted host.

    The NIC reaches the maps while they are enabled: while the function is bus master. Every map raises OSError with
    the error number for the host.

    Files are memory (memfd) that cannot shrink: touching what was cut off would end this process, so others are
    refused. QEMU's ``memory-backend-memfd`` makes such.
    """

    def __init__(self, device: SimulatedDevice) -> None:
        self._device = device
        self._maps: list[_Map] = []
        """In the order of addresses."""
        self._files: dict[_FileKey, _File] = {}
        self._enabled = False

    def __len__(self) -> int:
        return len(self._maps)

    def map(self, iova: int, size: int, *, writable: bool, file: int | None, offset: int) -> None:
        """``file``: a descriptor, which stays the caller's."""
        if not size or (iova | size | offset) % PAGE or iova + size > _ADDRESSES:
            raise OSError(errno.EINVAL, f"expected whole pages, got {size:#x} bytes at {iova:#x}, offset {offset:#x}")
        index = self._first_beyond(iova)
        if index < len(self._maps) and self._maps[index].iova < iova + size:
            raise OSError(errno.EEXIST, f"{self._maps[index].iova:#x} is mapped already")
        if len(self._maps) >= MAX_MAPS:
            raise OSError(errno.ENOSPC, f"more than {MAX_MAPS} maps")
        made = _Map(iova, size, writable, None, 0)
        if file is not None:
            made.file, address = self._use(file, offset + size, writable)
            made.address = address + offset
        self._maps.insert(index, made)
        if self._enabled:
            self._grant(made)

    def unmap(self, iova: int, size: int) -> int:
        """Unmap [iova, iova + size); return how many bytes were mapped. Raises OSError if a map reaches beyond."""
        if not size or (iova | size) % PAGE or iova + size > _ADDRESSES:
            raise OSError(errno.EINVAL, f"expected whole pages, got {size:#x} bytes at {iova:#x}")
        first = self._first_beyond(iova)
        last = self._first_beyond(iova + size)
        cut = self._maps[last : last + 1] if last < len(self._maps) and self._maps[last].iova < iova + size else []
        cut += [one for one in self._maps[first : first + 1] if one.iova < iova and first < last]
        if cut:
            raise OSError(errno.EINVAL, f"the map at {cut[0].iova:#x} goes as a whole")
        gone = self._maps[first:last]
        del self._maps[first:last]
        for one in gone:
            self._release(one)
        return sum(one.size for one in gone)

    def clear(self) -> int:
        """Unmap everything; returns how many bytes that was."""
        gone, self._maps = self._maps, []
        for one in gone:
            self._release(one)
        return sum(one.size for one in gone)

    def enable(self, enabled: bool) -> None:
        """Whether the NIC may access what is mapped."""
        if enabled != self._enabled:
            self._enabled = enabled
            for one in self._maps:
                if enabled:
                    self._grant(one)
                else:
                    self._revoke(one)

    def _first_beyond(self, iova: int) -> int:
        """Index of the first map that ends beyond an address."""
        index = bisect.bisect_right(self._maps, iova, key=lambda one: one.iova)
        return index - (index > 0 and self._maps[index - 1].iova + self._maps[index - 1].size > iova)

    def _release(self, one: _Map) -> None:
        if self._enabled:
            self._revoke(one)
        if one.file is not None:
            file = self._files[one.file]
            file.users -= 1
            if not file.users:
                del self._files[one.file]

    def _grant(self, one: _Map) -> None:
        if one.file is not None:
            self._device.grant(one.iova, one.size, writable=one.writable, host_address=one.address)

    def _revoke(self, one: _Map) -> None:
        if one.file is not None:
            self._device.revoke(one.iova, one.size)

    def _use(self, descriptor: int, end: int, writable: bool) -> tuple[_FileKey, int]:
        """Map a file unless it is, and count its users; its key, and where it lies."""
        status = os.fstat(descriptor)
        try:
            seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) if stat.S_ISREG(status.st_mode) else 0
        except OSError:
            seals = 0
        if not seals & fcntl.F_SEAL_SHRINK:
            raise OSError(errno.EINVAL, "expected memory that cannot shrink, as of QEMU's memory-backend-memfd")
        if end > status.st_size:
            raise OSError(errno.EINVAL, f"the map ends at {end:#x} in a file of {status.st_size:#x} bytes")
        key = (status.st_dev, status.st_ino, status.st_size, writable)
        if key not in self._files:
            if status.st_size + sum(size for _, _, size, _ in self._files) > _MAX_BYTES:
                raise OSError(errno.ENOMEM, f"more than {_MAX_BYTES:#x} bytes of files")
            protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
            view = np.frombuffer(mmap.mmap(descriptor, status.st_size, mmap.MAP_SHARED, protection), np.uint8)
            self._files[key] = _File(view.ctypes.data, view)
        file = self._files[key]
        file.users += 1
        return key, file.address
