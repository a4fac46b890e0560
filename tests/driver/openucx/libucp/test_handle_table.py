"""Handles of libucp: what an object was made from takes its handle with it, and nothing is left of either."""

import random

import pytest
from amoeba import FabricError
from amoeba.openucx.libucp.handle_table import HandleTable
from amoeba.openucx.libucp.sockaddr import sockaddr_bytes


class Handled:
    pass


@pytest.mark.parametrize("seed", range(20))
def test_handles_end_with_their_owners(seed):
    randomness = random.Random(seed)
    handles, alive = HandleTable(), {}  # number: (subject, owner's number)
    for _ in range(200):
        if alive and randomness.random() < 0.4:
            gone = {randomness.choice(list(alive))}
            handles.remove(next(iter(gone)), Handled)
            while more := {number for number, (_, owner) in alive.items() if owner in gone} - gone:
                gone |= more
            for number in gone:
                del alive[number]
                assert not handles.has(number, Handled)
                with pytest.raises(FabricError):
                    handles.get(number, Handled)
        else:
            owner = randomness.choice([*alive, None])
            made = Handled()
            number = handles.add(made, None if owner is None else alive[owner][0])
            alive[number] = made, owner
        assert len(handles) == len(alive), f"seed {seed}"
        assert all(handles.of(made) == number for number, (made, _) in alive.items()), f"seed {seed}"
    for number in [number for number, (_, owner) in alive.items() if owner is None]:
        handles.remove(number, Handled)
    assert not len(handles)
    assert (handles._owned, handles._owners, handles._numbers_of) == ({}, {}, {})


@pytest.mark.parametrize(
    ("address", "start"),
    [
        (("10.1.2.3", 0x1234), bytes.fromhex("0200 1234 0a010203")),
        (("::1", 0x1234, 0, 5), bytes.fromhex("0a00 1234 00000000") + bytes(15) + b"\1" + bytes.fromhex("05000000")),
        (None, bytes(8)),
    ],
)
def test_socket_addresses_are_as_in_c(address, start):
    """netinet/in.h on a little-endian machine; sockaddr_storage has 128 bytes."""
    packed = sockaddr_bytes(address)
    assert packed == start.ljust(128, b"\0")


def test_objects_made_from_an_owner_are_found_by_their_kind():
    handles, owner = HandleTable(), Handled()
    handles.add(owner)
    made, other = Handled(), object()
    number = handles.add(made, owner)
    handles.add(other, owner)
    assert handles.made_from(owner, Handled) == [made]
    assert handles.made_from(made, Handled) == handles.made_from(object(), Handled) == []
    handles.remove(number, Handled)
    assert handles.made_from(owner, Handled) == []
