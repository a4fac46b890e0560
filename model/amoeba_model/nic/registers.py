"""RegisterBank and DoorbellPages: the BAR."""

import functools
from collections.abc import Callable

from amoeba_model.device import DeviceError
from amoeba_model.layout import Access, Register
from amoeba_model.nic.capabilities import Capabilities
from amoeba_model.nic.core import Core
from amoeba_model.nic.event_counters import EventCounters
from amoeba_model.nic.first_psns import KEY_WORDS
from amoeba_model.nic.initiator import Initiator
from amoeba_model.nic.matcher import Matcher
from amoeba_model.nic.pdc import PdcTable
from amoeba_model.nic.peers import Peer
from amoeba_model.nic.tables import Context, Key, KeyTable
from amoeba_model.opcodes import Form, Op
from amoeba_model.registers import (
    ABI_VERSION,
    BAR_SIZE,
    DOORBELL_PAGE,
    DOORBELL_PAGE_SIZE,
    DOORBELL_REGISTERS,
    MAX_ACK_DATA,
    ContextControl,
    PeerFlags,
    bar_blocks,
)

__all__ = ["DoorbellPages", "RegisterBank", "check_offset"]

_NO_CONTEXT = Context(-1)
"""Stands for those that do not exist: it is never enabled."""


class RegisterBank:
    """The register blocks: storage, capabilities, and the two tables that are written through a window.

    Writes to a read-only or undeclared register have no effect; undeclared registers read as zero.
    """

    def __init__(
        self,
        core: Core,
        capabilities: Capabilities,
        contexts: list[Context],
        keys: KeyTable,
        initiator: Initiator,
        matcher: Matcher,
        event_counters: EventCounters,
        target_pdcs: PdcTable,
    ) -> None:
        self._core = core
        self._matcher = matcher
        self._contexts = contexts
        self._keys = keys
        self._initiator = initiator
        self._values: dict[int, int] = {}
        self._storage: dict[int, Register] = {}
        self._events: dict[int, Callable[[int], None]] = {}
        self._close_requests: dict[int, int] = {}
        """Word of the registers, by address."""
        self._blocks = {placed.block.name: placed for placed in bar_blocks(core.parameters)}
        for placed in self._blocks.values():
            header = placed.block.header(placed.following)
            self._values.update({placed.offset + offset: value for offset, value in header.items()})
            for register in placed.block.registers:
                for index in range(register.count):
                    address = placed.offset + register.address(index)
                    self._values[address] = register.reset
                    if register.access is Access.RW:
                        self._storage[address] = register
        device = self._blocks["device"]
        self._cycles = {device.address("cycles_low"): 0, device.address("cycles_high"): 32}
        """How far the clock is shifted, by address."""
        self._counters = self._blocks["counters"].address("value")
        self._counters_end = self._blocks["counters"].offset + self._blocks["counters"].block.length
        self._present_capabilities(capabilities)
        for register in self._blocks["device"].block.registers:
            for index in range(register.count if register.access is Access.RW else 0):
                self._events[self._blocks["device"].address(register.name, index)] = self._load_settings
        for context in contexts:
            for register in self._blocks["contexts"].block.registers:
                address = self._blocks["contexts"].address(register.name, context.number)
                self._events[address] = functools.partial(self._load_context, context)
        self._events[self._blocks["device"].address("counter_clear")] = event_counters.clear
        self._events[self._blocks["device"].address("counter_admit")] = lambda number: event_counters.admit(
            number, self._value("device", "counter_contexts")
        )
        self._events[self._blocks["keys"].address("store")] = self._store_key
        if "peers" in self._blocks:
            self._events[self._blocks["peers"].address("store")] = self._store_peer
            self._events[self._blocks["peers"].address("fail")] = initiator.fail_peer
            first = self._blocks["peers"].address("close_requests")
            count = self._blocks["peers"].block["close_requests"].count
            self._close_requests = {first + 4 * word: word for word in range(count)}
        self._target_pdcs = target_pdcs
        self._events[self._blocks["target_pdcs"].address("select")] = self._select_target_pdc
        self._events[self._blocks["target_pdcs"].address("close")] = lambda value: target_pdcs.expel(value & 0xFFFF)

    def read(self, offset: int) -> int:
        if self._counters <= offset < self._counters_end:
            index = (offset - self._counters) // 4
            return self._core.counter(index) if offset in self._values else 0
        if offset in self._cycles:
            return (self._core.now - self._core.reset_at) >> self._cycles[offset] & 0xFFFF_FFFF
        if offset in self._close_requests:
            return self._initiator.close_requests(self._close_requests[offset])
        return self._values.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        if offset in self._storage:
            self._values[offset] = self._storage[offset].kept(value)
        if offset in self._events:
            self._events[offset](value)

    def _value(self, block: str, register: str, index: int = 0) -> int:
        return self._values[self._blocks[block].address(register, index)]

    def _pair(self, block: str, register: str, index: int = 0) -> int:
        """Return the 64-bit number in ``register``_low and ``register``_high."""
        return self._value(block, f"{register}_high", index) << 32 | self._value(block, f"{register}_low", index)

    def _present_capabilities(self, capabilities: Capabilities) -> None:
        parameters = self._core.parameters
        identity = {
            "abi_version": ABI_VERSION,
            "data_width": parameters.data_width,
            "contexts": parameters.contexts,
            "keys": parameters.keys,
            "peers": parameters.peers,
            "window": parameters.window,
            "payload": parameters.payload,
            "target_pdcs": parameters.target_pdcs,
            "clock_hz": parameters.clock_hz,
            "receives": parameters.receives,
            "unexpected": parameters.unexpected,
            "event_rings": int(parameters.event_rings),
            "event_counters": parameters.event_counters,
            "return_data": int(parameters.return_data),
        }
        for name, value in identity.items():
            self._values[self._blocks["device"].address(name)] = value
        for form in Form:
            for op in Op:
                self._values[self._blocks["atomics"].address(form.value, op)] = capabilities.mask(form, op)

    def _load_settings(self, _: int) -> None:
        core = self._core
        core.mac = (self._value("device", "mac_high") & 0xFFFF) << 32 | self._value("device", "mac_low")
        core.ip = self._value("device", "ip")
        core.dscp = self._value("device", "dscp") & 0x3F
        core.psn_key = tuple(self._value("device", "psn_key", word) for word in range(KEY_WORDS))
        core.retransmit_timeout = self._value("device", "retransmit_timeout")
        core.retransmit_limit = self._value("device", "retransmit_limit") & 0xFF
        core.answer_base = self._pair("device", "answer_base")
        core.counter_base = self._pair("device", "counter_base")
        core.max_ack_data = max(self._value("device", "max_ack_data"), MAX_ACK_DATA[0])

    def _load_context(self, context: Context, _: int) -> None:
        number = context.number
        control = self._value("contexts", "control", number)
        context.transmit_base = self._pair("contexts", "transmit_base", number)
        context.transmit_size = self._value("contexts", "transmit_size", number) & 0xF
        for ring, name in ((context.completions, "completion"), (context.events, "event")):
            ring.base = self._pair("contexts", f"{name}_base", number)
            ring.size = self._value("contexts", f"{name}_size", number) & 0xF
        if not self._core.parameters.event_rings:
            context.events.base = 0
        context.domain = self._value("contexts", "domain", number) & 0xFF
        context.job_id = self._value("contexts", "job_id", number) & 0xFF_FFFF
        context.pid_on_fep = self._value("contexts", "pid_on_fep", number) & 0xFFF
        context.receive_base = self._pair("contexts", "receive_base", number)
        context.receive_size = self._value("contexts", "receive_size", number) & 0xF
        context.unexpected_base = self._pair("contexts", "unexpected_base", number)
        context.read_counter = self._value("contexts", "read_counter", number) & 0xFF
        context.write_counter = self._value("contexts", "write_counter", number) & 0xFF
        context.receiver = context
        if control & ContextControl.SHARES_RECEIVES:
            receiver = self._value("contexts", "receive_context", number) & 0xFF
            context.receiver = self._contexts[receiver] if receiver < len(self._contexts) else _NO_CONTEXT
        context.cswap_by_bits = bool(control & ContextControl.CSWAP_BY_BITS)
        context.data_by_key = bool(control & ContextControl.DATA_BY_KEY)
        context.announces = bool(control & ContextControl.ANNOUNCE)
        context.relative = bool(control & ContextControl.RELATIVE)
        enable = bool(control & ContextControl.ENABLE)
        if enable and not context.enabled:
            context.restart()
        elif context.enabled and not enable:
            self._matcher.forget(context)
        context.enabled = enable

    def _store_key(self, slot: int) -> None:
        entry = Key(
            key=self._pair("keys", "key"),
            base=self._pair("keys", "base"),
            length=self._pair("keys", "length"),
            domain=self._value("keys", "domain") & 0xFF,
            flags=self._value("keys", "flags"),
            read_counter=self._value("keys", "read_counter") & 0xFF,
            write_counter=self._value("keys", "write_counter") & 0xFF,
        )
        self._keys.store(slot, entry)

    def _store_peer(self, value: int) -> None:
        index = value & 0xFFFF
        if index < self._core.parameters.peers:
            peer = Peer(
                mac=(self._value("peers", "mac_high") & 0xFFFF) << 32 | self._value("peers", "mac_low"),
                ip=self._value("peers", "ip"),
                job_id=self._value("peers", "job_id") & 0xFF_FFFF,
                pid_on_fep=self._value("peers", "pid_on_fep") & 0xFFF,
                resource_index=self._value("peers", "resource_index") & 0xFFF,
                initial_psn=self._value("peers", "initial_psn"),
                entropy=self._value("peers", "entropy") & 0xFFFF,
                valid=bool(self._value("peers", "flags") & PeerFlags.VALID),
                context=self._value("peers", "context"),
                initiator=self._value("peers", "initiator") & 0xFFF,
                relative=bool(self._value("peers", "flags") & PeerFlags.RELATIVE),
                whole_window=bool(self._value("peers", "flags") & PeerFlags.WHOLE_WINDOW),
            )
            self._initiator.open_peer(index, peer)

    def _select_target_pdc(self, value: int) -> None:
        view = self._target_pdcs.view(value & 0xFFFF)
        shown = view._asdict()
        came = shown.pop("came")
        shown |= {"came_low": came & 0xFFFF_FFFF, "came_high": came >> 32 & 0xFFFF}
        for name, now in shown.items():
            self._values[self._blocks["target_pdcs"].address(name)] = int(now)


class DoorbellPages:
    """One page per context; pages of contexts that do not exist swallow writes. Everything reads as zero."""

    def __init__(
        self, contexts: list[Context], handlers: dict[str, Callable[[Context, int], None]], ignored: frozenset[str]
    ) -> None:
        """``handlers`` has a function of (context, 16-bit index) for each of the DOORBELL_REGISTERS.

        The ``ignored`` ones swallow writes, too.
        """
        self._contexts = contexts
        obeyed = [register for register in DOORBELL_REGISTERS if register.name not in ignored]
        self._handlers = {register.offset: handlers[register.name] for register in obeyed}

    def write(self, offset: int, value: int) -> None:
        page, register = divmod(offset - DOORBELL_PAGE, DOORBELL_PAGE_SIZE)
        handler = self._handlers.get(register)
        if handler is not None and page < len(self._contexts):
            handler(self._contexts[page], value & 0xFFFF)


def check_offset(offset: int) -> None:
    """Raise DeviceError unless ``offset`` is that of a 32-bit word of the BAR."""
    if offset % 4 or not 0 <= offset < BAR_SIZE:
        raise DeviceError(f"expected a multiple of 4 below {BAR_SIZE:#x} as BAR offset, got {offset:#x}")
