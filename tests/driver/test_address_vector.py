"""Address vectors as fi_av(3) describes them: vectors of addresses, and the two types."""

import pytest
from amoeba import FI_ADDR_NOTAVAIL, AvFlags, AvType, EndpointAddress, Errno, FabricError, Insertion

pytestmark = pytest.mark.parametrize("fabric", ["model"], indirect=True)


def refused(number):
    return pytest.raises(FabricError, match=f"^{number.name}: ")


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


def test_sync_err_tells_the_error_of_every_address(vector, names):
    inserted = vector.insert_all([b"", names[0]], flags=AvFlags.FI_SYNC_ERR | AvFlags.FI_MORE)
    assert inserted == Insertion(1, (FI_ADDR_NOTAVAIL, 0), (Errno.FI_EINVAL, Errno.FI_SUCCESS))


def test_sync_err_tells_that_the_nic_is_full(fabric, pair, names):
    room = fabric.nics[0].parameters.peers - len(pair[0].peers)
    inserted = pair[0].peers.insert_all(names[:1] * (room + 2), flags=AvFlags.FI_SYNC_ERR)
    assert inserted.count == room
    assert inserted.errors == (Errno.FI_SUCCESS,) * room + (Errno.FI_ENOSPC,) * 2
    assert inserted.fi_addr[room:] == (FI_ADDR_NOTAVAIL,) * 2


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


def test_none_is_removed_while_operations_to_one_are_under_way(pair, target, names):
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
