"""fi_msg(3), FLAGS: what sends and receives may ask for."""

from amoeba.core.errno import Errno
from amoeba.libfabric.objects.constants import BindFlags, OpFlags
from amoeba.libfabric.objects.operations.operations import NO_FLAGS
from amoeba.libfabric.objects.operations.vectors import Msg

from amoeba_tools.conformance.expectations import expect_equal, expect_error
from amoeba_tools.conformance.pages.fi_msg import DATA, LONG, MULTI, RECEIVED, aligned, page
from amoeba_tools.conformance.pages.fi_rma import pattern
from amoeba_tools.conformance.pair import Pair

COMPLETION = OpFlags.FI_COMPLETION
SELECTIVE = BindFlags.FI_SELECTIVE_COMPLETION


@page("FLAGS", "Flags of fi_sendmsg override those of the endpoint.")
def flags_of_messages_override_those_of_the_endpoint(pair: Pair) -> None:
    """Request completions by the endpoint's flags, not by the message's; other calls have no flags of their own."""
    near = pair.open(bind=SELECTIVE, op_flags=COMPLETION)
    receives = [pair.receive(1) for _ in range(3)]
    near.endpoint.sendmsg(Msg([b"1"], pair.peer, context="silent"))
    near.endpoint.send(b"2", pair.peer, context="send")
    near.endpoint.sendmsg(Msg([b"3"], pair.peer, context="asked for"), COMPLETION)
    expect_equal("contexts", [entry.op_context for entry in near.finish_all(2)], ["send", "asked for"])
    near.nothing_more()
    pair.target.hear(3, pair.patience)
    expect_equal("messages", b"".join(receive.load() for receive in receives), b"123")


@page("FLAGS: FI_COMPLETION", "The flag requests an entry on a queue that was bound with FI_SELECTIVE_COMPLETION.")
def sends_on_a_selective_queue_are_reported_where_asked_for(pair: Pair) -> None:
    """Request the second of three entries; repeat with a long message."""
    near, receives = pair.talker(bind=SELECTIVE), [pair.receive(LONG) for _ in range(4)]
    for context, flags in (("a", NO_FLAGS), ("b", COMPLETION), ("c", NO_FLAGS)):
        near.endpoint.sendmsg(Msg([b"x"], pair.peer, context=context), flags)
    near.endpoint.sendmsg(Msg([pattern(LONG)], pair.peer, context="long"), COMPLETION)
    pair.target.hear(4, pair.patience)
    expect_equal("contexts", [entry.op_context for entry in near.finish_all(2)], ["b", "long"])
    near.nothing_more()
    expect_equal("the long message", receives[3].load(), pattern(LONG))


@page("FLAGS: FI_COMPLETION", "The flag requests an entry on a queue that was bound with FI_SELECTIVE_COMPLETION.")
def receives_on_a_selective_queue_are_reported_where_asked_for(pair: Pair) -> None:
    """Post two receives, the first of which is silent; both get their message."""
    near = pair.talker(bind=BindFlags.FI_SELECTIVE_COMPLETION)
    buffers = [bytearray(6), bytearray(6)]
    near.endpoint.recv(buffers[0], context="silent")
    near.endpoint.recv(buffers[1], context="loud", flags=OpFlags.FI_COMPLETION)
    near.get(b"first!", b"second")
    expect_equal("op_context", near.finish().op_context, "loud")
    near.nothing_more()
    expect_equal("buffers", [bytes(buffer) for buffer in buffers], [b"first!", b"second"])


@page("FLAGS: FI_COMPLETION", "Without FI_SELECTIVE_COMPLETION the flag is ignored.")
def completion_flag_is_ignored_on_other_queues(pair: Pair) -> None:
    """Expect one entry of sends and receives each, with the flag and without."""
    near = pair.talker()
    own = pair.introduce(near.endpoint)
    for context, flags in (("with", COMPLETION), ("without", NO_FLAGS)):
        near.endpoint.recvmsg(Msg([bytearray(1)], context=f"in, {context}"), flags)
        near.endpoint.sendmsg(Msg([b"!"], own, context=f"out, {context}"), flags)
        told = sorted(entry.op_context for entry in near.finish_all(2))
        expect_equal("contexts", told, [f"in, {context}", f"out, {context}"])
    near.nothing_more()


@page("FLAGS: FI_MORE", "Further requests follow at once; all of them are carried out.")
def sends_with_more_are_sent_in_order(pair: Pair) -> None:
    """Post seven with the flag, the eighth without it."""
    receives = [pair.receive(1) for _ in range(8)]
    for index in range(8):
        flags = OpFlags.FI_MORE if index < 7 else NO_FLAGS
        pair.near.endpoint.sendmsg(Msg([bytes([index])], pair.peer), flags)
    pair.near.finish_all(8)
    pair.target.hear(8, pair.patience)
    expect_equal("messages", b"".join(receive.load() for receive in receives), bytes(range(8)))


@page("FLAGS: FI_MORE", "Further requests follow at once; all of them are carried out.")
def receives_with_more_are_posted_in_order(pair: Pair) -> None:
    """Set the flag on the last receive, too: reading the queue posts all of them."""
    near = pair.talker()
    for index in range(3):
        near.endpoint.recv(bytearray(1), context=index, flags=OpFlags.FI_MORE)
    near.nothing_more()
    near.get(b"a", b"b", b"c")
    expect_equal("contexts", [entry.op_context for entry in near.finish_all(3)], [0, 1, 2])


@page("FLAGS: FI_INJECT", "FI_INJECT is limited to inject_size.")
def inject_flag_beyond_inject_size_is_refused(pair: Pair) -> None:
    """Use one byte too many; the receive gets the next message."""
    most, receive = pair.info.tx_attr.inject_size, pair.receive(8)
    with expect_error(f"{most + 1} bytes", Errno.FI_EINVAL, Errno.FI_EMSGSIZE):
        pair.near.endpoint.sendmsg(Msg([bytes(most), b"!"], pair.peer), OpFlags.FI_INJECT)
    pair.near.endpoint.inject(b"the next", pair.peer)
    receive.finish()
    pair.near.nothing_more()
    expect_equal("memory", receive.load(), b"the next")


@page("FLAGS: FI_MULTI_RECV", "The end is reported, even where receives are not.")
def the_end_of_a_multi_receive_is_reported_on_a_selective_queue(pair: Pair) -> None:
    """Report only the message that fills the buffer, of three; a later message goes elsewhere, silently."""
    near, buffer = pair.talker(bind=SELECTIVE), aligned(2 * 64 + 4)
    near.endpoint.recv(buffer, context="pool", flags=MULTI)
    near.endpoint.recv(bytearray(4), context="silent")
    near.get(b"one.", b"two.", b"more", b"over")
    entry = near.finish()
    expect_equal("context and flags", (entry.op_context, entry.flags), ("pool", RECEIVED | MULTI))
    near.nothing_more()
    received = [bytes(buffer[place : place + 4]) for place in (0, 64, 128)]
    expect_equal("buffer", received, [b"one.", b"two.", b"more"])


@page("FLAGS: FI_INJECT_COMPLETE", "The operation completes when the source may be reused.")
def inject_complete_frees_the_source(pair: Pair) -> None:
    """Overwrite the source on completion, before a receive is posted."""
    source = bytearray(pattern(200))
    pair.near.endpoint.sendmsg(Msg([source], pair.peer), OpFlags.FI_INJECT_COMPLETE)
    pair.near.finish()
    source[:] = bytes(200)
    receive = pair.receive(200)
    receive.finish()
    expect_equal("memory", receive.load(), pattern(200))


@page("FLAGS: FI_TRANSMIT_COMPLETE", "A send completes when the provider does not track it any more.")
def transmit_complete_needs_no_more_of_this_side(pair: Pair) -> None:
    """Overwrite the source and close the endpoint; a later receive still gets the message."""
    near, source = pair.open(), bytearray(pattern(200))
    near.endpoint.sendmsg(Msg([source], pair.peer), OpFlags.FI_TRANSMIT_COMPLETE)
    near.finish()
    source[:] = bytes(200)
    near.endpoint.close()
    receive = pair.receive(200)
    receive.finish()
    expect_equal("memory", receive.load(), pattern(200))


@page("FLAGS: FI_TRANSMIT_COMPLETE", "A receive may complete before its data is visible everywhere.")
def receives_may_ask_for_less(pair: Pair) -> None:
    """Check that the data is visible all the same."""
    near, buffer = pair.talker(), bytearray(8)
    near.endpoint.recvmsg(Msg([buffer], context="in"), OpFlags.FI_TRANSMIT_COMPLETE)
    near.get(b"visible.")
    expect_equal("op_context", near.finish().op_context, "in")
    expect_equal("buffer", bytes(buffer), b"visible.")


@page("FLAGS: FI_DELIVERY_COMPLETE", "The send completes when the destination has processed the message.")
def delivery_complete_means_that_it_is_there(pair: Pair) -> None:
    """Check the buffer of a ready receive before its entry has been read; short and long."""
    near = pair.talker()
    for size in (200, LONG):
        receive = pair.receive(size)
        near.endpoint.sendmsg(Msg([pattern(size)], pair.peer), OpFlags.FI_DELIVERY_COMPLETE)
        if size == LONG:  # which its receiver reads while it reads its queue
            receive.finish()
        near.finish()
        expect_equal(f"{size} bytes", receive.load(), pattern(size))
        if size < LONG:
            receive.finish()


@page(
    "FLAGS: FI_FENCE",
    "The operation waits until all earlier ones to the same peer have completed.",
    needs={"fence"},
)
def a_fenced_send_comes_after_the_writes_before_it(pair: Pair) -> None:
    """Check that at the end of the receive all earlier writes are there."""
    memory = pair.memory(LONG)
    receive = pair.receive(4)
    pair.near.endpoint.write(pattern(LONG), *memory.at())
    pair.near.endpoint.sendmsg(Msg([b"done"], pair.peer), OpFlags.FI_FENCE)
    receive.finish()
    expect_equal("memory", memory.load(), pattern(LONG))
    pair.near.finish_all(2)


@page("FLAGS: FI_FENCE", "Operations posted after the fenced one are deferred, too.", needs={"fence", "rma"})
def what_follows_a_fenced_send_waits_too(pair: Pair) -> None:
    """Check that at the receive of the message behind the fence all earlier writes are there."""
    memory, receives = pair.memory(LONG), [pair.receive(1) for _ in range(2)]
    pair.near.endpoint.write(pattern(LONG), *memory.at())
    pair.near.endpoint.sendmsg(Msg([b"1"], pair.peer), OpFlags.FI_FENCE)
    pair.near.endpoint.send(b"2", pair.peer)
    heard = [entry.handle for entry in pair.target.hear(2, pair.patience)]
    expect_equal("received", heard, [receive.handle for receive in receives])
    expect_equal("memory", memory.load(), pattern(LONG))
    pair.near.finish_all(3)


@page("FLAGS", "These flags are usable with the calls; others are refused.")
def flags_that_mean_nothing_here_are_refused(pair: Pair) -> None:
    """Pass flags of searches, which need tagged messages, and of the other direction; nothing is posted."""
    near = pair.talker()
    for flag in (OpFlags.FI_DISCARD, OpFlags.FI_CLAIM, OpFlags.FI_FENCE, DATA):
        with expect_error(f"a receive with {flag!r}", Errno.FI_EBADFLAGS, Errno.FI_EINVAL):
            near.endpoint.recvmsg(Msg([bytearray(1)]), flag)
    for flag in (OpFlags.FI_PEEK, OpFlags.FI_CLAIM, MULTI):
        with expect_error(f"a send with {flag!r}", Errno.FI_EBADFLAGS):
            near.endpoint.sendmsg(Msg([b"x"], pair.peer), flag)
    near.endpoint.recv(bytearray(1), context="good")
    near.get(b"!")
    expect_equal("op_context", near.finish().op_context, "good")
    near.nothing_more()


# Without a check of their own

page.leave(
    "FLAGS: FI_REMOTE_CQ_DATA",
    "The flag requests that the message's data is sent.",
    "`fi_msg.sendmsg_sends_what_its_message_says`",
)
page.leave("FLAGS: FI_MORE", "The flag may improve performance.", "The page requires nothing.")
page.leave("FLAGS: FI_INJECT", "The provider may have to copy the data.", "The page requires nothing.")
page.leave(
    "FLAGS: FI_FENCE",
    "From one fenced operation to the next, the endpoint's order holds.",
    "`fi_msg.sends_of_all_lengths_keep_their_order`, `fi_msg.a_send_comes_after_the_writes_before_it`",
)
page.leave("FLAGS: FI_MULTICAST", "The destination is a multicast address.", "FI_MULTICAST is not offered.")
