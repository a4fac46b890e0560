"""A clocked design as a function of its inputs since reset, and whether two such functions are the same."""

import importlib.util
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from amoeba_model.extras import installation

from amoeba_sim.verilate import BuildError

__all__ = ["AndGraph", "Design", "Unrolling", "counterexample"]


def _abc() -> Path:
    """Find the program ABC, which comes with Yosys. Raises BuildError if it is not installed."""
    found = importlib.util.find_spec("pyosys")
    if found is None or found.origin is None:
        raise BuildError(f"Comparing designs needs ABC: {installation('synth')}")
    return Path(found.origin).with_name("yosys-abc")


class AndGraph:
    """Conjunctions of literals, each stored once.

    Literal 2n is node n, literal 2n + 1 its negation; 0 is false, 1 is true.
    """

    def __init__(self):
        self._operands: list[tuple[int, int] | None] = [None]
        self._known: dict[tuple[int, int], int] = {}

    def variable(self) -> int:
        """Add a variable, and return its literal."""
        self._operands.append(None)
        return 2 * len(self._operands) - 2

    def both(self, first: int, second: int) -> int:
        """Return the conjunction of two literals."""
        if first > second:
            first, second = second, first
        if first == 0 or first ^ second == 1:
            return 0
        if first in (1, second):
            return second
        literal = self._known.get((first, second))
        if literal is None:
            self._operands.append((first, second))
            literal = self._known[first, second] = 2 * len(self._operands) - 2
        return literal

    def write(self, path: Path, variables: list[int], roots: list[int]) -> None:
        """Write a binary AIGER file with all ``variables`` as inputs and ``roots`` as outputs."""
        inside, todo = set(), [root >> 1 for root in roots]
        while todo:
            node = todo.pop()
            if node not in inside and self._operands[node]:
                inside.add(node)
                todo += [operand >> 1 for operand in self._operands[node]]
        order = [0, *(variable >> 1 for variable in variables), *sorted(inside)]
        number = {node: place for place, node in enumerate(order)}

        def renamed(literal):
            return 2 * number[literal >> 1] | literal & 1

        lines = [f"aig {len(order) - 1} {len(variables)} 0 {len(roots)} {len(inside)}", *map(renamed, roots)]
        content = bytearray("".join(f"{line}\n" for line in lines).encode())
        for node in sorted(inside):
            # The format wants how far operands lie back, the nearer one first.
            last = 2 * number[node]
            for operand in sorted(map(renamed, self._operands[node]), reverse=True):
                content += _in_sevens(last - operand)
                last = operand
        path.write_bytes(content)


def _in_sevens(value: int) -> bytes:
    """Seven bits per byte, the lowest first; the highest bit says that there are more."""
    parts = []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


@dataclass(frozen=True)
class Design:
    """Gates and registers, as Yosys' ``write_aiger -ascii -symbols`` has them; all registers wake up reset."""

    inputs: dict[int, str]
    """Node to name, with the bit in brackets if there are several."""
    registers: dict[int, tuple[int, int, str]]
    """Node to the literal that it takes over, its value at reset, and its name."""
    outputs: dict[str, int]
    gates: list[tuple[int, int, int]]
    """Node and two literals; operands come first."""

    @classmethod
    def parse(cls, text: str) -> "Design":
        """Parse the text of an ASCII AIGER file."""
        header, *lines = text.split("\n")
        _, count_inputs, count_registers, count_outputs, count_gates = map(int, header.split()[1:6])
        rows = iter(lines)
        inputs = [int(next(rows)) >> 1 for _ in range(count_inputs)]
        registers = {}
        for _ in range(count_registers):
            node, following, *reset = map(int, next(rows).split())
            registers[node >> 1] = following, reset[0] if reset else 0
        outputs = [int(next(rows)) for _ in range(count_outputs)]
        gates = []
        for _ in range(count_gates):
            node, first, second = map(int, next(rows).split())
            gates.append((node >> 1, first, second))
        names = dict(re.findall(r"^([ilo]\d+) (.*)$", "\n".join(rows), re.MULTILINE))
        return cls(
            {node: names[f"i{index}"] for index, node in enumerate(inputs)},
            {node: (*values, names[f"l{index}"]) for index, (node, values) in enumerate(registers.items())},
            {names[f"o{index}"]: literal for index, literal in enumerate(outputs)},
            gates,
        )

    def cut(self, pattern: str) -> "Design":
        """Turn registers whose name has the pattern into inputs, and their next values into outputs.

        Two designs that are equal then are equal with their registers: as long as these are equal, their next values
        are equal.
        """
        chosen = {node for node, (_, _, name) in self.registers.items() if re.search(pattern, name)}
        return Design(
            self.inputs | {node: self.registers[node][2] for node in chosen},
            {node: register for node, register in self.registers.items() if node not in chosen},
            self.outputs | {f"next {self.registers[node][2]}": self.registers[node][0] for node in chosen},
            self.gates,
        )


class Unrolling:
    """Outputs of a design in the cycle that ``cycles`` others precede, from reset on."""

    def __init__(self, design: Design, cycles: int):
        self._design = design
        self._frames: list[_Frame] = []
        roots = list(design.outputs.values())
        for _ in range(cycles + 1):
            frame = _Frame.of(design, roots)
            self._frames.insert(0, frame)
            roots = [design.registers[node][0] for node in frame.registers]

    def outputs(self, graph: AndGraph, input_at: Callable[[str, int], int]) -> dict[str, int]:
        """Return the outputs by their names.

        Parameters
        ----------
        input_at : callable
            From an input's name and the cycle to a literal of ``graph``.
        """
        state = {node: reset for node, (_, reset, _) in self._design.registers.items()}
        for cycle, frame in enumerate(self._frames):
            value = {0: 0} | {node: state[node] for node in frame.registers}
            value |= {node: input_at(self._design.inputs[node], cycle) for node in frame.inputs}
            for node, first, second in frame.gates:
                value[node] = graph.both(value[first >> 1] ^ first & 1, value[second >> 1] ^ second & 1)
            state = {
                node: value[following >> 1] ^ following & 1
                for node, (following, _, _) in self._design.registers.items()
                if following >> 1 in value
            }
        return {name: value[literal >> 1] ^ literal & 1 for name, literal in self._design.outputs.items()}


@dataclass(frozen=True)
class _Frame:
    """Parts of a design that matter in one cycle."""

    inputs: list[int]
    registers: list[int]
    gates: list[tuple[int, int, int]]

    @classmethod
    def of(cls, design: Design, roots: list[int]) -> "_Frame":
        cone = {root >> 1 for root in roots}
        for node, first, second in reversed(design.gates):
            if node in cone:
                cone.update((first >> 1, second >> 1))
        return cls(
            [node for node in design.inputs if node in cone],
            [node for node in design.registers if node in cone],
            [gate for gate in design.gates if gate[0] in cone],
        )


def counterexample(
    folder: Path, graph: AndGraph, variables: list[int], first: list[int], second: list[int], timeout: int
) -> dict[int, int] | None:
    """Values of the variables for which two lists of literals differ; none if they are the same functions.

    Raises
    ------
    TimeoutError
        There was no answer within ``timeout`` seconds.
    BuildError
        ABC is not installed.
    """
    differing = [pair for pair in zip(first, second, strict=True) if pair[0] != pair[1]]
    if not differing:
        return None
    for name, roots in zip(("first", "second"), zip(*differing, strict=True), strict=True):
        graph.write(folder / f"{name}.aig", variables, list(roots))
    check = "miter first.aig second.aig; &get; &cec -m -C 1000000000; write_cex values.txt"
    try:
        done = subprocess.run(
            [_abc(), "-c", check], cwd=folder, capture_output=True, text=True, check=True, timeout=timeout
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"Expected an answer of ABC within {timeout} s") from error
    if "Networks are equivalent" in done.stdout:
        return None
    values = (folder / "values.txt").read_text().partition("#")[0].strip()
    return {variable: int(value) for variable, value in zip(variables, values, strict=True)}
