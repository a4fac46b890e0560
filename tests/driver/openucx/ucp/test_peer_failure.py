"""Peers that die: who is told, and how everything in flight ends (UCX: test_ucp_peer_failure).

Covers ``openucx/ucp/keepalive.py``.
"""

import time

import amoeba.ucp as ucp
import pytest
from amoeba.nic.nic import Retransmission
from amoeba.openucx.ucp.adapter import open_adapters

from tests.driver.openucx.ucp.entities import Entity, finish, wait_for
from tests.driver.openucx.ucp.test_ep_close import FORCE, Handler, receive_stream

QUICK = Retransmission(2000, 2)
"""A NIC that gives peers up soon."""
TIMEOUT = ucp.UCS_ERR_ENDPOINT_TIMEOUT


@pytest.fixture
def trio():
    with open_adapters(("model",) * 3, retransmission=QUICK) as opened:
        yield opened


def send(ep, data, **params):
    return ucp.ucp_stream_send_nbx(ep, data, len(data), ucp.ucp_request_param_t(**params))


@pytest.mark.parametrize("size", [8, 1000, 4096, 20000])
def test_a_peer_that_dies_fails_its_endpoint_and_no_other(trio, size):
    # UCX: basic, zcopy, bcopy_multi
    sender, dying, living = (Entity(adapter) for adapter in trio)
    handler, other = Handler(), Handler()
    bad = sender.connect(dying, **handler.params())
    good = sender.connect(living, **other.params())
    assert finish(send(bad, b"alive"), sender, dying) is ucp.UCS_OK
    trio.network.cut(trio.nics[1].device)
    requests = [send(bad, bytearray(size)) for _ in range(200)]
    wait_for(lambda: handler.heard, sender, living)
    assert handler.heard == [("arg", bad, TIMEOUT)]
    statuses = {finish(request, sender) for request in requests if request is not None}
    assert statuses <= {TIMEOUT}
    with pytest.raises(ucp.UcsEndpointTimeoutError):
        send(bad, b"more")
    assert finish(send(good, b"alive"), sender, living) is ucp.UCS_OK
    living.connect(sender)
    got, more = receive_stream(living, 5)
    wait_for(more, sender, living)
    assert got == b"alive"
    assert other.heard == []
    for _ in range(50):
        sender.progress()
    assert len(handler.heard) == 1


def test_what_waits_in_other_lanes_ends_with_the_same_status(trio):
    sender, dying = Entity(trio[0]), Entity(trio[1])
    handler = Handler()
    ep = sender.connect(dying, **handler.params())
    memory = bytearray(4096)
    mapped = ucp.ucp_mem_map(dying.context, ucp.ucp_mem_map_params_t(address=memory, length=4096))
    key = ucp.ucp_ep_rkey_unpack(ep, ucp.ucp_rkey_pack(dying.context, mapped)[0])
    start = ucp.ucp_mem_query(mapped, ucp.ucp_mem_attr_t()).address
    trio.network.cut(trio.nics[1].device)
    places = [bytearray(64) for _ in range(1000)]
    requests = [ucp.ucp_get_nbx(ep, place, 64, start, key, None) for place in places]
    requests += [send(ep, bytearray(512)) for _ in range(300)]
    wait_for(lambda: handler.heard, sender)
    assert {finish(request, sender) for request in requests} == {TIMEOUT}
    finish(ucp.ucp_ep_close_nbx(ep, FORCE), sender)
    wait_for(lambda: not sender.worker.lanes, sender)
    ucp.ucp_mem_unmap(dying.context, mapped)


def test_a_thousand_messages_wait_when_a_failed_endpoint_is_closed_by_force(trio):
    # UCX: force_close
    sender, dying = Entity(trio[0]), Entity(trio[1])
    ep = sender.connect(dying, **Handler().params())
    trio.network.cut(trio.nics[1].device)
    requests = [send(ep, bytearray(16384)) for _ in range(1000)]
    assert ucp.ucp_ep_close_nbx(ep, FORCE) is None
    assert {request.code for request in requests} == {ucp.UCS_ERR_CANCELED}
    assert not sender.worker.endpoints
    wait_for(lambda: not sender.worker.lanes, sender)


@pytest.mark.parametrize("close", ["force", "flush", "callback force"])
def test_an_endpoint_may_be_closed_inside_its_error_handler(trio, close):
    # UCX: test_ucp_sockaddr destroy_ep_on_err
    sender, dying = Entity(trio[0]), Entity(trio[1])
    heard = []

    def failed(arg, ep, status):
        heard.append(status)
        if close == "flush":
            heard.append(ucp.ucp_ep_close_nbx(ep, None))
        else:
            heard.append(ucp.ucp_ep_close_nbx(ep, FORCE))

    ep = sender.connect(dying, err_mode=ucp.UCP_ERR_HANDLING_MODE_PEER, err_handler=ucp.ucp_err_handler_t(failed))
    trio.network.cut(trio.nics[1].device)
    requests = [send(ep, bytearray(512)) for _ in range(100)]
    wait_for(lambda: heard, sender)
    assert heard[0] is TIMEOUT
    assert finish(heard[1], sender) is ucp.UCS_OK
    assert all(request.done for request in requests if request is not None)
    assert ep.closed


def test_what_an_error_handler_raises_comes_out_of_progress_once(trio):
    sender, dying = Entity(trio[0]), Entity(trio[1])

    def failed(arg, ep, status):
        raise ZeroDivisionError

    ep = sender.connect(dying, err_mode=ucp.UCP_ERR_HANDLING_MODE_PEER, err_handler=ucp.ucp_err_handler_t(failed))
    trio.network.cut(trio.nics[1].device)
    requests = [send(ep, bytearray(512)) for _ in range(100)]

    def raises():
        try:
            sender.progress()
        except ZeroDivisionError:
            return True
        return False

    deadline = time.monotonic() + 60
    while not raises():
        assert time.monotonic() < deadline
    wait_for(lambda: all(request.done for request in requests), sender)
    assert ep.failure is TIMEOUT


def test_a_silent_peer_that_nothing_is_sent_to_is_found_dead(trio):
    # UCX: kill_receiver
    config = ucp.ucp_config_read(None, None)
    ucp.ucp_config_modify(config, "KEEPALIVE_INTERVAL", "10ms")
    context = ucp.ucp_init(ucp.ucp_params_t(features=ucp.UCP_FEATURE_STREAM), config, adapter=trio[0])
    worker = ucp.ucp_worker_create(context, ucp.ucp_worker_params_t())
    dying, living = Entity(trio[1]), Entity(trio[2])
    handler, other = Handler(), Handler()
    bad, good = (
        ucp.ucp_ep_create(worker, ucp.ucp_ep_params_t(address=entity.address, **each.params()))
        for entity, each in ((dying, handler), (living, other))
    )
    deadline = time.monotonic() + 0.1
    while time.monotonic() < deadline:
        ucp.ucp_worker_progress(worker)
    assert handler.heard == []
    trio.network.cut(trio.nics[1].device)
    deadline = time.monotonic() + 60
    while not handler.heard:
        ucp.ucp_worker_progress(worker)
        assert time.monotonic() < deadline
    assert handler.heard == [("arg", bad, TIMEOUT)]
    assert other.heard == []
    assert good.failure is None


def test_an_endpoint_without_a_handler_fails_in_silence(trio):
    sender, dying = Entity(trio[0]), Entity(trio[1])
    ep = sender.connect(dying)
    trio.network.cut(trio.nics[1].device)
    assert finish(send(ep, bytearray(512)), sender) is TIMEOUT
    with pytest.raises(ucp.UcsEndpointTimeoutError):
        send(ep, b"more")
    finish(ucp.ucp_ep_close_nb(ep, ucp.UCP_EP_CLOSE_MODE_FLUSH), sender)


def test_a_worker_that_takes_the_place_of_another_resets_what_went_there(models):
    sender = Entity(models[0])
    former = Entity(models[1])
    handler = Handler()
    ep = sender.connect(former, **handler.params())
    back = former.connect(sender)
    assert finish(send(back, b"hello"), former, sender) is ucp.UCS_OK
    wait_for(lambda: sender.worker.wireup._remotes, sender)
    for endpoint in list(former.worker.endpoints.values()):
        endpoint.wired = endpoint._known = False  # it dies without a word
    former.context.close()
    later = Entity(models[1])
    while later.worker.address.source != ep.remote.source:  # the context unused for longest is taken first
        later.context.close()
        later = Entity(models[1])
    other = later.connect(sender)
    send(other, b"hello")
    wait_for(lambda: handler.heard, sender, later)
    assert handler.statuses == [ucp.UCS_ERR_CONNECTION_RESET]
