"""Size of a block of the NIC at given parameters, cached by what Yosys is given."""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from amoeba_hw.blocks import BLOCKS
from amoeba_hw.synthesis import count_ecp5_rtlil, harness_rtlil
from amoeba_hw.ultrascale import estimate_ultrascale_rtlil
from amoeba_hw.yosys import yosys_version
from amoeba_model.parameters import NicParameters

from amoeba_sim.verilate import cache_directory

__all__ = ["BLOCK_NAMES", "FAMILIES", "Area", "count_area", "synthesis_tools"]

BLOCK_NAMES = tuple(BLOCKS)
"""Blocks whose size can be counted."""


@dataclass(frozen=True)
class Area:
    """Primitives, those of the harness included (:class:`amoeba_hw.synthesis.Harness`)."""

    luts: int
    """LUT4 on ECP5, carry cells and distributed RAM as what they occupy; on UltraScale+ LUTs of any size."""
    registers: int
    dsps: int
    """MULT18X18D on ECP5, DSP48 on UltraScale+."""
    block_rams: int
    """DP16KD on ECP5, RAMB18 and RAMB36 on UltraScale+."""


def _ecp5(rtlil_text: str) -> Area:
    counted = count_ecp5_rtlil(rtlil_text)
    return Area(counted.luts, counted.registers, counted.multipliers, counted.block_rams)


def _ultrascale(rtlil_text: str) -> Area:
    counted = estimate_ultrascale_rtlil(rtlil_text)
    return Area(counted.luts, counted.registers, counted.dsps, counted.block_rams)


FAMILIES: dict[str, tuple[bool, Callable[[str], Area]]] = {"ecp5": (True, _ecp5), "ultrascale": (False, _ultrascale)}
"""By name: whether the harness drives the ECP5's global reset, and who counts."""


def synthesis_tools() -> str:
    """Name the tools that figures depend on besides the hardware's own sources."""
    return f"amaranth {metadata.version('amaranth')}, yosys {yosys_version()}"


def count_area(block: str, family: str, parameters: NicParameters) -> Area:
    """Count a block by Yosys: seconds for RegisterBank, many minutes for Core with everything.

    A block whose RTLIL was counted before is not counted again: ``build/area`` of a checkout remembers, or a folder
    beside the cache of simulations.

    Raises ValueError for an unknown block or family, and :class:`amoeba_hw.synthesis.ToolStoppedError` if
    Yosys fails.
    """
    if block not in BLOCKS:
        raise ValueError(f"expected a block of {', '.join(BLOCKS)}, got {block!r}")
    if family not in FAMILIES:
        raise ValueError(f"expected a family of {', '.join(FAMILIES)}, got {family!r}")
    global_reset, count = FAMILIES[family]
    text = harness_rtlil(BLOCKS[block][1](parameters), global_reset=global_reset)
    key = hashlib.sha256(f"{family}\0{synthesis_tools()}\0{text}".encode()).hexdigest()[:24]
    remembered = cache_directory().with_name("area") / f"{key}.json"
    try:
        return Area(**json.loads(remembered.read_text()))
    except (FileNotFoundError, TypeError, ValueError):  # the last two: somebody has written something else there
        area = count(text)
    _store(remembered, json.dumps(asdict(area)))
    return area


def _store(path: Path, text: str) -> None:
    """Write a file atomically, so that readers never see half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    arriving = path.with_name(f"{path.name}.{os.getpid()}")
    arriving.write_text(text)
    os.replace(arriving, path)
