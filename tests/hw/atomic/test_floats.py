"""The floating-point units on their own, one format at a time, against the golden model.

Covers ``atomic/float_add.py``, ``atomic/float_multiply.py``, ``atomic/numbers.py``, ``atomic/shift.py`` and
``atomic/control.py``.
"""

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_hw.atomic.control import FORMATS, Control
from amoeba_hw.atomic.float_add import FloatAdder
from amoeba_model.atomic.execute import execute
from amoeba_model.atomic.formats import float_format
from amoeba_model.opcodes import Datatype, Op
from amoeba_sim.vector_bench import VectorBench

from tests.hw.atomic.operands import operands

COUNT = 20000
LAYOUT = Control.as_shape()["float_format"].shape
REALS = [
    Datatype.FI_FLOAT8_E4M3,
    Datatype.FI_FLOAT8_E5M2,
    Datatype.FI_FLOAT16,
    Datatype.FI_BFLOAT16,
    Datatype.FI_FLOAT,
    Datatype.FI_DOUBLE,
    Datatype.FI_LONG_DOUBLE,
]
UNITS = {
    "byte": [Datatype.FI_FLOAT8_E4M3],
    "half": REALS[:4],
    "single": REALS[:5],
    "double": REALS[:6],
    "extended": REALS,
}


class Unit(wiring.Component):
    """A floating-point unit with its one-hot format as a plain number."""

    def __init__(self, unit):
        self._unit = unit
        width = len(unit.a)
        super().__init__(
            {"chosen": In(len(FORMATS)), "subtract": In(1), "a": In(width), "b": In(width), "result": Out(width)}
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.unit = unit = self._unit
        m.d.comb += [
            unit.float_format.eq(self.chosen),
            unit.a.eq(self.a),
            unit.b.eq(self.b),
            self.result.eq(unit.result),
        ]
        if hasattr(unit, "subtract"):
            m.d.comb += unit.subtract.eq(self.subtract)
        return m


def to_port(words, width):
    """Little-endian numbers as a port of ``width`` bits takes them."""
    padded = np.zeros((len(words), 16), np.uint8)
    padded[:, : words.shape[1]] = words
    return padded[:, : (width + 7) // 8] if width > 64 else padded.view("<u8")[:, 0]


def from_port(values, fmt):
    """The encoding's bytes out of what a port returned."""
    if values.ndim == 1:
        values = values.astype("<u8").view(np.uint8).reshape(-1, 8)
    return values[:, : fmt.value_bytes]


@pytest.fixture(scope="module", params=UNITS)
def adder(request):
    formats = [float_format(datatype) for datatype in UNITS[request.param]]
    unit = FloatAdder(formats, LAYOUT)
    with VectorBench(Unit(unit), f"add_{request.param}") as bench:
        bench.datatypes, bench.width, bench.latency = UNITS[request.param], len(unit.a), unit.LATENCY
        yield bench


def check(bench, op, datatype, seed):
    fmt = float_format(datatype)
    rng = np.random.default_rng(seed)
    a, b = operands(datatype, COUNT, rng, 2)
    if datatype.size == 1:
        a, b = (np.ascontiguousarray(grid.reshape(-1, 1).astype(np.uint8)) for grid in np.mgrid[:256, :256])
    expected = execute(op, datatype, a, b)[:, : fmt.value_bytes]
    padding = np.zeros((bench.latency, a.shape[1]), np.uint8)
    shown = bench.run(
        chosen=1 << list(FORMATS).index(fmt.name),
        subtract=op is Op.FI_DIFF,
        a=to_port(np.concatenate([a, padding])[:, : fmt.value_bytes], bench.width),
        b=to_port(np.concatenate([b, padding])[:, : fmt.value_bytes], bench.width),
    )
    result = from_port(shown["result"][bench.latency :], fmt)
    wrong = np.flatnonzero((result != expected).any(axis=1))
    assert not len(wrong), (
        f"{op.name} {datatype.name} seed={seed}: {len(wrong)} of {len(a)} differ, first: "
        + " ".join(
            f"{name}={array[wrong[0]][::-1].tobytes().hex()}"
            for name, array in [("a", a), ("b", b), ("expected", expected), ("result", result)]
        )
    )


@pytest.mark.parametrize("op", [Op.FI_SUM, Op.FI_DIFF], ids=lambda op: op.name)
def test_sums_are_the_models_in_every_format(adder, op):
    for datatype in adder.datatypes:
        check(adder, op, datatype, seed=100 * op + datatype)
