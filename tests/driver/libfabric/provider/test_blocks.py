"""Calls that wait in one thread: all other threads go on, with manual and automatic progress."""

import subprocess
from pathlib import Path

import pytest
from amoeba.libfabric.provider.library import LIBRARY

from tests.support.programs.fixtures import watched

DEADLINE = 90
"""Seconds: a thread that holds up the others does so for ever."""
WAITS = ("a_counter", "a_failure", "a_wait_set", "an_event", "a_completion", "nothing")


CALLS = {
    "cq_sread": "fi_cq_sread(",
    "eq_sread": "fi_eq_sread(",
    "cntr_wait": "fi_cntr_wait(",
    "wait_wait": "fi_wait(",
}
"""libfabric's calls with a timeout, by the provider's functions behind them."""


def test_the_program_makes_every_call_that_waits():
    functions = [function for function in LIBRARY.functions if "timeout" in function.arguments]
    assert {function.name for function in functions} - {"eq_read"} == set(CALLS), "fi_eq_read has none"
    source = Path(__file__).with_name("blocks.c").read_text()
    assert [call for call in CALLS.values() if call not in source] == []


@pytest.fixture(scope="module")
def blocks(compiled):
    return compiled("blocks")


@pytest.mark.parametrize("progress", ["manual", "automatic"])
@pytest.mark.parametrize("waits_for", WAITS)
def test_d2_other_threads_go_on_while_one_waits(blocks, provider_environment, waits_for, progress):
    done = subprocess.run(
        [str(blocks), waits_for, progress], env=watched(provider_environment), capture_output=True, text=True,
        check=False, timeout=DEADLINE,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.long
def test_d2_other_threads_go_on_while_one_waits_on_rtl(blocks, provider_environment):
    for waits_for in ("a_counter", "a_wait_set"):
        subprocess.run(
            [str(blocks), waits_for, "automatic"], env=provider_environment | {"AMOEBA_DEVICE": "rtl"}, check=True,
            timeout=200,
        )  # fmt: skip
