"""Memory: ucp_mem_map, _unmap, _query, _print_info, _advise, and remote keys."""

import io

import amoeba.ucp as ucp
from amoeba.core.buffers import address_of, view_of

from amoeba_tools.conformance.expectations import expect, expect_equal
from amoeba_tools.conformance.ucp.expectations import expect_status
from amoeba_tools.conformance.ucp.functions.common import INVALID, OK
from amoeba_tools.conformance.ucp.functions.rma import by_get_nb, by_put_nb, outcome
from amoeba_tools.conformance.ucp.pair import Pair
from amoeba_tools.conformance.ucp.registry import Function

mem_map = Function("ucp_mem_map", 2785)
unmap = Function("ucp_mem_unmap", 2816)
query = Function("ucp_mem_query", 2832)
print_info = Function("ucp_mem_print_info", 2847)
advise = Function("ucp_mem_advise", 2918)
pack = Function("ucp_rkey_pack", 2952)
buffer_release = Function("ucp_rkey_buffer_release", 2972)
unpack = Function("ucp_ep_rkey_unpack", 2997)
pointer = Function("ucp_rkey_ptr", 3020)
destroy = Function("ucp_rkey_destroy", 3044)

ALLOCATE, FIXED = ucp.UCP_MEM_MAP_ALLOCATE, ucp.UCP_MEM_MAP_FIXED
REJECTED = ucp.UcsStatus.UCS_ERR_REJECTED
Params = ucp.ucp_mem_map_params_t


@mem_map.says(
    2717,
    "If the application specifies NULL as an address for the memory segment, the routine allocates a "
    "mapped memory segment and returns its address in the address_p argument.",
)
def memory_is_allocated(pair: Pair) -> None:
    """Expect at least the requested length; a peer reads and writes the memory."""
    memh = ucp.ucp_mem_map(pair.far.context, Params(length=100, flags=ALLOCATE))
    pair.keep(lambda: ucp.ucp_mem_unmap(pair.far.context, memh))
    found = ucp.ucp_mem_query(memh, ucp.ucp_mem_attr_t())
    assert found.address is not None
    assert found.length is not None
    expect(found.length >= 100, f"expected at least 100 bytes, got {found.length}")
    rkey = ucp.ucp_ep_rkey_unpack(pair.near.ep, ucp.ucp_rkey_pack(pair.far.context, memh)[0])
    pair.keep(lambda: ucp.ucp_rkey_destroy(rkey))
    expect_equal("put", outcome(pair, by_put_nb, pair.near.ep, b"allocated", 9, found.address, rkey), OK)
    back = bytearray(9)
    expect_equal("get", outcome(pair, by_get_nb, pair.near.ep, back, 9, found.address, rkey), OK)
    expect_equal("bytes", bytes(back), b"allocated")


@mem_map.says(
    2762,
    "register means that the memory will be registered in corresponding transports for RMA/AMO operations.",
)
def memory_is_registered_where_it_is(pair: Pair) -> None:
    """Register its first bytes: a put to them is visible, one behind them is refused."""
    held = bytearray(20)
    memh = ucp.ucp_mem_map(pair.far.context, Params(address=held, length=16))
    pair.keep(lambda: ucp.ucp_mem_unmap(pair.far.context, memh))
    rkey = ucp.ucp_ep_rkey_unpack(pair.near.ep, ucp.ucp_rkey_pack(pair.far.context, memh)[0])
    pair.keep(lambda: ucp.ucp_rkey_destroy(rkey))
    start = address_of(view_of(held))
    expect_equal("put", outcome(pair, by_put_nb, pair.near.ep, b"here", 4, start + 12, rkey), OK)
    expect_equal(
        "behind it", outcome(pair, by_put_nb, pair.near.ep, b"here", 4, start + 13, rkey), ucp.UCS_ERR_INVALID_ADDR
    )
    expect_equal("memory", bytes(held), bytes(12) + b"here" + bytes(4))


@mem_map.says(2774, "error is an erroneous combination of the parameters.")
def wrong_combinations_are_errors(pair: Pair) -> None:
    """Use no address without ALLOCATE, FIXED without it or without an address, no length."""
    held = bytearray(4096)
    for params in (
        Params(length=16),
        Params(length=16, flags=FIXED),
        Params(length=16, flags=ALLOCATE | FIXED),
        Params(address=held, length=16, flags=FIXED),
        Params(address=held),
        Params(address=held, length=5000),
    ):
        with expect_status(f"{params}", INVALID):
            ucp.ucp_mem_map(pair.far.context, params)


@mem_map.says(
    543,
    "The enumeration list describes the memory mapping protections supported by the ucp_mem_map() function.",
)
def rights_are_kept(pair: Pair) -> None:
    """Write memory that peers may only read, which stays; and the other way round."""
    local = ucp.UCP_MEM_MAP_PROT_LOCAL_READ | ucp.UCP_MEM_MAP_PROT_LOCAL_WRITE
    for right, reads, writes in (
        (ucp.UCP_MEM_MAP_PROT_REMOTE_READ, OK, REJECTED),
        (ucp.UCP_MEM_MAP_PROT_REMOTE_WRITE, REJECTED, OK),
    ):
        region = pair.memory(8, prot=local | right)
        place = (8, region.address, region.rkey)
        expect_equal(f"{right!r}: put", outcome(pair, by_put_nb, pair.near.ep, b"12345678", *place), writes)
        expect_equal(f"{right!r}: get", outcome(pair, by_get_nb, pair.near.ep, bytearray(8), *place), reads)


@mem_map.says(2737, "The memh_p handle returned may be used with any sub-region of the mapped memory.")
def memory_can_be_mapped_twice(pair: Pair) -> None:
    """Map memory twice: each mapping has its own key, and one stays valid when the other is unmapped."""
    held = bytearray(16)
    one, other = (ucp.ucp_mem_map(pair.far.context, Params(address=held, length=16)) for _ in range(2))
    rkey = ucp.ucp_ep_rkey_unpack(pair.near.ep, ucp.ucp_rkey_pack(pair.far.context, other)[0])
    pair.keep(lambda: ucp.ucp_rkey_destroy(rkey))
    ucp.ucp_mem_unmap(pair.far.context, one)
    start = address_of(view_of(held))
    expect_equal("put", outcome(pair, by_put_nb, pair.near.ep, b"part", 4, start + 6, rkey), OK)
    expect_equal("memory", bytes(held), bytes(6) + b"part" + bytes(6))
    ucp.ucp_mem_unmap(pair.far.context, other)


@unmap.says(
    2796,
    "When the function returns, the ucp_mem_h and associated remote key will be invalid and cannot be used"
    " with any UCP routine.",
)
def unmapped_memory_cannot_be_used(pair: Pair) -> None:
    """Use unmapped memory by handle: INVALID_PARAM; by key: REJECTED, and the bytes stay."""
    region = pair.memory(b"stay")
    ucp.ucp_mem_unmap(pair.far.context, region.memh)
    with expect_status("query", INVALID):
        ucp.ucp_mem_query(region.memh, ucp.ucp_mem_attr_t())
    with expect_status("unmapping it again", INVALID):
        ucp.ucp_mem_unmap(pair.far.context, region.memh)
    expect_equal("put", outcome(pair, by_put_nb, pair.near.ep, b"gone", 4, region.address, region.rkey), REJECTED)
    expect_equal("memory", bytes(region.view), b"stay")


@unmap.says(2810, "Application context which was used to allocate/map the memory.")
def memory_is_unmapped_by_its_context(pair: Pair) -> None:
    """Unmap by another context: INVALID_PARAM, and the memory stays mapped."""
    region = pair.memory(8)
    with expect_status("another context", INVALID):
        ucp.ucp_mem_unmap(pair.near.context, region.memh)
    expect_equal("put", outcome(pair, by_put_nb, pair.near.ep, b"12345678", 8, region.address, region.rkey), OK)


@query.says(2823, "This routine returns address and length of memory segment mapped with ucp_mem_map() routine.")
def address_and_length_are_told(pair: Pair) -> None:
    """Expect exactly those of registered memory; only the fields of the mask are filled."""
    held = bytearray(48)
    memh = ucp.ucp_mem_map(pair.far.context, Params(address=held, length=40))
    pair.keep(lambda: ucp.ucp_mem_unmap(pair.far.context, memh))
    found = ucp.ucp_mem_query(memh, ucp.ucp_mem_attr_t())
    expect_equal("attributes", (found.address, found.length), (address_of(view_of(held)), 40))
    expect_equal("kind", found.mem_type, ucp.UCS_MEMORY_TYPE_HOST)
    masked = ucp.ucp_mem_query(memh, ucp.ucp_mem_attr_t(field_mask=ucp.UCP_MEM_ATTR_FIELD_LENGTH))
    expect_equal("length alone", (masked.address, masked.length), (None, 40))


@print_info.says(
    2839,
    "This routine maps memory and prints information about the created memory handle: including the mapped"
    " memory length, the allocation method, and other useful information associated with the memory "
    "handle.",
)
def mapped_memory_is_printed(pair: Pair) -> None:
    """Print the memory's length; an invalid size is INVALID_PARAM."""
    stream = io.StringIO()
    ucp.ucp_mem_print_info("8K", pair.far.context, stream)
    expect("8192" in stream.getvalue(), f"expected 8192, got {stream.getvalue()!r}")
    with expect_status("a size", INVALID):
        ucp.ucp_mem_print_info("many", pair.far.context, stream)


@advise.says(
    2904, "This call does not influence the semantics of the application, but may influence its performance."
)
def advice_changes_nothing(pair: Pair) -> None:
    """Check that bytes and keys are as before."""
    region = pair.memory(b"advised!")
    given = ucp.ucp_mem_advise_params_t(address=region.address, length=8, advice=ucp.UCP_MADV_WILLNEED)
    ucp.ucp_mem_advise(pair.far.context, region.memh, given)
    back = bytearray(8)
    expect_equal("get", outcome(pair, by_get_nb, pair.near.ep, back, 8, region.address, region.rkey), OK)
    expect_equal("bytes", bytes(back), b"advised!")


@advise.says(2914, "The memory range must belong to the memh")
def advice_is_about_mapped_memory(pair: Pair) -> None:
    """Use advice beyond it, and incomplete advice, which are INVALID_PARAM."""
    region = pair.memory(8)
    for given in (
        ucp.ucp_mem_advise_params_t(address=region.address, length=9, advice=ucp.UCP_MADV_NORMAL),
        ucp.ucp_mem_advise_params_t(address=region.address - 1, length=2, advice=ucp.UCP_MADV_NORMAL),
        ucp.ucp_mem_advise_params_t(address=region.address, advice=ucp.UCP_MADV_NORMAL),
    ):
        with expect_status(f"{given}", INVALID):
            ucp.ucp_mem_advise(pair.far.context, region.memh, given)


@pack.says(2927, "RKEY is an opaque object that provides the information that is necessary for remote memory access.")
def a_packed_key_is_enough(pair: Pair) -> None:
    """Unpack the bytes of a key from another buffer, twice; each memory has its own key."""
    region, other = pair.memory(8), pair.memory(8)
    packed = ucp.ucp_rkey_pack(pair.far.context, region.memh)[0]
    expect(packed != ucp.ucp_rkey_pack(pair.far.context, other.memh)[0], "two memories have one key")
    for _ in range(2):
        rkey = ucp.ucp_ep_rkey_unpack(pair.near.ep, bytes(bytearray(packed)))
        expect_equal("put", outcome(pair, by_put_nb, pair.near.ep, b"12345678", 8, region.address, rkey), OK)
        ucp.ucp_rkey_destroy(rkey)
    expect_equal("memories", (bytes(region.view), bytes(other.view)), (b"12345678", bytes(8)))


@pack.says(2943, "Application context which was used to allocate/map the memory.")
def a_key_is_packed_by_its_context(pair: Pair) -> None:
    """Pack by another context, and of invalid memory: INVALID_PARAM."""
    region = pair.memory(8)
    for context, memh in ((pair.near.context, region.memh), (pair.far.context, None)):
        with expect_status(f"{memh!r}", INVALID):
            ucp.ucp_rkey_pack(context, memh)[0]  # type: ignore[arg-type]  # that is what is tried


@buffer_release.says(2960, "This routine releases the buffer that was allocated using ucp_rkey_pack().")
def a_packed_key_is_released(pair: Pair) -> None:
    """Use the unpacked key afterwards; a value that is no packed key is INVALID_PARAM."""
    region = pair.memory(8)
    packed = ucp.ucp_rkey_pack(pair.far.context, region.memh)[0]
    rkey = ucp.ucp_ep_rkey_unpack(pair.near.ep, packed)
    ucp.ucp_rkey_buffer_release(packed)
    expect_equal("put", outcome(pair, by_put_nb, pair.near.ep, b"12345678", 8, region.address, rkey), OK)
    ucp.ucp_rkey_destroy(rkey)
    with expect_status("no key", INVALID):
        ucp.ucp_rkey_buffer_release(b"key")


@unpack.says(
    2979,
    "This routine unpacks the remote key (RKEY) object into the local memory such that it can be accessed "
    "and used by UCP routines. The RKEY object has to be packed using the ucp_rkey_pack() routine.",
)
def only_packed_keys_are_unpacked(pair: Pair) -> None:
    """Pass invalid bytes, and too few bytes: INVALID_PARAM."""
    packed = ucp.ucp_rkey_pack(pair.far.context, pair.memory(8).memh)[0]
    for what in (b"", packed[:-1], bytes(len(packed))):
        with expect_status(f"{what!r}", INVALID):
            ucp.ucp_ep_rkey_unpack(pair.near.ep, what)


@unpack.says(
    2988,
    "The remote key object can be used for communications only on the endpoint on which it was unpacked.",
)
def a_key_is_of_one_endpoint(pair: Pair) -> None:
    """Use the key on another endpoint: INVALID_PARAM, and nothing is written."""
    near, _far = pair.couple()
    region = pair.memory(8)
    with expect_status("another endpoint", INVALID):
        ucp.ucp_put_nb(near.ep, b"12345678", 8, region.address, region.rkey, None)
    expect_equal("memory", bytes(region.view), bytes(8))


@pointer.says(3005, "This routine returns a local pointer to the remote memory described by the rkey.")
def memory_of_this_process_is_seen(pair: Pair) -> None:
    """Get a view from the address to the end; writes through the view reach the memory."""
    region = pair.memory(b"contents")
    view = ucp.ucp_rkey_ptr(region.rkey, region.address + 3)
    expect_equal("view", bytes(view), b"tents")
    view[0] = ord("T")
    expect_equal("memory", bytes(region.view), b"conTents")


@pointer.says(
    3017,
    "Error code as defined by ucs_status_t if the remote memory cannot be accessed directly or the remote "
    "memory address is not valid.",
)
def addresses_outside_are_invalid(pair: Pair) -> None:
    """Use addresses before and behind the memory; unmapped memory is UNREACHABLE."""
    region = pair.memory(8)
    for address in (region.address - 1, region.address + 9):
        with expect_status("outside", ucp.UcsStatus.UCS_ERR_INVALID_ADDR):
            ucp.ucp_rkey_ptr(region.rkey, address)
    ucp.ucp_mem_unmap(pair.far.context, region.memh)
    with expect_status("unmapped", ucp.UcsStatus.UCS_ERR_UNREACHABLE):
        ucp.ucp_rkey_ptr(region.rkey, region.address)


@destroy.says(
    3027,
    "This routine destroys the RKEY object and the memory that was allocated using the ucp_ep_rkey_unpack() routine.",
)
def a_destroyed_key_cannot_be_used(pair: Pair) -> None:
    """Destroy it again, too, which fails; another key of the same memory goes on."""
    region = pair.memory(8)
    other = ucp.ucp_ep_rkey_unpack(pair.near.ep, ucp.ucp_rkey_pack(pair.far.context, region.memh)[0])
    ucp.ucp_rkey_destroy(other)
    with expect_status("destroying it again", INVALID):
        ucp.ucp_rkey_destroy(other)
    with expect_status("put", INVALID):
        ucp.ucp_put_nb(pair.near.ep, b"12345678", 8, region.address, other, None)
    expect_equal("put", outcome(pair, by_put_nb, pair.near.ep, b"12345678", 8, region.address, region.rkey), OK)
