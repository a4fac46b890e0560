# amaranth: UnusedElaboratable=no
"""Reads on PCI Express: merged, cut, asked, and their completions put back into lines, in Verilator.

Covers ``pcie/completion_buffer.py``, ``pcie/read_merger.py``, ``pcie/read_requester.py`` and ``pcie/read_tags.py``.
"""

import pytest
from amaranth.hdl import Module, ResetInserter
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, flipped
from amoeba_hw.interfaces import READ_REQUEST, read_beat
from amoeba_hw.pcie.completion_buffer import CompletionBuffer
from amoeba_hw.pcie.interfaces import completion_beat, request_beat
from amoeba_hw.pcie.read_merger import ReadMerger
from amoeba_hw.pcie.read_requester import ReadRequester
from amoeba_hw.stream import connect_streams
from amoeba_sim.cocotb_runner import run_bench

READ = data.StructLayout({"request": READ_REQUEST, "user": 8})


class PcieReads(wiring.Component):
    """ReadMerger, ReadRequester and CompletionBuffer as PcieHost joins them, without writes between."""

    def __init__(self, width, *, limit, lines, tags, timeout):
        self._width = width
        self._limit = limit
        self._buffer = CompletionBuffer(width, lines=lines, tags=tags, timeout=timeout)
        super().__init__(
            {
                "reads": In(stream.Signature(READ)),
                "answers": Out(stream.Signature(read_beat(width))),
                "requests": Out(stream.Signature(request_beat(width))),
                "completions": In(stream.Signature(completion_beat(width))),
                "max_read_request": In(3),
                "extended_tags": In(1),
                "function_reset": In(1),
                "idle": Out(1),
                "unexpected": Out(1),
                "failed": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        buffer = self._buffer
        merger, requester = ReadMerger(self._width, self._limit), ReadRequester(self._limit)
        within = ResetInserter(self.function_reset)
        m.submodules.buffer, m.submodules.merger = within(buffer), within(merger)
        m.submodules.requester = within(requester)
        connect_streams(m, merger.wide, requester.reads)
        connect_streams(m, requester.starts, buffer.starts)
        connect_streams(m, flipped(self.completions), buffer.completions)
        connect_streams(m, buffer.answers, flipped(self.answers))
        m.d.comb += [
            merger.reads.valid.eq(self.reads.valid),
            merger.reads.p.eq(self.reads.p.request),
            merger.user.eq(self.reads.p.user),
            self.reads.ready.eq(merger.reads.ready),
            merger.max_read_request.eq(self.max_read_request),
            requester.max_read_request.eq(self.max_read_request),
            requester.tag.eq(buffer.tag),
            self.requests.valid.eq(requester.requests.valid),
            self.requests.p.header.eq(requester.requests.p),
            self.requests.p.first.eq(1),
            self.requests.p.last.eq(1),
            requester.requests.ready.eq(self.requests.ready),
            buffer.sent.eq(self.requests.valid & self.requests.ready),
            buffer.sent_tag.eq(self.requests.p.header.tag),
            buffer.extended_tags.eq(self.extended_tags),
            self.idle.eq(buffer.idle),
            self.unexpected.eq(buffer.unexpected),
            self.failed.eq(buffer.failed),
        ]
        return m


@pytest.mark.parametrize(("width", "lines", "tags"), [(128, 64, 32), (256, 128, 256), (512, 256, 64)])
def test_reads_come_back_whole_and_in_order_whatever_the_host_does(width, lines, tags):
    parameters = {"width": width, "limit": 512, "lines": lines, "tags": tags, "timeout": 4000}
    run_bench(PcieReads(**parameters), "tests.hw.pcie.bench_reads", parameters=parameters)


@pytest.mark.parametrize("sizes", [{"lines": 2}, {"lines": 96}, {"tags": 1}, {"tags": 512}, {"tags": 48}])
def test_a_completion_buffer_has_sizes_that_it_can_count(sizes):
    with pytest.raises(ValueError, match="powers of two"):
        CompletionBuffer(128, **sizes)


@pytest.mark.parametrize("limit", [0, 64, 200, 8192])
def test_a_limit_is_a_size_that_packets_have(limit):
    with pytest.raises(ValueError, match="128 to 4096"):
        ReadRequester(limit)
