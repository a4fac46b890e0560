"""The receives that messages of several packets have met."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.request_records import GENERATION_BITS

__all__ = ["OPEN_RECEIVE", "OpenReceives"]

OPEN_RECEIVE = data.StructLayout(
    {
        "context": 8,  # whose receive it is
        "generation": GENERATION_BITS,  # of that context; its event entry is reserved for the end
        "user_context": 64,
        "address": 64,
        "size": 32,  # bytes of the message that fit
        "counter": 8,
        "source_ip": 32,  # of the message
        "source_context": 32,
        "source_pdc": 16,
        "target": 8,  # the context that it is for
    }
)
"""A receive that belongs to a message of several packets until that ends."""


class OpenReceives(wiring.Component):
    """One receive for each target PDC, while a message of that PDC is between its first and its last packet.

    Parameters
    ----------
    pdcs : int

    Members
    -------
    read, pdc : In
        Read the PDC's row.
    row : OPEN_RECEIVE, Out
        From the next cycle on, until the next ``read``: the row that was read. Means something if it is open.
    is_open : Out(1)
        The row that was read last is open.
    begin, receive : In
        Write the row that was read last, and open it.
    end : In(1)
        Close the row that was read last.
    open : Out, a bit per PDC
        The PDCs whose row is open.
    """

    def __init__(self, pdcs):
        self._pdcs = pdcs
        super().__init__(
            {
                "read": In(1),
                "pdc": In(range(pdcs)),
                "row": Out(OPEN_RECEIVE),
                "is_open": Out(1),
                "begin": In(1),
                "receive": In(OPEN_RECEIVE),
                "end": In(1),
                "open": Out(pdcs),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.rows = rows = memory.Memory(shape=OPEN_RECEIVE, depth=self._pdcs, init=[])
        write, read = rows.write_port(), rows.read_port()
        number = Signal(range(self._pdcs))
        m.d.comb += [
            read.en.eq(self.read),
            read.addr.eq(self.pdc),
            self.row.eq(read.data),
            self.is_open.eq(self.open.bit_select(number, 1)),
            write.en.eq(self.begin),
            write.addr.eq(number),
            write.data.eq(self.receive),
        ]
        with m.If(self.read):
            m.d.sync += number.eq(self.pdc)
        changes = Cat(number == each for each in range(self._pdcs))
        with m.If(self.begin):
            m.d.sync += self.open.eq(self.open | changes)
        with m.Elif(self.end):
            m.d.sync += self.open.eq(self.open & ~changes)
        return m
