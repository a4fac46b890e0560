"""Which lines are in flight, and for how long they have to stay."""

from functools import reduce
from operator import xor

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.parameters import NicParameters

from amoeba_hw.memory.line_use import LineUse
from amoeba_hw.memory.operations import (
    entries,
    line_address_bits,
    line_operation,
    queued_operation,
    table_sets,
    table_ways,
)

__all__ = ["LineTable", "line_fetch"]

_FOLDED = 4
"""Parts of a line's number, from the lowest bit, that make up the number of its set."""


def line_fetch(parameters: NicParameters) -> data.StructLayout:
    """A line to be read from the host into an entry; ``pdc`` and ``psn`` of who asked are for the trace."""
    return data.StructLayout(
        {
            "line": 64 - line_address_bits(parameters),
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

        i --> number of the set --> tags of the set ---> matches in use? --> joins it, or takes a free way --> o
                                    compared                                                         +--> fetches
              first stage                                second stage

    A line may be in any way of one set, and waits while all of them are in use. There are twice as many entries
    as lines on the way, and upper bits of a line's number are folded into that of its set: so lines that follow
    each other, or lie a power of two apart, fill all sets alike and do not wait; of random ones, many come before
    one does.

    The first stage may see a stale table in one case, a set of which the second stage takes a way in this cycle;
    it looks at what is written there instead.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    i : stream of line_operation
        Nothing is accepted in the first cycles after a reset, as many as there are sets.
    o : stream of queued_operation
        Latency one cycle, one operation per cycle, while entries are free.
    fetches : stream of line_fetch
        Moves together with ``o``.
    allocated, allocated_entry, allocated_line : out
        Pulse: an entry begins to hold a line.
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
                "i": In(stream.Signature(line_operation(parameters))),
                "o": Out(stream.Signature(queued_operation(parameters))),
                "fetches": Out(stream.Signature(line_fetch(parameters))),
                "allocated": Out(1),
                "allocated_entry": Out(entry),
                "allocated_line": Out(line),
                "retired": In(1),
                "retired_entry": In(entry),
                "retired_queues": In(1),
                "written": In(1),
                "written_entry": In(entry),
                "hit": Out(1),
            }
        )
        # What is in the second stage.
        self._present = Signal()
        self._operation = Signal(line_operation(parameters))
        self._set = Signal(range(self._sets))
        self._same_tag = Signal(self._ways)
        self._taken = Signal(self._ways)
        self._taken_set_is_same, self._taken_tag_is_same = Signal(), Signal()
        self._matches = Signal(self._ways)
        self._was_fetched = Signal(self._ways)
        self._use = LineUse(parameters)

    def elaborate(self, platform):
        m = Module()
        m.submodules.use = use = self._use
        fire, takes, way = Signal(), Signal(), Signal(self._ways)
        m.d.comb += self.i.ready.eq(~use.clearing & (~self._present | fire))
        self._compare(m, takes, way)
        possible, needs_fetch = Signal(), Signal()
        found, hit, fetched, waits = self._decide(m, possible & ~fire, way)
        self._note_fetch(m, fire & self._operation.touches, way, fetched)

        operation = self._operation
        m.d.comb += [
            possible.eq(self._present & (found | ~operation.touches)),
            needs_fetch.eq(operation.fetches & ~fetched),
            self.o.valid.eq(possible & (~needs_fetch | self.fetches.ready)),
            self.fetches.valid.eq(possible & needs_fetch & self.o.ready),
            # As ``o`` transfers; all that is before the table stops with it.
            fire.eq(self._present & self.o.ready & ~(operation.touches & waits)),
            takes.eq(fire & operation.touches & ~hit),
            self.o.p.entry.eq(Cat(self._set, _encode(way))),
            *(self.o.p[name].eq(operation[name]) for name, _ in self.o.p.shape() if name != "entry"),
            self.fetches.p.line.eq(operation.line),
            self.fetches.p.pdc.eq(operation.pdc),
            self.fetches.p.entry.eq(self.o.p.entry),
            self.allocated.eq(takes),
            self.allocated_entry.eq(self.o.p.entry),
            self.allocated_line.eq(operation.line),
            self.hit.eq(fire & operation.touches & hit),
            use.looked_set.eq(self._set),
            use.moves.eq(self.i.ready),
            use.joined.eq(Mux(fire & operation.touches, way, 0)),
            use.retired.eq(self.retired),
            use.retired_entry.eq(self.retired_entry),
            use.retired_queues.eq(self.retired_queues),
            use.written.eq(self.written),
            use.written_entry.eq(self.written_entry),
        ]
        return m

    def _rows(self, m, name, shape):
        """A memory of a row per set, of which each way can be written alone."""
        layout = data.ArrayLayout(shape, self._ways)
        m.submodules[name] = rows = memory.Memory(shape=layout, depth=self._sets, init=[])
        return rows.read_port(domain="comb"), rows.write_port(granularity=1)

    def _compare(self, m, takes, way):
        """First stage."""
        line = self.i.p.line
        bits = self._set_bits
        number, tag, taken_tag = Signal(bits), Signal(len(line) - bits), Signal(len(line) - bits)
        read, write = self._rows(m, "tags", len(tag))
        overtaken = Signal(self._ways)
        m.d.comb += [
            number.eq(reduce(xor, (line[bits * part : bits * (part + 1)] for part in range(_FOLDED)))),
            # With the number of the set it says the lowest part, too.
            tag.eq(line[bits:]),
            taken_tag.eq(self._operation.line[bits:]),
            read.addr.eq(number),
            self._use.next_set.eq(number),
            write.addr.eq(self._set),
            write.en.eq(Mux(takes, way, 0)),
            *(write.data[index].eq(taken_tag) for index in range(self._ways)),
            # What is taken in this cycle is known late in it, and taken into account in the second stage.
            overtaken.eq(Mux(self._taken_set_is_same, self._taken, 0)),
            self._matches.eq((self._same_tag & ~overtaken) | Mux(self._taken_tag_is_same, overtaken, 0)),
        ]
        same = Cat(read.data[index] == tag for index in range(self._ways))
        with m.If(self.i.ready):
            m.d.sync += [
                self._present.eq(self.i.valid),
                self._operation.eq(self.i.p),
                self._set.eq(number),
                self._same_tag.eq(same),
                self._taken.eq(write.en),
                self._taken_set_is_same.eq(number == self._set),
                self._taken_tag_is_same.eq(taken_tag == tag),
            ]

    def _decide(self, m, stays, way):
        """Second stage: the way for the operation, none if all are in use.

        Returns whether there is one, whether it holds the line, whether the line was fetched already, and whether an
        operation on a line has to wait for a way or for ``fetches``. The last is put together of what is known sooner
        than the others: entries in use are known late.
        """
        decided, decided_hit, decided_fetched = Signal(), Signal(), Signal()
        decided_way = Signal(self._ways)
        found, hit, fetched, waits = Signal(), Signal(), Signal(), Signal()
        no_fetch = self._operation.fetches & ~self.fetches.ready
        joinable, free = Signal(self._ways), Signal(self._ways)
        m.d.comb += [joinable.eq(self._matches & self._use.in_use), free.eq(~self._use.in_use)]
        with m.If(decided):
            # On offer already. What became free meanwhile is still nobody else's.
            m.d.comb += [found.eq(1), way.eq(decided_way), hit.eq(decided_hit), fetched.eq(decided_fetched)]
            m.d.comb += waits.eq(no_fetch & ~decided_fetched)
        with m.Else():
            m.d.comb += [
                found.eq(joinable.any() | free.any()),
                way.eq(Mux(hit, joinable, free & -free)),
                hit.eq(joinable.any()),
                fetched.eq((joinable & self._was_fetched).any()),
                waits.eq(~Mux(no_fetch, (joinable & self._was_fetched).any(), (self._matches | free).any())),
            ]
        m.d.sync += [
            decided.eq(stays),
            decided_way.eq(way),
            decided_hit.eq(hit),
            decided_fetched.eq(fetched),
        ]
        return found, hit, fetched, waits

    def _note_fetch(self, m, joins, way, fetched):
        """Keeps account of the lines that were fetched."""
        read, write = self._rows(m, "fetched", 1)
        m.d.comb += [read.addr.eq(self._set), write.addr.eq(self._set), write.en.eq(Mux(joins, way, 0))]
        m.d.comb += self._was_fetched.eq(read.data.as_value())
        m.d.comb += [write.data[index].eq(fetched | self._operation.fetches) for index in range(self._ways)]


def _encode(bits):
    """Index of the one bit that is set; the indices of several are or-ed."""
    return Cat(
        Cat(bit for position, bit in enumerate(bits) if position >> digit & 1).any()
        for digit in range((len(bits) - 1).bit_length())
    )
