"""Messages with arguments that cannot be meant: refused before a ring entry is taken, without a trace."""

import pytest
from amoeba import (
    ArgumentError,
    ArgumentTypeError,
    Msg,
    OpFlags,
    TaggedMsg,
)

from tests.driver.endpoints import entries
from tests.driver.libfabric.objects.misuse import NO_64_BITS, NO_NUMBERS, PAIRS, REFERENCES, WRONG_FLAGS, two_nics


@pytest.fixture(params=PAIRS, ids="-".join)
def fabric(request, build_of):
    with two_nics(request.param, build_of(request.param)) as opened:
        yield opened




# Messages


@pytest.mark.parametrize("wrong", [*NO_NUMBERS, *NO_64_BITS])
def test_messages_with_numbers_that_are_none_leave_no_trace(talkers, wrong):
    one, other = talkers
    value = (NO_NUMBERS | NO_64_BITS)[wrong]
    error = ArgumentTypeError if wrong in NO_NUMBERS else ArgumentError
    endpoint, peer, buffer = one.endpoint, one.peer, bytearray(8)
    places, receives = endpoint.tx_size_left, endpoint.rx_size_left
    for call, name in (
        (lambda: endpoint.tsend(b"x", peer, value), "tag"),
        (lambda: endpoint.tsendv([b"x", b"y"], peer, value), "tag"),
        (lambda: endpoint.tsendmsg(TaggedMsg([b"x"], peer, value)), "tag"),
        (lambda: endpoint.tsenddata(b"x", value, peer, 1), "data"),
        (lambda: endpoint.tsenddata(b"x", 1, peer, value), "tag"),
        (lambda: endpoint.tinject(b"x", peer, value), "tag"),
        (lambda: endpoint.senddata(b"x", value, peer), "data"),
        (lambda: endpoint.injectdata(b"x", value, peer), "data"),
        (lambda: endpoint.sendmsg(Msg([b"x"], peer, data=value), OpFlags.FI_REMOTE_CQ_DATA), "data"),
        (lambda: endpoint.trecv(buffer, value), "tag"),
        (lambda: endpoint.trecv(buffer, 1, value), "ignore"),
        (lambda: endpoint.trecvmsg(TaggedMsg([buffer], peer, value)), "tag"),
        (lambda: endpoint.trecvmsg(TaggedMsg([buffer], peer, 1, ignore=value)), "ignore"),
        *(
            [
                (lambda: endpoint.send(b"x", value), "dest_addr"),
                (lambda: endpoint.send(bytes(5000), value), "dest_addr"),
                (lambda: endpoint.tsend(b"x", value, 1), "dest_addr"),
                (lambda: endpoint.inject(b"x", value), "dest_addr"),
                (lambda: endpoint.recv(buffer, src_addr=value), "src_addr"),
                (lambda: endpoint.trecv(buffer, 1, src_addr=value), "src_addr"),
            ]
            if wrong in NO_NUMBERS
            else []
        ),
    ):
        for _ in range(endpoint.tx_size + 1):
            with pytest.raises(error, match=name):
                call()
    assert (endpoint.tx_size_left, endpoint.rx_size_left) == (places, receives)
    other.endpoint.trecv(buffer, 1)
    endpoint.tsend(b"goes on!", peer, 1)
    entries(other.queue, 1)
    entries(one.queue, 1)
    assert buffer == b"goes on!"
    assert one.queue.read() == other.queue.read() == []


def test_messages_of_no_buffers_leave_no_trace(talkers):
    one, other = talkers
    endpoint, peer = one.endpoint, one.peer
    for make in (*REFERENCES.values(), lambda: None, lambda: 5, lambda: "text", lambda: [1, 2]):
        wrong = make()
        for call in (
            lambda w=wrong: endpoint.send(w, peer),
            lambda w=wrong: endpoint.sendv([b"x", w], peer),
            lambda w=wrong: endpoint.tsend(w, peer, 1),
            lambda w=wrong: endpoint.inject(w, peer),
            lambda w=wrong: endpoint.recv(w),
            lambda w=wrong: endpoint.trecv(w, 1),
            lambda w=wrong: endpoint.recvv([bytearray(1), w]),
        ):
            for _ in range(endpoint.tx_size + 1):
                with pytest.raises(ArgumentTypeError):
                    call()
    for flags in WRONG_FLAGS:
        for call in (
            lambda f=flags: endpoint.send(b"x", peer, flags=f),
            lambda f=flags: endpoint.tsend(b"x", peer, 1, flags=f),
            lambda f=flags: endpoint.sendmsg(Msg([b"x"], peer), f),
            lambda f=flags: endpoint.recv(bytearray(1), flags=f),
            lambda f=flags: endpoint.trecv(bytearray(1), 1, flags=f),
            lambda f=flags: endpoint.recvmsg(Msg([bytearray(1)], peer), f),
        ):
            with pytest.raises(ArgumentTypeError, match="flags"):
                call()
    assert endpoint.tx_size_left == endpoint.tx_size
    buffer = bytearray(4)
    other.endpoint.recv(buffer)
    endpoint.send(b"good", peer)
    entries(other.queue, 1)
    entries(one.queue, 1)
    assert buffer == b"good"
