"""fi_atomic(3), Completions: when atomics are reported, and to whom they are visible then."""

import numpy as np
from amoeba.libfabric.objects.constants import BindFlags, Caps, MrAccess, Op, OpFlags
from amoeba.libfabric.objects.operations.vectors import RmaIov, RmaMsg

from amoeba_tools.conformance.expectations import expect_equal
from amoeba_tools.conformance.pages.fi_atomic import LONG, held, memory_of, message, page, settle, words
from amoeba_tools.conformance.pages.fi_cntr import counted
from amoeba_tools.conformance.pair import Pair


@page("Completions", "The context of the request comes back with its completion.")
def every_kind_reports_its_context(pair: Pair) -> None:
    """Post one atomic of each kind, all outstanding at once."""
    memory = memory_of(pair, 0)
    pair.near.endpoint.atomic(words(1), *memory.at(), Op.FI_SUM, context="base")
    pair.near.endpoint.fetch_atomic(words(1), words(0), *memory.at(), Op.FI_SUM, context="fetch")
    pair.near.endpoint.compare_atomic(words(1), words(1), words(0), *memory.at(), Op.FI_CSWAP, context="compare")
    contexts = sorted(entry.op_context for entry in pair.near.finish_all(3))
    expect_equal("contexts", contexts, ["base", "compare", "fetch"])


@page("Completions", "Results are in place before the completion is generated, whatever level was asked for.")
def results_are_there_when_the_completion_is(pair: Pair) -> None:
    """Use more elements than a frame holds, with the weakest completion level."""
    memory, result = memory_of(pair, *range(LONG)), np.zeros(LONG, np.uint64)
    fetch = message(memory, np.ones(LONG, np.uint64))
    pair.near.endpoint.fetch_atomicmsg(fetch, [result], flags=OpFlags.FI_INJECT_COMPLETE)
    pair.near.finish()
    expect_equal("result", result.tolist(), list(range(LONG)))


@page("Completions", "When a base atomic has completed, its operands may be reused.")
def operands_are_free_when_the_completion_is_there(pair: Pair) -> None:
    """Overwrite the operands on completion."""
    memory, operands = memory_of(pair, *[0] * 32), np.arange(32, dtype=np.uint64)
    pair.near.endpoint.atomic(operands, *memory.at(), Op.FI_SUM)
    pair.near.finish()
    operands[:] = 999
    settle(pair, memory)
    expect_equal("memory", held(memory), list(range(32)))


@page("Completions", "An update is visible at the target before a completion that the atomic generates there.")
def updates_are_visible_when_their_own_completion_is(pair: Pair) -> None:
    """Post an atomic with data for the target's queue."""
    memory = memory_of(pair, 1, 2)
    pair.near.endpoint.atomicmsg(message(memory, words(10, 20), data=1 << 63), OpFlags.FI_REMOTE_CQ_DATA)
    (entry,) = pair.target.hear(1, pair.patience)
    expect_equal("memory at the target's completion", held(memory), [11, 22])
    expect_equal("data", entry.data, 1 << 63)
    pair.near.finish()


@page("Completions", "An update is visible before the completion of a transfer sent after the atomic has completed.")
def updates_are_visible_when_a_later_completion_is(pair: Pair) -> None:
    """Write other memory by RMA, with data for the target's queue."""
    memory, other = memory_of(pair, 1), memory_of(pair, 0)
    pair.near.endpoint.atomic(words(10), *memory.at(), Op.FI_SUM)
    pair.near.finish()
    pair.near.endpoint.writedata(words(1), 5, *other.at())
    pair.target.hear(1, pair.patience)
    expect_equal("memory at the target's completion", held(memory), [11])
    pair.near.finish()


@page("Completions", "An update is visible before the completion of a fenced transfer after it.", needs={"fence"})
def updates_are_visible_when_a_fenced_completion_is(pair: Pair) -> None:
    """Post the atomic without waiting for its completion."""
    memory, other = memory_of(pair, *[1] * 64), memory_of(pair, 0)
    peer, address, key = other.at()
    fenced = RmaMsg([words(1)], peer, [RmaIov(address, 8, key)], data=6)
    pair.near.endpoint.atomic(np.full(64, 10, np.uint64), *memory.at(), Op.FI_SUM)
    pair.near.endpoint.writemsg(fenced, OpFlags.FI_FENCE | OpFlags.FI_REMOTE_CQ_DATA)
    pair.target.hear(1, pair.patience)
    expect_equal("memory at the target's completion", held(memory), [11] * 64)
    pair.near.finish_all(2)


@page("Completions", "Atomics report what kind they are.")
def entries_say_whether_something_was_fetched(pair: Pair) -> None:
    """Expect FI_ATOMIC with FI_WRITE for base atomics, with FI_READ for those that fetch."""
    memory = memory_of(pair, 0)
    pair.near.endpoint.atomic(words(1), *memory.at(), Op.FI_SUM)
    expect_equal("flags of a base atomic", pair.near.finish().flags, int(Caps.FI_ATOMIC | Caps.FI_WRITE))
    pair.near.endpoint.fetch_atomic(words(1), words(0), *memory.at(), Op.FI_SUM)
    expect_equal("flags of a fetching one", pair.near.finish().flags, int(Caps.FI_ATOMIC | Caps.FI_READ))
    pair.near.endpoint.compare_atomic(words(1), words(0), words(0), *memory.at(), Op.FI_CSWAP)
    expect_equal("flags of a comparing one", pair.near.finish().flags, int(Caps.FI_ATOMIC | Caps.FI_READ))


@page("Completions", "Every kind of atomic can carry data for the target's queue.")
def all_kinds_of_atomics_tell_the_target_once(pair: Pair) -> None:
    """Expect one entry each, in order, with its data."""
    memory, flags = memory_of(pair, 3), OpFlags.FI_REMOTE_CQ_DATA
    pair.near.endpoint.atomicmsg(message(memory, words(1), data=1), flags)
    pair.near.endpoint.fetch_atomicmsg(message(memory, words(1), data=2), [words(0)], flags=flags)
    swap = message(memory, words(1), op=Op.FI_CSWAP, data=3)
    pair.near.endpoint.compare_atomicmsg(swap, [words(5)], [words(0)], flags=flags)
    expect_equal("data", [entry.data for entry in pair.target.hear(3, pair.patience)], [1, 2, 3])
    pair.near.finish_all(3)
    expect_equal("memory", held(memory), [1])


@page("Completions", "Atomics are reported by counters as well: by those of reads if they fetch, else of writes.")
def atomics_are_counted(pair: Pair) -> None:
    """Count three base atomics, one of them injected, a fetching and a comparing one."""
    near, (reads, writes) = counted(pair, BindFlags.FI_READ, BindFlags.FI_WRITE)
    memory = memory_of(pair, 0)
    near.endpoint.atomic(words(1), *memory.at(), Op.FI_SUM)
    near.endpoint.inject_atomic(words(1), *memory.at(), Op.FI_SUM)
    near.endpoint.atomicmsg(message(memory, words(1)))
    near.endpoint.fetch_atomic(words(1), words(0), *memory.at(), Op.FI_SUM)
    near.endpoint.compare_atomic(words(9), words(4), words(0), *memory.at(), Op.FI_CSWAP)
    reads.wait(2, pair.patience)
    writes.wait(3, pair.patience)
    expect_equal("reads and writes", (reads.read(), writes.read()), (2, 3))
    expect_equal("memory", held(memory), [9])


@page("Completions", "An update is visible at the target before a counter there says so.")
def updates_are_visible_when_a_counter_says_so(pair: Pair) -> None:
    """Count, at an endpoint of this side, the atomics of another one: a base atomic, then a fetching one."""
    changed, fetched = (pair.keep(pair.domain.cntr_open()) for _ in range(2))
    counters = {BindFlags.FI_REMOTE_WRITE: changed, BindFlags.FI_REMOTE_READ: fetched}
    own, content = pair.introduce(pair.open(counters=counters).endpoint), np.ones(64, np.uint64)
    region = pair.local(content, MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE)
    to = (own, region.address, region.key)
    pair.near.endpoint.atomic(np.full(64, 10, np.uint64), *to, Op.FI_SUM)
    changed.wait(1, pair.patience)
    expect_equal("memory after a change", content.tolist(), [11] * 64)
    pair.near.endpoint.fetch_atomic(np.full(64, 5, np.uint64), np.zeros(64, np.uint64), *to, Op.FI_SUM)
    fetched.wait(1, pair.patience)
    expect_equal("memory after a fetch", content.tolist(), [16] * 64)
    pair.near.finish_all(2)
    expect_equal("counters", (changed.read(), fetched.read()), (1, 1))


# Without a check of their own

page.leave(
    "Completions",
    "Updates are visible to CPUs, NICs and other devices alike.",
    "All these checks cover CPUs and NICs; the system has no other devices.",
)
page.leave(
    "Completions",
    "Atomics are correct as long as one actor at a time performs them; what an actor is.",
    "Nothing is said of several at a time. A NIC is one, with all its endpoints: "
    "`fi_atomic.two_endpoints_lose_no_update_of_the_same_word`.",
)
page.leave(
    "Completions",
    "An actor's results must be visible to the next before that begins.",
    "A duty of the application.",
)
