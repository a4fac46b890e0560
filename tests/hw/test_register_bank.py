"""The BAR behind AXI4-Lite, checked from the model's declarations alone."""

import random

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.sim import Simulator
from amoeba_hw.host.axi_lite import AxiLite
from amoeba_hw.host.register_bank import ADDRESS_WIDTH, RegisterBank
from amoeba_model.layout import Access
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import Counter, bar_blocks

PARAMETERS = NicParameters(contexts=2)


class Bar(wiring.Component):
    def __init__(self):
        super().__init__({})
        self.adapter = AxiLite(ADDRESS_WIDTH)
        self.bank = RegisterBank(PARAMETERS)

    def elaborate(self, platform):
        m = Module()
        m.submodules.adapter = self.adapter
        m.submodules.bank = self.bank
        wiring.connect(m, self.adapter.accesses, self.bank.accesses)
        wiring.connect(m, self.bank.read_data, self.adapter.read_data)
        return m


async def write(ctx, bar, address, value, strobe=0b1111):
    bus = bar.adapter.bus
    for name, field in (("awaddr", address), ("wdata", value), ("wstrb", strobe), ("awvalid", 1), ("wvalid", 1)):
        ctx.set(getattr(bus, name), field)
    await ctx.tick().until(bus.awready & bus.wready)
    ctx.set(bus.awvalid, 0)
    ctx.set(bus.wvalid, 0)
    ctx.set(bus.bready, 1)
    (response,) = await ctx.tick().sample(bus.bresp).until(bus.bvalid)
    ctx.set(bus.bready, 0)
    return response


async def read(ctx, bar, address):
    bus = bar.adapter.bus
    ctx.set(bus.araddr, address)
    ctx.set(bus.arvalid, 1)
    await ctx.tick().until(bus.arready)
    ctx.set(bus.arvalid, 0)
    ctx.set(bus.rready, 1)
    (value,) = await ctx.tick().sample(bus.rdata).until(bus.rvalid)
    ctx.set(bus.rready, 0)
    return value


def simulate(bar, process):
    sim = Simulator(bar)
    sim.add_clock(1e-8)
    sim.add_testbench(process)
    sim.run()


def address_of(block, register, index=0):
    return next(p for p in bar_blocks(PARAMETERS) if p.block.name == block).address(register, index)


def test_blocks_form_a_list_that_describes_itself():
    bar, seen = Bar(), []

    async def process(ctx):
        offset, kinds = 0, []
        while True:
            kind, version, length, following = [await read(ctx, bar, offset + 4 * i) for i in range(4)]
            kinds.append((offset, kind, version, length))
            if not following:
                break
            offset = following
        seen.extend(kinds)

    simulate(bar, process)
    assert seen == [(p.offset, p.block.kind, p.block.version, p.block.length) for p in bar_blocks(PARAMETERS)]
    assert seen[0][1] == 0x414D0001


@pytest.mark.parametrize("seed", [1])
def test_every_writable_register_keeps_its_own_value_and_no_other(seed):
    bar, rng, wrong = Bar(), random.Random(seed), []
    addresses = [
        placed.address(register.name, index)
        for placed in bar_blocks(PARAMETERS)
        for register in placed.block.registers
        if register.access is Access.RW
        for index in range(register.count)
    ]
    values = {address: rng.getrandbits(32) for address in addresses}

    async def process(ctx):
        for address in addresses:
            if await read(ctx, bar, address):
                wrong.append(("reset", address))
        for address in rng.sample(addresses, len(addresses)):
            await write(ctx, bar, address, values[address])
        for address in addresses:
            if (got := await read(ctx, bar, address)) != values[address]:
                wrong.append((hex(address), got))

    simulate(bar, process)
    assert wrong == []
    assert len(addresses) > 30


def test_capabilities_and_holes():
    bar, got = Bar(), {}

    async def process(ctx):
        got["abi"] = await read(ctx, bar, address_of("device", "abi_version"))
        got["width"] = await read(ctx, bar, address_of("device", "data_width"))
        got["base SUM"] = await read(ctx, bar, address_of("atomics", "base", 2))
        got["fetch READ"] = await read(ctx, bar, address_of("atomics", "fetch", 10))
        got["base READ"] = await read(ctx, bar, address_of("atomics", "base", 10))
        got["compare MSWAP"] = await read(ctx, bar, address_of("atomics", "compare", 18))
        await write(ctx, bar, 0xF0, 0xFFFFFFFF)
        got["hole"] = await read(ctx, bar, 0xF0)
        got["beyond"] = await read(ctx, bar, 0x3FFFC)

    simulate(bar, process)
    integers = 0xFF | 1 << 14 | 1 << 15
    assert got == {
        "abi": 1,
        "width": 256,
        "base SUM": 0xFFFFF,
        "fetch READ": 0xFFFFF,
        "base READ": 0,
        "compare MSWAP": integers,
        "hole": 0,
        "beyond": 0,
    }


def test_partial_write_is_refused_and_changes_nothing():
    bar, got = Bar(), []

    async def process(ctx):
        ip = address_of("device", "ip")
        got.append(await write(ctx, bar, ip, 0x0A000001))
        got.append(await write(ctx, bar, ip, 0xFFFFFFFF, strobe=0b0111))
        got.append(await read(ctx, bar, ip))

    simulate(bar, process)
    assert got == [0, 2, 0x0A000001]


def test_doorbells_and_stores_become_events_in_order():
    bar, events = Bar(), []

    async def process(ctx):
        await write(ctx, bar, 0x2_1000, 7)
        await write(ctx, bar, 0x2_0000, 0x1_0009)
        await write(ctx, bar, 0x2_1004, 3)
        await write(ctx, bar, 0x2_2000, 5)  # there is no third context
        for name, value in (("key_low", 0x11), ("key_high", 0x22), ("base_high", 0x33), ("domain", 5), ("flags", 7)):
            await write(ctx, bar, address_of("keys", name), value)
        await write(ctx, bar, address_of("keys", "store"), 9)
        for name, value in (("mac_low", 0xAABBCCDD), ("mac_high", 0x0200), ("ip", 0x0A000002), ("flags", 1)):
            await write(ctx, bar, address_of("peers", name), value)
        await write(ctx, bar, address_of("peers", "initial_psn"), 0xFFFF_FFF0)
        await write(ctx, bar, address_of("peers", "store"), 4)
        bank = bar.bank
        for name in ("transmit_tails", "completion_heads", "arms", "key_stores", "peer_stores"):
            output = getattr(bank, name)
            ctx.set(output.ready, 1)
            while ctx.get(output.valid):
                events.append((name, ctx.get(output.payload)))
                await ctx.tick()
            ctx.set(output.ready, 0)

    simulate(bar, process)
    assert [name for name, _ in events] == ["transmit_tails"] * 2 + ["completion_heads", "key_stores", "peer_stores"]
    assert [(e.context, e.index) for _, e in events[:3]] == [(1, 7), (0, 9), (1, 3)]
    key = events[3][1]
    assert (key.slot, key.entry.key, key.entry.base, key.entry.domain, key.entry.flags) == (
        9,
        0x22_0000_0011,
        0x33_0000_0000,
        5,
        7,
    )
    peer = events[4][1]
    assert (peer.index, peer.peer.mac, peer.peer.ip, peer.peer.valid) == (4, 0x0200AABBCCDD, 0x0A000002, 1)
    assert peer.peer.initial_psn == 0xFFFF_FFF0


def test_counters_count_their_own_pulses():
    bar, got = Bar(), []

    async def process(ctx):
        for counter in Counter:
            for _ in range(counter + 1):
                ctx.set(bar.bank.counts, 1 << counter)
                await ctx.tick()
        ctx.set(bar.bank.counts, 0)
        for counter in Counter:
            got.append(await read(ctx, bar, address_of("counters", "value", counter)))

    simulate(bar, process)
    assert got == [counter + 1 for counter in Counter]


def test_full_event_queue_holds_the_write_and_loses_nothing():
    bar, got = Bar(), []

    async def process(ctx):
        for index in range(60):
            await write(ctx, bar, 0x2_0000, index)
        for _ in range(30):
            await ctx.tick()

    async def collect(ctx):
        for _ in range(500):  # long enough for the queue to fill up
            await ctx.tick()
        assert not ctx.get(bar.bank.accesses.ready)
        ctx.set(bar.bank.transmit_tails.ready, 1)
        while True:
            _, _, valid, ready, event = await ctx.tick().sample(
                bar.bank.transmit_tails.valid, bar.bank.transmit_tails.ready, bar.bank.transmit_tails.payload
            )
            if valid and ready:
                got.append(event.index)

    sim = Simulator(bar)
    sim.add_clock(1e-8)
    sim.add_testbench(process)
    sim.add_testbench(collect, background=True)
    sim.run()
    assert got == list(range(60))
