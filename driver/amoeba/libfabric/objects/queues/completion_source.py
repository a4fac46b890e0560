"""The rings that a completion queue takes its entries from."""

from collections.abc import Callable, Collection
from typing import Any, Protocol

from amoeba.transport.requests import Completion

__all__ = ["CompletionSource"]


class CompletionSource(Protocol):
    """A ring that completions come from."""

    @property
    def limited(self) -> bool:
        """Whether unread completions must stay in the ring, because they hold others back."""

    @property
    def outstanding(self) -> int:
        """The number of requests that the NIC works on, or whose completion has not been taken."""

    @property
    def ready(self) -> Collection[Completion]:
        """The completions that were found in the ring and not taken."""

    def tell_doorbells(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever the NIC is notified of requests."""

    def announce(self) -> None:
        """Announce waiting requests to the NIC."""

    def progress(self) -> None:
        """Make progress before completions are taken."""

    def poll(self, limit: int, into: list[Any]) -> None:
        """Move up to ``limit`` completions to ``into``, none behind one that reports an error.

        An interruption leaves each completion either there or here.
        """

    def arm(self) -> None:
        """Ask for an interrupt at the next one."""

    @property
    def expectant(self) -> bool:
        """Whether there is a completion to take, or one may come without any new request."""
