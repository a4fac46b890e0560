# amaranth: UnusedElaboratable=no
"""The memory engine asks for its clock. Covers ``memory/engine.py``."""

import pytest
from amoeba_hw.memory.engine import MemoryEngine
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters

from tests.support.simulation import simulate


@pytest.mark.parametrize("name", ["operands", "compares"])
def test_the_clock_runs_for_a_beat_that_comes_before_its_request_and_then_stops(name):
    parameters = NicParameters(
        data_width=128, lines=16, payload=256, datatypes=(Datatype.FI_UINT64,), ops=(Op.FI_BOR,)
    )  # fmt: skip
    dut = MemoryEngine(parameters)
    port = getattr(dut, name)

    async def testbench(ctx):
        while ctx.get(dut.runs):
            await ctx.tick()
        ctx.set(port.valid, 1)
        assert ctx.get(port.ready)
        assert ctx.get(dut.runs)
        await ctx.tick()
        assert not ctx.get(port.ready)
        assert not ctx.get(dut.runs)

    simulate(dut, testbench)
