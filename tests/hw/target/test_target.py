# amaranth: UnusedElaboratable=no
"""The target: sequence, checks, operands, answers and events, in Verilator."""

from functools import partial

import pytest
from amoeba_hw.host.ring_writer import RingWriter
from amoeba_hw.target.answer_sender import AnswerSender
from amoeba_hw.target.checker import RequestChecker
from amoeba_hw.target.key_table import KeyTable
from amoeba_hw.target.pdc_table import PdcTable
from amoeba_hw.target.target import Target
from amoeba_model.parameters import NicParameters
from amoeba_sim.cocotb_runner import run_bench

from tests.hw.host.ordered_writes import WithOrderedWrites
from tests.support.widths import WIDTHS

SIZES = {
    "payload": 512, "contexts": 4, "keys": 16, "window": 16, "out_of_order_entries": 4, "receives": 8,
    "unexpected": 4,
}  # fmt: skip


@pytest.mark.parametrize(
    "bench",
    [
        "tests.hw.target.bench_checks",
        "tests.hw.target.bench_traffic",
        "tests.hw.target.bench_answers",
        "tests.hw.target.bench_events",
        "tests.hw.target.bench_messages",
        "tests.hw.target.bench_shared_messages",
    ],
)
@pytest.mark.parametrize("width", WIDTHS)
def test_requests_are_judged_executed_and_answered(width, bench):
    # What says how often something is refused sends others behind it.
    entries = 0 if bench == "tests.hw.target.bench_events" else SIZES["out_of_order_entries"]
    sizes = SIZES | {"out_of_order_entries": entries}
    parameters = NicParameters(data_width=width, target_pdcs=8, **sizes)
    run_bench(partial(WithOrderedWrites, Target, parameters), bench, parameters={"width": width, "pdcs": 8, **sizes})


def test_hardware_refuses_to_send_data_in_the_return_direction():
    with pytest.raises(ValueError, match="return_data must be False in hardware, got True"):
        Target(NicParameters(return_data=True))


def test_frames_of_one_peer_cost_another_a_bounded_number_of_cycles():
    sizes = SIZES | {"payload": 4096, "window": 64, "receives": 64}
    parameters = NicParameters(data_width=256, target_pdcs=8, **sizes)
    run_bench(
        partial(WithOrderedWrites, Target, parameters),
        "tests.hw.target.bench_bounds",
        parameters={"width": 256, "pdcs": 8, **sizes},
    )


def test_messages_are_checked_before_they_are_matched():
    sizes = {"payload": 512, "contexts": 4}
    run_bench(RequestChecker(NicParameters(**sizes)), "tests.hw.target.bench_checker", parameters=sizes)


def test_answers_leave_behind_their_events():
    run_bench(
        AnswerSender(NicParameters(contexts=3)), "tests.hw.target.bench_answer_sender", parameters={"contexts": 3}
    )


@pytest.mark.parametrize("contexts", [3, 2], ids=["none is kept", "one for each context"])
def test_packets_find_their_pdc_and_its_order(contexts):
    sizes = {"window": 16, "out_of_order_entries": 6, "contexts": contexts}
    parameters = NicParameters(target_pdcs=8, **sizes)
    assert len(parameters.reserved_pdcs) == (contexts if contexts == 2 else 0)
    run_bench(PdcTable(parameters), "tests.hw.target.bench_pdc_table", parameters={"pdcs": 8, **sizes})


@pytest.mark.parametrize("keys", [4, 64])
def test_keys_are_found_in_their_slots(keys):
    run_bench(KeyTable(keys), "tests.hw.target.bench_key_table", parameters={"keys": keys})


@pytest.mark.parametrize("width", [128, 256, 512])
@pytest.mark.parametrize("entry_size", [32, 64])
def test_entries_go_round_their_rings(width, entry_size):
    parameters = {"width": width, "contexts": 4, "entry_size": entry_size}
    run_bench(
        WithOrderedWrites(RingWriter, 4, width, entry_size), "tests.hw.host.bench_ring_writer", parameters=parameters
    )
