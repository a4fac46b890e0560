"""Chooses the descriptors that are fetched next."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.initiator.records import FETCH_COMMAND, GENERATION_BITS
from amoeba_hw.initiator.request_store import QUEUE_DEPTH
from amoeba_hw.interfaces import CONTEXT, RING_INDEX, TRACE_SLOT

__all__ = ["TransmitRing", "TransmitScheduler"]

MOST = 4
"""Descriptors per fetch."""


class TransmitRing(wiring.Component):
    """Indices of one context: descriptors in its transmit ring, free entries of its completion ring and its queue.

    ``count``, the descriptors that may be taken, is found out a cycle ahead: 0 in the cycle after some were taken,
    and released entries count a cycle later.

    ``used`` completion entries are those written and not consumed, and those that descriptors in flight may
    still need: all descriptors taken, less those that needed none, less those consumed. ``claimed`` places of the
    queue belong to descriptors being fetched or queued, whichever generation took them.
    """

    set_tail: In(1)
    tail: In(16)
    set_head: In(1)
    head: In(16)
    take: In(3)
    """Descriptors taken in this cycle."""
    skip: In(1)
    """A descriptor ended without a completion entry."""
    ended: In(1)
    """A descriptor ended before it was queued."""
    left: In(1)
    """A request left the queue."""
    registers: In(CONTEXT)
    generation: Out(GENERATION_BITS)
    next: Out(16)
    entry: Out(16)
    """Place of ``next`` in the ring."""
    count: Out(3)
    """Descriptors that may be taken, at most 4, of one lap and one page; registered."""

    def __init__(self, places):
        super().__init__()
        self._places = places
        self._claimed = Signal(range(places + 1))
        self._tail = Signal(16)
        self._head = Signal(16)
        self._skipped = Signal(16)
        self._released = Signal(16)
        """Completion entries that are not needed any more."""
        self._was_enabled = Signal()

    def elaborate(self, platform):
        m = Module()
        waiting = Signal(16)
        used = Signal(16)
        space = Signal(17)
        places_free = Signal()
        to_wrap = Signal(17)
        in_page = Signal(6)
        m.d.comb += [
            waiting.eq(self._tail - self.next),
            used.eq(self.next - self._released),
            space.eq((1 << self.registers.completion_size) - used),
            # Waiting for a fetch's worth of places keeps fetches large while the queue is what limits them.
            places_free.eq(self._claimed <= self._places - MOST),
            self.entry.eq(self.next & ((1 << self.registers.transmit_size) - 1)),
            to_wrap.eq((1 << self.registers.transmit_size) - self.entry),
            # Descriptors of 64 bytes, in pages of 64.
            in_page.eq(self.registers.transmit_base[6:12] + self.entry),
        ]
        m.d.sync += self.count.eq(0)
        with m.If(self.registers.enable & places_free & (self.take == 0)):
            # Without free entries, or beyond them when the driver moved the head past the written ones: nothing.
            limits = (waiting, Mux(space[16], 0, space[:16]), to_wrap, 64 - in_page)
            for count in range(1, MOST + 1):
                with m.If(Cat(limit >= count for limit in limits).all()):
                    m.d.sync += self.count.eq(count)
        m.d.sync += [
            self._released.eq(self._skipped + self._head),
            self._claimed.eq(self._claimed + self.take - self.ended - self.left),
            self._was_enabled.eq(self.registers.enable),
            self.next.eq(self.next + self.take),
            self._skipped.eq(self._skipped + self.skip),
        ]
        with m.If(self.set_tail):
            m.d.sync += self._tail.eq(self.tail)
        with m.If(self.set_head):
            m.d.sync += self._head.eq(self.head)
        with m.If(~self.registers.enable):
            cleared = (self._tail, self._head, self._skipped, self._released, self.next)
            m.d.sync += [signal.eq(0) for signal in cleared]
            m.d.sync += self.generation.eq(self.generation + self._was_enabled)
        return m


class TransmitScheduler(wiring.Component):
    """Takes descriptors from the transmit rings, round robin, as far as they fit completion rings and queues.

    A descriptor that was taken has a completion entry and a place in its context's queue, and never waits for another
    context.

    Parameters
    ----------
    contexts : int
    places : int
        Requests that a context's queue holds, at least 4.

    Members
    -------
    registers : array of CONTEXT
        A context that is not enabled has all indices zero; disabling it begins a new generation.
    doorbells, completion_heads : RING_INDEX streams
        One per cycle. Ignored for contexts that are not enabled or do not exist.
    skipped : in, a bit per context
        Pulse: a descriptor of the current generation ended without a completion entry.
    ended, left : in, a bit per context
        Pulse: a descriptor, of any generation, ended before it was queued; a request left the queue.
    commands : FETCH_COMMAND stream
        At most one every three cycles, of up to 4 descriptors; the first three cycles after its doorbell.
        A ring's wrap and 4 KiB boundaries end a command.
    generations : array of GENERATION_BITS
    trace_doorbell : TRACE_SLOT
    """

    def __init__(self, contexts, places=QUEUE_DEPTH):
        if places < MOST:
            raise ValueError(f"Expected queues of at least {MOST} requests, got {places}")
        self._contexts = contexts
        self._places = places
        super().__init__(
            {
                "registers": In(CONTEXT).array(contexts),
                "doorbells": In(stream.Signature(RING_INDEX)),
                "completion_heads": In(stream.Signature(RING_INDEX)),
                "skipped": In(contexts),
                "ended": In(contexts),
                "left": In(contexts),
                "commands": Out(stream.Signature(FETCH_COMMAND)),
                "generations": Out(GENERATION_BITS).array(contexts),
                "trace_doorbell": Out(TRACE_SLOT),
            }
        )
        self._chosen = Signal(range(contexts))

    def elaborate(self, platform):
        m = Module()
        rings = [TransmitRing(self._places) for _ in range(self._contexts)]
        take = Signal(3)
        for index, ring in enumerate(rings):
            m.submodules[f"ring{index}"] = ring
            doorbell = Signal(name=f"doorbell{index}")
            head = Signal(name=f"head{index}")
            m.d.comb += [
                doorbell.eq(self.doorbells.valid & (self.doorbells.p.context == index)),
                head.eq(self.completion_heads.valid & (self.completion_heads.p.context == index)),
                ring.registers.eq(self.registers[index]),
                ring.set_tail.eq(doorbell),
                ring.tail.eq(self.doorbells.p.index),
                ring.set_head.eq(head),
                ring.head.eq(self.completion_heads.p.index),
                ring.take.eq(Mux(self._chosen == index, take, 0)),
                ring.skip.eq(self.skipped[index]),
                ring.ended.eq(self.ended[index]),
                ring.left.eq(self.left[index]),
                self.generations[index].eq(ring.generation),
            ]
        m.d.comb += [
            self.doorbells.ready.eq(1),
            self.completion_heads.ready.eq(1),
            self.trace_doorbell.valid.eq(self.doorbells.valid),
            self.trace_doorbell.event.context.eq(self.doorbells.p.context),
            self.trace_doorbell.event.psn.eq(self.doorbells.p.index),
        ]
        self._elaborate_choice(m, rings, take)
        return m

    def _elaborate_choice(self, m, rings, take):
        eligible = Cat(ring.count.any() for ring in rings)
        following = Signal(range(self._contexts))
        m.d.comb += following.eq(self._chosen)
        with m.Switch(self._chosen):
            for chosen in range(self._contexts):
                with m.Case(chosen):
                    # The last assignment wins: the nearest context after the one chosen before.
                    for distance in range(self._contexts, 0, -1):
                        candidate = (chosen + distance) % self._contexts
                        with m.If(eligible[candidate]):
                            m.d.comb += following.eq(candidate)

        command = self.commands.payload
        registers = Array(self.registers)[self._chosen]
        index, entry, count, generation = (
            Array(getattr(ring, name) for ring in rings)[self._chosen]
            for name in ("next", "entry", "count", "generation")
        )
        with m.FSM(name="choice"):
            with m.State("CHOOSE"), m.If(eligible.any()):
                m.d.sync += self._chosen.eq(following)
                m.next = "COUNT"
            with m.State("COUNT"):
                m.d.sync += [
                    command.context.eq(self._chosen),
                    command.index.eq(index),
                    command.address.eq(registers.transmit_base + Cat(Const(0, 6), entry)),
                    command.count.eq(count),
                    command.generation.eq(generation),
                ]
                m.next = "CHOOSE"
                # A context may have been disabled, or served last, since it was eligible.
                with m.If(registers.enable & (count != 0)):
                    m.d.comb += take.eq(count)
                    m.next = "OFFER"
            with m.State("OFFER"):
                m.d.comb += self.commands.valid.eq(1)
                with m.If(self.commands.ready):
                    m.next = "CHOOSE"
