"""fi_atomic(3), Atomic Valid Functions, Query Atomic Attributes, ERRORS: what is executed, and what is refused."""

import contextlib
import functools
import mmap
from collections.abc import Callable

import numpy as np
from amoeba.core.errno import Errno
from amoeba.core.errors import UnsupportedError
from amoeba.libfabric.objects.constants import Datatype, Op, QueryFlags

from amoeba_tools.conformance.expectations import expect, expect_equal, expect_error
from amoeba_tools.conformance.pages.fi_atomic import U64, held, memory_of, page, words
from amoeba_tools.conformance.pair import Pair

BASE_OPS = frozenset(
    {
        Op.FI_MIN, Op.FI_MAX, Op.FI_SUM, Op.FI_PROD, Op.FI_LOR, Op.FI_LAND, Op.FI_BOR, Op.FI_BAND, Op.FI_LXOR,
        Op.FI_BXOR, Op.FI_ATOMIC_WRITE,
    }
)  # fmt: skip
FETCH_OPS = BASE_OPS | {Op.FI_ATOMIC_READ}
COMPARE_OPS = frozenset(
    {
        Op.FI_CSWAP, Op.FI_CSWAP_NE, Op.FI_CSWAP_LE, Op.FI_CSWAP_LT, Op.FI_CSWAP_GE, Op.FI_CSWAP_GT, Op.FI_MSWAP,
    }
)  # fmt: skip
_PAGE_OPS = FETCH_OPS | COMPARE_OPS
"""Operations that the page lists, in contrast to extensions of the device."""


def _valid(query: Callable[[Datatype, Op], int]) -> dict[tuple[Datatype, Op], int]:
    """Return the element counts of the accepted valid calls, for the page's operations."""
    found: dict[tuple[Datatype, Op], int] = {}
    for datatype in Datatype:
        for op in sorted(_PAGE_OPS):
            with contextlib.suppress(UnsupportedError):
                found[datatype, op] = query(datatype, op)
    return found


def _count(pair: Pair, flags: QueryFlags, datatype: Datatype, op: Op) -> int:
    return pair.domain.query_atomic(datatype, op, flags).count


def _only(what: str, query: Callable[[Datatype, Op], int], ops: frozenset[Op]) -> None:
    """See that a valid call answers for these operations only, for all of them on 64 bits, and with useful counts."""
    valid = _valid(query)
    expect({op for _, op in valid} <= ops, f"{what} answers for {sorted({op for _, op in valid} - ops)}")
    absent = sorted(op for op in ops if (U64, op) not in valid)
    expect(not absent, f"{what} of FI_UINT64 refuses {absent}")
    expect(min(valid.values()) >= 1, f"{what} answers with a count below 1: {min(valid.values())}")


@page("Atomic Valid Functions", "fi_atomicvalid returns which base atomics exist, and for how many elements.")
def atomicvalid_answers_for_base_atomics(pair: Pair) -> None:
    """Expect only the eleven operations that base atomics have, all of them on 64-bit integers."""
    _only("atomicvalid", pair.near.endpoint.atomicvalid, BASE_OPS)


@page("Atomic Valid Functions", "fi_fetch_atomicvalid returns which fetching atomics exist.")
def fetch_atomicvalid_answers_for_fetching_atomics(pair: Pair) -> None:
    """Expect only the twelve operations that fetching atomics have, all of them on 64-bit integers."""
    _only("fetch_atomicvalid", pair.near.endpoint.fetch_atomicvalid, FETCH_OPS)


@page("Atomic Valid Functions", "fi_compare_atomicvalid returns which comparing atomics exist.")
def compare_atomicvalid_answers_for_comparing_atomics(pair: Pair) -> None:
    """Expect only the seven operations that comparing atomics have, all of them on 64-bit integers."""
    _only("compare_atomicvalid", pair.near.endpoint.compare_atomicvalid, COMPARE_OPS)


@page("Query Atomic Attributes", "Without flags, with FI_FETCH_ATOMIC and with FI_COMPARE_ATOMIC as the valid calls.")
def query_atomic_agrees_with_the_valid_calls(pair: Pair) -> None:
    """Compare for every operation and datatype, refusals included."""
    for flags, query in (
        (QueryFlags(0), pair.near.endpoint.atomicvalid),
        (QueryFlags.FI_FETCH_ATOMIC, pair.near.endpoint.fetch_atomicvalid),
        (QueryFlags.FI_COMPARE_ATOMIC, pair.near.endpoint.compare_atomicvalid),
    ):
        expect_equal(f"query_atomic with {flags!r}", _valid(functools.partial(_count, pair, flags)), _valid(query))


@page("Query Atomic Attributes", "FI_FETCH_ATOMIC and FI_COMPARE_ATOMIC may not both be set.")
def query_atomic_for_both_families_is_refused(pair: Pair) -> None:
    """Expect an error: the page does not say which."""
    both = QueryFlags.FI_FETCH_ATOMIC | QueryFlags.FI_COMPARE_ATOMIC
    with expect_error("both families", Errno.FI_EINVAL, Errno.FI_EBADFLAGS):
        pair.domain.query_atomic(U64, Op.FI_SUM, both)


@page("Query Atomic Attributes", "size is the number of bytes of the datatype.")
def query_atomic_tells_sizes(pair: Pair) -> None:
    """Compare the datatypes whose sizes the page fixes."""
    sizes = {
        Datatype.FI_INT8: 1, Datatype.FI_UINT8: 1, Datatype.FI_INT16: 2, Datatype.FI_UINT16: 2, Datatype.FI_INT32: 4,
        Datatype.FI_UINT32: 4, Datatype.FI_INT64: 8, Datatype.FI_UINT64: 8, Datatype.FI_FLOAT: 4,
        Datatype.FI_DOUBLE: 8, Datatype.FI_FLOAT_COMPLEX: 8, Datatype.FI_DOUBLE_COMPLEX: 16,
    }  # fmt: skip
    told = {datatype: pair.domain.query_atomic(datatype, Op.FI_SUM).size for datatype in sizes}
    expect_equal("sizes", told, sizes)


@page("Query Atomic Attributes", "size is useful where a datatype's size differs by platform.", needs={"long_double"})
def query_atomic_tells_the_platforms_sizes(pair: Pair) -> None:
    """Expect long doubles as large as this platform's."""
    size = np.dtype(np.longdouble).itemsize
    for datatype, expected in ((Datatype.FI_LONG_DOUBLE, size), (Datatype.FI_LONG_DOUBLE_COMPLEX, 2 * size)):
        expect_equal(datatype.name, pair.domain.query_atomic(datatype, Op.FI_SUM).size, expected)


@page("Atomic Valid Functions", "Every combination reported as valid can be called.")
def what_is_valid_is_executed(pair: Pair) -> None:
    """Use every operation of the page on every datatype, in every form: all complete."""
    memory, near = pair.memory(64), pair.near
    operands, compare, result = (np.zeros(64, np.uint8) for _ in range(3))
    posted = 0
    for form, query in enumerate(
        (near.endpoint.atomicvalid, near.endpoint.fetch_atomicvalid, near.endpoint.compare_atomicvalid)
    ):
        for datatype, op in _valid(query):
            size = datatype.size
            target = (*memory.at(), op, datatype)
            if form == 0:
                near.endpoint.atomic(operands[:size], *target)
            elif form == 1:
                near.endpoint.fetch_atomic(operands[:size], result[:size], *target)
            else:
                near.endpoint.compare_atomic(operands[:size], compare[:size], result[:size], *target)
            posted += 1
            if posted % 16 == 0:
                near.finish_all(16)
    near.finish_all(posted % 16)


# Errors


@page("ERRORS: FI_EOPNOTSUPP", "An atomic that is not supported is refused.")
def what_is_not_valid_is_refused(pair: Pair) -> None:
    """Use operations without a meaning in a form or on a datatype; nothing is updated."""
    memory, near, real = memory_of(pair, 1), pair.near, np.ones(1)
    with expect_error("FI_BOR of FI_DOUBLE", Errno.FI_EOPNOTSUPP):
        near.endpoint.atomic(real, *memory.at(), Op.FI_BOR)
    with expect_error("FI_MIN of FI_DOUBLE_COMPLEX", Errno.FI_EOPNOTSUPP):
        near.endpoint.fetch_atomic(np.ones(1, "c16"), np.ones(1, "c16"), *memory.at(), Op.FI_MIN)
    with expect_error("FI_MSWAP of FI_DOUBLE", Errno.FI_EOPNOTSUPP):
        near.endpoint.compare_atomic(real, real, np.ones(1), *memory.at(), Op.FI_MSWAP)
    with expect_error("FI_ATOMIC_READ as a base atomic", Errno.FI_EOPNOTSUPP):
        near.endpoint.atomic(words(5), *memory.at(), Op.FI_ATOMIC_READ)
    with expect_error("FI_CSWAP as a fetching atomic", Errno.FI_EOPNOTSUPP):
        near.endpoint.fetch_atomic(words(5), words(0), *memory.at(), Op.FI_CSWAP)
    with expect_error("FI_SUM as a comparing atomic", Errno.FI_EOPNOTSUPP):
        near.endpoint.compare_atomic(words(5), words(1), words(0), *memory.at(), Op.FI_SUM)
    near.nothing_more()
    expect_equal("memory", held(memory), [1])


@page("ERRORS: FI_EMSGSIZE", "More elements than a valid call reports are refused.")
def more_elements_than_count_are_refused(pair: Pair) -> None:
    """Use one element more than that, of memory that is never touched; nothing is updated."""
    count = pair.near.endpoint.atomicvalid(U64, Op.FI_SUM) + 1
    memory = memory_of(pair, 1)
    with mmap.mmap(-1, 8 * count) as buffer, expect_error(f"{count} elements", Errno.FI_EMSGSIZE):
        pair.near.endpoint.atomic(buffer, *memory.at(), Op.FI_SUM, U64)
    pair.near.nothing_more()
    expect_equal("memory", held(memory), [1])


@page("NOTES", "The number of elements is at least 1.")
def no_elements_are_refused(pair: Pair) -> None:
    """Try every form."""
    memory, none = memory_of(pair, 1), words()
    with expect_error("a base atomic of no elements", Errno.FI_EINVAL):
        pair.near.endpoint.atomic(none, *memory.at(), Op.FI_SUM)
    with expect_error("a fetching atomic of no elements", Errno.FI_EINVAL):
        pair.near.endpoint.fetch_atomic(none, words(), *memory.at(), Op.FI_SUM)
    with expect_error("a comparing atomic of no elements", Errno.FI_EINVAL):
        pair.near.endpoint.compare_atomic(none, none, words(), *memory.at(), Op.FI_CSWAP)
    pair.near.nothing_more()


@page("ARGUMENTS", "Buffers hold whole elements of the datatype.")
def parts_of_elements_are_refused(pair: Pair) -> None:
    """Use seven bytes for elements of eight, and an element in two buffers."""
    memory = memory_of(pair, 1)
    with expect_error("7 bytes", Errno.FI_EINVAL):
        pair.near.endpoint.atomic(bytes(7), *memory.at(), Op.FI_SUM, U64)
    with expect_error("an element in two buffers", Errno.FI_EINVAL):
        pair.near.endpoint.atomicv([bytes(4), bytes(4)], *memory.at(), Op.FI_SUM, U64)
    pair.near.nothing_more()
    expect_equal("memory", held(memory), [1])
