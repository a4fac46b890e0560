"""Reads receive descriptors."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, flipped
from amoeba_model.descriptors import RX_DESCRIPTOR

from amoeba_hw.initiator.descriptor_fetch import DescriptorFetch
from amoeba_hw.initiator.records import GENERATION_BITS, fetched_descriptor
from amoeba_hw.initiator.transmit_scheduler import TransmitScheduler
from amoeba_hw.interfaces import CONTEXT, READ_REQUEST, RING_INDEX, read_beat
from amoeba_hw.stream import connect_streams

__all__ = ["ReceiveFetch"]

_LARGEST_RING = 15
_ON_THE_WAY = 64
"""Descriptors that may be on their way from the host: one every 8 cycles through 400 cycles of latency."""


class ReceiveFetch(wiring.Component):
    """Reads the descriptors of receive rings ahead, up to 4 with one read, contexts in turn.

    The two components of transmit rings do it; but a receive ring has no completion entries, so that only its queue
    needs space.

    Parameters
    ----------
    parameters : NicParameters
    places : int
        Descriptors of one context that may be in flight or queued, at least 4.

    Members
    -------
    contexts : array of CONTEXT, In
        A context that is not enabled has an empty ring.
    tails : RING_INDEX stream
        Never refused. Ignored for contexts that are not enabled or do not exist.
    reads, answers : READ_REQUEST and :func:`read_beat` streams
        An answer is always taken.
    descriptors : :func:`fetched_descriptor` stream of RX_DESCRIPTORs
        Of each context in the order of its ring; those of earlier generations among them. Their user keeps
        ``places`` for each context. If the host refuses a read, all descriptors of that read have ``error``.
    generations : array of GENERATION_BITS, Out
        Of the contexts.
    left : In, a bit per context
        Pulse: a place has become free again.
    forgotten : In, a bit per context
        With ``left``: what was there was of an earlier generation.
    asks : Out
        A read is on offer, or is as soon as its descriptors have space.
    """

    def __init__(self, parameters, places):
        self._parameters = parameters
        self._places = places
        contexts, width = parameters.contexts, parameters.data_width
        super().__init__(
            {
                "contexts": In(CONTEXT).array(contexts),
                "tails": In(stream.Signature(RING_INDEX)),
                "reads": Out(stream.Signature(READ_REQUEST)),
                "answers": In(stream.Signature(read_beat(width))),
                "descriptors": Out(stream.Signature(fetched_descriptor(RX_DESCRIPTOR))),
                "generations": Out(GENERATION_BITS).array(contexts),
                "left": In(contexts),
                "forgotten": In(contexts),
                "asks": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        contexts, width = self._parameters.contexts, self._parameters.data_width
        m.submodules.scheduler = scheduler = TransmitScheduler(contexts, self._places)
        m.submodules.fetch = fetch = DescriptorFetch(width, _ON_THE_WAY, RX_DESCRIPTOR)
        for index in range(contexts):
            context, ring = self.contexts[index], scheduler.registers[index]
            m.d.comb += [
                ring.enable.eq(context.enable),
                ring.transmit_base.eq(context.receive_base),
                ring.transmit_size.eq(context.receive_size),
                # No descriptor has a completion: the ring of those never fills.
                ring.completion_size.eq(_LARGEST_RING),
                self.generations[index].eq(scheduler.generations[index]),
            ]
        m.d.comb += [
            scheduler.left.eq(self.left),
            scheduler.skipped.eq(self.left & ~self.forgotten),
            self.asks.eq(scheduler.commands.valid),
        ]
        for producer, consumer in (
            (flipped(self.tails), scheduler.doorbells),
            (scheduler.commands, fetch.commands),
            (fetch.reads, flipped(self.reads)),
            (flipped(self.answers), fetch.answers),
            (fetch.descriptors, flipped(self.descriptors)),
        ):
            connect_streams(m, producer, consumer)
        return m
