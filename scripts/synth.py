"""``make synth``: size and speed of blocks on FPGAs, kept in docs/synthesis.json and docs/synthesis.md.

    python scripts/synth.py --list
    python scripts/synth.py                       every block, on both families: hours
    python scripts/synth.py FastLanes             one block: minutes
    python scripts/synth.py --no-route Core       LUT counts only, no place and route
"""

import argparse
import dataclasses
import datetime
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amaranth.lib import wiring
from amoeba_hw.atomic.lanes import FastLanes
from amoeba_hw.atomic.pipeline import ArithmeticPipeline
from amoeba_hw.core import Core
from amoeba_hw.host.register_bank import RegisterBank
from amoeba_hw.initiator.initiator import Initiator
from amoeba_hw.memory.engine import MemoryEngine
from amoeba_hw.synthesis import count_ecp5, synthesize
from amoeba_hw.target.target import Target
from amoeba_hw.ultrascale import estimate_ultrascale
from amoeba_hw.wire.receiver import FrameReceiver
from amoeba_hw.wire.transmitter import FrameTransmitter
from amoeba_model.opcodes import Datatype
from amoeba_model.parameters import NicParameters
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

DOCS = Path(__file__).parent.parent / "docs"
STORE = DOCS / "synthesis.json"
PAGE = DOCS / "synthesis.md"
ECP5_WIDTH, ULTRASCALE_WIDTH = 128, 512

Block = Callable[[NicParameters], wiring.Component]


def _fitting(parameters: NicParameters) -> tuple[Datatype, ...]:
    """Datatypes whose elements fit into a beat; wider ones the memory engine handles in another way."""
    return tuple(datatype for datatype in parameters.datatypes if datatype.size <= parameters.beat_bytes)


BLOCKS: dict[str, tuple[str, Block]] = {
    "FastLanes": (
        "single-cycle lanes of the atomic unit, all datatypes",
        lambda p: FastLanes(p.data_width, _fitting(p), p.ops),
    ),
    "ArithmeticPipeline": (
        "sums and products of the atomic unit, all datatypes",
        lambda p: ArithmeticPipeline(p.data_width, _fitting(p), p.ops),
    ),
    "MemoryEngine": ("the atomic unit: line table, lanes, pipeline, write-back", MemoryEngine),
    "Initiator": ("descriptors to requests, answers to completions", Initiator),
    "Target": ("PDC, keys, checks, answers", Target),
    "FrameTransmitter": ("frames out", FrameTransmitter),
    "FrameReceiver": ("frames in", FrameReceiver),
    "RegisterBank": ("the BAR", RegisterBank),
    "Core": ("the NIC without its buses", Core),
}


def commit() -> str:
    """The commit that the hardware is from; marked where hw/ or model/ differ from it."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], capture_output=True, text=True, check=True, cwd=DOCS.parent
        ).stdout.strip()

    return git("rev-parse", "--short", "HEAD") + ("-dirty" if git("status", "--porcelain", "hw", "model") else "")


def measure(name: str, family: str, route: bool) -> dict[str, Any]:
    """Figures of one block on one family."""
    _, make = BLOCKS[name]
    if family == "ultrascale":
        figures: Any = estimate_ultrascale(make(NicParameters(data_width=ULTRASCALE_WIDTH)))
    elif route:
        figures = synthesize(make(NicParameters(data_width=ECP5_WIDTH)))
    else:
        figures = count_ecp5(make(NicParameters(data_width=ECP5_WIDTH)))
    return {**dataclasses.asdict(figures), "commit": commit(), "date": datetime.date.today().isoformat()}


def render(store: dict[str, dict[str, dict[str, Any]]]) -> str:
    """docs/synthesis.md: written from the stored figures."""
    lines = [
        "# Size and speed on FPGAs",
        "",
        "Written by `make synth` (`scripts/synth.py`) from `synthesis.json`. All datatypes and operations unless",
        "noted; each block between registers of a two-pin harness, which counts in. Place and route takes from",
        "seconds to an hour per block, so it is not part of CI; each row names the commit it was taken from.",
        "",
        f"## ECP5 LFE5UM5G-85F, speed grade 8, {ECP5_WIDTH}-bit datapath",
        "Yosys and nextpnr. The part has 83,640 LUT4, 156 MULT18X18D and 208 DP16KD. Blocks without a frequency were",
        "synthesized, not placed.",
        "",
        "| block | what | LUT4 | FF | MULT18 | DP16KD | MHz | commit |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, (what, _) in BLOCKS.items():
        if row := store.get("ecp5", {}).get(name):
            speed = f"{row['frequency_mhz']:.0f}" if row.get("frequency_mhz") else ""
            lines.append(
                f"| {name} | {what} | {row['luts']:,} | {row['registers']:,} | {row['multipliers']} "
                f"| {row['block_rams']} | {speed} | {row['commit']} |"
            )
    lines += [
        "",
        "### Parts of the atomic unit, placed and routed",
        "128 bits, one seed each, expect some 7 % either way; `amoeba_hw.synthesis.synthesize(component)` repeats",
        "them. *In its loop*: the result fed back to the target, as in the one-cycle read-modify-write. The full",
        "matrix of the pipeline was taken before its floating-point units stopped waiting for the schedule; the",
        "smaller build after.",
        "",
        "| part | LUT4 | MULT18 | MHz |",
        "|---|---|---|---|",
    ]
    for name, row in store.get("ecp5 parts", {}).items():
        multipliers = "" if row["multipliers"] is None else row["multipliers"]
        lines.append(f"| {name} | {row['luts']:,} | {multipliers} | {row['frequency_mhz']} |")
    lines += [
        "",
        f"## UltraScale+, {ULTRASCALE_WIDTH}-bit datapath",
        "Yosys `synth_xilinx -family xcup`: primitives, no place and route, so no frequency.",
        "",
        "| block | what | LUT | FF | DSP48E2 | RAMB | commit |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, (what, _) in BLOCKS.items():
        if row := store.get("ultrascale", {}).get(name):
            lines.append(
                f"| {name} | {what} | {row['luts']:,} | {row['registers']:,} | {row['dsps']} "
                f"| {row['block_rams']} | {row['commit']} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Size and speed of blocks on FPGAs.")
    parser.add_argument("blocks", nargs="*", metavar="BLOCK", help="all by default; see --list")
    parser.add_argument("--family", choices=["ecp5", "ultrascale"], action="append", help="both by default")
    parser.add_argument("--no-route", action="store_true", help="ECP5: count LUTs, do not place and route")
    parser.add_argument("--list", action="store_true", help="name the blocks")
    arguments = parser.parse_args()
    if arguments.list:
        for name, (what, _) in BLOCKS.items():
            print(f"{name:20} {what}")
        return
    for name in arguments.blocks:
        if name not in BLOCKS:
            sys.exit(f"expected a block of {', '.join(BLOCKS)}, got {name!r}")
    console = Console()
    store = json.loads(STORE.read_text()) if STORE.exists() else {}
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        for name in arguments.blocks or BLOCKS:
            for family in arguments.family or ("ecp5", "ultrascale"):
                task = bar.add_task(f"{name} on {family}", total=None)
                row = measure(name, family, not arguments.no_route)
                bar.remove_task(task)
                console.print(f"{name} on {family}: {row}")
                # Read again: another run may have stored its own blocks meanwhile.
                store = json.loads(STORE.read_text()) if STORE.exists() else {}
                store.setdefault(family, {})[name] = row
                STORE.write_text(json.dumps(store, indent=1, sort_keys=True) + "\n")
                PAGE.write_text(render(store))


if __name__ == "__main__":
    main()
