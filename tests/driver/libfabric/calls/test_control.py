"""fi_control, whose commands concern objects of several pages."""

import select

from amoeba import BindFlags, Control, DeferredWork, EndpointAddress, Errno, OpCntr, OpFlags, TriggerOp, WaitObj, fi

from tests.driver.endpoints import refused
from tests.driver.libfabric.calls.c_node import words


def test_control_of_endpoints(client, keep):
    ep = client.ep
    assert fi.fi_control(ep, Control.FI_GETOPSFLAG, BindFlags.FI_TRANSMIT) == BindFlags.FI_TRANSMIT
    flags = BindFlags.FI_TRANSMIT | OpFlags.FI_DELIVERY_COMPLETE
    fi.fi_control(ep, Control.FI_SETOPSFLAG, flags)
    assert ep.op_flags == OpFlags.FI_DELIVERY_COMPLETE
    assert fi.fi_control(ep, Control.FI_GETOPSFLAG, BindFlags.FI_TRANSMIT) == flags
    with refused(Errno.FI_EBADFLAGS):
        fi.fi_control(ep, Control.FI_GETOPSFLAG, BindFlags.FI_RECV)
    alias = keep(fi.fi_control(ep, Control.FI_ALIAS, BindFlags.FI_TRANSMIT | OpFlags.FI_COMPLETION))
    assert alias.op_flags == OpFlags.FI_COMPLETION
    other = keep(fi.fi_endpoint(client.domain, client.info))
    fi.fi_ep_bind(other, client.cq, BindFlags.FI_TRANSMIT)
    fi.fi_ep_bind(other, client.av, 0)
    fi.fi_control(other, Control.FI_ENABLE)
    assert len(fi.fi_getname(other)) == EndpointAddress.SIZE


def test_control_of_queues(client, to, keep):
    assert fi.fi_control(client.cq, Control.FI_GETWAITOBJ) is WaitObj.FI_WAIT_FD
    descriptor = fi.fi_control(client.cq, Control.FI_GETWAIT)
    fi.fi_write(client.ep, words(1), 8, None, 0, *to)
    assert select.select([descriptor], [], [], 0)[0]
    client.done()
    cntr = keep(fi.fi_cntr_open(client.domain, fi.CntrAttr(WaitObj.FI_WAIT_FD)))
    fi.fi_cntr_add(cntr, 1)
    assert select.select([fi.fi_control(cntr, Control.FI_GETWAIT)], [], [], 0)[0]


def test_control_of_work(client, keep):
    first, second = (keep(fi.fi_cntr_open(client.domain, fi.CntrAttr())) for _ in range(2))
    works = [DeferredWork(1, first, TriggerOp.FI_OP_CNTR_ADD, OpCntr(second, 1 << bit)) for bit in range(3)]
    for work in works:
        fi.fi_control(client.domain, Control.FI_QUEUE_WORK, work)
    fi.fi_control(client.domain, Control.FI_CANCEL_WORK, works[1])
    fi.fi_cntr_add(first, 1)
    assert fi.fi_cntr_read(second) == 0b101
    fi.fi_cntr_set(first, 0)
    fi.fi_control(client.domain, Control.FI_QUEUE_WORK, works[1])
    fi.fi_control(client.domain, Control.FI_FLUSH_WORK, first)
    fi.fi_cntr_add(first, 1)
    assert fi.fi_cntr_read(second) == 0b101


def test_commands_that_an_object_does_not_know(client):
    for fid, command in (
        (client.ep, Control.FI_QUEUE_WORK),
        (client.av, Control.FI_GETWAIT),
        (client.cq, Control.FI_BACKLOG),
        (client.cq, 99),
    ):
        with refused(Errno.FI_ENOSYS):
            fi.fi_control(fid, command)
