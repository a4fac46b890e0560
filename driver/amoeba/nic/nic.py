"""The NIC below the fabric objects: what its register blocks say, and who uses which entry of its tables.

Nothing here knows libfabric's calls; everything here is one register write or the choice of a free entry.
"""

import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass

from amoeba_model.descriptors import EVENT_COUNTER
from amoeba_model.device import Device
from amoeba_model.layout import RegisterBlock
from amoeba_model.opcodes import Datatype, Form, Op
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import (
    ABI_VERSION,
    BAR_SIZE,
    DOORBELL_PAGE,
    DOORBELL_PAGE_SIZE,
    DOORBELL_REGISTERS,
    RETRANSMIT_LIMIT,
    RETRANSMIT_TIMEOUT,
    ContextControl,
    Counter,
    KeyFlags,
    PeerFlags,
    PlacedBlock,
    bar_blocks,
)

from amoeba.core.buffers import address_of, allocate
from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.nic.address import EndpointAddress
from amoeba.nic.dma import DmaMap
from amoeba.nic.key_slots import KeySlots
from amoeba.nic.records import record_struct

__all__ = ["ContextSettings", "Nic", "Retransmission"]

_DOMAINS = 256


_COUNTER = record_struct(EVENT_COUNTER)


@dataclass(frozen=True)
class ContextSettings:
    """What a context is programmed with when an endpoint is enabled; sizes are log2 of entries."""

    transmit_base: int
    transmit_size: int
    completion_base: int
    completion_size: int
    domain: int
    job_id: int
    pid_on_fep: int
    cswap_by_bits: bool = False
    event_base: int = 0
    """0: without an event ring."""
    event_size: int = 0
    receive_base: int = 0
    receive_size: int = 0
    unexpected_base: int = 0
    """0: without messages."""
    read_counter: int = 0
    """Event counters of what peers do; 0: none."""
    write_counter: int = 0
    receive_context: int | None = None
    """The context whose receives messages meet; None: its own."""
    data_by_key: bool = False
    """Immediate data comes only with reads by keys that allow it."""


@dataclass(frozen=True)
class Retransmission:
    """How long a NIC waits for an answer before it sends again, and how often before it gives the peer up.

    Raises FI_EINVAL for a timeout that has no 32 bits or is 0, a limit that has no 8 bits, and both together if the
    longest wait, ``timeout`` * 2**``limit``, has more than 48 bits.
    """

    timeout: int = RETRANSMIT_TIMEOUT
    """Cycles of the NIC's clock without an answer; doubles from one timeout to the next. Choose several times a
    round trip: less sends again what was not lost."""
    limit: int = RETRANSMIT_LIMIT
    """Timeouts in a row after which one more makes the operations to the peer fail."""

    def __post_init__(self) -> None:
        if not (0 < self.timeout < 1 << 32 and 0 <= self.limit < 1 << 8) or self.timeout << self.limit >= 1 << 48:
            raise fabric_error(
                Errno.FI_EINVAL,
                f"expected a timeout of 1 to 2**32 - 1 cycles, a limit of 0 to 255 and timeout * 2**limit < 2**48, "
                f"got {self.timeout} and {self.limit}",
            )

    def patience(self, clock_hz: int) -> float:
        """Seconds without any sign of life after which a peer is given up."""
        return ((2 << self.limit) - 1) * self.timeout / clock_hz


class Nic:
    """One opened device: its register blocks, discovered by walking their list, and its tables.

    Raises FabricError with FI_ENODEV if the device is no Amoeba, FI_ENOSYS if its ABI is not this driver's.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.on_doorbell: Callable[[], None] | None = None
        """Told of every doorbell, if it is set before anything is opened that rings one."""
        self.advance: Callable[[], None] = device.advance
        """Lets a little time pass for a call that waits for something."""
        self.dma = DmaMap(device)
        self.retired: list[Callable[[], bool]] = []
        """Say whether the operations of a closed context have ended, and have given it back then."""
        self.blocks: tuple[PlacedBlock, ...] = ()
        """The blocks that this driver knows, in the order of the list."""
        layouts = {placed.block.kind: placed.block for placed in bar_blocks(NicParameters())}
        found = self._discover()
        device_kind = next(kind for kind, block in layouts.items() if block.name == "device")
        if device_kind not in found:
            raise fabric_error(Errno.FI_ENODEV, f"{device.name}: no Amoeba register block at BAR offset 0")
        self._place("device", layouts[device_kind], found)
        abi = self.read("device", "abi_version")
        if abi != ABI_VERSION:
            raise fabric_error(
                Errno.FI_ENOSYS,
                f"{device.name} has ABI version {abi}, this driver speaks {ABI_VERSION}: "
                "install the driver and the NIC of the same release",
            )
        self.parameters = self._read_parameters()
        for placed in bar_blocks(self.parameters):
            if placed.block.name != "device":
                self._place(placed.block.name, placed.block, found)
        self.mac = (self.read("device", "mac_high") << 32 | self.read("device", "mac_low")).to_bytes(6, "big")
        """Read once, as is :attr:`ip`: several threads may ask for them at a time, of the NIC only one."""
        self.ip = self.read("device", "ip")
        self._masks = {form: tuple(self.read("atomics", form.value, op) for op in Op) for form in Form}
        self._free_contexts = list(range(self.parameters.contexts))
        self._free_peers = list(range(self.parameters.peers))
        self._peers_opened = 0
        self._psn_origin: int | None = None
        self._keys = KeySlots(self.parameters.keys)
        self._free_domains = list(range(_DOMAINS))
        self._answers: memoryview | None = None
        self._free_counters = list(range(1, self.parameters.event_counters))
        self._event_counters: memoryview | None = None

    def _discover(self) -> dict[int, tuple[int, int, int]]:
        """(BAR offset, version, following) of every block by kind. The list only ever runs upwards."""
        found: dict[int, tuple[int, int, int]] = {}
        offset = 0
        while True:
            kind, version, _, following = (self.device.read(offset + at) for at in (0, 4, 8, 12))
            found.setdefault(kind, (offset, version, following))
            if following == 0:
                return found
            if not offset < following < BAR_SIZE or following % 4:
                raise fabric_error(
                    Errno.FI_ENODEV, f"{self.device.name}: register block at {offset:#x} continues at {following:#x}"
                )
            offset = following

    def _place(self, name: str, layout: RegisterBlock, found: dict[int, tuple[int, int, int]]) -> None:
        if layout.kind not in found:
            raise fabric_error(Errno.FI_ENOSYS, f"{self.device.name} has no register block {name!r}")
        offset, version, following = found[layout.kind]
        if version != layout.version:
            raise fabric_error(
                Errno.FI_ENOSYS,
                f"{self.device.name}: register block {name!r} has version {version}, expected {layout.version}",
            )
        self.blocks += (PlacedBlock(offset, layout, following),)

    def _read_parameters(self) -> NicParameters:
        try:
            return NicParameters(
                data_width=self.read("device", "data_width"),
                contexts=self.read("device", "contexts"),
                keys=self.read("device", "keys"),
                peers=self.read("device", "peers"),
                window=self.read("device", "window"),
                payload=self.read("device", "payload"),
                target_pdcs=self.read("device", "target_pdcs"),
                receives=self.read("device", "receives"),
                unexpected=self.read("device", "unexpected"),
                event_counters=self.read("device", "event_counters"),
                clock_hz=self.read("device", "clock_hz"),
            )
        except ValueError as error:
            raise fabric_error(Errno.FI_ENODEV, f"{self.device.name} makes no sense: {error}") from None

    # Registers by name

    def _address(self, block: str, register: str, index: int = 0) -> int:
        return next(placed for placed in self.blocks if placed.block.name == block).address(register, index)

    def read(self, block: str, register: str, index: int = 0) -> int:
        return self.device.read(self._address(block, register, index))

    def write(self, block: str, register: str, value: int, index: int = 0) -> None:
        self.device.write(self._address(block, register, index), int(value))

    def _write_wide(self, block: str, register: str, value: int, index: int = 0) -> None:
        self.write(block, f"{register}_low", value & 0xFFFF_FFFF, index)
        self.write(block, f"{register}_high", value >> 32, index)

    @staticmethod
    def doorbell(context: int, register: str) -> int:
        """BAR offset of a register of a context's doorbell page."""
        offset = next(r.offset for r in DOORBELL_REGISTERS if r.name == register)
        return DOORBELL_PAGE + context * DOORBELL_PAGE_SIZE + offset

    @property
    def ring(self) -> Callable[[int, int], None]:
        """What rings a doorbell: the register that :meth:`doorbell` names, and the value."""
        return self.device.write if self.on_doorbell is None else self._ring_and_tell

    def _ring_and_tell(self, register: int, value: int) -> None:
        assert self.on_doorbell is not None
        self.device.write(register, value)
        self.on_doorbell()

    def stir(self) -> None:
        """Let whoever hears of doorbells see what is new."""
        if self.on_doorbell is not None:
            self.on_doorbell()

    def atomic_mask(self, form: Form, op: int) -> int:
        """Datatypes of ``op`` in ``form`` as a bit mask, 0 for an unknown operation: the capability registers."""
        masks = self._masks[form]
        return masks[op] if 0 <= op < len(masks) else 0

    @property
    def retransmission(self) -> Retransmission:
        """When the NIC sends again, and when it gives up. Setting it concerns all peers, from their next wait on."""
        return Retransmission(self.read("device", "retransmit_timeout"), self.read("device", "retransmit_limit"))

    @retransmission.setter
    def retransmission(self, wanted: Retransmission) -> None:
        self.write("device", "retransmit_timeout", wanted.timeout)
        self.write("device", "retransmit_limit", wanted.limit)

    def supports(self, form: Form, op: int, datatype: int) -> bool:
        return datatype >= 0 and bool(self.atomic_mask(form, op) >> datatype & 1)

    def counters(self) -> dict[Counter, int]:
        """What the NIC has counted since reset."""
        return {counter: self.read("counters", "value", counter) for counter in Counter}

    # Own network address

    def set_address(self, mac: bytes, ip: int) -> None:
        self._write_wide("device", "mac", int.from_bytes(mac, "big"))
        self.write("device", "ip", ip)
        self.mac, self.ip = mac, ip

    # Domains and contexts

    def take_domain(self) -> int:
        """A protection domain nobody uses. Raises FI_ENOSPC when there is none."""
        return _take(self._free_domains, "protection domains", _DOMAINS)

    def return_domain(self, domain: int) -> None:
        self._free_domains.append(domain)

    def take_context(self) -> int:
        """A context nobody uses, the one unused longest that leaves most free ones side by side.

        Raises FI_ENOSPC when there is none.
        """
        self.reclaim()
        free = self._free_contexts
        if not free:
            raise fabric_error(Errno.FI_ENOSPC, f"all {self.parameters.contexts} endpoint contexts are in use")

        def cost(context: int) -> tuple[int, bool]:
            run = _run(context, free)
            return len(run), context not in (run[0], run[-1])

        context = min(free, key=cost)
        free.remove(context)
        return context

    def take_contexts(self, count: int) -> int:
        """So many contexts side by side that nobody uses; returns the first. Raises FI_ENOSPC when there are none."""
        self.reclaim()
        free = set(self._free_contexts)
        for first in range(self.parameters.contexts - count + 1):
            block = set(range(first, first + count))
            if block <= free:
                self._free_contexts = [context for context in self._free_contexts if context not in block]
                return first
        raise fabric_error(
            Errno.FI_ENOSPC,
            f"expected {count} endpoint contexts side by side, {len(free)} of {self.parameters.contexts} are free",
        )

    def return_context(self, context: int) -> None:
        self._free_contexts.append(context)

    def reclaim(self) -> None:
        """Take back what belonged to closed contexts whose operations have ended since."""
        self.retired = [is_over for is_over in self.retired if not is_over()]

    def enable_context(self, context: int, settings: ContextSettings) -> None:
        """Program and start a context; its ring indices begin at 0. When this returns, peers can reach it."""
        self._provide_answer_memory()
        self._write_wide("contexts", "transmit_base", settings.transmit_base, context)
        self.write("contexts", "transmit_size", settings.transmit_size, context)
        self._write_wide("contexts", "completion_base", settings.completion_base, context)
        self.write("contexts", "completion_size", settings.completion_size, context)
        self.write("contexts", "domain", settings.domain, context)
        self.write("contexts", "job_id", settings.job_id, context)
        self.write("contexts", "pid_on_fep", settings.pid_on_fep, context)
        self._write_wide("contexts", "event_base", settings.event_base, context)
        self.write("contexts", "event_size", settings.event_size, context)
        self._write_wide("contexts", "receive_base", settings.receive_base, context)
        self.write("contexts", "receive_size", settings.receive_size, context)
        self._write_wide("contexts", "unexpected_base", settings.unexpected_base, context)
        self.write("contexts", "read_counter", settings.read_counter, context)
        self.write("contexts", "write_counter", settings.write_counter, context)
        control = ContextControl.ENABLE
        if settings.cswap_by_bits:
            control |= ContextControl.CSWAP_BY_BITS
        if settings.receive_context is not None:
            self.write("contexts", "receive_context", settings.receive_context, context)
            control |= ContextControl.SHARES_RECEIVES
        if settings.data_by_key:
            control |= ContextControl.DATA_BY_KEY
        self.write("contexts", "control", control, context)
        self.flush()

    def _provide_answer_memory(self) -> None:
        """Give the NIC the memory in which it keeps long answers, once.

        It belongs to the NIC until that is closed, and pages that no answer was written to cost nothing.
        """
        if self._answers is None:
            parameters = self.parameters
            self._answers = allocate(parameters.target_pdcs * parameters.window * parameters.payload)
            address = address_of(self._answers)
            self.dma.grant(address, self._answers.nbytes, writable=True)
            self._write_wide("device", "answer_base", address)

    # Event counters

    def take_counter(self) -> int:
        """An event counter that nobody uses, set to zero; 0 if all are in use."""
        if not self._free_counters:
            return 0
        number = self._free_counters.pop(0)
        entry = self._counter_memory()
        self.write("device", "counter_clear", number)
        self.flush()
        start = number * EVENT_COUNTER.size
        entry[start : start + EVENT_COUNTER.size] = bytes(EVENT_COUNTER.size)
        return number

    def return_counter(self, number: int) -> None:
        """Give a counter back, which nothing advances any more."""
        self._free_counters.append(number)

    def event_counter(self, number: int) -> tuple[int, int]:
        """(successes, errors) that a counter in use has reached."""
        return _COUNTER.unpack_from(self._counter_memory(), number * EVENT_COUNTER.size)

    def _counter_memory(self) -> memoryview:
        """Where the NIC writes its event counters: made at the first use, it is the NIC's until that is closed."""
        if self._event_counters is None:
            self._event_counters = allocate(self.parameters.event_counters * EVENT_COUNTER.size)
            address = address_of(self._event_counters)
            self.dma.grant(address, self._event_counters.nbytes, writable=True)
            self._write_wide("device", "counter_base", address)
        return self._event_counters

    def disable_context(self, context: int) -> None:
        """Stop a context; when this returns, the NIC takes no more descriptors and requests for it."""
        self.write("contexts", "control", 0, context)
        self.flush()

    def flush(self) -> None:
        """Wait until all register writes have arrived: they are posted, and performed before a later read."""
        self.read("device", "abi_version")

    # Peers

    def open_peer(self, context: int, address: EndpointAddress, initiator: int) -> int:
        """Open a packet delivery context from ``context`` to ``address``; returns its index in the peer table.

        ``initiator``: the context by which the peer is to know who sends. Raises FI_ENOSPC when the table is full.
        """
        peer = _take(self._free_peers, "peer table entries", self.parameters.peers)
        self.reopen_peer(peer, context, address, initiator)
        return peer

    def reopen_peer(self, peer: int, context: int, address: EndpointAddress, initiator: int) -> None:
        """Store an entry in use, which opens a new packet delivery context. Nothing may be outstanding on it."""
        self._peers_opened += 1
        self._write_wide("peers", "mac", int.from_bytes(address.mac, "big"))
        self.write("peers", "ip", address.ip)
        self.write("peers", "job_id", address.job_id)
        self.write("peers", "pid_on_fep", address.pid_on_fep)
        self.write("peers", "resource_index", address.resource_index)
        self.write("peers", "initial_psn", self._first_psn())
        # Source ports from the dynamic range spread flows over equal paths.
        self.write("peers", "entropy", 0xC000 | (self._peers_opened * 0x9E5) & 0x3FFF)
        self.write("peers", "flags", PeerFlags.VALID)
        self.write("peers", "context", context)
        self.write("peers", "initiator", initiator)
        self.write("peers", "store", peer)

    def _first_psn(self) -> int:
        """Where the packet delivery context that is being opened begins.

        Another number for every opening, so that no late answer of the entry's last user fits, and no opening of a
        NIC that had this address before, whose packets a target would take this one's for. Random, therefore,
        unless all NICs are simulated in this process: a simulation repeats itself.
        """
        if self._psn_origin is None:
            rerun = self.device.rerun
            self._psn_origin = secrets.randbits(32) if rerun is None else rerun * 0x85EB_CA6B
        return self._psn_origin + self._peers_opened * 0x9E37_79B1 & 0xFFFF_FFFF

    def close_peer(self, peer: int) -> None:
        """Invalidate an entry and give it back. Nothing may be outstanding on it."""
        self.write("peers", "flags", 0)
        self.write("peers", "store", peer)
        self._free_peers.append(peer)

    # Keys

    def store_key(self, key: int | None, base: int, length: int, domain: int, flags: KeyFlags) -> int:
        """Enter a region into the key table under ``key``, or under an unguessable one if None; returns the key.

        When this returns, the NIC accepts requests for it. Raises FI_EINVAL for what is no key, FI_ENOKEY if it is in
        use on this NIC, FI_ENOSPC if all slots where it may lie are taken.
        """
        if key is None:
            key, slot = self._keys.choose()
        else:
            slot = self._keys.take(key)
        self._write_key(slot, key, base, length, domain, flags | KeyFlags.VALID)
        self.flush()
        return key

    def count_key(
        self, key: int, base: int, length: int, domain: int, flags: KeyFlags, read_counter: int, write_counter: int
    ) -> None:
        """Store a key in use once more, with event counters of what peers do by it; 0: none."""
        slot = self._keys.slot_of(key)
        self._write_key(slot, key, base, length, domain, flags | KeyFlags.VALID, read_counter, write_counter)
        self.flush()

    def remove_key(self, key: int) -> None:
        """Invalidate a key; when this returns, the NIC accepts no more requests for it."""
        self._write_key(self._keys.give_back(key), 0, 0, 0, 0, KeyFlags(0))
        self.flush()

    def _write_key(
        self,
        slot: int,
        key: int,
        base: int,
        length: int,
        domain: int,
        flags: KeyFlags,
        read_counter: int = 0,
        write_counter: int = 0,
    ) -> None:
        self._write_wide("keys", "key", key)
        self._write_wide("keys", "base", base)
        self._write_wide("keys", "length", length)
        self.write("keys", "domain", domain)
        self.write("keys", "flags", flags)
        self.write("keys", "read_counter", read_counter)
        self.write("keys", "write_counter", write_counter)
        self.write("keys", "store", slot)

    def supported_datatypes(self, form: Form, op: Op) -> list[Datatype]:
        mask = self.atomic_mask(form, op)
        return [datatype for datatype in Datatype if mask >> datatype & 1]

    def check_open(self) -> None:
        """Raise DeviceClosedError if the device has been closed."""
        self.device.cycles  # noqa: B018  as everything that is asked of it

    def close(self) -> None:
        """Close the device; the tables die with it. Idempotent."""
        self.device.close()

    def __repr__(self) -> str:
        return f"<Nic {self.device.name}>"


def _take(free: list[int], what: str, total: int) -> int:
    if not free:
        raise fabric_error(Errno.FI_ENOSPC, f"all {total} {what} are in use")
    return free.pop(0)


def _run(context: int, free: Collection[int]) -> range:
    """The free contexts side by side of which this is one."""
    first = last = context
    while first - 1 in free:
        first -= 1
    while last + 1 in free:
        last += 1
    return range(first, last + 1)
