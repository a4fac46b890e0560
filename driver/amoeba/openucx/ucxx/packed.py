"""Bytes that processes exchange to find each other: addresses of workers, and keys of memory."""

from typing import Any, Self

from amoeba.core.buffers import address_of
from amoeba.openucx.ucp.addresses import WorkerAddress
from amoeba.openucx.ucp.remote_key import checked_key_buffer
from amoeba.openucx.ucp.worker import Worker as UcpWorker
from amoeba.openucx.ucxx.buffers import bytes_view

__all__ = ["Address", "RemoteKey"]


class _Packed(bytes):
    """Bytes with a meaning: a buffer, hashable, and pickled as their own type."""

    __slots__ = ()

    @property
    def length(self) -> int:
        """Number of bytes."""
        return len(self)

    def tobytes(self) -> bytes:
        """Return plain bytes."""
        return bytes(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (bytes(self),)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self)} bytes>"


class Address(_Packed):
    """The address of a worker. Raises INVALID_PARAM for other bytes."""

    __slots__ = ()

    def __new__(cls, data: Any) -> Self:
        view = bytes_view(data, name="address")
        WorkerAddress.unpack(view.tobytes())
        return super().__new__(cls, view.tobytes())

    @classmethod
    def create_from_buffer(cls, buffer: Any) -> Self:
        """Make the address that a peer has sent."""
        return cls(buffer)

    @classmethod
    def create_from_worker(cls, worker: Any) -> Self:
        """Return the address of a worker."""
        ucp: UcpWorker = worker.ucp
        return cls(ucp.pack_address())

    @property
    def address(self) -> int:
        """Address of the bytes in this process."""
        return address_of(memoryview(self))

    @property
    def uid(self) -> int:
        """The random number of the worker."""
        return WorkerAddress.unpack(bytes(self)).uid


class RemoteKey(_Packed):
    """The right to access mapped memory, and its place. Raises INVALID_PARAM for bytes that are no such key."""

    __slots__ = ()

    def __new__(cls, data: Any) -> Self:
        view = bytes_view(data, name="rkey")
        checked_key_buffer(view.tobytes())
        return super().__new__(cls, view.tobytes())

    @classmethod
    def create_from_buffer(cls, buffer: Any) -> Self:
        """Make the key that a peer has sent."""
        return cls(buffer)

    @property
    def address(self) -> int:
        """Address of the first byte of the memory in its own process."""
        return checked_key_buffer(bytes(self))["address"]

    @property
    def size(self) -> int:
        """Size of the memory in bytes."""
        return checked_key_buffer(bytes(self))["length"]
