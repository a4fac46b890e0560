"""The budget of each test file, and the order in which the files start: ``tests/budgets.toml``.

Files over their budget are named at the end of a run. They fail nothing: a busy machine is no fault.
"""

import resource
import tomllib
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

__all__ = ["BUDGETS", "Budgets", "over_budget", "read_budgets"]

BUDGETS = Path(__file__).resolve().parents[1] / "budgets.toml"
DEFAULT = 15.0
"""Seconds of processor time that a file may take which the table does not name."""


def read_budgets(text: str) -> dict[str, float]:
    """Seconds by file, in the order in which files start. Raises ValueError for anything else."""
    table = tomllib.loads(text).get("seconds")
    if not isinstance(table, dict):
        raise ValueError(f"expected a table [seconds], got {text[:60]!r}")
    for name, seconds in table.items():
        if not isinstance(seconds, int) or seconds <= 0:
            raise ValueError(f"expected a whole positive number of seconds for {name}, got {seconds!r}")
    return {name: float(seconds) for name, seconds in table.items()}


def over_budget(spent: Mapping[str, float], budgets: Mapping[str, float]) -> list[str]:
    """A line for each file that took more than it may, the worst first."""
    late = [(spent[name] - budgets.get(name, DEFAULT), name) for name in spent]
    return [
        f"{name}: {spent[name]:.0f} s of processor time, {budgets.get(name, DEFAULT):.0f} s in tests/budgets.toml"
        for over, name in sorted(late, reverse=True)
        if over > 0
    ]


def _file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0].removeprefix("tests/")


def _processor_time() -> float:
    """Seconds that this process and those that it has waited for took so far."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


class Budgets:
    """A pytest plugin: starts files in the order of the table, measures them, and names those over their budget."""

    def __init__(self, budgets: Mapping[str, float]) -> None:
        self._budgets = budgets
        self._spent: defaultdict[str, float] = defaultdict(float)
        self._last = _processor_time()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """The longest files first, if several processes share them: so none is left alone with one at the end."""
        if hasattr(config, "workerinput"):
            order = {name: index for index, name in enumerate(self._budgets)}
            items.sort(key=lambda item: order.get(_file_of(item.nodeid), len(order)))

    def pytest_runtest_logstart(self) -> None:
        """Time from before a test, as of the NIC's build, is not its own."""
        self._last = _processor_time()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        """Note in the report, which travels to the process that sums up, what was spent since the one before."""
        report = yield
        now = _processor_time()
        report.processor_time = now - self._last
        self._last = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._spent[_file_of(report.nodeid)] += getattr(report, "processor_time", 0.0)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        lines: Iterable[str] = over_budget(self._spent, self._budgets)
        if lines:
            terminalreporter.section("over budget")
            for line in lines:
                terminalreporter.line(line)
