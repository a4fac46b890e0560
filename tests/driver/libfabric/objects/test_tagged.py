"""Tags: which receive a message meets, as fi_tagged(3) says; against lists that match by that sentence."""

import random
from collections import deque
from dataclasses import dataclass, field

import pytest
from amoeba import Caps, open_cluster
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.driver.endpoints import ON_MODEL, entries, idle, make_talkers

TAGS = [0, 1, 2, 0x8000_0000_0000_0000, 0xFFFF_FFFF_FFFF_FFFF]


@ON_MODEL
@pytest.mark.parametrize(
    ("tag", "wanted", "ignore", "meets"),
    [
        (5, 5, 0, True),
        (5, 4, 0, False),
        (5, 4, 1, True),
        (5, 4, 2, False),
        (1 << 63, 0, 0, False),
        (1 << 63, 0, 1 << 63, True),
        (0x1234_5678_9ABC_DEF0, 0, 2**64 - 1, True),
        (2**64 - 1, 2**64 - 1, 0, True),
        (0xAAAA_0000_0000_5555, 0xAAAA_FFFF_FFFF_5555, 0x0000_FFFF_FFFF_0000, True),
        (0xAAAA_0000_0000_5555, 0xAAAB_FFFF_FFFF_5555, 0x0000_FFFF_FFFF_0000, False),
    ],
)
@pytest.mark.parametrize("expected", [True, False], ids=["expected", "unexpected"])
def test_tags_match_but_for_the_ignored_bits(talkers, tag, wanted, ignore, meets, expected):
    one, other = talkers
    if expected:
        other.endpoint.trecv(bytearray(1), wanted, ignore, context="it")
        idle(other, 3)
    one.endpoint.tsend(b"x", one.peer, tag)
    one.finish()
    if not expected:
        other.endpoint.trecv(bytearray(1), wanted, ignore, context="it")
    assert [(entry.op_context, entry.tag) for entry in idle(other)] == ([("it", tag)] if meets else [])


@ON_MODEL
def test_tagged_and_untagged_messages_do_not_meet_each_others_receives(talkers):
    one, other = talkers
    other.endpoint.recv(bytearray(1), context="untagged")
    other.endpoint.trecv(bytearray(1), 0, 2**64 - 1, context="tagged")
    one.endpoint.tinject(b"t", one.peer, 0)
    assert other.finish().op_context == "tagged"
    one.endpoint.inject(b"u", one.peer)
    assert other.finish().op_context == "untagged"
    one.endpoint.tinject(b"t", one.peer, 0)
    one.endpoint.inject(b"u", one.peer)
    idle(one)
    other.endpoint.recv(bytearray(1), context="untagged")
    other.endpoint.trecv(bytearray(1), 0, context="tagged")
    assert [entry.op_context for entry in entries(other.queue, 2)] == ["untagged", "tagged"]


@ON_MODEL
def test_messages_with_one_tag_keep_their_order_among_others(talkers):
    one, other = talkers
    order = random.Random(7).choices([1, 2, 3], k=30)
    for number, tag in enumerate(order):
        one.endpoint.tinject(bytes([number]), one.peer, tag)
    for tag in (3, 1, 2):
        numbers = [number for number, each in enumerate(order) if each == tag]
        for number in numbers:
            buffer = bytearray(1)
            other.endpoint.trecv(buffer, tag)
            other.finish()
            assert buffer[0] == number


@dataclass
class Lists:
    """Posted receives and unexpected messages, both oldest first."""

    receives: list[tuple[int | None, int, int]] = field(default_factory=list)
    """(tag or None, ignore, number)."""
    messages: deque[tuple[int | None, int]] = field(default_factory=deque)
    """(tag or None, number)."""
    met: list[tuple[int, int]] = field(default_factory=list)
    """(number of the receive, number of the message), in order."""

    @staticmethod
    def match(tag, wanted, ignore):
        if tag is None or wanted is None:
            return tag is wanted
        return tag & ~ignore == wanted & ~ignore

    def send(self, tag, number):
        for receive in self.receives:
            if self.match(tag, receive[0], receive[1]):
                self.receives.remove(receive)
                self.met.append((receive[2], number))
                return
        self.messages.append((tag, number))

    def receive(self, wanted, ignore, number):
        for message in self.messages:
            if self.match(message[0], wanted, ignore):
                self.messages.remove(message)
                self.met.append((number, message[1]))
                return
        self.receives.append((wanted, ignore, number))


TAG = st.one_of(st.none(), st.sampled_from(TAGS))
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), TAG, st.sampled_from([0, 1, 9, 300, 4096, 4097, 9000])),
        st.tuples(st.just("receive"), TAG, st.sampled_from([0, 1, 3, 2**63, 2**64 - 1])),
        st.tuples(st.just("cancel"), st.none(), st.integers(0, 20)),
    ),
    max_size=30,
)


@settings(max_examples=25)
@given(actions=ACTIONS)
def test_what_meets_what_is_what_the_manual_says(actions):
    with open_cluster() as fabric:
        one, other = make_talkers(fabric)
        expected, buffers, sent = Lists(), [], []
        cancelled, told = [], []

        def read():
            for _ in range(40):
                one.queue.read(8)
                try:
                    told.extend(other.queue.read(8))
                except OSError:
                    failure = other.queue.readerr()
                    cancelled.append(failure.op_context)

        for kind, tag, number in actions:
            if kind == "send":
                message = bytes([len(sent) + 1]) * number
                sent.append(message)
                if tag is None:
                    one.endpoint.send(message, one.peer)
                else:
                    one.endpoint.tsend(message, one.peer, tag)
                expected.send(tag, len(sent) - 1)
            elif kind == "receive":
                buffers.append(bytearray(9000))
                if tag is None:
                    other.endpoint.recv(buffers[-1], context=len(buffers) - 1)
                else:
                    other.endpoint.trecv(buffers[-1], tag, number, context=len(buffers) - 1)
                expected.receive(tag, 0 if tag is None else number, len(buffers) - 1)
            elif any(receive[2] == number for receive in expected.receives):
                other.endpoint.cancel(number)
                expected.receives = [receive for receive in expected.receives if receive[2] != number]
                read()
                assert cancelled.pop() == number
            read()
        assert cancelled == []
        assert sorted(entry.op_context for entry in told) == sorted(receive for receive, _ in expected.met)
        for entry in told:
            message = sent[dict(expected.met)[entry.op_context]]
            assert entry.len == len(message)
            assert buffers[entry.op_context][: entry.len] == message
            assert bool(entry.flags & Caps.FI_TAGGED) != bool(entry.flags & Caps.FI_MSG)
        assert all(not any(buffers[receive[2]]) for receive in expected.receives)
        one.endpoint.close()
        other.endpoint.close()
        assert [fault for device in fabric.devices for fault in device.faults()] == []
