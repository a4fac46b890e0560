"""fi_endpoint(3): shared receive contexts."""

from dataclasses import dataclass, replace

from amoeba.core.errno import Errno
from amoeba.libfabric.objects.constants import FI_SHARED_CONTEXT, BindFlags, Caps, CqFormat, EpType, OpFlags
from amoeba.libfabric.objects.endpoints.shared_receive import SharedReceiveContext
from amoeba.libfabric.objects.operations.vectors import TaggedMsg
from amoeba.libfabric.objects.queues.counters import Counter
from amoeba.libfabric.objects.structures import EpAttr, RxAttr

from amoeba_tools.conformance.expectations import expect_equal, expect_error
from amoeba_tools.conformance.pages.fi_cntr import becomes
from amoeba_tools.conformance.pages.fi_endpoint import page
from amoeba_tools.conformance.pages.fi_msg import aligned
from amoeba_tools.conformance.pages.fi_rma import pattern
from amoeba_tools.conformance.pair import Initiator, Listener, Pair

_LONG = 10_000
"""Bytes of a message that does not fit into a frame."""
_BOTH = BindFlags.FI_TRANSMIT | BindFlags.FI_RECV
_NEEDS = {"shared_rx", "messages"}


@dataclass
class _Shared:
    """Two endpoints with one receive context, each with a queue; and their numbers at the target."""

    context: SharedReceiveContext
    sides: list[Initiator]
    numbers: list[int]

    def get(self, pair: Pair, *messages: tuple[int, bytes], tag: int | None = None) -> None:
        """Let the target send messages of at most a packet, each to the endpoint named.

        Returns after the messages have come, one after the other: messages to different endpoints have no other
        order.
        """
        for which, content in messages:
            pair.target.send(self.numbers[which], content, tag, None)
            (heard,) = pair.target.hear(1, pair.patience)
            expect_equal("error of a message sent by the target", heard.err, 0)


def _shared(pair: Pair, counters: tuple[Counter, ...] = (), *, transmits: bool = False) -> _Shared:
    """``counters`` count what each receives; ``transmits``: the endpoints share a transmit context, too."""
    context = pair.keep(pair.domain.srx_context(16))
    ring = pair.keep(pair.domain.stx_context(16)) if transmits else None
    sides = []
    for index in range(1 if transmits else 2):
        queue = pair.keep(pair.domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED))
        endpoint = pair.keep(pair.domain.endpoint(tx_size=16))
        endpoint.bind(context)
        endpoint.bind(queue, _BOTH)
        endpoint.bind(pair.peers)
        if ring is not None:
            endpoint.bind(ring)
        if counters:
            endpoint.bind(counters[index], BindFlags.FI_RECV)
        endpoint.enable()
        sides.append(Initiator(queue, pair.patience, endpoint))
    return _Shared(context, sides, [pair.met(side.endpoint) for side in sides])


@page("SHARED CONTEXTS", "Buffers posted to a shared receive context are usable by any endpoint.", needs=_NEEDS)
def messages_for_any_endpoint_meet_the_receives_in_their_order(pair: Pair) -> None:
    """Send four messages in turn; then four that come before their receives."""
    shared, buffers = _shared(pair), [bytearray(8) for _ in range(4)]
    messages = [(index % 2, pattern(8, index)) for index in range(4)]
    for index, buffer in enumerate(buffers):
        shared.context.recv(buffer, context=index)
    shared.get(pair, *messages)
    for which, side in enumerate(shared.sides):
        expect_equal("contexts", [entry.op_context for entry in side.finish_all(2)], [which, which + 2])
    expect_equal("buffers", [bytes(buffer) for buffer in buffers], [content for _, content in messages])
    shared.get(pair, *messages)
    for index, buffer in enumerate(buffers):
        shared.context.recv(buffer, context=index + 4)
    for which, side in enumerate(shared.sides):
        expect_equal("contexts", [entry.op_context for entry in side.finish_all(2)], [which + 4, which + 6])
    expect_equal("buffers", [bytes(buffer) for buffer in buffers], [content for _, content in messages])


@page("SHARED CONTEXTS", "Completed receives are posted to the queue bound to the endpoint.", needs=_NEEDS)
def receives_end_in_the_queue_of_whom_the_message_is_for(pair: Pair) -> None:
    """Send three messages for the second endpoint; the other's queue stays empty."""
    shared = _shared(pair)
    for index in range(3):
        shared.context.recv(bytearray(8), context=index)
    shared.get(pair, *((1, pattern(8, index)) for index in range(3)))
    expect_equal("contexts", [entry.op_context for entry in shared.sides[1].finish_all(3)], [0, 1, 2])
    for side in shared.sides:
        side.nothing_more()


@page("SHARED CONTEXTS", "Tagged messages meet the receives with their tag.", needs=_NEEDS | {"tagged"})
def tags_decide_which_shared_receive_is_met(pair: Pair) -> None:
    """Post receives in one order, and send messages for either endpoint in the other."""
    shared, buffers = _shared(pair), [bytearray(8) for _ in range(3)]
    for tag, buffer in enumerate(buffers):
        shared.context.trecv(buffer, tag, context=tag)
    for tag in (2, 1, 0):
        shared.get(pair, (tag % 2, pattern(8, tag)), tag=tag)
        entry = shared.sides[tag % 2].finish()
        expect_equal("context and tag", (entry.op_context, entry.tag), (tag, tag))
    expect_equal("buffers", [bytes(buffer) for buffer in buffers], [pattern(8, tag) for tag in range(3)])


@page("SHARED CONTEXTS", "Long messages are received, too, each by its endpoint.", needs=_NEEDS)
def long_messages_meet_shared_receives(pair: Pair) -> None:
    """Send one for each endpoint, the second one's first."""
    shared, buffers = _shared(pair), [bytearray(_LONG) for _ in range(2)]
    for index, buffer in enumerate(buffers):
        shared.context.recv(buffer, context=index)
    for index, which in enumerate((1, 0)):
        pair.target.send(shared.numbers[which], pattern(_LONG, index), None, None)
        entry = shared.sides[which].finish()
        expect_equal("context and len", (entry.op_context, entry.len), (index, _LONG))
        (sent,) = pair.target.hear(1, pair.patience)
        expect_equal("the sender's err", sent.err, 0)
    expect_equal("buffers", [bytes(buffer) for buffer in buffers], [pattern(_LONG, index) for index in range(2)])


@page("SHARED CONTEXTS", "One buffer may take messages for several endpoints.", needs=_NEEDS)
def a_multi_receive_takes_messages_for_all_endpoints(pair: Pair) -> None:
    """Send three messages 64 bytes apart; the last one says that the whole buffer is used up."""
    shared, buffer = _shared(pair), aligned(2 * 64 + 8)
    shared.context.recv(buffer, context="pool", flags=OpFlags.FI_MULTI_RECV)
    shared.get(pair, *((index % 2, pattern(8, index)) for index in range(3)))
    first, last = shared.sides[0].finish_all(2)
    (second,) = shared.sides[1].finish_all(1)
    released = [bool(entry.flags & Caps.FI_MULTI_RECV) for entry in (first, second, last)]
    expect_equal("FI_MULTI_RECV", released, [False, False, True])
    received = [bytes(buffer[64 * index : 64 * index + 8]) for index in range(3)]
    expect_equal("buffer", received, [pattern(8, index) for index in range(3)])


@page("SHARED CONTEXTS", "Counters are those of the endpoint.", needs=_NEEDS)
def shared_receives_are_counted_by_the_endpoint_of_the_message(pair: Pair) -> None:
    """Send one message for the one, three for the other, of which one is cut."""
    one, other = counters = pair.keep(pair.domain.cntr_open()), pair.keep(pair.domain.cntr_open())
    shared = _shared(pair, counters)
    for _ in range(4):
        shared.context.recv(bytearray(8))
    shared.get(pair, *((which, bytes(size)) for which, size in ((1, 8), (0, 8), (1, 8), (1, 9))))
    becomes("receives of the one", one.read, 1, pair.patience)
    becomes("receives of the other", other.read, 2, pair.patience)
    becomes("errors of the other", other.readerr, 1, pair.patience)
    shared.sides[0].finish()
    shared.sides[1].finish_all(2)
    shared.sides[1].failure(Errno.FI_ETRUNC)


@page("fi_cancel", "A receive of a shared context can be taken back.", needs=_NEEDS)
def a_shared_receive_can_be_cancelled(pair: Pair) -> None:
    """Cancel a receive; the message goes to the next one."""
    shared = _shared(pair)
    shared.context.recv(bytearray(8), context="unwanted")
    shared.context.recv(bytearray(8), context="wanted")
    shared.context.cancel("unwanted")
    expect_equal("op_context", shared.sides[0].failure(Errno.FI_ECANCELED).op_context, "unwanted")
    shared.get(pair, (1, pattern(8)))
    expect_equal("op_context", shared.sides[1].finish().op_context, "wanted")


@page("SHARED CONTEXTS", "A message can be looked for before it is received.", needs=_NEEDS | {"tagged"})
def searches_of_a_shared_context_end_in_the_queue_of_the_message(pair: Pair) -> None:
    """Use FI_PEEK for a message of the second endpoint, FI_PEEK with FI_CLAIM, then FI_CLAIM."""
    shared, buffer = _shared(pair), bytearray(8)
    shared.get(pair, (1, pattern(8)), tag=5)
    for flags in (OpFlags.FI_PEEK, OpFlags.FI_PEEK | OpFlags.FI_CLAIM):
        shared.context.trecvmsg(TaggedMsg([], pair.peer, 5, context="mine"), flags)
        entry = shared.sides[1].finish()
        expect_equal("context, len and tag", (entry.op_context, entry.len, entry.tag), ("mine", 8, 5))
    shared.context.trecvmsg(TaggedMsg([buffer], pair.peer, 5, context="mine"), OpFlags.FI_CLAIM)
    expect_equal("op_context", shared.sides[1].finish().op_context, "mine")
    expect_equal("buffer", bytes(buffer), pattern(8))


@page("SHARED CONTEXTS", "Receives are posted to the shared context, not to the endpoint.", needs=_NEEDS)
def an_endpoint_with_a_shared_context_takes_no_receives(pair: Pair) -> None:
    """Post a plain and a tagged one, which are refused."""
    endpoint = _shared(pair).sides[0].endpoint
    with expect_error("recv", Errno.FI_EOPNOTSUPP, Errno.FI_ENOSYS):
        endpoint.recv(bytearray(8))
    with expect_error("trecv", Errno.FI_EOPNOTSUPP, Errno.FI_ENOSYS):
        endpoint.trecv(bytearray(8), 1)


@page("SHARED CONTEXTS", "An endpoint is associated with a single receive context.", needs=_NEEDS)
def a_second_shared_receive_context_is_refused(pair: Pair) -> None:
    """Bind a second receive context; the first one stays in use."""
    endpoint = pair.keep(pair.domain.endpoint())
    endpoint.bind(pair.keep(pair.domain.srx_context(16)))
    with expect_error("a second shared context", Errno.FI_EINVAL, Errno.FI_EBUSY):
        endpoint.bind(pair.keep(pair.domain.srx_context(16)))


@page("SHARED CONTEXTS", "Connectionless endpoints that share receives share the address vector.", needs=_NEEDS)
def endpoints_with_different_address_vectors_share_no_receives(pair: Pair) -> None:
    """Try endpoints with different address vectors: the second one cannot be enabled."""
    context = pair.keep(pair.domain.srx_context(16))
    first, second = (pair.keep(pair.domain.endpoint(tx_size=16)) for _ in range(2))
    for endpoint, peers in ((first, pair.peers), (second, pair.keep(pair.domain.av_open()))):
        endpoint.bind(context)
        endpoint.bind(pair.keep(pair.domain.cq_open()), _BOTH)
        endpoint.bind(peers)
    first.enable()
    with expect_error("another address vector", Errno.FI_EINVAL):
        second.enable()


@page("SHARED CONTEXTS", "An endpoint may use a shared transmit and a shared receive context.", needs=_NEEDS)
def both_contexts_may_be_shared(pair: Pair) -> None:
    """Read a long message through the shared ring, then send one back."""
    shared, buffer = _shared(pair, transmits=True), bytearray(_LONG)
    shared.context.recv(buffer, context="long")
    pair.target.send(shared.numbers[0], pattern(_LONG), None, None)
    expect_equal("op_context", shared.sides[0].finish().op_context, "long")
    expect_equal("buffer", bytes(buffer), pattern(_LONG))
    pair.target.hear(1, pair.patience)
    receive = pair.receive(8)
    shared.sides[0].endpoint.send(pattern(8), pair.peer, context="back")
    receive.finish()
    expect_equal("op_context", shared.sides[0].finish().op_context, "back")
    expect_equal("message", receive.load(), pattern(8))


@page(
    "SHARED CONTEXTS",
    "An endpoint may use a shared receive context, but a scalable set of transmit contexts.",
    needs=_NEEDS | {"scalable"},
)
def a_scalable_endpoint_may_share_its_receives(pair: Pair) -> None:
    """Send messages of a packet and longer to it; it answers by a context of its own."""
    context, sent = pair.keep(pair.domain.srx_context(16)), pair.keep(pair.domain.cq_open())
    received = Listener(pair.keep(pair.domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED)), pair.patience)
    endpoint = pair.keep(pair.domain.scalable_endpoint(tx_contexts=1, rx_contexts=1))
    endpoint.bind(pair.peers)
    sender, receiver = pair.keep(endpoint.tx_context(0)), pair.keep(endpoint.rx_context(0))
    sender.bind(sent)
    receiver.bind(received.queue)
    receiver.bind(context)
    endpoint.enable()
    number = pair.met(endpoint)
    for size in (8, _LONG):
        context.recv(buffer := bytearray(size), context=size)
        pair.target.send(number, pattern(size), None, None)
        expect_equal("op_context", received.finish().op_context, size)
        expect_equal("buffer", bytes(buffer), pattern(size))
        pair.target.hear(1, pair.patience)
    receive = pair.receive(8)
    sender.send(pattern(8), pair.peer, context="back")
    receive.finish()
    expect_equal("op_context", Listener(sent, pair.patience).finish().op_context, "back")
    expect_equal("message", receive.load(), pattern(8))


@page(
    "fi_scalable_ep_bind",
    "The call binds an address vector; shared receives are bound to the receive context.",
    needs=_NEEDS | {"scalable"},
)
def a_scalable_endpoint_is_bound_to_an_address_vector_alone(pair: Pair) -> None:
    """Try to bind a shared receive context, which is refused."""
    context = pair.keep(pair.domain.srx_context(16))
    endpoint = pair.keep(pair.domain.scalable_endpoint(tx_contexts=1, rx_contexts=1))
    with expect_error("a shared receive context", Errno.FI_EINVAL):
        endpoint.bind(context)  # type: ignore[arg-type]
    pair.keep(endpoint.rx_context(0)).bind(context)


@page("fi_srx_context", "Endpoints use a subset of the receive context's attributes.", needs=_NEEDS | {"tagged"})
def an_endpoint_is_capable_of_no_more_than_its_shared_context(pair: Pair) -> None:
    """Bind a context without tags to an endpoint with tags."""
    context = pair.keep(pair.domain.srx_context(RxAttr(caps=Caps.FI_MSG | Caps.FI_RECV, size=16)))
    caps = Caps.FI_MSG | Caps.FI_TAGGED | Caps.FI_SEND | Caps.FI_RECV
    endpoint = pair.keep(pair.domain.endpoint(caps=caps))
    with expect_error("an endpoint with FI_TAGGED", Errno.FI_EINVAL):
        endpoint.bind(context)
        endpoint.bind(pair.keep(pair.domain.cq_open()), _BOTH)
        endpoint.bind(pair.peers)
        endpoint.enable()


@page("rx_ctx_cnt: FI_SHARED_CONTEXT", "The endpoint is configured to use a shared receive context.", needs=_NEEDS)
def an_endpoint_that_asks_for_a_shared_context_needs_one(pair: Pair) -> None:
    """Enable an endpoint without a shared context, then with one: only the second call succeeds."""
    attributes = EpAttr(type=EpType.FI_EP_RDM, rx_ctx_cnt=FI_SHARED_CONTEXT)
    info = pair.fabric.getinfo(replace(pair.info, ep_attr=attributes, src_addr=None))[0]
    expect_equal("rx_ctx_cnt", info.ep_attr.rx_ctx_cnt, FI_SHARED_CONTEXT)
    endpoint = pair.keep(pair.domain.endpoint(info))
    endpoint.bind(pair.keep(pair.domain.cq_open()), _BOTH)
    endpoint.bind(pair.peers)
    with expect_error("without a shared context", Errno.FI_EOPBADSTATE, Errno.FI_EINVAL):
        endpoint.enable()
    endpoint.bind(pair.keep(pair.domain.srx_context(16)))
    endpoint.enable()


@page("fi_ep_bind", "Shared contexts are bound before the endpoint is enabled.", needs=_NEEDS)
def no_shared_receive_context_is_bound_to_an_enabled_endpoint(pair: Pair) -> None:
    """Bind a shared receive context too late."""
    endpoint, context = pair.open().endpoint, pair.keep(pair.domain.srx_context(16))
    with expect_error("a shared receive context", Errno.FI_EOPBADSTATE):
        endpoint.bind(context)


@page("fi_close", "Closing one of the endpoints leaves the receives to the others.", needs=_NEEDS)
def closing_an_endpoint_leaves_shared_receives_to_others(pair: Pair) -> None:
    """Close one endpoint: its waiting message is gone, and the message of the other one is received."""
    shared, buffer = _shared(pair), bytearray(8)
    shared.get(pair, (1, pattern(8, 1)), (0, pattern(8)))
    shared.sides[1].endpoint.close()
    shared.context.recv(buffer, context="received")
    expect_equal("op_context", shared.sides[0].finish().op_context, "received")
    expect_equal("buffer", bytes(buffer), pattern(8))
    shared.sides[1].nothing_more()
