"""The stream kit: order, no loss, the stream contract, no starvation."""

from amaranth.hdl import Array, Assert, Assume, Cat, Cover, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_hw.commit_queue import CommitQueue
from amoeba_hw.stream import (
    Demux,
    HalfRateSlice,
    Queue,
    RegisteredArbiter,
    RegisterSlice,
    RoundRobinArbiter,
    SkidBuffer,
)

from tests.formal.rules import StreamRules, connect_ports, never_reset

__all__ = [
    "ArbiterSpec",
    "CommitQueueSpec",
    "DemuxSpec",
    "HalfRateSliceSpec",
    "QueueSpec",
    "RegisterSliceSpec",
    "RegisteredArbiterSpec",
    "SkidBufferSpec",
]

PACKET = data.StructLayout({"data": 2, "last": 1})


class _NaiveQueue:
    """A row of registers that moves up at every departure: slow, and obviously first in, first out."""

    def __init__(self, m, capacity, i, o):
        self.level = Signal(range(capacity + 1))
        self.beats = [Signal(len(o.payload), name=f"beat_{place}") for place in range(capacity)]
        arrives, departs = i.valid & i.ready, o.valid & o.ready
        left = Signal.like(self.level)
        m.d.comb += [left.eq(self.level - departs), Assert(self.level >= (departs & ~arrives))]
        for place, beat in enumerate(self.beats):
            above = self.beats[place + 1] if place + 1 < capacity else beat
            m.d.sync += beat.eq(Mux(arrives & (left == place), i.payload, Mux(departs, above, beat)))
        m.d.sync += self.level.eq(left + arrives)


class QueueSpec(wiring.Component):
    """A Queue's elements leave it in the order of their entry; it has space for its depth; ``level`` counts."""

    def __init__(self, depth, width=2):
        self._dut = Queue(width, depth)
        super().__init__(
            {
                "i": In(stream.Signature(width)),
                "o": Out(stream.Signature(width)),
                "level": Out(range(depth + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.dut = dut = self._dut
        connect_ports(m, self, dut)
        m.submodules.contract = StreamRules(self.o, Assert)
        naive = _NaiveQueue(m, dut.depth + 1, self.i, self.o)
        m.d.comb += [
            Assert(dut.level == naive.level),
            Assert(self.i.ready | (naive.level == dut.depth)),
            Assert(naive.level <= dut.depth),
            # Latency: what is inside is on offer.
            Assert(self.o.valid == (naive.level != 0)),
            Cover(naive.level == dut.depth),
        ]
        with m.If(self.o.valid):
            m.d.comb += [Assert(naive.level != 0), Assert(self.o.payload == naive.beats[0])]
        return m


class _SliceSpec(wiring.Component):
    """A slice is a queue of one beat, on offer as long as it is there."""

    _SLICE: type[wiring.Component]

    def __init__(self, width=8):
        self._width = width
        super().__init__({"i": In(stream.Signature(width)), "o": Out(stream.Signature(width))})

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.dut = dut = self._SLICE(self._width)
        connect_ports(m, self, dut)
        m.submodules.contract = StreamRules(self.o, Assert)
        naive = _NaiveQueue(m, 1, self.i, self.o)
        m.d.comb += [
            Assert(self.o.valid == (naive.level == 1)),
            Assert(~self.o.valid | (self.o.payload == naive.beats[0])),
            *self._refills(naive),
        ]
        return m


class RegisterSliceSpec(_SliceSpec):
    """A RegisterSlice can be refilled while it empties."""

    _SLICE = RegisterSlice

    def _refills(self, naive):
        return (
            Assert(self.i.ready | (self.o.valid & ~self.o.ready)),
            Cover(self.o.valid & self.o.ready & self.i.valid & self.i.ready),
        )


class HalfRateSliceSpec(_SliceSpec):
    """A HalfRateSlice is refilled once it is empty."""

    _SLICE = HalfRateSlice

    def _refills(self, naive):
        return Assert(self.i.ready == (naive.level == 0)), Cover(self.o.valid & self.o.ready)


class SkidBufferSpec(wiring.Component):
    """A SkidBuffer holds one beat at most, hands on at once what it need not hold, and ``i.ready`` is registered."""

    def __init__(self, width=8):
        self._width = width
        super().__init__({"i": In(stream.Signature(width)), "o": Out(stream.Signature(width))})

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.dut = dut = SkidBuffer(self._width)
        connect_ports(m, self, dut)
        m.submodules.environment = StreamRules(self.i, Assume)
        m.submodules.contract = StreamRules(self.o, Assert)
        held = Signal()
        spare = Signal(self._width)
        arrives, departs = self.i.valid & self.i.ready, self.o.valid & self.o.ready
        m.d.sync += held.eq((held | arrives) & ~departs)
        with m.If(arrives):
            m.d.sync += spare.eq(self.i.payload)
        m.d.comb += [
            Assert(self.i.ready == ~held),
            Assert(self.o.valid == (held | self.i.valid)),
            Assert(~self.o.valid | (self.o.payload == Mux(held, spare, self.i.payload))),
            Cover(held & departs),
        ]
        return m


class ArbiterSpec(wiring.Component):
    """Nothing is lost, made up or mixed by a RoundRobinArbiter, and nobody waits for two packets of another."""

    KIND = RoundRobinArbiter

    def __init__(self, count=3):
        self._count = count
        super().__init__(
            {
                "i": In(stream.Signature(PACKET)).array(count),
                "o": Out(stream.Signature(PACKET)),
                "grant": Out(range(count)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        dut = self.KIND(PACKET, self._count)
        m.submodules.dut = dut
        connect_ports(m, self, dut)
        for index in range(self._count):
            m.submodules[f"environment_{index}"] = StreamRules(self.i[index], Assume)
        m.submodules.contract = StreamRules(self.o, Assert)
        transfers = Signal(self._count)
        valid = Signal(self._count)
        payloads = Array(port.payload.as_value() for port in self.i)
        m.d.comb += [
            transfers.eq(Cat(port.valid & port.ready for port in self.i)),
            valid.eq(Cat(port.valid for port in self.i)),
            # One beat in for each beat out, the same one, from whom the grant names.
            Assert(transfers == Mux(self.o.valid & self.o.ready, 1 << self.grant, 0)),
            Assert(~self.o.valid | (self.o.payload.as_value() == payloads[self.grant])),
            Assert(~self.o.valid | valid.bit_select(self.grant, 1)),
        ]
        self._prove_packets_whole(m, dut, valid)
        for index in range(self._count):
            self._prove_fair(m, dut, index)
        return m

    def _prove_packets_whole(self, m, dut, valid):
        inside = Signal()
        owner = Signal(range(self._count))
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [inside.eq(~self.o.p.last), owner.eq(self.grant)]
        with m.If(inside):
            m.d.comb += [Assert(self.grant == owner), Assert(dut._held), Assert(dut._holder == owner)]
        with m.Elif(valid.any()):
            # Work is never refused while the output is free to take it.
            m.d.comb += Assert(self.o.valid)
        m.d.comb += [
            Assert(owner < self._count),
            Assert(dut._holder < self._count),
            # Held outside a packet: its first beat was refused and waits on.
            Assert(~dut._held | inside | valid.bit_select(dut._holder, 1)),
            Cover(inside & valid.all()),
        ]

    def _prove_fair(self, m, dut, waiter):
        """While ``waiter`` waits, every other input ends at most one packet that began meanwhile."""
        waits = Signal(name=f"waits_{waiter}")
        waited = Signal(name=f"waited_{waiter}")
        passed = Signal(self._count, name=f"passed_{waiter}")
        m.d.comb += waits.eq(self.i[waiter].valid & (self.grant != waiter))
        m.d.sync += waited.eq(waits)
        ends = self.o.valid & self.o.ready & self.o.p.last
        with m.If(~waits):
            m.d.sync += passed.eq(0)
        with m.Elif(ends):
            m.d.sync += passed.eq(passed | (1 << self.grant))
            m.d.comb += Assert(~passed.bit_select(self.grant, 1))
        distance = Signal(range(self._count), name=f"distance_{waiter}")
        m.d.comb += distance.eq(_distance(dut._holder, waiter, self._count))
        for other in range(self._count):
            offset = (other - waiter) % self._count
            # Who has passed lies before the holder; a holder in the middle of its packet has not passed yet.
            with m.If(passed[other]):
                m.d.comb += [
                    Assert(waited),
                    Assert(offset <= distance),
                    Assert(~(dut._held & (dut._holder == other))),
                ]
        m.d.comb += Cover(passed.any())


class RegisteredArbiterSpec(ArbiterSpec):
    """A RegisteredArbiter keeps the same rules; only the grant and ``o.ready`` say whether an input is taken."""

    KIND = RegisteredArbiter

    def _prove_packets_whole(self, m, dut, valid):
        inside, waited = Signal(), Signal()
        owner = Signal(range(self._count))
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [inside.eq(~self.o.p.last), owner.eq(self.grant)]
        with m.If(inside):
            m.d.comb += Assert(self.grant == owner)
        m.d.sync += waited.eq(valid.any() & ~self.o.valid & ~inside)
        m.d.comb += [
            Assert(self.grant < self._count),
            Assert(dut._inside == inside),
            # An input that is alone waits for one cycle at most.
            Assert(~waited | self.o.valid),
            Cover(inside & valid.all()),
        ]
        for index in range(self._count):
            m.d.comb += Assert(self.i[index].ready == (self.o.ready & (self.grant == index)))

    def _prove_fair(self, m, dut, waiter):
        """While ``waiter`` waits, every other input ends at most one packet: the grant goes round towards it."""
        waits = Signal(name=f"waits_{waiter}")
        passed = Signal(self._count, name=f"passed_{waiter}")
        m.d.comb += waits.eq(self.i[waiter].valid & (self.grant != waiter))
        ends = self.o.valid & self.o.ready & self.o.p.last
        with m.If(~waits):
            m.d.sync += passed.eq(0)
        with m.Elif(ends):
            m.d.sync += passed.eq(passed | (1 << self.grant))
            m.d.comb += Assert(~passed.bit_select(self.grant, 1))
        distance = Signal(range(self._count), name=f"distance_{waiter}")
        m.d.comb += distance.eq(_distance(self.grant, waiter, self._count))
        for other in range(self._count):
            with m.If(waits & passed[other]):
                m.d.comb += Assert((other - waiter) % self._count < distance)
        m.d.comb += Cover(passed.any())


def _distance(place, origin, count):
    return Array((index - origin) % count for index in range(count))[place]


class DemuxSpec(wiring.Component):
    """Every beat of a packet goes to the one output that ``select`` named at its first beat, or nowhere."""

    def __init__(self, count=3):
        self._count = count
        super().__init__(
            {
                "i": In(stream.Signature(PACKET)),
                "select": In(range(count + 1)),
                "o": Out(stream.Signature(PACKET)).array(count),
            }
        )

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        dut = Demux(PACKET, self._count)
        m.submodules.dut = dut
        connect_ports(m, self, dut)
        m.submodules.environment = StreamRules(self.i, Assume)
        inside = Signal()
        chosen = Signal.like(self.select)
        route = Signal.like(self.select)
        refused = Signal()
        asked = Signal.like(self.select)
        m.d.sync += [refused.eq(self.i.valid & ~self.i.ready & ~inside), asked.eq(self.select)]
        m.d.comb += [
            # `select` holds like the payload of the first beat, and names an output or none.
            Assume(~refused | (self.select == asked)),
            Assume(self.select <= self._count),
            route.eq(Mux(inside, chosen, self.select)),
            Assert(dut._inside == inside),
            Assert(~inside | (dut._route == chosen)),
            Assert(chosen <= self._count),
            Cover(inside & (chosen == self._count)),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [inside.eq(~self.i.p.last), chosen.eq(route)]
        for index, port in enumerate(self.o):
            m.submodules[f"contract_{index}"] = StreamRules(port, Assert)
            mine = route == index
            m.d.comb += [
                Assert(port.valid == (self.i.valid & mine)),
                Assert(~port.valid | (port.payload.as_value() == self.i.payload.as_value())),
                Assert(~(mine & self.i.valid) | (self.i.ready == port.ready)),
            ]
        m.d.comb += Assert((route != self._count) | self.i.ready)
        return m


class CommitQueueSpec(wiring.Component):
    """A CommitQueue delivers what was committed, in order, and nothing that was taken back."""

    def __init__(self, depth=2, width=1):
        self._depth = depth
        self._width = width
        super().__init__(
            {
                "i": In(stream.Signature(width)),
                "commit": In(1),
                "rollback": In(1),
                "o": Out(stream.Signature(width)),
                "space": Out(range(depth + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.dut = dut = CommitQueue(self._width, self._depth)
        connect_ports(m, self, dut)
        m.submodules.contract = StreamRules(self.o, Assert)
        m.d.comb += Assume(~(self.commit & self.rollback))
        # The output register holds one more beat than the memory.
        capacity = self._depth + 1
        beats = [Signal(self._width, name=f"beat_{place}") for place in range(capacity)]
        total = Signal(range(capacity + 1))
        committed = Signal(range(capacity + 1))
        arrives, departs = self.i.valid & self.i.ready, self.o.valid & self.o.ready
        kept = Signal.like(total)
        m.d.comb += kept.eq(total - departs)
        for place, beat in enumerate(beats):
            above = beats[place + 1] if place + 1 < capacity else beat
            m.d.sync += beat.eq(Mux(arrives & (kept == place), self.i.payload, Mux(departs, above, beat)))
        with m.If(self.rollback):
            m.d.sync += [total.eq(committed - departs), committed.eq(committed - departs)]
        with m.Else():
            m.d.sync += [
                total.eq(kept + arrives),
                committed.eq(Mux(self.commit, kept + arrives, committed - departs)),
            ]
        idle = Signal(range(4))
        m.d.sync += idle.eq(Mux(self.o.valid | (committed == 0), 0, idle + 1))
        m.d.comb += [
            Assert(idle < 2),
            Assert(~self.o.valid | (committed != 0)),
            Assert(~self.o.valid | (self.o.payload == beats[0])),
            Assert(self.space + total - self.o.valid == self._depth),
            Cover((committed == 1) & (total == self._depth)),
        ]
        return m
