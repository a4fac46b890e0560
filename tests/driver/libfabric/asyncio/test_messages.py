"""Messages awaited by asyncio programs, at both ends."""

import asyncio
from collections import deque

import pytest
from amoeba import BindFlags, Caps, CqFormat, Errno, Msg, OpFlags, TaggedMsg, WaitObj
from amoeba.aio import AsyncCompletionQueue, AsyncEndpoint
from amoeba.core.buffers import address_of

from tests.driver.endpoints import BOTH, ON_MODEL, aligned, refused
from tests.driver.libfabric.asyncio.loops import Awaitable, in_loop


@pytest.fixture
def client(pair, target, keep):
    return Awaitable(pair, target[1], keep)


@pytest.fixture
def talking(fabric, keep):
    """(one, other): endpoints to be awaited that send and receive, connected."""
    sides = []
    for number in range(2):
        domain = keep(fabric.domain(number))
        queue = keep(domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED, WaitObj.FI_WAIT_FD))
        peers = keep(domain.av_open())
        endpoint = keep(domain.endpoint(cq=queue, av=peers, cq_flags=BOTH))
        sides.append((keep(AsyncCompletionQueue(queue)).endpoint(endpoint), peers))
    for (_, peers), (other, _) in zip(sides, reversed(sides), strict=True):
        peers.insert(other.endpoint.getname())
    return sides[0][0], sides[1][0]


@ON_MODEL
@pytest.mark.parametrize("length", [5, 9000], ids=["short", "long"])
@in_loop
async def test_messages_are_awaited_at_both_ends(talking, length):
    one, other = talking
    buffers = [bytearray(length) for _ in range(6)]
    message = bytes([7]) * length
    sends = [
        one.send(message, 0, context="sent"),
        one.sendv([message[:2], message[2:]], 0, context="sent"),
        one.sendmsg(Msg([message], 0, context="sent")),
        one.tsend(message, 0, 1, context="sent"),
        one.tsendv([message], 0, 2, context="sent"),
        one.tsendmsg(TaggedMsg([message], 0, 3, context="sent")),
    ]
    receives = [
        other.recv(buffers[0], context="received"),
        other.recvv([buffers[1]], context="received"),
        other.recvmsg(Msg([buffers[2]], context="received")),
        other.trecv(buffers[3], 1, context="received"),
        other.trecvv([buffers[4]], 2, context="received"),
        other.trecvmsg(TaggedMsg([buffers[5]], 2**64 - 1, 3, context="received")),
    ]
    entries = await asyncio.gather(*sends, *receives)
    assert [entry.op_context for entry in entries] == ["sent"] * 6 + ["received"] * 6
    assert {entry.len for entry in entries} == {length}
    assert buffers == [message] * 6
    await other.inject(b"pong", 0)
    await other.tinject(b"pong", 0, 1)
    assert (await one.recv(bytearray(4))).len == (await one.trecv(bytearray(4), 1)).len == 4


@ON_MODEL
@in_loop
async def test_a_receive_that_nobody_awaits_any_more_is_taken_back(talking):
    one, other = talking
    lost, kept = bytearray(4), bytearray(4)
    with refused(Errno.FI_ETIMEDOUT):
        await AsyncEndpoint(other.completions, other.endpoint, timeout=0.05).recv(lost)
    task = asyncio.create_task(other.recv(lost))
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await other.completions.drain()
    _, entry = await asyncio.gather(one.send(b"kept", 0), other.recv(kept))
    assert (entry.len, kept, lost) == (4, b"kept", bytes(4))


@ON_MODEL
@in_loop
async def test_receives_that_report_elsewhere_or_more_than_once_cannot_be_awaited(client, talking):
    with refused(Errno.FI_EINVAL, "do not report to this queue"):
        await client.remote.recv(bytearray(4))
    with refused(Errno.FI_EINVAL, "do not report to this queue"):
        client.completions.receiver(client.endpoint)
    with refused(Errno.FI_EBADFLAGS, "recv_each"):
        await talking[1].recv(bytearray(4), flags=OpFlags.FI_MULTI_RECV)


@ON_MODEL
@in_loop
async def test_receives_say_from_whom_if_they_are_asked(talking):
    one, other = talking
    peer = other.endpoint._receiver._av.insert(bytes.fromhex("020000000009 0a000009 00000001 0001 0000"))
    assert peer == 1
    await one.inject(b"hello", 0)
    await one.tinject(b"tagged", 0, 7)
    entry, source = await other.recvfrom(bytearray(5))
    assert (entry.len, source) == (5, 0)
    entry, source = await other.trecvfrom(bytearray(6), 7)
    assert (entry.tag, source) == (7, 0)


@ON_MODEL
@in_loop
async def test_a_queue_of_receives_alone_is_awaited(fabric, talking, keep):
    """The endpoint's operations report elsewhere."""
    domain = fabric.domain(1)
    sends, receives = keep(domain.cq_open()), keep(domain.cq_open(wait_obj=WaitObj.FI_WAIT_FD))
    endpoint, peers = keep(domain.endpoint()), keep(domain.av_open())
    endpoint.bind(sends)
    endpoint.bind(receives, BindFlags.FI_RECV)
    endpoint.bind(peers)
    endpoint.enable()
    number = talking[0].endpoint._receiver._av.insert(endpoint.getname())
    async with AsyncCompletionQueue(receives) as completions:
        with refused(Errno.FI_EINVAL, "does not report"):
            completions.endpoint(endpoint)
        receiver = completions.receiver(endpoint)
        buffer = bytearray(5)
        await asyncio.gather(talking[0].send(b"hello", number), receiver.recv(buffer, context="mine"))
        assert buffer == b"hello"


@pytest.mark.full_build
@in_loop
async def test_a_receive_context_of_a_scalable_endpoint_is_awaited(fabric, talking, keep):
    domain = fabric.domain(1)
    scalable, peers = keep(domain.scalable_endpoint()), keep(domain.av_open())
    queue = keep(domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED, WaitObj.FI_WAIT_FD))
    scalable.bind(peers)
    context = keep(scalable.rx_context(0))
    context.bind(queue)
    context.enable()
    peers.insert(talking[0].endpoint.getname())
    number = talking[0].endpoint._receiver._av.insert(scalable.getname())
    async with AsyncCompletionQueue(queue) as completions:
        receiver = completions.receiver(context, timeout=30)
        buffer = bytearray(9000)
        _, (entry, source) = await asyncio.gather(
            talking[0].tsend(bytes([3]) * 9000, number, 5), receiver.trecvfrom(buffer, 5)
        )
        assert (entry.len, source, buffer) == (9000, 0, bytes([3]) * 9000)
        lost = asyncio.create_task(receiver.recv(bytearray(1)))
        await asyncio.sleep(0)
        lost.cancel()
        with pytest.raises(asyncio.CancelledError):
            await lost
        await completions.drain()
        assert context.rx_size_left == 256


# Several messages in one buffer


def texts(buffer, entries):
    start = address_of(memoryview(buffer))
    return [bytes(buffer[entry.buf - start : entry.buf - start + entry.len]) for entry in entries]


@ON_MODEL
@pytest.mark.parametrize("tagged", [False, True], ids=["untagged", "tagged"])
@in_loop
async def test_messages_are_received_one_after_the_other_until_the_buffer_is_full(talking, tagged):
    one, other = talking
    words, buffer = [b"first", b"second", b"last"], aligned(2 * 64 + 4)
    each = other.trecv_each(buffer, 6, 1, context="mine") if tagged else other.recv_each(buffer, context="mine")

    async def send():
        for word in words:
            await (one.tsend(word, 0, 7) if tagged else one.send(word, 0))

    sending = asyncio.create_task(send())
    told = [found async for found in each]
    await sending
    assert texts(buffer, [entry for entry, _ in told]) == words
    assert {(entry.op_context, source) for entry, source in told} == {("mine", 0)}
    assert [bool(entry.flags & Caps.FI_MULTI_RECV) for entry, _ in told] == [False, False, True]
    assert other.completions.outstanding == 0


@ON_MODEL
@in_loop
async def test_a_buffer_that_is_left_is_taken_back(talking):
    one, other = talking
    each = other.recv_each(bytearray(200))
    await one.inject(b"hello", 0)
    await anext(each)
    await each.aclose()
    await other.completions.drain()
    entry, _ = await asyncio.gather(other.recv(bytearray(4)), one.send(b"next", 0))
    assert entry.len == 4
    assert other.completions._entries == deque()


@ON_MODEL
@in_loop
async def test_the_time_of_a_buffer_is_that_between_two_messages(talking):
    one, other = talking
    each = other.completions.receiver(other.endpoint, timeout=0.05).recv_each(bytearray(200))
    await one.inject(b"hello", 0)
    await anext(each)
    with refused(Errno.FI_ETIMEDOUT):
        await anext(each)
    await other.completions.drain()


@ON_MODEL
@in_loop
async def test_a_message_that_does_not_fit_ends_the_buffer(talking):
    one, other = talking
    each = other.recv_each(aligned(64 + 3))
    await one.inject(b"hello", 0)
    await one.inject(b"hello", 0)
    assert (await anext(each))[0].len == 5
    with refused(Errno.FI_ETRUNC):
        await anext(each)
    with pytest.raises(StopAsyncIteration):
        await anext(each)
    await other.completions.drain()


@ON_MODEL
@in_loop
async def test_closing_the_queue_ends_a_buffer(talking):
    other = talking[1]
    waiting = asyncio.create_task(anext(other.recv_each(bytearray(8))))
    await asyncio.sleep(0.01)
    other.completions.close()
    with refused(Errno.FI_EBADF):
        await waiting


@ON_MODEL
@in_loop
async def test_where_messages_begin_must_be_told(pair, target, keep):
    side = Awaitable(pair, target[1], keep, BOTH)
    with refused(Errno.FI_EINVAL, "where messages begin"):
        await anext(side.remote.recv_each(bytearray(8)))


# Searches


@ON_MODEL
@in_loop
async def test_a_message_is_claimed_and_received(talking):
    one, other = talking
    mine, buffer = object(), bytearray(8)
    search = TaggedMsg([buffer], 0, 9, context=mine)
    with refused(Errno.FI_ENOMSG):
        await other.trecvmsg(search, OpFlags.FI_PEEK | OpFlags.FI_CLAIM)
    await one.tsend(b"claimed!", 0, 9)
    assert (await other.trecvmsg(search, OpFlags.FI_PEEK)).len == 8
    entry = await other.trecvmsg(search, OpFlags.FI_PEEK | OpFlags.FI_CLAIM)
    assert (entry.op_context, entry.len) == (mine, 8)
    buffer[:] = bytes(8)
    entry = await other.trecvmsg(search, OpFlags.FI_CLAIM)
    assert (entry.op_context, buffer) == (mine, b"claimed!")


@ON_MODEL
@in_loop
async def test_a_claim_has_a_context_of_its_own(talking):
    one, other = talking
    claim = OpFlags.FI_PEEK | OpFlags.FI_CLAIM
    with refused(Errno.FI_EINVAL, "got None"):
        await other.trecvmsg(TaggedMsg([], 0, 9), claim)
    search = TaggedMsg([], 0, 9, context=object())
    await one.tsend(b"claimed!", 0, 9)
    first = asyncio.create_task(other.trecvmsg(search, claim))
    await asyncio.sleep(0)
    with refused(Errno.FI_EINVAL, "awaited already"):
        await other.trecvmsg(search, claim)
    assert (await first).len == 8
    await other.trecvmsg(search, OpFlags.FI_CLAIM | OpFlags.FI_DISCARD)
