"""The requester's side of PCI Express: tags, space for completions, bytes of writes, order."""

from unittest import mock

from amaranth.hdl import Array, Assert, Assume, Cat, Const, Cover, Fragment, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from amoeba_hw.pcie.completion_buffer import CompletionBuffer
from amoeba_hw.pcie.read_tags import ReadTags
from amoeba_hw.pcie.request_merger import RequestMerger
from amoeba_hw.pcie.write_requester import WriteRequester
from amoeba_hw.stream import Queue
from amoeba_model.tlp import RequestKind

from tests.formal.rules import StreamRules, connect_ports, never_reset, open_memory, open_up

__all__ = ["CompletionCreditsSpec", "ReadTagsSpec", "RequestOrderSpec", "WrittenBytesSpec"]

_RECORD = 2


class ReadTagsSpec(wiring.Component):
    """ReadTags: a tag is given only while no read has it, neither one in flight nor one that was given up.

    A query of an active tag returns the last stored value.
    """

    def __init__(self, tags=4, timeout=0):
        self._tags = tags
        self._dut = ReadTags(_RECORD, tags=tags, timeout=timeout)
        super().__init__(self._dut.signature)

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        dut = self._dut
        m.submodules.dut, _ = opened = open_up(dut, platform)
        rows, _ = open_memory(opened[0], "records")
        connect_ports(m, self, dut)
        ends = self.finish | self.give_up
        outstandings, losts, records = [], [], []
        for tag in range(self._tags):
            active, lost = Signal(name=f"active_{tag}"), Signal(name=f"lost_{tag}")
            outstanding = Signal(name=f"in_flight_{tag}")
            record = Signal(_RECORD, name=f"record_{tag}")
            mine = self.updated == tag
            with m.If(ends & mine):
                m.d.sync += [active.eq(0), outstanding.eq(0), lost.eq(self.give_up)]
            with m.If(self.sent & (self.sent_tag == tag)):
                m.d.comb += Assume(active & ~outstanding)
                m.d.sync += outstanding.eq(1)
            with m.If(self.update & mine):
                m.d.sync += record.eq(self.update_record)
            with m.If(self.start & (self.tag == tag)):
                m.d.sync += [active.eq(1), record.eq(self.start_record)]
                m.d.comb += [Assert(~active), Assert(~lost)]
            m.d.comb += [
                # Only what is in flight is given up or goes on; what was given up may end.
                Assume(~(mine & (self.update | self.give_up)) | outstanding),
                Assume(~(mine & self.finish) | outstanding | lost),
                Assert(dut._active[tag] == active),
                Assert(dut._outstanding[tag] == outstanding),
                Assert(active | ~outstanding),
                Assert(dut._lost[tag] == lost),
                Assert(~(active & lost)),
                Assert(~active | (rows[tag] == record)),
            ]
            outstandings.append(outstanding)
            losts.append(lost)
            records.append(record)
        asked = self.asked[: (self._tags - 1).bit_length()]
        m.d.comb += [
            Assume(self.updated < self._tags),
            Assume(self.update + self.finish + self.give_up <= 1),
            Assume(~self.start | self.available),
            Assume((self.asked < self._tags) & (self.sent_tag < self._tags)),
            Assert(~self.available | (self.tag < self._tags)),
            Assert(self.outstanding == Array(outstandings)[asked]),
            Assert(self.lost == Array(losts)[asked]),
            Assert(~self.outstanding | (self.record == Array(records)[asked])),
            Assert(self.idle == ~Cat(outstandings).any()),
            Assert(~self.expired | Array(outstandings)[self.expired_tag[: len(asked)]]),
            Cover(self.start & losts[1] & outstandings[0]),
            Cover(Cat(outstandings).all()),
        ]
        return m


class CompletionCreditsSpec(wiring.Component):
    """CompletionBuffer: no line is overwritten before it was delivered, whatever comes when, and each is its own.

    Looks at one DW of one line, of any read, whose completions come as the host may send them: between those of
    others, cut anywhere. Reads are of 24 bytes at most, lines of two DWs.
    """

    WIDTH = 64
    LINES = 4
    TAGS = 2

    def __init__(self):
        self._dut = CompletionBuffer(self.WIDTH, lines=self.LINES, tags=self.TAGS, timeout=0)
        super().__init__({**self._dut.signature.members, "chosen": In(3), "chosen_lane": In(1)})

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.dut = dut = self._dut
        for name in self._dut.signature.members:
            self._join(m, name, dut)
        m.submodules.start_rules = StreamRules(self.starts, Assume)
        m.submodules.completion_rules = StreamRules(self.completions, Assume)
        m.submodules.contract = StreamRules(self.answers, Assert)
        chosen, lane = Signal(3), Signal()
        begun = Signal()
        m.d.sync += [begun.eq(1), chosen.eq(self.chosen), lane.eq(self.chosen_lane)]
        m.d.comb += Assume(~begun | ((self.chosen == chosen) & (self.chosen_lane == lane)))
        self._account(m)
        return m

    def _join(self, m, name, dut):
        outer, inner = getattr(self, name), getattr(dut, name)
        if hasattr(inner, "valid"):
            source, sink = (outer, inner) if name in ("starts", "completions") else (inner, outer)
            m.d.comb += [sink.valid.eq(source.valid), source.ready.eq(sink.ready)]
            m.d.comb += sink.payload.as_value().eq(source.payload.as_value())
        elif name in ("extended_tags", "sent", "sent_tag"):
            m.d.comb += inner.eq(outer)
        else:
            m.d.comb += outer.eq(inner)

    def _account(self, m):
        start, beat, header = self.starts, self.completions, self.completions.p.header
        started, delivered = Signal(6), Signal(6)
        """Lines."""
        covered = Signal(6)
        m.d.comb += [
            covered.eq((start.p.address[:3] + start.p.length + 7) >> 3),
            Assume((start.p.length != 0) & (start.p.length <= 24) & (start.p.address < 64)),
            Assert(started - delivered <= self.LINES),
            Assume(started < 48),
        ]
        takes = start.valid & start.ready
        answered = self.answers.valid & self.answers.ready
        m.d.sync += [started.eq(started + Mux(takes, covered, 0)), delivered.eq(delivered + answered)]
        # Per tag: the read's next DW, counted from the one that is looked at; what is still to come.
        remaining, address, distance, watched, sent = [], [], [], [], []
        for tag in range(self.TAGS):
            remaining.append(Signal(6, name=f"remaining_{tag}"))
            address.append(Signal(7, name=f"address_{tag}"))
            distance.append(Signal(8, name=f"distance_{tag}"))
            watched.append(Signal(name=f"watched_{tag}"))
            sent.append(Signal(name=f"sent_{tag}"))
        within = (self.chosen >= started) & (self.chosen < started + covered)
        for tag in range(self.TAGS):
            with m.If(takes & (self.tag == tag)):
                m.d.comb += Assert(remaining[tag] == 0)
                m.d.sync += [
                    remaining[tag].eq(start.p.length),
                    address[tag].eq(start.p.address),
                    watched[tag].eq(within),
                    sent[tag].eq(0),
                    distance[tag].eq(2 * (self.chosen - started) + self.chosen_lane - start.p.address[2]),
                ]
        m.d.comb += Assume(self.sent_tag < self.TAGS)
        with m.If(self.sent):
            for tag in range(self.TAGS):
                with m.If(self.sent_tag == tag):
                    m.d.comb += Assume((remaining[tag] != 0) & ~sent[tag])
                    m.d.sync += sent[tag].eq(1)
        # The host: a completion of a read in flight, cut anywhere.
        tag, inside, left = Signal(range(self.TAGS)), Signal(), Signal(4)
        held_tag = Signal.like(tag)
        now, dwords, taken = Signal(4), Signal(2), Signal(6)
        todo, offset = Signal(6), Signal(2)
        m.d.comb += [
            tag.eq(Mux(inside, held_tag, header.tag)),
            todo.eq(Array(remaining)[tag]),
            offset.eq(Array(address)[tag][:2]),
            now.eq(Mux(inside, left, header.dwords)),
            dwords.eq(Mux(now > 2, 2, now)),
            taken.eq(Mux((dwords << 2) - offset < todo, (dwords << 2) - offset, todo)),
        ]
        arrives = beat.valid & beat.ready
        with m.If(beat.valid):
            m.d.comb += [Assume(beat.p.first == ~inside), Assume(beat.p.last == (now <= 2))]
            with m.If(~inside):
                m.d.comb += [
                    Assume((header.tag < self.TAGS) & (header.status == 0) & ~header.poisoned),
                    Assume((todo != 0) & (header.byte_count == todo) & Array(sent)[tag]),
                    Assume(header.lower_address == Array(address)[tag]),
                    Assume((header.dwords != 0) & (header.dwords <= (offset + todo + 3) >> 2)),
                ]
        known, value = Signal(), Signal(32)
        with m.If(arrives):
            m.d.sync += [inside.eq(~beat.p.last), held_tag.eq(tag), left.eq(now - dwords)]
            for index in range(self.TAGS):
                with m.If(tag == index):
                    m.d.sync += [
                        remaining[index].eq(todo - taken),
                        address[index].eq(address[index] + taken),
                        distance[index].eq(distance[index] - dwords),
                    ]
                    with m.If(watched[index] & (distance[index] < dwords)):
                        m.d.sync += [known.eq(1), value.eq(beat.p.data.word_select(distance[index][0], 32))]
        data = self.answers.p.data.word_select(self.chosen_lane, 32)
        with m.If(self.answers.valid & (delivered == self.chosen) & known):
            m.d.comb += Assert(data == value)
        m.d.comb += [
            Assert(~self.answers.valid | ~self.answers.p.error),
            Assert(~self.unexpected & ~self.failed),
            Assert(~self.answers.valid | (delivered < started)),
            # The last lap's line is there, and a new one has taken its place.
            Cover(answered & (delivered == 4) & (self.chosen == 4) & known),
        ]


class WrittenBytesSpec(wiring.Component):
    """WriteRequester: every strobed byte is in exactly one request, in the order of lines, and no other byte is.

    Looks at one byte of the host's memory, the one at ``offset`` of any line; the data of all others is zero, for the
    hardware treats all alike. An accepted write has left when ``settled`` says so. No request is longer than
    Max_Payload_Size, crosses a multiple of it, or has byte enables that none may have.
    """

    WIDTH = 64
    LIMIT = 128

    def __init__(self, offset=6):
        self._offset = offset
        self._dut = WriteRequester(self.WIDTH, self.LIMIT)
        super().__init__({**self._dut.signature.members, "chosen_line": In(9), "chosen_write": In(2)})
        self.chosen = Cat(Const(offset, 3), self.chosen_line)

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        # Within the cycles looked at, no more is kept than that.
        with mock.patch("amoeba_hw.pcie.write_requester.Queue", lambda shape, depth: Queue(shape, 4)):
            m.submodules.dut = Fragment.get(self._dut, platform)
        dut = self._dut
        writes, requests = self.writes, self.requests
        m.d.comb += [
            dut.writes.valid.eq(writes.valid),
            dut.writes.p.eq(writes.p),
            writes.ready.eq(dut.writes.ready),
            dut.user.eq(self.user),
            # With this limit the code makes no difference.
            dut.max_payload.eq(0),
            requests.valid.eq(dut.requests.valid),
            requests.p.eq(dut.requests.p),
            dut.requests.ready.eq(requests.ready),
            self.accepted.eq(dut.accepted),
            self.settled.eq(dut.settled),
        ]
        m.submodules.environment = StreamRules(writes, Assume)
        m.submodules.contract = StreamRules(requests, Assert)
        line, number, begun = Signal(9), Signal(2), Signal()
        user, waiting = Signal(8), Signal()
        m.d.sync += [begun.eq(1), line.eq(self.chosen_line), number.eq(self.chosen_write)]
        m.d.sync += [user.eq(self.user), waiting.eq(writes.valid & ~writes.ready)]
        m.d.comb += [
            Assume(~begun | ((self.chosen_line == line) & (self.chosen_write == number))),
            Assume((~waiting | (self.user == user)) & (self.user < 2)),
            Assume((writes.p.data & ~(0xFF << (8 * self._offset))) == 0),
        ]
        strobed, value = self._account_writes(m)
        self._account_requests(m, strobed, value)
        return m

    def _account_writes(self, m):
        """How many lines had a strobe for the byte; what the chosen one wrote."""
        beat = self.writes
        strobed, value = Signal(3), Signal(8)
        inside, left, following = Signal(), Signal(8), Signal(9)
        line, after = Signal(9), Signal(8)
        m.d.comb += [
            line.eq(Mux(inside, following, beat.p.address[3:])),
            after.eq(Mux(inside, left, beat.p.beats) - 1),
        ]
        with m.If(beat.valid):
            m.d.comb += [
                Assume(beat.p.first == ~inside),
                Assume(beat.p.last == (after == 0)),
                Assume(inside | ((beat.p.beats != 0) & (beat.p.beats <= 3))),
                # Bursts do not cross 4 KiB; what is above is the same for all.
                Assume(inside | (beat.p.address[3:12] + beat.p.beats <= 512)),
                Assume(inside | ((beat.p.address[:3] == 0) & (beat.p.address[12:] == 0))),
                Assume(strobed < 4),
            ]
        hits = (line == self.chosen_line) & beat.p.strobe[self._offset]
        with m.If(beat.valid & beat.ready):
            m.d.sync += [inside.eq(~beat.p.last), left.eq(after), following.eq(line + 1)]
            with m.If(hits):
                m.d.sync += strobed.eq(strobed + 1)
                with m.If(strobed == self.chosen_write):
                    m.d.sync += value.eq(beat.p.data.word_select(self._offset, 8))
        return strobed, value

    def _account_requests(self, m, strobed, value):
        beat, header = self.requests, self.requests.p.header
        current = Signal.like(header)
        held = Signal.like(header)
        inside, done = Signal(), Signal(11)
        """Of the request; DWs that have gone before."""
        written = Signal(3)
        mask = Signal(12)
        dword, enables = Signal(13), Signal(4)
        m.d.comb += [
            current.eq(Mux(inside, held, header)),
            mask.eq(Const(self.LIMIT - 1)),
            # Which of the request's DWs the byte would be in.
            dword.eq(self.chosen[2:] - current.address[2:12]),
            enables.eq(0b1111),
        ]
        with m.If(dword == current.dwords - 1):
            m.d.comb += enables.eq(current.last_be)
        with m.If(dword == 0):
            m.d.comb += enables.eq(current.first_be)
        index = (dword - done)[:1]
        here = (dword >= done) & (dword < done + 2) & (dword < current.dwords)
        hits = here & enables[self._offset % 4]
        byte = beat.p.data.word_select(Cat(Const(self._offset % 4, 2), index), 8)
        with m.If(beat.valid):
            m.d.comb += [
                Assert(beat.p.first == ~inside),
                Assert(beat.p.last == (done + 2 >= current.dwords)),
                Assert(~hits | (written < strobed)),
                Assert(~hits | (written != self.chosen_write) | (byte == value)),
            ]
            with m.If(~inside):
                one = header.dwords == 1
                up = (
                    (header.first_be == 15)
                    | (header.first_be == 14)
                    | (header.first_be == 12)
                    | (header.first_be == 8)
                )
                down = (header.last_be == 15) | (header.last_be == 7) | (header.last_be == 3) | (header.last_be == 1)
                m.d.comb += [
                    Assert(header.kind == RequestKind.MEMORY_WRITE),
                    Assert((header.dwords != 0) & (header.address[:2] == 0) & (header.first_be != 0)),
                    Assert((header.address[:12] & mask) + (header.dwords << 2) <= self.LIMIT),
                    Assert(Mux(one, header.last_be == 0, up & down)),
                ]
        with m.If(beat.valid & beat.ready):
            m.d.sync += [inside.eq(~beat.p.last), held.eq(current), done.eq(Mux(beat.p.last, 0, done + 2))]
            with m.If(hits):
                m.d.sync += written.eq(written + 1)
        m.d.comb += [
            Assert((self.settled != self.accepted) | inside | (written == strobed)),
            Cover(hits & inside & (written == 1) & (dword == 3) & beat.valid),
        ]


class RequestOrderSpec(wiring.Component):
    """RequestMerger: a read or an interrupt leaves only when the writes have left that were accepted or on offer
    before it came; nothing is lost; requests stay whole; nothing begins while stopped; stream contract.

    Looks at the writes' numbers, as WriteRequester gives them.
    """

    WIDTH = 32

    def __init__(self):
        self._dut = RequestMerger(self.WIDTH, reads=2)
        super().__init__({**self._dut.signature.members, "chosen": In(3), "looks_at_interrupts": In(1)})

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.dut = dut = self._dut
        for name, member in self._dut.signature.members.items():
            outer, inner = getattr(self, name), getattr(dut, name)
            if hasattr(inner, "valid"):
                source, sink = (outer, inner) if name != "requests" else (inner, outer)
                m.d.comb += [
                    sink.valid.eq(source.valid),
                    source.ready.eq(sink.ready),
                    sink.payload.eq(source.payload),
                ]
            else:
                m.d.comb += outer.eq(inner) if member.flow == wiring.Out else inner.eq(outer)
        for name in ("writes", "reads", "interrupts"):
            m.submodules[name] = StreamRules(getattr(self, name), Assume)
        m.submodules.contract = StreamRules(self.requests, Assert)
        chosen, looks, begun = Signal(3), Signal(), Signal()
        m.d.sync += [begun.eq(1), chosen.eq(self.chosen), looks.eq(self.looks_at_interrupts)]
        m.d.comb += Assume(~begun | ((chosen == self.chosen) & (looks == self.looks_at_interrupts)))
        # The registers follow a cycle behind.
        self._account(m, self.chosen, self.looks_at_interrupts)
        return m

    def _account(self, m, chosen, looks):
        write, request = self.writes, self.requests
        accepted, settled = Signal(16), Signal(16)
        inside = Signal()
        m.d.sync += [accepted.eq(self.accepted), settled.eq(self.settled)]
        leaves = write.valid & write.ready
        m.d.comb += [
            # Numbers go up, and what is settled was accepted: a line in this cycle or before it.
            Assume((self.accepted - accepted)[:16] <= 1),
            Assume((self.settled - settled)[:16] <= 1),
            Assume((self.accepted - self.settled)[:16] < 4),
            Assume(~write.valid | (write.p.first == ~inside)),
            Assume(~write.valid | (write.p.header.kind == RequestKind.MEMORY_WRITE) | inside),
            Assume(~write.valid | (write.p.header.user != 0xFF) | inside),
            Assume(~self.reads.valid | (self.reads.p.kind == RequestKind.MEMORY_READ)),
        ]
        with m.If(leaves):
            m.d.sync += inside.eq(~write.p.last)
        source_takes = Mux(looks, self.interrupts.valid & self.interrupts.ready, self.reads.valid & self.reads.ready)
        came, went = Signal(4), Signal(4)
        after, known = Signal(16), Signal()
        m.d.comb += Assume(came < 8)
        with m.If(source_takes):
            m.d.sync += came.eq(came + 1)
            with m.If(came == chosen):
                m.d.sync += [after.eq(self.accepted + self.waiting), known.eq(1)]
        is_read = request.p.header.kind == RequestKind.MEMORY_READ
        is_interrupt = ~is_read & (request.p.header.user == 0xFF)
        watched = request.valid & request.p.first & Mux(looks, is_interrupt, is_read)
        out_inside, held = Signal(), Signal()
        """Within a request that leaves; the beat on offer was on offer before."""
        m.d.sync += held.eq(request.valid & ~request.ready)
        with m.If(request.valid & request.ready):
            m.d.sync += out_inside.eq(~request.p.last)
            with m.If(watched):
                m.d.sync += went.eq(went + 1)
        ran, ran_credit = Signal(), Signal()
        m.d.sync += [ran.eq(self.run), ran_credit.eq(self.read_credit)]
        with m.If(request.valid):
            m.d.comb += [
                Assert(request.p.first == ~out_inside),
                Assert(out_inside | held | ran),
                Assert(out_inside | held | ran_credit | ~is_read),
            ]
        with m.If(watched):
            m.d.comb += [Assert(went < came), Assert((went != chosen) | known)]
            with m.If((went == chosen) & ~held):
                m.d.comb += Assert(~(settled - after)[15])
        m.d.comb += [
            Assert(self.idle == ~(request.valid | inside)),
            Cover(watched & (went == chosen) & (chosen == 1) & (after == 3)),
        ]
