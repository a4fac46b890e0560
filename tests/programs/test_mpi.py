"""MPI over the provider: MPICH as PyPI has it, and Open MPI as Debian has it."""

import os
import sys

import pytest

from tests.support.programs.mpi import MPICH, OPEN_MPI, counted, run_mpi
from tests.support.programs.running import run

pytest.importorskip("mpi4py", reason="pip install '.[bench]'")
PARTS = ("collectives", "messages", "datatypes", "accumulates", "fetches", "swaps", "epochs", "dynamic")
MESSAGES = {"OMPI_MCA_pml": "cm", "OMPI_MCA_mtl": "ofi", "OMPI_MCA_mtl_ofi_provider_include": "amoeba"}
ONE_SIDED = MESSAGES | {"OMPI_MCA_btl": "self,ofi", "OMPI_MCA_btl_ofi_mode": "2", "OMPI_MCA_osc": "rdma"}
"""By btl/ofi; what is near goes by the host's memory otherwise."""
ON_RTL = {"AMOEBA_DEVICE": "rtl"}
LONG = pytest.mark.long
ON_BOTH = pytest.mark.parametrize("device", ["model", pytest.param("rtl", marks=LONG)])


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=LONG), pytest.param(8, marks=LONG)])
def test_mpich_does_everything(provider_environment, mpiexec, ranks):
    ended = run_mpi(mpiexec, ranks, provider_environment | MPICH)
    # nine operations or more as atomics, ten fetches of each rank: not as messages
    assert counted(ended, "ATOMIC_BEATS") >= 19 * ranks


@LONG
@pytest.mark.timeout(400)
def test_mpich_on_rtl(provider_environment, mpiexec):
    ended = run_mpi(mpiexec, 2, provider_environment | MPICH | ON_RTL, timeout=300)
    assert counted(ended, "ATOMIC_BEATS") >= 19 * 2


@pytest.mark.parametrize("part", ["accumulates", "fetches"])
def test_mpich_s_atomics_are_the_nic_s(provider_environment, mpiexec, part):
    """With the hint that says which operations come; without it MPICH takes messages."""
    assert counted(run_mpi(mpiexec, 2, provider_environment | MPICH, (part,)), "ATOMIC_BEATS") >= 18
    assert not counted(run_mpi(mpiexec, 2, provider_environment | MPICH, ("collectives",)), "ATOMIC_BEATS")


@ON_BOTH
@pytest.mark.timeout(400)
def test_open_mpi_s_messages(provider_environment, needs_program, device):
    mpirun = needs_program("mpirun.openmpi", "openmpi-bin")
    environment = provider_environment | OPEN_MPI | MESSAGES | {"AMOEBA_DEVICE": device}
    ended = run_mpi(mpirun, 2, environment, PARTS[:3], timeout=300)
    assert counted(ended, "MESSAGES_MATCHED") > 0
    assert not counted(ended, "ATOMIC_BEATS")


@LONG
@pytest.mark.parametrize("device", ["model", "rtl"])
@pytest.mark.timeout(400)
def test_open_mpi_s_one_sided_communication(provider_environment, needs_program, device):
    """``swaps`` is not: Open MPI 4.1.4 crashes, with any provider."""
    mpirun = needs_program("mpirun.openmpi", "openmpi-bin")
    environment = provider_environment | OPEN_MPI | ONE_SIDED | {"AMOEBA_DEVICE": device}
    ended = run_mpi(mpirun, 2, environment, ("fetches", "epochs"), timeout=300)
    assert counted(ended, "MESSAGES_MATCHED") > 0
    assert counted(ended, "ATOMIC_BEATS") >= 10  # the fetches of the other rank than the one that has the window


def test_nothing_is_left_of_a_rank_that_is_killed(provider_environment, mpiexec, tmp_path):
    program = tmp_path / "killed.py"
    program.write_text(
        "import os, signal\nfrom mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\n"
        "if MPI.COMM_WORLD.rank: os.kill(os.getpid(), signal.SIGKILL)\nMPI.COMM_WORLD.Barrier()\n"
    )
    ended = run([mpiexec, "-n", "2", sys.executable, str(program)], provider_environment | MPICH, 60)
    assert ended.status not in (0, None), ended
    assert not os.path.exists("core")
