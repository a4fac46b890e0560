"""ArithmeticPipeline against the golden model: every pipelined cell, alone and mixed.

Covers ``atomic/schedule.py``, ``atomic/slots.py``, ``atomic/decode.py``, ``atomic/prepare.py``,
``atomic/recovery.py``, ``atomic/sums.py``, ``atomic/carry_select_adder.py``, ``atomic/products.py``,
``atomic/wide_products.py``, ``atomic/low_products.py``, ``atomic/partial_products.py``, ``atomic/multiply.py`` and
``stages.py``.
"""

from functools import partial

import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_hw.atomic.decode import DecodeOperation
from amoeba_hw.atomic.pipeline import ArithmeticPipeline
from amoeba_hw.atomic.schedule import TWICE, WIDE_RESULTS, kind_of
from amoeba_model.atomic.execute import execute
from amoeba_model.atomic.formats import is_float
from amoeba_model.opcodes import Datatype, Op
from amoeba_sim.vector_bench import VectorBench

from tests.hw.atomic.operands import operands, sharp_operands

BEATS = 4000
"""So many that the shifters of the widest formats have met every distance: tests/hw/atomic/mutate.py."""
ARITHMETIC = (Op.FI_SUM, Op.FI_DIFF, Op.FI_PROD)
FLOATS = tuple(datatype for datatype in Datatype if is_float(datatype))


class DecodedPipeline(wiring.Component):
    """ArithmeticPipeline under the operation and datatype themselves, which it takes a cycle before the target.

    So whether a beat entered is known a cycle after it was offered.
    """

    def __init__(self, data_width, datatypes):
        self._decode = DecodeOperation(datatypes)
        self._pipeline = ArithmeticPipeline(data_width, datatypes)
        super().__init__(
            {
                "i_valid": In(1),
                "op": In(5),
                "datatype": In(5),
                "target": In(data_width),
                "operand": In(data_width),
                "forward": In(data_width // 8),
                "busy": Out(1),
                "o_valid": Out(1),
                "result": Out(data_width),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.decode = decode = self._decode
        m.submodules.pipeline = pipeline = self._pipeline
        valid = Signal()
        m.d.sync += [valid.eq(self.i_valid), pipeline.target.eq(self.target)]
        m.d.comb += [
            pipeline.i_valid.eq(valid & ~pipeline.busy),
            decode.op.eq(self.op),
            decode.datatype.eq(self.datatype),
            pipeline.control.eq(decode.control),
            pipeline.operand.eq(self.operand),
            pipeline.forward.eq(self.forward),
            self.busy.eq(pipeline.busy),
            self.o_valid.eq(pipeline.o_valid),
            self.result.eq(pipeline.result),
        ]
        return m


def pipelined_cells(datatypes):
    return [(op, datatype) for datatype in datatypes for op in ARITHMETIC if is_float(datatype) or op is Op.FI_PROD]


@pytest.fixture(scope="module", params=[pytest.param(128, marks=pytest.mark.long), 256])
def pipeline(request):
    datatypes = [datatype for datatype in Datatype if 8 * datatype.size <= request.param]
    with VectorBench(partial(DecodedPipeline, request.param, datatypes), f"pipeline{request.param}") as bench:
        bench.data_width = request.param
        bench.datatypes = datatypes
        yield bench


def run(bench, ops, datatypes, target, operand, valid=None):
    """Feeds a beat per row and returns (entered, results in order of entry)."""
    valid = np.ones(len(target), bool) if valid is None else valid
    return results_of(bench.run(**offered(ops, datatypes, target, operand, valid)), ops, datatypes, valid)


def offered(ops, datatypes, target, operand, valid, forward=None):
    """Inputs that offer a beat per row, where it is valid, and then wait until all have left."""
    drain = 24
    forward = np.zeros((len(target), target.shape[1] // 8), np.uint8) if forward is None else forward
    zeros = np.zeros((drain, target.shape[1]), np.uint8)
    return {
        "i_valid": np.concatenate([valid, np.zeros(drain, bool)]),
        "op": np.concatenate([ops, np.zeros(drain, int)]),
        "datatype": np.concatenate([datatypes, np.zeros(drain, int)]),
        "target": np.concatenate([target, zeros]),
        "operand": np.concatenate([operand, zeros]),
        "forward": np.concatenate([forward, np.zeros((drain, forward.shape[1]), np.uint8)]),
    }


def results_of(shown, ops, datatypes, valid):
    """(entered, results in order of entry). Raises AssertionError if one leaves at a time that is not its own."""
    entered = np.flatnonzero(valid & (shown["busy"][1 : 1 + len(valid)] == 0))
    latencies = np.array(
        [ArithmeticPipeline.latency(Op(int(ops[row])), Datatype(int(datatypes[row]))) for row in entered], int
    )
    leaves = entered + 1 + latencies
    assert sorted(leaves) == np.flatnonzero(shown["o_valid"]).tolist()
    return entered, shown["result"][leaves]


@pytest.mark.parametrize("datatype", Datatype, ids=lambda datatype: datatype.name)
def test_every_pipelined_cell_is_the_models(pipeline, datatype):
    if datatype not in pipeline.datatypes:
        pytest.skip("wider than a beat")
    for op, _ in pipelined_cells([datatype]):
        seed = 1000 * op + datatype
        rng = np.random.default_rng(seed)
        count = BEATS * pipeline.data_width // 8 // datatype.size
        target, operand = operands(datatype, count, rng, 2)
        expected = execute(op, datatype, target, operand).reshape(BEATS, -1)
        entered, result = run(
            pipeline,
            np.full(BEATS, op),
            np.full(BEATS, datatype),
            target.reshape(BEATS, -1),
            operand.reshape(BEATS, -1),
        )
        assert len(entered) >= BEATS // 2
        size = datatype.size
        difference = (result != expected[entered]).reshape(-1, size).any(axis=1)
        wrong = np.flatnonzero(difference)
        assert not len(wrong), (
            f"{op.name} {datatype.name} seed={seed}: {len(wrong)} of {len(difference)} differ, first: "
            + " ".join(
                f"{name}={array.reshape(-1, size)[wrong[0]][::-1].tobytes().hex()}"
                for name, array in [
                    ("target", target.reshape(BEATS, -1)[entered]),
                    ("operand", operand.reshape(BEATS, -1)[entered]),
                    ("expected", expected[entered]),
                    ("result", result),
                ]
            )
        )


@pytest.mark.parametrize("datatype", FLOATS, ids=lambda datatype: datatype.name)
@pytest.mark.parametrize("op", ARITHMETIC, ids=lambda op: op.name)
def test_results_that_a_single_bit_decides_are_the_models(pipeline, op, datatype):
    if datatype not in pipeline.datatypes:
        pytest.skip("wider than a beat")
    seed = int(datatype)
    target, operand = sharp_operands(op, datatype, np.random.default_rng(seed))
    expected = execute(op, datatype, target, operand)
    # A row per beat and one to wait, so that every beat enters.
    beats = [np.repeat(array.reshape(-1, pipeline.data_width // 8), 2, axis=0) for array in (target, operand)]
    rows = len(beats[0])
    valid = np.arange(rows) % 2 == 0
    _, result = run(pipeline, np.full(rows, op), np.full(rows, datatype), *beats, valid=valid)
    wrong = np.flatnonzero((result.reshape(-1, datatype.size) != expected).any(axis=1))
    assert not len(wrong), f"seed={seed}: {len(wrong)} of {len(target)} differ, first: " + " ".join(
        array[wrong[0]][::-1].tobytes().hex() for array in (target, operand, expected)
    )


def test_mixed_beats_leave_after_their_own_latency(pipeline):
    seed = 5
    rows = 4000
    *beats, valid = mixed_beats(pipelined_cells(pipeline.datatypes), pipeline.data_width, rows, seed)
    entered, result = run(pipeline, *beats, valid=valid)
    assert len(entered) > rows // 4
    expected = expected_of(*beats)
    for row, shown in zip(entered, result, strict=True):
        op, datatype = Op(int(beats[0][row])), Datatype(int(beats[1][row]))
        assert (shown == expected[row]).all(), f"row {row} of seed {seed}: {op.name} {datatype.name}"


@pytest.mark.parametrize("op", ARITHMETIC, ids=lambda op: op.name)
@pytest.mark.parametrize("datatype", FLOATS, ids=lambda datatype: datatype.name)
def test_a_beat_takes_bytes_of_the_result_that_leaves_as_it_enters(pipeline, datatype, op):
    if datatype not in pipeline.datatypes:
        pytest.skip("wider than a beat")
    seed = int(datatype)
    rng = np.random.default_rng(seed)
    links, latency, width = 200, ArithmeticPipeline.latency(op, datatype), pipeline.data_width // 8
    elements = links * width // datatype.size
    target, operand = (beats.reshape(links, -1) for beats in operands(datatype, elements, rng, 2))
    # Whole elements, since the other bytes of one would be of another number.
    takes = np.repeat(rng.random((links, width // datatype.size)) < 0.5, datatype.size, axis=1)
    takes[0] = False
    expected = np.zeros_like(target)
    for link in range(links):
        before = np.where(takes[link], expected[link - 1], target[link])
        pair = (beat.reshape(-1, datatype.size) for beat in (before, operand[link]))
        expected[link] = execute(op, datatype, *pair).reshape(-1)
    # A beat enters just when the one before leaves; none are between them.
    spaced = [np.repeat(beats, latency, axis=0) for beats in (target, operand)]
    rows = links * latency
    valid = np.arange(rows) % latency == 0
    ops, datatypes = (np.full(rows, value) for value in (op, datatype))
    forward = np.repeat(np.packbits(takes, axis=1, bitorder="little"), latency, axis=0)
    _, result = results_of(pipeline.run(**offered(ops, datatypes, *spaced, valid, forward)), ops, datatypes, valid)
    wrong = np.flatnonzero((result != expected).any(axis=1))
    assert not len(wrong), (
        f"seed={seed}: link {wrong[0]} of {links}, the first of {len(wrong)} that differ: "
        f"{result[wrong[0]][::-1].tobytes().hex()}, expected {expected[wrong[0]][::-1].tobytes().hex()}"
    )


class WidePipeline(wiring.Component):
    """Products of two beats each, under the names of a test bench."""

    def __init__(self, data_width):
        self._pipeline = ArithmeticPipeline(data_width, (Datatype.FI_LONG_DOUBLE,), (Op.FI_PROD,), wide_products=True)
        super().__init__(
            {
                "start": In(1),
                "target": In(2 * data_width),
                "operand": In(2 * data_width),
                "leaves": Out(2),
                "result": Out(data_width),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.pipeline = pipeline = self._pipeline
        m.d.comb += [
            pipeline.wide.start.eq(self.start),
            pipeline.wide.target.eq(self.target),
            pipeline.wide.operand.eq(self.operand),
            self.leaves.eq(pipeline.wide.leaves),
            self.result.eq(pipeline.wide.result),
        ]
        return m


@pytest.fixture(scope="module")
def wide_pipeline():
    with VectorBench(WidePipeline(128), "wide_pipeline") as bench:
        yield bench


HELD = {"target": (3, 4), "operand": (2, 4)}
"""For how many cycles the real and the imaginary part of a product of two beats have to be there."""


@pytest.mark.parametrize("pause", [4, 5, 7])
@pytest.mark.parametrize("seed", range(3))
def test_products_of_two_beats_are_the_models(wide_pipeline, seed, pause):
    """Each begins ``pause`` cycles after the one before. Its parts are there for as long as they must be."""
    rng = np.random.default_rng(seed)
    target, operand = wide_operands(rng)
    expected = execute(Op.FI_PROD, Datatype.FI_LONG_DOUBLE_COMPLEX, target, operand)
    inputs = wide_inputs(target, operand, pause, rng)
    result = wide_results(wide_pipeline.run(**inputs), inputs["start"])
    wrong = np.flatnonzero((result != expected).any(axis=1))
    assert not len(wrong), f"seed={seed} pause={pause}: {len(wrong)} of {len(target)} differ, first: " + " ".join(
        array[wrong[0]][::-1].tobytes().hex() for array in (target, operand, expected, result)
    )


def wide_operands(rng):
    """Targets and operands of FI_LONG_DOUBLE_COMPLEX, drawn and sharp."""
    datatype = Datatype.FI_LONG_DOUBLE_COMPLEX
    pairs = zip(operands(datatype, 3000, rng, 2), sharp_operands(Op.FI_PROD, datatype, rng), strict=True)
    return [np.concatenate(pair) for pair in pairs]


def wide_inputs(target, operand, pause, rng):
    """A product every ``pause`` cycles, its parts shown for as long as they must be, else noise."""
    rows = pause * len(target)
    start = np.arange(rows + max(WIDE_RESULTS) + 1) % pause == 0
    start[rows:] = False
    shown = {"start": start}
    for (name, held), numbers in zip(HELD.items(), (target, operand), strict=True):
        shown[name] = rng.integers(0, 256, (len(start), numbers.shape[1]), dtype=np.uint8)
        for part, cycles in zip((slice(0, 16), slice(16, 32)), held, strict=True):
            for cycle in range(cycles):
                shown[name][cycle:rows:pause, part] = numbers[:, part]
    return shown


def wide_results(outputs, start):
    """The products, of which each part must have left in its cycle."""
    parts = []
    for part, latency in enumerate(WIDE_RESULTS):
        leaves = np.flatnonzero(start) + latency
        assert np.flatnonzero(outputs["leaves"] >> part & 1).tolist() == leaves.tolist()
        parts.append(outputs["result"][leaves])
    return np.concatenate(parts, axis=1)


def mixed_beats(cells, data_width, rows, seed):
    """Random beats of random cells, of which every fifth is missing: ops, datatypes, target, operand, valid."""
    rng = np.random.default_rng(seed)
    chosen = [cells[index] for index in rng.integers(0, len(cells), rows)]
    ops, datatypes = (np.array(column) for column in zip(*chosen, strict=True))
    target, operand = (rng.integers(0, 256, (rows, data_width // 8), dtype=np.uint8) for _ in range(2))
    return ops, datatypes, target, operand, rng.random(rows) < 0.8


def expected_of(ops, datatypes, target, operand):
    """The model's results of beats, each of a cell of its own."""
    expected = np.zeros_like(target)
    for op, datatype in {(int(op), int(datatype)) for op, datatype in zip(ops, datatypes, strict=True)}:
        rows = np.flatnonzero((ops == op) & (datatypes == datatype))
        elements = (beats[rows].reshape(-1, Datatype(datatype).size) for beats in (target, operand))
        expected[rows] = execute(Op(op), Datatype(datatype), *elements).reshape(len(rows), -1)
    return expected


def test_beats_of_one_kind_enter_at_the_documented_rate(pipeline):
    rows = 100
    beats = np.zeros((rows, pipeline.data_width // 8), np.uint8)
    for op, datatype in pipelined_cells(pipeline.datatypes):
        entered, _ = run(pipeline, np.full(rows, op), np.full(rows, datatype), beats, beats)
        assert len(entered) == entering(op, datatype, rows), (op, datatype)


def entering(op, datatype, rows):
    """How many of that many beats of one kind, offered in a row, enter."""
    return rows // 2 if kind_of(op, datatype) in TWICE else rows


@pytest.mark.parametrize(
    "datatypes",
    [
        [Datatype.FI_INT64, Datatype.FI_UINT64],
        [Datatype.FI_FLOAT],
        [Datatype.FI_FLOAT8_E4M3, Datatype.FI_INT128],
        [Datatype.FI_DOUBLE_COMPLEX],
    ],
    ids=lambda datatypes: "-".join(datatype.name for datatype in datatypes),
)
def test_a_build_for_few_datatypes_computes_these(datatypes):
    with VectorBench(DecodedPipeline(128, datatypes), "pipeline_partial") as bench:
        for op, datatype in pipelined_cells(datatypes):
            rng = np.random.default_rng(7)
            target, operand = operands(datatype, 200 * 16 // datatype.size, rng, 2)
            expected = execute(op, datatype, target, operand).reshape(200, 16)
            entered, result = run(
                bench, np.full(200, op), np.full(200, datatype), target.reshape(200, 16), operand.reshape(200, 16)
            )
            assert (result == expected[entered]).all(), (op, datatype)
