"""The calls of fi_cq(3), fi_cntr(3), fi_eq(3) and fi_poll(3).

Covers ``libfabric/calls/attributes.py`` and ``libfabric/calls/poll.py``.
"""

import select

import pytest
from amoeba import (
    FI_ADDR_NOTAVAIL,
    BindFlags,
    Control,
    CqFlags,
    CqWaitCond,
    EqEntry,
    EqFlags,
    Errno,
    ErrorAvailableError,
    TryAgainError,
    WaitObj,
    fi,
)

from tests.driver.endpoints import refused
from tests.driver.libfabric.calls.c_node import words


def test_events_of_the_application(fabric, keep):
    eq = keep(fi.fi_eq_open(fabric, fi.EqAttr(1, EqFlags.FI_WRITE, WaitObj.FI_WAIT_UNSPEC)))
    for read in (lambda: fi.fi_eq_read(eq, 0), lambda: fi.fi_eq_sread(eq, 10, 0), lambda: fi.fi_eq_readerr(eq, 0)):
        with pytest.raises(TryAgainError):
            read()
    event = EqEntry(0, None, "mine", 4)
    with refused(Errno.FI_EBADFLAGS):
        fi.fi_eq_write(eq, 1234, event, 1)
    fi.fi_eq_write(eq, 1234, event, 0)
    with refused(Errno.FI_EAGAIN):
        fi.fi_eq_write(eq, 1234, event, 0)
    assert fi.fi_eq_read(eq, EqFlags.FI_PEEK) == fi.fi_eq_read(eq, 0) == event._replace(event=1234)
    assert fi.fi_eq_strerror(eq, Errno.FI_ENOSPC) == "enospc"


def test_completion_queues(fabric, client, to):
    for read in (
        lambda: fi.fi_cq_read(client.cq, 1),
        lambda: fi.fi_cq_readfrom(client.cq, 1),
        lambda: fi.fi_cq_sread(client.cq, 1, None, 10),
        lambda: fi.fi_cq_sreadfrom(client.cq, 1, None, 0),
        lambda: fi.fi_cq_readerr(client.cq, 0),
    ):
        with pytest.raises(TryAgainError):
            read()
    fi.fi_trywait(fabric, [client.cq], 1)
    for context in range(2):
        fi.fi_write(client.ep, words(1), 8, None, 0, *to, context)
    while True:
        try:
            fi.fi_trywait(fabric, [client.cq], 1)
            fabric.devices[0].advance()
        except TryAgainError:
            break
    assert fi.fi_cq_read(client.cq, 1)[0].op_context == 0
    (entry, source), *_ = fi.fi_cq_sreadfrom(client.cq, 4, None, -1)
    assert (entry.op_context, source) == (1, FI_ADDR_NOTAVAIL)
    for read in (fi.fi_cq_sread, fi.fi_cq_sreadfrom):
        with refused(Errno.FI_EINVAL, "FI_CQ_COND_NONE"):
            read(client.cq, 1, 2, -1)
    fi.fi_cq_signal(client.cq)
    with refused(Errno.FI_ECANCELED):
        fi.fi_cq_sread(client.cq, 1, None, -1)


def test_reading_with_sources_without_waiting(client, to):
    fi.fi_write(client.ep, words(1), 8, None, 0, *to, "mine")
    while True:
        try:
            ((entry, source),) = fi.fi_cq_readfrom(client.cq, 4)
            break
        except TryAgainError:
            pass
    assert (entry.op_context, source) == ("mine", FI_ADDR_NOTAVAIL)


def test_failures(client, to):
    fi.fi_write(client.ep, words(1), 8, None, 0, to[0], to[1] ^ 1, "wrong")
    with pytest.raises(ErrorAvailableError):
        fi.fi_cq_sread(client.cq, 1, None, -1)
    with refused(Errno.FI_EBADFLAGS):
        fi.fi_cq_readerr(client.cq, 1)
    failure = fi.fi_cq_readerr(client.cq, 0)
    assert (failure.op_context, failure.err) == ("wrong", Errno.FI_ENOKEY)
    assert fi.fi_cq_strerror(client.cq, failure.prov_errno) == "bad mkey"


def test_counters(client, nodes, to, keep):
    cntr = keep(fi.fi_cntr_open(client.domain, fi.CntrAttr()))
    ep = keep(fi.fi_endpoint(client.domain, client.info))
    fi.fi_ep_bind(ep, client.cq, BindFlags.FI_TRANSMIT | BindFlags.FI_SELECTIVE_COMPLETION)
    fi.fi_ep_bind(ep, client.av, 0)
    fi.fi_ep_bind(ep, cntr, BindFlags.FI_WRITE)
    fi.fi_enable(ep)
    fi.fi_write(ep, words(1), 8, None, 0, *to)
    fi.fi_cntr_wait(cntr, 1, -1)
    with refused(Errno.FI_ETIMEDOUT):
        fi.fi_cntr_wait(cntr, 2, 10)
    fi.fi_cntr_add(cntr, 2)
    fi.fi_cntr_adderr(cntr, 3)
    assert (fi.fi_cntr_read(cntr), fi.fi_cntr_readerr(cntr)) == (3, 3)
    fi.fi_cntr_set(cntr, 8)
    fi.fi_cntr_seterr(cntr, 9)
    assert (fi.fi_cntr_read(cntr), fi.fi_cntr_readerr(cntr)) == (8, 9)


def test_a_queue_waits_for_as_many_entries_as_it_is_told(client, to, keep):
    attr = fi.CqAttr(
        wait_obj=WaitObj.FI_WAIT_UNSPEC,
        wait_cond=CqWaitCond.FI_CQ_COND_THRESHOLD,
        size=1000,
        flags=CqFlags.FI_AFFINITY,
        signaling_vector=1,
    )
    cq, ep = keep(fi.fi_cq_open(client.domain, attr)), keep(fi.fi_endpoint(client.domain, client.info))
    fi.fi_ep_bind(ep, cq, BindFlags.FI_TRANSMIT)
    fi.fi_ep_bind(ep, client.av, 0)
    fi.fi_enable(ep)
    for context in range(3):
        fi.fi_write(ep, words(1), 8, None, 0, *to, context)
    assert [entry.op_context for entry in fi.fi_cq_sread(cq, 8, 3, -1)] == [0, 1, 2]
    with pytest.raises(TryAgainError):
        fi.fi_cq_sreadfrom(cq, 8, 2, 0)
    with refused(Errno.FI_EBADFLAGS):
        fi.fi_cq_open(client.domain, fi.CqAttr(flags=1))
    with refused(Errno.FI_EBADFLAGS):
        fi.fi_cntr_open(client.domain, fi.CntrAttr(flags=1))


# fi_poll


def test_poll_sets(client, to, keep):
    pollset = keep(fi.fi_poll_open(client.domain, fi.PollAttr()))
    cntr = keep(fi.fi_cntr_open(client.domain, fi.CntrAttr()))
    fi.fi_poll_add(pollset, client.cq, 0)
    fi.fi_poll_add(pollset, cntr, 0)
    assert fi.fi_poll(pollset, 8) == []
    fi.fi_write(client.ep, words(1), 8, None, 0, *to)
    while not (found := fi.fi_poll(pollset, 8)):
        pass
    assert found == [client.cq]
    client.done()
    fi.fi_cntr_add(cntr, 1)
    assert fi.fi_poll(pollset, 8) == [cntr]
    fi.fi_poll_del(pollset, cntr, 0)
    fi.fi_cntr_add(cntr, 1)
    assert fi.fi_poll(pollset, 8) == []
    for call in (
        lambda: fi.fi_poll_add(pollset, cntr, 1),
        lambda: fi.fi_poll_del(pollset, client.cq, 1),
        lambda: fi.fi_poll_open(client.domain, fi.PollAttr(1)),
    ):
        with refused(Errno.FI_EBADFLAGS):
            call()
    keep(fi.fi_poll_open(client.domain, None))


def test_wait_sets(fabric, client, keep):
    waitset = keep(fi.fi_wait_open(fabric, fi.WaitAttr(WaitObj.FI_WAIT_FD)))
    assert fi.fi_control(waitset, Control.FI_GETWAITOBJ) is WaitObj.FI_WAIT_FD
    cntr = keep(fi.fi_cntr_open(client.domain, fi.CntrAttr(WaitObj.FI_WAIT_SET, waitset)))
    cq = keep(fi.fi_cq_open(client.domain, fi.CqAttr(wait_obj=WaitObj.FI_WAIT_SET, wait_set=waitset)))
    keep(fi.fi_eq_open(fabric, fi.EqAttr(wait_obj=WaitObj.FI_WAIT_SET, wait_set=waitset)))
    with refused(Errno.FI_ETIMEDOUT):
        fi.fi_wait(waitset, 1)
    fi.fi_trywait(fabric, [waitset], 1)
    assert not select.select([fi.fi_control(waitset, Control.FI_GETWAIT)], [], [], 0)[0]
    fi.fi_cntr_add(cntr, 1)
    fi.fi_wait(waitset, -1)
    with pytest.raises(TryAgainError):
        fi.fi_trywait(fabric, [waitset], 1)
    assert select.select([fi.fi_control(waitset, Control.FI_GETWAIT)], [], [], 0)[0]
    assert fi.fi_control(cq, Control.FI_GETWAITOBJ) is WaitObj.FI_WAIT_SET
    with refused(Errno.FI_EBADFLAGS):
        fi.fi_wait_open(fabric, fi.WaitAttr(flags=1))
