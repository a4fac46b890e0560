"""Every block of shell commands in the README and the documentation runs as it stands there.

A command that several blocks show runs once, in the first of them.
The few commands that do not, and those that only long tests run, are listed with their reasons in ``shells.py``.
"""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.docs.shells import ABSENT, CONCURRENT, ENDLESS, FILES, LONG, PARTNERS, SHORTENED
from tests.docs.test_blocks import PAGES, ROOT, blocks
from tests.support.commands import AMOEBA
from tests.support.commands import LONG as SECONDS


@dataclass(frozen=True)
class Command:
    """A command of a page: its text without prompt, on one line, and whether the page's user is root."""

    text: str
    root: bool

    @property
    def bare(self) -> str:
        """The text without a comment at its end."""
        return self.text.split("  #")[0].rstrip()

    def begins(self, table: Iterable[str]) -> str | None:
        """Return the entry of a table of beginnings that this command has, if any."""
        return next((entry for entry in table if f"{self.bare}$".startswith(entry)), None)


def commands(block: str) -> list[Command]:
    """Return the commands of a console block: lines with a prompt, with the lines that continue them."""
    joined = re.sub(r"\\\n\s*", "", block)
    return [Command(text, prompt == "#") for prompt, text in re.findall(r"^([$#]) (.*)$", joined, re.M)]


CASES = {
    f"{page} {number}{' rtl' if 'rtl' in block else ''}": commands(block)
    for page in PAGES
    for number, block in enumerate(blocks(page, "console"))
}
SHOWN = [command for block in CASES.values() for command in block]


def without_repetitions(cases: dict[str, list[Command]]) -> dict[str, list[Command]]:
    """Return the blocks without the commands of blocks before, except those that go on beside others."""
    seen: set[str] = set()
    kept = {}
    for case, block in cases.items():
        kept[case] = [
            command for command in block if command.bare not in seen or command.begins([*CONCURRENT, *PARTNERS])
        ]
        seen |= {command.bare for command in block}
    return kept


RUN = without_repetitions(CASES)


def test_every_block_has_a_command():
    assert len(CASES) > 20
    assert [case for case, block in CASES.items() if not block] == []


@pytest.mark.parametrize("table", [ABSENT, LONG, CONCURRENT, ENDLESS, PARTNERS])
def test_the_tables_name_commands_that_pages_show(table):
    assert [entry for entry in table if not any(command.begins([entry]) for command in SHOWN)] == []


def test_at_most_twenty_kinds_of_commands_are_not_run():
    assert len(ABSENT) <= 20
    assert all(len(reason) > 20 for reason in ABSENT.values())


def test_a_command_of_several_blocks_is_run_by_the_first():
    texts = ("amoeba info  # a", "amoeba gups --listen :1", "amoeba info")
    once, serving, again = (Command(text, root=False) for text in texts)
    kept = without_repetitions({"a": [once, serving], "b": [serving, again]})
    assert kept == {"a": [once, serving], "b": [serving]}
    assert {command.bare for block in RUN.values() for command in block} == {command.bare for command in SHOWN}


@pytest.fixture
def world(tmp_path: Path) -> dict[str, str]:
    """An environment whose PATH has ``amoeba`` and ``python``, in a folder that looks like a checkout."""
    folder, tools = tmp_path / "checkout", tmp_path / "bin"
    folder.mkdir()
    tools.mkdir()
    for name in ("examples", "tests", "scripts"):
        (folder / name).symlink_to(ROOT / name)
    for name, text in FILES.items():
        (folder / name).write_text(text)
    for name, command in (("amoeba", AMOEBA), ("python", [sys.executable])):
        program = tools / name
        program.write_text("#!/bin/sh\nexec " + " ".join(f"'{word}'" for word in command) + ' "$@"\n')
        program.chmod(0o755)
    return {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "PWD": str(folder), "NO_COLOR": "1"}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def adapted(text: str, port: int) -> str:
    """Return a command with this host's addresses instead of the documentation's, and with shorter counts."""
    for long, short in SHORTENED.items():
        text = text.replace(long, short)
    return text.replace("192.0.2.1", "127.0.0.1").replace(":7471", f":{port}")


@contextlib.contextmanager
def started(text: str, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        ["bash", "-c", text], cwd=environment["PWD"], env=environment, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)


def end(text: str, process: subprocess.Popen[str], seconds: float = SECONDS) -> None:
    output, _ = process.communicate(timeout=seconds)
    assert process.returncode == 0, f"$ {text}\n{output}"


def interrupt(text: str, process: subprocess.Popen[str], ready: str) -> None:
    """Wait until a server serves, then end it as Ctrl-C does."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith(ready), f"$ {text}\n{line}"
    os.killpg(process.pid, signal.SIGINT)
    end(text, process)


def is_run(command: Command, is_long: bool) -> bool:
    return command.begins(ABSENT) is None and (command.begins(LONG) is not None) == is_long


def run(block: list[Command], environment: dict[str, str], is_long: bool) -> None:
    """Run the commands of a block one after the other; those that wait for others go on beside them."""
    port, seconds = free_port(), SECONDS * (20 if is_long else 1)
    with contextlib.ExitStack() as stack:

        def start(text: str) -> tuple[str, subprocess.Popen[str]]:
            text = adapted(text, port)
            return text, stack.enter_context(started(text, environment))

        waiting = []
        for command in block:
            if not is_run(command, is_long):
                continue
            this = [start(command.text)]
            if partner := command.begins(PARTNERS):
                this.append(start(PARTNERS[partner]))
            if server := command.begins(ENDLESS):
                interrupt(*this[0], ENDLESS[server])
            elif command.begins(CONCURRENT):
                waiting += this
            else:
                for each in this:
                    end(*each, seconds)
        for each in waiting:
            end(*each, seconds)


def cases(is_long: bool) -> list[str]:
    return [case for case, block in RUN.items() if any(is_run(command, is_long) for command in block)]


@pytest.mark.parametrize("case", cases(False))
def test_the_commands_of_a_block_run_as_they_stand_there(case, world):
    run(RUN[case], world, is_long=False)


@pytest.mark.long
@pytest.mark.parametrize("case", cases(True))
def test_the_commands_of_a_block_that_take_minutes_run_as_they_stand_there(case, world):
    run(RUN[case], world, is_long=True)
