"""Cuts requests into operations on single lines."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters

from amoeba_hw.interfaces import MEMORY_REQUEST, MemoryKind, packet_beat
from amoeba_hw.memory.address_generators import STEP, ElementAddresses, LineAddresses
from amoeba_hw.memory.operations import (
    byte_rotate_left,
    line_access,
    line_address_bits,
    line_operands,
    line_operation,
    merge,
    thermometer,
)
from amoeba_hw.memory.wide_arithmetic import PART_BY_PART

__all__ = ["RequestSplitter"]


class RequestSplitter(wiring.Component):
    """Cuts requests into line operations and turns their operands to the place in the line where they belong.

    Requests on whole or naturally aligned elements become one operation per line; that includes elements of
    two lines that begin where a line does. Atomics on misaligned elements become several per element: its parts
    are gathered, the operation is executed, the parts of the result are scattered (:class:`ElementAddresses`).

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    requests : stream of MEMORY_REQUEST
    operands, compares : packet_beat streams
        One packet of ``length`` bytes for each request that has them.
    o_access, o, o_operands, o_valid : line_access, line_operation, line_operands, out
        Latency three cycles, one line per cycle, also across requests; misaligned elements come two cycles later,
        and the request behind them one more. A request without bytes is one operation that touches no line. Never
        waits.
    room : in
        The output of ``STAGES`` cycles later will be taken.
    """

    STAGES = 2

    def __init__(self, parameters: NicParameters):
        self._parameters = parameters
        width = parameters.data_width
        super().__init__(
            {
                "requests": In(stream.Signature(MEMORY_REQUEST)),
                "operands": In(stream.Signature(packet_beat(width))),
                "compares": In(stream.Signature(packet_beat(width))),
                "o_access": Out(line_access(parameters)),
                "o": Out(line_operation(parameters)),
                "o_operands": Out(line_operands(parameters)),
                "o_valid": Out(1),
                "space": In(1),
            }
        )
        # A request is here, and the way it goes; that by elements begins with what has been found out about it.
        self._occupied = Signal()
        # The opposite, for the address generator by lines: its line is far away, near the line table.
        self._idle = Signal(init=1)
        self._by_elements = Signal()
        self._element_starts = Signal()
        self._element_offered = Signal()
        self._has_operand = Signal()
        self._has_compare = Signal()

    def elaborate(self, platform):
        m = Module()
        m.submodules.lines = lines = LineAddresses(self._parameters)
        m.submodules.elements = elements = ElementAddresses(self._parameters)
        described = self._accept(m)
        request = described.request
        step = Signal(STEP(self._parameters))
        line_offered = self._occupied & ~self._by_elements
        fire_line, fire_element, fire = Signal(), Signal(), Signal()
        m.d.comb += [
            step.eq(Mux(self._by_elements, elements.step.as_value(), lines.step.as_value())),
            fire_line.eq(line_offered & self.space & self._beats_are_there(lines.step)),
            fire_element.eq(self._element_offered & self.space & self._beats_are_there(elements.step)),
            fire.eq(fire_line | fire_element),
            # The generator by elements knows its last step late: the next request waits for the cycle after it.
            self.requests.ready.eq(~self._occupied | (fire_line & lines.step.finishes)),
            self.operands.ready.eq(fire & step.drops_beat & self._has_operand),
            self.compares.ready.eq(fire & step.drops_beat & self._has_compare),
            lines.address.eq(self.requests.p.address),
            lines.length.eq(self.requests.p.length),
            lines.starts.eq(~line_offered | lines.step.finishes),
            lines.advance.eq(self._idle | fire_line),
            elements.address.eq(request.address),
            elements.length.eq(request.length),
            elements.size.eq(described.size),
            elements.starts.eq(self._element_starts),
            elements.advance.eq(fire_element),
        ]
        with m.If(fire_element & elements.step.finishes):
            m.d.sync += [self._occupied.eq(0), self._idle.eq(1), self._element_offered.eq(0)]

        # Two stages that never stop: operands are turned in the first, put together with those before in the second.
        turned = Signal(STEP(self._parameters))
        turned_valid = Signal()
        operation = Signal(line_operation(self._parameters))
        m.d.comb += self._describe(operation, request, described.datatype, turned)
        beat_bytes = self._parameters.beat_bytes
        end = Signal(range(beat_bytes + 1))
        m.d.comb += end.eq(turned.offset + turned.count)
        to_end = thermometer(m, "to_end", end, beat_bytes)
        to_offset = thermometer(m, "to_offset", turned.offset, beat_bytes)
        # The strobe has a register of its own: Verilator 5 lets the bits that it inverts beyond the strobe's get into
        # the fields above, where a register takes both.
        split = Signal(line_operation(self._parameters))
        strobe = Signal(beat_bytes)
        m.d.sync += [
            turned.eq(step),
            turned_valid.eq(fire),
            split.eq(operation),
            self.o_access.line.eq(turned.line),
            self.o_access.context.eq(request.context),
            self.o_access.touches.eq(operation.touches),
            self.o_access.fetches.eq(operation.fetches),
            self.o_access.pdc.eq(operation.pdc),
            strobe.eq(to_end & ~to_offset),
            self.o_valid.eq(turned_valid),
        ]
        m.d.comb += [self.o.eq(split), self.o.strobe.eq(strobe)]
        for name, source in (("operand", self.operands), ("compare", self.compares)):
            self._align(m, name, source.p.data, step, turned, fire)
        return m

    def _accept(self, m):
        """Take a request; return its registered fields, one cycle later than the fields for :class:`LineAddresses`.

        So many bits are slow to enable, and nobody needs them sooner: the second stage describes a step by them, and
        :class:`ElementAddresses` begins when they are there.
        """
        incoming, latest = self.requests.p, Signal(MEMORY_REQUEST)
        described = Signal(data.StructLayout({"request": MEMORY_REQUEST, "datatype": 5, "size": 6}))
        accepted = Signal()
        fitting = self._as_fitting(latest)
        m.d.sync += [
            latest.eq(incoming),
            accepted.eq(self.requests.ready),
            self._element_starts.eq(accepted & self._occupied & self._by_elements),
        ]
        with m.If(accepted):
            m.d.sync += [
                described.request.eq(latest),
                described.datatype.eq(fitting),
                described.size.eq(_element_size(m, fitting)),
            ]
        with m.If(self._element_starts):
            m.d.sync += self._element_offered.eq(1)
        with m.If(self.requests.ready):
            m.d.sync += [
                self._occupied.eq(self.requests.valid),
                self._idle.eq(~self.requests.valid),
                # The way of a request, by lines or by elements, is found out before its first step.
                self._by_elements.eq(self._goes_by_elements(_element_size(m, incoming.datatype))),
                self._has_operand.eq(incoming.has_operand),
                self._has_compare.eq(incoming.has_compare),
            ]
        return described

    def _beats_are_there(self, step):
        """Whether the operands have come that the step needs."""
        has_operand, has_compare = (
            ~(has & step.takes_beat) | source.valid
            for has, source in ((self._has_operand, self.operands), (self._has_compare, self.compares))
        )
        return has_operand & has_compare

    def _goes_by_elements(self, size):
        request = self.requests.p
        # To a whole beat also where the parts of a datatype wider than that may go their own way.
        misaligned = (request.address & (size - 1))[: line_address_bits(self._parameters)].any()
        return (request.kind == MemoryKind.ATOMIC) & (request.op != Op.FI_ATOMIC_READ) & misaligned

    def _as_fitting(self, request):
        """Return the datatype, or that of its parts if it is wider than a beat, and they are independent."""
        if Datatype.FI_LONG_DOUBLE_COMPLEX.size <= self._parameters.beat_bytes:
            return request.datatype
        by_parts = request.op.matches(*PART_BY_PART) & (request.datatype == Datatype.FI_LONG_DOUBLE_COMPLEX)
        return Mux(by_parts, Datatype.FI_LONG_DOUBLE, request.datatype)

    def _describe(self, operation, request, datatype, step):
        """Everything of the operation but its operands and its strobe."""
        atomic = (request.kind == MemoryKind.ATOMIC) & (request.op != Op.FI_ATOMIC_READ)
        writes = (request.kind == MemoryKind.WRITE) | atomic
        # Writes, and the parts of a result, pass the arithmetic as bytes that replace what was there.
        calculates = atomic & ~step.gather & ~step.scatter
        return [
            operation.touches.eq(step.touches),
            operation.fetches.eq(step.touches & (request.kind != MemoryKind.WRITE)),
            operation.writes.eq(writes & step.touches & ~step.gather),
            operation.gather.eq(step.gather),
            operation.compute.eq(step.compute),
            operation.scatter.eq(step.scatter),
            operation.starts_element.eq(step.starts_element),
            operation.settle.eq(step.settle),
            operation.half.eq(step.half),
            operation.turn.eq(step.turn),
            operation.op.eq(Mux(calculates, request.op, Op.FI_ATOMIC_WRITE)),
            operation.datatype.eq(Mux(calculates, datatype, Datatype.FI_UINT8)),
            operation.cswap_by_bits.eq(request.cswap_by_bits),
            operation.atomic.eq(calculates),
            operation.returns_data.eq(request.returns_data & ~step.gather & ~step.scatter & (request.length != 0)),
            operation.result_last.eq(step.result_last),
            operation.finishes.eq(step.finishes),
            operation.request_writes.eq(writes),
            operation.offset.eq(step.offset),
            operation.count.eq(step.count),
            operation.pdc.eq(request.pdc),
            operation.psn.eq(request.psn),
        ]

    def _align(self, m, name, beat, step, turned, fire):
        """Both stages of one operand."""
        offset_bits = line_address_bits(self._parameters)
        rotated = Signal(self._parameters.data_width, name=f"{name}_rotated")
        before = Signal(self._parameters.data_width, name=f"{name}_before")
        place = Signal(offset_bits, name=f"{name}_place")
        is_new = Signal(name=f"{name}_is_new")
        # Whether anything moves is known last, so it decides on as little as possible: nobody uses the output of a
        # step that takes no beat, or has not been taken.
        m.d.sync += [
            is_new.eq(fire & step.takes_beat),
            rotated.eq(byte_rotate_left(m, name, beat, step.place)),
            place.eq(step.place),
        ]
        with m.If(is_new):
            m.d.sync += before.eq(rotated)
        # Bytes that the rotation brought below `place` belong to the next line; there the line before left its own.
        below = thermometer(m, f"{name}_below", Mux(turned.compute, 0, place), self._parameters.beat_bytes)
        m.d.sync += self.o_operands[name].eq(merge(below, before, rotated))


def _element_size(m, datatype):
    """Bytes per element, from the datatype's number; 1 for unknown ones."""
    size = Signal(6, init=1)
    m.d.comb += size.eq(1)
    with m.Switch(datatype):
        for known in Datatype:
            with m.Case(known):
                m.d.comb += size.eq(known.size)
    return size
