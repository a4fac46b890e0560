"""A memory node: a NIC without an initiator, memory beside it, and no host."""

import ipaddress
from dataclasses import dataclass

from amoeba_model.parameters import BUILDS, NicParameters, named_build

__all__ = ["MEMORY_PAGE", "NodeSettings"]

MEMORY_PAGE = 4096
"""Bytes: sizes and places in a node's memory are multiples of this, which no burst crosses."""
_MAX_REGION = 1 << 30
_NO_KEY = (1 << 64) - 1
"""Value of FI_KEY_NOTAVAIL."""


@dataclass(frozen=True)
class NodeSettings:
    """Addresses of a node, and its one region, which begins at address 0 of the node's memory.

    The answer memory lies behind the region. Raises ValueError for settings with which no peer could reach the
    region.
    """

    mac: bytes
    """Ethernet address, 6 bytes."""
    ip: int
    """IPv4 address."""
    region: int
    """Bytes that peers may read and write; a multiple of :data:`MEMORY_PAGE`."""
    key: int
    """64 bits. Peers that know the key have access to the region."""
    build: str = "node"
    """Name of the NIC's build, one without an initiator."""

    def __post_init__(self) -> None:
        if self.parameters.has_initiator or self.parameters.event_rings:
            fitting = [name for name, own in BUILDS.items() if not (own.has_initiator or own.event_rings)]
            raise ValueError(f"expected a build without initiator ({', '.join(fitting)}), got {self.build}")
        if len(self.mac) != 6 or not any(self.mac) or self.mac[0] & 1:
            raise ValueError(
                f"expected the Ethernet address of one station, 6 bytes, got {self.mac.hex(':') or 'none'}"
            )
        if not 0 <= self.ip < 1 << 32 or not _is_host(ipaddress.IPv4Address(self.ip)):
            shown = ipaddress.IPv4Address(self.ip) if 0 <= self.ip < 1 << 32 else f"{self.ip:#x}"
            raise ValueError(f"expected the IPv4 address of one host, got {shown}")
        if not 0 < self.region <= _MAX_REGION or self.region % MEMORY_PAGE:
            raise ValueError(
                f"expected a region of 1 to {_MAX_REGION // MEMORY_PAGE} times {MEMORY_PAGE} bytes, got {self.region}"
            )
        if not 0 <= self.key < _NO_KEY:
            raise ValueError(f"expected a key of 0 to {_NO_KEY - 1:#x}, got {self.key:#x}")

    @property
    def parameters(self) -> NicParameters:
        return named_build(self.build)

    @property
    def answers(self) -> int:
        """Address of the answer memory in the node's memory."""
        return self.region

    @property
    def answer_bytes(self) -> int:
        own = self.parameters
        return -(-own.target_pdcs * own.window * own.payload // MEMORY_PAGE) * MEMORY_PAGE

    @property
    def memory(self) -> int:
        """Bytes of memory that the node needs: region and answers."""
        return self.answers + self.answer_bytes


def _is_host(address: ipaddress.IPv4Address) -> bool:
    """Return whether a datagram can be sent to the address and reach one host (RFC 1122, section 3.2.1.3)."""
    return not (address.is_multicast or address.is_loopback or address.packed[0] == 0 or address.is_reserved)
