"""Messages of senders that are not in the receiver's address vector: received like others, without a source."""

import pytest
from amoeba import FI_ADDR_NOTAVAIL, Errno, OpFlags, Retransmission, TaggedMsg, open_cluster
from amoeba_model.parameters import NicParameters

from tests.driver.endpoints import ALL_ACCESS, ON_MODEL, connect, entries, idle, make_talker, make_talkers

TAG = 5
MATCHED = OpFlags.FI_MATCH_COMPLETE


def text(length):
    return bytes(range(256)) * (length // 256) + bytes(length % 256)


@pytest.fixture
def strangers(talkers):
    """(sender, receiver), who does not know the sender."""
    one, other = talkers
    other.peers.remove(other.peer)
    return one, other


def free_peers(fabric):
    return [len(nic.peers.free) for nic in fabric.nics]


def let_go(fabric, before, *sides):
    """Let time pass until every peer table entry that was taken since is free again."""
    for _ in range(1000):
        if free_peers(fabric) == before:
            return
        for side in sides:
            assert side.queue.read() == []
    raise AssertionError(f"{before} entries were free before, {free_peers(fabric)} are now")


@pytest.mark.parametrize("expected", [True, False], ids=["expected", "unexpected"])
@pytest.mark.parametrize(("length", "flags"), [(100, OpFlags(0)), (100, MATCHED), (9000, OpFlags(0))])
def test_a_message_of_a_stranger_is_received(fabric, strangers, length, flags, expected):
    one, other = strangers
    before = free_peers(fabric)
    buffer = bytearray(length)
    if expected:
        other.endpoint.trecv(buffer, TAG, context="mine")
    one.endpoint.tsend(text(length), one.peer, TAG, flags=flags, context="sent")
    if not expected:
        idle(other)
        other.endpoint.trecv(buffer, TAG, context="mine")
    ((entry, source),) = other.queue.sreadfrom(timeout=30)
    assert (entry.op_context, entry.len, entry.tag, source) == ("mine", length, TAG, FI_ADDR_NOTAVAIL)
    assert buffer == text(length)
    assert one.finish().op_context == "sent"
    let_go(fabric, before, one, other)


@ON_MODEL
def test_one_that_does_not_fit_or_is_discarded_ends_its_send(strangers):
    one, other = strangers
    one.endpoint.tsend(text(9000), one.peer, TAG)
    other.endpoint.trecv(bytearray(10), TAG)
    failure = other.failure()
    assert (failure.err, failure.len, failure.olen) == (Errno.FI_ETRUNC, 10, 8990)
    one.finish()
    one.endpoint.tsend(text(9000), one.peer, TAG)
    idle(one)
    other.endpoint.trecvmsg(TaggedMsg([], FI_ADDR_NOTAVAIL, TAG), OpFlags.FI_PEEK | OpFlags.FI_DISCARD)
    assert other.finish().len == 9000
    one.finish()


@ON_MODEL
def test_many_messages_of_a_stranger_are_read_through_one_entry(fabric, strangers):
    one, other = strangers
    before = free_peers(fabric)
    buffers = [bytearray(20_000) for _ in range(20)]
    for number, buffer in enumerate(buffers):
        one.endpoint.send(text(20_000 - number), one.peer)
        other.endpoint.recv(buffer)
    least = before[1]
    done = []
    while len(done) < len(buffers):
        done += other.queue.read()
        least = min(least, len(fabric.nics[1].peers.free))
    assert least == before[1] - 1
    assert [buffer[: 20_000 - number] for number, buffer in enumerate(buffers)] == [
        text(20_000 - number) for number in range(20)
    ]
    entries(one.queue, 20)
    let_go(fabric, before, one, other)


@ON_MODEL
def test_who_becomes_known_while_he_is_read_is_read_on(fabric, strangers):
    one, other = strangers
    before = free_peers(fabric)
    buffer = bytearray(100_000)
    other.endpoint.recv(buffer)
    one.endpoint.send(text(100_000), one.peer)
    while free_peers(fabric) == before:
        assert other.queue.read() == []
    number = other.peers.insert(one.endpoint.getname())
    other.finish()
    assert buffer == text(100_000)
    one.finish()
    other.endpoint.recv(buffer)
    one.endpoint.send(text(9000), one.peer)
    ((_, source),) = other.queue.sreadfrom(timeout=30)
    assert source == number
    one.finish()


@ON_MODEL
def test_who_is_removed_before_he_could_be_read_is_read_as_a_stranger(fabric, keep):
    """The ring of the receiver has no space for the read at first: it is full of writes to a third one."""
    one, other, third = (keep(make_talker(fabric.domain(nic), tx_size=16)) for nic in (0, 1, 0))
    connect(one, other)
    region = keep(third.domain.mr_reg(bytearray(8), ALL_ACCESS))
    to_third = other.peers.insert(third.endpoint.getname())
    buffer = bytearray(9000)
    other.endpoint.recv(buffer, context="read")
    idle(other, 3)
    one.endpoint.send(text(9000), one.peer)
    fabric.network.pause(fabric.devices[0])
    while other.endpoint.tx_size_left:
        other.endpoint.write(bytes(8), to_third, region.address, region.key)
    other.peers.remove(other.peer)
    fabric.network.resume(fabric.devices[0])
    found = entries(other.queue, 17)
    assert [entry.op_context for entry in found if entry.op_context] == ["read"]
    assert buffer == text(9000)
    one.finish()


@ON_MODEL
def test_closing_gives_the_entry_of_a_stranger_back(fabric, strangers, keep):
    one, other = strangers
    before = free_peers(fabric)
    late = keep(make_talker(fabric.domain(1)))
    to = one.peers.insert(late.endpoint.getname())
    buffer = bytearray(9000)
    late.endpoint.recv(buffer)
    one.endpoint.send(text(9000), to)
    late.finish()
    late.endpoint.close()
    one.finish()
    one.peers.remove(to)
    let_go(fabric, before, one, other)


@ON_MODEL
def test_a_stranger_who_is_gone_fails_the_receive(fabric, strangers):
    one, other = strangers
    fabric.nics[1].retransmission = Retransmission(timeout=2000, limit=2)
    before = free_peers(fabric)
    one.endpoint.send(text(9000), one.peer)
    idle(one)
    fabric.network.cut(fabric.devices[0])
    other.endpoint.recv(bytearray(9000), context="lost")
    failure = other.failure()
    assert (failure.op_context, failure.err, failure.len) == ("lost", Errno.FI_ECONNRESET, 0)
    fabric.network.restore(fabric.devices[0])
    let_go(fabric, before, other)
    buffer = bytearray(100)
    one.endpoint.send(text(100), one.peer)
    other.endpoint.recv(buffer)
    other.finish()
    assert buffer == text(100)


def test_when_the_peer_table_is_full_the_receive_says_so():
    with open_cluster(parameters=NicParameters(peers=2)) as fabric:
        one, other = make_talkers(fabric)
        third = make_talker(fabric.domain(0))
        third.peers.insert(other.endpoint.getname())
        other.peers.insert(other.endpoint.getname())
        third.endpoint.send(text(5000), 0)
        buffer = bytearray(5000)
        other.endpoint.recv(buffer, context="strange")
        assert other.failure().err is Errno.FI_EADDRNOTAVAIL
        other.endpoint.recv(buffer)
        one.endpoint.send(text(5000), one.peer)  # known, and read through his entry
        other.finish()
        assert buffer == text(5000)


def test_strangers_alternate_where_the_peer_table_has_one_entry_for_them(keep):
    with open_cluster(["model"] * 2, parameters=NicParameters(peers=4, contexts=6)) as fabric:
        receiver = keep(make_talker(fabric.domain(1)))
        senders = [keep(make_talker(fabric.domain(0))) for _ in range(4)]
        for _ in range(3):
            receiver.peers.insert(receiver.endpoint.getname())
        buffers = [bytearray(9000) for _ in senders]
        for sender, buffer in zip(senders, buffers, strict=True):
            sender.endpoint.send(text(9000), sender.peers.insert(receiver.endpoint.getname()))
            receiver.endpoint.recv(buffer)
        entries(receiver.queue, 4)
        assert buffers == [text(9000)] * 4
        for sender in senders:
            sender.finish()


@ON_MODEL
def test_strangers_are_told_apart(fabric, keep):
    receiver = keep(make_talker(fabric.domain(1)))
    senders = [keep(make_talker(fabric.domain(0))) for _ in range(2)]
    buffers = [bytearray(9000) for _ in senders]
    for number, sender in enumerate(senders):
        receiver.endpoint.trecv(buffers[number], number)
        sender.endpoint.tsend(text(9000 - number), sender.peers.insert(receiver.endpoint.getname()), number)
    assert {entry.tag: entry.len for entry in entries(receiver.queue, 2)} == {0: 9000, 1: 8999}
    assert [buffer[: 9000 - number] for number, buffer in enumerate(buffers)] == [text(9000), text(8999)]
    for sender in senders:
        sender.finish()
    connect(senders[0], receiver)  # which knows one of them now, and the other one still not
    for sender in senders:
        sender.endpoint.send(text(9000), 0)
        receiver.endpoint.recv(buffers[0])
        receiver.finish()
        sender.finish()
