"""Admission: two operations never use one resource in one cycle, and none waits without need."""

from amaranth.hdl import Assert, Assume, Cat, Const, Cover, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from amoeba_hw.memory.admission import Admission

from tests.formal.rules import never_reset

__all__ = ["AdmissionSpec"]

_USES = {
    "at_once": {"result": {0}},
    "sum": {"result": {2}, "adder": {0}, "input": {0}},
    "twice": {"result": {3}, "adder": {0, 1}, "input": {0, 1}},
    "product": {"result": {4}, "adder": {2}, "input": {0, 1}},
    "halves": {"result": {2, 3}},
}
"""As the kinds of the arithmetic, but sooner over."""


class AdmissionSpec(wiring.Component):
    """Admission as the executor uses it, next to a list of what was issued in the last cycles.

    ``next_kind`` is that of the operation behind the one that might be issued, else 0.
    """

    def __init__(self):
        super().__init__({"next_kind": In(range(len(_USES) + 1)), "wants": In(1)})

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.dut = dut = Admission(_USES)
        kind, allowed, moves = Signal.like(self.next_kind), Signal(), Signal()
        issued = Signal()
        m.d.comb += [
            Assume(self.next_kind <= len(_USES)),
            dut.kinds[0].eq(_one_hot(kind)),
            dut.kinds[1].eq(_one_hot(self.next_kind)),
            issued.eq((kind != 0) & allowed & self.wants),
            dut.issue.eq(issued),
            moves.eq((kind == 0) | issued),
        ]
        m.d.sync += allowed.eq(~Mux(moves, dut.blocked[1] | (issued & dut.hinders), dut.blocked[0]))
        with m.If(moves):
            m.d.sync += kind.eq(self.next_kind)

        length = max(max(times) for uses in _USES.values() for times in uses.values())
        past = [Signal.like(kind, name=f"issued_{age}_ago") for age in range(1, length + 1)]
        for before, after in zip([Mux(issued, kind, 0), *past], past, strict=False):
            m.d.sync += after.eq(before)
        collides = Cat(
            (kind == number) & (earlier == other)
            for number, uses in enumerate(_USES.values(), 1)
            for other, other_uses in enumerate(_USES.values(), 1)
            for age, earlier in enumerate(past, 1)
            if any(time + age in other_uses.get(thing, ()) for thing, times in uses.items() for time in times)
        )
        started = Signal()
        m.d.sync += started.eq(1)
        m.d.comb += [
            Assert(~started | (kind == 0) | (allowed == ~collides.any())),
            Cover(issued & (kind == 2) & (past[2] == 4)),
        ]
        return m


def _one_hot(number):
    return (Const(1, len(_USES) + 1) << number)[1 : len(_USES) + 1]
