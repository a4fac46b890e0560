"""``struct fi_info`` and its parts, as fi_getinfo(3), fi_fabric(3), fi_domain(3) and fi_endpoint(3) name them.

As hints, every field may stay at its default, which asks for nothing in particular: like a zeroed ``fi_allocinfo``
in C.
"""

import enum
from dataclasses import dataclass, field, fields
from typing import Any

from amoeba.libfabric.objects.constants import (
    AddrFormat,
    AvType,
    Caps,
    CqFormat,
    Datatype,
    EpType,
    EqEvent,
    FiType,
    Mode,
    MrMode,
    MsgOrder,
    Op,
    OpFlags,
    Progress,
    Protocol,
    ResourceMgmt,
    Threading,
    TrafficClass,
    TriggerOp,
)

__all__ = [
    "API_VERSION",
    "DomainAttr",
    "EpAttr",
    "FabricAttr",
    "Info",
    "RxAttr",
    "TxAttr",
    "tostr",
    "version",
    "version_text",
]

_NO_CAPS = Caps(0)
_NO_MODE = Mode(0)
_NO_FLAGS = OpFlags(0)
_NO_ORDER = MsgOrder(0)
_NO_MR_MODE = MrMode(0)
_INDENT = "    "
_VERSIONS = ("prov_version", "api_version")


def version(major: int, minor: int) -> int:
    """Return ``FI_VERSION(major, minor)``."""
    return major << 16 | minor


def version_text(number: int) -> str:
    """Format ``FI_MAJOR`` and ``FI_MINOR`` of a version, as "1.17"."""
    return f"{number >> 16}.{number & 0xFFFF}"


API_VERSION = version(1, 17)
"""The libfabric release that defines names, numbers and meanings."""


@dataclass(frozen=True)
class FabricAttr:
    """``struct fi_fabric_attr``, fi_fabric(3)."""

    name: str | None = None
    prov_name: str | None = None
    prov_version: int = 0
    """Version of the driver, as :func:`version` makes it."""
    api_version: int = 0
    """libfabric's release: the requested one, or :data:`API_VERSION`."""


@dataclass(frozen=True)
class DomainAttr:
    """``struct fi_domain_attr``, fi_domain(3). Counts are those of the NIC, also of entries in use."""

    name: str | None = None
    threading: Threading = Threading.FI_THREAD_UNSPEC
    control_progress: Progress = Progress.FI_PROGRESS_UNSPEC
    data_progress: Progress = Progress.FI_PROGRESS_UNSPEC
    resource_mgmt: ResourceMgmt = ResourceMgmt.FI_RM_UNSPEC
    av_type: AvType = AvType.FI_AV_UNSPEC
    mr_mode: MrMode = _NO_MR_MODE
    """In hints: the modes that the application supports. In results: the modes that it must follow."""
    mr_key_size: int = 0
    """Bytes."""
    cq_data_size: int = 0
    """Bytes of remote CQ data."""
    cq_cnt: int = 0
    ep_cnt: int = 0
    tx_ctx_cnt: int = 0
    rx_ctx_cnt: int = 0
    max_ep_tx_ctx: int = 0
    max_ep_rx_ctx: int = 0
    max_ep_stx_ctx: int = 0
    max_ep_srx_ctx: int = 0
    cntr_cnt: int = 0
    mr_iov_limit: int = 0
    caps: Caps = _NO_CAPS
    mode: Mode = _NO_MODE
    auth_key: bytes = b""
    max_err_data: int = 0
    mr_cnt: int = 0
    tclass: TrafficClass = TrafficClass.FI_TC_UNSPEC


@dataclass(frozen=True)
class EpAttr:
    """``struct fi_ep_attr``, fi_endpoint(3). Sizes are in bytes."""

    type: EpType = EpType.FI_EP_UNSPEC
    protocol: Protocol = Protocol.FI_PROTO_UNSPEC
    protocol_version: int = 0
    max_msg_size: int = 0
    msg_prefix_size: int = 0
    max_order_raw_size: int = 0
    max_order_war_size: int = 0
    max_order_waw_size: int = 0
    mem_tag_format: int = 0
    tx_ctx_cnt: int = 0
    rx_ctx_cnt: int = 0
    auth_key: bytes = b""


@dataclass(frozen=True)
class TxAttr:
    """``struct fi_tx_attr``, fi_endpoint(3)."""

    caps: Caps = _NO_CAPS
    mode: Mode = _NO_MODE
    op_flags: OpFlags = _NO_FLAGS
    """Default flags of operations."""
    msg_order: MsgOrder = _NO_ORDER
    comp_order: MsgOrder = _NO_ORDER
    inject_size: int = 0
    """Bytes."""
    size: int = 0
    """Maximum number of outstanding operations."""
    iov_limit: int = 0
    rma_iov_limit: int = 0
    tclass: TrafficClass = TrafficClass.FI_TC_UNSPEC


@dataclass(frozen=True)
class RxAttr:
    """``struct fi_rx_attr``, fi_endpoint(3)."""

    caps: Caps = _NO_CAPS
    mode: Mode = _NO_MODE
    op_flags: OpFlags = _NO_FLAGS
    msg_order: MsgOrder = _NO_ORDER
    comp_order: MsgOrder = _NO_ORDER
    total_buffered_recv: int = 0
    """Bytes."""
    size: int = 0
    iov_limit: int = 0


@dataclass(frozen=True)
class Info:
    """``struct fi_info``, fi_getinfo(3): hints, or one way to communicate. Printed, it looks as in ``fi_info -v``."""

    caps: Caps = _NO_CAPS
    mode: Mode = _NO_MODE
    addr_format: AddrFormat = AddrFormat.FI_FORMAT_UNSPEC
    src_addr: bytes | None = None
    """The NIC's address as :meth:`amoeba.EndpointAddress.pack` makes it; enabling an endpoint sets its context."""
    dest_addr: bytes | None = None
    handle: Any = None
    """In the FI_CONNREQ of a passive endpoint: the :class:`amoeba.ConnectionRequest`."""
    tx_attr: TxAttr = field(default_factory=TxAttr)
    rx_attr: RxAttr = field(default_factory=RxAttr)
    ep_attr: EpAttr = field(default_factory=EpAttr)
    domain_attr: DomainAttr = field(default_factory=DomainAttr)
    fabric_attr: FabricAttr = field(default_factory=FabricAttr)

    def __str__(self) -> str:
        return tostr(self)


_STRUCTURES = (Info, TxAttr, RxAttr, EpAttr, DomainAttr, FabricAttr)


_KINDS: dict[FiType, type] = {
    FiType.FI_TYPE_INFO: Info,
    FiType.FI_TYPE_EP_TYPE: EpType,
    FiType.FI_TYPE_CAPS: Caps,
    FiType.FI_TYPE_OP_FLAGS: OpFlags,
    FiType.FI_TYPE_ADDR_FORMAT: AddrFormat,
    FiType.FI_TYPE_TX_ATTR: TxAttr,
    FiType.FI_TYPE_RX_ATTR: RxAttr,
    FiType.FI_TYPE_EP_ATTR: EpAttr,
    FiType.FI_TYPE_DOMAIN_ATTR: DomainAttr,
    FiType.FI_TYPE_FABRIC_ATTR: FabricAttr,
    FiType.FI_TYPE_THREADING: Threading,
    FiType.FI_TYPE_PROGRESS: Progress,
    FiType.FI_TYPE_PROTOCOL: Protocol,
    FiType.FI_TYPE_MSG_ORDER: MsgOrder,
    FiType.FI_TYPE_MODE: Mode,
    FiType.FI_TYPE_AV_TYPE: AvType,
    FiType.FI_TYPE_ATOMIC_TYPE: Datatype,
    FiType.FI_TYPE_ATOMIC_OP: Op,
    FiType.FI_TYPE_EQ_EVENT: EqEvent,
    FiType.FI_TYPE_CQ_EVENT_FLAGS: Caps,
    FiType.FI_TYPE_MR_MODE: MrMode,
    FiType.FI_TYPE_OP_TYPE: TriggerOp,
    FiType.FI_TYPE_CQ_FORMAT: CqFormat,
}
"""Class of the values of each kind; kinds without a class are left out."""


def tostr(value: Any, kind: FiType | None = None) -> str:
    """Format a value as ``fi_tostr`` does: an enumeration, a set of flags, or a structure of this module.

    With ``kind`` the value may be a plain number of an enumeration or a set of flags. FI_TYPE_FID formats any object
    of the driver; FI_TYPE_VERSION formats libfabric's release, whatever the value. Unnamed numbers are ``Unknown``.
    Raises TypeError for any other value.
    """
    if kind is FiType.FI_TYPE_VERSION:
        return _field(_VERSIONS[0], API_VERSION)
    if kind is FiType.FI_TYPE_FID:
        return repr(value)
    if kind is not None:
        expected = _KINDS.get(kind)
        if expected is None or (expected in _STRUCTURES and not isinstance(value, expected)):
            raise TypeError(f"expected a value of {kind.name}, got {type(value).__name__}")
        if issubclass(expected, enum.IntEnum) and value not in list(expected):
            return "Unknown"
        value = value if expected in _STRUCTURES else expected(value)
    if isinstance(value, _STRUCTURES):
        return "\n".join(_lines(value, ""))
    if isinstance(value, enum.IntFlag):
        return _flags(value)
    if isinstance(value, enum.IntEnum):
        return value.name
    raise TypeError(f"expected an enumeration, flags or an attribute structure, got {type(value).__name__}")


def _flags(value: enum.IntFlag) -> str:
    names = [str(flag.name) for flag in type(value) if flag and flag in value]
    unknown = int(value) & ~sum(type(value))
    if unknown:
        names.append(f"{unknown:#x}")
    return ", ".join(names) or value.name or ""


def _lines(structure: Any, indent: str) -> list[str]:
    kind = type(structure).__name__
    lines = [f"{indent}fi_{kind.removesuffix('Attr').lower()}{'_attr' if kind.endswith('Attr') else ''}:"]
    for each in fields(structure):
        value = getattr(structure, each.name)
        if isinstance(value, _STRUCTURES):
            lines += _lines(value, indent + _INDENT)
        else:
            lines.append(f"{indent}{_INDENT}{each.name}: {_field(each.name, value)}")
    return lines


def _field(name: str, value: Any) -> str:
    if value is None:
        return "(null)"
    if isinstance(value, enum.IntFlag):
        return f"[ {_flags(value)} ]"
    if isinstance(value, enum.IntEnum):
        return value.name
    if isinstance(value, bytes):
        return value.hex() or "(null)"
    if name in _VERSIONS:
        return version_text(value)
    return str(value)
