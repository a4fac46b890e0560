"""Address vectors as fi_av(3) describes them: vectors of addresses, and the two types.

Covers ``libfabric/objects/names.py`` and ``nic/address.py``.
"""

import ipaddress

import pytest
from amoeba import (
    FI_ADDR_NOTAVAIL,
    AvFlags,
    AvType,
    EndpointAddress,
    EqEntry,
    EqEvent,
    Errno,
    ErrorAvailableError,
    Insertion,
)
from amoeba.libfabric.objects import names as names_module

from tests.driver.endpoints import refused

pytestmark = pytest.mark.parametrize("fabric", ["model"], indirect=True)


@pytest.fixture(params=[AvType.FI_AV_TABLE, AvType.FI_AV_MAP])
def vector(request, pair, keep):
    return keep(pair[0].domain.av_open(request.param))


@pytest.fixture
def names(pair):
    """Addresses of ten endpoints on the server's NIC."""
    own = EndpointAddress.unpack(pair[1].endpoint.getname())
    return [EndpointAddress(own.mac, own.ip, own.job_id, own.pid_on_fep, n).pack() for n in range(10)]


def test_a_vector_of_addresses_gets_one_number_each(vector, names):
    assert vector.insert_all(names) == Insertion(10, tuple(range(10)), ())
    assert [vector.lookup(number) for number in range(10)] == names


def test_an_address_that_cannot_be_inserted_is_notavail_and_others_are_inserted(vector, names):
    inserted = vector.insert_all([names[0], b"bad", names[1]])
    assert inserted == Insertion(2, (0, FI_ADDR_NOTAVAIL, 1), ())
    assert len(vector) == 2
    with refused(Errno.FI_EINVAL):
        vector.lookup(FI_ADDR_NOTAVAIL)


def test_an_address_that_looks_like_that_of_another_nic_is_refused(vector, names):
    vector.insert(names[0])
    own = EndpointAddress.unpack(names[0])
    other = EndpointAddress(b"\x02other", own.ip, own.job_id, own.pid_on_fep, own.resource_index).pack()
    with refused(Errno.FI_EADDRINUSE):
        vector.insert(other)
    assert len(vector) == 1
    assert vector.insert(names[0]) == 1  # the same one twice is not


def test_sync_err_tells_the_error_of_every_address(vector, names):
    inserted = vector.insert_all([b"", names[0]], flags=AvFlags.FI_SYNC_ERR | AvFlags.FI_MORE)
    assert inserted == Insertion(1, (FI_ADDR_NOTAVAIL, 0), (Errno.FI_EINVAL, Errno.FI_SUCCESS))


def test_sync_err_tells_that_the_nic_is_full(fabric, pair, names):
    kept = 2 * (fabric.nics[0].parameters.contexts - 1)  # for the other contexts
    space = fabric.nics[0].parameters.peers - kept - len(pair[0].peers)
    inserted = pair[0].peers.insert_all(names[:1] * (space + 2), flags=AvFlags.FI_SYNC_ERR)
    assert inserted.count == space
    assert inserted.errors == (Errno.FI_SUCCESS,) * space + (Errno.FI_ENOSPC,) * 2
    assert inserted.fi_addr[space:] == (FI_ADDR_NOTAVAIL,) * 2


def test_no_addresses_are_no_error(vector):
    assert vector.insert_all([]) == Insertion(0, (), ())


def test_a_table_gives_numbers_out_again_a_map_never(vector, names):
    vector.insert_all(names[:4])
    vector.remove(1, 2)
    again = vector.insert_all(names[4:7]).fi_addr
    assert again == ((1, 2, 4) if vector.type is AvType.FI_AV_TABLE else (4, 5, 6))


def test_several_are_removed_at_once_or_none(vector, names):
    vector.insert_all(names[:4])
    for numbers in ((0, 7), (0, 0), (FI_ADDR_NOTAVAIL,)):
        with refused(Errno.FI_EINVAL):
            vector.remove(*numbers)
        assert len(vector) == 4
    vector.remove(3, 0)
    assert [vector.lookup(number) for number in (1, 2)] == names[1:3]
    assert len(vector) == 2


def test_none_is_removed_while_operations_to_one_are_in_flight(pair, target, names):
    _, region = target
    client = pair[0]
    (other,) = client.peers.insert_all(names[:1]).fi_addr
    client.endpoint.write(bytes(8), client.peer, region.address, region.key)
    with refused(Errno.FI_EBUSY):
        client.peers.remove(other, client.peer)
    assert client.peers.lookup(other) == names[0]
    client.finish()
    client.peers.remove(other, client.peer)


def test_an_address_in_words(vector, names):
    assert vector.straddr(names[3]) == "10.0.0.2 (02:00:00:00:00:02) job 1 pid 1 context 3"
    with refused(Errno.FI_EINVAL):
        vector.straddr(b"bad")


@pytest.mark.parametrize("flags", [AvFlags.FI_EVENT, AvFlags(1)])
def test_other_flags_of_an_insertion_are_refused(vector, names, flags):
    with refused(Errno.FI_EBADFLAGS):
        vector.insert_all(names, flags=flags)


def test_other_flags_of_a_vector_are_refused(pair):
    with refused(Errno.FI_EBADFLAGS):
        pair[0].domain.av_open(flags=AvFlags.FI_SYNC_ERR)


# Names


def places(vector, inserted):
    """(IPv4 address, process, context) of what was inserted."""
    found = [EndpointAddress.unpack(vector.lookup(number)) for number in inserted.fi_addr]
    return [(str(ipaddress.IPv4Address(each.ip)), each.pid_on_fep, each.resource_index) for each in found]


def test_an_endpoint_is_inserted_by_node_and_service(pair, vector):
    inserted = vector.insertsvc("10.0.0.2", "0")
    assert (inserted.count, inserted.errors) == (1, ())
    assert vector.lookup(inserted.fi_addr[0]) == pair[1].endpoint.getname()
    assert places(vector, vector.insertsvc("10.0.0.1", "9/3")) == [("10.0.0.1", 9, 3)]


def test_services_of_all_nodes_are_inserted_node_by_node(vector):
    inserted = vector.insertsym("10.0.0.1", 2, "1", 2, flags=AvFlags.FI_SYNC_ERR)
    assert inserted == Insertion(4, (0, 1, 2, 3), (Errno.FI_SUCCESS,) * 4)
    assert places(vector, inserted) == [(f"10.0.0.{node}", 1, context) for node in (1, 2) for context in (1, 2)]


def test_names_with_numbers_are_counted_up(vector, monkeypatch):
    asked = []

    def resolve(node, *_):
        asked.append(node)
        return [(0, 0, 0, "", (f"10.0.0.{int(node[4:]) - 8}", 0))]

    monkeypatch.setattr(names_module.socket, "getaddrinfo", resolve)
    inserted = vector.insertsym("host9", 2, "3/0", 1)
    assert asked == ["host9", "host10"]
    assert places(vector, inserted) == [("10.0.0.1", 3, 0), ("10.0.0.2", 3, 0)]


def test_a_node_that_is_not_found_is_an_address_that_cannot_be_inserted(vector):
    inserted = vector.insertsym("10.0.0.2", 2, "0", 1, flags=AvFlags.FI_SYNC_ERR)
    assert inserted == Insertion(1, (0, FI_ADDR_NOTAVAIL), (Errno.FI_SUCCESS, Errno.FI_ENODATA))
    for service in ("4096", "4096/0", "999999999"):
        assert vector.insertsvc("10.0.0.2", service, flags=AvFlags.FI_SYNC_ERR).errors == (Errno.FI_EINVAL,)
    assert vector.insertsym("10.0.0.1", 0, "0", 5).count == vector.insertsym("10.0.0.1", 5, "0", 0).count == 0


def test_insertions_by_name_report_to_the_event_queue(fabric, pair, keep):
    queue = keep(fabric.eq_open())
    vector = keep(pair[0].domain.av_open(flags=AvFlags.FI_EVENT))
    vector.bind(queue)
    assert vector.insertsym("10.0.0.2", 2, "0", 1, context="mine").count == 0
    with pytest.raises(ErrorAvailableError):
        queue.read()
    failure = queue.readerr()
    assert (failure.context, failure.data, failure.err) == ("mine", 1, Errno.FI_ENODATA)
    assert queue.read() == EqEntry(EqEvent.FI_AV_COMPLETE, vector, "mine", 1)


@pytest.mark.parametrize(
    ("node", "nodes", "service", "services"),
    [
        ("10.0.0.1", 1, "ssh", 1),
        ("10.0.0.1", 1, "", 1),
        ("10.0.0.1", 1, "9" * 5000, 1),
        ("10.0.0.1", -1, "0", 1),
        ("10.0.0.1", 1, "0", -1),
        ("255.255.255.255", 2, "0", 1),
        ("localhost", 2, "0", 1),
    ],
)
def test_other_names_are_refused(vector, node, nodes, service, services):
    with refused(Errno.FI_EINVAL):
        vector.insertsym(node, nodes, service, services)
    assert len(vector) == 0


def test_a_vector_by_names_reaches_its_peers(pair, target, keep):
    memory, region = target
    domain = pair[0].domain
    queue, vector = keep(domain.cq_open()), keep(domain.av_open(count=10))
    (number,) = vector.insertsvc("10.0.0.2", "0").fi_addr
    endpoint = keep(domain.endpoint(cq=queue, av=vector))
    endpoint.write(bytes([7] * 8), number, region.address, region.key)
    queue.sread(timeout=30)
    assert memory[0] == 0x0707_0707_0707_0707


def test_vectors_are_not_shared(pair):
    with refused(Errno.FI_ENOSYS):
        pair[0].domain.av_open(name="everybody's")
    with refused(Errno.FI_EINVAL):
        pair[0].domain.av_open(count=-1)
    for flags in (AvFlags.FI_READ, AvFlags.FI_SYMMETRIC):
        with refused(Errno.FI_EBADFLAGS):
            pair[0].domain.av_open(flags=flags)
