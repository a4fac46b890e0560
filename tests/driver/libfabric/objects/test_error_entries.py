"""Error entries are there for those who ask for them, whoever has read the queue before."""

import time

import numpy as np
import pytest
from amoeba import BindFlags, CqFormat, Errno, ErrorAvailableError, FabricError, WaitObj, fi

from tests.driver.automatic import automatic_cluster
from tests.driver.endpoints import ALL_ACCESS, BOTH, Side, connect, make_side, make_talkers


def counting(domain, keep, kind, wait_obj=WaitObj.FI_WAIT_UNSPEC):
    """(a talker whose operations of this kind are counted, the counter)."""
    counter, peers = keep(domain.cntr_open()), keep(domain.av_open())
    queue = keep(domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED, wait_obj))
    endpoint = keep(domain.endpoint())
    endpoint.bind(queue, BOTH)
    endpoint.bind(peers)
    endpoint.bind(counter, kind)
    endpoint.enable()
    return Side(domain, queue, peers, endpoint), counter


@pytest.fixture
def writer(fabric, keep):
    """(a side, the counter of its writes, a region of the other side's)."""
    client, counter = counting(fabric.domain(0), keep, BindFlags.FI_WRITE)
    server = keep(make_side(fabric.domain(1)))
    connect(client, server)
    return client, counter, keep(server.domain.mr_reg(keep(np.zeros(8, np.uint64)), ALL_ACCESS))


def read_error(queue):
    """The error entry, by nothing but readerr()."""
    deadline = time.monotonic() + 30
    while (entry := queue.readerr()) is None:
        assert time.monotonic() < deadline
    return entry


def test_b10_the_error_that_a_counter_tells_of_can_be_read_at_once(writer):
    client, counter, region = writer
    for context, key in enumerate((region.key, region.key ^ 1)):
        client.endpoint.write(bytes(8), client.peer, region.address, key, context=context)
    with pytest.raises(ErrorAvailableError):
        counter.wait(2, timeout=30)
    failure = client.queue.readerr()
    assert (failure.op_context, failure.err) == (1, Errno.FI_ENOKEY)
    assert [entry.op_context for entry in client.queue.read(5)] == [0]
    assert client.queue.readerr() is None


def test_b10_it_can_by_the_calls_of_c(writer):
    client, counter, region = writer
    client.endpoint.write(bytes(8), client.peer, region.address, region.key ^ 1, context="refused")
    with pytest.raises(ErrorAvailableError):
        fi.fi_cntr_wait(counter, 1, 30_000)
    assert fi.fi_cq_readerr(client.queue, 0).op_context == "refused"


def test_an_error_is_found_by_asking_for_errors_alone(writer):
    client, _, region = writer
    for context in range(2):
        client.endpoint.write(bytes(8), client.peer, region.address, region.key ^ 1, context=context)
    assert [read_error(client.queue).op_context for _ in range(2)] == [0, 1]
    assert client.queue.read() == []


def test_an_error_behind_entries_leaves_them_in_their_order(writer):
    client, counter, region = writer
    for context, key in enumerate((0, 0, 1, 0)):
        client.endpoint.write(bytes(8), client.peer, region.address, region.key ^ key, context=context)
    counter.wait(2, timeout=30)
    assert read_error(client.queue).op_context == 2
    assert [entry.op_context for entry in client.queue.wait_for(3, timeout=30)] == [0, 1, 3]


def test_a_receive_that_failed_behind_one_that_did_not_is_found(fabric, keep):
    one, other = keep(make_talkers(fabric))
    for context, size in enumerate((8, 4)):
        other.endpoint.recv(bytearray(size), context=context)
    for _ in range(2):
        one.endpoint.send(bytes(8), one.peer)
    one.queue.wait_for(2, timeout=30)
    failure = read_error(other.queue)
    assert (failure.op_context, failure.err) == (1, Errno.FI_ETRUNC)
    assert other.finish().op_context == 0


@pytest.mark.parametrize("kind", ["model", "rtl"])
def test_b10_under_automatic_progress(kind, build_of, keep):
    with automatic_cluster(kind, build_of(kind)) as fabric:
        client, writes = counting(fabric.domain(0), keep, BindFlags.FI_WRITE, WaitObj.FI_WAIT_FD)
        server, receives = counting(fabric.domain(1), keep, BindFlags.FI_RECV, WaitObj.FI_WAIT_FD)
        connect(client, server)
        region = keep(server.domain.mr_reg(keep(np.zeros(8, np.uint64)), ALL_ACCESS))
        for context, size in enumerate((8, 4)):
            server.endpoint.recv(bytearray(size), context=context)
            client.endpoint.send(bytes(8), client.peer)
        client.endpoint.write(bytes(8), client.peer, region.address, region.key ^ 1, context="refused")
        for counter, queue, context in ((writes, client.queue, "refused"), (receives, server.queue, 1)):
            with pytest.raises(ErrorAvailableError):
                counter.wait(2, timeout=60)
            assert read_error(queue).op_context == context
        assert server.finish().op_context == 0
        assert len(client.queue.wait_for(2, timeout=60)) == 2


def test_a_closed_queue_has_no_errors(writer):
    client, _, _ = writer
    client.endpoint.close()
    client.queue.close()
    with pytest.raises(FabricError, match="closed"):
        client.queue.readerr()
