# amaranth: UnusedElaboratable=no
"""The initiator: from descriptors to frames and from answers to completions, in Verilator."""

from functools import partial

import pytest
from amoeba_hw.initiator.initiator import Initiator
from amoeba_model.parameters import NicParameters
from amoeba_sim.cocotb_runner import run_bench

from tests.hw.host.ordered_writes import WithOrderedWrites
from tests.support.widths import WIDTHS

BENCHES = [
    "tests.hw.initiator.bench_initiator",
    "tests.hw.initiator.bench_answers",
    "tests.hw.initiator.bench_gaps",
    "tests.hw.initiator.bench_recovery",
    "tests.hw.initiator.bench_rings",
]


@pytest.mark.parametrize("bench", BENCHES)
@pytest.mark.parametrize("data_width", WIDTHS)
def test_the_initiator_at_every_width(data_width, bench):
    # A small window is full often; after a loss, a larger one is not to be.
    sizes = {"data_width": data_width, "window": 32 if bench == "tests.hw.initiator.bench_recovery" else 8}
    parameters = NicParameters(contexts=3, peers=8, payload=256, **sizes)
    run_bench(partial(WithOrderedWrites, Initiator, parameters), bench, timeout=300, parameters=sizes)


@pytest.mark.parametrize("data_width", [256, pytest.param(512, marks=pytest.mark.long)])
def test_the_initiator_keeps_up_with_the_line(data_width):
    parameters = NicParameters(data_width=data_width, contexts=2, peers=4)
    run_bench(
        WithOrderedWrites(Initiator, parameters),
        "tests.hw.initiator.bench_pace",
        timeout=300,
        parameters={"data_width": data_width},
    )
