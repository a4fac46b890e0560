"""FrameTransmitter and FrameReceiver: headers and payload to frames and back."""

import heapq

from amoeba_model.frames import Frame
from amoeba_model.nic.core import Core
from amoeba_model.registers import Counter
from amoeba_model.trace import NO_CONTEXT, UNKNOWN_PDC, Stage
from amoeba_model.wire.codec import DecodedFrame, FrameHeader, decode, encode
from amoeba_model.wire.uet import ATOMIC_EXTENSION, CRC_SIZE, ENCAPSULATION_SIZE, PDS_REQUEST, SES_REQUEST

__all__ = ["Announcement", "FrameReceiver", "FrameTransmitter"]

_FRAMES_RECEIVED = Counter.FRAMES_RECEIVED.value
_DROPPED_MALFORMED = Counter.DROPPED_MALFORMED.value
_MARKED_REQUESTS = Counter.MARKED_REQUESTS.value
_MARKED_RESPONSES = Counter.MARKED_RESPONSES.value
_LONGEST_FRAME = 1000
"""Cycles: what has begun has left by then."""
_HEADER_MAXIMUM = ENCAPSULATION_SIZE + PDS_REQUEST.size + SES_REQUEST.size + ATOMIC_EXTENSION.size


Announcement = tuple[Stage, int, int, int, int]
"""The trace event of a frame's first beat, all but its cycle: (stage, context, pdc, psn, status)."""
_Queued = tuple[int, int, bytes, Announcement]
"""A frame, by the cycle at which it is ready and its number."""


class FrameTransmitter:
    """Sends frames one after the other, a beat per cycle, in the order in which they become ready."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._waiting: list[_Queued] = []
        """By the cycle at which they are ready, and in the order in which they came."""
        self._urgent: list[_Queued] = []
        self._queued = 0
        self._free = 0
        """Cycle at which the line is free again."""
        self._busy_until = 0
        """Cycle at which all frames queued so far have left."""
        self._pauses: list[tuple[int, bool]] = []
        """Since when nothing may begin to leave, and again may; the first may lie long back."""

    def send(
        self, header: FrameHeader, payload: bytes, ready: int, announcement: Announcement, urgent: bool = False
    ) -> int:
        """Queue a frame whose first beat may leave in cycle ``ready``; frames ready together keep their order.

        One that is ``urgent`` goes first as soon as it is ready: the hardware cuts a packet when the line is free,
        and packets that are sent again before others of their PDC.

        Returns the cycle at which it has left if nothing overtakes it.
        """
        core = self._core
        frame = encode(header, payload, core.mac, core.ip, core.dscp, core.parameters.peers)
        start = self._busy_until if self._busy_until > ready else ready
        self._busy_until = left = start - (-len(frame) // core.beat_bytes)
        self._queued += 1
        heapq.heappush(self._urgent if urgent else self._waiting, (ready, self._queued, frame, announcement))
        return left

    def pause(self, cycle: int, stop: bool) -> None:
        """From a cycle on no frame begins, or all may; not earlier than what was said before."""
        now = self._core.now
        while len(self._pauses) > 1 and self._pauses[1][0] < now - _LONGEST_FRAME:
            del self._pauses[0]
        self._pauses.append((cycle, stop))

    def obey(self, former: "FrameTransmitter") -> None:
        """Take over the pauses of the link partner, which outlive a reset of the NIC."""
        self._pauses = former._pauses

    def _allowed(self, start: int) -> int | None:
        """Find the first cycle from ``start`` on in which a frame may begin; None until the link partner resumes."""
        stopped = False
        for cycle, stop in self._pauses:
            if cycle <= start:
                stopped = stop
            elif stopped and not stop:
                return cycle
        return None if stopped else start

    @property
    def waiting(self) -> bool:
        """Whether a frame has not been taken."""
        return bool(self._waiting or self._urgent)

    def take(self) -> list[Frame]:
        """Take the frames whose last beat has left by now."""
        frames: list[Frame] = []
        now = self._core.now
        while (first := self._first()) is not None:
            waiting, start, end = first
            if end > now:
                break
            _, _, data, announcement = heapq.heappop(waiting)
            self._free = end
            frames.append(Frame(end, data))
            if self._core.tracing:
                self._core.trace(start, *announcement)
        return frames

    @property
    def next_departure(self) -> int | None:
        """Cycle in which the last beat of the next frame leaves; None without one that may leave."""
        first = self._first()
        return None if first is None else first[2]

    def _first(self) -> tuple[list[_Queued], int, int] | None:
        """Return the queue of the next frame, and the cycles of its first and last beat; None: no frame may leave."""
        waiting = self._waiting
        if self._urgent and (not waiting or self._urgent[0][0] <= max(self._free, waiting[0][0])):
            waiting = self._urgent
        if not waiting:
            return None
        ready, _, data, _ = waiting[0]
        start = ready if ready > self._free else self._free
        if self._pauses:
            allowed = self._allowed(start)
            if allowed is None:
                return None
            start = allowed
        return waiting, start, start - (-len(data) // self._core.beat_bytes)


class FrameReceiver:
    """Decodes and counts; a frame is looked at when its last byte is there.

    It stores frames up to :attr:`limit` bytes, those with any headers and a full payload; longer ones are
    malformed.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self.limit = _HEADER_MAXIMUM + core.parameters.payload + CRC_SIZE

    def receive(self, frame: bytes, cycle: int) -> DecodedFrame | None:
        """Decode a frame; ``cycle`` is for the trace.

        None: it was dropped and counted, or is a CLEAR_COMMAND. Answers are kept for a window, cleared or not.
        """
        if len(frame) > self.limit:
            self._core.counters[_DROPPED_MALFORMED] += 1
            return None
        core = self._core
        decoded = decode(frame, core.mac, core.ip, core.parameters.peers)
        if not isinstance(decoded, DecodedFrame):
            core.counters[decoded.cause] += 1
            return None
        core.counters[_FRAMES_RECEIVED] += 1
        if decoded.header.marked:
            core.counters[_MARKED_REQUESTS if _is_requested(decoded.header) else _MARKED_RESPONSES] += 1
        if decoded.header.clears:
            return None
        if core.tracing:
            self._trace(decoded.header, cycle)
        return decoded

    def _trace(self, header: FrameHeader, cycle: int) -> None:
        if header.is_request:
            pdc = UNKNOWN_PDC if header.syn else header.dpdcid
            context = NO_CONTEXT if header.is_control else header.resource_index & 0xFF
            self._core.trace(cycle, Stage.REQUEST_RECEIVED, context, pdc, header.psn)
        else:
            self._core.trace(
                cycle, Stage.RESPONSE_RECEIVED, NO_CONTEXT, header.dpdcid, header.psn, header.return_code
            )


def _is_requested(header: FrameHeader) -> bool:
    """Whether a frame is a request on the wire, in either direction of its PDC."""
    return header.is_request or header.returns
