"""Past connection epochs of PDCs."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2
from amoeba_model.nic.connection_epochs import REMEMBERED

from amoeba_hw.request_records import CHECK_REPORT

__all__ = ["EPOCH_ID", "ConnectionEpochs"]

EPOCH_ID = data.StructLayout({"ip": 32, "spdcid": 16, "start": 32})


class ConnectionEpochs(wiring.Component):
    """Remembers connection epochs, the last one for each value of a hash.

    Parameters
    ----------
    pdcs : int
        A power of two; REMEMBERED times as many connection epochs have a place.

    Members
    -------
    look : In(1)
        Pulse: look for the ``epoch_id``.
    epoch_id : EPOCH_ID, In
    known : Out(1)
        From the next cycle on, until the next ``look``: it is remembered. The ``epoch_id`` has to stay.
    checked : CHECK_REPORT, In
        Only what a request has passed the checks of is remembered.
    opens, pdc : In
        Pulse: this PDC is opened, and all requests of its ``former`` opening, if there was one, have been checked.
        That is found from two cycles later on.
    former : EPOCH_ID, In
    """

    def __init__(self, pdcs):
        self._size = REMEMBERED * pdcs
        super().__init__(
            {
                "look": In(1),
                "epoch_id": In(EPOCH_ID),
                "known": Out(1),
                "checked": In(CHECK_REPORT),
                "opens": In(1),
                "pdc": In(range(pdcs)),
                "former": In(EPOCH_ID),
            }
        )
        self._proven = Signal(pdcs)
        """PDCs of which a request has passed the checks since they were opened."""
        self._taken = Signal(self._size)
        """Places that have one: a reset empties all."""

    def elaborate(self, platform):
        m = Module()
        m.submodules.places = places = memory.Memory(shape=EPOCH_ID, depth=self._size, init=[])
        read, write = places.read_port(), places.write_port()
        place, taken, remembers = self._place(self.epoch_id), Signal(), Signal()
        report = self.checked
        m.d.comb += [
            read.addr.eq(place),
            read.en.eq(self.look),
            write.addr.eq(self._place(self.former)),
            write.data.eq(self.former),
            remembers.eq(self.opens & self._proven.bit_select(self.pdc, 1)),
            write.en.eq(remembers),
            self.known.eq(taken & (read.data == self.epoch_id)),
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

    def _place(self, epoch_id):
        ip, start = epoch_id.ip, epoch_id.start
        folded = ip[:16] ^ ip[16:] ^ epoch_id.spdcid ^ start[:16] ^ start[16:]
        return (folded ^ (folded >> 8))[: exact_log2(self._size)]
