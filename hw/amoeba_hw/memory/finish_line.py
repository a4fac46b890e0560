"""Tells in which cycle a request has ended, in the order of requests."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["FinishLine"]


class FinishLine(wiring.Component):
    """Lets requests end when their operations have, but none before the one before it and no two at once.

    Parameters
    ----------
    least : int
        Cycles from the issue of a request's last operation to the request's end, at least.
    most_extra : int
        What ``extra`` can be.

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
        self._least = least
        self._most = least + most_extra
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
        self._earliest = Signal(range(self._most + 1))

    def elaborate(self, platform):
        m = Module()
        own = Signal(range(self._most + 1))
        distance = Signal(range(self._most + 1))
        place = Signal(self._most)
        m.d.comb += [
            own.eq(self._least + self.extra),
            distance.eq(Mux(self._earliest > own, self._earliest, own)),
            place.eq(Mux(self.start, Const(1, self._most) << (distance - 1)[: len(distance)], 0)),
            self.finished.eq(self._ends[0]),
            self.finished_writes.eq(self._ends_writes[0]),
        ]
        m.d.sync += [
            self._ends.eq((self._ends >> 1) | place),
            self._ends_writes.eq((self._ends_writes >> 1) | Mux(self.writes, place, 0)),
        ]
        with m.If(self.start):
            m.d.sync += self._earliest.eq(distance)
        with m.Elif(self._earliest != 0):
            m.d.sync += self._earliest.eq(self._earliest - 1)
        return m
