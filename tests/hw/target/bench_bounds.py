"""Testbench of Target: what frames of one peer cost another, in cycles for each.

A stranger's frames come as fast as they are taken, and right behind them one request of somebody else; or that comes
alone. Host, link and memory engine are quick, unless a bench says otherwise: what is left is the target's own.
Parameters: see target_environment.
"""

from itertools import count

import cocotb
from amoeba_sim.cocotb_streams import start
from cocotb.triggers import RisingEdge

from tests.hw.target.environment import PARAMETERS, PAYLOAD, WINDOW, Bench, Initiator, store_keys

READ, TAGGED_SEND, TSEND_ATOMIC = 2, 9, 0xD
SUM_OF_UINT64 = {"atomic_opcode": 2, "atomic_datatype": 7}
RECEIVE, TAGGED = 1, 1
FRAMES = 64
"""Of the stranger. More than wait anywhere."""
BOUNDS = {"READs received again": 8, "NACKs that cannot leave": 2, "tagged atomics": 8, "messages without a slot": 8}
"""Cycles that another peer's request waits for each."""


async def prepared(dut, **arguments):
    bench = Bench(dut, **arguments)
    await start(dut)
    store_keys(bench)
    await bench.sources["key_stores"].sent()
    return bench


async def measured(bench, flood):
    """Cycles for each of the ``flood``'s frames that somebody's WRITE waits longer than it does alone."""
    bench.host_latency = 1
    other = Initiator(bench, ip=77, psn=1)
    other.send()
    await bench.settle()
    durations = []
    for frames in (lambda: None, flood):
        bench.clear()
        frames()
        other.send()
        cycles = 0
        while not any(header["ip"] == 77 for header in bench.responses):
            await RisingEdge(bench.dut.clk)
            cycles += 1
        durations.append(cycles)
        await bench.settle(400)
    # The last of the flood may be in flight in full when the WRITE comes.
    return (durations[1] - durations[0]) / (FRAMES + 1)


def report(dut, what, cost):
    dut._log.info(f"BOUND {what}: {cost:.1f} cycles per frame")
    bound = BOUNDS[what]
    assert cost <= bound, f"{what}: {cost:.1f} cycles of another peer per frame, expected at most {bound}"


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def reads_that_are_received_again_do_not_hold_up_others(dut):
    bench = await prepared(dut)
    stranger = Initiator(bench, ip=66)
    sent = [stranger.send(READ, PAYLOAD, 0)[0] for _ in range(WINDOW)]
    await bench.settle(400)
    assert len(bench.responses) == WINDOW

    def flood():
        for number in range(FRAMES):
            bench.send(sent[number % WINDOW] | {"retx": 1})

    report(dut, "READs received again", await measured(bench, flood))
    assert bench.counts["duplicates"] == FRAMES


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def nacks_that_cannot_leave_do_not_hold_up_others(dut):
    leaves = [True]
    bench = await prepared(dut, link_pace=lambda: (leaves[0] for _ in count()))
    other = Initiator(bench, ip=77, psn=1)
    other.send()
    await bench.settle()
    durations = []
    for frames in (0, FRAMES):
        bench.clear()
        executed, nacks = len(bench.executed), bench.counts["nacks_sent"]
        leaves[0] = False
        for number in range(frames):
            # Of no PDC: whoever sends them needs nothing.
            Initiator(bench, ip=66, psn=number).send(syn=0, dpdcid=5)
        other.send()
        cycles = 0
        while len(bench.executed) == executed:
            await RisingEdge(dut.clk)
            cycles += 1
        durations.append(cycles)
        leaves[0] = True
        await bench.settle(400)
        assert [header["ip"] for header in bench.responses].count(77) == 1
        assert bench.counts["nacks_sent"] - nacks == sum(header["ip"] == 66 for header in bench.responses)
    assert bench.counts["dropped_pdc"] == FRAMES
    # What waited left; what found no place is as lost as on the link.
    assert 30 <= bench.counts["nacks_sent"] < FRAMES
    report(dut, "NACKs that cannot leave", (durations[1] - durations[0]) / FRAMES)


async def with_receives(dut):
    """All receives that can be posted, for a tag that nobody sends."""
    bench = await prepared(dut)
    receives = PARAMETERS["receives"]
    bench.post(*({"opcode": RECEIVE, "flags": TAGGED, "tag": 9, "length": 8, "address": 1 << 32},) * receives)
    await bench.settle(60 * receives)
    return bench


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def messages_that_match_no_receive_do_not_hold_up_others(dut):
    bench = await with_receives(dut)
    stranger = Initiator(bench, ip=66)

    def flood():
        for _ in range(FRAMES):
            stranger.send(TSEND_ATOMIC, 8, 8, memory_key=3, **SUM_OF_UINT64)

    report(dut, "tagged atomics", await measured(bench, flood))


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def messages_without_a_slot_do_not_hold_up_others(dut):
    bench = await with_receives(dut)
    stranger = Initiator(bench, ip=66)
    for _ in range(PARAMETERS["unexpected"]):
        stranger.send(TAGGED_SEND, 8, 8, memory_key=3)
    await bench.settle(100)
    header, payload = stranger.send(TAGGED_SEND, 8, 8, memory_key=3)
    await bench.settle(100)

    def flood():
        for _ in range(FRAMES):
            bench.send(header, payload)

    report(dut, "messages without a slot", await measured(bench, flood))
