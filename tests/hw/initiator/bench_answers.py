"""Testbench of the whole initiator: answers, what waits for them, and operands.

Parameters: ``data_width``, ``window``.

Covers ``initiator/response_handler.py`` and ``initiator/result_router.py``.
"""

import cocotb
from amoeba_model.descriptors import TX_DESCRIPTOR, DescriptorFlags, DescriptorOpcode
from amoeba_model.wire.uet import RequestOpcode, ReturnCode, SesFlags
from cocotb.triggers import ClockCycles

from tests.hw.initiator.setup import (
    OK,
    OPERANDS,
    OPERANDS_SIZE,
    PACES,
    PARAMETERS,
    REFUSED,
    RESULTS,
    peer,
    started,
    well,
)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def answers_that_are_not_expected_are_dropped_with_their_data(dut):
    environment = await started(dut, lambda header, payload: None)
    environment.store_peer(0, **peer(0, 0, initial_psn=10))
    await environment.peer_stores.sent()
    read = TX_DESCRIPTOR.pack(
        opcode=DescriptorOpcode.READ, flags=DescriptorFlags.COMPLETION, length=100, peer=0, result=RESULTS
    )
    environment.post(0, 0, [read])
    while not environment.frames:
        await ClockCycles(dut.clk, 1)
    header, _ = environment.frames[0]
    wrong = b"\xee" * 100
    for changes in (
        {"psn": 11},
        {"psn": 9},
        {"dpdcid": 1},
        {"dpdcid": 8},
        {"dpdcid": 0x8000},
        {"ip": 0x0A00_0011},
        {"job_id": header["job_id"] ^ 1},
        {"message_id": 1},
        {"message_id": 0, "job_id": 0},
    ):
        environment.respond(header, OK, wrong, **changes)
    environment.respond(header, OK, b"\x55" * 100)
    environment.respond(header, OK, wrong)
    await environment.completed(1)
    await ClockCycles(dut.clk, 100)
    assert environment.memory.peek(RESULTS, 101) == b"\x55" * 100 + b"\0"
    assert environment.counts["count_dropped_response"] == 10
    assert environment.counts["count_responses_received"] == 1
    assert len(environment.completions) == 1


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_refused_operand_ends_its_request_with_a_no_op(dut):
    environment = await started(dut)
    environment.store_peer(0, **peer(0, 0, initial_psn=0))
    await environment.peer_stores.sent()
    environment.memory.grant(REFUSED, 256)

    def write(local, length, context):
        return TX_DESCRIPTOR.pack(
            opcode=DescriptorOpcode.WRITE,
            flags=DescriptorFlags.COMPLETION,
            length=length,
            peer=0,
            remote_address=0x1000,
            local=local,
            context=context,
        )

    environment.post(0, 0, [write(REFUSED, 256 * 300, 1), write(OPERANDS, 300, 2)])
    await environment.completed(2)
    assert [(entry["context"], entry["status"]) for _, _, entry in environment.completions] == [
        (1, ReturnCode.LOCAL_DMA_FAULT),
        (2, OK),
    ]
    seen = [
        (header["psn"], header["opcode"], header["flags"], header["request_length"], header["payload_length"])
        for header, _ in environment.frames
    ]
    starts, ends = SesFlags.START_OF_MESSAGE, SesFlags.END_OF_MESSAGE
    assert seen == [
        (0, RequestOpcode.WRITE, starts, 256 * 300, 256),
        (1, RequestOpcode.MSG_ERROR, ends | SesFlags.INITIATOR_ERROR, 256 * 300, 0),
        (2, RequestOpcode.WRITE, starts, 300, 256),
        (3, RequestOpcode.WRITE, ends | SesFlags.DELIVERY_COMPLETE, 300, 44),
    ]
    assert [header["message_id"] for header, _ in environment.frames] == [0, 0, 2, 2]
    assert [header["header_data"] for header, _ in environment.frames] == [0, 256, 0, 44 << 32 | 256]
    # What could not be sent any more is not fetched either, but for what was on its way.
    assert environment.cycle < 2000


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES))
async def results_are_on_their_way_before_their_completion(dut, pace):
    environment = await started(dut, pace=PACES[pace])
    environment.store_peer(0, **peer(0, 0))
    environment.store_peer(1, **peer(1, 1))
    await environment.peer_stores.sent()

    def read(number, index):
        return TX_DESCRIPTOR.pack(
            opcode=DescriptorOpcode.READ,
            flags=DescriptorFlags.COMPLETION,
            length=600,
            peer=number,
            result=RESULTS + 0x1000 * index + 0x10_0000 * number,
        )

    for number in range(2):
        environment.post(number, 0, [read(number, index) for index in range(8)])
    await environment.completed(16)
    for number, index, entry in environment.completions:
        for position in (0, 256, 512):
            address = RESULTS + 0x1000 * index + 0x10_0000 * number + position
            assert environment.written[address] < entry["cycle"]


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(flags=[0, DescriptorFlags.COMPLETION])
async def a_request_is_counted_behind_its_data_and_its_completion(dut, flags):
    environment = await started(dut)
    environment.store_peer(0, **peer(0, 0))
    await environment.peer_stores.sent()

    def read(index, **fields):
        return TX_DESCRIPTOR.pack(
            opcode=DescriptorOpcode.READ, length=600, result=RESULTS + 0x1000 * index, counter=index + 1, **fields
        )

    environment.post(0, 0, [read(index, flags=flags) for index in range(4)])
    environment.post(0, 4, [read(4, flags=flags, peer=7), read(5, flags=flags | 0x80)])
    await environment.requests_counted(6)
    cycles = {counter: cycle for counter, _, cycle in environment.counted}
    assert sorted((counter, error) for counter, error, _ in environment.counted) == [
        *((index + 1, 0) for index in range(4)),
        (5, 1),
        (6, 1),
    ]
    for index in range(4):
        assert all(environment.written[RESULTS + 0x1000 * index + at] < cycles[index + 1] for at in (0, 256, 512))
    completed = {entry["descriptor"]: entry["cycle"] for _, _, entry in environment.completions}
    assert completed.keys() == (set(range(6)) if flags else {4, 5})
    for index, cycle in completed.items():
        assert cycle <= cycles[index + 1]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def of_a_chain_its_end_is_counted_and_what_is_refused(dut):
    environment = await started(dut)
    environment.store_peer(0, **peer(0, 0))
    await environment.peer_stores.sent()

    def piece(counter, **fields):
        chained = {"opcode": DescriptorOpcode.SEND, "flags": DescriptorFlags.CHAINED, "length": 8, "local": OPERANDS}
        return TX_DESCRIPTOR.pack(**{**chained, **fields}, counter=counter)

    environment.post(0, 0, [piece(1), piece(2), piece(3, flags=0)])
    environment.post(0, 3, [piece(4), piece(5, length=(1 << 30) + 1), piece(6, flags=0)])
    await environment.requests_counted(3)
    await ClockCycles(dut.clk, 200)
    assert sorted((counter, error) for counter, error, _ in environment.counted) == [(3, 0), (5, 1), (6, 0)]
    delivered = [header["flags"] & SesFlags.DELIVERY_COMPLETE for header, _ in environment.frames]
    assert [bool(flag) for flag in delivered] == [False, False, True, False, True]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_full_window_stops_the_packets_and_their_operands_have_space(dut):
    environment = await started(dut, lambda header, payload: None)
    environment.store_peer(0, **peer(0, 0, initial_psn=0))
    await environment.peer_stores.sent()
    packets = OPERANDS_SIZE // PARAMETERS.payload
    write = TX_DESCRIPTOR.pack(
        opcode=DescriptorOpcode.WRITE, flags=DescriptorFlags.COMPLETION, length=OPERANDS_SIZE, local=OPERANDS
    )
    environment.post(0, 0, [write])
    # The environment insists meanwhile that every operand is taken at once.
    await ClockCycles(dut.clk, 2500)
    assert len(environment.frames) == PARAMETERS.window
    environment.answer = well
    for header, payload in environment.frames:
        environment.respond(header, *well(header, payload))
    await environment.completed(1)
    assert environment.completions[0][2]["status"] == OK
    assert [header["psn"] for header, _ in environment.frames] == list(range(packets))
    content = b"".join(payload for _, payload in environment.frames)
    assert content == environment.memory.peek(OPERANDS, OPERANDS_SIZE)
