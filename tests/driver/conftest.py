"""Two NICs on one network, and objects to program them with."""

from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

import numpy as np
import pytest
from amoeba import CqFormat, Fabric, WaitObj, open_cluster
from amoeba.devices.devices import DEVICE_KINDS
from amoeba_model.parameters import NicParameters

from tests.driver.automatic import all_threads_of_progress, threads_of_others
from tests.driver.connections import Party, listen
from tests.driver.connections import connect as connect_parties
from tests.driver.endpoints import ALL_ACCESS, Side, connect, make_side, make_talkers
from tests.driver.shared_receives import Office, make_office

T = TypeVar("T")


@pytest.fixture(autouse=True)
def own_threads() -> None:
    """Threads of automatic progress that run already are not the test's."""
    threads_of_others[:] = all_threads_of_progress()


@pytest.fixture
def keep() -> Callable[[T], T]:
    """Holds what a test opens until the fabric has closed it; dropped open, it would warn."""
    kept = []

    def hold(thing: T) -> T:
        kept.append(thing)
        return thing

    return hold


@pytest.fixture
def build_of(rtl_parameters) -> Callable[[Collection[str]], NicParameters | None]:
    """A function: the build of NICs of one kind or several, which on models alone is the default one."""
    return lambda kinds: rtl_parameters if "rtl" in kinds else None


@pytest.fixture(params=DEVICE_KINDS)
def fabric(request, keep, build_of) -> Iterator[Fabric]:
    """Two NICs of the same kind."""
    with open_cluster([request.param] * 2, build_of(request.param), rtl_options={"host_latency": 40}) as opened:
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
def office(fabric, keep) -> Office:
    """Two endpoints that share receives."""
    return make_office(fabric, keep)


@pytest.fixture
def target(pair):
    """(memory, region): 64 words of the server's, open to everything, memory[i] = i."""
    memory = np.arange(64, dtype=np.uint64)
    return memory, pair[1].domain.mr_reg(memory, ALL_ACCESS)


@pytest.fixture
def two_models():
    """A fabric of them, for what does not depend on the NIC."""
    with open_cluster(["model"] * 2) as opened:
        yield opened


@pytest.fixture
def party(two_models):
    """A function that makes a party on the NIC with this index."""
    made = []

    def make(nic, wait_obj=WaitObj.FI_WAIT_UNSPEC, **options):
        domain = two_models.domain(nic, **options)
        events, queue = two_models.eq_open(wait_obj=wait_obj), domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED)
        made.append(Party(domain, events, queue))
        return made[-1]

    return make


@pytest.fixture
def client(party):
    return party(0)


@pytest.fixture
def server(party):
    return party(1)


@pytest.fixture
def passive(two_models, keep, server):
    """The server listens."""
    return listen(two_models, keep, server)


@pytest.fixture
def ends(client, server, passive):
    """(endpoint that called, endpoint that answered), connected."""
    return connect_parties(client, server, passive)
