"""The driver's interface to Linux: calls on files, and words of a BAR. Tests replace it by another object."""

import fcntl
import mmap
import os
from pathlib import Path
from typing import Protocol

__all__ = ["Kernel", "LinuxKernel", "Words"]


class Words(Protocol):
    """32-bit words of a device, each read and written by one access of the processor."""

    def __getitem__(self, index: int, /) -> int: ...

    def __setitem__(self, index: int, value: int, /) -> None: ...

    def __len__(self) -> int: ...


class Kernel(Protocol):
    """Calls raise OSError as Linux does."""

    @property
    def sysfs(self) -> Path:
        """The folder ``/sys``."""

    def open(self, path: str) -> int: ...

    def close(self, descriptor: int) -> None: ...

    def ioctl(self, descriptor: int, request: int, argument: int | bytearray) -> int:
        """Call ``ioctl``; the call may change ``argument``."""

    def pread(self, descriptor: int, size: int, offset: int) -> bytes: ...

    def pwrite(self, descriptor: int, data: bytes, offset: int) -> None: ...

    def map_words(self, descriptor: int, size: int, offset: int) -> Words:
        """Map a region of a device; a forked child does not inherit it."""

    def unmap_words(self, words: Words) -> None: ...


class LinuxKernel:
    """Linux itself."""

    sysfs = Path("/sys")

    def open(self, path: str) -> int:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def ioctl(self, descriptor: int, request: int, argument: int | bytearray) -> int:
        return fcntl.ioctl(descriptor, request, argument)

    def pread(self, descriptor: int, size: int, offset: int) -> bytes:
        return os.pread(descriptor, size, offset)

    def pwrite(self, descriptor: int, data: bytes, offset: int) -> None:
        os.pwrite(descriptor, data, offset)

    def map_words(self, descriptor: int, size: int, offset: int) -> Words:
        region = mmap.mmap(descriptor, size, offset=offset)
        region.madvise(mmap.MADV_DONTFORK)
        # An item of such a view is one load or store of its size, which slices and struct are not.
        return memoryview(region).cast("I")

    def unmap_words(self, words: Words) -> None:
        assert isinstance(words, memoryview)
        region = words.obj
        words.release()
        assert isinstance(region, mmap.mmap)
        region.close()
