"""C's memory, seen from Python: addresses, views, strings, arrays of results."""

from typing import Any

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error

__all__ = ["Memory"]

_MOST = (1 << 63) - 1


class Memory:
    """Access to C's memory by address, through a library's cffi ``ffi``."""

    def __init__(self, ffi: Any) -> None:
        self._ffi = ffi
        self._null = ffi.NULL
        self._cast = ffi.cast
        self._buffer = ffi.buffer
        self._bytes = ffi.typeof("char *")
        self._number = ffi.typeof("uintptr_t")

    def address(self, pointer: Any) -> int:
        """Convert a pointer to a number."""
        return int(self._cast(self._number, pointer))

    def pointer(self, address: int, kind: str = "void *") -> Any:
        """Convert a number to a pointer."""
        return self._cast(kind, address)

    def view(self, pointer: Any, length: int) -> Any:
        """Return the bytes at a pointer or an address, in place and writable; valid as long as C keeps the memory.

        Raises FI_EINVAL for NULL with a length that is not 0, and for impossible lengths.
        """
        if not length:
            return bytearray()
        if not 0 < length <= _MOST:
            raise fabric_error(Errno.FI_EINVAL, f"expected a length of 0 to 2**63 - 1 bytes, got {length}")
        start = self._cast(self._bytes, pointer)
        if start == self._null:
            raise fabric_error(Errno.FI_EINVAL, f"expected {length} bytes, got NULL")
        return self._buffer(start, length)

    def string(self, pointer: Any, most: int = 4096) -> str | None:
        """Return a C string; None for NULL. Bytes that are no UTF-8 are kept as Python does in file names."""
        if pointer == self._null:
            return None
        return bytes(self._ffi.string(pointer, most)).decode("utf-8", "surrogateescape")

    def put_string(self, pointer: Any, size: int, text: str) -> int:
        """Write a string, cut to ``size`` bytes with its final 0, as ``snprintf`` does; returns its whole size."""
        data = text.encode("utf-8", "surrogateescape")
        if size > 0 and pointer != self._null:
            kept = data[: size - 1] + b"\0"
            self._ffi.memmove(pointer, kept, len(kept))
        return len(data) + 1

    def require(self, pointer: Any, name: str) -> Any:
        """Return the pointer. Raises FI_EINVAL for NULL, with the argument's name."""
        if pointer == self._null:
            raise fabric_error(Errno.FI_EINVAL, f"{name}: expected a pointer, got NULL")
        return pointer
