"""libfabric's names of the engine's kinds of completions: ``flags`` of queue entries, and events of counters."""

from amoeba.libfabric.objects.constants import BindFlags, Caps
from amoeba.transport.requests import COUNTED_AS, DATA, KINDS, RELEASED, Counted, Kind

__all__ = ["COUNTER_OF", "CQ_FLAGS", "KINDS_OF"]

_FLAGS = {
    Kind.WRITE: Caps.FI_RMA | Caps.FI_WRITE,
    Kind.READ: Caps.FI_RMA | Caps.FI_READ,
    Kind.ATOMIC: Caps.FI_ATOMIC | Caps.FI_WRITE,
    Kind.FETCH_ATOMIC: Caps.FI_ATOMIC | Caps.FI_READ,
    Kind.SEND: Caps.FI_MSG | Caps.FI_SEND,
    Kind.TAGGED_SEND: Caps.FI_TAGGED | Caps.FI_SEND,
    Kind.RECEIVE: Caps.FI_MSG | Caps.FI_RECV,
    Kind.TAGGED_RECEIVE: Caps.FI_TAGGED | Caps.FI_RECV,
    Kind.TAGGED_ATOMIC_RECEIVE: Caps.FI_TAGGED | Caps.FI_ATOMIC | Caps.FI_RECV,
    Kind.REMOTE_WRITE: Caps.FI_RMA | Caps.FI_REMOTE_WRITE,
    Kind.REMOTE_READ: Caps.FI_RMA | Caps.FI_REMOTE_READ,
    Kind.REMOTE_ATOMIC: Caps.FI_ATOMIC | Caps.FI_REMOTE_WRITE,
}


def _flags(number: int) -> int:
    kind = number % KINDS
    flags = int(_FLAGS[Kind(kind)]) if kind in _FLAGS else 0
    flags |= int(Caps.FI_REMOTE_CQ_DATA) if number & DATA else 0
    return flags | (int(Caps.FI_MULTI_RECV) if number & RELEASED else 0)


CQ_FLAGS = tuple(_flags(number) for number in range(KINDS + DATA + RELEASED))
"""``flags`` of a queue entry, by the kind of its completion with all bits."""

_BINDS = {
    Counted.READS: BindFlags.FI_READ,
    Counted.WRITES: BindFlags.FI_WRITE,
    Counted.SENDS: BindFlags.FI_SEND,
    Counted.RECEIVES: BindFlags.FI_RECV,
}
COUNTER_OF = tuple(int(_BINDS.get(counted, BindFlags(0))) for counted in COUNTED_AS)
"""The binding flag of a counter that counts it, by kind; 0: no counter counts it."""
KINDS_OF = {bind: tuple(kind for kind in Kind if COUNTER_OF[kind] == bind) for bind in _BINDS.values()}
"""Kinds by binding flag."""
