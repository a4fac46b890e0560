"""Programs of others, unchanged, on Amoeba's NICs."""

import os
import sys
from pathlib import Path

import pytest

from tests.support.programs.fixtures import (
    commands_environment,
    headers,
    host,
    libucp_environment,
    needs_program,
    provider_environment,
)
from tests.support.programs.missing import MissingError
from tests.support.programs.mpi import DEBIAN_MPICH, debian_mpich

pytest.importorskip("cffi", reason="libraries for C programs need the extra amoeba-nic[c]")

__all__ = ["commands_environment", "headers", "host", "libucp_environment", "needs_program", "provider_environment"]


@pytest.fixture
def mpiexec():
    """PyPI's MPICH, of the wheel beside this Python."""
    found = Path(sys.executable).with_name("mpiexec")
    if not found.exists():
        pytest.skip("no mpiexec beside Python: pip install '.[bench]'")
    return str(found)


@pytest.fixture
def debian_mpiexec(needs_program):
    return needs_program("mpiexec.mpich", "mpich")


@pytest.fixture(scope="session")
def debian_mpich_environment(libucp_environment, tmp_path_factory):
    """Of a program in Python over Debian's MPICH, and that over libucp.so.0."""
    pytest.importorskip("mpi4py", reason="pip install '.[bench]'")
    try:
        folder = debian_mpich(tmp_path_factory.mktemp("mpich"))
    except MissingError as missing:
        pytest.skip(str(missing))
    paths = os.pathsep.join([libucp_environment["LD_LIBRARY_PATH"], str(folder)])
    return libucp_environment | DEBIAN_MPICH | {"LD_LIBRARY_PATH": paths}
