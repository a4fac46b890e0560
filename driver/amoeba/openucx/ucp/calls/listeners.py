"""Listeners (group WORKER of ucp.h): endpoints by socket addresses, at the server's end."""

from collections.abc import Callable

from amoeba.openucx.ucp.calls.workers import checked_worker
from amoeba.openucx.ucp.connections import ConnectionRequest, Listener, accept
from amoeba.openucx.ucp.constants import ucp_feature
from amoeba.openucx.ucp.status import invalid_param, wrong_type
from amoeba.openucx.ucp.structures import ucp_conn_request_attr_t, ucp_listener_attr_t, ucp_listener_params_t
from amoeba.openucx.ucp.worker import Worker

__all__ = [
    "ucp_conn_request_query",
    "ucp_listener_create",
    "ucp_listener_destroy",
    "ucp_listener_query",
    "ucp_listener_reject",
]

_FEATURES = ucp_feature(~ucp_feature.UCP_FEATURE_WAKEUP & sum(ucp_feature))


def _checked(listener: Listener) -> Listener:
    if not isinstance(listener, Listener):
        raise wrong_type("listener", "a listener, as ucp_listener_create() returns it", listener)
    listener._check_open()
    return listener


def _checked_request(conn_request: ConnectionRequest) -> ConnectionRequest:
    if not isinstance(conn_request, ConnectionRequest):
        raise wrong_type("conn_request", "one that a listener's handler was given", conn_request)
    conn_request.check()
    return conn_request


def ucp_listener_create(worker: Worker, params: ucp_listener_params_t) -> Listener:
    """Take connection requests at ``params.sockaddr``; with port 0 the system chooses a port.

    ``params`` must have exactly one handler. Progress calls ``conn_handler`` with each request, which the application
    gives to :func:`ucp_ep_create` of any worker of the context, or rejects. Progress calls ``accept_handler`` with an
    endpoint.

    Raises BUSY if the address is in use, INVALID_ADDR if this host does not have it (ucp.h, group WORKER).
    """
    checked_worker(worker)
    taken = ucp_listener_params_t.taken(params)
    worker.context.need(_FEATURES, "a listener")
    if taken.sockaddr is None:
        raise invalid_param("params: expected sockaddr, got none")
    conn, old = taken.conn_handler, taken.accept_handler
    if (conn is None) is (old is None):
        raise invalid_param("params: expected either conn_handler or accept_handler")
    handler: Callable[[ConnectionRequest], object]
    if conn is not None:
        conn_cb, arg = conn.cb, conn.arg
        if conn_cb is None:
            raise invalid_param("params.conn_handler: expected a function, got None")

        def handler(request: ConnectionRequest) -> object:
            return conn_cb(request, arg)

    else:
        assert old is not None
        accept_cb, old_arg = old.cb, old.arg
        if accept_cb is None:
            raise invalid_param("params.accept_handler: expected a function, got None")

        def handler(request: ConnectionRequest) -> object:
            return accept_cb(accept(worker, request), old_arg)

    return Listener(worker, taken.sockaddr, handler)


def ucp_listener_destroy(listener: Listener) -> None:
    """Close a listener. Requests that the handler was given can still be accepted (ucp.h, group WORKER)."""
    _checked(listener).close()


def ucp_listener_query(listener: Listener, attr: ucp_listener_attr_t) -> ucp_listener_attr_t:
    """Fill ``attr`` with the address of the listener, and return it (ucp.h, group WORKER)."""
    return ucp_listener_attr_t.expected(attr).fill(sockaddr=_checked(listener).sockaddr)


def ucp_listener_reject(listener: Listener, conn_request: ConnectionRequest) -> None:
    """Refuse a connection: the client's error handler gets REJECTED (ucp.h, group WORKER).

    Raises INVALID_PARAM for another listener's request, and for one that was answered.
    """
    _checked(listener)
    if _checked_request(conn_request).listener is not listener:
        raise invalid_param("conn_request: expected one that came to this listener")
    conn_request.reject()


def ucp_conn_request_query(conn_request: ConnectionRequest, attr: ucp_conn_request_attr_t) -> ucp_conn_request_attr_t:
    """Fill ``attr`` with the client's address and id, and return it (ucp.h, group WORKER).

    Raises INVALID_PARAM if the request was answered.
    """
    attr = ucp_conn_request_attr_t.expected(attr)
    request = _checked_request(conn_request)
    return attr.fill(client_address=request.client_address, client_id=request.client_id)
