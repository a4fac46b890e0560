"""Testbench of Target: messages for a context that shares the receives of another.

Parameters: see target_environment.
"""

import cocotb

from tests.hw.target.environment import (
    HEADER_DATA,
    PID,
    SLOTS,
    WHOLE,
    Initiator,
    answers_then_nacks,
    event_entry,
)
from tests.hw.target.message_environment import (
    ADDRESSED,
    BAD_INDEX,
    BUFFER,
    DISABLED,
    NO_MATCH_EVENT,
    NO_RESOURCE,
    OK,
    RECEIVED,
    SEND,
    SHARING,
    SLOT_COUNT,
    TAKE,
    TAKEN,
    UNEXPECTED,
    events_of,
    prepared,
    receive,
)


def to(context, **fields):
    return {"resource_index": context, "pid_on_fep": PID + context} | fields


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def of_a_context_that_shares_receives_only_messages_go_to_the_receiver(dut):
    bench = await prepared(dut)
    bench.share(2, 0)
    sender = Initiator(bench)
    bench.post(receive(context=7))
    await bench.settle()
    sender.send(SEND, **to(2))
    sender.send(SEND, **to(0))
    await bench.settle()
    sender.send(flags=WHOLE | HEADER_DATA, **to(2))
    await bench.settle()
    assert [answer["return_code"] for answer in bench.responses] == [OK] * 3
    event = event_entry(bench, 0, 0)
    assert (event["kind"], event["context"], event["target"]) == (RECEIVED, 7, 2)
    assert [request["address"] for request, _, _ in bench.executed[:2]] == [BUFFER, SLOTS[0]]
    assert event_entry(bench, 0, 1) is None
    assert event_entry(bench, 2, 0)["target"] == 2


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(receiver=[1, 2, 3, 4, 200])
async def a_receiver_that_takes_no_messages_or_does_not_exist_disables_them(dut, receiver):
    bench = await prepared(dut)
    bench.set_context(0, True, shares_receives=1, receive_context=receiver)
    sender = Initiator(bench)
    for _ in range(2 * SLOT_COUNT):
        sender.send(SEND, flags=WHOLE | HEADER_DATA)
        await bench.settle(20)
    assert [answer["return_code"] for answer in bench.responses] == [DISABLED] * 2 * SLOT_COUNT
    bench.clear()
    bench.set_context(0, True)
    sender.send(SEND)
    await bench.settle()
    assert [answer["return_code"] for answer in bench.responses] == [OK]


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def the_receiver_s_space_holds_back_the_messages_for_all_that_share_it(dut):
    bench = await prepared(dut)
    for number in SHARING:
        bench.share(number, 0)
    senders = {number: Initiator(bench, spdcid=number) for number in (0, *SHARING)}
    for _ in range(SLOT_COUNT):
        senders[2].send(SEND, **to(2))
    held = {number: sender.send(SEND, **to(number)) for number, sender in senders.items()}
    await bench.settle()
    *answers, first, second, third = answers_then_nacks(bench)
    assert [answer["return_code"] for answer in answers] == [OK] * SLOT_COUNT
    assert [nack["nack_code"] for nack in (first, second, third)] == [NO_RESOURCE] * 3
    # Other requests of theirs need nothing there.
    senders[2].next -= 1
    senders[2].send(**to(2))
    await bench.settle()
    assert bench.responses[-1]["return_code"] == OK
    bench.post(*[receive(context=number) for number in range(3)])
    await bench.settle(150)
    for slot in range(2):
        bench.sources["slot_releases"].send({"context": 0, "slot": slot})
    await bench.settle()
    for number in (0, 3):
        bench.send(held[number][0] | {"retx": 1}, held[number][1])
    await bench.settle()
    targets = [event_entry(bench, 0, index)["target"] for index in range(3)]
    assert targets == [2, 2, 2]
    assert bench.counts["messages_unexpected"] == SLOT_COUNT + 2


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_context_that_is_disabled_leaves_its_messages_with_the_receiver(dut):
    bench = await prepared(dut)
    bench.share(2, 0)
    sender = Initiator(bench)
    sender.send(SEND, **to(2))
    sender.send(SEND, **to(0))
    await bench.settle()
    bench.set_context(2, False, shares_receives=1)
    sender.send(SEND, **to(2))
    take = receive(TAKE, flags=ADDRESSED, target_context=2, context=5)
    bench.post(take, take, receive(context=6))
    await bench.settle(150)
    assert [answer["return_code"] for answer in bench.responses] == [OK, OK, BAD_INDEX]
    kinds = [(event["kind"], event["target"]) for event in events_of(bench, 0, 3)]
    assert kinds == [(TAKEN, 2), (NO_MATCH_EVENT, 0), (UNEXPECTED, 0)]
