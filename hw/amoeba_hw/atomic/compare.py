"""How the numbers of the target relate to others, turned straight into one flag each."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.atomic.formats import is_float

from amoeba_hw.atomic.control import Control, restrict
from amoeba_hw.atomic.prepare import prepared_operands
from amoeba_hw.atomic.segments import SegmentedAdder

__all__ = ["Compare"]

_BYTES_PER_CHAIN = 8
"""Carry chains twice as long would be slower than putting 16-byte numbers together from two."""


class Compare(wiring.Component):
    """Raises the flag of every number of the target whose relation to another one asks for it; combinational.

    Carry chains do all that looks at many bits: one tells whether the target is above, one whether it is not
    below, and one whether it is a NaN, which is to say above infinity. A multiplexer per number follows, which
    chooses between the answers that PrepareOperands has worked out.

    Parameters
    ----------
    data_width : int
    datatypes : iterable of Datatype
    ops : iterable of Op

    Members
    -------
    control : In(Control)
    prepared : In(prepared_operands(data_width))
    target : In(data_width)
    magnitudes : In(data_width)
        ``prepare.magnitudes`` of both.
    flags : Out(data_width // 8)
        Bit n: of the number whose top byte is n; zero where none ends.
    """

    def __init__(self, data_width, datatypes, ops):
        self._datatypes = datatypes
        self._ops = ops
        super().__init__(
            {
                "control": In(Control),
                "prepared": In(prepared_operands(data_width)),
                "target": In(data_width),
                "magnitudes": In(data_width),
                "flags": Out(data_width // 8),
            }
        )

    def elaborate(self, platform):
        m = Module()
        control = restrict(m, self.control, self._datatypes, self._ops)
        prepared = self.prepared
        above = self._chain(m, "above", self.magnitudes, prepared.other, 0)
        not_below = self._chain(m, "not_below", self.magnitudes, prepared.other, 1)
        nans = self._nans(m, control)
        for byte in range(len(self.flags)):
            sign = self.target[8 * byte + 7]
            if_above, if_equal, if_below = (
                Mux(sign, answers[2 * byte + 1], answers[2 * byte])
                for answers in (prepared.if_above, prepared.if_equal, prepared.if_below)
            )
            is_above, is_not_below = above[byte], not_below[byte]
            if byte % 16 in (9, 15):
                # Where the upper parts are equal, the lower ones decide.
                lower = byte - byte % 16 + 7
                wide = control.component.x87 if byte % 16 == 9 else control.component.b16
                is_above = above[byte] | (wide & not_below[byte] & above[lower])
                is_not_below = not_below[byte] & (~wide | above[byte] | not_below[lower])
            raised = Mux(is_above, if_above, Mux(is_not_below, if_equal, if_below))
            m.d.comb += self.flags[byte].eq(raised & ~nans[byte])
        return m

    def _chain(self, m, name, magnitudes, complement, carry_in):
        """One flag per number: greater than what there is the complement of, or, with the carry, not less.

        Of 16-byte numbers, the upper part alone decides, save if it is equal.
        """
        m.submodules[name] = chain = SegmentedAdder(len(magnitudes), _BYTES_PER_CHAIN)
        m.d.comb += [
            chain.a.eq(magnitudes),
            chain.b.eq(complement),
            chain.starts.eq(self.prepared.starts if carry_in else ~self.prepared.continues),
            chain.carry_in.eq(carry_in),
        ]
        return chain.carries

    def _nans(self, m, control):
        """One flag per number: a NaN that has to be told from numbers."""
        nans = Signal(len(self.flags))
        if not any(is_float(datatype) for datatype in self._datatypes):
            return nans
        # NaNs have their exponents compared whole.
        lowest = range(64, len(self.target), 128)
        whole = Cat(
            (self.target if position in lowest else self.magnitudes)[position] for position in range(len(self.target))
        )
        beyond = self._chain(m, "beyond", whole, self.prepared.limit, 0)
        m.d.comb += nans.eq(beyond)
        for group in range(len(self.prepared.smallest)):
            integer = self.target[128 * group + 63]
            exponent = self.target[128 * group + 64 : 128 * group + 79]
            invalid = self.prepared.check_encoding & ~integer & exponent.any()
            lower, upper = 16 * group + 7, 16 * group + 9
            with m.If(control.component.x87):
                m.d.comb += nans[upper].eq((beyond[upper] & beyond[lower]) | invalid)
        return nans
