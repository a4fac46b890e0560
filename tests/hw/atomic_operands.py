"""Operands that reach the corners of every datatype, for the tests of the atomic arithmetic."""

import numpy as np
from amoeba_model.atomic.formats import float_format, is_float
from amoeba_model.opcodes import Datatype


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
