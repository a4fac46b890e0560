"""Whole NICs placed and routed on an Artix-7, for ``make synth ARGS=--artix7``."""

import dataclasses
import datetime
import hashlib
import os
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from amoeba_hw.artix7 import (
    DEVICE,
    PART_BLOCK_RAMS,
    PART_LUTS,
    PART_REGISTERS,
    ROUTER,
    count_cells,
    place_and_route,
    write_harness,
    write_netlist,
)
from amoeba_hw.blocks import UntracedNic
from amoeba_hw.synthesis import ToolStoppedError, progress
from amoeba_hw.yosys import yosys_version
from amoeba_model.parameters import NicParameters
from fpga_tools import fetch_tools, tool_versions

__all__ = ["SEEDS", "TARGET_MHZ", "render_artix7", "route_nic"]

FOLDER = Path(__file__).parents[1] / "build" / "artix7"
TARGET_MHZ = 50.0
SEEDS = (1, 2, 3)
_WORST = 12
"""Blocks whose slowest path the page shows."""
_RAM_LUTS = {
    "RAM32M": 4, "RAM64M": 4, "RAM32X1D": 2, "RAM64X1D": 2, "RAM128X1D": 4, "RAM32X1S": 1, "RAM64X1S": 1,
    "RAM128X1S": 2, "RAM256X1S": 4, "SRL16E": 1, "SRLC32E": 1,
}  # fmt: skip
"""Places for a LUT that a memory takes."""


def route_nic(
    name: str,
    parameters: NicParameters,
    before: dict[str, Any],
    *,
    commit: str,
    seeds: tuple[int, ...],
    minutes: float,
) -> Iterator[dict[str, Any]]:
    """Synthesize a NIC, then place and route it with each seed. Yields its row after each.

    The row of seeds that ended before the limit has their figures; of others it says how far they got. Other seeds
    of the row ``before`` stay if it has the same RTLIL, its notes do not.

    Raises
    ------
    OutOfReachError
        Debian's packages of the tools cannot be had.
    """
    commands = fetch_tools()
    versions = tool_versions(commands)
    os.environ["PATH"] = f"{commands}{os.pathsep}{os.environ['PATH']}"
    component = UntracedNic(parameters)
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    text = write_netlist(component, folder)
    rtlil = hashlib.sha256(text.encode()).hexdigest()
    row: dict[str, Any] = {
        "commit": commit,
        "rtlil": rtlil,
        "date": datetime.date.today().isoformat(),
        "yosys": yosys_version(),
        "nextpnr": versions[ROUTER],
        "cells": count_cells(folder),
        "seeds": before["seeds"] if before.get("rtlil") == rtlil else {},
    }
    yield row
    write_harness(component, folder)
    for seed in seeds:
        try:
            routed = place_and_route(folder, seed=seed, frequency_mhz=TARGET_MHZ, timeout=60 * minutes)
            row["seeds"][str(seed)] = dataclasses.asdict(routed)
        except ToolStoppedError as error:
            row["seeds"][str(seed)] = {"stopped": f"{progress(error.log)}; {str(error).splitlines()[0].rstrip(':')}"}
        yield row


def render_artix7(store: dict[str, dict[str, Any]]) -> list[str]:
    """Render the lines of docs/synthesis.md for the NICs that are stored."""
    lines = [
        "## Whole NICs on an Artix-7 XC7A200T, speed grade 1",
        "`make synth ARGS=--artix7` repeats this section. Yosys synthesizes the NIC, and nextpnr places and routes",
        f"it on `{DEVICE}`, the part of a Nexys Video, with {TARGET_MHZ:.0f} MHz as target. The command fetches",
        "nextpnr from Debian. `build/artix7` keeps netlists, reports and FASM files.",
        "",
        "A shift register feeds the ports of the NIC from four pins of that board, as on the ECP5. Ethernet MAC and",
        "DRAM are not part of the design. No board has run it. Frequencies are those that nextpnr reports after",
        "routing. nextpnr 0.11.1 does not time paths from and to RAMB36E1, so block RAMs are RAMB18E1 only. LUTs are",
        "all cells that take a place for a LUT; two small ones may share a place.",
    ]
    for name, row in store.items():
        lines += ["", f"### {name}, routed" if _routed(row) else f"### {name}, synthesized", *_render_nic(row)]
    return lines


def _routed(row: dict[str, Any]) -> list[dict[str, Any]]:
    return [figures for figures in row["seeds"].values() if "frequency_mhz" in figures]


def _render_nic(row: dict[str, Any]) -> Iterator[str]:
    yield (
        f"Commit {row['commit']}, RTLIL {row['rtlil'][:12]}, Yosys {row['yosys']}, nextpnr {row['nextpnr']}, "
        f"{row['date']}."
    )
    yield from ("", *_render_cells(row["cells"]))
    routed = _routed(row)
    if row["seeds"]:
        yield from ("", "| seed | LUT | FF | CARRY4 | RAMB18 | DSP48 | MHz |", "|---|---|---|---|---|---|---|")
        yield from (_render_seed(seed, figures) for seed, figures in row["seeds"].items())
    if notes := row.get("notes"):
        yield from ("", *notes)
    if routed:
        speeds = [figures["frequency_mhz"] for figures in routed]
        slowest = min(routed, key=lambda figures: figures["frequency_mhz"])
        yield from ("", f"Median {statistics.median(speeds):.1f} MHz, worst {min(speeds):.1f} MHz.", "")
        yield from _render_paths(slowest)


def _render_cells(cells: dict[str, int]) -> Iterator[str]:
    memory = sum(_RAM_LUTS.get(kind, 0) * number for kind, number in cells.items())
    luts = memory + sum(number for kind, number in cells.items() if kind.startswith(("LUT", "INV")))
    registers = sum(number for kind, number in cells.items() if kind.startswith("FD"))
    block_rams = cells.get("RAMB18E1", 0)
    share = f"{_percent(luts, PART_LUTS)} of {PART_LUTS:,}"
    yield f"Yosys alone counts {luts:,} LUT ({share}), {memory:,} of them LUT RAM,"
    yield f"{registers:,} FF ({_percent(registers, PART_REGISTERS)}), {cells.get('CARRY4', 0):,} CARRY4 and"
    yield f"{block_rams} RAMB18 ({_percent(block_rams, PART_BLOCK_RAMS)})."


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %"


def _render_seed(seed: str, figures: dict[str, Any]) -> str:
    if "stopped" in figures:
        return f"| {seed} | | | | | | {figures['stopped']} |"
    return (
        f"| {seed} | {figures['luts']:,} ({_percent(figures['luts'], PART_LUTS)}) | {figures['registers']:,} "
        f"| {figures['carries']:,} | {figures['block_rams']} | {figures['multipliers']} "
        f"| {figures['frequency_mhz']:.1f} |"
    )


def _render_paths(figures: dict[str, Any]) -> Iterator[str]:
    yield from ("Slowest path of the slowest seed:", "", "| ns | net |", "|---|---|")
    yield from (f"| {time:.1f} | `{net}` |" for time, net in figures["critical_path"])
    yield from ("", "Latest arrivals by block, the way of the clock included:", "", "| block | ns | register |")
    yield "|---|---|---|"
    yield from (
        f"| {path['block']} | {path['delay_ns']:.1f} | `{path['end']}` |" for path in figures["worst"][:_WORST]
    )
