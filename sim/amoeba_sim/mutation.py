# amaranth: UnusedElaboratable=no
"""Mutation of hardware: does the test notice when a gate is wrong?

Yosys puts all mutants into one netlist, each switched on by its number at the input ``mutant`` (0: none), so that
one Verilator build serves them all. A mutant that no test notices is compared with the original by a SAT solver:
either nothing can notice it, or the tests lack something. Registers are taken for inputs and outputs there: a
design that has some is compared over one cycle, from any state.
"""

import enum
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from amoeba_hw.synthesis import ToolStoppedError, run_yosys
from rich.progress import track

from amoeba_sim.vector_bench import VectorBench

__all__ = ["Mutant", "Mutants", "Verdict"]

_NUMBER_BITS = 16


class Verdict(enum.StrEnum):
    """What became of a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    """The tests passed, and an input exists that would have told it from the original: or, with registers, a state
    and an input that make one differ. Whether that state comes about, and whether it shows, is left to the reader."""
    EQUIVALENT = "equivalent"
    """No input, in no state, tells it from the original."""
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
    """The component with one more input, which nothing listens to before the mutants are put in."""

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
        Makes the component: plain ports only. What its outputs show is what counts: it should mask whatever
        means nothing.
    name : str
        Prefix of the build directory.
    within : str
        Name of the submodule to mutate, with all below it; the rest is taken to be right, and so are registers.
    count : int
        At most 65,535.
    seed : int
        Chooses the gates.
    """

    def __init__(self, build: Callable[[], wiring.Component], name: str, *, within: str, count: int, seed: int):
        if not 0 < count < 1 << _NUMBER_BITS:
            raise ValueError(f"Expected 1 to {(1 << _NUMBER_BITS) - 1} mutants, got {count}")
        self._build = build
        self._name = name
        with tempfile.TemporaryDirectory() as work:
            folder = Path(work)
            (folder / "top.il").write_text(rtlil.convert(_Switched(build()), name="top"))
            choice = [
                "read_rtlil top.il",
                "prep -flatten -top top",
                "opt -full",
                "pmuxtree",
                "dffunmap",
                # What drives nothing but a name is no part of the design.
                "opt_clean -purge",
                # A register that drives part of a net would not be taken for an input and an output.
                "splitnets -driver",
                f"select -set place top/c:*{within}.* top/t:$dff %d",
                f"mutate -list {count} -seed {seed} -o list.txt @place",
                "write_rtlil flat.il",
            ]
            _yosys(folder, choice)
            lines = (folder / "list.txt").read_text().splitlines()
            self._flat = (folder / "flat.il").read_text()
            self.mutants = [Mutant(number, line) for number, line in enumerate(lines, 1)]
            switched = [
                line.replace("mutate ", f"mutate -ctrl mutant {_NUMBER_BITS} {number} ", 1)
                for number, line in enumerate(lines, 1)
            ]
            _yosys(folder, ["read_rtlil flat.il", *switched, "opt_clean", "write_verilog -noattr mutants.v"])
            self._verilog = (folder / "mutants.v").read_text()

    def bench(self) -> VectorBench:
        """The component as a function over arrays, with the input ``mutant``."""
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
        """Whether any input, in any state, tells the mutant from the original within a cycle."""
        script = [
            "read_rtlil flat.il",
            "expose -evert-dff -dff top",
            "copy top gold",
            mutant.command,
            "rename top gate",
            "miter -equiv -flatten -make_assert gold gate miter",
            "hierarchy -top miter",
            "chformal -lower",
            "opt -full",
            "techmap",
            "opt -full",
            f"sat -verify -prove-asserts -timeout {timeout} miter",
        ]
        with tempfile.TemporaryDirectory() as work:
            folder = Path(work)
            (folder / "flat.il").write_text(self._flat)
            try:
                _yosys(folder, script)
            except ToolStoppedError as error:
                if "proof did fail" in error.log or "model found: FAIL" in error.log:
                    return Verdict.SURVIVED
                if "timed out" in error.log or "Interrupted" in error.log or "TIMEOUT" in error.log:
                    return Verdict.UNDECIDED
                raise
        return Verdict.EQUIVALENT


def _yosys(folder: Path, commands: list[str]) -> None:
    # From a file: there may be more commands than an argument can hold.
    (folder / "commands.ys").write_text("\n".join(commands))
    run_yosys(folder, "script commands.ys")
