"""One lock for everything of a fabric, and waiting under the lock: makes calls of several threads safe."""

import contextlib
import threading
from collections.abc import Callable

__all__ = ["Guard"]


class _Waiter:
    """A thread or callback that waits for a condition."""

    __slots__ = ("call", "ready")

    def __init__(self, ready: Callable[[], object], call: Callable[[], object]) -> None:
        self.ready = ready
        self.call = call


class Guard:
    """A fair reentrant lock: a thread that takes the lock again and again cannot starve others.

    Threads queue for the lock at a gate in order of arrival. So a thread that polls, or runs simulated time, lets
    others proceed. The lock checks the conditions of waiting threads whenever it is released, as only then can a
    condition change; no thread wakes in vain.

    A signal handler may raise anywhere, also while the lock is acquired or released: :meth:`recover` undoes that.
    """

    def __init__(self) -> None:
        self._gate = threading.Lock()
        """Held while waiting for the lock; the single thread that waits for the lock is next."""
        self._lock = threading.RLock()
        """Acquired once at most. Only the owner can release the lock, which shows the owner after an interruption."""
        self._owner = 0
        self._depth = 0
        self._waiters: list[_Waiter] = []
        self.calls = 0
        """Number of waiters called so far because their condition became true."""

    @property
    def owned(self) -> bool:
        """Whether this thread holds the lock."""
        return self._owner == threading.get_ident()

    @property
    def depth(self) -> int:
        """How often this thread has taken the lock without releasing it."""
        return self._depth if self.owned else 0

    def recover(self, depth: int) -> None:
        """Restore the depth of this thread after an interruption: the thread holds the lock ``depth`` times again."""
        if self.owned:
            self._depth = depth
            if not depth:
                self._release()

    def forked(self) -> None:
        """Reset the gate in a child process, where only the thread that holds the lock is left."""
        self._gate = threading.Lock()

    def __enter__(self) -> None:
        if self.owned:
            self._depth += 1
        else:
            self._take(1)

    def enter_now(self) -> bool:
        """Take the lock if it is free, before waiting threads. Returns whether it was taken; never blocks.

        For calls that may interrupt anything, such as those of the garbage collector. One may interrupt this thread
        while it waits at the gate, so this thread must not wait for the gate again. The call then takes the lock in
        between, and releases it.
        """
        if self.owned:
            self._depth += 1
            return True
        try:
            if not self._lock.acquire(blocking=False):
                return False
            self._owner = threading.get_ident()
            self._depth = 1
        except BaseException:  # a signal's, as in _take()
            if self.owned:
                self._owner = 0
            with contextlib.suppress(RuntimeError):
                self._lock.release()
            raise
        return True

    def __exit__(self, *_: object) -> None:
        if not self.owned:  # an interruption ended a wait before it took the lock again
            return
        self._depth -= 1
        if not self._depth:
            self._release()

    def _take(self, depth: int) -> None:
        try:
            with self._gate:
                self._lock.acquire()
            self._owner = threading.get_ident()
            self._depth = depth
        except BaseException:  # a signal's, perhaps after the lock was acquired
            if self.owned:
                self._owner = 0
            with contextlib.suppress(RuntimeError):  # the lock was not acquired
                self._lock.release()
            raise

    def _take_again(self, depth: int) -> None:
        """Take the lock with certainty; raise an interruption only afterwards."""
        interruption: BaseException | None = None
        while True:
            try:
                if self.owned:
                    self._depth = depth
                    break
                self._take(depth)
            except BaseException as error:  # a signal's
                interruption = error
        if interruption is not None:
            raise interruption

    def _release(self) -> None:
        try:
            if self._waiters:
                self._call_ready()
        finally:
            self._owner = 0
            self._lock.release()

    def _call_ready(self) -> None:
        self._depth += 1  # conditions may take the lock themselves
        try:
            called = [waiter for waiter in self._waiters if waiter.ready()]
        finally:
            self._depth -= 1
        if called:
            self._waiters = [waiter for waiter in self._waiters if waiter not in called]
            self.calls += len(called)
            for waiter in called:
                waiter.call()

    def without(self, function: Callable[[], object]) -> None:
        """Call this while other threads can have the lock, which this thread holds at any depth."""
        depth = self._depth
        try:
            self._depth = 0
            self._release()
            function()
        finally:
            self._take_again(depth)

    def call_when(self, ready: Callable[[], object], call: Callable[[], object]) -> Callable[[], None]:
        """Have ``call`` called once, as soon as ``ready`` returns true. Returns a function that cancels the call.

        Any thread calls both under the lock, and neither may raise; ``ready`` is called often.
        """
        waiter = _Waiter(ready, call)
        self._waiters.append(waiter)

        def forget() -> None:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

        return forget

    def wait_for(self, ready: Callable[[], object], timeout: float | None = None) -> None:
        """Sleep until the condition is true, at most ``timeout`` seconds, without the lock, which this thread holds.

        Another thread may have changed the condition again by the time this returns.
        """
        if ready():
            return
        asleep = threading.Lock()
        asleep.acquire()
        forget = self.call_when(ready, asleep.release)
        longest = -1 if timeout is None else min(max(timeout, 0.0), threading.TIMEOUT_MAX)
        try:
            self.without(lambda: asleep.acquire(timeout=longest))
        finally:
            forget()
