"""The initiator's account of packets: places in the window, and what is kept of a packet until it is answered."""

from amaranth.hdl import Assert, Assume, Cat, Cover, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from amoeba_hw.initiator.packet_log import PacketLog
from amoeba_hw.initiator.records import NOTE
from amoeba_hw.initiator.result_order import ResultOrder
from amoeba_hw.initiator.retransmission_timers import RetransmissionTimers
from amoeba_hw.initiator.retransmitter import Retransmitter
from amoeba_hw.initiator.window_credits import WindowCredits

from tests.formal.rules import StreamRules, connect_ports, drive_inputs, never_reset

__all__ = ["FailingSpec", "FenceOrderSpec", "PacketLogSpec", "RetransmitterSpec", "WindowCreditsSpec"]


class WindowCreditsSpec(wiring.Component):
    """Places taken never exceed the window nor fall below zero, if packets are cut only where there is space.

    A context has all its answers if no PDC of its own has a packet on its way. Of a PDC that has lost something there
    is space for fewer packets, until so many have been answered since.

    The environment cuts at most every second cycle, as the Packetizer does, numbers or drops only what was cut, and
    answers only what was numbered; a reference that counts packets by themselves says what that is.
    """

    def __init__(self, peers=2, window=2, contexts=2, window_after_loss=1, caution=2):
        self._peers = peers
        self._window = window
        self._contexts = contexts
        self._window_after_loss = window_after_loss
        self._caution = caution
        self._dut = WindowCredits(peers, window, contexts, window_after_loss, caution)
        super().__init__(
            {path[0]: member for path, member, _ in self._dut.signature.flatten(self._dut) if member.flow == In}
        )

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.dut = dut = self._dut
        for name in self.signature.members:
            m.d.comb += getattr(dut, name).eq(getattr(self, name))
        recently = Signal()
        m.d.sync += recently.eq(self.cut)
        m.d.comb += [
            Assume(~self.cut | dut.space.bit_select(self.cut_peer, 1)),
            Assume(~(self.cut & recently)),
        ]
        outstanding = [self._prove_peer(m, peer) for peer in range(self._peers)]
        self._prove_contexts(m, outstanding)
        return m

    def _prove_contexts(self, m, outstanding):
        """``outstanding``: by peer, whether packets of it are cut and unanswered."""
        dut = self._dut
        owners = [Signal(range(self._contexts), name=f"context_of{peer}") for peer in range(self._peers)]
        past = Signal()
        m.d.sync += past.eq(1)
        for peer, owner in enumerate(owners):
            with m.If(self.opened & (self.opened_peer == peer)):
                m.d.sync += owner.eq(self.opened_context)
            m.d.comb += Assert(dut._owners[peer] == owner)
        for context in range(self._contexts):
            waits = Signal(name=f"waits{context}")
            m.d.sync += waits.eq(
                Cat(busy & (owner == context) for busy, owner in zip(outstanding, owners, strict=True)).any()
            )
            m.d.comb += [
                Assert(~past | (dut.context_answered[context] == ~waits)),
                Cover(dut.context_answered[context] & ~dut.all_answered.all()),
                Cover(~dut.context_answered[context] & dut.all_answered.any()),
            ]

    def _prove_peer(self, m, peer):
        dut, window = self._dut, self._window
        waiting, unanswered, closing = Signal(range(4 * window)), Signal(range(4 * window)), Signal()
        cut, dropped, numbered, answered, opened = (
            getattr(self, name) & (getattr(self, f"{name}_peer") == peer)
            for name in ("cut", "dropped", "numbered", "answered", "opened")
        )
        past = Signal(1, name=f"past{peer}")
        before = Signal(5, name=f"before{peer}")
        caution = Signal(range(self._caution + 1), name=f"caution_of{peer}")
        lost = self.lost[peer]
        most = Mux(caution != 0, self._window_after_loss, window)
        with m.If(opened | lost):
            m.d.sync += caution.eq(Mux(opened, 0, self._caution))
        with m.Elif(answered & (caution != 0)):
            m.d.sync += caution.eq(caution - 1)
        m.d.comb += [Assume(waiting >= dropped + numbered), Assume(unanswered >= answered)]
        m.d.sync += [
            waiting.eq(waiting + cut - dropped - numbered),
            unanswered.eq(Mux(opened, 0, unanswered + numbered - answered)),
            closing.eq(((closing & ~(answered & self.closed)) | (cut & self.cut_close)) & ~opened),
            past.eq(1),
            before.eq(
                Cat(
                    (waiting + unanswered < most) & ~closing,
                    (waiting == 0) & (unanswered == 0),
                    waiting == 0,
                    unanswered != 0,
                    caution != 0,
                )
            ),
        ]
        shown = Cat(
            *(getattr(dut, name)[peer] for name in ("space", "all_answered", "settled", "unanswered", "cautious"))
        )
        credits = dut._credits[peer]
        m.d.comb += [
            Assert(waiting + unanswered <= window),
            Assert(credits.places == waiting + unanswered),
            Assert(credits.waiting == waiting),
            Assert(credits.closing == closing),
            Assert(credits.caution == caution),
            Assert(~past | (shown == before)),
            # The free space of two cycles ago lets in no packet too many.
            Assert(~dut.space[peer] | (waiting + unanswered < window) | self._newly_cut(m, cut, peer)),
            Cover((waiting == 1) & (unanswered == window - 1)),
            Cover((caution != 0) & (waiting + unanswered == window)),
            Cover((caution == 1) & cut),
            Cover(opened & lost),
            Cover(opened & (waiting != 0) & (unanswered != 0)),
        ]
        return (waiting != 0) | (unanswered != 0)

    def _newly_cut(self, m, cut, peer):
        newly = Signal(name=f"newly_cut{peer}")
        m.d.sync += newly.eq(cut)
        return newly


class PacketLogSpec(wiring.Component):
    """A packet's record is read until ``window`` packets of its PDC came after it, through either side;
    and so is what was noted of its answer, since it was written for the first time. At any time its message is read.
    """

    def __init__(self, peers=2, window=4):
        self._peers = peers
        self._window = window
        self._dut = PacketLog(peers, window, shape=2)
        super().__init__(
            {
                **{
                    path[0]: member for path, member, _ in self._dut.signature.flatten(self._dut) if member.flow == In
                },
                "chosen_peer": In(range(peers)),
                "chosen_psn": In(32),
            }
        )

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.dut = dut = self._dut
        drive_inputs(m, self, dut)
        peer, psn = Signal.like(self.chosen_peer), Signal(32)
        started = Signal()
        m.d.sync += [peer.eq(self.chosen_peer), psn.eq(self.chosen_psn), started.eq(1)]
        m.d.comb += Assume(~started | ((peer == self.chosen_peer) & (psn == self.chosen_psn)))
        mine = (self.write_peer == self.chosen_peer) & (self.write_psn == self.chosen_psn)
        distance = (self.write_psn - self.chosen_psn)[:32]
        noted = Signal()
        entry = Signal(2)
        # Other packets of the PDC that are written meanwhile are within the window.
        near = (distance < self._window) | ((-distance)[:32] < self._window)
        place_bits = self._window.bit_length() - 1
        same_place = self.note_psn[:place_bits] == self.chosen_psn[:place_bits]
        note_near = ~same_place | (self.note_psn == self.chosen_psn)
        m.d.comb += Assume(~self.write | (self.write_peer != self.chosen_peer) | near)
        m.d.comb += [
            Assume(~self.note | dut.note_granted),
            # What is unanswered was written, and nothing else since.
            Assume(~self.note | (self.note_peer != self.chosen_peer) | note_near),
        ]
        message_id, expected_id, names = Signal(16), Signal(16), Signal()
        with m.If(self.write & mine):
            m.d.sync += [noted.eq(1), entry.eq(self.write_entry), message_id.eq(self.write_message_id)]
        m.d.sync += [
            names.eq(noted & (self.named_peer == self.chosen_peer) & (self.named_psn == self.chosen_psn)),
            expected_id.eq(message_id),
        ]
        answer = Signal(NOTE)
        is_known = Signal()
        with m.If(self.write & self.write_new & mine):
            m.d.sync += [answer.eq(0), is_known.eq(1)]
        with m.Elif(self.note & (self.note_peer == self.chosen_peer) & (self.note_psn == self.chosen_psn)):
            m.d.sync += [answer.noted.eq(1), answer.status.eq(self.note_status)]
        asks = Mux(
            self.answer_read,
            (self.answer_peer == self.chosen_peer) & (self.answer_psn == self.chosen_psn),
            (self.resend_peer == self.chosen_peer) & (self.resend_psn == self.chosen_psn),
        )
        asked = Signal()
        expected = Signal(2)
        knows, expected_note = Signal(), Signal(NOTE)
        by_resend = Signal()
        m.d.sync += [
            asked.eq(noted & asks),
            expected.eq(entry),
            knows.eq(is_known & asks),
            expected_note.eq(answer),
            by_resend.eq(~self.answer_read),
        ]
        m.d.comb += [
            Assert(dut.resend_granted == ~self.answer_read),
            Assert(~asked | (dut.entry == expected)),
            Assert(~knows | (dut.noted == expected_note)),
            Assert(~names | (dut.named_message_id == expected_id)),
            Cover(names & asked),
            Cover(knows & dut.noted.noted),
            Cover(asked & by_resend),
            Cover(asked & ~by_resend),
        ]
        return m


class RetransmitterSpec(wiring.Component):
    """For any request, the Retransmitter sends again unanswered packets only, and none whose answer was kept but
    the oldest; a failed PDC does not go back.

    The unanswered packets of all PDCs are the same here, and none is answered meanwhile.
    """

    def __init__(self, peers=2, window=4):
        self._window = window
        self._dut = Retransmitter(peers)
        super().__init__(self._dut.signature)

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.dut = dut = self._dut
        connect_ports(m, self, dut)
        m.submodules.contract = StreamRules(self.resends, Assert)
        started = Signal()
        oldest, end = Signal(32), Signal(32)
        m.d.sync += [started.eq(1), oldest.eq(self.resend_oldest), end.eq(self.resend_end)]
        outstanding, distance = Signal(32), Signal(32)
        begun, was_kept = Signal(), Signal()
        m.d.sync += [begun.eq(~self.resends.valid | self.resends.ready), was_kept.eq(self.log_noted)]
        held, sending_again, failed = (
            bits.bit_select(self.timer_peer, 1) for bits in (self.held, self.sending_again, self.failed)
        )
        m.d.comb += [
            outstanding.eq(self.resend_end - self.resend_oldest),
            distance.eq(self.resends.p.psn - self.resend_oldest),
            Assume(~started | ((oldest == self.resend_oldest) & (end == self.resend_end))),
            Assume(outstanding <= self._window),
            # The rules of the timers.
            Assume(~(self.expired | self.given_up | self.released) | ~self.recover),
            Assume(~self.released | held),
            Assume(~self.expired | ~(held | sending_again | failed)),
            # A PDC that is told to fail does so also while it is held back or sends again.
            Assume(~self.given_up | ~failed),
            Assume(~self.given_up | ~self.expired & ~self.released),
            Assert(~self.resends.valid | ((distance < outstanding) & self.resends.p.resend)),
            Assert(~(self.resends.valid & begun & was_kept) | (distance == 0)),
            Assert((self.failed & (self.sending_again | self.held)) == 0),
            Assert((self.held & self.sending_again) == 0),
            Cover(self.resends.valid & (distance == 2)),
            Cover(self.failed.all()),
            Cover(self.given_up & held),
            Cover(self.given_up & sending_again),
        ]
        return m


class FailingSpec(wiring.Component):
    """A PDC that is told to fail is given up at the timers' next visit, whatever else happens to it; once, and no
    other than those told, but by its last timeout, or when it has been refused a PDC too often since it was answered.
    Notes from before it was opened anew do not count.
    """

    def __init__(self, peers=2):
        self._peers = peers
        self._dut = RetransmissionTimers(peers, pdc_refusals=1)
        super().__init__(self._dut.signature)

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.dut = dut = self._dut
        connect_ports(m, self, dut)
        failed = Signal(self._peers)
        """As the Retransmitter remembers it."""
        told = Signal(self._peers)
        refusals = [Signal(5, name=f"refusals_{peer}") for peer in range(self._peers)]
        """Of a PDC, since it was opened or answered."""
        refused = Cat(count > self.settings.limit for count in refusals)
        waited = Signal(range(4 * self._peers + 4))
        """Cycles without ``stall`` since PDC 0 was told to fail."""

        def of(pulse, peer):
            return Mux(pulse, 1 << peer, 0)[: self._peers]

        opened, given_up = of(self.opened, self.opened_peer), of(self.given_up, self.peer)
        begins = of(self.fail, self.fail_peer)
        m.d.sync += [
            failed.eq((failed | given_up) & ~opened),
            told.eq((((told & ~failed) & ~given_up) | begins) & ~opened),
        ]
        pending = told & ~failed
        begins_anew = opened | of(self.alive, self.alive_peer)
        refuses = of(self.hold & self.without_pdc, self.hold_peer)
        for peer, count in enumerate(refusals):
            with m.If(begins_anew[peer]):
                m.d.sync += count.eq(0)
            with m.Elif(refuses[peer] & ~count.all()):
                m.d.sync += count.eq(count + 1)
        with m.If(~pending[0] | opened[0] | given_up[0]):
            m.d.sync += waited.eq(0)
        with m.Elif(~self.stall):
            m.d.sync += waited.eq(waited + 1)
        m.d.comb += [
            Assume(self.failed == failed),
            # An entry is stored, or told to fail.
            Assume(~(self.opened & self.fail)),
            Assert(~self.given_up | ~self.stall),
            Assert((given_up & failed) == 0),
            # A round visits all, a visit takes two cycles.
            Assert(waited <= 2 * self._peers),
            # Nobody fails early: who is not told has timed out.
            Assert(~self.given_up | self.count_timeouts | (given_up & (pending | refused)).any()),
            Cover(self.given_up & ~self.count_timeouts & ((given_up & pending) == 0)),
            Assert(~(self.given_up & self.count_timeouts) | ((given_up & pending) == 0)),
            Cover(self.given_up & self.held.bit_select(self.peer, 1)),
            Cover(self.given_up & self.sending_again.bit_select(self.peer, 1)),
            Cover(self.given_up & ~self.unanswered.bit_select(self.peer, 1)),
            Cover(self.opened & (told & opened).any()),
        ]
        return m


class FenceOrderSpec(wiring.Component):
    """The completion of a NOP that waited for an answer leaves ResultOrder behind that answer's, data and all.

    One answer is chosen, and a NOP that comes at least a cycle after the answer was on offer; they carry the numbers
    1 and 2, which no others do.
    """

    def __init__(self, depth=3):
        self._dut = ResultOrder(depth)
        super().__init__(self._dut.signature)

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.dut = dut = self._dut
        connect_ports(m, self, dut)
        m.submodules.environment_answers = StreamRules(self.answers, Assume)
        m.submodules.environment_nops = StreamRules(self.nops, Assume)
        m.submodules.contract = StreamRules(self.orders, Assert)
        commands = Signal(signed(5))
        """Answers taken whose results are not written; that of one on offer may be written before it is taken."""
        writes, offered, passed, done = Signal(), Signal(), Signal(), Signal()
        answer_number = self.answers.p.order.ticket.index
        nop_number, number = self.nops.p.ticket.index, self.orders.p.ticket.index
        is_answer = self.answers.valid & (answer_number == 1)
        is_nop = self.nops.valid & (nop_number == 2)
        m.d.sync += [
            offered.eq(offered | is_answer),
            passed.eq(passed | (self.orders.valid & self.orders.ready & (number == 1))),
            done.eq(done | (is_answer & self.answers.ready)),
            commands.eq(commands + writes - self.result_done),
        ]
        m.d.comb += [
            writes.eq(self.answers.valid & self.answers.ready & self.answers.p.writes),
            # What the numbers are of.
            Assume(~self.answers.valid | (answer_number != 2)),
            Assume(~is_answer | ~done),
            Assume(~is_answer | self.answers.p.completes),
            Assume(~self.nops.valid | (nop_number != 1)),
            # It was cut when it was known that the answer had come.
            Assume(~is_nop | offered),
            Assume(
                ~self.result_done | (commands > 0) | ((commands == 0) & self.answers.valid & self.answers.p.writes)
            ),
            Assert(~(self.orders.valid & (number == 2)) | passed),
            Cover(self.orders.valid & (number == 2)),
            Cover(is_nop & is_answer),
        ]
        return m
