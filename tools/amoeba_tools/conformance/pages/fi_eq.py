"""fi_eq(3): event queues."""

import select
import threading
import time

from amoeba.core.errno import Errno
from amoeba.libfabric.objects.address_vector import AddressVector
from amoeba.libfabric.objects.constants import AvFlags, EqEvent, EqFlags, WaitObj
from amoeba.libfabric.objects.queues.event_queue import EqEntry, EqErrEntry, EventQueue

from amoeba_tools.conformance.expectations import expect, expect_equal, expect_error
from amoeba_tools.conformance.pair import Pair
from amoeba_tools.conformance.registry import Page

page = Page("fi_eq", "1.17")

_SHORT = 0.05
"""Seconds that a wait for nothing takes."""
_WRONG = b"no address of this format"


def queue_of(pair: Pair, size: int = 0, wait_obj: WaitObj = WaitObj.FI_WAIT_UNSPEC) -> EventQueue:
    """Open a queue that the application may write to."""
    return pair.keep(pair.fabric.eq_open(size, EqFlags.FI_WRITE, wait_obj))


def with_error(pair: Pair, queue: EventQueue) -> AddressVector:
    """Let an insertion of one wrong address report to the queue: an error, then an event. Returns the vector."""
    peers = pair.keep(pair.domain.av_open(flags=AvFlags.FI_EVENT))
    peers.bind(queue)
    peers.insert_all([_WRONG], context="mine")
    return peers


@page("fi_eq_read", "Without events, a read returns at once: FI_EAGAIN.")
def an_empty_queue_has_nothing(pair: Pair) -> None:
    """Expect neither an event nor an error."""
    queue = queue_of(pair)
    expect_equal("event", queue.read(), None)
    expect_equal("error", queue.readerr(), None)
    expect_equal("event looked at", queue.read(EqFlags.FI_PEEK), None)


@page("fi_eq_write", "The application inserts events of its own, which are read as they were written.")
def written_events_are_read_as_they_are(pair: Pair) -> None:
    """Use any number of 32 bits as event, any object as context."""
    queue, context = queue_of(pair), object()
    for event in (0, 1234, 2**32 - 1):
        queue.write(event, fid=queue, context=context, data=event + 1)
        expect_equal("event", queue.read(), EqEntry(event, queue, context, event + 1))


@page("fi_eq_read", "A read returns one event at most.")
def events_are_read_one_by_one_in_order(pair: Pair) -> None:
    """Write five events of the application."""
    queue = queue_of(pair)
    for event in range(5):
        queue.write(event)
    entries = [queue.read() for _ in range(6)]
    expect_equal("events", [entry and entry.event for entry in entries], [0, 1, 2, 3, 4, None])


@page("fi_eq_read: FI_PEEK", "The event is read and not consumed.")
def peek_leaves_the_event(pair: Pair) -> None:
    """Peek twice at the same event, then read it."""
    queue = queue_of(pair)
    queue.write(7)
    queue.write(8)
    seen = [queue.read(flags) for flags in (EqFlags.FI_PEEK, EqFlags.FI_PEEK, EqFlags(0), EqFlags(0))]
    expect_equal("events", [entry and entry.event for entry in seen], [7, 7, 7, 8])


@page("flags: FI_WRITE", "A queue opened without it cannot be written to.")
def writing_needs_the_flag(pair: Pair) -> None:
    """Check that nothing is inserted."""
    queue = pair.keep(pair.fabric.eq_open())
    with expect_error("write", Errno.FI_ENOSYS, Errno.FI_EINVAL, Errno.FI_EOPNOTSUPP):
        queue.write(1)
    expect_equal("event", queue.read(), None)


@page("SYNOPSIS", "An event is a number of 32 bits.")
def events_of_more_bits_are_refused(pair: Pair) -> None:
    """Check that larger numbers are refused, not truncated."""
    queue = queue_of(pair)
    for event in (-1, 2**32):
        with expect_error(f"event {event}", Errno.FI_EINVAL):
            queue.write(event)
    expect_equal("event", queue.read(), None)


# Errors


@page("fi_eq_readerr", "While an error is next, reads fail: FI_EAVAIL.")
def an_error_must_be_read_before_anything_else(pair: Pair) -> None:
    """Try several times; after the error the event behind it can be read."""
    queue = queue_of(pair)
    peers = with_error(pair, queue)
    for flags in (EqFlags(0), EqFlags.FI_PEEK):
        with expect_error("read", Errno.FI_EAVAIL):
            queue.read(flags)
        with expect_error("sread", Errno.FI_EAVAIL):
            queue.sread(_SHORT, flags)
    expect(queue.readerr() is not None, "expected an entry of readerr(), got none")
    expect_equal("event", queue.read(), EqEntry(EqEvent.FI_AV_COMPLETE, peers, "mine", 0))


@page("fi_eq_readerr", "An error entry reports the failure, and the reason.")
def every_field_of_an_error_entry_is_right(pair: Pair) -> None:
    """Insert an invalid address, and check all six fields."""
    queue = queue_of(pair)
    peers, entry = with_error(pair, queue), queue.readerr()
    expect(isinstance(entry, EqErrEntry), f"expected an EqErrEntry, got {entry!r}")
    assert entry is not None
    expect_equal("fid, context and data", (entry.fid, entry.context, entry.data), (peers, "mine", 0))
    expect_equal("err", entry.err, Errno.FI_EINVAL)
    expect(entry.err > 0, f"expected a positive err, got {entry.err}")
    expect(isinstance(entry.err_data, bytes), f"expected bytes in err_data, got {entry.err_data!r}")
    expect_equal("further errors", queue.readerr(), None)


@page("fi_eq_readerr", "The call returns at once if the next event is no error.")
def without_errors_there_is_no_error_entry(pair: Pair) -> None:
    """Check that the event stays in the queue."""
    queue = queue_of(pair)
    queue.write(5)
    expect_equal("error", queue.readerr(), None)
    entry = queue.read()
    expect(entry is not None and entry.event == 5, f"expected event 5, got {entry}")


@page("fi_eq_strerror", "The call converts the provider's error number into a printable string.")
def errors_of_the_provider_have_words(pair: Pair) -> None:
    """Print the error of an invalid address."""
    queue = queue_of(pair)
    with_error(pair, queue)
    entry = queue.readerr()
    assert entry is not None
    text = queue.strerror(entry.prov_errno)
    expect(text and text.isprintable(), f"expected words, got {text!r}")


# Waiting


@page("fi_eq_sread", "The call waits for an event.")
def sread_waits_for_an_event(pair: Pair) -> None:
    """Wait for an event that another thread writes."""
    queue = queue_of(pair)
    writer = threading.Timer(_SHORT, queue.write, (9,))
    writer.start()
    entry = queue.sread(pair.patience)
    writer.join()
    expect(entry is not None and entry.event == 9, f"expected event 9, got {entry}")


@page("RETURN VALUES", "When the timeout of fi_eq_sread is over, it returns without an event: FI_EAGAIN.")
def sread_ends_at_its_timeout(pair: Pair) -> None:
    """Expect no earlier end."""
    queue, begin = queue_of(pair), time.monotonic()
    expect_equal("event", queue.sread(_SHORT), None)
    waited = time.monotonic() - begin
    expect(waited >= _SHORT, f"expected to wait {_SHORT} s, waited {waited:.3f} s")


@page("wait_obj: FI_WAIT_NONE", "A queue opened with it cannot be waited for.")
def sread_without_a_wait_object_is_refused(pair: Pair) -> None:
    """Check that the queue can still be read."""
    queue = queue_of(pair, wait_obj=WaitObj.FI_WAIT_NONE)
    queue.write(1)
    with expect_error("sread", Errno.FI_ENOSYS, Errno.FI_EINVAL, Errno.FI_EOPNOTSUPP):
        queue.sread(_SHORT)
    expect(queue.read() is not None, "expected the event, got none")


@page("wait_obj: FI_WAIT_FD", "The descriptor can be waited for in select.")
def the_descriptor_is_readable_while_there_are_events(pair: Pair) -> None:
    """Check it before the first event, and when the last has been read."""
    queue = queue_of(pair, wait_obj=WaitObj.FI_WAIT_FD)
    expect_equal("readable without events", select.select([queue], [], [], 0)[0], [])
    queue.write(1)
    queue.write(2)
    for _ in range(2):
        expect_equal("readable with events", select.select([queue], [], [], pair.patience)[0], [queue])
        queue.read()
    expect_equal("readable after the last", select.select([queue], [], [], 0)[0], [])


# Overrun


def overrun(pair: Pair) -> EventQueue:
    """Return a queue for one event that has overrun: it reports an error, and has lost an event."""
    queue = queue_of(pair, size=1)
    with_error(pair, queue)
    return queue


@page("NOTES", "What an overrun queue still has can be read, then reads fail with FI_EOVERRUN.")
def an_overrun_queue_gives_what_it_has(pair: Pair) -> None:
    """Read several times."""
    queue = overrun(pair)
    expect(queue.readerr() is not None, "expected the first entry, got none")
    for _ in range(2):
        with expect_error("read", Errno.FI_EOVERRUN):
            queue.read()
        with expect_error("sread", Errno.FI_EOVERRUN):
            queue.sread(_SHORT)


@page("NOTES", "Writing to an overrun queue fails with FI_EOVERRUN.")
def an_overrun_queue_cannot_be_written_to(pair: Pair) -> None:
    """Write while it still has something, and afterwards."""
    queue = overrun(pair)
    with expect_error("write", Errno.FI_EOVERRUN):
        queue.write(1)
    queue.readerr()
    with expect_error("write", Errno.FI_EOVERRUN):
        queue.write(1)


@page("size", "A queue holds at least as many events as it was opened for.")
def a_queue_holds_as_many_events_as_its_size(pair: Pair) -> None:
    """Write eight events; further ones are refused until there is free space."""
    queue = queue_of(pair, size=8)
    for event in range(8):
        queue.write(event)
    with expect_error("one more", Errno.FI_EAGAIN):
        queue.write(8)
    first = queue.read()
    queue.write(9)
    entries = [first, *(queue.read() for _ in range(8))]
    expect_equal("events", [entry and entry.event for entry in entries], [*range(8), 9])


# Without a check of their own

page.leave("NAME, SYNOPSIS, ARGUMENTS", "Names of the calls and their arguments.", "These are names.")
page.leave(
    "flags: FI_AFFINITY; signaling_vector", "Where interrupts should go.", "A hint, and there is no such choice."
)
page.leave(
    "wait_obj",
    "The default is FI_WAIT_NONE; FI_WAIT_MUTEX_COND is another way to wait.",
    "Differs: eq_open() without an argument makes a queue that can be waited for; that is refused: FI_ENOSYS.",
)
page.leave(
    "fi_close",
    "A queue that is bound to other objects is not closed: FI_EBUSY.",
    "Differs: they are closed with it ([libfabric.md](libfabric.md)).",
)
page.leave(
    "Asynchronous Control Operations",
    "FI_MR_COMPLETE, FI_AV_COMPLETE: which object it is about, the context of the call, and data.",
    "`fi_mr.registration_reports_its_end_as_an_event`, `fi_av.the_end_of_an_insertion_is_an_event`",
)
page.leave("Asynchronous Control Operations", "FI_JOIN_COMPLETE.", "FI_MULTICAST is not offered.")
page.leave(
    "Connection Notification",
    "FI_CONNREQ, FI_CONNECTED, FI_SHUTDOWN: of which endpoint, with which info and data.",
    "`fi_cm.requests_are_events`, `fi_cm.both_sides_are_told_of_the_connection`, "
    "`fi_cm.the_peer_is_told_of_the_end`, `fi_cm.parameters_go_with_requests_and_answers`",
)
page.leave(
    "Asynchronous Error Notification",
    "Queues and endpoints may report errors that disable them.",
    "The queue has no such errors.",
)
page.leave(
    "fi_eq_readerr: err_data",
    "Errors may have data.",
    "`fi_cm.a_rejected_request_is_an_error`",
)
page.leave("RETURN VALUES", "Numbers of bytes, or a negative errno.", "[How C becomes Python](libfabric.md).")
