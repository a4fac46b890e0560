# amaranth: UnusedElaboratable=no
"""Frames to the bytes of a gigabit PHY and back, between clocks.

Expected bytes are IEEE 802.3's, with the CRC of zlib. Covers ``boards/mac_transmit.py``, ``boards/mac_receive.py``,
``boards/frame_serializer.py``, ``boards/frame_deserializer.py``, ``boards/gmii.py`` and ``boards/crossing.py``.
"""

import random
import zlib

import pytest
from amaranth.hdl import ClockDomain, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator
from amoeba_hw.boards.frame_deserializer import FrameDeserializer
from amoeba_hw.boards.gmii import GmiiSignature
from amoeba_hw.boards.mac_receive import MacReceive
from amoeba_hw.boards.mac_transmit import MacTransmit
from amoeba_hw.host.axi import AxiStreamSignature

WIDTH = 128
BEAT = WIDTH // 8
PREAMBLE = b"\x55" * 7 + b"\xd5"
GIGABIT = 8e-9
SLOW, FAST = 50e-9, 4e-9
"""Clocks of NICs at 20 and at 250 MHz."""


def fcs(frame):
    return zlib.crc32(frame).to_bytes(4, "little")


def on_the_wire(frame):
    frame = frame.ljust(60, b"\0")
    return PREAMBLE + frame + fcs(frame)


def frames_of(seed, count, lengths=(1, 14, 15, 16, 17, 59, 60, 61, 63, 64, 65, 200, 1100, 1514)):
    generator = random.Random(seed)
    return [generator.randbytes(generator.choice(lengths)) for _ in range(count)]


class Loop(wiring.Component):
    """Both halves of the MAC, joined at the PHY's side; ``wire`` is what passes, and ``damage`` is added to it."""

    i: In(AxiStreamSignature(WIDTH))
    o: Out(AxiStreamSignature(WIDTH))
    wire: Out(GmiiSignature())
    damage: In(8)

    def __init__(self, receive_depth=256):
        self._receive_depth = receive_depth
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.domains += [ClockDomain("transmit"), ClockDomain("receive")]
        m.submodules.transmit = transmit = MacTransmit(WIDTH)
        m.submodules.receive = receive = MacReceive(WIDTH, self._receive_depth)
        wiring.connect(m, wiring.flipped(self.i), transmit.i)
        wiring.connect(m, receive.o, wiring.flipped(self.o))
        m.d.comb += [
            self.wire.data.eq(transmit.o.data),
            self.wire.enable.eq(transmit.o.enable),
            receive.i.data.eq(transmit.o.data ^ self.damage),
            receive.i.enable.eq(transmit.o.enable),
        ]
        return m


def loop(frames, *, period=SLOW, gaps=0.0, waits=0.0, damage=lambda index: 0, receive_depth=256, apart=0):
    """(bytes on the wire with None where nothing was sent, frames that came out)."""
    dut = Loop(receive_depth)
    pace = random.Random(4)
    wire, out = [], []
    ended = []

    async def send(ctx):
        for frame in frames:
            for start in range(0, len(frame), BEAT):
                while pace.random() < gaps:
                    await ctx.tick()
                part = frame[start : start + BEAT]
                ctx.set(dut.i.tdata, int.from_bytes(part, "little"))
                ctx.set(dut.i.tkeep, (1 << len(part)) - 1)
                ctx.set(dut.i.tlast, start + BEAT >= len(frame))
                ctx.set(dut.i.tvalid, 1)
                await ctx.tick().until(dut.i.tready)
                ctx.set(dut.i.tvalid, 0)
            await ctx.tick().repeat(apart + 1)
        quiet = 0
        while quiet < 200:
            quiet = quiet + 1 if wire and wire[-1] is None else 0
            await ctx.tick()
        ended.append(True)

    async def watch(ctx):
        sent = 0
        while True:
            *_, enable, data = await ctx.tick("transmit").sample(dut.wire.enable, dut.wire.data)
            wire.append(data if enable else None)
            sent += enable
            ctx.set(dut.damage, damage(sent))

    async def take(ctx):
        content = b""
        while True:
            ctx.set(dut.o.tready, pace.random() >= waits)
            _, _, moves, data, keep, last = await ctx.tick().sample(
                dut.o.tvalid & dut.o.tready, dut.o.tdata, dut.o.tkeep, dut.o.tlast
            )
            if moves:
                assert last or keep == (1 << BEAT) - 1
                content += data.to_bytes(BEAT, "little")[: keep.bit_length()]
                if last:
                    out.append(content)
                    content = b""

    simulator = Simulator(dut)
    simulator.add_clock(period)
    simulator.add_clock(GIGABIT, domain="transmit")
    simulator.add_clock(GIGABIT, phase=GIGABIT / 3, domain="receive")
    simulator.add_testbench(send)
    simulator.add_testbench(watch, background=True)
    simulator.add_testbench(take, background=True)
    simulator.run()
    assert ended
    return wire, out


def runs(wire):
    """(bytes of each frame on the wire, idle bytes before each but the first)."""
    sent, gaps, idle = [], [], 0
    for byte in wire:
        if byte is None:
            idle += 1
            continue
        if idle or not sent:
            gaps.append(idle)
            sent.append([])
        idle = 0
        sent[-1].append(byte)
    return [bytes(each) for each in sent], gaps[1:]


@pytest.mark.parametrize("period", [SLOW, FAST], ids=["20 MHz", "250 MHz"])
@pytest.mark.parametrize("gaps", [0, 0.5])
def test_frames_leave_whole_with_preamble_padding_fcs_and_gap_and_come_back(period, gaps):
    frames = frames_of(1, 12)
    wire, out = loop(frames, period=period, gaps=gaps)
    sent, between = runs(wire)
    assert sent == [on_the_wire(frame) for frame in frames]
    assert min(between) >= 12
    assert out == [frame.ljust(60, b"\0") for frame in frames]


def test_a_fast_nic_fills_the_link():
    """Every gap is the shortest one, once the first frame is on the wire."""
    frames = frames_of(2, 10, lengths=(60, 200))
    _, between = runs(loop(frames, period=FAST)[0])
    assert set(between) == {12}


def test_a_frame_with_a_damaged_byte_is_dropped_wherever_it_is():
    frames = frames_of(3, 16, lengths=(60, 61, 80))
    wire = [len(on_the_wire(frame)) for frame in frames]
    generator = random.Random(9)
    bad = {}
    for number in range(0, len(frames), 2):
        # Bytes behind the delimiter: one before it hides the frame, which tests of the receiver show.
        bad[sum(wire[:number]) + generator.randrange(8, wire[number])] = 1 << generator.randrange(8)
    _, out = loop(frames, damage=lambda index: bad.get(index, 0))
    assert out == frames[1::2]


def test_frames_without_space_are_dropped_whole_and_later_ones_are_not():
    frames = frames_of(5, 40, lengths=(100, 300))
    _, out = loop(frames, waits=0.97, receive_depth=32, period=FAST)
    rest = iter(frames)
    assert 2 <= len(out) < len(frames)
    assert all(frame in rest for frame in out)


# The receiver alone: bytes that no right transmitter sends


def received(pieces):
    """[(frame, error)] of bytes, errors and silence: each piece is (bytes, error flags by place), 12 idle between."""
    dut = FrameDeserializer(WIDTH)
    found = []

    async def send(ctx):
        for content, errors in pieces:
            for place, byte in enumerate(content):
                ctx.set(dut.i.data, byte)
                ctx.set(dut.i.enable, 1)
                ctx.set(dut.i.error, place in errors)
                await ctx.tick()
            ctx.set(dut.i.enable, 0)
            ctx.set(dut.i.error, 0)
            await ctx.tick().repeat(12)

    async def take(ctx):
        content = b""
        while True:
            _, _, valid, data, keep, last, error = await ctx.tick().sample(
                dut.o.tvalid, dut.o.tdata, dut.o.tkeep, dut.o.tlast, dut.error
            )
            if valid:
                assert last or keep == 0xFFFF
                assert keep
                content += data.to_bytes(BEAT, "little")[: keep.bit_length()]
                if last:
                    found.append((content, error))
                    content = b""

    simulator = Simulator(dut)
    simulator.add_clock(GIGABIT)
    simulator.add_testbench(send)
    simulator.add_testbench(take, background=True)
    simulator.run()
    return found


GOOD = random.Random(1).randbytes(90)
RUNT, GIANT = GOOD[:59], bytes(9015)
WRONG = {
    "a runt": (PREAMBLE + RUNT + fcs(RUNT), ()),
    "a giant": (PREAMBLE + GIANT + fcs(GIANT), ()),
    "an error of the PHY at the first byte": (on_the_wire(GOOD), (8,)),
    "an error of the PHY in the FCS": (on_the_wire(GOOD), (len(on_the_wire(GOOD)) - 1,)),
    "a wrong FCS": (on_the_wire(GOOD)[:-1] + bytes([on_the_wire(GOOD)[-1] ^ 0x80]), ()),
    "an FCS of another byte order": (PREAMBLE + GOOD + fcs(GOOD)[::-1], ()),
    "a frame that is cut off": (on_the_wire(GOOD)[:-5], ()),
    "a frame and one byte more": (on_the_wire(GOOD) + b"\0", ()),
    "nothing behind the delimiter": (PREAMBLE, ()),
    "three bytes": (PREAMBLE + b"\1\2\3", ()),
    "an FCS alone": (PREAMBLE + fcs(b""), ()),
    "an error in the preamble": (on_the_wire(GOOD), (2,)),
    "another byte before the delimiter": (b"\x55\x54" + on_the_wire(GOOD), ()),
    "no delimiter": (b"\x55" * 80, ()),
}


def test_what_is_no_good_frame_is_an_error_or_nothing_and_the_next_frame_is_good():
    pieces = []
    for wrong in WRONG.values():
        pieces += [wrong, (on_the_wire(GOOD), ())]
    found = received(pieces)
    assert [frame for frame, error in found if not error] == [GOOD] * len(WRONG)


@pytest.mark.parametrize("preamble", [b"\xd5", b"\x55\xd5", b"\x55" * 20 + b"\xd5"], ids=["none", "short", "long"])
def test_the_length_of_the_preamble_does_not_matter(preamble):
    assert received([(preamble + GOOD + fcs(GOOD), ())]) == [(GOOD, 0)]


def test_random_bytes_are_never_a_frame():
    generator = random.Random(2)
    pieces = [(b"\xd5" + generator.randbytes(generator.randrange(120)), ()) for _ in range(100)]
    assert [frame for frame, error in received(pieces) if not error] == []


@pytest.mark.parametrize("length", [60, 61, 63, 64, 65, 76, 80, 9014])
def test_frames_of_each_length_come_whole(length):
    frame = random.Random(length).randbytes(length)
    assert received([(on_the_wire(frame), ())]) == [(frame, 0)]
