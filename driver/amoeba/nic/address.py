"""The names of endpoints on the wire."""

import ipaddress
import struct
from dataclasses import dataclass
from typing import Self

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error, type_error

__all__ = ["EndpointAddress"]

_LAYOUT = struct.Struct(">6sIIHH")
_JOB_BITS = 24
_RELATIVE_BIT, _FOREIGN_BIT = 15, 14


@dataclass(frozen=True)
class EndpointAddress:
    """Address by which peers reach an endpoint. :meth:`pack` gives the bytes that applications exchange."""

    mac: bytes
    """Ethernet address, 6 bytes."""
    ip: int
    """IPv4 address."""
    job_id: int
    """UET job, 24 bits."""
    pid_on_fep: int
    """UET process id, 12 bits."""
    resource_index: int
    """The endpoint's context on its NIC, 12 bits; of a scalable endpoint the first one."""
    contexts: int = 1
    """Number of contexts there, side by side, at most 256."""
    relative: bool = False
    """``pid_on_fep`` counts within the job, else within the NIC: UET's relative and absolute addressing."""
    foreign: bool = False
    """The endpoint is no Amoeba: 128 packets to it may be unanswered, until its ACK_CC says more."""

    SIZE = _LAYOUT.size

    def pack(self) -> bytes:
        """Encode :attr:`SIZE` bytes in network order.

        Fields come as listed, ``contexts`` - 1 above the job, ``relative`` and ``foreign`` in the highest bits of the
        process id's.
        """
        return _LAYOUT.pack(
            self.mac,
            self.ip,
            (self.contexts - 1) << _JOB_BITS | self.job_id,
            self.relative << _RELATIVE_BIT | self.foreign << _FOREIGN_BIT | self.pid_on_fep,
            self.resource_index,
        )

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """Invert :meth:`pack`. Raises FI_EINVAL for other bytes, such as zeros."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise type_error("address", f"{cls.SIZE} bytes, as getname() returns them", data)
        if len(data) != cls.SIZE:
            raise fabric_error(Errno.FI_EINVAL, f"an endpoint address has {cls.SIZE} bytes, got {len(data)}")
        mac, ip, job, process, resource_index = _LAYOUT.unpack(data)
        contexts = (job >> _JOB_BITS) + 1
        relative, foreign = (bool(process >> bit & 1) for bit in (_RELATIVE_BIT, _FOREIGN_BIT))
        pid_on_fep = process & (1 << _FOREIGN_BIT) - 1
        if pid_on_fep >> 12 or (resource_index + contexts - 1) >> 12 or not (ip and any(mac)):
            raise fabric_error(Errno.FI_EINVAL, f"not an endpoint address: {bytes(data).hex()}")
        return cls(mac, ip, job & (1 << _JOB_BITS) - 1, pid_on_fep, resource_index, contexts, relative, foreign)

    def __str__(self) -> str:
        last = self.resource_index + self.contexts - 1
        nic = f"{ipaddress.IPv4Address(self.ip)} ({self.mac.hex(':')})"
        process = f"job {self.job_id} {'relative ' if self.relative else ''}pid {self.pid_on_fep}"
        contexts = f"context {last}" if self.contexts == 1 else f"contexts {self.resource_index} to {last}"
        return f"{'foreign ' * self.foreign}{nic} {process} {contexts}"
