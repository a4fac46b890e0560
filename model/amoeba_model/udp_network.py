"""A network that goes on in other processes: Ethernet frames in UDP datagrams."""

import contextlib
import errno
import math
import os
import secrets
import select
import socket
import struct
import time

from amoeba_model.device import DeviceError
from amoeba_model.forking import own
from amoeba_model.frames import Frame
from amoeba_model.impairments import PERFECT, Impairments
from amoeba_model.layout import Field, Record
from amoeba_model.link_addresses import FIRST_PORT, link_of
from amoeba_model.network import Network, SimulatedDevice
from amoeba_model.remote_process import Link, RemoteProcess, RemoteProcesses, asks
from amoeba_model.unroll import packer, unpacker

__all__ = ["DATAGRAM_HEADER", "OUTSIDE", "UdpNetwork"]

DATAGRAM_HEADER = Record(
    "datagram",
    16,
    (
        Field("magic", 32, "0x416D6F65, `Amoe` in ASCII."),
        Field("version", 8, "2."),
        Field("kind", 8, "0: a frame follows; 1: a probe, which a live process answers; 2: the answer."),
        Field("destination", 48, "MAC address of the NIC on whose link the frame arrives; zero without a frame."),
        Field("epoch", 32, "Random number of the sending process."),
    ),
    "Header of a frame in a UDP datagram: it repeats the destination, since the frame may be damaged.",
    order="big",
)
_FIELDS = tuple(f"{DATAGRAM_HEADER.name}.{field.name}" for field in DATAGRAM_HEADER.fields)
_pack_header = packer((DATAGRAM_HEADER,), _FIELDS)
_unpack_header = unpacker((DATAGRAM_HEADER,), _FIELDS)
_HEADER_SIZE = DATAGRAM_HEADER.size
_MAGIC, _VERSION = 0x416D_6F65, 2
_FRAME, _PROBE, _ANSWER = range(3)
_IP_RECVERR = 11
"""Linux: keep what ICMP says of datagrams, with the address that they were sent to."""
_EXTENDED_ERROR = struct.Struct("=I")
"""The error number, first in ``struct sock_extended_err``."""
_MAX_DATAGRAM = 65507
"""Bytes that UDP over IPv4 can carry."""
_MAX_FRAME = _MAX_DATAGRAM - DATAGRAM_HEADER.size
_BUFFER = 1 << 22
"""Bytes asked of the operating system for frames that wait; it may grant less."""
_ATTEMPTS = 64
"""At a free port among thousands."""
_BATCH = 1024
"""Most datagrams taken at a time, so that a flood cannot stop the clock."""
_MAC_SOURCE = slice(6, 12)
_IP_SOURCE, _IP_DESTINATION = slice(26, 30), slice(30, 34)
"""Behind Ethernet's header, in that of IPv4."""
_TICK = 1e-3
"""Seconds that a step lasts while nothing goes on."""
_REST = 3
"""Seconds asleep for each second of simulation, while nothing but waiting is left."""
_GLANCES = 16
"""Looks, since something went on, that neither rest nor let time pass: a program has several queues."""
_MAX_ARRIVING = 16 << 20
"""Bytes of frames that a NIC's MAC holds: 16 windows of 256 packets. Senders may be faster than its simulation."""
_MAX_SELECTED = 1024
"""Descriptors that select() knows."""
_LONGEST_REST = 0.05
"""Seconds: one slow step on a busy machine is no reason to sleep for long."""

OUTSIDE = -1
"""Index of the sender, in :attr:`Network.log`, of frames that came from another process."""


def _listening(host: str, port: int, arithmetic: bool) -> socket.socket:
    """Open a socket at a port; 0 takes a free one. Raises DeviceError if the port is not available."""
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        made.setsockopt(socket.SOL_IP, _IP_RECVERR, 1)
        _bind(made, host, port, arithmetic)
    except (OSError, OverflowError) as error:
        made.close()
        raise DeviceError(f"cannot listen at UDP address {host}:{port}: {error}") from error
    return made


def _bind(made: socket.socket, host: str, port: int, arithmetic: bool) -> None:
    """Take the port, or a free one of those that Ethernet addresses tell apart."""
    for _ in range(_ATTEMPTS if arithmetic and not port else 0):
        with contextlib.suppress(OSError):
            made.bind((host, FIRST_PORT + secrets.randbelow((1 << 16) - FIRST_PORT)))
            return
    made.bind((host, port))


def _link_in(frame: bytes, mac: bytes, ip: slice) -> Link | None:
    """Return the link that an Ethernet address and an IPv4 address inside a frame name together."""
    return link_of(mac, frame[ip]) if len(frame) >= _IP_DESTINATION.stop else None


class UdpNetwork(Network):
    """A network of the NICs of this process and, through a UDP socket, of NICs of others that do the same.

    Each process keeps its own time. As long as a NIC does something, or frames come or go, it passes as fast as the
    simulation can. While nothing but waiting is left (:attr:`SimulatedDevice.idle`) it passes by the wall clock, at
    ``idle_hz``, so that a timeout of a NIC (in its cycles) leaves the other process time to answer (in seconds), and
    mostly asleep, so that waiting costs little. A frame ends the sleep. The process's other work takes no time.
    Frames are impaired where they are sent from; those from outside arrive at once.

    Parameters
    ----------
    host, port : str, int
        Where to listen, by IPv4; port 0 takes a free one. The others must see what is sent from here come from
        this address, so that no address translation may lie between.
    idle_hz : float, optional
        Cycles per second while nothing goes on: a step is one latency then, as long as that takes. Otherwise as the
        NICs here have it (:attr:`SimulatedDevice.idle_hz`), and a step is a millisecond.
    keepalive : float
        Seconds, of those in which time passes here, after which every other process is asked for a sign of life.
    silence : float
        Seconds without one after which a process is taken for gone.
    arithmetic : bool
        Whether all NICs that nobody has named have the addresses that follow from where they are reached
        (:mod:`amoeba_model.link_addresses`): then processes need not be told about each other. Frames come from and
        go to the addresses of others, and the one NIC of this process has those of :attr:`address`.

    A process that has sent a datagram is gone when its host reports its port closed, when another process
    answers from there, or when it is silent for too long. Then the network answers for its NICs, with NACKs that make
    the NICs of this process give up their requests to them at once. :attr:`resets` counts such ends. The network
    waits for processes that have never sent a datagram.

    No step fails because of a datagram, or of a process that cannot be reached. These count datagrams:
    :attr:`strangers` of senders that are not connected, or whose frame says that it comes from elsewhere;
    :attr:`malformed` without a good header and a frame; :attr:`outdated` of a process whose address another one has;
    :attr:`unsent` that the operating system does not send. The first three are ignored. Frames wait in
    the MAC of a simulated NIC, up to 16 MiB, until it takes them; :attr:`SimulatedDevice.overflowed` counts others.

    Raises DeviceError if the address cannot be listened at.
    """

    DEFAULT_KEEPALIVE = 0.25
    DEFAULT_SILENCE = 60.0
    """Seconds: a process that computes, and lets no time pass for its NIC, says nothing meanwhile."""

    repeatable = False

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        latency: int = Network.DEFAULT_LATENCY,
        impairments: Impairments = PERFECT,
        idle_hz: float | None = None,
        keepalive: float = DEFAULT_KEEPALIVE,
        watchdog: float = DEFAULT_SILENCE,
        arithmetic: bool = False,
    ) -> None:
        super().__init__(latency, impairments)
        if idle_hz is not None and not idle_hz > 0:
            raise DeviceError(f"time passes at more than 0 cycles per second, got {idle_hz}")
        if not 0 < keepalive <= watchdog:
            raise DeviceError(f"expected 0 < keepalive <= silence, got {keepalive} and {watchdog}")
        self.idle_hz = idle_hz
        self.keepalive = keepalive
        self.watchdog = watchdog
        self.arithmetic = arithmetic
        self.resets = 0
        self.epoch = secrets.randbits(32)
        self.strangers = 0
        self.malformed = 0
        self.outdated = 0
        self.unsent = 0
        self._remote: dict[bytes, RemoteProcess] = {}
        self.processes = RemoteProcesses()
        self._next_probe = time.monotonic() + keepalive
        self._frames_seen = 0
        self._work = 0.0
        self._glances = _GLANCES
        self._rested_since = time.monotonic()
        """When the last step ended."""
        self._idle_time = 0.0
        """Seconds by the wall clock that are to pass with the next step."""
        self._socket = _listening(host, port, self.arithmetic)
        own(self)

    def forked(self) -> None:
        """Close the socket of this copy, which is in a forked child and must not take the parent's frames."""
        self._socket.close()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that others send to."""
        self._check_open()
        host, port = self._socket.getsockname()
        return host, port

    def move(self, port: int) -> None:
        """Listen at another port of the same host from now on; what was on its way to the old one is lost.

        The descriptor stays the same. NICs keep their addresses: where these follow from the port, attach them anew.
        Raises DeviceError if the port cannot be had; then nothing has changed.
        """
        host, _ = self.address
        with _listening(host, port, self.arithmetic) as other:
            os.dup2(other.fileno(), self._socket.fileno(), inheritable=False)

    def attach(self, device: SimulatedDevice, mac: bytes) -> None:
        self._check_open()
        if mac in self._remote:
            raise DeviceError(f"MAC address {mac.hex(':')} is already connected, at {self._remote[mac].address}")
        super().attach(device, mac)
        device.bound_reception(_MAX_ARRIVING)

    def connect(self, mac: bytes, host: str, port: int) -> None:
        """Send frames for a MAC address to another process, and take frames from there.

        Raises DeviceError if the address is taken, the host unknown, or the port none.
        """
        self._check_open()
        if len(mac) != 6:
            raise DeviceError(f"a MAC address has 6 bytes, got {mac!r}")
        if mac in self._links or mac in self._remote:
            raise DeviceError(f"MAC address {mac.hex(':')} is already attached or connected")
        if not 0 < port < 1 << 16:
            raise DeviceError(f"expected a UDP port of 1 to 65535, got {port}")
        try:
            address = (socket.gethostbyname(host), port)
        except (OSError, ValueError, TypeError) as error:  # the last: it has a null byte
            raise DeviceError(f"cannot find the host {host!r}: {error}") from error
        self._remote[mac] = self.processes.name(address)

    def knows(self, mac: bytes) -> bool:
        """Whether it is known where frames for this Ethernet address go."""
        return self.arithmetic or mac in self._links or mac in self._remote

    def close(self) -> None:
        """Close the socket; NICs that are still attached can take no further step. Idempotent.

        Threads that sleep until something comes are woken: the port is not free before the last of them is.
        """
        with contextlib.suppress(OSError):  # it is not connected, or closed
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._socket.fileno() < 0

    def __enter__(self) -> "UdpNetwork":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def outside(self) -> int | None:
        self._check_open()
        return self._socket.fileno()

    @property
    def stepped_at(self) -> float:
        """When the last step ended, on the clock of ``time.monotonic``."""
        return self._rested_since

    @property
    def patience(self) -> float:
        if self._flights:
            return 0.0
        passed = self._frames_seen != self.traffic.sent
        for link in self._links.values():
            device = link.device
            if not device.idle or (passed and not device.foresees):
                return 0.0
        pace = _TICK if self.idle_hz is None else self.latency / self.idle_hz
        return max(pace, min(_REST * self._work, _LONGEST_REST))

    def rest(self, longest: float | None = None) -> None:
        """Sleep as the next step would, which then need not; at most ``longest`` seconds.

        Time since the step before counts, wherever the process spent it.
        """
        self._check_open()
        patience = self.patience
        if patience:
            self._rest(patience, longest)

    def _rest(self, patience: float, longest: float | None = None) -> None:
        left = self._rested_since + patience - time.monotonic()
        if longest is not None and longest < left:
            left = longest
        if left > 0:
            self._comes(left)

    def _comes(self, longest: float) -> bool:
        """Sleep until a datagram is there, at most ``longest`` seconds; whether one is."""
        if self._socket.fileno() < _MAX_SELECTED:
            return bool(select.select([self._socket], [], [], longest)[0])
        poll = select.poll()  # knows nothing below a millisecond
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(math.ceil(longest * 1000)))

    def step(self, *, at_once: bool = False) -> None:
        self._check_open()
        patience = self.patience
        if patience and not at_once:
            self._rest(patience)
        self._idle_time = min(time.monotonic() - self._rested_since, patience, _TICK) if patience else 0.0
        super().step()
        self._rested_since = time.monotonic()

    def advance(self) -> None:
        if not self.patience:
            self._glances = _GLANCES
        elif self._glances and not self._comes(0):
            self._glances -= 1
            return
        self.step()

    def _step(self) -> None:
        frames = self.traffic.sent
        self._receive()
        self._probe()
        if self.idle_hz is None and self._idle_time and self.traffic.sent == frames:
            idle_hz = min((link.device.idle_hz for link in self._links.values()), default=0)
            self.now += max(int(self._idle_time * idle_hz) - self.latency, 0)
        self._frames_seen = self.traffic.sent
        begin = time.perf_counter()
        self._hand_over()
        super()._step()
        if self.traffic.sent == self._frames_seen and (departure := self._next_departure()) is not None:
            self.now = max(self.now, departure - self.latency)
            super()._step()
        self._work = time.perf_counter() - begin

    def _next_departure(self) -> int | None:
        """Return the cycle by which the next frame leaves; None: no frame is about to, or others are on their way."""
        if self._flights:
            return None
        departures = [link.device.next_departure for link in self._links.values()]
        return min((cycle for cycle in departures if cycle is not None), default=None)

    def _receive(self) -> None:
        """Take the datagrams that are there."""
        for _ in range(_BATCH):
            try:
                datagram, sender = self._socket.recvfrom(_MAX_DATAGRAM, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError:
                self._check_open()
                self._take_errors()
                continue
            self._take(datagram, sender)

    def _take_errors(self) -> None:
        """Take what hosts and routers have said of datagrams that were sent."""
        with contextlib.suppress(OSError):  # they have said no more
            for _ in range(_BATCH):
                _, said, _, address = self._socket.recvmsg(1, 512, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)
                for level, kind, what in said:
                    refused = (level, kind) == (socket.SOL_IP, _IP_RECVERR) and len(what) >= _EXTENDED_ERROR.size
                    if refused and _EXTENDED_ERROR.unpack_from(what)[0] == errno.ECONNREFUSED:
                        self._end(self.processes.get(address))

    def _probe(self) -> None:
        """Ask for signs of life when it is time."""
        now = time.monotonic()
        if now < self._next_probe:
            return
        self._next_probe = now + self.keepalive
        self.processes.expire(self.watchdog)
        for process in self.processes.turn():
            process.unanswered_probes += 1
            if process.unanswered_probes * self.keepalive > self.watchdog:
                process.unanswered_probes = 0
                if not process.awaited:
                    self.processes.forget(process)
                self._end(process)
            self._say(process.address, _PROBE)

    def _end(self, process: RemoteProcess | None, *, replaced: bool = False) -> None:
        """Answer for a process that is gone, if it was ever there."""
        if process is not None and process.epoch is not None:
            self.resets += 1
            for mac, nack in process.refusals(replaced=replaced):
                self._enter(self.now, None, mac, nack)

    def _hear(self, process: RemoteProcess, epoch: int) -> bool:
        """Note a datagram of a process; return False if the process is one that another has replaced."""
        if epoch in process.former:
            return False
        if process.epoch is not None and process.epoch != epoch:
            self._end(process, replaced=True)
            process.former.append(process.epoch)
        process.epoch, process.unanswered_probes = epoch, 0
        return True

    def _take(self, datagram: bytes, sender: Link) -> None:
        if not self.arithmetic and self.processes.named(sender) is None:
            self.strangers += 1
            return
        if len(datagram) < _HEADER_SIZE:
            self.malformed += 1
            return
        magic, version, kind, receiving, epoch = _unpack_header(datagram, 0)
        data = datagram[_HEADER_SIZE:]
        known = magic == _MAGIC and version == _VERSION and kind <= _ANSWER
        if not known or bool(data) is not (kind == _FRAME):
            self.malformed += 1
            return
        process = self._speaker(sender, data)
        if process is None:
            if kind == _PROBE:
                self._say(sender, _ANSWER)  # the sender may have been forgotten here, and waits for a NIC
            else:
                self.strangers += 1
            return
        if not self._hear(process, epoch):
            self.outdated += 1
            return
        if kind != _FRAME:
            if kind == _PROBE:
                self._say(sender, _ANSWER)
            return
        destination = receiving.to_bytes(6, "big")
        receiver = self._links.get(destination)
        lost = receiver is not None and receiver.cut
        self.traffic.sent += 1
        self.traffic.lost += lost
        if self.recording:
            self.log.append((OUTSIDE, Frame(self.now, data, "lost" if lost else "")))
        if not lost:
            self._enter(self.now, None, destination, data)

    def _speaker(self, sender: Link, data: bytes) -> RemoteProcess | None:
        """Return the process that a datagram comes from.

        None: it is not known, or its frame says that it comes from elsewhere. A frame makes a process known where
        addresses follow from links.
        """
        source = data[_MAC_SOURCE]
        named = self.processes.named(sender)
        if named is not None:
            return named if source not in self._links and self._remote.get(source, named) is named else None
        if not data:
            return self.processes.get(sender)
        return self.processes.hear(sender) if _link_in(data, source, _IP_SOURCE) == sender else None

    def _route(self, destination: bytes, data: bytes) -> Link | None:
        """Return where a frame is to be sent to."""
        process = self._remote.get(destination)
        if process is not None:
            return process.address
        return _link_in(data, destination, _IP_DESTINATION) if self.arithmetic else None

    def _forward(self, destination: bytes, data: bytes) -> bool:
        link = self._route(destination, data)
        if link is None:
            return False
        if len(data) > _MAX_FRAME:
            host, port = link
            raise DeviceError(
                f"cannot send a frame of {len(data)} bytes to {host}:{port}: "
                f"a datagram holds up to {_MAX_FRAME} bytes"
            )
        if asks(data):
            self.processes.ask(link).note_request(data)
        return self._say(link, _FRAME, destination, data)

    def _say(self, link: Link, kind: int, destination: bytes = b"", data: bytes = b"") -> bool:
        """Send a datagram, and return whether the operating system sends it."""
        header = _pack_header(_MAGIC, _VERSION, kind, int.from_bytes(destination, "big"), self.epoch)
        for _ in range(2):
            try:
                self._socket.sendto(header + data, link)
            except OSError:
                self._check_open()
                self._take_errors()  # it may have been an earlier one's error: then this one was not tried yet
            else:
                return True
        self.unsent += 1
        return False

    def _check_open(self) -> None:
        if self.closed:
            raise DeviceError("the network's UDP socket is closed")
