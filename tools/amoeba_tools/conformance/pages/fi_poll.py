"""fi_poll(3): poll sets and wait sets."""

import select
import time
from typing import Any

from amoeba.core.errno import Errno
from amoeba.libfabric.objects.constants import BindFlags, EqFlags, WaitObj
from amoeba.libfabric.objects.queues.completion import CompletionQueue
from amoeba.libfabric.objects.queues.counters import Counter
from amoeba.libfabric.objects.queues.poll_set import PollSet
from amoeba.libfabric.objects.queues.wait_set import WaitSet

from amoeba_tools.conformance.expectations import expect, expect_equal, expect_error
from amoeba_tools.conformance.pages.fi_cntr import counted
from amoeba_tools.conformance.pair import Pair
from amoeba_tools.conformance.registry import Page

page = Page("fi_poll", "1.17", needs={"rma"})

_SET = WaitObj.FI_WAIT_SET


def poll_set(pair: Pair, *members: CompletionQueue[Any] | Counter) -> PollSet:
    """Open a poll set of these objects."""
    polled = pair.keep(pair.domain.poll_open())
    for member in members:
        polled.add(member)
    return polled


def polled_until(pair: Pair, polled: PollSet) -> list[CompletionQueue[Any] | Counter]:
    """Poll until the set returns an object, and return the result."""
    deadline = time.monotonic() + pair.patience
    while not (named := polled.poll()) and time.monotonic() < deadline:
        pass
    return named


def wait_set(pair: Pair, wait_obj: WaitObj = WaitObj.FI_WAIT_UNSPEC) -> WaitSet:
    return pair.keep(pair.fabric.wait_open(wait_obj))


def waiting_queue(pair: Pair, waiting: WaitSet) -> CompletionQueue[Any]:
    return pair.keep(pair.domain.cq_open(wait_obj=_SET, wait_set=waiting))


# Poll sets


@page("fi_poll", "Completion queues are returned that are not empty, and no others.")
def queues_with_entries_are_polled(pair: Pair) -> None:
    """Poll two queues, one of which has an entry: it is returned until the entry is read."""
    near, idle, memory = pair.open(), pair.open(), pair.memory(1)
    polled = poll_set(pair, idle.queue, near.queue)
    expect_equal("before", polled.poll(), [])
    near.endpoint.write(b"!", *memory.at())
    for what in ("with an entry", "again"):
        expect(
            polled_until(pair, polled) == [near.queue], f"{what}: expected the queue that has an entry, and no other"
        )
    near.finish()
    expect_equal("afterwards", polled.poll(), [])


@page("fi_poll", "Queues with an error are returned, too.")
def queues_with_errors_are_polled(pair: Pair) -> None:
    """Use an unknown key."""
    near, memory = pair.open(), pair.memory(1)
    polled = poll_set(pair, near.queue)
    peer, address, key = memory.at()
    near.endpoint.write(b"!", peer, address, key ^ 1)
    expect(polled_until(pair, polled) == [near.queue], "expected the queue that has an error")
    near.failure()
    expect_equal("afterwards", polled.poll(), [])


@page("fi_poll", "A counter is returned if its value or its error value has changed since the last call.")
def changed_counters_are_polled(pair: Pair) -> None:
    """Let an operation succeed, then one fail; neither is returned twice."""
    near, (writes,) = counted(pair, BindFlags.FI_WRITE)
    polled, memory = poll_set(pair, writes), pair.memory(1)
    peer, address, key = memory.at()
    for what, used in (("a success", key), ("a failure", key ^ 1)):
        expect_equal(f"before {what}", polled.poll(), [])
        near.endpoint.write(b"!", peer, address, used)
        expect(polled_until(pair, polled) == [writes], f"expected the counter after {what}")
    expect_equal("afterwards", polled.poll(), [])
    expect_equal("value and error value", (writes.read(), writes.readerr()), (1, 1))
    near.failure()


@page("fi_poll", "The call returns as many as fit.")
def no_more_are_polled_than_asked_for(pair: Pair) -> None:
    """Change three, and poll two at a time."""
    counters = [pair.keep(pair.domain.cntr_open()) for _ in range(3)]
    polled = poll_set(pair, *counters)
    for counter in counters:
        counter.add(1)
    named = [polled.poll(2), polled.poll(2), polled.poll(2)]
    expect_equal("how many", [len(each) for each in named], [2, 1, 0])
    expect(set(named[0] + named[1]) == set(counters), "expected each counter once")


@page("fi_poll_del", "Removed objects are not returned.")
def removed_members_are_not_polled(pair: Pair) -> None:
    """Remove one counter of two; a counter that is not in the set cannot be removed."""
    counters = [pair.keep(pair.domain.cntr_open()) for _ in range(2)]
    polled = poll_set(pair, *counters)
    polled.remove(counters[0])
    for counter in counters:
        counter.add(1)
    expect(polled.poll() == [counters[1]], "expected the counter that is still there")
    with expect_error("removing it again", Errno.FI_EINVAL, Errno.FI_ENOENT):
        polled.remove(counters[0])


# Wait sets


@page("fi_wait", "The call returns when a queue or a counter of the set has been signalled.")
def a_wait_ends_with_an_entry(pair: Pair) -> None:
    """Signal each of two queues in turn, then a counter."""
    waiting, memory = wait_set(pair), pair.memory(1)
    sides = [pair.open(queue=waiting_queue(pair, waiting)) for _ in range(2)]
    counter = pair.keep(pair.domain.cntr_open(_SET, waiting))
    for near in sides:
        near.endpoint.write(b"!", *memory.at())
        waiting.wait(pair.patience)
        expect_equal("entries", len(near.queue.read(2)), 1)
    counter.add(1)
    waiting.wait(pair.patience)
    expect_equal("counter", counter.read(), 1)


@page("fi_wait: timeout", "The wait ends at the timeout if no object was signalled.")
def a_wait_ends_with_its_time(pair: Pair) -> None:
    """Wait for a queue that no operation reports to."""
    waiting = wait_set(pair)
    pair.open(queue=waiting_queue(pair, waiting))
    with expect_error("a wait for nothing", Errno.FI_ETIMEDOUT, Errno.FI_EAGAIN):
        waiting.wait(0.01)


@page("fi_wait_open: FI_WAIT_FD", "One descriptor stands for all members of the set.", needs={"wait_fd"})
def a_descriptor_tells_of_all_members(pair: Pair) -> None:
    """Wait after fi_trywait of the set alone, as the page has it: for a queue, and for events."""
    waiting, memory = wait_set(pair, WaitObj.FI_WAIT_FD), pair.memory(1)
    near = pair.open(queue=waiting_queue(pair, waiting))
    events = pair.keep(pair.fabric.eq_open(0, EqFlags.FI_WRITE, _SET, waiting))
    near.endpoint.write(b"!", *memory.at())
    deadline = time.monotonic() + pair.patience
    while not (entries := near.queue.read()) and time.monotonic() < deadline:
        if pair.fabric.trywait(waiting):
            ready, _, _ = select.select([waiting], [], [], pair.patience)
            expect(ready, "expected the descriptor to be readable while an operation is outstanding")
    expect_equal("entries", len(entries), 1)
    expect(pair.fabric.trywait(waiting), "expected nothing more to be read")
    events.write(9)
    expect(not pair.fabric.trywait(waiting), "expected FI_EAGAIN with an event in the queue")
    expect(
        select.select([waiting], [], [], 0)[0], "expected the descriptor to be readable with an event in the queue"
    )
    events.read()


@page("fi_cq_open: wait_obj", "FI_WAIT_SET needs a wait set.")
def a_wait_set_must_be_given(pair: Pair) -> None:
    """Open queues, counters and event queues without one, which is refused."""
    for what, call in (
        ("a completion queue", lambda: pair.domain.cq_open(wait_obj=_SET)),
        ("a counter", lambda: pair.domain.cntr_open(_SET)),
        ("an event queue", lambda: pair.fabric.eq_open(wait_obj=_SET)),
    ):
        with expect_error(what, Errno.FI_EINVAL):
            pair.keep(call())


# Without a check of their own

page.leave("NAME, SYNOPSIS, ARGUMENTS", "Names of the calls and their arguments.", "These are names.")
page.leave("fi_poll_open, fi_wait_open: flags", "Flags are reserved, and 0.", "The calls take none.")
page.leave(
    "fi_close",
    "A set with members is not closed: FI_EBUSY.",
    "Differs: what waits by it is closed first ([libfabric.md](libfabric.md#fi_poll3)).",
)
page.leave(
    "fi_poll",
    "The result may include queues and counters without news; applications read them.",
    "It allows that; none is named: `fi_poll.queues_with_entries_are_polled`",
)
page.leave(
    "wait_obj: FI_WAIT_MUTEX_COND, FI_WAIT_POLLFD; NOTES",
    "Other ways to wait.",
    "Refused with FI_ENOSYS: Python waits for one descriptor.",
)
page.leave(
    "fi_trywait",
    "Applications call fi_trywait before they wait; otherwise the wait is undefined.",
    "`fi_cq.trywait_tells_of_entries_that_are_there`",
)
page.leave(
    "fi_control: FI_GETWAIT, FI_GETWAITOBJ",
    "The commands return the descriptor, and its kind.",
    "`fi_poll.a_descriptor_tells_of_all_members`",
)
page.leave("RETURN VALUES", "Numbers of entries, or a negative errno.", "[How C becomes Python](libfabric.md).")
