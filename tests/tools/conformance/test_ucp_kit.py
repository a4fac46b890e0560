"""UCP's functions, sentence by sentence, on pairs of NICs.

Covers ``conformance/ucp/expectations.py``, ``conformance/ucp/pair.py``, ``conformance/ucp/registry.py`` and
``conformance/ucp/functions/*.py``.
"""

import contextlib
import functools
import json
import re
from pathlib import Path

import pytest
from amoeba_model.impairments import Impairments
from amoeba_tools.cli import app
from amoeba_tools.conformance import run
from amoeba_tools.conformance.ucp import checks, open_pair, select, unchecked
from typer.testing import CliRunner

from tests.support.commands import usage_error

NAMES = json.loads((Path(__file__).parents[2] / "data" / "ucp-1.12.json").read_text())


@pytest.fixture(scope="module")
def shared():
    """One pair for all checks, opened again after a failure."""
    exits, opened = contextlib.ExitStack(), []

    def get(*, spoil=False):
        if spoil:
            opened.clear()
            exits.close()
        elif not opened:
            opened.append(exits.enter_context(open_pair()))
        return opened[0] if opened else None

    yield get
    exits.close()


@pytest.mark.parametrize("check", checks(), ids=str)
def test_the_header_holds_on_models(shared, check):
    try:
        check.run(shared())
    except BaseException:
        shared(spoil=True)
        raise


@pytest.mark.long
@pytest.mark.parametrize("kinds", ["rtl,rtl", "model,rtl"])
def test_the_header_holds_on_rtl(kinds):
    report = run(functools.partial(open_pair, kinds.split(","), rtl_options={"host_latency": 40}), checks())
    assert report.passed, [(failure.check.id, failure.failure) for failure in report.failures]


@pytest.mark.long
def test_the_header_holds_over_links_that_lose_frames():
    links = Impairments(seed=3, loss=0.01, duplication=0.01, reordering=0.01)
    report = run(functools.partial(open_pair, impairments=links), checks())
    assert report.passed, [(failure.check.id, failure.failure) for failure in report.failures]


def test_every_function_of_the_header_has_a_check():
    functions = {each["name"] for each in NAMES["functions"]}
    assert len(functions) == 93
    assert {check.page for check in checks()} == functions
    assert {each.page for each in unchecked()} <= functions


def test_patterns_choose_and_unknown_ones_are_refused():
    assert {check.page for check in select("ucp_put_nb*")} == {"ucp_put_nb", "ucp_put_nbi", "ucp_put_nbx"}
    with pytest.raises(ValueError, match="ucp_telepathy"):
        select("ucp_telepathy")


def test_the_command_runs_checks_of_ucp():
    arguments = ["conformance", "--api", "ucp", "--page", "ucp_worker_fence", "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["checks"] == {check.id: "passed" for check in select("ucp_worker_fence")}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--listen", "127.0.0.1:0"), "--listen, --connect, --progress: "),
        (("--progress", "auto"), "--listen, --connect, --progress: "),
        (("--page", "fi_rma"), "--page: .*'fi_rma'"),
    ],
)
def test_what_the_kit_cannot_do_is_a_usage_error(options, said):
    assert re.search(said, usage_error(CliRunner().invoke(app, ["conformance", "--api", "ucp", *options])))
