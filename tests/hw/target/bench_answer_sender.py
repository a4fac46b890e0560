"""Testbench of AnswerSender: events as their orders say, silent answers, and what is counted.

Acknowledgements and the memory of answers are target_answers' and target_traffic's. Parameters: ``contexts``.

Covers ``target/answer_history.py``.
"""

import random
import struct
from itertools import pairwise

import cocotb
from amoeba_hw.host.ring_writer import ring_entry
from amoeba_hw.interfaces import FRAME_HEADER, TRACE_SLOT
from amoeba_hw.request_records import ADVANCES, ANSWER, EVENT_CLAIM
from amoeba_hw.target.answer_history import ANSWER_VIEW
from amoeba_model.trace import NO_CONTEXT
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import StreamSink, StreamSource, always, in_bursts, randomly, start
from amoeba_sim.payload import unpack
from cocotb.triggers import ClockCycles, RisingEdge

CONTEXTS = bench_parameters()["contexts"]
PACES = {"always": always, "randomly": lambda: randomly(0.5), "in bursts": lambda: in_bursts(9)}
GENERATION = 3
OK, BAD_ADDR, HOST_UNSUCCESS, NO_MATCH, TOO_LONG = 1, 0x1D, 0xE, 5, 0x22


class OpenSink(StreamSink):
    """Once it is ready, it stays so until a transfer: as a queue does."""

    def _prepare(self):
        if self._valid.value or not self._ready.value:
            super()._prepare()


class Bench:
    """The sender, and everything that it does, in order."""

    def __init__(self, dut, pace=always, sink_pace=always):
        self.dut = dut
        self.answers = StreamSource(dut, "answers", ANSWER, pace=pace())
        self.sinks = {
            "events": StreamSink(dut, "events", ring_entry(64), pace=sink_pace()),
            "responses": StreamSink(dut, "responses", FRAME_HEADER, pace=sink_pace()),
            "advances": OpenSink(dut, "advances", ADVANCES, pace=sink_pace()),
        }
        self.done = []
        """(what, value), as seen cycle by cycle."""
        self.cycle = 0
        self.departures = []
        """Cycles in which an answer was taken."""
        dut.copy_done.value = 0
        dut.all_plain.value = 1
        dut.event_index.value = 77
        for context in range(CONTEXTS):
            getattr(dut, f"event_generations__{context}").value = GENERATION
        cocotb.start_soon(self._watch())

    async def _watch(self):
        while True:
            await RisingEdge(self.dut.clk)
            self.cycle += 1
            if self.dut.rst.value:
                continue
            if self.dut.answers__valid.value and self.dut.answers__ready.value:
                self.departures.append(self.cycle)
            turn = unpack(ANSWER_VIEW, int(self.dut.turn.value))
            if turn["valid"]:
                self.done.append(("turn", turn["psn"]))
            for name, sink in self.sinks.items():
                self.done += [(name, beat) for beat in sink.received]
                sink.received.clear()
            if self.dut.given.value:
                self.done.append(("given", int(self.dut.plain.value)))
            claim = unpack(EVENT_CLAIM, int(self.dut.event_release.value))
            if claim["valid"]:
                self.done.append(("back", (claim["context"], claim["generation"])))
            slot = unpack(TRACE_SLOT, int(self.dut.trace_event_written.value))
            assert slot["valid"] == self.dut.count_events.value
            if slot["valid"]:
                self.done.append(("trace", slot["event"]))

    def seen(self, *names):
        return [value for name, value in self.done if name in names]

    async def settle(self):
        await self.answers.sent()
        await ClockCycles(self.dut.clk, 10)


def random_answer(**fields):
    """Most combinations that the Matcher and the checks make, and some that they do not."""
    silent = random.random() < 0.3
    executed = not silent and random.random() < 0.8
    event = {name: random.getrandbits(64) for name in ("user_context", "data", "tag", "address")}
    event |= {name: random.getrandbits(32) for name in ("length", "initiator")} | {"target": random.getrandbits(8)}
    event |= {
        "slot": random.getrandbits(16),
        "flags": random.getrandbits(5),
        "kind": random.choice([0, *range(1, 13)]),
        "status": random.choice([OK, OK, NO_MATCH, TOO_LONG]),
        "regardless": int(silent or random.random() < 0.5),
        "reserved": int(random.random() < 0.8),
        "context": random.randrange(CONTEXTS),
        "generation": random.choice([GENERATION, GENERATION, GENERATION, GENERATION + 1]),
    }
    counters = [random.choice([0, 0, random.randrange(256)]) for _ in range(3)]
    return {
        "ip": random.getrandbits(32),
        "psn": random.getrandbits(32),
        "spdcid": random.getrandbits(16),
        "dpdcid": random.getrandbits(16),
        "request_length": random.getrandbits(32),
        "length": random.getrandbits(14),
        "return_code": random.choice([OK, OK, HOST_UNSUCCESS]) if executed else random.choice([OK, BAD_ADDR]),
        "executed": int(executed),
        "silent": int(silent),
        "counters": [0, 0, 0] if silent else counters,
        "event": event | fields,
    }


def final_status(answer):
    failed = answer["executed"] and answer["return_code"] != OK
    return answer["return_code"] if failed else answer["event"]["status"]


def wants_event(answer):
    event = answer["event"]
    succeeded = answer["executed"] and answer["return_code"] == OK
    return bool(event["reserved"] and event["kind"] and (event["regardless"] or succeeded))


def expected_event(answer):
    """The entry's bytes; the phase is the RingWriter's to set."""
    event = answer["event"]
    return struct.pack(
        "<QQQQIIIHH12xBBBB",
        *(event[name] for name in ("user_context", "data", "tag", "address", "length")),
        answer["ip"],
        event["initiator"],
        answer["dpdcid"],
        event["slot"],
        event["target"],
        event["kind"],
        final_status(answer),
        event["flags"],
    )


def expected_steps(answer):
    """The sender's steps for one answer, in order."""
    event, status = answer["event"], final_status(answer)
    is_current = event["generation"] == GENERATION
    if not answer["silent"]:
        yield "turn", answer["psn"]
    if wants_event(answer) and is_current:
        yield "events", {"context": event["context"], "data": int.from_bytes(expected_event(answer), "little")}
        yield "trace", {"psn": 77, "pdc": answer["spdcid"], "context": event["context"], "status": status}
    if not answer["silent"]:
        yield "responses", answer["psn"]
        yield "given", int(answer["return_code"] == OK)
    if any(answer["counters"]):
        error = (status if event["regardless"] else answer["return_code"]) != OK
        context = event["context"] if event["regardless"] else NO_CONTEXT
        yield "advances", {"counters": answer["counters"], "error": int(error), "context": context}
    if event["reserved"] and not wants_event(answer):
        yield "back", (event["context"], event["generation"])


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES), sink_pace=list(PACES))
async def each_answer_is_an_event_a_response_and_counts_as_it_says(dut, pace, sink_pace):
    bench = Bench(dut, PACES[pace], PACES[sink_pace])
    await start(dut)
    answers = [random_answer() for _ in range(200)]
    bench.answers.send(*answers)
    await bench.settle()
    for name in ("turn", "events", "trace", "responses", "given", "advances", "back"):
        wanted = [value for answer in answers for step, value in expected_steps(answer) if step == name]
        seen = [value["psn"] if name == "responses" else value for value in bench.seen(name)]
        different = [pair for pair in zip(seen, wanted, strict=False) if pair[0] != pair[1]]
        assert seen == wanted, f"{name}: {different[:1]}"
        assert len(wanted) > 10


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def counts_and_the_response_come_behind_the_event(dut):
    bench = Bench(dut, sink_pace=PACES["randomly"])
    await start(dut)
    answer = random_answer(reserved=1, kind=4, generation=GENERATION, regardless=1)
    answer |= {"silent": 0, "executed": 1, "return_code": OK, "counters": [5, 0, 0]}
    for _ in range(20):
        bench.answers.send(answer)
    await bench.settle()
    names = [name for name, _ in bench.done if name in ("events", "responses", "advances", "turn")]
    assert [names[place : place + 2] for place in range(0, 80, 4)] == [["turn", "events"]] * 20
    assert [sorted(names[place + 2 : place + 4]) for place in range(0, 80, 4)] == [["advances", "responses"]] * 20


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def an_answer_with_counters_and_a_silent_one_take_two_cycles(dut):
    bench = Bench(dut)
    await start(dut)
    event = {"reserved": 0}
    loud = {"return_code": OK, "counters": [1, 2, 3], "event": event}
    silent = {"silent": 1, "event": event}
    for answer in (loud, silent):
        bench.answers.send(*[answer] * 10)
        await bench.settle()
    assert [b - a for a, b in pairwise(bench.departures[:10])] == [2] * 9
    assert [b - a for a, b in pairwise(bench.departures[10:])] == [2] * 9


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_message_that_was_cut_is_answered_ok_and_counted_as_an_error(dut):
    bench = Bench(dut)
    await start(dut)
    event = {"reserved": 1, "kind": 4, "generation": GENERATION, "regardless": 1, "status": TOO_LONG}
    bench.answers.send({"executed": 1, "return_code": OK, "counters": [9, 0, 0], "event": event})
    # Of a request with immediate data the return code says it all.
    bench.answers.send({"return_code": BAD_ADDR, "counters": [8, 7, 6], "event": {"status": OK, "kind": 1}})
    await bench.settle()
    assert [response["return_code"] for response in bench.seen("responses")] == [OK, BAD_ADDR]
    assert bench.seen("advances") == [
        {"counters": [9, 0, 0], "error": 1, "context": 0},
        {"counters": [8, 7, 6], "error": 1, "context": NO_CONTEXT},
    ]
    assert [trace["status"] for trace in bench.seen("trace")] == [TOO_LONG]
