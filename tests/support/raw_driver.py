"""A driver in its shortest form: rings and registers of any Device, nothing in between.

Tests use it to say exactly what a NIC is told, including what a real driver would never say. It knows the
declared layouts and no behaviour: everything it reports comes from the device.
"""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

from amoeba_model.descriptors import (
    COMPLETION,
    EVENT,
    EVENT_COUNTER,
    RX_DESCRIPTOR,
    TX_DESCRIPTOR,
    CompletionFlags,
    DescriptorFlags,
    EventFlags,
    ReceiveOpcode,
)
from amoeba_model.device import Device
from amoeba_model.layout import Record
from amoeba_model.network import Network, SimulatedDevice
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import (
    DOORBELL_PAGE,
    DOORBELL_PAGE_SIZE,
    DOORBELL_REGISTERS,
    ContextControl,
    Counter,
    KeyFlags,
    PeerFlags,
    PlacedBlock,
    bar_blocks,
    key_slots,
)

__all__ = ["Buffer", "Pair", "RawContext", "RawNic", "connect"]

_DOORBELLS = {register.name: register.offset for register in DOORBELL_REGISTERS}
_PAGE = 4096
ALL_RIGHTS = KeyFlags.VALID | KeyFlags.REMOTE_READ | KeyFlags.REMOTE_WRITE | KeyFlags.VIRTUAL


class Buffer:
    """Page-aligned process memory, so that nothing else shares a page or a line with it."""

    def __init__(self, size: int, fill: int = 0) -> None:
        self._storage = ctypes.create_string_buffer(size + _PAGE)
        self.address = -(-ctypes.addressof(self._storage) // _PAGE) * _PAGE
        self.size = size
        ctypes.memset(self.address, fill, size)

    def __getitem__(self, where: slice) -> bytes:
        start, stop, step = where.indices(self.size)
        assert step == 1
        return ctypes.string_at(self.address + start, max(0, stop - start))

    def __setitem__(self, start: int, data: bytes) -> None:
        assert 0 <= start <= start + len(data) <= self.size
        ctypes.memmove(self.address + start, bytes(data), len(data))

    def integer(self, start: int, size: int = 8) -> int:
        return int.from_bytes(self[start : start + size], "little")


def _entry(ring: Buffer, layout: Record, head: int, size: int, phase: int) -> dict[str, int] | None:
    """The entry at ``head`` of a ring of 2**size entries, if the NIC has written it: its phase bit says so."""
    start = head % (1 << size) * layout.size
    entry = layout.unpack(ring[start : start + layout.size])
    first_lap = head >> size & 1 == 0
    return entry if bool(entry["flags"] & phase) == first_lap else None


@dataclass
class RawContext:
    """One endpoint context: its rings, and the driver's indices (modulo 2**16)."""

    nic: "RawNic"
    number: int
    job_id: int
    pid_on_fep: int
    transmit_size: int
    completion_size: int
    transmit: Buffer
    completions: Buffer
    event_size: int
    events: Buffer | None
    """The event ring, if there is one."""
    receive_size: int = 0
    receives: Buffer | None = None
    """The receive ring, if there is one."""
    slots: Buffer | None = None
    """The unexpected slots, if the context takes messages."""
    tail: int = 0
    head: int = 0
    event_head: int = 0
    receive_tail: int = 0

    def put(self, **fields: int) -> int:
        """Write a descriptor into the ring without ringing the doorbell; its index."""
        index = self.tail
        slot = index % (1 << self.transmit_size)
        self.transmit[slot * TX_DESCRIPTOR.size] = TX_DESCRIPTOR.pack(**fields)
        self.tail = (index + 1) & 0xFFFF
        return index

    def ring(self) -> None:
        self.doorbell("transmit_tail", self.tail)

    def post(self, **fields: int) -> int:
        """Write a descriptor that asks for a completion (unless ``flags`` is given), and ring the doorbell."""
        fields.setdefault("flags", DescriptorFlags.COMPLETION)
        index = self.put(**fields)
        self.ring()
        return index

    def doorbell(self, register: str, value: int) -> None:
        self.nic.device.write(DOORBELL_PAGE + self.number * DOORBELL_PAGE_SIZE + _DOORBELLS[register], value)

    def poll(self, *, release: bool = True) -> dict[str, int] | None:
        """The next completion, if it is there; ``release`` gives its entry back to the NIC."""
        entry = _entry(self.completions, COMPLETION, self.head, self.completion_size, CompletionFlags.PHASE)
        if entry is not None:
            self.head = (self.head + 1) & 0xFFFF
            if release:
                self.release()
        return entry

    def release(self) -> None:
        """Tell the NIC how far completions have been consumed."""
        self.doorbell("completion_head", self.head)

    def completion(self, steps: int = 2000) -> dict[str, int]:
        """The next completion; lets time pass until it is there, for at most ``steps`` steps."""
        return self._await(self.poll, "completion", steps)

    def poll_event(self, *, release: bool = True) -> dict[str, int] | None:
        """The next event, if it is there; ``release`` gives its entry back to the NIC."""
        assert self.events is not None
        entry = _entry(self.events, EVENT, self.event_head, self.event_size, EventFlags.PHASE)
        if entry is not None:
            self.event_head = (self.event_head + 1) & 0xFFFF
            if release:
                self.release_events()
        return entry

    def release_events(self) -> None:
        """Tell the NIC how far events have been consumed."""
        self.doorbell("event_head", self.event_head)

    def event(self, steps: int = 2000) -> dict[str, int]:
        """The next event; lets time pass until it is there, for at most ``steps`` steps."""
        return self._await(self.poll_event, "event", steps)

    def _await(self, poll: Callable[[], dict[str, int] | None], what: str, steps: int) -> dict[str, int]:
        for _ in range(steps):
            entry = poll()
            if entry is not None:
                return entry
            self.nic.device.advance()
        raise AssertionError(f"no {what} on context {self.number} of {self.nic.device.name} in {steps} steps")

    def put_receive(self, **fields: int) -> int:
        """Write a receive descriptor (a RECEIVE, unless ``opcode`` is given) without the doorbell; its index."""
        assert self.receives is not None
        fields.setdefault("opcode", ReceiveOpcode.RECEIVE)
        index = self.receive_tail
        slot = index % (1 << self.receive_size)
        self.receives[slot * RX_DESCRIPTOR.size] = RX_DESCRIPTOR.pack(**fields)
        self.receive_tail = (index + 1) & 0xFFFF
        return index

    def ring_receives(self) -> None:
        self.doorbell("receive_tail", self.receive_tail)

    def receive(self, **fields: int) -> int:
        """Write a receive descriptor, and ring the doorbell."""
        index = self.put_receive(**fields)
        self.ring_receives()
        return index

    def slot(self, number: int, size: int) -> bytes:
        """The first bytes of an unexpected slot."""
        assert self.slots is not None
        start = number * self.nic.parameters.payload
        return self.slots[start : start + size]

    def release_slot(self, number: int) -> None:
        """Tell the NIC that an unexpected slot is not needed any more."""
        self.doorbell("slot_release", number)

    def execute(self, **fields: int) -> dict[str, int]:
        """Post one descriptor and wait for its completion."""
        self.post(**fields)
        return self.completion()


class RawNic:
    """One device with its address, seen through registers."""

    def __init__(self, device: Device, mac: int, ip: int, parameters: NicParameters) -> None:
        self.device = device
        self.mac = mac
        self.ip = ip
        self.parameters = parameters
        self.blocks: dict[str, PlacedBlock] = {placed.block.name: placed for placed in bar_blocks(parameters)}
        self.set("device", mac_low=mac & 0xFFFF_FFFF, mac_high=mac >> 32, ip=ip)
        self._slots: dict[int, int] = {}
        self._event_counters: Buffer | None = None
        self.private = False
        """Rings are granted to their context alone."""
        self._granted: list[Buffer] = []
        """Kept alive, so that no other buffer comes to lie where the device still may access memory."""

    def get(self, block: str, register: str, index: int = 0) -> int:
        return self.device.read(self.blocks[block].address(register, index))

    def set(self, block: str, index: int = 0, **values: int) -> None:
        for register, value in values.items():
            self.device.write(self.blocks[block].address(register, index), value)

    def set_wide(self, block: str, index: int = 0, **values: int) -> None:
        """Write 64-bit values to pairs of registers."""
        for register, value in values.items():
            halves = {f"{register}_low": value & 0xFFFF_FFFF, f"{register}_high": value >> 32}
            self.set(block, index, **halves)

    def settle(self) -> None:
        """Let the register writes so far take effect: they are posted, and a read waits for them."""
        self.device.read(0)

    def counter(self, counter: Counter) -> int:
        return self.get("counters", "value", counter)

    def buffer(self, size: int, fill: int = 0, *, writable: bool = True, context: int | None = None) -> Buffer:
        """Memory that the device may access: one context, or all."""
        buffer = Buffer(size, fill)
        self.device.grant(buffer.address, size, writable=writable, context=context)
        self._granted.append(buffer)
        return buffer

    def context(
        self,
        number: int = 0,
        *,
        transmit_size: int = 4,
        completion_size: int = 4,
        event_size: int | None = None,
        receive_size: int | None = None,
        read_counter: int = 0,
        write_counter: int = 0,
        domain: int = 1,
        job_id: int = 0xABCDEF,
        pid_on_fep: int = 0x123,
        control: int = ContextControl.ENABLE,
        receiver: int | None = None,
    ) -> RawContext:
        """Set up and enable a context with fresh rings.

        ``event_size`` None: without an event ring; ``receive_size`` None: without receive ring and unexpected slots;
        ``receiver``: the context whose receives its messages meet, if not its own.
        """
        own = number if self.private else None
        transmit = self.buffer(TX_DESCRIPTOR.size << transmit_size, context=own)
        completions = self.buffer(COMPLETION.size << completion_size, context=own)
        events = None if event_size is None else self.buffer(EVENT.size << event_size, context=own)
        self.set("contexts", number, control=0)
        self.set_wide("contexts", number, event_base=0 if events is None else events.address)
        self.set("contexts", number, event_size=event_size or 0)
        receives = slots = None
        if receive_size is not None:
            receives = self.buffer(RX_DESCRIPTOR.size << receive_size, context=own)
            slots = self.buffer(self.parameters.unexpected * self.parameters.payload, context=own)
        self.set_wide(
            "contexts",
            number,
            receive_base=0 if receives is None else receives.address,
            unexpected_base=0 if slots is None else slots.address,
        )
        self.set(
            "contexts",
            number,
            receive_size=receive_size or 0,
            read_counter=read_counter,
            write_counter=write_counter,
            receive_context=receiver or 0,
        )
        self.set_wide("contexts", number, transmit_base=transmit.address, completion_base=completions.address)
        self.set(
            "contexts",
            number,
            transmit_size=transmit_size,
            completion_size=completion_size,
            domain=domain,
            job_id=job_id,
            pid_on_fep=pid_on_fep,
        )
        sharing = 0 if receiver is None else ContextControl.SHARES_RECEIVES
        self.set("contexts", number, control=control | sharing)
        return RawContext(
            self, number, job_id, pid_on_fep, transmit_size, completion_size, transmit, completions, event_size or 0,
            events, receive_size or 0, receives, slots,
        )  # fmt: skip

    def answer_memory(self) -> Buffer:
        """Memory for the target's long answers."""
        size = self.parameters.target_pdcs * self.parameters.window * self.parameters.payload
        answers = self.buffer(size)
        self.set_wide("device", answer_base=answers.address)
        return answers

    def counter_memory(self) -> Buffer:
        """Memory for the event counters."""
        self._event_counters = self.buffer(self.parameters.event_counters * EVENT_COUNTER.size)
        self.set_wide("device", counter_base=self._event_counters.address)
        return self._event_counters

    def event_counter(self, number: int) -> tuple[int, int]:
        """Successes and errors of an event counter, as host memory shows them."""
        assert self._event_counters is not None
        start = number * EVENT_COUNTER.size
        entry = EVENT_COUNTER.unpack(self._event_counters[start : start + EVENT_COUNTER.size])
        return entry["success"], entry["error"]

    def key(
        self,
        key: int,
        base: int,
        length: int,
        *,
        domain: int = 1,
        flags: int = ALL_RIGHTS,
        read_counter: int = 0,
        write_counter: int = 0,
    ) -> int:
        """Register a region under ``key`` in the first slot that no other key holds; the slot."""
        slot = next(slot for slot in key_slots(key, self.parameters.keys) if self._slots.get(slot, key) == key)
        self._slots[slot] = key
        self.set_wide("keys", key=key, base=base, length=length)
        self.set("keys", domain=domain, flags=flags, read_counter=read_counter, write_counter=write_counter)
        self.set("keys", store=slot)
        self.settle()
        return slot

    def withdraw(self, slot: int) -> None:
        """Take a key out of its slot, which is free again."""
        self.set("keys", flags=0)
        self.set("keys", store=slot)
        self.settle()
        del self._slots[slot]

    def peer(
        self,
        index: int,
        remote: RawContext,
        *,
        context: int = 0,
        initiator: int | None = None,
        initial_psn: int = 0x1000,
        entropy: int = 0xC000,
        flags: int = PeerFlags.VALID | PeerFlags.WHOLE_WINDOW,
    ) -> None:
        """Fill a peer table entry with the address of a context of another NIC; ``context`` is also the initiator."""
        self.set(
            "peers",
            mac_low=remote.nic.mac & 0xFFFF_FFFF,
            mac_high=remote.nic.mac >> 32,
            ip=remote.nic.ip,
            job_id=remote.job_id,
            pid_on_fep=remote.pid_on_fep,
            resource_index=remote.number,
            initial_psn=initial_psn,
            entropy=entropy,
            flags=flags,
            context=context,
            initiator=context if initiator is None else initiator,
        )
        self.set("peers", store=index)


@dataclass
class Pair:
    """Two NICs on one network, each with a context 0 that has the other's as peer 0."""

    network: Network
    initiator: RawNic
    target: RawNic
    local: RawContext
    remote: RawContext

    KEY = 0x1234_5678_9ABC_DEF0

    def memory(self, size: int = 4096, fill: int = 0, **options: int) -> Buffer:
        """Memory at the target that ``Pair.KEY`` opens; ``options`` are those of RawNic.key."""
        buffer = self.target.buffer(size, fill)
        self.target.key(self.KEY, buffer.address, size, **options)
        return buffer

    def run(self, steps: int = 200) -> None:
        """Let time pass."""
        for _ in range(steps):
            self.network.step()


def connect(
    make_initiator: Callable[[NicParameters], SimulatedDevice],
    make_target: Callable[[NicParameters], SimulatedDevice],
    parameters: NicParameters | None = None,
    latency: int = Network.DEFAULT_LATENCY,
    *,
    target_parameters: NicParameters | None = None,
) -> Pair:
    """Two devices on a network, with a context and a peer on each side that has an initiator.

    ``parameters`` are those of both, unless the target has its own.
    """
    parameters = parameters or NicParameters()
    network = Network(latency)
    nics = []
    builds = (parameters, target_parameters or parameters)
    for number, (make, build) in enumerate(zip((make_initiator, make_target), builds, strict=True), start=1):
        mac = 0x0200_0000_0000 | number
        device = make(build)
        network.attach(device, mac.to_bytes(6, "big"))
        nics.append(RawNic(device, mac, 0x0A00_0000 | number, build))
    initiator, target = nics
    local, remote = initiator.context(), target.context()
    initiator.peer(0, remote)
    if target.parameters.has_initiator:
        target.peer(0, local, initial_psn=0x2000)
    initiator.settle()
    target.settle()
    return Pair(network, initiator, target, local, remote)
