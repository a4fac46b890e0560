# amaranth: UnusedElaboratable=no
"""The list of register writes after reset, on the NIC's own registers and on a bus that delays and refuses."""

import random

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.sim import Simulator
from amoeba_hw.boards.boot_list import BootList
from amoeba_hw.host.axi import OKAY, SLVERR
from amoeba_hw.host.axi_lite import AxiLite
from amoeba_hw.host.register_bank import ADDRESS_WIDTH, RegisterBank
from amoeba_hw.stream import connect_streams
from amoeba_model.boot_list import BootEntry, boot_words
from amoeba_model.parameters import BUILDS
from amoeba_model.registers import bar_blocks

NODE = BUILDS["node"]
MAC, IP = 0x0200_0000_0002, 0x0A00_0002
DEVICE, CONTEXTS, KEYS = (
    next(each for each in bar_blocks(NODE) if each.block.name == name) for name in ("device", "contexts", "keys")
)
ENTRIES = (
    BootEntry(DEVICE.address("abi_version"), 9, waits=True),
    BootEntry(DEVICE.address("mac_low"), MAC & 0xFFFF_FFFF),
    BootEntry(DEVICE.address("mac_high"), MAC >> 32),
    BootEntry(DEVICE.address("ip"), IP),
    BootEntry(KEYS.address("key_low"), 0x1234),
    BootEntry(KEYS.address("store"), 5),
    BootEntry(CONTEXTS.address("control"), 1),
)
CYCLES = 400


class Registers(wiring.Component):
    """The NIC's registers behind the list."""

    def __init__(self, words, parameters=NODE):
        super().__init__({})
        self.boot, self.bank = BootList(words), RegisterBank(parameters)

    def elaborate(self, platform):
        m = Module()
        m.submodules.boot, m.submodules.bank = self.boot, self.bank
        m.submodules.adapter = adapter = AxiLite(ADDRESS_WIDTH)
        wiring.connect(m, self.boot.bus, adapter.bus)
        connect_streams(m, adapter.accesses, self.bank.accesses)
        connect_streams(m, self.bank.read_data, adapter.read_data)
        return m


def run_registers(words, parameters=NODE, *, key_waits=0):
    """(done, failed, MAC of the NIC, kept MAC and IP, enabled, stored keys) after CYCLES."""
    dut = Registers(words, parameters)
    found, stored = [], []

    async def bench(ctx):
        for cycle in range(CYCLES):
            ctx.set(dut.bank.key_stores.ready, cycle >= key_waits)
            if cycle >= key_waits and ctx.get(dut.bank.key_stores.valid):
                stored.append((ctx.get(dut.bank.key_stores.p.slot), ctx.get(dut.bank.key_stores.p.entry.key)))
            await ctx.tick()
        boot, bank = dut.boot, dut.bank
        found.extend(
            ctx.get(each) for each in (boot.done, boot.failed, bank.mac, boot.mac, boot.ip, bank.contexts[0].enable)
        )

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return found, stored


@pytest.mark.parametrize("key_waits", [0, 200])
def test_the_registers_are_as_the_list_says(key_waits):
    found, stored = run_registers(boot_words(ENTRIES), key_waits=key_waits)
    assert found == [1, 0, MAC, MAC, IP, 1]
    assert stored == [(5, 0x1234)]


def test_a_list_may_be_shorter_than_the_rom():
    found, stored = run_registers((*boot_words(ENTRIES), 0, 0xFFFF_FFFF, 0))
    assert found == [1, 0, MAC, MAC, IP, 1]
    assert stored == [(5, 0x1234)]


def test_a_nic_of_another_build_stays_silent():
    wrong = BootEntry(DEVICE.address("keys"), NODE.keys * 2, waits=True)
    found, stored = run_registers(boot_words((wrong, *ENTRIES)))
    assert found == [0, 0, 0, 0, 0, 0]
    assert stored == []


# A bus that delays and refuses


class Bus:
    """Answers the list's accesses: remembers writes, and refuses what ``refuses`` says.

    AXI A3.2.1: a channel's members stay from valid to ready.
    """

    def __init__(self, words, *, pace=1.0, refuses=None, reads=lambda count: 9):
        self.dut = BootList(words)
        self.writes, self.failed, self.done = [], None, None
        self._pace, self._refuses, self._reads = pace, refuses, reads
        self.asked = 0

    async def _channel(self, ctx, name, members):
        """Take one transfer."""
        bus = self.dut.bus
        valid, ready = getattr(bus, f"{name}valid"), getattr(bus, f"{name}ready")
        signals = [getattr(bus, f"{name}{member}") for member in members]
        offered = None
        while True:
            acts = random.random() < self._pace
            ctx.set(ready, acts)
            values = [ctx.get(signal) for signal in signals]
            if ctx.get(valid):
                assert offered in (None, values), f"{name} changed before its transfer"
                offered = values
            else:
                assert offered is None, f"{name}valid fell before its transfer"
            taken = acts and ctx.get(valid)
            await ctx.tick()
            if taken:
                ctx.set(ready, 0)
                return values

    async def _answer(self, ctx, name, **values):
        bus = self.dut.bus
        while random.random() >= self._pace:
            await ctx.tick()
        for member, value in values.items():
            ctx.set(getattr(bus, f"{name}{member}"), value)
        ctx.set(getattr(bus, f"{name}valid"), 1)
        await ctx.tick().until(getattr(bus, f"{name}ready"))
        ctx.set(getattr(bus, f"{name}valid"), 0)

    async def addresses(self, ctx):
        while True:
            (address,) = await self._channel(ctx, "aw", ["addr"])
            self.pending[0].append(address)

    async def data(self, ctx):
        while True:
            data, strobe = await self._channel(ctx, "w", ["data", "strb"])
            assert strobe == 0b1111
            self.pending[1].append(data)

    async def answers(self, ctx):
        while True:
            if all(self.pending):
                address, value = (each.pop() for each in self.pending)
                self.writes.append((address, value))
                await self._answer(ctx, "b", resp=SLVERR if address == self._refuses else OKAY)
            else:
                await ctx.tick()

    async def read_answers(self, ctx):
        while True:
            (address,) = await self._channel(ctx, "ar", ["addr"])
            self.asked += 1
            response = SLVERR if address == self._refuses else OKAY
            await self._answer(ctx, "r", data=self._reads(self.asked), resp=response)

    def run(self, cycles=2000):
        random.seed(1)
        self.pending = [], []

        async def end(ctx):
            await ctx.tick().repeat(cycles)
            self.done, self.failed = ctx.get(self.dut.done), ctx.get(self.dut.failed)

        simulator = Simulator(self.dut)
        simulator.add_clock(1e-6)
        for process in (self.addresses, self.data, self.answers, self.read_answers):
            simulator.add_testbench(process, background=True)
        simulator.add_testbench(end)
        simulator.run()
        return self


WRITES = [(entry.offset, entry.value) for entry in ENTRIES if not entry.waits]


@pytest.mark.parametrize("pace", [1.0, 0.3])
def test_writes_come_in_order_one_at_a_time_whatever_the_bus_delays(pace):
    bus = Bus(boot_words(ENTRIES), pace=pace).run()
    assert (bus.writes, bus.done, bus.failed) == (WRITES, 1, 0)


def test_a_wait_asks_until_the_value_is_there():
    bus = Bus(boot_words(ENTRIES), reads=lambda count: 9 if count > 30 else count & 7).run()
    assert (bus.writes, bus.done, bus.asked) == (WRITES, 1, 31)


@pytest.mark.parametrize("place", [0, 3, 6])
def test_a_refused_access_ends_the_list(place):
    bus = Bus(boot_words(ENTRIES), refuses=ENTRIES[place].offset).run()
    assert (bus.done, bus.failed) == (0, 1)
    assert bus.writes == WRITES[:place]


WORDS = boot_words(ENTRIES)


def damaged(place):
    """The list with a flipped bit, a word of ones, or two words exchanged at a place: a kind for each place."""
    words = list(WORDS)
    kind = place % 3
    if kind == 0:
        words[place] ^= 1 << random.Random(place).randrange(32)
    elif kind == 1:
        words[place] = 0xFFFF_FFFF
    else:
        words[place], words[place - 1] = words[place - 1], words[place]
    return words


@pytest.mark.parametrize("place", range(len(WORDS)))
def test_a_damaged_list_is_not_played(place):
    assert damaged(place) != list(WORDS)
    bus = Bus(damaged(place)).run(80)
    assert (bus.writes, bus.asked, bus.done, bus.failed) == ([], 0, 0, 1)


@pytest.mark.parametrize(
    "words", [[0] * 20, [0xFFFF_FFFF] * 20, WORDS[:-2], [WORDS[0], 0, 0, 0, 0]], ids=["zeros", "ones", "cut", "none"]
)
def test_a_rom_without_a_list_is_not_played(words):
    bus = Bus(words).run(80)
    assert (bus.writes, bus.asked, bus.done, bus.failed) == ([], 0, 0, 1)


@pytest.mark.parametrize("count", [0, 3, 10_000])
def test_roms_of_impossible_sizes_are_refused(count):
    with pytest.raises(ValueError, match=f"Expected 4 to 8195 words of a boot list, got {count}"):
        BootList([0] * count)
