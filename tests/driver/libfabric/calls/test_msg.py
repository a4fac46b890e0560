"""The calls of fi_msg(3) and fi_tagged(3).

Covers ``libfabric/calls/tagged.py``.
"""

import pytest
from amoeba import Caps, Errno, ErrorAvailableError, Msg, OpFlags, TaggedMsg, fi

from tests.driver.endpoints import refused

ANY = 2**64 - 1
DATA = OpFlags.FI_REMOTE_CQ_DATA


@pytest.mark.parametrize(
    ("send", "data", "silent"),
    [
        (lambda ep: fi.fi_send(ep, b"hello!", 5, None, 0, "sent"), 0, False),
        (lambda ep: fi.fi_sendv(ep, [b"hel", b"lo", b"!"], None, 2, 0, "sent"), 0, False),
        (lambda ep: fi.fi_sendmsg(ep, Msg([b"hello"], 0, context="sent", data=9), DATA), 9, False),
        (lambda ep: fi.fi_senddata(ep, b"hello!", 5, None, 9, 0, "sent"), 9, False),
        (lambda ep: fi.fi_inject(ep, b"hello!", 5, 0), 0, True),
        (lambda ep: fi.fi_injectdata(ep, b"hello!", 5, 9, 0), 9, True),
    ],
    ids=["send", "sendv", "sendmsg", "senddata", "inject", "injectdata"],
)
@pytest.mark.parametrize("receive", ["recv", "recvv", "recvmsg"])
def test_messages(nodes, send, data, silent, receive):
    client, server = nodes
    buf = bytearray(8)
    if receive == "recv":
        fi.fi_recv(server.ep, buf, 8, None, ANY, "received")
    elif receive == "recvv":
        fi.fi_recvv(server.ep, [memoryview(buf)[:2], memoryview(buf)[2:], bytearray(1)], None, 2, ANY, "received")
    else:
        fi.fi_recvmsg(server.ep, Msg([buf], context="received"), 0)
    send(client.ep)
    entry = server.done("received")
    flags = Caps.FI_MSG | Caps.FI_RECV | (Caps.FI_REMOTE_CQ_DATA if data else 0)
    assert (entry.flags, entry.len, entry.data) == (flags, 5, data)
    assert buf == b"hello\0\0\0"
    if not silent:
        client.done("sent")


@pytest.mark.parametrize(
    ("send", "data", "silent"),
    [
        (lambda ep: fi.fi_tsend(ep, b"hello!", 5, None, 0, 6, "sent"), 0, False),
        (lambda ep: fi.fi_tsendv(ep, [b"hel", b"lo", b"!"], None, 2, 0, 6, "sent"), 0, False),
        (lambda ep: fi.fi_tsendmsg(ep, TaggedMsg([b"hello"], 0, 6, context="sent", data=9), DATA), 9, False),
        (lambda ep: fi.fi_tsenddata(ep, b"hello!", 5, None, 9, 0, 6, "sent"), 9, False),
        (lambda ep: fi.fi_tinject(ep, b"hello!", 5, 0, 6), 0, True),
        (lambda ep: fi.fi_tinjectdata(ep, b"hello!", 5, 9, 0, 6), 9, True),
    ],
    ids=["tsend", "tsendv", "tsendmsg", "tsenddata", "tinject", "tinjectdata"],
)
@pytest.mark.parametrize("receive", ["trecv", "trecvv", "trecvmsg"])
def test_tagged_messages(nodes, send, data, silent, receive):
    client, server = nodes
    buf, other = bytearray(8), bytearray(8)
    fi.fi_trecv(server.ep, other, 8, None, ANY, 8, 1, "other")
    if receive == "trecv":
        fi.fi_trecv(server.ep, buf, 8, None, ANY, 7, 1, "received")
    elif receive == "trecvv":
        fi.fi_trecvv(server.ep, [memoryview(buf)[:2], memoryview(buf)[2:]], None, 2, ANY, 7, 1, "received")
    else:
        fi.fi_trecvmsg(server.ep, TaggedMsg([buf], ANY, 7, 1, context="received"), 0)
    send(client.ep)
    assert server.done("received").data == data
    assert (buf, other) == (b"hello\0\0\0", bytes(8))
    if not silent:
        client.done("sent")
    fi.fi_cancel(server.ep, "other")
    with pytest.raises(ErrorAvailableError):
        fi.fi_cq_sread(server.cq, 1, None, 30_000)
    assert fi.fi_cq_readerr(server.cq, 0).err == Errno.FI_ECANCELED
    with refused(Errno.FI_ENOENT):
        fi.fi_cancel(server.ep, "other")
