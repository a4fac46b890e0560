"""FastLanes and DecodeOperation against the golden model: every cell, every byte.

Covers ``atomic/decoded_lanes.py``, ``atomic/compare.py``, ``atomic/measure.py`` and ``atomic/segments.py``.
"""

from functools import partial
from itertools import product

import numpy as np
import pytest
from amoeba_hw.atomic.decoded_lanes import DecodedLanes
from amoeba_hw.atomic.lanes import FastLanes
from amoeba_model.atomic.execute import execute
from amoeba_model.atomic.formats import float_format, is_complex, is_float
from amoeba_model.atomic.matrix import COMPARE_OPS, is_valid
from amoeba_model.opcodes import Datatype, Form, Op
from amoeba_sim.vector_bench import VectorBench

from tests.hw.atomic.operands import operands

BEATS = 600
INTEGERS = tuple(datatype for datatype in Datatype if not is_float(datatype))


def is_pipelined(op, datatype, single_cycle_products=True):
    if op is Op.FI_PROD:
        return is_float(datatype) or not single_cycle_products
    return is_float(datatype) and op in (Op.FI_SUM, Op.FI_DIFF)


def in_matrix(op, datatype):
    return any(is_valid(op, datatype, form) for form in Form)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((128, True), marks=pytest.mark.long),
        (256, True),
        pytest.param((512, True), marks=pytest.mark.long),
        (128, False),
    ],
    ids=["128", "256", "512", "128, products in the pipeline"],
)
def lanes(request):
    data_width, single_cycle_products = request.param
    datatypes = [datatype for datatype in Datatype if 8 * datatype.size <= data_width]
    make = partial(DecodedLanes, data_width, datatypes, single_cycle_products)
    with VectorBench(make, f"lanes{data_width}") as bench:
        bench.data_width = data_width
        bench.datatypes = datatypes
        bench.single_cycle_products = single_cycle_products
        yield bench


@pytest.mark.parametrize("datatype", Datatype, ids=lambda datatype: datatype.name)
def test_every_fast_cell_is_the_models(lanes, datatype):
    if datatype not in lanes.datatypes:
        pytest.skip("wider than a beat")
    for op, by_bits in fast_cells(datatype, lanes.single_cycle_products):
        seed = 1000 * op + datatype + 500 * by_bits
        rng = np.random.default_rng(seed)
        count = BEATS * lanes.data_width // 8 // datatype.size
        check(lanes, op, datatype, by_bits, *operands(datatype, count, rng, 3), f"seed={seed}")


@pytest.mark.parametrize(
    "datatype",
    [datatype for datatype in Datatype if is_float(datatype) and not is_complex(datatype)],
    ids=lambda datatype: datatype.name,
)
def test_every_pair_of_edge_numbers_relates_as_in_the_model(lanes, datatype):
    for op, by_bits in fast_cells(datatype):
        check(lanes, op, datatype, by_bits, *edge_pairs(op, datatype, lanes.data_width), "edges")


@pytest.mark.parametrize("datatype", INTEGERS, ids=lambda datatype: datatype.name)
def test_every_bit_of_the_target_meets_every_bit_of_the_operand(lanes, datatype):
    for op, by_bits in fast_cells(datatype, lanes.single_cycle_products):
        for arrays in bit_pairs(datatype):
            check(lanes, op, datatype, by_bits, *arrays, "single bits")


@pytest.mark.parametrize("datatype", [Datatype.FI_INT8, Datatype.FI_UINT8], ids=lambda datatype: datatype.name)
def test_every_pair_of_8_bit_integers_gives_the_models_result_in_every_place(lanes, datatype):
    places = lanes.data_width // 8
    pairs = np.arange(1 << 16).reshape(-1, 1)
    # Each pair in every place once, among others there.
    pairs = (pairs + 257 * np.arange(places)) % (1 << 16)
    target, operand = ((pairs >> shift & 0xFF).astype(np.uint8).reshape(-1, 1) for shift in (0, 8))
    for op, by_bits in fast_cells(datatype, lanes.single_cycle_products):
        check(lanes, op, datatype, by_bits, target, operand, target[::-1], "all pairs")


def bit_pairs(datatype):
    """Twice target, operand and compare: every single bit, and every missing one, with every single bit."""
    bits = 8 * datatype.size
    numbers = np.packbits(np.eye(bits, dtype=bool), axis=1, bitorder="little")
    target, operand = np.repeat(numbers, bits, axis=0), np.tile(numbers, (bits, 1))
    return [(target, operand, target ^ operand), (~target, operand, target)]


def fast_cells(datatype, single_cycle_products=True):
    """The datatype's operations in FastLanes, FI_CSWAP by value and by bits."""
    for op in Op:
        if in_matrix(op, datatype) and not is_pipelined(op, datatype, single_cycle_products):
            yield op, False
            if op is Op.FI_CSWAP:
                yield op, True


def edge_numbers(datatype):
    """Both signs of the significands at the ends and in the middle, with the exponents at either end."""
    fmt = float_format(datatype)
    significands = {0, 1, fmt.fraction_mask, fmt.fraction_mask >> 1, fmt.integer_bit >> 1}
    if fmt.explicit_integer:
        significands |= {significand | fmt.integer_bit for significand in significands}
    exponents = {0, 1, 2, 3, fmt.bias, fmt.exponent_mask - 2, fmt.exponent_mask - 1, fmt.exponent_mask}
    codes = [fmt.encode(*code) for code in product((0, 1), sorted(exponents), sorted(significands))]
    return np.array([list(code.to_bytes(fmt.storage_bytes, "little")) for code in codes], np.uint8)


def edge_pairs(op, datatype, data_width):
    """Target, operand and compare, in full beats: every edge number as target with every other to compare with."""
    numbers = edge_numbers(datatype)
    pairs = np.arange(len(numbers) ** 2)
    pairs = pairs[: -(len(pairs) % (data_width // 8 // datatype.size)) or None]
    target, other = numbers[pairs // len(numbers)], numbers[pairs % len(numbers)]
    another = numbers[(pairs + 1) % len(numbers)]
    return (target, another, other) if op in COMPARE_OPS else (target, other, another)


def check(lanes, op, datatype, by_bits, target, operand, compare, reproducer):
    """The result of every element is the model's."""
    count = len(target)
    expected = execute(op, datatype, target, operand, compare if op in COMPARE_OPS else None, cswap_by_bits=by_bits)
    beats = {
        name: array.reshape(-1, lanes.data_width // 8)
        for name, array in (("target", target), ("operand", operand), ("compare", compare))
    }
    shown = lanes.run(op=op, datatype=datatype, cswap_by_bits=by_bits, **beats)
    assert shown["supported"].all()
    assert not shown["pipelined"].any()
    wrong = np.flatnonzero((shown["result"].reshape(count, -1) != expected).any(axis=1))
    beats |= {"expected": expected, "result": shown["result"]}
    assert not len(wrong), (
        f"{op.name} {datatype.name} by_bits={by_bits} {reproducer}: {len(wrong)} of {count} differ, first: "
        + " ".join(
            f"{name}={array.reshape(count, -1)[wrong[0]][::-1].tobytes().hex()}" for name, array in beats.items()
        )
    )


def test_decode_knows_exactly_the_matrix(lanes):
    numbers = np.arange(1024)
    shown = lanes.run(op=numbers % 32, datatype=numbers // 32)
    ops, datatypes = {int(op): op for op in Op}, {int(datatype): datatype for datatype in lanes.datatypes}
    for number in numbers:
        op, datatype = ops.get(number % 32), datatypes.get(number // 32)
        known = op is not None and datatype is not None and in_matrix(op, datatype)
        assert shown["supported"][number] == known, (op, datatype)
        if known:
            pipelined = is_pipelined(op, datatype, lanes.single_cycle_products)
            assert shown["pipelined"][number] == pipelined, (op, datatype)


def test_a_datatype_wider_than_a_beat_is_refused():
    with pytest.raises(ValueError, match="FI_LONG_DOUBLE_COMPLEX takes 256 bits"):
        FastLanes(128)


@pytest.mark.parametrize("data_width", [64, 192, 1024])
def test_an_unknown_beat_width_is_refused(data_width):
    with pytest.raises(ValueError, match="data_width must be"):
        FastLanes(data_width, [Datatype.FI_INT64])
