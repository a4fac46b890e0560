"""Schedule of the arithmetic pipeline: when a beat may enter, and when its result leaves."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.atomic.formats import is_complex, is_float
from amoeba_model.opcodes import Datatype, Op

from amoeba_hw.atomic.control import Control

__all__ = [
    "LATENCIES",
    "NUMBERS_SHOWN",
    "USES",
    "WIDE_INPUTS",
    "WIDE_PARTS_ADDED",
    "WIDE_RESULTS",
    "WIDE_USES",
    "Kind",
    "Schedule",
    "kind_of",
]

LATENCIES = {
    "add": 6,
    "add_bytes": 8,
    "multiply_integer": 10,
    "multiply_wide": 11,
    "multiply": 14,
    "multiply_bytes": 15,
    "multiply_complex": 22,
}
"""Cycles from issue to result, per kind of beat."""

TWICE = ("add_bytes", "multiply_wide", "multiply_bytes", "multiply_complex")
"""Kinds that pass through the units twice, in two consecutive cycles."""

PARTS_ADDED = LATENCIES["multiply_complex"] - LATENCIES["add"]
"""Cycles from issue to the partial products of a complex product entering the adders."""

NUMBERS_SHOWN = 2
"""Cycles from two factors entering the pipeline until they are there taken apart."""

WIDE_INPUTS = (1, 2, 3, 4)
"""Cycles from the start of a product of complex numbers twice as wide as a beat to its partial products' factors
entering the pipeline: ac, bc, ad, bd."""

# The last product passes a register, as all do that wait for it, and another one as all that goes to the adders.
_WIDE_REAL_PART_ADDED = WIDE_INPUTS[-1] + LATENCIES["multiply"] + 1
WIDE_PARTS_ADDED = (_WIDE_REAL_PART_ADDED, _WIDE_REAL_PART_ADDED + 1)
"""And to its sums' terms entering the adders: the real part's, the imaginary part's."""

WIDE_RESULTS = tuple(cycle + LATENCIES["add"] for cycle in WIDE_PARTS_ADDED)
"""And to its parts leaving the adders."""

# Cycles, counted from issue, in which a beat has a result, and in which it enters the adders.
_RESULT_CYCLES = {kind: {latency} for kind, latency in LATENCIES.items()}
_ADDER_CYCLES = {"add": {0}, "add_bytes": {0, 1}, "multiply_complex": {PARTS_ADDED}}

USES = {
    kind: {
        "result": {latency},
        "adder": _ADDER_CYCLES.get(kind, set()),
        "input": {0, 1} if kind in TWICE else {0},
    }
    for kind, latency in LATENCIES.items()
}
"""Resources that a beat of each kind has for itself, with the cycles after its issue."""

WIDE_USES = {"input": set(WIDE_INPUTS), "adder": set(WIDE_PARTS_ADDED)}
"""The same of a product twice as wide, in which cycles after its start."""

Kind = data.StructLayout(dict.fromkeys(LATENCIES, 1))
"""One-hot: the kind of a beat."""


def kind_of(op: Op, datatype: Datatype) -> str:
    """Return the kind, among ``LATENCIES``, of a pipelined cell."""
    if op is not Op.FI_PROD:
        return "add_bytes" if datatype.size == 1 else "add"
    if is_complex(datatype):
        return "multiply_complex"
    if is_float(datatype):
        return "multiply_bytes" if datatype.size == 1 else "multiply"
    return "multiply_wide" if datatype.size == 16 else "multiply_integer"


class Schedule(wiring.Component):
    """Tells which beats may enter, so that no two results, and no two uses of the adders, fall into one cycle.

    Members
    -------
    i_valid : In(1)
        A beat enters; only while not ``busy``, which takes too long to be asked here as well.
    control : In(Control)
    busy : Out(1)
        A beat of this control cannot enter now. Depends on ``control``, not on ``i_valid``.
    issue : Out(Kind)
        The kind of the beat that enters in this cycle, zero if none does.
    o_valid : Out(1)
        A beat's result leaves in this cycle.
    """

    i_valid: In(1)
    control: In(Control)
    busy: Out(1)
    issue: Out(Kind)
    o_valid: Out(1)

    def elaborate(self, platform):
        m = Module()
        control = self.control
        kind = Signal(Kind)
        bytewise = control.component.b1
        m.d.comb += [
            kind.add.eq(control.add & ~bytewise),
            kind.add_bytes.eq(control.add & bytewise),
            kind.multiply_integer.eq(control.multiply & ~control.floating & ~control.component.b16),
            kind.multiply_wide.eq(control.multiply & ~control.floating & control.component.b16),
            kind.multiply.eq(control.multiply & control.floating & ~control.complex & ~bytewise),
            kind.multiply_bytes.eq(control.multiply & control.floating & bytewise),
            kind.multiply_complex.eq(control.multiply & control.complex),
        ]
        second = Signal()
        conflicts = [second]
        m.d.comb += [self.issue[name].eq(kind[name] & self.i_valid) for name in LATENCIES]
        m.d.sync += second.eq(Cat(self.issue[name] for name in TWICE).any())
        for name, cycles in (("result", _RESULT_CYCLES), ("adder", _ADDER_CYCLES)):
            last = max(max(times) for times in cycles.values())
            taken = Signal(last + 1, name=f"{name}_taken")
            added = Cat(
                Cat(self.issue[k] for k, times in cycles.items() if cycle in times).any() for cycle in range(last + 1)
            )
            m.d.sync += taken.eq((taken | added)[1:])
            conflicts += [kind[k] & Cat(taken[cycle] for cycle in times).any() for k, times in cycles.items()]
        leaves = Signal(max(LATENCIES.values()) + 1)
        m.d.sync += leaves.eq(
            Cat(leaves[1:], Const(0, 1))
            | Cat(
                Cat(self.issue[k] for k, latency in LATENCIES.items() if latency == cycle + 1).any()
                for cycle in range(len(leaves))
            )
        )
        m.d.comb += [self.busy.eq(Cat(conflicts).any()), self.o_valid.eq(leaves[0])]
        return m
