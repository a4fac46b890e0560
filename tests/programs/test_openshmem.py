"""OpenSHMEM: Open MPI's, as Debian has it, over libucp.so.0, and Sandia's, where it is, over the provider.

Sandia's is in no archive of packages. ``SOS_PREFIX`` says where it was installed, from its sources by ``./configure
--with-ofi=/usr --enable-pmi-simple --disable-fortran``.
"""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.programs.missing import MissingError, compiler
from tests.support.programs.mpi import COUNTING, OPEN_MPI_OVER_UCX, counted, run_ranks

PROGRAM = Path(__file__).with_name("shmem_program.c")
ATOMICS = 100
"""Of each rank at least."""
LONG = pytest.mark.long
SIZES = pytest.mark.parametrize(
    ("ranks", "device"), [(2, "model"), pytest.param(4, "model", marks=LONG), pytest.param(2, "rtl", marks=LONG)]
)
HEAP = {"SHMEM_SYMMETRIC_SIZE": "4M"}
OPEN_MPI = OPEN_MPI_OVER_UCX | HEAP | {"OMPI_MCA_spml": "ucx", "OMPI_MCA_atomic": "ucx"}
SANDIA = HEAP | COUNTING | {"SHMEM_OFI_PROVIDER": "amoeba"}


def compiled(folder, *command):
    """The program. ``command``: a compiler, and what it is to link with."""
    program = folder / "program"
    done = subprocess.run(
        [*command, "-Wall", str(PROGRAM), "-o", str(program)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return str(program)


@pytest.fixture(scope="session")
def over_open_mpi(tmp_path_factory):
    """Linked with the library as it is: its headers are not needed."""
    try:
        cc = compiler("stdio.h", "libc6-dev")
    except MissingError as missing:
        pytest.skip(str(missing))
    folder = tmp_path_factory.mktemp("shmem")
    library = subprocess.run([cc, "-print-file-name=liboshmem.so.40"], capture_output=True, text=True).stdout.strip()
    if not os.path.isabs(library):
        pytest.skip("no liboshmem.so.40: apt install libopenmpi3")
    # comparing and swapping 4 bytes, Open MPI 4.1.4 writes 8 where it has 4, over UCX's own library as well
    return compiled(folder, cc, "-DLEAST_SWAPPED=8", "-Wl,--no-as-needed", library, "-l:libmpi.so.40")


def check(launcher, ranks, program, environment):
    ended = run_ranks(launcher, ranks, [program], environment, timeout=300)
    assert ended.output.count("every part is right") == 1, ended
    assert counted(ended, "ATOMIC_BEATS") >= ranks * ATOMICS


@pytest.mark.timeout(400)
@SIZES
def test_open_mpi_s_over_libucp(libucp_environment, needs_program, over_open_mpi, ranks, device):
    oshrun = needs_program("oshrun", "openmpi-bin")
    check(oshrun, ranks, over_open_mpi, libucp_environment | OPEN_MPI | {"AMOEBA_DEVICE": device})


@pytest.mark.timeout(400)
@SIZES
def test_sandia_s_over_the_provider(provider_environment, mpiexec, tmp_path, ranks, device):
    prefix = os.environ.get("SOS_PREFIX")
    if prefix is None:
        pytest.skip("no Sandia OpenSHMEM: SOS_PREFIX says where it was installed")
    program = compiled(tmp_path, str(Path(prefix, "bin", "oshcc")))
    check(mpiexec, ranks, program, provider_environment | SANDIA | {"AMOEBA_DEVICE": device})
