"""Sum, difference and product of floating-point memory, real and complex.

Everything takes and returns ``uint8[n, size]`` memory; the rules are those of :mod:`softfloat`.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from amoeba_model.atomic import softfloat
from amoeba_model.atomic.formats import DOUBLE, FLOAT, FloatFormat
from amoeba_model.atomic.limbs import BoolArray
from amoeba_model.atomic.softfloat import Number

__all__ = ["Memory", "add", "complex_add", "complex_multiply", "complex_subtract", "multiply", "subtract"]

Memory = npt.NDArray[np.uint8]

_NATIVE = {FLOAT: np.dtype("<f4"), DOUBLE: np.dtype("<f8")}
"""Formats whose sums and products every host computes alike, as long as no NaN is involved."""


def add(fmt: FloatFormat, a: Memory, b: Memory) -> Memory:
    """Return a + b."""
    return _calculate(fmt, a, b, np.add, lambda x, y: softfloat.add(fmt, x, y))


def subtract(fmt: FloatFormat, a: Memory, b: Memory) -> Memory:
    """Return a - b."""
    return _calculate(fmt, a, b, np.subtract, lambda x, y: softfloat.add(fmt, x, y, subtract=True))


def multiply(fmt: FloatFormat, a: Memory, b: Memory) -> Memory:
    """Return a * b."""
    return _calculate(fmt, a, b, np.multiply, lambda x, y: softfloat.multiply(fmt, x, y))


def complex_add(fmt: FloatFormat, a: Memory, b: Memory) -> Memory:
    """Return a + b of (real, imaginary) pairs."""
    return _partwise(add, fmt, a, b)


def complex_subtract(fmt: FloatFormat, a: Memory, b: Memory) -> Memory:
    """Return a - b of (real, imaginary) pairs."""
    return _partwise(subtract, fmt, a, b)


def complex_multiply(fmt: FloatFormat, z: Memory, w: Memory) -> Memory:
    """Return z * w by C99 Annex G.5.1: a product with an infinite factor is infinite, even beside a NaN.

    Each of the four products and the two sums is rounded on its own, and each hands NaNs on by itself.
    """
    (a, b), (c, d) = _parts(fmt, z), _parts(fmt, w)
    ac, bd, ad, bc = multiply(fmt, a, c), multiply(fmt, b, d), multiply(fmt, a, d), multiply(fmt, b, c)
    result = np.concatenate([subtract(fmt, ac, bd), add(fmt, ad, bc)], axis=1)
    real, imaginary = (_classify(fmt, part) for part in _parts(fmt, result))
    lost = (real.nan & imaginary.nan).nonzero()[0]
    if len(lost):
        products_infinite = np.logical_or.reduce([_classify(fmt, p[lost]).infinite for p in (ac, bd, ad, bc)])
        result[lost] = _recover(fmt, z[lost], w[lost], result[lost], products_infinite)
    return result


def _calculate(
    fmt: FloatFormat,
    a: Memory,
    b: Memory,
    native: np.ufunc,
    soft: Callable[[softfloat.Fields, softfloat.Fields], softfloat.Fields],
) -> Memory:
    """Calculate with NumPy where its result is defined to the bit, which NaNs are not; elsewhere with integers."""
    if fmt not in _NATIVE:
        return softfloat.join(fmt, soft(softfloat.split(fmt, a), softfloat.split(fmt, b)))
    dtype = _NATIVE[fmt]
    x, y = (np.ascontiguousarray(memory).view(dtype) for memory in (a, b))
    with np.errstate(all="ignore"):
        values = native(x, y)
    result: Memory = values.view(np.uint8)
    rows = np.isnan(values[:, 0]).nonzero()[0]
    if len(rows):
        fields = soft(softfloat.split(fmt, a[rows]), softfloat.split(fmt, b[rows]))
        result[rows] = softfloat.join(fmt, fields)
    return result


def _parts(fmt: FloatFormat, memory: Memory) -> tuple[Memory, Memory]:
    return memory[:, : fmt.storage_bytes], memory[:, fmt.storage_bytes :]


def _partwise(
    operation: Callable[[FloatFormat, Memory, Memory], Memory], fmt: FloatFormat, a: Memory, b: Memory
) -> Memory:
    size = fmt.storage_bytes
    parts = operation(fmt, a.reshape(-1, size), b.reshape(-1, size))
    return parts.reshape(len(a), 2 * size)


def _classify(fmt: FloatFormat, memory: Memory) -> Number:
    return softfloat.unpack(fmt, softfloat.split(fmt, memory))


def _signed(fmt: FloatFormat, encoding: int, sign: BoolArray) -> Memory:
    """Repeat the positive constant, with the given signs."""
    memory = np.frombuffer(encoding.to_bytes(fmt.storage_bytes, "little"), np.uint8)
    result = np.tile(memory, (len(sign), 1))
    result[:, fmt.value_bytes - 1] |= sign.astype(np.uint8) << np.uint8(7)
    return result


def _recover(fmt: FloatFormat, z: Memory, w: Memory, result: Memory, products_infinite: BoolArray) -> Memory:
    """Annex G's second attempt for products whose parts both came out NaN.

    An infinite factor is boxed to a corner of the unit square, NaNs beside it become zeros, and infinity
    times the product of what is left tells the direction of the infinite result.
    """
    factors = [*_parts(fmt, z), *_parts(fmt, w)]
    numbers = [_classify(fmt, factor) for factor in factors]
    infinite = [number.infinite for number in numbers]
    z_infinite, w_infinite = infinite[0] | infinite[1], infinite[2] | infinite[3]
    recovered = z_infinite | w_infinite | products_infinite
    boxed = []
    for index, (factor, number) in enumerate(zip(factors, numbers, strict=True)):
        own, other = (z_infinite, w_infinite) if index < 2 else (w_infinite, z_infinite)
        to_one = own & number.infinite
        # C's isnan(x) is x != x, which holds for invalid encodings too.
        unordered = number.nan | number.invalid
        to_zero = (own & ~number.infinite) | (unordered & (other | products_infinite))
        factor = np.where(to_zero[:, None], _signed(fmt, 0, number.sign), factor)
        boxed.append(np.where(to_one[:, None], _signed(fmt, fmt.one, number.sign), factor))
    a, b, c, d = boxed
    infinity = _signed(fmt, fmt.encode(0, fmt.exponent_mask, fmt.infinity_significand), np.zeros(len(z), np.bool_))
    real = subtract(fmt, multiply(fmt, a, c), multiply(fmt, b, d))
    imaginary = add(fmt, multiply(fmt, a, d), multiply(fmt, b, c))
    scaled = [multiply(fmt, infinity, part) for part in (real, imaginary)]
    return np.where(recovered[:, None], np.concatenate(scaled, axis=1), result)
