"""Operations that wait for a counter before they are posted: what fi_trigger(3) needs of the driver.

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
    """Counts those that end there."""


class Listener(Protocol):
    """Somebody who hears of the end of operations, and perhaps has a descriptor to wait for."""

    def _show(self) -> None:
        """Make the descriptor say what is there, or may be if it is read."""


class Reader(Listener, Protocol):
    """A completion queue: operations end in it, and reading it takes what has completed."""

    @property
    def closed(self) -> bool: ...

    def _report(self, completed: Operation) -> None:
        """Tell of something that was never in a ring."""

    def _collect(self) -> None:
        """Take everything out of the rings now."""

    def _arm(self) -> None:
        """Ask for an interrupt at the next completion."""


class Counting(Listener, Protocol):
    """A counter: operations wait for it, or are counted by it."""

    @property
    def _sums(self) -> tuple[int, int]:
        """(successes, errors)."""

    @property
    def _active(self) -> bool:
        """Whether something is under way that is counted, or may be, because peers begin it."""

    @property
    def _queues(self) -> Iterable[Reader]:
        """Those in which what it counts ends."""

    def _heed(self) -> None:
        """Something waits for it: it must hear of doorbells."""

    def _expect(self, works: int) -> None:
        """So many more operations are under way that it counts by itself."""

    def _count(self, status: int) -> None:
        """One of them has ended."""


class Deferral:
    """One operation, from when it was submitted until it is done.

    Parameters
    ----------
    counter, threshold, with_errors
        It is started when the counter, with or without its errors, has reached the threshold.
    start : function of the deferral
        Posts the operation. Raises FI_EAGAIN if it must be tried again.
    subject : object
        What it can be cancelled by.
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
        """Where it is posted; None if it only changes a counter."""
        self.queue: Reader | None = None
        """Hears of its end, or of its failure at least."""
        self.counted = True
        """The endpoint's counters count it."""
        self.reported: Operation | None = None
        """What the queue is told of if it fails before it is posted; None: of nothing."""
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
        """Nothing is expected of it any more."""
        if self._posted and self.completion is not None:
            self.completion._expect(-1)

    def finish(self, status: int) -> None:
        """The operation has completed."""
        self.ended(self)
        if self.completion is not None:
            self.completion._count(status)

    def fail(self) -> None:
        """It cannot, or shall not, be started: tell so whoever is to know."""
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

    Those of one counter are started in the order of their thresholds, and of submission where these are equal.
    """

    def __init__(self) -> None:
        self._heaps: dict[tuple[Counting, bool], list[tuple[int, int, Deferral]]] = {}
        """What waits, by counter and whether errors count, the next one first."""
        self._ready: list[Deferral] = []
        """Due, and not posted yet."""
        self.live: dict[Deferral, None] = {}
        """All that have not ended, in the order of submission: as long as there are any, call :meth:`progress`."""
        self._queues: collections.Counter[Reader] = collections.Counter()
        self._completions: collections.Counter[Counting] = collections.Counter()
        """The counters that count them; with the queues, those who hear of the end of so many of them."""
        self._running = False

    def __len__(self) -> int:
        """Operations that have not been started."""
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
        self.stir()

    def progress(self) -> None:
        """Take the completions that counters wait for, and start what is due."""
        for queue in self._involved():
            queue._collect()
        self.run()

    def expects(self, listener: Listener) -> bool:
        """Whether something that waits may be started if reading goes on, of which ``listener`` hears."""
        hears = listener in self._queues or listener in self._completions
        return hears and (bool(self._ready) or any(counter._active for counter, _ in self._heaps))

    def stir(self) -> None:
        """A counter that something waits for may soon change: those who hear of what waits must be read for that."""
        if self._heaps:
            listeners: tuple[Listener, ...] = (*self._queues, *self._completions)
            for listener in listeners:
                listener._show()

    def arm(self) -> None:
        """Ask for an interrupt at the next completion that anything here waits for."""
        for queue in self._involved():
            queue._arm()

    def _involved(self) -> set[Reader]:
        awaited = itertools.chain.from_iterable(counter._queues for counter, _ in self._heaps)
        return {queue for queue in itertools.chain(self._queues, awaited) if not queue.closed}

    def run(self) -> None:
        """Start what is due. What is started may make others due: these, too."""
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
        """Whether something has become ready."""
        before = len(self._ready)
        for key, heap in list(self._heaps.items()):
            while heap and heap[0][-1].due:
                self._ready.append(heapq.heappop(heap)[-1])
            if not heap:
                del self._heaps[key]
        return len(self._ready) > before

    def _start_ready(self) -> bool:
        """Whether something was started. Where the ring is full, what follows in it waits, too.

        What raises anything that is no FabricError, such as a signal's handler, fails; the others stay ready.
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
        """Take out those that were not started and that ``chosen`` says, in the order of submission."""
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
        """Take back those of this subject that wait to be posted into one of these; whether there are any."""
        taken = self.withdraw(lambda each: each.subject is subject and any(each.place is place for place in places))
        for deferral in taken:
            deferral.fail()
        return bool(taken)

    def leave(self, place: Place) -> None:
        """Drop those that wait to be posted there, or were: nobody will hear of their end."""
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
    """One operation less of which somebody hears."""
    if listener is not None:
        listeners[listener] -= 1
        if not listeners[listener]:
            del listeners[listener]
