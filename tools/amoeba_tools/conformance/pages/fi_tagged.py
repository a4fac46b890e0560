"""fi_tagged(3): tagged messages, and which receives they meet."""

import itertools

from amoeba.core.errno import Errno
from amoeba.libfabric.objects.constants import FI_ADDR_UNSPEC, BindFlags, Caps, OpFlags
from amoeba.libfabric.objects.operations.vectors import TaggedMsg
from amoeba.libfabric.objects.queues.completion import CqTaggedEntry

from amoeba_tools.conformance.expectations import expect_equal, expect_error
from amoeba_tools.conformance.pages.fi_msg import DATA, LONG, MULTI, aligned, scattered
from amoeba_tools.conformance.pages.fi_rma import pattern
from amoeba_tools.conformance.pair import Pair, Talker
from amoeba_tools.conformance.registry import Page

page = Page("fi_tagged", "1.17", needs={"tagged"})

SENT = int(Caps.FI_TAGGED | Caps.FI_SEND)
RECEIVED = int(Caps.FI_TAGGED | Caps.FI_RECV)
TAG = 0xFEED_0000_0000_0001
ALL = 2**64 - 1


def contexts(near: Talker, count: int) -> list[object]:
    """Return the contexts of the next receives to end."""
    return [entry.op_context for entry in near.finish_all(count)]


# Matching


@page("DESCRIPTION", "Tags match if they are the same with the ignored bits masked out.")
def tags_match_but_for_the_ignored_bits(pair: Pair) -> None:
    """Ignore one bit, and all but one, at both ends and between; other messages go to the receive behind."""
    near = pair.talker()
    for bit in (0, 1, 31, 32, 62, 63):
        for ignore, expected in ((1 << bit, ["masked", "any"]), (ALL ^ 1 << bit, ["any", "masked"])):
            near.endpoint.trecv(bytearray(1), TAG, ignore, context="masked")
            near.endpoint.trecv(bytearray(1), 0, ALL, context="any")
            near.get(b"1", tag=TAG ^ 1 << bit)
            near.get(b"2", tag=TAG)
            expect_equal(f"bit {bit} differs, {ignore:#x} ignored", contexts(near, 2), expected)


@page("DESCRIPTION", "Tags match if they are the same with the ignored bits masked out.")
def a_receive_without_mask_wants_the_whole_tag(pair: Pair) -> None:
    """Use tags that differ in one bit, at both ends and between: they pass it by."""
    near = pair.talker()
    for bit in (0, 31, 32, 63):
        near.endpoint.trecv(bytearray(1), TAG, context="exact")
        near.endpoint.trecv(bytearray(1), 0, ALL, context="any")
        near.get(b"1", tag=TAG ^ 1 << bit)
        expect_equal(f"bit {bit} differs", contexts(near, 1), ["any"])
        near.get(b"2", tag=TAG)
        expect_equal("the same tag", contexts(near, 1), ["exact"])


@page("DESCRIPTION", "send_tag & ~ignore == recv_tag & ~ignore")
def ignored_bits_of_the_receives_own_tag_do_not_matter(pair: Pair) -> None:
    """Post a receive whose low bits differ from those of both messages."""
    near = pair.talker()
    for tag in (0x1200, 0x12FF):
        near.endpoint.trecv(bytearray(1), 0x12A5, 0xFF, context="masked")
        near.get(b"1", tag=tag)
        expect_equal("entry", near.finish(), CqTaggedEntry("masked", RECEIVED, 1, 0, 0, tag))


@page("fi_trecv", "Posted receives are searched in the order in which they were posted.")
def the_receive_posted_first_takes_the_message(pair: Pair) -> None:
    """Use masks that overlap: an exact receive has no precedence."""
    near = pair.talker()
    for name, tag, ignore in (("low", 0x10, 0xF), ("exact", 0x13, 0), ("any", 0, ALL), ("exact too", 0x13, 0)):
        near.endpoint.trecv(bytearray(1), tag, ignore, context=name)
    near.get(b"1", tag=0x13)
    near.get(b"2", tag=0x13)
    near.get(b"3", tag=0x13)
    near.get(b"4", tag=0x13)
    expect_equal("receives", contexts(near, 4), ["low", "exact", "any", "exact too"])


@page("fi_endpoint(3): FI_ORDER_SAS", "A receive takes the first waiting message that matches.")
def the_message_sent_first_is_received(pair: Pair) -> None:
    """Leave others waiting, which are there for later receives."""
    near = pair.talker()
    for index, tag in enumerate((1, 2, 1, 2, 3)):
        near.get(bytes([index]), tag=tag)
    for tag, ignore, expected in ((2, 0, 1), (0, ALL, 0), (2, 1, 3), (0, ALL, 2), (3, 0, 4)):
        buffer = bytearray(1)
        near.endpoint.trecv(buffer, tag, ignore)
        near.finish()
        expect_equal(f"tag {tag:#x}, ignored {ignore:#x}", buffer[0], expected)


@page("fi_endpoint(3): FI_ORDER_SAS", "Messages with the same tag are received in the order in which they were sent.")
def messages_with_one_tag_keep_their_order(pair: Pair) -> None:
    """Send two tags alternately from this side; each receive gets the next message with its tag."""
    near = pair.talker()
    receives = [pair.receive(1, tag) for tag in (7, 7, 7, 8, 8, 8)]
    for index in range(6):
        near.endpoint.tsend(bytes([index]), pair.peer, 7 + index % 2)
    pair.target.hear(6, pair.patience)
    near.finish_all(6)
    expect_equal("messages", b"".join(receive.load() for receive in receives), bytes([0, 2, 4, 1, 3, 5]))


@page("DESCRIPTION", "Tagged receives are for tagged messages, and others for others.")
def tagged_and_other_messages_are_apart(pair: Pair) -> None:
    """Post receives that match anything, older than those that get the messages; and the other way round."""
    near = pair.talker()
    near.endpoint.recv(bytearray(8), context="untagged")
    near.endpoint.trecv(bytearray(8), 0, ALL, context="tagged")
    near.get(b"tagged", tag=0)
    expect_equal("first", contexts(near, 1), ["tagged"])
    near.get(b"untagged")
    expect_equal("second", contexts(near, 1), ["untagged"])
    near.get(b"untagged")
    near.get(b"tagged", tag=0)
    near.endpoint.trecv(bytearray(8), 0, ALL, context="tagged")
    expect_equal("third", contexts(near, 1), ["tagged"])
    near.endpoint.recv(bytearray(8), context="untagged")
    expect_equal("fourth", contexts(near, 1), ["untagged"])


@page("ARGUMENTS: src_addr", "With FI_DIRECTED_RECV, a receive takes messages of this peer only.")
def a_directed_tagged_receive_waits_for_its_sender(pair: Pair) -> None:
    """Send a stranger's message with the same tag, which goes to the next receive."""
    near = pair.talker()
    own = pair.introduce(near.endpoint)
    near.endpoint.trecv(bytearray(8), TAG, src_addr=pair.peer, context="directed")
    near.endpoint.trecv(bytearray(8), TAG, context="any")
    pair.near.endpoint.tsend(b"stranger", own, TAG)
    pair.near.finish()
    expect_equal("first", contexts(near, 1), ["any"])
    near.get(b"the peer", tag=TAG)
    expect_equal("second", contexts(near, 1), ["directed"])


# The calls


@page("fi_tsend", "A tagged send transfers the contents of the buffer to the peer, as one message.")
def tagged_sends_arrive_whole(pair: Pair) -> None:
    """Use lengths from nothing to many frames; both entries, with the tag where it is received."""
    near = pair.talker()
    for size in (0, 1, 9, 33, 200, LONG):
        receive = pair.receive(b"\xee" * (size + 4), TAG)
        near.endpoint.tsend(pattern(size), pair.peer, TAG, context="sent")
        heard = receive.finish()
        expect_equal("flags, len, tag", (heard.flags, heard.len, heard.tag), (RECEIVED, size, TAG))
        expect_equal("entry", near.finish(), CqTaggedEntry("sent", SENT, size, 0, 0, 0))
        expect_equal(f"{size} bytes", receive.load(), pattern(size) + b"\xee" * 4)


@page("fi_cq(3): tag", "The entry of a receive has the tag that came with the message.")
def the_tag_of_the_message_is_reported(pair: Pair) -> None:
    """Receive with all bits ignored: expected, unexpected and long."""
    near = pair.talker()
    for message, expected in itertools.product((b"short", pattern(LONG)), (True, False)):
        if not expected:
            pair.target.send(near.number, message, ALL - 5, 9)
        buffer = bytearray(len(message))
        near.endpoint.trecv(buffer, 0, ALL, context="got")
        if expected:
            pair.target.send(near.number, message, ALL - 5, 9)
        entry = CqTaggedEntry("got", RECEIVED | DATA, len(message), 0, 9, ALL - 5)
        expect_equal("entry", near.finish(), entry)
        expect_equal("buffer", bytes(buffer), message)
        pair.target.hear(1, pair.patience)


@page("fi_tsendv, fi_trecvv", "The buffers of iov are sent as a single message, and receive one.")
def tagged_vectors_are_gathered_and_scattered(pair: Pair) -> None:
    """Use buffers that end elsewhere on the two sides, some of them empty."""
    receive = pair.receive(bytes(50), TAG, 0, 11, 0, 39)
    pair.near.endpoint.tsendv(scattered(pattern(50), 3, 20, 20), pair.peer, TAG)
    expect_equal("len", receive.finish().len, 50)
    pair.near.finish()
    expect_equal("memory", receive.load(), pattern(50))
    near, whole = pair.talker(), bytearray(50)
    near.endpoint.trecvv(scattered(whole, 3, 20, 20), TAG)
    near.get(pattern(50), tag=TAG)
    near.finish()
    expect_equal("buffers", bytes(whole), pattern(50))


@page("fi_tsendmsg", "The call takes a struct fi_msg_tagged, whose data is optional.")
def tsendmsg_sends_what_its_message_says(pair: Pair) -> None:
    """Compare buffers, tag, context; the data counts only with FI_REMOTE_CQ_DATA."""
    message = TaggedMsg(scattered(pattern(20), 7), pair.peer, TAG, context="msg", data=99)
    for flags, data in ((OpFlags(0), 0), (DATA, 99)):
        receive = pair.receive(20, TAG)
        pair.near.endpoint.tsendmsg(message, flags)
        expect_equal("op_context", pair.near.finish().op_context, "msg")
        heard = receive.finish()
        expect_equal("flags, data, tag", (heard.flags, heard.data, heard.tag), (RECEIVED | flags, data, TAG))
        expect_equal("memory", receive.load(), pattern(20))


@page("fi_trecvmsg", "The call takes a struct fi_msg_tagged, with tag and mask.")
def trecvmsg_receives_what_its_message_says(pair: Pair) -> None:
    """Compare buffers, tag, mask and context."""
    near, whole = pair.talker(), bytearray(20)
    near.endpoint.trecvmsg(TaggedMsg(scattered(whole, 7), FI_ADDR_UNSPEC, TAG ^ 6, 6, context="msg"))
    near.get(pattern(20), tag=TAG)
    expect_equal("entry", near.finish(), CqTaggedEntry("msg", RECEIVED, 20, 0, 0, TAG))
    expect_equal("buffers", bytes(whole), pattern(20))


@page("fi_tinject", "As with fi_inject, the buffer may be reused at once, and no success is reported.")
def tinject_has_taken_the_data_and_is_not_reported(pair: Pair) -> None:
    """Overwrite sources from 1 byte to inject_size at once."""
    for size in (1, 8, 9, pair.info.tx_attr.inject_size):
        receive, source = pair.receive(size, TAG), bytearray(pattern(size))
        pair.near.endpoint.tinject(source, pair.peer, TAG)
        source[:] = b"\xee" * size
        receive.finish()
        expect_equal(f"{size} bytes", receive.load(), pattern(size))
    with expect_error("too much", Errno.FI_EINVAL, Errno.FI_EMSGSIZE):
        pair.near.endpoint.tinject(bytes(pair.info.tx_attr.inject_size + 1), pair.peer, TAG)
    pair.near.nothing_more()


@page("fi_tsenddata", "The call also sends remote CQ data, which is in the entry of the peer's receive.")
def tsenddata_brings_data_and_tag(pair: Pair) -> None:
    """Expect all 64 bits of both."""
    receive = pair.receive(8, ALL)
    pair.near.endpoint.tsenddata(b"has data", ALL - 1, pair.peer, ALL)
    pair.near.finish()
    heard = receive.finish()
    expect_equal("flags, data, tag", (heard.flags, heard.data, heard.tag), (RECEIVED | DATA, ALL - 1, ALL))


@page("fi_tinjectdata", "The call is fi_tinject with remote CQ data.")
def tinjectdata_brings_data_and_is_not_reported(pair: Pair) -> None:
    """Overwrite the source at once."""
    receive, source = pair.receive(24, TAG), bytearray(pattern(24))
    pair.near.endpoint.tinjectdata(source, 12345, pair.peer, TAG)
    source[:] = bytes(24)
    heard = receive.finish()
    expect_equal("flags, data, tag", (heard.flags, heard.data, heard.tag), (RECEIVED | DATA, 12345, TAG))
    expect_equal("memory", receive.load(), pattern(24))
    pair.near.nothing_more()


@page("fi_cq(3): olen", "A message that overruns the buffer is cut; tag and data are as otherwise.")
def tagged_messages_that_do_not_fit_are_cut(pair: Pair) -> None:
    """Send short and long, expected and not; nothing is written behind the buffer."""
    near = pair.talker()
    for size, expected in itertools.product((9, LONG), (True, False)):
        whole = bytearray(b"\xee" * 16)
        if not expected:
            pair.target.send(near.number, pattern(size), TAG, 3)
        near.endpoint.trecv(memoryview(whole)[:8], TAG, context="short")
        if expected:
            pair.target.send(near.number, pattern(size), TAG, 3)
        entry = near.failure(Errno.FI_ETRUNC)
        expect_equal("context, flags", (entry.op_context, entry.flags), ("short", RECEIVED | DATA))
        fields = (entry.len, entry.olen, entry.data, entry.tag)
        expect_equal("len, olen, data, tag", fields, (8, size - 8, 3, TAG))
        expect_equal("buffer", bytes(whole), pattern(size)[:8] + b"\xee" * 8)
        expect_equal("the sender's err", [each.err for each in pair.target.hear(1, pair.patience)], [0])


@page("FLAGS: FI_MATCH_COMPLETE", "The send completes when the target has matched or discarded the message.")
def a_tagged_send_with_match_complete_waits_for_its_receive(pair: Pair) -> None:
    """Post a receive for another tag, which does not complete the send."""
    near = pair.talker()
    other = pair.receive(8, TAG + 1)
    near.endpoint.tsend(b"matched?", pair.peer, TAG, context="matched", flags=OpFlags.FI_MATCH_COMPLETE)
    near.endpoint.tsend(b"the next", pair.peer, TAG + 1, context="next")
    expect_equal("op_context", near.finish().op_context, "next")
    other.finish()
    near.nothing_more()
    receive = pair.receive(8, TAG)
    receive.finish()
    expect_equal("op_context", near.finish().op_context, "matched")
    expect_equal("memory", receive.load(), b"matched?")


@page("fi_endpoint(3): FI_MULTI_RECV", "The buffer takes one message with its tag after another.")
def a_tagged_multi_receive_takes_only_its_tag(pair: Pair) -> None:
    """Send a message with another tag in between."""
    near, buffer = pair.talker(), aligned(64 + 4)
    near.endpoint.trecv(buffer, TAG, context="pool", flags=MULTI)
    near.endpoint.trecv(bytearray(4), TAG + 1, context="other")
    for message, tag in ((b"half", TAG), (b"none", TAG + 1), (b"full", TAG)):
        near.get(message, tag=tag)
    entries = [(entry.op_context, entry.flags, entry.tag) for entry in near.finish_all(3)]
    other = ("other", RECEIVED, TAG + 1)
    expect_equal("entries", entries, [("pool", RECEIVED, TAG), other, ("pool", RECEIVED | MULTI, TAG)])
    expect_equal("buffer", (bytes(buffer[:4]), bytes(buffer[64:])), (b"half", b"full"))


@page("FLAGS: FI_COMPLETION", "The flag requests an entry on a queue that was bound with FI_SELECTIVE_COMPLETION.")
def tagged_receives_on_a_selective_queue_are_reported_where_asked_for(pair: Pair) -> None:
    """Post two receives, the first of which is silent; both get their message."""
    near = pair.talker(bind=BindFlags.FI_SELECTIVE_COMPLETION)
    for context, flags in (("silent", OpFlags(0)), ("loud", OpFlags.FI_COMPLETION)):
        near.endpoint.trecv(bytearray(1), TAG, context=context, flags=flags)
    near.get(b"1", b"2", tag=TAG)
    expect_equal("receives", contexts(near, 1), ["loud"])
    near.nothing_more()


@page("fi_endpoint(3): fi_cancel", "A receive that is pending completes as cancelled: FI_ECANCELED.")
def a_cancelled_tagged_receive_takes_no_message(pair: Pair) -> None:
    """Cancel a receive; the message goes to the next one."""
    near = pair.talker()
    for context in ("first", "second"):
        near.endpoint.trecv(bytearray(1), TAG, context=context)
    near.endpoint.cancel("first")
    entry = near.failure(Errno.FI_ECANCELED)
    expect_equal("context and flags", (entry.op_context, entry.flags), ("first", RECEIVED))
    near.get(b"!", tag=TAG)
    expect_equal("receives", contexts(near, 1), ["second"])


# Wrong arguments


@page("ERRORS: FI_EINVAL", "Wrong arguments are refused, and nothing is posted.")
def wrong_tagged_calls_are_refused(pair: Pair) -> None:
    """Use tags and masks of more than 64 bits, an unknown peer, flags; the receive gets the next message."""
    near = pair.talker()
    for tag in (1 << 64, -1):
        with expect_error(f"tag {tag}", Errno.FI_EINVAL):
            near.endpoint.tsend(b"x", pair.peer, tag)
        with expect_error(f"tag {tag}", Errno.FI_EINVAL):
            near.endpoint.trecv(bytearray(1), tag)
    with expect_error("a mask of 65 bits", Errno.FI_EINVAL):
        near.endpoint.trecv(bytearray(1), 0, 1 << 64)
    with expect_error("an unknown peer", Errno.FI_EINVAL):
        near.endpoint.tsend(b"x", pair.peer + 999, TAG)
    with expect_error("a flag of receives", Errno.FI_EBADFLAGS):
        near.endpoint.tsend(b"x", pair.peer, TAG, flags=OpFlags.FI_PEEK)
    with expect_error("a flag of sends", Errno.FI_EBADFLAGS):
        near.endpoint.trecv(bytearray(1), TAG, flags=OpFlags.FI_FENCE)
    near.endpoint.trecv(bytearray(1), 0, ALL, context="good")
    near.get(b"!", tag=TAG)
    expect_equal("receives", contexts(near, 1), ["good"])
    near.nothing_more()
