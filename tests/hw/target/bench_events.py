"""Testbench of Target: immediate data becomes events, in order, never more than the ring has space for.

Parameters: see target_environment.

Covers ``target/event_credits.py`` and ``target/count_orders.py``.
"""

import random
from collections import Counter

import cocotb
from amoeba_sim.cocotb_streams import start
from cocotb.triggers import ClockCycles

from tests.hw.target.environment import (
    HEADER_DATA,
    PACES,
    PID,
    RINGS,
    WHOLE,
    Bench,
    Initiator,
    answers_then_nacks,
    event_entry,
    store_keys,
)

WRITE, READ, ATOMIC = 1, 2, 3
NO_OP, INITIATOR_ERROR = 0, 0x10
NO_RESOURCE, ROD_OOO = 0xA, 0xD
SMALL = 2
"""The context with a ring of 8 entries, of which 4 are reserved."""
TO_SMALL = {"resource_index": SMALL, "pid_on_fep": PID + SMALL, "flags": WHOLE | HEADER_DATA}
TO_LARGE = {"flags": WHOLE | HEADER_DATA}


async def prepared(dut, *paces):
    bench = Bench(dut, *(PACES[pace] for pace in paces))
    await start(dut)
    store_keys(bench)
    await bench.sources["key_stores"].sent()
    return bench


def expected(header, index, kind, size, address=0x10_0040):
    return {
        "context": 0,
        "data": header["header_data"],
        "tag": 0,
        "address": address,
        "length": header["request_length"],
        "ip": header["ip"],
        "initiator": header["initiator"],
        "pdc": header["spdcid"],
        "slot": 0,
        "zeros": bytes(12),
        "target": header["resource_index"],
        "kind": kind,
        "status": 1,
        # Immediate data; the phase is 1 on even laps.
        "flags": 1 | (~index >> size & 1) << 7,
    }


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES), sink_pace=list(PACES))
async def each_performed_request_with_immediate_data_is_an_event_before_its_answer(dut, pace, sink_pace):
    bench = await prepared(dut, pace, sink_pace)
    bench.error_rate = 0.2
    written = []

    def remember(header):
        ring = [event_entry(bench, 0, index) for index in range(40)]
        written.append(sum(event is not None for event in ring))

    bench.on_response = remember
    sender = Initiator(bench, ip=random.getrandbits(32), spdcid=random.getrandbits(16))
    sent = []
    for _ in range(30):
        kind = random.choice([WRITE, READ, ATOMIC])
        fields = {"opcode": kind, "atomic_opcode": 2, "atomic_datatype": 7, "payload": 0 if kind == READ else None}
        fields |= random.choice([TO_LARGE, TO_LARGE, {}, TO_LARGE | {"job_id": 0}])
        fields |= {"length": random.choice([8, 64])}
        sent.append((kind, sender.send(**fields)[0]))
    sender.send(NO_OP, 0, 0, **TO_LARGE)
    sender.send(NO_OP, 0, 0, flags=WHOLE | HEADER_DATA | INITIATOR_ERROR)
    await bench.settle(100)
    events = 0
    for (kind, header), (answer, _), count in zip(sent, bench.answers(), written, strict=False):
        if answer["return_code"] == 1 and header["flags"] & HEADER_DATA:
            assert event_entry(bench, 0, events) == expected(header, events, kind, RINGS[0][1])
            events += 1
        assert count >= events, "an answer went before its event"
    assert len(bench.answers()) == 32
    assert event_entry(bench, 0, events) is None
    assert bench.counts["events"] == events > 3
    assert [(event["psn"], event["context"], event["status"]) for event in bench.events_traced] == [
        (index, 0, 1) for index in range(events)
    ]


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def a_full_ring_refuses_until_the_driver_has_consumed(dut):
    bench = await prepared(dut)
    sender = Initiator(bench, psn=0xFFFF_FFFC)
    sent, head, space = [], 0, 4
    for _ in range(12):
        # Space for four. The fifth is refused, and nothing more is said of those behind it.
        packets = [sender.send(**TO_SMALL) for _ in range(7)]
        await bench.settle()
        *accepted, refusal = answers_then_nacks(bench)
        bench.clear()
        assert [answer["return_code"] for answer in accepted] == [1] * space
        assert (refusal["nack_code"], refusal["psn"]) == (NO_RESOURCE, packets[space][0]["psn"])
        sent += [header for header, _ in packets[:space]]
        sender.next = refusal["psn"]
        space = random.randint(1, 4)
        for index in range(head, head + space):
            assert event_entry(bench, SMALL, index) == expected(sent[index], index, WRITE, RINGS[SMALL][1])
        head += space
        bench.sources["event_heads"].send({"context": SMALL, "index": head})
        await bench.settle()
    assert len(sent) - head <= 4
    assert bench.counts["events"] == len(sent) > 16


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def requests_without_immediate_data_pass_a_full_ring(dut):
    bench = await prepared(dut)
    sender = Initiator(bench)
    for _ in range(4):
        sender.send(**TO_SMALL)
    sender.send(**TO_SMALL | {"flags": WHOLE})
    sender.send(**TO_LARGE)
    sender.close(flags=WHOLE | HEADER_DATA)
    await bench.settle()
    assert [answer["return_code"] for answer in bench.responses] == [1] * 6 + [0]
    assert bench.counts["events"] == 5


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def space_of_refused_and_failed_requests_is_released(dut):
    bench = await prepared(dut)
    sender = Initiator(bench)
    for _ in range(6):
        for fields in ({"job_id": 0}, {"memory_key": 9}, {"opcode": NO_OP, "length": 0}):
            sender.send(**TO_SMALL | fields)
        await bench.settle()
    bench.error_rate = 1.0
    for _ in range(6):
        sender.send(**TO_SMALL)
        await bench.settle()
    bench.error_rate = 0.0
    assert bench.counts["nacks_sent"] == bench.counts["events"] == 0
    for _ in range(5):
        sender.send(**TO_SMALL)
    await bench.settle()
    assert (bench.counts["events"], bench.counts["nacks_sent"]) == (4, 1)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_context_enabled_anew_begins_its_ring_anew(dut):
    bench = await prepared(dut)
    sender = Initiator(bench)
    for _ in range(3):
        sender.send(**TO_SMALL)
    await bench.settle()
    # One whose space was reserved before, and which ends after: it neither takes an entry nor releases space.
    bench.sinks["memory_requests"]._pace = iter(lambda: False, None)
    sender.send(**TO_SMALL)
    await ClockCycles(dut.clk, 40)
    bench.set_context(SMALL, False)
    await ClockCycles(dut.clk, 3)
    bench.set_context(SMALL, True)
    bench.host.clear()
    bench.sinks["memory_requests"]._pace = PACES["always"]()
    await bench.settle()
    assert [answer["return_code"] for answer in bench.responses] == [1] * 4
    assert bench.host == {}
    bench.clear()
    headers = [sender.send(**TO_SMALL)[0] for _ in range(5)]
    await bench.settle()
    assert [answer["return_code"] for answer in answers_then_nacks(bench)] == [1, 1, 1, 1, 0]
    assert [event_entry(bench, SMALL, index) for index in range(4)] == [
        expected(header, index, WRITE, RINGS[SMALL][1]) for index, header in enumerate(headers[:4])
    ]


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def an_armed_ring_interrupts_once_at_the_entry_named_or_later(dut):
    bench = await prepared(dut)
    sender = Initiator(bench)
    bench.sources["event_arms"].send({"context": 0, "index": 2})
    seen = []
    for _ in range(5):
        sender.send(**TO_LARGE)
        await bench.settle()
        seen.append(+bench.interrupts)
    assert seen == [{}, {}, *[Counter({0: 1})] * 3]
    # Armed for what has been written already: at once. Another context's is not concerned.
    bench.sources["event_arms"].send({"context": 0, "index": 1}, {"context": SMALL, "index": 0})
    await bench.settle()
    assert +bench.interrupts == {0: 2}
    sender.send(**TO_SMALL)
    await bench.settle()
    assert +bench.interrupts == {0: 2, SMALL: 1}
