"""Debian's kernel with vfio-pci and an IOMMU, in a virtual machine whose network cards are our NICs."""

import contextlib
import re
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from amoeba.devices import endpoint
from amoeba.devices.devices import open_device
from amoeba_model.parameters import BUILDS, NicParameters

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "vm"))
from machine import ADDRESSES, OutOfReachError, endpoints, run_guest  # noqa: E402  where scripts are found from now on

SECONDS = 1500
"""Of a guest on a slow machine that does other work, too."""
pytestmark = [pytest.mark.long, pytest.mark.timeout(SECONDS + 300)]
SUPPORT = Path(__file__).parents[1] / "support"
FILES = {name: (SUPPORT / name).read_bytes() for name in ("type1_rules.py", "guest_checks.py")}
DEVICES = ",".join(f"pcie:{address}" for address in ADDRESSES)


def names_of_checks():
    source = FILES["guest_checks.py"].decode()
    return re.findall(r"^    (\w+),$", source[source.index("CHECKS = (") :], re.MULTILINE)


RTL = {
    "rtl": BUILDS["full"],
    "rtl+pcie": replace(BUILDS["tiny"], contexts=4, payload=BUILDS["full"].payload),
}
"""Builds: on AXI the one that other tests have, on PCI Express the smallest that the pages need. Both divide messages
alike."""


@contextlib.contextmanager
def endpoints_of(
    builds: Mapping[str, NicParameters], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[Path]]:
    """Sockets of a NIC of each kind, each with parameters of its own."""
    monkeypatch.setattr(endpoint, "open_device", lambda kind, _: open_device(kind, builds[kind]))
    with endpoint.open_endpoints(list(builds), folder) as server, ThreadPoolExecutor(1) as pool:
        serving = pool.submit(server.run)
        try:
            yield list(server.paths)
        finally:
            server.stop()
            serving.result()


def run_with(serving, command):
    """The output of a command in a guest. Skips with the reason where there can be no guest."""
    try:
        with serving as sockets:
            guest = run_guest(command, sockets, files=FILES, timeout=SECONDS)
    except OutOfReachError as error:
        pytest.skip(f"no virtual machine: {error}")
    assert guest.status == 0, guest.output[-6000:]
    return guest.output


def telling(name, command):
    """A command whose last words on the console are told, and whether it succeeded."""
    return f"{command} > {name}.txt; status=$?; tail -n 30 {name}.txt; echo {name}: $status\n"


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """The results of the checks, a part of the conformance kit and RandomAccess in a guest with two models.

    The kit's pages are those that the kernel has a part in: memory, its registration, and waiting.
    """
    command = "PYTHONPATH=$PYTHONPATH:/tmp python /tmp/guest_checks.py\n"
    command += telling("kit", f"amoeba conformance --device {DEVICES} --page fi_rma --page fi_mr --page fi_cq")
    command += telling("gups", f"amoeba gups --device {DEVICES} --updates 256")
    return run_with(endpoints(["model", "model"], tmp_path_factory.mktemp("vm")), command).splitlines()


@pytest.mark.ci
@pytest.mark.parametrize("name", names_of_checks())
def test_a_kernel_shows(printed, name):
    assert f"ok {name}" in printed, "\n".join(printed[-100:])


@pytest.mark.ci
@pytest.mark.parametrize("name", ["kit", "gups"])
def test_a_guest_runs(printed, name):
    assert f"{name}: 0" in printed, "\n".join(printed[-100:])


def test_a_guest_runs_the_whole_kit(tmp_path):
    command = telling("kit", f"amoeba conformance --device {DEVICES}")
    printed = run_with(endpoints(["model", "model"], tmp_path), command).splitlines()
    assert "kit: 0" in printed, "\n".join(printed[-100:])


@pytest.mark.ci
@pytest.mark.parametrize("builds", [RTL], ids=["rtl"])  # by this name the first of them is built before the test
def test_a_guest_drives_rtl_that_speaks_axi_and_packets(monkeypatch, tmp_path, builds):
    command = telling("kit", f"amoeba conformance --device {DEVICES} --page fi_rma --page fi_mr")
    command += telling("gups", f"amoeba gups --device {DEVICES} --updates 64")
    printed = run_with(endpoints_of(builds, tmp_path, monkeypatch), command).splitlines()
    assert {"kit: 0", "gups: 0"} <= set(printed), "\n".join(printed[-100:])


def test_a_guest_loses_nothing_though_frames_are_lost(tmp_path):
    command = telling("soak", f"amoeba soak --device {DEVICES} --operations 200")
    printed = run_with(endpoints(["model", "model"], tmp_path, "--loss", "0.02"), command).splitlines()
    assert "soak: 0" in printed, "\n".join(printed[-100:])
