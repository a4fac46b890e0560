"""Everything that the target sends, on one stream."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, flipped

from amoeba_hw.interfaces import FRAME_HEADER, packet_beat
from amoeba_hw.request_records import NACK, refuses
from amoeba_hw.stream import Queue, RoundRobinArbiter, connect_streams

__all__ = ["ResponseMerger"]

_PAYLOADS_AHEAD = 8
_PATIENCE = 4096
"""Cycles: a quarter of the default retransmit_timeout, and 16 times what the longest frame takes."""


class ResponseMerger(wiring.Component):
    """Merges answers, replayed answers and NACKs, frame by frame.

    Answers and NACKs alternate. A replayed answer leaves when none of them waits, or when it has waited for 4096
    cycles itself: so replays cost other peers one frame in that time, and never wait for good.

    Parameters
    ----------
    width : int
        Bits per beat.

    Members
    -------
    answers, replays : FRAME_HEADER streams
    answer_payload, replay_payload : :func:`packet_beat` streams
        One packet for each header with a ``payload_length``, in order; on its way when its header is offered.
    nacks : NACK stream
    responses : FRAME_HEADER stream
    response_payload : :func:`packet_beat` stream
        The same for the merged headers. Latency zero; a payload is offered in the cycle after its header was taken.
    """

    def __init__(self, width):
        beat = packet_beat(width)
        super().__init__(
            {
                "answers": In(stream.Signature(FRAME_HEADER)),
                "answer_payload": In(stream.Signature(beat)),
                "replays": In(stream.Signature(FRAME_HEADER)),
                "replay_payload": In(stream.Signature(beat)),
                "nacks": In(stream.Signature(NACK)),
                "responses": Out(stream.Signature(FRAME_HEADER)),
                "response_payload": Out(stream.Signature(beat)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.arbiter = arbiter = RoundRobinArbiter(FRAME_HEADER, 3)
        m.submodules.order = order = Queue(1, _PAYLOADS_AHEAD)
        nack_header = arbiter.i[2]
        connect_streams(m, flipped(self.answers), arbiter.i[0])
        self._elaborate_replays(m, arbiter.i[1])
        header, leaves = self.responses.p, Signal()
        m.d.comb += [
            nack_header.valid.eq(self.nacks.valid),
            self.nacks.ready.eq(nack_header.ready),
            *refuses(nack_header.p, self.nacks.p),
            # Only transfers fill the queue: its ready does not fall while a header waits.
            self.responses.valid.eq(arbiter.o.valid & order.i.ready),
            header.eq(arbiter.o.p),
            leaves.eq(self.responses.valid & self.responses.ready),
            arbiter.o.ready.eq(leaves),
            order.i.valid.eq(leaves & (header.payload_length != 0)),
            order.i.payload.eq(arbiter.grant == 1),
        ]
        payload = self.response_payload
        for number, source in enumerate((self.answer_payload, self.replay_payload)):
            with m.If(order.o.valid & (order.o.payload == number)):
                m.d.comb += [
                    payload.valid.eq(source.valid),
                    payload.p.eq(source.p),
                    source.ready.eq(payload.ready),
                ]
        m.d.comb += order.o.ready.eq(payload.valid & payload.ready & payload.p.last)
        return m

    def _elaborate_replays(self, m, turn):
        """Let ``turn`` have a replayed answer when its time has come."""
        patience = Signal(range(_PATIENCE + 1))
        offered, may_go = Signal(), Signal()
        waits = turn.valid & ~turn.ready
        m.d.comb += [
            # An offered answer stays on offer.
            may_go.eq(offered | ~(self.answers.valid | self.nacks.valid) | (patience == _PATIENCE)),
            turn.valid.eq(self.replays.valid & may_go),
            turn.p.eq(self.replays.p),
            self.replays.ready.eq(turn.ready & may_go),
        ]
        m.d.sync += offered.eq(waits)
        with m.If(~self.replays.valid | self.replays.ready):
            m.d.sync += patience.eq(0)
        with m.Elif(patience != _PATIENCE):
            m.d.sync += patience.eq(patience + 1)
