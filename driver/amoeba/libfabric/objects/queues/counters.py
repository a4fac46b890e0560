"""Counters: numbers of completed operations, without details. fi_cntr(3)."""

import time
import weakref
from typing import TYPE_CHECKING, Any

from amoeba_model.wire.uet import ReturnCode

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.core.waiting import WAIT_SLICE, WaitFd
from amoeba.libfabric.objects.checks import check_enum, check_flags, check_number, check_timeout
from amoeba.libfabric.objects.constants import BindFlags, WaitObj
from amoeba.libfabric.objects.queues.deadlock import check_deadlock
from amoeba.libfabric.objects.queues.kinds import COUNTER_OF, KINDS_OF
from amoeba.libfabric.objects.queues.owner import QueueOwner
from amoeba.libfabric.objects.queues.wait_descriptor import HasDescriptor
from amoeba.libfabric.objects.queues.wait_set import WaitSet, by_descriptor, wait_set_of
from amoeba.transport.requests import Tally
from amoeba.transport.transmit_rings import TransmitRings

if TYPE_CHECKING:
    from amoeba.libfabric.objects.queues.completion import CompletionQueue

__all__ = ["Counter", "Counters"]

_OK = int(ReturnCode.OK)
_U64 = 2**64 - 1
_LOCAL = (BindFlags.FI_READ, BindFlags.FI_WRITE, BindFlags.FI_SEND, BindFlags.FI_RECV)
_REMOTE = (BindFlags.FI_REMOTE_READ, BindFlags.FI_REMOTE_WRITE)
_KINDS = BindFlags(sum(_LOCAL + _REMOTE))


class Counter(HasDescriptor):
    """Counts operations of the endpoints, or on the memory regions, bound to it, as ``fi_cntr_open`` makes it.

    Bound with FI_READ it counts reads, fetching and comparing atomics; with FI_WRITE writes and base atomics; with
    FI_SEND and FI_RECV messages; with FI_REMOTE_READ and FI_REMOTE_WRITE peers' accesses to this side's memory. One
    number counts successes, another failures. Both are modulo 2**64.

    The NIC counts in host memory. The driver adds events that only the driver knows, such as long messages. If the
    NIC has no counter left, the driver counts all operations of this side.

    Reading a counter drives manual progress, as reading a completion queue does. The endpoint's completion queue
    keeps the entries that this takes; bind an unread queue with FI_SELECTIVE_COMPLETION.

    ``wait_obj`` and ``wait_set`` are as those of a :class:`amoeba.CompletionQueue`.
    """

    def __init__(
        self, domain: QueueOwner, wait_obj: WaitObj = WaitObj.FI_WAIT_UNSPEC, wait_set: WaitSet | None = None
    ) -> None:
        wait_obj = check_enum(WaitObj, wait_obj, "wait_obj")
        wait_set = wait_set_of("counters", wait_obj, wait_set, domain._parent)
        described = by_descriptor(wait_obj, wait_set)
        self.wait_obj = wait_obj
        self._nic = domain.nic
        self._device = domain.nic.device
        self._deferrals = domain._deferrals
        self._queues: weakref.WeakSet[CompletionQueue[Any]] = weakref.WeakSet()
        self._rings: weakref.WeakSet[TransmitRings] = weakref.WeakSet()
        self._works = 0
        """Number of outstanding pieces of deferred work that this counts."""
        self._value = 0
        """Counts of the driver; the NIC's are to be added."""
        self._errors = 0
        """Likewise."""
        self._miscounted = [0, 0]
        """Successes and errors that the NIC counts, or is about to count, wrongly."""
        self._notified_of_peers = False
        """Whether peers may begin a counted operation at any time."""
        self._heeding = described
        """Whether it must observe doorbells: there is a descriptor, or an operation waits for this counter."""
        self._seen = 0, 0
        """Both values at the last read."""
        self._known_errors = 0
        """Errors that the application has read, set or got by an exception."""
        self._number = 0
        """The NIC's event counter; 0: none was left."""
        super().__init__(domain)
        self._number = domain.nic.event_counters.take(domain.number)
        self._without = "" if self._number else domain.nic.event_counters.refusal(domain.number)
        """Why the NIC has no counter for it."""
        if described:
            self._fd = WaitFd()
        if wait_set is not None:
            wait_set._adopt(self)
            wait_set._join(self)

    @property
    def _sums(self) -> tuple[int, int]:
        """(successes, errors), the NIC's and the driver's together."""
        successes, errors = self._nic.event_counters.value(self._number) if self._number else (0, 0)
        no_successes, no_errors = self._miscounted
        # the NIC may not have written yet what it is known to have miscounted
        value, error_value = self._value + max(successes - no_successes, 0), self._errors + max(errors - no_errors, 0)
        return value & _U64, error_value & _U64

    def read(self) -> int:
        """Operations that succeeded: ``fi_cntr_read``."""
        self._progress()
        value = self._sums[0]
        self._seen = value, self._seen[1]
        self._show()
        return value

    def readerr(self) -> int:
        """Operations that failed: ``fi_cntr_readerr``."""
        self._progress()
        errors = self._sums[1]
        self._seen = self._seen[0], errors
        self._known_errors = errors
        self._show()
        return errors

    def add(self, value: int) -> None:
        """Count ``value`` more successes: ``fi_cntr_add``."""
        self._value = (self._value + self._check("value", value)) & _U64
        self._changed()

    def adderr(self, value: int) -> None:
        """Count ``value`` more failures: ``fi_cntr_adderr``."""
        value = self._check("value", value)
        self._errors = (self._errors + value) & _U64
        self._known_errors = (self._known_errors + value) & _U64
        self._changed()

    def set(self, value: int) -> None:
        """Begin again at ``value`` successes: ``fi_cntr_set``."""
        value = self._check("value", value)
        self._value = (self._value + value - self._sums[0]) & _U64
        self._changed()

    def seterr(self, value: int) -> None:
        """Begin again at ``value`` failures: ``fi_cntr_seterr``."""
        value = self._check("value", value)
        self._errors = (self._errors + value - self._sums[1]) & _U64
        self._known_errors = value
        self._changed()

    def wait(self, threshold: int, timeout: float | None = None) -> None:
        """Wait until at least ``threshold`` operations have succeeded: ``fi_cntr_wait``.

        Raises FI_EAVAIL if an operation fails meanwhile. With automatic progress, and where the NIC runs by itself,
        that includes earlier failures that neither :meth:`readerr` nor this has reported yet. Raises FI_ETIMEDOUT
        after ``timeout`` seconds (None: without limit), and FI_ENOSYS for a counter of FI_WAIT_NONE. Raises
        FI_EOPBADSTATE instead of waiting forever, as :meth:`amoeba.CompletionQueue.sread`.
        """
        threshold = self._check("threshold", threshold)
        if self.wait_obj is WaitObj.FI_WAIT_NONE:
            raise fabric_error(Errno.FI_ENOSYS, "the counter was opened with FI_WAIT_NONE")
        timeout = check_timeout(timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        errors = self.expected_errors
        # peers' operations cause no interrupt
        most = WAIT_SLICE / 50 if self._notified_of_peers else WAIT_SLICE
        while (value := self.read()) < threshold:
            if self._sums[1] != errors:
                self._known_errors = self._sums[1]
                raise fabric_error(Errno.FI_EAVAIL, f"an operation failed, {value} of {threshold} are done")
            remaining = None if deadline is None else deadline - time.monotonic()
            if remaining is not None and remaining <= 0:
                raise fabric_error(Errno.FI_ETIMEDOUT, f"{value} of {threshold} operations are done")
            if self._auto is not None:
                self._auto.wait_for(lambda: self._closed or self._has_reached(threshold, errors), remaining)
            else:
                if remaining is None and not self._wants_reading:
                    check_deadlock(self._device)
                self._rest(most if remaining is None else min(remaining, most))

    def _rest(self, seconds: float) -> None:
        """Sleep until a value may have changed, at most the given seconds."""
        for queue in self._queues:
            queue._arm()
        self._deferrals.arm()
        self._device.wait(seconds)

    @property
    def expected_errors(self) -> int:
        """Number of errors that the application knows.

        Where the NIC runs between the application's calls, an error can come before the wait for its operation.
        """
        runs_between_calls = self._auto is not None or not self._device.stepped
        return self._known_errors if runs_between_calls else self._sums[1]

    def _has_reached(self, threshold: int, errors: int) -> bool:
        """Return whether there are this many successes, or another number of errors."""
        sums = self._sums
        return sums[0] >= threshold or sums[1] != errors

    def fileno(self) -> int:
        """Return the descriptor to wait for: FI_GETWAIT. Raises FI_ENOSYS without FI_WAIT_FD.

        The descriptor is readable when the values have changed since the last read. With manual progress it is also
        readable while reading may change them: counted operations are outstanding, or those that deferred work waits
        for. A counter of peers' operations is always readable.
        """
        self._check_open()
        if self._fd is None:
            raise fabric_error(Errno.FI_ENOSYS, "the counter was opened without FI_WAIT_FD")
        return self._fd.fileno()

    def _attach(self, rings: TransmitRings, queue: "CompletionQueue[Any]") -> None:
        """Count the completions of these rings, which ``queue`` takes."""
        self._queues.add(queue)
        self._rings.add(rings)
        if self._heeding and self._auto is None:
            rings.tell_doorbells(self._begun)

    def _attach_receives(self, queue: "CompletionQueue[Any]") -> None:
        """Count the receives that end in ``queue``."""
        self._queues.add(queue)
        self._notified_of_peers = True
        self._begun()

    def _heed(self) -> None:
        """Observe doorbells for an operation that waits for this counter."""
        if not self._heeding and self._auto is None:
            self._heeding = True
            for rings in self._rings:
                rings.tell_doorbells(self._begun)

    def _begun(self) -> None:
        """Note that a counted operation has begun."""
        self._show()
        self._deferrals.kick()

    def _expect(self, works: int) -> None:
        """Expect ``works`` more outstanding pieces of deferred work."""
        self._works += works
        self._begun()

    @property
    def _active(self) -> bool:
        """Whether a counted operation is outstanding, or may be, because peers begin it."""
        busy = any(rings.outstanding or rings.held for rings in self._rings)
        return busy or self._works > 0 or self._notified_of_peers

    @property
    def _readable(self) -> bool:
        """Whether the values have changed since the last read."""
        return self._sums != self._seen

    @property
    def _wants_reading(self) -> bool:
        """Whether the values have changed, or may change if the counter is read often enough."""
        return self._active or self._readable or self._deferrals.expects(self)

    def _attend(self) -> bool:
        """Look for changes that the NIC may have made."""
        self._show()
        return False

    def _arm(self) -> bool:
        return not self._notified_of_peers

    def _may_wait(self) -> bool:
        self._check_open()
        self._collect()
        self._show()
        return self._sums == self._seen

    def _changed(self) -> None:
        """Act on a value that the application has changed."""
        self._show()
        self._deferrals.run()

    def _check(self, name: str, value: int) -> int:
        self._check_open()
        return check_number(name, value)

    def _progress(self) -> None:
        """Take completions; let time pass if that changes nothing."""
        self._check_open()
        before = self._sums
        self._collect()
        if self._sums == before and self._auto is None:
            self._device.advance()
            self._collect()

    def _collect(self) -> None:
        for queue in self._queues:
            queue._collect()
        if self._deferrals.live:
            self._deferrals.progress()

    def _count(self, status: int, times: int = 1) -> None:
        if status == _OK:
            self._value = (self._value + times) & _U64
        else:
            self._errors = (self._errors + times) & _U64
        self._show()

    def _uncount(self, status: int) -> None:
        """Compensate for an operation with this status that the NIC counts wrongly."""
        self._miscounted[status != _OK] += 1
        self._show()

    def _count_peers(self) -> None:
        """Let the NIC count peers' operations. Raises FI_ENOSPC if the NIC has no counter left."""
        if not self._number:
            raise fabric_error(Errno.FI_ENOSPC, f"{self._without}: only the NIC sees peers")
        self._notified_of_peers = True
        self._begun()

    def _release(self) -> None:
        for deferral in self._deferrals.withdraw(lambda each: each.counter is self):
            deferral.fail()
        self._queues.clear()
        if self._number:
            self._nic.event_counters.release(self._number)
        self._rings.clear()
        self._close_descriptor()

    def __repr__(self) -> str:
        if self.closed:
            return "<Counter closed>"
        value, errors = self._sums
        return f"<Counter {value} done, {errors} failed>"


class Counters:
    """The counters of one endpoint, or memory region, by what they count."""

    def __init__(self) -> None:
        self._counters: dict[int, Counter] = {}
        """By kind: the bit of BindFlags, which an operation of this side has in ``flags`` of its completion."""

    def bind(self, counter: Counter, flags: BindFlags) -> None:
        """Count by ``counter`` the kinds of operations in ``flags``.

        Raises FI_EBADFLAGS for no kind or an unknown one, FI_EINVAL if another counter has that kind. Raises
        FI_ENOSPC for peers' operations if the counter is not the NIC's.
        """
        flags = check_flags(BindFlags, flags)
        kinds = [kind for kind in _LOCAL + _REMOTE if kind in flags]
        if not kinds or flags & ~_KINDS:
            raise fabric_error(Errno.FI_EBADFLAGS, f"a counter counts some of {_KINDS!r}, got {flags!r}")
        for kind in kinds:
            if kind in self._counters:
                raise fabric_error(Errno.FI_EINVAL, f"a counter for {kind!r} is bound already")
        if any(kind in _REMOTE for kind in kinds):
            counter._count_peers()
        for kind in kinds:
            self._counters[kind] = counter

    def has(self, kind: int) -> bool:
        """Whether a counter for this kind is bound."""
        return kind in self._counters

    def number(self, kind: int) -> int:
        """Return the NIC's event counter for the operations of this bit; 0: none."""
        counter = self._counters.get(kind)
        return 0 if counter is None else counter._number

    @property
    def tally(self) -> Tally | None:
        """:meth:`count`, if there is anything to be counted by."""
        return self.count if self._counters else None

    def start(
        self, rings: TransmitRings, queue: "CompletionQueue[Any]", receive_queue: "CompletionQueue[Any] | None" = None
    ) -> None:
        """Count operations that end in an endpoint's rings, taken by ``queue``; receives end in the other queue."""
        rings.tally = self.tally
        self.start_receiving(receive_queue)
        for kind, counter in self._counters.items():
            if kind in _LOCAL and kind != BindFlags.FI_RECV:
                counter._attach(rings, queue)
                for each in KINDS_OF[BindFlags(kind)]:
                    rings.count_by(each, counter._number)

    def check_receiving(self, queue: "CompletionQueue[Any] | None") -> None:
        """Raise FI_ENOCQ if receives are counted and there is no queue that reports their errors."""
        if queue is None and self.has(BindFlags.FI_RECV):
            raise fabric_error(Errno.FI_ENOCQ, "bind a completion queue with FI_RECV, too, before counting receives")

    def start_receiving(self, queue: "CompletionQueue[Any] | None") -> None:
        """Count receives, which end in this queue; without a queue there can be no receives."""
        counter = self._counters.get(BindFlags.FI_RECV)
        if counter is not None and queue is not None:
            counter._attach_receives(queue)

    def count(self, kind: int, status: int, told: int | None, times: int = 1) -> None:
        """Count operations that have ended. ``told``: the status that the NIC has counted, None if it has not."""
        counter = self._counters.get(COUNTER_OF[kind])
        if counter is None:
            return
        if told is None or not counter._number:
            counter._count(status, times)
        elif (told == _OK) != (status == _OK):  # the end of a chain, of which another piece was refused
            counter._uncount(told)
            counter._count(status)

    def uncount_read(self) -> None:
        """Compensate for a peer's read of a message, which the NIC counts as a read of the peer's own."""
        counter = self._counters.get(BindFlags.FI_REMOTE_READ)
        if counter is not None:
            counter._uncount(_OK)
