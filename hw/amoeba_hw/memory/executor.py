"""Executes the operations of the queue, one per cycle, from the newest value of their lines."""

from itertools import pairwise

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.parameters import NicParameters

from amoeba_hw.interfaces import TRACE_SLOT
from amoeba_hw.memory.arithmetic import Arithmetic
from amoeba_hw.memory.element_buffer import ElementBuffer
from amoeba_hw.memory.operations import commit_of, line_result, merge, queued_operation

__all__ = ["Executor"]


class Executor(wiring.Component):
    """Takes operations from the queue in order, and ends them in order or later, but never out of order on a byte.

    ::

        age        0           1            2            3           3 + latency
                +-------+   +-------+   +---------+   +--------+   +---------------+
        queue --| issue |---| line  |---| compute |---| commit |   | commit of the |
                +-------+   +-------+   +---------+   +--------+   | pipeline      |
                    |           ^            ^ |  bypass  |        +---------------+
                 store.read     +------------|-|----------+
                                             +-|----------+

    Nothing stops once it is issued. An operation is issued when

    - its line is there,
    - no byte that it touches waits for the pipeline,
    - the pipeline will not commit when it will, for there is one commit per cycle,
    - the steps of misaligned elements before it have ended, if it has to ``settle``,
    - and its result will find room.

    Bytes committed by the operation before come from the commit register at age 2, those of the one before that
    at age 1; older ones come from the store. So operations on one line follow each other at one per cycle.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    i : stream of queued_operation
    present, refused : in, one bit per entry
        The host has answered the read of the line; and it refused.
    read, read_entry, read_data : to LineStore
    commit : out, commit_of
        Every operation on a line ends with one.
    result, result_valid : out, line_result
        At age 3; never waits.
    room : in
        ``result`` will be taken in this cycle and in the four cycles after it.
    finished, finished_writes : out
        Pulse, in the order of requests: all commits of a request have been made before this cycle; whether it
        is one that writes.
    trace_executed : TRACE_SLOT
    count_atomic_beats : out, pulse
    """

    def __init__(self, parameters: NicParameters):
        self._parameters = parameters
        entry = range(parameters.lines)
        super().__init__(
            {
                "i": In(stream.Signature(queued_operation(parameters))),
                "present": In(parameters.lines),
                "refused": In(parameters.lines),
                "read": Out(1),
                "read_entry": Out(entry),
                "read_data": In(parameters.data_width),
                "commit": Out(commit_of(parameters)),
                "result": Out(line_result(parameters)),
                "result_valid": Out(1),
                "room": In(1),
                "finished": Out(1),
                "finished_writes": Out(1),
                "trace_executed": Out(TRACE_SLOT),
                "count_atomic_beats": Out(1),
            }
        )
        self._arithmetic = Arithmetic(parameters)
        self._elements = ElementBuffer(parameters)
        # What becomes of an operation, by its age; age 0 is the one being issued.
        flight = data.StructLayout(
            {
                "valid": 1,
                "pipelined": 1,
                "in_steps": 1,
                "compute": 1,
                "touches": 1,
                "entry": entry,
                "touched": parameters.beat_bytes,
                "strobe": parameters.beat_bytes,
                "error": 1,
                "finishes": 1,
                "request_writes": 1,
            }
        )
        self._flights = [
            Signal(flight, name=f"age_{age}") for age in range(self._arithmetic.latency + 5)
        ]

    def elaborate(self, platform):
        m = Module()
        m.submodules.arithmetic = self._arithmetic
        m.submodules.elements = self._elements
        self._issue(m)
        for younger, older in pairwise(self._flights):
            m.d.sync += older.eq(younger)
        line = self._fetch_line(m)
        self._compute(m, line)
        ended = self._flights[-1]
        m.d.comb += [
            self.finished.eq(ended.valid & ended.finishes),
            self.finished_writes.eq(ended.request_writes),
        ]
        return m

    def _issue(self, m):
        operation = self.i.p
        flights = self._flights
        latency = self._arithmetic.latency
        in_steps = operation.gather | operation.compute | operation.scatter
        waits = Signal()
        m.d.comb += waits.eq(
            Cat(
                ~self.room,
                operation.fetches & ~Array(self.present)[operation.entry],
                operation.settle & Cat(flight.valid & flight.in_steps for flight in flights[1:]).any(),
                ~operation.pipelined & flights[latency].valid & flights[latency].pipelined,
                operation.touches
                & Cat(
                    flight.valid
                    & flight.pipelined
                    & flight.touches
                    & (flight.entry == operation.entry)
                    & (flight.touched & operation.strobe).any()
                    for flight in flights[1 : latency + 1]
                ).any(),
            ).any()
        )
        error = Mux(
            operation.compute | operation.scatter,
            self._elements.error,
            operation.fetches & Array(self.refused)[operation.entry],
        )
        new = flights[0]
        m.d.comb += [
            self.i.ready.eq(~waits),
            self.read.eq(self.i.valid & ~waits),
            self.read_entry.eq(operation.entry),
            new.valid.eq(self.i.valid & ~waits),
            new.pipelined.eq(operation.pipelined),
            new.in_steps.eq(in_steps),
            new.compute.eq(operation.compute),
            new.touches.eq(operation.touches),
            new.entry.eq(operation.entry),
            new.touched.eq(operation.strobe),
            new.error.eq(error),
            new.strobe.eq(Mux(operation.writes & ~error, operation.strobe, 0)),
            new.finishes.eq(operation.finishes),
            new.request_writes.eq(operation.request_writes),
        ]

    def _fetch_line(self, m):
        """Ages 1 and 2 of the operation and its line; returns what age 2 works with."""
        operation = Signal(queued_operation(self._parameters), name="operation_1")
        m.d.sync += operation.eq(self.i.p)
        commit = self.commit
        newer = Signal(self._parameters.beat_bytes)
        same = commit.valid & operation.touches & (commit.entry == operation.entry)
        m.d.comb += [
            newer.eq(Mux(same, commit.strobe, 0)),
            self._elements.scatter_turn.eq(operation.turn),
            self._arithmetic.op.eq(operation.op),
            self._arithmetic.datatype.eq(operation.datatype),
            self._arithmetic.cswap_by_bits.eq(operation.cswap_by_bits),
        ]
        newest = merge(newer, commit.data, self.read_data)
        computing = Signal(queued_operation(self._parameters), name="operation_2")
        target = Signal(self._parameters.data_width)
        m.d.sync += [
            computing.eq(operation),
            computing.operand.eq(Mux(operation.scatter, self._elements.scattered, operation.operand)),
            target.eq(Mux(operation.compute, self._elements.element, newest)),
        ]
        return operation, computing, target

    def _compute(self, m, line):
        operation, computing, target = line
        arithmetic = self._arithmetic
        flights = self._flights
        due = flights[2 + arithmetic.latency]
        from_pipeline = Signal()
        ending = Signal.like(due)
        next_commit = Signal(commit_of(self._parameters))
        forward = Signal(self._parameters.beat_bytes)
        old = Signal(self._parameters.data_width)
        stores_element = Signal()
        m.d.comb += [
            from_pipeline.eq(due.valid & due.pipelined),
            ending.eq(Mux(from_pipeline, due.as_value(), flights[2].as_value())),
            next_commit.valid.eq(from_pipeline | (flights[2].valid & ~flights[2].pipelined)),
            next_commit.entry.eq(ending.entry),
            next_commit.strobe.eq(ending.strobe),
            next_commit.data.eq(Mux(from_pipeline, arithmetic.late_result, arithmetic.result)),
            old.eq(merge(forward, self.commit.data, target)),
            arithmetic.start.eq(flights[2].valid & flights[2].pipelined),
            arithmetic.target.eq(old),
            arithmetic.operand.eq(computing.operand),
            arithmetic.compare.eq(computing.compare),
        ]
        forwards = next_commit.valid & ending.touches & operation.touches & (ending.entry == operation.entry)
        m.d.sync += [
            forward.eq(Mux(forwards, next_commit.strobe, 0)),
            self.commit.eq(next_commit),
            self.commit.valid.eq(next_commit.valid & ending.touches),
            stores_element.eq(next_commit.valid & ending.compute),
        ]
        m.d.comb += [self._elements.store.eq(stores_element), self._elements.store_data.eq(self.commit.data)]
        self._deliver(m, computing, old)

    def _deliver(self, m, computing, old):
        """Age 3: the old value goes to the result, or to the element that is being gathered."""
        flight = self._flights[2]
        executed = Signal(queued_operation(self._parameters), name="operation_3")
        delivers = flight.valid & ~computing.gather & ~computing.scatter
        event = self.trace_executed.event
        elements = self._elements
        gathers = Signal()
        m.d.sync += [
            executed.eq(computing),
            self.result.data.eq(old),
            self.result.offset.eq(computing.offset),
            self.result.count.eq(Mux(computing.returns_data, computing.count, 0)),
            self.result.last.eq(computing.result_last),
            self.result.error.eq(flight.error),
            self.result_valid.eq(delivers & (computing.returns_data | computing.result_last | flight.error)),
            self.trace_executed.valid.eq(delivers & computing.result_last),
            event.psn.eq(computing.psn),
            event.pdc.eq(computing.pdc),
            event.context.eq(Const(0xFF, 8)),
            self.count_atomic_beats.eq(flight.valid & computing.atomic),
            gathers.eq(flight.valid & computing.gather),
        ]
        m.d.comb += [
            elements.gather.eq(gathers),
            elements.gather_line.eq(self.result.data),
            elements.gather_strobe.eq(executed.strobe),
            elements.gather_turn.eq(executed.turn),
            elements.gather_starts.eq(executed.starts_element),
            elements.gather_error.eq(self.result.error),
        ]
