"""Which slot of the NIC's key table holds which key. Every call takes the same time, however full the table is."""

import secrets

from amoeba_model.registers import key_slots

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.fabric.constants import FI_KEY_NOTAVAIL

__all__ = ["KeySlots"]

_KEY_BITS = 64
_FOLD_BITS = 16
"""A key's slot depends on the exclusive-or of its parts of so many bits."""


class KeySlots:
    """The slots of a key table, and the keys in them."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._slots: dict[int, int] = {}
        """Slot by key."""
        self._free = list(range(size))
        self._position = list(range(size))
        """Where in ``_free`` a slot stands; -1 if it is taken."""

    def __len__(self) -> int:
        """Keys in the table."""
        return len(self._slots)

    def take(self, key: int) -> int:
        """A slot for a key that the application chose.

        Raises FI_EINVAL for what is no key, FI_ENOKEY if it is in the table, FI_ENOSPC if all slots in which it may
        lie are taken.
        """
        if not 0 <= key < FI_KEY_NOTAVAIL:
            raise fabric_error(Errno.FI_EINVAL, f"a key has 64 bits and is not FI_KEY_NOTAVAIL, got {key:#x}")
        if key in self._slots:
            raise fabric_error(Errno.FI_ENOKEY, f"key {key:#x} is in use")
        slot = next((slot for slot in key_slots(key, self.size) if self._position[slot] >= 0), None)
        if slot is None:
            raise fabric_error(
                Errno.FI_ENOSPC,
                f"all slots of the key table for key {key:#x} are taken ({len(self)} of {self.size} in use): "
                "choose another key, or let the domain choose",
            )
        self._enter(key, slot)
        return slot

    def choose(self) -> tuple[int, int]:
        """(key, slot): a key nobody can guess, for any of the free slots. Raises FI_ENOSPC if there is none."""
        if not self._free:
            raise fabric_error(Errno.FI_ENOSPC, f"all {self.size} slots of the key table are in use")
        slot = secrets.choice(self._free)
        while True:
            key = secrets.randbits(_KEY_BITS)
            first = next(key_slots(key, self.size))
            # flips the bits of the lowest part that make the fold differ from the slot
            key ^= (first ^ slot) & (1 << _FOLD_BITS) - 1
            if key not in self._slots and key != FI_KEY_NOTAVAIL:
                self._enter(key, slot)
                return key, slot

    def slot_of(self, key: int) -> int:
        """The slot of a key in the table."""
        return self._slots[key]

    def give_back(self, key: int) -> int:
        """Take a key out of the table; the slot it was in."""
        slot = self._slots.pop(key)
        self._position[slot] = len(self._free)
        self._free.append(slot)
        return slot

    def _enter(self, key: int, slot: int) -> None:
        position, last = self._position[slot], self._free.pop()
        if last != slot:
            self._free[position] = last
            self._position[last] = position
        self._position[slot] = -1
        self._slots[key] = slot
