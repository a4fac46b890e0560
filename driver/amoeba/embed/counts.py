"""Counts of operations of this process' NICs, in a file that survives the process for the launcher to read.

``AMOEBA_COUNT_FOLDER`` names a folder, in which each process that calls a library of Amoeba's maps a file of its own.
``amoeba fi-run`` and ``ucx-run`` make the folder, and sum the files up (:mod:`amoeba_tools.counts`). Without the
variable, or without a writable folder, nothing is counted.
"""

import contextlib
import mmap
import os
import struct
import tempfile
from collections.abc import MutableSequence
from typing import cast

from amoeba_model.forking import own
from amoeba_model.registers import Counter

from amoeba.nic.nic import Nic
from amoeba.transport.executed import Executed

__all__ = ["FOLDER", "MAGIC", "RECORD", "NicCounts", "ProcessCounts", "process_counts"]

FOLDER = "AMOEBA_COUNT_FOLDER"
MAGIC = b"AMOEBA#1"
RECORD = struct.Struct(f"=8sQ32sQQ{len(Executed)}Q")
"""Layout of a file: :data:`MAGIC`, process, kind of its last NIC, NICs opened, requests of peers answered, and the
counts of :class:`Executed`."""
_KIND = slice(16, 48)
_NICS, _ANSWERED, _EXECUTED = 6, 7, 8
"""Positions in the file, in words of 8 bytes."""
_RESET = 1 << 31
"""No NIC answers this many requests between two reads of its count: a higher count means a reset."""


class ProcessCounts:
    """The counts of this process. Raises OSError if the file cannot be made."""

    def __init__(self, folder: str) -> None:
        descriptor, path = tempfile.mkstemp(suffix=".counts", dir=folder)
        try:
            # written, not only made longer: a full file system is an error here, and not a signal later
            os.write(descriptor, RECORD.pack(MAGIC, os.getpid(), b"", 0, 0, *[0] * len(Executed)))
            self._memory = mmap.mmap(descriptor, RECORD.size)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(path)
            raise
        finally:
            os.close(descriptor)
        self._words = memoryview(self._memory).cast("Q")
        self.executed = cast(MutableSequence[int], self._words[_EXECUTED:])
        own(self)

    def opened(self, kind: str) -> None:
        """Count a NIC that was opened."""
        name = kind.encode("ascii", "replace")[: _KIND.stop - _KIND.start]
        self._memory[_KIND] = name.ljust(_KIND.stop - _KIND.start, b"\0")
        self._words[_NICS] += 1

    def answered(self, requests: int) -> None:
        """Count requests of peers that a NIC has answered."""
        self._words[_ANSWERED] += requests

    def forked(self) -> None:
        """Leave the file to the parent in a child process, which makes its own."""
        _mine.clear()


class NicCounts:
    """The counts of one NIC, which counts its operations here from now on."""

    def __init__(self, counts: ProcessCounts, nic: Nic, kind: str) -> None:
        self._counts = counts
        self._nic = nic
        self._answered = nic.counter(Counter.REQUESTS_RECEIVED)
        nic.executed = counts.executed
        counts.opened(kind)

    def look(self) -> None:
        """Ask the NIC how many requests of peers it has answered. Raises DeviceError if it is closed."""
        before = self._answered
        self._answered = self._nic.counter(Counter.REQUESTS_RECEIVED)
        more = (self._answered - before) % (1 << 32)
        if more < _RESET:
            self._counts.answered(more)


_mine: list[ProcessCounts] = []
"""The counts of this process, if it counts."""


def process_counts() -> ProcessCounts | None:
    """Return the counts of this process, in a file that the first call makes. None: no launcher asks for counts."""
    folder = os.environ.get(FOLDER)
    if not _mine and folder:
        with contextlib.suppress(OSError):
            _mine.append(ProcessCounts(folder))
    return _mine[0] if _mine else None
