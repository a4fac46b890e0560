"""Requests that wait for their turn, apart for each context."""

from amaranth.hdl import Array, Cat, Module, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.initiator.records import GENERATION_BITS, HEAD, REQUEST

__all__ = ["QUEUE_DEPTH", "SUMMARY", "QueueEnds", "RequestQueues"]

QUEUE_DEPTH = 128
"""Requests of one context that are queued or being fetched: at one every two cycles, enough for 250 cycles of host
latency."""

SUMMARY = data.StructLayout({"generation": GENERATION_BITS, "peer": 16, "barrier": 1, "barrier_all": 1, "is_nop": 1})
"""What a HEAD says of its request."""


class QueueEnds(wiring.Component):
    """Where the queue of one context begins and ends in its part of the memory, and what is at its head.

    Parameters
    ----------
    depth : int
        Requests it holds; a power of two.

    Members
    -------
    push, pushed : in
        Pulse: a request arrives, and its SUMMARY.
    pop : in
        Pulse, only while the head is known: it leaves.
    following : in
        SUMMARY of the request behind the head, one cycle after ``pop``.
    first, free : out
        Place of the head, and the first place behind the queue.
    head : HEAD
    """

    def __init__(self, depth):
        super().__init__(
            {
                "push": In(1),
                "pushed": In(SUMMARY),
                "pop": In(1),
                "following": In(SUMMARY),
                "first": Out(range(depth)),
                "free": Out(range(depth)),
                "head": Out(HEAD),
            }
        )
        self._level = Signal(range(depth + 1))
        self._known = Signal()
        self._awaited = Signal()
        self._summary = Signal(SUMMARY)

    def elaborate(self, platform):
        m = Module()
        empty = Signal()
        m.d.comb += [
            empty.eq(self._level == 0),
            self.head.present.eq(~empty),
            self.head.known.eq(self._known),
            *(getattr(self.head, name).eq(getattr(self._summary, name)) for name, _ in SUMMARY),
        ]
        m.d.sync += [
            self._level.eq(self._level + self.push - self.pop),
            self.free.eq(self.free + self.push),
            self.first.eq(self.first + self.pop),
            self._awaited.eq(self.pop & ((self._level != 1) | self.push)),
        ]
        with m.If(self.pop):
            m.d.sync += self._known.eq(0)
        with m.If(self._awaited):
            m.d.sync += [self._known.eq(1), self._summary.eq(self.following)]
        with m.If(self.push & empty):
            m.d.sync += [self._known.eq(1), self._summary.eq(self.pushed)]
        return m


class RequestQueues(wiring.Component):
    """A queue of requests per context, all in one memory; heads leave in any order of contexts.

    Parameters
    ----------
    contexts : int
    depth : int
        Requests that one context may have here; a power of two.

    Members
    -------
    i : REQUEST stream
        Never refused: who takes descriptors keeps a place for each, until ``left`` gives it back.
    heads : array of HEAD
        The first request of each queue. ``present`` the cycle after its arrival or its predecessor's ``pop``;
        ``known`` then too, or one cycle later behind a predecessor.
    head_context : in; request : out
        The first request of this context, one cycle later.
    pop : in
        Pulse: ``request`` is done with. Only while the head of ``head_context`` is known.
    left : out, a bit per context
        Pulse: a request left.
    """

    def __init__(self, contexts, depth=QUEUE_DEPTH):
        if depth < 2 or depth & (depth - 1):
            raise ValueError(f"Expected a depth that is a power of two, at least 2, got {depth}")
        self._contexts = contexts
        self._depth = depth
        super().__init__(
            {
                "i": In(stream.Signature(REQUEST)),
                "heads": Out(HEAD).array(contexts),
                "head_context": In(range(contexts)),
                "request": Out(REQUEST),
                "pop": In(1),
                "left": Out(contexts),
            }
        )

    def elaborate(self, platform):
        m = Module()
        entries = self._contexts * self._depth
        m.submodules.requests = requests = memory.Memory(shape=REQUEST, depth=entries, init=[])
        m.submodules.summaries = summaries = memory.Memory(shape=SUMMARY, depth=entries, init=[])
        write, write_summary = requests.write_port(), summaries.write_port()
        read = requests.read_port()
        # The request behind the head may arrive in the cycle in which the head leaves.
        following = summaries.read_port(transparent_for=(write_summary,))
        request = self.i.payload
        context = request.ticket.context[: self.head_context.shape().width]
        ends = [QueueEnds(self._depth) for _ in range(self._contexts)]
        first = Signal(range(self._depth))
        second = Signal(range(self._depth))
        m.d.comb += [
            self.i.ready.eq(1),
            write.en.eq(self.i.valid),
            write.addr.eq(Cat(Array(queue.free for queue in ends)[context], context)),
            write.data.eq(request),
            write_summary.en.eq(self.i.valid),
            write_summary.addr.eq(write.addr),
            write_summary.data.generation.eq(request.ticket.generation),
            write_summary.data.peer.eq(request.ticket.peer),
            write_summary.data.barrier.eq(request.fence | request.is_close),
            write_summary.data.barrier_all.eq(request.fence_all),
            write_summary.data.is_nop.eq(request.is_nop),
            first.eq(Array(queue.first for queue in ends)[self.head_context]),
            second.eq(first + 1),
            read.addr.eq(Cat(first, self.head_context)),
            following.addr.eq(Cat(second, self.head_context)),
            self.request.eq(read.data),
        ]
        for index, queue in enumerate(ends):
            m.submodules[f"queue{index}"] = queue
            m.d.comb += [
                queue.push.eq(self.i.valid & (request.ticket.context == index)),
                queue.pushed.eq(write_summary.data),
                queue.pop.eq(self.left[index]),
                queue.following.eq(following.data),
                self.left[index].eq(self.pop & (self.head_context == index)),
                self.heads[index].eq(queue.head),
            ]
        return m
