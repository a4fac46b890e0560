"""Hand-worked results: every line can be checked with a pencil and the format's specification.

Covers ``atomic/limbs.py``, ``atomic/formats.py`` and ``opcodes.py``.
"""

import numpy as np
import pytest
from amoeba_model.atomic import cells, execute
from amoeba_model.atomic.matrix import COMPARE_OPS
from amoeba_model.opcodes import Datatype, Op

from tests.support.strategies import operands

INT8, UINT8, INT16 = Datatype.FI_INT8, Datatype.FI_UINT8, Datatype.FI_INT16
INT128, UINT128 = Datatype.FI_INT128, Datatype.FI_UINT128
FLOAT, DOUBLE, X87 = Datatype.FI_FLOAT, Datatype.FI_DOUBLE, Datatype.FI_LONG_DOUBLE
HALF, BFLOAT, E4M3, E5M2 = list(Datatype)[16:]
COMPLEX = Datatype.FI_FLOAT_COMPLEX

ONES128 = (1 << 128) - 1
X87_ONE, X87_INDEFINITE = 0x3FFF_8000 << 48, 0xFFFF_C000 << 48


def run(op, datatype, target, operand, compare=None, **options):
    arrays = (None if value is None else memory(datatype, value) for value in (target, operand, compare))
    return int.from_bytes(execute(op, datatype, *arrays, **options).tobytes(), "little")


def memory(datatype, value):
    return np.frombuffer(value.to_bytes(datatype.size, "little"), np.uint8).reshape(1, -1)


@pytest.mark.parametrize(
    ("op", "datatype", "target", "operand", "expected"),
    [
        # Integers wrap, and MIN and MAX know signs.
        (Op.FI_SUM, INT8, 0x7F, 0x01, 0x80),
        (Op.FI_DIFF, UINT8, 0x00, 0x01, 0xFF),
        (Op.FI_PROD, INT16, 0x0100, 0x0100, 0x0000),
        (Op.FI_MIN, INT8, 0x01, 0xFF, 0xFF),
        (Op.FI_MIN, UINT8, 0x01, 0xFF, 0x01),
        (Op.FI_LOR, INT16, 0x0000, 0x8000, 0x0001),
        (Op.FI_LAND, INT16, 0x0100, 0x0000, 0x0000),
        (Op.FI_LXOR, INT16, 0x0100, 0x0001, 0x0000),
        (Op.FI_SUM, UINT128, (1 << 64) - 1, 1, 1 << 64),
        (Op.FI_DIFF, UINT128, 0, 1, ONES128),
        (Op.FI_PROD, INT128, ONES128, ONES128, 1),
        (Op.FI_PROD, UINT128, (1 << 64) - 1, (1 << 64) - 1, ONES128 - (1 << 65) + 2),
        (Op.FI_MAX, INT128, 1, ONES128, 1),
        (Op.FI_MAX, UINT128, 1, ONES128, ONES128),
        # 1 + 2**-24 is a tie and stays even; 1 + 2**-23 + 2**-24 is one and goes up.
        (Op.FI_SUM, FLOAT, 0x3F80_0000, 0x3380_0000, 0x3F80_0000),
        (Op.FI_SUM, FLOAT, 0x3F80_0001, 0x3380_0000, 0x3F80_0002),
        # The smallest subnormal survives, doubles, and halves to zero (tie to even).
        (Op.FI_SUM, FLOAT, 0x0000_0001, 0x0000_0001, 0x0000_0002),
        (Op.FI_PROD, FLOAT, 0x0000_0001, 0x3F00_0000, 0x0000_0000),
        # x - x is +0 (also -x + x), -0 + -0 is -0, -1 * 0 is -0.
        (Op.FI_DIFF, DOUBLE, 0xBFF0 << 48, 0xBFF0 << 48, 0),
        (Op.FI_SUM, FLOAT, 0x8000_0000, 0x8000_0000, 0x8000_0000),
        (Op.FI_PROD, FLOAT, 0xBF80_0000, 0x0000_0000, 0x8000_0000),
        # MIN and MAX neither exchange zeros nor let a NaN in or out.
        (Op.FI_MIN, FLOAT, 0x0000_0000, 0x8000_0000, 0x0000_0000),
        (Op.FI_MIN, FLOAT, 0x3F80_0000, 0x7FC0_0000, 0x3F80_0000),
        (Op.FI_MAX, FLOAT, 0x7F80_0001, 0x3F80_0000, 0x7F80_0001),
        # Logic: NaN and subnormals are true, -0 is false.
        (Op.FI_LAND, FLOAT, 0x7FC0_0000, 0x0000_0001, 0x3F80_0000),
        (Op.FI_LOR, FLOAT, 0x8000_0000, 0x0000_0000, 0x0000_0000),
        (Op.FI_LXOR, HALF, 0x8000, 0x0001, 0x3C00),
        (Op.FI_LOR, COMPLEX, 0x0000_0001 << 32, 0, 0x3F80_0000),
        (Op.FI_LOR, E4M3, 0x00, 0x7F, 0x38),
        # NaNs: the target's first, then the operand's, both quieted; the operand of FI_DIFF keeps its sign.
        (Op.FI_SUM, FLOAT, 0x7F80_0001, 0xFFC0_0002, 0x7FC0_0001),
        (Op.FI_PROD, DOUBLE, 0, 0xFFF0_0000_0000_0007, 0xFFF8_0000_0000_0007),
        (Op.FI_DIFF, FLOAT, 0x3F80_0000, 0x7F80_0001, 0x7FC0_0001),
        (Op.FI_DIFF, HALF, 0x3C00, 0xFC01, 0xFE01),
        (Op.FI_SUM, E4M3, 0x7F, 0xFF, 0x7F),
        (Op.FI_SUM, BFLOAT, 0x3F80, 0xFF81, 0xFFC1),
        # Invalid operations: inf - inf and 0 * inf give the NaN whose sign is set.
        (Op.FI_SUM, FLOAT, 0x7F80_0000, 0xFF80_0000, 0xFFC0_0000),
        (Op.FI_DIFF, FLOAT, 0x7F80_0000, 0x7F80_0000, 0xFFC0_0000),
        (Op.FI_PROD, DOUBLE, 0, 0x7FF0 << 48, 0xFFF8 << 48),
        (Op.FI_DIFF, E5M2, 0x7C, 0x7C, 0xFE),
        # OCP E4M3 has 448 = 0x7e as its largest: 448 + 16 ties back to it, 448 + 18 is NaN, with its sign.
        (Op.FI_SUM, E4M3, 0x7E, 0x58, 0x7E),
        (Op.FI_SUM, E4M3, 0x7E, 0x59, 0x7F),
        (Op.FI_PROD, E4M3, 0x7E, 0xFE, 0xFF),
        # E5M2 overflows to infinity: 57344 + 4096 is a tie that goes up to even, out of range.
        (Op.FI_SUM, E5M2, 0x7B, 0x6C, 0x7C),
        (Op.FI_SUM, E5M2, 0x7B, 0x68, 0x7B),
    ],
)
def test_the_result_is_the_hand_worked_one(op, datatype, target, operand, expected):
    assert hex(run(op, datatype, target, operand)) == hex(expected)


@pytest.mark.parametrize(
    ("op", "target", "operand", "compare", "expected"),
    [
        (Op.FI_CSWAP, 5, 9, 5, 9),
        (Op.FI_CSWAP, 5, 9, 4, 5),
        (Op.FI_CSWAP_NE, 5, 9, 4, 9),
        (Op.FI_CSWAP_LE, 5, 9, 5, 9),
        (Op.FI_CSWAP_LT, 5, 9, 5, 5),
        (Op.FI_CSWAP_GE, 5, 9, 4, 5),
        (Op.FI_CSWAP_GT, 5, 9, 6, 9),
        (Op.FI_CSWAP_LT, 0, 9, 0xFFFF, 9),
        (Op.FI_MSWAP, 0x1234, 0xABCD, 0x0FF0, 0x1BC4),
    ],
)
def test_compare_stands_left_of_the_target(op, target, operand, compare, expected):
    assert run(op, INT16, target, operand, compare) == expected


def test_floats_compare_by_value_unless_cswap_is_told_otherwise():
    zero, minus_zero, nan, new = 0x0000_0000, 0x8000_0000, 0x7FC0_0000, 0x4000_0000
    assert run(Op.FI_CSWAP, FLOAT, zero, new, minus_zero) == new
    assert run(Op.FI_CSWAP, FLOAT, nan, new, nan) == nan
    assert run(Op.FI_CSWAP, FLOAT, zero, new, minus_zero, cswap_by_bits=True) == zero
    assert run(Op.FI_CSWAP, FLOAT, nan, new, nan, cswap_by_bits=True) == new
    assert run(Op.FI_CSWAP_NE, FLOAT, zero, new, minus_zero, cswap_by_bits=True) == zero
    assert run(Op.FI_CSWAP_NE, FLOAT, nan, new, nan, cswap_by_bits=True) == new


def test_long_double_rounds_to_64_bits():
    half_ulp = 0x3FBF_8000 << 48
    assert run(Op.FI_SUM, X87, X87_ONE, half_ulp) == X87_ONE
    assert run(Op.FI_SUM, X87, X87_ONE + 1, half_ulp) == X87_ONE + 2
    # (2 - 2**-63) + 2**-64 ties up into the next binade.
    assert run(Op.FI_SUM, X87, 0x3FFF_FFFF_FFFF_FFFF_FFFF, half_ulp) == 0x4000_8000 << 48


def test_long_double_pseudo_denormals_are_numbers_and_the_other_odd_encodings_are_invalid():
    pseudo_denormal, smallest_normal = 1 << 63, 1 << 64 | 1 << 63
    unnormal, pseudo_nan, pseudo_infinity = 0x3FFF << 64 | 5, 0x7FFF << 64 | 5, 0x7FFF << 64
    assert run(Op.FI_SUM, X87, pseudo_denormal, 0) == smallest_normal
    assert run(Op.FI_CSWAP, X87, pseudo_denormal, X87_ONE, smallest_normal) == X87_ONE
    for invalid in (unnormal, pseudo_nan, pseudo_infinity, 0x3FFF << 64):
        assert run(Op.FI_SUM, X87, X87_ONE, invalid) == X87_INDEFINITE
        assert run(Op.FI_PROD, X87, invalid, 0x7FFF_C123 << 48) == X87_INDEFINITE
        assert run(Op.FI_CSWAP, X87, invalid, X87_ONE, invalid) == invalid
        assert run(Op.FI_CSWAP_NE, X87, invalid, X87_ONE, invalid) == X87_ONE
        assert run(Op.FI_LOR, X87, invalid, 0) == X87_ONE
        assert run(Op.FI_ATOMIC_WRITE, X87, 0, invalid) == invalid


def test_of_two_long_double_nans_the_x87s_choice_is_handed_on():
    quiet, signalling = 0x7FFF_C000 << 48, 0x7FFF_8000 << 48
    assert run(Op.FI_SUM, X87, signalling | 9, quiet | 1) == quiet | 1
    assert run(Op.FI_SUM, X87, quiet | 1, quiet | 9) == quiet | 9
    assert run(Op.FI_SUM, X87, signalling | 1, signalling | 9) == quiet | 9
    assert run(Op.FI_PROD, X87, 1 << 79 | quiet | 1, quiet | 1) == quiet | 1


def test_stored_long_doubles_have_zero_padding_and_untouched_ones_keep_theirs():
    padding = 0xABCD << 112
    target, operand = X87_ONE | padding, (0x4000_8000 << 48) | padding
    assert run(Op.FI_ATOMIC_WRITE, X87, target, operand) == 0x4000_8000 << 48
    assert run(Op.FI_MAX, X87, target, operand) == 0x4000_8000 << 48
    assert run(Op.FI_MIN, X87, target, operand) == target
    assert run(Op.FI_CSWAP, X87, target, operand, 0) == target
    assert run(Op.FI_CSWAP, X87, target, operand, X87_ONE, cswap_by_bits=True) == 0x4000_8000 << 48
    assert run(Op.FI_ATOMIC_READ, X87, target, None) == target
    assert run(Op.FI_LAND, X87, target, operand) == X87_ONE


def test_a_complex_product_with_an_infinite_factor_is_infinite():
    # (inf + NaN i) * (1 + 0i): both naive parts are NaN, Annex G makes it infinite.
    infinity_nan, one = 0x7FC0_0000 << 32 | 0x7F80_0000, 0x3F80_0000
    result = run(Op.FI_PROD, COMPLEX, infinity_nan, one)
    assert result & 0xFFFF_FFFF == 0x7F80_0000
    # (1 + 2i) * (3 + 4i) = -5 + 10i
    product = run(Op.FI_PROD, COMPLEX, 0x4000_0000 << 32 | 0x3F80_0000, 0x4080_0000 << 32 | 0x4040_0000)
    assert product == 0x4120_0000 << 32 | 0xC0A0_0000


def test_arguments_are_not_changed_and_the_result_shares_no_memory_with_them():
    for cell in cells(extensions=True):
        arrays = list(operands(cell.datatype, 20, seed=5))[: 3 if cell.op in COMPARE_OPS else 2]
        copies = [array.copy() for array in arrays]
        for array in arrays:
            array.flags.writeable = False
        result = execute(cell.op, cell.datatype, *arrays)
        assert result.shape == arrays[0].shape
        assert result.dtype == np.uint8
        assert not any(np.shares_memory(result, array) for array in arrays)
        for array, copy in zip(arrays, copies, strict=True):
            np.testing.assert_array_equal(array, copy)


ZEROS = np.zeros((3, 4), np.uint8)


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (
            ValueError,
            "expected a cell of the atomic matrix, got FI_BOR on FI_FLOAT",
            (Op.FI_BOR, FLOAT, ZEROS, ZEROS),
        ),
        (TypeError, "operand: expected a uint8 array, got NoneType", (Op.FI_SUM, FLOAT, ZEROS, None)),
        (TypeError, "target: expected a uint8 array, got bytes", (Op.FI_SUM, FLOAT, b"1234", ZEROS)),
        (TypeError, "target: expected a uint8 array, got int8", (Op.FI_SUM, FLOAT, ZEROS.view("i1"), ZEROS)),
        (
            ValueError,
            r"target: expected shape \(n, 8\) for FI_DOUBLE, got \(3, 4\)",
            (Op.FI_SUM, DOUBLE, ZEROS, ZEROS),
        ),
        (
            ValueError,
            r"operand: expected shape \(3, 4\) for FI_FLOAT, got \(2, 4\)",
            (Op.FI_SUM, FLOAT, ZEROS, ZEROS[:2]),
        ),
        (TypeError, "compare: expected a uint8 array, got NoneType", (Op.FI_CSWAP, FLOAT, ZEROS, ZEROS)),
        (ValueError, "expected no compare for FI_SUM, got an array", (Op.FI_SUM, FLOAT, ZEROS, ZEROS, ZEROS)),
    ],
)
def test_an_error_says_what_was_expected_and_what_came(error, message, arguments):
    with pytest.raises(error, match=message):
        execute(*arguments)
