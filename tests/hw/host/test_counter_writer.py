# amaranth: UnusedElaboratable=no
"""Event counters, in Verilator."""

import pytest
from amoeba_hw.host.counter_writer import CounterWriter
from amoeba_sim.cocotb_runner import run_bench


@pytest.mark.parametrize(("data_width", "counters"), [(128, 4), (256, 64), (512, 256)])
def test_counter_writer(data_width, counters):
    parameters = {"data_width": data_width, "counters": counters}
    run_bench(CounterWriter(data_width, counters), "tests.hw.host.bench_counter_writer", parameters=parameters)


@pytest.mark.parametrize("counters", [1, 3, 512])
def test_counters_are_a_power_of_two_that_8_bits_can_name(counters):
    with pytest.raises(ValueError, match=f"power of two from 2 to 256 as the number of counters, got {counters}"):
        CounterWriter(256, counters)
