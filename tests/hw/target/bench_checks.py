"""Testbench of Target: every check of hw/amoeba_hw/target/README.md, and operands cut out of payloads.

Parameters: see target_environment.
"""

import random
from collections import Counter
from itertools import pairwise

import cocotb
from amoeba_sim.cocotb_streams import reset, start
from cocotb.triggers import RisingEdge

from tests.hw.target.environment import (
    CONTEXTS,
    HEADER_DATA,
    JOB,
    PACES,
    PAYLOAD,
    PID,
    WHOLE,
    WIDTH,
    Bench,
    Initiator,
    request,
    store_keys,
)

NO_OP, WRITE, READ, ATOMIC, FETCHING, VENDOR = 0, 1, 2, 3, 4, 0x30
SEND, RENDEZVOUS_SEND, DATAGRAM_SEND, DEFERRABLE_SEND, TAGGED_SEND, RENDEZVOUS_TSEND = 5, 6, 7, 8, 9, 0xA
DEFERRABLE_TSEND, TSEND_ATOMIC, TSEND_FETCH = 0xB, 0xD, 0xE
RELATIVE, INITIATOR_ERROR = 8, 0x10
# UET's numbers.
SUM, ATOMIC_READ, CSWAP, MSWAP, INVAL = 2, 0xB, 0xD, 0x13, 0x14
UINT8, UINT32, UINT64, FLOAT, LONG_DOUBLE_COMPLEX = 1, 5, 7, 0xA, 0xF
NO_RING = {"resource_index": 3, "pid_on_fep": PID + 3, "flags": WHOLE | HEADER_DATA}
NO_SLOTS = {"resource_index": 2, "pid_on_fep": PID + 2}


def atomic(opcode, op=SUM, datatype=UINT64, **fields):
    return request(opcode, atomic_opcode=op, atomic_datatype=datatype, **fields)


REFUSALS = {
    "version": (request(version=1), 0x18),
    "no end of message": (request(flags=1), 0x18),
    "no start of message": (request(flags=2), 0x18),
    "version before all else": (request(version=1, opcode=NO_OP, resource_index=99), 0x18),
    "no-op": (request(opcode=NO_OP, resource_index=99), 1),
    "no-op with a payload": (request(opcode=NO_OP, payload=70), 1),
    "initiator's error": (request(flags=WHOLE | INITIATOR_ERROR, job_id=0), 0x23),
    "initiator's error before no-op": (request(opcode=NO_OP, flags=WHOLE | INITIATOR_ERROR), 0x23),
    "version before the initiator's error": (request(flags=WHOLE | INITIATOR_ERROR, version=1), 0x18),
    "context that does not exist": (request(resource_index=CONTEXTS), 0x19),
    "context that is not enabled": (request(resource_index=1), 0x19),
    "job": (request(job_id=JOB + 1, pid_on_fep=0), 0x1B),
    "process": (request(pid_on_fep=PID + 1), 0x1A),
    "process of its job": (request(flags=WHOLE | RELATIVE), 0x1A),
    "job before a process of it": (request(flags=WHOLE | RELATIVE, job_id=JOB + 1), 0x1B),
    "datagram": (request(opcode=DATAGRAM_SEND), 6),
    "deferrable send": (request(opcode=DEFERRABLE_SEND), 6),
    "deferrable tagged send": (request(opcode=DEFERRABLE_TSEND), 6),
    "unknown opcode": (request(opcode=0x3F), 6),
    "atomic INVAL": (request(opcode=ATOMIC, atomic_opcode=INVAL), 0xF),
    "atomic opcode 255": (request(opcode=ATOMIC, atomic_opcode=255), 0xF),
    "CSWAP in base form": (request(opcode=ATOMIC, atomic_opcode=CSWAP, atomic_datatype=UINT64), 0xF),
    "READ in base form": (request(opcode=ATOMIC, atomic_opcode=ATOMIC_READ, atomic_datatype=UINT64), 0xF),
    "SUM in compare form": (request(opcode=VENDOR, payload=16, atomic_opcode=SUM, atomic_datatype=UINT64), 0xF),
    "datatype 31": (request(opcode=ATOMIC, atomic_opcode=SUM, atomic_datatype=31), 0x10),
    "MSWAP of floats": (request(opcode=FETCHING, payload=32, atomic_opcode=MSWAP, atomic_datatype=FLOAT), 0x10),
    "write longer than a payload": (request(length=PAYLOAD + 8), 7),
    "write of 4 GiB": (request(payload=8, request_length=2**32 - 8), 7),
    "write with too few bytes": (request(payload=7), 7),
    "write with too many bytes": (request(payload=9), 7),
    "read with a payload": (request(opcode=READ, payload=1), 7),
    "read longer than a payload": (request(opcode=READ, length=PAYLOAD + 1, payload=0), 7),
    "atomic of no byte": (request(opcode=ATOMIC, length=0, atomic_opcode=SUM, atomic_datatype=UINT64), 0x11),
    "atomic of part of an element": (
        request(opcode=ATOMIC, length=12, atomic_opcode=SUM, atomic_datatype=UINT64),
        0x11,
    ),
    "atomic longer than a payload": (
        request(opcode=ATOMIC, length=PAYLOAD + 8, atomic_opcode=SUM, atomic_datatype=UINT64),
        0x11,
    ),
    "fetch without operands": (
        request(opcode=FETCHING, payload=0, atomic_opcode=SUM, atomic_datatype=UINT64),
        0x11,
    ),
    "atomic read with operands": (
        request(opcode=FETCHING, atomic_opcode=ATOMIC_READ, atomic_datatype=UINT64),
        0x11,
    ),
    "CSWAP of two elements": (
        request(opcode=FETCHING, length=16, payload=32, atomic_opcode=CSWAP, atomic_datatype=UINT64),
        0x18,
    ),
    "CSWAP as long as its element": (
        request(opcode=FETCHING, length=8, payload=32, atomic_opcode=CSWAP, atomic_datatype=UINT64),
        0x18,
    ),
    "CSWAP of 32 bytes in the extension": (
        request(opcode=FETCHING, length=32, atomic_opcode=CSWAP, atomic_datatype=LONG_DOUBLE_COMPLEX),
        0x11,
    ),
    "CSWAP without its values": (
        request(opcode=FETCHING, length=32, payload=16, atomic_opcode=CSWAP, atomic_datatype=UINT64),
        0x18,
    ),
    "vendor compare with half its bytes": (
        request(opcode=VENDOR, length=16, atomic_opcode=CSWAP, atomic_datatype=UINT64),
        0x11,
    ),
    "vendor compare of more than half a payload": (
        request(
            opcode=VENDOR,
            length=PAYLOAD // 2 + 8,
            payload=PAYLOAD + 16,
            atomic_opcode=CSWAP,
            atomic_datatype=UINT64,
        ),
        0x11,
    ),
    "immediate data for a context without a ring": (request(**NO_RING, memory_key=99), 3),
    "size before the event ring": (request(**NO_RING, payload=7), 7),
    "send longer than a payload": (request(SEND, PAYLOAD + 8), 7),
    "send of 4 GiB": (request(SEND, payload=8, request_length=2**32 - 8), 7),
    "send with too few bytes": (request(SEND, payload=7), 7),
    "tagged send with too many bytes": (request(TAGGED_SEND, 0, 1), 7),
    "rendezvous of less than a record": (request(RENDEZVOUS_SEND, 31), 7),
    "tagged rendezvous of more than a record": (request(RENDEZVOUS_TSEND, 33), 7),
    "rendezvous with half a record": (request(RENDEZVOUS_SEND, 32, 16), 7),
    "tagged atomic INVAL": (atomic(TSEND_ATOMIC, INVAL), 0xF),
    "tagged atomic READ in base form": (atomic(TSEND_ATOMIC, ATOMIC_READ), 0xF),
    "tagged CSWAP": (atomic(TSEND_FETCH, CSWAP, payload=32), 0xF),
    "tagged MSWAP in base form": (atomic(TSEND_ATOMIC, MSWAP), 0xF),
    "tagged atomic of datatype 31": (atomic(TSEND_ATOMIC, datatype=31), 0x10),
    "tagged atomic of no byte": (atomic(TSEND_ATOMIC, length=0), 0x11),
    "tagged atomic of part of an element": (atomic(TSEND_FETCH, length=12), 0x11),
    "tagged fetch without operands": (atomic(TSEND_FETCH, payload=0), 0x11),
    "tagged atomic read with operands": (atomic(TSEND_FETCH, ATOMIC_READ), 0x11),
    "send to a context without slots": (request(SEND, **NO_SLOTS), 3),
    "rendezvous for a context without a ring": (request(RENDEZVOUS_SEND, 32, **NO_RING), 3),
    "tagged atomic for a context without slots": (atomic(TSEND_ATOMIC, **NO_SLOTS), 3),
    "size before slots": (request(SEND, payload=7, **NO_SLOTS), 7),
    "job before slots": (request(SEND, **NO_SLOTS, job_id=0), 0x1B),
    "send with the initiator's error": (request(SEND, flags=WHOLE | INITIATOR_ERROR), 0x23),
    "send in two packets": (request(SEND, flags=1), 0x18),
    "unknown key": (request(memory_key=99), 0x1C),
    "key with other high bits": (request(memory_key=100 | 1 << 40 | 1 << 56), 0x1C),
    "key that is not valid": (request(memory_key=104), 0x1C),
    "other domain": (request(memory_key=105), 0x17),
    "write without the right": (request(memory_key=102), 0x17),
    "read without the right": (request(opcode=READ, payload=0, memory_key=103), 0x17),
    "atomic without the right to write": (
        request(opcode=ATOMIC, memory_key=102, atomic_opcode=SUM, atomic_datatype=UINT64),
        0x17,
    ),
    "fetch without the right to read": (
        request(opcode=FETCHING, memory_key=103, atomic_opcode=SUM, atomic_datatype=UINT64),
        0x17,
    ),
    "fetch without the right to write": (
        request(opcode=FETCHING, memory_key=102, atomic_opcode=SUM, atomic_datatype=UINT64),
        0x17,
    ),
    "last byte outside": (request(buffer_offset=0x4000 - 7), 0x1D),
    "all bytes outside": (request(buffer_offset=2**64 - 4), 0x1D),
    "below a virtual region": (request(memory_key=101, buffer_offset=0x10_0000 - 1), 0x1D),
    "behind a virtual region": (request(memory_key=101, buffer_offset=0x10_4000 - 7), 0x1D),
    "offset taken for an address": (request(memory_key=101, buffer_offset=0), 0x1D),
    "wraps around within the region": (request(memory_key=106, buffer_offset=60), 0x1D),
}
"""Requests that execute nothing, and their return codes as UET numbers them."""


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def every_check_has_its_return_code_and_touches_nothing(dut):
    bench = Bench(dut)
    await start(dut)
    store_keys(bench)
    await bench.sources["key_stores"].sent()
    sender = Initiator(bench)
    sent = []
    for header, payload in (case for case, _ in REFUSALS.values()):
        header = header | sender.numbered(sender.next)
        sender.next += 1
        bench.send(header, payload)
        sent.append(header)
    _, content = sender.send()
    await bench.settle()
    answered = bench.answers()
    seen = {name: answer["return_code"] for name, (answer, _) in zip(REFUSALS, answered, strict=False)}
    assert seen == {name: code for name, (_, code) in REFUSALS.items()}
    assert all(data == b"" for _, data in answered)
    for (answer, _), header, (_, code) in zip(answered, sent, REFUSALS.values(), strict=False):
        assert answer["modified_length"] == (header["request_length"] if code == 1 else 0)
        assert (answer["psn"], answer["message_id"], answer["dpdcid"]) == (header["psn"], header["message_id"], 1)
    # The right request at the end is the only one that is executed, with its own bytes.
    assert [(r["address"], operand) for r, operand, _ in bench.executed] == [(0x10_0040, content)]
    assert answered[-1][0]["return_code"] == 1
    codes = [code for _, code in REFUSALS.values()]
    assert bench.counts["requests_received"] == len(REFUSALS) + 1
    assert bench.counts["refused_requests"] == sum(code != 1 for code in codes)
    assert [event["status"] for event in bench.traced] == [*codes, 1]


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_context_may_take_the_immediate_data_of_reads_by_certain_keys_alone(dut):
    bench = Bench(dut)
    await start(dut)
    store_keys(bench)
    await bench.sources["key_stores"].sent()
    bench.set_context(0, 1, data_by_key=1)
    sender = Initiator(bench)
    with_data = {"flags": WHOLE | HEADER_DATA}
    fetch = {"atomic_opcode": SUM, "atomic_datatype": UINT64}
    certain = with_data | {"memory_key": 108}
    for opcode, fields in (
        (WRITE, certain),
        (ATOMIC, certain | fetch),
        (FETCHING, certain | fetch),
        (READ, with_data | {"payload": 0}),
        (READ, with_data | {"payload": 0, "memory_key": 99}),
        (READ, certain | {"payload": 0}),
        (WRITE, {}),
    ):
        sender.send(opcode, **fields)
    await bench.settle()
    assert [answer["return_code"] for answer, _ in bench.answers()] == [3, 3, 3, 3, 3, 1, 1]
    assert bench.counts["events"] == 1


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def operands_and_compare_values_are_cut_out_of_the_payload(dut):
    bench = Bench(dut)
    await start(dut)
    store_keys(bench)
    await bench.sources["key_stores"].sent()
    sender = Initiator(bench)
    compare_16, swap_16 = bytes(range(16)), bytes(range(100, 116))
    header, _ = request(FETCHING, 32, 32, atomic_opcode=CSWAP, atomic_datatype=UINT64)
    bench.send(header | sender.numbered(sender.next), compare_16 + swap_16)
    sender.next += 1
    # An element's bytes stand last, the most significant one first.
    expected = [(swap_16[:7:-1], compare_16[:7:-1])]
    for length in (*range(1, 2 * WIDTH // 8 + 2), PAYLOAD // 2):
        _, payload = sender.send(VENDOR, length, 2 * length, atomic_opcode=CSWAP, atomic_datatype=UINT8)
        expected.append((payload[:length], payload[length:]))
    # Compare values that begin anywhere in a beat.
    for length in (*range(8, 2 * WIDTH // 8 + 9, 8), PAYLOAD // 2):
        _, payload = sender.send(VENDOR, length, 2 * length, atomic_opcode=CSWAP, atomic_datatype=UINT64)
        payload = b"".join(payload[at : at + 8][::-1] for at in range(0, 2 * length, 8))
        expected.append((payload[:length], payload[length:]))
    await bench.settle(200)
    assert [(operand, compare) for _, operand, compare in bench.executed] == expected


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def small_requests_are_checked_and_answered_every_second_cycle(dut):
    bench = Bench(dut)
    await start(dut)
    store_keys(bench)
    await bench.sources["key_stores"].sent()
    sender = Initiator(bench)
    sender.send()
    await bench.settle()
    arrivals, offers, answers = [], [], []

    async def watch():
        cycle = 0
        while True:
            await RisingEdge(dut.clk)
            cycle += 1
            for name, cycles in (("memory_requests", arrivals), ("responses", answers)):
                if getattr(dut, f"{name}__valid").value and getattr(dut, f"{name}__ready").value:
                    cycles.append(cycle)
            if dut.requests__valid.value:
                offers.append(cycle)

    cocotb.start_soon(watch())
    for _ in range(40):
        sender.send(FETCHING, atomic_opcode=SUM, atomic_datatype=UINT32)
    await bench.settle()
    assert [b - a for a, b in pairwise(arrivals)] == [2] * 39
    assert arrivals[0] - offers[0] == 7
    assert [b - a for a, b in pairwise(answers)] == [2] * 39


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def reset_in_mid_traffic_forgets_pdcs_keys_and_requests(dut):
    bench = Bench(dut, PACES["randomly"], PACES["randomly"])
    await start(dut)
    for _ in range(10):
        store_keys(bench)
        await bench.sources["key_stores"].sent()
        sender = Initiator(bench)
        for _ in range(6):
            sender.send(FETCHING, 64, atomic_opcode=SUM, atomic_datatype=UINT64)
        for _ in range(random.randint(1, 60)):
            await RisingEdge(dut.clk)
        await reset(dut)
        await bench.settle()
        bench.forget()
        for sink in bench.sinks.values():
            sink.received.clear()
        # Not open any more, and the key is gone; what was answered before the reset is not answered again.
        bench.send(*request(syn=0, dpdcid=0, payload=0, length=0, psn=sender.first))
        again = Initiator(bench, psn=sender.first + 3)
        again.send(READ, payload=0)
        bench.send(*request(READ, payload=0, **again.numbered(sender.first + 1) | {"syn": 0, "dpdcid": 0}))
        await bench.settle()
        expected = Counter(dropped_pdc=1, nacks_sent=1, duplicates=1, requests_received=1, refused_requests=1)
        assert +bench.counts == expected
        assert [answer["return_code"] for answer, _ in bench.answers()] == [0, 0x1C]
