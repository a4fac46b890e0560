"""Operations on scattered memory: how an application describes them, and how they are cut into descriptors."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from amoeba.constants import FI_ADDR_UNSPEC, Datatype, Op
from amoeba.memory import Buffer

if TYPE_CHECKING:
    from amoeba.domain import MemoryRegion

__all__ = ["AtomicMsg", "Descs", "Msg", "RmaIoc", "RmaIov", "RmaMsg", "Segment", "TaggedMsg", "cut"]

Descs = Sequence["MemoryRegion | None"] | None
"""The regions that hold the buffers of a vector, one for each; None: none of them is registered."""


@dataclass(frozen=True)
class RmaIov:
    """``struct fi_rma_iov``: consecutive bytes of a peer's memory."""

    addr: int
    """As in :class:`amoeba.Endpoint`."""
    len: int
    """Bytes."""
    key: int


@dataclass(frozen=True)
class RmaIoc:
    """``struct fi_rma_ioc``: consecutive elements of a peer's memory."""

    addr: int
    count: int
    """Elements of the operation's datatype."""
    key: int


@dataclass(frozen=True)
class RmaMsg:
    """``struct fi_msg_rma``: what ``writemsg`` and ``readmsg`` shall do.

    The local bytes, one buffer after the other, go to or come from the remote ones, one segment after the other.
    """

    msg_iov: Sequence[Buffer]
    """Local buffers."""
    addr: int
    """The peer: its number in the address vector."""
    rma_iov: Sequence[RmaIov]
    """As many bytes of its memory."""
    desc: Descs = None
    context: Any = None
    """Comes back in the completion."""
    data: int = 0
    """Immediate data (64 bits), sent with FI_REMOTE_CQ_DATA."""


@dataclass(frozen=True)
class AtomicMsg:
    """``struct fi_msg_atomic``: what ``atomicmsg``, ``fetch_atomicmsg`` and ``compare_atomicmsg`` shall do."""

    msg_iov: Sequence[Buffer]
    """Operands, whole elements in each buffer; none for FI_ATOMIC_READ."""
    addr: int
    """The peer: its number in the address vector."""
    rma_iov: Sequence[RmaIoc]
    """As many elements of its memory."""
    op: Op
    datatype: Datatype | None = None
    """Taken from the first NumPy array if not given."""
    desc: Descs = None
    context: Any = None
    """Comes back in the completion."""
    data: int = 0
    """Immediate data (64 bits), sent with FI_REMOTE_CQ_DATA."""


@dataclass(frozen=True)
class Msg:
    """``struct fi_msg``: what ``sendmsg`` and ``recvmsg`` shall do."""

    msg_iov: Sequence[Buffer]
    """The message, or where it goes."""
    addr: int = FI_ADDR_UNSPEC
    """Whom to send it to; from whom to receive it, FI_ADDR_UNSPEC: from anybody."""
    desc: Descs = None
    context: Any = None
    """Comes back in the completion."""
    data: int = 0
    """Immediate data (64 bits), sent with FI_REMOTE_CQ_DATA."""


@dataclass(frozen=True)
class TaggedMsg:
    """``struct fi_msg_tagged``: what ``tsendmsg`` and ``trecvmsg`` shall do."""

    msg_iov: Sequence[Buffer]
    """The message, or where it goes."""
    addr: int
    """Whom to send it to; from whom to receive it, FI_ADDR_UNSPEC: from anybody."""
    tag: int
    """64 bits."""
    ignore: int = 0
    """Bits of the tag that need not be the same; for receives."""
    desc: Descs = None
    context: Any = None
    """Comes back in the completion."""
    data: int = 0
    """Immediate data (64 bits), sent with FI_REMOTE_CQ_DATA."""


class Segment(NamedTuple):
    """Consecutive bytes of local or remote memory."""

    address: int
    length: int
    key: int = 0


def cut(vectors: Sequence[Sequence[Segment]]) -> list[tuple[Segment, ...]]:
    """Cut vectors of the same total length wherever a segment of one of them ends.

    Returns the pieces: of each as many segments of one length as there are vectors. Of nothing that is one piece, of
    no bytes.
    """
    ends = sorted({end for vector in vectors for end in itertools.accumulate(segment.length for segment in vector)})
    if not ends or not ends[-1]:
        return [tuple(vector[0]._replace(length=0) if vector else Segment(0, 0) for vector in vectors)]
    ends = ends[1:] if not ends[0] else ends
    return list(zip(*(_pieces(vector, ends) for vector in vectors), strict=True))


def _pieces(vector: Sequence[Segment], ends: Sequence[int]) -> Iterator[Segment]:
    """The segments of one vector, cut at ``ends``, which are those of its segments and others."""
    rest = iter(segment for segment in vector if segment.length)
    address = length = key = begin = 0
    for end in ends:
        if not length:
            address, length, key = next(rest)
        yield Segment(address, end - begin, key)
        address, length, begin = address + end - begin, length - (end - begin), end
