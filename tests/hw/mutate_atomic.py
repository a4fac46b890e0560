# amaranth: UnusedElaboratable=no
"""Mutation run of FastLanes and its operands: ``python tests/hw/mutate_atomic.py [--mutants N] [--seed N]``.

Every mutant executes the operands of the project's vector tests for every cell; it is killed by the first result
that differs from the model's. See docs/verification.md for the published scores.
"""

import argparse
import sys
from collections import Counter
from dataclasses import dataclass

import numpy as np
from amaranth.hdl import Module
from amoeba_model.atomic.execute import execute
from amoeba_model.atomic.formats import is_complex, is_float
from amoeba_model.atomic.matrix import COMPARE_OPS
from amoeba_model.opcodes import Datatype
from amoeba_sim.mutation import Mutants, Verdict
from amoeba_sim.vector_bench import VectorBench
from atomic_coverage import triples
from atomic_operands import operands
from rich.console import Console
from rich.table import Table
from test_atomic_lanes import DecodedLanes, edge_pairs, fast_cells

DATA_WIDTH = 128
BEATS = 600
"""Random beats per cell, as in tests/hw/test_atomic_lanes.py."""


class MeaningfulLanes(DecodedLanes):
    """FastLanes whose result is zero where it means nothing, so that only what counts is compared."""

    def elaborate(self, platform):
        m = Module()
        m.submodules.decode = decode = self._decode
        # Its cells lie within "lanes." too, and are mutated as well.
        m.submodules.prepare_lanes = prepare = self._prepare
        m.submodules.lanes = lanes = self._lanes
        control = decode.control
        meaningful = control.supported & ~control.pipelined
        m.d.comb += [
            decode.op.eq(self.op),
            decode.datatype.eq(self.datatype),
            decode.cswap_by_bits.eq(self.cswap_by_bits),
            prepare.control.eq(control),
            prepare.operand.eq(self.operand),
            prepare.compare.eq(self.compare),
            lanes.control.eq(control),
            lanes.prepared.eq(prepare.prepared),
            lanes.target.eq(self.target),
            self.result.eq(lanes.result & meaningful.replicate(len(self.result))),
            self.supported.eq(control.supported),
            self.pipelined.eq(control.pipelined),
        ]
        return m


@dataclass(frozen=True)
class Stimulus:
    """The operands of one cell and what the model makes of them, in beats."""

    inputs: dict
    expected: np.ndarray


def stimuli(datatypes, beats=BEATS) -> list[Stimulus]:
    """What tests/hw/test_atomic_lanes.py and tests/hw/test_atomic_coverage.py run."""
    found = []
    for datatype in datatypes:
        pairs = triples(datatype)
        for op, by_bits in fast_cells(datatype):
            rng = np.random.default_rng(1000 * op + datatype + 500 * by_bits)
            drawn = operands(datatype, beats * DATA_WIDTH // 8 // datatype.size, rng, 3)
            kinds = [drawn, pairs]
            if is_float(datatype) and not is_complex(datatype):
                kinds.append(edge_pairs(op, datatype, DATA_WIDTH))
            found += [_stimulus(op, datatype, by_bits, arrays) for arrays in kinds]
    return found


def _stimulus(op, datatype, by_bits, arrays):
    expected = execute(op, datatype, *arrays[:2], arrays[2] if op in COMPARE_OPS else None, cswap_by_bits=by_bits)
    target, operand, compare, result = (array.reshape(-1, DATA_WIDTH // 8) for array in (*arrays, expected))
    inputs = {"op": op, "datatype": datatype, "cswap_by_bits": by_bits}
    return Stimulus(inputs | {"target": target, "operand": operand, "compare": compare}, result)


def passes(bench: VectorBench, cells: list[Stimulus], mutant: int) -> bool:
    """Whether every result of the mutant is the model's."""
    return all((bench.run(mutant=mutant, **cell.inputs)["result"] == cell.expected).all() for cell in cells)


def run(count: int, seed: int, timeout: int, beats: int = BEATS, datatypes=None) -> dict:
    """The verdict on each mutant."""
    datatypes = datatypes or [datatype for datatype in Datatype if 8 * datatype.size <= DATA_WIDTH]
    mutants = Mutants(
        lambda: MeaningfulLanes(DATA_WIDTH, datatypes), f"mutants{DATA_WIDTH}", within="lanes", count=count, seed=seed
    )
    cells = stimuli(datatypes, beats)
    with mutants.bench() as bench:
        return mutants.judge(lambda number: passes(bench, cells, number), timeout=timeout)


def report(verdicts: dict) -> None:
    """Print the counts, the score and every mutant that was not killed."""
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=int, default=60, help="seconds for the solver, per surviving mutant")
    arguments = parser.parse_args()
    verdicts = run(arguments.mutants, arguments.seed, arguments.timeout)
    report(verdicts)
    return 1 if Verdict.SURVIVED in verdicts.values() else 0


if __name__ == "__main__":
    sys.exit(main())
