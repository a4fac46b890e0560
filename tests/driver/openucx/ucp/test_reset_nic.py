"""A NIC that is reset: endpoints fail, requests end, workers can be destroyed (ucp.h: ucp_err_handler_cb_t)."""

import amoeba.ucp as ucp
import pytest
from amoeba.nic.nic import Retransmission
from amoeba.openucx.ucp.adapter import open_adapters

from tests.driver.openucx.ucp.entities import Entity, finish, wait_for
from tests.driver.openucx.ucp.test_ep_close import Handler

QUICK = Retransmission(2000, 2)
"""A NIC that gives peers up soon."""
NO_DEVICE, TIMEOUT = ucp.UCS_ERR_NO_DEVICE, ucp.UCS_ERR_ENDPOINT_TIMEOUT


@pytest.fixture
def two():
    with open_adapters(("model",) * 2, retransmission=QUICK) as opened:
        yield opened


def test_requests_end_and_the_endpoint_fails(two):
    one, other = Entity(two[0]), Entity(two[1])
    handler = Handler()
    ep = one.connect(other, **handler.params())
    memory = bytearray(4096)
    mapped = ucp.ucp_mem_map(other.context, ucp.ucp_mem_map_params_t(address=memory, length=4096))
    key = ucp.ucp_ep_rkey_unpack(ep, ucp.ucp_rkey_pack(other.context, mapped)[0])
    assert finish(ucp.ucp_ep_flush_nbx(ep, ucp.ucp_request_param_t()), one, other) is ucp.UCS_OK
    data = bytearray(b"x" * 100)
    requests = [
        ucp.ucp_put_nbx(ep, data, 100, mapped.address, key, ucp.ucp_request_param_t()),
        ucp.ucp_tag_send_nbx(ep, bytearray(50_000), 50_000, 1, ucp.ucp_request_param_t()),
        ucp.ucp_ep_flush_nbx(ep, ucp.ucp_request_param_t()),
    ]
    two.nics[0].device.function_reset()
    wait_for(lambda: handler.heard, one)
    assert handler.heard == [("arg", ep, TIMEOUT)]
    for request in requests:
        if isinstance(request, ucp.UcsStatus):
            assert request in (ucp.UCS_OK, TIMEOUT)
        else:
            assert finish(request, one) in (NO_DEVICE, TIMEOUT)
    with pytest.raises(ucp.UcsError):
        ucp.ucp_put_nbx(ep, data, 100, mapped.address, key, ucp.ucp_request_param_t())


def test_receives_end(two):
    one, other = Entity(two[0]), Entity(two[1])
    one.connect(other)
    buffer = bytearray(8)
    request = ucp.ucp_tag_recv_nbx(one.worker, buffer, 8, 1, 0xFF, ucp.ucp_request_param_t())
    two.nics[0].device.function_reset()
    assert finish(request, one) is NO_DEVICE
