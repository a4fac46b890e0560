"""Boot lists as words: entries come back, and damage is found."""

import random
import re
import zlib

import pytest
from amoeba_model.boot_list import BOOT_MAGIC, MAX_BOOT_ENTRIES, BootEntry, boot_entries, boot_words
from amoeba_model.registers import BAR_SIZE

ENTRIES = (BootEntry(0x10, 9, waits=True), BootEntry(0x30, 0xFFFF_FFFF), BootEntry(BAR_SIZE - 4, 0))


def test_entries_come_back_from_the_words():
    words = boot_words(ENTRIES)
    assert boot_entries(words) == ENTRIES
    assert words[:4] == (BOOT_MAGIC, 3, 0x8000_0010, 9)
    assert words[-1] == zlib.crc32(b"".join(word.to_bytes(4, "little") for word in words[:-1]))


def test_every_flipped_bit_is_found():
    words = list(boot_words(ENTRIES))
    for place in range(len(words)):
        for bit in range(32):
            damaged = list(words)
            damaged[place] ^= 1 << bit
            with pytest.raises(ValueError, match="expected"):
                boot_entries(damaged)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 8])
def test_a_list_that_is_cut_off_is_found(count):
    with pytest.raises(ValueError, match=r"expected (a boot list|\d+ words in a boot list of 3 entries), "):
        boot_entries(boot_words(ENTRIES)[:count])


def test_random_words_are_no_list():
    generator = random.Random(5)
    for _ in range(200):
        words = [generator.getrandbits(32) for _ in range(generator.randrange(20))]
        with pytest.raises(ValueError, match="expected a boot list"):
            boot_entries(words)
    with pytest.raises(ValueError, match=r"words of 32 bits in a boot list, got 0x100000000"):
        boot_entries([1 << 32])


@pytest.mark.parametrize(
    ("offset", "value", "said"),
    [
        (-4, 0, "multiple of 4 below 0x40000 as offset, got -0x4"),
        (2, 0, "multiple of 4 below 0x40000 as offset, got 0x2"),
        (BAR_SIZE, 0, "got 0x40000"),
        (0x10, -1, "a value of 32 bits for the register at 0x10, got -0x1"),
        (0x10, 1 << 32, "got 0x100000000"),
    ],
)
def test_entries_outside_the_registers_are_refused(offset, value, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        BootEntry(offset, value)


@pytest.mark.parametrize("count", [0, MAX_BOOT_ENTRIES + 1])
def test_lists_without_entries_or_with_too_many_are_refused(count):
    with pytest.raises(ValueError, match=f"expected 1 to {MAX_BOOT_ENTRIES} entries in a boot list, got {count}"):
        boot_words([BootEntry(0x10, 0)] * count)
