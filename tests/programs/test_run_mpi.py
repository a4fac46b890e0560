"""MPI programs under ``amoeba fi-run`` and ``ucx-run``, without a setting of the user's: on NICs, and told of."""

import os
import sys
from pathlib import Path

import pytest

from tests.support.programs.commands import ON_ANY_MACHINE, run_counted
from tests.support.programs.mpi import DEBIAN_MPICH

pytest.importorskip("mpi4py", reason="pip install '.[bench]'")
ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("mpi_program.py")
LONG = pytest.mark.long
HERE = ON_ANY_MACHINE | {"MPI4PY_MPIABI": "openmpi"}

@pytest.fixture
def environment(commands_environment):
    return commands_environment


def counts_of(command, environment, *options, parts=("collectives",)):
    """The last lines of ``amoeba COMMAND mpiexec -n 2 ./program``."""
    ended, counts = run_counted(command, [*options, "-n", "2", sys.executable, str(PROGRAM), *parts], environment)
    assert "every part is right" in ended.output, ended
    return counts


def check(counts, ranks=2):
    assert (counts["nics"], counts["warning"]) == (ranks, None)
    assert all(each["messages"] for each in counts["processes"])


@pytest.mark.parametrize("device", ["model", pytest.param("rtl", marks=LONG)])
def test_mpich_over_libfabric(environment, mpiexec, device):
    check(counts_of("fi-run", environment, "--device", device, mpiexec))


def test_the_program_that_the_readme_starts(environment, mpiexec):
    assert "`amoeba fi-run mpiexec -n 4 python examples/mpi/hash_table.py`" in (ROOT / "README.md").read_text()
    program = ROOT / "examples" / "mpi" / "hash_table.py"
    ended, counts = run_counted("fi-run", [mpiexec, "-n", "4", sys.executable, str(program)], environment)
    assert "[15, 15, 15, 15]" in ended.output, ended
    check(counts, ranks=4)


def test_mpich_over_ucx_as_pypi_has_it(environment, mpiexec):
    check(counts_of("ucx-run", environment, mpiexec))


def test_open_mpi_over_libfabric(environment, needs_program):
    check(counts_of("fi-run", environment | HERE, needs_program("mpirun.openmpi", "openmpi-bin")))


def test_open_mpi_over_ucx(environment, needs_program):
    mpirun = needs_program("mpirun.openmpi", "openmpi-bin")
    counts = counts_of("ucx-run", environment | HERE, mpirun, parts=("fetches",))
    check(counts)
    assert counts["operations"]["atomics"] >= 20


def test_mpich_over_ucx_as_debian_has_it(environment, debian_mpich_environment, debian_mpiexec):
    paths = debian_mpich_environment["LD_LIBRARY_PATH"].split(os.pathsep)[1:]
    own = {"MPI4PY_MPIABI": DEBIAN_MPICH["MPI4PY_MPIABI"], "LD_LIBRARY_PATH": os.pathsep.join(paths)}
    check(counts_of("ucx-run", environment | own, debian_mpiexec))


def test_a4_an_mpi_that_the_user_keeps_off_the_nics_is_warned_of(environment, mpiexec, needs_program):
    own = counts_of("fi-run", environment | {"MPIR_CVAR_NOLOCAL": "0"}, mpiexec)
    assert (own["nics"], own["warning"]) == (2, "2 processes opened 2 NICs (model), but the NICs executed nothing")
    mpirun = needs_program("mpirun.openmpi", "openmpi-bin")
    switched = counts_of("fi-run", environment | HERE, mpirun, "--mca", "pml", "ob1", "--mca", "btl", "self,tcp")
    assert switched["nics"] == 0
    assert switched["warning"].startswith("no NIC was opened")
