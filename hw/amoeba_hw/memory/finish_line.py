"""Tells in which cycle a request has ended, in the order of requests."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.memory.operations import thermometer

__all__ = ["FinishLine"]


class FinishLine(wiring.Component):
    """Lets requests end when their operations have, but none before the one before it and no two at once.

    Parameters
    ----------
    least : int
        Cycles from the issue of a request's last operation to the request's end, at least; 2 or more.
    most_extra : int
        Maximum of ``extra``.

    Members
    -------
    start : in, pulse
        A request's last operation is issued.
    writes : in
        Of this request.
    extra : in
        Cycles that the operation takes on top of ``least``.
    finished, finished_writes : out
        Pulse, for one request after the other.
    """

    def __init__(self, least: int, most_extra: int):
        # A cycle after the start.
        self._least = least - 1
        self._most = least - 1 + most_extra
        super().__init__(
            {
                "start": In(1),
                "writes": In(1),
                "extra": In(range(most_extra + 1)),
                "finished": Out(1),
                "finished_writes": Out(1),
            }
        )
        # Bit n: a request ends in n cycles; and writes.
        self._ends = Signal(self._most)
        self._ends_writes = Signal(self._most)
        # As many ones as cycles until the next request may end, from the lowest bit.
        self._earliest = Signal(self._most)

    def elaborate(self, platform):
        m = Module()
        starts, writes = Signal(), Signal()
        own, distance, place = Signal(self._most), Signal(self._most), Signal(self._most)
        m.d.sync += [
            starts.eq(self.start),
            writes.eq(self.writes),
            own.eq(thermometer(m, "extra_ones", self.extra, self._most) << self._least | ((1 << self._least) - 1)),
        ]
        m.d.comb += [
            # Of two numbers written as ones, the greater one is both together, and its last one is the place.
            distance.eq(self._earliest | own),
            place.eq(Mux(starts, distance & ~(distance >> 1), 0)),
            self.finished.eq(self._ends[0]),
            self.finished_writes.eq(self._ends_writes[0]),
        ]
        m.d.sync += [
            self._ends.eq((self._ends >> 1) | place),
            self._ends_writes.eq((self._ends_writes >> 1) | Mux(writes, place, 0)),
        ]
        m.d.sync += self._earliest.eq(Mux(starts, distance, self._earliest >> 1))
        return m
