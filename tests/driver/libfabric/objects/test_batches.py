"""Batches: arrays of operations in one call, against what NumPy makes of the same.

Covers ``libfabric/objects/operations/batches.py`` and ``transport/batches.py``.
"""

import numpy as np
import pytest
from amoeba import (
    BATCH_STATUS,
    BindFlags,
    CqFormat,
    Datatype,
    Errno,
    Op,
    OpFlags,
    Retransmission,
    TxAttr,
    open_cluster,
)
from amoeba_model.wire.uet import ReturnCode

from tests.driver.batching import KINDS, WORDS, opened, scene_on
from tests.driver.endpoints import ALL_ACCESS, refused

RNG = np.random.default_rng(20261123)
COUNT = 200


def drawn(count=COUNT):
    """(indices with many duplicates, values)."""
    return RNG.integers(0, WORDS, count), RNG.integers(1, 1 << 48, count, dtype=np.uint64)


# What is done


def test_a_batch_of_writes_is_like_assignments_one_after_the_other(scene):
    indices, values = drawn()
    assert scene.endpoint.write_batch(values, *scene.to, index=indices, context="all") == COUNT
    entry = scene.finish()
    assert (entry.op_context, entry.len) == ("all", 8 * COUNT)
    for index, value in zip(indices, values, strict=True):
        scene.expected[0][index] = value
    scene.check()


def test_a_batch_of_reads_gathers(scene):
    indices, _ = drawn()
    found = np.zeros(COUNT, np.uint64)
    assert scene.endpoint.read_batch(found, *scene.to, index=indices) == COUNT
    scene.finish()
    np.testing.assert_array_equal(found, scene.expected[0][indices])
    scene.check()


@pytest.mark.parametrize(
    ("op", "ufunc"),
    [(Op.FI_SUM, np.add), (Op.FI_BXOR, np.bitwise_xor), (Op.FI_MAX, np.maximum), (Op.FI_MIN, np.minimum)],
)
def test_a_batch_of_atomics_accumulates_duplicates_as_numpy_does_by_at(scene, op, ufunc):
    indices, values = drawn()
    peer, address, key = scene.to
    assert scene.endpoint.atomic_batch(values, peer, address + 8 * indices, key, op) == COUNT
    scene.finish()
    ufunc.at(scene.expected[0], indices, values)
    scene.check()


def test_fetching_atomics_of_a_batch_see_each_others_results(scene):
    indices, values = drawn()
    old = np.zeros(COUNT, np.uint64)
    assert scene.endpoint.fetch_atomic_batch(values, old, *scene.to, Op.FI_SUM, index=indices) == COUNT
    scene.finish()
    for number, (index, value) in enumerate(zip(indices, values, strict=True)):
        assert old[number] == scene.expected[0][index]
        scene.expected[0][index] += value
    scene.check()


def test_comparing_atomics_of_a_batch_see_each_others_results(scene):
    indices, values = drawn()
    expected = scene.expected[0]
    compare = np.where(RNG.random(COUNT) < 0.5, expected[indices], values[::-1])
    old = np.zeros(COUNT, np.uint64)
    scene.endpoint.compare_atomic_batch(values, compare, old, *scene.to, Op.FI_CSWAP, index=indices)
    scene.finish()
    for number, (index, value) in enumerate(zip(indices, values, strict=True)):
        assert old[number] == expected[index]
        if compare[number] == expected[index]:
            expected[index] = value
    scene.check()


def test_operations_go_to_several_peers_each_in_their_order(scene):
    indices, values = drawn()
    which = RNG.integers(0, 2, COUNT)
    peers, addresses, keys = np.array([scene.targets, scene.addresses, scene.keys], np.uint64)[:, which]
    old = np.zeros(COUNT, np.uint64)
    scene.endpoint.fetch_atomic_batch(values, old, peers, addresses, keys, Op.FI_SUM, index=indices)
    scene.finish()
    for number, (target, index, value) in enumerate(zip(which, indices, values, strict=True)):
        assert old[number] == scene.expected[target][index]
        scene.expected[target][index] += value
    scene.check()


def test_rows_of_several_elements_are_one_operation_each(scene):
    rows = RNG.integers(0, 1 << 62, (20, 4), dtype=np.uint64)
    scene.endpoint.write_batch(rows, *scene.to, index=[*range(15, -1, -1), 0, 3, 5, 7])
    scene.finish()
    table = scene.expected[0].reshape(16, 4)
    table[::-1] = rows[:16]
    table[[0, 3, 5, 7]] = rows[16:]
    scene.check()
    back = np.zeros((3, 4), np.uint64)
    scene.endpoint.read_batch(back, *scene.to, index=[15, 0, 7])
    scene.finish()
    np.testing.assert_array_equal(back, table[[15, 0, 7]])


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8", "c8", "c16"])
def test_elements_of_any_size_are_added(dtype):
    with opened("model,rtl,model", dtype=dtype) as scene:
        indices = RNG.integers(0, WORDS, 50)
        values = RNG.integers(0, 9, 50).astype(dtype)  # so that sums of floating point are exact
        scene.endpoint.atomic_batch(values, *scene.to, Op.FI_SUM, index=indices)
        scene.finish()
        np.add.at(scene.expected[0], indices, values)
        scene.check()


def test_one_operand_serves_all_operations(scene):
    indices, _ = drawn()
    scene.endpoint.atomic_batch(np.uint64(3), *scene.to, Op.FI_SUM, index=indices)
    scene.finish()
    scene.endpoint.atomic_batch(4, *scene.to, Op.FI_SUM, Datatype.FI_UINT64, index=indices)
    scene.finish()
    np.add.at(scene.expected[0], indices, np.uint64(7))
    scene.check()


def test_all_operations_may_concern_one_address(scene):
    peer, address, key = scene.to
    scene.endpoint.atomic_batch(np.arange(100, dtype=np.uint64), peer, address + 16, key, Op.FI_SUM)
    scene.finish()
    scene.expected[0][2] += 4950
    scene.check()


def test_atomic_reads_of_a_batch_need_no_operands(scene):
    found = np.zeros(COUNT, np.uint64)
    indices, _ = drawn()
    scene.endpoint.fetch_atomic_batch(None, found, *scene.to, Op.FI_ATOMIC_READ, index=indices)
    scene.finish()
    np.testing.assert_array_equal(found, scene.expected[0][indices])


def test_injected_operands_may_be_changed_at_once_whatever_their_size(scene):
    rows = RNG.integers(0, 1 << 62, (4, 16), dtype=np.uint64)
    table = scene.expected[0].reshape(4, 16)
    table[:] = rows
    assert scene.endpoint.inject_write_batch(rows, *scene.to, index=range(4)) == 4
    rows[:] = 0
    ones = np.ones(16, np.uint64)
    assert scene.endpoint.inject_atomic_batch(ones, *scene.to, Op.FI_SUM, index=range(16)) == 16
    ones[:] = 0
    table[0] += 1
    scene.pass_silently(lambda: not scene.endpoint._rings.outstanding)
    scene.check()


def test_regions_hold_operands_and_results(scene, keep):
    local = np.zeros((2, 30, 2), np.uint64)
    region = keep(scene.domain.mr_reg(local, ALL_ACCESS))
    local[0] = RNG.integers(0, 99, (30, 2))
    scene.endpoint.fetch_atomic_batch(
        local[0], local[1], *scene.to, Op.FI_SUM, index=np.arange(30), desc=region, result_desc=region
    )
    scene.finish()
    np.testing.assert_array_equal(local[1].reshape(-1), scene.expected[0][:60])
    scene.expected[0][:60] += local[0].reshape(-1)
    scene.check()


def test_operands_with_gaps_are_taken_as_numpy_sees_them(scene):
    wide = RNG.integers(0, 1 << 62, (20, 8), dtype=np.uint64)
    scene.endpoint.write_batch(wide[:, ::4], *scene.to, index=np.arange(20))
    scene.finish()
    scene.expected[0][:40] = wide[:, ::4].reshape(-1)
    scene.check()


# Rings that are full


def test_batches_of_any_size_go_round_a_small_ring_again_and_again(scene):
    for count in (1, 63, 64, 65, 1000):
        indices, values = drawn(count)
        assert scene.endpoint.atomic_batch(values, *scene.to, Op.FI_SUM, index=indices, context=count) == count
        assert scene.finish().op_context == count
        np.add.at(scene.expected[0], indices, values)
    scene.check()
    assert scene.endpoint.tx_size_left == 64


def test_without_waiting_a_batch_says_how_much_was_posted_and_the_rest_can_be_submitted_again(scene):
    indices, values = drawn()
    done = 0
    counts = []
    while done < COUNT:
        posted = scene.endpoint.atomic_batch(
            values[done:], *scene.to, Op.FI_SUM, index=indices[done:], context=done, wait=False
        )
        if posted:
            assert scene.finish()[::2] == (done, 8 * posted)
        counts.append(posted)
        done += posted
    assert counts == [64, 64, 64, 8]
    np.add.at(scene.expected[0], indices, values)
    scene.check()


def test_a_full_ring_takes_nothing_without_waiting_and_nothing_is_reported(scene):
    assert scene.endpoint.write_batch(np.ones(64, np.uint64), *scene.to, context="first", wait=False) == 64
    assert scene.endpoint.write_batch(np.zeros(9, np.uint64), *scene.to, context="second", wait=False) == 0
    assert scene.finish().op_context == "first"
    scene.pass_silently(lambda: not scene.endpoint._rings.outstanding)
    scene.expected[0][0] = 1
    scene.check()


def test_batches_and_single_operations_share_a_ring(scene):
    peer, address, key = scene.to
    for number in range(10):
        scene.endpoint.atomic(np.array([1], np.uint64), peer, address, key, Op.FI_SUM, context=number)
        scene.endpoint.atomic_batch(
            np.full(number, 10, np.uint64), peer, address, key, Op.FI_SUM, context=("batch", number)
        )
    contexts = []
    while len(contexts) < 19:
        contexts += [entry.op_context for entry in scene.queue.sread(99, timeout=30)]
    # a batch of nothing has no completion
    assert contexts == [each for number in range(10) for each in (number, ("batch", number))[: 2 if number else 1]]
    scene.expected[0][0] += 10 + 450
    scene.check()


def test_more_operations_may_follow_before_the_doorbell_is_rung(scene):
    peer, address, key = scene.to
    scene.endpoint.atomic_batch(np.ones(10, np.uint64), peer, address, key, Op.FI_SUM, flags=OpFlags.FI_MORE)
    rung = []
    scene.endpoint._rings.tell_doorbells(lambda: rung.append(True))
    scene.endpoint.atomic(np.ones(1, np.uint64), peer, address, key, Op.FI_SUM)
    assert rung == [True]
    scene.finish()
    scene.finish()
    scene.expected[0][0] += 11
    scene.check()


def test_an_empty_batch_posts_nothing(scene):
    nothing = np.zeros(0, np.uint64)
    assert scene.endpoint.write_batch(nothing, scene.peer, nothing, scene.keys[0]) == 0
    assert scene.endpoint.write_batch(nothing, [], [], []) == 0
    assert scene.queue.read() == []


# What fails


def test_refused_operations_are_named_and_the_others_executed(scene):
    indices, values = drawn()
    keys = np.full(COUNT, scene.keys[0])
    keys[[7, 100]] ^= 1
    addresses = scene.addresses[0] + 8 * indices
    addresses[150] = scene.addresses[0] + 8 * WORDS
    status = np.zeros(COUNT, BATCH_STATUS)
    posted = scene.endpoint.atomic_batch(
        values, scene.peer, addresses, keys, Op.FI_SUM, context="mixed", status=status
    )
    assert posted == COUNT
    failure = scene.failure()
    assert (failure.op_context, failure.err, failure.len) == ("mixed", Errno.FI_ENOKEY, 8 * COUNT)
    assert failure.prov_errno == ReturnCode.BAD_MKEY
    assert failure.failures.tolist() == [
        (7, ReturnCode.BAD_MKEY, Errno.FI_ENOKEY),
        (100, ReturnCode.BAD_MKEY, Errno.FI_ENOKEY),
        (150, ReturnCode.BAD_ADDR, Errno.FI_EINVAL),
    ]
    with refused(Errno.FI_ENOKEY, r"3 operations of a batch failed, number 7 first; atomic .* \(BAD_MKEY\)"):
        raise failure.error()
    assert status["done"].all()
    assert np.flatnonzero(status["err"]).tolist() == [7, 100, 150]
    assert status["prov_errno"][[6, 7, 150]].tolist() == [ReturnCode.OK, ReturnCode.BAD_MKEY, ReturnCode.BAD_ADDR]
    good = np.setdiff1d(np.arange(COUNT), [7, 100, 150])
    np.add.at(scene.expected[0], indices[good], values[good])
    scene.check()
    assert scene.endpoint.tx_size_left == 64


@pytest.mark.parametrize("number", [0, 15, 16, 63, 64, 199])
def test_a_refused_operation_is_named_wherever_it_stands(on_model, number):
    keys = np.full(COUNT, on_model.keys[0])
    keys[number] ^= 1
    old = np.zeros(COUNT, np.uint64)
    on_model.endpoint.fetch_atomic_batch(
        np.ones(COUNT, np.uint64), old, on_model.peer, on_model.addresses[0], keys, Op.FI_SUM
    )
    assert on_model.failure().failures["index"].tolist() == [number]
    expected = on_model.expected[0][0] + np.arange(COUNT) - (np.arange(COUNT) > number)
    np.testing.assert_array_equal(np.delete(old, number), np.delete(expected, number))


def test_success_is_not_reported_where_it_is_not_wanted_and_failure_is(on_model, keep):
    domain, endpoint = on_model.domain, keep(on_model.domain.endpoint(tx_size=64))
    queue = keep(domain.cq_open(CqFormat.FI_CQ_FORMAT_MSG))
    endpoint.bind(queue, BindFlags.FI_TRANSMIT | BindFlags.FI_SELECTIVE_COMPLETION)
    endpoint.bind(on_model.peers)
    endpoint.enable()
    ones = np.ones(100, np.uint64)
    endpoint.atomic_batch(ones, *on_model.to, Op.FI_SUM, context="silent")
    endpoint.atomic_batch(ones, *on_model.to, Op.FI_SUM, context="told", flags=OpFlags.FI_COMPLETION)
    (entry,) = queue.sread(timeout=30)
    assert entry.op_context == "told"
    peer, address, key = on_model.to
    endpoint.inject_atomic_batch(ones, peer, address, key ^ 1, Op.FI_SUM)
    on_model.queue = queue
    assert len(on_model.failure().failures) == 100
    on_model.expected[0][0] += 200
    on_model.check()


def test_a_status_that_is_used_again_says_what_became_of_the_second_batch(on_model):
    status = np.zeros(20, BATCH_STATUS)
    peer, address, key = on_model.to
    keys = np.full(20, key)
    keys[3] ^= 1
    on_model.endpoint.write_batch(np.uint64(1), peer, address, keys, status=status)
    on_model.failure()
    assert np.flatnonzero(status["err"]).tolist() == [3]
    on_model.endpoint.write_batch(np.uint64(1), peer, address, key, index=np.arange(20), status=status)
    assert not status["done"].any()
    on_model.finish()
    assert status["done"].all()
    assert not status["err"].any()


# Counters


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("with_nic", [True, False])
def test_counters_count_operations_not_batches(kinds, build_of, with_nic, keep):
    with opened(kinds, build_of(kinds)) as scene:
        domain = scene.domain
        if not with_nic:
            for _ in range(domain.nic.parameters.event_counters):
                keep(domain.cntr_open())
        reads, writes = keep(domain.cntr_open()), keep(domain.cntr_open())
        count = 40
        endpoint = keep(domain.endpoint(tx_size=16))
        endpoint.bind(scene.queue, BindFlags.FI_TRANSMIT | BindFlags.FI_SELECTIVE_COMPLETION)
        endpoint.bind(scene.peers)
        endpoint.bind(reads, BindFlags.FI_READ)
        endpoint.bind(writes, BindFlags.FI_WRITE)
        endpoint.enable()
        keys = np.full(count, scene.keys[0])
        keys[[0, 16, 39]] ^= 1
        old = np.zeros(count, np.uint64)
        endpoint.write_batch(old, *scene.to, index=np.zeros(count, int))
        endpoint.read_batch(old, *scene.to)
        endpoint.atomic_batch(old, scene.peer, scene.addresses[0], keys, Op.FI_BXOR)
        endpoint.fetch_atomic_batch(old.copy(), old, *scene.to, Op.FI_SUM)
        assert scene.failure().failures["index"].tolist() == [0, 16, 39]
        reads.wait(2 * count, timeout=30)
        assert (reads.read(), reads.readerr()) == (2 * count, 0)
        assert (writes.read(), writes.readerr()) == (2 * count - 3, 3)


# Ways to a ring


def test_batches_go_through_a_shared_transmit_context(on_model, keep):
    domain = on_model.domain
    shared = keep(domain.stx_context(TxAttr(size=32)))
    endpoints, queues, counters = [], [], []
    for _ in range(2):
        queues.append(keep(domain.cq_open(CqFormat.FI_CQ_FORMAT_MSG)))
        counters.append(keep(domain.cntr_open()))
        endpoint = keep(domain.endpoint())
        for target in (shared, queues[-1], keep(domain.av_open())):
            endpoint.bind(target)
        endpoint.bind(counters[-1], BindFlags.FI_WRITE)
        endpoint.enable()
        endpoints.append(endpoint)
    peers = [endpoint._av.insert(on_model.others[1].getname()) for endpoint in endpoints]
    _, address, key = on_model.to
    for number, endpoint in enumerate(endpoints):
        endpoint.atomic_batch(np.ones(100, np.uint64), peers[number], address, key, Op.FI_SUM, context=number)
        endpoint.atomic_batch(np.ones(1, np.uint64), peers[number], address, key ^ 1, Op.FI_SUM, context="wrong")
    for number, queue in enumerate(queues):
        (entry,) = queue.sread(timeout=30)
        assert entry.op_context == number
        on_model.queue = queue
        assert on_model.failure().op_context == "wrong"
        assert (counters[number].read(), counters[number].readerr()) == (100, 1)
    on_model.expected[0][0] += 200
    on_model.check()
    assert [endpoint._rings.outstanding for endpoint in endpoints] == [0, 0]
    assert endpoints[0].tx_size_left == 32


def test_an_endpoint_that_is_closed_takes_its_batches_with_it(on_model, keep):
    endpoint = on_model.domain.endpoint(tx_size=512, cq=keep(on_model.domain.cq_open()), av=on_model.peers)
    found = np.zeros(300, np.uint64)
    endpoint.read_batch(found, *on_model.to, index=RNG.integers(0, WORDS, 300), flags=OpFlags.FI_MORE)
    endpoint.close()
    with refused(Errno.FI_EBADF):
        endpoint.read_batch(found, *on_model.to)


def test_a_fenced_batch_begins_when_what_was_sent_before_is_done(scene):
    peer, address, key = scene.to
    long = np.arange(32, dtype=np.uint64)
    found = np.zeros(40, np.uint64)
    scene.endpoint.write(long, peer, address, key)
    scene.endpoint.read_batch(found, peer, address, key, index=np.arange(40), flags=OpFlags.FI_FENCE)
    scene.finish()
    scene.finish()
    scene.expected[0][:32] = long
    np.testing.assert_array_equal(found, scene.expected[0][:40])


# Peers that are given up


@pytest.fixture
def impatient():
    """Two peers that can be cut off; the NICs give them up soon."""
    with open_cluster(["model"] * 3, retransmission=Retransmission(timeout=2000, limit=1)) as fabric:
        yield fabric, scene_on(fabric)


@pytest.mark.parametrize("count", [40, 300])
def test_operations_to_a_lost_peer_fail_and_those_to_others_do_not(impatient, count):
    fabric, scene = impatient
    fabric.network.cut(fabric.devices[2])
    which = np.arange(count) % 2
    peers, addresses, keys = np.array([scene.targets, scene.addresses, scene.keys], np.uint64)[:, which]
    status = np.zeros(count, BATCH_STATUS)
    posted = scene.endpoint.atomic_batch(
        np.ones(count, np.uint64), peers, addresses, keys, Op.FI_SUM, context="both", status=status
    )
    # more than the ring holds are not posted any more when the peer is found to be lost
    assert posted == count if count <= 64 else 64 <= posted < count
    failure = scene.failure()
    assert (failure.op_context, failure.err, failure.len) == ("both", Errno.FI_ECONNRESET, 8 * posted)
    assert failure.failures["index"].tolist() == list(range(1, posted, 2))
    assert np.flatnonzero(status["err"]).tolist() == list(range(1, posted, 2))
    assert status["done"].tolist() == [number < posted for number in range(count)]
    scene.expected[0][0] += len(range(0, posted, 2))
    scene.check()
    fabric.network.restore(fabric.devices[2])
    assert scene.endpoint.atomic_batch(np.ones(8, np.uint64), peers[:8], addresses[:8], keys[:8], Op.FI_SUM) == 8
    scene.finish()
    scene.expected[0][0] += 4
    scene.expected[1][0] += 4
    scene.check()


def test_a_batch_to_a_peer_that_was_given_up_waits_for_what_is_in_flight(impatient):
    fabric, scene = impatient
    fabric.network.cut(fabric.devices[1])
    peer, address, key = scene.to
    scene.endpoint.atomic_batch(np.ones(40, np.uint64), peer, address, key, Op.FI_SUM)
    for number in range(3):
        scene.endpoint.atomic(np.ones(1, np.uint64), peer, address, key, Op.FI_SUM, context=number)
    assert len(scene.failure(last=False).failures) == 40
    with refused(Errno.FI_EAGAIN, "operation 0: .*was given up"):
        scene.endpoint.write_batch(np.ones(3, np.uint64), [peer] * 3, address, key)
    with refused(Errno.FI_EAGAIN, "was given up"):
        scene.endpoint.array(peer, (address, key), np.uint64, 4)[:]
    for number in range(3):
        assert scene.failure(last=number == 2).op_context == number
    with refused(Errno.FI_ECONNRESET):
        scene.endpoint.array(peer, (address, key), np.uint64, 4)[:]


def test_a_wait_that_is_interrupted_leaves_what_was_posted_in_flight(on_model, monkeypatch):
    nic, rounds = on_model.domain.nic, []
    advance = nic.advance

    def interrupting():
        rounds.append(1)
        if len(rounds) == 3:
            raise KeyboardInterrupt
        advance()

    monkeypatch.setattr(nic, "advance", interrupting)
    with pytest.raises(KeyboardInterrupt):
        on_model.endpoint.atomic_batch(np.ones(2000, np.uint64), *on_model.to, Op.FI_SUM, context="part")
    entry = on_model.finish()
    posted = entry.len // 8
    assert (entry.op_context, 64 <= posted < 2000) == ("part", True)
    on_model.expected[0][0] += posted
    on_model.check()
    assert on_model.endpoint.tx_size_left == 64
