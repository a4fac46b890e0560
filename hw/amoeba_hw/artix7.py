"""A NIC on an Artix-7: a netlist of the part's cells by Yosys, place and route by nextpnr."""

import hashlib
import json
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import ClockSignal, Instance, Module, ResetSignal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from amoeba_hw.rtlil import generate_rtlil
from amoeba_hw.synthesis import Harness, ToolStoppedError, run_tool, run_yosys
from amoeba_hw.verilog import without_collection

__all__ = [
    "DEVICE",
    "NETLIST",
    "PART_BLOCK_RAMS",
    "PART_LUTS",
    "PART_REGISTERS",
    "ROUTER",
    "RoutedDesign",
    "WorstPath",
    "count_cells",
    "place_and_route",
    "read_report",
    "write_harness",
    "write_netlist",
]

ROUTER = "nextpnr-himbaechel-xilinx"

NETLIST = "netlist"
"""Name of the component's module, and of its two files."""
_BLOCK_RAMS = "block_rams.txt"
_HALF_BLOCKS = """\
ram block $__XILINX_BLOCKRAM_SDP_ {
    byte 9;
    option "MODE" "HALF" {
        abits 14;
        widths 1 2 4 9 18 36 per_port;
        cost 129;
    }
    init any;
    port sw "W" {
        clock posedge "C";
        clken;
        option "WRITE_MODE" "READ_FIRST" {
            wrtrans all old;
        }
        option "WRITE_MODE" "WRITE_FIRST" {
        }
        optional;
    }
    port sr "R" {
        clock posedge "C";
        clken;
        rdsrst any gated_clken;
        rdinit any;
        optional;
    }
}
"""
"""Yosys' block RAMs without RAMB36E1: nextpnr 0.11.1 leaves paths from and to that cell out of its timing, since the
clocks that it looks for are not those of its cell."""

_OPTIONS = "-family xc7 -flatten -noiopad -noclkbuf -abc9"
_SCRIPT = "; ".join(
    [
        f"read_rtlil {NETLIST}.il",
        f"synth_xilinx {_OPTIONS} -top {NETLIST} -run begin:map_memory",
        f"memory_libmap -lib +/xilinx/lutrams_xc5v.txt -lib {_BLOCK_RAMS}",
        "techmap -map +/xilinx/lutrams_xc5v_map.v",
        "techmap -map +/xilinx/brams_xc6v_map.v",
        f"synth_xilinx {_OPTIONS} -top {NETLIST} -run map_ffram:",
        f"write_verilog -noattr -selected {NETLIST}.v",
        f"write_json -selected {NETLIST}.json",
    ]
)
_PADS_SCRIPT = "; ".join(
    [
        "read_rtlil top.il",
        f"read_json {NETLIST}.json",
        f"blackbox {NETLIST}",
        "synth_xilinx -family xc7 -flatten -noclkbuf -abc9 -top top",
        f"delete ={NETLIST}",
        f"read_json {NETLIST}.json",
        "flatten",
        "opt_clean",
        "write_json -selected top.json",
    ]
)
_PINS = {"clk": ("R4", "LVCMOS33"), "rst": ("G4", "LVCMOS15"), "i": ("E22", "LVCMOS12"), "o": ("T14", "LVCMOS25")}
"""Pads of the harness' pins on a Nexys Video, with their standards: its clock, a button, a switch and a light."""
DEVICE = "xc7a200tsbg484-1"
PART_LUTS, PART_REGISTERS, PART_BLOCK_RAMS = 134_600, 269_200, 730
"""Places of the part. A block RAM of 36 kbit counts as two."""


@dataclass(frozen=True)
class WorstPath:
    """The path that ends last among those to the registers of one block."""

    block: str
    delay_ns: float
    end: str


@dataclass(frozen=True)
class RoutedDesign:
    """Size and speed of a component that nextpnr has routed, its harness included."""

    luts: int
    """Cells that take a place for a LUT, also those of LUT RAM and carry chains. Two small ones may share a place."""
    registers: int
    carries: int
    block_rams: int
    multipliers: int
    frequency_mhz: float
    critical_path: tuple[tuple[float, str], ...]
    """Nanoseconds since the clock edge, and the net that is reached then; first and last are registers."""
    worst: tuple[WorstPath, ...]
    """By block, the slowest first."""


class _Blackbox(wiring.Component):
    """A component as the module that :func:`write_netlist` makes of it."""

    def __init__(self, component: wiring.Component):
        super().__init__(dict(component.signature.members.items()))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        ports = {
            f"{'i' if member.flow == In else 'o'}_{'__'.join(map(str, path))}": value
            for path, member, value in self.signature.flatten(self)
        }
        m.submodules.cells = Instance(NETLIST, i_clk=ClockSignal(), i_rst=ResetSignal(), **ports)
        return m


def write_netlist(component: wiring.Component, folder: Path) -> str:
    """Synthesize a component to the cells of an Artix-7, without pads or clock buffers; return the RTLIL of it.

    ``netlist.v`` and ``netlist.json`` in the folder have the module ``netlist``, whose ports are those of the
    component, ``clk`` and ``rst``. Files of the same RTLIL are kept.

    Raises
    ------
    ToolStoppedError
        Yosys failed.
    """
    with without_collection():
        text: str = generate_rtlil(component, NETLIST)
    _synthesize(folder, NETLIST, _SCRIPT, {f"{NETLIST}.il": text, _BLOCK_RAMS: _HALF_BLOCKS})
    return text


def count_cells(folder: Path) -> dict[str, int]:
    """Count the cells of a netlist that :func:`write_netlist` has written, by their types."""
    netlist = json.loads((folder / f"{NETLIST}.json").read_text())
    return dict(Counter(cell["type"] for cell in netlist["modules"][NETLIST]["cells"].values()))


def write_harness(component: wiring.Component, folder: Path) -> None:
    """Write ``top.json``: the netlist of :func:`write_netlist` in a harness, with pads. The same one is kept.

    Raises
    ------
    ToolStoppedError
        Yosys failed.
    """
    with without_collection():
        text = rtlil.convert(Harness(_Blackbox(component), clock_buffers=True), emit_src=False)
    _synthesize(folder, "top", _PADS_SCRIPT, {"top.il": text}, of=(folder / f"{NETLIST}.made").read_text())


def _synthesize(folder: Path, name: str, script: str, sources: dict[str, str], *, of: str = "") -> None:
    """Run Yosys, unless it has run in the folder with the same script and sources."""
    key = hashlib.sha256("\n".join((of, script, *sources.values())).encode()).hexdigest()
    made = folder / f"{name}.made"
    if made.exists() and made.read_text() == key:
        return
    for file, text in sources.items():
        (folder / file).write_text(text)
    run_yosys(folder, script)
    made.write_text(key)


def place_and_route(folder: Path, *, seed: int, frequency_mhz: float, timeout: float | None = None) -> RoutedDesign:
    """Place and route ``top.json`` of a folder on an XC7A200T, speed grade 1.

    Parameters
    ----------
    seed : int
        Of the placer.
    frequency_mhz : float
        Target of placer and router.
    timeout : float
        Seconds that place and route may take.

    Raises
    ------
    ToolStoppedError
        nextpnr failed or took too long.
    """
    work = folder / f"seed{seed}"
    work.mkdir(exist_ok=True)
    (work / "top.xdc").write_text(_constraints(frequency_mhz))
    program = shutil.which(ROUTER)
    if program is None:
        raise ToolStoppedError(f"expected {ROUTER} on the PATH, got none", "")
    run_tool(
        work, program, "--device", DEVICE, "--json", "../top.json", "-o", "xdc=top.xdc", "-o", "fasm=top.fasm",
        "--report", "report.json", "--detailed-timing-report", "--timing-allow-fail", "--seed", str(seed),
        timeout=timeout,
    )  # fmt: skip
    return read_report(json.loads((work / "report.json").read_text()), json.loads((folder / "top.json").read_text()))


def _constraints(frequency_mhz: float) -> str:
    lines = [f"create_clock -period {1000 / frequency_mhz:.3f} [get_ports clk]"]
    for pin, (site, standard) in _PINS.items():
        lines.append(f"set_property PACKAGE_PIN {site} [get_ports {pin}]")
        lines.append(f"set_property IOSTANDARD {standard} [get_ports {pin}]")
    return "\n".join(lines) + "\n"


def read_report(report: dict[str, Any], netlist: dict[str, Any]) -> RoutedDesign:
    """Read size, speed and slow paths from nextpnr's report on a netlist that Yosys wrote."""
    used = {name: counts["used"] for name, counts in report["utilization"].items()}
    outputs = _outputs(netlist["modules"]["top"])
    return RoutedDesign(
        luts=used["SLICE_LUTX"],
        registers=used["SLICE_FFX"],
        carries=used["CARRY4"],
        block_rams=used["RAMB18E1_RAMB18E1"] + 2 * used["RAMB36E1_RAMB36E1"],
        multipliers=used["DSP48E1_DSP48E1"],
        frequency_mhz=min(clock["achieved"] for clock in report["fmax"].values()),
        critical_path=_critical_path(report["critical_paths"], outputs),
        worst=_worst_paths(report["detailed_net_timings"], outputs),
    )


def _outputs(module: dict[str, Any]) -> dict[str, str]:
    """Name each register and memory by the net that it drives: Yosys names cells by numbers."""
    nets: dict[int, str] = {}
    for name, net in module["netnames"].items():
        for position, bit in enumerate(net["bits"]):
            if bit not in nets or "$" in nets[bit]:
                nets[bit] = f"{name}[{position}]" if len(net["bits"]) > 1 else name
    named = {}
    for name, cell in module["cells"].items():
        bits = cell["connections"].get("Q", ()) if cell["type"].startswith("FD") else ()
        named[name] = _inside(nets[bits[0]]) if bits else _inside(name)
    return named


def _inside(name: str) -> str:
    """Leave the path to the NIC out of a name."""
    return name.removeprefix("block.cells.").removeprefix("nic.")


def _block(name: str) -> str:
    """Name the block of a net as the page of levels does: the first two folders of its path."""
    path = name.split("$")[0].split(".")[:-1]
    return ".".join(path[:2]) or "(harness)"


def _critical_path(paths: list[dict[str, Any]], outputs: dict[str, str]) -> tuple[tuple[float, str], ...]:
    """Follow the slowest path from one register to another."""
    clocked = [each["path"] for each in paths if "posedge" in each["from"] and "posedge" in each["to"]]
    path = max(clocked, key=lambda steps: sum(step["delay"] for step in steps))
    start, end = path[0]["from"], path[-1]["to"]
    reached = [(0.0, outputs.get(start["cell"], start["cell"]))]
    time = 0.0
    for step in path:
        time += step["delay"]
        if step["type"] == "routing" and "$" not in step["net"]:
            reached.append((round(time, 2), _inside(step["net"])))
    return (*reached, (round(time, 2), outputs.get(end["cell"], end["cell"])))


def _worst_paths(nets: list[dict[str, Any]], outputs: dict[str, str]) -> tuple[WorstPath, ...]:
    worst: dict[str, WorstPath] = {}
    for net in nets:
        for endpoint in net["endpoints"]:
            end = outputs.get(endpoint["cell"], _inside(endpoint["cell"]))
            delay = max(endpoint["delay"])
            block = _block(end)
            if block not in worst or delay > worst[block].delay_ns:
                worst[block] = WorstPath(block, round(delay, 2), end)
    return tuple(sorted(worst.values(), key=lambda path: -path.delay_ns))
