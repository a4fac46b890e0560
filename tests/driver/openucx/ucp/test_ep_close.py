"""How endpoints are closed: with all that was sent delivered, or at once; and what the other end hears.

Covers ``openucx/ucp/calls/endpoints.py``.
"""

import amoeba.ucp as ucp
import numpy as np
import pytest
from amoeba.nic.nic import Retransmission
from amoeba.openucx.ucp.adapter import open_adapters

from tests.driver.openucx.ucp.entities import Entity, finish, wait_for

PEER = ucp.UCP_ERR_HANDLING_MODE_PEER
FORCE = ucp.ucp_request_param_t(flags=ucp.UCP_EP_CLOSE_FLAG_FORCE)


class Handler:
    """An error handler, and what it has heard."""

    def __init__(self):
        self.heard = []

    def __call__(self, arg, ep, status):
        self.heard.append((arg, ep, status))

    @property
    def statuses(self):
        return [status for _, _, status in self.heard]

    def params(self, **more):
        return {"err_mode": PEER, "err_handler": ucp.ucp_err_handler_t(self, "arg"), **more}


def watched_pair(adapters):
    """Entities that are connected both ways, each with an error handler."""
    entities = [Entity(adapter) for adapter in adapters]
    handlers = [Handler(), Handler()]
    for entity, other, handler in zip(entities, entities[::-1], handlers, strict=True):
        entity.connect(other, **handler.params())
    return *entities, *handlers


def receive_stream(entity, length):
    """Make progress until so many bytes have come."""
    got = bytearray()

    def more():
        found = ucp.ucp_stream_recv_data_nb(entity.ep)
        if found is not None:
            got.extend(found)
            ucp.ucp_stream_data_release(entity.ep, found)
        return len(got) >= length

    return got, more


def test_a_flushing_close_delivers_what_was_sent_and_tells_the_other_end(adapters):
    sender, receiver, _, handler = watched_pair(adapters)
    data = bytes(range(256)) * 40
    for start in range(0, len(data), 1024):
        ucp.ucp_stream_send_nbx(sender.ep, bytearray(data[start : start + 1024]), 1024, None)
    request = ucp.ucp_ep_close_nb(sender.ep, ucp.UCP_EP_CLOSE_MODE_FLUSH)
    assert finish(request, sender, receiver) is ucp.UCS_OK
    wait_for(lambda: handler.heard, sender, receiver)
    assert handler.heard == [("arg", receiver.ep, ucp.UCS_ERR_CONNECTION_RESET)]
    with pytest.raises(ucp.UcsConnectionResetError):
        ucp.ucp_stream_send_nbx(receiver.ep, b"more", 4, None)


def test_the_second_close_finds_nothing_connected_and_other_calls_nothing_at_all(models):
    entity = Entity(models[0])
    ep = entity.connect(Entity(models[1]))
    assert ucp.ucp_ep_close_nb(ep, ucp.UCP_EP_CLOSE_MODE_FLUSH) is None
    with pytest.raises(ucp.UcsNotConnectedError):
        ucp.ucp_ep_close_nb(ep, ucp.UCP_EP_CLOSE_MODE_FLUSH)
    with pytest.raises(ucp.UcsNotConnectedError):
        ucp.ucp_ep_close_nbx(ep, None)
    with pytest.raises(ucp.UcsInvalidParamError):
        ucp.ucp_ep_print_info(ep)


def test_closing_by_force_needs_an_endpoint_that_expects_failing_peers(models):
    entity, other = Entity(models[0]), Entity(models[1])
    ep = entity.connect(other)
    with pytest.raises(ucp.UcsInvalidParamError, match="ERR_HANDLING_MODE_PEER"):
        ucp.ucp_ep_close_nbx(ep, FORCE)
    with pytest.raises(ucp.UcsInvalidParamError):
        ucp.ucp_ep_close_nb(ep, ucp.UCP_EP_CLOSE_MODE_FORCE)
    with pytest.raises(ucp.UcsInvalidParamError, match="mode"):
        ucp.ucp_ep_close_nb(ep, 2)
    assert not ep.closed


@pytest.mark.full_build
@pytest.mark.parametrize("immediate", [True, False])
def test_a_forced_close_ends_every_request_at_once_and_nothing_is_touched_afterwards(adapters, immediate):
    sender, receiver = Entity(adapters[0]), Entity(adapters[1])
    handler = Handler()
    ep = sender.connect(receiver, **handler.params())
    target = np.zeros(1 << 16, np.uint8)
    memory = ucp.ucp_mem_map(receiver.context, ucp.ucp_mem_map_params_t(address=target, length=target.nbytes))
    rkey = ucp.ucp_ep_rkey_unpack(ep, ucp.ucp_rkey_pack(receiver.context, memory)[0])
    results = [np.full(4096, 7, np.uint8) for _ in range(400)]
    ended = {}

    def done(request, status, user_data):
        ended[user_data] = status

    requests = [
        ucp.ucp_get_nbx(
            ep, result, 4096, target.ctypes.data, rkey, ucp.ucp_request_param_t(cb=done, user_data=number)
        )
        for number, result in enumerate(results)
    ]
    wait_for(lambda: ended, sender)  # the first answers have come, others are on their way
    params = ucp.ucp_request_param_t(flags=ucp.UCP_EP_CLOSE_FLAG_FORCE, cb=done, user_data="close")
    if not immediate:
        params.op_attr_mask = (
            ucp.UCP_OP_ATTR_FIELD_FLAGS
            | ucp.UCP_OP_ATTR_FIELD_CALLBACK
            | ucp.UCP_OP_ATTR_FIELD_USER_DATA
            | ucp.UCP_OP_ATTR_FLAG_NO_IMM_CMPL
        )
    before = len(ended)
    closing = ucp.ucp_ep_close_nbx(ep, params)
    assert (closing is not None) is ("close" in ended) is not immediate
    assert [ended[number] for number in range(before)] == [ucp.UCS_OK] * before
    assert [ended[number] for number in range(before, 400)] == [ucp.UCS_ERR_CANCELED] * (400 - before)
    assert before < 300
    assert all(request.done for request in requests)
    for result in results:
        result[:] = 9
    for _ in range(300):
        sender.progress()
        receiver.progress()
    assert all((result == 9).all() for result in results)
    assert handler.heard == []
    assert sender.worker.rings.outstanding == 0
    ucp.ucp_mem_unmap(receiver.context, memory)


def test_a_close_completes_with_a_callback(adapters):
    # UCX: test_ucp_wireup close_nbx_callback
    sender, receiver, _, _ = watched_pair(adapters)
    told = []
    params = ucp.ucp_request_param_t(cb=lambda request, status, data: told.append((status, data)), user_data=5)
    ucp.ucp_stream_send_nbx(sender.ep, b"data", 4, None)
    request = ucp.ucp_ep_close_nbx(sender.ep, params)
    assert request is not None
    assert finish(request, sender, receiver) is ucp.UCS_OK
    assert told == [(ucp.UCS_OK, 5)]


def test_both_ends_may_be_closed_at_the_same_time(adapters):
    sender, receiver, one, other = watched_pair(adapters)
    requests = [ucp.ucp_ep_close_nb(each.ep, ucp.UCP_EP_CLOSE_MODE_FLUSH) for each in (sender, receiver)]
    assert [finish(request, sender, receiver) for request in requests] == [ucp.UCS_OK] * 2
    assert one.heard == other.heard == []
    assert sender.worker.wireup.malformed == receiver.worker.wireup.malformed == 0


def test_a_closed_endpoint_can_be_made_again(adapters):
    # UCX: disconnect_reconnect
    sender, receiver, _, _ = watched_pair(adapters)
    for number in range(3):
        requests = [ucp.ucp_ep_close_nb(each.ep, ucp.UCP_EP_CLOSE_MODE_FLUSH) for each in (sender, receiver)]
        for request in requests:
            finish(request, sender, receiver)
        sender.ep = receiver.ep = None
        sender.connect(receiver)
        receiver.connect(sender)
        data = b"round %d" % number
        finish(ucp.ucp_stream_send_nbx(sender.ep, data, len(data), None), sender, receiver)
        got, more = receive_stream(receiver, len(data))
        wait_for(more, sender, receiver)
        assert got == data


def test_an_endpoint_that_only_the_other_end_has_made_vanishes_with_its_peer(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    ep = sender.connect(receiver)
    ucp.ucp_stream_send_nbx(ep, b"data", 4, None)
    wait_for(lambda: receiver.worker.endpoints, sender, receiver)
    finish(ucp.ucp_ep_close_nb(ep, ucp.UCP_EP_CLOSE_MODE_FLUSH), sender, receiver)
    wait_for(lambda: not receiver.worker.endpoints, sender, receiver)
    sender.ep = None
    sender.connect(receiver)
    receiver.connect(sender)
    finish(ucp.ucp_stream_send_nbx(sender.ep, b"again", 5, None), sender, receiver)
    got, more = receive_stream(receiver, 5)
    wait_for(more, sender, receiver)
    assert got == b"again"


def test_closing_releases_every_entry_of_the_peer_table(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    free = len(models.nics[0].peers.free)
    for _ in range(3):
        ep = sender.connect(receiver, err_mode=PEER)
        finish(ucp.ucp_stream_send_nbx(ep, b"data", 4, None), sender, receiver)
        finish(ucp.ucp_ep_close_nb(ep, ucp.UCP_EP_CLOSE_MODE_FLUSH), sender, receiver)
        wait_for(lambda: len(models.nics[0].peers.free) == free, sender, receiver)
    assert not sender.worker.lanes
    assert not sender.worker.endpoints


def test_a_flushing_close_to_a_peer_that_dies_ends_with_its_failure():
    with open_adapters(retransmission=Retransmission(2000, 2)) as models:
        sender, _, handler, _ = watched_pair(models)
        models.network.cut(models.nics[1].device)
        sent = [ucp.ucp_stream_send_nbx(sender.ep, bytearray(1000), 1000, None) for _ in range(100)]
        request = ucp.ucp_ep_close_nb(sender.ep, ucp.UCP_EP_CLOSE_MODE_FLUSH)
        assert finish(request, sender) is ucp.UCS_ERR_ENDPOINT_TIMEOUT
        assert {each.code for each in sent if each is not None} == {ucp.UCS_ERR_ENDPOINT_TIMEOUT}
        assert handler.heard == []


@pytest.mark.parametrize("close", [ucp.ucp_ep_destroy, ucp.ucp_disconnect_nb])
def test_the_older_calls_close_as_well(models, close):
    sender, receiver, _, handler = watched_pair(models)
    request = close(sender.ep)
    if close is ucp.ucp_ep_destroy:
        assert request is None
    finish(request, sender, receiver)
    wait_for(lambda: handler.heard, sender, receiver)
    assert handler.statuses == [ucp.UCS_ERR_CONNECTION_RESET]


def test_a_long_message_that_is_given_up_ends_at_both_ends_and_its_memory_is_read_no_more(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    ep = sender.connect(receiver, err_mode=PEER)
    receiver.connect(sender)
    data = bytearray(b"x" * 100_000)
    sent = ucp.ucp_tag_send_nbx(ep, data, len(data), 1, None)
    for _ in range(100):
        sender.progress()
        receiver.progress()
    assert not sent.done
    assert ucp.ucp_ep_close_nbx(ep, FORCE) is None
    assert sent.code is ucp.UCS_ERR_CANCELED
    place = bytearray(len(data))
    received = ucp.ucp_tag_recv_nbx(receiver.worker, place, len(place), 1, 1, None)
    received = received[0] if isinstance(received, tuple) else received
    assert finish(received, sender, receiver) < 0
    assert not any(place)


def test_connecting_and_closing_again_and_again_leaves_nothing_behind(models):
    # UCX: stress_connect, connect_disconnect
    sender, receiver = Entity(models[0]), Entity(models[1])
    free = [len(nic.peers.free) for nic in models.nics]
    for number in range(60):
        ep = sender.connect(receiver, err_mode=PEER if number % 2 else ucp.UCP_ERR_HANDLING_MODE_NONE)
        back = receiver.connect(sender) if number % 3 else None
        ucp.ucp_stream_send_nbx(ep, b"data", 4, None)
        requests = [ucp.ucp_ep_close_nbx(ep, FORCE if number % 4 == 1 else None)]
        if back is not None:
            requests.append(ucp.ucp_ep_close_nbx(back, None))
        for request in requests:
            assert finish(request, sender, receiver) is ucp.UCS_OK
    for entity in (sender, receiver):
        for ep in list(entity.worker.endpoints.values()):
            finish(ucp.ucp_ep_close_nbx(ep, None), sender, receiver)
    wait_for(lambda: [len(nic.peers.free) for nic in models.nics] == free, sender, receiver)
    assert not sender.worker.lanes
    assert not receiver.worker.lanes
