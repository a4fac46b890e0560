"""A target with fewer PDCs than there are clients: all are served, and nothing is executed twice."""

import random
from collections.abc import Callable

import pytest
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import Counter
from amoeba_model.wire.uet import ReturnCode

from tests.support.lossy_bench import Bench
from tests.support.raw_driver import Pair
from tests.support.saboteur import chance
from tests.support.stranger import Stranger

MakePair = Callable[..., Pair]
OK, FAILED = ReturnCode.OK, ReturnCode.LOCAL_PDC_FAILED
CLIENTS = 200
TIMEOUT = 2000
SEED = 20


class Clients:
    """Peer table entries of one NIC, each the PDC of a client of its own, that add 1 to the same number."""

    def __init__(self, make_pair: MakePair, count: int, pdcs: int) -> None:
        self.bench = Bench(make_pair(NicParameters(peers=256, target_pdcs=pdcs)), timeout=TIMEOUT, limit=3)
        self.pair = self.bench.pair
        self.pair.target.set("device", retransmit_timeout=TIMEOUT, retransmit_limit=3)
        self.random = random.Random(SEED)
        self.results: list[int] = []
        """Of all additions that were OK."""
        for client in range(count):
            self.start(client)

    def start(self, client: int) -> None:
        """Also anew, as a process does that takes the place of one that was killed: nothing was closed."""
        self.pair.initiator.peer(client, self.pair.remote, initial_psn=self.random.getrandbits(32))

    def add(self, clients: list[int]) -> list[int]:
        """An addition of each, all at once; the clients whose addition failed."""
        size = 8
        failed = []
        for begin in range(0, len(clients), size):
            some = clients[begin : begin + size]
            for place, client in enumerate(some):
                self.pair.local.put(
                    **self.bench.add(peer=client, context=place, result=self.bench.result.address + 8 * place)
                )
            self.pair.local.ring()
            for _ in some:
                entry = self.pair.local.completion(400_000)
                assert entry["status"] in (OK, FAILED), f"seed {SEED}"
                if entry["status"] == OK:
                    self.results.append(self.bench.result.integer(8 * entry["context"]))
                else:
                    failed.append(some[entry["context"]])
        return failed

    def number(self) -> int:
        return self.bench.region.integer(0)


def test_200_clients_are_served_by_64_pdcs_though_nobody_closes_any(make_model_pair: MakePair) -> None:
    clients = Clients(make_model_pair, CLIENTS, 64)
    for _ in range(2):
        order = clients.random.sample(range(CLIENTS), CLIENTS)
        assert clients.add(order) == [], f"seed {SEED}"
    assert sorted(clients.results) == list(range(2 * CLIENTS))
    assert clients.number() == 2 * CLIENTS
    assert clients.bench.here(Counter.FAILED_PDCS) == 0
    assert clients.bench.there(Counter.DROPPED_PDC) > 0  # they had to wait for one another


def test_clients_that_are_killed_and_come_back_take_no_pdc_for_good(make_model_pair: MakePair) -> None:
    clients = Clients(make_model_pair, 16, 8)
    for round_ in range(5):
        assert clients.add(list(range(16))) == [], f"round {round_}, seed {SEED}"
        for client in clients.random.sample(range(16), 8):
            clients.start(client)
    assert sorted(clients.results) == list(range(5 * 16))


def test_with_frames_lost_no_addition_is_made_twice_and_what_is_ok_was_made(make_model_pair: MakePair) -> None:
    clients = Clients(make_model_pair, 24, 8)

    clients.bench.requests.fate = clients.bench.answers.fate = chance(clients.random, 0.02)
    attempts = failures = 0
    for _ in range(5):
        failed = clients.add(list(range(24)))
        for client in failed:
            clients.start(client)
        attempts, failures = attempts + 24, failures + len(failed)
    assert len(set(clients.results)) == len(clients.results) == attempts - failures, f"seed {SEED}"
    assert attempts - failures <= clients.number() <= attempts
    assert failures < attempts // 10


def test_who_finds_no_pdc_waits_for_one_and_nothing_is_executed_meanwhile(make_model_pair: MakePair) -> None:
    clients = Clients(make_model_pair, 3, 2)
    clients.pair.target.set("device", retransmit_timeout=1 << 30)  # nothing is ever idle
    assert clients.add([0, 1]) == []
    clients.pair.local.post(**clients.bench.add(peer=2, context=0))
    clients.pair.run(500)
    assert clients.pair.local.poll() is None
    assert clients.number() == 2
    clients.pair.target.set("device", retransmit_timeout=TIMEOUT)
    assert clients.pair.local.completion(20_000)["status"] == OK
    assert clients.number() == 3


@pytest.mark.parametrize("first", [0, 17, 1 << 31, (1 << 32) - 1])
def test_one_forged_syn_closes_nothing(make_model_pair: MakePair, first: int) -> None:
    """Any psn, with the name of a PDC that is open: it gets a place of its own, if it says nothing wrong."""
    clients = Clients(make_model_pair, 1, 4)
    assert clients.add([0]) == []
    forger = Stranger(clients.pair, mac=clients.pair.initiator.mac, ip=clients.pair.initiator.ip, spdcid=0)
    for _ in range(8):
        forger.send(forger.frame(forger.header(psn=first, dpdcid=0)))
        first = (first + (1 << 20)) & 0xFFFF_FFFF
    assert clients.add([0]) == []
    assert (clients.number(), clients.bench.here(Counter.FAILED_PDCS)) == (2, 0)
    assert clients.bench.here(Counter.TIMEOUTS) == 0
