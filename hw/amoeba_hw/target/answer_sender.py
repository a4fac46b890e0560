"""Gives answers: after their data was copied and their event written, with what they acknowledge and count."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.descriptors import EVENT
from amoeba_model.trace import NO_CONTEXT
from amoeba_model.wire.uet import ReturnCode

from amoeba_hw.host.ring_writer import ring_entry
from amoeba_hw.interfaces import FRAME_HEADER, TRACE_SLOT
from amoeba_hw.request_records import (
    ADVANCES,
    ANSWER,
    EVENT_CLAIM,
    GENERATION_BITS,
    acknowledges,
    modified_length,
    response_opcode,
)
from amoeba_hw.target.answer_history import ANSWER_VIEW

__all__ = ["AnswerSender"]


class AnswerSender(wiring.Component):
    """Makes a response of each complete answer, in order ("Answers" in README.md).

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    answers : ANSWER stream
        Final ones. Of a silent one nothing but the event comes out.
    copy_done : In(1)
        Pulse: the data of the next answer with ``copied`` is on the ordered way to the host.
    events : :func:`ring_entry` stream of EVENTs
        Accepted when the entry is on the ordered way to the host. Without event rings there are no events.
    event_index : In(16)
        Index of the entry that is being accepted.
    event_generations : array of GENERATION_BITS, In
    event_release : EVENT_CLAIM, Out
        A reserved event will not be written.
    turn, all_plain, given, plain
        To :class:`AnswerHistory`.
    responses : FRAME_HEADER stream
    advances : ADVANCES stream
        Of answers that advance any counter, each with its response. ``ready`` may not depend on ``valid``, and stays
        until a transfer.
    trace_event_written : TRACE_SLOT
    count_events : Out(1)

    Two cycles per answer, and with an event as long as that takes, and one more.
    """

    def __init__(self, parameters):
        self._contexts = parameters.contexts
        self._event_rings = parameters.event_rings
        # An answer may be behind its copy by as many as can be on the way between.
        self._copied = Signal(range(256))
        super().__init__(
            {
                "answers": In(stream.Signature(ANSWER)),
                "copy_done": In(1),
                "events": Out(stream.Signature(ring_entry(EVENT.size))),
                "event_index": In(16),
                "event_generations": In(GENERATION_BITS).array(self._contexts),
                "event_release": Out(EVENT_CLAIM),
                "turn": Out(ANSWER_VIEW),
                "all_plain": In(1),
                "given": Out(1),
                "plain": Out(1),
                "responses": Out(stream.Signature(FRAME_HEADER)),
                "advances": Out(stream.Signature(ADVANCES)),
                "trace_event_written": Out(TRACE_SLOT),
                "count_events": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        answer = self.answers.p
        current = Signal()
        wants_event = Signal()
        succeeded = Signal()
        ready = Signal()
        begins = Signal()
        leaves = Signal()
        counted = Signal()
        """The counters that the answer advances are taken with it."""
        status = Signal(8)
        with m.Switch(answer.event.context):
            for context in range(self._contexts):
                with m.Case(context):
                    m.d.comb += current.eq(self.event_generations[context] == answer.event.generation)
        m.d.comb += [
            ready.eq(self.answers.valid & (~answer.copied | (self._copied != 0))),
            succeeded.eq(answer.executed & (answer.return_code == ReturnCode.OK.value)),
            wants_event.eq(
                answer.event.reserved
                & (answer.event.kind != 0)
                & (answer.event.regardless | succeeded)
                & self._event_rings
            ),
            self.answers.ready.eq(leaves),
            self.given.eq(leaves & ~answer.silent),
        ]
        with m.FSM(name="step"):
            with m.State("TURN"), m.If(ready):
                m.d.comb += begins.eq(1)
                m.next = "RESPOND"
                with m.If(wants_event & current):
                    m.next = "EVENT"
            with m.State("EVENT"):
                m.d.comb += self.events.valid.eq(1)
                with m.If(self.events.ready):
                    m.next = "RESPOND"
            with m.State("RESPOND"):
                m.d.comb += [
                    self.responses.valid.eq(~answer.silent & counted),
                    leaves.eq((answer.silent | self.responses.ready) & counted),
                ]
                with m.If(leaves):
                    m.next = "TURN"
        m.d.sync += self._copied.eq(self._copied + self.copy_done - (begins & answer.copied))
        self._elaborate_history(m, begins)
        self._elaborate_event(m, status)
        self._elaborate_advances(m, status, counted, leaves)
        self._elaborate_response(m)
        m.d.comb += [
            self.event_release.valid.eq(leaves & answer.event.reserved & ~wants_event),
            self.event_release.context.eq(answer.event.context),
            self.event_release.generation.eq(answer.event.generation),
        ]
        return m

    def _elaborate_history(self, m, begins):
        answer = self.answers.p
        m.d.comb += [
            self.turn.valid.eq(begins & ~answer.silent),
            self.turn.pdc.eq(answer.spdcid),
            *(self.turn[name].eq(answer[name]) for name in ("psn", "clear_psn_offset", "epoch")),
            self.plain.eq((answer.return_code == ReturnCode.OK.value) & ~answer.returns_data),
        ]

    def _elaborate_event(self, m, status):
        answer, slot = self.answers.p, self.trace_event_written
        values = {
            "context": answer.event.user_context,
            "source_ip": answer.ip,
            "source_context": answer.event.initiator,
            "source_pdc": answer.dpdcid,
            "target_context": answer.event.target,
            "status": status,
            **{name: answer.event[name] for name in ("data", "tag", "address", "length", "slot", "kind", "flags")},
        }
        failed = answer.executed & (answer.return_code != ReturnCode.OK.value)
        m.d.comb += [
            status.eq(Mux(failed, answer.return_code, answer.event.status)),
            self.events.p.context.eq(answer.event.context),
            self.events.p.data.eq(Cat(values.get(field.name, Const(0, field.width)) for field in EVENT.fields)),
            slot.valid.eq(self.events.valid & self.events.ready),
            slot.event.psn.eq(self.event_index),
            slot.event.pdc.eq(answer.spdcid),
            slot.event.context.eq(answer.event.context),
            slot.event.status.eq(status),
            self.count_events.eq(slot.valid),
        ]

    def _elaborate_advances(self, m, status, counted, leaves):
        answer, advances = self.answers.p, self.advances
        counts = Signal()
        m.d.comb += [
            counts.eq(answer.counters.as_value() != 0),
            counted.eq(~counts | advances.ready),
            advances.valid.eq(leaves & counts),
            advances.p.counters.eq(answer.counters),
            advances.p.context.eq(Mux(answer.event.regardless, answer.event.context, NO_CONTEXT)),
            # A message that was cut has an event that is an error, and an answer that is OK.
            advances.p.error.eq(Mux(answer.event.regardless, status, answer.return_code) != ReturnCode.OK.value),
        ]

    def _elaborate_response(self, m):
        answer, header = self.answers.p, self.responses.p
        clear_psn = (answer.psn + answer.clear_psn_offset.as_signed())[:32]
        m.d.comb += [
            *acknowledges(header, answer),
            *(header[name].eq(answer[name]) for name in ("retx", "message_id", "job_id", "return_code")),
            header.cack_psn.eq(Mux(self.all_plain, answer.psn, clear_psn)),
            header.opcode.eq(response_opcode(answer.return_code, answer.returns_data)),
            header.modified_length.eq(modified_length(answer, answer.return_code)),
            header.payload_length.eq(Mux(answer.returns_data, answer.length, 0)),
        ]
