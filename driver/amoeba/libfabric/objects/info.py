"""The offers of NICs, and the choice among NICs by hints: fi_getinfo(3).

:func:`offer` claims the abilities of the driver and its NICs, as the only place. One rule per field compares each
hint with the offer: :data:`_RULES`.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.libfabric.objects.constants import (
    FI_SHARED_CONTEXT,
    AvType,
    Caps,
    EpType,
    InfoFlags,
    MrMode,
    MsgOrder,
    Progress,
    ResourceMgmt,
    Threading,
)
from amoeba.libfabric.objects.endpoints.transmit import (
    BETWEEN_KINDS,
    DEFAULT_TX_SIZE,
    MAX_TX_SIZE,
    has_lanes,
    least_descriptors,
    most_segments,
    ring_size,
)
from amoeba.libfabric.objects.names import Service, find_node
from amoeba.libfabric.objects.operations.operations import MAX_MESSAGE, TX_OP_FLAGS
from amoeba.libfabric.objects.operations.receiving import RX_OP_FLAGS
from amoeba.libfabric.objects.printing import API_VERSION, version
from amoeba.libfabric.objects.receiver import DEFAULT_RX_SIZE, MAX_RECEIVE_SEGMENTS
from amoeba.libfabric.objects.structures import DomainAttr, EpAttr, FabricAttr, Info, RxAttr, TxAttr
from amoeba.nic.address import EndpointAddress
from amoeba.nic.event_ring import MAX_EVENTS
from amoeba.nic.nic import Nic
from amoeba.transport.rings import INJECT_SIZE

__all__ = [
    "DEFAULT_MR_MODE",
    "PROVIDER",
    "is_automatic",
    "nic_index",
    "offers",
    "registration_mode",
    "select",
]

T = TypeVar("T")
Attribute = TypeVar("Attribute", FabricAttr, DomainAttr, EpAttr, TxAttr, RxAttr)

PROVIDER = "amoeba"
PROVIDER_VERSION = version(0, 1)

DEFAULT_MR_MODE = MrMode.FI_MR_VIRT_ADDR | MrMode.FI_MR_ALLOCATED
"""Peers use virtual addresses; the application may choose keys."""
_OFFERED_MR_MODE = DEFAULT_MR_MODE | MrMode.FI_MR_LOCAL
"""Modes that the driver uses where the application supports them."""

_MEMORY = Caps.FI_RMA | Caps.FI_ATOMIC
_MESSAGES = Caps.FI_MSG | Caps.FI_TAGGED
_INITIATOR = Caps.FI_READ | Caps.FI_WRITE
_TARGET = Caps.FI_REMOTE_READ | Caps.FI_REMOTE_WRITE
_MODIFIERS = ((_MEMORY, _INITIATOR | _TARGET), (_MESSAGES, Caps.FI_SEND | Caps.FI_RECV))
"""The directions of the first capabilities."""
_DOMAIN_CAPS = Caps.FI_LOCAL_COMM | Caps.FI_REMOTE_COMM
_SECONDARY = _DOMAIN_CAPS | Caps.FI_TRIGGER | Caps.FI_FENCE | Caps.FI_SOURCE
"""Secondary capabilities without cost: reported whether asked for or not."""
_OF_MEMORY = Caps.FI_RMA_EVENT
"""Likewise, where peers access memory: counters count their accesses."""
_BOTH_WAYS = _MEMORY | _MESSAGES | Caps.FI_RMA_PMEM
_TX_CAPS = _BOTH_WAYS | _INITIATOR | Caps.FI_SEND | Caps.FI_TRIGGER | Caps.FI_FENCE | Caps.FI_NAMED_RX_CTX
_RX_CAPS = (
    _BOTH_WAYS
    | _TARGET
    | _OF_MEMORY
    | Caps.FI_RECV
    | Caps.FI_MULTI_RECV
    | Caps.FI_DIRECTED_RECV
    | Caps.FI_SOURCE
)
_CAPS = _TX_CAPS | _RX_CAPS | _SECONDARY
_WITHOUT_INITIATOR = _MEMORY | _TARGET | _OF_MEMORY | Caps.FI_RMA_PMEM | _DOMAIN_CAPS
"""All that a NIC without an initiator can have: nothing leaves it but answers."""
_RECEIVING = Caps.FI_RECV | Caps.FI_MULTI_RECV | Caps.FI_DIRECTED_RECV | Caps.FI_SOURCE

# Requests of an endpoint to one peer are executed by the target in order, RMA, atomics and messages alike. But the
# data of a long message is read later: operations posted behind it may come first.
_ORDER = (
    MsgOrder.FI_ORDER_RAR
    | MsgOrder.FI_ORDER_RAW
    | MsgOrder.FI_ORDER_WAR
    | MsgOrder.FI_ORDER_WAW
    | MsgOrder.FI_ORDER_SAR
    | MsgOrder.FI_ORDER_SAW
    | MsgOrder.FI_ORDER_SAS
    | MsgOrder.FI_ORDER_RMA_RAR
    | MsgOrder.FI_ORDER_RMA_RAW
    | MsgOrder.FI_ORDER_RMA_WAR
    | MsgOrder.FI_ORDER_RMA_WAW
    | MsgOrder.FI_ORDER_ATOMIC_RAR
    | MsgOrder.FI_ORDER_ATOMIC_RAW
    | MsgOrder.FI_ORDER_ATOMIC_WAR
    | MsgOrder.FI_ORDER_ATOMIC_WAW
)
_NO_FLAGS = InfoFlags(0)
_ALL_FLAGS = InfoFlags.FI_SOURCE | InfoFlags.FI_NUMERICHOST | InfoFlags.FI_PROV_ATTR_ONLY
_NO_NICS: Mapping[int, bytes] = {}
_FIRST_SERVICE = "0"
_KEY_SIZE = 8
_TAG_FORMAT = 0xAAAA_AAAA_AAAA_AAAA
"""FI_TAG_GENERIC: the application divides the 64 bits as it likes."""
_DATA_SIZE = 8
_UET_VERSION = 1
_MODES_ARE_BITS = version(1, 5)
"""The release since which ``mr_mode`` is a set of the application's duties in registration."""
_DEFAULT_JOB = _DEFAULT_PID = 1


def offers(nics: Sequence[Nic], fabric_name: str, progress: Sequence[Progress]) -> list[Info]:
    """Return all offers of a fabric's NICs: first by reliable connectionless endpoints.

    By each type of endpoint and NIC with each of these progress models, first with the first one.
    """
    every = [
        (nic, _with_progress(_without_absent(nic, _reliable(nic, index, fabric_name)), model))
        for index, nic in enumerate(nics)
        for model in progress
    ]
    active = [(nic, info) for nic, info in every if nic.parameters.has_initiator]
    return [
        *(info for _, info in every),
        *(_connected(info) for _, info in active),
        *(_datagrams(info, nic.parameters.payload) for nic, info in active),
    ]


def _with_progress(offered: Info, model: Progress) -> Info:
    """Return an offer with this progress model, and its consequences for threads."""
    automatic = model is Progress.FI_PROGRESS_AUTO
    domain_attr = dataclasses.replace(
        offered.domain_attr,
        threading=Threading.FI_THREAD_SAFE if automatic else Threading.FI_THREAD_DOMAIN,
        control_progress=model,
        data_progress=model,
    )
    return dataclasses.replace(offered, domain_attr=domain_attr)


def is_automatic(info: Info) -> bool:
    """Return whether a domain opened by this makes progress by itself, as it does if it is safe for threads, too."""
    attr = info.domain_attr
    return (
        Progress.FI_PROGRESS_AUTO in (attr.control_progress, attr.data_progress)
        or attr.threading is Threading.FI_THREAD_SAFE
    )


def _reliable(nic: Nic, index: int, fabric_name: str) -> Info:
    """Return the offer of a NIC, number ``index`` of its fabric, by endpoints of type FI_EP_RDM."""
    parameters = nic.parameters
    # of the contexts that a scalable endpoint takes, one at least is of the other kind
    most_contexts = max(1, parameters.contexts - 1)
    return Info(
        caps=_CAPS,
        src_addr=EndpointAddress(nic.mac, nic.ip, _DEFAULT_JOB, _DEFAULT_PID, 0).pack(),
        tx_attr=TxAttr(
            caps=_TX_CAPS,
            op_flags=TX_OP_FLAGS,
            msg_order=_ORDER,
            inject_size=INJECT_SIZE,
            size=MAX_TX_SIZE,
            iov_limit=most_segments(MAX_TX_SIZE),
            rma_iov_limit=most_segments(MAX_TX_SIZE),
        ),
        rx_attr=RxAttr(
            caps=_RX_CAPS,
            op_flags=RX_OP_FLAGS,
            msg_order=_ORDER,
            total_buffered_recv=parameters.unexpected * parameters.payload,
            size=MAX_EVENTS,
            iov_limit=MAX_RECEIVE_SEGMENTS,
        ),
        ep_attr=EpAttr(
            type=EpType.FI_EP_RDM,
            protocol_version=_UET_VERSION,
            max_msg_size=MAX_MESSAGE,
            max_order_raw_size=MAX_MESSAGE,
            max_order_war_size=MAX_MESSAGE,
            max_order_waw_size=MAX_MESSAGE,
            mem_tag_format=_TAG_FORMAT,
            tx_ctx_cnt=most_contexts,
            rx_ctx_cnt=most_contexts,
        ),
        domain_attr=DomainAttr(
            name=f"{PROVIDER}{index}",
            resource_mgmt=ResourceMgmt.FI_RM_ENABLED,
            av_type=AvType.FI_AV_TABLE,
            mr_mode=_OFFERED_MR_MODE,
            mr_key_size=_KEY_SIZE,
            cq_data_size=_DATA_SIZE if parameters.event_rings else 0,
            cq_cnt=parameters.contexts,
            ep_cnt=parameters.contexts,
            tx_ctx_cnt=parameters.contexts,
            rx_ctx_cnt=parameters.contexts,
            max_ep_tx_ctx=most_contexts,
            max_ep_rx_ctx=most_contexts,
            max_ep_stx_ctx=parameters.contexts - 1,
            max_ep_srx_ctx=parameters.contexts - 1,
            cntr_cnt=parameters.event_counters - 1,
            mr_iov_limit=1,
            caps=_DOMAIN_CAPS,
            mr_cnt=parameters.keys,
        ),
        fabric_attr=FabricAttr(fabric_name, PROVIDER, PROVIDER_VERSION, API_VERSION),
    )


def _without(offered: Info, caps: Caps, ep_attr: EpAttr) -> Info:
    """Return the offer by endpoints of another type, with one context of a kind and without these capabilities."""
    return dataclasses.replace(
        offered,
        caps=offered.caps & ~caps,
        tx_attr=dataclasses.replace(offered.tx_attr, caps=offered.tx_attr.caps & ~caps),
        rx_attr=dataclasses.replace(offered.rx_attr, caps=offered.rx_attr.caps & ~caps),
        ep_attr=dataclasses.replace(ep_attr, tx_ctx_cnt=1, rx_ctx_cnt=1),
        domain_attr=dataclasses.replace(offered.domain_attr, max_ep_tx_ctx=1, max_ep_rx_ctx=1),
    )


def _without_absent(nic: Nic, offered: Info) -> Info:
    """Return the offer without the capabilities of parts that the NIC lacks."""
    absent = Caps(0) if nic.parameters.has_initiator else ~_WITHOUT_INITIATOR
    absent |= Caps(0) if nic.parameters.has_messages else _RECEIVING
    return _without(offered, absent, offered.ep_attr) if absent else offered


def _connected(offered: Info) -> Info:
    """Return the offer by endpoints of type FI_EP_MSG: no capabilities that choose among peers."""
    ep_attr = dataclasses.replace(offered.ep_attr, type=EpType.FI_EP_MSG)
    return _without(offered, Caps.FI_NAMED_RX_CTX | Caps.FI_SOURCE | Caps.FI_DIRECTED_RECV, ep_attr)


def _datagrams(offered: Info, payload: int) -> Info:
    """Return the offer by endpoints of type FI_EP_DGRAM: messages of one packet."""
    ep_attr = dataclasses.replace(
        offered.ep_attr,
        type=EpType.FI_EP_DGRAM,
        max_msg_size=payload,
        max_order_raw_size=0,
        max_order_war_size=0,
        max_order_waw_size=0,
    )
    memory = _MEMORY | _INITIATOR | _TARGET | _OF_MEMORY | Caps.FI_RMA_PMEM
    return _without(offered, memory | Caps.FI_NAMED_RX_CTX, ep_attr)


class _MismatchError(Exception):
    """Why an offer does not satisfy the hints."""


Rule = Callable[[Any, Any], Any]
"""From a hint and an offer to the granted value. Raises _MismatchError."""


def _the_same(wanted: T, offered: T) -> T:
    """Grant the offer if the hint is left out or equal."""
    if wanted and wanted != offered:
        raise _MismatchError(f"{offered!r}, wanted {wanted!r}")
    return offered


def _at_most(wanted: int, offered: int) -> int:
    """Grant a limit or an optimum: the offer must suffice."""
    if wanted > offered:
        raise _MismatchError(f"at most {offered}, wanted {wanted}")
    return offered


def _all_of(wanted: int, offered: int) -> int:
    """Grant offered flags that include the wanted ones, such as guarantees."""
    if int(wanted) & ~int(offered):
        raise _MismatchError(f"{offered!r}, wanted {wanted!r}")
    return offered


def _message_order(wanted: MsgOrder, offered: MsgOrder) -> MsgOrder:
    """Grant offered orders that include the wanted ones.

    Hints that name orders, but none between messages and other operations, get none of those between them. So unread
    messages never block other operations.
    """
    _all_of(wanted, offered)
    return offered & ~BETWEEN_KINDS if wanted and has_lanes(wanted) else offered


def _some_of(wanted: int, offered: int) -> int:
    """Grant the wanted flags if all are offered."""
    _all_of(wanted, offered)
    return wanted


def _whatever(wanted: T, offered: T) -> T:
    """Grant any offer: the hint permits something, or is a preference."""
    return offered


def _capabilities(wanted: Caps, offered: Caps) -> Caps:
    """Grant the wanted capabilities, every direction by default, and secondary ones without cost: fi_getinfo(3)."""
    if not wanted:
        return offered
    _all_of(wanted, offered)
    for primary, directions in _MODIFIERS:
        if wanted & directions and not wanted & primary:
            raise _MismatchError(f"{offered!r}, wanted {wanted!r}: {wanted & directions!r} needs one of {primary!r}")
        if wanted & primary and not wanted & directions:
            wanted |= offered & directions
    if wanted & _OF_MEMORY and not wanted & _MEMORY:
        raise _MismatchError(f"{offered!r}, wanted {wanted!r}: {wanted & _OF_MEMORY!r} needs one of {_MEMORY!r}")
    if wanted & _MEMORY and wanted & _TARGET:
        wanted |= offered & _OF_MEMORY
    if wanted & Caps.FI_RMA_PMEM and not wanted & Caps.FI_RMA:
        raise _MismatchError(f"{offered!r}, wanted {wanted!r}: FI_RMA_PMEM needs FI_RMA")
    if wanted & Caps.FI_RMA:
        wanted |= offered & Caps.FI_RMA_PMEM
    if wanted & Caps.FI_RECV:
        wanted |= offered & Caps.FI_MULTI_RECV
    return wanted | offered & _SECONDARY


def _receive_capabilities(wanted: Caps, offered: Caps) -> Caps:
    """Grant capabilities likewise; FI_NAMED_RX_CTX is the senders', but programs name it here, too."""
    return _capabilities(wanted & ~Caps.FI_NAMED_RX_CTX, offered)


def _transmit_size(wanted: int, most: int) -> int:
    """Grant outstanding descriptors: the size that an endpoint makes of the hint."""
    _at_most(wanted, most)
    return ring_size(wanted or DEFAULT_TX_SIZE)


def _receive_size(wanted: int, most: int) -> int:
    """Grant entries about peers that may wait to be read."""
    _at_most(wanted, most)
    return wanted or min(DEFAULT_RX_SIZE, most)


def _context_count(wanted: int, most: int) -> int:
    """Grant contexts of a scalable endpoint; one for any other."""
    _at_most(wanted, most)
    return wanted or 1


def _contexts_or_shared(wanted: int, most: int) -> int:
    """Grant contexts likewise, or FI_SHARED_CONTEXT."""
    return wanted if wanted == FI_SHARED_CONTEXT else _context_count(wanted, most)


def _progress_model(wanted: Progress, offered: Progress) -> Progress:
    """Grant a progress model: automatic progress serves also applications that make it themselves. fi_domain(3)."""
    return offered if offered is Progress.FI_PROGRESS_AUTO else _the_same(wanted, offered)


def _threading_model(wanted: Threading, offered: Threading) -> Threading:
    """Grant a threading model: full thread safety serves also applications with weaker needs. fi_domain(3)."""
    return offered if offered is Threading.FI_THREAD_SAFE else _the_same(wanted, offered)


def _either_vector(wanted: AvType, offered: AvType) -> AvType:
    return wanted or offered


def _memory_mode(wanted: MrMode, offered: MrMode) -> MrMode:
    """Grant the modes that the application supports, without unnecessary ones: fi_mr(3).

    The NICs need no mode, but the driver uses the offered ones where the application supports them.
    FI_MR_BASIC and FI_MR_SCALABLE, of before release 1.5, stay as they are.
    """
    if wanted & (MrMode.FI_MR_BASIC | MrMode.FI_MR_SCALABLE):
        return wanted & (MrMode.FI_MR_BASIC if wanted & MrMode.FI_MR_BASIC else MrMode.FI_MR_SCALABLE)
    return wanted & offered


_RULES: dict[type, dict[str, Rule]] = {
    FabricAttr: {"prov_version": _whatever, "api_version": _at_most},
    DomainAttr: {
        "threading": _threading_model,
        "control_progress": _progress_model,
        "data_progress": _progress_model,
        "resource_mgmt": _whatever,
        "av_type": _either_vector,
        "mr_mode": _memory_mode,
        "mr_key_size": _at_most,
        "cq_data_size": _at_most,
        "cq_cnt": _at_most,
        "ep_cnt": _at_most,
        "tx_ctx_cnt": _at_most,
        "rx_ctx_cnt": _at_most,
        "max_ep_tx_ctx": _at_most,
        "max_ep_rx_ctx": _at_most,
        "max_ep_stx_ctx": _at_most,
        "max_ep_srx_ctx": _at_most,
        "cntr_cnt": _at_most,
        "mr_iov_limit": _at_most,
        "caps": _all_of,
        "mode": _whatever,
        "max_err_data": _at_most,
        "tclass": _whatever,
        "mr_cnt": _at_most,
    },
    EpAttr: {
        "max_msg_size": _at_most,
        "msg_prefix_size": _whatever,
        "max_order_raw_size": _at_most,
        "max_order_war_size": _at_most,
        "max_order_waw_size": _at_most,
        "mem_tag_format": _whatever,
        "tx_ctx_cnt": _contexts_or_shared,
        "rx_ctx_cnt": _contexts_or_shared,
    },
    TxAttr: {
        "caps": _capabilities,
        "mode": _whatever,
        "op_flags": _some_of,
        "msg_order": _message_order,
        "comp_order": _all_of,
        "inject_size": _at_most,
        "size": _transmit_size,
        "iov_limit": _at_most,
        "rma_iov_limit": _at_most,
        "tclass": _whatever,
    },
    RxAttr: {
        "caps": _receive_capabilities,
        "mode": _whatever,
        "op_flags": _some_of,
        "msg_order": _all_of,
        "comp_order": _all_of,
        "total_buffered_recv": _at_most,
        "size": _receive_size,
        "iov_limit": _at_most,
    },
}
"""How hints are compared with an offer. A field without a rule must be left out or equal the offer."""


def _narrow(offered: Attribute, wanted: Attribute) -> Attribute:
    """Return the granted part of an attribute structure. Raises _MismatchError, which names the field."""
    rules = _RULES[type(offered)]
    granted: dict[str, Any] = {}
    for field in dataclasses.fields(offered):
        rule = rules.get(field.name, _the_same)
        try:
            granted[field.name] = rule(getattr(wanted, field.name), getattr(offered, field.name))
        except _MismatchError as mismatch:
            raise _MismatchError(f"{type(offered).__name__}.{field.name} is {mismatch}") from None
    return dataclasses.replace(offered, **granted)


def _narrow_transmit(offered: TxAttr, wanted: TxAttr) -> TxAttr:
    """Grant transmit attributes; the ring is large enough for the wanted segments, and determines their limit."""
    granted = _narrow(offered, wanted)
    segments = max(wanted.iov_limit, wanted.rma_iov_limit, 1)
    size = max(granted.size, ring_size(least_descriptors(segments)))
    limit = most_segments(size)
    return dataclasses.replace(granted, size=size, iov_limit=limit, rma_iov_limit=limit)


def _of_its_time(granted: DomainAttr, wanted: Info) -> DomainAttr:
    """Return the default mode of before release 1.5, FI_MR_SCALABLE, for hints without a mode: fi_mr(3)."""
    if 0 < wanted.fabric_attr.api_version < _MODES_ARE_BITS and wanted.domain_attr.mr_mode == MrMode(0):
        return dataclasses.replace(granted, mr_mode=MrMode.FI_MR_SCALABLE)
    return granted


def _match(offered: Info, hints: Info | None) -> Info:
    """Return the granted part of an offer; hints of None grant all. Raises _MismatchError."""
    wanted = _or_default(hints)
    try:
        caps = _capabilities(wanted.caps, offered.caps)
        addr_format = _the_same(wanted.addr_format, offered.addr_format)
    except _MismatchError as mismatch:
        raise _MismatchError(f"Info is {mismatch}") from None
    # an endpoint has the capabilities that were granted, not all that the NIC has
    tx_attr = dataclasses.replace(offered.tx_attr, caps=offered.tx_attr.caps & caps)
    rx_attr = dataclasses.replace(offered.rx_attr, caps=offered.rx_attr.caps & caps)
    return dataclasses.replace(
        offered,
        caps=caps,
        addr_format=addr_format,
        src_addr=_source(offered.src_addr, wanted.src_addr),
        dest_addr=None if wanted.dest_addr is None else EndpointAddress.unpack(wanted.dest_addr).pack(),
        tx_attr=_narrow_transmit(tx_attr, wanted.tx_attr),
        rx_attr=_narrow(rx_attr, wanted.rx_attr),
        ep_attr=_narrow(offered.ep_attr, wanted.ep_attr),
        domain_attr=_of_its_time(_narrow(offered.domain_attr, wanted.domain_attr), wanted),
        fabric_attr=_narrow(offered.fabric_attr, wanted.fabric_attr),
    )


def _or_default(hints: Info | None) -> Info:
    """Return the hints; None becomes hints that ask for nothing and know the default registration."""
    return Info(domain_attr=DomainAttr(mr_mode=DEFAULT_MR_MODE)) if hints is None else hints


def _source(offered: bytes | None, wanted: bytes | None) -> bytes | None:
    """Return the wanted source address, with any job and process id, if this NIC has the address."""
    if offered is None or wanted is None:
        return offered
    own, asked = EndpointAddress.unpack(offered), EndpointAddress.unpack(wanted)
    if (asked.mac, asked.ip) != (own.mac, own.ip):
        raise _MismatchError(f"src_addr is {own}, wanted {asked}")
    return asked.pack()


def select(
    offers: Sequence[Info],
    hints: Info | None = None,
    *,
    node: str | None = None,
    service: str | None = None,
    flags: InfoFlags = _NO_FLAGS,
    nics: Mapping[int, bytes] = _NO_NICS,
) -> list[Info]:
    """Select among the offers of several NICs, fi_getinfo(3): see :meth:`amoeba.Fabric.getinfo`.

    ``nics``: Ethernet addresses by IPv4 address, among which nodes are found.
    """
    if flags & ~_ALL_FLAGS:
        raise fabric_error(Errno.FI_EBADFLAGS, f"flags are some of {_ALL_FLAGS!r}, got {flags!r}")
    if flags & InfoFlags.FI_PROV_ATTR_ONLY:
        return [Info(fabric_attr=FabricAttr(prov_name=PROVIDER, prov_version=PROVIDER_VERSION))]
    if flags & InfoFlags.FI_SOURCE:
        _, ip = _source_node(node, service, flags, nics)
        offers = [offer for offer in offers if EndpointAddress.unpack(offer.src_addr or b"").ip == ip]
        hints = None if hints is None else dataclasses.replace(hints, src_addr=None)
    elif node is not None or service is not None:
        hints = _towards(_or_default(hints), node, service, flags, nics)
    wanted = EpType.FI_EP_UNSPEC if hints is None else hints.ep_attr.type
    if any(offer.ep_attr.type is wanted for offer in offers):
        offers = [offer for offer in offers if offer.ep_attr.type is wanted]
    found: dict[str, Info] = {}
    reasons: dict[str, str] = {}  # of several progress models that of the last, which suits all who ask for one
    for offer in offers:
        way = f"{offer.domain_attr.name} {offer.ep_attr.type.name}"
        if way in found:
            continue
        try:
            found[way] = _match(offer, hints)
        except _MismatchError as mismatch:
            reasons[way] = f"{way}: {mismatch}"
    if not found:
        raise fabric_error(Errno.FI_ENODATA, "; ".join(reasons.values()) or f"no NIC of this fabric is at {node}")
    return list(found.values())


def _source_node(
    node: str | None, service: str | None, flags: InfoFlags, nics: Mapping[int, bytes]
) -> tuple[bytes, int]:
    """Return the NIC that FI_SOURCE asks for."""
    if node is None and service is None:
        raise fabric_error(Errno.FI_EINVAL, "FI_SOURCE says that node is this side's, got None")
    if node is None or service is not None:
        raise fabric_error(
            Errno.FI_ENODATA, f"an endpoint gets its context when it is enabled, so it cannot be service {service}"
        )
    return find_node(node, nics, numeric=bool(flags & InfoFlags.FI_NUMERICHOST))


def _towards(hints: Info, node: str | None, service: str | None, flags: InfoFlags, nics: Mapping[int, bytes]) -> Info:
    """Return the hints with the address of this node and service as the destination."""
    wanted = Service.parse(_FIRST_SERVICE if service is None else service)
    if node is None:
        raise fabric_error(Errno.FI_ENODATA, f"no NIC was named on which {service} is a service")
    own = None if hints.src_addr is None else EndpointAddress.unpack(hints.src_addr)
    job, process = (_DEFAULT_JOB, _DEFAULT_PID) if own is None else (own.job_id, own.pid_on_fep)
    nic = find_node(node, nics, numeric=bool(flags & InfoFlags.FI_NUMERICHOST))
    return dataclasses.replace(hints, dest_addr=wanted.at(EndpointAddress(*nic, job, process, 0)).pack())


def nic_index(info: Info) -> int:
    """Return the number in its fabric of the NIC ``domain_attr.name``. Raises FI_ENODEV for another name."""
    name = info.domain_attr.name or ""
    number = name.removeprefix(PROVIDER)
    if not name.startswith(PROVIDER) or not number.isdecimal():
        raise fabric_error(Errno.FI_ENODEV, f"a domain is called {PROVIDER}0, {PROVIDER}1 ..., got {name!r}")
    return int(number)


def registration_mode(mr_mode: MrMode) -> MrMode:
    """Return the mode bits of an answer's ``mr_mode``: modes of before release 1.5 are several at once."""
    if mr_mode & MrMode.FI_MR_BASIC:
        return DEFAULT_MR_MODE | MrMode.FI_MR_PROV_KEY
    return mr_mode & ~MrMode.FI_MR_SCALABLE
