"""The packet delivery contexts of initiators elsewhere, and the order of their packets."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.interfaces import FRAME_HEADER
from amoeba_hw.target.records import SEQUENCED_REQUEST

__all__ = ["PdcTable"]

_ENTRY = data.StructLayout({"ip": 32, "spdcid": 16, "expected": 32})


class PdcTable(wiring.Component):
    """Finds the PDC of each request and lets only the expected packet pass (section 4 of the architecture).

    PDCs are numbered in the order in which they are first opened; none is ever closed.

    Parameters
    ----------
    pdcs : int
        Size of the table, a power of two.

    Members
    -------
    requests : FRAME_HEADER stream
    sequenced : SEQUENCED_REQUEST stream
        All requests, in order; those that no PDC accepts with ``dropped``.
    count_dropped_pdc, count_dropped_sequence : Out(1)
        Pulse when such a request leaves.

    Two cycles per request; with SYN one more for each PDC in front of its own, or for all open ones if it is new.
    """

    def __init__(self, pdcs):
        self._pdcs = pdcs
        super().__init__(
            {
                "requests": In(stream.Signature(FRAME_HEADER)),
                "sequenced": Out(stream.Signature(SEQUENCED_REQUEST)),
                "count_dropped_pdc": Out(1),
                "count_dropped_sequence": Out(1),
            }
        )
        self._used = Signal(range(pdcs + 1))
        """Open PDCs; entries from here on mean nothing."""
        self._slot = Signal(16)
        self._looking = Signal()
        """The read port shows entry ``slot``."""

    def elaborate(self, platform):
        m = Module()
        m.submodules.entries = entries = memory.Memory(shape=_ENTRY, depth=self._pdcs, init=[])
        # A request is looked up after the one before it has been written.
        read, write = entries.read_port(), entries.write_port()
        header, slot = self.requests.p, self._slot
        matches = Signal()
        opens = Signal()
        new = Signal()
        searching = Signal()
        in_sequence = Signal()
        m.d.comb += [
            matches.eq(
                (slot < self._used) & (read.data.ip == header.ip) & (read.data.spdcid == header.spdcid)
            ),
            opens.eq(header.syn & (header.dpdcid == 0)),
            searching.eq(self._looking & header.syn & ~matches & (slot + Const(1, 16) < self._used)),
            new.eq(opens & ~matches & (self._used < self._pdcs)),
            in_sequence.eq(opens | (read.data.expected == header.psn)),
        ]
        self._elaborate_result(m, matches, new, in_sequence, searching)
        leaves = self.sequenced.valid & self.sequenced.ready
        m.d.comb += [
            self.requests.ready.eq(leaves),
            read.addr.eq(slot + 1),
            read.en.eq(searching),
            write.addr.eq(self.sequenced.p.pdc),
            write.data.ip.eq(header.ip),
            write.data.spdcid.eq(header.spdcid),
            write.data.expected.eq(header.psn + 1),
            write.en.eq(leaves & ~self.sequenced.p.dropped),
        ]
        with m.If(~self._looking):
            first = Mux(header.syn, 0, header.dpdcid)
            m.d.comb += [read.addr.eq(first), read.en.eq(1)]
            m.d.sync += [slot.eq(first), self._looking.eq(self.requests.valid)]
        with m.Elif(leaves):
            m.d.sync += self._looking.eq(0)
            with m.If(new):
                m.d.sync += self._used.eq(self._used + 1)
        with m.Elif(searching):
            m.d.sync += slot.eq(slot + 1)
        return m

    def _elaborate_result(self, m, matches, new, in_sequence, searching):
        result = self.sequenced
        has_pdc = matches | new
        leaves = result.valid & result.ready
        m.d.comb += [
            result.valid.eq(self._looking & ~searching),
            result.p.header.eq(self.requests.p),
            result.p.pdc.eq(Mux(matches, self._slot, self._used)),
            result.p.dropped.eq(~has_pdc | ~in_sequence),
            self.count_dropped_pdc.eq(leaves & ~has_pdc),
            self.count_dropped_sequence.eq(leaves & has_pdc & ~in_sequence),
        ]
