"""Refusal of messages that met no receive, when the context that they are for receives no more."""

import time
from collections.abc import Callable

from amoeba_model.descriptors import ReceiveOpcode
from amoeba_model.wire.uet import ReturnCode

from amoeba.nic.event_ring import Event
from amoeba.transport.dispatch import Dispatch
from amoeba.transport.receives import ANYBODY, Receive, Receives
from amoeba.transport.transmit_rings import DRAIN_ROUNDS

__all__ = ["empty", "refuse_all"]

_OK = int(ReturnCode.OK)
_ANY_TAG = (1 << 64) - 1


def refuse_all(receives: Receives, dispatch: Dispatch, deadline: float, target: int | None = None) -> bool:
    """Drop messages as :func:`empty` does, and claimed messages; notify senders of long ones that nobody reads them.

    Returns whether there was a long message, and time is left: messages that have come since may be refused, too.
    """
    refused = False

    def took(event: Event, message: memoryview) -> None:
        nonlocal refused
        refused |= receives.refuse(event, message)

    empty(receives, dispatch, deadline, target, took)
    for claim in receives.give_up_claims(target):
        refused |= receives.refuse(claim.event, memoryview(claim.data))
    return refused and time.monotonic() < deadline


def empty(
    receives: Receives,
    dispatch: Dispatch,
    deadline: float,
    target: int | None = None,
    took: Callable[[Event, memoryview], None] = lambda event, message: None,
) -> bool:
    """Drop all unexpected messages, or those for ``target`` of several contexts; returns whether that was in time.

    ``took`` is called for each message, with the message or its record, while that is in its slot. ``deadline`` is of
    :func:`time.monotonic`, but the NIC also gets :data:`DRAIN_ROUNDS` for each message.
    """
    return all(
        _empty(receives, dispatch, deadline, tagged, target, took)
        for tagged in (False, True)
    )


def _empty(
    receives: Receives,
    dispatch: Dispatch,
    deadline: float,
    tagged: bool,
    target: int | None,
    took: Callable[[Event, memoryview], None],
) -> bool:
    status: int | None = _OK
    while status == _OK:
        status = _drop_one(receives, dispatch, deadline, tagged, target, took)
    return status is not None


def _drop_one(
    receives: Receives,
    dispatch: Dispatch,
    deadline: float,
    tagged: bool,
    target: int | None,
    took: Callable[[Event, memoryview], None],
) -> int | None:
    """Drop the oldest message that matches; returns the status of the search, None if the search has not ended."""

    def found(event: Event, message: memoryview) -> int:
        took(event, message)
        return 0

    ends: list[int] = []
    rounds = 0
    search = Receive(tagged, 0, _ANY_TAG, ANYBODY, None, True)
    search.address_to(target)
    search.opcode, search.found, search.ended, search.own = int(ReceiveOpcode.TAKE), found, ends.append, True
    waits = True
    while not ends and (rounds < DRAIN_ROUNDS or time.monotonic() < deadline):
        if waits and receives.has_space(search.opcode):
            receives.post(search, 0, False)
            waits = False
        dispatch.take_all()
        if not ends:
            receives.nic.advance()
            rounds += 1
    return ends[0] if ends else None
