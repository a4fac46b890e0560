"""Event counters on every pair of devices: what host memory shows in the end, and not before what it counts."""

from collections.abc import Callable

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.registers import Counter
from amoeba_model.wire.uet import ReturnCode

from tests.support.messages import INLINE, Mailbox
from tests.support.raw_driver import Buffer, Pair

MakePair = Callable[..., Pair]
OK = ReturnCode.OK
READS, WRITES, KEY_READS, KEY_WRITES = 1, 2, 3, 4
"""Counters that the target's context and key name."""
OWN = 9


@pytest.fixture
def pair(make_pair: MakePair) -> Pair:
    pair = make_pair()
    for nic in (pair.initiator, pair.target):
        nic.counter_memory()
    pair.remote = pair.target.context(event_size=6, read_counter=READS, write_counter=WRITES)
    return pair


@pytest.fixture
def region(pair: Pair) -> Buffer:
    return pair.memory(1 << 12, read_counter=KEY_READS, write_counter=KEY_WRITES)


def write(region: Buffer, **changes: int) -> dict[str, int]:
    """Of an inline WRITE of 8 bytes."""
    return {
        "opcode": DescriptorOpcode.WRITE, "flags": INLINE, "length": 8, "local": 5,
        "remote_address": region.address, "remote_key": Pair.KEY, "counter": OWN, **changes,
    }  # fmt: skip


def remote_counts(pair: Pair) -> list[tuple[int, int]]:
    """Reads and writes of the context, reads and writes of the key."""
    return [pair.target.event_counter(number) for number in (READS, WRITES, KEY_READS, KEY_WRITES)]


def test_each_side_counts_requests_by_how_they_ended(pair: Pair, region: Buffer) -> None:
    result = pair.initiator.buffer(64)
    assert pair.local.execute(**write(region))["status"] == OK
    read = write(region, opcode=DescriptorOpcode.READ, flags=DescriptorFlags.COMPLETION, result=result.address)
    assert pair.local.execute(**read)["status"] == OK
    assert pair.local.execute(**write(region, remote_address=region.address + 4090))["status"] == ReturnCode.BAD_ADDR
    assert pair.local.execute(**write(region, remote_key=1))["status"] == ReturnCode.BAD_MKEY
    assert pair.local.execute(**write(region, peer=30))["status"] == ReturnCode.LOCAL_BAD_PEER
    pair.run(2)
    assert pair.initiator.event_counter(OWN) == (2, 3)
    assert remote_counts(pair) == [(1, 0), (1, 2), (1, 0), (1, 1)]


def test_d1_a_key_counts_fetching_atomics_as_reads_and_as_writes(pair: Pair, region: Buffer) -> None:
    """As fi_mr(3) says; the context counts them as reads alone, as fi_endpoint(3) does."""
    result, counts = pair.initiator.buffer(64), [0] * 4
    for opcode, op, advances in (
        (DescriptorOpcode.WRITE, 0, (WRITES, KEY_WRITES)),
        (DescriptorOpcode.ATOMIC, Op.FI_SUM, (WRITES, KEY_WRITES)),
        (DescriptorOpcode.FETCH_ATOMIC, Op.FI_SUM, (READS, KEY_READS, KEY_WRITES)),
        (DescriptorOpcode.FETCH_ATOMIC, Op.FI_ATOMIC_READ, (READS, KEY_READS)),
        (DescriptorOpcode.COMPARE_ATOMIC, Op.FI_CSWAP, (READS, KEY_READS, KEY_WRITES)),  # fails, and counts
        (DescriptorOpcode.READ, 0, (READS, KEY_READS)),
    ):
        fields = write(
            region, opcode=opcode, op=op, datatype=Datatype.FI_UINT64, result=result.address, compare=99,
        )  # fmt: skip
        assert pair.local.execute(**fields)["status"] == OK
        pair.run(2)
        for number in advances:
            counts[number - 1] += 1
        assert remote_counts(pair) == [(count, 0) for count in counts]
    assert region.integer(0) == 15
    refused = write(
        region, opcode=DescriptorOpcode.FETCH_ATOMIC, op=Op.FI_SUM, datatype=Datatype.FI_UINT64,
        remote_address=region.address + 4096, result=result.address,
    )  # fmt: skip
    assert pair.local.execute(**refused)["status"] == ReturnCode.BAD_ADDR
    pair.run(2)
    assert remote_counts(pair) == [(4, 1), (2, 0), (4, 1), (4, 1)]


def test_one_counter_for_all_requests_of_a_key_advances_once_for_each(pair: Pair) -> None:
    region, result = pair.memory(64, read_counter=OWN, write_counter=OWN), pair.initiator.buffer(64)
    for count, opcode in enumerate(
        (DescriptorOpcode.WRITE, DescriptorOpcode.READ, DescriptorOpcode.ATOMIC, DescriptorOpcode.FETCH_ATOMIC), 1
    ):
        fields = write(region, opcode=opcode, op=Op.FI_SUM, datatype=Datatype.FI_UINT64, result=result.address)
        assert pair.local.execute(**fields)["status"] == OK
        pair.run(2)
        assert pair.target.event_counter(OWN) == (count, 0)


def test_of_many_requests_without_completions_none_is_missed(pair: Pair, region: Buffer) -> None:
    local = pair.local = pair.initiator.context(transmit_size=8, completion_size=8)
    for number in range(200):
        local.put(**write(region, flags=DescriptorFlags.INLINE, counter=OWN + number % 3))
    local.ring()
    for _ in range(100):
        pair.run(20)
        if sum(pair.initiator.event_counter(OWN + number)[0] for number in range(3)) == 200:
            break
    assert [pair.initiator.event_counter(OWN + number) for number in range(3)] == [(67, 0), (67, 0), (66, 0)]
    assert remote_counts(pair) == [(0, 0), (200, 0), (0, 0), (200, 0)]
    assert local.poll() is None
    for nic, most in ((pair.initiator, 200), (pair.target, 400)):
        assert 0 < nic.counter(Counter.COUNTER_WRITES) <= most


def test_a_cleared_counter_begins_again_and_others_go_on(pair: Pair, region: Buffer) -> None:
    for number in (OWN, OWN, OWN + 1):
        assert pair.local.execute(**write(region, counter=number))["status"] == OK
    pair.run(2)
    pair.initiator.set("device", counter_clear=OWN)
    pair.initiator.settle()
    assert pair.initiator.event_counter(OWN) == (2, 0)
    for number in (OWN, OWN + 1):
        assert pair.local.execute(**write(region, counter=number))["status"] == OK
    pair.run(2)
    assert [pair.initiator.event_counter(number) for number in (OWN, OWN + 1)] == [(1, 0), (2, 0)]


def test_a_message_advances_the_receive_s_counter(make_pair: MakePair) -> None:
    box = Mailbox(make_pair())
    target = box.pair.target
    target.counter_memory()
    box.receive(0, 8, counter=OWN)
    box.receive(8, 4, counter=OWN)
    assert box.send(8, 1) == OK
    assert box.send(8, 2) == OK
    assert [event["status"] for event in box.events(2)] == [OK, ReturnCode.TOO_LONG]
    box.pair.run(2)
    assert target.event_counter(OWN) == (1, 1)
