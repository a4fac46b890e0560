"""Boot lists: the register writes that put a NIC without a host in service, as words of a ROM.

A list is words of 32 bits: :data:`BOOT_MAGIC`, the number of entries, two words for each entry, and a CRC-32
(IEEE 802.3) of all words before it, as bytes with the least significant first. The first word of an entry is the
offset in the BAR, with :data:`WAIT_BIT` for an entry that waits; the second word is the value.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from amoeba_model.registers import BAR_SIZE

__all__ = ["BOOT_MAGIC", "MAX_BOOT_ENTRIES", "WAIT_BIT", "BootEntry", "boot_entries", "boot_words"]

BOOT_MAGIC = 0x414D_4201
"""First word of a list; its last byte is the version of the format."""
WAIT_BIT = 31
"""Bit of an entry's first word: the entry waits until the register reads as the value."""
MAX_BOOT_ENTRIES = 4096
_WORD = 0xFFFF_FFFF
_AROUND = 3
"""Words that belong to no entry: the magic number, the number of entries, the CRC."""


@dataclass(frozen=True)
class BootEntry:
    """A register write; or a wait until a register reads as a value.

    Raises ValueError for an offset outside the BAR or no multiple of 4, and for a value that exceeds 32 bits.
    """

    offset: int
    value: int
    waits: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.offset < BAR_SIZE or self.offset % 4:
            raise ValueError(f"expected a multiple of 4 below {BAR_SIZE:#x} as offset, got {self.offset:#x}")
        if not 0 <= self.value <= _WORD:
            raise ValueError(f"expected a value of 32 bits for the register at {self.offset:#x}, got {self.value:#x}")


def boot_words(entries: Sequence[BootEntry]) -> tuple[int, ...]:
    """Return the words of a list with these entries. Raises ValueError for none, or too many."""
    if not 1 <= len(entries) <= MAX_BOOT_ENTRIES:
        raise ValueError(f"expected 1 to {MAX_BOOT_ENTRIES} entries in a boot list, got {len(entries)}")
    words = [BOOT_MAGIC, len(entries)]
    for entry in entries:
        words += [entry.offset | entry.waits << WAIT_BIT, entry.value]
    return (*words, _crc(words))


def boot_entries(words: Sequence[int]) -> tuple[BootEntry, ...]:
    """Invert :func:`boot_words`. Raises ValueError for words that are no boot list, or a damaged one."""
    for word in words:
        if not 0 <= word <= _WORD:
            raise ValueError(f"expected words of 32 bits in a boot list, got {word:#x}")
    if len(words) <= _AROUND or words[0] != BOOT_MAGIC:
        first = f"{words[0]:#x}" if words else "nothing"
        raise ValueError(f"expected a boot list, which begins with {BOOT_MAGIC:#x}, got {first}")
    if len(words) != _AROUND + 2 * words[1]:
        raise ValueError(
            f"expected {_AROUND + 2 * words[1]} words in a boot list of {words[1]} entries, got {len(words)}"
        )
    if words[-1] != _crc(words[:-1]):
        raise ValueError(
            f"expected the CRC {_crc(words[:-1]):#010x} at the end of the boot list, got {words[-1]:#010x}"
        )
    pairs = zip(words[2:-1:2], words[3:-1:2], strict=True)
    return tuple(BootEntry(first & ~(1 << WAIT_BIT), value, bool(first >> WAIT_BIT)) for first, value in pairs)


def _crc(words: Sequence[int]) -> int:
    return zlib.crc32(b"".join(word.to_bytes(4, "little") for word in words))
