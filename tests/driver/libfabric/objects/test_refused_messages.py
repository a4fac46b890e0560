"""Messages that a receiver would have to read: when he closes, their senders hear at once that nobody will."""

import time

import pytest
from amoeba import (
    BindFlags,
    Caps,
    Errno,
    ErrorAvailableError,
    OpFlags,
    Retransmission,
    TaggedMsg,
    open_cluster,
)

from tests.driver.automatic import AUTO
from tests.driver.endpoints import (
    ALL_ACCESS,
    ON_MODEL,
    connect,
    entries,
    idle,
    make_counted_talker,
    make_talker,
    make_talkers,
)
from tests.driver.shared_receives import CLAIM, PEEK, make_office, text

MATCHED = OpFlags.FI_MATCH_COMPLETE
LONG = 9000
TAG = 3


def failures(queue, count):
    """Error entries; nothing else may come before them."""
    found = []
    for _ in range(count):
        with pytest.raises(ErrorAvailableError):
            assert queue.sread(timeout=30)
        found.append(queue.readerr())
    return found


def refusals(queue, count):
    """Contexts of sends that have been refused, in order."""
    found = failures(queue, count)
    assert {failure.err for failure in found} == {Errno.FI_ECANCELED}
    return [failure.op_context for failure in found]


def test_what_met_no_receive_is_refused_when_the_receiver_closes(fabric, talkers):
    one, other = talkers
    before = len(fabric.nics[0].keys)
    one.endpoint.send(text(LONG), one.peer, context="long")
    one.endpoint.tsend(text(LONG), one.peer, TAG, context="tagged")
    one.endpoint.send(b"short", one.peer, context="matched", flags=MATCHED)
    one.endpoint.send(b"short", one.peer, context="short")
    assert one.finish().op_context == "short"
    assert idle(one) == []
    other.endpoint.close()
    assert sorted(refusals(one.queue, 3)) == ["long", "matched", "tagged"]
    assert idle(one, 5) == []
    assert len(fabric.nics[0].keys) == before
    assert one.endpoint.tx_size_left == 64
    one.peers.remove(one.peer)  # nothing is in flight to him


@ON_MODEL
def test_what_meets_a_receive_is_read_though_nobody_is_notified_of_it(talkers):
    one, other = talkers
    other.endpoint.recv(buffer := bytearray(LONG))
    one.endpoint.send(text(LONG), one.peer, context="read")
    one.endpoint.send(text(LONG), one.peer, context="refused")
    for _ in range(20):
        one.endpoint.tx_size_left  # noqa: B018  no queue is read: the events stay where they are
        other.domain.nic.advance()
    other.endpoint.close()
    assert one.finish().op_context == "read"
    assert refusals(one.queue, 1) == ["refused"]
    assert buffer == text(LONG)


@ON_MODEL
def test_what_was_claimed_is_refused_too(talkers):
    one, other = talkers
    one.endpoint.tsend(text(LONG), one.peer, TAG, context="claimed")
    idle(one)
    other.endpoint.trecvmsg(TaggedMsg([], 0, TAG, context="mine"), PEEK | CLAIM)
    assert other.finish().op_context == "mine"
    other.endpoint.close()
    assert refusals(one.queue, 1) == ["claimed"]


@ON_MODEL
def test_a_stranger_is_notified_of_it_and_leaves_nothing_behind(fabric, talkers, keep):
    one, other = talkers
    other.peers.remove(other.peer)
    peers, contexts = (len(table.free) for table in (fabric.nics[1].peers, fabric.nics[1].contexts))
    one.endpoint.send(text(LONG), one.peer, context="strange")
    idle(one)
    other.endpoint.close()
    assert refusals(one.queue, 1) == ["strange"]
    assert len(fabric.nics[1].peers.free) == peers
    assert len(fabric.nics[1].contexts.free) == contexts + 1


@ON_MODEL
def test_more_sends_than_the_ring_has_entries_may_be_refused(fabric, keep):
    one, other = keep(make_talker(fabric.domain(0), tx_size=128)), keep(make_talker(fabric.domain(1), tx_size=16))
    connect(one, other)
    for number in range(60):
        one.endpoint.send(b"matched", one.peer, context=number, flags=MATCHED)
    idle(one, 60)
    other.endpoint.close()
    assert refusals(one.queue, 60) == list(range(60))


@ON_MODEL
def test_what_comes_while_the_receiver_closes_is_refused_or_finds_nobody(fabric, keep):
    """A sender that waits for space, since the receiver keeps no more than 64 messages."""
    one, other = keep(make_talker(fabric.domain(0), tx_size=256)), keep(make_talker(fabric.domain(1)))
    connect(one, other)
    for number in range(150):
        one.endpoint.send(b"matched", one.peer, context=number, flags=MATCHED)
    idle(one, 60)
    other.endpoint.close()
    found = failures(one.queue, 150)
    assert sorted(failure.op_context for failure in found) == list(range(150))
    assert {failure.err for failure in found} <= {Errno.FI_ECANCELED, Errno.FI_ECONNREFUSED}


@ON_MODEL
def test_a_refused_send_is_an_error_of_its_counter(fabric, keep):
    endpoint, queue, peers, _, sends = make_counted_talker(keep(fabric.domain(0)), keep)
    other = keep(make_talker(fabric.domain(1)))
    endpoint.send(text(LONG), peers.insert(other.endpoint.getname()), context="refused")
    assert queue.sread(timeout=0.05) == []
    other.endpoint.close()
    assert refusals(queue, 1) == ["refused"]
    assert (sends.read(), sends.readerr()) == (0, 1)


@ON_MODEL
def test_of_endpoints_that_share_receives_the_one_that_is_closed_refuses_its_own(office):
    for who in (0, 1, 1, 0):
        office.tsend(text(LONG, who), who, context=who)
    office.wait()
    office.context.trecvmsg(TaggedMsg([], 0, 0x51, ignore=0, context="mine"), PEEK | CLAIM)
    assert entries(office.sides[0].queue, 1)[0].op_context == "mine"
    office.sides[1].endpoint.close()
    assert refusals(office.sender.queue, 2) == [1, 1]
    office.context.trecvmsg(TaggedMsg([first := bytearray(LONG)], 0, 0x51, context="mine"), CLAIM)
    office.context.trecv(second := bytearray(LONG), 0x51)
    assert len(entries(office.sides[0].queue, 2)) == 2
    assert first == second == text(LONG)


@ON_MODEL
@pytest.mark.parametrize("shared", [False, True], ids=["own receives", "shared receives"])
def test_receive_contexts_refuse_what_is_for_them(fabric, keep, shared):
    office = make_office(fabric, keep)
    domain = office.sides[0].domain
    for side in office.sides:
        side.endpoint.close()
    scalable = keep(domain.scalable_endpoint())
    scalable.bind(office.peers)
    context = keep(scalable.rx_context(0))
    context.bind(keep(domain.cq_open()))
    if shared:
        context.bind(office.context)
    context.enable()
    number = office.sender.peers.insert(scalable.getname())
    office.sender.endpoint.send(text(LONG), number, context="refused")
    office.wait()
    context.close()
    assert refusals(office.sender.queue, 1) == ["refused"]


def test_a_connected_endpoint_refuses_as_others_do(client, server, ends):
    calling, answering = ends
    calling.send(text(LONG), context="refused")
    for _ in range(20):
        assert client.queue.read() == []
    answering.close()
    assert refusals(client.queue, 1) == ["refused"]


@ON_MODEL
def test_a_sender_that_is_gone_does_not_hold_up_close_for_long(fabric, talkers):
    one, other = talkers
    one.endpoint.send(text(LONG), one.peer)
    idle(one)
    fabric.nics[1].retransmission = Retransmission(timeout=1 << 28)
    fabric.network.detach(fabric.devices[0])
    begin = time.monotonic()
    other.endpoint.close()
    assert time.monotonic() - begin < 3


@ON_MODEL
def test_data_of_reads_that_is_no_token_is_still_told(talkers, keep):
    """Tokens are even, and what is refused has the odd number next to one; others' data may have either."""
    one, other = talkers
    memory = bytearray(8)
    region = keep(one.domain.mr_reg(memory, ALL_ACCESS))
    one.endpoint.send(text(LONG), one.peer, context="read")
    idle(one)
    (token,) = one.endpoint._receiver.long_sends._outstanding
    assert token % 2 == 0
    for data in (token ^ 2, token ^ 3):
        other.endpoint.writedata(bytes(8), data, other.peer, region.address, region.key)
        (entry,) = entries(one.queue, 1)
        assert (entry.flags & Caps.FI_REMOTE_CQ_DATA, entry.data) == (Caps.FI_REMOTE_CQ_DATA, data)
        other.finish()
    other.endpoint.recv(bytearray(LONG))
    other.finish()
    assert one.finish().op_context == "read"


def test_with_automatic_progress_nobody_needs_to_read_meanwhile():
    with open_cluster(progress=AUTO) as fabric:
        one, other = make_talkers(fabric, cq_flags=BindFlags.FI_TRANSMIT | BindFlags.FI_RECV)
        one.endpoint.send(text(LONG), one.peer, context="refused")
        assert one.queue.sread(timeout=0.05) == []
        other.endpoint.close()
        assert refusals(one.queue, 1) == ["refused"]
