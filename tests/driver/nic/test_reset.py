"""A NIC that is reset under its driver: everything in flight ends with an error, and it can be opened anew.

Covers ``nic/reset_watchdog.py`` and ``nic/watching.py``.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest
from amoeba import BindFlags, Errno, ErrorAvailableError, Fabric, FabricError, Op, OpFlags, TaggedMsg
from amoeba.devices.devices import DEVICE_KINDS
from amoeba.transport.batches import BATCH_FAILURE
from amoeba_model.wire.uet import ReturnCode

from tests.driver import endpoints
from tests.driver.endpoints import ALL_ACCESS, Side, connect, make_side
from tests.driver.machines import Machines
from tests.driver.shared_receives import make_office

RESET = int(ReturnCode.LOCAL_NIC_RESET)
ON_MODEL = pytest.mark.parametrize("machines", ["model"], indirect=True)
"""For what does not depend on the NIC."""


@pytest.fixture(params=DEVICE_KINDS)
def machines(request: pytest.FixtureRequest, build_of) -> Iterator[Machines]:
    with ExitStack() as stack:
        yield Machines(request.param, build_of(request.param), stack)


@pytest.fixture
def fabric(machines: Machines) -> Iterator[Fabric]:
    with machines.open() as opened:
        yield opened


@pytest.fixture
def pair(fabric: Fabric, keep) -> tuple[Side, Side]:
    return make_pair(fabric, keep)


def fail(side: Side, count: int) -> list:
    """The error entries of ``count`` operations in flight, all of which must fail."""
    failures = []
    deadline = time.monotonic() + 60
    while len(failures) < count and time.monotonic() < deadline:
        try:
            assert side.queue.read(count) == []
        except ErrorAvailableError:
            failures.append(side.queue.readerr())
    assert len(failures) == count
    return failures


def contexts(failures: list) -> list:
    assert {failure.err for failure in failures} == {Errno.FI_ENODEV}
    assert {failure.prov_errno for failure in failures} == {RESET}
    return [failure.op_context for failure in failures]


def make_talkers(fabric: Fabric, keep) -> tuple[Side, Side]:
    one, other = endpoints.make_talkers(fabric)
    keep((one, other))
    return one, other


def make_pair(fabric: Fabric, keep) -> tuple[Side, Side]:
    pair = make_side(keep(fabric.domain(0))), make_side(keep(fabric.domain(1)))
    connect(*keep(pair))
    return pair


def test_operations_in_flight_end_in_their_order_with_an_error(machines, pair, keep):
    client, server = pair
    memory = np.zeros(8, np.uint64)
    region = keep(server.domain.mr_reg(memory, ALL_ACCESS))
    found = np.zeros(8, np.uint64)
    machines.network.cut(machines.devices[1])
    for turn in range(3):
        client.endpoint.atomic(np.uint64(1), client.peer, region.address, region.key, Op.FI_SUM, context=turn)
    client.endpoint.read(found, client.peer, region.address, region.key, context=3)
    client.endpoint.writev([found[:2], found[4:6]], client.peer, region.address, region.key, context=4)
    machines.reset()
    assert contexts(fail(client, 5)) == [0, 1, 2, 3, 4]
    assert client.queue.read() == []


@ON_MODEL
def test_what_was_done_before_is_reported_as_done(machines, pair, keep):
    client, server = pair
    memory = np.zeros(1, np.uint64)
    region = keep(server.domain.mr_reg(memory, ALL_ACCESS))
    client.endpoint.atomic(np.uint64(1), client.peer, region.address, region.key, Op.FI_SUM, context="done")
    for _ in range(20):
        machines.network.step()
    assert memory[0] == 1
    machines.reset()
    client.endpoint.atomic(np.uint64(1), client.peer, region.address, region.key, Op.FI_SUM, context="late")
    assert client.finish().op_context == "done"
    assert contexts(fail(client, 1)) == ["late"]
    assert memory[0] == 1


@ON_MODEL
def test_operations_after_the_reset_end_with_the_same_error(machines, pair, keep):
    client, server = pair
    memory = np.zeros(1, np.uint64)
    region = keep(server.domain.mr_reg(memory, ALL_ACCESS))
    machines.reset()
    for turn in range(40):  # more than the ring has entries
        client.endpoint.atomic(np.uint64(1), client.peer, region.address, region.key, Op.FI_SUM, context=turn)
        assert contexts(fail(client, 1)) == [turn]
    with pytest.raises(FabricError, match="FI_ENODEV: the NIC was reset"):
        client.domain.endpoint(cq=client.queue, av=client.peers)


def test_a_batch_ends_and_tells_of_every_request(machines, pair, keep):
    client, server = pair
    memory = np.zeros(64, np.uint64)
    region = keep(server.domain.mr_reg(memory, ALL_ACCESS))
    machines.network.cut(machines.devices[1])
    offsets = np.arange(12, dtype=np.uint64) * 8
    batch = client.endpoint.atomic_batch(
        np.ones(12, np.uint64), client.peer, region.address + offsets, region.key, Op.FI_SUM, context="batch"
    )
    assert batch is not None
    machines.reset()
    (failure,) = fail(client, 1)
    assert contexts([failure]) == ["batch"]
    told = np.frombuffer(failure.err_data, BATCH_FAILURE)
    assert told["index"].tolist() == list(range(12))
    assert set(told["prov_errno"].tolist()) == {RESET}


@ON_MODEL
def test_counters_count_the_errors(machines, fabric, keep):
    client, server = make_pair(fabric, keep)
    counter = keep(client.domain.cntr_open())
    endpoint = keep(client.domain.endpoint(tx_size=16, rx_size=16))
    endpoint.bind(client.queue, BindFlags.FI_TRANSMIT | BindFlags.FI_RECV)
    endpoint.bind(client.peers)
    endpoint.bind(counter, BindFlags.FI_WRITE)
    endpoint.enable()
    peer = client.peers.insert(server.endpoint.getname())
    memory = np.zeros(1, np.uint64)
    region = keep(server.domain.mr_reg(memory, ALL_ACCESS))
    endpoint.write(memory, peer, region.address, region.key)
    for _ in range(40):
        machines.network.step()
    machines.reset()
    endpoint.write(memory, peer, region.address, region.key)
    endpoint.write(memory, peer, region.address, region.key)
    deadline = time.monotonic() + 60
    while counter.readerr() < 2 and time.monotonic() < deadline:
        counter.read()
    assert (counter.read(), counter.readerr()) == (1, 2)


def test_receives_end_with_an_error_and_messages_that_had_come_are_received(machines, fabric, keep):
    one, other = make_talkers(fabric, keep)
    buffers = [np.zeros(4, np.uint8) for _ in range(100)]  # more than the NIC has space for
    for number, buffer in enumerate(buffers):
        one.endpoint.trecv(buffer, tag=number, context=number)
    other.endpoint.tsend(np.full(4, 7, np.uint8), other.peer, tag=3)
    other.finish()
    machines.reset()
    assert one.finish().op_context == 3
    assert buffers[3].tolist() == [7] * 4
    assert sorted(contexts(fail(one, 99))) == [number for number in range(100) if number != 3]
    one.endpoint.trecv(buffers[0], tag=1, context="after")
    assert contexts(fail(one, 1)) == ["after"]
    one.endpoint.trecv(buffers[0], tag=1, context="cancelled")
    one.endpoint.cancel("cancelled")
    assert contexts(fail(one, 1)) == ["cancelled"]
    one.endpoint.trecvmsg(TaggedMsg([buffers[0]], 0, 1), OpFlags.FI_PEEK)
    assert len(fail(one, 1)) == 1


@ON_MODEL
def test_messages_that_wait_in_the_hosts_memory_can_still_be_received(machines, fabric, keep):
    one, other = make_talkers(fabric, keep)
    for number in range(50):  # so many that the driver takes some over
        other.endpoint.tsend(np.full(4, number, np.uint8), other.peer, tag=number)
        other.finish()
        assert one.queue.read() == []
    machines.reset()
    buffer = np.zeros(4, np.uint8)
    for number in range(50):
        one.endpoint.trecv(buffer, tag=number, context=number)
        assert one.finish().op_context == number
        assert buffer.tolist() == [number] * 4
    one.endpoint.trecv(buffer, tag=0, context="none")
    assert contexts(fail(one, 1)) == ["none"]


@ON_MODEL
def test_long_messages_end_on_both_sides(machines, fabric, keep):
    one, other = make_talkers(fabric, keep)
    message = np.ones(20_000, np.uint8)
    one.endpoint.tsend(message, one.peer, tag=1, context="unread")
    for _ in range(40):
        machines.network.step()
    machines.reset()
    assert contexts(fail(one, 1)) == ["unread"]
    buffer = np.zeros(20_000, np.uint8)
    other.endpoint.trecv(buffer, tag=1, context="reads")
    (failure,) = fail(other, 1)
    assert failure.op_context == "reads"
    assert failure.err is Errno.FI_ECONNRESET


def test_the_peer_hears_in_bounded_time_and_both_work_again(machines, keep):
    with machines.open() as fabric:
        client, server = make_pair(fabric, keep)
        memory = np.zeros(1, np.uint64)
        region = keep(client.domain.mr_reg(memory, ALL_ACCESS))
        machines.reset()
        before = machines.devices[1].cycles
        server.endpoint.write(memory, server.peer, region.address, region.key, context="to it")
        (failure,) = fail(server, 1)
        assert failure.err is Errno.FI_ECONNRESET
        assert machines.devices[1].cycles - before < 40_000
        client.endpoint.write(memory, client.peer, region.address, region.key, context="from it")
        assert contexts(fail(client, 1)) == ["from it"]
        begun = time.monotonic()
    assert time.monotonic() - begun < 20, "closing took long"
    with machines.open() as fabric:
        client, server = make_pair(fabric, keep)
        for side, peer in ((client, client.peer), (server, server.peer)):
            own = (server if side is client else client).domain
            region = keep(own.mr_reg(memory, ALL_ACCESS))
            side.endpoint.atomic(np.uint64(1), peer, region.address, region.key, Op.FI_SUM, context="again")
            assert side.finish().op_context == "again"
    assert memory[0] == 2


@ON_MODEL
def test_endpoints_that_share_receives_are_notified_of_a_reset(machines, fabric, keep):
    office = make_office(fabric, keep)
    buffer = np.zeros(8, np.uint8)
    office.context.recv(buffer, context="shared")
    receiver = next(number for number, nic in enumerate(fabric.nics) if nic is office.context.domain.nic)
    machines.reset(receiver)
    ends: list = []
    deadline = time.monotonic() + 60
    while not ends and time.monotonic() < deadline:
        for side in office.sides:
            try:
                assert side.queue.read() == []
            except ErrorAvailableError:
                ends.append(side.queue.readerr())
    assert contexts(ends) == ["shared"]


@ON_MODEL
def test_calls_that_sleep_are_notified_of_it_with_automatic_progress(machines, keep):
    with machines.open() as fabric:
        fabric.automate()
        client, server = make_pair(fabric, keep)
        memory = np.zeros(1, np.uint64)
        region = keep(server.domain.mr_reg(memory, ALL_ACCESS))
        machines.network.cut(machines.devices[1])
        with keep(client.domain)._auto.guard:
            client.endpoint.write(memory, client.peer, region.address, region.key, context="slept for")
            machines.reset()
        with pytest.raises(ErrorAvailableError):
            client.queue.sread(timeout=60)
        assert contexts([client.queue.readerr()]) == ["slept for"]
