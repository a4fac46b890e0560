"""ReturnDirection: the psns of one target PDC's return direction, and the data that is kept for it."""

from collections import deque
from dataclasses import dataclass, field

from amoeba_model.nic.answers import KeptAnswer
from amoeba_model.nic.core import Core
from amoeba_model.nic.peers import NEVER, PSN_MASK
from amoeba_model.wire.codec import FrameHeader
from amoeba_model.wire.congestion import MPR_UNIT
from amoeba_model.wire.uet import RequestOpcode

__all__ = ["ReturnDirection"]

_READ = RequestOpcode.READ.value
_PSN_HALF = 1 << 31


@dataclass(slots=True, eq=False)
class ReturnDirection:
    """The return direction of one target PDC: its psns, and the data that was not acknowledged."""

    start_psn: int
    """The PDC's first psn, from which the return direction counts, too."""
    next_psn: int = field(init=False)
    outstanding: deque[KeptAnswer] = field(default_factory=deque)
    """Answers whose data was sent and not acknowledged, in the order of both psns: theirs here, and the READs'."""
    request: FrameHeader | None = None
    """The last READ among them: says where the data goes to."""
    timeouts: int = 0
    """In a row, since something was acknowledged last."""
    went_back: bool = False
    """Already, because of a NACK, since something was acknowledged last."""
    deadline: int = NEVER

    def __post_init__(self) -> None:
        self.next_psn = self.start_psn

    @property
    def oldest(self) -> int:
        """The psn that is acknowledged next."""
        return (self.next_psn - len(self.outstanding)) & PSN_MASK

    def is_full(self, request: FrameHeader, core: Core) -> bool:
        """Whether a request has to come again later.

        Its answer would take the place of data that is still needed, or its own data were more than an initiator
        takes at once.
        """
        if not self.outstanding:
            return False
        window = core.parameters.window
        if (request.psn - self.outstanding[0].psn) & PSN_MASK >= window:
            return True
        is_long = request.opcode == _READ and request.request_length > core.max_ack_data
        return is_long and not request.is_control and len(self.outstanding) >= min(window, MPR_UNIT)

    def begin_anew(self, start_psn: int) -> None:
        """Count from a later first psn on: the initiator has begun anew with what it has no answer to."""
        if not 0 < (start_psn - self.start_psn) & PSN_MASK < _PSN_HALF:
            return
        self.start_psn = start_psn
        while self.outstanding and (self.outstanding[0].psn - start_psn) & PSN_MASK >= _PSN_HALF:
            self.outstanding.popleft()
        self.next_psn = (start_psn + len(self.outstanding)) & PSN_MASK

    def clear(self) -> None:
        """Forget all data: the PDC is closed, or another's."""
        self.outstanding.clear()
