"""The target's sharp edges: which packet is executed, which answer may be replayed, space for events, counts."""

from amaranth.hdl import Assert, Assume, Cat, Const, Cover, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_hw.interfaces import CONTEXT, COUNT_ORDER, FRAME_HEADER
from amoeba_hw.request_records import ADVANCES
from amoeba_hw.target.answer_history import AnswerHistory
from amoeba_hw.target.answer_store import AnswerStore
from amoeba_hw.target.closing_order import ClosingOrder
from amoeba_hw.target.count_orders import CountOrders
from amoeba_hw.target.event_credits import EventCredits
from amoeba_hw.target.idle_pdcs import IdlePdcs
from amoeba_hw.target.open_messages import OpenMessages
from amoeba_hw.target.receivers import Receivers
from amoeba_hw.target.sequence import PDC_STATE, SequenceRules, packet_view
from amoeba_model.nic.pdc import LATE_LIMIT
from amoeba_model.wire.uet import NackCode, RequestOpcode

from tests.formal.rules import StreamRules, connect_ports, drive_inputs, never_reset, open_up

__all__ = [
    "ClosingOrderSpec",
    "CountOrdersSpec",
    "EventCreditsSpec",
    "IdlePdcsSpec",
    "KeptAnswerSpec",
    "OpenMessagesSpec",
    "ReceiversSpec",
    "SequenceSpec",
]

WINDOW = 256


class SequenceSpec(wiring.Component):
    """SequenceRules: only the expected packet is accepted, and it always is if there is space; combinational.

    ``behind`` is any distance below half of all psns.
    """

    def __init__(self):
        super().__init__(
            {
                "packet": In(FRAME_HEADER),
                "before": In(PDC_STATE),
                "found": In(1),
                "available": In(1),
                "remembered": In(1),
                "blocked": In(1),
                "has_slot": In(1),
                "held": In(1),
                "behind": In(31),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.rules = rules = SequenceRules(WINDOW)
        packet, before, verdict, after = self.packet, self.before, rules.verdict, rules.after
        view = packet_view(packet, WINDOW)
        furthest, furthest_after = Signal(32), Signal(32)
        """How far what is kept, or was asked for, is ahead of the expected psn."""
        m.d.comb += [
            furthest.eq(before.asked - before.expected),
            furthest_after.eq(after.asked - after.expected),
            *(rules.packet[name].eq(value) for name, value in view.items()),
            rules.before.eq(before),
            rules.found.eq(self.found),
            rules.available.eq(self.available),
            rules.remembered.eq(self.remembered),
            rules.blocked.eq(self.blocked),
            rules.has_slot.eq(self.has_slot),
            rules.held.eq(self.held),
            # So it is when the PDC is opened, and stays: see below.
            Assume(furthest <= WINDOW),
            # So the FrameParser reads an ACK_REQUEST.
            Assume(~packet.asks | (packet.is_control & ~packet.syn)),
        ]
        kinds = Cat(verdict.accepted, verdict.duplicate, verdict.dropped_pdc, verdict.dropped_sequence, verdict.kept)
        one = Signal()
        ahead, asked_behind = Signal(32), Signal(32)
        m.d.comb += [
            one.eq((kinds != 0) & ((kinds & (kinds - 1)) == 0)),
            ahead.eq(packet.psn - before.expected),
            asked_behind.eq(packet.psn - before.asked),
        ]
        is_next = packet.psn == before.expected
        starts = packet.syn & (packet.dpdcid == 0)
        first = (packet.psn - packet.dpdcid)[:32]
        behind = (before.expected - 1 - first)[:32]
        # Whoever begins anew where an open PDC goes on, goes on there.
        continues = (
            ~before.closed
            & ~packet.is_control
            & ~self.remembered
            & ((behind < LATE_LIMIT) | (first == before.expected))
            & ~ahead[31]
        )
        same = self.found & (~packet.syn | (before.start == first) | continues)
        late = self.found & packet.syn & ~same & (behind < LATE_LIMIT)
        # The last packet of a connection, of which this is not the next one nor was the last.
        former = same & packet.is_control & ~packet.asks & (ahead >= WINDOW) & (ahead != 0xFFFF_FFFF)
        fits = ~packet.clear_psn_offset[15] | (packet.clear_psn_offset >= 0x1_0000 - WINDOW)
        starts_message, ends_message, has_data = (packet.flags[number] for number in (0, 1, 2))
        pending = ~ends_message & Mux(starts_message, has_data, before.data_pending & ~verdict.opens)
        drops_aloud = same & ~is_next & ~packet.asks & verdict.dropped_sequence & verdict.nack
        not_received = packet.asks & same & ~before.closed & ~ahead[31]
        reads = ~packet.is_control & (packet.opcode == RequestOpcode.READ.value)
        again = Mux(reads, Mux(asked_behind[31], packet.psn, before.asked), before.expected)
        m.d.comb += [
            Assert(one),
            # Executed is the first packet of a new PDC or exactly the next one of an open one...
            Assert(~verdict.accepted | verdict.opens | (same & is_next & ~before.closed)),
            Assert(~verdict.opens | (starts & ~same & ~late & self.available & ~self.remembered)),
            Assert(rules.known == (same | late)),
            # Packets of an earlier epoch open nothing.
            Assert(~late | verdict.duplicate),
            # The opening after a CLOSE may begin where that ended.
            Assert(verdict.opens | ~(starts & ~same & self.found & is_next & self.available & ~self.remembered)),
            # No request opens a PDC while its sender has an open one that expects it.
            Assert(~(verdict.opens & self.found & is_next) | before.closed | packet.is_control),
            # ... and that always, if its answer can be kept, and its event or message.
            Assert(verdict.accepted | packet.asks | ~(same & is_next & ~before.closed & fits & ~self.blocked)),
            # An ACK_REQUEST changes nothing, and says whether its packet was executed.
            Assert(~packet.asks | ~(verdict.opens | verdict.accepted | verdict.kept)),
            Assert(~not_received | (verdict.nack & (verdict.nack_code == NackCode.PKT_NOT_RCVD.value))),
            Assert(~not_received | (verdict.nack_psn == packet.psn)),
            Assert(~verdict.accepted | (fits & ~self.blocked)),
            # The expected psn moves by the packet accepted and by nothing else.
            Assert(~verdict.accepted | (after.expected == (packet.psn + 1)[:32])),
            Assert(verdict.accepted | verdict.opens | (after.expected == before.expected)),
            Assert(verdict.opens | (after.start == before.start)),
            Assert(~verdict.opens | (after.start == packet.psn)),
            Assert(~verdict.opens | verdict.accepted | (after.expected == packet.psn)),
            # Whether a message has begun with immediate data, and not ended, is known from accepted packets alone.
            Assert(after.data_pending == Mux(verdict.accepted, pending, before.data_pending & ~verdict.opens)),
            # Kept is only a packet that comes too early, by less than the window, once, and where there is a slot.
            Assert(~verdict.kept | (same & ~before.closed & fits & self.has_slot & ~self.held)),
            Assert(~verdict.kept | ((ahead != 0) & (ahead < WINDOW))),
            # ... and that aloud if packets are missing that were not asked for: as many as are in between.
            Assert(~verdict.kept | (verdict.nack == ((asked_behind != 0) & ~asked_behind[31]))),
            Assert(~(verdict.kept & verdict.nack) | ((verdict.nack_psn + verdict.missing)[:32] == packet.psn)),
            Assert(~(verdict.kept & verdict.nack) | (verdict.nack_psn == before.asked)),
            Assert((verdict.missing == 0) | (verdict.kept & verdict.nack)),
            # One that is dropped behind a gap has everything from the gap on repeated; a READ everything from itself
            # on, or from behind what was asked for before.
            Assert(~drops_aloud | (verdict.nack_psn == again)),
            # Nothing is asked for twice: that psn moves on only, to behind what is kept or asked for, if anywhere.
            Assert(furthest_after <= WINDOW),
            Assert(verdict.opens | (after.asked == before.asked) | (after.asked == (packet.psn + 1)[:32])),
            Assert(verdict.opens | ((after.asked - before.asked)[:32] <= WINDOW)),
            Assert(~verdict.kept | ((after.asked - packet.psn - 1)[:32] <= WINDOW)),
            # What is not accepted and no duplicate is refused aloud, but a gap that was reported already, and what
            # is kept.
            Assert(
                verdict.nack
                | verdict.accepted
                | verdict.duplicate
                | verdict.kept
                | (same & (self.held | (before.nacked & ~packet.retx)))
            ),
            Assert(~verdict.nack | (~verdict.accepted & ~verdict.duplicate)),
            # A CLOSE of a former epoch has been executed: its sender learns that there is no such PDC any more.
            Assert(~former | verdict.dropped_pdc),
            # Who finds his PDC closed learns whether he did that himself, for as long as it is his.
            Assert(
                ~(same & (before.closed | former) & verdict.dropped_pdc)
                | (verdict.nack_code == Mux(before.expelled, NackCode.CLOSING.value, NackCode.INV_DPDCID.value))
            ),
            Assert(~verdict.nack | (verdict.nack_code != NackCode.CLOSING.value) | (same & before.expelled)),
            Assert(after.expelled == (before.expelled & ~verdict.opens)),
            Assert(~(verdict.nack & ~verdict.has_pdc) | verdict.dropped_pdc),
        ]
        # Any other packet from before, up to half of all psns, is a duplicate; also after the turn of the numbers.
        with m.If(same & (self.behind != 0) & ((packet.psn + self.behind)[:32] == before.expected)):
            m.d.comb += Assert(verdict.duplicate | former)
        with m.If(same & ((before.expected + self.behind)[:32] == packet.psn)):
            m.d.comb += Assert(~verdict.duplicate)
        return m


class KeptAnswerSpec(wiring.Component):
    """An answer is replayed only after it was given, in the same epoch, and while it is the one kept.

    One PDC with a window of 2; answers are stored (begun) and given in the order of their psns. The solver picks
    an answer to watch: its psn and epoch.
    """

    def __init__(self):
        super().__init__(
            {
                "begins": In(1),
                "opens": In(1),
                "first": In(32),
                "turn": In(1),
                "given": In(1),
                "ask": In(1),
                "asked_psn": In(32),
                "asked_epoch": In(2),
            }
        )

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.history = history = AnswerHistory(2, 2)
        m.submodules.store = store = AnswerStore(2, 2)
        # What is begun, and behind it what is given: the order of a queue of at most two answers.
        psns = [Signal(32, name=f"psn_{place}") for place in range(2)]
        epochs = [Signal(2, name=f"epoch_{place}") for place in range(2)]
        level = Signal(2)
        last, epoch, any_begun = Signal(32), Signal(2), Signal()
        psn = Mux(self.opens | ~any_begun, self.first, (last + 1)[:32])
        number = (epoch + (self.opens & any_begun))[:2]
        in_turn = Signal()
        connections = Signal(2)
        m.d.comb += [
            Assume(~self.begins | (level < 2)),
            Assume(~self.turn | ((level != 0) & ~in_turn)),
            Assume(~self.given | in_turn),
            # Fewer SYNs than epochs.
            Assume(~(self.begins & self.opens & (connections == 2))),
            store.store.valid.eq(self.begins),
            store.store.answer.psn.eq(psn),
            store.store.answer.epoch.eq(number),
            history.turn.valid.eq(self.turn),
            history.turn.psn.eq(psns[0]),
            history.turn.epoch.eq(epochs[0]),
            history.given.eq(self.given),
        ]
        for consumer in (history.ask, store.ask):
            m.d.comb += [
                consumer.valid.eq(self.ask),
                consumer.psn.eq(self.asked_psn),
                consumer.epoch.eq(self.asked_epoch),
            ]
        left = (level - self.given)[:2]
        with m.If(self.begins):
            m.d.sync += [last.eq(psn), epoch.eq(number), any_begun.eq(1), connections.eq(connections + self.opens)]
        m.d.sync += [level.eq(left + self.begins), in_turn.eq((in_turn | self.turn) & ~self.given)]
        with m.If(self.given):
            m.d.sync += [psns[0].eq(psns[1]), epochs[0].eq(epochs[1])]
        with m.If(self.begins):
            with m.If(left == 0):
                m.d.sync += [psns[0].eq(psn), epochs[0].eq(number)]
            with m.Else():
                m.d.sync += [psns[1].eq(psn), epochs[1].eq(number)]
        self._prove_answer(m, history, store, psn, number, psns[0], epochs[0])
        return m

    def _prove_answer(self, m, history, store, psn, number, given_psn, given_epoch):
        """Follows the answer that is asked for: whether it was given, and whether its place was taken since."""
        asked, held = Signal(), Signal()
        watched_psn, watched_epoch = self.asked_psn, self.asked_epoch
        was_psn, was_epoch = Signal(32), Signal(2)
        was_given, was_taken = Signal(), Signal()
        m.d.sync += [was_psn.eq(watched_psn), was_epoch.eq(watched_epoch), held.eq(1)]
        # One answer is watched from the start of the proof to its end.
        m.d.comb += Assume(~held | ((was_psn == watched_psn) & (was_epoch == watched_epoch)))
        is_it = (psn == watched_psn) & (number == watched_epoch)
        with m.If(self.begins & (psn[0] == watched_psn[0])):
            m.d.sync += was_taken.eq(~is_it)
        with m.If(self.given & (given_psn == watched_psn) & (given_epoch == watched_epoch)):
            m.d.sync += was_given.eq(1)
        replayed = asked & history.answered & store.intact
        may = Signal()
        m.d.sync += asked.eq(self.ask)
        with m.If(self.ask):
            m.d.sync += may.eq(was_given & ~was_taken)
        m.d.comb += [
            Assert(~replayed | may),
            Cover(replayed & (watched_psn == 0xFFFF_FFFF) & may),
            Cover(asked & ~replayed & was_given & was_taken),
        ]


class EventCreditsSpec(wiring.Component):
    """EventCredits: a ring of 8 never has more than 4 entries reserved, written or not, and not consumed.

    The driver consumes no more than was written; what is reserved is either written or released, once. Space is
    found whenever there is some. Requests look for space before they reserve it, and find it then, whatever receive
    descriptors take meanwhile; those look and reserve in the same cycle.
    """

    def __init__(self):
        super().__init__(
            {
                "look": In(1),
                "reserve": In(1),
                "order_reserve": In(1),
                "write": In(1),
                "release": In(1),
                "order_release": In(1),
                "consume": In(1),
                "disable": In(1),
                "stale": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.credits = credits = EventCredits(1)
        # The naive account: numbers of entries.
        reserved, written, head = Signal(4), Signal(4), Signal(16)
        was_disabled = Signal()
        seen = Signal()
        generation = credits.generations[0]
        reservations = Signal(2)
        returns = Signal(2)
        m.d.sync += was_disabled.eq(self.disable)
        m.d.sync += seen.eq(Mux(self.look, credits.open[0], seen & ~self.reserve & ~self.disable))
        m.d.comb += [
            credits.contexts[0].enable.eq(~self.disable),
            credits.contexts[0].event_base.eq(64),
            credits.contexts[0].event_size.eq(3),
            reservations.eq(self.reserve + self.order_reserve),
            returns.eq(self.release + self.order_release),
            Assume(~self.reserve | (seen & ~self.look)),
            Assume(~self.order_reserve | credits.order_open[0]),
            Assume(reserved >= self.write + returns),
            Assume(~self.consume | (written != 0)),
            # The index that the driver writes, and claims, belong to the context as it is now.
            Assume(
                ~(self.disable | was_disabled) | ~(reservations.any() | self.write | returns.any() | self.consume)
            ),
            Assume(~(self.stale & self.release)),
            credits.reserve.valid.eq(self.reserve),
            credits.reserve.generation.eq(generation),
            credits.release.valid.eq(self.release | self.stale),
            credits.release.generation.eq(generation - self.stale),
            credits.order_reserve.valid.eq(self.order_reserve),
            credits.order_reserve.generation.eq(generation),
            credits.order_release.valid.eq(self.order_release),
            credits.order_release.generation.eq(generation),
            credits.heads.valid.eq(self.consume),
            credits.heads.p.index.eq(head + 1),
        ]
        with m.If(self.disable):
            m.d.sync += [reserved.eq(0), written.eq(0), head.eq(0)]
        with m.Else():
            m.d.sync += [
                reserved.eq(reserved + reservations - self.write - returns),
                written.eq(written + self.write - self.consume),
                head.eq(head + self.consume),
            ]
        active = ~self.disable
        space = credits._credits[0]
        m.d.comb += [
            Assert(reserved + written <= 4),
            Assert(credits.open[0] == (active & (reserved + written < 4))),
            Assert(credits.blocked[0] == (active & (reserved + written >= 4))),
            Assert(credits.order_open[0] == (active & (reserved + written < 3))),
            # For the induction: what was seen is still there, and how the component keeps the account.
            Assert(~seen | self.disable | was_disabled | (reserved + written < 4)),
            Assert((space._reserved + space._balance - head)[:16] == (reserved + written)[:16]),
            Assert(space._consumed == head),
            Cover(credits.blocked[0] & (written == 2)),
            Cover(credits.open[0] & (head == 5)),
            Cover(self.reserve & self.order_reserve & (reserved + written == 2)),
        ]
        return m


class ClosingOrderSpec(wiring.Component):
    """ClosingOrder of 3: the first is what has been in the list for longest, of those that are not refused."""

    def __init__(self):
        super().__init__({"remove": In(1), "removed": In(2), "append": In(1), "appended": In(2), "refused": In(3)})

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.dut = dut = ClosingOrder(3, reserved=range(1, 3))
        m.d.comb += [getattr(dut, name).eq(getattr(self, name)) for name in self.signature.members]
        # Per number: whether it is in the list, and how many of those inside came before it.
        inside = [Signal(name=f"inside_{number}") for number in range(3)]
        before = [Signal(2, name=f"before_{number}") for number in range(3)]
        removed = [self.remove & (self.removed == number) for number in range(3)]
        appended = [self.append & (self.appended == number) for number in range(3)]
        count = sum(inside, Const(0, 1))
        place_removed = Mux(removed[0], before[0], Mux(removed[1], before[1], before[2]))
        for number in range(3):
            m.d.sync += inside[number].eq((inside[number] & ~removed[number]) | appended[number])
            with m.If(appended[number]):
                m.d.sync += before[number].eq(count - self.remove)
            with m.Elif(self.remove & (before[number] > place_removed)):
                m.d.sync += before[number].eq(before[number] - 1)
            counts = [inside[each] & ~(self.refused[each] if each else 0) for each in range(3)]
            was_first = Signal(name=f"was_first_{number}")
            m.d.sync += was_first.eq(
                counts[number] & ~Cat(counts[each] & (before[each] < before[number]) for each in range(3)).any()
            )
            m.d.comb += [
                Assume(~removed[number] | inside[number]),
                Assume(~appended[number] | ~inside[number] | removed[number]),
                Assert(~was_first | (dut.first == number)),
            ]
        had_any, held_any = Signal(), Signal()
        m.d.sync += [had_any.eq(Cat(counts).any()), held_any.eq(count != 0)]
        m.d.comb += [
            Assume((self.removed < 3) & (self.appended < 3)),
            Assert(dut.empty == ~had_any),
            Cover(dut.empty & held_any),
            Cover((count == 3) & self.remove & self.append & (before[1] == 1) & removed[1]),
        ]
        return m


class CountOrdersSpec(wiring.Component):
    """CountOrders: as many orders as an answer has counters but number 0, the first counter's first."""

    advances: In(stream.Signature(ADVANCES))
    orders: Out(stream.Signature(COUNT_ORDER))

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        dut = CountOrders()
        m.submodules.dut, registers = open_up(dut, platform)
        connect_ports(m, self, dut)
        m.submodules.environment = StreamRules(self.advances, Assume)
        m.submodules.contract = StreamRules(self.orders, Assert)
        first, second, third = self.advances.p.counters
        given = Signal(2)
        """Orders given of the answer at hand."""
        gives, ends = self.orders.valid & self.orders.ready, self.advances.valid & self.advances.ready
        m.d.sync += given.eq(Mux(ends, 0, given + gives))
        number, total = Signal(8), Signal(2)
        m.d.comb += total.eq((first != 0) + (second != 0) + (third != 0))
        before = Const(0, 2)
        for counter in (first, second, third):
            with m.If((counter != 0) & (given == before)):
                m.d.comb += number.eq(counter)
            before = before + (counter != 0)
        m.d.comb += [
            Assert(~gives | ((self.orders.p.counter != 0) & (self.orders.p.counter == number))),
            Assert(~gives | (self.orders.p.error == self.advances.p.error)),
            Assert(~ends | (given + gives == total)),
            # Nobody waits for anything but the orders.
            Assert(~(self.advances.valid & self.orders.ready) | gives | ends),
            # For the induction: how the component knows, and that it is on an answer then.
            Assert(given == (registers["given"][0] & (first != 0)) + (registers["given"][1] & (second != 0))),
            Assert(registers["given"][0] | ~registers["given"][1]),
            Assert((registers["given"] == 0) | (self.advances.valid & (given != 0) & (given < total))),
            Cover(ends & gives & (given == 2)),
            Cover(ends & ~gives),
        ]
        return m


class ReceiversSpec(wiring.Component):
    """Receivers of three contexts, seen from any of them: its own registers and its receiver's decide, nobody else's.

    ``chosen`` is the context that is looked at; combinational.
    """

    _CONTEXTS = 3

    def __init__(self):
        super().__init__({"contexts": In(CONTEXT).array(self._CONTEXTS), "chosen": In(range(self._CONTEXTS))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.receivers = receivers = Receivers(self._CONTEXTS)
        m.d.comb += Assume(self.chosen < self._CONTEXTS)
        for number in range(self._CONTEXTS):
            m.d.comb += receivers.contexts[number].eq(self.contexts[number])
        with m.Switch(self.chosen):
            for number in range(self._CONTEXTS):
                with m.Case(number):
                    self._elaborate_rules(m, number, receivers.receivers[number], receivers.takes_messages[number])
        return m

    def _elaborate_rules(self, m, number, receiver, takes_messages):
        context = self.contexts[number]
        with m.If(~context.enable):
            m.d.comb += Assert(~receiver.valid & ~takes_messages)
        with m.Elif(context.shares_receives & (context.receive_context >= self._CONTEXTS)):
            m.d.comb += Assert(~receiver.valid & ~takes_messages)
        with m.Else():
            m.d.comb += Assert(receiver.valid)
            for other in range(self._CONTEXTS):
                with m.If(Mux(context.shares_receives, context.receive_context == other, other == number)):
                    rings = self.contexts[other]
                    able = rings.enable & (rings.event_base != 0) & (rings.unexpected_base != 0)
                    m.d.comb += [Assert(receiver.context == other), Assert(takes_messages == able)]


class OpenMessagesSpec(wiring.Component):
    """OpenMessages of two PDCs: a packet without START passes exactly where the one accepted before it, of the same
    PDC, passed as a part of the same message that ends where this one begins.

    A PDC's epochs never return here. Each packet is looked up as ``following`` before it is in hand.
    """

    _PDCS = 2

    def __init__(self):
        self._dut = OpenMessages(self._PDCS)
        members = self._dut.signature.members
        inputs = {name: member for name, member in members.items() if member.flow == In}
        super().__init__({**inputs, "chosen": In(range(self._PDCS))})

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.dut = dut = self._dut
        drive_inputs(m, self, dut)
        chosen, looked_up, begun = Signal.like(self.chosen), Signal.like(self.pdc), Signal()
        m.d.sync += [chosen.eq(self.chosen), begun.eq(1)]
        with m.If(self.advance):
            m.d.sync += looked_up.eq(self.following)
        ready = Signal()
        with m.If(self.advance):
            m.d.sync += ready.eq(1)
        m.d.comb += [
            Assume(~begun | (chosen == self.chosen)),
            # The packet in hand is the one that was looked up.
            Assume(~ready | (self.pdc == looked_up)),
            Assume(ready | ~self.accepted),
            Assume(~self.passed | ~(dut.stray | dut.other_key)),
        ]
        before, is_open, received = Signal.like(self.packet), Signal(), Signal(32)
        has_data, data = Signal(), Signal(64)
        mine, packet = self.pdc == self.chosen, self.packet
        with m.If(self.advance & self.accepted & mine):
            m.d.sync += [
                before.eq(packet),
                is_open.eq(self.passed & ~packet.ends),
                received.eq(packet.offset + packet.size),
            ]
            with m.If(packet.starts):
                m.d.sync += [has_data.eq(packet.has_data), data.eq(packet.data)]
        same = (before.epoch == packet.epoch) & (before.identity.as_value() == packet.identity.as_value())
        continues = is_open & same & (received == packet.offset)
        part = ready & mine & ~packet.starts
        m.d.comb += [
            Assert(~part | (dut.stray == ~continues)),
            Assert(~part | (dut.other_key == (continues & (before.key != packet.key)))),
            Assert(~(ready & mine & packet.starts) | ~(dut.stray | dut.other_key)),
            Assert(~(part & continues) | ((dut.has_data == has_data) & (dut.data == data))),
            Cover(part & continues & has_data & (received == 7) & packet.ends),
            Cover(part & dut.other_key),
        ]
        return m


class IdlePdcsSpec(wiring.Component):
    """IdlePdcs of two PDCs, with a tick in each cycle: one that is in the middle of a message is a second choice."""

    _PDCS = 2

    def __init__(self):
        names = {"came": 1, "pdc": range(self._PDCS), "resets": 1, "begins": 1}
        masks = {"counts": self._PDCS, "refused": self._PDCS}
        super().__init__({name: In(shape) for name, shape in {**names, **masks}.items()})

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.dut = dut = IdlePdcs(self._PDCS)
        m.d.comb += [getattr(dut, name).eq(getattr(self, name)) for name in self.signature.members]
        quiet = [Signal(2, name=f"quiet_{number}") for number in range(self._PDCS)]
        """Ticks without a packet, at most 2."""
        unfinished, is_idle, is_second = Signal(self._PDCS), Signal(self._PDCS), Signal(self._PDCS)
        for number, age in enumerate(quiet):
            mine = self.pdc == number
            m.d.sync += age.eq(Mux(self.came & mine, 0, Mux(age == 2, 2, age + 1)))
            with m.If(self.resets & mine):
                m.d.sync += unfinished[number].eq(self.begins)
            m.d.comb += is_idle[number].eq((age == 2) & self.counts[number])
        m.d.sync += is_second.eq(is_idle & unfinished & ~self.refused)
        first = is_idle & ~unfinished
        m.d.comb += [
            Assert(dut.idle == first.any()),
            Assert(~dut.idle | (first.bit_select(dut.first, 1) & ((dut.first == 0) | ~first[0]))),
            Assert(dut.has_second == is_second.any()),
            Assert(~dut.has_second | (is_second.bit_select(dut.second, 1) & ((dut.second == 0) | ~is_second[0]))),
            Cover(dut.idle & dut.has_second),
            Cover((is_idle & unfinished & self.refused).any()),
        ]
        return m
