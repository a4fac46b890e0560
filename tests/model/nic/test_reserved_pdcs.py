"""Target PDCs that are kept for the contexts: one for each that is enabled, whoever takes all others."""

from collections.abc import Callable
from itertools import count

import pytest
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import KeyFlags
from amoeba_model.wire.codec import NO_PDC
from amoeba_model.wire.uet import NackCode, ReturnCode

from tests.support.raw_driver import ALL_RIGHTS, Pair
from tests.support.stranger import Stranger

MakePair = Callable[..., Pair]
PDCS, CONTEXTS = 8, 2
FREE = PDCS - CONTEXTS
"""Numbers that are kept for nobody."""
FULL = NackCode.NO_PDC_AVAIL
IDLE = 40
"""Timeouts after which a PDC is idle, with limit 0: more than 32."""


class Clients:
    """Of the contexts of one NIC; each comes with an spdcid of its own."""

    def __init__(self, pair: Pair) -> None:
        self.stranger = Stranger(pair)
        self.target = pair.target
        self.target.set("device", retransmit_limit=0)
        pair.memory(flags=ALL_RIGHTS & ~KeyFlags.VIRTUAL)
        for context in range(1, CONTEXTS):
            self.enable(context)
        self._spdcids = count(1000)

    def enable(self, context: int, *, enabled: bool = True) -> None:
        self.target.set("contexts", context, control=0)
        if enabled:
            self.target.context(context)

    def new(self, context: int, *, proves: bool = True) -> int | NackCode:
        """The number of the PDC that a new client gets, or how it is refused."""
        return self.come(next(self._spdcids), context, proves=proves)

    def come(self, spdcid: int, context: int, psn: int = 900, *, proves: bool = True) -> int | NackCode:
        fields = {} if proves else {"memory_key": 99}
        header = self.stranger.header(spdcid=spdcid, psn=psn, dpdcid=0, resource_index=context, **fields)
        self.stranger.send(self.stranger.frame(header))
        (answer,) = self.stranger.answers()
        if answer.header.is_control:
            assert answer.header.spdcid == NO_PDC
            return NackCode(answer.header.nack_code)
        assert (answer.header.return_code == ReturnCode.OK) == proves
        return answer.header.spdcid

    def many(self, context: int) -> list[int | NackCode]:
        """As many as there are PDCs."""
        return [self.new(context) for _ in range(PDCS)]

    def idle(self) -> None:
        """Let all PDCs that there are become so."""
        until = self.stranger.device.cycles + IDLE * self.target.get("device", "retransmit_timeout")
        while self.stranger.device.cycles < until:
            self.stranger.pair.run(1)


@pytest.fixture
def clients(make_model_pair: MakePair) -> Clients:
    return Clients(make_model_pair(NicParameters(target_pdcs=PDCS, contexts=CONTEXTS)))


@pytest.mark.parametrize(
    ("pdcs", "contexts", "kept"),
    [(64, 8, range(56, 64)), (8, 2, range(6, 8)), (4, 2, range(4, 4)), (2, 1, range(2, 2)), (4, 1, range(3, 4))],
)
def test_a_quarter_of_the_table_is_kept_at_most(pdcs: int, contexts: int, kept: range) -> None:
    assert NicParameters(target_pdcs=pdcs, contexts=contexts).reserved_pdcs == kept


def test_clients_of_one_context_leave_the_others_one_each(clients: Clients) -> None:
    assert clients.many(0) == [*range(FREE), FREE, FULL]
    assert [clients.new(1), clients.new(1)] == [FREE + 1, FULL]
    # It stays so when all are idle.
    clients.idle()
    taken = clients.many(0)
    assert set(taken[:-1]) == set(range(FREE + 1))
    assert taken[-1] == FULL
    assert clients.new(1) == FREE + 1


def test_those_that_pass_no_check_keep_what_is_kept_from_nobody(clients: Clients) -> None:
    clients.many(0)
    assert [clients.new(1, proves=False) for _ in range(3)] == [FREE + 1] * 3
    assert clients.new(1) == FREE + 1
    assert clients.new(1, proves=False) == FULL


def test_what_is_kept_for_a_context_is_anybody_s_while_it_is_disabled(clients: Clients) -> None:
    clients.enable(1, enabled=False)
    assert clients.many(0) == list(range(PDCS))
    # Whom it was given to keeps it, until it is idle.
    clients.enable(1)
    assert clients.new(1) == FULL
    clients.idle()
    assert FREE + 1 not in clients.many(0)
    assert clients.new(1) == FREE + 1


def test_a_context_that_there_is_not_has_nothing_kept_for_it(clients: Clients) -> None:
    taken = [clients.new(CONTEXTS + 7, proves=False) for _ in range(PDCS)]
    assert taken == [*range(FREE), 0, 1]  # those that have passed no check are evictable
    assert clients.many(1) == [*[FREE + 1], *range(2, FREE), 0, 1, FULL]


def test_a_client_s_own_evictable_pdc_is_taken_again_only_if_it_is_kept_for_nobody_else(clients: Clients) -> None:
    clients.enable(1, enabled=False)
    taken = [clients.come(10 + number, 0) for number in range(PDCS)]
    assert taken == list(range(PDCS))
    clients.enable(1)
    clients.idle()
    assert clients.new(0) == 0  # the one unused for longest
    assert clients.come(10 + FREE, 0, psn=5000) == FREE
    assert clients.come(10 + FREE + 1, 0, psn=5000) == 1
    assert clients.come(10 + FREE + 1, 1, psn=7000) == FREE + 1
