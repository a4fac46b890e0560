# amaranth: UnusedElaboratable=no
"""The host's requests to BARs, in Verilator."""

from amoeba_hw.pcie.completer import Completer
from amoeba_sim.cocotb_runner import run_bench


def test_completer():
    run_bench(Completer(), "tests.hw.pcie.bench_completer")
