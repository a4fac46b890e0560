"""The completion queues that report operations of an endpoint, or of an object in its place."""

from collections.abc import Sequence
from typing import Any

from amoeba.libfabric.objects.operations.receiving import ReceiveOperations
from amoeba.libfabric.objects.queues.completion import CompletionQueue

__all__ = ["receive_queues", "transmit_queue"]


def receive_queues(endpoint: ReceiveOperations) -> Sequence[CompletionQueue[Any] | None]:
    """Return the queues that may report receives; for a shared context those of all its enabled endpoints."""
    return endpoint._telling_queues()


def transmit_queue(endpoint: Any) -> CompletionQueue[Any] | None:
    """Return the queue that reports transmissions; None without one, and for an object that does not transmit."""
    queue: CompletionQueue[Any] | None = getattr(endpoint, "_cq", None)
    return queue
