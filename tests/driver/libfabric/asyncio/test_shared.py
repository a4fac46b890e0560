"""Receives of shared receive contexts, awaited: they end in the queue of whom the message was for."""

import asyncio
import contextlib
from dataclasses import dataclass

import pytest
from amoeba import (
    Caps,
    CqFormat,
    DeferredWork,
    Errno,
    Msg,
    OpMsg,
    SharedReceiveContext,
    TriggerOp,
    WaitObj,
    open_cluster,
)
from amoeba.aio import AsyncCompletionQueue, AsyncReceiver
from amoeba.core.buffers import address_of

from tests.driver.automatic import AUTO
from tests.driver.endpoints import BOTH, ON_MODEL, aligned, refused
from tests.driver.libfabric.asyncio.loops import in_loop
from tests.driver.shared_receives import CLAIM, PEEK, RECEIVED, TAG, Office, desk, make_office, tagged, text

pytestmark = pytest.mark.full_build


@dataclass
class Awaited:
    """Two endpoints that share receives, and the queues that tell of them."""

    office: Office
    queues: list[AsyncCompletionQueue]
    receiver: AsyncReceiver

    @property
    def context(self) -> SharedReceiveContext:
        return self.office.context


def make_awaited(fabric, keep):
    office = make_office(fabric, keep, wait_obj=WaitObj.FI_WAIT_FD)
    first, second = (keep(AsyncCompletionQueue(side.queue)) for side in office.sides)
    return Awaited(office, [first, second], first.receiver(office.context, others=[second]))


@pytest.fixture
def awaited(fabric, keep):
    return make_awaited(fabric, keep)


async def served(office, *awaitables):
    """Gather the results; the sender's queue is read meanwhile, as long messages need."""

    async def serve():
        while True:
            office.sender.queue.read()
            await asyncio.sleep(0)

    serving = asyncio.create_task(serve())
    try:
        return await asyncio.gather(*awaitables)
    finally:
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


@in_loop
async def test_a_receive_is_awaited_whoever_the_message_is_for(awaited):
    office, sizes = awaited.office, (8, 9000, 20, 5000)
    buffers = [bytearray(size) for size in sizes]
    receives = [
        asyncio.create_task(awaited.receiver.recv(buffer, context=number)) for number, buffer in enumerate(buffers)
    ]
    await asyncio.sleep(0)
    for number, (size, who) in enumerate(zip(sizes, (1, 0, 0, 1), strict=True)):
        office.send(text(size, number), who)
    entries = await served(office, *receives)
    assert [(entry.op_context, entry.flags, entry.len) for entry in entries] == [
        (number, RECEIVED, size) for number, size in enumerate(sizes)
    ]
    assert buffers == [text(size, number) for number, size in enumerate(sizes)]
    assert [queue.outstanding for queue in awaited.queues] == [0, 0]


@ON_MODEL
@in_loop
async def test_all_forms_of_receives_are_awaited(awaited):
    office, receiver, search = awaited.office, awaited.receiver, tagged([bytearray(8)], TAG, context := object())
    for who in (0, 1):
        office.send(b"untagged", who)
        office.tsend(b"tagged", who)
        office.tsend(b"claimed", who)
    ((first, source), second) = await asyncio.gather(
        receiver.recvfrom(bytearray(8)), receiver.recvmsg(Msg([bytearray(8)], 0, context="mine"))
    )
    assert (first.len, source, second.op_context) == (8, office.sides[0].peer, "mine")
    (first, source), second = await asyncio.gather(
        receiver.trecvfrom(bytearray(8), TAG), receiver.trecvv([bytearray(3), bytearray(5)], TAG)
    )
    assert (first.len, source, second.len) == (6, office.sides[0].peer, 7)
    assert (await receiver.trecvmsg(search, PEEK | CLAIM)).op_context is context
    assert (await receiver.trecvmsg(search, CLAIM)).len == 6
    assert (await receiver.trecv(bytearray(8), TAG)).len == 7
    with refused(Errno.FI_ENOMSG):
        await receiver.trecvmsg(search, PEEK)


@ON_MODEL
@in_loop
async def test_what_fails_is_raised_whoever_the_message_is_for(awaited):
    for who in (0, 1):
        awaited.office.send(b"too long", who)
        with refused(Errno.FI_ETRUNC):
            await awaited.receiver.recv(bytearray(4))


@ON_MODEL
@in_loop
async def test_one_queue_may_tell_of_all_endpoints(fabric, keep):
    office = make_office(fabric, keep)
    office.context.close()
    domain = office.sides[0].domain
    queue = keep(domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED, WaitObj.FI_WAIT_FD))
    context = keep(domain.srx_context(8))
    endpoints = [keep(domain.endpoint(tx_size=16)) for _ in range(2)]
    for endpoint in endpoints:
        for target in (context, office.peers):
            endpoint.bind(target)
        endpoint.bind(queue, BOTH)
        endpoint.enable()
    numbers = [office.sender.peers.insert(endpoint.getname()) for endpoint in endpoints]
    async with AsyncCompletionQueue(queue) as completions:
        receiver, buffers = completions.receiver(context, timeout=30), [bytearray(4) for _ in range(2)]
        for number in reversed(numbers):
            office.sender.endpoint.send(bytes([number]) * 4, number)
        await asyncio.gather(*(receiver.recv(buffer) for buffer in buffers))
    assert buffers == [bytes([number]) * 4 for number in reversed(numbers)]


@ON_MODEL
@in_loop
async def test_a_receive_that_nobody_awaits_any_more_is_taken_back(awaited):
    office, lost, kept = awaited.office, bytearray(4), bytearray(4)
    with refused(Errno.FI_ETIMEDOUT):
        await awaited.queues[1].receiver(awaited.context, 0.02, awaited.queues[:1]).recv(lost)
    task = asyncio.create_task(awaited.receiver.recv(lost))
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    for queue in awaited.queues:
        await queue.drain()
    office.send(b"kept", 1)
    assert (await awaited.receiver.recv(kept)).len == 4
    assert (kept, lost) == (b"kept", bytes(4))


@ON_MODEL
@pytest.mark.parametrize("order", [(0, 1, 0), (1, 0, 1), (0, 0, 1), (1, 1, 0)])
@in_loop
async def test_a_buffer_that_takes_messages_for_both_is_over_when_all_have_been_told(awaited, order):
    """Whichever queue is read first: all messages are there before either is."""
    office, words, buffer = awaited.office, [b"first", b"second", b"last"], aligned(2 * 64 + 4)
    each = awaited.receiver.recv_each(buffer, context="mine")
    reading = asyncio.create_task(anext(each))
    await asyncio.sleep(0)
    for word, who in zip(words, order, strict=True):
        office.send(word, who)
        office.wait()
    told = [await reading] + [found async for found in each]
    assert {(entry.op_context, source) for entry, source in told} == {("mine", office.sides[0].peer)}
    start = address_of(memoryview(buffer))
    assert sorted(bytes(buffer[entry.buf - start :][: entry.len]) for entry, _ in told) == sorted(words)
    assert sum(bool(entry.flags & Caps.FI_MULTI_RECV) for entry, _ in told) == 1
    assert [queue.outstanding for queue in awaited.queues] == [0, 0]
    assert not any(queue._entries for queue in awaited.queues)


@ON_MODEL
@in_loop
async def test_receives_may_wait_for_the_first_endpoint(fabric, awaited, keep):
    """Then there is nobody who could tell that one was taken back."""
    office = awaited.office
    office.context.close()
    domain, queue = office.sides[0].domain, awaited.queues[0]
    context = keep(domain.srx_context(8))
    receiver = queue.receiver(context)
    task = asyncio.create_task(receiver.recv(bytearray(4)))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await queue.drain()
    task = asyncio.create_task(receiver.recv(buffer := bytearray(4)))
    await asyncio.sleep(0)
    endpoint = keep(domain.endpoint(tx_size=16))
    for target in (context, office.peers):
        endpoint.bind(target)
    endpoint.bind(queue.queue, BOTH)
    endpoint.enable()
    number = office.sender.peers.insert(endpoint.getname())
    office.sender.endpoint.send(b"lost", number)
    office.sender.endpoint.send(b"kept", number)
    await task
    assert buffer == b"kept"


@ON_MODEL
@in_loop
async def test_an_endpoint_whose_queue_nobody_reads_here_is_noticed(awaited, keep):
    office = awaited.office
    with refused(Errno.FI_EINVAL, "do not report to this queue alone"):
        awaited.queues[0].receiver(awaited.context)
    side = keep(desk(office.sides[0].domain, awaited.context, office.peers))
    with refused(Errno.FI_EINVAL, "do not report to this queue alone"):
        await awaited.receiver.recv(bytearray(4))
    side.endpoint.close()
    office.send(b"more", 1)
    assert (await awaited.receiver.recv(bytearray(4))).len == 4


@ON_MODEL
@in_loop
async def test_all_queues_must_say_where_messages_begin(awaited, keep):
    domain = awaited.office.sides[0].domain
    terse = keep(domain.cq_open(CqFormat.FI_CQ_FORMAT_MSG, WaitObj.FI_WAIT_FD))
    others = [awaited.queues[1], keep(AsyncCompletionQueue(terse))]
    with refused(Errno.FI_EINVAL, "where messages begin"):
        await anext(awaited.queues[0].receiver(awaited.context, others=others).recv_each(bytearray(8)))


@ON_MODEL
@in_loop
async def test_closing_one_of_the_queues_ends_what_is_awaited_at_all(awaited):
    waiting = asyncio.create_task(awaited.receiver.recv(bytearray(4)))
    each = asyncio.create_task(anext(awaited.receiver.recv_each(bytearray(4))))
    await asyncio.sleep(0.01)
    draining = asyncio.create_task(awaited.queues[0].drain())
    await asyncio.sleep(0)
    awaited.queues[1].close()
    for task in (waiting, each):
        with refused(Errno.FI_EBADF):
            await task
    await draining
    with refused(Errno.FI_EBADF):
        await awaited.receiver.recv(bytearray(4))


@ON_MODEL
@in_loop
async def test_deferred_receives_are_awaited_where_one_queue_tells_of_them(fabric, awaited, keep):
    office = awaited.office
    counter = keep(office.sides[0].domain.cntr_open())
    op = OpMsg(awaited.context, Msg([bytearray(4)], 0, context="mine"))
    work = DeferredWork(1, counter, TriggerOp.FI_OP_RECV, op)
    with refused(Errno.FI_EINVAL, "does not report to this queue"):
        await awaited.queues[0].work(work)
    office.sides[1].endpoint.close()
    task = asyncio.create_task(awaited.queues[0].work(work))
    await asyncio.sleep(0)
    office.send(b"work", 0)
    counter.add(1)
    assert (await task).op_context == "mine"


@in_loop
async def test_receives_are_awaited_with_automatic_progress(monkeypatch, keep):
    """A queue that nothing comes to hears that the receive has ended elsewhere."""
    monkeypatch.setattr("amoeba.libfabric.asyncio.queue.WAIT_SLICE", 3600)
    with open_cluster(progress=AUTO) as fabric:
        awaited = make_awaited(fabric, keep)
        for who in (0, 1):
            task = asyncio.create_task(awaited.receiver.recv(buffer := bytearray(9000)))
            await asyncio.sleep(0.01)
            drains = [asyncio.create_task(queue.drain()) for queue in awaited.queues]
            await asyncio.sleep(0.01)
            awaited.office.send(text(9000, who), who)
            await asyncio.gather(task, *drains)
            assert buffer == text(9000, who)
        for queue in awaited.queues:
            queue.close()
