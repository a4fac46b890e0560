"""Queues, counters, wait sets and poll sets: fi_cq(3), fi_eq(3), fi_cntr(3), fi_poll(3)."""

import struct
from typing import Any

from amoeba.core.errno import Errno
from amoeba.core.errors import ErrorAvailableError, fabric_error
from amoeba.core.waiting import HasFileno, readable_within
from amoeba.embed import Memory, without_fair_lock
from amoeba.libfabric.objects.constants import EqFlags, WaitObj
from amoeba.libfabric.objects.printing import version
from amoeba.libfabric.objects.queues.completion import CompletionQueue
from amoeba.libfabric.objects.queues.event_queue import EqCmEntry, EqEntry, EqErrEntry, Event
from amoeba.libfabric.provider.fids import Fid, FidClass, Fids
from amoeba.libfabric.provider.infos import Infos
from amoeba.libfabric.provider.library import ADD, ADD_ERRORS, SET
from amoeba.libfabric.provider.process import Process, seconds
from amoeba.libfabric.provider.sockaddr import SockAddr
from amoeba.libfabric.provider.triggers import TriggeredAt

__all__ = ["Queues"]

_EAGAIN, _EAVAIL = -int(Errno.FI_EAGAIN), -int(Errno.FI_EAVAIL)
_MAX_ENTRIES = 1 << 12
"""Maximum number of entries of one call."""
_MAX_EVENT = 1 << 16
"""Maximum bytes of an event that a program writes."""
_EQ_ENTRY = struct.Struct("=QQQ")
_EQ_CM_ENTRY = struct.Struct("=QQ")
_PEEK = int(EqFlags.FI_PEEK)
_MAX_REST = 0.05
"""Seconds of one sleep."""
_API_1_5 = version(1, 5)


class _Written(bytes):
    """An event that the program wrote."""


class Queues:
    """The calls on completion queues, event queues, counters, wait sets and poll sets."""

    def __init__(self, ffi: Any, memory: Memory, fids: Fids, infos: Infos, process: Process) -> None:
        self._ffi, self._null = ffi, ffi.NULL
        self._memory, self._fids, self._infos, self._process = memory, fids, infos, process
        self._cast, self._buffer, self._bytes = ffi.cast, ffi.buffer, ffi.typeof("char *")

    # Completion queues

    def cq_read(self, cq: int, buf: int, count: int, source: Any) -> int:
        fid = self._fids.get(cq, FidClass.CQ)
        if not buf and count:
            raise fabric_error(Errno.FI_EINVAL, f"expected space for {count} entries, got NULL")
        taken = self._take(fid.subject, min(count, _MAX_ENTRIES))
        return taken if isinstance(taken, int) else self._store(fid, taken, buf, source)

    def _take(self, queue: CompletionQueue[Any], count: int) -> list[tuple[Any, int]] | int:
        """Take entries with their senders, or return the reason for an empty result."""
        try:
            return queue.readfrom(count) or _EAGAIN
        except ErrorAvailableError:
            return _EAVAIL

    def _store(self, fid: Fid, entries: list[tuple[Any, int]], buf: int, source: Any) -> int:
        layout = fid.more.entry
        size, pack = layout.size, layout.pack_into
        where = self._buffer(self._cast(self._bytes, buf), size * len(entries))
        offset = 0
        for entry, _ in entries:
            context = entry[0]
            if context.__class__ is not int:
                entry = (_address(context), *entry[1:])
            pack(where, offset, *entry)
            offset += size
        if source != self._null:
            for index, (_, sender) in enumerate(entries):
                source[index] = sender
        return len(entries)

    def cq_sread(self, cq: int, buf: int, count: int, source: Any, cond: int, timeout: int) -> int:
        fid = self._fids.get(cq, FidClass.CQ)
        queue, settings = fid.subject, fid.more
        if settings.wait_obj is WaitObj.FI_WAIT_NONE:
            raise fabric_error(Errno.FI_ENOSYS, "the completion queue was opened with FI_WAIT_NONE")
        if not buf or not count:
            raise fabric_error(Errno.FI_EINVAL, f"expected space for entries, got {count} at {buf:#x}")
        count = min(count, _MAX_ENTRIES)
        least = min(max(cond, 1), count) if settings.threshold else 1
        taken: list[tuple[Any, int]] = []

        def now() -> int | None:
            if (found := self._more(queue, count - len(taken), taken)) != _EAGAIN:
                return found if found < 0 and not taken else 0
            if len(taken) >= least:
                return 0
            if settings.signalled:
                settings.signalled = False
                return 0 if taken else -int(Errno.FI_ECANCELED)
            return None

        def waiting(limit: float | None) -> int | None:
            try:
                taken.extend(queue.sreadfrom(count, limit, least if settings.threshold else None))
            except ErrorAvailableError:
                return _EAVAIL
            return 0

        ended = self._process.wait(now, timeout, waiting=waiting)
        if ended is not None and ended < 0:
            return ended
        return self._store(fid, taken, buf, source) if taken else _EAGAIN

    def _more(self, queue: CompletionQueue[Any], count: int, taken: list[tuple[Any, int]]) -> int:
        """Take the available entries; FI_EAGAIN if they are fewer than asked for."""
        found = self._take(queue, count)
        if isinstance(found, int):
            return found
        taken += found
        return 0 if len(found) == count else _EAGAIN

    def cq_readerr(self, cq: int, entry: Any, flags: int) -> int:
        fid = self._fids.get(cq, FidClass.CQ)
        self._memory.require(entry, "buf")
        failed = fid.subject.readerr()
        if failed is None:
            return _EAGAIN
        entry.op_context = self._cast("void *", _address(failed.op_context))
        entry.flags, entry.len = failed.flags, failed.len
        entry.buf = self._cast("void *", failed.buf)
        entry.data, entry.tag, entry.olen = failed.data, failed.tag, failed.olen
        entry.err, entry.prov_errno = int(failed.err), failed.prov_errno
        self._give_err_data(fid, entry, bytes(failed.err_data))
        return 1

    def _give_err_data(self, fid: Fid, entry: Any, data: bytes) -> None:
        """Store error data in the program's memory, if it offers some; else in the library's, until the next read."""
        if fid.api_version < _API_1_5:  # earlier entries are shorter
            fid.err_data = self._ffi.from_buffer(data) if data else None
            entry.err_data = fid.err_data or self._null
        elif entry.err_data_size and entry.err_data != self._null:
            given = data[: entry.err_data_size]
            self._ffi.memmove(entry.err_data, given, len(given))
            entry.err_data_size = len(given)
        else:
            fid.err_data = self._ffi.from_buffer(data) if data else None
            entry.err_data, entry.err_data_size = fid.err_data or self._null, len(data)

    def cq_signal(self, cq: int) -> None:
        fid = self._fids.get(cq, FidClass.CQ)
        if self._process.automatic or fid.more.wait_obj is WaitObj.FI_WAIT_NONE:
            fid.subject.signal()
        else:
            fid.more.signalled = True

    def cq_strerror(self, cq: int, prov_errno: int, buf: int, size: int) -> None:
        text = self._fids.subject(cq, FidClass.CQ).strerror(prov_errno)
        self._memory.put_string(self._memory.pointer(buf, "char *"), size, text)

    # Event queues

    def eq_read(self, eq: int, event: Any, buf: int, size: int, timeout: int, flags: int) -> int:
        found = self._event(self._fids.get(eq, FidClass.EQ), event, buf, size, flags)
        return _EAGAIN if found is None else found

    def eq_sread(self, eq: int, event: Any, buf: int, size: int, timeout: int, flags: int) -> int:
        fid = self._fids.get(eq, FidClass.EQ)
        if fid.more.wait_obj is WaitObj.FI_WAIT_NONE:
            raise fabric_error(Errno.FI_ENOSYS, "the event queue was opened with FI_WAIT_NONE")

        def now() -> int | None:
            if not self._process.automatic:  # else the progress thread alone runs the NIC
                self._process.nic.step()
            return self._event(fid, event, buf, size, flags)

        found = self._process.wait(now, timeout, rest=lambda left: self._rest(fid, left))
        return _EAGAIN if found is None else found

    def _rest(self, fid: Fid, left: float | None) -> None:
        """Sleep until the queue has an event, or a frame has arrived for the NIC."""
        longest = _MAX_REST if left is None else min(left, _MAX_REST)
        outside = self._process.nic.network.outside
        descriptors: list[int | HasFileno] = [] if outside is None else [outside]
        if fid.more.wait_obj is not WaitObj.FI_WAIT_SET:
            descriptors.append(fid.subject)
        readable_within(descriptors, longest)

    def _event(self, fid: Fid, event: Any, buf: int, size: int, flags: int) -> int | None:
        """Store the next event and return its size; None for an empty queue, or an error that prevents it."""
        if flags & ~_PEEK:
            raise fabric_error(Errno.FI_EBADFLAGS, f"reading knows FI_PEEK, got {flags:#x}")
        self._memory.require(event, "event")
        queue = fid.subject
        try:
            entry: Event | None = queue.read(EqFlags.FI_PEEK)
        except ErrorAvailableError:
            return _EAVAIL
        if entry is None:
            return None
        data = self._event_bytes(entry, size)
        if len(data) > size:
            return -int(Errno.FI_ETOOSMALL)
        self._memory.view(buf, len(data))[:] = data
        event[0] = int(entry.event)
        if not flags & _PEEK:
            queue.read()
        return len(data)

    def _event_bytes(self, entry: Event, size: int) -> bytes:
        """Encode the event for C; connection data is cut to the buffer."""
        fid = None if entry.fid is None else self._fids.of(entry.fid)
        address = 0 if fid is None else fid.address
        if isinstance(entry, EqCmEntry):
            if size < _EQ_CM_ENTRY.size:
                return bytes(_EQ_CM_ENTRY.size)
            info = 0 if entry.info is None else self._connection_info(entry.info)
            return (_EQ_CM_ENTRY.pack(address, info) + entry.data)[:size]
        assert isinstance(entry, EqEntry)
        if isinstance(entry.context, _Written):
            return entry.context
        return _EQ_ENTRY.pack(address, _address(entry.context), entry.data)

    def _connection_info(self, info: Any) -> int:
        """Make the info of a connection request, for the endpoint that accepts it, or for fi_reject."""
        request = self._fids.of(info.handle)
        if request is None:
            request = self._fids.add(FidClass.CONNREQ, info.handle)
        made = self._infos.give(info, SockAddr(self._process.nic.link[0], 0), SockAddr.of(info.dest_addr))
        made.handle = self._cast("struct fid *", request.address)
        return self._memory.address(made)

    def eq_readerr(self, eq: int, entry: Any, flags: int) -> int:
        fid = self._fids.get(eq, FidClass.EQ)
        self._memory.require(entry, "buf")
        if flags & ~_PEEK:
            raise fabric_error(Errno.FI_EBADFLAGS, f"reading knows FI_PEEK, got {flags:#x}")
        failed: EqErrEntry | None = fid.subject.readerr(EqFlags(flags))
        if failed is None:
            return _EAGAIN
        about = None if failed.fid is None else self._fids.of(failed.fid)
        entry.fid = self._cast("struct fid *", 0 if about is None else about.address)
        entry.context = self._cast("void *", _address(failed.context))
        entry.data, entry.err, entry.prov_errno = failed.data, int(failed.err), failed.prov_errno
        self._give_err_data(fid, entry, bytes(failed.err_data))
        return int(self._ffi.sizeof("struct fi_eq_err_entry"))

    def eq_write(self, eq: int, event: int, buf: int, size: int, flags: int) -> int:
        fid = self._fids.get(eq, FidClass.EQ)
        if flags:
            raise fabric_error(Errno.FI_EBADFLAGS, f"writing has no flags, got {flags:#x}")
        if size > _MAX_EVENT:
            raise fabric_error(Errno.FI_EINVAL, f"an event has at most {_MAX_EVENT} bytes, got {size}")
        fid.subject.write(event, context=_Written(self._memory.view(buf, size)))
        return size

    def eq_strerror(self, eq: int, prov_errno: int, buf: int, size: int) -> None:
        text = self._fids.subject(eq, FidClass.EQ).strerror(prov_errno)
        self._memory.put_string(self._memory.pointer(buf, "char *"), size, text)

    # Counters

    def cntr_read(self, cntr: int, errors: int) -> int:
        counter = self._fids.subject(cntr, FidClass.CNTR)
        return int(counter.readerr() if errors else counter.read())

    def cntr_change(self, cntr: int, what: int, value: int) -> None:
        counter = self._fids.subject(cntr, FidClass.CNTR)
        if what == ADD:
            counter.add(value)
        elif what == SET:
            counter.set(value)
        elif what == ADD_ERRORS:
            counter.adderr(value)
        else:
            counter.seterr(value)

    def cntr_wait(self, cntr: int, threshold: int, timeout: int) -> int:
        counter = self._fids.subject(cntr, FidClass.CNTR)
        if self._process.automatic:
            without_fair_lock(lambda: counter.wait(threshold, seconds(timeout)))
            return 0
        errors = counter.expected_errors

        def now() -> int | None:
            if counter.read() >= threshold:
                return 0
            return _EAVAIL if counter.readerr() != errors else None

        found = self._process.wait(now, timeout)
        return -int(Errno.FI_ETIMEDOUT) if found is None else found

    # Wait sets and poll sets

    def fabric_trywait(self, fabric: int, fids: Any, count: int) -> int:
        self._fids.get(fabric, FidClass.FABRIC)
        if not 0 < count <= _MAX_ENTRIES:
            raise fabric_error(Errno.FI_EINVAL, f"expected 1 to {_MAX_ENTRIES} objects, got {count}")
        self._memory.require(fids, "fids")
        waited = (FidClass.CQ, FidClass.EQ, FidClass.CNTR, FidClass.WAIT)
        handles = [self._fids.subject(fids[index], *waited) for index in range(count)]
        return 0 if self._process.fabric.trywait(*handles) else _EAGAIN

    def wait_wait(self, waitset: int, timeout: int) -> int:
        waits = self._fids.subject(waitset, FidClass.WAIT)

        def now() -> int | None:
            self._process.nic.step()
            return None if self._process.fabric.trywait(waits) else 0

        if self._process.automatic:
            without_fair_lock(lambda: waits.wait(seconds(timeout)))
            return 0
        return -int(Errno.FI_ETIMEDOUT) if self._process.wait(now, timeout) is None else 0

    def poll_poll(self, pollset: int, contexts: Any, count: int) -> int:
        polled = self._fids.subject(pollset, FidClass.POLL)
        if count < 0 or (count and contexts == self._null):
            raise fabric_error(Errno.FI_EINVAL, f"expected space for {count} contexts")
        ready = polled.poll(count)
        for index, member in enumerate(ready):
            found = self._fids.of(member)
            contexts[index] = 0 if found is None else self._memory.address(found.c.fid.context)
        return len(ready)

    def poll_change(self, pollset: int, member: int, flags: int, add: int) -> None:
        polled = self._fids.subject(pollset, FidClass.POLL)
        if flags:
            raise fabric_error(Errno.FI_EBADFLAGS, f"members of a poll set have no flags, got {flags:#x}")
        subject = self._fids.subject(member, FidClass.CQ, FidClass.CNTR)
        (polled.add if add else polled.remove)(subject)


def _address(context: Any) -> int:
    """Return the pointer that C gave as the context of an operation."""
    if isinstance(context, TriggeredAt):
        return context.address
    return context if isinstance(context, int) else 0
