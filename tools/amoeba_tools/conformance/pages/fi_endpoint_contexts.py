"""fi_endpoint(3): endpoints of several contexts, and contexts of several endpoints."""

from dataclasses import dataclass

from amoeba.core.errno import Errno
from amoeba.libfabric.objects.address_vector import AddressVector, rx_addr
from amoeba.libfabric.objects.constants import BindFlags, CqFormat
from amoeba.libfabric.objects.endpoints.scalable import ReceiveContext, ScalableEndpoint, TransmitContext
from amoeba.libfabric.objects.queues.counters import Counter

from amoeba_tools.conformance.expectations import expect_equal, expect_error
from amoeba_tools.conformance.pages.fi_cntr import becomes
from amoeba_tools.conformance.pages.fi_endpoint import page
from amoeba_tools.conformance.pages.fi_rma import pattern
from amoeba_tools.conformance.pair import Initiator, Listener, Pair

_SIZES = (40, 10_000)
"""Bytes of a message that fits into a frame, and of one that does not."""
_BITS = 1
"""Bits of a number that name a receive context."""


@dataclass
class _Scalable:
    """A scalable endpoint, its contexts, each with a queue, and who is in its address vector."""

    endpoint: ScalableEndpoint
    senders: list[TransmitContext]
    receivers: list[ReceiveContext]
    sent: list[Listener]
    """By transmit context."""
    received: list[Listener]
    """By receive context."""
    peers: AddressVector
    peer: int
    """The target."""
    own: int
    """The endpoint itself."""


def _scalable(pair: Pair, tx_contexts: int, rx_contexts: int, counter: Counter | None = None) -> _Scalable:
    """``counter`` counts the receives of its last receive context."""
    domain = pair.domain
    peers = pair.keep(domain.av_open(rx_ctx_bits=_BITS))
    endpoint = pair.keep(domain.scalable_endpoint(tx_contexts=tx_contexts, rx_contexts=rx_contexts))
    endpoint.bind(peers)
    senders = [pair.keep(endpoint.tx_context(index)) for index in range(tx_contexts)]
    receivers = [pair.keep(endpoint.rx_context(index)) for index in range(rx_contexts)]
    sent, received = (
        [Listener(pair.keep(domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED)), pair.patience) for _ in contexts]
        for contexts in (senders, receivers)
    )
    for sender, listener in zip(senders, sent, strict=True):
        sender.bind(listener.queue)
    for receiver, listener in zip(receivers, received, strict=True):
        receiver.bind(listener.queue)
    if counter is not None:
        receivers[-1].bind(counter, BindFlags.FI_RECV)
    endpoint.enable()
    peer, own = peers.insert(pair.target.name(0)), peers.insert(endpoint.getname())
    return _Scalable(endpoint, senders, receivers, sent, received, peers, peer, own)


@page("SCALABLE ENDPOINTS", "Each transmit context has its own completion queue.", needs={"scalable"})
def operations_of_each_transmit_context_end_in_its_queue(pair: Pair) -> None:
    """Write through two contexts in turn."""
    scalable, memory = _scalable(pair, 2, 1), pair.memory(64)
    for index in range(8):
        _, address, key = memory.at(8 * index)
        scalable.senders[index % 2].write(pattern(8, index), scalable.peer, address, key, context=index)
    for which, listener in enumerate(scalable.sent):
        contexts = [entry.op_context for entry in listener.finish_all(4)]
        expect_equal("contexts", contexts, [which, which + 2, which + 4, which + 6])
        listener.nothing_more()
    expect_equal("memory", memory.load(), b"".join(pattern(8, index) for index in range(8)))


@page(
    "SCALABLE ENDPOINTS",
    "The endpoint has a single address, the source of messages of all its contexts.",
    needs={"scalable", "messages", "source"},
)
def messages_of_all_transmit_contexts_come_from_one_address(pair: Pair) -> None:
    """Send short and long messages of two contexts; the target reports source and length."""
    scalable = _scalable(pair, 2, 1)
    number = pair.met(scalable.endpoint)
    for size in _SIZES:
        for sender, listener in zip(scalable.senders, scalable.sent, strict=True):
            receive = pair.receive(size)
            sender.send(pattern(size), scalable.peer)
            heard = receive.finish()
            expect_equal("source and length", (heard.source, heard.len), (number, size))
            expect_equal("message", receive.load(), pattern(size))
            expect_equal("len of the send", listener.finish().len, size)


@page(
    "SCALABLE ENDPOINTS",
    "Receive contexts may be targeted directly, and each has its own completion queue.",
    needs={"scalable", "messages"},
)
def messages_come_to_the_receive_context_that_is_named(pair: Pair) -> None:
    """Send short and long ones from the endpoint to itself, the second context first."""
    scalable = _scalable(pair, 1, 2)
    for size in _SIZES:
        buffers = [bytearray(size), bytearray(size)]
        for index, receiver in enumerate(scalable.receivers):
            receiver.recv(buffers[index], context=index)
        for index in (1, 0):
            scalable.senders[0].send(pattern(size, index), rx_addr(scalable.own, index, _BITS))
            expect_equal("op_context", scalable.received[index].finish().op_context, index)
            scalable.received[1 - index].nothing_more()
            scalable.sent[0].finish()
        expect_equal("messages", [bytes(buffer) for buffer in buffers], [pattern(size, 0), pattern(size, 1)])


@page(
    "fi_ep_bind: FI_RECV",
    "A receive context counts the messages that it receives.",
    needs={"scalable", "messages"},
)
def a_receive_context_counts_its_receives(pair: Pair) -> None:
    """Send a short and a long message; the counter ignores those of the other context."""
    counter = pair.keep(pair.domain.cntr_open())
    scalable = _scalable(pair, 1, 2, counter)
    for size in _SIZES:
        for index, receiver in enumerate(scalable.receivers):
            receiver.recv(bytearray(size))
            scalable.senders[0].send(pattern(size), rx_addr(scalable.own, index, _BITS))
            scalable.received[index].finish()
            scalable.sent[0].finish()
    becomes("receives counted", counter.read, len(_SIZES), pair.patience)
    expect_equal("errors counted", counter.readerr(), 0)


@page(
    "SCALABLE ENDPOINTS",
    "The endpoint has a single address, which a directed receive can name.",
    needs={"scalable", "messages"},
)
def a_directed_receive_takes_messages_of_any_of_its_transmit_contexts(pair: Pair) -> None:
    """Send a stranger's message, which goes to the next receive."""
    near, scalable = pair.talker(), _scalable(pair, 1, 1)
    source, own = pair.introduce(scalable.endpoint), pair.introduce(near.endpoint)
    there = scalable.peers.insert(near.endpoint.getname())
    for size in _SIZES:
        near.endpoint.recv(bytearray(size), src_addr=source, context="directed")
        near.endpoint.recv(bytearray(size), context="any")
        pair.near.endpoint.send(pattern(size), own)
        expect_equal("op_context", near.finish().op_context, "any")
        pair.near.finish()
        scalable.senders[0].send(pattern(size), there)
        expect_equal("op_context", near.finish().op_context, "directed")
        scalable.sent[0].finish()


# Shared transmit contexts


def _sharing(pair: Pair, counters: tuple[Counter, ...] = ()) -> list[Initiator]:
    """Two endpoints with one transmit context, and a queue each; ``counters`` count what each writes."""
    shared = pair.keep(pair.domain.stx_context(16))
    sides = []
    for index in range(2):
        queue = pair.keep(pair.domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED))
        endpoint = pair.keep(pair.domain.endpoint())
        endpoint.bind(shared)
        endpoint.bind(queue)
        endpoint.bind(pair.peers)
        if counters:
            endpoint.bind(counters[index], BindFlags.FI_WRITE)
        endpoint.enable()
        sides.append(Initiator(queue, pair.patience, endpoint))
    return sides


@page("SHARED CONTEXTS", "Completed operations are posted to the queue of their endpoint.", needs={"shared_tx"})
def operations_through_a_shared_context_end_in_their_endpoints_queue(pair: Pair) -> None:
    """Write from two endpoints in turn."""
    sides, memory = _sharing(pair), pair.memory(64)
    for index in range(8):
        sides[index % 2].endpoint.write(pattern(8, index), *memory.at(8 * index), context=index)
    for which, side in enumerate(sides):
        contexts = [entry.op_context for entry in side.finish_all(4)]
        expect_equal("contexts", contexts, [which, which + 2, which + 4, which + 6])
        side.nothing_more()
    expect_equal("memory", memory.load(), b"".join(pattern(8, index) for index in range(8)))


@page("SHARED CONTEXTS", "Counters are those of the endpoint.", needs={"shared_tx"})
def operations_through_a_shared_context_are_counted_by_their_endpoint(pair: Pair) -> None:
    """Write once by one endpoint, three times by the other."""
    one, other = counters = pair.keep(pair.domain.cntr_open()), pair.keep(pair.domain.cntr_open())
    sides, memory = _sharing(pair, counters), pair.memory(8)
    for side, times in zip(sides, (1, 3), strict=True):
        for _ in range(times):
            side.endpoint.write(pattern(8), *memory.at())
        side.finish_all(times)
    becomes("writes of the one", one.read, 1, pair.patience)
    becomes("writes of the other", other.read, 3, pair.patience)


@page("SHARED CONTEXTS", "An endpoint is associated with a single shared transmit context.", needs={"shared_tx"})
def a_second_shared_context_is_refused(pair: Pair) -> None:
    """Bind a second shared context; the first one stays in use."""
    endpoint = pair.keep(pair.domain.endpoint())
    endpoint.bind(pair.keep(pair.domain.stx_context(16)))
    with expect_error("a second shared context", Errno.FI_EINVAL, Errno.FI_EBUSY):
        endpoint.bind(pair.keep(pair.domain.stx_context(16)))


@page(
    "SHARED CONTEXTS",
    "Each endpoint has a transport address of its own, by which peers know what it sends.",
    needs={"shared_tx", "messages", "source"},
)
def messages_through_a_shared_context_come_from_their_endpoints_address(pair: Pair) -> None:
    """Send short and long messages of two endpoints in turn; the target reports source and length."""
    sides = _sharing(pair)
    numbers = [pair.met(side.endpoint) for side in sides]
    for size in _SIZES:
        for side, number in zip(sides, numbers, strict=True):
            receive = pair.receive(size)
            side.endpoint.send(pattern(size, number), pair.peer, context=size)
            heard = receive.finish()
            expect_equal("source and length", (heard.source, heard.len), (number, size))
            expect_equal("message", receive.load(), pattern(size, number))
            expect_equal("op_context", side.finish().op_context, size)
