# amaranth: UnusedElaboratable=no
"""Mutation run of the atomic unit: ``python tests/hw/atomic/mutate.py lanes|pipeline|wide [--mutants N] [--seed N]``.

Every mutant executes the operands of the project's vector tests for every cell; it is killed by the first result
that differs from the model's, or comes at another time. See docs/verification.md for the published scores.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amoeba_hw.atomic.decode import DecodeOperation
from amoeba_hw.atomic.decoded_lanes import DecodedLanes
from amoeba_hw.atomic.pipeline import ArithmeticPipeline
from amoeba_hw.atomic.schedule import WIDE_RESULTS
from amoeba_model.atomic.execute import execute
from amoeba_model.atomic.formats import is_complex, is_float
from amoeba_model.atomic.matrix import COMPARE_OPS
from amoeba_model.opcodes import Datatype, Op
from amoeba_sim.mutation import Mutants, Verdict
from amoeba_sim.vector_bench import VectorBench
from rich.console import Console
from rich.table import Table

from tests.hw.atomic import test_lanes as test_atomic_lanes
from tests.hw.atomic import test_pipeline as test_atomic_pipeline
from tests.hw.atomic.coverage import triples
from tests.hw.atomic.operands import operands, sharp_operands
from tests.hw.atomic.test_lanes import bit_pairs, edge_pairs, fast_cells
from tests.hw.atomic.test_pipeline import (
    HELD,
    DecodedPipeline,
    WidePipeline,
    entering,
    expected_of,
    mixed_beats,
    offered,
    pipelined_cells,
    results_of,
    wide_inputs,
    wide_operands,
    wide_results,
)

DATA_WIDTH = 128
DATATYPES = tuple(datatype for datatype in Datatype if 8 * datatype.size <= DATA_WIDTH)


class MeaningfulPipeline(DecodedPipeline):
    """ArithmeticPipeline that is asked for its own cells only, and whose result is zero where it means nothing."""

    def __init__(self, data_width, datatypes):
        super().__init__(data_width, datatypes)
        self._decode = DecodeOperation(datatypes, single_cycle_products=False)

    def elaborate(self, platform):
        m = Module()
        m.submodules.decode = decode = self._decode
        m.submodules.pipeline = pipeline = self._pipeline
        meaningful = decode.control.supported & decode.control.pipelined
        was_meaningful, valid = Signal(), Signal()
        m.d.sync += [
            valid.eq(self.i_valid & meaningful),
            pipeline.target.eq(self.target),
            was_meaningful.eq(meaningful),
        ]
        m.d.comb += [
            pipeline.i_valid.eq(valid & ~pipeline.busy),
            decode.op.eq(self.op),
            decode.datatype.eq(self.datatype),
            pipeline.control.eq(Mux(meaningful, decode.control, 0)),
            pipeline.operand.eq(self.operand),
            self.busy.eq(pipeline.busy & was_meaningful),
            self.o_valid.eq(pipeline.o_valid),
            self.result.eq(pipeline.result & pipeline.o_valid.replicate(len(self.result))),
        ]
        return m


class MeaningfulWidePipeline(wiring.Component):
    """Products of two beats that begin when one may, of parts that are there for as long as they must be."""

    def __init__(self, data_width, datatypes):
        self._dut = WidePipeline(data_width)
        super().__init__(self._dut.signature)

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = self._dut
        # Bit n: n + 1 cycles ago.
        begun = Signal(max(map(max, HELD.values())) - 1)
        m.d.sync += begun.eq(Cat(dut.start, begun))
        m.d.comb += [
            dut.start.eq(self.start & ~begun.any()),
            self.leaves.eq(dut.leaves),
            self.result.eq(Mux(dut.leaves.any(), dut.result, 0)),
        ]
        for name, held in HELD.items():
            parts = zip(_halves(getattr(self, name)), _halves(getattr(dut, name)), held, strict=True)
            for index, (given, shown, cycles) in enumerate(parts):
                kept = Signal.like(given, name=f"{name}_{index}")
                with m.If(dut.start):
                    m.d.sync += kept.eq(given)
                    m.d.comb += shown.eq(given)
                with m.Elif(begun[: cycles - 1].any()):
                    m.d.comb += shown.eq(kept)
        return m


def _halves(value):
    return value[: len(value) // 2], value[len(value) // 2 :]


@dataclass(frozen=True)
class Stimulus:
    """Inputs, and whether what a bench shows of them is right."""

    inputs: dict[str, Any]
    is_right: Callable[[dict[str, np.ndarray]], bool]


def lanes_stimuli(datatypes, beats=test_atomic_lanes.BEATS):
    """The checks of tests/hw/atomic/test_lanes.py and tests/hw/atomic/test_coverage.py."""
    for datatype in datatypes:
        pairs = triples(datatype)
        for op, by_bits in fast_cells(datatype):
            rng = np.random.default_rng(1000 * op + datatype + 500 * by_bits)
            drawn = operands(datatype, beats * DATA_WIDTH // 8 // datatype.size, rng, 3)
            kinds = [drawn, pairs]
            if is_float(datatype) and not is_complex(datatype):
                kinds.append(edge_pairs(op, datatype, DATA_WIDTH))
            else:
                kinds += bit_pairs(datatype)
            for arrays in kinds:
                yield _lanes_stimulus(op, datatype, by_bits, arrays)


def _lanes_stimulus(op, datatype, by_bits, arrays):
    expected = execute(op, datatype, *arrays[:2], arrays[2] if op in COMPARE_OPS else None, cswap_by_bits=by_bits)
    target, operand, compare, expected = (_beats(array) for array in (*arrays, expected))
    inputs = {"op": op, "datatype": datatype, "cswap_by_bits": by_bits}
    inputs |= {"target": target, "operand": operand, "compare": compare}
    return Stimulus(inputs, lambda shown: bool((shown["result"] == expected).all()))


def pipeline_stimuli(datatypes, beats=test_atomic_pipeline.BEATS):
    """The checks of tests/hw/atomic/test_pipeline.py and tests/hw/atomic/test_coverage.py."""
    cells = pipelined_cells(datatypes)
    yield _pipeline_stimulus(*mixed_beats(cells, DATA_WIDTH, 4000, seed=5))
    for op, datatype in cells:
        rng = np.random.default_rng(1000 * op + datatype)
        target, operand = (
            _beats(array) for array in operands(datatype, beats * DATA_WIDTH // 8 // datatype.size, rng, 2)
        )
        ops, datatypes = (np.full(beats, value) for value in (op, datatype))
        always = np.ones(beats, bool)
        yield _pipeline_stimulus(ops, datatypes, target, operand, always, entering(op, datatype, beats))
        pairs = [triples(datatype)[:2]]
        if is_float(datatype):
            pairs.append(sharp_operands(op, datatype, np.random.default_rng(int(datatype))))
        for arrays in pairs:
            # With a row to wait, every beat enters.
            spaced = [np.repeat(_beats(array), 2, axis=0) for array in arrays]
            rows = len(spaced[0])
            ops, datatypes = (np.full(rows, value) for value in (op, datatype))
            yield _pipeline_stimulus(ops, datatypes, *spaced, np.arange(rows) % 2 == 0, rows // 2)


def _pipeline_stimulus(ops, datatypes, target, operand, valid, count=None):
    expected = expected_of(ops, datatypes, target, operand)

    def is_right(shown):
        try:
            entered, result = results_of(shown, ops, datatypes, valid)
        except AssertionError:
            return False
        return count in (None, len(entered)) and bool((result == expected[entered]).all())

    return Stimulus(offered(ops, datatypes, target, operand, valid), is_right)


def wide_stimuli(datatypes):
    """Products of two beats, their operands and paces chosen as in tests/hw/atomic/test_pipeline.py."""
    for pause in (4, 5):
        rng = np.random.default_rng(pause)
        target, operand = wide_operands(rng)
        expected = execute(Op.FI_PROD, Datatype.FI_LONG_DOUBLE_COMPLEX, target, operand)
        yield _wide_stimulus(wide_inputs(target, operand, pause, rng), expected)


def _wide_stimulus(inputs, expected):
    def is_right(shown):
        try:
            return bool((wide_results(shown, inputs["start"]) == expected).all())
        except AssertionError:
            return False

    return Stimulus(inputs, is_right)


def _beats(elements):
    return elements.reshape(-1, DATA_WIDTH // 8)


@dataclass(frozen=True)
class Unit:
    """A target of mutation: the component, its mutated submodules, and the tests."""

    build: Callable[[int, tuple[Datatype, ...]], wiring.Component]
    within: tuple[str, ...]
    stimuli: Callable
    cycles: int
    """How long after reset mutants are compared, see ``Mutants``."""
    cut: str | None = None


UNITS = {
    "lanes": Unit(DecodedLanes, ("measure", "prepare", "lanes"), lanes_stimuli, cycles=0),
    # What it has to do is known of the beats of as many cycles as its latency, and shows within as many.
    "pipeline": Unit(
        MeaningfulPipeline,
        ("pipeline",),
        pipeline_stimuli,
        cycles=2 * (ArithmeticPipeline.LATENCY + 1),
        cut=r"\.tile_",
    ),
    # As for the pipeline.
    "wide": Unit(
        MeaningfulWidePipeline,
        ("wide",),
        wide_stimuli,
        cycles=2 * (max(WIDE_RESULTS) + 1),
        cut=r"\.tile_",
    ),
}


def passes(bench: VectorBench, stimuli: list[Stimulus], mutant: int) -> bool:
    """Whether all that the mutant shows is right."""
    bench.reset()
    return all(stimulus.is_right(bench.run(mutant=mutant, **stimulus.inputs)) for stimulus in stimuli)


def run(unit: Unit, count: int, seed: int, timeout: int, datatypes=DATATYPES) -> tuple[dict, dict]:
    """The verdict on each mutant, and what would have killed those that survived."""
    mutants = Mutants(
        lambda: unit.build(DATA_WIDTH, datatypes),
        f"mutants_{unit.within[-1]}",
        within=unit.within,
        count=count,
        seed=seed,
        cycles=unit.cycles,
        cut=unit.cut,
    )
    stimuli = list(unit.stimuli(datatypes))
    with mutants.bench() as bench:
        verdicts = mutants.judge(lambda number: passes(bench, stimuli, number), timeout=timeout)
    return verdicts, mutants.survivors


def report(verdicts: dict, survivors: dict) -> None:
    """Print the counts, the score, every mutant that was not killed, and the inputs that would have killed it."""
    counts = Counter(verdicts.values())
    console = Console()
    table = Table("verdict", "mutants")
    for verdict in Verdict:
        table.add_row(verdict, str(counts[verdict]))
    console.print(table)
    different = len(verdicts) - counts[Verdict.EQUIVALENT]
    console.print(
        f"score: {counts[Verdict.KILLED]} of {different} that differ, {counts[Verdict.KILLED] / different:.1%}"
    )
    for mutant, verdict in verdicts.items():
        if verdict is not Verdict.KILLED:
            console.print(f"{verdict}: {mutant}\n    {mutant.command}")
            for cycle, inputs in enumerate(survivors.get(mutant, [])):
                if any(inputs.values()):
                    shown = " ".join(f"{name}={value:x}" for name, value in inputs.items())
                    console.print(f"    cycle {cycle}: {shown}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("unit", choices=UNITS)
    parser.add_argument("--mutants", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=int, default=60, help="seconds for the solver, per surviving mutant")
    arguments = parser.parse_args()
    verdicts, survivors = run(UNITS[arguments.unit], arguments.mutants, arguments.seed, arguments.timeout)
    report(verdicts, survivors)
    return 1 if Verdict.SURVIVED in verdicts.values() else 0


if __name__ == "__main__":
    sys.exit(main())
