"""Listeners: ucp_listener_create, _destroy, _query, _reject, ucp_conn_request_query."""

from typing import Any

import amoeba.ucp as ucp

from amoeba_tools.conformance.expectations import expect, expect_equal
from amoeba_tools.conformance.ucp.expectations import expect_status
from amoeba_tools.conformance.ucp.functions.common import INVALID
from amoeba_tools.conformance.ucp.functions.endpoints import exchanged
from amoeba_tools.conformance.ucp.pair import Entity, Pair
from amoeba_tools.conformance.ucp.registry import Function

create = Function("ucp_listener_create", 2429)
destroy = Function("ucp_listener_destroy", 2443)
query = Function("ucp_listener_query", 2457)
conn_query = Function("ucp_conn_request_query", 2472)
reject = Function("ucp_listener_reject", 2595)

LOCAL = ("127.0.0.1", 0)


def listening(pair: Pair) -> tuple[Entity, Any, list[Any]]:
    """(server, its listener, requests that have come)."""
    server, requests = pair.entity(1), list[Any]()
    handler = ucp.ucp_listener_conn_handler_t(lambda request, arg: requests.append(request), None)
    listener = ucp.ucp_listener_create(server.worker, ucp.ucp_listener_params_t(sockaddr=LOCAL, conn_handler=handler))
    return server, listener, requests


def called(client: Entity, listener: Any, **params: Any) -> Any:
    """Connect a client's endpoint to a listener."""
    address = ucp.ucp_listener_query(listener, ucp.ucp_listener_attr_t()).sockaddr
    flags = ucp.UCP_EP_PARAMS_FLAGS_CLIENT_SERVER | ucp.UCP_EP_PARAMS_FLAGS_SEND_CLIENT_ID
    return ucp.ucp_ep_create(client.worker, ucp.ucp_ep_params_t(sockaddr=address, flags=flags, **params))


@create.says(
    2412,
    "After receiving a request from the remote peer, an endpoint to this peer will be created - either "
    "right away or by calling ucp_ep_create",
)
def a_request_is_accepted(pair: Pair) -> None:
    """Send messages both ways."""
    (server, listener, requests), client = listening(pair), pair.entity(0)
    ep = called(client, listener)
    pair.wait(lambda: requests, "a connection request")
    back = ucp.ucp_ep_create(server.worker, ucp.ucp_ep_params_t(conn_request=requests[0]))
    expect_equal("to the server", exchanged(pair, ep, server), b"hello")
    expect_equal("to the client", exchanged(pair, back, client), b"hello")


@create.says(
    2425,
    "ucp_listener_params_t::conn_handler or ucp_listener_params_t::accept_handler must be provided to be "
    "able to handle incoming connections.",
)
def a_listener_needs_a_handler(pair: Pair) -> None:
    """Leave out the handler, and the address: INVALID_PARAM."""
    for params in (ucp.ucp_listener_params_t(sockaddr=LOCAL), ucp.ucp_listener_params_t()):
        with expect_status(f"{params}", INVALID):
            ucp.ucp_listener_create(pair.far.worker, params)


@destroy.says(
    2438,
    "This routine unbinds the worker from the given handle and stops listening for incoming connection "
    "requests on it.",
)
def a_destroyed_listener_cannot_be_used(pair: Pair) -> None:
    """Destroy it again, too, which fails."""
    _server, listener, _requests = listening(pair)
    ucp.ucp_listener_destroy(listener)
    with expect_status("query", INVALID):
        ucp.ucp_listener_query(listener, ucp.ucp_listener_attr_t())
    with expect_status("the second time", INVALID):
        ucp.ucp_listener_destroy(listener)


@query.says(2450, "This routine fetches information about the listener.")
def a_listeners_address_is_told(pair: Pair) -> None:
    """Get the port that the system has chosen."""
    _server, listener, _requests = listening(pair)
    address = ucp.ucp_listener_query(listener, ucp.ucp_listener_attr_t()).sockaddr
    expect(address is not None and address[0] == LOCAL[0] and address[1] > 0, f"expected a port, got {address}")


@conn_query.says(2465, "This routine fetches information about the connection request.")
def who_calls_is_told(pair: Pair) -> None:
    """Get the client's number; an answered request gives INVALID_PARAM."""
    (_server, listener, requests), client = listening(pair), pair.entity(0, client_id=77)
    called(client, listener)
    pair.wait(lambda: requests, "a connection request")
    found = ucp.ucp_conn_request_query(requests[0], ucp.ucp_conn_request_attr_t())
    expect_equal("number", found.client_id, 77)
    ucp.ucp_listener_reject(listener, requests[0])
    with expect_status("an answered request", INVALID):
        ucp.ucp_conn_request_query(requests[0], ucp.ucp_conn_request_attr_t())


@reject.says(
    2584,
    "If the remote initiator endpoint has set an ucp_ep_params_t::err_handler, it will be invoked with "
    "status UCS_ERR_REJECTED.",
)
def a_rejected_client_is_notified_of_it(pair: Pair) -> None:
    """Expect one call of its error handler."""
    (_server, listener, requests), client = listening(pair), pair.entity(0)
    heard: list[Any] = []
    handler = ucp.ucp_err_handler_t(lambda arg, ep, status: heard.append(status), None)
    called(client, listener, err_mode=ucp.UCP_ERR_HANDLING_MODE_PEER, err_handler=handler)
    pair.wait(lambda: requests, "a connection request")
    ucp.ucp_listener_reject(listener, requests[0])
    pair.wait(lambda: heard, "the error handler")
    pair.settle()
    expect_equal("statuses", heard, [ucp.UcsStatus.UCS_ERR_REJECTED])
