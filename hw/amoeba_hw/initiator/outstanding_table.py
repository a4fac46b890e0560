"""What the packets not yet answered are for."""

from amaranth.hdl import Cat, Module
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.initiator.records import OUTSTANDING

__all__ = ["OutstandingTable"]


class OutstandingTable(wiring.Component):
    """A memory of one OUTSTANDING per PDC and psn within the window.

    Parameters
    ----------
    peers, window : int
        Powers of two.

    Members
    -------
    write : in; write_peer, write_psn, write_entry : in
        Pulse: a packet goes out.
    read_peer, read_psn : in; read_entry : out
        One cycle later. Undefined for a packet that is not unanswered.
    """

    def __init__(self, peers, window):
        self._depth = peers * window
        self._window_bits = window.bit_length() - 1
        super().__init__(
            {
                "write": In(1),
                "write_peer": In(range(peers)),
                "write_psn": In(32),
                "write_entry": In(OUTSTANDING),
                "read_peer": In(range(peers)),
                "read_psn": In(32),
                "read_entry": Out(OUTSTANDING),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.entries = entries = memory.Memory(shape=OUTSTANDING, depth=self._depth, init=[])
        write, read = entries.write_port(), entries.read_port()
        m.d.comb += [
            write.en.eq(self.write),
            write.addr.eq(Cat(self.write_psn[: self._window_bits], self.write_peer)),
            write.data.eq(self.write_entry),
            read.addr.eq(Cat(self.read_psn[: self._window_bits], self.read_peer)),
            self.read_entry.eq(read.data),
        ]
        return m
