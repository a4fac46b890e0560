"""Testbench of Target: initiators that repeat, lose, reorder and close, more than there are PDCs.

Most important: each accepted packet is executed once, in order, whatever else comes. Its memory request
and its return code are the model's RequestChecker's, its place in the sequence is target_rules', and what is given
again is what was given. Parameters: see target_environment.

Covers ``target/operand_splitter.py``.
"""

import random
from collections import Counter
from functools import partial

import cocotb
from amoeba_model.nic.open_messages import follow_message
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.registers import key_slots
from amoeba_model.trace import NO_CONTEXT
from amoeba_model.wire.codec import FrameHeader
from amoeba_model.wire.uet import AtomicOpcode, ReturnCode
from amoeba_sim.cocotb_streams import start

from tests.hw.target.environment import (
    ANSWER_BASE,
    CONTEXTS,
    DELIVERY_COMPLETE,
    DOMAIN,
    HEADER_DATA,
    KEYS,
    PACES,
    PARAMETERS,
    PAYLOAD,
    PDCS,
    PID,
    WINDOW,
    Bench,
    Initiator,
    counters_of,
    expected_memory,
    network_order,
    plain,
    request,
    store_keys,
)
from tests.hw.target.parts import random_parts
from tests.hw.target.rules import END, MESSAGES, signed

NO_OP, WRITE, READ, ATOMIC, FETCHING, TSEND_ATOMIC, TSEND_FETCH, VENDOR = 0, 1, 2, 3, 4, 0xD, 0xE, 0x30
OK, HOST_UNSUCCESS, PERM_VIOLATION, BAD_MKEY, BAD_ADDR = 1, 0xE, 0x17, 0x1C, 0x1D
GTD_RESP_UNAVAIL = 0x13
LONG_ATOMIC, LONG_FETCHING = 0x31, 0x32


def random_atomic():
    op, datatype = random.choice(list(Op)), random.choice(list(Datatype))
    codes = {"atomic_opcode": _uet_opcode(op), "atomic_datatype": _uet_datatype(datatype)}
    most = PAYLOAD // datatype.size
    count = random.choice([1, 1, 1, 2, 5, most // 2, most])
    length = count * datatype.size
    if op in range(Op.FI_CSWAP, Op.FI_MSWAP + 1):
        if random.random() < 0.5:
            return request(FETCHING, random.choice([32, 32, 32, datatype.size]), 32, **codes)
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
    kind = random.choice(["write", "read", "atomic", "atomic", "close"])
    if kind == "close" and random.random() < 0.3:
        return request(NO_OP, 0, 0, is_control=1)
    if kind == "atomic":
        header, payload = random_atomic()
    else:
        length = random.choice([0, 1, 8, 16, 17, 64, PAYLOAD, random.randint(0, PAYLOAD)])
        header, payload = request(READ if kind == "read" else WRITE, length, 0 if kind == "read" else None)
    # A context with a ring that never fills up here, or with none.
    header["resource_index"] = random.choice([0, 0, 3])
    header["pid_on_fep"] = PID + header["resource_index"]
    for flag in (HEADER_DATA, DELIVERY_COMPLETE):
        if random.random() < 0.3:
            header["flags"] |= flag
    header["memory_key"] = random.choice([100, 100, 101, 200, 201])
    virtual = header["memory_key"] in (101, 201)
    offset = random.choice([0, 1, 64, 0x4000 - header["request_length"]])
    header["buffer_offset"] = offset + (0x10_0000 if virtual else 0)
    header["semantic_control"] = random.choice([0, 0x80]) if kind == "atomic" else 0
    if random.random() < 0.2:
        name, value = random.choice(
            [
                ("version", 1),
                ("flags", random.getrandbits(6)),
                ("opcode", random.getrandbits(6)),
                ("resource_index", random.choice([1, 4, CONTEXTS + 1, 0xFFF])),
                ("job_id", 0),
                ("request_length", random.choice([0, 1, 8, PAYLOAD, PAYLOAD + 1, 2**31])),
                ("atomic_opcode", random.getrandbits(8)),
                ("atomic_datatype", random.getrandbits(5)),
                ("memory_key", random.randrange(98, 110)),
                ("buffer_offset", random.choice([0x3FFF, 2**64 - 1, 0x10_3FFF])),
            ]
        )
        header[name] = value
    if header["opcode"] in MESSAGES:
        # To where none are taken: target_messages is about the others.
        header |= {"resource_index": 3, "pid_on_fep": PID + 3}
    if header["opcode"] not in (ATOMIC, FETCHING, VENDOR, LONG_ATOMIC, LONG_FETCHING, TSEND_ATOMIC, TSEND_FETCH):
        # A frame without the atomic extension leaves these zero.
        header |= dict.fromkeys(("atomic_opcode", "atomic_datatype", "semantic_control"), 0)
    return header, payload


def judged_by_model(bench, message, header, payload):
    """The model's MemoryRequest or code of a request, its message, and the one that its PDC has open from then on."""
    checked, fields = ReturnCode.NULL, FrameHeader(**header)
    if not header["is_control"]:
        checked = bench.checker.check(fields, payload)
    ringed = header["resource_index"] < CONTEXTS and bool(bench.contexts[header["resource_index"]].events.base)
    message, checked = follow_message(message, fields, checked, ringed)
    return checked, message, None if header["flags"] & END else message


class Senders:
    """Initiators' PDCs, more than the table holds, with what each has sent."""

    def __init__(self, bench):
        self._bench = bench
        self._pdcs = [{"ip": random.randrange(4), "spdcid": number, "sent": []} for number in range(PDCS + 2)]
        for pdc in self._pdcs:
            self._restart(pdc, random.choice([0xFFFF_FFF8, 0x7FFF_FFF8, random.getrandbits(32)]))
        self.judged = {}
        """By UDP port, which is another one for every packet: header, payload, verdict; in the order of judging.
        Of what was kept until its turn came the last verdict, in its place."""
        self.gaps = {}
        """By port: the verdicts on those that were kept."""
        self.firsts = set()
        """Ports of packets that were the first accepted ones of their PDC."""
        self._ports = 0

    def _restart(self, pdc, psn):
        pdc |= {"first": psn, "next": psn, "dpdcid": None, "sent": [], "parts": []}

    def send(self):
        """A new packet, one sent before, or one that comes too early, of some sender."""
        pdc = random.choice(self._pdcs[:3] if random.random() < 0.7 else self._pdcs)
        if random.random() < 0.01:
            self._restart(pdc, random.getrandbits(32))
        if pdc["sent"] and random.random() < 0.25:
            header, payload = random.choice(pdc["sent"][-WINDOW - 2 :])
            header = header | {"retx": random.getrandbits(1)}
        else:
            header, payload = self._following(pdc)
            early = random.choice([1, 1, 2, 3, WINDOW]) if random.random() < 0.25 else 0
            header |= {"ip": pdc["ip"], "spdcid": pdc["spdcid"], "psn": (pdc["next"] + early) & 0xFFFF_FFFF}
        syn = pdc["dpdcid"] is None or random.random() < 0.2
        offset = (header["psn"] - pdc["first"]) & 0xFFF
        header |= {"syn": int(syn), "dpdcid": offset if syn else pdc["dpdcid"]}
        header["clear_psn_offset"] = -random.choice([1, 2, 3, WINDOW, random.randint(1, WINDOW)]) & 0xFFFF
        header["port"] = self._ports
        self._ports += 1
        rules = self._bench.rules
        verdict = rules.judge(header, passes=partial(self._passes, header, payload))
        self._bench.send(header, payload)
        self._note(pdc, header, payload, verdict)
        while verdict.kind == "accepted" and (kept := rules.following(verdict.pdc)):
            header, payload, _ = self.judged.pop(kept[1]["port"])
            verdict = rules.judge_next(verdict.pdc, header, passes=partial(self._passes, header, payload))
            self._note(pdc, header, payload, verdict)

    def _following(self, pdc):
        """The next part of a message, or anything."""
        if not pdc["parts"] and random.random() < 0.15:
            key, context = random.choice([100, 100, 101, 200, 201, 102, 103]), random.choice([0, 0, 0, 3])
            place = 64 + (0x10_0000 if key in (101, 201) else 0)
            same = {"memory_key": key, "buffer_offset": place, "resource_index": context, "pid_on_fep": PID + context}
            pdc["parts"] = random_parts(PAYLOAD, same)
        if not pdc["parts"] or random.random() < 0.1:
            return random_traffic()
        part = pdc["parts"].pop(0)
        header, payload = request(part.opcode, part.length, part.payload_length, **part.fields)
        return part.spoil(header), payload

    def _note(self, pdc, header, payload, verdict):
        if verdict.kind == "accepted":
            if len(self._bench.rules.table[verdict.pdc].accepted) == 1:
                self.firsts.add(header["port"])
            pdc["sent"].append((header, payload))
            pdc["next"], pdc["dpdcid"] = (header["psn"] + 1) & 0xFFFF_FFFF, verdict.pdc
            if header["is_control"]:
                self._restart(pdc, pdc["next"])
        elif verdict.kind == "dropped_pdc":
            self._restart(pdc, pdc["next"])
        elif verdict.kind == "kept":
            self.gaps[header["port"]] = verdict
        self.judged[header["port"]] = header, payload, verdict

    def _passes(self, header, payload, number):
        pdc = self._bench.rules.table[number]
        checked, _, pdc.message = judged_by_model(self._bench, pdc.message, header, payload)
        return not isinstance(checked, ReturnCode)


class Scoreboard:
    """The required results of the packets, from the order in which the rules accepted them."""

    def __init__(self, bench, judged, firsts):
        self._bench = bench
        self._firsts = firsts
        self.memory, self.first_answers, self.events, self.orders = [], {}, [], []
        self._results = iter(bench.results)
        self._history = {}
        self._messages = {}
        for port, (header, payload, verdict) in judged.items():
            if verdict.kind == "accepted":
                self.first_answers[port] = self._answer(header, payload, verdict.pdc)

    def _answer(self, header, payload, pdc):
        before = None if header["port"] in self._firsts else self._messages.get(pdc)
        checked, message, self._messages[pdc] = judged_by_model(self._bench, before, header, payload)
        code, data = OK, b""
        if isinstance(checked, ReturnCode):
            code = int(checked)
        else:
            self.memory.append(expected_memory(checked, pdc, header))
            data = next(self._results, b"")
            if message:
                message.faulty |= data is None
            if data is None or (message and message.faulty):
                code, data = HOST_UNSUCCESS, b""
            else:
                data = network_order(checked, data)
                has_data = message.data is not None if message else header["flags"] & HEADER_DATA
                if header["flags"] & END and has_data:
                    self.events.append((header, checked))
        if not isinstance(checked, ReturnCode) or code in (BAD_MKEY, PERM_VIOLATION, BAD_ADDR):
            self._count(header, int(code != OK))
        answer = dict.fromkeys(header, 0)
        answer |= {name: header[name] for name in ("mac", "ip", "port", "psn", "retx", "marked")}
        if not header["is_control"]:
            answer |= {name: header[name] for name in ("message_id", "job_id")}
        answer |= {"spdcid": pdc, "dpdcid": header["spdcid"], "opcode": 3 if header["is_control"] else 1 + bool(data)}
        answer["return_code"] = code
        length = 0 if code != OK else header["request_length"]
        answer |= {"payload_length": len(data), "modified_length": length}
        answer["cack_psn"] = self._cumulative(header, pdc, code == OK and not data)
        return answer, data

    def _count(self, header, error):
        """The orders of a request that got as far as its key."""
        if not (header["flags"] & DELIVERY_COMPLETE and header["flags"] & END):
            return
        fetches = header["opcode"] not in (WRITE, ATOMIC, LONG_ATOMIC)
        only_reads = header["opcode"] == READ or (
            header["opcode"] == FETCHING and header["atomic_opcode"] == AtomicOpcode.READ
        )
        key = self._bench.keys.find(header["memory_key"])
        counters = [counters_of(header["resource_index"])["read_counter" if fetches else "write_counter"]]
        if key is not None and key.domain == DOMAIN:
            of_reads = key.read_counter if fetches else 0
            of_writes = 0 if only_reads else key.write_counter
            counters += [of_reads, of_writes] if of_reads != of_writes else [of_reads]
        self.orders += [(counter, error, NO_CONTEXT) for counter in counters if counter]

    def _cumulative(self, header, pdc, plain):
        """Walks back over the answers of this PDC since it was opened, as "Answers" of the target's README says."""
        psn = header["psn"]
        history = {} if header["port"] in self._firsts else self._history.setdefault(pdc, {})
        self._history[pdc] = history
        clear = (psn + signed(header["clear_psn_offset"], 16)) & 0xFFFF_FFFF
        between = ((clear + step) & 0xFFFF_FFFF for step in range(1, (psn - clear) & 0xFFFF_FFFF))
        all_plain = all(history.get(other, True) for other in between)
        history[psn] = plain
        return psn if all_plain else clear


def check_responses(answers, judged, board, gaps):
    """First answers in order, each once; answers again only of what was given, and NACKs where they belong."""
    given, order = {}, []
    # What was kept may have had a NACK before: for those that were missing.
    reports = [header for header, _ in answers if header["missing"]]
    for header in reports:
        request, verdict = judged[header["port"]][0], gaps[header["port"]]
        assert header == nack_of(request, verdict)
    assert {header["port"] for header in reports} == {port for port, verdict in gaps.items() if verdict.nack}
    answers = [answer for answer in answers if not answer[0]["missing"]]
    ports = Counter(header["port"] for header, _ in answers)
    assert max(ports.values()) == 1, "two responses to one packet"
    replayed = 0
    for header, data in answers:
        request, _, verdict = judged[header["port"]]
        name = request["ip"], request["spdcid"], request["psn"]
        if verdict.kind == "accepted":
            order.append(header["port"])
            assert (header, data) == board.first_answers[header["port"]]
            given[name] = header, data
        elif verdict.kind == "duplicate":
            replayed += 1
            first, first_data = given[name]
            clear = (request["psn"] + signed(request["clear_psn_offset"], 16)) & 0xFFFF_FFFF
            own = {name: request[name] for name in ("mac", "port", "marked")}
            if header["is_control"]:
                assert (header["nack_code"], header["retx"]) == (GTD_RESP_UNAVAIL, request["retx"])
                assert len(first_data) > 16
                continue
            assert header == first | own | {"retx": 1, "cack_psn": clear}
            assert data == first_data
        else:
            assert header == nack_of(request, verdict)
    assert order == list(board.first_answers)
    nacked = {port for port, (_, _, verdict) in judged.items() if verdict.nack and verdict.kind != "kept"}
    assert nacked <= set(ports), "a NACK is missing"
    return replayed


def nack_of(request, verdict):
    code, psn, pdc = verdict.nack
    header = dict.fromkeys(request, 0) | {name: request[name] for name in ("mac", "ip", "port", "retx", "marked")}
    numbers = {"psn": psn, "spdcid": pdc, "dpdcid": request["spdcid"]}
    return header | numbers | {"is_control": 1, "nack_code": code, "missing": verdict.missing}


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES), sink_pace=list(PACES))
async def what_is_accepted_is_executed_once_in_order_and_answered(dut, pace, sink_pace):
    answer_base = random.choice([ANSWER_BASE, ANSWER_BASE, 0])
    bench = Bench(dut, PACES[pace], PACES[sink_pace], answer_base)
    bench.error_rate = bench.read_error_rate = 0.1
    await start(dut)
    store_keys(bench)
    # Keys whose slots are taken: they lie further down the row.
    taken = {next(iter(key_slots(key, KEYS))) for key in range(100, 108)}
    for key, like in ((200, 100), (201, 101)):
        entry = bench.keys.find(like)
        free = [slot for slot in key_slots(key, KEYS) if slot not in taken]
        bench.store(
            free[-1], key=key, base=entry.base, length=entry.length, domain=entry.domain, flags=entry.flags
        )  # without counters
    bench.sources["key_stores"].send({"slot": KEYS, "entry": {"key": 100, "flags": 0}})
    await bench.sources["key_stores"].sent()
    senders = Senders(bench)
    for _ in range(5):
        for _ in range(50):
            senders.send()
        await bench.settle(150)
    board = Scoreboard(bench, senders.judged, senders.firsts)
    for seen, wanted in zip(plain(bench.executed), board.memory, strict=True):
        assert seen[0] == wanted[0], {n: (seen[0][n], value) for n, value in wanted[0].items() if seen[0][n] != value}
        assert seen[1:] == wanted[1:]
    replayed = check_responses(bench.answers(), senders.judged, board, senders.gaps)
    assert bench.orders == board.orders
    kinds = Counter(verdict.kind for _, _, verdict in senders.judged.values())
    codes = [answer["return_code"] for answer, _ in board.first_answers.values()]
    assert +bench.counts == Counter(
        requests_received=kinds["accepted"],
        refused_requests=sum(code not in (OK, 0) for code in codes),
        dropped_pdc=kinds["dropped_pdc"],
        dropped_sequence=kinds["dropped_sequence"] + bench.rules.thrown,
        duplicates=kinds["duplicate"],
        nacks_sent=bench.counts["nacks_sent"],  # the transmitter's own count
        events=len(board.events),
    )
    accepted = [header for header, _, verdict in senders.judged.values() if verdict.kind == "accepted"]
    assert [(event["status"], event["context"]) for event in bench.traced] == [
        (OK if code == HOST_UNSUCCESS else code, 0xFF if header["is_control"] else header["resource_index"] & 0xFF)
        for code, header in zip(codes, accepted, strict=True)
    ]
    judged = [count for kind, count in kinds.items() if kind != "kept"]  # some may never have had their turn
    assert min(*judged, replayed, len(board.events), len(board.orders)) > 2
    executed_late = [port for port in senders.gaps if senders.judged[port][2].kind == "accepted"]
    assert len(executed_late) > 2


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(pace=["always", "randomly"], sink_pace=["always", "randomly"])
async def payloads_of_what_came_before_its_turn_are_used_when_that_has_come(dut, pace, sink_pace):
    bench = Bench(dut, PACES[pace], PACES[sink_pace])
    await start(dut)
    store_keys(bench)
    await bench.sources["key_stores"].sent()
    sender, expected = Initiator(bench, psn=0xFFFF_FFF0), []
    sender.send()
    for _ in range(20):
        first = sender.next
        lengths = random.choices([0, 1, 8, 32, 33, PAYLOAD - 1, PAYLOAD], k=PARAMETERS["out_of_order_entries"] + 1)
        packets = [(*request(WRITE, length), True) for length in lengths]
        # Longer than any request that is executed may be, though no longer than a frame.
        refused = random.randrange(1, len(lengths))
        packets[refused] = *request(WRITE, 8, PAYLOAD + 4), False
        packets = [
            (header | sender.numbered(first + number), *others) for number, (header, *others) in enumerate(packets)
        ]
        for header, payload, _ in (*random.sample(packets[1:], len(packets) - 1), packets[0]):
            bench.send(header, payload)
        expected += [payload for header, payload, is_right in packets if is_right]
        sender.next = (first + len(packets)) & 0xFFFF_FFFF
    await bench.settle(150)
    operands = [operand or b"" for _, operand, _ in bench.executed[1:]]
    assert operands == expected
    answers = [header["psn"] for header in bench.responses if not header["is_control"]]
    assert answers == [(0xFFFF_FFF0 + number) & 0xFFFF_FFFF for number in range(len(answers))]
    assert bench.counts["requests_received"] == len(answers) == 1 + 20 * (PARAMETERS["out_of_order_entries"] + 1)
    assert bench.counts["dropped_sequence"] == 0
