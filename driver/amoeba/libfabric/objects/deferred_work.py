"""Deferred work, as fi_trigger(3) defines it."""

import dataclasses
import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar

from amoeba.core.buffers import Buffer
from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.libfabric.objects.checks import check_instance, check_number
from amoeba.libfabric.objects.constants import OpFlags, TriggerOp
from amoeba.libfabric.objects.deferral import Deferral
from amoeba.libfabric.objects.operations.messages import MessageOperations
from amoeba.libfabric.objects.operations.receiving import ReceiveOperations
from amoeba.libfabric.objects.operations.vectors import AtomicMsg, Descs, Msg, RmaMsg, TaggedMsg
from amoeba.libfabric.objects.queues.counters import Counter
from amoeba.libfabric.objects.triggered import Trigger

if TYPE_CHECKING:
    from amoeba.libfabric.objects.domain_base import DomainBase
    from amoeba.libfabric.objects.endpoints.transmit import Posting

__all__ = [
    "DeferredWork",
    "OpAtomic",
    "OpCntr",
    "OpCompareAtomic",
    "OpFetchAtomic",
    "OpMsg",
    "OpRma",
    "OpTagged",
    "cancel_work",
    "flush_work",
    "queue_work",
]

_NO_FLAGS = OpFlags(0)
_REPORT = int(OpFlags.FI_COMPLETION)


@dataclass(frozen=True, eq=False)
class OpMsg:
    """``struct fi_op_msg``: a send, or a receive."""

    ep: ReceiveOperations
    msg: Msg
    flags: OpFlags = _NO_FLAGS


@dataclass(frozen=True, eq=False)
class OpTagged:
    """``struct fi_op_tagged``: a tagged send, or a tagged receive."""

    ep: ReceiveOperations
    msg: TaggedMsg
    flags: OpFlags = _NO_FLAGS


@dataclass(frozen=True, eq=False)
class OpRma:
    """``struct fi_op_rma``."""

    ep: "Posting"
    msg: RmaMsg
    flags: OpFlags = _NO_FLAGS


@dataclass(frozen=True, eq=False)
class OpAtomic:
    """``struct fi_op_atomic``."""

    ep: "Posting"
    msg: AtomicMsg
    flags: OpFlags = _NO_FLAGS


@dataclass(frozen=True, eq=False)
class OpFetchAtomic:
    """``struct fi_op_fetch_atomic``."""

    ep: "Posting"
    msg: AtomicMsg
    resultv: Sequence[Buffer]
    result_desc: Descs = None
    flags: OpFlags = _NO_FLAGS


@dataclass(frozen=True, eq=False)
class OpCompareAtomic:
    """``struct fi_op_compare_atomic``."""

    ep: "Posting"
    msg: AtomicMsg
    comparev: Sequence[Buffer]
    resultv: Sequence[Buffer]
    compare_desc: Descs = None
    result_desc: Descs = None
    flags: OpFlags = _NO_FLAGS


@dataclass(frozen=True, eq=False)
class OpCntr:
    """``struct fi_op_cntr``: set a counter, or add to it."""

    cntr: Counter
    value: int


@dataclass(frozen=True, eq=False)
class DeferredWork:
    """``struct fi_deferred_work``: something to do when a counter, successes and errors, has reached a threshold.

    Success of an operation is not reported, nor counted by its endpoint, unless its flags have FI_COMPLETION.
    """

    threshold: int
    triggering_cntr: Counter
    op_type: TriggerOp
    op: OpMsg | OpTagged | OpRma | OpAtomic | OpFetchAtomic | OpCompareAtomic | OpCntr
    """The one that ``op_type`` needs."""
    completion_cntr: Counter | None = None
    """Counts the operation when it is done; none for FI_OP_CNTR_SET and FI_OP_CNTR_ADD."""


@dataclass(frozen=True, eq=False)
class _WorkContext(Trigger):
    """The context of an operation that is deferred work; ``context``: that of its message."""

    cntr: Counter
    work: DeferredWork
    context: Any

    @property
    def op_context(self) -> Any:
        return self.context

    def is_silent(self, silent: bool, flags: int) -> bool:
        return not flags & _REPORT

    def defer(self, start: Callable[[Deferral], None], flags: int) -> Deferral:
        deferral = _defer(self.work, start)
        deferral.counted = bool(flags & _REPORT)
        return deferral


_Message = TypeVar("_Message", Msg, TaggedMsg, RmaMsg, AtomicMsg)


def _defer(work: DeferredWork, start: Callable[[Deferral], None]) -> Deferral:
    return Deferral(
        work.triggering_cntr, work.threshold, start, subject=work, with_errors=True, completion=work.completion_cntr
    )


def _message(work: DeferredWork, msg: _Message) -> _Message:
    check_instance("op.msg", msg, Msg, TaggedMsg, RmaMsg, AtomicMsg)
    return dataclasses.replace(msg, context=_WorkContext(work.triggering_cntr, work, msg.context))


def _sender(work: DeferredWork, ep: ReceiveOperations) -> MessageOperations:
    if not isinstance(ep, MessageOperations):
        raise fabric_error(Errno.FI_EINVAL, f"{work.op_type.name} needs an endpoint that sends, got {ep!r}")
    return ep


def _queue_send(work: DeferredWork, op: OpMsg) -> None:
    _sender(work, op.ep).sendmsg(_message(work, op.msg), op.flags | OpFlags.FI_TRIGGER)


def _queue_tagged_send(work: DeferredWork, op: OpTagged) -> None:
    _sender(work, op.ep).tsendmsg(_message(work, op.msg), op.flags | OpFlags.FI_TRIGGER)


def _queue_receive(work: DeferredWork, op: OpMsg) -> None:
    op.ep.recvmsg(_message(work, op.msg), op.flags | OpFlags.FI_TRIGGER)


def _queue_tagged_receive(work: DeferredWork, op: OpTagged) -> None:
    op.ep.trecvmsg(_message(work, op.msg), op.flags | OpFlags.FI_TRIGGER)


def _queue_write(work: DeferredWork, op: OpRma) -> None:
    op.ep.writemsg(_message(work, op.msg), op.flags | OpFlags.FI_TRIGGER)


def _queue_read(work: DeferredWork, op: OpRma) -> None:
    op.ep.readmsg(_message(work, op.msg), op.flags | OpFlags.FI_TRIGGER)


def _queue_atomic(work: DeferredWork, op: OpAtomic) -> None:
    op.ep.atomicmsg(_message(work, op.msg), op.flags | OpFlags.FI_TRIGGER)


def _queue_fetch_atomic(work: DeferredWork, op: OpFetchAtomic) -> None:
    op.ep.fetch_atomicmsg(
        _message(work, op.msg), op.resultv, result_desc=op.result_desc, flags=op.flags | OpFlags.FI_TRIGGER
    )


def _queue_compare_atomic(work: DeferredWork, op: OpCompareAtomic) -> None:
    op.ep.compare_atomicmsg(
        _message(work, op.msg),
        op.comparev,
        op.resultv,
        compare_desc=op.compare_desc,
        result_desc=op.result_desc,
        flags=op.flags | OpFlags.FI_TRIGGER,
    )


def _queue_cntr(work: DeferredWork, op: OpCntr) -> None:
    value = op.cntr._check("op.value", op.value)
    if work.completion_cntr is not None:
        raise fabric_error(Errno.FI_EINVAL, "work that changes a counter has no completion_cntr")
    change = op.cntr.set if work.op_type is TriggerOp.FI_OP_CNTR_SET else op.cntr.add
    op.cntr._deferrals.add(_defer(work, lambda deferral: change(value)))


_OPERATIONS: dict[TriggerOp, tuple[type, Callable[[DeferredWork, Any], None]]] = {
    TriggerOp.FI_OP_RECV: (OpMsg, _queue_receive),
    TriggerOp.FI_OP_SEND: (OpMsg, _queue_send),
    TriggerOp.FI_OP_TRECV: (OpTagged, _queue_tagged_receive),
    TriggerOp.FI_OP_TSEND: (OpTagged, _queue_tagged_send),
    TriggerOp.FI_OP_READ: (OpRma, _queue_read),
    TriggerOp.FI_OP_WRITE: (OpRma, _queue_write),
    TriggerOp.FI_OP_ATOMIC: (OpAtomic, _queue_atomic),
    TriggerOp.FI_OP_FETCH_ATOMIC: (OpFetchAtomic, _queue_fetch_atomic),
    TriggerOp.FI_OP_COMPARE_ATOMIC: (OpCompareAtomic, _queue_compare_atomic),
    TriggerOp.FI_OP_CNTR_SET: (OpCntr, _queue_cntr),
    TriggerOp.FI_OP_CNTR_ADD: (OpCntr, _queue_cntr),
}
"""The class that ``op`` must have, and the function that queues it."""


def queue_work(domain: "DomainBase", work: DeferredWork) -> None:
    """FI_QUEUE_WORK: see :meth:`amoeba.Domain.queue_work`."""
    if isinstance(work.op_type, enum.Enum):
        check_instance("op_type", work.op_type, TriggerOp)
    if work.op_type not in _OPERATIONS:
        raise fabric_error(Errno.FI_ENOSYS, f"{work.op_type!r} cannot be deferred")
    expected, queue = _OPERATIONS[work.op_type]
    check_number("threshold", work.threshold)
    check_instance("triggering_cntr", work.triggering_cntr, Counter)
    check_instance("completion_cntr", work.completion_cntr, Counter, NoneType)
    if not isinstance(work.op, expected):
        raise fabric_error(
            Errno.FI_EINVAL, f"{work.op_type.name} needs an {expected.__name__}, got {type(work.op).__name__}"
        )
    changed = work.op.cntr if isinstance(work.op, OpCntr) else None
    for cntr in (work.triggering_cntr, work.completion_cntr, changed):
        if cntr is not None:
            cntr._check_open()
            cntr._check_made_from(domain)
    if not isinstance(work.op, OpCntr) and work.op.ep.domain is not domain:
        raise fabric_error(Errno.FI_EINVAL, f"{work.op.ep!r} belongs to another domain")
    if domain._deferrals.holds(work):
        raise fabric_error(Errno.FI_EALREADY, "this work is queued, or in flight")
    queue(work, work.op)


def cancel_work(domain: "DomainBase", work: DeferredWork) -> None:
    """FI_CANCEL_WORK: see :meth:`amoeba.Domain.cancel_work`."""
    if not domain._deferrals.withdraw(lambda deferral: deferral.subject is work):
        raise fabric_error(Errno.FI_ENOENT, "this work is not queued: it was started, or never submitted")


def flush_work(domain: "DomainBase", cntr: Counter | None = None) -> None:
    """FI_FLUSH_WORK: see :meth:`amoeba.Domain.flush_work`."""
    domain._deferrals.withdraw(
        lambda deferral: isinstance(deferral.subject, DeferredWork) and cntr in (None, deferral.counter)
    )
