"""A queue whose newest beats can be taken back."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["CommitQueue"]


class CommitQueue(wiring.Component):
    """First in, first out; beats come out only after they have been committed.

    Parameters
    ----------
    shape : shape-like
        Payload of both streams.
    depth : int
        Beats it holds, committed or not: a power of two. The beats between two commits must fit.

    Members
    -------
    i : stream of ``shape``
        Beats to hold; ``ready`` does not depend on the other members.
    commit, rollback : In(1)
        Pulses: everything accepted since the last of them, this cycle included, is to be delivered, or forgotten.
        Not both.
    o : stream of ``shape``
        A beat appears two cycles after its commit at the earliest; one beat per cycle.
    room : range(depth + 1)
        Beats that can still be accepted.
    """

    def __init__(self, shape, depth):
        if depth < 2 or depth & (depth - 1):
            raise ValueError(f"Expected a power of two of at least 2 as depth, got {depth}")
        self._shape = shape
        self._depth = depth
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "commit": In(1),
                "rollback": In(1),
                "o": Out(stream.Signature(shape)),
                "space": Out(range(depth + 1)),
            }
        )
        # One bit more than an address, so that full and empty differ.
        self._tail = Signal(range(2 * depth))
        self._committed = Signal(range(2 * depth))
        self._head = Signal(range(2 * depth))

    def elaborate(self, platform):
        m = Module()
        m.submodules.storage = storage = memory.Memory(shape=self._shape, depth=self._depth, init=[])
        # Never reads a beat in the cycle in which it is written: it is committed only from the next on.
        write, read = storage.write_port(), storage.read_port()
        width = len(self._tail)
        used = Signal(width)
        tail = Signal(width)
        m.d.comb += [
            used.eq(self._tail - self._head),
            self.space.eq(self._depth - used),
            self.i.ready.eq(self.space != 0),
            write.en.eq(self.i.valid & self.i.ready),
            write.addr.eq(self._tail[:-1]),
            write.data.eq(self.i.p),
            tail.eq(self._tail + write.en),
        ]
        m.d.sync += self._tail.eq(Mux(self.rollback, self._committed, tail))
        with m.If(self.commit):
            m.d.sync += self._committed.eq(tail)

        available = self._head != self._committed
        m.d.comb += [
            read.en.eq(~self.o.valid | self.o.ready),
            read.addr.eq(self._head[:-1]),
            self.o.p.eq(read.data),
        ]
        with m.If(read.en):
            m.d.sync += [self.o.valid.eq(available), self._head.eq(self._head + available)]
        return m
