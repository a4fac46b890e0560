"""Knows of how many requests everything written is on its way to the host."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.parameters import NicParameters

from amoeba_hw.memory.operations import write_counter_bits
from amoeba_hw.stream import Queue

__all__ = ["DeliveryGate"]


class DeliveryGate(wiring.Component):
    """Lets the answer of a request pass when the write channel has accepted what the request wrote.

    A request that has ended waits for every line that was queued for writing until then: those of its own, and
    a few more, so that one number per request is enough.

    Parameters
    ----------
    parameters : NicParameters
    answers : int
        Requests that have ended and not been answered, at most.

    Members
    -------
    finished, finished_writes : in
        Pulse: a request has ended; all its lines have been counted in ``queued``. Whether it wrote any.
    queued, accepted : in
        Counters of WriteBack.
    open : out
        The next answer may leave.
    leaves : in, pulse
        It does; only while ``open``.
    """

    def __init__(self, parameters: NicParameters, answers: int):
        counter = write_counter_bits(parameters)
        self._answers = answers
        super().__init__(
            {
                "finished": In(1),
                "finished_writes": In(1),
                "queued": In(counter),
                "accepted": In(counter),
                "open": Out(1),
                "leaves": In(1),
            }
        )
        if answers >= 1 << (counter - 2):
            # A number may be looked at that much later than it became true.
            raise ValueError(f"Expected fewer than {1 << (counter - 2)} answers, got {answers}")

    def elaborate(self, platform):
        m = Module()
        shape = data.StructLayout({"number": len(self.queued), "writes": 1})
        m.submodules.ended = ended = Queue(shape, self._answers)
        ready = Signal(range(self._answers + 1))
        missing = Signal(len(self.queued))
        m.d.comb += [
            ended.i.valid.eq(self.finished),
            ended.i.p.number.eq(self.queued),
            ended.i.p.writes.eq(self.finished_writes),
            missing.eq(ended.o.p.number - self.accepted),
            # Not above zero, modulo the counters' range.
            ended.o.ready.eq(~ended.o.p.writes | missing[-1] | (missing == 0)),
            self.open.eq(ready != 0),
        ]
        m.d.sync += ready.eq(ready + (ended.o.valid & ended.o.ready) - self.leaves)
        return m
