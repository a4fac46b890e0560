"""Debian's kernel with vfio-pci and an IOMMU, in a virtual machine whose network cards are our NICs."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "vm"))
from machine import ADDRESSES, OutOfReachError, endpoints, run_guest  # noqa: E402  where scripts are found from now on

pytestmark = [pytest.mark.long, pytest.mark.ci, pytest.mark.timeout(900)]
SUPPORT = Path(__file__).parents[1] / "support"
FILES = {name: (SUPPORT / name).read_bytes() for name in ("type1_rules.py", "guest_checks.py")}
DEVICES = ",".join(f"pcie:{address}" for address in ADDRESSES)


def names_of_checks():
    source = FILES["guest_checks.py"].decode()
    return re.findall(r"^    (\w+),$", source[source.index("CHECKS = (") :], re.MULTILINE)


def run_with(kinds, command, folder, *options):
    """The output of a command in a guest. Skips with the reason where there can be no guest."""
    try:
        with endpoints(kinds, folder, *options) as sockets:
            guest = run_guest(command, sockets, files=FILES, timeout=600)
    except OutOfReachError as error:
        pytest.skip(f"no virtual machine: {error}")
    assert guest.status == 0, guest.output[-6000:]
    return guest.output


def telling(name, command):
    """A command whose last words on the console are told, and whether it succeeded."""
    return f"{command} > {name}.txt; status=$?; tail -n 30 {name}.txt; echo {name}: $status\n"


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """The results of the checks, the conformance kit and RandomAccess in a guest with two models."""
    command = "PYTHONPATH=$PYTHONPATH:/tmp python /tmp/guest_checks.py\n"
    command += telling("kit", f"amoeba conformance --device {DEVICES}")
    command += telling("gups", f"amoeba gups --device {DEVICES} --updates 256")
    return run_with(["model", "model"], command, tmp_path_factory.mktemp("vm")).splitlines()


@pytest.mark.parametrize("name", names_of_checks())
def test_a_kernel_shows(printed, name):
    assert f"ok {name}" in printed, "\n".join(printed[-100:])


@pytest.mark.parametrize("name", ["kit", "gups"])
def test_a_guest_runs(printed, name):
    assert f"{name}: 0" in printed, "\n".join(printed[-100:])


@pytest.mark.parametrize("kinds", ["rtl,rtl+pcie"])
def test_a_guest_drives_rtl_that_speaks_axi_and_packets(tmp_path, kinds):
    command = telling("kit", f"amoeba conformance --device {DEVICES} --page fi_rma --page fi_mr")
    command += telling("gups", f"amoeba gups --device {DEVICES} --updates 64")
    printed = run_with(kinds.split(","), command, tmp_path).splitlines()
    assert {"kit: 0", "gups: 0"} <= set(printed), "\n".join(printed[-100:])


def test_a_guest_loses_nothing_though_frames_are_lost(tmp_path):
    command = telling("soak", f"amoeba soak --device {DEVICES} --operations 200")
    printed = run_with(["model", "model"], command, tmp_path, "--loss", "0.02").splitlines()
    assert "soak: 0" in printed, "\n".join(printed[-100:])
