"""Files whose tests continuous integration runs in turn, a part of each file a day: ``tests/turns.toml``.

Without the environment variable ``AMOEBA_TURN`` nothing is left out, so ``make test`` runs all of them.
"""

import os
import tomllib
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

__all__ = ["TURNS", "Turns", "read_turns", "turn_of_the_day"]

TURNS = Path(__file__).resolve().parents[1] / "turns.toml"
VARIABLE = "AMOEBA_TURN"
"""Number of the turn: any integer that grows by one with each day."""


def read_turns(text: str) -> dict[str, int]:
    """Return the number of parts of each file. Raises ValueError for a table that is not one."""
    table = tomllib.loads(text).get("parts")
    if not isinstance(table, dict):
        raise ValueError("expected a table [parts] of files and their numbers of parts")
    for name, parts in table.items():
        if not isinstance(parts, int) or isinstance(parts, bool) or parts < 2:
            raise ValueError(f"expected at least 2 parts of {name}, got {parts!r}")
    return dict(table)


def turn_of_the_day(environment: Mapping[str, str] = os.environ) -> int | None:
    """Return the number of the turn, or None where all tests are to run. Raises ValueError for no number."""
    text = environment.get(VARIABLE, "")
    if not text:
        return None
    if not text.isdecimal():
        raise ValueError(f"expected {VARIABLE} to be a number that grows by one each day, got {text!r}")
    return int(text)


class Turns:
    """A pytest plugin: of each file in the table one part runs, the next one the next day.

    Parts are neighbours in the file, so tests that share what they build stay together.
    """

    def __init__(self, parts: Mapping[str, int], turn: int) -> None:
        self._parts = parts
        self._turn = turn

    # Behind the selection by markers, so that parts are those of the tests that are left.
    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        files: defaultdict[str, list[pytest.Item]] = defaultdict(list)
        for item in items:
            files[item.nodeid.partition("::")[0].removeprefix("tests/")].append(item)
        left_out = set()
        for name, members in files.items():
            parts = min(self._parts.get(name, 1), len(members))
            for index, item in enumerate(members):
                if index * parts // len(members) != self._turn % parts:
                    left_out.add(item)
        if left_out:
            config.hook.pytest_deselected(items=sorted(left_out, key=lambda item: item.nodeid))
            items[:] = [item for item in items if item not in left_out]

    def pytest_report_header(self) -> str:
        return f"turn {self._turn}: a part of each of the {len(self._parts)} files in tests/turns.toml"
