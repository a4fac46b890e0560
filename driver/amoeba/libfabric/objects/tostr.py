"""``fi_tostr``: values of libfabric's types as text."""

import enum
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
    Threading,
    TriggerOp,
)
from amoeba.libfabric.objects.printing import API_VERSION, flags_text, structure_text, version_text
from amoeba.libfabric.objects.structures import DomainAttr, EpAttr, FabricAttr, Info, RxAttr, TxAttr

__all__ = ["tostr"]

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
    """Format a value as ``fi_tostr`` does: an enumeration, a set of flags, or an attribute structure.

    With ``kind`` the value may be a plain number of an enumeration or a set of flags. FI_TYPE_FID formats any object
    of the driver; FI_TYPE_VERSION formats libfabric's release, whatever the value. Unnamed numbers are ``Unknown``.
    Raises TypeError for any other value.
    """
    if kind is FiType.FI_TYPE_VERSION:
        return version_text(API_VERSION)
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
        return structure_text(value)
    if isinstance(value, enum.IntFlag):
        return flags_text(value)
    if isinstance(value, enum.IntEnum):
        return value.name
    raise TypeError(f"expected an enumeration, flags or an attribute structure, got {type(value).__name__}")
