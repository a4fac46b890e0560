"""Memory regions: memory that peers of a domain may access. fi_mr(3)."""

import contextlib
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from amoeba_model.device import DeviceClosedError
from amoeba_model.interruptions import uninterrupted
from amoeba_model.registers import KeyFlags

from amoeba.core.buffers import Buffer, address_of, view_of
from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.core.lifetime import FabricObject
from amoeba.libfabric.objects.checks import check_flags, check_instance, check_number
from amoeba.libfabric.objects.constants import BindFlags, MrAccess, MrFlags, MrMode
from amoeba.libfabric.objects.queues.counters import Counter, Counters
from amoeba.nic.dma import OfDomain
from amoeba.nic.withdrawal import Withdrawal

if TYPE_CHECKING:
    from amoeba.libfabric.objects.domain_base import DomainBase

__all__ = ["MemoryRegion", "MrAttr", "UnclosedRegionWarning", "key_of"]

_NO_MR_FLAGS = MrFlags(0)
_ALL_ACCESS = MrAccess(sum(MrAccess))
_WRITTEN = MrAccess.FI_READ | MrAccess.FI_RECV | MrAccess.FI_REMOTE_WRITE
"""Uses that change the memory."""
_RAW_KEY_SIZE = 8
"""Bytes of a key, as ``mr_key_size`` says."""


class UnclosedRegionWarning(ResourceWarning):
    """The last reference to a region has gone: the NIC refuses its peers from now on.

    Shown once for every place, unless the program is run with options of its own for warnings.
    """


if not sys.warnoptions:
    warnings.simplefilter("default", UnclosedRegionWarning)  # Python hides other ResourceWarnings


def key_of(raw_key: bytes) -> int:
    """Return the key of a peer's :meth:`MemoryRegion.raw_attr`. Raises FI_EINVAL for invalid bytes."""
    check_instance("raw_key", raw_key, bytes, bytearray, memoryview)
    if len(raw_key) != _RAW_KEY_SIZE:
        raise fabric_error(Errno.FI_EINVAL, f"a key has {_RAW_KEY_SIZE} bytes, got {len(raw_key)}")
    return int.from_bytes(raw_key, "little")


@dataclass(frozen=True)
class MrAttr:
    """``struct fi_mr_attr``. Without FI_HMEM, which no NIC has, its ``iface`` and ``device`` have no meaning."""

    mr_iov: Sequence[Buffer]
    """The memory: one buffer, as ``mr_iov_limit`` says."""
    access: MrAccess
    offset: int = 0
    """Reserved, must be 0."""
    requested_key: int | None = None
    context: Any = None
    """Comes back in its FI_MR_COMPLETE."""
    auth_key: bytes | None = None
    """Endpoints have no authorization keys, so a region cannot have one."""


class MemoryRegion(FabricObject):
    """Memory registered in place; peers reach it by :attr:`key` from :attr:`address` on until it is closed.

    This side's earlier operations with the region as their ``desc`` continue to their end.

    Parameters
    ----------
    buffer : contiguous buffer
        Kept alive by the region. Must be writable if ``access`` has FI_READ, FI_RECV or FI_REMOTE_WRITE.
    access : MrAccess
        The allowed uses, at least one bit.
    requested_key : int, optional
        The key to use; ignored with FI_MR_PROV_KEY. By default the domain chooses an unguessable key.
    flags : MrFlags, optional
        FI_RMA_PMEM: the memory is persistent, which only the application can know. Peers that commit
        their changes (FI_COMMIT_COMPLETE) need FI_REMOTE_READ in ``access``.

    Raises FI_EINVAL for unsuitable buffers, FI_EBADFLAGS for other flags, and FI_ENOKEY if the key is in use. Raises
    FI_ENOSPC if the key table is full, or all slots where the requested key may lie are taken.
    """

    _warning = UnclosedRegionWarning
    _consequence = " is closed, as nothing refers to it any more: peers that use its key are refused"

    def __init__(
        self,
        domain: "DomainBase",
        buffer: Buffer,
        access: MrAccess,
        *,
        requested_key: int | None,
        flags: MrFlags = _NO_MR_FLAGS,
    ) -> None:
        access, flags = check_flags(MrAccess, access, "access"), check_flags(MrFlags, flags)
        requested_key = None if requested_key is None else check_number("requested_key", requested_key)
        if int(flags) & ~int(MrFlags.FI_RMA_PMEM):
            raise fabric_error(
                Errno.FI_EBADFLAGS, f"a region is registered with FI_RMA_PMEM or nothing, got {flags!r}"
            )
        if not int(access) or int(access) & ~int(_ALL_ACCESS):
            raise fabric_error(Errno.FI_EINVAL, f"access is a combination of {_ALL_ACCESS!r}, got {access!r}")
        writable = bool(int(access) & int(_WRITTEN))
        self._view = view_of(buffer, writable=writable, name="buffer")
        if not self._view.nbytes:
            raise fabric_error(Errno.FI_EINVAL, "expected a buffer of at least one byte, got an empty one")
        self.persistent = bool(flags & MrFlags.FI_RMA_PMEM)
        """Whether the memory keeps committed data, as its owner says."""
        self.access = access
        self.access_bits = int(access)
        """The access as a plain number, which is several times faster to test."""
        self.start = address_of(self._view)
        """Virtual address of the first byte."""
        self.length = self._view.nbytes
        virtual = bool(domain.mr_mode & MrMode.FI_MR_VIRT_ADDR)
        self.address = self.start if virtual else 0
        """The ``addr`` by which peers name the first byte."""
        permitted = KeyFlags.VIRTUAL if virtual else KeyFlags(0)
        if self.access & MrAccess.FI_REMOTE_READ:
            permitted |= KeyFlags.REMOTE_READ
        if self.access & MrAccess.FI_REMOTE_WRITE:
            permitted |= KeyFlags.REMOTE_WRITE
        wanted = None if domain.mr_mode & MrMode.FI_MR_PROV_KEY else requested_key
        self._nic = domain.nic
        self._flags = permitted
        self._domain = domain.number
        self._counters = Counters()
        self.key = self._nic.keys.store(wanted, self.start, self.length, domain.number, permitted)
        """The ``key`` by which peers name the region."""
        self._withdrawal = Withdrawal(self._nic, self.key)
        self._writable = writable
        self._nic.dma.grant(self.start, self.length, writable=writable, whose=OfDomain(self._domain))
        super().__init__(domain)

    def bind(self, counter: Counter, flags: BindFlags) -> None:
        """Count peers' accesses by this region's key: ``fi_mr_bind``. Closing the counter closes the region first.

        With FI_REMOTE_READ reads, fetching and comparing atomics; with FI_REMOTE_WRITE writes, and all atomics but
        FI_ATOMIC_READ, also where a compare fails. A counter of both counts an operation once. Refused operations
        count as the counter's errors.

        Raises FI_EBADFLAGS for other flags. Raises FI_EINVAL for an object that is no counter, for another domain's
        counter, and for a second one. Raises FI_ENOSPC if the NIC has no event counter left.
        """
        self._check_open()
        if not isinstance(counter, Counter):
            raise fabric_error(Errno.FI_EINVAL, f"a region is bound to counters, got {counter!r}")
        counter._check_open()
        flags = check_flags(BindFlags, flags)
        counter._check_made_from(self._parent)
        if flags & ~(BindFlags.FI_REMOTE_READ | BindFlags.FI_REMOTE_WRITE):
            raise fabric_error(
                Errno.FI_EBADFLAGS, f"a region counts FI_REMOTE_READ and FI_REMOTE_WRITE, got {flags!r}"
            )
        self._counters.bind(counter, flags)
        self._nic.keys.count(
            self.key,
            self.start,
            self.length,
            self._domain,
            self._flags,
            self._counters.number(BindFlags.FI_REMOTE_READ),
            self._counters.number(BindFlags.FI_REMOTE_WRITE),
        )
        counter._adopt(self)

    def enable(self) -> None:
        """Let peers in: ``fi_mr_enable``. Regions let peers in since their registration, so this does nothing."""
        self._check_open()

    def refresh(self, iov: Sequence[Buffer] | None = None) -> None:
        """Note that pages of these parts of the region, or of all, may have changed: ``fi_mr_refresh``.

        The NIC accesses memory by virtual address, so changes need no action. Raises FI_EINVAL for memory outside.
        """
        self._check_open()
        for part in iov or ():
            view = view_of(part)
            if view.nbytes and not self.covers(address_of(view), view.nbytes):
                raise fabric_error(Errno.FI_EINVAL, f"{view.nbytes} bytes lie outside {self!r}")

    def raw_attr(self) -> tuple[int, bytes]:
        """Return (address, key) for peers, who make a key of it by ``Domain.map_raw``: ``fi_mr_raw_attr``."""
        self._check_open()
        return self.address, self.key.to_bytes(_RAW_KEY_SIZE, "little")

    def covers(self, address: int, length: int) -> bool:
        """Whether [address, address + length) lies in the region."""
        return self.start <= address and address + length <= self.start + self.length

    def _release(self) -> None:
        used = False
        with contextlib.suppress(DeviceClosedError):
            # the key first: a request that arrives now is refused instead of hitting memory without a grant
            try:
                self._withdrawal.finish()
            except DeviceClosedError:
                raise
            except BaseException:
                self._closed = False  # peers may still use the memory: the region is to be closed again
                raise
            # outstanding operations with this region continue as if they had been posted without it
            used = uninterrupted(
                self._nic.dma.hand_over, self, self._view, self.start, self.length, self._writable,
                OfDomain(self._domain),
            )  # fmt: skip
        if not used:
            self._view.release()

    def __repr__(self) -> str:
        return f"<MemoryRegion {self.length} bytes key {self.key:#x}{' closed' if self.closed else ''}>"
