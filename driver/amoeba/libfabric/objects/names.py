"""Nodes and services: the names of endpoints for fi_getinfo(3) and fi_av(3).

A node is a NIC, by its IPv4 address or by a name that the host resolves to it. A service is the number of a context
there, after that of the process if it is not this side's: ``3``, ``2/3``. The endpoints of a NIC take
contexts from 0 on, in the order in which they are enabled.
"""

import dataclasses
import ipaddress
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.nic.address import EndpointAddress

__all__ = ["Service", "find_node", "following"]

_SERVICE = re.compile(r"(?:(\d{1,9})/)?(\d{1,9})")
_BITS = 12
"""Bits of a context's number, and of a process'."""
_NUMBERED = re.compile(r"(.*?)(\d+)")


@dataclass(frozen=True)
class Service:
    """A context of a node, and its process."""

    context: int
    process: int | None = None
    """None: a process of this side's number."""

    @classmethod
    def parse(cls, text: str) -> "Service":
        """Parse a service. Raises FI_EINVAL for other text."""
        found = _SERVICE.fullmatch(text)
        if found is None:
            raise fabric_error(
                Errno.FI_EINVAL, f"a service is a context, as '3', or a process and a context, as '2/3', got {text!r}"
            )
        process, context = found.groups()
        return cls(int(context), None if process is None else int(process))

    def at(self, address: EndpointAddress) -> EndpointAddress:
        """Return its address on the node of this address, in the same job.

        Raises FI_EINVAL for a context or a process of more than 12 bits.
        """
        process = address.pid_on_fep if self.process is None else self.process
        if (self.context | process) >> _BITS:
            raise fabric_error(
                Errno.FI_EINVAL, f"contexts and processes have {_BITS} bits, got {self.context} and {process}"
            )
        return dataclasses.replace(address, pid_on_fep=process, resource_index=self.context, contexts=1)


def find_node(node: str, nics: Mapping[int, bytes], *, numeric: bool = False) -> tuple[bytes, int]:
    """(Ethernet address, IPv4 address) of a node; ``nics`` are Ethernet addresses by IPv4 address.

    ``numeric``: the node is an address, not a name. Raises FI_EINVAL for a name then, FI_ENODATA for an unknown NIC.
    """
    for ip in _numbers_of(node, numeric):
        if ip in nics:
            return nics[ip], ip
    raise fabric_error(Errno.FI_ENODATA, f"no NIC is at {node}")


def _numbers_of(node: str, numeric: bool) -> list[int]:
    """Return the IPv4 addresses of a node."""
    try:
        return [int(ipaddress.IPv4Address(node))]
    except ValueError:
        if numeric:
            raise fabric_error(Errno.FI_EINVAL, f"expected an IPv4 address in figures, got {node!r}") from None
    try:
        found = socket.getaddrinfo(node, None, socket.AF_INET, socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as error:
        raise fabric_error(Errno.FI_ENODATA, f"{node!r} cannot be resolved: {error}") from None
    return [int(ipaddress.IPv4Address(str(address[0]))) for *_, address in found]


def following(node: str, count: int) -> list[str]:
    """Return ``count`` nodes from this one on: 10.0.0.1, 10.0.0.2, or host9, host10.

    Raises FI_EINVAL for more than one node from one whose name does not end with a number, or beyond 255.255.255.255.
    """
    try:
        first = int(ipaddress.IPv4Address(node))
    except ValueError:
        return _following_names(node, count)
    if first + count > 1 << 32:
        raise fabric_error(Errno.FI_EINVAL, f"there are less than {count} addresses from {node} on")
    return [str(ipaddress.IPv4Address(first + index)) for index in range(count)]


def _following_names(node: str, count: int) -> list[str]:
    found = _NUMBERED.fullmatch(node)
    if found is not None:
        return [f"{found[1]}{int(found[2]) + index}" for index in range(count)]
    if count > 1:
        raise fabric_error(Errno.FI_EINVAL, f"{count} nodes begin with one whose name ends in a number, got {node!r}")
    return [node] * count
