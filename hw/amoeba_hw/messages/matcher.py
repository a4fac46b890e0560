"""Matches messages with receives, between the checks and the execution of requests."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, flipped

from amoeba_hw.interfaces import CONTEXT, READ_REQUEST, RING_INDEX, SLOT_RELEASE, read_beat
from amoeba_hw.stream import RegisterSlice, connect_streams
from amoeba_hw.target.records import CHECKED_REQUEST, EVENT_CLAIM, GENERATION_BITS

__all__ = ["Matcher"]


class Matcher(wiring.Component):
    """Decides what becomes of messages and receive descriptors (section 10 of the architecture).

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    contexts : array of CONTEXT, In
    generations : array of GENERATION_BITS, In
        Of :class:`~amoeba_hw.target.event_rooms.EventRooms`.
    receive_tails : RING_INDEX stream
        Producer indices of receive rings. Never refused.
    slot_releases : SLOT_RELEASE stream
        Never refused.
    receive_reads, receive_data : READ_REQUEST and :func:`read_beat` streams
        Receive descriptors. An answer is always taken.
    checked : CHECKED_REQUEST stream
    matched : CHECKED_REQUEST stream
        The same in order, and between them what receive descriptors have to say: ``answer.silent``.
    event_room : In, a bit per context
        The event ring has room for a receive descriptor's event.
    event_promise, event_give_back : EVENT_CLAIM, Out
        That room is taken; an entry that was promised to a message or a receive descriptor is not needed.
    slot_promise : EVENT_CLAIM, In
        A message was accepted: one slot is taken.
    slot_open : Out, a bit per context
        There is a free slot that nobody was promised. Shows everything up to the cycle before.
    count_messages_matched, count_messages_unexpected : Out(1)
    """

    def __init__(self, parameters):
        contexts, width = parameters.contexts, parameters.data_width
        super().__init__(
            {
                "contexts": In(CONTEXT).array(contexts),
                "generations": In(GENERATION_BITS).array(contexts),
                "receive_tails": In(stream.Signature(RING_INDEX)),
                "slot_releases": In(stream.Signature(SLOT_RELEASE)),
                "receive_reads": Out(stream.Signature(READ_REQUEST)),
                "receive_data": In(stream.Signature(read_beat(width))),
                "checked": In(stream.Signature(CHECKED_REQUEST)),
                "matched": Out(stream.Signature(CHECKED_REQUEST)),
                "event_room": In(contexts),
                "event_promise": Out(EVENT_CLAIM),
                "event_give_back": Out(EVENT_CLAIM),
                "slot_promise": In(EVENT_CLAIM),
                "slot_open": Out(contexts),
                "count_messages_matched": Out(1),
                "count_messages_unexpected": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.output = output = RegisterSlice(CHECKED_REQUEST)
        connect_streams(m, flipped(self.checked), output.i)
        connect_streams(m, output.o, flipped(self.matched))
        m.d.comb += [self.receive_tails.ready.eq(1), self.slot_releases.ready.eq(1), self.receive_data.ready.eq(1)]
        return m
