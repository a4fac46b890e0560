"""fi_cntr(3): counters."""

import time
from collections.abc import Callable, Iterable

from amoeba.core.errno import Errno
from amoeba.libfabric.objects.constants import BindFlags, Op, WaitObj
from amoeba.libfabric.objects.queues.counters import Counter

from amoeba_tools.conformance.expectations import expect, expect_equal, expect_error
from amoeba_tools.conformance.pages.fi_atomic import memory_of, words
from amoeba_tools.conformance.pages.fi_cq import fail, how_a_wait_ends
from amoeba_tools.conformance.pages.fi_rma import pattern
from amoeba_tools.conformance.pair import Initiator, Pair
from amoeba_tools.conformance.registry import Page

page = Page("fi_cntr", "1.17", needs={"rma"})

_SHORT = 0.05
"""Seconds that a wait for nothing takes."""
_SELECTIVE = BindFlags.FI_SELECTIVE_COMPLETION


def counted(pair: Pair, *kinds: BindFlags, bind: BindFlags = _SELECTIVE) -> tuple[Initiator, list[Counter]]:
    """Open an endpoint with a counter for each of these kinds."""
    counters = [pair.keep(pair.domain.cntr_open()) for _ in kinds]
    return pair.open(bind=bind, counters=dict(zip(kinds, counters, strict=True))), counters


def values_of(counters: Iterable[Counter]) -> list[tuple[int, int]]:
    """(value, error value) of each."""
    return [(counter.read(), counter.readerr()) for counter in counters]


def becomes(what: str, read: Callable[[], object], expected: object, patience: float) -> None:
    """Read until a value is there: an update may be seen later than the entry in the queue."""
    deadline = time.monotonic() + patience
    while (value := read()) != expected and time.monotonic() < deadline:
        pass
    expect_equal(what, value, expected)


@page("fi_cntr_open", "A counter begins at 0, and so does its error value.")
def a_new_counter_is_zero(pair: Pair) -> None:
    """Bound to nothing."""
    counter = pair.keep(pair.domain.cntr_open())
    expect_equal("value and error value", (counter.read(), counter.readerr()), (0, 0))


@page("events: FI_CNTR_EVENTS_COMP", "The counter increments for every operation of its kind that completes.")
def writes_are_counted_as_such(pair: Pair) -> None:
    """Count writes and base atomics by FI_WRITE; the counter of the other kind stays."""
    near, (writes, reads) = counted(pair, BindFlags.FI_WRITE, BindFlags.FI_READ)
    memory, expected = memory_of(pair, 0), 4
    for _ in range(4):
        near.endpoint.write(words(1), *memory.at())
    if "atomic" in pair.offers:
        near.endpoint.atomic(words(1), *memory.at(), Op.FI_SUM)
        expected += 1
    writes.wait(expected, pair.patience)
    expect_equal("writes and reads", (writes.read(), reads.read()), (expected, 0))


@page("events: FI_CNTR_EVENTS_COMP", "The kinds that are counted are chosen when the counter is bound.")
def reads_are_counted_as_such(pair: Pair) -> None:
    """Count reads, fetching and comparing atomics by FI_READ; the counter of the other kind stays."""
    near, (writes, reads) = counted(pair, BindFlags.FI_WRITE, BindFlags.FI_READ)
    memory, expected = memory_of(pair, 0), 3
    for _ in range(3):
        near.endpoint.read(words(1), *memory.at())
    if "atomic" in pair.offers:
        near.endpoint.fetch_atomic(words(1), words(0), *memory.at(), Op.FI_SUM)
        near.endpoint.compare_atomic(words(1), words(0), words(0), *memory.at(), Op.FI_CSWAP)
        expected += 2
    reads.wait(expected, pair.patience)
    expect_equal("writes and reads", (writes.read(), reads.read()), (0, expected))


@page("events: FI_CNTR_EVENTS_COMP", "One counter may count several kinds.")
def one_counter_counts_both_kinds(pair: Pair) -> None:
    """Count two writes and a read."""
    near, (counter,) = counted(pair, BindFlags.FI_WRITE | BindFlags.FI_READ)
    memory = pair.memory(8)
    near.endpoint.write(pattern(8), *memory.at())
    near.endpoint.read(bytearray(8), *memory.at())
    near.endpoint.write(pattern(8), *memory.at())
    counter.wait(3, pair.patience)
    expect_equal("value", counter.read(), 3)


@page("events: FI_CNTR_EVENTS_COMP", "Operations are counted whether they write an entry into a queue or not.")
def operations_without_entries_are_counted(pair: Pair) -> None:
    """Count injected operations, and those of an endpoint that reports none."""
    near, (counter,) = counted(pair, BindFlags.FI_WRITE)
    memory = pair.memory(8)
    near.endpoint.inject_write(pattern(8), *memory.at())
    near.endpoint.write(pattern(8), *memory.at())
    counter.wait(2, pair.patience)
    near.nothing_more()


@page("events: FI_CNTR_EVENTS_COMP", "Counting takes nothing away from the completion queue.")
def entries_of_counted_operations_remain(pair: Pair) -> None:
    """Read the counter first: the queue has every entry afterwards."""
    near, (counter,) = counted(pair, BindFlags.FI_WRITE, bind=BindFlags(0))
    memory = pair.memory(8)
    for index in range(5):
        near.endpoint.write(pattern(8), *memory.at(), context=index)
    counter.wait(5, pair.patience)
    expect_equal("contexts", [entry.op_context for entry in near.finish_all(5)], list(range(5)))
    expect_equal("value", counter.read(), 5)


@page("events: FI_CNTR_EVENTS_COMP", "An operation is counted once, in however many pieces it is carried out.")
def operations_on_vectors_count_once(pair: Pair) -> None:
    """Use four buffers, longer than a frame together."""
    near, (counter,) = counted(pair, BindFlags.FI_WRITE)
    memory = pair.memory(8000)
    near.endpoint.writev([pattern(2000, index) for index in range(4)], *memory.at())
    near.endpoint.write(b"", *memory.at())
    counter.wait(2, pair.patience)
    expect_equal("value", counter.read(), 2)


@page("DESCRIPTION", "Operations that fail increment the error value instead.")
def failures_are_counted_apart(pair: Pair) -> None:
    """Let one of three fail."""
    near, (counter,) = counted(pair, BindFlags.FI_WRITE)
    memory = pair.memory(8)
    near.endpoint.write(pattern(8), *memory.at())
    fail(near, memory)
    near.endpoint.write(pattern(8), *memory.at())
    becomes("error value", counter.readerr, 1, pair.patience)
    becomes("value", counter.read, 2, pair.patience)
    near.failure(Errno.FI_ENOKEY)


@page("events: FI_CNTR_EVENTS_COMP", "The counter increments for completions of every endpoint that is bound to it.")
def endpoints_share_a_counter(pair: Pair) -> None:
    """Count three operations of one, two of the other."""
    near, (counter,) = counted(pair, BindFlags.FI_WRITE)
    other, memory = pair.open(bind=_SELECTIVE, counters={BindFlags.FI_WRITE: counter}), pair.memory(8)
    for initiator, count in ((near, 3), (other, 2)):
        for _ in range(count):
            initiator.endpoint.write(pattern(8), *memory.at())
    counter.wait(5, pair.patience)
    expect_equal("value", counter.read(), 5)


@page("fi_cntr_add", "The call adds to the value.")
def add_adds(pair: Pair) -> None:
    """Add twice; the error value stays."""
    counter = pair.keep(pair.domain.cntr_open())
    counter.add(5)
    counter.add(7)
    becomes("value", counter.read, 12, pair.patience)
    expect_equal("error value", counter.readerr(), 0)


@page("fi_cntr_adderr", "The call adds to the error value.")
def adderr_adds_errors(pair: Pair) -> None:
    """Add twice; the value stays."""
    counter = pair.keep(pair.domain.cntr_open())
    counter.adderr(5)
    counter.adderr(7)
    becomes("error value", counter.readerr, 12, pair.patience)
    expect_equal("value", counter.read(), 0)


@page("fi_cntr_set", "The call sets the value.")
def set_sets_the_value(pair: Pair) -> None:
    """Set it up, down, and to the largest value; later completions count on from there."""
    near, (counter,) = counted(pair, BindFlags.FI_WRITE)
    for value in (1000, 10, 2**64 - 1, 40):
        counter.set(value)
        becomes("value", counter.read, value, pair.patience)
    memory = pair.memory(8)
    near.endpoint.write(pattern(8), *memory.at())
    counter.wait(41, pair.patience)
    expect_equal("value and error value", (counter.read(), counter.readerr()), (41, 0))


@page("fi_cntr_seterr", "The call sets the error value.")
def seterr_sets_the_error_value(pair: Pair) -> None:
    """Set it up and down; the value stays."""
    counter = pair.keep(pair.domain.cntr_open())
    for value in (1000, 10, 0):
        counter.seterr(value)
        becomes("error value", counter.readerr, value, pair.patience)
    expect_equal("value", counter.read(), 0)


@page("fi_cntr_wait", "When it returns, the value is at least the threshold.")
def wait_waits_for_the_threshold(pair: Pair) -> None:
    """Wait for five of eight writes, and then for all."""
    near, (counter,) = counted(pair, BindFlags.FI_WRITE)
    memory = pair.memory(8)
    for _ in range(8):
        near.endpoint.write(pattern(8), *memory.at())
    for threshold in (5, 8):
        counter.wait(threshold, pair.patience)
        value = counter.read()
        expect(value >= threshold, f"expected {threshold} or more, got {value}")


@page("fi_cntr_wait", "A threshold that is reached already is not waited for.")
def wait_for_what_is_reached_returns_at_once(pair: Pair) -> None:
    """Wait for a counter that no operation will ever increment."""
    counter = pair.keep(pair.domain.cntr_open())
    counter.wait(0)
    counter.set(5)
    counter.wait(5)


@page("fi_cntr_wait", "At the timeout it returns FI_ETIMEDOUT, and the error value is as it was.")
def wait_ends_at_its_timeout(pair: Pair) -> None:
    """Expect no earlier end."""
    counter, begin = pair.keep(pair.domain.cntr_open()), time.monotonic()
    counter.seterr(3)
    with expect_error("a wait for nothing", Errno.FI_ETIMEDOUT):
        counter.wait(1, _SHORT)
    waited = time.monotonic() - begin
    expect(waited >= _SHORT, f"expected to wait {_SHORT} s, waited {waited:.3f} s")
    expect_equal("value and error value", (counter.read(), counter.readerr()), (0, 3))


@page("fi_cntr_wait", "Any change of the error value ends the wait.")
def wait_ends_when_an_operation_fails(pair: Pair) -> None:
    """Wait for two operations, of which one fails."""
    near, (counter,) = counted(pair, BindFlags.FI_WRITE)
    memory = pair.memory(8)
    near.endpoint.write(pattern(8), *memory.at())
    fail(near, memory)
    with expect_error("a wait for two", Errno.FI_EAVAIL):
        counter.wait(2, pair.patience)
    expect_equal("error value", counter.readerr(), 1)
    near.failure(Errno.FI_ENOKEY)


@page("fi_cntr_wait", "A change of the error value ends the wait of another thread.")
def wait_ends_when_another_thread_adds_an_error(pair: Pair) -> None:
    """Wait long for a value that is never reached."""
    counter = pair.keep(pair.domain.cntr_open())
    ended = how_a_wait_ends(lambda: counter.wait(1, pair.patience), lambda: counter.adderr(1))
    expect_equal("how the wait ended", ended, Errno.FI_EAVAIL)


@page("fi_cntr_wait", "A counter of FI_WAIT_NONE cannot be waited for.")
def wait_without_a_wait_object_is_refused(pair: Pair) -> None:
    """Check that the counter can still be read."""
    counter = pair.keep(pair.domain.cntr_open(WaitObj.FI_WAIT_NONE))
    with expect_error("wait", Errno.FI_ENOSYS, Errno.FI_EINVAL, Errno.FI_EOPNOTSUPP):
        counter.wait(1, _SHORT)
    expect_equal("value", counter.read(), 0)


@page("SYNOPSIS", "Values have 64 bits.")
def what_has_no_64_bits_is_refused(pair: Pair) -> None:
    """Check that larger values are refused, not truncated."""
    counter = pair.keep(pair.domain.cntr_open())
    for call in (counter.add, counter.adderr, counter.set, counter.seterr):
        for value in (-1, 2**64):
            with expect_error(f"{call.__name__}({value})", Errno.FI_EINVAL):
                call(value)
    expect_equal("value and error value", (counter.read(), counter.readerr()), (0, 0))


# Without a check of their own

page.leave("NAME, ARGUMENTS", "Names of the calls and their arguments.", "These are names.")
page.leave(
    "DESCRIPTION",
    "Counters are updated as the completion levels of fi_cq(3) say.",
    "`fi_atomic.updates_are_visible_when_a_counter_says_so`, `fi_msg.sends_are_counted`",
)
page.leave(
    "wait_obj",
    "The default is FI_WAIT_NONE; FI_WAIT_MUTEX_COND is another way to wait.",
    "Differs: cntr_open() without an argument makes one that can be waited for; that is refused: FI_ENOSYS.",
)
page.leave("flags", "Flags are reserved, and 0.", "cntr_open() takes none.")
page.leave(
    "fi_close",
    "A counter with endpoints or regions bound to it is not closed: FI_EBUSY.",
    "Differs: what is bound to it is closed with it ([libfabric.md](libfabric.md)).",
)
page.leave(
    "fi_cntr_control: FI_GETOPSFLAG, FI_SETOPSFLAG",
    "Default flags of a counter.",
    "A counter has no default flags.",
)
page.leave(
    "NOTES",
    "An update may be seen a while later, but at last it is.",
    "It allows a delay. Checks wait for the value: `fi_trigger.counters_can_be_changed_by_work`",
)
page.leave(
    "NOTES",
    "A counter is stable when it is set.",
    "A duty of the application.",
)
page.leave("RETURN VALUES", "Values, or a negative errno.", "[How C becomes Python](libfabric.md).")
