"""The surroundings of a PdcTable in its bench: credits, receives, checks, and senders that do as they like.

Parameters: ``pdcs``, ``window``, ``out_of_order_entries``, ``contexts``.
"""

import random
from collections import Counter
from functools import partial

import cocotb
from amoeba_hw.interfaces import FRAME_HEADER, PDC_COMMAND, PDC_VIEW, RETRANSMISSION
from amoeba_hw.request_records import (
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
from amoeba_sim.cocotb_streams import StreamSink, StreamSource, always, in_bursts, randomly, reader
from amoeba_sim.payload import pack, unpack
from cocotb.triggers import ClockCycles, RisingEdge

from tests.hw.target.rules import END, HEADER_DATA, MESSAGES, START, Sequence
from tests.hw.uet_frames import random_request

__all__ = [
    "CONTEXTS",
    "GAP_SLOTS",
    "NO_RESOURCE",
    "PACES",
    "PDCS",
    "RENDEZVOUS",
    "ROD_OOO",
    "SENDS",
    "WINDOW",
    "Bench",
    "Senders",
    "packet",
]

PARAMETERS = bench_parameters()
PDCS, WINDOW, CONTEXTS = PARAMETERS["pdcs"], PARAMETERS["window"], PARAMETERS["contexts"]
GAP_SLOTS = PARAMETERS["out_of_order_entries"]
PACES = {"always": always, "randomly": lambda: randomly(0.5), "in bursts": lambda: in_bursts(9)}
COUNTS = ("dropped_pdc", "dropped_sequence", "duplicates")
DESTINATION = ("mac", "ip", "port")
_KEY_PLACE = SEQUENCED_REQUEST["header"].offset + FRAME_HEADER["memory_key"].offset
"""Of the key, in the bits of a request."""
NO_RESOURCE, ROD_OOO = 0xA, 0xD
FOR_EVER = pack(RETRANSMISSION, {"timeout": 0xFFFF_FFFF, "limit": 0xFF})
TOO_LATE = pack(RETRANSMISSION, {"timeout": 10, "limit": 0xFF})
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
        self.set_credits(events=["none"] * CONTEXTS, slots=["none"] * CONTEXTS)
        self.set_receivers(range(CONTEXTS))
        self.dut.retransmission.value = FOR_EVER
        self.dut.pdc_command.value = self.dut.cycles.value = 0
        self.forget()
        cocotb.start_soon(self._watch())
        cocotb.start_soon(self._reply())
        cocotb.start_soon(self._report())

    def set_credits(self, **states):
        """Per context: "none" without event ring, or without slots; "open" with space, "blocked" without."""
        for kind, of_contexts in states.items():
            setattr(self, kind, of_contexts)
            for state in ("open", "blocked"):
                bits = sum((name == state) << context for context, name in enumerate(of_contexts))
                getattr(self.dut, f"{kind[:-1]}_{state}").value = bits
        for context in range(CONTEXTS):
            getattr(self.dut, f"event_generations__{context}").value = context + 3

    def set_receivers(self, receivers):
        """Per context: the one whose credits its messages need, or None."""
        self.receivers = list(receivers)
        for context, receiver in enumerate(self.receivers):
            number = random.getrandbits(8) if receiver is None else receiver
            packed = pack(RECEIVER, {"valid": receiver is not None, "context": number})
            getattr(self.dut, f"receivers__{context}").value = packed

    def forget(self):
        self.rules = Sequence(PDCS, WINDOW, GAP_SLOTS, CONTEXTS)
        self.rules.enabled, self.dut.enabled.value = {0}, 1
        self.counts, self.reservations = Counter(), {"event": [], "message": []}
        self.questions, self.expected_questions, self.messages = [], [], 0
        self.verdicts, self.idle_before, self.late_before = [], set(), set()
        self.expelled_before, self.enabled_before = [], {}

    async def _watch(self):
        cocotb.start_soon(self._check_ahead())
        in_reset, accepted = reader(self.dut.rst), reader(self.dut.message_accepted)
        counts = {name: reader(getattr(self.dut, f"count_{name}")) for name in COUNTS}
        claims = {kind: reader(getattr(self.dut, f"{kind}_reserve")) for kind in self.reservations}
        while True:
            await RisingEdge(self.dut.clk)
            if in_reset():
                continue
            self.messages += accepted()
            for name, count in counts.items():
                self.counts[name] += count()
            for kind, reservations in self.reservations.items():
                claim = unpack(EVENT_CLAIM, claims[kind]())
                if claim["valid"]:
                    reservations.append((claim["context"], claim["generation"]))

    async def _check_ahead(self):
        """Nothing comes whose key was not said in the cycle before."""
        stands, said = False, None
        signals = (getattr(self.dut, f"sequenced__{part}") for part in ("valid", "ready", "payload"))
        valid, ready, payload = map(reader, signals)
        in_reset, ahead, ahead_key = map(reader, (self.dut.rst, self.dut.ahead, self.dut.ahead_key))
        while True:
            await RisingEdge(self.dut.clk)
            is_there = valid()
            if is_there and not stands:
                key = payload() >> _KEY_PLACE & (1 << 64) - 1
                assert said == key, f"{key:#x} came, {said} was said"
            stands = is_there and not ready() and not in_reset()
            said = ahead_key() if ahead() else None

    async def _report(self):
        """Say of each request accepted, after a while and in order, whether it has passed the checks."""
        self.dut.checked.value, seen, waiting = 0, 0, []
        in_reset = reader(self.dut.rst)
        while True:
            await RisingEdge(self.dut.clk)
            if in_reset():
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
        asked = reader(self.dut.receive_question)
        while True:
            await RisingEdge(self.dut.clk)
            question = unpack(RECEIVE_QUESTION, asked())
            if not question["valid"]:
                continue
            self.questions.append(question)
            for _ in range(random.choice([0, 0, 1, 7])):
                await RisingEdge(self.dut.clk)
                assert unpack(RECEIVE_QUESTION, asked()) == question
                assert not int(self.dut.message_accepted.value)
            self.dut.receive_reply.value = pack(RECEIVE_REPLY, {"valid": 1, "found": meets(question["tag"])})
            await RisingEdge(self.dut.clk)
            self.dut.receive_reply.value = 0

    def send(self, header):
        """Send a header; returns what the rules make of it."""
        verdict = first = self._judge(header, self.rules.judge)
        self.requests.send(header)
        while verdict.kind == "accepted" and (kept := self.rules.following(verdict.pdc)):
            slot, header = kept
            verdict = self._judge(header, partial(self.rules.judge_next, verdict.pdc), slot)
        return first

    def _judge(self, header, judge, left=None):
        """The verdict, noted; ``left``: the slot where the packet was kept."""
        needed = [self._needed(header, False)]

        def lacks_space(data_pending):
            needed[0] = self._needed(header, data_pending)
            return "blocked" in needed[0]

        verdict = judge(header, lacks_space, lambda number: passes(header))
        receiver, *states = needed[0]
        reserved = [verdict.kind == "accepted" and state == "open" for state in states]
        kept = verdict.kind == "accepted" and states[1] == "kept"
        self.verdicts.append((header, verdict, reserved, receiver, kept, left))
        is_next = verdict.kind == "accepted" or (verdict.nack is not None and verdict.nack[0] == NO_RESOURCE)
        if is_next and header["opcode"] in SENDS and states[0] != "blocked" and states[1] in ("blocked", "kept"):
            self.expected_questions.append(question_about(header, receiver))
        return verdict

    def _needed(self, h, data_pending):
        """The context whose event ring and slots a request needs, and their states; "none" for unneeded ones."""
        context = h["resource_index"]
        is_message = h["opcode"] in MESSAGES and not h["is_control"]
        if is_message and not h["flags"] & START:
            return self.receivers[context] if context < CONTEXTS else context, "none", "none"
        if is_message and context < CONTEXTS:
            context = self.receivers[context]
        if h["is_control"] or context is None or context >= CONTEXTS:
            return None, "none", "none"
        slots = self.slots[context] if is_message else "none"
        has_data = h["flags"] & HEADER_DATA if h["flags"] & START else data_pending
        reports = has_data and h["flags"] & END
        events = self.events[context] if reports or slots != "none" else "none"
        if h["opcode"] not in SENDS | RENDEZVOUS or not h["flags"] & END:
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

    async def enable(self, contexts):
        """These contexts, and no others, while nothing is in flight."""
        await self.settle()
        self.dut.enabled.value = sum(1 << context for context in contexts)
        self.rules.enabled = self.enabled_before[len(self.verdicts)] = set(contexts)

    async def fall_late(self):
        """Let so much time pass that whatever is kept has waited for a timeout."""
        await self.settle()
        self.dut.retransmission.value = TOO_LATE
        await ClockCycles(self.dut.clk, 40)
        self.dut.retransmission.value = FOR_EVER
        self.rules.fall_late()
        self.late_before.add(len(self.verdicts))

    async def command(self, what, pdc):
        """A register write: "select" or "close"."""
        self.dut.pdc_command.value = pack(PDC_COMMAND, {"select": 0, "close": 0, "pdc": pdc, what: 1})
        await RisingEdge(self.dut.clk)
        self.dut.pdc_command.value = 0

    async def expel(self, number):
        """Close a PDC while nothing is in flight."""
        await self.settle()
        await self.command("close", number)
        await ClockCycles(self.dut.clk, 4 + GAP_SLOTS)
        self.rules.expel(number)
        self.expelled_before.append((len(self.verdicts), number))

    async def check_views(self):
        """The registers show all PDCs, and nothing of those that are not there."""
        await self.settle()
        for number in [*range(PDCS + 1), 0xFFFF]:
            await self.command("select", number)
            await RisingEdge(self.dut.clk)
            view = unpack(PDC_VIEW, int(self.dut.pdc_view.value))
            pdc = self.rules.table[number] if number < PDCS else None
            if pdc is None:
                assert not any(view.values()), (number, view)
                continue
            ip, spdcid = pdc.sender
            assert view == {
                "state": 3 if pdc.expelled else 2 if pdc.closed else 1, "ip": ip, "spdcid": spdcid, "job_id": pdc.job,
                "context": pdc.context, "expected": pdc.expected, "came": view["came"],
            }, (number, view, pdc)  # fmt: skip

    async def settle(self):
        while self.requests.left:
            await RisingEdge(self.dut.clk)
        await ClockCycles(self.dut.clk, 200)

    def check(self):
        """Everything that came out is what the rules say, in order."""
        sequenced = self.sinks["sequenced"].received
        assert [s["header"] for s in sequenced] == [{**EMPTY, **h} for h, *_ in self.verdicts]
        for seen, (header, verdict, reserved, receiver, kept, left) in zip(sequenced, self.verdicts, strict=True):
            assert seen["receive_kept"] == kept, (seen, verdict)
            assert (seen["gap"]["enters"], seen["gap"]["leaves"]) == (verdict.kind == "kept", left is not None)
            if verdict.kind == "kept" or left is not None:
                assert seen["gap"]["slot"] == (verdict.entered if left is None else left), (seen, verdict)
            assert seen["dropped"] == (verdict.kind != "accepted"), (seen, verdict)
            assert [seen["reserved"], seen["slot_reserved"]] == reserved, (seen, verdict)
            if verdict.kind == "accepted":
                assert seen["pdc"] == verdict.pdc, (seen, verdict)
            if any(reserved):
                target_generation = header["resource_index"] + 3
                generations = [seen[name] for name in ("receiver", "generation", "target_generation")]
                assert generations == [receiver, receiver + 3, target_generation]
        nacks = [
            {name: h[name] for name in DESTINATION}
            | {"psn": v.nack[1], "spdcid": v.nack[2], "dpdcid": h["spdcid"], "code": v.nack[0], "retx": h["retx"]}
            | {"missing": v.missing, "marked": h["marked"]}
            for h, v, *_ in self.verdicts
            if v.nack
        ]
        assert self.sinks["nacks"].received == nacks
        duplicates = [(h, v) for h, v, *_ in self.verdicts if v.kind == "duplicate"]
        seen = [{n: v for n, v in d.items() if n != "epoch"} for d in self.sinks["duplicates"].received]
        assert seen == [
            {name: h[name] for name in (*DESTINATION, "psn", "clear_psn_offset", "retx", "marked")}
            | {"spdcid": v.pdc, "dpdcid": h["spdcid"]}
            for h, v in duplicates
        ]
        kinds = Counter(verdict.kind for _, verdict, *_ in self.verdicts)
        assert self.counts == Counter(
            dropped_pdc=kinds["dropped_pdc"],
            dropped_sequence=kinds["dropped_sequence"] + self.rules.thrown,
            duplicates=kinds["duplicate"],
        )
        for number, reservations in enumerate(self.reservations.values()):
            contexts = [receiver for _, _, reserved, receiver, *_ in self.verdicts if reserved[number]]
            assert reservations == [(context, context + 3) for context in contexts]
        # About the messages that nothing but a slot may keep from being accepted.
        assert self.questions == self.expected_questions
        accepted = [h for h, verdict, *_ in self.verdicts if verdict.kind == "accepted" and not h["is_control"]]
        assert self.messages == sum(h["opcode"] in MESSAGES for h in accepted)
        self._check_epochs(duplicates)
        return kinds

    def _check_epochs(self, duplicates):
        """All packets of a PDC between two SYNs have one epoch, those of the next another."""
        rules, epochs = Sequence(PDCS, WINDOW, GAP_SLOTS, CONTEXTS), {}
        rules.enabled = {0}
        repeated = iter(self.sinks["duplicates"].received)
        sequenced = self.sinks["sequenced"].received
        for number, (seen, (header, verdict, *_, left)) in enumerate(zip(sequenced, self.verdicts, strict=True)):
            if number in self.idle_before:
                rules.fall_idle()
            if number in self.late_before:
                rules.fall_late()
            rules.enabled = self.enabled_before.get(number, rules.enabled)
            for before, pdc in self.expelled_before:
                if before == number:
                    rules.expel(pdc)
            judge = rules.judge
            if left is not None:
                assert rules.following(verdict.pdc) == (left, header)
                judge = partial(rules.judge_next, verdict.pdc)
            refused = verdict.nack is not None and verdict.nack[0] == NO_RESOURCE
            judge(header, lambda pending, no=refused: no, lambda number, header=header: passes(header))
            if verdict.kind == "accepted":
                pdc = rules.table[verdict.pdc]
                last, epoch = epochs.get(verdict.pdc, (None, None))
                assert (seen["epoch"] == epoch) == (last is pdc)
                epochs[verdict.pdc] = pdc, seen["epoch"]
            elif verdict.kind == "duplicate":
                duplicate = next(repeated)
                last, epoch = epochs.get(verdict.pdc, (None, None))
                assert (duplicate["epoch"] == epoch) == (last is rules.table[verdict.pdc])


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
        step = random.choice([0, 0, 0, 0, 0, 1, 2, 3, -1, -2, *(random.randint(1, 2 * WINDOW) * s for s in (1, -1))])
        psn = state["next"] + step
        syn = state["pdc"] is None or random.random() < 0.1
        header = packet(name, psn, state["first"] if syn else None, state["pdc"] or 0)
        header["dpdcid"] &= 0xFFF if syn else 0xFFFF
        header["retx"] = int(random.random() < 0.2)
        header["clear_psn_offset"] = -random.choice([1, 1, 1, WINDOW, WINDOW + 1, 0, -5, 0x7FFF]) & 0xFFFF
        header["is_control"] = int(random.random() < 0.06)
        header["flags"] = random.choice([*[3, 7] * 5, 5, 5, 2, 2, 1, 6, 0])
        header["opcode"] = random.choice([1, *MESSAGES, random.getrandbits(6)])
        header["resource_index"] = random.randrange(CONTEXTS + 2)
        header["initiator"] = random.getrandbits(32)
        if random.random() < 0.05:
            field = random.choice(["psn", "dpdcid", "spdcid", "ip"])
            header[field] = random.choice([0, 1, PDCS - 1, PDCS, header[field] ^ 1])
        return name, header

    def learn(self, name, header, verdict, rules):
        state = self._state[name]
        if (header["ip"], header["spdcid"]) != name:
            return
        if verdict.kind == "accepted":
            state["next"] = rules.table[verdict.pdc].expected
            state["pdc"] = verdict.pdc
            if rules.table[verdict.pdc].closed:
                state["first"], state["pdc"] = state["next"], None
        elif verdict.kind == "dropped_pdc":
            state["first"], state["pdc"] = state["next"], None
