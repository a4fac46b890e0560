"""MPI over libucp.so.0: MPICH and Open MPI as Debian has them."""

import pytest

from tests.support.programs.mpi import OPEN_MPI_OVER_UCX, counted, run_mpi

LONG = pytest.mark.long
ON_RTL = {"AMOEBA_DEVICE": "rtl"}


@pytest.fixture
def mpirun(needs_program):
    pytest.importorskip("mpi4py", reason="pip install '.[bench]'")
    return needs_program("mpirun.openmpi", "openmpi-bin")


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=LONG), pytest.param(8, marks=LONG)])
def test_mpich_does_everything(debian_mpich_environment, debian_mpiexec, ranks):
    """Its ch4:ucx has messages for all accumulates, and the NIC's writes and reads for the rest."""
    assert counted(run_mpi(debian_mpiexec, ranks, debian_mpich_environment), "MESSAGES_MATCHED") > 0


@LONG
@pytest.mark.timeout(400)
def test_mpich_on_rtl(debian_mpich_environment, debian_mpiexec):
    run_mpi(debian_mpiexec, 2, debian_mpich_environment | ON_RTL, timeout=300)


@pytest.mark.parametrize(("part", "least"), [("accumulates", 20), ("fetches", 20), ("swaps", 12)])
def test_open_mpi_s_atomics_are_the_nic_s(libucp_environment, mpirun, part, least):
    ended = run_mpi(mpirun, 2, libucp_environment | OPEN_MPI_OVER_UCX, (part,))
    assert counted(ended, "ATOMIC_BEATS") >= least


def test_open_mpi_does_everything(libucp_environment, mpirun):
    """By messages what messages are for, and the NIC counts no atomics then."""
    run_mpi(mpirun, 2, libucp_environment | OPEN_MPI_OVER_UCX)
    messages = run_mpi(mpirun, 2, libucp_environment | OPEN_MPI_OVER_UCX, ("collectives", "messages"))
    assert counted(messages, "MESSAGES_MATCHED") > 0
    assert not counted(messages, "ATOMIC_BEATS")


@LONG
@pytest.mark.timeout(400)
def test_open_mpi_on_rtl(libucp_environment, mpirun):
    ended = run_mpi(mpirun, 2, libucp_environment | OPEN_MPI_OVER_UCX | ON_RTL, timeout=300)
    assert counted(ended, "ATOMIC_BEATS") >= 20
