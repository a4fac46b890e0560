"""Testbench of FrameReceiver: frames that scapy and hand-typed bytes make, right and wrong in every way.

Parameters: ``width``, ``payload``.

Covers ``host/frames.py``, ``wire/frame_store.py`` and ``wire/parser.py``.
"""

import random
import struct
from collections import Counter
from itertools import pairwise

import cocotb
import google_crc32c
from amoeba_hw.interfaces import FRAME_HEADER, TRACE_SLOT, packet_beat
from amoeba_model.registers import Counter as NicCounter
from amoeba_model.wire.codec import Drop, decode
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import StreamSink, StreamSource, always, in_bursts, randomly, reset, start
from amoeba_sim.payload import unpack
from cocotb.triggers import ClockCycles, RisingEdge

from tests.hw.uet_frames import (
    OWN_IP,
    OWN_MAC,
    PEERS,
    beats_of,
    frame,
    network_bytes,
    packets_of,
    random_close,
    random_close_request,
    random_control,
    random_header,
    random_nack,
    random_received_response,
    random_request,
    random_response,
    random_return,
    transport_bytes,
)

PARAMETERS = bench_parameters()
WIDTH, PAYLOAD = PARAMETERS["width"], PARAMETERS["payload"]
BEAT = packet_beat(WIDTH)
LIMIT = 102 + PAYLOAD + 4
PACES = {"always": always, "randomly": lambda: randomly(0.5), "in bursts": lambda: in_bursts(9)}
COUNTS = ("frames_received", "dropped_malformed", "dropped_check", "dropped_address", "dropped_overflow")


class Bench:
    """A receiver with all its streams, counters and traces."""

    def __init__(self, dut, pace=always, sink_pace=always):
        self.dut = dut
        dut.mac.value, dut.ip.value = OWN_MAC, OWN_IP
        self.frames = StreamSource(dut, "frames", BEAT, pace=pace())
        self.sinks = {
            name: StreamSink(dut, name, FRAME_HEADER if name.endswith("s") else BEAT, pace=sink_pace())
            for name in ("requests", "request_payload", "responses", "response_payload")
        }
        self.counts = Counter()
        self.marked = {"requests": 0, "responses": 0}
        """Of each kind, how many were counted as marked."""
        self.traced = {"request": [], "response": []}
        self.first_end = self.first_header = None
        """Cycles in which the first frame's last beat was taken, and its header was offered."""
        self.verdicts = []
        """Cycle of each verdict."""
        cocotb.start_soon(self._watch())

    async def _watch(self):
        dut, cycle = self.dut, 0
        while True:
            await RisingEdge(dut.clk)
            cycle += 1
            if dut.frames__valid.value and dut.frames__ready.value and self.first_end is None:
                self.first_end = cycle if unpack(BEAT, int(dut.frames__payload.value))["last"] else None
            if dut.requests__valid.value and self.first_header is None:
                self.first_header = cycle
            for kind, events in self.traced.items():
                slot = unpack(TRACE_SLOT, int(getattr(dut, f"trace_{kind}_received").value))
                if slot["valid"]:
                    events.append(slot["event"])
            for kind in self.marked:
                self.marked[kind] += int(getattr(dut, f"count_marked_{kind}").value)
            for name in COUNTS:
                if int(getattr(dut, f"count_{name}").value):
                    self.counts[name] += 1
                    self.verdicts.append(cycle)

    def send(self, data, error=False):
        self.frames.send(*beats_of(data, WIDTH, error))

    async def judged(self, count):
        """Wait for the verdict on this many frames, and for what follows from it."""
        while sum(self.counts.values()) < count:
            await RisingEdge(self.dut.clk)
        quiet = 0
        while quiet < 20:
            await RisingEdge(self.dut.clk)
            busy = any(getattr(self.dut, f"{name}__valid").value for name in self.sinks)
            quiet = 0 if busy else quiet + 1

    def behind(self, kind, sent):
        """The frames of a kind that have not come out whole."""
        headers = len(self.sinks[f"{kind}s"].received)
        payloads = sum(beat["last"] for beat in self.sinks[f"{kind}_payload"].received)
        whole = 0
        for _, payload in sent[:headers]:
            payloads -= bool(payload)
            whole += payloads >= 0
        return sent[whole:]

    def accepted(self, kind):
        """(header, payload) of all frames of a kind that came out so far."""
        headers = self.sinks[f"{kind}s"].received
        payloads = iter(packets_of(self.sinks[f"{kind}_payload"].received, WIDTH))
        result = [(h, next(payloads) if h["payload_length"] else b"") for h in headers]
        assert next(payloads, None) is None, "a payload without a header"
        return result


def random_payload(longest=PAYLOAD):
    length = random.choice([0, 0, 8, 16, 32, longest, random.randint(1, 130), random.randint(1, longest)])
    return random.randbytes(min(length, longest))


def malformed_frames():
    """Frames that are not for anybody to understand, by what is wrong with them."""
    payload = random.randbytes(40)
    header = random_request(payload)

    def changed(**overrides):
        return frame(header, payload, received=True, **overrides)

    right = changed()
    truncated = [right[:length] for length in (1, 14, 34, 41, 42, 45, 46, 47, 54, 63, 64, 65, len(right) - 1)]
    too_long = frame(header, random.randbytes(PAYLOAD + 20), received=True)
    ip_length = struct.unpack(">H", right[16:18])[0]
    return {
        "ethertype": changed(ether={"type": 0x86DD}),
        "ip version": changed(ip={"version": 6}),
        "ip options": changed(ip={"ihl": 6, "options": [], "len": ip_length}),
        "fragment offset": changed(ip={"frag": 1}),
        "more fragments": changed(ip={"flags": "MF"}),
        "protocol": changed(ip={"proto": 6}),
        "ip checksum": changed(ip={"chksum": 0x1234}),
        "udp port": changed(udp={"dport": 4792}),
        "udp length": changed(udp={"len": 50}),
        "ip length beyond the frame": changed(ip={"len": ip_length + 1}, udp={"len": ip_length - 19}),
        "no room for a crc": network_bytes(b"", (1, 1), (OWN_MAC, OWN_IP), 1, crc=b"\1\2\3", padding=bytes(60)),
        "longer than the limit": too_long,
        "much longer than the limit": too_long + random.randbytes(3 * PAYLOAD),
        **{f"truncated to {len(data)}": data for data in truncated},
    }


def wrong_transports():
    """PDS and SES headers other than those of a request or an answer; their CRC is right."""

    def wrapped(transport):
        return network_bytes(transport, (1, 1), (OWN_MAC, OWN_IP), 7)

    request = transport_bytes(random_request(b""), b"")
    atomic = transport_bytes(random_request(b"") | {"opcode": 4}, b"")
    answer, alone = (transport_bytes(random_response(b"") | {"opcode": opcode}, b"") for opcode in (1, 3))
    data = transport_bytes(random_response(bytes(20)), bytes(20))
    nack, close = transport_bytes(random_nack(), b""), transport_bytes(random_close(), b"")

    def prologue(transport, kind, next_header, flags=0):
        return struct.pack(">H", kind << 11 | next_header << 7 | flags) + transport[2:]

    return {
        **{f"type {kind}": wrapped(prologue(request, kind, 3)) for kind in range(32) if kind != 3},
        **{f"request with next header {n}": wrapped(prologue(request, 3, n)) for n in range(16) if n != 3},
        **{f"answer with next header {n}": wrapped(prologue(answer, 7, n)) for n in range(16) if n != 4},
        **{f"request of {n} bytes": wrapped(request[:n]) for n in (0, 1, 11, 12, 23, 24, 54, 55)},
        **{f"atomic of {n} bytes": wrapped(atomic[:n]) for n in (56, 59)},
        **{f"answer of {n} bytes": wrapped(answer[:n]) for n in (0, 12, 23)},
        **{f"data of {n} bytes": wrapped(data[:n]) for n in (24, 31, 51)},
        **{f"control packet of type {n}": wrapped(prologue(close, 11, n, 0x28)) for n in (0, 3, *range(6, 16))},
        **{f"ACK_CC with next header {n}": wrapped(prologue(answer + bytes(20), 8, n)) for n in (1, 2, 3, 6, 15)},
        **{f"ACK_CC of {n} bytes": wrapped(prologue(answer + bytes(20), 8, 4)[:n]) for n in (12, 31, 32, 43)},
        **{f"NACK with next header {n}": wrapped(prologue(nack, 10, n)) for n in range(1, 16)},
        **{f"NACK of {n} bytes": wrapped(nack[:n]) for n in (2, 12, 15)},
        **{f"CLOSE of {n} bytes": wrapped(close[:n]) for n in (2, 12, 15)},
        **{f"NACK with {n} bytes more": wrapped(nack + bytes(n)) for n in (1, 8, 40)},
        **{f"CLOSE with {n} bytes more": wrapped(close + bytes(n)) for n in (1, 8, 40)},
        **{f"ACK of {n} bytes": wrapped(alone[:n]) for n in (2, 11)},
        **{f"ACK with {n} bytes more": wrapped(alone + bytes(n)) for n in (1, 4, 40)},
        **{
            f"{name} of PDC 0": wrapped(transport[:8] + b"\0\0" + transport[10:])
            for name, transport in (("request", request), ("CLOSE", close), ("answer", answer), ("ACK", alone))
        },
        "answer with a payload": wrapped(answer + b"x"),
        "data with more than it says": wrapped(data + b"x"),
        "answer's list": wrapped(answer[:12] + bytes([answer[12] | 0x40]) + answer[13:]),
        "answer's version": wrapped(answer[:13] + bytes([answer[13] | 0x80]) + answer[14:]),
        **{f"answer's opcode {n}": wrapped(answer[:12] + bytes([n]) + answer[13:]) for n in (2, 3, 63)},
        "data's opcode": wrapped(data[:12] + b"\1" + data[13:]),
    }


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES), sink_pace=list(PACES))
async def right_frames_come_out_as_they_were_meant(dut, pace, sink_pace):
    bench = Bench(dut, PACES[pace], PACES[sink_pace])
    await start(dut)
    expected = {"request": [], "response": []}
    for _ in range(80):
        payload = random_payload()
        header = random_header(payload)
        padding = random.randbytes(random.choice([0, 0, 1, 70])) if len(payload) < 32 else b""
        bench.send(frame(header, payload, received=True, padding=padding))
        expected["request" if header["is_request"] else "response"].append((header, payload))
        while sink_pace != "always" and bench.frames.left + len(bench.behind("request", expected["request"])) > 4:
            # no more than the store of requests has space for
            await RisingEdge(dut.clk)
    await bench.judged(80)
    assert bench.counts == {"frames_received": 80}
    for kind in expected:
        assert bench.accepted(kind) == expected[kind]
    assert [(e["psn"], e["context"]) for e in bench.traced["request"]] == [
        (h["psn"], 0xFF if h["is_control"] else h["resource_index"] & 0xFF) for h, _ in expected["request"]
    ]
    assert [(e["psn"], e["pdc"], e["status"]) for e in bench.traced["response"]] == [
        (h["psn"], h["dpdcid"], h["return_code"]) for h, _ in expected["response"]
    ]


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def every_length_of_payload_and_padding_is_told_apart(dut):
    bench = Bench(dut)
    await start(dut)
    expected = {"request": [], "response": []}
    lengths = [*range(WIDTH // 4 + 2), PAYLOAD - 1, PAYLOAD]
    makers = (
        ("request", random_request), ("response", random_response), ("response", random_received_response),
        ("response", random_return),
    )  # fmt: skip
    for length in lengths:
        for kind, make in makers:
            payload = random.randbytes(length)
            header = make(payload)
            space = min(WIDTH // 4, PAYLOAD - length)
            bench.send(frame(header, payload, received=True, padding=random.randbytes(random.randint(0, space))))
            expected[kind].append((header, payload))
    await bench.judged(len(makers) * len(lengths))
    for kind in expected:
        assert bench.accepted(kind) == expected[kind]
    marked = [header for of_kind in expected.values() for header, _ in of_kind if header["marked"]]
    requested = sum(header["is_request"] or header["returns"] for header in marked)
    assert bench.marked == {"requests": requested, "responses": len(marked) - requested}


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES))
async def wrong_frames_are_counted_and_the_next_right_one_comes_out(dut, pace):
    bench = Bench(dut, PACES[pace], PACES[pace])
    await start(dut)
    payload = random.randbytes(40)
    header = random_request(payload)
    right = frame(header, payload, received=True)
    cases = [("dropped_malformed", name, data, False) for name, data in malformed_frames().items()]
    cases += [("dropped_malformed", name, data, False) for name, data in wrong_transports().items()]
    cases += [
        ("dropped_address", "mac", frame(header, payload, (OWN_MAC ^ 1 << 40, OWN_IP), received=True), False),
        ("dropped_address", "ip", frame(header, payload, (OWN_MAC, OWN_IP ^ 1), received=True), False),
        ("dropped_check", "crc", frame(header, payload, received=True, crc=b"\1\2\3\4"), False),
        ("dropped_check", "fcs", right, True),
        # The first error in the order of hw/amoeba_hw/wire/README.md counts.
        (
            "dropped_address",
            "address and crc",
            frame(header, payload, (OWN_MAC ^ 1, OWN_IP), received=True, crc=b"1234"),
            False,
        ),
        (
            "dropped_malformed",
            "ethertype and address",
            frame(header, payload, (OWN_MAC ^ 1, OWN_IP), received=True, ether={"type": 0x0806}),
            False,
        ),
    ]
    random.shuffle(cases)
    for number, (counter, name, data, error) in enumerate(cases, start=1):
        before = bench.counts[counter]
        bench.send(data, error)
        good_payload = random_payload(200)
        good = random_header(good_payload)
        bench.send(frame(good, good_payload, received=True))
        await bench.judged(2 * number)
        assert bench.counts[counter] == before + 1, f"{name}: {bench.counts}"
        assert bench.counts["frames_received"] == number, f"after {name}: {bench.counts}"
        kind = "request" if good["is_request"] else "response"
        assert bench.accepted(kind) == [(good, good_payload)], f"after {name}"
        for sink in bench.sinks.values():
            sink.received.clear()


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def any_bytes_are_judged_as_the_model_judges_them(dut):
    bench = Bench(dut)
    await start(dut)
    expected = {"request": [], "response": []}
    counts = Counter()
    number = 900
    for _ in range(number):
        payload = random_payload(100)
        data = bytearray(frame(random_header(payload), payload, received=True))
        for _ in range(random.choice([0, 1, 1, 2])):
            data[random.randrange(min(len(data), 70))] ^= 1 << random.randrange(8)
        if random.random() < 0.3:
            del data[random.randrange(len(data)) :]
            data += random.randbytes(random.choice([0, 0, 30]))
        end = 14 + int.from_bytes(data[16:18], "big")
        if random.random() < 0.6 and 46 <= end <= len(data):
            # Repair what would hide the rest.
            data[end - 4 : end] = struct.pack("<I", google_crc32c.value(bytes(data[26 : end - 4])))
        data = bytes(data) or b"\0"
        assert len(data) <= LIMIT
        bench.send(data)
        decoded = decode(data, OWN_MAC, OWN_IP, PEERS)
        if isinstance(decoded, Drop):
            counts[NicCounter(decoded.cause).name.lower()] += 1
        else:
            counts["frames_received"] += 1
            header = {name: int(getattr(decoded.header, name)) for name, _ in FRAME_HEADER}
            if not decoded.header.clears:
                expected["request" if decoded.header.is_request else "response"].append((header, decoded.payload))
    await bench.judged(number)
    assert bench.counts == counts
    for kind in expected:
        assert bench.accepted(kind) == expected[kind]
    assert min(counts.values()) > 20, f"too few of some kind: {counts}"


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def small_frames_are_received_without_idle_cycles(dut):
    bench = Bench(dut)
    await start(dut)
    for _ in range(30):
        bench.send(frame(random_request(bytes(8)) | {"opcode": 3}, bytes(8), received=True))
    await bench.judged(30)
    beats = -(-114 // (WIDTH // 8))
    assert bench.counts == {"frames_received": 30}
    assert [b - a for a, b in pairwise(bench.verdicts)] == [beats] * 29
    assert bench.first_header - bench.first_end == 4


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def nacks_and_closes_are_received_without_idle_cycles(dut):
    bench = Bench(dut)
    await start(dut)
    expected = {"request": [], "response": []}
    for _ in range(15):
        for kind, make in (("request", random_close), ("response", random_nack)):
            expected[kind].append((make(), b""))
            bench.send(frame(*expected[kind][-1], received=True))
    await bench.judged(30)
    assert [b - a for a, b in pairwise(bench.verdicts)] == [-(-62 // (WIDTH // 8))] * 29
    for kind in expected:
        assert bench.accepted(kind) == expected[kind]


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_clear_is_counted_and_ends_here_and_a_request_for_an_ack_is_handed_on(dut):
    bench = Bench(dut)
    await start(dut)
    headers = [random_control() for _ in range(40)]
    for header in headers:
        bench.send(frame(header, b"", received=True))
    await bench.judged(40)
    asks = [(header, b"") for header in headers if header["asks"]]
    assert 5 < len(asks) < 35
    assert bench.counts == {"frames_received": 40}
    assert bench.marked == {"requests": sum(header["marked"] for header in headers), "responses": 0}
    assert bench.accepted("request") == asks
    assert [event["psn"] for event in bench.traced["request"]] == [header["psn"] for header, _ in asks]
    assert bench.accepted("response") == []


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_close_request_is_handed_to_the_initiator(dut):
    bench = Bench(dut)
    await start(dut)
    headers = [random_close_request() for _ in range(20)]
    for header in headers:
        bench.send(frame(header, b"", received=True))
        bench.send(frame(random_close(), b"", received=True))
    await bench.judged(40)
    assert bench.counts == {"frames_received": 40}
    assert bench.accepted("response") == [(header, b"") for header in headers]
    assert len(bench.accepted("request")) == 20


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_wrong_ip_checksum_is_found_in_frames_of_any_length(dut):
    # Shortest first: with 64 bytes per beat a NACK is one beat long, and its checksum is judged with that beat.
    bench = Bench(dut)
    await start(dut)
    verdicts = []
    for header, payload in [(random_nack(), b"")] * 4 + [(random_response(b""), b""), (random_request(b"xy"), b"xy")]:
        for checksum in ({}, {"ip": {"chksum": random.getrandbits(16)}}, {}):
            data = frame(header, payload, received=True, **checksum)
            bench.send(data)
            verdicts.append(isinstance(decode(data, OWN_MAC, OWN_IP, PEERS), Drop))
    await bench.judged(len(verdicts))
    assert bench.counts == {"frames_received": verdicts.count(False), "dropped_malformed": verdicts.count(True)}
    assert verdicts.count(True) == 6


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def responses_pass_requests_that_nobody_takes(dut):
    bench = Bench(dut)
    for name in ("requests", "request_payload"):
        bench.sinks[name]._pace = iter(lambda: False, True)
    await start(dut)
    full = random.randbytes(PAYLOAD)
    answers = []
    for _ in range(2):
        bench.send(frame(random_request(full), full, received=True))
    for _ in range(20):
        answers.append((random_response(full), full))
        bench.send(frame(*answers[-1], received=True))
    while len(bench.sinks["responses"].received) < 20:
        await RisingEdge(dut.clk)
    await ClockCycles(dut.clk, 50)
    assert bench.accepted("response") == answers


def close(bench, *names):
    """Let nobody take these streams; their paces, to open them again."""
    paces = {name: bench.sinks[name]._pace for name in names}
    for name in names:
        bench.sinks[name]._pace = iter(lambda: False, True)
    return paces


def open_again(bench, paces):
    for name, pace in paces.items():
        bench.sinks[name]._pace = pace


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_full_store_of_responses_holds_up_the_link_and_loses_nothing(dut):
    bench = Bench(dut)
    paces = close(bench, *bench.sinks)
    await start(dut)
    expected = []
    for number in range(40):
        payload = random.randbytes(PAYLOAD if number % 2 else 8)
        expected.append((random_response(payload), payload))
        bench.send(frame(*expected[-1], received=True))
    await ClockCycles(dut.clk, 2000)
    assert bench.frames.left > 0
    open_again(bench, paces)
    await bench.judged(40)
    assert bench.accepted("response") == expected
    assert bench.counts == {"frames_received": 40}


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(longest=[PAYLOAD, 8, 0])
async def requests_that_find_no_space_are_dropped_whole_and_hold_up_nothing(dut, longest):
    bench = Bench(dut)
    paces = close(bench, "requests", "request_payload")
    await start(dut)
    sent = []
    for _ in range(400):
        payload = random.randbytes(random.choice((longest, longest // 2)))
        sent.append((random_request(payload), payload))
        bench.send(frame(*sent[-1], received=True))
    answers = []
    for _ in range(5):
        payload = random.randbytes(100)
        answers.append((random_response(payload), payload))
        bench.send(frame(*answers[-1], received=True))
    while bench.frames.left:
        await RisingEdge(dut.clk)
        assert dut.frames__ready.value, "a request holds up the link"
    await ClockCycles(dut.clk, 30)
    assert bench.accepted("response") == answers, "answers do not wait for requests"
    kept = bench.counts["frames_received"] - len(answers)
    assert bench.counts["dropped_overflow"] == 400 - kept > 0
    open_again(bench, paces)
    await bench.judged(405)
    taken = bench.accepted("request")
    # The store of payloads is full first if there are any; a shorter one may fit behind a longer one that did not.
    assert kept == len(taken) == len(bench.traced["request"]) >= {PAYLOAD: 4, 8: 64, 0: 256}[longest]
    left = iter(sent)
    assert all(one in left for one in taken), "out of order, or mixed up"
    sent.append((random_request(b"after"), b"after"))
    bench.send(frame(*sent[-1], received=True))
    await bench.judged(406)
    assert bench.accepted("request")[-1] == sent[-1]


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def reset_in_mid_traffic_leaves_nothing_behind(dut):
    bench = Bench(dut, sink_pace=PACES["randomly"])
    await start(dut)
    for _ in range(15):
        for _ in range(5):
            payload = random_payload()
            bench.send(frame(random_request(payload), payload, received=True))
        await ClockCycles(dut.clk, random.randint(1, 90))
        await reset(dut)
        bench.counts.clear()
        for sink in bench.sinks.values():
            sink.received.clear()
        payload = random_payload()
        header = random_request(payload)
        bench.send(frame(header, payload, received=True))
        await bench.judged(1)
        assert bench.accepted("request") == [(header, payload)]
