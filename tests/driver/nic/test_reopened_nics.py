"""NICs that are opened again while their peers remember them: every operation is executed, not answered from memory.

A target answers a packet that comes again from what it kept. So no Nic object may repeat the psns of another one.

Covers ``devices/addresses.py``.
"""

from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest
from amoeba import Fabric, Op
from amoeba.devices.addresses import ip_of, mac_of
from amoeba.devices.devices import DEVICE_KINDS
from amoeba.nic.nic import Nic
from amoeba_model.network import Network
from amoeba_model.nic.device import ModelDevice

from tests.driver.endpoints import ALL_ACCESS, Side, connect, make_side
from tests.driver.machines import Machines


@pytest.fixture(params=DEVICE_KINDS)
def machines(request: pytest.FixtureRequest, build_of) -> Iterator[Machines]:
    with ExitStack() as stack:
        yield Machines(request.param, build_of(request.param), stack)


def add_and_write(client: Side, server: Side, keep) -> None:
    """One fetching addition and one write, both of which must reach memory."""
    counter, words = np.full(1, 100, np.uint64), np.zeros(2, np.uint64)
    counted = keep(server.domain.mr_reg(counter, ALL_ACCESS))
    written = keep(server.domain.mr_reg(words, ALL_ACCESS))
    found, sent = np.zeros(1, np.uint64), np.array([7, 8], np.uint64)
    client.endpoint.fetch_atomic(np.uint64(1), found, client.peer, counted.address, counted.key, Op.FI_SUM)
    client.finish()
    client.endpoint.write(sent, client.peer, written.address, written.key)
    client.finish()
    assert (found[0], counter[0], words.tolist()) == (100, 101, [7, 8])


def work(fabric: Fabric, keep) -> None:
    """The same, asked by NIC 0 of NIC 1."""
    client, server = keep(make_side(fabric.domain(0))), keep(make_side(fabric.domain(1)))
    connect(client, server)
    add_and_write(client, server, keep)


def test_a2_operations_of_a_nic_that_is_opened_again_are_executed(machines, keep):
    for _ in range(3):
        with machines.open() as fabric:
            work(fabric, keep)


def test_a2_operations_are_executed_though_the_driver_before_closed_nothing(machines, keep):
    """The former driver left its contexts enabled: it was killed, or its CLOSEs after a reset took too long."""
    former = machines.open()
    work(former, keep)
    with machines.open() as fabric:
        work(fabric, keep)
    former.close()


@pytest.mark.parametrize("numbers", [(0,), (1,), (0, 1)], ids=["initiator", "target", "both"])
def test_a2_operations_after_a_reset_are_executed(machines, numbers, keep):
    for _ in range(2):
        with machines.open() as fabric:
            work(fabric, keep)
            for number in numbers:
                machines.reset(number)


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_a2_a_peer_that_stays_executes_what_a_nic_that_comes_back_asks(machines, reset, keep):
    with machines.open(1) as staying:
        server = keep(make_side(staying.domain(0)))
        for _ in range(3):
            with machines.open(0) as fabric:
                client = keep(make_side(fabric.domain(0)))
                connect(client, server)
                add_and_write(client, server, keep)
                if reset:
                    machines.reset(0)


def test_a2_a_nic_that_moves_to_another_network_executes_what_its_new_peer_asks(keep):
    server = ModelDevice()
    for _ in range(2):
        network, client = Network(), ModelDevice()
        network.attach(client, mac_of(0))
        network.attach(server, mac_of(1))
        nics = [Nic(client), Nic(server)]
        for number, nic in enumerate(nics):
            nic.set_address(mac_of(number), ip_of(number))
        with Fabric(nics) as fabric:
            work(fabric, keep)
        network.detach(server)
        network.detach(client)
