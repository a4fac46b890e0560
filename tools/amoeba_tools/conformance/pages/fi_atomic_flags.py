"""fi_atomic(3), FLAGS: what the calls may ask for; and FI_EAGAIN."""

import numpy as np
from amoeba.core.errno import Errno
from amoeba.core.errors import UnsupportedError
from amoeba.libfabric.objects.constants import BindFlags, Op, OpFlags, QueryFlags
from amoeba.libfabric.objects.operations.operations import NO_FLAGS
from amoeba.libfabric.objects.operations.vectors import AtomicMsg, RmaIoc, RmaIov, RmaMsg

from amoeba_tools.conformance.expectations import expect, expect_equal, expect_error
from amoeba_tools.conformance.pages.fi_atomic import LONG, U64, held, memory_of, message, page, words
from amoeba_tools.conformance.pair import Pair

_TOO_MANY = 1000
"""Atomics that no ring of 16 holds."""


@page("FLAGS: FI_INJECT", "All constant buffers, operands and values to compare, may be reused at once.")
def inject_flag_takes_operands_and_values_to_compare(pair: Pair) -> None:
    """Overwrite both when the call returns."""
    memory, result = memory_of(pair, 1, 2, 3), words(0, 0, 0)
    operands, compare = words(7, 8, 9), words(1, 0, 3)
    swap = message(memory, operands, op=Op.FI_CSWAP)
    pair.near.endpoint.compare_atomicmsg(swap, [compare], [result], flags=OpFlags.FI_INJECT)
    operands[:], compare[:] = 99, 2
    pair.near.finish()
    expect_equal("result", result.tolist(), [1, 2, 3])
    expect_equal("memory", held(memory), [7, 2, 9])


@page("FLAGS: FI_INJECT", "FI_INJECT is limited to inject_size.")
def inject_flag_beyond_inject_size_is_refused(pair: Pair) -> None:
    """Use one element too many; nothing is updated."""
    count = pair.info.tx_attr.inject_size // 8 + 1
    memory = memory_of(pair, *[0] * count)
    with expect_error(f"{8 * count} bytes", Errno.FI_EINVAL, Errno.FI_EMSGSIZE):
        pair.near.endpoint.atomicmsg(message(memory, np.ones(count, np.uint64)), OpFlags.FI_INJECT)
    pair.near.nothing_more()
    expect_equal("memory", held(memory), [0] * count)


@page("FLAGS: FI_COMPLETION", "The flag requests an entry on a queue that was bound with FI_SELECTIVE_COMPLETION.")
def completion_flag_reports_on_a_selective_queue(pair: Pair) -> None:
    """Set the flag on the second of three messages only; then on one message of each other kind."""
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
    """Post seven with the flag, the eighth without it."""
    memory = memory_of(pair, 0)
    for index in range(8):
        flags = OpFlags.FI_MORE if index < 7 else NO_FLAGS
        pair.near.endpoint.atomicmsg(message(memory, words(1 << index)), flags)
    pair.near.finish_all(8)
    expect_equal("memory", held(memory), [255])


@page("FLAGS: FI_FENCE", "A fenced operation sees the results of all earlier ones to the same peer.", needs={"fence"})
def fenced_atomic_sees_earlier_writes(pair: Pair) -> None:
    """Post a long RMA write; the fenced atomic adds to its last word."""
    memory = memory_of(pair, *[0] * LONG)
    written = np.arange(LONG, dtype=np.uint64)
    peer, address, key = memory.at()
    pair.near.endpoint.writemsg(RmaMsg([written], peer, [RmaIov(address, written.nbytes, key)]))
    last, result = AtomicMsg([words(1)], peer, [RmaIoc(address + 8 * (LONG - 1), 1, key)], Op.FI_SUM), words(0)
    pair.near.endpoint.fetch_atomicmsg(last, [result], flags=OpFlags.FI_FENCE)
    pair.near.finish_all(2)
    expect_equal("result", result.tolist(), [LONG - 1])
    expect_equal("the last word", held(memory)[-1], LONG)


@page("FLAGS: FI_FENCE", "Operations posted after the fenced one wait, too.", needs={"fence"})
def what_follows_a_fenced_atomic_waits_too(pair: Pair) -> None:
    """Post an atomic read behind a fenced atomic on other memory: the read sees updates from before the fence."""
    memory, other, result = memory_of(pair, 0), memory_of(pair, 0), words(0)
    for _ in range(6):
        pair.near.endpoint.atomic(words(1), *memory.at(), Op.FI_SUM)
    pair.near.endpoint.atomicmsg(message(other, words(1)), OpFlags.FI_FENCE)
    pair.near.endpoint.fetch_atomic(None, result, *memory.at(), Op.FI_ATOMIC_READ)
    pair.near.finish_all(8)
    expect_equal("result", result.tolist(), [6])


@page("FLAGS: FI_TAGGED", "The target is a tagged receive buffer; without one, the flag is refused.")
def tagged_atomics_are_offered_or_refused(pair: Pair) -> None:
    """Compare with fi_query_atomic, which answers, or says FI_EOPNOTSUPP or FI_ENOSYS, for each family."""
    for flags in (QueryFlags(0), QueryFlags.FI_FETCH_ATOMIC):
        try:
            attr = pair.domain.query_atomic(U64, Op.FI_SUM, QueryFlags.FI_TAGGED | flags)
        except UnsupportedError:
            continue
        expect("tagged" in pair.offers and attr.count > 0, f"FI_TAGGED is answered with {attr}, but not offered")


@page("FLAGS", "These flags are usable with the calls; others are refused.")
def flags_that_mean_nothing_here_are_refused(pair: Pair) -> None:
    """Pass flags that belong to messages; nothing is changed."""
    memory, result = memory_of(pair, 1), words(7)
    for flag in (OpFlags.FI_PEEK, OpFlags.FI_MATCH_COMPLETE, OpFlags.FI_MULTI_RECV):
        with expect_error(f"a base atomic with {flag!r}", Errno.FI_EBADFLAGS):
            pair.near.endpoint.atomicmsg(message(memory, words(1)), flag)
        with expect_error(f"a fetching one with {flag!r}", Errno.FI_EBADFLAGS):
            pair.near.endpoint.fetch_atomicmsg(message(memory, words(1)), [result], flags=flag)
    pair.near.nothing_more()
    expect_equal("memory and result", [held(memory), result.tolist()], [[1], [7]])


@page("FLAGS", "Flags of the message calls override those of the endpoint.")
def flags_of_messages_override_those_of_the_endpoint(pair: Pair) -> None:
    """Request completions by the endpoint's flags, not by the messages'; other calls have no flags of their own."""
    near = pair.open(bind=BindFlags.FI_SELECTIVE_COMPLETION, op_flags=OpFlags.FI_COMPLETION)
    memory, swap = memory_of(pair, 0), message(memory_of(pair, 0), words(5), op=Op.FI_CSWAP, context="swap")
    near.endpoint.atomicmsg(message(memory, words(1), context="silent"))
    near.endpoint.fetch_atomicmsg(message(memory, words(2), context="silent"), [words(0)])
    near.endpoint.compare_atomicmsg(swap, [words(0)], [words(0)])
    near.endpoint.atomic(words(4), *memory.at(), Op.FI_SUM, context="atomic")
    near.endpoint.atomicmsg(message(memory, words(8), context="asked for"), OpFlags.FI_COMPLETION)
    expect_equal("contexts", [entry.op_context for entry in near.finish_all(2)], ["atomic", "asked for"])
    near.nothing_more()
    expect_equal("memory", held(memory), [15])


@page("FLAGS: FI_COMPLETION", "Without FI_SELECTIVE_COMPLETION the flag is ignored.")
def completion_flag_is_ignored_on_other_queues(pair: Pair) -> None:
    """Expect one entry each, with the flag and without."""
    memory = memory_of(pair, 0)
    for context, flags in (("a", OpFlags.FI_COMPLETION), ("b", NO_FLAGS)):
        pair.near.endpoint.atomicmsg(message(memory, words(1), context=context), flags)
    expect_equal("contexts", [entry.op_context for entry in pair.near.finish_all(2)], ["a", "b"])
    pair.near.nothing_more()


@page("FLAGS: FI_INJECT", "Results are not affected: they arrive until the operation has completed.")
def results_of_injected_atomics_arrive(pair: Pair) -> None:
    """Overwrite the operands of fetching and comparing atomics at once."""
    memory, results, operand = memory_of(pair, 3, 4), [words(0, 0), words(0, 0)], words(5, 6)
    pair.near.endpoint.fetch_atomicmsg(message(memory, operand), [results[0]], flags=OpFlags.FI_INJECT)
    operand[:] = 1
    swap, compare = message(memory, operand, op=Op.FI_CSWAP), words(8, 0)
    pair.near.endpoint.compare_atomicmsg(swap, [compare], [results[1]], flags=OpFlags.FI_INJECT)
    operand[:], compare[:] = 99, 99
    pair.near.finish_all(2)
    expect_equal("results", [each.tolist() for each in results], [[3, 4], [8, 10]])
    expect_equal("memory", held(memory), [1, 10])


@page("ERRORS: FI_EAGAIN", "As in fi_msg(3): an atomic without free space is refused, and can be posted later.")
def atomics_beyond_the_queue_are_to_be_tried_again(pair: Pair) -> None:
    """Check that all accepted operations are executed, and no refused one."""
    near, memory, accepted = pair.open(tx_size=16), memory_of(pair, 0), 0
    with pair.fabric.frozen(), expect_error("more atomics than the ring has entries", Errno.FI_EAGAIN):
        while accepted < _TOO_MANY:
            near.endpoint.atomic(words(1), *memory.at(), Op.FI_SUM, flags=OpFlags.FI_MORE)
            accepted += 1
    near.finish_all(accepted)
    near.endpoint.atomic(words(100), *memory.at(), Op.FI_SUM)
    near.finish()
    near.nothing_more()
    expect_equal("memory", held(memory), [accepted + 100])


# Without a check of their own

page.leave("FLAGS: FI_MORE", "The flag may improve performance.", "The page requires nothing.")
page.leave("FLAGS: FI_INJECT", "The provider may have to copy the data.", "The page requires nothing.")
page.leave(
    "FLAGS: FI_FENCE",
    "From one fenced operation to the next, the endpoint's order holds.",
    "`fi_endpoint.fetching_after_updating_sees_it` and those behind it",
)
