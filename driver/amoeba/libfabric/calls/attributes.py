# Generated from driver/amoeba/libfabric/libfabric-1.17.toml by scripts/api_tables; do not edit.
"""The structures that queues, counters and vectors are opened with: the fields that have a meaning here."""

from dataclasses import dataclass

from amoeba.libfabric.objects.constants import (
    AvFlags,
    AvType,
    CntrEvents,
    CqFlags,
    CqFormat,
    CqWaitCond,
    EqFlags,
    WaitObj,
)
from amoeba.libfabric.objects.queues.wait_set import WaitSet

__all__ = ["AvAttr", "CntrAttr", "CqAttr", "EqAttr", "PollAttr", "WaitAttr"]


@dataclass(frozen=True)
class AvAttr:
    """``struct fi_av_attr``, fi_av(3)."""

    type: AvType = AvType.FI_AV_UNSPEC
    rx_ctx_bits: int = 0
    flags: AvFlags = AvFlags(0)  # noqa: RUF009  members do not change
    count: int = 0
    """A hint, as is ``ep_per_node``."""
    ep_per_node: int = 0
    name: str | None = None
    """None: vectors are not shared."""
    map_addr: int = 0
    """Of shared vectors."""


@dataclass(frozen=True)
class CqAttr:
    """``struct fi_cq_attr``, fi_cq(3)."""

    format: CqFormat = CqFormat.FI_CQ_FORMAT_UNSPEC
    wait_obj: WaitObj = WaitObj.FI_WAIT_NONE
    wait_cond: CqWaitCond = CqWaitCond.FI_CQ_COND_NONE
    wait_set: WaitSet | None = None
    size: int = 0
    """Entries; a queue always grows if needed."""
    flags: CqFlags = CqFlags(0)  # noqa: RUF009  members do not change
    signaling_vector: int = 0
    """A hint, with FI_AFFINITY."""


@dataclass(frozen=True)
class CntrAttr:
    """``struct fi_cntr_attr``, fi_cntr(3)."""

    wait_obj: WaitObj = WaitObj.FI_WAIT_UNSPEC
    wait_set: WaitSet | None = None
    events: CntrEvents = CntrEvents.FI_CNTR_EVENTS_COMP
    flags: int = 0
    """Reserved."""


@dataclass(frozen=True)
class EqAttr:
    """``struct fi_eq_attr``, fi_eq(3)."""

    size: int = 0
    """Events; 0: any number."""
    flags: EqFlags = EqFlags(0)  # noqa: RUF009  members do not change
    wait_obj: WaitObj = WaitObj.FI_WAIT_NONE
    wait_set: WaitSet | None = None
    signaling_vector: int = 0
    """A hint."""


@dataclass(frozen=True)
class PollAttr:
    """``struct fi_poll_attr``, fi_poll(3)."""

    flags: int = 0
    """Reserved."""


@dataclass(frozen=True)
class WaitAttr:
    """``struct fi_wait_attr``, fi_poll(3)."""

    wait_obj: WaitObj = WaitObj.FI_WAIT_UNSPEC
    flags: int = 0
    """Reserved."""
