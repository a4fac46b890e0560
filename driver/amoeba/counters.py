"""Counters: how many operations are done, without saying which. fi_cntr(3)."""

import time
import weakref
from typing import TYPE_CHECKING

from amoeba_model.network import SimulatedDevice
from amoeba_model.wire.uet import ReturnCode

from amoeba.constants import BindFlags, Errno, WaitObj
from amoeba.errors import fabric_error
from amoeba.lifetime import FabricObject
from amoeba.rings import Completed
from amoeba.sharing import TransmitRings
from amoeba.waiting import WAIT_OBJECTS, WAIT_SLICE, WaitFd

if TYPE_CHECKING:
    from amoeba.completion import CompletionQueue
    from amoeba.domain import Domain

__all__ = ["Counter", "EndpointCounters"]

_OK = int(ReturnCode.OK)
_U64 = 2**64 - 1
_COUNTED = BindFlags.FI_READ | BindFlags.FI_WRITE


class Counter(FabricObject):
    """Counts the operations of the endpoints bound to it, as ``fi_cntr_open`` makes it.

    Bound with FI_READ it counts reads, fetching and comparing atomics; with FI_WRITE writes and base atomics;
    those that end well in one number, those that fail in another. Both are modulo 2**64.

    Reading a counter drives progress, as reading a completion queue does. Entries that it meets stay in the
    completion queue of the endpoint; bind that with FI_SELECTIVE_COMPLETION if nobody reads it.
    """

    def __init__(self, domain: "Domain", wait_obj: WaitObj = WaitObj.FI_WAIT_UNSPEC) -> None:
        if wait_obj not in WAIT_OBJECTS:
            raise fabric_error(Errno.FI_ENOSYS, f"counters do not wait by {wait_obj!r}")
        if wait_obj is WaitObj.FI_WAIT_FD and not isinstance(domain.nic.device, SimulatedDevice):
            raise fabric_error(Errno.FI_ENOSYS, f"{domain.nic.device.name} has no descriptor to wait for")
        self.wait_obj = wait_obj
        self._device = domain.nic.device
        self._deferrals = domain._deferrals
        self._queues: weakref.WeakSet[CompletionQueue] = weakref.WeakSet()
        self._rings: weakref.WeakSet[TransmitRings] = weakref.WeakSet()
        self._works = 0
        """Deferred work under way that this counts."""
        self._value = 0
        self._errors = 0
        self._seen = 0, 0
        """Both as they were read last."""
        self._fd: WaitFd | None = None
        super().__init__(domain)
        if wait_obj is WaitObj.FI_WAIT_FD:
            self._fd = WaitFd()

    def read(self) -> int:
        """Operations that succeeded: ``fi_cntr_read``."""
        self._progress()
        self._seen = self._value, self._seen[1]
        self._tell()
        return self._value

    def readerr(self) -> int:
        """Operations that failed: ``fi_cntr_readerr``."""
        self._progress()
        self._seen = self._seen[0], self._errors
        self._tell()
        return self._errors

    def add(self, value: int) -> None:
        """Count ``value`` more successes: ``fi_cntr_add``."""
        self._check(value)
        self._value = (self._value + value) & _U64
        self._changed()

    def adderr(self, value: int) -> None:
        """Count ``value`` more failures: ``fi_cntr_adderr``."""
        self._check(value)
        self._errors = (self._errors + value) & _U64
        self._changed()

    def set(self, value: int) -> None:
        """Begin again at ``value`` successes: ``fi_cntr_set``."""
        self._check(value)
        self._value = value
        self._changed()

    def seterr(self, value: int) -> None:
        """Begin again at ``value`` failures: ``fi_cntr_seterr``."""
        self._check(value)
        self._errors = value
        self._changed()

    def wait(self, threshold: int, timeout: float | None = None) -> None:
        """Wait until at least ``threshold`` operations have succeeded: ``fi_cntr_wait``.

        Raises FI_EAVAIL if one fails meanwhile, FI_ETIMEDOUT after ``timeout`` seconds (None: without limit),
        FI_ENOSYS for a counter of FI_WAIT_NONE.
        """
        self._check(threshold)
        if self.wait_obj is WaitObj.FI_WAIT_NONE:
            raise fabric_error(Errno.FI_ENOSYS, "the counter was opened with FI_WAIT_NONE")
        deadline = None if timeout is None else time.monotonic() + timeout
        errors = self._errors
        while self.read() < threshold:
            if self._errors != errors:
                raise fabric_error(Errno.FI_EAVAIL, f"an operation failed, {self._value} of {threshold} are done")
            remaining = WAIT_SLICE if deadline is None else deadline - time.monotonic()
            if remaining <= 0:
                raise fabric_error(Errno.FI_ETIMEDOUT, f"{self._value} of {threshold} operations are done")
            for queue in self._queues:
                queue._arm()
            self._deferrals.arm()
            self._device.wait(min(remaining, WAIT_SLICE))

    def fileno(self) -> int:
        """The descriptor to wait for: FI_GETWAIT. Raises FI_ENOSYS without FI_WAIT_FD.

        It is readable when the values are not those that were read last, or may change if the counter is read often
        enough, because operations that it counts are under way.
        """
        self._check_open()
        if self._fd is None:
            raise fabric_error(Errno.FI_ENOSYS, "the counter was opened without FI_WAIT_FD")
        return self._fd.fileno()

    def _attach(self, rings: TransmitRings, queue: "CompletionQueue") -> None:
        """Count the completions of these rings, which ``queue`` takes."""
        self._queues.add(queue)
        self._rings.add(rings)
        if self._fd is not None:
            rings.tell_doorbells(self._fd.set)

    def _expect(self, works: int) -> None:
        """So many more pieces of deferred work are under way."""
        self._works += works
        self._tell()

    def _tell(self) -> None:
        """Make the descriptor say what is there."""
        if self._fd is not None:
            unread = (self._value, self._errors) != self._seen
            self._fd.set(unread or self._works > 0 or any(rings.under_way for rings in self._rings))

    def _may_wait(self) -> bool:
        self._check_open()
        self._collect()
        self._tell()
        return (self._value, self._errors) == self._seen

    def _changed(self) -> None:
        """The application has changed a value."""
        self._tell()
        self._deferrals.run()

    def _check(self, value: int) -> None:
        self._check_open()
        if not 0 <= value <= _U64:
            raise fabric_error(Errno.FI_EINVAL, f"a counter has 64 bits, got {value}")

    def _progress(self) -> None:
        """Take completions; let time pass if there are none."""
        self._check_open()
        before = self._value, self._errors
        self._collect()
        if (self._value, self._errors) == before:
            self._device.advance()
            self._collect()

    def _collect(self) -> None:
        for queue in self._queues:
            queue._collect()
        if self._deferrals.active:
            self._deferrals.progress()

    def _count(self, status: int) -> None:
        if status == _OK:
            self._value = (self._value + 1) & _U64
        else:
            self._errors = (self._errors + 1) & _U64
        self._tell()

    def _release(self) -> None:
        for deferral in self._deferrals.withdraw(lambda each: each.counter is self):
            deferral.fail()
        self._queues.clear()
        self._rings.clear()
        if self._fd is not None:
            self._fd.close()
            self._fd = None

    def __repr__(self) -> str:
        return f"<Counter {'closed' if self.closed else f'{self._value} done, {self._errors} failed'}>"


class EndpointCounters:
    """The counters of one endpoint, by what they count."""

    def __init__(self) -> None:
        self._counters: dict[int, Counter] = {}
        """By the bit, FI_READ or FI_WRITE, that an operation has in ``flags`` of its completion."""

    def bind(self, counter: Counter, flags: BindFlags) -> None:
        """Count by ``counter`` what ``flags`` say.

        Raises FI_EBADFLAGS for none, FI_EOPNOTSUPP for other kinds than FI_READ and FI_WRITE (there are no
        messages, and a target learns nothing of one-sided operations), FI_EINVAL if another counter has that kind.
        """
        kinds = [kind for kind in _COUNTED if kind in flags]
        if flags & ~_COUNTED:
            raise fabric_error(Errno.FI_EOPNOTSUPP, f"counted are FI_READ and FI_WRITE, not {flags & ~_COUNTED!r}")
        if not kinds:
            raise fabric_error(Errno.FI_EBADFLAGS, "a counter needs FI_READ or FI_WRITE")
        for kind in kinds:
            if kind in self._counters:
                raise fabric_error(Errno.FI_EINVAL, f"a counter for {kind!r} is bound already")
        for kind in kinds:
            self._counters[kind] = counter

    def start(self, rings: TransmitRings, queue: "CompletionQueue") -> None:
        """Count the completions of an enabled endpoint's rings, which ``queue`` takes."""
        if self._counters:
            rings.observer = self._count
            for counter in self._counters.values():
                counter._attach(rings, queue)

    def _count(self, taken: list[Completed]) -> None:
        for completed in taken:
            ending = completed.operation.ending
            if ending is not None and ending.deferral is not None and not ending.deferral.counted:
                continue
            counter = self._counters.get(completed.operation.flags & int(_COUNTED))
            if counter is not None:
                counter._count(completed.status)
