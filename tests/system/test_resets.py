"""A reset of either NIC ends all that is in flight on both sides, in bounded time, and both work again.

The requests of both before the reset, in any moment, are honest work as in the hostile programs: its
data, its memory and the count of frames are checked likewise.
"""

import pytest
from amoeba_model.wire.uet import ReturnCode

from tests.support.honest_work import BOUND, KINDS
from tests.support.hostile_programs import SMALL_WITH_TENANT, World
from tests.support.pairs import PAIRS

OK, FAILED = ReturnCode.OK, ReturnCode.LOCAL_PDC_FAILED
ERRORS = {FAILED, ReturnCode.BAD_MKEY}
"""A PDC that was open is unknown to the NIC's new life; one that opens after the reset finds no key there."""
KINDS_TWICE = 2 * KINDS[:-1]
MOMENTS = (0, 1, 2, 3, 5, 8, 13)
"""Link latencies after the first request was posted: from before its packet has arrived to when much is done."""


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("kinds", PAIRS)
def test_all_that_is_in_flight_ends_and_both_work_again(kinds: str, side: int) -> None:
    ended = [_reset(kinds, side, moment) for moment in MOMENTS]
    assert OK not in ended[0], "nothing had arrived"
    assert any(FAILED in statuses for statuses in ended), "no PDC was open at any reset"
    assert any(OK in statuses for statuses in ended), "nothing was done before any reset"


def _reset(kinds: str, side: int, moment: int) -> list[int]:
    """Statuses of what was in flight to the NIC that was reset."""
    again = f"{kinds}, NIC {side + 1} is reset {moment} steps after the first request"
    world = World(kinds.split(","), 1, None, SMALL_WITH_TENANT)
    try:
        host = world.hosts[side]
        for flow in world.flows:
            for number, kind in enumerate(KINDS_TWICE):
                world.post(flow, kind, number)
        world.step(moment)
        to_it = [flow for flow in world.flows if flow.target is host]
        asked = [(flow, list(flow.outstanding)) for flow in to_it]
        begun = world.network.now
        earlier = host.contexts[:]
        world.reset(host)
        rings = [context.completions[:] for context in earlier]
        while any(flow.outstanding for flow in to_it):
            world.step()
        assert world.network.now - begun < BOUND
        statuses = []
        for _, requests in asked:
            found = [request.status for request in requests]
            # An answer behind one that never came counts: what is OK may stand behind what has failed.
            assert set(found) <= {OK, *ERRORS}, found
            statuses += found
        for flow in world.flows:
            for number, kind in enumerate(KINDS):
                world.post(flow, kind, number)
        report = world.finish()
        assert report.cut_short >= len(statuses)
        assert all(request.status == OK for flow in world.flows for request in flow.requests[-len(KINDS) :])
        assert [context.completions[:] for context in earlier] == rings, "it completed something of its earlier life"
    except AssertionError as error:
        error.add_note(again)
        raise
    finally:
        world.close()
    return statuses
