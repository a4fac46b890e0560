"""Operations on scattered memory: how an application describes them.

Segments of a peer's memory hold Python's integers, whatever integers they are given: those of NumPy overflow.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from amoeba.core.buffers import Buffer
from amoeba.core.errors import type_error
from amoeba.libfabric.objects.checks import check_number
from amoeba.libfabric.objects.constants import FI_ADDR_UNSPEC, Datatype, Op

if TYPE_CHECKING:
    from amoeba.libfabric.objects.memory_region import MemoryRegion

__all__ = ["AtomicMsg", "Descs", "Msg", "RmaIoc", "RmaIov", "RmaMsg", "TaggedMsg"]

Descs = Sequence["MemoryRegion | None"] | None
"""The regions that hold the buffers of a vector, one for each; None: none of them is registered."""


@dataclass(frozen=True)
class RmaIov:
    """``struct fi_rma_iov``: consecutive bytes of a peer's memory.

    Raises ArgumentTypeError for what is no integer, FI_EINVAL for one that has more than 64 bits.
    """

    addr: int
    """As in :class:`amoeba.Endpoint`."""
    len: int
    """Bytes."""
    key: int

    def __post_init__(self) -> None:
        _make_numbers(self, "addr", "len", "key")


@dataclass(frozen=True)
class RmaIoc:
    """``struct fi_rma_ioc``: consecutive elements of a peer's memory. Raises the same as :class:`RmaIov`."""

    addr: int
    count: int
    """Elements of the operation's datatype."""
    key: int

    def __post_init__(self) -> None:
        _make_numbers(self, "addr", "count", "key")


@dataclass(frozen=True)
class RmaMsg:
    """``struct fi_msg_rma``: what ``writemsg`` and ``readmsg`` shall do.

    The local bytes, one buffer after the other, go to or come from the remote ones, one segment after the other.
    Raises ArgumentTypeError if ``rma_iov`` is no sequence of RmaIov.
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

    def __post_init__(self) -> None:
        _check_segments(self.rma_iov, RmaIov)


@dataclass(frozen=True)
class AtomicMsg:
    """``struct fi_msg_atomic``: what ``atomicmsg``, ``fetch_atomicmsg`` and ``compare_atomicmsg`` shall do.

    Raises ArgumentTypeError if ``rma_iov`` is no sequence of RmaIoc.
    """

    msg_iov: Sequence[Buffer] | None
    """Operands, whole elements in each buffer. FI_ATOMIC_READ ignores them; None is as good."""
    addr: int
    """The peer: its number in the address vector."""
    rma_iov: Sequence[RmaIoc]
    """As many elements of its memory."""
    op: Op
    datatype: Datatype | None = None
    """Taken from the first buffer that names one if not given."""
    desc: Descs = None
    context: Any = None
    """Comes back in the completion."""
    data: int = 0
    """Immediate data (64 bits), sent with FI_REMOTE_CQ_DATA."""

    def __post_init__(self) -> None:
        _check_segments(self.rma_iov, RmaIoc)


@dataclass(frozen=True)
class Msg:
    """``struct fi_msg``: what ``sendmsg`` and ``recvmsg`` shall do."""

    msg_iov: Sequence[Buffer]
    """The message, or where it goes."""
    addr: int = FI_ADDR_UNSPEC
    """The destination of a send; the source of a receive, FI_ADDR_UNSPEC: anybody."""
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
    """The destination of a send; the source of a receive, FI_ADDR_UNSPEC: anybody."""
    tag: int
    """64 bits."""
    ignore: int = 0
    """Bits of the tag that need not be the same; for receives."""
    desc: Descs = None
    context: Any = None
    """Comes back in the completion."""
    data: int = 0
    """Immediate data (64 bits), sent with FI_REMOTE_CQ_DATA."""


def _make_numbers(segment: object, *names: str) -> None:
    """Let these fields be Python's integers of 64 bits."""
    for name in names:
        value = getattr(segment, name)
        number = check_number(f"{type(segment).__name__}.{name}", value)
        if number is not value:
            object.__setattr__(segment, name, number)


def _check_segments(segments: object, kind: type) -> None:
    """Raise ArgumentTypeError unless these are a sequence of segments of this kind."""
    if not isinstance(segments, Sequence):
        raise type_error("rma_iov", f"a sequence of {kind.__name__}", segments)
    for index, segment in enumerate(segments):
        if not isinstance(segment, kind):
            raise type_error(f"rma_iov[{index}]", kind.__name__, segment)
