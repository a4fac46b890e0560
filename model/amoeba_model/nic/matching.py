"""MatchLists: the posted receives and unexpected messages of a context (hw/amoeba_hw/messages/README.md).

The two lists of one context, oldest first. Nothing here touches host memory or writes events: callers do what
the answers say.
"""

from dataclasses import dataclass

from amoeba_model.descriptors import MULTI_ALIGNMENT

__all__ = ["MatchLists", "Message", "Place", "Receive"]

_ADDRESS_MASK = (1 << 64) - 1


@dataclass(slots=True, eq=False)
class Receive:
    """A posted receive, or what a PEEK or TAKE looks for."""

    tagged: bool
    tag: int
    ignore: int
    """Bits of ``tag`` that need not match."""
    source: tuple[int, int] | None = None
    """(IP address, initiator) whose messages alone are wanted; None for anybody's."""
    target: int | None = None
    """Context for which messages alone are wanted; None for any that shares the list."""
    context: int = 0
    """The application's context."""
    address: int = 0
    space: int = 0
    """Bytes left in the buffer from ``address`` on."""
    multi: bool = False
    least_space: int = 0
    counter: int = 0
    """Event counter of messages received."""

    def matches(self, message: "Message") -> bool:
        return (
            self.tagged == message.tagged
            and not (self.tagged and (self.tag ^ message.tag) & ~self.ignore)
            and self.source in (None, message.source)
            and self.target in (None, message.target)
        )

    def use(self, length: int) -> "Place":
        """Give the next ``length`` bytes of the buffer, or the rest of it, to a message.

        The place of the next message is aligned, and the bytes before it stay unused.
        """
        size = min(length, self.space)
        taken = min(size + -(self.address + size) % MULTI_ALIGNMENT, self.space)
        released = not self.multi or self.space - taken < max(self.least_space, 1)
        place = Place(self.address, size, released)
        self.address = (self.address + taken) & _ADDRESS_MASK
        self.space -= taken
        return place


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message goes within a receive's buffer."""

    address: int
    size: int
    """Bytes of the message that fit."""
    released: bool
    """The receive is used up."""


@dataclass(slots=True, eq=False)
class Message:
    """A message that no receive has met yet, or that is about to meet one."""

    tagged: bool
    tag: int
    source: tuple[int, int]
    """(IP address, initiator) of the sender."""
    source_pdc: int
    target: int
    """Context that it is for."""
    length: int
    data: int | None = None
    """Immediate data."""
    rendezvous: bool = False
    slot: int = 0
    """Of the unexpected buffer, once it lies there; 0 before."""


class MatchLists:
    """The posted receives and the unexpected messages of one context.

    Parameters
    ----------
    receives, unexpected : int
        Most entries of either list.
    """

    def __init__(self, receives: int, unexpected: int) -> None:
        self._receives = receives
        self._unexpected = unexpected
        self._posted: list[Receive] = []
        self._waiting: list[Message] = []
        self._free_slots = set(range(unexpected))

    @property
    def posted(self) -> int:
        return len(self._posted)

    @property
    def free_slots(self) -> int:
        return len(self._free_slots)

    def has_space(self) -> bool:
        """Whether one more receive can be posted."""
        return len(self._posted) < self._receives

    def take_slot(self) -> int:
        """Take the free slot with the lowest number. Raises LookupError without a free slot: callers look first."""
        if not self._free_slots:
            raise LookupError("expected a free slot, all are in use")
        slot = min(self._free_slots)
        self._free_slots.remove(slot)
        return slot

    def release_slot(self, slot: int) -> None:
        """Free a slot that the driver is done with. Slots that are free or do not exist are ignored."""
        if slot < self._unexpected and not any(message.slot == slot for message in self._waiting):
            self._free_slots.add(slot)

    def arrive(self, message: Message) -> Receive | None:
        """Find the oldest posted receive that matches; it stays posted until :meth:`unpost`."""
        return next((receive for receive in self._posted if receive.matches(message)), None)

    def unpost(self, receive: Receive) -> None:
        self._posted.remove(receive)

    def wait(self, message: Message) -> None:
        """Keep a message that matched nothing and now lies in its slot."""
        self._waiting.append(message)

    def find(self, receive: Receive) -> Message | None:
        """Find the oldest unexpected message that matches; it stays until :meth:`remove`."""
        return next((message for message in self._waiting if receive.matches(message)), None)

    def remove(self, message: Message) -> None:
        """Remove a message from the list; its slot stays taken until it is released."""
        self._waiting.remove(message)

    def post(self, receive: Receive) -> None:
        """Append a receive that matches no unexpected message. The caller has asked :meth:`has_space`."""
        self._posted.append(receive)

    def cancel(self, context: int) -> Receive | None:
        """Take back the posted receive with this context; None if no such receive is posted (any more)."""
        receive = next((receive for receive in self._posted if receive.context == context), None)
        if receive is not None:
            self._posted.remove(receive)
        return receive
