"""Table of the lines in flight, and of how long they have to stay."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.parameters import NicParameters

from amoeba_hw.memory.line_hash import LineHash
from amoeba_hw.memory.line_use import LineUse
from amoeba_hw.memory.operations import (
    context_bits,
    entries,
    line_access,
    line_address_bits,
    table_sets,
    table_ways,
)

__all__ = ["LineTable", "line_fetch"]


def line_fetch(parameters: NicParameters) -> data.StructLayout:
    """Return the layout of a line to be read into an entry; ``pdc`` and ``psn`` of its request are for the trace."""
    return data.StructLayout(
        {
            "line": 64 - line_address_bits(parameters),
            "context": context_bits(parameters),
            "entry": range(entries(parameters)),
            "pdc": 16,
        }
    )


class LineTable(wiring.Component):
    """Gives every operation the entry of its line: the one that holds it already, or a free one.

    An entry is in use while operations refer to it and while changes of it are to be written (LineUse): no line is
    ever in two entries in use, so all operations on a line meet in one place, and a line is read again only after
    it was written back. The first operation that needs a line's old bytes has the line fetched, whether it comes
    first or later.

    ::

        i --> number of the set --> tags of the set ---> matches in use? --> joins it, or takes a free way --> entry
                                    compared                                                         +--> fetch
              first stage                                second stage

    A line may be in any way of one set, and waits while all of them are in use. There are twice as many entries
    as lines on the way, and LineHash chooses the set: so lines that follow each other, or lie a power of two apart,
    fill all sets alike and do not wait; of random ones, many come before one does; and nobody knows which others
    would.

    An entry belongs to one context, in whose name its line is read and written. An operation of another one waits
    until it is out of use: so no access rides on what another context may reach.

    The first stage may see a stale table in one case, a set of which the second stage takes a way in this cycle;
    it looks at what is written there instead.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    i : stream of line_access
        Nothing is accepted in the first cycles after a reset, as many as there are sets.
    room : in
        Both ``entry`` and ``fetch`` will be taken in this cycle.
    entry, entry_valid : out
        Pulse: where the operation's line is; of one that touches none it means nothing. Latency one cycle, one
        operation per cycle, while entries are free. Never waits.
    fetch, fetch_valid : line_fetch, out
        Pulse, together with ``entry_valid``. Never waits.
    allocated, allocated_line, allocated_context : out
        Pulse, together with ``entry_valid``: ``entry`` begins to hold a line of a context.
    retired, retired_entry, retired_queues, written, written_entry : in
        As for LineUse.
    hit : out, pulse
        An operation found its line in flight.
    """

    def __init__(self, parameters: NicParameters):
        self._ways = table_ways(parameters)
        self._sets = table_sets(parameters)
        self._set_bits = (self._sets - 1).bit_length()
        entry = range(entries(parameters))
        line = 64 - line_address_bits(parameters)
        super().__init__(
            {
                "i": In(stream.Signature(line_access(parameters))),
                "space": In(1),
                "entry": Out(entry),
                "entry_valid": Out(1),
                "fetch": Out(line_fetch(parameters)),
                "fetch_valid": Out(1),
                "allocated": Out(1),
                "allocated_line": Out(line),
                "allocated_context": Out(context_bits(parameters)),
                "retired": In(1),
                "retired_entry": In(entry),
                "retired_queues": In(1),
                "written": In(1),
                "written_entry": In(entry),
                "hit": Out(1),
            }
        )
        # The operation in the second stage.
        self._present = Signal()
        self._access = Signal(line_access(parameters))
        self._set = Signal(range(self._sets))
        self._same_tag = Signal(self._ways)
        self._same_context = Signal(self._ways)
        self._taken = Signal(self._ways)
        self._taken_set_is_same, self._taken_tag_is_same = Signal(), Signal()
        self._taken_context_is_same = Signal()
        self._matches = Signal(self._ways)
        self._belongs = Signal(self._ways)
        self._was_fetched = Signal(self._ways)
        self._use = LineUse(parameters)
        self._began = Signal()
        """An operation has come since the reset: from then on lines stay in their sets."""

    def elaborate(self, platform):
        m = Module()
        m.submodules.use = use = self._use
        fire, joins, takes, way = Signal(), Signal(), Signal(), Signal(self._ways)
        m.d.comb += self.i.ready.eq(~use.clearing & (~self._present | fire))
        self._compare(m, takes, way)
        found, hit, fetched = self._decide(m, way)
        self._note_fetch(m, joins, way, fetched)

        access = self._access
        m.d.comb += [
            # All that is before the table stops if not.
            fire.eq(self._present & self.space & (found | ~access.touches)),
            joins.eq(fire & access.touches),
            takes.eq(joins & ~hit),
            self.entry.eq(Cat(self._set, _encode(way))),
            self.entry_valid.eq(fire),
            self.fetch.line.eq(access.line),
            self.fetch.context.eq(access.context),
            self.fetch.pdc.eq(access.pdc),
            self.fetch.entry.eq(self.entry),
            self.fetch_valid.eq(joins & access.fetches & ~fetched),
            self.allocated.eq(takes),
            self.allocated_line.eq(access.line),
            self.allocated_context.eq(access.context),
            self.hit.eq(joins & hit),
            use.looked_set.eq(self._set),
            use.moves.eq(self.i.ready),
            use.joined.eq(Mux(joins, way, 0)),
            use.retired.eq(self.retired),
            use.retired_entry.eq(self.retired_entry),
            use.retired_queues.eq(self.retired_queues),
            use.written.eq(self.written),
            use.written_entry.eq(self.written_entry),
        ]
        return m

    def _rows(self, m, name, shape):
        """Make a memory of a row per set, of which each way can be written alone."""
        layout = data.ArrayLayout(shape, self._ways)
        m.submodules[name] = rows = memory.Memory(shape=layout, depth=self._sets, init=[])
        return rows.read_port(domain="comb"), rows.write_port(granularity=1)

    def _compare(self, m, takes, way):
        """First stage."""
        line = self.i.p.line
        bits = self._set_bits
        number, tag, taken_tag = Signal(bits), Signal(len(line) - bits), Signal(len(line) - bits)
        m.submodules.hash = hashed = LineHash(len(line), bits)
        m.d.comb += hashed.hold.eq(self._began | (self.i.valid & ~self._use.clearing))
        m.d.sync += self._began.eq(hashed.hold)
        context, taken_context = self.i.p.context, self._access.context
        read, write = self._rows(m, "tags", data.StructLayout({"tag": len(tag), "context": len(context)}))
        overtaken = Signal(self._ways)
        m.d.comb += [
            hashed.line.eq(line),
            number.eq(hashed.set),
            # With the number of the set it says the lowest bits, too.
            tag.eq(line[bits:]),
            taken_tag.eq(self._access.line[bits:]),
            read.addr.eq(number),
            self._use.next_set.eq(number),
            write.addr.eq(self._set),
            write.en.eq(Mux(takes, way, 0)),
            *(write.data[index].tag.eq(taken_tag) for index in range(self._ways)),
            *(write.data[index].context.eq(taken_context) for index in range(self._ways)),
            # The way taken in this cycle is known late in it, and taken into account in the second stage.
            overtaken.eq(Mux(self._taken_set_is_same, self._taken, 0)),
            self._matches.eq((self._same_tag & ~overtaken) | Mux(self._taken_tag_is_same, overtaken, 0)),
            self._belongs.eq((self._same_context & ~overtaken) | Mux(self._taken_context_is_same, overtaken, 0)),
        ]
        same = Cat(read.data[index].tag == tag for index in range(self._ways))
        same_context = Cat(read.data[index].context == context for index in range(self._ways))
        with m.If(self.i.ready):
            m.d.sync += [
                self._present.eq(self.i.valid),
                self._access.eq(self.i.p),
                self._set.eq(number),
                self._same_tag.eq(same),
                self._same_context.eq(same_context),
                self._taken.eq(write.en),
                self._taken_set_is_same.eq(number == self._set),
                self._taken_tag_is_same.eq(taken_tag == tag),
                self._taken_context_is_same.eq(taken_context == context),
            ]

    def _decide(self, m, way):
        """Second stage: the way for the operation, none if all are in use, or the line is another context's.

        Returns whether there is one, whether it holds the line, and whether the line was fetched already. As long as
        the operation waits for ``space``, entries go out of use, and each cycle decides anew.
        """
        found, hit, fetched = Signal(), Signal(), Signal()
        joinable, free = Signal(self._ways), Signal(self._ways)
        others = self._matches & ~self._belongs
        m.d.comb += [
            joinable.eq(self._matches & self._use.in_use),
            free.eq(~self._use.in_use),
            # Entries in use are known late: one that matches is joined or free, so it need not be asked here.
            found.eq(((self._matches & self._belongs) | free).any() & ~(others & self._use.in_use).any()),
            hit.eq(joinable.any()),
            way.eq(Mux(hit, joinable, free & -free)),
            fetched.eq((joinable & self._was_fetched).any()),
        ]
        return found, hit, fetched

    def _note_fetch(self, m, joins, way, fetched):
        """Keep account of the lines that were fetched."""
        read, write = self._rows(m, "fetched", 1)
        m.d.comb += [read.addr.eq(self._set), write.addr.eq(self._set), write.en.eq(Mux(joins, way, 0))]
        m.d.comb += self._was_fetched.eq(read.data.as_value())
        m.d.comb += [write.data[index].eq(fetched | self._access.fetches) for index in range(self._ways)]


def _encode(bits):
    """Index of the one bit that is set; the indices of several are or-ed."""
    return Cat(
        Cat(bit for position, bit in enumerate(bits) if position >> digit & 1).any()
        for digit in range((len(bits) - 1).bit_length())
    )
