"""Operations that wait for a counter before they are posted, for fi_trigger(3).

The driver starts them while a queue or a counter of the domain is read, or a counter is changed, or by automatic
progress.
"""

import collections
import heapq
import itertools
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from amoeba_model.wire.uet import ReturnCode

from amoeba.core.errors import FabricError, TryAgainError
from amoeba.transport.operation import Operation
from amoeba.transport.requests import Tally

__all__ = ["Counting", "Deferral", "DeferralQueue", "Place", "Reader"]

T = TypeVar("T")
_CANCELLED = int(ReturnCode.CANCELLED)
_serials = itertools.count()


class Place(Protocol):
    """Rings that operations are posted into, or receives."""

    tally: Tally | None
    """Counts the operations that end there."""


class Listener(Protocol):
    """An object that is notified of the end of operations, and may have a descriptor to wait for."""

    def _show(self) -> None:
        """Make the descriptor readable if there is something to read, or may be after progress."""


class Reader(Listener, Protocol):
    """A completion queue: operations end in it, and reading it takes what has completed."""

    @property
    def closed(self) -> bool: ...

    def _report(self, completed: Operation) -> None:
        """Report a request that was never in a ring."""

    def _collect(self) -> None:
        """Take all completions out of the rings now."""

    def _arm(self) -> None:
        """Ask for an interrupt at the next completion."""


class Counting(Listener, Protocol):
    """A counter: operations wait for it, or are counted by it."""

    @property
    def _sums(self) -> tuple[int, int]:
        """Return (successes, errors)."""

    @property
    def _active(self) -> bool:
        """Whether a counted operation is outstanding, or may be, because peers begin it."""

    @property
    def _queues(self) -> Iterable[Reader]:
        """The queues in which counted operations end."""

    def _heed(self) -> None:
        """Note that an operation waits for the counter, which must then observe doorbells."""

    def _expect(self, works: int) -> None:
        """Expect ``works`` more outstanding operations that it counts by itself."""

    def _count(self, status: int) -> None:
        """Note that one of the expected operations has ended."""


class Deferral:
    """One operation, from its submission to its end.

    Parameters
    ----------
    counter, threshold, with_errors
        The operation starts when the counter, with or without its errors, has reached the threshold.
    start : function of the deferral
        Posts the operation. Raises FI_EAGAIN if it must be tried again.
    subject : object
        The object by which the operation can be cancelled.
    completion : Counter, optional
        Counts the operation instead of the endpoint's counters.
    """

    def __init__(
        self,
        counter: Counting,
        threshold: int,
        start: Callable[["Deferral"], None],
        *,
        subject: Any,
        with_errors: bool = False,
        completion: Counting | None = None,
    ) -> None:
        self.counter = counter
        self.threshold = threshold
        self.with_errors = with_errors
        self.subject = subject
        self.completion = completion
        self._start = start
        self._posted = False
        self.serial = next(_serials)
        self.place: Place | None = None
        """Place of the operation; None if it only changes a counter."""
        self.queue: Reader | None = None
        """The queue that reports its end, or its failure at least."""
        self.counted = True
        """Whether the endpoint's counters count it."""
        self.reported: Operation | None = None
        """The request that the queue reports if it fails before it is posted; None: no report."""
        self.ended: Callable[[Deferral], None] = lambda deferral: None

    @property
    def due(self) -> bool:
        successes, errors = self.counter._sums
        return successes + (errors if self.with_errors else 0) >= self.threshold

    def start(self) -> None:
        self._start(self)
        if self.place is None:
            self.ended(self)
            return
        self._posted = True
        if self.completion is not None:
            self.completion._expect(1)

    def end(self) -> None:
        """Forget the operation."""
        if self._posted and self.completion is not None:
            self.completion._expect(-1)

    def finish(self, status: int) -> None:
        """Complete the operation."""
        self.ended(self)
        if self.completion is not None:
            self.completion._count(status)

    def fail(self) -> None:
        """Fail an operation that cannot, or shall not, start: report and count the failure."""
        self.ended(self)
        if self.completion is not None:
            self.completion._count(_CANCELLED)
        if self.reported is None or self.queue is None or self.queue.closed:
            return
        if self.counted and self.place is not None and self.place.tally is not None:
            self.place.tally(self.reported.kind, _CANCELLED, None)
        self.reported.status = _CANCELLED
        self.queue._report(self.reported)


class DeferralQueue:
    """A domain's deferred operations.

    Operations of one counter start in the order of their thresholds, and of submission where these are equal.
    """

    def __init__(self) -> None:
        self._heaps: dict[tuple[Counting, bool], list[tuple[int, int, Deferral]]] = {}
        """Waiting operations, by counter and whether errors count, the next one first."""
        self._ready: list[Deferral] = []
        """Operations that are due and not posted yet."""
        self.live: dict[Deferral, None] = {}
        """All operations that have not ended, in order of submission: while there are any, call :meth:`progress`."""
        self._queues: collections.Counter[Reader] = collections.Counter()
        self._completions: collections.Counter[Counting] = collections.Counter()
        """Number of operations by counter that counts them, as by queue that reports them."""
        self._running = False

    def __len__(self) -> int:
        """Return the number of operations that have not started."""
        return len(self._ready) + sum(len(heap) for heap in self._heaps.values())

    def holds(self, subject: object) -> bool:
        """Whether an operation of this subject has not ended."""
        return any(deferral.subject is subject for deferral in self.live)

    def add(self, deferral: Deferral) -> None:
        """Take an operation, and start it at once if it is due."""
        deferral.ended = self._end
        self.live[deferral] = None
        if deferral.queue is not None:
            self._queues[deferral.queue] += 1
        if deferral.completion is not None:
            self._completions[deferral.completion] += 1
        deferral.counter._heed()
        heap = self._heaps.setdefault((deferral.counter, deferral.with_errors), [])
        heapq.heappush(heap, (deferral.threshold, deferral.serial, deferral))
        self.run()
        self.kick()

    def progress(self) -> None:
        """Take the completions that counters wait for, and start due operations."""
        for queue in self._involved():
            queue._collect()
        self.run()

    def expects(self, listener: Listener) -> bool:
        """Whether reading may start a waiting operation that notifies ``listener``."""
        hears = listener in self._queues or listener in self._completions
        return hears and (bool(self._ready) or any(counter._active for counter, _ in self._heaps))

    def kick(self) -> None:
        """Kick the listeners of waiting operations: a counter may soon change, so they must be read."""
        if self._heaps:
            listeners: tuple[Listener, ...] = (*self._queues, *self._completions)
            for listener in listeners:
                listener._show()

    def arm(self) -> None:
        """Ask for an interrupt at the next completion that an operation here waits for."""
        if self.live:
            for queue in self._involved():
                queue._arm()

    def _involved(self) -> set[Reader]:
        awaited = itertools.chain.from_iterable(counter._queues for counter, _ in self._heaps)
        return {queue for queue in itertools.chain(self._queues, awaited) if not queue.closed}

    def run(self) -> None:
        """Start due operations, and those that they make due."""
        if self._running:
            return
        self._running = True
        try:
            progressing = True
            while progressing:
                progressing = self._take_due()
                progressing |= self._start_ready()
        finally:
            self._running = False

    def _take_due(self) -> bool:
        """Make due operations ready; return whether there were any."""
        before = len(self._ready)
        for key, heap in list(self._heaps.items()):
            while heap and heap[0][-1].due:
                self._ready.append(heapq.heappop(heap)[-1])
            if not heap:
                del self._heaps[key]
        return len(self._ready) > before

    def _start_ready(self) -> bool:
        """Start ready operations; return whether any started. A full ring makes its later operations wait, too.

        An operation fails if its start raises another error than FabricError, such as a signal handler's; the others
        stay ready.
        """
        ready, self._ready = collections.deque(self._ready), []
        before = len(ready)
        full: set[int] = set()
        try:
            while ready:
                deferral = ready.popleft()
                if id(deferral.place) in full:
                    self._ready.append(deferral)
                    continue
                try:
                    deferral.start()
                except TryAgainError:
                    full.add(id(deferral.place))
                    self._ready.append(deferral)
                except FabricError:  # what it needs has been closed or removed meanwhile
                    deferral.fail()
                except BaseException:
                    deferral.fail()
                    raise
        finally:
            self._ready += ready
        return len(self._ready) < before

    def withdraw(self, chosen: Callable[[Deferral], bool]) -> list[Deferral]:
        """Remove operations that were not started and that ``chosen`` selects, in the order of submission."""
        waiting = [entry[-1] for heap in self._heaps.values() for entry in heap]
        taken = sorted((each for each in (*self._ready, *waiting) if chosen(each)), key=lambda each: each.serial)
        leaving = set(taken)
        self._ready = [each for each in self._ready if each not in leaving]
        for key, heap in list(self._heaps.items()):
            self._heaps[key] = [entry for entry in heap if entry[-1] not in leaving]
            heapq.heapify(self._heaps[key])
            if not self._heaps[key]:
                del self._heaps[key]
        for deferral in taken:
            self._end(deferral)
        return taken

    def cancel(self, subject: object, *places: Place) -> bool:
        """Cancel operations of this subject that wait to be posted into one of these; return whether any do."""
        taken = self.withdraw(lambda each: each.subject is subject and any(each.place is place for place in places))
        for deferral in taken:
            deferral.fail()
        return bool(taken)

    def leave(self, place: Place) -> None:
        """Drop operations of a place, whose end will not be reported."""
        self.withdraw(lambda each: each.place is place)
        for deferral in [each for each in self.live if each.place is place]:
            self._end(deferral)

    def _end(self, deferral: Deferral) -> None:
        if deferral not in self.live:
            return
        del self.live[deferral]
        deferral.end()
        _strike_off(self._queues, deferral.queue)
        _strike_off(self._completions, deferral.completion)


def _strike_off(listeners: "collections.Counter[T]", listener: T | None) -> None:
    """Count one operation less for a listener."""
    if listener is not None:
        listeners[listener] -= 1
        if not listeners[listener]:
            del listeners[listener]
