"""Random programs of messages and receives do what a plain mailbox does.

Covers ``nic/device.py``.
"""

from collections.abc import Callable

import pytest
from amoeba_model.descriptors import DescriptorOpcode
from amoeba_model.nic import ModelDevice
from amoeba_model.nic.checker import MemoryRequest
from amoeba_model.nic.match_unit import Arrival
from amoeba_model.nic.matcher import Matcher
from amoeba_model.nic.matching import MatchLists, Receive
from amoeba_model.parameters import NicParameters
from amoeba_model.wire.codec import FrameHeader
from amoeba_model.wire.uet import ReturnCode
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.message_programs import Order, Release, Restart, Send, Step, programs, run
from tests.support.raw_driver import Pair, connect

MakePair = Callable[..., Pair]
PARAMETERS = NicParameters(contexts=2, target_pdcs=4, peers=4, receives=4, unexpected=4, payload=256)


def run_fresh(steps: list[Step], parameters: NicParameters = PARAMETERS, *, announces: bool = False) -> None:
    run(connect(ModelDevice, ModelDevice, parameters), steps, announces=announces)


@settings(max_examples=150)
@given(programs(PARAMETERS.unexpected), st.booleans())
def test_random_programs_do_what_two_plain_lists_say(steps: list[Step], announces: bool) -> None:
    run_fresh(steps, announces=announces)


@settings(max_examples=30)
@given(programs(64))
def test_random_programs_do_what_two_plain_lists_say_in_a_nic_of_the_default_size(steps: list[Step]) -> None:
    run_fresh(steps, NicParameters())


SEND, TAGGED_SEND = DescriptorOpcode.SEND, DescriptorOpcode.TAGGED_SEND


def _arrive_at_home(
    self: Matcher, header: FrameHeader, request: MemoryRequest, pdc: int
) -> Arrival | ReturnCode:
    """In the lists of the context that the message is for, whoever's receives it should meet."""
    return self._unit.arrive(self._contexts[header.resource_index], header, request, pdc)


@pytest.mark.parametrize(
    ("owner", "name", "broken", "steps"),
    [
        (Receive, "matches", lambda self, message: True, [Order(tag=1), Send(0, TAGGED_SEND, 2)]),
        (MatchLists, "unpost", lambda self, receive: None, [Order(), Send(0, SEND), Send(0, SEND)]),
        (MatchLists, "release_slot", lambda self, slot: None, [*[Send(0, SEND)] * 4, Order(), Release(0),
                                                               Send(0, SEND)]),
        (MatchLists, "remove", lambda self, message: None, [Send(0, SEND), Order(), Order()]),
        (MatchLists, "cancel", lambda self, context: None, [Order(context=3), Order(opcode=4, context=3)]),
        (MatchLists, "has_space", lambda self: True, [*[Order(tag=1)] * 5, Send(0, SEND), Order(opcode=3)]),
        (Matcher, "arrive", _arrive_at_home, [Order(), Send(0, SEND, target=1)]),
        (Matcher, "forget", lambda self, context: self.release_slot(context, 0), [Send(0, SEND), Restart(), Order()]),
    ],
    ids=["tags", "used twice", "slots lost", "taken twice", "not cancelled", "too many", "not shared", "not emptied"],
)  # fmt: skip
def test_a_nic_that_matches_wrongly_is_noticed(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, broken: Callable[..., object], steps: list[Step]
) -> None:
    run_fresh(steps)
    monkeypatch.setattr(owner, name, broken)
    with pytest.raises(AssertionError):
        run_fresh(steps)
