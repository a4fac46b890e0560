"""fi_tagged(3): what the calls are given, by which endpoints, and the flags of sends and receives."""

from amoeba import fi
from amoeba.core.errno import Errno
from amoeba.libfabric.objects.constants import FI_ADDR_UNSPEC, BindFlags, EqEvent, OpFlags
from amoeba.libfabric.objects.operations.operations import NO_FLAGS
from amoeba.libfabric.objects.operations.vectors import TaggedMsg

from amoeba_tools.conformance.connected import Parties
from amoeba_tools.conformance.expectations import expect_equal, expect_error
from amoeba_tools.conformance.pages.fi_msg import DATA, LONG
from amoeba_tools.conformance.pages.fi_rma import pattern
from amoeba_tools.conformance.pages.fi_tagged import ALL, RECEIVED, TAG, contexts, page
from amoeba_tools.conformance.pair import CONNECTED, Pair

COMPLETION = OpFlags.FI_COMPLETION
SELECTIVE = BindFlags.FI_SELECTIVE_COMPLETION


@page("SYNOPSIS", "Every call is there, with these arguments in this order.")
def calls_take_their_arguments_in_c_order(pair: Pair) -> None:
    """Make one call of each kind through the C names, to the target and from it."""
    near, peer = pair.talker(), pair.peer
    receives = [pair.receive(8, tag) for tag in range(6)]
    ep = near.endpoint
    fi.fi_tsend(ep, pattern(8), 8, None, peer, 0, "send")
    fi.fi_tsendv(ep, [pattern(3, 2), pattern(5, 3)], None, 2, peer, 1, "sendv")
    fi.fi_tsendmsg(ep, TaggedMsg([pattern(8, 4)], peer, 2, context="sendmsg"), 0)
    fi.fi_tinject(ep, pattern(8, 5), 8, peer, 3)
    fi.fi_tsenddata(ep, pattern(8, 6), 8, None, 66, peer, 4, "senddata")
    fi.fi_tinjectdata(ep, pattern(8, 7), 8, 77, peer, 5)
    expect_equal("contexts", contexts(near, 4), ["send", "sendv", "sendmsg", "senddata"])
    heard = pair.target.hear(6, pair.patience)
    expect_equal("data", [entry.data for entry in heard if entry.flags & DATA], [66, 77])
    sent = [pattern(8), pattern(3, 2) + pattern(5, 3), *(pattern(8, seed) for seed in (4, 5, 6, 7))]
    expect_equal("messages", [receive.load() for receive in receives], sent)
    buffers = [bytearray(8) for _ in range(3)]
    fi.fi_trecv(ep, buffers[0], 8, None, FI_ADDR_UNSPEC, 7, 0, "recv")
    fi.fi_trecvv(ep, [memoryview(buffers[1])[:3], memoryview(buffers[1])[3:]], None, 2, peer, 0, 8, "recvv")
    fi.fi_trecvmsg(ep, TaggedMsg([buffers[2]], FI_ADDR_UNSPEC, 9, 0, context="recvmsg"), 0)
    for tag, message in zip((9, 8, 7), sent, strict=False):
        near.get(message, tag=tag)
    expect_equal("contexts", contexts(near, 3), ["recvmsg", "recvv", "recv"])
    expect_equal("buffers", [bytes(buffer) for buffer in buffers], sent[2::-1])


@page("DESCRIPTION", "An endpoint must be enabled before messages are sent and receives posted.")
def nothing_is_sent_or_received_before_enable(pair: Pair) -> None:
    """Use an endpoint with a queue and an address vector that is not enabled."""
    queue, endpoint = pair.keep(pair.domain.cq_open()), pair.keep(pair.domain.endpoint())
    endpoint.bind(queue, BindFlags.FI_TRANSMIT | BindFlags.FI_RECV)
    endpoint.bind(pair.peers)
    with expect_error("a send", Errno.FI_EOPBADSTATE):
        endpoint.tsend(b"x", pair.peer, TAG)
    with expect_error("a receive", Errno.FI_EOPBADSTATE):
        endpoint.trecv(bytearray(1), TAG)


@page("DESCRIPTION", "Receives may be posted before an endpoint is connected or accepted.", needs={"connected"})
def receives_may_be_posted_before_there_is_a_connection(pair: Pair) -> None:
    """Post on both sides, before the request and before the answer."""
    parties, buffers = Parties(pair), [bytearray(8), bytearray(8)]
    calling = parties.endpoint()
    calling.endpoint.trecv(buffers[0], TAG, context="early")
    calling.endpoint.connect(parties.passive.getname())
    answering = parties.endpoint(parties.event(EqEvent.FI_CONNREQ).info or CONNECTED)
    answering.endpoint.trecv(buffers[1], TAG, context="early, too")
    answering.endpoint.accept()
    for _ in range(2):
        parties.event(EqEvent.FI_CONNECTED)
    calling.endpoint.tinject(b"question", FI_ADDR_UNSPEC, TAG)
    expect_equal("op_context", answering.finish().op_context, "early, too")
    answering.endpoint.tinject(b"answered", FI_ADDR_UNSPEC, TAG)
    expect_equal("op_context", calling.finish().op_context, "early")
    expect_equal("buffers", [bytes(buffer) for buffer in buffers], [b"answered", b"question"])


@page("ARGUMENTS: dest_addr", "Connected endpoints ignore it, and src_addr.", needs={"connected"})
def connected_endpoints_ignore_who_is_meant(pair: Pair) -> None:
    """Pass numbers outside the address vector, with short and long messages."""
    calling, answering = Parties(pair).connect()
    for size in (8, LONG):
        buffer = bytearray(size)
        answering.endpoint.trecv(buffer, TAG, src_addr=12345, context="in")
        calling.endpoint.tsend(pattern(size), 54321, TAG, context="out")
        entry = answering.finish()
        expect_equal("context and tag", (entry.op_context, entry.tag), ("in", TAG))
        expect_equal("op_context", calling.finish().op_context, "out")
        expect_equal("buffer", bytes(buffer), pattern(size))


@page("fi_tsendmsg, fi_trecvmsg", "Both work on connected endpoints and on connectionless ones.", needs={"connected"})
def messages_go_over_connections(pair: Pair) -> None:
    """Send data both ways, with a mask; all other checks are of connectionless endpoints."""
    calling, answering = Parties(pair).connect()
    for near, far in ((calling, answering), (answering, calling)):
        buffer = bytearray(20)
        far.endpoint.trecvmsg(TaggedMsg([buffer], FI_ADDR_UNSPEC, TAG, 0xFF, context="in"))
        near.endpoint.tsendmsg(TaggedMsg([pattern(20)], FI_ADDR_UNSPEC, TAG ^ 0xA5, context="out", data=9), DATA)
        entry = far.finish()
        expect_equal("flags, data, tag", (entry.flags, entry.data, entry.tag), (RECEIVED | DATA, 9, TAG ^ 0xA5))
        expect_equal("op_context", near.finish().op_context, "out")
        expect_equal("buffer", bytes(buffer), pattern(20))


@page("ARGUMENTS: src_addr", "With FI_ADDR_UNSPEC, any source matches.")
def an_undirected_receive_takes_what_comes_first(pair: Pair) -> None:
    """Post the undirected receive before one for the message's sender."""
    near = pair.talker()
    near.endpoint.trecv(bytearray(1), TAG, src_addr=FI_ADDR_UNSPEC, context="any")
    near.endpoint.trecv(bytearray(1), TAG, src_addr=pair.peer, context="directed")
    near.get(b"1", b"2", tag=TAG)
    expect_equal("receives", contexts(near, 2), ["any", "directed"])


@page("DESCRIPTION", "Every operation's context is returned with its completion.")
def every_message_reports_its_own_context(pair: Pair) -> None:
    """Keep eight receives and eight sends outstanding, each with its own object."""
    near = pair.talker()
    own = pair.introduce(near.endpoint)
    posted = [object() for _ in range(16)]
    for tag, context in enumerate(posted[:8]):
        near.endpoint.trecv(bytearray(1), tag, context=context)
    for tag, context in enumerate(posted[8:]):
        near.endpoint.tsend(b"!", own, 7 - tag, context=context)
    expect_equal("contexts", sorted(map(id, contexts(near, 16))), sorted(map(id, posted)))


# Flags


@page("FLAGS", "Flags of fi_tsendmsg override those of the endpoint.")
def flags_of_messages_override_those_of_the_endpoint(pair: Pair) -> None:
    """Request completions by the endpoint's flags, not by the message's; other calls have no flags of their own."""
    near = pair.open(bind=SELECTIVE, op_flags=COMPLETION)
    receives = [pair.receive(1, TAG) for _ in range(3)]
    near.endpoint.tsendmsg(TaggedMsg([b"1"], pair.peer, TAG, context="silent"))
    near.endpoint.tsend(b"2", pair.peer, TAG, context="send")
    near.endpoint.tsendmsg(TaggedMsg([b"3"], pair.peer, TAG, context="asked for"), COMPLETION)
    expect_equal("contexts", [entry.op_context for entry in near.finish_all(2)], ["send", "asked for"])
    near.nothing_more()
    pair.target.hear(3, pair.patience)
    expect_equal("messages", b"".join(receive.load() for receive in receives), b"123")


@page("FLAGS: FI_COMPLETION", "The flag requests an entry on a queue that was bound with FI_SELECTIVE_COMPLETION.")
def tagged_sends_on_a_selective_queue_are_reported_where_asked_for(pair: Pair) -> None:
    """Request the second of three entries."""
    near, receives = pair.talker(bind=SELECTIVE), [pair.receive(1, TAG) for _ in range(3)]
    for context, flags in (("a", NO_FLAGS), ("b", COMPLETION), ("c", NO_FLAGS)):
        near.endpoint.tsendmsg(TaggedMsg([b"x"], pair.peer, TAG, context=context), flags)
    pair.target.hear(len(receives), pair.patience)
    expect_equal("contexts", contexts(near, 1), ["b"])
    near.nothing_more()


@page("FLAGS: FI_COMPLETION", "Without FI_SELECTIVE_COMPLETION the flag is ignored.")
def completion_flag_is_ignored_on_other_queues(pair: Pair) -> None:
    """Expect one entry of sends and receives each, with the flag and without."""
    near = pair.talker()
    own = pair.introduce(near.endpoint)
    for flags in (COMPLETION, NO_FLAGS):
        near.endpoint.trecvmsg(TaggedMsg([bytearray(1)], FI_ADDR_UNSPEC, TAG, context="in"), flags)
        near.endpoint.tsendmsg(TaggedMsg([b"!"], own, TAG, context="out"), flags)
        expect_equal("contexts", set(contexts(near, 2)), {"in", "out"})
    near.nothing_more()


@page("FLAGS: FI_MORE", "Further requests follow at once; all of them are carried out.")
def requests_with_more_are_carried_out(pair: Pair) -> None:
    """Post seven requests of each direction with the flag, and an eighth without."""
    near = pair.talker()
    own, buffers = pair.introduce(near.endpoint), [bytearray(1) for _ in range(8)]
    for tag, buffer in enumerate(buffers):
        flags = OpFlags.FI_MORE if tag < 7 else NO_FLAGS
        near.endpoint.trecvmsg(TaggedMsg([buffer], FI_ADDR_UNSPEC, tag), flags)
    for tag in range(8):
        flags = OpFlags.FI_MORE if tag < 7 else NO_FLAGS
        near.endpoint.tsendmsg(TaggedMsg([bytes([100 + tag])], own, tag), flags)
    near.finish_all(16)
    expect_equal("buffers", b"".join(buffers), bytes(range(100, 108)))


@page("FLAGS: FI_INJECT", "The buffer is returned when the call returns; it holds up to inject_size.")
def inject_flag_takes_the_data_and_reports(pair: Pair) -> None:
    """Overwrite the data at once; unlike the call, it completes, and refuses one byte too many."""
    most = pair.info.tx_attr.inject_size
    receive, source = pair.receive(most, TAG), bytearray(pattern(most))
    with expect_error(f"{most + 1} bytes", Errno.FI_EINVAL, Errno.FI_EMSGSIZE):
        pair.near.endpoint.tsendmsg(TaggedMsg([source, b"!"], pair.peer, TAG), OpFlags.FI_INJECT)
    pair.near.endpoint.tsendmsg(TaggedMsg([source], pair.peer, TAG, context="injected"), OpFlags.FI_INJECT)
    source[:] = bytes(most)
    expect_equal("op_context", pair.near.finish().op_context, "injected")
    receive.finish()
    expect_equal("memory", receive.load(), pattern(most))


@page("FLAGS: FI_INJECT_COMPLETE", "The operation completes when the source may be reused.")
def inject_complete_frees_the_source(pair: Pair) -> None:
    """Overwrite the source on completion, before a receive is posted."""
    source = bytearray(pattern(200))
    pair.near.endpoint.tsendmsg(TaggedMsg([source], pair.peer, TAG), OpFlags.FI_INJECT_COMPLETE)
    pair.near.finish()
    source[:] = bytes(200)
    receive = pair.receive(200, TAG)
    receive.finish()
    expect_equal("memory", receive.load(), pattern(200))


@page("FLAGS: FI_TRANSMIT_COMPLETE", "A send completes when the provider does not track it any more.")
def transmit_complete_needs_no_more_of_this_side(pair: Pair) -> None:
    """Overwrite the source and close the endpoint; a later receive still gets the message."""
    near, source = pair.open(), bytearray(pattern(200))
    near.endpoint.tsendmsg(TaggedMsg([source], pair.peer, TAG), OpFlags.FI_TRANSMIT_COMPLETE)
    near.finish()
    source[:] = bytes(200)
    near.endpoint.close()
    receive = pair.receive(200, TAG)
    receive.finish()
    expect_equal("memory", receive.load(), pattern(200))


@page(
    "FLAGS: FI_FENCE",
    "The operation and later ones wait for all earlier ones to the same peer.",
    needs={"fence", "rma"},
)
def fenced_tagged_sends_wait_for_what_was_before(pair: Pair) -> None:
    """Check that at the receive of the message behind the fence all earlier writes are there."""
    memory, receives = pair.memory(LONG), [pair.receive(1, tag) for tag in (ALL, TAG)]
    pair.near.endpoint.write(pattern(LONG), *memory.at())
    pair.near.endpoint.tsendmsg(TaggedMsg([b"1"], pair.peer, ALL), OpFlags.FI_FENCE)
    pair.near.endpoint.tsend(b"2", pair.peer, TAG)
    heard = [entry.handle for entry in pair.target.hear(2, pair.patience)]
    expect_equal("received", heard, [receive.handle for receive in receives])
    expect_equal("memory", memory.load(), pattern(LONG))
    pair.near.finish_all(3)


@page("ERRORS: FI_EAGAIN", "As in fi_msg(3): operations without free space are refused, and may be retried.")
def tagged_sends_beyond_the_queue_are_to_be_tried_again(pair: Pair) -> None:
    """Send until a send is refused: every accepted message arrives, no refused one does, and a retry succeeds."""
    near = pair.talker(tx_size=16)
    receives, accepted = [pair.receive(1, TAG) for _ in range(17)], 0
    with pair.fabric.frozen(), expect_error("more sends than the ring has entries", Errno.FI_EAGAIN):
        while accepted <= len(receives):
            near.endpoint.tsend(bytes([accepted]), pair.peer, TAG, flags=OpFlags.FI_MORE)
            accepted += 1
    near.finish_all(accepted)
    near.endpoint.tsend(b"!", pair.peer, TAG)
    near.finish()
    pair.target.hear(accepted + 1, pair.patience)
    messages = b"".join(receive.load() for receive in receives[: accepted + 1])
    expect_equal("messages", messages, bytes(range(accepted)) + b"!")


# Without a check of their own

page.leave("NAME, ARGUMENTS", "Names of the calls and their arguments.", "These are names.")
page.leave(
    "ARGUMENTS",
    "len, desc, and a context that is not reported are as in fi_msg(3).",
    "`fi_tagged.tagged_sends_arrive_whole`, `fi_msg.registered_buffers_need_the_right_of_their_use`, "
    "`fi_msg.contexts_of_what_is_not_reported_are_ignored`",
)
page.leave(
    "DESCRIPTION, fi_tsend",
    "Buffers are not touched before the operation has completed.",
    "A duty of the application, without which the behaviour is undefined.",
)
page.leave(
    "fi_tsend",
    "A connected endpoint must have its peer before the call.",
    "`fi_cm.nothing_is_sent_before_the_connection`",
)
page.leave(
    "fi_trecv",
    "The order in which receives complete depends on endpoint type and protocol.",
    "The page requires no order: a long message may complete after a later short one.",
)
page.leave(
    "FLAGS: FI_REMOTE_CQ_DATA",
    "The flag requests that the message's data is sent.",
    "`fi_tagged.tsendmsg_sends_what_its_message_says`",
)
page.leave(
    "FLAGS: FI_MORE, FI_INJECT", "The flags may improve performance, or need a copy.", "The page requires nothing."
)
page.leave("RETURN VALUE", "0, or a negative errno.", "Errors are raised: [How C becomes Python](libfabric.md).")
page.leave("ERRORS: FI_EOTHER", "An unspecified error occurred.", "No error is unspecified.")
