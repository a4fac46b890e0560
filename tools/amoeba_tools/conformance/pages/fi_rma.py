"""fi_rma(3): writes and reads."""

import mmap

from amoeba import fi
from amoeba.core.buffers import Buffer
from amoeba.core.errno import Errno
from amoeba.libfabric.objects.constants import FI_ADDR_UNSPEC, Caps, MrAccess, OpFlags
from amoeba.libfabric.objects.operations.vectors import RmaIov, RmaMsg

from amoeba_tools.conformance.connected import Parties
from amoeba_tools.conformance.expectations import expect, expect_equal, expect_error
from amoeba_tools.conformance.pair import Pair, RemoteMemory
from amoeba_tools.conformance.registry import Page

page = Page("fi_rma", "1.17", needs={"rma"})

LONG = 10_000
"""Bytes that no frame holds."""
_GUARD = 16


def pattern(size: int, seed: int = 1) -> bytes:
    """Return bytes of which no stretch looks like another."""
    return bytes((seed + 37 * index + index // 7 * 11 + index // 256) & 0xFF for index in range(size))


def message(memory: RemoteMemory, *buffers: Buffer, offset: int = 0, context: object = None, data: int = 0) -> RmaMsg:
    """Return a ``struct fi_msg_rma`` on consecutive bytes of the target's memory."""
    size = sum(memoryview(buffer).nbytes for buffer in buffers)
    peer, address, key = memory.at(offset)
    return RmaMsg(buffers, peer, [RmaIov(address, size, key)], context=context, data=data)


# Writes


@page("fi_write", "A write transfers the bytes of the local buffer to the remote region.")
def write_stores_these_bytes_and_no_others(pair: Pair) -> None:
    """Use lengths about a word, a beat, the inject size and a frame, each between bytes that must stay."""
    for size in (1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 200):
        memory = pair.memory(b"\xee" * (size + 2 * _GUARD))
        pair.near.endpoint.write(pattern(size), *memory.at(_GUARD))
        pair.near.finish()
        expect_equal(f"{size} bytes", memory.load(), b"\xee" * _GUARD + pattern(size) + b"\xee" * _GUARD)


@page("DESCRIPTION", "Transfers have byte granularity: any address and any length.")
def unaligned_writes_store_these_bytes_and_no_others(pair: Pair) -> None:
    """Use every offset within a beat of 32 bytes, from a source that is aligned otherwise."""
    source = pattern(64)
    for offset in range(1, 32, 3):
        memory = pair.memory(96)
        pair.near.endpoint.write(source[offset // 2 : offset // 2 + 41], *memory.at(offset))
        pair.near.finish()
        expected = bytes(offset) + source[offset // 2 : offset // 2 + 41]
        expect_equal(f"at offset {offset}", memory.load(), expected.ljust(96, b"\0"))


@page("DESCRIPTION", "Transfers have byte granularity: any address and any length.")
def unaligned_reads_fetch_these_bytes_and_no_others(pair: Pair) -> None:
    """Use every offset within a beat of 32 bytes, to a place that is aligned otherwise."""
    memory = pair.memory(pattern(96))
    for offset in range(1, 32, 3):
        result = bytearray(b"\xee" * 64)
        pair.near.endpoint.read(memoryview(result)[offset // 2 : offset // 2 + 41], *memory.at(offset))
        pair.near.finish()
        expected = b"\xee" * (offset // 2) + pattern(96)[offset : offset + 41]
        expect_equal(f"at offset {offset}", bytes(result), expected.ljust(64, b"\xee"))


@page("ARGUMENTS: len", "Valid transfers have from 0 bytes to max_msg_size.")
def write_of_no_bytes_completes_and_changes_nothing(pair: Pair) -> None:
    """Expect an ordinary completion."""
    memory = pair.memory(b"\xee" * 8)
    pair.near.endpoint.write(b"", *memory.at(), context="empty")
    expect_equal("op_context", pair.near.finish().op_context, "empty")
    expect_equal("memory", memory.load(), b"\xee" * 8)


@page("ARGUMENTS: len", "Valid transfers have from 0 bytes to max_msg_size.")
def read_of_no_bytes_completes(pair: Pair) -> None:
    """Expect an ordinary completion."""
    memory = pair.memory(8)
    pair.near.endpoint.read(bytearray(), *memory.at(), context="empty")
    expect_equal("op_context", pair.near.finish().op_context, "empty")


@page("ARGUMENTS: len", "Valid transfers have from 0 bytes to max_msg_size.")
def long_writes_arrive_whole(pair: Pair) -> None:
    """Use several frames, the last of odd length, beginning at an odd address."""
    memory = pair.memory(LONG + 2)
    pair.near.endpoint.write(pattern(LONG), *memory.at(1))
    pair.near.finish()
    expect_equal("memory", memory.load(), b"\0" + pattern(LONG) + b"\0")


@page("ARGUMENTS: len", "Valid transfers have from 0 bytes to max_msg_size.")
def long_reads_arrive_whole(pair: Pair) -> None:
    """Use several frames, the last of odd length, beginning at an odd address."""
    memory = pair.memory(pattern(LONG + 2))
    result = bytearray(LONG)
    pair.near.endpoint.read(result, *memory.at(1))
    pair.near.finish()
    expect_equal("result", bytes(result), pattern(LONG + 2)[1:-1])


@page("ARGUMENTS: len", "Valid transfers have from 0 bytes to max_msg_size.")
def more_than_max_msg_size_is_refused(pair: Pair) -> None:
    """Use one byte more, of memory that is never touched; nothing is posted."""
    most = pair.info.ep_attr.max_msg_size
    memory = pair.memory(8)
    with mmap.mmap(-1, most + 1) as buffer:
        with expect_error("a write of max_msg_size + 1 bytes", Errno.FI_EMSGSIZE):
            pair.near.endpoint.write(buffer, *memory.at())
        with expect_error("a read of max_msg_size + 1 bytes", Errno.FI_EMSGSIZE):
            pair.near.endpoint.read(buffer, *memory.at())
    pair.near.nothing_more()


@page("DESCRIPTION", "Operations are asynchronous: a completion queue reports the end of each, with its context.")
def every_operation_reports_its_own_context(pair: Pair) -> None:
    """Keep sixteen operations outstanding, each with its own object as context."""
    memory = pair.memory(16)
    contexts = [object() for _ in range(16)]
    for index, context in enumerate(contexts):
        pair.near.endpoint.write(bytes([index]), *memory.at(index), context=context)
    told = [entry.op_context for entry in pair.near.finish_all(16)]
    expect(sorted(map(id, told)) == sorted(map(id, contexts)), f"expected every context once, got {told}")
    expect_equal("memory", memory.load(), bytes(range(16)))


@page("fi_writev", "The buffers of iov are transferred one after the other.")
def writev_gathers_its_buffers(pair: Pair) -> None:
    """Use buffers of odd lengths, one of them empty."""
    memory = pair.memory(64)
    whole = pattern(50)
    pair.near.endpoint.writev([whole[:3], whole[3:20], b"", whole[20:]], *memory.at(1), context="gathered")
    expect_equal("op_context", pair.near.finish().op_context, "gathered")
    pair.near.nothing_more()
    expect_equal("memory", memory.load(), (b"\0" + whole).ljust(64, b"\0"))


@page("fi_writemsg", "rma_iov lists the pieces of remote memory that receive the bytes of msg_iov, in order.")
def writemsg_scatters_over_remote_segments(pair: Pair) -> None:
    """Use three segments, in two regions, whose ends differ from those of the local buffers."""
    one, two = pair.memory(32), pair.memory(32)
    whole = pattern(40)
    segments = [
        RmaIov(one.address + 2, 5, one.key),
        RmaIov(two.address, 17, two.key),
        RmaIov(one.address + 9, 18, one.key),
    ]
    pair.near.endpoint.writemsg(RmaMsg([whole[:10], whole[10:]], pair.peer, segments, context="scattered"))
    expect_equal("op_context", pair.near.finish().op_context, "scattered")
    expect_equal("first region", one.load(2, 25), whole[:5] + bytes(2) + whole[22:])
    expect_equal("second region", two.load(), whole[5:22].ljust(32, b"\0"))


@page("fi_writemsg", "The lengths of the remote segments add up to those of the local buffers.")
def writemsg_of_different_lengths_is_refused(pair: Pair) -> None:
    """Use one byte too many on either side; nothing is written."""
    memory = pair.memory(32)
    for size in (15, 17):
        with expect_error(f"16 bytes for {size}", Errno.FI_EINVAL):
            pair.near.endpoint.writemsg(RmaMsg([pattern(16)], pair.peer, [RmaIov(memory.address, size, memory.key)]))
    pair.near.nothing_more()
    expect_equal("memory", memory.load(), bytes(32))


# Inject


@page("fi_inject_write", "As with fi_inject, the buffer may be reused as soon as the call returns.")
def inject_write_has_taken_the_data_when_it_returns(pair: Pair) -> None:
    """Overwrite sources from 1 byte to inject_size at once."""
    for size in (1, 8, 9, pair.info.tx_attr.inject_size):
        memory, source = pair.memory(size), bytearray(pattern(size))
        pair.near.endpoint.inject_write(source, *memory.at())
        source[:] = b"\xee" * size
        pair.near.endpoint.write(b"", *memory.at())  # in order behind it
        pair.near.finish()
        expect_equal(f"{size} bytes", memory.load(), pattern(size))


@page("fi_inject_write", "As with fi_inject, there is no completion unless it fails.")
def inject_write_is_not_reported(pair: Pair) -> None:
    """Inject a write, then post a reported one: only the second has an entry."""
    memory = pair.memory(8)
    pair.near.endpoint.inject_write(b"injected", *memory.at())
    pair.near.endpoint.write(b"", *memory.at(), context="next")
    expect_equal("op_context", pair.near.finish().op_context, "next")
    pair.near.nothing_more()


@page("fi_inject_write", "As with fi_inject, the length is limited by inject_size.")
def inject_write_beyond_inject_size_is_refused(pair: Pair) -> None:
    """Use one byte too many; nothing is written."""
    most = pair.info.tx_attr.inject_size
    memory = pair.memory(most + 1)
    with expect_error(f"{most + 1} bytes", Errno.FI_EINVAL, Errno.FI_EMSGSIZE):
        pair.near.endpoint.inject_write(bytes(b"\xee" * (most + 1)), *memory.at())
    pair.near.endpoint.write(b"", *memory.at())
    pair.near.finish()
    expect_equal("memory", memory.load(), bytes(most + 1))


# Remote CQ data


@page("fi_writedata", "The data arrives at the target's completion queue, with what was written in place.")
def writedata_tells_the_target(pair: Pair) -> None:
    """Expect all 64 bits, once, after the bytes."""
    memory, data = pair.memory(16), 0xFEDC_BA98_7654_3210
    pair.near.endpoint.writedata(pattern(16), data, *memory.at(), context="told")
    (entry,) = pair.target.hear(1, pair.patience)
    expect_equal("data", entry.data, data)
    expect_equal("memory at the target's completion", memory.load(), pattern(16))
    expect_equal("op_context", pair.near.finish().op_context, "told")


@page("fi_inject_writedata", "As fi_inject_write, with data for the target's completion queue.")
def inject_writedata_tells_the_target_and_not_the_initiator(pair: Pair) -> None:
    """Overwrite the source at once; success is not reported."""
    memory, source = pair.memory(16), bytearray(pattern(16))
    pair.near.endpoint.inject_writedata(source, 77, *memory.at())
    source[:] = b"\xee" * 16
    (entry,) = pair.target.hear(1, pair.patience)
    expect_equal("data", entry.data, 77)
    expect_equal("memory", memory.load(), pattern(16))
    pair.near.endpoint.write(b"", *memory.at(), context="next")
    expect_equal("op_context", pair.near.finish().op_context, "next")
    pair.near.nothing_more()


@page("DESCRIPTION", "The target is not notified when its memory is written or read without data.")
def writes_and_reads_do_not_notify_the_target(pair: Pair) -> None:
    """Write and read without data, then write with data: the target's first entry is of the last."""
    memory = pair.memory(8)
    pair.near.endpoint.write(pattern(8), *memory.at())
    pair.near.endpoint.read(bytearray(8), *memory.at())
    pair.near.endpoint.writedata(b"", 3, *memory.at())
    pair.near.finish_all(3)
    expect_equal("data", [entry.data for entry in pair.target.hear(1, pair.patience)], [3])
    expect_equal("further entries", pair.target.hear(1, 0.0), [])


# Reads


@page("fi_read", "A read transfers the bytes of the remote region to the local buffer.")
def read_fetches_these_bytes_and_no_others(pair: Pair) -> None:
    """Use lengths about a word, a beat and a frame, each between bytes that must stay."""
    for size in (1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 200):
        memory, result = pair.memory(pattern(size)), bytearray(b"\xee" * (size + 2 * _GUARD))
        pair.near.endpoint.read(memoryview(result)[_GUARD:-_GUARD], *memory.at())
        pair.near.finish()
        expect_equal(f"{size} bytes", bytes(result), b"\xee" * _GUARD + pattern(size) + b"\xee" * _GUARD)


@page("fi_read", "A read leaves the remote region as it was.")
def read_leaves_the_target_alone(pair: Pair) -> None:
    """Read a region that does not allow writes."""
    memory, result = pair.memory(pattern(40), MrAccess.FI_REMOTE_READ), bytearray(40)
    pair.near.endpoint.read(result, *memory.at())
    pair.near.finish()
    expect_equal("result", bytes(result), pattern(40))
    expect_equal("memory", memory.load(), pattern(40))


@page("fi_readv", "The buffers of iov are filled one after the other.")
def readv_scatters_to_its_buffers(pair: Pair) -> None:
    """Use buffers of odd lengths, one of them empty."""
    memory = pair.memory(pattern(50))
    buffers = [bytearray(3), bytearray(17), bytearray(), bytearray(30)]
    pair.near.endpoint.readv(buffers, *memory.at(), context="scattered")
    expect_equal("op_context", pair.near.finish().op_context, "scattered")
    pair.near.nothing_more()
    expect_equal("results", b"".join(buffers), pattern(50))


@page("fi_readmsg", "rma_iov lists the pieces of remote memory that fill the buffers of msg_iov, in order.")
def readmsg_gathers_remote_segments(pair: Pair) -> None:
    """Use three segments, in two regions, whose ends differ from those of the local buffers."""
    one, two = pair.memory(pattern(32)), pair.memory(pattern(32, 9))
    segments = [
        RmaIov(one.address + 2, 5, one.key),
        RmaIov(two.address + 1, 17, two.key),
        RmaIov(one.address + 9, 18, one.key),
    ]
    buffers = [bytearray(11), bytearray(29)]
    pair.near.endpoint.readmsg(RmaMsg(buffers, pair.peer, segments, context="gathered"))
    expect_equal("op_context", pair.near.finish().op_context, "gathered")
    expected = pattern(32)[2:7] + pattern(32, 9)[1:18] + pattern(32)[9:27]
    expect_equal("results", b"".join(buffers), expected)


@page("fi_readmsg", "The lengths of the remote segments add up to those of the local buffers.")
def readmsg_of_different_lengths_is_refused(pair: Pair) -> None:
    """Use one byte too many on either side; nothing is read."""
    memory, result = pair.memory(pattern(32)), bytearray(16)
    for size in (15, 17):
        with expect_error(f"{size} bytes for 16", Errno.FI_EINVAL):
            pair.near.endpoint.readmsg(RmaMsg([result], pair.peer, [RmaIov(memory.address, size, memory.key)]))
    pair.near.nothing_more()
    expect_equal("result", bytes(result), bytes(16))


# Arguments


@page("SYNOPSIS", "Every call is there, with these arguments in this order.")
def calls_take_their_arguments_in_c_order(pair: Pair) -> None:
    """Make one call of each kind through the C names: what they write, read and report."""
    memory, ep = pair.memory(64), pair.near.endpoint
    peer, address, key = memory.at()
    parts = [bytearray(3), bytearray(5)]
    fi.fi_write(ep, pattern(8), 8, None, peer, address, key, "write")
    fi.fi_writev(ep, [pattern(3, 2), pattern(5, 3)], None, 2, peer, address + 8, key, "writev")
    fi.fi_writemsg(ep, RmaMsg([pattern(8, 4)], peer, [RmaIov(address + 16, 8, key)], context="writemsg"), 0)
    fi.fi_inject_write(ep, pattern(8, 5), 8, peer, address + 24, key)
    fi.fi_writedata(ep, pattern(8, 6), 8, None, 66, peer, address + 32, key, "writedata")
    fi.fi_inject_writedata(ep, pattern(8, 7), 8, 77, peer, address + 40, key)
    results = [bytearray(48), bytearray(8)]
    fi.fi_read(ep, results[0], 48, None, peer, address, key, "read")
    fi.fi_readv(ep, parts, None, 2, peer, address + 8, key, "readv")
    fi.fi_readmsg(ep, RmaMsg([results[1]], peer, [RmaIov(address + 40, 8, key)], context="readmsg"), 0)
    told = [entry.op_context for entry in pair.near.finish_all(7)]
    expect_equal("contexts", told, ["write", "writev", "writemsg", "writedata", "read", "readv", "readmsg"])
    written = [pattern(8), pattern(3, 2) + pattern(5, 3), *(pattern(8, seed) for seed in (4, 5, 6, 7))]
    expect_equal("what fi_read has read", bytes(results[0]), b"".join(written))
    expect_equal("what fi_readv has read", b"".join(parts), written[1])
    expect_equal("what fi_readmsg has read", bytes(results[1]), written[5])
    expect_equal("data", [entry.data for entry in pair.target.hear(2, pair.patience)], [66, 77])


@page("ARGUMENTS: context", "The context is ignored where no success is reported.")
def contexts_of_what_is_not_reported_are_ignored(pair: Pair) -> None:
    """Post two writes with a context: the one that is not reported leaves no trace of its context."""
    near, memory = pair.selective(), pair.memory(16)
    near.endpoint.write(pattern(8), *memory.at(), context=["of no use"])
    near.endpoint.write(pattern(8, 2), *memory.at(8), context="reported", flags=OpFlags.FI_COMPLETION)
    expect_equal("op_context", near.finish().op_context, "reported")
    near.nothing_more()
    expect_equal("memory", memory.load(), pattern(8) + pattern(8, 2))


@page("DESCRIPTION", "No message boundaries are maintained.")
def reads_need_not_begin_where_writes_began(pair: Pair) -> None:
    """Write twice side by side, and read across where the writes meet."""
    memory, result = pair.memory(64), bytearray(40)
    pair.near.endpoint.write(pattern(32), *memory.at())
    pair.near.endpoint.write(pattern(32, 2), *memory.at(32))
    pair.near.endpoint.read(result, *memory.at(12))
    pair.near.finish_all(3)
    expect_equal("result", bytes(result), pattern(32)[12:] + pattern(32, 2)[:20])


@page("ARGUMENTS: dest_addr, src_addr", "Connected endpoints ignore them.", needs={"connected"})
def connected_endpoints_ignore_who_is_meant(pair: Pair) -> None:
    """Write and read with numbers outside the address vector."""
    memory, result = bytearray(8), bytearray(8)
    region = pair.local(memory, MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE)
    calling, answering = Parties(pair).connect()
    calling.endpoint.write(pattern(8), 12345, region.address, region.key)
    calling.finish()
    answering.endpoint.read(result, FI_ADDR_UNSPEC, region.address, region.key)
    answering.finish()
    expect_equal("memory and result", [bytes(memory), bytes(result)], [pattern(8)] * 2)


@page("fi_writemsg, fi_readmsg", "Both work on connected endpoints and on connectionless ones.", needs={"connected"})
def messages_go_over_connections(pair: Pair) -> None:
    """Send both ways; all other checks are of connectionless endpoints."""
    memory, result = bytearray(40), bytearray(40)
    region = pair.local(memory, MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE)
    segments = [RmaIov(region.address + at, 20, region.key) for at in (20, 0)]
    calling, answering = Parties(pair).connect()
    calling.endpoint.writemsg(RmaMsg([pattern(40)], FI_ADDR_UNSPEC, segments, context="write"))
    expect_equal("op_context", calling.finish().op_context, "write")
    answering.endpoint.readmsg(RmaMsg([result], FI_ADDR_UNSPEC, segments, context="read"))
    expect_equal("op_context", answering.finish().op_context, "read")
    expect_equal("memory", bytes(memory), pattern(40)[20:] + pattern(40)[:20])
    expect_equal("result", bytes(result), pattern(40))


@page("fi_write, fi_read (1.11)", "A connected endpoint must have its peer first.", needs={"connected"})
def nothing_is_written_before_there_is_a_connection(pair: Pair) -> None:
    """Use an endpoint that is enabled, but not connected."""
    memory, alone = pair.memory(8), Parties(pair).endpoint()
    with expect_error("a write", Errno.FI_ENOTCONN):
        alone.endpoint.write(pattern(8), *memory.at())
    with expect_error("a read", Errno.FI_ENOTCONN):
        alone.endpoint.read(bytearray(8), *memory.at())
    alone.nothing_more()
    expect_equal("memory", memory.load(), bytes(8))


@page("ARGUMENTS: desc", "desc is the descriptor of the region that holds the local buffer.")
def registered_buffers_are_used_through_their_descriptor(pair: Pair) -> None:
    """Use source and result within regions that begin before them and end after them."""
    memory, buffer = pair.memory(64), bytearray(pattern(128))
    region = pair.local(buffer, MrAccess.FI_READ | MrAccess.FI_WRITE)
    view = memoryview(buffer)
    pair.near.endpoint.write(view[3:67], *memory.at(), desc=region)
    pair.near.finish()
    expect_equal("memory", memory.load(), pattern(128)[3:67])
    pair.near.endpoint.read(view[64:128], *memory.at(), desc=region)
    pair.near.finish()
    expect_equal("buffer", bytes(buffer), pattern(128)[:64] + pattern(128)[3:67])


@page("ARGUMENTS: desc", "desc is an array of descriptors, one per buffer, where there are several buffers.")
def vectors_take_a_descriptor_per_buffer(pair: Pair) -> None:
    """Use two regions; one descriptor too few is refused."""
    memory = pair.memory(64)
    buffers = [bytearray(pattern(32, seed)) for seed in (1, 2)]
    regions = [pair.local(buffer, MrAccess.FI_WRITE) for buffer in buffers]
    pair.near.endpoint.writev(buffers, *memory.at(), desc=regions)
    pair.near.finish()
    expect_equal("memory", memory.load(), pattern(32, 1) + pattern(32, 2))
    with expect_error("one descriptor for two buffers", Errno.FI_EINVAL):
        pair.near.endpoint.writev(buffers, *memory.at(), desc=regions[:1])


@page("ARGUMENTS: dest_addr", "dest_addr names a peer of the address vector.")
def peers_that_were_never_inserted_are_refused(pair: Pair) -> None:
    """Use the number after the last peer; the memory stays."""
    memory = pair.memory(8)
    _, address, key = memory.at()
    with expect_error("an unknown dest_addr", Errno.FI_EINVAL, Errno.FI_EADDRNOTAVAIL):
        pair.near.endpoint.write(pattern(8), len(pair.peers) + 5, address, key)
    pair.near.nothing_more()
    expect_equal("memory", memory.load(), bytes(8))


@page("SYNOPSIS", "addr and key are numbers of 64 bits.")
def addresses_and_keys_beyond_64_bits_are_refused(pair: Pair) -> None:
    """Check that larger numbers are refused, not truncated."""
    memory = pair.memory(8)
    peer, address, key = memory.at()
    for wrong in ((address + (1 << 64), key), (address, key + (1 << 64)), (-1, key)):
        with expect_error(f"addr and key {wrong}", Errno.FI_EINVAL):
            pair.near.endpoint.write(pattern(8), peer, *wrong)
    pair.near.nothing_more()
    expect_equal("memory", memory.load(), bytes(8))


@page("fi_cq(3): COMPLETION FLAGS", "Completions say what kind of operation has ended.")
def entries_say_whether_it_was_a_read_or_a_write(pair: Pair) -> None:
    """Expect FI_RMA with FI_WRITE or FI_READ."""
    memory = pair.memory(8)
    pair.near.endpoint.write(pattern(8), *memory.at())
    expect_equal("flags of a write", pair.near.finish().flags, int(Caps.FI_RMA | Caps.FI_WRITE))
    pair.near.endpoint.read(bytearray(8), *memory.at())
    expect_equal("flags of a read", pair.near.finish().flags, int(Caps.FI_RMA | Caps.FI_READ))


# Without a check of their own

page.leave("NAME, ARGUMENTS", "Names of the calls and their arguments.", "These are names.")
page.leave(
    "ARGUMENTS: addr",
    "The address is virtual, or an offset into the region.",
    "`fi_mr.regions_are_addressed_by_virtual_address`, `fi_mr.regions_are_addressed_by_offset_without_virt_addr`",
)
page.leave("ARGUMENTS: key", "The key protects the remote memory.", "`fi_mr.a_wrong_key_is_refused`")
page.leave(
    "DESCRIPTION, fi_write (1.11)",
    "Buffers are not touched before the operation has completed.",
    "A duty of the application, without which the behaviour is undefined.",
)
page.leave("RETURN VALUE", "0, or a negative errno.", "Errors are raised: [How C becomes Python](libfabric.md).")
page.leave(
    "ERRORS: FI_EAGAIN",
    "As fi_msg(3) says.",
    "`fi_endpoint.a_full_endpoint_says_so_and_goes_on_after_reading` and those behind it",
)
