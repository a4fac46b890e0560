"""Testbench of the UltraScale+ adapters: cocotbext-pcie's integrated block and root complex around an endpoint.

Parameters: ``width``, ``vectors``, ``words`` (registers of BAR 0). The model has its traps: it drives no transmit
credits and no function level reset, so the bench does; a root complex answers reads one after another.
"""

import logging
import random
import struct

import cocotb
import cocotbext.pcie.xilinx.us.usp_model as usp
import pytest
from amoeba_hw.pcie.completer import COMPLETIONS
from amoeba_hw.pcie.interfaces import REQUEST_HEADER, completion_beat, request_beat
from amoeba_model.pci import MSIX_BAR, MSIX_BAR_SIZE, MSIX_PBA_OFFSET, REFUSED_OFFSET
from amoeba_model.registers import BAR_SIZE
from amoeba_model.tlp import CompletionStatus, RequestKind
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import StreamSink, StreamSource, always, in_bursts, randomly, start
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout
from cocotbext.axi import AxiStreamBus
from cocotbext.pcie.core import RootComplex
from cocotbext.pcie.core.tlp import TlpType
from cocotbext.pcie.xilinx.us import UltraScalePlusPcieDevice

WIDTH, VECTORS, WORDS = (bench_parameters()[name] for name in ("width", "vectors", "words"))
LANES = WIDTH // 32
SIZE = 1 << 16


class _NoClock:
    """The bench has a faster clock than the model's."""

    def __init__(self, *_, **__):
        pass

    async def start(self):
        pass


usp.Clock = _NoClock


class Bench:
    """A root complex with memory, the integrated block, and streams where the NIC's requesters would be."""

    def __init__(self, dut, *, pace=always, link_pace=None, payload=256, read=512, split=False, rcb=False):
        logging.getLogger("cocotb.pcie").setLevel(logging.ERROR)
        logging.getLogger("cocotb.dut").setLevel(logging.ERROR)
        self.dut = dut
        self.root = RootComplex()
        self.root.max_payload_size = payload.bit_length() - 8
        self.root.max_read_request_size = read.bit_length() - 8
        self.root.split_on_all_rcb = split
        self.root.read_completion_boundary = rcb
        self._boundary = rcb
        self.block = UltraScalePlusPcieDevice(
            pcie_generation=3,
            pcie_link_width=WIDTH // 32,
            user_clk_frequency=250e6,
            max_payload_size=1024,
            enable_extended_tag=False,
            pf0_msix_enable=True,
            pf0_msix_table_size=VECTORS - 1,
            pf0_msix_table_bir=MSIX_BAR,
            pf0_msix_table_offset=0,
            pf0_msix_pba_bir=MSIX_BAR,
            pf0_msix_pba_offset=MSIX_PBA_OFFSET,
            user_clk=dut.clk,
            rq_bus=AxiStreamBus.from_prefix(dut, "rq_"),
            rc_bus=AxiStreamBus.from_prefix(dut, "rc_"),
            cq_bus=AxiStreamBus.from_prefix(dut, "cq_"),
            cc_bus=AxiStreamBus.from_prefix(dut, "cc_"),
            pcie_cq_np_req=dut.cq_np_req,
            cfg_max_payload=dut.cfg_max_payload,
            cfg_max_read_req=dut.cfg_max_read_req,
            cfg_function_status=dut.cfg_function_status,
            cfg_rcb_status=dut.cfg_rcb_status,
            cfg_interrupt_msix_enable=dut.cfg_interrupt_msix_enable,
            cfg_interrupt_msix_mask=dut.cfg_interrupt_msix_mask,
        )
        self.root.make_port().connect(self.block)
        function = self.block.functions[0]
        function.configure_bar(0, BAR_SIZE, ext=True)
        function.configure_bar(MSIX_BAR, MSIX_BAR_SIZE, ext=True)
        dut.tfc_nph_av.value = 15
        for signal in (dut.irq, dut.completion_hold, dut.cfg_flr_in_process):
            signal.value = 0
        dut.reads_idle.value = 1
        self.writes = StreamSource(dut, "writes", request_beat(WIDTH))
        self.reads = StreamSource(dut, "reads", REQUEST_HEADER, pace=pace())
        self.completions = StreamSink(dut, "completions", completion_beat(WIDTH), pace=pace())
        if link_pace is not None:
            for end in (self.block.rq_sink, self.block.cc_sink, self.block.rc_source, self.block.cq_source):
                end.set_pause_generator(not go for go in link_pace())
        self.memory = self.root.mem_pool.alloc_region(SIZE)
        self.base = self.memory.get_absolute_address(0)

    async def start(self):
        await start(self.dut)
        await self.root.enumerate()
        self.device = self.root.find_device(self.block.functions[0].pcie_id)
        await self.device.enable_device()
        await self.device.set_master()
        self.block.functions[0].pcie_cap.read_completion_boundary = self._boundary
        self.registers, self.table = self.device.bar_window[0], self.device.bar_window[MSIX_BAR]
        await ClockCycles(self.dut.clk, 10)

    @staticmethod
    def header(kind, address, length, tag=0):
        """A request for bytes of memory, and how many bytes lie before and behind them in its DWs."""
        before = address & 3
        dwords = (before + length + 3) // 4
        behind = 4 * dwords - before - length
        first, last = 15 << before & 15, 15 >> behind
        return {
            "address": address & ~3,
            "dwords": dwords,
            "kind": kind,
            "reserved0": 0,
            "first_be": first if dwords > 1 else first & last,
            "last_be": last if dwords > 1 else 0,
            "tag": tag,
            "user": 1,
            "reserved1": 0,
        }, before

    def write(self, address, data):
        header, before = self.header(RequestKind.MEMORY_WRITE, address, len(data))
        payload = random.randbytes(before) + data
        payload += random.randbytes(-len(payload) % 4)
        payload += random.randbytes(-len(payload) % (WIDTH // 8))
        beats = [payload[at : at + WIDTH // 8] for at in range(0, len(payload), WIDTH // 8)]
        for index, beat in enumerate(beats):
            self.writes.send(
                {
                    "header": header if index == 0 else dict.fromkeys(header, 0),
                    "data": int.from_bytes(beat, "little"),
                    "first": index == 0,
                    "last": index == len(beats) - 1,
                }
            )

    def read(self, address, length, tag):
        self.reads.send(self.header(RequestKind.MEMORY_READ, address, length, tag)[0])

    async def answers(self, expected):
        """Take completions until all reads in ``expected``, (address, length) by tag, are answered: data, status."""
        got = {tag: bytearray() for tag in expected}
        status = dict.fromkeys(expected, CompletionStatus.SC)
        missing = {tag: length for tag, (_, length) in expected.items()}
        while missing:
            beats = await with_timeout(self.completions.receive(1), 20, "us")
            header = beats[0]["header"]
            tag = header["tag"]
            address, length = expected[tag]
            if header["status"] != CompletionStatus.SC:
                assert header["dwords"] == 0
                assert beats[0]["last"]
                status[tag] = header["status"]
                del missing[tag]
                continue
            count = -(-header["dwords"] // LANES)
            beats += await self.completions.receive(count - 1)
            assert [beat["first"] for beat in beats] == [index == 0 for index in range(count)]
            assert [beat["last"] for beat in beats] == [index == count - 1 for index in range(count)]
            data = b"".join(beat["data"].to_bytes(WIDTH // 8, "little") for beat in beats)
            assert header["byte_count"] == missing[tag]
            assert header["lower_address"] == (address + length - missing[tag]) & 0x7F
            skipped = header["lower_address"] & 3
            part = data[: 4 * header["dwords"]][skipped : skipped + missing[tag]]
            got[tag] += part
            missing[tag] -= len(part)
            if not missing[tag]:
                del missing[tag]
        return got, status


def lengths(most):
    """Lengths that try all beats' ends."""
    ends = [size + off for size in (28, 32, 48, 64, 96, 128) for off in range(-4, 5)]
    return [*range(1, 24), *ends, most - 3, most]


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(stalls=[False, True])
async def writes_reach_memory_and_nothing_beside_them(dut, stalls):
    bench = Bench(dut, link_pace=(lambda: in_bursts(9)) if stalls else None, payload=256)
    await bench.start()
    expected = bytearray(random.randbytes(SIZE))
    await bench.memory.write(0, bytes(expected))
    for length in lengths(253) * 2:
        at = random.randrange(SIZE - 256)
        if at // 4096 != (at + length) // 4096:
            at &= ~0xFFF
        data = random.randbytes(length)
        bench.write(bench.base + at, data)
        expected[at : at + length] = data
    await bench.writes.sent()
    await ClockCycles(dut.clk, 500)
    assert bytes(await bench.memory.read(0, SIZE)) == bytes(expected)


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(
    (
        ("stalls", "split", "rcb"),
        [(False, False, False), (True, False, False), (False, True, False), (True, True, True)],
    )
)
async def reads_bring_what_memory_has(dut, stalls, split, rcb):
    paces = {"pace": lambda: randomly(0.5), "link_pace": lambda: in_bursts(9)} if stalls else {}
    bench = Bench(dut, split=split, rcb=rcb, **paces)
    await bench.start()
    assert int(dut.cfg_rcb_status.value) & 1 == rcb
    content = random.randbytes(SIZE)
    await bench.memory.write(0, content)
    wanted = lengths(509)
    random.shuffle(wanted)
    for batch in (wanted[at : at + 32] for at in range(0, len(wanted), 32)):
        asked = {}
        for tag, length in enumerate(batch):
            at = random.randrange(SIZE - 512)
            if at // 4096 != (at + length) // 4096:
                at &= ~0xFFF
            asked[tag] = bench.base + at, length
            bench.read(bench.base + at, length, tag)
        got, status = await bench.answers(asked)
        assert set(status.values()) == {CompletionStatus.SC}
        for tag, (address, length) in asked.items():
            at = address - bench.base
            assert bytes(got[tag]) == content[at : at + length]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def reads_that_nobody_answers_well_have_their_status(dut):
    bench = Bench(dut)
    await bench.start()
    asked = {0: (0x7000_0000_0000, 64), 1: (bench.base, 64), 2: (0x7000_0000_1000, 4)}
    for tag, (address, length) in asked.items():
        bench.read(address, length, tag)
    _, status = await bench.answers(asked)
    assert status == {0: CompletionStatus.UR, 1: CompletionStatus.SC, 2: CompletionStatus.UR}


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def what_the_block_finds_wrong_becomes_a_status(dut):
    """Completions as the block would hand them over, from timeouts to tags that nobody has."""
    bench = Bench(dut)
    await bench.start()
    cases = [
        (usp.ErrorCode.TIMEOUT, 0, 0, CompletionStatus.TIMED_OUT),
        (usp.ErrorCode.FLR, 0, 0, CompletionStatus.TIMED_OUT),
        (usp.ErrorCode.MISMATCH, 0, 40, CompletionStatus.CA),
        (usp.ErrorCode.INVALID_ADDRESS, 0, 3, CompletionStatus.CA),
        (usp.ErrorCode.INVALID_LENGTH, 0, 0, CompletionStatus.CA),
        (usp.ErrorCode.BAD_STATUS, 4, 0, CompletionStatus.CA),
        (usp.ErrorCode.INVALID_TAG, 0, 40, None),
        (usp.ErrorCode.INVALID_TAG, 0, 2, None),
        (usp.ErrorCode.POISONED, 0, 40, CompletionStatus.SC),
        (usp.ErrorCode.NORMAL_TERMINATION, 0, 1, CompletionStatus.SC),
    ]
    for tag, (code, status, dwords, _) in enumerate(cases):
        completion = usp.Tlp_us()
        completion.fmt_type = TlpType.CPL_DATA if dwords else TlpType.CPL
        completion.error_code, completion.status, completion.tag = code, status, tag
        completion.byte_count = 4 * dwords or 4
        if dwords:
            completion.set_data(bytes([tag]) * 4 * dwords)
        await bench.block.rc_source.send(completion.pack_us_rc())
    await ClockCycles(dut.clk, 200)
    firsts = [beat["header"] for beat in bench.completions.received if beat["first"]]
    expected = [(tag, case[3]) for tag, case in enumerate(cases) if case[3] is not None]
    assert [(header["tag"], header["status"]) for header in firsts] == expected
    assert [header["tag"] for header in firsts if header["poisoned"]] == [8]
    assert [header["dwords"] for header in firsts] == [0, 0, 0, 0, 0, 0, 40, 1]


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(stalls=[False, True])
async def a_completion_that_the_block_cannot_read_is_poisoned_from_its_first_beat_on(dut, stalls):
    """Lengths that end anywhere in a beat, up to the largest; the block says it with the last beat."""
    paces = {"pace": lambda: randomly(0.5), "link_pace": lambda: in_bursts(9)} if stalls else {}
    bench = Bench(dut, **paces)
    await bench.start()
    source = bench.block.rc_source
    drive = source._drive

    async def at_the_end(beat):
        # The model says it with every beat.
        if not beat.tlast:
            beat.tuser &= ~(1 << source.discontinue_offset)
        await drive(beat)

    source._drive = at_the_end
    sizes = [random.choice([1, LANES - 3, LANES - 2, LANES, 2 * LANES - 3, 64, 255, 256]) for _ in range(60)]
    sent = []
    for number, dwords in enumerate(sizes):
        completion = usp.Tlp_us()
        completion.fmt_type, completion.tag, completion.byte_count = TlpType.CPL_DATA, number & 31, 4 * dwords
        content = random.randbytes(4 * dwords)
        completion.set_data(content)
        frame = completion.pack_us_rc()
        frame.discontinue = random.random() < 0.4
        sent.append((number & 31, frame.discontinue, content))
        await source.send(frame)
    for number, (tag, broken, content) in enumerate(sent):
        beats = await with_timeout(bench.completions.receive(-(-len(content) // (4 * LANES))), 20, "us")
        header = beats[0]["header"]
        assert (header["tag"], header["poisoned"], header["dwords"]) == (tag, broken, len(content) // 4), number
        ends = [(beat["first"], beat["last"]) for beat in beats]
        assert ends == [(at == 0, at == len(beats) - 1) for at in range(len(beats))], number
        assert b"".join(beat["data"].to_bytes(4 * LANES, "little") for beat in beats)[: len(content)] == content


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(stalls=[False, True])
async def registers_are_words_and_pairs_of_words(dut, stalls):
    bench = Bench(dut, link_pace=(lambda: in_bursts(9)) if stalls else None)
    await bench.start()
    shadow = [0] * WORDS
    for word in range(WORDS):
        await bench.registers.write_dword(4 * word, 0)
    for _ in range(100):
        word = random.randrange(WORDS - 1) & ~1
        value = random.getrandbits(64)
        if random.getrandbits(1):
            await bench.registers.write_qword(4 * word, value)
            shadow[word : word + 2] = value & 0xFFFF_FFFF, value >> 32
        else:
            await bench.registers.write_dword(4 * word, value & 0xFFFF_FFFF)
            shadow[word] = value & 0xFFFF_FFFF
        if random.getrandbits(1):
            assert await bench.registers.read_qword(4 * word) == shadow[word] | shadow[word + 1] << 32
        else:
            assert await bench.registers.read_dword(4 * word) == shadow[word]
    assert await bench.table.read_dword(REFUSED_OFFSET) == 0
    for offset, data in ((0, b"x"), (2, b"xy"), (0, bytes(3)), (0, bytes(12)), (4, bytes(256)), (1, bytes(7))):
        await bench.registers.write(offset, data)
    assert await bench.table.read_dword(REFUSED_OFFSET) == 6
    for length in (1, 3, 12, 256):
        with pytest.raises(Exception, match="Unsuccessful completion"):
            await bench.registers.read(0, length)
    assert await bench.registers.read(8, 0) == b""
    assert await bench.registers.read_dword(0) == shadow[0]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def writes_pass_reads_whose_answers_the_link_does_not_take(dut):
    """The block is told of space for so many reads only; it keeps the others, and lets writes go by."""
    bench = Bench(dut)
    await bench.start()
    dut.completion_hold.value = 1
    reads = [cocotb.start_soon(bench.registers.read_dword(0)) for _ in range(2 * COMPLETIONS)]
    await ClockCycles(dut.clk, 1000)
    await bench.registers.write_dword(4, 0x1234_5678)
    await ClockCycles(dut.clk, 200)
    dut.completion_hold.value = 0
    assert await bench.registers.read_dword(4) == 0x1234_5678
    for each in reads:
        await each


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def interrupts_are_messages_behind_the_writes_before_them(dut):
    bench = Bench(dut, link_pace=lambda: in_bursts(20))
    await bench.start()
    count = await bench.device.alloc_irq_vectors(VECTORS, VECTORS)
    assert count == VECTORS
    assert int(dut.cfg_interrupt_msix_enable.value) & 1
    for _ in range(30):
        vector = random.randrange(VECTORS)
        event = bench.device.msi_vectors[vector].event
        event.clear()
        dut.irq.value = 1 << vector
        await RisingEdge(dut.clk)
        dut.irq.value = 0
        await with_timeout(event.wait(), 20, "us")
    others = [bench.device.msi_vectors[vector].event for vector in range(VECTORS)]
    for event in others:
        event.clear()
    await ClockCycles(dut.clk, 500)
    assert not any(event.is_set() for event in others)
    # Masked by its entry: pending until it is unmasked.
    await bench.table.write_dword(16 * 3 + 12, 1)
    assert await bench.table.read_dword(16 * 3 + 12) == 1
    dut.irq.value = 1 << 3
    await RisingEdge(dut.clk)
    dut.irq.value = 0
    await ClockCycles(dut.clk, 200)
    assert not others[3].is_set()
    assert await bench.table.read_dword(MSIX_PBA_OFFSET) == 1 << 3
    await bench.table.write_dword(16 * 3 + 12, 0)
    await with_timeout(others[3].wait(), 20, "us")
    assert await bench.table.read_dword(MSIX_PBA_OFFSET) == 0


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_function_level_reset_is_done_and_told(dut):
    bench = Bench(dut)
    await bench.start()
    await bench.table.write_dword(12, 0)
    await bench.registers.write_dword(8, 77)
    dut.reads_idle.value = 0
    dut.cfg_flr_in_process.value = 1
    await ClockCycles(dut.clk, 50)
    assert not dut.run.value
    assert not dut.cfg_flr_done.value
    dut.reads_idle.value = 1
    while not int(dut.cfg_flr_done.value) & 1:
        await RisingEdge(dut.clk)
    await ClockCycles(dut.clk, 3)
    dut.cfg_flr_in_process.value = 0
    await ClockCycles(dut.clk, 5)
    assert dut.run.value
    assert await bench.table.read_dword(12) == 1, "a reset masks all vectors"
    assert await bench.registers.read_dword(8) == 77


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def without_bus_master_nothing_is_asked(dut):
    bench = Bench(dut)
    await bench.start()
    await bench.device.set_master(False)
    await ClockCycles(dut.clk, 20)
    bench.write(bench.base, b"late")
    await ClockCycles(dut.clk, 300)
    assert not dut.rq__tvalid.value
    assert bench.writes.left
    await bench.device.set_master()
    await bench.writes.sent()
    await ClockCycles(dut.clk, 300)
    assert bytes(await bench.memory.read(0, 4)) == b"late"


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def reads_wait_for_credits_and_writes_do_not(dut):
    bench = Bench(dut)
    await bench.start()
    dut.tfc_nph_av.value = 4
    await ClockCycles(dut.clk, 5)
    bench.read(bench.base, 8, 0)
    bench.write(bench.base, struct.pack("<Q", 0x1122_3344_5566_7788))
    await bench.writes.sent()
    await ClockCycles(dut.clk, 300)
    assert bench.completions.received == []
    dut.tfc_nph_av.value = 5
    got, _ = await bench.answers({0: (bench.base, 8)})
    assert struct.unpack("<Q", got[0]) == (0x1122_3344_5566_7788,)
