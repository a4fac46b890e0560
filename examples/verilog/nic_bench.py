"""The NIC in a cocotb testbench: testbench.cpp's program, with cocotbext-axi's buses. `make cocotb` runs it.

Names and numbers are those of the model that the hardware was made from; ``amoeba.h`` has the same for C.
"""

import cocotb
from amoeba_model.descriptors import TX_DESCRIPTOR, DescriptorFlags, DescriptorOpcode
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import ABI_VERSION, DOORBELL_PAGE, ContextControl, Counter, PeerFlags, bar_blocks
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiSlave, AxiStreamBus, AxiStreamSink

HOST_BASE = 0x1000_0000
RING, COMPLETIONS, SOURCE = HOST_BASE, HOST_BASE + 0x1000, HOST_BASE + 0x2000
BLOCKS = {placed.block.name: placed for placed in bar_blocks(NicParameters(contexts=1))}
"""Places of registers; testbench.cpp finds them by following the blocks."""


class Host:
    """Memory from HOST_BASE on, as AxiSlave asks for it; remembers what was read."""

    def __init__(self):
        self.bytes = bytearray(0x1_0000)
        self.reads = []

    def put(self, address, data):
        self.bytes[address - HOST_BASE : address - HOST_BASE + len(data)] = data

    async def read(self, address, length):
        self.reads.append(address)
        return bytes(self.bytes[address - HOST_BASE : address - HOST_BASE + length])

    async def write(self, address, data):
        self.put(address, data)


@cocotb.test(timeout_time=40, timeout_unit="us")
async def a_doorbell_becomes_a_frame(dut):
    cocotb.start_soon(Clock(dut.clk, 4, unit="ns").start())
    registers = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "bar_"), dut.clk, dut.rst)
    host = Host()
    AxiSlave(AxiBus.from_prefix(dut, "host_"), dut.clk, dut.rst, target=host)
    link = AxiStreamSink(AxiStreamBus.from_prefix(dut, "tx_"), dut.clk, dut.rst)
    dut.rst.value = 1
    dut.rx__tvalid.value = 0
    await ClockCycles(dut.clk, 4)
    dut.rst.value = 0

    async def read(block, register, index=0):
        return await registers.read_dword(BLOCKS[block].address(register, index))

    async def write(block, **values):
        for register, value in values.items():
            await registers.write_dword(BLOCKS[block].address(register), value)

    assert await read("device", "abi_version") == ABI_VERSION
    assert await read("device", "data_width") == len(dut.tx__tdata)
    await write("device", mac_low=1, mac_high=0x0200, ip=0x0A00_0001)
    await write(
        "contexts", transmit_base_low=RING, transmit_size=4, completion_base_low=COMPLETIONS, completion_size=4,
        domain=1, job_id=0xABCDE, pid_on_fep=1, control=ContextControl.ENABLE,
    )  # fmt: skip
    await write(
        "peers", mac_low=2, mac_high=0x0200, ip=0x0A00_0002, job_id=0xABCDE, pid_on_fep=1, initial_psn=0x1000,
        entropy=0xC000, flags=PeerFlags.VALID, store=0,
    )  # fmt: skip

    text = b"Hello from a little cocotb bench"
    descriptor = TX_DESCRIPTOR.pack(
        opcode=DescriptorOpcode.WRITE, flags=DescriptorFlags.COMPLETION, length=len(text), remote_key=0x1234,
        local=SOURCE,
    )  # fmt: skip
    host.put(RING, descriptor)
    host.put(SOURCE, text)
    await registers.write_dword(DOORBELL_PAGE, 1)  # the transmit ring's tail

    frame = bytes((await link.recv()).tdata)
    dut._log.info("frame of %d bytes: %s", len(frame), frame.hex(" "))
    assert sorted({address & ~0x3F for address in host.reads}) == [RING, SOURCE]
    assert frame[:14] == bytes.fromhex("020000000002 020000000001 0800")
    assert text in frame
    assert await read("counters", "value", Counter.REQUESTS_SENT) == 1
