"""Address vectors, which number peers."""

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError, fabric_error, type_error
from amoeba.core.lifetime import FabricObject
from amoeba.libfabric.objects.checks import check_enum, check_flags, check_instance, check_number
from amoeba.libfabric.objects.constants import FI_ADDR_NOTAVAIL, AvFlags, AvType, EqEvent
from amoeba.libfabric.objects.names import Service, find_node, following
from amoeba.libfabric.objects.queues.event_queue import EventQueue
from amoeba.nic.address import EndpointAddress
from amoeba.transport.transmit_rings import DRAIN_TIME

if TYPE_CHECKING:
    from amoeba.libfabric.objects.domain_base import DomainBase
    from amoeba.transport.peers import PeerMap

__all__ = ["AddressVector", "Insertion", "rx_addr"]

_ADDR_BITS = 64
_MAX_RX_CTX_BITS = 8
_NO_FLAGS = AvFlags(0)


def rx_addr(fi_addr: int, rx_index: int, rx_ctx_bits: int) -> int:
    """Return the number of one receive context of a scalable endpoint: ``fi_rx_addr``.

    ``fi_addr`` is the endpoint's number in an address vector that was opened with ``rx_ctx_bits``.
    Raises FI_EINVAL for an index that has more bits.
    """
    fi_addr, rx_index = check_number("fi_addr", fi_addr), check_number("rx_index", rx_index)
    rx_ctx_bits = check_number("rx_ctx_bits", rx_ctx_bits, 8)
    if not 0 <= rx_index < 1 << rx_ctx_bits:
        raise fabric_error(Errno.FI_EINVAL, f"an index of {rx_ctx_bits} bits cannot be {rx_index}")
    return rx_index << (_ADDR_BITS - rx_ctx_bits) | fi_addr


@dataclass(frozen=True)
class Insertion:
    """The result of inserting several addresses."""

    count: int
    """Addresses that were inserted; 0 of an address vector with FI_EVENT, which reports it by its event."""
    fi_addr: tuple[int, ...]
    """The numbers in the order given; FI_ADDR_NOTAVAIL for an address that was not inserted."""
    errors: tuple[Errno, ...]
    """With FI_SYNC_ERR: one per address, FI_SUCCESS for those that were inserted."""


class AddressVector(FabricObject):
    """Numbers peers (``fi_addr_t``), as ``fi_av_open`` makes it; ``dest_addr`` of every operation is such a number.

    Numbers of type FI_AV_TABLE count from 0 in order of insertion; those of removed peers are reused,
    smallest first. Numbers of type FI_AV_MAP are opaque, and never reused. An endpoint bound to the
    vector holds one entry of the NIC's peer table per address.

    With FI_EVENT, insertions report their end on the event queue that :meth:`bind` names. With ``rx_ctx_bits``, up to
    8, :func:`rx_addr` names single receive contexts of scalable endpoints; the first operation to one takes
    another peer table entry. ``count``, the expected number of addresses, has no effect. A ``name``, by which
    processes would share a vector, raises FI_ENOSYS. ``nodes`` returns the Ethernet addresses, by
    IPv4 address, of NICs that can be named as nodes.
    """

    def __init__(
        self,
        domain: "DomainBase",
        av_type: AvType = AvType.FI_AV_TABLE,
        flags: AvFlags = _NO_FLAGS,
        rx_ctx_bits: int = 0,
        *,
        count: int = 0,
        name: str | None = None,
        nodes: Callable[[], Mapping[int, bytes]] = dict,
    ) -> None:
        av_type, flags = check_enum(AvType, av_type, "av_type"), check_flags(AvFlags, flags)
        check_number("count", count)
        rx_ctx_bits = check_number("rx_ctx_bits", rx_ctx_bits)
        if name is not None:
            raise fabric_error(Errno.FI_ENOSYS, f"vectors are not shared between processes, so not by {name!r}")
        if not 0 <= rx_ctx_bits <= _MAX_RX_CTX_BITS:
            raise fabric_error(Errno.FI_EINVAL, f"rx_ctx_bits must be 0 to {_MAX_RX_CTX_BITS}, got {rx_ctx_bits}")
        if flags & ~AvFlags.FI_EVENT:
            raise fabric_error(Errno.FI_EBADFLAGS, f"an address vector is opened with FI_EVENT or not, got {flags!r}")
        super().__init__(domain)
        self._domain = domain
        self._nodes = nodes
        self.type = AvType.FI_AV_TABLE if av_type is AvType.FI_AV_UNSPEC else av_type
        self.rx_ctx_bits = rx_ctx_bits
        self._with_events = bool(flags & AvFlags.FI_EVENT)
        self._eq: EventQueue | None = None
        self._entries: dict[int, EndpointAddress] = {}
        self._inserted = 0
        self._maps: list[PeerMap] = []
        self._numbers: dict[tuple[int, int], list[int]] = {}
        """Numbers by (IPv4 address, context), by which a NIC names a peer."""

    def bind(self, eq: EventQueue) -> None:
        """Report insertions to an event queue: ``fi_av_bind``. Closing the queue closes the vector first.

        Raises FI_EINVAL without FI_EVENT, or if a queue is bound already.
        """
        self._check_open()
        eq._check_open()
        if not self._with_events or self._eq is not None:
            raise fabric_error(Errno.FI_EINVAL, "an event queue is bound once, to a vector opened with FI_EVENT")
        self._eq = eq
        eq._adopt(self)

    def insert(self, address: bytes) -> int:
        """Add a peer at once and return its number.

        Raises FI_EINVAL for invalid bytes, and FI_ENOSPC when the NIC's peer table is full. Raises FI_EADDRINUSE if
        packets from the address could not be distinguished from another's. The vector is then unchanged.
        """
        self._check_open()
        entry = EndpointAddress.unpack(address)
        for other in self._numbers.get((entry.ip, entry.resource_index), ()):
            if self._entries[other].mac != entry.mac:
                raise fabric_error(
                    Errno.FI_EADDRINUSE, f"{entry} has the IPv4 address and context of {self._entries[other]}"
                )
        number = self._free_number()
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
        self._inserted += 1
        return number

    def insert_all(self, addresses: Sequence[bytes], *, flags: AvFlags = _NO_FLAGS, context: Any = None) -> Insertion:
        """Add the peers that can be added, and say which: ``fi_av_insert`` of a vector.

        With FI_EVENT given to the vector, errors and then one FI_AV_COMPLETE (``data``: how many were inserted)
        arrive on its event queue, with ``context``; numbers are valid once that has been read.

        Raises FI_EBADFLAGS for flags but FI_MORE and (without FI_EVENT) FI_SYNC_ERR. Raises FI_ENOEQ with FI_EVENT if
        no event queue is bound.
        """
        if isinstance(addresses, bytes | bytearray | memoryview | str) or not isinstance(addresses, Sequence):
            raise type_error("addresses", "a sequence of addresses", addresses)
        for index, address in enumerate(addresses):
            check_instance(f"addresses[{index}]", address, bytes, bytearray, memoryview)
        return self._insert_each([partial(bytes, address) for address in addresses], flags, context)

    def _insert_each(self, addresses: Sequence[Callable[[], bytes]], flags: AvFlags, context: Any) -> Insertion:
        """Insert the addresses that these functions return; an error means an address that cannot be inserted."""
        self._check_open()
        flags = check_flags(AvFlags, flags)
        allowed = AvFlags.FI_MORE if self._with_events else AvFlags.FI_MORE | AvFlags.FI_SYNC_ERR
        if flags & ~allowed:
            raise fabric_error(Errno.FI_EBADFLAGS, f"expected {allowed!r} or nothing, got {flags!r}")
        if self._with_events and self._eq is None:
            raise fabric_error(Errno.FI_ENOEQ, "bind an event queue before inserting addresses")
        numbers, errors = [], []
        for address in addresses:
            try:
                number, err = self.insert(address()), Errno.FI_SUCCESS
            except FabricError as error:
                number, err = FI_ADDR_NOTAVAIL, error.fi_errno
            numbers.append(number)
            errors.append(err)
        count = errors.count(Errno.FI_SUCCESS)
        if self._eq is not None:
            for index, err in enumerate(errors):
                if err is not Errno.FI_SUCCESS:
                    self._eq._report_error(self, context, index, err)
            self._eq._report(EqEvent.FI_AV_COMPLETE, self, context, count)
            count = 0
        return Insertion(count, tuple(numbers), tuple(errors) if flags & AvFlags.FI_SYNC_ERR else ())

    def insertsvc(self, node: str, service: str, *, flags: AvFlags = _NO_FLAGS, context: Any = None) -> Insertion:
        """:meth:`insert_all` of one address, by its names: ``fi_av_insertsvc``.

        ``node`` is a NIC's IPv4 address or name. ``service`` is a context there, such as ``0``, of the domain's
        job, and of its process or the process before a slash, as in ``2/0``. One context, so no scalable endpoint.

        Raises what :meth:`insert_all` raises, and FI_EINVAL for an invalid service. An unknown node is an
        address that cannot be inserted: FI_ENODATA.
        """
        return self.insertsym(node, 1, service, 1, flags=flags, context=context)

    def insertsym(
        self,
        node: str,
        nodecnt: int,
        service: str,
        svccnt: int,
        *,
        flags: AvFlags = _NO_FLAGS,
        context: Any = None,
    ) -> Insertion:
        """Insert ``nodecnt`` nodes, ``svccnt`` services of each, node by node: ``fi_av_insertsym``.

        The next node of 10.0.0.1 is 10.0.0.2, that of host9 host10; the next service of 3 is 4.
        Raises FI_EINVAL for other names of several nodes, and for negative counts.
        """
        self._check_open()
        check_instance("node", node, str)
        check_instance("service", service, str)
        nodecnt, svccnt = check_number("nodecnt", nodecnt), check_number("svccnt", svccnt)
        first, domain = Service.parse(service), self._domain
        nics = self._nodes()

        def address(node: str, index: int) -> bytes:
            service = replace(first, context=first.context + index)
            own = EndpointAddress(
                *find_node(node, nics), domain.job_id, domain.pid_on_fep, 0, relative=domain.relative
            )
            return service.at(own).pack()

        names = itertools.product(following(node, nodecnt), range(svccnt))
        return self._insert_each([partial(address, *each) for each in names], flags, context)

    def lookup(self, number: int) -> bytes:
        """Return the address inserted under ``number``. Raises FI_EINVAL for an unknown number."""
        self._check_open()
        return self._entry(check_number("number", number)).pack()

    def straddr(self, address: bytes) -> str:
        """Format an address: ``fi_av_straddr``. Raises FI_EINVAL for invalid bytes."""
        self._check_open()
        return str(EndpointAddress.unpack(address))

    def remove(self, *numbers: int) -> None:
        """Forget peers, all of them or, after an error, none, and close the connections to them.

        If the peers do not answer, that takes at most a second.
        Raises FI_EINVAL for an unknown or repeated number, FI_EBUSY while operations to a peer are outstanding.
        """
        self._check_open()
        numbers = tuple(check_number("number", number) for number in numbers)
        if len(set(numbers)) < len(numbers):
            raise fabric_error(Errno.FI_EINVAL, f"each address is removed once, got {numbers}")
        for number in numbers:
            entry = self._entry(number)
            if any(peers.busy(number) for peers in self._maps):
                raise fabric_error(Errno.FI_EBUSY, f"operations to {entry} are in flight")
        deadline = time.monotonic() + DRAIN_TIME
        for number in numbers:
            for peers in self._maps:
                peers.remove(number, deadline)
            entry = self._entries.pop(number)
            self._numbers[entry.ip, entry.resource_index].remove(number)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<AddressVector {len(self)} addresses{' closed' if self.closed else ''}>"

    def _free_number(self) -> int:
        if self.type is AvType.FI_AV_MAP:
            return self._inserted
        return next(n for n in range(len(self._entries) + 1) if n not in self._entries)

    def _entry(self, number: int) -> EndpointAddress:
        try:
            return self._entries[number]
        except KeyError:
            raise fabric_error(Errno.FI_EINVAL, f"the address vector has no address {number}") from None

    def _sender(self, number: int) -> EndpointAddress:
        """Return the address of a receive's ``src_addr``. Raises FI_EINVAL for an unknown number.

        A receive context in the number does not affect the sender.
        """
        number = check_number("src_addr", number)
        index, base = number >> _ADDR_BITS - self.rx_ctx_bits, number & (1 << _ADDR_BITS - self.rx_ctx_bits) - 1
        address = self._entry(base)
        if index >= address.contexts:
            raise fabric_error(Errno.FI_EINVAL, f"{address} has no receive context {index}")
        return address

    def _number_of(self, ip: int, context: int) -> int:
        """Return the number of the peer with this IPv4 address and context; FI_ADDR_NOTAVAIL if it is unknown.

        Of several peers, the one inserted first.
        """
        numbers = self._numbers.get((ip, context))
        return numbers[0] if numbers else FI_ADDR_NOTAVAIL

    def _attach(self, peers: "PeerMap") -> None:
        """Keep an enabled endpoint's peers in step with the vector. Raises FI_ENOSPC as insert() does."""
        peers.number_bits = _ADDR_BITS - self.rx_ctx_bits
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
