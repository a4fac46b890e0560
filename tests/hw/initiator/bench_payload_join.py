"""Testbench of PayloadJoin against concatenation of bytes. Parameters: ``data_width``."""

import random

import cocotb
from amoeba_hw.initiator.payload_join import PAYLOAD
from amoeba_hw.initiator.records import PayloadKind
from amoeba_hw.interfaces import packet_beat
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import StreamSink, StreamSource, always, in_bursts, randomly, reset, start
from cocotb.triggers import ClockCycles

from tests.hw.packet_memory import packet_beats, packet_bytes

WIDTH = bench_parameters()["data_width"]
PACES = {"always": always, "randomly": lambda: randomly(0.5), "in bursts": lambda: in_bursts(9)}


def swapped(content, size):
    """Numbers of ``size`` bytes, the most significant byte first."""
    return b"".join(content[at : at + size][::-1] for at in range(0, len(content), size))


def random_job():
    """A payload, its operand and compare packets, and what must come of them."""
    kind = random.choice([PayloadKind.OPERANDS, PayloadKind.SWAP_PAIR, PayloadKind.VECTORS])
    inline = random.random() < 0.3
    number = random.choice((1, 2, 4, 8) if inline else (1, 2, 4, 8, 16))
    most = 8 if inline else 5 * WIDTH // 8
    length = number if kind is PayloadKind.SWAP_PAIR else number * random.randint(1, most // number)
    operands, compares = random.randbytes(length), random.randbytes(length)
    job = {
        "kind": kind,
        "inline": inline,
        "discard": random.random() < 0.2,
        "length": length,
        "swap": 15 if kind is PayloadKind.SWAP_PAIR else number - 1,
        # Behind an inline value stands whatever the application left there.
        "local": int.from_bytes(operands[:8].ljust(8, b"\xa5"), "little"),
        "compare": int.from_bytes(compares[:8].ljust(8, b"\x5a"), "little"),
    }
    whole = {
        PayloadKind.OPERANDS: swapped(operands, number),
        PayloadKind.SWAP_PAIR: (operands.ljust(16, b"\0") + compares.ljust(16, b"\0"))[::-1],
        PayloadKind.VECTORS: swapped(operands, number) + swapped(compares, number),
    }[kind]
    has_compares = kind is not PayloadKind.OPERANDS
    return (
        job,
        [] if inline else packet_beats(WIDTH, operands),
        [] if inline or not has_compares else packet_beats(WIDTH, compares),
        b"" if job["discard"] else whole,
    )


def streams(dut, pace):
    beat = packet_beat(WIDTH)
    return (
        StreamSource(dut, "payloads", PAYLOAD, pace=pace()),
        StreamSource(dut, "operands", beat, pace=pace()),
        StreamSource(dut, "compares", beat, pace=pace()),
        StreamSink(dut, "o", beat, pace=pace()),
    )


async def run_jobs(dut, payloads, operands, compares, sink, count):
    jobs = [random_job() for _ in range(count)]
    for job, operand_beats, compare_beats, _ in jobs:
        payloads.send(job)
        operands.send(*operand_beats)
        compares.send(*compare_beats)
    for job, _, _, expected in jobs:
        if not expected:
            continue
        beats = await sink.receive(-(-len(expected) // (WIDTH // 8)))
        assert [beat["last"] for beat in beats] == [0] * (len(beats) - 1) + [1], job
        assert all(beat["count"] == WIDTH // 8 for beat in beats[:-1])
        assert packet_bytes(beats) == expected, job
    await payloads.sent()
    await ClockCycles(dut.clk, 20)
    assert sink.received == []
    assert operands.left == compares.left == 0


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES))
async def payloads_are_the_concatenation_of_their_parts(dut, pace):
    ends = streams(dut, PACES[pace])
    await start(dut)
    await run_jobs(dut, *ends, 150)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_reset_in_mid_payload_leaves_nothing_behind(dut):
    payloads, operands, compares, sink = ends = streams(dut, PACES["randomly"])
    await start(dut)
    for _ in range(15):
        for _ in range(10):
            job, operand_beats, compare_beats, _ = random_job()
            payloads.send(job)
            operands.send(*operand_beats)
            compares.send(*compare_beats)
        await ClockCycles(dut.clk, random.randint(1, 60))
        await reset(dut)
        sink.received.clear()
        await run_jobs(dut, *ends, 3)
