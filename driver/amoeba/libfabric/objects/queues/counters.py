"""Counters: how many operations are done, without saying which. fi_cntr(3)."""

import time
import weakref
from typing import TYPE_CHECKING, Any

from amoeba_model.wire.uet import ReturnCode

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.core.waiting import WAIT_SLICE, WaitFd
from amoeba.libfabric.objects.checks import check_enum, check_flags, check_number, check_timeout
from amoeba.libfabric.objects.constants import BindFlags, WaitObj
from amoeba.libfabric.objects.queues.company import check_company
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
    FI_SEND and FI_RECV messages; with FI_REMOTE_READ and FI_REMOTE_WRITE what peers do to this side's memory. Those
    that end well are counted in one number, those that fail in another. Both are modulo 2**64.

    The NIC counts, in host memory; the driver adds what only it knows, such as long messages, and everything of this
    side if the NIC has no counter left.

    Reading a counter drives manual progress, as reading a completion queue does. Entries that it meets stay in the
    completion queue of the endpoint; bind that with FI_SELECTIVE_COMPLETION if nobody reads it.

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
        """Deferred work under way that this counts."""
        self._value = 0
        """Of the driver; the NIC's is to be added."""
        self._errors = 0
        """Likewise."""
        self._miscounted = [0, 0]
        """Successes and errors that the NIC counts, or is about to, and that are none."""
        self._hears_of_peers = False
        """They may begin something that counts at any time."""
        self._heeding = described
        """It must hear of doorbells: there is a descriptor, or something waits for this counter."""
        self._seen = 0, 0
        """Both as they were read last."""
        self._known_errors = 0
        """Those that the application has read, made or been told of."""
        self._number = 0
        """The NIC's event counter; 0: none was left."""
        super().__init__(domain)
        self._number = domain.nic.event_counters.take(domain.number)
        self._without = "" if self._number else domain.nic.event_counters.refusal(domain.number)
        """Why it has none."""
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

        Raises FI_EAVAIL if one fails meanwhile (with automatic progress also for one that has failed before, of which
        neither :meth:`readerr` nor this has told yet), FI_ETIMEDOUT after ``timeout`` seconds (None: without limit),
        FI_ENOSYS for a counter of FI_WAIT_NONE, FI_EOPBADSTATE instead of waiting for ever: as
        :meth:`amoeba.CompletionQueue.sread`.
        """
        threshold = self._check("threshold", threshold)
        if self.wait_obj is WaitObj.FI_WAIT_NONE:
            raise fabric_error(Errno.FI_ENOSYS, "the counter was opened with FI_WAIT_NONE")
        timeout = check_timeout(timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        errors = self.expected_errors
        # no interrupt tells of what peers did
        most = WAIT_SLICE / 50 if self._hears_of_peers else WAIT_SLICE
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
                    check_company(self._device)
                self._rest(most if remaining is None else min(remaining, most))

    def _rest(self, seconds: float) -> None:
        """Sleep until a value may have changed, at most so long."""
        for queue in self._queues:
            queue._arm()
        self._deferrals.arm()
        self._device.wait(seconds)

    @property
    def expected_errors(self) -> int:
        """How many errors are no news to the application."""
        return self._sums[1] if self._auto is None else self._known_errors

    def _has_reached(self, threshold: int, errors: int) -> bool:
        """Whether there are so many successes, or another number of errors."""
        sums = self._sums
        return sums[0] >= threshold or sums[1] != errors

    def fileno(self) -> int:
        """The descriptor to wait for: FI_GETWAIT. Raises FI_ENOSYS without FI_WAIT_FD.

        It is readable when the values are not those that were read last. With manual progress also when they may
        change if the counter is read often enough: because operations that it counts are under way, or those that
        such work waits for, or always if it counts what peers begin.
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
        self._hears_of_peers = True
        self._begun()

    def _heed(self) -> None:
        """Something waits for this counter: let it be known when operations begin that are counted."""
        if not self._heeding and self._auto is None:
            self._heeding = True
            for rings in self._rings:
                rings.tell_doorbells(self._begun)

    def _begun(self) -> None:
        """Something has begun that is counted."""
        self._show()
        self._deferrals.stir()

    def _expect(self, works: int) -> None:
        """So many more pieces of deferred work are under way."""
        self._works += works
        self._begun()

    @property
    def _active(self) -> bool:
        """Whether something is under way that is counted, or may be, because peers begin it."""
        busy = any(rings.under_way or rings.held for rings in self._rings)
        return busy or self._works > 0 or self._hears_of_peers

    @property
    def _readable(self) -> bool:
        """Whether the values are not those that were read last."""
        return self._sums != self._seen

    @property
    def _wants_reading(self) -> bool:
        """Whether they are not, or may change if the counter is read often enough."""
        return self._active or self._readable or self._deferrals.expects(self)

    def _attend(self) -> bool:
        """The NIC may have counted."""
        self._show()
        return False

    def _arm(self) -> bool:
        return not self._hears_of_peers

    def _may_wait(self) -> bool:
        self._check_open()
        self._collect()
        self._show()
        return self._sums == self._seen

    def _changed(self) -> None:
        """The application has changed a value."""
        self._show()
        self._deferrals.run()

    def _check(self, name: str, value: int) -> int:
        self._check_open()
        return check_number(name, value)

    def _progress(self) -> None:
        """Take completions; let time pass if there are none."""
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
        """The NIC counts an operation with this status, and should not."""
        self._miscounted[status != _OK] += 1
        self._show()

    def _count_peers(self) -> None:
        """Let the NIC count what peers do. Raises FI_ENOSPC if it has no counter left."""
        if not self._number:
            raise fabric_error(Errno.FI_ENOSPC, f"{self._without}: only the NIC sees peers")
        self._hears_of_peers = True
        self._begun()

    def _release(self) -> None:
        for deferral in self._deferrals.withdraw(lambda each: each.counter is self):
            deferral.fail()
        self._queues.clear()
        if self._number:
            self._nic.event_counters.give_back(self._number)
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
        """Count by ``counter`` what ``flags`` say.

        Raises FI_EBADFLAGS for nothing and for what is not counted, FI_EINVAL if another counter has that kind,
        FI_ENOSPC if peers' operations are to be counted by a counter that is not the NIC's.
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
        """The NIC's event counter for what has this bit; 0: none."""
        counter = self._counters.get(kind)
        return 0 if counter is None else counter._number

    @property
    def tally(self) -> Tally | None:
        """:meth:`count`, if there is anything to be counted by."""
        return self.count if self._counters else None

    def start(
        self, rings: TransmitRings, queue: "CompletionQueue[Any]", receive_queue: "CompletionQueue[Any] | None" = None
    ) -> None:
        """Count what ends in an enabled endpoint's rings, which ``queue`` takes; receives end in the other queue."""
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
        """Count receives, which end in this queue; without one there are none."""
        counter = self._counters.get(BindFlags.FI_RECV)
        if counter is not None and queue is not None:
            counter._attach_receives(queue)

    def count(self, kind: int, status: int, told: int | None, times: int = 1) -> None:
        """Count what has ended, so many ``times``. ``told``: with what status the NIC has counted it, None if not."""
        counter = self._counters.get(COUNTER_OF[kind])
        if counter is None:
            return
        if told is None or not counter._number:
            counter._count(status, times)
        elif (told == _OK) != (status == _OK):  # the end of a chain, of which another piece was refused
            counter._uncount(told)
            counter._count(status)

    def uncount_read(self) -> None:
        """A peer has read a message, which the NIC took for a read of its own."""
        counter = self._counters.get(BindFlags.FI_REMOTE_READ)
        if counter is not None:
            counter._uncount(_OK)
