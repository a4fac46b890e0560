"""Contexts and keys, as the driver stored them, with what the NIC keeps next to each."""

from dataclasses import dataclass, field

from amoeba_model.nic.request_queues import RequestQueues
from amoeba_model.nic.rings import EntryRing
from amoeba_model.registers import KeyFlags, key_slots
from amoeba_model.wire.uet import ReturnCode

__all__ = ["Context", "Key", "KeyTable", "Request"]


@dataclass(slots=True, eq=False)
class Context:
    """One endpoint context: its registers, its rings, and its requests. Indices count modulo 2**16."""

    number: int
    enabled: bool = False
    cswap_by_bits: bool = False
    data_by_key: bool = False
    """Immediate data comes only with READs, by keys that allow it."""
    announces: bool = False
    """Messages that meet no receive write an event."""
    relative: bool = False
    transmit_base: int = 0
    transmit_size: int = 0
    """log2 of entries."""
    completions: EntryRing = field(default_factory=EntryRing)
    events: EntryRing = field(default_factory=EntryRing)
    """Event ring; ``base`` 0 without one."""
    domain: int = 0
    job_id: int = 0
    pid_on_fep: int = 0
    receive_base: int = 0
    receive_size: int = 0
    """log2 of entries."""
    unexpected_base: int = 0
    """Of the unexpected slots; 0: the context takes no messages."""
    read_counter: int = 0
    write_counter: int = 0
    receiver: "Context" = field(init=False, repr=False)
    """Context whose receives its messages meet: by default itself."""

    tail: int = 0
    """Producer index of the transmit ring, from the doorbell."""
    head: int = 0
    """Next descriptor to take."""
    in_flight: int = 0
    """Descriptors taken and not completed."""
    receive_tail: int = 0
    """Producer index of the receive ring, from the doorbell."""
    receive_head: int = 0
    """Next receive descriptor to fetch."""
    receives_done: int = 0
    """Receive descriptors that are over or posted."""
    requests: "RequestQueues[Request]" = field(default_factory=RequestQueues)
    """Checked, and not yet cut into their last packet."""
    epoch: int = 0
    """Counts enablings: requests of an earlier one must not touch the memory of the next."""

    def __post_init__(self) -> None:
        self.receiver = self

    def takes_messages(self) -> bool:
        """Whether its receiver has what messages need; whether it is enabled itself is another matter."""
        receiver = self.receiver
        return bool(receiver.enabled and receiver.events.base and receiver.unexpected_base)

    def restart(self) -> None:
        """Restart the rings, when ENABLE is set."""
        self.tail = self.head = self.in_flight = 0
        self.receive_tail = self.receive_head = self.receives_done = 0
        self.completions.restart()
        self.events.restart()
        self.requests.clear()
        self.epoch += 1

    def may_take_descriptor(self) -> bool:
        """Whether there is a descriptor, and a completion entry is free for one more in flight."""
        return self.tail != self.head and self.completions.unread() + self.in_flight < 1 << self.completions.size


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
    counter: int
    remote_address: int
    remote_key: int
    local: int
    result: int
    compare: int
    user_context: int
    position: int = 0
    """Bytes cut into packets so far."""
    begun: bool = field(default=False, kw_only=True)
    """Its first packet has been cut."""
    message: int = field(default=0, kw_only=True)
    """``message_id`` of the packet that was cut last."""
    status: int = ReturnCode.OK.value

    def continues(self, other: "Request") -> bool:
        """Whether it is the descriptor behind ``other`` in the same ring."""
        return self.index == (other.index + 1) & 0xFFFF and self.epoch == other.epoch

    def is_live(self) -> bool:
        """Whether the context is still as it was when the descriptor was taken."""
        return self.context.enabled and self.context.epoch == self.epoch


@dataclass(slots=True, eq=False)
class Key:
    """One key table entry."""

    key: int
    base: int
    length: int
    domain: int
    flags: int
    read_counter: int = 0
    write_counter: int = 0


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
        """Find the first valid entry with this key."""
        entry = self._found.get(key)
        if entry is None and key not in self._found:
            if len(self._found) > len(self._slots):
                self._found.clear()  # wrong keys from the network must not accumulate
            self._found[key] = entry = self._search(key)
        return entry

    def _search(self, key: int) -> Key | None:
        for slot in key_slots(key, len(self._slots)):
            entry = self._slots[slot]
            if entry is not None and entry.key == key and entry.flags & KeyFlags.VALID:
                return entry
        return None
