"""Processes at the other ends of UDP links, and what the end of one means for the NICs of this process.

Datagrams come from anybody. A table that they write into is bounded, and forgets; nothing that a NIC here waits for
depends on such an entry.
"""

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from amoeba_model.wire.codec import NO_PDC, DecodedFrame, FrameHeader, decode, encode
from amoeba_model.wire.uet import ENCAPSULATION_SIZE, NackCode, PdsType

__all__ = ["Link", "RemoteProcess", "RemoteProcesses", "asks"]

Link = tuple[str, int]
"""IPv4 address and UDP port of a process."""

_TYPES = frozenset({PdsType.ROD_REQ.value, PdsType.CONTROL.value})
_NUMBER = slice(ENCAPSULATION_SIZE + 8, ENCAPSULATION_SIZE + 10)
"""``spdcid`` of both."""
_SENDER = slice(6, 12)
"""Of an Ethernet header: the source's address."""
_IP_DESTINATION = slice(30, 34)
_MAX_FORMER = 16
"""Processes that had an address before and are remembered: a datagram of one of them is late, and dropped."""
_MAX_HEARD = 4096
"""Processes that are known by nothing but their frames; the one that was silent for longest is replaced."""
_MAX_ASKED = 4096
"""Processes that were sent requests; the one with the oldest last request is replaced."""
_TURN = 256
"""Most processes that are probed at a time."""


def asks(frame: bytes) -> bool:
    """Whether a frame asks for an answer, for which its sender waits."""
    return len(frame) > ENCAPSULATION_SIZE and frame[ENCAPSULATION_SIZE] >> 3 in _TYPES


@dataclass(eq=False)
class RemoteProcess:
    """Knowledge of a process, from its datagrams."""

    address: Link
    epoch: int | None = None
    """The number of the process in its datagrams; None before the first one."""
    former: deque[int] = field(default_factory=lambda: deque(maxlen=_MAX_FORMER))
    """Numbers of the last processes that had the address before."""
    heard_at: float = 0.0
    """When its last frame came."""
    unanswered_probes: int = 0
    """Probes since the last datagram of the process."""
    _requests: dict[bytes, bytes] = field(default_factory=dict)
    """The last frame that asks for an answer, by packet delivery context."""

    @property
    def awaited(self) -> bool:
        """Whether a NIC here may wait for the process, and would be notified of its end."""
        return self.epoch is not None and bool(self._requests)

    def note_request(self, frame: bytes) -> None:
        """Note a frame that goes to the process and :func:`asks` for an answer."""
        self._requests[frame[:6] + frame[_SENDER] + frame[_NUMBER]] = frame

    def refusals(self, *, replaced: bool = False) -> list[tuple[bytes, bytes]]:
        """Make the NACKs that stand for the process now that it is gone, each with the NIC that it is for.

        One for every packet delivery context; those that wait for nothing ignore it. ``replaced``: another process
        has its address. Contexts without an answer so far then count as contexts to the new process.
        """
        requests, self._requests = self._requests, {}
        if replaced:
            self._requests = {key: frame for key, frame in requests.items() if _opens(frame)}
        return [(frame[_SENDER], _refusal(frame)) for key, frame in requests.items() if key not in self._requests]


class RemoteProcesses:
    """The processes that are known, by where they are reached.

    The program names some, which stay. NICs here send requests to others, which stay until they are silent for long,
    or until too many others are sent requests. The rest is known by its frames alone. Nothing waits for such a
    process: it is forgotten after ``watchdog`` seconds, or when too many others send frames.

    ``clock`` tells the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._named: dict[Link, RemoteProcess] = {}
        self._asked: OrderedDict[Link, RemoteProcess] = OrderedDict()
        self._heard: OrderedDict[Link, RemoteProcess] = OrderedDict()
        self._turns: deque[RemoteProcess] = deque()
        self.displaced = 0
        """Processes that were forgotten because others took their places."""

    def __len__(self) -> int:
        return len(self._named) + len(self._asked) + len(self._heard)

    def get(self, link: Link) -> RemoteProcess | None:
        """Return the process that is known there."""
        return self._named.get(link) or self._asked.get(link) or self._heard.get(link)

    def named(self, link: Link) -> RemoteProcess | None:
        """Return the process there if the program has named it."""
        return self._named.get(link)

    def name(self, link: Link) -> RemoteProcess:
        """Know a process for good: the program says that it is there."""
        process = self.get(link) or RemoteProcess(link)
        self._asked.pop(link, None)
        self._heard.pop(link, None)
        self._named[link] = process
        return process

    def ask(self, link: Link) -> RemoteProcess:
        """Return the process that is sent a request there."""
        process = self._named.get(link)
        if process is None:
            process = self._asked.pop(link, None) or self._heard.pop(link, None) or RemoteProcess(link)
            self._put(self._asked, process, _MAX_ASKED)
        return process

    def hear(self, link: Link) -> RemoteProcess:
        """Return the process of which a frame has come from there."""
        process = self._named.get(link) or self._asked.get(link)
        if process is None:
            process = self._heard.pop(link, None) or RemoteProcess(link)
            self._put(self._heard, process, _MAX_HEARD)
        process.heard_at = self._clock()
        return process

    def _put(self, table: OrderedDict[Link, RemoteProcess], process: RemoteProcess, most: int) -> None:
        table[process.address] = process
        if len(table) > most:
            table.popitem(last=False)
            self.displaced += 1

    def forget(self, process: RemoteProcess) -> None:
        """Nothing waits for a process any more; one that the program has named stays."""
        self._asked.pop(process.address, None)

    def expire(self, watchdog: float) -> None:
        """Forget the processes that are known by their frames alone and have sent none for so many seconds."""
        oldest = self._clock() - watchdog
        while self._heard:
            link = next(iter(self._heard))
            if self._heard[link].heard_at >= oldest:
                return
            del self._heard[link]

    def turn(self) -> list[RemoteProcess]:
        """Return the next processes to probe, a bounded number of those that may be awaited: each has its turn."""
        if not self._turns:
            self._turns.extend((*self._named.values(), *self._asked.values()))
        return [self._turns.popleft() for _ in range(min(_TURN, len(self._turns)))]


def _opens(frame: bytes) -> bool:
    """Whether a request is of a packet delivery context without any answer so far."""
    decoded = decode(frame)
    return isinstance(decoded, DecodedFrame) and decoded.header.syn


def _refusal(frame: bytes) -> bytes:
    """Make the NACK that gives up the packet delivery context of a request; return a damaged request as it is."""
    decoded = decode(frame)
    if not isinstance(decoded, DecodedFrame):
        return frame
    request = decoded.header
    nack = FrameHeader(
        mac=request.mac,
        ip=request.ip,
        port=request.port,
        is_request=False,
        is_control=True,
        nack_code=NackCode.CLOSING_IN_ERR.value,
        psn=request.psn,
        spdcid=NO_PDC,
        dpdcid=request.spdcid,
    )
    own_mac, own_ip = (int.from_bytes(part, "big") for part in (frame[:6], frame[_IP_DESTINATION]))
    return encode(nack, b"", own_mac, own_ip)
