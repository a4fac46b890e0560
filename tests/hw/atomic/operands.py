"""Operands that reach the corners of every datatype, for the tests of the atomic arithmetic."""

from itertools import product

import numpy as np
from amoeba_model.atomic.formats import float_format, is_complex, is_float
from amoeba_model.opcodes import Datatype, Op


def corners(datatype: Datatype) -> np.ndarray:
    """Interesting numbers of the datatype (of one part, if it is complex) as ``uint8[n, bytes]``."""
    if is_float(datatype):
        fmt = float_format(datatype)
        significands = {
            0,
            1,
            2,
            fmt.integer_bit >> 1,
            fmt.fraction_mask,
            fmt.fraction_mask - 1,
            (fmt.integer_bit >> 1) + 1,
            fmt.quiet_bit,
            0x55555555 & fmt.fraction_mask,
        }
        if fmt.explicit_integer:
            significands |= {significand | fmt.integer_bit for significand in significands}
        exponents = {
            0,
            1,
            2,
            fmt.bias - 1,
            fmt.bias,
            fmt.bias + 1,
            fmt.bias + fmt.fraction_bits,
            fmt.bias // 2,
            fmt.exponent_mask,
            fmt.exponent_mask - 1,
            fmt.exponent_mask - 2,
        }
        values = [
            fmt.encode(sign, exponent, significand)
            for sign in (0, 1)
            for exponent in sorted(exponents)
            for significand in sorted(significands)
        ]
        size = fmt.storage_bytes
    else:
        size = datatype.size
        bits = 8 * size
        values = sorted(
            {
                value % (1 << bits)
                for shift in range(0, bits, 8)
                for value in (
                    0,
                    1,
                    -1,
                    2,
                    1 << shift,
                    (1 << shift) - 1,
                    -(1 << shift),
                    (1 << bits - 1),
                    (1 << bits - 1) - 1,
                    0x5555,
                    3 << shift >> 1,
                )
            }
        )
    return np.array([list(value.to_bytes(size, "little")) for value in values], np.uint8)


def operands(datatype: Datatype, count: int, rng: np.random.Generator, arrays: int) -> list[np.ndarray]:
    """``arrays`` times ``uint8[count, datatype.size]``: random, corners, near and equal to each other."""
    table = corners(datatype)
    part = table.shape[1]
    parts = count * datatype.size // part
    result = []
    for _ in range(arrays):
        values = rng.integers(0, 256, (parts, part), dtype=np.uint8)
        corner = rng.random(parts) < 0.5
        values[corner] = table[rng.integers(0, len(table), corner.sum())]
        if result:
            earlier = result[rng.integers(0, len(result))]
            equal = rng.random(parts) < 0.3
            values[equal] = earlier[equal]
            # The same number but for one bit: the closest and the oppositely signed neighbours.
            flip = equal & (rng.random(parts) < 0.5)
            rows = np.flatnonzero(flip)
            values[rows, rng.integers(0, part, len(rows))] ^= np.uint8(1) << rng.integers(
                0, 8, len(rows), dtype=np.uint8
            )
        if is_float(datatype):
            _bring_close(float_format(datatype), values, result, rng)
        result.append(values)
    return [values.reshape(count, datatype.size) for values in result]


def _bring_close(fmt, values, earlier, rng) -> None:
    """Give a third of the numbers an exponent near an earlier operand's, so that sums cancel and round."""
    if not earlier:
        return
    rows = np.flatnonzero(rng.random(len(values)) < 0.33)
    for row in rows[:2000]:
        mine = int.from_bytes(values[row, : fmt.value_bytes].tobytes(), "little")
        theirs = int.from_bytes(earlier[0][row, : fmt.value_bytes].tobytes(), "little")
        exponent = (theirs >> fmt.significand_bits & fmt.exponent_mask) + int(rng.integers(-3, 4))
        exponent = min(max(exponent, 0), fmt.exponent_mask)
        mine &= ~(fmt.exponent_mask << fmt.significand_bits)
        mine |= exponent << fmt.significand_bits
        if fmt.explicit_integer and exponent:
            mine |= fmt.integer_bit
        values[row, : fmt.value_bytes] = np.frombuffer(mine.to_bytes(fmt.value_bytes, "little"), np.uint8)


def sharp_operands(op: Op, datatype: Datatype, rng: np.random.Generator) -> list[np.ndarray]:
    """Target and operand of floating point, of which a single bit decides what arithmetic makes of them."""
    return sharp_products(datatype, rng) if op is Op.FI_PROD else sharp_sums(datatype, rng)


def sharp_products(datatype: Datatype, rng: np.random.Generator) -> list[np.ndarray]:
    """Target and operand of floating point, of whose product a single bit of theirs decides something.

    Subnormal factors with their highest bit in every place; subnormal products, half way between two numbers but for
    one bit in every place below; normal ones with few bits to be rounded; of 80-bit numbers, NaNs that differ in one
    bit; of complex ones, parts of all kinds and signs. In random order, so that they come in all places of a beat.
    """
    fmt = float_format(datatype)
    if is_complex(datatype):
        pairs = list(_products_of_kinds(fmt, rng))
    else:
        pairs = [*_subnormal_factors(fmt, rng), *_subnormal_products(fmt, rng), *_short_factors(fmt, rng)]
        if fmt.larger_nan_wins:
            pairs += [_similar_nans(fmt, rng) for _ in range(2000)]
        pairs = [tuple((number,) for number in pair) for pair in pairs]
    return _shuffled(fmt, pairs, rng)


def sharp_sums(datatype: Datatype, rng: np.random.Generator) -> list[np.ndarray]:
    """Target and operand of floating point, of whose sum or difference a single bit of theirs decides something.

    Numbers at every distance, the smaller one with a single bit in every place; numbers of every exponent from which
    a difference can become subnormal, and that cancel down to every place. In random order and with random signs.
    """
    fmt = float_format(datatype)
    pairs = [*_distant_numbers(fmt, rng), *_cancelling_numbers(fmt, rng)]
    if is_complex(datatype):
        others = rng.permutation(len(pairs))
        pairs = [tuple(zip(pair, pairs[other], strict=True)) for pair, other in zip(pairs, others, strict=True)]
    else:
        pairs = [tuple((number,) for number in pair) for pair in pairs]
    return _shuffled(fmt, pairs, rng)


def _shuffled(fmt, pairs, rng) -> list[np.ndarray]:
    """Memory of both sides, in random order, sides exchanged at random; whole beats of every width."""
    order = rng.permutation(len(pairs) - len(pairs) % 64)
    return [
        np.array(
            [
                list(b"".join(part.to_bytes(fmt.storage_bytes, "little") for part in pairs[index][side ^ index % 2]))
                for index in order
            ],
            np.uint8,
        )
        for side in (0, 1)
    ]


def _number(fmt, rng, exponent, fraction) -> int:
    """A normal number of random sign."""
    integer = fmt.integer_bit if fmt.explicit_integer else 0
    return fmt.encode(int(rng.integers(2)), int(exponent), integer | fraction)


def _bits(rng, count) -> int:
    return int.from_bytes(rng.bytes(16), "little") & ((1 << count) - 1)


def _subnormal_factors(fmt, rng):
    for place in list(range(fmt.precision - 1)) * (16 if fmt.precision > 16 else 64):
        subnormal = fmt.encode(int(rng.integers(2)), 0, 1 << place | _bits(rng, place))
        exponent = rng.integers(fmt.bias, min(fmt.bias + fmt.precision + 3, fmt.exponent_mask - 1))
        yield subnormal, _number(fmt, rng, exponent, _bits(rng, fmt.precision - 1))


def _subnormal_products(fmt, rng):
    """A number times a power of two whose product loses its lowest ``lost`` bits."""
    fraction_bits = fmt.precision - 1
    cases = [(lost, place) for lost in range(2, fraction_bits) for place in [None, *range(lost - 1)]]
    for lost, place in _often(cases, 8192):
        kept = _bits(rng, fraction_bits) >> lost + 1 << lost + 1
        fraction = kept | 1 << lost - 1 | (1 << place if place is not None else 0)
        sum_of_exponents = 1 - lost + fmt.bias
        first = rng.integers(max(1, sum_of_exponents - fmt.exponent_mask + 2), sum_of_exponents)
        yield _number(fmt, rng, first, fraction), _number(fmt, rng, sum_of_exponents - first, 0)


def _short_factors(fmt, rng):
    """Any number times one of up to four bits: all that is rounded lies side by side."""
    fraction_bits = fmt.precision - 1
    for _ in range(8192):
        bits = min(int(rng.integers(1, 4)), fraction_bits)
        short = _bits(rng, bits) << fraction_bits - bits
        yield _number(fmt, rng, fmt.bias, _bits(rng, fraction_bits)), _number(fmt, rng, fmt.bias, short)


def _often(cases, count):
    """The cases again and again, ``count`` in all, so that each comes in all places of a beat."""
    return cases * (count // max(len(cases), 1))


def _distant_numbers(fmt, rng):
    fraction_bits = fmt.precision - 1
    cases = [
        (distance, place)
        for distance in range(1, min(fmt.precision + 3, fmt.exponent_mask - 2))
        for place in [None, *range(fraction_bits)]
    ]
    for distance, place in _often(cases, 16384):
        smaller = rng.integers(1, fmt.exponent_mask - 1 - distance)
        larger = _number(fmt, rng, smaller + distance, _bits(rng, fraction_bits))
        yield larger, _number(fmt, rng, smaller, 1 << place if place is not None else 0)


def _cancelling_numbers(fmt, rng):
    fraction_bits = fmt.precision - 1
    ones = (1 << fraction_bits) - 1
    cases = [
        (exponent, place)
        for exponent in range(1, min(fmt.precision + 4, fmt.exponent_mask - 1))
        for place in range(fraction_bits)
    ]
    for exponent, place in _often(cases, 8192):
        fraction, low = _bits(rng, fraction_bits), _bits(rng, place)
        yield _number(fmt, rng, exponent, fraction), _number(fmt, rng, exponent, fraction ^ (1 << place | low))
        # Of neighbouring exponents, what is left may be smaller by one place.
        yield _number(fmt, rng, exponent + 1, _bits(rng, place)), _number(fmt, rng, exponent, ones ^ low)


def _similar_nans(fmt, rng):
    fraction = _bits(rng, fmt.precision - 1) | 1
    return tuple(
        _number(fmt, rng, fmt.exponent_mask, fraction ^ flipped)
        for flipped in (0, 1 << int(rng.integers(1, fmt.precision - 1)))
    )


def _products_of_kinds(fmt, rng):
    """Complex factors whose parts are of every kind and sign; of subnormal ones, a single bit is set."""
    integer = fmt.integer_bit if fmt.explicit_integer else 0
    kinds = {
        "zero": 0,
        "one": fmt.one,
        "largest": fmt.encode(0, fmt.exponent_mask - 1, integer | fmt.fraction_mask),
        "infinity": fmt.encode(0, fmt.exponent_mask, integer | fmt.infinity_significand),
        "nan": fmt.default_nan & ((1 << fmt.width - 1) - 1),
    }
    for *chosen, signs in product(*4 * [[*kinds, "subnormal"]], product((0, 1), repeat=4)):
        parts = [
            sign << fmt.width - 1 | kinds.get(kind, 1 << int(rng.integers(fmt.precision - 1)))
            for kind, sign in zip(chosen, signs, strict=True)
        ]
        yield (parts[0], parts[1]), (parts[2], parts[3])
