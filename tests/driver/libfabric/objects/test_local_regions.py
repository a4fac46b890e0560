"""Regions that hold an operation's own buffers: ``desc``, ``result_desc`` and ``compare_desc``.

Covers ``libfabric/objects/operations/local_buffers.py``.
"""

import numpy as np
import pytest
from amoeba import (
    ArgumentTypeError,
    AtomicMsg,
    Datatype,
    Errno,
    MrAccess,
    Msg,
    Op,
    OpFlags,
    RmaIoc,
    RmaIov,
    RmaMsg,
    TaggedMsg,
    open_cluster,
)

from tests.driver.endpoints import ALL_ACCESS, entries, make_talkers, refused

SUM, U64 = Op.FI_SUM, Datatype.FI_UINT64
ANY_USE = ALL_ACCESS | MrAccess.FI_SEND | MrAccess.FI_RECV


@pytest.fixture(params=[("model", "model"), ("rtl", "rtl"), ("model", "rtl")], ids="-".join)
def fabric(request, keep, rtl_parameters):
    """Two NICs, also of two kinds."""
    parameters = rtl_parameters if "rtl" in request.param else None
    with open_cluster(request.param, parameters, rtl_options={"host_latency": 40}) as opened:
        yield opened
        assert [fault for device in opened.devices for fault in device.faults()] == []


USES = {
    "write": lambda e, b, to, mr: e.write(b, *to, desc=mr),
    "write of 8 bytes": lambda e, b, to, mr: e.write(b[:1], *to, desc=mr),
    "committed write": lambda e, b, to, mr: e.write(b, *to, desc=mr, flags=OpFlags.FI_COMMIT_COMPLETE),
    "read": lambda e, b, to, mr: e.read(b, *to, desc=mr),
    "readv": lambda e, b, to, mr: e.readv([b[:2], b[2:]], *to, desc=[None, mr]),
    "writemsg": lambda e, b, to, mr: e.writemsg(RmaMsg([b], to[0], [RmaIov(to[1], b.nbytes, to[2])], [mr])),
    "atomic": lambda e, b, to, mr: e.atomic(b, *to, SUM, desc=mr),
    "atomic of one": lambda e, b, to, mr: e.atomic(b[:1], *to, SUM, desc=mr),
    "atomicmsg": lambda e, b, to, mr: e.atomicmsg(
        AtomicMsg([b], to[0], [RmaIoc(to[1], len(b), to[2])], SUM, U64, [mr])
    ),
    "result of one": lambda e, b, to, mr: e.fetch_atomic(b[:1], b[1:2], *to, SUM, result_desc=mr),
    "result of several": lambda e, b, to, mr: e.fetch_atomic(b[:2], b[2:4], *to, SUM, result_desc=mr),
    "resultv": lambda e, b, to, mr: e.fetch_atomicv([b[:1]], [b[1:2]], *to, SUM, result_desc=[mr]),
    "compare": lambda e, b, to, mr: e.compare_atomic(b[:2], b[2:4], b[4:6], *to, Op.FI_CSWAP, desc=mr),
    "send": lambda e, b, to, mr: e.send(b, to[0], desc=mr),
    "long send": lambda e, b, to, mr: e.send(np.zeros(4096, np.uint64), to[0], desc=mr),
    "tsendv": lambda e, b, to, mr: e.tsendv([b], to[0], 1, desc=[mr]),
    "recv": lambda e, b, to, mr: e.recv(b, desc=mr),
    "trecv": lambda e, b, to, mr: e.trecv(b, 1, desc=mr),
    "recvmsg": lambda e, b, to, mr: e.recvmsg(Msg([b], to[0], [mr])),
    "trecvmsg": lambda e, b, to, mr: e.trecvmsg(TaggedMsg([b], to[0], 1, desc=[mr])),
    "write_batch": lambda e, b, to, mr: e.write_batch(b, *to, index=np.arange(len(b)), desc=mr),
    "read_batch": lambda e, b, to, mr: e.read_batch(b, *to, index=np.arange(len(b)), desc=mr),
}


def test_a_desc_is_a_region_of_the_endpoints_domain(fabric, keep):
    """Another NIC's, or another protection domain's of the same NIC, is refused, and nothing is left of the call."""
    client, server = keep(make_talkers(fabric))
    memory = np.zeros(8, np.uint64)
    region = keep(server.domain.mr_reg(memory, ANY_USE))
    to = client.peer, region.address, region.key
    buffer = np.ones(8, np.uint64)
    beside = keep(fabric.domain(0))
    strangers = [keep(domain.mr_reg(buffer, ANY_USE)) for domain in (server.domain, beside)]
    granted = dict(client.domain.nic.dma._users)
    for use in USES.values():
        for stranger in strangers:
            with refused(Errno.FI_EINVAL, "desc: .* belongs to another domain than the endpoint"):
                use(client.endpoint, buffer, to, stranger)
        for wrong in (buffer, region.key, "region"):
            with pytest.raises(ArgumentTypeError, match=r"^FI_EINVAL: desc: expected MemoryRegion, got"):
                use(client.endpoint, buffer, to, wrong)
    assert client.domain.nic.dma._users == granted
    assert client.endpoint.tx_size_left == client.endpoint.tx_size
    own = keep(client.domain.mr_reg(buffer, ANY_USE))
    client.endpoint.write(buffer, *to, desc=own)
    client.finish()
    assert (memory == 1).all()


def test_a_vector_has_a_sequence_of_regions(fabric, keep):
    client, server = keep(make_talkers(fabric))
    buffer = np.ones(8, np.uint64)
    own, other = keep(client.domain.mr_reg(buffer, ANY_USE)), keep(server.domain.mr_reg(bytearray(64), ANY_USE))
    to = client.peer, other.address, other.key
    for wrong in (own, 5):
        with pytest.raises(ArgumentTypeError, match=r"^FI_EINVAL: desc of msg_iov: expected a sequence of regions"):
            client.endpoint.writev([buffer], *to, desc=wrong)


# Regions that are closed with operations in flight


class Scene:
    """A talker with a region, which is closed as soon as something has been posted; and its peer's memory."""

    def __init__(self, fabric, keep):
        self.client, self.server = keep(make_talkers(fabric))
        self.words = np.arange(100, 164, dtype=np.uint64)
        self.region = keep(self.server.domain.mr_reg(self.words, ANY_USE))
        self.to = self.client.peer, self.region.address, self.region.key
        self.buffer = bytearray(3 * 8192)
        self.endpoint = self.client.endpoint
        self.granted = dict(self.client.domain.nic.dma._users)

    def run(self, post, count=1, then=lambda: None):
        """Post with a region, and close it; the entries, and a copy of the memory, out of the NIC's reach by then."""
        users = self.client.domain.nic.dma._users
        region = self.client.domain.mr_reg(self.buffer, ANY_USE)
        array = np.frombuffer(self.buffer, np.uint64)
        post(array, region)
        region.close()
        del region
        assert users != self.granted
        then()
        done = entries(self.client.queue, count)
        found = array.copy()
        assert users == self.granted
        return done, found


@pytest.fixture
def scene(fabric, keep):
    return Scene(fabric, keep)


def test_a_read_whose_region_is_closed_brings_the_data(scene):
    _, found = scene.run(lambda array, mr: scene.endpoint.read(array[8:24], *scene.to, desc=mr))
    assert (found[8:24] == np.arange(100, 116)).all()
    assert not found[:8].any()
    assert not found[24:].any()
    scene.buffer.append(0)  # nothing exports it any more


@pytest.mark.parametrize("count", [1, 4])
def test_results_of_an_atomic_whose_region_is_closed_arrive(scene, count):
    operands = np.ones(count, np.uint64)
    _, found = scene.run(
        lambda array, mr: scene.endpoint.fetch_atomic(operands, array[:count], *scene.to, SUM, result_desc=mr)
    )
    assert found[: count + 1].tolist() == [*range(100, 100 + count), 0]
    assert scene.words[:count].tolist() == [*range(101, 101 + count)]


def test_vectors_and_chains_whose_region_is_closed_are_executed(scene):
    def post(array, mr):
        array[:32] = 7
        pieces = [RmaIov(scene.to[1], 64, scene.to[2]), RmaIov(scene.to[1] + 128, 192, scene.to[2])]
        scene.endpoint.writemsg(RmaMsg([array[:16], array[16:32]], scene.to[0], pieces, [mr, mr]))

    scene.run(post)
    assert scene.words[:8].tolist() == [7] * 8
    assert scene.words[8:16].tolist() == [*range(108, 116)]
    assert scene.words[16:40].tolist() == [7] * 24


def test_a_batch_whose_region_is_closed_is_executed(scene):
    index = np.arange(32)[::-1]
    _, found = scene.run(lambda array, mr: scene.endpoint.read_batch(array[:32], *scene.to, index=index, desc=mr))
    assert found[:32].tolist() == [100 + place for place in index]


@pytest.mark.parametrize("size", [1, 16, 2048])
def test_a_message_reaches_a_buffer_whose_region_is_closed(scene, size):
    """Also one that its receiver reads: 16 KiB are more than a packet."""
    data = np.arange(size, dtype=np.uint64)

    def send():
        scene.server.endpoint.tsend(data, scene.server.peer, 5)
        while not scene.server.queue.read():
            scene.client.queue._collect()

    done, found = scene.run(lambda array, mr: scene.endpoint.trecv(array[8:], 5, desc=mr), then=send)
    assert done[0].len == data.nbytes
    assert found[8 : 8 + size].tolist() == data.tolist()


def test_a_region_closed_while_a_long_message_is_read_serves_it_to_the_end(scene):
    data = np.arange(2048, dtype=np.uint64)
    client, server = scene.client, scene.server
    region = client.domain.mr_reg(scene.buffer, ANY_USE)
    client.endpoint.trecv(scene.buffer, 5, desc=region)
    server.endpoint.tsend(data, server.peer, 5)
    receives = client.endpoint._receiver.receives
    while not receives._fetching:
        assert client.queue.read() == []
        assert server.queue.read() == []
    assert not receives.posted
    region.close()
    (done,) = entries(client.queue, 1)
    assert done.len == data.nbytes
    assert scene.buffer[: data.nbytes] == data.tobytes()
    assert client.domain.nic.dma._users == scene.granted


def test_a_long_message_out_of_a_region_that_is_closed_arrives(scene):
    taken = np.zeros(2048, np.uint64)

    def post(array, mr):
        array[:2048] = np.arange(2048)
        scene.endpoint.tsend(array[:2048], scene.to[0], 5, desc=mr)

    def receive():
        scene.server.endpoint.trecv(taken, 5)
        while not scene.server.queue.read():
            scene.client.queue._collect()

    scene.run(post, then=receive)
    assert (taken == np.arange(2048)).all()


def test_closing_an_endpoint_ends_what_its_operations_took_over(scene):
    client = scene.client
    region = client.domain.mr_reg(scene.buffer, ANY_USE)
    client.endpoint.trecv(scene.buffer, 5, desc=region)
    client.endpoint.read(memoryview(scene.buffer)[:8], *scene.to, desc=region)
    region.close()
    client.endpoint.close()
    assert not any(length == len(scene.buffer) for _, length, _ in client.domain.nic.dma._users)
    again = client.domain.mr_reg(scene.buffer, ANY_USE)
    again.close()
    assert not any(length == len(scene.buffer) for _, length, _ in client.domain.nic.dma._users)
