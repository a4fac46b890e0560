"""A network that goes on in other processes: Ethernet frames in UDP datagrams."""

import secrets
import socket
import time

from amoeba_model.device import DeviceError
from amoeba_model.impairments import PERFECT, Impairments
from amoeba_model.layout import Field, Record
from amoeba_model.link_addresses import link_of
from amoeba_model.network import Network, SimulatedDevice
from amoeba_model.outside_network import MAX_DATAGRAM, OUTSIDE, OutsideNetwork, address_of
from amoeba_model.remote_process import Link, RemoteProcess, asks
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
_MAX_FRAME = MAX_DATAGRAM - DATAGRAM_HEADER.size
_MAC_SOURCE = slice(6, 12)
_IP_SOURCE, _IP_DESTINATION = slice(26, 30), slice(30, 34)
"""Behind Ethernet's header, in that of IPv4."""


def _link_in(frame: bytes, mac: bytes, ip: slice) -> Link | None:
    """Return the link that an Ethernet address and an IPv4 address inside a frame name together."""
    return link_of(mac, frame[ip]) if len(frame) >= _IP_DESTINATION.stop else None


class UdpNetwork(OutsideNetwork):
    """A network of the NICs of this process and, through a UDP socket, of NICs of others that do the same.

    Time passes as :class:`OutsideNetwork` says.
    Frames are impaired where they are sent from; those from outside arrive at once.

    Parameters
    ----------
    host, port : str, int
        Where to listen, by IPv4; port 0 takes a free one. The others must see what is sent from here come from
        this address, so that no address translation may lie between.
    idle_hz : float, optional
        As in :class:`OutsideNetwork`.
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

    :attr:`strangers` counts datagrams of senders that are not connected, or whose frame says that it comes from
    elsewhere; :attr:`malformed` those without a good header and a frame; :attr:`outdated` those of a process whose
    address another one has. All are ignored.

    Raises DeviceError if the address cannot be listened at.
    """

    DEFAULT_KEEPALIVE = 0.25
    DEFAULT_SILENCE = 60.0
    """Seconds: a process that computes, and lets no time pass for its NIC, says nothing meanwhile."""

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
        if not 0 < keepalive <= watchdog:
            raise DeviceError(f"expected 0 < keepalive <= silence, got {keepalive} and {watchdog}")
        self.keepalive = keepalive
        self.watchdog = watchdog
        self.arithmetic = arithmetic
        self.epoch = secrets.randbits(32)
        self.outdated = 0
        self._remote: dict[bytes, RemoteProcess] = {}
        self._next_probe = time.monotonic() + keepalive
        super().__init__(host, port, latency=latency, impairments=impairments, idle_hz=idle_hz, dynamic=arithmetic)

    def attach(self, device: SimulatedDevice, mac: bytes) -> None:
        self._check_open()
        if mac in self._remote:
            raise DeviceError(f"MAC address {mac.hex(':')} is already connected, at {self._remote[mac].address}")
        super().attach(device, mac)

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
        self._remote[mac] = self.processes.name((address_of(host), port))

    def knows(self, mac: bytes) -> bool:
        """Whether it is known where frames for this Ethernet address go."""
        return self.arithmetic or mac in self._links or mac in self._remote

    def _maintain(self) -> None:
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

    def _hear(self, process: RemoteProcess, epoch: int) -> bool:
        """Note a datagram of a process; return False if the process is one that another has replaced."""
        if epoch in process.former:
            return False
        if process.epoch is not None and process.epoch != epoch:
            self._end(process, replaced=True)
            process.former.append(process.epoch)
        process.epoch, process.unanswered_probes = epoch, 0
        return True

    def _take_next(self) -> None:
        datagram, sender = self._socket.recvfrom(MAX_DATAGRAM, socket.MSG_DONTWAIT)
        self._take(datagram, sender)

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
        self._arrive(receiving.to_bytes(6, "big"), data)

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
        return self._send(self._socket, header + data, link)
