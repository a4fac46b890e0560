"""Where PDCs begin that the NIC opens again."""

import pytest
from amoeba_model.descriptors import DescriptorOpcode
from amoeba_model.nic.first_psns import DISTANCE, encrypt, first_psn
from amoeba_model.nic.pdc import LATE_LIMIT
from hypothesis import given
from hypothesis import strategies as st

from tests.support.lossy_bench import FIRST_PSN, Bench
from tests.support.raw_driver import Pair

PSNS = 1 << 32
WORDS = st.integers(0, PSNS - 1)
KEYS = st.tuples(WORDS, WORDS, WORDS)


def test_the_hash_is_the_published_cipher() -> None:
    """Speck64/96's test vector, from the appendix of the paper."""
    key = (0x13121110, 0x0B0A0908, 0x03020100)
    assert encrypt(key, 0x74614620, 0x736E6165) == (0x9F7952EC, 0x4175946C)


@given(KEYS, st.integers(0, 0xFFFF), WORDS)
def test_a_pdc_begins_far_from_where_it_ended(key: tuple[int, int, int], pdc: int, psn: int) -> None:
    distance = (first_psn(key, pdc, psn) - psn) % PSNS
    assert LATE_LIMIT < DISTANCE <= distance <= PSNS - DISTANCE


@pytest.mark.parametrize("distance", [0, 1, DISTANCE - 1, PSNS - DISTANCE, PSNS - 1])
def test_a_hash_that_is_too_near_counts_from_the_opposite_side(
    monkeypatch: pytest.MonkeyPatch, distance: int
) -> None:
    monkeypatch.setattr("amoeba_model.nic.first_psns.encrypt", lambda key, high, low: (distance, 0))
    assert first_psn((0, 0, 0), 0, 5) == (5 + distance + (1 << 31)) % PSNS


def test_each_key_pdc_and_psn_has_another_place() -> None:
    places = {
        (first_psn((key, 0, 0), pdc, psn) - psn) % PSNS for key in range(10) for pdc in range(10) for psn in range(10)
    }
    assert len(places) == 1000


def firsts(pair: Pair, key: list[int]) -> list[int]:
    """The first psns of three epochs of the same PDC, in which the NIC sends two packets each."""
    for word, value in enumerate(key):
        pair.initiator.set("device", word, psn_key=value)
    bench = Bench(pair)
    for _ in range(3):
        bench.post(bench.write(1), {"opcode": DescriptorOpcode.CLOSE, "flags": 1})
        assert bench.statuses(2) == [1, 1]
    return [header.psn for header in bench.frames() if header.is_request and not header.is_control]


def test_the_nic_opens_a_pdc_again_where_its_key_says(device_pair: Pair) -> None:
    key = [0x1234_5678, 0x9ABC_DEF0, 0x0F1E_2D3C]
    first, second, third = firsts(device_pair, key)
    assert first == FIRST_PSN
    assert second == first_psn((key[0], key[1], key[2]), 0, first + 2)
    assert third == first_psn((key[0], key[1], key[2]), 0, (second + 2) % PSNS)
