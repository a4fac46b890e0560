"""fi_trigger(3): receives that wait for a counter, and messages as deferred work."""

from amoeba.core.errno import Errno
from amoeba.libfabric.objects.constants import BindFlags, OpFlags, TriggerOp
from amoeba.libfabric.objects.deferred_work import DeferredWork, OpMsg, OpTagged
from amoeba.libfabric.objects.operations.operations import NO_FLAGS
from amoeba.libfabric.objects.operations.vectors import Msg, TaggedMsg
from amoeba.libfabric.objects.triggered import TriggeredContext

from amoeba_tools.conformance.expectations import expect, expect_equal, expect_error
from amoeba_tools.conformance.pages.fi_cntr import becomes
from amoeba_tools.conformance.pages.fi_msg import LONG
from amoeba_tools.conformance.pages.fi_rma import pattern
from amoeba_tools.conformance.pages.fi_trigger import TRIGGER, counter_of, done, nothing_happens, page
from amoeba_tools.conformance.pair import Pair, Talker

_NEEDS = {"messages", "tagged"}
_TAG = 0x7A6


def receive_of(near: Talker, buffer: bytearray, flags: OpFlags = NO_FLAGS) -> OpMsg:
    """Return a receive as deferred work describes it."""
    return OpMsg(near.endpoint, Msg([buffer], context="work"), flags)


@page("DESCRIPTION", "Receives may be triggered.", needs=_NEEDS)
def receives_can_be_triggered(pair: Pair) -> None:
    """Trigger an untagged and a tagged receive, whose messages have come and wait."""
    counter, near = counter_of(pair), pair.talker()
    buffers, contexts = [bytearray(8), bytearray(8)], [TriggeredContext(counter, 1) for _ in range(2)]
    near.endpoint.recv(buffers[0], context=contexts[0], flags=TRIGGER)
    near.endpoint.trecv(buffers[1], _TAG, context=contexts[1], flags=TRIGGER)
    near.get(b"untagged")
    near.get(b"a tagged", tag=_TAG)
    nothing_happens(near)
    expect_equal("buffers before", buffers, [bytes(8)] * 2)
    counter.add(1)
    told = near.finish_all(2)
    expect(all(entry.op_context in contexts for entry in told), f"expected the contexts, got {told}")
    expect_equal("buffers", buffers, [b"untagged", b"a tagged"])


@page("DESCRIPTION", "A send can wait for a receive.", needs=_NEEDS)
def a_send_can_wait_for_a_receive(pair: Pair) -> None:
    """Send a received message back from its buffer, without action of the application."""
    receives, buffer, answer = counter_of(pair), bytearray(8), pair.receive(8)
    near = pair.talker(counters={BindFlags.FI_RECV: receives})
    near.endpoint.recv(buffer, context="in")
    near.endpoint.send(buffer, pair.peer, context=TriggeredContext(receives, 1), flags=TRIGGER)
    pair.target.send(near.number, b"question", None, None)
    near.finish_all(2)
    heard = {entry.handle for entry in pair.target.hear(2, pair.patience)}
    expect(answer.handle in heard, f"expected the answer among {heard}")
    expect_equal("answer", answer.load(), b"question")


@page("DESCRIPTION", "fi_cancel takes a receive back that still waits.", needs=_NEEDS)
def receives_that_wait_can_be_cancelled(pair: Pair) -> None:
    """Cancel one of two receives: it ends with FI_ECANCELED, and the message goes to the other."""
    counter, near = counter_of(pair), pair.talker()
    buffers, contexts = [bytearray(8), bytearray(8)], [TriggeredContext(counter, 1) for _ in range(2)]
    for buffer, context in zip(buffers, contexts, strict=True):
        near.endpoint.recv(buffer, context=context, flags=TRIGGER)
    near.endpoint.cancel(contexts[0])
    expect(near.failure(Errno.FI_ECANCELED).op_context is contexts[0], "expected the first context")
    near.get(b"for whom")
    counter.add(1)
    expect(near.finish().op_context is contexts[1], "expected the second context")
    expect_equal("buffers", buffers, [bytes(8), b"for whom"])


@page("FI_QUEUE_WORK: op_type", "FI_OP_SEND and FI_OP_TSEND defer sends.", needs=_NEEDS)
def sends_can_be_deferred(pair: Pair) -> None:
    """Defer a short, a long and a tagged send, all of which are counted and not reported."""
    counter, finished, near = counter_of(pair), counter_of(pair), pair.talker()
    receives = [pair.receive(8), pair.receive(LONG), pair.receive(8, _TAG)]
    for kind, op in (
        (TriggerOp.FI_OP_SEND, OpMsg(near.endpoint, Msg([b"deferred"], pair.peer))),
        (TriggerOp.FI_OP_SEND, OpMsg(near.endpoint, Msg([pattern(LONG)], pair.peer))),
        (TriggerOp.FI_OP_TSEND, OpTagged(near.endpoint, TaggedMsg([b"a tagged"], pair.peer, _TAG))),
    ):
        pair.domain.queue_work(DeferredWork(1, counter, kind, op, finished))
    nothing_happens(near)
    expect_equal("entries at the target", pair.target.hear(1, 0.0), [])
    counter.add(1)
    heard = pair.target.hear(3, pair.patience)
    expect_equal("received", sorted(entry.handle for entry in heard), [receive.handle for receive in receives])
    done(pair, finished, 3)
    expect_equal("messages", [each.load() for each in receives], [b"deferred", pattern(LONG), b"a tagged"])
    near.nothing_more()


@page("FI_QUEUE_WORK: op_type", "FI_OP_RECV and FI_OP_TRECV defer receives.", needs=_NEEDS)
def receives_can_be_deferred(pair: Pair) -> None:
    """Defer a short, a long and a tagged receive: counted when their messages are in the buffers, not reported."""
    counter, finished, near = counter_of(pair), counter_of(pair), pair.talker()
    buffers = [bytearray(8), bytearray(LONG), bytearray(8)]
    tagged = OpTagged(near.endpoint, TaggedMsg([buffers[2]], pair.peer, _TAG))
    for kind, op in (
        (TriggerOp.FI_OP_RECV, receive_of(near, buffers[0])),
        (TriggerOp.FI_OP_RECV, receive_of(near, buffers[1])),
        (TriggerOp.FI_OP_TRECV, tagged),
    ):
        pair.domain.queue_work(DeferredWork(1, counter, kind, op, finished))
    near.get(b"deferred")
    near.get(b"a tagged", tag=_TAG)
    pair.target.send(near.number, pattern(LONG), None, None)
    nothing_happens(near)
    expect_equal("before", finished.read(), 0)
    counter.add(1)
    done(pair, finished, 3)
    expect_equal("buffers", buffers, [b"deferred", pattern(LONG), b"a tagged"])
    expect_equal("errors at the target", [entry.err for entry in pair.target.hear(1, pair.patience)], [0])
    near.nothing_more()


@page(
    "FI_QUEUE_WORK",
    "Deferred receives are reported, and counted by their endpoint, where FI_COMPLETION asks for it.",
    needs=_NEEDS,
)
def deferred_receives_are_reported_where_asked_for(pair: Pair) -> None:
    """Defer two receives, the first of which is silent; the endpoint's counter counts only the second."""
    receives, counter, finished = (counter_of(pair) for _ in range(3))
    near = pair.talker(counters={BindFlags.FI_RECV: receives})
    for flags in (NO_FLAGS, OpFlags.FI_COMPLETION):
        work = DeferredWork(1, counter, TriggerOp.FI_OP_RECV, receive_of(near, bytearray(8), flags), finished)
        pair.domain.queue_work(work)
    counter.add(1)
    near.get(b"silently", b"reported")
    done(pair, finished, 2)
    expect_equal("op_context", near.finish().op_context, "work")
    near.nothing_more()
    becomes("counted by the endpoint", receives.read, 1, pair.patience)


@page("FI_CANCEL_WORK", "A receive that has not begun is taken back.", needs=_NEEDS)
def cancelled_receives_receive_nothing(pair: Pair) -> None:
    """Cancel one of two receives: the message goes to the other, the only one to be counted."""
    counter, finished, near = counter_of(pair), counter_of(pair), pair.talker()
    buffers = [bytearray(8), bytearray(8)]
    works = [DeferredWork(1, counter, TriggerOp.FI_OP_RECV, receive_of(near, each), finished) for each in buffers]
    for work in works:
        pair.domain.queue_work(work)
    pair.domain.cancel_work(works[0])
    counter.add(1)
    near.get(b"for whom")
    done(pair, finished)
    expect_equal("buffers", buffers, [bytes(8), b"for whom"])
    with expect_error("work that is done", Errno.FI_ENOENT):
        pair.domain.cancel_work(works[1])


@page("FI_QUEUE_WORK", "A deferred receive whose message does not fit is an error of its counter.", needs=_NEEDS)
def deferred_receives_may_fail(pair: Pair) -> None:
    """Check that the error is also in the error queue, with the context of its message."""
    finished, near = counter_of(pair), pair.talker()
    work = DeferredWork(0, counter_of(pair), TriggerOp.FI_OP_RECV, receive_of(near, bytearray(3)), finished)
    pair.domain.queue_work(work)
    near.get(b"too long")
    becomes("errors", finished.readerr, 1, pair.patience)
    expect_equal("successes", finished.read(), 0)
    expect_equal("op_context", near.failure(Errno.FI_ETRUNC).op_context, "work")
