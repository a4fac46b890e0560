"""Contexts of operations that wait for a counter: ``struct fi_triggered_context``, fi_trigger(3)."""

import weakref
from dataclasses import dataclass
from typing import Any

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.embed import Memory
from amoeba.libfabric.objects.triggered import TriggeredContext
from amoeba.libfabric.provider.fids import FidClass, Fids

__all__ = ["TriggeredAt", "Triggers"]

_THRESHOLD = 0
"""FI_TRIGGER_THRESHOLD."""


@dataclass(frozen=True, eq=False)
class TriggeredAt(TriggeredContext):
    """A context in C's memory; its address is the context of its operation."""

    address: int = 0


class Triggers:
    """Converts C's contexts to the driver's."""

    def __init__(self, ffi: Any, memory: Memory, fids: Fids) -> None:
        self._ffi, self._memory, self._fids = ffi, memory, fids
        self._known: weakref.WeakValueDictionary[int, TriggeredAt] = weakref.WeakValueDictionary()

    def of(self, address: int) -> TriggeredAt:
        """Convert the context at this address. Raises FI_EINVAL for NULL, FI_ENOSYS for other event types."""
        self._memory.require(self._memory.pointer(address), "context")
        c = self._ffi.cast("struct fi_triggered_context *", address)
        if c.event_type != _THRESHOLD:
            raise fabric_error(Errno.FI_ENOSYS, f"operations wait for FI_TRIGGER_THRESHOLD, got {c.event_type}")
        counter = self._fids.subject(self._memory.address(c.trigger.cntr), FidClass.CNTR)
        made = self._known[address] = TriggeredAt(counter, c.trigger.threshold, address)
        return made

    def known(self, address: int) -> Any:
        """Return the context of a waiting operation by address, or the address itself."""
        return self._known.get(address, address)
