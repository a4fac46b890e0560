"""The error of a run between processes that another process leaves."""

import contextlib
from collections.abc import Iterator

from amoeba.core.errors import FabricError
from amoeba.devices.bootstrap import Rendezvous
from amoeba.openucx.ucp.status import UcsError

__all__ = ["departures"]

_PATIENCE = 5.0
"""Seconds that a leaving process may take from closing its NIC to closing its connection."""


@contextlib.contextmanager
def departures(rendezvous: Rendezvous | None, patience: float = _PATIENCE) -> Iterator[None]:
    """Raise FI_ECONNABORTED instead of the block's error if another process leaves within ``patience`` seconds.

    A process that leaves closes its NIC before its connection to the others, whose operations may fail in between.
    """
    try:
        yield
    except (FabricError, UcsError):
        if rendezvous is not None:
            rendezvous.check(patience)
        raise
