"""MPI over the provider: MPICH as PyPI has it, and Open MPI as Debian has it."""

import os
import re
import sys
from pathlib import Path

import pytest
from support.programs.running import run

pytest.importorskip("mpi4py", reason="pip install amoeba-nic[bench]")
PROGRAM = Path(__file__).with_name("mpi_program.py")
BESIDE_PYTHON = Path(sys.executable).parent
PARTS = ("collectives", "messages", "datatypes", "accumulates", "fetches", "swaps", "epochs", "dynamic")
MPICH = {
    "MPIR_CVAR_CH4_NETMOD": "ofi",
    "MPIR_CVAR_NOLOCAL": "1",  # else ranks of one host meet in its memory
    "MPIR_CVAR_OFI_USE_PROVIDER": "amoeba",
    "AMOEBA_LOG": "amoeba.nic=debug",
}
OPEN_MPI = {
    "MPI4PY_MPIABI": "openmpi",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_plm_rsh_agent": "true",  # which it insists upon, and needs for other hosts only
    "OMPI_MCA_pml": "cm",
    "OMPI_MCA_mtl": "ofi",
    "OMPI_MCA_mtl_ofi_provider_include": "amoeba",
    "OMPI_MCA_btl": "self",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "AMOEBA_LOG": "amoeba.nic=debug",
}
LONG = pytest.mark.long


@pytest.fixture
def mpiexec():
    """MPICH's, of the wheel beside this Python."""
    found = BESIDE_PYTHON / "mpiexec"
    if not found.exists():
        pytest.skip("no mpiexec beside Python: pip install amoeba-nic[bench]")
    return str(found)


def counted(ended, counter):
    """What the NICs of all ranks have counted."""
    return sum(map(int, re.findall(rf"'{counter}': (\d+)", ended.output)))


def run_mpi(launcher, ranks, environment, parts=(), timeout=120):
    ended = run([launcher, "-n", str(ranks), sys.executable, str(PROGRAM), *parts], environment, timeout)
    assert ended.status == 0, ended
    assert ended.output.count("right\n") == 1, ended
    assert ended.output.count("counted by") == ranks, ended  # every rank had a NIC, and gave it back
    return ended


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=LONG), pytest.param(8, marks=LONG)])
def test_mpich_does_everything(provider_environment, mpiexec, ranks):
    ended = run_mpi(mpiexec, ranks, provider_environment | MPICH)
    # nine operations or more as atomics, ten fetches of each rank: not as messages
    assert counted(ended, "ATOMIC_BEATS") >= 19 * ranks


@LONG
@pytest.mark.timeout(400)
def test_mpich_on_rtl(provider_environment, mpiexec):
    ended = run_mpi(mpiexec, 2, provider_environment | MPICH | {"AMOEBA_DEVICE": "rtl"}, timeout=300)
    assert counted(ended, "ATOMIC_BEATS") >= 19 * 2


@pytest.mark.parametrize("part", ["accumulates", "fetches"])
def test_mpich_s_atomics_are_the_nic_s(provider_environment, mpiexec, part):
    """With the hint that says which operations come; without it MPICH takes messages."""
    assert counted(run_mpi(mpiexec, 2, provider_environment | MPICH, (part,)), "ATOMIC_BEATS") >= 18
    assert not counted(run_mpi(mpiexec, 2, provider_environment | MPICH, ("collectives",)), "ATOMIC_BEATS")


@pytest.mark.parametrize("part", PARTS[:3])
def test_open_mpi_s_messages(provider_environment, needs_program, part):
    mpirun = needs_program("mpirun.openmpi", "openmpi-bin")
    ended = run_mpi(mpirun, 2, provider_environment | OPEN_MPI, (part,))
    assert counted(ended, "MESSAGES_MATCHED") > 0


@LONG
@pytest.mark.parametrize("part", ["fetches", "epochs"])  # swaps: Open MPI 4.1.4 crashes, with any provider
def test_open_mpi_s_one_sided_communication(provider_environment, needs_program, part):
    """By btl/ofi; what is near goes by the host's memory otherwise."""
    mpirun = needs_program("mpirun.openmpi", "openmpi-bin")
    one_sided = {"OMPI_MCA_btl": "self,ofi", "OMPI_MCA_btl_ofi_mode": "2", "OMPI_MCA_osc": "rdma"}
    ended = run_mpi(mpirun, 2, provider_environment | OPEN_MPI | one_sided, (part,))
    assert counted(ended, "ATOMIC_BEATS" if part == "fetches" else "MESSAGES_MATCHED") > 0


def test_nothing_is_left_of_a_rank_that_is_killed(provider_environment, mpiexec, tmp_path):
    program = tmp_path / "killed.py"
    program.write_text(
        "import os, signal\nfrom mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\n"
        "if MPI.COMM_WORLD.rank: os.kill(os.getpid(), signal.SIGKILL)\nMPI.COMM_WORLD.Barrier()\n"
    )
    ended = run([mpiexec, "-n", "2", sys.executable, str(program)], provider_environment | MPICH, 60)
    assert ended.status not in (0, None), ended
    assert not os.path.exists("core")
