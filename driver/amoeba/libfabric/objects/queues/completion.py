"""Completion queues, which report the ends of operations and their errors."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from threading import get_ident, main_thread
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from amoeba_model.device import DeviceClosedError
from amoeba_model.interruptions import uninterrupted
from amoeba_model.wire.uet import ReturnCode

from amoeba.core.errno import Errno
from amoeba.core.errors import RETURN_CODE_ERRNO, ErrorAvailableError, FabricError, completion_error, fabric_error
from amoeba.core.waiting import WAIT_SLICE, WaitFd
from amoeba.libfabric.objects.checks import check_number, check_timeout
from amoeba.libfabric.objects.constants import FI_ADDR_NOTAVAIL, Caps, CqFormat, CqWaitCond, WaitObj
from amoeba.libfabric.objects.queues.completion_source import CompletionSource
from amoeba.libfabric.objects.queues.deadlock import check_deadlock
from amoeba.libfabric.objects.queues.failures import failure_text, words_of
from amoeba.libfabric.objects.queues.gathering import Gathering
from amoeba.libfabric.objects.queues.kinds import CQ_FLAGS
from amoeba.libfabric.objects.queues.owner import QueueOwner
from amoeba.libfabric.objects.queues.wait_descriptor import HasDescriptor
from amoeba.libfabric.objects.queues.wait_set import WaitSet, by_descriptor, wait_set_of
from amoeba.transport.batches import BATCH_FAILURE
from amoeba.transport.requests import NEVER, Completion, Kind

__all__ = [
    "CompletionQueue",
    "CqDataEntry",
    "CqEntry",
    "CqErrEntry",
    "CqMsgEntry",
    "CqTaggedEntry",
]

_OK = int(ReturnCode.OK)
_NO_MATCH = int(ReturnCode.NO_MATCH)
_RECV = int(Caps.FI_RECV)
_MAIN = main_thread().ident
T = TypeVar("T")
_ALL = 1 << 16
"""More completions than any ring has."""


class CqEntry(NamedTuple):
    """FI_CQ_FORMAT_CONTEXT."""

    op_context: Any
    """``context`` of the operation."""


class CqMsgEntry(NamedTuple):
    """FI_CQ_FORMAT_MSG."""

    op_context: Any
    flags: int
    """Kind of the operation: Caps.FI_RMA or FI_ATOMIC, with FI_READ or FI_WRITE; FI_MSG or FI_TAGGED, with FI_SEND or
    FI_RECV (of a tagged atomic FI_TAGGED, FI_ATOMIC and FI_RECV); of a peer's operation FI_REMOTE_READ or
    FI_REMOTE_WRITE. FI_REMOTE_CQ_DATA: with data. FI_MULTI_RECV: the NIC has released the buffer."""
    len: int
    """Bytes transferred, or of the message. Of a peer's write or atomic all its bytes; of its reads those of the
    last packet; of a vector those of the last piece."""


class CqDataEntry(NamedTuple):
    """FI_CQ_FORMAT_DATA."""

    op_context: Any
    flags: int
    len: int
    buf: int
    """Address of a message in a buffer of FI_MULTI_RECV, or of FI_PEEK's copy; otherwise zero."""
    data: int
    """The peer's, if ``flags`` has FI_REMOTE_CQ_DATA."""


class CqTaggedEntry(NamedTuple):
    """FI_CQ_FORMAT_TAGGED."""

    op_context: Any
    flags: int
    len: int
    buf: int
    data: int
    tag: int


class _CqErrFields(NamedTuple):
    op_context: Any
    flags: int
    len: int
    buf: int
    data: int
    tag: int
    olen: int
    """Bytes that did not fit, for truncation."""
    err: Errno
    prov_errno: int
    """The NIC's return code: a :class:`amoeba_model.wire.uet.ReturnCode`."""
    err_data: bytes
    """Of a batch, its :attr:`failures`."""

    @property
    def failures(self) -> npt.NDArray[Any]:
        """An array of BATCH_FAILURE: the operations of a batch that failed, in their order. Else it is empty."""
        return np.frombuffer(self.err_data, BATCH_FAILURE)


class CqErrEntry(_CqErrFields):
    """``struct fi_cq_err_entry``: one failed operation."""

    peer: int = FI_ADDR_NOTAVAIL
    """The number of the peer it was sent to, which C's structure lacks; FI_ADDR_NOTAVAIL of a receive."""
    divided: bool = False
    """The operation took several packets, and any of them may have been done before one was refused.
    A batch took several operations; those not in :attr:`failures` have been done."""

    def error(self) -> FabricError:
        """Return the failure as an exception, which describes the operation, its peer, and the cause.

        A refusal of a :attr:`divided` operation is a PartialError.
        """
        text = failure_text(self.flags, self.len, self.peer, self.err, self.prov_errno)
        if len(self.failures):
            first = self.failures["index"][0]
            text = f"{len(self.failures)} operations of a batch failed, number {first} first; {text}"
        elif self.divided:
            text = f"{text}; of the {self.len} bytes anything from none to all may have been done"
        return completion_error(self.err, text, self.prov_errno, divided=self.divided)


Entry = CqEntry | CqMsgEntry | CqDataEntry | CqTaggedEntry
E = TypeVar("E", bound=Entry)

# several times as fast as CqEntry(...)
_make: Callable[[type[Any], tuple[Any, ...]], Any] = tuple.__new__
_MAKERS: dict[CqFormat, Callable[[Completion], Any]] = {
    CqFormat.FI_CQ_FORMAT_CONTEXT: lambda of: _make(CqEntry, (of.context,)),
    CqFormat.FI_CQ_FORMAT_MSG: lambda of: _make(CqMsgEntry, (of.context, CQ_FLAGS[of.kind], of.length)),
    CqFormat.FI_CQ_FORMAT_DATA: lambda of: _make(
        CqDataEntry, (of.context, CQ_FLAGS[of.kind], of.length, of.buf, of.data)
    ),
    CqFormat.FI_CQ_FORMAT_TAGGED: lambda of: _make(
        CqTaggedEntry, (of.context, CQ_FLAGS[of.kind], of.length, of.buf, of.data, of.tag)
    ),
}
"""Constructor of a queue's entries, by the queue's format."""


def _error_entry(failed: Completion, payload: int) -> CqErrEntry:
    """Make an error entry. ``payload``: the maximum bytes of a packet of the NIC."""
    flags, status = CQ_FLAGS[failed.kind], failed.status
    err = RETURN_CODE_ERRNO[ReturnCode(status)]
    if status == _NO_MATCH and flags & _RECV:
        err = Errno.FI_ENOMSG  # nothing was found; a tagged atomic without a receive is FI_ENORX
    entry = CqErrEntry(
        failed.context, flags, failed.length, failed.buf, failed.data, failed.tag, failed.olen, err, status,
        failed.err_data,
    )
    entry.peer = failed.dest_addr if failed.dest_addr >= 0 else FI_ADDR_NOTAVAIL
    # a compare atomic, which is of this kind, has its compare values in the packet, too
    most = payload // 2 if failed.kind == Kind.FETCH_ATOMIC else payload
    entry.divided = failed.pieces > 1 or failed.length > most
    return entry


class CompletionQueue(HasDescriptor, Gathering[E]):
    """Collects completions of the endpoints bound to it, and peers' operations, as ``fi_cq_open`` makes it.

    To type checkers it is generic in ``E``, the entries of its format: ``CompletionQueue[CqDataEntry]``.

    Unless progress is automatic, reading the queue drives it: descriptors held back by FI_MORE are
    announced, and a simulated NIC gets time to run. Entries of one endpoint to one peer come in order, and so do
    those of one peer.

    With FI_WAIT_FD the queue has a file descriptor to wait for. With automatic progress it is readable while there is
    an entry. Else entries are taken, and a simulated NIC runs, only while the queue is read. So the descriptor is
    readable as soon as operations are outstanding, until the last completion has been read. If the queue is bound to
    an endpoint with FI_RECV, it is always readable, as peers may have begun an operation.

    Parameters
    ----------
    cq_format : CqFormat
        The fields of entries.
    wait_obj : WaitObj
        The mechanism of :meth:`sread`: all but FI_WAIT_MUTEX_COND and FI_WAIT_POLLFD.
    wait_cond : CqWaitCond
        Whether :meth:`sread` waits for a number of entries.
    wait_set : WaitSet, optional
        The set to wait by, with FI_WAIT_SET.
    size : int
        Minimum number of entries. The queue holds any number, so the size has no effect.

    Raises FI_ENOSYS for other wait objects; FI_EINVAL for FI_WAIT_SET without a set of the same fabric, or a negative
    size.
    """

    def __init__(
        self,
        domain: QueueOwner,
        cq_format: CqFormat = CqFormat.FI_CQ_FORMAT_CONTEXT,
        wait_obj: WaitObj = WaitObj.FI_WAIT_UNSPEC,
        *,
        wait_cond: CqWaitCond = CqWaitCond.FI_CQ_COND_NONE,
        wait_set: WaitSet | None = None,
        size: int = 0,
    ) -> None:
        wait_set = wait_set_of("completion queues", wait_obj, wait_set, domain._parent)
        if size < 0:
            raise fabric_error(Errno.FI_EINVAL, f"a queue has space for 0 or more entries, got {size}")
        described = by_descriptor(wait_obj, wait_set)
        unspecified = cq_format is CqFormat.FI_CQ_FORMAT_UNSPEC
        self.format = CqFormat.FI_CQ_FORMAT_CONTEXT if unspecified else cq_format
        self._entry = _MAKERS[self.format]
        self.wait_obj = wait_obj
        self.wait_cond = wait_cond
        self._nic = domain.nic
        self._payload = domain.nic.parameters.payload
        self._device = domain.nic.device
        self._deferrals = domain._deferrals
        self._sources: list[CompletionSource] = []
        self._collected: deque[Completion] = deque()
        """Completions out of the rings, taken for others than readers, and not read yet."""
        self._errors: deque[Completion] = deque()
        self._in_hand: list[Completion] = []
        """Completions that the current call takes. After an interruption the next call finds them here."""
        self._given: tuple[object, Sequence[Completion]] | None = None
        """Result of the main thread's last call, and its completions; with automatic progress."""
        self._signalled = False
        self._lost = False
        """Whether automatic progress has found the device closed."""
        super().__init__(domain)
        if described:
            self._fd = WaitFd()
        if wait_set is not None:
            wait_set._adopt(self)
            wait_set._join(self)

    def read(self, count: int = 1) -> list[E]:
        """Take up to ``count`` entries; an empty queue gives an empty list (FI_EAGAIN of ``fi_cq_read``).

        Raises FI_EAVAIL while the next entry is an error: take it by :meth:`readerr`.
        """
        if type(count) is not int or count < 0:
            count = check_number("count", count)
        make = self._entry
        return self._give([make(completed) for completed in self._take(count)])

    def readfrom(self, count: int = 1) -> list[tuple[E, int]]:
        """Read as :meth:`read`, each entry with the number of the peer that caused it: ``fi_cq_readfrom``.

        The number is that in the endpoint's address vector; FI_ADDR_NOTAVAIL for this side's own operations, and for
        peers that the vector does not have.
        """
        taken = self._take(check_number("count", count))
        return self._give([(self._entry(completed), completed.source) for completed in taken])

    def sread(self, count: int = 1, timeout: float | None = None, cond: int | None = None) -> list[E]:
        """Read as :meth:`read`, but wait up to ``timeout`` seconds (None: without limit) for the first entry.

        A queue with FI_CQ_COND_THRESHOLD waits for ``cond`` entries, also if that is more than ``count``. An error or
        :meth:`signal` ends the wait early. Waiting sleeps until the NIC's interrupt. After the timeout, returns the
        available entries, perhaps none.

        Raises FI_ECANCELED after :meth:`signal`, and FI_ENOSYS for a queue of FI_WAIT_NONE. Raises FI_EINVAL for a
        ``cond`` that is no number of entries, or without FI_CQ_COND_THRESHOLD. Raises FI_EOPBADSTATE instead of
        waiting forever. That is the case without a timeout if no operation is outstanding, no peer may report an
        event, and no thread, signal handler or other process can end the wait.
        """
        return self._give([self._entry(completed) for completed in self._wait(count, timeout, cond)])

    def sreadfrom(
        self, count: int = 1, timeout: float | None = None, cond: int | None = None
    ) -> list[tuple[E, int]]:
        """Read as :meth:`sread`, with numbers of peers as :meth:`readfrom`: ``fi_cq_sreadfrom``."""
        taken = self._wait(count, timeout, cond)
        return self._give([(self._entry(completed), completed.source) for completed in taken])

    def signal(self) -> None:
        """End the :meth:`sread` of another thread, or else the next one that would wait: ``fi_cq_signal``.

        A file descriptor is readable until the queue is read. Completions that are there are read first.
        Raises FI_ENOSYS for a queue of FI_WAIT_NONE.
        """
        self._check_waiting()
        self._signalled = True
        if self._fd is not None:
            self._fd.set()

    def fileno(self) -> int:
        """Return the descriptor to wait for: FI_GETWAIT. Raises FI_ENOSYS without FI_WAIT_FD.

        Ask :meth:`amoeba.Fabric.trywait` before waiting for it, as fi_poll(3) demands.
        """
        self._check_open()
        if self._fd is None:
            raise fabric_error(Errno.FI_ENOSYS, "the completion queue was opened without FI_WAIT_FD")
        return self._fd.fileno()

    def readerr(self) -> CqErrEntry | None:
        """Take the oldest error entry; None without one (FI_EAGAIN of ``fi_cq_readerr``).

        Entries of operations that succeeded before stay in the queue. With nothing to read, this lets time
        pass as :meth:`read` does.
        """
        self._check_open()
        if not self._errors:
            self._look_for_error()
        if not self._errors:
            return None
        failed = self._errors[0]
        entry = _error_entry(failed, self._payload)
        if self._auto is not None:
            self._given = entry, (failed,)
            del self._errors[0]
            self._show()
            return entry
        # no call from here to the application's assignment
        del self._errors[0]
        return entry

    def _look_for_error(self) -> None:
        if self._in_hand:  # a call was interrupted
            uninterrupted(self._put_back)
        self._collect_error()
        if not (self._errors or self._readable):
            if self._auto is None:
                self._device.advance()
                self._collect_error()
            else:
                self._nic.check_open()
        if self._fd is not None:
            self._show()

    def _collect_error(self) -> None:
        """Move the oldest error to the errors, from a ring or from behind unread entries."""
        self._collect()
        if self._deferrals.live:
            self._deferrals.progress()
        uninterrupted(self._pick_error)

    def _pick_error(self) -> None:
        places: list[Any] = [self._collected, *(source.ready for source in self._sources)]
        for entries in places:
            for index, completed in enumerate(entries):
                if completed.status != _OK and completed.silent != NEVER:
                    self._errors.append(completed)
                    del entries[index]
                    return

    def strerror(self, prov_errno: int) -> str:
        """Describe the NIC's return code, such as ``bad mkey``; an unknown code is called unknown."""
        return words_of(check_number("prov_errno", prov_errno))

    def _give(self, entries: list[T]) -> list[T]:
        """Let go of completions in hand: from here to the application nothing can interrupt the entries.

        With automatic progress the lock is still to be released, and :meth:`_take_back` undoes this.
        """
        if self._auto is not None and get_ident() == _MAIN:
            self._given = entries, self._in_hand
        self._in_hand = []
        return entries

    def _take_back(self, result: object) -> None:
        given, self._given = self._given, None
        if given is not None and given[0] is result:
            for completed in reversed(given[1]):
                (self._collected if completed.status == _OK else self._errors).appendleft(completed)

    def _put_back(self, count: int = 0) -> None:
        """Leave all but the first ``count`` completions in hand for the next call."""
        self._collected.extendleft(reversed(self._in_hand[count:]))
        del self._in_hand[count:]

    def _take(self, count: int, *, more: bool = False) -> list[Completion]:
        """Take up to ``count`` completions into the hand. ``more``: besides those in hand."""
        self._check_open()
        if self._in_hand and not more:  # a call was interrupted
            uninterrupted(self._put_back)
        there = len(self._in_hand)
        count += there
        deferrals = self._deferrals
        taken = self._poll(count)
        if deferrals.live:
            deferrals.progress()
        if len(taken) == there and not self._errors:
            if self._auto is not None:
                self._nic.check_open()
            elif self._pass_time():
                taken = self._poll(count)
                if deferrals.live:
                    deferrals.progress()
        if self._fd is not None:
            if self._auto is not None:
                self._collect()
            self._show()
        if len(taken) == there and self._errors:
            failure = _error_entry(self._errors[0], self._payload).error()
            raise fabric_error(Errno.FI_EAVAIL, f"{failure.strerror}; readerr() takes its entry")
        return taken

    def _pass_time(self) -> bool:
        """Let a little time pass; return whether anything can have come: no time passes in a mere look for frames."""
        device = self._device
        if not device.stepped:
            device.advance()
            return True
        before = device.cycles
        device.advance()
        return device.cycles != before

    def _wait(self, count: int, timeout: float | None, cond: int | None) -> list[Completion]:
        self._check_waiting()
        count, timeout = check_number("count", count), check_timeout(timeout)
        cond = None if cond is None else check_number("cond", cond)
        if cond is not None and (cond < 0 or self.wait_cond is CqWaitCond.FI_CQ_COND_NONE):
            raise fabric_error(Errno.FI_EINVAL, f"{self.wait_cond.name} is not met by {cond!r}")
        least = max(cond or 1, 1)
        deadline = None if timeout is None else time.monotonic() + timeout
        if self._in_hand:  # a call was interrupted
            uninterrupted(self._put_back)
        while (there := len(self._in_hand)) < least:
            try:
                self._take(max(count, least) - there, more=True)
            except ErrorAvailableError:
                if not self._in_hand:
                    raise
                break
            if len(self._in_hand) > there:
                continue
            if self._signalled:
                self._signalled = False
                if self._in_hand:
                    break
                raise fabric_error(Errno.FI_ECANCELED, "signal() ended the wait")
            remaining = None if deadline is None else deadline - time.monotonic()
            if remaining is not None and remaining <= 0:
                break
            if self._auto is not None:
                self._auto.wait_for(lambda: self._closed or self._signalled or self._readable, remaining)
            else:
                if remaining is None and not (there or self._wants_reading):
                    check_deadlock(self._device)
                self._rest(WAIT_SLICE if remaining is None else min(remaining, WAIT_SLICE))
        if len(self._in_hand) > count:
            uninterrupted(self._put_back, count)
            self._show()
        return self._in_hand

    def _rest(self, seconds: float) -> None:
        """Sleep until there may be an entry to read, at most the given seconds."""
        self._arm()
        self._deferrals.arm()
        self._device.wait(seconds)

    def _poll(self, count: int) -> list[Completion]:
        """Take entries from all sources in rotation until ``count`` are in hand; stop behind an error."""
        hand, errors = self._in_hand, self._errors
        if self._collected:
            uninterrupted(self._sort_collected, count)
        for source in self._sources:
            source.announce()
            while (there := len(hand)) < count and not errors:
                source.poll(count - there, hand)
                if len(hand) == there:
                    break
                # a source gives no completion behind one that has failed
                last = hand[-1]
                if last.status != _OK:
                    # no call from here ...
                    if last.silent != NEVER:
                        errors += (last,)
                    del hand[-1]
                    # ... to here
                hand[there:] = [completed for completed in hand[there:] if not completed.silent]
        if len(self._sources) > 1:  # let every source be first in turn
            self._sources = [*self._sources[1:], self._sources[0]]
        return hand

    def _sort_collected(self, count: int) -> None:
        while self._collected and len(self._in_hand) < count and not self._errors:
            self._sort(self._collected.popleft(), self._in_hand)

    def _sort(self, completed: Completion, entries: list[Completion]) -> None:
        """Put reported successes to the entries, and failures to the errors."""
        if completed.status != _OK:
            if completed.silent != NEVER:
                self._errors.append(completed)
        elif not completed.silent:
            entries.append(completed)

    def _attach(self, source: CompletionSource) -> None:
        """Take an enabled endpoint's completions, or its peers' events."""
        self._sources.append(source)
        if self._fd is not None and self._auto is None:
            source.tell_doorbells(self._fd.set)
            self._show()

    def _detach(self, source: CompletionSource) -> None:
        if source in self._sources:  # a queue that is closed has none
            self._sources.remove(source)

    def _collect(self) -> None:
        """Take all completions out of the rings now, for counters; those to be reported wait here.

        Peers' events stay in their rings: unread events hold peers back.
        With manual progress one entry is taken if there is nothing else to read.
        """
        for source in self._sources:
            source.announce()
            source.progress()
        uninterrupted(self._collect_now)

    def _collect_now(self) -> None:
        for source in self._sources:
            taken: list[Completion] = []
            if not source.limited:
                there = -1
                while there < (there := len(taken)):
                    source.poll(_ALL, taken)
                self._collected += (each for each in taken if each.status != _OK or not each.silent)
            elif not self._collected and self._auto is None:
                source.poll(1, self._collected)  # type: ignore[arg-type]

    def _report(self, completed: Completion) -> None:
        """Report a request that was never in a ring."""
        self._collected.append(completed)
        if self._fd is not None:
            self._fd.set()

    def _arm(self) -> None:
        """Ask for an interrupt at the next completion of any source."""
        for source in self._sources:
            source.arm()

    def _attend(self) -> bool:
        """Take completions, so that the rings have free space and waiting threads proceed."""
        try:
            self._nic.check_open()
        except DeviceClosedError:  # for a reader to report
            self._lost = True
            return False
        self._collect()
        if self._fd is not None and self._readable:
            self._fd.set()
        return any(source.outstanding for source in self._sources)

    @property
    def _readable(self) -> bool:
        return bool(self._collected or self._errors or self._lost) or any(source.ready for source in self._sources)

    @property
    def _wants_reading(self) -> bool:
        return self._readable or any(source.expectant for source in self._sources) or self._deferrals.expects(self)

    def _may_wait(self) -> bool:
        self._check_open()
        self._collect()
        self._deferrals.progress()
        self._show()
        return not self._readable

    def _check_waiting(self) -> None:
        self._check_open()
        if self.wait_obj is WaitObj.FI_WAIT_NONE:
            raise fabric_error(Errno.FI_ENOSYS, "the completion queue was opened with FI_WAIT_NONE")

    def _failure(self, completed: Completion) -> FabricError:
        return _error_entry(completed, self._payload).error()

    def _release(self) -> None:
        self._sources.clear()
        self._collected.clear()
        self._errors.clear()
        self._close_descriptor()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"of {len(self._sources)} rings"
        return f"<CompletionQueue {self.format.name} {state}>"
