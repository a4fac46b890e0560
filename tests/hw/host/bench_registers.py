"""Testbench of the BAR behind AXI4-Lite, by cocotbext-axi and the model's declarations.

The design's bus is ``bar``; everything else is as :class:`RegisterBank` has it.
Parameters: ``contexts``.

Covers ``interfaces.py`` and ``layout.py``.
"""

import random
from itertools import pairwise

import cocotb
from amoeba_hw.interfaces import (
    CONTEXT,
    COUNTER_ADMISSION,
    KEY_STORE,
    PDC_COMMAND,
    PDC_VIEW,
    PEER_STORE,
    RETRANSMISSION,
    RING_INDEX,
    SLOT_RELEASE,
)
from amoeba_model.layout import Access
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import Counter, bar_blocks
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import StreamSink, always, in_bursts, randomly, reset, start
from amoeba_sim.payload import pack, unpack
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiResp

from tests.hw.bus_models import register_port

CONTEXTS = bench_parameters()["contexts"]
BLOCKS = {placed.block.name: placed for placed in bar_blocks(NicParameters(contexts=CONTEXTS))}
KEEPERS = {
    placed.address(register.name, index): register
    for placed in BLOCKS.values()
    for register in placed.block.registers
    if register.access is Access.RW
    for index in range(register.count)
}
"""Every register that keeps what is written."""
STORAGE = {address: register.reset for address, register in KEEPERS.items()}
"""The same, with its value after reset."""
DOORBELLS = ["transmit_tails", "completion_heads", "arms", "event_heads", "event_arms", "receive_tails"]
"""In the order of their registers, from the start of a doorbell page."""
EVENTS = {
    **dict.fromkeys(DOORBELLS, RING_INDEX),
    "slot_releases": SLOT_RELEASE,
    "counter_clears": 8,
    "counter_admissions": COUNTER_ADMISSION,
    "key_stores": KEY_STORE,
    "peer_stores": PEER_STORE,
}
SLOT_RELEASE_OFFSET = 4 * len(DOORBELLS)
"""In a doorbell page, behind the others."""
PACES = {"always": always, "randomly": lambda: randomly(0.5), "in bursts": lambda: in_bursts(9)}
NEVER = lambda: iter(lambda: False, True)  # noqa: E731


class Bench:
    """The manager, and everything that the registers cause."""

    def __init__(self, dut, pace=always, event_pace=always):
        self.dut = dut
        dut.counts.value = dut.pdc_view.value = dut.draining.value = 0
        self.port, self.rules = register_port(dut, "bar_", pace)
        self.events = {name: StreamSink(dut, name, shape, pace=event_pace()) for name, shape in EVENTS.items()}

    async def write(self, address, value, size=4):
        response = await self.port.write(address, value.to_bytes(size, "little"))
        return response.resp

    async def read(self, address):
        response = await self.port.read(address, 4)
        assert response.resp is AxiResp.OKAY
        return int.from_bytes(response.data, "little")

    async def set(self, block, index=0, **values):
        for register, value in values.items():
            assert await self.write(BLOCKS[block].address(register, index), value) is AxiResp.OKAY


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def blocks_form_a_list_that_describes_itself(dut):
    bench = Bench(dut)
    await start(dut)
    offset, seen = 0, []
    while offset or not seen:
        kind, version, length, following = [await bench.read(offset + 4 * number) for number in range(4)]
        seen.append((offset, kind, version, length))
        offset = following
    assert seen == [(p.offset, p.block.kind, p.block.version, p.block.length) for p in BLOCKS.values()]
    assert seen[0][1] == 0x414D0001


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def capabilities_and_holes(dut):
    bench = Bench(dut)
    await start(dut)
    expected = {
        ("device", "abi_version", 0): 9,
        ("device", "data_width", 0): 256,
        ("device", "target_pdcs", 0): 64,
        ("device", "contexts", 0): CONTEXTS,
        ("device", "receives", 0): 64,
        ("device", "unexpected", 0): 64,
        ("device", "event_counters", 0): 64,
        ("device", "counter_clear", 0): 0,
        ("device", "counter_admit", 0): 0,
        ("atomics", "base", 2): 0xFFFFF,  # SUM on all datatypes
        ("atomics", "fetch", 10): 0xFFFFF,  # READ is fetching only
        ("atomics", "base", 10): 0,
        ("atomics", "compare", 18): 0xFF | 1 << 14 | 1 << 15,  # MSWAP: integers
    }
    for (block, register, index), value in expected.items():
        address = BLOCKS[block].address(register, index)
        await bench.write(address, 0xFFFF_FFFF)
        assert await bench.read(address) == value, (block, register, index)
    for hole in (0xF0, 0x2_0000 + 0x1000 * CONTEXTS, 0x3_FFFC, 0x2_0000):
        assert await bench.write(hole, 0xFFFF_FFFF) is AxiResp.OKAY
        assert await bench.read(hole) == 0


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES))
async def every_writable_register_keeps_its_own_value_and_no_other(dut, pace):
    bench = Bench(dut, PACES[pace])
    await start(dut)
    assert len(STORAGE) > 30
    values = dict(STORAGE)

    async def writer():
        for address in random.sample(sorted(STORAGE), len(STORAGE)) + random.choices(sorted(STORAGE), k=50):
            value = random.getrandbits(32)
            kept = value & ~63 if KEEPERS[address].name.endswith("_base_low") else value
            changing[address] = (values[address], kept)
            if random.random() < 0.2:
                # Not all four bytes: refused, and nothing changes.
                size = random.randint(1, 3)
                place = random.randint(0, 4 - size)
                response = await bench.write(address + place, value & ((1 << 8 * size) - 1), size)
                assert response is AxiResp.SLVERR
            else:
                assert await bench.write(address, value) is AxiResp.OKAY
                values[address] = kept
            del changing[address]

    changing = {}
    writing = cocotb.start_soon(writer())
    while not writing.done():
        address = random.choice(sorted(STORAGE))
        before = values[address]
        possible = {before, *changing.get(address, ())}
        value = await bench.read(address)
        possible |= {values[address], *changing.get(address, ())}
        assert value in possible, f"register {address:#x}"
    for address in STORAGE:
        assert await bench.read(address) == values[address], f"register {address:#x}"


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def contexts_and_own_address_are_shown(dut):
    bench = Bench(dut)
    await start(dut)
    assert unpack(RETRANSMISSION, int(dut.retransmission.value)) == {"timeout": 16384, "limit": 8}
    await bench.set("device", mac_low=0xCCDD_EEFF, mac_high=0xAABB, ip=0x0A00_0001)
    await bench.set("device", dscp=0xFFFF_FFEA)
    for word, value in enumerate((0x1111_2222, 0x3333_4444, 0x5555_6666)):
        await bench.set("device", word, psn_key=value)
    await bench.set("device", retransmit_timeout=0x1_0002, retransmit_limit=0x103)
    await bench.set("device", answer_base_low=0xABCD_E000, answer_base_high=0x7FFF)
    await bench.set("device", counter_base_low=0x1234_5000, counter_base_high=0x6FFF)
    await bench.set(
        "contexts",
        1,
        transmit_base_low=0x40,
        transmit_base_high=0x1,
        transmit_size=7,
        completion_base_low=0x80,
        completion_base_high=0x2,
        completion_size=15,
        event_base_low=0xC0,
        event_base_high=0x3,
        event_size=0x19,
        receive_base_low=0x100,
        receive_base_high=0x4,
        receive_size=0x26,
        unexpected_base_low=0x140,
        unexpected_base_high=0x5,
        read_counter=0x1FE,
        write_counter=0x2FD,
        receive_context=0x1FC,
        domain=0x1FF,
        job_id=0xFFAB_CDEF,
        pid_on_fep=0xF123,
        control=63,
    )
    assert int(dut.mac.value) == 0xAABB_CCDD_EEFF
    assert int(dut.ip.value) == 0x0A00_0001
    assert int(dut.dscp.value) == 0x2A
    assert int(dut.psn_key.value) == 0x1111_2222_3333_4444_5555_6666
    assert int(dut.answer_base.value) == 0x7FFF_ABCD_E000
    assert int(dut.counter_base.value) == 0x6FFF_1234_5000
    # Bits that a value does not have are cut off.
    assert unpack(RETRANSMISSION, int(dut.retransmission.value)) == {"timeout": 0x1_0002, "limit": 3}
    assert unpack(CONTEXT, int(dut.contexts__1.value)) == {
        "enable": 1,
        "cswap_by_bits": 1,
        "data_by_key": 1,
        "shares_receives": 1,
        "announces": 1,
        "relative": 1,
        "receive_context": 0xFC,
        "transmit_base": 0x1_0000_0040,
        "transmit_size": 7,
        "completion_base": 0x2_0000_0080,
        "completion_size": 15,
        "event_base": 0x3_0000_00C0,
        "event_size": 9,
        "receive_base": 0x4_0000_0100,
        "receive_size": 6,
        "unexpected_base": 0x5_0000_0140,
        "read_counter": 0xFE,
        "write_counter": 0xFD,
        "domain": 0xFF,
        "job_id": 0xAB_CDEF,
        "pid_on_fep": 0x123,
    }
    assert int(dut.contexts__0.value) == 0


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def b7_low_bits_of_bases_stay_zero(dut):
    bench = Bench(dut)
    await start(dut)
    names = ["transmit_base", "completion_base", "event_base", "receive_base", "unexpected_base"]
    for low in (0xFE0, 0xFFFF_FFFF, 0x3F):
        kept = low & 0xFFFF_FFC0
        for block, registers in (("device", ["answer_base", "counter_base"]), ("contexts", names)):
            for name in registers:
                await bench.set(block, **{f"{name}_low": low, f"{name}_high": 0xFFFF_FFFF})
                assert await bench.read(BLOCKS[block].address(f"{name}_low")) == kept, name
                assert await bench.read(BLOCKS[block].address(f"{name}_high")) == 0xFFFF_FFFF, name
        shown = unpack(CONTEXT, int(dut.contexts__0.value))
        for base in (int(dut.answer_base.value), int(dut.counter_base.value), *(shown[name] for name in names)):
            assert base == 0xFFFF_FFFF << 32 | kept


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES), event_pace=list(PACES))
async def doorbells_and_stores_become_events_in_order(dut, pace, event_pace):
    bench = Bench(dut, PACES[pace], PACES[event_pace])
    await start(dut)
    expected = {name: [] for name in EVENTS}
    for _ in range(25):
        key = {"key": random.getrandbits(64), "base": random.getrandbits(64), "length": random.getrandbits(64)}
        counters = {"read_counter": random.getrandbits(8), "write_counter": random.getrandbits(8)}
        narrow = {"domain": random.getrandbits(8), "flags": random.getrandbits(4), **counters}
        halves = {f"{name}_low": value & 0xFFFF_FFFF for name, value in key.items()}
        halves |= {f"{name}_high": value >> 32 for name, value in key.items()}
        slot = random.getrandbits(16)
        await bench.set("keys", **halves, **narrow)
        await bench.set("keys", store=slot)
        expected["key_stores"].append({"slot": slot, "entry": {**key, **narrow}})
        for _ in range(3):
            # There is one context more than the NIC has.
            context, number = random.randint(0, CONTEXTS), random.randrange(len(DOORBELLS))
            index = random.getrandbits(32)
            await bench.write(0x2_0000 + 0x1000 * context + 4 * number, index)
            if context < CONTEXTS:
                expected[DOORBELLS[number]].append({"context": context, "index": index & 0xFFFF})
        context, slot, counter = random.randrange(CONTEXTS), random.getrandbits(32), random.getrandbits(32)
        await bench.write(0x2_0000 + 0x1000 * context + SLOT_RELEASE_OFFSET, slot)
        expected["slot_releases"].append({"context": context, "slot": slot & 0xFFFF})
        await bench.set("device", counter_clear=counter)
        expected["counter_clears"].append(counter & 0xFF)
        contexts = random.getrandbits(32)
        await bench.set("device", counter_contexts=contexts, counter_admit=counter)
        expected["counter_admissions"].append({"counter": counter & 0xFF, "contexts": contexts})
    peer = {
        "ip": 0x0A00_0002,
        "job_id": 0xAB_CDEF,
        "pid_on_fep": 0x123,
        "resource_index": 0x456,
        "initial_psn": 0xFFFF_FFF0,
        "entropy": 0xC0DE,
        "context": 1,
        "initiator": 0xABC,
    }
    await bench.set("peers", **peer, mac_low=0xAABB_CCDD, mac_high=0x0200, flags=1)
    await bench.set("peers", store=4)
    await bench.set("peers", flags=6)
    await bench.set("peers", fail=4)
    await bench.set("peers", store=5)
    peer["mac"] = 0x0200_AABB_CCDD
    # Stored or failed, in the order of the writes.
    expected["peer_stores"] = [
        {"index": index, "peer": {**peer, "valid": valid, "relative": other, "whole_window": other}, "fail": fails}
        for index, valid, other, fails in ((4, 1, 0, 0), (4, 0, 1, 1), (5, 0, 1, 0))
    ]
    for name, events in expected.items():
        assert await bench.events[name].receive(len(events)) == events, name
    await ClockCycles(dut.clk, 20)
    assert not any(sink.received for sink in bench.events.values())


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_full_event_queue_holds_the_write_and_loses_nothing(dut):
    bench = Bench(dut, event_pace=NEVER)
    await start(dut)
    written = []

    async def ring():
        for index in range(60):
            await bench.write(0x2_0000, index)
            written.append(index)

    cocotb.start_soon(ring())
    await ClockCycles(dut.clk, 500)
    held = len(written)
    assert 0 < held < 60
    await ClockCycles(dut.clk, 100)
    assert len(written) == held
    bench.events["transmit_tails"]._pace = randomly(0.2)
    events = await bench.events["transmit_tails"].receive(60)
    assert [event["index"] for event in events] == list(range(60))


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def commands_for_target_pdcs_leave_at_once_and_their_view_is_read(dut):
    bench = Bench(dut, event_pace=NEVER)
    commands, cycles = [], []

    async def watch():
        while True:
            await RisingEdge(dut.clk)
            cycles.append(int(dut.cycles.value))
            command = unpack(PDC_COMMAND, int(dut.pdc_command.value))
            if command["select"] or command["close"]:
                commands.append((command["select"], command["close"], command["pdc"]))

    await start(dut)
    watching = cocotb.start_soon(watch())
    expected = []
    for _ in range(2 * 16 + 3):  # more than any queue holds
        what, number = random.choice(["select", "close"]), random.getrandbits(32)
        await bench.set("target_pdcs", **{what: number})
        expected.append((int(what == "select"), int(what == "close"), number & 0xFFFF))
    assert commands == expected
    assert all(after == before + 1 for before, after in pairwise(cycles))
    for _ in range(3):
        view = {name: random.getrandbits(field.width) for name, field in PDC_VIEW}
        dut.pdc_view.value = pack(PDC_VIEW, view)
        came = view.pop("came")
        for name, value in {**view, "came_low": came & 0xFFFF_FFFF, "came_high": came >> 32}.items():
            assert await bench.read(BLOCKS["target_pdcs"].address(name)) == value, name
    for name in ("select", "close"):
        assert await bench.read(BLOCKS["target_pdcs"].address(name)) == 0
    assert commands == expected
    watching.cancel()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def each_write_of_drain_is_a_pulse_and_draining_is_read(dut):
    bench = Bench(dut, event_pace=NEVER)
    pulses = 0

    async def watch():
        nonlocal pulses
        while True:
            await RisingEdge(dut.clk)
            pulses += int(dut.drain.value)

    await start(dut)
    watching = cocotb.start_soon(watch())
    for number in range(2 * 16 + 3):  # more than any queue holds
        dut.draining.value = number % 2
        assert await bench.read(BLOCKS["device"].address("draining")) == number % 2
        await bench.set("device", drain=random.getrandbits(32))
        await ClockCycles(dut.clk, 2)
        assert pulses == number + 1
    assert await bench.read(BLOCKS["device"].address("drain")) == 0
    watching.cancel()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def counters_count_their_own_pulses(dut):
    bench = Bench(dut)
    await start(dut)
    counts = [0] * len(Counter)
    for _ in range(300):
        pulses = random.getrandbits(len(Counter))
        dut.counts.value = pulses
        await RisingEdge(dut.clk)
        counts = [count + (pulses >> number & 1) for number, count in enumerate(counts)]
    dut.counts.value = 0
    for number, count in enumerate(counts):
        assert await bench.read(BLOCKS["counters"].address("value", number)) == count


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def reset_in_mid_traffic_clears_everything(dut):
    bench = Bench(dut, PACES["randomly"], NEVER)
    await start(dut)
    for _ in range(10):
        for address in random.choices(sorted(STORAGE), k=10):
            bench.port.init_write(address, random.randbytes(4))
            bench.port.init_write(0x2_0000, random.randbytes(4))
            bench.port.init_read(address, 4)
        dut.counts.value = random.getrandbits(len(Counter))
        await ClockCycles(dut.clk, random.randint(1, 150))
        dut.counts.value = 0
        await reset(dut)
        for address in random.sample(sorted(STORAGE), 5):
            assert await bench.read(address) == STORAGE[address]
        assert await bench.read(BLOCKS["counters"].address("value", 3)) == 0
        assert not any(getattr(dut, f"{name}__valid").value for name in EVENTS)
        await bench.set("device", ip=0x0A00_0009)
        assert await bench.read(BLOCKS["device"].address("ip")) == 0x0A00_0009
