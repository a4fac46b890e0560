"""Messages that are sent again after a refusal: when, how often, and which."""

import pytest
from amoeba.transport.operation import Operation, filled
from amoeba.transport.repeats import LONGEST, MAX_PAUSES, MAX_TURNS, SHORTEST, Repeats
from amoeba.transport.requests import Kind
from amoeba_model.descriptors import DescriptorOpcode
from amoeba_model.wire.uet import ReturnCode

PAUSES = [ReturnCode.NO_MATCH, ReturnCode.DISABLED_GEN]


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def message(opcode: DescriptorOpcode = DescriptorOpcode.SEND) -> Operation:
    return filled(Kind.SEND, opcode=opcode)


@pytest.mark.parametrize("opcode", [DescriptorOpcode.SEND, DescriptorOpcode.TAGGED_SEND])
@pytest.mark.parametrize("status", PAUSES)
@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_each_pause_is_twice_as_long_and_the_last_one_is_followed_by_the_error(opcode, status, part):
    clock = Clock()
    repeats = Repeats(clock, lambda shortest, longest: shortest + part * (longest - shortest))
    refused, first = message(opcode), SHORTEST + part * (LONGEST - SHORTEST)
    for number in range(MAX_PAUSES):
        assert repeats.take(3, refused, status)
        clock.now += first * 2**number * 0.99
        assert not repeats.due()
        clock.now += first * 2**number * 0.02
        assert repeats.due() == [(3, refused)]
        assert not repeats.waiting
    assert not repeats.take(3, refused, status)
    assert 1.5 < clock.now - 100 < 3.2


def test_the_right_generation_is_used_at_once_and_not_for_ever():
    repeats, refused = Repeats(Clock()), message()
    for _ in range(MAX_TURNS):
        assert repeats.take(3, refused, ReturnCode.BAD_GENERATION)
        assert repeats.due() == [(3, refused)]
    assert not repeats.take(3, refused, ReturnCode.BAD_GENERATION)


def test_messages_are_sent_again_in_the_order_of_their_times_and_of_their_refusals():
    clock = Clock()
    lengths = iter((0.09, 0.06, 0.06))
    repeats = Repeats(clock, lambda *_: next(lengths))
    refused = [message() for _ in range(4)]
    for token, each in enumerate(refused[:3]):
        assert repeats.take(token, each, ReturnCode.NO_MATCH)
    assert repeats.take(3, refused[3], ReturnCode.BAD_GENERATION)
    clock.now += 1
    assert repeats.due() == [(3, refused[3]), (1, refused[1]), (2, refused[2]), (0, refused[0])]


@pytest.mark.parametrize("status", sorted(set(ReturnCode) - {*PAUSES, ReturnCode.BAD_GENERATION}))
def test_other_errors_are_final(status):
    assert not Repeats().take(0, message(), status)


MESSAGES = {DescriptorOpcode.SEND, DescriptorOpcode.TAGGED_SEND}


@pytest.mark.parametrize("opcode", sorted(set(DescriptorOpcode) - MESSAGES))
def test_nothing_but_a_message_is_sent_again(opcode):
    assert not Repeats().take(0, message(opcode), ReturnCode.NO_MATCH)
