"""fi_mr(3): memory regions, and what they protect."""

import mmap
from collections.abc import Callable

import numpy as np
from amoeba.core.errno import Errno
from amoeba.core.errors import ErrorAvailableError
from amoeba.libfabric.objects.constants import (
    FI_KEY_NOTAVAIL,
    BindFlags,
    DomainFlags,
    EqEvent,
    MrAccess,
    MrFlags,
    MrMode,
    Op,
)
from amoeba.libfabric.objects.domain import MrAttr
from amoeba.libfabric.objects.queues.event_queue import EqEntry

from amoeba_tools.conformance.expectations import expect, expect_equal, expect_error
from amoeba_tools.conformance.pages.fi_rma import pattern
from amoeba_tools.conformance.pair import REMOTE, Initiator, Pair
from amoeba_tools.conformance.registry import Page

page = Page("fi_mr", "1.17", needs={"rma"})

_LONG = 10_000
"""Bytes that no frame holds."""
_KEY = 0x1234_5678_9ABC_DEF0
_SCALABLE = MrMode(0)


def _refused(near: Initiator, what: str, target: tuple[int, int, int], size: int, *errors: Errno) -> None:
    """See that a write and a read there fail, and that the read leaves its buffer alone."""
    near.endpoint.write(pattern(size), *target, context=what)
    expect_equal("op_context", near.failure(*errors).op_context, what)
    result = bytearray(b"\xee" * size)
    near.endpoint.read(result, *target, context=what)
    expect_equal("op_context", near.failure(*errors).op_context, what)
    expect_equal(f"{what}: the buffer of a read that failed", bytes(result), b"\xee" * size)


# Rights


@page("access: FI_REMOTE_WRITE", "Only with it may peers write.")
def writes_need_remote_write(pair: Pair) -> None:
    """Write to a region that peers may only read: every byte stays."""
    memory = pair.memory(pattern(64), MrAccess.FI_REMOTE_READ)
    for size in (1, 8, 64):
        pair.near.endpoint.write(bytes(size), *memory.at())
        pair.near.failure(Errno.FI_EACCES)
    expect_equal("memory", memory.load(), pattern(64))


@page("access: FI_REMOTE_READ", "Only with it may peers read.")
def reads_need_remote_read(pair: Pair) -> None:
    """Read a region that peers may only write: the buffer stays."""
    memory, result = pair.memory(pattern(64), MrAccess.FI_REMOTE_WRITE), bytearray(b"\xee" * 64)
    for size in (1, 8, 64):
        pair.near.endpoint.read(memoryview(result)[:size], *memory.at())
        pair.near.failure(Errno.FI_EACCES)
    expect_equal("result", bytes(result), b"\xee" * 64)


@page("access", "A region without remote access is of no use to peers.")
def regions_for_local_use_are_closed_to_peers(pair: Pair) -> None:
    """Register one for local reads and writes only."""
    memory = pair.memory(pattern(8), MrAccess.FI_READ | MrAccess.FI_WRITE)
    _refused(pair.near, "a region for local use", memory.at(), 8, Errno.FI_EACCES, Errno.FI_ENOKEY)
    expect_equal("memory", memory.load(), pattern(8))


@page("access: FI_WRITE, FI_READ", "Locally, a region is a source with FI_WRITE, and a result buffer with FI_READ.")
def local_use_needs_the_right_access(pair: Pair) -> None:
    """Use the wrong access: the call is refused, although the page would allow more lenient providers."""
    memory = pair.memory(8)
    source, result = bytearray(pattern(8)), bytearray(8)
    readable, writable = pair.local(result, MrAccess.FI_READ), pair.local(source, MrAccess.FI_WRITE)
    with expect_error("a source that is a result buffer", Errno.FI_EACCES):
        pair.near.endpoint.write(result, *memory.at(), desc=readable)
    with expect_error("a result buffer that is a source", Errno.FI_EACCES):
        pair.near.endpoint.read(source, *memory.at(), desc=writable)
    pair.near.endpoint.write(source, *memory.at(), desc=writable)
    pair.near.endpoint.read(result, *memory.at(), desc=readable)
    pair.near.finish_all(2)
    expect_equal("result", bytes(result), pattern(8))


@page("FI_MR_LOCAL", "Where it is not required, local buffers need not be registered.")
def local_buffers_need_no_region(pair: Pair) -> None:
    """Use unregistered buffers of any kind and any length."""
    expect(MrMode.FI_MR_LOCAL not in pair.info.domain_attr.mr_mode, "FI_MR_LOCAL is required: the kit gives no desc")
    memory = pair.memory(_LONG)
    for size in (1, 100, _LONG):
        result = bytearray(size)
        pair.near.endpoint.write(pattern(size), *memory.at())
        pair.near.endpoint.read(result, *memory.at())
        pair.near.finish_all(2)
        expect_equal(f"{size} bytes", bytes(result), pattern(size))


@page("fi_mr_desc", "The buffer lies in the region that its descriptor is of.")
def buffers_outside_their_descriptor_are_refused(pair: Pair) -> None:
    """Use one byte over the region's end; nothing is written."""
    memory, buffer = pair.memory(16), bytearray(16)
    region = pair.local(memoryview(buffer)[:8], MrAccess.FI_WRITE)
    with expect_error("a buffer that ends behind its region", Errno.FI_EINVAL, Errno.FI_EACCES):
        pair.near.endpoint.write(memoryview(buffer)[:9], *memory.at(), desc=region)
    pair.near.nothing_more()


# Keys and bounds


@page("fi_mr_reg", "Accesses of peers must give the key of the registration.")
def a_wrong_key_is_refused(pair: Pair) -> None:
    """Use neighbours of the right key, and others; nothing is written, nothing is read."""
    memory = pair.memory(pattern(8))
    peer, address, key = memory.at()
    for wrong in (key ^ 1, key ^ (1 << 63), key ^ 0x1_0001, (key + 1) % FI_KEY_NOTAVAIL):
        _refused(pair.near, f"key {wrong:#x}", (peer, address, wrong), 8, Errno.FI_ENOKEY, Errno.FI_EKEYREJECTED)
    expect_equal("memory", memory.load(), pattern(8))


@page("fi_mr_reg", "Accesses must lie within the region.")
def accesses_outside_the_region_are_refused(pair: Pair) -> None:
    """Access one byte before it, one after it, and far away; not even the part inside is written."""
    memory = pair.memory(pattern(64))
    for offset, size in ((-1, 8), (57, 8), (64, 1), (-8, 8), (1 << 40, 8), (0, 65)):
        peer, address, key = memory.at()
        target = peer, (address + offset) % 2**64, key
        _refused(pair.near, f"{size} bytes at {offset}", target, size, Errno.FI_EINVAL, Errno.FI_EACCES)
    expect_equal("memory", memory.load(), pattern(64))


@page("fi_mr_reg", "Accesses must lie within the region.")
def accesses_around_the_end_of_the_address_space_are_refused(pair: Pair) -> None:
    """Access eight bytes that begin four bytes before 2**64."""
    memory = pair.memory(pattern(8))
    target = memory.peer, 2**64 - 4, memory.key
    _refused(pair.near, "eight bytes at 2**64 - 4", target, 8, Errno.FI_EINVAL, Errno.FI_EACCES)
    expect_equal("memory", memory.load(), pattern(8))


@page("fi_mr_reg", "Accesses may reach to the last byte of the region.")
def the_last_byte_is_within_the_region(pair: Pair) -> None:
    """Access the last byte alone, everything up to the last byte, and no bytes at the end."""
    memory = pair.memory(33)
    pair.near.endpoint.write(b"\x11", *memory.at(32))
    pair.near.finish()
    expect_equal("memory", memory.load(), bytes(32) + b"\x11")
    pair.near.endpoint.write(pattern(33), *memory.at())
    pair.near.endpoint.write(b"", *memory.at(33))
    pair.near.finish_all(2)
    expect_equal("memory", memory.load(), pattern(33))


@page("fi_mr_reg", "A message that touches what it may not fails as one operation.")
def long_accesses_over_the_end_fail_once(pair: Pair) -> None:
    """Use many frames, of which only the last is out of bounds: one error entry, nothing behind the region."""
    memory, result = pair.memory(_LONG), bytearray(_LONG + 1)
    pair.near.endpoint.write(pattern(_LONG + 1), *memory.at())
    pair.near.failure(Errno.FI_EINVAL, Errno.FI_EACCES)
    pair.near.endpoint.read(result, *memory.at())
    pair.near.failure(Errno.FI_EINVAL, Errno.FI_EACCES)
    pair.near.nothing_more()


@page("DESCRIPTION", "A region belongs to the domain it was registered with.")
def regions_of_another_domain_are_out_of_reach(pair: Pair) -> None:
    """Use the right key by an endpoint of the target's other domain, in both directions."""
    own, foreign = pair.memory(pattern(8)), pair.memory(pattern(8), domain=1)
    errors = Errno.FI_EACCES, Errno.FI_ENOKEY
    _refused(pair.near, "the second domain's region", (pair.peer, foreign.address, foreign.key), 8, *errors)
    _refused(pair.near, "the first domain's region", (foreign.peer, own.address, own.key), 8, *errors)
    expect_equal("memory", [own.load(), foreign.load()], [pattern(8)] * 2)


@page("fi_mr_key", "The key of a region is returned; it is not FI_KEY_NOTAVAIL, and no two are the same.")
def every_region_has_a_key_of_its_own(pair: Pair) -> None:
    """Register twenty-four, each written through its own."""
    memories = [pair.memory(8) for _ in range(24)]
    keys = {memory.key for memory in memories}
    expect(len(keys) == 24 and FI_KEY_NOTAVAIL not in keys, f"expected 24 keys, got {sorted(keys)}")
    for first in range(0, 24, 12):
        for index in range(first, first + 12):
            pair.near.endpoint.write(pattern(8, index), *memories[index].at())
        pair.near.finish_all(12)
    expect_equal("memory", [memory.load() for memory in memories], [pattern(8, index) for index in range(24)])


@page("DESCRIPTION", "The same memory may be registered more than once, with different rights.")
def two_regions_of_the_same_memory_have_rights_of_their_own(pair: Pair) -> None:
    """Register on this side, where both keys are at hand."""
    buffer = bytearray(pattern(8))
    one = pair.local(buffer, MrAccess.FI_WRITE | MrAccess.FI_REMOTE_READ)
    two = pair.local(buffer, MrAccess.FI_READ | MrAccess.FI_REMOTE_WRITE)
    expect(one.key != two.key, f"expected two keys, got {one.key:#x} twice")
    memory = pair.memory(8)
    pair.near.endpoint.write(buffer, *memory.at(), desc=one)
    pair.near.endpoint.read(buffer, *memory.at(), desc=two)
    pair.near.finish_all(2)
    with expect_error("a result in the region for sources", Errno.FI_EACCES):
        pair.near.endpoint.read(buffer, *memory.at(), desc=one)


# Modes


@page("FI_MR_PROV_KEY", "Without it, the application chooses the key.")
def the_requested_key_is_used(pair: Pair) -> None:
    """Register at the target, whose memory is reached by the key."""
    memory = pair.memory(8, key=_KEY)
    expect_equal("key", memory.key, _KEY)
    pair.near.endpoint.write(pattern(8), pair.peer, memory.address, _KEY)
    pair.near.finish()
    expect_equal("memory", memory.load(), pattern(8))


@page("requested_key", "A key that is in use cannot be requested again: FI_ENOKEY.")
def a_key_in_use_is_refused(pair: Pair) -> None:
    """Request it again, even for other memory; the first region is as it was."""
    memory = pair.memory(8, key=_KEY)
    with expect_error("the same key", Errno.FI_ENOKEY):
        pair.memory(8, key=_KEY)
    pair.near.endpoint.write(pattern(8), *memory.at())
    pair.near.finish()
    expect_equal("memory", memory.load(), pattern(8))


@page("requested_key", "A key may be used again when its region has been closed.")
def a_key_is_free_again_after_close(pair: Pair) -> None:
    """Register the key anew: it leads to the new region, not to the old one."""
    old = pair.memory(8, key=_KEY)
    old.withdraw()
    new = pair.memory(8, key=_KEY)
    pair.near.endpoint.write(pattern(8), *new.at())
    pair.near.finish()
    expect_equal("memory of the old and the new region", [old.load(), new.load()], [bytes(8), pattern(8)])


@page("FI_MR_PROV_KEY", "With it, keys come from the provider, and requests are ignored.")
def requested_keys_are_ignored_where_the_provider_chooses(pair: Pair) -> None:
    """Register two regions that ask for the same key."""
    domain = pair.other_domain(MrMode.FI_MR_VIRT_ADDR | MrMode.FI_MR_ALLOCATED | MrMode.FI_MR_PROV_KEY)
    regions = [pair.keep(domain.mr_reg(bytearray(8), REMOTE, requested_key=_KEY)) for _ in range(2)]
    expect(regions[0].key != regions[1].key, f"expected two keys, got {regions[0].key:#x} twice")


@page("FI_MR_VIRT_ADDR", "With it, peers give virtual addresses.")
def regions_are_addressed_by_virtual_address(pair: Pair) -> None:
    """Check that the region's address is that of its memory, for memory of this process."""
    with mmap.mmap(-1, mmap.PAGESIZE) as buffer:
        region = pair.domain.mr_reg(buffer, REMOTE)
        expect_equal("offset of the address in its page", region.address % mmap.PAGESIZE, 0)
        inner = pair.domain.mr_reg(memoryview(buffer)[100:], REMOTE)
        expect_equal("distance of two addresses", inner.address - region.address, 100)
        inner.close()
        region.close()


@page("Default Memory Registration", "Without FI_MR_VIRT_ADDR, addresses are offsets into the region.")
def regions_are_addressed_by_offset_without_virt_addr(pair: Pair) -> None:
    """Access the first byte at 0, also of a second region; accesses beyond the last byte fail."""
    one, two = pair.memory(64, domain=1), pair.memory(64, domain=1)
    expect_equal("addresses", (one.address, two.address), (0, 0))
    pair.near.endpoint.write(pattern(16), one.peer, 3, one.key)
    pair.near.endpoint.write(pattern(64, 2), two.peer, 0, two.key)
    pair.near.finish_all(2)
    expect_equal("memory", one.load(), bytes(3) + pattern(16) + bytes(45))
    expect_equal("memory of the second region", two.load(), pattern(64, 2))
    _refused(pair.near, "an offset over the end", (one.peer, 60, one.key), 8, Errno.FI_EINVAL, Errno.FI_EACCES)


@page("Default Memory Registration", "A domain without any mode gives keys as asked for, and offsets.")
def scalable_registration_is_there(pair: Pair) -> None:
    """Register on this side."""
    region = pair.keep(pair.other_domain(_SCALABLE).mr_reg(bytearray(8), REMOTE, requested_key=_KEY))
    expect_equal("address and key", (region.address, region.key), (0, _KEY))


@page("access", "Memory without write access may be read-only.")
def read_only_buffers_can_be_registered_for_reading(pair: Pair) -> None:
    """Use immutable bytes, as a source and for peers to read; not for peers to write."""
    content = pattern(8)
    region, memory = pair.local(content, MrAccess.FI_WRITE | MrAccess.FI_REMOTE_READ), pair.memory(8)
    pair.near.endpoint.write(content, *memory.at(), desc=region)
    pair.near.finish()
    expect_equal("memory", memory.load(), content)
    with expect_error("read-only memory for peers to write", Errno.FI_EINVAL, Errno.FI_EACCES):
        pair.local(content, MrAccess.FI_REMOTE_WRITE)


# Closing


@page("fi_close", "Access to a region that has been closed is an error at the peer.")
def closed_regions_are_out_of_reach(pair: Pair) -> None:
    """Check that the closed region's memory stays, and that the endpoints still work."""
    memory, other = pair.memory(pattern(8)), pair.memory(8)
    memory.withdraw()
    _refused(pair.near, "a closed region", memory.at(), 8, Errno.FI_ENOKEY, Errno.FI_EKEYREJECTED)
    expect_equal("memory", memory.load(), pattern(8))
    pair.near.endpoint.write(pattern(8, 3), *other.at())
    pair.near.finish()
    expect_equal("memory of another region", other.load(), pattern(8, 3))


@page("fi_close", "Operations on a region that is being closed succeed or fail; nothing else happens.")
def a_region_may_be_closed_under_traffic(pair: Pair) -> None:
    """Close the region under sixteen outstanding long writes: each completes, with or without error."""
    memory, other, outcomes = pair.memory(_LONG), pair.memory(8), []
    for index in range(8):
        pair.near.endpoint.write(pattern(_LONG, index), *memory.at(), context=index)
    pair.near.queue.read(0)
    memory.withdraw()
    for index in range(8, 16):
        pair.near.endpoint.write(pattern(_LONG, index), *memory.at(), context=index)
    for _ in range(16):
        outcomes.append(_outcome(pair.near))
    expect_equal("contexts", sorted(context for context, _ in outcomes), list(range(16)))
    late = [context for context, succeeded in outcomes if succeeded and context >= 8]
    expect_equal("writes that were posted after the close, and succeeded", late, [])
    pair.near.endpoint.write(pattern(8), *other.at())
    pair.near.finish()
    expect_equal("memory of another region", other.load(), pattern(8))


def _outcome(near: Initiator) -> tuple[int, bool]:
    """Return the context of the next operation that ends, and whether the operation succeeded."""
    try:
        (entry,) = near.queue.sread(1, near.patience)
    except ErrorAvailableError:
        return near.failure(Errno.FI_ENOKEY, Errno.FI_EKEYREJECTED).op_context, False
    return entry.op_context, True


# Events


@page("DESCRIPTION", "With FI_REG_MR, the end of a registration is an event: FI_MR_COMPLETE.")
def registration_reports_its_end_as_an_event(pair: Pair) -> None:
    """Expect the region and the context of the call; a registration that fails reports nothing."""
    queue = pair.keep(pair.fabric.eq_open())
    domain = pair.other_domain(_SCALABLE)
    domain.bind(queue, DomainFlags.FI_REG_MR)
    region = pair.keep(domain.mr_reg(bytearray(8), REMOTE, requested_key=_KEY, context="mine"))
    with expect_error("the same key", Errno.FI_ENOKEY):
        domain.mr_reg(bytearray(8), REMOTE, requested_key=_KEY)
    expect_equal("event", queue.read(), EqEntry(EqEvent.FI_MR_COMPLETE, region, "mine", 0))
    expect_equal("further events", queue.read(), None)


@page("fi_mr_reg", "A region is registered with an access; none, and unknown ones, are refused.")
def senseless_access_is_refused(pair: Pair) -> None:
    """Use no bits, and a bit that means something elsewhere."""
    for access in (MrAccess(0), MrAccess(int(BindFlags.FI_TRANSMIT) << 20)):
        with expect_error(f"access {access!r}", Errno.FI_EINVAL, Errno.FI_EBADFLAGS):
            pair.local(bytearray(8), access)


# Other ways to register


@page("fi_mr_regv, fi_mr_regattr", "The calls register as fi_mr_reg does, up to mr_iov_limit buffers.")
def regions_are_registered_by_vectors_and_attributes(pair: Pair) -> None:
    """Register by each of the calls a region that is written to; one buffer too many is refused."""
    own, memory = pair.introduce(pair.near.endpoint), bytearray(24)
    view = memoryview(memory)
    regions = [
        pair.keep(pair.domain.mr_reg(view[:8], REMOTE)),
        pair.keep(pair.domain.mr_regv([view[8:16]], REMOTE)),
        pair.keep(pair.domain.mr_regattr(MrAttr([view[16:]], REMOTE))),
    ]
    for seed, region in enumerate(regions):
        pair.near.endpoint.write(pattern(8, seed), own, region.address, region.key)
    pair.near.finish_all(3)
    expect_equal("memory", bytes(memory), b"".join(pattern(8, seed) for seed in range(3)))
    most = pair.info.domain_attr.mr_iov_limit
    with expect_error(f"{most + 1} buffers", Errno.FI_EINVAL, Errno.FI_ENOSYS):
        pair.domain.mr_regv([view[:8]] * (most + 1), REMOTE)


@page("fi_mr_bind", "A counter bound to a region counts what peers do by its key.")
def accesses_to_a_region_are_counted(pair: Pair) -> None:
    """Count writes and reads apart; another region of the same memory is not counted."""
    own, memory = pair.introduce(pair.near.endpoint), bytearray(8)
    writes, reads = (pair.keep(pair.domain.cntr_open()) for _ in range(2))
    region, other = (pair.local(memory, REMOTE) for _ in range(2))
    region.bind(writes, BindFlags.FI_REMOTE_WRITE)
    region.bind(reads, BindFlags.FI_REMOTE_READ)
    for target in (region, other, region):
        pair.near.endpoint.write(pattern(8), own, target.address, target.key)
    pair.near.endpoint.read(bytearray(8), own, region.address, region.key)
    writes.wait(2, pair.patience)
    reads.wait(1, pair.patience)
    pair.near.finish_all(4)
    expect_equal("writes and reads", (writes.read(), reads.read()), (2, 1))


@page("fi_mr_bind: FI_REMOTE_WRITE", "Writes and atomics that modify the region are counted.", needs={"atomic"})
def whatever_may_change_a_region_is_counted(pair: Pair) -> None:
    """Count a write, a base, a fetching and a failing comparing atomic, but neither plain nor atomic reads."""
    own, memory, found = pair.introduce(pair.near.endpoint), np.zeros(1, np.uint64), np.zeros(1, np.uint64)
    writes, reads, both = (pair.keep(pair.domain.cntr_open()) for _ in range(3))
    region, other = (pair.local(memory, REMOTE) for _ in range(2))
    region.bind(writes, BindFlags.FI_REMOTE_WRITE)
    region.bind(reads, BindFlags.FI_REMOTE_READ)
    other.bind(both, BindFlags.FI_REMOTE_READ | BindFlags.FI_REMOTE_WRITE)
    one, near = np.ones(1, np.uint64), pair.near
    steps: tuple[tuple[Callable[[tuple[int, int, int]], object], int, int], ...] = (
        (lambda to: near.endpoint.write(one, *to), 1, 0),
        (lambda to: near.endpoint.atomic(one, *to, Op.FI_SUM), 2, 0),
        (lambda to: near.endpoint.fetch_atomic(one, found, *to, Op.FI_SUM), 3, 1),
        (lambda to: near.endpoint.compare_atomic(one, one, found, *to, Op.FI_CSWAP), 4, 2),
        (lambda to: near.endpoint.fetch_atomic(one, found, *to, Op.FI_ATOMIC_READ), 4, 3),
        (lambda to: near.endpoint.read(found, *to), 4, 4),
    )
    for number, (step, changes, fetches) in enumerate(steps, 1):
        for target in (region, other):
            step((own, target.address, target.key))
        near.finish_all(2)
        writes.wait(changes, pair.patience)
        reads.wait(fetches, pair.patience)
        both.wait(number, pair.patience)
        expect_equal("counters", (writes.read(), reads.read(), both.read()), (changes, fetches, number))


@page("FLAGS: FI_RMA_PMEM", "The flag declares the memory persistent.", needs={"persistent"})
def memory_is_said_to_be_persistent(pair: Pair) -> None:
    """Use the region as any other; fi_rma.commit_complete_means_that_it_is_there checks persistence."""
    own, memory = pair.introduce(pair.near.endpoint), bytearray(8)
    region = pair.keep(pair.domain.mr_reg(memory, REMOTE, flags=MrFlags.FI_RMA_PMEM))
    pair.near.endpoint.write(pattern(8), own, region.address, region.key)
    pair.near.finish()
    expect_equal("memory", bytes(memory), pattern(8))


@page("ERRORS: FI_EBADFLAGS", "Flags that are not supported are refused.")
def unknown_flags_are_refused(pair: Pair) -> None:
    """Pass an unknown bit; no region is registered under the key."""
    domain = pair.other_domain(_SCALABLE)
    with expect_error("an unknown flag", Errno.FI_EBADFLAGS):
        domain.mr_reg(bytearray(8), REMOTE, requested_key=_KEY, flags=MrFlags(1))
    pair.keep(domain.mr_reg(bytearray(8), REMOTE, requested_key=_KEY))


@page("ERRORS: FI_EKEYREJECTED", "Keys that the provider cannot have are refused.")
def keys_of_more_than_64_bits_are_refused(pair: Pair) -> None:
    """Use one bit more than mr_key_size has, and a negative key."""
    domain = pair.other_domain(_SCALABLE)
    for key in (1 << 8 * pair.info.domain_attr.mr_key_size, -1):
        with expect_error(f"key {key:#x}", Errno.FI_EKEYREJECTED, Errno.FI_EINVAL):
            domain.mr_reg(bytearray(8), REMOTE, requested_key=key)


# Without a check of their own

page.leave("NAME, SYNOPSIS, ARGUMENTS", "Names of the calls and their arguments.", "These are names.")
page.leave(
    "Default Memory Registration",
    "Address ranges may be registered that nothing is behind.",
    "Differs: what is registered is a buffer, so there is memory behind it.",
)
page.leave(
    "FI_MR_RAW",
    "Keys of more than 64 bits are exchanged as bytes.",
    "The mode is not asked for: keys have 64 bits. The calls are there: `fi_mr.mapped_keys_reach_the_region`",
)
page.leave(
    "FI_MR_ALLOCATED",
    "Memory has pages behind it when it is registered.",
    "A duty of the application, which a Python buffer fulfils.",
)
page.leave(
    "FI_MR_MMU_NOTIFY, FI_MR_RMA_EVENT, FI_MR_ENDPOINT, FI_MR_COLLECTIVE",
    "Regions that are refreshed, bound or enabled before use.",
    "The modes are not asked for.",
)
page.leave(
    "FI_MR_HMEM; iface, device; FI_HMEM_DEVICE_ONLY, FI_HMEM_HOST_ALLOC; MEMORY DOMAINS",
    "Memory of devices.",
    "FI_HMEM is not offered.",
)
page.leave(
    "access: FI_SEND, FI_RECV",
    "Locally, a region is a source of sends with FI_SEND, and receives messages with FI_RECV.",
    "`fi_msg.registered_buffers_need_the_right_of_their_use`",
)
page.leave("access", "Rights may be enforced less strictly.", "The page allows that; the rights are enforced.")
page.leave(
    "fi_close",
    "A region with endpoints or counters bound to it is not closed: FI_EBUSY.",
    "Differs: it is closed, and counts no more ([libfabric.md](libfabric.md)).",
)
page.leave("auth_key", "Keys of jobs.", "Amoeba has no job keys: mr_regattr() refuses one.")
page.leave(
    "MEMORY REGISTRATION CACHE", "Variables of a cache.", "There is no cache, as registration is not asked for."
)
