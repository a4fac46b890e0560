"""Sums, differences and products of every floating-point format, against arithmetic that is not ours.

MPFR rounds correctly in any binary format; ml_dtypes has the 8- and 16-bit floats; the host's FPU has single,
double and, on x86-64, the 80-bit format with its invalid encodings.

Covers ``atomic/softfloat.py`` and ``atomic/floats.py``.
"""

import platform

import gmpy2
import ml_dtypes
import numpy as np
import pytest
from amoeba_model.atomic import execute, softfloat
from amoeba_model.atomic.formats import DOUBLE, FLOAT
from amoeba_model.opcodes import Datatype, Op

from tests.support.strategies import corner_pairs, operands

ARITHMETIC = {Op.FI_SUM: "add", Op.FI_DIFF: "sub", Op.FI_PROD: "mul"}

# Exponent bits, bits of precision, and the encodings of a default NaN, from the formats' own specifications.
SHAPES = {
    Datatype.FI_FLOAT: (8, 24, 0xFFC0_0000),
    Datatype.FI_DOUBLE: (11, 53, 0xFFF8 << 48),
    Datatype.FI_LONG_DOUBLE: (15, 64, 0xFFFF_C000 << 48),
    Datatype.FI_FLOAT16: (5, 11, 0xFE00),
    Datatype.FI_BFLOAT16: (8, 8, 0xFFC0),
    Datatype.FI_FLOAT8_E4M3: (4, 4, 0xFF),
    Datatype.FI_FLOAT8_E5M2: (5, 3, 0xFE),
}
NUMPY_TYPES = {
    Datatype.FI_FLOAT16: np.float16,
    Datatype.FI_BFLOAT16: ml_dtypes.bfloat16,
    Datatype.FI_FLOAT8_E4M3: ml_dtypes.float8_e4m3fn,
    Datatype.FI_FLOAT8_E5M2: ml_dtypes.float8_e5m2,
}


class Oracle:
    """One binary format on MPFR: encodings as Python integers to and from exact values."""

    def __init__(self, datatype: Datatype):
        exponent_bits, self.precision, self.default_nan = SHAPES[datatype]
        self.explicit = datatype is Datatype.FI_LONG_DOUBLE
        self.finite_top = datatype is Datatype.FI_FLOAT8_E4M3
        self.bias = (1 << exponent_bits - 1) - 1
        self.top = (1 << exponent_bits) - 1
        self.stored = self.precision - 1 + self.explicit
        self.sign_shift = exponent_bits + self.stored
        self.bytes = (self.sign_shift + 1) // 8
        # MPFR's exponents are those of a significand in [1/2, 1).
        self.context = gmpy2.context(
            precision=self.precision,
            emax=self.bias + 1 + self.finite_top,
            emin=3 - self.bias - self.precision,
            subnormalize=True,
        )

    def decode(self, encoding: int) -> "gmpy2.mpfr | None":
        """The value; None for NaNs and invalid encodings."""
        sign = -1 if encoding >> self.sign_shift else 1
        exponent = encoding >> self.stored & self.top
        significand = encoding & (1 << self.stored) - 1
        integer = 1 << self.precision - 1
        fraction = significand & integer - 1
        if self.explicit and exponent and not significand & integer:
            return None
        if exponent == self.top and (not self.finite_top or fraction == integer - 1):
            return None if fraction else gmpy2.inf(sign)
        if exponent:
            significand |= integer
        magnitude = gmpy2.mpfr(significand, 64)
        scaled = gmpy2.mul_2exp(magnitude, 1 << 15)
        scaled = gmpy2.div_2exp(scaled, (1 << 15) - max(exponent, 1) + self.bias + self.precision - 1)
        return -scaled if sign < 0 else scaled

    def encode(self, value: "gmpy2.mpfr") -> int:
        """The encoding of a value that the context has rounded."""
        if gmpy2.is_nan(value):
            return self.default_nan
        sign = int(gmpy2.is_signed(value)) << self.sign_shift
        integer = 1 << self.precision - 1
        if gmpy2.is_zero(value):
            return sign
        if gmpy2.is_infinite(value):
            overflow = integer - 1 if self.finite_top else integer * self.explicit
            return sign | self.top << self.stored | overflow
        significand, exponent = value.as_mantissa_exp()
        significand, exponent = abs(int(significand)), int(exponent) + self.bias + self.precision - 1
        shift = self.precision - significand.bit_length()
        significand, exponent = significand << shift, exponent - shift
        if exponent < 1:
            significand, exponent = significand >> (1 - exponent), 0
        stored = significand if self.explicit else significand & integer - 1
        if self.finite_top and exponent == self.top and stored == integer - 1:
            return sign | self.top << self.stored | stored
        return sign | exponent << self.stored | stored

    def calculate(self, op: Op, a: int, b: int) -> int | None:
        """The one right result, or None where an operand is no number."""
        x, y = self.decode(a), self.decode(b)
        if x is None or y is None:
            return None
        return self.encode(getattr(self.context, ARITHMETIC[op])(x, y))


def integers(memory, size):
    return [int.from_bytes(row[:size].tobytes(), "little") for row in memory]


@pytest.mark.parametrize("op", ARITHMETIC)
@pytest.mark.parametrize("datatype", SHAPES)
def test_results_are_the_correctly_rounded_ones(datatype, op):
    oracle = Oracle(datatype)
    random_target, random_operand, _ = operands(datatype, 8_000, seed=1)
    corner_target, corner_operand = corner_pairs(datatype, 20_000)
    target = np.concatenate([random_target, corner_target])
    operand = np.concatenate([random_operand, corner_operand])
    after = execute(op, datatype, target, operand)
    compared = 0
    with gmpy2.context(precision=64):
        for a, b, result in zip(*(integers(m, oracle.bytes) for m in (target, operand, after)), strict=True):
            expected = oracle.calculate(op, a, b)
            if expected is not None:
                compared += 1
                assert result == expected, f"{a:#x} {op.name} {b:#x}: {result:#x}, expected {expected:#x}"
    assert compared > 15_000


@pytest.mark.parametrize("op", ARITHMETIC)
@pytest.mark.parametrize("datatype", [Datatype.FI_FLOAT8_E4M3, Datatype.FI_FLOAT8_E5M2])
def test_every_pair_of_8_bit_floats_agrees_with_ml_dtypes(datatype, op):
    target, operand = (pair.reshape(-1, 1) for pair in np.indices((256, 256), np.uint8))
    assert_same_numbers(datatype, op, target, operand)


@pytest.mark.parametrize("op", ARITHMETIC)
@pytest.mark.parametrize("datatype", [Datatype.FI_FLOAT16, Datatype.FI_BFLOAT16])
def test_16_bit_floats_agree_with_numpy_and_ml_dtypes(datatype, op):
    target, operand, _ = operands(datatype, 200_000, seed=2)
    assert_same_numbers(datatype, op, target, operand)


def assert_same_numbers(datatype, op, target, operand):
    """Equal to the bit, except for which NaN: that rule is ours."""
    dtype = NUMPY_TYPES[datatype]
    with np.errstate(all="ignore"):
        function = {Op.FI_SUM: np.add, Op.FI_DIFF: np.subtract, Op.FI_PROD: np.multiply}[op]
        expected = function(target.view(dtype), operand.view(dtype))
    after = execute(op, datatype, target, operand)
    nan = np.isnan(expected.astype(np.float32))[:, 0]
    np.testing.assert_array_equal(np.isnan(after.view(dtype).astype(np.float32))[:, 0], nan)
    np.testing.assert_array_equal(after[~nan], expected.view(np.uint8)[~nan])


@pytest.mark.parametrize(("fmt", "datatype"), [(FLOAT, Datatype.FI_FLOAT), (DOUBLE, Datatype.FI_DOUBLE)])
@pytest.mark.parametrize("op", ARITHMETIC)
def test_the_hosts_arithmetic_and_the_integer_arithmetic_are_the_same(fmt, datatype, op):
    target, operand, _ = operands(datatype, 100_000, seed=3)
    a, b = softfloat.split(fmt, target), softfloat.split(fmt, operand)
    if op is Op.FI_PROD:
        fields = softfloat.multiply(fmt, a, b)
    else:
        fields = softfloat.add(fmt, a, b, subtract=op is Op.FI_DIFF)
    np.testing.assert_array_equal(execute(op, datatype, target, operand), softfloat.join(fmt, fields))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86-64 has the 80-bit format in hardware")
@pytest.mark.parametrize("op", [*ARITHMETIC, Op.FI_CSWAP, Op.FI_CSWAP_NE, Op.FI_CSWAP_LE, Op.FI_CSWAP_GT, Op.FI_LOR])
def test_long_double_does_what_the_x87_does_invalid_encodings_included(op):
    datatype = Datatype.FI_LONG_DOUBLE
    arrays = [
        np.concatenate(pair)
        for pair in zip(operands(datatype, 20_000, seed=4)[:2], corner_pairs(datatype), strict=True)
    ]
    for memory in arrays:
        memory[:, 10:] = 0
    target, operand = arrays
    x, y = target.view(np.longdouble)[:, 0], operand.view(np.longdouble)[:, 0]
    compares = {
        Op.FI_CSWAP: np.equal,
        Op.FI_CSWAP_NE: np.not_equal,
        Op.FI_CSWAP_LE: np.less_equal,
        Op.FI_CSWAP_GT: np.greater,
    }
    with np.errstate(all="ignore"):
        if op in compares:
            after = execute(op, datatype, target, operand, compare=operand)
            expected = np.where(compares[op](y, x)[:, None], operand, target)
        elif op is Op.FI_LOR:
            after = execute(op, datatype, target, operand)
            expected = ((x != 0) | (y != 0)).astype(np.longdouble)[:, None].view(np.uint8)
        else:
            function = {Op.FI_SUM: np.add, Op.FI_DIFF: np.subtract, Op.FI_PROD: np.multiply}[op]
            after = execute(op, datatype, target, operand)
            expected = function(x, y)[:, None].view(np.uint8)
    np.testing.assert_array_equal(after[:, :10], expected[:, :10])
    assert not after[:, 10:].any()
