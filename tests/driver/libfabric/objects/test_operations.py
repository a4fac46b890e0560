"""RMA and atomics: what they do, what is refused before anything is sent, and what comes back as an error.

Covers ``libfabric/objects/operations/operations.py``, ``libfabric/objects/operations/atomics.py`` and
``libfabric/objects/operations/rma.py``.
"""

import numpy as np
import pytest
from amoeba import (
    INJECT_SIZE,
    Caps,
    Datatype,
    EpType,
    Errno,
    Fabric,
    FabricError,
    MrAccess,
    Op,
    OpFlags,
    QueryFlags,
    TryAgainError,
    open_cluster,
)
from amoeba_model.network import Network
from amoeba_model.nic.device import ModelDevice
from amoeba_model.opcodes import Form
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import DOORBELL_PAGE

from tests.driver.endpoints import ALL_ACCESS, connect, make_side, refused


@pytest.fixture
def to(pair, target):
    """(dest_addr, addr, key) of the target's first word."""
    return pair[0].peer, target[1].address, target[1].key


# RMA


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 31, 64, 257, 511])
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("registered", [False, True], ids=["granted", "registered"])
def test_write_then_read_moves_exactly_these_bytes(pair, target, keep, size, offset, registered):
    memory, region = target
    client = pair[0]
    before = memory.tobytes()
    source = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    copy = np.full(size + 2, 0xEE, np.uint8)
    desc = copy_desc = None
    if registered and size:
        desc = keep(client.domain.mr_reg(source, MrAccess.FI_WRITE))
        copy_desc = keep(client.domain.mr_reg(copy, MrAccess.FI_READ))
    remote = (client.peer, region.address + offset, region.key)
    client.endpoint.write(source, *remote, desc=desc)
    assert client.finish().len == size
    assert memory.tobytes() == before[:offset] + source.tobytes() + before[offset + size :]
    client.endpoint.read(copy[1 : 1 + size], *remote, desc=copy_desc)
    assert client.finish().len == size
    assert copy.tobytes() == b"\xee" + source.tobytes() + b"\xee"


def test_requests_longer_than_a_frame_arrive_whole(fabric, pair, keep):
    size = 3 * fabric.nics[0].parameters.payload + 17
    memory, source = bytearray(size), np.random.default_rng(1).integers(0, 256, size, np.uint8)
    region = keep(pair[1].domain.mr_reg(memory, ALL_ACCESS))
    pair[0].endpoint.write(source, pair[0].peer, region.address, region.key)
    assert pair[0].finish().len == size
    assert memory == source.tobytes()


def test_small_sources_may_change_as_soon_as_the_call_returns(pair, target, to):
    source = bytearray(b"original")
    pair[0].endpoint.write(source, *to, flags=OpFlags.FI_INJECT)
    source[:] = b"changed!"
    pair[0].finish()
    assert target[0][:1].tobytes() == b"original"


# Atomics


def test_fetch_and_add(pair, target, to):
    result = np.zeros(1, np.uint64)
    pair[0].endpoint.fetch_atomic(np.uint64(5), result, to[0], to[1] + 8 * 7, to[2], Op.FI_SUM)
    pair[0].finish()
    assert (result[0], target[0][7]) == (7, 12)


def test_compare_and_swap_both_ways(pair, target, to):
    result = np.zeros(1, np.uint64)
    for compare, stored in ((3, 0), (0, 9)):
        pair[0].endpoint.compare_atomic(np.uint64(9), np.uint64(compare), result, *to, Op.FI_CSWAP)
        pair[0].finish()
        assert (result[0], target[0][0]) == (0, stored)


def test_masked_swap_takes_the_masked_bits_of_the_operand(pair, target, to):
    target[0][0] = 0xAAAA
    result = np.zeros(1, np.uint64)
    pair[0].endpoint.compare_atomic(np.uint64(0x1234), np.uint64(0x00FF), result, *to, Op.FI_MSWAP)
    pair[0].finish()
    assert (result[0], target[0][0]) == (0xAAAA, 0xAA34)


def test_atomic_read_needs_no_operand(pair, target, to):
    result = np.zeros(3, np.uint64)
    pair[0].endpoint.fetch_atomic(None, result, to[0], to[1] + 8, to[2], Op.FI_ATOMIC_READ)
    pair[0].finish()
    assert result.tolist() == [1, 2, 3]


@pytest.mark.full_build
@pytest.mark.parametrize(
    "dtype",
    ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "g", "c8", "c16", "G"],
)
@pytest.mark.parametrize("count", [1, 3])
def test_arrays_name_their_datatype(pair, keep, dtype, count):
    memory = np.arange(10, 10 + count).astype(dtype)
    region = keep(pair[1].domain.mr_reg(memory, ALL_ACCESS))
    operand, result = np.full(count, 3, dtype), np.zeros(count, dtype)
    expected = memory + operand  # NumPy's arithmetic, of small whole numbers that every datatype holds
    before = memory.copy()
    pair[0].endpoint.fetch_atomic(operand, result, pair[0].peer, region.address, region.key, Op.FI_SUM)
    assert pair[0].finish().len == memory.nbytes
    np.testing.assert_array_equal(memory, expected)
    np.testing.assert_array_equal(result, before)


def test_vectors_of_all_forms_agree_with_numpy(pair, target, to):
    memory, _ = target
    count, (peer, addr, key) = len(memory), to
    endpoint, random = pair[0].endpoint, np.random.default_rng(7)
    operand = random.integers(0, 2**63, count, np.uint64)
    before, result = memory.copy(), np.zeros(count, np.uint64)
    endpoint.atomic(operand, peer, addr, key, Op.FI_BXOR)
    pair[0].finish()
    np.testing.assert_array_equal(memory, before ^ operand)
    endpoint.fetch_atomic(operand, result, peer, addr, key, Op.FI_MIN)
    pair[0].finish()
    np.testing.assert_array_equal(result, before ^ operand)
    np.testing.assert_array_equal(memory, np.minimum(before ^ operand, operand))
    compare = np.where(np.arange(count) % 2 == 0, memory, ~memory)
    expected = np.where(np.arange(count) % 2 == 0, before, memory)
    endpoint.compare_atomic(before, compare, result, peer, addr, key, Op.FI_CSWAP)
    pair[0].finish()
    np.testing.assert_array_equal(memory, expected)


@pytest.mark.full_build
def test_bytes_work_with_a_datatype(pair, target, to):
    pair[0].endpoint.atomic((5).to_bytes(4, "little"), *to, Op.FI_SUM, Datatype.FI_UINT32)
    pair[0].finish()
    assert target[0][0] == 5


@pytest.mark.full_build
def test_a_nic_may_talk_to_itself(fabric, keep):
    side = keep(make_side(fabric.domain(0)))
    me = side.peers.insert(side.endpoint.getname())
    memory = np.array([4], np.uint64)
    region = keep(side.domain.mr_reg(memory, ALL_ACCESS))
    side.endpoint.atomic(np.uint64(3), me, region.address, region.key, Op.FI_PROD)
    side.finish()
    assert memory[0] == 12


# Capabilities


@pytest.mark.parametrize(
    ("flags", "call", "form"),
    [
        (QueryFlags(0), "atomicvalid", Form.BASE),
        (QueryFlags.FI_FETCH_ATOMIC, "fetch_atomicvalid", Form.FETCH),
        (QueryFlags.FI_COMPARE_ATOMIC, "compare_atomicvalid", Form.COMPARE),
    ],
)
def test_queries_answer_what_the_registers_say(flags, call, form, keep):
    parameters = NicParameters(datatypes=(Datatype.FI_UINT64, Datatype.FI_FLOAT), ops=(Op.FI_SUM, Op.FI_CSWAP))
    with open_cluster(["model"], parameters) as fabric:
        side = keep(make_side(fabric.domain(0)))
        executed = {Form.BASE: Op.FI_SUM, Form.FETCH: Op.FI_SUM, Form.COMPARE: Op.FI_CSWAP}[form]
        for op in Op:
            for datatype in Datatype:
                if op is executed and datatype in parameters.datatypes:
                    attr = side.domain.query_atomic(datatype, op, flags)
                    size = {Datatype.FI_UINT64: 8, Datatype.FI_FLOAT: 4}[datatype]
                    assert (attr.count, attr.size) == (2**30 // size, size)
                    assert getattr(side.endpoint, call)(datatype, op) == attr.count
                else:
                    with refused(Errno.FI_EOPNOTSUPP):
                        side.domain.query_atomic(datatype, op, flags)
                    with refused(Errno.FI_EOPNOTSUPP):
                        getattr(side.endpoint, call)(datatype, op)


@pytest.mark.parametrize(
    ("flags", "number"),
    [
        (QueryFlags.FI_TAGGED | QueryFlags.FI_COMPARE_ATOMIC, Errno.FI_EOPNOTSUPP),
        (QueryFlags.FI_FETCH_ATOMIC | QueryFlags.FI_COMPARE_ATOMIC, Errno.FI_EINVAL),
    ],
)
def test_queries_for_what_does_not_exist(pair, flags, number):
    with refused(number):
        pair[0].domain.query_atomic(Datatype.FI_UINT64, Op.FI_SUM, flags)


def test_an_endpoint_without_a_type_is_refused(pair):
    with refused(Errno.FI_EOPNOTSUPP):
        pair[0].domain.endpoint(EpType.FI_EP_UNSPEC)


@pytest.mark.parametrize("size", [0, -1, 2**15 + 1])
def test_senseless_ring_sizes_are_refused(pair, size):
    with refused(Errno.FI_EINVAL):
        pair[0].domain.endpoint(tx_size=size)


# Refused at the call

ONE, WORD = np.uint64(1), 8


def space(count=1, dtype=np.uint64):
    return np.zeros(count, dtype)


def frozen():
    array = space()
    array.flags.writeable = False
    return array


REFUSED = {
    "write: no buffer": (Errno.FI_EINVAL, lambda e, to: e.write(7, *to)),
    "write: gaps": (Errno.FI_EINVAL, lambda e, to: e.write(space(8)[::2], *to)),
    "write: unknown peer": (Errno.FI_EINVAL, lambda e, to: e.write(b"x", 99, *to[1:])),
    "write: negative peer": (Errno.FI_EINVAL, lambda e, to: e.write(b"x", -1, *to[1:])),
    "write: negative address": (Errno.FI_EINVAL, lambda e, to: e.write(b"x", to[0], -1, to[2])),
    "write: address of 65 bits": (Errno.FI_EINVAL, lambda e, to: e.write(b"x", to[0], 1 << 64, to[2])),
    "write: key of 65 bits": (Errno.FI_EINVAL, lambda e, to: e.write(b"x", *to[:2], 1 << 64)),
    "write: too much to inject": (
        Errno.FI_EINVAL,
        lambda e, to: e.write(bytes(INJECT_SIZE + 1), *to, flags=OpFlags.FI_INJECT),
    ),
    "inject_write: too much": (Errno.FI_EINVAL, lambda e, to: e.inject_write(bytes(INJECT_SIZE + 1), *to)),
    "write: remote data": (Errno.FI_EBADFLAGS, lambda e, to: e.write(b"x", *to, flags=OpFlags.FI_REMOTE_CQ_DATA)),
    "read: durable": (Errno.FI_EBADFLAGS, lambda e, to: e.read(space(8), *to, flags=OpFlags.FI_COMMIT_COMPLETE)),
    "fetch: durable reading": (
        Errno.FI_EBADFLAGS,
        lambda e, to: e.fetch_atomic(None, space(), *to, Op.FI_ATOMIC_READ, flags=OpFlags.FI_COMMIT_COMPLETE),
    ),
    "read: into constant memory": (Errno.FI_EINVAL, lambda e, to: e.read(b"constant", *to)),
    "read: too long": (
        Errno.FI_EMSGSIZE,
        lambda e, to: e.read(np.lib.stride_tricks.as_strided(np.zeros(2**30 + 1, np.uint8)), *to),
    ),
    "atomic: compare op": (Errno.FI_EOPNOTSUPP, lambda e, to: e.atomic(ONE, *to, Op.FI_CSWAP)),
    "atomic: read op": (Errno.FI_EOPNOTSUPP, lambda e, to: e.atomic(ONE, *to, Op.FI_ATOMIC_READ)),
    "atomic: read op, datatype given": (
        Errno.FI_EOPNOTSUPP,
        lambda e, to: e.atomic(ONE, *to, Op.FI_ATOMIC_READ, Datatype.FI_UINT64),
    ),
    "fetch: compare op": (Errno.FI_EOPNOTSUPP, lambda e, to: e.fetch_atomic(ONE, space(), *to, Op.FI_MSWAP)),
    "compare: sum": (Errno.FI_EOPNOTSUPP, lambda e, to: e.compare_atomic(ONE, ONE, space(), *to, Op.FI_SUM)),
    "atomic: unknown op": (Errno.FI_EOPNOTSUPP, lambda e, to: e.atomic(ONE, *to, 55)),
    "atomic: negative op": (Errno.FI_EOPNOTSUPP, lambda e, to: e.atomic(ONE, *to, -1)),
    "atomic: unknown datatype": (Errno.FI_EOPNOTSUPP, lambda e, to: e.atomic(ONE, *to, Op.FI_SUM, 99)),
    "atomic: negative datatype": (Errno.FI_EOPNOTSUPP, lambda e, to: e.atomic(ONE, *to, Op.FI_SUM, -1)),
    "atomic: xor of floats": (Errno.FI_EOPNOTSUPP, lambda e, to: e.atomic(np.float64(1), *to, Op.FI_BXOR)),
    "atomic: bytes without datatype": (Errno.FI_EINVAL, lambda e, to: e.atomic(bytes(8), *to, Op.FI_SUM)),
    "atomic: big-endian": (Errno.FI_EINVAL, lambda e, to: e.atomic(np.zeros(1, ">u8"), *to, Op.FI_SUM)),
    "atomic: nothing": (Errno.FI_EINVAL, lambda e, to: e.atomic(space(0), *to, Op.FI_SUM)),
    "atomic: half an element": (
        Errno.FI_EINVAL,
        lambda e, to: e.atomic(bytes(12), *to, Op.FI_SUM, Datatype.FI_UINT64),
    ),
    "atomic: no operand": (Errno.FI_EINVAL, lambda e, to: e.atomic(None, *to, Op.FI_SUM, Datatype.FI_UINT64)),
    "inject_atomic: too much": (Errno.FI_EINVAL, lambda e, to: e.inject_atomic(space(9), *to, Op.FI_SUM)),
    "fetch: short result": (Errno.FI_EINVAL, lambda e, to: e.fetch_atomic(space(2), space(1), *to, Op.FI_SUM)),
    "fetch: long result": (Errno.FI_EINVAL, lambda e, to: e.fetch_atomic(space(1), space(2), *to, Op.FI_SUM)),
    "fetch: constant result": (Errno.FI_EINVAL, lambda e, to: e.fetch_atomic(ONE, frozen(), *to, Op.FI_SUM)),
    "compare: short compare": (
        Errno.FI_EINVAL,
        lambda e, to: e.compare_atomic(space(2), space(1), space(2), *to, Op.FI_CSWAP),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_calls_are_refused_before_anything_is_sent(pair, target, to, case):
    number, call = REFUSED[case]
    before = target[0].copy()
    with refused(number):
        call(pair[0].endpoint, to)
    assert pair[0].queue.sread(timeout=0.01) == []
    np.testing.assert_array_equal(target[0], before)
    pair[0].endpoint.atomic(ONE, *to, Op.FI_SUM)
    pair[0].finish()
    assert target[0][0] == before[0] + 1


@pytest.mark.parametrize(
    ("access", "use"),
    [
        (MrAccess.FI_READ, lambda e, b, to, mr: e.write(b, *to, desc=mr)),
        (MrAccess.FI_WRITE, lambda e, b, to, mr: e.read(b, *to, desc=mr)),
        (MrAccess.FI_REMOTE_READ, lambda e, b, to, mr: e.atomic(b, *to, Op.FI_SUM, desc=mr)),
        (MrAccess.FI_WRITE, lambda e, b, to, mr: e.fetch_atomic(b, b, *to, Op.FI_SUM, desc=mr, result_desc=mr)),
    ],
    ids=["write", "read", "atomic", "fetch"],
)
def test_a_desc_must_allow_the_use(pair, to, keep, access, use):
    buffer = space(4)
    region = keep(pair[0].domain.mr_reg(buffer, access))
    with refused(Errno.FI_EACCES):
        use(pair[0].endpoint, buffer, to, region)


def test_a_desc_must_hold_the_buffer(pair, to, keep):
    buffer = space(8)
    region = keep(pair[0].domain.mr_reg(buffer[2:4], ALL_ACCESS))
    for outside in (buffer[1:3], buffer[3:5], buffer):
        with refused(Errno.FI_EINVAL, "outside the region"):
            pair[0].endpoint.read(outside, *to, desc=region)
    pair[0].endpoint.read(buffer[2:4], *to, desc=region)
    pair[0].finish()
    assert buffer.tolist() == [0, 0, 0, 1, 0, 0, 0, 0]


# Refused by the peer


@pytest.mark.parametrize("distance", [1, 8, 505, 512, 2**40])
@pytest.mark.parametrize("before_start", [False, True])
def test_out_of_bounds_changes_nothing(pair, target, to, distance, before_start):
    memory, region = target
    peer, addr, key = to
    # Modulo, since a program that is not position-independent has its heap at low addresses.
    address = (addr - distance) % 2**64 if before_start else addr + region.length - WORD + distance
    before = memory.copy()
    for operation in (
        lambda: pair[0].endpoint.write(b"\xff" * WORD, peer, address, key),
        lambda: pair[0].endpoint.atomic(ONE, peer, address, key, Op.FI_SUM),
    ):
        operation()
        failure = pair[0].failure()
        assert (failure.err, pair[0].queue.strerror(failure.prov_errno)) == (Errno.FI_EINVAL, "bad addr")
    np.testing.assert_array_equal(memory, before)
    pair[0].endpoint.write(b"\xff" * WORD, *to)
    pair[0].finish()
    assert memory[0] == 2**64 - 1


def test_a_fetch_that_fails_leaves_the_result_alone(pair, target, to):
    result = np.array([77], np.uint64)
    pair[0].endpoint.fetch_atomic(ONE, result, to[0], to[1], to[2] ^ 1, Op.FI_SUM, context="mine")
    failure = pair[0].failure()
    assert failure.op_context == "mine"
    assert failure.flags == Caps.FI_ATOMIC | Caps.FI_READ
    assert failure.err == Errno.FI_ENOKEY
    assert result[0] == 77
    assert target[0][0] == 0


def test_a_nic_refuses_what_a_bigger_one_sends(keep):
    # the target's build decides, even if the initiator's has more: nothing on the wire is trusted
    small = NicParameters(ops=(Op.FI_SUM,), datatypes=(Datatype.FI_UINT64,))
    network, devices = Network(), [ModelDevice(), ModelDevice(small)]
    with Fabric(devices) as fabric:
        for index, (device, nic) in enumerate(zip(devices, fabric.nics, strict=True), 1):
            nic.set_address(bytes([2, 0, 0, 0, 0, index]), index)
            network.attach(device, bytes([2, 0, 0, 0, 0, index]))
        client, server = keep(make_side(fabric.domain(0))), keep(make_side(fabric.domain(1)))
        connect(client, server)
        memory = np.array([3, 3], np.uint64)
        region = keep(server.domain.mr_reg(memory, ALL_ACCESS))
        to = (client.peer, region.address, region.key)
        for operand, op in ((ONE, Op.FI_PROD), (np.uint32(1), Op.FI_SUM)):
            client.endpoint.atomic(operand, *to, op)
            assert client.failure().err == Errno.FI_EOPNOTSUPP
        assert memory.tolist() == [3, 3]
        client.endpoint.atomic(ONE, *to, Op.FI_SUM)
        client.finish()
        assert memory.tolist() == [4, 3]


# The ring


def test_a_full_ring_says_try_again_and_loses_nothing(pair, target, to):
    client, size = pair[0], pair[0].endpoint.tx_size
    for turn in range(size):
        client.endpoint.atomic(ONE, *to, Op.FI_SUM, context=turn)
    for _ in range(3):
        with pytest.raises(TryAgainError) as caught:
            client.endpoint.atomic(ONE, *to, Op.FI_SUM, context="too many")
        assert caught.value.errno == Errno.FI_EAGAIN
    contexts = []
    while len(contexts) < size:
        contexts += [entry.op_context for entry in client.queue.sread(size, timeout=30)]
    assert contexts == list(range(size))
    assert target[0][0] == size
    client.endpoint.atomic(ONE, *to, Op.FI_SUM)
    client.finish()
    assert target[0][0] == size + 1


def test_a_refused_request_gives_no_access_to_its_buffers(fabric, pair, to, monkeypatch):
    granted = []
    monkeypatch.setattr(fabric.devices[0], "grant", lambda *arguments, **_: granted.append(arguments))
    for _ in range(pair[0].endpoint.tx_size):
        pair[0].endpoint.atomic(ONE, *to, Op.FI_SUM)
    for peer in (to[0], 99):  # the ring is full; and nobody is there
        with pytest.raises(FabricError):
            pair[0].endpoint.read(space(8), peer, *to[1:])
    assert granted == []


@pytest.fixture
def writes(fabric, monkeypatch):
    """(offset, value) of every register write to NIC 0; ask for it before the endpoint is made."""
    recorded = []
    device = fabric.devices[0]
    write = device.write
    monkeypatch.setattr(device, "write", lambda at, value: (recorded.append((at, value)), write(at, value))[1])
    return recorded


def test_a_request_is_one_doorbell_and_more_saves_it(writes, pair, target, to):
    writes.clear()
    for turn in range(3):
        pair[0].endpoint.atomic(ONE, *to, Op.FI_SUM)
        assert writes == [(DOORBELL_PAGE, turn + 1)]
        writes.clear()
    for _ in range(3):
        pair[0].endpoint.atomic(ONE, *to, Op.FI_SUM, flags=OpFlags.FI_MORE)
    assert writes == []
    pair[0].endpoint.atomic(ONE, *to, Op.FI_SUM)
    assert writes == [(DOORBELL_PAGE, 7)]
    for _ in range(7):
        pair[0].finish()
    assert target[0][0] == 7


def test_requests_held_back_by_more_leave_when_the_queue_is_read(pair, target, to):
    pair[0].endpoint.atomic(ONE, *to, Op.FI_SUM, flags=OpFlags.FI_MORE)
    pair[0].finish()
    assert target[0][0] == 1
