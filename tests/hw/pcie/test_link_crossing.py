# amaranth: UnusedElaboratable=no
"""A link in another clock than the NIC's, whichever is the faster, in Verilator."""

import pytest
from amoeba_hw.pcie.link_crossing import LinkCrossing
from amoeba_sim.cocotb_runner import run_bench


@pytest.mark.parametrize("width", [128, 256])
def test_packets_credits_and_resets_cross(width):
    run_bench(
        LinkCrossing(width, write_limit=512),
        "tests.hw.pcie.bench_link_crossing",
        parameters={"width": width, "limit": 512},
    )
