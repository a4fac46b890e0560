"""fi_msg(3): messages arrive whole and in order, whatever they are made of, with their data."""

import itertools

from amoeba.core.buffers import allocate
from amoeba.core.errno import Errno
from amoeba.libfabric.objects.constants import Caps, MsgOrder, OpFlags
from amoeba.libfabric.objects.operations.vectors import Msg
from amoeba.libfabric.objects.queues.completion import CqTaggedEntry

from amoeba_tools.conformance.expectations import expect, expect_equal, expect_error
from amoeba_tools.conformance.pages.fi_rma import pattern
from amoeba_tools.conformance.pair import Pair
from amoeba_tools.conformance.registry import Page

page = Page("fi_msg", "1.17", needs={"messages"})

LONG = 10_000
"""Bytes that no frame holds."""
SENT = int(Caps.FI_MSG | Caps.FI_SEND)
RECEIVED = int(Caps.FI_MSG | Caps.FI_RECV)
DATA = OpFlags.FI_REMOTE_CQ_DATA
MULTI = OpFlags.FI_MULTI_RECV
_SIZES = (1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 200)


def scattered(content: bytes | bytearray, *ends: int) -> list[memoryview]:
    """Cut a buffer at these places, and return all pieces."""
    bounds = (0, *ends, len(content))
    return [memoryview(content)[begin:end] for begin, end in itertools.pairwise(bounds)]


def aligned(size: int) -> memoryview:
    """So many zeroed bytes, at an address that is a multiple of 64."""
    return allocate(size)[:size]


def told(pair: Pair, count: int = 1) -> list[int]:
    """Return the data of the next entries at the target, -1 for entries without data."""
    heard = pair.target.hear(count, pair.patience)
    return [entry.data if entry.flags & DATA else -1 for entry in heard]


# What arrives


@page("fi_send", "A send transfers the contents of the buffer to the peer, as one message.")
def send_transfers_these_bytes_and_no_others(pair: Pair) -> None:
    """Use lengths about a word, a beat and the inject size, into buffers whose rest must stay."""
    for size in _SIZES:
        receive = pair.receive(b"\xee" * (size + 16))
        pair.near.endpoint.send(pattern(size), pair.peer, context="sent")
        expect_equal("op_context", pair.near.finish().op_context, "sent")
        expect_equal("len", receive.finish().len, size)
        expect_equal(f"{size} bytes", receive.load(), pattern(size) + b"\xee" * 16)


@page("fi_recv", "A posted buffer receives a message, whole: message boundaries are maintained.")
def recv_takes_these_bytes_and_no_others(pair: Pair) -> None:
    """Post the receive before the message comes."""
    near = pair.talker()
    for size in _SIZES:
        buffer = bytearray(b"\xee" * (size + 16))
        near.endpoint.recv(buffer, context=size)
        near.get(pattern(size))
        entry = near.finish()
        expect_equal("op_context and len", (entry.op_context, entry.len), (size, size))
        expect_equal(f"{size} bytes", bytes(buffer), pattern(size) + b"\xee" * 16)


@page("fi_endpoint(3): total_buffered_recv", "Messages without a matching receive may be buffered.")
def unexpected_messages_wait_for_their_receive(pair: Pair) -> None:
    """Use lengths about a word and a beat, each there before its receive."""
    near = pair.talker()
    near.get(*map(pattern, _SIZES))
    near.nothing_more()
    for size in _SIZES:
        buffer = bytearray(size)
        near.endpoint.recv(buffer, context=size)
        entry = near.finish()
        expect_equal("op_context and len", (entry.op_context, entry.len), (size, size))
        expect_equal(f"{size} bytes", bytes(buffer), pattern(size))


@page("ARGUMENTS: len", "Valid transfers have from 0 bytes to max_msg_size.")
def messages_of_no_bytes_are_messages(pair: Pair) -> None:
    """Send one each way, the second into a buffer that must stay."""
    near, receive = pair.talker(), pair.receive(0)
    near.endpoint.send(b"", pair.peer, context="empty")
    expect_equal("entry", near.finish(), CqTaggedEntry("empty", SENT, 0, 0, 0, 0))
    expect_equal("len", receive.finish().len, 0)
    buffer = bytearray(b"\xee")
    near.endpoint.recv(buffer, context="nothing")
    near.get(b"")
    expect_equal("entry", near.finish(), CqTaggedEntry("nothing", RECEIVED, 0, 0, 0, 0))
    expect_equal("buffer", bytes(buffer), b"\xee")


@page("ARGUMENTS: len", "Valid transfers have from 0 bytes to max_msg_size.")
def long_sends_arrive_whole(pair: Pair) -> None:
    """Use several frames, the last of odd length."""
    near, receive = pair.talker(), pair.receive(LONG + 1)
    near.endpoint.send(pattern(LONG), pair.peer, context="long")
    expect_equal("len", receive.finish().len, LONG)
    expect_equal("entry", near.finish(), CqTaggedEntry("long", SENT, LONG, 0, 0, 0))
    expect_equal("memory", receive.load(), pattern(LONG) + b"\0")


@page("ARGUMENTS: len", "Valid transfers have from 0 bytes to max_msg_size.")
def long_messages_are_received_whole(pair: Pair) -> None:
    """Post the receive before the message comes, and after."""
    near = pair.talker()
    for expected in (True, False):
        buffer = bytearray(LONG + 1)
        if not expected:
            pair.target.send(near.number, pattern(LONG), None, 7)
        near.endpoint.recv(buffer, context="long")
        if expected:
            pair.target.send(near.number, pattern(LONG), None, 7)
        expect_equal("entry", near.finish(), CqTaggedEntry("long", RECEIVED | DATA, LONG, 0, 7, 0))
        expect_equal("buffer", bytes(buffer), pattern(LONG) + b"\0")
        (sent,) = pair.target.hear(1, pair.patience)
        expect_equal("the sender's flags, len and err", (sent.flags, sent.len, sent.err), (SENT, LONG, 0))


@page("ARGUMENTS: len", "Valid transfers have from 0 bytes to max_msg_size.")
def sends_beyond_max_msg_size_are_refused(pair: Pair) -> None:
    """Send a vector that is too long since it names one buffer many times; no message is posted."""
    near, piece = pair.talker(), bytes(1 << 24)
    count = pair.info.ep_attr.max_msg_size // len(piece) + 1
    with expect_error("a message of more than max_msg_size", Errno.FI_EMSGSIZE, Errno.FI_EINVAL):
        near.endpoint.sendv([piece] * count, pair.peer)
    near.nothing_more()


# Order


@page("fi_recv", "Posted receives are searched in the order in which they were posted.")
def messages_meet_receives_in_order(pair: Pair) -> None:
    """Post eight receives, then send eight messages of other lengths."""
    near = pair.talker()
    buffers = [bytearray(16) for _ in range(8)]
    for index, buffer in enumerate(buffers):
        near.endpoint.recv(buffer, context=index)
    near.get(*(pattern(9 + index, index) for index in range(8)))
    entries = near.finish_all(8)
    expect_equal("contexts and lengths", [entry[:3:2] for entry in entries], [(each, 9 + each) for each in range(8)])
    expected = [pattern(9 + each, each).ljust(16, b"\0") for each in range(8)]
    expect_equal("buffers", [bytes(buffer) for buffer in buffers], expected)


@page("fi_endpoint(3): FI_ORDER_SAS", "Sends are received in the order in which they were posted.")
def unexpected_messages_keep_their_order(pair: Pair) -> None:
    """Send eight messages, then post eight receives."""
    near = pair.talker()
    near.get(*(bytes([index]) for index in range(8)))
    buffers = [bytearray(1) for _ in range(8)]
    for index, buffer in enumerate(buffers):
        near.endpoint.recv(buffer, context=index)
    expect_equal("contexts", [entry.op_context for entry in near.finish_all(8)], list(range(8)))
    expect_equal("bytes", b"".join(buffers), bytes(range(8)))


@page("fi_endpoint(3): FI_ORDER_SAS", "Sends are received in the order in which they were posted.")
def sends_of_all_lengths_keep_their_order(pair: Pair) -> None:
    """Send long ones between short ones; each receive gets its message, whatever ends first."""
    near = pair.talker()
    lengths = (8, LONG, 0, 9, LONG + 1, 10)
    receives = [pair.receive(LONG + 1) for _ in lengths]
    for index, length in enumerate(lengths):
        near.endpoint.send(pattern(length, index), pair.peer, context=index)
    heard = {entry.handle: entry.len for entry in pair.target.hear(len(lengths), pair.patience)}
    expect_equal("lengths by receive", [heard.get(receive.handle) for receive in receives], list(lengths))
    for index, (receive, length) in enumerate(zip(receives, lengths, strict=True)):
        expect_equal(f"message {index}", receive.load()[:length], pattern(length, index))
    told_of = sorted(entry.op_context for entry in near.finish_all(len(lengths)))
    expect_equal("sends reported", told_of, list(range(len(lengths))))


@page("fi_endpoint(3): FI_ORDER_SAW", "A send after a write is received after it.", needs={"rma"})
def a_send_comes_after_the_writes_before_it(pair: Pair) -> None:
    """Write without a fence: when the receive ends, the earlier writes are there."""
    claimed = pair.info.tx_attr.msg_order
    expect(MsgOrder.FI_ORDER_SAW in claimed, f"expected FI_ORDER_SAW to be claimed, got {claimed!r}")
    near, memory, receive = pair.ordered(), pair.memory(LONG), pair.receive(4)
    near.endpoint.write(pattern(LONG), *memory.at())
    near.endpoint.send(b"done", pair.peer)
    receive.finish()
    expect_equal("memory", memory.load(), pattern(LONG))
    near.finish_all(2)


# Vectors


@page("fi_sendv", "The buffers of iov are sent as a single message.")
def sendv_gathers_its_buffers(pair: Pair) -> None:
    """Use odd lengths, one of them 0."""
    receive = pair.receive(50)
    pair.near.endpoint.sendv(scattered(pattern(50), 3, 20, 20), pair.peer, context="gathered")
    expect_equal("op_context", pair.near.finish().op_context, "gathered")
    expect_equal("len", receive.finish().len, 50)
    expect_equal("memory", receive.load(), pattern(50))
    pair.near.nothing_more()


@page("fi_recvv", "The set of buffers in iov receives a message.")
def recvv_scatters_over_its_buffers(pair: Pair) -> None:
    """Receive a message that ends within the last buffer: short and long, expected and unexpected."""
    near = pair.talker()
    for size, expected in itertools.product((44, LONG), (True, False)):
        whole = bytearray(size + 6)
        if not expected:
            pair.target.send(near.number, pattern(size), None, None)
        near.endpoint.recvv(scattered(whole, 3, 20, 20), context="scattered")
        if expected:
            pair.target.send(near.number, pattern(size), None, None)
        expect_equal("entry", near.finish(), CqTaggedEntry("scattered", RECEIVED, size, 0, 0, 0))
        expect_equal("buffers", bytes(whole), pattern(size) + bytes(6))
        pair.target.hear(1, pair.patience)


@page("fi_sendmsg", "The call takes a struct fi_msg, whose data is optional.")
def sendmsg_sends_what_its_message_says(pair: Pair) -> None:
    """Compare buffers, peer and context; the data counts only with FI_REMOTE_CQ_DATA."""
    receive = pair.receive(20)
    message = Msg(scattered(pattern(20), 7), pair.peer, context="msg", data=99)
    pair.near.endpoint.sendmsg(message)
    expect_equal("op_context", pair.near.finish().op_context, "msg")
    expect_equal("data flag", receive.finish().flags & DATA, 0)
    expect_equal("memory", receive.load(), pattern(20))
    pair.receive(20)
    pair.near.endpoint.sendmsg(message, DATA)
    pair.near.finish()
    expect_equal("data", told(pair), [99])


@page("fi_recvmsg", "The call takes a struct fi_msg.")
def recvmsg_receives_what_its_message_says(pair: Pair) -> None:
    """Compare buffers and context."""
    near, whole = pair.talker(), bytearray(20)
    near.endpoint.recvmsg(Msg(scattered(whole, 7), context="msg"))
    near.get(pattern(20))
    expect_equal("entry", near.finish(), CqTaggedEntry("msg", RECEIVED, 20, 0, 0, 0))
    expect_equal("buffers", bytes(whole), pattern(20))


# Inject


@page("fi_inject", "The buffer may be reused as soon as the call returns.")
def inject_has_taken_the_data_when_it_returns(pair: Pair) -> None:
    """Overwrite sources from 1 byte to inject_size at once."""
    for size in (1, 8, 9, pair.info.tx_attr.inject_size):
        receive, source = pair.receive(size), bytearray(pattern(size))
        pair.near.endpoint.inject(source, pair.peer)
        source[:] = b"\xee" * size
        receive.finish()
        expect_equal(f"{size} bytes", receive.load(), pattern(size))


@page("FLAGS: FI_INJECT", "The buffer is returned when the call returns, even if the send is not over.")
def inject_flag_takes_the_data_and_reports(pair: Pair) -> None:
    """Expect a completion, unlike the call."""
    receive, source = pair.receive(24), bytearray(pattern(24))
    pair.near.endpoint.sendmsg(Msg([source], pair.peer, context="injected"), OpFlags.FI_INJECT)
    source[:] = b"\xee" * 24
    expect_equal("op_context", pair.near.finish().op_context, "injected")
    receive.finish()
    expect_equal("memory", receive.load(), pattern(24))


@page("fi_inject", "A success writes no entry, even where all successes write one.")
def inject_is_not_reported(pair: Pair) -> None:
    """Inject a message, then send a reported one: only the second has an entry."""
    receives = [pair.receive(8) for _ in range(2)]
    pair.near.endpoint.inject(b"injected", pair.peer)
    pair.near.endpoint.send(b"reported", pair.peer, context="next")
    for receive in receives:
        receive.finish()
    expect_equal("op_context", pair.near.finish().op_context, "next")
    pair.near.nothing_more()


@page("fi_inject", "The length is limited by inject_size.")
def inject_beyond_inject_size_is_refused(pair: Pair) -> None:
    """Use one byte too many; the receive gets the next message."""
    most, receive = pair.info.tx_attr.inject_size, pair.receive(8)
    with expect_error(f"{most + 1} bytes", Errno.FI_EINVAL, Errno.FI_EMSGSIZE):
        pair.near.endpoint.inject(bytes(most + 1), pair.peer)
    pair.near.endpoint.inject(b"the next", pair.peer)
    receive.finish()
    expect_equal("memory", receive.load(), b"the next")


# Data


@page("fi_senddata", "The call also sends remote CQ data, which is in the entry of the peer's receive.")
def senddata_brings_its_data(pair: Pair) -> None:
    """Send data of every width up to 64 bits, expected and unexpected."""
    near, values = pair.talker(), (0, 1, 0xFFFF_FFFF, 2**64 - 1)
    for value in values:
        pair.receive(8)
        near.endpoint.senddata(b"has data", value, pair.peer)
        near.finish()
    expect_equal("data at the target", told(pair, len(values)), list(values))
    for value in values:
        near.get(b"has data", data=value)
        near.endpoint.recv(bytearray(8), context=value)
        expect_equal("entry", near.finish(), CqTaggedEntry(value, RECEIVED | DATA, 8, 0, value, 0))


@page("fi_injectdata", "The call is fi_inject with remote CQ data.")
def injectdata_brings_its_data_and_is_not_reported(pair: Pair) -> None:
    """Overwrite the source at once."""
    receive, source = pair.receive(24), bytearray(pattern(24))
    pair.near.endpoint.injectdata(source, 12345, pair.peer)
    source[:] = bytes(24)
    expect_equal("data", told(pair), [12345])
    expect_equal("memory", receive.load(), pattern(24))
    pair.near.nothing_more()
