"""Testbench of RequestChecker: what messages and tagged atomics are when they go to be matched.

The model's RequestChecker decides which requests are refused, and with which return code, also for the packets of
WRITEs and atomics of several packets. Other RMA and atomics on registered memory, and what is cut out of payloads,
are target_traffic's. Parameters: ``payload``, ``contexts``.

Covers ``target/atomic_codes.py`` and ``target/open_messages.py``.
"""

import random
from types import SimpleNamespace

import cocotb
from amoeba_hw.interfaces import CONTEXT
from amoeba_hw.request_records import CHECKED_REQUEST, LOCATED_REQUEST
from amoeba_model.nic.capabilities import Capabilities
from amoeba_model.nic.checker import RequestChecker
from amoeba_model.nic.open_messages import follow_message
from amoeba_model.nic.tables import Context, Key, KeyTable
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import key_slots
from amoeba_model.wire.codec import FrameHeader
from amoeba_model.wire.uet import ReturnCode
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import StreamSink, StreamSource, always, in_bursts, randomly, start
from amoeba_sim.payload import pack

from tests.hw.target.parts import WITH_KEY, random_parts
from tests.hw.target.rules import MESSAGES
from tests.hw.uet_frames import random_request

PARAMETERS = bench_parameters()
PAYLOAD, CONTEXTS = PARAMETERS["payload"], PARAMETERS["contexts"]
PACES = {"always": always, "randomly": lambda: randomly(0.5), "in bursts": lambda: in_bursts(9)}
JOB, PID, DOMAIN = 0x123456, 0x789, 5
BASES = [(64, 4096), (64, 4096), (64, 0), (0, 4096)]
"""Per context: event_base and unexpected_base; the second one is not enabled."""
NOT_ENABLED = 1

SEND, RENDEZVOUS_SEND, TAGGED_SEND, RENDEZVOUS_TSEND, TSEND_ATOMIC, TSEND_FETCH = 5, 6, 9, 0xA, 0xD, 0xE
IN_PARTS = (SEND, TAGGED_SEND)
SENDS, RENDEZVOUS, TAGGED = {5, 6, 9, 0xA}, {6, 0xA}, {9, 0xA, 0xD, 0xE}
START, END, HEADER_DATA, RELATIVE, INITIATOR_ERROR, DELIVERY_COMPLETE, WHOLE = 1, 2, 4, 8, 0x10, 0x20, 3
WRITE_KIND, ATOMIC_KIND = 1, 2
OK = 1
IMMEDIATE_EVENT, TAGGED_EVENT = 1, 2
KEYS, REGION = 64, 0x10_0000
KEY_FLAGS = {100: 7, 101: 15, 102: 3, 103: 5}
"""By key: VALID, REMOTE_READ, REMOTE_WRITE and VIRTUAL, as bits."""
SUM, ATOMIC_READ, UINT64 = 2, 0xB, 7
# Libfabric's numbers.
FI_SUM, FI_ATOMIC_READ, FI_UINT64 = 2, 10, 7


class Bench:
    def __init__(self, dut, pace=always, sink_pace=always):
        parameters = NicParameters(payload=PAYLOAD, contexts=CONTEXTS)
        self.contexts = [Context(number) for number in range(CONTEXTS)]
        for context, (event_base, unexpected_base) in zip(self.contexts, BASES, strict=True):
            context.enabled = context.number != NOT_ENABLED
            context.events.base, context.unexpected_base = event_base, unexpected_base
            context.job_id, context.pid_on_fep, context.domain = JOB, PID, DOMAIN
            context.read_counter = context.write_counter = 9
            context.relative = bool(context.number & 1)
            fields = {"event_base": event_base, "unexpected_base": unexpected_base, "enable": context.enabled}
            fields |= {name: getattr(context, name) for name in ("job_id", "pid_on_fep", "domain")}
            fields |= {name: getattr(context, name) for name in ("read_counter", "write_counter", "relative")}
            getattr(dut, f"contexts__{context.number}").value = pack(CONTEXT, fields)
        # Messages of the last one go to the first one's receives.
        self.contexts[-1].receiver = self.contexts[0]
        dut.takes_messages.value = sum(context.takes_messages() << context.number for context in self.contexts)
        dut.keeps_data.value = 1
        core = SimpleNamespace(parameters=parameters)
        self.keys = KeyTable(KEYS)
        taken = set()
        for key, flags in KEY_FLAGS.items():
            slot = next(slot for slot in key_slots(key, KEYS) if slot not in taken)
            taken.add(slot)
            self.keys.store(slot, Key(key, REGION, 0x4000, DOMAIN, flags))
        self.model = RequestChecker(core, Capabilities(parameters), self.contexts, self.keys)
        self.located = StreamSource(dut, "located", LOCATED_REQUEST, pace=pace())
        self.checked = StreamSink(dut, "checked", CHECKED_REQUEST, pace=sink_pace())

    def send_part(self, header, **fields):
        """Send a request for registered memory, with what the KeyTable finds of its key."""
        request = {"header": header, "generation": 3, "receiver": header["resource_index"] & 0xFF} | fields
        key = self.keys.find(header["memory_key"])
        names = ("key", "base", "length", "domain", "flags", "read_counter", "write_counter")
        entry = {} if key is None else {name: getattr(key, name) for name in names}
        self.located.send({"request": request, "found": int(key is not None), "entry": entry})

    def send(self, header, **fields):
        """Send a request; returns it as it was sent. The KeyTable may show anything for a message."""
        request = {"header": header, "pdc": 6, "reserved": 1, "slot_reserved": 1, "generation": 3} | fields
        request |= {"receiver": random.getrandbits(8), "target_generation": random.getrandbits(4)}
        request |= {"receive_kept": random.getrandbits(1)}
        entry = {name: random.getrandbits(8) for name in ("domain", "flags", "read_counter", "write_counter")}
        entry |= {name: random.getrandbits(64) for name in ("key", "base", "length")}
        self.located.send({"request": request, "found": 0, "entry": entry})
        return request


def message(opcode, length=8, payload_length=None, **fields):
    """The header of a right message, unless ``fields`` say otherwise."""
    header = random_request(b"") | {"payload_length": length if payload_length is None else payload_length}
    header |= {"opcode": opcode, "request_length": length, "version": 0, "flags": WHOLE, "resource_index": 0}
    header |= {"job_id": JOB, "pid_on_fep": PID, "is_control": 0, "semantic_control": 0}
    is_atomic = opcode in (TSEND_ATOMIC, TSEND_FETCH)
    header |= {"atomic_opcode": SUM * is_atomic, "atomic_datatype": UINT64 * is_atomic}
    return header | fields


def random_message():
    """Right, or wrong in some way."""
    opcode = random.choice(list(MESSAGES))
    length = random.choice([32, 32, 31, 33]) if opcode in RENDEZVOUS else random.choice([8, 64, PAYLOAD])
    header = message(opcode, length)
    header["flags"] |= random.choice([0, HEADER_DATA]) | random.choice([0, DELIVERY_COMPLETE])
    header["flags"] |= random.choice([0, 0, 0, RELATIVE])
    if random.random() < 0.6:
        name, value = random.choice(
            [
                ("version", 1),
                ("flags", random.getrandbits(6)),
                ("resource_index", random.randrange(CONTEXTS + 1)),
                ("job_id", 0),
                ("pid_on_fep", 0),
                ("request_length", random.choice([0, 1, 8, 31, 33, PAYLOAD + 8, 2**31])),
                ("payload_length", random.choice([0, 1, 8, 33])),
                ("atomic_opcode", random.getrandbits(8)),
                ("atomic_opcode", random.randrange(0x15)),
                ("atomic_datatype", random.getrandbits(5)),
            ]
        )
        header[name] = value
    return header


def check(bench, request, checked):
    """The output is the model's, and nothing in it has to do with a key."""
    header = request["header"]
    fields = FrameHeader(**header)
    # None continues a message: all have different ones.
    _, verdict = follow_message(None, fields, bench.model.check(fields, bytes(header["payload_length"])), True)
    code = int(verdict) if isinstance(verdict, ReturnCode) else OK
    executed = not isinstance(verdict, ReturnCode)
    answer, opcode = checked["answer"], header["opcode"]
    assert (answer["return_code"], answer["executed"]) == (code, executed), (header, verdict)
    assert checked["message"] == {
        "valid": 1,
        "tagged": opcode in TAGGED,
        "rendezvous": opcode in RENDEZVOUS,
        "atomic": opcode not in SENDS,
        "slot_reserved": request["slot_reserved"],
        "receive_kept": request["receive_kept"],
        "divided": header["flags"] & WHOLE != WHOLE,
        "ends": header["flags"] & END != 0,
        "target_generation": request["target_generation"],
    }
    assert answer["counters"] == [0, 0, 0]
    assert (answer["silent"], checked["dropped"], checked["context"]) == (0, 0, header["resource_index"] & 0xFF)
    assert checked["has_payload"] == (header["payload_length"] != 0)
    immediate = header["flags"] & (HEADER_DATA | START) == HEADER_DATA | START
    event = answer["event"]
    if not header["flags"] & START:
        # Refused: the last packet of nothing may bring along what another message left there.
        event |= {"data": 0, "flags": TAGGED_EVENT if opcode in TAGGED else 0}
    assert event == {
        "reserved": request["reserved"],
        "context": request["receiver"],
        "generation": request["generation"],
        "regardless": 0,
        "kind": 0,
        "flags": (IMMEDIATE_EVENT if immediate else 0) | (TAGGED_EVENT if opcode in TAGGED else 0),
        "status": OK,
        "user_context": 0,
        "data": header["header_data"] if immediate else 0,
        "tag": header["memory_key"] if opcode in TAGGED else 0,
        "address": header["buffer_offset"],
        "length": header["request_length"],
        "slot": 0,
        "initiator": header["initiator"],
        "target": header["resource_index"] & 0xFF,
    }
    if executed:
        check_memory(verdict, header, checked)
    else:
        assert (answer["returns_data"], answer["copied"]) == (0, 0)
        assert (checked["job"]["has_operand"], checked["job"]["has_compare"]) == (0, 0)
    return code


def check_memory(verdict, header, checked):
    memory, job = checked["memory"], checked["job"]
    is_atomic = header["opcode"] not in SENDS
    fetches = header["opcode"] == TSEND_FETCH
    has_operand = int(bool(verdict.operand))
    place = header["buffer_offset"] if header["flags"] & WHOLE == WHOLE else verdict.offset
    assert (memory["address"], memory["length"]) == (place, verdict.length)
    assert memory["context"] == checked["answer"]["event"]["context"]
    assert memory["kind"].value == (ATOMIC_KIND if is_atomic else WRITE_KIND)
    assert (memory["has_operand"], memory["has_compare"], memory["returns_data"]) == (has_operand, 0, fetches)
    if is_atomic:
        assert (memory["op"], memory["datatype"]) == (verdict.op, verdict.datatype)
    assert (job["has_operand"], job["has_compare"], job["operand"]["skip"]) == (has_operand, 0, 0)
    assert job["operand"]["length"] == verdict.length
    assert checked["answer"]["returns_data"] == fetches
    assert checked["answer"]["copied"] == (fetches and memory["length"] > 16)


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES), sink_pace=list(PACES))
async def messages_are_refused_for_the_model_s_reason_and_else_passed_on(dut, pace, sink_pace):
    bench = Bench(dut, PACES[pace], PACES[sink_pace])
    await start(dut)
    sent = [bench.send(random_message()) for _ in range(800)]
    codes = [check(bench, *pair) for pair in zip(sent, await bench.checked.receive(len(sent)), strict=True)]
    # Each code that a message can have but for AMO_UNSUPPORTED_OP and _DT, which few have.
    assert {OK, 3, 7, 0x11, 0x18, 0x19, 0x1A, 0x1B} <= set(codes)


class Senders:
    """Initiators that send messages in parts, mixed with one another and with requests of one packet."""

    def __init__(self, bench):
        self._bench = bench
        self._parts = {pdc: [] for pdc in range(4)}
        self._messages, self._epochs = dict.fromkeys(self._parts), dict.fromkeys(self._parts, 0)
        self.expected = []
        """(header, verdict, message, whether it is the last part, whether an event entry is reserved) of each."""

    def send(self):
        pdc = random.choice(list(self._parts))
        if random.random() < 0.02:
            self._messages[pdc], self._epochs[pdc] = None, self._epochs[pdc] + 1
        if not self._parts[pdc]:
            key, context = random.choice([100, 100, 100, 101, 101, 102, 103, 7]), random.choice([0, 0, 0, 2, 3, 1])
            place = random.choice([0, 64, 0x4000 - 24]) + (REGION if key == 101 else 0)
            same = {"memory_key": key, "buffer_offset": place, "resource_index": context}
            self._parts[pdc] = random_parts(PAYLOAD, same, [*WITH_KEY, *IN_PARTS])
        if random.random() < 0.1:
            header = message(random.choice([0, 1, 2, 0xF]), flags=random.choice([WHOLE, 2, 0x12]), memory_key=100)
        else:
            part = self._parts[pdc].pop(0)
            header = part.spoil(message(part.opcode, part.length, part.payload_length, **part.fields))
        dropped = random.random() < 0.1
        reserved = int(random.random() < 0.9)
        if not dropped:
            self._judge(pdc, header, reserved)
        self._bench.send_part(header, pdc=pdc, epoch=self._epochs[pdc], reserved=reserved, dropped=int(dropped))

    def _judge(self, pdc, header, reserved):
        is_message = header["opcode"] in IN_PARTS
        checked = self._bench.model.check(FrameHeader(**header), bytes(header["payload_length"]))
        message, checked = follow_message(self._messages[pdc], FrameHeader(**header), checked, reserved or is_message)
        self._messages[pdc] = None if header["flags"] & END else message
        self.expected.append((header, checked, message))


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES), sink_pace=list(PACES))
async def packets_pass_where_they_continue_their_message(dut, pace, sink_pace):
    bench = Bench(dut, PACES[pace], PACES[sink_pace])
    await start(dut)
    senders = Senders(bench)
    for _ in range(2000):
        senders.send()
    checked = [each for each in await bench.checked.receive(2000) if not each["dropped"]]
    told, codes = 0, set()
    for seen, (header, verdict, message_of_it) in zip(checked, senders.expected, strict=True):
        answer = seen["answer"]
        codes.add(answer["return_code"])
        if isinstance(verdict, ReturnCode):
            assert (answer["return_code"], answer["executed"]) == (verdict, 0), (header, verdict)
            continue
        assert (answer["return_code"], answer["executed"]) == (OK, 1), (header, verdict)
        is_message = header["opcode"] in IN_PARTS
        place = verdict.offset if is_message else verdict.address
        if not is_message or message_of_it is not None:
            assert (seen["memory"]["address"], seen["memory"]["length"]) == (place, verdict.length)
        assert seen["message"]["divided"] == (is_message and message_of_it is not None)
        assert not seen["message"]["divided"] or seen["message"]["ends"] == bool(header["flags"] & END)
        assert (answer["length"], answer["request_length"]) == (verdict.length, header["request_length"])
        assert answer["continues"] == (message_of_it is not None and not header["flags"] & START)
        if answer["continues"] and header["flags"] & END and message_of_it.data is not None:
            event = answer["event"]
            assert (event["data"], event["length"]) == (message_of_it.data, header["request_length"])
            tagged = TAGGED_EVENT if header["opcode"] in TAGGED else 0
            assert event["flags"] == IMMEDIATE_EVENT | tagged
            assert is_message or event["address"] == verdict.address - verdict.offset
            told += 1
    assert told > 10
    assert {OK, 3, 0x17, 0x18, 0x1C, 0x1D} <= codes


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def the_fetch_form_has_its_own_operations(dut):
    bench = Bench(dut)
    await start(dut)
    cases = [  # opcode, operation, payload, return code, operation of the memory request
        (TSEND_ATOMIC, SUM, 8, OK, FI_SUM),
        (TSEND_FETCH, SUM, 8, OK, FI_SUM),
        (TSEND_FETCH, ATOMIC_READ, 0, OK, FI_ATOMIC_READ),
        (TSEND_ATOMIC, ATOMIC_READ, 0, 0xF, None),
        # 0xD to 0x13 are the compare operations.
        *((opcode, op, 32, 0xF, None) for opcode in (TSEND_ATOMIC, TSEND_FETCH) for op in range(0xD, 0x14)),
    ]
    for opcode, op, payload_length, _, _ in cases:
        bench.send(message(opcode, 8, payload_length, atomic_opcode=op))
    for checked, (_, _, _, code, op) in zip(await bench.checked.receive(len(cases)), cases, strict=True):
        assert checked["answer"]["return_code"] == code
        if op is not None:
            assert (checked["memory"]["op"], checked["memory"]["datatype"]) == (op, FI_UINT64)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def reservations_end_with_messages_that_are_refused(dut):
    bench = Bench(dut)
    await start(dut)
    for reserved in (0, 1):
        bench.send(message(SEND, job_id=0), reserved=reserved, slot_reserved=reserved)
        bench.send(message(SEND, flags=WHOLE | INITIATOR_ERROR), reserved=reserved, slot_reserved=reserved)
    for number, checked in enumerate(await bench.checked.receive(4)):
        reserved = number // 2
        assert (checked["answer"]["executed"], checked["message"]["valid"]) == (0, 1)
        assert (checked["message"]["slot_reserved"], checked["answer"]["event"]["reserved"]) == (reserved, reserved)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def what_is_no_message_or_was_dropped_is_not_to_be_matched(dut):
    bench = Bench(dut)
    await start(dut)
    for opcode in set(range(64)) - MESSAGES:
        bench.send(message(opcode), slot_reserved=0)
    bench.send(message(SEND, is_control=1), slot_reserved=0)
    bench.send(message(SEND), dropped=1, reserved=0, slot_reserved=0)
    *others, close, dropped = await bench.checked.receive(64 - len(MESSAGES) + 2)
    assert not any(checked["message"][name] for checked in (*others, close) for name in ("valid", "slot_reserved"))
    assert (dropped["dropped"], dropped["answer"]["executed"]) == (1, 0)
