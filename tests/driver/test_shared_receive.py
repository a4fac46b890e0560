"""Shared receive contexts: several endpoints, one list of receives. fi_srx_context of fi_endpoint(3)."""

import dataclasses
from dataclasses import dataclass

import numpy as np
import pytest
from amoeba import (
    FI_ADDR_UNSPEC,
    FI_SHARED_CONTEXT,
    AtomicMsg,
    BindFlags,
    Caps,
    CompletionQueue,
    CqFormat,
    DeferredWork,
    Endpoint,
    EndpointOption,
    EpAttr,
    EpType,
    EqEvent,
    Errno,
    ErrorAvailableError,
    FabricError,
    Info,
    MrAccess,
    Msg,
    Op,
    OpFlags,
    OpMsg,
    OptionLevel,
    Retransmission,
    RmaIoc,
    RxAttr,
    SharedReceiveContext,
    TaggedMsg,
    TriggeredContext,
    TriggerOp,
    WaitObj,
)
from parties import MSG, asked
from sides import ALL_ACCESS, BOTH, ON_MODEL, Side, entries, idle, make_talker

PEEK, CLAIM, DISCARD, MULTI = OpFlags.FI_PEEK, OpFlags.FI_CLAIM, OpFlags.FI_DISCARD, OpFlags.FI_MULTI_RECV
RECEIVED = Caps.FI_MSG | Caps.FI_RECV
TAGGED = Caps.FI_TAGGED | Caps.FI_RECV
SHARED = EpAttr(type=EpType.FI_EP_RDM, rx_ctx_cnt=FI_SHARED_CONTEXT)
TAG = 0x51


def refused(number, words=""):
    return pytest.raises(FabricError, match=rf"^{number.name}: .*{words}")


def text(length, start=0):
    return bytes(1 + (start + number) % 251 for number in range(length))


def tagged(buffers, tag, context=None):
    return TaggedMsg(buffers, FI_ADDR_UNSPEC, tag, context=context)


def failure(queue):
    """The next entry, which must be an error."""
    with pytest.raises(ErrorAvailableError):
        assert queue.sread(timeout=30)
    return queue.readerr()


@dataclass
class Office:
    """A context, endpoints that share its receives, and somebody elsewhere who sends to them."""

    context: SharedReceiveContext
    peers: object
    sides: list[Side]
    sender: Side
    numbers: list[int]
    """Of the endpoints, by which the sender knows them."""

    def send(self, message, desk, **options):
        self.sender.endpoint.send(message, self.numbers[desk], **options)

    def tsend(self, message, desk, tag=TAG, **options):
        self.sender.endpoint.tsend(message, self.numbers[desk], tag, **options)

    def wait(self, reads=20):
        """Let what is under way come, unseen by the completion queues."""
        assert idle(self.sender, reads) == []

    def sent(self, count):
        return entries(self.sender.queue, count)


def desk(domain, context, peers, flags=BOTH, ring=None, **options):
    """An endpoint that shares receives, with a queue of its own."""
    queue = domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED)
    endpoint = domain.endpoint(tx_size=16, **options)
    try:
        for target in (context, peers, ring):
            if target is not None:
                endpoint.bind(target)
        endpoint.bind(queue, flags)
        endpoint.enable()
    except FabricError:
        queue.close()
        raise
    return Side(domain, queue, peers, endpoint)


@pytest.fixture
def office(fabric, keep):
    """Two endpoints."""
    domain = keep(fabric.domain(1))
    context, peers = keep(domain.srx_context(32)), keep(domain.av_open())
    sides = [keep(desk(domain, context, peers)) for _ in range(2)]
    sender = keep(make_talker(keep(fabric.domain(0)), cq_flags=BOTH | BindFlags.FI_SELECTIVE_COMPLETION))
    numbers = [sender.peers.insert(side.endpoint.getname()) for side in sides]
    number = peers.insert(sender.endpoint.getname())
    for side in sides:
        side.peer = number
    return Office(context, peers, sides, sender, numbers)


# Which receive, and whose queue


def test_messages_for_any_meet_the_receives_in_their_order_and_end_in_the_queue_of_whom_they_are_for(office):
    buffers = [bytearray(8) for _ in range(4)]
    for number, buffer in enumerate(buffers):
        office.context.recv(buffer, context=number)
    for number, who in enumerate((1, 0, 1, 0)):
        office.send(text(8, number), who)
    for who, numbers in ((1, (0, 2)), (0, (1, 3))):
        found = entries(office.sides[who].queue, 2)
        assert [(entry.op_context, entry.flags, entry.len) for entry in found] == [
            (number, RECEIVED, 8) for number in numbers
        ]
    assert [bytes(buffer) for buffer in buffers] == [text(8, number) for number in range(4)]


def test_messages_that_come_first_wait_together(office):
    for number, who in enumerate((1, 0)):
        office.tsend(text(20, number), who)
        office.wait()
    buffers = [bytearray(20) for _ in range(2)]
    for number, buffer in enumerate(buffers):
        office.context.trecv(buffer, TAG, context=number)
    for number, who in enumerate((1, 0)):
        (entry,) = entries(office.sides[who].queue, 1)
        assert (entry.op_context, entry.flags, entry.tag) == (number, TAGGED, TAG)
    assert [bytes(buffer) for buffer in buffers] == [text(20, number) for number in range(2)]


def test_a_long_message_is_read_by_the_endpoint_that_it_is_for(office):
    buffers = [bytearray(10000) for _ in range(3)]
    office.send(text(10000), 1)
    office.wait()
    for number, buffer in enumerate(buffers):
        office.context.recv(buffer, context=number)
    office.send(text(9000, 7), 0)
    office.send(text(30), 1)
    assert {entry.op_context for entry in entries(office.sides[1].queue, 2)} == {0, 2}
    (entry,) = entries(office.sides[0].queue, 1)
    assert (entry.op_context, entry.len) == (1, 9000)
    assert [buffers[0], buffers[1][:9000], buffers[2][:30]] == [text(10000), text(9000, 7), text(30)]


@ON_MODEL
def test_the_source_is_a_number_of_the_vector_that_all_have(office):
    office.context.recv(bytearray(8))
    office.send(b"x", 1)
    ((_, source),) = office.sides[1].queue.sreadfrom(timeout=30)
    assert source == office.sides[1].peer


@ON_MODEL
def test_endpoints_send_and_reach_memory_as_others_do(office, keep):
    memory = np.arange(4, dtype=np.uint64)
    region = keep(office.sender.domain.mr_reg(memory, ALL_ACCESS))
    for who, side in enumerate(office.sides):
        side.endpoint.atomic(np.uint64(10), side.peer, region.address + 8 * who, region.key, Op.FI_SUM)
        side.finish()
        office.sender.endpoint.recv(buffer := bytearray(8), flags=OpFlags.FI_COMPLETION)
        side.endpoint.send(text(8, who), side.peer)
        assert side.finish().flags == Caps.FI_MSG | Caps.FI_SEND
        office.sent(1)
        assert buffer == text(8, who)
    assert memory.tolist() == [10, 11, 2, 3]


@ON_MODEL
def test_immediate_data_of_writes_comes_to_the_endpoint_without_a_receive(office, keep):
    memory = np.zeros(2, np.uint64)
    region = keep(office.sides[1].domain.mr_reg(memory, ALL_ACCESS))
    office.sender.endpoint.writedata(np.uint64(5), 99, office.numbers[1], region.address, region.key)
    (entry,) = entries(office.sides[1].queue, 1)
    assert (entry.flags & Caps.FI_REMOTE_CQ_DATA, entry.data) == (Caps.FI_REMOTE_CQ_DATA, 99)
    assert memory[0] == 5
    assert office.sides[0].queue.read(8) == []


@ON_MODEL
def test_a_tagged_atomic_is_performed_on_a_shared_receive(office):
    values = np.array([5, 6], np.uint64)
    office.context.trecv(values, TAG, context="sum")
    endpoint = office.sender.endpoint
    endpoint.atomicmsg(
        _tagged_sum(np.array([10, 20], np.uint64), office.numbers[1]), OpFlags.FI_TAGGED | OpFlags.FI_COMPLETION
    )
    office.sent(1)
    (entry,) = entries(office.sides[1].queue, 1)
    assert (entry.op_context, entry.flags) == ("sum", TAGGED | Caps.FI_ATOMIC)
    assert values.tolist() == [15, 26]


def _tagged_sum(values, number):
    return AtomicMsg([values], number, [RmaIoc(0, len(values), TAG)], Op.FI_SUM)


@ON_MODEL
def test_scattered_receives_and_messages_cut_short(office):
    parts = [bytearray(3), bytearray(5)]
    office.context.recvv(parts, context="parts")
    office.context.recvmsg(Msg([cut := bytearray(4)], FI_ADDR_UNSPEC, context="cut"))
    office.send(text(8), 0)
    office.send(text(9), 1)
    assert entries(office.sides[0].queue, 1)[0].op_context == "parts"
    entry = failure(office.sides[1].queue)
    assert (entry.op_context, entry.err, entry.olen) == ("cut", Errno.FI_ETRUNC, 5)
    assert (b"".join(parts), cut) == (text(8), text(4))


@ON_MODEL
def test_a_buffer_takes_messages_for_several_endpoints(office, keep):
    region = keep(office.context._parent.mr_reg(buffer := bytearray(64), MrAccess.FI_RECV))
    office.context.setopt(OptionLevel.FI_OPT_ENDPOINT, EndpointOption.FI_OPT_MIN_MULTI_RECV, 16)
    office.context.recv(buffer, desc=region, context="pool", flags=MULTI)
    for who, length in ((0, 20), (1, 20), (1, 10)):
        office.send(text(length, who), who)
    (first,) = entries(office.sides[0].queue, 1)
    second, last = entries(office.sides[1].queue, 2)
    assert [entry.buf - region.start for entry in (first, second, last)] == [0, 20, 40]
    assert [bool(entry.flags & Caps.FI_MULTI_RECV) for entry in (first, second, last)] == [False, False, True]
    assert buffer[:50] == text(20) + text(20, 1) + text(10, 1)


@ON_MODEL
def test_a_directed_receive_takes_one_senders_messages_for_any(office, fabric, keep):
    stranger = keep(make_talker(keep(fabric.domain(0))))
    office.peers.insert(stranger.endpoint.getname())
    other = stranger.peers.insert(office.sides[1].endpoint.getname())
    office.context.recv(mine := bytearray(8), src_addr=office.sides[0].peer, context="directed")
    stranger.endpoint.send(b"strange ", other)
    entries(stranger.queue, 1)
    office.send(b"friendly", 1)
    (entry,) = entries(office.sides[1].queue, 1)
    assert (entry.op_context, mine) == ("directed", b"friendly")
    with refused(Errno.FI_EINVAL):
        office.context.recv(mine, src_addr=99)


# Searches


@ON_MODEL
def test_a_peek_tells_the_endpoint_whose_message_it_has_found(office):
    office.tsend(text(12), 1)
    office.wait()
    office.context.trecvmsg(tagged([seen := bytearray(12)], TAG, context="seen"), PEEK)
    (entry,) = entries(office.sides[1].queue, 1)
    assert (entry.op_context, entry.len, seen) == ("seen", 12, text(12))
    office.context.trecv(bytearray(12), TAG, context="received")
    assert entries(office.sides[1].queue, 1)[0].op_context == "received"


@ON_MODEL
@pytest.mark.parametrize("length", [12, 10000])
def test_what_is_claimed_is_received_or_dropped_for_the_same_endpoint(office, length):
    for number in range(2):
        office.tsend(text(length, number), 1, flags=OpFlags.FI_COMPLETION)
        office.wait() if length == 10000 else office.sent(1)
    for context in ("kept", "dropped"):
        office.context.trecvmsg(tagged([], TAG, context=context), PEEK | CLAIM)
    assert [entry.op_context for entry in entries(office.sides[1].queue, 2)] == ["kept", "dropped"]
    office.context.trecvmsg(tagged([buffer := bytearray(length)], TAG, context="kept"), CLAIM)
    office.context.trecvmsg(tagged([], TAG, context="dropped"), CLAIM | DISCARD)
    assert {entry.op_context for entry in entries(office.sides[1].queue, 2)} == {"kept", "dropped"}
    assert buffer == text(length)
    if length == 10000:
        office.sent(2)


@ON_MODEL
def test_what_is_about_no_message_is_told_by_the_endpoint_that_was_enabled_first(office):
    office.context.trecvmsg(tagged([], TAG, context="nothing"), PEEK)
    office.context.recv(bytearray(8), context="unwanted")
    office.context.cancel("unwanted")
    queue = office.sides[0].queue
    assert [(failure(queue).op_context, number) for number in range(2)] == [("nothing", 0), ("unwanted", 1)]
    office.sides[0].endpoint.close()
    office.context.recv(bytearray(8), context="unwanted")
    office.context.cancel("unwanted")
    entry = failure(office.sides[1].queue)
    assert (entry.op_context, entry.err) == ("unwanted", Errno.FI_ECANCELED)
    with refused(Errno.FI_ENOENT):
        office.context.cancel("unwanted")


@ON_MODEL
def test_a_receive_may_wait_for_its_counter(office, keep):
    counter = keep(office.context._parent.cntr_open())
    later, never = TriggeredContext(counter, 1), TriggeredContext(counter, 2)
    for trigger in (later, never):
        office.context.recv(bytearray(4), context=trigger, flags=OpFlags.FI_TRIGGER)
    office.context.recv(bytearray(4), context="now")
    office.send(b"1st", 1)
    assert entries(office.sides[1].queue, 1)[0].op_context == "now"
    counter.add(1)
    office.send(b"2nd", 0)
    assert entries(office.sides[0].queue, 1)[0].op_context is later
    office.context.cancel(never)
    assert failure(office.sides[0].queue).op_context is never


@ON_MODEL
def test_a_receive_as_deferred_work_takes_a_message_for_any(office, keep):
    domain, buffer = office.context.domain, bytearray(5)
    start, done = keep(domain.cntr_open()), keep(domain.cntr_open())
    op = OpMsg(office.context, Msg([buffer]))
    domain.queue_work(DeferredWork(1, start, TriggerOp.FI_OP_RECV, op, done))
    office.send(b"hello", 1)
    for side in office.sides:
        assert idle(side) == []
    start.add(1)
    done.wait(1, timeout=30)
    assert buffer == b"hello"
    for side in office.sides:
        assert idle(side) == []


# Counters, selective completion, progress, limits


@ON_MODEL
def test_each_endpoint_counts_the_messages_for_it(fabric, keep, office):
    domain = office.context._parent
    counter, queue = keep(domain.cntr_open()), keep(domain.cq_open())
    endpoint = keep(domain.endpoint())
    endpoint.bind(counter, BindFlags.FI_RECV)
    for target in (queue, office.peers, office.context):
        endpoint.bind(target, BOTH)
    endpoint.enable()
    number = office.sender.peers.insert(endpoint.getname())
    for _ in range(3):
        office.context.recv(bytearray(4))
    office.send(b"1", 0)
    office.sender.endpoint.send(b"2", number)
    office.sender.endpoint.send(b"too long", number)
    entries(office.sides[0].queue, 1)
    counter.wait(1, timeout=30)
    while counter.readerr() != 1:
        pass
    assert counter.read() == 1


@ON_MODEL
def test_success_is_reported_as_the_queue_of_the_endpoint_is_bound(fabric, keep, office):
    domain = office.context._parent
    quiet = keep(desk(domain, office.context, office.peers, BOTH | BindFlags.FI_SELECTIVE_COMPLETION))
    number = office.sender.peers.insert(quiet.endpoint.getname())
    office.context.recv(buffer := bytearray(4))
    office.context.recv(bytearray(4), context="told", flags=OpFlags.FI_COMPLETION)
    office.context.recv(bytearray(2), context="cut")
    office.context.recv(bytearray(4), context="plain")
    office.sender.endpoint.send(b"mute", number)
    office.sender.endpoint.send(b"told", number)
    office.sender.endpoint.send(b"long", number)
    assert quiet.finish().op_context == "told"
    assert (quiet.failure().op_context, buffer) == ("cut", b"mute")
    office.send(b"bye", 0)
    assert entries(office.sides[0].queue, 1)[0].op_context == "plain"


@ON_MODEL
def test_reading_one_queue_brings_forth_what_is_for_another(office):
    """The event ring is one: whoever reads takes what is there, and leaves it to whom it belongs."""
    for number in range(4):
        office.context.recv(bytearray(4), context=number)
    for who in (0, 0, 0, 1):
        office.send(b"text", who)
    assert entries(office.sides[1].queue, 1)[0].op_context == 3
    assert [entry.op_context for entry in office.sides[0].queue.read(8)] == [0, 1, 2]


@ON_MODEL
def test_what_nobody_reads_holds_all_senders_back(fabric, keep):
    domain = keep(fabric.domain(1))
    context, peers = keep(domain.srx_context(8)), keep(domain.av_open())
    sides = [keep(desk(domain, context, peers)) for _ in range(2)]
    sender = keep(make_talker(keep(fabric.domain(0))))
    numbers = [sender.peers.insert(side.endpoint.getname()) for side in sides]
    context.recv(bytearray(4096), flags=MULTI)
    for _ in range(40):
        sender.endpoint.send(b"more", numbers[0])
    for _ in range(200):
        assert sides[1].queue.read(8) == []
    arrived = len(idle(sender, 200))
    assert arrived < 40
    found = entries(sides[0].queue, 40)
    assert len(found) == 40
    assert len(entries(sender.queue, 40 - arrived)) == 40 - arrived


@ON_MODEL
def test_as_many_receives_can_be_posted_as_the_nic_keeps(office):
    most = office.context._nic.parameters.receives
    assert office.context.rx_size_left == office.context.rx_size == 32
    for _ in range(most):
        office.context.recv(bytearray(4))
    assert office.context.rx_size_left == 0
    with refused(Errno.FI_EAGAIN, f"{most} receives are posted"):
        office.context.recv(bytearray(4))
    office.send(b"one", 0)
    entries(office.sides[0].queue, 1)
    office.context.recv(bytearray(4))


@ON_MODEL
def test_one_queue_serves_them_all(fabric, keep):
    domain = keep(fabric.domain(1))
    context, peers = keep(domain.srx_context()), keep(domain.av_open())
    queue: CompletionQueue = keep(domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED, WaitObj.FI_WAIT_FD))
    sender = keep(make_talker(keep(fabric.domain(0))))
    numbers = []
    for _ in range(3):
        endpoint = keep(domain.endpoint())
        for target in (context, queue, peers):
            endpoint.bind(target, BOTH)
        endpoint.enable()
        numbers.append(sender.peers.insert(endpoint.getname()))
    for number in range(6):
        context.recv(bytearray(4), context=number)
    for number in range(6):
        sender.endpoint.send(b"text", numbers[number % 3])
    assert sorted(entry.op_context for entry in entries(queue, 6)) == list(range(6))


# The end


@ON_MODEL
def test_a_receive_that_was_met_is_told_also_when_its_endpoint_is_closed(office):
    office.context.recv(buffer := bytearray(4), context="met")
    office.context.recv(bytearray(4), context="next")
    office.send(b"last", 1)
    office.wait()
    office.sides[1].endpoint.close()
    (entry,) = entries(office.sides[1].queue, 1)
    assert (entry.op_context, buffer) == ("met", b"last")
    office.send(b"more", 0)
    assert entries(office.sides[0].queue, 1)[0].op_context == "next"


@ON_MODEL
@pytest.mark.parametrize("shared", [False, True], ids=["own ring", "shared ring"])
def test_a_receive_fails_if_the_message_is_not_there_when_its_endpoint_is_closed(fabric, keep, office, shared):
    side = office.sides[1]
    if shared:
        office.sides[0].endpoint.close()
        side = keep(desk(office.context._parent, office.context, office.peers, ring=keep(side.domain.stx_context())))
        office.numbers[1] = office.sender.peers.insert(side.endpoint.getname())
    fabric.nics[1].retransmission = Retransmission(timeout=1 << 30)
    office.send(text(10000), 1)
    office.wait()
    fabric.network.cut(fabric.devices[0])
    office.context.recv(bytearray(10000), context="unread")
    office.context.recv(buffer := bytearray(8), context="next")
    assert idle(side) == []
    side.endpoint.close()
    entry = failure(side.queue)
    assert (entry.op_context, entry.err) == ("unread", Errno.FI_ECANCELED)
    fabric.network.restore(fabric.devices[0])
    if not shared:
        office.send(b"received", 0)
        assert entries(office.sides[0].queue, 1)[0].op_context == "next"
        assert buffer == b"received"


@ON_MODEL
def test_messages_of_an_endpoint_that_is_closed_are_dropped_and_others_stay(office, keep):
    for who in (1, 0, 1):
        office.send(text(8, who), who)
        office.tsend(text(8, who), who)
    office.tsend(b"claimed", 1, tag=1)
    office.wait()
    office.context.trecvmsg(tagged([], 1, context="mine"), PEEK | CLAIM)
    assert entries(office.sides[1].queue, 1)[0].op_context == "mine"
    office.sides[1].endpoint.close()
    with refused(Errno.FI_EINVAL, "no tagged message was claimed"):
        office.context.trecvmsg(tagged([bytearray(8)], 1, context="mine"), CLAIM)
    # The NIC's context is used again; what was for the endpoint before is not for this one.
    heirs = [keep(desk(office.context._parent, office.context, office.peers)) for _ in range(2)]
    assert office.sender.peers.lookup(office.numbers[1]) in [heir.endpoint.getname() for heir in heirs]
    office.context.recv(plain := bytearray(8), context="plain")
    office.context.trecv(with_tag := bytearray(8), 0, ignore=(1 << 64) - 1, context="tagged")
    assert {entry.op_context for entry in entries(office.sides[0].queue, 2)} == {"plain", "tagged"}
    assert (plain, with_tag) == (text(8), text(8))
    assert [heir.queue.read(8) for heir in heirs] == [[], []]


@ON_MODEL
def test_closing_the_context_closes_the_endpoints(office):
    office.context.recv(bytearray(8))
    office.context.close()
    assert [side.endpoint.closed for side in office.sides] == [True, True]
    for call in (
        lambda: office.context.recv(bytearray(8)),
        lambda: office.context.cancel(None),
        lambda: office.context.rx_size_left,
        lambda: office.context.trecvmsg(tagged([], 1), PEEK),
    ):
        with refused(Errno.FI_EBADF):
            call()


@ON_MODEL
def test_the_nics_contexts_come_back(fabric, keep):
    domain = keep(fabric.domain(1))
    peers = keep(domain.av_open())
    for _ in range(2 * fabric.nics[1].parameters.contexts):
        with domain.srx_context() as context:
            side = keep(desk(domain, context, peers))
            context.recv(bytearray(8))
        assert side.endpoint.closed


@ON_MODEL
def test_a_context_says_what_it_is_and_that_it_was_left_open(fabric, keep):
    domain = keep(fabric.domain(1))
    context = domain.srx_context()
    context.recv(bytearray(8))
    assert repr(context).endswith("of 0 endpoints, 1 receives posted>")
    number = context._context
    with pytest.warns(ResourceWarning, match=rf"unclosed <SharedReceiveContext {number} of 0 endpoints"):
        del context
    closed = keep(domain.srx_context())
    closed.close()
    assert repr(closed) == f"<SharedReceiveContext {closed._context} closed>"


# What is refused


@ON_MODEL
def test_an_endpoint_with_shared_receives_has_none_of_its_own(office, keep):
    endpoint = office.sides[0].endpoint
    alias = keep(endpoint.alias())
    for call in (
        lambda: endpoint.recv(bytearray(8)),
        lambda: endpoint.trecv(bytearray(8), 1),
        lambda: alias.recv(bytearray(8)),
        lambda: endpoint.trecvmsg(tagged([], 1), PEEK),
    ):
        with refused(Errno.FI_EOPNOTSUPP, "receives are posted to <SharedReceiveContext"):
            call()


@ON_MODEL
def test_endpoints_with_different_address_vectors_cannot_share(office, keep):
    domain = office.context._parent
    with refused(Errno.FI_EINVAL, "one address vector"):
        desk(domain, office.context, keep(domain.av_open()))
    for side in office.sides:
        side.endpoint.close()
    keep(desk(domain, office.context, keep(domain.av_open())))


@ON_MODEL
def test_an_endpoint_needs_a_queue_for_what_it_receives(office, keep):
    domain = office.context._parent
    endpoint = keep(domain.endpoint())
    for target in (office.context, keep(domain.cq_open()), office.peers):
        endpoint.bind(target)
    with refused(Errno.FI_ENOCQ):
        endpoint.enable()
    endpoint.bind(keep(domain.cq_open()), BindFlags.FI_RECV)
    endpoint.enable()


@ON_MODEL
def test_an_endpoint_is_capable_of_no_more_than_its_receives(office, keep):
    domain, peers = office.context._parent, office.peers
    context = keep(domain.srx_context(RxAttr(caps=Caps.FI_MSG | Caps.FI_RECV, size=16)))
    assert context.rx_size == 16
    office.sides[0].endpoint.close()
    with refused(Errno.FI_EINVAL, "exceeds"):
        desk(domain, context, peers, caps=Caps.FI_MSG | Caps.FI_TAGGED | Caps.FI_RECV | Caps.FI_SEND)
    keep(desk(domain, context, peers, caps=Caps.FI_MSG | Caps.FI_RECV | Caps.FI_SEND))
    with refused(Errno.FI_EINVAL, "FI_MULTI_RECV"):
        context.recv(bytearray(8), flags=MULTI)


@ON_MODEL
def test_binding_is_checked(fabric, office, keep):
    domain = office.context._parent
    office.sides[1].endpoint.close()
    endpoint = keep(domain.endpoint())
    endpoint.bind(office.context)
    another, foreign = keep(domain.srx_context()), keep(keep(fabric.domain(1)).srx_context())
    with refused(Errno.FI_EINVAL, "bound already"):
        endpoint.bind(another)
    unbound = keep(domain.endpoint())
    with refused(Errno.FI_EINVAL, "another domain"):
        unbound.bind(foreign)
    with refused(Errno.FI_EOPBADSTATE):
        office.sides[0].endpoint.bind(another)
    another.close()
    with refused(Errno.FI_EBADF):
        unbound.bind(another)


@ON_MODEL
def test_without_an_endpoint_there_is_nobody_to_tell(fabric, keep):
    context = keep(keep(fabric.domain(1)).srx_context())
    context.recv(bytearray(8), context="early")
    for call in (
        lambda: context.cancel("early"),
        lambda: context.trecvmsg(tagged([], 1), PEEK),
        lambda: context.recv(bytearray(8), src_addr=0),
    ):
        with refused(Errno.FI_EOPBADSTATE, "enable an endpoint"):
            call()


@ON_MODEL
def test_sizes_and_options(fabric, keep):
    domain = keep(fabric.domain(1))
    assert keep(domain.srx_context()).rx_size == keep(domain.srx_context(RxAttr())).rx_size == 256
    for size in (0, 1 << 15):
        with refused(Errno.FI_EINVAL, "rx_size"):
            domain.srx_context(size)
    context = keep(domain.srx_context(100))
    assert context.getopt(OptionLevel.FI_OPT_ENDPOINT, EndpointOption.FI_OPT_RX_SIZE) == 100
    with refused(Errno.FI_EOPBADSTATE):
        context.setopt(OptionLevel.FI_OPT_ENDPOINT, EndpointOption.FI_OPT_RX_SIZE, 50)
    with refused(Errno.FI_ENOPROTOOPT):
        context.getopt(OptionLevel.FI_OPT_ENDPOINT, EndpointOption.FI_OPT_TX_SIZE)
    keep([domain.srx_context() for _ in range(fabric.nics[1].parameters.contexts - 3)])
    with refused(Errno.FI_ENOSPC):
        domain.srx_context()


@ON_MODEL
def test_an_info_that_asks_for_a_shared_context_makes_an_endpoint_that_needs_one(fabric, keep, office):
    info = fabric.getinfo(Info(ep_attr=SHARED))[0]
    assert info.ep_attr.rx_ctx_cnt == FI_SHARED_CONTEXT
    assert info.domain_attr.max_ep_srx_ctx == fabric.nics[0].parameters.contexts - 1
    domain = office.context._parent
    endpoint = keep(domain.endpoint(info))
    endpoint.bind(keep(domain.cq_open()), BOTH)
    endpoint.bind(office.peers)
    with refused(Errno.FI_EOPBADSTATE, "bind a shared receive context"):
        endpoint.enable()
    endpoint.bind(office.context)
    endpoint.enable()


# With other kinds of endpoints


@ON_MODEL
def test_an_endpoint_may_share_both_its_transmit_ring_and_its_receives(fabric, keep, office):
    domain = office.context._parent
    office.sides[1].endpoint.close()
    ring, queue = keep(domain.stx_context(16)), keep(domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED))
    endpoint: Endpoint = keep(domain.endpoint())
    for target in (ring, office.context, queue, office.peers):
        endpoint.bind(target, BOTH)
    endpoint.enable()
    number = office.sender.peers.insert(endpoint.getname())
    office.context.recv(buffer := bytearray(9000), context="long")
    office.sender.endpoint.send(text(9000), number)
    (entry,) = entries(queue, 1)
    assert (entry.op_context, buffer) == ("long", text(9000))


def test_connected_endpoints_that_accept_share_receives(two_models, keep, client, server, passive):
    context = keep(server.domain.srx_context())
    accepted = []
    for _ in range(2):
        calling = client.endpoint()
        calling.connect(passive.getname())
        answering = server.domain.endpoint(asked(client, server).info)
        server.kept.append(answering)
        for target in (context, server.queue, server.events):
            answering.bind(target, BOTH)
        answering.accept()
        client.event(EqEvent.FI_CONNECTED)
        server.event(EqEvent.FI_CONNECTED)
        accepted.append((calling, answering))
    buffers = [bytearray(6000) for _ in range(3)]
    for number, buffer in enumerate(buffers):
        context.recv(buffer, src_addr=5, context=number)
    words = b"one", text(6000), b"three"
    for (calling, _), message in zip((accepted[1], accepted[0], accepted[1]), words, strict=True):
        calling.send(message)
        client.queue.sread(timeout=30)
    assert sorted(server.entry().op_context for _ in range(3)) == [0, 1, 2]
    assert [buffers[0][:3], buffers[1], buffers[2][:5]] == [b"one", text(6000), b"three"]
    for _, answering in accepted:
        with refused(Errno.FI_EOPNOTSUPP):
            answering.recv(bytearray(8))


def test_the_info_of_a_connection_request_may_ask_for_shared_receives(two_models, keep, client, server, passive):
    calling = client.endpoint(MSG)
    calling.connect(passive.getname())
    info = asked(client, server).info
    info = dataclasses.replace(info, ep_attr=dataclasses.replace(info.ep_attr, rx_ctx_cnt=FI_SHARED_CONTEXT))
    answering = keep(server.domain.endpoint(info))
    for target in (server.queue, server.events):
        answering.bind(target, BOTH)
    with refused(Errno.FI_EOPBADSTATE, "shared receive context"):
        answering.accept()
    answering.bind(keep(server.domain.srx_context()))
    answering.accept()
    client.event(EqEvent.FI_CONNECTED)
    server.event(EqEvent.FI_CONNECTED)
