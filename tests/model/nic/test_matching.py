"""MatchLists: first posted is first matched, and nothing is lost (hw/amoeba_hw/messages/README.md)."""

import pytest
from amoeba_model.nic.matching import MatchLists, Message, Place, Receive
from hypothesis import given
from hypothesis import strategies as st

ANNA, BERT = (0x0A000001, 0), (0x0A000002, 3)


def receive(tag: int = 0, ignore: int = 0, *, tagged: bool = True, **rest: object) -> Receive:
    return Receive(tagged, tag, ignore, **rest)  # type: ignore[arg-type]


def message(
    tag: int = 0, *, tagged: bool = True, source: tuple[int, int] = ANNA, target: int = 0, length: int = 8
) -> Message:
    return Message(tagged, tag, source, 0, target, length)


@pytest.mark.parametrize(
    ("wanted", "arrived", "matches"),
    [
        (receive(5), message(5), True),
        (receive(5), message(4), False),
        (receive(5, ignore=1), message(4), True),
        (receive(0, ignore=2**64 - 1), message(2**64 - 1), True),
        (receive(1 << 63), message(0), False),
        (receive(5), message(5, tagged=False), False),
        (receive(5, tagged=False), message(5), False),
        (receive(5, tagged=False), message(6, tagged=False), True),
        (receive(5, source=ANNA), message(5), True),
        (receive(5, source=BERT), message(5), False),
        (receive(tagged=False, source=BERT), message(tagged=False, source=BERT), True),
        (receive(5), message(5, target=3), True),
        (receive(5, target=3), message(5, target=3), True),
        (receive(5, target=0), message(5, target=3), False),
        (receive(tagged=False, target=3), message(tagged=False), False),
    ],
)
def test_a_message_matches_by_kind_tag_under_the_mask_source_and_target(wanted, arrived, matches):
    assert wanted.matches(arrived) is matches


def test_the_oldest_matching_receive_gets_the_message():
    lists = MatchLists(4, 4)
    first, second = receive(1, context=1), receive(1, context=2)
    for posted in (receive(2, context=0), first, second):
        lists.post(posted)
    assert lists.arrive(message(1)) is first
    lists.unpost(first)
    assert lists.arrive(message(1)) is second


def test_the_oldest_matching_message_meets_the_receive():
    lists = MatchLists(4, 4)
    early, late = message(1), message(1)
    for waiting in (message(2), early, late):
        lists.wait(waiting)
    assert lists.find(receive(1)) is early
    lists.remove(early)
    assert lists.find(receive(1)) is late
    assert lists.find(receive(3)) is None


def test_a_plain_receive_is_used_up_and_a_long_message_cut():
    posted = receive(address=0x1000, space=16)
    assert posted.use(20) == Place(0x1000, 16, released=True)


def test_a_multi_receive_goes_on_at_the_next_multiple_of_64_until_too_little_is_left():
    posted = receive(address=0x1000, space=264, multi=True, least_space=8)
    assert posted.use(10) == Place(0x1000, 10, released=False)
    assert posted.use(64) == Place(0x1040, 64, released=False)
    assert posted.use(65) == Place(0x1080, 65, released=False)
    assert posted.use(20) == Place(0x1100, 8, released=True)


def test_multiples_of_64_are_those_of_the_address_wherever_the_buffer_begins():
    posted = receive(address=0x103B, space=200, multi=True)
    assert posted.use(1) == Place(0x103B, 1, released=False)
    assert posted.use(0) == Place(0x1040, 0, released=False)
    assert posted.use(64) == Place(0x1040, 64, released=False)
    assert posted.use(60) == Place(0x1080, 60, released=False)
    # One byte is left, but no place for a message.
    assert posted.use(66) == Place(0x10C0, 66, released=True)


def test_cancel_takes_back_a_posted_receive_once():
    lists = MatchLists(4, 4)
    lists.post(receive(1, context=7))
    cancelled = lists.cancel(7)
    assert cancelled is not None
    assert cancelled.context == 7
    assert lists.cancel(7) is None
    assert lists.arrive(message(1)) is None


def test_slots_are_given_lowest_first_and_only_once():
    lists = MatchLists(4, 2)
    assert [lists.take_slot(), lists.take_slot()] == [0, 1]
    with pytest.raises(LookupError, match="all are in use"):
        lists.take_slot()
    lists.release_slot(1)
    lists.release_slot(1)
    lists.release_slot(9)
    assert lists.free_slots == 1
    assert lists.take_slot() == 1


def test_a_slot_whose_message_still_waits_cannot_be_released():
    lists = MatchLists(4, 2)
    waiting = message()
    waiting.slot = lists.take_slot()
    lists.wait(waiting)
    lists.release_slot(waiting.slot)
    assert lists.free_slots == 1
    lists.remove(waiting)
    lists.release_slot(waiting.slot)
    assert lists.free_slots == 2


def test_the_posted_list_is_bounded():
    lists = MatchLists(1, 1)
    assert lists.has_space()
    lists.post(receive())
    assert not lists.has_space()


@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 3), st.sampled_from([0, 1, 3]), st.sampled_from([None, ANNA, BERT])),
        max_size=20,
    )
)
def test_messages_and_receives_pair_as_two_ordered_lists_say(steps):
    """Every step either posts a receive or lets a message arrive; pairs are those of a search through plain lists."""
    lists, posted, waiting = MatchLists(32, 32), [], []
    for is_message, tag, ignore, source in steps:
        if is_message:
            arrived = message(tag, source=source or ANNA)
            expected = next((other for other in posted if other.matches(arrived)), None)
            assert lists.arrive(arrived) is expected
            if expected is None:
                arrived.slot = lists.take_slot()
                lists.wait(arrived)
                waiting.append(arrived)
            else:
                lists.unpost(expected)
                posted.remove(expected)
        else:
            wanted = receive(tag, ignore, source=source)
            found = next((other for other in waiting if wanted.matches(other)), None)
            assert lists.find(wanted) is found
            if found is None:
                lists.post(wanted)
                posted.append(wanted)
            else:
                lists.remove(found)
                waiting.remove(found)
    assert lists.posted == len(posted)
