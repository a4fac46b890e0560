# amaranth: UnusedElaboratable=no
"""MSI-X, in Verilator."""

import pytest
from amoeba_hw.pcie.msix_table import MsixTable
from amoeba_sim.cocotb_runner import run_bench


@pytest.mark.parametrize("vectors", [3, 64])
def test_msix_table(vectors):
    run_bench(MsixTable(vectors), "tests.hw.pcie.bench_msix_table", parameters={"vectors": vectors})


@pytest.mark.parametrize("vectors", [0, 65])
def test_a_table_has_1_to_64_vectors(vectors):
    with pytest.raises(ValueError, match=f"1 to 64 vectors, got {vectors}"):
        MsixTable(vectors)
