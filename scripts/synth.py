"""``make synth``: size and speed of blocks on FPGAs, kept in docs/synthesis.json and docs/synthesis.md.

Usage::

    python scripts/synth.py --list
    python scripts/synth.py                       every block, on both families: hours
    python scripts/synth.py FastLanes             one block: minutes
    python scripts/synth.py --parts               the parts of the atomic unit in PARTS: a minute each,
                                                  minutes where the goal is out of reach
    python scripts/synth.py --no-route Core       LUT counts only, no place and route
    python scripts/synth.py --levels              LUT levels and area by hierarchy of the NIC smallest
    python scripts/synth.py --levels full Target  the same of others: NICs by their names, or blocks
    python scripts/synth.py --artix7              the NIC node placed and routed on an Artix-7, three seeds: two hours

Blocks are those of ``BLOCKS``.
"""

import argparse
import dataclasses
import datetime
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amaranth.lib import wiring
from amoeba_hw.blocks import BLOCKS, PCIE_BLOCKS, Block, LanesLoop, PreparedLanes, fitting
from amoeba_hw.core import Core
from amoeba_hw.synthesis import (
    ToolStoppedError,
    count_ecp5,
    nextpnr_version,
    occupied,
    progress,
    synthesize,
)
from amoeba_hw.ultrascale import estimate_ultrascale
from amoeba_hw.yosys import yosys_version
from amoeba_model.atomic.formats import is_float
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

sys.path.insert(0, str(Path(__file__).parent))
from artix7 import SEEDS, render_artix7, route_nic
from fpga_tools import OutOfReachError, fetch_tools
from nic_levels import NICS, measure_block, measure_nic, render_levels, summary

DOCS = Path(__file__).parent.parent / "docs"
STORE = DOCS / "synthesis.json"
PAGE = DOCS / "synthesis.md"

ECP5 = NicParameters(
    data_width=128, contexts=2, keys=64, peers=8, target_pdcs=8, window=32, payload=1024, lines=32,
    single_cycle_products=False,
)  # fmt: skip
"""Every datatype and operation, in a part of 84,000 LUT4.

The NIC has fewer lines, peers and packets in flight. Products of integers are in the pipeline, since the multipliers
are too slow for a loop of one cycle.
"""
ULTRASCALE = NicParameters(data_width=512)

REDUCED: dict[str, Any] = {
    "lines": 16,
    "window": 16,
    "receives": 16,
    "unexpected": 16,
    "event_counters": 16,
    "datatypes": tuple(datatype for datatype in Datatype if "LONG_DOUBLE" not in datatype.name),
    "ops": tuple(op for op in Op if op is not Op.FI_PROD),
}
"""Parameters with which the whole NIC fits the ECP5; a full atomic unit fills half of it."""

TARGET_MHZ = 100.0
"""Target of the placer for blocks on the ECP5. With a higher one, it cares for too many paths at once."""

ECP5_BLOCKS: dict[str, tuple[str, Block]] = {
    **BLOCKS,
    "ReducedCore": (
        "the same without FI_PROD and 80-bit formats; 16 lines, receives, unexpected messages and event counters, "
        "a window of 16",
        lambda p: Core(dataclasses.replace(p, **REDUCED)),
    ),
}
ULTRASCALE_BLOCKS: dict[str, tuple[str, Block]] = {**BLOCKS, **PCIE_BLOCKS}
FAMILIES = {"ecp5": ECP5_BLOCKS, "ultrascale": ULTRASCALE_BLOCKS}
"""The blocks that are measured on each."""
LEVELS = "levels"
LEVELS_BY_DEFAULT = ("smallest",)
"""NICs whose levels are measured, unless others are named."""
ARTIX7 = "artix7"
ROUTED_BY_DEFAULT = ("node",)
"""NICs that are routed on an Artix-7, unless others are named."""

_INTEGERS = tuple(datatype for datatype in Datatype if not is_float(datatype))
_FITTING = fitting(ECP5)

PARTS: dict[str, Callable[[], wiring.Component]] = {
    "FastLanes in its loop, all integers": lambda: PreparedLanes(ECP5.data_width, _INTEGERS),
    "FastLanes in its loop, all integers, FLOAT, DOUBLE": lambda: PreparedLanes(
        ECP5.data_width, (*_INTEGERS, Datatype.FI_FLOAT, Datatype.FI_DOUBLE)
    ),
    "FastLanes in its loop, everything without LONG_DOUBLE_COMPLEX": lambda: PreparedLanes(ECP5.data_width, _FITTING),
    "FastLanes in its loop, everything without LONG_DOUBLE_COMPLEX, products of integers": lambda: PreparedLanes(
        ECP5.data_width, _FITTING, single_cycle_products=True
    ),
    "FastLanes alone in its loop, everything without LONG_DOUBLE_COMPLEX": lambda: LanesLoop(
        ECP5.data_width, _FITTING, tuple(Op), products=False
    ),
}
"""Placed and routed, with the one-cycle read-modify-write."""


def commit() -> str:
    """Name the last commit that changed the hardware; marked where hw/ or model/ differ from it."""
    flow = ("artix7.py", "blocks.py", "synthesis.py", "ultrascale.py", "ecp5_multipliers.py", "analysis")
    hardware = ("--", "hw/amoeba_hw", "model", *(f":!hw/amoeba_hw/{module}" for module in flow))

    def git(*arguments: str) -> str:
        command = ["git", *arguments, *hardware]
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=DOCS.parent).stdout.strip()

    return git("log", "-1", "--format=%h") + ("-dirty" if git("status", "--porcelain") else "")


def use_native_tools(console: Console) -> None:
    """Put nextpnr as machine code on the PATH, from Debian, unless there is one. Says it where there can be none."""
    if shutil.which("nextpnr-ecp5") is None:
        try:
            os.environ["PATH"] = f"{fetch_tools()}{os.pathsep}{os.environ['PATH']}"
        except OutOfReachError as error:
            console.print(f"no native nextpnr: {error}; PyPI's WebAssembly runs instead, several times slower")


def measure_levels(name: str) -> dict[str, Any]:
    """Levels and area by hierarchy of a NIC of ``NICS`` or of a block on the ECP5, with what they depend on."""
    found = measure_nic(name) if name in NICS else measure_block(ECP5_BLOCKS[name][1](ECP5))
    today = datetime.date.today().isoformat()
    return {**found, "commit": commit(), "date": today, "yosys": yosys_version()}


def measure(name: str, family: str, route: bool, minutes: float, seed: int) -> dict[str, Any]:
    """Figures of one block on one family, or of one part; counts and a note if it could not be routed in time."""
    row: dict[str, Any] = {"commit": commit(), "date": datetime.date.today().isoformat(), "yosys": yosys_version()}
    if family != "ultrascale" and route:
        row["nextpnr"] = nextpnr_version()
    if family == "ultrascale":
        figures: Any = estimate_ultrascale(ULTRASCALE_BLOCKS[name][1](ULTRASCALE))
    elif family == "ecp5 parts":
        figures = synthesize(PARTS[name]())
    elif route:
        row["note"] = f"seed {seed}"
        try:
            block = ECP5_BLOCKS[name][1](ECP5)
            figures = synthesize(block, frequency_mhz=TARGET_MHZ, seed=seed, timeout=60 * minutes)
        except ToolStoppedError as error:
            row["note"] += f"; stopped after {minutes:.0f} minutes: {progress(error.log)}"
            figures = occupied(error.log)
    else:
        figures = count_ecp5(ECP5_BLOCKS[name][1](ECP5))
    return {**dataclasses.asdict(figures), **row}


def render(store: dict[str, dict[str, dict[str, Any]]]) -> str:
    """docs/synthesis.md: written from the stored figures."""
    lines = [
        "# Size and speed on FPGAs",
        "",
        "`make synth` (`scripts/synth.py`) writes this page from `synthesis.json`. Blocks have all datatypes and",
        "operations unless noted. Figures include a two-pin harness with registers around each block. Place and",
        "route takes from seconds to an hour per block, so CI does not run it; each row names its commit.",
        "",
        "## ECP5 LFE5UM5G-85F, speed grade 8",
        "The part has 83,640 LUT4, 156 MULT18X18D and 208 DP16KD. The build for this part:",
        f"{ECP5.data_width} bits, all datatypes and operations, {ECP5.lines} lines, {ECP5.peers} peers,",
        f"{ECP5.target_pdcs} target PDCs, a window of {ECP5.window}, {ECP5.keys} keys, {ECP5.contexts} contexts,",
        f"payloads of {ECP5.payload} bytes, products of integers in the pipeline (`single_cycle_products=False`).",
        "A note may name other sizes.",
        "",
        "The tools are Yosys (`pyosys`, of the extra `synth`) and nextpnr. Without a `nextpnr-ecp5` on the PATH,",
        "`make synth` fetches a native one from Debian, without root (`scripts/fpga_tools.py`). PyPI's WebAssembly,",
        "several times slower, stands in where Debian is out of reach. Settings of `hw/amoeba_hw/synthesis.py`:",
        "",
        "| setting | rows |",
        "|---|---|",
        "| wires between LUTs as long as in a full part, for synthesis | from 9222e1f |",
        "| registers next to multipliers in the DSP blocks | from 9222e1f |",
        "| a placer that weighs the slowest paths more than by default | from 9222e1f |",
        "| a router that reroutes slow paths; the part's net GSR for the reset of all registers | after 9018770 |",
        "| LUTs of at most four inputs; data in and out at opposite corners of the part | after b610af1 |",
        "",
        "Blocks without a frequency were not placed.",
        "",
        "| block | contents | LUT4 | FF | MULT18 | DP16KD | MHz | commit | note |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, (what, _) in ECP5_BLOCKS.items():
        if row := store.get("ecp5", {}).get(name):
            speed = f"{row['frequency_mhz']:.0f}" if row["frequency_mhz"] else ""
            lines.append(
                f"| {name} | {what} | {row['luts']:,} | {row['registers']:,} | {row['multipliers']} "
                f"| {row['block_rams']} | {speed} | {row['commit']} | {row.get('note', '')} |"
            )
    if limits := store.get("ecp5 limits", {}).get("MemoryEngine"):
        lines += [
            "",
            "### Limits of MemoryEngine",
            *limits["summary"],
            "",
            "| from | to | ns | logic | routing |",
            "|---|---|---|---|---|",
            *(
                f"| {path['from']} | {path['to']} | {path['logic'] + path['routing']:.1f} "
                f"| {path['logic']:.1f} | {path['routing']:.1f} |"
                for path in limits["paths"]
            ),
        ]
    lines += [
        "",
        "### Parts of the atomic unit, placed and routed",
        "Parts have 128 bits and one seed each: expect about 7 % either way. `make synth ARGS=--parts` repeats",
        "those in `PARTS`, `amoeba_hw.synthesis.synthesize(component)` the others. *In its loop*: the result",
        "becomes the target, as in the one-cycle read-modify-write. Measure and PrepareOperands, each with a",
        "register, come first unless *alone*. In rows of older commits both took one cycle, which limited the",
        "clock. Rows without a commit are older still, of the pipeline's smaller build and of the float units.",
        "The frequency of an unrouted part is nextpnr's estimate.",
        "",
        "| part | LUT4 | MULT18 | MHz | commit |",
        "|---|---|---|---|---|",
    ]
    for name, row in sorted(store.get("ecp5 parts", {}).items()):
        multipliers = "" if row["multipliers"] is None else row["multipliers"]
        lines.append(
            f"| {name} | {row['luts']:,} | {multipliers} | {row['frequency_mhz']:.0f} | {row.get('commit', '')} |"
        )
    lines += [
        "",
        f"## UltraScale+, {ULTRASCALE.data_width}-bit datapath",
        "Yosys `synth_xilinx -family xcup` counts primitives; there is no place and route, so no frequency. The",
        "Initiator needs native Yosys, as WebAssembly runs out of stack.",
        "",
        "| block | contents | LUT | FF | DSP48E2 | RAMB | commit |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, (what, _) in ULTRASCALE_BLOCKS.items():
        if row := store.get("ultrascale", {}).get(name):
            lines.append(
                f"| {name} | {what} | {row['luts']:,} | {row['registers']:,} | {row['dsps']} "
                f"| {row['block_rams']} | {row['commit']} |"
            )
    if artix7 := store.get(ARTIX7):
        lines += ["", *render_artix7(artix7)]
    lines += ["", *render_levels(store.get(LEVELS, {}))]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Size and speed of blocks on FPGAs.")
    parser.add_argument("blocks", nargs="*", metavar="BLOCK", help="all by default; see --list")
    parser.add_argument("--family", choices=FAMILIES, action="append", help="both by default")
    parser.add_argument("--no-route", action="store_true", help="ECP5: count LUTs, do not place and route")
    parser.add_argument("--minutes", type=float, default=120, help="give up place and route then")
    parser.add_argument("--seed", type=int, default=1, help="ECP5: of the placer, of blocks")
    parser.add_argument("--parts", action="store_true", help="the parts of the atomic unit instead of blocks")
    parser.add_argument("--levels", action="store_true", help="LUT levels and area by hierarchy, of NICs or blocks")
    parser.add_argument("--artix7", action="store_true", help="whole NICs placed and routed on an Artix-7")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, metavar="SEED", help="Artix-7: of the placer")
    parser.add_argument("--render", action="store_true", help="write the page from the stored figures, no more")
    parser.add_argument("--list", action="store_true", help="name the blocks")
    arguments = parser.parse_args()
    if arguments.list:
        for name, (what, _) in (ECP5_BLOCKS | ULTRASCALE_BLOCKS).items():
            print(f"{name:20} {what}")
        return
    if arguments.render:
        PAGE.write_text(render(load()))
        return
    jobs = chosen_jobs(arguments)
    console = Console()
    if arguments.artix7:
        route_on_artix7(jobs, arguments, console)
        return
    if not (arguments.levels or arguments.no_route):
        use_native_tools(console)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        for name, family in jobs:
            task = bar.add_task(f"{name} on {family}", total=None)
            if family == LEVELS:
                row = measure_levels(name)
            else:
                row = measure(name, family, not arguments.no_route, arguments.minutes, arguments.seed)
            bar.remove_task(task)
            console.print(summary(name, row) if family == LEVELS else f"{name} on {family}: {row}")
            if family != LEVELS or name in NICS:
                record(name, family, row)


def route_on_artix7(jobs: list[tuple[str, str]], arguments: argparse.Namespace, console: Console) -> None:
    """Synthesize, place and route NICs. Stores a row whenever a seed has ended."""
    limits = {"seeds": tuple(arguments.seeds), "minutes": arguments.minutes}
    try:
        for name, family in jobs:
            before = load().get(family, {}).get(name, {})
            for row in route_nic(name, NICS[name], before, commit=commit(), **limits):
                console.print(f"{name} on {family}: {row['seeds'] or row['cells']}")
                record(name, family, row)
    except OutOfReachError as error:
        sys.exit(f"expected nextpnr from Debian: {error}")


def chosen_jobs(arguments: argparse.Namespace) -> list[tuple[str, str]]:
    """List what to measure, and where to record it. Ends the program at a name that nothing has."""
    families = arguments.family or FAMILIES
    if arguments.artix7:
        known = [*NICS]
    elif arguments.levels:
        known = [*NICS, *ECP5_BLOCKS]
    else:
        known = list(dict.fromkeys(name for family in families for name in FAMILIES[family]))
    for name in arguments.blocks:
        if name not in known:
            sys.exit(f"expected a block of {', '.join(known)}, got {name!r}")
    if arguments.artix7:
        return [(name, ARTIX7) for name in arguments.blocks or ROUTED_BY_DEFAULT]
    if arguments.levels:
        return [(name, LEVELS) for name in arguments.blocks or LEVELS_BY_DEFAULT]
    if arguments.parts:
        return [(name, "ecp5 parts") for name in PARTS]
    names = arguments.blocks or known
    return [(name, family) for name in names for family in families if name in FAMILIES[family]]


def record(name: str, family: str, row: dict[str, Any]) -> None:
    """Store a row of figures, and write the page."""
    # Read again: another run may have stored its own blocks meanwhile.
    store = load()
    store.setdefault(family, {})[name] = row
    STORE.write_text(json.dumps(store, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(render(store))


def load() -> dict[str, dict[str, dict[str, Any]]]:
    """Load the stored figures."""
    stored: dict[str, dict[str, dict[str, Any]]] = json.loads(STORE.read_text()) if STORE.exists() else {}
    return stored


if __name__ == "__main__":
    main()
