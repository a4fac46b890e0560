"""The parts of every specification: the rules of streams, reset, and a look inside a component."""

from amaranth.hdl import Assert, Assume, Const, Fragment, Module, ResetSignal, Signal, Value
from amaranth.lib import wiring

__all__ = ["StreamRules", "connect_ports", "drive_inputs", "never_reset", "open_memory", "open_up"]


class StreamRules(wiring.Component):
    """Once ``valid``, both ``valid`` and the payload hold until the transfer.

    Parameters
    ----------
    watched : stream interface
        Facing either way.
    kind : Assert or Assume
        Assert it of what the component under proof drives, assume it of what drives the component.
    """

    def __init__(self, watched, kind):
        if kind not in (Assert, Assume):
            raise ValueError(f"Expected Assert or Assume, got {kind!r}")
        self._watched = watched
        self._kind = kind
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        payload = Value.cast(self._watched.payload)
        waiting = Signal()
        offered = Signal(len(payload))
        m.d.sync += [waiting.eq(self._watched.valid & ~self._watched.ready), offered.eq(payload)]
        with m.If(waiting):
            m.d.comb += [self._kind(self._watched.valid), self._kind(payload == offered)]
        return m


def never_reset(m: Module) -> None:
    """The proof starts in the reset state and reset never comes again."""
    m.d.comb += Assume(~ResetSignal())


def connect_ports(m: Module, outer: wiring.Component, inner: wiring.Component) -> None:
    """Join every port of ``inner`` to the port of ``outer`` with the same name and direction."""
    for path, member, value in inner.signature.flatten(inner):
        port = outer
        for step in path:
            port = port[step] if isinstance(step, int) else getattr(port, step)
        target, source = (value, port) if member.flow == wiring.In else (port, value)
        m.d.comb += Value.cast(target).eq(Value.cast(source))


def drive_inputs(m: Module, outer: wiring.Component, inner: wiring.Component) -> None:
    """Drive every input of ``inner`` by the port of ``outer`` with the same name."""
    for name, member in inner.signature.members.items():
        if member.flow == wiring.In:
            m.d.comb += getattr(inner, name).eq(getattr(outer, name))


def open_up(component: wiring.Component, platform) -> tuple[Fragment, dict[str, Signal]]:
    """Elaborate a component and find its own registers, for the invariants an induction needs.

    Returns the fragment, to be the submodule in the component's place, and its ``sync`` registers by name;
    those of its submodules are not among them.
    """
    fragment = Fragment.get(component, platform)
    registers: dict[str, Signal] = {}
    for statement in fragment.statements.get("sync", ()):
        for signal in statement._lhs_signals():
            registers[signal.name] = signal
    return fragment, registers


def open_memory(fragment: Fragment, name: str) -> tuple[list[Signal], list[Value]]:
    """Look into a memory of an opened component: its rows, and the data of its read ports, in their order."""
    (memory,) = (part for part, part_name, _ in fragment.subfragments if part_name == name)
    outputs = [port._data for port in memory._read_ports]
    rows = []
    for address in range(memory._data.depth):
        row = Signal(len(outputs[0]), name=f"{name}_{address}")
        place = Const(address, (memory._data.depth - 1).bit_length())
        memory.read_port(domain="comb", addr=place, data=row, en=Const(1), transparent_for=())
        rows.append(row)
    return rows, outputs
