"""State that all blocks of one NIC share: parameters, clock, counters, trace, settings of the whole NIC."""

from amoeba_model.nic.first_psns import KEY_WORDS
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import MAX_ACK_DATA, RETRANSMIT_LIMIT, RETRANSMIT_TIMEOUT, Counter
from amoeba_model.trace import Stage, TraceEvent

__all__ = ["IDLE_TIMEOUTS", "Core"]

IDLE_TIMEOUTS = 32
"""A target PDC is idle when nothing has come of it for so many times ``retransmit_timeout`` times
``retransmit_limit`` + 1: longer than any initiator with these settings repeats a packet before it gives up."""

_COUNTER_MASK = 0xFFFF_FFFF


class Core:
    """The state that is no block's own."""

    def __init__(self, parameters: NicParameters) -> None:
        self.parameters = parameters
        self.now = 0
        """The clock, in cycles since it was made."""
        self.reset_at = 0
        """The clock at the last reset of the function."""
        self.mac = 0
        self.ip = 0
        self.dscp = 0
        self.psn_key: tuple[int, ...] = (0,) * KEY_WORDS
        self.retransmit_timeout = RETRANSMIT_TIMEOUT
        self.retransmit_limit = RETRANSMIT_LIMIT
        self.answer_base = 0
        self.max_ack_data = MAX_ACK_DATA[1]
        self.counter_base = 0
        self.tracing = False
        self.events: list[TraceEvent] = []
        self.beat_bytes = parameters.beat_bytes
        self.counters = [0] * len(Counter)
        """By Counter; registers and people see them modulo 2**32."""

    @property
    def idle_time(self) -> int:
        """Cycles without a packet after which a target PDC is idle."""
        return IDLE_TIMEOUTS * (self.retransmit_limit + 1) * self.retransmit_timeout

    def counter(self, counter: int) -> int:
        """Return the counter's value as its register shows it, modulo 2**32."""
        return self.counters[counter] & _COUNTER_MASK

    def trace(self, cycle: int, stage: Stage, context: int, pdc: int, psn: int, status: int = 0) -> None:
        """Record one event; callers ask ``tracing`` first, which is cheaper."""
        self.events.append(TraceEvent(cycle, stage, context, pdc, psn & 0xFFFF_FFFF, status))
