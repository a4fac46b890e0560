# amaranth: UnusedElaboratable=no
"""How fast 64 KiB pass the core's DMA on PCI Express, counted in cycles of a link that does nothing else."""

import json

import pytest
from amoeba_sim.cocotb_runner import run_bench

from tests.hw.pcie.test_host import PciePorts

WIDTH, SIZE = 256, 1 << 16
LINE = WIDTH // 8
REQUEST, COMPLETION = 24, 20
"""Bytes of a packet beside its payload: 8 of framing, sequence number and LCRC (Base Specification 4.2.2, at 8 GT/s),
four or three DWs of header (2.2.1)."""
SIZES = {"lines": 1024, "tags": 256, "read_limit": 4096, "write_limit": 512}
"""As PcieNic has them."""


def figures(tmp_path, max_payload, max_read_request, tags=256):
    output = tmp_path / "figures.json"
    parameters = {
        "width": WIDTH, "max_payload": max_payload, "max_read_request": max_read_request, "extended_tags": tags > 32,
        "latency": 250, "size": SIZE, "output": str(output),
    }  # fmt: skip
    run_bench(PciePorts(WIDTH, outstanding=576, **SIZES), "tests.hw.pcie.bench_speed", parameters=parameters)
    return json.loads(output.read_text())


@pytest.mark.parametrize(("max_payload", "max_read_request", "tags"), [(256, 512, 256), (512, 4096, 32)])
def test_long_transfers_fill_the_link(tmp_path, max_payload, max_read_request, tags):
    found = figures(tmp_path, max_payload, max_read_request, tags)
    read = LINE * max_payload / (max_payload + COMPLETION)
    written = LINE * max_payload / (max_payload + REQUEST)
    # Requests of reads go the way of the writes.
    beside_reads = written * (1 - REQUEST / max_read_request * read / LINE)
    for scene, rates in found.items():
        limit = beside_reads if "read" in rates else written
        assert rates.get("read", read) >= 0.95 * read, (scene, rates)
        assert rates.get("written", limit) >= 0.95 * limit, (scene, rates)
    # Neighbouring lines are joined to the largest packets.
    for kind in ("lines", "packets"):
        assert found[f"{kind} read"]["read packets"] == SIZE // max_read_request
        assert found[f"{kind} written"]["write packets"] == SIZE // max_payload
