"""Nobody takes a whole table of the NIC: each context, or protection domain, finds its reserve."""

import random

import numpy as np
import pytest
from amoeba import BindFlags, FabricError, Op
from amoeba.core.errno import Errno
from amoeba.nic.address import EndpointAddress
from amoeba.nic.nic import Nic
from amoeba.nic.quotas import Quota
from amoeba_model.nic.device import ModelDevice
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import KeyFlags

from tests.driver.endpoints import ALL_ACCESS, ON_MODEL, make_side, refused

CONTEXTS = 4
ADDRESS = EndpointAddress(bytes(6), 0x0A00_0001, 1, 1, 0, 1)


@pytest.fixture
def nic():
    with ModelDevice(NicParameters(contexts=CONTEXTS, peers=64, keys=64, event_counters=64)) as device:
        yield Nic(device)


def fill(take):
    """How often it goes, and why not once more."""
    for count in range(2000):
        try:
            if not take():
                return count, None
        except FabricError as error:
            return count, str(error)
    raise AssertionError("there is no end to it")


@pytest.mark.parametrize("total", [1, 3, 8, 15, 16, 31, 63, 64, 128, 1000])
@pytest.mark.parametrize("contexts", [1, 2, 8])
def test_every_party_finds_its_reserve_whatever_the_others_take(total, contexts):
    quota = Quota("things", "context", total, contexts)
    for greedy in range(contexts):
        fill(lambda greedy=greedy: quota.take(greedy) or True)
    assert all(quota.used(party) >= quota.reserve for party in range(contexts))
    assert sum(quota.used(party) for party in range(contexts)) == total
    assert quota.reserve * contexts <= total // 2 or contexts == 1 or quota.reserve == 0


@pytest.mark.parametrize("seed", range(10))
def test_any_order_of_taking_and_releasing_keeps_the_accounts(seed):
    rng = random.Random(seed)
    total, contexts = rng.choice([16, 40, 64]), 4
    quota = Quota("things", "context", total, contexts)
    used = [0] * 6  # more parties than contexts, as domains can be
    for _ in range(2000):
        party = rng.randrange(6)
        if rng.random() < 0.4 and used[party]:
            quota.put_back(party)
            used[party] -= 1
        elif quota.space(party):
            quota.take(party)
            used[party] += 1
        else:
            with pytest.raises(FabricError):
                quota.take(party)
        assert [quota.used(each) for each in range(6)] == used
        assert sum(used) <= total
        if not any(used[contexts:]):  # then reserves can be had at any time
            least = [max(0, quota.reserve - count) for count in used[:contexts]]
            assert total - sum(used) >= sum(least), f"seed {seed}: {used}"


def test_one_context_does_not_take_all_peers(nic):
    took, why = fill(lambda: nic.peers.open(0, ADDRESS, 0) >= 0)
    assert took == 64 - 3 * 2
    assert why is not None
    assert "context 0 has 58 of 64 peer table entries" in why
    assert "58 are in use, 6 are kept, 2 for every context" in why
    entries = [nic.peers.open(context, ADDRESS, 0) for context in (1, 2, 3) for _ in range(2)]
    with pytest.raises(FabricError, match="all 64 peer table entries are in use"):
        nic.peers.open(3, ADDRESS, 0)
    nic.peers.close(entries[0])  # of context 1, for which it is kept
    assert [nic.peers.space(context) for context in range(4)] == [0, 1, 0, 0]


def test_one_domain_does_not_take_all_keys(nic):
    def store(domain):
        return nic.keys.store(None, 4096, 64, domain, KeyFlags.REMOTE_READ)

    keys = []
    took, why = fill(lambda: keys.append(store(5)) or True)
    assert took == 61
    assert why is not None
    assert "protection domain 5 has 61 of 64 slots of the key table" in why
    assert store(6)
    nic.keys.remove(keys[0])
    assert store(5)
    with pytest.raises(FabricError, match="may have no more"):
        store(5)


def test_one_domain_does_not_take_all_event_counters(nic):
    took, _ = fill(lambda: nic.event_counters.take(7))
    assert took == 63 - 3
    assert "protection domain 7 has 60 of 63 event counters" in nic.event_counters.refusal(7)
    number = nic.event_counters.take(8)
    assert number
    nic.event_counters.release(number)
    assert nic.event_counters.take(7) == 0


def test_a_table_with_few_entries_is_whoever_comes_first_s():
    quota = Quota("things", "context", 7, 4)
    assert quota.reserve == 0
    assert fill(lambda: quota.take(0) or True) == (7, "FI_ENOSPC: all 7 things are in use")


@ON_MODEL
def test_who_comes_after_somebody_greedy_still_works(fabric, pair, target, keep):
    """One endpoint took all peers, one domain all keys and event counters: the next could do nothing at all."""
    memory, region = target
    greedy, nic = pair[0], fabric.nics[0]
    name = pair[1].endpoint.getname()
    _, why = fill(lambda: greedy.peers.insert(name) >= 0)
    assert why is not None
    assert "peer table entries, and may have no more" in why
    registered = bytearray(8)
    _, why = fill(lambda: keep(greedy.domain.mr_reg(registered, ALL_ACCESS)).key >= 0)
    assert why is not None
    assert "slots of the key table, and may have no more" in why
    counters = [keep(greedy.domain.cntr_open()) for _ in range(nic.parameters.event_counters)]
    with refused(Errno.FI_ENOSPC, "event counters, and may have no more"):
        keep(greedy.domain.endpoint()).bind(counters[-1], BindFlags.FI_REMOTE_READ)
    other = keep(make_side(keep(fabric.domain(0))))
    own = keep(other.domain.mr_reg(word := np.zeros(1, np.uint64), ALL_ACCESS))
    counter = keep(other.domain.cntr_open())
    own.bind(counter, BindFlags.FI_REMOTE_WRITE)
    other.endpoint.atomic(np.uint64(5), other.peers.insert(name), region.address, region.key, Op.FI_SUM)
    other.finish()
    assert memory[0] == 5
    back = pair[1].peers.insert(other.endpoint.getname())
    pair[1].endpoint.write(np.array([9], np.uint64), back, own.address, own.key)
    pair[1].finish()
    counter.wait(1, timeout=30)
    assert word[0] == 9
