"""Memory that a test frees while the NIC might still use it."""

import ctypes
import mmap

import numpy as np


class Pages:
    """Memory that is gone once it is freed: an access faults then, whoever refers to it."""

    _libc = ctypes.CDLL(None, use_errno=True)
    _libc.mmap.restype = ctypes.c_void_p
    _libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    _libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

    def __init__(self, length: int, content: int) -> None:
        rights, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self.address = self._libc.mmap(None, length, rights, flags, -1, 0)
        assert self.address != ctypes.c_void_p(-1).value
        self.bytes = np.frombuffer((ctypes.c_uint8 * length).from_address(self.address), np.uint8)
        self.bytes[:] = content

    def free(self) -> None:
        assert self._libc.munmap(self.address, len(self.bytes)) == 0
