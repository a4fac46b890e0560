"""Endpoints and listeners (groups ENDPOINT and WORKER of ucp.h)."""

import io
from typing import Any

from amoeba_model.ucp import UCP_ADDRESS

from amoeba.embed import Memory
from amoeba.openucx.libucp.callbacks import call_aside
from amoeba.openucx.libucp.completions import SENT, Completions
from amoeba.openucx.libucp.contexts import Printer
from amoeba.openucx.libucp.fields import Writer, read_params, write_attributes
from amoeba.openucx.libucp.handle_table import HandleTable
from amoeba.openucx.libucp.sockaddr import STORAGE, read_sockaddr, sockaddr_bytes
from amoeba.openucx.ucp.calls.endpoints import (
    ucp_ep_close_nb,
    ucp_ep_close_nbx,
    ucp_ep_create,
    ucp_ep_evaluate_perf,
    ucp_ep_modify_nb,
    ucp_ep_print_info,
    ucp_ep_query,
)
from amoeba.openucx.ucp.calls.flushes import ucp_ep_flush_nb, ucp_ep_flush_nbx
from amoeba.openucx.ucp.calls.listeners import (
    ucp_conn_request_query,
    ucp_listener_create,
    ucp_listener_destroy,
    ucp_listener_query,
    ucp_listener_reject,
)
from amoeba.openucx.ucp.connections import ConnectionRequest, Listener
from amoeba.openucx.ucp.constants import UCP_ENTITY_NAME_MAX, ucp_ep_close_mode
from amoeba.openucx.ucp.endpoint import Endpoint
from amoeba.openucx.ucp.handles import ucp_ep_h
from amoeba.openucx.ucp.structures import (
    ucp_conn_request_attr_t,
    ucp_ep_attr_t,
    ucp_ep_evaluate_perf_attr_t,
    ucp_ep_evaluate_perf_param_t,
    ucp_ep_params_t,
    ucp_err_handler_t,
    ucp_listener_accept_handler_t,
    ucp_listener_attr_t,
    ucp_listener_conn_handler_t,
    ucp_listener_params_t,
)
from amoeba.openucx.ucp.worker import Worker
from amoeba.transport.transmit_rings import TransmitRings

__all__ = ["Endpoints"]

_FLUSH = int(ucp_ep_close_mode.UCP_EP_CLOSE_MODE_FLUSH)


class Endpoints:
    """Connections to other workers."""

    def __init__(
        self, ffi: Any, memory: Memory, handles: HandleTable, completions: Completions, printer: Printer
    ) -> None:
        self._ffi, self._null = ffi, ffi.NULL
        self._memory, self._handles, self._completions, self._printer = memory, handles, completions, printer
        self.rings: dict[int, TransmitRings] = {}
        """The rings through which each endpoint posts, by endpoint number."""
        self.unread: dict[int, dict[int, memoryview]] = {}
        """Stream data that the program holds, by endpoint number and address."""

    def _get(self, number: int) -> Endpoint:
        return self._handles.get(number, Endpoint)

    def number(self, endpoint: ucp_ep_h) -> int:
        """Return the number of an endpoint, which has one from its first use until it is closed."""
        assert isinstance(endpoint, Endpoint)
        known = self._handles.of(endpoint, endpoint.worker)
        if known not in self.unread:
            self.unread[known] = {}
            self.rings[known] = endpoint.worker.rings
            forget = endpoint.on_close

            def closed(each: Endpoint) -> None:
                self._drop(known)
                forget(each)

            endpoint.on_close = closed
        return known

    def _drop(self, number: int) -> None:
        """Invalidate C's handle."""
        self.unread.pop(number, None)
        self.rings.pop(number, None)
        if self._handles.has(number, Endpoint):
            self._handles.remove(number, Endpoint)

    def _params(self, params: Any) -> ucp_ep_params_t:
        def address(start: Any) -> bytes:
            return bytes(self._memory.view(start, UCP_ADDRESS.size))

        def handler(given: Any) -> ucp_err_handler_t:
            cb = given.cb
            if cb == self._null:
                return ucp_err_handler_t(None, given.arg)
            return ucp_err_handler_t(
                lambda arg, ep, status: call_aside(cb, arg or 0, self.number(ep), status), given.arg
            )

        readers = {
            "address": address,
            "err_handler": handler,
            "sockaddr": lambda given: read_sockaddr(self._memory, given, "params.sockaddr"),
            "conn_request": lambda number: self._handles.get(number, ConnectionRequest),
            "name": self._memory.string,
        }
        return read_params(self._memory, params, ucp_ep_params_t, readers)

    def ucp_ep_create(self, worker: int, params: Any, ep_p: Any) -> None:
        self._memory.require(ep_p, "ep_p")
        found = self._handles.get(worker, Worker)
        taken = self._params(params)
        made = ucp_ep_create(found, taken)
        if taken.conn_request is not None:
            self._handles.remove(params.conn_request, ConnectionRequest)
        ep_p[0] = self.number(made)

    def ucp_ep_modify_nb(self, ep: int, params: Any) -> None:
        ucp_ep_modify_nb(self._get(ep), self._params(params))

    def ucp_ep_close_nb(self, ep: int, mode: int) -> int:
        return self._completions.answer(self._close(ep, mode))

    def ucp_disconnect_nb(self, ep: int) -> int:
        return self._completions.answer(self._close(ep, _FLUSH))

    def ucp_ep_destroy(self, ep: int) -> None:
        self._completions.outside(self._get(ep).worker)
        self._completions.until_over(self._close(ep, _FLUSH))

    def _close(self, ep: int, mode: int) -> Any:
        request = ucp_ep_close_nb(self._get(ep), mode)
        self._drop(ep)
        return request

    def ucp_ep_close_nbx(self, ep: int, param: Any) -> int:
        read = self._completions.param(param, SENT)
        request = ucp_ep_close_nbx(self._get(ep), read.given)
        self._drop(ep)
        return self._completions.answer(request, read)

    def ucp_ep_print_info(self, ep: int, stream: Any) -> None:
        text = io.StringIO()
        ucp_ep_print_info(self._get(ep), text)
        self._printer.to(stream, text)

    def ucp_ep_query(self, ep: int, attr: Any) -> None:
        self._memory.require(attr, "attr")
        filled = ucp_ep_query(self._get(ep), ucp_ep_attr_t(field_mask=attr.field_mask))

        def put_name(given: Any, name: str) -> None:
            self._memory.put_string(given.name, UCP_ENTITY_NAME_MAX, name)

        writers: dict[str, Writer] = {"name": put_name}
        for field in ("local_sockaddr", "remote_sockaddr"):
            writers[field] = self._put_sockaddr(field)
        write_attributes(self._memory, attr, filled, writers)

    def _put_sockaddr(self, field: str) -> Writer:
        def put(given: Any, address: tuple[Any, ...] | None) -> None:
            self._ffi.memmove(self._ffi.addressof(given, field), sockaddr_bytes(address), STORAGE)

        return put

    def ucp_ep_evaluate_perf(self, ep: int, param: Any, attr: Any) -> None:
        self._memory.require(attr, "attr")
        taken = read_params(self._memory, param, ucp_ep_evaluate_perf_param_t, name="param")
        wanted = ucp_ep_evaluate_perf_attr_t(field_mask=attr.field_mask)
        write_attributes(self._memory, attr, ucp_ep_evaluate_perf(self._get(ep), taken, wanted))

    def ucp_ep_flush(self, ep: int) -> int:
        found = self._get(ep)
        self._completions.outside(found.worker)
        return self._completions.until_over(ucp_ep_flush_nbx(found))

    def ucp_ep_flush_nb(self, ep: int, flags: int, cb: Any) -> int:
        return self._completions.answer(ucp_ep_flush_nb(self._get(ep), flags, self._completions.on_sent(cb)))

    def ucp_ep_flush_nbx(self, ep: int, param: Any) -> int:
        read = self._completions.param(param, SENT)
        return self._completions.answer(ucp_ep_flush_nbx(self._get(ep), read.given), read)

    # Listeners

    def ucp_listener_create(self, worker: int, params: Any, listener_p: Any) -> None:
        self._memory.require(listener_p, "listener_p")
        found = self._handles.get(worker, Worker)

        def connected(given: Any) -> ucp_listener_conn_handler_t:
            cb = given.cb
            if cb == self._null:
                return ucp_listener_conn_handler_t(None, given.arg)
            return ucp_listener_conn_handler_t(
                lambda request, arg: call_aside(cb, self._handles.add(request, found), arg), given.arg
            )

        def accepted(given: Any) -> ucp_listener_accept_handler_t:
            cb = given.cb
            if cb == self._null:
                return ucp_listener_accept_handler_t(None, given.arg)
            return ucp_listener_accept_handler_t(lambda ep, arg: call_aside(cb, self.number(ep), arg), given.arg)

        readers = {
            "sockaddr": lambda given: read_sockaddr(self._memory, given, "params.sockaddr"),
            "conn_handler": connected,
            "accept_handler": accepted,
        }
        taken = read_params(self._memory, params, ucp_listener_params_t, readers)
        listener_p[0] = self._handles.add(ucp_listener_create(found, taken), found)

    def ucp_listener_destroy(self, listener: int) -> None:
        ucp_listener_destroy(self._handles.get(listener, Listener))
        self._handles.remove(listener, Listener)

    def ucp_listener_query(self, listener: int, attr: Any) -> None:
        self._memory.require(attr, "attr")
        wanted = ucp_listener_attr_t(field_mask=attr.field_mask)
        filled = ucp_listener_query(self._handles.get(listener, Listener), wanted)
        write_attributes(self._memory, attr, filled, {"sockaddr": self._put_sockaddr("sockaddr")})

    def ucp_listener_reject(self, listener: int, conn_request: int) -> None:
        found = self._handles.get(listener, Listener)
        ucp_listener_reject(found, self._handles.get(conn_request, ConnectionRequest))
        self._handles.remove(conn_request, ConnectionRequest)

    def ucp_conn_request_query(self, conn_request: int, attr: Any) -> None:
        self._memory.require(attr, "attr")
        wanted = ucp_conn_request_attr_t(field_mask=attr.field_mask)
        filled = ucp_conn_request_query(self._handles.get(conn_request, ConnectionRequest), wanted)
        write_attributes(self._memory, attr, filled, {"client_address": self._put_sockaddr("client_address")})
