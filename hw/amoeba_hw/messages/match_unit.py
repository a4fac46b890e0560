"""Decides what becomes of messages and of receive descriptors."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.descriptors import EventFlags, EventKind
from amoeba_model.wire.uet import ReturnCode

from amoeba_hw.interfaces import CONTEXT, RETRANSMISSION, SLOT_RELEASE
from amoeba_hw.messages.message_verdict import MessageVerdict
from amoeba_hw.messages.open_receives import OpenReceives
from amoeba_hw.messages.order_verdict import OrderVerdict
from amoeba_hw.messages.ordered_lists import ListAction, OrderedLists
from amoeba_hw.messages.records import (
    POSTED_KEY,
    POSTED_RECEIVE,
    POSTED_SEARCHED,
    RECEIVE_ORDER,
    RECEIVE_SEARCH,
    WAITING_KEY,
    WAITING_MESSAGE,
    WAITING_SEARCHED,
    receive_matches,
    waiting_matches,
)
from amoeba_hw.messages.stalled_messages import StalledMessages
from amoeba_hw.packed import first_of
from amoeba_hw.request_records import CHECKED_REQUEST, EVENT_CLAIM, GENERATION_BITS

__all__ = ["MatchUnit"]


class MatchUnit(wiring.Component):
    """Matches messages and receive descriptors, one after the other (README.md).

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    contexts : array of CONTEXT, In
    generations : array of GENERATION_BITS, In
        A change empties the context's lists and frees its slots before anything else is matched.
    retransmission : RETRANSMISSION, In
        See :class:`~amoeba_hw.messages.stalled_messages.StalledMessages`: a message of several packets that has
        stalled ends.
    messages : CHECKED_REQUEST stream
        Messages and tagged atomics that passed their checks; taken in the cycle in which ``decided`` is. They are
        DISABLED if they are of an earlier generation, be it of the context that receives them or of the one that they
        are for, or if no event is reserved for them, or no slot where one may be needed. Of several packets the first
        meets a receive, for which its event entry is kept, and the others go there.
    gives_up : In(1)
        The packet on ``messages``, which need not be valid, ends the message of several packets that its PDC has
        begun. Stays until the PDC is no longer ``open``; ``decided`` has the event.
    open : Out, a bit per target PDC
        A message of several packets has met a receive, and is not over.
    orders : RECEIVE_ORDER stream
        An event is reserved for each, and a place for each RECEIVE: see ``receive_open``. Orders of an earlier
        generation do nothing. When both wait, messages and orders alternate.
    searches, found : RECEIVE_SEARCH stream, Out(1)
        With the transfer: whether such a message would meet a receive. They go where a message's turn would be, and
        never wait together with messages.
    keeps : In(1)
        Orders have to wait.
    again, used : Out(1), Out(32)
        When an order is taken: it wants to look once more, with so many bytes less of its buffer.
    releases : SLOT_RELEASE stream
        Slots that the driver is done with; of contexts and slots that exist.
    decided : CHECKED_REQUEST stream
        Each message, with what is to be done about it, and for each order that has an event an entry with
        ``answer.silent``. ``answer.event.reserved`` is set where an event is to be written.
    event_release : EVENT_CLAIM, Out
        The event reserved for the message or order that is being taken is not needed.
    receive_open : Out, a bit per context
        One more receive can be posted.
    slots_free : array of out
        Free slots of each context: fewer by one before the message that takes one is taken.
    settled : Out, a bit per context
        The lists hold the current generation.
    count_messages_matched, count_messages_unexpected : Out(1)

    ::

        state     REST       FIND                   CHANGE                 GIVE
        work      choose     search one list        change the lists       decided
        cycles    1          2, and one for each    2, 1 if there is       1
                             row looked at          nothing to do, or 0

    A row has 16 entries. So a message that meets one of the first 16 receives costs 7 cycles, and one more for each
    further row looked at; a tagged atomic that meets none of 64 costs 8. One that finds an empty list and waits, or a
    RECEIVE that is posted so, costs 6. DISABLED messages and refused orders search nothing: 3. Nor do the packets of
    a message behind the first, and its end without the last: 3. A CANCEL that finds no posted receive costs two more
    for each open one. A release costs 3, a search 2, as it begins in REST, and one for each row looked at.
    """

    def __init__(self, parameters):
        self._parameters = parameters
        contexts = parameters.contexts
        super().__init__(
            {
                "contexts": In(CONTEXT).array(contexts),
                "generations": In(GENERATION_BITS).array(contexts),
                "retransmission": In(RETRANSMISSION),
                "messages": In(stream.Signature(CHECKED_REQUEST)),
                "gives_up": In(1),
                "open": Out(parameters.target_pdcs),
                "orders": In(stream.Signature(RECEIVE_ORDER)),
                "searches": In(stream.Signature(RECEIVE_SEARCH)),
                "found": Out(1),
                "keeps": In(1),
                "again": Out(1),
                "used": Out(32),
                "releases": In(stream.Signature(SLOT_RELEASE)),
                "decided": Out(stream.Signature(CHECKED_REQUEST)),
                "event_release": Out(EVENT_CLAIM),
                "receive_open": Out(contexts),
                "slots_free": Out(range(parameters.unexpected + 1)).array(contexts),
                "settled": Out(contexts),
                "count_messages_matched": Out(1),
                "count_messages_unexpected": Out(1),
            }
        )
        self._is_order = Signal()
        """An order is being matched, otherwise a message; stays while nothing is."""
        self._is_search = Signal()
        """A search is being done, which is neither, or will be if one is chosen now."""
        self._is_ending = Signal()
        """Neither order nor message is being matched: a message of several packets ends without its last one."""
        self._pdc = Signal(range(parameters.target_pdcs))
        """The PDC of the message that is being matched, or ends."""
        self._unscanned = Signal(parameters.target_pdcs)
        """PDCs whose open receives a CANCEL has not been compared with."""
        self._takes_open = Signal()
        """The CANCEL takes an open receive back."""
        self._is_current = Signal()
        """The message or order was of its contexts' generations when it was chosen."""
        self._context = Signal(range(contexts))
        self._emptied = Signal(range(contexts))
        """The context whose lists are being emptied."""
        self._found = Signal()
        self._receive = Signal(POSTED_RECEIVE)
        """The posted receive that was found."""
        self._message = Signal(WAITING_MESSAGE)
        """The unexpected message that was found."""
        self._slot = Signal(range(parameters.unexpected))
        """Where that lies, or where the message at hand will."""
        self._generations = Array(Signal(GENERATION_BITS, name=f"generation_{index}") for index in range(contexts))
        """Of what is in the lists."""
        self._orders_done = Array(Signal(16, name=f"orders_done_{index}") for index in range(contexts))
        """Receive descriptors of that generation that are over or posted."""

    def elaborate(self, platform):
        m = Module()
        parameters = self._parameters
        m.submodules.posted = posted = OrderedLists(
            parameters.contexts, parameters.receives, POSTED_RECEIVE, POSTED_KEY, POSTED_SEARCHED, receive_matches
        )
        m.submodules.waiting = waiting = OrderedLists(
            parameters.contexts,
            parameters.unexpected,
            WAITING_MESSAGE,
            WAITING_KEY,
            WAITING_SEARCHED,
            waiting_matches,
        )
        m.submodules.open_receives = receives = OpenReceives(parameters.target_pdcs)
        m.submodules.stalled_messages = stalled = StalledMessages(parameters.target_pdcs)
        m.submodules.message_verdict = message = MessageVerdict(parameters)
        m.submodules.order_verdict = order = OrderVerdict(parameters)
        for index in range(parameters.contexts):
            m.d.comb += [
                self.receive_open[index].eq(posted.free[index] != 0),
                self.slots_free[index].eq(waiting.free[index]),
                self.settled[index].eq(self._generations[index] == self.generations[index]),
            ]
        self._elaborate_verdicts(m, receives, message, order)
        self._elaborate_keys(m, posted.commands.p, waiting.commands.p, message, order)
        with m.FSM(name="step"):
            with m.State("REST"):
                self._elaborate_choice(m, posted, receives, stalled)
            with m.State("RELEASE"):
                self._elaborate_release(m, waiting)
            with m.State("EMPTY"):
                self._elaborate_emptying(m, posted, waiting)
            with m.State("ASK"):
                m.d.comb += self._is_search.eq(1)
                self._elaborate_question(m, posted)
            with m.State("FIND"):
                self._elaborate_search(m, posted, waiting, message, order)
            with m.State("READ"):
                self._elaborate_reading(m, receives)
            with m.State("SCAN"):
                self._elaborate_scan(m, receives, order)
            with m.State("CHANGE"):
                self._elaborate_change(m, posted, waiting, message, order)
            with m.State("GIVE"):
                self._elaborate_end(m, receives, message, order)
        m.d.comb += [
            stalled.retransmission.eq(self.retransmission),
            stalled.open.eq(receives.open),
            stalled.pdc.eq(self._pdc),
            stalled.changes.eq(receives.begin | receives.end | self.messages.ready),
            stalled.came.eq(message.begins | message.continues),
        ]
        return m

    def _elaborate_verdicts(self, m, receives, message, order):
        kind, answer = self.messages.p.message, self.messages.p.answer
        needs_no_slot = kind.slot_reserved | kind.receive_kept | kind.atomic | kind.divided
        may_go = (answer.event.reserved & needs_no_slot) | (kind.divided & answer.continues)
        ending, is_stale = Signal(CHECKED_REQUEST), Signal()
        event, row = ending.answer.event, receives.row
        m.d.comb += [
            self.open.eq(receives.open),
            receives.receive.eq(message.met),
            message.open_receive.eq(row),
            message.is_open.eq(
                receives.is_open & (row.context == self._context) & (row.generation == answer.event.generation)
            ),
            ending.context.eq(row.context),
            ending.answer.silent.eq(1),
            ending.answer.return_code.eq(ReturnCode.OK.value),
            ending.answer.spdcid.eq(self._pdc),
            ending.answer.ip.eq(row.source_ip),
            ending.answer.dpdcid.eq(row.source_pdc),
            # The event of a context that has been disabled is written nowhere, nor is it counted.
            is_stale.eq(Array(self.generations)[row.context[: len(self._context)]] != row.generation),
            ending.answer.counters[0].eq(Mux(is_stale, 0, row.counter)),
            event.reserved.eq(1),
            event.regardless.eq(1),
            event.context.eq(row.context),
            event.generation.eq(row.generation),
            event.kind.eq(EventKind.RECEIVED.value),
            event.flags.eq(EventFlags.RELEASED.value),
            event.status.eq(ReturnCode.INITIATOR_ERROR.value),
            event.user_context.eq(row.user_context),
            event.initiator.eq(row.source_context),
            event.target.eq(row.target),
            message.request.eq(self.messages.p),
            message.allowed.eq(self._is_current & may_go),
            message.found.eq(self._found),
            message.receive.eq(self._receive),
            message.slot.eq(self._slot),
            message.unexpected_base.eq(Array(self.contexts)[self._context].unexpected_base),
            message.announces.eq(Array(self.contexts)[self._context].announces),
            message.orders_done.eq(self._orders_done[self._context]),
            order.order.eq(self.orders.p),
            order.found.eq(self._found),
            order.message.eq(self._message),
            order.slot.eq(self._slot),
            self.again.eq(order.again),
            self.used.eq(order.used),
            self.decided.p.eq(
                Mux(
                    self._is_order,
                    order.entry.as_value(),
                    Mux(self._is_ending, ending.as_value(), message.decided.as_value()),
                )
            ),
        ]

    def _elaborate_keys(self, m, posted, waiting, message, order):
        """Assign the keys that the lists look for, and the entries that are put into them."""
        m.d.comb += [
            posted.list.eq(Mux(self._is_search, self.searches.p.context, self._context)),
            waiting.list.eq(self._context),
            posted.key.cancels.eq(self._is_order & ~self._is_search),
            posted.key.user_context.eq(order.receive.user_context),
            *(
                posted.key[name].eq(Mux(self._is_search, self.searches.p.key[name], message.message[name]))
                for name in ("tagged", "tag", "source_ip", "source_context", "target")
            ),
            posted.entry.eq(Mux(self._is_order, order.receive.as_value(), message.rest.as_value())),
            *(waiting.key[name].eq(order.receive[name]) for name, _ in WAITING_KEY),
            waiting.entry.eq(message.message),
        ]

    def _elaborate_choice(self, m, posted, receives, stalled):
        """Choose the next work. A release goes before its generation's lists are emptied, which hold its slot."""
        event, order = self.messages.p.answer.event, self.orders.p
        others = self.messages.valid | self.gives_up | self.searches.valid
        takes_order = self.orders.valid & ~self.keeps & (~others | ~self._is_order)
        searches = self.searches.valid & ~takes_order
        chosen = Signal(range(self._parameters.contexts))
        generation = Mux(takes_order, order.generation, event.generation)
        target = Array(self.generations)[event.target[: len(chosen)]]
        m.d.comb += chosen.eq(Mux(takes_order, order.context, Mux(searches, self.searches.p.context, event.context)))
        pdc = Mux(stalled.has_stalled, stalled.first, self.messages.p.answer.spdcid)
        m.d.comb += [receives.read.eq(1), receives.pdc.eq(pdc)]
        m.d.sync += [self._found.eq(0), self._takes_open.eq(0), self._pdc.eq(pdc)]
        # For every choice: in this state the lists do nothing but begin a search, and the path to them stays short.
        m.d.comb += self._is_search.eq(1)
        for index in reversed(range(self._parameters.contexts)):
            with m.If(~self.settled[index]):
                m.d.sync += self._emptied.eq(index)
        with m.If(self.releases.valid):
            m.next = "RELEASE"
        with m.Elif(~self.settled.all()):
            m.next = "EMPTY"
        with m.Elif(stalled.has_stalled):
            m.d.sync += [self._is_order.eq(0), self._is_ending.eq(1)]
            m.next = "FIND"
        with m.Elif(self.messages.valid | self.gives_up | searches | takes_order):
            m.d.sync += [
                self._is_order.eq(takes_order),
                self._is_ending.eq(self.gives_up & ~takes_order),
                self._context.eq(chosen),
                self._is_current.eq(
                    (Array(self.generations)[chosen] == generation)
                    & (takes_order | (target == self.messages.p.message.target_generation))
                ),
            ]
            m.next = "FIND"
            with m.If(searches):
                self._elaborate_question(m, posted)
                m.next = "ASK"

    def _elaborate_release(self, m, waiting):
        m.d.comb += [
            waiting.commands.valid.eq(1),
            waiting.commands.p.action.eq(ListAction.RELEASE),
            waiting.commands.p.list.eq(self.releases.p.context),
            waiting.commands.p.index.eq(self.releases.p.slot),
            waiting.results.ready.eq(1),
            self.releases.ready.eq(waiting.commands.ready),
        ]
        with m.If(waiting.commands.ready):
            m.next = "REST"

    def _elaborate_question(self, m, posted):
        """Search the list, which needs two cycles at least: nothing is found in the cycle that chooses the search."""
        m.d.comb += [
            posted.commands.valid.eq(1),
            posted.commands.p.action.eq(ListAction.FIND),
            posted.results.ready.eq(1),
            self.found.eq(posted.results.p.found),
            self.searches.ready.eq(posted.commands.ready),
        ]
        with m.If(posted.commands.ready):
            m.next = "REST"

    def _elaborate_emptying(self, m, posted, waiting):
        for lists in (posted, waiting):
            m.d.comb += [
                lists.commands.valid.eq(1),
                lists.commands.p.action.eq(ListAction.CLEAR),
                lists.commands.p.list.eq(self._emptied),
                lists.results.ready.eq(1),
            ]
        with m.If(waiting.commands.ready):
            m.d.sync += [
                self._generations[self._emptied].eq(Array(self.generations)[self._emptied]),
                self._orders_done[self._emptied].eq(0),
            ]
            m.next = "REST"

    def _elaborate_search(self, m, posted, waiting, message, order):
        """In the list of the other side; for a CANCEL in that of its own, and among the open receives."""
        void, kind = Signal(), self.messages.p.message
        continues = kind.divided & self.messages.p.answer.continues
        in_posted = Signal()
        m.d.comb += [
            void.eq(
                Mux(
                    self._is_order,
                    ~self._is_current | order.refused,
                    ~message.allowed | self._is_ending | continues,
                )
            ),
            in_posted.eq(~self._is_order | order.cancels),
            posted.commands.valid.eq(~void & in_posted),
            waiting.commands.valid.eq(~void & ~in_posted),
        ]
        for lists in (posted, waiting):
            m.d.comb += [lists.commands.p.action.eq(ListAction.FIND), lists.results.ready.eq(1)]
        m.d.sync += [
            self._receive.eq(posted.results.p.entry),
            self._message.eq(waiting.results.p.entry),
            self._slot.eq(waiting.results.p.index),
        ]
        with m.If(void):
            m.next = "GIVE"
        with m.Elif(posted.commands.ready | waiting.commands.ready):
            m.d.sync += self._found.eq(Mux(in_posted, posted.results.p.found, waiting.results.p.found))
            m.next = "CHANGE"
            with m.If(~self._is_order & kind.atomic & ~posted.results.p.found):
                # It changes nothing.
                m.next = "GIVE"
            with m.If(order.cancels & self._is_order & ~posted.results.p.found & self.open.any()):
                m.d.sync += self._unscanned.eq(self.open)
                m.next = "READ"

    def _elaborate_reading(self, m, receives):
        """Read the next open receive for a CANCEL."""
        lowest, choice = first_of(m, self._unscanned)
        m.d.comb += [receives.read.eq(1), receives.pdc.eq(choice)]
        m.d.sync += self._unscanned.eq(self._unscanned & ~lowest)
        m.next = "SCAN"

    def _elaborate_scan(self, m, receives, order):
        row = receives.row
        found = Signal()
        m.d.comb += found.eq(
            (row.context == self._context)
            & (row.generation == self.orders.p.generation)
            & (row.user_context == order.receive.user_context)
        )
        m.d.sync += [self._found.eq(found), self._takes_open.eq(found)]
        m.next = "READ"
        with m.If(found | (self._unscanned == 0)):
            m.next = "GIVE"

    def _elaborate_change(self, m, posted, waiting, message, order):
        """Both lists rest: where both have something to do, they are done in the same cycle."""
        cancels = order.cancels & self._found
        with m.If(self._is_order):
            m.d.comb += [
                posted.commands.valid.eq(order.posts | cancels),
                posted.commands.p.action.eq(Mux(order.posts, ListAction.APPEND, ListAction.REMOVE)),
                waiting.commands.valid.eq(order.takes),
                waiting.commands.p.action.eq(ListAction.UNLINK),
            ]
        with m.Else():
            m.d.comb += [
                posted.commands.valid.eq(message.meets),
                posted.commands.p.action.eq(Mux(message.used_up, ListAction.REMOVE, ListAction.REPLACE)),
                waiting.commands.valid.eq(message.into_slot),
                waiting.commands.p.action.eq(Mux(message.waits, ListAction.APPEND, ListAction.ALLOCATE)),
            ]
        m.d.comb += [posted.results.ready.eq(1), waiting.results.ready.eq(1)]
        with m.If(waiting.commands.ready & ~self._is_order):
            m.d.sync += self._slot.eq(waiting.results.p.index)
        with m.If(
            (posted.commands.ready | ~posted.commands.valid) & (waiting.commands.ready | ~waiting.commands.valid)
        ):
            m.next = "GIVE"

    def _elaborate_end(self, m, receives, message, order):
        done = Signal()
        posted_or_late = self._is_order & (order.posts | ~self._is_current)
        release, event = self.event_release, self.messages.p.answer.event
        is_message = ~self._is_order & ~self._is_ending
        needless = event.reserved & ~message.decided.answer.event.reserved & ~message.begins
        # Of a CANCEL that takes an open receive back, it is the entry kept for that.
        unused = Mux(self._is_order, posted_or_late | self._takes_open, needless & ~self._is_ending)
        m.d.comb += [
            receives.begin.eq(done & is_message & message.begins),
            receives.end.eq(done & Mux(self._is_order, self._takes_open, self._is_ending | message.ends)),
            self.decided.valid.eq(~posted_or_late),
            done.eq(posted_or_late | self.decided.ready),
            self.messages.ready.eq(done & is_message),
            self.orders.ready.eq(done & self._is_order),
            release.valid.eq(done & unused),
            release.context.eq(self._context),
            release.generation.eq(Mux(self._is_order, self.orders.p.generation, event.generation)),
            self.count_messages_matched.eq(self.messages.ready & message.meets),
            self.count_messages_unexpected.eq(self.messages.ready & message.waits),
        ]
        with m.If(self.orders.ready & self._is_current & ~self.again):
            m.d.sync += self._orders_done[self._context].eq(self._orders_done[self._context] + 1)
        with m.If(done):
            m.next = "REST"
