"""Automatic progress: a thread that does what reading does otherwise, and runs simulated NICs. fi_domain(3).

There is one lock for a fabric, as its network has one clock. The thread takes it for one round at a time: one
network latency passes, completions are taken, and what waited for them goes on. Calls of the application take it,
too, so any thread may make them: :func:`guarded` makes a subclass of a class of the driver that does so, and the
objects of a fabric become of that class. Objects of a fabric without this thread take no lock.
"""

import atexit
import functools
import os
import threading
import time
import types
import weakref
from collections import deque
from collections.abc import Callable, Sequence

from amoeba_model.network import Network

from amoeba.core.guard import Guard
from amoeba.core.locking import Attended, Awaited, Closable
from amoeba.core.log import logger
from amoeba.core.waiting import WaitFd, readable_within
from amoeba.nic.nic import Nic

__all__ = ["AutomaticProgress"]

_log = logger("progress")
_QUIET = 4096
"""Cycles without anything in flight after which a NIC has done all that it was asked for.

A NIC may fetch from host memory several times before any effect can be seen outside.
"""
_GLANCE = 1e-3
"""Seconds that the thread sleeps where not all that may happen causes an interrupt."""
_LOOK = 1.0
"""Seconds that it sleeps at most where NICs run by themselves: one that was reset causes no interrupt any more."""
_COURTESY = 5e-5
"""Seconds that woken threads get to begin: a thread that computes lets others run every 5 ms only."""


class AutomaticProgress:
    """The lock of a fabric, to be held by ``with``, and its thread, which :meth:`stop` ends.

    Where NICs run by themselves, the thread sleeps until one of their interrupts. The thread runs simulated NICs
    while an operation or a frame is in flight, and a little longer. Then it sleeps until a doorbell is rung, a frame
    comes from another process, or a connection can go on. An exception in the thread ends it. All later calls raise
    that exception, but for calls that close something.
    """

    def __init__(self, nics: Sequence[Nic], network: Network | None) -> None:
        self.guard = Guard()
        """The lock alone, whatever has gone wrong."""
        self.rounds = 0
        """How often a network latency has passed."""
        self._nics = tuple(nics)
        self._network = network
        self._stepped = any(nic.device.stepped for nic in self._nics)
        self._patient_rounds = _QUIET // (Network.DEFAULT_LATENCY if network is None else network.latency) + 1
        self._quiet_rounds = 0
        self._sent = 0
        self._attended: weakref.WeakValueDictionary[int, Attended] = weakref.WeakValueDictionary()
        self._awaited: weakref.WeakValueDictionary[int, Awaited] = weakref.WeakValueDictionary()
        self._abandoned: deque[Closable] = deque()
        self._failure: Exception | None = None
        self._origin: types.TracebackType | None = None
        self._in_round = False
        self._asleep = False
        self._alarm = WaitFd()
        """Ends the sleep; the thread's own, while it runs."""
        self._running = True
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="amoeba progress", daemon=True)
        for nic in self._nics:
            nic.on_doorbell = self.wake
            nic.advance = functools.partial(self._advance, nic)
        atexit.register(self.stop)  # what is still open may be closed later, by the interpreter
        self._thread.start()
        _alive.add(self)
        _log.debug("automatic progress has begun, for %d NICs", len(self._nics))

    # For those who make calls

    def __enter__(self) -> None:
        """Take the lock. Raises what has ended the thread, unless this thread is in a call already."""
        if not self.guard.owned:
            self.check()
        self.guard.__enter__()

    def __exit__(self, *_: object) -> None:
        self.guard.__exit__()

    def check(self) -> None:
        """Raise what has ended the thread."""
        if self._failure is not None:
            raise self._failure.with_traceback(self._origin)

    def attend(self, attended: Attended) -> None:
        """Do something for this in every round."""
        self._attended[id(attended)] = attended

    def watch(self, awaited: Awaited) -> None:
        """Attend to this in every round, and when its descriptor is ready."""
        self.attend(awaited)
        self._awaited[id(awaited)] = awaited
        self.wake()

    def wake(self) -> None:
        """Let the thread go on, as there is something to do. Called under the lock."""
        self._quiet_rounds = 0
        if self._asleep:
            self._alarm.set()  # first: an interruption between these must not leave it asleep for good
            self._asleep = False

    def wait_for(self, ready: Callable[[], object], timeout: float | None) -> None:
        """Sleep until something is so, at most ``timeout`` seconds; the lock, which is held, is free meanwhile.

        Raises what has ended the thread.
        """
        if self._running:
            self.guard.wait_for(lambda: ready() or not self._running, timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        while not (ready() or self._running or self._failure):  # the interpreter ends: nobody else runs the NICs
            if deadline is not None and time.monotonic() >= deadline:
                break
            self.advance()
        self.check()

    def call_when(self, ready: Callable[[], object], call: Callable[[], object]) -> Callable[[], None]:
        """As :meth:`Guard.call_when`; also when the thread ends."""
        return self.guard.call_when(lambda: ready() or not self._running, call)

    def advance(self) -> None:
        """Let one network latency pass, in a call that waits for something and lets no other call come between."""
        if not self._in_round:
            self._round(at_once=False)

    def _advance(self, nic: Nic) -> None:
        """Let one network latency pass, in a call that waits for a NIC. Raises DeviceClosedError as ``nic`` would."""
        nic.check_open()
        self.advance()

    def close_later(self, abandoned: Closable) -> None:
        """Close what nobody knows any more: at once, or when the call is over in whose midst that was noticed.

        The garbage collector may come anywhere, also while this thread takes the lock, or has that of another fabric.
        So this waits for nobody: where it would have to, a thread of its own closes the object.
        """
        if self.guard.owned and self._running:
            self._abandoned.append(abandoned)
            self.wake()
        elif self.guard.enter_now():
            try:
                abandoned.close()
            finally:
                self.guard.__exit__()
        else:
            threading.Thread(target=abandoned.close, name="amoeba close", daemon=True).start()

    def stop(self) -> None:
        """End the thread, and wait until it has ended, without the lock meanwhile. Idempotent."""
        with self.guard:
            atexit.unregister(self.stop)
            if not self._running:
                return
            self._stopping = True
            self._alarm.set()
            if self._thread is not threading.current_thread():
                self.guard.without(self._thread.join)

    def forked(self) -> None:
        """Do without the thread, in a child of the process that has the thread. The lock is held."""
        self.guard.forked()
        self._running = self._asleep = False

    # The thread

    def _run(self) -> None:
        try:
            while (rest := self._turn()) is not None:
                self._sleep(*rest)
        except Exception as error:  # callers are notified of every error
            with self.guard:
                self._failure, self._origin = error, error.__traceback__
            _log.error("automatic progress has ended: %r", error)
        finally:
            with self.guard:
                self._running = self._asleep = False
                self._alarm.close()

    def _turn(self) -> tuple[list[int], float | None] | None:
        """Do one round; returns the descriptors to wait for then, and for how many seconds. None: end the thread."""
        with self.guard:
            self._asleep = False
            while self._abandoned:
                self._abandoned.popleft().close()
            if self._stopping:
                return None
            woken = self.guard.calls
            rest: tuple[list[int], float | None]
            self._round(at_once=True)
            if not self._stepped:
                rest = self._armed()
                self._asleep = True  # only now: to ask for interrupts rings doorbells, which are not to wake it
                return rest
            resting = self._quiet_rounds > self._patient_rounds
            patience = 0.0 if self._network is None else self._network.patience
            if not resting and not patience:
                # callbacks of waiters woken in this round run when the lock is released
                rest = [], 0.0
            else:
                rest = self._watched(None if resting else patience)
                self._asleep = True
        if not self._asleep and self.guard.calls != woken:
            time.sleep(_COURTESY)
        return rest

    def _armed(self) -> tuple[list[int], float | None]:
        """Return the result of :meth:`_turn` where NICs run by themselves: their interrupts end the sleep."""
        attended = [each for each in list(self._attended.values()) if not each.closed]
        heard = [each._arm() is not False for each in attended]
        descriptors, longest = self._watched(_LOOK if all(heard) else _GLANCE)
        return descriptors + [nic.device.fileno() for nic in self._nics], longest

    def _watched(self, longest: float | None) -> tuple[list[int], float | None]:
        """Return the descriptors that end the sleep, and when it ends at the latest."""
        outside = None if self._network is None else self._network.outside
        descriptors = [self._alarm.fileno()] + ([] if outside is None else [outside])
        for each in list(self._awaited.values()):
            if not each.closed and (awaited := each._awaits()) is not None:
                descriptor, deadline = awaited
                descriptors.append(descriptor)
                if deadline is not None:
                    rest = max(deadline - time.monotonic(), 0.0)
                    longest = rest if longest is None else min(rest, longest)
        return descriptors, longest

    def _sleep(self, descriptors: list[int], longest: float | None) -> None:
        if not descriptors:
            return
        readable_within(descriptors, longest)
        self._alarm.set(False)

    def _round(self, *, at_once: bool) -> None:
        """Let one network latency pass, and do what can be done then.

        ``at_once``: frames from outside have been waited for.
        """
        self._in_round = True
        try:
            if self._network is not None:
                self._network.step(at_once=at_once)
            else:
                for nic in self._nics:
                    if nic.device.stepped:
                        nic.device.advance()
                    else:
                        nic.device.wait(0)  # its descriptor is to tell of what comes from now on
            working = [each._attend() for each in list(self._attended.values()) if not each.closed]
        finally:
            self._in_round = False
        self.rounds += 1
        moving = False
        if self._network is not None:
            sent, self._sent = self._sent, self._network.traffic.sent
            moving = self._network.moving or sent != self._sent
        self._quiet_rounds = 0 if moving or any(working) else self._quiet_rounds + 1


_alive: weakref.WeakSet[AutomaticProgress] = weakref.WeakSet()


def _before_fork() -> None:
    """Hold all locks while the process forks, so that no thread has them that the child has not."""
    for auto in sorted(_alive, key=id):  # in one order, as other threads may fork, too
        auto.guard.__enter__()


def _after_fork(forked: bool) -> None:
    for auto in sorted(_alive, key=id):
        if auto.guard.owned:  # not of what another thread has opened since
            if forked:
                auto.forked()
            auto.guard.__exit__()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=functools.partial(_after_fork, False),
    after_in_child=functools.partial(_after_fork, True),
)
