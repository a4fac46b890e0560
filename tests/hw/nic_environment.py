"""The surroundings of the whole NIC in its bench: buses, a driver in its shortest form, and a peer on the link.

Nothing here comes from the model but the declared places of the registers: descriptors, completions and frames
are typed by hand.
"""

import struct
from functools import partial

import cocotb
from amoeba_model.registers import Counter, PeerFlags, bar_blocks, key_slots
from amoeba_sim.cocotb_streams import reset, start
from cocotb.triggers import ClockCycles, RisingEdge, SimTimeoutError, with_timeout
from cocotbext.axi import AxiResp

from tests.hw.bus_models import HostMemory, frame_sink, frame_source, host_port, register_port
from tests.hw.uet_frames import OWN_IP, OWN_MAC, frame

__all__ = [
    "BASE",
    "CLOSED",
    "KEY",
    "LOCAL",
    "PEERS",
    "REGION",
    "SIZE",
    "SLOTS",
    "NicBench",
    "Stranger",
    "descriptor",
    "nic_frame",
    "receive_descriptor",
]

BASE, SIZE = 0x7FFF_FFFF_0000, 0x1_0000
"""Host memory: across 2**47, so that no address bit is always the same."""
_TRANSMIT, _COMPLETIONS = BASE, BASE + 0x2000
"""The rings of context c begin c * 0x1000 later."""
_EVENT_FIELDS = (
    *("context", "data", "tag", "address"),
    *("length", "ip", "source", "pdc", "slot"),
    *("kind", "status", "flags"),
)
_EVENTS, _RECEIVES, _COUNTERS, SLOTS = BASE + 0x4000, BASE + 0x5000, BASE + 0x6000, BASE + 0x7000
"""Registers of context 0 alone, and the event counters."""
LOCAL = range(BASE + 0x8000, BASE + 0xC000)
"""Buffers of the driver."""
REGION = range(BASE + 0xC123, BASE + 0xC123 + 0x1457)
"""The region of :data:`KEY`: neither its ends nor its length are aligned."""
CLOSED = range(BASE + 0xF000, BASE + SIZE)
"""A page that the host refuses."""
KEY = 0xFEDC_BA98_7654_3210
RING_BITS = 4
JOB_ID, PID_ON_FEP = 0xABCDE0, 0x120
"""Of context 0; context c has c more."""
VALID, READ, WRITE, VIRTUAL = 1, 2, 4, 8
PEERS = 4
nic_frame = partial(frame, peers=PEERS)
"""The frame of a header that the NIC of the bench receives or sends."""


def descriptor(opcode, **fields):
    """The 64 bytes of a transmit descriptor."""
    small = ("op", "datatype", "flags", "length", "peer", "counter")
    wide = ("remote", "key", "local", "result", "compare", "context")
    values = dict.fromkeys((*small, *wide), 0) | {"flags": 1} | fields
    assert len(values) == len(small) + len(wide), f"unknown among {sorted(fields)}"
    head = struct.pack("<BBBBIHBBI", opcode, *(values[name] for name in small), 0, 0)
    return head + struct.pack("<6Q", *(values[name] for name in wide))


def receive_descriptor(opcode, **fields):
    """The 64 bytes of a receive descriptor."""
    names = ("flags", "counter", "length", "tag", "ignore", "address", "context")
    values = dict.fromkeys(names, 0) | fields
    assert len(values) == len(names), f"unknown among {sorted(fields)}"
    return struct.pack("<BBBxI4Q24x", opcode, *(values[name] for name in names))


class NicBench:
    """The NIC with its buses, and a driver."""

    def __init__(self, dut, parameters, pace):
        self.dut = dut
        self.parameters = parameters
        self.memory = HostMemory(SIZE, BASE)
        self.memory.granted = [range(BASE, CLOSED.start)]
        self.host, self.host_rules = host_port(dut, "host_", self.memory, pace)
        self.registers, self.register_rules = register_port(dut, "bar_", pace)
        self.rx = frame_source(dut, "rx_", pace)
        self.tx, self.tx_rules = frame_sink(dut, "tx_", pace)
        self.interrupts = [0] * parameters.contexts
        self._blocks = {placed.block.name: placed for placed in bar_blocks(parameters)}
        self.forget()
        cocotb.start_soon(self._count_interrupts())

    def forget(self):
        """After a reset: the driver's indices begin anew."""
        self._tails, self._heads = [0] * self.parameters.contexts, [0] * self.parameters.contexts
        self._receives = self._events = 0

    async def _count_interrupts(self):
        while True:
            await RisingEdge(self.dut.clk)
            irq = int(self.dut.irq.value)
            if irq:
                self.interrupts = [count + (irq >> number & 1) for number, count in enumerate(self.interrupts)]

    # Registers

    async def write(self, address, value):
        response = await self.registers.write(address, value.to_bytes(4, "little"))
        assert response.resp is AxiResp.OKAY

    async def set(self, block, index=0, **values):
        for register, value in values.items():
            await self.write(self._blocks[block].address(register, index), value)

    async def set_wide(self, block, index=0, **values):
        for register, value in values.items():
            await self.set(block, index, **{f"{register}_low": value & 0xFFFF_FFFF, f"{register}_high": value >> 32})

    async def counters(self):
        """All counters that are not 0, by name."""
        counts = {}
        for counter in Counter:
            response = await self.registers.read(self._blocks["counters"].address("value", counter), 4)
            if any(response.data):
                counts[counter.name.lower()] = int.from_bytes(response.data, "little")
        return counts

    # Driver

    async def power_up(self):
        await start(self.dut)
        await self.configure()

    async def restart(self):
        """Reset; what was on its way on the link is lost."""
        self.rx.clear()
        await reset(self.dut)
        self.tx.clear()
        self.forget()
        await self.configure()

    async def configure(self):
        """Own address, all contexts with fresh rings, and the region."""
        self.memory[BASE] = bytes(LOCAL.start - BASE)
        await self.set_wide("device", mac=OWN_MAC)
        await self.set("device", ip=OWN_IP)
        await self.set_wide("device", counter_base=_COUNTERS)
        await self.set_wide("contexts", event_base=_EVENTS, receive_base=_RECEIVES, unexpected_base=SLOTS)
        await self.set("contexts", event_size=RING_BITS, receive_size=RING_BITS)
        for context in range(self.parameters.contexts):
            await self.set_wide(
                "contexts",
                context,
                transmit_base=_TRANSMIT + 0x1000 * context,
                completion_base=_COMPLETIONS + 0x1000 * context,
            )
            await self.set(
                "contexts",
                context,
                transmit_size=RING_BITS,
                completion_size=RING_BITS,
                domain=7,
                job_id=JOB_ID + context,
                pid_on_fep=PID_ON_FEP + context,
                control=1,
            )
        await self.store_key(KEY, REGION.start, len(REGION), READ | WRITE | VIRTUAL)

    async def store_key(self, key, base, length, flags, domain=7, probe=0):
        """``probe``: which of its possible slots the key takes."""
        await self.set_wide("keys", key=key, base=base, length=length)
        await self.set("keys", domain=domain, flags=flags | VALID)
        await self.set("keys", store=list(key_slots(key, self.parameters.keys))[probe])

    async def store_peer(self, index, mac, ip, initial_psn, context=0, remote_context=0, entropy=0xC0DE):
        await self.set_wide("peers", mac=mac)
        await self.set(
            "peers",
            ip=ip,
            job_id=JOB_ID + remote_context,
            pid_on_fep=PID_ON_FEP + remote_context,
            resource_index=remote_context,
            initial_psn=initial_psn,
            entropy=entropy,
            flags=PeerFlags.VALID | PeerFlags.WHOLE_WINDOW,
            context=context,
            initiator=context,
        )
        await self.set("peers", store=index)

    async def post(self, *descriptors, context=0):
        """Put descriptors into the ring and ring the doorbell."""
        for content in descriptors:
            slot = self._tails[context] % (1 << RING_BITS)
            self.memory[_TRANSMIT + 0x1000 * context + 64 * slot] = content
            self._tails[context] = (self._tails[context] + 1) & 0xFFFF
        await self.write(0x2_0000 + 0x1000 * context, self._tails[context])

    async def completion(self, context=0):
        """The next completion: (context word, length, descriptor index, opcode, status)."""
        head = self._heads[context]
        address = _COMPLETIONS + 0x1000 * context + 32 * (head % (1 << RING_BITS))
        phase = 0x80 if head >> RING_BITS & 1 == 0 else 0
        while self.memory[address + 31 : address + 32][0] != phase:
            await RisingEdge(self.dut.clk)
        word, immediate, length, index, opcode, status, zero, zero2, flags = struct.unpack(
            "<QQIHBBIHxB", self.memory[address : address + 32]
        )
        assert (immediate, zero, zero2, flags) == (0, 0, 0, phase)
        self._heads[context] = (head + 1) & 0xFFFF
        await self.write(0x2_0004 + 0x1000 * context, self._heads[context])
        return word, length, index, opcode, status

    async def receive_into(self, *descriptors):
        """Put receive descriptors into the ring of context 0 and ring the doorbell."""
        for content in descriptors:
            self.memory[_RECEIVES + 64 * (self._receives % (1 << RING_BITS))] = content
            self._receives = (self._receives + 1) & 0xFFFF
        await self.write(0x2_0014, self._receives)

    async def event(self):
        """The next event of context 0, by its fields but zeros and the phase."""
        address = _EVENTS + 64 * (self._events % (1 << RING_BITS))
        phase = 0x80 if self._events >> RING_BITS & 1 == 0 else 0
        while self.memory[address + 63 : address + 64][0] & 0x80 != phase:
            await RisingEdge(self.dut.clk)
        values = struct.unpack("<4QIIIHH13xBBB", self.memory[address : address + 64])
        fields = dict(zip(_EVENT_FIELDS, values, strict=True))
        fields["flags"] &= 0x7F
        self._events = (self._events + 1) & 0xFFFF
        await self.write(0x2_000C, self._events)
        return {name: value for name, value in fields.items() if value}

    def event_counter(self, number):
        """Successes and errors, as they are in memory."""
        return struct.unpack("<QQ", self.memory[_COUNTERS + 16 * number : _COUNTERS + 16 * (number + 1)])

    # Link

    def send(self, content):
        self.rx.send_nowait(content)

    async def receive(self):
        """The next frame from the NIC; fails if none comes for 20 microseconds."""
        try:
            received = await with_timeout(self.tx.recv(compact=False), 20, "us")
        except SimTimeoutError:
            raise AssertionError(f"no frame; the NIC counted {await self.counters()}") from None
        # Bytes are packed: only the last beat may be partial.
        assert all(received.tkeep[: len(bytes(received.tdata).rstrip(b"\0"))])
        received.compact()
        return bytes(received.tdata)

    async def watchdog(self, cycles=300):
        """Nothing is sent for a while."""
        await ClockCycles(self.dut.clk, cycles)
        assert self.tx.empty(), f"unexpected frame {bytes(self.tx.recv_nowait().tdata).hex()}"


class Stranger:
    """Someone on the link with one PDC to the NIC; it is the NIC's ``pdc``-th."""

    def __init__(self, bench, number, pdc):
        self.bench = bench
        self.mac, self.ip = 0x02_00_00_00_01_00 + number, 0x0A_00_01_00 + number
        self.spdcid, self.pdc = 0x55 + number, pdc
        self.first_psn = self.psn = 0xFFFF_FFF0 + number
        """So near to its end that the numbers wrap."""

    def _ends(self):
        return {"mac": self.mac, "ip": self.ip, "port": 0xC000 + self.spdcid}

    def request(self, opcode, **fields):
        """A request's header, with the next psn; good unless ``fields`` make it bad."""
        header = {
            **self._ends(),
            "is_request": 1,
            "psn": self.psn & 0xFFFF_FFFF,
            "clear_psn_offset": 0xFFFF,
            "syn": 1,
            "spdcid": self.spdcid,
            "dpdcid": self.psn - self.first_psn,
            "opcode": opcode,
            "version": 0,
            "flags": 3,
            "message_id": self.psn & 0xFFFF,
            "job_id": JOB_ID,
            "pid_on_fep": PID_ON_FEP,
            "resource_index": 0,
            "buffer_offset": REGION.start,
            "initiator": 1,
            "memory_key": KEY,
            "header_data": 0,
            "request_length": 8,
            "atomic_opcode": 2,
            "atomic_datatype": 7,
            "semantic_control": 0,
            **fields,
        }
        self.psn += 1
        return header

    def send(self, header, payload=b"", **overrides):
        self.bench.send(nic_frame(header, payload, received=True, **overrides))

    def answer(self, header, code, data=b""):
        """The frame that must answer a request."""
        fields = {
            **self._ends(),
            "is_request": 0,
            # All before the packet's clear_psn, which is the psn before its own, has been answered.
            "cack_psn": header["psn"],
            "psn": header["psn"],
            "spdcid": self.pdc,
            "dpdcid": self.spdcid,
            "opcode": 2 if data else 1,
            "return_code": code,
            "message_id": header["message_id"],
            "job_id": header["job_id"],
            "modified_length": header["request_length"] if code == 1 else 0,
        }
        return nic_frame(fields, data, received=False)

    def nack(self, header, code, psn, pdc, **more):
        """The frame that must refuse a packet."""
        fields = {
            **{name: header[name] for name in ("mac", "ip", "port")},
            "is_control": 1,
            "nack_code": code,
            "psn": psn & 0xFFFF_FFFF,
            "spdcid": pdc,
            "dpdcid": header["spdcid"],
            **more,
        }
        return nic_frame(fields, b"", received=False)
