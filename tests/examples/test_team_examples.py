"""The five programs a page long: right on every device, and hardly longer than the same with MPI, which agrees."""

import importlib.util
import io
import os
import re
import runpy
import shutil
import subprocess
import sys
import tokenize
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
TWINS = sorted(path.name for path in (EXAMPLES / "mpi").glob("*.py"))
BESIDE = Path(sys.executable).parent / "mpiexec"
MPIEXEC = str(BESIDE) if BESIDE.exists() else shutil.which("mpiexec")


@pytest.fixture(params=["model", pytest.param("rtl", marks=pytest.mark.long)])
def run(request):
    """Runs an example by its name, and returns what its ``main`` does."""
    return lambda name: runpy.run_path(str(EXAMPLES / name))["main"](request.param)


def test_the_hash_table_has_every_key_once(run, capsys):
    assert sum(run("hash_table.py")) == 4 * 15
    assert "60 entries" in capsys.readouterr().out


def test_the_workers_find_the_line(run):
    assert np.allclose(run("parameter_server.py"), (3, -2), atol=0.05)


def test_every_job_is_done_by_somebody_once(run):
    assert sum(run("work_stealing.py")) == 24 + 3 * 2


def test_every_rank_of_the_ring_has_the_sums(run):
    expected = sum(np.random.default_rng(rank).integers(0, 1 << 20, 1000) for rank in range(4))
    for vector in run("ring_all_reduce.py"):
        np.testing.assert_array_equal(vector, expected)


def test_the_bank_keeps_the_money(run):
    balances, refused = np.transpose(run("bank.py"))
    assert balances.sum() == 4 * 2 * 100
    assert len(set(balances)) > 1, "nobody transferred anything"
    assert refused.sum() > 0, "nobody was refused for want of money"


def lines(path: Path) -> int:
    """Lines of code: neither blank ones, comments, nor strings that stand alone."""
    found: set[int] = set()
    before = tokenize.NEWLINE
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER}
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        stands_alone = token.type == tokenize.STRING and before == tokenize.NEWLINE
        if token.type not in silent and not stands_alone and token.type != tokenize.NEWLINE:
            found.update(range(token.start[0], token.end[0] + 1))
        if token.type not in silent:
            before = token.type
    return len(found)


@pytest.mark.parametrize("name", TWINS)
def test_an_example_is_at_most_half_again_as_long_as_with_mpi(name):
    ours, theirs = lines(EXAMPLES / name), lines(EXAMPLES / "mpi" / name)
    assert 10 < theirs < 60
    assert ours <= 1.5 * theirs


def test_lines_of_code_are_counted_as_a_reader_does(tmp_path):
    program = tmp_path / "program.py"
    code = '"""Text\n\nof three lines."""\nimport sys  # as\n\n# no\ndef f():\n    """No."""\n    return (\n1)\n'
    program.write_text(code)
    assert lines(program) == 4


def test_there_are_five_team_examples():
    assert len(TWINS) == 5
    text = Path(__file__).read_text()
    assert all(f'"{name}"' in text for name in TWINS)


@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py: pip install '.[bench]'")
@pytest.mark.skipif(MPIEXEC is None, reason="no mpiexec: pip install '.[bench]'")
@pytest.mark.parametrize("name", TWINS)
def test_the_twin_with_mpi_runs_and_prints_the_same(name, run_on_model, capfd):
    environment = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    command = [MPIEXEC, "-n", "4", sys.executable, str(EXAMPLES / "mpi" / name)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    run_on_model(name)
    assert pattern(capfd.readouterr().out) == pattern(ended.stdout)


@pytest.fixture
def run_on_model():
    return lambda name: runpy.run_path(str(EXAMPLES / name))["main"]("model")


def pattern(printed: str) -> str:
    """The part of the output that must agree: each rank's share of the work depends on who came first."""
    printed = re.sub(r"\[[\d, ]+\]|\d+ refused", "...", printed)
    return printed.replace("on the NICs", "on the ranks").replace("on each NIC", "on each rank")
