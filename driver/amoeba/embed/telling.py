"""Lines on standard error about C's calls that failed: a status alone seldom says why."""

import logging
import os
import sys
import traceback
from collections.abc import Callable

from amoeba.core.errors import FabricError
from amoeba.core.log import logger
from amoeba.embed.ending import has_ended

__all__ = ["Teller", "say", "verbose"]

_log = logger("calls")
_MAX_REFUSALS = 10
"""Maximum number of lines about the program's mistakes, of one library."""


def verbose() -> bool:
    """Return whether everything is reported, with its traceback: ``AMOEBA_DEBUG=1``."""
    return os.environ.get("AMOEBA_DEBUG", "0") not in ("", "0")


class Teller:
    """Reports exceptions in calls of a library: each function's and kind's once.

    The teller reports unexpected errors. While the log's part ``calls`` has warnings, it also reports up to ten
    refusals that point to a mistake in the program.
    """

    def __init__(self, library: str) -> None:
        self._library = library
        self._verbose = verbose()
        self._told: set[tuple[str, object]] = set()
        self._refusals = 0
        self.expected: tuple[type[BaseException], ...] = (FabricError, OSError)
        """Exceptions that are a status and no more."""
        self.is_mistake: Callable[[str, BaseException], bool] = lambda function, error: False
        """Returns whether a function's expected exception is the program's mistake, not a normal answer."""

    def tell(self, function: str, error: BaseException) -> None:
        """Report an exception in a function, if it is to be reported."""
        begin = f"{self._library}: {function}: "
        if self._verbose:
            say(begin + "".join(traceback.format_exception(error)).rstrip())
        elif has_ended():  # calls that have waited for the lock find everything closed
            return
        elif not isinstance(error, self.expected):
            if self._is_new(function, type(error)):
                say(f"{begin}{type(error).__name__}: {error} (said once; AMOEBA_DEBUG=1 tells where)")
        elif self._is_worth_a_line(function, error):
            self._refusals += 1
            last = "; more are not said" if self._refusals == _MAX_REFUSALS else ""
            say(f"{begin}refused: {error} (said once{last}; AMOEBA_LOG=calls=error silences this)")

    def _is_worth_a_line(self, function: str, error: BaseException) -> bool:
        return (
            self._refusals < _MAX_REFUSALS
            and _log.isEnabledFor(logging.WARNING)
            and self.is_mistake(function, error)
            and self._is_new(function, str(error))
        )

    def _is_new(self, function: str, what: object) -> bool:
        known = (function, what) in self._told
        self._told.add((function, what))
        return not known


def say(line: str) -> None:
    """Write a line to standard error, in whatever state that is."""
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        return
