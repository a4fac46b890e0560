"""Random programs for the benches of the whole initiator, on the hardware and on the model."""

import collections
import random
from dataclasses import asdict

import cocotb
from amoeba_model.descriptors import TX_DESCRIPTOR, DescriptorFlags, DescriptorOpcode
from amoeba_model.opcodes import Datatype, Op
from cocotb.triggers import ClockCycles

from tests.hw.initiator.model import ModelInitiator
from tests.hw.initiator.setup import (
    COMPLETIONS,
    OPERANDS,
    OPERANDS_SIZE,
    PARAMETERS,
    REFUSED,
    RESULT_SPACING,
    RESULTS,
    peer,
    registers,
)


def random_program(number, count):
    """Descriptors of one context; the pieces of a chain go to one peer."""
    program = []
    while len(program) < count:
        peer = random.choice((number, number + 3))
        pieces = random.choice((1, 1, 1, 1, 2, 3, 4))
        for piece in range(min(pieces, count - len(program))):
            fields = TX_DESCRIPTOR.unpack(random_descriptor(number, len(program), peer))
            if piece + 1 < pieces and fields["opcode"] != DescriptorOpcode.NOP and len(program) + 1 < count:
                fields["flags"] |= DescriptorFlags.CHAINED
            program.append(TX_DESCRIPTOR.pack(**fields))
    return program


def random_descriptor(number, index, peer):
    """Mostly sensible; every check of the specification fails for some."""
    opcode = random.choice(list(DescriptorOpcode))
    atomic = "ATOMIC" in opcode.name
    datatype = random.choice(list(Datatype))
    inline = random.random() < 0.2
    if "RENDEZVOUS" in opcode.name:
        length = 32
    elif opcode == DescriptorOpcode.PING:
        length = 0
    elif not atomic:
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
        opcode=random.randint(0x80, 0xFF) if wrong < 0.02 else opcode,
        op=random.randint(0, 40) if wrong > 0.95 else random_op(opcode),
        datatype=random.randint(0, 255) if wrong > 0.98 else datatype,
        flags=(random.getrandbits(1) * DescriptorFlags.COMPLETION)
        | (inline * DescriptorFlags.INLINE)
        | ((random.random() < 0.1) * DescriptorFlags.FENCE)
        | ((random.random() < 0.07) * DescriptorFlags.FENCE_ALL)
        | ((random.random() < 0.1) * DescriptorFlags.IMMEDIATE)
        | (0x80 if 0.02 < wrong < 0.03 else 0),
        length=(1 << 30) + 1 if 0.03 < wrong < 0.05 else length + (0.05 < wrong < 0.08),
        counter=random.choice((0, 1, 2, 255)),
        peer=random.choice((peer, peer, 6, 7, 8, (number + 1) % 3)) if wrong > 0.9 else peer,
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
CONTROL = ("mac", "ip", "port", "is_request", "is_control", "retx", "psn", "spdcid", "payload_length")
"""All that counts of a control packet, besides."""


def per_pdc(frames):
    """Frames by PDC, in order, without what depends on time."""
    result = collections.defaultdict(list)
    for header, payload in frames:
        counts = {
            name: value
            for name, value in header.items()
            if name not in TIMED and (not header["is_control"] or name in CONTROL)
        }
        result[header["spdcid"]].append((counts, payload))
    return result


def model_frames(model):
    return per_pdc([({**asdict(header), "payload_length": len(data)}, data) for header, data in model.frames])


def check_outcomes(environment, model):
    """Completions, results, flags and counts are the model's."""

    def outcome(number, entry):
        return number, entry["descriptor"], entry["status"], entry["length"], entry["opcode"], entry["context"]

    assert sorted(outcome(number, entry) for number, _, entry in environment.completions) == sorted(
        outcome(entry["address"] - COMPLETIONS >> 20, entry) for entry in model.completions
    )
    for number, index, entry in environment.completions:
        assert entry["flags"] == (0 if index >> registers(number)["completion_size"] & 1 else 0x80)
        assert entry["data"] == 0
    counted = collections.Counter((number, error) for number, error, _ in environment.counted)
    assert counted == collections.Counter(model.counted)
    for address, value in model.results.items():
        assert environment.memory.peek(address, 1) == bytes([value])


async def run_random_programs(dut, environment, answer, count):
    """Post ``count`` descriptors in each context, as fast as their rings have space; returns the model after the same
    programs with perfect answers, and the peers."""
    peers = {index: peer(index, index % 3) for index in range(6)} | {6: peer(6, 0, valid=0)}
    for index, fields in peers.items():
        environment.store_peer(index, **fields)
    await environment.peer_stores.sent()
    programs = [random_program(number, count) for number in range(3)]
    model = ModelInitiator(
        PARAMETERS,
        environment.memory,
        {
            number: {key: value for key, value in registers(number, transmit_size=8).items() if key != "enable"}
            | {"enabled": True, "transmit_base": 0x6_0000_0000 + 0x1_0000 * number}
            for number in range(3)
        },
        {index: {**fields, "valid": bool(fields["valid"])} for index, fields in peers.items()},
        answer,
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
            space = entries - (tail - taken[number])
            if space:
                some = random.randint(1, min(space, count - tail))
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
    watcher.cancel()
    return model, peers
