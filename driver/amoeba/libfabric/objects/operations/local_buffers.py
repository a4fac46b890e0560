"""Local buffers of operations: checked first, accessible to the NIC once nothing can fail any more."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from amoeba.core.buffers import Buffer, view_of
from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error, type_error
from amoeba.libfabric.objects.checks import check_vector
from amoeba.libfabric.objects.constants import MrAccess
from amoeba.libfabric.objects.memory_region import MemoryRegion
from amoeba.libfabric.objects.operations.vectors import Descs
from amoeba.transport.posting import Local

if TYPE_CHECKING:
    from amoeba.libfabric.objects.domain_base import DomainBase

__all__ = ["check_region", "check_unregistered", "local_of", "locals_of"]

_READ = int(MrAccess.FI_READ)
_WRITE = int(MrAccess.FI_WRITE)


def check_region(domain: "DomainBase", desc: MemoryRegion, address: int, length: int, access: int) -> None:
    """Check that a buffer may use a region.

    Raises FI_EBADF for a closed region, FI_EACCES if the region does not allow ``access``, FI_EINVAL if it belongs to
    another domain or the buffer lies outside of it, and ArgumentTypeError if ``desc`` is no region.
    """
    if (
        desc.__class__ is MemoryRegion
        and not desc._closed
        and desc._parent is domain
        and desc.access_bits & access
        and desc.start <= address
        and address + length <= desc.start + desc.length
    ):
        return
    if not isinstance(desc, MemoryRegion):
        raise type_error("desc", "MemoryRegion", desc)
    desc._check_open()
    if desc._parent is not domain:
        raise fabric_error(Errno.FI_EINVAL, f"desc: {desc!r} belongs to another domain than the endpoint")
    if not desc.access_bits & access:
        raise fabric_error(
            Errno.FI_EACCES, f"the region's access is {desc.access!r}, this use needs {MrAccess(access)!r}"
        )
    if length and not desc.covers(address, length):
        raise fabric_error(Errno.FI_EINVAL, f"a buffer of {length} bytes lies outside the region in desc")


def check_unregistered(domain: "DomainBase", name: str) -> None:
    """Raise FI_EINVAL for memory without a region that the NIC is to access, if the domain has FI_MR_LOCAL."""
    if domain.registers_locally:
        raise fabric_error(
            Errno.FI_EINVAL,
            f"{name} has no region: with FI_MR_LOCAL in the domain's mr_mode, local buffers are registered and given "
            "with their desc",
        )


def local_of(
    domain: "DomainBase",
    buffer: Buffer,
    desc: MemoryRegion | None,
    name: str,
    *,
    writable: bool,
    access: MrAccess | None = None,
) -> Local:
    """Check one buffer. ``access``: what its region must allow if that is not FI_READ (``writable``) or FI_WRITE.

    Raises what :func:`check_region` and :func:`check_unregistered` do.
    """
    found = Local(view_of(buffer, writable=writable, name=name), desc, writable=writable)
    if desc is not None:
        needed = (_READ if writable else _WRITE) if access is None else int(access)
        check_region(domain, desc, found.address, found.length, needed)
    elif found.length:
        check_unregistered(domain, name)
    return found


def locals_of(
    domain: "DomainBase",
    buffers: Sequence[Buffer],
    descs: Descs,
    name: str,
    *,
    writable: bool,
    access: MrAccess | None = None,
) -> list[Local]:
    """Check the buffers of a vector.

    Raises what :func:`local_of` does, FI_EINVAL also if there is not one region for each buffer, and
    ArgumentTypeError if the buffers or regions are no sequence.
    """
    check_vector(name, buffers)
    if descs is None:
        descs = [None] * len(buffers)
    elif not isinstance(descs, Sequence | np.ndarray):
        raise type_error(f"desc of {name}", "a sequence of regions, one for each buffer", descs)
    if len(descs) != len(buffers):
        raise fabric_error(Errno.FI_EINVAL, f"{name} has {len(buffers)} buffers, its desc {len(descs)} regions")
    return [
        local_of(domain, buffer, desc, f"{name}[{index}]", writable=writable, access=access)
        for index, (buffer, desc) in enumerate(zip(buffers, descs, strict=True))
    ]
