"""Operations that wait for a counter, and deferred work: fi_trigger(3)."""

import re
import select
from pathlib import Path

import amoeba
import numpy as np
import pytest
from amoeba import (
    AtomicMsg,
    BindFlags,
    ClosedError,
    CompletionQueue,
    CqFormat,
    DeferredWork,
    Errno,
    ErrorAvailableError,
    Op,
    OpAtomic,
    OpCntr,
    OpCompareAtomic,
    OpFetchAtomic,
    OpFlags,
    OpRma,
    RmaIoc,
    RmaIov,
    RmaMsg,
    TriggeredContext,
    TriggerOp,
    WaitObj,
)

from tests.driver.endpoints import ALL_ACCESS, ON_MODEL, refused

ONE = np.uint64(1)
TRIGGER = OpFlags.FI_TRIGGER


@pytest.fixture
def memory(target):
    return target[0]


@pytest.fixture
def to(pair, target):
    """(dest_addr, addr, key) of the target's first word."""
    return pair[0].peer, target[1].address, target[1].key


@pytest.fixture
def cntr(pair, keep):
    return keep(pair[0].domain.cntr_open())


@pytest.fixture
def done(pair, keep):
    return keep(pair[0].domain.cntr_open())


@pytest.fixture
def counted(pair, keep, cntr):
    """An endpoint whose writes ``cntr`` counts, connected to the target under number 0."""
    domain = pair[0].domain
    queue, peers = keep(domain.cq_open()), keep(domain.av_open())
    endpoint = keep(domain.endpoint(tx_size=16))
    endpoint.bind(queue, BindFlags.FI_TRANSMIT | BindFlags.FI_SELECTIVE_COMPLETION)
    endpoint.bind(peers)
    endpoint.bind(cntr, BindFlags.FI_WRITE)
    endpoint.enable()
    peers.insert(pair[1].endpoint.getname())
    return endpoint


def idle(side):
    """Give operations that wait every chance to start: none does, and none is reported."""
    for _ in range(50):
        assert side.queue.read(4) == []
    assert side.endpoint._rings.outstanding == 0


def write(side, to, value, word=0, **options):
    """RMA write of one word as deferred work describes it."""
    segment = RmaIov(to[1] + 8 * word, 8, to[2])
    return OpRma(side.endpoint, RmaMsg([np.uint64(value)], to[0], [segment]), **options)


# FI_TRIGGER


def test_an_operation_waits_for_its_counter_and_is_reported_with_its_context(pair, to, memory, cntr):
    client = pair[0]
    context = TriggeredContext(cntr, 2)
    client.endpoint.atomic(ONE, *to, Op.FI_SUM, context=context, flags=TRIGGER)
    idle(client)
    cntr.add(1)
    idle(client)
    assert memory[0] == 0
    cntr.add(1)
    assert client.finish().op_context is context
    assert memory[0] == 1


def test_a_triggered_operation_waits_for_another_endpoint_and_reading_its_own_queue_drives_both(
    pair, to, memory, cntr, counted
):
    client = pair[0]
    result = np.zeros(1, np.uint64)
    client.endpoint.fetch_atomic(
        None, result, *to, Op.FI_ATOMIC_READ, context=TriggeredContext(cntr, 3), flags=TRIGGER
    )
    for _ in range(3):
        counted.atomic(np.uint64(5), 0, *to[1:], Op.FI_SUM)
    client.finish()
    assert result[0] == 15


@ON_MODEL
def test_a_counter_that_is_there_already_starts_it_at_once(pair, to, memory, cntr):
    cntr.set(7)
    pair[0].endpoint.write(np.uint64(9), *to, context=TriggeredContext(cntr, 7), flags=TRIGGER)
    assert pair[0].endpoint._rings.outstanding == 1
    pair[0].finish()
    assert memory[0] == 9


@ON_MODEL
def test_thresholds_come_in_their_order_and_equals_in_that_of_submission(pair, to, cntr):
    client = pair[0]
    order = [4, 2, 3, 2, 1, 4]
    contexts = [TriggeredContext(cntr, threshold) for threshold in order]
    for context in contexts:
        client.endpoint.write(bytes(8), *to, context=context, flags=TRIGGER)
    cntr.set(10)
    reported = [client.finish().op_context for _ in order]
    assert [contexts.index(context) for context in reported] == [4, 1, 3, 2, 0, 5]


@ON_MODEL
def test_buffers_are_read_when_the_operation_is_posted(pair, to, memory, cntr):
    client = pair[0]
    small, large = np.zeros(1, np.uint64), np.zeros(4, np.uint64)
    client.endpoint.write(small, *to, context=TriggeredContext(cntr, 1), flags=TRIGGER)
    client.endpoint.write(large, to[0], to[1] + 8, to[2], context=TriggeredContext(cntr, 1), flags=TRIGGER)
    small[0], large[:] = 11, 22
    cntr.add(1)
    client.finish(), client.finish()
    assert memory[:5].tolist() == [11, 22, 22, 22, 22]


@ON_MODEL
@pytest.mark.parametrize(
    "call",
    [
        lambda e, to, **o: e.write(bytes(8), *to, **o),
        lambda e, to, **o: e.writedata(bytes(8), 5, *to, **o),
        lambda e, to, **o: e.writev([bytes(4), bytes(4)], *to, **o),
        lambda e, to, **o: e.read(bytearray(8), *to, **o),
        lambda e, to, **o: e.readv([bytearray(8)], *to, **o),
        lambda e, to, **o: e.atomic(ONE, *to, Op.FI_SUM, **o),
        lambda e, to, **o: e.atomicv([ONE], *to, Op.FI_SUM, **o),
        lambda e, to, **o: e.fetch_atomic(ONE, np.zeros(1, np.uint64), *to, Op.FI_SUM, **o),
        lambda e, to, **o: e.fetch_atomicv([ONE], [np.zeros(1, np.uint64)], *to, Op.FI_SUM, **o),
        lambda e, to, **o: e.compare_atomic(ONE, ONE, np.zeros(1, np.uint64), *to, Op.FI_CSWAP, **o),
    ],
    ids=["write", "writedata", "writev", "read", "readv", "atomic", "atomicv", "fetch", "fetchv", "compare"],
)
def test_every_operation_can_wait(pair, to, cntr, call, keep):
    client, server = pair
    domain = server.domain
    both = BindFlags.FI_TRANSMIT | BindFlags.FI_RECV
    listener = keep(domain.endpoint(cq=keep(domain.cq_open()), av=keep(domain.av_open()), cq_flags=both))
    to = (client.peers.insert(listener.getname()), *to[1:])
    context = TriggeredContext(cntr, 1)
    call(client.endpoint, to, context=context, flags=TRIGGER)
    idle(client)
    cntr.add(1)
    assert client.finish().op_context is context


@ON_MODEL
def test_more_than_the_ring_holds_start_one_after_the_other(pair, to, memory, cntr):
    client = pair[0]
    count = 3 * client.endpoint.tx_size
    for _ in range(count):
        client.endpoint.atomic(ONE, *to, Op.FI_SUM, context=TriggeredContext(cntr, 1), flags=TRIGGER)
    cntr.add(1)
    assert client.endpoint.tx_size_left == 0
    for _ in range(count):
        client.finish()
    assert memory[0] == count


@ON_MODEL
def test_an_alias_can_be_triggerable(pair, to, memory, cntr):
    client = pair[0]
    with client.endpoint.alias(TRIGGER) as alias:
        alias.atomic(ONE, *to, Op.FI_SUM, context=TriggeredContext(cntr, 1))
        with refused(Errno.FI_EINVAL, "TriggeredContext, got NoneType"):
            alias.atomic(ONE, *to, Op.FI_SUM)
        with refused(Errno.FI_EBADFLAGS):
            alias.inject_atomic(ONE, *to, Op.FI_SUM)
        idle(client)
        cntr.add(1)
        client.finish()
    client.endpoint.atomic(ONE, *to, Op.FI_SUM)
    client.finish()
    assert memory[0] == 2


@ON_MODEL
def test_counters_of_the_endpoint_count_it(pair, to, cntr, counted, keep):
    start = keep(pair[0].domain.cntr_open())
    counted.write(bytes(8), 0, *to[1:], context=TriggeredContext(start, 1), flags=TRIGGER)
    start.add(1)
    cntr.wait(1, timeout=30)
    assert (cntr.read(), start.read()) == (1, 1)


@ON_MODEL
def test_wrong_calls_are_refused_when_they_are_made(fabric, pair, to, cntr, keep):
    client = pair[0]
    trigger = {"context": TriggeredContext(cntr, 1), "flags": TRIGGER}
    with refused(Errno.FI_EINVAL, "got str"):
        client.endpoint.write(b"x", *to, context="mine", flags=TRIGGER)
    with refused(Errno.FI_EINVAL, "no address 9"):
        client.endpoint.write(b"x", 9, *to[1:], **trigger)
    with refused(Errno.FI_EBADFLAGS):
        client.endpoint.write(b"x", *to, context=trigger["context"], flags=TRIGGER | OpFlags.FI_INJECT)
    with refused(Errno.FI_EOPNOTSUPP):
        client.endpoint.atomic(ONE, *to, Op.FI_CSWAP, **trigger)
    foreign = keep(keep(fabric.domain(0)).cntr_open())
    with refused(Errno.FI_EINVAL, "another domain"):
        client.endpoint.write(b"x", *to, context=TriggeredContext(foreign, 1), flags=TRIGGER)
    cntr.close()
    with pytest.raises(ClosedError):
        client.endpoint.write(b"x", *to, **trigger)
    assert len(client.domain._deferrals) == 0


@ON_MODEL
def test_what_waits_can_be_cancelled_and_is_reported_as_such(pair, to, memory, cntr):
    client = pair[0]
    first, second = TriggeredContext(cntr, 1), TriggeredContext(cntr, 1)
    for context in (first, second):
        client.endpoint.atomic(ONE, *to, Op.FI_SUM, context=context, flags=TRIGGER)
    client.endpoint.cancel(first)
    failure = client.failure()
    assert (failure.op_context, failure.err, failure.len) == (first, Errno.FI_ECANCELED, 8)
    cntr.add(1)
    assert client.finish().op_context is second
    for context in (first, second):
        with refused(Errno.FI_ENOENT):
            client.endpoint.cancel(context)
    assert memory[0] == 1


@ON_MODEL
def test_an_operation_whose_peer_is_gone_is_cancelled(pair, to, cntr):
    client = pair[0]
    other = client.peers.insert(client.endpoint.getname())
    client.endpoint.write(bytes(8), other, *to[1:], context=TriggeredContext(cntr, 1), flags=TRIGGER)
    client.peers.remove(other)
    cntr.add(1)
    assert client.failure().err == Errno.FI_ECANCELED


@ON_MODEL
def test_an_operation_whose_region_is_gone_is_cancelled_and_others_are_not(pair, to, cntr):
    client, source = pair[0], np.zeros(2, np.uint64)
    local = client.domain.mr_reg(source, ALL_ACCESS)
    client.endpoint.write(source, *to, desc=local, context=TriggeredContext(cntr, 1), flags=TRIGGER)
    client.endpoint.write(source, *to, context=TriggeredContext(cntr, 1), flags=TRIGGER)
    local.close()
    cntr.add(1)
    assert client.failure().err == Errno.FI_ECANCELED
    assert client.finish().len == 16


@ON_MODEL
@pytest.mark.parametrize("interruption", [KeyboardInterrupt, ZeroDivisionError])
def test_an_operation_that_is_interrupted_is_cancelled_and_others_are_not(
    pair, to, memory, cntr, monkeypatch, interruption
):
    """All of them are due at once; the second of them meets something that nobody has foreseen."""
    client = pair[0]
    contexts = [TriggeredContext(cntr, 1) for _ in range(4)]
    for number, context in enumerate(contexts):
        client.endpoint.atomic(np.uint64(10**number), *to, Op.FI_SUM, context=context, flags=TRIGGER)
    rings = type(client.endpoint._rings)
    post, calls = rings.post, []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise interruption
        post(*arguments)

    monkeypatch.setattr(rings, "post", interrupted)
    memory[0] = 0
    with pytest.raises(interruption):
        cntr.add(1)
    assert client.failure().op_context is contexts[1]
    found = [client.finish().op_context for _ in range(3)]
    assert found == [contexts[0], *contexts[2:]]
    assert memory[0] == 1101
    assert not client.domain._deferrals.live


@ON_MODEL
def test_closing_the_counter_cancels_what_waits_for_it(pair, to, cntr):
    context = TriggeredContext(cntr, 1)
    pair[0].endpoint.write(bytes(8), *to, context=context, flags=TRIGGER)
    cntr.close()
    assert pair[0].failure().op_context is context


@ON_MODEL
def test_closing_the_endpoint_drops_what_waits_in_it(pair, to, memory, cntr):
    domain = pair[0].domain
    pair[0].endpoint.atomic(ONE, *to, Op.FI_SUM, context=TriggeredContext(cntr, 1), flags=TRIGGER)
    pair[0].endpoint.close()
    assert not domain._deferrals.live
    cntr.add(1)
    assert memory[0] == 0


@ON_MODEL
def test_an_operation_starts_while_a_counter_is_waited_for(pair, to, memory, cntr, done, counted, keep):
    """Nobody reads the queue of the endpoint that the counter belongs to."""
    result = np.zeros(1, np.uint64)
    msg = AtomicMsg([], to[0], [RmaIoc(to[1], 1, to[2])], Op.FI_ATOMIC_READ, None)
    op = OpFetchAtomic(pair[0].endpoint, msg, [result])
    pair[0].domain.queue_work(DeferredWork(4, cntr, TriggerOp.FI_OP_FETCH_ATOMIC, op, done))
    for _ in range(4):
        counted.atomic(ONE, 0, *to[1:], Op.FI_SUM)
    done.wait(1, timeout=30)
    assert result[0] == 4


# Deferred work


def test_work_is_done_when_its_counter_says_so_and_counted(pair, to, memory, cntr, done):
    client = pair[0]
    client.domain.queue_work(DeferredWork(2, cntr, TriggerOp.FI_OP_WRITE, write(client, to, 7), done))
    cntr.add(1)
    idle(client)
    cntr.add(1)
    done.wait(1, timeout=30)
    assert (memory[0], done.read()) == (7, 1)
    assert client.queue.read() == []


@ON_MODEL
def test_the_example_in_the_documentation_runs(pair, to, memory, cntr, done, counted):
    page = (Path(__file__).parents[4] / "docs" / "libfabric.md").read_text()
    (example,) = re.findall(r"```python\n([^`]*DeferredWork\(.*?)```", page, re.DOTALL)
    result = np.zeros(1, np.uint64)
    for _ in range(2):
        counted.atomic(np.uint64(4), 0, *to[1:], Op.FI_SUM)
    msg = AtomicMsg([ONE], to[0], [RmaIoc(to[1], 1, to[2])], Op.FI_SUM)
    names = {name: getattr(amoeba, name) for name in amoeba.__all__}
    names |= {"writes": cntr, "fetched": done, "endpoint": pair[0].endpoint, "msg": msg, "result": result}
    exec(example, names | {"domain": pair[0].domain})
    assert (result[0], memory[0]) == (8, 9)


@ON_MODEL
def test_every_kind_of_work(pair, to, memory, cntr, done):
    client = pair[0]
    memory[:4] = (10, 20, 30, 40)
    fetched, compared, read = (np.zeros(1, np.uint64) for _ in range(3))

    def atomic(word, op, operand):
        return AtomicMsg([np.uint64(operand)], to[0], [RmaIoc(to[1] + 8 * word, 1, to[2])], op)

    works = [
        (TriggerOp.FI_OP_ATOMIC, OpAtomic(client.endpoint, atomic(0, Op.FI_SUM, 1))),
        (TriggerOp.FI_OP_FETCH_ATOMIC, OpFetchAtomic(client.endpoint, atomic(1, Op.FI_SUM, 2), [fetched])),
        (
            TriggerOp.FI_OP_COMPARE_ATOMIC,
            OpCompareAtomic(client.endpoint, atomic(2, Op.FI_CSWAP, 33), [np.uint64(30)], [compared]),
        ),
        (TriggerOp.FI_OP_READ, OpRma(client.endpoint, RmaMsg([read], to[0], [RmaIov(to[1] + 24, 8, to[2])]))),
        (TriggerOp.FI_OP_WRITE, write(client, to, 55, word=4)),
    ]
    for op_type, op in works:
        client.domain.queue_work(DeferredWork(1, cntr, op_type, op, done))
    cntr.add(1)
    done.wait(len(works), timeout=30)
    assert memory[:5].tolist() == [11, 22, 33, 40, 55]
    assert (fetched[0], compared[0], read[0]) == (20, 30, 40)


@ON_MODEL
def test_a_counters_descriptor_is_readable_while_work_that_it_counts_is_in_flight(pair, to, cntr, keep):
    client = pair[0]
    done = keep(client.domain.cntr_open(WaitObj.FI_WAIT_FD))
    client.domain.queue_work(DeferredWork(1, cntr, TriggerOp.FI_OP_WRITE, write(client, to, 7), done))
    assert done.read() == 0
    assert not select.select([done], [], [], 0)[0]
    cntr.add(1)
    while client.domain._deferrals.live:
        assert select.select([done], [], [], 0)[0]
        done.read()
    assert done.read() == 1
    assert not select.select([done], [], [], 0)[0]


@ON_MODEL
@pytest.mark.parametrize("wait", ["queue", "counter"])
def test_waiting_is_for_the_interrupts_of_what_others_wait_for_too(pair, to, cntr, done, counted, monkeypatch, wait):
    client, armed = pair[0], []
    msg = RmaMsg([bytes(8)], to[0], [RmaIov(to[1], 8, to[2])])
    op = OpRma(client.endpoint, msg, OpFlags.FI_COMPLETION)
    client.domain.queue_work(DeferredWork(1, cntr, TriggerOp.FI_OP_WRITE, op, done))
    arm = CompletionQueue._arm
    monkeypatch.setattr(CompletionQueue, "_arm", lambda queue: armed.append(queue) or arm(queue))
    counted.write(bytes(8), 0, *to[1:])
    if wait == "queue":
        client.finish()
    else:
        done.wait(1, timeout=30)
    assert counted._cq in armed


@ON_MODEL
def test_a_chain_of_work_runs_by_itself(pair, to, memory, keep):
    """Each step's completion starts the next: read a word, write what was read to the following one."""
    client = pair[0]
    memory[0] = 1234
    cntrs = [keep(client.domain.cntr_open()) for _ in range(9)]
    word = np.zeros(1, np.uint64)
    for step in range(4):
        for half, op_type in enumerate((TriggerOp.FI_OP_READ, TriggerOp.FI_OP_WRITE)):
            op = OpRma(client.endpoint, RmaMsg([word], to[0], [RmaIov(to[1] + 8 * (step + half), 8, to[2])]))
            place = 2 * step + half
            client.domain.queue_work(DeferredWork(1, cntrs[place], op_type, op, cntrs[place + 1]))
    cntrs[0].add(1)
    cntrs[-1].wait(1, timeout=30)
    assert memory[:5].tolist() == [1234] * 5
    assert [each.read() for each in cntrs] == [1] * 9


@ON_MODEL
def test_counters_are_set_and_added_to(pair, cntr, done, keep):
    domain = pair[0].domain
    third = keep(domain.cntr_open())
    domain.queue_work(DeferredWork(1, cntr, TriggerOp.FI_OP_CNTR_SET, OpCntr(done, 40)))
    domain.queue_work(DeferredWork(42, done, TriggerOp.FI_OP_CNTR_ADD, OpCntr(third, 5)))
    domain.queue_work(DeferredWork(1, cntr, TriggerOp.FI_OP_CNTR_ADD, OpCntr(done, 2)))
    assert (done.read(), third.read()) == (0, 0)
    cntr.add(1)
    assert (done.read(), third.read()) == (42, 5)
    assert not domain._deferrals.live


@ON_MODEL
def test_work_waits_for_errors_too(pair, to, memory, cntr, done):
    pair[0].domain.queue_work(DeferredWork(3, cntr, TriggerOp.FI_OP_WRITE, write(pair[0], to, 7), done))
    cntr.add(2)
    assert done.read() == 0
    cntr.adderr(1)
    done.wait(1, timeout=30)
    assert memory[0] == 7


@ON_MODEL
def test_work_is_reported_and_counted_by_its_endpoint_only_if_it_asks_for_it(pair, to, cntr, done, counted):
    endpoint, queue = counted, counted._cq
    start = done

    def queue_write(context, flags):
        msg = RmaMsg([bytes(8)], 0, [RmaIov(to[1], 8, to[2])], context=context)
        op = OpRma(endpoint, msg, flags)
        pair[0].domain.queue_work(DeferredWork(1, start, TriggerOp.FI_OP_WRITE, op))

    queue_write("silent", OpFlags(0))
    queue_write("loud", OpFlags.FI_COMPLETION)
    start.add(1)
    entries = []
    while pair[0].domain._deferrals.live:
        entries += queue.read(4)
    entries += queue.read(4)
    assert [entry.op_context for entry in entries] == ["loud"]
    assert cntr.read() == 1


@ON_MODEL
def test_work_that_fails_is_an_error_of_its_counter_and_of_its_queue(pair, to, cntr, done):
    client = pair[0]
    segment = RmaIov(to[1], 8, to[2] ^ 1)
    op = OpRma(client.endpoint, RmaMsg([bytes(8)], to[0], [segment], context="work"))
    client.domain.queue_work(DeferredWork(0, cntr, TriggerOp.FI_OP_WRITE, op, done))
    with pytest.raises(ErrorAvailableError):
        done.wait(1, timeout=30)
    assert (done.read(), done.readerr()) == (0, 1)
    failure = client.failure()
    assert (failure.op_context, failure.err) == ("work", Errno.FI_ENOKEY)


@ON_MODEL
def test_cancelled_work_is_not_done_nor_reported(pair, to, memory, cntr, done):
    client = pair[0]
    works = [DeferredWork(1, cntr, TriggerOp.FI_OP_WRITE, write(client, to, 7, word), done) for word in range(2)]
    for work in works:
        client.domain.queue_work(work)
    with refused(Errno.FI_EALREADY):
        client.domain.queue_work(works[0])
    client.domain.cancel_work(works[0])
    with refused(Errno.FI_ENOENT):
        client.domain.cancel_work(works[0])
    cntr.add(1)
    done.wait(1, timeout=30)
    with refused(Errno.FI_ENOENT):
        client.domain.cancel_work(works[1])
    assert memory[:2].tolist() == [0, 7]
    assert (done.read(), done.readerr()) == (1, 0)
    client.domain.queue_work(works[0])  # now there is time for it
    done.wait(2, timeout=30)
    assert memory[0] == 7


@ON_MODEL
def test_flushing_cancels_all_work_or_that_of_one_counter_and_no_triggered_operations(
    pair, to, memory, cntr, done, keep
):
    client, domain = pair[0], pair[0].domain
    other = keep(domain.cntr_open())
    for word, counter in enumerate((cntr, other, other)):
        domain.queue_work(DeferredWork(1, counter, TriggerOp.FI_OP_WRITE, write(client, to, 9, word), done))
    client.endpoint.write(np.uint64(8), to[0], to[1] + 24, to[2], context=TriggeredContext(cntr, 1), flags=TRIGGER)
    domain.flush_work(other)
    other.add(1)
    assert len(domain._deferrals) == 2
    domain.flush_work()
    cntr.add(1)
    client.finish()
    assert memory[:4].tolist() == [0, 1, 2, 8]
    assert done.read() == 0


@ON_MODEL
def test_work_of_other_kinds_or_domains_is_refused(fabric, pair, to, cntr, done, keep):
    client, domain = pair[0], pair[0].domain
    op = write(client, to, 1)
    foreign = keep(keep(fabric.domain(0)).cntr_open())
    for number, work in (
        (Errno.FI_EINVAL, DeferredWork(1, cntr, TriggerOp.FI_OP_TSEND, op)),
        (Errno.FI_EINVAL, DeferredWork(1, cntr, TriggerOp.FI_OP_ATOMIC, op)),
        (Errno.FI_EINVAL, DeferredWork(1, cntr, TriggerOp.FI_OP_CNTR_ADD, OpCntr(done, 1), done)),
        (Errno.FI_EINVAL, DeferredWork(1, cntr, TriggerOp.FI_OP_CNTR_SET, OpCntr(done, -1))),
        (Errno.FI_EINVAL, DeferredWork(1, foreign, TriggerOp.FI_OP_WRITE, op)),
        (Errno.FI_EINVAL, DeferredWork(1, cntr, TriggerOp.FI_OP_WRITE, op, foreign)),
        (Errno.FI_EINVAL, DeferredWork(1, cntr, TriggerOp.FI_OP_CNTR_ADD, OpCntr(foreign, 1))),
        (Errno.FI_EINVAL, DeferredWork(1, cntr, TriggerOp.FI_OP_WRITE, write(pair[1], to, 1))),
    ):
        with refused(number):
            domain.queue_work(work)
    assert len(domain._deferrals) == 0


@ON_MODEL
def test_buffers_live_until_the_work_is_done(pair, to, memory, cntr, done):
    buffer = np.full(4, 6, np.uint64)
    op = OpRma(pair[0].endpoint, RmaMsg([buffer], to[0], [RmaIov(to[1], 32, to[2])]))
    pair[0].domain.queue_work(DeferredWork(1, cntr, TriggerOp.FI_OP_WRITE, op, done))
    del buffer, op
    np.full(4, 7, np.uint64)
    cntr.add(1)
    done.wait(1, timeout=30)
    assert memory[:4].tolist() == [6] * 4


@ON_MODEL
def test_work_through_a_shared_ring_and_a_transmit_context(pair, to, memory, cntr, done, keep):
    domain = pair[0].domain
    context = keep(domain.stx_context())
    endpoint = keep(domain.endpoint())
    queue, peers = keep(domain.cq_open(CqFormat.FI_CQ_FORMAT_MSG)), keep(domain.av_open())
    for thing in (context, queue, peers):
        endpoint.bind(thing)
    endpoint.enable()
    number = peers.insert(pair[1].endpoint.getname())
    op = OpRma(endpoint, RmaMsg([np.uint64(3)], number, [RmaIov(to[1], 8, to[2])]))
    domain.queue_work(DeferredWork(1, cntr, TriggerOp.FI_OP_WRITE, op, done))
    cntr.add(1)
    done.wait(1, timeout=30)
    assert memory[0] == 3
