"""Faults of links: by chance, but seeded, so that a run repeats the same faults."""

import functools
import random
from dataclasses import dataclass
from typing import NamedTuple

from amoeba_model.device import DeviceError

__all__ = ["PERFECT", "Copy", "Impairments"]

_MAX_FLIPS = 3
_CHANCES = ("loss", "duplication", "corruption", "reordering")


class Copy(NamedTuple):
    """One copy of a sent frame, which arrives or is lost; a duplicated frame has two."""

    data: bytes
    delay: int = 0
    """Cycles on top of the link's latency; later frames wait behind it."""
    holdback: int = 0
    """Further cycles, in which later frames overtake it."""
    lost: bool = False
    damage: str = ""
    """How ``data`` was changed; empty if it was not."""

    @property
    def remark(self) -> str:
        """Description of the faults, for people; empty without a fault."""
        if self.lost:
            return "lost"
        happened = (
            self.damage,
            f"held back for {self.holdback} cycles" if self.holdback else "",
            f"delayed by {self.delay} cycles" if self.delay else "",
        )
        return ", ".join(filter(None, happened))


@dataclass(frozen=True)
class Impairments:
    """Chances, 0 to 1, that something happens to a frame; after duplication, to each copy for itself.

    The fate of a frame depends on nothing but these parameters, the link's name, how many frames left through
    the link before it, and its length. So equal traffic meets an equal fate, whatever sends it, and however the
    traffic of other links falls in between.

    Raises DeviceError for a chance outside 0 to 1 and a negative time.
    """

    seed: int = 0
    loss: float = 0.0
    duplication: float = 0.0
    """A second copy arrives, too."""
    corruption: float = 0.0
    """One to three bits anywhere in the frame are flipped, or its end is missing; at least a byte is left."""
    reordering: float = 0.0
    """The frame is held back for 1 to ``holdback`` cycles, and later ones overtake it."""
    holdback: int = 2000
    delay: int = 0
    """Every frame takes 0 to ``delay`` cycles longer, equally likely; the order stays."""

    def __post_init__(self) -> None:
        for name in _CHANCES:
            if not 0 <= getattr(self, name) <= 1:
                raise DeviceError(f"the chance of {name} lies between 0 and 1, got {getattr(self, name)}")
        if self.delay < 0:
            raise DeviceError(f"a delay has no negative cycles, got {self.delay}")
        if self.holdback < 1:
            raise DeviceError(f"a frame is held back for at least one cycle, got {self.holdback}")

    def fate(self, link: str, number: int, data: bytes) -> list[Copy]:
        """Decide the fate of frame ``number``, from 0, of a link."""
        if self.is_perfect:
            return [Copy(data)]
        chance = random.Random(f"{self.seed}/{link}/{number}")
        copies = 2 if chance.random() < self.duplication else 1
        return [self._fate_of_copy(chance, data) for _ in range(copies)]

    @functools.cached_property
    def is_perfect(self) -> bool:
        """Nothing happens to any frame."""
        return not self.delay and not any(getattr(self, name) for name in _CHANCES)

    def _fate_of_copy(self, chance: random.Random, data: bytes) -> Copy:
        if chance.random() < self.loss:
            return Copy(data, lost=True)
        delay = chance.randint(0, self.delay)
        holdback = chance.randint(1, self.holdback) if chance.random() < self.reordering else 0
        damage = ""
        if chance.random() < self.corruption:
            data, damage = _damaged(chance, data)
        return Copy(data, delay, holdback, damage=damage)


PERFECT = Impairments()
"""Nothing goes wrong."""


def _damaged(chance: random.Random, data: bytes) -> tuple[bytes, str]:
    """Damage a frame, and return it with a description of the damage."""
    kind = chance.randint(0, _MAX_FLIPS)
    if kind == 0 and len(data) > 1:
        length = chance.randrange(1, len(data))
        return data[:length], f"cut off after {length} bytes"
    bits = sorted(chance.sample(range(8 * len(data)), kind or 1))
    flipped = bytearray(data)
    for bit in bits:
        flipped[bit // 8] ^= 1 << bit % 8
    return bytes(flipped), f"bits flipped: {', '.join(map(str, bits))}"
