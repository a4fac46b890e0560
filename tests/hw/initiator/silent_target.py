"""The whole initiator in front of a target that says nothing but what a bench has it say."""

from amoeba_model.descriptors import DescriptorOpcode
from amoeba_model.wire.uet import ReturnCode
from cocotb.triggers import ClockCycles

from tests.hw.initiator.lossy_target import nack
from tests.hw.initiator.setup import OK, OPERANDS, PARAMETERS, peer, started, to_peer

TIMEOUT = 2000
ROUND = 2 * PARAMETERS.peers
"""Cycles in which the timers are looked at once."""
START = 100
WRITE = DescriptorOpcode.WRITE
FAILED = ReturnCode.LOCAL_PDC_FAILED


def write(context=0, length=8, flags=0, index=0, local=OPERANDS):
    return to_peer(WRITE, flags, length=length, peer=index, local=local, context=context)


async def silent(dut, limit=8, peers=(0,)):
    """An environment whose target answers nothing by itself."""
    environment = await started(dut, lambda header, payload: None)
    environment.set_retransmission(TIMEOUT, limit)
    for index in peers:
        environment.store_peer(index, **peer(index, index, initial_psn=START))
    await environment.peer_stores.sent()
    return environment


async def frames(environment, count, cycles=20_000):
    """Wait until ``count`` frames were sent in all; returns (psn - START, retx) of each."""
    limit = environment.cycle + cycles
    while len(environment.frames) < count:
        await ClockCycles(environment.dut.clk, 1)
        assert environment.cycle < limit, f"{len(environment.frames)} of {count} frames"
    return sent(environment)


def sent(environment):
    return [(header["psn"] - START, header["retx"]) for header, _ in environment.frames]


def statuses(environment):
    return [(entry["context"], entry["status"]) for _, _, entry in environment.completions]


def acknowledge(environment, number, cack=None, code=OK):
    """Answer frame ``number``, cumulatively up to psn START + ``cack``."""
    header, _ = environment.frames[number]
    changes = {} if cack is None else {"cack_psn": START + cack}
    environment.respond(header, code, b"", **changes)


def refuse(environment, number, code, psn=None, **changes):
    header, _ = environment.frames[number]
    psn = header["psn"] if psn is None else START + psn
    environment.responses.send({**nack(header, code, psn), **changes})
