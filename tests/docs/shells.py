"""Blocks of shell commands on the pages: how each is run, and the few that are not, with the reason."""

__all__ = ["ABSENT", "CONCURRENT", "ENDLESS", "FILES", "LONG", "PARTNERS", "SHORTENED"]

_INSTALLS = "installs packages: CI's own first step does that, from the same files"
_CLUSTER = "needs a dask cluster: tests/tools/test_spread_cluster.py starts one"
_MPI = "needs a compiled MPI program: tests/programs runs several"
_MACHINE = "boots a virtual machine: tests/system/test_virtual_machine.py, one of the long tests, does that"
_PCI = "needs a NIC in a PCIe slot: tests/system/test_virtual_machine.py runs it in a virtual machine"
_VIEWER = "opens a window: tests/sim/test_rtl_waveforms.py reads waveforms by GTKWave's own reader"

ABSENT = {
    "python3 -m venv .venv": _INSTALLS,
    ".venv/bin/pip install .": _INSTALLS,
    "source .venv/bin/activate": _INSTALLS,
    "pip install": _INSTALLS,
    "amoeba soak --loss 0.05 --runs 1000 --scheduler": _CLUSTER,
    "amoeba conformance --device rtl --scheduler": _CLUSTER,
    "amoeba fi-run --device rtl mpiexec": _MPI,
    "amoeba fi-run --device model mpiexec": _MPI,
    "amoeba ucx-run --device rtl -n 2 ./program": _MPI,
    "amoeba ucx-run mpiexec.mpich": _MPI,
    "amoeba ucx-run env LD_PRELOAD": "its path depends on the machine; tests/programs/test_wheels.py preloads libucp",
    "python scripts/vm": _MACHINE,
    "make vm-test": _MACHINE,
    "qemu-system-x86_64": _MACHINE,
    "amoeba pcie": _PCI,
    "amoeba info -v --device pcie:": _PCI,
    "amoeba gups --device pcie:": _PCI,
    "gtkwave": _VIEWER,
    "surfer": _VIEWER,
}
"""Beginnings of commands that are not run, with the reason; at most 20."""

SHORTENED = {
    "--runs 1000": "--runs 4",
    "--seconds 60": "--seconds 2",
    "--device rtl --jobs 8": "--device rtl --jobs 8 --cells SUM/INT64",
}
"""Counts that only take time; the README's command replays all recorded vectors on RTL."""

LONG = {
    "amoeba explore": "builds a NIC for each size",
    "amoeba conformance --device rtl": "all pages on RTL: tests/tools/conformance runs each in CI",
    "amoeba conformance --device model,rtl": "as above",
    "amoeba trace --device rtl --pcapng atomic.pcapng --vcd": "builds a NIC that writes waveforms",
    "amoeba trace --device rtl --vcd": "as above",
    "amoeba trace --device rtl --fst": "as above",
}
"""Beginnings of commands that take minutes, with the reason: only the long tests run them."""

CONCURRENT = ("amoeba gups --listen", "AMOEBA_HOST=127.0.0.2 amoeba gups --network uet --listen", "amoeba perf$")
"""Commands that go on beside the commands after them, and end with the last of them. ``$``: without options."""

ENDLESS = {"amoeba endpoint": "serving "}
"""Commands that serve until Ctrl-C, with the line that they print once they serve."""

PARTNERS = {
    "amoeba conformance --listen": "amoeba conformance --connect 192.0.2.1:7471",
    "amoeba gups --connect 192.0.2.1:7471": "amoeba gups --connect 192.0.2.1:7471",
}
"""Commands that the text beside a command says to run in another terminal."""

FILES = {
    "mine.py": """
def workload(fabric):
    for domain in fabric.domains:
        domain.nic.device.step(10)
    return 100
"""
}
"""Files of the reader's own that commands name."""
