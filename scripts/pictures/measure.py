"""Measurements for the pictures, on RTL: cycles, which are the same on any machine."""

import json
import subprocess
import sys

from amoeba.libfabric.objects.cluster import open_cluster
from amoeba_tools.tracing import Traced, trace_fetch_atomic
from plots import PERF
from timeline import DATA
from tlps import DATA as PACKETS
from tlps import packet_rows

__all__ = ["measure", "measure_packets", "settled_trace", "steps_of"]

TESTS = ("rdm_pingpong", "rma_pingpong", "rma_bw", "rdm_tagged_bw")
SIZES = (8, 64, 512, 4096, 32768)


def settled_trace(device: str = "rtl") -> Traced:
    """Trace a NIC that has worked before: after a reset, the key table clears its slots first."""
    with open_cluster([device, device]) as fabric:
        trace_fetch_atomic(fabric)
        return trace_fetch_atomic(fabric)


def steps_of(traced: Traced) -> list[dict[str, object]]:
    """Cycle since the doorbell, NIC and stage of each step."""
    return [{"cycle": step.cycle, "nic": step.nic, "stage": step.event.stage.name} for step in traced.steps]


def measure_packets() -> None:
    """Write the packets of one fetch-and-add on PCI Express."""
    lines = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in packet_rows(settled_trace("rtl+pcie")))
    PACKETS.write_text(f'{{"packets": [\n  {lines}\n]}}\n')


def measure() -> None:
    """Write all files; some minutes, behind the builds of the two NICs."""
    lines = ",\n  ".join(json.dumps(step) for step in steps_of(settled_trace()))
    DATA.write_text(f'{{"steps": [\n  {lines}\n]}}\n')
    measure_packets()
    sizes = [part for size in SIZES for part in ("-s", str(size))]
    tests = [part for test in TESTS for part in ("-t", test)]
    command = [sys.executable, "-m", "amoeba_tools", "perf", "--api", "libfabric", "--device", "rtl", "-n", "64",
               "-w", "8", "--json", *tests, *sizes]  # fmt: skip
    results = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)
    # of all that is told, what is exact
    kept = [{"plan": {name: each["plan"][name] for name in ("api", "test", "sizes", "iterations")},
             "devices": each["devices"], "cycles": round(each["cycles"], 2), "modelled": round(each["modelled"], 4)}
            for each in results]  # fmt: skip
    PERF.write_text("[\n  " + ",\n  ".join(json.dumps(each) for each in kept) + "\n]\n")
