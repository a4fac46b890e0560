"""fi_atomic(3): the calls, what they are given, and the rights they need."""

import numpy as np
from amoeba import fi
from amoeba.core.errno import Errno
from amoeba.libfabric.objects.constants import FI_ADDR_UNSPEC, Datatype, MrAccess, Op, OpFlags
from amoeba.libfabric.objects.operations.vectors import AtomicMsg, RmaIoc

from amoeba_tools.conformance.connected import Parties
from amoeba_tools.conformance.expectations import expect, expect_equal, expect_error
from amoeba_tools.conformance.pair import Pair, RemoteMemory
from amoeba_tools.conformance.registry import Page

page = Page("fi_atomic", "1.17", needs={"atomic"})

U64 = Datatype.FI_UINT64
LONG = 1200
"""Elements of 64 bits that no frame holds."""


def words(*values: int) -> np.ndarray:
    return np.array(values, np.uint64)


def memory_of(pair: Pair, *values: int) -> RemoteMemory:
    """Return words of the target's memory."""
    return pair.memory(words(*values).tobytes())


def held(memory: RemoteMemory) -> list[int]:
    """Return the current words of the memory."""
    return [int(word) for word in np.frombuffer(memory.load(), np.uint64)]


def message(
    memory: RemoteMemory, *buffers: np.ndarray, op: Op = Op.FI_SUM, context: object = None, data: int = 0
) -> AtomicMsg:
    """Return a ``struct fi_msg_atomic`` on consecutive words of the target's memory."""
    count = sum(buffer.size for buffer in buffers)
    peer, address, key = memory.at()
    return AtomicMsg(buffers, peer, [RmaIoc(address, count, key)], op, U64, context=context, data=data)


def settle(pair: Pair, memory: RemoteMemory) -> None:
    """See all that was sent before executed: an atomic read behind it, which is waited for."""
    pair.near.endpoint.fetch_atomic(None, words(0), *memory.at(), Op.FI_ATOMIC_READ)
    pair.near.finish()


# Calls


@page("fi_atomic", "An operation on an array is applied to each of its entries.")
def arrays_are_updated_entry_by_entry(pair: Pair) -> None:
    """Use more entries than a frame holds, each with an operand of its own; the neighbours stay."""
    memory = memory_of(pair, *range(LONG + 2))
    operands = np.arange(LONG, dtype=np.uint64) * 1000
    pair.near.endpoint.atomic(operands, *memory.at(8), Op.FI_SUM)
    pair.near.finish()
    expect_equal("memory", held(memory), [0, *(1001 * i + 1 for i in range(LONG)), LONG + 1])


@page("Fetch-Atomic Functions", "The initial value of every entry is returned in the result buffer.")
def fetching_arrays_returns_every_initial_value(pair: Pair) -> None:
    """Use more entries than a frame holds."""
    memory = memory_of(pair, *range(LONG))
    result = np.zeros(LONG, np.uint64)
    pair.near.endpoint.fetch_atomic(np.ones(LONG, np.uint64), result, *memory.at(), Op.FI_SUM)
    pair.near.finish()
    expect_equal("result", result.tolist(), list(range(LONG)))
    expect_equal("memory", held(memory), list(range(1, LONG + 1)))


@page("Compare-Atomic Functions", "Every entry is compared with an entry of the compare buffer of its own.")
def comparing_arrays_decides_entry_by_entry(pair: Pair) -> None:
    """Use more entries than a frame holds, every third of which is equal."""
    memory = memory_of(pair, *range(LONG))
    compare = np.arange(LONG, dtype=np.uint64)
    compare[np.arange(LONG) % 3 > 0] = 10**6
    result = np.zeros(LONG, np.uint64)
    pair.near.endpoint.compare_atomic(np.full(LONG, 9, np.uint64), compare, result, *memory.at(), Op.FI_CSWAP)
    pair.near.finish()
    expect_equal("result", result.tolist(), list(range(LONG)))
    expect_equal("memory", held(memory), [i if i % 3 else 9 for i in range(LONG)])


@page("DESCRIPTION", "Every entry is updated atomically.")
def two_endpoints_lose_no_update_of_the_same_word(pair: Pair) -> None:
    """Add 1 sixteen times from both endpoints, all outstanding: each value is fetched once, the sum is right."""
    other, memory = pair.open(), memory_of(pair, 0)
    results = [words(99) for _ in range(32)]
    for index, result in enumerate(results):
        near = (pair.near, other)[index % 2]
        near.endpoint.fetch_atomic(words(1), result, *memory.at(), Op.FI_SUM)
    pair.near.finish_all(16)
    other.finish_all(16)
    expect_equal("fetched values", sorted(int(result[0]) for result in results), list(range(32)))
    expect_equal("memory", held(memory), [32])


@page("NOTES", "With message and data ordering, the second atomic acts on the results of the first.")
def atomics_act_on_the_results_of_earlier_ones(pair: Pair) -> None:
    """Post twelve atomics that do not commute, without a wait between them."""
    memory, expected = memory_of(pair, 1), 1
    for index in range(12):
        op = Op.FI_PROD if index % 2 else Op.FI_SUM
        pair.near.endpoint.atomic(words(index + 2), *memory.at(), op)
        expected = expected * (index + 2) if index % 2 else expected + index + 2
    pair.near.finish_all(12)
    expect_equal("memory", held(memory), [expected])


@page("fi_atomicv", "The buffers of iov are operands one after the other.")
def atomicv_gathers_its_operands(pair: Pair) -> None:
    """Use buffers of 1, 3 and 2 elements."""
    memory = memory_of(pair, *range(6))
    buffers = [words(10), words(20, 30, 40), words(50, 60)]
    pair.near.endpoint.atomicv(buffers, *memory.at(), Op.FI_SUM, context="v")
    expect_equal("op_context", pair.near.finish().op_context, "v")
    pair.near.nothing_more()
    expect_equal("memory", held(memory), [10, 21, 32, 43, 54, 65])


@page("fi_fetch_atomicv", "The initial values fill the buffers of resultv one after the other.")
def fetch_atomicv_scatters_its_results(pair: Pair) -> None:
    """Cut the results elsewhere than the operands."""
    memory = memory_of(pair, *range(6))
    results = [words(0, 0), words(0), words(0, 0, 0)]
    pair.near.endpoint.fetch_atomicv(
        [words(1), words(1, 1, 1), words(1, 1)], results, *memory.at(), Op.FI_SUM, context="v"
    )
    expect_equal("op_context", pair.near.finish().op_context, "v")
    pair.near.nothing_more()
    expect_equal("results", np.concatenate(results).tolist(), list(range(6)))
    expect_equal("memory", held(memory), list(range(1, 7)))


@page("fi_compare_atomicv", "Operands, values to compare and results may each be cut otherwise.")
def compare_atomicv_takes_three_vectors(pair: Pair) -> None:
    """Use five elements in three different cuts."""
    memory, results = memory_of(pair, *range(5)), [words(0), words(0, 0, 0, 0)]
    pair.near.endpoint.compare_atomicv(
        [words(90, 91, 92), words(93, 94)], [words(0, 8), words(2, 8, 4)], results, *memory.at(), Op.FI_CSWAP
    )
    pair.near.finish()
    pair.near.nothing_more()
    expect_equal("results", np.concatenate(results).tolist(), list(range(5)))
    expect_equal("memory", held(memory), [90, 1, 92, 3, 94])


@page("fi_atomicmsg", "rma_iov lists the pieces of remote memory that are updated, in order.")
def atomicmsg_updates_remote_segments(pair: Pair) -> None:
    """Use two regions, and a gap in one of them."""
    one, two = memory_of(pair, 0, 0, 0), memory_of(pair, 0, 0)
    places = (one.address + 16, 1, one.key), (two.address, 2, two.key), (one.address, 1, one.key)
    segments = [RmaIoc(*place) for place in places]
    pair.near.endpoint.atomicmsg(AtomicMsg([words(1, 2, 3, 4)], pair.peer, segments, Op.FI_SUM, context="msg"))
    expect_equal("op_context", pair.near.finish().op_context, "msg")
    pair.near.nothing_more()
    expect_equal("memory", [held(one), held(two)], [[4, 0, 1], [2, 3]])


@page("fi_fetch_atomicmsg", "As fi_atomicmsg, with the initial values of all pieces.")
def fetch_atomicmsg_fetches_from_remote_segments(pair: Pair) -> None:
    """Use segments in an order of their own."""
    memory, results = memory_of(pair, 10, 11, 12, 13), [words(0), words(0, 0)]
    segments = [RmaIoc(memory.address + 24, 1, memory.key), RmaIoc(memory.address, 2, memory.key)]
    pair.near.endpoint.fetch_atomicmsg(AtomicMsg([words(1, 1, 1)], pair.peer, segments, Op.FI_SUM), results)
    pair.near.finish()
    expect_equal("results", np.concatenate(results).tolist(), [13, 10, 11])
    expect_equal("memory", held(memory), [11, 12, 12, 14])


@page("fi_compare_atomicmsg", "As fi_fetch_atomicmsg, with values to compare.")
def compare_atomicmsg_compares_in_remote_segments(pair: Pair) -> None:
    """Use segments in an order of their own."""
    memory, result = memory_of(pair, 10, 11, 12, 13), words(0, 0, 0)
    segments = [RmaIoc(memory.address + 24, 1, memory.key), RmaIoc(memory.address, 2, memory.key)]
    pair.near.endpoint.compare_atomicmsg(
        AtomicMsg([words(1, 2, 3)], pair.peer, segments, Op.FI_CSWAP), [words(13, 0, 11)], [result]
    )
    pair.near.finish()
    expect_equal("result", result.tolist(), [13, 10, 11])
    expect_equal("memory", held(memory), [10, 3, 12, 1])


@page("fi_atomicmsg", "The elements of the remote segments are as many as those of the local buffers.")
def messages_of_different_counts_are_refused(pair: Pair) -> None:
    """Use one element too many on either side; nothing is updated."""
    memory = memory_of(pair, 0, 0, 0, 0)
    for count in (1, 3):
        wrong = AtomicMsg([words(1, 1)], pair.peer, [RmaIoc(memory.address, count, memory.key)], Op.FI_SUM)
        with expect_error(f"2 operands for {count} elements", Errno.FI_EINVAL):
            pair.near.endpoint.atomicmsg(wrong)
    with expect_error("1 result of 2", Errno.FI_EINVAL):
        pair.near.endpoint.fetch_atomic(words(1, 1), words(0), *memory.at(), Op.FI_SUM)
    with expect_error("1 value to compare of 2", Errno.FI_EINVAL):
        pair.near.endpoint.compare_atomic(words(1, 1), words(0), words(0, 0), *memory.at(), Op.FI_CSWAP)
    pair.near.nothing_more()
    expect_equal("memory", held(memory), [0, 0, 0, 0])


# Inject


@page("fi_inject_atomic", "The buffer may be reused as soon as the call returns.")
def inject_atomic_has_taken_the_operands_when_it_returns(pair: Pair) -> None:
    """Use one element to inject_size, overwritten at once."""
    for count in (1, 2, pair.info.tx_attr.inject_size // 8):
        memory, operands = memory_of(pair, *range(count)), np.full(count, 5, np.uint64)
        pair.near.endpoint.inject_atomic(operands, *memory.at(), Op.FI_SUM)
        operands[:] = 999
        settle(pair, memory)
        expect_equal(f"{count} elements", held(memory), [index + 5 for index in range(count)])


@page("fi_inject_atomic", "The call reports no completion, even without FI_SELECTIVE_COMPLETION, unless it fails.")
def inject_atomic_is_not_reported(pair: Pair) -> None:
    """Inject an atomic, then post a reported one: only the second has an entry."""
    memory = memory_of(pair, 1)
    pair.near.endpoint.inject_atomic(words(2), *memory.at(), Op.FI_SUM)
    pair.near.endpoint.atomic(words(3), *memory.at(), Op.FI_SUM, context="next")
    expect_equal("op_context", pair.near.finish().op_context, "next")
    pair.near.nothing_more()
    expect_equal("memory", held(memory), [6])


@page("fi_inject_atomic", "The size is limited by inject_size.")
def inject_atomic_beyond_inject_size_is_refused(pair: Pair) -> None:
    """Use one element too many; nothing is updated."""
    count = pair.info.tx_attr.inject_size // 8 + 1
    memory = memory_of(pair, *[0] * count)
    with expect_error(f"{8 * count} bytes", Errno.FI_EINVAL, Errno.FI_EMSGSIZE):
        pair.near.endpoint.inject_atomic(np.ones(count, np.uint64), *memory.at(), Op.FI_SUM)
    pair.near.nothing_more()
    expect_equal("memory", held(memory), [0] * count)


# Arguments


@page("SYNOPSIS", "Every call is there, with these arguments in this order.")
def calls_take_their_arguments_in_c_order(pair: Pair) -> None:
    """Make one call of each kind through the C names: what they change, fetch and report."""
    memory, ep, near = memory_of(pair, *range(10)), pair.near.endpoint, pair.near
    peer, start, key = memory.at()
    places, results = iter(range(start, start + 80, 8)), [words(99) for _ in range(6)]

    def msg(name: str, op: Op = Op.FI_SUM) -> AtomicMsg:
        return AtomicMsg([words(100)], peer, [RmaIoc(next(places), 1, key)], op, U64, context=name)

    fi.fi_atomic(ep, words(100), 1, None, peer, next(places), key, U64, Op.FI_SUM, "atomic")
    fi.fi_atomicv(ep, [words(100)], None, 1, peer, next(places), key, U64, Op.FI_SUM, "atomicv")
    fi.fi_atomicmsg(ep, msg("atomicmsg"), 0)
    fi.fi_inject_atomic(ep, words(100), 1, peer, next(places), key, U64, Op.FI_SUM)
    fi.fi_fetch_atomic(ep, words(100), 1, None, results[0], None, peer, next(places), key, U64, Op.FI_SUM, "fetch")
    fi.fi_fetch_atomicv(
        ep, [words(100)], None, 1, [results[1]], None, 1, peer, next(places), key, U64, Op.FI_SUM, "fetchv"
    )
    fi.fi_fetch_atomicmsg(ep, msg("fetchmsg"), [results[2]], None, 1, 0)
    fi.fi_compare_atomic(
        ep, words(100), 1, None, words(7), None, results[3], None, peer, next(places), key, U64, Op.FI_CSWAP, "swap"
    )
    fi.fi_compare_atomicv(
        ep, [words(100)], None, 1, [words(0)], None, 1, [results[4]], None, 1, peer, next(places), key, U64,
        Op.FI_CSWAP, "swapv",
    )  # fmt: skip
    fi.fi_compare_atomicmsg(ep, msg("swapmsg", Op.FI_CSWAP), [words(9)], None, 1, [results[5]], None, 1, 0)
    told = ["atomic", "atomicv", "atomicmsg", "fetch", "fetchv", "fetchmsg", "swap", "swapv", "swapmsg"]
    expect_equal("contexts", [entry.op_context for entry in near.finish_all(9)], told)
    expect_equal("memory", held(memory), [100, 101, 102, 103, 104, 105, 106, 100, 8, 100])
    expect_equal("results", [int(result[0]) for result in results], [4, 5, 6, 7, 8, 9])
    most = fi.fi_atomicvalid(ep, U64, Op.FI_SUM)
    expect(most > 0, f"expected one element or more, got {most}")
    expect_equal("fi_query_atomic", fi.fi_query_atomic(pair.domain, U64, Op.FI_SUM, 0).count, most)
    fi.fi_fetch_atomicvalid(ep, U64, Op.FI_SUM)
    fi.fi_compare_atomicvalid(ep, U64, Op.FI_CSWAP)


@page("ARGUMENTS: key", "The key protects the remote memory.")
def atomics_with_a_wrong_key_change_nothing(pair: Pair) -> None:
    """Flip a bit of the key, for all three kinds; results stay as they are."""
    memory, results = memory_of(pair, 1), [words(7), words(7)]
    peer, address, key = memory.at()
    pair.near.endpoint.atomic(words(1), peer, address, key ^ 1, Op.FI_SUM)
    pair.near.failure()
    pair.near.endpoint.fetch_atomic(words(1), results[0], peer, address, key ^ 1, Op.FI_SUM)
    pair.near.failure()
    pair.near.endpoint.compare_atomic(words(5), words(1), results[1], peer, address, key ^ 1, Op.FI_CSWAP)
    pair.near.failure()
    expect_equal("memory and results", [held(memory), *(each.tolist() for each in results)], [[1], [7], [7]])


@page("ARGUMENTS: desc, compare_desc, result_desc", "Descriptors are those of the local buffers' regions.")
def atomics_use_registered_buffers_through_their_descriptors(pair: Pair) -> None:
    """Use each kind of buffer in a region of its own; a region without the right for it is refused."""
    memory = memory_of(pair, *[3] * 9)
    sources, result = np.arange(1, 19, dtype=np.uint64), np.zeros(9, np.uint64)
    operands, compared = sources[:9], sources[9:]
    compared[:] = [3, 0, 3] * 3
    reads, writes = pair.local(sources, MrAccess.FI_WRITE), pair.local(result, MrAccess.FI_READ)
    call = pair.near.endpoint.compare_atomicv
    for what, descs in (
        ("operands in a region for results", (writes, reads, writes)),
        ("values to compare in a region for results", (reads, writes, writes)),
        ("results in a region for operands", (reads, reads, reads)),
    ):
        desc, compare_desc, result_desc = descs
        buffers = [sources if each is reads else result for each in descs]
        with expect_error(what, Errno.FI_EACCES):
            call(
                [buffers[0][:9]], [buffers[1][:9]], [buffers[2][:9]], *memory.at(), Op.FI_CSWAP,
                desc=[desc], compare_desc=[compare_desc], result_desc=[result_desc],
            )  # fmt: skip
    call(
        [operands], [compared], [result], *memory.at(), Op.FI_CSWAP,
        desc=[reads], compare_desc=[reads], result_desc=[writes],
    )  # fmt: skip
    pair.near.finish()
    pair.near.nothing_more()
    expect_equal("result", result.tolist(), [3] * 9)
    expect_equal("memory", held(memory), [1, 3, 3, 4, 3, 6, 7, 3, 9])


@page("ARGUMENTS: dest_addr", "Connected endpoints ignore it.", needs={"connected"})
def connected_endpoints_ignore_who_is_meant(pair: Pair) -> None:
    """Pass a number outside the address vector, for all three kinds."""
    memory, results = words(5), [words(0), words(0)]
    region = pair.local(memory, MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE)
    calling, answering = Parties(pair).connect()
    calling.endpoint.atomic(words(1), 12345, region.address, region.key, Op.FI_SUM)
    calling.finish()
    answering.endpoint.fetch_atomic(words(2), results[0], FI_ADDR_UNSPEC, region.address, region.key, Op.FI_SUM)
    answering.finish()
    calling.endpoint.compare_atomic(words(9), words(8), results[1], 54321, region.address, region.key, Op.FI_CSWAP)
    calling.finish()
    expect_equal("results", [int(result[0]) for result in results], [6, 8])
    expect_equal("memory", memory.tolist(), [9])


@page("fi_atomicmsg", "The call works on connected and on connectionless endpoints.", needs={"connected"})
def messages_go_over_connections(pair: Pair) -> None:
    """Send both ways, of all three kinds; all other checks are of connectionless endpoints."""
    memory, results = words(5), [words(0), words(0)]
    region = pair.local(memory, MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE)
    calling, answering = Parties(pair).connect()

    def msg(operand: int, op: Op) -> AtomicMsg:
        return AtomicMsg([words(operand)], FI_ADDR_UNSPEC, [RmaIoc(region.address, 1, region.key)], op, U64)

    calling.endpoint.atomicmsg(msg(1, Op.FI_SUM))
    calling.finish()
    answering.endpoint.fetch_atomicmsg(msg(2, Op.FI_SUM), [results[0]])
    answering.finish()
    calling.endpoint.compare_atomicmsg(msg(9, Op.FI_CSWAP), [words(8)], [results[1]])
    calling.finish()
    expect_equal("results", [int(result[0]) for result in results], [6, 8])
    expect_equal("memory", memory.tolist(), [9])


@page("ARGUMENTS: context", "The context is ignored where no success is reported.")
def contexts_of_what_is_not_reported_are_ignored(pair: Pair) -> None:
    """Post two atomics with a context: the one that is not reported leaves no trace of its context."""
    near, memory = pair.selective(), memory_of(pair, 0)
    near.endpoint.atomic(words(1), *memory.at(), Op.FI_SUM, context=["of no use"])
    near.endpoint.atomic(words(2), *memory.at(), Op.FI_SUM, context="reported", flags=OpFlags.FI_COMPLETION)
    expect_equal("op_context", near.finish().op_context, "reported")
    near.nothing_more()
    expect_equal("memory", held(memory), [3])


@page("Fetch-Atomic Functions", "FI_ATOMIC_READ ignores its operand, which may be NULL.")
def atomic_reads_ignore_their_operand(pair: Pair) -> None:
    """Call with an operand and without one; scattered, too."""
    memory, results = memory_of(pair, 8, 9), [words(0, 0) for _ in range(3)]
    pair.near.endpoint.fetch_atomic(words(5, 6), results[0], *memory.at(), Op.FI_ATOMIC_READ)
    pair.near.endpoint.fetch_atomic(None, results[1], *memory.at(), Op.FI_ATOMIC_READ)
    parts = [results[2][:1], results[2][1:]]
    pair.near.endpoint.fetch_atomicv([], parts, *memory.at(), Op.FI_ATOMIC_READ)
    pair.near.finish_all(3)
    expect_equal("results", [each.tolist() for each in results], [[8, 9]] * 3)
    expect_equal("memory", held(memory), [8, 9])


# Rights


@page("Base Atomic Functions", "The target buffer allows the access that the operation needs.")
def base_atomics_need_memory_that_peers_may_write(pair: Pair) -> None:
    """Succeed with FI_REMOTE_WRITE alone, and fail with FI_REMOTE_READ alone."""
    memory = pair.memory(words(1).tobytes(), MrAccess.FI_REMOTE_WRITE)
    pair.near.endpoint.atomic(words(1), *memory.at(), Op.FI_SUM)
    pair.near.finish()
    expect_equal("memory", held(memory), [2])
    readable = pair.memory(words(1).tobytes(), MrAccess.FI_REMOTE_READ)
    pair.near.endpoint.atomic(words(1), *readable.at(), Op.FI_SUM)
    pair.near.failure(Errno.FI_EACCES)
    expect_equal("memory that peers may only read", held(readable), [1])


@page("Fetch-Atomic Functions", "The target buffer is enabled for remote read access.")
def fetching_atomics_need_memory_that_peers_may_read(pair: Pair) -> None:
    """Use FI_REMOTE_WRITE alone: the atomics fail, and neither side's memory changes."""
    memory, result = pair.memory(words(1).tobytes(), MrAccess.FI_REMOTE_WRITE), words(7)
    pair.near.endpoint.fetch_atomic(words(1), result, *memory.at(), Op.FI_SUM)
    pair.near.failure(Errno.FI_EACCES)
    pair.near.endpoint.compare_atomic(words(5), words(1), result, *memory.at(), Op.FI_CSWAP)
    pair.near.failure(Errno.FI_EACCES)
    expect_equal("memory and result", [held(memory), result.tolist()], [[1], [7]])


@page("Fetch-Atomic Functions", "The target buffer is enabled for remote read access.")
def atomic_reads_need_nothing_else(pair: Pair) -> None:
    """Use FI_ATOMIC_READ of memory with FI_REMOTE_READ alone; another fetching atomic fails there."""
    memory, result = pair.memory(words(6).tobytes(), MrAccess.FI_REMOTE_READ), words(0)
    pair.near.endpoint.fetch_atomic(None, result, *memory.at(), Op.FI_ATOMIC_READ)
    pair.near.finish()
    expect_equal("result", result.tolist(), [6])
    pair.near.endpoint.fetch_atomic(words(1), result, *memory.at(), Op.FI_SUM)
    pair.near.failure(Errno.FI_EACCES)
    expect_equal("memory", held(memory), [6])


# Without a check of their own

page.leave("NAME, ARGUMENTS", "Names of the calls and their arguments.", "These are names.")
page.leave(
    "DESCRIPTION",
    "Atomicity is limited to one entry, not the whole array.",
    "The page allows more; readers may see a request half done: [memory](../hw/amoeba_hw/memory/README.md).",
)
page.leave(
    "fi_atomic",
    "The buffer is not touched before the call has completed.",
    "A duty of the application, without which the behaviour is undefined.",
)
page.leave(
    "Atomic Valid Functions",
    "The application emulates what is not supported.",
    "Something the application may do; everything is supported here.",
)
page.leave("RETURN VALUE", "0, or a negative errno.", "Errors are raised: [How C becomes Python](libfabric.md).")
page.leave(
    "NOTES",
    "The pseudo-code: entry after entry is written atomically.",
    "`fi_atomic.atomic_write_stores`, `fi_atomic.arrays_are_updated_entry_by_entry`",
)
