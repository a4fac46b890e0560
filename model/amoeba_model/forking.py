"""Objects that belong to the process that made them: a forked child leaves them alone.

A child has a copy of everything in memory, and shares what the operating system keeps: sockets, descriptors, mapped
files. If it closed what it has copies of, it would do so to its parent.
"""

import os
import weakref
from typing import Protocol

__all__ = ["Owned", "own"]


class Owned(Protocol):
    """An object that a forked child must not use."""

    def forked(self) -> None:
        """Refuse every call from now on, and leave all shared state alone: this copy is in a forked child.

        File descriptors of sockets may be closed, since the parent keeps its own.
        """


_owned: weakref.WeakSet[Owned] = weakref.WeakSet()


def own(thing: Owned) -> None:
    """From now on, say to ``thing`` in a child that it is one, as long as somebody knows ``thing``."""
    _owned.add(thing)


def _in_child() -> None:
    for thing in list(_owned):
        thing.forked()


os.register_at_fork(after_in_child=_in_child)
