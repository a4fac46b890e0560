"""Every cell of the atomic matrix on every pair of operand classes, through the RTL, compared with the model.

``python tests/hw/atomic/coverage.py`` writes docs/atomic-coverage.md.
"""

from functools import partial
from pathlib import Path

import numpy as np
from amoeba_hw.atomic.decoded_lanes import DecodedLanes
from amoeba_model.atomic.classes import class_names, classify, classify_parts, missing_classes, part_class_names
from amoeba_model.atomic.execute import execute
from amoeba_model.atomic.formats import float_format, is_complex, is_float
from amoeba_model.atomic.matrix import COMPARE_OPS, cells
from amoeba_model.opcodes import Datatype, Op
from amoeba_sim.coverage import Cover
from amoeba_sim.vector_bench import VectorBench

from tests.hw.atomic.test_lanes import is_pipelined
from tests.hw.atomic.test_pipeline import DecodedPipeline, run
from tests.support.strategies import corners, operands

DATA_WIDTH = 256
"""The narrowest beat that every datatype fits."""

PAGE = Path(__file__).parents[3] / "docs" / "atomic-coverage.md"

INTRODUCTION = """\
# Coverage of the atomic matrix on RTL

Written by `python tests/hw/atomic/coverage.py`; checked by `tests/hw/atomic/test_coverage.py`.

Each point is an operation on a datatype, executed by the hardware of the atomic unit (FastLanes or
ArithmeticPipeline, products of integers by both; 256 bits, simulated by Verilator) with every result compared with
the model's, bit for bit.
The base and the fetch form of a cell are the same arithmetic and share a point; CSWAP on floating point has a
second one, by bits. Bins are pairs of classes: of target and operand, or of target and compare value for the
operations that compare (their operand's classes are bins of their own); of the target alone for ATOMIC_READ.
Classes: `amoeba_model.atomic.classes`. A complex number's class is the kinds of its two parts; the sign of
either part is a bin of its own.

"""


def points() -> list[tuple[str, Op, Datatype, bool]]:
    """Name, operation, datatype and "by bits" of every point."""
    pairs = sorted({(cell.datatype, cell.op) for cell in cells(extensions=True)})
    return [
        (f"{op.name} {datatype.name}{' by bits' if by_bits else ''}", op, datatype, by_bits)
        for datatype, op in pairs
        for by_bits in ((False, True) if op is Op.FI_CSWAP and is_float(datatype) else (False,))
    ]


def declare(cover: Cover, name: str, op: Op, datatype: Datatype) -> None:
    classes = class_names(datatype)
    if op is Op.FI_ATOMIC_READ:
        bins = list(classes)
    else:
        bins = [f"{target} / {other}" for target in classes for other in classes]
    if op in COMPARE_OPS:
        bins += [f"operand {operand}" for operand in classes]
    if is_complex(datatype):
        roles = ("target",) if op is Op.FI_ATOMIC_READ else ("target", "compare" if op in COMPARE_OPS else "operand")
        bins += [
            f"{role} {part} {kind}"
            for role in roles
            for part in ("real", "imaginary")
            for kind in part_class_names(datatype)
        ]
    cover.declare(name, bins, missing_classes(datatype))


def record(cover: Cover, name: str, op: Op, datatype: Datatype, target, operand, compare) -> None:
    """Count the classes of operands that the hardware has executed correctly."""
    classes = class_names(datatype)
    other = compare if op in COMPARE_OPS else operand
    if op is Op.FI_ATOMIC_READ:
        _count(cover, name, classify(datatype, target), classes)
    else:
        pairs = classify(datatype, target) * len(classes) + classify(datatype, other)
        _count(cover, name, pairs, [f"{first} / {second}" for first in classes for second in classes])
    if op in COMPARE_OPS:
        _count(cover, name, classify(datatype, operand), [f"operand {operand}" for operand in classes])
    if is_complex(datatype):
        roles = (
            {"target": target}
            if op is Op.FI_ATOMIC_READ
            else {
                "target": target,
                "compare" if op in COMPARE_OPS else "operand": other,
            }
        )
        for role, memory in roles.items():
            codes = classify_parts(datatype, memory)
            for index, part in enumerate(("real", "imaginary")):
                _count(cover, name, codes[index::2], [f"{role} {part} {kind}" for kind in part_class_names(datatype)])


def _count(cover, point, codes, names):
    for code, count in zip(*np.unique(codes, return_counts=True), strict=True):
        cover.hit(point, names[code], int(count))


def single_bits(datatype: Datatype):
    """Pairs of elements that differ in one bit, for every bit: around zero, and around infinity and NaN or all ones.

    A NaN with one fraction bit is told from infinity by that bit alone; random payloads never are.
    """
    if is_float(datatype):
        fmt = float_format(datatype)
        width, size = fmt.width, fmt.storage_bytes
        significands = {fmt.nan_significand, fmt.infinity_significand if fmt.has_infinity else 0}
        bases = [0, *(fmt.encode(0, fmt.exponent_mask, significand) for significand in sorted(significands))]
    else:
        width, size = 8 * datatype.size, datatype.size
        bases = [0, (1 << width) - 1]
    numbers = [(base, base ^ 1 << bit) for base in bases for bit in range(width)]
    plain, changed = (
        np.array([list(pair[side].to_bytes(size, "little")) for pair in numbers], np.uint8) for side in (0, 1)
    )
    if is_complex(datatype):
        either = [np.concatenate(parts, axis=1) for parts in ((changed, plain), (plain, changed))]
        plain, changed = np.tile(plain, (2, 2)), np.concatenate(either)
    return np.concatenate([plain, changed]), np.concatenate([changed, plain])


def triples(datatype: Datatype):
    """Target, operand and compare: two of every pair of classes in the first and in both others; single bits."""
    generator = np.random.default_rng(int(datatype))
    pool = np.concatenate([corners(datatype), *operands(datatype, 4000, seed=1)])
    if is_complex(datatype):
        # Any two parts make a number; the generators do not make all pairs of kinds.
        parts = pool.reshape(-1, datatype.size // 2)
        kinds = classify_parts(datatype, pool) // 2
        members = [np.flatnonzero(kinds == kind) for kind in range(kinds.max() + 1)]
        chosen = [generator.choice(rows, 16) for first in members for second in members for rows in (first, second)]
        pool = np.concatenate(
            [
                np.concatenate([parts[real], parts[imaginary]], axis=1)
                for real, imaginary in zip(chosen[0::2], chosen[1::2], strict=True)
            ]
        )
    codes = classify(datatype, pool)
    members = [np.flatnonzero(codes == code) for code in range(len(class_names(datatype)))]
    assert all(len(rows) for rows in members), f"{datatype.name}: tests/support/strategies.py misses a class"
    first, second = (grid.ravel() for grid in np.mgrid[: len(members), : len(members)])
    first, second = (np.tile(order, 2) for order in (first, second))

    def draw(order):
        return np.stack([pool[members[code][generator.integers(len(members[code]))]] for code in order])

    target, operand, compare = draw(first), draw(second), draw(second)
    # In every place of a beat: each has its own gates.
    places = DATA_WIDTH // 8 // datatype.size
    one, other = (np.repeat(elements, places, axis=0) for elements in single_bits(datatype))
    arrays = [np.concatenate(both) for both in ((target, one), (operand, other), (compare, other))]
    padding = -len(arrays[0]) % places
    return tuple(np.concatenate([array, array[:padding]]) for array in arrays)


def execute_on_rtl(lanes, pipeline, op, datatype, by_bits, arrays):
    """Results of every unit that executes the cell, in one build or another, per element."""
    beats = [array.reshape(-1, DATA_WIDTH // 8) for array in arrays]
    rows = len(beats[0])
    results = []
    if not is_pipelined(op, datatype, single_cycle_products=True):
        shown = lanes.run(
            op=op, datatype=datatype, cswap_by_bits=by_bits, target=beats[0], operand=beats[1], compare=beats[2]
        )
        results.append(shown["result"])
    if is_pipelined(op, datatype, single_cycle_products=False):
        # A row per beat and one to wait: what takes two cycles at the input then always enters.
        spaced = [np.repeat(beat, 2, axis=0) for beat in beats[:2]]
        valid = np.arange(2 * rows) % 2 == 0
        entered, result = run(pipeline, np.full(2 * rows, op), np.full(2 * rows, datatype), *spaced, valid=valid)
        assert len(entered) == rows
        results.append(result)
    return [result.reshape(-1, datatype.size) for result in results]


def measure() -> Cover:
    """Runs everything. Raises AssertionError where hardware and model differ."""
    cover = Cover()
    datatypes = list(Datatype)
    with (
        VectorBench(partial(DecodedLanes, DATA_WIDTH, datatypes, True), f"lanes{DATA_WIDTH}") as lanes,
        VectorBench(partial(DecodedPipeline, DATA_WIDTH, datatypes), f"pipeline{DATA_WIDTH}") as pipeline,
    ):
        arrays = {datatype: triples(datatype) for datatype in datatypes}
        for name, op, datatype, by_bits in points():
            declare(cover, name, op, datatype)
            target, operand, compare = arrays[datatype]
            expected = execute(
                op, datatype, target, operand, compare if op in COMPARE_OPS else None, cswap_by_bits=by_bits
            )
            for result in execute_on_rtl(lanes, pipeline, op, datatype, by_bits, arrays[datatype]):
                wrong = np.flatnonzero((result != expected).any(axis=1))
                assert not len(wrong), f"{name}: {len(wrong)} of {len(target)} elements differ, first: " + " ".join(
                    f"{role}={memory[wrong[0]][::-1].tobytes().hex()}"
                    for role, memory in zip(
                        ("target", "operand", "compare", "expected", "result"),
                        (target, operand, compare, expected, result),
                        strict=True,
                    )
                )
            record(cover, name, op, datatype, target, operand, compare)
    return cover


def page(cover: Cover) -> str:
    bins = sum(len(cover.hits(point)) for point in cover.points())
    total = f"{len(cover.points())} points with {bins} bins, for {len(cells(extensions=True))} cells.\n\n"
    return INTRODUCTION + total + cover.to_markdown()


if __name__ == "__main__":
    PAGE.write_text(page(measure()))
