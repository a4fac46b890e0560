"""Gives answers again."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, flipped
from amoeba_model.descriptors import ANSWER_INLINE_SIZE
from amoeba_model.trace import NO_CONTEXT
from amoeba_model.wire.uet import NackCode

from amoeba_hw.commit_queue import CommitQueue
from amoeba_hw.interfaces import DMA_COMMAND, FRAME_HEADER, packet_beat
from amoeba_hw.request_records import DUPLICATE, KEPT_ANSWER, NACK, acknowledges, refuses, response_opcode
from amoeba_hw.stream import connect_streams
from amoeba_hw.target.answer_collector import answer_place
from amoeba_hw.target.answer_history import DUPLICATE_VIEW

__all__ = ["Replayer"]


class Replayer(wiring.Component):
    """Answers requests that were received again from what was kept of the first answer; executes nothing.

    Nothing is sent where the first answer is still to come, is too old or belongs to another epoch of the PDC.
    An answer whose data cannot be had any more becomes a NACK GTD_RESP_UNAVAIL.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    answer_base : In(64)
        The answer memory; 0: none.
    duplicates : DUPLICATE stream
    ask : DUPLICATE_VIEW, Out
        To :class:`AnswerHistory` and :class:`AnswerStore`.
    answered, intact : In(1)
    kept : KEPT_ANSWER, In
    commands, packets : DMA_COMMAND and :func:`packet_beat` streams
        Of a PackedReader. A packet is taken without waiting for anything.
    responses : FRAME_HEADER stream
    payload : :func:`packet_beat` stream
        Offered at most two cycles after its header.

    Three cycles for an answer on the chip. One from the host takes the host's latency and a cycle per beat, and is
    asked for when the one before has left.
    """

    def __init__(self, parameters):
        self._parameters = parameters
        self._beat = packet_beat(parameters.data_width)
        self._depth = max(2, 1 << (-(-parameters.payload // parameters.beat_bytes) - 1).bit_length())
        super().__init__(
            {
                "answer_base": In(64),
                "duplicates": In(stream.Signature(DUPLICATE)),
                "ask": Out(DUPLICATE_VIEW),
                "answered": In(1),
                "intact": In(1),
                "kept": In(KEPT_ANSWER),
                "commands": Out(stream.Signature(DMA_COMMAND)),
                "packets": In(stream.Signature(self._beat)),
                "responses": Out(stream.Signature(FRAME_HEADER)),
                "payload": Out(stream.Signature(self._beat)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.data = store = CommitQueue(self._beat, self._depth)
        connect_streams(m, store.o, flipped(self.payload))
        duplicate, kept, packet = self.duplicates.p, self.kept, self.packets
        is_long = Signal()
        can_fetch = Signal()
        leaves = Signal()
        failed = Signal()
        m.d.comb += [
            *(self.ask[name].eq(duplicate[name]) for name in ("psn", "epoch")),
            self.ask.pdc.eq(duplicate.spdcid),
            is_long.eq(kept.payload_length > ANSWER_INLINE_SIZE),
            can_fetch.eq(kept.in_memory & (self.answer_base != 0)),
            self.commands.p.address.eq(
                answer_place(self._parameters, self.answer_base, duplicate.spdcid, duplicate.psn)
            ),
            self.commands.p.length.eq(kept.payload_length),
            self.commands.p.context.eq(NO_CONTEXT),
            self.duplicates.ready.eq(leaves),
            store.i.p.eq(packet.p),
            store.i.p.error.eq(0),
        ]
        with m.FSM(name="step"):
            with m.State("LOOK_UP"), m.If(self.duplicates.valid):
                m.d.comb += self.ask.valid.eq(1)
                m.next = "JUDGE"
            with m.State("JUDGE"):
                with m.If(~self.answered | ~self.intact):
                    m.d.comb += leaves.eq(1)
                    m.next = "LOOK_UP"
                with m.Elif(~is_long):
                    self._elaborate_short(m, store)
                with m.Elif(~can_fetch):
                    m.next = "REFUSE"
                with m.Elif(store.space == self._depth):
                    m.next = "FETCH"
            with m.State("FETCH"):
                m.d.comb += self.commands.valid.eq(1)
                with m.If(self.commands.ready):
                    m.next = "RECEIVE"
            with m.State("RECEIVE"):
                m.d.comb += [packet.ready.eq(1), store.i.valid.eq(packet.valid)]
                with m.If(packet.valid & packet.p.last):
                    # A newer answer may have begun to take the place meanwhile: that changes what is stored first.
                    m.d.comb += self.ask.valid.eq(1)
                    m.d.sync += failed.eq(packet.p.error)
                    m.next = "CHECK"
            with m.State("CHECK"):
                m.d.comb += [store.commit.eq(self.intact & ~failed), store.rollback.eq(~store.commit)]
                m.next = "RESPOND"
                with m.If(~self.intact):
                    m.d.comb += leaves.eq(1)
                    m.next = "LOOK_UP"
                with m.Elif(failed):
                    m.next = "REFUSE"
            self._elaborate_responses(m, leaves)
        return m

    def _elaborate_short(self, m, store):
        """Replay an answer that is on the chip; its data, if it has any, fits one beat."""
        has_data = self.kept.payload_length != 0
        m.d.comb += [
            store.i.valid.eq(has_data),
            store.i.p.data.eq(self.kept.data),
            store.i.p.count.eq(self.kept.payload_length),
            store.i.p.last.eq(1),
            store.commit.eq(has_data & store.i.ready),
        ]
        with m.If(~has_data | store.i.ready):
            m.next = "RESPOND"

    def _elaborate_responses(self, m, leaves):
        duplicate, kept, header = self.duplicates.p, self.kept, self.responses.p
        # The way back to the psn has to fit the 16 bits, with sign, of ack_psn_offset.
        offset = Mux(duplicate.clear_psn_offset == 0x8000, 0x8001, duplicate.clear_psn_offset)
        with m.State("RESPOND"):
            m.d.comb += [
                self.responses.valid.eq(1),
                leaves.eq(self.responses.ready),
                *acknowledges(header, duplicate),
                header.retx.eq(1),
                header.cack_psn.eq(duplicate.psn + offset.as_signed()),
                header.opcode.eq(response_opcode(kept.return_code, kept.payload_length != 0)),
                *(
                    header[name].eq(kept[name])
                    for name in ("return_code", "message_id", "job_id", "modified_length", "payload_length")
                ),
            ]
            with m.If(leaves):
                m.next = "LOOK_UP"
        with m.State("REFUSE"):
            nack = Signal(NACK)
            m.d.comb += [
                *(
                    nack[name].eq(duplicate[name])
                    for name in ("mac", "ip", "port", "psn", "spdcid", "dpdcid", "retx", "marked")
                ),
                nack.code.eq(NackCode.GTD_RESP_UNAVAIL.value),
                self.responses.valid.eq(1),
                *refuses(header, nack),
                leaves.eq(self.responses.ready),
            ]
            with m.If(leaves):
                m.next = "LOOK_UP"
