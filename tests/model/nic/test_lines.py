"""The model's line table: what is read, and when it is at hand.

Covers ``nic/timing.py``.
"""

from amoeba_model.nic.lines import LineTable
from hypothesis import given
from hypothesis import strategies as st

LATENCY = 250
"""Cycles from a host read's request to its first beat: a microsecond at 250 MHz."""


def line_by_line(requests):
    """The fate of each request (first line, lines, cycle), in the plainest way: (at hand, lines read)."""
    at_hand: dict[int, int] = {}
    for first, count, begin in requests:
        read = []
        for cycle, line in enumerate(range(first, first + count), start=begin):
            if at_hand.get(line, -1) < cycle:
                at_hand[line] = cycle + LATENCY
                read.append(line)
        yield max(at_hand[line] for line in range(first, first + count)), read


def asked(requests):
    table = LineTable()
    for request in requests:
        at_hand, missing = table.fetch(*request)
        yield at_hand, [line for lines in missing for line in lines]


requests = st.tuples(
    st.integers(0, 300),
    st.one_of(st.just(1), st.integers(1, 8), st.integers(100, 400)),
    st.one_of(st.integers(0, 5), st.integers(0, 300)),
)


@given(st.lists(requests, max_size=40))
def test_every_line_is_at_hand_when_it_would_be_if_each_were_looked_at_by_itself(steps):
    cycle, program = 0, []
    for first, count, later in steps:
        cycle += later
        program.append((first, count, cycle))
    assert list(asked(program)) == list(line_by_line(program))


def test_a_line_that_is_read_is_shared_until_it_is_at_hand():
    steps = [(7, 1, 0), (7, 1, 1), (7, 1, LATENCY), (7, 1, LATENCY + 1)]
    assert list(asked(steps)) == [(250, [7]), (250, []), (250, []), (501, [7])]


def test_a_request_reads_what_is_missing_around_what_it_shares():
    steps = [(10, 5, 0), (20, 1, 1), (8, 14, 2)]
    *_, (at_hand, read) = asked(steps)
    assert read == [8, 9, 15, 16, 17, 18, 19, 21]
    assert at_hand == 2 + 13 + LATENCY


def test_no_line_is_forgotten_on_its_way_however_many_there_are():
    first = [(1000 * number, 900, number) for number in range(20)]
    again = [(1000 * number, 1, 20) for number in range(20)]
    assert all(read == [] for _, read in list(asked(first + again))[20:])


def test_single_lines_at_hand_are_forgotten_and_those_on_their_way_are_not():
    steps = [(number, 1, number) for number in range(2000)]
    steps += [(line, 1, 2000) for line in (1999, 1750, 1749, 0)]
    assert [read for _, read in list(asked(steps))[2000:]] == [[], [], [1749], [0]]
