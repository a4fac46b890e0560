"""The surroundings of the initiator in its benches: host memory and DMA engines, and the wire."""

import random
from collections import deque

import cocotb
from amoeba_hw.interfaces import (
    CONTEXT,
    COUNT_ORDER,
    DMA_COMMAND,
    FRAME_HEADER,
    PEER_STORE,
    READ_REQUEST,
    RETRANSMISSION,
    RING_INDEX,
    packet_beat,
    read_beat,
    write_beat,
)
from amoeba_model.descriptors import COMPLETION
from amoeba_model.wire.uet import ResponseOpcode, ReturnCode
from amoeba_sim.cocotb_streams import StreamSink, StreamSource, always, reader
from amoeba_sim.payload import pack
from cocotb.triggers import RisingEdge

from tests.hw.packet_memory import Memory, packet_beats, packet_bytes

PSN_KEY = (0x2718_2818, 0x2845_9045, 0x2353_6028)
"""Of the first psns of PDCs that are opened again."""
TARGET_PDC = 0x4000
"""Added to the initiator's PDC to give the target's."""


class Environment:
    """Serves the DUT. Attributes to read: ``frames``, ``completions``, ``counted`` and ``memory``.

    Parameters
    ----------
    dut, parameters
    answer : callable
        From a request header and its payload to (return code, data).
    pace : callable
        Makes a pace for each stream.
    host_latency, wire_latency : int
        Cycles to a DMA answer, and to the answer to a frame.
    done_rate : float
        Probability that a cycle sees one more result on its way to the host.
    """

    def __init__(self, dut, parameters, answer, pace=always, host_latency=10, wire_latency=20, done_rate=0.1):
        self.dut = dut
        self.parameters = parameters
        self.width = parameters.data_width
        self.memory = Memory()
        self.frames = []
        """(header, payload) of each request frame; the header with its arrival as ``cycle``."""
        self.completions = []
        """(context, index, fields) of each entry written, in order; fields with its arrival as ``cycle``."""
        self.counted = []
        """(event counter, error, cycle) of each count, in order."""
        self.written = {}
        """Cycle in which the results for an address were on their way to the host."""
        self.interrupts = []
        self.cycle = 0
        self.contexts = {}
        self.consumes = True
        """Whether the driver takes completions at once."""
        self.counts = {}
        self.answer = answer
        self._due = deque()
        self._done = deque()
        self._done_rate = done_rate
        self._latencies = (host_latency, wire_latency)
        self._make_streams(pace)
        dut.result_done.value = 0
        dut.psn_key.value = PSN_KEY[0] << 64 | PSN_KEY[1] << 32 | PSN_KEY[2]
        self.set_retransmission()
        for index in range(parameters.contexts):
            getattr(dut, f"contexts__{index}").value = 0
        self._services = []
        cocotb.start_soon(self._run())
        self.forget()

    def forget(self):
        """Begin anew, as after a reset: what was on its way is lost. The driver's registers and memory stay."""
        for service in self._services:
            service.cancel()
        self._services.clear()
        for queue in (self._due, self._done, self.frames, self.completions, self.counted, self.interrupts):
            queue.clear()
        for sink in self._sinks:
            sink.received.clear()
        for service in (self._descriptors, self._values, self._wire, self._results, self._writes, self._counts):
            service()

    def _serve(self, service):
        self._services.append(cocotb.start_soon(service))

    def _make_streams(self, pace):
        beat = packet_beat(self.width)

        def source(name, shape):
            return StreamSource(self.dut, name, shape, pace=pace())

        def sink(name, shape):
            self._sinks.append(StreamSink(self.dut, name, shape, pace=pace()))
            return self._sinks[-1]

        self._sinks = []

        self.doorbells = source("doorbells", RING_INDEX)
        self.heads = source("completion_heads", RING_INDEX)
        self.arms = source("arms", RING_INDEX)
        self.peer_stores = source("peer_stores", PEER_STORE)
        self.descriptor_reads = sink("descriptor_reads", READ_REQUEST)
        self.descriptor_data = source("descriptor_data", read_beat(self.width))
        self.commands = {name: sink(f"{name}_commands", DMA_COMMAND) for name in ("operand", "compare")}
        self.values = {name: source(f"{name}s", beat) for name in ("operand", "compare")}
        self.requests = sink("requests", FRAME_HEADER)
        self.request_payload = sink("request_payload", beat)
        self.responses = source("responses", FRAME_HEADER)
        self.response_payload = source("response_payload", beat)
        self.result_commands = sink("result_commands", DMA_COMMAND)
        self.results = sink("results", beat)
        self.completion_writes = sink("completion_writes", write_beat(self.width))
        self.count_orders = sink("counts", COUNT_ORDER)

    # What the driver does.

    def set_context(self, number, **registers):
        """Write a context's registers; an enabled one's rings are granted."""
        self.contexts[number] = registers
        getattr(self.dut, f"contexts__{number}").value = pack(CONTEXT, registers)

    def set_retransmission(self, timeout=1 << 20, limit=8):
        self.dut.retransmission.value = pack(RETRANSMISSION, {"timeout": timeout, "limit": limit})

    def store_peer(self, index, **fields):
        self.peer_stores.send({"index": index, "peer": fields})

    def fail_peer(self, index):
        self.peer_stores.send({"index": index, "fail": 1})

    def post(self, number, tail, descriptors):
        """Put descriptors into a transmit ring, from index ``tail`` on, and ring; returns the new tail."""
        registers = self.contexts[number]
        for content in descriptors:
            slot = tail % (1 << registers["transmit_size"])
            self.memory.poke(registers["transmit_base"] + 64 * slot, content)
            tail = (tail + 1) & 0xFFFF
        self.doorbells.send({"context": number, "index": tail})
        return tail

    async def completed(self, count, cycles=20_000):
        """Wait until ``count`` completions were written in all."""
        await self._reached(self.completions, count, cycles, "completions")

    async def requests_counted(self, count, cycles=20_000):
        """Wait until event counters were to advance ``count`` times in all."""
        await self._reached(self.counted, count, cycles, "counts")

    async def _reached(self, entries, count, cycles, what):
        limit = self.cycle + cycles
        while len(entries) < count:
            await RisingEdge(self.dut.clk)
            assert self.cycle < limit, f"{len(entries)} of {count} {what}; {self.counts}"

    # What the rest of the NIC, the host and the network do.

    def after(self, latency, action):
        """Do something in ``latency`` cycles; the order of calls with the same latency is kept."""
        self._due.append((self.cycle + latency, action))

    async def _run(self):
        counters = [(name, reader(getattr(self.dut, name))) for name in dir(self.dut) if name.startswith("count_")]
        in_reset, interrupts_of = reader(self.dut.rst), reader(self.dut.interrupts)
        taken = {
            stream: [reader(getattr(self.dut, f"{stream}__{part}")) for part in ("valid", "ready")]
            for stream in ("descriptor_data", "operands", "compares")
        }
        while True:
            await RisingEdge(self.dut.clk)
            self.cycle += 1
            if in_reset():
                # Answers to what was asked before a reset must not come behind it.
                self._due.clear()
                continue
            due = [entry for entry in self._due if entry[0] <= self.cycle]
            if due:
                self._due = deque(entry for entry in self._due if entry[0] > self.cycle)
            for _, action in due:
                action()
            interrupts = interrupts_of()
            if interrupts:
                self.interrupts.append((self.cycle, interrupts, len(self.completions)))
            for name, count in counters:
                self.counts[name] = self.counts.get(name, 0) + count()
            # There is space for everything that was asked for.
            for stream, (valid, ready) in taken.items():
                assert ready() or not valid(), f"{stream} refused"
            # In order, but after any time.
            done = bool(self._done) and random.random() < self._done_rate
            self.dut.result_done.value = done
            if done:
                address, content = self._done.popleft()
                self.memory.write(address, content)
                self.written[address] = self.cycle

    def _descriptors(self):
        size = self.width // 8

        async def serve():
            while True:
                (request,) = await self.descriptor_reads.receive(1)
                address, length = request["address"], request["length"]
                assert address % 64 == 0
                assert (address % 4096) + length <= 4096
                content = self.memory.read(address, length)
                beats = [
                    {
                        "data": int.from_bytes(
                            content[i : i + size] if content else random.randbytes(size), "little"
                        ),
                        "last": i + size == length,
                        "error": content is None,
                    }
                    for i in range(0, length, size)
                ]
                self.after(self._latencies[0], lambda beats=beats: self.descriptor_data.send(*beats))

        self._serve(serve())

    def _values(self):
        async def serve(name):
            while True:
                (command,) = await self.commands[name].receive(1)
                assert 0 < command["length"] <= self.parameters.payload
                content = self.memory.read(command["address"], command["length"])
                beats = packet_beats(self.width, content or bytes(command["length"]), content is None)
                self.after(self._latencies[0], lambda beats=beats: self.values[name].send(*beats))

        for name in self.commands:
            self._serve(serve(name))

    def _wire(self):
        async def serve():
            while True:
                (header,) = await self.requests.receive(1)
                header["cycle"] = self.cycle
                payload = await self._packet(self.request_payload) if header["payload_length"] else b""
                assert len(payload) == header["payload_length"]
                self.frames.append((header, payload))
                answer = self.answer(header, payload)
                if answer is not None:
                    self.after(self._latencies[1], lambda h=header, a=answer: self.respond(h, *a))

        self._serve(serve())

    def respond(self, header, return_code, content, **changes):
        """Send the answer to a request header."""
        self.responses.send({**response(header, return_code, content), **changes})
        if content:
            self.response_payload.send(*packet_beats(self.width, content))

    async def _packet(self, sink):
        beats = await sink.receive(1)
        while not beats[-1]["last"]:
            beats += await sink.receive(1)
        assert all(beat["count"] == self.width // 8 for beat in beats[:-1])
        return packet_bytes(beats)

    def _results(self):
        async def serve():
            while True:
                (command,) = await self.result_commands.receive(1)
                content = await self._packet(self.results)
                assert len(content) == command["length"]
                self._done.append((command["address"], content))

        self._serve(serve())

    def _writes(self):
        async def serve():
            while True:
                beats = await self.completion_writes.receive(1)
                while not beats[-1]["last"]:
                    beats += await self.completion_writes.receive(1)
                self._take_completion(beats)

        self._serve(serve())

    def _counts(self):
        async def serve():
            while True:
                (order,) = await self.count_orders.receive(1)
                assert order["counter"]
                self.counted.append((order["counter"], order["error"], self.cycle))

        self._serve(serve())

    def _take_completion(self, beats):
        size = self.width // 8
        assert beats[0]["first"]
        assert beats[0]["beats"] == len(beats) == max(1, 32 // size)
        assert beats[0]["address"] % size == 0
        written = {
            beats[0]["address"] + size * number + i: beat["data"] >> (8 * i) & 0xFF
            for number, beat in enumerate(beats)
            for i in range(size)
            if beat["strobe"] >> i & 1
        }
        address = min(written)
        assert sorted(written) == list(range(address, address + 32))
        fields = COMPLETION.unpack(bytes(written[address + i] for i in range(32)))
        (number,) = (n for n, settings in self.contexts.items() if address in completion_ring(settings))
        assert beats[0]["context"] == number
        index = sum(1 for context, *_ in self.completions if context == number)
        ring = completion_ring(self.contexts[number])
        assert address == ring[index % len(ring)], "completion in the wrong entry"
        self.completions.append((number, index, {**fields, "cycle": self.cycle}))
        if self.consumes:
            self.heads.send({"context": number, "index": (index + 1) & 0xFFFF})


def completion_ring(registers):
    """Addresses of the entries of a context's completion ring."""
    base = registers["completion_base"]
    return range(base, base + (32 << registers["completion_size"]), 32)


def cleared(header):
    """Up to which psn the sender of a request has the answers."""
    offset = header["clear_psn_offset"]
    return (header["psn"] + offset - (offset >> 15 << 16)) & 0xFFFF_FFFF


def response(header, return_code, content):
    """FRAME_HEADER of an answer as it arrives: addresses are the answering side's."""
    return {
        "mac": header["mac"],
        "ip": header["ip"],
        "port": header["port"],
        "psn": header["psn"],
        "spdcid": header["spdcid"] + TARGET_PDC,
        "cack_psn": cleared(header),
        "dpdcid": header["spdcid"],
        "opcode": ResponseOpcode.NONE if header["is_control"] else 1 + bool(content),
        "message_id": 0 if header["is_control"] else header["message_id"],
        "job_id": 0 if header["is_control"] else header["job_id"],
        "return_code": return_code,
        "modified_length": header["request_length"] if return_code == ReturnCode.OK else 0,
        "payload_length": len(content),
    }
