"""fi_msg(3): what receives take, all of a message or not, one or several, from whom; and receives taken back."""

import itertools

from amoeba.core.buffers import address_of
from amoeba.core.errno import Errno
from amoeba.libfabric.objects.constants import FI_ADDR_UNSPEC, EndpointOption, OpFlags, OptionLevel

from amoeba_tools.conformance.expectations import expect_equal, expect_error
from amoeba_tools.conformance.pages.fi_msg import (
    DATA,
    LONG,
    MULTI,
    RECEIVED,
    SENT,
    aligned,
    page,
)
from amoeba_tools.conformance.pages.fi_rma import pattern
from amoeba_tools.conformance.pair import Pair, Talker

_MANY_RECEIVES = 80
"""More than a NIC keeps."""
_ALIGNMENT = 64
"""Alignment of all messages but the first in a multi-receive buffer."""

# Messages that do not fit


def cut_short(pair: Pair, near: Talker, size: int, *, expected: bool) -> None:
    """Truncate a message of ``size`` bytes at a receive of 8, and check both ends."""
    whole = bytearray(b"\xee" * 16)
    if not expected:
        pair.target.send(near.number, pattern(size), None, 3)
    near.endpoint.recv(memoryview(whole)[:8], context="short")
    if expected:
        pair.target.send(near.number, pattern(size), None, 3)
    entry = near.failure(Errno.FI_ETRUNC)
    expect_equal("context, flags", (entry.op_context, entry.flags), ("short", RECEIVED | DATA))
    expect_equal("len, olen, data", (entry.len, entry.olen, entry.data), (8, size - 8, 3))
    expect_equal("buffer", bytes(whole), pattern(size)[:8] + b"\xee" * 8)
    (sent,) = pair.target.hear(1, pair.patience)
    expect_equal("the sender's flags, len and err", (sent.flags, sent.len, sent.err), (SENT, size, 0))


@page("fi_cq(3): olen", "A message that overruns the buffer is truncated; olen is the number of lost bytes.")
def an_expected_message_that_does_not_fit_is_cut(pair: Pair) -> None:
    """Truncate by a byte, and by most of it; nothing is written behind the buffer."""
    near = pair.talker()
    for size in (9, 200):
        cut_short(pair, near, size, expected=True)


@page("fi_cq(3): olen", "A message that overruns the buffer is truncated; olen is the number of lost bytes.")
def an_unexpected_message_that_does_not_fit_is_cut(pair: Pair) -> None:
    """Truncate by a byte, and by most of it; nothing is written behind the buffer."""
    near = pair.talker()
    for size in (9, 200):
        cut_short(pair, near, size, expected=False)


@page("fi_cq(3): olen", "A message that overruns the buffer is truncated; olen is the number of lost bytes.")
def a_long_message_that_does_not_fit_is_cut(pair: Pair) -> None:
    """Truncate a long message, expected and unexpected; bytes behind the buffer stay."""
    near = pair.talker()
    for expected in (True, False):
        cut_short(pair, near, LONG, expected=expected)


@page("ARGUMENTS: len", "Valid transfers have from 0 bytes to max_msg_size.")
def a_receive_of_no_bytes_cuts_everything_off(pair: Pair) -> None:
    """Expect all of it in olen; the receive behind it gets the next message whole."""
    near, buffer = pair.talker(), bytearray(4)
    near.endpoint.recv(bytearray(), context="none")
    near.endpoint.recv(buffer, context="next")
    near.get(b"lost", b"kept")
    entry = near.failure(Errno.FI_ETRUNC)
    expect_equal("context, len, olen", (entry.op_context, entry.len, entry.olen), ("none", 0, 4))
    expect_equal("op_context", near.finish().op_context, "next")
    expect_equal("buffer", bytes(buffer), b"kept")


# FI_MULTI_RECV


@page("FLAGS: FI_MULTI_RECV", "Messages are packed into the buffer until it is consumed, each with an entry.")
def a_multi_receive_packs_messages_until_it_is_full(pair: Pair) -> None:
    """Check that only the last entry has the flag: the buffer has been released."""
    near, buffer = pair.talker(), aligned(3 * _ALIGNMENT + 3)
    words = (b"the", b"quick", b"", b"brown", b"fox")
    start = address_of(buffer)
    near.endpoint.recv(buffer, context="pool", flags=MULTI)
    near.get(*words)
    entries = near.finish_all(len(words))
    steps = (_ALIGNMENT if word else 0 for word in words[:-1])
    places = list(itertools.accumulate(steps, initial=0))
    expect_equal("buf", [entry.buf - start for entry in entries], places)
    expect_equal("len", [entry.len for entry in entries], [len(word) for word in words])
    expect_equal("flags", [entry.flags for entry in entries], [RECEIVED] * 4 + [RECEIVED | MULTI])
    received = [bytes(buffer[place : place + len(word)]) for place, word in zip(places, words, strict=True)]
    expect_equal("buffer", received, list(words))


@page("FLAGS: FI_MULTI_RECV", "Providers may align what is received.")
def a_multi_receive_aligns_all_messages_but_the_first(pair: Pair) -> None:
    """Start the first message at the buffer, the others at multiples of 64. All other bytes stay."""
    near, whole = pair.talker(), aligned(256)
    whole[:] = b"\xee" * len(whole)
    start, buffer = address_of(whole), whole[29:135]
    near.endpoint.recv(buffer, context="pool", flags=MULTI)
    near.get(b"one", b"two", b"the end")
    entries = near.finish_all(3)
    expect_equal("buf", [entry.buf - start for entry in entries], [29, _ALIGNMENT, 2 * _ALIGNMENT])
    expect_equal("the last: flags", entries[-1].flags, RECEIVED | MULTI)
    words = {29: b"one", _ALIGNMENT: b"two", 2 * _ALIGNMENT: b"the end"}
    expected = bytearray(b"\xee" * len(whole))
    for place, word in words.items():
        expected[place : place + len(word)] = word
    expect_equal("memory", bytes(whole), bytes(expected))


@page("FLAGS: FI_MULTI_RECV", "The buffer is released when less than FI_OPT_MIN_MULTI_RECV of it is left.")
def a_multi_receive_ends_when_too_little_space_is_left(pair: Pair) -> None:
    """Leave 80 and then 16 of 144 bytes, of which 16 is less than 17; the next receive gets the third message."""
    near = pair.talker()
    near.endpoint.setopt(OptionLevel.FI_OPT_ENDPOINT, EndpointOption.FI_OPT_MIN_MULTI_RECV, 17)
    near.endpoint.recv(aligned(2 * _ALIGNMENT + 16), context="pool", flags=MULTI)
    near.endpoint.recv(bytearray(8), context="next")
    near.get(*[bytes(8)] * 3)
    ends = [(entry.op_context, entry.flags) for entry in near.finish_all(3)]
    expect_equal("entries", ends, [("pool", RECEIVED), ("pool", RECEIVED | MULTI), ("next", RECEIVED)])


@page("FLAGS: FI_MULTI_RECV", "Messages are packed into the buffer until it is consumed, each with an entry.")
def a_multi_receive_takes_long_messages(pair: Pair) -> None:
    """Send them between two short ones, each where its entry says."""
    last = 2 * _ALIGNMENT + -(-LONG // _ALIGNMENT) * _ALIGNMENT
    near, buffer = pair.talker(), aligned(last + 1)
    start = address_of(buffer)
    near.endpoint.recv(buffer, context="pool", flags=MULTI)
    messages = {4: b"less", LONG: pattern(LONG), 3: b"end"}
    for message in messages.values():
        pair.target.send(near.number, message, None, None)
    for entry in near.finish_all(3):
        place = entry.buf - start
        expect_equal("message", bytes(buffer[place : place + entry.len]), messages.pop(entry.len))
    pair.target.hear(3, pair.patience)
    near.get(b"!")
    entry = near.finish()
    expect_equal("the last: flags, place", (entry.flags, entry.buf - start), (RECEIVED | MULTI, last))


@page("FLAGS: FI_MULTI_RECV", "Messages are packed into the buffer until it is consumed, each with an entry.")
def a_multi_receive_takes_what_waits(pair: Pair) -> None:
    """Send two that come before it, one behind it."""
    near, buffer = pair.talker(), aligned(2 * _ALIGNMENT + 2)
    near.get(b"ab", b"cd")
    near.endpoint.recv(buffer, context="pool", flags=MULTI)
    near.get(b"ef")
    flags = [entry.flags for entry in near.finish_all(3)]
    expect_equal("flags", flags, [RECEIVED, RECEIVED, RECEIVED | MULTI])
    received = [bytes(buffer[place : place + 2]) for place in range(0, 3 * _ALIGNMENT, _ALIGNMENT)]
    expect_equal("buffer", received, [b"ab", b"cd", b"ef"])


# Directed receives


@page("ARGUMENTS: src_addr", "With FI_DIRECTED_RECV, a receive takes messages of this peer only.")
def a_directed_receive_waits_for_its_sender(pair: Pair) -> None:
    """Send a stranger's message, expected and unexpected: the next receive gets it."""
    near = pair.talker()
    own = pair.introduce(near.endpoint)
    for expected in (True, False):
        if not expected:
            pair.near.endpoint.send(b"stranger", own)
            pair.near.finish()
        buffers = [bytearray(8), bytearray(8)]
        near.endpoint.recv(buffers[0], src_addr=pair.peer, context="directed")
        near.endpoint.recv(buffers[1], src_addr=FI_ADDR_UNSPEC, context="any")
        if expected:
            near.nothing_more()
            pair.near.endpoint.send(b"stranger", own)
            pair.near.finish()
        expect_equal("op_context", near.finish().op_context, "any")
        near.get(b"the peer")
        expect_equal("op_context", near.finish().op_context, "directed")
        expect_equal("buffers", [bytes(buffer) for buffer in buffers], [b"the peer", b"stranger"])


@page("ARGUMENTS: src_addr", "With FI_ADDR_UNSPEC, any source matches.")
def an_undirected_receive_takes_what_comes_first(pair: Pair) -> None:
    """Post the undirected receive before one for the message's sender."""
    near = pair.talker()
    near.endpoint.recv(bytearray(1), context="any")
    near.endpoint.recv(bytearray(1), src_addr=pair.peer, context="directed")
    near.get(b"1", b"2")
    expect_equal("contexts", [entry.op_context for entry in near.finish_all(2)], ["any", "directed"])


# What is not received


@page("fi_endpoint(3): fi_cancel", "A receive that is pending completes as cancelled: FI_ECANCELED.")
def a_cancelled_receive_ends_and_takes_no_message(pair: Pair) -> None:
    """Cancel the first of three receives; messages go to the others."""
    near = pair.talker()
    buffers = {name: bytearray(4) for name in ("first", "second", "third")}
    for name, buffer in buffers.items():
        near.endpoint.recv(buffer, context=name)
    near.endpoint.cancel("first")
    entry = near.failure(Errno.FI_ECANCELED)
    expect_equal("context, flags, len", (entry.op_context, entry.flags, entry.len), ("first", RECEIVED, 0))
    near.get(b"one.", b"two.")
    expect_equal("contexts", [each.op_context for each in near.finish_all(2)], ["second", "third"])
    expect_equal("buffers", [bytes(buffer) for buffer in buffers.values()], [bytes(4), b"one.", b"two."])


@page("fi_endpoint(3): fi_cancel", "A receive that has completed stays completed, and nothing is said of the cancel.")
def what_has_been_received_is_not_cancelled(pair: Pair) -> None:
    """Cancel a completed receive: success is reported once, and no receive is cancelled."""
    near, buffer = pair.talker(), bytearray(4)
    near.endpoint.recv(buffer, context="done")
    near.get(b"here")
    expect_equal("op_context", near.finish().op_context, "done")
    with expect_error("cancel of what has ended", Errno.FI_ENOENT):
        near.endpoint.cancel("done")
    near.nothing_more()
    expect_equal("buffer", bytes(buffer), b"here")


@page("fi_recv", "Posts a receive to the queue of the endpoint.")
def receives_beyond_what_is_kept_are_met_in_their_turn(pair: Pair) -> None:
    """Post more than a NIC keeps: the oldest are first all the while."""
    near = pair.talker()
    for number in range(_MANY_RECEIVES):
        near.endpoint.recv(bytearray(4), context=number)
    for number in range(_MANY_RECEIVES):
        near.get(b"some")
        expect_equal("op_context", near.finish().op_context, number)


@page("ERRORS: FI_EAGAIN", "Operations without free space are refused, and may be retried later.")
def sends_beyond_the_queue_are_to_be_tried_again(pair: Pair) -> None:
    """Check that all accepted messages arrive, and no refused one."""
    near = pair.talker(tx_size=16)
    receive, count = [pair.receive(1) for _ in range(16)], 0
    with pair.fabric.frozen(), expect_error("more sends than the ring has entries", Errno.FI_EAGAIN):
        for count in range(1000):
            near.endpoint.send(bytes([count & 0xFF]), pair.peer, flags=OpFlags.FI_MORE)
    expect_equal("accepted", count, 16)
    near.finish_all(16)
    expect_equal("received", [entry.err for entry in pair.target.hear(16, pair.patience)], [0] * 16)
    expect_equal("messages", b"".join(each.load() for each in receive), bytes(range(16)))
