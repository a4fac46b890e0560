"""Messages' sharp edges: slots and receives that were reserved before a message is matched; where places begin."""

from amaranth.hdl import Assert, Assume, Cover, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from amoeba_hw.messages.buffer_use import BufferUse
from amoeba_hw.messages.kept_receives import KeptReceives
from amoeba_hw.messages.open_receives import OpenReceives
from amoeba_hw.messages.slot_credits import SlotCredits

from tests.formal.rules import drive_inputs, never_reset, open_up

__all__ = ["BufferUseSpec", "KeptReceivesSpec", "OpenReceivesSpec", "SlotCreditsSpec"]

SLOTS = 4
_MAX_MESSAGES = 3
"""Between PdcTable and MatchUnit."""


class SlotCreditsSpec(wiring.Component):
    """SlotCredits of one context with 4 slots: a message that has reserved one finds a free one when it is matched.

    Messages look for a slot and reserve it in a later cycle, one at a time. Outstanding messages are matched one by
    one: each takes a slot or does not, and in that cycle or later settles its reservation; slots that were taken come
    back at any time. The context may be disabled at any time: claims of messages from before come late. When its
    lists have been emptied all slots are free.
    """

    def __init__(self):
        super().__init__(
            {
                "look": In(1),
                "reserve": In(1),
                "take": In(1),
                "settle": In(1),
                "stale_settle": In(1),
                "release": In(1),
                "disable": In(1),
                "empty": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.credits = credits = SlotCredits(1, SLOTS)
        # The naive account: reserved messages of the current generation, and slots in use.
        accepted, used = Signal(range(SLOTS + 2)), Signal(range(SLOTS + 1))
        generation = Signal(4)
        was_enabled, settled, seen, has_taken = Signal(), Signal(init=1), Signal(), Signal()
        m.d.comb += [
            credits.contexts[0].enable.eq(~self.disable),
            credits.contexts[0].unexpected_base.eq(64),
            credits.generations[0].eq(generation),
            credits.free[0].eq(SLOTS - used),
            credits.settled[0].eq(settled),
            credits.reserve.valid.eq(self.reserve),
            credits.reserve.generation.eq(generation),
            credits.settle.valid.eq(self.settle | self.stale_settle),
            credits.settle.generation.eq(generation - self.stale_settle),
            # What was seen and what is on its way is forgotten with its generation; that begins a cycle later.
            Assume(~self.reserve | (seen & ~self.look)),
            Assume(~(self.take | self.settle) | ((accepted != 0) & settled)),
            Assume(~self.take | ~has_taken),
            Assume(~(self.settle & self.stale_settle)),
            Assume(~self.release | (used != 0)),
            Assume(~self.empty | ~settled),
            Assume(~self.disable | ~(self.reserve | self.take | self.settle)),
        ]
        m.d.sync += [
            was_enabled.eq(~self.disable),
            generation.eq(generation + (was_enabled & self.disable)),
            accepted.eq(Mux(self.disable, 0, accepted + self.reserve - self.settle)),
            seen.eq(Mux(self.disable, 0, Mux(self.look, credits.open[0], seen & ~self.reserve))),
            has_taken.eq((has_taken | self.take) & ~self.settle & ~self.disable),
            used.eq(Mux(self.empty, 0, used + self.take - self.release)),
            settled.eq((settled | self.empty) & ~(was_enabled & self.disable)),
        ]
        owed = Signal(range(SLOTS + 2))
        m.d.comb += [
            owed.eq(accepted - has_taken),
            # Nobody finds all slots taken.
            Assert(~settled | (used + owed <= SLOTS)),
            Assert(~self.take | (used < SLOTS)),
            Assert(accepted <= SLOTS),
            # Nothing that is free and not reserved is kept back.
            Assert(credits.open[0] | self.disable | ~settled | (used + accepted >= SLOTS)),
            # For the induction: how the component keeps the account, and what was seen.
            Assert(credits._reserved[0] == accepted),
            Assert(~has_taken | (accepted != 0)),
            Assert(settled | ((accepted == 0) & ~seen & ~has_taken)),
            Assert(~seen | ((used + owed < SLOTS) & (accepted < SLOTS))),
            Cover((used == SLOTS - 1) & (accepted == 1) & ~credits.open[0]),
            Cover((used == 0) & (accepted == SLOTS)),
            Cover((generation == 1) & credits.open[0] & self.stale_settle & (accepted == 2)),
        ]
        return m


class KeptReceivesSpec(wiring.Component):
    """KeptReceives: a message for which a receive was found meets that when it is matched.

    Whether there is a receive for the message in question may change with every message that is matched and with
    every receive descriptor, and with nothing else. Messages are accepted and matched in order, no receive descriptor
    is done while something is kept, and searches are made at any time. A message is in question until it has its
    reply; if something was found, it is the next to be accepted.
    """

    def __init__(self):
        super().__init__(
            {
                "ask": In(1),
                "accept": In(1),
                "settle": In(1),
                "order": In(1),
                "search": In(1),
                "changed": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        fragment, registers = open_up(dut := KeptReceives(), platform)
        m.submodules.dut = fragment
        # Messages on their way; a message is in question, is the next to be accepted, or the next to be matched.
        on_the_way = Signal(range(_MAX_MESSAGES + 1))
        in_question, is_next, is_first = Signal(), Signal(), Signal()
        present = Signal()
        begins, replied = Signal(), Signal()
        m.d.comb += [
            begins.eq(self.ask & ~in_question & ~is_next),
            dut.question.valid.eq(in_question | begins),
            dut.accepted.eq(self.accept),
            dut.settled.eq(self.settle),
            dut.searches.ready.eq(self.search & dut.searches.valid),
            dut.found.eq(present),
            replied.eq(dut.reply.valid),
            Assume(~self.accept | (~dut.question.valid & (on_the_way < _MAX_MESSAGES))),
            Assume(~self.settle | (on_the_way != 0)),
            Assume(~self.order | ~dut.keeps),
            # One event at a time.
            Assume(~(self.search & (self.settle | self.order))),
        ]
        m.d.sync += [
            on_the_way.eq(on_the_way + self.accept - self.settle),
            in_question.eq(dut.question.valid & ~replied),
            is_next.eq((is_next & ~self.accept) | (replied & dut.reply.found)),
            is_first.eq((is_first & ~self.settle) | (is_next & self.accept)),
        ]
        with m.If(self.settle | self.order):
            m.d.sync += present.eq(self.changed)
        m.d.comb += [
            # What was found is there when its message is matched.
            Assert(~(is_first & self.settle) | present),
            # A search is about what those before have left, and is not put off for anything else.
            Assert(dut.searches.valid == (in_question & (on_the_way == 0))),
            Assert(~replied | (dut.question.valid & (dut.reply.found == present))),
            Assert(dut.searches.valid | ~replied),
            # Receive descriptors do not wait for anything else, either.
            Assert(dut.keeps == (is_next | is_first)),
            # For the induction: how the component counts, and whose turn it is.
            Assert(registers["on_the_way"] == on_the_way),
            Assert(registers["asks"] == in_question),
            Assert(on_the_way <= _MAX_MESSAGES),
            Assert(~(is_next | is_first) | present),
            Assert(~(is_next & (is_first | in_question | (on_the_way != 0)))),
            Assert(~is_first | (on_the_way != 0)),
            Cover(is_first & self.settle & (on_the_way == 2)),
            Cover(replied & ~present),
            Cover(in_question & (on_the_way == 2) & is_first),
        ]
        return m


class BufferUseSpec(wiring.Component):
    """BufferUse: of a MULTI receive what is left begins at the nearest multiple of 64 behind the message.

    Addresses and lengths are whole numbers here, wide enough never to wrap. The place of the next message is any one
    that satisfies the definition.
    """

    address: In(64)
    space: In(32)
    length: In(32)
    least_space: In(32)
    multi: In(1)
    next: In(40)
    """Bytes up to it."""

    def elaborate(self, platform):
        m = Module()
        m.submodules.use = use = BufferUse()
        fits, left = Signal(32), Signal(33)
        m.d.comb += [
            *(getattr(use, name).eq(getattr(self, name)) for name in ("address", "space", "length", "least_space")),
            use.multi.eq(self.multi),
            Assume((self.address + self.next)[:6] == 0),
            Assume((self.next >= self.length) & (self.next < self.length + 64)),
            fits.eq(Mux(self.length < self.space, self.length, self.space)),
            left.eq(Mux(self.next < self.space, self.space - self.next, 0)),
            Assert(use.size == fits),
            Assert(use.cut == (self.length > self.space)),
            Assert(use.used_up == (~self.multi | (left == 0) | (left < self.least_space))),
            Assert(use.used_up | ((use.used == self.next) & (use.left == left))),
        ]
        return m


class OpenReceivesSpec(wiring.Component):
    """OpenReceives of two PDCs: a row is open from its begin to its end, and shows what was put there.

    Rows are begun and ended in cycles without a read, never both at once. ``chosen`` stays.
    """

    _PDCS = 2

    def __init__(self):
        self._dut = OpenReceives(self._PDCS)
        members = self._dut.signature.members
        inputs = {name: member for name, member in members.items() if member.flow == In}
        super().__init__({**inputs, "chosen": In(range(self._PDCS))})

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.dut = dut = self._dut
        drive_inputs(m, self, dut)
        chosen, started = Signal.like(self.chosen), Signal()
        last, shows = Signal.like(self.pdc), Signal()
        is_open, content = Signal(), Signal.like(self.receive)
        m.d.sync += [chosen.eq(self.chosen), started.eq(1)]
        with m.If(self.read):
            m.d.sync += [last.eq(self.pdc), shows.eq(1)]
        with m.Elif(self.begin):
            m.d.sync += shows.eq(0)
        mine = last == self.chosen
        with m.If(self.begin & mine):
            m.d.sync += [is_open.eq(1), content.eq(self.receive)]
        with m.Elif(self.end & mine):
            m.d.sync += is_open.eq(0)
        m.d.comb += [
            Assume(~started | (chosen == self.chosen)),
            Assume(~(self.read & (self.begin | self.end)) & ~(self.begin & self.end)),
            Assert(dut.open.bit_select(self.chosen, 1) == is_open),
            Assert(~mine | (dut.is_open == is_open)),
            Assert(~(shows & mine & is_open) | (dut.row.as_value() == content.as_value())),
            Cover(shows & mine & dut.open.all()),
            Cover(started & shows & mine & ~is_open & (content.size == 5)),
        ]
        return m
