"""Operations, counters and events awaited by asyncio programs.

Covers ``aio.py``, ``libfabric/asyncio/queue.py`` and ``libfabric/asyncio/waiters.py``.
"""

import asyncio
import contextlib
import gc
import re
import socket
import textwrap
import weakref
from pathlib import Path

import amoeba
import numpy as np
import pytest
from amoeba import (
    AtomicMsg,
    BindFlags,
    Caps,
    CqFormat,
    CqMsgEntry,
    Datatype,
    DeferredWork,
    EpType,
    EqFlags,
    Errno,
    ErrorAvailableError,
    Op,
    OpFlags,
    OpRma,
    RmaIoc,
    RmaIov,
    RmaMsg,
    TimedOutError,
    TriggeredContext,
    TriggerOp,
    WaitObj,
)
from amoeba.aio import AsyncCompletionQueue, AsyncEndpoint, read_event, wait_counter, wait_set
from amoeba_model.device import DeviceClosedError

from tests.driver.endpoints import ALL_ACCESS, ON_MODEL, refused
from tests.driver.libfabric.asyncio.loops import Awaitable, in_loop

ONE = np.uint64(1)


@pytest.fixture
def client(pair, target, keep):
    return Awaitable(pair, target[1], keep)


@pytest.fixture
def remote(client):
    return client.remote


@in_loop
async def test_an_awaited_operation_is_done_and_returns_its_entry(client, remote, target):
    found = np.zeros(1, np.uint64)
    entry = await remote.fetch_atomic(np.uint64(5), found, *client.to, Op.FI_SUM, context="mine")
    assert isinstance(entry, CqMsgEntry)
    assert (entry.op_context, entry.len) == ("mine", 8)
    assert (found[0], target[0][0]) == (0, 5)
    assert await remote.write(bytes(16), *client.to) == CqMsgEntry(None, Caps.FI_RMA | Caps.FI_WRITE, 16)


def message(kind, to, buffers, **options):
    segment = RmaIoc(to[1], 1, to[2]) if kind is AtomicMsg else RmaIov(to[1], 8, to[2])
    return kind(buffers, to[0], [segment], **options, context="c")


@ON_MODEL
def test_the_example_in_the_documentation_runs(pair, target, keep):
    page = (Path(__file__).parents[4] / "docs" / "libfabric.md").read_text()
    (example,) = re.findall(r"```python\n([^`]*from amoeba import aio.*?)```", page, re.DOTALL)
    domain, region = pair[0].domain, target[1]
    names = {"np": np, "domain": domain, "peers": keep(domain.av_open()), "found": np.ones(1, np.uint64)}
    names["peer"] = names["peers"].insert(pair[1].endpoint.getname())
    names |= {"address": region.address, "key": region.key} | {name: getattr(amoeba, name) for name in amoeba.__all__}
    exec("async def main():\n" + textwrap.indent(example, "    ") + "    return endpoint, queue, entry", names)
    endpoint, queue, entry = asyncio.run(names["main"]())
    with queue, endpoint:
        assert (entry.len, names["found"][0], target[0][0]) == (8, 0, 1)


@ON_MODEL
@pytest.mark.parametrize(
    "call",
    [
        lambda e, to, o: e.write(o, *to, context="c"),
        lambda e, to, o: e.writev([o], *to, context="c"),
        lambda e, to, o: e.writemsg(message(RmaMsg, to, [o]), OpFlags.FI_FENCE),
        lambda e, to, o: e.read(o, *to, context="c"),
        lambda e, to, o: e.readv([o], *to, context="c"),
        lambda e, to, o: e.readmsg(message(RmaMsg, to, [o])),
        lambda e, to, o: e.atomic(o, *to, Op.FI_SUM, context="c"),
        lambda e, to, o: e.atomic(o, *to, Op.FI_SUM, Datatype.FI_UINT64, context="c", flags=OpFlags.FI_FENCE),
        lambda e, to, o: e.atomicv([o], *to, Op.FI_SUM, context="c"),
        lambda e, to, o: e.atomicmsg(message(AtomicMsg, to, [o], op=Op.FI_SUM)),
        lambda e, to, o: e.fetch_atomic(o, o.copy(), *to, Op.FI_SUM, context="c"),
        lambda e, to, o: e.fetch_atomicv([o], [o.copy()], *to, Op.FI_SUM, context="c"),
        lambda e, to, o: e.fetch_atomicmsg(message(AtomicMsg, to, [o], op=Op.FI_SUM), [o.copy()]),
        lambda e, to, o: e.compare_atomic(o, o.copy(), o.copy(), *to, Op.FI_CSWAP, context="c"),
        lambda e, to, o: e.compare_atomicv([o], [o.copy()], [o.copy()], *to, Op.FI_CSWAP, context="c"),
        lambda e, to, o: e.compare_atomicmsg(message(AtomicMsg, to, [o], op=Op.FI_CSWAP), [o.copy()], [o.copy()]),
    ],
)
@in_loop
async def test_every_operation_can_be_awaited(client, remote, call):
    entry = await call(remote, client.to, np.ones(1, np.uint64))
    assert (entry.op_context, entry.len) == ("c", 8)
    with refused(Errno.FI_ENOKEY):
        await call(remote, client.wrong, np.ones(1, np.uint64))


@ON_MODEL
@in_loop
async def test_immediate_data_is_sent_and_read(pair, client, remote, keep):
    server = pair[1].domain
    queue = keep(server.cq_open(CqFormat.FI_CQ_FORMAT_DATA, WaitObj.FI_WAIT_FD))
    peers = keep(server.av_open())
    listener = keep(server.endpoint(cq=queue, av=peers, cq_flags=BindFlags.FI_TRANSMIT | BindFlags.FI_RECV))
    assert peers.insert(client.endpoint.getname()) == 0
    region = keep(server.mr_reg(bytearray(8), ALL_ACCESS))
    to = (client.peers.insert(listener.getname()), region.address, region.key)
    async with AsyncCompletionQueue(queue) as told:
        waiting = asyncio.create_task(told.readfrom(8))
        await remote.writedata(bytes(8), 77, *to)
        ((entry, source),) = await waiting
        assert (entry.data, source) == (77, 0)
        await remote.inject_writedata(b"x", 78, *to)
        assert [entry.data for entry in await told.read(8)] == [78]


@ON_MODEL
@in_loop
async def test_what_may_be_posted_is_awaited_by_more_tasks_than_the_ring_has_space_for(client, remote, target):
    count = 10 * client.endpoint.tx_size
    results = [np.zeros(1, np.uint64) for _ in range(count)]
    await asyncio.gather(*(remote.fetch_atomic(ONE, result, *client.to, Op.FI_SUM) for result in results))
    assert [int(result[0]) for result in results] == list(range(count))  # posted in turn
    assert target[0][0] == count


@ON_MODEL
@in_loop
async def test_injections_wait_for_space_only(client, remote, target):
    for _ in range(5 * client.endpoint.tx_size):
        await remote.inject_atomic(ONE, *client.to, Op.FI_SUM)
    await remote.inject_write(b"\7", client.to[0], client.to[1] + 8, client.to[2])
    await remote.read(bytearray(8), *client.to)
    assert target[0][:2].tolist() == [5 * client.endpoint.tx_size, 7]


@in_loop
async def test_other_tasks_run_while_one_waits(client, remote):
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    await remote.write(bytes(64), *client.to)
    ticking.cancel()
    assert ticks > 1


@ON_MODEL
@in_loop
async def test_a_failure_is_raised_where_it_is_awaited_and_nowhere_else(client, remote, target):
    good, bad = (asyncio.create_task(remote.write(bytes(16), *to)) for to in (client.to, client.wrong))
    assert (await good).len == 16
    with refused(Errno.FI_ENOKEY, "BAD_MKEY"):
        await bad
    with refused(Errno.FI_EINVAL):
        await remote.write(b"x", 99, *client.to[1:])
    assert client.completions.outstanding == 0
    await remote.write(bytes(16), *client.to)


@ON_MODEL
@in_loop
async def test_a_cancelled_task_leaves_its_operation_and_buffer_to_the_nic(client, remote, target):
    memory, _ = target
    result = np.zeros(64, np.uint64)
    gone = weakref.ref(result)
    task = asyncio.create_task(remote.read(result, *client.to))
    del result
    while not client.completions.outstanding:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    del task
    gc.collect()
    assert gone() is not None
    await client.completions.drain()
    gc.collect()
    assert gone() is None
    await remote.atomic(ONE, *client.to, Op.FI_SUM)
    assert memory[0] == 1


@ON_MODEL
@in_loop
async def test_a_task_that_is_cancelled_while_it_waits_for_space_has_posted_nothing(client, remote, target):
    memory, _ = target
    for _ in range(client.endpoint.tx_size):
        client.endpoint.atomic(ONE, *client.to, Op.FI_SUM)
    tasks = [asyncio.create_task(remote.atomic(ONE, *client.to, Op.FI_SUM)) for _ in range(3)]
    await asyncio.sleep(0)
    for task in tasks[:2]:
        task.cancel()
    await asyncio.wait(tasks)
    assert [task.cancelled() for task in tasks] == [True, True, False]
    assert memory[0] == client.endpoint.tx_size + 1


@ON_MODEL
@in_loop
async def test_waiting_ends_with_its_time_and_the_operation_goes_on(fabric, client, target):
    memory, _ = target
    impatient = client.completions.endpoint(client.endpoint, timeout=0.02)
    fabric.network.pause(fabric.devices[1])
    with pytest.raises(TimedOutError, match=r"^FI_ETIMEDOUT: the operation took longer than 0\.02 seconds"):
        await impatient.atomic(ONE, *client.to, Op.FI_SUM)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await client.remote.atomic(ONE, *client.to, Op.FI_SUM)
    assert (memory[0], client.completions.outstanding) == (0, 2)
    fabric.network.resume(fabric.devices[1])
    await client.completions.drain()
    assert memory[0] == 2


@ON_MODEL
@in_loop
async def test_success_is_heard_of_on_a_queue_with_selective_completion_too(pair, target, keep):
    client = Awaitable(pair, target[1], keep, BindFlags.FI_TRANSMIT | BindFlags.FI_SELECTIVE_COMPLETION)
    assert (await client.remote.write(bytes(8), *client.to)).len == 8


@ON_MODEL
@in_loop
async def test_what_nobody_awaits_can_be_read_in_order_with_failures_in_their_place(client, remote):
    for context, to in enumerate((client.to, client.to, client.wrong, client.to)):
        client.endpoint.write(bytes(16), *to, context=context)
    await remote.write(bytes(8), *client.to, context="awaited")
    entries = []
    while len(entries) < 2:
        entries += await client.completions.read(4)
    with refused(Errno.FI_ENOKEY):
        await client.completions.read(4)
    entries += await client.completions.read(4)
    assert [entry.op_context for entry in entries] == [0, 1, 3]


@ON_MODEL
@in_loop
async def test_a_triggered_operation_can_be_awaited(client, remote, target, keep):
    cntr = keep(client.domain.cntr_open())
    context = TriggeredContext(cntr, 1)
    task = asyncio.create_task(remote.atomic(ONE, *client.to, Op.FI_SUM, context=context, flags=OpFlags.FI_TRIGGER))
    await asyncio.sleep(0.1)
    assert not task.done()
    cntr.add(1)
    assert (await task).op_context is context
    assert target[0][0] == 1


@ON_MODEL
@in_loop
async def test_leaving_the_block_waits_for_operations_and_closes(client, remote, target):
    async with client.completions:
        task = asyncio.create_task(remote.atomic(ONE, *client.to, Op.FI_SUM))
        await asyncio.sleep(0)
    assert client.completions.closed
    await task
    assert target[0][0] == 1
    with refused(Errno.FI_EBADF):
        await remote.write(b"x", *client.to)
    with refused(Errno.FI_EBADF):
        await client.completions.read()


@ON_MODEL
@in_loop
async def test_closing_the_queue_ends_all_waiting(fabric, client, remote):
    fabric.network.cut(fabric.devices[1])
    tasks = [asyncio.create_task(remote.write(bytes(8), *client.to)), asyncio.create_task(client.completions.read())]
    while not client.completions.outstanding:
        await asyncio.sleep(0)
    client.completions.close()
    for task in tasks:
        with refused(Errno.FI_EBADF):
            await task
    fabric.network.restore(fabric.devices[1])


@ON_MODEL
@in_loop
async def test_a_device_that_is_closed_ends_all_waiting(fabric, client, remote):
    task = asyncio.create_task(remote.write(bytes(8), *client.to))
    await asyncio.sleep(0)
    for device in fabric.devices:
        device.close()
    with pytest.raises(DeviceClosedError):
        await task
    fabric.close()


@ON_MODEL
def test_one_queue_serves_one_loop_after_the_other(client, target):
    for turn in range(1, 4):
        asyncio.run(client.remote.atomic(ONE, *client.to, Op.FI_SUM))
        assert target[0][0] == turn


@ON_MODEL
def test_a_queue_has_one_reader_and_a_descriptor(pair, client, keep):
    with refused(Errno.FI_EBUSY):
        AsyncCompletionQueue(client.queue)
    client.completions.close()
    again = keep(AsyncCompletionQueue(client.queue))
    with refused(Errno.FI_ENOSYS):
        AsyncCompletionQueue(pair[0].queue)
    with refused(Errno.FI_EINVAL, "does not report to"):
        AsyncEndpoint(again, pair[0].endpoint)


@ON_MODEL
def test_a_dropped_reader_warns(client):
    client.completions.close()
    reader = AsyncCompletionQueue(client.queue)
    with pytest.warns(ResourceWarning, match="unclosed <AsyncCompletionQueue 0 operations in flight>"):
        del reader


@ON_MODEL
@in_loop
async def test_space_in_a_ring_that_others_fill_is_awaited(pair, target, keep):
    domain, (memory, region) = pair[0].domain, target
    shared, peers = keep(domain.stx_context(16)), keep(domain.av_open())
    to = peers.insert(pair[1].endpoint.getname()), region.address, region.key
    endpoints = []
    for wait_obj in (WaitObj.FI_WAIT_UNSPEC, WaitObj.FI_WAIT_FD):
        queue, endpoint = keep(domain.cq_open(wait_obj=wait_obj)), keep(domain.endpoint())
        for bound in (shared, queue, peers):
            endpoint.bind(bound)
        endpoint.enable()
        endpoints.append((endpoint, queue))
    (greedy, its_queue), (endpoint, queue) = endpoints
    for _ in range(16):
        greedy.write(ONE, *to)
    async with AsyncCompletionQueue(queue) as completions:
        await asyncio.gather(completions.endpoint(endpoint).atomic(ONE, *to, Op.FI_SUM), run_for(its_queue))
    assert memory[0] == 2


async def run_for(queue):
    """Read a queue until it has had something to say."""
    while not queue.read():
        await asyncio.sleep(0)


# Counters and events


@pytest.fixture
def counted(pair, target, keep):
    """(endpoint, counter with a descriptor, where to)."""
    domain = pair[0].domain
    counter = keep(domain.cntr_open(WaitObj.FI_WAIT_FD))
    endpoint = keep(domain.endpoint(tx_size=16))
    peers = keep(domain.av_open())
    endpoint.bind(keep(domain.cq_open()), BindFlags.FI_TRANSMIT | BindFlags.FI_SELECTIVE_COMPLETION)
    endpoint.bind(peers)
    endpoint.bind(counter, BindFlags.FI_WRITE)
    endpoint.enable()
    return endpoint, counter, (peers.insert(pair[1].endpoint.getname()), target[1].address, target[1].key)


@in_loop
async def test_a_counter_is_awaited_by_several(counted, target):
    endpoint, counter, to = counted
    waits = [asyncio.create_task(wait_counter(counter, threshold)) for threshold in (3, 5)]
    for _ in range(5):
        endpoint.atomic(ONE, *to, Op.FI_SUM)
        await asyncio.sleep(0)
    await asyncio.gather(*waits)
    assert (counter.read(), target[0][0]) == (5, 5)


@ON_MODEL
@in_loop
async def test_a_failure_ends_the_wait_for_a_counter(counted):
    endpoint, counter, to = counted
    endpoint.write(bytes(8), *to[:2], to[2] ^ 1)
    with pytest.raises(ErrorAvailableError, match="0 of 1 are done"):
        await wait_counter(counter, 1)


@ON_MODEL
@in_loop
async def test_the_wait_for_a_counter_ends_with_its_time(counted):
    with pytest.raises(TimedOutError, match=r"^FI_ETIMEDOUT: 1 operations took longer than 0\.02 seconds"):
        await wait_counter(counted[1], 1, 0.02)


@ON_MODEL
@in_loop
async def test_deferred_work_is_awaited_by_its_counter(pair, counted, target, keep):
    _, done, _ = counted
    start = keep(pair[0].domain.cntr_open())
    _, region = target
    op = OpRma(pair[0].endpoint, RmaMsg([np.uint64(6)], pair[0].peer, [RmaIov(region.address, 8, region.key)]))
    pair[0].domain.queue_work(DeferredWork(1, start, TriggerOp.FI_OP_WRITE, op, done))
    waiting = asyncio.create_task(wait_counter(done, 1))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    start.add(1)
    await waiting
    assert target[0][0] == 6


async def closing_ends(awaited, wait, *arguments):
    """A wait ends with an error when its object is closed."""
    waits = [asyncio.create_task(wait(awaited, *arguments)) for _ in range(2)]
    await asyncio.sleep(0.01)
    awaited.close()
    for each in waits:
        with refused(Errno.FI_EBADF):
            await each


@ON_MODEL
@in_loop
async def test_closing_a_counter_ends_the_wait_for_it(pair, keep):
    counter = keep(pair[0].domain.cntr_open(WaitObj.FI_WAIT_FD))
    await closing_ends(counter, wait_counter, 1, 30)


@ON_MODEL
@in_loop
async def test_a_counter_without_descriptor_cannot_be_awaited(pair, keep):
    with refused(Errno.FI_ENOSYS):
        await wait_counter(keep(pair[0].domain.cntr_open()), 1)


@ON_MODEL
@in_loop
async def test_events_are_awaited(fabric, keep):
    queue = keep(fabric.eq_open(0, EqFlags.FI_WRITE, WaitObj.FI_WAIT_FD))
    waiting = asyncio.create_task(read_event(queue))
    await asyncio.sleep(0)
    queue.write(9, data=3)
    event = await waiting
    assert (event.event, event.data) == (9, 3)
    with pytest.raises(TimedOutError):
        await read_event(queue, 0.01)
    with refused(Errno.FI_ENOSYS):
        await read_event(keep(fabric.eq_open()))


@ON_MODEL
@in_loop
async def test_closing_a_queue_of_events_ends_the_wait_for_it(fabric, keep):
    queue = keep(fabric.eq_open(wait_obj=WaitObj.FI_WAIT_FD))
    await closing_ends(queue, read_event, 30)


@ON_MODEL
@in_loop
async def test_the_time_of_a_connection_is_awaited(fabric, keep):
    """Nobody answers, and no descriptor says when it has taken too long."""
    events, domain = keep(fabric.eq_open(wait_obj=WaitObj.FI_WAIT_FD)), keep(fabric.domain(0))
    endpoint = keep(domain.endpoint(EpType.FI_EP_MSG, cq=keep(domain.cq_open()), eq=events))
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as silent:
        endpoint.connect(silent.getsockname(), timeout=0.05)
        with refused(Errno.FI_EAVAIL):
            await read_event(events)
    assert events.readerr().err is Errno.FI_ETIMEDOUT


# Wait sets


@pytest.fixture
def waiting(fabric, keep):
    return keep(fabric.wait_open(WaitObj.FI_WAIT_FD))


@in_loop
async def test_whatever_a_wait_set_has_is_awaited(fabric, pair, target, waiting, keep):
    """Nobody else reads, or lets time pass, until the set says that there is something."""
    domain = pair[0].domain
    queue = keep(domain.cq_open(wait_obj=WaitObj.FI_WAIT_SET, wait_set=waiting))
    counter = keep(domain.cntr_open(WaitObj.FI_WAIT_SET, waiting))
    events = keep(fabric.eq_open(0, EqFlags.FI_WRITE, WaitObj.FI_WAIT_SET, waiting))
    endpoint = keep(domain.endpoint(cq=queue, av=pair[0].peers))
    with refused(Errno.FI_ETIMEDOUT):
        await wait_set(waiting, 0.01)
    endpoint.write(bytes(8), pair[0].peer, target[1].address, target[1].key, context="mine")
    await wait_set(waiting, 30)
    assert [entry.op_context for entry in queue.read()] == ["mine"]
    for begin, end in ((lambda: counter.add(1), counter.read), (lambda: events.write(7), events.read)):
        waits = [asyncio.create_task(wait_set(waiting, 30)) for _ in range(2)]
        await asyncio.sleep(0.01)
        assert not any(each.done() for each in waits)
        begin()
        await asyncio.gather(*waits)
        end()
    with refused(Errno.FI_ETIMEDOUT):
        await wait_set(waiting, 0.01)


@ON_MODEL
@in_loop
async def test_the_time_of_a_connection_is_awaited_by_a_set(fabric, waiting, keep):
    events = keep(fabric.eq_open(wait_obj=WaitObj.FI_WAIT_SET, wait_set=waiting))
    domain = keep(fabric.domain(0))
    endpoint = keep(domain.endpoint(EpType.FI_EP_MSG, cq=keep(domain.cq_open()), eq=events))
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as silent:
        endpoint.connect(silent.getsockname(), timeout=0.05)
        await wait_set(waiting, 30)
    assert events.readerr().err is Errno.FI_ETIMEDOUT


@ON_MODEL
@in_loop
async def test_closing_a_wait_set_ends_the_wait_for_it(fabric, waiting, keep):
    keep(fabric.eq_open(wait_obj=WaitObj.FI_WAIT_SET, wait_set=waiting))
    await closing_ends(waiting, wait_set, 30)


@ON_MODEL
@in_loop
async def test_a_wait_set_without_descriptor_cannot_be_awaited(fabric, keep):
    with refused(Errno.FI_ENOSYS):
        await wait_set(keep(fabric.wait_open()))
