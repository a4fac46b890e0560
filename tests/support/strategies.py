"""Operands for every test of the atomic unit: model, hardware and driver draw from here. Links for the others.

Three ways to ask, all in ``uint8[n, datatype.size]`` little-endian memory:

- :func:`corners`: the elements where arithmetic goes wrong, a table per datatype;
- :func:`corner_pairs`: every corner against every corner (or a seeded choice of them);
- :func:`operands`: a seeded mixture of random, corner and related elements, for long runs;

and :func:`elements`, a Hypothesis strategy, for what should shrink.
"""

import zlib

import numpy as np
import numpy.typing as npt
from amoeba_model.atomic.formats import FloatFormat, float_format, is_complex, is_float
from amoeba_model.impairments import Impairments
from amoeba_model.opcodes import Datatype
from hypothesis import strategies as st

Memory = npt.NDArray[np.uint8]


def corners(datatype: Datatype) -> Memory:
    """The corner elements of a datatype.

    Floating point: both zeros, the subnormal, normal and infinite extremes and their neighbours, 1 and its
    neighbours, powers of two a precision apart, quiet and signalling NaNs with payloads, in both signs; for
    x87 also the encodings that no x87 produces. Of a complex datatype, every corner as either part, paired
    with a rotation of the table, and all pairs of a few that decide Annex G.
    """
    table = _part_corners(datatype)
    if not is_complex(datatype):
        return table
    fmt = float_format(datatype)
    rotations = [np.concatenate([table, np.roll(table, step, axis=0)], axis=1) for step in (1, 7, 20)]
    few = _pack(_decisive(fmt), fmt.storage_bytes)
    pairs = np.concatenate([np.repeat(few, len(few), axis=0), np.tile(few, (len(few), 1))], axis=1)
    return np.concatenate([*rotations, pairs])


def float_corners(fmt: FloatFormat) -> set[int]:
    """The corner encodings of a format, as integers."""
    mask, quiet, top = fmt.fraction_mask, fmt.quiet_bit, fmt.exponent_mask
    fractions = {0, 1, 2, mask, mask - 1, mask ^ 1 << fmt.fraction_bits - 1, 1 << fmt.fraction_bits - 1}
    exponents = {1, 2, fmt.bias - 1, fmt.bias, fmt.bias + 1, top - 2, top - 1}
    # One precision below and above 1: the other operand then only decides a tie, or just fails to.
    exponents |= {fmt.bias - fmt.precision, fmt.bias + fmt.precision} & set(range(1, top))
    # The square roots of the largest and the smallest number: products on the edge of the range.
    exponents |= {fmt.bias // 2, fmt.bias + fmt.bias // 2, fmt.bias // 2 - fmt.fraction_bits // 2} & set(
        range(1, top)
    )
    integer = fmt.integer_bit if fmt.explicit_integer else 0
    fields = {(exponent, integer | fraction) for exponent in exponents for fraction in sorted(fractions)}
    fields |= {(0, fraction) for fraction in fractions}
    fields |= {
        (top, integer | fraction) for fraction in (0, 1, 5, quiet, quiet | 1, quiet | 3, mask) if fraction <= mask
    }
    if fmt.explicit_integer:
        # Pseudo-denormals, unnormals, pseudo-infinity and pseudo-NaN.
        fields |= {(0, integer), (0, integer | 1), (1, 0), (fmt.bias, 0), (fmt.bias, 5), (top, 0), (top, quiet | 1)}
    return {fmt.encode(sign, *field) for sign in (0, 1) for field in fields}


def corner_pairs(datatype: Datatype, limit: int = 40_000) -> tuple[Memory, Memory]:
    """All pairs of :func:`corners`, or ``limit`` of them chosen by a fixed seed where there are more."""
    table = corners(datatype)
    count = len(table) ** 2
    chosen = np.arange(count)
    if count > limit:
        chosen = np.random.default_rng(_seed(datatype, 0)).choice(count, limit, replace=False)
    return table[chosen // len(table)], table[chosen % len(table)]


def operands(datatype: Datatype, rows: int, seed: int = 0) -> tuple[Memory, Memory, Memory]:
    """A target, an operand and a compare array: the same for the same arguments, on every machine.

    Per number: about a third uniformly random bits, a third corners, a third related to the target (equal,
    one bit flipped, or in floating point with an exponent near the target's, where sums cancel and round).
    """
    generator = np.random.default_rng(_seed(datatype, seed))
    table = _part_corners(datatype)
    numbers = rows * datatype.size // table.shape[1]
    target = _fresh(datatype, table, numbers, generator)
    arrays = [target, *(_related(datatype, target, table, generator) for _ in range(2))]
    first, second, third = (array.reshape(rows, datatype.size) for array in arrays)
    return first, second, third


def elements(datatype: Datatype) -> st.SearchStrategy[bytes]:
    """Single elements for Hypothesis: corners as often as arbitrary bytes."""
    return st.sampled_from([row.tobytes() for row in corners(datatype)]) | st.binary(
        min_size=datatype.size, max_size=datatype.size
    )


def _seed(datatype: Datatype, seed: int) -> list[int]:
    return [zlib.crc32(datatype.name.encode()), seed]


def _part_corners(datatype: Datatype) -> Memory:
    """Corners of one part of a complex datatype, or of the datatype itself."""
    if not is_float(datatype):
        return _integer_corners(datatype)
    fmt = float_format(datatype)
    return _pack(sorted(float_corners(fmt)), fmt.storage_bytes)


def _pack(values: list[int], size: int) -> Memory:
    return np.frombuffer(b"".join(value.to_bytes(size, "little") for value in values), np.uint8).reshape(-1, size)


def _integer_corners(datatype: Datatype) -> Memory:
    bits = 8 * datatype.size
    values = {0, 1, 2, 3, -1, -2, 1 << bits - 1, (1 << bits - 1) - 1, (1 << bits - 1) + 1}
    values |= {0x55 * (((1 << bits) - 1) // 0xFF), 0xAA * (((1 << bits) - 1) // 0xFF)}
    for half in {bits // 2, min(bits, 64) - 1, min(bits - 1, 64), min(bits // 2, 32)}:
        values |= {1 << half, (1 << half) - 1, -(1 << half)}
    return _pack(sorted({value % (1 << bits) for value in values}), datatype.size)


def _decisive(fmt: FloatFormat) -> list[int]:
    """Zero, one, huge, infinity and NaN in both signs: what tells the branches of a complex product apart."""
    fields = [
        (0, 0),
        (fmt.bias, fmt.one & fmt.significand_mask),
        (fmt.largest_exponent, fmt.largest_significand),
        (fmt.exponent_mask, fmt.nan_significand),
    ]
    if fmt.has_infinity:
        fields.append((fmt.exponent_mask, fmt.infinity_significand))
    return [fmt.encode(sign, *field) for field in fields for sign in (0, 1)]


def _fresh(datatype: Datatype, table: Memory, numbers: int, generator: np.random.Generator) -> Memory:
    memory = generator.integers(0, 256, (numbers, table.shape[1]), np.uint8)
    if is_float(datatype) and float_format(datatype).explicit_integer:
        # Half of all bit patterns are invalid encodings; a few of them are enough.
        memory[generator.random(numbers) < 0.9, float_format(datatype).fraction_bits // 8] |= 0x80
    corner = generator.random(numbers) < 0.5
    memory[corner] = table[generator.integers(0, len(table), int(corner.sum()))]
    return memory


def _related(datatype: Datatype, target: Memory, table: Memory, generator: np.random.Generator) -> Memory:
    memory = _fresh(datatype, table, len(target), generator)
    kind = generator.random(len(target))
    memory[kind < 0.15] = target[kind < 0.15]
    flipped = ((kind >= 0.1) & (kind < 0.15)).nonzero()[0]
    bits = generator.integers(0, 8 * target.shape[1], len(flipped))
    memory[flipped, bits // 8] ^= (1 << bits % 8).astype(np.uint8)
    if is_float(datatype):
        rows = ((kind >= 0.15) & (kind < 0.4)).nonzero()[0]
        _draw_near(float_format(datatype), memory, target, rows, generator)
    return memory


def _draw_near(
    fmt: FloatFormat, memory: Memory, target: Memory, rows: npt.NDArray[np.intp], generator: np.random.Generator
) -> None:
    """Random significands and signs, with exponents within a few of the target's."""
    for row in rows:
        theirs = int.from_bytes(target[row, : fmt.value_bytes].tobytes(), "little") >> fmt.significand_bits
        exponent = (theirs & fmt.exponent_mask) + int(generator.integers(-3, 4))
        exponent = min(max(exponent, 0), fmt.exponent_mask)
        significand = int.from_bytes(generator.bytes(8), "little") & fmt.significand_mask
        if fmt.explicit_integer and exponent:
            significand |= fmt.integer_bit
        value = fmt.encode(int(generator.integers(0, 2)), exponent, significand)
        memory[row] = np.frombuffer(value.to_bytes(fmt.storage_bytes, "little"), np.uint8)


def impairments() -> st.SearchStrategy[Impairments]:
    """Links from perfect to hopeless; every chance is often 0 or 1."""
    chance = st.sampled_from([0.0, 1.0]) | st.floats(0, 1)
    return st.builds(
        Impairments,
        seed=st.integers(0, 2**32),
        loss=chance,
        duplication=chance,
        corruption=chance,
        reordering=chance,
        holdback=st.integers(1, 1000),
        delay=st.integers(0, 1000),
    )
