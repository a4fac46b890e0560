"""Active messages and streams (groups WORKER and COMM of ucp.h)."""

from typing import Any

from amoeba.core.buffers import address_of
from amoeba.embed import Memory
from amoeba.openucx.libucp.buffers import Buffers
from amoeba.openucx.libucp.completions import COUNTED, SENT, Completions
from amoeba.openucx.libucp.endpoints import Endpoints
from amoeba.openucx.libucp.fields import read_params
from amoeba.openucx.libucp.handle_table import HandleTable
from amoeba.openucx.libucp.workers import Workers
from amoeba.openucx.ucp.active_messages import AmDescriptor
from amoeba.openucx.ucp.calls.active_messages import (
    ucp_am_data_release,
    ucp_am_recv_data_nbx,
    ucp_am_send_nb,
    ucp_am_send_nbx,
    ucp_worker_set_am_handler,
    ucp_worker_set_am_recv_handler,
)
from amoeba.openucx.ucp.calls.streams import (
    ucp_stream_data_release,
    ucp_stream_recv_data_nb,
    ucp_stream_recv_nb,
    ucp_stream_recv_nbx,
    ucp_stream_send_nb,
    ucp_stream_send_nbx,
    ucp_stream_worker_poll,
)
from amoeba.openucx.ucp.constants import ucp_am_recv_attr_t, ucp_cb_param_flags
from amoeba.openucx.ucp.endpoint import Endpoint
from amoeba.openucx.ucp.handles import ucp_ep_h
from amoeba.openucx.ucp.status import UcsError, UcsStatus, invalid_param
from amoeba.openucx.ucp.structures import ucp_am_handler_param_t
from amoeba.openucx.ucp.worker import Worker

__all__ = ["Messages"]

_KEPT = int(ucp_am_recv_attr_t.UCP_AM_RECV_ATTR_FLAG_DATA)
_KEPT_OLD = int(ucp_cb_param_flags.UCP_CB_PARAM_FLAG_DATA)
_IN_PROGRESS = UcsStatus.UCS_INPROGRESS
_STATUSES = {int(each): each for each in UcsStatus}


class Messages:
    """Active messages, which handlers get, and streams, which are read in order."""

    def __init__(
        self,
        ffi: Any,
        memory: Memory,
        handles: HandleTable,
        completions: Completions,
        buffers: Buffers,
        workers: Workers,
        endpoints: Endpoints,
    ) -> None:
        self._ffi, self._null = ffi, ffi.NULL
        self._memory, self._handles = memory, handles
        self._completions, self._buffers = completions, buffers
        self._workers, self._endpoints = workers, endpoints

    def _ep(self, number: int) -> Endpoint:
        return self._handles.get(number, Endpoint)

    def _worker(self, number: int) -> Worker:
        return self._handles.get(number, Worker)

    # Active messages

    def ucp_worker_set_am_handler(self, worker: int, id: int, cb: Any, arg: int, flags: int) -> None:
        found = self._worker(worker)

        def call(arg: Any, data: Any, length: int, reply: ucp_ep_h | None, given: int) -> UcsStatus:
            ep = 0 if reply is None else self._endpoints.number(reply)
            address = self._show(worker, data, kept=bool(given & _KEPT_OLD))
            return self._settled(worker, address, self._completions.call(cb, arg, address, length, ep, int(given)))

        ucp_worker_set_am_handler(found, id, None if cb == self._null else call, arg, flags)

    def ucp_worker_set_am_recv_handler(self, worker: int, param: Any) -> None:
        found = self._worker(worker)

        def handler(cb: Any) -> Any:
            def call(
                arg: int | None, header: Any, header_length: int, data: Any, length: int, told: Any
            ) -> UcsStatus:
                attributes = int(told.recv_attr)
                ep = 0 if told.reply_ep is None else self._endpoints.number(told.reply_ep)
                address = self._show(worker, data, kept=bool(attributes & _KEPT))
                headed = 0 if header is None else address_of(header)
                param = self._ffi.new("ucp_am_recv_param_t *", (attributes, ep))
                status = self._completions.call(cb, arg or 0, headed, header_length, address, length, param)
                return self._settled(worker, address, status)

            return None if cb == self._null else call

        ucp_worker_set_am_recv_handler(
            found, read_params(self._memory, param, ucp_am_handler_param_t, {"cb": handler}, "param")
        )

    def _show(self, worker: int, data: Any, *, kept: bool) -> int:
        """Return a handler's data argument: an address, or a handle of data that is still at its sender."""
        if data is None:
            return 0
        if isinstance(data, AmDescriptor):
            return self._handles.add(data, self._worker(worker))
        address = address_of(data)
        if kept:
            self._workers.kept.setdefault(worker, {})[address] = data
        return address

    def _settled(self, worker: int, address: int, status: int) -> UcsStatus:
        """Convert the status that a handler returned; unless the handler keeps the data, forget it."""
        if status != _IN_PROGRESS:
            self._forget(worker, address)
        return _STATUSES.get(status, UcsStatus.UCS_ERR_IO_ERROR)

    def _forget(self, worker: int, address: int) -> None:
        self._workers.kept.get(worker, {}).pop(address, None)
        if self._handles.has(address, AmDescriptor):
            self._handles.remove(address, AmDescriptor)

    def _kept(self, worker: int, address: int) -> Any:
        if self._handles.has(address, AmDescriptor):
            return self._handles.get(address, AmDescriptor)
        found = self._workers.kept.get(worker, {}).get(address)
        if found is None:
            raise invalid_param(f"data: expected what a handler of this worker keeps, got {address:#x}")
        return found

    def ucp_am_send_nb(self, ep: int, id: int, buffer: int, count: int, datatype: int, cb: Any, flags: int) -> int:
        data, done = self._buffers.source(buffer, count, datatype), self._completions.on_sent(cb)
        return self._completions.answer(ucp_am_send_nb(self._ep(ep), id, data, count, datatype, done, flags))

    def ucp_am_send_nbx(
        self, ep: int, id: int, header: int, header_length: int, buffer: int, count: int, param: Any
    ) -> int:
        read = self._completions.param(param, SENT)
        data = self._buffers.source(buffer, count, read.datatype)
        head = self._buffers.view(header, header_length) if header_length else None
        request = ucp_am_send_nbx(self._ep(ep), id, head, header_length, data, count, read.given)
        return self._completions.answer(request, read)

    def ucp_am_recv_data_nbx(self, worker: int, data_desc: int, buffer: int, count: int, param: Any) -> int:
        read = self._completions.param(param, COUNTED)
        found, data = self._worker(worker), self._kept(worker, data_desc)
        place = self._buffers.destination(buffer, count, read.datatype)
        try:
            request = ucp_am_recv_data_nbx(found, data, place, count, read.given)
        finally:
            try:
                found.active_messages.find(data)
            except UcsError:  # it was taken
                self._forget(worker, data_desc)
        return self._completions.answer(request, read)

    def ucp_am_data_release(self, worker: int, data: int) -> None:
        ucp_am_data_release(self._worker(worker), self._kept(worker, data))
        self._forget(worker, data)

    # Streams

    def ucp_stream_send_nb(self, ep: int, buffer: int, count: int, datatype: int, cb: Any, flags: int) -> int:
        data, done = self._buffers.source(buffer, count, datatype), self._completions.on_sent(cb)
        return self._completions.answer(ucp_stream_send_nb(self._ep(ep), data, count, datatype, done, flags))

    def ucp_stream_send_nbx(self, ep: int, buffer: int, count: int, param: Any) -> int:
        read = self._completions.param(param, SENT)
        data = self._buffers.source(buffer, count, read.datatype)
        return self._completions.answer(ucp_stream_send_nbx(self._ep(ep), data, count, read.given), read)

    def ucp_stream_recv_nb(
        self, ep: int, buffer: int, count: int, datatype: int, cb: Any, length: Any, flags: int
    ) -> int:
        self._memory.require(length, "length")
        data, done = self._buffers.destination(buffer, count, datatype), self._completions.on_counted(cb)
        request, received = ucp_stream_recv_nb(self._ep(ep), data, count, datatype, done, flags)
        if request is None:
            length[0] = received
        return self._completions.answer(request)

    def ucp_stream_recv_nbx(self, ep: int, buffer: int, count: int, length: Any, param: Any) -> int:
        self._memory.require(length, "length")
        read = self._completions.param(param, COUNTED)
        data = self._buffers.destination(buffer, count, read.datatype)
        request, received = ucp_stream_recv_nbx(self._ep(ep), data, count, read.given)
        if request is None:
            length[0] = received
            if read.given is not None and read.given.recv_info is not None:
                read.given.recv_info.length = received
        return self._completions.answer(request, read)

    def ucp_stream_recv_data_nb(self, ep: int, length: Any) -> int:
        self._memory.require(length, "length")
        data = ucp_stream_recv_data_nb(self._ep(ep))
        if data is None:
            return 0
        address = address_of(data)
        self._endpoints.unread[ep][address] = data
        length[0] = data.nbytes
        return address

    def ucp_stream_data_release(self, ep: int, data: int) -> None:
        found = self._ep(ep)
        given = self._endpoints.unread[ep].get(data)
        if given is None:
            raise invalid_param(f"data: expected an unreleased result of ucp_stream_recv_data_nb, got {data:#x}")
        ucp_stream_data_release(found, given)
        del self._endpoints.unread[ep][data]

    def ucp_stream_worker_poll(self, worker: int, poll_eps: Any, max_eps: int, flags: int) -> int:
        found = self._worker(worker)
        if max_eps:
            self._memory.require(poll_eps, "poll_eps")
        ready = ucp_stream_worker_poll(found, max_eps, flags)
        for index, each in enumerate(ready):
            entry = poll_eps[index]
            entry.ep = self._endpoints.number(each.ep)
            entry.user_data = each.user_data or 0
            entry.flags = 0
        return len(ready)
