"""All floating-point sums of a beat."""

from amaranth.hdl import Cat, Const, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.atomic.control import FORMATS, Control
from amoeba_hw.atomic.float_add import FloatAdder
from amoeba_hw.atomic.slots import slots_of
from amoeba_hw.stages import registered

__all__ = ["FloatSums"]

LAYOUT = Control.as_shape()["float_format"].shape


class FloatSums(wiring.Component):
    """Adds the numbers of two beats; a beat per cycle, results ``LATENCY`` cycles later.

    Of 8-bit numbers, only every other one is added: the lower byte of each 16 bits, the upper one returns zero.

    Parameters
    ----------
    data_width : int
    datatypes : iterable of Datatype

    Members
    -------
    float_format : In, one-hot
    subtract : In(data_width // 16)
        Bit n: the number that begins at bit 16*n is subtracted.
    a, b : In(data_width)
    result : Out(data_width)
    """

    LATENCY = FloatAdder.LATENCY + 1

    def __init__(self, data_width, datatypes):
        self._slots = slots_of(data_width, datatypes)
        super().__init__(
            {
                "float_format": In(LAYOUT),
                "subtract": In(data_width // 16),
                "a": In(data_width),
                "b": In(data_width),
                "result": Out(data_width),
            }
        )

    def elaborate(self, platform):
        m = Module()
        result = Const(0, len(self.result))
        for slot in self._slots:
            m.submodules[f"slot_{slot.index}"] = unit = FloatAdder(slot.formats, LAYOUT)
            part = slice(slot.first, slot.first + slot.width)
            m.d.comb += [
                unit.float_format.eq(chosen_for(slot, self.float_format)),
                unit.subtract.eq(self.subtract[slot.index]),
                unit.a.eq(self.a[part]),
                unit.b.eq(self.b[part]),
            ]
            result = result | Cat(Const(0, slot.first), unit.result)
        # One register for all, so that those who take the result at once need not put it together.
        m.d.comb += self.result.eq(registered(m, "rounded", result))
        return m


def chosen_for(slot, float_format):
    """Restrict the one-hot format to the formats whose numbers begin at a slot."""
    names = {f.name for f in slot.formats}
    return Cat(float_format[name] if name in names else Const(0, 1) for name in FORMATS)
