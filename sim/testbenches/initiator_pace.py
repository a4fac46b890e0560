"""Testbench of the initiator's speed, at realistic latencies of host and network.

Parameters: ``data_width``.
"""

import cocotb
from amoeba_hw.interfaces import TRACE_SLOT
from amoeba_model.descriptors import TX_DESCRIPTOR, DescriptorFlags, DescriptorOpcode
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters
from amoeba_model.trace import TRACE_EVENT
from amoeba_model.wire.uet import ReturnCode
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import start
from cocotb.triggers import ClockCycles
from initiator_environment import Environment

PARAMETERS = NicParameters(data_width=bench_parameters()["data_width"], contexts=2, peers=4, window=64)
HOST_LATENCY = 250
WIRE_LATENCY = 500
COUNT = 600
RING = 10
"""log2 of entries."""
TRANSMIT, COMPLETIONS, OPERANDS, RESULTS = (n << 32 for n in range(1, 5))
assert TRACE_SLOT.size == 1 + 8 * TRACE_EVENT.size


async def environment_with(dut, host_latency, wire_latency):
    environment = Environment(
        dut,
        PARAMETERS,
        lambda header, payload: (ReturnCode.OK, bytes(header["request_length"])),
        host_latency=host_latency,
        wire_latency=wire_latency,
        done_rate=1,
    )
    for address in (TRANSMIT, COMPLETIONS, OPERANDS, RESULTS):
        environment.memory.grant(address, 1 << 24)
    await start(dut)
    for number in range(2):
        environment.set_context(
            number,
            enable=1,
            transmit_base=TRANSMIT + (number << 20),
            transmit_size=RING,
            completion_base=COMPLETIONS + (number << 20),
            completion_size=RING,
        )
        for index in (number, number + 2):
            environment.store_peer(index, valid=1, context=number, initial_psn=7)
    await environment.peer_stores.sent()
    return environment


def fetch_add(number, index, inline):
    return TX_DESCRIPTOR.pack(
        opcode=DescriptorOpcode.FETCH_ATOMIC,
        op=Op.FI_SUM,
        datatype=Datatype.FI_UINT64,
        flags=DescriptorFlags.COMPLETION | inline * DescriptorFlags.INLINE,
        length=8,
        peer=number + 2 * (index % 2),
        local=OPERANDS + 8 * index,
        result=RESULTS + 8 * index,
    )


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(inline=[True, False])
async def a_fetching_atomic_leaves_every_four_cycles(dut, inline):
    environment = await environment_with(dut, HOST_LATENCY, WIRE_LATENCY)
    for number in range(2):
        environment.post(number, 0, [fetch_add(number, index, inline) for index in range(COUNT)])
    await environment.completed(2 * COUNT)
    cycles = [header["cycle"] for header, _ in environment.frames]
    quarter = len(cycles) // 4
    sent = (cycles[-quarter] - cycles[quarter]) / (len(cycles) - 2 * quarter)
    done = [entry["cycle"] for _, _, entry in environment.completions]
    completed = (done[-quarter] - done[quarter]) / (len(done) - 2 * quarter)
    dut._log.info(f"{inline=}: {sent:.2f} cycles per request, {completed:.2f} per completion")
    assert sent <= 4.1
    assert completed <= 4.1


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def an_idle_initiator_adds_few_cycles(dut):
    host = wire = 10
    environment = await environment_with(dut, host, wire)
    environment.post(0, 0, [fetch_add(0, 0, True)])
    begin = None
    while not environment.completions:
        await ClockCycles(dut.clk, 1)
        if begin is None and int(dut.trace_doorbell.value) & 1:
            begin = environment.cycle
    sent = environment.frames[0][0]["cycle"] - begin - host
    done = environment.completions[0][2]["cycle"] - environment.frames[0][0]["cycle"] - wire
    dut._log.info(f"doorbell to header {sent} cycles besides the host's, answer to completion {done}")
    # The bench's own streams take part of these.
    assert sent <= 32
    assert done <= 60
