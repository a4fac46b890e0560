# amaranth: UnusedElaboratable=no
"""Resets of the function under traffic, in Verilator.

Covers ``pcie/request_merger.py``.
"""

from amaranth.hdl import Module, ResetInserter
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, flipped
from amoeba_hw.interfaces import write_beat
from amoeba_hw.pcie.function_reset import FunctionReset
from amoeba_hw.pcie.interfaces import request_beat
from amoeba_hw.pcie.request_merger import RequestMerger
from amoeba_hw.pcie.write_requester import WriteRequester
from amoeba_hw.stream import connect_streams
from amoeba_sim.cocotb_runner import run_bench

WIDTH = 256


class WritingFunction(wiring.Component):
    """The writer, and the source of its reset."""

    def __init__(self):
        super().__init__(
            {
                "writes": In(stream.Signature(write_beat(WIDTH))),
                "requests": Out(stream.Signature(request_beat(WIDTH))),
                "bus_master": In(1),
                "reset_request": In(1),
                "reads_idle": In(1),
                "accesses_idle": In(1),
                "hold": Out(1),
                "reset": Out(1),
                "reset_done": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        function, writer, merger = FunctionReset(), WriteRequester(WIDTH), RequestMerger(WIDTH)
        m.submodules.function = function
        m.submodules.writer = ResetInserter(function.reset)(writer)
        m.submodules.merger = ResetInserter(function.reset)(merger)
        connect_streams(m, flipped(self.writes), writer.writes)
        connect_streams(m, writer.requests, merger.writes)
        connect_streams(m, merger.requests, flipped(self.requests))
        for name in ("bus_master", "reset_request", "reads_idle", "accesses_idle"):
            m.d.comb += getattr(function, name).eq(getattr(self, name))
        m.d.comb += [
            writer.max_payload.eq(1),
            merger.accepted.eq(writer.accepted),
            merger.settled.eq(writer.settled),
            merger.waiting.eq(writer.writes.valid),
            merger.run.eq(function.run),
            function.merger_idle.eq(merger.idle),
            self.hold.eq(function.hold),
            self.reset.eq(function.reset),
            self.reset_done.eq(function.reset_done),
        ]
        return m


def test_function_reset():
    run_bench(WritingFunction(), "tests.hw.pcie.bench_function_reset", parameters={"width": WIDTH})
