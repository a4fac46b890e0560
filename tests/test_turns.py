"""Tests that run in turn: each day a part, all of them after some days, and all at once without turns."""

import pytest

from tests.support.turns import TURNS, Table, read_turns, turn_of_the_day

pytest_plugins = ["pytester"]


def test_the_table_names_files_that_exist() -> None:
    table = read_turns(TURNS.read_text())
    assert table.parts
    assert table.days
    for name in (*table.parts, *table.days):
        assert (TURNS.parent / name).is_file(), name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected tables .parts. and .days. of files and numbers, got nothing"),
        ("[parts]", "got parts"),
        ("parts = 3\ndays = 3", "got parts, days"),
        ('[parts]\n"a.py" = 1\n[days]', "at least 2 parts of a.py, got 1"),
        ('[parts]\n[days]\n"a.py" = true', "at least 2 days of a.py, got True"),
        ('[parts]\n"a.py" = "2"\n[days]', "got '2'"),
        ('[parts]\n"a.py" = 2\n[days]\n"a.py" = 2', "expected a.py in one of the tables, got both"),
    ],
)
def test_a_table_that_is_not_one_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_turns(text)


@pytest.mark.parametrize(("parts", "count"), [(2, 2), (3, 7), (4, 4), (8, 3389), (4, 3), (2, 1)])
def test_each_test_has_one_turn_of_so_many(parts: int, count: int) -> None:
    table = Table({"a.py": parts}, {})
    for index in range(count):
        assert sum(table.runs("a.py", index, count, turn) for turn in range(700, 700 + parts)) == 1


def test_a_file_runs_whole_on_one_day_of_so_many_and_files_of_one_period_on_different_days() -> None:
    names = [f"{letter}.py" for letter in "abcdefgh"]
    table = Table({}, dict.fromkeys(names, 3))
    days = {name: [turn for turn in range(3) if table.runs(name, 0, 9, turn)] for name in names}
    assert all(len(found) == 1 for found in days.values())
    assert len({found[0] for found in days.values()}) == 3
    assert all(table.runs("a.py", index, 9, days["a.py"][0] + 3) for index in range(9))


def test_a_file_that_is_in_no_table_always_runs() -> None:
    assert all(Table({}, {}).runs("a.py", index, 4, turn) for index in range(4) for turn in range(9))


def test_a_turn_is_a_number_or_absent() -> None:
    assert turn_of_the_day({}) is turn_of_the_day({"AMOEBA_TURN": ""}) is None
    assert turn_of_the_day({"AMOEBA_TURN": "333"}) == 333
    with pytest.raises(ValueError, match="a number that grows by one each day, got 'today'"):
        turn_of_the_day({"AMOEBA_TURN": "today"})


CONFTEST = """
import sys
sys.path.append({support!r})
from tests.support.turns import Table, Turns

def pytest_configure(config):
    table = Table({{"test_many.py": 3, "test_few.py": 2}}, {{"test_seldom.py": 2}})
    config.pluginmanager.register(Turns(table, {turn}), "turns of this run")
"""


def names_of(pytester: pytest.Pytester, turn: int, *options: str) -> list[str]:
    pytester.makeconftest(CONFTEST.format(support=str(TURNS.parents[1]), turn=turn))
    pytester.makepyfile(
        test_many="import pytest\n@pytest.mark.parametrize('n', range(7))\ndef test_n(n):\n    pass\n",
        test_few="def test_a():\n    pass\n\ndef test_b():\n    pass\n",
        test_seldom="def test_d():\n    pass\n\ndef test_e():\n    pass\n",
        test_other="def test_c():\n    pass\n",
    )
    result = pytester.runpytest_inprocess("-v", *options)
    assert f"turn {turn}: files in tests/turns.toml run in part, or on another day" in result.stdout.str()
    lines = [line for line in result.outlines if " PASSED" in line]
    return sorted(line.replace("PASSED", "").split("::")[-1].split()[0] for line in lines)


def test_all_tests_have_run_after_some_days(pytester: pytest.Pytester) -> None:
    days = [names_of(pytester, turn) for turn in range(102, 105)]
    numbered = sorted(name for day in days for name in day if name.startswith("test_n"))
    assert numbered == [f"test_n[{n}]" for n in range(7)]
    assert [day[0] for day in days] == ["test_a", "test_b", "test_a"]
    assert all("test_c" in day for day in days)
    assert ("test_d" in days[0]) is ("test_e" in days[0]) is ("test_d" in days[2])
    assert ("test_d" in days[1]) is not ("test_d" in days[0])


def test_parts_are_those_of_the_tests_that_are_selected(pytester: pytest.Pytester) -> None:
    days = [names_of(pytester, turn, "-k", "test_n and (0 or 5)") for turn in range(2)]
    assert days == [["test_n[0]"], ["test_n[5]"]]
