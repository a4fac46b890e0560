"""Tests that run in turn: each day a part, all of them after some days, and all at once without turns."""

import pytest

from tests.support.turns import TURNS, read_turns, turn_of_the_day

pytest_plugins = ["pytester"]


def test_the_table_names_files_that_exist() -> None:
    table = read_turns(TURNS.read_text())
    assert table
    for name in table:
        assert (TURNS.parent / name).is_file(), name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a table"),
        ("parts = 3", "expected a table"),
        ('[parts]\n"a.py" = 1', "at least 2 parts of a.py, got 1"),
        ('[parts]\n"a.py" = true', "got True"),
        ('[parts]\n"a.py" = "2"', "got '2'"),
    ],
)
def test_a_table_that_is_not_one_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_turns(text)


def test_a_turn_is_a_number_or_absent() -> None:
    assert turn_of_the_day({}) is turn_of_the_day({"AMOEBA_TURN": ""}) is None
    assert turn_of_the_day({"AMOEBA_TURN": "333"}) == 333
    with pytest.raises(ValueError, match="a number that grows by one each day, got 'today'"):
        turn_of_the_day({"AMOEBA_TURN": "today"})


CONFTEST = """
import sys
sys.path.append({support!r})
from tests.support.turns import Turns

def pytest_configure(config):
    config.pluginmanager.register(Turns({{"test_many.py": 3, "test_few.py": 4}}, {turn}), "turns of this run")
"""


def names_of(pytester: pytest.Pytester, turn: int, *options: str) -> list[str]:
    pytester.makeconftest(CONFTEST.format(support=str(TURNS.parents[1]), turn=turn))
    pytester.makepyfile(
        test_many="import pytest\n@pytest.mark.parametrize('n', range(7))\ndef test_n(n):\n    pass\n",
        test_few="def test_a():\n    pass\n\ndef test_b():\n    pass\n",
        test_other="def test_c():\n    pass\n",
    )
    result = pytester.runpytest_subprocess("-v", *options)
    assert f"turn {turn}: a part of each of the 2 files in tests/turns.toml" in result.stdout.str()
    lines = [line for line in result.outlines if " PASSED" in line]
    return sorted(line.replace("PASSED", "").split("::")[-1].split()[0] for line in lines)


def test_all_tests_have_run_after_some_days_and_each_file_has_some_each_day(pytester: pytest.Pytester) -> None:
    days = [names_of(pytester, turn) for turn in range(100, 103)]
    numbered = sorted(name for day in days for name in day if name.startswith("test_n"))
    assert numbered == [f"test_n[{n}]" for n in range(7)]
    assert all(any(name.startswith("test_n") for name in day) for day in days)
    assert [day[0] for day in days] == ["test_a", "test_b", "test_a"]
    assert all("test_c" in day for day in days)


def test_parts_are_those_of_the_tests_that_are_selected(pytester: pytest.Pytester) -> None:
    days = [names_of(pytester, turn, "-k", "test_n and (0 or 5)") for turn in range(2)]
    assert days == [["test_n[0]"], ["test_n[5]"]]
