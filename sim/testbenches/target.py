"""Testbench of Target: requests that are right and wrong, against the model's PdcTable and RequestChecker.

The bench plays the memory engine: it answers with random bytes, and refuses now and then.
Parameters: ``width``, ``payload``, ``pdcs``, ``keys``, ``contexts``.
"""

import random
from collections import Counter
from itertools import pairwise
from types import SimpleNamespace

import cocotb
from amoeba_hw.interfaces import CONTEXT, FRAME_HEADER, KEY_STORE, MEMORY_REQUEST, TRACE_SLOT, packet_beat
from amoeba_model.nic.capabilities import Capabilities
from amoeba_model.nic.checker import MemoryRequest, RequestChecker
from amoeba_model.nic.pdc import PdcTable
from amoeba_model.nic.tables import Context, Key, KeyTable
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import Counter as NicCounter
from amoeba_model.registers import key_slots
from amoeba_model.wire.codec import FrameHeader
from amoeba_model.wire.uet import ReturnCode
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import StreamSink, StreamSource, always, in_bursts, randomly, reset, start
from amoeba_sim.payload import pack, unpack
from cocotb.triggers import RisingEdge
from uet_frames import beats_of, packets_of, random_request

PARAMETERS = bench_parameters()
WIDTH, PAYLOAD = PARAMETERS["width"], PARAMETERS["payload"]
PDCS, KEYS, CONTEXTS = PARAMETERS["pdcs"], PARAMETERS["keys"], PARAMETERS["contexts"]
BEAT = packet_beat(WIDTH)
PACES = {"always": always, "randomly": lambda: randomly(0.5), "in bursts": lambda: in_bursts(9)}
COUNTS = ("requests_received", "refused_requests", "dropped_pdc", "dropped_sequence")

DOMAIN, JOB, PID = 5, 0x123456, 0x789
VALID, READ_RIGHT, WRITE_RIGHT, VIRTUAL = 1, 2, 4, 8
NO_OP, WRITE, READ, ATOMIC, FETCHING, VENDOR = 0, 1, 2, 3, 4, 0x30
WHOLE = 3
INITIATOR_ERROR = 0x10
# UET's numbers.
SUM, ATOMIC_READ, CSWAP, MSWAP, INVAL = 2, 0xB, 0xD, 0x13, 0x14
UINT8, UINT32, UINT64, FLOAT, LONG_DOUBLE_COMPLEX = 1, 5, 7, 0xA, 0xF


class Bench:
    """A target with its contexts, keys, counters and a memory engine."""

    def __init__(self, dut, pace=always, sink_pace=always):
        self.dut = dut
        self.parameters = NicParameters(
            data_width=WIDTH, payload=PAYLOAD, target_pdcs=PDCS, keys=KEYS, contexts=CONTEXTS
        )
        self.sources = {
            name: StreamSource(dut, name, shape, pace=pace())
            for name, shape in (
                ("requests", FRAME_HEADER),
                ("request_payload", BEAT),
                ("key_stores", KEY_STORE),
                ("results", BEAT),
            )
        }
        self.sinks = {
            name: StreamSink(dut, name, shape, pace=sink_pace())
            for name, shape in (
                ("memory_requests", MEMORY_REQUEST),
                ("operands", BEAT),
                ("compares", BEAT),
                ("responses", FRAME_HEADER),
                ("response_payload", BEAT),
            )
        }
        self.contexts = [Context(number) for number in range(CONTEXTS)]
        for context in self.contexts:
            context.enabled = context.number != 1
            context.domain, context.job_id, context.pid_on_fep = DOMAIN, JOB, PID + context.number
            fields = {"enable": context.enabled, "domain": DOMAIN, "job_id": JOB, "pid_on_fep": PID + context.number}
            getattr(dut, f"contexts__{context.number}").value = pack(CONTEXT, fields)
        self.keys = KeyTable(KEYS)
        self.forget()
        self.error_rate = 0.0
        cocotb.start_soon(self._watch())
        cocotb.start_soon(self._execute())

    def forget(self):
        """What the design forgets with a reset, and what has been seen so far."""
        self.pdcs = PdcTable(PDCS)
        self.checker = RequestChecker(
            SimpleNamespace(parameters=self.parameters), Capabilities(self.parameters), self.contexts, self.keys
        )
        self.counts, self.traced, self.executed, self.results = Counter(), [], [], []

    def store(self, slot, **entry):
        self.keys.store(slot, Key(**entry))
        self.sources["key_stores"].send({"slot": slot, "entry": entry})

    def send(self, header, payload):
        self.sources["requests"].send(header)
        if payload:
            self.sources["request_payload"].send(*beats_of(payload, WIDTH))

    async def _watch(self):
        while True:
            await RisingEdge(self.dut.clk)
            for name in COUNTS:
                self.counts[name] += int(getattr(self.dut, f"count_{name}").value)
            slot = unpack(TRACE_SLOT, int(self.dut.trace_request_checked.value))
            if slot["valid"]:
                self.traced.append(slot["event"])

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

    async def settle(self, idle=40):
        """Wait until nothing has moved for a while."""
        quiet = 0
        while quiet < idle:
            await RisingEdge(self.dut.clk)
            quiet += 1
            if any(source.left for source in self.sources.values()):
                quiet = 0

    def responses(self):
        payloads = iter(packets_of(self.sinks["response_payload"].received, WIDTH))
        headers = self.sinks["responses"].received
        result = [(h, next(payloads) if h["payload_length"] else b"") for h in headers]
        assert next(payloads, None) is None, "a payload without a header"
        return result


def request(opcode=WRITE, length=8, payload=None, **fields):
    """A right request, unless ``fields`` say otherwise, and its payload: that of a write, if none is given."""
    payload = random.randbytes(length if payload is None else payload)
    widths = {"atomic_opcode", "atomic_datatype", "semantic_control"}
    header = random_request(payload) | dict.fromkeys(widths, 0)
    header |= {
        "opcode": opcode,
        "version": 0,
        "flags": WHOLE,
        "resource_index": 0,
        "job_id": JOB,
        "pid_on_fep": PID,
        "buffer_offset": 64,
        "memory_key": 100,
        "request_length": length,
        "syn": 1,
        "dpdcid": 0,
        "ip": 1,
        "spdcid": 1,
    }
    return header | fields, payload


def store_keys(bench):
    """Regions that the tests use: 100 is right for everything."""
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
    }
    for key, entry in entries.items():
        bench.store(next(iter(key_slots(key, KEYS))), key=key, **entry)


REFUSALS = {
    "version": (request(version=1), 0x18),
    "no end of message": (request(flags=1), 0x18),
    "no start of message": (request(flags=2), 0x18),
    "version before all else": (request(version=1, opcode=NO_OP, resource_index=99), 0x18),
    "no-op": (request(opcode=NO_OP, resource_index=99), 1),
    "no-op with a payload": (request(opcode=NO_OP, payload=70), 1),
    "initiator's error": (request(flags=WHOLE | INITIATOR_ERROR, job_id=0), 1),
    "context that does not exist": (request(resource_index=CONTEXTS), 0x19),
    "context that is not enabled": (request(resource_index=1), 0x19),
    "job": (request(job_id=JOB + 1, pid_on_fep=0), 0x1B),
    "process": (request(pid_on_fep=PID + 1), 0x1A),
    "send": (request(opcode=5), 6),
    "unknown opcode": (request(opcode=0x3F), 6),
    "atomic INVAL": (request(opcode=ATOMIC, atomic_opcode=INVAL), 0xF),
    "atomic opcode 255": (request(opcode=ATOMIC, atomic_opcode=255), 0xF),
    "CSWAP in base form": (request(opcode=ATOMIC, atomic_opcode=CSWAP, atomic_datatype=UINT64), 0xF),
    "READ in base form": (request(opcode=ATOMIC, atomic_opcode=ATOMIC_READ, atomic_datatype=UINT64), 0xF),
    "SUM in compare form": (request(opcode=VENDOR, payload=16, atomic_opcode=SUM, atomic_datatype=UINT64), 0xF),
    "datatype 31": (request(opcode=ATOMIC, atomic_opcode=SUM, atomic_datatype=31), 0x10),
    "MSWAP of floats": (request(opcode=FETCHING, payload=32, atomic_opcode=MSWAP, atomic_datatype=FLOAT), 0x10),
    "write longer than a payload": (request(length=PAYLOAD + 8), 7),
    "write of 4 GiB": (request(payload=8, request_length=2**32 - 8), 7),
    "write with too few bytes": (request(payload=7), 7),
    "write with too many bytes": (request(payload=9), 7),
    "read with a payload": (request(opcode=READ, payload=1), 7),
    "read longer than a payload": (request(opcode=READ, length=PAYLOAD + 1, payload=0), 7),
    "atomic of no byte": (request(opcode=ATOMIC, length=0, atomic_opcode=SUM, atomic_datatype=UINT64), 0x11),
    "atomic of part of an element": (
        request(opcode=ATOMIC, length=12, atomic_opcode=SUM, atomic_datatype=UINT64),
        0x11,
    ),
    "atomic longer than a payload": (
        request(opcode=ATOMIC, length=PAYLOAD + 8, atomic_opcode=SUM, atomic_datatype=UINT64),
        0x11,
    ),
    "fetch without operands": (
        request(opcode=FETCHING, payload=0, atomic_opcode=SUM, atomic_datatype=UINT64),
        0x11,
    ),
    "atomic read with operands": (
        request(opcode=FETCHING, atomic_opcode=ATOMIC_READ, atomic_datatype=UINT64),
        0x11,
    ),
    "CSWAP of two elements": (
        request(opcode=FETCHING, length=16, payload=32, atomic_opcode=CSWAP, atomic_datatype=UINT64),
        0x11,
    ),
    "CSWAP of 32 bytes in the extension": (
        request(opcode=FETCHING, length=32, atomic_opcode=CSWAP, atomic_datatype=LONG_DOUBLE_COMPLEX),
        0x11,
    ),
    "CSWAP without its values": (
        request(opcode=FETCHING, payload=16, atomic_opcode=CSWAP, atomic_datatype=UINT64),
        0x11,
    ),
    "vendor compare with half its bytes": (
        request(opcode=VENDOR, length=16, atomic_opcode=CSWAP, atomic_datatype=UINT64),
        0x11,
    ),
    "vendor compare of more than half a payload": (
        request(
            opcode=VENDOR,
            length=PAYLOAD // 2 + 8,
            payload=PAYLOAD + 16,
            atomic_opcode=CSWAP,
            atomic_datatype=UINT64,
        ),
        0x11,
    ),
    "unknown key": (request(memory_key=99), 0x1C),
    "key with other high bits": (request(memory_key=100 | 1 << 40 | 1 << 56), 0x1C),
    "key that is not valid": (request(memory_key=104), 0x1C),
    "other domain": (request(memory_key=105), 0x17),
    "write without the right": (request(memory_key=102), 0x17),
    "read without the right": (request(opcode=READ, payload=0, memory_key=103), 0x17),
    "atomic without the right to write": (
        request(opcode=ATOMIC, memory_key=102, atomic_opcode=SUM, atomic_datatype=UINT64),
        0x17,
    ),
    "fetch without the right to read": (
        request(opcode=FETCHING, memory_key=103, atomic_opcode=SUM, atomic_datatype=UINT64),
        0x17,
    ),
    "fetch without the right to write": (
        request(opcode=FETCHING, memory_key=102, atomic_opcode=SUM, atomic_datatype=UINT64),
        0x17,
    ),
    "last byte outside": (request(buffer_offset=0x4000 - 7), 0x1D),
    "all bytes outside": (request(buffer_offset=2**64 - 4), 0x1D),
    "below a virtual region": (request(memory_key=101, buffer_offset=0x10_0000 - 1), 0x1D),
    "behind a virtual region": (request(memory_key=101, buffer_offset=0x10_4000 - 7), 0x1D),
    "offset taken for an address": (request(memory_key=101, buffer_offset=0), 0x1D),
    "wraps around within the region": (request(memory_key=106, buffer_offset=60), 0x1D),
}
"""Requests that execute nothing, and their return codes as UET numbers them."""


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def every_check_has_its_return_code_and_touches_nothing(dut):
    bench = Bench(dut)
    await start(dut)
    store_keys(bench)
    await bench.sources["key_stores"].sent()
    for header, payload in (case for case, _ in REFUSALS.values()):
        bench.send(header, payload)
    right, content = request()
    bench.send(right, content)
    await bench.settle()
    answered = bench.responses()
    seen = {name: answer["return_code"] for name, (answer, _) in zip(REFUSALS, answered, strict=False)}
    assert seen == {name: code for name, (_, code) in REFUSALS.items()}
    assert all(data == b"" for _, data in answered)
    for (answer, _), ((sent, _), code) in zip(answered, REFUSALS.values(), strict=False):
        assert answer["modified_length"] == (sent["request_length"] if code == 1 else 0)
        assert (answer["psn"], answer["message_id"], answer["dpdcid"]) == (sent["psn"], sent["message_id"], 1)
    # The right request at the end is the only one that is executed, with its own bytes.
    assert [(r["address"], operand) for r, operand, _ in bench.executed] == [(0x10_0040, content)]
    assert answered[-1][0]["return_code"] == 1
    codes = [code for _, code in REFUSALS.values()]
    assert bench.counts["requests_received"] == len(REFUSALS) + 1
    assert bench.counts["refused_requests"] == sum(code != 1 for code in codes)
    assert [event["status"] for event in bench.traced] == [*codes, 1]


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def operands_and_compare_values_are_cut_out_of_the_payload(dut):
    bench = Bench(dut)
    await start(dut)
    store_keys(bench)
    await bench.sources["key_stores"].sent()
    compare_16, swap_16 = bytes(range(16)), bytes(range(100, 116))
    header, _ = request(opcode=FETCHING, length=8, payload=32, atomic_opcode=CSWAP, atomic_datatype=UINT64)
    bench.send(header, compare_16 + swap_16)
    expected = [(swap_16[:8], compare_16[:8])]
    for length in (*range(1, 2 * WIDTH // 8 + 2), PAYLOAD // 2):
        header, payload = request(
            opcode=VENDOR, length=length, payload=2 * length, atomic_opcode=CSWAP, atomic_datatype=UINT8
        )
        bench.send(header, payload)
        expected.append((payload[:length], payload[length:]))
    await bench.settle(200)
    assert [(operand, compare) for _, operand, compare in bench.executed] == expected


def random_atomic():
    op, datatype = random.choice(list(Op)), random.choice(list(Datatype))
    codes = {"atomic_opcode": _uet_opcode(op), "atomic_datatype": _uet_datatype(datatype)}
    most = PAYLOAD // datatype.size
    count = random.choice([1, 1, 1, 2, 5, most // 2, most])
    length = count * datatype.size
    if op in range(Op.FI_CSWAP, Op.FI_MSWAP + 1):
        if random.random() < 0.5:
            return request(FETCHING, datatype.size, 32, **codes)
        length = min(length, PAYLOAD // 2)
        return request(VENDOR, length, 2 * length, **codes)
    if op is Op.FI_ATOMIC_READ:
        return request(FETCHING, length, 0, **codes)
    return request(random.choice([ATOMIC, FETCHING]), length, **codes)


def _uet_opcode(op):
    """By UET's list, whose order is libfabric's but for DIFF, which stands behind SUM."""
    return 3 if op is Op.FI_DIFF else op + (op > Op.FI_SUM)


def _uet_datatype(datatype):
    numbers = [0, 1, 2, 3, 4, 5, 6, 7, 0xA, 0xB, 0xC, 0xD, 0xE, 0xF, 8, 9, 0x11, 0x10, 0xE0, 0xE1]
    return numbers[datatype]


def random_traffic():
    """A request that is probably right, or wrong in some way, but for its PDC."""
    kind = random.choice(["write", "read", "atomic", "atomic"])
    if kind == "atomic":
        header, payload = random_atomic()
    else:
        length = random.choice([0, 1, 8, 64, PAYLOAD, random.randint(0, PAYLOAD)])
        header, payload = request(WRITE if kind == "write" else READ, length, None if kind == "write" else 0)
    header["resource_index"] = random.choice([0, 0, 2])
    header["pid_on_fep"] = PID + header["resource_index"]
    header["memory_key"] = random.choice([100, 100, 101, 200, 201])
    virtual = header["memory_key"] in (101, 201)
    offset = random.choice([0, 1, 64, 0x4000 - header["request_length"]])
    header["buffer_offset"] = offset + (0x10_0000 if virtual else 0)
    header["semantic_control"] = random.choice([0, 0x80]) if kind == "atomic" else 0
    if random.random() < 0.3:
        name, value = random.choice(
            [
                ("version", 1),
                ("flags", random.getrandbits(6)),
                ("opcode", random.getrandbits(6)),
                ("resource_index", random.randrange(CONTEXTS + 2)),
                ("job_id", 0),
                ("request_length", random.choice([0, 1, 8, PAYLOAD, PAYLOAD + 1, 2**31])),
                ("atomic_opcode", random.getrandbits(8)),
                ("atomic_datatype", random.getrandbits(5)),
                ("memory_key", random.randrange(98, 110)),
                ("buffer_offset", random.choice([0x3FFF, 2**64 - 1, 0x10_3FFF])),
            ]
        )
        header[name] = value
    if header["opcode"] not in (ATOMIC, FETCHING, VENDOR):
        # A frame without the atomic extension leaves these zero.
        header |= dict.fromkeys(("atomic_opcode", "atomic_datatype", "semantic_control"), 0)
    return header, payload


class Senders:
    """Initiators' PDCs, more than the table holds, that mostly behave."""

    def __init__(self):
        self._pdcs = [
            {"ip": random.randrange(4), "spdcid": number, "psn": random.getrandbits(32)}
            | dict.fromkeys(("first", "dpdcid"))
            for number in range(PDCS + 2)
        ]

    def address(self, header, pdcs):
        """Fill in the PDS fields; ``pdcs`` is the model's table before the request."""
        sender = random.choice(self._pdcs[:4] if random.random() < 0.7 else self._pdcs)
        if sender["first"] is None or random.random() < 0.02:
            sender["first"], sender["dpdcid"] = sender["psn"], None
        header |= {"ip": sender["ip"], "spdcid": sender["spdcid"], "psn": sender["psn"]}
        offset = (sender["psn"] - sender["first"]) & 0xFFFF
        use_syn = sender["dpdcid"] is None or offset == 0 or random.random() < 0.3
        header["syn"], header["dpdcid"] = int(use_syn), offset if use_syn else sender["dpdcid"]
        if random.random() < 0.1:
            name = random.choice(["psn", "dpdcid", "spdcid", "ip"])
            header[name] = random.choice([0, 1, PDCS, header[name] ^ 1])
        accepted = pdcs.accept(FrameHeader(**header))
        if not isinstance(accepted, NicCounter):
            sender["psn"] = (header["psn"] + 1) & 0xFFFF_FFFF
            if (header["ip"], header["spdcid"]) == (sender["ip"], sender["spdcid"]):
                sender["dpdcid"] = accepted
        else:
            sender["first"] = None
        return accepted


def expected_memory(checked, pdc, header):
    """The model's memory request as MEMORY_REQUEST and its operands."""
    kind = {None: 0 if checked.operand is None else 1}.get(checked.op, 2)
    return (
        {
            "address": checked.address,
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


def plain(executed):
    """Executed requests with numbers for enums, and without the operation that RMA does not have."""
    result = []
    for memory, operand, compare in executed:
        kind = int(memory["kind"].value)
        fields = memory | {"kind": kind} | ({"op": 0, "datatype": 0} if kind != 2 else {})
        result.append((fields, operand, compare))
    return result


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES), sink_pace=list(PACES))
async def random_traffic_is_treated_as_the_model_treats_it(dut, pace, sink_pace):
    bench = Bench(dut, PACES[pace], PACES[sink_pace])
    bench.error_rate = 0.1
    await start(dut)
    store_keys(bench)
    # Keys whose slots are taken: they lie further down the row.
    taken = {next(iter(key_slots(key, KEYS))) for key in range(100, 108)}
    for key, like in ((200, 100), (201, 101)):
        entry = bench.keys.find(like)
        free = [slot for slot in key_slots(key, KEYS) if slot not in taken]
        bench.store(
            free[-1], key=key, base=entry.base, length=entry.length, domain=entry.domain, flags=entry.flags
        )
    bench.sources["key_stores"].send({"slot": KEYS, "entry": {"key": 100, "flags": 0}})
    await bench.sources["key_stores"].sent()
    senders, memory, answers, drops = Senders(), [], [], Counter()
    for _ in range(150):
        header, payload = random_traffic()
        pdc = senders.address(header, bench.pdcs)
        bench.send(header, payload)
        if isinstance(pdc, NicCounter):
            drops[pdc.name.lower()] += 1
            continue
        checked = bench.checker.check(FrameHeader(**header), payload)
        if isinstance(checked, MemoryRequest):
            memory.append(expected_memory(checked, pdc, header))
        answers.append((header, pdc, checked))
    await bench.settle(400)
    for seen, wanted in zip(plain(bench.executed), memory, strict=False):
        assert seen[0] == wanted[0], {n: (seen[0][n], value) for n, value in wanted[0].items() if seen[0][n] != value}
        assert seen[1:] == wanted[1:]
    assert len(bench.executed) == len(memory)
    results = iter(bench.results)
    expected, refused = [], 0
    for header, pdc, checked in answers:
        code, data = int(ReturnCode.OK), b""
        if isinstance(checked, ReturnCode):
            code = int(checked)
        else:
            data = next(results)
            if data is None:
                code, data = int(ReturnCode.HOST_UNSUCCESS_CMPL), b""
        refused += code != 1
        answer = dict.fromkeys((name for name, _ in FRAME_HEADER), 0)
        answer |= {name: header[name] for name in ("mac", "ip", "port", "psn", "message_id", "job_id")}
        answer |= {"spdcid": pdc, "dpdcid": header["spdcid"], "opcode": 2 if data else 1, "return_code": code}
        answer |= {"payload_length": len(data), "modified_length": header["request_length"] if code == 1 else 0}
        expected.append((answer, data))
    assert bench.responses() == expected
    assert bench.counts == Counter(requests_received=len(answers), refused_requests=refused) + drops
    assert min(drops["dropped_pdc"], drops["dropped_sequence"], refused, len(memory)) > 0


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def small_requests_are_checked_every_third_cycle(dut):
    bench = Bench(dut)
    await start(dut)
    store_keys(bench)
    await bench.sources["key_stores"].sent()
    arrivals, offers = [], []

    async def watch():
        cycle = 0
        while True:
            await RisingEdge(dut.clk)
            cycle += 1
            if dut.memory_requests__valid.value and dut.memory_requests__ready.value:
                arrivals.append(cycle)
            if dut.requests__valid.value:
                offers.append(cycle)

    cocotb.start_soon(watch())
    for _ in range(20):
        bench.send(*request(opcode=FETCHING, atomic_opcode=SUM, atomic_datatype=UINT32))
    await bench.settle()
    assert [b - a for a, b in pairwise(arrivals)] == [3] * 19
    assert arrivals[0] - offers[0] == 6


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def reset_in_mid_traffic_forgets_pdcs_keys_and_requests(dut):
    bench = Bench(dut, PACES["randomly"], PACES["randomly"])
    await start(dut)
    for _ in range(10):
        store_keys(bench)
        await bench.sources["key_stores"].sent()
        for _ in range(6):
            bench.send(*request(opcode=FETCHING, length=64, atomic_opcode=SUM, atomic_datatype=UINT64))
        for _ in range(random.randint(1, 60)):
            await RisingEdge(dut.clk)
        await reset(dut)
        await bench.settle()
        bench.forget()
        for sink in bench.sinks.values():
            sink.received.clear()
        # Not opened any more, and the key is gone.
        bench.send(*request(syn=0, dpdcid=0))
        bench.send(*request(opcode=READ, payload=0))
        await bench.settle()
        assert bench.counts == Counter(dropped_pdc=1, requests_received=1, refused_requests=1)
        assert [answer["return_code"] for answer, _ in bench.responses()] == [0x1C]
