"""Event queues: events beside data transfer. fi_eq(3)."""

import threading
import time
from collections import deque
from typing import Any, NamedTuple, TypeAlias

from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError, fabric_error
from amoeba.core.lifetime import FabricObject
from amoeba.core.locking import Locker
from amoeba.core.waiting import WAIT_SLICE, Source, Sources, WaitFd
from amoeba.libfabric.objects.checks import check_enum, check_flags, check_number, check_timeout
from amoeba.libfabric.objects.constants import EqEvent, EqFlags, WaitObj
from amoeba.libfabric.objects.queues.wait_set import WaitSet, by_descriptor, wait_set_of
from amoeba.libfabric.objects.structures import Info

__all__ = ["EqCmEntry", "EqEntry", "EqErrEntry", "Event", "EventQueue"]

_NO_FLAGS = EqFlags(0)


class EqEntry(NamedTuple):
    """``struct fi_eq_entry``, with the number that ``fi_eq_read`` returns beside it."""

    event: int
    """An :class:`amoeba.EqEvent`, or a number that the application wrote."""
    fid: FabricObject | None
    """The object of the event."""
    context: Any
    """``context`` of the call that began it."""
    data: int
    """FI_AV_COMPLETE: addresses inserted."""


class EqCmEntry(NamedTuple):
    """``struct fi_eq_cm_entry``, an event of a connection, with the number that ``fi_eq_read`` returns beside it."""

    event: int
    """FI_CONNREQ, FI_CONNECTED or FI_SHUTDOWN."""
    fid: FabricObject | None
    """The passive endpoint of a FI_CONNREQ, else the endpoint."""
    info: Info | None
    """FI_CONNREQ: the info to open the accepting endpoint with."""
    data: bytes
    """``param`` of the peer: of ``connect`` in a FI_CONNREQ, of ``accept`` in a FI_CONNECTED."""


class EqErrEntry(NamedTuple):
    """``struct fi_eq_err_entry``: a failure."""

    fid: FabricObject | None
    context: Any
    data: int
    """Insertion into an address vector: index of the address."""
    err: Errno
    prov_errno: int
    err_data: bytes
    """A connection: ``param`` of the peer's ``reject``."""


Event: TypeAlias = EqEntry | EqCmEntry
"""The event that a read returns unless it is an error."""


class EventQueue(FabricObject):
    """Collects events of the objects bound to it, as ``fi_eq_open`` makes it. May be used by several threads.

    Connections are made, and their end is noticed, while the queue is read, or by automatic progress.

    Parameters
    ----------
    size : int
        Maximum number of events; 0: any number. A further event is lost and leaves the queue overrun: its events can
        still be read, then the queue is of no more use.
    flags : EqFlags
        FI_WRITE: the application inserts events of its own.
    wait_obj : WaitObj
        FI_WAIT_UNSPEC or FI_WAIT_YIELD; FI_WAIT_FD for a file descriptor besides; FI_WAIT_NONE without waits;
        FI_WAIT_SET to wait by ``wait_set``.

    Raises FI_EBADFLAGS for other flags, FI_ENOSYS for other wait objects. Raises FI_EINVAL for a negative size, and
    for FI_WAIT_SET without a set of this fabric.
    """

    def __init__(
        self,
        fabric: FabricObject,
        size: int = 0,
        flags: EqFlags = _NO_FLAGS,
        wait_obj: WaitObj = WaitObj.FI_WAIT_UNSPEC,
        wait_set: WaitSet | None = None,
    ) -> None:
        flags, wait_obj = check_flags(EqFlags, flags), check_enum(WaitObj, wait_obj, "wait_obj")
        if flags & ~EqFlags.FI_WRITE:
            raise fabric_error(Errno.FI_EBADFLAGS, f"an event queue is opened with FI_WRITE or not, got {flags!r}")
        wait_set = wait_set_of("event queues", wait_obj, wait_set, fabric)
        self.size = check_number("size", size)
        self.wait_obj = wait_obj
        self._writable = bool(flags & EqFlags.FI_WRITE)
        self._changed = threading.Condition()
        self._entries: deque[Event | EqErrEntry] = deque()
        self._overrun = False
        self._fd: WaitFd | None = None
        self._sources: Sources | None = None
        self._descriptor: Sources | WaitFd | None = None
        """The descriptor that others wait for."""
        super().__init__(fabric)
        if by_descriptor(wait_obj, wait_set):
            self._fd = WaitFd()
            if self._auto is None:
                self._sources = self._descriptor = Sources(self._fd)
            else:
                self._descriptor = self._fd
        if wait_set is not None:
            wait_set._adopt(self)
            wait_set._join(self)

    def read(self, flags: EqFlags = _NO_FLAGS) -> Event | None:
        """Take the oldest event, or with FI_PEEK look at it; None without one (FI_EAGAIN of ``fi_eq_read``).

        Raises FI_EAVAIL while that is an error: take it by :meth:`readerr`; FI_EOVERRUN when events were lost
        and all others have been read.
        """
        self._check_open()
        flags = check_flags(EqFlags, flags)
        with self._changed:
            self._go_on()
            entry = self._oldest()
            if isinstance(entry, EqErrEntry):
                raise fabric_error(Errno.FI_EAVAIL, "something failed: readerr() says what and why")
            if entry is None and self._overrun:
                raise self._lost()
            self._consume(flags)
            return entry

    def sread(self, timeout: float | None = None, flags: EqFlags = _NO_FLAGS) -> Event | None:
        """Read as :meth:`read`, but wait up to ``timeout`` seconds (None: without limit): ``fi_eq_sread``.

        Raises FI_ENOSYS for a queue of FI_WAIT_NONE.
        """
        self._check_open()
        if self.wait_obj is WaitObj.FI_WAIT_NONE:
            raise fabric_error(Errno.FI_ENOSYS, "the event queue was opened with FI_WAIT_NONE")
        timeout = check_timeout(timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        while (event := self.read(flags)) is None:  # somebody else may have taken what was waited for
            remaining = None if deadline is None else deadline - time.monotonic()
            if remaining is not None and remaining <= 0:
                break
            if self._auto is not None:
                self._auto.wait_for(lambda: self._closed or self._readable, remaining)
            else:
                self._rest(WAIT_SLICE if remaining is None else min(remaining, WAIT_SLICE))
        return event

    def _rest(self, seconds: float) -> None:
        """Sleep until there may be an event to read, at most the given seconds."""
        if sources := self._sources:
            sources.wait(seconds)
        else:
            with self._changed:
                self._changed.wait_for(lambda: self._entries or self._overrun or self.closed, seconds)

    def readerr(self, flags: EqFlags = _NO_FLAGS) -> EqErrEntry | None:
        """Take the next event if it is an error, or with FI_PEEK look at it; else return None."""
        self._check_open()
        flags = check_flags(EqFlags, flags)
        with self._changed:
            self._go_on()
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
        event = check_number("event", int(event) if isinstance(event, EqEvent) else event, 32)
        with self._changed:
            if self._overrun:
                raise self._lost()
            if self._full:
                raise fabric_error(Errno.FI_EAGAIN, f"the event queue holds {self.size} events: read some")
            self._append(EqEntry(event, fid, context, data))

    def strerror(self, prov_errno: int) -> str:
        """Describe the provider's error number. Events have libfabric's only: ``FI_ENOSPC`` reads ``enospc``.

        Raises FI_EINVAL for an unknown number.
        """
        return check_enum(Errno, prov_errno, "prov_errno").name.removeprefix("FI_").lower()

    def fileno(self) -> int:
        """Return a descriptor that is readable while there are events: FI_GETWAIT.

        Without automatic progress also while connections can go on.
        Raises FI_ENOSYS without FI_WAIT_FD.
        """
        self._check_open()
        if self._descriptor is None:
            raise fabric_error(Errno.FI_ENOSYS, "the event queue was opened without FI_WAIT_FD")
        return self._descriptor.fileno()

    def _report(self, event: EqEvent, fid: FabricObject, context: Any, data: int = 0) -> None:
        """Insert an event of the driver's."""
        with self._changed:
            self._append(EqEntry(event, fid, context, data))

    def _report_connection(self, event: EqEvent, fid: FabricObject, info: Info | None, data: bytes) -> None:
        with self._changed:
            self._append(EqCmEntry(event, fid, info, data))

    def _report_error(self, fid: FabricObject, context: Any, data: int, err: Errno, err_data: bytes = b"") -> None:
        with self._changed:
            self._append(EqErrEntry(fid, context, data, err, int(err), err_data))

    # Connections

    def _watch(self, source: Source, *, writing: bool = False) -> None:
        """Let ``source`` proceed while the queue is read."""
        with self._changed:
            if self._sources is None:
                self._sources = Sources()
            self._sources.add(source, writing=writing)
            self._changed.notify_all()
        if self._auto is not None:
            self._auto.wake()

    def _unwatch(self, source: Source) -> None:
        """Forget a source, before its descriptor is closed; do nothing if it is unknown."""
        with self._changed:
            if self._sources is not None:
                self._sources.remove(source)

    @property
    def deadline(self) -> float | None:
        """When the first connection can proceed, if nothing else happens, on the clock of ``time.monotonic``."""
        return self._sources.deadline if self._sources else None

    def _automate(self, auto: Locker) -> None:
        super()._automate(auto)
        if self._fd is not None and self._sources is not None:  # made before: its descriptor stays the same
            self._sources = self._sources.split()
        auto.watch(self)

    def _attend(self) -> bool:
        """Let connections proceed."""
        with self._changed:
            self._go_on()
        return False

    def _arm(self) -> bool | None:
        """Ask no NIC: none has a part in connections."""

    @property
    def _readable(self) -> bool:
        """Whether there is something to be read."""
        return bool(self._entries) or self._overrun

    def _awaits(self) -> tuple[int, float | None] | None:
        """Return the descriptor by which connections proceed, and their deadline; None without connections."""
        return (self._sources.fileno(), self._sources.deadline) if self._sources else None

    def _go_on(self) -> None:
        if self._sources:
            self._sources.go_on()

    def _is_silent(self) -> bool:
        """Whether there is nothing to be read, and may be something later."""
        with self._changed:
            if self.closed:
                return False
            self._go_on()
            return not self._entries and not self._overrun

    @property
    def _full(self) -> bool:
        return bool(self.size) and len(self._entries) >= self.size

    def _oldest(self) -> Event | EqErrEntry | None:
        return self._entries[0] if self._entries else None

    def _append(self, entry: Event | EqErrEntry) -> None:
        if self._full or self._overrun:
            self._overrun = True
        else:
            self._entries.append(entry)
        self._notify()

    def _lost(self) -> FabricError:
        return fabric_error(Errno.FI_EOVERRUN, f"more than {self.size} events were not read in time")

    def _forget(self, fid: FabricObject) -> None:
        """Drop the events of a closed object, on which no program could act."""
        with self._changed:
            self._entries = deque(entry for entry in self._entries if entry.fid is not fid)
            if not self.closed:
                self._notify()

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
        return self._is_silent()

    def _release(self) -> None:
        with self._changed:
            self._entries.clear()
            self._changed.notify_all()
            for descriptor in {self._descriptor, self._sources, self._fd}:
                if descriptor is not None:
                    descriptor.close()
            self._descriptor = self._sources = self._fd = None

    def __repr__(self) -> str:
        return f"<EventQueue {'closed' if self.closed else f'of {len(self._entries)} events'}>"
