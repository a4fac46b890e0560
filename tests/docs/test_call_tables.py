"""The tables of calls in docs/libfabric.md and docs/ucp.md name every public call exactly once."""

import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest
from amoeba import fi, ucp

DOCS = Path(__file__).parents[2] / "docs"
TABLES = [pytest.param("libfabric.md", fi, "fi_", id="libfabric"), pytest.param("ucp.md", ucp, "ucp_", id="ucp")]


def rows(page: str) -> list[tuple[list[str], str]]:
    """Return the calls and the state of each row of a page's table."""
    text = (DOCS / page).read_text(encoding="utf-8")
    section = text.partition("\n## All calls\n")[2].partition("\n## ")[0]
    lines = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("|")]
    return [(re.findall(r"`(\w+)`", calls), state.strip()) for _, calls, state, _ in lines[2:]]


@pytest.mark.parametrize(("page", "module", "prefix"), TABLES)
def test_every_public_call_stands_in_exactly_one_row(page: str, module: ModuleType, prefix: str) -> None:
    public = [
        name for name in module.__all__ if name.startswith(prefix) and inspect.isfunction(getattr(module, name))
    ]
    named = [call for calls, state in rows(page) if state != "absent" for call in calls]
    assert len(public) > 100
    assert sorted(named) == sorted(public)


@pytest.mark.parametrize(("page", "module", "prefix"), TABLES)
def test_absent_calls_do_not_exist(page: str, module: ModuleType, prefix: str) -> None:
    absent = [call for calls, state in rows(page) if state == "absent" for call in calls]
    assert absent
    assert len(absent) == len(set(absent))
    assert [call for call in absent if hasattr(module, call) or not call.startswith(prefix)] == []


@pytest.mark.parametrize("page", ["libfabric.md", "ucp.md"])
def test_every_row_is_supported_differs_or_is_absent(page: str) -> None:
    assert {state for _, state in rows(page)} == {"supported", "differs", "absent"}
