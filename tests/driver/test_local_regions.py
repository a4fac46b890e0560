"""Regions that hold an operation's own buffers: ``desc``, ``result_desc`` and ``compare_desc``."""

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
from sides import ALL_ACCESS, make_talkers, refused

SUM, U64 = Op.FI_SUM, Datatype.FI_UINT64
ANY_USE = ALL_ACCESS | MrAccess.FI_SEND | MrAccess.FI_RECV


@pytest.fixture(params=[("model", "model"), ("rtl", "rtl"), ("model", "rtl")], ids="-".join)
def fabric(request, keep):
    """Two NICs, also of two kinds."""
    with open_cluster(request.param, rtl_options={"host_latency": 40}) as opened:
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
