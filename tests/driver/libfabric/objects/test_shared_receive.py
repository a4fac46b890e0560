"""Shared receive contexts: which receive a message meets, and who is told. fi_srx_context of fi_endpoint(3).

Covers ``libfabric/objects/endpoints/shared_receive.py`` and ``transport/shared_receives.py``.
"""

import dataclasses

import numpy as np
import pytest
from amoeba import (
    FI_ADDR_UNSPEC,
    FI_SHARED_CONTEXT,
    AtomicMsg,
    Caps,
    CqFormat,
    DeferredWork,
    Endpoint,
    EndpointOption,
    EqEvent,
    Errno,
    MrAccess,
    Msg,
    Op,
    OpFlags,
    OpMsg,
    OptionLevel,
    RmaIoc,
    TriggeredContext,
    TriggerOp,
)

from tests.driver.connections import MSG, asked
from tests.driver.endpoints import ALL_ACCESS, BOTH, ON_MODEL, aligned, entries, idle, make_talker, refused
from tests.driver.shared_receives import CLAIM, DISCARD, MULTI, PEEK, RECEIVED, TAG, TAGGED, failure, tagged, text

pytestmark = pytest.mark.full_build

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
    region = keep(office.context._parent.mr_reg(buffer := aligned(192 + 15), MrAccess.FI_RECV))
    office.context.setopt(OptionLevel.FI_OPT_ENDPOINT, EndpointOption.FI_OPT_MIN_MULTI_RECV, 16)
    office.context.recv(buffer, desc=region, context="pool", flags=MULTI)
    for who, length in ((0, 20), (1, 20), (1, 10)):
        office.send(text(length, who), who)
    (first,) = entries(office.sides[0].queue, 1)
    second, last = entries(office.sides[1].queue, 2)
    assert [entry.buf - region.start for entry in (first, second, last)] == [0, 64, 128]
    assert [bool(entry.flags & Caps.FI_MULTI_RECV) for entry in (first, second, last)] == [False, False, True]
    assert [buffer[:20], buffer[64:84], buffer[128:138]] == [text(20), text(20, 1), text(10, 1)]


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
        client.queue.sread(timeout=0.2)  # the long one ends when the server reads
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
