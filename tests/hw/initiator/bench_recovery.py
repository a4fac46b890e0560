"""Testbench of the whole initiator: loss, refusal and failure. Parameters: ``data_width``, ``window``."""

import itertools
import random

import cocotb
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.nic.first_psns import first_psn
from amoeba_model.nic.peers import CAUTION
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.wire.codec import NO_PDC
from amoeba_model.wire.nacks import FATAL_NACKS, LOSS_NACKS
from amoeba_model.wire.uet import NackCode, RequestOpcode, ResponseOpcode, ReturnCode
from cocotb.triggers import ClockCycles

from tests.hw.initiator.environment import PSN_KEY, TARGET_PDC
from tests.hw.initiator.lossy_target import LossyTarget, perfect
from tests.hw.initiator.programs import check_outcomes, model_frames, per_pdc, run_random_programs
from tests.hw.initiator.setup import (
    OK,
    OPERANDS_SIZE,
    PARAMETERS,
    REFUSED,
    RESULTS,
    as_it_comes,
    peer,
    started,
    to_peer,
    well,
)
from tests.hw.initiator.silent_target import (
    FAILED,
    ROUND,
    START,
    TIMEOUT,
    WRITE,
    acknowledge,
    frames,
    refuse,
    sent,
    silent,
    statuses,
    write,
)


@cocotb.test(timeout_time=8, timeout_unit="ms")
@cocotb.parametrize(
    fates=[(0.0, 0.0, 0.0, 0), (0.05, 0.05, 0.05, 0), (0.2, 0.1, 0.1, 0), (0.1, 0.0, 0.0, 8), (0.2, 0.1, 0.1, 2)]
)
async def each_packet_is_executed_once_and_in_order_whatever_the_network_does(dut, fates):
    environment = await started(dut)
    loss, doubling, refusal, slots = fates
    target = environment.answer = LossyTarget(environment, as_it_comes, loss, doubling, refusal, slots=slots)
    environment.set_retransmission(TIMEOUT, 20)
    model, _ = await run_random_programs(dut, environment, perfect(as_it_comes), 40)
    await environment.completed(len(model.completions), cycles=500_000)
    limit = environment.cycle + 100_000
    while len(target.executed) < len(model.frames):
        await ClockCycles(dut.clk, 10)
        assert environment.cycle < limit
    # The last answers are still to come, perhaps again, and requests without a completion are not known yet.
    peek = environment.memory.peek
    while any(peek(address, 1) != bytes([value]) for address, value in model.results.items()):
        await ClockCycles(dut.clk, 100)
        assert environment.cycle < limit
    await ClockCycles(dut.clk, 500)
    await environment.requests_counted(len(model.counted))
    assert per_pdc(target.executed) == model_frames(model)
    check_outcomes(environment, model)
    counts = environment.counts
    assert counts["count_failed_pdcs"] == 0
    assert counts["count_requests_sent"] - counts["count_retransmissions"] == len(model.frames)
    assert (counts["count_retransmissions"] > 0) == (loss > 0 or counts["count_nacks_received"] > 0)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_gap_at_the_target_is_filled_once_until_a_packet_is_answered(dut):
    environment = await silent(dut)
    environment.post(0, 0, [write(index) for index in range(4)])
    await frames(environment, 4)
    for _ in range(3):
        refuse(environment, 3, NackCode.ROD_OOO, psn=1)
    assert await frames(environment, 7) == [(0, 0), (1, 0), (2, 0), (3, 0), (1, 1), (2, 1), (3, 1)]
    await ClockCycles(dut.clk, 300)
    assert len(environment.frames) == 7
    acknowledge(environment, 0)
    await environment.completed(1)
    refuse(environment, 6, NackCode.ROD_OOO, psn=3)
    assert (await frames(environment, 8))[7:] == [(3, 1)]
    # Everything up to the third needs no answer of its own.
    acknowledge(environment, 7, cack=3)
    await environment.completed(4)
    assert statuses(environment) == [(index, OK) for index in range(4)]
    assert environment.counts["count_nacks_received"] == 4
    assert environment.counts["count_retransmissions"] == 4


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def an_answer_that_covers_data_not_received_makes_the_pdc_send_again(dut):
    environment = await silent(dut)
    read = to_peer(DescriptorOpcode.READ, length=8, result=RESULTS, context=1)
    environment.post(0, 0, [write(0), read, write(2)])
    await frames(environment, 3)
    acknowledge(environment, 2, code=ReturnCode.BAD_ADDR, cack=2)
    assert (await frames(environment, 4))[3:] == [(1, 1)]
    await environment.completed(1)
    header, _ = environment.frames[3]
    environment.respond(header, OK, b"\x77" * 8)
    await environment.completed(3)
    await ClockCycles(dut.clk, 300)
    assert len(environment.frames) == 4
    assert environment.counts["count_dropped_response"] == 0
    assert statuses(environment) == [(0, OK), (1, OK), (2, ReturnCode.BAD_ADDR)]
    assert environment.memory.peek(RESULTS, 8) == b"\x77" * 8


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_silent_peer_fails_after_its_timeouts_and_holds_up_no_other(dut):
    environment = await silent(dut, limit=2, peers=(0, 1))
    environment.post(0, 0, [write(1), write(2, length=700), write(3)])
    begun = environment.cycle
    environment.answer = lambda header, payload: well(header, payload) if header["spdcid"] else None
    environment.post(1, 0, [write(4, index=1)])
    await environment.completed(1)
    await environment.completed(4, cycles=8 * TIMEOUT + 1000)
    assert statuses(environment) == [(4, OK), (1, FAILED), (2, FAILED), (3, FAILED)]
    elapsed = environment.cycle - begun
    assert 7 * TIMEOUT <= elapsed <= 7 * TIMEOUT + 8 * ROUND + 500
    first = [header["cycle"] - begun for header, _ in environment.frames if header["psn"] == START and header["retx"]]
    assert len(first) == 2
    for cycle, expected in zip(first, (TIMEOUT, 3 * TIMEOUT), strict=True):
        assert expected <= cycle <= expected + 4 * ROUND + 200
    assert environment.counts["count_timeouts"] == 3
    assert environment.counts["count_failed_pdcs"] == 1
    # What comes later fails without a frame; an entry stored anew talks again.
    seen = len(environment.frames)
    environment.post(0, 3, [write(5, length=700), write(6)])
    await environment.completed(6)
    assert statuses(environment)[4:] == [(5, FAILED), (6, FAILED)]
    assert len(environment.frames) == seen
    environment.store_peer(0, **peer(0, 0, initial_psn=START))
    await environment.peer_stores.sent()
    environment.answer = well
    environment.post(0, 5, [write(7)])
    await environment.completed(7)
    assert statuses(environment)[6] == (7, OK)
    assert environment.frames[-1][0]["syn"]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def after_a_loss_fewer_packets_are_in_flight_until_enough_are_answered(dut):
    window, fewer = PARAMETERS.window, PARAMETERS.window_after_loss
    environment = await silent(dut)
    environment.set_retransmission(100 * TIMEOUT, 8)
    environment.post(0, 0, [write(number, length=OPERANDS_SIZE) for number in range(3)])

    async def outstanding(answered):
        await ClockCycles(dut.clk, 1000)
        counts = environment.counts
        return counts["count_requests_sent"] - counts["count_retransmissions"] - answered

    assert fewer < window
    assert await outstanding(0) == window
    refuse(environment, 0, NackCode.ROD_OOO)
    for answered, expected in (
        (1, window - 1),
        (window, fewer),
        (50, fewer),
        (CAUTION - 1, fewer),
        (CAUTION, window),
    ):
        psn = answered - 1
        number = next(n for n, (each, _) in enumerate(sent(environment)) if each == psn)
        acknowledge(environment, number, cack=psn)
        assert await outstanding(answered) == expected, answered
    assert environment.counts["count_timeouts"] == 0


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(refused=[0, 1])
async def a_target_without_space_is_asked_again_for_as_long_as_it_takes(dut, refused):
    environment = await silent(dut, limit=1)
    environment.post(0, 0, [write(0), write(1)])
    await frames(environment, 2)
    for attempt in range(6):
        begun = environment.cycle
        refuse(environment, -1, NackCode.NO_RESOURCE, psn=refused)
        await frames(environment, 4 + 2 * attempt)
        waited = environment.frames[-1][0]["cycle"] - begun
        assert TIMEOUT // 4 <= waited <= TIMEOUT // 4 + 3 * ROUND + 100
    # Whichever was refused, the oldest leaves again, too: it may have been lost.
    assert sent(environment)[2:] == [(0, 1), (1, 1)] * 6
    acknowledge(environment, -1, cack=1)
    await environment.completed(2)
    assert environment.counts["count_timeouts"] == 0


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(code=[NackCode.NO_PDC_AVAIL.value, NackCode.NO_RESOURCE.value, NackCode.PSN_OOR_WINDOW.value])
async def nacks_without_end_for_a_later_packet_do_not_keep_the_oldest_back(dut, code):
    environment = await silent(dut, limit=1)
    environment.post(0, 0, [write(number) for number in range(3)])
    await frames(environment, 3)
    begun = environment.cycle
    while environment.cycle < begun + 3 * TIMEOUT:
        refuse(environment, 0, code, psn=2)
        await ClockCycles(dut.clk, random.randint(1, 60))
    oldest = [header["cycle"] for header, _ in environment.frames if header["psn"] == START]
    assert len(oldest) > 4
    for earlier, later in itertools.pairwise(oldest):
        assert later - earlier <= TIMEOUT // 4 + 4 * ROUND + 200
    while sent(environment)[-1][0] != 2:
        await ClockCycles(dut.clk, 1)
    acknowledge(environment, -1, cack=2)
    await environment.completed(3)
    assert environment.counts["count_timeouts"] == environment.counts["count_failed_pdcs"] == 0


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def who_finds_no_pdc_for_long_ends_with_a_status_that_says_so(dut):
    full = ReturnCode.LOCAL_PEER_PDC_TABLE_FULL
    environment = await silent(dut, limit=0, peers=(0, 1))
    environment.post(0, 0, [write(0), write(1, length=700)])
    await frames(environment, 4)

    async def refused(times):
        for _ in range(times):
            refuse(environment, 0, NackCode.NO_PDC_AVAIL)
            await ClockCycles(dut.clk, 2 * ROUND)

    await refused(200)
    # One that says that there is a PDC begins the count anew.
    refuse(environment, 0, NackCode.NO_RESOURCE)
    await ClockCycles(dut.clk, 2 * ROUND)
    await refused(512)
    assert environment.counts["count_failed_pdcs"] == 0
    await refused(1)
    await environment.completed(2)
    environment.post(0, 2, [write(2)])
    await environment.completed(3)
    assert statuses(environment) == [(0, full), (1, full), (2, full)]
    assert (environment.counts["count_failed_pdcs"], environment.counts["count_timeouts"]) == (1, 0)
    environment.store_peer(0, **peer(0, 0, initial_psn=START))
    await environment.peer_stores.sent()
    environment.answer = well
    environment.post(0, 3, [write(3)])
    await environment.completed(4)
    # It fails for another reason now.
    environment.fail_peer(0)
    environment.post(0, 4, [write(4)])
    await environment.completed(5)
    assert statuses(environment)[3:] == [(3, OK), (4, FAILED)]


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(code=[code.value for code in sorted(LOSS_NACKS)])
async def a_nack_that_says_that_a_packet_is_lost_has_that_one_sent_again_once(dut, code):
    environment = await silent(dut)
    environment.post(0, 0, [write(number) for number in range(3)])
    await frames(environment, 3)
    for missing in (3, 0):
        refuse(environment, 1, code, missing=missing)
    await frames(environment, 4)
    await ClockCycles(dut.clk, 200)
    assert [header["psn"] - START for header, _ in environment.frames[3:]] == [1]
    assert environment.counts["count_nacks_received"] == 2


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(code=[code.value for code in sorted(FATAL_NACKS)])
async def a_nack_that_says_so_ends_the_pdc(dut, code):
    environment = await silent(dut)
    environment.post(0, 0, [write(0), write(1)])
    await frames(environment, 2)
    refuse(environment, 1, NackCode.NO_PDC_AVAIL)
    await ClockCycles(dut.clk, 200)
    assert len(environment.frames) == 2
    refuse(environment, 0, code, ip=1)
    refuse(environment, 0, code, psn=2)
    refuse(environment, 0, code, psn=-1)
    await ClockCycles(dut.clk, 200)
    assert environment.counts["count_dropped_response"] == 3
    refuse(environment, 1, code)
    await environment.completed(2)
    assert statuses(environment) == [(0, FAILED), (1, FAILED)]
    assert environment.counts["count_failed_pdcs"] == 1


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_target_disowns_only_a_pdc_that_it_has_answered(dut):
    environment = await silent(dut)
    environment.post(0, 0, [write(0), write(1)])
    await frames(environment, 2)
    refuse(environment, 1, NackCode.INV_DPDCID)
    await ClockCycles(dut.clk, 200)
    assert environment.counts["count_dropped_response"] == 1
    acknowledge(environment, 0)
    refuse(environment, 1, NackCode.INV_DPDCID, spdcid=NO_PDC)
    await environment.completed(2)
    assert statuses(environment) == [(0, OK), (1, FAILED)]


def first_packets(environment):
    """(psn - START, whether it has SYN, dpdcid) of each frame."""
    return [(header["psn"] - START, header["syn"], header["dpdcid"]) for header, _ in environment.frames]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_pdc_that_the_target_has_given_away_begins_anew_with_what_is_unanswered(dut):
    environment = await silent(dut)
    environment.post(0, 0, [write(number) for number in range(3)])
    await frames(environment, 3)
    acknowledge(environment, 0)
    for stale in (TARGET_PDC + 1, TARGET_PDC - 1):
        refuse(environment, 1, NackCode.INV_DPDCID, spdcid=stale)
    await ClockCycles(dut.clk, 200)
    assert (environment.counts["count_dropped_response"], len(environment.frames)) == (2, 3)
    refuse(environment, 2, NackCode.INV_DPDCID)
    refuse(environment, 1, NackCode.INV_DPDCID)
    await frames(environment, 5)
    assert first_packets(environment)[3:] == [(1, 1, 0), (2, 1, 1)]
    # A message keeps its number.
    assert [header["message_id"] for header, _ in environment.frames[3:]] == [1, 2]
    environment.respond(environment.frames[4][0], OK, b"", cack_psn=START + 2, spdcid=TARGET_PDC + 3)
    environment.post(0, 3, [write(3)])
    await frames(environment, 6)
    assert first_packets(environment)[5:] == [(3, 0, TARGET_PDC + 3)]
    acknowledge(environment, 5)
    await environment.completed(4)
    assert statuses(environment) == [(number, OK) for number in range(4)]
    assert environment.counts["count_failed_pdcs"] == 0


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def what_timed_out_twice_is_not_sent_to_a_new_pdc(dut):
    environment = await silent(dut)
    environment.post(0, 0, [write(0), write(1)])
    await frames(environment, 2)
    acknowledge(environment, 0)
    await frames(environment, 3)
    refuse(environment, 1, NackCode.INV_DPDCID)
    await frames(environment, 4)
    assert first_packets(environment)[2:] == [(1, 0, TARGET_PDC), (1, 1, 0)]
    environment.respond(environment.frames[3][0], OK, b"")
    environment.post(0, 2, [write(2)])
    # An early one, and two that count.
    await frames(environment, 8)
    refuse(environment, 4, NackCode.INV_DPDCID)
    await environment.completed(3)
    assert statuses(environment) == [(0, OK), (1, OK), (2, FAILED)]
    assert environment.counts["count_failed_pdcs"] == 1


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def nacks_whose_code_says_nothing_here_are_dropped(dut):
    environment = await silent(dut)
    environment.post(0, 0, [write(0)])
    await frames(environment, 1)
    codes = (0, 0x77, NackCode.TRIMMED_ACK, NackCode.NEW_START_PSN, NackCode.RCVD_SES_PROCG)
    for code in codes:
        refuse(environment, 0, code)
    await ClockCycles(dut.clk, 200)
    assert environment.counts["count_dropped_response"] == len(codes)
    assert environment.counts["count_nacks_received"] == 0
    acknowledge(environment, 0)
    await environment.completed(1)
    assert statuses(environment) == [(0, OK)]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def answers_without_a_return_code_mean_what_they_can(dut):
    """A DEFAULT response is OK without data, and has no job; an ACK alone answers a CLOSE, and nothing else does."""
    environment = await silent(dut)
    add = to_peer(
        DescriptorOpcode.FETCH_ATOMIC, DescriptorFlags.INLINE, op=Op.FI_SUM, datatype=Datatype.FI_UINT64, length=8,
        peer=0, local=1, result=RESULTS, context=2,
    )  # fmt: skip
    environment.post(0, 0, [write(0), write(1), add, to_peer(DescriptorOpcode.CLOSE, context=3)])
    await frames(environment, 3)
    default = {"opcode": ResponseOpcode.DEFAULT, "job_id": 0}
    lies = [(1, {"opcode": ResponseOpcode.NONE}), (1, default | {"message_id": 0})]
    asked = [environment.frames[number][0] for number in range(3)]
    for number, lie in lies:
        environment.respond(asked[number], ReturnCode.NULL, b"", cack_psn=asked[number]["psn"], **lie)
    for header in asked[1:]:
        environment.respond(header, ReturnCode.NULL, b"", cack_psn=header["psn"], **default)
    await frames(environment, 4)
    close, _ = environment.frames[3]
    for opcode in (ResponseOpcode.RESPONSE, ResponseOpcode.DEFAULT):
        environment.respond(close, OK, b"", opcode=opcode, message_id=0, job_id=0)
    await ClockCycles(dut.clk, 100)
    assert environment.counts["count_dropped_response"] == len(lies) + 2
    # The reference provider's cack_psn does not count the CLOSE.
    environment.respond(close, ReturnCode.NULL, b"", cack_psn=close["psn"] - 1)
    await environment.completed(4)
    assert statuses(environment) == [(0, OK), (1, OK), (2, ReturnCode.UNCOR), (3, OK)]


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(lost=[None, NackCode.INV_DPDCID, NackCode.CLOSING])
async def a_close_waits_for_all_before_it_and_the_next_packet_opens_anew(dut, lost):
    environment = await silent(dut)
    environment.post(0, 0, [write(0), to_peer(DescriptorOpcode.CLOSE, context=1), write(2)])
    await frames(environment, 1)
    await ClockCycles(dut.clk, 200)
    assert len(environment.frames) == 1
    acknowledge(environment, 0)
    await frames(environment, 2)
    await ClockCycles(dut.clk, 200)
    assert [header["is_control"] for header, _ in environment.frames] == [0, 1]
    assert not environment.frames[1][0]["syn"]
    if lost:
        refuse(environment, 1, lost)
    else:
        acknowledge(environment, 1)
    await frames(environment, 3)
    anew, _ = environment.frames[2]
    start = first_psn(PSN_KEY, anew["spdcid"], START + 2)
    assert (anew["psn"], anew["syn"], anew["dpdcid"], anew["message_id"]) == (start, 1, 0, 0)
    acknowledge(environment, 2)
    await environment.completed(3)
    assert statuses(environment) == [(0, OK), (1, OK), (2, OK)]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_fenced_request_begins_when_all_before_it_are_answered(dut):
    environment = await silent(dut)
    environment.post(0, 0, [write(0), write(1), write(2, length=300, flags=DescriptorFlags.FENCE)])
    await frames(environment, 2)
    acknowledge(environment, 0)
    await ClockCycles(dut.clk, 200)
    assert len(environment.frames) == 2
    acknowledge(environment, 1)
    # Its second packet does not wait for its first.
    assert await frames(environment, 4) == [(0, 0), (1, 0), (2, 0), (3, 0)]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_chain_completes_with_its_first_error_and_the_next_request_with_its_own(dut):
    environment = await silent(dut)
    chained = DescriptorFlags.CHAINED
    bad = to_peer(WRITE, length=8, peer=7, context=9)
    environment.post(0, 0, [write(0, flags=chained), write(1, flags=chained), write(2), write(3)])
    await frames(environment, 4)
    for number, code in enumerate((OK, ReturnCode.BAD_ADDR, ReturnCode.BAD_MKEY, OK)):
        acknowledge(environment, number, code=code)
    await environment.completed(2)
    assert statuses(environment) == [(2, ReturnCode.BAD_ADDR), (3, OK)]
    # A chain whose end is refused hands its error on to nobody.
    environment.post(0, 4, [write(4, flags=chained), bad, write(6)])
    await frames(environment, 6)
    acknowledge(environment, 4, code=ReturnCode.BAD_ADDR)
    acknowledge(environment, 5)
    await environment.completed(4)
    assert sorted(statuses(environment)[2:]) == [(6, OK), (9, ReturnCode.LOCAL_BAD_PEER)]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def operands_refused_the_second_time_concern_their_packet_alone(dut):
    environment = await silent(dut)
    memory = environment.memory
    memory.grant(REFUSED, 512)
    environment.post(0, 0, [write(0, length=512, local=REFUSED), write(1)])
    await frames(environment, 3)
    memory.revoke(REFUSED, 256)
    refuse(environment, 2, NackCode.ROD_OOO, psn=0)
    assert (await frames(environment, 6))[3:] == [(0, 1), (1, 1), (2, 1)]
    opcodes = [header["opcode"] for header, _ in environment.frames[3:]]
    assert opcodes == [RequestOpcode.NO_OP, RequestOpcode.WRITE, RequestOpcode.WRITE]
    acknowledge(environment, 5, cack=2)
    await environment.completed(2)
    assert statuses(environment) == [(0, ReturnCode.LOCAL_DMA_FAULT), (1, OK)]


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(state=["quiet", "held back", "sending again", "closing"])
async def a_peer_that_is_told_to_fail_does_so_at_once_whatever_it_does(dut, state):
    environment = await silent(dut, peers=(0, 1))
    first = to_peer(DescriptorOpcode.READ, length=256, result=RESULTS, context=0)
    rest = [to_peer(DescriptorOpcode.CLOSE, context=1)] if state == "closing" else [write(1, length=700)]
    environment.post(0, 0, [first, *rest, write(2), to_peer(DescriptorOpcode.PING, context=3)])
    await frames(environment, 1 if state == "closing" else 6)
    if state == "held back":
        refuse(environment, 0, NackCode.NO_RESOURCE)
    elif state == "sending again":
        refuse(environment, 0, NackCode.ROD_OOO)
    await ClockCycles(dut.clk, 5)
    begun = environment.cycle
    environment.fail_peer(0)
    environment.fail_peer(0)
    await environment.completed(4)
    assert statuses(environment) == [(number, FAILED) for number in range(4)]
    # Each packet that is cut later is flushed in a visit of its own.
    assert environment.cycle - begun < 8 * ROUND + 200
    counts = environment.counts
    assert (counts["count_failed_pdcs"], counts["count_timeouts"]) == (1, 0)
    seen, dropped = len(environment.frames), counts["count_dropped_response"]
    environment.respond(environment.frames[0][0], OK, b"\x77" * 256)
    await ClockCycles(dut.clk, 2 * TIMEOUT)
    assert counts["count_dropped_response"] == dropped + 1
    assert environment.memory.peek(RESULTS, 256) != b"\x77" * 256
    assert len(environment.frames) == seen
    # An entry that is stored anew talks again, and so did the other one all the time.
    environment.answer = well
    environment.fail_peer(0)
    environment.store_peer(0, **peer(0, 0, initial_psn=START + 1000))
    environment.post(0, 4, [write(4)])
    environment.post(1, 0, [write(5, index=1)])
    await environment.completed(6)
    assert sorted(statuses(environment)[4:]) == [(4, OK), (5, OK)]


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(fence=[DescriptorFlags.FENCE, DescriptorFlags.FENCE_ALL])
async def a_nop_completes_behind_the_answers_it_waited_for_and_their_data(dut, fence):
    environment = await silent(dut)
    read = to_peer(DescriptorOpcode.READ, length=8, result=RESULTS, context=0)
    nop = to_peer(DescriptorOpcode.NOP, fence | DescriptorFlags.COMPLETION, context=1)
    environment.post(0, 0, [read, nop, write(2)])
    await frames(environment, 1)
    environment._done_rate = 0
    environment.respond(environment.frames[0][0], OK, b"\x55" * 8)
    await ClockCycles(dut.clk, 300)
    # Answered, but the data is not on its way to the host yet.
    assert not environment.completions
    environment._done_rate = 1
    await environment.completed(2)
    assert statuses(environment) == [(0, OK), (1, OK)]
    assert environment.memory.peek(RESULTS, 8) == b"\x55" * 8
    assert await frames(environment, 2) == [(0, 0), (1, 0)]
    acknowledge(environment, 1)
    await environment.completed(3)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def fence_all_waits_for_all_peers_of_the_context_until_their_entries_are_stored_anew(dut):
    environment = await silent(dut, peers=(0, 1))
    environment.store_peer(3, **peer(3, 0, initial_psn=START))
    await environment.peer_stores.sent()
    nop = to_peer(DescriptorOpcode.NOP, DescriptorFlags.FENCE_ALL | DescriptorFlags.COMPLETION, peer=99, context=9)
    environment.post(1, 0, [write(1, index=1)])
    environment.post(0, 0, [write(0), write(3, index=3), nop, write(4, index=3)])
    await frames(environment, 3)
    numbers = {header["spdcid"]: number for number, (header, _) in enumerate(environment.frames)}
    acknowledge(environment, numbers[0])
    await environment.completed(1)
    await ClockCycles(dut.clk, 200)
    assert statuses(environment) == [(0, OK)]
    environment.store_peer(3, **peer(3, 0, initial_psn=START + 1000))
    await environment.completed(2)
    assert statuses(environment) == [(0, OK), (9, OK)]
    await frames(environment, 4)
