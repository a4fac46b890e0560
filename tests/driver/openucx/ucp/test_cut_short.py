"""Workers that are destroyed in the middle of operations, on a busy machine: the NIC touches no buffer then."""

import amoeba.ucp as ucp
import numpy as np
import pytest
from amoeba import Retransmission

from tests.driver.openucx.ucp.entities import Entity, wait_for
from tests.driver.openucx.ucp.test_forced_close import (
    ALL_OR_SOME,
    DATA,
    EVERY_NIC,
    GUARD,
    LENGTH,
    POISON,
    destroyed,
)
from tests.support.pages import Pages


@pytest.fixture(params=[0, 2, 7, 9], ids="{} rounds".format)
def busy_machine(request, monkeypatch):
    """A machine too busy to end operations while a worker that is destroyed waits for them."""
    monkeypatch.setattr("amoeba.transport.context.DRAIN_TIME", 0.0)
    monkeypatch.setattr("amoeba.transport.context.DRAIN_ROUNDS", request.param)


@ALL_OR_SOME
def test_a3_a_worker_that_is_destroyed_in_the_middle_of_operations(sender, receiver, kind, busy_machine):
    destroyed(sender, receiver, kind)


@EVERY_NIC
def test_a3_a_worker_that_is_destroyed_while_it_reads_a_message(sender, receiver, busy_machine):
    message, place = np.full(LENGTH, DATA, np.uint8), Pages(LENGTH, GUARD)
    sender.connect(receiver)
    received = ucp.ucp_tag_recv_nbx(receiver.worker, place.bytes, LENGTH, 5, 5, None)
    ucp.ucp_tag_send_nbx(sender.ep, message, LENGTH, 5, None)
    wait_for(lambda: place.bytes[0] == DATA, sender, receiver)
    ucp.ucp_worker_destroy(receiver.worker)
    assert received.done
    place.bytes[:] = POISON
    for _ in range(100):
        sender.progress()
    assert (place.bytes == POISON).all()
    place.free()
    for _ in range(100):
        sender.progress()


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
