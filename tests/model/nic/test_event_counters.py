"""Event counters: what advances which, and when host memory shows it."""

from collections.abc import Callable

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode, EventKind, ReceiveFlags, ReceiveOpcode
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import Counter, KeyFlags
from amoeba_model.wire.uet import AtomicOpcode, RequestOpcode, ReturnCode, SesFlags

from tests.support.messages import INLINE, Mailbox
from tests.support.raw_driver import ALL_RIGHTS, Buffer, Pair
from tests.support.stranger import WHOLE, Stranger

MakePair = Callable[..., Pair]
OK = ReturnCode.OK
COMPLETION, CHAINED = DescriptorFlags.COMPLETION, DescriptorFlags.CHAINED
LAST = WHOLE | SesFlags.DELIVERY_COMPLETE
CONTEXT_READS, CONTEXT_WRITES, KEY_READS, KEY_WRITES = 1, 2, 3, 4
"""Counters that the target's context and key name."""


@pytest.fixture
def pair(make_model_pair: MakePair) -> Pair:
    pair = make_model_pair()
    for nic in (pair.initiator, pair.target):
        nic.counter_memory()
    return pair


@pytest.fixture
def region(pair: Pair) -> Buffer:
    """Memory of a context and a key with counters of their own."""
    pair.remote = pair.target.context(event_size=6, read_counter=CONTEXT_READS, write_counter=CONTEXT_WRITES)
    return pair.memory(1 << 14, read_counter=KEY_READS, write_counter=KEY_WRITES)


def write(region: Buffer, **changes: int) -> dict[str, int]:
    """Of an inline WRITE of 8 bytes."""
    return {
        "opcode": DescriptorOpcode.WRITE, "flags": INLINE, "length": 8, "local": 5,
        "remote_address": region.address, "remote_key": Pair.KEY, **changes,
    }  # fmt: skip


def remote_counts(pair: Pair) -> list[tuple[int, int]]:
    """Reads and writes of the context, reads and writes of the key."""
    return [pair.target.event_counter(number) for number in (1, 2, 3, 4)]


NOTHING = [(0, 0)] * 4


# Requests


def test_a_request_that_completes_advances_its_counter_by_how_it_ended(pair: Pair, region: Buffer) -> None:
    for _ in range(3):
        assert pair.local.execute(**write(region, counter=9))["status"] == OK
    assert pair.local.execute(**write(region, counter=9, remote_key=1))["status"] == ReturnCode.BAD_MKEY
    assert pair.initiator.event_counter(9) == (3, 1)
    assert pair.initiator.counter(Counter.COUNTER_WRITES) == 4


def test_a_request_is_counted_also_without_a_completion(pair: Pair, region: Buffer) -> None:
    pair.local.post(**write(region, flags=DescriptorFlags.INLINE, counter=9))
    pair.run(20)
    assert pair.local.poll() is None
    assert pair.initiator.event_counter(9) == (1, 0)


@pytest.mark.parametrize(
    ("fields", "counts"),
    [
        ({"opcode": DescriptorOpcode.NOP, "flags": 0}, (1, 0)),
        ({"opcode": 99}, (0, 1)),
        ({"peer": 30}, (0, 1)),
        ({"flags": COMPLETION, "local": 1 << 40}, (0, 1)),
        ({"opcode": DescriptorOpcode.CLOSE, "flags": COMPLETION}, (1, 0)),
    ],
)
def test_whatever_completes_is_counted(
    pair: Pair, region: Buffer, fields: dict[str, int], counts: tuple[int, int]
) -> None:
    pair.local.post(**write(region, **{"counter": 9, **fields}))
    pair.run(20)
    assert pair.initiator.event_counter(9) == counts


def test_a_long_request_counts_once(pair: Pair, region: Buffer) -> None:
    source = pair.initiator.buffer(1 << 14)
    fields = write(region, flags=COMPLETION, length=1 << 14, local=source.address, counter=9)
    assert pair.local.execute(**fields)["status"] == OK
    assert pair.initiator.event_counter(9) == (1, 0)
    assert remote_counts(pair) == [(0, 0), (1, 0), (0, 0), (1, 0)]


def test_a_chain_counts_where_it_ends(pair: Pair, region: Buffer) -> None:
    for number, flags in ((7, CHAINED), (8, CHAINED), (9, COMPLETION)):
        pair.local.put(**write(region, flags=flags | DescriptorFlags.INLINE, counter=number))
    pair.local.ring()
    assert pair.local.completion()["status"] == OK
    assert [pair.initiator.event_counter(number) for number in (7, 8, 9)] == [(0, 0), (0, 0), (1, 0)]
    assert remote_counts(pair) == [(0, 0), (1, 0), (0, 0), (1, 0)]


def test_a_chain_with_a_piece_that_failed_counts_as_an_error_at_its_end(pair: Pair, region: Buffer) -> None:
    pair.local.put(**write(region, flags=CHAINED | DescriptorFlags.INLINE, counter=7, remote_key=1))
    pair.local.post(**write(region, counter=9))
    assert pair.local.completion()["status"] == ReturnCode.BAD_MKEY
    assert [pair.initiator.event_counter(number) for number in (7, 9)] == [(0, 0), (0, 1)]


def test_a_piece_that_is_refused_completes_and_counts(pair: Pair, region: Buffer) -> None:
    pair.local.put(**write(region, flags=CHAINED | INLINE, counter=7, peer=30))
    pair.local.post(**write(region, counter=9))
    assert [pair.local.completion()["status"] for _ in range(2)] == [ReturnCode.LOCAL_BAD_PEER, OK]
    assert [pair.initiator.event_counter(number) for number in (7, 9)] == [(0, 1), (1, 0)]


def test_requests_of_a_disabled_context_are_not_counted(pair: Pair, region: Buffer) -> None:
    pair.local.post(**write(region, counter=9))
    pair.run(1)
    pair.initiator.set("contexts", 0, control=0)
    pair.run(20)
    assert region.integer(0) == 5
    assert pair.initiator.event_counter(9) == (0, 0)


# Where they lie


def test_counter_zero_and_counters_that_do_not_exist_count_nothing(make_model_pair: MakePair) -> None:
    pair = make_model_pair(NicParameters(event_counters=8))
    assert pair.initiator.get("device", "event_counters") == 8
    memory = pair.initiator.counter_memory()
    for number in (0, 8, 9, 255):
        pair.local.execute(opcode=DescriptorOpcode.NOP, counter=number)
    assert pair.initiator.counter(Counter.COUNTER_WRITES) == 0
    pair.local.execute(opcode=DescriptorOpcode.NOP, counter=7)
    assert pair.initiator.event_counter(7) == (1, 0)
    assert memory[: 7 * 16] == bytes(7 * 16)


def test_counters_count_without_memory_to_show_it(make_model_pair: MakePair) -> None:
    pair = make_model_pair()
    for _ in range(2):
        pair.local.execute(opcode=DescriptorOpcode.NOP, counter=9)
    assert pair.initiator.counter(Counter.COUNTER_WRITES) == 0
    pair.initiator.counter_memory()
    pair.local.execute(opcode=DescriptorOpcode.NOP, counter=9)
    assert pair.initiator.event_counter(9) == (3, 0)


def test_clearing_a_counter_is_not_written_and_it_begins_again(pair: Pair) -> None:
    for opcode in (DescriptorOpcode.NOP, DescriptorOpcode.NOP, 99):
        for number in (8, 9):
            pair.local.execute(opcode=opcode, counter=number)
    for value in (9, 64, 0):  # 64 does not exist
        pair.initiator.set("device", counter_clear=value)
    assert pair.initiator.event_counter(9) == (2, 1)
    assert pair.initiator.get("device", "counter_clear") == 0
    for number in (8, 9):
        pair.local.execute(opcode=DescriptorOpcode.NOP, counter=number)
    assert [pair.initiator.event_counter(number) for number in (8, 9)] == [(3, 1), (1, 0)]


def test_counters_that_the_host_refuses_are_said_to_be(pair: Pair) -> None:
    memory = pair.initiator.counter_memory()
    pair.initiator.device.revoke(memory.address, memory.size)
    assert pair.local.execute(opcode=DescriptorOpcode.NOP, counter=9)["status"] == OK
    (fault,) = pair.initiator.device.faults()
    assert (fault.requester, fault.write, fault.size) == ("COUNTER_WRITER", True, 16)
    assert fault.address == memory.address + 9 * 16


def test_counters_are_written_behind_what_they_count(pair: Pair, region: Buffer) -> None:
    """Of everything refused, the host says in which order it was to be written."""
    nowhere = 1 << 44
    assert pair.remote.events is not None
    for nic, memory in (
        (pair.target, region),
        (pair.target, pair.remote.events),
        (pair.initiator, pair.local.completions),
    ):
        nic.device.revoke(memory.address, memory.size)
        nic.set_wide("device", counter_base=nowhere)
    pair.local.post(**write(region, flags=INLINE | DescriptorFlags.IMMEDIATE, counter=9))
    pair.run(20)
    faults = pair.target.device.faults()
    assert [fault.requester for fault in faults] == ["LINE_TABLE", "EVENT_WRITER", *["COUNTER_WRITER"] * 2]
    assert {(fault.address - nowhere) // 16 for fault in faults[2:]} == {CONTEXT_WRITES, KEY_WRITES}
    assert [fault.requester for fault in pair.initiator.device.faults()] == ["COMPLETION_WRITER", "COUNTER_WRITER"]


# Requests from elsewhere


@pytest.mark.parametrize(
    ("opcode", "op", "counts"),
    [
        (DescriptorOpcode.WRITE, 0, (0, 1, 0, 1)),
        (DescriptorOpcode.READ, 0, (1, 0, 1, 0)),
        (DescriptorOpcode.ATOMIC, Op.FI_SUM, (0, 1, 0, 1)),
        (DescriptorOpcode.FETCH_ATOMIC, Op.FI_SUM, (1, 0, 1, 1)),
        (DescriptorOpcode.FETCH_ATOMIC, Op.FI_ATOMIC_WRITE, (1, 0, 1, 1)),
        (DescriptorOpcode.FETCH_ATOMIC, Op.FI_ATOMIC_READ, (1, 0, 1, 0)),
        (DescriptorOpcode.COMPARE_ATOMIC, Op.FI_CSWAP, (1, 0, 1, 1)),
        (DescriptorOpcode.COMPARE_ATOMIC, Op.FI_CSWAP_NE, (1, 0, 1, 1)),
    ],
)
def test_requests_advance_the_counters_of_context_and_key_by_what_they_do(
    pair: Pair, region: Buffer, opcode: DescriptorOpcode, op: int, counts: tuple[int, ...]
) -> None:
    result = pair.initiator.buffer(64)
    fields = write(region, opcode=opcode, op=op, datatype=Datatype.FI_UINT64, result=result.address)
    assert pair.local.execute(**fields)["status"] == OK
    assert remote_counts(pair) == [(count, 0) for count in counts]


def test_a_counter_of_both_kinds_of_a_key_s_requests_advances_once(pair: Pair) -> None:
    pair.remote = pair.target.context()
    region = pair.memory(64, read_counter=5, write_counter=5)
    result = pair.initiator.buffer(64)
    for count, opcode in enumerate(
        (DescriptorOpcode.WRITE, DescriptorOpcode.READ, DescriptorOpcode.ATOMIC, DescriptorOpcode.FETCH_ATOMIC), 1
    ):
        fields = write(region, opcode=opcode, op=Op.FI_SUM, datatype=Datatype.FI_UINT64, result=result.address)
        assert pair.local.execute(**fields)["status"] == OK
        assert pair.target.event_counter(5) == (count, 0)


def test_a_counter_that_context_and_key_share_advances_twice(pair: Pair) -> None:
    pair.target.context(write_counter=5)
    region = pair.memory(64, write_counter=5)
    assert pair.local.execute(**write(region))["status"] == OK
    assert pair.target.event_counter(5) == (2, 0)


def test_what_the_key_refuses_is_an_error_of_whom_it_concerns(pair: Pair, region: Buffer) -> None:
    pair.target.key(2, region.address, 64, domain=2, write_counter=10)
    pair.target.key(3, region.address, 64, flags=KeyFlags.VALID | KeyFlags.REMOTE_READ, write_counter=11)
    for key, address, code in (
        (1, 0, ReturnCode.BAD_MKEY),
        (2, 0, ReturnCode.PERM_VIOLATION),
        (3, 0, ReturnCode.PERM_VIOLATION),
        (Pair.KEY, 1 << 14, ReturnCode.BAD_ADDR),
    ):
        entry = pair.local.execute(**write(region, remote_key=key, remote_address=region.address + address))
        assert entry["status"] == code
    assert remote_counts(pair) == [(0, 0), (0, 4), (0, 0), (0, 1)]
    assert [pair.target.event_counter(number) for number in (10, 11)] == [(0, 0), (0, 1)]


def test_memory_that_the_host_refuses_is_an_error(pair: Pair, region: Buffer) -> None:
    pair.target.device.revoke(region.address, region.size)
    entry = pair.local.execute(**write(region, opcode=DescriptorOpcode.READ))
    assert entry["status"] == ReturnCode.HOST_UNSUCCESS_CMPL
    assert remote_counts(pair) == [(0, 1), (0, 0)] * 2


@pytest.mark.parametrize(
    "fields",
    [
        {"version": 1},
        {"opcode": RequestOpcode.NO_OP},
        {"flags": LAST | SesFlags.INITIATOR_ERROR},
        {"resource_index": 1},
        {"job_id": 1},
        {"pid_on_fep": 1},
        {"opcode": RequestOpcode.MSG_ERROR},
        {"request_length": 9},
        {"opcode": RequestOpcode.FETCHING_ATOMIC, "atomic_opcode": AtomicOpcode.INVAL},
        {"flags": WHOLE},
    ],
)
def test_what_does_not_get_to_the_key_or_ends_no_request_is_not_counted(
    pair: Pair, region: Buffer, fields: dict[str, int]
) -> None:
    good = {"flags": LAST, "request_length": 8, "buffer_offset": region.address}
    Stranger(pair).ask(bytes(8), **{**good, **fields})
    assert remote_counts(pair) == NOTHING


def test_immediate_data_without_an_event_ring_is_not_counted(pair: Pair) -> None:
    pair.target.context(write_counter=5)
    region = pair.memory(64, write_counter=6)
    assert pair.local.execute(**write(region, flags=INLINE | DescriptorFlags.IMMEDIATE))["status"] == (
        ReturnCode.DISABLED
    )
    assert [pair.target.event_counter(number) for number in (5, 6)] == [(0, 0), (0, 0)]


def test_a_request_received_again_is_counted_once(pair: Pair, region: Buffer) -> None:
    stranger = Stranger(pair)
    fields = {"flags": LAST, "request_length": 8, "buffer_offset": region.address}
    stranger.ask(bytes(8), **fields)
    stranger.send(stranger.frame(stranger.header(psn=500, dpdcid=0, **fields), bytes(8)))
    assert len(stranger.answers()) == 1
    assert remote_counts(pair) == [(0, 0), (1, 0)] * 2


def test_a_key_stored_anew_counts_with_its_new_counters(pair: Pair, region: Buffer) -> None:
    assert pair.local.execute(**write(region))["status"] == OK
    pair.target.key(Pair.KEY, region.address, 64, flags=ALL_RIGHTS, write_counter=20)
    assert pair.local.execute(**write(region))["status"] == OK
    assert pair.target.event_counter(KEY_WRITES) == (1, 0)
    assert pair.target.event_counter(20) == (1, 0)


# Messages


@pytest.fixture
def box(pair: Pair) -> Mailbox:
    return Mailbox(pair, read_counter=CONTEXT_READS, write_counter=CONTEXT_WRITES)


def test_a_message_that_meets_a_receive_advances_the_receives_counter(box: Mailbox) -> None:
    box.receive(0, 64, counter=9)
    assert box.send() == OK
    box.receive(0, 4, counter=9)  # too short
    assert box.send() == OK
    box.receive(tag=1, counter=9)
    assert box.add(1, tag=1) == OK
    assert box.pair.target.event_counter(9) == (2, 1)
    assert remote_counts(box.pair) == NOTHING


def test_every_message_of_a_multi_receive_counts(box: Mailbox) -> None:
    box.receive(0, 204, flags=ReceiveFlags.MULTI, counter=9)
    for _ in range(4):
        assert box.send(20) == OK
    assert box.pair.target.event_counter(9) == (3, 1)


def test_an_atomic_that_cannot_be_performed_counts_as_an_error_if_it_met_the_receive(box: Mailbox) -> None:
    box.receive(0, 8, tag=1, counter=9)
    assert box.add(1, tag=1, remote_address=1) == ReturnCode.BAD_ADDR
    assert box.pair.target.event_counter(9) == (0, 0)
    box.context.receive(flags=ReceiveFlags.TAGGED, address=1 << 40, length=8, tag=2, counter=9)
    assert box.add(1, tag=2) == ReturnCode.HOST_UNSUCCESS_CMPL
    assert box.pair.target.event_counter(9) == (0, 1)


def test_what_the_driver_has_yet_to_receive_does_not_count(box: Mailbox) -> None:
    assert box.send() == OK
    box.receive(counter=9)
    box.receive(counter=9)
    assert box.rendezvous(5000) == OK
    box.receive(counter=9)
    box.receive(opcode=ReceiveOpcode.CANCEL, counter=9)
    box.receive(opcode=ReceiveOpcode.PEEK, counter=9)
    box.receive(opcode=99, counter=9)
    assert [event["kind"] for event in box.events(5)] == [
        EventKind.UNEXPECTED, EventKind.RENDEZVOUS, EventKind.CANCELLED, EventKind.NO_MATCH, EventKind.REFUSED
    ]  # fmt: skip
    assert box.pair.target.event_counter(9) == (0, 0)
    assert box.pair.target.counter(Counter.COUNTER_WRITES) == 0


def test_a_send_advances_its_own_counter_when_it_completes(box: Mailbox) -> None:
    assert box.send(counter=9) == OK
    assert box.add(1, tag=1, counter=9) == ReturnCode.NO_MATCH
    assert box.pair.initiator.event_counter(9) == (1, 1)
