"""Testbench of PdcTable: senders that reorder, repeat, lose, close and restart, against section 4 told once more.

Parameters: ``pdcs``, ``window``, ``contexts``.
"""

import random
from collections import Counter
from itertools import pairwise

import cocotb
from amoeba_hw.interfaces import FRAME_HEADER, RETRANSMISSION
from amoeba_hw.target.records import (
    CHECK_REPORT,
    DUPLICATE,
    EVENT_CLAIM,
    NACK,
    RECEIVE_QUESTION,
    RECEIVE_REPLY,
    RECEIVER,
    SEQUENCED_REQUEST,
)
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import StreamSink, StreamSource, always, in_bursts, randomly, reset, start
from amoeba_sim.payload import pack, unpack
from cocotb.triggers import ClockCycles, RisingEdge
from target_rules import HEADER_DATA, MESSAGES, Sequence
from uet_frames import random_request

PARAMETERS = bench_parameters()
PDCS, WINDOW, CONTEXTS = PARAMETERS["pdcs"], PARAMETERS["window"], PARAMETERS["contexts"]
PACES = {"always": always, "randomly": lambda: randomly(0.5), "in bursts": lambda: in_bursts(9)}
COUNTS = ("dropped_pdc", "dropped_sequence", "duplicates")
DESTINATION = ("mac", "ip", "port")
NO_RESOURCE = 0xA
FOR_EVER = pack(RETRANSMISSION, {"timeout": 0xFFFF_FFFF, "limit": 0xFF})
AT_ONCE = pack(RETRANSMISSION, {"timeout": 1, "limit": 1})
SENDS, RENDEZVOUS, UNTAGGED = {5, 9}, {6, 0xA}, {5, 6}
"""Of MESSAGES, those that need a slot unless they meet a receive, and those that always do; and those without tag."""


class Bench:
    """The table, and the rules that it must follow."""

    def __init__(self, dut, pace=always, sink_pace=always):
        self.dut = dut
        self.requests = StreamSource(dut, "requests", FRAME_HEADER, pace=pace())
        self.sinks = {
            name: StreamSink(dut, name, shape, pace=sink_pace())
            for name, shape in (("sequenced", SEQUENCED_REQUEST), ("nacks", NACK), ("duplicates", DUPLICATE))
        }
        self.set_rooms(events=["none"] * CONTEXTS, slots=["none"] * CONTEXTS)
        self.set_receivers(range(CONTEXTS))
        self.dut.retransmission.value = FOR_EVER
        self.forget()
        cocotb.start_soon(self._watch())
        cocotb.start_soon(self._reply())
        cocotb.start_soon(self._report())

    def set_rooms(self, **states):
        """Per context: "none" without event ring, or without slots; "open" with room, "blocked" without."""
        for kind, of_contexts in states.items():
            setattr(self, kind, of_contexts)
            for state in ("open", "blocked"):
                bits = sum((name == state) << context for context, name in enumerate(of_contexts))
                getattr(self.dut, f"{kind[:-1]}_{state}").value = bits
        for context in range(CONTEXTS):
            getattr(self.dut, f"event_generations__{context}").value = context + 3

    def set_receivers(self, receivers):
        """Per context: the one whose rooms its messages need; None if there is none."""
        self.receivers = list(receivers)
        for context, receiver in enumerate(self.receivers):
            number = random.getrandbits(8) if receiver is None else receiver
            packed = pack(RECEIVER, {"valid": receiver is not None, "context": number})
            getattr(self.dut, f"receivers__{context}").value = packed

    def forget(self):
        self.rules = Sequence(PDCS, WINDOW)
        self.counts, self.promises = Counter(), {"event": [], "message": []}
        self.questions, self.expected_questions, self.messages = [], [], 0
        self.verdicts, self.idle_before = [], set()

    async def _watch(self):
        while True:
            await RisingEdge(self.dut.clk)
            if self.dut.rst.value:
                continue
            self.messages += int(self.dut.message_accepted.value)
            for name in COUNTS:
                self.counts[name] += int(getattr(self.dut, f"count_{name}").value)
            for kind, promises in self.promises.items():
                claim = unpack(EVENT_CLAIM, int(getattr(self.dut, f"{kind}_promise").value))
                if claim["valid"]:
                    promises.append((claim["context"], claim["generation"]))

    async def _report(self):
        """Say of each request accepted, after a while and in order, whether it has passed the checks."""
        self.dut.checked.value, seen, waiting = 0, 0, []
        while True:
            await RisingEdge(self.dut.clk)
            if self.dut.rst.value:
                self.dut.checked.value, seen, waiting = 0, 0, []
                continue
            sequenced = self.sinks["sequenced"].received
            seen = min(seen, len(sequenced))
            waiting += [s for s in sequenced[seen:] if not s["dropped"]]
            seen = len(sequenced)
            if waiting and random.random() < 0.4:
                request = waiting.pop(0)
                report = {"valid": 1, "pdc": request["pdc"], "passed": passes(request["header"])}
                self.dut.checked.value = pack(CHECK_REPORT, report)
            else:
                self.dut.checked.value = 0

    async def _reply(self):
        """Say of each message in question, after a while, whether it meets a receive."""
        self.dut.receive_reply.value = 0
        while True:
            await RisingEdge(self.dut.clk)
            question = unpack(RECEIVE_QUESTION, int(self.dut.receive_question.value))
            if not question["valid"]:
                continue
            self.questions.append(question)
            for _ in range(random.choice([0, 0, 1, 7])):
                await RisingEdge(self.dut.clk)
                assert unpack(RECEIVE_QUESTION, int(self.dut.receive_question.value)) == question
                assert not int(self.dut.message_accepted.value)
            self.dut.receive_reply.value = pack(RECEIVE_REPLY, {"valid": 1, "found": meets(question["tag"])})
            await RisingEdge(self.dut.clk)
            self.dut.receive_reply.value = 0

    def send(self, header):
        """Send a header; returns what the rules make of it."""
        receiver, *states = self._needed(header)
        verdict = self.rules.judge(header, "blocked" in states, passes(header))
        self.requests.send(header)
        promised = [verdict.kind == "accepted" and state == "open" for state in states]
        kept = verdict.kind == "accepted" and states[1] == "kept"
        self.verdicts.append((header, verdict, promised, receiver, kept))
        is_next = verdict.kind == "accepted" or (verdict.nack is not None and verdict.nack[0] == NO_RESOURCE)
        if is_next and header["opcode"] in SENDS and states[0] != "blocked" and states[1] in ("blocked", "kept"):
            self.expected_questions.append(question_about(header, receiver))
        return verdict

    def _needed(self, h):
        """Whose event ring and slots a request needs, and their states; "none" for what it does not."""
        context = h["resource_index"]
        is_message = h["opcode"] in MESSAGES and not h["is_control"]
        if is_message and context < CONTEXTS:
            context = self.receivers[context]
        if h["is_control"] or context is None or context >= CONTEXTS:
            return None, "none", "none"
        slots = self.slots[context] if is_message else "none"
        events = self.events[context] if h["flags"] & HEADER_DATA or slots != "none" else "none"
        if h["opcode"] not in SENDS | RENDEZVOUS:
            slots = "none"
        if slots == "blocked" and h["opcode"] in SENDS and meets(h["memory_key"]):
            slots = "kept"
        return context, events, slots

    async def fall_idle(self):
        """Let so much time pass that every PDC is idle, and no more."""
        await self.settle()
        self.dut.retransmission.value = AT_ONCE
        await ClockCycles(self.dut.clk, 3 * 64 + PDCS)
        self.dut.retransmission.value = FOR_EVER
        self.rules.fall_idle()
        self.idle_before.add(len(self.verdicts))

    async def settle(self):
        while self.requests.left:
            await RisingEdge(self.dut.clk)
        await ClockCycles(self.dut.clk, 200)

    def check(self):
        """Everything that came out is what the rules say, in order."""
        sequenced = self.sinks["sequenced"].received
        assert [s["header"] for s in sequenced] == [{**EMPTY, **h} for h, *_ in self.verdicts]
        for seen, (header, verdict, promised, receiver, kept) in zip(sequenced, self.verdicts, strict=True):
            assert seen["receive_kept"] == kept, (seen, verdict)
            assert seen["dropped"] == (verdict.kind != "accepted"), (seen, verdict)
            assert [seen["promised"], seen["slot_promised"]] == promised, (seen, verdict)
            if verdict.kind == "accepted":
                assert seen["pdc"] == verdict.pdc, (seen, verdict)
            if any(promised):
                target_generation = header["resource_index"] + 3
                generations = [seen[name] for name in ("receiver", "generation", "target_generation")]
                assert generations == [receiver, receiver + 3, target_generation]
        nacks = [
            {name: h[name] for name in DESTINATION}
            | {"psn": v.nack[1], "spdcid": v.nack[2], "dpdcid": h["spdcid"], "code": v.nack[0], "retx": h["retx"]}
            for h, v, *_ in self.verdicts
            if v.nack
        ]
        assert self.sinks["nacks"].received == nacks
        duplicates = [(h, v) for h, v, *_ in self.verdicts if v.kind == "duplicate"]
        seen = [{n: v for n, v in d.items() if n != "incarnation"} for d in self.sinks["duplicates"].received]
        assert seen == [
            {name: h[name] for name in (*DESTINATION, "psn", "clear_psn_offset", "retx")}
            | {"spdcid": v.pdc, "dpdcid": h["spdcid"]}
            for h, v in duplicates
        ]
        kinds = Counter(verdict.kind for _, verdict, *_ in self.verdicts)
        assert self.counts == Counter(
            dropped_pdc=kinds["dropped_pdc"],
            dropped_sequence=kinds["dropped_sequence"],
            duplicates=kinds["duplicate"],
        )
        for number, promises in enumerate(self.promises.values()):
            contexts = [receiver for _, _, promised, receiver, _ in self.verdicts if promised[number]]
            assert promises == [(context, context + 3) for context in contexts]
        # About the messages that nothing but a slot may keep from being accepted.
        assert self.questions == self.expected_questions
        accepted = [h for h, verdict, *_ in self.verdicts if verdict.kind == "accepted" and not h["is_control"]]
        assert self.messages == sum(h["opcode"] in MESSAGES for h in accepted)
        self._check_incarnations(duplicates)
        return kinds

    def _check_incarnations(self, duplicates):
        """All packets of a PDC between two openings have one incarnation, those of the next another."""
        rules, incarnations = Sequence(PDCS, WINDOW), {}
        repeated = iter(self.sinks["duplicates"].received)
        sequenced = self.sinks["sequenced"].received
        for number, (seen, (header, verdict, *_)) in enumerate(zip(sequenced, self.verdicts, strict=True)):
            if number in self.idle_before:
                rules.fall_idle()
            rules.judge(header, verdict.nack is not None and verdict.nack[0] == NO_RESOURCE, passes(header))
            if verdict.kind == "accepted":
                pdc = rules.table[verdict.pdc]
                last, incarnation = incarnations.get(verdict.pdc, (None, None))
                assert (seen["incarnation"] == incarnation) == (last is pdc)
                incarnations[verdict.pdc] = pdc, seen["incarnation"]
            elif verdict.kind == "duplicate":
                duplicate = next(repeated)
                last, incarnation = incarnations.get(verdict.pdc, (None, None))
                assert (duplicate["incarnation"] == incarnation) == (last is rules.table[verdict.pdc])


def meets(tag):
    """Whether there is a receive for a message with this tag, tagged or not."""
    return tag & 1


def passes(header):
    """Whether the checks have nothing against a request."""
    return int(not header["is_control"] and header["initiator"] & 3 != 0)


def question_about(header, receiver):
    fields = {"source_ip": "ip", "source_context": "initiator", "target": "resource_index", "tag": "memory_key"}
    tagged = int(header["opcode"] not in UNTAGGED)
    return {"valid": 1, "context": receiver, "tagged": tagged} | {name: header[of] for name, of in fields.items()}


EMPTY = dict.fromkeys((name for name, _ in FRAME_HEADER), 0)


def packet(sender, psn, first=None, pdc=0, **fields):
    """A request of ``sender`` (IP address, PDC): with SYN if ``first`` is its start_psn."""
    header = EMPTY | random_request(b"") | {"ip": sender[0], "spdcid": sender[1], "psn": psn & 0xFFFF_FFFF}
    header |= {"syn": int(first is not None), "dpdcid": pdc if first is None else (psn - first) & 0xFFFF}
    return (
        header
        | {"clear_psn_offset": 0xFFFF, "retx": 0, "flags": 3, "resource_index": 0, "opcode": 1, "initiator": 1}
        | fields
    )


class Senders:
    """More initiators' PDCs than the table has, some with equal hashes, that behave in many ways."""

    def __init__(self, count):
        # Address and PDC that meet in the same hash: 1 ^ reversed(0x80) and the like.
        clashing = [(1, 0), (0, 0x80), (0x101, 0x80), (3, 0x80), (2, 0)]
        others = [(random.getrandbits(32), random.getrandbits(16)) for _ in range(count)]
        self._names = (clashing + others)[:count]
        self._state = {name: self._fresh() for name in self._names}

    def _fresh(self):
        first = random.choice([0, 0xFFFF_FFFF, 0xFFFF_FFF0, 0x7FFF_FFFE, random.getrandbits(32)])
        return {"first": first, "next": first, "pdc": None}

    def packet(self, rules):
        name = random.choice(self._names[:PDCS] if random.random() < 0.7 else self._names)
        state = self._state[name]
        if random.random() < 0.03:
            state = self._state[name] = self._fresh()
        step = random.choice([0, 0, 0, 0, 0, 1, 2, -1, -2, -random.randint(1, 2 * WINDOW)])
        psn = state["next"] + step
        syn = state["pdc"] is None or random.random() < 0.1
        header = packet(name, psn, state["first"] if syn else None, state["pdc"] or 0)
        header["dpdcid"] &= 0xFFF if syn else 0xFFFF
        header["retx"] = int(random.random() < 0.2)
        header["clear_psn_offset"] = -random.choice([1, 1, 1, WINDOW, WINDOW + 1, 0, -5, 0x7FFF]) & 0xFFFF
        header["is_control"] = int(random.random() < 0.06)
        header["flags"] = random.choice([3, 3, 7])
        header["opcode"] = random.choice([1, *MESSAGES, random.getrandbits(6)])
        header["resource_index"] = random.randrange(CONTEXTS + 2)
        header["initiator"] = random.getrandbits(32)
        if random.random() < 0.05:
            field = random.choice(["psn", "dpdcid", "spdcid", "ip"])
            header[field] = random.choice([0, 1, PDCS - 1, PDCS, header[field] ^ 1])
        return name, header

    def learn(self, name, header, verdict):
        state = self._state[name]
        if (header["ip"], header["spdcid"]) != name:
            return
        if verdict.kind == "accepted":
            state["next"] = (header["psn"] + 1) & 0xFFFF_FFFF
            state["pdc"] = verdict.pdc
            if header["is_control"]:
                state["first"], state["pdc"] = state["next"], None
        elif verdict.kind == "dropped_pdc":
            state["first"], state["pdc"] = state["next"], None


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES), sink_pace=list(PACES))
async def any_traffic_is_judged_by_the_rules(dut, pace, sink_pace):
    bench = Bench(dut, PACES[pace], PACES[sink_pace])
    await start(dut)
    senders = Senders(PDCS + 3)
    for _ in range(8):
        states = ["none", "open", "open", "blocked"]
        events = random.choices(states, k=CONTEXTS)
        # Only a context with an event ring takes messages.
        slots = ["none" if state == "none" else random.choice(states) for state in events]
        bench.set_rooms(events=events, slots=slots)
        bench.set_receivers(random.choice([n, n, None, *range(CONTEXTS)]) for n in range(CONTEXTS))
        for _ in range(50):
            name, header = senders.packet(bench.rules)
            senders.learn(name, header, bench.send(header))
        await bench.settle()
    kinds = bench.check()
    assert min(kinds[kind] for kind in ("accepted", "duplicate", "dropped_pdc", "dropped_sequence")) > 5
    codes = {verdict.nack[0] for _, verdict, *_ in bench.verdicts if verdict.nack}
    assert {0xA, 0xB, 0xD, 0xE} <= codes


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_message_is_accepted_with_room_for_its_event_and_a_place(dut):
    bench = Bench(dut)
    await start(dut)
    sender, psn = (7, 1), 5
    stored, others = SENDS | RENDEZVOUS, MESSAGES - SENDS - RENDEZVOUS
    cases = [  # event ring, slots, whether it meets a receive, which messages are refused
        ("open", "open", False, set()),
        ("blocked", "open", False, MESSAGES),
        ("open", "blocked", False, stored),
        ("open", "blocked", True, RENDEZVOUS),
        ("blocked", "blocked", True, MESSAGES),
        # Without slots it is accepted, to be refused by the checks.
        ("blocked", "none", False, set()),
        ("none", "none", False, set()),
    ]
    for events, slots, found, refused in cases:
        bench.set_rooms(events=[events] * CONTEXTS, slots=[slots] * CONTEXTS)
        for opcode in (*MESSAGES, 7, 8, 1):
            verdict = bench.send(packet(sender, psn, 5, opcode=opcode, memory_key=int(found)))
            if opcode in refused:
                assert verdict.nack == (NO_RESOURCE, psn, 0)
            else:
                assert verdict.kind == "accepted"
                psn += 1
        await bench.settle()
    assert len(bench.promises["event"]) == len(MESSAGES) + len(others) + len(SENDS | others)
    assert len(bench.promises["message"]) == len(stored)
    assert len(bench.questions) == 2 * len(SENDS)
    bench.check()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_message_that_opens_its_pdc_is_asked_about_only_when_it_has_one(dut):
    bench = Bench(dut)
    await start(dut)
    bench.set_rooms(events=["open"] * CONTEXTS, slots=["blocked"] * CONTEXTS)
    for number in range(PDCS):
        assert bench.send(packet((7, number), 5, 5, opcode=5, memory_key=0)).nack == (NO_RESOURCE, 5, number)
        assert bench.send(packet((7, number), 5, 5, opcode=5, memory_key=1)).kind == "accepted"
    assert bench.send(packet((7, PDCS), 5, 5, opcode=5, memory_key=1)).nack == (4, 5, 0xFFFF)
    await bench.settle()
    assert len(bench.questions) == 2 * PDCS
    bench.check()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def free_pdcs_are_opened_in_order_then_closed_ones_in_the_order_of_closing(dut):
    bench = Bench(dut)
    await start(dut)
    senders = [(7, number) for number in range(PDCS)]
    opened = [bench.send(packet(sender, 5, 5)).pdc for sender in senders]
    assert opened == list(range(PDCS))
    assert bench.send(packet((8, 0), 0, 0)).nack == (4, 0, 0xFFFF)
    order = random.sample(range(PDCS), PDCS)
    for number in order:
        bench.send(packet(senders[number], 6, pdc=number, is_control=1))
    # Closed, but not forgotten: what was received before is a duplicate, what comes now has no PDC.
    assert bench.send(packet(senders[order[0]], 6, pdc=order[0], is_control=1, retx=1)).kind == "duplicate"
    assert bench.send(packet(senders[order[0]], 7, pdc=order[0])).nack == (0xE, 7, order[0])
    # One that opens again keeps its number, and goes to the end when it closes again.
    assert bench.send(packet(senders[order[1]], 7, 7)).pdc == order[1]
    bench.send(packet(senders[order[1]], 8, 7, is_control=1))
    taken = [bench.send(packet((9, number), 0, 0)).pdc for number in range(PDCS)]
    assert taken == [order[0], *order[2:], order[1]]
    assert bench.send(packet((10, 0), 0, 0)).nack == (4, 0, 0xFFFF)
    await bench.settle()
    bench.check()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def an_open_pdc_is_nobody_else_s_and_not_opened_anew_until_it_is_idle(dut):
    bench = Bench(dut)
    await start(dut)
    senders = [(7, number) for number in range(PDCS - 1)]
    for sender in senders:
        bench.send(packet(sender, 5, 5))
    # Whoever opens a PDC under a name that has one gets a place beside it, again and again the same...
    for first in (0x1000_0000, 0x2000_0000, 0x3000_0000):
        assert bench.send(packet(senders[1], first, first, initiator=0)).pdc == PDCS - 1
        assert bench.send(packet(senders[1], first + 1, first, initiator=0)).pdc == PDCS - 1
        assert bench.send(packet(senders[1], bench.rules.table[1].expected, pdc=1)).pdc == 1
    # ... of which one request that passes makes another open PDC; then all are taken.
    assert bench.send(packet(senders[1], first + 2, first)).pdc == PDCS - 1
    assert bench.send(packet(senders[1], 0x4000_0000, 0x4000_0000)).nack == (4, 0x4000_0000, 0xFFFF)
    await bench.fall_idle()
    # A packet of any kind ends that: one that is next, one that was received before, and one behind a gap.
    assert bench.send(packet(senders[0], 6, pdc=0)).kind == "accepted"
    assert bench.send(packet(senders[2], 5, 5)).kind == "duplicate"
    assert bench.send(packet(senders[3], 9, 5)).kind == "dropped_sequence"
    taken = [number for number in range(PDCS) if number not in (0, 2, 3)]
    opened = [bench.send(packet((9, number), 0, 0)).pdc for number in range(len(taken))]
    assert opened == taken
    assert bench.send(packet((10, 0), 0, 0)).nack == (4, 0, 0xFFFF)
    # Those who had them learn that they are another's.
    assert bench.send(packet(senders[4], 6, pdc=4)).nack == (0xE, 6, 4)
    await bench.settle()
    bench.check()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def idle_pdcs_are_given_away_only_when_there_is_no_other(dut):
    bench = Bench(dut)
    await start(dut)
    senders = [(7, number) for number in range(PDCS - 2)]
    for sender in senders:
        bench.send(packet(sender, 5, 5))
    bench.send(packet(senders[-1], 6, 5, is_control=1))
    await bench.fall_idle()
    opened = [bench.send(packet((9, number), 0, 0)).pdc for number in range(4)]
    assert opened == [PDCS - 2, PDCS - 1, PDCS - 3, 0]
    await bench.settle()
    for _ in range(3):
        await bench.fall_idle()
        for number in range(2, 5):
            psn = bench.rules.table[number].expected
            assert bench.send(packet(senders[number], psn, pdc=number)).kind == "accepted"
    await bench.settle()
    bench.check()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def strangers_whose_requests_are_refused_take_no_pdc_from_anybody(dut):
    bench = Bench(dut)
    await start(dut)
    friends = [(7, number) for number in range(PDCS - 3)]
    for sender in friends:
        bench.send(packet(sender, 5, 5))
    for number in range(5 * PDCS):
        assert bench.send(packet((8, number), 0, 0, initiator=0)).kind == "accepted"
        for sender in random.sample(friends, 2):
            psn = bench.rules.table[bench.rules.number_of(sender)].expected
            assert bench.send(packet(sender, psn, 5)).kind == "accepted"
    # A newcomer finds room, and keeps it.
    assert bench.send(packet((9, 0), 0, 0)).kind == "accepted"
    for number in range(2 * PDCS):
        bench.send(packet((10, number), 0, 0, initiator=0))
    assert bench.send(packet((9, 0), 1, 0)).kind == "accepted"
    await bench.settle()
    bench.check()


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(syn=[False, True])
async def a_packet_takes_two_cycles_with_or_without_syn(dut, syn):
    bench = Bench(dut)
    await start(dut)
    senders = [(0x0A00_0001 + number % 4, number // 4) for number in range(PDCS)]
    for sender in senders:
        bench.send(packet(sender, 0, 0))
    await bench.settle()
    departures, cycle = [], 0
    for turn in range(1, 5):
        for number, sender in enumerate(senders):
            bench.send(packet(sender, turn, 0 if syn else None, number))
    while bench.requests.left:
        await RisingEdge(dut.clk)
        cycle += 1
        if dut.sequenced__valid.value and dut.sequenced__ready.value:
            departures.append(cycle)
    assert {after - before for before, after in pairwise(departures)} == {2}
    await bench.settle()
    assert bench.check() == Counter(accepted=5 * PDCS)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def reset_in_mid_traffic_frees_all_pdcs(dut):
    bench = Bench(dut, PACES["randomly"], PACES["randomly"])
    await start(dut)
    for _ in range(6):
        senders = Senders(PDCS + 3)
        for _ in range(40):
            name, header = senders.packet(bench.rules)
            senders.learn(name, header, bench.send(header))
        for _ in range(random.randint(1, 120)):
            await RisingEdge(dut.clk)
        await reset(dut)
        await bench.settle()
        bench.forget()
        for sink in bench.sinks.values():
            sink.received.clear()
        for number in range(PDCS):
            assert bench.send(packet((1, number), 9, 9)).pdc == number
        await bench.settle()
        bench.check()
        await reset(dut)
        bench.forget()
        for sink in bench.sinks.values():
            sink.received.clear()
