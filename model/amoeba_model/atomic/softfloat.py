"""Sum, product and comparison in any :class:`FloatFormat`, with integers only.

The host's floating-point unit is never asked: its long double differs from machine to machine, its NaNs
differ between operand orders, and it has no 8-bit floats. Results are rounded to nearest, ties to even;
subnormal numbers are numbers.

NaN rule: an invalid encoding (x87 only) or an invalid operation gives the default NaN; otherwise a NaN operand
is handed on, quieted: see ``FloatFormat.larger_nan_wins`` for which of two.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from amoeba_model.atomic import limbs
from amoeba_model.atomic.formats import FloatFormat
from amoeba_model.atomic.limbs import BoolArray, IntArray, Uint64Array, Wide

__all__ = ["Fields", "Number", "add", "join", "multiply", "order", "split", "unpack"]

_ZERO_EXPONENT = -(1 << 20)
"""Exponent given to zeros: below every other, so that zero is smallest when magnitudes are ordered."""


class Fields(NamedTuple):
    """Encodings taken apart, one array per field.

    ``exponent`` is biased; ``significand`` holds the stored bits, so the integer bit only where the format
    stores it.
    """

    sign: BoolArray
    exponent: IntArray
    significand: Uint64Array

    def where(self, condition: BoolArray, other: "Fields") -> "Fields":
        """``other`` where the condition holds, these elsewhere."""
        return Fields(*(np.where(condition, b, a) for a, b in zip(self, other, strict=True)))


class Number(NamedTuple):
    """The meaning of encodings.

    A finite number is ``(-1)**sign * significand * 2**(exponent - bias - 63)`` with bit 63 of the significand
    set, or significand 0. Where ``nan`` or ``invalid`` the other fields mean nothing. Infinity is greater
    than every number in (exponent, significand) order.
    """

    sign: BoolArray
    exponent: IntArray
    significand: Uint64Array
    zero: BoolArray
    infinite: BoolArray
    nan: BoolArray
    invalid: BoolArray


def split(fmt: FloatFormat, memory: npt.NDArray[np.uint8]) -> Fields:
    """Take ``uint8[n, fmt.storage_bytes]`` little-endian memory apart; padding is ignored."""
    words = np.zeros((len(memory), 16), np.uint8)
    words[:, : fmt.value_bytes] = memory[:, : fmt.value_bytes]
    low, high = words.view("<u8").T
    shift = np.uint64(fmt.significand_bits)
    top = Wide(high, low)
    # The fields above the significand: one word, whatever the width of the format.
    upper = top.high if fmt.significand_bits == 64 else top.low >> shift
    return Fields(
        sign=(upper >> np.uint64(fmt.exponent_bits)) != 0,
        exponent=(upper & np.uint64(fmt.exponent_mask)).astype(np.int64),
        significand=low & np.uint64(fmt.significand_mask),
    )


def join(fmt: FloatFormat, fields: Fields) -> npt.NDArray[np.uint8]:
    """Invert :func:`split`; padding is written as zero."""
    upper = (fields.sign.astype(np.uint64) << np.uint64(fmt.exponent_bits)) | fields.exponent.astype(np.uint64)
    words = np.zeros((len(upper), 2), "<u8")
    words[:, 0] = fields.significand
    if fmt.significand_bits == 64:
        words[:, 1] = upper
    else:
        words[:, 0] |= upper << np.uint64(fmt.significand_bits)
    return words.view(np.uint8)[:, : fmt.storage_bytes].copy()


def unpack(fmt: FloatFormat, fields: Fields) -> Number:
    """Classify encodings and normalise their significands, subnormal ones included."""
    sign, exponent, stored = fields
    integer_bit = np.uint64(fmt.integer_bit)
    if fmt.explicit_integer:
        invalid = (exponent != 0) & ((stored & integer_bit) == 0)
        significand = stored
    else:
        invalid = np.zeros(len(sign), np.bool_)
        significand = np.where(exponent != 0, stored | integer_bit, stored)
    special = (exponent == fmt.exponent_mask) & ~invalid
    if fmt.has_infinity:
        infinite = special & ((stored & np.uint64(fmt.fraction_mask)) == 0)
        nan = special & ~infinite
    else:
        infinite = np.zeros(len(sign), np.bool_)
        nan = special & (stored == np.uint64(fmt.significand_mask))
    zero = (significand == 0) & ~invalid
    aligned = Wide(significand << np.uint64(63 - fmt.fraction_bits), np.zeros_like(significand))
    shift = limbs.leading_zeros(aligned)
    # Subnormal numbers share the exponent of the smallest normal one: 1, not 0.
    weight = np.maximum(exponent, 1) - shift.astype(np.int64)
    return Number(
        sign=sign,
        exponent=np.where(zero, _ZERO_EXPONENT, weight),
        significand=limbs.shift_left_near(aligned, np.minimum(shift, np.uint64(64))).high,
        zero=zero,
        infinite=infinite,
        nan=nan,
        invalid=invalid,
    )


def add(fmt: FloatFormat, a: Fields, b: Fields, *, subtract: bool = False) -> Fields:
    """Return a + b, or a - b; a NaN that b hands on keeps its own sign either way."""
    x, y = unpack(fmt, a), unpack(fmt, b)
    if subtract:
        y = y._replace(sign=~y.sign)
    swapped = _is_smaller(x, y)
    large_sign = np.where(swapped, y.sign, x.sign)
    large = np.where(swapped, y.significand, x.significand)
    small = np.where(swapped, x.significand, y.significand)
    exponent = np.maximum(x.exponent, y.exponent)
    distance = (exponent - np.minimum(x.exponent, y.exponent)).astype(np.uint64)
    # One bit of headroom for the carry; 63 bits below a significand are enough for the sticky bit to decide.
    wide_large = Wide(large >> np.uint64(1), large << np.uint64(63))
    wide_small = limbs.shift_right_jam(Wide(small >> np.uint64(1), small << np.uint64(63)), distance)
    opposed = x.sign != y.sign
    added, subtracted = limbs.add(wide_large, wide_small), limbs.subtract(wide_large, wide_small)
    total = Wide(np.where(opposed, subtracted.high, added.high), np.where(opposed, subtracted.low, added.low))
    sign = large_sign & ~(opposed & limbs.is_zero(total))
    result = _round(fmt, sign, exponent + 1, total)

    infinite = x.infinite | y.infinite
    result = result.where(infinite, _infinity(fmt, np.where(x.infinite, x.sign, y.sign)))
    return _settle_nan(fmt, result, a, b, x, y, x.infinite & y.infinite & opposed)


def multiply(fmt: FloatFormat, a: Fields, b: Fields) -> Fields:
    """Return a * b."""
    x, y = unpack(fmt, a), unpack(fmt, b)
    sign = x.sign ^ y.sign
    product = limbs.multiply_words(x.significand, y.significand)
    result = _round(fmt, sign, x.exponent + y.exponent - fmt.bias + 1, product)

    infinite = x.infinite | y.infinite
    result = result.where(infinite, _infinity(fmt, sign))
    return _settle_nan(fmt, result, a, b, x, y, infinite & (x.zero | y.zero))


def order(fmt: FloatFormat, a: Fields, b: Fields) -> tuple[BoolArray, BoolArray, BoolArray]:
    """Whether a < b, a == b, a > b, by value.

    -0 equals +0; with a NaN or an invalid encoding on either side the pair is unordered, and none holds.
    """
    x, y = unpack(fmt, a), unpack(fmt, b)
    ordered = ~(x.nan | y.nan | x.invalid | y.invalid)
    both_zero = x.zero & y.zero
    nearer, farther = _is_smaller(x, y), _is_smaller(y, x)
    equal = both_zero | ((x.sign == y.sign) & ~nearer & ~farther)
    less = np.where(x.sign == y.sign, np.where(x.sign, farther, nearer), x.sign) & ~both_zero
    return ordered & less, ordered & equal, ordered & ~less & ~equal


def _is_smaller(x: Number, y: Number) -> BoolArray:
    """Whether the magnitude of x is less than that of y."""
    lower = x.exponent < y.exponent
    smaller: BoolArray = lower | ((x.exponent == y.exponent) & (x.significand < y.significand))
    return smaller


def _round(fmt: FloatFormat, sign: BoolArray, exponent: IntArray, value: Wide) -> Fields:
    """Round ``value * 2**(exponent - bias - 127)`` to the format."""
    shift = limbs.leading_zeros(value)
    value = limbs.shift_left(value, np.minimum(shift, np.uint64(127)))
    exponent = exponent - shift.astype(np.int64)
    # Below the normal range the weight of the last bit is fixed: shift to it instead of normalising.
    excess = np.clip(1 - exponent, 0, 128).astype(np.uint64)
    value = limbs.shift_right_jam(value, excess)
    exponent = np.maximum(exponent, 1)

    kept = value.high >> np.uint64(64 - fmt.precision)
    rest = limbs.shift_left_near(value, np.uint64(fmt.precision))
    half = np.uint64(1 << 63)
    above = (rest.high > half) | ((rest.high == half) & (rest.low != 0))
    tie = (rest.high == half) & (rest.low == 0)
    up = above | (tie & ((kept & np.uint64(1)) != 0))
    kept = kept + up
    # 2**precision, which for 64 bits of precision has wrapped to 0.
    carried = up & (kept == np.uint64((1 << fmt.precision) % (1 << 64)))
    kept = np.where(carried, np.uint64(fmt.integer_bit), kept)
    exponent = exponent + carried
    exponent = np.where(kept < np.uint64(fmt.integer_bit), 0, exponent)

    stored = kept & np.uint64(fmt.significand_mask)
    # Without infinities, a result one step above the largest number has the encoding of NaN already.
    return Fields(sign, exponent, stored).where(exponent > fmt.largest_exponent, _infinity(fmt, sign))


def _infinity(fmt: FloatFormat, sign: BoolArray) -> Fields:
    """Infinity, or the NaN that stands for overflow in a format without infinities."""
    significand = fmt.infinity_significand if fmt.has_infinity else fmt.nan_significand
    return _constant(sign, fmt.exponent_mask, significand)


def _constant(sign: BoolArray, exponent: int, significand: int) -> Fields:
    return Fields(sign, np.full(len(sign), exponent, np.int64), np.full(len(sign), significand, np.uint64))


def _settle_nan(
    fmt: FloatFormat, result: Fields, a: Fields, b: Fields, x: Number, y: Number, invalid: BoolArray
) -> Fields:
    """Replace the results that are NaN: handed on from a or b, or the default one."""
    quiet_bit = np.uint64(fmt.quiet_bit)
    if fmt.larger_nan_wins:
        a_quiet, b_quiet = (a.significand & quiet_bit) != 0, (b.significand & quiet_bit) != 0
        equal = a.significand == b.significand
        larger = np.where(equal, b.sign, a.significand > b.significand)
        first = np.where(a_quiet == b_quiet, larger, a_quiet)
        from_a = x.nan & (first | ~y.nan)
    else:
        from_a = x.nan
    source = b.where(from_a, a)
    handed_on = source._replace(significand=source.significand | quiet_bit)
    result = result.where(x.nan | y.nan, handed_on)
    default = _constant(np.ones(len(invalid), np.bool_), fmt.exponent_mask, fmt.nan_significand)
    return result.where(invalid | x.invalid | y.invalid, default)
