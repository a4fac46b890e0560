"""Testbench of the initiator's request half: its pace at a realistic latency of the host.

Parameters: ``data_width``, ``places`` of a context's queue.
"""

import cocotb
from amoeba_model.parameters import NicParameters
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import start
from cocotb.triggers import ClockCycles

from tests.hw.initiator.request_half_environment import DATA, Environment, write

CONTEXTS = 4
WIDTH = bench_parameters()["data_width"]
PLACES = bench_parameters()["places"]
PARAMETERS = NicParameters(data_width=WIDTH, contexts=CONTEXTS, peers=8)
LATENCY = 250


async def environment_with(dut, window):
    environment = Environment(dut, PARAMETERS, window=window, host_latency=LATENCY)
    await start(dut)
    for number in range(CONTEXTS):
        environment.enable(number)
    await ClockCycles(dut.clk, 3)
    return environment


def rate(environment, number, share=4):
    """Cycles per packet of a context, between the first and the last ``1 / share`` of its packets."""
    cycles = [cycle for cycle, packet, _ in environment.packets if packet["ticket"]["context"] == number]
    edge = len(cycles) // share
    return (cycles[-edge] - cycles[edge]) / (len(cycles) - 2 * edge)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_blocked_context_with_a_full_queue_costs_the_others_nothing(dut):
    environment = await environment_with(dut, 64)
    environment.windows[0].blocked = True
    environment.post(0, [write(0) for _ in range(700)])
    await ClockCycles(dut.clk, 2000)
    for number in (1, 2):
        environment.post(number, [write(number) for _ in range(500)])
    await environment.sent(1000, cycles=6000)
    rates = [rate(environment, number) for number in (1, 2)]
    dut._log.info(f"cycles per packet of two contexts beside a blocked one: {rates}")
    assert all(packet["ticket"]["context"] for _, packet, _ in environment.packets)
    assert max(rates) <= 6.0
    environment.windows[0].blocked = False
    await environment.sent(1700, cycles=6000)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def one_context_sends_a_packet_every_three_cycles_through_250_of_host_latency(dut):
    environment = await environment_with(dut, 512)
    environment.post(3, [write(3) for _ in range(768)])
    await environment.sent(768)
    pace = rate(environment, 3)
    dut._log.info(f"{pace:.2f} cycles per packet from descriptors of one context")
    assert pace <= 3.0


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def requests_that_are_there_leave_every_two_cycles(dut):
    environment = await environment_with(dut, 512)
    environment.windows[0].blocked = True
    environment.post(0, [write(0) for _ in range(PLACES)])
    await ClockCycles(dut.clk, 3 * LATENCY + 4 * PLACES)
    environment.windows[0].blocked = False
    await environment.sent(PLACES)
    pace = rate(environment, 0)
    dut._log.info(f"{pace:.2f} cycles per packet of requests queued")
    assert pace <= 2.1


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(offset=[0, 13])
async def rma_writes_fill_the_link(dut, offset):
    environment = await environment_with(dut, 256)
    length = 1 << 18
    environment.post(0, [write(0, length, flags=0, local=DATA + offset) for _ in range(2)])
    beats = 4096 * 8 // WIDTH
    await environment.sent(2 * length // 4096, cycles=3 * length * 8 // WIDTH)
    used = beats / rate(environment, 0)
    dut._log.info(f"payload beats per cycle of an RMA write: {used:.3f}")
    assert used >= 0.9
    content = environment.memory.read(DATA + offset, length)
    assert b"".join(payload for _, _, payload in environment.packets) == 2 * content
