"""Permitted waits: the table of hw/amoeba_hw/README.md has no circle, and no two NICs come to a standstill.

The second is shown in all states of a small model: two NICs, a few requests each, a frame in each place where frames
wait, a loss now and then. It has the rules of the READMEs and nothing else. Where a rule is broken as it once was,
the same search finds the standstill.
"""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

PAGE = Path(__file__).parents[2] / "hw" / "amoeba_hw" / "README.md"


def table() -> dict[str, set[str]]:
    """The entries of the table that each one waits for."""
    text = PAGE.read_text(encoding="utf-8")
    section = text.partition("## Permitted waits")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| \*\*(.+?)\*\* \| (.*?) \|", section, re.MULTILINE)
    return {name: set(re.findall(r"\*\*(.+?)\*\*", waits)) for name, waits in rows}


def test_the_table_has_no_circle_and_ends_with_the_host() -> None:
    left = table()
    assert len(left) > 8
    assert set().union(*left.values()) <= set(left), "something is waited for that has no row"
    order = []
    while left:
        free = [name for name, waits in left.items() if not waits & set(left)]
        assert free, f"a circle among {sorted(left)}"
        order += free
        for name in free:
            del left[name]
    assert order[0] == "host"


class Nic(NamedTuple):
    """A NIC with a place for one frame to leave, one request to be executed, and one completion to wait."""

    new: int
    """Requests to be sent."""
    again: int = 0
    """Requests to be sent again."""
    sent: int = 0
    """Requests of which no answer has come, nor is known to be lost."""
    leaving: str = ""
    """The frame that leaves: a request or an answer; their sequence in :attr:`arriving`."""
    arriving: str = ""
    stored: int = 0
    """Requests in the store, which holds one."""
    answer: int = 0
    """Whether the target has an answer to send."""
    held: int = 0
    """Completions that wait until what is sent again has left; one has a place."""
    done: int = 0


State = tuple[Nic, Nic]
PORT = 1
"""Frames that wait on their way to a NIC: the fewer, the smaller the search in which they can be too many."""


class Rules(NamedTuple):
    requests_stall: bool = False
    """A request that finds the store full waits on the link."""
    answers_stall: bool = False
    """An answer whose completion finds no place waits on the link."""


def steps_of(own: Nic, other: Nic, rules: Rules) -> Iterator[tuple[Nic, Nic]]:
    """All that one of two NICs may do next."""
    if not own.leaving:
        if own.again:
            yield own._replace(leaving="q", again=own.again - 1, sent=own.sent + 1), other
        if own.new:
            yield own._replace(leaving="q", new=own.new - 1, sent=own.sent + 1), other
        if own.answer:
            yield own._replace(leaving="a", answer=0), other
    elif len(other.arriving) < PORT:
        yield own._replace(leaving=""), other._replace(arriving=other.arriving + own.leaving)
    if own.stored and not own.answer:
        yield own._replace(stored=own.stored - 1, answer=1), other
    if own.held and not own.again:
        yield own._replace(held=0, done=own.done + 1), other
    if own.arriving:
        yield from taken(own._replace(arriving=own.arriving[1:]), other, own.arriving[0], rules)


def taken(own: Nic, other: Nic, frame: str, rules: Rules) -> Iterator[tuple[Nic, Nic]]:
    """The possible fates of the next frame; nothing: it waits."""
    if frame == "q":
        if not own.stored:
            yield own._replace(stored=1), other
        elif not rules.requests_stall:
            yield own, other._replace(sent=other.sent - 1, again=other.again + 1)
    elif not own.again:
        yield own._replace(sent=own.sent - 1, done=own.done + 1), other
    elif not own.held:
        yield own._replace(sent=own.sent - 1, held=1), other
    elif not rules.answers_stall:
        yield own._replace(sent=own.sent - 1, again=own.again + 1), other


def losses(state: State) -> Iterator[State]:
    """A frame is lost on its way: whose request it was will find out."""
    for place, nic in enumerate(state):
        for at, frame in enumerate(nic.arriving):
            sender = place if frame == "a" else 1 - place
            pair = list(state)
            pair[place] = nic._replace(arriving=nic.arriving[:at] + nic.arriving[at + 1 :])
            pair[sender] = pair[sender]._replace(sent=pair[sender].sent - 1, again=pair[sender].again + 1)
            yield pair[0], pair[1]


def explore(start: Nic, lost: int, rules: Rules) -> dict[tuple[State, int], list[tuple[State, int]]]:
    """All states that can be reached, with how many losses are left, and what may follow without a loss."""
    begin = ((start, start), lost)
    followers: dict[tuple[State, int], list[tuple[State, int]]] = {}
    unseen = [begin]
    while unseen:
        node = unseen.pop()
        if node in followers:
            continue
        (first, second), left = node
        following = [((a, b), left) for a, b in steps_of(first, second, rules)]
        following += [((a, b), left) for b, a in steps_of(second, first, rules)]
        followers[node] = following
        unseen += following
        if left:
            unseen += [(state, left - 1) for state in losses(node[0])]
    return followers


def finished(state: State, requests: int) -> bool:
    return all(nic.done == requests for nic in state)


def stuck(start: Nic, lost: int, rules: Rules) -> list[State]:
    """States from which, with nothing more lost, there is no way to the end of all requests."""
    followers = explore(start, lost, rules)
    requests = start.new + start.again
    before: dict[tuple[State, int], list[tuple[State, int]]] = {node: [] for node in followers}
    for node, following in followers.items():
        for other in following:
            before[other].append(node)
    alive = {node for node in followers if finished(node[0], requests)}
    assert alive, "nothing is ever finished"
    unseen = list(alive)
    while unseen:
        for node in before[unseen.pop()]:
            if node not in alive:
                alive.add(node)
                unseen.append(node)
    return [node[0] for node in followers if node not in alive]


@pytest.mark.parametrize(("start", "lost"), [(Nic(1), 2), (Nic(2), 2), (Nic(3, again=1), 0)], ids=["1", "2", "4"])
def test_from_every_state_all_requests_can_end(start: Nic, lost: int) -> None:
    assert stuck(start, lost, Rules()) == []


def test_requests_that_wait_on_the_link_end_in_a_standstill() -> None:
    """Row 9: what leaves waits for the other NIC to take something, which waits for what it has to send itself."""
    found = stuck(Nic(4), 0, Rules(requests_stall=True))
    still = [state for state in found if not any(itertools.chain(*both_ways(state, Rules(requests_stall=True))))]
    assert still, "no standstill was found, so the search looks at too little"
    for first, second in still:
        assert first.arriving[0] == second.arriving[0] == "q"
        assert first.leaving
        assert second.leaving


def test_answers_that_wait_on_the_link_end_in_a_standstill() -> None:
    """Completions wait for what is sent again, which waits for the link: its second half."""
    rules = Rules(answers_stall=True)
    found = stuck(Nic(3, again=1), 0, rules)
    still = [state for state in found if not any(itertools.chain(*both_ways(state, rules)))]
    assert still
    for first, second in still:
        assert first.arriving[0] == second.arriving[0] == "a"


def both_ways(state: State, rules: Rules) -> list[list[tuple[Nic, Nic]]]:
    return [list(steps_of(state[0], state[1], rules)), list(steps_of(state[1], state[0], rules))]
