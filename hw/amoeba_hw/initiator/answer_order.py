"""From answers to completions, in an order that waits for the host alone."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, flipped

from amoeba_hw.initiator.records import ANSWER, COMPLETION_ORDER
from amoeba_hw.initiator.resend_barrier import ResendBarrier
from amoeba_hw.initiator.result_order import ResultOrder
from amoeba_hw.interfaces import TRACE_SLOT
from amoeba_hw.stream import connect_streams

__all__ = ["AnswerOrder"]


class AnswerOrder(wiring.Component):
    """ResultOrder and ResendBarrier, with a place behind the barrier for every answer that is taken.

    Completions behind the barrier wait for packets to leave, and these for the link: so an answer that might have to
    wait there is not to be taken, or the link would wait for itself.

    Parameters
    ----------
    results, completions : int
        Answers that may wait for their results, and completions for the barrier.
    decided : int
        More answers than may be decided and not be seen in the levels yet: at least 5, less than ``completions``.

    Members
    -------
    crowd : out
        No answer may be decided. Answers that were decided before, one at a time, have their places.
    held : out
        The places are taken by completions that wait for packets to leave, not for the host.
    answers, nops, result_done, trace_result_written : see ResultOrder
        ``answers`` waits for ``result_done`` and ``o`` alone.
    resending, loaded : see ResendBarrier
    o : COMPLETION_ORDER stream
    """

    def __init__(self, results=32, completions=128, decided=8):
        self._sizes = results, completions, decided
        super().__init__(
            {
                "crowd": Out(1),
                "held": Out(1),
                "answers": In(stream.Signature(ANSWER)),
                "nops": In(stream.Signature(COMPLETION_ORDER)),
                "result_done": In(1),
                "resending": In(1),
                "loaded": In(1),
                "o": Out(stream.Signature(COMPLETION_ORDER)),
                "trace_result_written": Out(TRACE_SLOT),
            }
        )

    def elaborate(self, platform):
        m = Module()
        depth, places, decided = self._sizes
        m.submodules.results = results = ResultOrder(depth)
        m.submodules.barrier = barrier = ResendBarrier(places)
        connect_streams(m, flipped(self.answers), results.answers)
        connect_streams(m, flipped(self.nops), results.nops)
        connect_streams(m, results.orders, barrier.i)
        connect_streams(m, barrier.o, flipped(self.o))
        m.d.sync += self.crowd.eq(results.level + barrier.level > places - decided)
        m.d.comb += [
            self.held.eq(barrier.holds),
            results.crowd.eq(self.crowd),
            results.result_done.eq(self.result_done),
            barrier.resending.eq(self.resending),
            barrier.loaded.eq(self.loaded),
            self.trace_result_written.eq(results.trace_result_written),
        ]
        return m
