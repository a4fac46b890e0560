"""Testbench of how fast long transfers pass the core's DMA on PCI Express. Exact; written to a file.

Ports as of tests/hw/pcie/bench_host.py. The link carries a line per cycle each way: what a packet has beside its
payload (its header, framing, sequence number and LCRC: Base Specification 2.2.1, 4.2.2) counts, too. Completions come
in order, as large as may be, a fixed time after their request. Parameters: ``width``, ``max_payload``,
``max_read_request``, ``extended_tags``, ``latency`` in cycles, ``size`` of a transfer in bytes, ``output``: the file.
"""

import json
import random
from collections import deque
from pathlib import Path

import cocotb
from amoeba_hw.pcie.interfaces import CONFIGURATION, MSIX_MESSAGE, completion_beat, request_beat
from amoeba_model.tlp import RequestKind
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import StreamSource, start
from amoeba_sim.payload import pack, unpack
from cocotb.triggers import RisingEdge

from tests.hw.host.dma_clients import PACES, DmaClients
from tests.hw.pcie.root import Request

PARAMETERS = bench_parameters()
WIDTH, SIZE = PARAMETERS["width"], PARAMETERS["size"]
MAX_PAYLOAD, MAX_READ_REQUEST = PARAMETERS["max_payload"], PARAMETERS["max_read_request"]
LINE = WIDTH // 8
BASE = 0x7FFF_FFFE_8000
REQUEST_OVERHEAD, COMPLETION_OVERHEAD = 24, 20
"""Bytes: framing and sequence number 4, LCRC 4, and four or three DWs of header."""


class Link:
    """The root, and the wires to it, one step per cycle."""

    def __init__(self, dut):
        self.dut = dut
        self.cycle = self.up = self.down = 0
        self.requests = []
        """(cycle, Request)"""
        self.completed = []
        """Cycle of each beat of a completion."""
        self.beats, self.waiting, self.sending = [], deque(), deque()
        self.request_shape, self.completion_shape = request_beat(WIDTH), completion_beat(WIDTH)
        dut.requests__ready.value = dut.completions__valid.value = 0
        cocotb.start_soon(self._run())

    async def _run(self):
        dut, offered = self.dut, False
        while True:
            await RisingEdge(dut.clk)
            self.cycle += 1
            if dut.requests__valid.value and dut.requests__ready.value:
                self._take(unpack(self.request_shape, int(dut.requests__payload.value)))
            if offered and dut.completions__ready.value:
                self.completed.append(self.cycle)
                self.sending.popleft()
                offered = False
            self.up, self.down = max(0, self.up - LINE), max(0, self.down - LINE)
            dut.requests__ready.value = self.up < LINE
            if not offered:
                offered = self._next()
                dut.completions__valid.value = offered

    def _take(self, beat):
        self.beats.append(beat)
        if beat["last"]:
            request = Request(self.beats, WIDTH, MAX_PAYLOAD, MAX_READ_REQUEST)
            self.beats = []
            self.requests.append((self.cycle, request))
            if not request.is_write:
                self.waiting.append((self.cycle + PARAMETERS["latency"], request))
        self.up += REQUEST_OVERHEAD * beat["first"]
        if beat["header"]["kind"] == RequestKind.MEMORY_WRITE or not beat["first"]:
            self.up += LINE

    def _next(self):
        """Whether a beat of a completion is on offer from now on."""
        if not self.sending and self.waiting and self.waiting[0][0] <= self.cycle:
            self._answer(self.waiting.popleft()[1])
        if not self.sending or self.down >= LINE:
            return False
        beat, size = self.sending[0]
        self.dut.completions__payload.value = pack(self.completion_shape, beat)
        self.down += size
        return True

    def _answer(self, request):
        at, stop = request.span.start, request.span.stop
        while at < stop:
            word = at // 4 * 4
            end = min(stop, (word + MAX_PAYLOAD) // 64 * 64)
            dwords = -(-(end - word) // 4)
            header = {"tag": request.tag, "dwords": dwords, "byte_count": stop - at, "lower_address": at % 128}
            for done in range(0, 4 * dwords, LINE):
                first, last = done == 0, done + LINE >= 4 * dwords
                beat = {"header": header, "data": random.getrandbits(WIDTH), "first": first, "last": last}
                self.sending.append((beat, min(LINE, 4 * dwords - done) + COMPLETION_OVERHEAD * first))
            at = end


class Bench(DmaClients):
    """All streams and the link."""

    def __init__(self, dut):
        super().__init__(dut, WIDTH, PACES["always"])
        StreamSource(dut, "interrupts", MSIX_MESSAGE)
        codes = {"max_payload": MAX_PAYLOAD, "max_read_request": MAX_READ_REQUEST}
        configuration = {name: (size // 128).bit_length() - 1 for name, size in codes.items()}
        dut.configuration.value = pack(CONFIGURATION, configuration | {"extended_tags": PARAMETERS["extended_tags"]})
        dut.read_credit.value = dut.run.value = 1
        self.link = Link(dut)

    def read(self, offset=0):
        """A packet of 4 KiB after the other."""
        addresses = range(BASE + offset, BASE + offset + SIZE, 4096)
        self.read_commands[0].send(*({"address": address, "length": 4096} for address in addresses))

    def write(self, offset=0, index=0):
        for address in range(BASE + offset, BASE + offset + SIZE, 4096):
            super().write(index, address, bytes(4096))

    def read_lines(self):
        self.line_reads.send(*({"address": BASE + at, "length": LINE} for at in range(0, SIZE, LINE)))

    def write_lines(self):
        for at in range(0, SIZE, LINE):
            self.line_write(BASE + 0x10_0000 + at, bytes(LINE))

    async def rest(self):
        """Until nothing has moved for a while."""
        seen, still = None, 0
        while still < 2 * PARAMETERS["latency"] + 100:
            await RisingEdge(self.dut.clk)
            now = (len(self.link.requests), len(self.link.completed), self.line_writes.left, self.line_reads.left)
            seen, still = now, still + 1 if now == seen else 0

    def figures(self):
        link, found = self.link, {}
        writes = [(cycle, 4 * request.dwords) for cycle, request in link.requests if request.is_write]
        if writes:
            # The first packet's beats lie before its end.
            found["written"] = _rate(writes)
            found["write packets"] = len(writes)
        if link.completed:
            found["read"] = _rate([(cycle, LINE) for cycle in link.completed])
            found["read packets"] = sum(not request.is_write for _, request in link.requests)
        return found


def _rate(events):
    """Bytes per cycle in the middle half."""
    events = events[len(events) // 4 : -(len(events) // 4)]
    return sum(size for _, size in events[1:]) / (events[-1][0] - events[0][0])


SCENES = {
    "packets read": lambda bench: bench.read(),
    "packets read, misaligned": lambda bench: bench.read(1),
    "lines read": lambda bench: bench.read_lines(),
    "packets written": lambda bench: bench.write(),
    "packets written, misaligned": lambda bench: bench.write(1),
    "lines written": lambda bench: bench.write_lines(),
    "lines read, packets written": lambda bench: (bench.read_lines(), bench.write(0x20_0000)),
    "packets read, lines written": lambda bench: (bench.read(), bench.write_lines()),
    "lines and packets read": lambda bench: (bench.read(), bench.read_lines()),
    "lines and packets written": lambda bench: (bench.write(), bench.write_lines()),
}


@cocotb.test(timeout_time=200, timeout_unit="us")
@cocotb.parametrize(scene=list(SCENES))
async def transfers_pass(dut, scene):
    bench = Bench(dut)
    await start(dut)
    SCENES[scene](bench)
    await bench.rest()
    path = Path(PARAMETERS["output"])
    found = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(found | {scene: bench.figures()}))
