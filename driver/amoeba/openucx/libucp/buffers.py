"""C's buffers, counts and datatypes, in the driver's form."""

from typing import Any

from amoeba.core.process_memory import accessible
from amoeba.embed import Memory
from amoeba.openucx.ucp.constants import ucp_dt_type
from amoeba.openucx.ucp.datatypes import (
    ucp_dt_create_generic,
    ucp_dt_destroy,
    ucp_dt_iov_t,
    ucp_generic_dt_ops_t,
)
from amoeba.openucx.ucp.status import UcsStatus, invalid_param

__all__ = ["BYTES", "Buffers"]

_SHIFT = int(ucp_dt_type.UCP_DATATYPE_SHIFT)
_CLASS = int(ucp_dt_type.UCP_DATATYPE_CLASS_MASK)
_CONTIG = int(ucp_dt_type.UCP_DATATYPE_CONTIG)
_IOV = int(ucp_dt_type.UCP_DATATYPE_IOV)
BYTES = 1 << _SHIFT
"""The datatype of calls that name none."""
_COPIED = 8
"""Maximum bytes that a send copies from C at once: they fit a descriptor."""
_LARGE = 1 << 20
"""Bytes from which on the library checks that they are memory of the process: cheap beside their transfer."""
_MANY = 64
"""Entries of an IOV from which on they are checked."""
_OPS = ("start_pack", "start_unpack", "packed_size", "pack", "unpack", "finish")


class Buffers:
    """Converts (buffer, count, datatype). Copies nothing but the bytes of short sends."""

    def __init__(self, ffi: Any, memory: Memory) -> None:
        self._ffi, self._memory = ffi, memory
        self._buffer, self._cast = ffi.buffer, ffi.cast
        self._bytes = ffi.typeof("char *")
        self._entries = ffi.typeof("ucp_dt_iov_t *")

    def source(self, address: int, count: int, datatype: int) -> Any:
        """Return a send's data. Raises INVALID_PARAM for NULL, an unknown datatype class and other memory."""
        if not datatype & _CLASS:
            length = count * (datatype >> _SHIFT)
            if 0 < length <= _COPIED and address:
                return self._buffer(self._cast(self._bytes, address), length)[:]
            return self.view(address, length) if length else None
        return self._other(address, count, datatype, False)

    def destination(self, address: int, count: int, datatype: int) -> Any:
        """Return the memory of a receive; as :meth:`source`, of writable memory."""
        if not datatype & _CLASS:
            length = count * (datatype >> _SHIFT)
            return self.view(address, length, writable=True) if length else None
        return self._other(address, count, datatype, True)

    def view(self, address: int, length: int, *, writable: bool = False) -> Any:
        """Return the bytes at an address, in place."""
        if not address:
            raise invalid_param(f"buffer: expected {length} bytes, got NULL")
        if length >= _LARGE and not accessible(address, length, writable=writable):
            raise invalid_param(f"buffer: expected {length} bytes of the process's memory, got {address:#x}")
        return self._buffer(self._cast(self._bytes, address), length)

    def _other(self, address: int, count: int, datatype: int, writable: bool) -> Any:
        if datatype & _CLASS != _IOV:
            return address  # the application's, if the datatype is; the driver refuses invalid datatypes
        if not count:
            return []
        if not address or (count > _MANY and not accessible(address, count * self._ffi.sizeof("ucp_dt_iov_t"))):
            raise invalid_param(f"buffer: expected {count} entries of an IOV, got {address:#x}")
        entries = self._cast(self._entries, address)
        return [
            ucp_dt_iov_t(
                self.view(entry.buffer, entry.length, writable=writable) if entry.length else None, entry.length
            )
            for entry in entries[0:count]
        ]

    # Generic datatypes

    def ucp_dt_create_generic(self, ops: Any, context: int, datatype_p: Any) -> None:
        self._memory.require(datatype_p, "datatype_p")
        self._memory.require(ops, "ops")
        calls = {name: getattr(ops, name) for name in _OPS}
        missing = [name for name, call in calls.items() if call == self._ffi.NULL]
        if missing:
            raise invalid_param(f"ops: expected all functions, got no {', '.join(missing)}")
        pack, unpack = calls["pack"], calls["unpack"]
        from_buffer = self._ffi.from_buffer

        def packing(state: int, offset: int, dest: memoryview, most: int) -> int:
            return int(pack(state, offset, from_buffer(dest), most))

        def unpacking(state: int, offset: int, src: memoryview, length: int) -> UcsStatus:
            return UcsStatus(unpack(state, offset, from_buffer(src), length))

        datatype_p[0] = ucp_dt_create_generic(
            ucp_generic_dt_ops_t(**{**calls, "pack": packing, "unpack": unpacking}), context
        )

    def ucp_dt_destroy(self, datatype: int) -> None:
        ucp_dt_destroy(datatype)
