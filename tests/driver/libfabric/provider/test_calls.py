"""libfabric's calls from C, right and wrong: statuses, no crashes, nothing written beyond the arguments.

Covers ``libfabric/provider/deferred.py``, ``libfabric/provider/fids.py``, ``libfabric/provider/getinfo.py``,
``libfabric/provider/infos.py``, ``libfabric/provider/lifecycle.py``, ``libfabric/provider/objects.py``,
``libfabric/provider/process.py``, ``libfabric/provider/provider.py``, ``libfabric/provider/queues.py``,
``libfabric/provider/transfers.py``, ``libfabric/provider/triggers.py``, ``libfabric/provider/addresses.py`` and
``libfabric/provider/sockaddr.py``.
"""

import re
from pathlib import Path

import pytest

LONG = {"opened_and_closed_often"}
TESTS = re.findall(r"^static void test_(\w+)\(void\)", (Path(__file__).parent / "calls.c").read_text(), re.M)


@pytest.mark.parametrize(
    "test", [pytest.param(name, marks=pytest.mark.long if name in LONG else ()) for name in TESTS]
)
def test_calls(run_calls, test):
    run_calls(test, timeout=200)


@pytest.mark.long
def test_calls_on_rtl(run_calls):
    """The calls that work on the model, and those that it refuses, on the hardware."""
    for test in ("everything_works", "failures_are_completions_with_errors", "absurd_numbers"):
        run_calls(test, timeout=200, AMOEBA_DEVICE="rtl")


def test_every_test_of_the_program_is_run(calls, provider_environment):
    import subprocess

    listed = subprocess.run([str(calls)], env=provider_environment, capture_output=True, text=True, check=True).stdout
    assert listed.split() == TESTS
