"""Testbench of PdcTable: senders that reorder, repeat, lose, close and restart, against rules written anew.

Parameters: ``pdcs``, ``window``, ``out_of_order_entries``, ``contexts``.

Covers ``target/closing_order.py``, ``target/gap_store.py``, ``target/gap_payloads.py``, ``target/idle_pdcs.py``,
``target/pdc_commands.py`` and ``target/sequence.py``.
"""

import random
from collections import Counter
from itertools import pairwise

import cocotb
from amoeba_hw.interfaces import PDC_VIEW
from amoeba_sim.cocotb_streams import reset, start
from amoeba_sim.payload import unpack
from cocotb.triggers import RisingEdge

from tests.hw.target.pdc_environment import (
    CONTEXTS,
    GAP_SLOTS,
    NO_RESOURCE,
    PACES,
    PDCS,
    RENDEZVOUS,
    ROD_OOO,
    SENDS,
    WINDOW,
    Bench,
    Senders,
    packet,
)
from tests.hw.target.rules import END, MESSAGES, NO_PDC_AVAIL, START, Verdict


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES), sink_pace=list(PACES))
async def any_traffic_is_judged_by_the_rules(dut, pace, sink_pace):
    bench = Bench(dut, PACES[pace], PACES[sink_pace])
    await start(dut)
    senders = Senders(PDCS + 3)
    for _ in range(20):
        states = ["none", "open", "open", "blocked"]
        events = random.choices(states, k=CONTEXTS)
        # Only a context with an event ring takes messages.
        slots = ["none" if state == "none" else random.choice(states) for state in events]
        bench.set_credits(events=events, slots=slots)
        bench.set_receivers(random.choice([n, n, None, *range(CONTEXTS)]) for n in range(CONTEXTS))
        for _ in range(50):
            name, header = senders.packet(bench.rules)
            senders.learn(name, header, bench.send(header), bench.rules)
        await bench.settle()
        await bench.check_views()
        if random.random() < 0.3:
            await bench.fall_late()
        if random.random() < 0.15:
            await bench.expel(random.randrange(PDCS))
        if random.random() < 0.4:
            await bench.enable([context for context in range(CONTEXTS) if random.random() < 0.6])
    kinds = bench.check()
    assert min(kinds[kind] for kind in ("accepted", "duplicate", "dropped_pdc", "dropped_sequence", "kept")) > 5
    assert any(left is not None for *_, left in bench.verdicts)
    assert bench.rules.thrown
    codes = {verdict.nack[0] for _, verdict, *_ in bench.verdicts if verdict.nack}
    assert {0xA, 0xB, 0xD, 0xE} <= codes


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_message_is_accepted_with_space_for_its_event_and_a_place(dut):
    bench = Bench(dut)
    await start(dut)
    sender, psn = (7, 1), 5
    stored, others = SENDS | RENDEZVOUS, MESSAGES - SENDS - RENDEZVOUS
    cases = [  # event ring, slots, whether it meets a receive, which messages are refused
        ("open", "open", False, set()),
        ("blocked", "open", False, MESSAGES),
        ("open", "blocked", False, stored),
        ("open", "blocked", True, RENDEZVOUS),
        ("blocked", "blocked", True, MESSAGES),
        # Without slots it is accepted, to be refused by the checks.
        ("blocked", "none", False, set()),
        ("none", "none", False, set()),
    ]
    for events, slots, found, refused in cases:
        bench.set_credits(events=[events] * CONTEXTS, slots=[slots] * CONTEXTS)
        for opcode in (*MESSAGES, 7, 8, 1):
            verdict = bench.send(packet(sender, psn, 5, opcode=opcode, memory_key=int(found)))
            if opcode in refused:
                assert verdict.nack == (NO_RESOURCE, psn, 0)
            else:
                assert verdict.kind == "accepted"
                psn += 1
        await bench.settle()
    assert len(bench.reservations["event"]) == len(MESSAGES) + len(others) + len(SENDS | others)
    assert len(bench.reservations["message"]) == len(stored)
    assert len(bench.questions) == 2 * len(SENDS)
    bench.check()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_message_that_opens_its_pdc_is_asked_about_only_when_it_has_one(dut):
    bench = Bench(dut)
    await start(dut)
    bench.set_credits(events=["open"] * CONTEXTS, slots=["blocked"] * CONTEXTS)
    for number in range(PDCS):
        assert bench.send(packet((7, number), 5, 5, opcode=5, memory_key=0)).nack == (NO_RESOURCE, 5, number)
        assert bench.send(packet((7, number), 5, 5, opcode=5, memory_key=1)).kind == "accepted"
    assert bench.send(packet((7, PDCS), 5, 5, opcode=5, memory_key=1)).nack == (4, 5, 0xFFFF)
    await bench.settle()
    assert len(bench.questions) == 2 * PDCS
    bench.check()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def free_pdcs_are_opened_in_order_then_closed_ones_in_the_order_of_closing(dut):
    bench = Bench(dut)
    await start(dut)
    senders = [(7, number) for number in range(PDCS)]
    opened = [bench.send(packet(sender, 5, 5)).pdc for sender in senders]
    assert opened == list(range(PDCS))
    assert bench.send(packet((8, 0), 0, 0)).nack == (4, 0, 0xFFFF)
    order = random.sample(range(PDCS), PDCS)
    for number in order:
        bench.send(packet(senders[number], 6, pdc=number, is_control=1))
    # Closed, but not forgotten: what was received before is a duplicate, what comes now has no PDC.
    assert bench.send(packet(senders[order[0]], 6, pdc=order[0], is_control=1, retx=1)).kind == "duplicate"
    assert bench.send(packet(senders[order[0]], 7, pdc=order[0])).nack == (0xE, 7, order[0])
    # One that opens again keeps its number, and goes to the end when it closes again.
    assert bench.send(packet(senders[order[1]], 7, 7)).pdc == order[1]
    bench.send(packet(senders[order[1]], 8, 7, is_control=1))
    taken = [bench.send(packet((9, number), 0, 0)).pdc for number in range(PDCS)]
    assert taken == [order[0], *order[2:], order[1]]
    assert bench.send(packet((10, 0), 0, 0)).nack == (4, 0, 0xFFFF)
    await bench.settle()
    bench.check()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def an_open_pdc_is_nobody_else_s_and_not_opened_anew_until_it_is_idle(dut):
    bench = Bench(dut)
    await start(dut)
    senders = [(7, number) for number in range(PDCS - 1)]
    for sender in senders:
        bench.send(packet(sender, 5, 5))
    # Whoever opens a PDC under a name that has one gets a place beside it, again and again the same...
    for first in (0x1000_0000, 0x2000_0000, 0x3000_0000):
        assert bench.send(packet(senders[1], first, first, initiator=0)).pdc == PDCS - 1
        assert bench.send(packet(senders[1], first + 1, first, initiator=0)).pdc == PDCS - 1
        assert bench.send(packet(senders[1], bench.rules.table[1].expected, pdc=1)).pdc == 1
    # ... of which one request that passes makes another open PDC; then all are taken.
    assert bench.send(packet(senders[1], first + 2, first)).pdc == PDCS - 1
    assert bench.send(packet(senders[1], 0x4000_0000, 0x4000_0000)).nack == (4, 0x4000_0000, 0xFFFF)
    await bench.fall_idle()
    # A packet of any kind ends that: one that is next, one that was received before, and one behind a gap.
    assert bench.send(packet(senders[0], 6, pdc=0)).kind == "accepted"
    assert bench.send(packet(senders[2], 5, 5)).kind == "duplicate"
    assert bench.send(packet(senders[3], 9, 5)).kind == "kept"
    taken = [number for number in range(PDCS) if number not in (0, 2, 3)]
    opened = [bench.send(packet((9, number), 0, 0)).pdc for number in range(len(taken))]
    assert opened == taken
    assert bench.send(packet((10, 0), 0, 0)).nack == (4, 0, 0xFFFF)
    # Those who had them learn that they are another's.
    assert bench.send(packet(senders[4], 6, pdc=4)).nack == (0xE, 6, 4)
    await bench.settle()
    bench.check()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def idle_pdcs_are_given_away_only_when_there_is_no_other(dut):
    bench = Bench(dut)
    await start(dut)
    senders = [(7, number) for number in range(PDCS - 2)]
    for sender in senders:
        bench.send(packet(sender, 5, 5))
    bench.send(packet(senders[-1], 6, 5, is_control=1))
    await bench.fall_idle()
    opened = [bench.send(packet((9, number), 0, 0)).pdc for number in range(4)]
    assert opened == [PDCS - 2, PDCS - 1, PDCS - 3, 0]
    await bench.settle()
    for _ in range(3):
        await bench.fall_idle()
        for number in range(2, 5):
            psn = bench.rules.table[number].expected
            assert bench.send(packet(senders[number], psn, pdc=number)).kind == "accepted"
    await bench.settle()
    bench.check()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def an_idle_pdc_in_the_middle_of_a_message_is_given_away_last(dut):
    bench = Bench(dut)
    await start(dut)
    for number in range(PDCS):
        bench.send(packet((7, number), 5, 5))
    for number in (3, 2, 6):
        bench.send(packet((7, number), 6, pdc=number, flags=START))
    bench.send(packet((7, 6), 7, pdc=6, flags=END))  # the message is over
    await bench.fall_idle()
    opened = [bench.send(packet((9, number), 0, 0)).pdc for number in range(PDCS - 2)]
    assert opened == [number for number in range(PDCS) if number not in (2, 3)]
    # A packet keeps it, be it one received before.
    assert bench.send(packet((7, 2), 6, pdc=2, flags=START)).kind == "duplicate"
    assert bench.send(packet((10, 0), 0, 0)).pdc == 3
    assert bench.send(packet((10, 1), 0, 0)).nack == (NO_PDC_AVAIL, 0, 0xFFFF)
    await bench.fall_idle()
    await bench.expel(2)  # which ends its message
    opened = [bench.send(packet((11, number), 0, 0)).pdc for number in range(PDCS)]
    assert opened == [0, 1, *range(3, PDCS), 2]
    await bench.settle()
    bench.check()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_first_packet_of_an_epoch_whose_place_is_another_s_opens_nothing(dut):
    bench = Bench(dut)
    await start(dut)
    first = [packet((7, number), number << 20, number << 20) for number in range(PDCS)]
    for header in first:
        assert bench.send(header).kind == "accepted"
    # One of which nothing has passed is not remembered, nor is one that is its own sender's, or closed.
    assert bench.send(packet((7, 0), 1, 0, is_control=1)).kind == "accepted"
    assert bench.send(first[0]).kind == "duplicate"
    assert bench.send(packet((8, 0), 77, 77, initiator=0)).pdc == 0
    assert bench.send(packet((8, 1), 77, 77)).pdc == 0
    for _ in range(3):
        assert bench.send(first[0]).nack == (0x15, 0, 0xFFFF)
        assert bench.send(packet((7, 0), 1 << 30, 1 << 30)).nack == (4, 1 << 30, 0xFFFF)
    await bench.fall_idle()
    for number in range(PDCS):
        assert bench.send(packet((9, number), 5, 5)).kind == "accepted"
    for number in range(1, PDCS):
        assert bench.send(first[number]).nack == (0x15, number << 20, 0xFFFF)
    # What was never anybody's is no matter of memory.
    assert bench.send(packet((8, 0), 77, 77)).nack == (4, 77, 0xFFFF)
    await bench.settle()
    bench.check()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_sender_that_begins_anew_goes_on_in_the_pdc_that_it_has_open(dut):
    """The sender was told that the PDC is another's, and sends again from its oldest unanswered packet on."""
    bench = Bench(dut)
    await start(dut)
    sender = (7, 1)
    for psn in (5, 6):
        assert bench.send(packet(sender, psn, 5)).pdc == 0
    # The first packet sent again is the next one; what was held back is a duplicate, as is what comes once more.
    assert bench.send(packet(sender, 7, 7, retx=1)) == Verdict("accepted", 0)
    assert bench.send(packet(sender, 7, pdc=0)).kind == "duplicate"
    assert bench.send(packet(sender, 7, 7, retx=1)).kind == "duplicate"
    # Those behind it find the PDC as well, also before their turn.
    assert bench.send(packet(sender, 9, 7)).nack == (ROD_OOO, 8, 0)
    assert bench.send(packet(sender, 8, 7)).kind == "accepted"
    assert bench.rules.table[0].expected == 10
    # A CLOSE with SYN does not close it, but a PDC of its own.
    assert bench.send(packet(sender, 10, 10, is_control=1)).pdc == 1
    assert bench.send(packet(sender, 10, pdc=0)).kind == "accepted"
    # Where the PDC was closed its sender opens another.
    assert bench.send(packet((8, 1), 100, 100)).pdc == 2
    assert bench.send(packet((8, 1), 101, pdc=2, is_control=1)).kind == "accepted"
    assert bench.send(packet((8, 1), 102, 102)).pdc == 2
    await bench.settle()
    bench.check()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def strangers_whose_requests_are_refused_take_no_pdc_from_anybody(dut):
    bench = Bench(dut)
    await start(dut)
    friends = [(7, number) for number in range(PDCS - 3)]
    for sender in friends:
        bench.send(packet(sender, 5, 5))
    for number in range(5 * PDCS):
        assert bench.send(packet((8, number), 0, 0, initiator=0)).kind == "accepted"
        for sender in random.sample(friends, 2):
            psn = bench.rules.table[bench.rules.number_of(sender)].expected
            assert bench.send(packet(sender, psn, 5)).kind == "accepted"
    # A newcomer finds space, and keeps it.
    assert bench.send(packet((9, 0), 0, 0)).kind == "accepted"
    for number in range(2 * PDCS):
        bench.send(packet((10, number), 0, 0, initiator=0))
    assert bench.send(packet((9, 0), 1, 0)).kind == "accepted"
    await bench.settle()
    bench.check()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def what_is_kept_for_a_context_is_given_to_no_other_while_it_is_enabled(dut):
    bench = Bench(dut)
    await start(dut)
    if not any(owner is not None for owner in bench.rules.owners):
        return
    own, others = PDCS - CONTEXTS, [n for n in range(CONTEXTS) if n != 0]
    await bench.enable(range(CONTEXTS))

    def opens(number, context, proves=True):
        header = packet((7 + context, number), 9, 9, resource_index=context, initiator=int(proves))
        verdict = bench.send(header)
        return verdict.nack[0] if verdict.pdc is None else verdict.pdc

    # As many as come for one context leave the others one each.
    taken = [opens(number, 0) for number in range(PDCS)]
    assert taken == [*range(own + 1), *[NO_PDC_AVAIL] * (CONTEXTS - 1)]
    for context in others:
        # Strangers who address it keep it from nobody.
        assert [opens(number, context, proves=number == 2) for number in range(4)] == [
            *[own + context] * 3, NO_PDC_AVAIL,
        ]  # fmt: skip
    # Nor is it another's when it is idle, but for who had it before.
    await bench.fall_idle()
    assert [opens(100 + number, 0) for number in range(PDCS)] == taken
    assert opens(100, others[0]) == own + others[0]
    # While its context is disabled it is anybody's, and stays with whom it was given to.
    await bench.enable([0])
    await bench.fall_idle()
    assert sorted(opens(200 + number, 0) for number in range(PDCS)) == list(range(PDCS))
    await bench.enable(range(CONTEXTS))
    assert opens(200, others[0]) == NO_PDC_AVAIL
    # Who addresses no context has what is left.
    await bench.fall_idle()
    assert {opens(300 + number, CONTEXTS + 5) for number in range(PDCS)} == {*range(own), NO_PDC_AVAIL}
    await bench.settle()
    bench.check()


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(syn=[False, True])
async def a_packet_takes_two_cycles_with_or_without_syn(dut, syn):
    bench = Bench(dut)
    await start(dut)
    senders = [(0x0A00_0001 + number % 4, number // 4) for number in range(PDCS)]
    for sender in senders:
        bench.send(packet(sender, 0, 0))
    await bench.settle()
    departures, cycle = [], 0
    for turn in range(1, 5):
        for number, sender in enumerate(senders):
            bench.send(packet(sender, turn, 0 if syn else None, number))
    while bench.requests.left:
        await RisingEdge(dut.clk)
        cycle += 1
        if dut.sequenced__valid.value and dut.sequenced__ready.value:
            departures.append(cycle)
    assert {after - before for before, after in pairwise(departures)} == {2}
    await bench.settle()
    assert bench.check() == Counter(accepted=5 * PDCS)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def what_came_before_its_turn_is_judged_when_that_has_come(dut):
    bench = Bench(dut)
    await start(dut)
    bench.set_credits(events=["none", *["blocked"] * (CONTEXTS - 1)])
    sender = (7, 1)
    bench.send(packet(sender, 5, 5))
    # Each packet that is missing is asked for once, wherever the gap is.
    assert bench.send(packet(sender, 7, pdc=0)).nack == (ROD_OOO, 6, 0)
    assert bench.send(packet(sender, 8, 5, is_control=0)).nack is None
    assert bench.send(packet(sender, 11, pdc=0, resource_index=1, flags=7)) == Verdict(
        "kept", 0, (ROD_OOO, 9, 0), 2, 2
    )
    assert bench.send(packet(sender, 7, pdc=0, retx=1)) == Verdict("dropped_sequence", 0)
    assert bench.send(packet(sender, 10, pdc=0, retx=1)) == Verdict("kept", 0, None, 0, 3)
    # What is behind the gap goes on as soon as it is filled, before what comes meanwhile.
    assert bench.send(packet(sender, 6, pdc=0, retx=1)).kind == "accepted"
    bench.send(packet(sender, 8, pdc=0, retx=1))
    # ... until there is no space for one: that has to come again, and those behind it wait.
    assert bench.send(packet(sender, 12, pdc=0)) == Verdict("kept", 0, None, 0, 0)
    assert bench.send(packet(sender, 9, pdc=0)).kind == "accepted"
    kinds = [(header["psn"], verdict.kind, left) for header, verdict, *_, left in bench.verdicts[-3:]]
    assert kinds == [(9, "accepted", None), (10, "accepted", 3), (11, "dropped_sequence", 2)]
    await bench.settle()
    bench.set_credits(events=["none"] * CONTEXTS)
    assert bench.send(packet(sender, 11, pdc=0, retx=1)).kind == "accepted"
    assert bench.rules.table[0].expected == 13
    await bench.settle()
    kinds = bench.check()
    assert kinds == Counter(accepted=8, kept=5, dropped_sequence=2, duplicate=1)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def slots_are_for_all_pdcs_and_for_nobody_longer_than_a_timeout(dut):
    bench = Bench(dut)
    await start(dut)
    for number in range(2):
        bench.send(packet((7, number), 5, 5))
    assert [bench.send(packet((7, 0), 7 + n, 5)).entered for n in range(GAP_SLOTS)] == list(range(GAP_SLOTS))
    # Nothing is kept any more: whoever comes before his turn has to come again, and is told so once.
    last = 7 + GAP_SLOTS
    assert bench.send(packet((7, 0), last, 5)) == Verdict("dropped_sequence", 0, (ROD_OOO, 6, 0))
    assert bench.send(packet((7, 0), last + 1, 5)) == Verdict("dropped_sequence", 0)
    assert bench.send(packet((7, 1), 7, 5)) == Verdict("dropped_sequence", 1, (ROD_OOO, 6, 1))
    assert bench.send(packet((7, 1), 7, 5, retx=1)) == Verdict("dropped_sequence", 1, (ROD_OOO, 6, 1))
    await bench.fall_late()
    assert [bench.send(packet((7, 1), 7 + n, 5)).entered for n in range(2)] == [0, 1]
    assert bench.rules.thrown == 2
    # The two that were thrown away have to come again.
    assert bench.send(packet((7, 0), 6, 5)).kind == "accepted"
    assert bench.rules.table[0].expected == 7
    assert bench.send(packet((7, 0), 7, 5)).kind == bench.send(packet((7, 0), 8, 5)).kind == "accepted"
    assert bench.rules.table[0].expected == last
    assert bench.send(packet((7, 1), 6, 5)).kind == "accepted"
    await bench.settle()
    bench.check()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def what_is_kept_goes_with_its_pdc(dut):
    bench = Bench(dut)
    await start(dut)
    sender, first = (7, 1), 5
    for closes in (True, False) * 3:
        # One that no request has passed in is opened anew.
        bench.send(packet(sender, first, first, initiator=int(closes)))
        for n in range(GAP_SLOTS):
            assert bench.send(packet(sender, first + 2 + n, first)).kind == "kept"
        if closes:
            bench.send(packet(sender, first + 1, first, is_control=1))
        first += 1 << 20
    bench.send(packet(sender, first, first))
    assert bench.rules.thrown == 6 * GAP_SLOTS
    assert bench.send(packet(sender, first + 1, first)).kind == "accepted"
    await bench.settle()
    bench.check()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def what_is_too_far_ahead_is_not_kept(dut):
    bench = Bench(dut)
    await start(dut)
    sender = (7, 1)
    bench.send(packet(sender, 5, 5))
    assert bench.send(packet(sender, 6 + WINDOW, 5)) == Verdict("dropped_sequence", 0, (ROD_OOO, 6, 0))
    assert bench.send(packet(sender, 5 + WINDOW, 5, clear_psn_offset=-WINDOW - 1 & 0xFFFF)).kind == "dropped_sequence"
    verdict = bench.send(packet(sender, 5 + WINDOW, 5))
    assert (verdict.kind, verdict.missing) == ("kept", WINDOW - 1)
    await bench.settle()
    bench.check()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_pdc_that_a_register_closes_takes_nothing_more_and_is_nobody_else_s_until_it_is_idle(dut):
    bench = Bench(dut)
    await start(dut)
    await bench.enable([])
    senders = [(7, number) for number in range(PDCS)]
    for sender in senders[1:]:
        bench.send(packet(sender, 5, 5, resource_index=2, job_id=0xABCDEF))
    await bench.expel(PDCS - 1)  # it is free
    bench.send(packet(senders[0], 5, 5))
    assert bench.send(packet(senders[3], 7, 5)).kind == "kept"
    await bench.expel(2)  # that of senders[3]
    await bench.check_views()
    assert bench.rules.thrown == 1
    # What was received before is answered again, whatever is new refused, with or without SYN, a CLOSE too.
    assert bench.send(packet(senders[3], 5, 5, retx=1)).kind == "duplicate"
    for fields in ({"first": 5}, {"pdc": 2}, {"pdc": 2, "is_control": 1}):
        assert bench.send(packet(senders[3], 6, **fields)).nack == (0x10, 6, 2)
    # Nobody is given its place, not even who had it.
    for sender in (senders[3], (9, 9)):
        assert bench.send(packet(sender, 1 << 30, 1 << 30)).nack == (4, 1 << 30, 0xFFFF)
    # One that its sender has closed stays so.
    bench.send(packet(senders[4], 6, pdc=3, is_control=1))
    await bench.expel(3)
    assert bench.send(packet(senders[4], 7, pdc=3)).nack == (0xE, 7, 3)
    assert bench.send(packet((9, 9), 0, 0)).pdc == 3
    await bench.fall_idle()
    for number in (0, 1, *range(3, PDCS)):
        pdc = bench.rules.table[number]
        assert bench.send(packet(pdc.sender, pdc.expected, pdc=number)).kind == "accepted"
    assert bench.send(packet((9, 10), 0, 0)).pdc == 2
    await bench.check_views()
    bench.check()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def the_registers_act_at_once_whatever_comes(dut):
    bench = Bench(dut)
    await start(dut)
    dut.cycles.value = 0xABCD_1234_5678
    for turn in range(12):
        sender, psn = (7, turn % PDCS), turn << 20
        bench.send(packet(sender, psn, psn))
        await bench.settle()
        number = bench.rules.number_of(sender)
        bench.sinks["sequenced"].received.clear()
        for n in range(40):
            bench.requests.send(packet(sender, psn + 1 + n, pdc=number))
        for _ in range(random.randint(10, 60)):
            await RisingEdge(dut.clk)
        await bench.command("select", number)
        await RisingEdge(dut.clk)
        before = unpack(PDC_VIEW, int(dut.pdc_view.value))
        assert (before["state"], before["came"]) == (1, 0xABCD_1234_5678)
        assert psn < before["expected"] <= psn + 41
        await bench.command("close", number)
        for _ in range(5):
            await RisingEdge(dut.clk)
        await bench.command("select", number)
        await RisingEdge(dut.clk)
        after = unpack(PDC_VIEW, int(dut.pdc_view.value))
        assert after["state"] == 3
        assert before["expected"] <= after["expected"] <= before["expected"] + 4
        await bench.settle()
        # All before that was accepted, and nothing behind it.
        dropped = [request["dropped"] for request in bench.sinks["sequenced"].received]
        accepted = after["expected"] - psn - 1
        assert dropped == [0] * accepted + [1] * (40 - accepted)
        codes = {(nack["code"], nack["psn"]) for nack in bench.sinks["nacks"].received[-(40 - accepted) :]}
        assert codes == {(0x10, psn + 1 + n) for n in range(accepted, 40)} or accepted == 40
        await reset(dut)
        dut.cycles.value = 0xABCD_1234_5678
        bench.forget()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def reset_in_mid_traffic_frees_all_pdcs(dut):
    bench = Bench(dut, PACES["randomly"], PACES["randomly"])
    await start(dut)
    for _ in range(6):
        senders = Senders(PDCS + 3)
        for _ in range(40):
            name, header = senders.packet(bench.rules)
            senders.learn(name, header, bench.send(header), bench.rules)
        for _ in range(random.randint(1, 120)):
            await RisingEdge(dut.clk)
        await reset(dut)
        await bench.settle()
        bench.forget()
        for sink in bench.sinks.values():
            sink.received.clear()
        for number in range(PDCS):
            assert bench.send(packet((1, number), 9, 9)).pdc == number
        await bench.settle()
        bench.check()
        await reset(dut)
        bench.forget()
        for sink in bench.sinks.values():
            sink.received.clear()
