"""The reservation station that every access of the target to host memory goes through."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.parameters import NicParameters

from amoeba_hw.interfaces import MEMORY_REQUEST, READ_REQUEST, TRACE_SLOT, packet_beat, read_beat, write_beat
from amoeba_hw.memory.delivery_gate import DeliveryGate
from amoeba_hw.memory.executor import Executor
from amoeba_hw.memory.line_fetcher import LineFetcher
from amoeba_hw.memory.line_store import LineStore
from amoeba_hw.memory.line_table import LineTable
from amoeba_hw.memory.operations import (
    entries,
    line_access,
    line_operands,
    line_operation,
    line_result,
    operations_queued,
    table_sets,
)
from amoeba_hw.memory.result_packer import ResultPacker
from amoeba_hw.memory.splitter import RequestSplitter
from amoeba_hw.memory.write_back import WriteBack
from amoeba_hw.stream import Queue, RegisteredQueue, SkidBuffer, connect_streams

__all__ = ["MemoryEngine"]

STAGES = 64
"""More cycles than anything here takes to come to rest behind the last result."""

LINES_QUEUED = 16
"""Operations that may wait for the line table: those in RequestSplitter's stages, and enough to keep it busy."""


class MemoryEngine(wiring.Component):
    """Performs RMA reads, RMA writes and atomics on host memory, in order, line by line.

    ::

        requests --> RequestSplitter -----> queue --> LineTable --> queue --> Executor --> queue --> ResultPacker
        operands --^   |    operations, operands        |                      ^ |   ^         ^           |
        compares --^   +---------------> queues --------|----------------------+ |   |         |        results
                                            LineFetcher --> LineStore <---------+    |         |
                                            |              |            Arithmetic  DeliveryGate
                                       line_reads,     WriteBack                          |
                                       line_data           +--> line_writes --------------+

    A request becomes operations on one line each. The first operation on a line gets it an entry in the line
    table and has it fetched; later ones, while it is there, join in. The executor takes the operations in order,
    each from the newest value of its line, while the lines of those behind are on their way. Lines that were
    changed are written back one after the other, again and again if they stay in use. Only what concerns the line
    takes the way through the table; the rest of an operation, and its operands, wait for its entry at the executor.

    Throughput: one line per cycle for reads, writes and atomics, on one line or many, as long as
    ``parameters.lines`` cover the host's latency; random lines somewhat less, see LineTable. A chain of pipelined
    operations on the same bytes takes their latency (ArithmeticPipeline) each. Elements of two beats take two cycles
    if they begin where a line does; in a chain on one address 5 each, products 26. Misaligned elements take about 10
    cycles each, those of two beats 19, and the latency. An answer takes 27 cycles from its request plus the host's
    latency.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    requests : stream of MEMORY_REQUEST
        The first line of all waits for the cycles in which LineTable clears its numbers after a reset.
    operands, compares : packet_beat streams
        One packet of exactly ``length`` bytes for every request with ``has_operand`` or ``has_compare``; none for a
        request of 0 bytes.
    results : packet_beat stream
        One packet for every request, in order: the old bytes, or one beat without bytes. Its last beat leaves
        when everything that the request wrote has its place in the order of host writes; ``error`` on it says that
        the host refused a line.
    line_reads, line_data : streams
        Whole lines; answers in the order of the requests.
    line_writes : write_beat stream
        Bursts of one line.
    line_writes_ordered : in
        Pulse: WriteHub has given the oldest of them its place.
    runs : out
        Combinational: requests are in flight, a beat comes in this cycle, or stages settle behind the last request or
        a reset.
        While it is low nothing here changes but LineHash's key before the first line: the clock may stand still.
    trace_line_read, trace_executed, trace_line_written : TRACE_SLOT
    count_atomic_beats, count_line_reads, count_line_writes, count_line_hits : out, pulses
    """

    def __init__(self, parameters: NicParameters):
        self._parameters = parameters
        width = parameters.data_width
        super().__init__(
            {
                "requests": In(stream.Signature(MEMORY_REQUEST)),
                "operands": In(stream.Signature(packet_beat(width))),
                "compares": In(stream.Signature(packet_beat(width))),
                "results": Out(stream.Signature(packet_beat(width))),
                "line_reads": Out(stream.Signature(READ_REQUEST)),
                "line_data": In(stream.Signature(read_beat(width))),
                "line_writes": Out(stream.Signature(write_beat(width))),
                "line_writes_ordered": In(1),
                "runs": Out(1),
                "trace_line_read": Out(TRACE_SLOT),
                "trace_executed": Out(TRACE_SLOT),
                "trace_line_written": Out(TRACE_SLOT),
                "count_atomic_beats": Out(1),
                "count_line_reads": Out(1),
                "count_line_writes": Out(1),
                "count_line_hits": Out(1),
            }
        )
        self._outstanding = Signal(16)
        """Requests whose results have not left."""
        # Behind a reset the table is cleared, a set in each cycle; nothing else goes on for longer than the stages.
        self._settles = STAGES + table_sets(parameters)
        self._settling = Signal(range(self._settles + 1), init=self._settles)

    def elaborate(self, platform):
        m = Module()
        parameters = self._parameters
        results_depth = 2 * parameters.lines + 16
        m.submodules.splitter = splitter = RequestSplitter(parameters)
        m.submodules.table = table = LineTable(parameters)
        # Whether an operation finds an entry is known late, and its set is looked up: neither in the queue's cycle.
        m.submodules.lines = lines = RegisteredQueue(line_access(parameters), LINES_QUEUED)
        # Entries for all operations before the executor.
        overtaking = LINES_QUEUED + operations_queued(parameters) + 8
        m.submodules.operands_queue = operands_queue = Queue(line_operands(parameters), overtaking)
        m.submodules.operands_skid = operands_skid = SkidBuffer(line_operands(parameters))
        # The next operation is decoded and looked up: not in the queues' cycle.
        m.submodules.operations = operations = RegisteredQueue(line_operation(parameters), overtaking)
        m.submodules.entries = entries_queue = RegisteredQueue(
            range(entries(parameters)), operations_queued(parameters)
        )
        m.submodules.fetcher = fetcher = LineFetcher(parameters)
        m.submodules.store = store = LineStore(parameters)
        m.submodules.executor = executor = Executor(parameters)
        m.submodules.write_back = write_back = WriteBack(parameters)
        # The packer's work on a part takes its whole cycle: neither a memory's output nor the way back to the queue
        # fits into it.
        m.submodules.results = results = RegisteredQueue(line_result(parameters), results_depth)
        # Next to what the memory of that queue holds, its registers, the packer and the executor's last stages hold a
        # few.
        m.submodules.gate = gate = DeliveryGate(parameters, results_depth + 16)
        m.submodules.packer = packer = ResultPacker(parameters)

        for name in ("requests", "operands", "compares"):
            outer, inner = wiring.flipped(getattr(self, name)), getattr(splitter, name)
            m.submodules[f"{name}_in"] = skid = SkidBuffer(outer.signature.members["payload"].shape)
            connect_streams(m, outer, skid.i)
            connect_streams(m, skid.o, inner)
        m.d.comb += [
            lines.i.p.eq(splitter.o_access),
            lines.i.valid.eq(splitter.o_valid),
            operations.i.p.eq(splitter.o),
            operations.i.valid.eq(splitter.o_valid),
            operands_queue.i.p.eq(splitter.o_operands),
            operands_queue.i.valid.eq(splitter.o_valid),
        ]
        # A cycle old, and so are those in the splitter's stages.
        m.d.sync += splitter.space.eq(lines.level <= LINES_QUEUED - splitter.STAGES - 2)
        connect_streams(m, lines.o, table.i)
        connect_streams(m, operands_queue.o, operands_skid.i)
        connect_streams(m, operands_skid.o, executor.operands)
        m.d.comb += [
            entries_queue.i.p.eq(table.entry),
            entries_queue.i.valid.eq(table.entry_valid),
            fetcher.i.eq(table.fetch),
            fetcher.i_valid.eq(table.fetch_valid),
        ]
        # A cycle old: one more of each may have come meanwhile.
        m.d.sync += table.space.eq(fetcher.space & (entries_queue.level <= entries_queue.depth - 2))
        # An operation is always here before its entry.
        m.d.comb += [
            *(executor.i.p[name].eq(operations.o.p[name]) for name, _ in line_operation(parameters)),
            executor.i.p.entry.eq(entries_queue.o.p),
            executor.i.valid.eq(entries_queue.o.valid),
            entries_queue.o.ready.eq(executor.i.ready),
            operations.o.ready.eq(executor.i.ready & entries_queue.o.valid),
        ]
        connect_streams(m, fetcher.line_reads, wiring.flipped(self.line_reads))
        connect_streams(m, wiring.flipped(self.line_data), fetcher.line_data)
        connect_streams(m, write_back.line_writes, wiring.flipped(self.line_writes))
        connect_streams(m, results.o, packer.i)
        connect_streams(m, packer.o, wiring.flipped(self.results))
        # Known late in the cycle, so the others are notified one cycle after, and so is the table of commits. Nobody
        # asks for the new line as early as that, and nobody holds the entry any more.
        for other in (fetcher, write_back):
            m.d.sync += [other.allocated.eq(table.allocated), other.allocated_entry.eq(table.entry)]
        # The store is far away, and nobody reads or writes the new line within two more cycles.
        m.d.sync += [
            store.allocated.eq(write_back.allocated),
            store.allocated_entry.eq(write_back.allocated_entry),
        ]
        m.d.sync += [
            write_back.allocated_line.eq(table.allocated_line),
            write_back.allocated_context.eq(table.allocated_context),
            table.retired.eq(executor.commit.valid),
            table.retired_entry.eq(executor.commit.entry),
            gate.finished.eq(executor.finished),
            gate.finished_writes.eq(executor.finished_writes),
        ]
        m.d.comb += [
            store.fill.eq(fetcher.fill),
            store.fill_entry.eq(fetcher.fill_entry),
            store.fill_data.eq(fetcher.fill_data),
            fetcher.asked_entry.eq(executor.i.p.entry),
            executor.answer.eq(fetcher.answer),
            store.read.eq(executor.read),
            store.read_entry.eq(executor.read_entry),
            executor.read_data.eq(store.read_data),
            store.commit.eq(executor.commit),
            write_back.dirtied.eq(store.dirtied),
            write_back.dirtied_entry.eq(store.dirtied_entry),
            table.retired_queues.eq(store.dirtied),
            table.written.eq(write_back.written),
            table.written_entry.eq(write_back.written_entry),
            store.copy.eq(write_back.copy),
            store.copy_entry.eq(write_back.copy_entry),
            write_back.copy_data.eq(store.copy_data),
            write_back.copy_strobe.eq(store.copy_strobe),
            write_back.line_writes_ordered.eq(self.line_writes_ordered),
        ]
        # A cycle old, and looked at a cycle ahead: two more results may have come meanwhile. An answer of the host
        # that is a cycle old costs one, but it comes from far away.
        m.d.sync += [
            executor.space.eq(results.level <= results_depth - 9),
            executor.filled.eq(fetcher.fill),
            executor.filled_entry.eq(fetcher.fill_entry),
            executor.filled_refused.eq(fetcher.fill_refused),
        ]
        m.d.comb += [
            results.i.p.eq(executor.result),
            results.i.valid.eq(executor.result_valid),
            gate.queued.eq(write_back.queued),
            gate.accepted.eq(write_back.accepted),
            packer.open.eq(gate.open),
            gate.leaves.eq(packer.leaves),
            self.trace_line_read.eq(fetcher.trace_line_read),
            self.trace_executed.eq(executor.trace_executed),
            self.trace_line_written.eq(write_back.trace_line_written),
            self.count_atomic_beats.eq(executor.count_atomic_beats),
            self.count_line_reads.eq(fetcher.trace_line_read.valid),
            self.count_line_writes.eq(write_back.trace_line_written.valid),
            self.count_line_hits.eq(table.hit),
        ]
        self._tell_whether_it_runs(m)
        return m

    def _tell_whether_it_runs(self, m):
        begins, ends, busy = Signal(), Signal(), Signal()
        # A beat may come before its request.
        enters = [port.valid & port.ready for port in (self.operands, self.compares)]
        m.d.comb += [
            begins.eq(self.requests.valid & self.requests.ready),
            ends.eq(self.results.valid & self.results.ready & self.results.p.last),
            busy.eq(self.requests.valid | (self._outstanding != 0)),
            self.runs.eq(busy | Cat(enters).any() | (self._settling != 0)),
        ]
        m.d.sync += self._outstanding.eq(self._outstanding + begins - ends)
        with m.If(busy):
            m.d.sync += self._settling.eq(self._settles)
        with m.Elif(self._settling != 0):
            m.d.sync += self._settling.eq(self._settling - 1)
