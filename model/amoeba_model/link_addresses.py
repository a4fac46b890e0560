"""Network addresses of NICs by arithmetic: they follow from where the UDP socket of a NIC's process listens.

So whoever knows one knows the other, and processes need not be told about each other. A link is an IPv4 address and a
UDP port, 48 bits. The Ethernet address has all of the former and 14 bits of the latter, beside the two bits that say
that nobody bought it; the NIC's own IPv4 address has the lower half of the former, and the port. Both together, as a
frame has them, name one link. Alone the IPv4 address does so within 2**16 hosts, and the Ethernet address among the
ports from :data:`FIRST_PORT` on, from which a network takes one if it may choose.
"""

import functools
import socket

__all__ = ["FIRST_PORT", "ip_of_link", "link_of", "mac_of_link"]

FIRST_PORT = 0xC000
"""The first of 2**14 ports that nobody registers: RFC 6335, section 6."""
_LOCAL = 0x02
"""Of a first byte: locally administered, and of one NIC."""
_PEERS = 1024
"""Links that are remembered: every frame names two."""


def mac_of_link(host: str, port: int) -> bytes:
    """Return the Ethernet address of the NIC that is reached at ``host``, an IPv4 address, and a port."""
    return bytes([_LOCAL | port >> 6 & 0xFC]) + socket.inet_aton(host) + bytes([port & 0xFF])


def ip_of_link(host: str, port: int) -> int:
    """Return the IPv4 address of the NIC that is reached at ``host`` and a port."""
    return int.from_bytes(socket.inet_aton(host)[2:], "big") << 16 | port


@functools.lru_cache(_PEERS)
def link_of(mac: bytes, ip: bytes) -> tuple[str, int] | None:
    """Where the NIC with these addresses is reached; None if they do not belong together, or to no host.

    Hosts are those that a datagram can be sent to: no broadcast, no multicast, none of 0.0.0.0/8.
    """
    host, port = socket.inet_ntoa(mac[1:5]), int.from_bytes(ip[2:4], "big")
    if ip[:2] != mac[3:5] or mac != mac_of_link(host, port) or not port or not 0 < mac[1] < 224:
        return None
    return host, port
