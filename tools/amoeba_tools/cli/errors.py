"""Failures of commands: one line on standard error, and exit status 1."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TextIO

from amoeba.core.errors import FabricError
from amoeba.openucx.ucp.status import UcsError
from amoeba_model.device import DeviceError
from rich.console import Console
from rich.markup import escape

__all__ = ["readable_errors"]


@contextlib.contextmanager
def readable_errors() -> Iterator[None]:
    """Turn failures of devices, fabric, UCP and files into one line on standard error, and exit status 1.

    Everything printed leaves the process inside the block, so that a full disk is such a failure, too. A reader of
    standard output that closes the pipe early, as ``head`` does, causes no message.
    """
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        _discard(sys.stdout)
        raise SystemExit(1) from None
    except (FabricError, UcsError, DeviceError, OSError) as error:
        with contextlib.suppress(OSError):  # standard error may be full, too
            # soft wrap: a path with a line break inside can be neither copied nor searched for
            Console(stderr=True).print(f"[bold red]error:[/] {escape(_line(error))}", soft_wrap=True)
        _discard(sys.stdout)
        raise SystemExit(1) from None


def _line(error: Exception) -> str:
    """Return the message on one line. Errors of files lose their number."""
    text = str(error)
    if isinstance(error, OSError) and not isinstance(error, FabricError) and error.strerror:
        text = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    return " ".join(text.split()) or type(error).__name__


def _discard(stream: TextIO | None) -> None:
    """Drop the buffered text of a stream that takes no more, which Python would report at exit."""
    if stream is None:
        return
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
