"""A network that goes on in other processes: its UDP socket, and how time passes while nothing comes."""

import abc
import contextlib
import errno
import math
import os
import secrets
import select
import socket
import struct
import time
from typing import Self

from amoeba_model.device import DeviceError
from amoeba_model.forking import own
from amoeba_model.frames import Frame
from amoeba_model.impairments import Impairments
from amoeba_model.link_addresses import FIRST_PORT
from amoeba_model.network import Network, SimulatedDevice
from amoeba_model.remote_process import Link, RemoteProcess, RemoteProcesses

__all__ = ["MAX_DATAGRAM", "OUTSIDE", "OutsideNetwork", "address_of", "listening"]

MAX_DATAGRAM = 65507
"""Bytes that UDP over IPv4 can carry."""
_IP_RECVERR = 11
"""Linux: keep what ICMP says of datagrams, with the address that they were sent to."""
_EXTENDED_ERROR = struct.Struct("=I")
"""The error number, first in ``struct sock_extended_err``."""
_INT = struct.Struct("=i")
_BUFFER = 1 << 22
"""Bytes asked of the operating system for frames that wait; it may grant less."""
_ATTEMPTS = 64
"""At a free port among thousands."""
_BATCH = 1024
"""Most datagrams taken at a time, so that a flood cannot stop the clock."""
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


def listening(host: str, port: int, dynamic: bool) -> socket.socket:
    """Open a socket at a port; 0 takes a free one, with ``dynamic`` one of the dynamic ports.

    Raises DeviceError if the port is not available.
    """
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        made.setsockopt(socket.SOL_IP, _IP_RECVERR, 1)
        _bind(made, host, port, dynamic)
    except (OSError, OverflowError) as error:
        made.close()
        raise DeviceError(f"cannot listen at UDP address {host}:{port}: {error}") from error
    return made


def address_of(host: str) -> str:
    """Return the IPv4 address of a host. Raises DeviceError for an unknown one."""
    try:
        return socket.gethostbyname(host)
    except (OSError, ValueError, TypeError) as error:  # the last: it has a null byte
        raise DeviceError(f"cannot find the host {host!r}: {error}") from error


def _bind(made: socket.socket, host: str, port: int, dynamic: bool) -> None:
    """Take the port, or a free one; ``dynamic``: of those that Ethernet addresses tell apart."""
    for _ in range(_ATTEMPTS if dynamic and not port else 0):
        with contextlib.suppress(OSError):
            made.bind((host, FIRST_PORT + secrets.randbelow((1 << 16) - FIRST_PORT)))
            return
    made.bind((host, port))


class OutsideNetwork(Network, abc.ABC):
    """A network of NICs of this process and, through a UDP socket, of others: what both kinds of it share.

    Subclasses say what a datagram is: they take the next one (:meth:`_take_next`) and send frames
    (:meth:`Network._forward`).

    A process keeps its own time. As long as a NIC does something, or frames come or go, it passes as fast as the
    simulation can. While nothing but waiting is left (:attr:`SimulatedDevice.idle`) it passes by the wall clock, at
    ``idle_hz``, so that a timeout of a NIC (in its cycles) leaves the other process time to answer (in seconds), and
    mostly asleep, so that waiting costs little. A frame ends the sleep. The process's other work takes no time.

    No step fails because of a datagram, or of a process that cannot be reached. These count datagrams:
    :attr:`strangers` of senders that may not send, :attr:`malformed` ones, and :attr:`unsent` ones that the operating
    system does not send. The first two are ignored. Frames wait in the MAC of a simulated NIC, up to 16 MiB, until it
    takes them; :attr:`SimulatedDevice.overflowed` counts others.

    Parameters
    ----------
    host, port : str, int
        Where to listen, by IPv4; port 0 takes a free one, with ``dynamic`` one from 49152 on.
    idle_hz : float, optional
        Cycles per second while nothing goes on: a step is one latency then, as long as that takes. Otherwise as the
        NICs here have it (:attr:`SimulatedDevice.idle_hz`), and a step is a millisecond.

    Raises DeviceError if the address cannot be listened at.
    """

    repeatable = False

    def __init__(
        self,
        host: str,
        port: int,
        *,
        latency: int,
        impairments: Impairments,
        idle_hz: float | None = None,
        dynamic: bool = False,
    ) -> None:
        super().__init__(latency, impairments)
        if idle_hz is not None and not idle_hz > 0:
            raise DeviceError(f"time passes at more than 0 cycles per second, got {idle_hz}")
        self.idle_hz = idle_hz
        self.resets = 0
        self.strangers = 0
        self.malformed = 0
        self.unsent = 0
        self.processes = RemoteProcesses()
        self._dynamic = dynamic
        self._frames_seen = 0
        self._work = 0.0
        self._glances = _GLANCES
        self._rested_since = time.monotonic()
        """When the last step ended."""
        self._idle_time = 0.0
        """Seconds by the wall clock that are to pass with the next step."""
        self._socket = listening(host, port, dynamic)
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
        with listening(host, port, self._dynamic) as other:
            os.dup2(other.fileno(), self._socket.fileno(), inheritable=False)

    def attach(self, device: SimulatedDevice, mac: bytes) -> None:
        self._check_open()
        super().attach(device, mac)
        device.bound_reception(_MAX_ARRIVING)

    @abc.abstractmethod
    def knows(self, mac: bytes) -> bool:
        """Whether it is known where frames for this Ethernet address go."""

    @abc.abstractmethod
    def connect(self, mac: bytes, host: str, port: int) -> None:
        """Send frames for a MAC address to another process, and take frames from there.

        Raises DeviceError for an impossible address.
        """

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

    def __enter__(self) -> Self:
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
        self._maintain()
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

    def _maintain(self) -> None:
        """Do what is due from time to time."""

    def _receive(self) -> None:
        """Take the datagrams that are there."""
        for _ in range(_BATCH):
            try:
                self._take_next()
            except BlockingIOError:
                return
            except OSError:
                self._check_open()
                self._take_errors(self._socket)

    @abc.abstractmethod
    def _take_next(self) -> None:
        """Take the next datagram. Raises BlockingIOError if no datagram waits, OSError if the socket has an error."""

    def _take_errors(self, asked: socket.socket) -> None:
        """Take what hosts and routers have said of datagrams that were sent."""
        with contextlib.suppress(OSError):  # they have said no more
            for _ in range(_BATCH):
                _, said, _, address = asked.recvmsg(1, 512, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)
                for level, kind, what in said:
                    refused = (level, kind) == (socket.SOL_IP, _IP_RECVERR) and len(what) >= _EXTENDED_ERROR.size
                    if refused and _EXTENDED_ERROR.unpack_from(what)[0] == errno.ECONNREFUSED:
                        self._end(self.processes.get(address))

    def _end(self, process: RemoteProcess | None, *, replaced: bool = False) -> None:
        """Answer for a process that is gone, if it was ever there."""
        if process is not None and process.epoch is not None:
            self.resets += 1
            for mac, nack in process.refusals(replaced=replaced):
                self._enter(self.now, None, mac, nack)

    def _arrive(self, destination: bytes, data: bytes) -> None:
        """Let a frame from outside enter the network; it arrives at once."""
        receiver = self._links.get(destination)
        lost = receiver is not None and receiver.cut
        self.traffic.sent += 1
        self.traffic.lost += lost
        if self.recording:
            self.log.append((OUTSIDE, Frame(self.now, data, "lost" if lost else "")))
        if not lost:
            self._enter(self.now, None, destination, data)

    def _send(self, sender: socket.socket, datagram: bytes, link: Link, tos: int = 0) -> bool:
        """Send a datagram, and return whether the operating system sends it.

        ``tos``: DSCP and congestion marks of its IP header.
        """
        for _ in range(2):
            try:
                if tos:
                    sender.sendmsg([datagram], [(socket.IPPROTO_IP, socket.IP_TOS, _INT.pack(tos))], 0, link)
                else:
                    sender.sendto(datagram, link)
            except OSError:
                self._check_open()
                self._take_errors(
                    sender
                )  # it may have been an earlier one's error: then this one was not tried yet
            else:
                return True
        self.unsent += 1
        return False

    def _check_open(self) -> None:
        if self.closed:
            raise DeviceError("the network's UDP socket is closed")
