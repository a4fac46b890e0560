"""Long work says that it goes on, in pipes too; short work says nothing."""

import os
import pty
import subprocess
import sys

import pytest

PROGRAM = """
import sys, time
from amoeba_sim.announcing import announced
with announced("boiling an egg", patience=0.1, reminder=0.2):
    time.sleep(float(sys.argv[1]))
"""


def run(seconds, **options):
    return subprocess.run([sys.executable, "-c", PROGRAM, str(seconds)], check=True, timeout=60, **options)


def test_in_a_pipe_it_begins_goes_on_and_ends_with_a_line_each():
    lines = run(1, stderr=subprocess.PIPE, text=True).stderr.splitlines()
    assert lines[0] == "amoeba: boiling an egg"
    assert all(line.startswith("amoeba: boiling an egg, ") and line.endswith(" s so far") for line in lines[1:-1])
    assert len(lines) > 2
    assert lines[-1] == "amoeba: boiling an egg: done in 1 s"


def test_nothing_is_said_of_short_work():
    assert run(0, stderr=subprocess.PIPE, text=True).stderr == ""


def test_an_error_is_not_delayed_and_passes():
    from amoeba_sim.announcing import announced

    with pytest.raises(ZeroDivisionError), announced("dividing"):
        1 / 0  # noqa: B018


def test_a_terminal_has_a_line_that_counts():
    ours, theirs = pty.openpty()
    run(1.5, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:  # nobody holds the other end any more
        pass
    os.close(ours)
    assert b"boiling an egg, 1 s so far" in shown
