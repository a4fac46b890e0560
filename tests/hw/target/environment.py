"""The surroundings of a target in its benches: contexts and keys, a memory engine, the host, and initiators.

The memory engine answers with random bytes, and refuses now and then. The host takes the target's writes into
``Bench.host`` and gives reads from there. Parameters: ``width``, ``payload``, ``pdcs``, ``keys``, ``contexts``,
``window``, ``out_of_order_entries``, ``receives``, ``unexpected``.
"""

import random
import struct
from collections import Counter
from types import SimpleNamespace

import cocotb
from amoeba_hw.interfaces import (
    CONTEXT,
    COUNT_ORDER,
    FRAME_HEADER,
    KEY_STORE,
    MEMORY_REQUEST,
    READ_REQUEST,
    RING_INDEX,
    SLOT_RELEASE,
    TRACE_SLOT,
    packet_beat,
    read_beat,
    write_beat,
)
from amoeba_model.nic.capabilities import Capabilities
from amoeba_model.nic.checker import RequestChecker
from amoeba_model.nic.tables import Context, Key, KeyTable
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import key_slots
from amoeba_model.trace import NO_CONTEXT
from amoeba_model.wire.byte_order import number_size, swap_bytes
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import StreamSink, StreamSource, always, in_bursts, randomly, reader
from amoeba_sim.payload import pack, unpack
from cocotb.triggers import ClockCycles, RisingEdge

from tests.hw.target.rules import Sequence
from tests.hw.uet_frames import beats_of, packets_of, random_request

__all__ = [
    "ANSWER_BASE",
    "CONTEXTS",
    "DELIVERY_COMPLETE",
    "DOMAIN",
    "EVENT_SIZE",
    "HEADER_DATA",
    "JOB",
    "KEYS",
    "PACES",
    "PARAMETERS",
    "PAYLOAD",
    "PDCS",
    "PID",
    "RECEIVES",
    "RINGS",
    "SLOTS",
    "WHOLE",
    "WIDTH",
    "WINDOW",
    "Bench",
    "Initiator",
    "answers_then_nacks",
    "counters_of",
    "event_entry",
    "expected_memory",
    "plain",
    "request",
    "store_keys",
]

PARAMETERS = bench_parameters()
WIDTH, PAYLOAD, WINDOW = PARAMETERS["width"], PARAMETERS["payload"], PARAMETERS["window"]
PDCS, KEYS, CONTEXTS = PARAMETERS["pdcs"], PARAMETERS["keys"], PARAMETERS["contexts"]
LINE = WIDTH // 8
BEAT = packet_beat(WIDTH)
PACES = {"always": always, "randomly": lambda: randomly(0.5), "in bursts": lambda: in_bursts(9)}
COUNTS = (
    "requests_received",
    "refused_requests",
    "dropped_pdc",
    "dropped_sequence",
    "duplicates",
    "events",
    "messages_matched",
    "messages_unexpected",
)

DOMAIN, JOB, PID = 5, 0x123456, 0x789
VALID, READ_RIGHT, WRITE_RIGHT, VIRTUAL, DATA_RIGHT = 1, 2, 4, 8, 16
NO_OP, WRITE, READ, ATOMIC, FETCHING, VENDOR = 0, 1, 2, 3, 4, 0x30
WHOLE, HEADER_DATA, INITIATOR_ERROR, DELIVERY_COMPLETE = 3, 4, 0x10, 0x20
NOT_ENABLED = 1
"""The context that is not."""
ANSWER_BASE = 0x7F00_0000_1000
RINGS = {0: (0x7E00_0000_0000, 10), 2: (0x7E00_0010_0000, 3)}
"""Address and log2 of the entries of the event rings."""
EVENT_SIZE = 64
SLOTS = {0: 0x7D00_0000_0000}
"""Address of the unexpected slots, of the context that takes messages."""
RECEIVE_FIELDS = (
    "opcode", "flags", "counter", "target_context", "length", "tag", "ignore", "address", "context", "source_ip",
    "source_context", "least_space",
)  # fmt: skip
"""Of a receive descriptor, in order."""
RECEIVES = {0: (0x7C00_0000_0000, 6)}
"""Address and log2 of the entries of its receive ring."""


def counters_of(context):
    """The event counters of a context: of requests that only read, and of others."""
    return {"read_counter": 0x10 + context, "write_counter": 0x20 + context}


class Bench:
    """A target with all that it talks to."""

    def __init__(self, dut, pace=always, sink_pace=always, answer_base=ANSWER_BASE, link_pace=None):
        self.dut = dut
        self.parameters = NicParameters(
            data_width=WIDTH,
            target_pdcs=PDCS,
            **{name: value for name, value in PARAMETERS.items() if name not in ("width", "pdcs")},
        )
        self.sources = {
            name: StreamSource(dut, name, shape, pace=pace())
            for name, shape in (
                ("requests", FRAME_HEADER),
                ("request_payload", BEAT),
                ("key_stores", KEY_STORE),
                ("results", BEAT),
                ("event_heads", RING_INDEX),
                ("event_arms", RING_INDEX),
                ("receive_tails", RING_INDEX),
                ("slot_releases", SLOT_RELEASE),
                ("answer_data", read_beat(WIDTH)),
                ("receive_data", read_beat(WIDTH)),
            )
        }
        self.sinks = {
            name: StreamSink(dut, name, shape, pace=(link_pace if link_pace and name == "responses" else sink_pace)())
            for name, shape in (
                ("memory_requests", MEMORY_REQUEST),
                ("operands", BEAT),
                ("compares", BEAT),
                ("responses", FRAME_HEADER),
                ("response_payload", BEAT),
                ("answer_writes", write_beat(WIDTH)),
                ("event_writes", write_beat(WIDTH)),
                ("answer_reads", READ_REQUEST),
                ("receive_reads", READ_REQUEST),
                ("counts", COUNT_ORDER),
            )
        }
        self.contexts = [Context(number) for number in range(CONTEXTS)]
        for context in self.contexts:
            context.enabled = context.number != NOT_ENABLED
            context.domain, context.job_id, context.pid_on_fep = DOMAIN, JOB, PID + context.number
            context.events.base, context.events.size = RINGS.get(context.number, (0, 0))
            context.unexpected_base = SLOTS.get(context.number, 0)
            self.set_context(context.number, context.enabled)
        dut.answer_base.value = answer_base
        dut.retransmission.value = -1 & (1 << len(dut.retransmission)) - 1  # no PDC is ever idle
        self.answer_base = answer_base
        self.keys = KeyTable(KEYS)
        self.error_rate = self.read_error_rate = 0.0
        self.host_latency = 20
        self.resets = 0
        """Cycles of reset so far."""
        self.forget()
        for task in (
            self._watch(),
            self._execute(),
            self._read("answer_reads", "answer_data"),
            self._read("receive_reads", "receive_data"),
        ):
            cocotb.start_soon(task)

    def share(self, number, receiver):
        """Let the messages for a context meet another one's receives."""
        self.contexts[number].receiver = self.contexts[receiver]
        self.set_context(number, True, shares_receives=1, receive_context=receiver)

    def set_context(self, number, enabled, **changes):
        """Registers of a context; one that is disabled forgets its receive ring."""
        base, size = RINGS.get(number, (0, 0))
        self.receive_tail = 0
        fields = {"enable": enabled, "domain": DOMAIN, "job_id": JOB, "pid_on_fep": PID + number}
        fields |= {"event_base": base, "event_size": size} | counters_of(number)
        base, size = RECEIVES.get(number, (0, 0))
        fields |= {"receive_base": base, "receive_size": size, "unexpected_base": SLOTS.get(number, 0)}
        getattr(self.dut, f"contexts__{number}").value = pack(CONTEXT, fields | changes)

    def forget(self):
        """The state that the design forgets with a reset, and the observations so far."""
        self.rules = Sequence(PDCS, WINDOW, PARAMETERS["out_of_order_entries"], CONTEXTS)
        self.checker = RequestChecker(
            SimpleNamespace(parameters=self.parameters), Capabilities(self.parameters), self.contexts, self.keys
        )
        self.receive_tail = 0
        self.counts, self.traced, self.events_traced = Counter(), [], []
        self.interrupts = Counter()
        self.executed, self.results, self.orders = [], [], []
        self.host, self.responses, self._payloads = {}, [], []
        self._places = {}
        """Per stream of writes: where the next beat of the burst goes."""

    def store(self, slot, **entry):
        self.keys.store(slot, Key(**entry))
        self.sources["key_stores"].send({"slot": slot, "entry": entry})

    def post(self, *descriptors):
        """Write receive descriptors, their fields as RX_DESCRIPTOR names them, and ring the doorbell."""
        base, size = RECEIVES[0]
        for fields in descriptors:
            place = base + self.receive_tail % (1 << size) * 64
            content = struct.pack("<BBBBIQQQQIII12x", *(fields.get(name, 0) for name in RECEIVE_FIELDS))
            self.host |= {place + n: byte for n, byte in enumerate(content)}
            self.receive_tail = (self.receive_tail + 1) & 0xFFFF
        self.sources["receive_tails"].send({"context": 0, "index": self.receive_tail})

    def send(self, header, payload=b""):
        self.sources["requests"].send(header)
        if payload:
            self.sources["request_payload"].send(*beats_of(payload, WIDTH))

    def bytes_at(self, address, length):
        """Bytes of host memory; None if one of them was never written."""
        found = [self.host.get(place) for place in range(address, address + length)]
        return None if None in found else bytes(found)

    def answer_place(self, pdc, psn):
        return self.answer_base + (pdc * WINDOW + psn % WINDOW) * PAYLOAD

    def answers(self):
        """Responses with their data, in order."""
        payloads = iter(packets_of(self._payloads, WIDTH))
        result = [(h, next(payloads) if h["payload_length"] else b"") for h in self.responses]
        assert next(payloads, None) is None, "a payload without a header"
        return result

    def clear(self):
        """Forget the responses seen so far."""
        self.responses, self._payloads = [], []

    async def _watch(self):
        dut = self.dut
        counters = [(name, reader(getattr(dut, f"count_{name}"))) for name in COUNTS]
        in_reset, interrupts_of = reader(dut.rst), reader(dut.event_interrupts)
        checked, written = reader(dut.trace_request_checked), reader(dut.trace_event_written)
        while True:
            await RisingEdge(dut.clk)
            if in_reset():
                self.resets += 1
                continue
            for name, count in counters:
                self.counts[name] += count()
            if interrupts := interrupts_of():
                for context in range(CONTEXTS):
                    self.interrupts[context] += interrupts >> context & 1
            for bits, events in ((checked(), self.traced), (written(), self.events_traced)):
                slot = unpack(TRACE_SLOT, bits)
                if slot["valid"]:
                    events.append(slot["event"])
            # Writes first: what a response needs there was taken in an earlier cycle.
            self._take_writes()
            for header in self._drain("responses"):
                self.responses.append(header)
                self.counts["nacks_sent"] += header["is_control"]
                if self.on_response:
                    self.on_response(header)
            self._payloads += self._drain("response_payload")
            counts = self._drain("counts")
            self.orders += [(order["counter"], order["error"], order["context"]) for order in counts]

    on_response = None
    """Called with each response's header, when :attr:`host` has what was written before it was taken."""

    def _drain(self, name):
        received = self.sinks[name].received
        taken = list(received)
        received.clear()
        return taken

    def _take_writes(self):
        for name in ("answer_writes", "event_writes"):
            for beat in self._drain(name):
                if beat["first"]:
                    self._places[name] = beat["address"]
                    assert (beat["context"] == NO_CONTEXT) is (name == "answer_writes"), beat
                address = self._places[name]
                line = beat["data"].to_bytes(LINE, "little")
                self.host |= {address + n: line[n] for n in range(LINE) if beat["strobe"] >> n & 1}
                self._places[name] = address + LINE

    async def _read(self, reads, answers):
        """The host's side of reads: from the answer memory, or of receive descriptors."""
        while True:
            (read,) = await self.sinks[reads].receive(1)
            assert (read["context"] == NO_CONTEXT) is (reads == "answer_reads"), read
            resets = self.resets
            await ClockCycles(self.dut.clk, self.host_latency)
            if self.resets != resets:
                continue  # nobody waits for it any more
            first = read["address"] // LINE * LINE
            lines = range(first, read["address"] + read["length"], LINE)
            failed = random.random() < self.read_error_rate
            for address in lines:
                line = bytes(self.host.get(place, 0) for place in range(address, address + LINE))
                beat = {"data": int.from_bytes(line, "little"), "last": int(address == lines[-1])}
                self.sources[answers].send(beat | {"error": int(failed and beat["last"])})

    async def _packet(self, name):
        beats = []
        while not beats or not beats[-1]["last"]:
            beats += await self.sinks[name].receive(1)
        return packets_of(beats, WIDTH)[0]

    async def _execute(self):
        """Like the memory engine: operands and compare values are taken together, results are in order."""
        while True:
            (request,) = await self.sinks["memory_requests"].receive(1)
            operand = await self._packet("operands") if request["has_operand"] else None
            compare = await self._packet("compares") if request["has_compare"] else None
            failed = random.random() < self.error_rate
            data = random.randbytes(request["length"] if request["returns_data"] else 0)
            self.executed.append((request, operand, compare))
            self.results.append(None if failed else data)
            self.sources["results"].send(*beats_of(data, WIDTH, failed))

    async def settle(self, idle=60):
        """Wait until nothing has moved for a while."""
        quiet = 0
        while quiet < idle:
            await RisingEdge(self.dut.clk)
            seen = (len(self.responses), len(self._payloads), len(self.executed))
            moved = any(source.left for source in self.sources.values()) or seen != getattr(self, "_seen", None)
            self._seen, quiet = seen, 0 if moved else quiet + 1


def request(opcode=WRITE, length=8, payload=None, **fields):
    """A right request, unless ``fields`` say otherwise, and its payload: that of a write, if none is given."""
    payload = random.randbytes(length if payload is None else payload)
    atomics = {"atomic_opcode", "atomic_datatype", "semantic_control"}
    header = dict.fromkeys((name for name, _ in FRAME_HEADER), 0)
    header |= random_request(payload) | dict.fromkeys(atomics, 0)
    header |= {
        "opcode": opcode,
        "version": 0,
        "flags": WHOLE,
        "resource_index": 0,
        "retx": 0,
        "job_id": JOB,
        "pid_on_fep": PID,
        "buffer_offset": 64,
        "memory_key": 100,
        "request_length": length,
        "clear_psn_offset": 0xFFFF,
        "syn": 1,
        "dpdcid": 0,
        "ip": 1,
        "spdcid": 1,
    }
    return header | fields, payload


def answers_then_nacks(bench):
    """Responses with the NACKs, which may overtake answers, at the end."""
    return sorted(bench.responses, key=lambda header: header["is_control"])


def event_entry(bench, context, index):
    """An entry of a context's event ring as its fields, typed by hand; None if it was never written."""
    base, size = RINGS[context]
    content = bench.bytes_at(base + index % (1 << size) * EVENT_SIZE, EVENT_SIZE)
    if content is None:
        return None
    names = ["context", "data", "tag", "address", "length", "ip", "initiator", "pdc", "slot", "zeros"]
    names += ["target", "kind", "status", "flags"]
    return dict(zip(names, struct.unpack("<QQQQIIIHH12sBBBB", content), strict=True))


def expected_memory(checked, pdc, header):
    """The model's memory request as MEMORY_REQUEST and its operands."""
    kind = {None: 0 if checked.operand is None else 1}.get(checked.op, 2)
    return (
        {
            "address": checked.address,
            "context": checked.context,
            "length": checked.length,
            "kind": kind,
            "op": 0 if checked.op is None else int(checked.op),
            "datatype": 0 if checked.datatype is None else int(checked.datatype),
            "has_operand": int(bool(checked.operand)),
            "has_compare": int(bool(checked.compare)),
            "cswap_by_bits": int(checked.cswap_by_bits),
            "returns_data": int(checked.returns_data and checked.length > 0),
            "pdc": pdc,
            "psn": header["psn"],
        },
        checked.operand or None,
        checked.compare or None,
    )


def network_order(checked, data):
    """The data of the model's memory request as its answer carries it."""
    return data if checked.datatype is None else swap_bytes(data, number_size(checked.datatype))


def plain(executed):
    """Executed requests with numbers for enums, and without the operation that RMA does not have."""
    result = []
    for memory, operand, compare in executed:
        kind = int(memory["kind"].value)
        fields = memory | {"kind": kind} | ({"op": 0, "datatype": 0} if kind != 2 else {})
        result.append((fields, operand, compare))
    return result


class Initiator:
    """One PDC of an initiator that numbers requests as it should."""

    def __init__(self, bench, ip=1, spdcid=1, psn=None):
        self._bench = bench
        self.fields = {"ip": ip, "spdcid": spdcid}
        self.first = self.next = random.getrandbits(32) if psn is None else psn

    def send(self, opcode=WRITE, length=8, payload=None, **fields):
        """Send the next request, with SYN; returns its header and payload."""
        header, payload = request(opcode, length, payload)
        header |= self.numbered(self.next) | fields
        self._bench.send(header, payload)
        self.next = (self.next + 1) & 0xFFFF_FFFF
        return header, payload

    def numbered(self, psn):
        """The fields of a packet that say which it is; the answers to all before are at hand."""
        psn &= 0xFFFF_FFFF
        numbers = {"psn": psn, "dpdcid": (psn - self.first) & 0xFFFF, "syn": 1, "clear_psn_offset": 0xFFFF}
        return self.fields | numbers

    def close(self, **fields):
        return self.send(NO_OP, 0, 0, is_control=1, resource_index=0, **fields)


def store_keys(bench):
    """Regions that the tests use: 100 is right for everything, and 108 is told of by data."""
    region = {"base": 0x10_0000, "length": 0x4000, "domain": DOMAIN}
    both = READ_RIGHT | WRITE_RIGHT
    entries = {
        100: region | {"flags": VALID | both},
        101: region | {"flags": VALID | both | VIRTUAL},
        102: region | {"flags": VALID | READ_RIGHT},
        103: region | {"flags": VALID | WRITE_RIGHT},
        104: region | {"flags": both},
        105: region | {"flags": VALID | both, "domain": DOMAIN + 1},
        106: {"base": 2**64 - 64, "length": 128, "domain": DOMAIN, "flags": VALID | both},
        107: {"base": 2**64 - 64, "length": 64, "domain": DOMAIN, "flags": VALID | both | VIRTUAL},
        108: region | {"flags": VALID | both | DATA_RIGHT},
    }
    for key, entry in entries.items():
        entry |= {"read_counter": 0x30 + key % 100, "write_counter": 0x40 + key % 100}
        bench.store(next(iter(key_slots(key, KEYS))), key=key, **entry)
