"""Messages that a peer refuses for now are sent again: after a pause, or at once with the right generation.

Peers that are no Amoebas need a posted receive for each message. The NIC itself learns the generation of their
receives from refusals with BAD_GENERATION.
"""

import heapq
import random
import time
from collections.abc import Callable

from amoeba_model.descriptors import DescriptorOpcode
from amoeba_model.wire.uet import ReturnCode

from amoeba.transport.operation import Operation

__all__ = ["LAST_FOR_NOW", "MAX_PAUSES", "MAX_TURNS", "Repeats"]

_BAD_GENERATION = int(ReturnCode.BAD_GENERATION)
_PAUSES = frozenset({int(ReturnCode.NO_MATCH), int(ReturnCode.DISABLED_GEN)})
LAST_FOR_NOW = int(ReturnCode.NO_MATCH)
"""Statuses that :class:`Repeats` takes lie above OK, and up to here."""
_MESSAGES = frozenset({int(DescriptorOpcode.SEND), int(DescriptorOpcode.TAGGED_SEND)})
SHORTEST, LONGEST = 0.05, 0.1
"""Seconds of the first pause, at random between the two. Each pause is twice as long as the one before."""
MAX_PAUSES = 5
"""Then the message ends with its error: after 1.55 to 3.1 seconds of pauses."""
MAX_TURNS = 16
"""Repetitions because of BAD_GENERATION, after which the message ends with it."""


class Repeats:
    """The refused messages of one ring, by the time at which each is sent again."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, chosen: Callable[[float, float], float] = random.uniform
    ) -> None:
        self._clock = clock
        self._chosen = chosen
        self._numbers = 0
        self.waiting: list[tuple[float, int, int, Operation]] = []
        """A heap of (time, number, token, message)."""

    def take(self, token: int, message: Operation, status: int) -> bool:
        """Take a message that ended with an error; return False if it is not sent again."""
        if message.opcode not in _MESSAGES:
            return False
        if status == _BAD_GENERATION and message.turns < MAX_TURNS:
            message.turns += 1
            pause = 0.0
        elif status in _PAUSES and message.pauses < MAX_PAUSES:
            pause = self._chosen(SHORTEST, LONGEST) * 2**message.pauses
            message.pauses += 1
        else:
            return False
        self._numbers += 1
        heapq.heappush(self.waiting, (self._clock() + pause, self._numbers, token, message))
        return True

    def due(self) -> list[tuple[int, Operation]]:
        """Remove and return (token, message) of all that are to be sent again by now, the first one first."""
        found, now = [], self._clock()
        while self.waiting and self.waiting[0][0] <= now:
            _, _, token, message = heapq.heappop(self.waiting)
            found.append((token, message))
        return found
