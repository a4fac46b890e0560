"""The calls of fi_atomic(3)."""

import pytest
from amoeba import AtomicMsg, Datatype, Errno, Op, QueryFlags, RmaIoc, fi

from tests.driver.endpoints import ALL_ACCESS, refused
from tests.driver.libfabric.calls.c_node import words

U64 = Datatype.FI_UINT64


def test_base_atomics(client, memory, to):
    fi.fi_atomic(client.ep, words(10, 10, 10), 2, None, 0, *to, U64, Op.FI_SUM, "atomic")
    client.done("atomic")
    assert memory[:3].tolist() == [10, 11, 2]
    fi.fi_atomicv(client.ep, [words(1), words(1, 1)], None, 2, 0, *to, U64, Op.FI_SUM, "atomicv")
    client.done("atomicv")
    assert memory[:3].tolist() == [11, 12, 3]
    msg = AtomicMsg([words(2)], 0, [RmaIoc(to[0], 1, to[1])], Op.FI_PROD, U64, None, "atomicmsg")
    fi.fi_atomicmsg(client.ep, msg, 0)
    client.done("atomicmsg")
    fi.fi_inject_atomic(client.ep, words(1), 1, 0, *to, U64, Op.FI_SUM)
    result = words(0)
    fi.fi_fetch_atomic(client.ep, None, 1, None, result, None, 0, *to, U64, Op.FI_ATOMIC_READ)
    client.done()
    assert result[0] == memory[0] == 23


def test_fetching_atomics(client, memory, to):
    result = words(0, 0)
    fi.fi_fetch_atomic(client.ep, words(5, 5), 2, None, result, None, 0, *to, U64, Op.FI_SUM, "fetch")
    client.done("fetch")
    assert (result.tolist(), memory[:2].tolist()) == ([0, 1], [5, 6])
    parts = [words(0), words(0)]
    fi.fi_fetch_atomicv(client.ep, [words(1, 1)], None, 1, parts, None, 2, 0, *to, U64, Op.FI_SUM, "fetchv")
    client.done("fetchv")
    assert ([int(part[0]) for part in parts], memory[:2].tolist()) == ([5, 6], [6, 7])
    msg = AtomicMsg([words(2)], 0, [RmaIoc(to[0], 1, to[1])], Op.FI_PROD, U64, None, "fetchmsg")
    fi.fi_fetch_atomicmsg(client.ep, msg, parts, None, 1, 0)
    client.done("fetchmsg")
    assert (parts[0][0], memory[0]) == (6, 12)


def test_comparing_atomics(client, memory, to):
    result = words(99, 99)
    fi.fi_compare_atomic(
        client.ep, words(7, 7), 2, None, words(0, 0), None, result, None, 0, *to, U64, Op.FI_CSWAP, "compare"
    )
    client.done("compare")
    assert (result.tolist(), memory[:2].tolist()) == ([0, 1], [7, 1])
    operands, compares, results = [words(8), words(8)], [words(7), words(1)], [words(0), words(0)]
    fi.fi_compare_atomicv(
        client.ep, operands, None, 2, compares, None, 2, results, None, 2, 0, *to, U64, Op.FI_CSWAP, "comparev"
    )
    client.done("comparev")
    assert ([int(part[0]) for part in results], memory[:2].tolist()) == ([7, 1], [8, 8])
    msg = AtomicMsg([words(3)], 0, [RmaIoc(to[0], 1, to[1])], Op.FI_CSWAP, U64, None, "comparemsg")
    fi.fi_compare_atomicmsg(client.ep, msg, [words(8)], None, 1, results, None, 1, 0)
    client.done("comparemsg")
    assert (results[0][0], memory[0]) == (8, 3)


@pytest.mark.parametrize("which", range(3))
def test_each_buffer_of_an_atomic_may_have_its_own_region(client, to, keep, which):
    buffers = [words(1), words(1), words(1)]
    regions = [None] * 3
    regions[which] = keep(fi.fi_mr_reg(client.domain, buffers[which], 8, ALL_ACCESS, 0, 0, 0))
    (buf, desc), (compare, compare_desc), (result, result_desc) = zip(
        buffers, [mr and fi.fi_mr_desc(mr) for mr in regions], strict=True
    )
    fi.fi_compare_atomic(
        client.ep, buf, 1, desc, compare, compare_desc, result, result_desc, 0, *to, U64, Op.FI_CSWAP
    )
    client.done()
    assert result[0] == 0
    with refused(Errno.FI_EINVAL, "outside the region"):
        fi.fi_compare_atomic(
            client.ep, words(1), 1, regions[which], words(1), regions[which], words(1), regions[which], 0, *to, U64,
            Op.FI_CSWAP,
        )  # fmt: skip


def test_queries(client):
    for valid, flags, op in (
        (fi.fi_atomicvalid, 0, Op.FI_SUM),
        (fi.fi_fetch_atomicvalid, QueryFlags.FI_FETCH_ATOMIC, Op.FI_ATOMIC_READ),
        (fi.fi_compare_atomicvalid, QueryFlags.FI_COMPARE_ATOMIC, Op.FI_CSWAP),
    ):
        attr = fi.fi_query_atomic(client.domain, U64, op, flags)
        assert (attr.size, attr.count) == (8, valid(client.ep, U64, op))
    with refused(Errno.FI_EOPNOTSUPP):
        fi.fi_atomicvalid(client.ep, U64, Op.FI_CSWAP)
    with refused(Errno.FI_EOPNOTSUPP, "no datatype 55"):
        fi.fi_atomic(client.ep, words(1), 1, None, 0, 0, 0, 55, Op.FI_SUM)
