"""RandomAccess, verified, on every mixture of NICs."""

import json

import pytest
from amoeba.libfabric.objects.cluster import open_cluster
from amoeba_tools.cli import app
from amoeba_tools.random_access import run_gups
from typer.testing import CliRunner


@pytest.mark.parametrize("kinds", ["rtl,rtl", "model,rtl", "rtl,model", "rtl,rtl,rtl,rtl"])
def test_the_benchmark_verifies_on_rtl(kinds):
    with open_cluster(kinds.split(",")) as fabric:
        result = run_gups(fabric, table_bits=6, window=32)
        faults = [str(fault) for device in fabric.devices for fault in device.faults()]
    assert (result.passed, result.errors, result.updates) == (True, 0, 256)
    assert faults == []


def test_the_command_prints_a_verified_result_of_rtl_nics():
    result = CliRunner().invoke(
        app, ["gups", "--device", "rtl", "--ranks", "2", "--table-size", "5", "--updates", "64", "--json"]
    )
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert (facts["errors"], facts["passed"], facts["updates"]) == (0, True, 64)
    assert all(device.startswith("rtl ") for device in facts["devices"])


def test_equal_runs_take_equal_cycles_on_rtl():
    cycles = set()
    for _ in range(2):
        with open_cluster(["rtl", "rtl"]) as fabric:
            cycles.add(run_gups(fabric, table_bits=5, updates=64).cycles)
    assert len(cycles) == 1
