"""Fences, pings and peers that are given up, as the engine offers them to any API.

Covers ``transport/posting.py``.
"""

import numpy as np
import pytest
from amoeba.core.errno import Errno
from amoeba.core.errors import TryAgainError
from amoeba.transport.context import Context
from amoeba.transport.operation import filled
from amoeba.transport.posting import Local, Scattered, post_scattered
from amoeba.transport.requests import Kind
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.registers import Counter
from amoeba_model.wire.uet import ReturnCode

from tests.driver.endpoints import refused
from tests.driver.transport.workers import Worker, pair_of_workers, wait, write_of
from tests.support.pairs import PAIRS

OK, FAILED = int(ReturnCode.OK), int(ReturnCode.LOCAL_PDC_FAILED)


@pytest.fixture(params=PAIRS)
def workers(request):
    with pair_of_workers(request.param) as pair:
        yield pair


def until(workers: tuple[Worker, ...], so) -> None:
    """Let time pass until something is so."""
    for _ in range(20_000):
        if so():
            return
        for each in workers:
            each.progress()
        workers[0].nic.advance()
    raise AssertionError("it never was")


def cut_off(worker: Worker) -> None:
    """Nothing leaves it, or reaches it, from now on."""
    worker.nic.device.network.cut(worker.nic.device)


def restore(worker: Worker) -> None:
    worker.nic.device.network.restore(worker.nic.device)


def contexts_ended(worker: Worker) -> list[object]:
    return [each.context for each in worker.taken]


@pytest.mark.parametrize("to_all", [True, False])
def test_a_fence_ends_behind_everything_posted_before(workers, to_all):
    one, other = workers
    memory, found, ended = np.zeros(8, np.uint64), np.zeros(8, np.uint64), []
    start, key = other.expose(memory)
    for index in range(7):
        one.fetch_add(index + 1, found[index : index + 1], (start + 8 * index, key), index)

    def done(status: int) -> None:
        ended.append((status, memory.tolist()))

    entry = one.peers.find(0)
    one.rings.post_fence(done, None if to_all else entry)
    one.put(99, (start + 56, key), "behind")
    until(workers, lambda: len(one.taken) == 8)
    assert contexts_ended(one) == [*range(7), "behind"]
    ((status, seen),) = ended
    assert (status, seen[:7]) == (OK, [1, 2, 3, 4, 5, 6, 7])
    assert one.rings.outstanding == 0
    assert not one.rings.busy_with(entry)


def test_a_fence_to_all_is_in_flight_to_nobody(workers):
    one, other = workers
    cut_off(other)
    one.put(1, other.expose(np.zeros(1, np.uint64)))
    ended: list[int] = []
    one.rings.post_fence(ended.append)
    one.peers.fail(0)
    entries = range(one.nic.parameters.peers)
    assert sum(one.rings.busy_with(entry) for entry in entries) == 1  # the put's
    until(workers, lambda: ended)
    assert ended == [OK]
    restore(other)


def test_a_fence_on_an_entry_of_nobody_says_so(workers):
    one, _ = workers
    ended: list[int] = []
    one.rings.post_fence(ended.append, one.peers.find(0) + 7)
    until(workers, lambda: ended)
    assert ended == [int(ReturnCode.LOCAL_BAD_PEER)]


def test_a_request_with_fence_all_begins_behind_those_to_all_peers(workers):
    one, other = workers
    memory = np.zeros(1, np.uint64)
    at = other.expose(memory)
    one.peers.add(1, other.context.address)
    one.nic.device.network.pause(other.nic.device)
    one.put(1, at, "first")
    for flags, value in ((DescriptorFlags.FENCE_ALL, 2), (0, 3)):
        one.rings.post(write_of(value, at, one.peers.find(1), flags=flags, context=value, dest_addr=1))
    for _ in range(20):
        one.nic.advance()
    assert one.nic.registers.read("counters", "value", Counter.REQUESTS_SENT) == 1
    one.nic.device.network.resume(other.nic.device)
    assert [each.context for each in wait(workers, 3, one)] == ["first", 2, 3]
    assert memory[0] == 3


def test_a_scattered_request_waits_with_its_first_piece(workers):
    one, other = workers
    memory = np.zeros(3, np.uint64)
    start, key = other.expose(memory)
    one.peers.add(1, other.context.address)
    sources = [Local(memoryview(np.array([value], np.uint64)), None, writable=False) for value in (5, 6)]
    remote = [Local(memoryview(memory[:2]), None, writable=True).segment._replace(address=start, key=key)]
    one.put(1, (start + 16, key), "first")
    scattered = filled(
        Kind.WRITE,
        opcode=DescriptorOpcode.WRITE,
        flags=DescriptorFlags.FENCE_ALL,
        length=16,
        peer=one.peers.find(1),
        context="scattered",
        dest_addr=1,
    )
    post_scattered(one.rings, scattered, Scattered(sources, [], [], remote))
    assert [each.context for each in wait(workers, 2, one)] == ["first", "scattered"]
    assert memory.tolist() == [5, 6, 1]


@pytest.mark.full_build
def test_a_fence_through_a_share_waits_for_what_others_posted(workers):
    one, other = workers
    memory, ended = np.zeros(1, np.uint64), []
    share, another = (Context(one.domain).share_rings(one.context) for _ in range(2))
    another.post(write_of(4, other.expose(memory), one.peers.find(0), context="put", more=True))
    share.post_fence(lambda status: ended.append((status, memory[0])))
    for _ in range(5000):
        share.absorb()
        if ended:
            break
        one.nic.advance()
    assert ended == [(OK, 4)]


def test_a_ping_is_answered_by_a_nic_that_is_there(workers):
    one, other = workers
    ended: list[int] = []
    one.peers.ping(0, ended.append)
    one.rings.post_ping(one.peers.find(0), ended.append, more=True)
    one.rings.announce()
    until(workers, lambda: len(ended) == 2)
    assert ended == [OK, OK]
    assert not one.taken
    assert other.nic.registers.read("counters", "value", Counter.REFUSED_REQUESTS) == 0


def test_a_ping_that_nobody_answers_fails_its_peer(workers):
    one, other = workers
    one.nic.registers.write("device", "retransmit_timeout", 1000)
    one.nic.registers.write("device", "retransmit_limit", 1)
    cut_off(other)
    ended: list[int] = []
    one.peers.ping(0, ended.append)
    assert 0 in one.peers.open
    until(workers, lambda: ended)
    assert ended == [FAILED]
    assert 0 not in one.peers.open
    restore(other)
    one.peers.ping(0, ended.append)
    until(workers, lambda: len(ended) == 2)
    assert ended == [FAILED, OK]


def test_a_peer_that_is_given_up_ends_everything_and_is_opened_anew_behind_it(workers):
    one, other = workers
    memory, found = np.zeros(1, np.uint64), np.zeros(1, np.uint64)
    at = other.expose(memory)
    cut_off(other)
    one.put(1, at, "put")
    one.fetch_add(1, found, at, "add")
    for _ in range(5):
        one.nic.advance()
    before = one.nic.device.cycles
    one.peers.fail(0)
    with pytest.raises(TryAgainError):
        one.put(2, at)
    ended = wait((one,), 2, one)
    assert [(each.context, each.status) for each in ended] == [("put", FAILED), ("add", FAILED)]
    assert one.nic.device.cycles - before < 10_000  # timeouts take millions
    restore(other)
    one.put(7, at, "again")
    assert [(each.context, each.status) for each in wait(workers, 1, one)] == [("again", OK)]
    assert (memory[0], found[0]) == (7, 0)


def test_giving_an_idle_peer_up_harms_nobody(workers):
    one, other = workers
    memory = np.zeros(1, np.uint64)
    at = other.expose(memory)
    one.peers.fail(0)
    one.peers.fail(0)
    one.put(1, at)
    assert [each.status for each in wait(workers, 1, one)] == [OK]
    one.peers.fail(0)
    one.put(2, at)
    assert [each.status for each in wait(workers, 1, one)] == [OK]
    with refused(Errno.FI_EINVAL, "no address 3"):
        one.peers.fail(3)


@pytest.mark.parametrize("steps", [0, 3, 12, 40])
def test_a_long_message_to_a_peer_that_is_given_up_ends_wherever_it_is(workers, steps):
    one, _ = workers
    message = np.arange(one.nic.parameters.payload, dtype=np.uint64)
    one.send(message, 5, "long")
    for _ in range(steps):
        one.nic.advance()
    one.peers.fail(0)
    (ended,) = wait(workers, 1, one)
    assert (ended.context, ended.status) == ("long", FAILED)
    assert not one.rings.held
    assert one.rings.outstanding == 0
