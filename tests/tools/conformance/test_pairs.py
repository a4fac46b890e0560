"""Every sentence of the manual pages, on every pair.

Covers ``conformance/pages/*.py`` and ``conformance/connected.py``.
"""

import time

import pytest
from amoeba import BindFlags
from amoeba.nic.event_counters import EventCounters
from amoeba_tools.conformance import NEEDS, checks, select
from amoeba_tools.conformance.pages.fi_msg import LONG
from amoeba_tools.conformance.pages.fi_rma import pattern

from tests.tools.conformance.pairs import AUTOMATIC_RTL, PAIRS, SharedPair

ABOUT_COUNTERS = ("fi_atomic", "fi_cntr", "fi_endpoint", "fi_mr", "fi_msg", "fi_poll", "fi_trigger")
ABOUT_PROGRESS = ("fi_cq", "fi_cntr", "fi_trigger", "fi_eq", "fi_msg.long_*", "fi_endpoint.cl*")


def hold(one, check):
    """Run a check on a pair, which is not used again if it fails."""
    pair = one.get()
    try:
        assert check.missing(pair) == frozenset()
        check.run(pair)
    except BaseException:
        one.spoil()
        raise


# A minute of processor time, for checks that hold on the same NICs without loss and on others with it.
LONG_PAIRS = ("rtl,rtl with loss",)


@pytest.mark.parametrize("check", checks(), ids=str)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name in LONG_PAIRS)) for name in PAIRS]
)
def test_the_manual_pages_hold(shared, name, check):
    hold(shared(name), check)


@pytest.mark.parametrize("check", select(*ABOUT_PROGRESS), ids=str)
def test_what_progress_is_about_holds_on_rtl_that_makes_it_by_itself(shared, check):
    hold(shared(AUTOMATIC_RTL), check)


@pytest.fixture
def late_counters(monkeypatch):
    """A pair: what its NICs have counted is seen 2 ms after the first look at it, so later than entries of queues."""
    value, take = EventCounters.value, EventCounters.take
    values = {}

    def look(counters, number):
        now, known = time.monotonic(), values[counters, number]
        if (read := value(counters, number)) != known[-1][1]:
            known.append((now + 0.002, read))
        while len(known) > 1 and known[1][0] <= now:
            known.pop(0)
        return known[0][1]

    def taken(counters, domain):
        number = take(counters, domain)
        values[counters, number] = [(0.0, (0, 0))]
        return number

    monkeypatch.setattr(EventCounters, "value", look)
    monkeypatch.setattr(EventCounters, "take", taken)
    one = SharedPair("model,model")
    yield one
    faults = one.close()
    assert not faults


@pytest.mark.parametrize("check", select(*ABOUT_COUNTERS), ids=str)
def test_counters_may_follow_the_entries_of_queues(late_counters, check):
    hold(late_counters, check)


def test_a_counter_never_falls_below_nothing(late_counters):
    """A peer reads a long message: the driver may know that this counts for nothing before the NIC's count shows."""
    pair = late_counters.get()
    reads = pair.keep(pair.domain.cntr_open())
    near, receive = pair.talker(counters={BindFlags.FI_REMOTE_READ: reads}), pair.receive(LONG)
    near.endpoint.send(pattern(LONG), pair.peer)
    receive.finish()
    near.finish()
    assert {reads.read() for _ in range(1000)} <= {0, 1}


@pytest.mark.parametrize("name", ["model,model", "rtl,rtl"])
def test_pairs_offer_all_that_a_check_may_need(shared, name):
    assert shared(name).get().offers == set(NEEDS)
