"""What processes send each other to get to know each other: addresses of workers, and keys of memory, as bytes."""

from typing import Any, Self

from amoeba.core.buffers import address_of
from amoeba.openucx.ucp.addresses import WorkerAddress
from amoeba.openucx.ucp.remote_key import checked_key_buffer
from amoeba.openucx.ucp.worker import Worker as UcpWorker
from amoeba.openucx.ucxx.buffers import bytes_view

__all__ = ["Address", "RemoteKey"]


class _Packed(bytes):
    """Bytes that mean something: a buffer, hashable, and pickled as what they are."""

    __slots__ = ()

    @property
    def length(self) -> int:
        """How many bytes."""
        return len(self)

    def tobytes(self) -> bytes:
        """The same as plain bytes."""
        return bytes(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (bytes(self),)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self)} bytes>"


class Address(_Packed):
    """Where a worker is. Raises INVALID_PARAM for bytes that are no address of a worker."""

    __slots__ = ()

    def __new__(cls, data: Any) -> Self:
        view = bytes_view(data, name="address")
        WorkerAddress.unpack(view.tobytes())
        return super().__new__(cls, view.tobytes())

    @classmethod
    def create_from_buffer(cls, buffer: Any) -> Self:
        """The address that a peer has sent."""
        return cls(buffer)

    @classmethod
    def create_from_worker(cls, worker: Any) -> Self:
        """The address of a worker."""
        ucp: UcpWorker = worker.ucp
        return cls(ucp.pack_address())

    @property
    def address(self) -> int:
        """Where its bytes lie in this process."""
        return address_of(memoryview(self))

    @property
    def uid(self) -> int:
        """The random number of the worker."""
        return WorkerAddress.unpack(bytes(self)).uid


class RemoteKey(_Packed):
    """The right to use mapped memory, and where that is. Raises INVALID_PARAM for bytes that are no such key."""

    __slots__ = ()

    def __new__(cls, data: Any) -> Self:
        view = bytes_view(data, name="rkey")
        checked_key_buffer(view.tobytes())
        return super().__new__(cls, view.tobytes())

    @classmethod
    def create_from_buffer(cls, buffer: Any) -> Self:
        """The key that a peer has sent."""
        return cls(buffer)

    @property
    def address(self) -> int:
        """The first byte of the memory, as its own process has it."""
        return checked_key_buffer(bytes(self))["address"]

    @property
    def size(self) -> int:
        """Bytes of the memory."""
        return checked_key_buffer(bytes(self))["length"]
