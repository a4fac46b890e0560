"""The calls of fi_cm(3)."""

import pytest
from amoeba import BindFlags, Control, EndpointOption, EpAttr, EpType, EqEvent, Errno, Info, OptionLevel, WaitObj, fi

from tests.driver.endpoints import refused


@pytest.fixture
def calling(fabric, client, keep):
    """(endpoint that can connect, its event queue)."""
    eq = keep(fi.fi_eq_open(fabric, fi.EqAttr(wait_obj=WaitObj.FI_WAIT_FD)))
    return _connectable(client, eq, MSG, keep), eq


MSG = Info(ep_attr=EpAttr(type=EpType.FI_EP_MSG))


def _connectable(node, eq, info, keep):
    ep = keep(fi.fi_endpoint(node.domain, info))
    fi.fi_ep_bind(ep, node.cq, BindFlags.FI_TRANSMIT | BindFlags.FI_RECV)
    fi.fi_ep_bind(ep, eq, 0)
    return ep


def test_connections(fabric, nodes, calling, keep):
    ep, eq = calling
    pep = keep(fi.fi_passive_ep(fabric, MSG))
    fi.fi_pep_bind(pep, eq, 0)
    fi.fi_setname(pep, ("127.0.0.1", 0), 2)
    fi.fi_control(pep, Control.FI_BACKLOG, 1)
    assert pep.backlog == 1
    fi.fi_listen(pep)
    option = (OptionLevel.FI_OPT_ENDPOINT, EndpointOption.FI_OPT_CM_DATA_SIZE)
    assert fi.fi_getopt(pep, *option) == fi.fi_getopt(ep, *option) == 1024

    def event(kind):
        found = fi.fi_eq_sread(eq, 30_000, 0)
        assert found.event is kind
        return found

    fi.fi_connect(ep, fi.fi_getname(pep), b"pleased", 6)
    request = event(EqEvent.FI_CONNREQ)
    assert request.data == b"please"
    fi.fi_reject(pep, request.info.handle, None, 0)
    with refused(Errno.FI_EAVAIL):
        fi.fi_eq_sread(eq, 30_000, 0)
    assert fi.fi_eq_readerr(eq, 0).err is Errno.FI_ECONNREFUSED

    fi.fi_connect(ep, fi.fi_getname(pep), None, 0)
    other = _connectable(nodes[1], eq, event(EqEvent.FI_CONNREQ).info, keep)
    fi.fi_enable(other)
    fi.fi_accept(other, b"welcome", 7)
    found = event(EqEvent.FI_CONNECTED)
    assert (found.fid, found.data) == (ep, b"welcome")
    assert event(EqEvent.FI_CONNECTED).fid is other
    assert fi.fi_getpeer(ep) == fi.fi_getname(other)
    fi.fi_recv(other, buffer := bytearray(5), 5, None, 0, "received")
    fi.fi_send(ep, b"hello", 5, None, 0, "sent")
    nodes[1].done("received")
    nodes[0].done("sent")
    assert buffer == b"hello"
    fi.fi_shutdown(ep, 0)
    assert event(EqEvent.FI_SHUTDOWN).fid is other


def test_what_cannot_be_connected_is_refused(fabric, client, calling, keep):
    ep, eq = calling
    for call in (
        lambda: fi.fi_connect(client.ep, ("127.0.0.1", 1), None, 0),
        lambda: fi.fi_accept(client.ep, None, 0),
        lambda: fi.fi_shutdown(client.ep, 0),
        lambda: fi.fi_getpeer(client.ep),
    ):
        with refused(Errno.FI_EOPNOTSUPP):
            call()
    pep = keep(fi.fi_passive_ep(fabric, MSG))
    for call in (lambda: fi.fi_pep_bind(pep, eq, 1), lambda: fi.fi_shutdown(ep, 1)):
        with refused(Errno.FI_EBADFLAGS):
            call()
    for call in (
        lambda: fi.fi_setname(pep, ("127.0.0.1", 0), 16),
        lambda: fi.fi_connect(ep, ("127.0.0.1", 1), b"four", 5),
        lambda: fi.fi_ep_bind(keep(fi.fi_endpoint(client.domain, client.info)), eq, 0),
    ):
        with refused(Errno.FI_EINVAL):
            call()
