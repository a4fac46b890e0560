"""fi_msg(3): what the calls are given, by which endpoints, and what is said of their contexts."""

from amoeba import fi
from amoeba.core.errno import Errno
from amoeba.libfabric.objects.constants import FI_ADDR_UNSPEC, BindFlags, Caps, EqEvent, MrAccess, OpFlags
from amoeba.libfabric.objects.operations.vectors import Msg

from amoeba_tools.conformance.connected import Parties
from amoeba_tools.conformance.expectations import expect_equal, expect_error
from amoeba_tools.conformance.pages.fi_msg import DATA, LONG, MULTI, RECEIVED, page
from amoeba_tools.conformance.pages.fi_rma import pattern
from amoeba_tools.conformance.pair import CONNECTED, Pair

_DIRECTED = Caps.FI_MSG | Caps.FI_SEND | Caps.FI_RECV | Caps.FI_DIRECTED_RECV


@page("SYNOPSIS", "Every call is there, with these arguments in this order.")
def calls_take_their_arguments_in_c_order(pair: Pair) -> None:
    """Make one call of each kind through the C names, to the target and from it."""
    near, peer = pair.talker(), pair.peer
    receives = [pair.receive(8) for _ in range(6)]
    ep = near.endpoint
    fi.fi_send(ep, pattern(8), 8, None, peer, "send")
    fi.fi_sendv(ep, [pattern(3, 2), pattern(5, 3)], None, 2, peer, "sendv")
    fi.fi_sendmsg(ep, Msg([pattern(8, 4)], peer, context="sendmsg"), 0)
    fi.fi_inject(ep, pattern(8, 5), 8, peer)
    fi.fi_senddata(ep, pattern(8, 6), 8, None, 66, peer, "senddata")
    fi.fi_injectdata(ep, pattern(8, 7), 8, 77, peer)
    told = [entry.op_context for entry in near.finish_all(4)]
    expect_equal("contexts", told, ["send", "sendv", "sendmsg", "senddata"])
    heard = pair.target.hear(6, pair.patience)
    expect_equal("data", [entry.data for entry in heard if entry.flags & DATA], [66, 77])
    sent = [pattern(8), pattern(3, 2) + pattern(5, 3), *(pattern(8, seed) for seed in (4, 5, 6, 7))]
    expect_equal("messages", [receive.load() for receive in receives], sent)
    buffers = [bytearray(8) for _ in range(4)]
    fi.fi_recv(ep, buffers[0], 8, None, FI_ADDR_UNSPEC, "recv")
    fi.fi_recvv(ep, [memoryview(buffers[1])[:3], memoryview(buffers[1])[3:]], None, 2, peer, "recvv")
    fi.fi_recvmsg(ep, Msg([buffers[2]], FI_ADDR_UNSPEC, context="recvmsg"), 0)
    near.get(*sent[:3])
    expect_equal("contexts", [entry.op_context for entry in near.finish_all(3)], ["recv", "recvv", "recvmsg"])
    expect_equal("buffers", [bytes(buffer) for buffer in buffers], [*sent[:3], bytes(8)])


@page("DESCRIPTION", "An endpoint must be enabled before messages are sent and receives posted.")
def nothing_is_sent_or_received_before_enable(pair: Pair) -> None:
    """Use an endpoint with a queue and an address vector that is not enabled."""
    queue, endpoint = pair.keep(pair.domain.cq_open()), pair.keep(pair.domain.endpoint())
    endpoint.bind(queue, BindFlags.FI_TRANSMIT | BindFlags.FI_RECV)
    endpoint.bind(pair.peers)
    with expect_error("a send", Errno.FI_EOPBADSTATE):
        endpoint.send(b"x", pair.peer)
    with expect_error("an injected one", Errno.FI_EOPBADSTATE):
        endpoint.inject(b"x", pair.peer)
    with expect_error("a receive", Errno.FI_EOPBADSTATE):
        endpoint.recv(bytearray(1))


@page("DESCRIPTION", "Receives may be posted before an endpoint is connected or accepted.", needs={"connected"})
def receives_may_be_posted_before_there_is_a_connection(pair: Pair) -> None:
    """Post on both sides, before the request and before the answer; they take the first messages."""
    parties, buffers = Parties(pair), [bytearray(8), bytearray(8)]
    calling = parties.endpoint()
    calling.endpoint.recv(buffers[0], context="early")
    calling.endpoint.connect(parties.passive.getname())
    answering = parties.endpoint(parties.event(EqEvent.FI_CONNREQ).info or CONNECTED)
    answering.endpoint.recv(buffers[1], context="early, too")
    answering.endpoint.accept()
    for _ in range(2):
        parties.event(EqEvent.FI_CONNECTED)
    calling.endpoint.inject(b"question", FI_ADDR_UNSPEC)
    expect_equal("op_context", answering.finish().op_context, "early, too")
    answering.endpoint.inject(b"answered", FI_ADDR_UNSPEC)
    expect_equal("op_context", calling.finish().op_context, "early")
    expect_equal("buffers", [bytes(buffer) for buffer in buffers], [b"answered", b"question"])


@page("ARGUMENTS: dest_addr", "Connected endpoints ignore it, and src_addr.", needs={"connected"})
def connected_endpoints_ignore_who_is_meant(pair: Pair) -> None:
    """Pass numbers outside the address vector, with short and long messages."""
    calling, answering = Parties(pair).connect()
    for size in (8, LONG):
        buffer = bytearray(size)
        answering.endpoint.recv(buffer, src_addr=12345, context="in")
        calling.endpoint.send(pattern(size), 54321, context="out")
        expect_equal("op_context", answering.finish().op_context, "in")
        expect_equal("op_context", calling.finish().op_context, "out")
        expect_equal("buffer", bytes(buffer), pattern(size))


@page("fi_sendmsg, fi_recvmsg", "Both work on connected endpoints and on connectionless ones.", needs={"connected"})
def messages_go_over_connections(pair: Pair) -> None:
    """Send data both ways; all other checks are of connectionless endpoints."""
    calling, answering = Parties(pair).connect()
    for near, far in ((calling, answering), (answering, calling)):
        buffer = bytearray(20)
        far.endpoint.recvmsg(Msg([buffer], FI_ADDR_UNSPEC, context="in"))
        near.endpoint.sendmsg(Msg([pattern(20)], FI_ADDR_UNSPEC, context="out", data=9), DATA)
        entry = far.finish()
        expect_equal("context, flags, data", (entry.op_context, entry.flags, entry.data), ("in", RECEIVED | DATA, 9))
        expect_equal("op_context", near.finish().op_context, "out")
        expect_equal("buffer", bytes(buffer), pattern(20))


@page("ARGUMENTS: src_addr", "Without FI_DIRECTED_RECV it is ignored.")
def src_addr_is_ignored_without_the_capability(pair: Pair) -> None:
    """Post a receive that names the target: a stranger's message matches only without the capability."""
    for caps, expected in ((_DIRECTED ^ Caps.FI_DIRECTED_RECV, "named"), (_DIRECTED, "any")):
        with pair.part():
            near = pair.talker(caps=caps)
            near.endpoint.recv(bytearray(8), src_addr=pair.peer, context="named")
            near.endpoint.recv(bytearray(8), context="any")
            pair.near.endpoint.send(b"stranger", pair.introduce(near.endpoint))
            pair.near.finish()
            expect_equal("op_context", near.finish().op_context, expected)


@page("DESCRIPTION", "Every operation's context is returned with its completion.")
def every_message_reports_its_own_context(pair: Pair) -> None:
    """Keep eight receives and eight sends outstanding, each with its own object."""
    near = pair.talker()
    own = pair.introduce(near.endpoint)
    posted = [object() for _ in range(16)]
    for context in posted[:8]:
        near.endpoint.recv(bytearray(1), context=context)
    for context in posted[8:]:
        near.endpoint.send(b"!", own, context=context)
    told = sorted(id(entry.op_context) for entry in near.finish_all(16))
    expect_equal("contexts", told, sorted(map(id, posted)))


@page("ARGUMENTS: context", "The context is ignored where no success is reported.")
def contexts_of_what_is_not_reported_are_ignored(pair: Pair) -> None:
    """Post two sends with a context: the one that is not reported leaves no trace of its context."""
    near, receives = pair.selective(), [pair.receive(4) for _ in range(2)]
    near.endpoint.send(b"mute", pair.peer, context=["of no use"])
    near.endpoint.send(b"loud", pair.peer, context="reported", flags=OpFlags.FI_COMPLETION)
    expect_equal("op_context", near.finish().op_context, "reported")
    near.nothing_more()
    pair.target.hear(2, pair.patience)
    expect_equal("messages", [receive.load() for receive in receives], [b"mute", b"loud"])


# Wrong arguments


@page("RETURN VALUE", "Wrong arguments of a send are refused, and nothing is sent.")
def wrong_sends_are_refused(pair: Pair) -> None:
    """Pass invalid peers, buffers, flags and data; the receive gets the next message."""
    endpoint, peer = pair.near.endpoint, pair.peer
    receive = pair.receive(8)
    with expect_error("an unknown peer", Errno.FI_EINVAL):
        endpoint.send(b"x", peer + 999)
    with expect_error("an invalid buffer", Errno.FI_EINVAL):
        endpoint.send("text", peer)
    with expect_error("a flag of receives", Errno.FI_EBADFLAGS):
        endpoint.send(b"x", peer, flags=MULTI)
    with expect_error("data of 65 bits", Errno.FI_EINVAL):
        endpoint.senddata(b"x", 1 << 64, peer)
    with expect_error("more descriptors than buffers", Errno.FI_EINVAL):
        endpoint.sendv([b"x"], peer, desc=[None, None])
    endpoint.send(b"the next", peer, context="next")
    expect_equal("op_context", pair.near.finish().op_context, "next")
    receive.finish()
    expect_equal("memory", receive.load(), b"the next")


@page("RETURN VALUE", "Wrong arguments of a receive are refused, and nothing is posted.")
def wrong_receives_are_refused(pair: Pair) -> None:
    """Pass invalid buffers and flags; the next receive gets the message."""
    near = pair.talker()
    with expect_error("memory that cannot be written", Errno.FI_EINVAL):
        near.endpoint.recv(b"constant")
    with expect_error("a flag of sends", Errno.FI_EBADFLAGS):
        near.endpoint.recv(bytearray(1), flags=OpFlags.FI_FENCE)
    with expect_error("a peer that is not there", Errno.FI_EINVAL):
        near.endpoint.recv(bytearray(1), src_addr=pair.peer + 999)
    with expect_error("too many buffers", Errno.FI_EINVAL):
        near.endpoint.recvv([bytearray(1)] * (pair.info.rx_attr.iov_limit + 1))
    near.endpoint.recv(bytearray(1), context="good")
    near.get(b"!")
    expect_equal("op_context", near.finish().op_context, "good")
    near.nothing_more()


@page("ARGUMENTS: desc", "The descriptor is that of the buffer's region, which must allow the use.")
def registered_buffers_need_the_right_of_their_use(pair: Pair) -> None:
    """Use each region for the other's use, which is refused, then both as they should be."""
    near, source, sink = pair.talker(), bytearray(pattern(16)), bytearray(16)
    sends, receives = pair.local(source, MrAccess.FI_SEND), pair.local(sink, MrAccess.FI_RECV)
    own = pair.introduce(near.endpoint)
    with expect_error("a send from a region for receives", Errno.FI_EACCES):
        near.endpoint.send(sink, own, desc=receives)
    with expect_error("a receive into a region for sends", Errno.FI_EACCES):
        near.endpoint.recv(source, desc=sends)
    near.endpoint.recv(sink, desc=receives, context="in")
    near.endpoint.send(source, own, desc=sends, context="out")
    expect_equal("contexts", sorted(entry.op_context for entry in near.finish_all(2)), ["in", "out"])
    expect_equal("buffer", bytes(sink), pattern(16))


# Without a check of their own

page.leave("NAME, ARGUMENTS", "Names of the calls and their arguments.", "These are names.")
page.leave(
    "DESCRIPTION",
    "Buffers are not touched before the operation has completed.",
    "A duty of the application, without which the behaviour is undefined.",
)
page.leave(
    "fi_recv",
    "The order in which receives complete depends on endpoint type and protocol.",
    "The page requires no order: a long message may complete after a later short one.",
)
page.leave("RETURN VALUE", "0, or a negative errno.", "Errors are raised: [How C becomes Python](libfabric.md).")
page.leave(
    "Buffered Receives, Variable Length Messages",
    "How messages are received into buffers of the provider's; FI_CLAIM, FI_DISCARD and FI_MORE there.",
    "FI_BUFFERED_RECV and FI_VARIABLE_MSG are not offered: [libfabric.md](libfabric.md).",
)
page.leave(
    "NOTES",
    "With FI_MSG_PREFIX, applications reserve space before each message.",
    "The mode is not asked for: msg_prefix_size is 0.",
)
page.leave(
    "ERRORS: FI_EAGAIN",
    "Reasons for a full queue; applications should read completions then.",
    "The sentence explains. Reading frees space in all checks of FI_EAGAIN.",
)
