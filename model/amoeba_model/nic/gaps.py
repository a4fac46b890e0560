"""GapStore: packets that came before their turn, until those in front of them have come, too."""

from typing import NamedTuple

from amoeba_model.nic.core import Core
from amoeba_model.wire.codec import FrameHeader

__all__ = ["GapStore", "KeptPacket"]


class KeptPacket(NamedTuple):
    header: FrameHeader
    payload: bytes
    pdc: int
    """Number of its PDC."""
    since: int
    """Cycle in which it was kept."""


class GapStore:
    """``out_of_order_entries`` slots that all PDCs share, numbered from 0: each holds one packet.

    A slot is free, or to be had again when its packet has waited for ``retransmit_timeout``: its sender then sends
    that again anyway, and nobody can fill all slots for good.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._slots: list[KeptPacket | None] = [None] * core.parameters.out_of_order_entries
        self._places: dict[tuple[int, int], int] = {}
        """Slot of the packet of (PDC, psn)."""

    def holds(self, pdc: int, psn: int) -> bool:
        return (pdc, psn) in self._places

    def keep(self, header: FrameHeader, payload: bytes, pdc: int) -> int | None:
        """Keep a packet that is not kept yet: how many others are thrown away for it, 0 or 1; None: there is no slot.

        It is given the first free slot, else the first whose packet has waited for too long.
        """
        now = self._core.now
        thrown = 0
        if len(self._places) < len(self._slots):
            slot = self._slots.index(None)
        else:
            before = now - self._core.retransmit_timeout
            late = (slot for slot, kept in enumerate(self._slots) if kept is not None and kept.since < before)
            found = next(late, None)
            if found is None:
                return None
            slot, thrown = found, 1
            self._free(slot)
        self._slots[slot] = KeptPacket(header, payload, pdc, now)
        self._places[pdc, header.psn] = slot
        return thrown

    def take(self, pdc: int, psn: int) -> KeptPacket | None:
        """Take the packet of this psn out of its slot; None if it was not kept."""
        slot = self._places.get((pdc, psn)) if self._places else None
        return None if slot is None else self._free(slot)

    def forget(self, pdc: int) -> int:
        """Throw away all packets of a PDC; returns how many these were."""
        if not self._places:
            return 0
        slots = [slot for (owner, _), slot in self._places.items() if owner == pdc]
        for slot in slots:
            self._free(slot)
        return len(slots)

    def _free(self, slot: int) -> KeptPacket:
        kept = self._slots[slot]
        assert kept is not None
        self._slots[slot] = None
        del self._places[kept.pdc, kept.header.psn]
        return kept
