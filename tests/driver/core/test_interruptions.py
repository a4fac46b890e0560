"""An exception of a signal's handler in the midst of a call, such as KeyboardInterrupt, loses nothing.

Python calls handlers where a function begins, where one that is no Python has ended, and where a loop goes round. The
tests raise the signal at each of the first two, one after the other, as ``sys.setprofile`` tells them.

Covers ``amoeba_model/interruptions.py``.
"""

import collections
import contextlib
import gc
import itertools
import signal
import sys
import time

import numpy as np
import pytest
from amoeba import CqFormat, ErrorAvailableError, Op, Progress, open_cluster
from amoeba_model.interruptions import uninterrupted

from tests.driver.endpoints import ALL_ACCESS, BOTH

ONE = np.ones(1, np.uint64)
LONG = 60
"""Seconds in which anything ends."""


@pytest.fixture(autouse=True)
def no_garbage():
    """Garbage of other tests is collected before: Python lets out nothing that is raised while it collects."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(autouse=True)
def own_handlers():
    """Signals that tests raise have the handlers that they had before again."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGALRM, signal.SIGTERM)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


def interrupted(function, place):
    """Call a function, and interrupt it at this place, counted from 0; whether it has such a place."""
    passed, handled = 0, []

    def look(frame, event, _):
        nonlocal passed
        if event in ("call", "c_return"):
            passed += 1
            if passed > place:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGINT)

    def handle(number, frame):
        handled.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, handle)
    try:
        sys.setprofile(look)
        function()
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
    assert handled == [signal.SIGINT] * (passed > place)
    return passed > place


QUICK = 5
"""Waits in a row that end before a place, until no place is left. With automatic progress some waits are shorter."""
IN_GENERATORS = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""Python lets nothing out of a generator that is thrown away: then the call goes on."""


class Work:
    """Operations of all sorts from one NIC to the other, and messages to itself."""

    def __init__(self, fabric, *, shared=False):
        source, target = fabric.domain(0), fabric.domain(1)
        self.queue, self.peers = source.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED), source.av_open()
        self.endpoint = source.endpoint(tx_size=64)
        self.endpoint.bind(self.queue, BOTH)
        self.endpoint.bind(self.peers)
        if shared:
            self.endpoint.bind(source.stx_context(64))
        self.endpoint.enable()
        self.memory = np.zeros(64, np.uint64)
        self.region = target.mr_reg(self.memory, ALL_ACCESS)
        self.served = target.endpoint(cq=target.cq_open(), av=target.av_open())
        self.peer, self.me = (self.peers.insert(each.getname()) for each in (self.served, self.endpoint))
        self.calls = 0
        self.posted, self.told = set(), []
        self.entries, self.error = [], None

    def post(self, call, *arguments, **options):
        self.calls += 1
        call(*arguments, **options, context=self.calls)
        self.posted.add(self.calls)

    def post_all(self):
        address, key = self.region.address, self.region.key
        there = self.peer, address, key
        self.post(self.endpoint.atomic, ONE, *there, Op.FI_SUM)
        self.post(self.endpoint.write, bytes(64), self.peer, address + 64, key)
        self.post(self.endpoint.fetch_atomic, ONE, np.zeros(1, np.uint64), *there, Op.FI_SUM)
        self.post(self.endpoint.writev, [b"1234", b"56789012"], self.peer, address + 128, key)
        self.post(self.endpoint.write, b"refused!", self.peer, address, key + 1)

    def exchange(self):
        self.post(self.endpoint.trecv, bytearray(8), 1)
        self.post(self.endpoint.tsend, b"messages", self.me, 1)

    def take(self):
        """Take what is there into a list, which :meth:`keep` counts: nothing must come between."""
        try:
            self.entries = self.queue.sread(4, timeout=LONG)
        except ErrorAvailableError:
            self.error = self.queue.readerr()

    def keep(self):
        errors = [] if self.error is None else [self.error]
        self.told += [entry.op_context for entry in (*self.entries, *errors)]
        self.entries, self.error = [], None

    def finish(self):
        """Take everything that is still to come."""
        self.keep()
        deadline = time.monotonic() + LONG
        while missing := self.posted.difference(self.told):
            assert time.monotonic() < deadline, f"{missing} were lost"
            self.take()
            self.keep()


KINDS = pytest.mark.parametrize(("kinds", "stride"), [("model,model", 1), ("rtl,rtl", 23), ("model,rtl", 23)])
"""On the RTL not all places are tried: from one to the next most go through the same lines."""
PROGRESS = pytest.mark.parametrize("progress", list(Progress)[1:], ids=lambda progress: progress.name)


@pytest.fixture
def work(kinds, build_of, progress):
    options = {"host_latency": 40}
    with open_cluster(kinds.split(","), build_of(kinds), progress=progress, rtl_options=options) as fabric:
        made = Work(fabric)
        made.post_all()  # which opens what is opened once
        made.exchange()
        made.finish()
        yield made


def told_once(work):
    """All that was posted has been told of once; a call that was interrupted may have posted something, or not."""
    for _ in range(100):
        with contextlib.suppress(ErrorAvailableError):
            work.entries += work.queue.read(4)
    while (error := work.queue.readerr()) is not None:
        work.error = error
        work.keep()
    work.keep()
    times = collections.Counter(work.told)
    assert set(times.values()) == {1}
    assert work.posted <= set(times) <= set(range(1, work.calls + 1))


@IN_GENERATORS
@KINDS
@PROGRESS
def test_no_completion_is_lost_wherever_a_wait_is_interrupted(work, stride):
    place = quick = waits = 0
    while quick < QUICK:
        waits += 1
        work.post_all()
        work.exchange()
        if interrupted(work.take, place):
            place, quick = place + stride, 0
        else:
            quick += 1
        work.finish()
    assert place > 100
    told_once(work)
    assert work.memory[0] == 2 * (waits + 1)


@IN_GENERATORS
@KINDS
@PROGRESS
def test_a_call_that_is_interrupted_has_posted_its_operation_or_not(work, stride):
    """Neither is a ring entry lost: as many can be posted at the end as the ring has."""
    for place in itertools.count(0, stride):
        if not interrupted(work.post_all, place):
            break
        work.finish()
    work.finish()
    assert place > 100
    told_once(work)
    assert work.endpoint._rings.space == 64


@IN_GENERATORS
def test_a_ring_that_is_shared_loses_no_entry_either():
    with open_cluster(["model", "model"]) as fabric:
        work = Work(fabric, shared=True)
        work.post_all()
        work.finish()
        for place in itertools.count():
            if not interrupted(work.post_all, place):
                break
            work.finish()
        work.finish()
        assert place > 100
        told_once(work)
        rings = work.endpoint._rings
        assert (rings.outstanding, rings.space) == (0, 64)
        assert not rings.busy_with(work.peer)


def test_handlers_are_called_when_it_is_over_in_order_and_all_of_them():
    called = []

    def handle(number, frame):
        called.append(number)
        if number == signal.SIGTERM:
            raise KeyboardInterrupt

    def work():
        for number in (signal.SIGTERM, signal.SIGALRM, signal.SIGTERM):
            signal.raise_signal(number)
        called.append("over")

    for number in (signal.SIGALRM, signal.SIGTERM):
        signal.signal(number, handle)
    with pytest.raises(KeyboardInterrupt):
        uninterrupted(work)
    assert called == ["over", signal.SIGTERM, signal.SIGALRM, signal.SIGTERM]
    assert signal.getsignal(signal.SIGALRM) is signal.getsignal(signal.SIGTERM) is handle


def test_handlers_are_the_programs_own_before_and_afterwards_however_it_ends():
    def fail():
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        raise ZeroDivisionError

    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with pytest.raises(ZeroDivisionError):
        uninterrupted(fail)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    assert uninterrupted(uninterrupted, int, "7") == 7
