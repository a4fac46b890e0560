"""Addresses: how endpoints are named on the wire, and the address vector that numbers them."""

import ipaddress
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from amoeba.constants import FI_ADDR_NOTAVAIL, AvType, Errno
from amoeba.errors import fabric_error
from amoeba.lifetime import FabricObject

if TYPE_CHECKING:
    from amoeba.domain import Domain
    from amoeba.peers import PeerMap

__all__ = ["DRAIN_TIME", "AddressVector", "EndpointAddress"]

DRAIN_TIME = 1.0
"""Seconds of host time that closing an endpoint, and removing a peer, waits for others."""

_LAYOUT = struct.Struct(">6sIIHH")


@dataclass(frozen=True)
class EndpointAddress:
    """What a peer must know to reach an endpoint. :meth:`pack` gives the bytes that applications exchange."""

    mac: bytes
    """Ethernet address, 6 bytes."""
    ip: int
    """IPv4 address."""
    job_id: int
    """UET job, 24 bits."""
    pid_on_fep: int
    """UET process id, 12 bits."""
    resource_index: int
    """The endpoint's context on its NIC, 12 bits."""

    SIZE = _LAYOUT.size

    def pack(self) -> bytes:
        """The address as :attr:`SIZE` bytes in network order, fields as listed."""
        return _LAYOUT.pack(self.mac, self.ip, self.job_id, self.pid_on_fep, self.resource_index)

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """Inverse of :meth:`pack`. Raises FI_EINVAL for bytes that are no such address."""
        if len(data) != cls.SIZE:
            raise fabric_error(Errno.FI_EINVAL, f"an endpoint address has {cls.SIZE} bytes, got {len(data)}")
        address = cls(*_LAYOUT.unpack(data))
        if address.job_id >> 24 or address.pid_on_fep >> 12 or address.resource_index >> 12:
            raise fabric_error(Errno.FI_EINVAL, f"not an endpoint address: {bytes(data).hex()}")
        return address

    def __str__(self) -> str:
        return (
            f"{ipaddress.IPv4Address(self.ip)} ({self.mac.hex(':')}) job {self.job_id} "
            f"pid {self.pid_on_fep} context {self.resource_index}"
        )


class AddressVector(FabricObject):
    """Numbers peers (``fi_addr_t``), as ``fi_av_open`` makes it; ``dest_addr`` of every operation is such a number.

    Numbers count from 0 in order of insertion; those of removed peers are given out again, smallest first.
    An endpoint bound to the vector holds one entry of the NIC's peer table per address.
    """

    def __init__(self, domain: "Domain", av_type: AvType = AvType.FI_AV_TABLE) -> None:
        super().__init__(domain)
        self.type = AvType.FI_AV_TABLE if av_type is AvType.FI_AV_UNSPEC else av_type
        self._entries: dict[int, EndpointAddress] = {}
        self._maps: list[PeerMap] = []
        self._numbers: dict[tuple[int, int], list[int]] = {}
        """By (IPv4 address, context): what a NIC tells of a peer."""

    def insert(self, address: bytes) -> int:
        """Add a peer and return its number.

        Raises FI_EINVAL for bytes that are no address, FI_ENOSPC when the NIC's peer table is full; the
        vector is then unchanged.
        """
        self._check_open()
        entry = EndpointAddress.unpack(address)
        number = next(n for n in range(len(self._entries) + 1) if n not in self._entries)
        done: list[PeerMap] = []
        try:
            for peers in self._maps:
                peers.add(number, entry)
                done.append(peers)
        except BaseException:
            for peers in done:
                peers.remove(number, time.monotonic())
            raise
        self._entries[number] = entry
        self._numbers.setdefault((entry.ip, entry.resource_index), []).append(number)
        return number

    def lookup(self, number: int) -> bytes:
        """The address inserted under ``number``. Raises FI_EINVAL if there is none."""
        self._check_open()
        return self._entry(number).pack()

    def remove(self, number: int) -> None:
        """Forget a peer, and close what it keeps for us; if it does not answer, that takes at most a second.

        Raises FI_EINVAL if there is none, FI_EBUSY while operations to it are under way.
        """
        self._check_open()
        entry = self._entry(number)
        if any(peers.busy(number) for peers in self._maps):
            raise fabric_error(Errno.FI_EBUSY, f"operations to {entry} are under way")
        deadline = time.monotonic() + DRAIN_TIME
        for peers in self._maps:
            peers.remove(number, deadline)
        self._numbers[entry.ip, entry.resource_index].remove(number)
        del self._entries[number]

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<AddressVector {len(self)} addresses{' closed' if self.closed else ''}>"

    def _entry(self, number: int) -> EndpointAddress:
        try:
            return self._entries[number]
        except KeyError:
            raise fabric_error(Errno.FI_EINVAL, f"the address vector has no address {number}") from None

    def _number_of(self, ip: int, context: int) -> int:
        """The number of the peer with this IPv4 address and context, FI_ADDR_NOTAVAIL if it is unknown.

        Of several, the one inserted first.
        """
        numbers = self._numbers.get((ip, context))
        return numbers[0] if numbers else FI_ADDR_NOTAVAIL

    def _attach(self, peers: "PeerMap") -> None:
        """Keep an enabled endpoint's peers in step with the vector. Raises FI_ENOSPC as insert() does."""
        try:
            for number, entry in self._entries.items():
                peers.add(number, entry)
        except BaseException:
            peers.clear(time.monotonic())
            raise
        self._maps.append(peers)

    def _detach(self, peers: "PeerMap") -> None:
        self._maps.remove(peers)

    def _release(self) -> None:
        self._entries.clear()
        self._numbers.clear()
