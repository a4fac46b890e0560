"""Testbench of MatchUnit against the model's lists.

Parameters: ``contexts``, ``receives``, ``unexpected``, ``payload``.

The streams show the order of transfers; each handshake is judged in its cycle.

Covers ``messages/records.py``, ``messages/message_verdict.py``, ``messages/order_verdict.py``,
``messages/kept_receives.py`` and ``messages/buffer_use.py``.
"""

import random
from collections import deque
from itertools import pairwise

import cocotb
from amoeba_hw.interfaces import CONTEXT, SLOT_RELEASE
from amoeba_hw.messages.records import RECEIVE_ORDER, RECEIVE_SEARCH
from amoeba_hw.request_records import CHECKED_REQUEST, EVENT_CLAIM
from amoeba_model.descriptors import ReceiveFlags, ReceiveOpcode
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import StreamSink, StreamSource, always, in_bursts, randomly, start
from amoeba_sim.payload import pack, unpack
from cocotb.triggers import ClockCycles, RisingEdge

from tests.hw.messages.rules import (
    Reference,
    assert_includes,
    random_message,
    random_order,
    search_of,
    unexpected_base,
)

PARAMETERS = bench_parameters()
CONTEXTS, RECEIVES, UNEXPECTED = (PARAMETERS[name] for name in ("contexts", "receives", "unexpected"))
ROW = 16
"""Receives that are looked at in one cycle."""
ANNOUNCING = {0, 2}
"""Contexts that announce messages."""
PACES = {"always": always, "randomly": lambda: randomly(0.5), "in bursts": lambda: in_bursts(12)}


class Bench:
    """Offers messages, orders and releases, as the account of credits allows, and judges what becomes of them."""

    def __init__(self, dut, pace):
        self.dut = dut
        self.messages = StreamSource(dut, "messages", CHECKED_REQUEST, pace=pace())
        self.orders = StreamSource(dut, "orders", RECEIVE_ORDER, pace=pace())
        self.releases = StreamSource(dut, "releases", SLOT_RELEASE, pace=pace())
        self.searches = StreamSource(dut, "searches", RECEIVE_SEARCH, pace=pace())
        self.decided = StreamSink(dut, "decided", CHECKED_REQUEST, pace=pace())
        self.reference = Reference(CONTEXTS, RECEIVES, UNEXPECTED, PARAMETERS["payload"], ANNOUNCING)
        self.offered = {"messages": deque(), "orders": deque(), "releases": deque(), "searches": deque()}
        """The offers of each source."""
        self.searched = {False: 0, True: 0}
        """Searches that found nothing, or a receive."""
        self.kept = None
        """The message for which a receive was found, until it is on offer."""
        self.keeping = False
        self.again = []
        """Orders that want to look again."""
        self.generations = [0] * CONTEXTS
        self.expected = []
        self.taken = []
        """(cycle, stream) of each handshake."""
        self.kinds = set()
        self.cycle = 0
        for context in range(CONTEXTS):
            getattr(dut, f"generations__{context}").value = 0
            fields = {"enable": 1, "unexpected_base": unexpected_base(context), "announces": context in ANNOUNCING}
            getattr(dut, f"contexts__{context}").value = pack(CONTEXT, fields)
        dut.keeps.value = dut.gives_up.value = 0
        cocotb.start_soon(self._watch())

    def offer(self, name, payload):
        self.offered[name].append(payload)
        getattr(self, name).send(search_of(payload) if name == "searches" else payload)

    async def done(self):
        """Wait until everything on offer has been taken, and what is kept has been met."""
        while any(self.offered.values()) or self.keeping:
            if self.kept and not self.offered["messages"]:
                self.offer("messages", self.next_message())
            await RisingEdge(self.dut.clk)

    async def do(self, name, payload):
        """Offer something alone; the cycle in which it is taken."""
        self.offer(name, payload)
        await self.done()
        return self.taken[-1][0]

    def disable(self, context):
        """Begin a new generation. Nothing may be on offer: else nobody could say whether that is matched before."""
        assert not any(self.offered.values())
        self.generations[context] = (self.generations[context] + 1) % 16
        getattr(self.dut, f"generations__{context}").value = self.generations[context]
        self.reference.forget(context)
        self.again = [order for order in self.again if order["context"] != context]

    async def _watch(self):
        while True:
            await RisingEdge(self.dut.clk)
            self.cycle += 1
            takes = [
                name
                for name in self.offered
                if getattr(self.dut, f"{name}__valid").value and getattr(self.dut, f"{name}__ready").value
            ]
            assert len(takes) <= 1, f"taken at once: {takes}"
            release, counted = None, (0, 0)
            for name in takes:
                self.taken.append((self.cycle, name))
                release, counted = getattr(self, f"_judge_{name}")(self.offered[name].popleft())
            claim = unpack(EVENT_CLAIM, int(self.dut.event_release.value))
            assert (claim if claim["valid"] else None) == release, f"expected {release}, got {claim}"
            counts = self.dut.count_messages_matched.value, self.dut.count_messages_unexpected.value
            assert tuple(int(count) for count in counts) == counted

    def _judge_messages(self, request):
        event, target_generation = request["answer"]["event"], request["message"]["target_generation"]
        current = event["generation"] == self.generations[event["context"]]
        current = current and target_generation == self.generations[event["target"]]
        decided, matched, unexpected = self.reference.message(request, current=current)
        self.expected.append(decided)
        self.dut.keeps.value = self.keeping = False
        unused = event["reserved"] and not decided["answer"]["event"]["reserved"]
        return _claim(event) if unused else None, (matched, unexpected)

    def _judge_orders(self, order):
        assert not self.keeping, "an order is taken while a receive is kept"
        current = order["generation"] == self.generations[order["context"]]
        entry, again, used = self.reference.order(order, current=current)
        assert bool(self.dut.again.value) == again or not current
        if again:
            assert int(self.dut.used.value) == used
            order["fields"]["address"] = (order["fields"]["address"] + used) % (1 << 64)
            order["fields"]["length"] -= used
            self.again.append(order)
        if entry is not None:
            self.expected.append(entry)
        return _claim(order) if entry is None else None, (0, 0)

    def _judge_releases(self, release):
        self.reference.lists[release["context"]].release_slot(release["slot"])
        return None, (0, 0)

    def _judge_searches(self, request):
        found = self.reference.finds(request)
        assert bool(self.dut.found.value) == found
        self.searched[found] += 1
        if found:
            self.dut.keeps.value = self.keeping = True
            self.kept = request
        return None, (0, 0)

    def check(self):
        """Everything decided so far is what it has to be."""
        assert len(self.decided.received) == len(self.expected)
        for decided, expected in zip(self.decided.received, self.expected, strict=True):
            assert_includes(decided, expected)
            self.kinds.add((decided["answer"]["event"]["kind"], decided["answer"]["return_code"]))
        self.decided.received.clear()
        self.expected.clear()

    def check_credits(self):
        for context, lists in enumerate(self.reference.lists):
            assert int(getattr(self.dut, f"slots_free__{context}").value) == lists.free_slots
            assert (int(self.dut.receive_open.value) >> context & 1) == lists.has_space()

    # Random steps

    def next_search(self):
        """About a message that comes next if something is found; none on the way before it may be."""
        request = self.next_message()
        request["message"] |= {"rendezvous": 0, "atomic": 0, "slot_reserved": 0, "receive_kept": 1}
        request["answer"]["event"] |= {"generation": self.generations[request["answer"]["event"]["context"]]}
        request["answer"]["event"] |= {"reserved": 1}
        request["message"]["target_generation"] = self.generations[request["answer"]["event"]["target"]]
        return request

    def next_message(self):
        if self.kept:
            request, self.kept = self.kept, None
            return request
        context = random.randrange(CONTEXTS)
        generation = self.generations[context]
        has_slot = self.reference.lists[context].free_slots > 0
        if random.random() < 0.05:
            return random_message(context, (generation - 1) % 16)
        target = random.randrange(CONTEXTS)
        late = random.random() < 0.05
        target = (target, (self.generations[target] - late) % 16)
        return random_message(context, generation, target=target, reserved=has_slot and random.random() < 0.95)

    def next_order(self):
        if self.again:
            return self.again.pop()
        context = random.randrange(CONTEXTS)
        generation = self.generations[context] - (random.random() < 0.05)
        order = random_order(context, generation % 16)
        if not self.reference.lists[context].has_space():
            order["fields"]["opcode"] = ReceiveOpcode.CANCEL.value
        return order

    def next_release(self):
        return {"context": random.randrange(CONTEXTS), "slot": random.randrange(UNEXPECTED)}


def _claim(where):
    return {"valid": 1, "context": where["context"], "generation": where["generation"]}


async def random_program(bench, steps):
    """Offer everything at once; from time to time wait until all is quiet, and begin a generation."""
    makers = {"messages": bench.next_message, "orders": bench.next_order, "releases": bench.next_release}
    makers["searches"] = bench.next_search
    for _ in range(steps):
        await RisingEdge(bench.dut.clk)
        for name, maker in makers.items():
            alone = name in ("messages", "searches")
            taken = any(bench.offered[other] for other in ("messages", "searches")) if alone else bench.offered[name]
            if not taken and random.random() < (0.3 if name == "searches" else 0.7):
                if name == "searches" and bench.kept:
                    continue
                bench.offer(name, maker())
        if random.random() < 0.01:
            await bench.done()
            await ClockCycles(bench.dut.clk, 30)
            bench.check()
            bench.check_credits()
            if random.random() < 0.5:
                bench.disable(random.randrange(CONTEXTS))
    await bench.done()
    await ClockCycles(bench.dut.clk, 30)
    bench.check()
    bench.check_credits()


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES))
async def messages_meet_the_receives_that_the_lists_say(dut, pace):
    bench = Bench(dut, PACES[pace])
    await start(dut)
    await random_program(bench, 20_000)
    kinds = {kind for kind, _ in bench.kinds}
    assert kinds >= set(range(4, 14)), f"of all that can happen, only {kinds} did"
    assert {code for _, code in bench.kinds} == {1, 3, 5, 0x1D}
    assert min(bench.searched.values()) > 5, bench.searched


def _tagged(tag, context=0, **fields):
    order = random_order(context, 0) | {"error": 0}
    order["fields"] |= {"opcode": ReceiveOpcode.RECEIVE.value, "flags": ReceiveFlags.TAGGED.value}
    order["fields"] |= {"tag": tag, "ignore": 0, "length": 64} | fields
    return order


def _plain(tag, context=0):
    message = random_message(context, 0)
    message["message"] |= {"tagged": 1, "rendezvous": 0, "atomic": 0, "slot_reserved": 1}
    message["answer"]["request_length"] = 8
    message["answer"]["event"] |= {"tag": tag, "flags": 8}
    return message


async def cycles(bench, name, payloads):
    """Cycles from one handshake to the next, each offered in the cycle after the one before."""
    first = len(bench.taken)
    for payload in payloads:
        bench.offer(name, payload)
        await bench.done()
    taken = [cycle for cycle, _ in bench.taken[first:]]
    # One of them is lost between the handshake and the next one's offer.
    return [later - earlier - 1 for earlier, later in pairwise(taken)]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_message_costs_7_cycles_and_one_for_each_further_row_of_receives(dut):
    bench = Bench(dut, always)
    await start(dut)
    await cycles(bench, "orders", [_tagged(tag) for tag in range(RECEIVES)])
    # The last one first: all others are looked at.
    spent = await cycles(bench, "messages", [_plain(99), *(_plain(tag) for tag in reversed(range(RECEIVES)))])
    assert spent == [7 + position // ROW for position in reversed(range(RECEIVES))]
    bench.check()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_tagged_atomic_that_meets_no_receive_costs_4_cycles_and_one_for_each_row(dut):
    bench = Bench(dut, always)
    await start(dut)
    await cycles(bench, "orders", [_tagged(tag) for tag in range(RECEIVES)])
    atomics = [_plain(99) for _ in range(3)]
    for atomic in atomics:
        atomic["message"]["atomic"] = 1
    assert set(await cycles(bench, "messages", atomics)) == {4 + -(-RECEIVES // ROW)}
    bench.check()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def what_finds_an_empty_list_costs_6_cycles(dut):
    bench = Bench(dut, always)
    await start(dut)
    assert set(await cycles(bench, "orders", [_tagged(tag) for tag in range(RECEIVES)])) == {6}
    assert set(await cycles(bench, "messages", [_plain(1, context=1) for _ in range(UNEXPECTED)])) == {6}
    refused = [_tagged(1) | {"error": 1} for _ in range(4)]
    assert set(await cycles(bench, "orders", refused)) == {3}
    assert set(await cycles(bench, "releases", [{"context": 1, "slot": 0}] * 4)) == {3}
    bench.check()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def messages_and_orders_alternate(dut):
    bench = Bench(dut, always)
    await start(dut)
    for _ in range(20):
        bench.offer("messages", random_message(0, 0, reserved=False))
        bench.offer("orders", _tagged(7) | {"error": 1})
    await bench.done()
    names = [name for _, name in bench.taken]
    assert len(names) == 40
    assert all(earlier != later for earlier, later in pairwise(names)), names
    bench.check()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def disabling_a_context_empties_its_lists_and_no_other(dut):
    bench = Bench(dut, always)
    await start(dut)
    for context in range(2):
        await bench.do("orders", _tagged(1, context))
        await bench.do("messages", _plain(2, context))
    bench.disable(0)
    late = [("orders", _tagged(2)), ("messages", _plain(1))]
    new = [("orders", _tagged(2)), ("messages", _plain(1))]
    for _, payload in new:
        (payload["answer"]["event"] if "answer" in payload else payload)["generation"] = 1
    new[1][1]["message"]["target_generation"] = 1
    other = [("orders", _tagged(2, 1)), ("messages", _plain(1, 1))]
    for name, payload in late + new + other:
        await bench.do(name, payload)
    await ClockCycles(dut.clk, 4)
    codes = [decided["answer"]["return_code"] for decided in bench.decided.received[2:]]
    kinds = [decided["answer"]["event"]["kind"] for decided in bench.decided.received[-2:]]
    # The late message is DISABLED, the new one waits; those of the other context meet.
    assert (codes, kinds) == ([3, 1, 1, 1], [5, 4])
    bench.check()
    bench.check_credits()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def disabling_a_context_refuses_its_messages_on_their_way_to_another_s_list_and_no_others(dut):
    bench = Bench(dut, always)
    await start(dut)
    before = random_message(0, 0, target=(1, 0)) | {"message": _plain(1)["message"]}
    await bench.do("messages", before)
    bench.disable(1)
    for target in ((1, 0), (1, 1), (2, 0)):
        message = _plain(5)
        message["answer"]["event"]["target"], message["message"]["target_generation"] = target
        await bench.do("messages", message)
    anything_for_it = _tagged(0, opcode=ReceiveOpcode.TAKE.value, ignore=(1 << 64) - 1, target_context=1)
    anything_for_it["fields"]["flags"] |= ReceiveFlags.ADDRESSED.value
    for _ in range(3):
        await bench.do("orders", anything_for_it | {"fields": dict(anything_for_it["fields"])})
    await ClockCycles(dut.clk, 4)
    answers = [decided["answer"] for decided in bench.decided.received]
    assert [answer["return_code"] for answer in answers[:4]] == [1, 3, 1, 1]
    # What waits is taken out by name; the message for context 2 is left.
    events = [answer["event"] for answer in answers[4:]]
    assert [(event["kind"], event["target"]) for event in events] == [(10, 1), (10, 1), (8, 0)]
    bench.check()
    bench.check_credits()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_search_costs_2_cycles_and_one_for_each_row_and_what_it_finds_is_still_there_for_its_message(dut):
    bench = Bench(dut, always)
    await start(dut)
    await cycles(bench, "orders", [_tagged(tag) for tag in range(RECEIVES)])
    wanted = _plain(RECEIVES - 1)
    wanted["message"] |= {"slot_reserved": 0, "receive_kept": 1}
    # Those that find nothing look at all receives.
    assert set(await cycles(bench, "searches", [_plain(99) for _ in range(4)])) == {2 + -(-RECEIVES // ROW)}
    bench.offer("searches", wanted)
    while bench.offered["searches"]:
        await RisingEdge(dut.clk)
    # It would take the receive away, if it were its turn.
    cancel = _tagged(0, opcode=ReceiveOpcode.CANCEL.value)
    cancel["fields"]["context"] = 7
    bench.offer("orders", cancel)
    await ClockCycles(dut.clk, 50)
    assert len(bench.offered["orders"]) == 1
    await bench.done()
    assert [name for _, name in bench.taken[-3:]] == ["searches", "messages", "orders"]
    assert bench.reference.lists[0].posted == RECEIVES - 1
    bench.check()
