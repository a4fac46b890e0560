"""Which completion queues hear of the operations of an endpoint, or of what stands for one."""

from collections.abc import Sequence
from typing import Any

from amoeba.libfabric.objects.operations.receiving import ReceiveOperations
from amoeba.libfabric.objects.queues.completion import CompletionQueue

__all__ = ["receive_queues", "transmit_queue"]


def receive_queues(endpoint: ReceiveOperations) -> Sequence[CompletionQueue[Any] | None]:
    """Those that may hear of receives: of a shared receive context the queues of all endpoints that are enabled."""
    return endpoint._telling_queues()


def transmit_queue(endpoint: Any) -> CompletionQueue[Any] | None:
    """The one that hears of what is transmitted; None without, and of what does not transmit."""
    queue: CompletionQueue[Any] | None = getattr(endpoint, "_cq", None)
    return queue
