"""fi_cq(3): completion queues."""

import contextlib
import select
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from amoeba.core.errno import Errno
from amoeba.core.errors import ErrorAvailableError, FabricError
from amoeba.libfabric.objects.constants import FI_ADDR_NOTAVAIL, Caps, CqFormat, MrAccess, Op, OpFlags, WaitObj
from amoeba.libfabric.objects.queues.completion import CqDataEntry, CqEntry, CqMsgEntry, CqTaggedEntry

from amoeba_tools.conformance.expectations import expect, expect_equal, expect_error
from amoeba_tools.conformance.pages.fi_atomic import held, memory_of, words
from amoeba_tools.conformance.pages.fi_atomic import message as atomic_message
from amoeba_tools.conformance.pages.fi_rma import message, pattern
from amoeba_tools.conformance.pair import Initiator, Pair, RemoteMemory
from amoeba_tools.conformance.registry import Page

page = Page("fi_cq", "1.17", needs={"rma"})

_WRITE = int(Caps.FI_RMA | Caps.FI_WRITE)
_SHORT = 0.05
"""Seconds that a wait for nothing takes."""


def fail(near: Initiator, memory: RemoteMemory, **arguments: Any) -> None:
    """Post a write with an unknown key, which the target must refuse."""
    near.endpoint.write(pattern(8), memory.peer, memory.address, memory.key ^ 1, **arguments)


def how_a_wait_ends(wait: Callable[[], object], end: Callable[[], object]) -> Errno:
    """Let another thread wait, then do what ends that; the error of the wait, which has a limit of its own."""
    ended = [Errno.FI_SUCCESS]

    def run() -> None:
        try:
            wait()
        except FabricError as error:
            ended.append(error.fi_errno)

    waiter = threading.Thread(target=run)
    waiter.start()
    time.sleep(_SHORT)  # so that it waits; if not, it finds what has been done when it would
    end()
    waiter.join()
    return ended[-1]


# Opening and formats


def _entry_of(pair: Pair, cq_format: CqFormat) -> Any:
    """Return the entry of a write in a queue of this format."""
    near, memory = pair.open(cq_format=cq_format), pair.memory(8)
    near.endpoint.write(pattern(8), *memory.at(), context="mine")
    return near.finish()


@page("format: FI_CQ_FORMAT_CONTEXT", "Entries are the operation's context.")
def context_format_has_the_context(pair: Pair) -> None:
    """Read the entry of a write."""
    expect_equal("entry", _entry_of(pair, CqFormat.FI_CQ_FORMAT_CONTEXT), CqEntry("mine"))


@page("format: FI_CQ_FORMAT_MSG", "Entries have context, flags and length.")
def msg_format_has_flags_and_length(pair: Pair) -> None:
    """Read the entry of a write."""
    entry = _entry_of(pair, CqFormat.FI_CQ_FORMAT_MSG)
    expect(isinstance(entry, CqMsgEntry), f"expected a CqMsgEntry, got {entry!r}")
    expect_equal("op_context and flags", (entry.op_context, entry.flags), ("mine", _WRITE))


@page("format: FI_CQ_FORMAT_DATA", "Entries have data, too.")
def data_format_has_data(pair: Pair) -> None:
    """Read the entry of a write, which received no data: FI_REMOTE_CQ_DATA is not in its flags."""
    entry = _entry_of(pair, CqFormat.FI_CQ_FORMAT_DATA)
    expect(isinstance(entry, CqDataEntry), f"expected a CqDataEntry, got {entry!r}")
    expect_equal("op_context and flags", (entry.op_context, entry.flags), ("mine", _WRITE))


@page("format: FI_CQ_FORMAT_TAGGED", "Entries have a tag, too.")
def tagged_format_has_a_tag(pair: Pair) -> None:
    """Read the entry of a write, which has no tag."""
    entry = _entry_of(pair, CqFormat.FI_CQ_FORMAT_TAGGED)
    expect(isinstance(entry, CqTaggedEntry), f"expected a CqTaggedEntry, got {entry!r}")
    expect_equal("op_context, flags and tag", (entry.op_context, entry.flags, entry.tag), ("mine", _WRITE, 0))


@page("format: FI_CQ_FORMAT_UNSPEC", "The provider chooses a format, in which the queue then works.")
def unspecified_format_is_one_of_the_others(pair: Pair) -> None:
    """Read the chosen format from the queue."""
    near, memory = pair.open(cq_format=CqFormat.FI_CQ_FORMAT_UNSPEC), pair.memory(8)
    expect(near.queue.format is not CqFormat.FI_CQ_FORMAT_UNSPEC, "expected the format that was chosen, got none")
    near.endpoint.write(pattern(8), *memory.at(), context="mine")
    expect_equal("op_context", near.finish().op_context, "mine")


# Reading


@page("fi_cq_read", "Without entries, a read returns at once: FI_EAGAIN.")
def an_empty_queue_has_nothing(pair: Pair) -> None:
    """Read for one entry and for many, with and without sources."""
    near = pair.open()
    for count in (1, 64):
        expect_equal("entries", near.queue.read(count), [])
        expect_equal("entries with sources", near.queue.readfrom(count), [])


@page("fi_cq_read", "A read takes up to count entries.")
def a_read_takes_at_most_count_entries(pair: Pair) -> None:
    """Read eight completed operations as 3, 3 and 2, in the order of posting."""
    near, memory = pair.open(), pair.memory(8)
    for index in range(8):
        near.endpoint.write(pattern(8), *memory.at(), context=index)
    batches = [[entry.op_context for entry in near.finish_all(count)] for count in (3, 3, 2)]
    expect_equal("batches", batches, [[0, 1, 2], [3, 4, 5], [6, 7]])
    near.nothing_more()


@page("fi_cq_read", "A count of 0 drives progress.")
def reading_no_entries_drives_progress(pair: Pair) -> None:
    """Let a write arrive with no other calls; its entry is still there afterwards."""
    near, memory = pair.open(), pair.memory(8)
    near.endpoint.writemsg(message(memory, pattern(8), context="mine"), OpFlags.FI_MORE)
    deadline = time.monotonic() + pair.patience
    while memory.load() != pattern(8):
        expect_equal("entries of a read of none", near.queue.read(0), [])
        expect(time.monotonic() < deadline, f"nothing arrived within {pair.patience:g} s")
    expect_equal("op_context", near.finish().op_context, "mine")


@page("op_context", "The context is what the operation was given, whatever it is.")
def contexts_come_back_as_they_are(pair: Pair) -> None:
    """Get back the same objects, None among them."""
    memory, contexts = pair.memory(8), [None, 0, "text", object(), pair]
    for context in contexts:
        pair.near.endpoint.write(b"", *memory.at(), context=context)
    entries = pair.near.finish_all(len(contexts))
    same = [entry.op_context is context for entry, context in zip(entries, contexts, strict=True)]
    expect_equal("whether each is the same object", same, [True] * len(contexts))


@page("COMPLETION FLAGS", "FI_RMA or FI_ATOMIC, with FI_READ or FI_WRITE, tell what has completed.", needs={"atomic"})
def flags_tell_what_has_completed(pair: Pair) -> None:
    """Post one of each, also on vectors."""
    memory, result = memory_of(pair, 0), words(0)
    near = pair.near.endpoint
    near.write(words(1), *memory.at())
    near.writev([bytes(4), bytes(4)], *memory.at())
    near.read(result, *memory.at())
    near.readv([result], *memory.at())
    near.atomic(words(1), *memory.at(), Op.FI_SUM)
    near.atomicv([words(1)], *memory.at(), Op.FI_SUM)
    near.fetch_atomic(words(1), result, *memory.at(), Op.FI_SUM)
    near.compare_atomic(words(1), words(1), result, *memory.at(), Op.FI_CSWAP)
    read, atomic = int(Caps.FI_RMA | Caps.FI_READ), int(Caps.FI_ATOMIC | Caps.FI_WRITE)
    fetch = int(Caps.FI_ATOMIC | Caps.FI_READ)
    told = [entry.flags for entry in pair.near.finish_all(8)]
    expect_equal("flags", told, [_WRITE, _WRITE, read, read, atomic, atomic, fetch, fetch])


# At the target


@page("COMPLETION FLAGS", "At the target, FI_REMOTE_WRITE and FI_REMOTE_CQ_DATA tell of a peer's write with data.")
def the_target_is_told_what_kind_of_write_it_was(pair: Pair) -> None:
    """Expect FI_RMA for a write, FI_ATOMIC for an atomic."""
    memory = memory_of(pair, 0)
    pair.near.endpoint.writedata(words(1), 1, *memory.at())
    expected = [int(Caps.FI_RMA | Caps.FI_REMOTE_WRITE | Caps.FI_REMOTE_CQ_DATA)]
    if "atomic" in pair.offers:
        pair.near.endpoint.atomicmsg(atomic_message(memory, words(1), data=2), OpFlags.FI_REMOTE_CQ_DATA)
        expected.append(int(Caps.FI_ATOMIC | Caps.FI_REMOTE_WRITE | Caps.FI_REMOTE_CQ_DATA))
    heard = pair.target.hear(len(expected), pair.patience)
    expect_equal("flags", [entry.flags for entry in heard], expected)
    pair.near.finish_all(len(expected))


@page("op_context", "An entry that no posted operation belongs to has no context.")
def entries_about_peers_have_no_context(pair: Pair) -> None:
    """Read the entry at the target of a write with data."""
    memory = pair.memory(8)
    pair.near.endpoint.writedata(pattern(8), 1, *memory.at(), context="mine")
    (entry,) = pair.target.hear(1, pair.patience)
    expect(entry.anonymous, "expected None as op_context at the target")
    pair.near.finish()


@page("data", "Completion data arrives as it was sent, in host byte order.")
def data_arrives_with_all_its_bits(pair: Pair) -> None:
    """Send as many bits as cq_data_size has; they arrive in order of sending."""
    memory, most = pair.memory(8), 8 * pair.info.domain_attr.cq_data_size
    values = [0, 1, (1 << most) - 1, 1 << (most - 1), 0x0123_4567_89AB_CDEF & (1 << most) - 1]
    for value in values:
        pair.near.endpoint.writedata(b"", value, *memory.at())
    heard = pair.target.hear(len(values), pair.patience)
    expect_equal("data", [entry.data for entry in heard], values)
    pair.near.finish_all(len(values))


@page("data", "Data has as many bits as cq_data_size allows.")
def data_of_more_bits_is_refused(pair: Pair) -> None:
    """Use one bit too many; nothing is sent."""
    memory, most = pair.memory(8), 8 * pair.info.domain_attr.cq_data_size
    with expect_error(f"{most + 1} bits of data", Errno.FI_EINVAL):
        pair.near.endpoint.writedata(pattern(8), 1 << most, *memory.at())
    pair.near.nothing_more()
    expect_equal("memory", memory.load(), bytes(8))


@page("fi_cq_readfrom", "The source of a peer's operation is its number in the address vector.", needs={"source"})
def the_source_of_a_known_peer_is_told(pair: Pair) -> None:
    """Insert this side at the target first."""
    memory = pair.memory(8)
    pair.near.endpoint.writedata(pattern(8), 1, *memory.at())
    expect_equal("source", [entry.source for entry in pair.target.hear(1, pair.patience)], [0])
    pair.near.finish()


@page("fi_cq_readfrom", "Sources that are not in the address vector are FI_ADDR_NOTAVAIL.", needs={"source"})
def the_source_of_a_stranger_is_not_available(pair: Pair) -> None:
    """Use another endpoint of this side, which the target does not know."""
    near, memory = pair.open(), pair.memory(8)
    near.endpoint.writedata(pattern(8), 1, *memory.at())
    expect_equal("source", [entry.source for entry in pair.target.hear(1, pair.patience)], [FI_ADDR_NOTAVAIL])
    near.finish()


@page("fi_cq_readfrom", "Entries about this side's own operations have no source: FI_ADDR_NOTAVAIL.")
def own_operations_have_no_source(pair: Pair) -> None:
    """Read by fi_cq_readfrom, and by fi_cq_sreadfrom."""
    near, memory = pair.open(), pair.memory(8)
    near.endpoint.write(pattern(8), *memory.at(), context="a")
    ((entry, source),) = near.queue.sreadfrom(1, pair.patience)
    expect_equal("op_context and source", (entry.op_context, source), ("a", FI_ADDR_NOTAVAIL))


# Errors


@page("fi_cq_read", "While an error entry is next, reads fail: FI_EAVAIL.")
def an_error_must_be_read_before_anything_else(pair: Pair) -> None:
    """Try several times, by every call; readerr ends this."""
    near, memory = pair.open(), pair.memory(8)
    fail(near, memory)
    with contextlib.suppress(ErrorAvailableError):
        near.queue.sread(1, pair.patience)
    for read in (near.queue.read, near.queue.readfrom, near.queue.sread, near.queue.sreadfrom):
        with expect_error("a read while there is an error", Errno.FI_EAVAIL):
            read(1)
    expect(near.queue.readerr() is not None, "expected an entry of readerr(), got none")
    near.nothing_more()


@page("fi_cq_readerr", "The call returns at once, with or without an error.")
def without_errors_there_is_no_error_entry(pair: Pair) -> None:
    """Read from a new queue, and after a success."""
    near, memory = pair.open(), pair.memory(8)
    expect_equal("error entry", near.queue.readerr(), None)
    near.endpoint.write(pattern(8), *memory.at())
    near.finish()
    expect_equal("error entry", near.queue.readerr(), None)


@page("fi_cq_readerr", "An error entry reports the failed operation, and the reason.")
def every_field_of_an_error_entry_is_right(pair: Pair) -> None:
    """Write with an unknown key, and check all ten fields."""
    near, memory = pair.open(), pair.memory(8)
    fail(near, memory, context="mine")
    entry = near.failure()
    expect_equal("op_context", entry.op_context, "mine")
    expect_equal("flags", entry.flags, _WRITE)
    expect_equal("err", entry.err, Errno.FI_ENOKEY)
    expect(entry.err > 0, f"expected a positive err, got {entry.err}")
    expect(entry.prov_errno != 0, "expected the NIC's own reason in prov_errno, got 0")
    expect_equal("buf, data, tag and olen", (entry.buf, entry.data, entry.tag, entry.olen), (0, 0, 0, 0))
    expect(0 <= entry.len <= 8, f"expected a len of at most the operation's, got {entry.len}")
    expect(isinstance(entry.err_data, bytes), f"expected bytes in err_data, got {entry.err_data!r}")


@page("fi_cq_readerr", "Flags identify the kind of a failed operation.", needs={"atomic"})
def error_entries_have_the_flags_of_their_operations(pair: Pair) -> None:
    """Post a read, a base, a fetching and a comparing atomic with an unknown key; no result is touched."""
    near, memory, result = pair.open(), memory_of(pair, 5), words(7)
    wrong = memory.peer, memory.address, memory.key ^ 1
    near.endpoint.read(result, *wrong)
    near.endpoint.atomic(words(1), *wrong, Op.FI_SUM)
    near.endpoint.fetch_atomic(words(1), result, *wrong, Op.FI_SUM)
    near.endpoint.compare_atomic(words(1), words(5), result, *wrong, Op.FI_CSWAP)
    flags = [near.failure(Errno.FI_ENOKEY).flags for _ in range(4)]
    fetch = int(Caps.FI_ATOMIC | Caps.FI_READ)
    expected = [int(Caps.FI_RMA | Caps.FI_READ), int(Caps.FI_ATOMIC | Caps.FI_WRITE), fetch, fetch]
    expect_equal("flags", flags, expected)
    expect_equal("result and memory", [result.tolist(), held(memory)], [[7], [5]])


@page("fi_cq_readerr", "Error entries come also of operations for which no completion was asked.")
def injected_operations_that_fail_are_reported(pair: Pair) -> None:
    """Inject a write, which would not report success."""
    near, memory = pair.open(), pair.memory(8)
    near.endpoint.inject_write(pattern(8), memory.peer, memory.address, memory.key ^ 1)
    expect_equal("flags", near.failure(Errno.FI_ENOKEY).flags, _WRITE)
    near.nothing_more()


@page("fi_cq_readerr", "Completions before and after an error remain.")
def successes_around_an_error_are_kept(pair: Pair) -> None:
    """Post five operations, of which the third fails: two successes, the error, two successes."""
    near, memory = pair.open(), pair.memory(8)
    seen: list[tuple[int, str]] = []
    for index in range(5):
        if index == 2:
            fail(near, memory, context=index)
        else:
            near.endpoint.write(pattern(8), *memory.at(), context=index)
    deadline = time.monotonic() + pair.patience
    while len(seen) < 5 and time.monotonic() < deadline:
        try:
            seen += [(entry.op_context, "done") for entry in near.queue.sread(5, pair.patience)]
        except ErrorAvailableError:
            seen += [(near.failure().op_context, "failed")]
    expect_equal("what was read", seen, [(0, "done"), (1, "done"), (2, "failed"), (3, "done"), (4, "done")])


@page("fi_cq_strerror", "The call converts the provider's error number into a printable string.")
def errors_of_the_provider_have_words(pair: Pair) -> None:
    """Expect different words for different reasons, and none empty."""
    near, memory = pair.open(), pair.memory(8, MrAccess.FI_REMOTE_READ)
    fail(near, memory)
    key = near.queue.strerror(near.failure().prov_errno)
    near.endpoint.write(pattern(8), *memory.at())
    rights = near.queue.strerror(near.failure().prov_errno)
    expect(key.isprintable() and rights.isprintable() and key and rights, f"expected words, got {key!r}, {rights!r}")
    expect(key != rights, f"expected two reasons, got {key!r} twice")


# Waiting


@page("fi_cq_sread", "The call waits for an entry.")
def sread_waits_for_a_completion(pair: Pair) -> None:
    """Wait without a limit."""
    near, memory = pair.open(), pair.memory(8)
    near.endpoint.write(pattern(8), *memory.at(), context="mine")
    expect_equal("contexts", [entry.op_context for entry in near.queue.sread(4)], ["mine"])


@page("fi_cq_sread", "When the timeout is over, it returns without an entry: FI_EAGAIN.")
def sread_ends_at_its_timeout(pair: Pair) -> None:
    """Expect no earlier end, and an immediate one with a timeout of 0."""
    near, begin = pair.open(), time.monotonic()
    expect_equal("entries", near.queue.sread(1, _SHORT), [])
    waited = time.monotonic() - begin
    expect(waited >= _SHORT, f"expected to wait {_SHORT} s, waited {waited:.3f} s")
    expect_equal("entries", near.queue.sread(1, 0.0), [])


@page("fi_cq_sread", "A queue opened with FI_WAIT_NONE cannot be waited for.")
def sread_without_a_wait_object_is_refused(pair: Pair) -> None:
    """Check that the queue can still be read."""
    near, memory = pair.open(wait_obj=WaitObj.FI_WAIT_NONE), pair.memory(8)
    near.endpoint.write(pattern(8), *memory.at(), context="mine")
    with expect_error("sread", Errno.FI_ENOSYS, Errno.FI_EINVAL, Errno.FI_EOPNOTSUPP):
        near.queue.sread(1, pair.patience)
    expect_equal("op_context", near.finish().op_context, "mine")


@page("fi_cq_signal", "The call unblocks a thread that waits in fi_cq_sread.")
def signal_ends_the_wait_of_another_thread(pair: Pair) -> None:
    """Wait long for a completion that never comes."""
    near = pair.open()
    ended = how_a_wait_ends(lambda: near.queue.sread(1, pair.patience), near.queue.signal)
    expect_equal("how the wait ended", ended, Errno.FI_ECANCELED)


@page("fi_cq_signal", "The call exists only for queues with a wait object.")
def signal_without_a_wait_object_is_refused(pair: Pair) -> None:
    """Signal a queue of FI_WAIT_NONE."""
    queue = pair.keep(pair.domain.cq_open(wait_obj=WaitObj.FI_WAIT_NONE))
    with expect_error("signal", Errno.FI_ENOSYS, Errno.FI_EINVAL, Errno.FI_EOPNOTSUPP):
        queue.signal()


@page("wait_obj: FI_WAIT_FD", "The descriptor can be waited for in select.", needs={"wait_fd"})
def the_descriptor_becomes_readable(pair: Pair) -> None:
    """Use it as fi_poll(3) does: trywait, wait, read, until the completion is there."""
    near, memory = pair.open(wait_obj=WaitObj.FI_WAIT_FD), pair.memory(8)
    near.endpoint.write(pattern(8), *memory.at(), context="mine")
    entries: list[Any] = []
    deadline = time.monotonic() + pair.patience
    while not entries and time.monotonic() < deadline:
        if pair.fabric.trywait(near.queue):
            expect(select.select([near.queue], [], [], pair.patience)[0], "the descriptor never became readable")
        entries = list(near.queue.read(1))
    expect_equal("contexts", [entry.op_context for entry in entries], ["mine"])


@page("wait_obj: FI_WAIT_FD", "Without anything to come, the descriptor is not readable.", needs={"wait_fd"})
def the_descriptor_of_an_idle_queue_is_not_readable(pair: Pair) -> None:
    """Check a new queue, and a queue whose completions have all been read."""
    near, memory = pair.open(wait_obj=WaitObj.FI_WAIT_FD), pair.memory(8)
    for _ in range(2):
        expect(pair.fabric.trywait(near.queue), "trywait() says that there is something to be read")
        expect_equal("readable descriptors", select.select([near.queue], [], [], 0)[0], [])
        near.endpoint.write(pattern(8), *memory.at())
        near.finish()


@page("wait_obj: FI_WAIT_FD", "fi_trywait reports entries that must be read first.", needs={"wait_fd"})
def trywait_tells_of_entries_that_are_there(pair: Pair) -> None:
    """Leave a completion that has arrived unread."""
    near, memory = pair.open(wait_obj=WaitObj.FI_WAIT_FD), pair.memory(8)
    near.endpoint.write(pattern(8), *memory.at(), context="mine")
    deadline = time.monotonic() + pair.patience
    while pair.fabric.trywait(near.queue):
        expect(time.monotonic() < deadline, f"no completion in {pair.patience:g} s")
        near.queue.read(0)
    expect_equal("contexts", [entry.op_context for entry in near.queue.read(1)], ["mine"])


# Semantics


@page("COMPLETION EVENT SEMANTICS: FI_FENCE", "A fenced completion says that all before have got as far.",
      needs={"fence"})  # fmt: skip
def a_fenced_completion_covers_what_was_before_it(pair: Pair) -> None:
    """Post writes without reports, then a fenced one with FI_DELIVERY_COMPLETE: all of them are at the target."""
    near, memory = pair.selective(), pair.memory(4096)
    for index in range(8):
        near.endpoint.write(pattern(512, index), *memory.at(512 * index))
    flags = OpFlags.FI_FENCE | OpFlags.FI_DELIVERY_COMPLETE | OpFlags.FI_COMPLETION
    near.endpoint.writemsg(message(memory, b"", context="fence"), flags)
    expect_equal("op_context", near.finish().op_context, "fence")
    expect_equal("memory", memory.load(), b"".join(pattern(512, index) for index in range(8)))


@page(
    "COMPLETION EVENT SEMANTICS: FI_DELIVERY_COMPLETE",
    "FI_DELIVERY_COMPLETE is the default of operations that return data.",
)
def data_that_returns_is_there_by_default(pair: Pair) -> None:
    """Post a long read without flags."""
    memory, result = pair.memory(pattern(10_000)), bytearray(10_000)
    pair.near.endpoint.read(result, *memory.at())
    pair.near.finish()
    expect_equal("result", bytes(result), pattern(10_000))


@page("fi_close", "Completions that remain on a queue when it is closed are lost, and nothing else.")
def a_queue_may_be_closed_with_entries(pair: Pair) -> None:
    """Leave one that has completed and one that may not have; their data is written."""
    near, memory = pair.open(), pair.memory(16)
    near.endpoint.write(pattern(8), *memory.at())
    near.endpoint.write(pattern(8, 2), *memory.at(8))
    near.endpoint.close()
    near.queue.close()
    expect_equal("memory", memory.load(), pattern(8) + pattern(8, 2))


@page("DESCRIPTION", "Every operation that was accepted completes once.")
def every_operation_completes_once(pair: Pair) -> None:
    """Post sixty-four of different lengths to the same memory, read in batches of any size."""
    near, memory = pair.open(tx_size=64), pair.memory(4096)
    seen: list[int] = []
    for index in range(64):
        near.endpoint.write(pattern(1 + 61 * index), *memory.at(), context=index)
    for count in (1, 2, 3, 5, 8, 13, 21, 11):
        seen += [entry.op_context for entry in near.finish_all(count)]
    near.nothing_more()
    expect_equal("contexts", seen, list(range(64)))
    expect_equal("memory", memory.load(0, 3844), pattern(3844))


@page("len", "Only entries about what was received have a length.")
def lengths_of_what_was_received_are_told(pair: Pair) -> None:
    """Read the target's entry of a write that fits into a frame."""
    memory = pair.memory(40)
    pair.near.endpoint.writedata(np.zeros(5, np.uint64), 1, *memory.at())
    expect_equal("len", [entry.len for entry in pair.target.hear(1, pair.patience)], [40])
    pair.near.finish()
