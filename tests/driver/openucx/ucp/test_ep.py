"""Endpoints: how they are made, asked and changed; several to one worker, and more than a NIC has space for.

Covers ``openucx/ucp/endpoint.py``, ``openucx/ucp/lanes.py`` and ``openucx/ucp/idle_lanes.py``.
"""

import io

import amoeba.ucp as ucp
import pytest
from amoeba.openucx.ucp.adapter import open_adapters
from amoeba_model.parameters import NicParameters

from tests.driver.openucx.ucp.entities import Entity, finish, wait_for
from tests.driver.openucx.ucp.test_ep_close import PEER, Handler, receive_stream


def test_what_an_endpoint_is_made_with_is_checked_before_anything_is_made(models):
    entity, other = Entity(models[0]), Entity(models[1])
    for params in (
        {},
        {"address": b"nothing"},
        {"address": bytes(40)},
        {"address": other.address, "field_mask": 0},
        {"sockaddr": ("127.0.0.1", 1)},
        {"flags": ucp.UCP_EP_PARAMS_FLAGS_CLIENT_SERVER, "address": other.address},
    ):
        with pytest.raises(ucp.UcsInvalidParamError):
            ucp.ucp_ep_create(entity.worker, ucp.ucp_ep_params_t(**params))
    with pytest.raises(ucp.UcsInvalidParamError):
        ucp.ucp_ep_create(other, ucp.ucp_ep_params_t(address=other.address))
    assert not entity.worker.endpoints


def test_an_endpoint_needs_a_feature_that_it_could_be_used_for(models):
    entity = Entity(models[0], ucp.UCP_FEATURE_WAKEUP)
    with pytest.raises(ucp.UcsInvalidParamError, match="needs"):
        entity.connect(Entity(models[1]))


def test_an_endpoint_that_a_message_made_gets_what_the_application_gives_it_later(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    sender.connect(receiver, **Handler().params())
    wait_for(lambda: receiver.worker.endpoints, sender, receiver)
    (adopted,) = receiver.worker.endpoints.values()
    handler = Handler()
    ep = receiver.connect(sender, name="back", user_data="mine", **handler.params())
    assert ep is adopted
    finish(ucp.ucp_ep_close_nb(sender.ep, ucp.UCP_EP_CLOSE_MODE_FLUSH), sender, receiver)
    wait_for(lambda: handler.heard, sender, receiver)
    assert handler.heard == [("mine", ep, ucp.UCS_ERR_CONNECTION_RESET)]


def test_what_an_endpoint_tells_of_itself(models):
    entity, other = Entity(models[0]), Entity(models[1])
    ep = entity.connect(other, name="an endpoint with a very long name indeed")
    assert ucp.ucp_ep_query(ep, ucp.ucp_ep_attr_t()).name == "an endpoint with a very long na"
    for field in (ucp.UCP_EP_ATTR_FIELD_LOCAL_SOCKADDR, ucp.UCP_EP_ATTR_FIELD_REMOTE_SOCKADDR):
        with pytest.raises(ucp.UcsNotConnectedError):
            ucp.ucp_ep_query(ep, ucp.ucp_ep_attr_t(field_mask=field))
    text = io.StringIO()
    ucp.ucp_ep_print_info(ep, text)
    assert "an endpoint with" in text.getvalue()
    assert str(ep.remote) in text.getvalue()


def test_the_time_that_is_estimated_grows_by_the_same_for_every_byte(models):
    # UCX: test_ucp_ep ucp_query_ep
    entity = Entity(models[0])
    ep = entity.connect(entity)
    wanted = ucp.UCP_EP_PERF_ATTR_FIELD_ESTIMATED_TIME

    def estimate(size):
        param = ucp.ucp_ep_evaluate_perf_param_t(message_size=size)
        return ucp.ucp_ep_evaluate_perf(ep, param, ucp.ucp_ep_evaluate_perf_attr_t(field_mask=wanted)).estimated_time

    times = [estimate(size) for size in (0, 1000, 2000)]
    assert 0 <= times[0] < times[1] < times[2] < 10
    assert times[2] - times[1] == pytest.approx(times[1] - times[0])
    with pytest.raises(ucp.UcsInvalidParamError, match="message_size"):
        ucp.ucp_ep_evaluate_perf(ep, ucp.ucp_ep_evaluate_perf_param_t(), ucp.ucp_ep_evaluate_perf_attr_t())
    param = ucp.ucp_ep_evaluate_perf_param_t(message_size=1)
    with pytest.raises(ucp.UcsInvalidParamError, match="ESTIMATED_TIME"):
        ucp.ucp_ep_evaluate_perf(ep, param, ucp.ucp_ep_evaluate_perf_attr_t(field_mask=0))


def test_only_handler_and_user_data_can_be_changed(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    first, second = Handler(), Handler()
    ep = receiver.connect(sender, **first.params())
    sender.connect(receiver, **Handler().params())
    ucp.ucp_ep_modify_nb(ep, ucp.ucp_ep_params_t(err_handler=ucp.ucp_err_handler_t(second, 1), user_data=2))
    for params in ({"address": sender.address}, {"err_mode": PEER}, {"flags": 0}, {"name": "new"}):
        with pytest.raises(ucp.UcsInvalidParamError):
            ucp.ucp_ep_modify_nb(ep, ucp.ucp_ep_params_t(**params))
    finish(ucp.ucp_ep_close_nb(sender.ep, ucp.UCP_EP_CLOSE_MODE_FLUSH), sender, receiver)
    wait_for(lambda: second.heard, sender, receiver)
    assert first.heard == []
    assert second.heard == [(2, ep, ucp.UCS_ERR_CONNECTION_RESET)]


@pytest.mark.parametrize("two_sided", [False, True])
def test_several_endpoints_to_one_worker_have_streams_of_their_own(models, two_sided):
    # UCX: multi_ep_1sided, multi_ep_2sided
    sender, receiver = Entity(models[0]), Entity(models[1])
    eps = [sender.connect(receiver) for _ in range(5)]
    others = [receiver.connect(sender) for _ in range(5)] if two_sided else []
    for number, ep in enumerate(eps):
        data = b"stream %d" % number
        ucp.ucp_stream_send_nbx(ep, data, len(data), None)
    wait_for(lambda: len(receiver.worker.endpoints) == 5, sender, receiver)
    others = others or [receiver.connect(sender) for _ in range(5)]
    for number, ep in enumerate(others):
        receiver.ep = ep
        got, more = receive_stream(receiver, 8)
        wait_for(more, sender, receiver)
        assert got == b"stream %d" % number


def use_all_lanes(sender, receiver, eps, rounds):
    """Use every lane of every endpoint, again and again; what was received."""
    buffer = bytearray(8 * len(eps))
    memory = ucp.ucp_mem_map(
        receiver.context, ucp.ucp_mem_map_params_t(address=buffer, length=len(buffer))
    )
    packed = ucp.ucp_rkey_pack(receiver.context, memory)[0]
    keys = [ucp.ucp_ep_rkey_unpack(ep, packed) for ep in eps]
    start = ucp.ucp_mem_query(memory, ucp.ucp_mem_attr_t()).address
    texts = [bytearray(8) for _ in range(len(eps) * rounds)]
    receives = [ucp.ucp_tag_recv_nbx(receiver.worker, text, 8, 0, 0, None) for text in texts]
    requests = []
    for turn in range(rounds):
        for number, (ep, key) in enumerate(zip(eps, keys, strict=True)):
            data = (turn << 32 | number).to_bytes(8, "little")
            requests.append(ucp.ucp_put_nbx(ep, data, 8, start + 8 * number, key, None))
            requests.append(ucp.ucp_stream_send_nbx(ep, data, 8, None))
            requests.append(ucp.ucp_tag_send_nbx(ep, data, 8, turn, None))
    for request in requests:
        assert finish(request, sender, receiver) is ucp.UCS_OK
    finish(ucp.ucp_worker_flush_nbx(sender.worker, None), sender, receiver)
    for receive in receives:
        assert finish(receive, sender, receiver) is ucp.UCS_OK
    last = rounds - 1
    assert bytes(buffer) == b"".join((last << 32 | number).to_bytes(8, "little") for number in range(len(eps)))
    assert sorted(map(bytes, texts)) == sorted(
        (turn << 32 | number).to_bytes(8, "little") for turn in range(rounds) for number in range(len(eps))
    )
    for key in keys:
        ucp.ucp_rkey_destroy(key)
    ucp.ucp_mem_unmap(receiver.context, memory)


def test_a_hundred_endpoints_use_all_their_lanes_though_the_nics_have_no_space_for_them():
    parameters = NicParameters(peers=32, target_pdcs=32)
    with open_adapters(parameters=parameters) as models:
        sender, receiver = Entity(models[0]), Entity(models[1])
        eps = [sender.connect(receiver) for _ in range(100)]
        use_all_lanes(sender, receiver, eps, 2)
        for number, ep in enumerate(reversed([receiver.connect(sender) for _ in range(100)])):
            receiver.ep = ep
            got, more = receive_stream(receiver, 16)
            wait_for(more, sender, receiver)
            assert [int.from_bytes(got[at : at + 8], "little") & 0xFFFFFFFF for at in (0, 8)] == [99 - number] * 2


def test_the_lane_that_was_not_used_for_longest_is_closed_for_another():
    with open_adapters(parameters=NicParameters(peers=8, target_pdcs=64)) as models:
        sender, receiver = Entity(models[0]), Entity(models[1])
        eps = [sender.connect(receiver) for _ in range(7)]

        def use(ep):
            finish(ucp.ucp_stream_send_nbx(ep, b"12345678" * 20, 160, None), sender, receiver)

        for ep in eps[:6]:
            use(ep)
        for ep in (eps[1], eps[0], eps[3], eps[4], eps[5]):
            use(ep)
        open_before = set(sender.worker.peers.open)
        use(eps[6])
        closed = open_before - set(sender.worker.peers.open)
        assert closed == {eps[2].messages.number}
        use(eps[2])
        assert eps[2].messages.number in sender.worker.peers.open


def test_a_worker_that_is_destroyed_while_its_lanes_wait_for_space_wants_none_any_more():
    with open_adapters(parameters=NicParameters(peers=8)) as models:
        sender, receiver = Entity(models[0]), Entity(models[1])
        models.network.cut(models.nics[1].device)
        for _ in range(20):
            ucp.ucp_stream_send_nbx(sender.connect(receiver), bytearray(160), 160, None)
        assert models[0].shortage.waiting
        ucp.ucp_worker_destroy(sender.worker)
        assert not models[0].shortage.waiting


def test_workers_on_one_nic_give_each_other_space():
    with open_adapters(parameters=NicParameters(peers=8, contexts=8)) as models:
        first, second, receiver = Entity(models[0]), Entity(models[0]), Entity(models[1])
        for entity in (first, second, first):
            for _ in range(6):
                ep = entity.connect(receiver)
                request = ucp.ucp_stream_send_nbx(ep, b"12345678" * 20, 160, None)
                assert finish(request, first, second, receiver) is ucp.UCS_OK
