# amaranth: UnusedElaboratable=no
"""The memory engine's line table: which entry a line is in, whether it is in use, and what is known of it."""

from unittest import mock

from amaranth.hdl import Assert, Assume, Cat, Cover, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from amoeba_hw.memory.entry_records import EntryRecords
from amoeba_hw.memory.line_table import LineTable
from amoeba_hw.memory.line_use import LineUse
from amoeba_hw.memory.operations import LINES_UNORDERED

from tests.formal.memory import BITS, SMALL
from tests.formal.rules import StreamRules, never_reset

__all__ = ["EntryRecordsSpec", "LineTableSpec", "LineUseSpec"]


class EntryRecordsSpec(wiring.Component):
    """EntryRecords: an entry's record is what was written last, zero if it was forgotten since."""

    def __init__(self):
        super().__init__(
            {
                "forget": In(1),
                "forget_entry": In(1),
                "write": In(1),
                "write_entry": In(1),
                "write_data": In(BITS),
                "asked": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.dut = dut = EntryRecords(BITS, depth=2, readers=1)
        m.d.comb += [
            dut.forget.eq(self.forget),
            dut.forget_entry.eq(self.forget_entry),
            dut.write.eq(self.write),
            dut.write_entry.eq(self.write_entry),
            dut.write_data.eq(self.write_data),
            dut.asked[0].eq(self.asked),
        ]
        for entry in range(2):
            record, known = Signal(BITS, name=f"record_{entry}"), Signal(name=f"known_{entry}")
            with m.If(self.forget & (self.forget_entry == entry)):
                m.d.sync += [record.eq(0), known.eq(1)]
            with m.If(self.write & (self.write_entry == entry)):
                m.d.sync += record.eq(self.write_data)
            looked_at = known & (self.asked == entry)
            m.d.comb += [
                Assert(~looked_at | (dut.records[0] == record)),
                Cover(looked_at & (record == 3) & self.forget & self.write & (self.forget_entry == self.write_entry)),
            ]
        return m


class LineUseSpec(wiring.Component):
    """LineUse: an entry is in use while operations refer to it or what it was queued for is not written."""

    def __init__(self):
        super().__init__(
            {
                "moves": In(1),
                "next_set": In(1),
                "joined": In(2),
                "retired": In(1),
                "retired_entry": In(2),
                "retired_queues": In(1),
                "written": In(1),
                "written_entry": In(2),
            }
        )

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        # As many operations as two bits count, so that the numbers begin anew.
        with mock.patch("amoeba_hw.memory.line_use.operations_in_flight", return_value=3):
            m.submodules.dut = dut = LineUse(SMALL)
        looked_set = Signal()
        with m.If(self.moves):
            m.d.sync += looked_set.eq(self.next_set)
        m.d.comb += [
            dut.looked_set.eq(looked_set),
            dut.moves.eq(self.moves),
            dut.next_set.eq(self.next_set),
            dut.joined.eq(self.joined),
            dut.retired.eq(self.retired),
            dut.retired_entry.eq(self.retired_entry),
            dut.retired_queues.eq(self.retired & self.retired_queues),
            dut.written.eq(self.written),
            dut.written_entry.eq(self.written_entry),
            Assume((~dut.clearing & self.moves) | (self.joined == 0)),
            # No operation refers to two entries.
            Assume(~self.joined.all()),
        ]
        for entry in range(4):
            references, unwritten = Signal(2, name=f"uses_{entry}"), Signal(3, name=f"unwritten_{entry}")
            in_use = Signal(name=f"in_use_{entry}")
            looked_at = looked_set == entry % 2
            joins = self.joined[entry // 2] & looked_at
            retires = self.retired & (self.retired_entry == entry)
            queues = retires & self.retired_queues
            written = self.written & (self.written_entry == entry)
            m.d.sync += [
                references.eq(references + joins - retires),
                unwritten.eq(unwritten + queues - written),
                in_use.eq(joins | (references != 0) | (unwritten != 0)),
            ]
            m.d.comb += [
                # What retires was given, what was queued is written.
                Assume(~retires | (references != 0)),
                Assume((references != 3) | ~joins),
                Assume(~written | (unwritten != 0)),
                Assume((unwritten != LINES_UNORDERED + 1) | ~queues),
                Assert(~looked_at | (dut.in_use[entry // 2] == in_use)),
                Cover((references == 0) & (unwritten == 2)),
            ]
        return m


class _NaiveUse(wiring.Component):
    """Stands in for LineUse: an entry is in use from when an operation joins until its use is said to end."""

    def __init__(self, parameters):
        super().__init__(LineUse(parameters).signature)

    def elaborate(self, platform):
        m = Module()
        for entry in range(4):
            way, looked_at = entry // 2, self.looked_set == entry % 2
            in_use, joins = Signal(name=f"in_use_{entry}"), looked_at & self.joined[entry // 2]
            ends = self.retired & (self.retired_entry == entry)
            m.d.sync += in_use.eq(joins | (in_use & ~ends))
            with m.If(Mux(self.moves, self.next_set, self.looked_set) == entry % 2):
                m.d.sync += self.in_use[way].eq(joins | in_use)
        return m


class LineTableSpec(wiring.Component):
    """LineTable: a line is in one entry at most, no operation is lost or overtaken, no entry leaves too early.

    - Operations leave in the order in which they came, each once and only when there is space, with the entry that
      holds their line.
    - An entry takes a new line only when it is not in use, and only if the line is in no other entry in use.
    - An operation joins only an entry that was in use when it came or since: no other has the line's newest bytes.
    - An entry is joined by operations of its own context alone, in whose name its line is read and written.
    - A line is fetched exactly once per allocation, by the first operation that needs it.
    - Nobody waits for ever: with nothing in use and all taken, an operation leaves within four cycles.

    An entry's use ends at any time: how long it lasts is LineUse's affair, and its proof's.
    """

    def __init__(self):
        super().__init__(
            {
                "valid": In(1),
                "which": In(2),
                "context": In(1),
                "touches": In(1),
                "wants": In(1),
                "tag": In(1),
                "space": In(1),
                "ends": In(1),
                "ended_entry": In(2),
            }
        )

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        with mock.patch("amoeba_hw.memory.line_table.LineUse", _NaiveUse):
            dut = LineTable(SMALL)
        m.submodules.dut = dut
        # Lines 0, 3 and 5 belong to one set, 1 to the other.
        some, other = self.which
        m.d.comb += [
            dut.i.valid.eq(self.valid),
            dut.i.p.line.eq(Cat(some | other, some & ~other, other & ~some)),
            dut.i.p.context.eq(self.context),
            dut.i.p.touches.eq(self.touches),
            dut.i.p.fetches.eq(self.wants & self.touches),
            dut.i.p.pdc.eq(self.tag),
            dut.space.eq(self.space),
            dut.retired.eq(self.ends),
            dut.retired_entry.eq(self.ended_entry),
        ]
        m.submodules.environment = StreamRules(dut.i, Assume)
        waiting = self._prove_order(m, dut)
        self._prove_entries(m, dut, waiting)
        return m

    def _prove_order(self, m, dut):
        """One operation waits inside at most; returns when one arrives, and the one inside, if there is one."""
        inside = Signal()
        line, context, touches, wants, tag = Signal(3), Signal(), Signal(), Signal(), Signal()
        arrives, departs = dut.i.valid & dut.i.ready, dut.entry_valid
        m.d.sync += inside.eq((inside & ~departs) | arrives)
        with m.If(arrives):
            m.d.sync += [line.eq(dut.i.p.line), context.eq(self.context), touches.eq(self.touches)]
            m.d.sync += [wants.eq(self.wants), tag.eq(self.tag)]
        m.d.comb += [
            Assert(~departs | (inside & self.space)),
            Assert(~dut.fetch_valid | (departs & wants & (dut.fetch.pdc == tag))),
        ]
        m.d.comb += [Assert(~arrives | ~inside | departs), Assert(dut.i.ready | inside)]
        return arrives, inside, line, context, touches, touches & wants

    def _prove_entries(self, m, dut, waiting):
        arrives, inside, line, context, touches, wants = waiting
        departs, fetched_now = dut.entry_valid, dut.fetch_valid
        m.d.comb += [
            Assert(~fetched_now | ((dut.fetch.line == line) & (dut.fetch.entry == dut.entry))),
            Assert(~fetched_now | (dut.fetch.context == context)),
            Assert(~dut.allocated | (departs & touches & (dut.allocated_line == line))),
            Assert(~dut.allocated | (dut.allocated_context == context)),
            Assert(dut.hit == (departs & touches & ~dut.allocated)),
        ]
        in_use, kept_apart = Signal(4), Signal(4)
        for entry in range(4):
            holds, fetched = Signal(name=f"holds_{entry}"), Signal(name=f"is_fetched_{entry}")
            its_line = Signal(3, name=f"its_line_{entry}")
            its_context = Signal(name=f"its_context_{entry}")
            m.d.comb += kept_apart[entry].eq(in_use[entry] & (its_line == line) & (its_context != context))
            was_in_use = Signal(name=f"was_in_use_{entry}")
            mine = departs & touches & (dut.entry == entry)
            ends = self.ends & (self.ended_entry == entry)
            m.d.sync += [
                in_use[entry].eq(mine | (in_use[entry] & ~ends)),
                was_in_use.eq(in_use[entry] | (was_in_use & ~arrives)),
            ]
            m.d.comb += Assert(~(dut.allocated & in_use[entry] & (its_line == line)))
            with m.If(mine & dut.allocated):
                m.d.comb += [Assert(~in_use[entry]), Assert(fetched_now == wants)]
                m.d.sync += [holds.eq(1), its_line.eq(line), its_context.eq(context), fetched.eq(wants)]
            with m.Elif(mine):
                m.d.comb += [
                    Assert(holds & (its_line == line) & (its_context == context)),
                    Assert(was_in_use | in_use[entry]),
                    Assert(fetched_now == (wants & ~fetched)),
                ]
                m.d.sync += fetched.eq(fetched | wants)
        patience = Signal(3)
        quiet = self.space & ~in_use.any()
        m.d.sync += patience.eq(Mux(inside & quiet & ~departs, patience + 1, 0))
        m.d.comb += [
            Assert(patience < 4),
            Cover(dut.hit & fetched_now),
            Cover(dut.allocated & (dut.entry == 2)),
            # There is space, but the line is another context's.
            Cover(inside & touches & ~departs & self.space & kept_apart.any()),
            # A set that is full, and another that is not.
            Cover(inside & touches & ~departs & self.space & ~in_use.all()),
        ]
