"""Testbench of the whole NIC on its standard buses, with cocotbext-axi's models and hand-made frames.

Parameters: ``width``; ``payload``. The NIC has 2 contexts, 16 keys, 4 peers, 4 target PDCs, a window of 8 and
executes INT64 and UINT64.
"""

import random
from collections import Counter

import cocotb
from amoeba_model.opcodes import Datatype
from amoeba_model.parameters import NicParameters
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import always, in_bursts, randomly
from cocotb.triggers import ClockCycles, RisingEdge
from nic_environment import (
    BASE,
    CLOSED,
    KEY,
    LOCAL,
    REGION,
    SIZE,
    SLOTS,
    NicBench,
    Stranger,
    descriptor,
    receive_descriptor,
)
from uet_frames import OWN_IP, OWN_MAC, frame, network_bytes, transport_bytes

PARAMETERS = NicParameters(
    data_width=bench_parameters()["width"],
    payload=bench_parameters()["payload"],
    contexts=2,
    keys=16,
    peers=4,
    target_pdcs=4,
    window=8,
    lines=8,
    datatypes=(Datatype.FI_INT64, Datatype.FI_UINT64),
)
PAYLOAD = PARAMETERS.payload
PACES = {"always": always, "randomly": lambda: randomly(0.6), "in bursts": lambda: in_bursts(12)}

# Frames: SES opcodes, return codes, NACK codes, atomic opcodes and datatypes.
NO_OP, WRITE, READ, ATOMIC, FETCHING_ATOMIC, SEND, COMPARE_ATOMIC = 0, 1, 2, 3, 4, 5, 0x30
RENDEZVOUS_SEND, DATAGRAM_SEND, TAGGED_SEND, RENDEZVOUS_TSEND = 6, 7, 9, 0xA
TSEND_ATOMIC, TSEND_FETCH_ATOMIC = 0xD, 0xE
OK = 1
ROD_OOO, INV_DPDCID = 0xD, 0xE
SUM, BXOR, ATOMIC_READ, ATOMIC_WRITE, CSWAP = 2, 0xA, 0xB, 0xC, 0xD
INT64, UINT64, FLOAT = 6, 7, 0xA
# Descriptors: opcodes and libfabric's numbers.
D_NOP, D_WRITE, D_READ, D_ATOMIC, D_FETCH, D_COMPARE = range(6)
D_SEND, D_TAGGED_SEND, D_RENDEZVOUS, D_TAGGED_RENDEZVOUS, D_TAGGED_ATOMIC, D_TAGGED_FETCH = range(7, 13)
FI_SUM, FI_CSWAP, FI_UINT64, FI_DOUBLE = 2, 12, 7, 9
COMPLETION, INLINE = 1, 2


RECEIVE = 1
TAGGED, RELEASED, IN_SLOT = 1, 4, 8
"""The first is a flag of receive descriptors; of events it is 2."""
RECEIVED, UNEXPECTED, ATOMIC_RECEIVED = 4, 5, 7
NO_SLOTS = {"resource_index": 1, "job_id": 0xABCDE1, "pid_on_fep": 0x121}
"""A context that takes no messages."""


def words(content):
    return [int.from_bytes(content[i : i + 8], "little") for i in range(0, len(content), 8)]


def word_bytes(values):
    return b"".join((value % (1 << 64)).to_bytes(8, "little") for value in values)


def random_execution(stranger, shadow):
    """A good request: its header, its payload, and the data of its answer; ``shadow`` is changed as it should."""
    kind = random.choice(["write", "read", "sum", "xor", "fetch", "atomic read", "swap", "compare", "compare many"])
    if kind in ("write", "read"):
        length = random.choice([0, 1, 7, 64, PAYLOAD, random.randint(1, PAYLOAD)])
    elif kind == "compare":
        length = 8
    else:
        # A vector of compares fits twice into a frame; with one element it would be the other format.
        length = 8 * random.choice([2, 3, PAYLOAD // 16, random.randint(2, PAYLOAD // 16)])
    # Close together, so that requests meet on lines.
    at = random.randint(0, random.choice([16, 300, len(shadow) - length]))
    at = min(at, len(shadow) - length)
    old = bytes(shadow[at : at + length])
    operands = random.choice([random.randbytes(length), old])
    atomic = {"atomic_datatype": random.choice([INT64, UINT64])}
    new, payload, opcode = old, operands, FETCHING_ATOMIC
    if kind == "write":
        opcode, new, answer = WRITE, operands, b""
    elif kind == "read":
        opcode, payload, answer = READ, b"", old
    elif kind in ("sum", "fetch"):
        new = word_bytes(a + b for a, b in zip(words(old), words(operands), strict=True))
        opcode, answer = (ATOMIC, b"") if kind == "sum" else (FETCHING_ATOMIC, old)
        atomic["atomic_opcode"] = SUM
    elif kind == "xor":
        new = word_bytes(a ^ b for a, b in zip(words(old), words(operands), strict=True))
        opcode, answer = ATOMIC, b""
        atomic["atomic_opcode"] = BXOR
    elif kind == "atomic read":
        payload, answer = b"", old
        atomic["atomic_opcode"] = ATOMIC_READ
    elif kind == "swap":
        new, answer = operands, old
        atomic["atomic_opcode"] = ATOMIC_WRITE
    else:
        compares = word_bytes(random.choice([value, value ^ 1]) for value in words(old))
        new = word_bytes(
            swap if value == compare else value
            for value, swap, compare in zip(words(old), words(operands), words(compares), strict=True)
        )
        answer = old
        atomic["atomic_opcode"] = CSWAP
        if kind == "compare":
            payload = compares + bytes(8) + operands + bytes(8)
        else:
            opcode, payload = COMPARE_ATOMIC, operands + compares
    shadow[at : at + length] = new
    fields = {"request_length": length, "buffer_offset": REGION.start + at, **atomic}
    return stranger.request(opcode, **fields), payload, answer


def known_pdc(stranger, header):
    """The same request as someone sends it who has seen an answer."""
    return {**header, "syn": 0, "dpdcid": stranger.pdc, "clear_psn_offset": 0xFFFF}


@cocotb.test(timeout_time=200, timeout_unit="us")
@cocotb.parametrize(pace=list(PACES))
async def requests_of_two_strangers_are_executed_in_order(dut, pace):
    bench = NicBench(dut, PARAMETERS, PACES[pace])
    await bench.power_up()
    bench.memory[LOCAL.start] = random.randbytes(SIZE - 0x8000)
    shadow = bytearray(bench.memory[REGION.start : REGION.stop])
    outside = bench.memory[LOCAL.start : REGION.start], bench.memory[REGION.stop : BASE + SIZE]
    strangers = [Stranger(bench, number, number) for number in range(2)]
    expected = []
    for number in range(60):
        stranger = strangers[number] if number < 2 else random.choice(strangers)
        header, payload, data = random_execution(stranger, shadow)
        if number == 10:
            # All their PDCs are open.
            await ClockCycles(dut.clk, 500)
        if number >= 10 and random.random() < 0.5:
            header = known_pdc(stranger, header)
        stranger.send(header, payload)
        expected.append(stranger.answer(header, OK, data))
    for answer in expected:
        assert await bench.receive() == answer
    await ClockCycles(dut.clk, 200)
    assert bench.memory[REGION.start : REGION.stop] == shadow
    assert (bench.memory[LOCAL.start : REGION.start], bench.memory[REGION.stop : BASE + SIZE]) == outside
    counts = await bench.counters()
    assert {name: counts.get(name, 0) for name in ("frames_received", "requests_received", "responses_sent")} == {
        "frames_received": 60,
        "requests_received": 60,
        "responses_sent": 60,
    }
    assert not {name for name in counts if name.startswith(("dropped", "refused", "dma"))}


def refusals():
    """Requests that have to be refused: (return code, opcode, payload, header fields)."""
    eight, end = bytes(8), REGION.stop
    return {
        "another version": (0x18, WRITE, eight, {"version": 1}),
        "no start of message": (0x18, WRITE, eight, {"flags": 2}),
        "no end of message": (0x18, WRITE, eight, {"flags": 1}),
        "a context that is not there": (0x19, WRITE, eight, {"resource_index": 2}),
        "a context beyond all": (0x19, WRITE, eight, {"resource_index": 0xFFF}),
        "another job": (0x1B, WRITE, eight, {"job_id": 0xABCDE1}),
        "another process": (0x1A, WRITE, eight, {"pid_on_fep": 0x121}),
        "an opcode that is not there": (6, DATAGRAM_SEND, b"", {}),
        "a message to a context without slots": (3, SEND, eight, NO_SLOTS),
        "a message longer than it says": (7, SEND, eight, {"request_length": 7}),
        "a rendezvous of another length": (7, RENDEZVOUS_SEND, eight, {}),
        "a tagged atomic that nothing waits for": (5, TSEND_ATOMIC, eight, {}),
        "an atomic opcode that is not there": (0xF, ATOMIC, eight, {"atomic_opcode": 0x20}),
        "a fetch without fetching": (0xF, ATOMIC, eight, {"atomic_opcode": ATOMIC_READ}),
        "a datatype of another build": (0x10, ATOMIC, eight, {"atomic_datatype": FLOAT}),
        "a datatype that is not there": (0x10, ATOMIC, eight, {"atomic_datatype": 0x77}),
        "a write shorter than it says": (7, WRITE, eight, {"request_length": 9}),
        "a write longer than it says": (7, WRITE, eight, {"request_length": 7}),
        "a read with a payload": (7, READ, eight, {}),
        "a read of too much": (7, READ, b"", {"request_length": PAYLOAD + 1}),
        "a read of far too much": (7, READ, b"", {"request_length": 1 << 31}),
        "half an element": (0x11, ATOMIC, bytes(12), {"request_length": 12}),
        "no element": (0x11, ATOMIC, b"", {"request_length": 0}),
        "a missing operand": (0x11, FETCHING_ATOMIC, eight, {"request_length": 16}),
        "a compare without values": (0x11, FETCHING_ATOMIC, bytes(16), {"atomic_opcode": CSWAP}),
        "another key": (0x1C, WRITE, eight, {"memory_key": KEY ^ 1 << 63}),
        "a key of another domain": (0x17, WRITE, eight, {"memory_key": 0x2001}),
        "a write to what is read-only": (0x17, WRITE, eight, {"memory_key": 0x2002}),
        "a fetch from what is read-only": (0x17, FETCHING_ATOMIC, eight, {"memory_key": 0x2002}),
        "a read of what is write-only": (0x17, READ, b"", {"memory_key": 0x2003}),
        "a fetch from what is write-only": (0x17, FETCHING_ATOMIC, eight, {"memory_key": 0x2003}),
        "a byte before the region": (0x1D, WRITE, eight, {"buffer_offset": REGION.start - 1}),
        "a byte after the region": (0x1D, WRITE, eight, {"buffer_offset": end - 7}),
        "a read far behind": (0x1D, READ, b"", {"buffer_offset": end + 0x1000}),
        "an address that wraps": (0x1D, WRITE, eight, {"buffer_offset": (1 << 64) - 4}),
        "an address of all ones": (0x1D, READ, b"", {"buffer_offset": (1 << 64) - 1, "request_length": 1}),
        "an offset as an address": (0x1D, READ, b"", {"buffer_offset": 0}),
        "an address as an offset": (0x1D, READ, b"", {"memory_key": 0x2004}),
        "memory that the host refuses": (0xE, READ, b"", {"memory_key": 0x2005, "buffer_offset": 0}),
    }


async def store_odd_keys(bench):
    """Keys that refuse something, in slots of their own: 0x2001 and so on lie at 1 and so on."""
    region = (REGION.start, len(REGION))
    await bench.store_key(0x2001, *region, 2 | 4 | 8, domain=8)
    await bench.store_key(0x2002, *region, 2 | 8)
    await bench.store_key(0x2003, *region, 4 | 8)
    await bench.store_key(0x2004, *region, 2 | 4)
    await bench.store_key(0x2005, CLOSED.start, 0x100, 2 | 4)


@cocotb.test(timeout_time=200, timeout_unit="us")
@cocotb.parametrize(pace=["always", "randomly"])
async def refused_requests_say_why_and_touch_nothing(dut, pace):
    bench = NicBench(dut, PARAMETERS, PACES[pace])
    await bench.power_up()
    await store_odd_keys(bench)
    bench.memory[LOCAL.start] = random.randbytes(SIZE - 0x8000)
    before = bench.memory[LOCAL.start : BASE + SIZE]
    stranger = Stranger(bench, 3, 0)
    cases = list(refusals().items())
    random.shuffle(cases)
    probe = REGION.start + 5
    for name, (code, opcode, payload, fields) in cases:
        header = stranger.request(opcode, **fields)
        stranger.send(header, payload)
        good = stranger.request(READ, buffer_offset=probe)
        stranger.send(good)
        assert await bench.receive() == stranger.answer(header, code), name
        assert await bench.receive() == stranger.answer(good, OK, bench.memory[probe : probe + 8]), f"after {name}"
    for flags, opcode in ((3, NO_OP), (0x13, WRITE), (0x13, NO_OP)):
        # Nothing to do, and done.
        header = stranger.request(opcode, flags=flags, request_length=0)
        stranger.send(header)
        assert await bench.receive() == stranger.answer(header, OK)
    # Through the right kind of address, the odd keys open what they should.
    offset = stranger.request(READ, memory_key=0x2004, buffer_offset=0x100)
    stranger.send(offset)
    content = bench.memory[REGION.start + 0x100 : REGION.start + 0x108]
    assert await bench.receive() == stranger.answer(offset, OK, content)
    await bench.silence()
    assert bench.memory[LOCAL.start : BASE + SIZE] == before
    assert (await bench.counters())["refused_requests"] == len(cases)


def hostile_frames(bench, stranger):
    """Frames that must not be executed: (counter, bytes, the NACK that answers it if any)."""
    payload = random.randbytes(8)

    def good():
        header = stranger.request(WRITE)
        stranger.psn -= 1
        return header

    def changed(**overrides):
        return frame(good(), payload, received=True, **overrides)

    def transport(content):
        return network_bytes(content, (stranger.mac, stranger.ip), (OWN_MAC, OWN_IP), 7)

    def refused(counter, code, psn, pdc, /, **fields):
        header = {**good(), **fields}
        return counter, frame(header, payload, received=True), stranger.nack(header, code, psn, pdc)

    def vanishing(counter, *frames):
        return [(counter, content, None) for content in frames]

    right = changed()
    request = transport_bytes(good(), payload)
    psn = stranger.psn
    ahead = {"psn": (psn + 1) & 0xFFFF_FFFF}
    known = {"syn": 0, "dpdcid": stranger.pdc}
    return [
        *vanishing(
            "dropped_malformed",
            *(right[:length] for length in (1, 14, 33, 42, 45, 60, len(right) - 1)),
            changed(ether={"type": 0x86DD}),
            changed(ip={"chksum": 0x1234}),
            changed(ip={"flags": "MF"}),
            changed(ip={"proto": 6}),
            changed(udp={"dport": 4792}),
            changed(udp={"len": 20}),
            frame(good(), bytes(PAYLOAD + 200), received=True),
            frame(good(), bytes(8 * PAYLOAD), received=True),
            *(transport(request[:length]) for length in (0, 11, 12, 55)),
            transport(b"\xff\xff" + request[2:]),
            random.randbytes(300),
        ),
        *vanishing("dropped_check", changed(crc=b"\1\2\3\4")),
        *vanishing(
            "dropped_address",
            frame(good(), payload, (OWN_MAC ^ 1, OWN_IP), received=True),
            frame(good(), payload, (OWN_MAC, OWN_IP ^ 1), received=True),
        ),
        refused("dropped_sequence", ROD_OOO, psn, stranger.pdc, **ahead, dpdcid=psn + 1 - stranger.first_psn),
        refused("dropped_sequence", ROD_OOO, psn, stranger.pdc, **ahead, **known),
        refused("dropped_pdc", INV_DPDCID, psn, 0, syn=0, dpdcid=3),
        refused("dropped_pdc", INV_DPDCID, psn, 0, syn=0, dpdcid=0xFFFF),
        refused("dropped_pdc", INV_DPDCID, psn, 0, **known, ip=stranger.ip ^ 1),
        refused("dropped_pdc", ROD_OOO, psn - 5, 0, spdcid=1, dpdcid=5),
        *vanishing("dropped_response", stranger_answer(stranger, 0), stranger_answer(stranger, 0xFFFF)),
    ]


def stranger_answer(stranger, pdc):
    """An answer that nobody asked for."""
    header = {
        "mac": stranger.mac,
        "ip": stranger.ip,
        "port": 7,
        "is_request": 0,
        "psn": 0,
        "spdcid": 0,
        "dpdcid": pdc,
        "opcode": 2,
        "return_code": OK,
        "message_id": 0,
        "job_id": 0,
        "modified_length": 8,
    }
    return frame(header, bytes(8), received=True)


@cocotb.test(timeout_time=200, timeout_unit="us")
@cocotb.parametrize(pace=["always", "in bursts"])
async def hostile_frames_vanish_or_are_refused_and_the_next_request_is_answered(dut, pace):
    bench = NicBench(dut, PARAMETERS, PACES[pace])
    await bench.power_up()
    before = bench.memory[LOCAL.start : BASE + SIZE]
    stranger = Stranger(bench, 5, 0)
    probe = stranger.request(READ)
    stranger.send(probe)
    data = before[REGION.start - LOCAL.start :][:8]
    assert await bench.receive() == stranger.answer(probe, OK, data)
    count = len(hostile_frames(bench, stranger))
    order = random.sample(range(count), count)
    expected = Counter()
    for number in order:
        counter, content, nack = hostile_frames(bench, stranger)[number]
        expected[counter] += 1
        bench.send(content)
        if nack is not None:
            assert await bench.receive() == nack, f"after {counter}: {content.hex()}"
        probe = stranger.request(READ)
        stranger.send(probe)
        assert await bench.receive() == stranger.answer(probe, OK, data), f"after {counter}: {content.hex()}"
    await bench.silence()
    assert bench.memory[LOCAL.start : BASE + SIZE] == before
    counts = await bench.counters()
    assert {name: count for name, count in counts.items() if name.startswith("dropped")} == expected


# The initiator


class Remote:
    """A NIC on the link that answers as a test says."""

    def __init__(self, bench, index=0, pdc=0x4321, initial_psn=0xFFFF_FFFE):
        self.bench = bench
        self.mac, self.ip = 0x02_00_00_00_02_00 + index, 0x0A_00_02_00 + index
        self.index, self.pdc, self.psn, self.sent = index, pdc, initial_psn, 0

    async def store(self, **options):
        await self.bench.store_peer(self.index, self.mac, self.ip, self.psn, **options)

    async def expect(self, opcode, payload=b"", **fields):
        """The next frame must be this request; returns its header. Everything before it has been answered."""
        header = {
            "mac": self.mac,
            "ip": self.ip,
            "port": 0xC0DE,
            "is_request": 1,
            "psn": (self.psn + self.sent) & 0xFFFF_FFFF,
            "clear_psn_offset": 0xFFFF,
            "syn": self.sent == 0,
            "spdcid": self.index,
            "dpdcid": self.pdc if self.sent else 0,
            "opcode": opcode,
            "version": 0,
            "flags": 0x23,
            "message_id": self.sent,
            "job_id": 0xABCDE0,
            "pid_on_fep": 0x120,
            "resource_index": 0,
            "initiator": 0,
            "header_data": 0,
            "atomic_opcode": 0,
            "atomic_datatype": 0,
            "semantic_control": 0,
            **fields,
        }
        self.sent += 1
        content = await self.bench.receive()
        assert content == frame(header, payload, received=False)
        return header

    def answer(self, request, code=OK, data=b""):
        header = {
            "mac": self.mac,
            "ip": self.ip,
            "port": 1,
            "is_request": 0,
            "cack_psn": request["psn"],
            "psn": request["psn"],
            "spdcid": self.pdc,
            "dpdcid": request["spdcid"],
            "opcode": 2 if data else 1,
            "return_code": code,
            "message_id": request["message_id"],
            "job_id": request["job_id"],
            "modified_length": request["request_length"] if code == OK else 0,
        }
        self.bench.send(frame(header, data, received=True))


def remote_fields(length, remote=0x1234_5678_9ABC, key=0x77):
    return {"buffer_offset": remote, "memory_key": key, "request_length": length}


@cocotb.test(timeout_time=200, timeout_unit="us")
@cocotb.parametrize(pace=list(PACES))
async def descriptors_become_frames_and_answers_completions(dut, pace):
    bench = NicBench(dut, PARAMETERS, PACES[pace])
    await bench.power_up()
    remote = Remote(bench)
    await remote.store()
    bench.memory[LOCAL.start] = random.randbytes(len(LOCAL))
    expected = bytearray(bench.memory[LOCAL.start : LOCAL.stop])
    source, compare, result = LOCAL.start + 3, LOCAL.start + 0x1009, LOCAL.start + 0x2FF5
    common = {"remote": 0x1234_5678_9ABC, "key": 0x77, "counter": 5}
    number = failed = 0

    async def completed(length, opcode, status=OK):
        nonlocal number, failed
        assert await bench.completion() == (0xC0FFEE00 + number, length, number, opcode, status)
        number += 1
        failed += status != OK

    async def post(opcode, **fields):
        await bench.post(descriptor(opcode, **{**common, "context": 0xC0FFEE00 + number, **fields}))

    def receives(data):
        at = result - LOCAL.start
        expected[at : at + len(data)] = data

    await post(D_NOP)
    await completed(0, D_NOP)
    for length in (0, 1, 8, 100, PAYLOAD):
        await post(D_WRITE, length=length, local=source)
        request = await remote.expect(WRITE, bench.memory[source : source + length], **remote_fields(length))
        remote.answer(request)
        await completed(length, D_WRITE)
        await post(D_READ, length=length, result=result)
        request = await remote.expect(READ, **remote_fields(length))
        data = random.randbytes(length)
        remote.answer(request, data=data)
        receives(data)
        await completed(length, D_READ)
    sums = {"op": FI_SUM, "datatype": FI_UINT64}
    wire_sums = {"atomic_opcode": SUM, "atomic_datatype": UINT64}
    for length in (8, 24, PAYLOAD):
        operands = bench.memory[source : source + length]
        await post(D_ATOMIC, length=length, local=source, **sums)
        remote.answer(await remote.expect(ATOMIC, operands, **remote_fields(length), **wire_sums))
        await completed(length, D_ATOMIC)
        await post(D_FETCH, length=length, local=source, result=result, **sums)
        request = await remote.expect(FETCHING_ATOMIC, operands, **remote_fields(length), **wire_sums)
        data = random.randbytes(length)
        remote.answer(request, data=data)
        receives(data)
        await completed(length, D_FETCH)
    for opcode, message in ((D_SEND, SEND), (D_TAGGED_SEND, TAGGED_SEND)):
        for length in (0, 12, PAYLOAD):
            await post(opcode, length=length, local=source)
            content = bench.memory[source : source + length]
            remote.answer(await remote.expect(message, content, **remote_fields(length)))
            await completed(length, opcode)
    for opcode, message in ((D_RENDEZVOUS, RENDEZVOUS_SEND), (D_TAGGED_RENDEZVOUS, RENDEZVOUS_TSEND)):
        await post(opcode, length=32, local=source)
        content = bench.memory[source : source + 32]
        remote.answer(await remote.expect(message, content, **remote_fields(32)))
        await completed(32, opcode)
    operands = bench.memory[source : source + 16]
    await post(D_TAGGED_ATOMIC, length=16, local=source, **sums)
    remote.answer(await remote.expect(TSEND_ATOMIC, operands, **remote_fields(16), **wire_sums))
    await completed(16, D_TAGGED_ATOMIC)
    await post(D_TAGGED_FETCH, length=16, local=source, result=result, **sums)
    request = await remote.expect(TSEND_FETCH_ATOMIC, operands, **remote_fields(16), **wire_sums)
    data = random.randbytes(16)
    remote.answer(request, data=data)
    receives(data)
    await completed(16, D_TAGGED_FETCH)
    await post(D_WRITE, length=5, local=0x0807060504030201, flags=COMPLETION | INLINE)
    remote.answer(await remote.expect(WRITE, bytes([1, 2, 3, 4, 5]), **remote_fields(5)))
    await completed(5, D_WRITE)
    swaps = {"op": FI_CSWAP, "datatype": FI_UINT64, "local": source, "compare": compare, "result": result}
    wire_swaps = {"atomic_opcode": CSWAP, "atomic_datatype": UINT64}
    for length in (8, 16):
        operands, compares = (bench.memory[start : start + length] for start in (source, compare))
        await post(D_COMPARE, length=length, **swaps)
        if length == 8:
            opcode, payload = FETCHING_ATOMIC, compares + bytes(8) + operands + bytes(8)
        else:
            opcode, payload = COMPARE_ATOMIC, operands + compares
        request = await remote.expect(opcode, payload, **remote_fields(length), **wire_swaps)
        data = random.randbytes(length)
        remote.answer(request, data=data)
        receives(data)
        await completed(length, D_COMPARE)
    # What the remote refuses, and data that is not what was asked for.
    await post(D_READ, length=8, result=result)
    remote.answer(await remote.expect(READ, **remote_fields(8)), code=0x1D)
    await completed(8, D_READ, 0x1D)
    await post(D_READ, length=8, result=result)
    remote.answer(await remote.expect(READ, **remote_fields(8)), data=bytes(9))
    await completed(8, D_READ, 0x20)
    # Only errors complete without being asked to.
    await post(D_WRITE, length=8, local=source, flags=0)
    remote.answer(await remote.expect(WRITE, bench.memory[source : source + 8], **remote_fields(8)))
    number += 1
    await post(D_WRITE, length=8, local=source, flags=0)
    remote.answer(await remote.expect(WRITE, bench.memory[source : source + 8], **remote_fields(8)), code=0x1C)
    await completed(8, D_WRITE, 0x1C)
    assert bench.memory[LOCAL.start : LOCAL.stop] == expected
    await bench.silence()
    assert bench.event_counter(5) == (number - failed, failed)


@cocotb.test(timeout_time=200, timeout_unit="us")
@cocotb.parametrize(pace=list(PACES))
async def messages_go_to_receives_or_wait_in_slots(dut, pace):
    bench = NicBench(dut, PARAMETERS, PACES[pace])
    await bench.power_up()
    stranger = Stranger(bench, 4, 0)
    place, early, content = LOCAL.start + 0x101, random.randbytes(PAYLOAD), random.randbytes(40)
    source = {"ip": stranger.ip, "source": 1, "pdc": stranger.spdcid, "status": OK}

    async def message(opcode, payload, code=OK, data=b"", **fields):
        header = stranger.request(opcode, **{"request_length": len(payload), "buffer_offset": 0, **fields})
        stranger.send(header, payload)
        assert await bench.receive() == stranger.answer(header, code, data)

    await message(TAGGED_SEND, early, memory_key=0x1_0000_0005)
    assert bench.memory[SLOTS : SLOTS + PAYLOAD] == early
    await bench.receive_into(
        receive_descriptor(RECEIVE, address=place, length=32, context=0xAA, counter=7),
        receive_descriptor(RECEIVE, flags=TAGGED, tag=5, ignore=1 << 32, address=place, length=9, context=0xBB),
        receive_descriptor(RECEIVE, flags=TAGGED, tag=6, address=place + 0x200, length=24, context=0xCC, counter=7),
    )
    assert await bench.event() == {
        **source, "kind": UNEXPECTED, "flags": 2 | RELEASED | IN_SLOT, "context": 0xBB, "tag": 0x1_0000_0005,
        "address": place, "length": PAYLOAD,
    }  # fmt: skip
    await message(SEND, content)
    assert await bench.event() == {
        **source, "kind": RECEIVED, "flags": RELEASED, "status": 0x22, "context": 0xAA, "address": place, "length": 40
    }  # fmt: skip
    assert bench.memory[place : place + 40] == content[:32] + bytes(8)
    before = (0x1111, 0x2222)
    bench.memory[place + 0x208] = word_bytes(before)
    sums = {"atomic_opcode": SUM, "atomic_datatype": UINT64, "buffer_offset": 8, "memory_key": 6}
    await message(TSEND_FETCH_ATOMIC, word_bytes((1, 2)), data=word_bytes(before), **sums)
    assert await bench.event() == {
        **source, "kind": ATOMIC_RECEIVED, "flags": 2 | RELEASED, "context": 0xCC, "tag": 6, "address": place + 0x208,
        "length": 16,
    }  # fmt: skip
    assert bench.memory[place + 0x208 : place + 0x218] == word_bytes((0x1112, 0x2224))
    await bench.silence()
    assert bench.event_counter(7) == (1, 1)
    counts = await bench.counters()
    assert (counts["messages_matched"], counts["messages_unexpected"], counts["events"]) == (2, 1, 3)


@cocotb.test(timeout_time=200, timeout_unit="us")
async def bad_descriptors_complete_with_what_is_wrong(dut):
    bench = NicBench(dut, PARAMETERS, PACES["randomly"])
    await bench.power_up()
    remote = Remote(bench)
    await remote.store()
    await bench.store_peer(2, 1, 1, 0, context=1)
    good = {"length": 8, "local": LOCAL.start}
    cases = [
        (0x30, descriptor(13, **good)),
        (0x30, descriptor(D_SEND, local=LOCAL.start, length=PAYLOAD + 1)),
        (0x30, descriptor(D_RENDEZVOUS, **good)),
        (0x30, descriptor(D_TAGGED_FETCH, op=FI_SUM, datatype=FI_UINT64, length=PAYLOAD + 8)),
        (0xF, descriptor(D_TAGGED_ATOMIC, op=FI_CSWAP, datatype=FI_UINT64, **good)),
        (0x30, descriptor(D_WRITE, **{**good, "flags": 0x21})),
        (0x30, descriptor(D_COMPARE, op=FI_CSWAP, datatype=FI_UINT64, **{**good, "flags": 9})),
        (0x30, descriptor(D_WRITE, **{**good, "flags": 3, "length": 9})),
        (0x30, descriptor(D_ATOMIC, op=FI_SUM, datatype=FI_UINT64, length=0)),
        (0x30, descriptor(D_ATOMIC, op=FI_SUM, datatype=FI_UINT64, length=12)),
        (0x30, descriptor(D_WRITE, length=(1 << 30) + 1)),
        (0xF, descriptor(D_ATOMIC, op=FI_SUM, datatype=FI_DOUBLE, **good)),
        (0xF, descriptor(D_ATOMIC, op=FI_CSWAP, datatype=FI_UINT64, **good)),
        (0xF, descriptor(D_FETCH, op=99, datatype=FI_UINT64, **good)),
        (0x31, descriptor(D_WRITE, peer=4, **good)),
        (0x31, descriptor(D_WRITE, peer=1, **good)),
        (0x31, descriptor(D_WRITE, peer=2, **good)),
    ]
    random.shuffle(cases)
    await bench.write(0x2_0008, len(cases) - 1)  # interrupt at the last of them
    half = len(cases) // 2
    for batch in (range(half), range(half, len(cases))):
        await bench.post(*(cases[number][1] for number in batch))
        for number in batch:
            status, content = cases[number]
            length, opcode = int.from_bytes(content[4:8], "little"), content[0]
            assert await bench.completion() == (0, length, number, opcode, status), content.hex()
    await bench.silence(50)
    assert bench.interrupts == [1, 0]
    # Operands that the host refuses: the packet is sent as nothing to do.
    await bench.post(descriptor(D_WRITE, length=8, local=CLOSED.start, remote=5, key=6))
    request = await remote.expect(NO_OP, flags=0x13, buffer_offset=5, memory_key=6, request_length=0)
    remote.answer(request)
    assert await bench.completion() == (0, 8, len(cases), D_WRITE, 0x32)
    counts = await bench.counters()
    assert counts["error_completions"] == counts["completions"] == len(cases) + 1
    assert counts["interrupts"] == 1
    assert counts["dma_read_errors"] == 1


# Both halves at once


async def looped(bench):
    """The link leads back to the NIC."""
    while True:
        bench.send(await bench.receive())


async def fetch_and_add(bench, context, count, counter):
    """``count`` fetching additions of 1, in batches; the values fetched."""
    fetched = []
    while len(fetched) < count:
        batch = min(random.randint(1, 14), count - len(fetched))
        results = [LOCAL.start + 0x1000 * context + 8 * random.randint(0, 3) + 48 * number for number in range(batch)]
        fields = {"op": FI_SUM, "datatype": FI_UINT64, "length": 8, "peer": context, "remote": counter, "key": KEY}
        await bench.post(
            *(descriptor(D_FETCH, flags=3, local=1, result=result, **fields) for result in results), context=context
        )
        for _ in results:
            completion = await bench.completion(context)
            assert completion[-1] == OK
        fetched += [int.from_bytes(bench.memory[result : result + 8], "little") for result in results]
    return fetched


async def loop_back(bench):
    for context in range(2):
        await bench.store_peer(context, OWN_MAC, OWN_IP, 0x100 * context, context=context, remote_context=context)
    return cocotb.start_soon(looped(bench))


@cocotb.test(timeout_time=200, timeout_unit="us")
@cocotb.parametrize(pace=list(PACES))
async def additions_of_two_contexts_all_count(dut, pace):
    bench = NicBench(dut, PARAMETERS, PACES[pace])
    await bench.power_up()
    await loop_back(bench)
    counter = REGION.start + 1
    bench.memory[counter] = bytes(8)
    additions = [cocotb.start_soon(fetch_and_add(bench, context, 60, counter)) for context in range(2)]
    fetched = [await task for task in additions]
    # Each context sees its own in order, and nobody sees the same value twice.
    assert all(values == sorted(values) for values in fetched)
    assert sorted(fetched[0] + fetched[1]) == list(range(120))
    assert int.from_bytes(bench.memory[counter : counter + 8], "little") == 120


@cocotb.test(timeout_time=200, timeout_unit="us")
async def long_transfers_to_itself_arrive_whole(dut):
    bench = NicBench(dut, PARAMETERS, PACES["in bursts"])
    await bench.power_up()
    await loop_back(bench)
    length = len(REGION) - 3
    bench.memory[LOCAL.start] = random.randbytes(length)
    common = {"length": length, "remote": REGION.start + 3, "key": KEY}
    await bench.post(
        descriptor(D_WRITE, local=LOCAL.start, **common), descriptor(D_READ, result=LOCAL.start + 0x2001, **common)
    )
    for number, opcode in enumerate((D_WRITE, D_READ)):
        assert await bench.completion() == (0, length, number, opcode, OK)
    sent = bench.memory[LOCAL.start : LOCAL.start + length]
    assert bench.memory[REGION.start + 3 : REGION.stop] == sent
    assert bench.memory[LOCAL.start + 0x2001 : LOCAL.start + 0x2001 + length] == sent


@cocotb.test(timeout_time=200, timeout_unit="us")
async def after_a_reset_in_mid_traffic_it_works_as_new(dut):
    bench = NicBench(dut, PARAMETERS, PACES["randomly"])
    await bench.power_up()
    for _ in range(6):
        link = await loop_back(bench)
        counter = REGION.start + 1
        traffic = [cocotb.start_soon(fetch_and_add(bench, context, 1000, counter)) for context in range(2)]
        await ClockCycles(dut.clk, random.randint(100, 1500))
        for task in (link, *traffic):
            task.cancel()
        await RisingEdge(dut.clk)
        await bench.restart()
        assert not {name for name in await bench.counters() if name != "interrupts"}
        shadow = bytearray(bench.memory[REGION.start : REGION.stop])
        stranger, expected = Stranger(bench, 1, 0), []
        for _ in range(8):
            header, payload, data = random_execution(stranger, shadow)
            stranger.send(header, payload)
            expected.append(stranger.answer(header, OK, data))
        for answer in expected:
            assert await bench.receive() == answer
        remote = Remote(bench, index=3)
        await remote.store()
        await bench.post(descriptor(D_READ, length=8, peer=3, result=LOCAL.start))
        request = await remote.expect(READ, **remote_fields(8, 0, 0))
        remote.answer(request, data=b"as new! ")
        assert await bench.completion() == (0, 8, 0, D_READ, OK)
        assert bench.memory[LOCAL.start : LOCAL.start + 8] == b"as new! "
