"""Checks find what is wrong: the driver is broken in one place, and those that are about it must fail.

Covers ``conformance/runner.py``.
"""

import functools

import pytest
from amoeba_tools.conformance import open_pair, run, select

from tests.tools.conformance import (
    broken_driver,  # noqa: F401 - its ways to break the driver are registered
    broken_messages,  # noqa: F401
)
from tests.tools.conformance.sabotage import CASES

pytestmark = pytest.mark.long


@pytest.fixture
def short_patience() -> functools.partial:
    """Opens pairs on which what hangs is soon given up."""
    return functools.partial(open_pair, patience=2.0)


@pytest.mark.parametrize("name", CASES)
def test_what_is_broken_is_found(monkeypatch, short_patience, name):
    sabotage, ids = CASES[name]
    chosen = select(*ids)
    assert run(short_patience, chosen).passed
    sabotage(monkeypatch)
    report = run(short_patience, chosen)
    assert {outcome.check.id for outcome in report.failures} == {check.id for check in chosen}, report.failures
