"""Testbench of FrameTransmitter: its frames against frames that scapy and hand-typed bytes make.

Parameters: ``width``, ``payload``.

Covers ``wire/assembler.py``, ``wire/crc.py``, ``wire/crc_appender.py`` and ``wire/headers.py``.
"""

import random
from itertools import pairwise

import cocotb
from amoeba_hw.interfaces import FRAME_HEADER, TRACE_SLOT, packet_beat
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import StreamSink, StreamSource, always, in_bursts, randomly, reset, start
from amoeba_sim.payload import unpack
from cocotb.triggers import ClockCycles, RisingEdge

from tests.hw.uet_frames import (
    OWN_IP,
    OWN_MAC,
    beats_of,
    frame,
    packets_of,
    random_close,
    random_control,
    random_nack,
    random_request,
    random_response,
    random_to_initiator,
    random_to_target,
)

PARAMETERS = bench_parameters()
WIDTH, PAYLOAD = PARAMETERS["width"], PARAMETERS["payload"]
DSCP = 0x2A
BEAT = packet_beat(WIDTH)
PACES = {"always": always, "randomly": lambda: randomly(0.5), "in bursts": lambda: in_bursts(9)}


class Bench:
    """A transmitter with all its streams, and its frames so far."""

    def __init__(self, dut, pace=always, sink_pace=always):
        self.dut = dut
        dut.mac.value, dut.ip.value, dut.dscp.value = OWN_MAC, OWN_IP, DSCP
        self.sources = {
            name: StreamSource(dut, name, FRAME_HEADER if name.endswith("s") else BEAT, pace=pace())
            for name in ("requests", "request_payload", "responses", "response_payload", "acknowledgements")
        }
        self.sink = StreamSink(dut, "frames", BEAT, pace=sink_pace())
        self.received = []
        self.sent_requests, self.sent_responses, self.counted, self.refused = [], [], 0, 0
        self.began = []
        """Cycle in which each request header was taken."""
        self.first_beat = None
        self.finished = []
        """Cycle in which each frame's last beat left."""
        cocotb.start_soon(self._watch())

    async def _watch(self):
        dut, cycle = self.dut, 0
        while True:
            await RisingEdge(dut.clk)
            cycle += 1
            for slot, events in (
                (dut.trace_request_sent, self.sent_requests),
                (dut.trace_response_sent, self.sent_responses),
            ):
                traced = unpack(TRACE_SLOT, int(slot.value))
                if traced["valid"]:
                    events.append(traced["event"])
            self.counted += int(dut.count_responses_sent.value)
            self.refused += int(dut.count_nacks_sent.value)
            if dut.requests__valid.value and dut.requests__ready.value:
                self.began.append(cycle)
            if dut.frames__valid.value and self.first_beat is None:
                self.first_beat = cycle
            if dut.frames__valid.value and dut.frames__ready.value:
                beat = unpack(BEAT, int(dut.frames__payload.value))
                self.received.append(beat)
                if beat["last"]:
                    self.finished.append(cycle)

    def send(self, kind, header, payload):
        self.sources[f"{kind}s"].send(header)
        if payload:
            self.sources[f"{kind}_payload"].send(*beats_of(payload, WIDTH))

    async def frames(self, count):
        while len(self.finished) < count:
            await RisingEdge(self.dut.clk)
        return packets_of(self.received, WIDTH)


def random_payload():
    length = random.choice([0, 0, 8, 16, 32, PAYLOAD, random.randint(1, 130), random.randint(1, PAYLOAD)])
    return random.randbytes(length)


def acknowledgement(payload):
    """An answer, or a CLEAR_COMMAND."""
    clear = random_control() | {"clears": 1, "asks": 0, "retx": 0, "marked": 0}
    return random_to_initiator(payload) if random.random() < 0.7 else clear


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES), sink_pace=list(PACES))
async def every_frame_is_what_scapy_and_hand_typed_bytes_make(dut, pace, sink_pace):
    bench = Bench(dut, PACES[pace], PACES[sink_pace])
    await start(dut)
    expected = {"request": [], "response": [], "acknowledgement": []}
    for _ in range(40):
        kinds = {"request": random_to_target, "response": random_to_initiator, "acknowledgement": acknowledgement}
        for kind, make in kinds.items():
            payload = b"" if kind == "acknowledgement" else random_payload()
            header = make(payload)
            expected[kind].append(frame(header, payload, received=False, dscp=DSCP))
            bench.send(kind, header, payload)
    frames = await bench.frames(120)
    for kind, of_kind in expected.items():
        assert [f for f in frames if f in of_kind] == of_kind, kind


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def every_length_of_payload_ends_in_the_right_place(dut):
    bench = Bench(dut)
    await start(dut)
    expected = []
    for length in range(WIDTH // 8 * 2 + 2):
        for kind, make in (("request", random_request), ("response", random_response)):
            payload = random.randbytes(length)
            header = make(payload)
            bench.send(kind, header, payload)
            expected.append(frame(header, payload, received=False, dscp=DSCP))
    assert sorted(await bench.frames(len(expected))) == sorted(expected)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def when_both_wait_they_alternate_and_responses_begin(dut):
    bench = Bench(dut)
    await start(dut)
    for _ in range(10):
        bench.send("request", random_request(b""), b"")
        bench.send("response", random_response(b""), b"")
    frames = await bench.frames(20)
    assert [f[42] >> 3 for f in frames] == [7, 3] * 10


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def small_frames_leave_one_after_the_other_without_idle_cycles(dut):
    bench = Bench(dut)
    await start(dut)
    for _ in range(20):
        header = random_request(bytes(8)) | {"opcode": 3}
        bench.send("request", header, bytes(8))
    frames = await bench.frames(20)
    beats = -(-114 // (WIDTH // 8))
    assert {len(f) for f in frames} == {114}
    assert [b - a for a, b in pairwise(bench.finished)] == [beats] * 19
    assert bench.first_beat - bench.began[0] == 6


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def nacks_and_closes_leave_one_after_the_other_without_idle_cycles(dut):
    bench = Bench(dut)
    await start(dut)
    for _ in range(20):
        bench.send("request", random_close(), b"")
        bench.send("response", random_nack(), b"")
    frames = await bench.frames(40)
    assert {len(f) for f in frames} == {62}
    assert [b - a for a, b in pairwise(bench.finished)] == [-(-62 // (WIDTH // 8))] * 39


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def trace_and_counter_tell_every_frame_once(dut):
    bench = Bench(dut, sink_pace=PACES["randomly"])
    await start(dut)
    requests, responses = [], []
    for _ in range(20):
        payload = random_payload()
        requests.append(random_to_target(payload) | {"initiator": random.getrandbits(32)})
        bench.send("request", requests[-1], payload)
        payload = random_payload()
        responses.append(random_to_initiator(payload))
        bench.send("response", responses[-1], payload)
    # What a NACK does not say is not looked at.
    responses.append(random_nack() | {"return_code": 5})
    bench.send("response", responses[-1], b"")
    await bench.frames(41)
    assert bench.counted == sum(not h["is_control"] for h in responses)
    assert bench.refused == len(responses) - bench.counted
    assert bench.sent_requests == [
        {"psn": h["psn"], "pdc": h["spdcid"], "context": h["initiator"] & 0xFF, "status": 0} for h in requests
    ]
    assert bench.sent_responses == [
        {
            "psn": h["psn"],
            "pdc": h["spdcid"],
            "context": 0xFF,
            "status": 0 if h["is_control"] else h["return_code"],
        }
        for h in responses
    ]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def reset_in_mid_frame_leaves_nothing_behind(dut):
    bench = Bench(dut, sink_pace=PACES["randomly"])
    await start(dut)
    for _ in range(15):
        for _ in range(4):
            payload = random_payload()
            bench.send("request", random_request(payload), payload)
        await ClockCycles(dut.clk, random.randint(1, 60))
        await reset(dut)
        bench.received.clear()
        bench.finished.clear()
        payload = random_payload()
        header = random_response(payload)
        bench.send("response", header, payload)
        assert await bench.frames(1) == [frame(header, payload, received=False, dscp=DSCP)]
