"""All products of a beat, of integers and of floating-point numbers."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.atomic.control import FORMATS, Control
from amoeba_hw.atomic.float_multiply import FloatFactors, FloatProduct
from amoeba_hw.atomic.multiply import SegmentedMultiplier
from amoeba_hw.atomic.slots import SLOT_BITS, slots_of
from amoeba_hw.atomic.sums import LAYOUT, chosen_for
from amoeba_hw.stages import delayed, registered

__all__ = ["Products"]

_LANE = 64
_SLOTS = _LANE // SLOT_BITS


class Products(wiring.Component):
    """Multiplies the numbers of two beats; a beat per cycle.

    Of 8-bit floating-point numbers only every other one is multiplied: the lower byte of each 16 bits, the upper
    one returns zero. The multiplier arrays, one per 64 bits, serve integers and significands alike.

    Parameters
    ----------
    data_width : int
    datatypes : iterable of Datatype

    Members
    -------
    control : In(Control)
        Its ``component``, ``floating`` and ``float_format``.
    a, b : In(data_width)
    result : Out(data_width)
        Floating-point products, ``LATENCY`` cycles later.
    integers : Out(2 * data_width)
        From every 64 bits of a and b, 128 bits as SegmentedMultiplier has it, ``INTEGER_LATENCY`` cycles later.
    integer_size : Out
        One-hot, the size of the numbers in ``integers``.

    Attributes
    ----------
    factors : dict
        By the slot's index, the FloatFactors: what they find out about the numbers is of use to others.
    """

    INTEGER_LATENCY = FloatFactors.EXPECTATION_LATENCY
    LATENCY = INTEGER_LATENCY + FloatProduct.LATENCY + 1

    def __init__(self, data_width, datatypes):
        self._slots = slots_of(data_width, datatypes)
        super().__init__(
            {
                "control": In(Control),
                "a": In(data_width),
                "b": In(data_width),
                "result": Out(data_width),
                "integers": Out(2 * data_width),
                "integer_size": Out(SegmentedMultiplier.SIZE),
            }
        )
        self.factors = {slot.index: FloatFactors(slot.formats, LAYOUT) for slot in self._slots}

    def elaborate(self, platform):
        m = Module()
        component = self.control.component
        size = Cat(
            component.b1 & ~self.control.floating,
            component.b2 | (component.b1 & self.control.floating),
            component.b4,
            component.b8 | component.b16 | component.x87,
        )
        sizes = delayed(m, "size", size, self.INTEGER_LATENCY)
        formats = delayed(m, "float_format", self.control.float_format.as_value(), self.INTEGER_LATENCY)
        raw = delayed(m, "raw", Cat(self.a, self.b), FloatFactors.LATENCY)[-1]
        chosen = self.control.float_format
        if len({f.name for slot in self._slots for f in slot.formats}) == 1:
            # The control would have to reach every bit of the numbers only to mask what nobody sees.
            chosen = dict.fromkeys(FORMATS, Const(1, 1))
        for slot in self._slots:
            m.submodules[f"factors_{slot.index}"] = factors = self.factors[slot.index]
            part = slice(slot.first, slot.first + slot.width)
            m.d.comb += [
                factors.float_format.eq(chosen_for(slot, chosen)),
                factors.a.eq(self.a[part]),
                factors.b.eq(self.b[part]),
            ]
        place, floating = sizes[FloatFactors.LATENCY], formats[FloatFactors.LATENCY].any()
        lanes = []
        for lane in range(len(self.a) // _LANE):
            m.submodules[f"lane_{lane}"] = multiplier = SegmentedMultiplier()
            for index, port in enumerate((multiplier.a, multiplier.b)):
                register = Signal(_LANE, name=f"lane_{lane}_{index}", reset_less=True)
                m.d.sync += register.eq(
                    Mux(
                        floating,
                        self._place(lane, index, place),
                        raw.word_select(index * len(self.a) // _LANE + lane, _LANE),
                    )
                )
                m.d.comb += port.eq(register)
            m.d.comb += multiplier.size.eq(sizes[FloatFactors.LATENCY + 1])
            lanes.append(multiplier.product)
        m.d.comb += [self.integers.eq(Cat(lanes)), self.integer_size.eq(sizes[-1])]
        self._round(m, lanes, sizes[-1], data.View(LAYOUT, formats[-1]))
        return m

    def _place(self, lane, index, size):
        """Place the significands of a or b, each left-aligned in the 16, 32 or 64 bits that its size gives it."""
        placed = Const(0, _LANE)
        for slot in self._slots:
            if slot.index // _SLOTS == lane:
                significand = self.factors[slot.index].significands[index]
                aligned = Cat(Const(0, _LANE - len(significand)), significand)
                for select, bits in enumerate((16, 32, 64), start=1):
                    if slot.first % bits == 0:
                        part = aligned[-bits:] & size[select].replicate(bits)
                        placed = placed | Cat(Const(0, slot.first % _LANE), part)
        return placed

    def _round(self, m, lanes, size, float_format):
        result = Const(0, len(self.result))
        for slot in self._slots:
            lane, first = lanes[slot.index // _SLOTS], 2 * (slot.first % _LANE)
            product = Const(0, 128)
            for select, bits in enumerate((32, 64, 128), start=1):
                if first % bits == 0:
                    product = product | Cat(
                        Const(0, 128 - bits), lane[first : first + bits] & size[select].replicate(bits)
                    )
            m.submodules[f"product_{slot.index}"] = unit = FloatProduct(slot.formats, LAYOUT)
            m.d.comb += [
                unit.float_format.eq(chosen_for(slot, float_format)),
                unit.expectation.eq(self.factors[slot.index].expectation),
                unit.product.eq(product),
            ]
            result = result | Cat(Const(0, slot.first), unit.result)
        m.d.comb += self.result.eq(registered(m, "rounded", result))
