"""What is kept of the packets not yet answered."""

from amaranth.hdl import Cat, Module
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.initiator.records import LOGGED_PACKET

__all__ = ["PacketLog"]


class PacketLog(wiring.Component):
    """A memory of one LOGGED_PACKET per PDC and psn within the window, with one port to read and one to write.

    Parameters
    ----------
    peers, window : int
        Powers of two.
    shape : shape-like
        Of an entry.

    Members
    -------
    write : in; write_peer, write_psn, write_entry : in
        Pulse: a packet goes out.
    answer_read : in; answer_peer, answer_psn : in; entry : out
        ``entry`` is the packet's one cycle later, also if it was written meanwhile in an earlier cycle than the read.
        Undefined for a packet that is not unanswered.
    resend_peer, resend_psn : in; resend_granted : out
        Likewise in cycles without ``answer_read``.
    """

    def __init__(self, peers, window, shape=LOGGED_PACKET):
        self._shape = shape
        self._depth = peers * window
        self._window_bits = window.bit_length() - 1
        super().__init__(
            {
                "write": In(1),
                "write_peer": In(range(peers)),
                "write_psn": In(32),
                "write_entry": In(shape),
                "answer_read": In(1),
                "answer_peer": In(range(peers)),
                "answer_psn": In(32),
                "entry": Out(shape),
                "resend_peer": In(range(peers)),
                "resend_psn": In(32),
                "resend_granted": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.entries = entries = memory.Memory(shape=self._shape, depth=self._depth, init=[])
        # A packet is read after it has gone out; one that is noted again as it is read may be seen either way.
        write, read = entries.write_port(), entries.read_port()
        m.d.comb += [
            write.en.eq(self.write),
            write.addr.eq(self._place(self.write_peer, self.write_psn)),
            write.data.eq(self.write_entry),
            self.entry.eq(read.data),
            self.resend_granted.eq(~self.answer_read),
        ]
        with m.If(self.answer_read):
            m.d.comb += read.addr.eq(self._place(self.answer_peer, self.answer_psn))
        with m.Else():
            m.d.comb += read.addr.eq(self._place(self.resend_peer, self.resend_psn))
        return m

    def _place(self, peer, psn):
        return Cat(psn[: self._window_bits], peer)
