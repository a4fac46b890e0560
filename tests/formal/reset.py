"""Warm reset: one cycle of reset undoes whatever the registers held, power-up state included."""

from amaranth.hdl import Assert, Assume, Module, ResetSignal, Signal, Value
from amaranth.lib import wiring

from tests.formal.rules import connect_ports

__all__ = ["WarmResetSpec"]


class WarmResetSpec(wiring.Component):
    """After one cycle of reset, two copies that woke up in any two states answer alike for ever.

    Their inputs are the same. Payloads are compared while they are valid only, so that data need not be reset;
    a register that matters and is not reset makes the copies differ. To be proven with ``any_power_up``.

    Parameters
    ----------
    build : callable
        Makes the component.
    qualified : dict of str to str
        Output to the one-bit member that says when it means something: by path, joined with dots. Streams need
        no entry.
    assuming : callable, optional
        From the ports to what the component's contract asks of its inputs.
    """

    def __init__(self, build, qualified=None, assuming=None):
        self._assuming = assuming or (lambda ports: 1)
        self._copies = [build(), build()]
        self._qualified = qualified or {}
        super().__init__(self._copies[0].signature)
        # The one register with an initial value; see amoeba_sim.formal.
        self.past_reset = Signal(reset_less=True)

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.past_reset.eq(1)
        m.d.comb += [Assume(ResetSignal() == ~self.past_reset), Assume(self._assuming(self))]
        for name, copy in zip(("one", "other"), self._copies, strict=True):
            m.submodules[name] = copy
        connect_ports(m, self, self._copies[0])
        one, other = (_ports(copy, wiring.Out) for copy in self._copies)
        inputs = _ports(self._copies[0], wiring.In)
        for path, value in _ports(self._copies[1], wiring.In).items():
            m.d.comb += value.eq(inputs[path])
        for path, value in one.items():
            m.d.comb += Assert(~self.past_reset | ~self._means(one, path) | (value == other[path]))
        return m

    def _means(self, outputs, path):
        """When the output at ``path`` means anything."""
        stem, _, member = path.rpartition(".")
        if path in self._qualified:
            return outputs[self._qualified[path]]
        if member == "payload" and f"{stem}.valid" in outputs:
            return outputs[f"{stem}.valid"]
        return 1


def _ports(component, flow):
    return {
        ".".join(str(step) for step in path): Value.cast(value)
        for path, member, value in component.signature.flatten(component)
        if member.flow == flow
    }
