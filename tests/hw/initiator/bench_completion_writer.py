"""Testbench of CompletionWriter against the entries a driver expects. Parameters: ``data_width``."""

import collections
import random

import cocotb
from amoeba_hw.initiator.records import COMPLETION_ORDER
from amoeba_hw.interfaces import CONTEXT, COUNT_ORDER, RING_INDEX, write_beat
from amoeba_model.descriptors import COMPLETION
from amoeba_model.wire.uet import ReturnCode
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import StreamSink, StreamSource, always, in_bursts, randomly, start
from amoeba_sim.payload import pack
from cocotb.triggers import ClockCycles, RisingEdge
from cocotb.utils import get_sim_time

WIDTH = bench_parameters()["data_width"]
CONTEXTS = 3
PACES = {"always": always, "randomly": lambda: randomly(0.5), "in bursts": lambda: in_bursts(9)}
BASE = 0x1_0000_0040
SIZES = (0, 2, 5)


def random_order():
    return {
        "ticket": {
            "context": random.randrange(CONTEXTS),
            "generation": random.choice((4, 4, 4, 5)),
            "index": random.getrandbits(16),
            "peer": random.getrandbits(16),
            "user_context": random.getrandbits(64),
            "length": random.getrandbits(32),
            "opcode": random.getrandbits(8),
            "wants_completion": random.getrandbits(1),
            "counter": random.choice((0, 1, 63, 255)),
            "chained": random.random() < 0.3,
        },
        "status": random.choice((ReturnCode.OK, ReturnCode.OK, ReturnCode.BAD_ADDR)),
    }


def expected_entries(orders):
    """(address, bytes) of what must be written."""
    written = collections.Counter()
    for order in orders:
        ticket, status = order["ticket"], order["status"]
        number = ticket["context"]
        if ticket["generation"] != 4 or (status == ReturnCode.OK and not ticket["wants_completion"]):
            continue
        lap, slot = divmod(written[number], 1 << SIZES[number])
        written[number] += 1
        yield (
            BASE + (number << 16) + 32 * slot,
            COMPLETION.pack(
                context=ticket["user_context"],
                length=ticket["length"],
                descriptor=ticket["index"],
                opcode=ticket["opcode"],
                status=status,
                flags=0 if lap % 2 else 0x80,
            ),
        )


def expected_counts(orders):
    """The required counts."""
    for order in orders:
        ticket, failed = order["ticket"], order["status"] != ReturnCode.OK
        if ticket["generation"] == 4 and ticket["counter"] and (failed or not ticket["chained"]):
            yield {"counter": ticket["counter"], "error": int(failed), "context": ticket["context"]}


async def started(dut, pace):
    orders = StreamSource(dut, "orders", COMPLETION_ORDER, pace=pace())
    arms = StreamSource(dut, "arms", RING_INDEX, pace=pace())
    writes = StreamSink(dut, "writes", write_beat(WIDTH), pace=pace())
    counts = StreamSink(dut, "counts", COUNT_ORDER, pace=pace())
    for number, size in enumerate(SIZES):
        settings = {"enable": 1, "completion_base": BASE + (number << 16), "completion_size": size}
        getattr(dut, f"contexts__{number}").value = pack(CONTEXT, settings)
        getattr(dut, f"generations__{number}").value = 4
    await start(dut)
    return orders, arms, writes, counts


async def receive_entry(writes):
    """Address and bytes of one completion: one burst, whose strobed bytes are contiguous."""
    size = WIDTH // 8
    beats = await writes.receive(max(1, 32 // size))
    assert [beat["first"] for beat in beats] == [1, 0][: len(beats)]
    assert [beat["last"] for beat in beats] == [0, 1][-len(beats) :]
    assert beats[0]["beats"] == len(beats)
    strobe = sum(beat["strobe"] << size * i for i, beat in enumerate(beats))
    data = sum(beat["data"] << WIDTH * i for i, beat in enumerate(beats))
    offset = (strobe & -strobe).bit_length() - 1
    assert strobe == 0xFFFF_FFFF << offset
    return beats[0]["address"] + offset, (data >> 8 * offset & (1 << 256) - 1).to_bytes(32, "little")


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES))
async def entries_lie_in_their_rings_with_phase_bits(dut, pace):
    orders, _, writes, _ = await started(dut, PACES[pace])
    program = [random_order() for _ in range(300)]
    orders.send(*program)
    for expected in expected_entries(program):
        assert await receive_entry(writes) == expected
    await orders.sent()
    await ClockCycles(dut.clk, 10)
    assert writes.received == []


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def requests_without_an_entry_are_reported_and_stale_ones_forgotten(dut):
    orders, _, writes, _ = await started(dut, always)
    program = [random_order() for _ in range(200)]
    orders.send(*program)
    seen = collections.Counter()
    while orders.left:
        await RisingEdge(dut.clk)
        for number in range(CONTEXTS):
            seen[number] += int(dut.skipped.value) >> number & 1
    await ClockCycles(dut.clk, 5)
    assert seen == collections.Counter(
        order["ticket"]["context"]
        for order in program
        if order["ticket"]["generation"] == 4
        and order["status"] == ReturnCode.OK
        and not order["ticket"]["wants_completion"]
    )
    entries = len(list(expected_entries(program)))
    assert len(writes.received) == entries * max(1, 256 // WIDTH)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES))
async def what_completes_is_counted_once_and_behind_its_entry(dut, pace):
    orders, _, writes, counts = await started(dut, PACES[pace])
    program = [random_order() for _ in range(300)]
    orders.send(*program)
    assert {count["error"] for count in expected_counts(program)} == {0, 1}
    beats = 0
    for order in program:
        beats += max(1, 256 // WIDTH) * len(list(expected_entries([order])))
        for expected in expected_counts([order]):
            assert await counts.receive(1) == [expected]
            assert len(writes.received) >= beats
    await orders.sent()
    await ClockCycles(dut.clk, 20)
    assert counts.received == []


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def counting_costs_no_time(dut):
    orders, _, _, counts = await started(dut, always)
    program = [random_order() for _ in range(100)]
    for order in program:
        order["ticket"].update(generation=4, wants_completion=1, counter=1, chained=0)
    orders.send(*program)
    begin = get_sim_time("ns")
    await orders.sent()
    assert (get_sim_time("ns") - begin) // 4 <= len(program) * (1 + max(1, 256 // WIDTH)) + 5
    await ClockCycles(dut.clk, 5)
    assert len(counts.received) == len(program)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def contexts_due_together_interrupt_one_after_the_other(dut):
    orders, arms, _, _ = await started(dut, always)
    for number in range(CONTEXTS):
        orders.send({"ticket": {"context": number, "generation": 4, "wants_completion": 1}, "status": ReturnCode.OK})
    await orders.sent()
    await ClockCycles(dut.clk, 10)
    raised = []

    async def watch():
        while True:
            await RisingEdge(dut.clk)
            vectors = int(dut.interrupts.value)
            if vectors:
                assert vectors & (vectors - 1) == 0
                raised.append(vectors)

    watcher = cocotb.start_soon(watch())
    # Index 0 has been written: at once. Index 1 has not: later. Half the index space away is the past, too.
    arms.send({"context": 0, "index": 0}, {"context": 1, "index": 1}, {"context": 2, "index": 0x8001})
    await ClockCycles(dut.clk, 20)
    assert raised == [0b001, 0b100]
    orders.send({"ticket": {"context": 1, "generation": 4}, "status": ReturnCode.BAD_PID})
    await ClockCycles(dut.clk, 20)
    assert raised == [0b001, 0b100, 0b010]
    watcher.cancel()
