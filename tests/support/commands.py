"""The ``amoeba`` command in processes of its own, and the messages of its usage errors."""

import contextlib
import subprocess
import sys

AMOEBA = [sys.executable, "-c", "from amoeba_tools.cli import app; app()"]
LONG = 300
"""Seconds in which anything ends."""


@contextlib.contextmanager
def process(*arguments):
    """The ``amoeba`` command in a process of its own, which is gone afterwards."""
    command = [*AMOEBA, *(str(argument) for argument in arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        try:
            yield started
        finally:
            started.kill()


def ended(started):
    """Exit status, output and errors."""
    output, errors = started.communicate(timeout=LONG)
    return started.returncode, output, errors


def usage_error(result):
    """Return a usage error's message on one line; the command must have ended with one and printed no result."""
    assert result.exit_code == 2, result.output
    assert not result.stdout
    return " ".join(result.stderr.replace("│", " ").split())
