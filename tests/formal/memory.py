# amaranth: UnusedElaboratable=no
"""The memory engine's hazards on the bytes of lines: forwarding, storing, and what is written back."""

from itertools import pairwise
from unittest import mock

from amaranth.hdl import Assert, Assume, Cat, Const, Cover, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amoeba_hw.memory.arithmetic import Arithmetic
from amoeba_hw.memory.executor import Executor
from amoeba_hw.memory.line_store import LineStore
from amoeba_hw.memory.operations import LINES_UNORDERED
from amoeba_hw.memory.write_back import WriteBack
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters

from tests.formal.rules import StreamRules, never_reset
from tests.formal.write_order import FreeDelay

__all__ = ["BITS", "SMALL", "ForwardingSpec", "LineStoreSpec", "WriteBackSpec"]

SMALL = NicParameters(data_width=128, lines=2, datatypes=(Datatype.FI_UINT8,), ops=(Op.FI_SUM,))
"""Four entries, two sets of two: enough for every conflict between one line or set and another."""

BITS = 2
"""Low bits of the data that are free; the others are zero, for the hardware treats all alike."""


def _data(value):
    return Cat(value, Const(0, SMALL.data_width - len(value)))


class LineStoreSpec(wiring.Component):
    """LineStore returns the newest value of a byte, and for the host what was written since the last copy.

    A read does so one cycle later, with this cycle's commit; a copy without it. ``dirtied`` tells every time that a
    line is clean no more.
    """

    def __init__(self):
        super().__init__(
            {
                "allocated": In(1),
                "fill": In(1),
                "fill_data": In(BITS),
                "commit": In(1),
                "commit_entry": In(1),
                "commit_data": In(BITS),
                "strobe": In(2),
                "read": In(1),
                "read_entry": In(1),
                "copy": In(1),
                "allocated_entry": In(1),
                "fill_entry": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.dut = dut = LineStore(SMALL)
        m.d.comb += [
            dut.allocated.eq(self.allocated),
            dut.allocated_entry.eq(self.allocated_entry),
            dut.fill.eq(self.fill),
            dut.fill_entry.eq(self.fill_entry),
            dut.fill_data.eq(_data(self.fill_data)),
            dut.commit.valid.eq(self.commit),
            dut.commit.entry.eq(self.commit_entry),
            dut.commit.strobe.eq(self.strobe),
            dut.commit.data.eq(_data(self.commit_data)),
            dut.read.eq(self.read),
            dut.read_entry.eq(self.read_entry),
            dut.copy.eq(self.copy),
            dut.copy_entry.eq(self.read_entry),
            # An entry is allocated before anything is committed to it.
            Assume(~(self.allocated & self.commit & (self.allocated_entry == self.commit_entry))),
        ]
        newest, known, dirty = [], [], []
        dirtied, dirtied_entry = Signal(), Signal()
        m.d.sync += [dirtied.eq(0), dirtied_entry.eq(self.commit_entry)]
        for entry in range(2):
            value = Signal(BITS, name=f"value_{entry}")
            is_known = Signal(name=f"known_{entry}")
            is_written = Signal(name=f"written_{entry}")
            is_dirty, line_dirty = Signal(name=f"dirty_{entry}"), Signal(name=f"line_dirty_{entry}")
            filled = self.fill & (self.fill_entry == entry)
            written = self.commit & (self.commit_entry == entry) & self.strobe[0]
            cleared = self.allocated & (self.allocated_entry == entry)
            copied = self.copy & (self.read_entry == entry)
            changed = self.commit & (self.commit_entry == entry) & self.strobe.any()
            next_value = Mux(written, self.commit_data, value)
            with m.If(written):
                m.d.sync += [value.eq(self.commit_data), is_known.eq(1), is_written.eq(1)]
            with m.Elif(cleared):
                m.d.sync += [is_known.eq(0), is_written.eq(0)]
            with m.Elif(filled & ~is_written):
                m.d.sync += [value.eq(self.fill_data), is_known.eq(1)]
            m.d.sync += [is_dirty.eq((is_dirty & ~copied) | written), line_dirty.eq((line_dirty & ~copied) | changed)]
            with m.If(changed & (~line_dirty | copied)):
                m.d.sync += dirtied.eq(1)
            # The environment: no line leaves before it is written.
            m.d.comb += Assume(~cleared | ~line_dirty)
            # What was written since the allocation is newer than the host's line, whenever that comes.
            newest.append(next_value)
            known.append((is_known | written) & ~cleared & ~(filled & ~is_written & ~written))
            dirty.append((value, is_dirty))
        expected = Signal(BITS)
        check_read, copied, check_copy = Signal(), Signal(), Signal()
        expected_copy = Signal(BITS)
        m.d.sync += [
            check_read.eq(self.read & Mux(self.read_entry, known[1], known[0])),
            expected.eq(Mux(self.read_entry, newest[1], newest[0])),
            copied.eq(self.copy),
            check_copy.eq(self.copy & Mux(self.read_entry, dirty[1][1], dirty[0][1])),
            expected_copy.eq(Mux(self.read_entry, dirty[1][0], dirty[0][0])),
        ]
        m.d.comb += [
            Assert(~check_read | (dut.read_data[:BITS] == expected)),
            Assert(~copied | (dut.copy_strobe[0] == check_copy)),
            Assert(~check_copy | (dut.copy_data[:BITS] == expected_copy)),
            Assert(dut.dirtied == dirtied),
            Assert(~dirtied | (dut.dirtied_entry == dirtied_entry)),
            Cover(check_read & (expected == 2)),
            Cover(check_copy & (expected_copy == 1)),
        ]
        return m


class WriteBackSpec(wiring.Component):
    """WriteBack with LineStore: every committed byte gets its place in the order, newest last; no other does.

    An entry for which as much was written as was queued has nothing on its way to its place.
    """

    def __init__(self):
        super().__init__(
            {
                "commit": In(1),
                "entry": In(1),
                "strobe": In(2),
                "value": In(BITS),
                "is_direct": In(1),
                "takes": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.store = store = LineStore(SMALL)
        m.submodules.dut = dut = WriteBack(SMALL)
        m.submodules.delay = delay = FreeDelay(data.StructLayout({"entry": 1, "stored": 1, "value": BITS}))
        started = Signal(2)
        m.d.sync += started.eq(Mux(started == 2, 2, started + 1))
        writes = dut.line_writes
        commit = Signal.like(store.commit)
        m.d.comb += [
            # Lines 4 and 5 in entries 0 and 1, allocated in the first two cycles and kept.
            dut.allocated.eq(started != 2),
            dut.allocated_entry.eq(started[0]),
            dut.allocated_line.eq(4 + started[0]),
            store.allocated.eq(dut.allocated),
            store.allocated_entry.eq(dut.allocated_entry),
            commit.valid.eq(self.commit & (started == 2)),
            commit.entry.eq(self.entry),
            commit.strobe.eq(self.strobe),
            commit.data.eq(_data(self.value)),
            store.commit.eq(commit),
            store.copy.eq(dut.copy),
            store.copy_entry.eq(dut.copy_entry),
            dut.dirtied.eq(store.dirtied),
            dut.dirtied_entry.eq(store.dirtied_entry),
            dut.copy_data.eq(store.copy_data),
            dut.copy_strobe.eq(store.copy_strobe),
            writes.ready.eq(delay.ready),
            delay.valid.eq(writes.valid),
            delay.is_direct.eq(self.is_direct),
            delay.takes.eq(self.takes),
            delay.beat.entry.eq(writes.p.address[4]),
            delay.beat.stored.eq(writes.p.strobe[0]),
            delay.beat.value.eq(writes.p.data[:BITS]),
            dut.line_writes_ordered.eq(delay.placed),
        ]
        m.submodules.contract = StreamRules(_StoredBytes(writes), Assert)
        ordered = Signal()
        m.d.sync += ordered.eq(delay.placed)
        m.d.comb += [
            Assert(~writes.valid | ((writes.p.beats == 1) & writes.p.first & writes.p.last)),
            Assert(~writes.valid | writes.p.strobe.any()),
            Assert(~writes.valid | ((writes.p.address >> 5) == 2)),
            Assert(writes.p.strobe[2:] == 0),
        ]
        held = [Signal(3, name=f"held_{entry}") for entry in range(2)]
        any_held = held[0].any() | held[1].any()
        patience = Signal(4)
        m.d.sync += patience.eq(Mux(any_held & self.takes & ~delay.placed & ~commit.valid, patience + 1, 0))
        m.d.comb += [Assert(patience < 7), Assert(dut.written == ordered)]
        for entry in range(2):
            queued = dut.dirtied & (dut.dirtied_entry == entry)
            written = dut.written & (dut.written_entry == entry)
            m.d.sync += held[entry].eq(held[entry] + queued - written)
            # LineUse counts on these two.
            m.d.comb += [
                Assert(~written | held[entry].any()),
                Assert((held[entry] != LINES_UNORDERED + 1) | ~queued | written),
            ]
            newest, host = Signal(BITS, name=f"newest_{entry}"), Signal(BITS, name=f"host_{entry}")
            changed, reached = Signal(name=f"changed_{entry}"), Signal(name=f"reached_{entry}")
            with m.If(commit.valid & (commit.entry == entry) & commit.strobe[0]):
                m.d.sync += [newest.eq(self.value), changed.eq(1)]
            with m.If(delay.placed & (delay.place.entry == entry) & delay.place.stored):
                m.d.sync += [host.eq(delay.place.value), reached.eq(1)]
                # Never a byte that nobody wrote.
                m.d.comb += Assert(changed)
            with m.If((held[entry] == 0) & ~queued):
                m.d.comb += [Assert(reached == changed), Assert(~changed | (host == newest))]
            m.d.comb += Cover(reached & (host == newest) & (host == 3))
        with m.If(~any_held):
            m.d.comb += Assert(dut.queued == dut.accepted)
        return m


class _StoredBytes:
    """``line_writes`` with the bytes it does not store left out: they mean nothing and may change."""

    def __init__(self, writes):
        self.valid, self.ready = writes.valid, writes.ready
        mask = writes.p.strobe[0].replicate(BITS)
        self.payload = Cat(writes.p.address, writes.p.strobe, writes.p.data[:BITS] & mask)


class _NaiveArithmetic(wiring.Component):
    """Stands in for the atomic unit: adds, or replaces; at once, or after either of two latencies.

    Members are those of ``Arithmetic``. The datatype's bit 0 asks for the pipeline, bit 1 for its longer way.
    """

    LATENCIES = (2, 4)

    def __init__(self, width, datatypes, ops, single_cycle_products, wide_products):
        self.uses = {f"late_{latency}": {"result": {latency}} for latency in self.LATENCIES}
        kind = Out(data.StructLayout(dict.fromkeys(self.uses, 1)))
        members = Arithmetic(width, datatypes, ops, single_cycle_products, wide_products).signature.members
        super().__init__({**members, "kind": kind})

    def elaborate(self, platform):
        m = Module()
        short, long = self.LATENCIES
        adds, takes_long = Signal(), Signal()
        operand = Signal(BITS)
        late = Signal(BITS)
        forwarded, late_target = Signal(), Signal(BITS)
        past = [Signal(BITS, name=f"late_in_{cycles}") for cycles in range(long)]
        m.d.comb += [
            self.decoded.add.eq(self.op == Op.FI_SUM),
            self.decoded.pipelined.eq(self.datatype[0]),
            self.decoded.multiply.eq(self.datatype[1]),
            self.latency.eq(Mux(self.datatype[0], Mux(self.datatype[1], long, short), 0)),
            self.kind[f"late_{short}"].eq(self.datatype[0] & ~self.datatype[1]),
            self.kind[f"late_{long}"].eq(self.datatype[0] & self.datatype[1]),
            self.calculates.eq(adds),
            self.calculated.eq(self.target[:BITS] + operand),
            self.raised.eq(adds.replicate(len(self.raised))),
            late_target.eq(Mux(forwarded, self.late_result[:BITS], self.target[:BITS])),
            late.eq(Mux(adds, late_target, 0) + operand),
            *(outcome.eq(operand) for outcome in self.results),
            self.late_result.eq(past[0]),
        ]
        m.d.sync += [
            forwarded.eq(self.forward[0]),
            adds.eq(self.prepare_control.add),
            takes_long.eq(self.prepare_control.multiply),
            operand.eq(Mux(self.is_late, self.late_operand[:BITS], self.operand[:BITS])),
            *(sooner.eq(later) for sooner, later in pairwise(past)),
        ]
        with m.If(self.start & takes_long):
            m.d.sync += past[long - 1].eq(late)
        with m.If(self.start & ~takes_long):
            m.d.sync += past[short - 1].eq(late)
        return m


class ForwardingSpec(wiring.Component):
    """Executor and LineStore together: every operation sees the result of the one before it on the same byte.

    One byte of each of two lines, followed by a shadow that changes at once when an operation is accepted: the
    old value that comes out three cycles after the issue is the shadow's, whatever the distance to the operation
    before (so that it comes from the commit register, the bypass, the pipeline's end, or the store), and whether
    either went through the pipeline. None is issued before its line has come, whether that was before the executor
    took it or while it waits there. The arithmetic is replaced by a naive one: its correctness is another
    proof's.
    """

    def __init__(self):
        super().__init__(
            {
                "valid": In(1),
                "entry": In(1),
                "adds": In(1),
                "way": In(2),
                "writes": In(1),
                "operand": In(BITS),
                "strobe": In(1),
                "space": In(1),
                "filled": In(1),
                "filled_entry": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        with mock.patch("amoeba_hw.memory.executor.Arithmetic", _NaiveArithmetic):
            dut = Executor(SMALL)
        m.submodules.dut = dut
        m.submodules.store = store = LineStore(SMALL)
        operation, operand = dut.i.p, Signal(BITS)
        # Entries whose line has come, before this cycle and by it.
        arrived, arrives = Signal(2), Signal(2)
        m.d.comb += [
            store.commit.eq(dut.commit),
            store.read.eq(dut.read),
            store.read_entry.eq(dut.read_entry),
            dut.read_data.eq(store.read_data),
            arrives.eq(arrived | Mux(self.filled, 1 << self.filled_entry, 0)),
            dut.answer.present.eq(arrives.bit_select(self.entry, 1)),
            dut.filled.eq(self.filled),
            dut.filled_entry.eq(self.filled_entry),
            Assert(~dut.read | arrived.bit_select(dut.read_entry[0], 1)),
            dut.space.eq(self.space),
            dut.i.valid.eq(self.valid),
            operation.touches.eq(1),
            operation.fetches.eq(1),
            operation.entry.eq(self.entry),
            operation.op.eq(Mux(self.adds, Op.FI_SUM, Op.FI_ATOMIC_WRITE)),
            operation.datatype.eq(self.way),
            operation.writes.eq(self.writes),
            operation.strobe.eq(self.strobe),
            dut.operands.p.operand.eq(_data(operand)),
            dut.operands.valid.eq(1),
            operation.count.eq(1),
            operation.returns_data.eq(1),
            operation.result_last.eq(1),
            operation.finishes.eq(1),
            # Whatever takes the pipeline writes.
            Assume(self.writes | ~self.way[0]),
        ]
        m.d.sync += arrived.eq(arrives)
        m.submodules.environment = StreamRules(dut.i, Assume)
        accepted = dut.i.valid & dut.i.ready
        with m.If(accepted):
            m.d.sync += operand.eq(self.operand)
        shadows = [Signal(BITS, name=f"shadow_{entry}") for entry in range(2)]
        old = Signal(BITS)
        m.d.comb += old.eq(Mux(self.entry, shadows[1], shadows[0]))
        for entry, shadow in enumerate(shadows):
            with m.If(accepted & self.writes & self.strobe & (self.entry == entry)):
                m.d.sync += shadow.eq(Mux(self.adds, old, 0) + self.operand)
        self._prove_results(m, dut, accepted, old, arrived.all())
        return m

    def _prove_results(self, m, dut, accepted, old, lines_are_there):
        pending, issued = Signal(range(3)), dut.read
        waiting = [Signal(1 + BITS, name=f"waiting_{place}") for place in range(2)]
        pending_looked, pending_old = waiting[0][0], waiting[0][1:]
        m.d.sync += pending.eq(pending + accepted - issued)
        with m.If(issued):
            m.d.sync += waiting[0].eq(waiting[1])
        for place in range(2):
            with m.If(accepted & (pending - issued == place)):
                m.d.sync += waiting[place].eq(Cat(self.strobe, old))
        ages = 3
        valid, looked, expected = Signal(ages), Signal(ages), Signal(BITS * ages)
        m.d.sync += [
            valid.eq(Cat(issued, valid)),
            looked.eq(Cat(pending_looked, looked)),
            expected.eq(Cat(pending_old, expected)),
        ]
        stuck, commits, ends = Signal(4), Signal(4), Signal(4)
        had_space = Signal()
        m.d.sync += [
            had_space.eq(self.space),
            stuck.eq(Mux((pending != 0) & had_space & lines_are_there & ~issued, stuck + 1, 0)),
            commits.eq(commits + issued - dut.commit.valid),
            ends.eq(ends + issued - dut.finished),
        ]
        m.d.comb += [
            Assert(~issued | ((pending != 0) & had_space)),
            Assert(~accepted | (pending != 2) | issued),
            # A result comes three cycles after its operation was issued, never at another time.
            Assert(dut.result_valid == valid[-1]),
            Assert(~(valid[-1] & looked[-1]) | (dut.result.data[:BITS] == expected[-BITS:])),
            # One commit and one end for each operation, the end not before the commit.
            Assert(~dut.commit.valid | (commits != 0)),
            Assert(~dut.finished | (ends > commits)),
            # With space and lines there, the pipeline is all that anybody waits for.
            Assert(stuck < 2 * max(_NaiveArithmetic.LATENCIES)),
            Cover(valid.all() & looked.all() & (expected[:BITS] == 3) & (expected[-BITS:] == 1)),
            Cover(stuck == 2),
        ]
