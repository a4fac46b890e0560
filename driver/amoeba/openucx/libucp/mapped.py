"""Mapped memory and remote keys (group MEM of ucp.h)."""

import io
from typing import Any

from amoeba_model.ucp import UCP_REMOTE_KEY

from amoeba.core.buffers import address_of
from amoeba.embed import Memory
from amoeba.openucx.libucp.contexts import Printer
from amoeba.openucx.libucp.fields import read_params, write_attributes
from amoeba.openucx.libucp.handle_table import HandleTable
from amoeba.openucx.libucp.workers import Given
from amoeba.openucx.ucp.calls.memory import (
    ucp_ep_rkey_unpack,
    ucp_mem_advise,
    ucp_mem_map,
    ucp_mem_print_info,
    ucp_mem_query,
    ucp_mem_unmap,
    ucp_rkey_destroy,
    ucp_rkey_pack,
    ucp_rkey_ptr,
)
from amoeba.openucx.ucp.context import Context
from amoeba.openucx.ucp.endpoint import Endpoint
from amoeba.openucx.ucp.memory import Memory as MappedMemory
from amoeba.openucx.ucp.remote_key import RemoteKey
from amoeba.openucx.ucp.structures import ucp_mem_advise_params_t, ucp_mem_attr_t, ucp_mem_map_params_t

__all__ = ["Mapped"]


class Mapped:
    """Calls on memory that peers may access."""

    def __init__(self, memory: Memory, handles: HandleTable, printer: Printer, given: Given) -> None:
        self._memory, self._handles, self._printer, self._given = memory, handles, printer, given

    def ucp_mem_map(self, context: int, params: Any, memh_p: Any) -> None:
        self._memory.require(memh_p, "memh_p")
        found = self._handles.get(context, Context)
        taken = read_params(self._memory, params, ucp_mem_map_params_t, {"address": lambda address: address or None})
        memh_p[0] = self._handles.add(ucp_mem_map(found, taken), found)

    def ucp_mem_unmap(self, context: int, memh: int) -> None:
        ucp_mem_unmap(self._handles.get(context, Context), self._handles.get(memh, MappedMemory))
        self._handles.remove(memh, MappedMemory)

    def ucp_mem_query(self, memh: int, attr: Any) -> None:
        self._memory.require(attr, "attr")
        found = self._handles.get(memh, MappedMemory)
        write_attributes(self._memory, attr, ucp_mem_query(found, ucp_mem_attr_t(field_mask=attr.field_mask)))

    def ucp_mem_print_info(self, mem_size: Any, context: int, stream: Any) -> None:
        text = io.StringIO()
        self._memory.require(mem_size, "mem_size")
        ucp_mem_print_info(self._memory.string(mem_size) or "", self._handles.get(context, Context), text)
        self._printer.to(stream, text)

    def ucp_mem_advise(self, context: int, memh: int, params: Any) -> None:
        taken = read_params(self._memory, params, ucp_mem_advise_params_t)
        ucp_mem_advise(self._handles.get(context, Context), self._handles.get(memh, MappedMemory), taken)

    def ucp_rkey_pack(self, context: int, memh: int, rkey_buffer_p: Any, size_p: Any) -> None:
        self._memory.require(rkey_buffer_p, "rkey_buffer_p")
        self._memory.require(size_p, "size_p")
        packed, size = ucp_rkey_pack(self._handles.get(context, Context), self._handles.get(memh, MappedMemory))
        rkey_buffer_p[0] = self._given.copy(packed)
        size_p[0] = size

    def ucp_rkey_buffer_release(self, rkey_buffer: int) -> None:
        self._given.free(rkey_buffer)

    def ucp_ep_rkey_unpack(self, ep: int, rkey_buffer: int, rkey_p: Any) -> None:
        self._memory.require(rkey_p, "rkey_p")
        found = self._handles.get(ep, Endpoint)
        packed = bytes(self._memory.view(rkey_buffer, UCP_REMOTE_KEY.size))
        rkey_p[0] = self._handles.add(ucp_ep_rkey_unpack(found, packed), found)

    def ucp_rkey_ptr(self, rkey: int, raddr: int, addr_p: Any) -> None:
        self._memory.require(addr_p, "addr_p")
        addr_p[0] = address_of(ucp_rkey_ptr(self._handles.get(rkey, RemoteKey), raddr))

    def ucp_rkey_destroy(self, rkey: int) -> None:
        ucp_rkey_destroy(self._handles.get(rkey, RemoteKey))
        self._handles.remove(rkey, RemoteKey)
