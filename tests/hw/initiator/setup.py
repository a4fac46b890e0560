"""Common parts of the benches of the whole initiator: rings, peers, buffers and answers."""

import random

from amoeba_model.descriptors import TX_DESCRIPTOR, DescriptorFlags, DescriptorOpcode
from amoeba_model.parameters import NicParameters
from amoeba_model.wire.uet import RequestOpcode, ReturnCode, SesFlags
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import always, in_bursts, randomly, start
from cocotb.triggers import ClockCycles

from tests.hw.initiator.environment import Environment

PARAMETERS = NicParameters(contexts=3, peers=8, payload=256, **bench_parameters())
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
WHOLE = SesFlags.START_OF_MESSAGE | SesFlags.END_OF_MESSAGE
FETCHING = (
    RequestOpcode.READ,
    RequestOpcode.FETCHING_ATOMIC,
    RequestOpcode.TSEND_FETCH_ATOMIC,
    RequestOpcode.AMOEBA_COMPARE_ATOMIC,
    RequestOpcode.AMOEBA_FETCHING_ATOMIC,
)
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
        "initiator": 0x560 + index,
        "relative": index & 1,
        **changes,
    }


def well(header, payload):
    """Answers every request with OK and data derived from its psn."""
    if header["opcode"] not in FETCHING:
        return OK, b""
    size = header["request_length"]
    if header["flags"] & WHOLE != WHOLE:
        size = header["payload_length"] // (2 if header["opcode"] == RequestOpcode.AMOEBA_COMPARE_ATOMIC else 1)
    return OK, random.Random(header["psn"]).randbytes(size)


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


def nop(**fields):
    return TX_DESCRIPTOR.pack(**{"opcode": DescriptorOpcode.NOP, "flags": DescriptorFlags.COMPLETION, **fields})


def to_peer(opcode, *flags, **fields):
    """A descriptor that asks for its completion."""
    return TX_DESCRIPTOR.pack(**{"opcode": opcode, "flags": sum(flags) | DescriptorFlags.COMPLETION, **fields})
