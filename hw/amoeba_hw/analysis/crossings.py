"""Paths between clock domains, and what synchronizes each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from amaranth.hdl._nir import (
    AsyncReadPort,
    FlipFlop,
    Instance,
    Memory,
    Net,
    SyncReadPort,
    SyncWritePort,
    Top,
)
from amaranth.lib import cdc, fifo

from amoeba_hw.analysis.design import ElaboratedDesign

__all__ = ["SYNCHRONIZERS", "UNCLOCKED", "Crossing", "clock_crossings"]

SYNCHRONIZERS = (
    cdc.FFSynchronizer,
    cdc.AsyncFFSynchronizer,
    cdc.ResetSynchronizer,
    cdc.PulseSynchronizer,
    fifo.AsyncFIFO,
    fifo.AsyncFIFOBuffered,
)
"""Elaboratables in which a path may go from one clock to another."""
UNCLOCKED = "unclocked"
_Clocked = FlipFlop | SyncReadPort | SyncWritePort


@dataclass(frozen=True, order=True)
class Crossing:
    """Paths from bits of one clock domain to a register or a memory of another.

    A domain is called after its clock signal. ``from_clock`` is :data:`UNCLOCKED` for inputs of the design and for
    outputs of primitives whose clock is not stated.
    """

    from_clock: str
    to_clock: str
    source: str
    target: str
    synchronizer: str
    """The class of the synchronizer around the target, and where it is; empty without one."""

    def __str__(self) -> str:
        through = self.synchronizer or "no synchronizer"
        return f"{self.source} ({self.from_clock}) -> {self.target} ({self.to_clock}): {through}"


def clock_crossings(design: ElaboratedDesign, clocks: Mapping[str, str] | None = None) -> set[Crossing]:
    """Find the paths of a design that begin in one clock domain and end in another.

    Parameters
    ----------
    design : ElaboratedDesign
    clocks : dict of str to str
        The clock of inputs of the design and of outputs of primitives, as :meth:`ElaboratedDesign.name` names them. A
        primitive's name stands for all its outputs. Others are unclocked: a crossing wherever a register takes them.
    """
    return set(_Crossings(design, clocks or {}).find())


class _Crossings:
    """One search through a design."""

    def __init__(self, design: ElaboratedDesign, clocks: Mapping[str, str]):
        self._design = design
        self._clocks = clocks
        self._writers: dict[int, set[str]] = {}
        for cell in design.cells:
            if isinstance(cell, SyncWritePort):
                self._writers.setdefault(cell.memory, set()).add(design.name(cell.clk))

    def find(self) -> Iterator[Crossing]:
        """Yield the paths into each register and each port of a memory."""
        for index, cell in enumerate(self._design.cells):
            if isinstance(cell, FlipFlop):
                yield from self._into(index, cell, {*cell.data, cell.arst})
            elif isinstance(cell, SyncWritePort):
                yield from self._into(index, cell, {*cell.data, *cell.addr, *cell.en})
            elif isinstance(cell, SyncReadPort):
                yield from self._into(index, cell, {*cell.addr, cell.en})
                yield from self._between(index, cell, self._writers.get(cell.memory, set()), self._memory(cell))

    def _into(self, index: int, cell: _Clocked, bits: set[Net]) -> Iterator[Crossing]:
        for bit in self._design.reach(bits):
            yield from self._between(index, cell, self._origins(bit), self._design.name(bit))

    def _between(self, index: int, cell: _Clocked, origins: set[str], source: str) -> Iterator[Crossing]:
        clock = self._design.name(cell.clk)
        target = Net.from_cell(index, 0)
        name = self._memory(cell) if isinstance(cell, SyncWritePort) else self._design.name(target)
        for origin in origins - {clock}:
            yield Crossing(origin, clock, source, name, self._synchronizer(target, cell))

    def _memory(self, port: SyncReadPort | SyncWritePort) -> str:
        """Name the memory of a port."""
        memory = self._design.cells[port.memory]
        assert isinstance(memory, Memory)
        return ".".join([*self._design.path(Net.from_cell(port.memory, 0)), memory.name])

    def _origins(self, bit: Net) -> set[str]:
        """Name the clocks that a bit changes with."""
        cell = self._design.cells[bit.cell]
        if isinstance(cell, (FlipFlop, SyncReadPort)):
            return {self._design.name(cell.clk)}
        if isinstance(cell, AsyncReadPort):
            return self._writers.get(cell.memory, set())
        return {self._stated(self._design.name(bit))} if isinstance(cell, (Top, Instance)) else set()

    def _stated(self, name: str) -> str:
        """Return the clock that the caller names for an input or an output of a primitive."""
        stated = [clock for known, clock in self._clocks.items() if name == known or name.startswith(f"{known}.")]
        return stated[0] if stated else UNCLOCKED

    def _synchronizer(self, target: Net, cell: _Clocked) -> str:
        """Name the outermost synchronizer that contains a register.

        Empty for an FFSynchronizer of its own with logic in front: it may take a glitch for a value.
        """
        path = self._design.path(target)
        for length in range(1, len(path) + 1):
            for elaboratable in self._design.elaboratables.get(path[:length], []):
                if isinstance(elaboratable, SYNCHRONIZERS):
                    glitches = isinstance(elaboratable, cdc.FFSynchronizer) and not self._is_direct(cell)
                    return "" if glitches else f"{type(elaboratable).__name__} {'.'.join(path[:length])}"
        return ""

    def _is_direct(self, cell: _Clocked) -> bool:
        """Return whether a register takes a bit as another register, an input or a primitive gives it."""
        bits = [bit for bit in cell.data if not bit.is_const]
        return isinstance(cell, FlipFlop) and not any(self._design.earlier(bit) for bit in bits)
