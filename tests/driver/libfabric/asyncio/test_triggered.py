"""Triggered operations and deferred work awaited by asyncio programs, which sleep until something happens."""

import asyncio

import numpy as np
import pytest
from amoeba import (
    FI_ADDR_UNSPEC,
    BindFlags,
    CompletionQueue,
    Counter,
    DeferredWork,
    Errno,
    MrAccess,
    Msg,
    Op,
    OpCntr,
    OpFlags,
    OpMsg,
    OpRma,
    RmaIov,
    RmaMsg,
    TriggeredContext,
    TriggerOp,
    WaitObj,
)
from amoeba.aio import wait_counter

from tests.driver.endpoints import BOTH, ON_MODEL, refused
from tests.driver.libfabric.asyncio.loops import Awaitable, in_loop

pytestmark = pytest.mark.full_build

ONE = np.uint64(1)
TRIGGER = OpFlags.FI_TRIGGER


@pytest.fixture
def client(pair, target, keep):
    return Awaitable(pair, target[1], keep)


@pytest.fixture
def remote(client):
    return client.remote


@pytest.fixture
def cntr(client, keep):
    return keep(client.domain.cntr_open())


@pytest.fixture
def writer(pair, client, cntr, keep):
    """An endpoint whose writes ``cntr`` counts, and whose queue nobody reads."""
    endpoint = keep(client.domain.endpoint(tx_size=16))
    endpoint.bind(keep(client.domain.cq_open()), BindFlags.FI_TRANSMIT | BindFlags.FI_SELECTIVE_COMPLETION)
    endpoint.bind(client.peers)
    endpoint.bind(cntr, BindFlags.FI_WRITE)
    endpoint.enable()
    return endpoint


@pytest.fixture
def reads(monkeypatch):
    """How often queues and counters have been read."""
    seen = []

    def watch(cls, name):
        original = getattr(cls, name)

        def read(self, *args):
            seen.append(self)
            return original(self, *args)

        monkeypatch.setattr(cls, name, read)

    watch(CompletionQueue, "readfrom")
    watch(Counter, "read")
    return seen


def write(client, value, word=0):
    segment = RmaIov(client.to[1] + 8 * word, 8, client.to[2])
    return OpRma(client.endpoint, RmaMsg([np.uint64(value)], client.to[0], [segment], context="mine"))


async def sleeps(reads):
    """Nothing is read meanwhile: nothing can happen."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    before = len(reads)
    await asyncio.sleep(0.2)
    assert len(reads) == before


@in_loop
async def test_a_triggered_operation_is_awaited_without_reading_until_its_counter_is_changed(
    client, remote, target, cntr, reads
):
    context = TriggeredContext(cntr, 1)
    task = asyncio.create_task(remote.atomic(ONE, *client.to, Op.FI_SUM, context=context, flags=TRIGGER))
    await sleeps(reads)
    cntr.add(1)
    assert (await task).op_context is context
    assert target[0][0] == 1


@in_loop
async def test_what_it_waits_for_wakes_it_though_nobody_reads_the_other_queue(
    client, remote, target, cntr, writer, reads
):
    found = np.zeros(1, np.uint64)
    task = asyncio.create_task(
        remote.fetch_atomic(
            None, found, *client.to, Op.FI_ATOMIC_READ, context=TriggeredContext(cntr, 2), flags=TRIGGER
        )
    )
    await sleeps(reads)
    writer.write(np.uint64(7), *client.to)
    while cntr.read() < 1:
        await asyncio.sleep(0)
    await sleeps(reads)
    writer.write(np.uint64(8), *client.to)
    await task
    assert found[0] == 8


@ON_MODEL
@in_loop
async def test_an_operation_posted_before_wakes_a_waiting_trigger(client, remote, target, cntr, writer):
    writer.write(np.uint64(9), *client.to)
    await remote.write(ONE, *client.to, context=TriggeredContext(cntr, 1), flags=TRIGGER)
    assert target[0][0] == 1


@ON_MODEL
@in_loop
async def test_the_end_of_a_chain_of_work_is_awaited(client, remote, target, cntr, writer, keep, reads):
    """Each piece waits for the one before; the last is a triggered operation."""
    done = [keep(client.domain.cntr_open()) for _ in range(3)]
    for number, (before, after) in enumerate(zip([cntr, *done[:-1]], done, strict=True)):
        op = write(client, number + 10, number)
        client.domain.queue_work(DeferredWork(1, before, TriggerOp.FI_OP_WRITE, op, after))
    task = asyncio.create_task(remote.write(ONE, *client.to, context=TriggeredContext(done[-1], 1), flags=TRIGGER))
    await sleeps(reads)
    writer.write(np.uint64(5), client.to[0], client.to[1] + 24, client.to[2])
    await task
    assert target[0][:4].tolist() == [1, 11, 12, 5]


@ON_MODEL
@in_loop
async def test_a_completion_counter_is_awaited_while_its_work_waits(client, target, cntr, writer, keep, reads):
    done = keep(client.domain.cntr_open(WaitObj.FI_WAIT_FD))
    client.domain.queue_work(DeferredWork(1, cntr, TriggerOp.FI_OP_WRITE, write(client, 6), done))
    waiting = asyncio.create_task(wait_counter(done, 1))
    await sleeps(reads)
    writer.write(np.uint64(5), client.to[0], client.to[1] + 8, client.to[2])
    await waiting
    assert target[0][:2].tolist() == [6, 5]


@ON_MODEL
@in_loop
async def test_what_peers_do_starts_what_is_awaited(pair, client, remote, target, keep):
    """The counter of a region: no doorbell of this side tells of it."""
    memory = np.zeros(1, np.uint64)
    region = keep(client.domain.mr_reg(memory, MrAccess.FI_REMOTE_WRITE))
    cntr = keep(client.domain.cntr_open())
    task = asyncio.create_task(remote.write(ONE, *client.to, context=TriggeredContext(cntr, 1), flags=TRIGGER))
    await asyncio.sleep(0)
    region.bind(cntr, BindFlags.FI_REMOTE_WRITE)
    server = pair[1]
    number = server.peers.insert(client.endpoint.getname())
    server.endpoint.write(np.uint64(4), number, region.address, region.key)
    await task
    assert (memory[0], target[0][0]) == (4, 1)


@ON_MODEL
@pytest.mark.parametrize("how", ["cancelled", "in time"])
@in_loop
async def test_an_operation_that_still_waits_is_taken_back_with_its_task(client, remote, target, cntr, how):
    context = TriggeredContext(cntr, 1)
    if how == "cancelled":
        task = asyncio.create_task(remote.write(ONE, *client.to, context=context, flags=TRIGGER))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        with refused(Errno.FI_ETIMEDOUT):
            await client.completions.endpoint(client.endpoint, timeout=0.01).write(
                ONE, *client.to, context=context, flags=TRIGGER
            )
    async with client.completions:  # waits for nothing that never comes
        cntr.add(1)
    assert target[0][0] == 0


# Deferred work


@in_loop
async def test_deferred_work_is_awaited(client, target, cntr, writer, reads):
    task = asyncio.create_task(
        client.completions.work(DeferredWork(1, cntr, TriggerOp.FI_OP_WRITE, write(client, 6)))
    )
    await sleeps(reads)
    writer.write(np.uint64(5), client.to[0], client.to[1] + 8, client.to[2])
    entry = await task
    assert (entry.op_context, entry.len) == ("mine", 8)
    assert target[0][0] == 6


@ON_MODEL
@in_loop
async def test_work_that_fails_or_cannot_be_done_is_raised(client, cntr):
    wrong = OpRma(client.endpoint, RmaMsg([ONE], client.to[0], [RmaIov(*client.wrong[1:2], 8, client.wrong[2])]))
    with refused(Errno.FI_ENOKEY):
        await client.completions.work(DeferredWork(0, cntr, TriggerOp.FI_OP_WRITE, wrong))
    with refused(Errno.FI_EINVAL, "needs an OpAtomic"):
        await client.completions.work(DeferredWork(0, cntr, TriggerOp.FI_OP_ATOMIC, write(client, 1)))
    with refused(Errno.FI_EINVAL, "wait for its counter"):
        await client.completions.work(DeferredWork(0, cntr, TriggerOp.FI_OP_CNTR_ADD, OpCntr(cntr, 1)))


@ON_MODEL
@in_loop
async def test_work_whose_end_another_queue_is_notified_of_is_refused(client, cntr, writer):
    elsewhere = OpRma(writer, RmaMsg([ONE], client.to[0], [RmaIov(client.to[1], 8, client.to[2])]))
    receive = OpMsg(client.endpoint, Msg([bytearray(8)], FI_ADDR_UNSPEC))
    for op_type, op in ((TriggerOp.FI_OP_WRITE, elsewhere), (TriggerOp.FI_OP_RECV, receive)):
        with refused(Errno.FI_EINVAL, "does not report to this queue"):
            await client.completions.work(DeferredWork(0, cntr, op_type, op))
    assert client.completions.outstanding == 0
    assert client.completions.outstanding == 0


@ON_MODEL
@in_loop
async def test_work_is_cancelled_with_its_task(client, target, cntr):
    task = asyncio.create_task(
        client.completions.work(DeferredWork(1, cntr, TriggerOp.FI_OP_WRITE, write(client, 6)))
    )
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert client.completions.outstanding == 0
    cntr.add(1)
    await client.completions.drain()
    assert target[0][0] == 0


@ON_MODEL
@in_loop
async def test_a_deferred_receive_is_awaited(pair, target, keep):
    side = Awaitable(pair, target[1], keep, BOTH)
    cntr, buffer = keep(side.domain.cntr_open()), bytearray(5)
    op = OpMsg(side.endpoint, Msg([buffer], context="in"))
    task = asyncio.create_task(side.completions.work(DeferredWork(1, cntr, TriggerOp.FI_OP_RECV, op)))
    await side.remote.inject(b"hello", side.peers.insert(side.endpoint.getname()))
    await asyncio.sleep(0.01)
    assert not task.done()
    cntr.add(1)
    assert ((await task).op_context, buffer) == ("in", b"hello")
