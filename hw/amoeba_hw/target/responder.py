"""Answers, in the order of the requests."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, flipped
from amoeba_model.wire.uet import ResponseOpcode, ReturnCode

from amoeba_hw.commit_queue import CommitQueue
from amoeba_hw.interfaces import FRAME_HEADER, packet_beat
from amoeba_hw.stream import Queue, connect_streams
from amoeba_hw.target.records import ANSWER

__all__ = ["Responder"]

_READY_ANSWERS = 8


class Responder(wiring.Component):
    """Completes each answer with the outcome and the data of its request.

    Parameters
    ----------
    parameters : NicParameters
    depth : int
        Answers that wait for the memory engine: enough to cover the host's latency.

    Members
    -------
    answers : ANSWER stream
        One for each request that is to be answered, in order.
    results : :func:`packet_beat` stream
        One packet for each answer with ``executed``, in order: its data if it ``returns_data``, otherwise one beat of
        0 bytes. ``error``: the host refused, the answer carries HOST_UNSUCCESS_CMPL and no data.
    responses : FRAME_HEADER stream
    response_payload : :func:`packet_beat` stream
        A header is offered only when its data is complete, since an error shows with the last beat. One beat of
        ``results`` per cycle, one answer per cycle.
    count_refused_requests : Out(1)
        Pulse for each answer whose return code is not OK.
    """

    def __init__(self, parameters, depth=128):
        self._depth = depth
        self._beat = packet_beat(parameters.data_width)
        # One payload is filled while another one leaves.
        self._store_depth = 1 << (2 * -(-parameters.payload // parameters.beat_bytes) - 1).bit_length()
        super().__init__(
            {
                "answers": In(stream.Signature(ANSWER)),
                "results": In(stream.Signature(self._beat)),
                "responses": Out(stream.Signature(FRAME_HEADER)),
                "response_payload": Out(stream.Signature(self._beat)),
                "count_refused_requests": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.pending = pending = Queue(ANSWER, self._depth)
        m.submodules.complete = complete = Queue(ANSWER, _READY_ANSWERS)
        m.submodules.data = store = CommitQueue(self._beat, self._store_depth)
        connect_streams(m, flipped(self.answers), pending.i)
        connect_streams(m, store.o, flipped(self.response_payload))
        self._elaborate_results(m, pending.o, complete.i, store)
        self._elaborate_responses(m, complete.o)
        return m

    def _elaborate_results(self, m, pending, complete, store):
        result, answer = self.results, pending.p
        ends = Signal()
        """The answer is final with this cycle, if there is room for it."""
        failed = Signal()
        code = Signal(6)
        m.d.comb += [
            ends.eq(~answer.executed | (result.valid & result.p.last & (store.i.ready | ~answer.returns_data))),
            failed.eq(answer.executed & result.p.error),
            code.eq(Mux(failed, int(ReturnCode.HOST_UNSUCCESS_CMPL), answer.return_code)),
            complete.valid.eq(pending.valid & ends),
            complete.p.eq(answer),
            complete.p.return_code.eq(code),
            complete.p.returns_data.eq(answer.returns_data & ~failed),
            pending.ready.eq(complete.ready & ends),
            result.ready.eq(
                pending.valid
                & answer.executed
                & (store.i.ready | ~answer.returns_data)
                & (complete.ready | ~result.p.last)
            ),
            store.i.p.eq(result.p),
            store.i.p.error.eq(0),
            store.i.valid.eq(
                pending.valid
                & answer.executed
                & answer.returns_data
                & result.valid
                & (complete.ready | ~result.p.last)
            ),
        ]
        leaves = complete.valid & complete.ready
        m.d.comb += [
            store.commit.eq(leaves & ~failed),
            store.rollback.eq(leaves & failed),
            self.count_refused_requests.eq(leaves & (code != int(ReturnCode.OK))),
        ]

    def _elaborate_responses(self, m, complete):
        answer, header = complete.p, self.responses.p
        succeeded = answer.return_code == int(ReturnCode.OK)
        opcode = Mux(answer.returns_data, int(ResponseOpcode.WITH_DATA), int(ResponseOpcode.RESPONSE))
        shared = ("mac", "ip", "port", "psn", "spdcid", "dpdcid", "message_id", "job_id", "return_code")
        m.d.comb += [
            self.responses.valid.eq(complete.valid),
            complete.ready.eq(self.responses.ready),
            *(header[name].eq(answer[name]) for name in shared),
            header.opcode.eq(opcode),
            header.modified_length.eq(Mux(succeeded, answer.request_length, 0)),
            header.payload_length.eq(Mux(answer.returns_data, answer.request_length[:14], 0)),
        ]
