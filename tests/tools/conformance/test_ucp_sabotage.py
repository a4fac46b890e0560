"""UCP's checks find what is wrong: the driver is broken in one place, and those that are about it must fail."""

import functools

import pytest
from amoeba_tools.conformance import run
from amoeba_tools.conformance.ucp import open_pair, select

from tests.tools.conformance.broken_ucp import CASES

pytestmark = pytest.mark.long


def test_there_are_many_ways_to_break_ucp():
    assert len(CASES) >= 40


@pytest.mark.parametrize("name", CASES)
def test_what_is_broken_is_found(monkeypatch, name):
    sabotage, ids = CASES[name]
    chosen, opened = select(*ids), functools.partial(open_pair, patience=1.0)
    assert run(opened, chosen).passed
    sabotage(monkeypatch)
    report = run(opened, chosen)
    assert {outcome.check.id for outcome in report.failures} == {check.id for check in chosen}, report.failures
