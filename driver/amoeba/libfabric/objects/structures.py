# Generated from driver/amoeba/libfabric/libfabric-1.17.toml by scripts/api_tables; do not edit.
"""``struct fi_info`` and its parts, as fi_getinfo(3), fi_fabric(3), fi_domain(3) and fi_endpoint(3) name them.

As hints, every field may stay at its default, which asks for nothing in particular: like a zeroed ``fi_allocinfo``
in C.
"""

from dataclasses import dataclass, field
from typing import Any

from amoeba.libfabric.objects.constants import (
    AddrFormat,
    AvType,
    Caps,
    EpType,
    Mode,
    MrMode,
    MsgOrder,
    OpFlags,
    Progress,
    Protocol,
    ResourceMgmt,
    Threading,
    TrafficClass,
)
from amoeba.libfabric.objects.printing import Printed

__all__ = ["DomainAttr", "EpAttr", "FabricAttr", "Info", "RxAttr", "TxAttr"]


@dataclass(frozen=True)
class FabricAttr:
    """``struct fi_fabric_attr``, fi_fabric(3)."""

    name: str | None = None
    prov_name: str | None = None
    prov_version: int = 0
    """Version of the driver, as :func:`amoeba.version` makes it."""
    api_version: int = 0
    """libfabric's release: the requested one, or 1.17."""


@dataclass(frozen=True)
class DomainAttr:
    """``struct fi_domain_attr``, fi_domain(3). Counts are those of the NIC, also of entries in use."""

    name: str | None = None
    threading: Threading = Threading.FI_THREAD_UNSPEC
    control_progress: Progress = Progress.FI_PROGRESS_UNSPEC
    data_progress: Progress = Progress.FI_PROGRESS_UNSPEC
    resource_mgmt: ResourceMgmt = ResourceMgmt.FI_RM_UNSPEC
    av_type: AvType = AvType.FI_AV_UNSPEC
    mr_mode: MrMode = MrMode(0)  # noqa: RUF009  members do not change
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
    caps: Caps = Caps(0)  # noqa: RUF009  members do not change
    mode: Mode = Mode(0)  # noqa: RUF009  members do not change
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

    caps: Caps = Caps(0)  # noqa: RUF009  members do not change
    mode: Mode = Mode(0)  # noqa: RUF009  members do not change
    op_flags: OpFlags = OpFlags(0)  # noqa: RUF009  members do not change
    """Default flags of operations."""
    msg_order: MsgOrder = MsgOrder(0)  # noqa: RUF009  members do not change
    comp_order: MsgOrder = MsgOrder(0)  # noqa: RUF009  members do not change
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

    caps: Caps = Caps(0)  # noqa: RUF009  members do not change
    mode: Mode = Mode(0)  # noqa: RUF009  members do not change
    op_flags: OpFlags = OpFlags(0)  # noqa: RUF009  members do not change
    msg_order: MsgOrder = MsgOrder(0)  # noqa: RUF009  members do not change
    comp_order: MsgOrder = MsgOrder(0)  # noqa: RUF009  members do not change
    total_buffered_recv: int = 0
    """Bytes."""
    size: int = 0
    iov_limit: int = 0


@dataclass(frozen=True)
class Info(Printed):
    """``struct fi_info``, fi_getinfo(3): hints, or one way to communicate. Printed, it looks as in ``fi_info -v``."""

    caps: Caps = Caps(0)  # noqa: RUF009  members do not change
    mode: Mode = Mode(0)  # noqa: RUF009  members do not change
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
