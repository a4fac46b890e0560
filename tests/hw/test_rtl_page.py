"""The page for those who instantiate the NIC's Verilog."""

import re
import subprocess
import sys
from pathlib import Path

from amoeba_hw.nic import Nic
from amoeba_model.parameters import NicParameters

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "hw" / "rtl" / "README.md"
ROW = re.compile(r"\| `(\w+)` \| (input|output) \| (\d+) \| (\d+) \| (\d+) \|")


def test_the_tables_are_as_the_script_writes_them():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "rtl_ports.py", "--check"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_directions_and_widths_are_those_of_the_buses():
    ports = {name: (direction, *map(int, bits)) for name, direction, *bits in ROW.findall(PAGE.read_text())}
    # AMBA AXI and AXI-Stream say who drives what; a strobe has a bit for each byte
    assert ports["bar__awvalid"] == ("input", 1, 1, 1)
    assert ports["bar__rdata"] == ("output", 32, 32, 32)
    assert ports["host__awvalid"] == ("output", 1, 1, 1)
    assert ports["host__rdata"] == ("input", 128, 256, 512)
    assert ports["host__wstrb"] == ("output", 16, 32, 64)
    assert ports["rx__tready"] == ("output", 1, 1, 1)
    assert ports["tx__tkeep"] == ("output", 16, 32, 64)
    assert ports["irq"][1] == NicParameters().contexts


def test_every_interface_of_the_nic_is_on_the_page():
    text = PAGE.read_text()
    for name in Nic(NicParameters()).signature.members:
        assert f"| `{name}` | direction |" in text
