"""The host's commands to target PDCs, as the host sees their effect."""

import pytest
from amoeba_hw.target.pdc_commands import PdcCommands
from amoeba_model.registers import TargetPdcState

from tests.support.simulation import simulate

FREE, OPEN, CLOSED, EXPELLED = TargetPdcState


async def command(ctx, dut, kind, pdc):
    ctx.set(dut.command, {"select": kind == "select", "close": kind == "close", "pdc": pdc})
    await ctx.tick()
    ctx.set(dut.command, {"select": 0, "close": 0, "pdc": 0})


@pytest.mark.parametrize("closed_before", [False, True])
def test_a_pdc_is_expelled_from_the_command_on_that_is_to_close_it(closed_before):
    dut = PdcCommands(4)

    async def state_of(ctx, pdc):
        await command(ctx, dut, "select", pdc)
        return ctx.get(dut.view.state)

    async def testbench(ctx):
        ctx.set(dut.exists, 1)
        ctx.set(dut.entry.state.closed, closed_before)
        before = CLOSED if closed_before else OPEN
        await command(ctx, dut, "close", 2)
        # The table is busy with a packet: its entry has not changed.
        assert await state_of(ctx, 2) == (CLOSED if closed_before else EXPELLED)
        assert ctx.get(dut.closes) == 1 << 2
        assert await state_of(ctx, 1) == before
        ctx.set(dut.exists, 0)
        assert await state_of(ctx, 0xFFFE) == FREE
        ctx.set(dut.exists, 1)
        ctx.set(dut.done, 1)
        ctx.set(dut.pdc, 2)
        await ctx.tick()
        ctx.set(dut.done, 0)
        ctx.set(dut.entry.state, {"closed": 1, "expelled": not closed_before})
        assert await state_of(ctx, 2) == (CLOSED if closed_before else EXPELLED)
        assert ctx.get(dut.closes) == 0

    simulate(dut, testbench)
