"""Retransmitter: going back, holding back, time-outs, and giving a PDC up."""

from itertools import islice

from amoeba_model.nic.completion import ResultOrder
from amoeba_model.nic.core import Core
from amoeba_model.nic.packets import PacketNumberer
from amoeba_model.nic.peers import NEVER, PSN_MASK, Peer
from amoeba_model.registers import NACK_LIFE, PDC_REFUSALS, RETRANSMIT_DOUBLINGS, Counter
from amoeba_model.wire.uet import ReturnCode

__all__ = ["Retransmitter"]

_FAILED_PDCS = Counter.FAILED_PDCS.value
_TIMEOUTS = Counter.TIMEOUTS.value
_PSN_HALF = 1 << 31
_LOCAL_PDC_FAILED = ReturnCode.LOCAL_PDC_FAILED.value
_TABLE_FULL = ReturnCode.LOCAL_PEER_PDC_TABLE_FULL.value


class Retransmitter:
    """Sees to it that every packet is answered: by the target, or with why its PDC was given up.

    Wherever a PDC is concerned, it comes with its index in the peer table.
    """

    def __init__(self, core: Core, peers: list[Peer], numberer: PacketNumberer, results: ResultOrder) -> None:
        self.deadline = NEVER
        """No timer is due before this cycle. A lower bound: most timers are put off before they are due."""
        self._core = core
        self._peers = peers
        self._numberer = numberer
        self._results = results

    def sent(self, peer: Peer, cycle: int) -> None:
        """Note that a new packet leaves in ``cycle``."""
        if peer.deadline == NEVER:
            self._wait(peer, cycle)

    def answered(self, peer: Peer) -> None:
        """Packets of the PDC have been answered."""
        peer.timeouts = peer.doublings = peer.refusals = 0
        peer.went_back = peer.was_early = False
        if peer.held_until != NEVER and not peer.is_unanswered(peer.held_psn):
            peer.held_until = NEVER
        if peer.outstanding:
            self._wait(peer, self._core.now)
        else:
            peer.deadline = NEVER

    def noted(self, peer: Peer) -> None:
        """Put off the early timeout: an answer was kept, so that others are on their way."""
        if peer.is_early:
            self._wait(peer, self._core.now)

    def fill_gap(self, pdc: int, peer: Peer, psn: int) -> None:
        """Something was lost: go back to ``psn``, at most once until a packet is answered."""
        if not peer.went_back:
            peer.went_back = True
            peer.lose()
            self._go_back(pdc, peer, psn)

    def ask_before(self, pdc: int, peer: Peer, psn: int) -> None:
        """``psn`` was answered, so answers to packets before it that are not there are lost: ask for each once."""
        first = _later(peer.outstanding[0].psn, peer.asked_to)
        if (psn - first) & PSN_MASK < _PSN_HALF:
            peer.asked_to = (psn + 1) & PSN_MASK
            if psn != first:
                self._fill(pdc, peer, first, psn)

    def send_missing(self, pdc: int, peer: Peer, psn: int, count: int) -> None:
        """Send ``count`` packets from ``psn`` on, each once: the target misses them, and keeps those behind them."""
        first, end = _later(psn, peer.filled_to), (psn + count) & PSN_MASK
        if 0 < (end - first) & PSN_MASK < _PSN_HALF:
            peer.filled_to = end
            self._fill(pdc, peer, first, end)

    def hold_back(self, pdc: int, peer: Peer, psn: int, *, without_pdc: bool) -> None:
        """Go back later, to the oldest unanswered packet: the target cannot take ``psn`` now.

        Other packets may have been lost, and ``psn`` need not be the oldest. Further NACKs of this kind do not
        prolong the hold-off, so that nothing a target says puts off the oldest packet without end. The NACK is a
        sign of life, but no answer.

        ``without_pdc``: the target has no PDC, which it may say only so often.
        """
        peer.timeouts = max(peer.timeouts - NACK_LIFE, 0)
        peer.doublings = 0
        peer.was_early = False
        peer.refusals = peer.refusals + 1 if without_pdc else 0
        if peer.refusals > PDC_REFUSALS * (self._core.retransmit_limit + 1):
            self.fail(pdc, peer, _TABLE_FULL)
            return
        if peer.held_until != NEVER:
            peer.held_psn = _later(psn, peer.held_psn)
            return
        self._wait(peer, self._core.now)
        peer.held_psn = psn
        peer.held_until = self._core.now + self._core.retransmit_timeout // 4
        self.deadline = min(self.deadline, peer.held_until)

    def fail(self, pdc: int, peer: Peer, status: int = _LOCAL_PDC_FAILED) -> None:
        """Give the PDC up: its packets are answered so from now on."""
        self._core.counters[_FAILED_PDCS] += 1
        peer.failed, peer.failure = True, status
        self.flush(pdc, peer)

    def flush(self, pdc: int, peer: Peer) -> None:
        """Answer the packets of a failed PDC."""
        peer.deadline = peer.held_until = NEVER
        while peer.outstanding:
            packet = peer.outstanding.popleft()
            if packet.status is None:
                self._results.note(pdc, packet, peer.failure, b"", self._core.now)
            self._results.conclude(peer, packet, self._core.now)

    def expire(self) -> list[Peer]:
        """Do what is due by now; the PDCs that may go on."""
        now = self._core.now
        self.deadline = NEVER
        due = []
        for pdc, peer in enumerate(self._peers):
            if peer.held_until <= now:
                peer.held_until = NEVER
                self._go_back(pdc, peer, peer.outstanding[0].psn)
                due.append(peer)
            elif peer.deadline <= now:
                self._time_out(pdc, peer)
                due.append(peer)
            self.deadline = min(self.deadline, peer.deadline, peer.held_until)
        return due

    def _time_out(self, pdc: int, peer: Peer) -> None:
        self._core.counters[_TIMEOUTS] += 1
        if peer.is_early:
            peer.was_early = True
        else:
            peer.timeouts += 1
            peer.doublings += 1
        if peer.timeouts > self._core.retransmit_limit:
            self.fail(pdc, peer)
            return
        peer.lose()
        peer.forget_gaps()
        self._wait(peer, self._core.now)
        self._go_back(pdc, peer, peer.outstanding[0].psn)

    def _wait(self, peer: Peer, since: int) -> None:
        """Start the timer; it waits while packets are sent again."""
        since = max(since, peer.repeated_by)
        timeout = self._core.retransmit_timeout
        peer.is_early = _may_be_early(peer)
        wait = timeout // 4 if peer.is_early else timeout << min(peer.doublings, RETRANSMIT_DOUBLINGS)
        peer.deadline = deadline = since + wait
        if deadline < self.deadline:
            self.deadline = deadline

    def _pause(self, peer: Peer, begun: int) -> None:
        """Stop the timer from ``begun`` on until all that was sent again has left.

        The early timeout may begin then, if it is over before the one that runs.
        """
        peer.deadline += max(0, peer.repeated_by - begun)
        early = max(self._core.now, peer.repeated_by) + self._core.retransmit_timeout // 4
        if _may_be_early(peer) and early < peer.deadline:
            peer.is_early, peer.deadline = True, early
            self.deadline = min(self.deadline, early)

    def _fill(self, pdc: int, peer: Peer, psn: int, end: int) -> None:
        """Send what is missing from ``psn`` on and before ``end`` again."""
        if peer.is_unanswered(psn):
            peer.lose()
            self._go_back(pdc, peer, psn, (end - psn) & PSN_MASK)

    def _go_back(self, pdc: int, peer: Peer, psn: int, count: int | None = None) -> None:
        """Send unanswered packets from ``psn`` on again, ``count`` of them or all, but for those with a noted answer.

        A PDC that is held back sends nothing: its hold-off ends with all of them. The timer belongs to the oldest
        packet: it begins anew if that packet is sent, and pauses otherwise until the others have left.
        """
        if peer.held_until != NEVER:
            return
        first = (psn - peer.outstanding[0].psn) & PSN_MASK
        begun = max(self._core.now, peer.repeated_by)
        for packet in islice(peer.outstanding, first, None if count is None else first + count):
            if packet.status is None:
                peer.repeated_by = self._numberer.send_again(pdc, peer, packet)
        if first == 0:
            self._wait(peer, self._core.now)
        else:
            self._pause(peer, begun)


def _may_be_early(peer: Peer) -> bool:
    """Whether the next timeout is the early one: the PDC has lost something and has not timed out since."""
    return bool(peer.caution) and not (peer.was_early or peer.doublings)


def _later(psn: int, other: int | None) -> int:
    """Return the later of two psns; the first if ``other`` is None."""
    return psn if other is None or (other - psn) & PSN_MASK >= _PSN_HALF else other
