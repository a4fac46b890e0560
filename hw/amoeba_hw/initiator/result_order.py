"""Holds completions back until the data they speak of is on its way to the host."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.initiator.records import ANSWER, COMPLETION_ORDER
from amoeba_hw.interfaces import TRACE_SLOT
from amoeba_hw.stream import Queue

__all__ = ["ResultOrder"]


class ResultOrder(wiring.Component):
    """Passes on the completion of a request when all its results, and those before them, were written; that of a
    NOP, which waited for answers, behind theirs.

    Parameters
    ----------
    depth : int
        Answers that may wait for their results.

    Members
    -------
    answers : ANSWER stream
    nops : COMPLETION_ORDER stream
        Taken in cycles without an answer, and not while there is ``crowd``.
    crowd : in
    level : range(depth + 1)
        Answers and NOPs that wait.
    result_done : in
        Pulse: the results of the next answer that ``writes`` are on the ordered way to the host.
    orders : COMPLETION_ORDER stream
        One cycle after its answer, or after its ``result_done``; one per cycle.
    trace_result_written : TRACE_SLOT
    """

    def __init__(self, depth):
        self._depth = depth
        super().__init__(
            {
                "answers": In(stream.Signature(ANSWER)),
                "nops": In(stream.Signature(COMPLETION_ORDER)),
                "crowd": In(1),
                "level": Out(range(depth + 1)),
                "result_done": In(1),
                "orders": Out(stream.Signature(COMPLETION_ORDER)),
                "trace_result_written": Out(TRACE_SLOT),
            }
        )
        # A command may be done before its answer is in the queue, hence one more.
        self._done = Signal(range(depth + 2))

    def elaborate(self, platform):
        m = Module()
        m.submodules.waiting = waiting = Queue(ANSWER, self._depth)
        m.d.comb += [
            waiting.i.valid.eq(self.answers.valid | (self.nops.valid & ~self.crowd)),
            self.answers.ready.eq(waiting.i.ready),
            self.nops.ready.eq(waiting.i.ready & ~self.answers.valid & ~self.crowd),
            self.level.eq(waiting.level),
        ]
        with m.If(self.answers.valid):
            m.d.comb += waiting.i.payload.eq(self.answers.payload)
        with m.Else():
            m.d.comb += [waiting.i.p.completes.eq(1), waiting.i.p.order.eq(self.nops.payload)]
        answer = waiting.o.payload
        ready = Signal()
        passed = Signal()
        m.d.comb += [
            ready.eq(waiting.o.valid & (~answer.writes | (self._done != 0))),
            self.orders.valid.eq(ready & answer.completes),
            self.orders.payload.eq(answer.order),
            waiting.o.ready.eq(ready & (self.orders.ready | ~answer.completes)),
            passed.eq(waiting.o.valid & waiting.o.ready),
            self.trace_result_written.valid.eq(passed & answer.writes),
            self.trace_result_written.event.psn.eq(answer.psn),
            self.trace_result_written.event.pdc.eq(answer.order.ticket.peer),
            self.trace_result_written.event.context.eq(answer.order.ticket.context),
        ]
        m.d.sync += self._done.eq(self._done + self.result_done - (passed & answer.writes))
        return m
