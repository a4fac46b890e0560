"""Testbench of the whole NIC on its standard buses, as a target, with hand-made frames.

Parameters: as in ``nic_setup``.
"""

import random
from collections import Counter, deque

import cocotb
from cocotb.triggers import ClockCycles

from tests.hw.nic_environment import (
    BASE,
    CLOSED,
    KEY,
    LOCAL,
    PEERS,
    REGION,
    SIZE,
    SLOTS,
    NicBench,
    Stranger,
    nic_frame,
    receive_descriptor,
)
from tests.hw.nic_setup import (
    ATOMIC,
    ATOMIC_READ,
    CSWAP,
    FETCHING_ATOMIC,
    NO_OP,
    OK,
    PACES,
    PARAMETERS,
    PAYLOAD,
    READ,
    RENDEZVOUS_SEND,
    SEND,
    SUM,
    TAGGED_SEND,
    TSEND_ATOMIC,
    TSEND_FETCH_ATOMIC,
    UINT64,
    WRITE,
    network_order,
    random_execution,
    word_bytes,
)
from tests.hw.uet_frames import OWN_IP, OWN_MAC, network_bytes, transport_bytes

DATAGRAM_SEND = 7
"""An SES opcode of which the NIC knows nothing."""
FLOAT = 0xA
"""An atomic datatype of the wire."""
ROD_OOO, INV_DPDCID = 0xD, 0xE
NO_PDC = 0xFFFF
"""NACK codes."""
RECEIVE = 1
TAGGED, RELEASED, IN_SLOT = 1, 4, 8
"""The first is a flag of receive descriptors; of events it is 2."""
RECEIVED, UNEXPECTED, ATOMIC_RECEIVED = 4, 5, 7
MOST, ROOM = 12, 3 * PAYLOAD
"""Requests, and bytes of their payloads, that there is certainly space for."""
NO_SLOTS = {"resource_index": 1, "job_id": 0xABCDE1, "pid_on_fep": 0x121}
"""A context that takes no messages."""


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
    expected = deque()
    for number in range(60):
        stranger = strangers[number] if number < 2 else random.choice(strangers)
        header, payload, data = random_execution(stranger, shadow)
        if number == 10:
            # All their PDCs are open.
            await ClockCycles(dut.clk, 500)
        if number >= 10 and random.random() < 0.5:
            header = known_pdc(stranger, header)
        # The NIC drops frames that it has no space for.
        while len(expected) == MOST or sum(size for size, _ in expected) + len(payload) > ROOM:
            assert await bench.receive() == expected.popleft()[1]
        stranger.send(header, payload)
        expected.append((len(payload), stranger.answer(header, OK, data)))
    for _, answer in expected:
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
        "a process of its job": (0x1A, WRITE, eight, {"flags": 0x2B}),
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
        "a compare without values": (0x18, FETCHING_ATOMIC, bytes(16), {"atomic_opcode": CSWAP}),
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
    for code, flags, opcode in ((OK, 3, NO_OP), (0x23, 0x13, WRITE), (0x23, 0x13, NO_OP)):
        # Nothing to do, and done; or what the initiator could not ask for.
        header = stranger.request(opcode, flags=flags, request_length=0)
        stranger.send(header)
        assert await bench.receive() == stranger.answer(header, code)
    # Through the right kind of address, the odd keys open what they should.
    offset = stranger.request(READ, memory_key=0x2004, buffer_offset=0x100)
    stranger.send(offset)
    content = bench.memory[REGION.start + 0x100 : REGION.start + 0x108]
    assert await bench.receive() == stranger.answer(offset, OK, content)
    await bench.watchdog()
    assert bench.memory[LOCAL.start : BASE + SIZE] == before
    assert (await bench.counters())["refused_requests"] == len(cases) + 2


def hostile_frames(bench, stranger):
    """Frames that must not be executed: (counter, bytes, the NACK that answers it if any)."""
    payload = random.randbytes(8)

    def good():
        header = stranger.request(WRITE)
        stranger.psn -= 1
        return header

    def changed(**overrides):
        return nic_frame(good(), payload, received=True, **overrides)

    def transport(content):
        return network_bytes(content, (stranger.mac, stranger.ip), (OWN_MAC, OWN_IP), 7)

    def refused(counter, code, psn, pdc, /, **fields):
        header = {**good(), **fields}
        return counter, nic_frame(header, payload, received=True), stranger.nack(header, code, psn, pdc)

    def vanishing(counter, *frames):
        return [(counter, content, None) for content in frames]

    right = changed()
    request = transport_bytes(good(), payload, peers=PEERS)
    psn = stranger.psn
    # One that is less than the window ahead is kept instead.
    later = psn + PARAMETERS.window
    ahead = {"psn": later & 0xFFFF_FFFF}
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
            nic_frame(good(), bytes(PAYLOAD + 200), received=True),
            nic_frame(good(), bytes(8 * PAYLOAD), received=True),
            *(transport(request[:length]) for length in (0, 11, 12, 55)),
            transport(b"\xff\xff" + request[2:]),
            random.randbytes(300),
        ),
        *vanishing("dropped_check", changed(crc=b"\1\2\3\4")),
        *vanishing(
            "dropped_address",
            nic_frame(good(), payload, (OWN_MAC ^ 1, OWN_IP), received=True),
            nic_frame(good(), payload, (OWN_MAC, OWN_IP ^ 1), received=True),
        ),
        refused("dropped_sequence", ROD_OOO, psn, stranger.pdc, **ahead, dpdcid=later - stranger.first_psn),
        refused("dropped_sequence", ROD_OOO, psn, stranger.pdc, **ahead, **known),
        refused("dropped_pdc", INV_DPDCID, psn, NO_PDC, syn=0, dpdcid=3),
        refused("dropped_pdc", INV_DPDCID, psn, NO_PDC, syn=0, dpdcid=0xFFFF),
        refused("dropped_pdc", INV_DPDCID, psn, stranger.pdc, **known, ip=stranger.ip ^ 1),
        refused("dropped_pdc", ROD_OOO, psn - 5, NO_PDC, spdcid=1, dpdcid=5),
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
    return nic_frame(header, bytes(8), received=True)


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
    await bench.watchdog()
    assert bench.memory[LOCAL.start : BASE + SIZE] == before
    counts = await bench.counters()
    assert {name: count for name, count in counts.items() if name.startswith("dropped")} == expected


@cocotb.test(timeout_time=200, timeout_unit="us")
@cocotb.parametrize(pace=list(PACES))
async def what_overtakes_a_request_is_kept_and_answered_behind_it(dut, pace):
    bench = NicBench(dut, PARAMETERS, PACES[pace])
    await bench.power_up()
    stranger = Stranger(bench, 5, 0)
    first = stranger.request(READ)
    stranger.send(first)
    await bench.receive()
    for _ in range(3):
        bench.memory[REGION.start] = data = random.randbytes(16)
        missing = stranger.request(READ)
        overtaking = stranger.request(READ, buffer_offset=REGION.start + 8)
        stranger.send(overtaking)
        # It says how many are missing before what it keeps.
        nack = stranger.nack(overtaking, ROD_OOO, missing["psn"], stranger.pdc, missing=1)
        assert await bench.receive() == nack
        stranger.send(missing)
        assert await bench.receive() == stranger.answer(missing, OK, data[:8])
        assert await bench.receive() == stranger.answer(overtaking, OK, data[8:])
    await bench.watchdog()
    counts = await bench.counters()
    assert counts["requests_received"] == 7
    assert not any(count for name, count in counts.items() if name.startswith("dropped"))


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
    operands, data = (network_order(word_bytes(values)) for values in ((1, 2), before))
    await message(TSEND_FETCH_ATOMIC, operands, data=data, **sums)
    assert await bench.event() == {
        **source, "kind": ATOMIC_RECEIVED, "flags": 2 | RELEASED, "context": 0xCC, "tag": 6, "address": place + 0x208,
        "length": 16,
    }  # fmt: skip
    assert bench.memory[place + 0x208 : place + 0x218] == word_bytes((0x1112, 0x2224))
    await bench.watchdog()
    assert bench.event_counter(7) == (1, 1)
    counts = await bench.counters()
    assert (counts["messages_matched"], counts["messages_unexpected"], counts["events"]) == (2, 1, 3)
