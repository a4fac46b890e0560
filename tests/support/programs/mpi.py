"""MPI programs in Python, on either MPI: how they are run, and what the NICs of their ranks have counted."""

import ctypes
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.programs.missing import MissingError
from tests.support.programs.running import Ended, run

__all__ = [
    "COUNTING",
    "DEBIAN_MPICH",
    "MPICH",
    "OPEN_MPI",
    "OPEN_MPI_OVER_UCX",
    "counted",
    "debian_mpich",
    "run_mpi",
    "run_ranks",
]

COUNTING = {"AMOEBA_LOG": "amoeba.nic=debug"}
"""NICs say what they have counted when they are closed."""
MPICH = {
    "MPIR_CVAR_CH4_NETMOD": "ofi",
    "MPIR_CVAR_NOLOCAL": "1",  # else ranks of one host meet in its memory
} | COUNTING
"""PyPI's, over libfabric."""
DEBIAN_MPICH = {"MPI4PY_MPIABI": "mpich", "MPIR_CVAR_NOLOCAL": "1"} | COUNTING
"""Over UCX, whatever is asked for."""
OPEN_MPI = {
    "MPI4PY_MPIABI": "openmpi",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_plm_rsh_agent": "true",  # which it insists upon, and needs for other hosts only
    "OMPI_MCA_btl": "self",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
} | COUNTING
"""The name of the MPI library, over any transport."""
OPEN_MPI_OVER_UCX = OPEN_MPI | {
    "OMPI_MCA_pml": "ucx",
    "OMPI_MCA_osc": "ucx",
    "OMPI_MCA_pml_ucx_tls": "any",  # else it is content with devices of its list alone
    "OMPI_MCA_pml_ucx_devices": "any",
    "OMPI_MCA_osc_ucx_acc_single_intrinsic": "1",  # accumulates of one number are UCX's atomics
}
_PROGRAM = Path(__file__).resolve().parents[2] / "programs" / "mpi_program.py"


def counted(ended: Ended, counter: str) -> int:
    """The counts of the NICs of all ranks."""
    return sum(map(int, re.findall(rf"'{counter}': (\d+)", ended.output)))


def run_ranks(
    launcher: str, ranks: int, command: Sequence[str], environment: Mapping[str, str], timeout: float = 120.0
) -> Ended:
    """Run a command on so many ranks, each of which must have a NIC of its own, and give it back."""
    ended = run([launcher, "-n", str(ranks), *command], environment, timeout)
    assert ended.status == 0, ended
    assert ended.output.count("counted by") == ranks, ended
    return ended


def run_mpi(
    launcher: str,
    ranks: int,
    environment: Mapping[str, str],
    parts: Sequence[str] = (),
    timeout: float = 120.0,
) -> Ended:
    """Run these parts of ``mpi_program.py``; all of them, if none is named."""
    ended = run_ranks(launcher, ranks, [sys.executable, str(_PROGRAM), *parts], environment, timeout)
    # its newline may be a write of its own, and what another rank logs come before it
    assert ended.output.count("every part is right") == 1, ended
    return ended


def debian_mpich(folder: Path) -> Path:
    """``folder``, with Debian's MPICH under the name that mpi4py's wheel looks for. Raises MissingError."""
    try:
        ctypes.CDLL("libmpich.so.12", mode=ctypes.RTLD_LOCAL)
    except OSError as error:
        raise MissingError("no libmpich.so.12: apt install mpich") from error
    loaded = re.search(r"/\S*/libmpich\.so\.12\S*", Path("/proc/self/maps").read_text())
    assert loaded is not None
    (folder / "libmpi.so.12").symlink_to(loaded[0])
    return folder
