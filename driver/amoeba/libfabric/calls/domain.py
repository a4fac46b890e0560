"""fi_fabric(3), fi_domain(3), fi_mr(3), fi_av(3)."""

from collections.abc import Sequence
from typing import Any

from amoeba.core.buffers import Buffer
from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.libfabric.calls.arguments import first_bytes, first_of, no_flags
from amoeba.libfabric.calls.attributes import AvAttr
from amoeba.libfabric.objects.address_vector import AddressVector, Insertion, rx_addr
from amoeba.libfabric.objects.checks import check_flags, check_instance, check_number
from amoeba.libfabric.objects.cluster import open_fabric
from amoeba.libfabric.objects.constants import AvFlags, BindFlags, DomainFlags, MrAccess, MrFlags
from amoeba.libfabric.objects.domain import Domain, MemoryRegion, MrAttr
from amoeba.libfabric.objects.fabric import Fabric
from amoeba.libfabric.objects.queues.counters import Counter
from amoeba.libfabric.objects.queues.event_queue import EventQueue
from amoeba.libfabric.objects.structures import FabricAttr, Info
from amoeba.nic.address import EndpointAddress

__all__ = [
    "fi_av_bind",
    "fi_av_insert",
    "fi_av_insertsvc",
    "fi_av_insertsym",
    "fi_av_lookup",
    "fi_av_open",
    "fi_av_remove",
    "fi_av_straddr",
    "fi_domain",
    "fi_domain_bind",
    "fi_fabric",
    "fi_mr_bind",
    "fi_mr_desc",
    "fi_mr_enable",
    "fi_mr_key",
    "fi_mr_map_raw",
    "fi_mr_raw_attr",
    "fi_mr_refresh",
    "fi_mr_reg",
    "fi_mr_regattr",
    "fi_mr_regv",
    "fi_mr_unmap_key",
    "fi_rx_addr",
]


def fi_fabric(attr: FabricAttr) -> Fabric:
    """Open the NICs that :func:`fi_getinfo` described: :func:`amoeba.open_fabric`."""
    return open_fabric(attr)


def fi_domain(fabric: Fabric, info: Info) -> Domain:
    """Open one of them: :meth:`amoeba.Fabric.domain`."""
    return fabric.domain(info)


def fi_domain_bind(domain: Domain, eq: EventQueue, flags: int) -> None:
    """:meth:`amoeba.Domain.bind`."""
    domain.bind(eq, check_flags(DomainFlags, flags))


def fi_mr_reg(
    domain: Domain,
    buf: Buffer,
    len: int,
    access: int,
    offset: int,
    requested_key: int,
    flags: int,
    context: Any = None,
) -> MemoryRegion:
    """Register the first ``len`` bytes of ``buf``: :meth:`amoeba.Domain.mr_reg`.

    ``offset`` is reserved and must be 0, else FI_EINVAL is raised.
    """
    attr = MrAttr([first_bytes(buf, len)], check_flags(MrAccess, access, "access"), offset, requested_key, context)
    return domain.mr_regattr(attr, check_flags(MrFlags, flags))


def fi_mr_regv(
    domain: Domain,
    iov: Sequence[Buffer],
    count: int,
    access: int,
    offset: int,
    requested_key: int,
    flags: int,
    context: Any = None,
) -> MemoryRegion:
    """Register the first ``count`` buffers, which must be one: :meth:`amoeba.Domain.mr_regv`."""
    attr = MrAttr(
        first_of(iov, count, "iov"), check_flags(MrAccess, access, "access"), offset, requested_key, context
    )
    return domain.mr_regattr(attr, check_flags(MrFlags, flags))


def fi_mr_regattr(domain: Domain, attr: MrAttr, flags: int) -> MemoryRegion:
    """:meth:`amoeba.Domain.mr_regattr`."""
    return domain.mr_regattr(attr, check_flags(MrFlags, flags))


def fi_mr_desc(mr: MemoryRegion) -> MemoryRegion:
    """Return the ``desc`` argument of operations."""
    return mr


def fi_mr_bind(mr: MemoryRegion, bfid: Counter, flags: int) -> None:
    """:meth:`amoeba.MemoryRegion.bind`."""
    mr.bind(bfid, check_flags(BindFlags, flags))


def fi_mr_enable(mr: MemoryRegion) -> None:
    """:meth:`amoeba.MemoryRegion.enable`."""
    mr.enable()


def fi_mr_refresh(mr: MemoryRegion, iov: Sequence[Buffer] | None, count: int, flags: int) -> None:
    """:meth:`amoeba.MemoryRegion.refresh` of the first ``count`` parts. Raises FI_EBADFLAGS for flags."""
    no_flags(flags, "refreshing")
    mr.refresh(first_of(iov, count, "iov"))


def fi_mr_raw_attr(mr: MemoryRegion, flags: int) -> tuple[int, bytes]:
    """(base_addr, raw_key): :meth:`amoeba.MemoryRegion.raw_attr`. Raises FI_EBADFLAGS for flags."""
    no_flags(flags, "a raw key")
    return mr.raw_attr()


def fi_mr_map_raw(domain: Domain, base_addr: int, raw_key: bytes, key_size: int, flags: int) -> int:
    """Return the key: :meth:`amoeba.Domain.map_raw`. Raises FI_EBADFLAGS for flags."""
    no_flags(flags, "mapping a key")
    return domain.map_raw(base_addr, bytes(first_bytes(raw_key, key_size, "raw_key")))


def fi_mr_unmap_key(domain: Domain, key: int) -> None:
    """:meth:`amoeba.Domain.unmap_key`."""
    domain.unmap_key(key)


def fi_mr_key(mr: MemoryRegion) -> int:
    """Return the key by which peers name the region."""
    return mr.key


def fi_av_open(domain: Domain, attr: AvAttr) -> AddressVector:
    """:meth:`amoeba.Domain.av_open`."""
    return domain.av_open(
        attr.type, check_flags(AvFlags, attr.flags), attr.rx_ctx_bits, count=attr.count, name=attr.name
    )


def fi_av_bind(av: AddressVector, eq: EventQueue, flags: int) -> None:
    """:meth:`amoeba.AddressVector.bind`. Raises FI_EBADFLAGS for any flags."""
    no_flags(flags, "binding a vector")
    av.bind(eq)


def fi_av_insert(av: AddressVector, addr: bytes, count: int, flags: int, context: Any = None) -> Insertion:
    """Insert ``count`` addresses, which stand one after the other: :meth:`amoeba.AddressVector.insert_all`.

    Raises FI_EINVAL if ``addr`` has fewer.
    """
    size = EndpointAddress.SIZE
    check_instance("addr", addr, bytes, bytearray, memoryview)
    if check_number("count", count) * size > len(addr):
        raise fabric_error(Errno.FI_EINVAL, f"expected {count} addresses of {size} bytes, got {len(addr)} bytes")
    addresses = [addr[size * index : size * (index + 1)] for index in range(count)]
    return av.insert_all(addresses, flags=check_flags(AvFlags, flags), context=context)


def fi_av_insertsvc(av: AddressVector, node: str, service: str, flags: int, context: Any = None) -> Insertion:
    """:meth:`amoeba.AddressVector.insertsvc`."""
    return av.insertsvc(node, service, flags=check_flags(AvFlags, flags), context=context)


def fi_av_insertsym(
    av: AddressVector, node: str, nodecnt: int, service: str, svccnt: int, flags: int, context: Any = None
) -> Insertion:
    """:meth:`amoeba.AddressVector.insertsym`."""
    return av.insertsym(node, nodecnt, service, svccnt, flags=check_flags(AvFlags, flags), context=context)


def fi_av_remove(av: AddressVector, fi_addr: Sequence[int], count: int, flags: int) -> None:
    """:meth:`amoeba.AddressVector.remove`. Raises FI_EBADFLAGS for any flags."""
    no_flags(flags, "removing")
    av.remove(*first_of(fi_addr, count, "fi_addr"))


def fi_av_lookup(av: AddressVector, fi_addr: int) -> bytes:
    """:meth:`amoeba.AddressVector.lookup`."""
    return av.lookup(fi_addr)


def fi_av_straddr(av: AddressVector, addr: bytes) -> str:
    """:meth:`amoeba.AddressVector.straddr`."""
    return av.straddr(addr)


def fi_rx_addr(fi_addr: int, rx_index: int, rx_ctx_bits: int) -> int:
    """:func:`amoeba.rx_addr`."""
    return rx_addr(fi_addr, rx_index, rx_ctx_bits)
