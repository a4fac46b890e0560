"""Endpoints by socket addresses (UCX: test_ucp_sockaddr).

Covers ``openucx/ucp/connections.py`` and ``openucx/ucp/calls/listeners.py``.
"""

import contextlib
import errno
import json
import os
import resource
import socket

import amoeba.ucp as ucp
import pytest

from tests.driver.openucx.ucp.entities import ALL_FEATURES, Entity, finish, wait_for
from tests.driver.openucx.ucp.test_ep_close import FORCE, Handler, receive_stream

CLIENT = ucp.UCP_EP_PARAMS_FLAGS_CLIENT_SERVER
SEND_ID = ucp.UCP_EP_PARAMS_FLAGS_SEND_CLIENT_ID
RESET = ucp.UCS_ERR_CONNECTION_RESET
LOCAL = ("127.0.0.1", 0)
CLIENT_NUMBER = 1 << 23
"""Of the first endpoint that calls a listener."""


def _request_data(number):
    return number.to_bytes(4, "little") + bytes(8)


class Server(Entity):
    """Listens, and keeps the requests that come."""

    def __init__(self, adapter, address=LOCAL, *, old=False, **params):
        super().__init__(adapter, **params)
        self.requests = []
        if old:
            handler = {"accept_handler": ucp.ucp_listener_accept_handler_t(self._accepted, "arg")}
        else:
            handler = {"conn_handler": ucp.ucp_listener_conn_handler_t(self._called, "arg")}
        self.listener = ucp.ucp_listener_create(
            self.worker, ucp.ucp_listener_params_t(sockaddr=address, **handler)
        )

    @property
    def sockaddr(self):
        return ucp.ucp_listener_query(self.listener, ucp.ucp_listener_attr_t()).sockaddr

    def _called(self, request, arg):
        assert arg == "arg"
        self.requests.append(request)

    def _accepted(self, ep, arg):
        assert arg == "arg"
        self.ep = ep

    def accept(self, *others, worker=None, **params):
        """The endpoint to the next who calls."""
        wait_for(lambda: self.requests, self, *others)
        request = self.requests.pop(0)
        self.ep = ucp.ucp_ep_create(worker or self.worker, ucp.ucp_ep_params_t(conn_request=request, **params))
        return self.ep


def call(client, address, flags=CLIENT, **params):
    client.ep = ucp.ucp_ep_create(client.worker, ucp.ucp_ep_params_t(sockaddr=address, flags=flags, **params))
    return client.ep


@pytest.fixture
def connected(adapters):
    """(client, server, handler of the client, handler of the server)."""
    client, server = Entity(adapters[0]), Server(adapters[1])
    handlers = Handler(), Handler()
    call(client, server.sockaddr, **handlers[0].params())
    server.accept(client, **handlers[1].params())
    return client, server, *handlers


def exchange(one, other, *, text=b"hello"):
    for here, there in ((one, other), (other, one)):
        request = ucp.ucp_stream_send_nbx(here.ep, text, len(text), None)
        assert finish(request, one, other) is ucp.UCS_OK
        got, more = receive_stream(there, len(text))
        wait_for(more, one, other)
        assert got == text


def test_what_is_sent_before_the_connection_is_there_arrives_behind_it(adapters):
    # UCX: listen_bidi
    client, server = Entity(adapters[0]), Server(adapters[1])
    ep = call(client, server.sockaddr, **Handler().params())
    early = [ucp.ucp_stream_send_nbx(ep, bytearray(b"early %d " % number), 8, None) for number in range(5)]
    assert all(request is not None and not request.done for request in early)
    server.accept(client)
    back = ucp.ucp_stream_send_nbx(server.ep, b"back", 4, None)
    for request in [*early, back]:
        assert finish(request, client, server) is ucp.UCS_OK
    got, more = receive_stream(server, 40)
    wait_for(more, client, server)
    assert got == b"early 0 early 1 early 2 early 3 early 4 "
    got, more = receive_stream(client, 4)
    wait_for(more, client, server)
    assert got == b"back"
    exchange(client, server)


def test_both_ends_know_their_socket_addresses(connected):
    # UCX: ep_query
    client, server, _, _ = connected
    exchange(client, server)
    one, other = (ucp.ucp_ep_query(each.ep, ucp.ucp_ep_attr_t()) for each in (client, server))
    assert one.local_sockaddr == other.remote_sockaddr
    assert one.remote_sockaddr == other.local_sockaddr == server.sockaddr


@pytest.mark.parametrize("closer", ["client", "server"])
@pytest.mark.parametrize("force", [False, True])
def test_when_one_end_is_closed_the_other_is_notified_of_it_and_can_be_closed(models, closer, force):
    # UCX: onesided_disconnect
    client, server = Entity(models[0]), Server(models[1])
    handlers = Handler(), Handler()
    call(client, server.sockaddr, **handlers[0].params())
    server.accept(client, **handlers[1].params())
    exchange(client, server)
    first, second, handler = (client, server, handlers[1]) if closer == "client" else (server, client, handlers[0])
    request = ucp.ucp_ep_close_nbx(first.ep, FORCE if force else None)
    assert finish(request, client, server) is ucp.UCS_OK
    wait_for(lambda: handler.heard, client, server)
    assert handler.heard == [("arg", second.ep, RESET)]
    with pytest.raises(ucp.UcsConnectionResetError):
        ucp.ucp_stream_send_nbx(second.ep, b"more", 4, None)
    assert finish(ucp.ucp_ep_close_nbx(second.ep, None), client, server) is ucp.UCS_OK
    assert not client.worker.endpoints
    assert not server.worker.endpoints


@pytest.mark.parametrize("force", [False, True])
def test_both_ends_may_be_closed_at_the_same_time(models, force):
    # UCX: concurrent_disconnect, concurrent_disconnect_force
    client, server = Entity(models[0]), Server(models[1])
    handlers = Handler(), Handler()
    call(client, server.sockaddr, **handlers[0].params())
    server.accept(client, **handlers[1].params())
    exchange(client, server)
    requests = [ucp.ucp_ep_close_nbx(each.ep, FORCE if force else None) for each in (client, server)]
    assert [finish(request, client, server) for request in requests] == [ucp.UCS_OK] * 2
    assert handlers[0].heard == handlers[1].heard == []


def test_data_that_was_sent_before_a_flushing_close_arrives(models):
    client, server = Entity(models[0]), Server(models[1])
    got = []

    def take(arg, header, header_length, data, length, param):
        got.append(bytes(data))
        return ucp.UCS_OK

    ucp.ucp_worker_set_am_recv_handler(server.worker, ucp.ucp_am_handler_param_t(id=1, cb=take))
    call(client, server.sockaddr, **Handler().params())
    server.accept(client, **Handler().params())
    for number in range(100):
        ucp.ucp_am_send_nbx(client.ep, 1, None, 0, b"%3d" % number, 3, None)
    finish(ucp.ucp_ep_close_nbx(client.ep, None), client, server)
    wait_for(lambda: len(got) == 100, client, server)
    assert got == [b"%3d" % number for number in range(100)]


@pytest.mark.parametrize("handled", [True, False])
def test_who_is_rejected_is_notified_of_it_and_so_are_his_messages(models, handled):
    # UCX: reject
    client, server = Entity(models[0]), Server(models[1])
    handler = Handler()
    ep = call(client, server.sockaddr, **(handler.params() if handled else {}))
    waiting = ucp.ucp_stream_send_nbx(ep, bytearray(8), 8, None)
    wait_for(lambda: server.requests, client, server)
    (request,) = server.requests
    ucp.ucp_listener_reject(server.listener, request)
    assert finish(waiting, client, server) is ucp.UCS_ERR_REJECTED
    wait_for(lambda: handler.heard or not handled, client, server)
    assert handler.statuses == [ucp.UCS_ERR_REJECTED] * handled
    for again in (
        lambda: ucp.ucp_listener_reject(server.listener, request),
        lambda: ucp.ucp_conn_request_query(request, ucp.ucp_conn_request_attr_t()),
        lambda: ucp.ucp_ep_create(server.worker, ucp.ucp_ep_params_t(conn_request=request)),
    ):
        with pytest.raises(ucp.UcsInvalidParamError):
            again()
    assert not server.worker.endpoints


def test_nobody_listening_is_an_error_later(models):
    # UCX: err_handle
    client = Entity(models[0])
    with contextlib.closing(socket.socket()) as closed:
        closed.bind(LOCAL)
        address = closed.getsockname()
    handler = Handler()
    ep = call(client, address, **handler.params())
    assert ep.failure is None or handler.heard == []
    wait_for(lambda: handler.heard, client)
    assert handler.heard == [("arg", ep, ucp.UCS_ERR_NOT_CONNECTED)]
    finish(ucp.ucp_ep_close_nbx(ep, FORCE), client)


def test_a_request_that_nobody_keeps_is_refused(models):
    client, server = Entity(models[0]), Server(models[1])
    handler = Handler()
    call(client, server.sockaddr, **handler.params())
    wait_for(lambda: server.requests, client, server)
    server.requests.clear()
    wait_for(lambda: handler.heard, client, server)
    assert handler.statuses == [RESET]


def test_what_a_listener_is_made_with_is_checked(models):
    # UCX: listener_invalid_params
    entity = Entity(models[0])
    conn = ucp.ucp_listener_conn_handler_t(lambda request, arg: None)
    old = ucp.ucp_listener_accept_handler_t(lambda ep, arg: None)
    for params in (
        {},
        {"sockaddr": LOCAL},
        {"conn_handler": conn},
        {"sockaddr": LOCAL, "conn_handler": conn, "accept_handler": old},
        {"sockaddr": LOCAL, "conn_handler": ucp.ucp_listener_conn_handler_t(None)},
        {"sockaddr": LOCAL, "accept_handler": ucp.ucp_listener_accept_handler_t(None)},
        {"sockaddr": ("127.0.0.1", 1 << 16), "conn_handler": conn},
        {"sockaddr": "127.0.0.1", "conn_handler": conn},
    ):
        with pytest.raises(ucp.UcsInvalidParamError):
            ucp.ucp_listener_create(entity.worker, ucp.ucp_listener_params_t(**params))


def test_an_address_that_is_in_use_is_busy_and_free_when_the_listener_is_closed(models):
    server = Server(models[0])
    address = server.sockaddr
    assert address[1] > 0
    with pytest.raises(ucp.UcsBusyError):
        Server(models[1], address)
    ucp.ucp_listener_destroy(server.listener)
    with pytest.raises(ucp.UcsInvalidParamError):
        ucp.ucp_listener_query(server.listener, ucp.ucp_listener_attr_t())
    assert Server(models[1], address).sockaddr == address


def test_a_listener_at_every_address_is_reached_by_this_hosts(models):
    # UCX: listen_inaddr_any
    client, server = Entity(models[0]), Server(models[1], ("0.0.0.0", 0))
    call(client, ("127.0.0.1", server.sockaddr[1]))
    server.accept(client)
    exchange(client, server)


@pytest.mark.parametrize(("flags", "expected"), [(CLIENT | SEND_ID, 0xFEED), (CLIENT, 0)])
def test_a_clients_number_is_told_only_if_it_is_sent(models, flags, expected):
    # UCX: conn_request_query_worker_id
    client, server = Entity(models[0], client_id=0xFEED), Server(models[1])
    call(client, server.sockaddr, flags, **Handler().params())
    wait_for(lambda: server.requests, client, server)
    attr = ucp.ucp_conn_request_query(server.requests[0], ucp.ucp_conn_request_attr_t())
    assert attr.client_id == expected
    assert attr.client_address[0] == "127.0.0.1"


def test_a_request_can_be_accepted_by_another_worker_of_the_context_and_by_no_other(models):
    client, server, stranger = Entity(models[0]), Server(models[1]), Entity(models[1])
    data_worker = ucp.ucp_worker_create(server.context, ucp.ucp_worker_params_t())
    call(client, server.sockaddr)
    wait_for(lambda: server.requests, client, server)
    with pytest.raises(ucp.UcsInvalidParamError, match="same context"):
        ucp.ucp_ep_create(stranger.worker, ucp.ucp_ep_params_t(conn_request=server.requests[0]))
    server.accept(client, worker=data_worker)
    connection_worker, server.worker = server.worker, data_worker
    exchange(client, server)
    assert not connection_worker.endpoints
    data_worker.close()
    connection_worker.close()


def test_the_older_handler_is_given_an_endpoint(models):
    client, server = Entity(models[0]), Server(models[1], old=True)
    call(client, server.sockaddr)
    wait_for(lambda: server.ep, client, server)
    exchange(client, server)


def test_both_ends_may_belong_to_one_worker_and_to_endpoints_by_address(models):
    entity = Server(models[0])
    by_address = [entity.connect(entity) for _ in range(2)]
    eps = [call(entity, entity.sockaddr) for _ in range(3)]
    others = [entity.accept() for _ in range(3)]
    for number, ep in enumerate(eps):
        ucp.ucp_stream_send_nbx(ep, b"%d" % number, 1, None)
    ucp.ucp_stream_send_nbx(by_address[0], b"a", 1, None)
    got = {}
    for number, ep in [*enumerate(others), ("a", by_address[0])]:
        entity.ep = ep
        got[number], more = receive_stream(entity, 1)
        wait_for(more, entity)
    assert got == {0: b"0", 1: b"1", 2: b"2", "a": b"a"}


def test_a_listener_can_be_destroyed_before_its_requests_are_accepted(models):
    client, server = Entity(models[0]), Server(models[1])
    call(client, server.sockaddr)
    wait_for(lambda: server.requests, client, server)
    ucp.ucp_listener_destroy(server.listener)
    server.accept(client)
    exchange(client, server)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"[1]\n",
        b'["amoeba-ucp-1", "request", "00", 8388608, 0]\n',
        b'["amoeba-connection-1", "request", "", "000080000000000000000000"]\n',
        b'["amoeba-ucp-2", "request", "00", "000080000000000000000000"]\n',
        b'["amoeba-ucp-2", "request", "zz", "000080000000000000000000"]\n',
        b'["amoeba-ucp-2", "accept", "", ""]\n',
        b'["amoeba-ucp-2", "request", "", 1e400]\n',
        b'["amoeba-ucp-2", "request", "", 8388608]\n',
        b"[" * 100000 + b"\n",
        bytes(range(256)) * 8192,
    ],
)
def test_a_stranger_who_calls_is_hung_up_on_and_others_are_served(models, line):
    client, server = Entity(models[0]), Server(models[1])
    with contextlib.closing(socket.create_connection(server.sockaddr)) as stranger:
        if line:
            stranger.setblocking(False)
            with contextlib.suppress(OSError):
                stranger.sendall(line)
        else:
            stranger.close()
        call(client, server.sockaddr)
        server.accept(client)
        exchange(client, server)
        wait_for(lambda: not server.listener.listening.callers, server)
    assert server.requests == []


def test_a_server_that_answers_nonsense_fails_the_endpoint(models):
    client = Entity(models[0])
    handler = Handler()
    with contextlib.closing(socket.create_server(LOCAL)) as listening:
        call(client, listening.getsockname(), **handler.params())
        connected, _ = listening.accept()
        with contextlib.closing(connected):
            connected.sendall(b'["amoeba-ucp-2", "accept", "1234", ""]\n')
            wait_for(lambda: handler.heard, client)
            assert json.loads(connected.makefile().readline())[:2] == ["amoeba-ucp-2", "request"]
    assert handler.statuses == [RESET]


@pytest.mark.parametrize(
    "data",
    [b"", _request_data(CLIENT_NUMBER) + b"0", _request_data(CLIENT_NUMBER | 1), _request_data(0), bytes([255] * 12)],
    ids=["none", "too long", "odd", "of a worker's address", "too large"],
)
def test_a_request_without_a_client_s_number_is_hung_up_on(models, data):
    client, server = Entity(models[0]), Server(models[1])
    address = bytes(ucp.ucp_worker_get_address(client.worker)[0])
    with contextlib.closing(socket.create_connection(server.sockaddr)) as stranger:
        stranger.sendall(json.dumps(["amoeba-ucp-2", "request", address.hex(), data.hex()]).encode() + b"\n")
        stranger.setblocking(False)
        wait_for(lambda: _closed(stranger), server)
        assert not server.listener.listening.callers
    assert server.requests == []


def _closed(stranger):
    try:
        return stranger.recv(1) == b""
    except BlockingIOError:
        return False


def test_all_operations_work_on_such_endpoints(models):
    # UCX: wireup (rma_atomic), protocols
    client, server = Entity(models[0], ALL_FEATURES), Server(models[1])
    ep = call(client, server.sockaddr)
    server.accept(client)
    memory = bytearray(64)
    mapped = ucp.ucp_mem_map(server.context, ucp.ucp_mem_map_params_t(address=memory, length=64))
    start = ucp.ucp_mem_query(mapped, ucp.ucp_mem_attr_t()).address
    exchange(client, server)
    key = ucp.ucp_ep_rkey_unpack(ep, ucp.ucp_rkey_pack(server.context, mapped)[0])
    finish(ucp.ucp_put_nbx(ep, b"12345678", 8, start, key, None), client, server)
    finish(ucp.ucp_ep_flush_nbx(ep, None), client, server)
    assert memory[:8] == b"12345678"
    ucp.ucp_rkey_destroy(key)
    ucp.ucp_mem_unmap(server.context, mapped)


# Callers that say nothing


def test_callers_that_say_nothing_keep_nobody_out(adapters, monkeypatch):
    monkeypatch.setattr("amoeba.openucx.ucp.connections._MAX_CALLERS", 3)
    client, server = Entity(adapters[0]), Server(adapters[1])
    with contextlib.ExitStack() as exits:
        for _ in range(8):
            exits.enter_context(contextlib.closing(socket.create_connection(server.sockaddr)))
        call(client, server.sockaddr)
        server.accept(client)
        exchange(client, server)
        assert server.listener.listening.hung_up >= 5


def test_a_listener_without_free_descriptors_hangs_up_on_the_silent(adapters, monkeypatch):
    client, server = Entity(adapters[0]), Server(adapters[1])
    with contextlib.closing(socket.create_connection(server.sockaddr)):
        wait_for(lambda: server.listener.listening.callers, server)
        real, failures = server.listener.listening.socket, [OSError(errno.EMFILE, "too many open files")]

        class Full:
            def __getattr__(self, name):
                return getattr(real, name)

            def accept(self):
                if failures:
                    raise failures.pop()
                return real.accept()

        monkeypatch.setattr(server.listener.listening, "socket", Full())
        call(client, server.sockaddr)
        server.accept(client)
        assert server.listener.listening.hung_up == 1
        monkeypatch.undo()
        exchange(client, server)


def test_a_listener_takes_callers_whose_descriptors_have_high_numbers(adapters):
    client, server = Entity(adapters[0]), Server(adapters[1])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2000:
        pytest.skip("this system grants too few descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    try:
        with contextlib.ExitStack() as exits:
            for _ in range(1100):
                exits.callback(os.close, os.dup(0))
            call(client, server.sockaddr)
            server.accept(client)
            exchange(client, server)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
