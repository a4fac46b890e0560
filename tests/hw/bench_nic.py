"""Testbench of the whole NIC on its standard buses: both its halves at once, and resets.

Parameters: as in ``nic_setup``.

Covers ``core.py``.
"""

import random

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from tests.hw.nic_environment import KEY, LOCAL, REGION, NicBench, Stranger, descriptor
from tests.hw.nic_setup import (
    D_FETCH,
    D_READ,
    D_WRITE,
    FI_SUM,
    FI_UINT64,
    OK,
    PACES,
    PARAMETERS,
    READ,
    Remote,
    random_execution,
    remote_fields,
)
from tests.hw.uet_frames import OWN_IP, OWN_MAC


async def looped(bench):
    """The link leads back to the NIC."""
    while True:
        bench.send(await bench.receive())


async def fetch_and_add(bench, context, count, counter):
    """``count`` fetching additions of 1, in batches; the values fetched."""
    fetched = []
    while len(fetched) < count:
        batch = min(random.randint(1, 14), count - len(fetched))
        results = [LOCAL.start + 0x1000 * context + 8 * random.randint(0, 3) + 48 * number for number in range(batch)]
        fields = {"op": FI_SUM, "datatype": FI_UINT64, "length": 8, "peer": context, "remote": counter, "key": KEY}
        await bench.post(
            *(descriptor(D_FETCH, flags=3, local=1, result=result, **fields) for result in results), context=context
        )
        for _ in results:
            completion = await bench.completion(context)
            assert completion[-1] == OK
        fetched += [int.from_bytes(bench.memory[result : result + 8], "little") for result in results]
    return fetched


async def loop_back(bench):
    for context in range(2):
        await bench.store_peer(context, OWN_MAC, OWN_IP, 0x100 * context, context=context, remote_context=context)
    return cocotb.start_soon(looped(bench))


@cocotb.test(timeout_time=200, timeout_unit="us")
@cocotb.parametrize(pace=list(PACES))
async def additions_of_two_contexts_all_count(dut, pace):
    bench = NicBench(dut, PARAMETERS, PACES[pace])
    await bench.power_up()
    await loop_back(bench)
    counter = REGION.start + 1
    bench.memory[counter] = bytes(8)
    additions = [cocotb.start_soon(fetch_and_add(bench, context, 60, counter)) for context in range(2)]
    fetched = [await task for task in additions]
    # Each context sees its own in order, and nobody sees the same value twice.
    assert all(values == sorted(values) for values in fetched)
    assert sorted(fetched[0] + fetched[1]) == list(range(120))
    assert int.from_bytes(bench.memory[counter : counter + 8], "little") == 120


@cocotb.test(timeout_time=200, timeout_unit="us")
async def long_transfers_to_itself_arrive_whole(dut):
    bench = NicBench(dut, PARAMETERS, PACES["in bursts"])
    await bench.power_up()
    await loop_back(bench)
    length = len(REGION) - 3
    bench.memory[LOCAL.start] = random.randbytes(length)
    common = {"length": length, "remote": REGION.start + 3, "key": KEY}
    await bench.post(
        descriptor(D_WRITE, local=LOCAL.start, **common), descriptor(D_READ, result=LOCAL.start + 0x2001, **common)
    )
    for number, opcode in enumerate((D_WRITE, D_READ)):
        assert await bench.completion() == (0, length, number, opcode, OK)
    sent = bench.memory[LOCAL.start : LOCAL.start + length]
    assert bench.memory[REGION.start + 3 : REGION.stop] == sent
    assert bench.memory[LOCAL.start + 0x2001 : LOCAL.start + 0x2001 + length] == sent


@cocotb.test(timeout_time=200, timeout_unit="us")
async def after_a_reset_in_mid_traffic_it_works_as_new(dut):
    bench = NicBench(dut, PARAMETERS, PACES["randomly"])
    await bench.power_up()
    for _ in range(6):
        link = await loop_back(bench)
        counter = REGION.start + 1
        traffic = [cocotb.start_soon(fetch_and_add(bench, context, 1000, counter)) for context in range(2)]
        await ClockCycles(dut.clk, random.randint(100, 1500))
        for task in (link, *traffic):
            task.cancel()
        await RisingEdge(dut.clk)
        await bench.restart()
        assert not {name for name in await bench.counters() if name != "interrupts"}
        shadow = bytearray(bench.memory[REGION.start : REGION.stop])
        stranger, expected = Stranger(bench, 1, 0), []
        for _ in range(8):
            header, payload, data = random_execution(stranger, shadow)
            stranger.send(header, payload)
            expected.append(stranger.answer(header, OK, data))
        for answer in expected:
            assert await bench.receive() == answer
        remote = Remote(bench, index=3)
        await remote.store()
        await bench.post(descriptor(D_READ, length=8, peer=3, result=LOCAL.start))
        request = await remote.expect(READ, **remote_fields(8, 0, 0))
        remote.answer(request, data=b"as new! ")
        assert await bench.completion() == (0, 8, 0, D_READ, OK)
        assert bench.memory[LOCAL.start : LOCAL.start + 8] == b"as new! "
