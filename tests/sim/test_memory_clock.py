"""The memory engine's own clock, which stands still in simulation while it is idle, changes no cycle of the NIC."""

import random
from dataclasses import replace

import pytest
from amaranth.hdl import Const, EnableInserter
from amoeba_hw.memory import line_table
from amoeba_hw.memory.line_hash import LineHash
from amoeba_hw.nic import Nic
from amoeba_model.descriptors import DescriptorOpcode
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.trace import Stage
from amoeba_model.wire.uet import ReturnCode
from amoeba_sim.rtl import RtlDevice
from amoeba_sim.verilate import build_nic

from tests.support.pcie_rtl import SMALL
from tests.support.raw_driver import Pair, connect

pytestmark = pytest.mark.long

# Few lines, so that they are given away again and again.
PARAMETERS = replace(SMALL, lines=8)
REGION = 2048
ATOMICS = {
    DescriptorOpcode.ATOMIC: (Op.FI_SUM, Op.FI_ATOMIC_WRITE),
    DescriptorOpcode.FETCH_ATOMIC: (Op.FI_SUM, Op.FI_ATOMIC_READ),
}


class StillHash(LineHash):
    """Its key is always the same: which one it is depends on how long the clock has run before the first line."""

    def elaborate(self, platform):
        return EnableInserter(Const(0))(super().elaborate(platform))


@pytest.fixture(scope="module")
def libraries():
    """Of a NIC with one clock, and of one whose memory engine has its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_table, "LineHash", StillHash)
        return [build_nic(Nic(PARAMETERS, memory_clock=own)) for own in (False, True)]


def transfer(generator, local, remote):
    """A descriptor of a WRITE, a READ or an atomic, of any bytes of both sides."""
    place = {"remote_key": Pair.KEY}
    if generator.random() < 0.5:
        opcode = generator.choice([DescriptorOpcode.WRITE, DescriptorOpcode.READ])
        length = generator.choice([1, 8, 16, 33, 300])
    else:
        opcode = generator.choice(list(ATOMICS))
        length = 8 * generator.choice([1, 1, 1, 2, 9])
        place |= {"op": generator.choice(ATOMICS[opcode]), "datatype": Datatype.FI_UINT64}
    here, there = (8 * generator.randrange((REGION - length) // 8) for _ in range(2))
    if "op" not in place:
        there += generator.randrange(8) if there + length + 8 <= REGION else 0
    return {
        "opcode": opcode, "local": local.address + here, "result": local.address + here, "length": length,
        "remote_address": remote.address + there, **place,
    }  # fmt: skip


def run(library, seed):
    """The events of a random program on two such NICs, their cycles, and the memory afterwards."""
    generator = random.Random(seed)
    stall = generator.choice([0.0, 0.1, 0.4])

    def make(_):
        return RtlDevice(library, host_latency=generator.choice([5, 60]), stall=stall, seed=seed, trace=True)

    pair = connect(make, make, PARAMETERS)
    pair.target.answer_memory()
    theirs, ours = pair.memory(REGION), pair.initiator.buffer(REGION)
    theirs[0], ours[0] = generator.randbytes(REGION), generator.randbytes(REGION)

    def shown(event):
        # The buffers lie elsewhere in each run.
        base = theirs.address if event.stage in (Stage.LINE_READ, Stage.LINE_WRITTEN) else 0
        return event.cycle, event.stage, event.pdc, event.psn - base & 0xFFFF_FFFF

    for _ in range(60):
        count = generator.choice([1, 1, 2, 6])
        for _ in range(count):
            pair.local.post(**transfer(generator, ours, theirs))
        for _ in range(count):
            entry = pair.local.completion()
            assert entry["status"] == ReturnCode.OK, (seed, entry)
        # For so long that the clock stands still, or just does not.
        pair.run(generator.choice([0, 0, 3, 20]))
    events = [[shown(event) for event in nic.device.trace_events()] for nic in (pair.initiator, pair.target)]
    cycles = [nic.device.cycles for nic in (pair.initiator, pair.target)]
    for nic in (pair.initiator, pair.target):
        assert nic.device.faults() == []
        nic.device.close()
    return events, cycles, theirs[:], ours[:]


@pytest.mark.parametrize("seed", range(8))
def test_a_nic_goes_through_the_same_cycles(libraries, seed):
    one_clock, two_clocks = (run(library, seed) for library in libraries)
    assert {stage for _, stage, *_ in one_clock[0][1]} >= {Stage.LINE_READ, Stage.EXECUTED, Stage.LINE_WRITTEN}
    assert one_clock == two_clocks, f"seed {seed}"
