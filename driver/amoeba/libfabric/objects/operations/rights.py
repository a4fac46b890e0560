"""The operations that an endpoint's capabilities allow: a mask of few bits, tested in every call.

An operation that needs ``MAY_READ`` is refused by ``if MAY_READ & ~rights: raise not_permitted(MAY_READ & ~rights)``.
"""

from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError, fabric_error
from amoeba.libfabric.objects.constants import Caps

__all__ = [
    "ALL_RIGHTS",
    "MAY_ATOMIC",
    "MAY_FETCH",
    "MAY_READ",
    "MAY_SEND",
    "MAY_TAGGED_SEND",
    "MAY_WRITE",
    "NO_MEMORY",
    "not_permitted",
    "rights_of",
]

MAY_SEND = 1
MAY_TAGGED_SEND = 2
MAY_READ = 4
MAY_WRITE = 8
MAY_ATOMIC = 16
"""Atomics that change memory. Fetching ones that do need :data:`MAY_FETCH`, too."""
MAY_FETCH = 32
"""Atomics that bring something back."""
ALL_RIGHTS = 63
NO_MEMORY = MAY_SEND | MAY_TAGGED_SEND
"""All that datagrams have."""

_NEEDS = {
    MAY_SEND: Caps.FI_MSG | Caps.FI_SEND,
    MAY_TAGGED_SEND: Caps.FI_TAGGED | Caps.FI_SEND,
    MAY_READ: Caps.FI_RMA | Caps.FI_READ,
    MAY_WRITE: Caps.FI_RMA | Caps.FI_WRITE,
    MAY_ATOMIC: Caps.FI_ATOMIC | Caps.FI_WRITE,
    MAY_FETCH: Caps.FI_ATOMIC | Caps.FI_READ,
}
_DIRECTIONS = (
    (Caps.FI_MSG | Caps.FI_TAGGED, Caps.FI_SEND | Caps.FI_RECV),
    (Caps.FI_RMA | Caps.FI_ATOMIC, Caps.FI_READ | Caps.FI_WRITE | Caps.FI_REMOTE_READ | Caps.FI_REMOTE_WRITE),
)
"""fi_getinfo(3): capabilities that name no direction mean all directions."""


def rights_of(caps: Caps | None, *, datagrams: bool = False) -> int:
    """Return the rights that these capabilities give; None: all rights. ``datagrams`` reach no memory."""
    rights = NO_MEMORY if datagrams else ALL_RIGHTS
    if caps is None:
        return rights
    for primary, directions in _DIRECTIONS:
        if caps & primary and not caps & directions:
            caps |= directions
    return rights & sum(right for right, needed in _NEEDS.items() if needed in caps)


def not_permitted(missing: int, *, datagrams: bool = False) -> FabricError:
    """Return FI_EOPNOTSUPP for an operation that needs these rights, which the endpoint does not have."""
    if datagrams and missing & ~NO_MEMORY:
        return fabric_error(Errno.FI_EOPNOTSUPP, "datagram endpoints have neither RMA nor atomics")
    needed = Caps(0)
    for right, caps in _NEEDS.items():
        if right & missing:
            needed |= caps
    return fabric_error(Errno.FI_EOPNOTSUPP, f"the endpoint was opened without some of {needed!r}, which this needs")
