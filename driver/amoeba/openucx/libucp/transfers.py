"""Tagged messages, put and get (groups COMM of ucp.h)."""

from typing import Any

from amoeba.embed import Memory
from amoeba.openucx.libucp.buffers import BYTES, Buffers
from amoeba.openucx.libucp.completions import RECEIVED, SENT, Completions
from amoeba.openucx.libucp.handle_table import HandleTable
from amoeba.openucx.ucp.calls.rma import (
    ucp_get_nb,
    ucp_get_nbi,
    ucp_get_nbx,
    ucp_put_nb,
    ucp_put_nbi,
    ucp_put_nbx,
)
from amoeba.openucx.ucp.calls.tags import (
    ucp_tag_msg_recv_nb,
    ucp_tag_msg_recv_nbx,
    ucp_tag_probe_nb,
    ucp_tag_recv_nb,
    ucp_tag_recv_nbx,
    ucp_tag_send_nb,
    ucp_tag_send_nbx,
    ucp_tag_send_sync_nb,
    ucp_tag_send_sync_nbx,
)
from amoeba.openucx.ucp.endpoint import Endpoint
from amoeba.openucx.ucp.remote_key import RemoteKey
from amoeba.openucx.ucp.status import UcsStatus
from amoeba.openucx.ucp.tags import TagMessage
from amoeba.openucx.ucp.worker import Worker

__all__ = ["Transfers"]


class Transfers:
    """Calls on tagged messages, put and get."""

    def __init__(
        self, ffi: Any, memory: Memory, handles: HandleTable, completions: Completions, buffers: Buffers
    ) -> None:
        self._null = ffi.NULL
        self._memory, self._handles = memory, handles
        self._completions, self._buffers = completions, buffers

    def _ep(self, number: int) -> Endpoint:
        return self._handles.get(number, Endpoint)

    def _worker(self, number: int) -> Worker:
        return self._handles.get(number, Worker)

    # Tagged messages

    def ucp_tag_send_nb(self, ep: int, buffer: int, count: int, datatype: int, tag: int, cb: Any) -> int:
        data, done = self._buffers.source(buffer, count, datatype), self._completions.on_sent(cb)
        return self._completions.answer(ucp_tag_send_nb(self._ep(ep), data, count, datatype, tag, done))

    def ucp_tag_send_sync_nb(self, ep: int, buffer: int, count: int, datatype: int, tag: int, cb: Any) -> int:
        data, done = self._buffers.source(buffer, count, datatype), self._completions.on_sent(cb)
        return self._completions.answer(ucp_tag_send_sync_nb(self._ep(ep), data, count, datatype, tag, done))

    def ucp_tag_send_nbr(self, ep: int, buffer: int, count: int, datatype: int, tag: int, req: int) -> int:
        read = self._completions.polled(datatype, req, immediate=True)
        data = self._buffers.source(buffer, count, datatype)
        request = ucp_tag_send_nbx(self._ep(ep), data, count, tag, read.given)
        self._completions.answer(request, read)
        return UcsStatus.UCS_OK if request is None else UcsStatus.UCS_INPROGRESS

    def ucp_tag_send_nbx(self, ep: int, buffer: int, count: int, tag: int, param: Any) -> int:
        read = self._completions.param(param, SENT)
        data = self._buffers.source(buffer, count, read.datatype)
        return self._completions.answer(ucp_tag_send_nbx(self._ep(ep), data, count, tag, read.given), read)

    def ucp_tag_send_sync_nbx(self, ep: int, buffer: int, count: int, tag: int, param: Any) -> int:
        read = self._completions.param(param, SENT)
        data = self._buffers.source(buffer, count, read.datatype)
        return self._completions.answer(ucp_tag_send_sync_nbx(self._ep(ep), data, count, tag, read.given), read)

    def ucp_tag_recv_nb(
        self, worker: int, buffer: int, count: int, datatype: int, tag: int, tag_mask: int, cb: Any
    ) -> int:
        data, done = self._buffers.destination(buffer, count, datatype), self._completions.on_received(cb)
        found = self._worker(worker)
        return self._completions.answer(ucp_tag_recv_nb(found, data, count, datatype, tag, tag_mask, done))

    def ucp_tag_recv_nbr(
        self, worker: int, buffer: int, count: int, datatype: int, tag: int, tag_mask: int, req: int
    ) -> int:
        read = self._completions.polled(datatype, req, immediate=False)
        data = self._buffers.destination(buffer, count, datatype)
        self._completions.answer(ucp_tag_recv_nbx(self._worker(worker), data, count, tag, tag_mask, read.given), read)
        return UcsStatus.UCS_INPROGRESS

    def ucp_tag_recv_nbx(self, worker: int, buffer: int, count: int, tag: int, tag_mask: int, param: Any) -> int:
        read = self._completions.param(param, RECEIVED)
        data = self._buffers.destination(buffer, count, read.datatype)
        request = ucp_tag_recv_nbx(self._worker(worker), data, count, tag, tag_mask, read.given)
        return self._completions.answer(request, read)

    def ucp_tag_probe_nb(self, worker: int, tag: int, tag_mask: int, remove: int, info: Any) -> int:
        found = self._worker(worker)
        message, known = ucp_tag_probe_nb(found, tag, tag_mask, remove)
        if message is None or known is None:
            return 0
        if info != self._null:
            info.sender_tag, info.length = known.sender_tag, known.length
        if not remove:
            return worker  # an opaque handle: programs only see that it is not NULL
        return self._handles.add(message, found)

    def ucp_tag_msg_recv_nb(self, worker: int, buffer: int, count: int, datatype: int, message: int, cb: Any) -> int:
        data, done = self._buffers.destination(buffer, count, datatype), self._completions.on_received(cb)
        found = self._handles.get(message, TagMessage)
        request = ucp_tag_msg_recv_nb(self._worker(worker), data, count, datatype, found, done)
        self._received(message, found)
        return self._completions.answer(request)

    def ucp_tag_msg_recv_nbx(self, worker: int, buffer: int, count: int, message: int, param: Any) -> int:
        read = self._completions.param(param, RECEIVED)
        data = self._buffers.destination(buffer, count, read.datatype)
        found = self._handles.get(message, TagMessage)
        try:
            request = ucp_tag_msg_recv_nbx(self._worker(worker), data, count, found, read.given)
        finally:
            self._received(message, found)
        return self._completions.answer(request, read)

    def _received(self, number: int, message: TagMessage) -> None:
        """Invalidate the handle of a message that was received, with or without success."""
        if message.claim is None:
            self._handles.remove(number, TagMessage)

    # Put and get

    def ucp_put(self, ep: int, buffer: int, length: int, remote_addr: int, rkey: int) -> int:
        found = self._ep(ep)
        self._completions.outside(found.worker)
        data, key = self._buffers.source(buffer, length, BYTES), self._handles.get(rkey, RemoteKey)
        return self._completions.until_over(ucp_put_nbx(found, data, length, remote_addr, key))

    def ucp_put_nbi(self, ep: int, buffer: int, length: int, remote_addr: int, rkey: int) -> int:
        data, key = self._buffers.source(buffer, length, BYTES), self._handles.get(rkey, RemoteKey)
        return ucp_put_nbi(self._ep(ep), data, length, remote_addr, key)

    def ucp_put_nb(self, ep: int, buffer: int, length: int, remote_addr: int, rkey: int, cb: Any) -> int:
        data, key = self._buffers.source(buffer, length, BYTES), self._handles.get(rkey, RemoteKey)
        done = self._completions.on_sent(cb)
        return self._completions.answer(ucp_put_nb(self._ep(ep), data, length, remote_addr, key, done))

    def ucp_put_nbx(self, ep: int, buffer: int, count: int, remote_addr: int, rkey: int, param: Any) -> int:
        read = self._completions.param(param, SENT)
        data, key = self._buffers.source(buffer, count, read.datatype), self._handles.get(rkey, RemoteKey)
        return self._completions.answer(ucp_put_nbx(self._ep(ep), data, count, remote_addr, key, read.given), read)

    def ucp_get(self, ep: int, buffer: int, length: int, remote_addr: int, rkey: int) -> int:
        found = self._ep(ep)
        self._completions.outside(found.worker)
        data, key = self._buffers.destination(buffer, length, BYTES), self._handles.get(rkey, RemoteKey)
        return self._completions.until_over(ucp_get_nbx(found, data, length, remote_addr, key))

    def ucp_get_nbi(self, ep: int, buffer: int, length: int, remote_addr: int, rkey: int) -> int:
        data, key = self._buffers.destination(buffer, length, BYTES), self._handles.get(rkey, RemoteKey)
        return ucp_get_nbi(self._ep(ep), data, length, remote_addr, key)

    def ucp_get_nb(self, ep: int, buffer: int, length: int, remote_addr: int, rkey: int, cb: Any) -> int:
        data, key = self._buffers.destination(buffer, length, BYTES), self._handles.get(rkey, RemoteKey)
        done = self._completions.on_sent(cb)
        return self._completions.answer(ucp_get_nb(self._ep(ep), data, length, remote_addr, key, done))

    def ucp_get_nbx(self, ep: int, buffer: int, count: int, remote_addr: int, rkey: int, param: Any) -> int:
        read = self._completions.param(param, SENT)
        data, key = self._buffers.destination(buffer, count, read.datatype), self._handles.get(rkey, RemoteKey)
        return self._completions.answer(ucp_get_nbx(self._ep(ep), data, count, remote_addr, key, read.given), read)
