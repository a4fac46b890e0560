"""NICs on a network that pushes back: ports that fill, NICs that are stopped, many that send to one.

The figures of an earlier NIC stand in the tests' docstrings. Repeat a run with ``python -m tests.support.push_back``.
"""

import pytest
from amoeba_model.frames import Traffic
from amoeba_model.impairments import Impairments
from amoeba_model.registers import Counter
from amoeba_model.switch import Switch
from amoeba_model.wire.uet import ReturnCode

from tests.support.lossy_bench import Bench
from tests.support.mutual import Mutual
from tests.support.pairs import PAIRS
from tests.support.push_back import LOSSLESS, TAIL_DROP, crowd, exchange
from tests.support.raw_driver import Pair

TWO_PERCENT = Impairments(loss=0.02, duplication=0.02, reordering=0.02, corruption=0.02)
NARROW = Switch(buffer=50_000, nic_buffer=50_000, pause=True, rate=8)
"""A quarter of what NICs send fits through a port, and nothing is lost: all that is too much waits in the NICs."""


# Nobody waits for ever


@pytest.mark.parametrize(
    ("kinds", "switch"), [*((kinds, LOSSLESS) for kinds in PAIRS), *((kinds, NARROW) for kinds in PAIRS[:2])]
)
def test_two_nics_that_read_all_of_each_other_s_memory_do_not_wait_for_each_other(kinds: str, switch: Switch) -> None:
    """Where a full store of requests held up the link, both stood still for good after some 300 frames.

    Answers could not leave, as the other NIC took nothing; so the target took no requests; so nothing was taken, the
    other one's answers included.
    """
    mutual = Mutual(tuple(kinds.split(",")), switch, pdcs=8, size=1 << 17)
    try:
        mutual.read_all()
        mutual.wait(1500)
        assert mutual.network.traffic.dropped == 0, "flow control lost something"
        assert all(side.device.overflowed == 0 for side in mutual.sides)
    finally:
        mutual.close()


@pytest.mark.parametrize("kinds", ["rtl,rtl", "rtl,model"])
def test_answers_are_taken_while_nothing_may_leave(kinds: str) -> None:
    """And the completions that they make, but for those that packets hold back that are to be sent again."""
    mutual = Mutual(tuple(kinds.split(",")), None, pdcs=2, size=1 << 15)
    near = mutual.sides[0]
    try:
        mutual.read_all()
        for _ in range(200):
            mutual.network.step()
            if near.nic.counter(Counter.REQUESTS_SENT) == 2 * 8:
                break
        near.device.pause_transmission(near.device.cycles + 1, True)
        done = []
        for _ in range(400):
            mutual.network.step()
            entry = near.context.poll()
            done += [] if entry is None else [entry["status"]]
        assert done == [ReturnCode.OK] * 2
        near.device.pause_transmission(near.device.cycles + 1, False)
    finally:
        mutual.close()


@pytest.mark.parametrize("kinds", PAIRS)
def test_what_finds_no_space_in_the_store_of_requests_is_dropped_counted_and_sent_again(kinds: str) -> None:
    """The target may send nothing for a while: it takes what fits, and then drops; and answers once all it took."""
    mutual = Mutual(tuple(kinds.split(",")), None, pdcs=8, size=1 << 18)
    far = mutual.sides[1]
    try:
        far.device.pause_transmission(far.device.cycles + 1, True)
        mutual.read_all()
        for _ in range(150):
            mutual.network.step()
        dropped = far.nic.counter(Counter.DROPPED_OVERFLOW)
        assert dropped > 0 or kinds.endswith("model"), "the model takes each at once"
        far.device.pause_transmission(far.device.cycles + 1, False)
        mutual.wait(1500)
        counters = {counter: far.nic.counter(counter) for counter in Counter}
        arrived = counters[Counter.FRAMES_RECEIVED] + counters[Counter.DROPPED_OVERFLOW]
        assert arrived + far.nic.counter(Counter.DROPPED_MALFORMED) > 0
    finally:
        mutual.close()


@pytest.mark.parametrize("kinds", PAIRS)
def test_a_reset_of_a_nic_that_has_been_stopped_does_not_let_it_go_on(kinds: str, make_pair) -> None:
    pair: Pair = make_pair()
    bench = Bench(pair)
    device = bench.requests._device
    device.pause_transmission(device.cycles + 1, True)
    bench.post(bench.write(7))
    bench.pair.run(20)
    assert pair.network.traffic.sent == 0
    device.function_reset()
    bench.pair.run(20)
    assert pair.network.traffic.sent == 0


# Everything at once


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("switch", [LOSSLESS, TAIL_DROP], ids=["pause", "drop"])
@pytest.mark.parametrize("kinds", [("model",) * 4, ("model", "rtl", "model")], ids=["models", "rtl among models"])
def test_all_that_nics_ask_of_each_other_is_done_once_and_in_order(kinds, switch: Switch, seed: int) -> None:
    world = exchange(kinds, switch, seed=seed)
    traffic = world.network.traffic
    assert traffic.marked > 0
    assert (traffic.dropped == 0) or not switch.pause


@pytest.mark.parametrize("switch", [LOSSLESS, TAIL_DROP], ids=["pause", "drop"])
def test_all_that_eight_nics_ask_of_one_is_done_once_and_in_order(switch: Switch) -> None:
    world = crowd(("model",) * 9, switch, requests=40)
    assert (world.network.traffic.dropped > 0) is not switch.pause
    assert world.network.traffic.marked > 0


@pytest.mark.parametrize("switch", [LOSSLESS, TAIL_DROP], ids=["pause", "drop"])
@pytest.mark.parametrize("kinds", [("model",) * 3, ("rtl", "model", "model")], ids=["models", "rtl among models"])
def test_all_is_done_once_where_two_percent_are_lost_repeated_overtaken_and_damaged(kinds, switch: Switch) -> None:
    world = exchange(kinds, switch, seed=5, requests=40, impairments=TWO_PERCENT)
    traffic = world.network.traffic
    assert min(traffic.lost, traffic.duplicated, traffic.reordered, traffic.corrupted) > 0


@pytest.mark.parametrize("switch", [LOSSLESS, TAIL_DROP], ids=["pause", "drop"])
def test_all_is_done_once_among_rtl_in_threads_and_the_run_is_the_same_as_one_after_the_other(switch: Switch) -> None:
    def go(threads: int) -> tuple[int, Traffic, list[tuple[int, ...]]]:
        world = exchange(("rtl", "rtl"), switch, seed=3, requests=25, threads=threads)
        # not where, which differs: memory is allocated anew
        events = [(data, length, kind) for host in world.hosts for data, _, length, kind in host.events]
        return world.network.now, world.network.traffic, events

    assert go(1) == go(2)


# Frames


def test_a_stopped_nic_sends_again_only_what_it_had_sent(make_model_pair) -> None:
    """A model that may send nothing lets its timeouts pass: no more leaves afterwards than it says it has sent."""
    pair: Pair = make_model_pair()
    bench = Bench(pair, timeout=2000, limit=20)
    device = bench.requests._device
    device.pause_transmission(device.cycles + 1, True)
    bench.post(bench.add())
    bench.pair.run(60)
    assert pair.network.traffic.sent == 0
    device.pause_transmission(device.cycles + 1, False)
    assert bench.statuses(1) == [ReturnCode.OK]
    assert bench.region.integer(0) == 1
    assert bench.here(Counter.REQUESTS_SENT) == 1 + bench.here(Counter.RETRANSMISSIONS)
