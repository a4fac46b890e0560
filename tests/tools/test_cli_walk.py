"""Rules for all commands of ``amoeba``: help, width, and files that cannot be read or written.

Covers ``cli/errors.py``.
"""

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import typer
from amoeba_tools.cli import app
from typer.testing import CliRunner

from tests.support.commands import AMOEBA, usage_error

ROOT = typer.main.get_command(app)
DATA = Path(__file__).parents[1] / "data"
PRINTING = [
    ("gups", "--table-size", "6"),
    ("perf", "-t", "tag_lat", "-n", "5", "-w", "0"),
    ("perf", "--api", "libfabric", "-t", "rma_bw", "-n", "5", "-w", "0", "-s", "8,8"),
    ("explore", "-w", "gups:table_size=6", "-d", "model", "--set", "lines=64"),
    ("trace",),
    ("trace", "gups", "--table-size", "4"),
    ("info",),
    ("info", "-v"),
    ("matrix",),
    ("pdcs",),
    ("replay", str(DATA / "libfabric-1.17-sockets.npz"), "--cells", "SUM/INT64"),
    ("soak", "--operations", "5"),
    ("conformance", "--page", "fi_poll"),
    ("pcie", "list"),
    ("node", "config", "--mac", "02:00:00:00:00:02", "--ip", "10.0.0.2"),
]
"""A run of each command that prints without other programs, boards or processes."""


def walk(command, path=()):
    """Yield the path of each command and group, with the command."""
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from walk(inner, (*path, name))


COMMANDS = dict(walk(ROOT))
every_command = pytest.mark.parametrize("path", COMMANDS, ids=lambda path: " ".join(path) or "amoeba")
every_output = pytest.mark.parametrize("arguments", PRINTING, ids=lambda arguments: " ".join(arguments[:3]))


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "80"})


def test_every_command_has_a_printing_run():
    alone = {("fi-run",), ("ucx-run",), ("provider", "build"), ("libucp", "build"), ("endpoint",)}
    boards = {("pcie", "bind"), ("pcie", "unbind")}
    leaves = {path for path, command in COMMANDS.items() if not getattr(command, "commands", None)}
    shown = {path for path in leaves for arguments in PRINTING if arguments[: len(path)] == path}
    assert shown == leaves - alone - boards


@every_command
def test_h_is_help(path):
    short, long = run(*path, "-h"), run(*path, "--help")
    assert (short.exit_code, short.stdout) == (0, long.stdout)
    assert "-h" in short.stdout


@every_command
def test_every_command_has_an_example_that_its_options_accept(path):
    found = re.search(r"Example: (.*)", COMMANDS[path].help)
    assert found is not None
    words = re.sub(r'^(sudo |eval "\$\()|\)"$', "", found[1])
    program, *arguments = shlex.split(words)
    assert (program, tuple(arguments[: len(path)])) == ("amoeba", path)
    command, context = ROOT, ROOT.make_context("amoeba", arguments, resilient_parsing=True)
    while getattr(command, "commands", None):
        name, *arguments = arguments
        command = command.commands[name]
        context = command.make_context(name, arguments.copy(), parent=context)


def test_commands_stand_in_panels():
    titles = re.findall(r"─ (.*?) ─", run("-h").stdout)
    own = ["Measure", "Look inside", "Check", "Programs in C, MPI", "PCI Express", "Boards without a host"]
    assert titles == ["Options", *own]


@every_output
def test_output_fits_80_columns(arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    lines = [line for line in result.stdout.splitlines() if not re.match(r" +\w+: \[", line)]  # of fi_info
    assert max(map(len, lines)) <= 80


def errors_of(arguments, output):
    """Return exit status and errors of a process whose standard output is this file or descriptor."""
    environment = os.environ | {"COLUMNS": "80"}
    command = [*AMOEBA, *arguments]
    done = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, env=environment, timeout=300)
    return done.returncode, done.stderr


@every_output
def test_a_full_disk_is_one_line(arguments):
    with open("/dev/full", "w") as full:
        status, errors = errors_of(arguments, full)
    assert (status, errors.splitlines()[-1]) == (1, "error: No space left on device")
    assert "Traceback" not in errors


@every_output
def test_a_closed_pipe_causes_no_message(arguments):
    reader, writer = os.pipe()
    os.close(reader)
    status, errors = errors_of(arguments, writer)
    os.close(writer)
    assert (status, errors.replace("1 results, 1 of them from earlier runs\n", "")) == (1, "")


@pytest.mark.parametrize("path", [("-h",), ("perf", "-h"), ("pcie",), ("--version",)], ids=" ".join)
def test_help_on_a_full_disk_is_one_line(path):
    with open("/dev/full", "w") as full:
        status, errors = errors_of(path, full)
    assert (status, errors.splitlines()[-1]) == (1, "error: No space left on device")


PERF = ("perf", "--api", "libfabric", "-t", "rma_bw", "-n", "5", "-w", "0")
EXPLORE = ("explore", "-w", "gups:table_size=6", "-d", "model", "--set", "lines=64,128")
WRITING = {
    ("perf", "plot"): PERF,
    ("perf", "html"): PERF,
    ("explore", "csv"): EXPLORE,
    ("explore", "parquet"): EXPLORE,
    ("explore", "plot"): EXPLORE,
    ("explore", "store"): EXPLORE,
    ("trace", "html"): ("trace",),
    ("trace", "perfetto"): ("trace",),
    ("trace", "pcapng"): ("trace",),
    ("conformance", "output"): ("conformance", "--page", "fi_poll"),
    ("node", "config", "output"): PRINTING[-1],
}
"""A run for each option that names a file to write."""
READING = {
    ("replay", "file"): ("replay",),
    ("perf", "compare"): (*PERF, "--compare"),
}
"""A run for each option that names a file to read, up to the file's name."""
ELSEWHERE = {("trace", "vcd"), ("trace", "fst"), ("endpoint", "socket")}
"""Files of simulators and sockets."""


def is_file(param):
    return isinstance(param.type_descriptor.annotation, type) and issubclass(param.type_descriptor.annotation, Path)


def test_every_option_with_a_file_is_tried():
    files = {(*path, param.name) for path, command in COMMANDS.items() for param in command.params if is_file(param)}
    assert files == {*WRITING, *READING} | ELSEWHERE


def is_one_line(result, path):
    assert result.exit_code in (1, 2), result.output
    assert isinstance(result.exception, SystemExit)
    if result.exit_code == 1:
        (line,) = result.stderr.splitlines()
        assert line.startswith("error: ")
    assert path in re.sub(r"[\s│]", "", result.stderr)  # a box of 80 columns breaks long paths


@pytest.mark.parametrize("option", WRITING, ids="-".join)
@pytest.mark.parametrize("place", ["/dev/full", "/proc/version", "/dev/null/x"])
def test_a_file_that_cannot_be_written_is_one_line(option, place, tmp_path):
    link = tmp_path / "out"  # the link is all that a wrong command could remove
    link.symlink_to(place)
    is_one_line(run(*WRITING[option], f"--{option[-1]}", link), "out")
    assert link.is_symlink()


@pytest.mark.parametrize("option", sorted(WRITING.keys() - {("explore", "store")}), ids="-".join)
def test_a_file_in_no_folder_is_one_line(option, tmp_path):
    is_one_line(run(*WRITING[option], f"--{option[-1]}", tmp_path / "missing" / "out"), "out")


OTHER_FORMATS = {option: ".png" for option in WRITING if option[-1] not in ("plot", "store")}
OTHER_FORMATS |= {("trace", "vcd"): ".fst", ("trace", "fst"): ".vcd"}


@pytest.mark.parametrize("option", OTHER_FORMATS, ids="-".join)
def test_a_name_of_another_format_is_a_usage_error(option, tmp_path):
    run_up_to = WRITING.get(option, ("trace",))
    result = run(*run_up_to, f"--{option[-1]}", tmp_path / f"out{OTHER_FORMATS[option]}")
    said = usage_error(result)
    assert f"--{option[-1]}" in said
    assert re.search(r"expected a file name that ends in \.", said)
    assert not list(tmp_path.iterdir())


def test_the_name_chooses_the_format_of_conformance(tmp_path):
    for name in ("out.json", "out.md"):
        assert run("conformance", "--page", "fi_poll", "-o", tmp_path / name).exit_code == 0
    assert json.loads((tmp_path / "out.json").read_text())["passed"]
    assert (tmp_path / "out.md").read_text().startswith("# ")


HUGE = 10**22
MAX_WORK = {"updates", "operations", "runs", "iterations", "warmup", "jobs"}
"""Options that take as much work as one wants."""


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (("gups", "--table-size", 4), ("ranks", "window", "seed")),
        (PERF, ("outstanding", "header", "port", "size", "peers")),
        (("trace",), ("events",)),
        (("info", "-n", "10.0.0.1"), ("port",)),
        (("pdcs",), ("close",)),
        (("replay", DATA / "libfabric-1.17-sockets.npz", "--cells", "SUM/INT8"), ("vector", "offset")),
        (
            ("soak", "--operations", 2, "--switch", "drop"),
            ("ranks", "window", "seed", "buffer", "mark", "retransmit-timeout", "retransmit-limit", "patience"),
        ),
        (("conformance", "--page", "fi_poll", "--switch", "drop"), ("seed", "buffer", "retransmit-timeout")),
        (("endpoint", "--socket", "/dev/null/x"), ("count", "seed")),
    ],
    ids=lambda each: each[0],
)
def test_huge_numbers_are_executed_or_refused(arguments, options):
    numbers = {
        (param.name or "").replace("_", "-")
        for param in COMMANDS[(arguments[0],)].params
        if param.type_descriptor.annotation in (int, float)
    }
    taken = {"table-size", "loss", "timeout", "delay", "percentile", "seconds"} | MAX_WORK
    taken |= {"duplication", "reordering", "corruption"}
    assert numbers - taken <= {*options}
    for option in options:
        result = run(*arguments, f"--{option}", HUGE)
        assert result.exception is None or isinstance(result.exception, SystemExit), (option, result.exception)


@pytest.mark.parametrize("option", READING, ids="-".join)
@pytest.mark.parametrize("content", [b"", b"[{]", b"\xff\xfe", b"PK\x03\x04", None], ids=str)
def test_a_file_with_other_content_is_one_line(option, content, tmp_path):
    path = tmp_path / "given.bin"
    if content is not None:
        path.write_bytes(content)
    is_one_line(run(*READING[option], path), "given.bin")
