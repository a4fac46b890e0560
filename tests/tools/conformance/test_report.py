"""The table of pages and pairs: how it is made, and that what is recorded is of this kit."""

import json

import pytest
from amoeba_tools.conformance import checks

from tests import conformance_page, conformance_report

STATES = {"fi_one.a": "passed", "fi_one.b": "failed", "fi_one.c": "not offered", "fi_two.a": "passed"}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Neither the recorded results nor the page are touched."""
    monkeypatch.setattr(conformance_page, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(conformance_page, "PAGE", tmp_path / "conformance.md")
    return tmp_path


def test_states_are_counted_by_page():
    found = conformance_report.counts({"checks": STATES})
    assert found == {"fi_one": {"passed": 1, "failed": 1, "not offered": 1}, "fi_two": {"passed": 1}}


def test_the_table_shows_what_passed_and_stresses_what_did_not():
    results = {
        "model": {"measured": "today", "pages": conformance_report.counts({"checks": STATES})},
        "RTL": {"measured": "yesterday", "pages": {"fi_one": {"passed": 3}}},
    }
    text = conformance_page.table(results)
    assert "| page | model | RTL |" in text
    assert "| fi_one(3) | **1 of 2** | 3 |" in text
    assert "| fi_two(3) | 1 | 0 |" in text
    assert "| all | **2 of 3** | 3 |" in text
    assert "Tried today (model); yesterday (RTL)." in text


def test_a_report_runs_the_pairs_that_are_named_and_keeps_the_others(files, capsys):
    asked = []

    def run(options):
        asked.append(options)
        return {"checks": {"fi_rma.a": "passed", "fi_rma.b": "passed"}, "failures": {}}

    assert conformance_report.main(["RTL", "model"], run) == 0
    assert conformance_report.main(["model, 1 % lost"], run) == 0
    assert asked == [conformance_report.PAIRS[name] for name in ("RTL", "model", "model, 1 % lost")]
    recorded = json.loads((files / "results.json").read_text())
    assert list(recorded) == ["model", "RTL", "model, 1 % lost"]
    assert recorded["RTL"]["pages"] == {"fi_rma": {"passed": 2}}
    assert "commit" in recorded["RTL"]["measured"]
    assert "| fi_rma(3) | 2 | 2 | 2 |" in (files / "conformance.md").read_text()


def test_a_failure_is_told_and_the_status_is_1(files, capsys):
    def run(options):
        return {"checks": {"fi_rma.a": "failed"}, "failures": {"fi_rma.a": "expected 1, got 2"}}

    assert conformance_report.main(["RTL"], run) == 1
    assert "RTL: fi_rma.a: expected 1, got 2" in capsys.readouterr().err
    assert "**0 of 1**" in (files / "conformance.md").read_text()


def test_unknown_pairs_are_usage_errors(capsys):
    with pytest.raises(SystemExit, match="2"):
        conformance_report.main(["abacus"])
    assert "got ['abacus']" in capsys.readouterr().err


def test_every_pair_of_the_report_has_been_tried_and_has_passed():
    recorded = conformance_page.recorded()
    assert list(recorded) == list(conformance_report.PAIRS)
    for pair, result in recorded.items():
        assert {"fi_rma", "fi_atomic"} <= set(result["pages"]) <= {check.page for check in checks()}, pair
        # no application can cut the link of a NIC behind PCI Express
        fine = {"passed", "not offered"} if pair.startswith("pcie") else {"passed"}
        assert {state for states in result["pages"].values() for state in states} <= fine, pair
