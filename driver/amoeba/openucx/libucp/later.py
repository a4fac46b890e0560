"""Functions that UCX has added from 1.13 to 1.19: packed memory handles, queries of keys and datatypes."""

from typing import Any

from amoeba.embed import Memory
from amoeba.openucx.libucp.buffers import Buffers
from amoeba.openucx.libucp.handle_table import HandleTable
from amoeba.openucx.libucp.workers import Given
from amoeba.openucx.ucp.calls.memory import ucp_rkey_pack
from amoeba.openucx.ucp.datatypes import source
from amoeba.openucx.ucp.memory import Memory as MappedMemory
from amoeba.openucx.ucp.remote_key import RemoteKey
from amoeba.openucx.ucp.status import UcsStatus, invalid_param, ucs_error
from amoeba.openucx.ucp.worker import Worker

__all__ = ["Later"]

_FLAGS, _EXPORT = 1, 1
"""UCP_MEMH_PACK_PARAM_FIELD_FLAGS and UCP_MEMH_PACK_FLAG_EXPORT."""
_PACKED_SIZE, _BUFFER, _COUNT = 1, 2, 4
"""UCP_DATATYPE_ATTR_FIELD_..."""
_CLASS = 7


class Later:
    """Functions and fields that UCX 1.12 does not have."""

    def __init__(self, memory: Memory, handles: HandleTable, buffers: Buffers, given: Given) -> None:
        self._memory, self._handles, self._buffers, self._given = memory, handles, buffers, given

    def ucp_memh_pack(self, memh: int, params: Any, buffer_p: Any, buffer_size_p: Any) -> None:
        """Pack a key. Raises UNSUPPORTED for a handle that peers would map: the NIC cannot do that."""
        self._memory.require(params, "params")
        self._memory.require(buffer_p, "buffer_p")
        self._memory.require(buffer_size_p, "buffer_size_p")
        found = self._handles.get(memh, MappedMemory)
        if params.field_mask & _FLAGS and params.flags & _EXPORT:
            raise ucs_error(UcsStatus.UCS_ERR_UNSUPPORTED, "memory handles cannot be exported")
        packed, size = ucp_rkey_pack(found.context, found)
        buffer_p[0] = self._given.copy(packed)
        buffer_size_p[0] = size

    def ucp_memh_buffer_release(self, buffer: int, params: Any) -> None:
        self._given.free(buffer)

    def ucp_rkey_compare(self, worker: int, rkey1: int, rkey2: int, params: Any, result: Any) -> None:
        """Order two keys; keys of the same memory are equal. Raises INVALID_PARAM for keys of other workers."""
        self._memory.require(result, "result")
        if self._memory.require(params, "params").field_mask:
            raise invalid_param(f"params.field_mask: expected 0, got {params.field_mask:#x}")
        found = self._handles.get(worker, Worker)
        keys = [self._handles.get(rkey, RemoteKey) for rkey in (rkey1, rkey2)]
        if any(key.endpoint.worker is not found for key in keys):
            raise invalid_param("expected two keys of this worker")
        first, second = (key.identity for key in keys)
        result[0] = (first > second) - (first < second)

    def ucp_dt_query(self, datatype: int, attr: Any) -> None:
        """Return the size in bytes of the datatype's elements when they are packed."""
        self._memory.require(attr, "attr")
        mask = attr.field_mask
        if not mask & _PACKED_SIZE:
            return
        count = attr.count if mask & _COUNT else 1
        if not datatype & _CLASS:
            attr.packed_size = count * (datatype >> 3)
            return
        buffer = attr.buffer if mask & _BUFFER else 0
        if not buffer:
            raise invalid_param("attr.buffer: expected the data, got NULL")
        layout = source(self._buffers.source(buffer, count, datatype), count, datatype)
        attr.packed_size = layout.length
        layout.finish()
