"""Options, default flags, aliases and space of endpoints: fi_endpoint(3).

Covers ``libfabric/objects/endpoints/endpoint.py``, ``libfabric/objects/endpoints/options.py`` and
``libfabric/objects/endpoints/transmit.py``.
"""

import gc

import numpy as np
import pytest
from amoeba import (
    INJECT_SIZE,
    MAX_MESSAGE,
    BindFlags,
    ClosedError,
    CqEntry,
    EndpointOption,
    Errno,
    Op,
    OpFlags,
    OptionLevel,
)

from tests.driver.endpoints import ALL_ACCESS, make_side, refused

pytestmark = pytest.mark.parametrize("fabric", ["model"], indirect=True)

LEVEL = OptionLevel.FI_OPT_ENDPOINT
COMPLETION = OpFlags.FI_COMPLETION


@pytest.fixture
def selective(pair, target, keep):
    """(endpoint, its queue, where to): successes are reported only if FI_COMPLETION asks for it."""
    domain = pair[0].domain
    queue, peers = keep(domain.cq_open()), keep(domain.av_open())
    endpoint = keep(domain.endpoint(tx_size=16))
    endpoint.bind(queue, BindFlags.FI_TRANSMIT | BindFlags.FI_SELECTIVE_COMPLETION)
    endpoint.bind(peers)
    endpoint.enable()
    return endpoint, queue, (peers.insert(pair[1].endpoint.getname()), target[1].address, target[1].key)


def reported(queue, *writers):
    """Contexts of what each of the writers' calls reports."""
    for write in writers:
        write()
    entries = []
    for source in list(queue._sources):
        while source.expectant:
            entries += queue.read(8)
    return [entry.op_context for entry in entries]


# Options


@pytest.mark.parametrize(
    ("option", "value"),
    [
        (EndpointOption.FI_OPT_TX_SIZE, 16),
        (EndpointOption.FI_OPT_RX_SIZE, 256),
        (EndpointOption.FI_OPT_MIN_MULTI_RECV, 0),
        (EndpointOption.FI_OPT_MAX_MSG_SIZE, MAX_MESSAGE),
        (EndpointOption.FI_OPT_MAX_TAGGED_SIZE, MAX_MESSAGE),
        (EndpointOption.FI_OPT_INJECT_MSG_SIZE, INJECT_SIZE),
        (EndpointOption.FI_OPT_INJECT_TAGGED_SIZE, INJECT_SIZE),
        (EndpointOption.FI_OPT_MAX_RMA_SIZE, MAX_MESSAGE),
        (EndpointOption.FI_OPT_MAX_ATOMIC_SIZE, MAX_MESSAGE),
        (EndpointOption.FI_OPT_INJECT_RMA_SIZE, INJECT_SIZE),
        (EndpointOption.FI_OPT_INJECT_ATOMIC_SIZE, INJECT_SIZE),
    ],
)
def test_options_say_how_the_endpoint_was_opened_and_what_the_driver_can_do(pair, option, value):
    assert pair[0].endpoint.getopt(LEVEL, option) == value


@pytest.mark.parametrize("tx_size", [1, 17, 64])
def test_a_ring_has_the_size_that_was_set(pair, target, keep, tx_size):
    endpoint = keep(pair[0].domain.endpoint())
    endpoint.setopt(LEVEL, EndpointOption.FI_OPT_TX_SIZE, tx_size)
    space = endpoint.getopt(LEVEL, EndpointOption.FI_OPT_TX_SIZE)
    assert space == max(16, 1 << (tx_size - 1).bit_length())
    endpoint.bind(pair[0].queue)
    endpoint.bind(pair[0].peers)
    endpoint.enable()
    for _ in range(space):
        endpoint.write(bytes(8), pair[0].peer, target[1].address, target[1].key)
    with refused(Errno.FI_EAGAIN):
        endpoint.write(bytes(8), pair[0].peer, target[1].address, target[1].key)


def test_as_many_peers_entries_wait_as_were_set(pair, keep):
    endpoint = keep(pair[0].domain.endpoint())
    endpoint.setopt(LEVEL, EndpointOption.FI_OPT_RX_SIZE, 9)
    assert endpoint.getopt(LEVEL, EndpointOption.FI_OPT_RX_SIZE) == endpoint.rx_size == 9


@pytest.mark.parametrize("option", [EndpointOption.FI_OPT_TX_SIZE, EndpointOption.FI_OPT_RX_SIZE])
def test_sizes_cannot_be_changed_once_there_are_rings(pair, keep, option):
    with refused(Errno.FI_EOPBADSTATE):
        pair[0].endpoint.setopt(LEVEL, option, 64)
    with refused(Errno.FI_EINVAL):
        keep(pair[0].domain.endpoint()).setopt(LEVEL, option, 0)


@pytest.mark.parametrize(
    ("level", "option"),
    [
        (LEVEL, EndpointOption.FI_OPT_CM_DATA_SIZE),
        (LEVEL, EndpointOption.FI_OPT_BUFFERED_LIMIT),
        (LEVEL, 77),
        (1, EndpointOption.FI_OPT_TX_SIZE),
    ],
)
def test_options_that_do_not_apply_are_refused(pair, level, option):
    with refused(Errno.FI_ENOPROTOOPT):
        pair[0].endpoint.getopt(level, option)
    with refused(Errno.FI_ENOPROTOOPT):
        pair[0].endpoint.setopt(level, option, 1)


def test_limits_of_the_driver_can_only_be_read(pair):
    with refused(Errno.FI_EOPNOTSUPP, "only be read"):
        pair[0].endpoint.setopt(LEVEL, EndpointOption.FI_OPT_MAX_RMA_SIZE, 8)


# Default flags


def test_default_flags_can_be_changed_between_operations(selective):
    endpoint, queue, to = selective
    assert endpoint.op_flags == 0
    assert reported(queue, lambda: endpoint.write(bytes(8), *to, context=1)) == []
    endpoint.op_flags = COMPLETION
    assert endpoint.op_flags == COMPLETION
    assert reported(queue, lambda: endpoint.write(bytes(8), *to, context=2)) == [2]
    endpoint.op_flags = OpFlags(0)
    assert reported(queue, lambda: endpoint.write(bytes(8), *to, context=3)) == []


@pytest.mark.parametrize("flags", [OpFlags.FI_PEEK, OpFlags.FI_MATCH_COMPLETE, OpFlags.FI_REMOTE_CQ_DATA])
def test_what_cannot_be_a_default_is_refused_and_changes_nothing(pair, flags):
    endpoint = pair[0].endpoint
    endpoint.op_flags = COMPLETION
    with refused(Errno.FI_EBADFLAGS):
        endpoint.op_flags = flags
    with refused(Errno.FI_EBADFLAGS):
        endpoint.alias(flags)
    assert endpoint.op_flags == COMPLETION


# Aliases


def test_an_alias_reports_as_its_own_flags_say(selective):
    endpoint, queue, to = selective
    with endpoint.alias(COMPLETION) as loud:
        contexts = reported(
            queue,
            lambda: endpoint.write(bytes(8), *to, context="silent"),
            lambda: loud.atomic(np.uint64(1), *to, Op.FI_SUM, context="loud"),
            lambda: endpoint.read(bytearray(8), *to, context="silent too"),
        )
        assert contexts == ["loud"]
        assert loud.rx_size_left == endpoint.rx_size_left
        with loud.alias() as quiet:
            assert reported(queue, lambda: quiet.write(bytes(8), *to, context="again")) == []


def test_an_alias_posts_into_the_ring_of_its_endpoint_in_order(pair, target):
    memory, region = target
    client = pair[0]
    with client.endpoint.alias() as alias:
        for turn in range(6):
            poster = (client.endpoint, alias)[turn % 2]
            poster.atomic(np.uint64(turn), client.peer, region.address, region.key, Op.FI_ATOMIC_WRITE, context=turn)
        assert client.endpoint.tx_size_left == alias.tx_size_left == client.endpoint.tx_size - 6
        assert alias.iov_limit == client.endpoint.iov_limit
        assert [client.finish().op_context for _ in range(6)] == list(range(6))
    assert memory[0] == 5


def test_an_alias_ends_with_its_endpoint_and_not_the_other_way_round(pair, target):
    _, region = target
    client = pair[0]
    first, second = client.endpoint.alias(), client.endpoint.alias()
    first.close()
    assert not client.endpoint.closed
    with pytest.raises(ClosedError):
        first.write(bytes(8), client.peer, region.address, region.key)
    client.endpoint.close()
    assert second.closed


def test_an_alias_that_is_dropped_warns(pair):
    alias = pair[0].endpoint.alias()
    with pytest.warns(ResourceWarning, match="unclosed <EndpointAlias of <Endpoint "):
        del alias
    gc.collect()
    assert not pair[0].endpoint.closed


def test_an_endpoint_has_aliases_once_it_is_enabled(pair, keep):
    with refused(Errno.FI_EOPBADSTATE):
        keep(pair[0].domain.endpoint()).alias()


# Space


def test_space_left_is_what_can_be_posted(pair, target):
    _, region = target
    client = pair[0]
    assert client.endpoint.tx_size_left == client.endpoint.tx_size
    for posted in range(1, client.endpoint.tx_size + 1):
        client.endpoint.write(bytes(8), client.peer, region.address, region.key)
        assert client.endpoint.tx_size_left == client.endpoint.tx_size - posted
    with refused(Errno.FI_EAGAIN):
        client.endpoint.write(bytes(8), client.peer, region.address, region.key)
    for posted in range(client.endpoint.tx_size - 1, -1, -1):
        client.finish()
        assert client.endpoint.tx_size_left >= client.endpoint.tx_size - posted
    assert client.endpoint.tx_size_left == client.endpoint.tx_size


def test_space_is_known_once_there_is_a_ring(pair, keep):
    with refused(Errno.FI_EOPBADSTATE):
        _ = keep(pair[0].domain.endpoint()).tx_size_left


def test_entries_about_peers_take_their_space_until_they_are_read(fabric, pair, keep):
    server = pair[1].domain
    queue, peers = keep(server.cq_open()), keep(server.av_open())
    both = BindFlags.FI_TRANSMIT | BindFlags.FI_RECV
    endpoint = keep(server.endpoint(rx_size=10, cq=queue, av=peers, cq_flags=both))
    region = keep(server.mr_reg(bytearray(8), ALL_ACCESS))
    to = (pair[0].peers.insert(endpoint.getname()), region.address, region.key)
    assert endpoint.rx_size_left == 10
    for data in range(3):
        pair[0].endpoint.writedata(bytes(8), data, *to)
        pair[0].finish()
    assert endpoint.rx_size_left == 7
    assert queue.read(2) == [CqEntry(None)] * 2
    assert endpoint.rx_size_left == 9


def test_an_endpoint_that_is_notified_of_nobody_has_all_its_space(pair, keep):
    assert keep(make_side(pair[0].domain)).endpoint.rx_size_left == 256
