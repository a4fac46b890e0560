"""fi_msg(3): what completions and counters say of messages, and when; what cannot be delivered, or not yet."""

from amoeba.core.errno import Errno
from amoeba.libfabric.objects.constants import FI_ADDR_NOTAVAIL, BindFlags, CqFormat, OpFlags
from amoeba.libfabric.objects.queues.completion import CqDataEntry, CqEntry, CqMsgEntry, CqTaggedEntry

from amoeba_tools.conformance.expectations import expect_equal
from amoeba_tools.conformance.pages.fi_cntr import becomes, counted, values_of
from amoeba_tools.conformance.pages.fi_msg import DATA, LONG, RECEIVED, SENT, page
from amoeba_tools.conformance.pages.fi_rma import pattern
from amoeba_tools.conformance.pair import Pair

_KEPT = 64
"""Messages that wait for their receives at a NIC of this project; others may keep more."""
_TURN = 16
"""Receives that are posted at a time."""

# Entries


@page("fi_cq(3): format", "Receives and sends are reported in the format of their queue.")
def entries_of_every_format_have_their_fields(pair: Pair) -> None:
    """Complete a receive with data, then a send."""
    expected = {
        CqFormat.FI_CQ_FORMAT_CONTEXT: (CqEntry("in"), CqEntry("out")),
        CqFormat.FI_CQ_FORMAT_MSG: (CqMsgEntry("in", RECEIVED | DATA, 5), CqMsgEntry("out", SENT, 5)),
        CqFormat.FI_CQ_FORMAT_DATA: (
            CqDataEntry("in", RECEIVED | DATA, 5, 0, 77),
            CqDataEntry("out", SENT, 5, 0, 0),
        ),
        CqFormat.FI_CQ_FORMAT_TAGGED: (
            CqTaggedEntry("in", RECEIVED | DATA, 5, 0, 77, 0),
            CqTaggedEntry("out", SENT, 5, 0, 0, 0),
        ),
    }
    for cq_format, (received, sent) in expected.items():
        with pair.part():
            near = pair.talker(cq_format=cq_format)
            near.endpoint.recv(bytearray(8), context="in")
            near.get(b"hello", data=77)
            expect_equal(f"{cq_format.name}, receive", near.finish(), received)
            receive = pair.receive(8)
            near.endpoint.send(b"hello", pair.peer, context="out")
            expect_equal(f"{cq_format.name}, send", near.finish(), sent)
            receive.finish()


@page(
    "fi_cq(3): fi_cq_readfrom",
    "The entry reports the sender of a message, if the address vector has it.",
    needs={"source"},
)
def the_sender_of_a_message_is_told(pair: Pair) -> None:
    """Receive from the target, and from an endpoint outside the receiver's address vector."""
    near = pair.talker()
    own = pair.introduce(near.endpoint)
    for expected in (pair.peer, FI_ADDR_NOTAVAIL):
        near.endpoint.recv(bytearray(8))
        if expected == pair.peer:
            near.get(b"a peer")
        else:
            pair.near.endpoint.send(b"stranger", own)
            pair.near.finish()
        ((_, source),) = near.queue.sreadfrom(1, pair.patience)
        expect_equal("source", source, expected)


@page("fi_recv", "A message of any length is received, whoever sent it.")
def a_long_message_of_a_stranger_is_received(pair: Pair) -> None:
    """Receive two messages in a row of a sender without receive queue, outside the receiver's address vector."""
    near = pair.talker()
    own = pair.introduce(near.endpoint)
    for index in range(2):
        buffer = bytearray(LONG)
        near.endpoint.recv(buffer)
        pair.near.endpoint.send(pattern(LONG, index), own)
        ((_, source),) = near.queue.sreadfrom(1, pair.patience)
        expect_equal("source", source, FI_ADDR_NOTAVAIL)
        expect_equal("message", bytes(buffer), pattern(LONG, index))
        expect_equal("len of the send", pair.near.finish().len, LONG)


# Completion levels


@page("fi_cq(3): FI_MATCH_COMPLETE", "The completion says that the message has met a receive.")
def a_send_with_match_complete_waits_for_its_receive(pair: Pair) -> None:
    """Check that a later send completes first, as long as the message has no receive."""
    near = pair.talker()
    near.endpoint.send(b"matched?", pair.peer, context="matched", flags=OpFlags.FI_MATCH_COMPLETE)
    near.endpoint.send(b"the next", pair.peer, context="next")
    expect_equal("op_context", near.finish().op_context, "next")
    near.nothing_more()
    receives = [pair.receive(8) for _ in range(2)]
    heard = pair.target.hear(2, pair.patience)
    expect_equal("ended", sorted(entry.handle for entry in heard), [receive.handle for receive in receives])
    expect_equal("op_context", near.finish().op_context, "matched")
    expect_equal("messages", [receive.load() for receive in receives], [b"matched?", b"the next"])


@page("fi_cq(3): FI_DELIVERY_COMPLETE", "The send may complete before the receive is posted, as may lower levels.")
def other_completion_levels_do_not_wait_for_a_receive(pair: Pair) -> None:
    """Complete each while no receive is posted; the messages are there afterwards."""
    levels = (OpFlags.FI_INJECT_COMPLETE, OpFlags.FI_TRANSMIT_COMPLETE, OpFlags.FI_DELIVERY_COMPLETE)
    for level in levels:
        pair.near.endpoint.send(b"leveled!", pair.peer, context=level, flags=level)
        expect_equal("op_context", pair.near.finish().op_context, level)
    for _ in levels:
        receive = pair.receive(8)
        receive.finish()
        expect_equal("memory", receive.load(), b"leveled!")


# Reliability


@page("fi_endpoint(3): FI_EP_RDM", "Sends are reliable: one that cannot be delivered fails.", needs={"cut"})
def a_send_to_a_peer_out_of_reach_fails(pair: Pair) -> None:
    """Use injected ones, too; when the peer is back, messages are received again."""
    with pair.cut():
        pair.near.endpoint.send(b"in vain!", pair.peer, context="lost")
        entry = pair.near.failure()
        expect_equal("context, flags", (entry.op_context, entry.flags), ("lost", SENT))
        pair.near.endpoint.inject(b"in vain!", pair.peer)
        expect_equal("flags of what was injected", pair.near.failure().flags, SENT)
    receive = pair.receive(8)
    pair.near.endpoint.send(b"and back", pair.peer)
    pair.near.finish()
    receive.finish()
    expect_equal("memory", receive.load(), b"and back")


@page("fi_endpoint(3): FI_EP_RDM", "Flow control applies: no message is lost for lack of space.")
def messages_beyond_what_is_kept_wait_for_space(pair: Pair) -> None:
    """Send more than the NICs here keep before the first receive: each is received once, in order."""
    near, count = pair.talker(tx_size=128), _KEPT + 20
    for index in range(count):
        near.endpoint.inject(index.to_bytes(2, "little"), pair.peer)
    near.nothing_more()
    found: list[bytes] = []
    while len(found) < count:
        receives = [pair.receive(2) for _ in range(min(_TURN, count - len(found)))]
        heard = pair.target.hear(len(receives), pair.patience)
        expect_equal("errors", [entry.err for entry in heard], [0] * len(receives))
        found += [receive.load() for receive in receives]
    expect_equal("messages", b"".join(found), b"".join(index.to_bytes(2, "little") for index in range(count)))


# Counters


@page("fi_endpoint(3): FI_SEND", "Sends are counted by a counter bound with it.")
def sends_are_counted(pair: Pair) -> None:
    """Use injected ones, too; a counter of writes stays."""
    near, (sends, writes) = counted(pair, BindFlags.FI_SEND, BindFlags.FI_WRITE)
    receives = [pair.receive(8) for _ in range(3)]
    near.endpoint.send(b"one", pair.peer)
    near.endpoint.inject(b"two", pair.peer)
    near.endpoint.send(b"three", pair.peer)
    sends.wait(3, pair.patience)
    expect_equal("sends, writes, errors", (sends.read(), writes.read(), sends.readerr()), (3, 0, 0))
    for receive in receives:
        receive.finish()


@page("fi_endpoint(3): FI_RECV", "Receives are counted by a counter bound with it, failed ones as errors.")
def receives_are_counted(pair: Pair) -> None:
    """Count expected, unexpected and long receives, a truncated one, and a cancelled one."""
    receives = pair.keep(pair.domain.cntr_open())
    near = pair.talker(counters={BindFlags.FI_RECV: receives})
    near.endpoint.recv(bytearray(8))
    near.get(b"expected"[:8], b"waits")
    near.endpoint.recv(bytearray(8))
    near.endpoint.recv(bytearray(LONG))
    pair.target.send(near.number, pattern(LONG), None, None)
    receives.wait(3, pair.patience)
    near.finish_all(3)
    pair.target.hear(1, pair.patience)
    near.endpoint.recv(bytearray(2))
    near.get(b"cut")
    near.failure(Errno.FI_ETRUNC)
    near.endpoint.recv(bytearray(2), context="back")
    near.endpoint.cancel("back")
    near.failure(Errno.FI_ECANCELED)
    becomes("receives and errors", lambda: values_of([receives]), [(3, 2)], pair.patience)


@page("fi_endpoint(3): FI_READ", "Counters of reads count RMA reads and atomics, and no messages.")
def long_messages_are_not_counted_as_reads(pair: Pair) -> None:
    """Count on the receiver's side, and on the sender's."""
    kinds = (BindFlags.FI_RECV, BindFlags.FI_SEND, BindFlags.FI_READ, BindFlags.FI_REMOTE_READ)
    counters = {kind: pair.keep(pair.domain.cntr_open()) for kind in kinds}
    near, buffer = pair.talker(counters=counters), bytearray(LONG)
    near.endpoint.recv(buffer)
    pair.target.send(near.number, pattern(LONG), None, None)
    near.finish()
    pair.target.hear(1, pair.patience)
    receive = pair.receive(LONG)
    near.endpoint.send(pattern(LONG), pair.peer)
    receive.finish()
    near.finish()
    expected = [(1, 0), (1, 0), (0, 0), (0, 0)]
    becomes("receives, sends, reads, peer's reads", lambda: values_of(counters.values()), expected, pair.patience)
