"""Domains with relative addresses: the process id counts within the job. Covers ``nic/address.py``."""

from dataclasses import replace

import numpy as np
import pytest
from amoeba import EndpointAddress, Errno, Op
from amoeba.libfabric.provider.sockaddr import SockAddr
from amoeba_model.link_addresses import ip_of_link, mac_of_link

from tests.driver.endpoints import ALL_ACCESS, ON_MODEL, aligned, connect, entries, make_talker

LONG = 10_000
"""Bytes of a message that the receiver reads."""


@ON_MODEL
def test_relative_addresses_work_as_absolute_ones_do(fabric, keep):
    one, other = keep([make_talker(fabric.domain(number, relative=True)) for number in (0, 1)])
    connect(one, other)
    memory = aligned(8)
    region = keep(other.domain.mr_reg(memory, ALL_ACCESS, requested_key=5))
    one.endpoint.atomic(np.uint64(3), one.peer, region.address, region.key, Op.FI_SUM)
    one.finish()
    assert memory[0] == 3
    for size in (8, LONG):
        buffer = bytearray(size)
        other.endpoint.recv(buffer)
        one.endpoint.send(bytes(range(8)) * (size // 8), one.peer)
        entries(other.queue, 1)
        entries(one.queue, 1)
        assert bytes(buffer) == bytes(range(8)) * (size // 8)


@ON_MODEL
@pytest.mark.parametrize("relative", [False, True])
def test_an_address_of_the_other_kind_names_nobody(fabric, keep, relative):
    one, other = keep([make_talker(fabric.domain(number, relative=relative)) for number in (0, 1)])
    connect(one, other)
    region = keep(other.domain.mr_reg(aligned(8), ALL_ACCESS, requested_key=5))
    right = EndpointAddress.unpack(other.endpoint.getname())
    assert right.relative == relative
    nobody = one.peers.insert(replace(right, relative=not relative).pack())
    one.endpoint.atomic(np.uint64(1), nobody, region.address, region.key, Op.FI_SUM)
    failure = one.failure()
    assert (failure.err, one.queue.strerror(failure.prov_errno)) == (Errno.FI_ECONNREFUSED, "bad pid")


@pytest.mark.parametrize("relative", [False, True])
def test_an_address_says_of_which_kind_it_is(relative):
    address = EndpointAddress(bytes([2, 0, 0, 0, 0, 9]), 0x0A00_0009, 5, 0xFFF, 3, 2, relative)
    assert EndpointAddress.unpack(address.pack()) == address
    assert ("relative pid 4095" in str(address)) == relative
    assert address.pack()[14] >> 7 == relative


def test_an_address_says_whether_its_nic_is_an_amoeba():
    own = EndpointAddress(bytes([2, 0, 0, 0, 0, 9]), 0x0A00_0009, 5, 0xFFF, 3, 2, relative=True)
    address = replace(own, foreign=True)
    assert EndpointAddress.unpack(address.pack()) == address
    assert not EndpointAddress.unpack(own.pack()).foreign
    assert str(address) == f"foreign {own}"
    assert address.pack()[14] == own.pack()[14] | 0x40


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("foreign", [False, True])
@pytest.mark.parametrize("contexts", [1, 2, 255])
def test_the_providers_address_keeps_the_kind(relative, foreign, contexts):
    mac, ip = mac_of_link("10.0.0.9", 50_000), ip_of_link("10.0.0.9", 50_000)
    address = EndpointAddress(mac, ip, 5, 7, 3, contexts, relative, foreign)
    assert SockAddr.unpack(SockAddr.of(address.pack()).pack()).address() == address.pack()
