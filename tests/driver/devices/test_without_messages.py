"""NICs that have an initiator and no receives: they send messages and refuse those of peers."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from amoeba import BindFlags, Caps, EpType, Fabric, Info, MrAccess, UnsupportedError, open_cluster, ucp
from amoeba_model.parameters import BUILDS
from amoeba_model.registers import Counter

from tests.driver.openucx.ucp.entities import Entity, finish

BUILD = replace(BUILDS["tiny"], receives=0, unexpected=0)
WAYS = BindFlags.FI_TRANSMIT | BindFlags.FI_RECV


@pytest.fixture
def fabric() -> Iterator[Fabric]:
    """NIC 0 has messages, NIC 1 has none."""
    with open_cluster(("model", "model"), (BUILDS["tiny"], BUILD)) as opened:
        yield opened


def refused(call: Callable[[], object]) -> None:
    with pytest.raises(UnsupportedError, match=r"model \(128-bit.*has no receives: it refuses the messages"):
        call()


def test_it_sends_messages_writes_and_atomics_as_any_other(fabric: Fabric) -> None:
    one, other = fabric.domain(0), fabric.domain(1)
    memory = np.zeros(4, np.uint64)
    with (
        one.mr_reg(memory, MrAccess.FI_REMOTE_WRITE) as region,
        one.cq_open() as arrived, one.av_open() as peers, one.endpoint(cq=arrived, av=peers, cq_flags=WAYS) as there,
        other.cq_open() as sent, other.av_open() as av, other.endpoint(cq=sent, av=av) as endpoint,
    ):  # fmt: skip
        place = av.insert(there.getname())
        peers.insert(endpoint.getname())
        for message in (b"short", bytes(range(256)) * 20):
            buffer = bytearray(len(message))
            there.recv(buffer)
            endpoint.send(message, place)
            arrived.sread(1)
            sent.sread(1)
            assert buffer == message
        endpoint.write(bytes(range(32)), place, region.address, region.key)
        sent.sread(1)
        assert memory.tobytes() == bytes(range(32))
    one.close(), other.close()


def test_nothing_that_would_receive_is_opened_and_nothing_is_lost(fabric: Fabric) -> None:
    domain = fabric.domain(1)
    with domain.cq_open() as queue, domain.av_open() as addresses:
        for _ in range(3):  # more often than there are contexts
            refused(lambda: domain.endpoint(cq=queue, av=addresses, cq_flags=WAYS))
            refused(lambda: domain.srx_context(64))
        endpoints = [domain.endpoint(cq=queue, av=addresses) for _ in range(BUILD.contexts)]
        for endpoint in endpoints:
            endpoint.close()
    domain.close()


def test_it_is_offered_without_receives(fabric: Fabric) -> None:
    offers = [offer for offer in fabric.getinfo() if offer.domain_attr.name == "amoeba1"]
    assert [offer.ep_attr.type for offer in offers] == [EpType.FI_EP_RDM, EpType.FI_EP_MSG, EpType.FI_EP_DGRAM]
    for offer in offers:
        assert Caps.FI_MSG | Caps.FI_TAGGED | Caps.FI_SEND in offer.caps
        assert not (offer.caps | offer.rx_attr.caps) & (Caps.FI_RECV | Caps.FI_MULTI_RECV | Caps.FI_DIRECTED_RECV)
        assert offer.rx_attr.total_buffered_recv == 0
    assert {offer.domain_attr.name for offer in fabric.getinfo(Info(caps=Caps.FI_MSG | Caps.FI_RECV))} == {"amoeba0"}


@pytest.mark.parametrize("feature", ["TAG", "AM", "STREAM"])
def test_a_ucp_worker_that_receives_is_refused_and_leaves_its_contexts(feature: str) -> None:
    with contextlib.closing(ucp.open_adapters(("model",), BUILD)) as adapters:
        params = ucp.ucp_params_t(features=ucp.UCP_FEATURE_RMA | getattr(ucp, f"UCP_FEATURE_{feature}"))
        context = ucp.ucp_init(params, adapter=adapters[0])
        for _ in range(3):
            with pytest.raises(ucp.UcsError, match="has no receives") as caught:
                ucp.ucp_worker_create(context, ucp.ucp_worker_params_t())
            assert caught.value.status is ucp.UcsStatus.UCS_ERR_UNSUPPORTED
        assert len(adapters[0].nic.contexts.free) == BUILD.contexts
        ucp.ucp_cleanup(context)


def test_ucp_reaches_its_memory_and_reports_messages_to_it_as_unsupported() -> None:
    with contextlib.closing(ucp.open_adapters(("model", "model"), (BUILDS["tiny"], BUILD))) as adapters:
        client = Entity(adapters[0], ucp.UCP_FEATURE_RMA | ucp.UCP_FEATURE_TAG)
        server = Entity(adapters[1], ucp.UCP_FEATURE_RMA)
        memory = bytearray(64)
        handle = ucp.ucp_mem_map(server.context, ucp.ucp_mem_map_params_t(address=memory, length=64))
        ep = client.connect(server)
        address = ucp.ucp_mem_query(handle, ucp.ucp_mem_attr_t()).address
        key = ucp.ucp_ep_rkey_unpack(ep, ucp.ucp_rkey_pack(server.context, handle)[0])
        data = bytes(range(64))
        assert finish(ucp.ucp_put_nbx(ep, data, 64, address, key), client, server) is ucp.UcsStatus.UCS_OK
        assert finish(ucp.ucp_ep_flush_nbx(ep), client, server) is ucp.UcsStatus.UCS_OK
        assert memory == data
        size = 2 * BUILD.payload  # a request ends with what became of the message
        status = finish(ucp.ucp_tag_send_nbx(ep, bytes(size), size, 5, None), client, server)
        assert status is ucp.UcsStatus.UCS_ERR_UNSUPPORTED
        assert adapters[1].nic.counters()[Counter.MESSAGES_UNEXPECTED] == 0
