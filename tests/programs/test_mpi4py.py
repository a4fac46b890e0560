"""mpi4py's own tests of messages and one-sided communication: over the provider, and over libucp.so.0."""

import re
import sys
from pathlib import Path

import pytest

from tests.support.programs.missing import MissingError
from tests.support.programs.mpi import MPICH, run_ranks
from tests.support.programs.mpi4py_suite import mpi4py_tests

pytest.importorskip("mpi4py", reason="pip install '.[bench]'")
PROGRAM = Path(__file__).with_name("mpi4py_program.py")
MODULES = {"messages": ("p2p", 100), "one_sided": ("rma|win", 100)}
"""Names of modules, and how many tests there are at least."""


@pytest.fixture(scope="session")
def suite():
    try:
        return mpi4py_tests()
    except MissingError as missing:
        pytest.skip(str(missing))


def check(suite, launcher, environment, part):
    modules, least = MODULES[part]
    command = [sys.executable, str(PROGRAM), str(suite), "-v", "-i", f"test_({modules})"]
    ended = run_ranks(launcher, 2, command, environment, timeout=550)  # with a clean exit
    ran = [int(count) for count in re.findall(r"^Ran (\d+) tests in", ended.output, re.M)]
    assert len(ran) == 2, ended
    assert ran[0] == ran[1] >= least, ended
    assert len(re.findall(r"^OK\b", ended.output, re.M)) == 2, ended


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", MODULES)
def test_over_the_provider(suite, provider_environment, mpiexec, part):
    check(suite, mpiexec, provider_environment | MPICH, part)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", MODULES)
def test_over_libucp(suite, debian_mpich_environment, debian_mpiexec, part):
    check(suite, debian_mpiexec, debian_mpich_environment, part)
