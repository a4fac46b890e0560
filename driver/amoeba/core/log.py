"""What the driver does, told to Python's :mod:`logging` under ``amoeba``: nothing, unless somebody listens.

``AMOEBA_LOG=debug`` in the environment listens without a line of code, on standard error;
``AMOEBA_LOG=info,nic=debug`` says it for a part: ``amoeba.nic`` and what lies below it. Told are things that happen
seldom: NICs, contexts, peers and keys that come and go, peers that are given up, the thread of automatic progress. No
call that moves data tells anything.

``calls`` alone speaks without being asked: libraries for C programs say why they refuse a call, once for each reason.
``AMOEBA_LOG=calls=error`` silences them.
"""

import logging
import os
import sys

__all__ = ["PARTS", "ROOT", "configure", "logger"]

ROOT = "amoeba"
PARTS = ("nic", "nic.contexts", "nic.keys", "nic.peers", "nic.target_pdcs", "progress", "transport", "calls")
"""Those that tell something."""
_LEVELS = ("debug", "info", "warning", "error", "critical")
_FORMAT = "%(asctime)s %(name)s %(levelname)s: %(message)s"


def logger(part: str) -> logging.Logger:
    """The logger of a part of the driver, such as ``nic.peers``."""
    return logging.getLogger(f"{ROOT}.{part}")


def configure(wanted: str | None) -> None:
    """Do as ``AMOEBA_LOG`` says; None or empty: leave it to the program.

    What cannot be understood is told on standard error, and otherwise ignored: no program must fail by it.
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
    root.propagate = False  # or what the program listens to would be told twice
    for part, level in levels.items():
        (logger(part) if part else root).setLevel(level)


configure(os.environ.get("AMOEBA_LOG"))
