"""A server all of whose PDCs are in use: who comes too late is told so, and not left waiting."""

import numpy as np
import pytest
from amoeba import Errno, PeerError, Retransmission, open_cluster
from amoeba.core.errors import class_of
from amoeba_model.parameters import NicParameters
from amoeba_model.wire.uet import ReturnCode

from tests.driver.endpoints import ALL_ACCESS, connect, make_side


@pytest.fixture
def clients(keep):
    """(three clients of a server with two PDCs which are never idle, where they write to)."""
    with open_cluster(["model"] * 4, NicParameters(target_pdcs=2)) as fabric:
        fabric.nics[0].retransmission = Retransmission(timeout=1 << 30, limit=8)
        sides = keep([make_side(fabric.domain(number)) for number in range(4)])
        server, *clients = sides
        region = keep(server.domain.mr_reg(np.zeros(8, np.uint64), ALL_ACCESS))
        for nic, client in zip(fabric.nics[1:], clients, strict=True):
            nic.retransmission = Retransmission(timeout=2000, limit=0)
            connect(client, server)
        yield clients, (region.address, region.key)


def write(client, place):
    client.endpoint.write(bytes(8), client.peer, *place)


def test_the_client_that_finds_no_place_has_an_error_of_its_own_and_can_come_again(clients):
    (first, second, third), place = clients
    for client in (first, second):
        write(client, place)
        client.finish()
    write(third, place)
    entry = third.failure()
    assert (entry.err, entry.prov_errno) == (Errno.FI_ECONNREFUSED, ReturnCode.LOCAL_PEER_PDC_TABLE_FULL)
    assert class_of(Errno.FI_ECONNREFUSED) is PeerError
    assert third.queue.strerror(entry.prov_errno) == "local peer pdc table full"
    for client in (first, second):
        write(client, place)
        client.finish()
    first.endpoint.close()
    write(third, place)
    third.finish()


def test_all_that_was_in_flight_to_the_server_ends_with_it(clients):
    (first, second, third), place = clients
    for client in (first, second):
        write(client, place)
        client.finish()
    for _ in range(3):
        write(third, place)
    codes = [third.failure(last=number == 2).prov_errno for number in range(3)]
    assert codes == [ReturnCode.LOCAL_PEER_PDC_TABLE_FULL] * 3
    # A new attempt is one of its own.
    write(third, place)
    assert third.failure().prov_errno == ReturnCode.LOCAL_PEER_PDC_TABLE_FULL
