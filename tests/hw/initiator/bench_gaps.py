"""Testbench of the whole initiator: answers behind a gap, and what is missing.

Parameters: ``data_width``, ``window``.

Covers ``initiator/answer_gaps.py``.
"""

import cocotb
from amoeba_model.descriptors import DescriptorOpcode
from amoeba_model.wire.uet import NackCode, ReturnCode
from cocotb.triggers import ClockCycles

from tests.hw.initiator.setup import OK, RESULTS, peer, to_peer
from tests.hw.initiator.silent_target import (
    FAILED,
    ROUND,
    START,
    TIMEOUT,
    acknowledge,
    frames,
    refuse,
    sent,
    silent,
    statuses,
    write,
)

READ_SIZE = 200


def read(number):
    return to_peer(DescriptorOpcode.READ, length=READ_SIZE, result=RESULTS + 0x1000 * number, context=number)


def content(number, salt=0):
    return bytes([number + salt]) * READ_SIZE


def answer(environment, number, salt=0, **changes):
    """Answer READ ``number`` with data of its own."""
    environment.respond(environment.frames[number][0], OK, content(number, salt), **changes)


async def reads(dut, count, **options):
    """An environment whose target has that many READs, and answers none by itself."""
    environment = await silent(dut, **options)
    environment.post(0, 0, [read(number) for number in range(count)])
    await frames(environment, count)
    return environment


def counted(environment):
    """Answers taken, answers dropped, packets sent again."""
    names = ("count_responses_received", "count_dropped_response", "count_retransmissions")
    return tuple(environment.counts[name] for name in names)


async def settle(environment, cycles=300):
    await ClockCycles(environment.dut.clk, cycles)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(lost=[[0], [3], [2, 3, 4], [0, 5], [1, 3, 5], list(range(7))])
async def of_reads_only_the_answers_that_were_lost_are_asked_for_again(dut, lost):
    environment = await reads(dut, 8)
    for number in range(8):
        if number not in lost:
            answer(environment, number)
    asked = await frames(environment, 8 + len(lost))
    assert asked[8:] == [(number, 1) for number in lost]
    await settle(environment)
    assert statuses(environment) == [(number, OK) for number in range(lost[0])]
    for number in lost:
        answer(environment, number)
    await environment.completed(8)
    await settle(environment)
    assert statuses(environment) == [(number, OK) for number in range(8)]
    for number in range(8):
        assert environment.memory.peek(RESULTS + 0x1000 * number, READ_SIZE) == content(number)
    assert counted(environment) == (8, 0, len(lost))
    assert len(environment.frames) == 8 + len(lost)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_second_answer_is_dropped_with_its_data(dut):
    environment = await reads(dut, 4)
    answer(environment, 2)
    answer(environment, 2, salt=1)
    # What the third write of a mixed PDC would cover is no READ's: nothing is answered by it.
    answer(environment, 2, salt=2, cack_psn=START + 3)
    await frames(environment, 6)
    for number in (0, 1):
        answer(environment, number)
    answer(environment, 2, salt=3)
    answer(environment, 3)
    await environment.completed(4)
    await settle(environment)
    assert counted(environment) == (4, 3, 2)
    assert environment.memory.peek(RESULTS + 0x2000, READ_SIZE) == content(2)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_packet_whose_answer_was_kept_keeps_its_status_whatever_covers_it(dut):
    environment = await silent(dut)
    environment.post(0, 0, [write(number) for number in range(6)])
    await frames(environment, 6)
    acknowledge(environment, 1, code=ReturnCode.BAD_ADDR)
    acknowledge(environment, 3, code=ReturnCode.BAD_MKEY)
    await settle(environment)
    assert counted(environment) == (2, 0, 2)
    acknowledge(environment, 3, cack=3)
    await environment.completed(4)
    acknowledge(environment, 5, cack=5)
    await environment.completed(6)
    assert [status for _, status in statuses(environment)] == [
        OK, ReturnCode.BAD_ADDR, OK, ReturnCode.BAD_MKEY, OK, OK
    ]  # fmt: skip
    assert counted(environment) == (3, 1, 2)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_repeat_that_is_lost_is_found_by_the_timeout_and_what_is_kept_is_not_sent_again(dut):
    environment = await reads(dut, 5)
    for number in (1, 2, 4):
        answer(environment, number)
    assert (await frames(environment, 7))[5:] == [(0, 1), (3, 1)]
    asked = environment.cycle
    assert (await frames(environment, 9))[7:] == [(0, 1), (3, 1)]
    # Since something was lost it comes early.
    assert TIMEOUT // 4 - ROUND <= environment.cycle - asked <= TIMEOUT // 4 + 4 * ROUND + 100
    # It was forgotten what was asked for: the next answer asks again for what is missing before it.
    answer(environment, 3)
    assert (await frames(environment, 10))[9:] == [(0, 1)]
    answer(environment, 0)
    await environment.completed(5)
    assert counted(environment) == (5, 0, 5)
    assert environment.counts["count_timeouts"] == 1


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_target_that_keeps_what_it_has_gets_what_it_misses_once(dut):
    environment = await silent(dut)
    environment.set_retransmission(100 * TIMEOUT, 8)
    environment.post(0, 0, [write(number) for number in range(8)])
    await frames(environment, 8)
    expected = sent(environment)
    cases = (((1, 2), (1, 2)), ((1, 2), ()), ((2, 3), (3, 4)), ((6, 1), (6,)), ((7, 200), (7,)), ((1, 1), ()))
    for (number, missing), again in cases:
        refuse(environment, 0, NackCode.ROD_OOO, psn=number, missing=missing)
        expected += [(psn, 1) for psn in again]
        await settle(environment)
        assert sent(environment) == expected, (number, missing)
    refuse(environment, 0, NackCode.ROD_OOO, psn=6)
    await settle(environment)
    assert sent(environment) == [*expected, (6, 1), (7, 1)]
    assert environment.counts["count_nacks_received"] == 7


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def gaps_that_are_found_while_a_pdc_sends_again_are_filled_in_order(dut):
    """Gaps that are found before it begins make one with the packets between them."""
    environment = await silent(dut)
    environment.post(0, 0, [write(number, length=200) for number in range(8)])
    await frames(environment, 8)
    for number, missing in ((1, 3), (5, 1), (7, 1)):
        refuse(environment, 0, NackCode.ROD_OOO, psn=number, missing=missing)
    await settle(environment)
    repeats = [psn for psn, _ in sent(environment)[8:]]
    assert {1, 2, 3, 5, 7} <= set(repeats)
    assert sorted(set(repeats)) == repeats


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def what_was_kept_keeps_its_status_when_the_pdc_fails(dut):
    environment = await reads(dut, 5)
    answer(environment, 1)
    environment.respond(environment.frames[3][0], ReturnCode.BAD_ADDR, b"")
    await frames(environment, 7)
    environment.fail_peer(0)
    await environment.completed(5)
    assert [status for _, status in statuses(environment)] == [FAILED, OK, FAILED, ReturnCode.BAD_ADDR, FAILED]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_pdc_that_is_opened_anew_has_no_answers(dut):
    environment = await reads(dut, 4)
    for number in (1, 2, 3):
        answer(environment, number)
    await frames(environment, 5)
    environment.store_peer(0, **peer(0, 0, initial_psn=START))
    await environment.peer_stores.sent()
    await settle(environment)
    environment.post(0, 4, [read(number) for number in range(4, 8)])
    await frames(environment, 9)
    environment.respond(environment.frames[5][0], OK, content(4))
    await environment.completed(1)
    await settle(environment)
    assert statuses(environment) == [(4, OK)]
    for number in (1, 2, 3):
        environment.respond(environment.frames[5 + number][0], OK, content(4 + number))
    await environment.completed(4)
    assert counted(environment) == (7, 0, 1)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_pdc_with_kept_answers_does_not_begin_anew(dut):
    environment = await reads(dut, 4)
    answer(environment, 0)
    answer(environment, 2)
    await frames(environment, 5)
    refuse(environment, 1, NackCode.INV_DPDCID)
    await environment.completed(4)
    assert [status for _, status in statuses(environment)] == [OK, FAILED, OK, FAILED]
