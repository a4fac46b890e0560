"""The core's DMA on PCI Express."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.trace import Requester

from amoeba_hw.host.axi import USER_WIDTH
from amoeba_hw.host.line_order import LineOrder
from amoeba_hw.host.write_fence import WriteFence
from amoeba_hw.interfaces import READ_REQUEST, WRITE_BEGUN, read_beat, write_beat
from amoeba_hw.pcie.completion_buffer import CompletionBuffer
from amoeba_hw.pcie.interfaces import CONFIGURATION, MSIX_MESSAGE, completion_beat, request_beat
from amoeba_hw.pcie.read_merger import ReadMerger
from amoeba_hw.pcie.read_requester import ReadRequester
from amoeba_hw.pcie.request_merger import RequestMerger
from amoeba_hw.pcie.write_requester import WriteRequester
from amoeba_hw.stream import connect_streams

__all__ = ["PcieHost"]


class PcieHost(wiring.Component):
    """The requester's half of an endpoint: from the core's reads, writes and interrupts to a link's requests.

    A read sees the writes that had their place in the core's order before it, as the core wants it for its own lines
    and answers; so does whoever gets an interrupt.

    Parameters
    ----------
    width : int
        Bits per beat.
    lines, tags, timeout
        As of CompletionBuffer.
    read_limit, write_limit : int
        Bytes that a read asks for, and that a write carries, at most. CompletionBuffer holds at least one read.

    Members
    -------
    reads, read_user, read_answers, writes, write_user, write_begun, write_level
        As of Core. Latency of a read five cycles and more, of a write three, of an answer three.
    fence, fenced
        As of Core: the writes have left in ``requests``.
    interrupts : MSIX_MESSAGE stream, In
        From MsixTable, at any time after the core's pulse.
    requests, read_credit, completions, configuration
        As of PcieLinkSignature.
    run : In
        Requests may begin.
    merger_idle, reads_idle : Out
        As of RequestMerger and CompletionBuffer, for FunctionReset.
    unexpected, failed : Out
        Pulses: a completion came that nothing waits for; a read failed.
    """

    def __init__(self, width, *, lines=1024, tags=256, timeout=1 << 24, read_limit=4096, write_limit=512):
        if read_limit > lines * (width // 8):
            raise ValueError(f"Expected space for a read of {read_limit} bytes, got {lines} lines of {width // 8}")
        self._width = width
        self._read_limit, self._write_limit = read_limit, write_limit
        self.buffer = CompletionBuffer(width, lines=lines, tags=tags, timeout=timeout)
        super().__init__(
            {
                "reads": In(stream.Signature(READ_REQUEST)),
                "read_user": In(USER_WIDTH),
                "read_answers": Out(stream.Signature(read_beat(width))),
                "writes": In(stream.Signature(write_beat(width))),
                "write_user": In(USER_WIDTH),
                "write_begun": In(WRITE_BEGUN),
                "write_level": In(range(3)),
                "fence": In(1),
                "fenced": Out(1),
                "interrupts": In(stream.Signature(MSIX_MESSAGE)),
                "requests": Out(stream.Signature(request_beat(width))),
                "read_credit": In(1),
                "completions": In(stream.Signature(completion_beat(width))),
                "configuration": In(CONFIGURATION),
                "run": In(1),
                "merger_idle": Out(1),
                "reads_idle": Out(1),
                "unexpected": Out(1),
                "failed": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.merger = merger = RequestMerger(self._width)
        self._elaborate_reads(m, merger)
        self._elaborate_writes(m, merger)
        connect_streams(m, wiring.flipped(self.interrupts), merger.interrupts)
        connect_streams(m, merger.requests, wiring.flipped(self.requests))
        m.d.comb += [
            merger.read_credit.eq(self.read_credit),
            merger.run.eq(self.run),
            self.merger_idle.eq(merger.idle),
            self.reads_idle.eq(self.buffer.idle),
        ]
        return m

    def _elaborate_reads(self, m, merger):
        m.submodules.buffer = buffer = self.buffer
        m.submodules.order = order = LineOrder(
            self._width, lines=Requester.LINE_TABLE, writer=Requester.ANSWER_WRITER, reader=Requester.ANSWER_FETCH
        )
        m.submodules.read_merger = wide = ReadMerger(self._width, self._read_limit)
        m.submodules.read_requester = requester = ReadRequester(self._read_limit)
        connect_streams(m, wiring.flipped(self.reads), order.i)
        connect_streams(m, order.o, wide.reads)
        connect_streams(m, wide.wide, requester.reads)
        connect_streams(m, requester.starts, buffer.starts)
        connect_streams(m, requester.requests, merger.reads)
        connect_streams(m, wiring.flipped(self.completions), buffer.completions)
        connect_streams(m, buffer.answers, wiring.flipped(self.read_answers))
        m.d.comb += [
            order.i_user.eq(self.read_user),
            order.begun.eq(self.write_begun),
            wide.user.eq(order.o_user),
            wide.max_read_request.eq(self.configuration.max_read_request),
            requester.max_read_request.eq(self.configuration.max_read_request),
            requester.tag.eq(buffer.tag),
            buffer.sent.eq(merger.read_leaves),
            buffer.sent_tag.eq(merger.read_tag),
            buffer.extended_tags.eq(self.configuration.extended_tags),
            self.unexpected.eq(buffer.unexpected),
            self.failed.eq(buffer.failed),
        ]

        # No read passes an accepted write any more. A burst has begun before it is answered.
        m.d.sync += order.answered.eq(self.writes.valid & self.writes.ready & self.writes.p.last)

    def _elaborate_writes(self, m, merger):
        m.submodules.write_requester = requester = WriteRequester(self._width, self._write_limit)
        m.submodules.fence = fence = WriteFence()
        connect_streams(m, wiring.flipped(self.writes), requester.writes)
        connect_streams(m, requester.requests, merger.writes)
        m.d.comb += [
            requester.user.eq(self.write_user),
            requester.max_payload.eq(self.configuration.max_payload),
            merger.accepted.eq(requester.accepted),
            merger.settled.eq(requester.settled),
            merger.waiting.eq(self.write_level),
            fence.ask.eq(self.fence),
            fence.ordered.eq(requester.accepted + self.write_level),
            fence.settled.eq(requester.settled),
            # The merger's register passes on what has left the requester.
            fence.leaves.eq(~merger.requests.valid | merger.requests.ready),
            self.fenced.eq(fence.done),
        ]
