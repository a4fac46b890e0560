"""Levels of logic and area by hierarchy, from the netlist of ECP5 cells that Yosys writes as JSON."""

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["CELL_LUTS", "LogicPath", "MappedNetlist", "mark_modules"]

CELL_LUTS = {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 4}
"""LUT4 that a cell occupies."""
_TOP_MODULE = "top"
_LUT_INPUTS = ("A", "B", "C", "D")
_COMBINATIONAL: dict[str, tuple[tuple[tuple[str, ...], tuple[str, ...], int], ...]] = {
    "LUT4": ((_LUT_INPUTS, ("Z",), 1),),
    "CCU2C": (
        (("A0", "B0", "C0", "D0"), ("S0", "S1", "COUT"), 1),
        (("A1", "B1", "C1", "D1"), ("S1", "COUT"), 1),
        (("CIN",), ("S0", "S1", "COUT"), 0),
    ),
    "TRELLIS_DPR16X4": ((("RAD",), ("DO",), 1),),
    "MULT18X18D": ((("A", "B"), ("P",), 1),),
}
"""Ways through the cells: inputs, outputs, levels. A carry chain is one level, however long it is. So are the read of
a LUT RAM and a multiplier without registers."""
_CLOCKED = {
    "TRELLIS_FF": ("Q",),
    "DP16KD": ("DOA", "DOB"),
}
"""Outputs of cells that come from registers; their inputs end in registers."""
_REGISTERED_PORTS = {
    "TRELLIS_DPR16X4": ("DI", "WAD", "WRE"),
    "TRELLIS_FF": ("DI", "CE", "LSR", "M"),
}
"""Inputs that end in a register, where not all of a cell do."""
_SOURCE = re.compile(r"(?:^|\|)(top(?:\.[^|:/]*)?)(?=\||$)")
_PORT = re.compile(r"_[A-Z]+\d*(?:_\d+)?$")
_OF_CELL = re.compile(r"_(?:LUT4|TRELLIS_FF|CCU2C|TRELLIS_DPR16X4)_")
_NO_LOGIC = {"GSR", "$scopeinfo"}


def mark_modules(rtlil_text: str) -> str:
    """Have each cell of a design name the module that it stands in, by the attribute ``src``.

    Yosys keeps that attribute for registers, carry chains and multipliers when it removes the hierarchy.
    """
    return "".join(_marked(rtlil_text.splitlines(keepends=True)))


def _marked(lines: Iterable[str]) -> Iterator[str]:
    module = ""
    for line in lines:
        if line.startswith("module "):
            module = line.split("\\", 1)[1].strip()
        elif line.startswith(("  cell ", "  memory ", "  process ")):
            yield f'  attribute \\src "{module}"\n'
        yield line


@dataclass(frozen=True)
class LogicPath:
    """The longest path that ends in a block, from one register to another."""

    levels: int
    start: str
    through: tuple[str, ...]
    """Nets on the way that have names, in order, and in brackets the modules of logic without."""
    end: str

    def __str__(self) -> str:
        return " -> ".join((self.start, *self.through, self.end))


class MappedNetlist:
    """A design of one module after ``synth_ecp5``, whose modules :func:`mark_modules` has marked.

    Parameters
    ----------
    netlist : dict
        As ``write_json`` writes it.
    inside : str
        The submodule to which paths are relative: names of blocks begin below it.

    Raises
    ------
    ValueError
        A cell is of a type that this module does not know.
    """

    def __init__(self, netlist: dict[str, Any], inside: str = "block"):
        module = netlist["modules"][_TOP_MODULE]
        self._cells: dict[str, dict[str, Any]] = {
            name: cell for name, cell in module["cells"].items() if cell["type"] not in _NO_LOGIC
        }
        known = {*_COMBINATIONAL, *_CLOCKED}
        if unknown := {cell["type"] for cell in self._cells.values()} - known:
            raise ValueError(f"expected cells of {', '.join(sorted(known))}, got {', '.join(sorted(unknown))}")
        self._inside = inside
        self._scopes = {name for name, cell in module["cells"].items() if cell["type"] == "$scopeinfo"}
        self._names = _names_of_bits(module["netnames"], self._cells)
        self._before: dict[int, tuple[tuple[int, int], ...]] = {}
        self._readers: dict[int, list[str]] = {}
        self._drivers: dict[int, str] = {}
        self._owners: dict[str, str] = {}
        for name, cell in self._cells.items():
            self._connect(name, cell)

    def _connect(self, name: str, cell: dict[str, Any]) -> None:
        ports = cell["connections"]
        for port, bits in ports.items():
            for bit in _nets(bits):
                if cell["port_directions"][port] == "input":
                    self._readers.setdefault(bit, []).append(name)
                else:
                    self._drivers[bit] = name
        if _is_registered(cell):
            return
        for inputs, outputs, levels in _COMBINATIONAL.get(cell["type"], ()):
            arcs = tuple((bit, levels) for port in inputs for bit in _nets(ports.get(port, ())))
            for port in outputs:
                for bit in _nets(ports.get(port, ())):
                    self._before[bit] = self._before.get(bit, ()) + arcs

    # Levels ------------------------------------------------------------------------------------------------

    def longest_paths(self, depth: int) -> dict[str, LogicPath]:
        """Return the longest path into the registers of each block.

        Parameters
        ----------
        depth : int
            Names of submodules that a block's name has at most: registers deeper inside count for it.
        """
        levels = self._levels()
        worst: dict[str, tuple[int, int, str]] = {}
        for name, cell in self._cells.items():
            block = self._block(self._owner_of(name), depth)
            for bit in self._ends(cell):
                reached = levels.get(bit, 0)
                if block not in worst or (reached, name) > (worst[block][0], worst[block][2]):
                    worst[block] = (reached, bit, name)
        return {
            block: self._path(levels, reached, bit, name) for block, (reached, bit, name) in sorted(worst.items())
        }

    def _levels(self) -> dict[int, int]:
        """Return the levels from registers to each net that logic drives."""
        levels: dict[int, int] = {}
        for start in self._before:
            waiting = [start]
            while waiting:
                bit = waiting[-1]
                missing = [] if bit in levels else [
                    before for before, _ in self._before[bit] if before in self._before and before not in levels
                ]  # fmt: skip
                if missing:
                    waiting.extend(missing)
                    continue
                waiting.pop()
                levels[bit] = max((levels.get(before, 0) + more for before, more in self._before[bit]), default=0)
        return levels

    def _ends(self, cell: dict[str, Any]) -> Iterator[int]:
        """Yield the nets that end in a register of a cell."""
        if not _is_registered(cell) and cell["type"] not in _REGISTERED_PORTS:
            return
        for port, bits in cell["connections"].items():
            if cell["port_directions"][port] == "input" and port in _REGISTERED_PORTS.get(cell["type"], (port,)):
                yield from _nets(bits)

    def _path(self, levels: dict[int, int], reached: int, end: int, register: str) -> LogicPath:
        way = [end]
        while way[-1] in self._before:
            way.append(max(self._before[way[-1]], key=lambda arc: levels.get(arc[0], 0) + arc[1])[0])
        first, *between = (self._bit_name(bit) for bit in reversed(way))
        through = tuple(name for name in dict.fromkeys(between) if name != first)
        return LogicPath(reached, first, through, self._relative(self._register_name(register)))

    def _bit_name(self, bit: int) -> str:
        if bit in self._names:
            return self._relative(self._names[bit])
        if bit not in self._drivers:
            return "(input)"
        return f"({self._relative(self._owner_of(self._drivers[bit])) or 'top'})"

    def _register_name(self, cell: str) -> str:
        outputs = _CLOCKED.get(self._cells[cell]["type"], ())
        bits = [bit for port in outputs for bit in _nets(self._cells[cell]["connections"].get(port, ()))]
        return next((self._names[bit] for bit in bits if bit in self._names), cell)

    # Area --------------------------------------------------------------------------------------------------

    def area(self, depth: int) -> dict[str, Counter[str]]:
        """Count the cells of each block by type, with ``LUT4`` the number that all of them occupy.

        A register, a carry cell, a memory and a multiplier count for the module that has them. A LUT counts for the
        module of most of the cells that it drives, directly or through other LUTs: Yosys does not say where it is
        from.
        """
        found: dict[str, Counter[str]] = {}
        for name, cell in self._cells.items():
            counted = found.setdefault(self._block(self._owner_of(name), depth), Counter())
            counted["LUT4"] += CELL_LUTS.get(cell["type"], 0)
            if cell["type"] != "LUT4":
                counted[cell["type"]] += 1
        return dict(sorted(found.items()))

    def _owner_of(self, cell: str) -> str:
        """Return the module of a cell."""
        waiting, owners = [cell], self._owners
        while waiting:
            name = waiting[-1]
            if name not in owners:
                readers = self._readers_of(name) if self._cells[name]["type"] == "LUT4" else []
                if missing := [reader for reader in readers if reader not in owners]:
                    waiting.extend(missing)
                    continue
                owners[name] = self._marked_owner(name) if not readers else _most(owners[each] for each in readers)
            waiting.pop()
        return owners[cell]

    def _readers_of(self, name: str) -> list[str]:
        (bit,) = self._cells[name]["connections"]["Z"]
        return self._readers.get(bit, [])

    def _marked_owner(self, name: str) -> str:
        """Return the module that a cell's attribute names, else the one that its name lies in."""
        if found := _SOURCE.search(self._cells[name]["attributes"].get("src", "")):
            return found[1].removeprefix(_TOP_MODULE).removeprefix(".")
        while name and name not in self._scopes:
            name = name.rpartition(".")[0]
        return name

    def _block(self, path: str, depth: int) -> str:
        return ".".join(self._relative(path).split(".")[:depth]) if path.startswith(self._inside) else "(harness)"

    def _relative(self, path: str) -> str:
        return path.removeprefix(self._inside).removeprefix(".")


def _is_registered(cell: dict[str, Any]) -> bool:
    """Return whether all inputs of a cell end in registers, and its outputs come from them."""
    if cell["type"] == "MULT18X18D":
        registers = ("REG_INPUTA_CLK", "REG_PIPELINE_CLK", "REG_OUTPUT_CLK")
        return any(cell["parameters"].get(register, "NONE").strip() != "NONE" for register in registers)
    return cell["type"] in _CLOCKED


def _nets(bits: Iterable[int | str]) -> Iterator[int]:
    """Yield the bits that are nets, not constants."""
    return (bit for bit in bits if isinstance(bit, int))


def _names_of_bits(netnames: dict[str, dict[str, Any]], cells: Container[str]) -> dict[int, str]:
    """Name each net by the deepest signal with it, the first of these by the alphabet.

    Yosys' own names do not count: they begin with ``$``, or are a cell's with a port behind.
    """
    names: dict[int, str] = {}
    for name in sorted(netnames, key=lambda name: (-name.count("."), name)):
        if not name.startswith("$") and _PORT.sub("", name) not in cells and not _OF_CELL.search(name):
            for bit in _nets(netnames[name]["bits"]):
                names.setdefault(bit, name)
    return names


def _most(owners: Iterable[str]) -> str:
    """Return the most frequent name, the first by the alphabet of several."""
    counted = Counter(owners)
    return min(counted, key=lambda owner: (-counted[owner], owner))
