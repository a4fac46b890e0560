# amaranth: UnusedElaboratable=no
"""The matching unit's components.

Covers ``messages/receive_queues.py``.
"""

import pytest
from amaranth.lib import data
from amoeba_hw.initiator.descriptor_fetch import DescriptorFetch
from amoeba_hw.messages.match_unit import MatchUnit
from amoeba_hw.messages.matcher import Matcher
from amoeba_hw.messages.ordered_lists import OrderedLists
from amoeba_hw.messages.receive_queues import ReceiveQueues
from amoeba_model.descriptors import EVENT_COUNTER
from amoeba_model.parameters import NicParameters
from amoeba_sim.cocotb_runner import run_bench

ENTRY = data.StructLayout({"tag": 2, "value": 16})
SIZES = {"contexts": 3, "receives": 4, "unexpected": 4, "payload": 64}
KEY = data.StructLayout({"tag": 2, "ignore": 2})


SEARCHED = data.StructLayout({"tag": 2})


def lists_of_tags(lists, places, ways):
    return OrderedLists(
        lists, places, ENTRY, KEY, SEARCHED, lambda entry, key: ((entry.tag ^ key.tag) & ~key.ignore) == 0, ways
    )


@pytest.mark.parametrize(("lists", "places", "ways"), [(1, 2, 16), (3, 8, 1), (2, 8, 2), (4, 16, 4)])
def test_ordered_lists(lists, places, ways):
    parameters = {"lists": lists, "places": places, "ways": ways}
    run_bench(lists_of_tags(lists, places, ways), "tests.hw.messages.bench_ordered_lists", parameters=parameters)


def test_places_and_ways_are_powers_of_two():
    with pytest.raises(ValueError, match="power of two and at least 2, got 3"):
        lists_of_tags(1, 3, 2)
    with pytest.raises(ValueError, match="ways must be a power of two, got 3"):
        lists_of_tags(1, 4, 3)


def test_messages_and_receives_are_matched_as_the_model_s_lists_say():
    run_bench(MatchUnit(NicParameters(**SIZES)), "tests.hw.messages.bench_match_unit", parameters=SIZES)


def test_every_message_and_receive_descriptor_is_decided_about_and_all_space_comes_back():
    parameters = {"data_width": 256, **SIZES}
    run_bench(
        Matcher(NicParameters(**parameters)), "tests.hw.messages.bench_matcher", parameters=parameters, timeout=300
    )


def test_queues_have_a_power_of_two_of_places():
    with pytest.raises(ValueError, match="power of two of places, at least 4, got 12"):
        ReceiveQueues(1, 12)


def test_descriptors_that_are_fetched_have_64_bytes():
    with pytest.raises(ValueError, match="descriptors of 64 bytes, got 16"):
        DescriptorFetch(256, record=EVENT_COUNTER)
