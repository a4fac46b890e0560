"""The structures that queues, counters and vectors are opened with, as far as their fields mean something here."""

from dataclasses import dataclass

from amoeba.constants import AvFlags, AvType, CqFormat, EqFlags, WaitObj

__all__ = ["AvAttr", "CntrAttr", "CqAttr", "EqAttr"]

_NO_AV_FLAGS = AvFlags(0)
_NO_EQ_FLAGS = EqFlags(0)


@dataclass(frozen=True)
class AvAttr:
    """``struct fi_av_attr``, fi_av(3)."""

    type: AvType = AvType.FI_AV_UNSPEC
    rx_ctx_bits: int = 0
    flags: AvFlags = _NO_AV_FLAGS


@dataclass(frozen=True)
class CqAttr:
    """``struct fi_cq_attr``, fi_cq(3)."""

    format: CqFormat = CqFormat.FI_CQ_FORMAT_UNSPEC
    wait_obj: WaitObj = WaitObj.FI_WAIT_NONE


@dataclass(frozen=True)
class CntrAttr:
    """``struct fi_cntr_attr``, fi_cntr(3). All counters count operations."""

    wait_obj: WaitObj = WaitObj.FI_WAIT_UNSPEC


@dataclass(frozen=True)
class EqAttr:
    """``struct fi_eq_attr``, fi_eq(3)."""

    size: int = 0
    """Events; 0: any number."""
    flags: EqFlags = _NO_EQ_FLAGS
    wait_obj: WaitObj = WaitObj.FI_WAIT_NONE
