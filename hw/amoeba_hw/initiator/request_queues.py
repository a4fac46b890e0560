"""Requests that wait for their turn, apart for each peer."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.initiator.context_order import ContextOrder
from amoeba_hw.initiator.queue_arbiter import QueueArbiter
from amoeba_hw.initiator.records import REQUEST, Obstacle
from amoeba_hw.initiator.request_store import QUEUE_DEPTH, RequestStore

__all__ = ["RequestQueues"]

_TO_PACKETIZER = ("offered", "queue", "request", "in_order", "may_send", "all_answered")
_FROM_PACKETIZER = ("take", "stays", "pop", "fails", "obstacle", "passes")


class RequestQueues(wiring.Component):
    """A queue of requests for each peer entry, and one of NOPs about no peer for each context.

    Contexts are served round robin, and so are the queues of a context. A queue whose first request has not gone on
    is skipped until there is reason to try again. A request with FENCE_ALL is in order when all requests of its
    context before it have left and been answered, and the requests behind it when it has begun.

    Parameters
    ----------
    contexts, peers : int
    depth : int
        Requests that one context may have here; a power of two.

    Members
    -------
    i : REQUEST stream
        Never refused: the reader of descriptors reserves a place for each, until ``left`` releases it. The place may
        be taken from the third cycle behind that on.
    generations : in, a bit per context
        Changes whenever the context's generation does.
    may_send, all_answered : in, a bit per peer
    context_answered : in, a bit per context
    offered, queue : out
        A queue whose turn it is, from the cycle on after a request has come to it.
    take : in
        Pulse, only while one is ``offered``: its turn begins. It ends with one pulse of ``stays``, ``pop`` and
        ``fails``.
    request, in_order : out
        While its turn lasts, from the cycle after ``take`` on: the first request of the queue that was taken, and
        whether it may begin as far as FENCE_ALL is concerned.
    stays, pop, fails, obstacle : in
        Its first request went on; it is done with; or it may not go on now, because of Obstacle.
    passes : in
        Pulse, with ``stays`` or ``pop``: the first request has begun, or ended without having begun.
    left : out, a bit per context
        Pulse: a request left.

    Raises
    ------
    ValueError
        If ``depth`` is no power of two from 2 on.
    """

    def __init__(self, contexts, peers, depth=QUEUE_DEPTH):
        if depth < 2 or depth & (depth - 1):
            raise ValueError(f"Expected a depth that is a power of two, at least 2, got {depth}")
        self._sizes = contexts, peers, depth
        super().__init__(
            {
                "i": In(stream.Signature(REQUEST)),
                "generations": In(contexts),
                "may_send": In(peers),
                "all_answered": In(peers),
                "context_answered": In(contexts),
                "offered": Out(1),
                "queue": Out(range(peers + contexts)),
                "take": In(1),
                "request": Out(REQUEST),
                "in_order": Out(1),
                "stays": In(1),
                "pop": In(1),
                "fails": In(1),
                "obstacle": In(Obstacle),
                "passes": In(1),
                "left": Out(contexts),
            }
        )

    def connect_packetizer(self, packetizer):
        """Return the assignments that connect a Packetizer, which sees the state of windows as the queues do."""
        return [
            *(getattr(packetizer, name).eq(getattr(self, name)) for name in _TO_PACKETIZER),
            *(getattr(self, name).eq(getattr(packetizer, name)) for name in _FROM_PACKETIZER),
        ]

    def elaborate(self, platform):
        m = Module()
        contexts, peers, depth = self._sizes
        m.submodules.store = store = RequestStore(contexts, peers, depth)
        m.submodules.turns = turns = QueueArbiter(contexts, peers)
        m.submodules.order = order = ContextOrder(contexts, peers + contexts, depth)
        taken = Signal.like(self.queue)
        with m.If(self.take):
            m.d.sync += taken.eq(self.queue)
        request, context = store.request, store.request.ticket.context[: order.context.shape().width]
        m.d.comb += [
            self.i.ready.eq(1),
            store.push.eq(self.i.valid),
            store.pushed.eq(self.i.payload),
            store.pushed_tag.eq(order.tag),
            store.queue.eq(Mux(self.take, self.queue, taken)),
            store.pop.eq(self.pop),
            order.arrives.eq(self.i.valid),
            order.arriving.eq(self.i.p.ticket.context),
            order.arriving_fence.eq(self.i.p.fence_all),
            order.context.eq(context),
            order.queue.eq(taken),
            order.fence.eq(request.fence_all),
            order.asked.eq(store.tag),
            order.passes.eq(self.passes),
            order.leaves.eq(self.pop),
            order.waits.eq(self.fails & (self.obstacle == Obstacle.ORDER)),
            order.generations.eq(self.generations),
            order.context_answered.eq(self.context_answered),
            turns.arrives.eq(store.arrives),
            turns.arriving.eq(store.arriving),
            turns.arriving_context.eq(self.i.p.ticket.context),
            turns.take.eq(self.take),
            turns.again.eq(self.stays | (self.pop & store.more)),
            turns.again_context.eq(Mux(self.pop, store.more_context, context)),
            turns.served.eq(self.stays | self.pop),
            turns.fails.eq(self.fails),
            turns.obstacle.eq(self.obstacle),
            turns.wake.eq(order.wake),
            turns.may_send.eq(self.may_send),
            turns.all_answered.eq(self.all_answered),
            self.offered.eq(turns.offered),
            self.queue.eq(turns.queue),
            self.request.eq(request),
            self.in_order.eq(order.in_order),
            *(self.left[index].eq(self.pop & (context == index)) for index in range(contexts)),
        ]
        return m
