"""Progress by a thread, and calls of several threads.

Covers ``openucx/ucxx/errors.py``, ``openucx/ucxx/lifetime.py`` and ``openucx/ucxx/progress.py``.
"""

import math
import threading
import time

import amoeba.ucx as ucxx
import pytest

from tests.driver.openucx.ucxx.ucx_parties import PATIENCE, Parties


def threads_since(before):
    """How many have come: those of other tests may end meanwhile."""
    return len(set(threading.enumerate()) - before)


@pytest.fixture(params=[False, True], ids=["sleeping", "polling"])
def served(models, request):
    """Two parties whose progress a thread makes."""
    before = set(threading.enumerate())
    with Parties(models) as parties:
        for worker in (parties.a, parties.b):
            worker.start_progress_thread(polling_mode=request.param)
        yield parties
    assert threads_since(before) == 0


def test_a_thread_makes_progress_for_whoever_waits_or_looks(served):
    for number in range(10):
        receive = served.ba.tag_recv(bytearray(4), 1)
        served.ab.tag_send(number.to_bytes(4, "big"), 1).result(PATIENCE)
        deadline = time.monotonic() + PATIENCE
        while not receive.completed:
            time.sleep(0.001)
            assert time.monotonic() < deadline
        assert receive.result() == number.to_bytes(4, "big")


def test_many_threads_post_and_wait_at_the_same_time(served):
    failures = []
    memory = served.contexts[1].alloc(64)
    key = memory.pack()

    def work(tag):
        try:
            for number in range(10):
                receive = served.ba.tag_recv(bytearray(8), tag)
                served.ab.tag_send((number << 32 | tag).to_bytes(8, "big"), tag)
                assert receive.result(PATIENCE) == (number << 32 | tag).to_bytes(8, "big")
                served.ab.atomic("add", 1, key, reply=True).result(PATIENCE)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(tag,)) for tag in range(1, 5)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(PATIENCE)
    assert failures == []
    assert served.ab.get(bytearray(8), key).result(PATIENCE) == (40).to_bytes(8, "little")


def test_callbacks_come_from_the_thread_and_may_not_wait(served):
    seen = []

    def closed(word):
        with pytest.raises(ucxx.UCXInvalidParamError, match="callback"):
            served.b.tag_recv(bytearray(1), 77).result(1)
        with pytest.raises(ucxx.UCXInvalidParamError, match="callback"):
            served.b.progress()
        seen.append((word, threading.current_thread()))

    served.ba.set_close_callback(closed, ("closed",))
    served.ab.am_send(b"first").result(PATIENCE)
    served.ab.close_blocking()
    deadline = time.monotonic() + PATIENCE
    while not seen:
        time.sleep(0.001)
        assert time.monotonic() < deadline
    assert seen[0][0] == "closed"
    assert seen[0][1] is not threading.current_thread()


def test_the_thread_calls_what_it_was_asked_to_before_it_begins(models):
    seen = []
    with Parties(models) as parties:
        parties.a.set_progress_thread_start_callback(
            lambda *words, **named: seen.append((words, named)), (1,), {"x": 2}
        )
        parties.a.start_progress_thread()
        parties.a.start_progress_thread()
        receive = parties.ba.tag_recv(bytearray(4), 1)
        parties.ab.tag_send(b"data", 1).result(PATIENCE)
        assert receive.result(PATIENCE) == b"data"
        parties.a.stop_progress_thread()
        parties.a.stop_progress_thread()
        assert seen == [((1,), {"x": 2})]
        parties.ab.tag_send(b"more", 1).result(PATIENCE)
        assert parties.ba.tag_recv(bytearray(4), 1).result(PATIENCE) == b"more"


def test_the_last_worker_s_end_ends_the_thread(models):
    before = set(threading.enumerate())
    parties = Parties(models)
    parties.a.start_progress_thread()
    parties.b.start_progress_thread()
    assert threads_since(before) == 1
    parties.a.close()
    assert threads_since(before) == 1
    parties.b.close()
    assert threads_since(before) == 0
    parties.a.close()
    with pytest.raises(ucxx.UCXCloseError):
        parties.a.tag_recv(bytearray(1), 1)
    for context in parties.contexts:
        context.close()


def test_sleeping_until_an_event_wakes_for_messages_and_signals(parties):
    while parties.b.progress_worker_event(epoll_timeout=20):
        pass
    parties.ab.am_send(b"event")
    while not parties.a.progress():
        pass
    deadline = time.monotonic() + PATIENCE
    while not parties.ba.am_probe():
        parties.b.progress_worker_event(epoll_timeout=100)
        parties.a.progress()
        assert time.monotonic() < deadline
    while parties.b.progress() or not parties.b.arm():
        pass
    parties.b.signal()
    assert parties.b.epoll_file_descriptor >= 0
    assert not parties.b.arm()


@pytest.mark.parametrize("milliseconds", [10**15, math.inf])
def test_sleeps_may_be_longer_than_the_system_counts(parties, milliseconds):
    for _ in range(2):  # the second time it sleeps until the signal
        parties.b.signal()
        parties.b.progress_worker_event(epoll_timeout=milliseconds)
    for worker in (parties.a, parties.b):
        worker.start_progress_thread(epoll_timeout=milliseconds)
    receive = parties.ba.tag_recv(bytearray(4), 1)
    parties.ab.tag_send(b"told", 1).result(milliseconds)
    assert receive.result(milliseconds) == b"told"
    for worker in (parties.a, parties.b):
        worker.stop_progress_thread()
    receive = parties.ba.tag_recv(bytearray(4), 1)
    parties.ab.tag_send(b"more", 1)
    assert receive.result(milliseconds) == b"more"
