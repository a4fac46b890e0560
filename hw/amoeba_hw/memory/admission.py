"""Admission of operations to the arithmetic, decided a cycle before they are issued."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Admission"]


class Admission(wiring.Component):
    """Keeps operations from using one resource in one cycle: the commit, the adders, the pipeline's input.

    A reservation table, looked at one cycle ahead and for both operations that may be next then.

    Parameters
    ----------
    uses : dict of str to dict of str to set of int
        Per kind of operation, and per resource: in which cycles after its issue the kind uses it.

    Members
    -------
    kinds : array of two, In(StructLayout of a bit per kind)
        One-hot, or zero: of the operation that might be issued, and of the one behind it.
    issue : in
        The first of them is issued in this cycle.
    blocked : array of two, out
        Of each, in the same cycle: it cannot be issued in the next cycle. That of the second is as if the first
        were not issued.
    hinders : out
        If the first is issued in this cycle, the second cannot be in the next one. Neither depends on ``issue``.
    """

    def __init__(self, uses):
        self._uses = uses
        kind = data.StructLayout(dict.fromkeys(uses, 1))
        super().__init__(
            {
                "kinds": In(kind).array(2),
                "issue": In(1),
                "blocked": Out(1).array(2),
                "hinders": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        blocked = [[], []]
        hinders = []
        for thing in sorted({thing for uses in self._uses.values() for thing, when in uses.items() if when}):
            cycles = {kind: uses[thing] for kind, uses in self._uses.items() if uses.get(thing)}
            length = 1 + max(max(uses) for uses in cycles.values())
            if length == 1:
                # In use only as something is issued, and no two operations are at once.
                continue
            # Bit n: in use in n cycles, by what was issued before; and by the operation that might be issued.
            taken = Signal(length, name=f"{thing}_taken")
            wanted = Cat(self._any(0, cycles, {cycle}) for cycle in range(length))
            m.d.sync += taken.eq((taken | Mux(self.issue, wanted, 0)) >> 1)
            for cycle in range(length - 1):
                for index in range(2):
                    blocked[index].append(self._any(index, cycles, {cycle}) & taken[cycle + 1])
                hinders.append(self._any(1, cycles, {cycle}) & wanted[cycle + 1])
        m.d.comb += [self.blocked[index].eq(Cat(blocked[index]).any()) for index in range(2)]
        m.d.comb += self.hinders.eq(Cat(hinders).any())
        return m

    def _any(self, index, cycles, when):
        """Whether the operation uses the resource in one of these cycles after its issue."""
        return Cat(self.kinds[index][kind] for kind, uses in cycles.items() if uses & when).any()
