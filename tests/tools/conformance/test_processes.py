"""The same between two processes, over UDP, by the command."""

import json
import re
import subprocess
import sys

import pytest
from amoeba_tools.conformance import checks

pytestmark = pytest.mark.long

AMOEBA = [sys.executable, "-c", "from amoeba_tools.cli import app; app()", "conformance"]
LONG = 500
"""Seconds in which anything ends."""


def run_both(here, there, *options):
    """Exit statuses of both processes, what the initiator's printed, and what the target's said of errors."""
    listening = [*AMOEBA, "--device", here, "--listen", "127.0.0.1:0", *options]
    with subprocess.Popen(listening, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as initiator:
        try:
            address = re.search(r"waiting at (\S+)", initiator.stderr.readline())[1]
            connecting = [*AMOEBA, "--device", there, "--connect", address, *options]
            target = subprocess.run(connecting, capture_output=True, text=True, timeout=LONG)
            output, _ = initiator.communicate(timeout=LONG)
        finally:
            initiator.kill()
    return initiator.returncode, target.returncode, output, target.stderr


@pytest.mark.parametrize(
    ("kinds", "options"),
    [
        ("model,model", []),
        ("model,model", ["--loss", "0.01", "--seed", "5", "--retransmit-timeout", "3000"]),
        ("model,model", ["--progress", "auto"]),
        ("rtl,model", ["--page", "fi_rma", "--page", "fi_mr", "--page", "fi_msg"]),
        ("model,rtl", ["--page", "fi_cq", "--page", "fi_cntr", "--page", "fi_av", "--page", "fi_tagged"]),
    ],
    ids=["model", "lossy model", "automatic model", "rtl initiator", "rtl target"],
)
def test_the_manual_pages_hold_between_two_processes(kinds, options):
    initiator, target, output, errors = run_both(*kinds.split(","), "--json", *options)
    facts = json.loads(output)
    assert facts["failures"] == {}
    assert (initiator, target) == (0, 0), errors
    pages = set(options[1::2]) if "--page" in options else {check.page for check in checks()}
    assert facts["checks"] == {check.id: "passed" for check in checks() if check.page in pages}
