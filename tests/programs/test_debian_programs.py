"""Programs of Debian's packages on Open MPI over libucp.so.0: hpcc, coarrays of Fortran, LAMMPS."""

import re
from pathlib import Path

import pytest

from tests.support.programs.commands import ON_ANY_MACHINE, run_counted

LONG = pytest.mark.long
INPUT = Path("/usr/share/doc/hpcc/examples/_hpccinf.txt")
SMALL = {"1000": "32", "80": "8", "2            Ps": "1            Ps"}
"""Lines of that input: a matrix of 32 x 32 in blocks of 8, on 1 x 2 processes; RandomAccess has 1,024 words then."""
COARRAYS = Path("/usr/lib/x86_64-linux-gnu/open-coarrays/openmpi/bin/OpenCoarrays-2.10.1-tests")
KINDS = {
    "atomics": {"writes", "atomics", "messages"},
    "strided_get": {"reads", "atomics", "messages"},
    "send_with_vector_index": {"writes", "atomics", "messages"},
    "teams_coarray_sendget": {"atomics", "messages"},
    "co_sum_test": {"atomics", "messages"},
}
"""Tests of OpenCoarrays, and the operations by which they communicate: a lock of a window is an atomic."""
LENNARD_JONES = """\
units lj
lattice fcc 0.8442
region box block 0 4 0 4 0 4
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
fix 1 all nve
thermo 10
run 20
"""
"""LAMMPS' benchmark of a Lennard-Jones liquid, with 256 atoms."""


@pytest.fixture
def run_ranks(commands_environment, needs_program):
    """Run a program on two ranks; gives its output, and the operations by kind that the NICs executed."""
    mpirun = needs_program("mpirun.openmpi", "openmpi-bin")

    def started(*command, timeout=120.0):
        arguments = [mpirun, "-n", "2", *command]
        ended, counts = run_counted("ucx-run", arguments, commands_environment | ON_ANY_MACHINE, timeout)
        assert (counts["nics"], counts["failed"], counts["warning"]) == (2, 0, None)
        return ended, counts["operations"]

    return started


@LONG
@pytest.mark.timeout(600)
def test_hpcc(run_ranks, needs_program, tmp_path, monkeypatch):
    """RandomAccess, HPL, PTRANS, FFT and the rings verify themselves; a long message is a read of its receiver's."""
    hpcc = needs_program("hpcc", "hpcc")
    text = INPUT.read_text()
    for old, new in SMALL.items():
        text, found = re.subn(rf"^{old}\b", new, text, count=1, flags=re.M)
        assert found, old
    (tmp_path / "hpccinf.txt").write_text(text)
    monkeypatch.chdir(tmp_path)
    _, operations = run_ranks(hpcc, timeout=550)
    said = (tmp_path / "hpccoutf.txt").read_text()
    lines = said.splitlines()
    for line in ("Success=1", "HPL_N=32", "MPIRandomAccess_LCG_ExeUpdates=4096", "MPIRandomAccess_ExeUpdates=4096"):
        assert line in lines, said
    for line in ("MPIRandomAccess_LCG_Errors=0", "MPIRandomAccess_Errors=0", "PTRANS_residual=0"):
        assert line in lines, said
    assert re.search(r"^\|\|Ax-b\|\|_oo/.*PASSED$", said, re.M), said
    assert "FAILED" not in said
    assert operations["messages"] >= 10_000
    assert operations["reads"] >= 500


@LONG
@pytest.mark.parametrize("test", KINDS)
def test_opencoarrays(run_ranks, test):
    """Its own tests, as the package has them compiled."""
    if not COARRAYS.is_dir():
        pytest.skip("no tests of OpenCoarrays: apt install libcoarrays-openmpi-dev")
    ended, operations = run_ranks(str(COARRAYS / test))
    assert "Test passed" in ended.output, ended
    assert {kind for kind, number in operations.items() if number} == KINDS[test]


@LONG
def test_lammps(run_ranks, needs_program, tmp_path):
    """Two ranks compute what one computes alone, to the last digit that is shown."""
    lmp = needs_program("lmp", "lammps")
    script = tmp_path / "in.lj"
    script.write_text(LENNARD_JONES)
    ended, operations = run_ranks(lmp, "-in", str(script), "-log", "none")
    rows = re.findall(r"^ +(?:0|10|20) +\S.*$", ended.output, re.M)
    assert [row.split() for row in rows] == [
        ["0", "1.44", "-6.7733681", "0", "-4.6218056", "-5.0244179"],
        ["10", "1.1298532", "-6.3095502", "0", "-4.6213906", "-2.6058175"],
        ["20", "0.6239063", "-5.557644", "0", "-4.6254403", "0.97451173"],
    ]
    assert operations["messages"] > 0
    assert operations["reads"] > 0
