"""Remote keys: a peer's memory, as one endpoint may use it."""

from typing import Any, Self

from amoeba_model.registers import KeyFlags
from amoeba_model.ucp import ADDRESS_MAGIC, LAYOUT_VERSION, UCP_REMOTE_KEY

from amoeba.openucx.ucp.constants import ucp_feature
from amoeba.openucx.ucp.endpoint import Endpoint
from amoeba.openucx.ucp.handles import ucp_rkey_h
from amoeba.openucx.ucp.memory import mapped_here
from amoeba.openucx.ucp.objects import UcpObject
from amoeba.openucx.ucp.status import UcsStatus, invalid_param, ucs_error, wrong_type

__all__ = ["RemoteKey", "checked_key_buffer"]

_NOBODY = object()
"""Stands for an endpoint where the key may not be used; equal to no endpoint."""
_RIGHTS = KeyFlags.VIRTUAL | KeyFlags.REMOTE_READ | KeyFlags.REMOTE_WRITE


def checked_key_buffer(data: Any) -> dict[str, int]:
    """Return the fields of a packed key. Raises INVALID_PARAM for anything else."""
    try:
        view = memoryview(data).cast("B")
    except (TypeError, ValueError, BufferError):
        raise wrong_type("rkey_buffer", f"the {UCP_REMOTE_KEY.size} bytes of a packed key", data) from None
    if view.nbytes != UCP_REMOTE_KEY.size:
        raise invalid_param(f"rkey_buffer: a packed key has {UCP_REMOTE_KEY.size} bytes, got {view.nbytes}")
    fields = UCP_REMOTE_KEY.unpack(view)
    if (fields["magic"], fields["version"], fields["reserved"]) != (ADDRESS_MAGIC, LAYOUT_VERSION, 0):
        raise invalid_param(f"rkey_buffer: expected a key packed by this driver, got {bytes(view).hex()}")
    if fields["rights"] & ~int(_RIGHTS) or fields["address"] + fields["length"] > 1 << 64:
        raise invalid_param(f"rkey_buffer: expected the key of a memory range, got {bytes(view).hex()}")
    return fields


class RemoteKey(UcpObject, ucp_rkey_h):
    """A key, unpacked on the only endpoint on which it can be used, and closed before that.

    ``rma``, ``amo32`` and ``amo64`` are that endpoint while the memory can be used in that way: operations compare
    them with their endpoint, and need no other check.
    """

    def __init__(self, endpoint: Endpoint, fields: dict[str, int]) -> None:
        self.endpoint = endpoint
        self.key = fields["key"]
        self.address = fields["address"]
        """Of the first byte, as the peer's process has it."""
        self.length = fields["length"]
        self.rights = KeyFlags(fields["rights"])
        self._uid = fields["uid"]
        super().__init__(endpoint)
        self.lane = endpoint.memory
        features = endpoint.worker.context.features
        self.rma: Any = endpoint if features & ucp_feature.UCP_FEATURE_RMA else _NOBODY
        self.amo32: Any = endpoint if features & ucp_feature.UCP_FEATURE_AMO32 else _NOBODY
        self.amo64: Any = endpoint if features & ucp_feature.UCP_FEATURE_AMO64 else _NOBODY

    @classmethod
    def unpacked(cls, endpoint: Endpoint, data: Any) -> Self:
        """Unpack the key that a peer has packed. Raises INVALID_PARAM for anything else."""
        return cls(endpoint, checked_key_buffer(data))

    @property
    def identity(self) -> tuple[int, int]:
        """The key's memory by numbers that can be ordered: owner, and key."""
        return self._uid, self.key

    def view(self, address: int) -> memoryview:
        """Return the memory from an address to its end, if it is in this process.

        The view is read-only without the right to write.

        Raises UNREACHABLE if it is not, or must not be read; INVALID_ADDR for an address outside it.
        """
        memory = mapped_here(self._uid, self.key)
        if memory is None or not memory.rights & KeyFlags.REMOTE_READ:
            raise ucs_error(UcsStatus.UCS_ERR_UNREACHABLE, f"this process cannot access the memory of {self!r}")
        if not memory.contains(address, 1):
            raise ucs_error(UcsStatus.UCS_ERR_INVALID_ADDR, f"{address:#x} is outside {memory!r}")
        view = memory.view[address - memory.address :]
        return view if memory.rights & KeyFlags.REMOTE_WRITE else view.toreadonly()

    def forked(self) -> None:
        super().forked()
        self._release()

    def _release(self) -> None:
        self.rma = self.amo32 = self.amo64 = _NOBODY

    def __repr__(self) -> str:
        return f"<RemoteKey of {self.length} bytes at {self.address:#x}, {self.endpoint!r}>"
