"""The memory of requests, and the queues that they make in it."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.initiator.records import REQUEST, order_tag
from amoeba_hw.stream import Queue

__all__ = ["QUEUE_DEPTH", "RequestStore"]

QUEUE_DEPTH = 128
"""Requests of one context that are queued or being fetched: at one every two cycles, enough for 250 cycles of host
latency."""


class RequestStore(wiring.Component):
    """Linked lists in one memory: a queue of requests for each peer entry, then one for each context.

    Parameters
    ----------
    contexts, peers, depth : int
        The memory holds ``contexts`` * ``depth`` requests.

    Members
    -------
    push : in; pushed, pushed_tag : in
        Pulse: a request arrives. A NOP about no peer goes to the queue of its context, number ``peers`` + context,
        any other to that of its peer.
    arrives, arriving : out
        With ``push``: it comes to an empty queue, and to which.
    queue : in; request, tag : out
        The first request of this queue, one cycle later.
    pop : in
        Pulse: the first request leaves, of the ``queue`` of this cycle and of the one before.
    more, more_context : out
        With ``pop``: another follows in its queue, and the context of that.
    """

    def __init__(self, contexts, peers, depth):
        self._contexts = contexts
        self._peers = peers
        self._tag = order_tag(depth)
        self._entries = contexts * depth
        number = range(peers + contexts)
        super().__init__(
            {
                "push": In(1),
                "pushed": In(REQUEST),
                "pushed_tag": In(self._tag),
                "arrives": Out(1),
                "arriving": Out(number),
                "queue": In(number),
                "request": Out(REQUEST),
                "tag": Out(self._tag),
                "pop": In(1),
                "more": Out(1),
                "more_context": Out(range(contexts)),
            }
        )
        self._present = Signal(peers + contexts)
        """Queues that are not empty."""
        self._fresh = Signal(range(self._entries + 1))
        """Places that have been used since the reset."""
        self._returned = Signal()
        """A released place is there."""

    def elaborate(self, platform):
        m = Module()
        place = Signal(range(self._entries))
        first = Signal.like(place)
        m.submodules.freed = freed = Queue(place.shape(), self._entries)
        has_fresh = self._fresh != self._entries
        m.d.comb += [
            place.eq(Mux(has_fresh, self._fresh, freed.o.p)),
            freed.o.ready.eq(self.push & ~has_fresh),
            freed.i.valid.eq(self.pop),
            self._returned.eq(freed.o.valid),
            freed.i.p.eq(first),
        ]
        m.d.sync += self._fresh.eq(self._fresh + (self.push & has_fresh))
        self._elaborate_memory(m, place, first)
        self._elaborate_ends(m, place, first)
        return m

    def _elaborate_memory(self, m, place, first):
        entry = data.StructLayout({"request": REQUEST, "tag": self._tag})
        m.submodules.requests = requests = memory.Memory(shape=entry, depth=self._entries, init=[])
        # It is read from the cycle after it was written on.
        write, read = requests.write_port(), requests.read_port()
        m.d.comb += [
            write.en.eq(self.push),
            write.addr.eq(place),
            write.data.request.eq(self.pushed),
            write.data.tag.eq(self.pushed_tag),
            read.addr.eq(first),
            self.request.eq(read.data.request),
            self.tag.eq(read.data.tag),
        ]

    def _elaborate_ends(self, m, place, first):
        """First and last request of each queue, and what follows each request."""
        shape = data.StructLayout({"next": place.shape(), "context": range(self._contexts)})
        depth = self._peers + self._contexts
        m.submodules.links = links = memory.Memory(shape=shape, depth=self._entries, init=[])
        m.submodules.lasts = lasts = memory.Memory(shape=place.shape(), depth=depth, init=[])
        # The request that came to an empty queue, and the one that became first as another left: a memory per writer.
        m.submodules.came = came = memory.Memory(shape=place.shape(), depth=depth, init=[])
        m.submodules.moved_up = moved_up = memory.Memory(shape=place.shape(), depth=depth, init=[])
        link, last, came_write, moved_write = (table.write_port() for table in (links, lasts, came, moved_up))
        following = links.read_port(transparent_for=(link,))
        before, end, came_first, moved_first = (
            table.read_port(domain="comb") for table in (lasts, lasts, came, moved_up)
        )
        is_moved = Signal(depth)
        request, context = self.pushed, self.pushed.ticket.context[: self.more_context.shape().width]
        single, joins = Signal(), Signal()
        arriving = Mux(request.is_nop & ~request.fence, self._peers + context, request.ticket.peer)
        m.d.comb += [
            self.arriving.eq(arriving),
            self.arrives.eq(self.push & ~self._present.bit_select(self.arriving, 1)),
            before.addr.eq(self.arriving),
            last.addr.eq(self.arriving),
            last.en.eq(self.push),
            last.data.eq(place),
            link.addr.eq(before.data),
            link.en.eq(self.push & ~self.arrives),
            link.data.next.eq(place),
            link.data.context.eq(context),
            came_write.addr.eq(self.arriving),
            came_write.en.eq(self.arrives),
            came_write.data.eq(place),
            came_first.addr.eq(self.queue),
            moved_first.addr.eq(self.queue),
            first.eq(Mux(is_moved.bit_select(self.queue, 1), moved_first.data, came_first.data)),
            following.addr.eq(first),
            end.addr.eq(self.queue),
            single.eq(end.data == first),
            # A request that arrives as the only one before it leaves is not linked yet.
            joins.eq(self.push & (self.arriving == self.queue)),
            self.more.eq(~single | joins),
            self.more_context.eq(Mux(single, context, following.data.context)),
            moved_write.addr.eq(self.queue),
            moved_write.en.eq(self.pop),
            moved_write.data.eq(Mux(single, place, following.data.next)),
        ]
        came_to, left = self._one(self.arrives, self.arriving), self._one(self.pop, self.queue)
        m.d.sync += [
            self._present.eq((self._present & ~Mux(self.more, 0, left)) | came_to),
            is_moved.eq((is_moved | left) & ~came_to),
        ]

    def _one(self, pulse, queue):
        """Return the bit of a queue, while there is a pulse."""
        return Mux(pulse, Const(1, len(self._present)) << queue, 0)[: len(self._present)]
