"""Requests: what can be asked of them, and memory of the application's (UCX: test_ucp_request).

Covers ``openucx/ucp/calls/requests.py``.
"""

import ctypes

import amoeba.ucp as ucp
import pytest

from tests.driver.openucx.ucp.entities import ALL_FEATURES, Entity, finish, wait_for

NO_IMMEDIATE = ucp.UCP_OP_ATTR_FLAG_NO_IMM_CMPL


def posted(entity, **params):
    """(buffer, request) of a receive that ends when somebody sends to the entity's endpoint."""
    place = bytearray(8)
    request, _ = ucp.ucp_stream_recv_nbx(entity.ep, place, 8, ucp.ucp_request_param_t(**params))
    return place, request


def test_a_request_tells_what_it_is_and_how_it_stands(pair):
    # UCX: test_request_query
    sender, receiver = pair
    _, request = posted(receiver)
    assert ucp.ucp_request_check_status(request) is ucp.UCS_INPROGRESS
    assert ucp.ucp_request_is_completed(request) is False
    attr = ucp.ucp_request_query(request, ucp.ucp_request_attr_t())
    assert (attr.status, attr.mem_type) == (ucp.UCS_INPROGRESS, ucp.UCS_MEMORY_TYPE_HOST)
    assert "host" in attr.debug_string
    short = ucp.ucp_request_attr_t(
        field_mask=ucp.UCP_REQUEST_ATTR_FIELD_INFO_STRING | ucp.UCP_REQUEST_ATTR_FIELD_INFO_STRING_SIZE,
        debug_string_size=6,
    )
    assert ucp.ucp_request_query(request, short).debug_string == attr.debug_string[:5]
    ucp.ucp_stream_send_nbx(sender.ep, b"12345678", 8, None)
    assert finish(request, sender, receiver) is ucp.UCS_OK
    assert ucp.ucp_request_check_status(request) is ucp.UCS_OK
    assert ucp.ucp_request_is_completed(request) is True
    ucp.ucp_request_free(request)
    for call in (ucp.ucp_request_check_status, ucp.ucp_request_free, ucp.ucp_request_is_completed):
        with pytest.raises(ucp.UcsInvalidParamError):
            call(request)
    with pytest.raises(ucp.UcsInvalidParamError):
        ucp.ucp_request_query(request, ucp.ucp_request_attr_t())


@pytest.mark.parametrize("other", [None, 5, "request", object()])
def test_what_is_no_request_is_refused(other):
    for call in (ucp.ucp_request_check_status, ucp.ucp_request_free, ucp.ucp_request_release):
        with pytest.raises(ucp.UcsInvalidParamError):
            call(other)


def test_a_request_that_is_freed_ends_without_its_callback_and_one_that_is_released_with_it(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    sender.connect(receiver)
    receiver.connect(sender)
    told = []
    places = []
    for number, give_up in enumerate((ucp.ucp_request_free, ucp.ucp_request_release)):
        place, request = posted(receiver, cb=lambda *all: told.append(all[-1]), user_data=number)
        places.append(place)
        give_up(request)
    ucp.ucp_stream_send_nbx(sender.ep, b"12345678abcdefgh", 16, None)
    wait_for(lambda: told, sender, receiver)
    assert told == [1]
    assert [bytes(place) for place in places] == [b"12345678", b"abcdefgh"]


def test_what_cannot_be_cancelled_goes_on(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    sender.connect(receiver)
    receiver.connect(sender)
    place, request = posted(receiver)
    ucp.ucp_request_cancel(receiver.worker, request)
    assert request.code is ucp.UCS_INPROGRESS
    ucp.ucp_stream_send_nbx(sender.ep, b"12345678", 8, None)
    assert finish(request, sender, receiver) is ucp.UCS_OK
    assert place == b"12345678"


class Prepared:
    """Callbacks that prepare request memory, and give it up."""

    def __init__(self):
        self.inits, self.cleanups = [], []

    def params(self):
        return ucp.ucp_params_t(
            features=ALL_FEATURES, request_size=16, request_init=self.init, request_cleanup=self.cleanups.append
        )

    def init(self, memory):
        memory.area[:] = b"prepared" + bytes(8)
        self.inits.append(memory)


def prepared_pair(models):
    prepared = Prepared()
    sender = Entity(models[0])
    receiver = Entity(models[1])
    receiver.context.close()
    receiver.context = ucp.ucp_init(prepared.params(), adapter=models[1])
    receiver.worker = ucp.ucp_worker_create(receiver.context, ucp.ucp_worker_params_t())
    sender.connect(receiver)
    receiver.connect(sender)
    return sender, receiver, prepared


def test_request_memory_is_prepared_once_used_often_and_given_up_with_the_worker(models):
    sender, receiver, prepared = prepared_pair(models)
    for number in range(5):
        heard = []
        _, request = posted(receiver, cb=lambda *all, heard=heard: heard.append(all[0]))
        assert request.area[:8] == b"prepared"
        request.area[8] += 1
        assert request.area[8] == number + 1
        ucp.ucp_stream_send_nbx(sender.ep, b"12345678", 8, None)
        assert finish(request, sender, receiver) is ucp.UCS_OK
        assert heard == [request]
        assert ucp.ucp_request_check_status(request) is ucp.UCS_OK
        ucp.ucp_request_free(request)
    assert prepared.inits == [request]
    assert prepared.cleanups == []
    ucp.ucp_worker_destroy(receiver.worker)
    assert prepared.cleanups == [request]


def test_an_application_uses_its_own_memory_for_one_operation_after_the_other(models):
    # UCX: test_ucp_tag external_request_free
    sender, receiver, prepared = prepared_pair(models)
    own = ucp.ucp_request_alloc(receiver.worker)
    assert prepared.inits == [own]
    for _ in range(3):
        _, request = posted(receiver, request=own)
        assert request is own
        with pytest.raises(ucp.UcsInvalidParamError, match="not ended"):
            posted(receiver, request=own)
        ucp.ucp_stream_send_nbx(sender.ep, b"12345678", 8, None)
        assert finish(own, sender, receiver) is ucp.UCS_OK
        ucp.ucp_request_free(own)
    for wrong in (5, bytearray(64), ctypes.c_int(5)):
        with pytest.raises(ucp.UcsInvalidParamError, match="ucp_request_alloc"):
            posted(receiver, request=wrong)


def test_a_close_uses_the_memory_that_it_is_given(models):
    entity, other = Entity(models[0]), Entity(models[1])
    ep = entity.connect(other)
    own = ucp.ucp_request_alloc(entity.worker)
    mask = ucp.UCP_OP_ATTR_FIELD_REQUEST | NO_IMMEDIATE
    assert ucp.ucp_ep_close_nbx(ep, ucp.ucp_request_param_t(op_attr_mask=mask, request=own)) is own
    assert finish(own, entity, other) is ucp.UCS_OK
