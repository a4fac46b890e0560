"""Files whose tests continuous integration runs in turn, by the day: ``tests/turns.toml``.

Without the environment variable ``AMOEBA_TURN`` nothing is left out, so ``make test`` runs all of them.
"""

import os
import tomllib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

__all__ = ["TURNS", "Table", "Turns", "read_turns", "turn_of_the_day"]

TURNS = Path(__file__).resolve().parents[1] / "turns.toml"
VARIABLE = "AMOEBA_TURN"
"""Number of the turn: any integer that grows by one with each day."""


@dataclass(frozen=True)
class Table:
    """The content of ``tests/turns.toml``."""

    parts: Mapping[str, int]
    """Numbers of parts of the files of which a part runs each day."""
    days: Mapping[str, int]
    """Periods of the files that run whole on one day of so many."""

    def runs(self, name: str, index: int, count: int, turn: int) -> bool:
        """Return whether the test with an index among ``count`` of a file runs in a turn.

        Parts are neighbours in the file, so tests that share what they build stay together.
        """
        if period := self.days.get(name):
            # Files of the same period come on one day after the other.
            place = [other for other, days in self.days.items() if days == period].index(name)
            return (turn + place) % period == 0
        parts = self.parts.get(name, 1)
        return index * parts // count == turn % parts


def read_turns(text: str) -> Table:
    """Return the table. Raises ValueError for a text that is none."""
    tables = tomllib.loads(text)
    if set(tables) != {"parts", "days"} or not all(isinstance(table, dict) for table in tables.values()):
        raise ValueError(
            f"expected tables [parts] and [days] of files and numbers, got {', '.join(tables) or 'nothing'}"
        )
    for title, table in tables.items():
        for name, number in table.items():
            if not isinstance(number, int) or isinstance(number, bool) or number < 2:
                raise ValueError(f"expected at least 2 {title} of {name}, got {number!r}")
    for name in set(tables["parts"]) & set(tables["days"]):
        raise ValueError(f"expected {name} in one of the tables, got both")
    return Table(**tables)


def turn_of_the_day(environment: Mapping[str, str] = os.environ) -> int | None:
    """Return the number of the turn, or None where all tests are to run. Raises ValueError for no number."""
    text = environment.get(VARIABLE, "")
    if not text:
        return None
    if not text.isdecimal():
        raise ValueError(f"expected {VARIABLE} to be a number that grows by one each day, got {text!r}")
    return int(text)


class Turns:
    """A pytest plugin: of the files in the table, those tests run whose turn it is."""

    def __init__(self, table: Table, turn: int) -> None:
        self._table = table
        self._turn = turn

    # Behind the selection by markers, so that parts are those of the tests that are left.
    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        files: defaultdict[str, list[pytest.Item]] = defaultdict(list)
        for item in items:
            files[item.nodeid.partition("::")[0].removeprefix("tests/")].append(item)
        kept = {
            item
            for name, members in files.items()
            for index, item in enumerate(members)
            if self._table.runs(name, index, len(members), self._turn)
        }
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]

    def pytest_report_header(self) -> str:
        return f"turn {self._turn}: files in tests/turns.toml run in part, or on another day"
