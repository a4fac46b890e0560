# amaranth: UnusedElaboratable=no
"""A simulated NIC evaluates its logic once a cycle: nothing hangs on what the harness sets, and on nothing twice.

Covers ``nic_ports.py``.
"""

import os
import re
import subprocess

import pytest
from amoeba_hw.blocks import BLOCKS
from amoeba_hw.verilog import generate_verilog
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters
from amoeba_sim import verilate
from amoeba_sim.nic_ports import BOUNDARY, ports_of, registered_inputs

from tests.sim import copy_engine as engine

SMALL = NicParameters(contexts=2, ops=(Op.FI_SUM,), datatypes=(Datatype.FI_UINT64,))


def verilated(folder, verilog, top):
    """(what Verilator says, the C++ that it writes)."""
    (folder / "design.v").write_text(verilog)
    root = verilate._verilator_root()
    said = subprocess.run(
        [root / "bin" / "verilator_bin", *verilate._VERILATOR_FLAGS, "--top-module", top, "design.v"],
        cwd=folder, env={**os.environ, "VERILATOR_ROOT": str(root)}, check=True, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    return said.stdout + said.stderr, "".join(path.read_text() for path in folder.glob("obj_dir/*.cpp"))


def hangs_on_inputs(text):
    return re.search(r"___ico_\w+__TOP", text) is not None


def test_nothing_hangs_on_what_the_harness_sets_but_registers(tmp_path):
    verilog = generate_verilog(engine.CopyEngine(64))
    bounded = verilog + registered_inputs(ports_of(verilog, "top"), "top")
    for name, text, top, expected in (("bare", verilog, "top", True), ("bounded", bounded, BOUNDARY, False)):
        (tmp_path / name).mkdir()
        _, written = verilated(tmp_path / name, text, top)
        assert hangs_on_inputs(written) is expected, name


@pytest.mark.long
@pytest.mark.parametrize("name", ["Initiator", "Target"])
def test_no_bit_of_a_signal_hangs_on_another_bit_of_it(tmp_path, name):
    said, _ = verilated(tmp_path, generate_verilog(BLOCKS[name][1](SMALL)), "top")
    circular = re.findall(r"UNOPTFLAT: .*combinational logic: (.*)", said)
    assert not circular, f"{name} is evaluated until nothing changes: {circular}"
