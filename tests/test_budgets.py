"""Budgets of test files: read, measured, ordered by, and reported without failing anything."""

import pytest

from tests.support.budgets import BUDGETS, DEFAULT, over_budget, read_budgets

pytest_plugins = ["pytester"]


def test_the_table_names_files_that_exist() -> None:
    budgets = read_budgets(BUDGETS.read_text())
    assert budgets
    for name, seconds in budgets.items():
        assert (BUDGETS.parent / name).is_file(), name
        assert seconds > DEFAULT, f"{name} needs no entry"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a table"),
        ("seconds = 3", "expected a table"),
        ('[seconds]\n"a.py" = 0', "positive number of seconds for a.py, got 0"),
        ('[seconds]\n"a.py" = "1"', "got '1'"),
    ],
)
def test_a_table_that_is_not_one_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_budgets(text)


def test_files_over_their_budget_are_named_the_worst_first() -> None:
    spent = {"in_time.py": 9.0, "late.py": 12.0, "unknown.py": DEFAULT + 20, "unknown_but_quick.py": 1.0}
    lines = over_budget(spent, {"in_time.py": 10.0, "late.py": 10.0})
    assert [line.partition(":")[0] for line in lines] == ["unknown.py", "late.py"]
    assert "12 s of processor time, 10 s" in lines[1]


CONFTEST = """
import sys
sys.path.append({support!r})
from tests.support.budgets import Budgets

def pytest_configure(config):
    config.addinivalue_line("markers", "long: long")
    config.pluginmanager.register(Budgets({{"test_second.py": 30.0, "test_first.py": 0.05}}), "budgets of this run")
"""


@pytest.mark.parametrize("processes", [0, 1])
def test_a_run_over_budget_passes_and_says_so(pytester: pytest.Pytester, processes: int) -> None:
    pytester.makeconftest(CONFTEST.format(support=str(BUDGETS.parents[1])))
    pytester.makepyfile(
        test_first="import time\n\ndef test_busy():\n    end = time.process_time() + 0.2\n"
        "    while time.process_time() < end:\n        pass\n",
        test_second="def test_idle():\n    pass\n",
    )
    result = pytester.runpytest_subprocess("-v", "-n", str(processes), "--dist", "loadfile", "--no-loadscope-reorder")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*over budget*", "test_first.py: 0 s of processor time, 0 s in tests/budgets.toml"])
    result.stdout.no_fnmatch_line("test_second.py: *")
    started = [line for line in result.stdout.lines if "PASSED" in line]
    assert ("test_second" in started[0]) == bool(processes), "the table's order is for several processes"
