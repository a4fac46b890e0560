"""The frames between two NICs, read by a dissector that shares nothing with them."""

import random
from collections.abc import Callable
from typing import Any, Literal

from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.registers import Counter

from tests.support.messages import Mailbox
from tests.support.raw_driver import ALL_RIGHTS, Pair
from tests.support.uet_dissector import ACK, CONTROL, ROD_REQUEST, dissect

MakePair = Callable[..., Pair]
SIZE = 8192
FIRST_TARGET = 129
"""The number of a NIC's first PDC as a target, behind the 128 of its peer table."""
LE: Literal["little"] = "little"


def recorded(pair: Pair) -> list[tuple[bool, dict[str, Any]]]:
    """(from the initiator, fields) of every frame, in order."""
    mac = pair.initiator.mac.to_bytes(6, "big")
    return [(frame.data[6:12] == mac, dissect(frame.data)) for _, frame in pair.network.log]


def execute(pair: Pair, opcode: DescriptorOpcode, **fields: Any) -> int:
    status = pair.local.execute(opcode=opcode, remote_key=Pair.KEY, **fields)["status"]
    assert isinstance(status, int)
    return status


def test_every_frame_of_every_request_is_one_of_the_specification(device_pair: Pair) -> None:
    pair = device_pair
    region, source, result = (
        pair.memory(SIZE, flags=ALL_RIGHTS),
        pair.initiator.buffer(SIZE),
        pair.initiator.buffer(SIZE),
    )
    content = random.Random(1).randbytes(SIZE)
    source[0] = content
    pair.network.recording = True
    here = {"local": source.address, "compare": source.address + 64, "result": result.address}
    there = {"remote_address": region.address + 3}
    atomic = {"op": Op.FI_SUM, "datatype": Datatype.FI_UINT32, "length": 24}
    swap = {"op": Op.FI_CSWAP_LE, "datatype": Datatype.FI_UINT64}
    asked: list[tuple[DescriptorOpcode, dict[str, Any]]] = [
        (DescriptorOpcode.WRITE, {"length": 5000}),
        (DescriptorOpcode.WRITE, {"length": 0, "flags": DescriptorFlags.COMPLETION}),
        (DescriptorOpcode.READ, {"length": 5001}),
        (DescriptorOpcode.ATOMIC, atomic),
        (DescriptorOpcode.FETCH_ATOMIC, atomic),
        (DescriptorOpcode.FETCH_ATOMIC, atomic | {"op": Op.FI_ATOMIC_READ}),
        (DescriptorOpcode.COMPARE_ATOMIC, swap | {"length": 8}),
        (DescriptorOpcode.COMPARE_ATOMIC, swap | {"length": 40}),
        (DescriptorOpcode.COMPARE_ATOMIC, {"op": Op.FI_MSWAP, "datatype": Datatype.FI_UINT8, "length": 1}),
        (DescriptorOpcode.PING, {"length": 0}),
    ]
    for opcode, fields in asked:
        assert execute(pair, opcode, **here, **there, **fields) == 1, opcode
    assert execute(pair, DescriptorOpcode.READ, length=8, result=result.address, remote_address=1) == 0x1D
    assert execute(pair, DescriptorOpcode.WRITE, length=8, local=1 << 50, **there) == 0x32
    assert execute(pair, DescriptorOpcode.CLOSE) == 1
    requests = [fields for is_asked, fields in recorded(pair) if is_asked]
    answers = [fields for is_asked, fields in recorded(pair) if not is_asked]
    assert {fields["type"] for fields in requests} == {ROD_REQUEST, CONTROL}
    assert {fields["type"] for fields in answers} == {ACK}
    assert [fields["psn"] for fields in requests] == [fields["psn"] for fields in answers]
    # Both packets of the WRITE are one message; each packet of a READ is a message of its own.
    assert [fields["message_id"] for fields in requests[:-1]] == [0, 0, *range(2, len(requests) - 1)]
    for request, answer in zip(requests[:-1], answers[:-1], strict=True):
        assert (answer["message_id"], answer["job_id"]) == (request["message_id"], request["job_id"])
        assert (answer["spdcid"], answer["dpdcid"]) == (FIRST_TARGET, request["spdcid"])
    # NO_OP with INITIATOR_ERROR in the place of the packet whose operands the host refuses.
    assert [
        (r["opcode"], r["flags"] & 0x10, a["return_code"])
        for r, a in zip(requests[-3:-1], answers[-3:], strict=False)
    ] == [
        (2, 0, 0x1D),
        (0, 0x10, 0x23),
    ]
    assert pair.target.counter(Counter.REFUSED_REQUESTS) == 2
    close, closed = requests[-1], answers[-1]
    assert (close["type"], close["syn"], close["dpdcid"]) == (CONTROL, 0, FIRST_TARGET)
    assert (closed["next_header"], closed["psn"]) == (0, close["psn"])
    pairs = [(r["compare_value"], r["swap_value"]) for r in requests if "swap_value" in r]
    assert pairs == [tuple(int.from_bytes(content[at : at + size], LE) for at in (64, 0)) for size in (8, 1)]
    writes = b"".join(fields["payload"] for fields in requests if fields.get("opcode") == 1)
    assert writes == content[:5000]


def test_a_compare_and_swap_answers_with_the_element(device_pair: Pair) -> None:
    """The answer has the length of the request, which is that of its extension."""
    pair = device_pair
    region, source, result = pair.memory(64), pair.initiator.buffer(64), pair.initiator.buffer(64, fill=0xEE)
    old, new = bytes(range(1, 17)), bytes(range(0x81, 0x91))
    region[16] = old
    source[0], source[16] = new, old
    pair.network.recording = True
    for size, datatype in ((16, Datatype.FI_UINT128), (4, Datatype.FI_UINT32), (1, Datatype.FI_UINT8)):
        region[16] = old
        status = execute(
            pair, DescriptorOpcode.COMPARE_ATOMIC, op=Op.FI_CSWAP, datatype=datatype, length=size,
            local=source.address, compare=source.address + 16, result=result.address,
            remote_address=region.address + 16,
        )  # fmt: skip
        assert status == 1
        assert region[:] == bytes(16) + new[:size] + old[size:] + bytes(32)
        assert result[:size] == old[:size]
        answer = recorded(pair)[-1][1]
        assert (answer["modified_length"], answer["payload"]) == (32, old[:size][::-1])


NUMBERS = {
    Datatype.FI_UINT8: 1, Datatype.FI_INT16: 2, Datatype.FI_FLOAT16: 2, Datatype.FI_FLOAT: 4, Datatype.FI_UINT64: 8,
    Datatype.FI_INT128: 16, Datatype.FI_LONG_DOUBLE: 16, Datatype.FI_FLOAT_COMPLEX: 4, Datatype.FI_DOUBLE_COMPLEX: 8,
    Datatype.FI_LONG_DOUBLE_COMPLEX: 16,
}  # fmt: skip
"""Bytes of one number: of an element, or of each part of a complex one."""


def network_order(content: bytes, size: int) -> bytes:
    return b"".join(content[at : at + size][::-1] for at in range(0, len(content), size))


def test_operands_and_results_travel_in_network_order_and_lie_in_that_of_the_host(device_pair: Pair) -> None:
    pair = device_pair
    region, source, result = pair.memory(256), pair.initiator.buffer(256), pair.initiator.buffer(256)
    generator = random.Random(2)
    pair.network.recording = True
    for datatype, number in NUMBERS.items():
        for length in {datatype.size, 96}:
            old, new = generator.randbytes(length), generator.randbytes(length)
            if number == 16:  # of which an x87 number takes ten, and the NIC writes zeros behind it
                new = b"".join(new[at : at + 10] + bytes(6) for at in range(0, length, 16))
            region[32] = old
            source[5] = new
            status = execute(
                pair, DescriptorOpcode.FETCH_ATOMIC, op=Op.FI_ATOMIC_WRITE, datatype=datatype, length=length,
                local=source.address + 5, result=result.address + 3, remote_address=region.address + 32,
            )  # fmt: skip
            assert status == 1
            assert (region[32 : 32 + length], result[3 : 3 + length]) == (new, old)
            (_, request), (_, answer) = recorded(pair)[-2:]
            assert request["payload"] == network_order(new, number)
            assert (answer["payload"], answer["modified_length"]) == (network_order(old, number), length)


def test_compare_values_travel_in_network_order_wherever_they_begin(device_pair: Pair) -> None:
    """One compare value ends the extension's 16 bytes; several stand behind all operands."""
    pair = device_pair
    region, source, result = pair.memory(256), pair.initiator.buffer(512), pair.initiator.buffer(256)
    generator = random.Random(3)
    pair.network.recording = True
    for datatype, number in NUMBERS.items():
        for length in (datatype.size, 3 * datatype.size):
            old, new = generator.randbytes(length), generator.randbytes(length)
            region[0], source[1], source[258] = old, new, old
            status = execute(
                pair, DescriptorOpcode.COMPARE_ATOMIC, op=Op.FI_CSWAP, datatype=datatype, length=length,
                local=source.address + 1, compare=source.address + 258, result=result.address,
                remote_address=region.address,
            )  # fmt: skip
            assert status == 1
            assert result[:length] == old
            if datatype in (Datatype.FI_UINT8, Datatype.FI_INT16, Datatype.FI_UINT64, Datatype.FI_INT128):
                assert region[:length] == new
            (_, request), (_, answer) = recorded(pair)[-2:]
            compares, operands = network_order(old, number), network_order(new, number)
            assert answer["payload"] == compares
            if length <= 16 and length == datatype.size:
                values = request["compare_value"], request["swap_value"]
                assert values == (int.from_bytes(compares, "big"), int.from_bytes(operands, "big"))
            else:
                assert request["payload"] == operands + compares


def test_pdcs_are_numbered_from_one_at_both_ends(device_pair: Pair) -> None:
    pair = device_pair
    region = pair.memory(64)
    pair.initiator.peer(1, pair.remote, initial_psn=0x2000)
    pair.network.recording = True
    for peer in (1, 0, 1):
        status = execute(
            pair, DescriptorOpcode.WRITE, peer=peer, length=8, remote_address=region.address,
            flags=DescriptorFlags.COMPLETION | DescriptorFlags.INLINE,
        )  # fmt: skip
        assert status == 1
    assert [(f["type"], f["spdcid"], f["dpdcid"], f.get("syn")) for _, f in recorded(pair)] == [
        (ROD_REQUEST, 2, 0, 1),
        (ACK, FIRST_TARGET, 2, None),
        (ROD_REQUEST, 1, 0, 1),
        (ACK, FIRST_TARGET + 1, 1, None),
        (ROD_REQUEST, 2, FIRST_TARGET, 0),
        (ACK, FIRST_TARGET, 2, None),
    ]


def test_a_send_of_several_packets_is_one_message(device_pair: Pair) -> None:
    pair, data, tag = device_pair, 0xDA7A, 0x7A6
    box = Mailbox(pair)
    payload = pair.target.parameters.payload
    length = 2 * payload + 9
    box.receive(0, length, tag=tag)
    pair.run(100)
    pair.network.recording = True
    assert box.send(length, tag=tag, flags=DescriptorFlags.COMPLETION | DescriptorFlags.IMMEDIATE, compare=data) == 1
    requests = [fields for is_asked, fields in recorded(pair) if is_asked]
    assert {(fields["opcode"], fields["memory_key"], fields["request_length"]) for fields in requests} == {
        (9, tag, length)
    }
    assert len({fields["message_id"] for fields in requests}) == 1
    assert [fields["flags"] for fields in requests] == [0x05, 0x00, 0x22]
    assert requests[0]["header_data"] == data
    places = [(fields["payload_length"], fields["message_offset"]) for fields in requests[1:]]
    assert places == [(payload, payload), (9, 2 * payload)]
    assert b"".join(fields["payload"] for fields in requests) == box.sent(length)
    answers = [fields for is_asked, fields in recorded(pair) if not is_asked]
    assert {(fields["return_code"], fields["modified_length"]) for fields in answers} == {(1, length)}
