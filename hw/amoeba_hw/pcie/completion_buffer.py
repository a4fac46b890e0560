"""Puts the completions of reads back into lines, in the order in which the reads were asked."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.tlp import CompletionStatus

from amoeba_hw.interfaces import read_beat
from amoeba_hw.pcie.interfaces import READ_START, completion_beat
from amoeba_hw.pcie.read_tags import ReadTags

__all__ = ["CompletionBuffer"]

_LINE_STATE = data.StructLayout({"mark": 1, "error": 1, "last": 1})
"""State of a line: it has come if ``mark`` differs from the lap's number; whether anything of it failed, and whether
it is the last one of its READ_REQUEST."""


class CompletionBuffer(wiring.Component):
    """Gives reads their tags and a place for their lines, and delivers the lines when they have come.

    Completions of different reads come in any order, those of one read cut anywhere. A completion that is not what
    the read expects next (byte count, address or length), whose status is not SC, or that is poisoned, makes lines
    ``error``: a poisoned one those that it has a part of, and all later ones of the read; others all that are not
    complete, as does the end of ``timeout`` cycles since the read was sent. Completions of a read that is over are
    dropped; until its last completion has come, its tag is not used again. A reset that comes within a completion
    drops its rest; one that ResetInserter brings keeps the tags of reads that were given up from use.

    Parameters
    ----------
    width : int
        Bits per beat.
    lines : int
        Lines of ``width`` bits that the buffer holds: a power of two, at least 4.
    tags : int
        32, or 256; fewer in formal proofs. A power of two.
    timeout : int
        Cycles after which a read is given up; up to one eighth and ``tags`` more. 0: never.

    Members
    -------
    starts : READ_START stream
        A read is asked: ready when a tag and all its lines are free. Ready may fall again.
    tag : Out(8)
        The tag of the read that ``starts`` takes.
    sent, sent_tag : In
        Pulse: the read with this tag is on its way to the host.
    extended_tags : In
        More than 32 tags may be used.
    completions : :func:`completion_beat` stream
        One beat per cycle; a few cycles of pause, whatever else happens, when a read fails: one per line of it.
    answers : :func:`read_beat` stream
        One line per cycle, from three cycles after its last DW came on.
    idle : Out
        No read is in flight: all that were sent have completed or were given up. Answers may still be inside.
    unexpected : Out
        Pulse: a completion that no read waits for was dropped.
    failed : Out
        Pulse: a read failed.
    """

    def __init__(self, width, *, lines=1024, tags=256, timeout=1 << 24):
        if lines < 4 or lines & (lines - 1) or tags < 2 or tags & (tags - 1) or tags > 256:
            raise ValueError(f"Expected powers of two, at least 4 lines and 2 to 256 tags; got {lines} and {tags}")
        self._width, self._lines = width, lines
        self._dword_lanes = width // 32
        self._line_bits = (width // 8).bit_length() - 1
        line = lines.bit_length()  # a lap's bit above the line's number
        self._cursor = data.StructLayout({"line": line, "address": 7, "bytes": 13, "last": 1, "each": 1, "failed": 1})
        """Where a read's next byte goes: line and lap, low bits of its address; bytes to come."""
        self.tags = ReadTags(self._cursor, tags=tags, timeout=timeout)
        super().__init__(
            {
                "starts": In(stream.Signature(READ_START)),
                "tag": Out(8),
                "sent": In(1),
                "sent_tag": In(8),
                "extended_tags": In(1),
                "completions": In(stream.Signature(completion_beat(width))),
                "answers": Out(stream.Signature(read_beat(width))),
                "idle": Out(1),
                "unexpected": Out(1),
                "failed": Out(1),
            }
        )
        # Input of the memories in this cycle.
        self._store = Signal(
            data.StructLayout(
                {
                    "data": width,
                    "line": line,
                    "lane": range(self._dword_lanes),
                    "dwords": range(self._dword_lanes + 1),
                    "ends": 2,  # lines that are complete: the one named, and the one after
                    "last": 2,
                    "error": 1,
                }
            )
        )
        self._next_line = Signal(line)
        """Where the next read begins."""
        self._next_answer = Signal(line)
        self._swept = Signal(range(lines // 2 + 1))
        """Pairs of lines whose state is known since the reset."""

    def elaborate(self, platform):
        m = Module()
        m.submodules.tags = self.tags
        m.d.comb += [self.tag.eq(self.tags.tag), self.idle.eq(self.tags.idle)]
        m.d.comb += [
            self.tags.extended.eq(self.extended_tags),
            self.tags.sent.eq(self.sent),
            self.tags.sent_tag.eq(self.sent_tag),
        ]
        self._elaborate_starts(m)
        self._elaborate_completions(m)
        self._elaborate_memories(m)
        return m

    def _elaborate_starts(self, m):
        start, tags = self.starts, self.tags
        line_bytes = self._width // 8
        needed = Signal(range(4096 // line_bytes + 2))
        used = Signal(range(self._lines + 1))
        m.d.comb += [
            needed.eq((start.p.address[: self._line_bits] + start.p.length + line_bytes - 1) >> self._line_bits),
            used.eq(self._next_line - self._next_answer),
            start.ready.eq(tags.available & (self._swept == self._lines // 2) & (used + needed <= self._lines)),
            tags.start.eq(start.valid & start.ready),
            tags.start_record.line.eq(self._next_line),
            tags.start_record.address.eq(start.p.address),
            tags.start_record.bytes.eq(start.p.length),
            tags.start_record.last.eq(start.p.last),
            tags.start_record.each.eq(start.p.each),
        ]
        with m.If(tags.start):
            m.d.sync += self._next_line.eq(self._next_line + needed)

    def _elaborate_completions(self, m):
        beat, tags, header = self.completions, self.tags, self.completions.p.header
        cursor = Signal(self._cursor)
        held = Signal(self._cursor)
        """After the last beat, within a completion; or where the read that fails is."""
        after = Signal(self._cursor)
        tag, left, left_after = Signal(8), Signal(11), Signal(11)
        skipping = Signal()
        """The rest of this completion is dropped."""
        inside = Signal()
        fits, good, ends, gives_up = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            gives_up.eq(tags.expired & ~inside),
            tags.asked.eq(Mux(gives_up, tags.expired_tag, header.tag)),
            cursor.eq(Mux(beat.p.first, tags.record, held)),
            ends.eq(_ends_read(header)),
            fits.eq(
                (header.byte_count == tags.record.bytes)
                & (header.lower_address == tags.record.address)
                & (header.dwords != 0)
                & (header.dwords <= _dwords(tags.record.address[:2], tags.record.bytes))
            ),
            good.eq(tags.outstanding & fits & (header.status == CompletionStatus.SC)),
        ]
        store = self._advance(m, cursor, Mux(beat.p.first, header.dwords, left), after, left_after)
        m.d.comb += store.error.eq(cursor.failed | (beat.p.first & header.poisoned))
        m.d.sync += [self._store.ends.eq(0), self._store.dwords.eq(0)]
        with m.If(beat.valid & beat.ready):
            m.d.sync += inside.eq(~beat.p.last)
        with m.FSM(name="completions"):
            with m.State("TAKE"):
                with m.If(gives_up):
                    m.d.comb += [tags.give_up.eq(1), self.failed.eq(1)]
                    m.d.sync += held.eq(tags.record)
                    m.next = "FAIL"
                with m.Elif(beat.valid):
                    m.d.comb += beat.ready.eq(1)
                    m.d.sync += [skipping.eq(~beat.p.last & beat.p.first & ~good), left.eq(left_after)]
                    with m.If(beat.p.first):
                        m.d.sync += tag.eq(header.tag)
                    # The first beat after a reset may be the rest of a completion that was dropped.
                    with m.If(Mux(beat.p.first, good, inside & ~skipping)):
                        m.d.sync += [self._store.eq(store), held.eq(after), held.failed.eq(store.error)]
                        m.d.comb += [
                            tags.finish.eq(after.bytes == 0),
                            tags.update.eq(beat.p.last & (after.bytes != 0)),
                            self.failed.eq(beat.p.first & header.poisoned & ~cursor.failed),
                        ]
                    with m.Elif(beat.p.first & tags.outstanding):
                        # The read failed, or this is not its own. Further completions of it, if any, are lost.
                        m.d.comb += [tags.finish.eq(ends), tags.give_up.eq(~ends), self.failed.eq(1)]
                        m.d.sync += held.eq(cursor)
                        m.next = "FAIL"
                    with m.Elif(beat.p.first):
                        m.d.comb += [tags.finish.eq(tags.lost & ends), self.unexpected.eq(~tags.lost)]
                    with m.Else():
                        m.d.sync += skipping.eq(~beat.p.last)
            with m.State("FAIL"):
                self._fail_line(m, held)
        m.d.comb += [
            tags.updated.eq(Mux(gives_up, tags.expired_tag, Mux(inside, tag, header.tag))),
            tags.update_record.eq(after),
            tags.update_record.failed.eq(store.error),
        ]

    def _advance(self, m, cursor, left, after, left_after):
        """Add a beat to the read at ``cursor``, of whose completion ``left`` DWs are still to come."""
        lanes = self._dword_lanes
        store = Signal.like(self._store, name="arriving")
        lane, dwords = store.lane, store.dwords
        taken, at_least = Signal(13), Signal(13)
        end = Signal(range(2 * lanes + 1))
        over = Signal()
        m.d.comb += [
            store.data.eq(self.completions.p.data),
            store.line.eq(cursor.line),
            lane.eq(cursor.address[2 : self._line_bits]),
            dwords.eq(Mux(left < lanes, left, lanes)),
            left_after.eq(left - dwords),
            at_least.eq((dwords << 2) - cursor.address[:2]),
            taken.eq(Mux(at_least < cursor.bytes, at_least, cursor.bytes)),
            after.bytes.eq(cursor.bytes - taken),
            over.eq(after.bytes == 0),
            after.address.eq(cursor.address + taken),
            after.last.eq(cursor.last),
            after.each.eq(cursor.each),
            end.eq(lane + dwords),
            after.line.eq(cursor.line + (end >= lanes)),
            store.ends.eq(Cat((end >= lanes) | over, (end > lanes) & over)),
            store.last.eq((Cat(over & (end <= lanes), over) & cursor.last.replicate(2)) | cursor.each.replicate(2)),
        ]
        return store

    def _fail_line(self, m, held):
        """One line of a read that failed. The rest of its completion, if any, waits."""
        line_bytes = self._width // 8
        here = Signal(range(line_bytes + 1))
        over = Signal()
        m.d.comb += [here.eq(line_bytes - held.address[: self._line_bits]), over.eq(held.bytes <= here)]
        m.d.sync += [
            self._store.eq(0),
            self._store.line.eq(held.line),
            self._store.ends.eq(0b01),
            self._store.last.eq((over & held.last) | held.each),
            self._store.error.eq(1),
            held.line.eq(held.line + 1),
            held.bytes.eq(held.bytes - here),
            held.address.eq(0),
        ]
        with m.If(over):
            m.next = "TAKE"

    def _elaborate_memories(self, m):
        lanes, store, answer = self._dword_lanes, self._store, self.answers
        advance = Signal()
        number = len(self._next_line) - 1
        # A beat covers parts of two lines at most; lane by lane it is one of them.
        rotated = Signal(self._width)
        doubled = Cat(store.data, store.data)
        m.d.comb += rotated.eq(Array(doubled[32 * (lanes - k) :][: self._width] for k in range(lanes))[store.lane])
        words = []
        for lane in range(lanes):
            m.submodules[f"words{lane}"] = bank = memory.Memory(shape=32, depth=self._lines, init=[])
            write, read = bank.write_port(), bank.read_port()
            beyond = Signal(name=f"beyond{lane}")
            m.d.comb += [
                beyond.eq(lane < store.lane),
                write.addr.eq((store.line + beyond)[:number]),
                write.data.eq(rotated.word_select(lane, 32)),
                write.en.eq((lane + Mux(beyond, lanes, 0) - store.lane) < store.dwords),
                read.addr.eq(self._next_answer[:number]),
                read.en.eq(advance),
            ]
            words.append(read.data)
        state = self._elaborate_states(m)
        m.d.comb += [
            advance.eq(
                (state.mark != self._next_answer[-1])
                & (self._swept == self._lines // 2)
                & (~answer.valid | answer.ready)
            ),
            answer.p.data.eq(Cat(words)),
        ]
        with m.If(~answer.valid | answer.ready):
            m.d.sync += [answer.valid.eq(advance), answer.p.error.eq(state.error), answer.p.last.eq(state.last)]
        m.d.sync += self._next_answer.eq(self._next_answer + advance)

    def _elaborate_states(self, m):
        """Keep the states of lines, and read that of the next one. Even and odd lines are in two memories."""
        store = self._store
        sweeping = Signal()
        m.d.comb += sweeping.eq(self._swept != self._lines // 2)
        m.d.sync += self._swept.eq(self._swept + sweeping)
        states = []
        for odd in range(2):
            m.submodules[f"states{odd}"] = bank = memory.Memory(shape=_LINE_STATE, depth=self._lines // 2, init=[])
            write, read = bank.write_port(), bank.read_port(domain="comb")
            which = Signal(name=f"which{odd}")
            line = Signal.like(store.line, name=f"line{odd}")
            m.d.comb += [
                which.eq(store.line[0] != odd),
                line.eq(store.line + which),
                write.addr.eq(Mux(sweeping, self._swept, line[1:-1])),
                write.en.eq(sweeping | store.ends.bit_select(which, 1)),
                read.addr.eq(self._next_answer[1:-1]),
            ]
            with m.If(~sweeping):
                m.d.comb += [
                    write.data.mark.eq(~line[-1]),
                    write.data.error.eq(store.error),
                    write.data.last.eq(store.last.bit_select(which, 1)),
                ]
            states.append(read.data)
        state = Signal(_LINE_STATE)
        m.d.comb += state.eq(Mux(self._next_answer[0], states[1], states[0]))
        return state


def _dwords(offset, length):
    """DWs that ``length`` bytes from ``offset`` in the first one on have a part of."""
    return (offset + length + 3) >> 2


def _ends_read(header):
    """Whether no further completion follows this one, as far as it says."""
    return (header.status != CompletionStatus.SC) | (
        Cat(Const(0, 2), header.dwords) >= header.byte_count + header.lower_address[:2]
    )
