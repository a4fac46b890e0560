"""fi_tagged(3): searches for messages that have come, with FI_PEEK, FI_CLAIM and FI_DISCARD."""

from amoeba.core.buffers import address_of
from amoeba.core.errno import Errno
from amoeba.libfabric.objects.constants import FI_ADDR_NOTAVAIL, FI_ADDR_UNSPEC, BindFlags, OpFlags
from amoeba.libfabric.objects.operations.vectors import TaggedMsg
from amoeba.libfabric.objects.queues.completion import CqTaggedEntry

from amoeba_tools.conformance.expectations import expect, expect_equal, expect_error
from amoeba_tools.conformance.pages.fi_msg import DATA, LONG
from amoeba_tools.conformance.pages.fi_rma import pattern
from amoeba_tools.conformance.pages.fi_tagged import ALL, RECEIVED, TAG, contexts, page
from amoeba_tools.conformance.pair import Pair, Talker

PEEK, CLAIM, DISCARD = OpFlags.FI_PEEK, OpFlags.FI_CLAIM, OpFlags.FI_DISCARD


def ask(near: Talker, flags: OpFlags, *buffers: bytearray, tag: int = TAG, context: object = "asked") -> None:
    """Post a receive with flags."""
    near.endpoint.trecvmsg(TaggedMsg(buffers, FI_ADDR_UNSPEC, tag, context=context), flags)


def found_nothing(near: Talker, tag: int = TAG) -> None:
    """Check that no waiting message with this tag is found."""
    ask(near, PEEK, tag=tag)
    entry = near.failure(Errno.FI_ENOMSG)
    expect_equal("context, flags, len", (entry.op_context, entry.flags, entry.len), ("asked", RECEIVED, 0))


def offer(pair: Pair, near: Talker, message: bytes, data: int | None = None) -> None:
    """Let the target send data with TAG; return when the message has come.

    The sender of a long message gets no completion of it before the receive, but gets those of later messages.
    """
    if len(message) < LONG:
        near.get(message, tag=TAG, data=data)
    else:
        pair.target.send(near.number, message, TAG, data)
        near.endpoint.trecv(bytearray(1), TAG ^ ALL)
        near.get(b".", tag=TAG ^ ALL)
        near.finish()


@page("FLAGS: FI_PEEK", "The entry of a found message has its length, flags, data and tag.")
def peek_reports_the_message_and_leaves_it(pair: Pair) -> None:
    """Peek twice; then receive. Short and long."""
    near = pair.talker()
    for message in (b"look at me", pattern(LONG)):
        offer(pair, near, message, 9)
        expected = CqTaggedEntry("asked", RECEIVED | DATA, len(message), 0, 9, TAG)
        for _ in range(2):
            ask(near, PEEK)
            expect_equal("entry", near.finish(), expected)
        buffer = bytearray(len(message))
        near.endpoint.trecv(buffer, TAG)
        near.finish()
        expect_equal("buffer", bytes(buffer), message)
        if len(message) == LONG:
            pair.target.hear(1, pair.patience)


@page("FLAGS: FI_PEEK", "If no such message is found, there is an error entry with FI_ENOMSG.")
def peek_without_a_match_fails(pair: Pair) -> None:
    """Peek when nothing has come; then when something with another tag has, and without one."""
    near = pair.talker()
    found_nothing(near)
    near.get(b"x", tag=TAG + 1)
    near.get(b"y")
    found_nothing(near)
    near.nothing_more()


@page("FLAGS: FI_PEEK", "The search does not remain queued after its completion.")
def a_peek_that_found_nothing_takes_nothing_later(pair: Pair) -> None:
    """Post a receive after the search; the message goes to the receive."""
    near = pair.talker()
    found_nothing(near)
    near.get(b"later", tag=TAG)
    near.nothing_more()
    near.endpoint.trecv(bytearray(8), TAG, context="receive")
    expect_equal("receives", contexts(near, 1), ["receive"])


@page("ARGUMENTS: src_addr", "With FI_DIRECTED_RECV, a search finds messages of this peer only.")
def a_directed_peek_finds_messages_of_its_peer(pair: Pair) -> None:
    """Let a stranger's message come first; the search ignores that message."""
    near = pair.talker()
    pair.near.endpoint.tsend(b"stranger", pair.introduce(near.endpoint), TAG)
    pair.near.finish()
    search = TaggedMsg([], pair.peer, TAG, context="asked")
    near.endpoint.trecvmsg(search, PEEK)
    near.failure(Errno.FI_ENOMSG)
    near.get(b"the peer", tag=TAG, data=5)
    near.endpoint.trecvmsg(search, PEEK)
    expect_equal("data", near.finish().data, 5)
    for _ in range(2):
        ask(near, PEEK | DISCARD)
        near.finish()


@page("FLAGS: FI_PEEK", "With a buffer it may bring data: buf of the entry says so, len is the message's.")
def a_peek_with_a_buffer_tells_whether_it_has_data(pair: Pair) -> None:
    """Check buf of the entry: it says whether the buffer has the message's begin or is unchanged."""
    near, buffer = pair.talker(), bytearray(b"\xee" * 4)
    near.get(b"longer than that", tag=TAG)
    ask(near, PEEK, buffer)
    entry = near.finish()
    expect_equal("len and tag", (entry.len, entry.tag), (16, TAG))
    expect(
        entry.buf in (0, address_of(memoryview(buffer))), f"expected the buffer's address or 0, got {entry.buf:#x}"
    )
    expect_equal("buffer", bytes(buffer), b"long" if entry.buf else b"\xee" * 4)
    ask(near, PEEK | DISCARD)
    near.finish()


@page("FLAGS: FI_CLAIM", "With FI_PEEK it claims the message, for a receive with FI_CLAIM and the same context.")
def a_claimed_message_is_received_by_its_context(pair: Pair) -> None:
    """Send another message: it goes to a receive for the tag, while the claimed one stays claimed."""
    near, buffer = pair.talker(), bytearray(8)
    near.get(b"claimed!", tag=TAG, data=4)
    ask(near, PEEK | CLAIM, context="claim")
    expected = CqTaggedEntry("claim", RECEIVED | DATA, 8, 0, 4, TAG)
    expect_equal("entry", near.finish(), expected)
    found_nothing(near)
    near.endpoint.trecv(bytearray(8), TAG, context="bystander")
    near.get(b"another", tag=TAG)
    expect_equal("receives", contexts(near, 1), ["bystander"])
    ask(near, CLAIM, buffer, context="claim")
    expect_equal("entry", near.finish(), expected)
    expect_equal("buffer", bytes(buffer), b"claimed!")


@page("FLAGS: FI_CLAIM", "With FI_PEEK it claims the message, for a receive with FI_CLAIM and the same context.")
def a_long_message_can_be_claimed(pair: Pair) -> None:
    """Check that the sender waits until the message is received."""
    near, buffer = pair.talker(), bytearray(LONG)
    offer(pair, near, pattern(LONG))
    ask(near, PEEK | CLAIM, context="claim")
    expect_equal("len", near.finish().len, LONG)
    expect_equal("entries at the sender", pair.target.hear(1, 0.0), [])
    ask(near, CLAIM, buffer, context="claim")
    expect_equal("len", near.finish().len, LONG)
    expect_equal("buffer", bytes(buffer), pattern(LONG))
    expect_equal("the sender's len", [entry.len for entry in pair.target.hear(1, pair.patience)], [LONG])


@page("FLAGS: FI_CLAIM", "Without FI_PEEK it retrieves what was claimed before with its context.")
def a_claim_of_what_was_not_claimed_is_refused(pair: Pair) -> None:
    """Use another context than the claim's, and the claim's a second time."""
    near = pair.talker()
    near.get(b"claimed!", tag=TAG)
    with expect_error("nothing is claimed", Errno.FI_EINVAL):
        ask(near, CLAIM, bytearray(8), context="claim")
    ask(near, PEEK | CLAIM, context="claim")
    near.finish()
    with expect_error("another context", Errno.FI_EINVAL):
        ask(near, CLAIM, bytearray(8), context="other")
    ask(near, CLAIM, bytearray(8), context="claim")
    near.finish()
    with expect_error("a second time", Errno.FI_EINVAL):
        ask(near, CLAIM, bytearray(8), context="claim")
    near.nothing_more()


@page("FLAGS: FI_DISCARD", "With FI_PEEK the message that was found is discarded.")
def a_message_found_can_be_dropped(pair: Pair) -> None:
    """Drop a short and a long message, whose sender completes; the drop is reported, and the message is gone."""
    near = pair.talker()
    for message in (b"unwanted", pattern(LONG)):
        offer(pair, near, message, 9)
        ask(near, PEEK | DISCARD)
        entry = near.finish()
        fields = (entry.op_context, entry.len, entry.data, entry.tag)
        expect_equal("context, len, data, tag", fields, ("asked", len(message), 9, TAG))
        found_nothing(near)
        if len(message) == LONG:
            expect_equal("the sender's err", [each.err for each in pair.target.hear(1, pair.patience)], [0])


@page("FLAGS: FI_DISCARD", "With FI_CLAIM it discards a message claimed before.")
def a_claimed_message_can_be_dropped(pair: Pair) -> None:
    """Check that the drop is reported, and that the message cannot be claimed again."""
    near = pair.talker()
    near.get(b"unwanted", tag=TAG)
    ask(near, PEEK | CLAIM, context="claim")
    near.finish()
    ask(near, CLAIM | DISCARD, context="claim")
    expect_equal("op_context", near.finish().op_context, "claim")
    with expect_error("a second time", Errno.FI_EINVAL):
        ask(near, CLAIM, bytearray(8), context="claim")
    found_nothing(near)


@page("FLAGS: FI_DISCARD", "The flag is used with either FI_PEEK or FI_CLAIM.")
def other_combinations_are_refused(pair: Pair) -> None:
    """Use FI_DISCARD alone, and all three; the message is still there."""
    near = pair.talker()
    near.get(b"!", tag=TAG)
    for flags in (DISCARD, PEEK | CLAIM | DISCARD):
        with expect_error(f"{flags!r}", Errno.FI_EBADFLAGS, Errno.FI_EINVAL):
            ask(near, flags)
    near.endpoint.trecv(bytearray(1), TAG, context="receive")
    expect_equal("receives", contexts(near, 1), ["receive"])


@page("FLAGS: FI_PEEK", "The entry of a found message has its source.", needs={"source"})
def a_peek_tells_who_has_sent(pair: Pair) -> None:
    """Search for a message of the target, and for one of a sender outside the address vector."""
    near = pair.talker()
    near.get(b"mine", tag=TAG)
    pair.near.endpoint.tsend(b"stranger", pair.introduce(near.endpoint), TAG + 1)
    pair.near.finish()
    for tag, expected in ((TAG, pair.peer), (TAG + 1, FI_ADDR_NOTAVAIL)):
        ask(near, PEEK, tag=tag)
        ((_, source),) = near.queue.sreadfrom(1, pair.patience)
        expect_equal(f"source of the message with tag {tag:#x}", source, expected)
        ask(near, PEEK | DISCARD, tag=tag)
        near.finish()


@page("FLAGS: FI_PEEK", "The result is in the completion queue, in its format.")
def searches_on_a_selective_queue_are_reported_where_asked_for(pair: Pair) -> None:
    """Request the second of two entries; the message is still there."""
    near = pair.talker(bind=BindFlags.FI_SELECTIVE_COMPLETION)
    near.get(b"3", tag=TAG)
    ask(near, PEEK, context="silent")
    ask(near, PEEK | OpFlags.FI_COMPLETION, context="loud")
    expect_equal("searches", contexts(near, 1), ["loud"])
    near.nothing_more()
    near.endpoint.trecv(bytearray(1), TAG, context="receive", flags=OpFlags.FI_COMPLETION)
    expect_equal("receives", contexts(near, 1), ["receive"])


@page("FLAGS: FI_PEEK", "No more data is returned than the buffer holds, or the message has.")
def a_peek_brings_no_more_than_there_is_space_for(pair: Pair) -> None:
    """Search with a shorter and a longer buffer; bytes behind the returned data stay."""
    near = pair.talker()
    near.get(b"message", tag=TAG)
    for size in (3, 7, 12):
        whole = bytearray(b"\xee" * 16)
        near.endpoint.trecvmsg(TaggedMsg([memoryview(whole)[:size]], FI_ADDR_UNSPEC, TAG), PEEK)
        entry = near.finish()
        expect_equal("len", entry.len, 7)
        brought = b"message"[:size] if entry.buf else b""
        expect_equal(f"{size} bytes", bytes(whole), brought.ljust(16, b"\xee"))
    ask(near, PEEK | DISCARD)
    near.finish()


@page("FLAGS: FI_DISCARD", "The buffers given with it are ignored.")
def buffers_of_a_discard_are_ignored(pair: Pair) -> None:
    """Discard messages that were found, and messages that were claimed."""
    near, buffer = pair.talker(), bytearray(b"\xee" * 8)
    for flags in (PEEK | DISCARD, CLAIM | DISCARD):
        near.get(b"unwanted", tag=TAG)
        if flags & CLAIM:
            ask(near, PEEK | CLAIM, context="asked")
            near.finish()
        ask(near, flags, buffer)
        expect_equal("op_context", near.finish().op_context, "asked")
        expect_equal("buffer", bytes(buffer), b"\xee" * 8)
    found_nothing(near)


@page("FLAGS: FI_MATCH_COMPLETE", "The send completes when the target has matched or discarded the message.")
def a_discarded_message_completes_its_send(pair: Pair) -> None:
    """Send to another endpoint of this side, which finds and discards the message."""
    near, far = pair.talker(), pair.talker()
    to, _ = pair.introduce(far.endpoint), pair.introduce(near.endpoint)
    near.endpoint.tsend(b"unwanted", to, TAG, context="matched", flags=OpFlags.FI_MATCH_COMPLETE)
    near.endpoint.tsend(b"behind", to, TAG + 1, context="behind")
    expect_equal("op_context", near.finish().op_context, "behind")
    near.nothing_more()
    ask(far, PEEK | DISCARD)
    far.finish()
    expect_equal("op_context", near.finish().op_context, "matched")
    ask(far, PEEK | DISCARD, tag=TAG + 1)
    far.finish()
    far.endpoint.close()  # waits until it knows that the sender has been told


# Without a check of their own

page.leave(
    "FLAGS: FI_PEEK",
    "The search is useful where the provider buffers messages, and is asynchronous.",
    "The sentence explains. The queue reports every search, never the call.",
)
page.leave(
    "FLAGS: FI_PEEK",
    "FI_CQ_FORMAT_CONTEXT and FI_CQ_FORMAT_MSG cannot be used where data is wanted.",
    "A duty of the application: the entries have no buf that could show the data.",
)
page.leave(
    "FLAGS: FI_CLAIM",
    "The context of both requests is a struct fi_context.",
    "Any object is a context here: `fi_tagged.a_claimed_message_is_received_by_its_context`",
)
page.leave(
    "FLAGS: FI_CLAIM, FI_DISCARD; Buffered Tagged Receives, Variable Length Tagged Messages",
    "How messages are received into buffers of the provider's.",
    "FI_BUFFERED_RECV and FI_VARIABLE_MSG are not offered: [libfabric.md](libfabric.md).",
)
