# amaranth: UnusedElaboratable=no
"""Mutation of hardware: does the test notice when a gate is wrong?

Yosys puts all mutants into one netlist, each switched on by its number at the input ``mutant`` (0: none), so that
one Verilator build serves them all. ABC's equivalence checker compares a mutant that no test notices with the
original. The comparison covers enough cycles after reset for the design's whole state to come about and show. Either
nothing can notice the mutant, or the tests lack something, and the checker says what.
"""

import enum
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from amoeba_hw.synthesis import run_yosys
from rich.progress import track

from amoeba_sim.unrolled import AndGraph, Design, Unrolling, counterexample
from amoeba_sim.vector_bench import VectorBench

__all__ = ["Mutant", "Mutants", "Verdict"]

_NUMBER_BITS = 16


class Verdict(enum.StrEnum):
    """Fate of a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    """The tests passed, and some inputs distinguish the mutant from the original."""
    EQUIVALENT = "equivalent"
    """No inputs distinguish the mutant from the original."""
    UNDECIDED = "undecided"
    """The tests passed; the solver found no answer in its time."""


@dataclass(frozen=True)
class Mutant:
    """One change of one gate."""

    number: int
    command: str
    """The Yosys command that makes it, without its switch."""

    @property
    def kind(self) -> str:
        """``inv``, ``const0``, ``const1``, ``cnot0`` or ``cnot1``."""
        return re.search(r"-mode (\S+)", self.command)[1]

    @property
    def place(self) -> str:
        """Python ``file:line`` of the expression that the gate comes from, as far as known."""
        found = re.findall(r"-src (\S+?\.py:\d+)", self.command)
        return ", ".join(dict.fromkeys(f"{Path(place).name}" for place in found)) or "?"

    def __str__(self) -> str:
        return f"#{self.number} {self.kind} at {self.place}"


class _Switched(wiring.Component):
    """The component with one more input, which is unused before the mutants are inserted."""

    def __init__(self, component):
        self._component = component
        super().__init__({**component.signature.members, "mutant": In(_NUMBER_BITS)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = self._component
        for name, member in dut.signature.members.items():
            inner, outer = getattr(dut, name), getattr(self, name)
            m.d.comb += inner.eq(outer) if member.flow == In else outer.eq(inner)
        return m


class Mutants:
    """``count`` mutants of a component, evenly over its gates.

    Parameters
    ----------
    build : callable
        Makes the component: plain ports only. Only its outputs count: it should mask meaningless values.
    name : str
        Prefix of the build directory.
    within : sequence of str
        Names of the submodules to mutate, with all below them; the rest is taken to be right, and so are registers.
    count : int
        At most 65,535.
    seed : int
        Chooses the gates.
    cycles : int
        How many cycles after reset a mutant that passes the tests is compared with the original: as many as the
        component takes from reset to any state that matters, and from there to the outputs that depend on it.
    cut : str, optional
        Pattern of names of registers behind which no proof has to look, as a rule: those of multipliers.

    Attributes
    ----------
    mutants : list of Mutant
    survivors : dict
        For each mutant that was found to have survived, the result of ``telling_inputs``.
    """

    def __init__(
        self,
        build: Callable[[], wiring.Component],
        name: str,
        *,
        within: Sequence[str],
        count: int,
        seed: int,
        cycles: int = 0,
        cut: str | None = None,
    ):
        if not 0 < count < 1 << _NUMBER_BITS:
            raise ValueError(f"Expected 1 to {(1 << _NUMBER_BITS) - 1} mutants, got {count}")
        self._build = build
        self._name = name
        self._cycles = cycles
        self._cut = cut
        cells = " ".join([f"top/c:*{name}.*" for name in within] + ["%u"] * (len(within) - 1))
        with tempfile.TemporaryDirectory() as work:
            folder = Path(work)
            (folder / "top.il").write_text(rtlil.convert(_Switched(build()), name="top"))
            choice = [
                "read_rtlil top.il",
                "prep -flatten -top top",
                "opt -full",
                "pmuxtree",
                "dffunmap",
                # A cell that drives nothing but a name is no part of the design.
                "opt_clean -purge",
                # A register that drives part of a net would not be taken for an input and an output.
                "splitnets -driver",
                f"select -set place {cells} top/t:$dff %d",
                f"mutate -list {count} -seed {seed} -o list.txt @place",
                "write_rtlil flat.il",
            ]
            _yosys(folder, choice)
            lines = (folder / "list.txt").read_text().splitlines()
            self.mutants = [Mutant(number, line) for number, line in enumerate(lines, 1)]
            switched = [
                line.replace("mutate ", f"mutate -ctrl mutant {_NUMBER_BITS} {number} ", 1)
                for number, line in enumerate(lines, 1)
            ]
            written = ["write_rtlil mutants.il", "write_verilog -noattr mutants.v"]
            _yosys(folder, ["read_rtlil flat.il", *switched, "opt_clean", *written])
            self._verilog = (folder / "mutants.v").read_text()
            self._netlist = (folder / "mutants.il").read_text()
        self.survivors: dict[Mutant, list[dict[str, int]]] = {}
        self._graph = AndGraph()
        self._variables: dict[tuple[str, int], int] = {}

    def bench(self) -> VectorBench:
        """Build the component as a function over arrays, with the input ``mutant``."""
        return VectorBench(_Switched(self._build()), self._name, verilog=self._verilog)

    def judge(
        self, passes: Callable[[int], bool], *, timeout: int = 60, title: str = "mutants"
    ) -> dict[Mutant, Verdict]:
        """Run the tests on every mutant, then the solver on those that passed; with a progress bar.

        Parameters
        ----------
        passes : callable
            From a mutant's number to whether all tests pass on it. Asked for 0 first.
        timeout : int
            Seconds for the solver, per mutant.

        Raises
        ------
        ValueError
            The tests fail on the original.
        """
        if not passes(0):
            raise ValueError("Expected tests that pass on the unchanged component")
        verdicts = {}
        for mutant in track(self.mutants, title):
            verdicts[mutant] = self.compare(mutant, timeout) if passes(mutant.number) else Verdict.KILLED
        return verdicts

    def compare(self, mutant: Mutant, timeout: int) -> Verdict:
        """Decide whether any inputs distinguish the mutant from the original."""
        try:
            inputs = self.telling_inputs(mutant, timeout)
        except TimeoutError:
            return Verdict.UNDECIDED
        if inputs is None:
            return Verdict.EQUIVALENT
        self.survivors[mutant] = inputs
        return Verdict.SURVIVED

    def telling_inputs(self, mutant: Mutant, timeout: int) -> list[dict[str, int]] | None:
        """Find inputs, cycle by cycle from reset on, after which the mutant's outputs differ; None if they never do.

        Raises
        ------
        TimeoutError
            There was no answer within ``timeout`` seconds.
        """
        for unrolling in self._unrollings:
            original, changed = (self._outputs(unrolling, number) for number in (0, mutant.number))
            with tempfile.TemporaryDirectory() as work:
                values = counterexample(
                    Path(work), self._graph, list(self._variables.values()), original, changed, timeout
                )
            if values is None:
                return None
        cycles = [dict.fromkeys(self._build().signature.members, 0) for _ in range(self._cycles + 1)]
        for (name, cycle), variable in self._variables.items():
            port, _, bit = name.rstrip("]").partition("[")
            if port in cycles[cycle]:
                cycles[cycle][port] |= values[variable] << int(bit or 0)
        return cycles

    def _outputs(self, unrolling: Unrolling, number: int) -> list[int]:
        """All bits shown in the last cycle."""

        def input_at(name, cycle):
            port, _, bit = name.rstrip("]").partition("[")
            if port in ("clk", "rst"):
                return 0
            if port == "mutant":
                return number >> int(bit) & 1
            if (name, cycle) not in self._variables:
                self._variables[name, cycle] = self._graph.variable()
            return self._variables[name, cycle]

        return list(unrolling.outputs(self._graph, input_at).values())

    @cached_property
    def _unrollings(self) -> list[Unrolling]:
        """All mutants in and-gates, first with what is cut, where a difference need not be one, then as they are."""
        with tempfile.TemporaryDirectory() as work:
            folder = Path(work)
            (folder / "mutants.il").write_text(self._netlist)
            script = ["read_rtlil mutants.il", "techmap", "opt_clean", "aigmap"]
            _yosys(folder, [*script, "write_aiger -ascii -symbols mutants.aag"])
            design = Design.parse((folder / "mutants.aag").read_text())
        designs = [design.cut(self._cut), design] if self._cut else [design]
        return [Unrolling(each, self._cycles) for each in designs]


def _yosys(folder: Path, commands: list[str]) -> None:
    # From a file: there may be more commands than an argument can hold.
    (folder / "commands.ys").write_text("\n".join(commands))
    run_yosys(folder, "script commands.ys")
