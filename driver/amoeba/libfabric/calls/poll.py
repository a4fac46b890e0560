"""fi_poll(3): poll sets, wait sets, and fi_trywait."""

from collections.abc import Sequence
from typing import Any

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.core.waiting import Waitable
from amoeba.libfabric.calls.arguments import first_of, no_flags, seconds
from amoeba.libfabric.calls.attributes import PollAttr, WaitAttr
from amoeba.libfabric.objects.domain import Domain
from amoeba.libfabric.objects.fabric import Fabric
from amoeba.libfabric.objects.queues.completion import CompletionQueue
from amoeba.libfabric.objects.queues.counters import Counter
from amoeba.libfabric.objects.queues.poll_set import PollSet
from amoeba.libfabric.objects.queues.wait_set import WaitSet

__all__ = ["fi_poll", "fi_poll_add", "fi_poll_del", "fi_poll_open", "fi_trywait", "fi_wait", "fi_wait_open"]


def fi_poll_open(domain: Domain, attr: PollAttr | None) -> PollSet:
    """:meth:`amoeba.Domain.poll_open`. Raises FI_EBADFLAGS for any flags."""
    no_flags(0 if attr is None else attr.flags, "a poll set")
    return domain.poll_open()


def fi_poll_add(pollset: PollSet, event_fid: CompletionQueue[Any] | Counter, flags: int) -> None:
    """:meth:`amoeba.PollSet.add`. Raises FI_EBADFLAGS for any flags."""
    no_flags(flags, "adding to a poll set")
    pollset.add(event_fid)


def fi_poll_del(pollset: PollSet, event_fid: CompletionQueue[Any] | Counter, flags: int) -> None:
    """:meth:`amoeba.PollSet.remove`. Raises FI_EBADFLAGS for any flags."""
    no_flags(flags, "removing from a poll set")
    pollset.remove(event_fid)


def fi_poll(pollset: PollSet, count: int) -> list[CompletionQueue[Any] | Counter]:
    """Return ready objects themselves instead of their contexts, perhaps none: :meth:`amoeba.PollSet.poll`."""
    return pollset.poll(count)


def fi_wait_open(fabric: Fabric, attr: WaitAttr) -> WaitSet:
    """:meth:`amoeba.Fabric.wait_open`. Raises FI_EBADFLAGS for any flags."""
    no_flags(attr.flags, "a wait set")
    return fabric.wait_open(attr.wait_obj)


def fi_wait(waitset: WaitSet, timeout: int) -> None:
    """:meth:`amoeba.WaitSet.wait`."""
    waitset.wait(seconds(timeout))


def fi_trywait(fabric: Fabric, fids: Sequence[Waitable], count: int) -> None:
    """Return if it is time to wait for descriptors: :meth:`amoeba.Fabric.trywait`. Raises FI_EAGAIN if not."""
    if not fabric.trywait(*first_of(fids, count, "fids")):
        raise fabric_error(Errno.FI_EAGAIN, "there is something to be read first")
