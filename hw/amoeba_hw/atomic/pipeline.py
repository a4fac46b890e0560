"""The arithmetic that takes more than one cycle."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.opcodes import Datatype, Op

from amoeba_hw.atomic.control import Control, check_datatypes, component_of, restrict
from amoeba_hw.atomic.partial_products import COMPLEX_PARTS, PartialProducts, exchange_neighbours, pairs_of
from amoeba_hw.atomic.products import Products
from amoeba_hw.atomic.recovery import Recovery, part_of
from amoeba_hw.atomic.schedule import LATENCIES, NUMBERS_SHOWN, PARTS_ADDED, TWICE, Schedule, kind_of
from amoeba_hw.atomic.sums import FloatSums
from amoeba_hw.atomic.wide_products import WideProducts, wide_product_signature
from amoeba_hw.stages import delayed, registered

__all__ = ["ArithmeticPipeline"]


_WIDE_CONTROL = Control.const(
    {
        "floating": 1,
        "component": {component_of(Datatype.FI_LONG_DOUBLE_COMPLEX): 1},
        "float_format": {WideProducts.FORMAT.name: 1},
    }
)
"""Controls of the products and sums for parts of numbers that are twice as wide as a beat."""


class ArithmeticPipeline(wiring.Component):
    """Executes the ``pipelined`` cells on every element of a beat.

    ::

        target, operand --+-> products --+--> merge -----------+
                          |              +--> parts --+        |
                          +---------------------------+-> sums -> mux -> result

    A beat enters with ``i_valid``, and its result leaves ``latency(op, datatype)`` cycles later.
    Kinds of different latency overtake each other; ``busy`` says when results would be in each other's way.

    Products of complex numbers that are twice as wide as a beat may pass through the same units (WideProducts).

    ====================================  =======  ===================
    beat of                               latency  cycles at the input
    ====================================  =======  ===================
    sums, real and complex                      6                    1
    sums of 8-bit numbers                       8                    2
    integer products to 64 bits                10                    1
    128-bit integer products                   11                    2
    real products                              14                    1
    products of 8-bit numbers                  15                    2
    complex products                           22                    2
    ====================================  =======  ===================

    Parameters
    ----------
    data_width : int
        Bits of a beat: 128, 256 or 512.
    datatypes : iterable of Datatype
        Datatypes to build; a datatype wider than a beat is refused.
    ops : iterable of Op
        Operations to build.
    wide_products : bool
        Build products of FI_LONG_DOUBLE_COMPLEX on a datapath of 128 bits. FI_LONG_DOUBLE must be among the
        datatypes, and FI_PROD among the operations.

    Members
    -------
    control : In(Control)
        From DecodeOperation, registered; in the cycle before the beat.
    operand : In(data_width)
        In the cycle before, too.
    i_valid : In(1)
        Only while not ``busy``.
    target : In(data_width)
    forward : In(data_width // 8)
        In the cycle before: bytes of the target that the result has that leaves as the beat enters.
    busy : Out(1)
        A beat of the ``control`` of the cycle before cannot enter in this one; does not depend on ``i_valid``.
    o_valid : Out(1)
    result : Out(data_width)
    wide : wide_product_signature(data_width)
        With ``wide_products`` only. The user that starts a product keeps to ``WIDE_USES``, since ``busy`` ignores it.
    """

    LATENCY = max(LATENCIES.values())

    def __init__(self, data_width, datatypes=tuple(Datatype), ops=tuple(Op), wide_products=False):
        self._datatypes = tuple(datatypes)
        self._ops = tuple(ops)
        check_datatypes(data_width, self._datatypes)
        self._wide = WideProducts(data_width) if wide_products else None
        wide = {"wide": In(wide_product_signature(data_width))} if wide_products else {}
        super().__init__(
            wide
            | {
                "i_valid": In(1),
                "control": In(Control),
                "target": In(data_width),
                "operand": In(data_width),
                "forward": In(data_width // 8),
                "busy": Out(1),
                "o_valid": Out(1),
                "result": Out(data_width),
            }
        )
        self._forwarded = Signal(data_width // 8, reset_less=True)
        self._operand = Signal(data_width, reset_less=True)
        self._target = Signal(data_width)
        """The whole target."""

    @staticmethod
    def latency(op: Op, datatype: Datatype) -> int:
        """Cycles from the entry of a beat to its result."""
        return LATENCIES[kind_of(op, datatype)]

    def elaborate(self, platform):
        m = Module()
        next_control = restrict(m, self.control, self._datatypes, self._ops)
        control = Signal(Control)
        m.d.sync += [control.eq(next_control), self._operand.eq(self.operand)]
        m.submodules.schedule = schedule = Schedule()
        m.d.comb += [
            schedule.i_valid.eq(self.i_valid),
            schedule.control.eq(control),
            self.busy.eq(schedule.busy),
            self.o_valid.eq(schedule.o_valid),
        ]
        events = self._events(m, control, schedule.issue)
        products = self._products(m, control, schedule.issue)
        merged = Signal(len(self.result), reset_less=True)
        direct, next_direct = Signal(), Signal()
        sums = self._sums(m, next_control, control, schedule.issue, events, products, next_direct, merged)
        if self._wide:
            self._elaborate_wide(m, products, sums)
        # The units compute whatever stands at the input, so that they need not wait for `i_valid`; what nobody asked
        # for, and the lower halves of 8-bit sums, leave them unseen.
        m.d.sync += [
            merged.eq(self._merge(m, events, products, sums)),
            direct.eq(next_direct),
            self._forwarded.eq(self.forward),
        ]
        forwarded = _bits(self._forwarded)
        m.d.comb += [
            next_direct.eq(Cat(events[kind][LATENCIES[kind] - 1] for kind in ("add", "multiply_complex")).any()),
            self.result.eq(Mux(direct, sums.result, merged)),
            self._target.eq((self.target & ~forwarded) | (self.result & forwarded)),
        ]
        return m

    def _events(self, m, control, issue):
        """Bit n of ``events[kind]``: a beat of this kind entered n cycles ago; complex ones by part, too."""
        complex_kinds = {name: issue.multiply_complex & control.component[name] for name in COMPLEX_PARTS}
        events = {}
        for kind, now in ({name: issue[name] for name in LATENCIES} | complex_kinds).items():
            past = Signal(max(LATENCIES.values()), name=f"{kind}_past")
            events[kind] = Cat(now, past)
            m.d.sync += past.eq(events[kind])
        return events

    def _products(self, m, control, issue):
        """Their operands pass a register first: those of a chain come from as far as another result."""
        m.submodules.products = products = Products(len(self.target), self._datatypes)
        again = Signal()
        again_control = Signal.like(products.control, reset_less=True)
        again_a = Signal.like(self.target, reset_less=True)
        again_b = Signal.like(self.target, reset_less=True)
        m.d.sync += [
            again.eq(Cat(issue[kind] for kind in TWICE if kind != "add_bytes").any()),
            again_control.eq(control),
            again_a.eq(
                Mux(
                    control.component.b1,
                    self._target >> 8,
                    Mux(control.component.b16, exchange_neighbours(self._target, 8), self._target),
                )
            ),
            again_b.eq(Mux(control.component.b1, self._operand >> 8, self._operand)),
        ]
        for name, size in COMPLEX_PARTS.items():
            with m.If(control.complex & control.component[name]):
                m.d.sync += again_b.eq(exchange_neighbours(self._operand, size))
        if self._wide:
            with m.If(self._wide.multiplies):
                m.d.sync += [
                    again.eq(1),
                    again_control.eq(_WIDE_CONTROL),
                    again_a.eq(self._wide.factors[0]),
                    again_b.eq(self._wide.factors[1]),
                ]
        for port, first, second in (
            (products.control, control, again_control),
            (products.a, self._target, again_a),
            (products.b, self._operand, again_b),
        ):
            register = Signal.like(port, reset_less=True)
            m.d.sync += register.eq(Mux(again, second, first))
            m.d.comb += port.eq(register)
        return products

    def _sums(self, m, next_control, control, issue, events, products, next_direct, merged):
        """Add beats that just entered, the other halves of 8-bit numbers, and partial products.

        All that chooses among them is known a cycle before: where a result is waited for, nothing but the result is
        missing.
        """
        m.submodules.sums = sums = FloatSums(len(self.target), self._datatypes)
        partial = self._partial_products(m, events, products)
        everywhere = len(sums.subtract)
        later, parts_arrive = Signal(), partial.component.as_value().any()
        m.d.comb += later.eq(issue.add_bytes | parts_arrive | (self._wide.adds if self._wide else 0))
        later_a = Signal.like(self.target, reset_less=True)
        b = Signal.like(self.target, reset_less=True)
        float_format = Signal.like(sums.float_format, reset_less=True)
        subtract = Signal.like(sums.subtract, reset_less=True)
        m.d.sync += [
            later_a.eq(0),
            b.eq(self.operand),
            float_format.eq(next_control.float_format),
            subtract.eq(next_control.subtract.replicate(everywhere)),
        ]
        with m.If(issue.add_bytes):
            m.d.sync += [
                later_a.eq(self._target >> 8),
                b.eq(self._operand >> 8),
                float_format.eq(control.float_format),
                subtract.eq(control.subtract.replicate(everywhere)),
            ]
        with m.If(parts_arrive):
            m.d.sync += [later_a.eq(partial.a), b.eq(partial.b), float_format.eq(0)]
        for pair in pairs_of(len(self.target), self._datatypes):
            with m.If(partial.component[pair.component]):
                m.d.sync += [
                    float_format[pair.float_format.name].eq(1),
                    subtract[pair.real].eq(1),
                    subtract[pair.imaginary].eq(0),
                ]
        if self._wide:
            with m.If(self._wide.adds):
                m.d.sync += [
                    later_a.eq(self._wide.addends[0]),
                    b.eq(self._wide.addends[1]),
                    float_format.eq(_WIDE_CONTROL.float_format),
                    subtract.eq(self._wide.subtracts.replicate(everywhere)),
                ]
        a = later_a
        for name, value, bytes_of_it in (
            ("target", self.target, ~self.forward),
            ("sums", sums.result, self.forward & next_direct.replicate(len(self.forward))),
            ("merged", merged, self.forward & (~next_direct).replicate(len(self.forward))),
        ):
            chosen = registered(m, f"from_{name}", bytes_of_it & (~later).replicate(len(self.forward)))
            a = a | (value & _bits(chosen))
        m.d.comb += [sums.a.eq(a), sums.b.eq(b), sums.subtract.eq(subtract), sums.float_format.eq(float_format)]
        return sums

    def _partial_products(self, m, events, products):
        m.submodules.partial_products = partial = PartialProducts(len(self.target), self._datatypes)
        m.d.comb += partial.products.eq(products.result)
        for name in COMPLEX_PARTS:
            m.d.comb += partial.component[name].eq(events[name][PARTS_ADDED - 1])
        for index, pair in enumerate(pairs_of(len(self.target), self._datatypes)):
            m.submodules[f"recovery_{index}"] = recovery = Recovery()
            numbers = [products.factors[slot].numbers for slot in (pair.real, pair.imaginary)]
            for part, number in (
                (recovery.a, numbers[0][0]),
                (recovery.b, numbers[1][0]),
                (recovery.c, numbers[0][1]),
                (recovery.d, numbers[1][1]),
            ):
                m.d.comb += part.as_value().eq(part_of(number, pair.float_format.precision))
            waits = PARTS_ADDED - 1 - NUMBERS_SHOWN - Recovery.LATENCY
            m.d.comb += partial.outcomes[index].eq(delayed(m, f"outcome_{index}", recovery.outcome, waits)[-1])
        return partial

    def _elaborate_wide(self, m, products, sums):
        m.submodules.wide = wide = self._wide
        wiring.connect(m, wiring.flipped(self.wide), wide.asked)
        numbers = products.factors[0].numbers
        m.d.comb += [
            wide.product.eq(products.result),
            wide.sum.eq(sums.result),
            *(wide.parts[index].as_value().eq(part_of(numbers[index], wide.FORMAT.precision)) for index in range(2)),
        ]

    def _merge(self, m, events, products, sums):
        """Everything but the sums of one cycle, one cycle before it is the result."""
        previous_product = registered(m, "previous_product", products.result)
        previous_sum = registered(m, "previous_sum", sums.result)
        previous_integers = registered(m, "previous_integers", products.integers)
        merged = Const(0, len(self.result))
        for kind, value in (
            ("multiply", products.result),
            ("multiply_bytes", previous_product | (products.result << 8)),
            ("add_bytes", previous_sum | (sums.result << 8)),
            ("multiply_integer", _lower_halves(products.integers, products.integer_size)),
            ("multiply_wide", _wide_products(previous_integers, products.integers)),
        ):
            leaves = events[kind][LATENCIES[kind] - 1]
            merged = merged | (value[: len(self.result)] & leaves.replicate(len(self.result)))
        return merged


def _bits(strobe):
    """Eight bits for each of the strobe's."""
    return Cat(bit.replicate(8) for bit in strobe)


def _lower_halves(products, size):
    """From double-length products, side by side, products of the operands' size."""
    lanes = []
    for first in range(0, len(products), 128):
        lane = products[first : first + 128]
        halves = Const(0, 64)
        for name, bits in (("b1", 64), ("b2", 16), ("b4", 32), ("b8", 64)):
            half = Cat(lane[2 * start : 2 * start + bits] for start in range(0, 64, bits))
            halves = halves | (half & size[name].replicate(64))
        lanes.append(halves)
    return Cat(lanes)


def _wide_products(first, second):
    """From a0*b0 in the even lanes, then a1*b0 and a0*b1 in both: the lower 128 bits of a*b."""
    words = []
    for start in range(0, len(first), 256):
        low, cross = first[start : start + 128], second[start : start + 256]
        words.append(Cat(low[:64], (low[64:] + cross[:64] + cross[128:192])[:64]))
    return Cat(words)
