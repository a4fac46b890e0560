"""Peers that go away and come back; what is closed when, and how long that may take."""

import time

import numpy as np
import pytest
from amoeba import (
    BindFlags,
    EndpointAddress,
    Errno,
    ErrorAvailableError,
    Fabric,
    FabricError,
    Op,
    OpFlags,
    Retransmission,
    open_cluster,
    open_device,
)
from amoeba_model.impairments import Impairments
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import Counter
from amoeba_model.wire.codec import DecodedFrame, decode

from tests.driver.endpoints import ALL_ACCESS, connect, make_side

ONE = np.uint64(1)
SOON = Retransmission(timeout=2000, limit=2)
"""A silent peer is given up after 14,000 cycles."""


@pytest.fixture
def impatient(fabric):
    """The fabric, whose NICs give up soon."""
    for nic in fabric.nics:
        nic.retransmission = SOON
    return fabric


def closes(fabric):
    """CLOSE_COMMANDs among the recorded frames."""
    frames = (decode(frame.data) for _, frame in fabric.network.log)
    frames = (frame for frame in frames if isinstance(frame, DecodedFrame))
    return sum(frame.header.is_request and frame.header.is_control for frame in frames)


def fail(side, count):
    """The errors of ``count`` operations in flight, all of which must fail."""
    failures = []
    deadline = time.monotonic() + 60
    while len(failures) < count and time.monotonic() < deadline:
        try:
            assert side.queue.read(count) == []
        except ErrorAvailableError:
            failures.append(side.queue.readerr())
    return failures


# Failure


def test_operations_to_a_dead_peer_fail_and_those_to_others_do_not(impatient, pair, target, keep):
    memory, region = target
    client = pair[0]
    me = client.peers.insert(client.endpoint.getname())
    own = keep(client.domain.mr_reg(own_memory := np.zeros(1, np.uint64), ALL_ACCESS))
    impatient.network.cut(impatient.devices[1])
    for turn in range(3):
        client.endpoint.atomic(ONE, client.peer, region.address, region.key, Op.FI_SUM, context=turn)
    client.endpoint.atomic(ONE, me, own.address, own.key, Op.FI_SUM, context="mine")
    assert client.finish().op_context == "mine"
    failures = fail(client, 3)
    assert [(failure.op_context, failure.err) for failure in failures] == [(n, Errno.FI_ECONNRESET) for n in range(3)]
    assert client.queue.strerror(failures[0].prov_errno) == "local pdc failed"
    assert (memory[0], own_memory[0]) == (0, 1)


def test_a_peer_that_comes_back_is_reached_again(impatient, pair, target):
    memory, region = target
    client = pair[0]
    to = (client.peer, region.address, region.key, Op.FI_SUM)
    for turn in range(1, 4):
        impatient.network.cut(impatient.devices[1])
        client.endpoint.atomic(ONE, *to)
        (failure,) = fail(client, 1)
        assert failure.err == Errno.FI_ECONNRESET
        impatient.network.restore(impatient.devices[1])
        client.endpoint.atomic(ONE, *to)
        client.finish()
        assert memory[0] == turn


def test_a_peer_that_was_given_up_is_tried_again_when_all_operations_to_it_have_ended(impatient, pair, target):
    memory, region = target
    client = pair[0]
    to = (client.peer, region.address, region.key, Op.FI_SUM)
    impatient.network.cut(impatient.devices[1])
    for _ in range(4):
        client.endpoint.atomic(ONE, *to)
    fail(client, 1)
    impatient.network.restore(impatient.devices[1])
    with pytest.raises(FabricError, match=r"^FI_EAGAIN: .*was given up"):
        client.endpoint.atomic(ONE, *to)
    with pytest.raises(FabricError, match=r"^FI_EAGAIN: .*was given up"):
        client.endpoint.writev([b"x", b"y"], *to[:3])
    assert len(fail(client, 3)) == 3
    client.endpoint.writev([np.uint64(8), b"y"], *to[:3])
    client.finish()
    assert memory[0] == 8


def test_a_vector_to_a_dead_peer_fails_once(impatient, pair, target):
    _, region = target
    client = pair[0]
    impatient.network.cut(impatient.devices[1])
    client.endpoint.writev([b"ab", b"cd", b"ef"], client.peer, region.address, region.key, context="all")
    (failure,) = fail(client, 1)
    assert (failure.op_context, failure.err, failure.len) == ("all", Errno.FI_ECONNRESET, 6)
    assert client.endpoint._rings.outstanding == 0


def test_silent_operations_to_a_dead_peer_fail_aloud(impatient, pair, target):
    _, region = target
    impatient.network.cut(impatient.devices[1])
    pair[0].endpoint.inject_write(b"x" * 20, pair[0].peer, region.address, region.key)
    (failure,) = fail(pair[0], 1)
    assert failure.err == Errno.FI_ECONNRESET


# Closing


def test_a_removed_peer_is_told_and_its_entry_used_again(keep):
    with open_cluster(["model", "model"], NicParameters(peers=2)) as fabric:
        client, server = keep(make_side(fabric.domain(0))), keep(make_side(fabric.domain(1)))
        name = server.endpoint.getname()
        memory = np.zeros(1, np.uint64)
        region = keep(server.domain.mr_reg(memory, ALL_ACCESS))
        fabric.network.recording = True
        for turn in range(1, 6):
            peers = [client.peers.insert(name) for _ in range(2)]
            client.endpoint.atomic(ONE, peers[1], region.address, region.key, Op.FI_SUM)
            client.finish()
            for peer in peers:
                client.peers.remove(peer)
            assert closes(fabric) == turn  # one of the two had nothing to close
        assert memory[0] == 5


def test_removing_a_peer_keeps_what_has_completed_meanwhile(fabric, pair, target):
    memory, region = target
    client = pair[0]
    second = client.peers.insert(pair[1].endpoint.getname())
    client.endpoint.atomic(ONE, second, region.address, region.key, Op.FI_SUM, context="second")
    client.finish()
    for turn in range(3):
        client.endpoint.atomic(ONE, client.peer, region.address, region.key, Op.FI_SUM, context=turn)
    client.endpoint.write(b"x", client.peer, region.address, region.key ^ 1, context="wrong")
    client.endpoint.atomic(ONE, client.peer, region.address, region.key, Op.FI_SUM, context=3)
    client.peers.remove(second)
    assert [entry.op_context for entry in client.queue.read(2)] == [0, 1]
    assert [entry.op_context for entry in client.queue.read(9)] == [2]
    assert client.failure().op_context == "wrong"
    assert client.finish().op_context == 3
    assert client.queue.sread(timeout=0.01) == []
    assert memory[0] == 5


@pytest.mark.full_build
def test_closing_an_endpoint_closes_its_delivery_contexts(fabric, pair, target):
    _, region = target
    client = pair[0]
    for _ in range(20):  # more than the ring has entries, together with what is in flight
        client.peers.insert(pair[1].endpoint.getname())
    fabric.network.recording = True
    for peer in range(20):
        client.endpoint.inject_write(b"x", peer, region.address, region.key) if peer < 12 else None
    client.endpoint.close()
    assert closes(fabric) == 12
    assert fabric.nics[0].counters()[Counter.FAILED_PDCS] == 0


@pytest.mark.full_build
@pytest.mark.parametrize("seconds", [1.0, 0.0], ids=["in time", "on a machine too busy for that"])
def test_contexts_and_entries_are_used_again_after_close(fabric, keep, pair, target, monkeypatch, seconds):
    monkeypatch.setattr("amoeba.transport.context.DRAIN_TIME", seconds)
    memory, region = target
    parameters = fabric.nics[0].parameters
    kept = 2 * (parameters.contexts - 1)  # for the other contexts
    pair[0].endpoint.close()
    for _ in range(2 * parameters.contexts):
        side = keep(make_side(pair[0].domain))
        numbers = [side.peers.insert(pair[1].endpoint.getname()) for _ in range(parameters.peers - kept)]
        for number in numbers[:10]:
            side.endpoint.atomic(ONE, number, region.address, region.key, Op.FI_SUM)
        side.endpoint.close()
        assert EndpointAddress.unpack(pair[1].endpoint.getname()).resource_index == 0
    assert memory[0] == 2 * parameters.contexts * 10


@pytest.mark.parametrize("end", ["remove", "close"])
def test_a_dead_peer_does_not_hold_up_the_end(fabric, pair, target, end):
    _, region = target
    client = pair[0]
    fabric.nics[0].retransmission = Retransmission(timeout=1 << 28, limit=4)  # for minutes of host time
    client.endpoint.write(b"x", client.peer, region.address, region.key)
    client.finish()
    fabric.network.cut(fabric.devices[1])
    begin = time.monotonic()
    if end == "remove":
        client.peers.remove(client.peer)
        assert len(client.peers) == 0
    else:
        client.endpoint.close()
    assert time.monotonic() - begin < 20


def test_an_entry_whose_peer_never_answered_comes_back_when_the_nic_gives_up(keep):
    with open_cluster(["model", "model"], NicParameters(peers=1), retransmission=SOON) as fabric:
        client, server = keep(make_side(fabric.domain(0))), keep(make_side(fabric.domain(1)))
        connect(client, server)
        region = keep(server.domain.mr_reg(bytearray(8), ALL_ACCESS))
        name = server.endpoint.getname()
        client.endpoint.write(b"x", client.peer, region.address, region.key)
        client.finish()
        fabric.network.cut(fabric.devices[1])
        client.peers.remove(client.peer)
        fabric.network.restore(fabric.devices[1])
        client.peer = client.peers.insert(name)
        client.endpoint.write(b"x", client.peer, region.address, region.key)
        client.finish()


# When to send again, and when to give up


def test_retransmission_is_set_for_a_cluster_a_fabric_or_a_nic():
    wanted = Retransmission(timeout=5000, limit=3)
    with open_cluster(["model", "model"], retransmission=wanted) as fabric:
        assert [nic.retransmission for nic in fabric.nics] == [wanted, wanted]
        fabric.nics[1].retransmission = SOON
        assert [nic.retransmission for nic in fabric.nics] == [wanted, SOON]
    with Fabric([open_device("model")], retransmission=wanted) as fabric:
        assert fabric.nics[0].retransmission == wanted
    with open_cluster(["model"]) as fabric:
        assert fabric.nics[0].retransmission == Retransmission()


def test_the_limit_decides_how_long_a_peer_is_waited_for(fabric, pair, target):
    _, region = target
    client = pair[0]
    fabric.network.cut(fabric.devices[1])
    times = []
    for limit in (1, 3, 8):
        wanted = fabric.nics[0].retransmission = Retransmission(timeout=1000, limit=limit)
        begin = fabric.devices[0].cycles
        client.endpoint.write(b"x", client.peer, region.address, region.key)
        fail(client, 1)
        times.append(fabric.devices[0].cycles - begin)
        assert wanted.patience(1) <= times[-1] <= wanted.patience(1) + 3000
    assert times[1] > 3 * times[0]


@pytest.mark.parametrize(("timeout", "limit"), [(0, 1), (1 << 32, 1), (1000, -1), (1, 256)])
def test_senseless_times_are_refused(timeout, limit):
    with pytest.raises(FabricError, match=r"^FI_EINVAL: expected a timeout"):
        Retransmission(timeout, limit)


@pytest.mark.parametrize("flags", [BindFlags.FI_TRANSMIT, BindFlags.FI_TRANSMIT | BindFlags.FI_RECV])
def test_endpoints_over_a_hostile_link_end_cleanly(keep, flags):
    hostile = Impairments(seed=3, loss=0.1, duplication=0.1, reordering=0.1, corruption=0.1)
    with open_cluster(["model", "model"], impairments=hostile) as fabric:
        domain = keep(fabric.domain(1))
        memory = np.zeros(1, np.uint64)
        region = keep(domain.mr_reg(memory, ALL_ACCESS))
        queue, peers = keep(domain.cq_open()), keep(domain.av_open())
        server = keep(domain.endpoint(cq=queue, av=peers, cq_flags=flags))
        for turn in range(1, 20):
            client = keep(make_side(fabric.domain(0)))
            peer = client.peers.insert(server.getname())
            client.endpoint.atomic(ONE, peer, region.address, region.key, Op.FI_SUM, flags=OpFlags.FI_FENCE)
            client.finish()
            assert memory[0] == turn
            client.domain.close()


def test_a_nic_that_starts_again_at_its_old_address_is_not_taken_for_its_former_self():
    """Its first request would otherwise look like the first one of its former self, come again."""
    with open_cluster(["model", "model"]) as fabric:
        target, counter = make_side(fabric.domain(1)), np.zeros(1, np.uint64)
        region = target.domain.mr_reg(counter, ALL_ACCESS)
        mac, ip, network = fabric.nics[0].mac, fabric.nics[0].ip, fabric.network
        fabric.devices[0].close()
        for life in range(3):
            device = open_device("model")
            network.attach(device, mac)
            nics = Fabric([device])
            nics.nics[0].set_address(mac, ip)
            source, found = make_side(nics.domain(0)), np.zeros(1, np.uint64)
            peer = source.peers.insert(target.endpoint.getname())
            source.endpoint.fetch_atomic(ONE, found, peer, region.address, region.key, Op.FI_SUM)
            source.finish()
            assert (found[0], counter[0]) == (life, life + 1)
            device.close()  # without a word to anybody
            nics.close()
