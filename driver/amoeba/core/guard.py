"""One lock for everything of a fabric, and waiting under it: what makes calls of several threads safe."""

import contextlib
import threading
from collections.abc import Callable

__all__ = ["Guard"]


class _Waiter:
    """Somebody who waits until something is so."""

    __slots__ = ("call", "ready")

    def __init__(self, ready: Callable[[], object], call: Callable[[], object]) -> None:
        self.ready = ready
        self.call = call


class Guard:
    """A reentrant lock that is fair to those who take it once against one who takes it again and again.

    Whoever wants it waits at a gate for whoever came before: so a thread that polls, or runs simulated time, lets the
    others have their turn. What threads wait for is looked at whenever the lock is given back, as nothing changes
    otherwise; so nobody is woken in vain.

    A signal's handler may raise anywhere, also while the lock is taken or given back: :meth:`recover` undoes that.
    """

    def __init__(self) -> None:
        self._gate = threading.Lock()
        """Held while waiting for the lock; the only one who waits for it is next."""
        self._lock = threading.RLock()
        """Taken once at most. Only who has it can give it back, which tells after an interruption who has it."""
        self._owner = 0
        self._depth = 0
        self._waiters: list[_Waiter] = []
        self.calls = 0
        """How many have been called so far, because what they wait for is so."""

    @property
    def owned(self) -> bool:
        """Whether this thread holds it."""
        return self._owner == threading.get_ident()

    @property
    def depth(self) -> int:
        """How often this thread has taken it and not given it back."""
        return self._depth if self.owned else 0

    def recover(self, depth: int) -> None:
        """After an interruption: this thread has it as often as before, ``depth`` times."""
        if self.owned:
            self._depth = depth
            if not depth:
                self._give_back()

    def forked(self) -> None:
        """This is a child of the process, of which only the thread that holds it is left: nobody else is next."""
        self._gate = threading.Lock()

    def __enter__(self) -> None:
        if self.owned:
            self._depth += 1
        else:
            self._take(1)

    def enter_now(self) -> bool:
        """Take it if nobody else has it, before those who wait; whether it was taken, which ``with`` would wait for.

        For calls in the midst of anything, such as those of the garbage collector: of taking the lock, too, which is
        when this thread must not wait for the gate. It may then take the lock in between, and gives it back.
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
        if not self.owned:  # a wait was interrupted before it could take it again
            return
        self._depth -= 1
        if not self._depth:
            self._give_back()

    def _take(self, depth: int) -> None:
        try:
            with self._gate:
                self._lock.acquire()
            self._owner = threading.get_ident()
            self._depth = depth
        except BaseException:  # a signal's, perhaps when the lock was taken already
            if self.owned:
                self._owner = 0
            with contextlib.suppress(RuntimeError):  # it was not
                self._lock.release()
            raise

    def _take_again(self, depth: int) -> None:
        """The same for somebody who must have it, and hears of interruptions only then."""
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

    def _give_back(self) -> None:
        try:
            if self._waiters:
                self._call_ready()
        finally:
            self._owner = 0
            self._lock.release()

    def _call_ready(self) -> None:
        self._depth += 1  # what is asked may take the lock itself
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
        """Call this while others can have the lock, which this thread holds, however often it has taken it."""
        depth = self._depth
        try:
            self._depth = 0
            self._give_back()
            function()
        finally:
            self._take_again(depth)

    def call_when(self, ready: Callable[[], object], call: Callable[[], object]) -> Callable[[], None]:
        """Have ``call`` called, once, as soon as something is so; returns what makes it forgotten.

        Both are called under the lock, by any thread, and must not raise; ``ready`` is asked often.
        """
        waiter = _Waiter(ready, call)
        self._waiters.append(waiter)

        def forget() -> None:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

        return forget

    def wait_for(self, ready: Callable[[], object], timeout: float | None = None) -> None:
        """Sleep until something is so, at most ``timeout`` seconds, without the lock, which this thread holds.

        When it returns somebody else may have made it otherwise again.
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
