"""Domains and memory regions: a NIC opened by an application, and memory that its peers may access."""

import functools
from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Any, Literal, overload

from amoeba.core.buffers import Buffer
from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.core.lifetime import FabricObject
from amoeba.libfabric.objects.address_vector import AddressVector
from amoeba.libfabric.objects.checks import check_enum, check_flags, check_instance, check_number
from amoeba.libfabric.objects.connections import ConnectionRequest
from amoeba.libfabric.objects.constants import (
    FI_SHARED_CONTEXT,
    AvFlags,
    AvType,
    BindFlags,
    Caps,
    CqFormat,
    CqWaitCond,
    DomainFlags,
    EpType,
    EqEvent,
    MrAccess,
    MrFlags,
    MrMode,
    OpFlags,
    WaitObj,
)
from amoeba.libfabric.objects.deferred_work import DeferredWork, cancel_work, flush_work, queue_work
from amoeba.libfabric.objects.domain_base import AtomicAttr, DomainBase
from amoeba.libfabric.objects.endpoints.connected import ConnectedEndpoint
from amoeba.libfabric.objects.endpoints.endpoint import Endpoint
from amoeba.libfabric.objects.endpoints.scalable import ScalableEndpoint
from amoeba.libfabric.objects.endpoints.shared_context import SharedTransmitContext
from amoeba.libfabric.objects.endpoints.shared_receive import SharedReceiveContext
from amoeba.libfabric.objects.endpoints.transmit import DEFAULT_TX_SIZE, has_lanes, ring_size
from amoeba.libfabric.objects.memory_region import MemoryRegion, MrAttr, key_of
from amoeba.libfabric.objects.queues.completion import (
    CompletionQueue,
    CqDataEntry,
    CqEntry,
    CqMsgEntry,
    CqTaggedEntry,
)
from amoeba.libfabric.objects.queues.counters import Counter
from amoeba.libfabric.objects.queues.event_queue import EventQueue
from amoeba.libfabric.objects.queues.poll_set import PollSet
from amoeba.libfabric.objects.queues.wait_set import WaitSet
from amoeba.libfabric.objects.receiver import DEFAULT_RX_SIZE
from amoeba.libfabric.objects.structures import Info, RxAttr, TxAttr
from amoeba.nic.nic import Nic
from amoeba.transport.protection_domain import ProtectionDomain

__all__ = ["AtomicAttr", "Domain", "MemoryRegion", "MrAttr"]

_NO_AV_FLAGS = AvFlags(0)
_NO_DOMAIN_FLAGS = DomainFlags(0)
_NO_MR_FLAGS = MrFlags(0)
_SUPPORTED_MODES = (
    MrMode.FI_MR_VIRT_ADDR | MrMode.FI_MR_ALLOCATED | MrMode.FI_MR_PROV_KEY | MrMode.FI_MR_LOCAL
)


class Domain(DomainBase):
    """A NIC and a protection domain on it: only endpoints of this domain reach its memory regions.

    Parameters
    ----------
    mr_mode : MrMode
        FI_MR_VIRT_ADDR: peers address regions by virtual address, else by offset. FI_MR_PROV_KEY: the domain
        chooses all keys. FI_MR_LOCAL: operations give a region for each buffer that the NIC accesses.
    job_id, pid_on_fep : int
        UET identity (24 and 12 bits) of the endpoints; part of their addresses.
    relative : bool
        ``pid_on_fep`` counts within the job, else within the NIC: UET's relative and absolute addressing. Part of the
        addresses, and checked: requests of the other kind are refused.
    cswap_by_bits : bool
        FI_CSWAP that the domain's endpoints send compares floating point by bits, as libfabric builds with
        compiler atomics do; else by value, as fi_atomic(3) says.
    nodes : function
        Ethernet addresses by IPv4 address of the NICs that the domain's address vectors know by name.
    """

    def __init__(
        self,
        fabric: FabricObject,
        nic: Nic,
        *,
        mr_mode: MrMode,
        job_id: int,
        pid_on_fep: int,
        relative: bool = False,
        cswap_by_bits: bool = False,
        nodes: Callable[[], Mapping[int, bytes]] = dict,
    ) -> None:
        mr_mode = check_flags(MrMode, mr_mode, "mr_mode")
        job_id, pid_on_fep = check_number("job_id", job_id), check_number("pid_on_fep", pid_on_fep)
        if int(mr_mode) & ~int(_SUPPORTED_MODES):
            raise fabric_error(Errno.FI_EINVAL, f"mr_mode can have {_SUPPORTED_MODES!r}, got {mr_mode!r}")
        if job_id >= 1 << 24 or pid_on_fep >= 1 << 12:
            raise fabric_error(
                Errno.FI_EINVAL, f"job_id has 24 bits and pid_on_fep 12, got {job_id:#x} and {pid_on_fep:#x}"
            )
        self.fabric = fabric
        self._nodes = nodes
        self._reports_regions = False
        protection = ProtectionDomain(
            nic, job_id=job_id, pid_on_fep=pid_on_fep, relative=relative, cswap_by_bits=cswap_by_bits
        )
        super().__init__(fabric, protection, mr_mode)

    def bind(self, eq: EventQueue, flags: DomainFlags = _NO_DOMAIN_FLAGS) -> None:
        """Report events of the domain's objects to ``eq``: ``fi_domain_bind``. Closing ``eq`` closes the domain.

        With FI_REG_MR every registration reports FI_MR_COMPLETE.
        Raises FI_EINVAL if a queue is bound already or belongs to another fabric, FI_EBADFLAGS for other flags.
        """
        self._check_open()
        check_instance("eq", eq, EventQueue)
        eq._check_open()
        flags = check_flags(DomainFlags, flags)
        if flags & ~DomainFlags.FI_REG_MR:
            raise fabric_error(Errno.FI_EBADFLAGS, f"a domain is bound with FI_REG_MR or nothing, got {flags!r}")
        if self._eq is not None:
            raise fabric_error(Errno.FI_EINVAL, "an event queue is bound already")
        if eq._parent is not self._parent:
            raise fabric_error(Errno.FI_EINVAL, f"{eq!r} belongs to another fabric")
        self._eq = eq
        self._reports_regions = bool(flags & DomainFlags.FI_REG_MR)
        eq._adopt(self)

    def mr_reg(
        self,
        buffer: Buffer,
        access: MrAccess,
        *,
        requested_key: int | None = None,
        flags: MrFlags = _NO_MR_FLAGS,
        context: Any = None,
    ) -> MemoryRegion:
        """Register memory in place: see :class:`MemoryRegion`. ``context`` comes back in its FI_MR_COMPLETE."""
        self._check_open()
        region = MemoryRegion(self, buffer, access, requested_key=requested_key, flags=flags)
        if self._eq is not None and self._reports_regions:
            self._eq._report(EqEvent.FI_MR_COMPLETE, region, context)
        return region

    def mr_regv(
        self,
        iov: Sequence[Buffer],
        access: MrAccess,
        *,
        requested_key: int | None = None,
        flags: MrFlags = _NO_MR_FLAGS,
        context: Any = None,
    ) -> MemoryRegion:
        """:meth:`mr_reg` of a vector, of one buffer: ``fi_mr_regv``. Raises FI_EINVAL for another number of them."""
        return self.mr_regattr(MrAttr(iov, access, requested_key=requested_key, context=context), flags)

    def mr_regattr(self, attr: MrAttr, flags: MrFlags = _NO_MR_FLAGS) -> MemoryRegion:
        """:meth:`mr_reg` of what ``attr`` says: ``fi_mr_regattr``.

        Raises FI_EINVAL for any number of buffers but one, an offset and an authorization key.
        """
        self._check_open()
        check_instance("attr", attr, MrAttr)
        if len(attr.mr_iov) != 1:
            raise fabric_error(Errno.FI_EINVAL, f"a region has one segment, got {len(attr.mr_iov)}")
        if attr.offset:
            raise fabric_error(Errno.FI_EINVAL, f"offset must be 0, got {attr.offset}")
        if attr.auth_key:
            raise fabric_error(Errno.FI_EINVAL, "no endpoint has an authorization key, so a region cannot have one")
        return self.mr_reg(
            attr.mr_iov[0], attr.access, requested_key=attr.requested_key, flags=flags, context=attr.context
        )

    def map_raw(self, base_addr: int, raw_key: bytes) -> int:
        """Return the key for operations on a peer's region, from the region's raw attributes: ``fi_mr_map_raw``.

        Raises FI_EINVAL for invalid bytes. Mapping takes no resources.
        """
        self._check_open()
        return key_of(raw_key)

    def unmap_key(self, key: int) -> None:
        """End the use of a key: ``fi_mr_unmap_key``."""
        self._check_open()

    def av_open(
        self,
        av_type: AvType = AvType.FI_AV_TABLE,
        flags: AvFlags = _NO_AV_FLAGS,
        rx_ctx_bits: int = 0,
        *,
        count: int = 0,
        name: str | None = None,
    ) -> AddressVector:
        """See :class:`AddressVector`."""
        self._check_open()
        return AddressVector(self, av_type, flags, rx_ctx_bits, count=count, name=name, nodes=self._nodes)

    @overload
    def cq_open(
        self,
        cq_format: Literal[CqFormat.FI_CQ_FORMAT_CONTEXT] = ...,
        wait_obj: WaitObj = ...,
        *,
        wait_cond: CqWaitCond = ...,
        wait_set: WaitSet | None = ...,
        size: int = ...,
    ) -> CompletionQueue[CqEntry]: ...

    @overload
    def cq_open(
        self,
        cq_format: Literal[CqFormat.FI_CQ_FORMAT_MSG],
        wait_obj: WaitObj = ...,
        *,
        wait_cond: CqWaitCond = ...,
        wait_set: WaitSet | None = ...,
        size: int = ...,
    ) -> CompletionQueue[CqMsgEntry]: ...

    @overload
    def cq_open(
        self,
        cq_format: Literal[CqFormat.FI_CQ_FORMAT_DATA],
        wait_obj: WaitObj = ...,
        *,
        wait_cond: CqWaitCond = ...,
        wait_set: WaitSet | None = ...,
        size: int = ...,
    ) -> CompletionQueue[CqDataEntry]: ...

    @overload
    def cq_open(
        self,
        cq_format: Literal[CqFormat.FI_CQ_FORMAT_TAGGED],
        wait_obj: WaitObj = ...,
        *,
        wait_cond: CqWaitCond = ...,
        wait_set: WaitSet | None = ...,
        size: int = ...,
    ) -> CompletionQueue[CqTaggedEntry]: ...

    @overload
    def cq_open(
        self,
        cq_format: CqFormat,
        wait_obj: WaitObj = ...,
        *,
        wait_cond: CqWaitCond = ...,
        wait_set: WaitSet | None = ...,
        size: int = ...,
    ) -> CompletionQueue[Any]: ...

    def cq_open(
        self,
        cq_format: CqFormat = CqFormat.FI_CQ_FORMAT_CONTEXT,
        wait_obj: WaitObj = WaitObj.FI_WAIT_UNSPEC,
        *,
        wait_cond: CqWaitCond = CqWaitCond.FI_CQ_COND_NONE,
        wait_set: WaitSet | None = None,
        size: int = 0,
    ) -> CompletionQueue[Any]:
        """See :class:`CompletionQueue`."""
        self._check_open()
        return CompletionQueue(
            self,
            check_enum(CqFormat, cq_format, "cq_format"),
            check_enum(WaitObj, wait_obj, "wait_obj"),
            wait_cond=check_enum(CqWaitCond, wait_cond, "wait_cond"),
            wait_set=wait_set,
            size=check_number("size", size),
        )

    def cntr_open(self, wait_obj: WaitObj = WaitObj.FI_WAIT_UNSPEC, wait_set: WaitSet | None = None) -> Counter:
        """See :class:`Counter`."""
        self._check_open()
        return Counter(self, wait_obj, wait_set)

    def poll_open(self) -> PollSet:
        """See :class:`PollSet`."""
        self._check_open()
        return PollSet(self)

    def endpoint(
        self,
        ep_type: EpType | Info = EpType.FI_EP_RDM,
        *,
        tx_size: int | None = None,
        rx_size: int | None = None,
        op_flags: OpFlags | None = None,
        caps: Caps | None = None,
        cq: CompletionQueue[Any] | None = None,
        av: AddressVector | None = None,
        cq_flags: BindFlags = BindFlags.FI_TRANSMIT,
        eq: EventQueue | None = None,
    ) -> Endpoint:
        """Open an endpoint; of type FI_EP_MSG a :class:`ConnectedEndpoint`, with the request of an Info's handle.

        An Info gives the default of every argument. ``tx_size``: outstanding descriptors, one or more for each
        operation (rounded up to 2**n, at least 16). ``rx_size``: entries about peers that may wait to be read; peers
        wait when it is reached. ``op_flags`` with FI_COMPLETION: report all successes, also on a queue bound with
        FI_SELECTIVE_COMPLETION. The flags of an Info's ``rx_attr``, such as FI_MULTI_RECV, are for receives.
        ``caps``: operations that may be posted, and messages that may arrive; by default all for which queues are
        bound.

        With a queue and an address vector (FI_EP_MSG: an event queue), the endpoint is bound to them and enabled at
        once, to the completion queue with ``cq_flags``. An Info with FI_SHARED_CONTEXT as ``tx_ctx_cnt`` or
        ``rx_ctx_cnt`` makes an endpoint that must first be bound to a shared transmit or receive context.

        Messages of FI_EP_RDM go beside RMA and atomics, and do not delay them. Only an Info whose ``msg_order`` names
        an order between the two, such as FI_ORDER_SAW, keeps messages and other operations in one order.

        Raises FI_EOPNOTSUPP for an unknown type, FI_EINVAL for an event queue of other types or an invalid handle,
        and FI_EBADFLAGS for ``op_flags`` that cannot be a default.
        """
        self._check_open()
        if not isinstance(ep_type, Info):
            ep_type = check_enum(EpType, ep_type, "ep_type")
        shared = isinstance(ep_type, Info) and ep_type.ep_attr.tx_ctx_cnt == FI_SHARED_CONTEXT
        shared_receives = isinstance(ep_type, Info) and ep_type.ep_attr.rx_ctx_cnt == FI_SHARED_CONTEXT
        request = ep_type.handle if isinstance(ep_type, Info) else None
        receive_flags = ep_type.rx_attr.op_flags if isinstance(ep_type, Info) else OpFlags(0)
        lanes = not isinstance(ep_type, Info) or has_lanes(ep_type.tx_attr.msg_order)
        if isinstance(ep_type, Info):
            wanted, receiving, ep_type = ep_type.tx_attr, ep_type.rx_attr, ep_type.ep_attr.type
            tx_size = wanted.size or None if tx_size is None else tx_size
            rx_size = receiving.size or None if rx_size is None else rx_size
            op_flags = wanted.op_flags if op_flags is None else op_flags
            caps = (wanted.caps | receiving.caps or None) if caps is None else caps
        if request is not None and not isinstance(request, ConnectionRequest):
            raise fabric_error(Errno.FI_EINVAL, f"handle is that of a FI_CONNREQ or None, got {request!r}")
        op_flags = OpFlags(0) if op_flags is None else check_flags(OpFlags, op_flags, "op_flags")
        caps = None if caps is None else check_flags(Caps, caps, "caps")
        cq_flags = check_flags(BindFlags, cq_flags, "cq_flags")
        check_instance("cq", cq, CompletionQueue, NoneType)
        check_instance("av", av, AddressVector, NoneType)
        check_instance("eq", eq, EventQueue, NoneType)
        kind = _endpoint_class(ep_type, request, lanes=lanes)
        endpoint = kind(
            self,
            tx_size=DEFAULT_TX_SIZE if tx_size is None else check_number("tx_size", tx_size),
            rx_size=DEFAULT_RX_SIZE if rx_size is None else check_number("rx_size", rx_size),
            op_flags=op_flags,
            caps=caps,
            shared=shared,
            shared_receives=shared_receives,
        )
        try:
            endpoint._take_receive_flags(receive_flags)
            if cq is not None:
                endpoint.bind(cq, cq_flags)
            if av is not None:
                endpoint.bind(av)
            if eq is not None:
                _bind_events(endpoint, eq)
            if cq is not None and (av is not None or eq is not None):
                endpoint.enable()
        except BaseException:
            endpoint.close()
            raise
        return endpoint

    def scalable_endpoint(
        self,
        info: Info | None = None,
        *,
        tx_contexts: int | None = None,
        rx_contexts: int | None = None,
        tx_size: int | None = None,
        rx_size: int | None = None,
        op_flags: OpFlags | None = None,
        caps: Caps | None = None,
    ) -> ScalableEndpoint:
        """Open an endpoint of several contexts: see :class:`ScalableEndpoint`. An Info gives the defaults.

        With FI_SHARED_CONTEXT as the Info's ``rx_ctx_cnt``, the endpoint has one receive context, to be bound to a
        shared one. Raises FI_EOPNOTSUPP for an Info of another type than FI_EP_RDM. FI_SHARED_CONTEXT as
        ``tx_ctx_cnt`` raises it, too: operations are posted through the endpoint's own transmit contexts.
        """
        self._check_open()
        check_instance("info", info, Info, NoneType)
        info = info or Info()
        counts, transmit = info.ep_attr, info.tx_attr
        if counts.type not in (EpType.FI_EP_UNSPEC, EpType.FI_EP_RDM):
            raise fabric_error(Errno.FI_EOPNOTSUPP, f"a scalable endpoint is of type FI_EP_RDM, not {counts.type!r}")
        if tx_contexts is None and counts.tx_ctx_cnt == FI_SHARED_CONTEXT:
            raise fabric_error(Errno.FI_EOPNOTSUPP, "a scalable endpoint has transmit contexts of its own")
        shared_receives = rx_contexts is None and counts.rx_ctx_cnt == FI_SHARED_CONTEXT
        own_receives = 1 if shared_receives else counts.rx_ctx_cnt or 1
        return ScalableEndpoint(
            self,
            tx_contexts=(counts.tx_ctx_cnt or 1) if tx_contexts is None else tx_contexts,
            rx_contexts=own_receives if rx_contexts is None else rx_contexts,
            tx_size=(transmit.size or DEFAULT_TX_SIZE) if tx_size is None else tx_size,
            rx_size=(info.rx_attr.size or DEFAULT_RX_SIZE) if rx_size is None else rx_size,
            op_flags=transmit.op_flags if op_flags is None else op_flags,
            caps=(transmit.caps | info.rx_attr.caps or None) if caps is None else caps,
            shared_receives=shared_receives,
            lanes=has_lanes(transmit.msg_order),
        )

    def stx_context(self, attr: TxAttr | int = DEFAULT_TX_SIZE) -> SharedTransmitContext:
        """Open a ring for several endpoints, of this size or a TxAttr's: see :class:`SharedTransmitContext`."""
        self._check_open()
        size = (attr.size or DEFAULT_TX_SIZE) if isinstance(attr, TxAttr) else attr
        return SharedTransmitContext(self, ring_size(size))

    def srx_context(self, attr: RxAttr | int = DEFAULT_RX_SIZE) -> SharedReceiveContext:
        """Open receives for several endpoints: see :class:`SharedReceiveContext`.

        ``attr`` is its ``rx_size``, or an RxAttr with size and ``caps``, of which 0 means all. Raises FI_EBADFLAGS
        for invalid ``op_flags`` of the RxAttr.
        """
        self._check_open()
        if not isinstance(attr, RxAttr):
            return SharedReceiveContext(self, attr)
        context = SharedReceiveContext(self, attr.size or DEFAULT_RX_SIZE, attr.caps or None)
        context._take_receive_flags(attr.op_flags)
        return context

    def queue_work(self, work: DeferredWork) -> None:
        """Start work when its counter has reached its threshold, or at once if it has: ``FI_QUEUE_WORK``.

        Arguments are checked now; buffers are read when the work starts, and kept alive until it is done or
        cancelled. If the work cannot start then, because its peer was removed or a region closed, it ends with
        FI_ECANCELED.

        Raises FI_ENOSYS for an ``op_type`` that cannot be deferred, and FI_EALREADY if the work is queued already.
        Raises FI_EINVAL for an ``op`` of another kind, objects of another domain, or a completion_cntr of counter
        operations. Raises the operation's own errors but FI_EAGAIN.
        """
        self._check_open()
        check_instance("work", work, DeferredWork)
        queue_work(self, work)

    def cancel_work(self, work: DeferredWork) -> None:
        """Take work out of the queue, without a report: ``FI_CANCEL_WORK``. Raises FI_ENOENT if it is not there."""
        self._check_open()
        check_instance("work", work, DeferredWork)
        cancel_work(self, work)

    def flush_work(self, cntr: Counter | None = None) -> None:
        """Take all work out of the queue, or all that waits for this counter: ``FI_FLUSH_WORK``."""
        self._check_open()
        check_instance("cntr", cntr, Counter, NoneType)
        flush_work(self, cntr)

    def __repr__(self) -> str:
        return f"<Domain {self.number} on {self.nic.device.name}{' closed' if self.closed else ''}>"


def _endpoint_class(
    ep_type: EpType, request: ConnectionRequest | None, *, lanes: bool
) -> Callable[..., Endpoint]:
    """Return the constructor of an endpoint of this type. Raises FI_EOPNOTSUPP for an unknown type."""
    if ep_type is EpType.FI_EP_MSG:
        return functools.partial(ConnectedEndpoint, request=request)
    if ep_type in (EpType.FI_EP_RDM, EpType.FI_EP_DGRAM):
        return functools.partial(Endpoint, ep_type=ep_type, lanes=lanes and ep_type is EpType.FI_EP_RDM)
    raise fabric_error(
        Errno.FI_EOPNOTSUPP, f"an endpoint is of type FI_EP_MSG, FI_EP_DGRAM or FI_EP_RDM, got {ep_type!r}"
    )


def _bind_events(endpoint: Endpoint, eq: EventQueue) -> None:
    if not isinstance(endpoint, ConnectedEndpoint):
        raise fabric_error(Errno.FI_EINVAL, f"only FI_EP_MSG has events, this is {endpoint.ep_type!r}")
    endpoint.bind(eq)
