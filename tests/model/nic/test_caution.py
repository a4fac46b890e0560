"""After a loss the initiator is cautious: fewer packets in flight, and an early timeout.

Covers ``nic/peers.py``.
"""

import itertools
from collections.abc import Callable

import pytest
from amoeba_model.nic.peers import CAUTION
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import Counter
from amoeba_model.wire.uet import NackCode, ReturnCode

from tests.support.lossy_bench import FIRST_PSN, TIMEOUT, Bench
from tests.support.raw_driver import Pair

MakePair = Callable[..., Pair]
OK, FAILED = ReturnCode.OK, ReturnCode.LOCAL_PDC_FAILED
WINDOW, AFTER_LOSS = 64, 24
PAYLOAD = 64
EARLY = TIMEOUT // 4
STEP = 100
"""Cycles, of ``Pair.run``."""


@pytest.fixture
def bench(make_model_pair: MakePair) -> Bench:
    parameters = NicParameters(window=WINDOW, out_of_order_entries=32, payload=PAYLOAD)
    bench = Bench(make_model_pair(parameters), limit=2)
    bench.cut_off()
    return bench


def post_packets(bench: Bench, count: int) -> None:
    """One WRITE of so many packets."""
    size = count * PAYLOAD
    local = bench.pair.initiator.buffer(size).address
    bench.post(bench.write(0, flags=0, length=size, local=local, remote_address=bench.pair.memory(size).address))


def gap(bench: Bench, number: int) -> None:
    bench.say(is_control=True, nack_code=NackCode.ROD_OOO, psn=FIRST_PSN + number)


def acknowledge(bench: Bench, count: int, message: int = 0) -> None:
    """The first ``count`` packets have been answered, the last of them one of that message."""
    bench.say(psn=FIRST_PSN + count - 1, cack_psn=FIRST_PSN + count - 1, message_id=message)


def outstanding(bench: Bench, answered: int) -> int:
    """Packets sent and not answered, when ``answered`` are and time has passed."""
    bench.pair.run(3)
    return bench.here(Counter.REQUESTS_SENT) - bench.here(Counter.RETRANSMISSIONS) - answered


def timed_out(bench: Bench, count: int) -> int:
    """Cycle of that timeout, to the step."""
    while bench.here(Counter.TIMEOUTS) < count:
        bench.pair.run(1)
    return bench.pair.initiator.device.cycles


@pytest.mark.parametrize(
    ("window", "out_of_order_entries", "after_loss"),
    [(256, 32, 24), (64, 8, 16), (256, 0, 16), (8, 32, 8), (4096, 256, 192)],
)
def test_the_window_after_a_loss_fits_the_target(window: int, out_of_order_entries: int, after_loss: int) -> None:
    assert NicParameters(window=window, out_of_order_entries=out_of_order_entries).window_after_loss == after_loss


def test_without_a_loss_the_whole_window_is_in_flight(bench: Bench) -> None:
    post_packets(bench, 250)
    assert outstanding(bench, 0) == WINDOW
    for answered in (10, 40, 100):
        acknowledge(bench, answered)
        assert outstanding(bench, answered) == WINDOW


def test_after_a_loss_fewer_packets_are_in_flight_until_enough_are_answered(bench: Bench) -> None:
    post_packets(bench, 250)
    assert outstanding(bench, 0) == WINDOW
    gap(bench, 3)
    for answered in (10, WINDOW - AFTER_LOSS):
        acknowledge(bench, answered)
        assert outstanding(bench, answered) == WINDOW - answered
    for answered in (WINDOW - AFTER_LOSS + 1, CAUTION - 1):
        acknowledge(bench, answered)
        assert outstanding(bench, answered) == AFTER_LOSS
    acknowledge(bench, CAUTION)
    assert outstanding(bench, CAUTION) == WINDOW


def test_what_is_lost_later_counts_anew(bench: Bench) -> None:
    post_packets(bench, 250)
    gap(bench, 3)
    for answered in (CAUTION - 1, CAUTION + 20, CAUTION + 40, 2 * CAUTION - 2):
        acknowledge(bench, answered)
        assert outstanding(bench, answered) == AFTER_LOSS
        if answered == CAUTION - 1:
            gap(bench, answered + 1)
    acknowledge(bench, 2 * CAUTION - 1)
    assert outstanding(bench, 2 * CAUTION - 1) == WINDOW


def test_a_packet_that_must_wait_is_no_loss(bench: Bench) -> None:
    post_packets(bench, 250)
    assert outstanding(bench, 0) == WINDOW
    bench.say(is_control=True, nack_code=NackCode.NO_RESOURCE, psn=FIRST_PSN + 1)
    acknowledge(bench, 40)
    assert outstanding(bench, 40) == WINDOW


def test_after_a_loss_a_quarter_of_the_timeout_is_enough_once(bench: Bench) -> None:
    """The early timeout is neither counted nor doubled: a peer that went away has as many timeouts as ever."""
    bench.post(*(bench.write(number) for number in range(4)))
    gap(bench, 1)
    bench.sent(4 + 3)
    cycles = [bench.pair.initiator.device.cycles, *(timed_out(bench, count) for count in (1, 2, 3, 4))]
    waits = [later - earlier for earlier, later in itertools.pairwise(cycles)]
    for wait, expected in zip(waits, (EARLY, TIMEOUT, 2 * TIMEOUT, 4 * TIMEOUT), strict=True):
        assert expected - 4 * STEP <= wait <= expected + STEP, waits
    assert bench.statuses(4) == [FAILED] * 4
    assert bench.here(Counter.RETRANSMISSIONS) == 3 + 3 * 4


def test_an_answer_makes_the_next_timeout_an_early_one_again(bench: Bench) -> None:
    bench.post(*(bench.write(number) for number in range(4)))
    bench.sent(4)
    begun = timed_out(bench, 1)
    for answered in (1, 2):
        acknowledge(bench, answered, answered - 1)
        begun, waited = bench.pair.initiator.device.cycles, timed_out(bench, answered + 1)
        assert EARLY - STEP <= waited - begun <= EARLY + STEP
    acknowledge(bench, 4, 3)
    assert bench.statuses(4) == [OK] * 4


def test_answers_behind_a_gap_put_off_the_early_timeout_and_no_other(bench: Bench) -> None:
    bench.post(*(bench.add() for _ in range(8)))
    bench.sent(8)
    for number in (1, 2, 3):
        bench.say(psn=FIRST_PSN + number)
        begun = bench.pair.initiator.device.cycles
        bench.pair.run(EARLY // STEP - 2)
        assert bench.here(Counter.TIMEOUTS) == 0
    early = timed_out(bench, 1)
    assert EARLY - STEP <= early - begun <= EARLY + STEP
    for number in (4, 5, 6):
        bench.pair.run(EARLY // STEP)
        bench.say(psn=FIRST_PSN + number)
    # What the first of these asked for again did put it off.
    assert timed_out(bench, 2) - early <= EARLY + TIMEOUT + 2 * STEP


def test_a_hold_off_ends_in_an_early_timeout_where_something_was_lost(bench: Bench) -> None:
    bench.post(*(bench.write(number) for number in range(3)))
    gap(bench, 1)
    timed_out(bench, 1)
    bench.say(is_control=True, nack_code=NackCode.NO_RESOURCE, psn=FIRST_PSN)
    begun = bench.pair.initiator.device.cycles
    assert timed_out(bench, 2) - begun <= 2 * EARLY + 2 * STEP
