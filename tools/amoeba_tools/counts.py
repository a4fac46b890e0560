"""Read and sum up the counts of a launched program's NICs, from the files that its processes leave in a folder."""

import contextlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amoeba.embed.counts import MAGIC, RECORD
from amoeba.transport.executed import Executed

__all__ = ["Counts", "ProcessRecord", "counting_folder", "read_counts"]

_MAX_FILES = 4096
"""Maximum number of files to read of a folder."""
_LIMIT = 1 << 56
"""Lower bound of implausible counts."""
_ONE = {"atomics": "atomic", "messages": "message", "reads": "read", "writes": "write"}
_OPERATIONS = (Executed.WRITES, Executed.READS, Executed.ATOMICS, Executed.MESSAGES)


@dataclass(frozen=True)
class ProcessRecord:
    """The counts of one process."""

    pid: int
    device: str
    """The kind of its NIC; empty without a NIC."""
    nics: int
    answered: int
    """Requests of peers."""
    executed: tuple[int, ...]
    """Counts by :class:`Executed`."""


@dataclass(frozen=True)
class Counts:
    """The counts of all processes of a program."""

    processes: Sequence[ProcessRecord]
    """Processes that called a library of Amoeba's."""
    strange: Sequence[str] = ()
    """Names of files that hold no counts."""

    @property
    def nics(self) -> int:
        """NICs opened."""
        return sum(each.nics for each in self.processes)

    @property
    def opened(self) -> int:
        """Processes that opened a NIC."""
        return sum(each.nics > 0 for each in self.processes)

    @property
    def answered(self) -> int:
        """Requests that the NICs answered."""
        return sum(each.answered for each in self.processes)

    @property
    def failed(self) -> int:
        return self._total(Executed.FAILED)

    @property
    def operations(self) -> dict[str, int]:
        """Operations that succeeded, by kind."""
        return {kind.name.lower(): self._total(kind) for kind in _OPERATIONS}

    @property
    def idle(self) -> bool:
        """Whether the NICs did nothing."""
        return not (self.answered or self.failed or any(self.operations.values()))

    def _total(self, kind: Executed) -> int:
        return sum(each.executed[kind] for each in self.processes)

    def warning(self, library: str, remedy: str) -> str | None:
        """Return a warning that no NIC was active; None if NICs were active.

        ``library``: name of the expected library. ``remedy``: advice if no process called the library.
        """
        if not self.processes:
            return f"no NIC was opened: no process called {library}; {remedy}"
        if not self.nics:
            return f"no NIC was opened, though {_several(len(self.processes), 'process')} called {library}"
        if self.idle:
            return f"{self._subject()}, but the NICs executed nothing"
        return None

    def sentence(self) -> str:
        """Return a sentence that sums up the NICs' operations."""
        operations = self.operations
        kinds = [_several(number, _ONE[kind]) for kind, number in operations.items() if number]
        told = f"{self._subject()}, which executed {_several(sum(operations.values()), 'operation')}"
        told += f": {', '.join(kinds)}" if kinds else ""
        told += f"; {self.failed} failed" if self.failed else ""
        return told + (f"; answered {_several(self.answered, 'request')}" if self.answered else "")

    def _subject(self) -> str:
        kinds = ", ".join(sorted({each.device for each in self.processes if each.nics}))
        return f"{_several(self.opened, 'process')} opened {_several(self.nics, 'NIC')} ({kinds})"

    def as_json(self, command: str, warning: str | None) -> str:
        """Return the counts as one line of JSON."""
        processes = [
            {"pid": each.pid, "device": each.device, "nics": each.nics}
            | {kind.name.lower(): each.executed[kind] for kind in Executed}
            | {"answered": each.answered}
            for each in self.processes
        ]
        told: dict[str, Any] = {"command": command, "nics": self.nics, "operations": self.operations}
        told |= {"failed": self.failed, "answered": self.answered, "processes": processes}
        return json.dumps(told | {"unreadable": len(self.strange), "warning": warning})


@contextlib.contextmanager
def counting_folder() -> Iterator[Path | None]:
    """Make a folder for counts, and remove it afterwards; yield None if no folder can be made."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="amoeba-counts-"))
    except OSError:
        yield None
        return
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def read_counts(folder: Path) -> Counts:
    """Read all files of a folder, and return the counts with the names of all other files."""
    processes: list[ProcessRecord] = []
    strange: list[str] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number == _MAX_FILES:
                strange.append(f"those behind the first {_MAX_FILES}")
                break
            record = _read(entry.path)
            if record is None:
                strange.append(entry.name)
            else:
                processes.append(record)
    return Counts(sorted(processes, key=lambda each: each.pid), sorted(strange))


def _read(path: str) -> ProcessRecord | None:
    """Return the counts in a file; None if it holds no counts."""
    try:
        # the launched program can leave anything here: links are not followed, pipes not waited for
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        good = stat.S_ISREG(status.st_mode) and status.st_size == RECORD.size
        return _unpack(os.read(descriptor, RECORD.size)) if good else None
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _unpack(content: bytes) -> ProcessRecord | None:
    if len(content) != RECORD.size:
        return None
    magic, pid, name, nics, answered, *executed = RECORD.unpack(content)
    device = name.rstrip(b"\0")
    printable = device.isascii() and device.decode("ascii", "replace").isprintable()
    if magic != MAGIC or not printable or (nics and not device):
        return None
    if max(pid, nics, answered, *executed) >= _LIMIT:
        return None
    return ProcessRecord(pid, device.decode("ascii"), nics, answered, tuple(executed))


def _several(number: int, noun: str) -> str:
    plural = noun + ("es" if noun.endswith("s") else "s")
    return f"{number} {noun if number == 1 else plural}"
