"""What belongs to the process that made it: a child that was forked leaves it alone.

A child has a copy of everything in memory, and shares what the operating system keeps: sockets, descriptors, mapped
files. If it closed what it has copies of, it would do so to its parent.
"""

import os
import weakref
from typing import Protocol

__all__ = ["Owned", "own"]


class Owned(Protocol):
    """What a child must not use."""

    def forked(self) -> None:
        """This is a copy, in a child of the process that has it: refuse everything, and touch nothing that is shared.

        Descriptors of sockets can be closed, which the parent does not notice.
        """


_owned: weakref.WeakSet[Owned] = weakref.WeakSet()


def own(thing: Owned) -> None:
    """From now on, say to ``thing`` in a child that it is one, as long as somebody knows ``thing``."""
    _owned.add(thing)


def _in_child() -> None:
    for thing in list(_owned):
        thing.forked()


os.register_at_fork(after_in_child=_in_child)
