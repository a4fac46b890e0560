"""fi_endpoint(3): setting up, ordering, queues that are full, the end."""

import itertools

import numpy as np
from amoeba.core.errno import Errno
from amoeba.libfabric.objects.constants import BindFlags, MsgOrder, Op, OpFlags
from amoeba.libfabric.objects.operations.operations import NO_FLAGS
from amoeba.libfabric.objects.operations.vectors import RmaIov, RmaMsg

from amoeba_tools.conformance.expectations import expect, expect_equal, expect_error
from amoeba_tools.conformance.pages.fi_atomic import held, memory_of, words
from amoeba_tools.conformance.pages.fi_rma import message, pattern
from amoeba_tools.conformance.pair import Initiator, Pair
from amoeba_tools.conformance.registry import Page

page = Page("fi_endpoint", "1.17", needs={"rma"})

_LONG = 6000
"""Bytes that no frame holds."""
_SEGMENTS = 8


# Setting up


@page("fi_enable", "Before it is enabled, an endpoint takes no operation: FI_EOPBADSTATE.")
def operations_before_enable_are_refused(pair: Pair) -> None:
    """Bind everything that the endpoint needs; nothing is written."""
    memory, endpoint = pair.memory(8), pair.keep(pair.domain.endpoint())
    endpoint.bind(pair.keep(pair.domain.cq_open()))
    endpoint.bind(pair.peers)
    with expect_error("a write before enable()", Errno.FI_EOPBADSTATE):
        endpoint.write(pattern(8), *memory.at())
    with expect_error("a read before enable()", Errno.FI_EOPBADSTATE):
        endpoint.read(bytearray(8), *memory.at())
    expect_equal("memory", memory.load(), bytes(8))


@page("ERRORS: FI_ENOCQ", "An endpoint cannot be enabled without the completion queue it needs.")
def enable_without_a_completion_queue_is_refused(pair: Pair) -> None:
    """Enable an endpoint without a queue, then with one: only the second call succeeds."""
    endpoint = pair.keep(pair.domain.endpoint())
    endpoint.bind(pair.peers)
    with expect_error("enable() without a queue", Errno.FI_ENOCQ):
        endpoint.enable()
    endpoint.bind(pair.keep(pair.domain.cq_open()))
    endpoint.enable()


@page("fi_ep_bind", "A connectionless endpoint must be bound to an address vector.")
def enable_without_an_address_vector_is_refused(pair: Pair) -> None:
    """Enable an endpoint without an address vector, then with one: only the second call succeeds."""
    endpoint = pair.keep(pair.domain.endpoint())
    endpoint.bind(pair.keep(pair.domain.cq_open()))
    with expect_error("enable() without an address vector", Errno.FI_ENOAV):
        endpoint.enable()
    endpoint.bind(pair.peers)
    endpoint.enable()


@page("fi_ep_bind", "A connectionless endpoint is bound to a single address vector.")
def a_second_address_vector_is_refused(pair: Pair) -> None:
    """Bind a second address vector; the first one stays in use."""
    endpoint = pair.keep(pair.domain.endpoint())
    endpoint.bind(pair.peers)
    with expect_error("a second address vector", Errno.FI_EINVAL, Errno.FI_EBUSY):
        endpoint.bind(pair.keep(pair.domain.av_open()))


@page("fi_ep_bind", "Queues, counters and address vectors are bound before the endpoint is enabled.")
def nothing_is_bound_to_an_enabled_endpoint(pair: Pair) -> None:
    """Bind a queue and a counter too late."""
    endpoint = pair.open().endpoint
    with expect_error("a queue", Errno.FI_EOPBADSTATE):
        endpoint.bind(pair.keep(pair.domain.cq_open()), BindFlags.FI_RECV)
    with expect_error("a counter", Errno.FI_EOPBADSTATE):
        endpoint.bind(pair.keep(pair.domain.cntr_open()), BindFlags.FI_WRITE)


@page("fi_ep_bind: FI_SELECTIVE_COMPLETION", "The flag is combined with FI_TRANSMIT or FI_RECV.")
def selective_completion_alone_is_refused(pair: Pair) -> None:
    """Bind a queue to neither direction."""
    endpoint = pair.keep(pair.domain.endpoint())
    with expect_error("FI_SELECTIVE_COMPLETION alone", Errno.FI_EBADFLAGS, Errno.FI_EINVAL):
        endpoint.bind(pair.keep(pair.domain.cq_open()), BindFlags.FI_SELECTIVE_COMPLETION)


@page("fi_ep_bind: FI_SELECTIVE_COMPLETION", "Operations without FI_COMPLETION do not report success.")
def successes_are_not_reported_on_a_selective_queue(pair: Pair) -> None:
    """Post four that are carried out, then one that is reported."""
    near, memory = pair.selective(), pair.memory(32)
    for index in range(4):
        near.endpoint.write(pattern(8, index), *memory.at(8 * index))
    near.endpoint.writemsg(message(memory, b"", context="last"), OpFlags.FI_COMPLETION)
    expect_equal("op_context", near.finish().op_context, "last")
    near.nothing_more()
    expect_equal("memory", memory.load(), b"".join(pattern(8, index) for index in range(4)))


@page("fi_ep_bind: FI_SELECTIVE_COMPLETION", "Operations that fail are reported, whether asked for or not.")
def failures_are_reported_on_a_selective_queue(pair: Pair) -> None:
    """Use an unknown key between operations that succeed."""
    near, memory = pair.selective(), pair.memory(8)
    near.endpoint.write(pattern(8), *memory.at())
    near.endpoint.write(pattern(8), memory.peer, memory.address, memory.key ^ 1)
    near.endpoint.write(pattern(8), *memory.at())
    near.failure(Errno.FI_ENOKEY)
    near.nothing_more()


@page("fi_ep_bind: FI_TRANSMIT", "By default every operation that succeeds writes an entry.")
def successes_are_reported_by_default(pair: Pair) -> None:
    """Post writes and reads in turn."""
    memory = pair.memory(8)
    for index in range(4):
        pair.near.endpoint.write(pattern(8), *memory.at(), context=2 * index)
        pair.near.endpoint.read(bytearray(8), *memory.at(), context=2 * index + 1)
    expect_equal("contexts", sorted(entry.op_context for entry in pair.near.finish_all(8)), list(range(8)))


@page("op_flags", "Default flags apply to operations that are not given any.")
def default_flags_ask_for_completions(pair: Pair) -> None:
    """Use FI_COMPLETION by default, on a queue bound with FI_SELECTIVE_COMPLETION."""
    near = pair.open(bind=BindFlags.FI_SELECTIVE_COMPLETION, op_flags=OpFlags.FI_COMPLETION)
    memory = pair.memory(8)
    near.endpoint.write(pattern(8), *memory.at(), context="by default")
    expect_equal("op_context", near.finish().op_context, "by default")


@page("fi_ep_bind", "Several endpoints may share a completion queue.")
def endpoints_share_a_queue(pair: Pair) -> None:
    """Tell the endpoints of a shared queue apart by the contexts of their operations."""
    one = pair.open()
    two, memory = pair.open(queue=one.queue), pair.memory(64)
    for index in range(4):
        one.endpoint.write(pattern(8, index), *memory.at(16 * index), context=("one", index))
        two.endpoint.write(pattern(8, index), *memory.at(16 * index + 8), context=("two", index))
    contexts = sorted(entry.op_context for entry in one.finish_all(8))
    expect_equal("contexts", contexts, [(name, index) for name in ("one", "two") for index in range(4)])
    expect_equal("memory", memory.load(), b"".join(2 * pattern(8, index) for index in range(4)))


@page("fi_ep_bind", "Endpoints with queues of their own do not meet each other's completions.")
def endpoints_do_not_disturb_each_other(pair: Pair) -> None:
    """Let one fail and the other succeed."""
    one, two, memory = pair.open(), pair.open(), pair.memory(8)
    one.endpoint.write(pattern(8), memory.peer, memory.address, memory.key ^ 1, context="fails")
    two.endpoint.write(pattern(8), *memory.at(), context="succeeds")
    expect_equal("op_context", two.finish().op_context, "succeeds")
    expect_equal("op_context", one.failure().op_context, "fails")
    one.nothing_more()
    two.nothing_more()


# Ordering


def _asked_order(pair: Pair, *order: MsgOrder) -> None:
    """See that the order which a check relies on is claimed."""
    claimed = pair.info.tx_attr.msg_order
    expect(any(one in claimed for one in order), f"none of {order} is claimed: {claimed!r}")


@page("msg_order: FI_ORDER_RAW", "A read after a write sees what was written, up to max_order_raw_size.")
def reads_after_writes_see_them(pair: Pair) -> None:
    """Repeat six rounds over the same long memory without waiting."""
    _asked_order(pair, MsgOrder.FI_ORDER_RAW, MsgOrder.FI_ORDER_RMA_RAW)
    memory, results = pair.memory(_LONG), [bytearray(_LONG) for _ in range(6)]
    for index, result in enumerate(results):
        pair.near.endpoint.write(pattern(_LONG, index), *memory.at())
        pair.near.endpoint.read(result, *memory.at())
    pair.near.finish_all(12)
    for index, result in enumerate(results):
        expect_equal(f"read {index}", bytes(result), pattern(_LONG, index))


@page("msg_order: FI_ORDER_WAR", "A write after a read does not change what is read, up to max_order_war_size.")
def writes_after_reads_leave_them_alone(pair: Pair) -> None:
    """Repeat six rounds over the same long memory without waiting."""
    _asked_order(pair, MsgOrder.FI_ORDER_WAR, MsgOrder.FI_ORDER_RMA_WAR)
    memory, results = pair.memory(pattern(_LONG, 0)), [bytearray(_LONG) for _ in range(6)]
    for index, result in enumerate(results):
        pair.near.endpoint.read(result, *memory.at())
        pair.near.endpoint.write(pattern(_LONG, index + 1), *memory.at())
    pair.near.finish_all(12)
    for index, result in enumerate(results):
        expect_equal(f"read {index}", bytes(result), pattern(_LONG, index))


@page("msg_order: FI_ORDER_WAW", "The later of two writes is what remains, up to max_order_waw_size.")
def the_last_write_remains(pair: Pair) -> None:
    """Post twelve long writes of overlapping memory without waiting."""
    _asked_order(pair, MsgOrder.FI_ORDER_WAW, MsgOrder.FI_ORDER_RMA_WAW)
    memory, expected = pair.memory(_LONG + 12), bytearray(_LONG + 12)
    for index in range(12):
        pair.near.endpoint.write(pattern(_LONG, index), *memory.at(index))
        expected[index : index + _LONG] = pattern(_LONG, index)
    pair.near.finish_all(12)
    expect_equal("memory", memory.load(), bytes(expected))


@page("msg_order: FI_ORDER_ATOMIC_RAW", "A fetching atomic after a base atomic sees its result.", needs={"atomic"})
def fetching_after_updating_sees_it(pair: Pair) -> None:
    """Repeat six rounds on the same word without waiting."""
    _asked_order(pair, MsgOrder.FI_ORDER_RAW, MsgOrder.FI_ORDER_ATOMIC_RAW)
    memory, results = memory_of(pair, 0), [words(0) for _ in range(6)]
    for index, result in enumerate(results):
        pair.near.endpoint.atomic(words(100 * index), *memory.at(), Op.FI_ATOMIC_WRITE)
        pair.near.endpoint.fetch_atomic(words(1), result, *memory.at(), Op.FI_SUM)
    pair.near.finish_all(12)
    expect_equal("results", [int(result[0]) for result in results], [100 * index for index in range(6)])
    expect_equal("memory", held(memory), [501])


@page("msg_order: FI_ORDER_ATOMIC_WAR", "A base atomic after a fetching one does not change it.", needs={"atomic"})
def updating_after_fetching_leaves_it_alone(pair: Pair) -> None:
    """Repeat six rounds on the same word without waiting."""
    _asked_order(pair, MsgOrder.FI_ORDER_WAR, MsgOrder.FI_ORDER_ATOMIC_WAR)
    memory, results = memory_of(pair, 0), [words(99) for _ in range(6)]
    for index, result in enumerate(results):
        pair.near.endpoint.fetch_atomic(None, result, *memory.at(), Op.FI_ATOMIC_READ)
        pair.near.endpoint.atomic(words(index + 1), *memory.at(), Op.FI_ATOMIC_WRITE)
    pair.near.finish_all(12)
    expect_equal("results", [int(result[0]) for result in results], list(range(6)))


@page("msg_order: FI_ORDER_ATOMIC_WAW", "The later of two base atomics is what remains.", needs={"atomic"})
def the_last_update_remains(pair: Pair) -> None:
    """Post twelve atomic writes of the same word without waiting."""
    _asked_order(pair, MsgOrder.FI_ORDER_WAW, MsgOrder.FI_ORDER_ATOMIC_WAW)
    memory = memory_of(pair, 0)
    for index in range(12):
        pair.near.endpoint.atomic(words(index), *memory.at(), Op.FI_ATOMIC_WRITE)
    pair.near.finish_all(12)
    expect_equal("memory", held(memory), [11])


@page("msg_order: FI_ORDER_ATOMIC_RAR", "Fetching atomics act in the order they were posted in.", needs={"atomic"})
def fetching_atomics_keep_their_order(pair: Pair) -> None:
    """Post twelve counting atomics: each result gives the atomic's position."""
    _asked_order(pair, MsgOrder.FI_ORDER_RAR, MsgOrder.FI_ORDER_ATOMIC_RAR)
    memory, results = memory_of(pair, 0), [words(99) for _ in range(12)]
    for result in results:
        pair.near.endpoint.fetch_atomic(words(1), result, *memory.at(), Op.FI_SUM)
    pair.near.finish_all(12)
    expect_equal("results", [int(result[0]) for result in results], list(range(12)))


@page("msg_order: FI_ORDER_RAW", "The order holds between RMA and atomics, too.", needs={"atomic"})
def rma_and_atomics_keep_their_order(pair: Pair) -> None:
    """Write, add, read, add, fetch: each sees what came before it, and nothing of what came after."""
    _asked_order(pair, MsgOrder.FI_ORDER_RAW)
    memory, read, fetched = memory_of(pair, 0), words(0), words(0)
    pair.near.endpoint.write(words(10), *memory.at())
    pair.near.endpoint.atomic(words(1), *memory.at(), Op.FI_SUM)
    pair.near.endpoint.read(read, *memory.at())
    pair.near.endpoint.atomic(words(3), *memory.at(), Op.FI_PROD)
    pair.near.endpoint.fetch_atomic(words(5), fetched, *memory.at(), Op.FI_SUM)
    pair.near.endpoint.write(words(7), *memory.at())
    pair.near.finish_all(6)
    expect_equal("what was read and fetched", [int(read[0]), int(fetched[0])], [11, 33])
    expect_equal("memory", held(memory), [7])


@page("max_order_raw_size", "Sizes of ordered transfers are told; order that is claimed has one above 0.")
def ordered_sizes_are_told(pair: Pair) -> None:
    """Expect for each of the three at least the size on which the checks of ordering rely."""
    attr, order = pair.info.ep_attr, pair.info.tx_attr.msg_order
    sizes = {
        MsgOrder.FI_ORDER_RAW: attr.max_order_raw_size,
        MsgOrder.FI_ORDER_WAR: attr.max_order_war_size,
        MsgOrder.FI_ORDER_WAW: attr.max_order_waw_size,
    }
    for claimed, size in sizes.items():
        expect(claimed not in order or size >= _LONG, f"{claimed!r} is claimed for {size} bytes")


# Limits


@page("iov_limit", "An operation may have so many local segments.")
def as_many_segments_as_iov_limit_are_accepted(pair: Pair) -> None:
    """Use eight segments, each in its own place, at an endpoint that requested eight."""
    near = pair.open(tx_size=4 * _SEGMENTS)
    count = near.endpoint.iov_limit
    expect(count >= _SEGMENTS, f"expected {_SEGMENTS} segments or more, got {count}")
    memory = pair.memory(3 * count)
    near.endpoint.writev([pattern(3, index) for index in range(count)], *memory.at())
    near.finish()
    near.nothing_more()
    expect_equal("memory", memory.load(), b"".join(pattern(3, index) for index in range(count)))


@page("rma_iov_limit", "An operation may have so many remote segments.")
def as_many_segments_as_rma_iov_limit_are_accepted(pair: Pair) -> None:
    """Use as many local segments besides, which end elsewhere."""
    near = pair.open(tx_size=4 * _SEGMENTS)
    count = near.endpoint.rma_iov_limit
    memory, source = pair.memory(8 * count), pattern(4 * count)
    segments = [RmaIov(memory.address + 8 * index, 4, memory.key) for index in range(count)]
    edges = [0, *range(5, 4 * count, 4), 4 * count]
    buffers = [source[begin:end] for begin, end in itertools.pairwise(edges)]
    near.endpoint.writemsg(RmaMsg(buffers, pair.peer, segments))
    near.finish()
    expected = b"".join(source[4 * index : 4 * index + 4] + bytes(4) for index in range(count))
    expect_equal("memory", memory.load(), expected)


def _post_until_full(near: Initiator, memory: tuple[int, int, int], most: int) -> int:
    """Post writes of no bytes, without reading completions, until the endpoint takes no more; how many it took."""
    for posted in range(most):
        try:
            near.endpoint.write(b"", *memory, context=posted)
        except BlockingIOError:
            return posted
    return most


@page("size", "The context's queue holds so many operations.")
def as_many_operations_as_size_are_queued(pair: Pair) -> None:
    """Post sixteen without reading a completion, on an endpoint that asked for sixteen."""
    near, memory = pair.open(tx_size=16), pair.memory(8)
    posted = _post_until_full(near, memory.at(), 16)
    near.finish_all(posted)
    expect_equal("operations accepted", posted, 16)


@page("ERRORS: FI_EAGAIN", "A queue that is full refuses more; after completions have been read it accepts them.")
def a_full_endpoint_says_so_and_goes_on_after_reading(pair: Pair) -> None:
    """Post until the queue is full, read, and post again: every operation is reported once."""
    near, memory = pair.open(tx_size=16), pair.memory(8)
    with pair.fabric.frozen():
        posted = _post_until_full(near, memory.at(), 1 << 12)
    expect(posted < 1 << 12, f"expected FI_EAGAIN, but {posted} operations were accepted")
    contexts = [entry.op_context for entry in near.finish_all(posted)]
    expect_equal("contexts", sorted(contexts), list(range(posted)))
    near.endpoint.write(b"", *memory.at(), context="again")
    expect_equal("op_context", near.finish().op_context, "again")


@page("ERRORS: FI_EAGAIN", "An operation that was refused has not been begun.")
def a_refused_operation_leaves_no_trace(pair: Pair) -> None:
    """Check that a refused write changes nothing, and is not reported."""
    near, memory = pair.open(tx_size=16), pair.memory(8)
    with pair.fabric.frozen():
        posted = _post_until_full(near, memory.at(), 1 << 12)
        with expect_error("a write to a full queue", Errno.FI_EAGAIN):
            near.endpoint.write(pattern(8), *memory.at())
        with expect_error("an injected write to a full queue", Errno.FI_EAGAIN):
            near.endpoint.inject_write(pattern(8), *memory.at())
    near.finish_all(posted)
    near.nothing_more()
    expect_equal("memory", memory.load(), bytes(8))


@page("ERRORS: FI_EAGAIN", "Operations that wait for the other side go on when that has space again.")
def operations_wait_for_a_target_that_does_not_read(pair: Pair) -> None:
    """Send more data than the target's queue holds, and read it when all is posted: everything arrives, in order."""
    count = 2 * pair.info.rx_attr.size + 100
    near, memory = pair.open(tx_size=count), pair.memory(8)
    for index in range(count):
        near.endpoint.writedata(b"", index, *memory.at(), context=index)
    heard = pair.target.hear(count, pair.patience)
    expect_equal("data", [entry.data for entry in heard], list(range(count)))
    expect_equal("contexts", [entry.op_context for entry in near.finish_all(count)], list(range(count)))


@page("OPERATION FLAGS", "Several flags combine.")
def flags_combine(pair: Pair) -> None:
    """Combine injected, fenced, delivered, reported, and with data for the target, in one message."""
    near, memory, source = pair.selective(), pair.memory(16), bytearray(pattern(16))
    flags = OpFlags.FI_INJECT | OpFlags.FI_DELIVERY_COMPLETE | OpFlags.FI_COMPLETION | OpFlags.FI_REMOTE_CQ_DATA
    flags |= OpFlags.FI_FENCE if "fence" in pair.offers else NO_FLAGS
    near.endpoint.writemsg(message(memory, source, context="all", data=9), flags)
    source[:] = bytes(16)
    expect_equal("op_context", near.finish().op_context, "all")
    expect_equal("memory", memory.load(), pattern(16))
    expect_equal("data", [entry.data for entry in pair.target.hear(1, pair.patience)], [9])


# The end


@page("fi_close", "Outstanding operations are discarded; no completion is reported for them.")
def closing_an_endpoint_discards_its_operations(pair: Pair) -> None:
    """Close an endpoint with eight outstanding operations; its queue lives on without an entry of them."""
    queue = pair.keep(pair.domain.cq_open())
    near, memory = pair.open(queue=queue), pair.memory(_LONG)
    with pair.fabric.frozen():  # none of them ends before the endpoint is closed
        for _ in range(8):
            near.endpoint.write(pattern(_LONG), *memory.at())
        near.endpoint.close()
    near.nothing_more()


@page("fi_close", "Closing an endpoint releases its resources.")
def endpoints_can_be_opened_and_closed_again_and_again(pair: Pair) -> None:
    """Open many more, one after the other, than the NIC has contexts; each works."""
    memory = pair.memory(8)
    for index in range(12):
        near = pair.open()
        near.endpoint.write(pattern(8, index), *memory.at())
        near.finish()
        near.endpoint.close()
        near.queue.close()
        expect_equal(f"memory after endpoint {index}", memory.load(), pattern(8, index))


@page("type: FI_EP_RDM", "Transfers are reliable: each is carried out, and once.", needs={"atomic"})
def every_operation_is_carried_out_once(pair: Pair) -> None:
    """Post ninety-six additions, sixteen at a time, each fetching the former value."""
    memory, results = memory_of(pair, 0), np.full(96, 999, np.uint64)
    for first in range(0, 96, 16):
        for index in range(first, first + 16):
            pair.near.endpoint.fetch_atomic(words(1), results[index : index + 1], *memory.at(), Op.FI_SUM)
        pair.near.finish_all(16)
    expect_equal("results", results.tolist(), list(range(96)))
    expect_equal("memory", held(memory), [96])


@page("type: FI_EP_RDM", "Transfers are reliable: what cannot be delivered fails, and nothing hangs.", needs={"cut"})
def an_unreachable_peer_makes_operations_fail(pair: Pair) -> None:
    """Post four writes into a link that is cut: four errors, and the endpoint works once the link does."""
    near, memory = pair.open(), pair.memory(32)
    with pair.cut():
        for index in range(4):
            near.endpoint.write(pattern(8), *memory.at(8 * index), context=index)
        failed = [near.failure(Errno.FI_ECONNRESET, Errno.FI_EHOSTUNREACH, Errno.FI_ETIMEDOUT) for _ in range(4)]
    expect_equal("contexts", sorted(entry.op_context for entry in failed), [0, 1, 2, 3])
    near.endpoint.write(pattern(32), *memory.at())
    near.finish()
    expect_equal("memory", memory.load(), pattern(32))
