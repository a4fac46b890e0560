"""Scalable endpoints: one address, several contexts on either side. fi_endpoint(3).

Covers ``libfabric/objects/endpoints/scalable.py``.
"""

import numpy as np
import pytest
from amoeba import (
    BindFlags,
    ClosedError,
    CqFormat,
    EndpointAddress,
    EpAttr,
    EpType,
    Errno,
    FabricError,
    Info,
    Op,
    Retransmission,
    RxAttr,
    TxAttr,
    rx_addr,
)

from tests.driver.endpoints import ALL_ACCESS, ON_MODEL, refused

pytestmark = pytest.mark.full_build

ONE = np.uint64(1)
BITS = 2


class Scalable:
    """A scalable endpoint with a queue for each context, all enabled."""

    def __init__(self, domain, tx_contexts, rx_contexts):
        self.domain = domain
        self.peers = domain.av_open(rx_ctx_bits=BITS)
        self.endpoint = domain.scalable_endpoint(
            tx_contexts=tx_contexts, rx_contexts=rx_contexts, tx_size=16, rx_size=4
        )
        self.endpoint.bind(self.peers)
        self.tx_queues = [domain.cq_open(CqFormat.FI_CQ_FORMAT_MSG) for _ in range(tx_contexts)]
        self.rx_queues = [domain.cq_open(CqFormat.FI_CQ_FORMAT_DATA) for _ in range(rx_contexts)]
        self.tx = [self.endpoint.tx_context(index) for index in range(tx_contexts)]
        self.rx = [self.endpoint.rx_context(index) for index in range(rx_contexts)]
        for context, queue in zip(self.tx, self.tx_queues, strict=True):
            context.bind(queue)
        for context, queue in zip(self.rx, self.rx_queues, strict=True):
            context.bind(queue)
        self.endpoint.enable()

    def finish(self, index=0):
        (entry,) = self.tx_queues[index].sread(timeout=30)
        return entry


@pytest.fixture
def sides(fabric, keep):
    """(client with three transmit contexts, server with two receive contexts), connected."""
    client, server = keep(Scalable(fabric.domain(0), 3, 1)), keep(Scalable(fabric.domain(1), 1, 2))
    assert client.peers.insert(server.endpoint.getname()) == 0
    assert server.peers.insert(client.endpoint.getname()) == 0
    return client, server


@pytest.fixture
def memory():
    return np.zeros(8, np.uint64)


@pytest.fixture
def region(sides, memory, keep):
    return keep(sides[1].domain.mr_reg(memory, ALL_ACCESS))


def test_every_transmit_context_reaches_the_peer_and_has_its_own_queue(sides, region, memory):
    client, _ = sides
    for index, context in enumerate(client.tx):
        for _ in range(index + 1):
            context.atomic(ONE, 0, region.address + 8 * index, region.key, Op.FI_SUM, context=index)
    for index in range(3):
        assert [client.finish(index).op_context for _ in range(index + 1)] == [index] * (index + 1)
    assert memory.tolist()[:4] == [1, 2, 3, 0]


def test_data_arrives_at_the_receive_context_that_is_named(sides, region):
    client, server = sides
    for index in (0, 1):
        client.tx[2].writedata(bytes(8), 10 + index, rx_addr(0, index, BITS), region.address, region.key)
        client.finish(2)
    client.tx[0].writedata(bytes(8), 20, 0, region.address, region.key)
    client.finish(0)
    told = [[(entry.data, source) for entry, source in queue.readfrom(8)] for queue in server.rx_queues]
    assert told == [[(10, 0), (20, 0)], [(11, 0)]]  # whichever context sent it, it is the client's address


def test_the_context_of_a_number_is_in_its_upper_bits():
    assert [rx_addr(5, index, 3) for index in (0, 1, 7)] == [5, 1 << 61 | 5, 7 << 61 | 5]
    assert rx_addr(5, 0, 0) == 5
    for index in (-1, 8):
        with refused(Errno.FI_EINVAL):
            rx_addr(5, index, 3)


@ON_MODEL
def test_receive_contexts_that_a_peer_does_not_have_are_unknown(sides, region):
    client, _ = sides
    for number in (rx_addr(0, 3, BITS), rx_addr(1, 1, BITS), 1):
        with refused(Errno.FI_EINVAL):
            client.tx[0].write(b"x", number, region.address, region.key)


@ON_MODEL
def test_a_vector_without_bits_has_no_receive_contexts(fabric, sides, keep):
    domain = sides[0].domain
    with refused(Errno.FI_EINVAL):
        domain.av_open(rx_ctx_bits=9)
    assert keep(domain.av_open()).rx_ctx_bits == 0


@ON_MODEL
def test_removing_a_peer_releases_what_its_receive_contexts_took(fabric, sides, region):
    client, _ = sides
    free = fabric.nics[0].peers.free
    before = len(free)
    client.tx[0].write(bytes(8), rx_addr(0, 1, BITS), region.address, region.key)
    assert len(free) == before - 1
    with refused(Errno.FI_EBUSY):
        client.peers.remove(0)
    client.finish()
    client.peers.remove(0)
    assert len(free) == before + 4  # that entry, and one of each context that transmits, or reads long messages
    with refused(Errno.FI_EINVAL):
        client.tx[0].write(bytes(8), rx_addr(0, 1, BITS), region.address, region.key)


@ON_MODEL
def test_the_address_says_which_contexts_there_are(fabric, sides, keep):
    client, server = sides
    name = EndpointAddress.unpack(client.endpoint.getname())
    assert (name.resource_index, name.contexts) == (0, 4)
    assert [context.context for context in (*client.rx, *client.tx)] == [0, 1, 2, 3]
    assert EndpointAddress.unpack(name.pack()) == name
    assert client.peers.straddr(name.pack()).endswith("job 1 pid 1 contexts 0 to 3")
    with refused(Errno.FI_EINVAL):
        EndpointAddress.unpack(EndpointAddress(name.mac, name.ip, 1, 1, 4095, 2).pack())
    assert server.peers.lookup(0) == name.pack()


@ON_MODEL
def test_contexts_of_the_nic_are_taken_side_by_side_and_released(fabric, keep):
    domain = keep(fabric.domain(0))
    most = fabric.nics[0].parameters.contexts
    for _ in range(3):
        with domain.scalable_endpoint(tx_contexts=most - 1) as endpoint:
            for open_another in (domain.scalable_endpoint, domain.stx_context):
                with refused(Errno.FI_ENOSPC):
                    open_another()
            assert EndpointAddress.unpack(endpoint.getname()).resource_index == 0
    with refused(Errno.FI_ENOSPC):
        domain.scalable_endpoint(rx_contexts=most)


@ON_MODEL
@pytest.mark.parametrize("counts", [{"tx_contexts": 0}, {"rx_contexts": 0}, {"tx_contexts": -1}])
def test_an_endpoint_has_contexts_of_both_kinds(fabric, keep, counts):
    with refused(Errno.FI_EINVAL):
        keep(fabric.domain(0)).scalable_endpoint(**counts)


@ON_MODEL
def test_an_info_says_how_many_contexts_and_how_large(fabric, keep):
    hints = Info(ep_attr=EpAttr(tx_ctx_cnt=2, rx_ctx_cnt=1), tx_attr=TxAttr(size=64), rx_attr=RxAttr(size=7))
    info = fabric.getinfo(hints)[0]
    endpoint = keep(keep(fabric.domain(info)).scalable_endpoint(info))
    assert (endpoint.tx_contexts, endpoint.rx_contexts) == (2, 1)
    assert keep(endpoint.tx_context(0)).tx_size == 64
    assert keep(endpoint.tx_context(1, tx_size=32)).tx_size == 32
    assert keep(endpoint.rx_context(0)).rx_size == 7


@ON_MODEL
@pytest.mark.parametrize("ep_type", [EpType.FI_EP_MSG, EpType.FI_EP_DGRAM])
def test_only_reliable_connectionless_endpoints_have_several_contexts(fabric, keep, ep_type):
    info = fabric.getinfo(Info(ep_attr=EpAttr(type=ep_type)))[0]
    with refused(Errno.FI_EOPNOTSUPP):
        keep(fabric.domain(info)).scalable_endpoint(info)


@ON_MODEL
def test_a_context_is_open_once_and_can_be_opened_again(sides, region, keep):
    client, _ = sides
    for open_context, count in ((client.endpoint.tx_context, 3), (client.endpoint.rx_context, 1)):
        with refused(Errno.FI_EBUSY):
            open_context(0)
        for index in (-1, count):
            with refused(Errno.FI_EINVAL):
                open_context(index)
    client.tx[0].close()
    again = keep(client.endpoint.tx_context(0))
    again.bind(client.tx_queues[0])
    again.enable()
    again.write(bytes(8), 0, region.address, region.key, context="again")
    assert client.finish().op_context == "again"


@ON_MODEL
def test_enabling_says_what_is_missing(fabric, keep):
    domain = keep(fabric.domain(0))
    endpoint = keep(domain.scalable_endpoint())
    sender, receiver = keep(endpoint.tx_context(0)), keep(endpoint.rx_context(0))
    with refused(Errno.FI_EOPBADSTATE):
        sender.write(b"x", 0, 0, 0)
    with refused(Errno.FI_ENOCQ):
        sender.enable()
    sender.bind(keep(domain.cq_open()))
    for enable in (sender.enable, receiver.enable, endpoint.enable):
        with refused(Errno.FI_ENOAV):
            enable()
    peers = keep(domain.av_open())
    endpoint.bind(peers)
    with refused(Errno.FI_EINVAL, "bound already"):
        endpoint.bind(peers)
    receiver.enable()
    endpoint.enable()  # the other one
    assert sender.enabled
    for enable in (sender.enable, receiver.enable):
        with refused(Errno.FI_EOPBADSTATE):
            enable()
    queue = keep(domain.cq_open())
    for bind in (lambda: sender.bind(queue), lambda: receiver.bind(queue)):
        with refused(Errno.FI_EOPBADSTATE):
            bind()


@ON_MODEL
def test_contexts_are_bound_in_their_direction_to_what_is_of_their_domain(fabric, keep):
    domain = keep(fabric.domain(0))
    endpoint = keep(domain.scalable_endpoint())
    sender, receiver = keep(endpoint.tx_context(0)), keep(endpoint.rx_context(0))
    queue, foreign = keep(domain.cq_open()), keep(keep(fabric.domain(0)).cq_open())
    for context, flags in (
        (sender, BindFlags.FI_RECV),
        (sender, BindFlags.FI_RECV | BindFlags.FI_TRANSMIT),
        (receiver, BindFlags.FI_TRANSMIT),
    ):
        with refused(Errno.FI_EBADFLAGS):
            context.bind(queue, flags)
    for bind in (sender.bind, receiver.bind):
        with refused(Errno.FI_EINVAL, "another domain"):
            bind(foreign)
        bind(queue)
        with refused(Errno.FI_EINVAL, "bound already"):
            bind(queue)
    with refused(Errno.FI_EINVAL, "another domain"):
        endpoint.bind(keep(keep(fabric.domain(0)).av_open()))


@ON_MODEL
def test_a_transmit_context_counts(sides, region, keep):
    client, _ = sides
    client.tx[1].close()
    counter = keep(client.domain.cntr_open())
    context = keep(client.endpoint.tx_context(1))
    context.bind(client.tx_queues[1], BindFlags.FI_TRANSMIT | BindFlags.FI_SELECTIVE_COMPLETION)
    context.bind(counter, BindFlags.FI_WRITE)
    context.enable()
    for _ in range(3):
        context.write(bytes(8), 0, region.address, region.key)
    counter.wait(3, timeout=30)
    assert client.tx_queues[1].read(4) == []


@ON_MODEL
def test_what_a_closed_receive_context_was_for_is_refused(sides, region):
    client, server = sides
    server.rx[1].close()
    to = (rx_addr(0, 1, BITS), region.address, region.key)
    client.tx[0].write(bytes(8), *to)
    with pytest.raises(FabricError):
        client.finish()
    assert client.tx_queues[0].readerr().err == Errno.FI_ECONNREFUSED
    client.tx[0].write(bytes(8), 0, *to[1:])  # the other one is still there
    client.finish()


@ON_MODEL
def test_entries_about_peers_take_their_space(sides, region):
    client, server = sides
    assert server.rx[0].rx_size_left == server.rx[0].rx_size == 4
    client.tx[0].writedata(bytes(8), 1, 0, region.address, region.key)
    client.finish()
    assert server.rx[0].rx_size_left == 3


@ON_MODEL
@pytest.mark.parametrize("resource", ["peers", "endpoint", "domain"])
def test_closing_what_contexts_belong_to_closes_them(fabric, sides, resource):
    client, _ = sides
    getattr(client, resource).close()
    assert all(context.closed for context in (client.endpoint, *client.tx, *client.rx))
    with pytest.raises(ClosedError):
        client.tx[0].write(b"x", 0, 0, 0)
    assert sorted(fabric.nics[0].contexts.free) == list(range(fabric.nics[0].parameters.contexts))


@ON_MODEL
def test_operations_in_flight_finish_before_a_context_is_closed(sides, region, memory):
    client, _ = sides
    for _ in range(10):
        client.tx[1].atomic(ONE, 0, region.address, region.key, Op.FI_SUM)
    client.endpoint.close()
    assert memory[0] == 10


@ON_MODEL
def test_a_context_that_is_never_answered_is_not_used_again(fabric, sides, region):
    client, nic = sides[0], fabric.nics[0]
    nic.retransmission = Retransmission(timeout=1 << 28)  # whatever the host's speed, it has not given up
    fabric.network.detach(fabric.devices[1])
    client.tx[0].write(bytes(8), 0, region.address, region.key)
    client.tx[0].close()
    with refused(Errno.FI_EBUSY):
        client.endpoint.tx_context(0)
    client.endpoint.close()
    assert set(range(nic.parameters.contexts)) - set(nic.contexts.free) == {1}


@ON_MODEL
def test_what_is_dropped_open_warns_and_can_be_opened_again(fabric, keep):
    domain = keep(fabric.domain(0))
    endpoint = domain.scalable_endpoint()
    for _ in range(2):
        context = endpoint.tx_context(0)
        with pytest.warns(ResourceWarning, match=r"unclosed <TransmitContext 1 of 10\.0\.0\.1 .* not enabled>"):
            del context
        context = endpoint.rx_context(0)
        with pytest.warns(ResourceWarning, match=r"unclosed <ReceiveContext 0 of 10\.0\.0\.1 .* not enabled>"):
            del context
    with pytest.warns(ResourceWarning, match=r"unclosed <ScalableEndpoint .* contexts 0 to 1 of 1 \+ 1 contexts>"):
        del endpoint
    keep(domain.scalable_endpoint(tx_contexts=3))
