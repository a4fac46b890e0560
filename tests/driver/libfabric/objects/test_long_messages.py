"""Messages that are read by their receiver: long ones, and those whose sender waits for the match."""

import itertools
import mmap
import time

import numpy as np
import pytest
from amoeba import (
    BindFlags,
    Caps,
    CqFormat,
    CqTaggedEntry,
    Errno,
    MrAccess,
    Msg,
    OpFlags,
    Retransmission,
    RmaIov,
    RmaMsg,
    TaggedMsg,
    TriggeredContext,
    open_cluster,
)
from amoeba_model.impairments import Impairments
from amoeba_model.parameters import NicParameters

from tests.driver.endpoints import (
    ALL_ACCESS,
    ON_MODEL,
    Side,
    connect,
    entries,
    idle,
    make_side,
    make_talker,
    make_talkers,
    refused,
)

MATCHED = OpFlags.FI_MATCH_COMPLETE
DATA = OpFlags.FI_REMOTE_CQ_DATA
SENT = Caps.FI_MSG | Caps.FI_SEND
RECEIVED = Caps.FI_MSG | Caps.FI_RECV
TAG = 7


def text(length, seed=1):
    return np.random.default_rng(seed).bytes(length)


def keys_in_use(nic):
    return len(nic.keys)


@pytest.mark.parametrize("expected", [True, False], ids=["expected", "unexpected"])
def test_a_long_message_is_received_as_a_short_one(talkers, expected):
    one, other = talkers
    message, buffer = text(9000), bytearray(b"\xee" * 9005)
    if expected:
        other.endpoint.trecv(buffer, TAG, context="mine")
        idle(other, 3)
    one.endpoint.tsenddata(message, 2**64 - 1, one.peer, TAG, context="sent")
    if not expected:
        assert idle(one) == idle(other) == []
        other.endpoint.trecv(buffer, TAG, context="mine")
    told = Caps.FI_TAGGED | Caps.FI_RECV | Caps.FI_REMOTE_CQ_DATA
    assert other.queue.sreadfrom(timeout=30) == [(CqTaggedEntry("mine", told, 9000, 0, 2**64 - 1, TAG), other.peer)]
    assert buffer == message + b"\xee" * 5
    assert one.finish() == CqTaggedEntry("sent", Caps.FI_TAGGED | Caps.FI_SEND, 9000, 0, 0, 0)
    assert idle(one, 3) == idle(other, 3) == []


@ON_MODEL
@pytest.mark.parametrize("length", [4097, 8192, 8193, 100_000, 1_000_000])
def test_messages_of_any_length_arrive(talkers, length):
    one, other = talkers
    buffer = bytearray(length)
    other.endpoint.recv(buffer)
    one.endpoint.send(text(length), one.peer)
    other.finish()
    assert buffer == text(length)
    one.finish()


@ON_MODEL
def test_long_and_short_messages_keep_their_order(talkers):
    one, other = talkers
    messages = [text(length, seed) for seed, length in enumerate([5000, 10, 9000, 4096, 4097, 0, 20000, 1])]
    buffers = [bytearray(20000) for _ in messages]
    for number, buffer in enumerate(buffers[:4]):
        other.endpoint.recv(buffer, context=number)
    for message in messages:
        one.endpoint.send(message, one.peer)
    for number, buffer in enumerate(buffers[4:], 4):
        other.endpoint.recv(buffer, context=number)
    told = {entry.op_context: entry.len for entry in entries(other.queue, len(messages))}
    assert told == {number: len(message) for number, message in enumerate(messages)}
    for message, buffer in zip(messages, buffers, strict=True):
        assert buffer[: len(message)] == message
    entries(one.queue, len(messages))


@ON_MODEL
@pytest.mark.parametrize("expected", [True, False], ids=["expected", "unexpected"])
def test_scattered_buffers_are_gathered_and_scattered(talkers, expected):
    one, other = talkers
    message, memory = text(10_000), bytearray(12_000)
    parts = [memoryview(memory)[begin:end] for begin, end in ((0, 1), (1, 1), (100, 5000), (5001, 11_000))]
    if expected:
        other.endpoint.recvv(parts)
        idle(other, 3)
    one.endpoint.sendv([message[:3333], b"", message[3333:]], one.peer)
    if not expected:
        idle(one)
        other.endpoint.recvv(parts)
    assert other.finish().len == 10_000
    assert b"".join(parts)[:10_000] == message
    assert not any(memory[1:100])
    one.finish()


@ON_MODEL
@pytest.mark.parametrize("space", [0, 1, 4096, 5000, 8999])
@pytest.mark.parametrize("pieces", [1, 3])
def test_a_long_message_is_cut_where_the_space_ends(talkers, space, pieces):
    one, other = talkers
    memory = bytearray(b"\xee" * 10_000)
    cuts = [space * piece // pieces for piece in range(pieces + 1)]
    other.endpoint.recvv([memoryview(memory)[begin:end] for begin, end in itertools.pairwise(cuts)], context="short")
    one.endpoint.send(text(9000), one.peer)
    failure = other.failure()
    assert (failure.op_context, failure.err, failure.flags) == ("short", Errno.FI_ETRUNC, RECEIVED)
    assert (failure.len, failure.olen) == (space, 9000 - space)
    assert memory == text(9000)[:space] + b"\xee" * (10_000 - space)
    one.finish()  # the sender has nothing to do with it


# FI_MATCH_COMPLETE


@pytest.mark.parametrize("length", [0, 1, 64, 4096])
def test_with_match_complete_a_send_ends_when_a_receive_has_met_it(talkers, length):
    one, other = talkers
    one.endpoint.tsend(text(length), one.peer, TAG, context="sent", flags=MATCHED)
    assert idle(one, 30) == []
    buffer = bytearray(length)
    other.endpoint.trecv(buffer, TAG)
    assert other.finish().len == length
    assert buffer == text(length)
    assert one.finish().op_context == "sent"


@ON_MODEL
def test_with_match_complete_a_send_ends_when_the_message_is_discarded(talkers):
    one, other = talkers
    one.endpoint.tsend(b"unwanted", one.peer, TAG, flags=MATCHED)
    assert idle(one, 30) == []
    other.endpoint.trecvmsg(TaggedMsg([], 2**64 - 1, TAG), OpFlags.FI_PEEK | OpFlags.FI_DISCARD)
    other.finish()
    one.finish()


@ON_MODEL
def test_injected_with_match_complete_may_be_changed_at_once(talkers):
    one, other = talkers
    source = bytearray(text(64))
    one.endpoint.sendmsg(Msg([source], one.peer), MATCHED | OpFlags.FI_INJECT)
    source[:] = bytes(64)
    buffer = bytearray(64)
    other.endpoint.recv(buffer)
    other.finish()
    assert buffer == text(64)
    one.finish()


@ON_MODEL
@pytest.mark.parametrize(
    "level", [OpFlags.FI_INJECT_COMPLETE, OpFlags.FI_TRANSMIT_COMPLETE, OpFlags.FI_DELIVERY_COMPLETE]
)
def test_other_completion_levels_do_not_wait_for_a_receive(talkers, level):
    one, _ = talkers
    one.endpoint.send(b"hello", one.peer, flags=level)
    one.finish()


# Taking back


@ON_MODEL
@pytest.mark.parametrize("length", [100, 9000])
def test_a_send_is_taken_back_while_it_waits_for_a_counter_and_not_later(fabric, talkers, keep, length):
    one, other = talkers
    keys = keys_in_use(fabric.nics[0])
    counter = keep(one.domain.cntr_open())
    contexts = [TriggeredContext(counter, 1) for _ in range(2)]
    for number, context in enumerate(contexts):
        one.endpoint.tsend(text(length), one.peer, number, context=context, flags=OpFlags.FI_TRIGGER | MATCHED)
    one.endpoint.cancel(contexts[0])
    failure = one.failure()
    assert (failure.op_context, failure.err) == (contexts[0], Errno.FI_ECANCELED)
    assert failure.flags == Caps.FI_TAGGED | Caps.FI_SEND
    counter.add(1)
    assert idle(one) == []
    for context in contexts:  # the second one lies at the receiver
        with refused(Errno.FI_ENOENT):
            one.endpoint.cancel(context)
    other.endpoint.trecv(bytearray(length), 0, 1)
    assert other.finish().tag == 1
    assert one.finish().op_context == contexts[1]
    assert keys_in_use(fabric.nics[0]) == keys


# Who reads which queue


@ON_MODEL
def test_queues_of_both_halves_may_be_apart_and_either_drives_both(fabric, keep):
    """Two that send each other long messages, and wait first for what they send."""
    sides, receiving = [], []
    for number in range(2):
        domain = fabric.domain(number)
        sends, receives = (keep(domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED)) for _ in range(2))
        peers, endpoint = keep(domain.av_open()), keep(domain.endpoint())
        endpoint.bind(sends, BindFlags.FI_TRANSMIT)
        endpoint.bind(receives, BindFlags.FI_RECV)
        endpoint.bind(peers)
        endpoint.enable()
        sides.append(Side(domain, sends, peers, endpoint))
        receiving.append(receives)
    connect(*sides)
    buffers = [bytearray(6000) for _ in sides]
    for side, buffer in zip(sides, buffers, strict=True):
        side.endpoint.recv(buffer, context="in")
        side.endpoint.send(text(6000), side.peer, context="out")
    deadline, done = time.monotonic() + 30, []
    while len(done) < 2 and time.monotonic() < deadline:
        for side in sides:
            done += side.queue.read(1)
    assert [entry.op_context for entry in done] == ["out", "out"]
    for queue in receiving:
        assert entries(queue, 1)[0].op_context == "in"
    assert buffers == [text(6000)] * 2


@ON_MODEL
def test_the_receivers_queue_alone_brings_a_long_message(fabric, talkers, keep):
    one, _ = talkers
    domain = fabric.domain(1)
    sends, receives, peers = keep(domain.cq_open()), keep(domain.cq_open()), keep(domain.av_open())
    endpoint = keep(domain.endpoint())
    endpoint.bind(sends, BindFlags.FI_TRANSMIT)
    endpoint.bind(receives, BindFlags.FI_RECV)
    endpoint.bind(peers)
    endpoint.enable()
    peers.insert(one.endpoint.getname())
    buffer = bytearray(9000)
    endpoint.recv(buffer)
    one.endpoint.send(text(9000), one.peers.insert(endpoint.getname()))
    assert len(receives.sread(timeout=30)) == 1
    assert buffer == text(9000)
    one.finish()


@ON_MODEL
@pytest.mark.parametrize("caps", [None, Caps.FI_MSG | Caps.FI_SEND], ids=["any", "sends"])
def test_who_only_sends_needs_no_queue_for_receives(fabric, talkers, keep, caps):
    _, other = talkers
    speaker = keep(make_talker(fabric.domain(0), cq_flags=BindFlags.FI_TRANSMIT, caps=caps))
    peer = speaker.peers.insert(other.endpoint.getname())
    for length, flags in ((9000, OpFlags(0)), (10, MATCHED), (4096, OpFlags(0))):
        buffer = bytearray(length)
        speaker.endpoint.send(text(length), peer, flags=flags)
        other.endpoint.recv(buffer)
        assert other.finish().len == speaker.finish().len == length
        assert buffer == text(length)


@ON_MODEL
def test_who_was_opened_for_something_else_sends_no_messages(fabric, talkers, keep):
    _, other = talkers
    mute = keep(make_talker(fabric.domain(0), cq_flags=BindFlags.FI_TRANSMIT, caps=Caps.FI_RMA | Caps.FI_WRITE))
    to = mute.peers.insert(other.endpoint.getname())
    for flags, length in ((OpFlags(0), 4097), (MATCHED, 1), (OpFlags(0), 1)):
        with refused(Errno.FI_EOPNOTSUPP, "without some of .*FI_SEND"):
            mute.endpoint.send(bytes(length), to, flags=flags)


@ON_MODEL
def test_without_a_queue_for_receives_data_is_refused_while_long_messages_wait(fabric, talkers, keep):
    """Reads with data tell of long messages; others', and their writes, have nobody to tell."""
    _, other = talkers
    speaker = keep(make_side(fabric.domain(0)))
    region = keep(speaker.domain.mr_reg(bytearray(8), ALL_ACCESS))
    speaker.endpoint.send(text(5000), speaker.peers.insert(other.endpoint.getname()))
    peer = other.peers.insert(speaker.endpoint.getname())
    there = [RmaIov(region.address, 8, region.key)]
    other.endpoint.writemsg(RmaMsg([bytes(8)], peer, there, data=1), DATA)
    assert other.failure().err is Errno.FI_ESHUTDOWN
    other.endpoint.readmsg(RmaMsg([bytearray(8)], peer, there, data=1), DATA)
    assert other.failure().err is Errno.FI_ESHUTDOWN
    other.endpoint.read(bytearray(8), peer, region.address, region.key)
    other.finish()
    buffer = bytearray(5000)
    other.endpoint.recv(buffer)
    other.finish()
    assert buffer == text(5000)
    speaker.finish()


@ON_MODEL
def test_reads_with_data_of_the_application_are_still_told(talkers, keep):
    """The sender of a long message knows its end by a read with data, too: told apart by the data."""
    one, other = talkers
    memory = keep(one.domain.mr_reg(bytearray(8), ALL_ACCESS))
    one.endpoint.send(text(5000), one.peer, context="long")
    message = RmaMsg([bytearray(8)], other.peer, [RmaIov(memory.address, 8, memory.key)], data=0xDA7A)
    other.endpoint.readmsg(message, DATA)
    other.finish()
    told = Caps.FI_RMA | Caps.FI_REMOTE_READ | Caps.FI_REMOTE_CQ_DATA
    assert one.finish() == CqTaggedEntry(None, told, 8, 0, 0xDA7A, 0)
    other.endpoint.recv(bytearray(5000))
    other.finish()
    assert one.finish().op_context == "long"


# Keys, access and entries are released


@ON_MODEL
def test_keys_and_access_are_released(fabric, talkers):
    one, other = talkers
    before = [keys_in_use(nic) for nic in fabric.nics], [set(nic.dma._users) for nic in fabric.nics]
    for _ in range(5):
        one.endpoint.send(text(5000), one.peer)
        one.endpoint.sendv([text(5000), text(300)], one.peer)
        other.endpoint.recv(bytearray(5000))
        other.endpoint.recvv([bytearray(5000), bytearray(5000)])
    assert keys_in_use(fabric.nics[0]) == before[0][0] + 10
    entries(other.queue, 10)
    entries(one.queue, 10)
    assert ([keys_in_use(nic) for nic in fabric.nics], [set(nic.dma._users) for nic in fabric.nics]) == before


def test_when_all_keys_are_in_use_a_long_send_is_to_be_tried_again():
    with open_cluster(parameters=NicParameters(keys=4)) as fabric:
        one, other = make_talkers(fabric)
        for _ in range(4):
            one.endpoint.send(text(5000), one.peer)
        users = set(fabric.nics[0].dma._users)
        with refused(Errno.FI_EAGAIN, "4 long messages wait to be read"):
            one.endpoint.send(text(5000), one.peer)
        assert set(fabric.nics[0].dma._users) == users
        other.endpoint.recv(bytearray(5000))
        other.finish()
        one.finish()
        one.endpoint.send(text(5000), one.peer)
        for _ in range(4):
            other.endpoint.recv(bytearray(5000))
        entries(other.queue, 4)
        entries(one.queue, 4)


def test_without_any_free_key_a_long_send_is_refused(keep):
    with open_cluster(parameters=NicParameters(keys=1)) as fabric:
        one, _ = make_talkers(fabric)
        region = keep(one.domain.mr_reg(bytearray(8), ALL_ACCESS))
        with refused(Errno.FI_ENOSPC):
            one.endpoint.send(text(5000), one.peer)
        region.close()
        one.endpoint.send(text(5000), one.peer)


@ON_MODEL
def test_many_long_messages_do_not_need_the_ring_at_once(fabric, keep):
    """A message takes the ring's entry until its record has arrived; reading it takes one of the receiver's."""
    one, other = keep(make_talker(fabric.domain(0), tx_size=16)), keep(make_talker(fabric.domain(1), tx_size=16))
    connect(one, other)
    received = [bytearray(5000) for _ in range(48)]
    for buffer in received:
        other.endpoint.recv(buffer)
    for number in range(48):
        while True:
            try:
                one.endpoint.send(text(5000, number), one.peer)
                break
            except BlockingIOError:
                one.queue.read(1)
    entries(other.queue, 48)
    assert received == [text(5000, number) for number in range(48)]


@ON_MODEL
def test_closing_does_not_wait_forever_for_a_message_nobody_reads(fabric, talkers, keep):
    _, other = talkers
    one = keep(make_talker(fabric.domain(0)))
    one.endpoint.send(text(5000), one.peers.insert(other.endpoint.getname()))
    idle(one)
    name = one.endpoint.getname()
    used, begin = keys_in_use(fabric.nics[0]), time.monotonic()
    one.endpoint.close()
    assert time.monotonic() - begin < 3
    assert keys_in_use(fabric.nics[0]) == used - 1
    number = other.peers.insert(name)
    other.endpoint.recv(bytearray(5000), context="late")
    failure = other.failure()
    assert (failure.op_context, failure.len) == ("late", 0)
    assert failure.err in (Errno.FI_ECONNREFUSED, Errno.FI_ENOKEY, Errno.FI_ECONNRESET)
    other.peers.remove(number)


@ON_MODEL
def test_a_peer_with_unread_messages_is_busy(talkers):
    one, other = talkers
    one.endpoint.send(text(5000), one.peer)
    idle(one)
    with refused(Errno.FI_EBUSY):
        one.peers.remove(one.peer)
    other.endpoint.recv(bytearray(5000))
    other.finish()
    one.finish()
    one.peers.remove(one.peer)


# What goes wrong


@ON_MODEL
def test_when_the_receiver_is_gone_unread_messages_fail(fabric, talkers):
    one, _ = talkers
    fabric.nics[0].retransmission = Retransmission(timeout=2000, limit=2)
    one.endpoint.send(text(5000), one.peer, context="read by nobody")
    idle(one)
    fabric.network.cut(fabric.devices[1])
    one.endpoint.send(b"are you there?", one.peer, context="asked")
    failures = []
    deadline = time.monotonic() + 30
    while len(failures) < 2 and time.monotonic() < deadline:
        try:
            one.queue.read(1)
        except OSError:
            failures.append(one.queue.readerr())
    assert {(failure.op_context, failure.err) for failure in failures} == {
        ("read by nobody", Errno.FI_ECONNRESET),
        ("asked", Errno.FI_ECONNRESET),
    }
    assert one.endpoint.tx_size_left == 64
    fabric.network.restore(fabric.devices[1])


def test_long_messages_survive_a_lossy_network():
    impairments = Impairments(seed=5, loss=0.03, duplication=0.03, reordering=0.05, holdback=2000)
    with open_cluster(impairments=impairments, retransmission=Retransmission(timeout=8000)) as fabric:
        one, other = make_talkers(fabric)
        messages = [text(length, seed) for seed, length in enumerate([5000, 40_000, 3, 4096, 100_000, 7000])]
        buffers = [bytearray(len(message)) for message in messages]
        for message, buffer in zip(messages, buffers, strict=True):
            other.endpoint.recv(buffer)
            one.endpoint.send(message, one.peer)
        entries(other.queue, len(messages))
        entries(one.queue, len(messages))
        assert buffers == messages


@ON_MODEL
def test_a_registered_buffer_needs_no_other_access(fabric, talkers, keep):
    one, other = talkers
    source, target = bytearray(text(6000)), bytearray(6000)
    sends = keep(one.domain.mr_reg(source, MrAccess.FI_SEND))
    receives = keep(other.domain.mr_reg(target, MrAccess.FI_RECV))
    users = [set(nic.dma._users) for nic in fabric.nics]
    one.endpoint.send(source, one.peer, desc=sends)
    other.endpoint.recv(target, desc=receives)
    assert [set(nic.dma._users) for nic in fabric.nics] == users
    other.finish()
    one.finish()
    assert target == source


@ON_MODEL
def test_too_long_is_refused(talkers):
    with mmap.mmap(-1, 2**30 + 1) as memory, refused(Errno.FI_EMSGSIZE, "1073741825"):  # pages nobody touches
        talkers[0].endpoint.send(memory, talkers[0].peer)
