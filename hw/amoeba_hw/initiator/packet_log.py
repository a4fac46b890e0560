"""Records of the packets not yet answered."""

from amaranth.hdl import Cat, Module
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.initiator.records import LOGGED_PACKET, NOTE

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
    write : in; write_peer, write_psn, write_entry, write_new, write_message_id : in
        Pulse: a packet goes out; ``write_new``: for the first time, so nothing is noted of its answer.
    note : in; note_peer, note_psn, note_status : in; note_granted : out
        Pulse: a packet was answered before an older one, which NOTE says. Only where it is granted.
    answer_read : in; answer_peer, answer_psn : in; entry, noted : out
        ``entry`` and NOTE are the packet's one cycle later, also if they were written meanwhile in an earlier cycle
        than the read. Undefined for a packet that is not unanswered.
    named_peer, named_psn : in; named_message_id : out
        That of the packet one cycle later, in any cycle.
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
                "write_new": In(1),
                "write_message_id": In(16),
                "note": In(1),
                "note_peer": In(range(peers)),
                "note_psn": In(32),
                "note_status": In(8),
                "note_granted": Out(1),
                "answer_read": In(1),
                "answer_peer": In(range(peers)),
                "answer_psn": In(32),
                "entry": Out(shape),
                "noted": Out(NOTE),
                "named_peer": In(range(peers)),
                "named_psn": In(32),
                "named_message_id": Out(16),
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
        self._elaborate_notes(m, read.addr)
        self._elaborate_message_ids(m)
        return m

    def _elaborate_message_ids(self, m):
        # Read for the packet that an answer names, while the oldest one's entry is read.
        m.submodules.message_ids = message_ids = memory.Memory(shape=16, depth=self._depth, init=[])
        write, read = message_ids.write_port(), message_ids.read_port()
        m.d.comb += [
            write.en.eq(self.write),
            write.addr.eq(self._place(self.write_peer, self.write_psn)),
            write.data.eq(self.write_message_id),
            read.addr.eq(self._place(self.named_peer, self.named_psn)),
            self.named_message_id.eq(read.data),
        ]

    def _elaborate_notes(self, m, address):
        # A memory of its own, written by others than the entries are.
        m.submodules.notes = notes = memory.Memory(shape=NOTE, depth=self._depth, init=[])
        write, read = notes.write_port(), notes.read_port()
        is_new = self.write & self.write_new
        m.d.comb += [
            read.addr.eq(address),
            self.noted.eq(read.data),
            self.note_granted.eq(~is_new),
            write.en.eq(is_new | self.note),
        ]
        with m.If(is_new):
            m.d.comb += write.addr.eq(self._place(self.write_peer, self.write_psn))
        with m.Else():
            m.d.comb += [
                write.addr.eq(self._place(self.note_peer, self.note_psn)),
                write.data.noted.eq(1),
                write.data.status.eq(self.note_status),
            ]

    def _place(self, peer, psn):
        return Cat(psn[: self._window_bits], peer)
