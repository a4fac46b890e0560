"""Workers: what becomes of everything when one is destroyed, and how it makes progress (UCX: test_ucp_worker).

Covers ``openucx/ucp/objects.py``, ``openucx/ucp/worker_base.py`` and ``openucx/ucp/calls/workers.py``.
"""

import gc
import warnings
import weakref

import amoeba.ucp as ucp
import numpy as np
import pytest
from amoeba.nic.nic import Retransmission
from amoeba.openucx.ucp.adapter import open_adapters

from tests.driver.openucx.ucp.entities import Entity, finish, wait_for
from tests.driver.openucx.ucp.test_ep_close import PEER, Handler

CANCELED = ucp.UCS_ERR_CANCELED


def test_destroying_a_worker_ends_all_its_requests_with_callbacks(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    ep = sender.connect(receiver, **Handler().params())
    closing = sender.connect(receiver)
    memory = bytearray(64)
    mapped = ucp.ucp_mem_map(receiver.context, ucp.ucp_mem_map_params_t(address=memory, length=64))
    key = ucp.ucp_ep_rkey_unpack(ep, ucp.ucp_rkey_pack(receiver.context, mapped)[0])
    start = ucp.ucp_mem_query(mapped, ucp.ucp_mem_attr_t()).address
    models.network.cut(models.nics[1].device)
    told = {}

    def params(name, **more):
        return ucp.ucp_request_param_t(
            cb=lambda request, status, *rest: told.setdefault(name, []).append(status), **more
        )

    places = [bytearray(64) for _ in range(600)]
    requests = [ucp.ucp_get_nbx(ep, place, 64, start, key, params(("get", n))) for n, place in enumerate(places)]
    for number in range(100):
        requests.append(ucp.ucp_stream_send_nbx(ep, bytearray(4096), 4096, params(("send", number))))
    requests.append(ucp.ucp_stream_recv_nbx(ep, bytearray(8), 8, params("receive"))[0])
    requests.append(ucp.ucp_am_send_nbx(ep, 1, None, 0, bytearray(100000), 100000, params("long")))
    requests.append(ucp.ucp_ep_flush_nbx(ep, params("flush")))
    requests.append(ucp.ucp_tag_recv_nbx(sender.worker, bytearray(8), 8, 1, 1, params("tagged")))
    requests.append(ucp.ucp_tag_send_nbx(ep, bytearray(100000), 100000, 1, params("tagged send")))
    requests.append(ucp.ucp_tag_send_sync_nbx(ep, bytearray(8), 8, 1, params("synchronous")))
    ucp.ucp_stream_send_nbx(closing, bytearray(512), 512, None)
    requests.append(ucp.ucp_ep_close_nbx(closing, params("close")))
    ucp.ucp_worker_destroy(sender.worker)
    assert all(request.done for request in requests)
    assert len(told) == len(requests)
    assert {tuple(statuses) for statuses in told.values()} == {(CANCELED,)}
    with pytest.raises(ucp.UcsInvalidParamError):
        ucp.ucp_worker_progress(sender.worker)
    ucp.ucp_mem_unmap(receiver.context, mapped)
    sender.context.close()


def test_what_the_nic_had_already_when_its_worker_is_destroyed_arrives_and_peers_are_told(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    sender.connect(receiver, err_mode=PEER)
    handler = Handler()
    receiver.connect(sender, **handler.params())
    got = []

    def take(arg, header, header_length, data, length, param):
        got.append(bytes(data))
        return ucp.UCS_OK

    ucp.ucp_worker_set_am_recv_handler(receiver.worker, ucp.ucp_am_handler_param_t(id=1, cb=take))
    ucp.ucp_am_send_nbx(sender.ep, 1, None, 0, b"last words", 10, None)
    ucp.ucp_worker_destroy(sender.worker)
    wait_for(lambda: handler.heard, receiver)
    assert got == [b"last words"]
    assert handler.heard == [("arg", receiver.ep, ucp.UCS_ERR_CONNECTION_RESET)]


def test_a_worker_cannot_be_destroyed_nor_make_progress_inside_its_callbacks(models):
    entity = Entity(models[0])
    ep = entity.connect(entity)
    raised = []

    def done(request, status, user_data):
        for call in (ucp.ucp_worker_destroy, ucp.ucp_worker_progress):
            try:
                call(entity.worker)
            except ucp.UcsInvalidParamError as error:
                raised.append(error)

    finish(ucp.ucp_stream_send_nbx(ep, bytearray(4096), 4096, ucp.ucp_request_param_t(cb=done)), entity)
    assert len(raised) == 2
    ucp.ucp_worker_destroy(entity.worker)


def test_what_callbacks_raise_does_not_keep_a_worker_from_being_destroyed(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    ep = sender.connect(receiver)
    models.network.cut(models.nics[1].device)
    told = []

    def done(request, status, user_data):
        told.append(status)
        raise ZeroDivisionError(user_data)

    for number in range(300):
        params = ucp.ucp_request_param_t(cb=done, user_data=number)
        ucp.ucp_stream_send_nbx(ep, bytearray(4096), 4096, params)
    with pytest.raises(ZeroDivisionError, match=r"^0$"):
        ucp.ucp_worker_destroy(sender.worker)
    assert told == [CANCELED] * 300
    assert sender.worker.closed


def test_a_destroyed_worker_releases_everything():
    with open_adapters(retransmission=Retransmission(2000, 1)) as models:
        nic = models.nics[0]
        sender, receiver = Entity(models[0]), Entity(models[1])
        sender.context.close()
        before = len(nic.peers.free), len(nic.domains.free)
        for _ in range(5):
            sender = Entity(models[0])
            ep = sender.connect(receiver)
            finish(ucp.ucp_stream_send_nbx(ep, b"data", 4, None), sender, receiver)
            sender.context.close()
        assert (len(nic.peers.free), len(nic.domains.free)) == before


def test_many_operations_of_one_endpoint_do_not_hold_up_anothers(models):
    # nobody takes the stream's bytes: its lane waits
    sender, receiver = Entity(models[0]), Entity(models[1])
    one, other = (sender.connect(receiver) for _ in range(2))
    stuck = [ucp.ucp_stream_send_nbx(one, bytearray(4096), 4096, None) for _ in range(3000)]
    assert finish(ucp.ucp_stream_send_nbx(other, bytearray(4096), 4096, None), sender, receiver) is ucp.UCS_OK
    assert not all(request.done for request in stuck)
    sender.context.close()
    assert {request.code for request in stuck} <= {ucp.UCS_OK, CANCELED}


def test_what_a_program_forgets_ends_with_what_it_was_made_from():
    """The worker refers to itself, so that the collector would end it, in the middle of any work of its NIC."""
    models = open_adapters()
    entity = Entity(models[0])
    entity.connect(entity)
    memory = np.zeros(8, np.uint8)
    ucp.ucp_mem_map(entity.context, ucp.ucp_mem_map_params_t(address=memory, length=8))
    made = [weakref.ref(each) for each in (entity.context, entity.worker, entity.ep)]
    free = len(models[0].nic.contexts.free)
    del entity
    with warnings.catch_warnings(record=True) as told:
        gc.collect()
    assert not told
    assert all(each() is not None and not each().closed for each in made)
    assert len(models[0].nic.contexts.free) == free
    models.close()
    assert all(each() is None or each().closed for each in made)
