"""VectorBench: the shapes of its arrays, the moment of its sampling, its errors."""

from functools import partial

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_sim.vector_bench import VectorBench


class Accumulator(wiring.Component):
    """A wide sum that is combinational and a narrow one that is registered."""

    wide: In(100)
    narrow: In(8)
    sum: Out(128)
    total: Out(8)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.sum.eq(self.wide + self.narrow)
        m.d.sync += self.total.eq(self.total + self.narrow)
        return m


@pytest.fixture(params=[Accumulator, partial(Accumulator)], ids=["a component", "one to be made"])
def bench(request):
    component = request.param() if request.param is Accumulator else request.param
    with VectorBench(component, "accumulator") as bench:
        yield bench


def test_outputs_are_those_of_the_cycle_their_inputs_are_in(bench):
    wide = np.full((4, 13), 0xFF, np.uint8)
    wide[:, 12] = 0x0F
    shown = bench.run(wide=wide, narrow=np.array([1, 2, 3, 4]))
    assert [int.from_bytes(row.tobytes(), "little") for row in shown["sum"]] == [2**100 + n for n in range(4)]
    assert shown["total"].tolist() == [0, 1, 3, 6]


def test_state_outlives_a_run_until_reset(bench):
    bench.run(cycles=5, narrow=3)
    assert bench.run(cycles=1)["total"].tolist() == [15]
    bench.run(cycles=1, rst=1)
    assert bench.run(cycles=1)["total"].tolist() == [0]


def test_an_unknown_input_is_named(bench):
    with pytest.raises(TypeError, match="no such input: \\['depth'\\]"):
        bench.run(cycles=1, depth=1)


def test_a_wide_input_of_the_wrong_shape_is_refused(bench):
    with pytest.raises(TypeError, match="wide takes uint8\\[2, 13\\]"):
        bench.run(wide=np.zeros((2, 12), np.uint8))
