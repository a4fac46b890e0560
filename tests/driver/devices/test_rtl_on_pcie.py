"""The driver on the RTL's own PCI Express endpoint: transaction layer packets below everything."""

import numpy as np
import pytest
from amoeba import open_cluster
from amoeba_model.opcodes import Datatype, Op

from tests.driver.endpoints import ALL_ACCESS, connect, make_side, make_talkers
from tests.support.pcie_rtl import LINKS, SMALL

pytestmark = pytest.mark.long


@pytest.fixture(params=list(LINKS))
def fabric(request, keep):
    from amoeba_sim.rtl import PcieLink

    options = {"host": "pcie", "link": PcieLink(**LINKS[request.param]), "host_latency": 40, "stall": 0.1}
    with open_cluster(["rtl", "rtl"], SMALL, rtl_options=options) as opened:
        yield opened
        assert [fault for device in opened.devices for fault in device.faults()] == []


def test_memory_is_written_read_and_added_to(fabric, keep):
    client, server = keep((make_side(fabric.domain(0)), make_side(fabric.domain(1))))
    connect(client, server)
    memory = np.zeros(1500, np.uint64)
    region = keep(server.domain.mr_reg(memory, ALL_ACCESS))
    source = np.random.default_rng(1).integers(0, 1 << 63, 1400, np.uint64)
    client.endpoint.write(source, client.peer, region.address + 24, region.key)
    client.finish()
    expected = np.zeros(1500, np.uint64)
    expected[3:1403] = source
    assert (memory == expected).all()
    copy = np.zeros(1400, np.uint64)
    client.endpoint.read(copy, client.peer, region.address + 24, region.key)
    client.finish()
    assert (copy == source).all()
    amounts, old = np.arange(100, dtype=np.uint64), np.zeros(100, np.uint64)
    client.endpoint.fetch_atomic(
        amounts, old, client.peer, region.address + 24, region.key, datatype=Datatype.FI_UINT64, op=Op.FI_SUM
    )
    client.finish()
    assert (old == source[:100]).all()
    expected[3:103] += amounts
    assert (memory == expected).all()


def test_messages_of_one_packet_arrive(fabric, keep):
    one, other = keep(make_talkers(fabric))
    for length in (0, 1, 40, 700, 1024):
        sent, received = np.random.default_rng(length).bytes(length), bytearray(length)
        other.endpoint.recv(received)
        one.endpoint.send(sent, one.peer)
        one.finish()
        assert other.finish().len == length
        assert received == sent
