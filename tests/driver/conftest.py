"""Two NICs on one network, and objects to program them with."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import pytest
from amoeba import Fabric, open_cluster
from amoeba.devices import DEVICE_KINDS
from sides import ALL_ACCESS, Side, connect, make_side, make_talkers

T = TypeVar("T")


@pytest.fixture
def keep() -> Callable[[T], T]:
    """Holds what a test opens until the fabric has closed it; dropped open, it would warn."""
    kept = []

    def hold(thing: T) -> T:
        kept.append(thing)
        return thing

    return hold


@pytest.fixture(params=DEVICE_KINDS)
def fabric(request, keep) -> Iterator[Fabric]:
    """Two NICs of the same kind."""
    with open_cluster([request.param] * 2, rtl_options={"host_latency": 40}) as opened:
        yield opened
        if not opened.closed:
            assert [fault for device in opened.devices for fault in device.faults()] == []


@pytest.fixture
def pair(fabric) -> tuple[Side, Side]:
    """(client, server), connected."""
    client, server = make_side(fabric.domain(0)), make_side(fabric.domain(1))
    connect(client, server)
    return client, server


@pytest.fixture
def talkers(fabric) -> tuple[Side, Side]:
    """Two sides that send and receive messages, connected."""
    return make_talkers(fabric)


@pytest.fixture
def target(pair):
    """(memory, region): 64 words of the server's, open to everything, memory[i] = i."""
    memory = np.arange(64, dtype=np.uint64)
    return memory, pair[1].domain.mr_reg(memory, ALL_ACCESS)
