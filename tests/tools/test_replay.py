"""Recorded vectors through the endpoint API, and what happens when one does not agree.

Covers ``cli/replay.py``.
"""

from pathlib import Path

import numpy as np
import pytest
from amoeba.libfabric.objects.cluster import open_cluster
from amoeba_model.atomic.vectors import check, load
from amoeba_tools.cli import app
from amoeba_tools.replay import EndpointExecutor
from typer.testing import CliRunner

from tests.support.commands import usage_error

SOCKETS = Path(__file__).parent.parent / "data" / "libfabric-1.17-sockets.npz"
WIDE = Path(__file__).parents[2] / ".." / "shared" / "vectors" / "libfabric-1.17-wide-types.npz"


@pytest.mark.parametrize(
    ("path", "vector", "offset"),
    [(SOCKETS, 64, 0), (SOCKETS, 7, 3), (WIDE, 16, 0), (WIDE, 5, 9)],
    ids=["sockets", "sockets-misaligned", "wide", "wide-misaligned"],
)
def test_every_recorded_vector_agrees_through_the_endpoint_api(path, vector, offset):
    if not path.exists():
        pytest.skip(f"{path} is not here")
    with open_cluster() as fabric, EndpointExecutor(fabric, vector=vector, offset=offset) as executor:
        results = [check(recorded, executor) for recorded in load(path)]
    assert [str(result.cell) for result in results if result.mismatches] == []
    assert len(results) == (361 if path is SOCKETS else 56)


def test_single_elements_take_the_inline_path_and_agree():
    with open_cluster() as fabric, EndpointExecutor(fabric, vector=1) as executor:
        results = [check(recorded, executor) for recorded in load(SOCKETS) if "UINT64" in str(recorded.cell)]
    assert len(results) == 30
    assert sum(result.mismatches for result in results) == 0


@pytest.fixture
def small_recording(tmp_path):
    """Two rows of one cell, worked out by hand: 1 + 2 and 255 + 1, of UINT8."""

    def make(after):
        path = tmp_path / "small.npz"
        rows = {"target": [1, 255], "operand": [2, 1], "after": after}
        np.savez(path, **{f"fetch/FI_SUM/FI_UINT8/{k}": np.array(v, np.uint8).reshape(2, 1) for k, v in rows.items()})
        return str(path)

    return make


def test_the_command_succeeds_when_all_rows_agree(small_recording):
    result = CliRunner().invoke(app, ["replay", small_recording([3, 0])])
    assert result.exit_code == 0, result.output
    assert "1 cells, 2 vectors, 0 mismatches" in result.output


def test_the_command_fails_and_shows_the_row_that_differs(small_recording):
    result = CliRunner().invoke(app, ["replay", small_recording([3, 1])])
    assert result.exit_code == 1
    assert "2 vectors, 1 mismatches" in result.output
    assert "row 1: target ff operand 01 after 00 expected_after 01" in result.output


def test_the_command_refuses_what_is_no_recording(tmp_path, small_recording):
    path = tmp_path / "other.npz"
    np.savez(path, **{"fetch/FI_NONSENSE/FI_UINT8/target": np.zeros((1, 1), np.uint8)})
    refusal = usage_error(CliRunner().invoke(app, ["replay", str(path)]))
    assert "FILE: " in refusal
    assert "FI_NONSENSE" in refusal
    arguments = ["replay", small_recording([3, 0]), "--cells", "base/*"]
    assert "--cells: no cell of " in usage_error(CliRunner().invoke(app, arguments))


def test_the_matrix_command_counts_what_the_device_reports():
    result = CliRunner().invoke(app, ["matrix"])
    assert result.exit_code == 0
    assert "414 of 414 cells" in result.output
    assert "132 of 132 extensions" in result.output
