"""Ethernet, IPv4 and UDP around a UET packet."""

import functools

import google_crc32c

from amoeba_model.unroll import packer, unpacker
from amoeba_model.wire.uet import (
    CRC_SIZE,
    CRC_START,
    ECN_CONGESTION,
    ETHERNET,
    ETHERTYPE_IPV4,
    IP_PROTOCOL_UDP,
    IPV4,
    UDP,
    UDP_PORT,
)

__all__ = ["encapsulation", "read_encapsulation"]

_DONT_FRAGMENT = 0x4000
_FRAGMENT_MASK = 0x3FFF
"""More-fragments bit and fragment offset: any of them set means this is not a whole packet."""

_IP_CONSTANTS = {
    "version": 4,
    "header_words": IPV4.size // 4,
    "flags_fragment": _DONT_FRAGMENT,
    "ttl": 64,
    "protocol": IP_PROTOCOL_UDP,
}
_CHECKSUM_BASE = int.from_bytes(IPV4.pack(**_IP_CONSTANTS), "big")

_ENCAPSULATION = (ETHERNET, IPV4, UDP)
_ENCAPSULATION_CONSTANTS = {
    "ethernet.ethertype": ETHERTYPE_IPV4,
    **{f"ipv4.{name}": value for name, value in _IP_CONSTANTS.items()},
    "udp.destination_port": UDP_PORT,
}
_ENCAPSULATION_ARGUMENTS = (
    "ethernet.destination",
    "ethernet.source",
    "ipv4.dscp",
    "ipv4.ecn",
    "ipv4.total_length",
    "ipv4.checksum",
    "ipv4.source",
    "ipv4.destination",
    "udp.source_port",
    "udp.length",
)
_pack_encapsulation = packer(_ENCAPSULATION, _ENCAPSULATION_ARGUMENTS, _ENCAPSULATION_CONSTANTS)
_unpack_encapsulation = unpacker(
    _ENCAPSULATION,
    (
        "ethernet.destination",
        "ethernet.source",
        "ethernet.ethertype",
        "ipv4.version",
        "ipv4.header_words",
        "ipv4.ecn",
        "ipv4.total_length",
        "ipv4.flags_fragment",
        "ipv4.protocol",
        "ipv4.source",
        "ipv4.destination",
        "udp.source_port",
        "udp.destination_port",
        "udp.length",
    ),
)
_IPV4_END = ETHERNET.size + IPV4.size
_UDP_AND_CRC = UDP.size + CRC_SIZE
_ETHERNET_SIZE = ETHERNET.size
_IPV4_SIZE = IPV4.size
_FLOWS = 1024
"""Encapsulations that are remembered: between two NICs they differ in little but the length."""


@functools.lru_cache(_FLOWS)
def encapsulation(
    mac: int, ip: int, port: int, udp_length: int, own_mac: int, own_ip: int, tos: int
) -> tuple[bytes, int]:
    """Encode the headers in front of PDS's; return them with the CRC of their covered part."""
    total_length = udp_length + _IPV4_SIZE
    checksum = _ip_checksum(tos + total_length, own_ip, ip)
    headers = _pack_encapsulation(
        mac, own_mac, tos >> 2, tos & 3, total_length, checksum, own_ip, ip, port, udp_length
    )
    return headers, google_crc32c.value(headers[CRC_START:])


@functools.lru_cache(_FLOWS)
def read_encapsulation(data: bytes) -> tuple[int, int, int, int, int, int, bool] | None:
    """Read addresses, port and mark; None: malformed.

    (destination MAC and IP address, source MAC and IP address, source port, where the CRC is, whether it is marked)
    """
    (
        destination, mac, ethertype, ip_version, header_words, ecn, total_length, fragment, protocol,
        ip, ip_destination, port, destination_port, udp_length,
    ) = _unpack_encapsulation(data, 0)  # fmt: skip
    if (
        ethertype != ETHERTYPE_IPV4
        or ip_version != 4
        or header_words != 5
        or protocol != IP_PROTOCOL_UDP
        or fragment & _FRAGMENT_MASK
        or destination_port != UDP_PORT
        or udp_length != total_length - _IPV4_SIZE
        or udp_length < _UDP_AND_CRC
        or int.from_bytes(data[_ETHERNET_SIZE:_IPV4_END], "big") % 0xFFFF
    ):
        return None
    end = _ETHERNET_SIZE + total_length - CRC_SIZE
    return destination, ip_destination, mac, ip, port, end, ecn == ECN_CONGESTION


def _ip_checksum(words: int, source: int, destination: int) -> int:
    """RFC 791 header checksum; 2**16 is 1 modulo 0xFFFF, so the remainder is the one's complement sum.

    ``words`` is the sum of all that is neither constant nor an address.
    """
    return 0xFFFF ^ ((_CHECKSUM_BASE + words + source + destination) % 0xFFFF or 0xFFFF)
