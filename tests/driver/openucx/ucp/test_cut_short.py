"""Workers that are destroyed in the middle of operations, on a busy machine: the NIC touches no buffer then."""

import amoeba.ucp as ucp
import pytest
from amoeba import Retransmission

from tests.driver.openucx.ucp.entities import Entity
from tests.driver.openucx.ucp.test_forced_close import ALL_OR_SOME, CANCELED, moving, posted


@pytest.mark.parametrize("rounds", [0, 2, 7, 9])
@ALL_OR_SOME
def test_a3_a_worker_that_is_destroyed_in_the_middle_of_operations(sender, receiver, kind, rounds, monkeypatch):
    monkeypatch.setattr("amoeba.transport.context.DRAIN_TIME", 0.0)
    monkeypatch.setattr("amoeba.transport.context.DRAIN_ROUNDS", rounds)
    operations = posted(sender, receiver, kind)
    flushed = ucp.ucp_ep_flush_nbx(operations.ep, operations.hears("flush"))
    moving(operations, receiver)
    ucp.ucp_worker_destroy(sender.worker)
    assert flushed.code is CANCELED
    assert all(request.done for request in operations.requests)
    operations.sender = receiver
    operations.poison()


def test_a3_no_copy_of_a_message_is_read_when_its_worker_is_destroyed(models, monkeypatch):
    monkeypatch.setattr("amoeba.transport.context.DRAIN_TIME", 0.0)
    sender, receiver = Entity(models[0]), Entity(models[1])
    nic = models[0].nic
    nic.retransmission = Retransmission(timeout=1 << 16, limit=255)
    ep = sender.connect(receiver)
    models.network.cut(models.nics[1].device)
    assert ucp.ucp_tag_send_nbx(ep, bytes(1000), 1000, 1, None) is None  # copied
    ucp.ucp_worker_destroy(sender.worker)
    assert nic.contexts.retired == []
    models.network.restore(models.nics[1].device)
