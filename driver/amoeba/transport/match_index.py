"""Receives and messages that wait in the driver, in order, found by their tags.

As many may wait as memory holds, so nothing here looks at all of them but a receive that wants several tags.
"""

from collections.abc import Iterable, Iterator

from amoeba_model.descriptors import EventFlags, ReceiveFlags

from amoeba.nic.event_ring import Event
from amoeba.transport.receive import Receive

__all__ = ["HeldReceives", "Message", "WaitingMessages", "matches"]

_TAGGED = int(EventFlags.TAGGED)
_WANTS_TAG = int(ReceiveFlags.TAGGED)
_DIRECTED = int(ReceiveFlags.DIRECTED)
_ADDRESSED = int(ReceiveFlags.ADDRESSED)
_UNTAGGED = -1
"""Stands for the tag of what has none."""


class Message:
    """A message that has met no receive."""

    __slots__ = ("event", "stored", "tag")

    def __init__(self, event: Event) -> None:
        self.event = event
        """Its ARRIVED."""
        self.tag = _tag_of(event)
        self.stored: bytes | None = None
        """The message, or its RENDEZVOUS record; None: it still lies in its slot."""


def _tag_of(event: Event) -> int:
    return event.tag if event.flags & _TAGGED else _UNTAGGED


def _only_tag(receive: Receive) -> int | None:
    """Return the one tag that a receive wants; None: several."""
    if not receive.flags & _WANTS_TAG:
        return _UNTAGGED
    return None if receive.ignore else receive.tag


def matches(receive: Receive, event: Event) -> bool:
    """Whether a receive, or a search, wants the message of an event, as the NIC sees it."""
    flags = receive.flags
    if flags & _WANTS_TAG:
        if not event.flags & _TAGGED or (receive.tag ^ event.tag) & ~receive.ignore:
            return False
    elif event.flags & _TAGGED:
        return False
    if flags & _DIRECTED and receive.source != (event.source_ip, event.source_context):
        return False
    return not flags & _ADDRESSED or receive.target == event.target


class WaitingMessages:
    """Messages, oldest first."""

    def __init__(self) -> None:
        self._every: dict[Message, None] = {}
        self._by_tag: dict[int, dict[Message, None]] = {}

    def __len__(self) -> int:
        return len(self._every)

    def __contains__(self, message: Message) -> bool:
        return message in self._every

    def __iter__(self) -> Iterator[Message]:
        return iter(self._every)

    def first(self) -> Message:
        """Return the oldest message."""
        return next(iter(self._every))

    def add(self, message: Message) -> None:
        """Append one."""
        self._every[message] = None
        bucket = self._by_tag.get(message.tag)
        if bucket is None:
            bucket = self._by_tag[message.tag] = {}
        bucket[message] = None

    def remove(self, message: Message) -> None:
        """Take one out."""
        del self._every[message]
        bucket = self._by_tag[message.tag]
        del bucket[message]
        if not bucket:
            del self._by_tag[message.tag]

    def oldest_for(self, receive: Receive) -> Message | None:
        """Return the oldest message that a receive wants."""
        tag = _only_tag(receive)
        candidates: Iterable[Message] = self._every if tag is None else self._by_tag.get(tag, ())
        for message in candidates:
            if matches(receive, message.event):
                return message
        return None

    def clear(self) -> None:
        """Forget all."""
        self._every.clear()
        self._by_tag.clear()


class HeldReceives:
    """Receives, oldest first."""

    def __init__(self) -> None:
        self._every: dict[Receive, int] = {}
        """With a number by which the older of two is known."""
        self._by_tag: dict[int, dict[Receive, None]] = {}
        self._several: dict[Receive, None] = {}
        """Receives that want several tags."""
        self._next = 0

    def __len__(self) -> int:
        return len(self._every)

    def __iter__(self) -> Iterator[Receive]:
        return iter(self._every)

    def first(self) -> Receive:
        """Return the oldest receive."""
        return next(iter(self._every))

    def add(self, receive: Receive) -> None:
        """Append one."""
        self._every[receive] = self._next
        self._next += 1
        tag = _only_tag(receive)
        if tag is None:
            self._several[receive] = None
        else:
            self._by_tag.setdefault(tag, {})[receive] = None

    def remove(self, receive: Receive) -> None:
        """Take one out."""
        del self._every[receive]
        tag = _only_tag(receive)
        if tag is None:
            del self._several[receive]
            return
        bucket = self._by_tag[tag]
        del bucket[receive]
        if not bucket:
            del self._by_tag[tag]

    def oldest_for(self, event: Event) -> Receive | None:
        """Return the oldest receive that wants the message of an event."""
        one = _first(self._by_tag.get(_tag_of(event), ()), event)
        other = _first(self._several, event)
        if one is None or other is None:
            return other if one is None else one
        return one if self._every[one] < self._every[other] else other

    def clear(self) -> None:
        """Forget all."""
        self._every.clear()
        self._by_tag.clear()
        self._several.clear()


def _first(receives: Iterable[Receive], event: Event) -> Receive | None:
    for receive in receives:
        if matches(receive, event):
            return receive
    return None
