# amaranth: UnusedElaboratable=no
"""A NIC without an initiator takes what others hand an initiator, and hands nothing on."""

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import Flow
from amoeba_hw.initiator.absent import AbsentInitiator
from amoeba_hw.initiator.initiator import Initiator
from amoeba_model.parameters import BUILDS

from tests.support.simulation import simulate

STREAMS = (
    "doorbells", "completion_heads", "arms", "peer_stores", "descriptor_data", "operands", "compares", "responses",
    "response_payload",
)  # fmt: skip


def test_every_transfer_is_taken_and_only_responses_are_counted():
    dut = AbsentInitiator(BUILDS["node"])
    outputs = [name for name, member in dut.signature.members.items() if member.flow is Flow.Out]
    quiet = [name for name in outputs if name != "count_dropped_response"]

    async def testbench(ctx):
        for name in STREAMS:
            port = getattr(dut, name)
            ctx.set(port.valid, 1)
            assert ctx.get(port.ready)
            assert ctx.get(dut.count_dropped_response) == (name == "responses")
            await ctx.tick()
            ctx.set(port.valid, 0)
            for output in quiet:
                port = getattr(dut, output)
                assert not ctx.get(port.valid if hasattr(port, "valid") else port)

    m = Module()
    m.submodules.dut = dut
    m.d.sync += Signal().eq(1)  # the component itself has no clock
    simulate(m, testbench)


def test_its_ports_are_those_of_an_initiator():
    dut = AbsentInitiator(BUILDS["node"])
    other = Initiator(BUILDS["node"])
    assert dut.signature.members == other.signature.members
    inputs = {
        name
        for name, member in dut.signature.members.items()
        if member.flow is Flow.In and member.is_signature and "ready" in member.signature.members
    }
    assert inputs == set(STREAMS)
