"""Triggered operations, as fi_trigger(3) defines them: their contexts."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.core.lifetime import FabricObject
from amoeba.libfabric.objects.deferral import Deferral
from amoeba.libfabric.objects.queues.counters import Counter

__all__ = ["Trigger", "TriggeredContext", "trigger_of"]


class Trigger(ABC):
    """The ``context`` of an operation with FI_TRIGGER."""

    cntr: Counter
    """The counter whose value decides when the operation is posted."""

    @property
    @abstractmethod
    def op_context(self) -> Any:
        """Context of its completion."""

    @abstractmethod
    def is_silent(self, silent: bool, flags: int) -> bool:
        """Return whether success is not reported; ``silent``: whether it would not be without the trigger."""

    @abstractmethod
    def defer(self, start: Callable[[Deferral], None], flags: int) -> Deferral:
        """Make a deferral that waits for the counter, then calls ``start``."""


@dataclass(frozen=True, eq=False)
class TriggeredContext(Trigger):
    """``struct fi_triggered_context`` with FI_TRIGGER_THRESHOLD: ``context`` of an operation with FI_TRIGGER.

    The operation is posted when ``cntr`` has reached ``threshold``, and its buffers are read then. Its completion
    bears this object as its context.
    """

    cntr: Counter
    threshold: int

    @property
    def op_context(self) -> Any:
        return self

    def is_silent(self, silent: bool, flags: int) -> bool:
        return silent

    def defer(self, start: Callable[[Deferral], None], flags: int) -> Deferral:
        return Deferral(self.cntr, self.threshold, start, subject=self)


def trigger_of(context: Any, domain: FabricObject) -> Trigger:
    """Check the context of an operation with FI_TRIGGER, of an endpoint in this domain, and return it.

    Raises FI_EINVAL for a context without a counter of this domain, FI_EBADF for a closed counter.
    """
    if not isinstance(context, Trigger):
        raise fabric_error(
            Errno.FI_EINVAL, f"with FI_TRIGGER, context is a TriggeredContext, got {type(context).__name__}"
        )
    context.cntr._check_open()
    context.cntr._check_made_from(domain)
    return context
