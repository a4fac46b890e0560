"""Arbiter between the queues of requests: each sends a packet in turn."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.initiator.records import Obstacle, wake_order

__all__ = ["QueueArbiter"]


class QueueArbiter(wiring.Component):
    """A ring of queues for each context, of those whose first request is expected to go on.

    Contexts are served round robin, and so are the queues of a context's ring. A queue enters the ring of its first
    request's context at the end: as a request comes to it, as its first request went on or left and another follows,
    or when the obstacle of its first request has gone. Queues whose obstacle has gone are looked for from the lowest
    number on; no queue is passed over for ever, since a search takes two cycles, and the queues found then wait
    behind others, four cycles each.

    Parameters
    ----------
    contexts, peers : int
        There are ``peers`` queues of peer entries, then one for each context.

    Members
    -------
    arrives, arriving, arriving_context : in
        Pulse: a request comes to an empty queue.
    offered, queue : out; take : in
        The queue whose turn it is, the cycle after its ``arrives`` at the earliest. ``take`` ends with one pulse of
        ``again`` and ``fails``, or neither if the queue is empty, before the next.
    again, again_context : in
        The first request of the queue that was taken, another one or not, is of this context and may be tried again.
    served : in
        Pulse: a packet was sent, or a request left. It moves the turn on to the next context.
    fails, obstacle : in
        It may not go on for now: because of Obstacle.
    wake : in
        Queues to try again whatever they met.
    may_send, all_answered : in, a bit per peer
        Conditions of a queue that met WINDOW, or FENCE.
    """

    def __init__(self, contexts, peers):
        self._contexts = contexts
        self._peers = peers
        number, context = range(peers + contexts), range(contexts)
        super().__init__(
            {
                "arrives": In(1),
                "arriving": In(number),
                "arriving_context": In(context),
                "offered": Out(1),
                "queue": Out(number),
                "take": In(1),
                "again": In(1),
                "again_context": In(context),
                "served": In(1),
                "fails": In(1),
                "obstacle": In(Obstacle),
                "wake": In(wake_order(contexts, len(number))),
                "may_send": In(peers),
                "all_answered": In(peers),
            }
        )
        self._waiting = Signal(len(number))
        """Queues that are neither empty, nor in a ring, nor taken."""
        self._taken = Signal.like(self.queue)
        self._found = Signal()
        """A queue was found that may be tried again: ..."""
        self._found_queue = Signal.like(self.queue)
        self._found_context = Signal.like(self.again_context)

    def elaborate(self, platform):
        m = Module()
        appends, queue = Signal(), Signal.like(self.queue)
        context = Signal.like(self.again_context)
        direct = Signal()
        m.d.comb += [
            direct.eq(self.arrives & ~self.again & ~self._found),
            appends.eq(self.again | self._found | self.arrives),
        ]
        with m.If(self.again):
            m.d.comb += [queue.eq(self._taken), context.eq(self.again_context)]
        with m.Elif(self._found):
            m.d.comb += [queue.eq(self._found_queue), context.eq(self._found_context)]
        with m.Else():
            m.d.comb += [queue.eq(self.arriving), context.eq(self.arriving_context)]
        offered = self._elaborate_rings(m, appends, queue, context)
        self._elaborate_turn(m, offered)
        self._elaborate_search(m, direct)
        return m

    def _elaborate_rings(self, m, appends, queue, context):
        """Make a linked list for each context; return which have a queue."""
        contexts = range(self._contexts)
        m.submodules.nexts = nexts = memory.Memory(shape=queue.shape(), depth=len(self._waiting), init=[])
        write, read = nexts.write_port(), nexts.read_port(domain="comb")
        filled = Signal(self._contexts)
        firsts = Array(Signal.like(queue, name=f"first{number}") for number in contexts)
        lasts = Array(Signal.like(queue, name=f"last{number}") for number in contexts)
        turn = self._turn = Signal.like(context)
        single = firsts[turn] == lasts[turn]
        m.d.comb += [
            self.queue.eq(firsts[turn]),
            read.addr.eq(self.queue),
            write.addr.eq(lasts[context]),
            write.data.eq(queue),
            write.en.eq(appends),
        ]
        with m.If(self.take):
            m.d.sync += [
                self._taken.eq(self.queue),
                firsts[turn].eq(read.data),
                filled.bit_select(turn, 1).eq(~single),
            ]
        with m.If(appends):
            m.d.sync += [filled.bit_select(context, 1).eq(1), lasts[context].eq(queue)]
            with m.If(~filled.bit_select(context, 1) | (self.take & single & (turn == context))):
                m.d.sync += firsts[context].eq(queue)
        return filled

    def _elaborate_turn(self, m, filled):
        """Choose the next context in turn that has a queue in its ring."""
        served, current = Signal(range(self._contexts), init=self._contexts - 1), Signal.like(self._turn)
        with m.If(self.take):
            m.d.sync += current.eq(self._turn)
        with m.If(self.served):
            m.d.sync += served.eq(current)
        m.d.comb += self.offered.eq(filled.any())
        with m.Switch(served):
            for number in range(self._contexts):
                with m.Case(number):
                    # The last assignment wins: the nearest context after the one served before.
                    for distance in range(self._contexts, 0, -1):
                        candidate = (number + distance) % self._contexts
                        with m.If(filled[candidate]):
                            m.d.comb += self._turn.eq(candidate)

    def _elaborate_search(self, m, direct):
        """Find a queue that may be tried again, by the obstacle of its first request."""
        size = len(self._waiting)
        owners = [Signal(size, name=f"owner_bit{bit}") for bit in range(len(self.again_context))]
        met = {obstacle: Signal(size, name=f"met_{obstacle.name.lower()}") for obstacle in Obstacle}
        arrived, again, failed, one, found = (Signal(size, name=f"{name}_bit") for name in (
            "arrived", "again", "failed", "one", "found"
        ))  # fmt: skip
        m.d.comb += [
            arrived.eq(self._one(self.arrives, self.arriving)),
            again.eq(self._one(self.again, self._taken)),
            failed.eq(self._one(self.fails, self._taken)),
            one.eq(self._one(self.wake.one, self.wake.queue)),
        ]
        # Context queues, above the peers', meet neither.
        free = self._waiting & ~met[Obstacle.ORDER]
        free &= ~met[Obstacle.WINDOW] | self.may_send
        free &= ~met[Obstacle.FENCE] | self.all_answered
        with m.If(~self._found):
            m.d.comb += found.eq((free & (~free + 1))[:size])
            m.d.sync += self._found.eq(found.any())
            m.d.sync += self._found_queue.eq(self._index(found))
        with m.Else():
            m.d.sync += self._found.eq(self.again)
        owned = Const(-1, size)
        for bit, owner in enumerate(owners):
            m.d.sync += owner.eq(
                (owner & ~(arrived | again))
                | Mux(self.arriving_context[bit], arrived, 0)
                | Mux(self.again_context[bit], again, 0)
            )
            owned &= ~(owner ^ self.wake.context[bit].replicate(size))
            with m.If(~self._found):
                m.d.sync += self._found_context[bit].eq((found & owner).any())
        m.d.sync += self._waiting.eq((self._waiting & ~found) | failed | Mux(direct, 0, arrived))
        for obstacle, queues in met.items():
            woken = one | Mux(self.wake.all | (self.wake.ordered & (obstacle == Obstacle.ORDER)), owned, 0)
            m.d.sync += queues.eq(
                ((queues & ~(arrived | failed)) | Mux(self.obstacle == obstacle, failed, 0)) & ~woken
            )

    def _one(self, pulse, queue):
        """Return the bit of a queue, while there is a pulse."""
        return Mux(pulse, Const(1, len(self._waiting)) << queue, 0)[: len(self._waiting)]

    def _index(self, bits):
        """Return the number of the bit that is set, if one is."""
        size = len(bits)
        width = len(self.queue)
        return Cat((bits & sum(1 << n for n in range(size) if n >> bit & 1)).any() for bit in range(width))
