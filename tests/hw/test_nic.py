# amaranth: UnusedElaboratable=no
"""The whole NIC on its standard buses, in Verilator."""

from functools import partial

import pytest
from amoeba_hw.nic import Nic
from amoeba_model.opcodes import Datatype
from amoeba_model.parameters import NicParameters
from amoeba_sim.cocotb_runner import run_bench

pytestmark = pytest.mark.long


@pytest.mark.parametrize("bench", ["tests.hw.bench_nic", "tests.hw.bench_nic_target", "tests.hw.bench_nic_initiator"])
@pytest.mark.parametrize("width", [128, 512])
def test_the_nic_serves_and_asks_and_survives(width, bench):
    parameters = NicParameters(
        data_width=width,
        payload=256,
        contexts=2,
        keys=16,
        peers=4,
        target_pdcs=4,
        window=8,
        out_of_order_entries=4,
        lines=8,
        datatypes=(Datatype.FI_INT64, Datatype.FI_UINT64),
    )
    options = {"width": width, "payload": parameters.payload}
    run_bench(partial(Nic, parameters), bench, timeout=400, parameters=options)
