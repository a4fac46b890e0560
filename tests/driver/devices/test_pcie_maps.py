"""Byte grants to maps of the IOMMU: against a naive model, under type 1's rules.

Covers ``devices/pcie/maps.py``.
"""

import errno
import os

import pytest
from amoeba.devices.pcie.maps import PAGE, PageMaps
from amoeba_model.device import DeviceError
from hypothesis import given, settings
from hypothesis import strategies as st

SPACE = 64 * PAGE
BASE = 1 << 40
RANGES = ((0, 0xFEDF_FFFF), (0xFEF0_0000, (1 << 48) - 1))


class Type1:
    """The kernel's rules. Memory has generations: a map names those that its pages had when it was made."""

    def __init__(self, read_only=(), most=1 << 20):
        self.maps = {}
        """(size, address, writable, generations) by iova."""
        self.memory = {}
        """Generation by page."""
        self.read_only = set(read_only)
        self.most = most
        self.made = self.taken = 0

    def map(self, iova, address, size, writable):
        assert size > 0
        assert (iova | address | size) % PAGE == 0, "whole pages"
        for start, (length, *_) in self.maps.items():
            if start < iova + size and iova < start + length:
                raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
        if len(self.maps) >= self.most:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        pages = range(address, address + size, PAGE)
        if writable and self.read_only & set(pages):
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
        self.maps[iova] = size, address, writable, {page: self.memory.get(page, 0) for page in pages}
        self.made += 1

    def unmap(self, iova, size):
        assert self.maps[iova][0] == size, "a map goes as a whole"
        del self.maps[iova]
        self.taken += 1

    def page(self, iova):
        """(address, writable, generation) of what the NIC sees in the page at ``iova``; None if that is nothing."""
        for start, (size, address, writable, generations) in self.maps.items():
            if start <= iova < start + size:
                place = address + iova - start
                return place, writable, generations[place]
        return None


def make(**options):
    kernel = Type1(**options)
    return kernel, PageMaps(kernel.map, kernel.unmap, RANGES)


def pages_of(iova, length):
    return range(iova // PAGE * PAGE, iova + length, PAGE)


@st.composite
def grants(draw):
    start = draw(st.integers(0, SPACE - 1))
    length = draw(st.integers(1, 200) | st.integers(1, SPACE))
    return BASE + start, min(length, SPACE - start), draw(st.booleans())


STEPS = st.lists(st.one_of(grants(), st.integers(0, 99), st.just("churn")), max_size=40)
"""A new grant, a revoked grant, or unused memory that becomes other memory."""


@settings(max_examples=300, deadline=None)
@given(STEPS, st.sets(st.integers(0, 63), max_size=3))
def test_the_nic_sees_the_memory_that_is_granted_now_and_none_that_was(steps, read_only):
    kernel, maps = make(read_only={BASE + page * PAGE for page in read_only})
    made = []
    for step in steps:
        if isinstance(step, tuple):
            iova, length, writable = step
            impossible = writable and kernel.read_only & set(pages_of(iova, length))
            if impossible:
                with pytest.raises(OSError, match="Bad address"):
                    maps.grant(iova, length, writable=True, address=iova)
            else:
                maps.grant(iova, length, writable=writable, address=iova)
                made.append(step)
        elif step == "churn":
            used = {page for iova, length, _ in made for page in pages_of(iova, length)}
            for page in range(BASE, BASE + SPACE, PAGE):
                if page not in used:
                    kernel.memory[page] = kernel.memory.get(page, 0) + 1
        elif made:
            iova, length, _ = made.pop(step % len(made))
            maps.revoke(iova, length)
        wanted = {}
        for iova, length, writable in made:
            for page in pages_of(iova, length):
                wanted[page] = wanted.get(page, False) or writable
        for page, writable in wanted.items():
            address, may_write, generation = kernel.page(page)
            assert (address, generation) == (page, kernel.memory.get(page, 0))
            assert may_write >= writable
        # What is mapped beyond that is part of a map that goes as a whole, of which something is in use.
        for start, (size, *_) in kernel.maps.items():
            assert any(start <= page < start + size for page in wanted)
    for iova, length, _ in made:
        maps.revoke(iova, length)
    assert (kernel.maps, maps.pinned, len(maps)) == ({}, 0, 0)


def test_a_page_that_buffers_share_stays_as_long_as_one_of_them_is_used():
    kernel, maps = make()
    maps.grant(BASE + 8, 64, writable=False, address=BASE + 8)
    maps.grant(BASE + 100, 64, writable=True, address=BASE + 100)
    maps.grant(BASE + 8, 64, writable=False, address=BASE + 8)
    assert kernel.made == 1
    maps.revoke(BASE + 8, 64)
    maps.revoke(BASE + 100, 64)
    assert kernel.page(BASE) is not None
    maps.revoke(BASE + 8, 64)
    assert kernel.maps == {}
    with pytest.raises(DeviceError, match="never granted"):
        maps.revoke(BASE + 8, 64)


def test_a_large_region_is_one_map_and_its_edges_which_others_may_share():
    kernel, maps = make()
    maps.grant(BASE + 100, 40 * PAGE, writable=True, address=BASE + 100)
    assert {start: size for start, (size, *_) in kernel.maps.items()} == {
        BASE: PAGE, BASE + PAGE: 39 * PAGE, BASE + 40 * PAGE: PAGE
    }  # fmt: skip
    maps.grant(BASE + 40 * PAGE + 3000, 50, writable=True, address=BASE + 40 * PAGE + 3000)
    maps.revoke(BASE + 100, 40 * PAGE)
    assert list(kernel.maps) == [BASE + 40 * PAGE]
    assert maps.pinned == PAGE


def test_operations_on_part_of_a_region_that_goes_keep_the_map_they_have():
    kernel, maps = make()
    maps.grant(BASE, 32 * PAGE, writable=True, address=BASE)
    maps.grant(BASE + 5 * PAGE, 64, writable=True, address=BASE + 5 * PAGE)
    maps.revoke(BASE, 32 * PAGE)
    assert (kernel.made, kernel.taken) == (1, 0)
    maps.revoke(BASE + 5 * PAGE, 64)
    assert kernel.maps == {}


def test_new_memory_in_what_is_left_of_a_map_is_the_new_memory():
    kernel, maps = make()
    maps.grant(BASE, 32 * PAGE, writable=True, address=BASE)
    maps.grant(BASE + 5 * PAGE, 64, writable=True, address=BASE + 5 * PAGE)
    maps.revoke(BASE, 32 * PAGE)
    kernel.memory[BASE + 9 * PAGE] = 1
    maps.grant(BASE + 9 * PAGE, 8, writable=True, address=BASE + 9 * PAGE)
    assert kernel.page(BASE + 9 * PAGE) == (BASE + 9 * PAGE, True, 1)
    assert kernel.page(BASE + 5 * PAGE) == (BASE + 5 * PAGE, True, 0)
    assert kernel.page(BASE) is None


def test_what_cannot_be_mapped_whole_is_not_mapped_at_all():
    kernel, maps = make(most=3)
    maps.grant(BASE, 8, writable=True, address=BASE)
    with pytest.raises(OSError, match="No space"):
        maps.grant(BASE + PAGE, 4 * PAGE, writable=True, address=BASE + PAGE)
    assert list(kernel.maps) == [BASE]
    maps.grant(BASE + PAGE, 2 * PAGE, writable=True, address=BASE + PAGE)


@pytest.mark.parametrize("iova", [0xFEE0_0000, 0xFEDF_FFF8, (1 << 48) - 8, 1 << 60])
def test_addresses_that_the_iommu_does_not_have_are_refused_before_the_kernel_is_asked(iova):
    kernel, maps = make()
    with pytest.raises(DeviceError, match="not among the IOMMU's addresses: 0x0 to 0xfedfffff"):
        maps.grant(iova, 16, writable=True, address=iova)
    assert kernel.made == 0


def test_memory_may_have_another_address_for_the_nic_in_the_same_place_of_a_page():
    kernel, maps = make()
    maps.grant(BASE + 16, 8, writable=True, address=(3 << 30) + 16)
    assert kernel.page(BASE) == (3 << 30, True, 0)
    with pytest.raises(DeviceError, match="cannot also lie at"):
        maps.grant(BASE + 16, 8, writable=True, address=BASE + 16)
    with pytest.raises(DeviceError, match="same place in a page"):
        maps.grant(BASE + PAGE, 8, writable=True, address=BASE + 8)
    with pytest.raises(DeviceError, match="positive length"):
        maps.grant(BASE, 0, writable=True, address=BASE)
