"""Calls that wait in one thread: all other threads go on, with manual and automatic progress."""

import subprocess

import pytest

from tests.support.programs.fixtures import watched

DEADLINE = 90
"""Seconds: a thread that holds up the others does so for ever."""
WAITS = ("a_counter", "a_failure", "a_wait_set", "an_event", "a_completion", "nothing")


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
