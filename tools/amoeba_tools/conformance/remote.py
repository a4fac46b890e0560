"""A target in another process: its calls travel through the rendezvous where the processes met."""

from typing import Any

from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError, fabric_error
from amoeba.devices.bootstrap import Rendezvous
from amoeba.libfabric.objects.fabric import Fabric

from amoeba_tools.conformance.target import Exposed, Heard, TargetSide, idle

__all__ = ["RemoteTarget", "serve"]

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
        return bytes(self._call("name", domain))

    def meet(self, name: bytes) -> int:
        return int(self._call("meet", name))

    def part(self, number: int) -> None:
        self._call("part", number)

    def expose(self, content: bytes, access: int, key: int | None, domain: int) -> Exposed:
        return Exposed(*self._call("expose", content, access, key, domain))

    def load(self, handle: int, offset: int, length: int) -> bytes:
        return bytes(self._call("load", handle, offset, length))

    def store(self, handle: int, offset: int, content: bytes) -> None:
        self._call("store", handle, offset, content)

    def withdraw(self, handle: int) -> None:
        self._call("withdraw", handle)

    def forget(self) -> None:
        self._call("forget")

    def send(self, number: int, content: bytes, tag: int | None, data: int | None) -> None:
        self._call("send", number, content, tag, data)

    def receive(self, content: bytes, sizes: list[int], tag: int | None, ignore: int) -> int:
        return int(self._call("receive", content, sizes, tag, ignore))

    def hear(self, count: int, timeout: float) -> list[Heard]:
        return [Heard(*entry) for entry in self._call("hear", count, timeout)]

    def dismiss(self) -> None:
        """Let :func:`serve` return."""
        self._rendezvous.exchange(None, idle=self._idle)

    def _call(self, name: str, *arguments: Any) -> Any:
        self._rendezvous.exchange([name, *map(_packed, arguments)], idle=self._idle)
        _, (failure, result) = self._rendezvous.exchange(None, idle=self._idle)
        if failure is not None:
            raise fabric_error(Errno(failure), result)
        return _unpacked(result)


def serve(side: TargetSide, rendezvous: Rendezvous) -> None:
    """Do what rank 0 asks until it has no more to ask. Raises FI_ECONNABORTED if it is gone."""
    while (call := rendezvous.exchange(None, idle=side.idle)[0]) is not None:
        name, *arguments = call
        if name not in _CALLS:
            raise fabric_error(Errno.FI_EINVAL, f"a target is asked for {', '.join(_CALLS)}, got {name!r}")
        try:
            answer = [None, _packed(getattr(side, name)(*map(_unpacked, arguments)))]
        except FabricError as error:
            answer = [int(error.fi_errno), error.strerror]
        rendezvous.exchange(answer, idle=side.idle)


def _packed(value: Any) -> Any:
    """Convert a value to a form that JSON can carry."""
    return {"hex": value.hex()} if isinstance(value, bytes) else value


def _unpacked(value: Any) -> Any:
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else value
