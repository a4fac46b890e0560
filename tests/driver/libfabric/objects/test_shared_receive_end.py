"""Shared receive contexts: what becomes of receives and messages when endpoints, or the context, are closed."""

import pytest
from amoeba import Errno, Retransmission

from tests.driver.endpoints import ON_MODEL, entries, idle, refused
from tests.driver.shared_receives import CLAIM, PEEK, desk, failure, tagged, text


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
    domain = office.context._parent
    free = len(domain.nic.contexts.free)
    heirs = [keep(desk(domain, office.context, office.peers)) for _ in range(free)]
    assert office.sender.peers.lookup(office.numbers[1]) in [heir.endpoint.getname() for heir in heirs]
    office.context.recv(plain := bytearray(8), context="plain")
    office.context.trecv(with_tag := bytearray(8), 0, ignore=(1 << 64) - 1, context="tagged")
    assert {entry.op_context for entry in entries(office.sides[0].queue, 2)} == {"plain", "tagged"}
    assert (plain, with_tag) == (text(8), text(8))
    assert [heir.queue.read(8) for heir in heirs] == [[]] * free


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
    number = context._shared.context.number
    with pytest.warns(ResourceWarning, match=rf"unclosed <SharedReceiveContext {number} of 0 endpoints"):
        del context
    closed = keep(domain.srx_context())
    closed.close()
    assert repr(closed) == f"<SharedReceiveContext {closed._shared.context.number} closed>"


@ON_MODEL
def test_of_messages_that_were_taken_over_those_of_an_endpoint_that_is_closed_are_dropped(office):
    for number in range(100):
        office.tsend(bytes([number]) * (8 if number % 4 else 6000), number % 2, tag=number)
        while office.sender.endpoint.tx_size_left < 8:
            office.sender.queue.read()
            office.sides[0].queue.read()
    for _ in range(200):
        office.sender.queue.read()
        assert office.sides[0].queue.read() == []
    office.sides[1].endpoint.close()
    for number in range(98, -1, -2):
        office.context.trecv(buffer := bytearray(6000), number, context=number)
        entry = entries(office.sides[0].queue, 1)[0]
        assert (entry.op_context, entry.len) == (number, 8 if number % 4 else 6000)
        assert buffer[: entry.len] == bytes([number]) * entry.len
    office.context.trecv(bytearray(8), 0, (1 << 64) - 1, context="waits")
    assert idle(office.sides[0]) == []
