"""A target in another process: its calls travel through the rendezvous where the processes met."""

from collections.abc import Callable
from typing import Any, TypeVar

from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError, fabric_error
from amoeba.devices.bootstrap import Rendezvous, understood
from amoeba.libfabric.objects.fabric import Fabric

from amoeba_tools.conformance.target import Exposed, Heard, TargetSide, idle

__all__ = ["RemoteTarget", "serve"]

Result = TypeVar("Result")

_CALLS = ("name", "meet", "part", "expose", "load", "store", "withdraw", "forget", "send", "receive", "hear")


class RemoteTarget:
    """The target of a pair for rank 0; rank 1 runs :func:`serve` meanwhile.

    A call is two exchanges: one brings the call, one what came of it. Raises FI_ECONNABORTED if the other process
    is gone, and whatever its call raised there.
    """

    def __init__(self, fabric: Fabric, rendezvous: Rendezvous) -> None:
        self._rendezvous = rendezvous
        self._idle = idle(fabric)

    def name(self, domain: int) -> bytes:
        return self._call(_bytes, "name", domain)

    def meet(self, name: bytes) -> int:
        return self._call(int, "meet", name)

    def part(self, number: int) -> None:
        self._call(_nothing, "part", number)

    def expose(self, content: bytes, access: int, key: int | None, domain: int) -> Exposed:
        return self._call(lambda told: Exposed(*told), "expose", content, access, key, domain)

    def load(self, handle: int, offset: int, length: int) -> bytes:
        return self._call(_bytes, "load", handle, offset, length)

    def store(self, handle: int, offset: int, content: bytes) -> None:
        self._call(_nothing, "store", handle, offset, content)

    def withdraw(self, handle: int) -> None:
        self._call(_nothing, "withdraw", handle)

    def forget(self) -> None:
        self._call(_nothing, "forget")

    def send(self, number: int, content: bytes, tag: int | None, data: int | None) -> None:
        self._call(_nothing, "send", number, content, tag, data)

    def receive(self, content: bytes, sizes: list[int], tag: int | None, ignore: int) -> int:
        return self._call(int, "receive", content, sizes, tag, ignore)

    def hear(self, count: int, timeout: float) -> list[Heard]:
        return self._call(lambda told: [Heard(*entry) for entry in told], "hear", count, timeout)

    def dismiss(self) -> None:
        """Let :func:`serve` return."""
        self._rendezvous.exchange(None, idle=self._idle)

    def _call(self, read: Callable[[Any], Result], name: str, *arguments: Any) -> Result:
        self._rendezvous.exchange([name, *map(_packed, arguments)], idle=self._idle)
        answers = self._rendezvous.exchange(None, idle=self._idle)
        with understood():
            _, (failure, result) = answers
            if failure is not None:
                raise fabric_error(Errno(failure), str(result))
            return read(_unpacked(result))


def serve(side: TargetSide, rendezvous: Rendezvous) -> None:
    """Do what rank 0 asks until it has no more to ask. Raises FI_ECONNABORTED if it is gone."""
    while (call := rendezvous.exchange(None, idle=side.idle)[0]) is not None:
        with understood():
            name, *arguments = call
            if name not in _CALLS:
                raise fabric_error(Errno.FI_EINVAL, f"a target is asked for {', '.join(_CALLS)}, got {name!r}")
            try:
                answer = [None, _packed(getattr(side, name)(*map(_unpacked, arguments)))]
            except FabricError as error:
                answer = [int(error.fi_errno), error.strerror]
        rendezvous.exchange(answer, idle=side.idle)


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"expected bytes, got {value!r}")
    return value


def _nothing(_: Any) -> None:
    pass


def _packed(value: Any) -> Any:
    """Convert a value to a form that JSON can carry."""
    return {"hex": value.hex()} if isinstance(value, bytes) else value


def _unpacked(value: Any) -> Any:
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else value
