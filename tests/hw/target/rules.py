"""The rules of hw/amoeba_hw/target/README.md, written anew: the result of a packet by its PDC and psn.

Independent of model and hardware: psns are plain differences, PDCs dictionaries. Codes are typed by hand.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["END", "HEADER_DATA", "MESSAGES", "NO_PDC_AVAIL", "START", "Pdc", "Sequence", "Verdict", "signed"]

NO_PDC_AVAIL, NO_RESOURCE, PSN_OOR_WINDOW, ROD_OOO, INV_DPDCID = 4, 0xA, 0xB, 0xD, 0xE
CLOSING, INVALID_SYN = 0x10, 0x15
NO_PDC = 0xFFFF
START, END, HEADER_DATA = 1, 2, 4
READ = 2
MESSAGES = {5, 6, 9, 0xA, 0xD, 0xE}
"""SEND, RENDEZVOUS_SEND, TAGGED_SEND, RENDEZVOUS_TSEND, TSEND_ATOMIC, TSEND_FETCH_ATOMIC."""


def signed(value, bits=32):
    """The number that ``bits`` bits mean in two's complement."""
    value &= (1 << bits) - 1
    return value - (value >> (bits - 1) << bits)


class Verdict(NamedTuple):
    """``kind``: accepted, duplicate, dropped_pdc, dropped_sequence or kept; ``nack``: (code, psn, PDC) or None."""

    kind: str
    pdc: int | None
    nack: tuple[int, int, int] | None = None
    missing: int = 0
    """The packet's NACK code."""
    entered: int | None = None
    """The slot of one that is kept."""


@dataclass
class Pdc:
    sender: tuple[int, int]
    start: int
    expected: int
    asked: int
    """Behind the furthest packet that is kept or was asked for."""
    closed: bool = False
    expelled: bool = False
    """The PDC was closed by a register."""
    job: int = 0
    context: int = 0
    """Of the request that came last."""
    nacked: bool = False
    data_pending: bool = False
    """The message that began last has immediate data, and more packets."""
    message: object = None
    """The message that has begun, as the bench keeps it."""
    proven: bool = False
    unfinished: bool = False
    """The request that was accepted last has no END."""
    accepted: list = field(default_factory=list)
    """psns accepted since it was opened; given as answers in this order."""


class Sequence:
    """All target PDCs."""

    def __init__(self, pdcs, window, out_of_order_entries, contexts):
        self.table = [None] * pdcs
        self.owners = [None] * (pdcs - contexts) + list(range(contexts)) if pdcs >= 4 * contexts else [None] * pdcs
        """Per number: the context for which alone it is, while that is enabled."""
        self.enabled = set(range(contexts))
        self.slots = [None] * out_of_order_entries
        """Per slot: (PDC, header, whether it is late) of a packet that is kept."""
        self.former = {}
        """Connections that executed a request, and whose PDC is another's; by the hash that has space for one."""
        self.thrown = 0
        """Packets that were kept in vain, and not judged again."""
        self.window = window
        self._closing = []
        """Numbers of PDCs that are closed, not proven or idle, in the order of closing, opening and falling idle."""
        self._unfinished = set()
        """Numbers of those that are idle in the middle of a message."""

    def number_of(self, sender):
        return next(iter(self._of(sender)), None)

    def _of(self, sender):
        return [n for n, pdc in enumerate(self.table) if pdc and pdc.sender == sender]

    def fall_idle(self):
        """Nothing has come of any PDC for a long time."""
        self.fall_late()
        idle = [n for n, pdc in enumerate(self.table) if pdc and n not in self._closing]
        self._closing += [n for n in idle if not self.table[n].unfinished]
        self._unfinished |= {n for n in idle if self.table[n].unfinished}

    def fall_late(self):
        """A kept packet has waited for a timeout."""
        self.slots = [slot and (*slot[:2], True) for slot in self.slots]

    def following(self, number):
        """The (slot, header) that a PDC expects, if that was kept: to be judged next, by :meth:`judge_next`."""
        pdc = self.table[number]
        for place, slot in enumerate(self.slots):
            if slot and slot[0] == number and slot[1]["psn"] == pdc.expected:
                self.slots[place] = None
                return place, slot[1]
        return None

    def expel(self, number):
        """A register closes it."""
        pdc = self.table[number]
        if pdc and not pdc.closed:
            pdc.closed = pdc.expelled = True
            pdc.unfinished = False
            if number in self._unfinished:
                self._unfinished.remove(number)
                self._closing.append(number)
            self._throw_away(number)

    def _throw_away(self, number):
        for place, slot in enumerate(self.slots):
            if slot and slot[0] == number:
                self.slots[place] = None
                self.thrown += 1

    def _keep(self, number, h, ahead):
        """A packet that comes before its turn."""
        pdc, psn = self.table[number], h["psn"]
        if any(slot and slot[0] == number and slot[1]["psn"] == psn for slot in self.slots):
            return Verdict("dropped_sequence", number)
        missing = signed(psn - pdc.asked)
        fits = -signed(h["clear_psn_offset"], 16) <= self.window
        free = [place for place, slot in enumerate(self.slots) if slot is None]
        free = free or [place for place, slot in enumerate(self.slots) if slot[2]]
        if free and fits and ahead < self.window and missing <= 255:
            self.thrown += self.slots[free[0]] is not None
            self.slots[free[0]] = number, h, False
            nack = (ROD_OOO, pdc.asked, number) if missing > 0 else None
            if missing >= 0:
                pdc.asked = (psn + 1) & 0xFFFF_FFFF
            return Verdict("kept", number, nack, max(missing, 0), free[0])
        silent = pdc.nacked and not h["retx"]
        pdc.nacked = True
        reads = h["opcode"] == READ and not h["is_control"]
        again = (pdc.asked if missing >= 0 else h["psn"]) if reads else pdc.expected
        nack = (ROD_OOO, again, number)
        return Verdict("dropped_sequence", number, None if silent else nack)

    def judge(self, h, lacks_space=lambda data_pending: False, passes=lambda number: True):
        """The verdict on a header.

        ``lacks_space``: whether there is no space for its event, or no slot for its message, by the PDC's state.
        ``passes``: whether a request that this PDC accepts passes all checks, and so proves the PDC.
        """
        sender, psn = (h["ip"], h["spdcid"]), h["psn"]
        if h["syn"]:
            start = (psn - h["dpdcid"]) & 0xFFFF_FFFF
            for number in self._of(sender):
                behind = (self.table[number].expected - start) & 0xFFFF_FFFF
                if self.table[number].start == start or self._continues(h, number, start, behind):
                    break
                if 0 < behind <= 1 << 16:
                    return Verdict("duplicate", number)
            else:
                if h["dpdcid"]:
                    return Verdict("dropped_pdc", None, (ROD_OOO, start, NO_PDC))
                if self.former.get(self._hash(sender, psn)) == (sender, psn):
                    return Verdict("dropped_pdc", None, (INVALID_SYN, psn, NO_PDC))
                number = self._open(sender, psn, h["resource_index"])
                if number is None:
                    return Verdict("dropped_pdc", None, (NO_PDC_AVAIL, psn, NO_PDC))
        else:
            number = h["dpdcid"]
            exists = number < len(self.table) and self.table[number] is not None
            if not exists or self.table[number].sender != sender:
                return Verdict("dropped_pdc", None, (INV_DPDCID, psn, number if exists else NO_PDC))
        pdc = self.table[number]
        if not h["is_control"]:
            pdc.job, pdc.context = h["job_id"], h["resource_index"]
        if not pdc.closed and pdc.proven and number in self._closing:
            self._closing.remove(number)
        self._unfinished.discard(number)
        ahead = signed(psn - pdc.expected)
        # The last packet of an opening: this one can have been that of another only.
        former = h["is_control"] and ahead != -1 and not 0 <= ahead < self.window
        if ahead < 0 and not former:
            return Verdict("duplicate", number)
        if pdc.closed or former:
            return Verdict("dropped_pdc", number, (CLOSING if pdc.expelled else INV_DPDCID, psn, number))
        if ahead > 0:
            return self._keep(number, h, ahead)
        return self.judge_next(number, h, lacks_space, passes)

    def judge_next(self, number, h, lacks_space=lambda data_pending: False, passes=lambda number: True):
        """The verdict on the packet that an open PDC expects."""
        pdc, psn = self.table[number], h["psn"]
        if not h["is_control"]:
            pdc.job, pdc.context = h["job_id"], h["resource_index"]
        if -signed(h["clear_psn_offset"], 16) > self.window:
            return Verdict("dropped_sequence", number, (PSN_OOR_WINDOW, psn, number))
        if lacks_space(pdc.data_pending):
            pdc.nacked = True
            if pdc.asked == pdc.expected:
                pdc.asked = (psn + 1) & 0xFFFF_FFFF
            return Verdict("dropped_sequence", number, (NO_RESOURCE, psn, number))
        if pdc.asked == pdc.expected:
            pdc.asked = (psn + 1) & 0xFFFF_FFFF
        pdc.expected, pdc.nacked = (psn + 1) & 0xFFFF_FFFF, False
        pdc.accepted.append(psn)
        if h["flags"] & START:
            pdc.data_pending = bool(h["flags"] & HEADER_DATA)
        if h["flags"] & END:
            pdc.data_pending = False
        pdc.unfinished = not (h["is_control"] or h["flags"] & END)
        if h["is_control"]:
            pdc.closed = True
            self._throw_away(number)
            if number in self._closing:
                self._closing.remove(number)
            self._closing.append(number)
        elif passes(number):
            pdc.proven = True
            if number in self._closing:
                self._closing.remove(number)
        return Verdict("accepted", number)

    def _continues(self, h, number, start, behind):
        """Whether a sender that begins anew finds its PDC open, and goes on there."""
        pdc, sender = self.table[number], (h["ip"], h["spdcid"])
        remembered = self.former.get(self._hash(sender, start)) == (sender, start)
        new = signed(h["psn"] - pdc.expected) >= 0
        return behind <= 1 << 16 and new and not (pdc.closed or h["is_control"] or remembered)

    def _hash(self, sender, start):
        """Eight bits, or fewer: there are four values for each PDC."""
        folded = 0
        for part in (sender[0], sender[0] >> 16, sender[1], start, start >> 16):
            folded ^= part & 0xFFFF
        return (folded >> 8 ^ folded) % (4 * len(self.table))

    def _open(self, sender, psn, context):
        """The number of the PDC that is now the sender's, from ``psn`` on; None if all are taken."""
        kept = {n for n, owner in enumerate(self.owners) if owner in self.enabled and owner != context}
        own = [n for n in self._of(sender) if n in self._closing]
        free = [n for n, pdc in enumerate(self.table) if pdc is None]
        number = next((n for n in own + free + self._closing + sorted(self._unfinished) if n not in kept), None)
        if number is None:
            return None
        if number in self._closing:
            self._closing.remove(number)
        self._closing.append(number)
        self._unfinished.discard(number)
        self._throw_away(number)
        old = self.table[number]
        if old and old.proven:
            self.former[self._hash(old.sender, old.start)] = old.sender, old.start
        self.table[number] = Pdc(sender, psn, psn, psn)
        return number
