"""The tags of reads in flight, with a record of each read."""

from amaranth.hdl import Module, Mux, ResetSignal, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["ReadTags"]

_BASIC_TAGS = 32
_TICKS = 8
"""Per timeout: how finely time is told."""
_TIME_BITS = 4


class ReadTags(wiring.Component):
    """Keeps which tags are in use, a record for each, and the time since each was started.

    A tag is free, active from its start on, or lost: its read was given up, but the host may still answer it. A read
    is in flight from when it was sent on; one that waits to be sent has no time limit.

    A reset that ResetInserter brings, the function's, forgets all but which tags are lost: the host does not know of
    it, and its late completions would meet the tags' next users. The domain's own reset, which is the link's, forgets
    these, too.

    Parameters
    ----------
    shape : shape-like
        Of a record.
    tags : int
        A power of two from 2 to 256.
    timeout : int
        Cycles after which a read in flight expires, up to one eighth and ``tags`` later; 0: never.

    Members
    -------
    extended : In
        Tags from 32 on may be given, too.
    available, tag : Out
        A tag that is free. It stays until it is started; ``available`` may fall in a cycle with ``update``.
    start, start_record : In
        Pulse, only while available: the tag becomes active.
    sent, sent_tag : In
        Pulse: an active tag's read is in flight from the next cycle on.
    asked : In
    outstanding, lost, record : Out
        Of the tag asked for, in the same cycle.
    updated : In
        The tag that the following are about.
    update, update_record : In
        Pulse: its record becomes this.
    finish : In
        Pulse: it becomes free. Until its read was sent, a tag is not updated, finished or given up.
    give_up : In
        Pulse: it becomes lost.
    expired, expired_tag : Out
        A read in flight is overdue. It stays until ``updated`` names it with ``give_up`` or ``finish``.
    idle : Out
        No read is in flight.
    """

    def __init__(self, shape, *, tags, timeout):
        self._shape, self._tags, self._timeout = shape, tags, timeout
        super().__init__(
            {
                "extended": In(1),
                "available": Out(1),
                "tag": Out(8),
                "start": In(1),
                "start_record": In(shape),
                "sent": In(1),
                "sent_tag": In(8),
                "asked": In(8),
                "outstanding": Out(1),
                "lost": Out(1),
                "record": Out(shape),
                "updated": In(8),
                "update": In(1),
                "update_record": In(shape),
                "finish": In(1),
                "give_up": In(1),
                "expired": Out(1),
                "expired_tag": Out(8),
                "idle": Out(1),
            }
        )
        self._active = Signal(tags)
        self._outstanding = Signal(tags)
        self._lost = Signal(tags, reset_less=True)

    def elaborate(self, platform):
        m = Module()
        bits = (self._tags - 1).bit_length()
        asked, updated = self.asked[:bits], self.updated[:bits]
        known = Signal()
        """There are as many tags as that."""
        m.submodules.records = records = memory.Memory(shape=self._shape, depth=self._tags, init=[])
        write, read = records.write_port(), records.read_port(domain="comb")
        most, free = Signal(8), Signal()
        """The highest tag that may be given; whether the next one is free."""
        m.d.comb += [
            most.eq(Mux(self.extended, self._tags - 1, min(_BASIC_TAGS, self._tags) - 1)),
            known.eq(self.asked < self._tags),
            self.outstanding.eq(known & self._outstanding.bit_select(asked, 1)),
            self.lost.eq(known & self._lost.bit_select(asked, 1)),
            read.addr.eq(asked),
            self.record.eq(read.data),
            # The records have one writer, and what has come goes before what is new.
            write.addr.eq(Mux(self.update, updated, self.tag[:bits])),
            write.data.eq(Mux(self.update, self.update_record, self.start_record)),
            write.en.eq(self.update | self.start),
            free.eq((self.tag <= most) & ~(self._active | self._lost).bit_select(self.tag[:bits], 1)),
            self.available.eq(free & ~self.update),
            self.idle.eq(~self._outstanding.any()),
        ]
        with m.If(self.start | ~free):
            m.d.sync += self.tag.eq((self.tag + 1) & most)
        with m.If(self.finish | self.give_up):
            m.d.sync += [
                self._active.bit_select(updated, 1).eq(0),
                self._outstanding.bit_select(updated, 1).eq(0),
                self._lost.bit_select(updated, 1).eq(self.give_up),
            ]
        with m.If(self.start):
            m.d.sync += self._active.bit_select(self.tag[:bits], 1).eq(1)
        with m.If(self.sent):
            m.d.sync += self._outstanding.bit_select(self.sent_tag[:bits], 1).eq(1)
        with m.If(ResetSignal("sync", allow_reset_less=True)):
            m.d.sync += self._lost.eq(0)
        if self._timeout:
            self._elaborate_time(m, bits)
        return m

    def _elaborate_time(self, m, bits):
        """Look at one tag after the other; time is counted in eighths of the timeout, modulo two of them."""
        m.submodules.starts = starts = memory.Memory(shape=_TIME_BITS, depth=self._tags, init=[])
        write, read = starts.write_port(), starts.read_port(domain="comb")
        tick = max(1, self._timeout // _TICKS)
        cycle = Signal(range(tick))
        now = Signal(_TIME_BITS)
        age = Signal(_TIME_BITS)
        looked_at = Signal(bits)
        m.d.sync += cycle.eq(cycle + 1)
        with m.If(cycle == tick - 1):
            m.d.sync += [cycle.eq(0), now.eq(now + 1)]
        m.d.comb += [
            write.addr.eq(self.sent_tag[:bits]),
            write.data.eq(now),
            write.en.eq(self.sent),
            read.addr.eq(looked_at),
            age.eq(now - read.data),
        ]
        overdue = Signal()
        m.d.comb += overdue.eq(self._outstanding.bit_select(looked_at, 1) & (age > _TICKS))
        settles = (self.finish | self.give_up) & (self.updated == self.expired_tag)
        with m.If(~self.expired):
            m.d.sync += [looked_at.eq(looked_at + 1), self.expired.eq(overdue), self.expired_tag.eq(looked_at)]
            # A read that ends in this cycle is not overdue.
            with m.If((self.finish | self.give_up) & (self.updated[:bits] == looked_at)):
                m.d.sync += self.expired.eq(0)
        with m.Elif(settles):
            m.d.sync += self.expired.eq(0)
