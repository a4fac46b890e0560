"""Every Python program in the README and the documentation runs as it stands there, and prints the text below it.

Every command exists.
"""

import ast
import asyncio
import inspect
import re
import shlex
from pathlib import Path

import pytest
import typer
from amoeba_tools.cli import app

from tests.docs.worlds import AFTER, BEFORE

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.S)


def outputs(page):
    """The block of text right behind each program, which is what the program prints; None without one."""
    found = re.findall(r"```python\n.*?```(?:\n\n```text\n(.*?)```)?", (ROOT / page).read_text(), re.S)
    return [text or None for text in found]


WITH_PROGRAMS = [page for page in PAGES if blocks(page, "python")]


def execute(text, name, names):
    """Run a program, which may await at its top, as those for asyncio's own prompt do."""
    code = compile(text, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    running = eval(code, names)
    if inspect.isawaitable(running):
        asyncio.run(running)


def close(names):
    for name in ("fabric", "world"):  # a program may have called its own fabric so, too
        if name in names:
            names[name].close()


@pytest.mark.parametrize("page", WITH_PROGRAMS)
def test_the_programs_of_a_page_run_as_they_stand_there(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    try:
        for number, text in enumerate(blocks(page, "python")):
            if (page, number) in BEFORE:  # a program of its own
                close(names)
                names = {}
                execute(BEFORE[page, number], f"before block {number} of {page}", names)
            capsys.readouterr()
            execute(text, f"block {number} of {page}", names)
            printed = capsys.readouterr().out
            assert outputs(page)[number] in (None, printed), f"block {number} of {page}"
            execute(AFTER.get((page, number), ""), f"after block {number} of {page}", names)
    finally:
        close(names)


def commands():
    """Every ``$ amoeba ...`` of a page, by page."""
    found = {}
    for page in PAGES:
        for block in blocks(page, "console"):
            for line in re.findall(r"^[$#] amoeba (.*)$", block, re.M):
                found[f"{page}: {line.split('  #')[0].strip()}"] = line.split("  #")[0].replace(" ...", "")
    return found


@pytest.mark.parametrize("command", commands().values(), ids=commands())
def test_every_command_that_is_shown_has_these_options(command):
    words = shlex.split(command.split(" > ")[0], comments=True)  # what a shell would do with the output is not ours
    program = typer.main.get_command(app)
    names = []
    while hasattr(program, "commands") and words and not words[0].startswith("-"):
        names.append(words.pop(0))
        assert names[-1] in program.commands, names
        program = program.commands[names[-1]]
    if words == ["--version"]:
        return
    context = program.make_context(names[-1], words)
    assert not context.args


def test_the_first_programs_show_their_output():
    """The README's, and a program of each part of the tutorial."""
    for page in ("README.md", *(page for page in PAGES if page.startswith("docs/tutorial/"))):
        assert any(outputs(page)), page


def test_what_stands_before_and_after_blocks_is_for_blocks_that_there_are():
    for page, number in {**BEFORE, **AFTER}:
        assert number < len(blocks(page, "python")), (page, number)
