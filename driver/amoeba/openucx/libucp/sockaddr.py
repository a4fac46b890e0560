"""Conversion of socket addresses: C's ``struct sockaddr_in`` and ``sockaddr_in6``, and Python's tuples."""

import socket
import struct
from typing import Any

from amoeba.embed import Memory
from amoeba.openucx.ucp.status import invalid_param

__all__ = ["STORAGE", "read_sockaddr", "sockaddr_bytes"]

STORAGE = 128
"""Bytes of ``struct sockaddr_storage``."""
_FAMILY = struct.Struct("=H")
_IPV4 = struct.Struct("=2s4s8x")
_IPV6 = struct.Struct("=2sI16sI")
_PORT = struct.Struct(">H")


def read_sockaddr(memory: Memory, given: Any, name: str) -> tuple[Any, ...]:
    """Read a ``ucs_sock_addr_t``. Raises INVALID_PARAM for NULL, another family, and too few bytes."""
    family_size = _FAMILY.size
    data = b"" if given.addrlen < family_size else bytes(memory.view(given.addr, min(given.addrlen, STORAGE)))
    family = _FAMILY.unpack_from(data)[0] if data else None
    rest = data[family_size:]
    if family == socket.AF_INET and len(rest) >= _IPV4.size:
        port, host = _IPV4.unpack_from(rest)
        return socket.inet_ntoa(host), _PORT.unpack(port)[0]
    if family == socket.AF_INET6 and len(rest) >= _IPV6.size:
        port, flow, host, scope = _IPV6.unpack_from(rest)
        return socket.inet_ntop(socket.AF_INET6, host), _PORT.unpack(port)[0], socket.ntohl(flow), scope
    raise invalid_param(
        f"{name}: expected a sockaddr_in or sockaddr_in6, got {given.addrlen} bytes of family {family}"
    )


def sockaddr_bytes(address: tuple[Any, ...] | None) -> bytes:
    """Encode a ``struct sockaddr_storage``; None gives family AF_UNSPEC."""
    if address is None:
        return bytes(STORAGE)
    host, port = address[:2]
    if ":" in host:
        flow, scope = address[2:4] if len(address) > 2 else (0, 0)
        raw = socket.inet_pton(socket.AF_INET6, host.split("%")[0])
        rest = _IPV6.pack(_PORT.pack(port), socket.htonl(flow), raw, scope)
        return (_FAMILY.pack(socket.AF_INET6) + rest).ljust(STORAGE, b"\0")
    rest = _IPV4.pack(_PORT.pack(port), socket.inet_aton(host))
    return (_FAMILY.pack(socket.AF_INET) + rest).ljust(STORAGE, b"\0")
