"""Testbench of Matcher: a driver with rings in host memory, requests as a target's checks let them through, and the
account that others keep of space. The model's lists judge the fate of each.

Parameters: ``data_width``, ``contexts``, ``receives``, ``unexpected``, ``payload``.

Covers ``messages/receive_fetch.py``, ``messages/slot_credits.py`` and ``request_records.py``.
"""

import random
from collections import Counter, deque

import cocotb
from amoeba_hw.interfaces import CONTEXT, READ_REQUEST, RING_INDEX, SLOT_RELEASE, read_beat
from amoeba_hw.request_records import CHECKED_REQUEST, EVENT_CLAIM, RECEIVE_QUESTION, RECEIVE_REPLY
from amoeba_model.descriptors import RX_DESCRIPTOR, EventFlags, EventKind, ReceiveOpcode
from amoeba_model.wire.uet import ReturnCode
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import StreamSink, StreamSource, always, in_bursts, randomly, reader, start
from amoeba_sim.payload import pack, unpack
from cocotb.triggers import ClockCycles, RisingEdge

from tests.hw.messages.rules import (
    Reference,
    assert_includes,
    random_message,
    random_order,
    random_request,
    search_of,
    unexpected_base,
)

PARAMETERS = bench_parameters()
WIDTH, CONTEXTS, UNEXPECTED, PAYLOAD = (
    PARAMETERS[name] for name in ("data_width", "contexts", "unexpected", "payload")
)
RING_BITS = 7
ANNOUNCING = {1}
"""Contexts that announce messages."""
PACES = {"always": always, "randomly": lambda: randomly(0.5), "in bursts": lambda: in_bursts(12)}


def _is_matched(request):
    return request["message"]["valid"] and request["answer"]["executed"] and not request["dropped"]


class Lists(Reference):
    """The lists, with the slots that the design took: the cycle of a release does not show."""

    slot = None

    def take_slot(self, context):
        return self.slot


class Bench:
    """Judges every decision in the order in which the design makes them, going by what shows of it."""

    def __init__(self, dut, pace, latency=lambda: random.randint(1, 40), faults=0.03):
        self.dut = dut
        self.tails = StreamSource(dut, "receive_tails", RING_INDEX, pace=pace())
        self.releases = StreamSource(dut, "slot_releases", SLOT_RELEASE, pace=pace())
        self.checked = StreamSource(dut, "checked", CHECKED_REQUEST, pace=pace())
        self.reads = StreamSink(dut, "receive_reads", READ_REQUEST, pace=pace())
        self.answers = StreamSource(dut, "receive_data", read_beat(WIDTH), pace=pace())
        self.matched = StreamSink(dut, "matched", CHECKED_REQUEST, pace=pace())
        self.latency, self.faults = latency, faults
        self.lists = Lists(CONTEXTS, PARAMETERS["receives"], UNEXPECTED, PAYLOAD, ANNOUNCING)
        self.memory = {}
        """By address, orders as the driver wrote them."""
        self.rings = [deque() for _ in range(CONTEXTS)]
        """Orders that have not been decided about."""
        self.next_tail = [0] * CONTEXTS
        self.enabled = [True] * CONTEXTS
        self.generations = [0] * CONTEXTS
        self.requests = deque()
        """Sent and not matched yet."""
        self.held = [set() for _ in range(CONTEXTS)]
        """Slots that are not free."""
        self.to_release = []
        self.claims = Counter()
        """Per context and generation, events reserved that were neither written nor released."""
        self.kinds = Counter()
        self.late = 0
        """Messages for contexts that were disabled, to receivers that were not."""
        self.cycle = 0
        dut.event_credit.value = (1 << CONTEXTS) - 1
        dut.slot_reserve.value = 0
        dut.receive_question.value = 0
        dut.message_accepted.value = 0
        self.kept = 0
        """Messages for which a receive was kept."""
        for context in range(CONTEXTS):
            getattr(dut, f"generations__{context}").value = 0
            self._configure(context)
        cocotb.start_soon(self._serve())
        cocotb.start_soon(self._watch())

    # The driver

    def _configure(self, context):
        fields = {
            "enable": int(self.enabled[context]),
            "event_base": 0x1000,
            "receive_base": self._ring_base(context),
            "receive_size": RING_BITS,
            "unexpected_base": unexpected_base(context),
            "announces": context in ANNOUNCING,
        }
        getattr(self.dut, f"contexts__{context}").value = pack(CONTEXT, fields)

    def _ring_base(self, context):
        # Every generation has its own ring, so that what is read late is not taken for something new. Not at a
        # boundary of 4 KiB: reads must stop there.
        return 0x7F00_0000_0000 + (context << 24) + (self.generations[context] << 16) + 0x480

    def post(self, context, order):
        """Write a descriptor; the doorbell is another matter."""
        self.rings[context].append(order)
        slot = self.next_tail[context] % (1 << RING_BITS)
        self.memory[self._ring_base(context) + 64 * slot] = order
        self.next_tail[context] += 1

    def ring(self, context):
        self.tails.send({"context": context, "index": self.next_tail[context]})

    async def disable(self, context, cycles):
        """As short as a cycle. Doorbells are not on their way then: a driver does one after the other."""
        await self.tails.sent()
        await self.releases.sent()
        self.enabled[context] = False
        self._configure(context)
        await RisingEdge(self.dut.clk)
        self.generations[context] = (self.generations[context] + 1) % 16
        getattr(self.dut, f"generations__{context}").value = self.generations[context]
        self.rings[context].clear()
        self.next_tail[context] = 0
        self.held[context].clear()
        self.to_release = [release for release in self.to_release if release["context"] != context]
        self.lists.forget(context)
        for _ in range(cycles - 1):
            await RisingEdge(self.dut.clk)
        self.enabled[context] = True
        self._configure(context)

    # The host's memory

    async def _serve(self):
        waiting = deque()
        while True:
            await RisingEdge(self.dut.clk)
            for read in self.reads.received:
                assert read["address"] % 4096 + read["length"] <= 4096
                waiting.append((self.cycle + self.latency(), self._answer(read)))
            self.reads.received.clear()
            while waiting and waiting[0][0] <= self.cycle:
                self.answers.send(*waiting.popleft()[1])

    def _answer(self, read):
        """The beats. If the read is refused, all orders in it have failed."""
        orders = [self.memory[read["address"] + position] for position in range(0, read["length"], 64)]
        refused = random.random() < self.faults
        for order in orders:
            order["error"] = int(refused)
        content = b"".join(RX_DESCRIPTOR.pack(**order["fields"]) for order in orders)
        size = WIDTH // 8
        parts = [content[position : position + size] for position in range(0, len(content), size)]
        beats = [{"data": int.from_bytes(part, "little"), "last": 0, "error": 0} for part in parts]
        beats[-1]["last"] = 1
        random.choice(beats)["error"] = int(refused)
        return beats

    # The target

    def send(self, request):
        """A request that has been checked."""
        self.requests.append(request)
        self.checked.send(request)
        event = request["answer"]["event"]
        # A message that passes keeps its reservation: nobody here will write its event or give it back.
        self.claims[event["context"], event["generation"]] += event["reserved"] if _is_matched(request) else 0

    async def send_message(self, context, target=None, **changes):
        """A message, if it is accepted: the space is looked at and taken in different cycles.

        ``target`` is the context that it is for; ``changes`` to it are by the name of its part.
        """
        target = context if target is None else target
        generation, target_generation = self.generations[context], self.generations[target]
        message = random_message(context, generation, target=(target, target_generation))
        for part, fields in changes.items():
            message[part] |= fields
        kind = message["message"]
        has_slot = bool(int(self.dut.slot_open.value) >> context & 1)
        kind["slot_reserved"] = int(has_slot and not kind["atomic"])
        if not (has_slot or kind["atomic"]):
            if kind["rendezvous"] or not await self._ask(message):
                return False
            kind["receive_kept"] = 1
            self.kept += 1
        await ClockCycles(self.dut.clk, random.randint(1, 3))
        claim = {"valid": kind["slot_reserved"], "context": context, "generation": generation}
        self.dut.slot_reserve.value = pack(EVENT_CLAIM, claim)
        self.dut.message_accepted.value = 1
        await RisingEdge(self.dut.clk)
        self.dut.slot_reserve.value = 0
        self.dut.message_accepted.value = 0
        self.send(message)
        return True

    async def _ask(self, message):
        """Whether a message for which there is no slot meets a receive."""
        search = search_of(message)
        question = {"valid": 1, "context": search["context"]}
        question |= {name: search["key"][name] for name in ("tagged", "tag", "source_ip", "source_context", "target")}
        self.dut.receive_question.value = pack(RECEIVE_QUESTION, question)
        while True:
            await RisingEdge(self.dut.clk)
            reply = unpack(RECEIVE_REPLY, int(self.dut.receive_reply.value))
            if reply["valid"]:
                self.dut.receive_question.value = 0
                return reply["found"]

    def refusal(self, context):
        """Changes that make a message one that did not pass its checks."""
        event = random_request(context, self.generations[context])["answer"]["event"]
        return {"executed": 0, "return_code": 0x19, "event": event}

    # What becomes of it

    async def _watch(self):
        refused, released, counted = False, None, (0, 0)
        signals = (getattr(self.dut, f"matched__{part}") for part in ("valid", "ready", "payload"))
        is_valid, is_ready, payload = map(reader, signals)
        reserve, release = reader(self.dut.event_reserve), reader(self.dut.event_release)
        counts = reader(self.dut.count_messages_matched), reader(self.dut.count_messages_unexpected)
        while True:
            await RisingEdge(self.dut.clk)
            self.cycle += 1
            valid = bool(is_valid())
            loaded = unpack(CHECKED_REQUEST, payload()) if valid and not refused else None
            self._judge(loaded, released, counted)
            refused = valid and not is_ready()
            claim = unpack(EVENT_CLAIM, release())
            released = claim if claim["valid"] else None
            counted = tuple(count() for count in counts)
            self._note_reservation(unpack(EVENT_CLAIM, reserve()))

    def _note_reservation(self, claim):
        if claim["valid"]:
            assert int(self.dut.event_credit.value) >> claim["context"] & 1, f"no room, but promised: {claim}"
            self.claims[claim["context"], claim["generation"]] += 1

    def _judge(self, loaded, released, counted):
        """The decisions of one cycle."""
        if released:
            self.claims[released["context"], released["generation"]] -= 1
        if loaded and loaded["answer"]["silent"]:
            self._judge_order(loaded["answer"]["event"], loaded)
            assert not released
        elif loaded and _is_matched(self.requests[0]):
            self._judge_message(self.requests.popleft(), loaded, bool(released), counted)
            return
        else:
            if loaded:
                assert loaded == self.requests.popleft(), "what is no message passes as it is"
            # Then it was of a descriptor that says nothing.
            if released:
                self._judge_order(released, None)
        assert counted == (0, 0)

    def _judge_order(self, where, entry):
        context, generation = where["context"], where["generation"]
        self.claims[context, generation] -= entry is not None
        if generation != self.generations[context]:
            return
        order = self.rings[context].popleft()
        order["generation"] = generation
        expected, again, used = self.lists.order(order, current=True)
        assert (entry is None) == (expected is None), f"expected {expected}, got {entry}"
        if entry is not None:
            assert_includes(entry, expected)
            self._note_event(entry)
        if again:
            order["fields"]["address"] = (order["fields"]["address"] + used) % (1 << 64)
            order["fields"]["length"] -= used
            self.rings[context].appendleft(order)

    def _judge_message(self, request, decided, released, counted):
        kind, event = request["message"], request["answer"]["event"]
        context = event["context"]
        self.claims[context, event["generation"]] -= decided["answer"]["event"]["reserved"]
        assert decided["answer"]["psn"] == request["answer"]["psn"]
        if event["generation"] != self.generations[context]:
            return
        current = decided["answer"]["return_code"] != ReturnCode.DISABLED
        # One that is for a context which has been disabled since may have been looked at before that.
        assert current or kind["target_generation"] != self.generations[event["target"]]
        self.late += not current
        if decided["answer"]["executed"] and not kind["atomic"]:
            self._note_slot(context, decided["memory"]["address"])
        expected, matched, unexpected = self.lists.message(request, current=current)
        assert_includes(decided, expected)
        assert counted == (matched, unexpected)
        assert released == (not expected["answer"]["event"]["reserved"])
        if expected["answer"]["event"]["reserved"]:
            self._note_event(decided)
        if unexpected or (matched and kind["rendezvous"]):
            assert self.lists.slot not in self.held[context], f"slot {self.lists.slot} is not free"
            self.held[context].add(self.lists.slot)

    def _note_slot(self, context, address):
        """The slot that the message lies in, if it does."""
        offset = (address - unexpected_base(context)) % (1 << 64)
        self.lists.slot = offset // PAYLOAD if offset < UNEXPECTED * PAYLOAD else None

    def _note_event(self, decided):
        event = decided["answer"]["event"]
        self.kinds[event["kind"]] += 1
        if event["flags"] & EventFlags.IN_SLOT and event["kind"] not in (EventKind.FOUND, EventKind.ARRIVED):
            self.to_release.append({"context": event["context"], "slot": event["slot"]})

    # Random programs

    def release_one(self):
        """Give a slot back; or one that does not exist, which nobody notices."""
        if random.random() < 0.1:
            nowhere = [{"context": CONTEXTS, "slot": 0}, {"context": 0, "slot": UNEXPECTED}]
            self.releases.send(random.choice(nowhere))
        elif self.to_release:
            release = self.to_release.pop(random.randrange(len(self.to_release)))
            self.held[release["context"]].remove(release["slot"])
            self.releases.send(release)

    def post_some(self, context):
        for _ in range(random.randint(1, 9)):
            if self.enabled[context] and len(self.rings[context]) < 1 << RING_BITS:
                self.post(context, random_order(context, 0))
        self.ring(context)

    async def step(self):
        await RisingEdge(self.dut.clk)
        context = random.randrange(CONTEXTS)
        if random.random() < 0.05:
            self.dut.event_credit.value = random.getrandbits(CONTEXTS) | random.getrandbits(CONTEXTS)
        if random.random() < 0.08 and self.enabled[context]:
            self.post_some(context)
        if random.random() < 0.15:
            self.release_one()
        if self.checked.left < 4 and random.random() < 0.3:
            choice = random.random()
            if choice < 0.3:
                self.send(random_request(context, self.generations[context]))
            elif choice < 0.4:
                await self.send_message(context, answer=self.refusal(context))
            else:
                await self.send_message(context, random.choice([context, random.randrange(CONTEXTS)]))

    async def settle(self):
        """Let everything come to its end, and look at the accounts."""
        self.dut.event_credit.value = (1 << CONTEXTS) - 1
        quiet = 0
        # As long as it may take to forget descriptors of earlier generations.
        while quiet < 1000:
            before = len(self.requests), sum(len(ring) for ring in self.rings), self.checked.left
            await RisingEdge(self.dut.clk)
            after = len(self.requests), sum(len(ring) for ring in self.rings), self.checked.left
            quiet = quiet + 1 if before == after else 0
        assert not self.requests
        for context in range(CONTEXTS):
            lists, ring = self.lists.lists[context], self.rings[context]
            waits = ring and ring[0]["fields"]["opcode"] == ReceiveOpcode.RECEIVE and not lists.has_space()
            assert not ring or waits, f"context {context}: {len(ring)} orders left"
            assert self.claims[context, self.generations[context]] == 0
            is_open = bool(int(self.dut.slot_open.value) >> context & 1)
            assert is_open == (len(self.held[context]) < UNEXPECTED), f"context {context}: {self.held[context]} held"


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES))
async def messages_and_receives_of_all_contexts_meet_and_all_space_comes_back(dut, pace):
    bench = Bench(dut, PACES[pace])
    await start(dut)
    for _ in range(25):
        for _ in range(400):
            await bench.step()
        await bench.settle()
        # Else receives that nobody meets would fill the lists for good.
        for context in range(CONTEXTS):
            await bench.disable(context, 2)
    assert set(bench.kinds) >= set(range(4, 14)), f"of all that can happen, only {bench.kinds} did"
    assert bench.kept > 5


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES))
async def a_context_begins_anew_when_it_is_disabled_in_mid_traffic(dut, pace):
    bench = Bench(dut, PACES[pace])
    await start(dut)
    for turn in range(60):
        for _ in range(random.randint(1, 120)):
            await bench.step()
        await bench.disable(random.randrange(CONTEXTS), random.choice([1, 1, 2, 30]))
        if turn % 10 == 9:
            await bench.settle()
    assert bench.kinds[EventKind.RECEIVED]
    assert bench.kinds[EventKind.UNEXPECTED]
    assert bench.late


def _peek(context):
    order = random_order(context, 0)
    order["fields"] |= {"opcode": ReceiveOpcode.PEEK.value, "flags": 0}
    return order


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def receive_descriptors_are_read_ahead(dut):
    bench = Bench(dut, always, latency=lambda: 250, faults=0)
    await start(dut)
    for _ in range(128):
        bench.post(0, _peek(0))
    bench.ring(0)
    begin = bench.cycle
    while bench.rings[0]:
        await RisingEdge(dut.clk)
    # The first after 250 cycles and then one every 8; not 32 reads of four, one after the other.
    assert bench.cycle - begin < 300 + 8 * 128


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_context_that_waits_holds_up_no_other(dut):
    bench = Bench(dut, always, faults=0)
    await start(dut)
    without_event_credit, full, other = 0, 1, 2
    dut.event_credit.value = 0b110
    receives = [random_order(full, 0) for _ in range(PARAMETERS["receives"] + 1)]
    for order in receives:
        order["fields"] |= {"opcode": ReceiveOpcode.RECEIVE.value, "flags": 0}
        bench.post(full, order)
    for context in (without_event_credit, other):
        for _ in range(20):
            bench.post(context, _peek(context))
    for context in range(CONTEXTS):
        bench.ring(context)
    await ClockCycles(dut.clk, 500)
    assert [len(ring) for ring in bench.rings] == [20, 1, 0]
    # A message takes the place of one receive, and the last one is posted.
    plain = {"tagged": 0, "rendezvous": 0, "atomic": 0}
    assert await bench.send_message(full, message=plain)
    dut.event_credit.value = 0b111
    await bench.settle()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def requests_that_are_no_messages_pass_in_a_cycle_each_while_descriptors_are_matched(dut):
    bench = Bench(dut, always, faults=0)
    await start(dut)
    for _ in range(20):
        bench.post(0, _peek(0))
    bench.ring(0)
    for _ in range(300):
        bench.send(random_request(1, 0))
    begin = bench.cycle
    await bench.checked.sent()
    # One cycle more for each entry of a descriptor between them.
    assert bench.cycle - begin <= 300 + 20 + 2
    await bench.settle()
