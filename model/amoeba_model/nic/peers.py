"""PeerTable and PacketLog: the initiator's PDCs, one per peer table entry, and their unanswered packets."""

from collections import deque
from dataclasses import dataclass, field

from amoeba_model.descriptors import DescriptorOpcode
from amoeba_model.nic.tables import Request
from amoeba_model.wire.congestion import MPR_UNIT
from amoeba_model.wire.uet import TAGGED_MESSAGES, UNTAGGED_MESSAGES, ReturnCode

__all__ = [
    "CAUTION",
    "DOUBTFUL_TIMEOUTS",
    "NEVER",
    "PSN_MASK",
    "Packet",
    "Peer",
]

NEVER = 1 << 64
"""A cycle that no clock reaches."""
PSN_MASK = 0xFFFF_FFFF
CAUTION = 64
"""Packets that have to be answered since the last loss until a PDC may have its whole window in flight again."""
DOUBTFUL_TIMEOUTS = 2
"""After so many in a row it is not sure any more that what the target has given away it did not execute before."""

_UNTAGGED = frozenset(opcode.value for opcode in UNTAGGED_MESSAGES)
_TAGGED = frozenset(opcode.value for opcode in TAGGED_MESSAGES)
_CLOSE = DescriptorOpcode.CLOSE.value


@dataclass(slots=True, eq=False)
class Packet:
    """PacketLog: everything of a packet without an answer but its operands, which are read again to send it again."""

    psn: int
    request: Request
    opcode: int
    """SES request opcode; means nothing of a CLOSE."""
    position: int
    """Where its part of the request begins, in bytes."""
    size: int
    """Bytes of remote memory concerned."""
    expected: int
    """Bytes of data that a successful answer carries."""
    is_last: bool
    message: int = 0
    """``message_id``."""
    fault: bool = False
    """Its operands could not be read: it goes out as a NO_OP, or as a MSG_ERROR if its message has begun."""
    status: int | None = None
    """Code of its answer, noted while packets before it are unanswered; None before the answer."""


@dataclass(slots=True, eq=False)
class Peer:
    """One peer table entry, and the PDC that it is."""

    mac: int = 0
    ip: int = 0
    job_id: int = 0
    pid_on_fep: int = 0
    resource_index: int = 0
    initial_psn: int = 0
    entropy: int = 0
    valid: bool = False
    context: int = 0
    initiator: int = 0
    """The context by which the peer knows who sends."""
    relative: bool = False
    whole_window: bool = False

    generation: int = 0
    """``ri_generation`` of untagged messages, as a refusal said last."""
    tagged_generation: int = 0
    """Likewise of tagged ones."""
    start_psn: int = field(init=False)
    """First packet of the PDC."""
    first_message: int = field(init=False)
    """First psn of this connection epoch, from which ``message_id`` counts; a PDC that begins anew with what is
    unanswered keeps it."""
    returned: int = field(init=False)
    """The psn that comes next in the return direction."""
    return_gap: bool = False
    """A NACK has been sent since :attr:`returned` last advanced."""
    close_requested: bool = False
    """The target has asked for a CLOSE of this connection epoch."""
    next_psn: int = field(init=False)
    window: int = field(init=False)
    """Packets that the target allows to be unanswered."""
    last_answered: int = field(init=False)
    """psn; before the first answer the one before ``start_psn``."""
    target_pdc: int | None = None
    """``spdcid`` of the last answer; None before the first, while packets carry SYN."""
    outstanding: deque[Packet] = field(default_factory=deque)
    """Unanswered packets, in order and without a gap; behind the oldest also such whose answers are noted."""
    failed: bool = False
    failure: int = ReturnCode.LOCAL_PDC_FAILED.value
    """With ``failed``: how its packets are answered."""
    asked_to: int | None = None
    """Answers that are missing before this psn have been asked for; None: none have, or it is forgotten."""
    filled_to: int | None = None
    """Likewise, packets that the target said were missing before this psn have been sent again."""
    went_back: bool = False
    """Already, because of a gap, since a packet was answered last."""
    caution: int = 0
    """After a loss, number of packets still to be answered before the whole window may be in flight."""
    timeouts: int = 0
    """Since a packet was answered last; hold-offs make up for NACK_LIFE each."""
    doublings: int = 0
    """Timeouts in a row, since an answer or a hold-off: how often the next one was doubled, if that is not above
    RETRANSMIT_DOUBLINGS."""
    refusals: int = 0
    """Hold-offs in a row because there was no PDC for it, since a packet was answered last."""
    repeated_by: int = 0
    """Cycle by which all that was sent again has left."""
    was_early: bool = False
    """The early timeout has been used, since a packet was answered last."""
    deadline: int = NEVER
    """Cycle of the next timeout; NEVER while nothing is unanswered."""
    is_early: bool = False
    """That is the early one."""
    held_until: int = NEVER
    """Cycle at which it goes back to the oldest unanswered packet; NEVER unless it is held back."""
    held_psn: int = 0
    """The last packet that the target refused in this hold-off, which ends early when that one is answered."""
    chained: Request | None = None
    """The request that was answered last, if it had CHAINED."""

    def __post_init__(self) -> None:
        self.window = NEVER if self.whole_window else MPR_UNIT
        self._start(self.initial_psn)

    def start_anew(self, psn: int) -> None:
        """Start a new connection epoch, after the answer to a CLOSE."""
        self._start(psn)

    def start_at_oldest(self) -> None:
        """Begin anew with what is unanswered: the target says that it gave the PDC away."""
        self.start_psn = self.returned = self.outstanding[0].psn
        self.return_gap = self.close_requested = False
        self.target_pdc = None
        self.forget_gaps()

    def _start(self, psn: int) -> None:
        self.start_psn = self.next_psn = self.returned = psn
        self.first_message = psn & 0xFFFF
        self.return_gap = self.close_requested = False
        self.last_answered = (psn - 1) & PSN_MASK
        self.target_pdc = None
        self.forget_gaps()

    def number(self) -> int:
        """Take the psn of a new packet."""
        psn = self.next_psn
        self.next_psn = (psn + 1) & PSN_MASK
        return psn

    def is_unanswered(self, psn: int) -> bool:
        outstanding = self.outstanding
        return bool(outstanding) and (psn - outstanding[0].psn) & PSN_MASK < len(outstanding)

    def forget_gaps(self) -> None:
        """Forget which packets were missing, so that they may be asked for, and sent, again."""
        self.asked_to = self.filled_to = None

    def learn_window(self, mpr: int) -> None:
        """Take the window that an answer says; 0 says none."""
        if mpr:
            self.window = mpr * MPR_UNIT

    def learn_generation(self, opcode: int, generation: int) -> None:
        """Take the generation that the refusal of a message says."""
        if opcode in _TAGGED:
            self.tagged_generation = generation
        elif opcode in _UNTAGGED:
            self.generation = generation

    def generation_of(self, opcode: int) -> int:
        """``ri_generation`` of a request with this SES opcode."""
        if opcode in _TAGGED:
            return self.tagged_generation
        return self.generation if opcode in _UNTAGGED else 0

    def has_noted(self) -> bool:
        """Whether answers to younger packets than the oldest unanswered one are noted."""
        return any(packet.status is not None for packet in self.outstanding)

    def lose(self) -> None:
        """Something was lost."""
        self.caution = CAUTION

    def may_send(self, window: int, window_after_loss: int) -> bool:
        """Whether a new packet may be cut, as far as those before it are concerned."""
        outstanding = self.outstanding
        return (
            len(outstanding) < min(window_after_loss if self.caution else window, self.window)
            and self.held_until == NEVER
            and not (outstanding and outstanding[0].request.opcode == _CLOSE)
        )
