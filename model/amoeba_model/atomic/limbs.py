"""Arithmetic on 128-bit unsigned integers held as two uint64 arrays, for wide integers and significands.

NumPy has no integer beyond 64 bits, and arrays of Python integers would be a hundred times slower. Every
function takes and returns arrays of one shape and wraps modulo 2**128. NumPy defines a shift by 64 or more as
0 (unlike C), which the shifts below rely on.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = [
    "BoolArray",
    "IntArray",
    "Uint64Array",
    "Wide",
    "add",
    "is_less",
    "is_zero",
    "leading_zeros",
    "multiply",
    "multiply_words",
    "shift_left",
    "shift_left_near",
    "shift_right_jam",
    "subtract",
]

BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]
Uint64Array = npt.NDArray[np.uint64]


class Wide(NamedTuple):
    """An array of 128-bit integers: ``high * 2**64 + low``."""

    high: Uint64Array
    low: Uint64Array


def add(a: Wide, b: Wide) -> Wide:
    """Return a + b."""
    low = a.low + b.low
    return Wide(a.high + b.high + (low < a.low), low)


def subtract(a: Wide, b: Wide) -> Wide:
    """Return a - b."""
    return Wide(a.high - b.high - (a.low < b.low), a.low - b.low)


def is_less(a: Wide, b: Wide) -> BoolArray:
    """Whether a < b, unsigned."""
    less: BoolArray = (a.high < b.high) | ((a.high == b.high) & (a.low < b.low))
    return less


def is_zero(a: Wide) -> BoolArray:
    """Whether a is 0."""
    zero: BoolArray = (a.high | a.low) == 0
    return zero


def multiply_words(a: Uint64Array, b: Uint64Array) -> Wide:
    """Return the full product of two 64-bit integers."""
    mask = np.uint64(0xFFFF_FFFF)
    a_high, a_low = a >> np.uint64(32), a & mask
    b_high, b_low = b >> np.uint64(32), b & mask
    low = a_low * b_low
    # At most (2**32 - 1)**2 + (2**32 - 1): neither of these sums can carry out of its word.
    middle = a_high * b_low + (low >> np.uint64(32))
    other = a_low * b_high + (middle & mask)
    high = a_high * b_high + (middle >> np.uint64(32)) + (other >> np.uint64(32))
    return Wide(high, (other << np.uint64(32)) | (low & mask))


def multiply(a: Wide, b: Wide) -> Wide:
    """Return a * b modulo 2**128."""
    product = multiply_words(a.low, b.low)
    return Wide(product.high + a.high * b.low + a.low * b.high, product.low)


def shift_left(a: Wide, count: Uint64Array) -> Wide:
    """Shift ``a`` left by 0 to 127 bits."""
    far = count >= 64
    near = shift_left_near(a, np.where(far, np.uint64(0), count))
    return Wide(np.where(far, a.low << (count - np.uint64(64)), near.high), np.where(far, np.uint64(0), near.low))


def shift_left_near(a: Wide, count: Uint64Array | np.uint64) -> Wide:
    """Shift ``a`` left by 0 to 64 bits."""
    return Wide((a.high << count) | (a.low >> (np.uint64(64) - count)), a.low << count)


def shift_right_jam(a: Wide, count: Uint64Array) -> Wide:
    """Shift ``a`` right by any count; the lowest bit of the result is set if any bit shifted out was.

    Rounding then still knows on which side of a tie the exact value lies.
    """
    far = count >= 64
    high = np.where(far, np.uint64(0), a.high)
    low = np.where(far, a.high, a.low)
    lost = np.where(far, a.low, np.uint64(0))
    count = np.where(far, count - np.uint64(64), count)
    opposite = np.uint64(64) - np.minimum(count, np.uint64(64))
    lost |= np.where(count >= 64, low, low << opposite)
    return Wide(high >> count, (low >> count) | (high << opposite) | (lost != 0))


def leading_zeros(a: Wide) -> Uint64Array:
    """How many zeros precede the highest 1 of each integer, 0 to 128."""
    in_low = a.high == 0
    word = np.where(in_low, a.low, a.high)
    count: Uint64Array = np.where(in_low, np.uint64(64), np.uint64(0)) + (word == 0)
    for step in (32, 16, 8, 4, 2, 1):
        shift = np.where(word < np.uint64(1 << (64 - step)), np.uint64(step), np.uint64(0))
        count += shift
        word = word << shift
    return count
