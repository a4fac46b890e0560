"""Ready signals that depend on others in the same cycle: between the blocks of a NIC, and inside a block."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from amaranth.hdl._nir import Net
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.analysis.design import ElaboratedDesign, Path, port_bits

__all__ = ["ReadyDependency", "blocks", "longest_chain", "ready_dependencies"]


@dataclass(frozen=True, order=True)
class ReadyDependency:
    """An input of a block on which the ready signal of a stream into that block depends in the same cycle.

    Streams of an array are one: its index reads ``*``.
    """

    block: str
    ready: str
    """The output, such as ``commands.ready``."""
    cause: str
    """The input, such as ``port.ready``."""

    def __str__(self) -> str:
        return ".".join(filter(None, (self.block, self.ready))) + f" <- {self.cause}"


def blocks(design: ElaboratedDesign, inside: Iterable[Path] = ((), ("core",))) -> dict[Path, wiring.Component]:
    """Return the blocks of a NIC: the components directly in the submodules ``inside``, these excluded."""
    containers = list(inside)
    return {
        path: component
        for path, component in design.components().items()
        if path and path[:-1] in containers and path not in containers
    }


def ready_dependencies(design: ElaboratedDesign, path: Path) -> set[ReadyDependency]:
    """Find the inputs of the block at ``path`` on which its ready outputs depend in the same cycle.

    Empty for a block whose ready signals come from registers.
    """
    component = design.components()[path]
    inputs: dict[Net, set[str]] = {}
    outputs: dict[str, list[Net]] = {}
    for name, flow, signal in port_bits(component):
        if flow == In:
            for bit in design.bits(signal):
                inputs.setdefault(bit, set()).add(_member(name))
        elif _is_ready(name):
            outputs.setdefault(_member(name), []).extend(design.bits(signal))
    found = set()
    for ready, bits in outputs.items():
        for bit in design.reach(bits, lambda bit: bit in inputs or design.path(bit)[: len(path)] != path):
            found |= {ReadyDependency(".".join(path), ready, cause) for cause in _causes(design, path, inputs, bit)}
    return found


def _causes(design: ElaboratedDesign, path: Path, inputs: dict[Net, set[str]], bit: Net) -> set[str]:
    """Name the inputs that a bit is; or where it comes from, if it enters the block beside its ports."""
    if bit in inputs:
        return inputs[bit]
    return set() if design.path(bit)[: len(path)] == path else {f"({design.name(bit)})"}


def _member(path: tuple[str | int, ...]) -> str:
    """Name a member of a block's signature, a payload as its stream."""
    named = path[:-1] if path[-1] == "payload" else path
    return ".".join("*" if isinstance(part, int) else part for part in named)


def _is_ready(path: tuple[str | int, ...]) -> bool:
    return str(path[-1]).endswith("ready")


def longest_chain(design: ElaboratedDesign, path: Path) -> list[str]:
    """Name the ready signals of the longest combinational chain inside a block, the last to settle first.

    A component that hands on its submodule's ready signal does not count: both are one signal.
    """
    names = dict(_ready_bits(design, path))
    longest: dict[Net, list[Net]] = {}
    for start in names:
        _settle(design, path, names, longest, start)
    chain = max((longest[bit] for bit in names), key=len, default=[])
    return [names[bit] for bit in reversed(chain)]


def _ready_bits(design: ElaboratedDesign, path: Path) -> Iterator[tuple[Net, str]]:
    """Yield the ready signals of all streams into components of a block: the bit, and the deepest name of it."""
    for inner, component in sorted(design.components().items()):
        if inner[: len(path)] == path:
            for name, flow, signal in port_bits(component):
                if flow == Out and _is_ready(name):
                    for bit in design.bits(signal):
                        if not bit.is_const and design.path(bit)[: len(path)] == path:
                            yield bit, ".".join([*inner, *map(str, name[:-1])])


def _settle(
    design: ElaboratedDesign, path: Path, ready: dict[Net, str], longest: dict[Net, list[Net]], start: Net
) -> None:
    """Fill ``longest``: for ``start`` and each bit before it, the ready bits on the longest way to it."""
    waiting = [start]
    while waiting:
        bit = waiting[-1]
        inside = [before for before in design.earlier(bit) if design.path(before)[: len(path)] == path]
        missing = [before for before in inside if before not in longest]
        if missing and bit not in longest:
            waiting.extend(missing)
            continue
        waiting.pop()
        way = max((longest[before] for before in inside), key=len, default=[])
        longest.setdefault(bit, [*way, bit] if bit in ready else way)
