"""The effects of requests on memory on both sides, end to end, through rings and registers of two NICs."""

import random
from collections.abc import Callable

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.registers import ContextControl, Counter, KeyFlags
from amoeba_model.wire.codec import DecodedFrame, decode
from amoeba_model.wire.uet import DIVISIBLE_REQUESTS, RequestOpcode, ReturnCode, place_in_message

from tests.support.raw_driver import ALL_RIGHTS, Pair

OK = ReturnCode.OK
MASK = (1 << 64) - 1
INLINE = DescriptorFlags.COMPLETION | DescriptorFlags.INLINE


def pattern(size: int, seed: int) -> bytes:
    return random.Random(seed).randbytes(size)


def requests_seen(pair: Pair) -> list[DecodedFrame]:
    """The request frames recorded on the network, in order."""
    frames = [decode(frame.data) for _, frame in pair.network.log]
    return [frame for frame in frames if isinstance(frame, DecodedFrame) and frame.header.is_request]


@pytest.mark.parametrize("length", [0, 1, 31, 32, 33, 4095, 4096, 4097, 10000])
@pytest.mark.parametrize("misalignment", [0, 13])
def test_write_puts_the_bytes_there_and_no_others(device_pair: Pair, length: int, misalignment: int) -> None:
    pair = device_pair
    target = pair.memory(12288, fill=0xEE)
    source = pair.initiator.buffer(12288)
    data = pattern(length, 1)
    source[5] = data
    completion = pair.local.execute(
        opcode=DescriptorOpcode.WRITE, length=length, local=source.address + 5, context=0xC0FFEE,
        remote_address=target.address + misalignment, remote_key=Pair.KEY,
    )  # fmt: skip
    assert completion == {
        "context": 0xC0FFEE, "data": 0, "length": length, "descriptor": 0, "opcode": 1, "status": 1,
        "reserved0": 0, "reserved1": 0, "reserved2": 0, "flags": 0x80,
    }  # fmt: skip
    assert target[:] == b"\xee" * misalignment + data + b"\xee" * (12288 - misalignment - length)
    assert pair.initiator.device.faults() == pair.target.device.faults() == []


@pytest.mark.parametrize("length", [0, 1, 32, 4096, 9999])
def test_read_brings_the_bytes_and_leaves_the_target_alone(device_pair: Pair, length: int) -> None:
    pair = device_pair
    data = pattern(12288, 2)
    target = pair.memory(12288)
    target[0] = data
    result = pair.initiator.buffer(12288, fill=0xEE)
    completion = pair.local.execute(
        opcode=DescriptorOpcode.READ, length=length, result=result.address + 3,
        remote_address=target.address + 7, remote_key=Pair.KEY,
    )  # fmt: skip
    assert completion["status"] == OK
    assert result[:] == b"\xee" * 3 + data[7 : 7 + length] + b"\xee" * (12288 - 3 - length)
    assert target[:] == data


def test_inline_data_travels_in_the_descriptor(device_pair: Pair) -> None:
    target = device_pair.memory(fill=0xEE)
    completion = device_pair.local.execute(
        opcode=DescriptorOpcode.WRITE, length=5, flags=INLINE, local=0x8877665544332211,
        remote_address=target.address, remote_key=Pair.KEY,
    )  # fmt: skip
    assert completion["status"] == OK
    assert target[:8] == bytes.fromhex("1122334455eeeeee")


def test_a_region_may_be_addressed_by_offset(device_pair: Pair) -> None:
    target = device_pair.memory(4096, flags=ALL_RIGHTS & ~KeyFlags.VIRTUAL)
    completion = device_pair.local.execute(
        opcode=DescriptorOpcode.WRITE, length=2, flags=INLINE, local=0xBBAA, remote_address=4094, remote_key=Pair.KEY
    )
    assert completion["status"] == OK
    assert target[4092:] == bytes.fromhex("0000aabb")


BASE_OPS = [op for op in Op if op < Op.FI_CSWAP and op is not Op.FI_ATOMIC_READ] + [Op.FI_DIFF]
FETCH_OPS = [op for op in Op if op < Op.FI_CSWAP] + [Op.FI_DIFF]
COMPARE_OPS = [op for op in Op if Op.FI_CSWAP <= op <= Op.FI_MSWAP]
INTEGERS = [Datatype.FI_INT64, Datatype.FI_UINT64]
EDGES = [0, 1, 2, MASK, 1 << 63, (1 << 63) - 1, 0x0123456789ABCDEF, 0xFFFF0000FFFF0000]


def outcome(op: Op, signed: bool, target: int, operand: int, compare: int) -> int:
    """fi_atomic(3) in Python's integers: the new 64-bit target."""

    def value(bits: int) -> int:
        return bits - (1 << 64) if signed and bits >> 63 else bits

    left, right, third = value(target), value(operand), value(compare)
    new = {
        Op.FI_MIN: min(left, right),
        Op.FI_MAX: max(left, right),
        Op.FI_SUM: left + right,
        Op.FI_DIFF: left - right,
        Op.FI_PROD: left * right,
        Op.FI_LOR: int(bool(left) or bool(right)),
        Op.FI_LAND: int(bool(left) and bool(right)),
        Op.FI_LXOR: int(bool(left) != bool(right)),
        Op.FI_BOR: left | right,
        Op.FI_BAND: left & right,
        Op.FI_BXOR: left ^ right,
        Op.FI_ATOMIC_READ: left,
        Op.FI_ATOMIC_WRITE: right,
        Op.FI_CSWAP: right if third == left else left,
        Op.FI_CSWAP_NE: right if third != left else left,
        Op.FI_CSWAP_LE: right if third <= left else left,
        Op.FI_CSWAP_LT: right if third < left else left,
        Op.FI_CSWAP_GE: right if third >= left else left,
        Op.FI_CSWAP_GT: right if third > left else left,
        Op.FI_MSWAP: (right & third) | (left & ~third),
    }[op]
    return new & MASK


CELLS = (
    [(DescriptorOpcode.ATOMIC, op) for op in BASE_OPS]
    + [(DescriptorOpcode.FETCH_ATOMIC, op) for op in FETCH_OPS]
    + [(DescriptorOpcode.COMPARE_ATOMIC, op) for op in COMPARE_OPS]
)


def words(values: list[int]) -> bytes:
    return b"".join(value.to_bytes(8, "little") for value in values)


@pytest.mark.parametrize("datatype", INTEGERS, ids=lambda datatype: datatype.name)
@pytest.mark.parametrize(("opcode", "op"), CELLS, ids=lambda value: value.name)
def test_every_operation_on_64_bit_integers_in_every_form(
    device_pair: Pair, opcode: DescriptorOpcode, op: Op, datatype: Datatype
) -> None:
    pair = device_pair
    target = pair.memory(4096)
    operands, compares, result = (pair.initiator.buffer(4096) for _ in range(3))
    signed = datatype is Datatype.FI_INT64
    generator = random.Random(f"{opcode} {op} {datatype}")
    for count, inline in ((1, True), (1, False), (2, False), (37, False)):
        old, given, third = ([generator.choice(EDGES) for _ in range(count)] for _ in range(3))
        place = 8 * generator.randrange(20) + generator.choice([0, 0, 3])
        target[0] = b"\xdd" * 4096
        target[place] = words(old)
        result[0] = b"\xdd" * 4096
        operands[0], compares[0] = words(given), words(third)
        completion = pair.local.execute(
            opcode=opcode, op=op, datatype=datatype, length=8 * count, result=result.address,
            flags=INLINE if inline else DescriptorFlags.COMPLETION,
            local=given[0] if inline else operands.address, compare=third[0] if inline else compares.address,
            remote_address=target.address + place, remote_key=Pair.KEY,
        )  # fmt: skip
        assert completion["status"] == OK
        new = words([outcome(op, signed, *element) for element in zip(old, given, third, strict=True)])
        assert target[:] == b"\xdd" * place + new + b"\xdd" * (4096 - place - 8 * count)
        fetched = b"" if opcode is DescriptorOpcode.ATOMIC else words(old)
        assert result[:] == fetched + b"\xdd" * (4096 - len(fetched))


@pytest.mark.parametrize(("by_bits", "swapped"), [(False, True), (True, False)], ids=["by value", "by bits"])
def test_cswap_compares_floating_point_as_the_context_says(device_pair: Pair, by_bits: bool, swapped: bool) -> None:
    pair = device_pair
    control = ContextControl.ENABLE | (ContextControl.CSWAP_BY_BITS if by_bits else ContextControl(0))
    context = pair.initiator.context(1, control=control)
    pair.initiator.peer(1, pair.remote, context=1)
    target = pair.memory()
    result = pair.initiator.buffer(64)
    minus_zero, one = 1 << 63, 0x3FF0000000000000
    target[0] = words([minus_zero])
    completion = context.execute(
        opcode=DescriptorOpcode.COMPARE_ATOMIC, op=Op.FI_CSWAP, datatype=Datatype.FI_DOUBLE, length=8, flags=INLINE,
        peer=1, local=one, compare=0, result=result.address, remote_address=target.address, remote_key=Pair.KEY,
    )  # fmt: skip
    assert completion["status"] == OK
    assert target.integer(0) == (one if swapped else minus_zero)
    assert result.integer(0) == minus_zero


@pytest.mark.parametrize(
    ("opcode", "op", "ses_opcode", "length", "lengths", "payloads"),
    [
        (DescriptorOpcode.WRITE, 0, RequestOpcode.WRITE, 9600, [4096, 4096, 1408], [4096, 4096, 1408]),
        (DescriptorOpcode.READ, 0, RequestOpcode.READ, 9600, [4096, 4096, 1408], [0, 0, 0]),
        (DescriptorOpcode.ATOMIC, Op.FI_SUM, RequestOpcode.AMOEBA_ATOMIC, 8200, [4096, 4096, 8], [4096, 4096, 8]),
        (DescriptorOpcode.FETCH_ATOMIC, Op.FI_ATOMIC_READ, RequestOpcode.FETCHING_ATOMIC, 4104, [4096, 8], [0, 0]),
        (
            DescriptorOpcode.COMPARE_ATOMIC,
            Op.FI_CSWAP,
            RequestOpcode.AMOEBA_COMPARE_ATOMIC,
            4104,
            [2048, 2048, 8],
            [4096, 4096, 16],
        ),
        (DescriptorOpcode.COMPARE_ATOMIC, Op.FI_CSWAP, RequestOpcode.FETCHING_ATOMIC, 8, [8], [32]),
    ],
)
def test_long_requests_are_cut_at_the_payload_limit(
    device_pair: Pair, opcode: int, op: int, ses_opcode: int, length: int, lengths: list[int], payloads: list[int]
) -> None:
    pair = device_pair
    target = pair.memory(12288)
    local, compare, result = (pair.initiator.buffer(12288) for _ in range(3))
    pair.network.recording = True
    completion = pair.local.execute(
        opcode=opcode, op=op, datatype=Datatype.FI_UINT64, length=length, local=local.address,
        compare=compare.address, result=result.address, remote_address=target.address, remote_key=Pair.KEY,
    )  # fmt: skip
    assert completion["status"] == OK
    headers = [frame.header for frame in requests_seen(pair)]
    count = len(lengths)
    starts = [sum(lengths[:index]) for index in range(count)]
    extended = op == Op.FI_CSWAP and ses_opcode == RequestOpcode.FETCHING_ATOMIC
    assert [header.payload_length for header in headers] == payloads
    assert [header.psn for header in headers] == [0x1000 + index for index in range(count)]
    assert {header.opcode for header in headers} == {ses_opcode}
    if ses_opcode in DIVISIBLE_REQUESTS:
        assert {(header.request_length, header.message_id) for header in headers} == {(length, 0)}
        assert {header.buffer_offset for header in headers} == {target.address}
        places = [*zip(lengths, starts, strict=True)]
        assert [place_in_message(header.header_data) for header in headers[1:]] == places[1:]
        assert [header.flags for header in headers] == [0x01] + [0] * (count - 2) + [0x22]
    else:
        assert [header.request_length for header in headers] == ([32] if extended else lengths)
        assert [header.message_id for header in headers] == list(range(count))
        assert [header.buffer_offset - target.address for header in headers] == starts
        assert [header.flags for header in headers] == [0x03] * (count - 1) + [0x23]


def test_packets_carry_syn_until_the_first_answer_and_the_targets_pdc_afterwards(device_pair: Pair) -> None:
    pair = device_pair
    target = pair.memory()
    pair.network.recording = True
    for _ in range(3):
        pair.local.put(
            opcode=DescriptorOpcode.WRITE, flags=INLINE, length=8, remote_address=target.address, remote_key=Pair.KEY
        )
    pair.local.ring()
    assert [pair.local.completion()["status"] for _ in range(3)] == [OK] * 3
    pair.local.execute(
        opcode=DescriptorOpcode.WRITE, flags=INLINE, length=8, remote_address=target.address, remote_key=Pair.KEY
    )
    headers = [frame.header for frame in requests_seen(pair)]
    first_target = pair.target.parameters.peers
    assert [(header.syn, header.dpdcid) for header in headers] == [
        (True, 0), (True, 1), (True, 2), (False, first_target)
    ]  # fmt: skip
    assert [header.clear_psn_offset for header in headers] == [0xFFFF, 0xFFFE, 0xFFFD, 0xFFFF]


def test_the_psn_wraps_around(device_pair: Pair) -> None:
    pair = device_pair
    target = pair.memory()
    pair.initiator.peer(1, pair.remote, initial_psn=0xFFFF_FFFE)
    pair.network.recording = True
    for _ in range(4):
        completion = pair.local.execute(
            opcode=DescriptorOpcode.ATOMIC, op=Op.FI_SUM, datatype=Datatype.FI_UINT64, flags=INLINE, length=8,
            peer=1, local=1, remote_address=target.address, remote_key=Pair.KEY,
        )  # fmt: skip
        assert completion["status"] == OK
    assert [frame.header.psn for frame in requests_seen(pair)] == [0xFFFF_FFFE, 0xFFFF_FFFF, 0, 1]
    assert target.integer(0) == 4


def test_both_nics_are_initiator_and_target_at_once(device_pair: Pair) -> None:
    pair = device_pair
    there, here = pair.target.buffer(64), pair.initiator.buffer(64)
    pair.target.key(1, there.address, 64)
    pair.initiator.key(2, here.address, 64)
    fields = {"opcode": DescriptorOpcode.ATOMIC, "op": Op.FI_SUM, "datatype": Datatype.FI_UINT64, "length": 8}
    for index in range(10):
        pair.local.put(**fields, flags=INLINE, local=index, remote_address=there.address, remote_key=1)
        pair.remote.put(**fields, flags=INLINE, local=2 * index, remote_address=here.address, remote_key=2)
    pair.local.ring()
    pair.remote.ring()
    for _ in range(10):
        assert pair.local.completion()["status"] == pair.remote.completion()["status"] == OK
    assert (there.integer(0), here.integer(0)) == (45, 90)


def test_four_contexts_work_back_to_back_on_one_counter(device_pair: Pair) -> None:
    pair = device_pair
    target = pair.memory()
    results = pair.initiator.buffer(4096)
    contexts = [pair.local] + [pair.initiator.context(number) for number in (1, 2, 3)]
    for number, context in enumerate(contexts):
        pair.initiator.peer(number, pair.remote, context=number)
        for index in range(15):
            context.put(
                opcode=DescriptorOpcode.FETCH_ATOMIC, op=Op.FI_SUM, datatype=Datatype.FI_UINT64, flags=INLINE,
                length=8, peer=number, local=1, result=results.address + 8 * (15 * number + index),
                remote_address=target.address, remote_key=Pair.KEY, context=100 * number + index,
            )  # fmt: skip
    for context in contexts:
        context.ring()
    for number, context in enumerate(contexts):
        completions = [context.completion() for _ in range(15)]
        assert [entry["context"] for entry in completions] == [100 * number + index for index in range(15)]
        assert {entry["status"] for entry in completions} == {OK}
    fetched = [results.integer(8 * index) for index in range(60)]
    assert sorted(fetched) == list(range(60))
    for number in range(4):
        own = fetched[15 * number : 15 * number + 15]
        assert own == sorted(own)
    assert target.integer(0) == 60
    assert pair.target.counter(Counter.REQUESTS_RECEIVED) == 60
    assert pair.initiator.counter(Counter.COMPLETIONS) == 60


def test_the_window_limits_unanswered_packets(make_pair: Callable[..., Pair]) -> None:
    pair = make_pair(latency=1500)
    target = pair.memory()
    context = pair.initiator.context(1, transmit_size=9, completion_size=9)
    pair.initiator.peer(1, pair.remote, context=1)
    window, count = pair.initiator.parameters.window, 400
    for _ in range(count):
        context.put(
            opcode=DescriptorOpcode.WRITE, flags=INLINE, length=8, peer=1, remote_address=target.address,
            remote_key=Pair.KEY,
        )  # fmt: skip
    context.ring()
    unanswered = []
    for _ in range(12):
        pair.network.step()
        sent = pair.initiator.counter(Counter.REQUESTS_SENT)
        unanswered.append(sent - pair.initiator.counter(Counter.RESPONSES_RECEIVED))
    assert max(unanswered) == window
    assert [context.completion()["status"] for _ in range(count)] == [OK] * count
