"""Found B6: messages that nobody reads have a quota for each NIC that sends them, and a bound for all.

Covers ``transport/unread.py``.
"""

import pytest
from amoeba import Errno, ErrorAvailableError, FabricError, open_cluster

from tests.driver.endpoints import Side, entries, make_talker

KIBI = 1024
SIZE = 3072
COST = SIZE + KIBI


@pytest.fixture
def hall():
    """A fabric of four NICs: receiver, two senders that nobody reads, and a neighbour."""
    with open_cluster(["model"] * 4) as fabric:
        sides = [make_talker(fabric.domain(number), rx_size=256) for number in range(4)]
        for side in sides[1:]:
            side.peer = side.peers.insert(sides[0].endpoint.getname())
            sides[0].peers.insert(side.endpoint.getname())
        yield sides


def limit(receiver: Side, quota: int, bound: int):
    """Make the limits small; what the driver keeps of the receiver's messages."""
    receives = receiver.endpoint._context.receives
    receives.unread.quota, receives.unread.bound = quota, bound
    return receives


def send_until_refused(sender: Side, receiver: Side, most: int, tagged: bool) -> tuple[int, int]:
    """Send numbered messages, one after the other: (how many succeeded, error number of the one that did not)."""
    for number in range(most):
        data = number.to_bytes(SIZE, "little")
        if tagged:
            sender.endpoint.tsend(data, sender.peer, number)
        else:
            sender.endpoint.send(data, sender.peer)
        done = []
        while not done:
            receiver.queue.read()  # its driver makes progress
            try:
                done = sender.queue.read()
            except ErrorAvailableError:
                entry = sender.queue.readerr()
                assert entry is not None
                return number, entry.err
    return most, 0


def receive_all(receiver: Side, sender: int, count: int, tagged: bool) -> None:
    for number in range(count):
        buffer = bytearray(SIZE)
        if tagged:
            receiver.endpoint.trecv(buffer, number, src_addr=sender)
        else:
            receiver.endpoint.recv(buffer, src_addr=sender)
        entries(receiver.queue, 1)
        assert buffer == number.to_bytes(SIZE, "little")


@pytest.mark.parametrize("tagged", [True, False], ids=["tagged", "untagged"])
def test_b6_who_exceeds_the_quota_gets_an_error_and_a_neighbour_is_served(hall, tagged):
    receiver, greedy, _, neighbour = hall
    receives = limit(receiver, 20 * COST, 200 * COST)
    sent, error = send_until_refused(greedy, receiver, 400, tagged)
    assert 20 < sent < 100
    assert error == Errno.FI_ECONNRESET
    assert receives.turned_away == 1
    assert receives.unread.size <= 21 * COST
    assert send_until_refused(neighbour, receiver, 15, tagged) == (15, 0)
    receive_all(receiver, 2, 15, tagged)
    receive_all(receiver, 0, sent, tagged)
    assert receives.unread.size == 0
    # Who is read again may send again.
    assert send_until_refused(greedy, receiver, 15, tagged) == (15, 0)
    receive_all(receiver, 0, 15, tagged)


def test_b6_who_comes_again_and_again_keeps_nobody_out_and_loses_nothing(hall):
    receiver, greedy, _, neighbour = hall
    receives = limit(receiver, 20 * COST, 200 * COST)
    sent: list[int] = []
    for _ in range(5):
        number, error = send_until_refused(greedy, receiver, 400, True)
        assert error == Errno.FI_ECONNRESET
        sent.append(number)
        assert send_until_refused(neighbour, receiver, 1, True) == (1, 0)
        receive_all(receiver, 2, 1, True)
    assert receives.turned_away == 5
    assert receives.unread.size <= 200 * COST
    for count in sent:
        receive_all(receiver, 0, count, True)


def test_b6_the_bound_of_all_holds_whoever_sends(hall):
    receiver, greedy, other, _ = hall
    receives = limit(receiver, 40 * COST, 60 * COST)
    sent, error = send_until_refused(greedy, receiver, 200, True)
    assert error == Errno.FI_ECONNRESET
    second, _ = send_until_refused(other, receiver, 15, True)
    assert second == 15
    for _ in range(3):
        with pytest.raises((FabricError, AssertionError)):
            assert send_until_refused(greedy, receiver, 30, True)[1] == 0
    assert receives.unread.size <= 60 * COST
    receive_all(receiver, 1, 15, True)
    receive_all(receiver, 0, sent, True)
