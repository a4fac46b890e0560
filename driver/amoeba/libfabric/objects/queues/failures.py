"""Descriptions of failed operations: kind, peer and cause."""

from amoeba_model.wire.uet import ReturnCode

from amoeba.core.errno import Errno
from amoeba.core.errors import strerror
from amoeba.libfabric.objects.constants import FI_ADDR_NOTAVAIL, Caps

__all__ = ["failure_text", "words_of"]

_OPERATIONS = {
    int(flags): words
    for flags, words in (
        (Caps.FI_RMA | Caps.FI_WRITE, "write"),
        (Caps.FI_RMA | Caps.FI_READ, "read"),
        (Caps.FI_ATOMIC | Caps.FI_WRITE, "atomic"),
        (Caps.FI_ATOMIC | Caps.FI_READ, "fetching atomic"),
        (Caps.FI_MSG | Caps.FI_SEND, "send"),
        (Caps.FI_TAGGED | Caps.FI_SEND, "tagged send"),
        (Caps.FI_MSG | Caps.FI_RECV, "receive"),
        (Caps.FI_TAGGED | Caps.FI_RECV, "tagged receive"),
        (Caps.FI_TAGGED | Caps.FI_ATOMIC | Caps.FI_RECV, "tagged receive"),
    )
}
"""Descriptions by the flags of an operation's kind."""
_BESIDES = int(Caps.FI_REMOTE_CQ_DATA | Caps.FI_MULTI_RECV)


def words_of(prov_errno: int) -> str:
    """Describe the NIC's return code, such as ``bad mkey``; an unknown code is called unknown."""
    try:
        return ReturnCode(prov_errno).name.replace("_", " ").lower()
    except ValueError:
        return f"unknown return code {prov_errno}"


def failure_text(flags: int, length: int, peer: int, err: Errno, prov_errno: int) -> str:
    """Describe a failed operation with these completion fields; ``peer`` is its target's number, if known."""
    operation = _OPERATIONS.get(int(flags) & ~_BESIDES, "operation")
    to = f" to peer {peer}" if 0 <= peer < FI_ADDR_NOTAVAIL else ""
    return f"{operation} of {length} bytes{to} failed: {strerror(err)} ({ReturnCode(prov_errno).name})"
