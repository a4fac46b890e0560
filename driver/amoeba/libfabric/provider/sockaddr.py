"""Addresses of libfabric programs: FI_SOCKADDR_IN, 16 bytes.

An IPv4 address and a UDP port name the place of a NIC, and determine the NIC's own addresses by arithmetic. The rest
of the structure, ``sin_zero``, names the endpoint there. All zeros is the first endpoint of a process that chose
nothing, so host and port alone can name a peer.
"""

import socket
import struct
from dataclasses import dataclass
from typing import Self

from amoeba_model.link_addresses import ip_of_link, link_of, mac_of_link

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.nic.address import EndpointAddress

__all__ = ["SIZE", "SockAddr"]

_FAMILY = struct.Struct("=H")
_REST = struct.Struct(">H4sQ")
SIZE = _FAMILY.size + _REST.size
_ANY_CONTEXTS = 256
"""Number of contexts for an address of host and port alone: the endpoint there may be a scalable one."""
_JOB = _PROCESS = 1
"""Process and job of a process that chose nothing."""


@dataclass(frozen=True)
class SockAddr:
    """``struct sockaddr_in``."""

    host: str
    port: int
    endpoint: int = 0
    """From bit 0: its context (12 bits), process (12) and job (24), both with the lowest bit inverted, the number of
    its contexts, less one (8), and whether its address is relative (1) and foreign (1)."""

    def pack(self) -> bytes:
        return _FAMILY.pack(socket.AF_INET) + _REST.pack(self.port, socket.inet_aton(self.host), self.endpoint)

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """Parse a ``sockaddr_in``. Raises FI_EINVAL for bytes that are no IPv4 address."""
        if len(data) != SIZE or _FAMILY.unpack_from(data)[0] != socket.AF_INET:
            raise fabric_error(Errno.FI_EINVAL, f"expected a sockaddr_in of {SIZE} bytes, got {data.hex()}")
        port, host, endpoint = _REST.unpack_from(data, _FAMILY.size)
        return cls(socket.inet_ntoa(host), port, endpoint)

    @classmethod
    def of(cls, address: bytes) -> Self:
        """Convert the address of a driver's endpoint. Raises FI_EADDRNOTAVAIL for one that is not reached by UDP."""
        found = EndpointAddress.unpack(address)
        link = link_of(found.mac, found.ip.to_bytes(4, "big"))
        if link is None:
            raise fabric_error(Errno.FI_EADDRNOTAVAIL, f"{found} does not follow from where its process listens")
        job, process = found.job_id ^ _JOB, found.pid_on_fep ^ _PROCESS
        contexts = 1 if found.contexts == _ANY_CONTEXTS else found.contexts
        above = found.foreign << 9 | found.relative << 8 | contexts - 1
        endpoint = ((above << 24 | job) << 12 | process) << 12 | found.resource_index
        return cls(*link, endpoint)

    def address(self) -> bytes:
        """Return the endpoint's address for the driver. Raises FI_EINVAL for an impossible address."""
        mac, ip = mac_of_link(self.host, self.port), ip_of_link(self.host, self.port)
        if self.endpoint >> 58 or link_of(mac, ip.to_bytes(4, "big")) is None:
            raise fabric_error(Errno.FI_EINVAL, f"no endpoint can be at {self}")
        context, process = self.endpoint & 0xFFF, self.endpoint >> 12 & 0xFFF
        job = self.endpoint >> 24 & 0xFFFFFF
        contexts = (self.endpoint >> 48 & 0xFF) + 1 if self.endpoint else _ANY_CONTEXTS
        relative, foreign = (bool(self.endpoint >> bit & 1) for bit in (56, 57))
        found = EndpointAddress(mac, ip, job ^ _JOB, process ^ _PROCESS, context, contexts, relative, foreign)
        return found.pack()

    def __str__(self) -> str:
        return f"fi_sockaddr_in://{self.host}:{self.port}"
