"""The lock of a fabric with automatic progress."""

import signal
import threading
import time

import pytest
from amoeba.core.guard import Guard

LONG = 60
"""Seconds in which anything ends."""


class Threads:
    """Threads that are joined, and what they returned or raised."""

    def __init__(self):
        self.started = []

    def start(self, function, *arguments):
        outcome = []

        def run():
            try:
                outcome.append(function(*arguments))
            except BaseException as error:
                outcome.append(error)

        self.started.append((threading.Thread(target=run), outcome))
        self.started[-1][0].start()
        return outcome

    def join(self):
        for thread, _ in self.started:
            thread.join(LONG)
            assert not thread.is_alive()
        return [outcome[0] for _, outcome in self.started]


@pytest.fixture
def threads():
    return Threads()


def test_one_thread_takes_it_again_and_others_wait(threads):
    guard, order = Guard(), []

    def other():
        with guard:
            order.append("other")

    with guard, guard:
        assert guard.owned
        threads.start(other)
        time.sleep(0.05)
        order.append("first")
    assert not guard.owned
    threads.join()
    assert order == ["first", "other"]


def test_who_takes_it_again_at_once_comes_after_those_who_wait(threads):
    guard, order = Guard(), []

    def other():
        with guard:
            order.append("other")

    for _ in range(20):
        with guard:
            threads.start(other)
            while not guard._gate.locked():
                time.sleep(0.001)
        with guard:
            order.append("again")
    threads.join()
    assert order == ["other", "again"] * 20


def test_who_cannot_wait_has_it_at_once_or_not_at_all(threads):
    guard, order = Guard(), []

    def other():
        assert not guard.enter_now()
        with guard:
            order.append("other")

    assert guard.enter_now()
    assert guard.enter_now()
    assert guard.depth == 2
    threads.start(other)
    while not guard._gate.locked():
        time.sleep(0.001)
    guard.__exit__()
    order.append("still")
    guard.__exit__()
    assert not guard.owned
    assert threads.join() == [None]
    assert order == ["still", "other"]


def test_waiting_ends_when_it_is_so_and_nobody_is_woken_in_vain(threads):
    guard, values = Guard(), []

    def wait(number):
        with guard:
            guard.wait_for(lambda: len(values) >= number, LONG)
            return len(values)

    for number in (1, 2, 3):
        threads.start(wait, number)
    while len(guard._waiters) < 3:
        time.sleep(0.001)
    for number in (1, 2, 3):
        with guard:
            values.append(number)
        assert guard.calls == number
        while len(guard._waiters) > 3 - number:
            time.sleep(0.001)
    assert all(found >= number for number, found in zip((1, 2, 3), threads.join(), strict=True))


def test_waiting_does_not_begin_for_what_is_so_and_ends_with_its_time():
    guard = Guard()
    with guard:
        guard.wait_for(lambda: True, LONG)
        guard.wait_for(lambda: False, 0.01)
        guard.wait_for(lambda: False, -1)
        assert guard.owned
    assert (guard.calls, guard._waiters) == (0, [])


def test_while_somebody_waits_others_have_it_however_often_it_was_taken(threads):
    guard, values = Guard(), []

    def other():
        with guard:
            values.append("other")

    with guard, guard, guard:
        threads.start(other)
        guard.wait_for(lambda: values, LONG)
        assert values == ["other"]
        assert guard.owned
    assert not guard.owned
    threads.join()


def test_what_is_to_be_called_is_called_once_or_forgotten():
    guard, values, calls = Guard(), [], []
    with guard:
        guard.call_when(lambda: values, lambda: calls.append("called"))
        forget = guard.call_when(lambda: values, lambda: calls.append("forgotten"))
    with guard:
        forget()
        forget()
        values.append(1)
    with guard:
        pass
    assert calls == ["called"]


def test_what_is_asked_may_take_the_lock_itself():
    guard, calls = Guard(), []

    def ready():
        with guard:
            return True

    with guard:
        guard.call_when(ready, lambda: calls.append(guard.owned))
    assert calls == [True]


class SignalError(Exception):
    """The exception of a signal's handler."""


def test_an_interruption_of_a_wait_leaves_the_lock_as_it_was():
    guard = Guard()

    def interrupt(number, frame):
        raise SignalError

    usual = signal.signal(signal.SIGALRM, interrupt)
    try:
        with guard:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(SignalError):
                guard.wait_for(lambda: False)
            assert guard.owned
            assert guard._waiters == []
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, usual)
    assert not guard.owned
    with guard:
        pass


def test_interruptions_at_any_moment_leave_it_to_others(threads):
    """A thread that takes it again and again, or waits with it, is interrupted wherever it is then."""
    guard, turns, over = Guard(), [0], []

    def other():
        while not over:
            with guard:
                turns[0] += sum(range(100)) > 0

    def call(waits):
        depth = guard.depth
        try:
            with guard:
                if waits:
                    before = turns[0]
                    guard.wait_for(lambda: turns[0] > before + 1, 0.01)
        except BaseException:
            guard.recover(depth)
            raise

    def call_on(waits, seconds):
        signal.setitimer(signal.ITIMER_REAL, seconds)
        while True:
            call(waits)

    def interrupt(number, frame):
        raise SignalError

    usual = signal.signal(signal.SIGALRM, interrupt)
    threads.start(other)
    try:
        for number in range(100):
            with pytest.raises(SignalError):
                call_on(number % 2, 0.0005 + number % 7 * 0.0003)
            assert not guard.owned, number
            before, deadline = turns[0], time.monotonic() + LONG
            while turns[0] < before + 2:
                assert time.monotonic() < deadline, f"nobody has it after interruption {number}, and others hang"
                time.sleep(0.0005)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, usual)
        over.append(True)
    threads.join()
    assert guard._waiters == []


def test_what_raises_while_it_is_asked_does_not_keep_the_lock(threads):
    guard = Guard()

    def ready():
        raise SignalError

    with pytest.raises(SignalError), guard:
        forget = guard.call_when(ready, lambda: None)
    forget()

    def other():
        with guard:
            return guard.owned

    threads.start(other)
    assert threads.join() == [True]


def test_recovering_releases_what_was_taken_too_often():
    guard = Guard()
    with guard:
        depth = guard.depth
        guard.__enter__()
        guard.__enter__()
        guard.recover(depth)
        assert (guard.owned, guard.depth) == (True, 1)
        guard.__enter__()
        guard.recover(0)
        assert (guard.owned, guard.depth) == (False, 0)
    with guard:
        assert guard.depth == 1
    guard.recover(0)
    assert not guard.owned
