"""fi_trigger(3): operations that wait for a counter."""

from typing import Any

from amoeba.core.errno import Errno
from amoeba.libfabric.objects.constants import BindFlags, Op, OpFlags, TriggerOp
from amoeba.libfabric.objects.deferred_work import (
    DeferredWork,
    OpAtomic,
    OpCntr,
    OpCompareAtomic,
    OpFetchAtomic,
    OpRma,
)
from amoeba.libfabric.objects.operations.operations import NO_FLAGS
from amoeba.libfabric.objects.operations.vectors import AtomicMsg, RmaIoc
from amoeba.libfabric.objects.queues.counters import Counter
from amoeba.libfabric.objects.triggered import TriggeredContext

from amoeba_tools.conformance.expectations import expect, expect_equal, expect_error
from amoeba_tools.conformance.pages.fi_atomic import memory_of, words
from amoeba_tools.conformance.pages.fi_cntr import becomes, counted
from amoeba_tools.conformance.pages.fi_rma import message, pattern
from amoeba_tools.conformance.pair import Initiator, Pair, RemoteMemory
from amoeba_tools.conformance.registry import Page

page = Page("fi_trigger", "1.17", needs={"triggered", "rma"})

TRIGGER = OpFlags.FI_TRIGGER
_READS = 20
"""Reads of an empty queue: time for an event that must not come."""


def counter_of(pair: Pair) -> Counter:
    """Return a counter of the initiator's, at 0."""
    return pair.keep(pair.domain.cntr_open())


def nothing_happens(near: Initiator) -> None:
    """Check that nothing is reported for a while."""
    for _ in range(_READS):
        near.nothing_more()


def write_of(
    near: Initiator, memory: RemoteMemory, content: bytes, offset: int = 0, flags: OpFlags = NO_FLAGS
) -> OpRma:
    """Return a write as deferred work describes it."""
    return OpRma(near.endpoint, message(memory, content, offset=offset, context="work"), flags)


def done(pair: Pair, counter: Counter, count: int = 1) -> None:
    """Wait for this many pieces of work."""
    counter.wait(count, pair.patience)
    expect_equal("done and failed", (counter.read(), counter.readerr()), (count, 0))


# FI_TRIGGER


@page("FI_TRIGGER_THRESHOLD", "The operation is deferred until the counter reaches the threshold.")
def a_triggered_operation_waits_for_its_counter(pair: Pair) -> None:
    """Stop one below the threshold: nothing is written."""
    counter, memory = counter_of(pair), pair.memory(8)
    context = TriggeredContext(counter, 2)
    pair.near.endpoint.write(b"at last!", *memory.at(), context=context, flags=TRIGGER)
    counter.add(1)
    nothing_happens(pair.near)
    expect_equal("memory before", memory.load(), bytes(8))
    counter.add(1)
    expect(pair.near.finish().op_context is context, "expected the triggered context in the completion")
    expect_equal("memory", memory.load(), b"at last!")


@page("DESCRIPTION", "If the condition is met already, the transfer may begin at once.")
def a_threshold_that_was_reached_before_does_not_wait(pair: Pair) -> None:
    """Use a threshold at the counter's value, and below it."""
    counter, memory = counter_of(pair), pair.memory(8)
    counter.set(7)
    for threshold in (7, 3, 0):
        context = TriggeredContext(counter, threshold)
        pair.near.endpoint.write(bytes([threshold]), *memory.at(threshold), context=context, flags=TRIGGER)
        expect(pair.near.finish().op_context is context, f"expected the context of threshold {threshold}")
    expect_equal("memory", memory.load(), bytes([0, 0, 0, 3, 0, 0, 0, 7]))


@page("COMPLETION BASED TRIGGERS", "A transfer is deferred until related transfers have completed.")
def operations_of_another_endpoint_trigger_it(pair: Pair) -> None:
    """Trigger a read after three writes: it gets the last one's data at least."""
    writer, (writes,) = counted(pair, BindFlags.FI_WRITE)
    memory, result = pair.memory(3), bytearray(3)
    pair.near.endpoint.read(result, *memory.at(), context=TriggeredContext(writes, 3), flags=TRIGGER)
    for index in range(3):
        writer.endpoint.write(bytes([index + 1]), *memory.at(index))
    pair.near.finish()
    expect_equal("result", bytes(result), b"\1\2\3")


@page(
    "FI_TRIGGER_THRESHOLD",
    "Operations begin by threshold, equal ones as submitted, however large the step.",
)
def lower_thresholds_come_first(pair: Pair) -> None:
    """Post equal ones, which go in the order in which they were posted."""
    counter, memory = counter_of(pair), pair.memory(1)
    contexts = [TriggeredContext(counter, threshold) for threshold in (4, 2, 3, 2, 1, 4)]
    for index, context in enumerate(contexts):
        pair.near.endpoint.write(bytes([index]), *memory.at(), context=context, flags=TRIGGER)
    counter.set(10)
    told = [contexts.index(entry.op_context) for entry in pair.near.finish_all(6)]
    expect_equal("order", told, [4, 1, 3, 2, 0, 5])
    expect_equal("memory", memory.load(), b"\5")


@page("DESCRIPTION", "Transfers may be deferred until all input data is there: buffers are read when they begin.")
def buffers_are_read_when_the_operation_begins(pair: Pair) -> None:
    """Use short ones as well, which otherwise might be copied."""
    counter, memory = counter_of(pair), pair.memory(72)
    small, large = bytearray(8), bytearray(64)
    for source, offset in ((small, 0), (large, 8)):
        context = TriggeredContext(counter, 1)
        pair.near.endpoint.write(source, *memory.at(offset), context=context, flags=TRIGGER)
    small[:], large[:] = pattern(8), pattern(64, 2)
    counter.add(1)
    pair.near.finish_all(2)
    expect_equal("memory", memory.load(), pattern(8) + pattern(64, 2))


@page("DESCRIPTION", "Any data transfer may be triggered: atomics.", needs={"atomic"})
def atomics_can_be_triggered(pair: Pair) -> None:
    """Trigger a base, a fetching and a comparing atomic, in this order."""
    counter, memory, results = counter_of(pair), memory_of(pair, 5), [words(0), words(0)]
    call: dict[str, Any] = {"context": TriggeredContext(counter, 1), "flags": TRIGGER}
    pair.near.endpoint.atomic(words(1), *memory.at(), Op.FI_SUM, **call)
    pair.near.endpoint.fetch_atomic(words(2), results[0], *memory.at(), Op.FI_SUM, **call)
    pair.near.endpoint.compare_atomic(words(99), words(8), results[1], *memory.at(), Op.FI_CSWAP, **call)
    nothing_happens(pair.near)
    counter.add(1)
    pair.near.finish_all(3)
    expect_equal("results", [int(result[0]) for result in results], [6, 8])
    expect_equal("memory", memory.load(), words(99).tobytes())


@page("DESCRIPTION", "Any data transfer may be triggered: sends.", needs={"messages", "tagged"})
def sends_can_be_triggered(pair: Pair) -> None:
    """Trigger an untagged, a tagged and a long send; the receives are posted before."""
    counter, near = counter_of(pair), pair.talker()
    receives = [pair.receive(8), pair.receive(8, 5), pair.receive(10_000)]
    contexts = [TriggeredContext(counter, 1) for _ in receives]
    near.endpoint.send(b"untagged", pair.peer, context=contexts[0], flags=TRIGGER)
    near.endpoint.tsend(b"a tagged", pair.peer, 5, context=contexts[1], flags=TRIGGER)
    near.endpoint.send(pattern(10_000), pair.peer, context=contexts[2], flags=TRIGGER)
    nothing_happens(near)
    expect_equal("entries at the target", pair.target.hear(1, 0.0), [])
    counter.add(1)
    heard = pair.target.hear(3, pair.patience)
    expect_equal("received", sorted(entry.handle for entry in heard), [receive.handle for receive in receives])
    told = near.finish_all(3)
    expect(all(entry.op_context in contexts for entry in told), f"expected the contexts, got {told}")
    expected = [b"untagged", b"a tagged", pattern(10_000)]
    expect_equal("messages", [receive.load() for receive in receives], expected)


@page("DESCRIPTION", "An application queues requests that are deferred: more than the transmit queue holds.")
def more_may_wait_than_the_queue_holds(pair: Pair) -> None:
    """Expect all of them done, in their order, once the counter is there."""
    near, counter = pair.open(tx_size=16), counter_of(pair)
    count = 3 * near.endpoint.tx_size
    memory, contexts = pair.memory(count), [TriggeredContext(counter, 1) for _ in range(count)]
    for index, context in enumerate(contexts):
        near.endpoint.write(bytes([index]), *memory.at(index), context=context, flags=TRIGGER)
    counter.add(1)
    told = [entry.op_context for entry in near.finish_all(count)]
    expect(told == contexts, "expected the completions in the order in which the operations were posted")
    expect_equal("memory", memory.load(), bytes(range(count)))


@page("fi_cntr(3): events", "Triggered operations are counted by their endpoint's counters when they complete.")
def triggered_operations_are_counted(pair: Pair) -> None:
    """Count when they are done, not when they are posted."""
    near, (writes,) = counted(pair, BindFlags.FI_WRITE)
    counter, memory = counter_of(pair), pair.memory(8)
    near.endpoint.write(b"counted!", *memory.at(), context=TriggeredContext(counter, 1), flags=TRIGGER)
    nothing_happens(near)
    expect_equal("before", writes.read(), 0)
    counter.add(1)
    writes.wait(1, pair.patience)
    expect_equal("both counters", (writes.read(), counter.read()), (1, 1))


@page("fi_cq(3): fi_cq_readerr", "A triggered operation that fails is reported as others are.")
def a_triggered_operation_may_fail(pair: Pair) -> None:
    """Use an unknown key."""
    counter, memory = counter_of(pair), pair.memory(8)
    context = TriggeredContext(counter, 1)
    peer, address, key = memory.at()
    pair.near.endpoint.write(b"x", peer, address, key ^ 1, context=context, flags=TRIGGER)
    counter.add(1)
    expect(pair.near.failure().op_context is context, "expected the triggered context in the error entry")
    expect_equal("memory", memory.load(), bytes(8))


@page("DESCRIPTION", "An operation that waits may be cancelled.")
def what_waits_can_be_cancelled(pair: Pair) -> None:
    """Cancel one of two: it ends with FI_ECANCELED, the other is done."""
    counter, memory = counter_of(pair), pair.memory(b"\xee" * 2)
    contexts = [TriggeredContext(counter, 1) for _ in range(2)]
    for index, context in enumerate(contexts):
        pair.near.endpoint.write(b"!", *memory.at(index), context=context, flags=TRIGGER)
    pair.near.endpoint.cancel(contexts[0])
    expect(pair.near.failure(Errno.FI_ECANCELED).op_context is contexts[0], "expected the first context")
    counter.add(1)
    expect(pair.near.finish().op_context is contexts[1], "expected the second context")
    expect_equal("memory", memory.load(), b"\xee!")


@page("DESCRIPTION", "Triggered operations have a struct fi_triggered_context as their context.")
def wrong_triggered_calls_are_refused(pair: Pair) -> None:
    """Use another context, a counter of another domain, an unknown peer, FI_INJECT; nothing is written later."""
    counter, memory = counter_of(pair), pair.memory(8)
    peer, address, key = memory.at()
    foreign = pair.keep(pair.other_domain(pair.domain.mr_mode).cntr_open())
    for what, to, context, flags in (
        ("a context of another kind", peer, "mine", TRIGGER),
        ("another domain's counter", peer, TriggeredContext(foreign, 0), TRIGGER),
        ("an unknown peer", peer + 999, TriggeredContext(counter, 1), TRIGGER),
        ("something injected", peer, TriggeredContext(counter, 1), TRIGGER | OpFlags.FI_INJECT),
    ):
        with expect_error(what, Errno.FI_EINVAL, Errno.FI_EBADFLAGS):
            pair.near.endpoint.write(b"x", to, address, key, context=context, flags=flags)
    counter.add(1)
    nothing_happens(pair.near)
    expect_equal("memory", memory.load(), bytes(8))


# Deferred work


@page("DEFERRED WORK QUEUES", "Work stays queued until its counter is there; its completion counter counts its end.")
def work_is_done_when_its_counter_says_so(pair: Pair) -> None:
    """Check that only the completion counter reports the success."""
    counter, finished, memory = counter_of(pair), counter_of(pair), pair.memory(8)
    work = DeferredWork(2, counter, TriggerOp.FI_OP_WRITE, write_of(pair.near, memory, b"deferred"), finished)
    pair.domain.queue_work(work)
    counter.add(1)
    nothing_happens(pair.near)
    expect_equal("memory before", memory.load(), bytes(8))
    counter.add(1)
    done(pair, finished)
    expect_equal("memory", memory.load(), b"deferred")
    pair.near.nothing_more()


@page("DEFERRED WORK QUEUES", "The threshold is compared with successes and errors together.")
def work_waits_for_errors_too(pair: Pair) -> None:
    """Count two successes and an error."""
    counter, finished, memory = counter_of(pair), counter_of(pair), pair.memory(8)
    work = DeferredWork(3, counter, TriggerOp.FI_OP_WRITE, write_of(pair.near, memory, b"deferred"), finished)
    pair.domain.queue_work(work)
    counter.add(2)
    nothing_happens(pair.near)
    expect_equal("before", finished.read(), 0)
    counter.adderr(1)
    done(pair, finished)
    expect_equal("memory", memory.load(), b"deferred")


@page("DEFERRED WORK QUEUES: op_type", "FI_OP_READ and FI_OP_WRITE defer transfers.")
def reads_and_writes_can_be_deferred(pair: Pair) -> None:
    """Write and then read the same memory; the write's counter triggers the read."""
    counters = [counter_of(pair) for _ in range(3)]
    memory, result = pair.memory(8), bytearray(8)
    read = OpRma(pair.near.endpoint, message(memory, result))
    write = write_of(pair.near, memory, b"in turn.")
    pair.domain.queue_work(DeferredWork(1, counters[1], TriggerOp.FI_OP_READ, read, counters[2]))
    pair.domain.queue_work(DeferredWork(1, counters[0], TriggerOp.FI_OP_WRITE, write, counters[1]))
    counters[0].add(1)
    done(pair, counters[2])
    expect_equal("result", bytes(result), b"in turn.")


@page(
    "DEFERRED WORK QUEUES: op_type",
    "FI_OP_ATOMIC, FI_OP_FETCH_ATOMIC, FI_OP_COMPARE_ATOMIC defer atomics.",
    needs={"atomic"},
)
def atomics_can_be_deferred(pair: Pair) -> None:
    """Defer one of each, on words of their own."""
    counter, finished = counter_of(pair), counter_of(pair)
    memory, results = memory_of(pair, 10, 20, 30), [words(0), words(0)]
    endpoint = pair.near.endpoint

    def operation(index: int, op: Op, operand: int) -> AtomicMsg:
        peer, address, key = memory.at(8 * index)
        return AtomicMsg([words(operand)], peer, [RmaIoc(address, 1, key)], op)

    fetching = OpFetchAtomic(endpoint, operation(1, Op.FI_SUM, 2), [results[0]])
    comparing = OpCompareAtomic(endpoint, operation(2, Op.FI_CSWAP, 33), [words(30)], [results[1]])
    for op_type, op in (
        (TriggerOp.FI_OP_ATOMIC, OpAtomic(endpoint, operation(0, Op.FI_SUM, 1))),
        (TriggerOp.FI_OP_FETCH_ATOMIC, fetching),
        (TriggerOp.FI_OP_COMPARE_ATOMIC, comparing),
    ):
        pair.domain.queue_work(DeferredWork(1, counter, op_type, op, finished))
    counter.add(1)
    done(pair, finished, 3)
    expect_equal("memory", memory.load(), words(11, 22, 33).tobytes())
    expect_equal("results", [int(result[0]) for result in results], [20, 30])


@page("DEFERRED WORK QUEUES: op_type", "FI_OP_CNTR_SET and FI_OP_CNTR_ADD change a counter.")
def counters_can_be_changed_by_work(pair: Pair) -> None:
    """Set, then added to; the value that comes of it starts a third change."""
    counter, second, third = (counter_of(pair) for _ in range(3))
    for threshold, waits, op_type, changed, value in (
        (1, counter, TriggerOp.FI_OP_CNTR_SET, second, 40),
        (42, second, TriggerOp.FI_OP_CNTR_ADD, third, 5),
        (1, counter, TriggerOp.FI_OP_CNTR_ADD, second, 2),
    ):
        pair.domain.queue_work(DeferredWork(threshold, waits, op_type, OpCntr(changed, value)))
    expect_equal("before", (second.read(), third.read()), (0, 0))
    counter.add(1)
    becomes("second counter", second.read, 42, pair.patience)
    becomes("third counter", third.read, 5, pair.patience)


@page("DEFERRED WORK QUEUES", "The endpoint reports and counts work only with FI_COMPLETION.")
def work_is_reported_where_asked_for(pair: Pair) -> None:
    """Queue two pieces of work, the first of which is silent; the endpoint's counter counts only the second."""
    writes, counter, finished = (counter_of(pair) for _ in range(3))
    near, memory = pair.open(counters={BindFlags.FI_WRITE: writes}), pair.memory(2)
    for index, flags in enumerate((NO_FLAGS, OpFlags.FI_COMPLETION)):
        op = write_of(near, memory, b"!", index, flags)
        pair.domain.queue_work(DeferredWork(1, counter, TriggerOp.FI_OP_WRITE, op, finished))
    counter.add(1)
    done(pair, finished, 2)
    expect_equal("op_context", near.finish().op_context, "work")
    near.nothing_more()
    becomes("counted by the endpoint", writes.read, 1, pair.patience)


@page("fi_cq(3): fi_cq_readerr", "Work that fails is an error of its completion counter, and in the error queue.")
def work_that_fails_is_counted_as_an_error(pair: Pair) -> None:
    """Use memory that has been withdrawn."""
    counter, finished, memory = counter_of(pair), counter_of(pair), pair.memory(8)
    work = DeferredWork(1, counter, TriggerOp.FI_OP_WRITE, write_of(pair.near, memory, b"too late"), finished)
    pair.domain.queue_work(work)
    memory.withdraw()
    counter.add(1)
    becomes("errors", finished.readerr, 1, pair.patience)
    expect_equal("successes", finished.read(), 0)
    expect_equal("op_context", pair.near.failure().op_context, "work")


@page("DEFERRED WORK QUEUES: FI_CANCEL_WORK", "The command cancels a request.")
def cancelled_work_is_not_done(pair: Pair) -> None:
    """Cancel one piece of two, which then can be queued again; begun work cannot be cancelled."""
    counter, finished, memory = counter_of(pair), counter_of(pair), pair.memory(2)
    works = [
        DeferredWork(1, counter, TriggerOp.FI_OP_WRITE, write_of(pair.near, memory, b"!", index), finished)
        for index in range(2)
    ]
    for work in works:
        pair.domain.queue_work(work)
    pair.domain.cancel_work(works[0])
    counter.add(1)
    done(pair, finished)
    expect_equal("memory", memory.load(), b"\0!")
    for work in works:
        with expect_error("work that does not wait", Errno.FI_ENOENT):
            pair.domain.cancel_work(work)
    pair.domain.queue_work(works[0])
    done(pair, finished, 2)
    expect_equal("memory afterwards", memory.load(), b"!!")


@page("DEFERRED WORK QUEUES: FI_FLUSH_WORK", "The command cancels all requests, or those that wait for one counter.")
def flushed_work_is_not_done(pair: Pair) -> None:
    """Flush the work of one counter, then all; a triggered operation is not work, and is still done."""
    counter, other, finished, memory = counter_of(pair), counter_of(pair), counter_of(pair), pair.memory(3)
    for index, waits in enumerate((counter, other)):
        op = write_of(pair.near, memory, b"!", index)
        pair.domain.queue_work(DeferredWork(1, waits, TriggerOp.FI_OP_WRITE, op, finished))
    pair.near.endpoint.write(b"t", *memory.at(2), context=TriggeredContext(counter, 1), flags=TRIGGER)
    pair.domain.flush_work(other)
    other.add(1)
    pair.domain.flush_work()
    counter.add(1)
    pair.near.finish()
    nothing_happens(pair.near)
    expect_equal("memory", memory.load(), b"\0\0t")
    expect_equal("done and failed", (finished.read(), finished.readerr()), (0, 0))


@page("DEFERRED WORK QUEUES", "The request must remain valid until it is done or cancelled: it is queued once.")
def work_is_queued_once_at_a_time(pair: Pair) -> None:
    """Queue work a second time: the call is refused, and the work is done once."""
    counter, finished, memory = counter_of(pair), counter_of(pair), pair.memory(8)
    work = DeferredWork(1, counter, TriggerOp.FI_OP_WRITE, write_of(pair.near, memory, b"only one"), finished)
    pair.domain.queue_work(work)
    with expect_error("the same work", Errno.FI_EALREADY, Errno.FI_EBUSY, Errno.FI_EINVAL):
        pair.domain.queue_work(work)
    counter.add(1)
    done(pair, finished)


@page("DEFERRED WORK QUEUES", "Endpoints, counters and parameters may be checked when a request is submitted.")
def wrong_work_is_refused(pair: Pair) -> None:
    """Use operations of another type, counters of another domain; nothing of it is done later."""
    counter, finished, memory = counter_of(pair), counter_of(pair), pair.memory(8)
    foreign = pair.keep(pair.other_domain(pair.domain.mr_mode).cntr_open())
    op = write_of(pair.near, memory, b"refused!")
    change = OpCntr(finished, 1)
    for what, work in (
        ("a write as an atomic", DeferredWork(1, counter, TriggerOp.FI_OP_ATOMIC, op)),
        ("a counted change", DeferredWork(1, counter, TriggerOp.FI_OP_CNTR_ADD, change, finished)),
        ("another domain's trigger", DeferredWork(1, foreign, TriggerOp.FI_OP_WRITE, op)),
        ("another domain's completion counter", DeferredWork(1, counter, TriggerOp.FI_OP_WRITE, op, foreign)),
    ):
        with expect_error(what, Errno.FI_EINVAL):
            pair.domain.queue_work(work)
    counter.add(1)
    nothing_happens(pair.near)
    expect_equal("memory and counter", (memory.load(), finished.read()), (bytes(8), 0))


@page("DEFERRED WORK QUEUES", "Work queues serve to build collective operations: work may wait for work.")
def a_chain_of_work_runs_by_itself(pair: Pair) -> None:
    """Read a word and write it on, four times, with a wait for the last counter only."""
    memory, word = pair.memory(pattern(8) + bytes(32)), bytearray(8)
    counters = [counter_of(pair) for _ in range(9)]
    for step in range(8):
        op = OpRma(pair.near.endpoint, message(memory, word, offset=8 * ((step + 1) // 2)))
        op_type = TriggerOp.FI_OP_WRITE if step % 2 else TriggerOp.FI_OP_READ
        pair.domain.queue_work(DeferredWork(1, counters[step], op_type, op, counters[step + 1]))
    counters[0].add(1)
    done(pair, counters[-1])
    expect_equal("memory", memory.load(), pattern(8) * 5)


@page("DEFERRED WORK QUEUES", "If the condition is met when work is queued, it begins at once.")
def work_whose_counter_is_there_begins_at_once(pair: Pair) -> None:
    """Queue work at the threshold and beyond, without another change of the counter."""
    counter, finished, memory = counter_of(pair), counter_of(pair), pair.memory(2)
    counter.set(7)
    for index, threshold in enumerate((7, 3)):
        op = write_of(pair.near, memory, b"!", index)
        pair.domain.queue_work(DeferredWork(threshold, counter, TriggerOp.FI_OP_WRITE, op, finished))
    done(pair, finished, 2)
    expect_equal("memory", memory.load(), b"!!")


@page("DEFERRED WORK QUEUES", "The endpoint's own counter counts work only if it is its completion counter.")
def an_endpoints_counter_may_be_the_completion_counter(pair: Pair) -> None:
    """Count each piece of work once; work with another completion counter is not counted there."""
    near, (writes,) = counted(pair, BindFlags.FI_WRITE)
    counter, other, memory = counter_of(pair), counter_of(pair), pair.memory(2)
    for index, finished in enumerate((writes, other)):
        op = write_of(near, memory, b"!", index)
        pair.domain.queue_work(DeferredWork(1, counter, TriggerOp.FI_OP_WRITE, op, finished))
    counter.add(1)
    done(pair, other)
    done(pair, writes)
    expect_equal("memory", memory.load(), b"!!")
    near.nothing_more()


@page("DEFERRED WORK QUEUES", "Buffers are not read or otherwise accessed before work begins.")
def buffers_of_work_are_read_when_it_begins(pair: Pair) -> None:
    """Defer a short message, which might be copied, a long one, and a result, whose buffer stays until then."""
    counter, finished = counter_of(pair), counter_of(pair)
    memory, small, large, result = pair.memory(72), bytearray(8), bytearray(64), bytearray(b"\xee" * 8)
    for source, offset in ((small, 0), (large, 8)):
        op = OpRma(pair.near.endpoint, message(memory, source, offset=offset))
        pair.domain.queue_work(DeferredWork(1, counter, TriggerOp.FI_OP_WRITE, op, finished))
    read = OpRma(pair.near.endpoint, message(memory, result))
    pair.domain.queue_work(DeferredWork(1, finished, TriggerOp.FI_OP_READ, read, finished))
    small[:], large[:] = pattern(8), pattern(64, 2)
    nothing_happens(pair.near)
    expect_equal("result before", bytes(result), b"\xee" * 8)
    counter.add(1)
    done(pair, finished, 3)
    expect_equal("memory", memory.load(), pattern(8) + pattern(64, 2))


# Without a check of their own

page.leave(
    "DESCRIPTION",
    "Triggered operations can reduce latency.",
    "The driver starts them while a queue or counter is read; it explains.",
)
page.leave(
    "DESCRIPTION",
    "An endpoint must be created with FI_TRIGGER.",
    "Every endpoint has the capability, whether it was asked for or not.",
)
page.leave(
    "DESCRIPTION",
    "With FI_CONTEXT2, contexts are a struct fi_triggered_context2; their contents may be modified.",
    "The mode is not asked for, and they are not.",
)
page.leave(
    "XPU TRIGGERS, FI_TRIGGER_XPU",
    "An accelerator may start a transfer that the host has set up.",
    "FI_XPU and FI_HMEM are not offered: there is no device memory.",
)
page.leave(
    "DEFERRED WORK QUEUES",
    "Work that changes a counter has no completion counter.",
    "`fi_trigger.counters_can_be_changed_by_work`, `fi_trigger.wrong_work_is_refused`",
)
page.leave(
    "DEFERRED WORK QUEUES",
    "The application detects conditions that will never be met, and cancels what waits for them.",
    "Something the application does: `fi_trigger.cancelled_work_is_not_done`",
)
page.leave(
    "DEFERRED WORK QUEUES",
    "Unsupported operations fail with FI_ENOSYS.",
    "[libfabric.md](libfabric.md) lists them.",
)
