# amaranth: UnusedElaboratable=no
"""The initiator's components, each on its own."""

import random
from functools import partial

import pytest
from amaranth.sim import Simulator
from amoeba_hw.initiator.completion_writer import CompletionWriter
from amoeba_hw.initiator.descriptor_check import DescriptorCheck
from amoeba_hw.initiator.descriptor_fetch import DescriptorFetch
from amoeba_hw.initiator.fork import Fork
from amoeba_hw.initiator.operand_requester import OperandRequester
from amoeba_hw.initiator.payload_join import PayloadJoin
from amoeba_hw.initiator.request_queues import RequestQueues
from amoeba_hw.initiator.request_store import QUEUE_DEPTH
from amoeba_hw.initiator.transmit_scheduler import TransmitScheduler
from amoeba_model.descriptors import TX_DESCRIPTOR, DescriptorFlags, DescriptorOpcode
from amoeba_model.nic.capabilities import Capabilities
from amoeba_model.nic.descriptors import DescriptorCheck as ModelCheck
from amoeba_model.nic.packets import ses_opcode_of
from amoeba_model.nic.peers import Peer
from amoeba_model.nic.tables import Context, Request
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters
from amoeba_model.wire.uet import ReturnCode
from amoeba_sim.cocotb_runner import run_bench

from tests.hw.host.ordered_writes import WithOrderedWrites
from tests.hw.initiator.request_half import RequestHalf


@pytest.mark.parametrize("data_width", [128, 256, 512])
def test_payload_join(data_width):
    run_bench(PayloadJoin(data_width), "tests.hw.initiator.bench_payload_join", parameters={"data_width": data_width})


@pytest.mark.parametrize("data_width", [128, 256, 512])
def test_descriptor_fetch(data_width):
    parameters = {"data_width": data_width, "depth": 8}
    run_bench(
        DescriptorFetch(data_width, depth=8), "tests.hw.initiator.bench_descriptor_fetch", parameters=parameters
    )


@pytest.mark.parametrize("data_width", [128, 256, 512])
def test_completion_writer(data_width):
    parameters = NicParameters(data_width=data_width, contexts=3)
    run_bench(
        WithOrderedWrites(CompletionWriter, parameters),
        "tests.hw.initiator.bench_completion_writer",
        parameters={"data_width": data_width},
    )


@pytest.mark.parametrize("contexts", [1, 3])
def test_transmit_scheduler(contexts):
    component = TransmitScheduler(contexts, places=28)
    run_bench(
        component, "tests.hw.initiator.bench_transmit_scheduler", parameters={"contexts": contexts, "places": 28}
    )


def test_a_fetch_needs_space_for_a_whole_command():
    with pytest.raises(ValueError, match="at least 4 descriptors, got 3"):
        DescriptorFetch(256, depth=3)


SMALL = NicParameters(
    datatypes=(Datatype.FI_UINT64, Datatype.FI_DOUBLE, Datatype.FI_LONG_DOUBLE_COMPLEX),
    ops=(Op.FI_SUM, Op.FI_MIN, Op.FI_BXOR, Op.FI_ATOMIC_READ, Op.FI_CSWAP, Op.FI_MSWAP),
)


LENGTHS = (0, 1, 8, 9, 16, 31, 32, 33, 4096, 4097, 1 << 30)


def likely_descriptor(rng):
    datatype = rng.choice([*Datatype, *Datatype, 20, 255])
    size = Datatype(datatype).size if datatype < len(Datatype) else 8
    return {
        "opcode": rng.choice([*DescriptorOpcode, *DescriptorOpcode, len(DescriptorOpcode), 128]),
        "op": rng.choice([*Op, *Op, 20, 255]),
        "datatype": datatype,
        "flags": rng.choice([0, 1, DescriptorFlags.INLINE, 3, 4, 8, 16, 0x1D, 0x20, 0x24, 0x40, 0x80]),
        "length": rng.choice([*LENGTHS, size, size, 2 * size, size + 1, 4096 + size, (1 << 30) + size]),
        "peer": rng.choice([0, 0, 0, 1, 32, 0x8000]),
    }


@pytest.mark.parametrize("parameters", [NicParameters(), SMALL], ids=["everything", "few operations"])
def test_descriptors_are_refused_for_the_model_s_reason(parameters):
    rng = random.Random(5)
    context = Context(0)
    peers = [Peer(valid=True, context=0), *(Peer() for _ in range(31))]
    model = ModelCheck(parameters, Capabilities(parameters), peers)
    check = DescriptorCheck(parameters)
    seen = set()

    async def compare(ctx):
        for _ in range(3000):
            fields = likely_descriptor(rng)
            names = ("remote_address", "remote_key", "local", "result", "compare", "user_context")
            request = Request(context, 0, 0, 0, **fields, **dict.fromkeys(names, 0), counter=0)
            ctx.set(check.descriptor.as_value(), int.from_bytes(TX_DESCRIPTOR.pack(**fields), "little"))
            await ctx.tick()
            ctx.set(check.peer_allowed, fields["peer"] == 0)
            status = ctx.get(check.status)
            is_sent = model.check(request)
            assert status == request.status, fields
            assert is_sent == ctx.get(check.becomes_request), fields
            assert ctx.get(check.is_close) == (fields["opcode"] == DescriptorOpcode.CLOSE)
            if is_sent and fields["opcode"] != DescriptorOpcode.NOP:
                assert ctx.get(check.ses_opcode) == ses_opcode_of(request, parameters.payload), fields
            seen.add(ReturnCode(status))

    simulator = Simulator(check)
    simulator.add_clock(1e-6)
    simulator.add_testbench(compare)
    simulator.run()
    assert seen == {
        ReturnCode.OK,
        ReturnCode.LOCAL_BAD_DESCRIPTOR,
        ReturnCode.AMO_UNSUPPORTED_OP,
        ReturnCode.LOCAL_BAD_PEER,
    }


def test_a_fork_serves_each_selected_output_once_and_none_waits_for_another():
    fork = Fork(8, 3)
    rng = random.Random(3)
    sent = [(rng.getrandbits(8), rng.getrandbits(3)) for _ in range(200)]
    received = [[], [], []]

    async def source(ctx):
        for payload, select in sent:
            ctx.set(fork.i.payload, payload)
            ctx.set(fork.select, select)
            ctx.set(fork.i.valid, 1)
            await ctx.tick().until(fork.i.ready)
            ctx.set(fork.i.valid, 0)
            if rng.random() < 0.3:
                await ctx.tick()

    async def sinks(ctx):
        while True:
            for output in fork.o:
                ctx.set(output.ready, rng.random() < 0.4)
            values = [(output.valid, output.ready, output.payload) for output in fork.o]
            _, _, *sampled = await ctx.tick().sample(*(value for triple in values for value in triple))
            for index, seen in enumerate(received):
                valid, ready, payload = sampled[3 * index : 3 * index + 3]
                if valid and ready:
                    seen.append(payload)

    simulator = Simulator(fork)
    simulator.add_clock(1e-6)
    simulator.add_testbench(source)
    simulator.add_testbench(sinks, background=True)
    simulator.run()
    for index, seen in enumerate(received):
        assert seen == [payload for payload, select in sent if select >> index & 1]


def test_a_fork_needs_an_output():
    with pytest.raises(ValueError, match="at least one output, got 0"):
        Fork(8, 0)


def test_queues_and_buffers_need_space():
    with pytest.raises(ValueError, match="power of two, at least 2, got 12"):
        RequestQueues(4, 8, 12)
    with pytest.raises(ValueError, match="at least 4 requests, got 3"):
        TransmitScheduler(4, 3)
    with pytest.raises(ValueError, match="at least 128 beats of operands, got 127"):
        OperandRequester(NicParameters(data_width=256, payload=4096), 127, 64)


def request_half(bench, data_width, places):
    component = partial(RequestHalf, NicParameters(data_width=data_width, contexts=4, peers=8), places)
    run_bench(component, bench, parameters={"data_width": data_width, "places": places}, timeout=300)


@pytest.mark.parametrize(
    ("data_width", "places"), [(128, 8), (256, 16), pytest.param(512, 8, marks=pytest.mark.long)]
)
def test_request_half(data_width, places):
    request_half("tests.hw.initiator.bench_request_half", data_width, places)


@pytest.mark.parametrize("data_width", [256, pytest.param(512, marks=pytest.mark.long)])
def test_request_half_pace(data_width):
    request_half("tests.hw.initiator.bench_request_half_pace", data_width, QUEUE_DEPTH)
