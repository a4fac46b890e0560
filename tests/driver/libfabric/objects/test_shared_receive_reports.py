"""Shared receive contexts: what is counted and reported, and how much may wait."""

from amoeba import BindFlags, CompletionQueue, CqFormat, OpFlags, WaitObj

from tests.driver.endpoints import BOTH, ON_MODEL, entries, idle, make_talker
from tests.driver.shared_receives import MULTI, desk


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
def test_more_receives_can_be_posted_than_the_nic_keeps(office):
    most = office.context._nic.parameters.receives
    assert office.context.rx_size_left == office.context.rx_size == 32
    buffers = [bytearray(4) for _ in range(most + 6)]
    for number, buffer in enumerate(buffers):
        office.context.recv(buffer, context=number)
    assert office.context.rx_size_left == 0
    for number in range(most + 6):
        office.send(b"%4d" % number, number % 2)
        office.sender.queue.read()  # space in its ring: office.send() is not reported
        (entry,) = entries(office.sides[number % 2].queue, 1)
        assert (entry.op_context, bytes(buffers[number])) == (number, b"%4d" % number)


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
