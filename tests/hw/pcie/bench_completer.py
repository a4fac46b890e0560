"""Testbench of Completer against what PCI Express and the NIC's rules say of each request, written down anew here."""

import random

import cocotb
from amoeba_hw.host.axi_lite import register_access
from amoeba_hw.host.register_bank import ADDRESS_WIDTH
from amoeba_hw.pcie.completer import COMPLETIONS, TABLE_ADDRESS_WIDTH
from amoeba_hw.pcie.interfaces import REGISTER_COMPLETION, REGISTER_REQUEST
from amoeba_model.pci import REFUSED_OFFSET
from amoeba_model.registers import BAR_SIZE
from amoeba_model.tlp import CompletionStatus, RegisterRequestKind
from amoeba_sim.cocotb_streams import (
    StreamMonitor,
    StreamSink,
    StreamSource,
    always,
    in_bursts,
    randomly,
    start,
)
from cocotb.triggers import ClockCycles, RisingEdge

READ, WRITE = RegisterRequestKind.MEMORY_READ, RegisterRequestKind.MEMORY_WRITE
PACES = {"always": always, "randomly": lambda: randomly(0.5), "in bursts": lambda: in_bursts(9)}
SIZES = {0: BAR_SIZE, 2: 4096}


def request(kind, address=0, data=0, *, bar=0, dwords=1, first_be=15, last_be=None, poisoned=0):
    """A request with labels of its own."""
    return {
        "kind": kind,
        "bar": bar,
        "address": address,
        "data": data,
        "dwords": dwords,
        "first_be": first_be,
        "last_be": (0 if dwords == 1 else 15) if last_be is None else last_be,
        "poisoned": poisoned,
        "traffic_class": random.getrandbits(3),
        "attributes": random.getrandbits(3),
        "requester_id": random.getrandbits(16),
        "tag": random.getrandbits(10),
        "reserved0": 0,
        "reserved1": 0,
    }


class Bench:
    """Sends requests; plays registers of BAR 0 and BAR 2; knows what is to come of it."""

    def __init__(self, dut, *, pace=always, access_pace=always, completion_pace=always):
        self.dut = dut
        self.requests = StreamSource(dut, "requests", REGISTER_REQUEST, pace=pace())
        self.completions = StreamSink(dut, "completions", REGISTER_COMPLETION, pace=completion_pace())
        self.performed = []
        """(bar, address, written value or None), in order."""
        self.expected_accesses = []
        self.expected_completions = []
        self.refused = 0
        self.memory = {}
        self._shadow = {}
        for bar, prefix, width in ((0, "", ADDRESS_WIDTH), (2, "table_", TABLE_ADDRESS_WIDTH)):
            answers = StreamSource(dut, f"{prefix}read_data", 32, pace=access_pace())
            accesses = StreamSink(dut, f"{prefix}accesses", register_access(width), pace=access_pace())
            cocotb.start_soon(self._perform(bar, accesses, answers))

    async def _perform(self, bar, accesses, answers):
        while True:
            (access,) = await accesses.receive(1)
            place = bar, access["address"]
            self.performed.append((*place, access["data"] if access["write"] else None))
            if access["write"]:
                self.memory[place] = access["data"]
            else:
                answers.send(self.memory.get(place, 0))

    def send(self, asked):
        self.requests.send(asked)
        self._expect(asked)

    def _expect(self, asked):
        kind, bar, address, dwords = (asked[name] for name in ("kind", "bar", "address", "dwords"))
        enables = asked["first_be"], asked["last_be"]
        inside = bar in SIZES and address + 4 * dwords <= SIZES[bar]
        whole = inside and (dwords, *enables) in ((1, 15, 0), (2, 15, 15))
        places = [(bar, address + 4 * index) for index in range(dwords)] if whole else []
        own = [place for place in places if bar == 2 and place[1] >= REFUSED_OFFSET]
        if kind == WRITE:
            if whole and not asked["poisoned"]:
                for index, place in enumerate(places):
                    word = asked["data"] >> 32 * index & 0xFFFF_FFFF
                    if place not in own:
                        self.expected_accesses.append((*place, word))
                        self._shadow[place] = word
            elif not (inside and (dwords, *enables) == (1, 0, 0)):
                self.refused += 1
        elif kind == READ:
            empty = inside and (dwords, *enables) == (1, 0, 0)
            words = []
            for place in places:
                if place in own:
                    words.append(self.refused if place[1] == REFUSED_OFFSET else 0)
                else:
                    words.append(self._shadow.get(place, 0))
                    self.expected_accesses.append((*place, None))
            if whole or empty:
                words = words or [0]
                size = 4 * dwords if whole else 1
                self._complete(asked, CompletionStatus.SC, words, address & 0x7F, size)
            else:
                self._complete(asked, CompletionStatus.UR, [], 0, 4)
        elif kind == RegisterRequestKind.OTHER_NON_POSTED:
            self._complete(asked, CompletionStatus.UR, [], 0, 4)

    def _complete(self, asked, status, words, lower_address, byte_count):
        self.expected_completions.append(
            {
                "data": sum(word << 32 * index for index, word in enumerate(words)),
                "status": status,
                "dwords": len(words),
                "lower_address": lower_address,
                "byte_count": byte_count,
                "reserved0": 0,
                **{name: asked[name] for name in ("traffic_class", "attributes", "requester_id", "tag")},
            }
        )

    async def check(self):
        await self.requests.sent()
        done = await self.completions.receive(len(self.expected_completions))
        await ClockCycles(self.dut.clk, 50)
        assert done == self.expected_completions
        assert self.completions.received == []
        assert self.performed == self.expected_accesses


def anything():
    """Requests as hosts make them, and as they should not."""
    bar = random.choice((0, 0, 2, random.randrange(8)))
    size = SIZES.get(bar, 64)
    address = random.choice((0, 8, 64, size - 4, size - 8, size, random.randrange(size) & ~3, REFUSED_OFFSET))
    if random.random() < 0.05:
        address += random.choice((1 << 32, 1 << 63, (1 << 64) - 4 - address))
    dwords = random.choice((1, 1, 1, 2, 2, random.randint(3, 1024)))
    asked = request(
        random.choice((READ, READ, WRITE, WRITE, random.choice(list(RegisterRequestKind)))),
        address,
        random.getrandbits(64),
        bar=bar,
        dwords=dwords,
    )
    fate = random.random()
    if fate < 0.1:
        asked["first_be"] = random.randrange(16)
    elif fate < 0.2:
        asked["last_be"] = random.randrange(16)
    elif fate < 0.25:
        asked |= {"dwords": 1, "first_be": 0, "last_be": 0}
    elif fate < 0.3:
        asked["poisoned"] = 1
    return asked


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(
    pace=["always", "in bursts"], access_pace=["always", "randomly"], completion_pace=["always", "in bursts"]
)
async def every_request_has_its_accesses_and_its_answer(dut, pace, access_pace, completion_pace):
    bench = Bench(dut, pace=PACES[pace], access_pace=PACES[access_pace], completion_pace=PACES[completion_pace])
    await start(dut)
    for _ in range(400):
        bench.send(anything())
    bench.send(request(READ, REFUSED_OFFSET, bar=2))
    await bench.check()
    assert bench.refused > 20


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def writes_go_on_while_the_link_takes_no_completion(dut):
    bench = Bench(dut, completion_pace=lambda: randomly(0))
    await start(dut)
    for number in range(COMPLETIONS):
        bench.send(request(READ, 8 * number))
        bench.send(request(WRITE, 8 * number, number, dwords=2))
    for number in range(200):
        bench.send(request(WRITE, 4 * number, number))
    await bench.requests.sent()
    await ClockCycles(dut.clk, 10)
    assert bench.performed == bench.expected_accesses
    assert bench.completions.received == []


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_write_takes_two_cycles_and_a_read_four(dut):
    bench = Bench(dut)
    taken = StreamMonitor(dut, "requests", REGISTER_REQUEST)
    await start(dut)

    async def cycles(asked):
        bench.send(asked)
        begun = 0
        while not taken.received:
            await RisingEdge(dut.clk)
            begun += bool(dut.requests__valid.value)
        taken.received.clear()
        return begun

    assert await cycles(request(WRITE, 0)) <= 3
    assert await cycles(request(WRITE, 0, dwords=2)) <= 4
    # the registers of this bench take a cycle more than the NIC's to answer
    assert await cycles(request(READ, 0)) <= 7
    await bench.check()
