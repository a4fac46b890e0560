"""The calls of fi_endpoint(3)."""

import dataclasses

import pytest
from amoeba import (
    FI_ADDR_UNSPEC,
    FI_SHARED_CONTEXT,
    INJECT_SIZE,
    MAX_MESSAGE,
    BindFlags,
    Datatype,
    EndpointAddress,
    EndpointOption,
    EpAttr,
    EpType,
    Errno,
    ErrorAvailableError,
    Op,
    OpFlags,
    RxAttr,
    TriggeredContext,
    TxAttr,
    WaitObj,
    fi,
)

from tests.driver.endpoints import refused
from tests.driver.libfabric.calls.c_node import words

U64 = Datatype.FI_UINT64


def test_options_and_space(client, to):
    assert fi.fi_getopt(client.ep, 0, EndpointOption.FI_OPT_MAX_RMA_SIZE) == MAX_MESSAGE
    assert fi.fi_getopt(client.ep, 0, EndpointOption.FI_OPT_INJECT_RMA_SIZE) == INJECT_SIZE
    with fi.fi_endpoint(client.domain, client.info) as ep:
        fi.fi_setopt(ep, 0, EndpointOption.FI_OPT_TX_SIZE, 32)
        assert fi.fi_getopt(ep, 0, EndpointOption.FI_OPT_TX_SIZE) == 32
    fi.fi_write(client.ep, words(1), 8, None, 0, *to)
    assert fi.fi_tx_size_left(client.ep) == client.ep.tx_size - 1
    assert fi.fi_rx_size_left(client.ep) == client.info.rx_attr.size
    client.done()


def test_aliases(client, memory, to):
    alias = fi.fi_ep_alias(client.ep, BindFlags.FI_TRANSMIT | OpFlags.FI_COMPLETION)
    fi.fi_atomic(alias, words(1), 1, None, 0, *to, U64, Op.FI_SUM, "alias")
    client.done("alias")
    for flags in (0, BindFlags.FI_RECV, BindFlags.FI_RECV | BindFlags.FI_TRANSMIT):
        with refused(Errno.FI_EBADFLAGS):
            fi.fi_ep_alias(client.ep, flags)
    fi.fi_close(alias)
    assert alias.closed
    assert not client.ep.closed


def test_what_waits_for_a_counter_is_cancelled(client, memory, to, keep):
    cntr = keep(fi.fi_cntr_open(client.domain, fi.CntrAttr()))
    context = TriggeredContext(cntr, 1)
    with fi.fi_ep_alias(client.ep, BindFlags.FI_TRANSMIT | OpFlags.FI_TRIGGER) as alias:
        fi.fi_write(alias, words(1), 8, None, 0, *to, context)
        fi.fi_cancel(alias, context)
    with pytest.raises(ErrorAvailableError):
        fi.fi_cq_read(client.cq, 1)
    assert fi.fi_cq_readerr(client.cq, 0).err == Errno.FI_ECANCELED


def test_several_contexts(fabric, keep, nodes, memory, mr, to):
    server = nodes[1]
    info = dataclasses.replace(nodes[0].info, ep_attr=EpAttr(type=EpType.FI_EP_RDM, tx_ctx_cnt=2, rx_ctx_cnt=1))
    domain = keep(fi.fi_domain(fabric, info))
    sep = keep(fi.fi_scalable_ep(domain, info))
    av = keep(fi.fi_av_open(domain, fi.AvAttr()))
    with refused(Errno.FI_EBADFLAGS):
        fi.fi_scalable_ep_bind(sep, av, 1)
    fi.fi_scalable_ep_bind(sep, av, 0)
    first, second = keep(fi.fi_tx_context(sep, 0, None)), keep(fi.fi_tx_context(sep, 1, TxAttr(size=32)))
    receiver = keep(fi.fi_rx_context(sep, 0, RxAttr(size=5)))
    assert (second.tx_size, receiver.rx_size) == (32, 5)
    assert fi.fi_rx_size_left(receiver) == 5
    cq = keep(fi.fi_cq_open(domain, fi.CqAttr(wait_obj=WaitObj.FI_WAIT_UNSPEC)))
    cntr = keep(fi.fi_cntr_open(domain, fi.CntrAttr()))
    for context in (first, second):
        fi.fi_ep_bind(context, cq, BindFlags.FI_TRANSMIT)
    fi.fi_ep_bind(first, cntr, BindFlags.FI_WRITE)
    fi.fi_ep_bind(receiver, cq, BindFlags.FI_RECV)
    for context, fid in ((first, av), (receiver, av)):
        with refused(Errno.FI_EINVAL, "is bound to"):
            fi.fi_ep_bind(context, fid, 0)
    fi.fi_enable(second)
    fi.fi_enable(sep)
    peer = fi.fi_av_insert(av, fi.fi_getname(server.ep), 1, 0).fi_addr[0]
    for context in (first, second):
        fi.fi_atomic(context, words(1), 1, None, peer, *to, U64, Op.FI_SUM, context)
        assert fi.fi_cq_sread(cq, 1, None, -1)[0].op_context is context
    assert (memory[0], fi.fi_cntr_read(cntr)) == (2, 1)
    assert EndpointAddress.unpack(fi.fi_getname(sep)).contexts == 3
    fi.fi_close(fi.fi_fabric(info.fabric_attr))


def test_a_shared_context(client, nodes, memory, to, keep):
    stx = keep(fi.fi_stx_context(client.domain, TxAttr(size=16)))
    info = dataclasses.replace(client.info, ep_attr=EpAttr(type=EpType.FI_EP_RDM, tx_ctx_cnt=FI_SHARED_CONTEXT))
    ep = keep(fi.fi_endpoint(client.domain, info))
    for fid in (stx, client.cq, client.av):
        fi.fi_ep_bind(ep, fid, BindFlags.FI_TRANSMIT)
    fi.fi_enable(ep)
    fi.fi_write(ep, words(8), 8, None, 0, *to, "shared")
    client.done("shared")
    assert memory[0] == 8
    assert keep(fi.fi_stx_context(client.domain, None)).tx_size == 256


def test_a_shared_receive_context(client, nodes, keep):
    server, domain = nodes[1], nodes[1].domain
    srx = keep(fi.fi_srx_context(domain, RxAttr(size=16)))
    info = dataclasses.replace(client.info, ep_attr=EpAttr(type=EpType.FI_EP_RDM, rx_ctx_cnt=FI_SHARED_CONTEXT))
    ep = keep(fi.fi_endpoint(domain, info))
    for fid, flags in ((srx, 0), (server.cq, BindFlags.FI_TRANSMIT | BindFlags.FI_RECV), (server.av, 0)):
        fi.fi_ep_bind(ep, fid, flags)
    fi.fi_enable(ep)
    peer = fi.fi_av_insert(client.av, fi.fi_getname(ep), 1, 0).fi_addr[0]
    fi.fi_recv(srx, buffer := bytearray(4), 4, None, FI_ADDR_UNSPEC, "shared")
    fi.fi_trecv(srx, bytearray(4), 4, None, FI_ADDR_UNSPEC, 1, 0, "unwanted")
    assert fi.fi_rx_size_left(srx) == 14
    fi.fi_cancel(srx, "unwanted")
    fi.fi_send(client.ep, b"text", 4, None, peer, "sent")
    client.done("sent")
    found = {}
    while len(found) < 2:
        try:
            entry = fi.fi_cq_sread(server.cq, 1, None, -1)[0]
        except ErrorAvailableError:
            entry = fi.fi_cq_readerr(server.cq, 0)
        found[entry.op_context] = getattr(entry, "err", 0)
    assert (found, buffer) == ({"shared": 0, "unwanted": Errno.FI_ECANCELED}, b"text")
    with refused(Errno.FI_EOPNOTSUPP):
        fi.fi_recv(ep, buffer, 4, None, FI_ADDR_UNSPEC)
    with refused(Errno.FI_EINVAL, "endpoints are bound to"):
        fi.fi_ep_bind(srx, server.cq, BindFlags.FI_RECV)
    assert keep(fi.fi_srx_context(domain, None)).rx_size == 256
