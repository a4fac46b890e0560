"""Testbench of the initiator's speed, at realistic latencies of host and network.

Parameters: ``data_width``.
"""

import cocotb
from amoeba_hw.interfaces import TRACE_SLOT
from amoeba_model.descriptors import TX_DESCRIPTOR, DescriptorFlags, DescriptorOpcode
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters
from amoeba_model.trace import TRACE_EVENT
from amoeba_model.wire.uet import RequestOpcode, ReturnCode
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import start
from cocotb.triggers import ClockCycles

from tests.hw.initiator.environment import Environment

PARAMETERS = NicParameters(data_width=bench_parameters()["data_width"], contexts=2, peers=4)
HOST_LATENCY = 250
WIRE_LATENCY = 500
COUNT = 600
RING = 10
"""log2 of entries."""
TRANSMIT, COMPLETIONS, OPERANDS, RESULTS = (n << 32 for n in range(1, 5))
assert TRACE_SLOT.size == 1 + 8 * TRACE_EVENT.size


def well(header, payload):
    return ReturnCode.OK, b"" if header["opcode"] == RequestOpcode.WRITE else bytes(header["request_length"])


async def environment_with(dut, host_latency, wire_latency):
    environment = Environment(
        dut,
        PARAMETERS,
        well,
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


def fetch_add(number, index, inline, peer=None):
    return TX_DESCRIPTOR.pack(
        opcode=DescriptorOpcode.FETCH_ATOMIC,
        op=Op.FI_SUM,
        datatype=Datatype.FI_UINT64,
        flags=DescriptorFlags.COMPLETION | inline * DescriptorFlags.INLINE,
        length=8,
        peer=number + 2 * (index % 2) if peer is None else peer,
        local=OPERANDS + 8 * index,
        result=RESULTS + 8 * index,
    )


def write(index, peer):
    flags = DescriptorFlags.COMPLETION | DescriptorFlags.INLINE
    return TX_DESCRIPTOR.pack(opcode=DescriptorOpcode.WRITE, flags=flags, length=8, peer=peer, local=index)


async def pace(environment, count):
    """Wait for ``count`` completions; cycles per request and per completion in the middle half of them."""
    await environment.completed(count)
    sent = [header["cycle"] for header, _ in environment.frames]
    done = [entry["cycle"] for _, _, entry in environment.completions]
    assert {entry["status"] for _, _, entry in environment.completions} == {ReturnCode.OK}
    assert environment.counts["count_retransmissions"] == 0
    quarter = count // 4
    return tuple((cycles[-quarter] - cycles[quarter]) / (count - 2 * quarter) for cycles in (sent, done))


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(inline=[True, False])
async def a_fetching_atomic_leaves_every_four_cycles(dut, inline):
    environment = await environment_with(dut, HOST_LATENCY, WIRE_LATENCY)
    for number in range(2):
        environment.post(number, 0, [fetch_add(number, index, inline) for index in range(COUNT)])
    sent, completed = await pace(environment, 2 * COUNT)
    dut._log.info(f"{inline=}: {sent:.2f} cycles per request, {completed:.2f} per completion")
    assert sent <= 4.1
    assert completed <= 4.1


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(writes=[True, False])
async def a_single_endpoint_keeps_the_pace_of_the_wire(dut, writes):
    environment = await environment_with(dut, HOST_LATENCY, WIRE_LATENCY)
    descriptors = [write(index, 0) if writes else fetch_add(0, index, True, peer=0) for index in range(COUNT)]
    environment.post(0, 0, descriptors)
    sent, completed = await pace(environment, COUNT)
    dut._log.info(f"{writes=}: {sent:.2f} cycles per request, {completed:.2f} per completion")
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
