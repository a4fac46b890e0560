"""MPI and OpenSHMEM over libucp.so.0: MPICH and Open MPI as Debian has them."""

import os
from pathlib import Path

import pytest
from support.programs.missing import MissingError
from support.programs.mpi import DEBIAN_MPICH, OPEN_MPI, counted, debian_mpich, run_mpi, run_ranks

LONG = pytest.mark.long
OVER_UCX = OPEN_MPI | {
    "OMPI_MCA_pml": "ucx",
    "OMPI_MCA_osc": "ucx",
    "OMPI_MCA_spml": "ucx",
    "OMPI_MCA_atomic": "ucx",
    "OMPI_MCA_pml_ucx_tls": "any",  # else it is content with devices of its list alone
    "OMPI_MCA_pml_ucx_devices": "any",
    "SHMEM_SYMMETRIC_SIZE": "4M",
}
ON_RTL = {"AMOEBA_DEVICE": "rtl"}
SHMEM = Path(__file__).with_name("shmem_program.c")
SHMEM_ATOMICS = 100
"""At least so many of each rank, of ``shmem_program.c``."""


@pytest.fixture(scope="session")
def mpich(libucp_environment, tmp_path_factory):
    """Environment of a program in Python over Debian's MPICH."""
    pytest.importorskip("mpi4py", reason="pip install amoeba-nic[bench]")
    try:
        folder = debian_mpich(tmp_path_factory.mktemp("mpich"))
    except MissingError as missing:
        pytest.skip(str(missing))
    paths = os.pathsep.join([libucp_environment["LD_LIBRARY_PATH"], str(folder)])
    return libucp_environment | DEBIAN_MPICH | {"LD_LIBRARY_PATH": paths}


@pytest.fixture
def mpiexec(needs_program):
    return needs_program("mpiexec.mpich", "mpich")


@pytest.fixture
def mpirun(needs_program):
    pytest.importorskip("mpi4py", reason="pip install amoeba-nic[bench]")
    return needs_program("mpirun.openmpi", "openmpi-bin")


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=LONG), pytest.param(8, marks=LONG)])
def test_mpich_does_everything(mpich, mpiexec, ranks):
    """Its ch4:ucx has messages for all accumulates, and the NIC's writes and reads for the rest."""
    assert counted(run_mpi(mpiexec, ranks, mpich), "MESSAGES_MATCHED") > 0


@LONG
@pytest.mark.timeout(400)
def test_mpich_on_rtl(mpich, mpiexec):
    run_mpi(mpiexec, 2, mpich | ON_RTL, timeout=300)


def test_open_mpi_does_everything_by_the_nic_s_atomics(libucp_environment, mpirun):
    """More than accumulates' locks, of which there is one for each: fetches and swaps are the NIC's themselves."""
    ended = run_mpi(mpirun, 2, libucp_environment | OVER_UCX)
    assert counted(ended, "MESSAGES_MATCHED") > 0
    fetched = run_mpi(mpirun, 2, libucp_environment | OVER_UCX, ("fetches",))
    assert counted(fetched, "ATOMIC_BEATS") >= 20 + 4
    messages = run_mpi(mpirun, 2, libucp_environment | OVER_UCX, ("messages",))
    assert not counted(messages, "ATOMIC_BEATS")


@LONG
@pytest.mark.timeout(400)
def test_open_mpi_on_rtl(libucp_environment, mpirun):
    ended = run_mpi(mpirun, 2, libucp_environment | OVER_UCX | ON_RTL, timeout=300)
    assert counted(ended, "ATOMIC_BEATS") >= 20


@pytest.fixture(scope="session")
def shmem_program(tmp_path_factory):
    """OpenSHMEM's program, linked with Open MPI's library: its headers are not needed."""
    import subprocess

    from support.programs.missing import compiler

    try:
        cc = compiler("stdio.h", "libc6-dev")
    except MissingError as missing:
        pytest.skip(str(missing))
    program = tmp_path_factory.mktemp("shmem") / "program"
    libraries = ["-l:liboshmem.so.40", "-l:libmpi.so.40"]
    done = subprocess.run([cc, "-Wall", str(SHMEM), "-o", str(program), *libraries], capture_output=True, text=True)
    if "cannot find -l:lib" in done.stderr:
        pytest.skip("no liboshmem.so.40: apt install libopenmpi3")
    assert done.returncode == 0, done.stderr
    return str(program)


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("ranks", "device"), [(2, "model"), pytest.param(4, "model", marks=LONG), pytest.param(2, "rtl", marks=LONG)]
)
def test_openshmem_s_puts_gets_and_atomics(libucp_environment, needs_program, shmem_program, ranks, device):
    environment = libucp_environment | OVER_UCX | {"AMOEBA_DEVICE": device}
    oshrun = needs_program("oshrun", "openmpi-bin")
    ended = run_ranks(oshrun, ranks, [shmem_program], environment, timeout=300)
    assert ended.output.count("right\n") == 1, ended
    assert counted(ended, "ATOMIC_BEATS") >= ranks * SHMEM_ATOMICS
