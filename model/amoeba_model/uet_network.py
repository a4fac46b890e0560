"""A network of bare UET: each datagram of the host's own UDP is one packet, as any UET endpoint sends it.

The NIC of the process keeps the addresses that follow from the link, its host and the UET port
(:mod:`amoeba_model.link_addresses`). On the wire stand the hosts' own addresses, and a source port of this process.
The packet's CRC covers both, so the translation changes the CRC by the difference that they make. A damaged packet
stays damaged.
"""

import contextlib
import fcntl
import socket
import struct
from collections.abc import Iterator

import google_crc32c

from amoeba_model.device import DeviceError
from amoeba_model.impairments import PERFECT, Impairments
from amoeba_model.link_addresses import ip_of_link, link_of, mac_of_link
from amoeba_model.network import Network, SimulatedDevice
from amoeba_model.outside_network import MAX_DATAGRAM, OutsideNetwork, address_of, listening
from amoeba_model.remote_process import Link, asks
from amoeba_model.wire.uet import (
    ATOMIC_EXTENSION,
    CRC_SIZE,
    CRC_START,
    CSWAP_VALUES_SIZE,
    ENCAPSULATION_SIZE,
    ETHERNET,
    ETHERTYPE_IPV4,
    IP_PROTOCOL_UDP,
    IPV4,
    PDS_REQUEST,
    SES_REQUEST,
    UDP,
    UDP_PORT,
)

__all__ = ["MAX_HEADERS", "UetNetwork", "mtu_of", "to_datagram", "to_frame"]

MAX_HEADERS = (
    IPV4.size + UDP.size + PDS_REQUEST.size + SES_REQUEST.size + ATOMIC_EXTENSION.size + CSWAP_VALUES_SIZE + CRC_SIZE
)
"""Bytes of an IP packet beside its payload, at most: the MTU is at least this and the payload."""
_SOURCES = 8
"""Source ports. Paths between two hosts are chosen by the port, and a PDC keeps its own."""
_SILENCE = 60.0
"""Seconds after which a peer that is known by its datagrams alone is forgotten."""
_IP_MTU_DISCOVER, _PMTUDISC_DO = 10, 2
"""Linux: set "don't fragment"; a packet that is too long is refused."""
_SO_NO_CHECK = 11
"""Linux: UDP checksum 0, since the packet has a CRC."""
_IP_RECVTOS = 13
"""Linux: tell the byte with DSCP and congestion marks."""
_SMALL_BUFFER = 1
"""Bytes to receive on ports that nothing comes to; the operating system rounds up."""
_MAC_DESTINATION = slice(0, 6)
_TOS = ETHERNET.size + 1
_TOTAL_LENGTH = slice(ETHERNET.size + 2, ETHERNET.size + 4)
_IP_DESTINATION = slice(ENCAPSULATION_SIZE - UDP.size - 4, ENCAPSULATION_SIZE - UDP.size)
_SOURCE_PORT = slice(ENCAPSULATION_SIZE - UDP.size, ENCAPSULATION_SIZE - UDP.size + 2)
_COVERED = struct.Struct(">4s4sHHHH")
"""The part that the CRC covers in front of the packet: both addresses, both ports, length and checksum of UDP."""
_IP_HEADER = struct.Struct(">BBHHHBBH4s4s")
_DONT_FRAGMENT, _TTL = 0x4000, 64
_INTERFACE = struct.Struct("16s240x")
_GET_ADDRESS, _GET_MASK, _GET_MTU = 0x8915, 0x891B, 0x8921
"""Requests of Linux about a network interface."""
_DEFAULT_MTU = 1500


def _covered(source: Link, destination: Link, length: int) -> bytes:
    """Return what the CRC covers in front of a packet of so many bytes."""
    return _COVERED.pack(
        socket.inet_aton(source[0]), socket.inet_aton(destination[0]), source[1], destination[1], UDP.size + length, 0
    )


def _translate(packet: bytes, before: bytes, after: bytes) -> bytes:
    """Return a packet with the CRC for other addresses: it is right behind ``after`` if it was behind ``before``."""
    body, crc = packet[:-CRC_SIZE], int.from_bytes(packet[-CRC_SIZE:], "little")
    for covered in (before, after):
        crc ^= google_crc32c.extend(google_crc32c.value(covered), body)
    return body + crc.to_bytes(CRC_SIZE, "little")


def to_datagram(frame: bytes, source: Link, destination: Link) -> bytes:
    """Return the UDP payload that carries a NIC's frame from one host's address and port to another's."""
    packet = frame[ENCAPSULATION_SIZE : ETHERNET.size + int.from_bytes(frame[_TOTAL_LENGTH], "big")]
    return _translate(packet, frame[CRC_START:ENCAPSULATION_SIZE], _covered(source, destination, len(packet)))


def to_frame(datagram: bytes, source: Link, destination: Link, tos: int = 0) -> bytes:
    """Return the frame by which a NIC gets a UDP payload of at least a CRC.

    ``source``: the sender's address, with the port of the datagram. ``destination``: that of this process, with the
    UET port, which is the sender's as well. ``tos``: DSCP and congestion marks of the IP header.
    """
    (host, entropy), port = source, destination[1]
    ip, own_ip = (ip_of_link(each, port).to_bytes(4, "big") for each in (host, destination[0]))
    length = UDP.size + len(datagram)
    covered = _COVERED.pack(ip, own_ip, entropy, UDP_PORT, length, 0)
    header = _IP_HEADER.pack(0x45, tos, IPV4.size + length, 0, _DONT_FRAGMENT, _TTL, IP_PROTOCOL_UDP, 0, ip, own_ip)
    checksum = 0xFFFF - (int.from_bytes(header, "big") % 0xFFFF or 0xFFFF)
    ethernet = mac_of_link(*destination) + mac_of_link(host, port) + ETHERTYPE_IPV4.to_bytes(2, "big")
    packet = _translate(datagram, _covered(source, destination, len(datagram)), covered)
    return b"".join((ethernet, header[:10], checksum.to_bytes(2, "big"), covered, packet))


def mtu_of(host: str) -> int:
    """Return the MTU of this host's interface that has an address, in bytes of an IP packet; 1500 if none has it."""
    wanted = int.from_bytes(socket.inet_aton(host), "big")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for address, mask, mtu in _interfaces(asked):
            if not (wanted ^ address) & mask:
                return mtu
    return _DEFAULT_MTU


def _interfaces(asked: socket.socket) -> Iterator[tuple[int, int, int]]:
    """Yield address, network mask and MTU of each interface that has an IPv4 address."""
    for _, name in socket.if_nameindex():
        with contextlib.suppress(OSError):  # it has no IPv4 address
            request = _INTERFACE.pack(name.encode())
            address, mask, mtu = (fcntl.ioctl(asked, code, request) for code in (_GET_ADDRESS, _GET_MASK, _GET_MTU))
            yield (
                int.from_bytes(address[20:24], "big"),
                int.from_bytes(mask[20:24], "big"),
                int.from_bytes(mtu[16:20], "little"),
            )


class UetNetwork(OutsideNetwork):
    """A network of one NIC of this process and of all UET endpoints that the host's IP reaches, on any hardware.

    The kernel sends and receives the datagrams, without privileges. All endpoints of the network listen at the same
    UET port, so a host address has one NIC. Datagrams are never fragmented, and their UDP checksum is 0. DSCP and
    congestion marks pass both ways. The time passes as :class:`OutsideNetwork` says.

    Parameters
    ----------
    host, port : str, int
        IPv4 address of this host, and the UET port of all endpoints, 4793 unless they agree on another.
    idle_hz : float, optional
        As in :class:`OutsideNetwork`.

    UET has no signs of life: a peer is gone when its host reports its port closed, once that peer has sent
    something. Then the network answers for it, as :class:`amoeba_model.udp_network.UdpNetwork` does.
    :attr:`strangers` counts datagrams that claim to come from this host's own address, :attr:`malformed` those
    shorter than a CRC; all else is the NIC's to judge.

    Raises DeviceError if the address belongs to another host, or its port is taken.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = UDP_PORT,
        *,
        latency: int = Network.DEFAULT_LATENCY,
        impairments: Impairments = PERFECT,
        idle_hz: float | None = None,
    ) -> None:
        if not 0 < port < 1 << 16:
            raise DeviceError(f"expected a UET port of 1 to 65535, got {port}")
        self._sources: list[socket.socket] = []
        self._host, self._port = _unicast(host), port
        super().__init__(host, port, latency=latency, impairments=impairments, idle_hz=idle_hz)
        try:
            self._socket.setsockopt(socket.IPPROTO_IP, _IP_RECVTOS, 1)
            for _ in range(_SOURCES):
                self._sources.append(source := listening(host, 0, True))
                source.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL_BUFFER)
                source.setsockopt(socket.SOL_SOCKET, _SO_NO_CHECK, 1)
                source.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PMTUDISC_DO)
        except BaseException:
            self.close()
            raise

    def forked(self) -> None:
        super().forked()
        for source in self._sources:
            source.close()

    def close(self) -> None:
        super().close()
        for source in self._sources:
            source.close()

    @property
    def source_ports(self) -> tuple[int, ...]:
        """UDP ports that datagrams leave from."""
        return tuple(source.getsockname()[1] for source in self._sources)

    def attach(self, device: SimulatedDevice, mac: bytes) -> None:
        """Connect the NIC of this link. Raises DeviceError for another MAC address, and for a second NIC."""
        self._check_open()
        own = mac_of_link(*self.address)
        if self.devices or mac != own:
            raise DeviceError(f"a UET port has one NIC, with MAC address {own.hex(':')}; got {mac.hex(':')}")
        super().attach(device, mac)

    def move(self, port: int) -> None:
        """Raise DeviceError: all endpoints of the network use one port."""
        raise DeviceError(f"expected port {self._port}, which all endpoints of the UET network use, got {port}")

    def knows(self, mac: bytes) -> bool:
        return True

    def connect(self, mac: bytes, host: str, port: int) -> None:
        """Check the address of a peer: nothing is to be done before frames go there."""
        expected = mac_of_link(host, self._port)
        if mac != expected:
            raise DeviceError(f"expected the MAC address {expected.hex(':')} at {host}, got {mac.hex(':')}")

    def _maintain(self) -> None:
        self.processes.expire(_SILENCE)

    def _take_next(self) -> None:
        datagram, told, _, (host, port) = self._socket.recvmsg(
            MAX_DATAGRAM, socket.CMSG_SPACE(4), socket.MSG_DONTWAIT
        )
        if len(datagram) < CRC_SIZE:
            self.malformed += 1
            return
        if host == self._host:
            self.strangers += 1
            return
        self.processes.hear((host, self._port)).epoch = 0  # of no meaning here, but that the peer was there
        tos = next((value[0] for *what, value in told if what == [socket.IPPROTO_IP, socket.IP_TOS]), 0)
        frame = to_frame(datagram, (host, port), (self._host, self._port), tos)
        self._arrive(frame[_MAC_DESTINATION], frame)

    def _forward(self, destination: bytes, data: bytes) -> bool:
        link = link_of(destination, data[_IP_DESTINATION])
        if link is None or link[1] != self._port:
            return False
        if asks(data):
            self.processes.ask(link).note_request(data)
        source = self._sources[int.from_bytes(data[_SOURCE_PORT], "big") % _SOURCES]
        return self._send(source, to_datagram(data, source.getsockname(), link), link, data[_TOS])


def _unicast(host: str) -> str:
    """Return the IPv4 address of a host. Raises DeviceError for an unknown host, and for no address of one host."""
    address = address_of(host)
    if not 0 < int(address.partition(".")[0]) < 224:
        raise DeviceError(f"expected one IPv4 address of this host, got {address}")
    return address
