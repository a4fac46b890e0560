"""PdcTable: the packet delivery contexts of initiators elsewhere, and the order of their packets."""

from bisect import insort
from dataclasses import dataclass, field
from typing import NamedTuple

from amoeba_model.nic.answers import AnswerStore
from amoeba_model.nic.connection_epochs import ConnectionEpochs
from amoeba_model.nic.core import Core
from amoeba_model.nic.credits import TargetCredits
from amoeba_model.nic.gaps import GapStore, KeptPacket
from amoeba_model.nic.open_messages import OpenMessage
from amoeba_model.nic.return_direction import ReturnDirection
from amoeba_model.registers import Counter, TargetPdcState
from amoeba_model.wire.codec import NO_PDC, FrameHeader
from amoeba_model.wire.uet import NackCode, RequestOpcode, SesFlags

__all__ = [
    "LATE_LIMIT",
    "MAX_MISSING",
    "Duplicate",
    "Kept",
    "Pdc",
    "PdcTable",
    "PdcView",
    "Refusal",
]

LATE_LIMIT = 1 << 16
"""A packet with SYN whose start is at most so far behind the expected psn is from an earlier epoch of its PDC."""

MAX_MISSING = 255
"""Packets that one NACK can say to be missing."""

_PSN_MASK = 0xFFFF_FFFF
_PSN_HALF = 1 << 31
_START, _END = SesFlags.START_OF_MESSAGE.value, SesFlags.END_OF_MESSAGE.value
_HEADER_DATA = SesFlags.HEADER_DATA.value
_READ = RequestOpcode.READ.value
_FURTHEST_CLEAR = (1 << 15) - 1
"""ack_psn_offset has 16 bits and a sign."""


@dataclass(slots=True, eq=False)
class Pdc:
    """One target PDC that is open or closed; those not there yet are free."""

    number: int
    ip: int
    spdcid: int
    start_psn: int
    expected: int
    asked: int
    """The psn behind the furthest packet that is kept or was asked for; the expected one if nothing is."""
    plain: int
    """Packets before the expected one, in a row, that were answered OK and without data."""
    is_open: bool = True
    gap_reported: bool = False
    """A NACK has been sent since the expected psn last advanced."""
    proven: bool = False
    """A request has passed all checks since it was opened."""
    last_used: int = 0
    """Cycle at which its last packet came."""
    expelled: bool = False
    """The PDC is closed, and not by its initiator."""
    job_id: int = 0
    """Of the request that came last."""
    context: int = 0
    """For which that was."""
    data_pending: bool = False
    """The message that began last has immediate data, and more packets."""
    message: OpenMessage | None = None
    """The message of several packets that has begun, unless it was refused."""
    unfinished: bool = False
    """The request that was accepted last has no END."""
    returned: ReturnDirection = field(init=False)

    def __post_init__(self) -> None:
        self.returned = ReturnDirection(self.start_psn)

    def note(self, header: FrameHeader, now: int) -> None:
        """Note the arrival of a packet of this PDC."""
        self.last_used = now
        if not header.is_control:
            self.job_id, self.context = header.job_id, header.resource_index

    def continues(self, header: FrameHeader, start_psn: int) -> bool:
        """Return whether a request with SYN is one of this PDC, though its sender has begun anew at ``start_psn``.

        So it is from the expected psn on, while the PDC is open. The sender was told that the PDC is another's, which
        is not so: the NACK was forged, or is out of date. A second PDC would execute what this one still may.
        """
        behind = (self.expected - start_psn) & _PSN_MASK
        ahead = (header.psn - self.expected) & _PSN_MASK
        return self.is_open and not header.is_control and behind <= LATE_LIMIT and ahead < _PSN_HALF

    def acknowledge(self, header: FrameHeader, plain: bool) -> int:
        """``cack_psn`` of the answer to a packet; ``plain``: it is OK and without data."""
        unanswered = _clear_distance(header)
        cack_psn = header.psn if unanswered - 1 <= self.plain else header.psn - unanswered
        self.plain = self.plain + 1 if plain else 0
        return cack_psn & _PSN_MASK

    @staticmethod
    def acknowledge_again(header: FrameHeader) -> int:
        """Return ``cack_psn`` of an answer that is replayed: the packet's clear_psn."""
        return (header.psn - min(_clear_distance(header), _FURTHEST_CLEAR)) & _PSN_MASK


class PdcView(NamedTuple):
    """Values of the registers ``target_pdcs`` for one PDC."""

    state: TargetPdcState = TargetPdcState.FREE
    ip: int = 0
    spdcid: int = 0
    job_id: int = 0
    context: int = 0
    expected: int = 0
    came: int = 0
    """Cycle since reset."""


class Duplicate(NamedTuple):
    """A packet that the PDC has got before."""

    pdc: Pdc


class Kept(NamedTuple):
    """A packet that waits for those before it."""

    pdc: Pdc
    psn: int
    """From this one on..."""
    missing: int
    """... so many are missing that nobody has asked for yet: 0, there is nothing to say."""


class Refusal(NamedTuple):
    """A packet that is not accepted."""

    counter: Counter
    code: NackCode | None = None
    """Code of the NACK; None: no NACK is sent."""
    psn: int = 0
    """``nack_psn``."""
    pdc: int = NO_PDC


class PdcTable:
    """Target PDCs: a new one takes the first unused number, or an evictable one, not reserved for another context."""

    def __init__(self, core: Core, credits: TargetCredits, answers: AnswerStore) -> None:
        self._core = core
        self._size = core.parameters.target_pdcs
        self._reserved = core.parameters.reserved_pdcs
        self._window = core.parameters.window
        self._credits = credits
        self._answers = answers
        self._gaps = GapStore(core)
        self._epochs = ConnectionEpochs(self._size)
        self._pdcs: dict[int, Pdc] = {}
        """By number: those that were ever opened."""
        self._numbers: dict[tuple[int, int], list[int]] = {}
        """Numbers of the PDCs that belong to (sender's IP address, sender's PDC), in order."""
        self._spare: dict[int, None] = {}
        """Numbers of the evictable PDCs, in the order in which they became so.

        PDCs are evictable when they are closed, are not proven, or were idle at the last search for a free number
        and are in the middle of no message.
        """

    def accept(self, header: FrameHeader, payload: bytes) -> Pdc | Duplicate | Kept | Refusal:
        """Accept a packet: return its PDC, which then expects the next packet, or why it is not to be executed.

        The caller executes the packet of a PDC, then asks for the :meth:`following` one.
        """
        pdc = self._find_or_open(header) if header.syn else self._find(header)
        if not isinstance(pdc, Pdc):
            return pdc
        pdc.note(header, self._core.now)
        if pdc.is_open and pdc.proven:
            self._spare.pop(pdc.number, None)  # it is idle no more
        ahead = (header.psn - pdc.expected) & _PSN_MASK
        if header.asks and pdc.is_open and ahead < _PSN_HALF:
            return Refusal(Counter.DROPPED_SEQUENCE, NackCode.PKT_NOT_RCVD, header.psn, pdc.number)
        # A CLOSE is the last packet of its epoch: one that can be neither next nor last is of a former epoch.
        is_former = header.is_control and not header.asks and self._window <= ahead < _PSN_MASK
        if ahead >= _PSN_HALF and not is_former:
            return Duplicate(pdc)
        if not pdc.is_open or is_former:
            code = NackCode.CLOSING if pdc.expelled else NackCode.INV_DPDCID
            return Refusal(Counter.DROPPED_PDC, code, header.psn, pdc.number)
        return self._keep(pdc, header, payload, ahead) if ahead else self.accept_next(pdc, header)

    def following(self, pdc: Pdc) -> KeptPacket | None:
        """Take the packet that a PDC expects out of its slot, if it was kept; it is to be accepted next."""
        kept = self._gaps.take(pdc.number, pdc.expected)
        if kept is not None:
            pdc.note(kept.header, self._core.now)
        return kept

    def accept_next(self, pdc: Pdc, header: FrameHeader) -> Pdc | Refusal:
        """As :meth:`accept`, of the packet that an open PDC expects."""
        if _clear_distance(header) > self._window or pdc.returned.is_full(header, self._core):
            return Refusal(Counter.DROPPED_SEQUENCE, NackCode.PSN_OOR_WINDOW, header.psn, pdc.number)
        following = (header.psn + 1) & _PSN_MASK
        if not header.is_control and not self._credits.has_space(header, pdc.data_pending):
            pdc.gap_reported = True
            if pdc.asked == pdc.expected:
                pdc.asked = following
            return Refusal(Counter.DROPPED_SEQUENCE, NackCode.NO_RESOURCE, header.psn, pdc.number)
        if pdc.asked == pdc.expected:
            pdc.asked = following
        pdc.expected = following
        pdc.gap_reported = False
        if header.flags & _START:
            pdc.data_pending = bool(header.flags & _HEADER_DATA)
        pdc.data_pending &= not header.flags & _END
        pdc.unfinished = not (header.is_control or header.flags & _END)
        if header.is_control:
            pdc.is_open = False
            pdc.returned.clear()
            self._throw_away(pdc.number)
            self._spare.pop(pdc.number, None)
            self._spare[pdc.number] = None
        return pdc

    def prove(self, pdc: Pdc) -> None:
        """Note that a request of this PDC has passed all checks: the PDC stays its initiator's until it is closed."""
        if not pdc.proven:
            pdc.proven = True
            self._spare.pop(pdc.number, None)

    def find(self, number: int) -> Pdc | None:
        """Find the PDC with a number, if it is open."""
        pdc = self._pdcs.get(number)
        return pdc if pdc is not None and pdc.is_open else None

    def view(self, number: int) -> PdcView:
        """Return the state of a PDC; a number beyond the table looks like a free one."""
        if number not in self._pdcs:
            return PdcView()
        pdc = self._pdcs[number]
        state = TargetPdcState.OPEN if pdc.is_open else TargetPdcState.CLOSED
        if pdc.expelled:
            state = TargetPdcState.EXPELLED
        came = pdc.last_used - self._core.reset_at
        return PdcView(state, pdc.ip, pdc.spdcid, pdc.job_id, pdc.context, pdc.expected, came)

    def expel(self, number: int) -> None:
        """Close a PDC, if it is open, though its initiator has not asked for it.

        The PDC is not evictable before it is idle: until then its initiator, which may not know which of its requests
        were executed, has to find the PDC closed. A PDC of another initiator would make it begin anew.
        """
        pdc = self._pdcs.get(number)
        if pdc is not None and pdc.is_open:
            pdc.is_open, pdc.expelled, pdc.unfinished = False, True, False
            pdc.returned.clear()
            self._throw_away(number)

    def _find(self, header: FrameHeader) -> Pdc | Refusal:
        """Find the PDC that a packet without SYN names."""
        pdc = self._pdcs.get(header.dpdcid)
        if pdc is not None:
            if pdc.ip == header.ip and pdc.spdcid == header.spdcid:
                return pdc
            # Its sender learns that the PDC is another's now.
            return Refusal(Counter.DROPPED_PDC, NackCode.INV_DPDCID, header.psn, pdc.number)
        return Refusal(Counter.DROPPED_PDC, NackCode.INV_DPDCID, header.psn)

    def _find_or_open(self, header: FrameHeader) -> Pdc | Duplicate | Refusal:
        """Find the PDC of a packet with SYN, or open it; refuse packets of an earlier connection epoch."""
        start_psn = (header.psn - header.dpdcid) & _PSN_MASK
        own = self._numbers.get((header.ip, header.spdcid), [])
        remembered = self._epochs.knows(header.ip, header.spdcid, start_psn)
        for known in (self._pdcs[each] for each in own):
            if known.start_psn == start_psn or (not remembered and known.continues(header, start_psn)):
                known.returned.begin_anew(start_psn)
                return known
            if 0 < (known.expected - start_psn) & _PSN_MASK <= LATE_LIMIT:
                known.returned.begin_anew(start_psn)
                return Duplicate(known)
        if header.dpdcid:
            return Refusal(Counter.DROPPED_PDC, NackCode.ROD_OOO, start_psn)
        if remembered:
            return Refusal(Counter.DROPPED_PDC, NackCode.INVALID_SYN, header.psn)
        number = self._make_space(own, header.resource_index)
        if number is None:
            return Refusal(Counter.DROPPED_PDC, NackCode.NO_PDC_AVAIL, header.psn)
        # Nothing has been answered that an acknowledgement would have to name by itself.
        pdc = Pdc(number, header.ip, header.spdcid, start_psn, start_psn, start_psn, plain=self._window)
        self._throw_away(number)
        self._answers.forget(number)
        self._spare.pop(number, None)
        self._spare[number] = None
        if number in self._pdcs:
            self._pdcs[number].returned.clear()
            self._forget(self._pdcs[number])
        self._pdcs[number] = pdc
        insort(self._numbers.setdefault((header.ip, header.spdcid), []), number)
        return pdc

    def _forget(self, pdc: Pdc) -> None:
        """Its number is another's from now on, or its own anew."""
        if pdc.proven:
            self._epochs.remember(pdc.ip, pdc.spdcid, pdc.start_psn)
        numbers = self._numbers[pdc.ip, pdc.spdcid]
        numbers.remove(pdc.number)
        if not numbers:
            del self._numbers[pdc.ip, pdc.spdcid]

    def _make_space(self, own: list[int], context: int) -> int | None:
        """Find a number for a new PDC of that context, and evict its PDC.

        The sender's own evictable PDCs come first, then the first unused number, then the PDC that has been evictable
        for longest; last the first that is idle in the middle of a message.
        """
        for number in own:
            if number in self._spare and self._is_for(number, context):
                return number
        for number in range(self._size):
            if number not in self._pdcs and self._is_for(number, context):
                return number
        core = self._core
        idle_since = core.now - core.idle_time
        idle = [pdc for pdc in self._pdcs.values() if pdc.last_used <= idle_since and pdc.number not in self._spare]
        for pdc in sorted(idle, key=lambda pdc: (pdc.last_used, pdc.number)):
            if not pdc.unfinished:
                self._spare[pdc.number] = None
        unfinished = sorted(pdc.number for pdc in idle if pdc.unfinished)
        return next((number for number in (*self._spare, *unfinished) if self._is_for(number, context)), None)

    def _is_for(self, number: int, context: int) -> bool:
        """Whether a PDC may be given to somebody who addresses that context: it is not kept for another."""
        owner = number - self._reserved.start
        return owner < 0 or owner == context or not self._credits.is_enabled(owner)

    def _keep(self, pdc: Pdc, header: FrameHeader, payload: bytes, ahead: int) -> Kept | Refusal:
        """Keep a packet that an open PDC expects only ``ahead`` packets later, if a slot is free."""
        psn, asked = header.psn, pdc.asked
        beyond = (psn - asked) & _PSN_MASK
        is_beyond = beyond < _PSN_HALF
        if self._gaps.holds(pdc.number, psn):
            return Refusal(Counter.DROPPED_SEQUENCE)
        if (
            ahead < self._window
            and _clear_distance(header) <= self._window
            and not (is_beyond and beyond > MAX_MISSING)
        ):
            thrown = self._gaps.keep(header, payload, pdc.number)
            if thrown is not None:
                self._core.counters[Counter.DROPPED_SEQUENCE] += thrown
                if not is_beyond:
                    return Kept(pdc, asked, 0)
                pdc.asked = (psn + 1) & _PSN_MASK
                return Kept(pdc, asked, beyond)
        silent = pdc.gap_reported and not header.retx
        pdc.gap_reported = True
        code = None if silent else NackCode.ROD_OOO
        again = pdc.expected
        if header.opcode == _READ and not header.is_control:
            # The packets kept already are READs mostly, each of which would be read and answered again.
            again = asked if is_beyond else psn
        return Refusal(Counter.DROPPED_SEQUENCE, code, again, pdc.number)

    def _throw_away(self, number: int) -> None:
        """Drop the packets that are kept for a PDC, which is closed or opened anew."""
        self._core.counters[Counter.DROPPED_SEQUENCE] += self._gaps.forget(number)


def _clear_distance(header: FrameHeader) -> int:
    """How far the packet is ahead of the last one whose answer its initiator has: 1 in an idle PDC."""
    offset = header.clear_psn_offset
    return (offset >> 15 << 16) - offset
