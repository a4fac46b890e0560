"""Cuts requests into operations on single lines."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters

from amoeba_hw.interfaces import MEMORY_REQUEST, MemoryKind, packet_beat
from amoeba_hw.memory.operations import (
    byte_rotate_left,
    line_access,
    line_address_bits,
    line_operands,
    line_operation,
    merge,
    thermometer,
)
from amoeba_hw.memory.walks import STEP, ElementWalk, LineWalk
from amoeba_hw.memory.wide_arithmetic import PART_BY_PART

__all__ = ["RequestSplitter"]


class RequestSplitter(wiring.Component):
    """Cuts requests into line operations and turns their operands to the place in the line where they belong.

    Requests on whole or naturally aligned elements become one operation per line; that includes elements of
    two lines that begin where a line does. Atomics on misaligned elements become several per element: its parts
    are gathered, the operation is executed, the parts of the result are scattered (:class:`ElementWalk`).

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    requests : stream of MEMORY_REQUEST
    operands, compares : packet_beat streams
        One packet of ``length`` bytes for each request that has them.
    o_access, o, o_operands, o_valid : line_access, line_operation, line_operands, out
        Latency three cycles, one line per cycle, also across requests. A request without bytes is one
        operation that touches no line. Never waits.
    room : in
        What comes out ``STAGES`` cycles later will be taken.
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
                "room": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        request, request_valid = Signal(MEMORY_REQUEST), Signal()
        size = Signal(6)
        by_elements = Signal()
        datatype = Signal.like(request.datatype)
        fitting = self._as_fitting(self.requests.p)
        next_size = _element_size(m, fitting)
        # Which way a request goes is found out before its first step.
        with m.If(self.requests.ready):
            m.d.sync += [
                request.eq(self.requests.p),
                request_valid.eq(self.requests.valid),
                datatype.eq(fitting),
                size.eq(next_size),
                by_elements.eq(self._goes_by_elements(next_size)),
            ]

        m.submodules.lines = lines = LineWalk(self._parameters)
        m.submodules.elements = elements = ElementWalk(self._parameters)
        step = Signal(STEP(self._parameters))
        m.d.comb += [
            step.eq(Mux(by_elements, elements.step.as_value(), lines.step.as_value())),
            elements.size.eq(size),
        ]
        fire = Signal()
        needed = [
            ~(step.takes_beat & has) | source.valid
            for has, source in ((request.has_operand, self.operands), (request.has_compare, self.compares))
        ]
        m.d.comb += [
            fire.eq(request_valid & needed[0] & needed[1] & self.room),
            self.requests.ready.eq(~request_valid | (fire & step.finishes)),
            self.operands.ready.eq(fire & step.drops_beat & request.has_operand),
            self.compares.ready.eq(fire & step.drops_beat & request.has_compare),
        ]
        for walk, chosen in ((lines, ~by_elements), (elements, by_elements)):
            m.d.comb += [
                walk.address.eq(request.address),
                walk.length.eq(request.length),
                walk.advance.eq(fire & chosen),
            ]

        # Two stages that never stop: operands are turned in the first, put together with those before in the second.
        turned = Signal(line_operation(self._parameters))
        turned_valid = Signal()
        operation = Signal(line_operation(self._parameters))
        access, turned_access = Signal(line_access(self._parameters)), Signal(line_access(self._parameters))
        m.d.comb += self._describe(operation, request, datatype, step)
        m.d.comb += [
            access.line.eq(step.line),
            access.touches.eq(operation.touches),
            access.fetches.eq(operation.fetches),
            access.pdc.eq(operation.pdc),
        ]
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
            turned.eq(operation),
            turned_access.eq(access),
            self.o_access.eq(turned_access),
            turned_valid.eq(fire),
            split.eq(turned),
            strobe.eq(to_end & ~to_offset),
            self.o_valid.eq(turned_valid),
        ]
        m.d.comb += [self.o.eq(split), self.o.strobe.eq(strobe)]
        for name, source in (("operand", self.operands), ("compare", self.compares)):
            self._align(m, name, source.p.data, step, turned, fire, turned_valid)
        return m

    def _goes_by_elements(self, size):
        request = self.requests.p
        misaligned = (request.address & (size - 1))[: line_address_bits(self._parameters)].any()
        return (request.kind == MemoryKind.ATOMIC) & (request.op != Op.FI_ATOMIC_READ) & misaligned

    def _as_fitting(self, request):
        """The datatype; instead of one wider than a beat its parts', where they do not depend on each other."""
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

    def _align(self, m, name, beat, step, turned, fire, turned_valid):
        """Both stages of one operand."""
        offset_bits = line_address_bits(self._parameters)
        rotated = Signal(self._parameters.data_width, name=f"{name}_rotated")
        before = Signal(self._parameters.data_width, name=f"{name}_before")
        place = Signal(offset_bits, name=f"{name}_place")
        is_new = Signal(name=f"{name}_is_new")
        # Whether anything moves is known last: it enables registers, and decides nothing about what they take.
        turned_beat = byte_rotate_left(m, name, beat, step.place)
        m.d.sync += is_new.eq(fire & step.takes_beat)
        with m.If(fire & step.takes_beat):
            m.d.sync += rotated.eq(turned_beat)
        with m.If(fire):
            m.d.sync += place.eq(step.place)
        with m.If(turned_valid & is_new):
            m.d.sync += before.eq(rotated)
        # What the rotation brought below `place` belongs to the next line; there the line before left its own.
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
