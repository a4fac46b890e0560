"""Joins each answer with what came of its request, and keeps it."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, flipped
from amoeba_model.descriptors import ANSWER_INLINE_SIZE
from amoeba_model.trace import NO_CONTEXT
from amoeba_model.wire.uet import ReturnCode

from amoeba_hw.byte_order import swap_bytes
from amoeba_hw.commit_queue import CommitQueue
from amoeba_hw.interfaces import DMA_COMMAND, packet_beat
from amoeba_hw.request_records import ANSWER, modified_length
from amoeba_hw.stream import Queue, connect_streams
from amoeba_hw.target.answer_store import STORE_ANSWER

__all__ = ["AnswerCollector", "answer_place"]

_READY_ANSWERS = 8
_COPIES = 16


def answer_place(parameters, base, pdc, psn):
    """Where the data of an answer lies in the answer memory: an expression of 64 bits, from signals."""
    slot = (pdc << (parameters.window - 1).bit_length()) | psn[: (parameters.window - 1).bit_length()]
    return (base + slot * parameters.payload)[:64]


class AnswerCollector(wiring.Component):
    """Completes each answer with the outcome and the data of its request, in order.

    Parameters
    ----------
    parameters : NicParameters
    depth : int
        Answers that wait for the memory engine: enough to cover the host's latency.

    Members
    -------
    answer_base : In(64)
        The answer memory.
    answers : ANSWER stream
        One for each request that is to be answered, in order; silent ones pass between them.
    results : :func:`packet_beat` stream
        One packet for each answer with ``executed``, in order: its data if it ``returns_data``, otherwise one beat of
        0 bytes. ``error``: the host refused, the answer carries HOST_UNSUCCESS_CMPL and no data. So do the answers
        to the following packets of the message.
    complete : ANSWER stream
        With the final return code; ``returns_data`` and ``copied`` as it came out.
    payload : :func:`packet_beat` stream
        The data of those with ``returns_data``, in network order; all of it is there when its answer is offered, or
        two cycles later.
    store : STORE_ANSWER, Out
        With each beat of a result, or with an answer that is not executed; never with a silent one.
    copy_commands, copies : DMA_COMMAND and :func:`packet_beat` streams
        The data of those with ``copied`` once more, for a PackedWriter: a command comes when its packet is whole.
    count_refused_requests : Out(1)
        Pulse for each answer whose return code is neither OK nor NULL.

    One beat of ``results`` per cycle, one answer per cycle.
    """

    def __init__(self, parameters, depth=128):
        self._parameters = parameters
        self._depth = depth
        self._beat = packet_beat(parameters.data_width)
        self._data = Signal(parameters.data_width)
        """The beat of the result in network order."""
        self._faulty = Signal(parameters.target_pdcs)
        """PDCs whose last packet, or one before it of the same message, met a refusal of the host."""
        self._payload_beats = 1 << (-(-parameters.payload // parameters.beat_bytes) - 1).bit_length()
        super().__init__(
            {
                "answer_base": In(64),
                "answers": In(stream.Signature(ANSWER)),
                "results": In(stream.Signature(self._beat)),
                "complete": Out(stream.Signature(ANSWER)),
                "payload": Out(stream.Signature(self._beat)),
                "store": Out(STORE_ANSWER),
                "copy_commands": Out(stream.Signature(DMA_COMMAND)),
                "copies": Out(stream.Signature(self._beat)),
                "count_refused_requests": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.pending = pending = Queue(ANSWER, self._depth)
        m.submodules.finished = finished = Queue(ANSWER, _READY_ANSWERS)
        # One payload is filled while another one is copied and a third one leaves.
        m.submodules.data = store = CommitQueue(self._beat, 4 * self._payload_beats)
        m.submodules.copy = copy = CommitQueue(self._beat, max(2, 2 * self._payload_beats))
        m.submodules.commands = commands = Queue(DMA_COMMAND, _COPIES)
        connect_streams(m, flipped(self.answers), pending.i)
        connect_streams(m, finished.o, flipped(self.complete))
        connect_streams(m, store.o, flipped(self.payload))
        connect_streams(m, copy.o, flipped(self.copies))
        connect_streams(m, commands.o, flipped(self.copy_commands))
        self._elaborate_results(m, pending.o, finished.i, store, copy, commands.i)
        self._elaborate_store(m, pending.o, finished.i)
        return m

    def _elaborate_results(self, m, pending, finished, store, copy, commands):
        """Each beat goes to all that it concerns at once; their ``ready`` depends on nothing here."""
        result, answer, complete = self.results, pending.p, finished.p
        space = Signal()
        goes = Signal()
        """A beat of the result, or an answer without one, goes on in this cycle."""
        ends = Signal()
        failed = Signal()
        number = Signal(range(self._parameters.target_pdcs))
        m.d.comb += [
            self._data.eq(swap_bytes(m, "result", result.p.data, answer.swap)),
            number.eq(answer.spdcid),
            failed.eq(answer.executed & (result.p.error | (answer.continues & self._faulty.bit_select(number, 1)))),
            ends.eq(~answer.executed | result.p.last),
            space.eq(
                (store.i.ready | ~answer.returns_data)
                & (copy.i.ready | ~answer.copied)
                & (~ends | (finished.ready & (commands.ready | ~answer.copied)))
            ),
            goes.eq(pending.valid & space & (result.valid | ~answer.executed)),
            result.ready.eq(pending.valid & space & answer.executed),
            pending.ready.eq(goes & ends),
            finished.valid.eq(goes & ends),
            complete.eq(answer),
            complete.return_code.eq(Mux(failed, ReturnCode.HOST_UNSUCCESS_CMPL.value, answer.return_code)),
            complete.returns_data.eq(answer.returns_data & ~failed),
            complete.copied.eq(answer.copied & ~failed),
            commands.valid.eq(goes & ends & complete.copied),
            commands.p.address.eq(answer_place(self._parameters, self.answer_base, answer.spdcid, answer.psn)),
            commands.p.length.eq(answer.length),
            commands.p.context.eq(NO_CONTEXT),
            self.count_refused_requests.eq(
                finished.valid
                & ~answer.silent
                & ~complete.return_code.matches(ReturnCode.OK.value, ReturnCode.NULL.value)
            ),
        ]
        with m.If(finished.valid & ~answer.silent):
            m.d.sync += self._faulty.bit_select(number, 1).eq(failed)
        for queue, wanted in ((store, answer.returns_data), (copy, answer.copied)):
            m.d.comb += [
                queue.i.valid.eq(goes & wanted),
                queue.i.p.eq(result.p),
                queue.i.p.data.eq(self._data),
                queue.i.p.error.eq(0),
                queue.commit.eq(goes & ends & ~failed),
                queue.rollback.eq(goes & ends & failed),
            ]

    def _elaborate_store(self, m, pending, finished):
        """Store the answer. Before its last beat only the psn is looked at, which makes it the newer one."""
        answer, complete, kept = pending.p, finished.p, self.store.answer
        m.d.comb += [
            self.store.valid.eq(
                (finished.valid | (self.results.valid & self.results.ready)) & pending.valid & ~answer.silent
            ),
            self.store.pdc.eq(answer.spdcid),
            *(kept[name].eq(answer[name]) for name in ("psn", "epoch", "message_id", "job_id")),
            kept.return_code.eq(complete.return_code),
            kept.modified_length.eq(modified_length(answer, complete.return_code)),
            kept.payload_length.eq(Mux(complete.returns_data, answer.length, 0)),
            kept.in_memory.eq(complete.copied),
            kept.data.eq(self._data[: 8 * ANSWER_INLINE_SIZE]),
        ]
