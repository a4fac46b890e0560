"""Local buffers of operations: checked first, accessible to the NIC once nothing can fail any more."""

from collections.abc import Sequence

from amoeba.core.buffers import Buffer, view_of
from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.fabric.constants import MrAccess
from amoeba.fabric.memory_region import MemoryRegion
from amoeba.fabric.operations.checks import check_instance, check_vector
from amoeba.fabric.operations.vectors import Descs
from amoeba.transport.posting import Local

__all__ = ["check_region", "local_of", "locals_of"]

_READ = int(MrAccess.FI_READ)
_WRITE = int(MrAccess.FI_WRITE)


def check_region(desc: MemoryRegion, address: int, length: int, access: int) -> None:
    """Raise FI_EBADF for a region that is closed, FI_EACCES if it does not allow ``access``, FI_EINVAL if the buffer
    lies outside of it."""
    check_instance("desc", desc, MemoryRegion)
    desc._check_open()
    if not desc.access_bits & access:
        raise fabric_error(
            Errno.FI_EACCES, f"the region's access is {desc.access!r}, this use needs {MrAccess(access)!r}"
        )
    if length and not desc.covers(address, length):
        raise fabric_error(Errno.FI_EINVAL, f"a buffer of {length} bytes lies outside the region in desc")


def local_of(
    buffer: Buffer, desc: MemoryRegion | None, name: str, *, writable: bool, access: MrAccess | None = None
) -> Local:
    """Check one buffer. ``access``: what its region must allow if that is not FI_READ (``writable``) or FI_WRITE."""
    found = Local(view_of(buffer, writable=writable, name=name), desc, writable=writable)
    if desc is not None:
        needed = (_READ if writable else _WRITE) if access is None else int(access)
        check_region(desc, found.address, found.length, needed)
    return found


def locals_of(
    buffers: Sequence[Buffer], descs: Descs, name: str, *, writable: bool, access: MrAccess | None = None
) -> list[Local]:
    """Check the buffers of a vector. Raises FI_EINVAL, also if there are not as many regions, and FI_EACCES."""
    check_vector(name, buffers)
    if descs is None:
        descs = [None] * len(buffers)
    if len(descs) != len(buffers):
        raise fabric_error(Errno.FI_EINVAL, f"{name} has {len(buffers)} buffers, its desc {len(descs)} regions")
    return [
        local_of(buffer, desc, f"{name}[{index}]", writable=writable, access=access)
        for index, (buffer, desc) in enumerate(zip(buffers, descs, strict=True))
    ]
