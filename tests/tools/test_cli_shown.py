"""``amoeba`` in a pipe of 80 columns, as a newcomer sees it: help, tables, mistakes.

Covers ``cli/common.py`` and ``cli/errors.py``.
"""

import itertools
import re

import pytest
import typer
from amoeba_tools.cli import app
from amoeba_tools.cli.common import check_writable
from typer.testing import CliRunner

COMMAND = typer.main.get_command(app)
NAMES = [
    (name, *inner)
    for name, command in COMMAND.commands.items()
    for inner in [(), *((sub,) for sub in getattr(command, "commands", ()))]
]
PYTHON = re.compile(r"<(?:bool|int|float|str|path|list)\b")


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "80"})


def words(text):
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize("name", [(), *NAMES], ids=" ".join)
def test_help_fits_and_names_no_types_of_python(name):
    shown = run(*name, "--help")
    assert shown.exit_code == 0
    assert all(len(line) <= 80 for line in shown.stdout.splitlines())
    assert "…" not in shown.stdout, "cut off"
    options = shown.stdout[shown.stdout.index("─ Options") :]
    assert not PYTHON.search(options), options


def test_a_flag_takes_no_value_and_a_number_is_one():
    shown = words(run("perf", "--help").stdout)
    assert re.search(r"--json Print the result as JSON", shown)
    assert re.search(r"--iterations -n N \[x>=1\] Number of iterations", shown)
    assert re.search(r"--html FILE\.html Write a page", shown)


@pytest.mark.parametrize("name", NAMES, ids=" ".join)
def test_no_paragraph_of_help_is_broken_in_the_middle(name):
    """A line that ends long before the 80th column ends a paragraph."""
    above = run(*name, "--help").stdout.partition("╭")[0].splitlines()
    for line, following in itertools.pairwise(above):
        if line.strip() and following.strip():
            assert len(line.rstrip()) + len(following.split()[0]) + 1 >= 79, (line, following)


def test_the_stages_of_a_trace_have_a_line_each():
    lines = run("trace").stdout.splitlines()
    assert all(line.strip() and len(line) <= 80 for line in lines)
    begin = next(number for number, line in enumerate(lines) if line.startswith("cycle"))
    end = next(number for number, line in enumerate(lines) if line.strip().startswith("frame of"))
    rows = lines[begin + 2 : end]
    assert len(rows) > 10
    assert all(re.match(r" *\d+ +\d+ +[01] +[A-Z]", row) for row in rows), rows


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("perf", "-t", "bw"), 2, "bw is a test of --api libfabric"),
        (("perf", "--api", "libfabric", "-t", "tag_lat"), 2, "tag_lat is a test of --api ucp"),
        (("perf", "-t", "tag_lat", "-d", "model,model,model"), 2, "--device: 3 devices are listed for 2 ranks"),
        (("perf", "127.0.0.1", "-t", "tag_lat", "-d", "model,rtl"), 2, "2 devices are listed for 1 rank "),
        (("explore",), 2, "nothing to measure: expected a --workload, an --area or both"),
        (("explore", "-w", "gups", "-d", "abacus"), 2, "--device: unknown device 'abacus'; expected model, rtl"),
        (("explore", "-w", "gups", "--area", "Attic"), 2, "--area: unknown area 'Attic'; expected FastLanes"),
        (("explore", "-w", "gups", "--family", "ice"), 2, "unknown family 'ice'; expected ecp5, ultrascale"),
        (("explore", "-w", "gups", "--pareto", "luts"), 2, "--pareto: expected two columns, got 'luts'"),
        (("explore", "-w", "gups", "--csv", "/no/such/file.csv"), 1, "/no/such/file.csv"),
        (("perf", "-t", "tag_lat", "--plot", "/no/such/file.svg"), 1, "/no/such/file.svg"),
        (("gups", "-d", "model,model,model", "--ranks", 2), 2, "--ranks: 3 devices are listed for 2 ranks"),
    ],
)
def test_mistakes_are_explained_by_options_that_there_are(arguments, status, said):
    result = run(*arguments)
    assert result.exit_code == status
    assert said in words(result.stderr)
    assert not result.stdout


@pytest.mark.parametrize("name", NAMES, ids=" ".join)
def test_no_words_of_help_are_taken_for_markup(name):
    command = COMMAND
    for word in name:
        command = command.commands[word]
    helps = [param.help for param in command.params if param.help]
    assert not [text for text in (command.help, *helps) if re.search(r"\[[a-z/]", text)]


def test_files_that_can_be_written_are_left_as_they_are(tmp_path):
    new, old = tmp_path / "new", tmp_path / "old"
    old.write_text("kept")
    check_writable(new, old, None)
    assert (new.exists(), old.read_text()) == (False, "kept")
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        check_writable(tmp_path)


@pytest.mark.parametrize("option", ["--html", "--pcapng"])
def test_a_trace_that_cannot_be_written_is_told_before_anything_is_printed(option, tmp_path):
    result = run("trace", option, tmp_path / "missing" / "file")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "missing" in result.stderr
