"""The key table: as many regions as it has slots, with keys of either side's choice.

Covers ``nic/key_table.py``.
"""

import numpy as np
import pytest
from amoeba import Errno, MrAccess
from amoeba.nic.key_table import KeySlots
from amoeba_model.registers import key_slots
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.driver.endpoints import ALL_ACCESS, refused

KEYS = 1010
READ = MrAccess.FI_REMOTE_READ


def reach(pair, memory, regions, sample):
    """Read word n of ``memory`` through region n, for some of them."""
    client, word = pair[0], np.zeros(1, np.uint64)
    for number in sample:
        client.endpoint.read(word, client.peer, regions[number].address, regions[number].key)
        client.finish()
        assert word[0] == memory[number]


@pytest.mark.full_build
@pytest.mark.parametrize(
    "key_of",
    [
        pytest.param(lambda n: None, id="chosen by the domain"),
        pytest.param(lambda n: n, id="in a row"),
        pytest.param(lambda n: n << 32 | n << 16 | n, id="spread"),
    ],
)
def test_a_thousand_regions_can_be_reached(pair, keep, key_of):
    memory = np.arange(7000, 7000 + KEYS, dtype=np.uint64)
    regions = [
        keep(pair[1].domain.mr_reg(memory[number : number + 1], READ, requested_key=key_of(number)))
        for number in range(KEYS)
    ]
    assert len({region.key for region in regions}) == KEYS
    reach(pair, memory, regions, [0, 1, KEYS // 2, KEYS - 1])
    for region in regions[: KEYS // 2]:
        region.close()
    pair[0].endpoint.read(bytearray(8), pair[0].peer, regions[0].address, regions[0].key)
    assert pair[0].failure().err == Errno.FI_ENOKEY
    reach(pair, memory, regions, [KEYS // 2, KEYS - 1])


@pytest.mark.full_build
def test_a_full_table_says_so_and_has_space_again_for_what_is_closed(pair, keep):
    domain = pair[1].domain
    buffers = [np.array([n], np.uint64) for n in range(KEYS)]
    regions = [keep(domain.mr_reg(buffer, READ)) for buffer in buffers]
    full = "has 1010 of 1024 slots of the key table, and may have no more: 1010 are in use, 14 are kept"
    with refused(Errno.FI_ENOSPC, full):
        domain.mr_reg(bytearray(8), READ)
    with refused(Errno.FI_ENOSPC, full):
        domain.mr_reg(bytearray(8), READ, requested_key=5)
    regions[400].close()
    extra = keep(domain.mr_reg(np.array([99], np.uint64), READ))
    pair[0].endpoint.read(word := np.zeros(1, np.uint64), pair[0].peer, extra.address, extra.key)
    pair[0].finish()
    assert word[0] == 99


@pytest.mark.full_build
def test_keys_that_meet_say_so_while_others_fit(pair, keep):
    domain = pair[1].domain
    same = [n << 16 | n for n in range(1, 10)]  # the halves cancel each other out: all begin at slot 0
    for key in same[:8]:
        keep(domain.mr_reg(bytearray(8), ALL_ACCESS, requested_key=key))
    with refused(Errno.FI_ENOSPC, "choose another key, or let the domain choose"):
        domain.mr_reg(bytearray(8), ALL_ACCESS, requested_key=same[8])
    assert len({keep(domain.mr_reg(bytearray(8), ALL_ACCESS)).key for _ in range(900)}) == 900


@given(st.sampled_from([8, 64, 1024]), st.lists(st.one_of(st.none(), st.integers(0, 40), st.integers(0, 2**64 - 2))))
def test_no_two_keys_share_a_slot_and_each_lies_where_the_nic_looks(size, wanted):
    slots, held = KeySlots(size), {}
    for key in wanted:
        if key in held:
            with refused(Errno.FI_ENOKEY):
                slots.take(key)
            assert slots.release(key) == held.pop(key)
            continue
        free = set(range(size)) - set(held.values())
        if not (free if key is None else free & set(key_slots(key, size))):
            with refused(Errno.FI_ENOSPC):
                slots.choose() if key is None else slots.take(key)
            continue
        key, slot = slots.choose() if key is None else (key, slots.take(key))
        assert slot in key_slots(key, size)
        assert slot not in held.values()
        held[key] = slot
        assert len(slots) == len(held)


@settings(max_examples=5)
@given(st.integers(0, 1023))
def test_the_last_free_slot_is_found(slot):
    slots = KeySlots(1024)
    given_keys = [slots.choose() for _ in range(1024)]
    key = next(key for key, taken in given_keys if taken == slot)
    slots.release(key)
    assert slots.choose()[1] == slot


def test_chosen_keys_cannot_be_guessed_from_each_other():
    slots = KeySlots(1024)
    keys = np.array([slots.choose()[0] for _ in range(KEYS)], np.uint64)
    bits = np.unpackbits(keys.view(np.uint8)).reshape(KEYS, 64).mean(axis=0)
    assert (np.abs(bits - 0.5) < 0.1).all()  # 6.4 standard deviations
