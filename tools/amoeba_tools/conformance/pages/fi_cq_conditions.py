"""fi_cq(3): reads that wait for more than one entry."""

from typing import Any

from amoeba.core.errno import Errno
from amoeba.core.errors import ErrorAvailableError
from amoeba.libfabric.objects.constants import CqWaitCond
from amoeba.libfabric.objects.queues.completion import CompletionQueue

from amoeba_tools.conformance.expectations import CheckFailedError, expect_equal, expect_error
from amoeba_tools.conformance.pages.fi_cq import page
from amoeba_tools.conformance.pair import Pair

_LONG = 20_000


def patient_queue(pair: Pair) -> CompletionQueue[Any]:
    """Open a queue whose waiting reads may name a threshold."""
    return pair.keep(pair.domain.cq_open(wait_cond=CqWaitCond.FI_CQ_COND_THRESHOLD))


def contexts(queue: CompletionQueue[Any], count: int, timeout: float, threshold: int) -> list[object]:
    return [entry.op_context for entry in queue.sread(count, timeout, threshold)]


@page(
    "wait_cond: FI_CQ_COND_THRESHOLD", "The wait is satisfied when as many entries are queued as the threshold says."
)
def a_threshold_is_waited_for(pair: Pair) -> None:
    """Post long writes, one after the other; then wait for three though one is read."""
    near, memory = pair.open(queue=patient_queue(pair)), pair.memory(_LONG)
    for index in range(4):
        near.endpoint.write(bytes(_LONG), *memory.at(), context=index)
    expect_equal("all four", contexts(near.queue, 4, pair.patience, 4), [0, 1, 2, 3])
    for index in range(4):
        near.endpoint.write(b"!", *memory.at(index), context=index)
    expect_equal("the first of three", contexts(near.queue, 1, pair.patience, 3), [0])
    expect_equal("two, without waiting", [entry.op_context for entry in near.queue.read(2)], [1, 2])
    expect_equal("the last", contexts(near.queue, 8, pair.patience, 1), [3])


@page("timeout", "When the time is over, what is there is returned, though it is less than the threshold.")
def less_than_the_threshold_is_returned_in_the_end(pair: Pair) -> None:
    """Complete one of two."""
    near, memory = pair.open(queue=patient_queue(pair)), pair.memory(1)
    near.endpoint.write(b"!", *memory.at(), context="only")
    while pair.fabric.trywait(near.queue):
        pair.fabric.advance()
    expect_equal("entries", contexts(near.queue, 8, 0.01, 2), ["only"])
    expect_equal("entries afterwards", contexts(near.queue, 8, 0.01, 2), [])


@page("wait_cond: FI_CQ_COND_THRESHOLD", "An error is not held back by a threshold.")
def errors_end_the_wait_for_a_threshold(pair: Pair) -> None:
    """Expect the error after the success before it."""
    near, memory = pair.open(queue=patient_queue(pair)), pair.memory(1)
    peer, address, key = memory.at()
    near.endpoint.write(b"!", peer, address, key, context="well")
    near.endpoint.write(b"!", peer, address, key ^ 1, context="wrong")
    expect_equal("before the error", contexts(near.queue, 8, pair.patience, 3), ["well"])
    try:
        entries = near.queue.sread(8, pair.patience, 3)
    except ErrorAvailableError:
        failure = near.queue.readerr()
        expect_equal("the error", failure and failure.op_context, "wrong")
    else:
        raise CheckFailedError(f"expected FI_EAVAIL, got {entries}")


@page("wait_cond: FI_CQ_COND_NONE", "Without a condition the first entry satisfies the wait.")
def without_a_condition_there_is_no_threshold(pair: Pair) -> None:
    """Pass a threshold to a queue opened without condition: the call is refused; it does not drop the threshold."""
    near, memory = pair.open(), pair.memory(1)
    with expect_error("a threshold", Errno.FI_EINVAL):
        near.queue.sread(1, 0.0, 2)
    near.endpoint.write(b"!", *memory.at(), context="only")
    expect_equal("op_context", near.finish().op_context, "only")
