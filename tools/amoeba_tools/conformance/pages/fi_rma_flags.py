"""fi_rma(3), FLAGS: what writes and reads may ask for."""

from amoeba.core.errno import Errno
from amoeba.libfabric.objects.constants import BindFlags, MrAccess, MrFlags, OpFlags
from amoeba.libfabric.objects.operations.operations import NO_FLAGS
from amoeba.libfabric.objects.operations.vectors import RmaIov, RmaMsg

from amoeba_tools.conformance.expectations import expect_equal, expect_error
from amoeba_tools.conformance.pages.fi_rma import LONG, message, page, pattern
from amoeba_tools.conformance.pair import Pair


@page("FLAGS: FI_REMOTE_CQ_DATA", "With the flag, fi_writemsg sends the data of the message.")
def writemsg_with_remote_cq_data_tells_the_target(pair: Pair) -> None:
    """Expect one entry for one message of two segments."""
    memory = pair.memory(32)
    segments = [RmaIov(memory.address + at, 8, memory.key) for at in (0, 16)]
    pair.near.endpoint.writemsg(RmaMsg([pattern(16)], pair.peer, segments, data=1 << 63), OpFlags.FI_REMOTE_CQ_DATA)
    (entry,) = pair.target.hear(1, pair.patience)
    expect_equal("data", entry.data, 1 << 63)
    expect_equal("memory", memory.load(), pattern(16)[:8] + bytes(8) + pattern(16)[8:] + bytes(8))
    pair.near.finish()


@page("FLAGS: FI_REMOTE_CQ_DATA", "Without the flag, the data of a message is not sent.")
def writemsg_without_remote_cq_data_is_silent(pair: Pair) -> None:
    """Write without the flag, then with data: the target's first entry is of the second write."""
    memory = pair.memory(8)
    pair.near.endpoint.writemsg(message(memory, pattern(8), data=1))
    pair.near.endpoint.writedata(b"", 2, *memory.at())
    pair.near.finish_all(2)
    expect_equal("data", [entry.data for entry in pair.target.hear(1, pair.patience)], [2])


@page("FLAGS: FI_INJECT", "The outbound buffers are returned to the application when the call returns.")
def writemsg_with_inject_has_taken_the_data_when_it_returns(pair: Pair) -> None:
    """Overwrite two buffers at once; success is reported all the same."""
    memory, first, second = pair.memory(40), bytearray(pattern(13)), bytearray(pattern(27, 5))
    pair.near.endpoint.writemsg(message(memory, first, second, context="injected"), OpFlags.FI_INJECT)
    first[:], second[:] = b"\xee" * 13, b"\xee" * 27
    expect_equal("op_context", pair.near.finish().op_context, "injected")
    expect_equal("memory", memory.load(), pattern(13) + pattern(27, 5))


@page("FLAGS: FI_INJECT", "FI_INJECT is limited to inject_size.")
def writemsg_with_inject_beyond_inject_size_is_refused(pair: Pair) -> None:
    """Use one byte too many; nothing is written."""
    most = pair.info.tx_attr.inject_size
    memory = pair.memory(most + 1)
    with expect_error(f"{most + 1} bytes", Errno.FI_EINVAL, Errno.FI_EMSGSIZE):
        pair.near.endpoint.writemsg(message(memory, bytes(most), b"\xee"), OpFlags.FI_INJECT)
    pair.near.nothing_more()
    expect_equal("memory", memory.load(), bytes(most + 1))


@page("FLAGS: FI_COMPLETION", "The flag requests an entry on a queue that was bound with FI_SELECTIVE_COMPLETION.")
def completion_flag_reports_on_a_selective_queue(pair: Pair) -> None:
    """Set the flag on the second of three messages only."""
    near, memory = pair.selective(), pair.memory(8)
    for context, flags in (("a", NO_FLAGS), ("b", OpFlags.FI_COMPLETION), ("c", NO_FLAGS)):
        near.endpoint.writemsg(message(memory, pattern(8), context=context), flags)
    near.endpoint.readmsg(message(memory, bytearray(8), context="d"), OpFlags.FI_COMPLETION)
    expect_equal("contexts", [entry.op_context for entry in near.finish_all(2)], ["b", "d"])
    near.nothing_more()


@page("FLAGS: FI_COMPLETION", "Without FI_SELECTIVE_COMPLETION the flag is ignored.")
def completion_flag_is_ignored_on_other_queues(pair: Pair) -> None:
    """Expect one entry each, with the flag and without."""
    memory = pair.memory(8)
    for context, flags in (("a", OpFlags.FI_COMPLETION), ("b", NO_FLAGS)):
        pair.near.endpoint.writemsg(message(memory, pattern(8), context=context), flags)
    expect_equal("contexts", [entry.op_context for entry in pair.near.finish_all(2)], ["a", "b"])
    pair.near.nothing_more()


@page("FLAGS: FI_MORE", "Further requests follow at once; all of them are carried out.")
def requests_with_more_are_carried_out(pair: Pair) -> None:
    """Post seven with the flag, the eighth without it."""
    memory = pair.memory(64)
    for index in range(8):
        flags = OpFlags.FI_MORE if index < 7 else NO_FLAGS
        pair.near.endpoint.writemsg(message(memory, pattern(8, index), offset=8 * index), flags)
    pair.near.finish_all(8)
    expect_equal("memory", memory.load(), b"".join(pattern(8, index) for index in range(8)))


@page("FLAGS: FI_INJECT_COMPLETE", "The source may be reused when the completion has been read.")
def inject_complete_frees_the_source(pair: Pair) -> None:
    """Overwrite the source on completion; the target gets the old content."""
    memory, source = pair.memory(200), bytearray(pattern(200))
    pair.near.endpoint.writemsg(message(memory, source), OpFlags.FI_INJECT_COMPLETE)
    pair.near.finish()
    source[:] = b"\xee" * 200
    pair.near.endpoint.write(b"", *memory.at())  # in order behind it
    pair.near.finish()
    expect_equal("memory", memory.load(), pattern(200))


@page("FLAGS: FI_TRANSMIT_COMPLETE", "The operation no longer depends on this side once its completion is read.")
def transmit_complete_needs_no_more_of_this_side(pair: Pair) -> None:
    """Overwrite the source and close the endpoint; the target gets the old content."""
    memory, source = pair.memory(200), bytearray(pattern(200))
    near = pair.open()
    near.endpoint.writemsg(message(memory, source), OpFlags.FI_TRANSMIT_COMPLETE)
    near.finish()
    source[:] = b"\xee" * 200
    near.endpoint.close()
    expect_equal("memory", memory.load(), pattern(200))


@page("FLAGS: FI_DELIVERY_COMPLETE", "The destination has processed the operation when the completion is generated.")
def delivery_complete_means_that_it_is_there(pair: Pair) -> None:
    """Find every byte from the target's program, without further traffic."""
    memory = pair.memory(LONG)
    pair.near.endpoint.writemsg(message(memory, pattern(LONG)), OpFlags.FI_DELIVERY_COMPLETE)
    pair.near.finish()
    expect_equal("memory", memory.load(), pattern(LONG))


@page("FLAGS: FI_FENCE", "A fenced operation waits for all earlier ones to the same peer.", needs={"fence"})
def fenced_read_sees_all_earlier_writes(pair: Pair) -> None:
    """Read behind eight long writes, none of which has been waited for."""
    memory, result = pair.memory(4096), bytearray(4096)
    for index in range(8):
        pair.near.endpoint.write(pattern(512, index), *memory.at(512 * index))
    pair.near.endpoint.readmsg(message(memory, result), OpFlags.FI_FENCE)
    pair.near.finish_all(9)
    expect_equal("result", bytes(result), b"".join(pattern(512, index) for index in range(8)))


@page("FLAGS: FI_FENCE", "A fenced operation waits for all earlier ones to the same peer.", needs={"fence"})
def fenced_write_leaves_earlier_reads_alone(pair: Pair) -> None:
    """Read long memory, then overwrite it by a fenced write: the read gets the old content."""
    memory, result = pair.memory(pattern(LONG)), bytearray(LONG)
    pair.near.endpoint.read(result, *memory.at())
    pair.near.endpoint.writemsg(message(memory, pattern(LONG, 99)), OpFlags.FI_FENCE)
    pair.near.finish_all(2)
    expect_equal("result", bytes(result), pattern(LONG))
    expect_equal("memory", memory.load(), pattern(LONG, 99))


@page("FLAGS: FI_FENCE", "Operations posted after the fenced one wait, too.", needs={"fence"})
def what_follows_a_fenced_operation_waits_too(pair: Pair) -> None:
    """Post a read behind a fenced operation on other memory: the read sees writes from before the fence."""
    memory, other, result = pair.memory(2048), pair.memory(8), bytearray(2048)
    for index in range(4):
        pair.near.endpoint.write(pattern(512, index), *memory.at(512 * index))
    pair.near.endpoint.writemsg(message(other, pattern(8)), OpFlags.FI_FENCE)
    pair.near.endpoint.read(result, *memory.at())
    pair.near.finish_all(6)
    expect_equal("result", bytes(result), b"".join(pattern(512, index) for index in range(4)))


@page("FLAGS: FI_FENCE", "A fenced operation on several segments is fenced as a whole.", needs={"fence"})
def fence_holds_for_messages_of_several_segments(pair: Pair) -> None:
    """Use two segments of a fenced read, each of which sees an earlier write."""
    memory, result = pair.memory(1024), bytearray(1024)
    pair.near.endpoint.write(pattern(1024), *memory.at())
    segments = [RmaIov(memory.address + at, 512, memory.key) for at in (512, 0)]
    pair.near.endpoint.readmsg(RmaMsg([result], pair.peer, segments), OpFlags.FI_FENCE)
    pair.near.finish_all(2)
    expect_equal("result", bytes(result), pattern(1024)[512:] + pattern(1024)[:512])


@page("FLAGS", "These flags are usable with the calls; others are refused.")
def flags_that_mean_nothing_here_are_refused(pair: Pair) -> None:
    """Pass flags that belong to receive calls; the memory stays."""
    memory = pair.memory(8)
    for flag in (OpFlags.FI_PEEK, OpFlags.FI_MATCH_COMPLETE):
        with expect_error(repr(flag), Errno.FI_EBADFLAGS, Errno.FI_EINVAL, Errno.FI_EOPNOTSUPP):
            pair.near.endpoint.writemsg(message(memory, pattern(8)), flag)
    pair.near.nothing_more()
    expect_equal("memory", memory.load(), bytes(8))


@page("FLAGS", "Flags of fi_writemsg and fi_readmsg override those of the endpoint.")
def flags_of_messages_override_those_of_the_endpoint(pair: Pair) -> None:
    """Request completions by the endpoint's flags, not by the messages'; other calls have no flags of their own."""
    near = pair.open(bind=BindFlags.FI_SELECTIVE_COMPLETION, op_flags=OpFlags.FI_COMPLETION)
    memory = pair.memory(8)
    near.endpoint.writemsg(message(memory, pattern(8), context="silent write"))
    near.endpoint.readmsg(message(memory, bytearray(8), context="silent read"))
    near.endpoint.write(pattern(8), *memory.at(), context="write")
    near.endpoint.writemsg(message(memory, pattern(8, 2), context="asked for"), OpFlags.FI_COMPLETION)
    expect_equal("contexts", [entry.op_context for entry in near.finish_all(2)], ["write", "asked for"])
    near.nothing_more()


@page("FLAGS: FI_COMMIT_COMPLETE", "The completion says that the result is durable.", needs={"persistent"})
def commit_complete_means_that_it_is_there(pair: Pair) -> None:
    """Check memory that is said to be persistent: the data is there, and reported once."""
    memory = bytearray(LONG)
    region = pair.keep(
        pair.domain.mr_reg(memory, MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE, flags=MrFlags.FI_RMA_PMEM)
    )
    own = pair.introduce(pair.near.endpoint)
    segment = RmaIov(region.address, LONG, region.key)
    write = RmaMsg([pattern(LONG)], own, [segment], context="durable")
    pair.near.endpoint.writemsg(write, OpFlags.FI_COMMIT_COMPLETE)
    expect_equal("op_context", pair.near.finish().op_context, "durable")
    pair.near.nothing_more()
    expect_equal("memory", bytes(memory), pattern(LONG))


# Without a check of their own

page.leave("FLAGS: FI_MORE", "The flag may improve performance.", "The page requires nothing.")
page.leave("FLAGS: FI_INJECT", "The provider may have to copy the data.", "The page requires nothing.")
page.leave(
    "FLAGS: FI_FENCE",
    "From one fenced operation to the next, the endpoint's order holds.",
    "`fi_endpoint.reads_after_writes_see_them`, `fi_endpoint.the_last_write_remains` and their neighbours",
)
