"""The receiving half of endpoints: where peers' operations are told."""

from amoeba.address import AddressVector
from amoeba.completion import CompletionQueue
from amoeba.constants import Errno
from amoeba.errors import fabric_error
from amoeba.events import MOST_EVENTS, EventRing
from amoeba.nic import Nic

__all__ = ["DEFAULT_RX_SIZE", "Receiver"]

DEFAULT_RX_SIZE = 256


class Receiver:
    """Tells a completion queue, if one is bound, of peers' operations with immediate data.

    ``rx_size``: entries that may wait to be read before peers must wait. Raises FI_EINVAL if no ring has so many.
    """

    def __init__(self, rx_size: int) -> None:
        self.resize(rx_size)
        self.queue: CompletionQueue | None = None
        """Bound before :meth:`start`."""
        self.events: EventRing | None = None
        """From :meth:`start` to :meth:`release`, if there is a queue."""

    def resize(self, rx_size: int) -> None:
        """Choose another ``rx_size``, before :meth:`start`."""
        if not 1 <= rx_size <= MOST_EVENTS:
            raise fabric_error(Errno.FI_EINVAL, f"rx_size must be 1 to {MOST_EVENTS}, got {rx_size}")
        self.rx_size = rx_size

    def start(self, nic: Nic, context: int, av: AddressVector) -> EventRing | None:
        """Make the event ring with which the NIC's context is to be started; None if nobody would read it."""
        if self.queue is not None:
            self.events = EventRing(nic, context, self.rx_size, av._number_of)
            self.queue._attach(self.events)
        return self.events

    @property
    def size_left(self) -> int:
        """Entries that may come before peers must wait."""
        return max(0, self.rx_size - (0 if self.events is None else self.events.waiting))

    def stop(self) -> None:
        """Report nothing any more."""
        if self.queue is not None and self.events is not None:
            self.queue._detach(self.events)

    def release(self) -> None:
        """Withdraw the NIC's access to the ring; its context has been stopped."""
        if self.events is not None:
            self.events.release()
            self.events = None
