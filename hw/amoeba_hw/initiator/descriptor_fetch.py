"""Reads descriptors, many at a time."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.descriptors import TX_DESCRIPTOR

from amoeba_hw.initiator.fork import Fork
from amoeba_hw.initiator.records import FETCH_COMMAND, fetched_descriptor
from amoeba_hw.interfaces import READ_REQUEST, read_beat
from amoeba_hw.layout import struct_layout
from amoeba_hw.stream import Queue, connect_streams

__all__ = ["DescriptorFetch"]

_FINISHED = data.StructLayout({"error": 1})
_MOST = 4


class DescriptorFetch(wiring.Component):
    """Reads the descriptors of each command and delivers them in order.

    Parameters
    ----------
    width : int
        Bits per beat: 128, 256 or 512.
    depth : int
        Descriptors that may be asked for and not yet delivered, at least 4; all of them fit here. The default
        keeps a descriptor every two cycles coming through 250 cycles of host latency.
    record : Record
        Layout of a descriptor: 64 bytes.

    Members
    -------
    commands : FETCH_COMMAND stream
        One every cycle, while 4 descriptors fit.
    reads, answers : read client's streams
        An answer is always taken.
    descriptors : :func:`fetched_descriptor` stream
        The first of a command three cycles after the last beat of its answer, then one per cycle. If the host
        refused the read, all descriptors of the command say ``error``.
    """

    def __init__(self, width, depth=128, record=TX_DESCRIPTOR):
        if depth < _MOST:
            raise ValueError(f"Expected space for at least {_MOST} descriptors, got {depth}")
        if record.size != TX_DESCRIPTOR.size:
            raise ValueError(f"Expected descriptors of {TX_DESCRIPTOR.size} bytes, got {record.size}")
        self._fields = struct_layout(record)
        self._width = width
        self._depth = depth
        super().__init__(
            {
                "commands": In(stream.Signature(FETCH_COMMAND)),
                "reads": Out(stream.Signature(READ_REQUEST)),
                "answers": In(stream.Signature(read_beat(width))),
                "descriptors": Out(stream.Signature(fetched_descriptor(record))),
            }
        )
        self._reserved = Signal(range(depth + 1))

    def elaborate(self, platform):
        m = Module()
        m.submodules.fork = fork = Fork(FETCH_COMMAND, 2)
        m.submodules.pending = pending = Queue(FETCH_COMMAND, self._depth)
        admitted = Signal()
        m.d.comb += [
            admitted.eq(self._reserved <= self._depth - _MOST),
            fork.i.payload.eq(self.commands.payload),
            fork.i.valid.eq(self.commands.valid & admitted),
            self.commands.ready.eq(fork.i.ready & admitted),
            fork.select.eq(0b11),
            self.reads.valid.eq(fork.o[0].valid),
            self.reads.p.address.eq(fork.o[0].p.address),
            self.reads.p.context.eq(fork.o[0].p.context),
            self.reads.p.length.eq(Cat(Const(0, 6), fork.o[0].p.count)),
            fork.o[0].ready.eq(self.reads.ready),
        ]
        connect_streams(m, fork.o[1], pending.i)
        taken = Mux(self.commands.valid & self.commands.ready, self.commands.p.count, 0)
        delivered = self.descriptors.valid & self.descriptors.ready
        m.d.sync += self._reserved.eq(self._reserved + taken - delivered)
        finished, storage = self._elaborate_answers(m)
        self._elaborate_delivery(m, pending, finished, storage)
        return m

    def _elaborate_answers(self, m):
        m.submodules.finished = finished = Queue(_FINISHED, self._depth)
        m.submodules.storage = storage = Queue(self._fields, self._depth)
        beats = 8 * TX_DESCRIPTOR.size // self._width
        answer = self.answers
        failed = Signal()
        m.d.comb += [
            answer.ready.eq(1),
            finished.i.valid.eq(answer.valid & answer.p.last),
            finished.i.p.error.eq(failed | answer.p.error),
        ]
        with m.If(answer.valid):
            m.d.sync += failed.eq((failed | answer.p.error) & ~answer.p.last)
        if beats == 1:
            m.d.comb += [storage.i.payload.eq(answer.p.data), storage.i.valid.eq(answer.valid)]
        else:
            beat = Signal(range(beats))
            head = Signal((beats - 1) * self._width)
            m.d.comb += [
                storage.i.payload.eq(Cat(head, answer.p.data)),
                storage.i.valid.eq(answer.valid & (beat == beats - 1)),
            ]
            with m.If(answer.valid):
                m.d.sync += [beat.eq(beat + 1), head.eq(Cat(head[self._width :], answer.p.data))]
        return finished, storage

    def _elaborate_delivery(self, m, pending, finished, storage):
        descriptor = self.descriptors
        delivered = Signal(3)
        final = Signal()
        m.d.comb += [
            final.eq(delivered == pending.o.p.count - 1),
            descriptor.valid.eq(pending.o.valid & finished.o.valid & storage.o.valid),
            descriptor.p.context.eq(pending.o.p.context),
            descriptor.p.generation.eq(pending.o.p.generation),
            descriptor.p.index.eq(pending.o.p.index + delivered),
            descriptor.p.error.eq(finished.o.p.error),
            descriptor.p.fields.eq(storage.o.payload),
            storage.o.ready.eq(descriptor.valid & descriptor.ready),
            finished.o.ready.eq(descriptor.valid & descriptor.ready & final),
            pending.o.ready.eq(finished.o.ready),
        ]
        with m.If(descriptor.valid & descriptor.ready):
            m.d.sync += delivered.eq(Mux(final, 0, delivered + 1))
