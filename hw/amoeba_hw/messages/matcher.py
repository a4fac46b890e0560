"""Matches messages with receives, between the checks and the execution of requests."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, flipped

from amoeba_hw.interfaces import CONTEXT, READ_REQUEST, RETRANSMISSION, RING_INDEX, SLOT_RELEASE, read_beat
from amoeba_hw.messages.kept_receives import KeptReceives
from amoeba_hw.messages.match_unit import MatchUnit
from amoeba_hw.messages.receive_fetch import ReceiveFetch
from amoeba_hw.messages.receive_queues import ReceiveQueues
from amoeba_hw.messages.slot_credits import SlotCredits
from amoeba_hw.messages.slot_releases import SlotReleases
from amoeba_hw.request_records import (
    CHECKED_REQUEST,
    EVENT_CLAIM,
    GENERATION_BITS,
    PASSAGE,
    RECEIVE_QUESTION,
    RECEIVE_REPLY,
)
from amoeba_hw.stream import connect_streams

__all__ = ["Matcher", "matcher_members"]

_PLACES = 64
"""Receive descriptors of one context that are read ahead: at 8 cycles each, enough for 400 cycles of host latency."""


def matcher_members(parameters):
    """Members of a Matcher."""
    contexts, width = parameters.contexts, parameters.data_width
    return {
        "contexts": In(CONTEXT).array(contexts),
        "generations": In(GENERATION_BITS).array(contexts),
        "retransmission": In(RETRANSMISSION),
        "receive_tails": In(stream.Signature(RING_INDEX)),
        "slot_releases": In(stream.Signature(SLOT_RELEASE)),
        "receive_reads": Out(stream.Signature(READ_REQUEST)),
        "receive_data": In(stream.Signature(read_beat(width))),
        "fetches": Out(PASSAGE),
        "checked": In(stream.Signature(CHECKED_REQUEST)),
        "matched": Out(stream.Signature(CHECKED_REQUEST)),
        "event_credit": In(contexts),
        "event_reserve": Out(EVENT_CLAIM),
        "event_release": Out(EVENT_CLAIM),
        "slot_reserve": In(EVENT_CLAIM),
        "slot_open": Out(contexts),
        "receive_question": In(RECEIVE_QUESTION),
        "receive_reply": Out(RECEIVE_REPLY),
        "message_accepted": In(1),
        "count_messages_matched": Out(1),
        "count_messages_unexpected": Out(1),
    }


class Matcher(wiring.Component):
    """Decides what becomes of messages and receive descriptors (README.md).

    ::

        receive_tails -> ReceiveFetch -> ReceiveQueues --orders--+
                            |   ^            |  ^                v
                   receive_reads receive_data|  +-- again -- MatchUnit <-- SlotReleases <- slot_releases
                                             v               ^     |
                                     event_reserve  messages |     | decided
                         checked ----------------------------+-----+--> matched
                                                  others, past it
                              receive_question -> KeptReceives -- searches --> MatchUnit

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    contexts : array of CONTEXT, In
    generations : array of GENERATION_BITS, In
        Of :class:`~amoeba_hw.target.event_credits.EventCredits`.
    retransmission : RETRANSMISSION, In
    receive_tails : RING_INDEX stream
        Producer indices of receive rings. Never refused.
    slot_releases : SLOT_RELEASE stream
        Never refused.
    receive_reads, receive_data : READ_REQUEST and :func:`read_beat` streams
        Receive descriptors. An answer is always taken.
    fetches : PASSAGE, Out
        Of these reads.
    checked : CHECKED_REQUEST stream
    matched : CHECKED_REQUEST stream
        The same in order, and between them the events of receive descriptors: ``answer.silent``. Of messages,
        ``answer.event.reserved`` is set where an event is to be written.
    event_credit : In, a bit per context
        ``event_reserve`` may be given now.
    event_reserve, event_release : EVENT_CLAIM, Out
        An entry for a receive descriptor's event is reserved; an entry reserved for a message or a receive descriptor
        is not needed.
    slot_reserve : EVENT_CLAIM, In
        A message was accepted: one slot is taken.
    slot_open : Out, a bit per context
        A free slot is not reserved. Shows everything up to the cycle before.
    receive_question, receive_reply : RECEIVE_QUESTION, In, RECEIVE_REPLY, Out
        Of :class:`~amoeba_hw.messages.kept_receives.KeptReceives`.
    message_accepted : In(1)
        Pulse: a message will come, on ``checked``.
    count_messages_matched, count_messages_unexpected : Out(1)

    Requests that are no messages pass in one cycle, one per cycle, also while a receive descriptor is matched;
    :class:`MatchUnit` says what messages and receive descriptors cost. It waits for nothing but ``matched.ready``.
    """

    def __init__(self, parameters):
        self._parameters = parameters
        super().__init__(matcher_members(parameters))

    def elaborate(self, platform):
        m = Module()
        parameters = self._parameters
        m.submodules.unit = unit = MatchUnit(parameters)
        for index in range(parameters.contexts):
            m.d.comb += [
                unit.contexts[index].eq(self.contexts[index]),
                unit.generations[index].eq(self.generations[index]),
            ]
        m.d.comb += [
            unit.retransmission.eq(self.retransmission),
            self.event_release.eq(unit.event_release),
            self.count_messages_matched.eq(unit.count_messages_matched),
            self.count_messages_unexpected.eq(unit.count_messages_unexpected),
        ]
        self._elaborate_way(m, unit)
        self._elaborate_orders(m, unit)
        self._elaborate_slots(m, unit)
        self._elaborate_kept(m, unit)
        return m

    def _elaborate_way(self, m, unit):
        """Messages take their turn in the unit; other requests pass, but for the cycle in which it has decided.

        A request that ends another message waits until the unit has said so.
        """
        request = self.checked.p
        is_message = Signal()
        gives_up = Signal()
        """The packet does not continue the message of several packets that its PDC has begun."""
        space = Signal()
        pdc = request.answer.spdcid[: (self._parameters.target_pdcs - 1).bit_length()]
        m.d.comb += [
            gives_up.eq(
                self.checked.valid
                & ~request.dropped
                & unit.open.bit_select(pdc, 1)
                & ~(is_message & request.answer.continues)
            ),
            unit.gives_up.eq(gives_up),
            is_message.eq(request.message.valid & request.answer.executed & ~request.dropped),
            space.eq(~self.matched.valid | self.matched.ready),
            unit.messages.valid.eq(self.checked.valid & is_message & ~gives_up),
            unit.messages.p.eq(request),
            unit.decided.ready.eq(space),
            self.checked.ready.eq(Mux(is_message, unit.messages.ready, space & ~unit.decided.valid & ~gives_up)),
        ]
        with m.If(space):
            m.d.sync += [
                self.matched.valid.eq(unit.decided.valid | (self.checked.valid & ~is_message & ~gives_up)),
                self.matched.p.eq(Mux(unit.decided.valid, unit.decided.p.as_value(), request.as_value())),
            ]

    def _elaborate_orders(self, m, unit):
        parameters = self._parameters
        m.submodules.fetch = fetch = ReceiveFetch(parameters, _PLACES)
        m.submodules.queues = queues = ReceiveQueues(parameters.contexts, _PLACES)
        for producer, consumer in (
            (flipped(self.receive_tails), fetch.tails),
            (fetch.reads, flipped(self.receive_reads)),
            (flipped(self.receive_data), fetch.answers),
            (fetch.descriptors, queues.descriptors),
            (queues.orders, unit.orders),
        ):
            connect_streams(m, producer, consumer)
        for index in range(parameters.contexts):
            m.d.comb += [
                fetch.contexts[index].eq(self.contexts[index]),
                queues.fetch_generations[index].eq(fetch.generations[index]),
                queues.event_generations[index].eq(self.generations[index]),
            ]
        m.d.comb += [
            self.fetches.offered.eq(fetch.asks),
            self.fetches.entered.eq(fetch.reads.valid & fetch.reads.ready),
            self.fetches.ended.eq(fetch.answers.valid & fetch.answers.ready & fetch.answers.p.last),
            fetch.left.eq(queues.left),
            fetch.forgotten.eq(queues.forgotten),
            queues.enabled.eq(Cat(context.enable for context in self.contexts)),
            queues.event_credit.eq(self.event_credit),
            self.event_reserve.eq(queues.event_reserve),
            queues.receive_open.eq(unit.receive_open),
            queues.again.eq(unit.again),
            queues.used.eq(unit.used),
        ]

    def _elaborate_kept(self, m, unit):
        m.submodules.kept = kept = KeptReceives()
        connect_streams(m, kept.searches, unit.searches)
        request = self.checked.p
        m.d.comb += [
            kept.question.eq(self.receive_question),
            self.receive_reply.eq(kept.reply),
            kept.accepted.eq(self.message_accepted),
            # Matched or refused, the request blocks no other any more.
            kept.settled.eq(self.checked.valid & self.checked.ready & request.message.valid & ~request.dropped),
            kept.found.eq(unit.found),
            unit.keeps.eq(kept.keeps),
        ]

    def _elaborate_slots(self, m, unit):
        parameters = self._parameters
        m.submodules.credits = credits = SlotCredits(parameters.contexts, parameters.unexpected)
        m.submodules.releases = releases = SlotReleases(parameters.contexts, parameters.unexpected)
        connect_streams(m, flipped(self.slot_releases), releases.i)
        connect_streams(m, releases.o, unit.releases)
        request = self.checked.p
        for index in range(parameters.contexts):
            m.d.comb += [
                credits.contexts[index].eq(self.contexts[index]),
                credits.generations[index].eq(self.generations[index]),
                credits.free[index].eq(unit.slots_free[index]),
            ]
        m.d.comb += [
            releases.enabled.eq(Cat(context.enable for context in self.contexts)),
            credits.settled.eq(unit.settled),
            credits.reserve.eq(self.slot_reserve),
            # Matched or refused, the request has taken its slot now, or does not need it.
            credits.settle.valid.eq(self.checked.valid & self.checked.ready & request.message.slot_reserved),
            credits.settle.context.eq(request.answer.event.context),
            credits.settle.generation.eq(request.answer.event.generation),
            self.slot_open.eq(credits.open),
        ]
