"""Operations that the rings count: by kind, each once however many descriptors it takes, and only when it is over."""

import numpy as np
import pytest
from amoeba import Op, OpFlags, RmaIov, RmaMsg, open_cluster
from amoeba.devices.devices import DEVICE_KINDS
from amoeba.transport.executed import Executed, RingCounter, Rings
from amoeba_model.descriptors import COMPLETION, TX_DESCRIPTOR, DescriptorOpcode
from amoeba_model.wire.uet import ReturnCode

from tests.driver.batching import scene_on
from tests.driver.endpoints import ALL_ACCESS, connect, idle, make_side, make_talker

ONE = np.ones(1, np.uint64)


@pytest.fixture
def counts(fabric):
    """The counters of the first NIC, by name, without zeros."""
    numbers = fabric.nics[0].executed = [0] * len(Executed)
    return lambda: {kind.name: numbers[kind] for kind in Executed if numbers[kind]}


@pytest.fixture
def client(counts, fabric):
    """Connected with a server; the endpoints are opened when the NIC counts."""
    one, other = make_side(fabric.domain(0)), make_side(fabric.domain(1))
    connect(one, other)
    one.server = other
    return one


@pytest.fixture
def to(client):
    """(dest_addr, addr, key) of 64 words of the server's."""
    client.server.memory = np.zeros(64, np.uint64)
    region = client.server.region = client.server.domain.mr_reg(client.server.memory, ALL_ACCESS)
    return client.peer, region.address, region.key


def test_each_operation_counts_as_what_it_is(client, to, counts):
    endpoint, space = client.endpoint, np.zeros(1, np.uint64)
    for operation, expected in [
        (lambda: endpoint.write(ONE, *to), {"WRITES": 1}),
        (lambda: endpoint.inject_write(ONE, *to), {"WRITES": 2}),
        (lambda: endpoint.read(space, *to), {"WRITES": 2, "READS": 1}),
        (lambda: endpoint.atomic(ONE, *to, Op.FI_SUM), {"WRITES": 2, "READS": 1, "ATOMICS": 1}),
        (lambda: endpoint.fetch_atomic(ONE, space, *to, Op.FI_SUM), {"WRITES": 2, "READS": 1, "ATOMICS": 2}),
        (
            lambda: endpoint.compare_atomic(ONE, ONE, space, *to, Op.FI_CSWAP),
            {"WRITES": 2, "READS": 1, "ATOMICS": 3},
        ),
    ]:
        operation()
        idle(client)
        assert counts() == expected


def test_an_operation_that_is_not_over_is_not_counted(client, to, counts):
    client.endpoint.write(ONE, *to)
    assert counts() == {}
    client.finish()
    assert counts() == {"WRITES": 1}


def test_an_operation_of_several_descriptors_counts_once(client, to, counts):
    peer, address, key = to
    pieces = [RmaIov(address, 16, key), RmaIov(address + 64, 16, key), RmaIov(address + 128, 8, key)]
    values = np.arange(5, dtype=np.uint64)
    client.endpoint.writemsg(RmaMsg([values[:3], values[3:]], peer, pieces))
    client.finish()
    assert counts() == {"WRITES": 1}
    client.endpoint.atomic(ONE, *to, Op.FI_SUM, flags=OpFlags.FI_COMMIT_COMPLETE)  # ends with a read and a write
    client.finish()
    assert counts() == {"WRITES": 1, "ATOMICS": 1}


def test_refused_operations_count_as_failed(client, to, counts):
    peer, address, key = to
    client.endpoint.write(ONE, peer, address, key + 1)
    client.failure()
    assert counts() == {"FAILED": 1}
    beyond = [RmaIov(address, 8, key), RmaIov(address + 600, 8, key), RmaIov(address, 8, key)]
    client.endpoint.writemsg(RmaMsg([np.ones(3, np.uint64)], peer, beyond))
    client.failure()
    assert counts() == {"FAILED": 2}
    client.endpoint.write(ONE, *to)
    client.finish()
    assert counts() == {"WRITES": 1, "FAILED": 2}


def test_messages_are_counted_where_they_are_sent(fabric, keep, counts):
    one, other = keep([make_talker(fabric.domain(number)) for number in range(2)])
    connect(one, other)
    space = np.zeros(1, np.uint64)
    for send, receive in [
        (lambda: one.endpoint.send(ONE, one.peer), lambda: other.endpoint.recv(space)),
        (lambda: one.endpoint.tsend(ONE, one.peer, 7), lambda: other.endpoint.trecv(space, 7)),
    ]:
        receive()
        send()
        other.finish()
        one.finish()
    assert counts() == {"MESSAGES": 2}
    one.endpoint.recv(space)
    other.endpoint.send(ONE, other.peer)
    one.finish()
    assert counts() == {"MESSAGES": 2}


@pytest.mark.parametrize("kind", DEVICE_KINDS)
def test_each_request_of_a_batch_counts(kind, build_of):
    with open_cluster([kind] * 3, build_of(kind), rtl_options={"host_latency": 40}) as fabric:
        numbers = fabric.nics[0].executed = [0] * len(Executed)
        scene = scene_on(fabric)
        indices = np.arange(200) % 64
        scene.endpoint.write_batch(np.ones(200, np.uint64), *scene.to, index=indices)
        scene.finish()
        assert numbers[Executed.WRITES] == 200
        indices[[3, 150, 199]] = 64  # beyond the region
        scene.endpoint.atomic_batch(np.ones(200, np.uint64), *scene.to, Op.FI_SUM, index=indices)
        assert scene.failure()
        assert numbers == [200, 0, 197, 0, 3]


def test_ring_indices_may_wrap_around():
    """Doorbells have 16 bits, of which the ring's entries are the lower ones."""
    entries, tail_register, head_register = 4, 1, 2
    transmit, completion = (memoryview(bytearray(entries * each.size)) for each in (TX_DESCRIPTOR, COMPLETION))
    rung, counted = [], [0] * len(Executed)
    count = RingCounter(
        lambda *written: rung.append(written),
        Rings(transmit, completion, entries, tail_register, head_register),
        counted,
    )
    total = (1 << 16) + 10
    for number in range(total):
        place = number % entries
        opcode = DescriptorOpcode.READ if number % 2 else DescriptorOpcode.WRITE
        fields = TX_DESCRIPTOR.pack(**{field.name: 0 for field in TX_DESCRIPTOR.fields} | {"opcode": opcode})
        transmit[place * TX_DESCRIPTOR.size : (place + 1) * TX_DESCRIPTOR.size] = fields
        count(tail_register, (number + 1) & 0xFFFF)
        written = {field.name: 0 for field in COMPLETION.fields}
        written |= {"descriptor": number & 0xFFFF, "status": ReturnCode.OK}
        completion[place * COMPLETION.size : (place + 1) * COMPLETION.size] = COMPLETION.pack(**written)
        count(head_register, (number + 1) & 0xFFFF)
    assert counted[Executed.WRITES] == counted[Executed.READS] == total // 2
    assert len(rung) == 2 * total
