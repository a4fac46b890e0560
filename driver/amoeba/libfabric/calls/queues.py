"""fi_cq(3), fi_cntr(3), fi_eq(3)."""

from typing import Any, TypeVar

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.libfabric.calls.arguments import no_flags, seconds
from amoeba.libfabric.calls.attributes import CntrAttr, CqAttr, EqAttr
from amoeba.libfabric.objects.checks import check_flags
from amoeba.libfabric.objects.constants import CqFlags, EqFlags
from amoeba.libfabric.objects.domain import Domain
from amoeba.libfabric.objects.fabric import Fabric
from amoeba.libfabric.objects.queues.completion import CompletionQueue, CqErrEntry, Entry
from amoeba.libfabric.objects.queues.counters import Counter
from amoeba.libfabric.objects.queues.event_queue import EqEntry, EqErrEntry, Event, EventQueue

__all__ = [
    "fi_cntr_add",
    "fi_cntr_adderr",
    "fi_cntr_open",
    "fi_cntr_read",
    "fi_cntr_readerr",
    "fi_cntr_set",
    "fi_cntr_seterr",
    "fi_cntr_wait",
    "fi_cq_open",
    "fi_cq_read",
    "fi_cq_readerr",
    "fi_cq_readfrom",
    "fi_cq_signal",
    "fi_cq_sread",
    "fi_cq_sreadfrom",
    "fi_cq_strerror",
    "fi_eq_open",
    "fi_eq_read",
    "fi_eq_readerr",
    "fi_eq_sread",
    "fi_eq_strerror",
    "fi_eq_write",
]

T = TypeVar("T")
E = TypeVar("E", bound=Entry)


def _something(found: T | None, what: str) -> T:
    """Return the result of a read. Raises FI_EAGAIN for an empty one."""
    if found is None or found == []:
        raise fabric_error(Errno.FI_EAGAIN, f"there is no {what}")
    return found


# Completion queues


def fi_cq_open(domain: Domain, attr: CqAttr) -> CompletionQueue[Any]:
    """:meth:`amoeba.Domain.cq_open`. Raises FI_EBADFLAGS for flags but FI_AFFINITY, which has no effect here."""
    no_flags(check_flags(CqFlags, attr.flags) & ~CqFlags.FI_AFFINITY, "a completion queue")
    return domain.cq_open(
        attr.format, attr.wait_obj, wait_cond=attr.wait_cond, wait_set=attr.wait_set, size=attr.size
    )


def fi_cq_read(cq: CompletionQueue[E], count: int) -> list[E]:
    """Read one to ``count`` entries: :meth:`amoeba.CompletionQueue.read`. Raises FI_EAGAIN for an empty queue."""
    return _something(cq.read(count), "completion")


def fi_cq_readfrom(cq: CompletionQueue[E], count: int) -> list[tuple[E, int]]:
    """:meth:`amoeba.CompletionQueue.readfrom`. Raises FI_EAGAIN for an empty queue."""
    return _something(cq.readfrom(count), "completion")


def fi_cq_sread(cq: CompletionQueue[E], count: int, cond: int | None, timeout: int) -> list[E]:
    """:meth:`amoeba.CompletionQueue.sread`. Raises FI_EAGAIN if the queue is empty after the timeout."""
    return _something(cq.sread(count, seconds(timeout), cond), "completion")


def fi_cq_sreadfrom(cq: CompletionQueue[E], count: int, cond: int | None, timeout: int) -> list[tuple[E, int]]:
    """:meth:`amoeba.CompletionQueue.sreadfrom`. Raises what :func:`fi_cq_sread` does."""
    return _something(cq.sreadfrom(count, seconds(timeout), cond), "completion")


def fi_cq_readerr(cq: CompletionQueue[Any], flags: int) -> CqErrEntry:
    """:meth:`amoeba.CompletionQueue.readerr`. Raises FI_EAGAIN without an error, FI_EBADFLAGS for flags."""
    no_flags(flags, "reading errors")
    return _something(cq.readerr(), "error")


def fi_cq_signal(cq: CompletionQueue[Any]) -> None:
    """:meth:`amoeba.CompletionQueue.signal`."""
    cq.signal()


def fi_cq_strerror(cq: CompletionQueue[Any], prov_errno: int) -> str:
    """:meth:`amoeba.CompletionQueue.strerror`."""
    return cq.strerror(prov_errno)


# Counters


def fi_cntr_open(domain: Domain, attr: CntrAttr) -> Counter:
    """:meth:`amoeba.Domain.cntr_open`. Raises FI_EBADFLAGS for any flags."""
    no_flags(attr.flags, "a counter")
    return domain.cntr_open(attr.wait_obj, attr.wait_set)


def fi_cntr_read(cntr: Counter) -> int:
    """:meth:`amoeba.Counter.read`."""
    return cntr.read()


def fi_cntr_readerr(cntr: Counter) -> int:
    """:meth:`amoeba.Counter.readerr`."""
    return cntr.readerr()


def fi_cntr_add(cntr: Counter, value: int) -> None:
    """:meth:`amoeba.Counter.add`."""
    cntr.add(value)


def fi_cntr_adderr(cntr: Counter, value: int) -> None:
    """:meth:`amoeba.Counter.adderr`."""
    cntr.adderr(value)


def fi_cntr_set(cntr: Counter, value: int) -> None:
    """:meth:`amoeba.Counter.set`."""
    cntr.set(value)


def fi_cntr_seterr(cntr: Counter, value: int) -> None:
    """:meth:`amoeba.Counter.seterr`."""
    cntr.seterr(value)


def fi_cntr_wait(cntr: Counter, threshold: int, timeout: int) -> None:
    """:meth:`amoeba.Counter.wait`."""
    cntr.wait(threshold, seconds(timeout))


# Event queues


def fi_eq_open(fabric: Fabric, attr: EqAttr) -> EventQueue:
    """:meth:`amoeba.Fabric.eq_open`."""
    return fabric.eq_open(attr.size, attr.flags, attr.wait_obj, attr.wait_set)


def _event(found: Event | None) -> Event:
    if found is None:
        raise fabric_error(Errno.FI_EAGAIN, "there is no event")
    return found


def fi_eq_read(eq: EventQueue, flags: int) -> Event:
    """:meth:`amoeba.EventQueue.read`. Raises FI_EAGAIN for an empty queue."""
    return _event(eq.read(check_flags(EqFlags, flags)))


def fi_eq_sread(eq: EventQueue, timeout: int, flags: int) -> Event:
    """:meth:`amoeba.EventQueue.sread`. Raises FI_EAGAIN after the timeout."""
    return _event(eq.sread(seconds(timeout), check_flags(EqFlags, flags)))


def fi_eq_readerr(eq: EventQueue, flags: int) -> EqErrEntry:
    """:meth:`amoeba.EventQueue.readerr`. Raises FI_EAGAIN without an error."""
    return _something(eq.readerr(check_flags(EqFlags, flags)), "error")


def fi_eq_write(eq: EventQueue, event: int, entry: EqEntry, flags: int) -> None:
    """Insert ``entry`` as an event of this number: :meth:`amoeba.EventQueue.write`. Raises FI_EBADFLAGS for flags."""
    no_flags(flags, "writing events")
    eq.write(event, fid=entry.fid, context=entry.context, data=entry.data)


def fi_eq_strerror(eq: EventQueue, prov_errno: int) -> str:
    """:meth:`amoeba.EventQueue.strerror`."""
    return eq.strerror(prov_errno)
