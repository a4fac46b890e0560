"""Receives that wait for a counter, and messages as deferred work: fi_trigger(3).

Covers ``libfabric/objects/deferral.py`` and ``libfabric/objects/deferred_work.py``.
"""

import gc
import itertools
import time
import weakref

import numpy as np
import pytest
from amoeba import (
    Caps,
    CqTaggedEntry,
    DeferredWork,
    Errno,
    ErrorAvailableError,
    MrAccess,
    Msg,
    OpCntr,
    OpFlags,
    OpMsg,
    OpRma,
    OpTagged,
    RmaMsg,
    TaggedMsg,
    TriggeredContext,
    TriggerOp,
)

from tests.driver.endpoints import ON_MODEL, aligned, entries, idle, make_counted_talker, make_talker, refused

TRIGGER = OpFlags.FI_TRIGGER
NO_FLAGS = OpFlags(0)
TAG = 0x7A6
LENGTHS = pytest.mark.parametrize("length", [5, 9000], ids=["short", "long"])


def text(length):
    return bytes(1 + number % 251 for number in range(length))


@pytest.fixture
def cntr(talkers, keep):
    return keep(talkers[0].domain.cntr_open())


@pytest.fixture
def done(talkers, keep):
    return keep(talkers[0].domain.cntr_open())


@pytest.fixture
def counted(talkers, keep):
    """(a talker on the first NIC, the counter of its receives, that of its sends), which the other knows as 1."""
    one, other = talkers
    endpoint, queue, peers, receives, sends = make_counted_talker(one.domain, keep)
    peers.insert(other.endpoint.getname())
    assert other.peers.insert(endpoint.getname()) == 1
    return endpoint, queue, receives, sends


def hear(queue, count, *others):
    """The next ``count`` entries of a queue, while others are read, which must have none."""
    found = []
    deadline = time.monotonic() + 30
    while len(found) < count and time.monotonic() < deadline:
        found += queue.read(count)
        assert [entry for other in others for entry in other.read()] == []
    return found


def receive_work(side, cntr, done, buffer, *, threshold=1, flags=NO_FLAGS, context=None):
    op = OpMsg(side.endpoint, Msg([buffer], context=context), flags)
    return DeferredWork(threshold, cntr, TriggerOp.FI_OP_RECV, op, done)


# FI_TRIGGER


@LENGTHS
def test_a_receive_waits_for_its_counter_and_is_reported_with_its_context(talkers, cntr, length):
    one, other = talkers
    buffer, context = bytearray(length), TriggeredContext(cntr, 1)
    one.endpoint.recv(buffer, context=context, flags=TRIGGER)
    other.endpoint.send(text(length), other.peer)
    assert idle(one) == []
    assert one.endpoint.rx_size_left == 64
    assert not any(buffer)
    cntr.add(1)
    assert entries(one.queue, 1) == [CqTaggedEntry(context, Caps.FI_MSG | Caps.FI_RECV, length, 0, 0, 0)]
    assert buffer == text(length)
    other.finish()


@ON_MODEL
def test_every_receive_can_wait(talkers, cntr):
    one, other = talkers
    buffers, contexts = [bytearray(4) for _ in range(6)], [TriggeredContext(cntr, 1) for _ in range(6)]
    one.endpoint.recv(buffers[0], context=contexts[0], flags=TRIGGER)
    one.endpoint.recvv([memoryview(buffers[1])[:1], memoryview(buffers[1])[1:]], context=contexts[1], flags=TRIGGER)
    one.endpoint.recvmsg(Msg([buffers[2]], context=contexts[2]), TRIGGER)
    one.endpoint.trecv(buffers[3], TAG, context=contexts[3], flags=TRIGGER)
    one.endpoint.trecvv([buffers[4]], TAG, context=contexts[4], flags=TRIGGER)
    one.endpoint.trecvmsg(TaggedMsg([buffers[5]], one.peer, TAG, context=contexts[5]), TRIGGER)
    for number in range(3):
        other.endpoint.inject(bytes([number] * 4), other.peer)
        other.endpoint.tinject(bytes([number + 3] * 4), other.peer, TAG)
    assert idle(one) == []
    cntr.add(1)
    told = {entry.op_context for entry in entries(one.queue, 6)}
    assert told == set(contexts)
    assert buffers == [bytearray([number] * 4) for number in range(6)]


@ON_MODEL
def test_receives_are_posted_in_the_order_of_their_thresholds(talkers, cntr):
    one, other = talkers
    order = [3, 1, 2, 1]
    contexts = [TriggeredContext(cntr, threshold) for threshold in order]
    for context in contexts:
        one.endpoint.recv(bytearray(1), context=context, flags=TRIGGER)
    for _ in order:
        other.endpoint.inject(b"x", other.peer)
    cntr.set(3)
    told = [contexts.index(entry.op_context) for entry in entries(one.queue, 4)]
    assert told == [1, 3, 2, 0]


@ON_MODEL
def test_more_receives_than_the_nic_keeps_are_posted_at_once(talkers, cntr):
    one, other = talkers
    buffers = [bytearray(1) for _ in range(100)]
    for number, buffer in enumerate(buffers):
        one.endpoint.recv(buffer, context=TriggeredContext(cntr, number // 50), flags=TRIGGER)
    cntr.add(2)
    assert one.endpoint.rx_size_left == 0
    for number in range(100):
        other.endpoint.send(bytes([number]), other.peer)
        other.finish()
        entries(one.queue, 1)
    assert buffers == [bytearray([number]) for number in range(100)]


@ON_MODEL
def test_a_receive_that_waits_is_cancelled_by_its_context(talkers, cntr):
    one, other = talkers
    contexts = [TriggeredContext(cntr, 1) for _ in range(2)]
    buffers = [bytearray(1), bytearray(1)]
    for context, buffer in zip(contexts, buffers, strict=True):
        one.endpoint.recv(buffer, context=context, flags=TRIGGER)
    one.endpoint.cancel(contexts[0])
    failure = one.failure()
    assert (failure.op_context, failure.err, failure.len) == (contexts[0], Errno.FI_ECANCELED, 0)
    assert failure.flags == Caps.FI_MSG | Caps.FI_RECV
    with refused(Errno.FI_ENOENT):
        one.endpoint.cancel(contexts[0])
    other.endpoint.inject(b"!", other.peer)
    cntr.add(1)
    assert one.finish().op_context is contexts[1]
    assert buffers == [b"\0", b"!"]


@ON_MODEL
def test_a_receive_is_cancelled_after_it_was_posted_too(talkers, cntr):
    one, _ = talkers
    context = TriggeredContext(cntr, 0)
    one.endpoint.recv(bytearray(1), context=context, flags=TRIGGER)
    assert one.endpoint.rx_size_left == 63
    one.endpoint.cancel(context)
    assert one.failure().op_context is context
    assert len(one.domain._deferrals.live) == 0


@ON_MODEL
def test_a_receive_whose_region_is_gone_is_cancelled(talkers, cntr, keep):
    one, _ = talkers
    buffer = bytearray(8)
    region = keep(one.domain.mr_reg(buffer, MrAccess.FI_RECV))
    context = TriggeredContext(cntr, 1)
    one.endpoint.recv(buffer, desc=region, context=context, flags=TRIGGER)
    region.close()
    cntr.add(1)
    failure = one.failure()
    assert (failure.op_context, failure.err) == (context, Errno.FI_ECANCELED)


@ON_MODEL
def test_receives_that_wait_are_counted_when_they_are_done(counted, talkers, cntr):
    endpoint, queue, receives, _ = counted
    endpoint.recv(bytearray(3), context=TriggeredContext(cntr, 1), flags=TRIGGER)
    talkers[1].endpoint.inject(b"abc", 1)
    assert queue.read() == []
    assert receives.read() == 0
    cntr.add(1)
    receives.wait(1, timeout=30)
    endpoint.recv(bytearray(3), context=(context := TriggeredContext(cntr, 2)), flags=TRIGGER)
    endpoint.cancel(context)
    assert receives.readerr() == 1


@ON_MODEL
@pytest.mark.parametrize("posted", [False, True], ids=["waiting", "posted"])
def test_closing_the_endpoint_drops_its_receives(fabric, talkers, cntr, done, keep, posted):
    one, _ = talkers
    users = fabric.nics[0].dma._users
    side = keep(make_talker(one.domain))
    before = set(users)
    buffer = np.zeros(64, np.uint8)
    gone = weakref.ref(buffer)
    side.endpoint.recv(buffer, context=TriggeredContext(cntr, 1), flags=TRIGGER)
    one.domain.queue_work(receive_work(side, cntr, done, buffer))
    cntr.add(int(posted))
    assert len(one.domain._deferrals.live) == 2
    assert (set(users) != before) is posted
    side.endpoint.close()
    cntr.add(1)
    assert len(one.domain._deferrals.live) == 0
    assert done.read() == done.readerr() == 0
    del buffer
    gc.collect()
    assert gone() is None


@ON_MODEL
def test_wrong_receives_are_refused_when_they_are_called(fabric, talkers, cntr, keep):
    one, _ = talkers
    elsewhere = TriggeredContext(keep(keep(fabric.domain(0)).cntr_open()), 0)
    search = TaggedMsg([], one.peer, TAG, context=TriggeredContext(cntr, 1))
    for number, call in (
        (Errno.FI_EINVAL, lambda: one.endpoint.recv(bytearray(1), context="mine", flags=TRIGGER)),
        (
            Errno.FI_EINVAL,
            lambda: one.endpoint.recv(bytearray(1), context=elsewhere, flags=TRIGGER),
        ),
        (Errno.FI_EINVAL, lambda: one.endpoint.recv(b"x", context=TriggeredContext(cntr, 0), flags=TRIGGER)),
        (Errno.FI_EBADFLAGS, lambda: one.endpoint.trecvmsg(search, TRIGGER | OpFlags.FI_PEEK)),
        (Errno.FI_EBADFLAGS, lambda: one.endpoint.trecvmsg(search, TRIGGER | OpFlags.FI_CLAIM)),
    ):
        with refused(number):
            call()
    assert len(one.domain._deferrals) == 0
    assert one.endpoint.rx_size_left == 64


# Deferred work


@pytest.mark.parametrize("tagged", [False, True], ids=["untagged", "tagged"])
@LENGTHS
def test_sends_and_receives_are_done_by_their_counters_and_nobody_else_is_notified_of_them(
    counted, talkers, cntr, done, keep, length, tagged
):
    endpoint, queue, receives, sends = counted
    other = talkers[1]
    received, answer = bytearray(length), bytearray(length)
    answered = keep(talkers[0].domain.cntr_open())

    def work(threshold, waits, kind, buffer, counts):
        op = OpTagged(endpoint, TaggedMsg([buffer], 0, TAG)) if tagged else OpMsg(endpoint, Msg([buffer], 0))
        return DeferredWork(threshold, waits, TriggerOp[f"FI_OP_{'T' * tagged}{kind}"], op, counts)

    # what comes in goes back
    domain = endpoint.domain
    domain.queue_work(work(1, cntr, "RECV", received, done))
    domain.queue_work(work(1, done, "SEND", received, answered))
    if tagged:
        other.endpoint.trecv(answer, TAG, context="answer")
        other.endpoint.tsend(text(length), 1, TAG, context="question")
    else:
        other.endpoint.recv(answer, context="answer")
        other.endpoint.send(text(length), 1, context="question")
    assert queue.read() == []
    assert (done.read(), any(received)) == (0, False)
    cntr.add(1)
    assert {entry.op_context for entry in hear(other.queue, 2, queue)} == {"question", "answer"}
    answered.wait(1, timeout=30)
    assert (received, answer) == (text(length), text(length))
    assert (done.read(), done.readerr(), answered.readerr()) == (1, 0, 0)
    assert (receives.read(), sends.read()) == (0, 0)
    assert queue.read() == []


@ON_MODEL
@LENGTHS
def test_work_is_reported_and_counted_by_its_endpoint_if_it_asks_for_it(counted, talkers, cntr, done, length):
    endpoint, queue, receives, sends = counted
    other, domain = talkers[1], endpoint.domain
    report = OpFlags.FI_COMPLETION
    for kind, op in (
        (TriggerOp.FI_OP_RECV, OpMsg(endpoint, Msg([bytearray(length)], context="in"), report)),
        (TriggerOp.FI_OP_SEND, OpMsg(endpoint, Msg([text(length)], 0, context="out"), report)),
    ):
        domain.queue_work(DeferredWork(1, cntr, kind, op, done))
    other.endpoint.recv(bytearray(length))
    other.endpoint.inject(bytes(5), 1)
    cntr.add(1)
    hear(other.queue, 1)
    assert {entry.op_context for entry in hear(queue, 2)} == {"in", "out"}
    done.wait(2, timeout=30)
    assert (receives.read(), sends.read()) == (1, 1)


@ON_MODEL
def test_a_broadcast_runs_down_a_chain_of_work_alone(talkers, keep):
    """Receive, pass on, tell: application code runs before and after only."""
    one, other = talkers
    hops = 5
    tokens, received = [bytearray(8), bytearray(8)], []
    for side, token in zip(talkers, tokens, strict=True):
        counters = [keep(side.domain.cntr_open()) for _ in range(hops + 1)]
        for before, after in itertools.pairwise(counters):
            message = OpMsg(side.endpoint, Msg([token], side.peer))
            side.domain.queue_work(DeferredWork(1, before, TriggerOp.FI_OP_RECV, message, after))
            side.domain.queue_work(DeferredWork(1, after, TriggerOp.FI_OP_SEND, message))
        counters[0].add(1)
        received.append(counters)
    one.endpoint.inject(b"the word", one.peer)
    while received[0][-1].read() < 1:
        assert other.queue.read() == []
    assert tokens == [b"the word"] * 2
    assert [counter.read() for counters in received for counter in counters] == [1] * (2 * hops + 2)


@ON_MODEL
def test_cancelled_work_receives_nothing(talkers, cntr, done):
    one, other = talkers
    works = [receive_work(one, cntr, done, bytearray(1)) for _ in range(4)]
    for work in works:
        one.domain.queue_work(work)
    with refused(Errno.FI_EALREADY):
        one.domain.queue_work(works[0])
    one.domain.cancel_work(works[0])
    with refused(Errno.FI_ENOENT):
        one.domain.cancel_work(works[0])
    one.domain.flush_work(done)
    cntr.add(1)
    assert one.endpoint.rx_size_left == 61
    with refused(Errno.FI_ENOENT, "it was started"):
        one.domain.cancel_work(works[1])
    one.domain.queue_work(receive_work(one, cntr, done, bytearray(1), threshold=2))
    one.domain.flush_work(cntr)
    cntr.add(1)
    assert one.endpoint.rx_size_left == 61
    for _ in range(3):
        other.endpoint.inject(b"x", other.peer)
    done.wait(3, timeout=30)
    assert idle(one) == []


@ON_MODEL
def test_work_that_was_posted_is_cancelled_as_a_receive_and_is_an_error_of_its_counter(talkers, cntr, done):
    one, _ = talkers
    one.domain.queue_work(receive_work(one, cntr, done, bytearray(1), threshold=0, context="mine"))
    one.endpoint.cancel("mine")
    failure = one.failure()
    assert (failure.op_context, failure.err) == ("mine", Errno.FI_ECANCELED)
    assert (done.read(), done.readerr()) == (0, 1)


@ON_MODEL
def test_a_message_that_does_not_fit_is_an_error_of_its_counter(talkers, cntr, done):
    one, other = talkers
    buffer = bytearray(3)
    one.domain.queue_work(receive_work(one, cntr, done, buffer, threshold=0))
    other.endpoint.inject(b"hello", other.peer)
    failure = one.failure()
    assert (failure.err, failure.len, failure.olen) == (Errno.FI_ETRUNC, 3, 2)
    assert (buffer, done.read(), done.readerr()) == (b"hel", 0, 1)


@ON_MODEL
def test_a_buffer_of_several_messages_is_counted_when_it_is_released(talkers, cntr, done):
    one, other = talkers
    buffer = aligned(67)
    work = receive_work(one, cntr, done, buffer, flags=OpFlags.FI_MULTI_RECV, context="mine")
    one.domain.queue_work(work)
    cntr.add(1)
    for message in (b"one", b"two"):
        assert done.read() == 0
        other.endpoint.send(message, other.peer)
        other.finish()
    (entry,) = entries(one.queue, 1)
    assert (entry.op_context, entry.flags & Caps.FI_MULTI_RECV) == ("mine", Caps.FI_MULTI_RECV)
    assert (done.read(), bytes(buffer[:3]), bytes(buffer[64:])) == (1, b"one", b"two")
    assert idle(one) == []


@ON_MODEL
def test_a_receive_context_of_a_scalable_endpoint_takes_work(fabric, talkers, keep):
    other = talkers[1]
    domain = keep(fabric.domain(0))
    scalable, queue, peers = keep(domain.scalable_endpoint()), keep(domain.cq_open()), keep(domain.av_open())
    cntr, done = keep(domain.cntr_open()), keep(domain.cntr_open())
    scalable.bind(peers)
    context = keep(scalable.rx_context(0))
    context.bind(queue)
    context.enable()
    number = other.peers.insert(scalable.getname())
    buffer, waiting = bytearray(5), TriggeredContext(cntr, 2)
    op = OpMsg(context, Msg([buffer]))
    domain.queue_work(DeferredWork(1, cntr, TriggerOp.FI_OP_RECV, op, done))
    context.recv(bytearray(5), context=waiting, flags=TRIGGER)
    other.endpoint.inject(b"hello", number)
    cntr.add(1)
    done.wait(1, timeout=30)
    assert buffer == b"hello"
    context.cancel(waiting)
    with pytest.raises(ErrorAvailableError):
        queue.read()
    assert queue.readerr().op_context is waiting
    with refused(Errno.FI_EINVAL, "an endpoint that sends"):
        domain.queue_work(DeferredWork(1, cntr, TriggerOp.FI_OP_SEND, op, done))
    context.close()
    assert len(domain._deferrals.live) == 0


@ON_MODEL
def test_work_of_other_kinds_is_refused(talkers, cntr, done):
    one, other = talkers
    message, tagged = Msg([b"x"], one.peer), TaggedMsg([b"x"], one.peer, TAG)
    for number, kind, op in (
        (Errno.FI_ENOSYS, 99, OpMsg(one.endpoint, message)),
        (Errno.FI_EINVAL, TriggerOp.FI_OP_SEND, OpTagged(one.endpoint, tagged)),
        (Errno.FI_EINVAL, TriggerOp.FI_OP_TRECV, OpMsg(one.endpoint, message)),
        (Errno.FI_EINVAL, TriggerOp.FI_OP_TSEND, OpRma(one.endpoint, RmaMsg([], 0, []))),
        (Errno.FI_EINVAL, TriggerOp.FI_OP_RECV, OpCntr(done, 1)),
        (Errno.FI_EINVAL, TriggerOp.FI_OP_SEND, OpMsg(other.endpoint, message)),
        (Errno.FI_EINVAL, TriggerOp.FI_OP_SEND, OpMsg(one.endpoint, Msg([b"x"], 99))),
        (Errno.FI_EINVAL, TriggerOp.FI_OP_RECV, OpMsg(one.endpoint, message)),
        (Errno.FI_EBADFLAGS, TriggerOp.FI_OP_SEND, OpMsg(one.endpoint, message, OpFlags.FI_INJECT)),
        (Errno.FI_EBADFLAGS, TriggerOp.FI_OP_TRECV, OpTagged(one.endpoint, tagged, OpFlags.FI_PEEK)),
    ):
        with refused(number):
            one.domain.queue_work(DeferredWork(1, cntr, kind, op, done))
    assert len(one.domain._deferrals) == 0
