"""Memory of messages that have met no receive: a quota for each NIC that sends them, and a bound for all."""

from amoeba_model.descriptors import RENDEZVOUS, EventFlags

from amoeba.nic.event_ring import Event

__all__ = ["BOUND", "QUOTA", "Unread"]

QUOTA = 64 << 20
"""Bytes of unread messages that one NIC may leave with a context: 65,536 of no bytes, 13,000 of a packet."""
BOUND = 256 << 20
"""Bytes of unread messages that all NICs together may leave with a context."""
_OVERHEAD = 1024
"""Bytes that the driver keeps beside each message, and a little more."""
_LONG = int(EventFlags.LONG)


class _Sender:
    """The unread messages of one NIC."""

    __slots__ = ("size", "targets")

    def __init__(self) -> None:
        self.size = 0
        self.targets: set[int] = set()
        """Contexts that they were sent to."""


def _cost(event: Event) -> int:
    return _OVERHEAD + (RENDEZVOUS.size if event.flags & _LONG else event.length)


class Unread:
    """The unread messages that the driver keeps, by the IPv4 address of the sender's NIC."""

    def __init__(self, quota: int = QUOTA, bound: int = BOUND) -> None:
        self.quota = quota
        self.bound = bound
        self.size = 0
        """Bytes of all."""
        self._senders: dict[int, _Sender] = {}

    def within_bound(self, event: Event) -> bool:
        """Return whether all messages, with this one, stay within the bound."""
        return self.size + _cost(event) <= self.bound

    def exceeds_quota(self, event: Event) -> bool:
        """Return whether those of its sender, with this one, exceed the sender's quota."""
        sender = self._senders.get(event.source_ip)
        return (0 if sender is None else sender.size) + _cost(event) > self.quota

    def add(self, event: Event) -> None:
        sender = self._senders.setdefault(event.source_ip, _Sender())
        sender.size += _cost(event)
        sender.targets.add(event.target)
        self.size += _cost(event)

    def remove(self, event: Event) -> None:
        sender = self._senders[event.source_ip]
        sender.size -= _cost(event)
        self.size -= _cost(event)
        if not sender.size:
            del self._senders[event.source_ip]

    def greediest(self) -> tuple[int, set[int]] | None:
        """Return the address of the NIC that has most here, and the contexts that it sent to."""
        if not self._senders:
            return None
        address = max(self._senders, key=lambda each: self._senders[each].size)
        return address, self._senders[address].targets

    def clear(self) -> None:
        self._senders.clear()
        self.size = 0
