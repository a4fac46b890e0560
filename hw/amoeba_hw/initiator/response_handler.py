"""Finds what each answer answers, and what follows from it."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.wire.uet import ReturnCode

from amoeba_hw.initiator.fork import Fork
from amoeba_hw.initiator.peer_table import ANSWERED
from amoeba_hw.initiator.records import COMPLETION_ORDER, GENERATION_BITS, OUTSTANDING
from amoeba_hw.interfaces import DMA_COMMAND, FRAME_HEADER, packet_beat
from amoeba_hw.stream import Queue

__all__ = ["ANSWER", "ResponseHandler"]

ANSWER = data.StructLayout(
    {
        "writes": 1,  # data goes to the host: to wait for
        "completes": 1,  # the last packet of its request
        "psn": 32,
        "order": COMPLETION_ORDER,  # valid with completes; its ticket always
    }
)
"""What an answer leads to."""

_DECISION = data.StructLayout({"answer": ANSWER, "has_payload": 1, "result": 64, "length": 14})
_ROUTE = data.StructLayout({"forward": 1})
_ROUTES = 16


class ResponseHandler(wiring.Component):
    """Matches answers with outstanding packets, in psn order per PDC, and sends their data to the host.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    responses : FRAME_HEADER stream
        One every three cycles. Answers that are not expected are dropped, with their payload.
    response_payload : packet stream
    generations : array of GENERATION_BITS
        Data for an earlier generation is not written.
    answer_index, answer_open, answer_psn, answer_ip, answer_state; answered, answered_index, answered_state
        To and from the peer table.
    outstanding_peer, outstanding_psn : out; outstanding_entry : in
        To and from the outstanding table, which answers one cycle later.
    result_commands : DMA_COMMAND stream
        Three cycles after the answer's header.
    results : packet stream
        One packet of exactly the command's length per command, in order.
    answers : ANSWER stream
        Every answer that was expected, in order.
    count_responses_received, count_dropped_response : out
    """

    def __init__(self, parameters):
        self._parameters = parameters
        index = range(parameters.peers)
        beat = packet_beat(parameters.data_width)
        super().__init__(
            {
                "responses": In(stream.Signature(FRAME_HEADER)),
                "response_payload": In(stream.Signature(beat)),
                "generations": In(GENERATION_BITS).array(parameters.contexts),
                "answer_index": Out(index),
                "answer_open": In(1),
                "answer_psn": In(32),
                "answer_ip": In(32),
                "answer_state": In(ANSWERED),
                "answered": Out(1),
                "answered_index": Out(index),
                "answered_state": Out(ANSWERED),
                "outstanding_peer": Out(index),
                "outstanding_psn": Out(32),
                "outstanding_entry": In(OUTSTANDING),
                "result_commands": Out(stream.Signature(DMA_COMMAND)),
                "results": Out(stream.Signature(beat)),
                "answers": Out(stream.Signature(ANSWER)),
                "count_responses_received": Out(1),
                "count_dropped_response": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        header = self.responses.payload
        expected = Signal()
        decision = Signal(_DECISION)
        select = Signal(3)
        m.submodules.fork = fork = Fork(_DECISION, 3)
        m.submodules.routes = routes = Queue(_ROUTE, _ROUTES)
        m.d.comb += [
            self.answer_index.eq(header.dpdcid),
            self.answered_index.eq(header.dpdcid),
            self.outstanding_peer.eq(header.dpdcid),
            self.outstanding_psn.eq(header.psn),
            expected.eq(
                self.answer_open
                & (header.dpdcid < self._parameters.peers)
                & (header.psn == self.answer_state.expected_psn)
                & (header.psn != self.answer_psn)
                & (header.ip == self.answer_ip)
            ),
            fork.i.payload.eq(decision),
            fork.select.eq(select),
        ]
        status = self._elaborate_status(m)
        with m.FSM(name="response"):
            with m.State("LOOK_UP"), m.If(self.responses.valid):
                m.next = "DECIDE"
            with m.State("DECIDE"):
                m.d.comb += [
                    self.responses.ready.eq(1),
                    self.answered.eq(expected),
                    self.count_responses_received.eq(expected),
                    self.count_dropped_response.eq(~expected),
                ]
                m.d.sync += self._decide(m, decision, select, expected, status)
                m.next = "ACT"
            with m.State("ACT"):
                m.d.comb += fork.i.valid.eq(1)
                with m.If(fork.i.ready):
                    m.next = "LOOK_UP"
        self._elaborate_outputs(m, fork, routes)
        return m

    def _elaborate_status(self, m):
        """What the answer says of its own packet: OK or what is wrong."""
        header, entry = self.responses.payload, self.outstanding_entry
        status = Signal(8)
        asked = Signal(14)
        m.d.comb += asked.eq(Mux(entry.returns_data, entry.length, 0))
        with m.If(entry.fault):
            m.d.comb += status.eq(ReturnCode.LOCAL_DMA_FAULT)
        with m.Elif(header.return_code != ReturnCode.OK):
            m.d.comb += status.eq(header.return_code)
        with m.Elif(header.payload_length != asked):
            m.d.comb += status.eq(ReturnCode.UNCOR)
        with m.Else():
            m.d.comb += status.eq(ReturnCode.OK)
        return status

    def _decide(self, m, decision, select, expected, status):
        """Brings the PDC up to date; returns the assignments that make the decision."""
        header, entry, state = self.responses.payload, self.outstanding_entry, self.answer_state
        ticket = entry.ticket
        failed = Signal()
        writes = Signal()
        has_payload = header.payload_length != 0
        following = self.answered_state
        m.d.comb += [
            failed.eq(status != ReturnCode.OK),
            writes.eq(
                expected
                & ~failed
                & entry.returns_data
                & has_payload
                & (Array(self.generations)[ticket.context] == ticket.generation)
            ),
            following.expected_psn.eq(state.expected_psn + 1),
            following.established.eq(1),
            following.dpdcid.eq(header.spdcid),
            following.failed.eq((state.failed | failed) & ~entry.last),
            following.status.eq(Mux(state.failed, state.status, status)),
        ]
        return [
            decision.answer.order.status.eq(following.status),
            decision.answer.order.ticket.eq(ticket),
            decision.answer.writes.eq(writes),
            decision.answer.completes.eq(entry.last),
            decision.answer.psn.eq(header.psn),
            decision.has_payload.eq(has_payload),
            decision.result.eq(entry.result),
            decision.length.eq(header.payload_length),
            select.eq(Cat(writes, has_payload, expected)),
        ]

    def _elaborate_outputs(self, m, fork, routes):
        command, route, answer = fork.o[0], fork.o[1], fork.o[2]
        m.d.comb += [
            self.result_commands.valid.eq(command.valid),
            self.result_commands.p.address.eq(command.p.result),
            self.result_commands.p.length.eq(command.p.length),
            command.ready.eq(self.result_commands.ready),
            routes.i.valid.eq(route.valid),
            routes.i.p.forward.eq(route.p.answer.writes),
            route.ready.eq(routes.i.ready),
            self.answers.valid.eq(answer.valid),
            self.answers.payload.eq(answer.p.answer),
            answer.ready.eq(self.answers.ready),
        ]
        source, target, forward = self.response_payload, self.results, routes.o.p.forward
        m.d.comb += [
            target.payload.eq(source.payload),
            target.valid.eq(routes.o.valid & forward & source.valid),
            source.ready.eq(routes.o.valid & (~forward | target.ready)),
            routes.o.ready.eq(source.valid & source.ready & source.p.last),
        ]
