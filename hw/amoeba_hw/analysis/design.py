"""An elaborated component as a graph: which bits depend on which in the same cycle."""

from collections.abc import Callable, Iterable, Iterator

from amaranth.hdl import Elaboratable, Fragment, Signal
from amaranth.hdl._ast import ValueCastable
from amaranth.hdl._ir import PortDirection, build_netlist
from amaranth.hdl._nir import AsyncReadPort, Cell, FlipFlop, Instance, Net, SyncReadPort, Top, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import Flow, In

from amoeba_hw.rtlil import quick_netlists
from amoeba_hw.verilog import without_collection

__all__ = ["ElaboratedDesign", "Path", "port_bits"]

Path = tuple[str, ...]
"""Names of submodules from the top, which is not named."""
_TOP = "top"
_SOURCES = (FlipFlop, SyncReadPort, Instance, Top)
"""Cells whose outputs do not depend on their inputs in the same cycle, as far as the design says."""


def port_bits(component: wiring.Component) -> Iterator[tuple[tuple[str | int, ...], Flow, Signal]]:
    """Yield each leaf member of a component's signature: its path, its direction and its signal."""
    for path, member, value in component.signature.flatten(component):
        yield path, member.flow, value.as_value() if isinstance(value, ValueCastable) else value


class ElaboratedDesign:
    """A component and all that it contains, bit by bit, before synthesis.

    Parameters
    ----------
    component : wiring.Component
        The top. Its ports are the design's.

    Attributes
    ----------
    cells : list of Cell
        Amaranth's cells. A bit names its cell by its index.
    elaboratables : dict of Path to list of Elaboratable
        The objects that elaborated to each submodule, by where it is.
    """

    def __init__(self, component: wiring.Component):
        ports = []
        for path, flow, signal in port_bits(component):
            direction = PortDirection.Input if flow == In else PortDirection.Output
            ports.append(("__".join(map(str, path)), signal, direction))
        with without_collection(), quick_netlists():
            design = Fragment.get(component, None).prepare(ports=ports, hierarchy=(_TOP,))
            self._netlist = build_netlist(design)
        self.cells: list[Cell] = self._netlist.cells
        self.elaboratables: dict[Path, list[Elaboratable]] = {}
        for elaboratable, fragment in design.elaboratables.items():
            self.elaboratables.setdefault(design.fragments[fragment].name[1:], []).append(elaboratable)
        self._names: dict[Net, str] = {}

    def components(self) -> dict[Path, wiring.Component]:
        """Return the components by where they are, the top first."""
        return {
            path: elaboratable
            for path, found in self.elaboratables.items()
            for elaboratable in found
            if isinstance(elaboratable, wiring.Component)
        }

    def bits(self, signal: Signal) -> Value:
        """Return the bits of a signal of the design; none for one that the design never uses."""
        return self._netlist.signals[signal] if signal in self._netlist.signals else Value()

    def path(self, bit: Net) -> Path:
        """Return the submodule that drives a bit."""
        return self._netlist.modules[self.cells[bit.cell].module_idx].name[1:]

    def name(self, bit: Net) -> str:
        """Name a bit by the signal that it belongs to, or by what drives it."""
        cell = self.cells[bit.cell]
        if isinstance(cell, (Instance, Top)):
            ports = cell.ports_o if isinstance(cell, Instance) else cell.ports_i
            (port,) = (name for name, (start, width) in ports.items() if start <= bit.bit < start + width)
            return ".".join([*self.path(bit), cell.type, port]) if isinstance(cell, Instance) else port
        if not self._names:
            self._names = dict(self._signals())
        return self._names.get(bit) or ".".join([*self.path(bit), f"({type(cell).__name__})"])

    def _signals(self) -> Iterator[tuple[Net, str]]:
        """Yield the bits of each module's signals with a name, the best name of a bit last: not that of a port."""
        for module in self._netlist.modules:
            names = sorted(module.signal_names.items(), key=lambda item: ("__" not in item[1], item[1]))
            for signal, name in names:
                for bit in self.bits(signal):
                    if not bit.is_const and self.path(bit) == module.name[1:]:
                        yield bit, ".".join([*module.name[1:], name])

    def earlier(self, bit: Net) -> Iterable[Net]:
        """List the bits that a bit depends on in the same cycle."""
        cell = self.cells[bit.cell]
        if isinstance(cell, _SOURCES):
            return ()
        return [net for net, _ in cell.comb_edges_to(bit.bit) if not net.is_const]

    def reach(self, bits: Iterable[Net], stops: Callable[[Net], bool] = lambda _: False) -> set[Net]:
        """Return the bits where the dependencies of ``bits`` begin, or where they are told to stop."""
        seen: set[Net] = set()
        found: set[Net] = set()
        waiting = [bit for bit in bits if not bit.is_const]
        while waiting:
            bit = waiting.pop()
            if bit in seen:
                continue
            seen.add(bit)
            if stops(bit) or isinstance(self.cells[bit.cell], (*_SOURCES, AsyncReadPort)):
                found.add(bit)
            if not stops(bit):
                waiting.extend(self.earlier(bit))
        return found
