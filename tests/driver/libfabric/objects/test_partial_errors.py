"""Errors of operations in several parts: a refusal of one does not mean that nothing was done."""

import numpy as np
import pytest
from amoeba import (
    ArgumentError,
    AtomicMsg,
    CqFormat,
    Errno,
    FabricError,
    Op,
    OpFlags,
    PartialError,
    ProtectionError,
    RmaIoc,
    RmaIov,
    RmaMsg,
    open_cluster,
)
from amoeba.core.errors import completion_error

from tests.driver.endpoints import ALL_ACCESS, BOTH

WORD = 8


@pytest.fixture(params=[("model", "model"), ("rtl", "rtl"), ("model", "rtl"), ("rtl", "model")], ids="-".join)
def fabric(request, rtl_parameters):
    parameters = rtl_parameters if "rtl" in request.param else None
    with open_cluster(list(request.param), parameters, rtl_options={"host_latency": 40}) as opened:
        yield opened
        assert [fault for device in opened.devices for fault in device.faults()] == []


def test_a8_an_atomic_past_the_end_of_a_region_is_refused_whole(fabric, pair, keep):
    """The error does not know that nothing was done: with a key withdrawn halfway a part would have been."""
    words = fabric.nics[0].parameters.payload // WORD
    memory = np.zeros(2 * words, np.uint64)
    region = keep(pair[1].domain.mr_reg(memory, ALL_ACCESS))
    side = pair[0]
    side.endpoint.atomic(np.ones(2 * words + 1, np.uint64), side.peer, region.address, region.key, Op.FI_SUM)
    failure = side.failure()
    assert memory.tolist() == [0] * (2 * words)
    assert failure.err is Errno.FI_EINVAL
    assert failure.divided
    error = failure.error()
    assert type(error) is PartialError
    assert not isinstance(error, ArgumentError)
    assert error.errno == Errno.FI_EINVAL
    text = f"of the {16 * words + 8} bytes anything from none to all may have been done"
    assert str(error).endswith(f"(BAD_ADDR); {text}")


@pytest.mark.parametrize("what", ["write", "read", "fetch", "compare"])
def test_what_fits_into_a_packet_is_done_whole_or_not_at_all(fabric, pair, target, what):
    _, region = target
    side = pair[0]
    to = side.peer, region.address + 63 * WORD, region.key
    two = np.ones(2, np.uint64)
    begin = {
        "write": lambda: side.endpoint.write(two, *to),
        "read": lambda: side.endpoint.read(two.copy(), *to),
        "fetch": lambda: side.endpoint.fetch_atomic(two, two.copy(), *to, Op.FI_SUM),
        "compare": lambda: side.endpoint.compare_atomic(two, two, two.copy(), *to, Op.FI_CSWAP),
    }
    begin[what]()
    failure = side.failure()
    assert not failure.divided
    assert type(failure.error()) is ArgumentError
    assert target[0].tolist() == list(range(64))


def test_a_compare_atomic_is_divided_when_its_operands_and_compare_values_take_more_than_a_packet(fabric, pair, keep):
    half = fabric.nics[0].parameters.payload // 2 // WORD
    memory = np.zeros(half, np.uint64)
    region = keep(pair[1].domain.mr_reg(memory, ALL_ACCESS))
    side, ones = pair[0], np.ones(half + 1, np.uint64)
    side.endpoint.compare_atomic(ones, 0 * ones, 2 * ones, side.peer, region.address, region.key, Op.FI_CSWAP)
    assert type(side.failure().error()) is PartialError
    assert memory.tolist() == [0] * half


@pytest.mark.parametrize(
    ("spoil", "number"), [((0, 1), Errno.FI_ENOKEY), ((64 * WORD, 0), Errno.FI_EINVAL)], ids=["key", "bounds"]
)
def test_a_refused_piece_of_a_vector_says_that_others_may_have_been_done(pair, target, spoil, number):
    memory, region = target
    side = pair[0]
    places = [
        (region.address, region.key),
        (region.address + 2 * WORD + spoil[0], region.key ^ spoil[1]),
        (region.address + 4 * WORD, region.key),
    ]
    side.endpoint.writemsg(
        RmaMsg([np.full(3, 70, np.uint64)], side.peer, [RmaIov(address, WORD, key) for address, key in places])
    )
    error = side.failure().error()
    assert (type(error), error.fi_errno) == (PartialError, number)
    assert isinstance(error, ProtectionError)
    assert memory[[0, 2, 4]].tolist() == [70, 2, 70]
    segments = [RmaIoc(address, 1, key) for address, key in places]
    side.endpoint.atomicmsg(AtomicMsg([np.ones(3, np.uint64)], side.peer, segments, Op.FI_SUM))
    assert type(side.failure().error()) is PartialError
    assert memory[[0, 2, 4]].tolist() == [71, 2, 71]


def test_a_batch_of_which_one_fails_has_done_the_others(pair, target):
    memory, region = target
    side = pair[0]
    to = region.address + WORD * np.array([0, 64, 1], np.uint64)
    side.endpoint.write_batch(np.full((3, 1), 9, np.uint64), side.peer, to, region.key)
    failure = side.failure()
    assert failure.failures["index"].tolist() == [1]
    assert type(failure.error()) is PartialError
    assert memory[:3].tolist() == [9, 9, 2]
    with pytest.raises(PartialError, match="1 of 2 operations failed"):
        side.endpoint.array(side.peer, (region.address, region.key), np.uint64, 65).add_at([0, 64], 1)
    assert memory[0] == 10


@pytest.mark.parametrize("number", [number for number in Errno if number], ids=lambda number: number.name)
def test_only_refusals_become_partial(number):
    """Other classes do not say that nothing was done."""
    whole, divided = (completion_error(number, "failed", 5, divided=divided) for divided in (False, True))
    refusal = isinstance(whole, ArgumentError | ProtectionError)
    assert type(whole) is not PartialError
    assert type(divided) is (PartialError if refusal else type(whole))
    assert isinstance(divided, FabricError)
    assert (divided.errno, divided.prov_errno, str(divided)) == (number, 5, f"{number.name}: failed")


@pytest.mark.parametrize("way", ["segments", "packets"])
def test_immediate_data_says_that_the_last_piece_was_done_and_no_more(fabric, pair, keep, way):
    """The initiator is told of refused pieces, and may send the data afterwards. Packets are not pieces."""
    payload = fabric.nics[0].parameters.payload
    domain = fabric.domain(1)
    queue = keep(domain.cq_open(CqFormat.FI_CQ_FORMAT_DATA))
    endpoint = keep(domain.endpoint(cq=queue, av=keep(domain.av_open()), cq_flags=BOTH))
    memory = bytearray(WORD)
    region = keep(domain.mr_reg(memory, ALL_ACCESS))
    side = pair[0]
    peer = side.peers.insert(endpoint.getname())
    if way == "segments":
        remote = [RmaIov(region.address, WORD, region.key ^ 1), RmaIov(region.address, WORD, region.key)]
    else:
        remote = [RmaIov((region.address - payload) % 2**64, payload + WORD, region.key)]
    whole = b"\x11" * sum(segment.len for segment in remote)
    side.endpoint.writemsg(RmaMsg([whole], peer, remote, data=7), OpFlags.FI_REMOTE_CQ_DATA)
    assert type(side.failure().error()) is PartialError
    if way == "segments":
        assert [entry.data for entry in queue.sread(timeout=30)] == [7]
    assert memory == (b"\x11" if way == "segments" else b"\0") * WORD
    side.endpoint.writedata(bytes(WORD), 8, peer, region.address, region.key ^ 1)
    assert type(side.failure().error()) is ProtectionError
    assert queue.sread(timeout=0.02) == []
