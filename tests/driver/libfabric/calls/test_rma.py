"""The calls of fi_rma(3)."""

from amoeba import Caps, CqDataEntry, Errno, OpFlags, RmaIov, RmaMsg, fi

from tests.driver.endpoints import refused
from tests.driver.libfabric.calls.c_node import words


def test_rma(client, memory, to):
    buf = words(5, 6, 7)
    fi.fi_write(client.ep, buf, 16, None, 0, *to, "write")
    assert client.done("write").len == 16
    assert memory[:3].tolist() == [5, 6, 2]
    fi.fi_read(client.ep, buf, 8, None, 0, to[0] + 32, to[1], "read")
    client.done("read")
    assert buf.tolist() == [4, 6, 7]


def test_rma_of_vectors(client, memory, to):
    iov = [words(5), words(6), words(7)]
    fi.fi_writev(client.ep, iov, None, 2, 0, *to, "writev")
    client.done("writev")
    assert memory[:3].tolist() == [5, 6, 2]
    fi.fi_readv(client.ep, iov, [None, None, None], 3, 0, to[0] + 24, to[1], "readv")
    client.done("readv")
    assert [int(part[0]) for part in iov] == [3, 4, 5]


def test_rma_of_messages(client, memory, to):
    segments = [RmaIov(to[0] + 64, 8, to[1]), RmaIov(to[0], 8, to[1])]
    msg = RmaMsg([words(1, 2)], 0, segments, None, "msg")
    fi.fi_writemsg(client.ep, msg, OpFlags.FI_COMPLETION)
    client.done("msg")
    assert (memory[8], memory[0]) == (1, 2)
    msg.msg_iov[0][:] = 0
    fi.fi_readmsg(client.ep, msg, 0)
    client.done("msg")
    assert msg.msg_iov[0].tolist() == [1, 2]


def test_injected_writes(client, memory, to):
    buf = words(9)
    fi.fi_inject_write(client.ep, buf, 8, 0, *to)
    buf[0] = 0
    fi.fi_read(client.ep, buf, 8, None, 0, *to)
    client.done()
    assert (memory[0], buf[0]) == (9, 9)


def test_immediate_data(nodes, memory, to):
    client, server = nodes
    fi.fi_writedata(client.ep, words(1), 8, None, 55, 0, *to, "data")
    client.done("data")
    fi.fi_inject_writedata(client.ep, words(2), 8, 66, 0, *to)
    told = []
    while len(told) < 2:
        told += fi.fi_cq_sreadfrom(server.cq, 4, None, 30_000)
    flags = Caps.FI_RMA | Caps.FI_REMOTE_WRITE | Caps.FI_REMOTE_CQ_DATA
    assert told == [(CqDataEntry(None, flags, 8, 0, data), 0) for data in (55, 66)]
    assert memory[0] == 2


def test_lengths_that_a_buffer_does_not_have_are_refused(client, to):
    for length in (9, -1):
        with refused(Errno.FI_EINVAL, "the buffer has 8"):
            fi.fi_write(client.ep, words(1), length, None, 0, *to)
    for count in (2, -1):
        with refused(Errno.FI_EINVAL, "iov has 1"):
            fi.fi_writev(client.ep, [words(1)], None, count, 0, *to)
    fi.fi_write(client.ep, None, 0, None, 0, *to)
    assert client.done().len == 0
