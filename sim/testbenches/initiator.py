"""Testbench of the whole initiator: random programs against the model's, and what only timing can show.

Parameters: ``data_width``.
"""

import collections
import random
from dataclasses import asdict

import cocotb
from amoeba_model.descriptors import TX_DESCRIPTOR, DescriptorFlags, DescriptorOpcode
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters
from amoeba_model.wire.uet import RequestOpcode, ReturnCode, SesFlags
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import always, in_bursts, randomly, reset, start
from cocotb.triggers import ClockCycles
from initiator_environment import TARGET_PDC, Environment, ModelInitiator

PARAMETERS = NicParameters(data_width=bench_parameters()["data_width"], contexts=3, peers=8, window=8, payload=256)
PACES = {"always": always, "randomly": lambda: randomly(0.5), "in bursts": lambda: in_bursts(12)}

RINGS = 0x1_0000_0FC0
"""The transmit rings begin one descriptor below a 4 KiB boundary."""
COMPLETIONS = 0x2_0000_0000
OPERANDS = 0x3_0000_0000
OPERANDS_SIZE = 0x4000
RESULTS = 0x4_0000_0000
REFUSED = 0x5_0000_0000
RESULT_SPACING = 0x1003

OK = ReturnCode.OK
FETCHING = (RequestOpcode.READ, RequestOpcode.FETCHING_ATOMIC, RequestOpcode.AMOEBA_COMPARE_ATOMIC)
RETURN_CODES = (OK, OK, OK, OK, ReturnCode.BAD_MKEY, ReturnCode.BAD_ADDR)


def registers(number, **changes):
    return {
        "enable": 1,
        "transmit_base": RINGS + 0x10_0000 * number,
        "transmit_size": 3 + number,
        "completion_base": COMPLETIONS + 0x10_0000 * number + 0x40,
        "completion_size": 3,
        **changes,
    }


def peer(index, context, **changes):
    return {
        "mac": 0x02_00_00_00_00_10 + index,
        "ip": 0x0A00_0010 + index,
        "job_id": 0x123400 + index,
        "pid_on_fep": 0x120 + index,
        "resource_index": 0x340 + index,
        "initial_psn": 0xFFFF_FFFE - index,
        "entropy": 0xC000 + index,
        "valid": 1,
        "context": context,
        **changes,
    }


def well(header, payload):
    """Answers every request with OK and data derived from its psn."""
    if header["opcode"] not in FETCHING:
        return OK, b""
    return OK, random.Random(header["psn"]).randbytes(header["request_length"])


def as_it_comes(header, payload):
    """Answers deterministically with errors, and now and then with a wrong amount of data."""
    dice = random.Random(header["psn"] << 8 | header["spdcid"])
    _, content = well(header, payload)
    code = dice.choice(RETURN_CODES)
    if header["opcode"] == RequestOpcode.NO_OP:
        code = OK
    if code != OK:
        return code, b""
    if dice.random() < 0.1:
        return OK, content[:-1] if content else b"?"
    return OK, content


async def started(dut, answer=well, *, pace=always, contexts=(0, 1, 2), **options):
    environment = Environment(dut, PARAMETERS, answer, pace, **options)
    memory = environment.memory
    for number in contexts:
        settings = registers(number)
        memory.grant(settings["transmit_base"], 64 << settings["transmit_size"])
        memory.grant(settings["completion_base"], 32 << settings["completion_size"])
    memory.grant(OPERANDS, OPERANDS_SIZE)
    memory.grant(RESULTS, 0x100_0000)
    memory.poke(OPERANDS, random.Random(1).randbytes(OPERANDS_SIZE))
    await start(dut)
    for number in contexts:
        environment.set_context(number, **registers(number))
    await ClockCycles(dut.clk, 2)
    return environment


def random_descriptor(number, index):
    """Mostly sensible; every check of the specification fails for some."""
    opcode = random.choice(list(DescriptorOpcode)[:6])
    atomic = opcode >= DescriptorOpcode.ATOMIC
    datatype = random.choice(list(Datatype))
    inline = random.random() < 0.2
    if not atomic:
        length = random.choice((0, 1, 7, 64, 256, 257, 700, random.randint(1, 1500)))
    else:
        length = datatype.size * random.choice((1, 1, 2, 3, random.randint(1, 70)))
    if inline:
        length = min(length, 8) // datatype.size * datatype.size if atomic else min(length, 8)
    local, compare = (OPERANDS + random.randint(0, OPERANDS_SIZE - 2300) for _ in range(2))
    if random.random() < 0.06:
        local = OPERANDS + OPERANDS_SIZE - random.randint(1, 600)
    if random.random() < 0.03:
        compare = REFUSED
    wrong = random.random()
    return TX_DESCRIPTOR.pack(
        opcode=6 + random.randint(0, 249) if wrong < 0.02 else opcode,
        op=random.randint(0, 40) if wrong > 0.95 else random_op(opcode),
        datatype=random.randint(0, 255) if wrong > 0.98 else datatype,
        flags=(random.getrandbits(1) * DescriptorFlags.COMPLETION)
        | (inline * DescriptorFlags.INLINE)
        | (0x10 if 0.02 < wrong < 0.03 else 0),
        length=(1 << 30) + 1 if 0.03 < wrong < 0.05 else length + (0.05 < wrong < 0.08),
        peer=random.choice((number, number + 3, number, number + 3, 6, 7, 8, (number + 1) % 3))
        if wrong > 0.9
        else random.choice((number, number + 3)),
        remote_address=random.getrandbits(64),
        remote_key=random.getrandbits(64),
        local=local,
        result=RESULTS + RESULT_SPACING * (3 * index + number),
        compare=compare,
        context=random.getrandbits(64),
    )


def random_op(opcode):
    swaps = range(Op.FI_CSWAP, Op.FI_MSWAP + 1)
    return random.choice(list(swaps) if opcode == DescriptorOpcode.COMPARE_ATOMIC else sorted(set(Op) - set(swaps)))


TIMED = ("cycle", "syn", "dpdcid", "clear_psn_offset")
"""Header fields that depend on how many answers have come."""


def per_pdc(frames):
    """Frames by PDC, in order, without what depends on time."""
    result = collections.defaultdict(list)
    for header, payload in frames:
        result[header["spdcid"]].append(({k: v for k, v in header.items() if k not in TIMED}, payload))
    return result


def check_timed_fields(frames, peers):
    """Every packet's SYN and clear_psn_offset agree with some number of answers that never falls."""
    answered = collections.Counter()
    for header, _ in frames:
        pdc = header["spdcid"]
        offset = (header["psn"] - peers[pdc]["initial_psn"]) & 0xFFFF_FFFF
        cleared = (offset + header["clear_psn_offset"] + 1) & 0xFFFF
        assert answered[pdc] <= cleared <= offset
        assert offset - cleared < PARAMETERS.window
        assert header["syn"] == (cleared == 0)
        assert header["dpdcid"] == (offset if header["syn"] else pdc + TARGET_PDC)
        answered[pdc] = cleared


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES), count=[60])
async def random_programs_do_what_the_model_does(dut, pace, count):
    environment = await started(dut, as_it_comes, pace=PACES[pace])
    peers = {index: peer(index, index % 3) for index in range(6)} | {6: peer(6, 0, valid=0)}
    for index, fields in peers.items():
        environment.store_peer(index, **fields)
    await environment.peer_stores.sent()
    programs = [[random_descriptor(number, index) for index in range(count)] for number in range(3)]
    model = ModelInitiator(
        PARAMETERS,
        environment.memory,
        {
            number: {key: value for key, value in registers(number, transmit_size=8).items() if key != "enable"}
            | {"enabled": True, "transmit_base": 0x6_0000_0000 + 0x1_0000 * number}
            for number in range(3)
        },
        {index: {**fields, "valid": bool(fields["valid"])} for index, fields in peers.items()},
        as_it_comes,
    )
    for number, program in enumerate(programs):
        environment.memory.grant(0x6_0000_0000 + 0x1_0000 * number, 0x1_0000)
        environment.memory.poke(0x6_0000_0000 + 0x1_0000 * number, b"".join(program))
    model.run([count] * 3)

    async def drive(number):
        # The driver keeps no more descriptors in the ring than it has entries, and NIC knows nothing of that.
        tail = 0
        entries = 1 << registers(number)["transmit_size"]
        while tail < count:
            room = entries - (tail - taken[number])
            if room:
                some = random.randint(1, min(room, count - tail))
                environment.post(number, tail, programs[number][tail : tail + some])
                tail += some
            await ClockCycles(dut.clk, random.randint(1, 60))

    taken = collections.Counter()

    async def watch():
        while True:
            await ClockCycles(dut.clk, 1)
            event = int(dut.trace_descriptor.value)
            if event & 1:
                taken[event >> 49 & 0xFF] += 1

    watcher = cocotb.start_soon(watch())
    drivers = [cocotb.start_soon(drive(number)) for number in range(3)]
    for driver in drivers:
        await driver
    await environment.completed(len(model.completions))
    limit = environment.cycle + 20_000
    while environment.counts["count_responses_received"] < len(model.frames):
        await ClockCycles(dut.clk, 1)
        assert environment.cycle < limit
    await ClockCycles(dut.clk, 100)
    watcher.cancel()

    expected = per_pdc([({**asdict(header), "payload_length": len(data)}, data) for header, data in model.frames])
    assert per_pdc(environment.frames) == expected
    check_timed_fields(environment.frames, peers)

    def outcome(number, entry):
        return number, entry["descriptor"], entry["status"], entry["length"], entry["opcode"], entry["context"]

    assert sorted(outcome(number, entry) for number, _, entry in environment.completions) == sorted(
        outcome(entry["address"] - COMPLETIONS >> 20, entry) for entry in model.completions
    )
    for number, index, entry in environment.completions:
        assert entry["flags"] == (0 if index >> registers(number)["completion_size"] & 1 else 0x80)
        assert entry["data"] == 0
    for address, value in model.results.items():
        assert environment.memory.peek(address, 1) == bytes([value])
    counts = environment.counts
    assert counts["count_descriptors"] == 3 * count
    assert counts["count_completions"] == len(model.completions)
    assert counts["count_error_completions"] == sum(entry["status"] != OK for entry in model.completions)
    assert counts["count_requests_sent"] == len(model.frames)
    assert counts["count_dropped_response"] == 0


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_hand_typed_descriptor_becomes_this_frame_and_this_completion(dut):
    environment = await started(dut)
    environment.set_context(1, **registers(1, cswap_by_bits=1))
    environment.store_peer(5, **peer(5, 1, initial_psn=0x1000))
    await environment.peer_stores.sent()
    fetch_add = bytes.fromhex(
        "04 02 07 03 08000000 0500 0000 00000000"  # FETCH_ATOMIC, FI_SUM, FI_UINT64, COMPLETION | INLINE, 8, peer 5
        "8877665544332211"  # remote address
        "0df0adba00000000"  # remote key
        "2a00000000000000"  # operand 42
        "1000000004000000"  # result
        "0000000000000000"
        "efcdab8967452301"  # context
    )
    environment.post(1, 0, [fetch_add])
    await environment.completed(1)
    ((header, payload),) = environment.frames
    del header["cycle"]
    assert header == {
        "mac": 0x02_00_00_00_00_15,
        "ip": 0x0A00_0015,
        "port": 0xC005,
        "is_request": 1,
        "psn": 0x1000,
        "clear_psn_offset": 0xFFFF,
        "spdcid": 5,
        "dpdcid": 0,
        "syn": 1,
        "opcode": 4,
        "version": 0,
        "flags": 3,
        "message_id": 0,
        "job_id": 0x123405,
        "pid_on_fep": 0x125,
        "resource_index": 0x345,
        "buffer_offset": 0x1122334455667788,
        "initiator": 1,
        "memory_key": 0xBAADF00D,
        "header_data": 0,
        "request_length": 8,
        "atomic_opcode": 2,
        "atomic_datatype": 7,
        "semantic_control": 0x80,
        "return_code": 0,
        "modified_length": 0,
        "payload_length": 8,
    }
    assert payload == bytes.fromhex("2a00000000000000")
    assert environment.memory.peek(0x4_0000_0010, 8) == random.Random(0x1000).randbytes(8)
    ((context, index, completion),) = environment.completions
    del completion["cycle"]
    assert (context, index) == (1, 0)
    assert completion == {
        "context": 0x0123456789ABCDEF,
        "data": 0,
        "length": 8,
        "descriptor": 0,
        "opcode": 4,
        "status": 1,
        "reserved0": 0,
        "reserved1": 0,
        "reserved2": 0,
        "flags": 0x80,
    }


def nop(**fields):
    return TX_DESCRIPTOR.pack(**{"opcode": DescriptorOpcode.NOP, "flags": DescriptorFlags.COMPLETION, **fields})


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_full_completion_ring_stops_its_context_and_no_other(dut):
    environment = await started(dut)
    environment.consumes = False
    entries = 8
    environment.set_context(0, **registers(0, transmit_size=6))
    environment.memory.grant(RINGS, 64 << 6)
    environment.post(0, 0, [nop(context=i) for i in range(20)])
    await environment.completed(entries)
    await ClockCycles(dut.clk, 200)
    assert len(environment.completions) == entries
    environment.post(1, 0, [nop(context=100)])
    await environment.completed(entries + 1)
    environment.heads.send({"context": 0, "index": 3})
    await environment.completed(entries + 4)
    await ClockCycles(dut.clk, 200)
    assert len(environment.completions) == entries + 4
    environment.heads.send({"context": 0, "index": 8})
    await environment.completed(8 + entries + 1)
    environment.heads.send({"context": 0, "index": 12})
    await environment.completed(21)
    assert [entry["context"] for number, _, entry in environment.completions if number == 0] == list(range(20))


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_refused_descriptor_read_is_an_error_completion_and_the_ring_goes_on(dut):
    environment = await started(dut)
    base = 0x7_0000_0000
    environment.memory.grant(base + 64, 64)
    environment.set_context(2, **registers(2, transmit_base=base, transmit_size=1))
    tail = environment.post(2, 0, [nop(context=7)])
    await environment.completed(1)
    environment.post(2, tail, [nop(context=8)])
    await environment.completed(2)
    first, second = (entry for _, _, entry in environment.completions)
    assert (first["status"], first["context"], first["descriptor"]) == (ReturnCode.LOCAL_DMA_FAULT, 0, 0)
    assert (second["status"], second["context"], second["descriptor"]) == (OK, 8, 1)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def answers_that_are_not_expected_are_dropped_with_their_data(dut):
    environment = await started(dut, lambda header, payload: None)
    environment.store_peer(0, **peer(0, 0, initial_psn=10))
    await environment.peer_stores.sent()
    read = TX_DESCRIPTOR.pack(
        opcode=DescriptorOpcode.READ, flags=DescriptorFlags.COMPLETION, length=100, peer=0, result=RESULTS
    )
    environment.post(0, 0, [read])
    while not environment.frames:
        await ClockCycles(dut.clk, 1)
    header, _ = environment.frames[0]
    wrong = b"\xee" * 100
    for changes in (
        {"psn": 11},
        {"psn": 9},
        {"dpdcid": 1},
        {"dpdcid": 8},
        {"dpdcid": 0x8000},
        {"ip": 0x0A00_0011},
    ):
        environment.respond(header, OK, wrong, **changes)
    environment.respond(header, OK, b"\x55" * 100)
    environment.respond(header, OK, wrong)
    await environment.completed(1)
    await ClockCycles(dut.clk, 100)
    assert environment.memory.peek(RESULTS, 101) == b"\x55" * 100 + b"\0"
    assert environment.counts["count_dropped_response"] == 7
    assert environment.counts["count_responses_received"] == 1
    assert len(environment.completions) == 1


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_refused_operand_ends_its_request_with_a_no_op(dut):
    environment = await started(dut)
    environment.store_peer(0, **peer(0, 0, initial_psn=0))
    await environment.peer_stores.sent()
    environment.memory.grant(REFUSED, 256)

    def write(local, length, context):
        return TX_DESCRIPTOR.pack(
            opcode=DescriptorOpcode.WRITE,
            flags=DescriptorFlags.COMPLETION,
            length=length,
            peer=0,
            remote_address=0x1000,
            local=local,
            context=context,
        )

    environment.post(0, 0, [write(REFUSED, 256 * 300, 1), write(OPERANDS, 300, 2)])
    await environment.completed(2)
    assert [(entry["context"], entry["status"]) for _, _, entry in environment.completions] == [
        (1, ReturnCode.LOCAL_DMA_FAULT),
        (2, OK),
    ]
    seen = [
        (header["psn"], header["opcode"], header["flags"], header["request_length"], header["payload_length"])
        for header, _ in environment.frames
    ]
    whole = SesFlags.START_OF_MESSAGE | SesFlags.END_OF_MESSAGE
    assert seen == [
        (0, RequestOpcode.WRITE, whole, 256, 256),
        (1, RequestOpcode.NO_OP, whole | SesFlags.INITIATOR_ERROR, 0, 0),
        (2, RequestOpcode.WRITE, whole, 256, 256),
        (3, RequestOpcode.WRITE, whole, 44, 44),
    ]
    # What could not be sent any more is not fetched either, but for what was on its way.
    assert environment.cycle < 2000


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES))
async def results_are_on_their_way_before_their_completion(dut, pace):
    environment = await started(dut, pace=PACES[pace])
    environment.store_peer(0, **peer(0, 0))
    environment.store_peer(1, **peer(1, 1))
    await environment.peer_stores.sent()

    def read(number, index):
        return TX_DESCRIPTOR.pack(
            opcode=DescriptorOpcode.READ,
            flags=DescriptorFlags.COMPLETION,
            length=600,
            peer=number,
            result=RESULTS + 0x1000 * index + 0x10_0000 * number,
        )

    for number in range(2):
        environment.post(number, 0, [read(number, index) for index in range(8)])
    await environment.completed(16)
    for number, index, entry in environment.completions:
        for position in (0, 256, 512):
            address = RESULTS + 0x1000 * index + 0x10_0000 * number + position
            assert environment.written[address] < entry["cycle"]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_full_window_stops_the_packets_and_their_operands_have_room(dut):
    environment = await started(dut, lambda header, payload: None)
    environment.store_peer(0, **peer(0, 0, initial_psn=0))
    await environment.peer_stores.sent()
    packets = OPERANDS_SIZE // PARAMETERS.payload
    write = TX_DESCRIPTOR.pack(
        opcode=DescriptorOpcode.WRITE, flags=DescriptorFlags.COMPLETION, length=OPERANDS_SIZE, local=OPERANDS
    )
    environment.post(0, 0, [write])
    # The environment insists meanwhile that every operand is taken at once.
    await ClockCycles(dut.clk, 2500)
    assert len(environment.frames) == PARAMETERS.window
    environment.answer = well
    for header, payload in environment.frames:
        environment.respond(header, *well(header, payload))
    await environment.completed(1)
    assert environment.completions[0][2]["status"] == OK
    assert [header["psn"] for header, _ in environment.frames] == list(range(packets))
    content = b"".join(payload for _, payload in environment.frames)
    assert content == environment.memory.peek(OPERANDS, OPERANDS_SIZE)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def an_armed_context_interrupts_once_after_the_completion(dut):
    environment = await started(dut)
    tail = environment.post(1, 0, [nop()])
    await environment.completed(1)
    environment.arms.send({"context": 1, "index": 2})
    await ClockCycles(dut.clk, 50)
    assert environment.interrupts == []
    tail = environment.post(1, tail, [nop(), nop(), nop()])
    await environment.completed(4)
    await ClockCycles(dut.clk, 50)
    ((_, vectors, completions),) = environment.interrupts
    assert vectors == 0b010
    assert completions >= 3
    environment.arms.send({"context": 1, "index": 3})
    await ClockCycles(dut.clk, 10)
    assert [vectors for _, vectors, _ in environment.interrupts] == [0b010, 0b010]


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_context_enabled_anew_begins_at_zero_and_its_past_is_not_completed(dut):
    environment = await started(dut, wire_latency=300)
    environment.store_peer(0, **peer(0, 0, initial_psn=0))
    await environment.peer_stores.sent()

    def read(context):
        return TX_DESCRIPTOR.pack(
            opcode=DescriptorOpcode.READ,
            flags=DescriptorFlags.COMPLETION,
            length=64,
            peer=0,
            result=RESULTS + 0x100 * context,
            context=context,
        )

    environment.post(0, 0, [read(1), read(2)])
    await ClockCycles(dut.clk, 150)
    assert len(environment.frames) == 2
    environment.set_context(0, **registers(0, enable=0))
    await ClockCycles(dut.clk, 2)
    environment.set_context(0, **registers(0))
    await ClockCycles(dut.clk, 2)
    environment.post(0, 0, [read(3)])
    await environment.completed(1)
    await ClockCycles(dut.clk, 300)
    ((number, index, entry),) = environment.completions
    assert (number, index, entry["context"], entry["descriptor"], entry["flags"]) == (0, 0, 3, 0, 0x80)
    assert environment.memory.peek(RESULTS + 0x100, 0x180) == bytes(0x180)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def after_a_reset_in_mid_traffic_everything_begins_anew(dut):
    environment = await started(dut, pace=PACES["randomly"])
    for _ in range(6):
        environment.store_peer(0, **peer(0, 0))
        await environment.peer_stores.sent()
        environment.post(0, 0, [random_descriptor(0, index) for index in range(8)])
        await ClockCycles(dut.clk, random.randint(1, 250))
        await reset(dut)
        environment.forget()
    read = TX_DESCRIPTOR.pack(
        opcode=DescriptorOpcode.READ, flags=DescriptorFlags.COMPLETION, length=600, peer=0, result=RESULTS
    )
    environment.post(0, 0, [read])
    await environment.completed(1)
    environment.store_peer(0, **peer(0, 0))
    await environment.peer_stores.sent()
    environment.post(0, 1, [read])
    await environment.completed(2)
    assert [entry["status"] for _, _, entry in environment.completions] == [ReturnCode.LOCAL_BAD_PEER, OK]
    assert [header["psn"] for header, _ in environment.frames] == [0xFFFF_FFFE, 0xFFFF_FFFF, 0]
