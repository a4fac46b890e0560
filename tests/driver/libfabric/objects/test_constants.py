"""The driver's numbers are libfabric's."""

import enum
import json
from pathlib import Path

import pytest
from amoeba.core.errno import Errno
from amoeba.libfabric.objects import constants
from amoeba.libfabric.objects.constants import Caps, CqFormat, Datatype, MrMode, Op, OpFlags, QueryFlags

SPECIFICATION = Path(__file__).parents[5] / "shared" / "spec" / "fi_constants_1.17.json"
EXTENSIONS = {"FI_DIFF", "FI_FLOAT16", "FI_BFLOAT16", "FI_FLOAT8_E4M3", "FI_FLOAT8_E5M2"} | {
    f"FI_OPT_{most}_{kind}_SIZE" for most in ("MAX", "INJECT") for kind in ("MSG", "TAGGED", "RMA", "ATOMIC")
}
"""Newer than libfabric 1.17."""


def enumerations():
    for name in constants.__all__:
        kind = getattr(constants, name)
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            yield kind


@pytest.mark.skipif(not SPECIFICATION.exists(), reason="the extracted constants of libfabric 1.17 are not here")
def test_every_number_is_that_of_libfabric_1_17():
    spec = {}
    for group in json.loads(SPECIFICATION.read_text()).values():
        spec.update(group)
    ours = {name: int(value) for kind in enumerations() for name, value in kind.__members__.items()}
    assert {name: value for name, value in ours.items() if name not in EXTENSIONS} == {
        name: spec[name] for name in ours if name not in EXTENSIONS
    }
    assert spec["FI_ADDR_UNSPEC"] == constants.FI_ADDR_UNSPEC
    assert spec["FI_KEY_NOTAVAIL"] == constants.FI_KEY_NOTAVAIL
    assert spec["FI_SHARED_CONTEXT"] == constants.FI_SHARED_CONTEXT


@pytest.mark.parametrize(
    ("member", "value"),
    [
        (Op.FI_CSWAP, 12),
        (Op.FI_MSWAP, 18),
        (Datatype.FI_UINT64, 7),
        (Datatype.FI_LONG_DOUBLE_COMPLEX, 13),
        (Caps.FI_ATOMIC, 0x10),
        (OpFlags.FI_MORE, 0x40000),
        (OpFlags.FI_DELIVERY_COMPLETE, 0x10000000),
        (QueryFlags.FI_FETCH_ATOMIC, 0x400000000000000),
        (QueryFlags.FI_COMPARE_ATOMIC, 0x800000000000000),
        (MrMode.FI_MR_VIRT_ADDR, 0x10),
        (Errno.FI_ENOKEY, 266),
        (Errno.FI_EAVAIL, 259),
        (CqFormat.FI_CQ_FORMAT_TAGGED, 4),
    ],
)
def test_numbers_of_the_man_pages(member, value):
    assert member == value
