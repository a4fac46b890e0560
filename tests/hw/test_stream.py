# amaranth: UnusedElaboratable=no
"""The hardware stream kit: order, losslessness, the stream contract, throughput and fairness."""

import random
from itertools import chain

import pytest
from amaranth.hdl import Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator
from amoeba_hw.stream import (
    Demux,
    Queue,
    RegisteredQueue,
    RegisterSlice,
    RoundRobinArbiter,
    SkidBuffer,
    connect_streams,
)

BEAT = data.StructLayout({"data": 8, "last": 1})
BEAT_SWAPPED = data.StructLayout({"last": 1, "data": 8})
ALWAYS = 1.0


def joined(lists):
    return list(chain.from_iterable(lists))


def packets(rng, count, tag=0):
    """Random packets of 1 to 4 beats, as lists of beats; ``tag`` in the upper bits of ``data``."""
    result = []
    for number in range(count):
        length = rng.randint(1, 4)
        beats = [
            {"data": tag << 6 | (number & 0xF) << 2 | beat, "last": beat == length - 1} for beat in range(length)
        ]
        result.append(beats)
    return result


class Bench:
    """Drives any number of streams of one design and records what comes out, cycle by cycle."""

    def __init__(self, dut, seed=0):
        self.simulator = Simulator(dut)
        self.simulator.add_clock(1e-6)
        self.rng = random.Random(seed)

    def source(self, interface, beats, rate=ALWAYS, before=None):
        rng = random.Random(self.rng.random())

        async def drive(ctx):
            for beat in beats:
                while rng.random() >= rate:
                    await ctx.tick()
                if before is not None:
                    before(ctx, beat)
                ctx.set(interface.payload, beat)
                ctx.set(interface.valid, 1)
                await ctx.tick().until(interface.ready)
                ctx.set(interface.valid, 0)

        self.simulator.add_testbench(drive, background=True)

    def sink(self, interface, rate=ALWAYS):
        """Returns a list that fills with (cycle, payload); asserts the stream contract meanwhile."""
        rng = random.Random(self.rng.random())
        seen = []

        async def receive(ctx):
            refused = None
            cycle = 0
            while True:
                ctx.set(interface.ready, rng.random() < rate)
                _, _, valid, ready, payload = await ctx.tick().sample(
                    interface.valid, interface.ready, interface.payload
                )
                if refused is not None:
                    assert valid, "valid fell before the transfer"
                    assert payload == refused, "the payload changed before the transfer"
                refused = payload if valid and not ready else None
                if valid and ready:
                    seen.append((cycle, payload))
                cycle += 1

        self.simulator.add_testbench(receive, background=True)
        return seen

    def run(self, cycles):
        async def wait(ctx):
            await ctx.tick().repeat(cycles)

        self.perform(wait)

    def perform(self, testbench):
        """Run until ``testbench`` ends."""
        self.simulator.add_testbench(testbench)
        self.simulator.run()


def plain(seen):
    return [{"data": payload["data"], "last": payload["last"]} for _, payload in seen]


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: Queue(BEAT, 1), id="queue of 1"),
        pytest.param(lambda: Queue(BEAT, 5), id="queue of 5"),
        pytest.param(lambda: RegisteredQueue(BEAT, 5), id="registered queue of 5"),
        pytest.param(lambda: RegisterSlice(BEAT), id="register slice"),
        pytest.param(lambda: SkidBuffer(BEAT), id="skid buffer"),
    ],
)
@pytest.mark.parametrize(("source_rate", "sink_rate"), [(ALWAYS, 0.4), (0.4, ALWAYS), (0.6, 0.6)])
def test_a_buffer_passes_every_beat_in_order_under_any_stalling(make, source_rate, sink_rate):
    beats = joined(packets(random.Random(7), 30))
    dut = make()
    bench = Bench(dut, seed=3)
    bench.source(dut.i, beats, source_rate)
    seen = bench.sink(dut.o, sink_rate)
    bench.run(600)
    assert plain(seen) == beats


@pytest.mark.parametrize(
    ("make", "latency"),
    [
        pytest.param(lambda: Queue(BEAT, 2), 1, id="queue"),
        pytest.param(lambda: RegisteredQueue(BEAT, 2), 2, id="registered queue"),
        pytest.param(lambda: RegisterSlice(BEAT), 1, id="register slice"),
        pytest.param(lambda: SkidBuffer(BEAT), 0, id="skid buffer"),
        pytest.param(lambda: RoundRobinArbiter(BEAT, 1), 0, id="arbiter"),
        pytest.param(lambda: Demux(BEAT, 1), 0, id="demux"),
    ],
)
def test_an_unstalled_stream_moves_one_beat_per_cycle_after_the_documented_latency(make, latency):
    beats = joined(packets(random.Random(7), 8))
    dut = make()
    bench = Bench(dut)
    bench.source(dut.i[0] if isinstance(dut, RoundRobinArbiter) else dut.i, beats)
    seen = bench.sink(dut.o[0] if isinstance(dut, Demux) else dut.o)
    bench.run(60)
    assert [cycle for cycle, _ in seen] == [latency + n for n in range(len(beats))]


def test_a_queue_counts_its_beats_and_refuses_more_than_its_depth():
    dut = Queue(8, 3)

    async def fill(ctx):
        ctx.set(dut.i.valid, 1)
        await ctx.tick().repeat(8)
        assert ctx.get(dut.level) == 3
        assert not ctx.get(dut.i.ready)
        ctx.set(dut.i.valid, 0)
        ctx.set(dut.o.ready, 1)
        await ctx.tick().repeat(3)
        assert ctx.get(dut.level) == 0
        assert not ctx.get(dut.o.valid)

    Bench(dut).perform(fill)


def test_a_registered_queue_takes_two_beats_more_than_its_level_says():
    dut = RegisteredQueue(8, 3)

    async def fill(ctx):
        ctx.set(dut.i.valid, 1)
        taken = 0
        for _ in range(12):
            taken += ctx.get(dut.i.ready)
            await ctx.tick()
        assert taken == 5
        assert ctx.get(dut.level) == dut.depth == 3

    Bench(dut).perform(fill)


@pytest.mark.parametrize("sink_rate", [ALWAYS, 0.5])
def test_an_arbiter_keeps_packets_whole_and_serves_busy_inputs_in_turn(sink_rate):
    rng = random.Random(11)
    sent = [packets(rng, 12, tag) for tag in range(3)]
    dut = RoundRobinArbiter(BEAT, 3)
    bench = Bench(dut, seed=5)
    for tag, list_of_packets in enumerate(sent):
        bench.source(dut.i[tag], joined(list_of_packets))
    seen = bench.sink(dut.o, sink_rate)
    bench.run(500)
    in_turn = [sent[tag][number] for number in range(12) for tag in range(3)]
    assert plain(seen) == joined(in_turn)


def test_an_arbiter_passes_everything_from_inputs_that_pause_inside_packets():
    rng = random.Random(13)
    sent = [packets(rng, 12, tag) for tag in range(3)]
    dut = RoundRobinArbiter(BEAT, 3)
    bench = Bench(dut, seed=6)
    for tag, list_of_packets in enumerate(sent):
        bench.source(dut.i[tag], joined(list_of_packets), 0.5)
    seen = bench.sink(dut.o, 0.7)
    bench.run(900)
    received = {0: [], 1: [], 2: []}
    packet = []
    for beat in plain(seen):
        packet.append(beat)
        if beat["last"]:
            assert len({beat["data"] >> 6 for beat in packet}) == 1, "packets interleaved"
            received[beat["data"] >> 6].append(packet)
            packet = []
    assert [received[tag] for tag in range(3)] == sent


def test_an_arbiter_of_beats_without_last_alternates():
    dut = RoundRobinArbiter(8, 2)
    bench = Bench(dut)
    bench.source(dut.i[0], [1, 2, 3])
    bench.source(dut.i[1], [11, 12, 13])
    seen = bench.sink(dut.o)
    bench.run(20)
    assert [payload for _, payload in seen] == [1, 11, 2, 12, 3, 13]


def test_a_demux_routes_by_the_first_beat_and_discards_packets_for_nobody():
    sent = packets(random.Random(17), 24)
    routes = [number % 3 for number in range(24)]  # 2 is nobody
    dut = Demux(BEAT, 2)
    bench = Bench(dut, seed=8)
    first_beats = {id(packet[0]): route for packet, route in zip(sent, routes, strict=True)}

    def select(ctx, beat):
        # Later beats carry a wrong route on purpose: only the first one counts.
        ctx.set(dut.select, first_beats.get(id(beat), bench.rng.randrange(3)))

    bench.source(dut.i, joined(sent), 0.8, before=select)
    seen = [bench.sink(output, 0.6) for output in (dut.o[0], dut.o[1])]
    bench.run(500)
    for output in range(2):
        expected = [packet for packet, route in zip(sent, routes, strict=True) if route == output]
        assert plain(seen[output]) == joined(expected)


class Pair(wiring.Component):
    """Passes a stream through two buffers whose payload shapes are given separately."""

    def __init__(self, first, second):
        super().__init__({"i": In(stream.Signature(first)), "o": Out(stream.Signature(second))})
        self.first, self.second = RegisterSlice(first), RegisterSlice(second)

    def elaborate(self, platform):
        m = Module()
        m.submodules.first, m.submodules.second = self.first, self.second
        connect_streams(m, wiring.flipped(self.i), self.first.i)
        connect_streams(m, self.first.o, self.second.i)
        connect_streams(m, self.second.o, wiring.flipped(self.o))
        return m


def test_connect_streams_joins_equal_payloads_however_they_are_written():
    dut = Pair(data.StructLayout({"data": 8, "last": 1}), BEAT)
    bench = Bench(dut)
    beats = joined(packets(random.Random(1), 3))
    bench.source(dut.i, beats)
    seen = bench.sink(dut.o)
    bench.run(30)
    assert plain(seen) == beats


@pytest.mark.parametrize("other", [BEAT_SWAPPED, 9, data.StructLayout({"data": 9})])
def test_connect_streams_refuses_payloads_that_merely_have_the_same_width(other):
    with pytest.raises(TypeError, match="Expected streams with the same payload"):
        Pair(BEAT, other).elaborate(None)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Queue(8, 0),
        lambda: Queue(8, "4"),
        lambda: RoundRobinArbiter(8, 0),
        lambda: Demux(8, 0),
    ],
)
def test_a_size_below_one_is_refused(make):
    with pytest.raises(ValueError, match="Expected"):
        make()
