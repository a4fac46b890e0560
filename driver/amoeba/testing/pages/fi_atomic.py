"""fi_atomic(3): the calls, their flags, their completions, and the rights they need."""

import numpy as np

from amoeba.constants import Caps, Datatype, Errno, MrAccess, Op, OpFlags, QueryFlags
from amoeba.errors import UnsupportedError
from amoeba.operations import NO_FLAGS
from amoeba.testing.expectations import expect, expect_equal, expect_error
from amoeba.testing.pair import Pair, RemoteMemory
from amoeba.testing.registry import Page
from amoeba.vectors import AtomicMsg, RmaIoc, RmaIov, RmaMsg

page = Page("fi_atomic", "1.17", needs={"atomic"})

U64 = Datatype.FI_UINT64
_LONG = 1200
"""Elements of 64 bits that no frame holds."""


def words(*values: int) -> np.ndarray:
    return np.array(values, np.uint64)


def memory_of(pair: Pair, *values: int) -> RemoteMemory:
    """Words of the target's memory."""
    return pair.memory(words(*values).tobytes())


def held(memory: RemoteMemory) -> list[int]:
    """The words that it holds now."""
    return [int(word) for word in np.frombuffer(memory.load(), np.uint64)]


def message(
    memory: RemoteMemory, *buffers: np.ndarray, op: Op = Op.FI_SUM, context: object = None, data: int = 0
) -> AtomicMsg:
    """A ``struct fi_msg_atomic`` on consecutive words of the target's memory."""
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
    """More entries than a frame holds, each with an operand of its own; the neighbours stay."""
    memory = memory_of(pair, *range(_LONG + 2))
    operands = np.arange(_LONG, dtype=np.uint64) * 1000
    pair.near.endpoint.atomic(operands, *memory.at(8), Op.FI_SUM)
    pair.near.finish()
    expect_equal("memory", held(memory), [0, *(1001 * i + 1 for i in range(_LONG)), _LONG + 1])


@page("Fetch-Atomic Functions", "The initial value of every entry is returned in the result buffer.")
def fetching_arrays_returns_every_initial_value(pair: Pair) -> None:
    """More entries than a frame holds."""
    memory = memory_of(pair, *range(_LONG))
    result = np.zeros(_LONG, np.uint64)
    pair.near.endpoint.fetch_atomic(np.ones(_LONG, np.uint64), result, *memory.at(), Op.FI_SUM)
    pair.near.finish()
    expect_equal("result", result.tolist(), list(range(_LONG)))
    expect_equal("memory", held(memory), list(range(1, _LONG + 1)))


@page("Compare-Atomic Functions", "Every entry is compared with an entry of the compare buffer of its own.")
def comparing_arrays_decides_entry_by_entry(pair: Pair) -> None:
    """More entries than a frame holds, every third of which is equal."""
    memory = memory_of(pair, *range(_LONG))
    compare = np.arange(_LONG, dtype=np.uint64)
    compare[np.arange(_LONG) % 3 > 0] = 10**6
    result = np.zeros(_LONG, np.uint64)
    pair.near.endpoint.compare_atomic(np.full(_LONG, 9, np.uint64), compare, result, *memory.at(), Op.FI_CSWAP)
    pair.near.finish()
    expect_equal("result", result.tolist(), list(range(_LONG)))
    expect_equal("memory", held(memory), [i if i % 3 else 9 for i in range(_LONG)])


@page("DESCRIPTION", "Every entry is updated atomically.")
def two_endpoints_lose_no_update_of_the_same_word(pair: Pair) -> None:
    """Both add 1 sixteen times, all under way at once: every value is fetched once, and the sum is right."""
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
    """Twelve that do not commute, none of them waited for."""
    memory, expected = memory_of(pair, 1), 1
    for index in range(12):
        op = Op.FI_PROD if index % 2 else Op.FI_SUM
        pair.near.endpoint.atomic(words(index + 2), *memory.at(), op)
        expected = expected * (index + 2) if index % 2 else expected + index + 2
    pair.near.finish_all(12)
    expect_equal("memory", held(memory), [expected])


@page("fi_atomicv", "The buffers of iov are operands one after the other.")
def atomicv_gathers_its_operands(pair: Pair) -> None:
    """Buffers of 1, 3 and 2 elements."""
    memory = memory_of(pair, *range(6))
    buffers = [words(10), words(20, 30, 40), words(50, 60)]
    pair.near.endpoint.atomicv(buffers, *memory.at(), Op.FI_SUM, context="v")
    expect_equal("op_context", pair.near.finish().op_context, "v")
    pair.near.nothing_more()
    expect_equal("memory", held(memory), [10, 21, 32, 43, 54, 65])


@page("fi_fetch_atomicv", "The initial values fill the buffers of resultv one after the other.")
def fetch_atomicv_scatters_its_results(pair: Pair) -> None:
    """Results are cut elsewhere than operands."""
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
    """Five elements in three different cuts."""
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
    """Two regions, and a gap in one of them."""
    one, two = memory_of(pair, 0, 0, 0), memory_of(pair, 0, 0)
    places = (one.address + 16, 1, one.key), (two.address, 2, two.key), (one.address, 1, one.key)
    segments = [RmaIoc(*place) for place in places]
    pair.near.endpoint.atomicmsg(AtomicMsg([words(1, 2, 3, 4)], pair.peer, segments, Op.FI_SUM, context="msg"))
    expect_equal("op_context", pair.near.finish().op_context, "msg")
    pair.near.nothing_more()
    expect_equal("memory", [held(one), held(two)], [[4, 0, 1], [2, 3]])


@page("fi_fetch_atomicmsg", "As fi_atomicmsg, with the initial values of all pieces.")
def fetch_atomicmsg_fetches_from_remote_segments(pair: Pair) -> None:
    """Segments in an order of their own."""
    memory, results = memory_of(pair, 10, 11, 12, 13), [words(0), words(0, 0)]
    segments = [RmaIoc(memory.address + 24, 1, memory.key), RmaIoc(memory.address, 2, memory.key)]
    pair.near.endpoint.fetch_atomicmsg(AtomicMsg([words(1, 1, 1)], pair.peer, segments, Op.FI_SUM), results)
    pair.near.finish()
    expect_equal("results", np.concatenate(results).tolist(), [13, 10, 11])
    expect_equal("memory", held(memory), [11, 12, 12, 14])


@page("fi_compare_atomicmsg", "As fi_fetch_atomicmsg, with values to compare.")
def compare_atomicmsg_compares_in_remote_segments(pair: Pair) -> None:
    """Segments in an order of their own."""
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
    """One too many on either side; nothing is updated."""
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
    """From one element to inject_size, overwritten at once."""
    for count in (1, 2, pair.info.tx_attr.inject_size // 8):
        memory, operands = memory_of(pair, *range(count)), np.full(count, 5, np.uint64)
        pair.near.endpoint.inject_atomic(operands, *memory.at(), Op.FI_SUM)
        operands[:] = 999
        settle(pair, memory)
        expect_equal(f"{count} elements", held(memory), [index + 5 for index in range(count)])


@page("fi_inject_atomic", "No completion is generated, even without FI_SELECTIVE_COMPLETION.")
def inject_atomic_is_not_reported(pair: Pair) -> None:
    """What follows it is reported, it is not."""
    memory = memory_of(pair, 1)
    pair.near.endpoint.inject_atomic(words(2), *memory.at(), Op.FI_SUM)
    pair.near.endpoint.atomic(words(3), *memory.at(), Op.FI_SUM, context="next")
    expect_equal("op_context", pair.near.finish().op_context, "next")
    pair.near.nothing_more()
    expect_equal("memory", held(memory), [6])


@page("fi_inject_atomic", "The size is limited by inject_size.")
def inject_atomic_beyond_inject_size_is_refused(pair: Pair) -> None:
    """One element too many; nothing is updated."""
    count = pair.info.tx_attr.inject_size // 8 + 1
    memory = memory_of(pair, *[0] * count)
    with expect_error(f"{8 * count} bytes", Errno.FI_EINVAL, Errno.FI_EMSGSIZE):
        pair.near.endpoint.inject_atomic(np.ones(count, np.uint64), *memory.at(), Op.FI_SUM)
    pair.near.nothing_more()
    expect_equal("memory", held(memory), [0] * count)


@page("FLAGS: FI_INJECT", "All constant buffers, operands and values to compare, may be reused at once.")
def inject_flag_takes_operands_and_values_to_compare(pair: Pair) -> None:
    """Both are overwritten when the call returns."""
    memory, result = memory_of(pair, 1, 2, 3), words(0, 0, 0)
    operands, compare = words(7, 8, 9), words(1, 0, 3)
    swap = message(memory, operands, op=Op.FI_CSWAP)
    pair.near.endpoint.compare_atomicmsg(swap, [compare], [result], flags=OpFlags.FI_INJECT)
    operands[:], compare[:] = 99, 2
    pair.near.finish()
    expect_equal("result", result.tolist(), [1, 2, 3])
    expect_equal("memory", held(memory), [7, 2, 9])


@page("FLAGS: FI_INJECT", "It can only be used up to inject_size.")
def inject_flag_beyond_inject_size_is_refused(pair: Pair) -> None:
    """One element too many; nothing is updated."""
    count = pair.info.tx_attr.inject_size // 8 + 1
    memory = memory_of(pair, *[0] * count)
    with expect_error(f"{8 * count} bytes", Errno.FI_EINVAL, Errno.FI_EMSGSIZE):
        pair.near.endpoint.atomicmsg(message(memory, np.ones(count, np.uint64)), OpFlags.FI_INJECT)
    pair.near.nothing_more()
    expect_equal("memory", held(memory), [0] * count)


# Other flags


@page("FLAGS: FI_COMPLETION", "It asks for an entry on a queue that was bound with FI_SELECTIVE_COMPLETION.")
def completion_flag_reports_on_a_selective_queue(pair: Pair) -> None:
    """Of three messages only the second has the flag; then one of each other kind with it."""
    near, memory = pair.selective(), memory_of(pair, 0)
    for context, flags in (("a", NO_FLAGS), ("b", OpFlags.FI_COMPLETION), ("c", NO_FLAGS)):
        near.endpoint.atomicmsg(message(memory, words(1), context=context), flags)
    fetch, swap = message(memory, words(1), context="d"), message(memory, words(5), op=Op.FI_CSWAP, context="e")
    near.endpoint.fetch_atomicmsg(fetch, [words(0)], flags=OpFlags.FI_COMPLETION)
    near.endpoint.compare_atomicmsg(swap, [words(4)], [words(0)], flags=OpFlags.FI_COMPLETION)
    expect_equal("contexts", [entry.op_context for entry in near.finish_all(3)], ["b", "d", "e"])
    near.nothing_more()
    expect_equal("memory", held(memory), [5])


@page("FLAGS: FI_MORE", "Further requests follow at once; all of them are carried out.")
def requests_with_more_are_carried_out(pair: Pair) -> None:
    """Seven with the flag, the eighth without it."""
    memory = memory_of(pair, 0)
    for index in range(8):
        flags = OpFlags.FI_MORE if index < 7 else NO_FLAGS
        pair.near.endpoint.atomicmsg(message(memory, words(1 << index)), flags)
    pair.near.finish_all(8)
    expect_equal("memory", held(memory), [255])


@page("FLAGS: FI_FENCE", "A fenced operation sees the results of all earlier ones to the same peer.", needs={"fence"})
def fenced_atomic_sees_earlier_writes(pair: Pair) -> None:
    """A long RMA write, whose last word the fenced atomic adds to."""
    memory = memory_of(pair, *[0] * _LONG)
    written = np.arange(_LONG, dtype=np.uint64)
    peer, address, key = memory.at()
    pair.near.endpoint.writemsg(RmaMsg([written], peer, [RmaIov(address, written.nbytes, key)]))
    last, result = AtomicMsg([words(1)], peer, [RmaIoc(address + 8 * (_LONG - 1), 1, key)], Op.FI_SUM), words(0)
    pair.near.endpoint.fetch_atomicmsg(last, [result], flags=OpFlags.FI_FENCE)
    pair.near.finish_all(2)
    expect_equal("result", result.tolist(), [_LONG - 1])
    expect_equal("the last word", held(memory)[-1], _LONG)


@page("FLAGS: FI_FENCE", "Operations posted after the fenced one wait, too.", needs={"fence"})
def what_follows_a_fenced_atomic_waits_too(pair: Pair) -> None:
    """An atomic read, posted after a fenced one of other memory, sees updates from before it."""
    memory, other, result = memory_of(pair, 0), memory_of(pair, 0), words(0)
    for _ in range(6):
        pair.near.endpoint.atomic(words(1), *memory.at(), Op.FI_SUM)
    pair.near.endpoint.atomicmsg(message(other, words(1)), OpFlags.FI_FENCE)
    pair.near.endpoint.fetch_atomic(None, result, *memory.at(), Op.FI_ATOMIC_READ)
    pair.near.finish_all(8)
    expect_equal("result", result.tolist(), [6])


@page("FLAGS: FI_TAGGED", "The target is a tagged receive buffer; where there is none, the flag is refused.")
def tagged_atomics_are_offered_or_refused(pair: Pair) -> None:
    """fi_query_atomic answers, or says FI_EOPNOTSUPP or FI_ENOSYS; so for each family."""
    for flags in (QueryFlags(0), QueryFlags.FI_FETCH_ATOMIC):
        try:
            attr = pair.domain.query_atomic(U64, Op.FI_SUM, QueryFlags.FI_TAGGED | flags)
        except UnsupportedError:
            continue
        expect("tagged" in pair.offers and attr.count > 0, f"FI_TAGGED is answered with {attr}, but not offered")


# Completions


@page("Completions", "The context of the request comes back with its completion.")
def every_kind_reports_its_context(pair: Pair) -> None:
    """One of each kind, all under way at once."""
    memory = memory_of(pair, 0)
    pair.near.endpoint.atomic(words(1), *memory.at(), Op.FI_SUM, context="base")
    pair.near.endpoint.fetch_atomic(words(1), words(0), *memory.at(), Op.FI_SUM, context="fetch")
    pair.near.endpoint.compare_atomic(words(1), words(1), words(0), *memory.at(), Op.FI_CSWAP, context="compare")
    contexts = sorted(entry.op_context for entry in pair.near.finish_all(3))
    expect_equal("contexts", contexts, ["base", "compare", "fetch"])


@page("Completions", "Results are in place before the completion is generated, whatever level was asked for.")
def results_are_there_when_the_completion_is(pair: Pair) -> None:
    """More elements than a frame holds, asked for at the weakest level."""
    memory, result = memory_of(pair, *range(_LONG)), np.zeros(_LONG, np.uint64)
    fetch = message(memory, np.ones(_LONG, np.uint64))
    pair.near.endpoint.fetch_atomicmsg(fetch, [result], flags=OpFlags.FI_INJECT_COMPLETE)
    pair.near.finish()
    expect_equal("result", result.tolist(), list(range(_LONG)))


@page("Completions", "When a base atomic has completed, its operands may be reused.")
def operands_are_free_when_the_completion_is_there(pair: Pair) -> None:
    """They are overwritten then."""
    memory, operands = memory_of(pair, *[0] * 32), np.arange(32, dtype=np.uint64)
    pair.near.endpoint.atomic(operands, *memory.at(), Op.FI_SUM)
    pair.near.finish()
    operands[:] = 999
    settle(pair, memory)
    expect_equal("memory", held(memory), list(range(32)))


@page("Completions", "An update is visible at the target before a completion that the atomic generates there.")
def updates_are_visible_when_their_own_completion_is(pair: Pair) -> None:
    """An atomic with data for the target's queue."""
    memory = memory_of(pair, 1, 2)
    pair.near.endpoint.atomicmsg(message(memory, words(10, 20), data=1 << 63), OpFlags.FI_REMOTE_CQ_DATA)
    (entry,) = pair.target.hear(1, pair.patience)
    expect_equal("memory when the target was told", held(memory), [11, 22])
    expect_equal("data", entry.data, 1 << 63)
    pair.near.finish()


@page("Completions", "An update is visible before the completion of a transfer sent after the atomic has completed.")
def updates_are_visible_when_a_later_completion_is(pair: Pair) -> None:
    """An RMA write with data for the target's queue, of other memory."""
    memory, other = memory_of(pair, 1), memory_of(pair, 0)
    pair.near.endpoint.atomic(words(10), *memory.at(), Op.FI_SUM)
    pair.near.finish()
    pair.near.endpoint.writedata(words(1), 5, *other.at())
    pair.target.hear(1, pair.patience)
    expect_equal("memory when the target was told", held(memory), [11])
    pair.near.finish()


@page("Completions", "An update is visible before the completion of a fenced transfer after it.", needs={"fence"})
def updates_are_visible_when_a_fenced_completion_is(pair: Pair) -> None:
    """The atomic is not waited for."""
    memory, other = memory_of(pair, *[1] * 64), memory_of(pair, 0)
    peer, address, key = other.at()
    fenced = RmaMsg([words(1)], peer, [RmaIov(address, 8, key)], data=6)
    pair.near.endpoint.atomic(np.full(64, 10, np.uint64), *memory.at(), Op.FI_SUM)
    pair.near.endpoint.writemsg(fenced, OpFlags.FI_FENCE | OpFlags.FI_REMOTE_CQ_DATA)
    pair.target.hear(1, pair.patience)
    expect_equal("memory when the target was told", held(memory), [11] * 64)
    pair.near.finish_all(2)


@page("Completions", "Atomics report what kind they are.")
def entries_say_whether_something_was_fetched(pair: Pair) -> None:
    """FI_ATOMIC with FI_WRITE for base atomics, with FI_READ for those that fetch."""
    memory = memory_of(pair, 0)
    pair.near.endpoint.atomic(words(1), *memory.at(), Op.FI_SUM)
    expect_equal("flags of a base atomic", pair.near.finish().flags, int(Caps.FI_ATOMIC | Caps.FI_WRITE))
    pair.near.endpoint.fetch_atomic(words(1), words(0), *memory.at(), Op.FI_SUM)
    expect_equal("flags of a fetching one", pair.near.finish().flags, int(Caps.FI_ATOMIC | Caps.FI_READ))
    pair.near.endpoint.compare_atomic(words(1), words(0), words(0), *memory.at(), Op.FI_CSWAP)
    expect_equal("flags of a comparing one", pair.near.finish().flags, int(Caps.FI_ATOMIC | Caps.FI_READ))


@page("Completions", "Every kind of atomic can carry data for the target's queue.")
def all_kinds_of_atomics_tell_the_target_once(pair: Pair) -> None:
    """One entry each, in order, with its data."""
    memory, flags = memory_of(pair, 3), OpFlags.FI_REMOTE_CQ_DATA
    pair.near.endpoint.atomicmsg(message(memory, words(1), data=1), flags)
    pair.near.endpoint.fetch_atomicmsg(message(memory, words(1), data=2), [words(0)], flags=flags)
    swap = message(memory, words(1), op=Op.FI_CSWAP, data=3)
    pair.near.endpoint.compare_atomicmsg(swap, [words(5)], [words(0)], flags=flags)
    expect_equal("data", [entry.data for entry in pair.target.hear(3, pair.patience)], [1, 2, 3])
    pair.near.finish_all(3)
    expect_equal("memory", held(memory), [1])


# Rights


@page("Base Atomic Functions", "The target buffer allows the access that the operation needs.")
def base_atomics_need_memory_that_peers_may_write(pair: Pair) -> None:
    """They do with FI_REMOTE_WRITE alone, and not with FI_REMOTE_READ alone."""
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
    """With FI_REMOTE_WRITE alone they fail, and neither side's memory changes."""
    memory, result = pair.memory(words(1).tobytes(), MrAccess.FI_REMOTE_WRITE), words(7)
    pair.near.endpoint.fetch_atomic(words(1), result, *memory.at(), Op.FI_SUM)
    pair.near.failure(Errno.FI_EACCES)
    pair.near.endpoint.compare_atomic(words(5), words(1), result, *memory.at(), Op.FI_CSWAP)
    pair.near.failure(Errno.FI_EACCES)
    expect_equal("memory and result", [held(memory), result.tolist()], [[1], [7]])


@page("Fetch-Atomic Functions", "The target buffer is enabled for remote read access.")
def atomic_reads_need_nothing_else(pair: Pair) -> None:
    """FI_ATOMIC_READ of memory with FI_REMOTE_READ alone; another fetching atomic fails there."""
    memory, result = pair.memory(words(6).tobytes(), MrAccess.FI_REMOTE_READ), words(0)
    pair.near.endpoint.fetch_atomic(None, result, *memory.at(), Op.FI_ATOMIC_READ)
    pair.near.finish()
    expect_equal("result", result.tolist(), [6])
    pair.near.endpoint.fetch_atomic(words(1), result, *memory.at(), Op.FI_SUM)
    pair.near.failure(Errno.FI_EACCES)
    expect_equal("memory", held(memory), [6])
