"""Testbench of a whole memory node at its PHY: ARP and ping by Scapy, RDMA by the driver of a model NIC.

Parameters: ``mac``, ``ip`` and ``key`` of the node, and ``name``, that of its endpoint.
"""

import random
import zlib
from collections import deque

import cocotb
import numpy as np
from amoeba import Datatype, Op
from amoeba.libfabric.objects.fabric import Fabric
from amoeba_model.network import Network
from amoeba_model.nic.device import ModelDevice
from amoeba_model.parameters import BUILDS
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import reader
from cocotb.clock import Clock
from cocotb.task import bridge, resume
from cocotb.triggers import ClockCycles, RisingEdge
from scapy.layers.inet import ICMP, IP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw

from tests.support.scripted import ScriptedDevice

SETTINGS = bench_parameters()
MAC, ADDRESS, KEY = bytes.fromhex(SETTINGS["mac"]), SETTINGS["ip"], SETTINGS["key"]
HOST_MAC, HOST_IP = bytes.fromhex("020000000001"), 0x0A00_0001
NIC_PERIOD, BYTE_PERIOD = 40, 8
"""Nanoseconds."""
PREAMBLE = b"\x55" * 7 + b"\xd5"


class Phy:
    """Bytes to and from a node, a byte each 8 ns."""

    def __init__(self, dut):
        self.dut = dut
        self.queue = deque()
        """Bytes and None for silence."""
        self.frames = deque()
        """Frames that came, without preamble and FCS."""

    async def start(self):
        dut = self.dut
        Clock(dut.clk, NIC_PERIOD, unit="ns", impl="gpi").start()
        for name in ("transmit", "receive"):
            Clock(getattr(dut, f"{name}_clk"), BYTE_PERIOD, unit="ns", impl="gpi").start()
        dut.rst.value = 1
        dut.rx_data.value = dut.rx_enable.value = dut.rx_error.value = 0
        await ClockCycles(dut.clk, 4)
        dut.rst.value = 0
        cocotb.start_soon(self._send())
        cocotb.start_soon(self._take())

    def send(self, frame, *, damage=0):
        frame = frame.ljust(60, b"\0")
        self.queue.extend(PREAMBLE + frame + (zlib.crc32(frame) ^ damage).to_bytes(4, "little"))
        self.queue.extend([None] * 12)

    async def _send(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.receive_clk)
            byte = self.queue.popleft() if self.queue else None
            dut.rx_enable.value = byte is not None
            dut.rx_data.value = byte or 0

    async def _take(self):
        dut = self.dut
        enable, data = reader(dut.tx_enable), reader(dut.tx_data)
        content = bytearray()
        while True:
            await RisingEdge(dut.transmit_clk)
            if enable():
                content.append(data())
            elif content:
                head, frame, fcs = bytes(content[:8]), bytes(content[8:-4]), bytes(content[-4:])
                assert head == PREAMBLE
                assert fcs == zlib.crc32(frame).to_bytes(4, "little")
                assert len(frame) >= 60
                self.frames.append(frame)
                content.clear()

    async def answer(self, cycles=3000):
        """Return the next frame; None if none comes within this many cycles of the NIC."""
        for _ in range(cycles // 20):
            if self.frames:
                return self.frames.popleft()
            await ClockCycles(self.dut.clk, 20)
        return None


class Board(ScriptedDevice):
    """The node on the network of a model NIC: its time is the simulator's. A cycle is one of the node's NIC."""

    def __init__(self, phy):
        super().__init__("node at its PHY")
        self._phy = phy

    def run_until(self, cycle):
        waits = cycle - self._now
        if waits > 0:
            resume(self._run)(waits)
        super().run_until(cycle)
        while self._phy.frames:
            self.send(self._phy.frames.popleft())

    async def _run(self, cycles):
        await ClockCycles(self._phy.dut.clk, cycles)

    def deliver(self, frame, cycle):
        self._phy.send(frame)


async def in_service(phy):
    for _ in range(100):
        await ClockCycles(phy.dut.clk, 50)
        assert not int(phy.dut.failed.value)
        if int(phy.dut.done.value):
            return
    raise AssertionError("the boot list does not end")


def request(number):
    return Ether(dst=MAC.hex(":"), src=HOST_MAC.hex(":")) / IP(src="10.0.0.1", dst=ADDRESS) / ICMP(seq=number)


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def a_node_answers_arp_and_ping_once_its_boot_list_is_played(dut):
    phy = Phy(dut)
    await phy.start()
    question = Ether(dst="ff:ff:ff:ff:ff:ff", src=HOST_MAC.hex(":")) / ARP(
        hwsrc=HOST_MAC.hex(":"), psrc="10.0.0.1", pdst=ADDRESS
    )
    phy.send(bytes(question))
    assert await phy.answer(60) is None
    await in_service(phy)
    phy.send(bytes(question))
    told = Ether(await phy.answer())
    assert (told.dst, told[ARP].op, told[ARP].hwsrc, told[ARP].psrc) == (HOST_MAC.hex(":"), 2, MAC.hex(":"), ADDRESS)
    await ClockCycles(dut.clk, 4200)  # a node answers once in 4,096 cycles
    phy.send(bytes(request(0)), damage=1)
    assert await phy.answer(600) is None
    phy.send(bytes(request(1) / Raw(bytes(range(200)))))
    told = Ether(await phy.answer())
    assert (told[IP].src, told[ICMP].type, told[ICMP].seq, bytes(told[Raw])) == (ADDRESS, 0, 1, bytes(range(200)))


@cocotb.test(timeout_time=100, timeout_unit="ms")
async def a_model_nic_writes_reads_and_updates_the_memory_of_the_node(dut):
    phy = Phy(dut)
    await phy.start()
    await in_service(phy)
    await bridge(use_memory)(phy)


def use_memory(phy):
    """Write four packets, add, compare and swap, and read all back; a key that is not the node's is refused."""
    host, board = ModelDevice(BUILDS["tiny"]), Board(phy)
    with Fabric([host], "model") as fabric:
        network = Network()
        network.attach(host, HOST_MAC)
        network.attach(board, MAC)
        fabric.nics[0].set_address(HOST_MAC, HOST_IP)
        domain = fabric.domain(0)
        with domain.cq_open() as queue, domain.av_open() as peers, domain.endpoint(cq=queue, av=peers) as endpoint:
            peer = peers.insert(bytes.fromhex(SETTINGS["name"]))
            content = bytearray(random.randbytes(4000))
            endpoint.write(content, peer, 100, KEY)
            queue.sread(1)
            words = np.frombuffer(content, np.uint64, count=2, offset=4)  # the region's from 104 on
            one, old = np.ones(1, np.uint64), np.zeros(1, np.uint64)
            endpoint.fetch_atomic(one, old, peer, 104, KEY, Op.FI_SUM, Datatype.FI_UINT64)
            queue.sread(1)
            assert old[0] == words[0]
            words[0] += one[0]
            endpoint.compare_atomic(one, words[1:2].copy(), old, peer, 112, KEY, Op.FI_CSWAP, Datatype.FI_UINT64)
            queue.sread(1)
            assert old[0] == words[1]
            words[1] = 1
            found = bytearray(4000)
            endpoint.read(found, peer, 100, KEY)
            queue.sread(1)
            assert found == content
            endpoint.write(bytes(8), peer, 0, KEY + 1)
            try:
                queue.sread(1)
            except Exception:
                queue.readerr()
            else:
                raise AssertionError("a wrong key was accepted")
        domain.close()
