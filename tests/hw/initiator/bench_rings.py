"""Testbench of the whole initiator: rings, contexts, interrupts and reset. Parameters: ``data_width``, ``window``."""

import random

import cocotb
from amoeba_model.descriptors import TX_DESCRIPTOR, DescriptorFlags, DescriptorOpcode
from amoeba_model.wire.uet import ReturnCode
from amoeba_sim.cocotb_streams import reset
from cocotb.triggers import ClockCycles

from tests.hw.initiator.programs import random_program
from tests.hw.initiator.setup import OK, PACES, RESULTS, RINGS, nop, peer, registers, started


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_full_completion_ring_stops_its_context_and_no_other(dut):
    environment = await started(dut)
    environment.consumes = False
    entries = 8
    environment.set_context(0, **registers(0, transmit_size=6))
    environment.memory.grant(RINGS, 64 << 6)
    environment.post(0, 0, [nop(context=i) for i in range(20)])
    await environment.completed(entries)
    await ClockCycles(dut.clk, 200)
    assert len(environment.completions) == entries
    environment.post(1, 0, [nop(context=100)])
    await environment.completed(entries + 1)
    environment.heads.send({"context": 0, "index": 3})
    await environment.completed(entries + 4)
    await ClockCycles(dut.clk, 200)
    assert len(environment.completions) == entries + 4
    environment.heads.send({"context": 0, "index": 8})
    await environment.completed(8 + entries + 1)
    environment.heads.send({"context": 0, "index": 12})
    await environment.completed(21)
    assert [entry["context"] for number, _, entry in environment.completions if number == 0] == list(range(20))


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_refused_descriptor_read_is_an_error_completion_and_the_ring_goes_on(dut):
    environment = await started(dut)
    base = 0x7_0000_0000
    environment.memory.grant(base + 64, 64)
    environment.set_context(2, **registers(2, transmit_base=base, transmit_size=1))
    tail = environment.post(2, 0, [nop(context=7)])
    await environment.completed(1)
    environment.post(2, tail, [nop(context=8)])
    await environment.completed(2)
    first, second = (entry for _, _, entry in environment.completions)
    assert (first["status"], first["context"], first["descriptor"]) == (ReturnCode.LOCAL_DMA_FAULT, 0, 0)
    assert (second["status"], second["context"], second["descriptor"]) == (OK, 8, 1)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def an_armed_context_interrupts_once_after_the_completion(dut):
    environment = await started(dut)
    tail = environment.post(1, 0, [nop()])
    await environment.completed(1)
    environment.arms.send({"context": 1, "index": 2})
    await ClockCycles(dut.clk, 50)
    assert environment.interrupts == []
    tail = environment.post(1, tail, [nop(), nop(), nop()])
    await environment.completed(4)
    await ClockCycles(dut.clk, 50)
    ((_, vectors, completions),) = environment.interrupts
    assert vectors == 0b010
    assert completions >= 3
    environment.arms.send({"context": 1, "index": 3})
    await ClockCycles(dut.clk, 10)
    assert [vectors for _, vectors, _ in environment.interrupts] == [0b010, 0b010]


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_context_enabled_anew_begins_at_zero_and_its_past_is_not_completed(dut):
    environment = await started(dut, wire_latency=300)
    environment.store_peer(0, **peer(0, 0, initial_psn=0))
    await environment.peer_stores.sent()

    def read(context):
        return TX_DESCRIPTOR.pack(
            opcode=DescriptorOpcode.READ,
            flags=DescriptorFlags.COMPLETION,
            length=64,
            peer=0,
            result=RESULTS + 0x100 * context,
            context=context,
        )

    environment.post(0, 0, [read(1), read(2)])
    await ClockCycles(dut.clk, 150)
    assert len(environment.frames) == 2
    environment.set_context(0, **registers(0, enable=0))
    await ClockCycles(dut.clk, 2)
    environment.set_context(0, **registers(0))
    await ClockCycles(dut.clk, 2)
    environment.post(0, 0, [read(3)])
    await environment.completed(1)
    await ClockCycles(dut.clk, 300)
    ((number, index, entry),) = environment.completions
    assert (number, index, entry["context"], entry["descriptor"], entry["flags"]) == (0, 0, 3, 0, 0x80)
    assert environment.memory.peek(RESULTS + 0x100, 0x180) == bytes(0x180)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def after_a_reset_in_mid_traffic_everything_begins_anew(dut):
    environment = await started(dut, pace=PACES["randomly"])
    for _ in range(6):
        environment.store_peer(0, **peer(0, 0))
        await environment.peer_stores.sent()
        environment.post(0, 0, random_program(0, 8))
        await ClockCycles(dut.clk, random.randint(1, 250))
        await reset(dut)
        environment.forget()
    read = TX_DESCRIPTOR.pack(
        opcode=DescriptorOpcode.READ, flags=DescriptorFlags.COMPLETION, length=600, peer=0, result=RESULTS
    )
    environment.post(0, 0, [read])
    await environment.completed(1)
    environment.store_peer(0, **peer(0, 0))
    await environment.peer_stores.sent()
    environment.post(0, 1, [read])
    await environment.completed(2)
    assert [entry["status"] for _, _, entry in environment.completions] == [ReturnCode.LOCAL_BAD_PEER, OK]
    assert [header["psn"] for header, _ in environment.frames] == [0xFFFF_FFFE, 0xFFFF_FFFF, 0]
