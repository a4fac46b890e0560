"""fi_mr(3): keys as bytes, and calls that only some modes of registration ask for."""

from amoeba.core.errno import Errno
from amoeba.libfabric.objects.constants import MrAccess, MrMode

from amoeba_tools.conformance.expectations import expect_equal, expect_error
from amoeba_tools.conformance.pages.fi_mr import page
from amoeba_tools.conformance.pages.fi_rma import pattern
from amoeba_tools.conformance.pair import Pair

_REMOTE = MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE


@page("fi_mr_raw_attr", "Address and key of any region can be exported as bytes, at most mr_key_size.")
def keys_can_be_told_as_bytes(pair: Pair) -> None:
    """Map the bytes again: they give the region's address and key."""
    region = pair.local(bytearray(8), _REMOTE)
    address, raw = region.raw_attr()
    expect_equal("size", len(raw), pair.info.domain_attr.mr_key_size)
    expect_equal("address and key", (address, pair.domain.map_raw(address, raw)), (region.address, region.key))


@page("fi_mr_map_raw", "A raw key is mapped to one that operations take.")
def mapped_keys_reach_the_region(pair: Pair) -> None:
    """Map the key as the target would tell it; after unmapping it is mapped anew."""
    memory = pair.memory(8)
    told = memory.key.to_bytes(pair.info.domain_attr.mr_key_size, "little")
    for content in (pattern(8), pattern(8, 2)):
        key = pair.domain.map_raw(memory.address, told)
        pair.near.endpoint.write(content, memory.peer, memory.address, key)
        pair.near.finish()
        expect_equal("memory", memory.load(), content)
        pair.domain.unmap_key(key)
    with expect_error("bytes that are no key", Errno.FI_EINVAL):
        pair.domain.map_raw(memory.address, told[:-1])


@page("fi_mr_refresh", "Parts of a region are named whose pages may have changed; it goes on to be of use.")
def refreshed_regions_are_of_use(pair: Pair) -> None:
    """Refresh the whole region and a part; other memory is refused."""
    memory, buffer = pair.memory(pattern(16)), bytearray(16)
    region = pair.local(buffer, MrAccess.FI_READ)
    region.refresh()
    region.refresh([memoryview(buffer)[4:8]])
    with expect_error("other memory", Errno.FI_EINVAL):
        region.refresh([bytearray(4)])
    pair.near.endpoint.read(buffer, *memory.at(), desc=region)
    pair.near.finish()
    expect_equal("buffer", bytes(buffer), pattern(16))


@page("fi_mr_enable", "Where the mode does not ask for it, a region is enabled by its registration.")
def regions_are_enabled_from_the_start(pair: Pair) -> None:
    """Use the mode of the pair's domain; fi_mr_enable is still no error."""
    asking = pair.info.domain_attr.mr_mode & (MrMode.FI_MR_ENDPOINT | MrMode.FI_MR_RMA_EVENT)
    expect_equal("modes that ask for it", asking, MrMode(0))
    buffer, memory = bytearray(8), pair.memory(pattern(8))
    region = pair.local(buffer, MrAccess.FI_READ)
    pair.near.endpoint.read(buffer, *memory.at(), desc=region)
    pair.near.finish()
    expect_equal("buffer", bytes(buffer), pattern(8))
    region.enable()
