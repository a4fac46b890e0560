"""An Ethernet switch whose ports have an end: what comes faster than it leaves waits, is marked, held up, dropped."""

import heapq
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from amoeba_model.device import DeviceError

__all__ = ["Outcome", "Port", "Switch", "SwitchQueues"]

_LONGEST_FRAME = 9216
"""Bytes: a jumbo frame, longer than any of a NIC's."""
_ETHERTYPE = slice(12, 14)
_IPV4 = b"\x08\x00"
_TRAFFIC_CLASS = 15
_CHECKSUM = slice(24, 26)
_IPV4_END = 34
_CONGESTION_EXPERIENCED = 3


@dataclass(frozen=True)
class Switch:
    """Parameters of a switch with a port for each NIC.

    A frame is stored when it has arrived (store and forward), and leaves through the port of the NIC that it is for,
    behind all that came there before. Numbers of bytes are those of frames without preamble and FCS.

    Parameters
    ----------
    buffer : int
        Bytes. Without ``pause``, of frames that wait at one port: what does not fit behind them is dropped (tail
        drop). With ``pause``, of frames that came from one NIC, whichever port they wait at.
    pause : bool
        IEEE 802.3x flow control, in both directions: a NIC of which more than half of ``buffer`` is taken is told to
        stop, until no more than a quarter is; and no frame leaves for a NIC that has told the switch to stop. A frame
        that has begun is sent to its end, and a pause takes a link latency to arrive, so that frames still come.
    rate : int
        Bytes that leave through a port per cycle: 32 are what a NIC of 256 bits sends.
    mark : int, optional
        Bytes at a port from which on IPv4 packets that come there are marked "congestion experienced" (RFC 3168,
        section 5), if they are ECN-capable: requests of Amoeba's NICs are, answers are not.
    nic_buffer : int
        Bytes of arriving frames that each NIC's MAC holds, which tells the switch to stop as the switch does
        with ``pause``, and drops what does not fit without. The model takes what arrives at once, and needs none.

    Raises DeviceError for numbers that are not positive.
    """

    buffer: int = 1 << 17
    pause: bool = False
    rate: int = 32
    mark: int | None = None
    nic_buffer: int = 1 << 16

    def __post_init__(self) -> None:
        for name in ("buffer", "rate", "nic_buffer"):
            if getattr(self, name) < 1:
                raise DeviceError(f"a switch's {name} is at least 1, got {getattr(self, name)}")
        if self.mark is not None and self.mark < 0:
            raise DeviceError(f"expected a number of bytes from which on a switch marks frames, got {self.mark}")

    def check(self, latency: int) -> None:
        """Raise DeviceError if NICs could not stop in time, on links of this latency."""
        headroom = 2 * latency * self.rate + 2 * _LONGEST_FRAME
        for name in ("buffer", "nic_buffer"):
            if self.pause and getattr(self, name) < 2 * headroom:
                raise DeviceError(
                    f"with pause and a latency of {latency} cycles, a switch needs {2 * headroom} bytes of {name} so "
                    f"that nothing is lost, half of them for what still comes, got {getattr(self, name)}"
                )


class _Waiting(NamedTuple):
    source: "Port"
    data: bytes


@dataclass(eq=False)
class Port:
    """The port of one NIC."""

    waiting: deque[_Waiting] = field(default_factory=deque)
    """Frames for the NIC; the first is leaving if :attr:`leaving`."""
    queued: int = 0
    """Bytes of them."""
    held: int = 0
    """Bytes of frames from the NIC, at any port."""
    leaving: bool = False
    pausing: bool = False
    """The NIC has been told to stop."""
    paused: bool = False
    """The NIC has told the switch to stop."""
    blocked: bool = False
    """Nothing may leave, whatever the NIC says."""


class Outcome(NamedTuple):
    """Event at a port: a frame leaves, or the switch tells its NIC to stop or to go on."""

    cycle: int
    port: Port
    frame: bytes | None
    stop: bool = False


_LEFT, _TOLD, _WOKEN, _ARRIVED = range(4)
"""Kinds of events, in the order in which they happen in one cycle."""
_Event = tuple[int, int, int, Port, Port | None, bytes | bool]
"""(cycle, kind, serial, the port it happens at, where a frame came from, the frame or whether to stop)."""


class SwitchQueues:
    """The switch at work. It depends on nothing but what it is told, and in which cycles.

    :attr:`dropped` and :attr:`marked` count frames.
    """

    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        self._stop_at = switch.buffer // 2
        self._go_at = switch.buffer // 4
        self._events: list[_Event] = []
        self._serial = 0
        self._now = 0
        self._outcomes: list[Outcome] = []
        self.frames = 0
        """Frames inside."""
        self.dropped = 0
        self.marked = 0

    def arrive(self, cycle: int, source: Port, target: Port, data: bytes) -> None:
        """Add the arrival of a frame from one NIC, for another, at a cycle to come."""
        self.frames += 1
        self._add(cycle, _ARRIVED, target, source, data)

    def tell(self, cycle: int, port: Port, stop: bool) -> None:
        """Add the arrival of a NIC's order to stop, or to go on."""
        self._add(cycle, _TOLD, port, None, stop)

    def block(self, port: Port, blocked: bool) -> None:
        """From now on, let nothing leave for a NIC, or again what it allows."""
        port.blocked = blocked
        self._add(self._now, _WOKEN, port, None, False)

    def forget(self, port: Port) -> None:
        """Forget a NIC that is gone: the frames that wait for it are dropped as they leave."""
        port.paused = False
        self.block(port, False)

    def run(self, until: int) -> Iterator[Outcome]:
        """Let time pass; what comes of it, in order."""
        events = self._events
        while events and events[0][0] <= until:
            self._now, kind, _, port, source, what = heapq.heappop(events)
            if kind == _ARRIVED and source is not None and isinstance(what, bytes):
                self._take(port, source, what)
            elif kind == _LEFT:
                self._leave(port)
            elif kind == _TOLD:
                port.paused = bool(what)
            self._send(port)
        self._now = until
        outcomes, self._outcomes = self._outcomes, []
        return iter(outcomes)

    def _add(self, cycle: int, kind: int, port: Port, source: Port | None, what: bytes | bool) -> None:
        self._serial += 1
        heapq.heappush(self._events, (max(cycle, self._now), kind, self._serial, port, source, what))

    def _take(self, port: Port, source: Port, data: bytes) -> None:
        switch, size = self._switch, len(data)
        if (source.held if switch.pause else port.queued) + size > switch.buffer:
            self.dropped += 1
            self.frames -= 1
            return
        if switch.mark is not None and port.queued >= switch.mark:
            marked = congestion_experienced(data)
            self.marked += marked is not data
            data = marked
        port.waiting.append(_Waiting(source, data))
        port.queued += size
        source.held += size
        if switch.pause and not source.pausing and source.held > self._stop_at:
            source.pausing = True
            self._outcomes.append(Outcome(self._now, source, None, stop=True))

    def _send(self, port: Port) -> None:
        """Let the next frame leave, if nothing is in its way."""
        if port.waiting and not (port.leaving or port.paused or port.blocked):
            port.leaving = True
            cycles = -(-len(port.waiting[0].data) // self._switch.rate)
            self._add(self._now + cycles, _LEFT, port, None, False)

    def _leave(self, port: Port) -> None:
        source, data = port.waiting.popleft()
        port.leaving = False
        port.queued -= len(data)
        source.held -= len(data)
        self.frames -= 1
        self._outcomes.append(Outcome(self._now, port, data))
        if source.pausing and source.held <= self._go_at:
            source.pausing = False
            self._outcomes.append(Outcome(self._now, source, None, stop=False))


def congestion_experienced(frame: bytes) -> bytes:
    """Mark the packet of a frame, and update its checksum (RFC 1624).

    Returns the frame itself if its packet is not IPv4, is not ECN-capable, or is marked already.
    """
    if frame[_ETHERTYPE] != _IPV4 or len(frame) < _IPV4_END:
        return frame
    before = frame[_TRAFFIC_CLASS]
    after = before | _CONGESTION_EXPERIENCED
    if before == after or not before & _CONGESTION_EXPERIENCED:
        return frame
    # The traffic class is the low byte of its 16-bit word.
    total = (~int.from_bytes(frame[_CHECKSUM], "big") & 0xFFFF) + (~before & 0xFFFF) + after
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    checksum = (~total & 0xFFFF).to_bytes(2, "big")
    return b"".join((frame[:_TRAFFIC_CLASS], bytes([after]), frame[_TRAFFIC_CLASS + 1 : 24], checksum, frame[26:]))
