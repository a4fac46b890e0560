# amaranth: UnusedElaboratable=no
"""The target: sequence, checks, operands and answers, in Verilator."""

import pytest
from amoeba_hw.target.target import Target
from amoeba_model.parameters import NicParameters
from amoeba_sim.cocotb_runner import run_bench


@pytest.mark.parametrize("width", [128, 256, 512])
def test_requests_are_executed_refused_or_dropped(width):
    sizes = {"payload": 512, "contexts": 3, "keys": 16}
    parameters = NicParameters(data_width=width, target_pdcs=8, **sizes)
    run_bench(Target(parameters), "target", parameters={"width": width, "pdcs": 8, **sizes})
