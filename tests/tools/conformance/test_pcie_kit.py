"""The conformance kit on NICs on PCI Express: the driver's own VFIO code, a kernel that has type 1's rules, ``amoeba
endpoint``."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from amoeba_tools.conformance import NEEDS, checks, select

ROOT = Path(__file__).parents[3]


def run_kit(folder, kinds, *parts):
    command = [sys.executable, "-m", "tests.support.pcie_program", str(folder), kinds, *parts]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    ran = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=500, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


def check_result(result, chosen):
    assert result["failures"] == {}
    needs_a_network = {str(check) for check in chosen if "cut" in check.needs}
    assert result["checks"] == {
        str(check): "not offered" if str(check) in needs_a_network else "passed" for check in chosen
    }
    assert result["maps left"] == [0, 0]
    assert "cut" in NEEDS


def test_pages_about_memory_and_waiting_hold_on_pcie(tmp_path):
    parts = ("fi_rma", "fi_mr", "fi_cq")
    check_result(run_kit(tmp_path, "model,model", *parts), select(*parts))


@pytest.mark.long
def test_all_pages_hold_on_pcie(tmp_path):
    check_result(run_kit(tmp_path, "model,model"), checks())


@pytest.mark.long
@pytest.mark.parametrize("kinds", ["rtl,rtl+pcie"])
def test_pages_about_memory_hold_on_rtl_that_speaks_axi_and_packets(tmp_path, kinds):
    check_result(run_kit(tmp_path, kinds, "fi_rma", "fi_mr"), select("fi_rma", "fi_mr"))
