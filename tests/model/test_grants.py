"""Ranges that overlap and are counted, and the grants that are kept in them, against naive ones byte by byte.

Covers ``ranges.py``.
"""

import itertools
import random
import sys

import pytest
from amoeba_model.device import DeviceError
from amoeba_model.grants import MemoryGrants
from amoeba_model.ranges import CountedRanges, ShiftError
from amoeba_model.trace import NO_CONTEXT
from hypothesis import given, settings
from hypothesis import strategies as st

SPACE = 64
SHIFTS = (0, 1000, -7)


class NaiveRanges:
    """Every address by itself."""

    def __init__(self):
        self.ranges = []

    def shifts(self, address):
        return {shift for start, end, shift in self.ranges if start <= address < end}

    def fits(self, start, end, shift):
        return all(self.shifts(address) <= {shift} for address in range(start, end))

    def held(self):
        return {address: self.shifts(address).pop() for address in range(SPACE) if self.shifts(address)}


@st.composite
def ranges(draw):
    start = draw(st.integers(0, SPACE - 1))
    return start, draw(st.integers(start + 1, SPACE)), draw(st.sampled_from(SHIFTS))


steps = st.lists(st.one_of(ranges(), st.integers(0, 100)), max_size=40)
"""The grant that is added, or the one that is removed."""


def addresses(parts):
    return {address: shift for start, end, shift in parts for address in range(start, end)}


@settings(max_examples=300, deadline=None)
@given(steps, ranges())
def test_counted_ranges_hold_what_byte_by_byte_is_held(steps, asked):
    ranges, naive = CountedRanges(), NaiveRanges()
    for step in steps:
        if isinstance(step, tuple):
            start, end, shift = step
            if naive.fits(start, end, shift):
                ranges.add(start, end, shift)
                naive.ranges.append(step)
            else:
                with pytest.raises(ShiftError) as refused:
                    ranges.add(start, end, shift)
                assert refused.value.shift in naive.shifts(refused.value.address) - {shift}
        elif naive.ranges:
            start, end, _ = naive.ranges.pop(step % len(naive.ranges))
            ranges.remove(start, end)
        assert addresses(ranges.held(0, SPACE)) == naive.held()
    held, (start, end, _) = naive.held(), asked
    assert addresses(ranges.held(start, end)) == {at: held[at] for at in range(start, end) if at in held}
    gaps = {at for first, last in ranges.gaps(start, end) for at in range(first, last)}
    assert gaps == {at for at in range(start, end) if at not in held}
    located = ranges.locate(start, end)
    if gaps:
        assert located is None
    else:
        places = [place for first, size in located for place in range(first, first + size)]
        assert places == [at + held[at] for at in range(start, end)]
        assert all(sum(piece) != following for piece, (following, _) in itertools.pairwise(located))


@settings(max_examples=100, deadline=None)
@given(st.lists(ranges(), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_what_was_cut_is_one_again_when_the_cutters_are_gone(pieces, random):
    ranges = CountedRanges()
    ranges.add(0, SPACE)
    for start, end, _ in pieces:
        ranges.add(start, end)
    random.shuffle(pieces)
    for start, end, _ in pieces:
        ranges.remove(start, end)
    assert (len(ranges), list(ranges.held(0, SPACE))) == (1, [(0, SPACE, 0)])
    ranges.remove(0, SPACE)
    assert not ranges


def test_many_ranges_are_found_in_few_looks(monkeypatch):
    ranges = CountedRanges()
    for page in range(20_000):
        ranges.add(page * 8192, page * 8192 + 4096, 1 << 40)
    looks = 0

    class Counting(int):
        def __lt__(self, other):
            nonlocal looks
            looks += 1
            return int(self) < other

    assert ranges.locate(Counting(9_999 * 8192), Counting(9_999 * 8192 + 64)) == [((1 << 40) + 9_999 * 8192, 64)]
    assert 0 < looks < 32


def test_an_access_may_be_covered_by_several_grants_that_lie_apart_in_the_host():
    grants = MemoryGrants()
    grants.add(0x1000, 0x1000, True, host_address=0x9000)
    grants.add(0x2000, 0x1000, True, host_address=0x5000)
    grants.add(0x3000, 0x1000, False, host_address=0x6000)
    assert grants.locate(0x1FF0, 32, True) == [(0x9FF0, 16), (0x5000, 16)]
    assert grants.locate(0x2FF0, 32, False) == [(0x5FF0, 32)]
    assert grants.locate(0x2FF0, 32, True) is None
    assert grants.locate(0x3FF0, 32, False) is None
    assert grants.locate(0x1000, 0, False) is None
    assert sorted(grants) == [
        (0x1000, 0x1000, True, 0x9000), (0x2000, 0x1000, True, 0x5000), (0x3000, 0x1000, False, 0x6000)
    ]  # fmt: skip


def test_an_address_lies_in_one_place():
    grants = MemoryGrants()
    grants.add(0x1000, 0x1000, False, host_address=0x9000)
    with pytest.raises(DeviceError, match=r"0x1800 is granted already, and lies at 0x9800 .* at 0x1800"):
        grants.add(0x1800, 0x1000, False)
    assert not grants.allows(0x2000, 1, False)
    grants.add(0x1800, 0x1000, False, host_address=0x9800)
    assert grants.locate(0x1000, 0x1800, False) == [(0x9000, 0x1800)]


def test_of_equal_grants_the_oldest_is_revoked():
    grants = MemoryGrants()
    grants.add(0x1000, 64, False)
    grants.add(0x1000, 64, True)
    assert grants.allows(0x1000, 64, True)
    grants.remove(0x1000, 64)
    assert grants.allows(0x1000, 64, True)
    grants.remove(0x1000, 64)
    assert not grants.allows(0x1000, 1, False)
    with pytest.raises(DeviceError, match="never granted"):
        grants.remove(0x1000, 64)


@pytest.mark.parametrize(("iova", "host", "length"), [(0, None, 0), (-1, None, 8), (2**64 - 4, None, 8), (0, -1, 8)])
def test_what_cannot_be_addressed_cannot_be_granted(iova, host, length):
    grants = MemoryGrants()
    with pytest.raises(DeviceError, match=r"positive length|64 bits"):
        grants.add(iova, length, True, host_address=host)
    assert list(grants) == []


def reach(grants, start, end):
    """The accesses (read, write) to each of these bytes, of contexts 0 to 2 and of a context without grants."""
    return [
        [tuple(grants.allows(at, 1, write, context) for write in (False, True)) for context in (0, 1, 2, None)]
        for at in range(start, end)
    ]


def test_what_is_granted_to_a_context_is_out_of_reach_of_others():
    grants = MemoryGrants()
    grants.add(0x1000, 64, True, context=1)
    grants.add(0x1040, 64, False)
    allowed = [grants.allows(0x1000, 64, True, context) for context in (0, 1, NO_CONTEXT, None)]
    assert allowed == [False, True, False, False]
    assert all(grants.allows(0x1040, 64, False, context) for context in (0, 1, NO_CONTEXT, None))
    assert grants.allows(0x1020, 64, False, 1), "one access may be covered by a grant to it and one to all"
    assert not grants.allows(0x1020, 64, True, 1)
    assert not grants.allows(0x1020, 64, False, 0)


@pytest.mark.parametrize("seed", range(20))
def test_grants_to_contexts_are_as_if_each_was_looked_for(seed):
    """Overlapping grants to contexts and to all come and go in any order."""
    rng = random.Random(seed)
    grants, made = MemoryGrants(), []
    for _ in range(60):
        if made and rng.random() < 0.45:
            chosen = rng.choice(made)[:3]
            made.remove(next(each for each in made if each[:3] == chosen))  # the oldest of equal ones
            grants.remove(*chosen)
        else:
            start, length, context = rng.randrange(12), rng.randrange(1, 9), rng.choice([0, 1, 2, None, None])
            made.append((start, length, context, rng.random() < 0.5))
            grants.add(start, length, made[-1][3], context=context)
        for at, row in enumerate(reach(grants, 0, 20)):
            for context, (reads, writes) in zip((0, 1, 2, None), row, strict=True):
                mine = [w for s, n, c, w in made if s <= at < s + n and c in (context, None)]
                assert (reads, writes) == (bool(mine), any(mine)), f"seed {seed}: byte {at}, context {context}"


@pytest.mark.parametrize("change", ["add", "remove"])
@pytest.mark.parametrize(("start", "end"), [(0, 8), (8, 24), (12, 20), (30, 34), (0, 64), (40, 44)])
def test_what_is_interrupted_takes_nothing_away_from_others(change, start, end):
    """By what a signal's handler raises: where a function begins, and where one of C has ended."""
    for place in itertools.count():
        ranges, others = CountedRanges(), [(8, 16), (16, 24), (20, 40), (48, 56)]
        for each in others:
            ranges.add(*each)
        if change == "remove":
            ranges.add(start, end)
        if not interrupted(lambda ranges=ranges: getattr(ranges, change)(start, end), place):
            break
        for first, last in others:
            assert ranges.locate(first, last) == [(first, last - first)], f"interrupted at place {place}"
    assert place > 2


def interrupted(function, place):
    """Call a function, and raise something at this place, counted from 0; whether it has such a place."""
    passed = 0

    def look(frame, event, _):
        nonlocal passed
        if event in ("call", "c_return"):
            passed += 1
            if passed > place:
                sys.setprofile(None)
                raise KeyboardInterrupt

    try:
        sys.setprofile(look)
        function()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return passed > place
