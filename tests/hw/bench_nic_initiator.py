"""Testbench of the whole NIC on its standard buses, as an initiator, with hand-made frames.

Parameters: as in ``nic_setup``.
"""

import random

import cocotb

from tests.hw.nic_environment import CLOSED, LOCAL, NicBench, descriptor
from tests.hw.nic_setup import (
    ATOMIC,
    COMPARE_ATOMIC,
    CSWAP,
    D_ATOMIC,
    D_COMPARE,
    D_FETCH,
    D_NOP,
    D_READ,
    D_WRITE,
    FETCHING_ATOMIC,
    FI_SUM,
    FI_UINT64,
    NO_OP,
    OK,
    PACES,
    PARAMETERS,
    PAYLOAD,
    READ,
    RENDEZVOUS_SEND,
    RENDEZVOUS_TSEND,
    SEND,
    SUM,
    TAGGED_SEND,
    TSEND_ATOMIC,
    TSEND_FETCH_ATOMIC,
    UINT64,
    WRITE,
    Remote,
    network_order,
    remote_fields,
    swap_values,
)

D_SEND, D_TAGGED_SEND, D_RENDEZVOUS, D_TAGGED_RENDEZVOUS, D_TAGGED_ATOMIC, D_TAGGED_FETCH = range(7, 13)
FI_CSWAP, FI_DOUBLE = 12, 9
COMPLETION, INLINE = 1, 2


@cocotb.test(timeout_time=200, timeout_unit="us")
@cocotb.parametrize(pace=list(PACES))
async def descriptors_become_frames_and_answers_completions(dut, pace):
    bench = NicBench(dut, PARAMETERS, PACES[pace])
    await bench.power_up()
    remote = Remote(bench)
    await remote.store()
    bench.memory[LOCAL.start] = random.randbytes(len(LOCAL))
    expected = bytearray(bench.memory[LOCAL.start : LOCAL.stop])
    source, compare, result = LOCAL.start + 3, LOCAL.start + 0x1009, LOCAL.start + 0x2FF5
    common = {"remote": 0x1234_5678_9ABC, "key": 0x77, "counter": 5}
    number = failed = 0

    async def completed(length, opcode, status=OK):
        nonlocal number, failed
        assert await bench.completion() == (0xC0FFEE00 + number, length, number, opcode, status)
        number += 1
        failed += status != OK

    async def post(opcode, **fields):
        await bench.post(descriptor(opcode, **{**common, "context": 0xC0FFEE00 + number, **fields}))

    def receives(data):
        at = result - LOCAL.start
        expected[at : at + len(data)] = data

    await post(D_NOP)
    await completed(0, D_NOP)
    for length in (0, 1, 8, 100, PAYLOAD):
        await post(D_WRITE, length=length, local=source)
        request = await remote.expect(WRITE, bench.memory[source : source + length], **remote_fields(length))
        remote.answer(request)
        await completed(length, D_WRITE)
        await post(D_READ, length=length, result=result)
        request = await remote.expect(READ, **remote_fields(length))
        data = random.randbytes(length)
        remote.answer(request, data=data)
        receives(data)
        await completed(length, D_READ)
    sums = {"op": FI_SUM, "datatype": FI_UINT64}
    wire_sums = {"atomic_opcode": SUM, "atomic_datatype": UINT64}
    for length in (8, 24, PAYLOAD):
        operands = network_order(bench.memory[source : source + length])
        await post(D_ATOMIC, length=length, local=source, **sums)
        remote.answer(await remote.expect(ATOMIC, operands, **remote_fields(length), **wire_sums))
        await completed(length, D_ATOMIC)
        await post(D_FETCH, length=length, local=source, result=result, **sums)
        request = await remote.expect(FETCHING_ATOMIC, operands, **remote_fields(length), **wire_sums)
        data = random.randbytes(length)
        remote.answer(request, data=network_order(data))
        receives(data)
        await completed(length, D_FETCH)
    for opcode, message in ((D_SEND, SEND), (D_TAGGED_SEND, TAGGED_SEND)):
        for length in (0, 12, PAYLOAD):
            await post(opcode, length=length, local=source)
            content = bench.memory[source : source + length]
            remote.answer(await remote.expect(message, content, **remote_fields(length)))
            await completed(length, opcode)
    for opcode, message in ((D_RENDEZVOUS, RENDEZVOUS_SEND), (D_TAGGED_RENDEZVOUS, RENDEZVOUS_TSEND)):
        await post(opcode, length=32, local=source)
        content = bench.memory[source : source + 32]
        remote.answer(await remote.expect(message, content, **remote_fields(32)))
        await completed(32, opcode)
    operands = network_order(bench.memory[source : source + 16])
    await post(D_TAGGED_ATOMIC, length=16, local=source, **sums)
    remote.answer(await remote.expect(TSEND_ATOMIC, operands, **remote_fields(16), **wire_sums))
    await completed(16, D_TAGGED_ATOMIC)
    await post(D_TAGGED_FETCH, length=16, local=source, result=result, **sums)
    request = await remote.expect(TSEND_FETCH_ATOMIC, operands, **remote_fields(16), **wire_sums)
    data = random.randbytes(16)
    remote.answer(request, data=network_order(data))
    receives(data)
    await completed(16, D_TAGGED_FETCH)
    await post(D_WRITE, length=5, local=0x0807060504030201, flags=COMPLETION | INLINE)
    remote.answer(await remote.expect(WRITE, bytes([1, 2, 3, 4, 5]), **remote_fields(5)))
    await completed(5, D_WRITE)
    swaps = {"op": FI_CSWAP, "datatype": FI_UINT64, "local": source, "compare": compare, "result": result}
    wire_swaps = {"atomic_opcode": CSWAP, "atomic_datatype": UINT64}
    for length in (8, 16):
        operands, compares = (bench.memory[start : start + length] for start in (source, compare))
        await post(D_COMPARE, length=length, **swaps)
        if length == 8:
            opcode, payload, size = FETCHING_ATOMIC, swap_values(compares, operands), 32
        else:
            opcode, payload, size = COMPARE_ATOMIC, network_order(operands + compares), length
        request = await remote.expect(opcode, payload, **remote_fields(size), **wire_swaps)
        data = random.randbytes(length)
        remote.answer(request, data=network_order(data))
        receives(data)
        await completed(length, D_COMPARE)
    # What the remote refuses, and data that is not what was asked for.
    await post(D_READ, length=8, result=result)
    remote.answer(await remote.expect(READ, **remote_fields(8)), code=0x1D)
    await completed(8, D_READ, 0x1D)
    await post(D_READ, length=8, result=result)
    remote.answer(await remote.expect(READ, **remote_fields(8)), data=bytes(9))
    await completed(8, D_READ, 0x20)
    # Only errors complete without being asked to.
    await post(D_WRITE, length=8, local=source, flags=0)
    remote.answer(await remote.expect(WRITE, bench.memory[source : source + 8], **remote_fields(8)))
    number += 1
    await post(D_WRITE, length=8, local=source, flags=0)
    remote.answer(await remote.expect(WRITE, bench.memory[source : source + 8], **remote_fields(8)), code=0x1C)
    await completed(8, D_WRITE, 0x1C)
    assert bench.memory[LOCAL.start : LOCAL.stop] == expected
    await bench.watchdog()
    assert bench.event_counter(5) == (number - failed, failed)


@cocotb.test(timeout_time=200, timeout_unit="us")
async def bad_descriptors_complete_with_what_is_wrong(dut):
    bench = NicBench(dut, PARAMETERS, PACES["randomly"])
    await bench.power_up()
    remote = Remote(bench)
    await remote.store()
    await bench.store_peer(2, 1, 1, 0, context=1)
    good = {"length": 8, "local": LOCAL.start}
    cases = [
        (0x30, descriptor(14, **good)),
        (0x30, descriptor(D_SEND, local=LOCAL.start, length=(1 << 30) + 1)),
        (0x30, descriptor(D_RENDEZVOUS, **good)),
        (0x30, descriptor(D_TAGGED_FETCH, op=FI_SUM, datatype=FI_UINT64, length=PAYLOAD + 8)),
        (0xF, descriptor(D_TAGGED_ATOMIC, op=FI_CSWAP, datatype=FI_UINT64, **good)),
        (0x30, descriptor(D_WRITE, **{**good, "flags": 0x41})),
        (0x30, descriptor(D_COMPARE, op=FI_CSWAP, datatype=FI_UINT64, **{**good, "flags": 9})),
        (0x30, descriptor(D_WRITE, **{**good, "flags": 3, "length": 9})),
        (0x30, descriptor(D_ATOMIC, op=FI_SUM, datatype=FI_UINT64, length=0)),
        (0x30, descriptor(D_ATOMIC, op=FI_SUM, datatype=FI_UINT64, length=12)),
        (0x30, descriptor(D_WRITE, length=(1 << 30) + 1)),
        (0xF, descriptor(D_ATOMIC, op=FI_SUM, datatype=FI_DOUBLE, **good)),
        (0xF, descriptor(D_ATOMIC, op=FI_CSWAP, datatype=FI_UINT64, **good)),
        (0xF, descriptor(D_FETCH, op=99, datatype=FI_UINT64, **good)),
        (0x31, descriptor(D_WRITE, peer=4, **good)),
        (0x31, descriptor(D_WRITE, peer=1, **good)),
        (0x31, descriptor(D_WRITE, peer=2, **good)),
    ]
    random.shuffle(cases)
    await bench.write(0x2_0008, len(cases) - 1)  # interrupt at the last of them
    half = len(cases) // 2
    for batch in (range(half), range(half, len(cases))):
        await bench.post(*(cases[number][1] for number in batch))
        for number in batch:
            status, content = cases[number]
            length, opcode = int.from_bytes(content[4:8], "little"), content[0]
            assert await bench.completion() == (0, length, number, opcode, status), content.hex()
    await bench.watchdog(50)
    assert bench.interrupts == [1, 0]
    # Operands that the host refuses: the packet is sent as nothing to do.
    await bench.post(descriptor(D_WRITE, length=8, local=CLOSED.start, remote=5, key=6))
    request = await remote.expect(NO_OP, flags=0x13, buffer_offset=5, memory_key=6, request_length=0)
    remote.answer(request)
    assert await bench.completion() == (0, 8, len(cases), D_WRITE, 0x32)
    counts = await bench.counters()
    assert counts["error_completions"] == counts["completions"] == len(cases) + 1
    assert counts["interrupts"] == 1
    assert counts["dma_read_errors"] == 1
