"""Levels of logic and area by hierarchy, of whole NICs and of blocks: for ``make synth ARGS=--levels``."""

import dataclasses
import hashlib
from typing import Any

from amaranth.lib import wiring
from amoeba_hw.analysis.mapped import MappedNetlist
from amoeba_hw.blocks import UntracedNic
from amoeba_hw.synthesis import harness_rtlil, map_ecp5_rtlil
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import BUILDS, NicParameters

__all__ = ["NICS", "measure_block", "measure_nic", "render_levels", "summary"]

NICS: dict[str, NicParameters] = {
    "smallest": dataclasses.replace(
        BUILDS["tiny"], contexts=1, keys=16, peers=4, target_pdcs=4, window=16, payload=256, receives=4, unexpected=4,
        event_counters=4, datatypes=(Datatype.FI_UINT32, Datatype.FI_UINT64),
        ops=(Op.FI_SUM, Op.FI_BXOR, Op.FI_ATOMIC_READ, Op.FI_ATOMIC_WRITE, Op.FI_CSWAP),
    ),
    **BUILDS,
}  # fmt: skip
"""Whole NICs by name: the smallest that has every block, and the named builds."""

_LARGE = 1000
"""LUT4 from which a part of a block has a row of its own."""
_WORST = 8
"""Paths that the page shows."""
_COLUMNS = {
    "luts": "LUT4", "registers": "TRELLIS_FF", "luts_of_ram": "TRELLIS_DPR16X4", "carries": "CCU2C",
    "block_rams": "DP16KD", "multipliers": "MULT18X18D",
}  # fmt: skip
"""Types of cells, by what a row calls their number."""


def measure_nic(name: str) -> dict[str, Any]:
    """Map a whole NIC to ECP5 cells: its levels and its area."""
    return _measured(UntracedNic(NICS[name]), "block.nic")


def measure_block(block: wiring.Component) -> dict[str, Any]:
    """Map a block of a NIC, as :func:`measure_nic`."""
    return _measured(block, "block")


def _measured(component: wiring.Component, inside: str) -> dict[str, Any]:
    text = harness_rtlil(component, global_reset=True)
    return {"rtlil": hashlib.sha256(text.encode()).hexdigest(), **_figures(map_ecp5_rtlil(text, inside=inside))}


def _figures(netlist: MappedNetlist) -> dict[str, Any]:
    paths = {block: path for block, path in netlist.longest_paths(2).items() if block != "(harness)"}
    worst = sorted(paths.values(), key=lambda path: -path.levels)[:_WORST]
    return {
        "blocks": {
            block: {"levels": paths[block].levels if block in paths else 0, **_counts(cells)}
            for block, cells in netlist.area(2).items()
            if block != "(harness)"
        },
        "parts": {
            part: counts
            for part, counts in ((part, _counts(cells)) for part, cells in netlist.area(3).items())
            if part.count(".") == 2 and counts["luts"] >= _LARGE
        },
        "paths": [{"levels": path.levels, "path": str(path)} for path in worst],
    }


def _counts(cells: dict[str, int]) -> dict[str, int]:
    return {column: cells.get(kind, 0) for column, kind in _COLUMNS.items()}


def _total(row: dict[str, Any]) -> dict[str, int]:
    blocks = row["blocks"].values()
    return {"levels": max(each["levels"] for each in blocks), **{
        column: sum(each[column] for each in blocks) for column in _COLUMNS
    }}  # fmt: skip


def summary(name: str, row: dict[str, Any]) -> str:
    """Describe a measured NIC or block in a line, and its worst paths in one each."""
    total = _total(row)
    return (
        f"{name}: {total['levels']} levels of LUT4, {total['luts']:,} LUT4, {total['registers']:,} FF, "
        f"{total['block_rams']} DP16KD\n" + "\n".join(f"  {path['levels']}: {path['path']}" for path in row["paths"])
    )


def render_levels(store: dict[str, dict[str, Any]]) -> list[str]:
    """Render the lines of docs/synthesis.md for the NICs that are stored."""
    lines = [
        "## Levels and area of whole NICs",
        "`make synth ARGS=--levels` counts LUT4 between registers, and area by hierarchy, on the ECP5 with Yosys",
        "alone. A carry chain is one level, and so is the read of a LUT RAM. A block's levels are those of the",
        "longest path that ends in it; in brackets stands the module of logic without a name. Registers, memories,",
        "carry cells and multipliers count for the module that has them. Yosys does not say where a LUT is from: a",
        "LUT counts for the module of most cells that it drives. The trace port is left open. The harness does not",
        "count. The hash is that of the RTLIL which Yosys reads: the same for the same hardware.",
        "",
        "Yosys saves LUTs on every path that is shorter than the longest one of the NIC. The levels of such a path",
        "therefore depend on the rest of the NIC: only the longest path of a NIC says what its logic needs.",
    ]
    for name in (each for each in NICS if each in store):
        lines += ["", f"### {name}", *_render_nic(NICS[name], store[name])]
    return lines


def _render_nic(parameters: NicParameters, row: dict[str, Any]) -> list[str]:
    total = _total(row)
    return [
        f"{parameters.data_width} bits, {len(parameters.datatypes)} datatypes, {len(parameters.ops)} operations, "
        f"{parameters.contexts} contexts, {parameters.peers} peers,",
        f"{parameters.receives} receives, {'' if parameters.event_rings else 'no '}event rings,",
        f"{parameters.target_pdcs} target PDCs, a window of {parameters.window}, {parameters.lines} lines.",
        f"Commit {row['commit']}, RTLIL {row['rtlil'][:12]}, Yosys {row['yosys']}, {row['date']}.",
        "",
        "| block | levels | LUT4 | of these LUT RAM | FF | DP16KD | MULT18 |",
        "|---|---|---|---|---|---|---|",
        _row("the NIC", total),
        *(
            _row(block or "(between)", counts)
            for block, counts in sorted(row["blocks"].items(), key=lambda item: -item[1]["luts"])
        ),
        "",
        "| largest parts | LUT4 | of these LUT RAM | FF | DP16KD | MULT18 |",
        "|---|---|---|---|---|---|",
        *(_row(part, counts) for part, counts in sorted(row["parts"].items(), key=lambda item: -item[1]["luts"])),
        "",
        "| levels | longest path of a block |",
        "|---|---|",
        *(f"| {path['levels']} | `{path['path']}` |" for path in row["paths"]),
    ]


def _row(name: str, counts: dict[str, int]) -> str:
    levels = [str(counts["levels"])] if "levels" in counts else []
    luts_of_ram = 4 * counts["luts_of_ram"]
    numbers = (counts["luts"], luts_of_ram, counts["registers"], counts["block_rams"], counts["multipliers"])
    return f"| {' | '.join([name, *levels, *(f'{number:,}' for number in numbers)])} |"
