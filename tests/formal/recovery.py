"""No NACK puts off the oldest packet of a PDC: the timers ask for it in time, and the Retransmitter sends it then."""

from amaranth.hdl import Assert, Assume, Cat, Cover, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from amoeba_hw.initiator.records import RecoveryKind
from amoeba_hw.initiator.retransmission_timers import _CYCLES, _TIMER, RetransmissionTimers
from amoeba_hw.initiator.retransmitter import Retransmitter
from amoeba_model.registers import RETRANSMIT_DOUBLINGS

from tests.formal.rules import connect_ports, never_reset, open_memory, open_up

__all__ = ["OldestAskedSpec", "OldestResentSpec"]


class OldestResentSpec(wiring.Component):
    """A PDC that has timed out, or whose hold-off is over, sends its oldest packet again within ``limit`` cycles,
    whatever NACKs come meanwhile, unless that packet is answered or the PDC fails or is opened anew.

    Nothing else holds the PDC up here: its packets are numbered, the log answers, and the packets are taken.
    """

    def __init__(self, window=4, limit=17):
        self._window = window
        self._limit = limit
        self._dut = Retransmitter(peers=2)
        super().__init__(self._dut.signature)

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        fragment, registers = open_up(self._dut, platform)
        m.submodules.dut = fragment
        connect_ports(m, self, self._dut)
        self._elaborate_environment(m)
        waiting, waited = self._elaborate_wait(m)
        left, is_sent_next = self._elaborate_turn(m, registers)
        begins, active, from_oldest, in_part, owes = (
            getattr(self._dut, f"_{name}")[0]
            for name in ("begins", "active", "from_oldest", "in_part", "owes_oldest")
        )
        # The PDC is ready so many cycles after it began to send again; then every turn brings the packet nearer.
        stages = [*(registers[f"ripe{stage}"] for stage in range(4)), registers["ready"]]
        m.d.comb += [
            Assert(~waiting | (waited <= self._limit)),
            # Invariants.
            *(Assert(~waiting | (waited <= stage) | bits[0]) for stage, bits in enumerate(stages)),
            Assert(~(waiting & stages[-1][0]) | (waited + left <= self._limit)),
            Assert(~waiting | self.failed[0] | owes),
            Assert(~(self.held[0] & self.sending_again[0])),
            Assert(~self.failed[0] | ~(self.held[0] | self.sending_again[0])),
            Assert(~owes | self.sending_again[0]),
            Assert(~owes | is_sent_next | (begins & from_oldest & ~in_part & ~active)),
            Assert(~self.held[0] | (begins & from_oldest & ~in_part & ~active)),
            Assert(~active | self.sending_again[0]),
            Assert(~begins | self.sending_again[0] | self.held[0]),
        ]
        return m

    def _elaborate_environment(self, m):
        started = Signal()
        oldest, end, outstanding = Signal(32), Signal(32), Signal(32)
        m.d.sync += [started.eq(1), oldest.eq(self.resend_oldest), end.eq(self.resend_end)]
        held, sending_again, failed = (
            bits.bit_select(self.timer_peer, 1) for bits in (self.held, self.sending_again, self.failed)
        )
        m.d.comb += [
            outstanding.eq(self.resend_end - self.resend_oldest),
            Assume(~started | ((oldest == self.resend_oldest) & (end == self.resend_end))),
            Assume((outstanding != 0) & (outstanding <= self._window)),
            Assume(self.settled.all() & self.log_granted & self.resends.ready),
            # The rules of the timers.
            Assume(~(self.expired | self.given_up | self.released) | ~self.recover),
            Assume(~self.released | held),
            Assume(~self.expired | ~(held | sending_again | failed)),
            Assume(~self.given_up | ~failed),
            Assume(~self.given_up | ~self.expired & ~self.released),
        ]

    def _elaborate_wait(self, m):
        """Whether PDC 0 is to send its oldest packet; for how many cycles that has been so."""
        waiting, waited = Signal(), Signal(6)
        refused = self.recover & (self.recovery.kind == RecoveryKind.LATER) & (self.recovery.peer == 0)
        sent = self.oldest_resent & (self.log_peer == 0)
        answered = self.answered & (self.answered_peer == 0)
        m.d.sync += waited.eq(waited + waiting)
        with m.If((self.expired | self.released) & (self.timer_peer == 0)):
            m.d.sync += [waiting.eq(1), waited.eq(0)]
        with m.If(self.failed[0] | sent | answered | (self.opened & (self.opened_peer == 0))):
            m.d.sync += waiting.eq(0)
        m.d.comb += [
            Cover(waiting & refused & (waited == 4)),
            Cover(waiting & sent & (waited > 9)),
            Cover(refused & self.sending_again[0] & ~self._dut._owes_oldest[0]),
        ]
        return waiting, waited

    def _elaborate_turn(self, m, registers):
        """The cycles, at most, until the oldest packet of PDC 0 is sent; whether that is the packet in hand."""
        pick, look_up, check, read, offer = range(5)
        state, of_other = registers["resend_state"], self.resend_index == 1
        left, is_sent_next = Signal(4), Signal()
        is_whole = registers["begins"] & registers["from_oldest"] & ~registers["in_part"]
        is_oldest = self.log_psn == self.resend_oldest
        steps = {pick: 4, look_up: 3, check: 2, read: 1, offer: 0}
        with m.Switch(state):
            for each, cycles in steps.items():
                with m.Case(each):
                    m.d.comb += left.eq(cycles)
                    with m.If(of_other if each != pick else ~of_other):
                        m.d.comb += left.eq(cycles + 5)
        with m.If(~of_other & (state == check) & is_whole):
            m.d.comb += is_sent_next.eq(1)
        with m.Elif(~of_other & ((state == read) | (state == offer)) & is_oldest):
            m.d.comb += is_sent_next.eq(1)
        with m.Elif(~of_other & (state >= check)):
            # A packet of an earlier attempt is in hand: then the other PDC's turn comes first.
            m.d.comb += left.eq(Mux(state == check, 12, Mux(state == read, 11, 10)))
        m.d.comb += Assert(state <= offer)
        return left, is_sent_next


class OldestAskedSpec(wiring.Component):
    """While a PDC has unanswered packets, its oldest one is asked for in a bounded number of visits of the timers.

    Visits count unless the PDC sends packets again. The count begins anew when the oldest packet is answered or
    leaves again, when another answer is kept, and when the timers ask for that packet (``expired``, ``released``) or
    give the PDC up. NACKs that ask for hold-offs come at any time, whether the PDC is held or not; the count never
    exceeds the longest timeout and one hold-off.

    The first of the PDCs is looked at, and timeouts are below 256 cycles. ``accepts``: the Retransmitter holds the
    PDC when a NACK asks for a hold-off. ``fails``: an answer makes the PDC fail.
    """

    def __init__(self, peers=2):
        self._round = 2 * peers
        self._dut = RetransmissionTimers(peers, pdc_refusals=1)
        super().__init__({**self._dut.signature.members, "accepts": In(1), "fails": In(1)})

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        dut = self._dut
        fragment, registers = open_up(dut, platform)
        rows, outputs = open_memory(fragment, "timers")
        m.submodules.dut = fragment
        connect_ports(m, self, dut)
        acts = registers["visit_state"] == 1
        visited = acts & (self.peer == 0) & ~self.stall
        held, failed = self._elaborate_environment(m)
        fresh, age = self._elaborate_age(m, visited, failed)
        self._prove_bound(m, _TIMER(rows[0]), held, failed, fresh, age)
        m.d.comb += Assert(~acts | (self.peer != 0) | (outputs[0] == rows[0]))
        return m

    def _of_first(self, pulse, peer):
        return pulse & (peer == 0)

    def _elaborate_environment(self, m):
        started, held, failed = Signal(), Signal(), Signal()
        timeout = Signal(32)
        opened = self._of_first(self.opened, self.opened_peer)
        given_up, released = (self._of_first(pulse, self.peer) for pulse in (self.given_up, self.released))
        ends = given_up | self.fails | failed | opened
        m.d.sync += [
            started.eq(1),
            timeout.eq(self.settings.timeout),
            held.eq((held | (self._of_first(self.hold, self.hold_peer) & self.accepts)) & ~released & ~ends),
            failed.eq((failed | given_up | self.fails) & ~opened),
        ]
        m.d.comb += [
            Assume(~started | (timeout == self.settings.timeout)),
            Assume(self.settings.timeout < 1 << 8),
            Assume(self.unanswered[0]),
            Assume(self.held[0] == held),
            Assume(self.failed[0] == failed),
        ]
        return held, failed

    def _elaborate_age(self, m, visited, failed):
        """Whether the count is to begin anew at the next visit; the count."""
        fresh, age = Signal(init=1), Signal(_CYCLES + 4)
        pulses = (
            (self.alive, self.alive_peer),
            (self.oldest_resent, self.oldest_peer),
            (self.noted, self.noted_peer),
            (self.opened, self.opened_peer),
        )
        comes = Cat(self._of_first(*pulse) for pulse in pulses).any()
        asked = self.expired | self.released | self.given_up
        m.d.sync += fresh.eq((fresh & ~visited) | comes)
        with m.If(visited):
            with m.If(fresh | failed | asked):
                m.d.sync += age.eq(0)
            with m.Elif(~self.sending_again[0]):
                m.d.sync += age.eq(age + 1)
        return fresh, age

    def _prove_bound(self, m, timer, held, failed, fresh, age):
        timeout, running = self.settings.timeout, self._dut._running[0]
        longest, hold_off = timeout << RETRANSMIT_DOUBLINGS, timeout >> 2
        passed = Signal(_CYCLES + 8)
        m.d.comb += [
            passed.eq(age * self._round),
            Assert(passed <= longest + hold_off + 2 * self._round),
            # Invariants. The time that has passed and the time that is left make the whole.
            Assert(fresh | ~(self._dut._heard[0] | self._dut._resent[0] | self._dut._noted[0])),
            Assert(running | fresh | (age == 0)),
            Assert(~running | (timer.doublings <= RETRANSMIT_DOUBLINGS)),
            Assert(~running | (timer.interval <= timeout << timer.doublings)),
            Assert(~running | failed | ~timer.holds | held),
            Assert(~(running & timer.holds) | (passed + timer.left <= longest + hold_off + 2 * self._round)),
            Assert(~(running & ~timer.holds) | (passed + timer.left <= longest + self._round)),
            Cover(held & self.hold & (self.hold_peer == 0) & (age == 3)),
            Cover(self.released & (self.peer == 0) & (age > 2)),
            Cover(self.expired & (self.peer == 0) & (age > 2)),
        ]
