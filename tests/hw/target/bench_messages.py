"""Testbench of Target: messages, tagged atomics and receive descriptors, from the frame to the event.

The model's MatchUnit decides the fate of each, where nothing else happens at the same time; and otherwise
accounts of what was sent and received. Parameters: see target_environment.

Covers ``target/receivers.py`` and ``messages/open_receives.py``.
"""

import random
from collections import Counter
from itertools import pairwise

import cocotb
from amoeba_model.registers import Counter as NicCounter
from amoeba_model.wire.codec import FrameHeader
from cocotb.triggers import ClockCycles, RisingEdge

from tests.hw.target.environment import (
    HEADER_DATA,
    PACES,
    PAYLOAD,
    PID,
    SLOTS,
    WHOLE,
    WINDOW,
    Initiator,
    answers_then_nacks,
    event_entry,
    plain,
    request,
)
from tests.hw.target.message_environment import (
    ADDRESSED,
    ARRIVED,
    BAD_INDEX,
    BUFFER,
    CANCEL,
    CANCELLED,
    CONTEXTS_USED,
    DISABLED,
    FOUND,
    INITIATOR_ERROR,
    MSG_ERROR,
    NO_MATCH,
    NO_MATCH_EVENT,
    NO_OP,
    NO_RESOURCE,
    OK,
    PEEK,
    READ,
    RECEIVE,
    RECEIVE_COUNT,
    RECEIVED,
    REFUSED,
    RENDEZVOUS_SEND,
    RENDEZVOUS_TSEND,
    SEND,
    SHARING,
    SLOT_COUNT,
    SUM_OF_UINT64,
    TAGGED,
    TAGGED_SEND,
    TAKE,
    TSEND_ATOMIC,
    TSEND_FETCH,
    UNEXPECTED,
    WRITE,
    events_of,
    prepared,
    receive,
)
from tests.hw.target.message_reference import Reference
from tests.hw.target.rules import END, MESSAGES, START


def random_message():
    """Fields of a request; few tags and lengths, so that many match."""
    opcode = random.choice(list(MESSAGES))
    target = random.choice([0, *SHARING])
    fields = {"resource_index": target, "pid_on_fep": PID + target}
    fields |= {"opcode": opcode, "memory_key": random.randrange(3), "initiator": random.randrange(2)}
    fields |= {"flags": WHOLE | random.choice([0, HEADER_DATA]), "header_data": random.getrandbits(64)}
    if opcode in (TSEND_ATOMIC, TSEND_FETCH):
        fields |= SUM_OF_UINT64 | {"length": random.choice([8, 64])}
        return fields | {"buffer_offset": random.choice([0, 0, 8, 64, 2**64 - 8])}
    if opcode in (RENDEZVOUS_SEND, RENDEZVOUS_TSEND):
        return fields | {"length": 32, "buffer_offset": random.choice([0, 40, 1 << 20])}
    return fields | {"length": random.choice([0, 1, 40, 64, PAYLOAD])}


def random_message_in_parts():
    """Fields of the packets of one message; some have a packet too few, a wrong one, or another message between."""
    target = random.choice([0, *SHARING])
    sizes = [random.choice([1, 40, 64, PAYLOAD]) for _ in range(random.choice([2, 2, 3]))]
    same = {"resource_index": target, "pid_on_fep": PID + target, "opcode": random.choice([SEND, TAGGED_SEND])}
    same |= {"memory_key": random.randrange(3), "initiator": random.randrange(2), "length": sum(sizes)}
    same |= {"message_id": random.getrandbits(16), "buffer_offset": random.getrandbits(64)}
    parts = []
    for number, size in enumerate(sizes):
        flags = START | random.choice([0, HEADER_DATA]) if number == 0 else 0
        data = size << 32 | sum(sizes[:number]) if number else random.getrandbits(64)
        flags |= END if number == len(sizes) - 1 else 0
        parts.append(same | {"payload": size, "flags": flags, "header_data": data})
    if random.random() < 0.4:
        place = random.randrange(1, len(parts))
        wrong = parts[place] | {"memory_key": 3}
        between = {"opcode": NO_OP, "length": 0, "payload": 0}
        parts[place:] = random.choice([[], [wrong], [between, *parts[place:]], [random_message(), *parts[place:]]])
    return parts


def random_receive():
    opcode = random.choice([RECEIVE] * 8 + [PEEK, TAKE, CANCEL, 0, 9])
    fields = receive(opcode, random.choice([0, 40, 64, 200, 600]), flags=random.randrange(8))
    if random.random() < 0.2:
        fields |= {"flags": fields["flags"] | ADDRESSED, "target_context": random.choice([0, *SHARING, 0x80])}
    if random.random() < 0.03:
        fields["flags"] |= 0x80
    fields |= {"tag": random.randrange(3), "ignore": random.choice([0, 0, 1, 2**64 - 1])}
    fields |= {"context": random.randrange(CONTEXTS_USED)}
    fields |= {"source_ip": random.choice([1, 2]), "source_context": random.randrange(2)}
    fields |= {"least_space": random.choice([0, 1, 64, 300]), "counter": random.choice([0, 50, 51])}
    return fields | {"address": BUFFER + random.randrange(1 << 16)}


BEGINNING = [  # receive descriptors, or messages: every kind of event, once
    ([], [{"opcode": SEND}, {"opcode": TAGGED_SEND}, {"opcode": RENDEZVOUS_SEND, "length": 32}]),
    (
        [
            receive(PEEK),
            receive(),
            receive(),
            receive(TAKE, flags=TAGGED, ignore=2**64 - 1),
            receive(opcode=9),
            receive(flags=TAGGED, tag=1, context=1),
            receive(CANCEL, context=1),
            receive(flags=TAGGED, tag=1, context=2),
            receive(PEEK),
        ],
        [],
    ),
    ([], [{"opcode": TSEND_ATOMIC, "memory_key": 1, "buffer_offset": 8} | SUM_OF_UINT64] * 2),
    ([receive()], []),
    ([], [{"opcode": SEND}]),
]


def random_step(reference, sender):
    """Never more than there is surely space for: what has to wait is other tests'."""
    lists = reference.lists
    if lists.free_slots > 1 and random.random() < 0.3:
        return [], random_message_in_parts()
    if random.random() < 0.5 and not lists.free_slots:
        fields = random_message()
        header = FrameHeader(**request(**fields)[0] | sender.fields)
        return [], [fields] if reference.unit.has_place(reference.context, header) else []
    if random.random() < 0.5:
        # One that has taken its slot keeps its reservation for some cycles more: the next may find one less.
        surely = lists.free_slots - (lists.free_slots > 1)
        return [], [random_message() for _ in range(random.randint(0, surely))]
    descriptors = [random_receive() for _ in range(random.randint(0, RECEIVE_COUNT - lists.posted))]
    # So that neither list stays full.
    descriptors += [receive(CANCEL, context=number) for number in random.sample(range(CONTEXTS_USED), 2)]
    descriptors += [receive(TAKE, flags=flags, ignore=2**64 - 1) for flags in (0, TAGGED)]
    return descriptors, []


async def opened(bench, *senders):
    """Open the PDCs of the senders, in this order from number 0 on."""
    for sender in senders:
        sender.send(NO_OP, 0, 0)
    await bench.settle()
    bench.clear()
    bench.counts.clear()


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES), sink_pace=["always", "randomly"])
async def one_thing_after_the_other_is_matched_as_the_model_does(dut, pace, sink_pace):
    bench = await prepared(dut, pace, sink_pace)
    bench.error_rate = 0.1
    for number in SHARING:
        bench.share(number, 0)
    announces = pace != "always"
    bench.contexts[0].announces = announces
    bench.set_context(0, True, announces=announces)
    reference = Reference(bench)
    senders = [Initiator(bench, ip, spdcid=5 + ip) for ip in (1, 2)]
    await opened(bench, *senders)
    for step in range(40):
        while reference.held and (step < len(BEGINNING) or random.random() < 0.7):
            reference.release()
        await bench.settle(20)
        pdc = random.randrange(2)
        descriptors, messages = BEGINNING[step] if step < len(BEGINNING) else random_step(reference, senders[pdc])
        if descriptors:
            bench.post(*descriptors)
        sent = [senders[pdc].send(**fields) for fields in messages]
        # a narrow datapath takes more beats for everything
        await bench.settle((150 if descriptors else 60) * max(1, 256 // bench.parameters.data_width))
        for fields in descriptors:
            reference.take(fields)
        for header, payload in sent:
            reference.arrive(header, payload, pdc)
        assert events_of(bench, 0, len(reference.events) + 1) == [*reference.events, None]
        assert [answer["return_code"] for answer in bench.responses] == reference.codes
        assert bench.orders == reference.orders
        assert plain(bench.executed) == reference.memory
    kinds = {event["kind"] for event in reference.events}
    assert kinds == set(range(RECEIVED, REFUSED + 1)) | ({ARRIVED} if announces else set()), kinds
    assert {OK, NO_MATCH} <= set(reference.codes)
    counters = reference.counters
    assert +bench.counts == Counter(
        requests_received=len(reference.codes),
        refused_requests=sum(code != OK for code in reference.codes),
        events=len(reference.events),
        messages_matched=counters[NicCounter.MESSAGES_MATCHED],
        messages_unexpected=counters[NicCounter.MESSAGES_UNEXPECTED],
    )


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def whatever_ends_a_message_of_several_packets_is_told(dut):
    bench = await prepared(dut)
    reference, sender = Reference(bench), Initiator(bench)
    await opened(bench, sender)
    length = {"length": 100}
    first = {"opcode": SEND, "payload": 40, "flags": START, "message_id": 7} | length
    last = first | {"payload": 60, "flags": END, "header_data": 60 << 32 | 40}
    enders = [
        last,
        last | {"message_id": 8},
        first,
        {"opcode": WRITE},
        {"opcode": NO_OP, "length": 0},
        {"opcode": SEND},
        {"opcode": MSG_ERROR, "flags": END, "length": 0},
        {"opcode": NO_OP, "length": 0, "is_control": 1, "flags": 0},
    ]
    for number, ender in enumerate(enders):
        descriptors = [receive(context=number, address=BUFFER + 4096 * number)]
        descriptors += [receive(context=100)] if ender.get("opcode") == SEND else []
        bench.post(*descriptors)
        await bench.settle(150)
        for fields in descriptors:
            reference.take(fields)
        sent = [sender.send(**fields) for fields in (first, ender, last)]
        await bench.settle(150)
        bench.post(receive(CANCEL, context=100))
        await bench.settle(150)
        for header, payload in sent[: 2 if ender.get("is_control") else 3]:  # the PDC is closed
            reference.arrive(header, payload, 0)
        reference.take(receive(CANCEL, context=100))
        assert events_of(bench, 0, len(reference.events) + 1) == [*reference.events, None], ender
        assert plain(bench.executed) == reference.memory, ender
    assert [answer["return_code"] for answer in answers_then_nacks(bench)][: len(reference.codes)] == reference.codes


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_message_of_which_no_part_comes_for_long_is_given_up_and_no_other(dut):
    bench = await prepared(dut)
    reference, senders = Reference(bench), [Initiator(bench, ip, spdcid=5 + ip) for ip in (1, 2, 3)]
    await opened(bench, *senders)
    size, parts = 8, 12
    message = {"opcode": SEND, "length": size * parts, "message_id": 7, "initiator": 3, "payload": size}

    async def send(number, part):
        flags = START if part == 0 else END if part == parts - 1 else 0
        place = {"header_data": size << 32 | size * part if part else 0}
        header, payload = senders[number].send(**message, flags=flags, **place)
        await bench.settle(100)
        reference.arrive(header, payload, number)

    for number in range(3):
        fields = receive(context=number, address=BUFFER + 4096 * number)
        bench.post(fields)
        await bench.settle(150)
        reference.take(fields)
        await send(number, 0)
    dut.retransmission.value = 0  # a message stalls after 256 to 512 cycles
    for part in range(1, parts - 1):
        await send(2, part)
        if part == 5:
            for stalled in range(2):
                reference._tell(reference.unit.give_up(stalled))
        if part > 5:
            assert events_of(bench, 0, 3) == [*reference.events, None]
    for number in (0, 1):
        await send(number, 1)
    await send(2, parts - 1)
    await bench.settle(100)
    assert events_of(bench, 0, 4) == [*reference.events, None]
    assert plain(bench.executed) == reference.memory
    assert [answer["return_code"] for answer in bench.responses] == reference.codes
    assert reference.codes == [OK] * 13 + [NO_MATCH] * 2 + [OK]


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_message_waits_for_a_slot_and_finds_the_one_that_is_released(dut):
    bench = await prepared(dut)
    sender = Initiator(bench)
    sent = [sender.send(SEND, 64) for _ in range(SLOT_COUNT + 1)]
    await bench.settle()
    assert [answer["return_code"] for answer in answers_then_nacks(bench)] == [OK] * SLOT_COUNT + [0]
    assert answers_then_nacks(bench)[-1]["nack_code"] == NO_RESOURCE
    places = [SLOTS[0] + slot * PAYLOAD for slot in range(SLOT_COUNT)]
    written = [(request["address"], operand) for request, operand, _ in bench.executed]
    assert written == list(zip(places, (payload for _, payload in sent), strict=False))
    # One that lies in the list is not free, whatever the driver says.
    bench.sources["slot_releases"].send({"context": 0, "slot": 1})
    bench.post(receive(context=1), receive(context=2))
    await bench.settle()
    bench.sources["slot_releases"].send({"context": 0, "slot": 1})
    await bench.settle()
    bench.clear()
    bench.send(sent[-1][0] | {"retx": 1}, sent[-1][1])
    await bench.settle()
    assert [answer["return_code"] for answer in bench.responses] == [OK]
    request, operand, _ = bench.executed[-1]
    assert (request["address"], operand) == (places[1], sent[-1][1])
    assert bench.counts["messages_unexpected"] == SLOT_COUNT + 1


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def without_a_slot_a_message_that_meets_a_receive_is_taken_and_others_wait(dut):
    bench = await prepared(dut)
    unread, sender, stranger = (Initiator(bench, spdcid=number) for number in range(1, 4))
    for _ in range(SLOT_COUNT):
        unread.send(SEND)
    bench.post(*[receive(flags=TAGGED, tag=tag, context=tag, address=BUFFER + 64 * tag) for tag in range(1, 5)])
    await bench.settle(150)
    bench.clear()
    # Back to back: each is asked about when those before have been matched.
    sent = [sender.send(TAGGED_SEND, 8, memory_key=tag) for tag in (3, 1, 1, 2)]
    await bench.settle(150)
    *taken, held = answers_then_nacks(bench)
    assert [answer["return_code"] for answer in taken] == [OK, OK]
    assert (held["nack_code"], held["psn"]) == (NO_RESOURCE, sent[2][0]["psn"])
    bench.clear()
    # A tagged atomic needs none; a rendezvous has nowhere else to go, and what the checks refuse takes nothing away.
    stranger.send(TSEND_ATOMIC, memory_key=9, **SUM_OF_UINT64)
    stranger.send(TAGGED_SEND, 8, memory_key=2, job_id=0)
    stranger.send(TAGGED_SEND, 8, memory_key=2)
    stranger.send(RENDEZVOUS_TSEND, 32, memory_key=4)
    await bench.settle(150)
    *taken, held = answers_then_nacks(bench)
    assert [answer["return_code"] for answer in taken] == [NO_MATCH, 0x1B, OK]
    assert held["nack_code"] == NO_RESOURCE
    assert [(event["kind"], event["context"]) for event in events_of(bench, 0, 3)] == [
        (RECEIVED, 3),
        (RECEIVED, 1),
        (RECEIVED, 2),
    ]
    assert [request["address"] for request, _, _ in bench.executed[-3:]] == [BUFFER + 64 * tag for tag in (3, 1, 2)]
    # Descriptors go on: nothing is kept for anybody any more.
    bench.post(receive(CANCEL, context=4))
    await bench.settle(150)
    assert event_entry(bench, 0, 3)["kind"] == CANCELLED


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_context_disabled_while_a_message_is_asked_about_takes_it_from_nobody(dut):
    bench = await prepared(dut)
    unread, sender = (Initiator(bench, spdcid=number) for number in range(1, 3))
    for delay in range(40):
        bench.clear()
        for _ in range(SLOT_COUNT):
            unread.send(SEND)
        bench.post(receive(flags=TAGGED, tag=1, context=1))
        await bench.settle(80)
        sender.send(TAGGED_SEND, 8, memory_key=1)
        await ClockCycles(dut.clk, delay)
        bench.set_context(0, False)
        await ClockCycles(dut.clk, 3)
        bench.set_context(0, True)
        await bench.settle(80)
        last = bench.responses[-1]
        assert last["is_control"] or last["return_code"] in (OK, DISABLED, BAD_INDEX), last
        if last["is_control"]:
            sender.next = last["psn"]
        # It goes on: a slot is free, and descriptors are done.
        sender.send(TAGGED_SEND, 8, memory_key=3)
        bench.post(receive(PEEK, flags=TAGGED, tag=3))
        await bench.settle(80)
        assert bench.responses[-1]["return_code"] == OK
        bench.host.clear()
        bench.set_context(0, False)
        await ClockCycles(dut.clk, 20)
        bench.set_context(0, True)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def space_in_the_event_ring_is_left_to_messages(dut):
    bench = await prepared(dut)
    bench.set_context(0, True, event_size=3)
    sender = Initiator(bench)
    # Four entries may be reserved: the last of them to no receive descriptor.
    bench.post(*[receive(PEEK, context=number) for number in range(5)])
    await bench.settle(150)
    assert bench.counts["events"] == 3
    sender.send(SEND)
    await bench.settle()
    assert [answer["return_code"] for answer in bench.responses] == [OK], "a message that waits needs no event"
    sender.send(flags=WHOLE | HEADER_DATA)
    await bench.settle()
    assert bench.counts["events"] == 4
    bench.clear()
    sender.send(SEND)
    sender.next -= 1
    sender.send()
    await bench.settle()
    assert [answer["nack_code"] for answer in bench.responses if answer["is_control"]] == [NO_RESOURCE]
    bench.sources["event_heads"].send({"context": 0, "index": 3})
    await bench.settle(150)
    # Now the other two: the message has been there for long.
    assert [event_entry(bench, 0, index)["kind"] for index in (4, 5)] == [FOUND, FOUND]


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def refused_messages_release_space_and_slot(dut):
    bench = await prepared(dut)
    bench.set_context(0, True, event_size=3)
    sender = Initiator(bench)
    cases = [
        {"job_id": 0},
        {"payload": 7},
        {"flags": WHOLE | INITIATOR_ERROR},
        {"flags": WHOLE | HEADER_DATA, "version": 1},
        {"opcode": TSEND_ATOMIC} | SUM_OF_UINT64,
        {"opcode": TSEND_ATOMIC, "atomic_opcode": 255},
    ]
    for _ in range(2 * SLOT_COUNT):
        for fields in cases:
            sender.send(**{"opcode": SEND} | fields)
            await bench.settle(20)
    assert bench.counts["nacks_sent"] == bench.counts["events"] == 0
    assert Counter(answer["return_code"] for answer in bench.responses) == dict.fromkeys(
        (0x1B, 7, 0x23, 0x18, NO_MATCH, 0xF), 2 * SLOT_COUNT
    )
    for _ in range(SLOT_COUNT):
        sender.send(SEND)
    await bench.settle()
    assert bench.counts["messages_unexpected"] == SLOT_COUNT


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_disabled_context_forgets_receives_and_messages(dut):
    bench = await prepared(dut)
    sender = Initiator(bench)
    for _ in range(3):
        bench.clear()
        bench.executed.clear()
        bench.post(receive(context=1, flags=TAGGED, tag=1))
        for _ in range(SLOT_COUNT):
            sender.send(SEND)
        await bench.settle()
        assert [request["address"] for request, _, _ in bench.executed] == [
            SLOTS[0] + slot * PAYLOAD for slot in range(SLOT_COUNT)
        ]
        bench.set_context(0, False)
        await ClockCycles(dut.clk, 20)
        bench.set_context(0, True)
        await ClockCycles(dut.clk, 20)
        # Neither the receive nor the messages are there any more.
        bench.host.clear()
        bench.clear()
        sender.send(TAGGED_SEND, memory_key=1)
        await bench.settle()
        bench.post(receive(PEEK, context=2))
        await bench.settle()
        assert event_entry(bench, 0, 0)["kind"] == NO_MATCH_EVENT
        bench.set_context(0, False)
        await ClockCycles(dut.clk, 20)
        bench.set_context(0, True)
        await ClockCycles(dut.clk, 20)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def receive_descriptors_leave_answers_and_what_is_kept_of_them_alone(dut):
    bench = await prepared(dut, "randomly", "randomly")
    sender = Initiator(bench)
    sent = []
    for _ in range(WINDOW):
        opcode, length = random.choice([WRITE, READ]), random.choice([0, 8, 16, 17, 64])
        sent.append(sender.send(opcode, length, None if opcode == WRITE else 0))
        bench.post(receive(PEEK, context=len(sent)))
    await bench.settle(150)
    answers = bench.answers()
    assert [header["psn"] for header, _ in answers] == [header["psn"] for header, _ in sent]
    assert bench.counts["events"] == WINDOW
    assert [event["context"] for event in events_of(bench, 0, WINDOW)] == list(range(1, WINDOW + 1))
    # Everything is acknowledged up to the last packet before that was data.
    assert all(header["cack_psn"] == header["psn"] for header, _ in answers)
    bench.clear()
    for header, payload in sent:
        bench.send(header | {"retx": 1}, payload)
    await bench.settle(150)
    again = [(header | {"retx": 0, "cack_psn": 0}, data) for header, data in bench.answers()]
    assert again == [(header | {"cack_psn": 0}, data) for header, data in answers]


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES), sink_pace=list(PACES))
async def at_the_same_time_every_message_meets_one_receive_and_every_receive_one_message(dut, pace, sink_pace):
    bench = await prepared(dut, pace, sink_pace)
    senders = [Initiator(bench, ip, spdcid=5 + ip) for ip in (1, 2)]
    await opened(bench, *senders)
    tags = list(range(10 * SLOT_COUNT))
    unsent = list(tags)
    lengths = {tag: random.choice([0, 8, 64, PAYLOAD]) for tag in tags}
    seen, messages = 0, {}
    cocotb.start_soon(post_now_and_then(bench, tags))
    outstanding = {}
    while len(messages) < len(tags):
        lowest = min(set(tags) - set(messages))
        # Each sender has one message in flight; what finds no slot is sent again. No message takes the last slot from
        # an earlier one.
        for sender in senders:
            if sender not in outstanding and unsent and unsent[0] < lowest + SLOT_COUNT:
                tag = unsent.pop(0)
                outstanding[sender] = sender.send(TAGGED_SEND, lengths[tag], memory_key=tag)
        await ClockCycles(bench.dut.clk, random.randint(1, 40))
        for answer in bench.responses:
            sender = next(s for s in senders if s.fields["spdcid"] == answer["dpdcid"])
            if answer["is_control"]:
                assert answer["nack_code"] == NO_RESOURCE
                header, payload = outstanding[sender]
                bench.send(header | {"retx": 1}, payload)
            else:
                assert answer["return_code"] == OK
                del outstanding[sender]
        bench.clear()
        while (event := event_entry(bench, 0, seen)) is not None:
            seen += 1
            assert event["kind"] in (RECEIVED, UNEXPECTED)
            assert (event["context"], event["status"], event["length"]) == (event["tag"], OK, lengths[event["tag"]])
            assert event["tag"] not in messages, "received twice"
            messages[event["tag"]] = event
            if event["kind"] == UNEXPECTED:
                bench.sources["slot_releases"].send({"context": 0, "slot": event["slot"]})
    assert set(messages) == set(tags)
    await bench.settle()
    unexpected = sum(event["kind"] == UNEXPECTED for event in messages.values())
    assert bench.counts["messages_unexpected"] == unexpected
    assert bench.counts["messages_matched"] == len(tags) - unexpected


async def post_now_and_then(bench, tags):
    """One receive for each tag, out of order; its context is the tag."""
    groups = (tags[first : first + SLOT_COUNT] for first in range(0, len(tags), SLOT_COUNT))
    for tag in (tag for group in groups for tag in random.sample(group, len(group))):
        await ClockCycles(bench.dut.clk, random.choice([1, 10, 60]))
        bench.post(receive(flags=TAGGED, tag=tag, context=tag, length=PAYLOAD))


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def other_requests_keep_their_pace_behind_messages(dut):
    bench = await prepared(dut)
    sender = Initiator(bench)
    for _ in range(SLOT_COUNT):
        sender.send(SEND)
    arrivals, cycle = [], 0
    for _ in range(30):
        sender.send()
    while len(arrivals) < SLOT_COUNT + 30:
        await RisingEdge(dut.clk)
        cycle += 1
        if dut.memory_requests__valid.value and dut.memory_requests__ready.value:
            arrivals.append(cycle)
    assert [b - a for a, b in pairwise(arrivals[SLOT_COUNT + 8 :])] == [2] * 21
