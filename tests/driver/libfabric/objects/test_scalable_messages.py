"""Messages of scalable endpoints: to the receive context that is named, and long ones read from whoever sent them."""

import pytest
from amoeba import (
    FI_ADDR_NOTAVAIL,
    BindFlags,
    Caps,
    ClosedError,
    CqFormat,
    EndpointOption,
    Errno,
    ErrorAvailableError,
    OpFlags,
    OptionLevel,
    TaggedMsg,
    rx_addr,
)

from tests.driver.endpoints import ALL_ACCESS, ON_MODEL, aligned, make_talker, refused

pytestmark = pytest.mark.full_build

BITS = 2
TAG = 0x5EED
RECEIVED = Caps.FI_MSG | Caps.FI_RECV
LEAST = OptionLevel.FI_OPT_ENDPOINT, EndpointOption.FI_OPT_MIN_MULTI_RECV
LENGTHS = [0, 5, 4096, 4097, 30_000]


def text(length):
    return bytes(range(256)) * (length // 256) + bytes(length % 256)


class Scalable:
    """A scalable endpoint, a queue for each direction, and its contexts, all enabled."""

    def __init__(self, domain, tx_contexts, rx_contexts, **options):
        self.domain = domain
        self.peers = domain.av_open(rx_ctx_bits=BITS)
        self.endpoint = domain.scalable_endpoint(tx_contexts=tx_contexts, rx_contexts=rx_contexts, **options)
        self.endpoint.bind(self.peers)
        self.sent = domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED)
        self.received = [domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED) for _ in range(rx_contexts)]
        self.tx = [self.endpoint.tx_context(index) for index in range(tx_contexts)]
        self.rx = [self.endpoint.rx_context(index) for index in range(rx_contexts)]
        for context in self.tx:
            context.bind(self.sent)
        for context, queue in zip(self.rx, self.received, strict=True):
            context.bind(queue)
        self.endpoint.enable()


@pytest.fixture
def sides(fabric, keep):
    """(client with two transmit contexts, server with two receive contexts), connected."""
    client, server = keep(Scalable(fabric.domain(0), 2, 1)), keep(Scalable(fabric.domain(1), 1, 2))
    assert client.peers.insert(server.endpoint.getname()) == 0
    assert server.peers.insert(client.endpoint.getname()) == 0
    return client, server


def next_entry(*queues):
    """The next entry of the first queue; the others are read, as both sides of a long message must do."""
    for _ in range(3000):
        for queue in queues[1:]:
            assert queue.read() == []
        if entries := queues[0].read():
            return entries[0]
    raise AssertionError("nothing came")


def let_pass(side):
    """Time in which what has been sent arrives."""
    for _ in range(40):
        side.sent.read(0)


def failure(*queues):
    with pytest.raises(ErrorAvailableError):
        next_entry(*queues)
    return queues[0].readerr()


@pytest.mark.parametrize("expected", [True, False], ids=["expected", "unexpected"])
@pytest.mark.parametrize("length", LENGTHS)
def test_a_message_comes_to_the_context_that_is_named(sides, length, expected):
    client, server = sides
    for sender, receiver in ((0, 1), (1, 0)):
        buffer, message = bytearray(length), text(length)
        if expected:
            server.rx[receiver].recv(buffer, context="received")
        client.tx[sender].senddata(message, 77, rx_addr(0, receiver, BITS), context="sent")
        if not expected:
            let_pass(client)
            server.rx[receiver].recv(buffer, context="received")
        entry = next_entry(server.received[receiver], server.received[1 - receiver])
        assert (entry.op_context, entry.flags, entry.len, entry.data) == (
            "received",
            RECEIVED | Caps.FI_REMOTE_CQ_DATA,
            length,
            77,
        )
        assert buffer == message
        assert next_entry(client.sent, *server.received).op_context == "sent"


@pytest.mark.parametrize("length", [8, 9000])
def test_what_names_none_comes_to_the_first_and_is_known_by_its_sender(sides, length):
    client, server = sides
    for sender in (0, 1):
        server.rx[0].trecv(bytearray(length), TAG)
        client.tx[sender].tsend(text(length), 0, TAG)
    found = []
    for _ in range(3000):
        found += server.received[0].readfrom(4)
        client.sent.read(0)
        if len(found) == 2:
            break
    assert [(entry.tag, entry.len, source) for entry, source in found] == [(TAG, length, 0)] * 2
    assert [next_entry(client.sent).flags for _ in range(2)] == [Caps.FI_TAGGED | Caps.FI_SEND] * 2


@pytest.mark.parametrize("length", [100, 20_000])
def test_scalable_endpoints_and_others_talk_to_each_other(fabric, keep, length):
    one, other = keep(Scalable(fabric.domain(0), 2, 1)), keep(make_talker(fabric.domain(1)))
    to_other, to_one = one.peers.insert(other.endpoint.getname()), other.peers.insert(one.endpoint.getname())
    there, back = bytearray(length), bytearray(length)
    other.endpoint.recv(there)
    one.tx[1].send(text(length), to_other)
    assert next_entry(other.queue, one.received[0]).len == length
    assert next_entry(one.sent, other.queue).flags == Caps.FI_MSG | Caps.FI_SEND
    one.rx[0].recv(back, src_addr=to_other)
    other.endpoint.send(there, to_one)
    assert next_entry(one.received[0]).len == length
    assert next_entry(other.queue, one.received[0]).flags == Caps.FI_MSG | Caps.FI_SEND
    assert there == back == text(length)


@ON_MODEL
def test_scattered_buffers_and_messages_that_do_not_fit(sides):
    client, server = sides
    parts = [bytearray(3000), bytearray(1), bytearray(5000)]
    server.rx[0].recvv(parts)
    client.tx[0].sendv([text(4000), text(4001)], 0)
    assert next_entry(server.received[0]).len == 8001
    assert b"".join(parts)[:8001] == text(4000) + text(4001)
    next_entry(client.sent, *server.received)
    server.rx[0].recv(memoryview(bytearray(10)), context="short")
    client.tx[0].send(text(9000), 0)
    failed = failure(server.received[0])
    assert (failed.op_context, failed.err, failed.len, failed.olen) == ("short", Errno.FI_ETRUNC, 10, 8990)
    next_entry(client.sent, *server.received)


@ON_MODEL
def test_a_search_finds_what_waits_and_its_sender_learns_that_it_was_dropped(sides):
    client, server = sides
    client.tx[1].tsend(text(9000), rx_addr(0, 1, BITS), TAG)
    let_pass(client)
    search = TaggedMsg([], FI_ADDR_NOTAVAIL, TAG)
    for flags in (OpFlags.FI_PEEK, OpFlags.FI_PEEK | OpFlags.FI_DISCARD):
        server.rx[1].trecvmsg(search, flags)
        assert next_entry(server.received[1]).len == 9000
    assert next_entry(client.sent, *server.received).flags == Caps.FI_TAGGED | Caps.FI_SEND


@pytest.mark.parametrize("length", [8, 9000])
def test_a_receive_may_want_messages_of_one_scalable_endpoint_alone(fabric, keep, sides, length):
    """From any of its transmit contexts; those of others go to receives posted behind."""
    client, server = sides
    stranger = keep(make_talker(fabric.domain(0)))
    to_server = stranger.peers.insert(server.endpoint.getname())
    wanted = [bytearray(length), bytearray(length)]
    for buffer, source in zip(wanted, (0, rx_addr(0, 1, BITS)), strict=True):  # which names the endpoint, too
        server.rx[0].trecv(buffer, TAG, src_addr=source, context="directed")
    server.rx[0].trecv(bytearray(length), TAG, context="any")
    stranger.endpoint.tsend(text(length), to_server, TAG)
    assert next_entry(server.received[0]).op_context == "any"
    next_entry(stranger.queue, *server.received)
    for sender in (1, 0):
        client.tx[sender].tsend(text(length), 0, TAG)
        assert next_entry(server.received[0]).op_context == "directed"
        next_entry(client.sent, *server.received)
    assert wanted == [text(length)] * 2


@ON_MODEL
def test_nobody_unknown_can_be_chosen_as_a_sender(sides):
    for number in (1, rx_addr(0, 3, BITS)):  # the client has three contexts
        with refused(Errno.FI_EINVAL):
            sides[1].rx[0].recv(bytearray(8), src_addr=number)


@ON_MODEL
def test_receives_are_taken_back_and_take_their_space(sides):
    context = sides[1].rx[1]
    left = context.rx_size_left
    context.recv(bytearray(8), context="mine")
    assert context.rx_size_left == left - 1
    with refused(Errno.FI_ENOENT):
        context.cancel("another's")
    context.cancel("mine")
    assert failure(sides[1].received[1]).err is Errno.FI_ECANCELED
    assert context.rx_size_left == left


@ON_MODEL
def test_successes_of_receives_are_reported_where_that_is_asked_for(fabric, sides, keep):
    client, server = sides
    server.rx[1].close()
    context = keep(server.endpoint.rx_context(1))
    with refused(Errno.FI_EBADFLAGS):
        context.bind(server.received[1], BindFlags.FI_SELECTIVE_COMPLETION)
    context.bind(server.received[1], BindFlags.FI_RECV | BindFlags.FI_SELECTIVE_COMPLETION)
    with refused(Errno.FI_EOPBADSTATE):
        context.recv(bytearray(8))
    context.enable()
    context.recv(bytearray(8))
    context.recv(bytearray(8), context="loud", flags=OpFlags.FI_COMPLETION)
    for _ in range(2):
        client.tx[0].send(b"hello", rx_addr(0, 1, BITS))
    assert next_entry(server.received[1]).op_context == "loud"


@ON_MODEL
def test_without_messages_no_peer_entries_are_taken_for_them(fabric, keep):
    free = fabric.nics[0].peers.free
    before = len(free)
    quiet = keep(Scalable(fabric.domain(0), 1, 2, caps=Caps.FI_RMA | Caps.FI_REMOTE_WRITE | Caps.FI_WRITE))
    quiet.peers.insert(quiet.endpoint.getname())
    assert len(free) == before - 1
    with refused(Errno.FI_EOPNOTSUPP):
        quiet.rx[0].recv(bytearray(8))
    with refused(Errno.FI_EOPNOTSUPP):
        quiet.tx[0].send(text(9000), 0)


@ON_MODEL
def test_a_transmit_context_receives_nothing(sides):
    with refused(Errno.FI_EOPNOTSUPP):
        sides[0].tx[0].recv(bytearray(8))


@ON_MODEL
def test_closing_gives_everything_back(fabric, sides):
    client, server = sides
    server.rx[0].recv(bytearray(9000))
    client.tx[0].send(text(9000), 0)
    next_entry(server.received[0])
    next_entry(client.sent, server.received[0])
    server.rx[1].recv(bytearray(100))  # which nothing meets
    server.endpoint.close()
    with pytest.raises(ClosedError):
        server.rx[1].recv(bytearray(8))
    client.endpoint.close()
    for nic in fabric.nics:
        assert len(nic.peers.free) == nic.parameters.peers
        assert len(nic.contexts.free) == nic.parameters.contexts


@ON_MODEL
def test_a_buffer_for_several_messages_is_released_as_the_context_s_option_says(sides):
    client, server = sides
    context, other = server.rx[1], server.rx[0]
    assert context.getopt(*LEAST) == 0
    context.setopt(*LEAST, 60)
    assert (context.getopt(*LEAST), other.getopt(*LEAST)) == (60, 0)
    for receiver in (context, other):
        receiver.recv(aligned(160), context="buffer", flags=OpFlags.FI_MULTI_RECV)
    for receiver, released in ((1, [0, 1]), (0, [0, 0])):
        for last in released:
            client.tx[0].send(bytes(30), rx_addr(0, receiver, BITS))
            entry = next_entry(server.received[receiver])
            assert (entry.len, bool(entry.flags & Caps.FI_MULTI_RECV)) == (30, bool(last))


@ON_MODEL
def test_each_context_has_the_options_of_its_direction(sides, keep):
    client, _ = sides
    client.tx[0].close()
    client.rx[0].close()
    sender, receiver = keep(client.endpoint.tx_context(0)), keep(client.endpoint.rx_context(0))
    sizes = EndpointOption.FI_OPT_TX_SIZE, EndpointOption.FI_OPT_RX_SIZE
    for context, own, others in ((sender, *sizes), (receiver, *reversed(sizes))):
        context.setopt(OptionLevel.FI_OPT_ENDPOINT, own, 32)
        assert context.getopt(OptionLevel.FI_OPT_ENDPOINT, own) == 32
        for call in (context.getopt, lambda *option, context=context: context.setopt(*option, 32)):
            with refused(Errno.FI_ENOPROTOOPT, others.name):
                call(OptionLevel.FI_OPT_ENDPOINT, others)
    sender.bind(client.sent)
    receiver.bind(client.received[0])
    for context, own in zip((sender, receiver), sizes, strict=True):
        context.enable()
        with refused(Errno.FI_EOPBADSTATE):
            context.setopt(OptionLevel.FI_OPT_ENDPOINT, own, 64)
    assert (sender.tx_size, receiver.rx_size) == (32, 32)
    assert sender.getopt(OptionLevel.FI_OPT_ENDPOINT, EndpointOption.FI_OPT_MAX_MSG_SIZE) == 2**30
    with refused(Errno.FI_EOPNOTSUPP):
        sender.setopt(OptionLevel.FI_OPT_ENDPOINT, EndpointOption.FI_OPT_MAX_MSG_SIZE, 1)


@ON_MODEL
@pytest.mark.parametrize("kind", [BindFlags.FI_RECV, BindFlags.FI_REMOTE_WRITE, BindFlags.FI_REMOTE_READ])
def test_a_receive_context_counts_what_comes_through_it(fabric, sides, keep, kind):
    client, server = sides
    server.rx[1].close()
    context, counter = keep(server.endpoint.rx_context(1)), keep(server.domain.cntr_open())
    context.bind(counter, kind)
    context.bind(server.received[1])
    context.enable()
    region = keep(server.domain.mr_reg(bytearray(64), ALL_ACCESS))
    for receiver, posted in enumerate((server.rx[0], context)):  # number 0 counts nothing
        to = rx_addr(0, receiver, BITS)
        for length in (8, 9000, 4096):
            posted.recv(bytearray(length))
            client.tx[0].send(text(length), to)
            next_entry(server.received[receiver])
        for _ in range(4):
            client.tx[1].write(bytes(8), to, region.address, region.key)
        for _ in range(5):
            client.tx[1].read(bytearray(8), to, region.address, region.key)
    for _ in range(24):
        next_entry(client.sent, *server.received)
    fabric.settle()
    expected = {BindFlags.FI_RECV: 3, BindFlags.FI_REMOTE_WRITE: 4, BindFlags.FI_REMOTE_READ: 5}
    assert (counter.read(), counter.readerr()) == (expected[kind], 0)


@ON_MODEL
def test_a_receive_context_counts_errors_and_needs_a_queue_for_them(sides, keep):
    client, server = sides
    server.rx[1].close()
    context, counter = keep(server.endpoint.rx_context(1)), keep(server.domain.cntr_open())
    for flags in (BindFlags.FI_SEND, BindFlags.FI_READ | BindFlags.FI_RECV, BindFlags(0)):
        with refused(Errno.FI_EBADFLAGS):
            context.bind(counter, flags)
    context.bind(counter, BindFlags.FI_RECV)
    with refused(Errno.FI_EINVAL, "bound already"):
        context.bind(counter, BindFlags.FI_RECV)
    with refused(Errno.FI_ENOCQ):
        context.enable()
    context.bind(server.received[1])
    context.enable()
    with refused(Errno.FI_EOPBADSTATE):
        context.bind(counter, BindFlags.FI_REMOTE_READ)
    for length in (100, 9000):
        context.recv(bytearray(8))
        client.tx[0].send(text(length), rx_addr(0, 1, BITS))
        assert failure(server.received[1]).err is Errno.FI_ETRUNC
    counter.wait(0, timeout=1)
    assert (counter.read(), counter.readerr()) == (0, 2)
    counter.close()
    assert context.closed


@ON_MODEL
def test_a_counter_alone_drives_the_receives_that_it_counts(sides, keep):
    client, server = sides
    server.rx[1].close()
    context, counter = keep(server.endpoint.rx_context(1)), keep(server.domain.cntr_open())
    context.bind(counter, BindFlags.FI_RECV)
    context.bind(server.received[1], BindFlags.FI_RECV | BindFlags.FI_SELECTIVE_COMPLETION)
    context.enable()
    buffer = bytearray(20_000)
    context.recv(buffer)
    client.tx[0].send(text(20_000), rx_addr(0, 1, BITS))
    counter.wait(1, timeout=30)
    assert buffer == text(20_000)
    next_entry(client.sent)


@ON_MODEL
def test_a_transmit_context_counts_what_it_sends_and_not_that_it_is_read(fabric, sides, keep):
    client, server = sides
    client.tx[1].close()
    context = keep(client.endpoint.tx_context(1))
    sent, read = keep(client.domain.cntr_open()), keep(client.domain.cntr_open())
    context.bind(client.sent)
    context.bind(sent, BindFlags.FI_SEND)
    context.bind(read, BindFlags.FI_REMOTE_READ)
    context.enable()
    for length in (8, 9000):
        server.rx[0].recv(bytearray(length))
        context.send(text(length), 0)
        next_entry(server.received[0])
        next_entry(client.sent, *server.received)
    fabric.settle()
    assert (sent.read(), sent.readerr(), read.read(), read.readerr()) == (2, 0, 0, 0)


@ON_MODEL
def test_removing_a_peer_releases_the_entry_by_which_it_was_read(fabric, sides):
    client, server = sides
    free = fabric.nics[1].peers.free
    before = len(free)
    server.rx[0].recv(bytearray(9000))
    client.tx[1].send(text(9000), 0)
    next_entry(server.received[0])
    assert len(free) == before - 1
    next_entry(client.sent, *server.received)
    server.peers.remove(0)
    assert len(free) == before + 3  # that entry is back, and so is one of each context
