"""Contexts, keys and peers, as the driver stored them, with what the NIC keeps next to each."""

from collections import deque
from dataclasses import dataclass, field

from amoeba_model.registers import KeyFlags, key_slots
from amoeba_model.wire.uet import ReturnCode

__all__ = ["Context", "Key", "KeyTable", "Packet", "Peer", "Request"]


@dataclass(slots=True, eq=False)
class Context:
    """One endpoint context: its registers, and where its rings stand. Indices count modulo 2**16."""

    number: int
    enabled: bool = False
    cswap_by_bits: bool = False
    transmit_base: int = 0
    transmit_size: int = 0
    """log2 of entries, as ``completion_size``."""
    completion_base: int = 0
    completion_size: int = 0
    domain: int = 0
    job_id: int = 0
    pid_on_fep: int = 0

    tail: int = 0
    """Producer index of the transmit ring, from the doorbell."""
    head: int = 0
    """Next descriptor to take."""
    written: int = 0
    """Index of the next completion entry."""
    consumed: int = 0
    """Consumer index of the completion ring, from the doorbell page."""
    in_flight: int = 0
    """Descriptors taken and not completed."""
    armed: int | None = None
    """Completion index at which to raise the interrupt."""
    current: "Request | None" = None
    """Request being cut into packets."""
    epoch: int = 0
    """Counts enablings: requests of an earlier one must not touch the memory of the next."""

    def restart(self) -> None:
        """What setting ENABLE does to the rings."""
        self.tail = self.head = self.written = self.consumed = self.in_flight = 0
        self.armed = None
        self.current = None
        self.epoch += 1

    def has_descriptor(self) -> bool:
        return self.tail != self.head

    def has_room(self) -> bool:
        """Whether a completion entry is free for one more descriptor in flight."""
        unread = (self.written - self.consumed) & 0xFFFF
        return unread + self.in_flight < 1 << self.completion_size


@dataclass(slots=True, eq=False)
class Request:
    """One descriptor in flight."""

    context: Context
    epoch: int
    index: int
    """Producer index of the descriptor in its ring."""
    ready: int
    """Cycle at which the descriptor is at hand."""
    opcode: int
    op: int
    datatype: int
    flags: int
    length: int
    peer: int
    remote_address: int
    remote_key: int
    local: int
    result: int
    compare: int
    user_context: int
    position: int = 0
    """Bytes cut into packets so far."""
    status: int = ReturnCode.OK.value

    def is_live(self) -> bool:
        """Whether the context is still as it was when the descriptor was taken."""
        return self.context.enabled and self.context.epoch == self.epoch


@dataclass(slots=True, eq=False)
class Packet:
    """One request packet without an answer."""

    psn: int
    request: Request
    position: int
    """Where its part of the request begins, in bytes."""
    expected: int
    """Bytes of data that a successful answer carries."""
    is_last: bool
    fault: bool
    """Its operands could not be read: it went out as a NO_OP."""


@dataclass(slots=True, eq=False)
class Peer:
    """One peer table entry, and the initiator's PDC that it is."""

    mac: int = 0
    ip: int = 0
    job_id: int = 0
    pid_on_fep: int = 0
    resource_index: int = 0
    initial_psn: int = 0
    entropy: int = 0
    valid: bool = False
    context: int = 0

    sent: int = 0
    """Packets sent: gives the next psn and message_id."""
    answered: int = 0
    """Packets answered."""
    target_pdc: int = 0
    """``spdcid`` of the last answer; means nothing before the first."""
    outstanding: deque[Packet] = field(default_factory=deque)


@dataclass(slots=True, eq=False)
class Key:
    """One key table entry."""

    key: int
    base: int
    length: int
    domain: int
    flags: int


class KeyTable:
    """Keys by slot; a lookup tries the slots that :func:`key_slots` names, in that order."""

    def __init__(self, size: int) -> None:
        self._slots: list[Key | None] = [None] * size
        self._found: dict[int, Key | None] = {}

    def store(self, slot: int, entry: Key) -> None:
        """Write one slot; slots outside the table do not exist and swallow the write."""
        if slot < len(self._slots):
            self._slots[slot] = entry
            self._found.clear()

    def find(self, key: int) -> Key | None:
        """The first valid entry with this key."""
        if key not in self._found:
            if len(self._found) > len(self._slots):
                self._found.clear()  # wrong keys from the network must not accumulate
            self._found[key] = self._search(key)
        return self._found[key]

    def _search(self, key: int) -> Key | None:
        for slot in key_slots(key, len(self._slots)):
            entry = self._slots[slot]
            if entry is not None and entry.key == key and entry.flags & KeyFlags.VALID:
                return entry
        return None
