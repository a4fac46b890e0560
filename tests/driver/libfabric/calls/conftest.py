"""Two ends that C programs would have opened, and memory of one of them."""

import numpy as np
import pytest
from amoeba import DomainAttr, EpAttr, EpType, Info, fi

from tests.driver.endpoints import ALL_ACCESS
from tests.driver.libfabric.calls.c_node import Node


@pytest.fixture
def fabric(keep):
    first, *_ = fi.fi_getinfo(fi.fi_version(), None, None, 0, fi.fi_allocinfo())
    with fi.fi_fabric(first.fabric_attr) as opened:
        yield opened


@pytest.fixture
def nodes(fabric, keep):
    mr_mode = fabric.getinfo()[0].domain_attr.mr_mode
    hints = Info(ep_attr=EpAttr(type=EpType.FI_EP_RDM), domain_attr=DomainAttr(mr_mode=mr_mode))
    client, server = (Node(fabric, info, keep) for info in fabric.getinfo(hints))
    for one, other in ((client, server), (server, client)):
        assert fi.fi_av_insert(one.av, fi.fi_getname(other.ep), 1, 0).fi_addr == (0,)
    return client, server


@pytest.fixture
def client(nodes):
    return nodes[0]


@pytest.fixture
def memory():
    return np.arange(16, dtype=np.uint64)


@pytest.fixture
def mr(nodes, memory, keep):
    return keep(fi.fi_mr_reg(nodes[1].domain, memory, memory.nbytes, ALL_ACCESS, 0, 77, 0))


@pytest.fixture
def to(mr):
    """(address, key)."""
    return mr.address, fi.fi_mr_key(mr)
