"""Scalable endpoints whose receives are shared: fi_endpoint(3), a shared context of one type, many of the other."""

from dataclasses import dataclass

import numpy as np
import pytest
from amoeba import (
    FI_SHARED_CONTEXT,
    BindFlags,
    CompletionQueue,
    CqFormat,
    EpAttr,
    EpType,
    Errno,
    Info,
    Op,
    OpFlags,
    ReceiveContext,
    ScalableEndpoint,
    TransmitContext,
)
from amoeba.fi import fi_ep_bind, fi_scalable_ep_bind

from tests.driver.endpoints import ALL_ACCESS, ON_MODEL, entries, refused
from tests.driver.shared_receives import RECEIVED, Office, failure, make_office, text

pytestmark = pytest.mark.full_build

LONG = 9000


@dataclass
class Branch:
    """A scalable endpoint that shares the receives of an office, in the place of its second desk."""

    office: Office
    endpoint: ScalableEndpoint
    sender: TransmitContext
    receiver: ReceiveContext
    sent: CompletionQueue
    received: CompletionQueue

    def close(self):
        for thing in (self.endpoint, self.sent, self.received):
            thing.close()


@pytest.fixture
def branch(fabric, keep):
    office = make_office(fabric, keep)
    office.sides[1].endpoint.close()
    office.sender.peers.remove(office.numbers[1])
    domain = office.sides[0].domain
    endpoint = keep(domain.scalable_endpoint())
    endpoint.bind(office.peers)
    sender, receiver = keep(endpoint.tx_context(0)), keep(endpoint.rx_context(0))
    sent, received = (keep(domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED)) for _ in range(2))
    sender.bind(sent)
    receiver.bind(office.context)
    receiver.bind(received)
    endpoint.enable()
    office.numbers[1] = office.sender.peers.insert(endpoint.getname())
    return Branch(office, endpoint, sender, receiver, sent, received)


def test_messages_for_it_and_for_others_meet_the_receives_in_their_order(branch):
    office, sizes = branch.office, (8, LONG, 20, LONG)
    buffers = [bytearray(LONG) for _ in sizes]
    for number, buffer in enumerate(buffers):
        office.context.recv(buffer, context=number)
    for number, (size, who) in enumerate(zip(sizes, (1, 1, 0, 0), strict=True)):
        office.send(text(size, number), who)
    for queue, numbers in ((branch.received, {0, 1}), (office.sides[0].queue, {2, 3})):
        found = entries(queue, 2)
        assert {entry.op_context for entry in found} == numbers
        assert all((entry.flags, entry.len) == (RECEIVED, sizes[entry.op_context]) for entry in found)
    assert [bytes(buffer[:size]) for buffer, size in zip(buffers, sizes, strict=True)] == [
        text(size, number) for number, size in enumerate(sizes)
    ]


@ON_MODEL
@pytest.mark.parametrize("length", [8, LONG], ids=["short", "long"])
def test_transmit_contexts_send_and_peers_reach_memory_through_an_endpoint_with_shared_receives(branch, keep, length):
    """The sender gets an answer from the one address that it has written to."""
    office = branch.office
    peer, memory = office.sides[0].peer, np.zeros(1, np.uint64)
    region = keep(office.sides[0].domain.mr_reg(memory, ALL_ACCESS))
    office.sender.endpoint.recv(buffer := bytearray(length), context="answer", flags=OpFlags.FI_COMPLETION)
    branch.sender.send(text(length), peer)
    ((_, source),) = office.sender.queue.sreadfrom(timeout=30)
    assert (buffer, source) == (text(length), office.numbers[1])
    assert len(entries(branch.sent, 1)) == 1
    office.sender.endpoint.atomic(np.uint64(7), office.numbers[1], region.address, region.key, Op.FI_SUM)
    office.wait()
    assert memory[0] == 7


@ON_MODEL
def test_an_endpoint_with_shared_receives_reports_its_own_messages_with_their_source_and_counts_them(fabric, keep):
    office = make_office(fabric, keep)
    for side in office.sides:
        side.endpoint.close()
    domain = office.sides[0].domain
    endpoint, counter = keep(domain.scalable_endpoint(tx_contexts=2)), keep(domain.cntr_open())
    endpoint.bind(office.peers)
    receiver, queue = keep(endpoint.rx_context(0)), keep(domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED))
    receiver.bind(queue)
    receiver.bind(office.context)
    receiver.bind(counter, BindFlags.FI_RECV)
    receiver.enable()
    number = office.sender.peers.insert(endpoint.getname())
    for length in (5, LONG):
        office.context.recv(bytearray(LONG))
        office.sender.endpoint.send(text(length), number)
        ((entry, source),) = queue.sreadfrom(timeout=30)
        assert (entry.len, source) == (length, office.sides[0].peer)
    counter.wait(2, timeout=30)


@ON_MODEL
def test_closing_it_leaves_the_receives_to_others_and_gives_its_contexts_back(fabric, branch, keep):
    office, free = branch.office, fabric.nics[1].contexts.free
    all_of_them = fabric.nics[1].parameters.contexts
    office.send(b"dropped", 1)
    office.wait()
    branch.endpoint.close()
    assert len(free) == all_of_them - 2
    office.context.recv(buffer := bytearray(8), context="next")
    office.send(b"received", 0)
    assert entries(office.sides[0].queue, 1)[0].op_context == "next"
    assert buffer == b"received"
    office.context.close()
    assert len(free) == all_of_them


@ON_MODEL
def test_a_receive_that_it_has_met_is_told_when_it_is_closed(branch):
    office = branch.office
    office.context.recv(bytearray(4), context="cut")
    office.send(b"too long", 1)
    office.wait()
    branch.receiver.close()
    assert failure(branch.received).err is Errno.FI_ETRUNC


@ON_MODEL
def test_closing_the_shared_context_closes_its_receive_context_first(branch):
    branch.office.context.close()
    assert branch.receiver.closed
    assert not branch.sender.closed


@ON_MODEL
def test_receives_are_posted_to_the_shared_context_alone(branch):
    with refused(Errno.FI_EOPNOTSUPP, "receives are posted to <SharedReceiveContext"):
        branch.receiver.recv(bytearray(4))
    with refused(Errno.FI_ENOENT):
        branch.receiver.cancel("nothing")


@ON_MODEL
def test_binding_is_checked(branch, keep):
    office = branch.office
    domain = office.sides[0].domain
    branch.close()
    endpoint = keep(domain.scalable_endpoint())
    with refused(Errno.FI_EINVAL, "expected an address vector: bind <SharedReceiveContext"):
        endpoint.bind(office.context)
    with refused(Errno.FI_EINVAL, "expected an address vector"):
        fi_scalable_ep_bind(endpoint, office.context, 0)
    with refused(Errno.FI_EINVAL, "bound to a completion queue or counter"):
        fi_ep_bind(keep(endpoint.tx_context(0)), office.context, 0)
    endpoint.bind(keep(domain.av_open()))
    receiver = keep(endpoint.rx_context(0))
    fi_ep_bind(receiver, office.context, 0)
    with refused(Errno.FI_EINVAL, "bound already"):
        receiver.bind(office.context)
    with refused(Errno.FI_ENOCQ, "bind a completion queue with FI_RECV"):
        receiver.enable()
    receiver.bind(keep(domain.cq_open()))
    with refused(Errno.FI_EINVAL, "share receives with one address vector"):
        receiver.enable()
    for thing in (endpoint, office.sides[0].endpoint):
        thing.close()
    several = keep(domain.scalable_endpoint(rx_contexts=2))
    with refused(Errno.FI_EINVAL, "this one has 2"):
        keep(several.rx_context(1)).bind(office.context)


@ON_MODEL
def test_an_info_may_ask_for_shared_receives(fabric, branch, keep):
    office = branch.office
    branch.close()
    attributes = EpAttr(type=EpType.FI_EP_RDM, tx_ctx_cnt=1, rx_ctx_cnt=FI_SHARED_CONTEXT)
    info = fabric.getinfo(Info(ep_attr=attributes))[0]
    endpoint = keep(office.sides[0].domain.scalable_endpoint(info))
    assert (endpoint.tx_contexts, endpoint.rx_contexts) == (1, 1)
    endpoint.bind(office.peers)
    receiver = keep(endpoint.rx_context(0))
    receiver.bind(keep(office.sides[0].domain.cq_open()))
    with refused(Errno.FI_EOPBADSTATE, "bind a shared receive context"):
        receiver.enable()
    receiver.bind(office.context)
    receiver.enable()
    attributes = EpAttr(type=EpType.FI_EP_RDM, tx_ctx_cnt=FI_SHARED_CONTEXT, rx_ctx_cnt=2)
    with refused(Errno.FI_EOPNOTSUPP, "transmit contexts of its own"):
        office.sides[0].domain.scalable_endpoint(fabric.getinfo(Info(ep_attr=attributes))[0])
