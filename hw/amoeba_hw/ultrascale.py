"""Size of one block on UltraScale+, as Yosys estimates it: there is no open place and route for that family."""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from amaranth.lib import wiring

from amoeba_hw.synthesis import harness_rtlil, run_yosys

__all__ = ["UltraScaleEstimate", "estimate_ultrascale", "estimate_ultrascale_rtlil"]


@dataclass(frozen=True)
class UltraScaleEstimate:
    """Primitives after ``synth_xilinx -family xcup``, the registers of the harness included."""

    luts: int
    registers: int
    dsps: int
    block_rams: int


def estimate_ultrascale(block: wiring.Component) -> UltraScaleEstimate:
    """Synthesize ``block`` in a ``Harness``. Raises RuntimeError if Yosys fails."""
    return estimate_ultrascale_rtlil(harness_rtlil(block))


def estimate_ultrascale_rtlil(rtlil_text: str) -> UltraScaleEstimate:
    """:func:`estimate_ultrascale` of a block that :func:`amoeba_hw.synthesis.harness_rtlil` has written."""
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        (folder / "top.il").write_text(rtlil_text)
        script = "read_rtlil top.il; synth_xilinx -family xcup -flatten -top top; tee -o stat.json stat -json"
        run_yosys(folder, script)
        report = (folder / "stat.json").read_text()
        cells = json.loads(report[report.index("{") :])["design"]["num_cells_by_type"]

    def count(*prefixes: str) -> int:
        return sum(number for name, number in cells.items() if name.startswith(prefixes))

    return UltraScaleEstimate(
        luts=count("LUT", "RAM32", "RAM64", "RAM128", "SRL"),
        registers=count("FD"),
        dsps=count("DSP48"),
        block_rams=count("RAMB"),
    )
