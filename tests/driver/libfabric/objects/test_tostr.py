"""``fi_tostr`` prints names for numbers.

Covers ``libfabric/objects/printing.py``.
"""

import pytest
from amoeba import Caps, Datatype, EpType, FabricAttr, FiType, Info, MrMode, Op, TriggerOp, TxAttr, tostr, version


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (3, FiType.FI_TYPE_EP_TYPE, "FI_EP_RDM"),
        (1 << 2 | 1 << 9, FiType.FI_TYPE_CAPS, "FI_RMA, FI_WRITE"),
        (1 << 24, FiType.FI_TYPE_OP_FLAGS, "FI_COMPLETION"),
        (2, FiType.FI_TYPE_ADDR_FORMAT, "FI_SOCKADDR_IN"),
        (3, FiType.FI_TYPE_THREADING, "FI_THREAD_DOMAIN"),
        (2, FiType.FI_TYPE_PROGRESS, "FI_PROGRESS_MANUAL"),
        (0, FiType.FI_TYPE_PROTOCOL, "FI_PROTO_UNSPEC"),
        (0, FiType.FI_TYPE_MSG_ORDER, "FI_ORDER_NONE"),
        (1 << 59, FiType.FI_TYPE_MODE, "FI_CONTEXT"),
        (2, FiType.FI_TYPE_AV_TYPE, "FI_AV_TABLE"),
        (Datatype.FI_INT8, FiType.FI_TYPE_ATOMIC_TYPE, "FI_INT8"),
        (int(Op.FI_CSWAP), FiType.FI_TYPE_ATOMIC_OP, "FI_CSWAP"),
        (version(1, 17), FiType.FI_TYPE_VERSION, "1.17"),
        (None, FiType.FI_TYPE_VERSION, "1.17"),
        (5, FiType.FI_TYPE_EQ_EVENT, "FI_AV_COMPLETE"),
        (1 << 1 | 1 << 10, FiType.FI_TYPE_CQ_EVENT_FLAGS, "FI_MSG, FI_RECV"),
        (int(MrMode.FI_MR_PROV_KEY), FiType.FI_TYPE_MR_MODE, "FI_MR_PROV_KEY"),
        (int(TriggerOp.FI_OP_TSEND), FiType.FI_TYPE_OP_TYPE, "FI_OP_TSEND"),
        (4, FiType.FI_TYPE_CQ_FORMAT, "FI_CQ_FORMAT_TAGGED"),
        (99, FiType.FI_TYPE_EP_TYPE, "Unknown"),
        (1 << 2 | 1 << 63, FiType.FI_TYPE_CAPS, "FI_RMA, 0x8000000000000000"),
        (None, FiType.FI_TYPE_FID, "None"),
    ],
)
def test_numbers_have_the_names_of_their_kind(value, kind, text):
    assert tostr(value, kind) == text


def test_structures_are_printed_alike_with_and_without_their_kind():
    for value, kind in ((Info(), FiType.FI_TYPE_INFO), (TxAttr(size=3), FiType.FI_TYPE_TX_ATTR)):
        assert tostr(value, kind) == tostr(value)
    assert "    name: model" in tostr(FabricAttr("model"), FiType.FI_TYPE_FABRIC_ATTR)


@pytest.mark.parametrize("value", list(EpType) + list(Caps) + list(FiType))
def test_values_need_no_kind(value):
    assert tostr(value) == value.name


@pytest.mark.parametrize(
    ("value", "kind"),
    [(3, None), (Info(), FiType.FI_TYPE_TX_ATTR), (1, FiType.FI_TYPE_INFO), (1, FiType.FI_TYPE_LOG_LEVEL)],
)
def test_what_has_no_kind_or_another_is_refused(value, kind):
    with pytest.raises(TypeError):
        tostr(value, kind)
