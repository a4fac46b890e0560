"""Brings reads, writes and interrupts into the one order in which the host sees them."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.tlp import RequestKind

from amoeba_hw.pcie.interfaces import (
    INTERRUPT_USER,
    MSIX_MESSAGE,
    REQUEST_HEADER,
    WRITE_NUMBER_BITS,
    request_beat,
)
from amoeba_hw.stream import Queue, RegisterSlice, connect_streams

__all__ = ["RequestMerger"]


class RequestMerger(wiring.Component):
    """Merges requests. A read or an interrupt never passes a write that had its place in the order before it.

    Parameters
    ----------
    width : int
        Bits per beat.
    reads : int
        Reads that may wait here for writes.

    Members
    -------
    writes : :func:`request_beat` stream, In
        A request once begun must be delivered without waiting for anything that needs this merger.
    accepted, settled : In
        As of WriteRequester: the lines that it has taken, and those of them that have gone through ``writes``.
    waiting : In(2)
        Lines that have their place and are not accepted yet.
    reads : REQUEST_HEADER stream, In
    interrupts : MSIX_MESSAGE stream, In
    read_credit : In
        A read may be offered. Writes never wait for it.
    run : In
        Requests may begin. A request that has begun, or is on offer, goes on.
    requests : :func:`request_beat` stream, Out
        Latency one cycle for writes and four for what follows them, one beat per cycle. Interrupts go first, reads
        and writes in turn.
    read_leaves, read_tag : Out
        Pulse: a read is on offer from the next cycle on; its tag.
    idle : Out
        No request is on offer or has begun.
    """

    def __init__(self, width, reads=32):
        self._width, self._reads = width, reads
        super().__init__(
            {
                "writes": In(stream.Signature(request_beat(width))),
                "accepted": In(WRITE_NUMBER_BITS),
                "settled": In(WRITE_NUMBER_BITS),
                "waiting": In(2),
                "reads": In(stream.Signature(REQUEST_HEADER)),
                "interrupts": In(stream.Signature(MSIX_MESSAGE)),
                "read_credit": In(1),
                "run": In(1),
                "requests": Out(stream.Signature(request_beat(width))),
                "read_leaves": Out(1),
                "read_tag": Out(8),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.output = output = RegisterSlice(request_beat(self._width))
        connect_streams(m, output.o, wiring.flipped(self.requests))
        read, read_due = self._elaborate_wait(m, "reads", self.reads, self._reads)
        interrupt, interrupt_due = self._elaborate_wait(m, "interrupts", self.interrupts, 2)
        write, merged = self.writes, output.i
        inside = Signal()
        """Of a write."""
        write_next = Signal()
        """The writes are next."""
        others = Signal()
        """An interrupt or a read goes before the next write."""
        m.d.comb += [
            self.idle.eq(~inside & ~output.o.valid),
            self.read_tag.eq(read.p.item.tag),
            others.eq(interrupt_due | (read_due & self.read_credit & ~(write.valid & write_next))),
        ]
        with m.If(inside | (self.run & ~others)):
            m.d.comb += [merged.p.eq(write.p), merged.valid.eq(write.valid), write.ready.eq(merged.ready)]
            with m.If(write.valid & write.ready):
                m.d.sync += [inside.eq(~write.p.last), write_next.eq(0)]
        with m.Elif(self.run):
            m.d.comb += [merged.valid.eq(1), merged.p.first.eq(1), merged.p.last.eq(1)]
            with m.If(interrupt_due):
                header = merged.p.header
                m.d.comb += [
                    header.kind.eq(RequestKind.MEMORY_WRITE),
                    header.address.eq(interrupt.p.item.address),
                    header.dwords.eq(1),
                    header.first_be.eq(0b1111),
                    header.user.eq(INTERRUPT_USER),
                    merged.p.data.eq(interrupt.p.item.data),
                    interrupt.ready.eq(merged.ready),
                ]
            with m.Else():
                m.d.comb += [
                    merged.p.header.eq(read.p.item),
                    read.ready.eq(merged.ready),
                    self.read_leaves.eq(merged.ready),
                ]
                with m.If(merged.ready):
                    m.d.sync += write_next.eq(1)
        return m

    def _elaborate_wait(self, m, name, source, depth):
        """Queue requests that wait for the writes before them; return whether the first need not wait any more."""
        shape = data.StructLayout({"item": source.signature.members["payload"].shape, "after": WRITE_NUMBER_BITS})
        m.submodules[name] = queue = Queue(shape, depth)
        due = Signal(name=f"{name}_due")
        m.d.comb += [
            queue.i.p.item.eq(source.p),
            queue.i.p.after.eq(self.accepted + self.waiting),
            queue.i.valid.eq(source.valid),
            source.ready.eq(queue.i.ready),
            due.eq(queue.o.valid & ~(self.settled - queue.o.p.after)[WRITE_NUMBER_BITS - 1]),
        ]
        return queue.o, due
