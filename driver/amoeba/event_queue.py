"""Event queues: what happens beside data transfer. fi_eq(3)."""

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from amoeba.constants import EqEvent, EqFlags, Errno, WaitObj
from amoeba.errors import FabricError, fabric_error
from amoeba.lifetime import FabricObject
from amoeba.waiting import WAIT_OBJECTS, WaitFd

if TYPE_CHECKING:
    from amoeba.fabric import Fabric

__all__ = ["EqEntry", "EqErrEntry", "EventQueue"]

_U32 = 2**32 - 1
_NO_FLAGS = EqFlags(0)


class EqEntry(NamedTuple):
    """``struct fi_eq_entry``, with the number that ``fi_eq_read`` returns beside it."""

    event: int
    """An :class:`amoeba.EqEvent`, or a number that the application wrote."""
    fid: FabricObject | None
    """The object that it happened to."""
    context: Any
    """``context`` of the call that began it."""
    data: int
    """FI_AV_COMPLETE: addresses inserted."""


class EqErrEntry(NamedTuple):
    """``struct fi_eq_err_entry``: what failed."""

    fid: FabricObject | None
    context: Any
    data: int
    """Insertion into an address vector: index of the address."""
    err: Errno
    prov_errno: int
    err_data: bytes


class EventQueue(FabricObject):
    """Collects events of the objects bound to it, as ``fi_eq_open`` makes it. May be used by several threads.

    Parameters
    ----------
    size : int
        Most events; 0: any number. An event beyond that is lost and leaves the queue overrun: what it holds can
        still be read, then it is of no more use.
    flags : EqFlags
        FI_WRITE: the application inserts events of its own.
    wait_obj : WaitObj
        FI_WAIT_UNSPEC; FI_WAIT_FD for a file descriptor besides; FI_WAIT_NONE if nobody waits.

    Raises FI_EBADFLAGS for other flags, FI_ENOSYS for other wait objects, FI_EINVAL for a negative size.
    """

    def __init__(
        self, fabric: "Fabric", size: int = 0, flags: EqFlags = _NO_FLAGS, wait_obj: WaitObj = WaitObj.FI_WAIT_UNSPEC
    ) -> None:
        if flags & ~EqFlags.FI_WRITE:
            raise fabric_error(Errno.FI_EBADFLAGS, f"an event queue is opened with FI_WRITE or not, got {flags!r}")
        if wait_obj not in WAIT_OBJECTS:
            raise fabric_error(Errno.FI_ENOSYS, f"event queues do not wait by {wait_obj!r}")
        if size < 0:
            raise fabric_error(Errno.FI_EINVAL, f"a queue has room for 0 or more events, got {size}")
        self.size = size
        self.wait_obj = wait_obj
        self._writable = bool(flags & EqFlags.FI_WRITE)
        self._changed = threading.Condition()
        self._entries: deque[EqEntry | EqErrEntry] = deque()
        self._overrun = False
        self._fd: WaitFd | None = None
        super().__init__(fabric)
        if wait_obj is WaitObj.FI_WAIT_FD:
            self._fd = WaitFd()

    def read(self, flags: EqFlags = _NO_FLAGS) -> EqEntry | None:
        """Take the oldest event, or with FI_PEEK look at it; None when there is none (FI_EAGAIN of ``fi_eq_read``).

        Raises FI_EAVAIL while that is an error: take it by :meth:`readerr`; FI_EOVERRUN when events were lost
        and all others have been read.
        """
        self._check_open()
        with self._changed:
            entry = self._oldest()
            if isinstance(entry, EqErrEntry):
                raise fabric_error(Errno.FI_EAVAIL, "something failed: readerr() says what and why")
            if entry is None and self._overrun:
                raise self._lost()
            self._consume(flags)
            return entry

    def sread(self, timeout: float | None = None, flags: EqFlags = _NO_FLAGS) -> EqEntry | None:
        """Like :meth:`read`, but wait up to ``timeout`` seconds (None: without limit): ``fi_eq_sread``.

        Raises FI_ENOSYS for a queue of FI_WAIT_NONE.
        """
        self._check_open()
        if self.wait_obj is WaitObj.FI_WAIT_NONE:
            raise fabric_error(Errno.FI_ENOSYS, "the event queue was opened with FI_WAIT_NONE")
        with self._changed:
            self._changed.wait_for(lambda: self._entries or self._overrun or self.closed, timeout)
            return self.read(flags)

    def readerr(self, flags: EqFlags = _NO_FLAGS) -> EqErrEntry | None:
        """Take the error that is next, or with FI_PEEK look at it; None when the next event is none."""
        self._check_open()
        with self._changed:
            entry = self._oldest()
            if not isinstance(entry, EqErrEntry):
                return None
            self._consume(flags)
            return entry

    def write(self, event: int, *, fid: FabricObject | None = None, context: Any = None, data: int = 0) -> None:
        """Insert an event of the application's: ``fi_eq_write``.

        Raises FI_ENOSYS without FI_WRITE, FI_EINVAL for a number that has no 32 bits, FI_EAGAIN when the queue is
        full, FI_EOVERRUN when events have been lost.
        """
        self._check_open()
        if not self._writable:
            raise fabric_error(Errno.FI_ENOSYS, "the event queue was opened without FI_WRITE")
        if not 0 <= event <= _U32:
            raise fabric_error(Errno.FI_EINVAL, f"an event is a number of 32 bits, got {event}")
        with self._changed:
            if self._overrun:
                raise self._lost()
            if self._full:
                raise fabric_error(Errno.FI_EAGAIN, f"the event queue holds {self.size} events: read some")
            self._append(EqEntry(event, fid, context, data))

    def strerror(self, prov_errno: int) -> str:
        """The provider's error number in words. Events have libfabric's only: ``FI_ENOSPC`` reads ``enospc``."""
        return Errno(prov_errno).name.removeprefix("FI_").lower()

    def fileno(self) -> int:
        """A descriptor that is readable while there are events: FI_GETWAIT. Raises FI_ENOSYS without FI_WAIT_FD."""
        self._check_open()
        if self._fd is None:
            raise fabric_error(Errno.FI_ENOSYS, "the event queue was opened without FI_WAIT_FD")
        return self._fd.fileno()

    def _report(self, event: EqEvent, fid: FabricObject, context: Any, data: int = 0) -> None:
        """Insert an event of the driver's."""
        with self._changed:
            self._append(EqEntry(event, fid, context, data))

    def _report_error(self, fid: FabricObject, context: Any, data: int, err: Errno) -> None:
        with self._changed:
            self._append(EqErrEntry(fid, context, data, err, int(err), b""))

    @property
    def _full(self) -> bool:
        return bool(self.size) and len(self._entries) >= self.size

    def _oldest(self) -> EqEntry | EqErrEntry | None:
        return self._entries[0] if self._entries else None

    def _append(self, entry: EqEntry | EqErrEntry) -> None:
        if self._full or self._overrun:
            self._overrun = True
        else:
            self._entries.append(entry)
        self._notify()

    def _lost(self) -> FabricError:
        return fabric_error(Errno.FI_EOVERRUN, f"more than {self.size} events were not read in time")

    def _consume(self, flags: EqFlags) -> None:
        if self._entries and not flags & EqFlags.FI_PEEK:
            self._entries.popleft()
            self._notify()

    def _notify(self) -> None:
        self._changed.notify_all()
        if self._fd is not None:
            self._fd.set(bool(self._entries) or self._overrun)

    def _may_wait(self) -> bool:
        self._check_open()
        return not self._entries and not self._overrun

    def _release(self) -> None:
        with self._changed:
            self._entries.clear()
            self._changed.notify_all()
        if self._fd is not None:
            self._fd.close()
            self._fd = None

    def __repr__(self) -> str:
        return f"<EventQueue {'closed' if self.closed else f'of {len(self._entries)} events'}>"
