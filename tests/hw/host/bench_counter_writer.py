"""Testbench of CounterWriter against plain counting. Parameters: ``data_width``, ``counters``."""

import random

import cocotb
from amoeba_hw.interfaces import COUNT_ORDER, COUNTER_ADMISSION, write_beat
from amoeba_model.descriptors import EVENT_COUNTER
from amoeba_model.trace import NO_CONTEXT
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import (
    StreamMonitor,
    StreamSink,
    StreamSource,
    always,
    in_bursts,
    randomly,
    reset,
    start,
)
from cocotb.triggers import ClockCycles, RisingEdge
from cocotb.utils import get_sim_time

WIDTH, COUNTERS = bench_parameters()["data_width"], bench_parameters()["counters"]
BASE = 0x1_0000_3000
SIZE = EVENT_COUNTER.size
PACES = {"always": always, "randomly": lambda: randomly(0.5), "in bursts": lambda: in_bursts(9)}
SELDOM = lambda: randomly(0.02)  # noqa: E731
MAX_SPACING = 3


class Bench:
    """Gives orders, keeps what is written, and counts by itself."""

    def __init__(self, dut, *, pace=always, write_pace=always, base=BASE):
        self.dut = dut
        dut.counter_base.value = base
        self.orders = [StreamSource(dut, f"orders__{index}", COUNT_ORDER, pace=pace()) for index in range(2)]
        self.clears = StreamSource(dut, "clears", 8)
        self.admissions = StreamSource(dut, "admissions", COUNTER_ADMISSION)
        self.writes = StreamSink(dut, "writes", write_beat(WIDTH), pace=write_pace())
        self.given = {}
        """The sums of the orders so far: successes and errors by number."""

    def order(self, index, counter, error, context=NO_CONTEXT, *, counts=True):
        self.orders[index].send({"counter": counter, "error": error, "context": context})
        if counts and 0 < counter < COUNTERS:
            self.given.setdefault(counter, [0, 0])[error] += 1

    async def quiet(self):
        """Wait until everything is counted and written."""
        for source in self.orders:
            await source.sent()
        before = -1
        while before != (before := len(self.writes.received)):
            await ClockCycles(self.dut.clk, 500)

    def entries(self):
        """(number, successes, errors) of each write so far, and forget them."""
        taken, self.writes.received = self.writes.received, []
        for beat in taken:
            assert (beat["first"], beat["last"], beat["beats"], beat["context"]) == (1, 1, 1, NO_CONTEXT)
            assert beat["address"] % (WIDTH // 8) == 0
            offset = (beat["strobe"] & -beat["strobe"]).bit_length() - 1
            assert beat["strobe"] == 0xFFFF << offset
            number, rest = divmod(beat["address"] + offset - BASE, SIZE)
            assert rest == 0
            entry = EVENT_COUNTER.unpack((beat["data"] >> 8 * offset & (1 << 128) - 1).to_bytes(SIZE, "little"))
            yield number, entry["success"], entry["error"]


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES), write_pace=[*PACES, "seldom"])
async def every_advance_reaches_the_host(dut, pace, write_pace):
    bench = Bench(dut, pace=PACES[pace], write_pace={**PACES, "seldom": SELDOM}[write_pace])
    await start(dut)
    few = random.sample(range(1, COUNTERS), min(3, COUNTERS - 1))
    for _ in range(1500):
        counter = random.choice((random.randrange(256), random.randrange(COUNTERS), *few))
        bench.order(random.getrandbits(1), counter, random.getrandbits(1))
    await bench.quiet()
    shown = {}
    for number, successes, errors in bench.entries():
        # Never fewer than were shown before, and each write says something new.
        before = shown.get(number, (0, 0))
        assert before != (successes, errors)
        assert before[0] <= successes
        assert before[1] <= errors
        shown[number] = (successes, errors)
    assert shown == {number: tuple(counts) for number, counts in bench.given.items()}


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_write_says_what_was_ordered_before_it_and_no_more(dut):
    bench = Bench(dut, pace=PACES["randomly"], write_pace=PACES["in bursts"])
    monitors = [StreamMonitor(dut, f"orders__{index}", COUNT_ORDER) for index in range(2)]
    await start(dut)
    for _ in range(800):
        bench.order(random.getrandbits(1), 1, 0)
    written = 0
    while any(source.left for source in bench.orders):
        ordered = sum(len(monitor.received) for monitor in monitors)
        await ClockCycles(dut.clk, 1)
        for _, successes, errors in bench.entries():
            assert errors == 0
            assert successes <= ordered
            written += 1
    assert written > 10


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def an_order_is_taken_every_cycle_and_on_offer_four_later(dut):
    bench = Bench(dut)
    await start(dut)
    for _ in range(200):
        bench.order(0, 1, 0)
        bench.order(1, random.randrange(1, COUNTERS), 1)
    begin = get_sim_time("ns")
    for source in bench.orders:
        await source.sent()
    assert (get_sim_time("ns") - begin) // 4 <= 400 + 4
    await bench.quiet()
    list(bench.entries())
    bench.order(0, 1, 0)
    while not (dut.orders__0__valid.value and dut.orders__0__ready.value):
        await RisingEdge(dut.clk)
    begin = get_sim_time("ns")
    while not dut.writes__valid.value:
        await RisingEdge(dut.clk)
    assert (get_sim_time("ns") - begin) // 4 == 4
    await bench.quiet()
    list(bench.entries())
    # All at once, as fast as the host takes them.
    for counter in range(1, COUNTERS):
        bench.order(0, counter, 0)
    begin = get_sim_time("ns")
    while len(bench.writes.received) < COUNTERS - 1:
        await ClockCycles(dut.clk, 1)
    assert (get_sim_time("ns") - begin) // 4 <= MAX_SPACING * COUNTERS + 10


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def only_contexts_that_are_let_in_count_and_registers_always(dut):
    """Each counter lets in nobody in particular, then some, then all again, when it has been cleared."""
    bench = Bench(dut, pace=PACES["randomly"], write_pace=PACES["randomly"])
    await start(dut)
    admitted = {}
    for _ in range(12):
        for _ in range(60):
            counter, context = random.randrange(COUNTERS), random.choice((*range(32), NO_CONTEXT))
            counts = context == NO_CONTEXT or admitted.get(counter, -1) >> context & 1
            bench.order(random.getrandbits(1), counter, random.getrandbits(1), context, counts=counts)
        await bench.quiet()
        shown = {number: (successes, errors) for number, successes, errors in bench.entries()}
        assert shown == {number: tuple(bench.given[number]) for number in shown}
        counter, contexts = random.randrange(256), random.getrandbits(32)
        if random.random() < 0.3:
            counter = random.randrange(COUNTERS)
            bench.clears.send(counter)
            await bench.clears.sent()
            admitted.pop(counter, None)
            bench.given.pop(counter, None)
        else:
            bench.admissions.send({"counter": counter, "contexts": contexts})
            await bench.admissions.sent()
            if counter < COUNTERS:
                admitted[counter] = contexts


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_cleared_counter_begins_again_and_clearing_writes_nothing(dut):
    bench = Bench(dut)
    await start(dut)
    for _ in range(5):
        bench.order(0, 1, 0)
        bench.order(1, COUNTERS - 1, 1)
    await bench.quiet()
    list(bench.entries())
    # One more than there are, too.
    bench.clears.send(1, COUNTERS & 0xFF)
    await ClockCycles(dut.clk, 50)
    assert list(bench.entries()) == []
    bench.order(0, 1, 1)
    await bench.quiet()
    assert list(bench.entries()) == [(1, 0, 1)]
    bench.order(0, COUNTERS - 1, 0)
    await bench.quiet()
    assert list(bench.entries()) == [(COUNTERS - 1, 1, 5)]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def what_was_cleared_before_its_turn_is_not_written(dut):
    bench = Bench(dut, write_pace=lambda: iter(lambda: False, True))
    await start(dut)
    for counter in range(1, COUNTERS):
        bench.order(0, counter, 0)
    await bench.orders[0].sent()
    await ClockCycles(dut.clk, 10)
    # The first one is on offer.
    bench.clears.send(*range(COUNTERS))
    await bench.clears.sent()
    bench.writes._pace = always()
    await bench.quiet()
    assert list(bench.entries()) == [(1, 1, 0)]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def without_a_place_in_host_memory_nothing_is_written_but_counted(dut):
    bench = Bench(dut, base=0)
    await start(dut)
    for _ in range(20):
        bench.order(0, 1, 0)
    await bench.quiet()
    assert bench.writes.received == []
    dut.counter_base.value = BASE
    bench.order(0, 1, 1)
    await bench.quiet()
    assert list(bench.entries()) == [(1, 20, 1)]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def after_a_reset_in_mid_traffic_all_counters_are_zero(dut):
    bench = Bench(dut, pace=PACES["randomly"], write_pace=PACES["in bursts"])
    await start(dut)
    for _ in range(10):
        for _ in range(100):
            bench.order(random.getrandbits(1), random.randrange(COUNTERS), random.getrandbits(1))
        await ClockCycles(dut.clk, random.randint(1, 150))
        await reset(dut)
        bench.writes.received.clear()
    for counter in range(1, COUNTERS):
        bench.order(0, counter, 0)
    await bench.quiet()
    assert sorted(bench.entries()) == [(counter, 1, 0) for counter in range(1, COUNTERS)]
