"""Counts requests and messages by number, and shows the host how many there were."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.descriptors import EVENT_COUNTER
from amoeba_model.trace import NO_CONTEXT

from amoeba_hw.interfaces import COUNT_ORDER, COUNTER_ADMISSION, write_beat
from amoeba_hw.layout import struct_layout
from amoeba_hw.stream import Queue, RegisteredArbiter, connect_streams

__all__ = ["CounterWriter"]

_COUNTS = struct_layout(EVENT_COUNTER)


class CounterWriter(wiring.Component):
    """Keeps the event counters, and writes each that has advanced to host memory (README.md).

    A counter that has advanced waits in a queue of numbers, once however often it advances, until its turn to be
    written comes; so orders never wait for the host::

        cycle     0         1         2         3         4
        order     taken     added,
                            queued
        write                         picked    looked at on offer

    Parameters
    ----------
    width : int
        Bits per beat.
    counters : int
        How many there are, number 0 included; a power of two, from 2 to 256.

    Members
    -------
    counter_base : In(64)
        Where the counters lie in host memory, or 0: nothing is written. A multiple of 16 bytes.
    orders : array of two COUNT_ORDER streams
        One per cycle in all. Number 0, and what is no counter of this build, counts nothing; nor does one that does
        not let in the context whose descriptor names it.
    clears : stream of 8 bits
        The counter begins again from zero, with the next order, and lets all contexts in. Never refused. A write that
        is on offer stays.
    admissions : COUNTER_ADMISSION stream
        Contexts that the counter lets in, orders of the cycle before included. Never refused.
    writes : :func:`write_beat` stream
        Single beats, at most one every three cycles. A counter is on offer four cycles after its order at the
        earliest, with all that was ordered up to three cycles before.
    count_counter_writes : Out(1)
    """

    def __init__(self, width, counters):
        if not 2 <= counters <= 256 or counters & (counters - 1):
            raise ValueError(f"Expected a power of two from 2 to 256 as the number of counters, got {counters}")
        self._width = width
        self._counters = counters
        super().__init__(
            {
                "counter_base": In(64),
                "orders": In(stream.Signature(COUNT_ORDER)).array(2),
                "clears": In(stream.Signature(8)),
                "admissions": In(stream.Signature(COUNTER_ADMISSION)),
                "writes": Out(stream.Signature(write_beat(width))),
                "count_counter_writes": Out(1),
            }
        )
        self._advanced = Signal(counters)
        """Counters that have advanced since they were cleared: what the memory holds of the others is old."""
        self._queued = Signal(counters)
        """Counters that wait to be written."""
        self._restricted = Signal(counters)
        """Counters that do not let in all contexts: for the others what the memory says does not count."""

    def elaborate(self, platform):
        m = Module()
        m.submodules.counts = counts = memory.Memory(shape=_COUNTS, depth=self._counters, init=[])
        m.submodules.numbers = numbers = Queue(range(self._counters), self._counters)
        sum_port = counts.write_port()
        # The order behind, and a write that is picked as a counter advances, see the new value.
        order_port, pick_port = (counts.read_port(transparent_for=(sum_port,)) for _ in range(2))
        self._elaborate_orders(m, order_port, sum_port, numbers.i)
        self._elaborate_writes(m, pick_port, numbers.o)
        m.d.comb += self.clears.ready.eq(1)
        # An order that is added in the same cycle came before.
        with m.If(self.clears.valid & (self.clears.payload < self._counters)):
            m.d.sync += self._advanced.bit_select(self.clears.payload[: order_port.addr.shape().width], 1).eq(0)
        return m

    def _elaborate_admissions(self, m, counter):
        """Return, a cycle later, the contexts that the counter lets in if it is restricted."""
        m.submodules.admitted = admitted = memory.Memory(shape=32, depth=self._counters, init=[])
        write = admitted.write_port()
        read = admitted.read_port(transparent_for=(write,))
        admission = self.admissions
        m.d.comb += [
            admission.ready.eq(1),
            write.addr.eq(admission.p.counter),
            write.data.eq(admission.p.contexts),
            write.en.eq(admission.valid & (admission.p.counter < self._counters)),
            read.addr.eq(counter),
        ]
        with m.If(self.clears.valid & (self.clears.payload < self._counters)):
            m.d.sync += self._restricted.bit_select(self.clears.payload[: write.addr.shape().width], 1).eq(0)
        with m.If(write.en):  # in the same cycle: it was written behind the other
            m.d.sync += self._restricted.bit_select(write.addr, 1).eq(1)
        return read.data

    def _elaborate_orders(self, m, read, write, numbers):
        """Take an order per cycle, and add it in the next."""
        m.submodules.arbiter = arbiter = RegisteredArbiter(COUNT_ORDER, 2)
        for index in range(2):
            connect_streams(m, wiring.flipped(self.orders[index]), arbiter.i[index])
        order = arbiter.o
        number = Signal(range(self._counters))
        error = Signal()
        named = Signal()
        """The order names a counter of this build."""
        context = Signal(8)
        adding = Signal()
        before = Signal(_COUNTS)
        m.d.comb += [
            order.ready.eq(1),
            adding.eq(
                named
                & (
                    (context == NO_CONTEXT)
                    | ~self._restricted.bit_select(number, 1)
                    | self._elaborate_admissions(m, order.p.counter).bit_select(context[:5], 1)
                )
            ),
            read.addr.eq(order.p.counter),
            before.eq(Mux(self._advanced.bit_select(number, 1), read.data, 0)),
            write.addr.eq(number),
            write.en.eq(adding),
            write.data.success.eq(before.success + ~error),
            write.data.error.eq(before.error + error),
            # There is a place for every counter.
            numbers.valid.eq(adding & ~self._queued.bit_select(number, 1)),
            numbers.payload.eq(number),
        ]
        m.d.sync += [
            number.eq(order.p.counter),
            error.eq(order.p.error),
            context.eq(order.p.context),
            named.eq(order.valid & (order.p.counter != 0) & (order.p.counter < self._counters)),
        ]
        with m.If(adding):
            m.d.sync += [
                self._advanced.bit_select(number, 1).eq(1),
                self._queued.bit_select(number, 1).eq(1),
            ]

    def _elaborate_writes(self, m, read, numbers):
        """Write the counters of the queue, one after the other."""
        number = Signal(range(self._counters))
        line_bits = (self._width // 8).bit_length() - 1
        address = Signal(64)
        size = EVENT_COUNTER.size
        m.d.comb += [
            read.addr.eq(numbers.payload),
            read.en.eq(numbers.ready),
            self.writes.p.address.eq(Cat(Const(0, line_bits), address[line_bits:])),
            self.writes.p.beats.eq(1),
            self.writes.p.context.eq(NO_CONTEXT),
            self.writes.p.first.eq(1),
            self.writes.p.last.eq(1),
            self.writes.p.data.eq(read.data.as_value() << (address[:line_bits] << 3)),
            self.writes.p.strobe.eq(Const((1 << size) - 1, size) << address[:line_bits]),
            self.count_counter_writes.eq(self.writes.valid & self.writes.ready),
        ]
        with m.FSM(name="write"):
            with m.State("PICK"):
                m.d.comb += numbers.ready.eq(1)
                with m.If(numbers.valid):
                    m.d.sync += [number.eq(numbers.payload), self._queued.bit_select(numbers.payload, 1).eq(0)]
                    m.next = "LOOK"
            with m.State("LOOK"):
                m.d.sync += address.eq(self.counter_base + (number << (size.bit_length() - 1)))
                m.next = "PICK"
                # Of a counter cleared since then nothing is written.
                with m.If((self.counter_base != 0) & self._advanced.bit_select(number, 1)):
                    m.next = "WRITE"
            with m.State("WRITE"):
                m.d.comb += self.writes.valid.eq(1)
                with m.If(self.writes.ready):
                    m.next = "PICK"
