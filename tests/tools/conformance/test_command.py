"""``amoeba conformance``, as typed.

Covers ``cli/conformance.py``.
"""

import json
import re

import pytest
from amoeba import AddressVector
from amoeba_tools.cli import app
from amoeba_tools.conformance import checks, select
from typer.testing import CliRunner

from tests.support.commands import usage_error


def run(*arguments):
    return CliRunner().invoke(app, ["conformance", *arguments], env={"COLUMNS": "200"})


def test_all_pages_are_printed_with_what_passed():
    result = run()
    assert result.exit_code == 0, result.output
    for page in {check.page for check in checks()}:
        assert f"{page}(3)" in result.output
    assert f"{len(checks())}" in result.output


def test_pages_patterns_and_losses_are_chosen():
    result = run("--page", "fi_eq", "--page", "fi_rma.fenced_*", "--loss", "0.1", "--seed", "4", "--json")
    facts = json.loads(result.stdout)
    assert result.exit_code == 0
    assert facts["checks"] == {check.id: "passed" for check in select("fi_eq", "fi_rma.fenced_*")}
    assert (facts["passed"], facts["failures"], len(facts["devices"])) == (True, {}, 2)


def test_progress_can_be_automatic():
    result = run("--progress", "auto", "--page", "fi_cq")
    assert result.exit_code == 0, result.output
    assert "Conformance of model,model, automatic progress" in result.output


@pytest.mark.parametrize("api", ["libfabric", "ucp"])
@pytest.mark.parametrize(("switch", "buffer"), [("drop", "9000"), ("pause", "60000")])
def test_pages_hold_where_a_switch_fills(switch, buffer, api):
    pages = ("fi_rma", "fi_tagged", "fi_atomic") if api == "libfabric" else ("ucp_put_nbx", "ucp_tag_send_nbx")
    chosen = [word for page in pages for word in ("--page", page)]
    result = run("--api", api, "--switch", switch, "--buffer", buffer, "--loss", "0.02", *chosen)
    assert result.exit_code == 0, result.output
    assert f"a switch that {switch}s" in " ".join(result.output.split())


def test_a_failure_is_printed_and_the_status_is_1(monkeypatch, tmp_path):
    monkeypatch.setattr(AddressVector, "straddr", lambda self, address: "an address")
    result = run("--page", "fi_av", "--output", str(tmp_path / "results.md"))
    assert result.exit_code == 1
    failure = "CheckFailedError: expected two strings, got 'an address' twice"
    assert f"fi_av.addresses_are_printable: {failure}" in result.output
    text = (tmp_path / "results.md").read_text()
    count = len(select("fi_av"))
    assert f"| fi_av(3) | {count} | {count - 1} | 1 | 0 |" in text
    assert "`addresses_are_printable` | failed |" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--device", "model,model,model"), r"--device: .*\['model', 'model', 'model'\]"),
        (("--device", "abacus"), "--device: .*'abacus'"),
        (("--page", "fi_telepathy"), "--page: .*'fi_telepathy'"),
        (("--loss", "2"), "'--loss': .*less than or equal to 1"),
        (("--switch", "none", "--buffer", "9000"), "--switch: --buffer and --mark need --switch"),
        (("--switch", "drop", "--listen", "127.0.0.1:0"), "--switch: a switch joins NICs of one process only"),
        (("--progress", "perhaps"), "'--progress': .*'perhaps'"),
        (("--listen", "7471"), "--listen: expected HOST:PORT, got '7471'"),
        (("--listen", "127.0.0.1:0", "--connect", "127.0.0.1:7471"), "--connect: expected --listen .* got both"),
    ],
)
def test_wrong_options_are_usage_errors(arguments, said):
    assert re.search(said, usage_error(run(*arguments)))
