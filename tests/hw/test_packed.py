# amaranth: UnusedElaboratable=no
"""Cutting packets at byte boundaries, and the queue that forgets, in Verilator."""

import pytest
from amoeba_hw.commit_queue import CommitQueue
from amoeba_hw.packed import Realign
from amoeba_sim.cocotb_runner import run_bench


@pytest.mark.parametrize("width", [128, 256, 512])
def test_parts_of_packets_are_cut_out(width):
    run_bench(Realign(width), "tests.hw.bench_realign", parameters={"width": width})


@pytest.mark.parametrize("depth", [2, 16])
def test_a_commit_queue_delivers_what_is_committed(depth):
    run_bench(CommitQueue(16, depth), "tests.hw.bench_commit_queue", parameters={"depth": depth})


@pytest.mark.parametrize("depth", [0, 1, 12])
def test_a_commit_queue_insists_on_a_power_of_two(depth):
    with pytest.raises(ValueError, match=f"power of two.*got {depth}"):
        CommitQueue(8, depth)
