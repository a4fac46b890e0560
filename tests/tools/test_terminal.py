"""The ``amoeba`` command in narrow terminals, pipes and shells, and in front of others that do not come.

Covers ``cli/matrix.py``.
"""

import itertools
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from amoeba_model.atomic.matrix import cells
from amoeba_model.opcodes import Datatype, Form, Op
from amoeba_tools.cli import app
from amoeba_tools.cli.matrix import _short
from typer.testing import CliRunner

RECORDING = Path(__file__).parents[1] / "data" / "libfabric-1.17-sockets.npz"
COMMAND = [sys.executable, "-m", "amoeba_tools"]


def run(*arguments, columns=80):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": str(columns)})


LETTERS = {"b": Form.BASE, "f": Form.FETCH, "c": Form.COMPARE}


def test_the_matrix_has_a_row_per_operation_and_a_column_per_datatype():
    lines = run("matrix", columns=80).stdout.splitlines()
    assert all(len(line) <= 80 for line in lines)
    above, below = (lines[1][len("datatype") :], lines[2])
    starts = [found.start() + len("datatype") for found in re.finditer(r"\S+", above)]
    cut = list(itertools.pairwise([*starts, None]))
    assert [lines[1][at:end].strip() + below[at:end].strip() for at, end in cut] == [*map(_short, Datatype)]
    rows = {line[: starts[0]].strip(): line for line in lines[3 : 3 + len(Op)]}
    found = {
        (LETTERS[letter], f"FI_{name}", datatype)
        for name, line in rows.items()
        for datatype, (at, end) in zip(Datatype, cut, strict=True)
        for letter in line[at:end].strip().replace("-", "")
    }
    assert found == {(cell.form, cell.op.name, cell.datatype) for cell in cells(extensions=True)}


def test_the_matrix_is_a_list_where_a_table_has_no_space():
    printed = run("matrix", columns=60).output
    assert max(map(len, printed.splitlines()[:-3])) <= 60
    listed, op, forms = set(), None, ""
    short = {_short(datatype): datatype for datatype in Datatype}
    for line in printed.splitlines()[1:]:
        found = re.fullmatch(r"(?:([A-Z_]+) +([bfc]+) +|\s{17})([A-Z0-9 ]+)", line)
        if found is None:
            break
        op, forms = found[1] or op, found[2] or forms
        listed |= {(LETTERS[form], f"FI_{op}", short[name]) for form in forms for name in found[3].split()}
    assert listed == {(cell.form, cell.op.name, cell.datatype) for cell in cells(extensions=True)}


def test_no_empty_line_comes_first_in_a_pipe():
    command = [*COMMAND, "gups", "--updates", "16"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[0].strip() == "HPC Challenge RandomAccess"
    assert done.stderr == ""


def test_whoever_reads_no_further_is_notified_of_no_error():
    reader, writer = os.pipe()
    with subprocess.Popen([*COMMAND, "matrix"], stdout=writer, stderr=subprocess.PIPE, text=True) as process:
        os.close(reader)
        os.close(writer)
        _, told = process.communicate(timeout=60)
    assert told == ""


@pytest.mark.parametrize("command", [("gups",), ("soak", "--operations", 1), ("conformance",)])
def test_who_connects_is_told_where_and_for_how_long(command):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        result = run(*command, "--connect", address, "--timeout", 0.3)
    assert result.exit_code == 1
    assert f"connecting to {address}, for 0.3 s at most" in result.stderr
    assert "nobody listened" in result.stderr


def test_a_client_of_perf_says_where_and_for_how_long_it_connects():
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        port = nobody.getsockname()[1]
        result = run("perf", "127.0.0.1", "-t", "tag_lat", "-p", port, "--timeout", 0.3)
    assert result.exit_code == 1
    assert f"connecting to 127.0.0.1:{port}, for 0.3 s at most" in result.stderr
    assert "nobody listened" in result.stderr


@pytest.mark.parametrize("command", [("gups", "--listen", "127.0.0.1:0"), ("perf", "-p", 0)])
def test_who_listens_waits_no_longer_than_he_says(command):
    result = run(*command, "--timeout", 0.2)
    assert result.exit_code == 1
    assert "expected 1 processes to connect in 0.2 s, got 0" in result.stderr.replace("\n", " ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete_commands(shell):
    environment = os.environ | {"_AMOEBA_COMPLETE": f"source_{shell}"}
    done = subprocess.run([*COMMAND], env=environment, capture_output=True, text=True, timeout=60)
    assert "amoeba" in done.stdout.lower()
    environment = os.environ | {
        "_AMOEBA_COMPLETE": "complete_bash", "COMP_WORDS": "amoeba conf", "COMP_CWORD": "1",
        "_TYPER_COMPLETE_ARGS": "amoeba conf",
    }  # fmt: skip
    done = subprocess.run([*COMMAND], env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["conformance"]


@pytest.mark.parametrize(
    ("pattern", "count"), [("fetch/FI_SUM/FI_INT64", 1), ("SUM/INT64", 2), ("FI_BOR", 20), ("compare/*/INT8", 7)]
)
def test_recorded_cells_are_chosen_by_the_names_that_the_matrix_prints(pattern, count):
    result = run("replay", RECORDING, "--cells", pattern, "--vector", 1024)
    assert result.exit_code == 0, result.output
    assert re.search(rf"\b{count} cells, [\d,]+ vectors, 0 mismatches", result.output), result.output
