"""Which lines are in flight, and for how long they have to stay."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.parameters import NicParameters

from amoeba_hw.memory.operations import (
    line_address_bits,
    line_operation,
    operations_in_flight,
    queued_operation,
)

__all__ = ["LineTable", "line_fetch", "one_hot"]


def line_fetch(parameters: NicParameters) -> data.StructLayout:
    """A line to be read from the host into an entry; ``pdc`` and ``psn`` of who asked are for the trace."""
    return data.StructLayout(
        {
            "line": 64 - line_address_bits(parameters),
            "entry": range(parameters.lines),
            "pdc": 16,
        }
    )


def one_hot(m: Module, name: str, index, enable, count: int) -> Signal:
    """``count`` bits of which the one at ``index`` is set if ``enable`` is."""
    bits = Signal(count, name=name)
    m.d.comb += bits.eq(Mux(enable, Cat(index == position for position in range(count)), 0))
    return bits


class LineTable(wiring.Component):
    """Gives every operation the entry of its line: the one that holds it already, or a free one.

    An entry stays while operations refer to it and while it is ``held``: no line is ever in two entries, so
    all operations on a line meet in one place, and a line is read again only after it was written back.
    The first operation that needs a line's old bytes has the line fetched, whether it comes first or later.

    Two stages: all entries compare their line with the operation's; the operation joins an entry or takes a
    free one that was picked ahead of time. The one case in which the first stage sees a stale table, the same
    line twice in a row, is recognised there too.

    Parameters
    ----------
    parameters : NicParameters
        ``lines`` entries.

    Members
    -------
    i : stream of line_operation
    o : stream of queued_operation
        Latency one cycle, one operation per cycle, while entries are free.
    fetches : stream of line_fetch
        Moves together with ``o``.
    allocated, allocated_entry, allocated_line : out
        Pulse: an entry begins to hold a line.
    retired, retired_entry : in
        Pulse: an operation on an entry has ended; bytes that it wrote are ``held`` from the next cycle on.
    held : in, one bit per entry
        The entry must stay.
    hit : out, pulse
        An operation found its line in flight.
    """

    def __init__(self, parameters: NicParameters):
        self._parameters = parameters
        entry = range(parameters.lines)
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
                "held": In(parameters.lines),
                "hit": Out(1),
            }
        )
        self._valid = Signal(parameters.lines)
        self._fetched = Signal(parameters.lines)
        self._lines = [Signal(line, name=f"line_{index}") for index in range(parameters.lines)]
        self._references = [
            Signal(range(operations_in_flight(parameters) + 1), name=f"references_{index}")
            for index in range(parameters.lines)
        ]

    def elaborate(self, platform):
        m = Module()
        count = self._parameters.lines
        operation = Signal(line_operation(self._parameters))
        present = Signal()
        fire = Signal()
        matches = Signal(count)
        repeats = Signal()
        entry_before = Signal(count)
        target = Signal(count)
        hit = Signal()
        entry = Signal(count)
        free_entry, free_index, free_valid = self._pick_free(m, fire & self.allocated)

        # First stage: compare.
        m.d.comb += self.i.ready.eq(~present | fire)
        with m.If(self.i.ready):
            m.d.sync += [
                present.eq(self.i.valid),
                operation.eq(self.i.p),
                matches.eq(self._valid & Cat(line == self.i.p.line for line in self._lines)),
                repeats.eq(present & operation.touches & (operation.line == self.i.p.line)),
            ]
        with m.If(fire):
            m.d.sync += entry_before.eq(entry)

        # Second stage: join or take.
        needs_fetch = Signal()
        m.d.comb += [
            target.eq(Mux(repeats, entry_before, matches & self._valid)),
            hit.eq(target.any()),
            entry.eq(Mux(hit, target, free_entry)),
            needs_fetch.eq(operation.fetches & ~(hit & (target & self._fetched).any())),
            self.fetches.p.line.eq(operation.line),
            self.fetches.p.pdc.eq(operation.pdc),
            self.fetches.p.entry.eq(self.o.p.entry),
            self.o.p.entry.eq(Mux(hit, _encode(target), free_index)),
        ]
        wanted = Signal(count)
        m.d.comb += wanted.eq(Mux(present, target, 0))
        m.d.comb += [self.o.p[name].eq(operation[name]) for name, _ in self.o.p.shape() if name != "entry"]
        possible = present & (hit | free_valid | ~operation.touches)
        m.d.comb += [
            self.o.valid.eq(possible & (~needs_fetch | self.fetches.ready)),
            self.fetches.valid.eq(possible & needs_fetch & self.o.ready),
            fire.eq(self.o.valid & self.o.ready),
            self.hit.eq(fire & operation.touches & hit),
            self.allocated.eq(fire & operation.touches & ~hit),
            self.allocated_entry.eq(free_index),
            self.allocated_line.eq(operation.line),
        ]
        self._update_entries(m, fire & operation.touches, hit, entry, operation, wanted)
        return m

    def _pick_free(self, m, taken):
        """A free entry, chosen a cycle ahead: one-hot, as an index, and whether there is one."""
        count = self._parameters.lines
        chosen = Signal(count)
        index = Signal(range(count))
        valid = Signal()
        candidates = Signal(count)
        lowest = Signal(count)
        m.d.comb += [candidates.eq(~self._valid & ~chosen), lowest.eq(candidates & -candidates)]
        with m.If(taken | ~valid):
            m.d.sync += [chosen.eq(lowest), index.eq(_encode(lowest)), valid.eq(candidates.any())]
        return chosen, index, valid

    def _update_entries(self, m, joined, hit, entry, operation, wanted):
        joins = Signal(self._parameters.lines)
        m.d.comb += joins.eq(Mux(joined, entry, 0))
        retires = one_hot(m, "retires", self.retired_entry, self.retired, self._parameters.lines)
        for index, references in enumerate(self._references):
            join = joins[index]
            retire = retires[index]
            m.d.sync += references.eq(references + join - retire)
            # An entry that the operation in the second stage is about to join may not leave under its feet.
            with m.If((references == 0) & ~self.held[index] & ~wanted[index]):
                m.d.sync += self._valid[index].eq(0)
            with m.If(join & ~hit):
                m.d.sync += [
                    self._valid[index].eq(1),
                    self._fetched[index].eq(operation.fetches),
                    self._lines[index].eq(operation.line),
                ]
            with m.Elif(join & operation.fetches):
                m.d.sync += self._fetched[index].eq(1)


def _encode(bits):
    """Index of the one bit that is set; the indices of several are or-ed."""
    return Cat(
        Cat(bit for position, bit in enumerate(bits) if position >> digit & 1).any()
        for digit in range((len(bits) - 1).bit_length())
    )
