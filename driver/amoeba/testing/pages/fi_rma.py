"""fi_rma(3): remote memory access."""

import mmap

from amoeba.constants import Caps, Errno, MrAccess, OpFlags
from amoeba.memory import Buffer
from amoeba.operations import NO_FLAGS
from amoeba.testing.expectations import expect, expect_equal, expect_error
from amoeba.testing.pair import Pair, RemoteMemory
from amoeba.testing.registry import Page
from amoeba.vectors import RmaIov, RmaMsg

page = Page("fi_rma", "1.17", needs={"rma"})

_LONG = 10_000
"""Bytes that no frame holds."""
_GUARD = 16


def pattern(size: int, seed: int = 1) -> bytes:
    """Bytes of which no stretch looks like another."""
    return bytes((seed + 37 * index + index // 7 * 11 + index // 256) & 0xFF for index in range(size))


def message(memory: RemoteMemory, *buffers: Buffer, offset: int = 0, context: object = None, data: int = 0) -> RmaMsg:
    """A ``struct fi_msg_rma`` on consecutive bytes of the target's memory."""
    size = sum(memoryview(buffer).nbytes for buffer in buffers)
    peer, address, key = memory.at(offset)
    return RmaMsg(buffers, peer, [RmaIov(address, size, key)], context=context, data=data)


# Writes


@page("fi_write", "A write transfers the bytes of the local buffer to the remote region.")
def write_stores_these_bytes_and_no_others(pair: Pair) -> None:
    """Lengths about a word, a beat, what is injected and a frame, each between bytes that must stay."""
    for size in (1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 200):
        memory = pair.memory(b"\xee" * (size + 2 * _GUARD))
        pair.near.endpoint.write(pattern(size), *memory.at(_GUARD))
        pair.near.finish()
        expect_equal(f"{size} bytes", memory.load(), b"\xee" * _GUARD + pattern(size) + b"\xee" * _GUARD)


@page("DESCRIPTION", "Transfers have byte granularity: any address and any length.")
def unaligned_writes_store_these_bytes_and_no_others(pair: Pair) -> None:
    """Every offset within a beat of 32 bytes, from a source that is aligned otherwise."""
    source = pattern(64)
    for offset in range(1, 32, 3):
        memory = pair.memory(96)
        pair.near.endpoint.write(source[offset // 2 : offset // 2 + 41], *memory.at(offset))
        pair.near.finish()
        expected = bytes(offset) + source[offset // 2 : offset // 2 + 41]
        expect_equal(f"at offset {offset}", memory.load(), expected.ljust(96, b"\0"))


@page("DESCRIPTION", "Transfers have byte granularity: any address and any length.")
def unaligned_reads_fetch_these_bytes_and_no_others(pair: Pair) -> None:
    """Every offset within a beat of 32 bytes, to a place that is aligned otherwise."""
    memory = pair.memory(pattern(96))
    for offset in range(1, 32, 3):
        result = bytearray(b"\xee" * 64)
        pair.near.endpoint.read(memoryview(result)[offset // 2 : offset // 2 + 41], *memory.at(offset))
        pair.near.finish()
        expected = b"\xee" * (offset // 2) + pattern(96)[offset : offset + 41]
        expect_equal(f"at offset {offset}", bytes(result), expected.ljust(64, b"\xee"))


@page("ARGUMENTS", "A transfer may have 0 bytes.")
def write_of_no_bytes_completes_and_changes_nothing(pair: Pair) -> None:
    """It has a completion like any other."""
    memory = pair.memory(b"\xee" * 8)
    pair.near.endpoint.write(b"", *memory.at(), context="empty")
    expect_equal("op_context", pair.near.finish().op_context, "empty")
    expect_equal("memory", memory.load(), b"\xee" * 8)


@page("ARGUMENTS", "A transfer may have 0 bytes.")
def read_of_no_bytes_completes(pair: Pair) -> None:
    """It has a completion like any other."""
    memory = pair.memory(8)
    pair.near.endpoint.read(bytearray(), *memory.at(), context="empty")
    expect_equal("op_context", pair.near.finish().op_context, "empty")


@page("ARGUMENTS", "A transfer may be longer than what the fabric carries at a time.")
def long_writes_arrive_whole(pair: Pair) -> None:
    """Several frames, the last of odd length, beginning at an odd address."""
    memory = pair.memory(_LONG + 2)
    pair.near.endpoint.write(pattern(_LONG), *memory.at(1))
    pair.near.finish()
    expect_equal("memory", memory.load(), b"\0" + pattern(_LONG) + b"\0")


@page("ARGUMENTS", "A transfer may be longer than what the fabric carries at a time.")
def long_reads_arrive_whole(pair: Pair) -> None:
    """Several frames, the last of odd length, beginning at an odd address."""
    memory = pair.memory(pattern(_LONG + 2))
    result = bytearray(_LONG)
    pair.near.endpoint.read(result, *memory.at(1))
    pair.near.finish()
    expect_equal("result", bytes(result), pattern(_LONG + 2)[1:-1])


@page("ARGUMENTS", "A transfer has at most max_msg_size bytes.")
def more_than_max_msg_size_is_refused(pair: Pair) -> None:
    """One byte more, of memory that is never touched; nothing is posted."""
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
    """Sixteen under way at a time, each with an object of its own as context."""
    memory = pair.memory(16)
    contexts = [object() for _ in range(16)]
    for index, context in enumerate(contexts):
        pair.near.endpoint.write(bytes([index]), *memory.at(index), context=context)
    told = [entry.op_context for entry in pair.near.finish_all(16)]
    expect(sorted(map(id, told)) == sorted(map(id, contexts)), f"expected every context once, got {told}")
    expect_equal("memory", memory.load(), bytes(range(16)))


@page("fi_writev", "The buffers of iov are transferred one after the other.")
def writev_gathers_its_buffers(pair: Pair) -> None:
    """Buffers of odd lengths, one of them empty."""
    memory = pair.memory(64)
    whole = pattern(50)
    pair.near.endpoint.writev([whole[:3], whole[3:20], b"", whole[20:]], *memory.at(1), context="gathered")
    expect_equal("op_context", pair.near.finish().op_context, "gathered")
    pair.near.nothing_more()
    expect_equal("memory", memory.load(), (b"\0" + whole).ljust(64, b"\0"))


@page("fi_writemsg", "rma_iov lists the pieces of remote memory that receive the bytes of msg_iov, in order.")
def writemsg_scatters_over_remote_segments(pair: Pair) -> None:
    """Three segments, in two regions, that end elsewhere than the local buffers do."""
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
    """One byte too many on either side; nothing is written."""
    memory = pair.memory(32)
    for size in (15, 17):
        with expect_error(f"16 bytes for {size}", Errno.FI_EINVAL):
            pair.near.endpoint.writemsg(RmaMsg([pattern(16)], pair.peer, [RmaIov(memory.address, size, memory.key)]))
    pair.near.nothing_more()
    expect_equal("memory", memory.load(), bytes(32))


# Inject


@page("fi_inject_write", "The buffer may be reused as soon as the call returns.")
def inject_write_has_taken_the_data_when_it_returns(pair: Pair) -> None:
    """Sources from 1 byte to inject_size are overwritten at once."""
    for size in (1, 8, 9, pair.info.tx_attr.inject_size):
        memory, source = pair.memory(size), bytearray(pattern(size))
        pair.near.endpoint.inject_write(source, *memory.at())
        source[:] = b"\xee" * size
        pair.near.endpoint.write(b"", *memory.at())  # in order behind it
        pair.near.finish()
        expect_equal(f"{size} bytes", memory.load(), pattern(size))


@page("fi_inject_write", "It generates no completion, whatever the endpoint's configuration.")
def inject_write_is_not_reported(pair: Pair) -> None:
    """What follows it is reported, it is not."""
    memory = pair.memory(8)
    pair.near.endpoint.inject_write(b"injected", *memory.at())
    pair.near.endpoint.write(b"", *memory.at(), context="next")
    expect_equal("op_context", pair.near.finish().op_context, "next")
    pair.near.nothing_more()


@page("fi_inject_write", "The length is limited by inject_size.")
def inject_write_beyond_inject_size_is_refused(pair: Pair) -> None:
    """One byte too many; nothing is written."""
    most = pair.info.tx_attr.inject_size
    memory = pair.memory(most + 1)
    with expect_error(f"{most + 1} bytes", Errno.FI_EINVAL, Errno.FI_EMSGSIZE):
        pair.near.endpoint.inject_write(bytes(b"\xee" * (most + 1)), *memory.at())
    pair.near.endpoint.write(b"", *memory.at())
    pair.near.finish()
    expect_equal("memory", memory.load(), bytes(most + 1))


@page("FLAGS: FI_INJECT", "The outbound buffers are returned to the application when the call returns.")
def writemsg_with_inject_has_taken_the_data_when_it_returns(pair: Pair) -> None:
    """Two buffers, overwritten at once; success is reported all the same."""
    memory, first, second = pair.memory(40), bytearray(pattern(13)), bytearray(pattern(27, 5))
    pair.near.endpoint.writemsg(message(memory, first, second, context="injected"), OpFlags.FI_INJECT)
    first[:], second[:] = b"\xee" * 13, b"\xee" * 27
    expect_equal("op_context", pair.near.finish().op_context, "injected")
    expect_equal("memory", memory.load(), pattern(13) + pattern(27, 5))


@page("FLAGS: FI_INJECT", "It can only be used up to inject_size.")
def writemsg_with_inject_beyond_inject_size_is_refused(pair: Pair) -> None:
    """One byte too many; nothing is written."""
    most = pair.info.tx_attr.inject_size
    memory = pair.memory(most + 1)
    with expect_error(f"{most + 1} bytes", Errno.FI_EINVAL, Errno.FI_EMSGSIZE):
        pair.near.endpoint.writemsg(message(memory, bytes(most), b"\xee"), OpFlags.FI_INJECT)
    pair.near.nothing_more()
    expect_equal("memory", memory.load(), bytes(most + 1))


# Remote CQ data


@page("fi_writedata", "The data arrives at the target's completion queue, with what was written in place.")
def writedata_tells_the_target(pair: Pair) -> None:
    """All 64 bits arrive, once, after the bytes."""
    memory, data = pair.memory(16), 0xFEDC_BA98_7654_3210
    pair.near.endpoint.writedata(pattern(16), data, *memory.at(), context="told")
    (entry,) = pair.target.hear(1, pair.patience)
    expect_equal("data", entry.data, data)
    expect_equal("memory when it was told", memory.load(), pattern(16))
    expect_equal("op_context", pair.near.finish().op_context, "told")


@page("fi_inject_writedata", "As fi_inject_write, with data for the target's completion queue.")
def inject_writedata_tells_the_target_and_not_the_initiator(pair: Pair) -> None:
    """The source is overwritten at once, and success is not reported."""
    memory, source = pair.memory(16), bytearray(pattern(16))
    pair.near.endpoint.inject_writedata(source, 77, *memory.at())
    source[:] = b"\xee" * 16
    (entry,) = pair.target.hear(1, pair.patience)
    expect_equal("data", entry.data, 77)
    expect_equal("memory", memory.load(), pattern(16))
    pair.near.endpoint.write(b"", *memory.at(), context="next")
    expect_equal("op_context", pair.near.finish().op_context, "next")
    pair.near.nothing_more()


@page("FLAGS: FI_REMOTE_CQ_DATA", "With the flag, fi_writemsg sends the data of the message.")
def writemsg_with_remote_cq_data_tells_the_target(pair: Pair) -> None:
    """One entry for one message of two segments."""
    memory = pair.memory(32)
    segments = [RmaIov(memory.address + at, 8, memory.key) for at in (0, 16)]
    pair.near.endpoint.writemsg(RmaMsg([pattern(16)], pair.peer, segments, data=1 << 63), OpFlags.FI_REMOTE_CQ_DATA)
    (entry,) = pair.target.hear(1, pair.patience)
    expect_equal("data", entry.data, 1 << 63)
    expect_equal("memory", memory.load(), pattern(16)[:8] + bytes(8) + pattern(16)[8:] + bytes(8))
    pair.near.finish()


@page("FLAGS: FI_REMOTE_CQ_DATA", "Without the flag, the data of a message is not sent.")
def writemsg_without_remote_cq_data_is_silent(pair: Pair) -> None:
    """The first entry at the target is of what is sent with data afterwards."""
    memory = pair.memory(8)
    pair.near.endpoint.writemsg(message(memory, pattern(8), data=1))
    pair.near.endpoint.writedata(b"", 2, *memory.at())
    pair.near.finish_all(2)
    expect_equal("data", [entry.data for entry in pair.target.hear(1, pair.patience)], [2])


@page("DESCRIPTION", "The target is not notified when its memory is written or read without data.")
def writes_and_reads_do_not_notify_the_target(pair: Pair) -> None:
    """The first entry at the target is of what is sent with data afterwards."""
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
    """Lengths about a word, a beat and a frame, each between bytes that must stay."""
    for size in (1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 200):
        memory, result = pair.memory(pattern(size)), bytearray(b"\xee" * (size + 2 * _GUARD))
        pair.near.endpoint.read(memoryview(result)[_GUARD:-_GUARD], *memory.at())
        pair.near.finish()
        expect_equal(f"{size} bytes", bytes(result), b"\xee" * _GUARD + pattern(size) + b"\xee" * _GUARD)


@page("fi_read", "A read leaves the remote region as it was.")
def read_leaves_the_target_alone(pair: Pair) -> None:
    """The region does not even allow to be written."""
    memory, result = pair.memory(pattern(40), MrAccess.FI_REMOTE_READ), bytearray(40)
    pair.near.endpoint.read(result, *memory.at())
    pair.near.finish()
    expect_equal("result", bytes(result), pattern(40))
    expect_equal("memory", memory.load(), pattern(40))


@page("fi_readv", "The buffers of iov are filled one after the other.")
def readv_scatters_to_its_buffers(pair: Pair) -> None:
    """Buffers of odd lengths, one of them empty."""
    memory = pair.memory(pattern(50))
    buffers = [bytearray(3), bytearray(17), bytearray(), bytearray(30)]
    pair.near.endpoint.readv(buffers, *memory.at(), context="scattered")
    expect_equal("op_context", pair.near.finish().op_context, "scattered")
    pair.near.nothing_more()
    expect_equal("results", b"".join(buffers), pattern(50))


@page("fi_readmsg", "rma_iov lists the pieces of remote memory that fill the buffers of msg_iov, in order.")
def readmsg_gathers_remote_segments(pair: Pair) -> None:
    """Three segments, in two regions, that end elsewhere than the local buffers do."""
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
    """One byte too many on either side; nothing is read."""
    memory, result = pair.memory(pattern(32)), bytearray(16)
    for size in (15, 17):
        with expect_error(f"{size} bytes for 16", Errno.FI_EINVAL):
            pair.near.endpoint.readmsg(RmaMsg([result], pair.peer, [RmaIov(memory.address, size, memory.key)]))
    pair.near.nothing_more()
    expect_equal("result", bytes(result), bytes(16))


# Flags


@page("FLAGS: FI_COMPLETION", "It asks for an entry on a queue that was bound with FI_SELECTIVE_COMPLETION.")
def completion_flag_reports_on_a_selective_queue(pair: Pair) -> None:
    """Of three messages only the second has the flag."""
    near, memory = pair.selective(), pair.memory(8)
    for context, flags in (("a", NO_FLAGS), ("b", OpFlags.FI_COMPLETION), ("c", NO_FLAGS)):
        near.endpoint.writemsg(message(memory, pattern(8), context=context), flags)
    near.endpoint.readmsg(message(memory, bytearray(8), context="d"), OpFlags.FI_COMPLETION)
    expect_equal("contexts", [entry.op_context for entry in near.finish_all(2)], ["b", "d"])
    near.nothing_more()


@page("FLAGS: FI_COMPLETION", "Without FI_SELECTIVE_COMPLETION the flag is ignored.")
def completion_flag_is_ignored_on_other_queues(pair: Pair) -> None:
    """One entry each, with and without."""
    memory = pair.memory(8)
    for context, flags in (("a", OpFlags.FI_COMPLETION), ("b", NO_FLAGS)):
        pair.near.endpoint.writemsg(message(memory, pattern(8), context=context), flags)
    expect_equal("contexts", [entry.op_context for entry in pair.near.finish_all(2)], ["a", "b"])
    pair.near.nothing_more()


@page("FLAGS: FI_MORE", "Further requests follow at once; all of them are carried out.")
def requests_with_more_are_carried_out(pair: Pair) -> None:
    """Seven with the flag, the eighth without it."""
    memory = pair.memory(64)
    for index in range(8):
        flags = OpFlags.FI_MORE if index < 7 else NO_FLAGS
        pair.near.endpoint.writemsg(message(memory, pattern(8, index), offset=8 * index), flags)
    pair.near.finish_all(8)
    expect_equal("memory", memory.load(), b"".join(pattern(8, index) for index in range(8)))


@page("FLAGS: FI_INJECT_COMPLETE", "The source may be reused when the completion has been read.")
def inject_complete_frees_the_source(pair: Pair) -> None:
    """It is overwritten then; the target gets what it held."""
    memory, source = pair.memory(200), bytearray(pattern(200))
    pair.near.endpoint.writemsg(message(memory, source), OpFlags.FI_INJECT_COMPLETE)
    pair.near.finish()
    source[:] = b"\xee" * 200
    pair.near.endpoint.write(b"", *memory.at())  # in order behind it
    pair.near.finish()
    expect_equal("memory", memory.load(), pattern(200))


@page("FLAGS: FI_TRANSMIT_COMPLETE", "The operation no longer depends on this side once its completion is read.")
def transmit_complete_needs_no_more_of_this_side(pair: Pair) -> None:
    """The source is overwritten, and the endpoint closed; the target gets what it held."""
    memory, source = pair.memory(200), bytearray(pattern(200))
    near = pair.open()
    near.endpoint.writemsg(message(memory, source), OpFlags.FI_TRANSMIT_COMPLETE)
    near.finish()
    source[:] = b"\xee" * 200
    near.endpoint.close()
    expect_equal("memory", memory.load(), pattern(200))


@page("FLAGS: FI_DELIVERY_COMPLETE", "The destination has processed the operation when the completion is generated.")
def delivery_complete_means_that_it_is_there(pair: Pair) -> None:
    """The target's program finds every byte, without anything else having been sent."""
    memory = pair.memory(_LONG)
    pair.near.endpoint.writemsg(message(memory, pattern(_LONG)), OpFlags.FI_DELIVERY_COMPLETE)
    pair.near.finish()
    expect_equal("memory", memory.load(), pattern(_LONG))


@page("FLAGS: FI_FENCE", "A fenced operation waits for all earlier ones to the same peer.", needs={"fence"})
def fenced_read_sees_all_earlier_writes(pair: Pair) -> None:
    """Eight long writes, none of them waited for."""
    memory, result = pair.memory(4096), bytearray(4096)
    for index in range(8):
        pair.near.endpoint.write(pattern(512, index), *memory.at(512 * index))
    pair.near.endpoint.readmsg(message(memory, result), OpFlags.FI_FENCE)
    pair.near.finish_all(9)
    expect_equal("result", bytes(result), b"".join(pattern(512, index) for index in range(8)))


@page("FLAGS: FI_FENCE", "A fenced operation waits for all earlier ones to the same peer.", needs={"fence"})
def fenced_write_leaves_earlier_reads_alone(pair: Pair) -> None:
    """A long read gets what was there before the fenced write over it."""
    memory, result = pair.memory(pattern(_LONG)), bytearray(_LONG)
    pair.near.endpoint.read(result, *memory.at())
    pair.near.endpoint.writemsg(message(memory, pattern(_LONG, 99)), OpFlags.FI_FENCE)
    pair.near.finish_all(2)
    expect_equal("result", bytes(result), pattern(_LONG))
    expect_equal("memory", memory.load(), pattern(_LONG, 99))


@page("FLAGS: FI_FENCE", "Operations posted after the fenced one wait, too.", needs={"fence"})
def what_follows_a_fenced_operation_waits_too(pair: Pair) -> None:
    """A read, posted after a fenced operation on other memory, sees writes from before it."""
    memory, other, result = pair.memory(2048), pair.memory(8), bytearray(2048)
    for index in range(4):
        pair.near.endpoint.write(pattern(512, index), *memory.at(512 * index))
    pair.near.endpoint.writemsg(message(other, pattern(8)), OpFlags.FI_FENCE)
    pair.near.endpoint.read(result, *memory.at())
    pair.near.finish_all(6)
    expect_equal("result", bytes(result), b"".join(pattern(512, index) for index in range(4)))


@page("FLAGS: FI_FENCE", "A fenced operation on several segments is fenced as a whole.", needs={"fence"})
def fence_holds_for_messages_of_several_segments(pair: Pair) -> None:
    """Each of two segments of a fenced read sees an earlier write."""
    memory, result = pair.memory(1024), bytearray(1024)
    pair.near.endpoint.write(pattern(1024), *memory.at())
    segments = [RmaIov(memory.address + at, 512, memory.key) for at in (512, 0)]
    pair.near.endpoint.readmsg(RmaMsg([result], pair.peer, segments), OpFlags.FI_FENCE)
    pair.near.finish_all(2)
    expect_equal("result", bytes(result), pattern(1024)[512:] + pattern(1024)[:512])


@page("FLAGS", "Flags that do not apply to a call are refused, and nothing is written.")
def flags_that_mean_nothing_here_are_refused(pair: Pair) -> None:
    """Some that belong to receive calls."""
    memory = pair.memory(8)
    for flag in (OpFlags.FI_PEEK, OpFlags.FI_MATCH_COMPLETE):
        with expect_error(repr(flag), Errno.FI_EBADFLAGS, Errno.FI_EINVAL, Errno.FI_EOPNOTSUPP):
            pair.near.endpoint.writemsg(message(memory, pattern(8)), flag)
    pair.near.nothing_more()
    expect_equal("memory", memory.load(), bytes(8))


# Local buffers


@page("ARGUMENTS", "desc is the descriptor of the region that holds the local buffer.")
def registered_buffers_are_used_through_their_descriptor(pair: Pair) -> None:
    """Source and result lie within regions that begin before them and end after them."""
    memory, buffer = pair.memory(64), bytearray(pattern(128))
    region = pair.local(buffer, MrAccess.FI_READ | MrAccess.FI_WRITE)
    view = memoryview(buffer)
    pair.near.endpoint.write(view[3:67], *memory.at(), desc=region)
    pair.near.finish()
    expect_equal("memory", memory.load(), pattern(128)[3:67])
    pair.near.endpoint.read(view[64:128], *memory.at(), desc=region)
    pair.near.finish()
    expect_equal("buffer", bytes(buffer), pattern(128)[:64] + pattern(128)[3:67])


@page("ARGUMENTS", "desc is an array of descriptors, one per buffer, where there are several buffers.")
def vectors_take_a_descriptor_per_buffer(pair: Pair) -> None:
    """Two regions; one descriptor too few is refused."""
    memory = pair.memory(64)
    buffers = [bytearray(pattern(32, seed)) for seed in (1, 2)]
    regions = [pair.local(buffer, MrAccess.FI_WRITE) for buffer in buffers]
    pair.near.endpoint.writev(buffers, *memory.at(), desc=regions)
    pair.near.finish()
    expect_equal("memory", memory.load(), pattern(32, 1) + pattern(32, 2))
    with expect_error("one descriptor for two buffers", Errno.FI_EINVAL):
        pair.near.endpoint.writev(buffers, *memory.at(), desc=regions[:1])


@page("ARGUMENTS", "dest_addr names a peer of the address vector.")
def peers_that_were_never_inserted_are_refused(pair: Pair) -> None:
    """The number after the last one; nothing is written."""
    memory = pair.memory(8)
    _, address, key = memory.at()
    with expect_error("an unknown dest_addr", Errno.FI_EINVAL, Errno.FI_EADDRNOTAVAIL):
        pair.near.endpoint.write(pattern(8), len(pair.peers) + 5, address, key)
    pair.near.nothing_more()
    expect_equal("memory", memory.load(), bytes(8))


@page("SYNOPSIS", "addr and key are numbers of 64 bits.")
def addresses_and_keys_beyond_64_bits_are_refused(pair: Pair) -> None:
    """They must not be cut to what fits."""
    memory = pair.memory(8)
    peer, address, key = memory.at()
    for wrong in ((address + (1 << 64), key), (address, key + (1 << 64)), (-1, key)):
        with expect_error(f"addr and key {wrong}", Errno.FI_EINVAL):
            pair.near.endpoint.write(pattern(8), peer, *wrong)
    pair.near.nothing_more()
    expect_equal("memory", memory.load(), bytes(8))


@page("DESCRIPTION", "Completions say what kind of operation has ended.")
def entries_say_whether_it_was_a_read_or_a_write(pair: Pair) -> None:
    """FI_RMA with FI_WRITE or FI_READ."""
    memory = pair.memory(8)
    pair.near.endpoint.write(pattern(8), *memory.at())
    expect_equal("flags of a write", pair.near.finish().flags, int(Caps.FI_RMA | Caps.FI_WRITE))
    pair.near.endpoint.read(bytearray(8), *memory.at())
    expect_equal("flags of a read", pair.near.finish().flags, int(Caps.FI_RMA | Caps.FI_READ))
