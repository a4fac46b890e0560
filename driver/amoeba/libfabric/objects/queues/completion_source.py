"""The rings that a completion queue takes its entries from."""

from collections.abc import Callable, Collection
from typing import Any, Protocol

from amoeba.transport.requests import Completion

__all__ = ["CompletionSource"]


class CompletionSource(Protocol):
    """A ring that completions come from."""

    @property
    def limited(self) -> bool:
        """Whether what is not read must stay in the ring, because that holds others back."""

    @property
    def under_way(self) -> int:
        """Requests that the NIC works on, or whose completion has not been taken."""

    @property
    def ready(self) -> Collection[Completion]:
        """Where what is not read stays: what has been found there, and nobody has taken."""

    def tell_doorbells(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever the NIC has been told of requests."""

    def announce(self) -> None:
        """Tell the NIC of requests that wait for that."""

    def progress(self) -> None:
        """Do what can be done before something is taken."""

    def poll(self, limit: int, into: list[Any]) -> None:
        """Move up to ``limit`` completions to ``into``, none behind one that reports an error.

        Whatever interrupts this, each is there or here.
        """

    def arm(self) -> None:
        """Ask for an interrupt at the next one."""

    @property
    def expectant(self) -> bool:
        """Whether there is a completion to take, or one may come without any new request."""
