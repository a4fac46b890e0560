"""Memory regions and address vectors: what peers may reach, and how they are named."""

import array
import struct

import numpy as np
import pytest
from amoeba import (
    AddressVector,
    AvType,
    EndpointAddress,
    Errno,
    MrAccess,
    MrMode,
    Op,
)

from tests.driver.endpoints import ALL_ACCESS, connect, make_side, refused

READ_WRITE = MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE


@pytest.mark.parametrize(
    "memory",
    [
        pytest.param(bytearray(32), id="bytearray"),
        pytest.param(np.zeros((2, 2), np.complex64), id="two dimensions"),
        pytest.param(np.zeros(3, "g"), id="long double"),
        pytest.param(array.array("d", range(4)), id="array.array"),
        pytest.param(memoryview(bytearray(40))[3:36], id="memoryview in the middle"),
    ],
)
def test_any_writable_contiguous_buffer_is_served_in_place(pair, keep, memory):
    client, server = pair
    size = memoryview(memory).nbytes
    region = keep(server.domain.mr_reg(memory, READ_WRITE))
    data = bytes(range(1, size + 1))
    client.endpoint.write(data, client.peer, region.address, region.key)
    client.finish()
    assert bytes(memoryview(memory)) == data


@pytest.mark.parametrize(
    ("memory", "access"),
    [
        pytest.param(np.zeros((4, 4))[:, 1], READ_WRITE, id="with gaps"),
        pytest.param(b"constant", MrAccess.FI_REMOTE_WRITE, id="read-only, to be written by peers"),
        pytest.param(b"constant", MrAccess.FI_READ, id="read-only, to be read into"),
        pytest.param(bytearray(), READ_WRITE, id="empty"),
        pytest.param(5, READ_WRITE, id="no buffer"),
        pytest.param(bytearray(8), MrAccess(0), id="no access"),
        pytest.param(bytearray(8), MrAccess(1), id="unknown access"),
    ],
)
def test_unsuitable_registrations_are_refused(fabric, memory, access):
    with fabric.domain(0) as domain, refused(Errno.FI_EINVAL):
        domain.mr_reg(memory, access)


def test_constant_memory_can_be_read_by_peers(pair, keep):
    client, server = pair
    region = keep(server.domain.mr_reg(b"constant", MrAccess.FI_REMOTE_READ))
    copy = bytearray(8)
    client.endpoint.read(copy, client.peer, region.address, region.key)
    client.finish()
    assert copy == b"constant"


def test_without_virt_addr_peers_count_from_the_start(fabric, keep):
    client, server = keep(make_side(fabric.domain(0))), keep(make_side(fabric.domain(1, mr_mode=MrMode(0))))
    connect(client, server)
    memory = np.zeros(4, np.uint64)
    region = keep(server.domain.mr_reg(memory, READ_WRITE, requested_key=7))
    assert (region.address, region.key) == (0, 7)
    client.endpoint.write(np.uint64(5), client.peer, 24, 7)
    client.finish()
    assert memory.tolist() == [0, 0, 0, 5]
    client.endpoint.write(np.uint64(5), client.peer, 25, 7)
    assert client.failure().err == Errno.FI_EINVAL
    assert memory.tolist() == [0, 0, 0, 5]


def test_with_virt_addr_the_address_is_the_memorys_own(fabric, keep):
    memory = np.zeros(4, np.uint64)
    region = keep(keep(fabric.domain(0)).mr_reg(memory, READ_WRITE))
    assert region.address == memory.ctypes.data


def test_modes_that_the_nic_does_not_have_are_refused(fabric):
    with refused(Errno.FI_EINVAL):
        fabric.domain(0, mr_mode=MrMode.FI_MR_HMEM)


@pytest.mark.parametrize("identity", [{"job_id": 1 << 24}, {"pid_on_fep": 1 << 12}, {"job_id": -1}])
def test_identities_that_do_not_fit_the_wire_are_refused(fabric, identity):
    with refused(Errno.FI_EINVAL):
        fabric.domain(0, **identity)


@pytest.mark.parametrize("nic", [-1, 2])
def test_there_are_as_many_nics_as_were_opened(fabric, nic):
    with refused(Errno.FI_ENODEV):
        fabric.domain(nic)


READ_ONLY, WRITE_ONLY = MrAccess.FI_REMOTE_READ, MrAccess.FI_REMOTE_WRITE


@pytest.mark.parametrize(
    ("needs", "operation"),
    [
        pytest.param(WRITE_ONLY, lambda e, *to: e.write(bytes(8), *to), id="write"),
        pytest.param(READ_ONLY, lambda e, *to: e.read(bytearray(8), *to), id="read"),
        pytest.param(WRITE_ONLY, lambda e, *to: e.atomic(np.uint64(1), *to, Op.FI_SUM), id="atomic"),
        pytest.param(
            READ_ONLY,
            lambda e, *to: e.fetch_atomic(None, np.zeros(1, np.uint64), *to, Op.FI_ATOMIC_READ),
            id="atomic read",
        ),
        pytest.param(
            READ_WRITE,
            lambda e, *to: e.fetch_atomic(np.uint64(1), np.zeros(1, np.uint64), *to, Op.FI_SUM),
            id="fetch",
        ),
        pytest.param(
            READ_WRITE,
            lambda e, *to: e.compare_atomic(np.uint64(1), np.uint64(3), np.zeros(1, np.uint64), *to, Op.FI_CSWAP),
            id="compare",
        ),
    ],
)
@pytest.mark.parametrize("given", [READ_ONLY, WRITE_ONLY, READ_WRITE], ids=["read", "write", "both"])
def test_rights_decide_what_peers_may_do(pair, keep, needs, operation, given):
    client, server = pair
    memory = np.array([3], np.uint64)
    region = keep(server.domain.mr_reg(memory, given))
    operation(client.endpoint, client.peer, region.address, region.key)
    if needs in given:
        client.finish()
    else:
        failure = client.failure()
        assert (failure.err, client.queue.strerror(failure.prov_errno)) == (Errno.FI_EACCES, "perm violation")
        assert isinstance(failure.error(), PermissionError)
        assert memory[0] == 3


def test_another_domains_key_is_refused(fabric, pair, keep):
    memory = np.zeros(1, np.uint64)
    other = keep(fabric.domain(1))
    region = keep(other.mr_reg(memory, READ_WRITE))
    pair[0].endpoint.write(bytes([1] * 8), pair[0].peer, region.address, region.key)
    assert pair[0].failure().err == Errno.FI_EACCES
    assert memory[0] == 0


def test_a_closed_region_is_out_of_reach_and_others_are_not(pair, keep, target):
    client, server = pair
    _, open_region = target
    memory = np.zeros(1, np.uint64)
    region = keep(server.domain.mr_reg(memory, READ_WRITE))
    region.close()
    client.endpoint.write(bytes([1] * 8), client.peer, region.address, region.key)
    assert client.failure().err == Errno.FI_ENOKEY
    assert memory[0] == 0
    client.endpoint.write(bytes(8), client.peer, open_region.address, open_region.key)
    client.finish()


# Addresses


def test_an_address_is_these_bytes(fabric, pair):
    name = pair[0].endpoint.getname()
    # MAC, IPv4 address, job, process, context: typed by hand
    assert name.hex() == "0200000000010a0000010000000100010000"
    assert len(name) == EndpointAddress.SIZE


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(17),
        bytes(19),
        struct.pack(">6sIIHH", bytes(6), 0, 1 << 24, 0, 0xFFF),  # two contexts; the second would have 13 bits
        struct.pack(">6sIIHH", bytes(6), 0, 0, 1 << 12, 0),
        struct.pack(">6sIIHH", bytes(6), 0, 0, 0, 1 << 12),
    ],
)
def test_bytes_that_are_no_address_are_refused(pair, data):
    with refused(Errno.FI_EINVAL):
        pair[0].peers.insert(data)
    assert len(pair[0].peers) == 1


def test_numbers_count_from_zero_and_are_given_out_again(pair):
    vector, name = pair[0].peers, pair[1].endpoint.getname()
    assert [vector.insert(name), vector.insert(name)] == [1, 2]
    vector.remove(1)
    assert (vector.insert(name), len(vector)) == (1, 3)
    assert vector.lookup(1) == name


def test_a_removed_peer_is_unknown(pair, target):
    _, region = target
    pair[0].peers.remove(pair[0].peer)
    for use in (pair[0].peers.lookup, pair[0].peers.remove):
        with refused(Errno.FI_EINVAL):
            use(pair[0].peer)
    with refused(Errno.FI_EINVAL):
        pair[0].endpoint.write(b"x", pair[0].peer, region.address, region.key)


def test_a_peer_is_not_removed_under_an_operation(pair, target):
    _, region = target
    pair[0].endpoint.write(bytes(8), pair[0].peer, region.address, region.key)
    with refused(Errno.FI_EBUSY):
        pair[0].peers.remove(pair[0].peer)
    pair[0].finish()
    pair[0].peers.remove(pair[0].peer)


def test_peers_inserted_before_and_after_enable_are_reached(fabric, keep, pair, target):
    memory, region = target
    domain = keep(fabric.domain(0))
    vector, queue = keep(domain.av_open(AvType.FI_AV_MAP)), keep(domain.cq_open())
    before = vector.insert(pair[1].endpoint.getname())
    endpoint = keep(domain.endpoint(cq=queue, av=vector))
    after = vector.insert(pair[1].endpoint.getname())
    for peer in (before, after):
        endpoint.atomic(np.uint64(1), peer, region.address, region.key, Op.FI_SUM)
    done = 0
    while done < 2:
        done += len(queue.sread(2, timeout=30))
    assert memory[0] == 2


def test_an_unspecified_vector_is_a_table(pair, keep):
    vector: AddressVector = keep(pair[0].domain.av_open(AvType.FI_AV_UNSPEC))
    assert vector.type is AvType.FI_AV_TABLE


@pytest.mark.parametrize(
    ("wrong", "code"),
    [({"resource_index": 3}, "bad index"), ({"job_id": 9}, "bad job id"), ({"pid_on_fep": 9}, "bad pid")],
)
def test_a_request_to_nobody_is_refused_by_the_peer(pair, target, wrong, code):
    memory, region = target
    client = pair[0]
    right = EndpointAddress.unpack(pair[1].endpoint.getname())
    nobody = EndpointAddress(**{**vars(right), **wrong})
    peer = client.peers.insert(nobody.pack())
    client.endpoint.atomic(np.uint64(1), peer, region.address, region.key, Op.FI_SUM)
    failure = client.failure()
    assert (failure.err, client.queue.strerror(failure.prov_errno)) == (Errno.FI_ECONNREFUSED, code)
    client.endpoint.atomic(np.uint64(1), client.peer, region.address, region.key, Op.FI_SUM)
    client.finish()
    assert memory[0] == 1


def test_a_region_says_what_it_is(pair, keep):
    region = keep(pair[0].domain.mr_reg(bytearray(24), ALL_ACCESS, requested_key=0xABC))
    assert repr(region) == "<MemoryRegion 24 bytes key 0xabc>"
    assert "10.0.0.1 (02:00:00:00:00:01) job 1 pid 1 context 0 enabled" in repr(pair[0].endpoint)
