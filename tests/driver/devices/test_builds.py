"""Named builds of NICs, by ``--build`` and ``AMOEBA_BUILD``.

Covers ``libfabric/objects/cluster.py``.
"""

import json
import os
import runpy
import sys
from pathlib import Path

import pytest
from amoeba import open_cluster
from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError
from amoeba.devices.devices import default_build, default_parameters
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import BUILDS, NicParameters, named_build
from amoeba_tools.cli.app import app
from amoeba_tools.explore import grid
from amoeba_tools.tracing import Recorder
from typer.testing import CliRunner

EXAMPLES = Path(__file__).parents[3] / "examples"
TINY = "model (128-bit, 2 contexts)"


@pytest.fixture(autouse=True)
def no_build(monkeypatch):
    monkeypatch.delenv("AMOEBA_BUILD", raising=False)


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_the_full_build_is_that_of_nics_opened_without_parameters():
    assert named_build("full") == default_parameters() == NicParameters()


def test_the_tiny_build_has_the_atomics_of_gups_and_trace():
    cells = {(cell.op, cell.datatype) for cell in BUILDS["tiny"].cells()}
    assert {(Op.FI_BXOR, Datatype.FI_UINT64), (Op.FI_SUM, Datatype.FI_UINT64)} <= cells


def test_another_build_is_refused_by_name(monkeypatch):
    with pytest.raises(ValueError, match="unknown build 'huge'; expected full, tiny or node"):
        named_build("huge")
    result = run("gups", "--build", "huge")
    assert result.exit_code == 2
    assert "unknown build 'huge'" in result.output
    monkeypatch.setenv("AMOEBA_BUILD", "huge")
    with pytest.raises(FabricError, match="AMOEBA_BUILD: unknown build 'huge'") as caught:
        open_cluster()
    assert caught.value.fi_errno == Errno.FI_EINVAL


def test_gups_runs_on_the_build_and_later_nics_do_not():
    result = run("gups", "--build", "tiny", "--table-size", "6", "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["devices"] == [TINY] * 2
    assert facts["passed"]
    assert "AMOEBA_BUILD" not in os.environ


@pytest.mark.parametrize("program", [[], ["gups", "--table-size", "4"], [str(EXAMPLES / "counter.py")]])
def test_trace_and_the_program_it_traces_run_on_the_build(program):
    result = run("trace", "--build", "tiny", *program)
    assert result.exit_code == 0, result.output
    assert f"NIC 0: {TINY}" in result.output


def test_perf_runs_on_the_build():
    result = run("perf", "--build", "tiny", "-t", "tag_lat", "-n", "2", "--json")
    assert result.exit_code == 0, result.output
    assert [facts["devices"] for facts in json.loads(result.stdout)] == [[TINY] * 2]


def test_explore_varies_the_build():
    with default_build("tiny"):
        points = grid({"lines": [16, 32]})
    assert [point.parameters.data_width for point in points] == [128, 128]


@pytest.mark.parametrize("example", ["counter", "lock", "histogram", "work_queue", "ping_pong", "hash_table"])
def test_examples_run_on_the_build(example, monkeypatch):
    monkeypatch.setenv("AMOEBA_BUILD", "tiny")
    monkeypatch.setattr(sys, "argv", [example])
    monkeypatch.syspath_prepend(EXAMPLES)
    with Recorder() as recorder:
        runpy.run_path(str(EXAMPLES / f"{example}.py"), run_name="__main__")
    assert {name for recording in recorder.recordings for name in recording.names} == {TINY}


@pytest.mark.parametrize("parameters", [None, NicParameters(data_width=512)])
def test_parameters_that_are_given_come_before_the_build(parameters):
    with default_build("tiny"), open_cluster(["model"], parameters) as fabric:
        assert ("512" in fabric.nics[0].device.name) == (parameters is not None)
