"""The soak at its full length: 100,000 operations on models, 5,000 on RTL, all on one NIC or on any.

Through a switch that pauses or drops, over links that lose, repeat, overtake and damage 2 % of all frames each.
"""

import pytest
from amoeba import open_cluster
from amoeba_model.impairments import Impairments
from amoeba_model.switch import Switch
from amoeba_tools.soak import run_soak

pytestmark = pytest.mark.long

SWITCHES = {"pause": Switch(buffer=60_000, nic_buffer=60_000, pause=True, mark=3000), "drop": Switch(8000, mark=3000)}
MODELS, ON_MODELS = ["model"] * 5, 100_000
ON_RTL = 5000
RUNS = 4
"""Of each length: switches, and whether all is on one NIC."""


def soak(kinds: list[str], total: int, switch: str, *, incast: bool, seed: int) -> None:
    impairments = Impairments(seed, loss=0.02, duplication=0.02, reordering=0.02, corruption=0.02)
    options = {"host_latency": 40}
    with open_cluster(kinds, impairments=impairments, rtl_options=options, switch=SWITCHES[switch]) as fabric:
        result = run_soak(fabric, seed=seed, operations=total // RUNS // len(kinds) + 1, incast=incast)
    again = f"{','.join(kinds)}, switch {switch}, incast {incast}, seed {seed}"
    assert result.problems == (), again
    assert result.total >= total // RUNS, again
    traffic, counters = result.traffic, result.counters
    assert min(traffic.lost, traffic.duplicated, traffic.reordered, traffic.corrupted, traffic.marked) > 0, again
    assert (traffic.dropped > 0) is (switch == "drop"), again
    assert min(counters["RETRANSMISSIONS"], counters["TIMEOUTS"], counters["DUPLICATES"]) > 0, again
    assert counters["FAILED_PDCS"] == 0, again


@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("incast", [False, True], ids=["all to all", "all to one"])
def test_a_hundred_thousand_operations_are_each_performed_once(switch: str, incast: bool) -> None:
    soak(MODELS, ON_MODELS, switch, incast=incast, seed=41)


@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize(
    ("kinds", "incast"),
    [(["rtl", "model", "model"], True), (["model", "rtl"], False)],
    ids=["into rtl", "both ways"],
)
def test_five_thousand_operations_are_each_performed_once_on_rtl(switch: str, kinds: list[str], incast: bool) -> None:
    soak(kinds, ON_RTL, switch, incast=incast, seed=43)
