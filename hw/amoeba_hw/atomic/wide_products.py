"""Products of complex numbers twice as wide as a beat, by the units for one of their parts."""

from itertools import pairwise

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.atomic.formats import float_format
from amoeba_model.opcodes import Datatype

from amoeba_hw.atomic.partial_products import classify, infinity_of, is_lost
from amoeba_hw.atomic.recovery import PART, Recovery
from amoeba_hw.atomic.schedule import NUMBERS_SHOWN, WIDE_INPUTS, WIDE_PARTS_ADDED, WIDE_RESULTS
from amoeba_hw.stages import delayed, registered

__all__ = ["WideProducts", "wide_product_signature"]


def wide_product_signature(data_width: int) -> wiring.Signature:
    """Return the signature of a product that is twice as wide as a beat: its request and its result.

    Members
    -------
    start : out, pulse
        Not more often than every fourth cycle.
    target, operand : out, array of two beats
        a + bi and c + di; from ``start`` on, c for two cycles, a for three, b and d for four.
    leaves : in
        The ``result`` is the real part (bit 0), or the imaginary part (bit 1), ``WIDE_RESULTS`` cycles after
        ``start``.
    result : in
    """
    beats = data.ArrayLayout(data_width, 2)
    return wiring.Signature(
        {"start": Out(1), "target": Out(beats), "operand": Out(beats), "leaves": In(2), "result": In(data_width)}
    )


class WideProducts(wiring.Component):
    """Multiplies (a + bi)(c + di) by four products and two sums, each of a beat of its own.

    ::

        start + 0    ac      input of the multipliers, a cycle before it enters the pipeline
                1    bc
                2    ad
                3    bd
               18    ac - bd   input of the adders, a cycle before it enters them; or Annex G's value in its place
               19    ad + bc
               25    the real part leaves the adders
               26    the imaginary part

    Members
    -------
    asked : wide_product_signature(data_width)
    multiplies : out
        ``factors`` are to be multiplied.
    factors : out, array of two beats
    parts : in, array of two PART
        Of the factors that entered the pipeline two cycles before.
    product : in, a beat
        Product of earlier factors.
    sum : in, a beat
        Sum of earlier addends.
    adds, subtracts : out
        ``addends`` are to be added, or subtracted.
    addends : out, array of two beats
    """

    FORMAT = float_format(Datatype.FI_LONG_DOUBLE_COMPLEX)

    def __init__(self, data_width):
        beat = data.ArrayLayout(data_width, 2)
        super().__init__(
            {
                "asked": In(wide_product_signature(data_width)),
                "multiplies": Out(1),
                "factors": Out(beat),
                "parts": In(data.ArrayLayout(PART, 2)),
                "product": In(data_width),
                "adds": Out(1),
                "subtracts": Out(1),
                "addends": Out(beat),
                "sum": In(data_width),
            }
        )

    def elaborate(self, platform):
        m = Module()
        asked = self.asked
        past = Signal(max(WIDE_RESULTS))
        events = Cat(asked.start, past)
        m.d.sync += past.eq(events)
        ac, bc, ad, bd = (events[cycle - 1] for cycle in WIDE_INPUTS)
        m.d.comb += [
            self.multiplies.eq(ac | bc | ad | bd),
            self.factors[0].eq(Mux(bc | bd, asked.target[1], asked.target[0])),
            self.factors[1].eq(Mux(ad | bd, asked.operand[1], asked.operand[0])),
            asked.leaves.eq(Cat(events[cycle] for cycle in WIDE_RESULTS)),
            asked.result.eq(self.sum),
        ]
        self._add(m, events, self._recover(m, events))
        return m

    def _recover(self, m, events):
        """Apply Annex G to the numbers, in the cycle in which the adders take the real part's terms."""
        m.submodules.recovery = recovery = Recovery()
        first, last = (WIDE_INPUTS[place] + NUMBERS_SHOWN for place in (0, -1))
        earlier = Signal.like(self.parts, reset_less=True)
        with m.If(events[first]):
            m.d.sync += earlier.eq(self.parts)
        m.d.comb += [
            recovery.a.eq(earlier[0]),
            recovery.c.eq(earlier[1]),
            recovery.b.eq(self.parts[0]),
            recovery.d.eq(self.parts[1]),
        ]
        return delayed(m, "outcome", recovery.outcome, WIDE_PARTS_ADDED[0] - 1 - last - Recovery.LATENCY)[-1]

    def _add(self, m, events, outcome):
        """Send the real part's terms to the adders when the last product has arrived, the others a cycle later."""
        f = self.FORMAT
        # By arrival, the oldest first; with each product its class.
        products = [Signal(f.width, name=f"product_{place}", reset_less=True) for place in range(len(WIDE_INPUTS))]
        classes = [Signal(3, name=f"class_{place}", reset_less=True) for place in range(len(WIDE_INPUTS))]
        newest = self.product[: f.width]
        m.d.sync += [
            *(older.eq(newer) for older, newer in pairwise([*products, newest])),
            *(older.eq(newer) for older, newer in pairwise([*classes, classify(f, newest)])),
        ]
        ac, bc, ad, bd = classes
        lost = Signal()
        m.d.comb += lost.eq(is_lost(ac, bd, ad, bc, outcome))
        still_lost, later = registered(m, "lost", lost), registered(m, "outcome_of_real_part", outcome)
        real, imaginary = (events[cycle - 1] for cycle in WIDE_PARTS_ADDED)
        # All are one place older when it is the imaginary part's turn.
        terms = (
            Mux(imaginary, products[1], products[0]),
            Mux(imaginary, products[0], products[3]),
        )
        instead = Mux(imaginary, infinity_of(f, later, 1), infinity_of(f, outcome, 0))
        recovered = Mux(imaginary, still_lost, lost)
        m.d.comb += [
            self.adds.eq(real | imaginary),
            self.subtracts.eq(real),
            self.addends[0].eq(Mux(recovered, instead, terms[0])),
            self.addends[1].eq(Mux(recovered, 0, terms[1])),
        ]
