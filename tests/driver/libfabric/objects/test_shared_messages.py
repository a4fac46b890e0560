"""Messages through a shared transmit context: of any length, known by their endpoint, told to its queue."""

import pytest
from amoeba import BindFlags, Caps, CqFormat, EpType, Errno, OpFlags, Retransmission, TaggedMsg

from tests.driver.endpoints import BOTH, ON_MODEL, Side, entries, idle, make_talker

pytestmark = pytest.mark.full_build

TAG = 9
SENT = Caps.FI_TAGGED | Caps.FI_SEND
MATCHED = OpFlags.FI_MATCH_COMPLETE


def text(length, seed=0):
    return bytes((number + seed) % 251 for number in range(length))


def share(domain, context, receiver, *, cq_flags=BOTH):
    """A talker with everything of its own but the ring; it and the receiver know each other."""
    queue, peers = domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED), domain.av_open()
    endpoint = domain.endpoint()
    for thing, flags in ((context, BindFlags(0)), (queue, cq_flags), (peers, BindFlags(0))):
        endpoint.bind(thing, flags)
    endpoint.enable()
    side = Side(domain, queue, peers, endpoint, peers.insert(receiver.endpoint.getname()))
    return side, receiver.peers.insert(endpoint.getname())


@pytest.fixture
def receiver(fabric, keep):
    return keep(make_talker(fabric.domain(1)))


@pytest.fixture
def sharing(fabric, keep, receiver):
    """Two (talker, its number at the receiver) that share a transmit context."""
    domain = fabric.domain(0)
    context = keep(domain.stx_context(16))
    return [keep(share(domain, context, receiver)) for _ in range(2)]


@pytest.mark.parametrize("length", [100, 9000])
def test_each_message_is_known_by_its_sender_who_is_notified_of_it_alone(sharing, receiver, length):
    for turn in range(2):
        for seed, (side, number) in enumerate(sharing):
            buffer = bytearray(length)
            receiver.endpoint.trecv(buffer, TAG)
            side.endpoint.tsend(text(length, seed), side.peer, TAG, context=(seed, turn))
            ((entry, source),) = receiver.queue.sreadfrom(timeout=30)
            assert (entry.len, source) == (length, number)
            assert buffer == text(length, seed)
            assert side.finish()[:3] == ((seed, turn), SENT, length)
    for side, _ in sharing:
        assert side.queue.read() == []


@pytest.mark.parametrize("length", [100, 9000])
def test_a_receive_may_want_messages_of_one_of_them_alone(sharing, receiver, length):
    (one, number), (other, _) = sharing
    receiver.endpoint.recv(bytearray(length), src_addr=number, context="of one")
    receiver.endpoint.recv(bytearray(length), context="of anybody")
    for side, context in ((other, "of anybody"), (one, "of one")):
        side.endpoint.send(text(length), side.peer)
        assert receiver.finish().op_context == context
        side.finish()


@ON_MODEL
def test_messages_of_one_keep_their_order_and_pass_those_of_others(sharing, receiver):
    """A long message that nobody receives holds up neither later ones nor the other endpoint."""
    (one, _), (other, _) = sharing
    one.endpoint.tsend(text(9000), one.peer, TAG, context="long")
    for side in (one, other):
        for _ in range(20):
            receiver.endpoint.recv(bytearray(8))
            side.endpoint.send(bytes(8), side.peer)
            receiver.finish()
            side.finish()
    buffer = bytearray(9000)
    receiver.endpoint.trecv(buffer, TAG)
    receiver.finish()
    assert buffer == text(9000)
    assert one.finish().op_context == "long"


@ON_MODEL
def test_more_long_messages_than_the_ring_has_entries_may_wait(sharing, receiver):
    for number in range(20):
        for seed, (side, _) in enumerate(sharing):
            side.endpoint.tsend(text(5000 + number, seed), side.peer, seed)
            idle(side, 3)
    buffers = [[bytearray(5000 + number) for number in range(20)] for _ in sharing]
    for seed, own in enumerate(buffers):
        for buffer in own:
            receiver.endpoint.trecv(buffer, seed)
    entries(receiver.queue, 40)
    assert buffers == [[text(5000 + number, seed) for number in range(20)] for seed in range(2)]
    for side, _ in sharing:
        assert [entry.len for entry in entries(side.queue, 20)] == [5000 + number for number in range(20)]


@ON_MODEL
def test_long_messages_come_back_the_same_way(sharing, receiver):
    """Long messages are received through the shared ring, too, each into the buffer of its addressee."""
    buffers = [bytearray(9000), bytearray(9000)]
    for seed, (side, number) in enumerate(sharing):
        side.endpoint.recv(buffers[seed], context=seed)
        receiver.endpoint.send(text(9000, seed), number)
    for seed, (side, _) in enumerate(sharing):
        assert side.finish().op_context == seed
    assert buffers == [text(9000), text(9000, 1)]
    entries(receiver.queue, 2)


@ON_MODEL
@pytest.mark.parametrize("length", [0, 10])
def test_with_match_complete_a_send_ends_when_a_receive_has_met_it(sharing, receiver, length):
    (one, _), (other, _) = sharing
    one.endpoint.tsend(text(length), one.peer, TAG, flags=MATCHED)
    assert idle(one, 30) == idle(other, 10) == []
    receiver.endpoint.trecvmsg(TaggedMsg([], 2**64 - 1, TAG), OpFlags.FI_PEEK | OpFlags.FI_DISCARD)
    receiver.finish()
    assert one.finish().len == length


@ON_MODEL
def test_who_only_sends_needs_no_queue_for_receives(fabric, keep, receiver):
    domain = fabric.domain(0)
    context = keep(domain.stx_context(16))
    side, number = keep(share(domain, context, receiver, cq_flags=BindFlags.FI_TRANSMIT))
    receiver.endpoint.recv(bytearray(9000))
    side.endpoint.send(text(9000), side.peer)
    assert receiver.queue.sreadfrom(timeout=30)[0][1] == number
    side.finish()


@ON_MODEL
def test_sends_are_counted_by_each_endpoint_and_being_read_is_no_read(fabric, keep, receiver):
    domain = fabric.domain(0)
    context = keep(domain.stx_context(16))
    counted = []
    for _ in range(2):
        sent, read = keep(domain.cntr_open()), keep(domain.cntr_open())
        queue, peers, endpoint = keep(domain.cq_open()), keep(domain.av_open()), keep(domain.endpoint())
        for thing, flags in (
            (context, BindFlags(0)),
            (queue, BindFlags.FI_TRANSMIT),
            (peers, BindFlags(0)),
            (sent, BindFlags.FI_SEND),
            (read, BindFlags.FI_REMOTE_READ),
        ):
            endpoint.bind(thing, flags)
        endpoint.enable()
        peers.insert(receiver.endpoint.getname())
        counted.append((endpoint, sent, read))
    for times, (endpoint, sent, _) in enumerate(counted, 1):
        for _ in range(times):
            receiver.endpoint.recv(bytearray(9000))
            endpoint.send(text(9000), 0)
            receiver.finish()
        sent.wait(times, timeout=30)
    fabric.settle()
    assert [(sent.read(), read.read()) for _, sent, read in counted] == [(1, 0), (2, 0)]


@ON_MODEL
def test_when_the_receiver_is_gone_unread_messages_of_each_fail(fabric, sharing, receiver):
    fabric.nics[0].retransmission = Retransmission(timeout=2000, limit=2)
    for side, _ in sharing:
        side.endpoint.send(text(9000), side.peer, context="unread")
        idle(side)
    fabric.network.cut(fabric.devices[1])
    for side, _ in sharing:
        side.endpoint.send(b"are you there?", side.peer, context="asked")
        failures = set()
        while len(failures) < 2:
            failure = side.failure() if side.queue._errors else None
            if failure is None:
                try:
                    side.queue.read(1)
                except OSError:
                    failure = side.queue.readerr()
            if failure is not None:
                failures.add((failure.op_context, failure.err))
        assert failures == {("unread", Errno.FI_ECONNRESET), ("asked", Errno.FI_ECONNRESET)}
    fabric.network.restore(fabric.devices[1])


@ON_MODEL
def test_closing_one_ends_its_unread_messages_and_leaves_those_of_others(fabric, sharing, receiver):
    (one, _), (other, _) = sharing
    keys = len(fabric.nics[0].keys)
    for side, tag in ((one, 1), (other, 2)):
        side.endpoint.tsend(text(9000), side.peer, tag)
        idle(side)
    one.endpoint.close()
    assert len(fabric.nics[0].keys) == keys + 1
    buffer = bytearray(9000)
    receiver.endpoint.trecv(buffer, 2)
    receiver.finish()
    assert buffer == text(9000)
    other.finish()
    receiver.endpoint.trecv(bytearray(9000), 1)
    assert receiver.failure().err in (Errno.FI_ECONNREFUSED, Errno.FI_ENOKEY, Errno.FI_ESHUTDOWN)


@ON_MODEL
def test_datagrams_stay_short(fabric, keep, receiver):
    domain = fabric.domain(0)
    endpoint = keep(domain.endpoint(EpType.FI_EP_DGRAM))
    endpoint.bind(keep(domain.stx_context(16)))
    endpoint.bind(keep(domain.cq_open()))
    peers = keep(domain.av_open())
    endpoint.bind(peers)
    endpoint.enable()
    with pytest.raises(OSError, match="FI_EMSGSIZE"):
        endpoint.send(bytes(4097), peers.insert(receiver.endpoint.getname()))
