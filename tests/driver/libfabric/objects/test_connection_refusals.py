"""Connections that are not made: whoever does not want, is not there, or asks for what makes no sense."""

import contextlib
import json
import socket
import time

import pytest
from amoeba import (
    CqFormat,
    EndpointOption,
    EpAttr,
    EpType,
    EqEvent,
    Errno,
    Info,
    OptionLevel,
    open_cluster,
)
from amoeba.libfabric.objects import connections
from amoeba.nic.address import EndpointAddress
from amoeba_model.parameters import NicParameters

from tests.driver.connections import CM_DATA_SIZE, MSG, Party, asked, connect, failed, free_port, listen
from tests.driver.endpoints import refused

# Refusals


def test_a_rejected_request_is_an_error_with_the_param_of_the_other_side(client, server, passive):
    calling = client.endpoint()
    calling.connect(passive.getname())
    handle = asked(client, server).info.handle
    assert repr(handle).startswith("<ConnectionRequest of 10.0.0.1 ")
    passive.reject(handle, b"not today")
    error = client.error()
    assert (error.fid, error.context, error.err, error.err_data) == (
        calling,
        None,
        Errno.FI_ECONNREFUSED,
        b"not today",
    )
    for answer in (lambda: passive.reject(handle), lambda: passive.reject(None), lambda: passive.reject(b"request")):
        with refused(Errno.FI_EINVAL):
            answer()
    # the next attempt may be luckier
    calling.connect(passive.getname())
    server.endpoint(asked(client, server).info).accept()
    assert client.event(EqEvent.FI_CONNECTED).fid is calling


def test_a_request_is_answered_once(two_models, keep, client, server, passive):
    client.endpoint().connect(passive.getname())
    info = asked(client, server).info
    one, other = server.endpoint(info), server.endpoint(info)
    with refused(Errno.FI_EINVAL):
        listen(two_models, keep, server).reject(info.handle)
    one.accept()
    with refused(Errno.FI_EALREADY):
        one.accept()
    with refused(Errno.FI_EINVAL):
        other.accept()
    with refused(Errno.FI_EINVAL):
        passive.reject(info.handle)
    client.event(EqEvent.FI_CONNECTED)
    server.event(EqEvent.FI_CONNECTED)
    with refused(Errno.FI_EISCONN):
        one.accept()


def test_an_endpoint_that_was_closed_before_it_accepted_leaves_the_request(client, server, passive):
    client.endpoint().connect(passive.getname())
    info = asked(client, server).info
    server.endpoint(info).close()
    server.endpoint(info).accept()
    client.event(EqEvent.FI_CONNECTED)


def test_where_nobody_listens_the_connection_is_refused(client):
    calling = client.endpoint()
    calling.connect(free_port())
    error = client.error()
    assert (error.fid, error.err, error.err_data) == (calling, Errno.FI_ECONNREFUSED, b"")
    with refused(Errno.FI_ENOTCONN):
        calling.send(b"x")


def test_an_address_that_cannot_be_reached_is_an_error(client):
    client.endpoint().connect(("255.255.255.255", 1))
    assert client.error().err in (Errno.FI_ENETUNREACH, Errno.FI_EACCES, Errno.FI_EHOSTUNREACH)


@pytest.mark.parametrize("seen", [True, False], ids=["after its event", "before"])
def test_a_passive_endpoint_that_closes_refuses_what_it_has_not_answered(client, server, passive, seen):
    calling = client.endpoint()
    calling.connect(passive.getname())
    info = asked(client, server).info if seen else None
    passive.close()
    assert client.error().err is Errno.FI_ECONNREFUSED
    if info is not None:
        with refused(Errno.FI_EINVAL):
            server.endpoint(info).accept()


def test_a_request_without_an_answer_is_given_up_in_time(client, server, passive):
    calling = client.endpoint()
    begin = time.monotonic()
    calling.connect(passive.getname(), timeout=0.2)
    error = client.error()
    assert (error.fid, error.err) == (calling, Errno.FI_ETIMEDOUT)
    assert 0.2 <= time.monotonic() - begin < 20
    # whoever accepts it then hears that nobody is there
    late = server.endpoint(asked(client, server).info)
    late.accept()
    error = server.error()
    assert (error.fid, error.err) == (late, Errno.FI_ECONNABORTED)
    with refused(Errno.FI_EOPBADSTATE):
        late.accept()


def test_a_host_that_is_silent_is_given_up_in_time(client):
    with contextlib.closing(socket.create_server(("127.0.0.1", 0), backlog=0)) as full:
        address = full.getsockname()
        with contextlib.closing(socket.create_connection(address)):
            client.endpoint().connect(address, timeout=0.2)
            assert client.error().err is Errno.FI_ETIMEDOUT


def test_a_caller_that_closes_before_the_answer_is_not_connected(client, server, passive):
    calling = client.endpoint()
    calling.connect(passive.getname())
    info = asked(client, server).info
    calling.close()
    server.endpoint(info).accept()
    assert server.error().err is Errno.FI_ECONNABORTED


def test_connections_that_say_nothing_keep_no_request_out(client, server, passive):
    passive.set_backlog(2)
    with contextlib.ExitStack() as exits:
        for _ in range(5):
            exits.enter_context(contextlib.closing(socket.create_connection(("127.0.0.1", passive.getname()[1]))))
        client.endpoint().connect(passive.getname())
        assert asked(client, server).fid is passive


def test_requests_beyond_the_backlog_are_refused(client, server, passive):
    passive.set_backlog(2)
    first, second, third = (client.endpoint() for _ in range(3))
    requests = []
    for calling in (first, second):
        calling.connect(passive.getname())
        requests.append(asked(client, server).info)
    third.connect(passive.getname())
    error = failed(client, server)
    assert (error.fid, error.err) == (third, Errno.FI_ECONNREFUSED)
    passive.reject(requests[0].handle)
    assert client.error().fid is first
    third.connect(passive.getname())
    assert asked(client, server).fid is passive
    with refused(Errno.FI_EINVAL):
        passive.set_backlog(0)


def _party(fabric, nic, keep):
    domain = keep(fabric.domain(nic))
    return Party(domain, keep(fabric.eq_open()), keep(domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED)))


def test_a_nic_without_space_for_another_peer_does_not_connect(keep):
    with open_cluster(["model"] * 2, NicParameters(peers=2)) as small:
        client, server = keep([_party(small, nic, keep) for nic in range(2)])
        passive = listen(small, keep, server)
        peers = small.nics[0].parameters.peers
        taken = keep(client.domain.av_open())
        filler = keep(client.domain.endpoint(cq=client.queue, av=taken))
        for _ in range(peers):
            taken.insert(filler.getname())
        calling = client.endpoint()
        calling.connect(passive.getname())
        server.endpoint(asked(client, server).info).accept()
        assert client.error().err is Errno.FI_ENOSPC
        assert server.error().err is Errno.FI_ECONNABORTED
        taken.remove(0)
        calling.connect(passive.getname())
        server.endpoint(asked(client, server).info).accept()
        client.event(EqEvent.FI_CONNECTED)


def test_a_request_that_the_nic_has_no_space_for_can_be_accepted_later(keep):
    with open_cluster(["model"] * 2, NicParameters(peers=2)) as small:
        client, server = keep([_party(small, nic, keep) for nic in range(2)])
        passive = listen(small, keep, server)
        taken = keep(server.domain.av_open())
        filler = keep(server.domain.endpoint(cq=server.queue, av=taken))
        for _ in range(small.nics[1].parameters.peers):
            taken.insert(filler.getname())
        client.endpoint().connect(passive.getname())
        answering = server.endpoint(asked(client, server).info)
        with refused(Errno.FI_ENOSPC):
            answering.accept()
        taken.remove(0)
        answering.accept()
        client.event(EqEvent.FI_CONNECTED)


# Wrong states and arguments


def test_an_endpoint_is_connected_once(client, server, passive):
    calling = client.endpoint()
    calling.connect(passive.getname())
    with refused(Errno.FI_EALREADY):
        calling.connect(passive.getname())
    server.endpoint(asked(client, server).info).accept()
    client.event(EqEvent.FI_CONNECTED)
    with refused(Errno.FI_EISCONN):
        calling.connect(passive.getname())
    calling.shutdown()
    with refused(Errno.FI_EOPBADSTATE):
        calling.connect(passive.getname())


def test_an_endpoint_calls_or_answers(client, server, passive):
    calling = client.endpoint()
    with refused(Errno.FI_EOPBADSTATE):
        calling.accept()
    calling.connect(passive.getname())
    with refused(Errno.FI_EOPBADSTATE):
        server.endpoint(asked(client, server).info).connect(passive.getname())


@pytest.mark.parametrize(
    ("address", "number"),
    [
        ("127.0.0.1", Errno.FI_EINVAL),
        (b"x" * 18, Errno.FI_EINVAL),
        (None, Errno.FI_EINVAL),
        (("127.0.0.1", "http"), Errno.FI_EINVAL),
        (("no.such.host.invalid", 1), Errno.FI_EADDRNOTAVAIL),
    ],
)
def test_what_is_no_tcp_address_is_refused(client, two_models, keep, address, number):
    with refused(number):
        client.endpoint().connect(address)
    with refused(number):
        keep(two_models.passive_ep(MSG)).setname(address)


def test_a_passive_endpoint_listens_once_where_it_was_told(two_models, keep, server):
    passive = keep(two_models.passive_ep(MSG))
    with refused(Errno.FI_EOPBADSTATE):
        passive.getname()
    with refused(Errno.FI_ENOEQ):
        passive.listen()
    passive.bind(server.events)
    address = free_port()
    passive.setname(address)
    passive.listen()
    assert passive.getname() == address
    for call in (passive.listen, lambda: passive.setname(("127.0.0.1", 0))):
        with refused(Errno.FI_EOPBADSTATE):
            call()
    second = keep(two_models.passive_ep(MSG))
    second.bind(server.events)
    second.setname(address)
    with refused(Errno.FI_EADDRINUSE):
        second.listen()
    passive.close()
    second.listen()
    third = keep(two_models.passive_ep(MSG))
    third.bind(server.events)
    third.setname(("192.0.2.1", 0))
    with refused(Errno.FI_EADDRNOTAVAIL):
        third.listen()


def test_every_address_of_the_host_can_be_listened_at(two_models, keep, client, server):
    passive = keep(two_models.passive_ep(MSG))
    passive.bind(server.events)
    passive.setname(("", 0))
    passive.listen()
    client.endpoint().connect(("127.0.0.1", passive.getname()[1]))
    assert asked(client, server).fid is passive


def test_passive_endpoints_are_of_the_connected_type_and_their_own_fabric(two_models, keep, server):
    for ep_type in (EpType.FI_EP_RDM, EpType.FI_EP_DGRAM, EpType.FI_EP_UNSPEC):
        with refused(Errno.FI_EINVAL):
            two_models.passive_ep(Info(ep_attr=EpAttr(type=ep_type)))
    passive = keep(two_models.passive_ep(MSG))
    with open_cluster(["model"]) as other, other.eq_open() as foreign, refused(Errno.FI_EINVAL):
        passive.bind(foreign)
    passive.bind(server.events)
    with refused(Errno.FI_EINVAL):
        passive.bind(server.events)
    with refused(Errno.FI_ENOPROTOOPT):
        passive.getopt(OptionLevel.FI_OPT_ENDPOINT, EndpointOption.FI_OPT_TX_SIZE)
    passive.close()
    for call in (
        passive.listen,
        passive.getname,
        lambda: passive.reject(None),
        lambda: passive.getopt(*CM_DATA_SIZE),
    ):
        with refused(Errno.FI_EBADF):
            call()


def test_a_connected_endpoint_is_bound_to_an_event_queue_and_to_no_vector(two_models, keep, client):
    endpoint = keep(client.domain.endpoint(EpType.FI_EP_MSG))
    with refused(Errno.FI_EINVAL):
        endpoint.bind(keep(client.domain.av_open()))
    with open_cluster(["model"]) as other, other.eq_open() as foreign, refused(Errno.FI_EINVAL):
        endpoint.bind(foreign)
    endpoint.bind(client.queue)
    with refused(Errno.FI_ENOEQ):
        endpoint.enable()
    endpoint.bind(client.events)
    with refused(Errno.FI_EINVAL):
        endpoint.bind(client.events)
    endpoint.enable()
    with refused(Errno.FI_EOPBADSTATE):
        endpoint.bind(keep(two_models.eq_open()))
    with refused(Errno.FI_EINVAL):
        client.domain.endpoint(EpType.FI_EP_RDM, eq=client.events)
    with refused(Errno.FI_EINVAL):
        client.domain.endpoint(Info(ep_attr=EpAttr(type=EpType.FI_EP_MSG), handle=b"request"))
    with refused(Errno.FI_ENOPROTOOPT):
        keep(client.domain.endpoint()).getopt(*CM_DATA_SIZE)
    with refused(Errno.FI_EOPNOTSUPP):
        endpoint.setopt(*CM_DATA_SIZE, 2048)


# Strangers


def test_strangers_keep_nobody_from_connecting(client, server, passive):
    protocol = "amoeba-connection-1"
    with contextlib.ExitStack() as strangers:
        for words in (
            b"GET / HTTP/1.1\r\n\r\n",
            b"[" * 100_000 + b"\n",
            b"7\n",
            b"x" * 2_000_000,
            b"",
            json.dumps(["amoeba-connection-0", "request", "00" * 18, ""]).encode() + b"\n",
            json.dumps([protocol, "request", "00", ""]).encode() + b"\n",
            json.dumps([protocol, "request", "not hexadecimal", ""]).encode() + b"\n",
            json.dumps([protocol, "ready", "", ""]).encode() + b"\n",
            json.dumps([protocol, "greeting", "", ""]).encode() + b"\n",
        ):
            stranger = strangers.enter_context(contextlib.closing(socket.create_connection(passive.getname())))
            stranger.setblocking(False)
            with contextlib.suppress(OSError):
                stranger.send(words)
        for _ in range(20):
            assert server.events.sread(0.01) is None
        connect(client, server, passive)


def test_a_caller_that_never_confirms_is_given_up_in_time(server, passive, monkeypatch):
    monkeypatch.setattr(connections, "CONNECT_TIME", 0.05)
    name = EndpointAddress(bytes([2, 0, 0, 0, 0, 9]), 0x0A00_0009, 1, 1, 0).pack()
    request = json.dumps(["amoeba-connection-1", "request", name.hex(), ""]).encode() + b"\n"
    with contextlib.closing(socket.create_connection(passive.getname())) as caller:
        caller.sendall(request)
        accepting = server.endpoint(server.event(EqEvent.FI_CONNREQ).info)
        accepting.accept()
        error = server.error()
        assert (error.fid, error.err) == (accepting, Errno.FI_ETIMEDOUT)
        with refused(Errno.FI_EOPBADSTATE):
            accepting.accept()


def test_a_stranger_who_says_nothing_is_shown_out(server, passive, monkeypatch):
    monkeypatch.setattr(passive._listener, "patience", 0.05)
    with contextlib.closing(socket.create_connection(passive.getname())) as stranger:
        assert server.events.sread(0.3) is None
        stranger.settimeout(30)
        assert stranger.recv(1) == b""


@pytest.mark.parametrize(
    "words",
    [
        b"220 mail.example ESMTP\r\n",
        json.dumps(["amoeba-connection-1", "ready", "", ""]).encode() + b"\n",
        json.dumps(["amoeba-connection-1", "accept", "00", ""]).encode() + b"\n",
        json.dumps(["amoeba-connection-2", "accept", "00" * 18, ""]).encode() + b"\n",
        b"",
    ],
)
def test_a_server_of_another_kind_refuses(client, words):
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listening:
        client.endpoint().connect(listening.getsockname())
        accepted, _ = listening.accept()
        with contextlib.closing(accepted):
            accepted.sendall(words)
        assert client.error().err is Errno.FI_ECONNREFUSED


def test_a_peer_that_speaks_after_the_connection_is_made_is_disconnected(client, server, passive, ends):
    calling, _ = ends
    calling._connection._lines.socket.sendall(b'"hello"\n')
    server.event(EqEvent.FI_SHUTDOWN)
