"""Past connection epochs of PDCs."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2
from amoeba_model.nic.incarnations import REMEMBERED

from amoeba_hw.request_records import CHECK_REPORT

__all__ = ["OPENING", "Incarnations"]

OPENING = data.StructLayout({"ip": 32, "spdcid": 16, "start": 32})


class Incarnations(wiring.Component):
    """Remembers connection epochs, the last one for each value of a hash.

    Parameters
    ----------
    pdcs : int
        A power of two; REMEMBERED times as many connection epochs have a place.

    Members
    -------
    look : In(1)
        Pulse: look for the ``opening``.
    opening : OPENING, In
    known : Out(1)
        From the next cycle on, until the next ``look``: it is remembered. The ``opening`` has to stay.
    checked : CHECK_REPORT, In
        Only what a request has passed the checks of is remembered.
    opens, pdc : In
        Pulse: this PDC is opened, and all requests of its ``former`` opening, if there was one, have been checked.
        That is found from two cycles later on.
    former : OPENING, In
    """

    def __init__(self, pdcs):
        self._size = REMEMBERED * pdcs
        super().__init__(
            {
                "look": In(1),
                "opening": In(OPENING),
                "known": Out(1),
                "checked": In(CHECK_REPORT),
                "opens": In(1),
                "pdc": In(range(pdcs)),
                "former": In(OPENING),
            }
        )
        self._proven = Signal(pdcs)
        """PDCs of which a request has passed the checks since they were opened."""
        self._taken = Signal(self._size)
        """Places that have one: a reset empties all."""

    def elaborate(self, platform):
        m = Module()
        m.submodules.places = places = memory.Memory(shape=OPENING, depth=self._size, init=[])
        read, write = places.read_port(), places.write_port()
        place, taken, remembers = self._place(self.opening), Signal(), Signal()
        report = self.checked
        m.d.comb += [
            read.addr.eq(place),
            read.en.eq(self.look),
            write.addr.eq(self._place(self.former)),
            write.data.eq(self.former),
            remembers.eq(self.opens & self._proven.bit_select(self.pdc, 1)),
            write.en.eq(remembers),
            self.known.eq(taken & (read.data == self.opening)),
        ]
        with m.If(self.look):
            m.d.sync += taken.eq(self._taken.bit_select(place, 1))
        with m.If(remembers):
            m.d.sync += self._taken.bit_select(write.addr, 1).eq(1)
        for number, proven in enumerate(self._proven):
            with m.If(self.opens & (self.pdc == number)):
                m.d.sync += proven.eq(0)
            with m.Elif(report.valid & report.passed & (report.pdc == number)):
                m.d.sync += proven.eq(1)
        return m

    def _place(self, opening):
        ip, start = opening.ip, opening.start
        folded = ip[:16] ^ ip[16:] ^ opening.spdcid ^ start[:16] ^ start[16:]
        return (folded ^ (folded >> 8))[: exact_log2(self._size)]
