"""``op_flags`` of what receives, and FI_INJECT of what sends: flags of calls that have none in C."""

import numpy as np
import pytest
from amoeba import BindFlags, Caps, CqFormat, Errno, FabricError, Info, Msg, OpFlags, RxAttr, TxAttr, open_cluster


@pytest.fixture(params=["model", pytest.param("rtl", marks=pytest.mark.long)])
def pair(request):
    with open_cluster([request.param] * 2) as fabric:
        yield fabric
    KEPT.clear()


KEPT = []
"""Objects that are closed with the fabric, and not before."""
NONE = OpFlags(0)


def opened(fabric, rank, *, rx=NONE, tx=NONE, cq_flags=BindFlags.FI_TRANSMIT | BindFlags.FI_RECV):
    hints = Info(caps=Caps.FI_MSG | Caps.FI_RMA, tx_attr=TxAttr(op_flags=tx), rx_attr=RxAttr(op_flags=rx))
    info = next(each for each in fabric.getinfo(hints) if each.domain_attr.name == f"amoeba{rank}")
    domain = fabric.domain(info)
    queue, peers = domain.cq_open(CqFormat.FI_CQ_FORMAT_DATA), domain.av_open()
    endpoint = domain.endpoint(info, cq=queue, av=peers, cq_flags=cq_flags)
    KEPT.append((endpoint, queue, peers))
    return endpoint, queue, peers


def test_receives_take_message_after_message_by_default(pair):
    receiver, received, _ = opened(pair, 1, rx=OpFlags.FI_MULTI_RECV)
    sender, sent, peers = opened(pair, 0)
    peer = peers.insert(receiver.getname())
    pool = np.zeros(4096, np.uint8)
    receiver.recv(pool, context="pool")
    for word in (b"one", b"two", b"three"):
        sender.send(word, peer)
        sent.sread(timeout=30)
    entries = [entry for _ in range(3) for entry in received.sread(timeout=30)]
    assert [entry.op_context for entry in entries] == ["pool"] * 3
    assert [entry.len for entry in entries] == [3, 3, 5]


def test_a_call_with_flags_of_its_own_has_no_others(pair):
    receiver, received, _ = opened(pair, 1, rx=OpFlags.FI_MULTI_RECV)
    sender, _, peers = opened(pair, 0)
    receiver.recvmsg(Msg([bytearray(64)], context="one"), OpFlags(0))
    sender.send(b"first", peers.insert(receiver.getname()))
    (entry,) = received.sread(timeout=30)
    assert entry.op_context == "one"
    assert not entry.flags & OpFlags.FI_MULTI_RECV


def test_receives_are_reported_by_default_on_a_selective_queue(pair):
    selective = BindFlags.FI_TRANSMIT | BindFlags.FI_RECV | BindFlags.FI_SELECTIVE_COMPLETION
    receiver, received, _ = opened(pair, 1, rx=OpFlags.FI_COMPLETION, cq_flags=selective)
    sender, _, peers = opened(pair, 0)
    receiver.recv(bytearray(8), context="reported")
    sender.send(b"word", peers.insert(receiver.getname()))
    assert received.sread(timeout=30)[0].op_context == "reported"


def test_what_is_injected_by_default_is_read_at_once_and_has_a_limit(pair):
    receiver, received, _ = opened(pair, 1)
    sender, _, peers = opened(pair, 0, tx=OpFlags.FI_INJECT)
    peer = peers.insert(receiver.getname())
    got, word = bytearray(64), bytearray(b"x" * 48)
    receiver.recv(got)
    sender.send(word, peer)
    word[:] = b"y" * 48
    received.sread(timeout=30)
    assert bytes(got[:48]) == b"x" * 48
    with pytest.raises(FabricError) as caught:
        sender.send(bytes(65), peer)
    assert caught.value.fi_errno == Errno.FI_EINVAL


def test_other_flags_cannot_be_a_default_of_receives(pair):
    with pytest.raises(FabricError) as caught:
        pair.getinfo(Info(rx_attr=RxAttr(op_flags=OpFlags.FI_PEEK)))
    assert caught.value.fi_errno == Errno.FI_ENODATA
    with pytest.raises(FabricError) as caught:
        pair.domain(0).srx_context(RxAttr(op_flags=OpFlags.FI_PEEK))
    assert caught.value.fi_errno == Errno.FI_EBADFLAGS
