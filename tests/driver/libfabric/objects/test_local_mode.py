"""FI_MR_LOCAL, fi_mr(3): local buffers are registered, and operations on them grant the NIC nothing."""

import numpy as np
import pytest
from amoeba import (
    Datatype,
    DomainAttr,
    Errno,
    Info,
    MrAccess,
    MrMode,
    Msg,
    Op,
    OpFlags,
    RmaIov,
    RmaMsg,
    open_cluster,
    tostr,
)

from tests.driver.endpoints import ALL_ACCESS, connect, entries, make_talker, refused
from tests.driver.libfabric.objects.test_local_regions import USES

SUM = Op.FI_SUM
ANY_USE = ALL_ACCESS | MrAccess.FI_SEND | MrAccess.FI_RECV
COPIED = {"write of 8 bytes", "atomic of one", "write_batch"}
"""Uses of test_local_regions whose buffer the NIC never accesses."""


@pytest.fixture(params=[("model", "model"), ("rtl", "model")], ids="-".join)
def fabric(request, keep, build_of):
    with open_cluster(request.param, build_of(request.param), rtl_options={"host_latency": 40}) as opened:
        yield opened
        assert [fault for device in opened.devices for fault in device.faults()] == []


class Scene:
    """A side whose domain has FI_MR_LOCAL, with a region; and another one's memory."""

    def __init__(self, fabric, keep):
        hints = Info(domain_attr=DomainAttr(mr_mode=MrMode.FI_MR_LOCAL | MrMode.FI_MR_VIRT_ADDR))
        self.domain = fabric.domain(fabric.getinfo(hints)[0])
        self.client, self.server = keep((make_talker(self.domain), make_talker(fabric.domain(1))))
        connect(self.client, self.server)
        self.endpoint = self.client.endpoint
        self.words = np.arange(100, 164, dtype=np.uint64)
        remote = keep(self.server.domain.mr_reg(self.words, ANY_USE))
        self.to = self.client.peer, remote.address, remote.key
        self.memory = np.zeros(64, np.uint64)
        self.region = keep(self.domain.mr_reg(self.memory, ANY_USE))
        self.nic = self.domain.nic

    @property
    def granted(self):
        return dict(self.nic.dma._users)


@pytest.fixture
def scene(fabric, keep):
    return Scene(fabric, keep)


def test_an_application_that_knows_it_gets_it_and_nobody_else(fabric):
    for prepared, answered in (
        (MrMode.FI_MR_LOCAL, MrMode.FI_MR_LOCAL),
        (MrMode.FI_MR_VIRT_ADDR, MrMode.FI_MR_VIRT_ADDR),
        (MrMode(0), MrMode(0)),
    ):
        info = fabric.getinfo(Info(domain_attr=DomainAttr(mr_mode=prepared)))[0]
        assert info.domain_attr.mr_mode == answered, tostr(prepared)
    assert not fabric.getinfo()[0].domain_attr.mr_mode & MrMode.FI_MR_LOCAL
    with fabric.domain(0) as domain:
        assert not domain.registers_locally


@pytest.mark.parametrize("use", sorted(USES.keys() - COPIED))
def test_what_has_no_region_is_refused_and_leaves_nothing(scene, use):
    before, space = scene.granted, scene.endpoint.tx_size_left
    with refused(Errno.FI_EINVAL, "has no region: with FI_MR_LOCAL"):
        # where a use takes a sequence of regions, it gets one of none
        USES[use](scene.endpoint, np.ones(8, np.uint64), scene.to, None)
    assert scene.granted == before
    assert scene.endpoint.tx_size_left == space
    assert scene.client.queue.read() == []


def test_one_buffer_of_a_vector_without_a_region_is_enough_to_refuse_it(scene):
    iov = [scene.memory[:2], np.ones(2, np.uint64)]
    with refused(Errno.FI_EINVAL, r"msg_iov\[1\] has no region"):
        scene.endpoint.writev(iov, *scene.to, desc=[scene.region, None])
    with refused(Errno.FI_EINVAL, r"msg_iov\[0\] has no region"):
        scene.endpoint.readv(iov[::-1], *scene.to, desc=[None, scene.region])


def test_operands_and_results_of_fetching_atomics_need_their_own(scene):
    one, several = np.ones(1, np.uint64), np.ones(4, np.uint64)
    with refused(Errno.FI_EINVAL, "result buffer has no region"):
        scene.endpoint.fetch_atomic(one, one.copy(), *scene.to, SUM)
    with refused(Errno.FI_EINVAL, "buf has no region"):
        scene.endpoint.fetch_atomic(several, scene.memory[:4], *scene.to, SUM, result_desc=scene.region)
    with refused(Errno.FI_EINVAL, "result buffer has no region"):
        scene.endpoint.fetch_atomic(scene.memory[:4], several, *scene.to, SUM, desc=scene.region)
    with refused(Errno.FI_EINVAL, "result has no region"):
        scene.endpoint.fetch_atomic_batch(one, several, *scene.to, SUM, index=np.arange(4))
    assert (scene.words == np.arange(100, 164)).all()


def test_what_is_copied_or_empty_needs_none(scene):
    e, to = scene.endpoint, scene.to
    before = scene.granted
    e.write(b"12345678", *to)
    e.inject_write(b"x" * 40, to[0], to[1] + 8, to[2])
    e.write(b"y" * 40, to[0], to[1] + 48, to[2], flags=OpFlags.FI_INJECT)
    e.atomic(np.ones(1, np.uint64), to[0], to[1] + 504, to[2], SUM)
    e.write_batch(np.full((4, 1), 7, np.uint64), to[0], to[1] + 96, to[2], index=np.arange(4))
    e.write(b"", *to)
    e.read(bytearray(), *to)
    assert scene.granted == before
    assert len(entries(scene.client.queue, 6)) == 6
    raw = scene.words.tobytes()
    assert raw[:88] == b"12345678" + b"x" * 40 + b"y" * 40
    assert scene.words[12:16].tolist() == [7] * 4
    assert scene.words[63] == 164


def test_operations_with_regions_do_their_work_and_grant_nothing(scene):
    """RMA, atomics and messages, long ones too, of every shape that has a ``desc``."""
    e, to, mr, memory = scene.endpoint, scene.to, scene.region, scene.memory
    before, asked = scene.granted, []
    scene.nic.dma.grant = lambda *arguments, **options: asked.append(arguments)
    e.read(memory[:16], *to, desc=mr)
    entries(scene.client.queue, 1)
    assert memory[:16].tolist() == [*range(100, 116)]
    e.writev([memory[:2], memory[2:4]], to[0], to[1] + 256, to[2], desc=[mr, mr])
    e.writemsg(RmaMsg([memory[4:8]], to[0], [RmaIov(to[1] + 384, 32, to[2])], [mr]))
    e.fetch_atomic(memory[8:10], memory[20:22], *to, SUM, desc=mr, result_desc=mr)
    e.fetch_atomic(memory[8:9], memory[22:23], *to, SUM, result_desc=mr)
    e.read_batch(memory[30:34], *to, index=np.array([40, 41, 42, 43]), desc=mr)
    entries(scene.client.queue, 5)
    assert asked == []
    del scene.nic.dma.grant
    assert scene.words[32:36].tolist() == [100, 101, 102, 103]
    assert scene.words[48:52].tolist() == [104, 105, 106, 107]
    assert memory[20:22].tolist() == [100, 101]
    assert memory[22] == 208
    assert memory[30:34].tolist() == [140, 141, 142, 143]
    assert scene.granted == before


def test_messages_go_from_and_to_regions(scene, keep):
    large = np.arange(4096, dtype=np.uint64)
    source, sink = large.copy(), np.zeros(4096, np.uint64)
    out, into = (keep(scene.domain.mr_reg(buffer, ANY_USE)) for buffer in (source, sink))
    got = np.zeros(4096, np.uint64)
    for size in (2, 64, 4096):
        scene.endpoint.trecv(sink[:size], 1, desc=into)
        scene.endpoint.tsend(source[:size], scene.to[0], 2, desc=out)
        scene.server.endpoint.trecv(got[:size], 2)
        scene.server.endpoint.tsend(large[:size], scene.server.peer, 1)
        # each side runs while it is read
        done, theirs = [], []
        while len(done) < 2 or len(theirs) < 2:
            done += scene.client.queue.read(4)
            theirs += scene.server.queue.read(4)
        assert sink[:size].tolist() == got[:size].tolist() == large[:size].tolist()
        sink[:] = got[:] = 0
    scene.endpoint.recvmsg(Msg([sink[:4], sink[8:12]], scene.to[0], [into, into]))
    scene.server.endpoint.send(large[:8], scene.server.peer)
    entries(scene.client.queue, 1)
    assert sink[:12].tolist() == [0, 1, 2, 3, 0, 0, 0, 0, 4, 5, 6, 7]


def test_batches_of_numbers_need_none(scene):
    scene.endpoint.atomic_batch(np.uint64(1), *scene.to, SUM, Datatype.FI_UINT64, index=np.arange(4))
    entries(scene.client.queue, 1)
    assert scene.words[:5].tolist() == [101, 102, 103, 104, 104]
