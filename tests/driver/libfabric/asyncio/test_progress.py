"""Awaiting with automatic progress: by descriptors that tell exactly, without looking every now and then.

Covers ``libfabric/asyncio/watching.py``.
"""

import asyncio
import functools

import numpy as np
import pytest
from amoeba import (
    BindFlags,
    CqFormat,
    DeferredWork,
    EqFlags,
    Errno,
    FabricError,
    Op,
    OpCntr,
    OpFlags,
    TriggeredContext,
    TriggerOp,
    TryAgainError,
    WaitObj,
    aio,
)
from amoeba.devices.devices import DEVICE_KINDS

from tests.driver.automatic import automatic_cluster
from tests.driver.libfabric.asyncio.loops import in_loop

ONE = np.uint64(1)


@pytest.fixture(autouse=True)
def _without_ticks(monkeypatch):
    """Nothing may depend on looking again after a while."""
    monkeypatch.setattr("amoeba.libfabric.asyncio.queue.WAIT_SLICE", 3600)


@pytest.fixture(params=DEVICE_KINDS)
def fabric(request, build_of):
    with automatic_cluster(request.param, build_of(request.param)) as opened:
        yield opened


class Client:
    def __init__(self, pair, region, keep):
        self.domain = pair[0].domain
        self.queue = keep(self.domain.cq_open(CqFormat.FI_CQ_FORMAT_MSG, WaitObj.FI_WAIT_FD))
        self.counter = keep(self.domain.cntr_open(WaitObj.FI_WAIT_FD))
        self.endpoint = keep(self.domain.endpoint(tx_size=16))
        self.endpoint.bind(self.queue)
        self.endpoint.bind(pair[0].peers)
        self.endpoint.bind(self.counter, BindFlags.FI_WRITE)
        self.endpoint.enable()
        self.completions = keep(aio.AsyncCompletionQueue(self.queue))
        self.remote = self.completions.endpoint(self.endpoint)
        self.to = (pair[0].peer, region.address, region.key)


@pytest.fixture
def client(pair, target, keep):
    return Client(pair, target[1], keep)


@in_loop
async def test_operations_of_many_tasks_are_awaited(client, target):
    results = np.zeros(60, np.uint64)
    target[0][0] = 0
    async with client.completions:
        await asyncio.gather(
            *(client.remote.fetch_atomic(ONE, results[n : n + 1], *client.to, Op.FI_SUM) for n in range(60))
        )
    assert sorted(results) == list(range(60))


@in_loop
async def test_space_is_awaited_where_nothing_is_reported(client, target):
    """An injected operation has no entry that would make the descriptor readable."""
    target[0][0] = 0
    async with client.completions:
        await asyncio.gather(*(client.remote.inject_atomic(ONE, *client.to, Op.FI_SUM) for _ in range(100)))
    await aio.wait_counter(client.counter, 100)
    assert target[0][0] == 100


@in_loop
async def test_a_failure_is_raised(client):
    async with client.completions:
        with pytest.raises(FabricError) as caught:
            await client.remote.write(bytes(8), client.to[0], client.to[1], client.to[2] ^ 1)
    assert caught.value.fi_errno is Errno.FI_ENOKEY


@in_loop
async def test_triggered_operations_are_awaited(client, target, keep):
    """Released by a counter that the application changes, and by one that deferred work changes."""
    first, second = keep(client.domain.cntr_open()), keep(client.domain.cntr_open())
    target[0][0] = 0
    work = DeferredWork(1, first, TriggerOp.FI_OP_CNTR_ADD, OpCntr(second, 1))
    client.domain.queue_work(work)
    async with client.completions:
        tasks = [
            asyncio.ensure_future(
                client.remote.atomic(
                    ONE, *client.to, Op.FI_SUM, flags=OpFlags.FI_TRIGGER, context=TriggeredContext(counter, 1)
                )
            )
            for counter in (first, second, client.counter)
        ]
        await asyncio.sleep(0.02)
        assert not any(task.done() for task in tasks)
        first.add(1)
        await asyncio.gather(*tasks)
    assert target[0][0] == 3


@in_loop
async def test_counters_and_events_are_awaited(fabric, client, keep):
    events = keep(fabric.eq_open(flags=EqFlags.FI_WRITE, wait_obj=WaitObj.FI_WAIT_FD))
    loop = asyncio.get_running_loop()
    loop.call_later(0.01, events.write, 7)
    assert (await aio.read_event(events)).event == 7
    loop.call_later(0.01, functools.partial(client.endpoint.write, bytes(8), *client.to))
    await aio.wait_counter(client.counter, 1)


@pytest.mark.full_build
@in_loop
async def test_wait_sets_are_awaited(fabric, client, keep):
    waiting = keep(fabric.wait_open(WaitObj.FI_WAIT_FD))
    queue = keep(client.domain.cq_open(wait_obj=WaitObj.FI_WAIT_SET, wait_set=waiting))
    endpoint = keep(client.domain.endpoint(cq=queue, av=client.endpoint._av))
    waits = [asyncio.create_task(aio.wait_set(waiting)) for _ in range(2)]
    await asyncio.sleep(0.01)
    assert not any(each.done() for each in waits)
    endpoint.write(bytes(8), *client.to, context="mine")
    await asyncio.gather(*waits)
    assert [entry.op_context for entry in queue.read()] == ["mine"]
    await asyncio.to_thread(waiting.close)
    with pytest.raises(FabricError) as caught:
        await aio.wait_set(waiting)
    assert caught.value.fi_errno is Errno.FI_EBADF


@in_loop
async def test_closing_a_counter_or_a_queue_of_events_ends_the_wait_for_it(fabric, client, keep):
    events = keep(fabric.eq_open(wait_obj=WaitObj.FI_WAIT_FD))
    waits = [
        asyncio.create_task(each) for each in (aio.wait_counter(client.counter, 1, 30), aio.read_event(events, 30))
    ]
    await asyncio.sleep(0.01)
    client.endpoint.close()
    for each in (client.counter, events):
        await asyncio.to_thread(each.close)
    for waiting in waits:
        with pytest.raises(FabricError) as caught:
            await waiting
        assert caught.value.fi_errno is Errno.FI_EBADF


def test_a_loop_that_was_closed_in_the_midst_of_a_wait_does_not_end_progress(fabric, client, target):
    def post():
        raise TryAgainError(Errno.FI_EAGAIN, "there is never space", 0)

    loop = asyncio.new_event_loop()
    waiting = loop.create_task(client.completions._retry(post))
    while not fabric._auto.guard._waiters:
        loop.run_until_complete(asyncio.sleep(0.001))
    loop.close()
    target[0][0] = 0
    client.endpoint.atomic(ONE, *client.to, Op.FI_SUM)
    client.counter.wait(1, timeout=30)
    assert target[0][0] == 1
    assert not waiting.done()
    waiting._log_destroy_pending = False  # that is known
