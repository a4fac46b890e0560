"""Operand classes against hand-picked encodings, and against NumPy and ml_dtypes where they know the format."""

import ml_dtypes
import numpy as np
import pytest
from amoeba_model.atomic.classes import class_names, classify, classify_parts, missing_classes, part_class_names
from amoeba_model.opcodes import Datatype

ENCODINGS = {
    Datatype.FI_INT8: {0: "zero", 1: "one", 0xFF: "minus one", 0x80: "minimum", 0x7F: "maximum", 0x81: "other"},
    Datatype.FI_UINT16: {0: "zero", 1: "one", 0xFFFF: "maximum", 0x8000: "other", 0x0100: "other"},
    Datatype.FI_INT128: {
        (1 << 128) - 1: "minus one",
        1 << 127: "minimum",
        (1 << 127) - 1: "maximum",
        1 << 64: "other",
    },
    Datatype.FI_FLOAT8_E4M3: {0x00: "+zero", 0x87: "-subnormal", 0x08: "+normal", 0x7E: "+huge", 0xFF: "-NaN"},
    Datatype.FI_FLOAT8_E5M2: {0x7B: "+huge", 0x7C: "+infinity", 0xFD: "-NaN", 0x04: "+normal", 0x03: "+subnormal"},
    Datatype.FI_FLOAT: {
        0x80000000: "-zero",
        0x00000001: "+subnormal",
        0x807FFFFF: "-subnormal",
        0x00800000: "+normal",
        0x7E7FFFFF: "+normal",
        0x7F000000: "+huge",
        0xFF7FFFFF: "-huge",
        0xFF800000: "-infinity",
        0x7F800001: "+NaN",
        0xFFC00000: "-NaN",
    },
    Datatype.FI_LONG_DOUBLE: {
        0x0000_0000000000000000: "+zero",
        0x8000_0000000000000001: "-subnormal",
        0x0000_8000000000000000: "+subnormal",
        0x3FFF_8000000000000000: "+normal",
        0x7FFE_FFFFFFFFFFFFFFFF: "+huge",
        0xFFFF_8000000000000000: "-infinity",
        0x7FFF_C000000000000000: "+NaN",
        0x7FFF_8000000000000001: "+NaN",
        0x3FFF_0000000000000001: "+invalid",
        0xFFFF_0000000000000000: "-invalid",
        0x7FFF_4000000000000000: "+invalid",
    },
}


@pytest.mark.parametrize("datatype", ENCODINGS, ids=lambda datatype: datatype.name)
def test_encodings_have_their_class(datatype):
    for value, expected in ENCODINGS[datatype].items():
        memory = np.frombuffer(value.to_bytes(datatype.size, "little"), np.uint8).reshape(1, -1)
        assert class_names(datatype)[classify(datatype, memory)[0]] == expected, hex(value)


def test_the_padding_of_a_long_double_does_not_count():
    memory = np.full((1, 16), 0xAA, np.uint8)
    memory[0, :10] = 0
    assert class_names(Datatype.FI_LONG_DOUBLE)[classify(Datatype.FI_LONG_DOUBLE, memory)[0]] == "+zero"


def test_a_complex_number_has_the_kinds_of_its_parts():
    memory = np.array([[np.inf, -0.0], [1.0, np.nan]], np.float32).view(np.uint8).reshape(2, 8)
    names = class_names(Datatype.FI_FLOAT_COMPLEX)
    assert [names[code] for code in classify(Datatype.FI_FLOAT_COMPLEX, memory)] == [
        "infinity, zero i",
        "normal, NaN i",
    ]
    parts = part_class_names(Datatype.FI_FLOAT_COMPLEX)
    assert [parts[code] for code in classify_parts(Datatype.FI_FLOAT_COMPLEX, memory)] == [
        "+infinity",
        "-zero",
        "+normal",
        "+NaN",
    ]


@pytest.mark.parametrize(
    ("datatype", "theirs"),
    [
        (Datatype.FI_FLOAT8_E4M3, ml_dtypes.float8_e4m3fn),
        (Datatype.FI_FLOAT8_E5M2, ml_dtypes.float8_e5m2),
        (Datatype.FI_FLOAT16, np.float16),
        (Datatype.FI_BFLOAT16, ml_dtypes.bfloat16),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_every_encoding_of_a_small_format_agrees_with_numpy(datatype, theirs):
    bits = np.arange(1 << 8 * datatype.size).astype(f"<u{datatype.size}")
    with np.errstate(invalid="ignore"):
        values = bits.view(theirs).astype(np.float64)
    limits = ml_dtypes.finfo(theirs)
    codes = classify(datatype, bits.view(np.uint8).reshape(-1, datatype.size))
    kinds = np.array([name[1:] for name in class_names(datatype)])[codes]
    signs = np.array([name[0] for name in class_names(datatype)])[codes]
    size = np.abs(values)
    largest_power = 2.0 ** np.floor(np.log2(float(limits.max)))
    with np.errstate(invalid="ignore"):
        expected = np.select(
            [
                np.isnan(values),
                np.isinf(values),
                size == 0,
                size < float(limits.smallest_normal),
                size >= largest_power,
            ],
            ["NaN", "infinity", "zero", "subnormal", "huge"],
            "normal",
        )
    assert (kinds == expected).all()
    assert ((signs == "-") == (bits >> (8 * datatype.size - 1) == 1)).all()


def test_what_a_datatype_lacks_has_a_reason_and_no_class():
    for datatype in Datatype:
        names = " ".join(part_class_names(datatype))
        for kind, reason in missing_classes(datatype).items():
            assert reason
            assert kind not in names
    assert "infinity" in missing_classes(Datatype.FI_FLOAT8_E4M3)
    assert missing_classes(Datatype.FI_LONG_DOUBLE) == {}
