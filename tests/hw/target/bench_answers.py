"""Testbench of Target: which answers are kept and replayed, what an answer acknowledges, and at what pace.

Parameters: see target_environment.

Covers ``target/answer_collector.py``, ``target/answer_store.py``, ``target/replayer.py`` and
``target/response_merger.py``.
"""

import random
from itertools import pairwise

import cocotb
from amoeba_sim.cocotb_streams import reset, start
from cocotb.triggers import ClockCycles, RisingEdge

from tests.hw.target.environment import (
    ANSWER_BASE,
    PACES,
    PAYLOAD,
    WIDTH,
    WINDOW,
    Bench,
    Initiator,
    store_keys,
)

WRITE, READ = 1, 2
PSN_OOR_WINDOW, GTD_RESP_UNAVAIL = 0xB, 0x13


async def prepared(dut, *paces, answer_base=ANSWER_BASE):
    bench = Bench(dut, *(PACES[pace] for pace in paces), answer_base=answer_base)
    await start(dut)
    store_keys(bench)
    await bench.sources["key_stores"].sent()
    return bench


def some_requests(sender, count):
    """Writes and reads of all lengths that are kept in some other way."""
    sent = []
    for _ in range(count):
        length = random.choice([0, 1, 8, 15, 16, 17, 32, 33, 64, 65, PAYLOAD - 1, PAYLOAD])
        opcode = random.choice([WRITE, READ])
        sent.append(sender.send(opcode, length, None if opcode == WRITE else 0))
    return sent


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(sink_pace=list(PACES))
async def the_last_answers_of_a_window_are_replayed_and_no_others(dut, sink_pace):
    bench = await prepared(dut, "always", sink_pace)
    bench.error_rate = 0.2
    first = Initiator(bench, psn=0xFFFF_FFF0)
    other = Initiator(bench, ip=2, psn=0xFFFF_FFF0)
    sent = []
    for _ in range(WINDOW + 5):
        sent += some_requests(first, 1)
        some_requests(other, 1)
        # The window is full, not more.
        await bench.settle(10)
    # The longest data takes twice its beats at a random pace.
    await bench.settle(200)
    answers = [(header, data) for header, data in bench.answers() if header["dpdcid"] == 1 and header["ip"] == 1]
    executed = len(bench.executed)
    bench.clear()
    again = list(range(len(sent)))
    random.shuffle(again)
    for number in again:
        header, payload = sent[number]
        bench.send(header | {"retx": random.getrandbits(1), "clear_psn_offset": 0xFFFE, "mac": number}, payload)
    await bench.settle(200)
    expected = []
    for number in again:
        if number >= len(sent) - WINDOW:
            header, data = answers[number]
            cack = (header["psn"] - 2) & 0xFFFF_FFFF
            expected.append((header | {"retx": 1, "cack_psn": cack, "mac": number}, data))
    assert bench.answers() == expected
    assert len(bench.executed) == executed, "a duplicate was executed"
    assert bench.counts["duplicates"] == len(sent)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def long_data_is_in_the_answer_memory_before_the_answer_is_offered(dut):
    bench = await prepared(dut, "randomly", "randomly")
    places = []

    def remember(header):
        length = header["payload_length"]
        places.append(bench.bytes_at(bench.answer_place(header["spdcid"], header["psn"]), length))

    bench.on_response = remember
    senders = [Initiator(bench, ip) for ip in range(3)]
    for _ in range(20):
        some_requests(random.choice(senders), 1)
    await bench.settle(200)
    assert len(places) == 20
    for (_, data), place in zip(bench.answers(), places, strict=True):
        assert place == (data if len(data) > 16 else b"" if not data else None)


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(reason=["no answer memory", "host refuses"])
async def an_answer_whose_data_is_gone_is_refused_for_ever(dut, reason):
    bench = await prepared(dut, answer_base=0 if reason == "no answer memory" else ANSWER_BASE)
    bench.read_error_rate = 1.0
    sender = Initiator(bench, psn=7)
    sent = [sender.send(READ, length, 0) for length in (16, 17, 0, PAYLOAD)]
    await bench.settle()
    assert (bench.host == {}) == (reason == "no answer memory")
    assert len(bench.answers()) == 4
    first = bench.answers()[0]
    bench.clear()
    for header, _ in sent:
        bench.send(header)
    await bench.settle(100)
    short, *_ = answers = bench.answers()
    assert short == (first[0] | {"retx": 1, "cack_psn": 6}, first[1])
    refused = [(header["nack_code"], header["psn"]) for header, _ in answers if header["is_control"]]
    assert refused == [(GTD_RESP_UNAVAIL, 8), (GTD_RESP_UNAVAIL, 10)]
    assert bench.counts["nacks_sent"] == 2


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def an_answer_that_is_still_to_come_is_given_once(dut):
    bench = await prepared(dut)
    sender = Initiator(bench)
    sink = bench.sinks["memory_requests"]
    sink._pace = iter(lambda: False, None)
    header, payload = sender.send()
    for _ in range(3):
        bench.send(header | {"retx": 1}, payload)
    await ClockCycles(dut.clk, 60)
    assert bench.counts["duplicates"] == 3
    assert bench.responses == []
    sink._pace = PACES["always"]()
    await bench.settle()
    assert len(bench.answers()) == 1


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_place_that_is_taken_while_the_host_is_asked_is_not_reused(dut):
    bench = await prepared(dut)
    bench.host_latency = 400
    sender = Initiator(bench)
    old, _ = sender.send(READ, 64, 0)
    for _ in range(WINDOW - 1):
        sender.send()
    await bench.settle()
    bench.clear()
    # Its answer is asked for, and before that comes another psn takes the place: the initiator has the answer.
    bench.send(old | {"retx": 1})
    await ClockCycles(dut.clk, 60)
    assert bench.sources["answer_data"].left == 0
    sender.send(READ, 64, 0)
    await bench.settle(500)
    assert [header["psn"] for header, _ in bench.answers()] == [(old["psn"] + WINDOW) & 0xFFFF_FFFF]


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def answers_of_an_earlier_epoch_are_not_given_to_the_next(dut):
    bench = await prepared(dut)
    # All PDCs taken, then one closed: another sender with the same psns gets it.
    senders = [Initiator(bench, ip, psn=100) for ip in range(len(bench.rules.table))]
    for sender in senders:
        for _ in range(4):
            sender.send(READ, 8, 0)
    senders[3].close()
    await bench.settle()
    bench.clear()
    newcomer = Initiator(bench, 99, psn=103)
    newcomer.send(READ, 8, 0)
    await bench.settle()
    assert [header["spdcid"] for header, _ in bench.answers()] == [3]
    bench.clear()
    stranger = newcomer.numbered(101) | {"syn": 0, "dpdcid": 3}
    bench.send(newcomer.send(READ, 8, 0)[0] | stranger | {"port": 1})
    await bench.settle()
    assert [header["psn"] for header, _ in bench.answers()] == [104]
    assert bench.counts["duplicates"] == 1


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_replayed_answer_acknowledges_as_far_back_as_its_field_reaches(dut):
    bench = await prepared(dut)
    header, payload = Initiator(bench, psn=5).send()
    await bench.settle()
    offsets = {0xFFFF: 4, 0: 5, 3: 8, 0x8001: 5 - 0x7FFF, 0x8000: 5 - 0x7FFF}
    for offset in offsets:
        bench.send(header | {"clear_psn_offset": offset}, payload)
    await bench.settle()
    assert [answer["cack_psn"] for answer in bench.responses[1:]] == [cack & 0xFFFF_FFFF for cack in offsets.values()]


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def what_an_answer_acknowledges_ends_before_data_and_errors(dut):
    bench = await prepared(dut)
    sender = Initiator(bench, psn=0xFFFF_FFFE)
    plain, data, error = {}, {"opcode": READ, "payload": 0}, {"memory_key": 9}
    script = [  # request, clear_psn_offset, whether cack is its own psn
        (plain, -1, True),
        (plain, -2, True),
        (data, -3, True),  # what it is itself does not matter
        (plain, -1, True),
        (plain, -2, True),
        (plain, -4, False),
        (error, -3, True),
        (plain, -1, True),
        (plain, -2, True),
        (plain, -4, False),
        (plain, -9, False),
        (plain, 0, True),
        (plain, 3, True),
    ]
    for fields, offset, _ in script:
        sender.send(**fields, clear_psn_offset=offset & 0xFFFF)
    # An earlier clear_psn than the first packet: before that there was nothing.
    early = Initiator(bench, ip=2, psn=5)
    early.send(clear_psn_offset=-WINDOW & 0xFFFF)
    early.send(clear_psn_offset=-WINDOW - 1 & 0xFFFF)
    await bench.settle()
    # A NACK may overtake answers.
    *answers, before, outside = sorted(bench.responses, key=lambda header: header["is_control"])
    seen = [(answer["cack_psn"] - answer["psn"]) & 0xFFFF_FFFF for answer in answers]
    assert seen == [0 if own else offset & 0xFFFF_FFFF for _, offset, own in script]
    assert before["cack_psn"] == 5
    assert (outside["nack_code"], outside["psn"]) == (PSN_OOR_WINDOW, 6)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def read_answers_leave_at_the_width_of_the_datapath_while_they_are_copied(dut):
    bench = await prepared(dut)
    sender = Initiator(bench)
    beats = []

    async def watch():
        cycle = 0
        while True:
            await RisingEdge(dut.clk)
            cycle += 1
            if dut.response_payload__valid.value and dut.response_payload__ready.value:
                beats.append(cycle)

    cocotb.start_soon(watch())
    for _ in range(12):
        sender.send(READ, PAYLOAD, 0)
    await bench.settle()
    per_answer = PAYLOAD * 8 // WIDTH
    steady = beats[2 * per_answer : 10 * per_answer]
    assert steady[-1] - steady[0] <= len(steady) * 1.02
    assert [b - a for a, b in pairwise(beats)].count(1) > 0.9 * len(beats)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def reset_in_mid_answer_leaves_nothing_behind(dut):
    bench = await prepared(dut, "randomly", "randomly")
    for _ in range(8):
        sender = Initiator(bench)
        sent = some_requests(sender, 6)
        for header, payload in sent:
            bench.send(header, payload)
        await ClockCycles(dut.clk, random.randint(1, 200))
        await reset(dut)
        await bench.settle()
        for sink in bench.sinks.values():
            sink.received.clear()
        bench.forget()
        store_keys(bench)
        await bench.sources["key_stores"].sent()
        sender = Initiator(bench)
        sender.send(READ, PAYLOAD, 0)
        await bench.settle(100)
        assert [data for _, data in bench.answers()] == bench.results
        await reset(dut)
        for sink in bench.sinks.values():
            sink.received.clear()
        bench.forget()
        store_keys(bench)
        await bench.sources["key_stores"].sent()
