"""Handles, memory of C's, and the NIC of the process, from Python's side.

Covers ``embed/memory.py`` and ``embed/process_nic.py``.
"""

import os
import time

import pytest
from amoeba import Errno, FabricError
from amoeba.embed import Handles, Memory, process_nic
from amoeba.libfabric.objects.fabric import Fabric
from amoeba.openucx.ucp.adapter import Adapters
from hypothesis import given
from hypothesis import strategies as st

cffi = pytest.importorskip("cffi", reason="libraries for C programs need the extra amoeba-nic[c]")


def refused(errno, call, *arguments):
    with pytest.raises(FabricError) as caught:
        call(*arguments)
    assert caught.value.fi_errno == errno
    return str(caught.value)


@given(st.lists(st.booleans(), max_size=60))
def test_a_handle_is_its_objects_as_long_as_that_is_there(removals):
    handles, there, gone = Handles(), {}, set()
    for index, remove in enumerate(removals):
        if remove and there:
            number = next(iter(there))
            assert handles.remove(number, int) == there.pop(number)
            gone.add(number)
        else:
            number = handles.add(index)
            assert number not in there
            assert number not in gone
            assert number % 16 == 0
            assert 0 < number < 1 << 63
            there[number] = index
    assert {number: handles.get(number, int) for number in there} == there
    assert {number: handles.find(number) for number in (*there, *gone)} == there | dict.fromkeys(gone)
    assert sorted(handles) == sorted(there.values())
    for number in gone:
        refused(Errno.FI_EBADF, handles.get, number, int)


def test_a_handle_of_another_kind_is_none():
    handles = Handles(Errno.FI_EINVAL)
    number = handles.add("text")
    assert "that of a str" in refused(Errno.FI_EINVAL, handles.get, number, int)
    assert "0x7, which is none" in refused(Errno.FI_EINVAL, handles.remove, 7, int)
    refused(Errno.FI_EINVAL, handles.get, None, int)
    assert len(handles) == 1


def test_views_are_in_place_and_never_of_null():
    ffi = cffi.FFI()
    memory, data = Memory(ffi), ffi.new("char[8]", b"abcdefgh")
    view = memory.view(data, 4)
    view[0:2] = b"XY"
    assert bytes(memory.view(memory.address(data), 8)) == b"XYcdefgh"
    assert len(memory.view(ffi.NULL, 0)) == 0
    refused(Errno.FI_EINVAL, memory.view, ffi.NULL, 1)
    refused(Errno.FI_EINVAL, memory.view, data, -1)
    refused(Errno.FI_EINVAL, memory.view, data, 1 << 64)
    refused(Errno.FI_EINVAL, memory.require, ffi.NULL, "data")


def test_strings_are_cut_to_their_space_and_end():
    ffi = cffi.FFI()
    memory, space = Memory(ffi), ffi.new("char[8]", b"........")
    assert memory.put_string(space, 4, "hello") == 6
    assert bytes(ffi.buffer(space)) == b"hel\0...."
    assert memory.put_string(space, 0, "hello") == memory.put_string(ffi.NULL, 9, "hello") == 6
    assert memory.string(space) == "hel"
    assert memory.string(ffi.NULL) is None


def test_where_a_nic_was_another_can_be_at_once(monkeypatch):
    monkeypatch.setenv("AMOEBA_HOST", "127.0.0.3")
    port, nics = 0, []
    for _ in range(5):
        nics.append(process_nic(port))
        assert port in (0, nics[-1].link[1])
        port = nics[-1].link[1]
        time.sleep(0.03)  # until its progress thread has run it, and sleeps on its socket
        nics[-1].release()
    assert len(set(nics)) == 5


def test_all_users_of_a_process_share_its_nic_and_the_last_one_closes_it(monkeypatch):
    monkeypatch.setenv("AMOEBA_HOST", "127.0.0.3")
    first, second = process_nic(), process_nic()
    assert first is second
    assert first.link[0] == "127.0.0.3"
    assert "reached at port" in refused(Errno.FI_EADDRINUSE, process_nic, first.link[1] ^ 1)
    with Fabric([first.nic]) as fabric:
        fabric.domain(0).close()
    with Fabric([first.nic]) as fabric:
        fabric.automate()
    adapters = Adapters([first.nic], first.network)
    assert adapters[0].link[1] == first.link[1]
    adapters.close()
    first.release()
    first.rest(0)  # they have not closed it
    first.nic.advance()
    second.release()
    assert second.closed
    with pytest.raises(Exception, match="closed"):
        second.rest(0)
    third = process_nic(first.link[1])
    assert third.link == first.link
    third.release()


def test_a_child_has_a_nic_of_its_own():
    parents = process_nic()
    child = os.fork()
    if not child:
        own = process_nic()
        os._exit(0 if parents.closed and own.link != parents.link else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert not parents.closed
    parents.release()


@pytest.mark.parametrize(("device", "number"), [("model", 1), ("model", 32), ("rtl", 8)])
def test_the_environment_says_how_many_contexts_a_nic_has(monkeypatch, device, number):
    monkeypatch.setenv("AMOEBA_DEVICE", device)
    monkeypatch.setenv("AMOEBA_CONTEXTS", str(number))
    mine = process_nic()
    assert mine.nic.parameters.contexts == number
    mine.release()


def test_a_card_s_contexts_cannot_be_set(monkeypatch):
    monkeypatch.setenv("AMOEBA_DEVICE", "pcie:0000:01:00.0")
    monkeypatch.setenv("AMOEBA_CONTEXTS", "8")
    assert "contexts of pcie:0000:01:00.0 cannot be set" in refused(Errno.FI_EINVAL, process_nic)


@pytest.mark.parametrize(
    ("name", "value"),
    [("AMOEBA_PORT", "-1"), ("AMOEBA_PORT", "65536"), ("AMOEBA_PORT", "x"), ("AMOEBA_HOST", "a b")]
    + [("AMOEBA_CONTEXTS", value) for value in ("0", "33", "-1", "x", "8.0", " 8", "\u0668", "9" * 5000)],
)
def test_an_environment_that_makes_no_sense_is_named(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert name in refused(Errno.FI_EINVAL, process_nic)
