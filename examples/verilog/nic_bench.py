"""The NIC in a cocotb testbench: what testbench.cpp does, with buses of cocotbext-axi, in Verilator and in Icarus.

Names and numbers are those of the model that the hardware was made from; ``amoeba.h`` has the same for C, and
``amoeba_keys.vh`` for Verilog where keys lie.
"""

import cocotb
from amoeba_model.descriptors import COMPLETION, TX_DESCRIPTOR, CompletionFlags, DescriptorFlags, DescriptorOpcode
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import (
    ABI_VERSION,
    DOORBELL_PAGE,
    ContextControl,
    Counter,
    KeyFlags,
    PeerFlags,
    bar_blocks,
    key_slots,
)
from amoeba_model.wire.uet import ReturnCode
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, Timer
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiSlave, AxiStreamBus, AxiStreamSink, AxiStreamSource

HOST_BASE = 0x1000_0000
RING, COMPLETIONS, OPERAND, RESULT = (HOST_BASE + offset for offset in (0, 0x1000, 0x2000, 0x3000))
WORD = HOST_BASE + 0x4008
KEY = 0x1234_5678_9ABC_DEF0
OWN = {"mac_low": 1, "mac_high": 0x0200, "ip": 0x0A00_0001}
"""02:00:00:00:00:01, 10.0.0.1."""
IDENTITY = {"job_id": 0xABCDE, "pid_on_fep": 1}
BLOCKS = {placed.block.name: placed for placed in bar_blocks(NicParameters(contexts=1))}
"""Where registers are; the loop over the blocks in testbench.cpp finds the same."""


class Host:
    """Memory from HOST_BASE on, as AxiSlave asks for it."""

    def __init__(self):
        self.bytes = bytearray(0x1_0000)

    def get(self, address, length):
        return bytes(self.bytes[address - HOST_BASE : address - HOST_BASE + length])

    def put(self, address, data):
        self.bytes[address - HOST_BASE : address - HOST_BASE + len(data)] = data

    def word(self, address):
        return int.from_bytes(self.get(address, 8), "little")

    async def read(self, address, length):
        return self.get(address, length)

    async def write(self, address, data):
        self.put(address, data)


class Bench:
    """The NIC, its clock, host memory, and a link that leads back to the NIC."""

    def __init__(self, dut):
        self.dut = dut
        self.host = Host()
        self.frames = []
        self.bar = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "bar_"), dut.clk, dut.rst)
        AxiSlave(AxiBus.from_prefix(dut, "host_"), dut.clk, dut.rst, target=self.host)
        self.sent = AxiStreamSink(AxiStreamBus.from_prefix(dut, "tx_"), dut.clk, dut.rst)
        self.received = AxiStreamSource(AxiStreamBus.from_prefix(dut, "rx_"), dut.clk, dut.rst)

    async def power_up(self):
        await Timer(1, "ns")  # The models drive every input now, before the first edge of the clock.
        cocotb.start_soon(Clock(self.dut.clk, 4, unit="ns").start())
        await ClockCycles(self.dut.clk, 4)
        self.dut.rst.value = 0
        cocotb.start_soon(self._loop())

    async def _loop(self):
        while True:
            frame = bytes((await self.sent.recv()).tdata)
            self.dut._log.info("frame of %d bytes: %s", len(frame), frame.hex(" "))
            self.frames.append(frame)
            self.received.send_nowait(frame)

    async def read(self, block, register, index=0):
        return await self.bar.read_dword(BLOCKS[block].address(register, index))

    async def write(self, block, **values):
        for register, value in values.items():
            await self.bar.write_dword(BLOCKS[block].address(register), value)

    async def open_context(self):
        await self.write("device", **OWN)
        await self.write(
            "contexts", transmit_base_low=RING, transmit_size=4, completion_base_low=COMPLETIONS, completion_size=4,
            domain=1, **IDENTITY, control=ContextControl.ENABLE,
        )  # fmt: skip

    async def register_word(self):
        """Let peers read and write the eight bytes at WORD by KEY."""
        slots = key_slots(KEY, await self.read("device", "keys"))
        await self.write(
            "keys", key_low=KEY & 0xFFFF_FFFF, key_high=KEY >> 32, base_low=WORD, length_low=8, domain=1,
            flags=KeyFlags.VALID | KeyFlags.REMOTE_READ | KeyFlags.REMOTE_WRITE | KeyFlags.VIRTUAL, store=next(slots),
        )  # fmt: skip

    async def add_peer(self):
        """Peer 0 is the NIC itself."""
        await self.write(
            "peers", **OWN, **IDENTITY, initial_psn=0x1000, entropy=0xC000, flags=PeerFlags.VALID, store=0
        )

    async def post_fetch_add(self, operand, context):
        self.host.put(OPERAND, operand.to_bytes(8, "little"))
        descriptor = TX_DESCRIPTOR.pack(
            opcode=DescriptorOpcode.FETCH_ATOMIC, op=Op.FI_SUM, datatype=Datatype.FI_UINT64,
            flags=DescriptorFlags.COMPLETION, length=8, remote_address=WORD, remote_key=KEY, local=OPERAND,
            result=RESULT, context=context,
        )  # fmt: skip
        self.host.put(RING, descriptor)
        await self.bar.write_dword(DOORBELL_PAGE, 1)  # the transmit ring's tail

    async def completion(self):
        """Return the first entry of the completion ring, once the NIC has turned its phase bit."""
        while True:
            entry = COMPLETION.unpack(self.host.get(COMPLETIONS, COMPLETION.size))
            if entry["flags"] & CompletionFlags.PHASE:
                return entry
            await ClockCycles(self.dut.clk, 1)


@cocotb.test(timeout_time=40, timeout_unit="us")
async def a_fetch_add_is_executed(dut):
    dut.clk.value = 0
    dut.rst.value = 1
    await Timer(1, "ns")
    bench = Bench(dut)
    await bench.power_up()
    assert await bench.read("device", "abi_version") == ABI_VERSION
    assert await bench.read("device", "data_width") == len(dut.tx__tdata)
    await bench.open_context()
    await bench.register_word()
    await bench.add_peer()

    before, operand, context = 0x8000_0000_0000_0003, 5, 0xC0FFEE
    bench.host.put(WORD, before.to_bytes(8, "little"))
    await bench.post_fetch_add(operand, context)
    entry = await bench.completion()
    assert (entry["opcode"], entry["status"]) == (DescriptorOpcode.FETCH_ATOMIC, ReturnCode.OK)
    assert (entry["context"], entry["length"]) == (context, 8)
    assert bench.host.word(RESULT) == before
    assert bench.host.word(WORD) == before + operand
    request, answer = bench.frames
    assert request[:14] == answer[:14] == bytes.fromhex("020000000001 020000000001 0800")
    assert await bench.read("counters", "value", Counter.REQUESTS_SENT) == 1
    assert await bench.read("counters", "value", Counter.REQUESTS_RECEIVED) == 1
