"""The two ways through a request: line by line, and element by element."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.parameters import NicParameters

from amoeba_hw.memory.operations import line_address_bits

__all__ = ["STEP", "ElementAddresses", "LineAddresses"]

ELEMENT_BYTES = 32
"""The widest element, FI_LONG_DOUBLE_COMPLEX."""


def STEP(parameters: NicParameters) -> data.StructLayout:
    """Return the layout of a step: members as in line_operation, and the fate of the operand beat on offer."""
    offset_bits = line_address_bits(parameters)
    return data.StructLayout(
        {
            "line": 64 - offset_bits,
            "touches": 1,
            "offset": offset_bits,
            "count": offset_bits + 1,
            "takes_beat": 1,  # needs the operand beat on offer
            "drops_beat": 1,  # and is the last to need it
            "place": offset_bits,  # bytes that the operand beat turns left
            "gather": 1,
            "compute": 1,
            "scatter": 1,
            "starts_element": 1,
            "settle": 1,
            "half": 1,
            "turn": offset_bits,
            "result_last": 1,
            "finishes": 1,
        }
    )


class LineAddresses(wiring.Component):
    """Goes through the bytes from ``address`` line by line, through those of one request after the other.

    Everything about the step on offer is in registers, most of all that it is the last one: logic that moves with it
    need not wait for a difference of lengths.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    address, length : in
        The request that comes next.
    starts : in
        The next step is that request's first; otherwise the one after the step on offer.
    advance : in
        In the next cycle, the next step is on offer. ``starts`` is known sooner.
    step : out
        The step with ``finishes`` set is the last one.
    """

    def __init__(self, parameters: NicParameters):
        self._parameters = parameters
        super().__init__(
            {
                "address": In(64),
                "length": In(14),
                "starts": In(1),
                "advance": In(1),
                "step": Out(STEP(parameters)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        step = self.step
        beat_bytes = self._parameters.beat_bytes
        offset_bits = line_address_bits(self._parameters)
        # The end of the bytes that remain, counted from the line's first: to count lines down changes no low bits.
        line, end = Signal(64 - offset_bits), Signal(15)
        offset, place = Signal(offset_bits), Signal(offset_bits)
        touches, last, takes = Signal(), Signal(), Signal()
        first_offset, first_space = self.address[:offset_bits], Signal(offset_bits + 1)
        m.d.comb += [
            first_space.eq(beat_bytes - first_offset),
            step.line.eq(line),
            step.touches.eq(touches),
            step.offset.eq(offset),
            step.place.eq(place),
            step.count.eq(Mux(last, end[: offset_bits + 1], beat_bytes) - offset),
            step.takes_beat.eq(takes),
            step.drops_beat.eq(takes),
            # Elements of two lines, if that is what the request is made of: before the second an odd number remain.
            step.half.eq(end[offset_bits]),
            step.result_last.eq(last),
            step.finishes.eq(last),
        ]
        with m.If(self.advance):
            m.d.sync += [
                line.eq(Mux(self.starts, self.address[offset_bits:], line + 1)),
                offset.eq(Mux(self.starts, first_offset, 0)),
                end.eq(Mux(self.starts, self.length + first_offset, end - beat_bytes)),
                last.eq(Mux(self.starts, self.length <= first_space, end <= 2 * beat_bytes)),
                # The last line may do with what the beat before left over.
                takes.eq(Mux(self.starts, self.length != 0, end > beat_bytes + place)),
            ]
            with m.If(self.starts):
                m.d.sync += [place.eq(first_offset), touches.eq(self.length != 0)]
        return m


class ElementAddresses(wiring.Component):
    """Goes through misaligned elements: gathers the parts of one, computes, scatters the parts of the result.

    Parts end where lines end, and at the half of an element that is wider than a beat. Such an element is
    computed in two steps, one for each beat of its operands.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    address, length : in
        The request; must hold from its first step to its last. ``length`` is a positive multiple of ``size``.
    size : in
        Bytes per element: a power of two.
    starts : in
        In the next cycle, the first step of the request is on offer.
    advance : in
        The step on offer is taken.
    step : out
        The step with ``finishes`` set is the last one.
    """

    def __init__(self, parameters: NicParameters):
        self._parameters = parameters
        super().__init__(
            {
                "address": In(64),
                "length": In(14),
                "size": In(6),
                "starts": In(1),
                "advance": In(1),
                "step": Out(STEP(parameters)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        step = self.step
        offset_bits = line_address_bits(self._parameters)
        before = Signal(14)  # bytes of the elements that are finished
        done = Signal(6)  # bytes of this element that this phase has dealt with
        offset, count, element_ends = self._measure(m, done)
        cursor = Signal(64)
        m.d.comb += [
            cursor.eq(self.address + before + done),
            step.line.eq(cursor[offset_bits:]),
            step.offset.eq(Mux(step.compute, 0, offset)),
            step.count.eq(count),
            step.touches.eq(~step.compute),
            step.half.eq(done[offset_bits:].any() if offset_bits < 5 else 0),
            step.turn.eq(done[:offset_bits] - offset),
            step.starts_element.eq(done == 0),
        ]
        last_element, ends_beat = Signal(), Signal()
        after = Signal(14)
        m.d.comb += after.eq(before + self.size)
        # Nobody asks for these in the first cycle of an element, whose step is one that gathers. An element wider
        # than a beat ends one, and drops one with each of its steps that compute.
        m.d.sync += [
            last_element.eq(after == self.length),
            ends_beat.eq((after == self.length) | ~after[:offset_bits].any()),
        ]
        m.d.comb += [
            step.takes_beat.eq(step.compute),
            # The operand of element n of a beat turns right to the beat's start.
            step.place.eq(-(before + done)[:offset_bits]),
            step.drops_beat.eq(step.compute & ends_beat),
            step.result_last.eq(step.compute & element_ends & last_element),
            step.finishes.eq(step.scatter & element_ends & last_element),
        ]
        with m.FSM():
            with m.State("Gather"):
                m.d.comb += step.gather.eq(1)
                with m.If(self.advance & element_ends):
                    m.next = "Compute"
            with m.State("Compute"):
                m.d.comb += [step.compute.eq(1), step.settle.eq(done == 0)]
                with m.If(self.advance & element_ends):
                    m.next = "Scatter"
            with m.State("Scatter"):
                m.d.comb += [step.scatter.eq(1), step.settle.eq(done == 0)]
                with m.If(self.advance & element_ends):
                    m.d.sync += before.eq(Mux(last_element, 0, after))
                    m.next = "Gather"
        return m

    def _measure(self, m, done):
        """Keep account of where the element's bytes are; return the place and size of this step's.

        Offset in the line and bytes left are registers instead of differences between the cursor's, so that
        ``space``, and whether it is enough, is known early in the cycle.
        """
        step = self.step
        offset_bits = line_address_bits(self._parameters)
        beat_bytes = self._parameters.beat_bytes
        offset, left = Signal(offset_bits), Signal(6)
        space, count = Signal(offset_bits + 1), Signal(offset_bits + 1)
        element_ends = Signal()
        in_half = done[:offset_bits]
        m.d.comb += [
            # Bytes left in the line, and in this half of the element.
            space.eq(beat_bytes - Mux(step.compute | (in_half > offset), in_half, offset)),
            # The rest of the element fits ``space``; written so that it need not wait for the smaller of the two.
            element_ends.eq((left + in_half <= beat_bytes) & (step.compute | (left + offset <= beat_bytes))),
            count.eq(Mux(element_ends, left[: offset_bits + 1], space)),
        ]
        with m.If(self.advance):
            m.d.sync += [
                done.eq(Mux(element_ends, 0, done + count)),
                left.eq(Mux(element_ends, self.size, left - count)),
            ]
            with m.If(step.gather & element_ends):
                m.d.sync += offset.eq(offset - done)
            with m.Elif(~step.compute):
                m.d.sync += offset.eq(offset + count)
        with m.If(self.starts):
            m.d.sync += [offset.eq(self.address[:offset_bits]), left.eq(self.size)]
        return offset, count, element_ends
