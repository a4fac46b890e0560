"""Long work says that it goes on: a line that counts seconds at a terminal, a few lines in a pipe or a log."""

import contextlib
import threading
import time
from collections.abc import Iterator

from rich.console import Console

__all__ = ["announced"]

_PATIENCE = 2.0
"""Seconds before work in a pipe is announced: shorter work needs no explanation."""
_REMINDER = 30.0
"""Seconds between two lines in a pipe."""


@contextlib.contextmanager
def announced(what: str, *, patience: float = _PATIENCE, reminder: float = _REMINDER) -> Iterator[None]:
    """Say on stderr what goes on, how long it has been going on, and at the end how long it took.

    In a pipe nothing is said of what takes less than ``patience`` seconds, and every ``reminder`` seconds that it
    still goes on.
    """
    console = Console(stderr=True)
    started, ended = time.monotonic(), threading.Event()

    def say(text: str) -> None:
        console.print(f"amoeba: {text}", soft_wrap=True, highlight=False)

    def tell() -> None:
        if ended.wait(patience):
            return
        say(what)
        while not ended.wait(reminder):
            say(f"{what}, {time.monotonic() - started:.0f} s so far")

    def count() -> None:
        with console.status(what) as status:
            while not ended.wait(1):
                status.update(f"{what}, {time.monotonic() - started:.0f} s so far")

    teller = threading.Thread(target=count if console.is_terminal else tell, name="amoeba-announcer", daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()
    if (took := time.monotonic() - started) >= patience:
        say(f"{what}: done in {took:.0f} s")
