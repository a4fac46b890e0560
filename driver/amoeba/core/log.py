"""The driver's activity as records of Python's :mod:`logging` under ``amoeba``; silent unless a program listens.

``AMOEBA_LOG=debug`` in the environment prints the log on standard error, without a line of code.
``AMOEBA_LOG=info,nic=debug`` selects a level for a part: ``amoeba.nic`` and its children. The log holds rare events:
NICs, contexts, peers and keys that come and go, peers that are given up, the progress thread. Calls that move data
log nothing.

``calls`` alone logs without being asked: libraries for C programs say why they refuse a call, once for each reason.
``AMOEBA_LOG=calls=error`` silences them.
"""

import logging
import os
import sys

__all__ = ["PARTS", "ROOT", "configure", "logger"]

ROOT = "amoeba"
PARTS = ("nic", "nic.contexts", "nic.keys", "nic.peers", "nic.target_pdcs", "progress", "transport", "calls")
"""Parts that log."""
_LEVELS = ("debug", "info", "warning", "error", "critical")
_FORMAT = "%(asctime)s %(name)s %(levelname)s: %(message)s"


def logger(part: str) -> logging.Logger:
    """Return the logger of a part of the driver, such as ``nic.peers``."""
    return logging.getLogger(f"{ROOT}.{part}")


def configure(wanted: str | None) -> None:
    """Configure logging as ``AMOEBA_LOG`` says; None or empty leaves logging to the program.

    An invalid value is reported on standard error, and otherwise ignored: no program must fail by it.
    """
    root = logging.getLogger(ROOT)
    if not any(isinstance(handler, logging.NullHandler) for handler in root.handlers):
        root.addHandler(logging.NullHandler())
    if not wanted:
        return
    levels: dict[str, str] = {}
    for entry in wanted.split(","):
        part, _, level = entry.strip().rpartition("=")
        if level.lower() not in _LEVELS:
            print(
                f"AMOEBA_LOG: expected LEVEL or PART=LEVEL, separated by commas, with one of {', '.join(_LEVELS)}, "
                f"got {entry!r}",
                file=sys.stderr,
            )
            return
        part = part.strip().removeprefix(f"{ROOT}.").removeprefix(ROOT)
        if part and part not in PARTS:
            print(f"AMOEBA_LOG: expected a part of {', '.join(PARTS)}, got {part!r}", file=sys.stderr)
        levels[part] = level.upper()
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(_FORMAT))
    root.addHandler(handler)
    root.propagate = False  # or the program's handlers would print records twice
    for part, level in levels.items():
        (logger(part) if part else root).setLevel(level)


configure(os.environ.get("AMOEBA_LOG"))
