# amaranth: UnusedElaboratable=no
"""Writes on PCI Express: cut into memory writes that name the strobed bytes and no other, in Verilator.

Covers ``pcie/write_cutter.py`` and ``pcie/write_requester.py``.
"""

import pytest
from amaranth.hdl import Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, flipped
from amoeba_hw.interfaces import write_beat
from amoeba_hw.pcie.interfaces import MSIX_MESSAGE, REQUEST_HEADER, WRITE_NUMBER_BITS, request_beat
from amoeba_hw.pcie.request_merger import RequestMerger
from amoeba_hw.pcie.write_cutter import WriteCutter
from amoeba_hw.pcie.write_requester import WriteRequester
from amoeba_hw.stream import connect_streams
from amoeba_sim.cocotb_runner import run_bench


class PcieWrites(wiring.Component):
    """WriteRequester and RequestMerger as PcieHost joins them, with the users of beats in their stream."""

    def __init__(self, width, limit):
        self._width, self._limit = width, limit
        write = data.StructLayout({"beat": write_beat(width), "user": 8})
        super().__init__(
            {
                "writes": In(stream.Signature(write)),
                "reads": In(stream.Signature(REQUEST_HEADER)),
                "interrupts": In(stream.Signature(MSIX_MESSAGE)),
                "max_payload": In(3),
                "read_credit": In(1),
                "run": In(1),
                "requests": Out(stream.Signature(request_beat(width))),
                "accepted": Out(WRITE_NUMBER_BITS),
                "settled": Out(WRITE_NUMBER_BITS),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.requester = requester = WriteRequester(self._width, self._limit)
        m.submodules.merger = merger = RequestMerger(self._width)
        connect_streams(m, requester.requests, merger.writes)
        connect_streams(m, flipped(self.reads), merger.reads)
        connect_streams(m, flipped(self.interrupts), merger.interrupts)
        connect_streams(m, merger.requests, flipped(self.requests))
        m.d.comb += [
            requester.writes.valid.eq(self.writes.valid),
            requester.writes.p.eq(self.writes.p.beat),
            requester.user.eq(self.writes.p.user),
            self.writes.ready.eq(requester.writes.ready),
            requester.max_payload.eq(self.max_payload),
            merger.accepted.eq(requester.accepted),
            merger.settled.eq(requester.settled),
            merger.waiting.eq(self.writes.valid),
            merger.read_credit.eq(self.read_credit),
            merger.run.eq(self.run),
            self.accepted.eq(requester.accepted),
            self.settled.eq(requester.settled),
            self.idle.eq(merger.idle),
        ]
        return m


@pytest.mark.parametrize(("width", "limit"), [(128, 256), (256, 512), (512, 1024)])
def test_every_strobed_byte_is_written_once_and_nothing_passes_it(width, limit):
    run_bench(PcieWrites(width, limit), "tests.hw.pcie.bench_writes", parameters={"width": width, "limit": limit})


@pytest.mark.parametrize("limit", [0, 64, 200, 8192])
def test_a_limit_is_a_size_that_packets_have(limit):
    with pytest.raises(ValueError, match="128 to 4096"):
        WriteCutter(128, limit)
