"""Deferred work: ``struct fi_deferred_work``, fi_trigger(3)."""

from collections.abc import Callable
from typing import Any

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.embed import Memory
from amoeba.libfabric.calls.control import fi_control
from amoeba.libfabric.objects.constants import Control, OpFlags, TriggerOp
from amoeba.libfabric.objects.deferred_work import (
    DeferredWork,
    OpAtomic,
    OpCntr,
    OpCompareAtomic,
    OpFetchAtomic,
    OpMsg,
    OpRma,
    OpTagged,
)
from amoeba.libfabric.objects.domain import Domain
from amoeba.libfabric.provider.fids import Fid, FidClass, Fids
from amoeba.libfabric.provider.objects import enumerated
from amoeba.libfabric.provider.transfers import Vectors

__all__ = ["Works"]

_SENDERS = (FidClass.EP, FidClass.TX_CTX)
_RECEIVERS = (FidClass.EP, FidClass.RX_CTX, FidClass.SRX_CTX)


class Works:
    """Deferred work by its address in C, as long as the work may be cancelled."""

    def __init__(self, ffi: Any, memory: Memory, fids: Fids, vectors: Vectors) -> None:
        self._ffi, self._null = ffi, ffi.NULL
        self._memory, self._fids, self._vectors = memory, fids, vectors
        self._queued: dict[tuple[int, int], DeferredWork] = {}
        """Work by domain and address; replaced when C uses the memory again."""
        receive, send = (TriggerOp.FI_OP_RECV, TriggerOp.FI_OP_TRECV), (TriggerOp.FI_OP_SEND, TriggerOp.FI_OP_TSEND)
        self._translations: dict[TriggerOp, Callable[[Any, TriggerOp], Any]] = {
            receive[0]: self._message,
            send[0]: self._message,
            receive[1]: self._tagged,
            send[1]: self._tagged,
            TriggerOp.FI_OP_READ: self._rma,
            TriggerOp.FI_OP_WRITE: self._rma,
            TriggerOp.FI_OP_ATOMIC: self._atomic,
            TriggerOp.FI_OP_FETCH_ATOMIC: self._fetch,
            TriggerOp.FI_OP_COMPARE_ATOMIC: self._compare,
            TriggerOp.FI_OP_CNTR_SET: self._counter,
            TriggerOp.FI_OP_CNTR_ADD: self._counter,
        }

    def queue(self, domain: Fid, arg: Any) -> None:
        """Queue work: FI_QUEUE_WORK."""
        c = self._ffi.cast("struct fi_deferred_work *", self._memory.require(arg, "work"))
        kind: TriggerOp = enumerated(TriggerOp, c.op_type)
        self._memory.require(c.op, "op")
        completion = None
        if c.completion_cntr != self._null:
            completion = self._fids.subject(self._memory.address(c.completion_cntr), FidClass.CNTR)
        triggering = self._fids.subject(self._memory.address(c.triggering_cntr), FidClass.CNTR)
        work = DeferredWork(c.threshold, triggering, kind, self._translations[kind](c.op, kind), completion)
        fi_control(domain.subject, Control.FI_QUEUE_WORK, work)
        self._queued[id(domain.subject), self._memory.address(arg)] = work

    def cancel(self, domain: Fid, arg: Any) -> None:
        """Cancel work: FI_CANCEL_WORK. Raises FI_ENOENT for work that is not queued."""
        work = self._queued.pop((id(domain.subject), self._memory.address(arg)), None)
        if work is None:
            raise fabric_error(Errno.FI_ENOENT, "no such work was queued")
        fi_control(domain.subject, Control.FI_CANCEL_WORK, work)

    def flush(self, domain: Fid, arg: Any) -> None:
        """Flush the work of a counter or all: FI_FLUSH_WORK."""
        counter = None if arg == self._null else self._fids.subject(self._memory.address(arg), FidClass.CNTR)
        fi_control(domain.subject, Control.FI_FLUSH_WORK, counter)
        if counter is None:
            self.forget(domain.subject)

    def forget(self, domain: Domain) -> None:
        """Forget the work of a domain, which can no longer be cancelled."""
        self._queued = {key: work for key, work in self._queued.items() if key[0] != id(domain)}

    def _endpoint(self, c: Any, kind: TriggerOp) -> Any:
        receives = kind in (TriggerOp.FI_OP_RECV, TriggerOp.FI_OP_TRECV)
        return self._fids.subject(self._memory.address(c.ep), *(_RECEIVERS if receives else _SENDERS))

    def _message(self, op: Any, kind: TriggerOp) -> OpMsg:
        c = self._ffi.cast("struct fi_op_msg *", op)
        return OpMsg(self._endpoint(c, kind), self._vectors.message(c.msg, 0), OpFlags(c.flags))

    def _tagged(self, op: Any, kind: TriggerOp) -> OpTagged:
        c = self._ffi.cast("struct fi_op_tagged *", op)
        return OpTagged(self._endpoint(c, kind), self._vectors.message(c.msg, 1), OpFlags(c.flags))

    def _rma(self, op: Any, kind: TriggerOp) -> OpRma:
        c = self._ffi.cast("struct fi_op_rma *", op)
        return OpRma(self._endpoint(c, kind), self._vectors.rma(c.msg), OpFlags(c.flags))

    def _atomic(self, op: Any, kind: TriggerOp) -> OpAtomic:
        c = self._ffi.cast("struct fi_op_atomic *", op)
        return OpAtomic(self._endpoint(c, kind), self._vectors.atomic(c.msg), OpFlags(c.flags))

    def _fetch(self, op: Any, kind: TriggerOp) -> OpFetchAtomic:
        c = self._ffi.cast("struct fi_op_fetch_atomic *", op)
        msg = self._vectors.atomic(c.msg)
        return OpFetchAtomic(self._endpoint(c, kind), msg, self._elements(c.fetch, msg), None, OpFlags(c.flags))

    def _compare(self, op: Any, kind: TriggerOp) -> OpCompareAtomic:
        c = self._ffi.cast("struct fi_op_compare_atomic *", op)
        msg = self._vectors.atomic(c.msg)
        compared, results = self._elements(c.compare, msg), self._elements(c.fetch, msg)
        return OpCompareAtomic(self._endpoint(c, kind), msg, compared, results, flags=OpFlags(c.flags))

    def _elements(self, part: Any, msg: Any) -> list[Any]:
        return self._vectors.elements(part.msg_iov, part.iov_count, msg.datatype.size)

    def _counter(self, op: Any, kind: TriggerOp) -> OpCntr:
        c = self._ffi.cast("struct fi_op_cntr *", op)
        return OpCntr(self._fids.subject(self._memory.address(c.cntr), FidClass.CNTR), c.value)
