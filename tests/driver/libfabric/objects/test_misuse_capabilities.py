"""An endpoint begins only the operations that its capabilities name; the others are refused."""

import pytest
from amoeba import (
    Caps,
    CqFormat,
    EpAttr,
    EpType,
    Errno,
    Info,
    Op,
    RmaIov,
    RmaMsg,
    fi,
)

from tests.driver.endpoints import BOTH, entries, refused
from tests.driver.libfabric.objects.misuse import ONE, PAIRS, SUM, U64, WORDS, two_nics, words


@pytest.fixture(params=PAIRS, ids="-".join)
def fabric(request, build_of):
    with two_nics(request.param, build_of(request.param)) as opened:
        yield opened




# Capabilities


def _endpoint(fabric, keep, caps, ep_type=EpType.FI_EP_RDM):
    info = fabric.getinfo(Info(caps=caps, ep_attr=EpAttr(type=ep_type)))[0]
    domain = fabric.domain(info)
    queue, peers = keep(domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED)), keep(domain.av_open())
    return keep(domain.endpoint(info, cq=queue, av=peers, cq_flags=BOTH)), queue, peers


CALLS = {
    "write": (Caps.FI_RMA | Caps.FI_WRITE, lambda e, to: e.write(ONE, *to)),
    "writemsg": (
        Caps.FI_RMA | Caps.FI_WRITE, lambda e, to: e.writemsg(RmaMsg([ONE], to[0], [RmaIov(to[1], 8, to[2])])),
    ),
    "read": (Caps.FI_RMA | Caps.FI_READ, lambda e, to: e.read(words(), *to)),
    "readv": (Caps.FI_RMA | Caps.FI_READ, lambda e, to: e.readv([words()], *to)),
    "atomic": (Caps.FI_ATOMIC | Caps.FI_WRITE, lambda e, to: e.atomic(words(0), *to, SUM)),
    "atomicv": (Caps.FI_ATOMIC | Caps.FI_WRITE, lambda e, to: e.atomicv([words(0)], *to, SUM)),
    "atomic read": (
        Caps.FI_ATOMIC | Caps.FI_READ, lambda e, to: e.fetch_atomic(None, words(), *to, Op.FI_ATOMIC_READ),
    ),
    "fetch_atomic": (
        Caps.FI_ATOMIC | Caps.FI_READ | Caps.FI_WRITE, lambda e, to: e.fetch_atomic(words(0), words(), *to, SUM),
    ),
    "compare_atomic": (
        Caps.FI_ATOMIC | Caps.FI_READ | Caps.FI_WRITE,
        lambda e, to: e.compare_atomic(words(0), words(0), words(), *to, Op.FI_CSWAP),
    ),
    "send": (Caps.FI_MSG | Caps.FI_SEND, lambda e, to: e.send(b"", to[0])),
    "tsend": (Caps.FI_TAGGED | Caps.FI_SEND, lambda e, to: e.tsend(b"", to[0], 1)),
}  # fmt: skip
ASKED = (
    Caps.FI_RMA | Caps.FI_READ,
    Caps.FI_RMA | Caps.FI_WRITE,
    Caps.FI_ATOMIC | Caps.FI_READ,
    Caps.FI_ATOMIC | Caps.FI_WRITE,
    Caps.FI_RMA | Caps.FI_ATOMIC | Caps.FI_REMOTE_WRITE,
    Caps.FI_MSG | Caps.FI_RECV,
    Caps.FI_TAGGED | Caps.FI_SEND,
    Caps.FI_MSG | Caps.FI_SEND,
)


@pytest.mark.parametrize(
    "fabric", [("model", "model"), ("rtl", "rtl"), ("model", "rtl")], ids="-".join, indirect=True
)
def test_an_endpoint_begins_only_what_its_info_guaranteed(fabric, keep, pair, target):
    for caps in ASKED:
        endpoint, queue, peers = _endpoint(fabric, keep, caps)
        peer = peers.insert(pair[1].endpoint.getname())
        to = peer, target[1].address, target[1].key
        for name, (needed, call) in CALLS.items():
            if needed in caps and "send" not in name:  # nobody receives here
                call(endpoint, to)
                entries(queue, 1)
            elif needed not in caps:
                with refused(Errno.FI_EOPNOTSUPP, "without some of"):
                    call(endpoint, to)
        assert endpoint.tx_size_left == endpoint.tx_size
        assert queue.read() == []
        for poster in (endpoint.alias(),):
            if Caps.FI_RMA | Caps.FI_WRITE not in caps:
                with refused(Errno.FI_EOPNOTSUPP):
                    poster.write(ONE, *to)
            poster.close()
        endpoint.close()
    assert target[0].tolist()[1:] == list(range(1, WORDS))


@pytest.mark.parametrize("fabric", [("model", "model")], ids="-".join, indirect=True)
def test_all_directions_are_meant_where_none_is_named(fabric, keep, pair, target):
    endpoint, queue, peers = _endpoint(fabric, keep, Caps.FI_RMA | Caps.FI_ATOMIC)
    to = peers.insert(pair[1].endpoint.getname()), target[1].address, target[1].key
    for name, (_, call) in CALLS.items():
        if "send" not in name:
            call(endpoint, to)
            entries(queue, 1)


@pytest.mark.parametrize("fabric", [("model", "model")], ids="-".join, indirect=True)
def test_datagrams_have_no_valid_atomics(fabric, keep):
    endpoint, *_ = _endpoint(fabric, keep, Caps.FI_MSG, EpType.FI_EP_DGRAM)
    for query in (endpoint.atomicvalid, endpoint.fetch_atomicvalid, endpoint.compare_atomicvalid):
        for op in (SUM, Op.FI_CSWAP, Op.FI_ATOMIC_READ):
            with refused(Errno.FI_EOPNOTSUPP):
                query(U64, op)
    with refused(Errno.FI_EOPNOTSUPP):
        fi.fi_atomicvalid(endpoint, U64, SUM)


@pytest.mark.parametrize("fabric", [("model", "model")], ids="-".join, indirect=True)
def test_an_endpoint_without_atomics_has_no_valid_ones(fabric, keep):
    endpoint, *_ = _endpoint(fabric, keep, Caps.FI_RMA)
    with refused(Errno.FI_EOPNOTSUPP):
        endpoint.atomicvalid(U64, SUM)
