"""fi_close and fi_control, which concern objects of several pages."""

import enum
from collections.abc import Callable
from typing import Any

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.core.lifetime import FabricObject
from amoeba.libfabric.calls.endpoint import transmit_flags
from amoeba.libfabric.objects.checks import check_enum
from amoeba.libfabric.objects.constants import BindFlags, Control
from amoeba.libfabric.objects.domain import Domain
from amoeba.libfabric.objects.endpoints.endpoint import Endpoint
from amoeba.libfabric.objects.endpoints.passive import PassiveEndpoint
from amoeba.libfabric.objects.endpoints.scalable import ReceiveContext, ScalableEndpoint, TransmitContext
from amoeba.libfabric.objects.endpoints.transmit import Posting
from amoeba.libfabric.objects.memory_region import MemoryRegion
from amoeba.libfabric.objects.queues.completion import CompletionQueue
from amoeba.libfabric.objects.queues.counters import Counter
from amoeba.libfabric.objects.queues.event_queue import EventQueue
from amoeba.libfabric.objects.queues.wait_set import WaitSet

__all__ = ["fi_close", "fi_control"]


def fi_close(fid: FabricObject) -> None:
    """Close an object, after the objects made from it or bound to it."""
    fid.close()


def _get_flags(ep: Posting, direction: int) -> int:
    transmit_flags(direction)
    return ep.op_flags | BindFlags.FI_TRANSMIT


def _set_flags(ep: Posting, flags: int) -> None:
    ep.op_flags = transmit_flags(flags)


_COMMANDS: dict[Control, tuple[tuple[type, ...], Callable[[Any, Any], Any]]] = {
    Control.FI_GETOPSFLAG: ((Posting,), _get_flags),
    Control.FI_SETOPSFLAG: ((Posting,), _set_flags),
    Control.FI_ALIAS: ((Posting,), lambda ep, flags: ep.alias(transmit_flags(flags))),
    Control.FI_GETWAIT: ((CompletionQueue, EventQueue, Counter, WaitSet), lambda queue, _: queue.fileno()),
    Control.FI_ENABLE: (
        (Endpoint, ScalableEndpoint, TransmitContext, ReceiveContext, MemoryRegion),
        lambda enabled, _: enabled.enable(),
    ),
    Control.FI_BACKLOG: ((PassiveEndpoint,), lambda passive, backlog: passive.set_backlog(backlog)),
    Control.FI_QUEUE_WORK: ((Domain,), lambda domain, work: domain.queue_work(work)),
    Control.FI_CANCEL_WORK: ((Domain,), lambda domain, work: domain.cancel_work(work)),
    Control.FI_FLUSH_WORK: ((Domain,), lambda domain, cntr: domain.flush_work(cntr)),
    Control.FI_REFRESH: ((MemoryRegion,), lambda mr, iov: mr.refresh(iov)),
    Control.FI_GET_RAW_MR: ((MemoryRegion,), lambda mr, _: mr.raw_attr()),
    Control.FI_MAP_RAW_MR: ((Domain,), lambda domain, raw: domain.map_raw(*raw)),
    Control.FI_UNMAP_KEY: ((Domain,), lambda domain, key: domain.unmap_key(key)),
    Control.FI_GETWAITOBJ: ((CompletionQueue, EventQueue, Counter, WaitSet), lambda queue, _: queue.wait_obj),
}
"""The class that takes each command, and the command's function."""


def fi_control(fid: FabricObject, command: int, arg: Any = None) -> Any:
    """Execute a command, and return C's value of ``arg``.

    ===================================  =========================================================
    command                              ``arg``
    ===================================  =========================================================
    FI_GETOPSFLAG                        FI_TRANSMIT
    FI_SETOPSFLAG, FI_ALIAS              flags with FI_TRANSMIT
    FI_BACKLOG                           a number of connection requests
    FI_QUEUE_WORK, FI_CANCEL_WORK        a :class:`amoeba.DeferredWork`
    FI_FLUSH_WORK                        a counter or None
    FI_REFRESH                           parts of a region or None
    FI_MAP_RAW_MR                        (base_addr, raw_key)
    FI_UNMAP_KEY                         a key
    others                               None
    ===================================  =========================================================

    Raises FI_ENOSYS for a command that the object does not know, and what its method raises.
    """
    if isinstance(command, enum.Enum):
        check_enum(Control, command, "command")
    known = _COMMANDS.get(Control(command)) if command in list(Control) else None
    if known is None or not isinstance(fid, known[0]):
        raise fabric_error(Errno.FI_ENOSYS, f"{type(fid).__name__} does not know command {command!r}")
    return known[1](fid, arg)
