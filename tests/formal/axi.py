"""The AXI4 adapter: the rules of the channels, and beats that fit their bursts."""

from amaranth.hdl import Assert, Assume, Cat, Cover, Module, Mux, Signal
from amaranth.lib import data, wiring
from amoeba_hw.host.axi_dma import AxiDma

from tests.formal.rules import StreamRules, connect_ports, never_reset

__all__ = ["AxiWriteSpec"]


class _Channel:
    """One AXI channel as a stream, for StreamRules."""

    def __init__(self, bus, prefix, members):
        layout = data.StructLayout({name: len(getattr(bus, prefix + name)) for name in members})
        self.valid = getattr(bus, f"{prefix}valid")
        self.ready = getattr(bus, f"{prefix}ready")
        self.payload = Signal(layout, name=f"{prefix}_payload")
        self.drive = [self.payload[name].eq(getattr(bus, prefix + name)) for name in members]


class AxiWriteSpec(wiring.Component):
    """AxiDma's signals on the bus, for all time.

    - AW, W and AR hold while they are not taken (AXI A3.2.1); neither of AW and W waits for the other to be taken.
    - Each input beat becomes exactly one W beat with its data and strobe; each burst exactly one AW.
    - WLAST comes with beat AWLEN + 1 of its burst and with no other.
    - No burst crosses a 4 KiB boundary if the writes that come in do not.
    """

    def __init__(self, width=32):
        self._width = width
        self._dut = AxiDma(width)
        super().__init__(self._dut.signature)

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.dut = self._dut
        connect_ports(m, self, self._dut)
        inside, left = self._assume_bursts(m)
        address = _Channel(self.bus, "aw", ["addr", "len", "size", "burst", "user", "id"])
        beats = _Channel(self.bus, "w", ["data", "strb", "last"])
        reads = _Channel(self.bus, "ar", ["addr", "len", "size", "burst", "user", "id"])
        m.d.comb += address.drive + beats.drive + reads.drive
        m.submodules.read_contract = StreamRules(reads, Assert)
        m.submodules.address_contract = StreamRules(address, Assert)
        m.submodules.data_contract = StreamRules(beats, Assert)
        self._prove_counts(m, address, beats, inside, left)
        return m

    def _assume_bursts(self, m):
        """Check the rule of ``writes``; return whether it is inside a burst, and how many beats that still has."""
        beat = self.writes
        m.submodules.environment = StreamRules(beat, Assume)
        m.submodules.read_environment = StreamRules(self.reads, Assume)
        read_user, read_waiting = Signal(8), Signal()
        m.d.sync += [read_user.eq(self.read_user), read_waiting.eq(self.reads.valid & ~self.reads.ready)]
        m.d.comb += Assume(~read_waiting | (read_user == self.read_user))
        inside = Signal()
        left = Signal(8)
        user = Signal(8)
        waiting = Signal()
        after = Signal(8)
        line = self._width // 8
        end = Signal(14)
        m.d.comb += [after.eq(Mux(inside, left, beat.p.beats) - 1), end.eq(beat.p.address[:12] + beat.p.beats * line)]
        m.d.sync += [waiting.eq(beat.valid & ~beat.ready), user.eq(self.write_user)]
        # The user is sampled with the beat and holds like it.
        m.d.comb += Assume(~waiting | (user == self.write_user))
        with m.If(beat.valid):
            m.d.comb += [
                Assume(beat.p.first == ~inside),
                Assume(beat.p.last == (after == 0)),
                Assume(inside | ((beat.p.beats != 0) & (beat.p.beats <= 128))),
                Assume(~beat.p.first | ((end <= 4096) & (beat.p.address[: line.bit_length() - 1] == 0))),
            ]
        with m.If(beat.valid & beat.ready):
            m.d.sync += [inside.eq(~beat.p.last), left.eq(after)]
        m.d.comb += Assert(~inside | ((left != 0) & (left < 128)))
        return inside, left

    def _prove_counts(self, m, address, beats, inside, left):
        beat = self.writes
        taken = beat.valid & beat.ready
        address_goes, data_goes = address.valid & address.ready, beats.valid & beats.ready
        kept_address, kept_data = Signal(), Signal()
        offered = Cat(beat.p.data, beat.p.strobe, beat.p.last)
        own_length, own = Signal(8), Signal.like(offered)
        # Taken, and not yet gone: one address and one beat at most, the newest.
        m.d.sync += [
            kept_address.eq((kept_address | (taken & beat.p.first)) & ~address_goes),
            kept_data.eq((kept_data | taken) & ~data_goes),
        ]
        with m.If(taken):
            m.d.sync += own.eq(offered)
        with m.If(taken & beat.p.first):
            m.d.sync += own_length.eq(beat.p.beats - 1)
        w = beats.payload
        m.d.comb += [
            Assert(beat.ready == ~(kept_address | kept_data)),
            Assert(address.valid == (kept_address | (beat.valid & beat.p.first & ~kept_data))),
            Assert(beats.valid == (kept_data | (beat.valid & ~kept_address))),
            Assert(~address.valid | (address.payload.len == Mux(kept_address, own_length, beat.p.beats - 1))),
            Assert(~beats.valid | (Cat(w.data, w.strb, w.last) == Mux(kept_data, own, offered))),
            Cover(kept_address & beat.valid),
            Cover(kept_data & beat.valid & beat.p.first & ~beat.p.last),
        ]
        self._prove_bursts(m, address, beats, inside, left, kept_address, kept_data)

    def _prove_bursts(self, m, address, beats, inside, left, kept_address, kept_data):
        """Count the beats on W against the length on AW."""
        length, done, expected = Signal(8), Signal(8), Signal(8)
        m.d.comb += expected.eq(Mux(address.valid, address.payload.len, length))
        with m.If(address.valid & address.ready):
            m.d.sync += length.eq(address.payload.len)
        with m.If(beats.valid & beats.ready):
            m.d.sync += done.eq(Mux(beats.payload.last, 0, done + 1))
            m.d.comb += Assert(beats.payload.last == (done == expected))
        with m.If(address.valid):
            end = address.payload.addr[:12] + (address.payload.len + 1) * (self._width // 8)
            m.d.comb += Assert(end <= 4096)
        # Gone, kept and still to come: all of the burst. That makes the proof inductive.
        with m.If(kept_data & beats.payload.last):
            m.d.comb += [Assert(~inside), Assert(done == expected)]
        with m.Elif(kept_data):
            m.d.comb += [Assert(inside), Assert(done + left == expected)]
        with m.Else():
            m.d.comb += [Assert(inside | (done == 0) | kept_address), Assert(~inside | (done + left == expected + 1))]
        with m.If(kept_address):
            m.d.comb += Assert(done == Mux(kept_data, 0, inside))
