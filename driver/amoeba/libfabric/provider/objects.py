"""Calls that open objects, of the pages from fi_fabric(3) to fi_poll(3)."""

import dataclasses
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.embed import Memory
from amoeba.libfabric.objects.constants import (
    AvFlags,
    AvType,
    CntrEvents,
    CqFlags,
    CqFormat,
    CqWaitCond,
    EpType,
    EqFlags,
    MrAccess,
    MrFlags,
    Progress,
    Threading,
    WaitObj,
)
from amoeba.libfabric.objects.domain import Domain
from amoeba.libfabric.objects.info import PROVIDER
from amoeba.libfabric.objects.queues.completion import CompletionQueue
from amoeba.libfabric.objects.queues.wait_set import WaitSet
from amoeba.libfabric.objects.structures import Info, RxAttr, TxAttr
from amoeba.libfabric.provider.fids import Fid, FidClass, Fids
from amoeba.libfabric.provider.infos import Infos, Wanted
from amoeba.libfabric.provider.process import Process

__all__ = ["EndpointSettings", "Objects", "QueueSettings", "enumerated"]

_ENTRIES = {
    CqFormat.FI_CQ_FORMAT_CONTEXT: struct.Struct("=Q"),
    CqFormat.FI_CQ_FORMAT_MSG: struct.Struct("=QQQ"),
    CqFormat.FI_CQ_FORMAT_DATA: struct.Struct("=QQQQQ"),
    CqFormat.FI_CQ_FORMAT_TAGGED: struct.Struct("=QQQQQQ"),
}
"""Layouts of ``struct fi_cq_entry`` and the others."""


@dataclass
class QueueSettings:
    """Further settings of a completion queue, event queue or counter."""

    wait_obj: WaitObj
    """As the application asked; an event queue has a descriptor in any case."""
    entry: struct.Struct | None = None
    """Of a completion queue: the format of its entries."""
    threshold: bool = False
    """Of a completion queue: whether reading waits for a number of entries."""
    signalled: bool = False


@dataclass
class EndpointSettings:
    """Settings of an endpoint that the driver does not keep."""

    port: int = 0
    """Port of its NIC; 0: any port."""


def enumerated(kind: Any, number: int) -> Any:
    """Convert a number to a member of an enumeration. Raises FI_EINVAL for an unknown number."""
    try:
        return kind(number)
    except ValueError:
        raise fabric_error(Errno.FI_EINVAL, f"there is no {kind.__name__} {number}") from None


def _no_flags(flags: int, what: str) -> None:
    if flags:
        raise fabric_error(Errno.FI_EBADFLAGS, f"{what} has no flags, got {flags:#x}")


class Objects:
    """The calls that open objects: each writes the new object's address where C asked for it."""

    def __init__(self, ffi: Any, memory: Memory, fids: Fids, infos: Infos, process: Process) -> None:
        self._null = ffi.NULL
        self._memory, self._fids, self._infos, self._process = memory, fids, infos, process

    def _open(
        self, out: Any, fclass: FidClass, make: Callable[[], Any], context: int, held: Iterable[Fid], more: Any = None
    ) -> Fid:
        """Make an object, and store its address for C. ``held``: objects that outlive it, first its parent."""
        self._memory.require(out, "object")
        held = tuple(held)
        subject = make()
        try:
            fid = self._fids.add(fclass, subject, context, held)
        except BaseException:
            subject.close()
            raise
        fid.more = more
        out[0] = fid.address
        return fid

    # From the provider and a fabric

    def fabric_open(self, attr: Any, context: int, out: Any) -> None:
        self._memory.require(attr, "attr")
        self._memory.require(out, "fabric")
        name = self._memory.string(attr.name)
        if name not in (None, PROVIDER):
            raise fabric_error(Errno.FI_ENODEV, f"expected the fabric {PROVIDER}, got {name!r}")
        # each fabric of C's is a use of the one fabric
        use = _Use(self._process)
        fid = self._fids.add(FidClass.FABRIC, use, context)
        fid.api_version = attr.api_version
        fid.c.slots[1] = attr.api_version
        out[0] = fid.address

    def domain_open(self, fabric: int, info: Any, flags: int, context: int, out: Any) -> None:
        _no_flags(flags, "opening a domain")
        parent = self._fids.get(fabric, FidClass.FABRIC)
        wanted = self._infos.take(self._memory.require(info, "info"))
        if wanted.source is not None and wanted.info.ep_attr.type is not EpType.FI_EP_MSG:
            self._process.move(wanted.source.port)
        settled = self._settled(wanted)
        self._open(out, FidClass.DOMAIN, lambda: self._process.domain(settled), context, (parent,))

    def _settled(self, wanted: Wanted) -> Info:
        """Adapt an info to the driver: C's calls come one at a time."""
        info, attr = wanted.info, wanted.info.domain_attr
        automatic = Progress.FI_PROGRESS_AUTO in (attr.control_progress, attr.data_progress)
        attr = dataclasses.replace(
            attr,
            name=attr.name or f"{PROVIDER}0",
            threading=Threading.FI_THREAD_SAFE if automatic else Threading.FI_THREAD_DOMAIN,
        )
        address = None
        if wanted.source is not None:
            known = dataclasses.replace(wanted.source, port=wanted.source.port or 1)
            address = known.address()
        handle = None
        if wanted.handle:
            handle = self._fids.subject(wanted.handle, FidClass.CONNREQ)
        return dataclasses.replace(info, domain_attr=attr, src_addr=address, handle=handle)

    def pep_open(self, fabric: int, info: Any, context: int, out: Any) -> None:
        parent = self._fids.get(fabric, FidClass.FABRIC)
        wanted = self._infos.take(self._memory.require(info, "info"))

        def make() -> Any:
            passive = self._process.fabric.passive_ep(wanted.info)
            where = wanted.source
            passive.setname((self._process.nic.link[0], 0) if where is None else (where.host, where.port))
            return passive

        self._open(out, FidClass.PEP, make, context, (parent,))

    def eq_open(self, fabric: int, attr: Any, context: int, out: Any) -> None:
        parent = self._fids.get(fabric, FidClass.FABRIC)
        size, flags, wait_obj, wait_set = 0, 0, WaitObj.FI_WAIT_UNSPEC, None
        if attr != self._null:
            size, flags = attr.size, attr.flags
            wait_obj, wait_set = self._waiting(attr.wait_obj, attr.wait_set)
        # with a descriptor, by which the process sleeps until there is an event
        own = WaitObj.FI_WAIT_SET if wait_obj is WaitObj.FI_WAIT_SET else WaitObj.FI_WAIT_FD
        if wait_obj in (WaitObj.FI_WAIT_MUTEX_COND, WaitObj.FI_WAIT_POLLFD):
            own = wait_obj  # which the driver refuses
        self._open(
            out,
            FidClass.EQ,
            lambda: self._process.fabric.eq_open(
                size, EqFlags(flags & ~CqFlags.FI_AFFINITY), own, None if wait_set is None else wait_set.subject
            ),
            context,
            (parent,) if wait_set is None else (parent, wait_set),
            QueueSettings(wait_obj),
        )

    def _waiting(self, wait_obj: int, wait_set: Any) -> tuple[WaitObj, Fid | None]:
        """Return the wait object. Raises FI_EINVAL for FI_WAIT_SET without a set."""
        kind: WaitObj = enumerated(WaitObj, wait_obj)
        if kind is not WaitObj.FI_WAIT_SET:
            return kind, None
        self._memory.require(wait_set, "wait_set")
        return kind, self._fids.get(self._memory.address(wait_set), FidClass.WAIT)

    def wait_open(self, fabric: int, attr: Any, out: Any) -> None:
        parent = self._fids.get(fabric, FidClass.FABRIC)
        _no_flags(self._memory.require(attr, "attr").flags, "a wait set")
        wait_obj: WaitObj = enumerated(WaitObj, attr.wait_obj)

        def make() -> WaitSet:
            return self._process.fabric.wait_open(wait_obj)

        self._open(out, FidClass.WAIT, make, 0, (parent,), QueueSettings(wait_obj))

    # From a domain

    def _domain(self, address: int) -> tuple[Fid, Domain]:
        fid = self._fids.get(address, FidClass.DOMAIN)
        return fid, fid.subject

    def av_open(self, domain: int, attr: Any, context: int, out: Any) -> None:
        parent, owner = self._domain(domain)
        self._memory.require(attr, "attr")
        kind: AvType = enumerated(AvType, attr.type)
        fid = self._open(
            out,
            FidClass.AV,
            lambda: owner.av_open(
                kind, AvFlags(attr.flags), attr.rx_ctx_bits, count=attr.count, name=self._memory.string(attr.name)
            ),
            context,
            (parent,),
        )
        attr.type = int(fid.subject.type)

    def cq_open(self, domain: int, attr: Any, context: int, out: Any) -> None:
        parent, owner = self._domain(domain)
        self._memory.require(attr, "attr")
        if attr.flags & ~int(CqFlags.FI_AFFINITY):
            raise fabric_error(Errno.FI_EBADFLAGS, f"a queue is opened with FI_AFFINITY or not, got {attr.flags:#x}")
        wait_obj, wait_set = self._waiting(attr.wait_obj, attr.wait_set)
        cq_format: CqFormat = enumerated(CqFormat, attr.format)
        cond: CqWaitCond = enumerated(CqWaitCond, attr.wait_cond)

        def make() -> CompletionQueue[Any]:
            return owner.cq_open(
                cq_format,
                wait_obj,
                wait_cond=cond,
                wait_set=None if wait_set is None else wait_set.subject,
                size=attr.size,
            )

        entry = _ENTRIES[cq_format or CqFormat.FI_CQ_FORMAT_CONTEXT]
        settings = QueueSettings(wait_obj, entry, cond is CqWaitCond.FI_CQ_COND_THRESHOLD)
        self._open(
            out, FidClass.CQ, make, context, (parent,) if wait_set is None else (parent, wait_set), settings
        )

    def cntr_open(self, domain: int, attr: Any, context: int, out: Any) -> None:
        parent, owner = self._domain(domain)
        wait_obj, wait_set = WaitObj.FI_WAIT_UNSPEC, None
        if attr != self._null:
            _no_flags(attr.flags, "a counter")
            enumerated(CntrEvents, attr.events)
            wait_obj, wait_set = self._waiting(attr.wait_obj, attr.wait_set)
        # programs wait for counters that they opened with FI_WAIT_NONE, too
        own = WaitObj.FI_WAIT_UNSPEC if wait_obj is WaitObj.FI_WAIT_NONE else wait_obj
        self._open(
            out,
            FidClass.CNTR,
            lambda: owner.cntr_open(own, None if wait_set is None else wait_set.subject),
            context,
            (parent,) if wait_set is None else (parent, wait_set),
            QueueSettings(wait_obj),
        )

    def poll_open(self, domain: int, attr: Any, out: Any) -> None:
        parent, owner = self._domain(domain)
        if attr != self._null:
            _no_flags(attr.flags, "a poll set")
        self._open(out, FidClass.POLL, owner.poll_open, 0, (parent,))

    def ep_open(self, domain: int, scalable: int, info: Any, flags: int, context: int, out: Any) -> None:
        parent, owner = self._domain(domain)
        _no_flags(flags, "opening an endpoint")
        wanted = self._infos.take(self._memory.require(info, "info"))
        settled = self._settled(wanted)
        port = 0 if wanted.source is None or settled.ep_attr.type is EpType.FI_EP_MSG else wanted.source.port
        make = owner.scalable_endpoint if scalable else owner.endpoint
        fclass = FidClass.SEP if scalable else FidClass.EP
        self._open(out, fclass, lambda: make(settled), context, (parent,), EndpointSettings(port))
        if wanted.handle:  # it is answered by this endpoint, or not at all
            request = self._fids.get(wanted.handle, FidClass.CONNREQ)
            self._fids.remove(request)

    def stx_open(self, domain: int, attr: Any, context: int, out: Any) -> None:
        parent, owner = self._domain(domain)
        wanted = self._infos.attribute(TxAttr, attr)
        self._open(out, FidClass.STX_CTX, lambda: owner.stx_context(wanted), context, (parent,))

    def srx_open(self, domain: int, attr: Any, context: int, out: Any) -> None:
        parent, owner = self._domain(domain)
        wanted = self._infos.attribute(RxAttr, attr)
        self._open(out, FidClass.SRX_CTX, lambda: owner.srx_context(wanted), context, (parent,))

    def tx_open(self, sep: int, index: int, attr: Any, context: int, out: Any) -> None:
        parent = self._fids.get(sep, FidClass.SEP)
        wanted = None if attr == self._null else self._infos.attribute(TxAttr, attr)
        self._open(
            out,
            FidClass.TX_CTX,
            lambda: (
                parent.subject.tx_context(index)
                if wanted is None
                else parent.subject.tx_context(index, tx_size=wanted.size or None, op_flags=wanted.op_flags)
            ),
            context,
            (parent,),
        )

    def rx_open(self, sep: int, index: int, attr: Any, context: int, out: Any) -> None:
        parent = self._fids.get(sep, FidClass.SEP)
        wanted = self._infos.attribute(RxAttr, attr)
        self._open(
            out,
            FidClass.RX_CTX,
            lambda: parent.subject.rx_context(index, rx_size=wanted.size or None, op_flags=wanted.op_flags),
            context,
            (parent,),
        )

    def mr_open(
        self,
        domain: int,
        iov: Any,
        count: int,
        access: int,
        offset: int,
        key: int,
        auth_key_size: int,
        flags: int,
        context: int,
        out: Any,
    ) -> None:
        parent, owner = self._domain(domain)
        if count != 1 or offset or auth_key_size:
            raise fabric_error(
                Errno.FI_EINVAL,
                f"a region has one segment, no offset and no key of its own, got {count}, {offset} and "
                f"{auth_key_size} bytes",
            )
        self._memory.require(iov, "iov")
        view = self._memory.view(iov[0].iov_base, iov[0].iov_len)
        # a region without rights is possible: such a region is not needed for an operation
        rights = MrAccess(access) if access else MrAccess.FI_SEND
        fid = self._open(
            out,
            FidClass.MR,
            lambda: owner.mr_reg(view, rights, requested_key=key, flags=MrFlags(flags), context=context),
            context,
            (parent,),
        )
        fid.c.slots[0], fid.c.slots[1] = fid.address, fid.subject.key


class _Use:
    """The driver's object behind a ``fid_fabric``: one use of the process's fabric."""

    def __init__(self, process: Process) -> None:
        self.process = process
        process.use()

    def close(self) -> None:
        self.process.drop()


