"""Receive descriptors that wait for their turn, apart for each context."""

from amaranth.hdl import Array, Cat, Module, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.descriptors import RX_DESCRIPTOR, ReceiveOpcode

from amoeba_hw.initiator.records import fetched_descriptor
from amoeba_hw.messages.records import RECEIVE_ORDER, asks_for
from amoeba_hw.request_records import EVENT_CLAIM, GENERATION_BITS

__all__ = ["ReceiveQueues"]

_FETCHED = fetched_descriptor(RX_DESCRIPTOR)


class ReceiveQueues(wiring.Component):
    """A queue of receive descriptors per context, all in one memory. The first one of a context that has all it needs
    becomes an order, contexts in turn; a context whose first one has not holds up no other.

    Parameters
    ----------
    contexts : int
    places : int
        Descriptors of one context; a power of two.

    Members
    -------
    descriptors : :func:`fetched_descriptor` stream of RX_DESCRIPTORs
        Never refused: there are no more than ``places`` of a context.
    fetch_generations : array of GENERATION_BITS, In
        Descriptors of another generation vanish when it is their turn.
    left, forgotten : Out, a bit per context
        To :class:`ReceiveFetch`.
    enabled : In, a bit per context
    event_credit : In, a bit per context
        ``event_reserve`` may be given now.
    event_generations : array of GENERATION_BITS, In
    event_reserve : EVENT_CLAIM, Out
        With each order, one cycle before it is offered.
    receive_open : In, a bit per context
        A receive can be posted, when no order is on offer.
    orders : RECEIVE_ORDER stream
    again, used : In(1), In(32)
        With the transfer of an order: it stays the first one of its context, with so many bytes less of its buffer.

    ::

        state     CHOOSE             READ     LOOK                        OFFER
        work      next context       memory   gone, left where it is,     until it is taken
                  that may have one           or room promised

    An order every four cycles at most.
    """

    def __init__(self, contexts, places):
        if places < 4 or places & (places - 1):
            raise ValueError(f"Expected a power of two of places, at least 4, got {places}")
        self._contexts = contexts
        self._places = places
        super().__init__(
            {
                "descriptors": In(stream.Signature(_FETCHED)),
                "fetch_generations": In(GENERATION_BITS).array(contexts),
                "left": Out(contexts),
                "forgotten": Out(contexts),
                "enabled": In(contexts),
                "event_credit": In(contexts),
                "event_generations": In(GENERATION_BITS).array(contexts),
                "event_reserve": Out(EVENT_CLAIM),
                "receive_open": In(contexts),
                "orders": Out(stream.Signature(RECEIVE_ORDER)),
                "again": In(1),
                "used": In(32),
            }
        )
        self._firsts = Array(Signal(range(places), name=f"first_{n}") for n in range(contexts))
        self._levels = Array(Signal(range(places + 1), name=f"level_{n}") for n in range(contexts))
        self._used = Array(Signal(32, name=f"used_{n}") for n in range(contexts))
        """Bytes of the first one's buffer that messages have taken."""
        self._chosen = Signal(range(contexts))

    def elaborate(self, platform):
        m = Module()
        depth = self._contexts * self._places
        m.submodules.entries = entries = memory.Memory(shape=_FETCHED, depth=depth, init=[])
        leaves = Signal()
        stale = Signal()
        self._elaborate_arrival(m, entries.write_port())
        self._elaborate_levels(m, leaves, stale)
        read = entries.read_port()
        m.d.comb += read.addr.eq(Cat(self._firsts[self._chosen], self._chosen))
        self._elaborate_steps(m, read.data, leaves, stale)
        return m

    def _elaborate_arrival(self, m, write):
        arrived = self.descriptors.p
        number = Signal(range(self._contexts))
        behind = Signal(range(self._places))
        m.d.comb += [
            number.eq(arrived.context),
            behind.eq(self._firsts[number] + self._levels[number]),
            self.descriptors.ready.eq(1),
            write.en.eq(self.descriptors.valid),
            write.addr.eq(Cat(behind, number)),
            write.data.eq(arrived),
        ]

    def _elaborate_levels(self, m, leaves, stale):
        for index in range(self._contexts):
            arrives = self.descriptors.valid & (self.descriptors.p.context == index)
            m.d.comb += [
                self.left[index].eq(leaves & (self._chosen == index)),
                self.forgotten[index].eq(stale),
            ]
            m.d.sync += [
                self._levels[index].eq(self._levels[index] + arrives - self.left[index]),
                self._firsts[index].eq(self._firsts[index] + self.left[index]),
            ]
            with m.If(self.left[index]):
                m.d.sync += self._used[index].eq(0)

    def _elaborate_steps(self, m, first, leaves, stale):
        """One context at a time; ``first`` is the first descriptor of the one chosen."""
        order, reserve = self.orders.p, self.event_reserve
        used = self._used[self._chosen]
        may_go = Signal()
        m.d.comb += [
            # Also when the context was disabled while its order was on offer.
            stale.eq(first.generation != Array(self.fetch_generations)[self._chosen]),
            reserve.context.eq(self._chosen),
            reserve.generation.eq(Array(self.event_generations)[self._chosen]),
        ]
        with m.FSM(name="step"):
            with m.State("CHOOSE"):
                self._elaborate_choice(m)
            with m.State("READ"):
                m.next = "LOOK"
            with m.State("LOOK"):
                m.d.comb += [
                    leaves.eq(stale),
                    may_go.eq(self.event_credit.bit_select(self._chosen, 1) & self._has_place(first)),
                    reserve.valid.eq(~stale & may_go),
                ]
                m.d.sync += [
                    order.context.eq(self._chosen),
                    order.generation.eq(reserve.generation),
                    order.error.eq(first.error),
                    order.fields.eq(first.fields),
                    order.fields.address.eq(first.fields.address + used),
                    order.fields.length.eq(first.fields.length - used),
                ]
                m.next = "CHOOSE"
                with m.If(reserve.valid):
                    m.next = "OFFER"
            with m.State("OFFER"):
                m.d.comb += self.orders.valid.eq(1)
                with m.If(self.orders.ready):
                    m.d.comb += leaves.eq(~self.again)
                    with m.If(self.again):
                        m.d.sync += used.eq(used + self.used)
                    m.next = "CHOOSE"

    def _elaborate_choice(self, m):
        """Choose the nearest context after the last one that may have an order, or has something to forget."""
        candidates = Signal(self._contexts)
        m.d.comb += [
            candidates[index].eq((self._levels[index] != 0) & (self.event_credit[index] | ~self.enabled[index]))
            for index in range(self._contexts)
        ]
        with m.Switch(self._chosen):
            for chosen in range(self._contexts):
                with m.Case(chosen):
                    # The last assignment wins.
                    for distance in range(self._contexts, 0, -1):
                        candidate = (chosen + distance) % self._contexts
                        with m.If(candidates[candidate]):
                            m.d.sync += self._chosen.eq(candidate)
        with m.If(candidates.any()):
            m.next = "READ"

    def _has_place(self, first):
        """Only what may be posted needs a place."""
        return ~asks_for(ReceiveOpcode.RECEIVE, first) | self.receive_open.bit_select(self._chosen, 1)
