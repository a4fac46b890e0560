"""Cycles per beat of every cell, measured at the memory engine in Verilator. Exact: equal RTL gives equal figures."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from amoeba_hw.atomic.control import is_pipelined
from amoeba_hw.atomic.pipeline import ArithmeticPipeline
from amoeba_model.atomic.matrix import Cell
from amoeba_model.opcodes import Form, Op
from amoeba_model.parameters import NicParameters
from amoeba_sim.memory_bench import MemoryBench, MemoryRequest, Outcome

from bench.limits import limit_of

__all__ = ["CellCycles", "measure_cells"]

_SKIPPED = 128
"""Requests until every queue on the way is full, and what leaves the engine is as fast as what enters it."""
_MEASURED = 256
_LATENCY = 4
"""Cycles of the host's memory: so few that they never count."""


@dataclass(frozen=True)
class CellCycles:
    """Cycles per beat of one cell."""

    cell: Cell
    independent: float
    """Full beats, each on a line of its own."""
    chain: float
    """Single elements, all on one address."""
    latency: int
    """Latency of the pipeline, from operands to result; 0 for an operation without pipeline."""

    @property
    def misses(self) -> list[str]:
        """List the limits that this cell exceeds, in words."""
        return limit_of(self.cell, max(self.latency, 1)).misses(self.independent, self.chain)


def _latency(cell: Cell, parameters: NicParameters) -> int:
    if is_pipelined(cell.op, cell.datatype, parameters.single_cycle_products):
        return ArithmeticPipeline.latency(cell.op, cell.datatype)
    return 0


def _requests(cell: Cell, base: int, step: int, size: int) -> list[MemoryRequest]:
    """Make requests of ``size`` bytes, ``step`` bytes apart."""
    r = random.Random(str(cell))
    compare = r.randbytes(size) if cell.form is Form.COMPARE else b""
    operand = b"" if cell.op is Op.FI_ATOMIC_READ else r.randbytes(size)
    return [
        MemoryRequest.atomic(
            cell.op, cell.datatype, base + step * index, operand, compare,
            count=size // cell.datatype.size, fetch=cell.form is Form.FETCH,
        )
        for index in range(_SKIPPED + _MEASURED + 1)
    ]  # fmt: skip


def _rate(outcome: Outcome) -> float:
    """Cycles per request: of executions, or of answers if they are slower."""
    answered = [cycle for _, error, cycle in outcome.packets if not error]
    assert len(answered) == len(outcome.executed) == _SKIPPED + _MEASURED + 1
    return max((cycles[-1] - cycles[_SKIPPED]) / _MEASURED for cycles in (outcome.executed, answered))


def measure_cells(
    cells: Iterable[Cell] | None = None,
    parameters: NicParameters | None = None,
    progress: Callable[[], object] = lambda: None,
) -> list[CellCycles]:
    """Measure ``cells``, all of the NIC by default; ``progress`` is called after each."""
    parameters = parameters or NicParameters()
    bench = MemoryBench(parameters)
    line = parameters.beat_bytes
    memory = np.zeros(line * (_SKIPPED + _MEASURED + 1), np.uint8)
    measured = []
    for cell in cells or parameters.cells():
        rates = [
            _rate(bench.run(_requests(cell, bench.base, step, size), memory, latency=_LATENCY))
            for step, size in ((line, line), (0, cell.datatype.size))
        ]
        measured.append(CellCycles(cell, *rates, latency=_latency(cell, parameters)))
        progress()
    return measured
