"""Testbench of the initiator's request half: from descriptors to packets, of several contexts to several peers.

Parameters: ``data_width``, ``places`` of a context's queue.

Covers ``initiator/descriptor_check.py``, ``initiator/descriptor_dispatch.py``, ``initiator/operand_requester.py``,
``initiator/request_store.py`` and ``initiator/fork.py``.
"""

import random
from collections import defaultdict

import cocotb
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.parameters import NicParameters
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import start
from cocotb.triggers import ClockCycles

from tests.hw.initiator.request_half_environment import (
    DATA,
    REFUSED,
    Environment,
    cut_requests,
    patterns,
    random_descriptor,
    seen,
    waits,
    write,
)

CONTEXTS = 4
WIDTH = bench_parameters()["data_width"]
PLACES = bench_parameters()["places"]
BIG = NicParameters(data_width=WIDTH, contexts=CONTEXTS, peers=8)


async def environment_with(dut, enabled=range(CONTEXTS), **arguments):
    environment = Environment(dut, BIG, **arguments)
    await start(dut)
    for number in enabled:
        environment.enable(number)
    await ClockCycles(dut.clk, 3)
    return environment


async def check_random_traffic(dut, environment, count):
    """Post random descriptors to all contexts; the packets to each peer must be the specification's, in order."""
    expected = defaultdict(list)
    refused = 0
    posted = {}
    for _ in range(count // 8):
        for number in range(CONTEXTS):
            descriptors = [random_descriptor(random, BIG, number) for _ in range(8)]
            for fields in descriptors:
                index = environment.tails[number] + descriptors.index(fields)
                packets = cut_requests(BIG, environment.memory, number, index, fields)
                expected[fields["peer"]] += packets
                refused += not packets and not waits(fields)
                posted[number, index] = fields
            environment.post(number, descriptors)
        await ClockCycles(dut.clk, 40)
    await environment.sent(sum(map(len, expected.values())), cycles=60_000)
    await ClockCycles(dut.clk, 300)
    for peer in range(BIG.peers):
        mine = [(seen(p), payload) for _, p, payload in environment.packets if p["ticket"]["peer"] == peer]
        for got, wanted in zip(mine, expected[peer], strict=True):
            assert got == wanted, f"peer {peer}: expected {wanted}, got {got}"
    assert len(environment.completions.received) == refused
    check_fences(environment, posted)
    # Every place came back.
    assert all(window.places == 0 for window in environment.windows)
    assert len(environment.cuts) == len(environment.packets) + environment.dropped.total()


def check_fences(environment, posted):
    """Every NOP with a fence has ended, behind all answers that it was to wait for, as has begun what has FENCE_ALL.

    Requests behind a FENCE_ALL begin behind it.
    """
    assert environment.ended.keys() == {place for place, fields in posted.items() if waits(fields)}
    assert environment.ended
    for (number, index), cycle in environment.ended.items():
        fields = posted[number, index]
        for before in range(index):
            other = posted[number, before]
            if fields["flags"] & DescriptorFlags.FENCE_ALL or other["peer"] == fields["peer"]:
                assert environment.answered.get((number, before), 0) < cycle, f"{index} ended before {before}"
    sent = {}
    """Places of the first and the last packet of a request among all."""
    for at, (_, packet, _) in enumerate(environment.packets):
        place = packet["ticket"]["context"], packet["ticket"]["index"]
        sent[place] = sent.get(place, (at,))[0], at
    for (number, index), fields in posted.items():
        if fields["flags"] & DescriptorFlags.FENCE_ALL and (number, index) in sent:
            begin = sent[number, index][0]
            for (other, place), own in sent.items():
                assert other != number or place >= index or own[1] < begin, f"{index} began before {place} left"
                assert other != number or place <= index or own[0] > begin, f"{place} began before {index}"


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(pace=list(patterns()))
async def packets_are_those_of_the_specification_in_the_order_of_each_peer(dut, pace):
    environment = await environment_with(dut, pace=patterns()[pace], window=4, answer_rate=0.15)
    await check_random_traffic(dut, environment, 160)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def contexts_alternate_packet_by_packet(dut):
    environment = await environment_with(dut)
    for window in environment.windows:
        window.blocked = True
    for number in range(CONTEXTS):
        environment.post(number, [write(number, 40 * 4096 * (number == 0) or 8, flags=0) for _ in range(PLACES)])
    await ClockCycles(dut.clk, 100 + 20 * PLACES)
    # All places are taken: each context has something to send in every turn, once its queue has been found again.
    for window in environment.windows:
        window.blocked = False
    await environment.sent(CONTEXTS * PLACES, cycles=60_000)
    order = [packet["ticket"]["context"] for _, packet, _ in environment.packets]
    for turn in range(2 * CONTEXTS, CONTEXTS * (PLACES - 2)):
        assert set(order[turn : turn + CONTEXTS]) == set(range(CONTEXTS)), order


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_peer_that_is_blocked_holds_up_no_other_of_its_context(dut):
    environment = await environment_with(dut, enabled=[1])
    environment.windows[1].blocked = True
    environment.post(1, [write(1, peer=1 + 4 * (index % 2)) for index in range(PLACES)])
    await environment.sent(PLACES // 2, cycles=400)
    await ClockCycles(dut.clk, 200)
    assert [packet["ticket"]["index"] for _, packet, _ in environment.packets] == list(range(1, PLACES, 2))
    environment.windows[1].blocked = False
    await environment.sent(PLACES, cycles=400)
    assert [packet["ticket"]["index"] for _, packet, _ in environment.packets[PLACES // 2 :]] == list(
        range(0, PLACES, 2)
    )


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_fence_and_a_close_wait_for_the_answers_of_their_peer_only(dut):
    environment = await environment_with(dut, answer_rate=0.0, enabled=[1])
    close = write(1, flags=0, length=77, opcode=DescriptorOpcode.CLOSE)
    other = write(1, peer=5, flags=DescriptorFlags.INLINE | DescriptorFlags.FENCE)
    fence = write(1, 2 * 4096, flags=DescriptorFlags.FENCE)
    environment.post(1, [write(1), write(1), other, fence, close, write(1)])
    await ClockCycles(dut.clk, 400)
    assert [packet["ticket"]["peer"] for _, packet, _ in environment.packets] == [1, 1, 5]
    environment._answer_rate = 0.02
    await environment.sent(7)
    assert [packet["ticket"]["index"] for _, packet, _ in environment.packets] == [0, 1, 2, 3, 3, 4, 5]
    cuts = [cycle for cycle, _ in environment.cuts]
    # The second packet of the fenced request follows at once; what stands around it waits for answers.
    assert cuts[4] - cuts[3] < 10
    assert [packet["is_close"] for _, packet, _ in environment.packets] == [0, 0, 0, 0, 0, 1, 0]
    assert [packet["length"] for _, packet, _ in environment.packets][5] == 0


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def fence_all_waits_for_all_peers_of_its_context_and_holds_up_no_other(dut):
    environment = await environment_with(dut, answer_rate=0.0)
    fenced = DescriptorFlags.INLINE | DescriptorFlags.FENCE_ALL
    nop = {"opcode": DescriptorOpcode.NOP, "length": 0}
    environment.post(1, [write(1), write(1, peer=5), write(1, flags=DescriptorFlags.FENCE_ALL, peer=999, **nop)])
    environment.post(1, [write(1, flags=DescriptorFlags.FENCE, **nop), write(1, 2 * 4096, peer=5, flags=fenced & ~2)])
    environment.post(2, [write(2), write(2, flags=DescriptorFlags.FENCE, peer=6, **nop), write(2)])
    await ClockCycles(dut.clk, 400)
    assert sorted(packet["ticket"]["peer"] for _, packet, _ in environment.packets) == [1, 2, 2, 5]
    assert list(environment.ended) == [(2, 1)]
    environment._answer_rate = 0.02
    await environment.sent(6)
    assert [packet["ticket"]["index"] for _, packet, _ in environment.packets[4:]] == [4, 4]
    assert sorted(environment.ended) == [(1, 2), (1, 3), (2, 1)]
    cuts = [cycle for cycle, _ in environment.cuts]
    assert cuts[5] - cuts[4] < 10
    assert max(environment.answered[1, 0], environment.answered[1, 1]) < environment.ended[1, 2] < cuts[4]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_fenced_nop_of_a_context_that_is_disabled_vanishes(dut):
    environment = await environment_with(dut, answer_rate=0.0, enabled=[1])
    nop = write(1, 0, flags=DescriptorFlags.FENCE_ALL, opcode=DescriptorOpcode.NOP)
    environment.post(1, [write(1), nop])
    await ClockCycles(dut.clk, 200)
    environment.enable(1, 0)
    await ClockCycles(dut.clk, 20)
    environment._answer_rate = 1.0
    await ClockCycles(dut.clk, 200)
    assert not environment.ended
    environment.enable(1)
    await ClockCycles(dut.clk, 3)
    environment.post(1, [nop] * (3 * PLACES) + [write(1)])
    await environment.sent(2)
    assert len(environment.ended) == 3 * PLACES


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_request_to_a_failed_peer_is_one_packet_without_operands(dut):
    environment = await environment_with(dut, enabled=[2])
    environment.windows[2].failed = True
    environment.post(2, [write(2, 5 * 4096, flags=DescriptorFlags.IMMEDIATE, local=REFUSED), write(2, peer=6)])
    await environment.sent(2)
    await ClockCycles(dut.clk, 100)
    (_, packet, payload), (_, other, _) = environment.packets
    assert packet["last"]
    assert not payload
    assert not packet["fault"]
    assert other["ticket"]["peer"] == 6
    assert environment.commands["operand"].received == []


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def what_a_disabled_context_queued_vanishes_and_a_request_begun_ends_with_a_no_op(dut):
    environment = await environment_with(dut, host_latency=60)
    for _ in range(5):
        environment.windows[0].size = random.randint(1, 3)
        environment._answer_rate = 0.0
        begun = len(environment.packets)
        environment.post(0, [write(0, 10 * 4096, flags=0)] + [write(0) for _ in range(3 * PLACES)])
        await ClockCycles(dut.clk, 1200)
        environment.enable(0, 0)
        environment.post(1, [write(1)] * 5)
        await ClockCycles(dut.clk, random.randint(1, 200))
        environment.enable(0)
        await ClockCycles(dut.clk, 2)
        environment.post(0, [write(0, 16, flags=0, local=DATA + 5)] * 4)
        environment._answer_rate = 0.2
        sent = begun + environment.windows[0].size + 1 + 4 + 5
        await environment.sent(sent)
        await ClockCycles(dut.clk, 200)
        assert len(environment.packets) == sent
        mine = [packet for _, packet, _ in environment.packets[begun:] if packet["ticket"]["context"] == 0]
        ends = [bool(packet["last"]) for packet in mine]
        assert ends == [False] * environment.windows[0].size + [True] * 5
        faults = [bool(packet["fault"]) for packet in mine]
        assert faults == [False] * environment.windows[0].size + [True] + [False] * 4
        assert [packet["ticket"]["index"] for packet in mine[-4:]] == [0, 1, 2, 3]
    # The places of what vanished came back: everything fits again.
    count = len(environment.packets)
    environment.windows[0].size = 64
    environment.post(0, [write(0) for _ in range(4 * PLACES)])
    await environment.sent(count + 4 * PLACES)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def after_a_refused_packet_nothing_of_its_request_leaves_and_other_contexts_go_on(dut):
    environment = await environment_with(dut, host_latency=100)
    good = 6 * 4096
    start_of_range = DATA + (1 << 20) - good
    environment.post(0, [write(0, 40 * 4096, flags=0, local=start_of_range), write(0)])
    environment.post(1, [write(1, good, flags=0), write(1)])
    await environment.sent(7 + 1 + 7)
    await ClockCycles(dut.clk, 1000)
    mine = [packet for _, packet, _ in environment.packets if packet["ticket"]["context"] == 0]
    assert [bool(packet["fault"]) for packet in mine] == [False] * 6 + [True, False]
    assert [bool(packet["last"]) for packet in mine] == [False] * 6 + [True, True]
    others = [packet for _, packet, _ in environment.packets if packet["ticket"]["context"] == 1]
    assert len(others) == 7
    assert not any(packet["fault"] for packet in others)
    assert len(environment.cuts) == len(environment.packets) + environment.dropped.total()
    assert environment.windows[0].places == 0


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def packets_sent_again_go_first_with_their_operands_and_fail_alone(dut):
    environment = await environment_with(dut, enabled=[0])
    environment.post(0, [write(0, 4 * 4096, flags=0), write(0)])
    await environment.sent(5)
    originals = [packet for _, packet, _ in environment.packets]
    again = [{**packet, "resend": 1, "psn": 100 + place} for place, packet in enumerate(originals)]
    again[1]["local"] = REFUSED
    again[2]["fault"] = 1
    environment.resends.send(*again)
    environment.post(0, [write(0, 3 * 4096, flags=0)])
    await environment.sent(13)
    resent = [(packet, payload) for _, packet, payload in environment.packets if packet["resend"]]
    assert [packet["psn"] for packet, _ in resent] == [100, 101, 102, 103, 104]
    assert [bool(packet["fault"]) for packet, _ in resent] == [False, True, True, False, False]
    assert [bool(packet["last"]) for packet, _ in resent] == [False, False, False, True, True]
    assert [len(payload) for _, payload in resent] == [4096, 0, 0, 4096, 8]
    assert resent[3][1] == environment.memory.read(DATA + 3 * 4096, 4096)
    assert [bool(packet["fault"]) for _, packet, _ in environment.packets if not packet["resend"]] == [False] * 8
