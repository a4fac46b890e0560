"""The key table of a NIC: the keys by which peers reach memory. Every call takes constant time."""

import secrets

from amoeba_model.registers import KeyFlags, key_slots

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.core.log import logger
from amoeba.nic.quotas import Quota
from amoeba.nic.registers import Registers

__all__ = ["KeySlots", "KeyTable"]

_log = logger("nic.keys")
_KEY_BITS = 64
_NO_KEY = 2**_KEY_BITS - 1
"""Value of FI_KEY_NOTAVAIL."""
_KEPT = 64
"""One slot in this many is kept for other domains: enough for each to proceed."""
_FOLD_BITS = 16
"""A key's slot depends on the exclusive-or of its parts of this many bits."""


class KeySlots:
    """The slots of a key table, and the keys in them."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._slots: dict[int, int] = {}
        """Slot by key."""
        self._free = list(range(size))
        self._position = list(range(size))
        """Position of each slot in ``_free``; -1 if the slot is taken."""

    def __len__(self) -> int:
        """Keys in the table."""
        return len(self._slots)

    def take(self, key: int) -> int:
        """Take a slot for a key that the application chose.

        Raises FI_EINVAL for an invalid key, FI_ENOKEY if the key is in the table, FI_ENOSPC if all slots in which
        it may lie are taken.
        """
        if not 0 <= key < _NO_KEY:
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
        """Choose an unguessable key for any free slot; return both. Raises FI_ENOSPC when all slots are in use."""
        if not self._free:
            raise fabric_error(Errno.FI_ENOSPC, f"all {self.size} slots of the key table are in use")
        slot = secrets.choice(self._free)
        while True:
            key = secrets.randbits(_KEY_BITS)
            first = next(key_slots(key, self.size))
            # flips the bits of the lowest part that make the fold differ from the slot
            key ^= (first ^ slot) & (1 << _FOLD_BITS) - 1
            if key not in self._slots and key != _NO_KEY:
                self._enter(key, slot)
                return key, slot

    def slot_of(self, key: int) -> int:
        """Return the slot of a key in the table."""
        return self._slots[key]

    def release(self, key: int) -> int:
        """Take a key out of the table; returns its slot."""
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


class KeyTable:
    """The keys of one NIC, and the regions they stand for."""

    def __init__(self, registers: Registers) -> None:
        self._registers = registers
        parameters = registers.parameters
        self._slots = KeySlots(parameters.keys)
        self._quota = Quota(
            "slots of the key table", "protection domain", parameters.keys, parameters.contexts, _KEPT
        )

    def __len__(self) -> int:
        """Keys in the table."""
        return len(self._slots)

    def store(self, key: int | None, base: int, length: int, domain: int, flags: KeyFlags) -> int:
        """Enter a region into the key table under ``key``, or under an unguessable one if None; returns the key.

        When this returns, the NIC accepts requests for the key. Raises FI_EINVAL for an invalid key, and FI_ENOKEY
        for a key in use on this NIC. Raises FI_ENOSPC if all slots where the key may lie are taken, or kept for other
        domains.
        """
        self._quota.require(domain)
        if key is None:
            key, slot = self._slots.choose()
        else:
            slot = self._slots.take(key)
        self._quota.assign(key, domain)
        self._write(slot, key, base, length, domain, flags | KeyFlags.VALID)
        self._registers.flush()
        # not the key: anyone who knows the key may use it
        _log.debug("key in slot %d: %d bytes at %#x, domain %d, %s", slot, length, base, domain, flags)
        return key

    def count(
        self, key: int, base: int, length: int, domain: int, flags: KeyFlags, read_counter: int, write_counter: int
    ) -> None:
        """Store a key in use again, with event counters of peers' operations by the key; 0: none."""
        slot = self._slots.slot_of(key)
        self._write(slot, key, base, length, domain, flags | KeyFlags.VALID, read_counter, write_counter)
        self._registers.flush()

    def remove(self, key: int) -> None:
        """Invalidate a key; when this returns, the NIC accepts no more requests for it."""
        slot = self._slots.release(key)
        self._quota.release(key)
        self._write(slot, 0, 0, 0, 0, KeyFlags(0))
        self._registers.flush()
        _log.debug("key in slot %d: withdrawn", slot)

    def _write(
        self,
        slot: int,
        key: int,
        base: int,
        length: int,
        domain: int,
        flags: KeyFlags,
        read_counter: int = 0,
        write_counter: int = 0,
    ) -> None:
        self._registers.write_wide("keys", "key", key)
        self._registers.write_wide("keys", "base", base)
        self._registers.write_wide("keys", "length", length)
        self._registers.write("keys", "domain", domain)
        self._registers.write("keys", "flags", flags)
        self._registers.write("keys", "read_counter", read_counter)
        self._registers.write("keys", "write_counter", write_counter)
        self._registers.write("keys", "store", slot)
