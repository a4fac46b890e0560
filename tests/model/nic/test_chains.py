"""Requests that wait for others, continue others, or end a conversation; and those that none of this concerns.

Covers ``nic/descriptors.py``, ``nic/completion.py`` and ``nic/rings.py``.
"""

from collections.abc import Callable

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.nic.first_psns import first_psn
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import Counter
from amoeba_model.wire.uet import NackCode, ReturnCode

from tests.support.lossy_bench import FIRST_PSN, SIZE, Bench, answer, request
from tests.support.raw_driver import Pair
from tests.support.saboteur import arrives, losing

MakePair = Callable[..., Pair]
COMPLETION, CHAINED, FENCE, INLINE = (
    DescriptorFlags.COMPLETION, DescriptorFlags.CHAINED, DescriptorFlags.FENCE, DescriptorFlags.INLINE,
)  # fmt: skip
OK = ReturnCode.OK
CLOSE = {"opcode": DescriptorOpcode.CLOSE, "flags": COMPLETION}


@pytest.fixture
def bench(make_model_pair: MakePair) -> Bench:
    return Bench(make_model_pair())


# Turns


def test_contexts_send_in_turn_a_packet_each(bench: Bench) -> None:
    pair = bench.pair
    contexts = [pair.initiator.context(number) for number in (1, 2, 3)]
    source = pair.initiator.buffer(4 * SIZE)
    for context in contexts:
        pair.initiator.peer(context.number, pair.remote, context=context.number)
        context.post(
            opcode=DescriptorOpcode.WRITE, peer=context.number, length=4 * SIZE, local=source.address,
            remote_address=bench.region.address, remote_key=1,
        )  # fmt: skip
    pair.run(30)
    senders = [header.initiator for header in bench.frames() if header.is_request]
    assert senders == [1, 2, 3] * 4


def test_a_context_that_may_not_go_on_holds_up_no_other(make_model_pair: MakePair) -> None:
    bench = Bench(make_model_pair(NicParameters(window=2)))
    pair = bench.pair
    other = pair.initiator.context(1)
    pair.initiator.peer(1, pair.remote, context=1)
    bench.requests.fate = losing(lambda header: header.spdcid == 0, count=1 << 30)
    bench.post(*(bench.write(number) for number in range(4)))
    assert [other.execute(**bench.add(peer=1))["status"] for _ in range(20)] == [OK] * 20
    assert bench.here(Counter.FAILED_PDCS) == 0


def test_a_descriptor_is_checked_while_the_request_before_it_waits(make_model_pair: MakePair) -> None:
    bench = Bench(make_model_pair(NicParameters(window=2)))
    bench.cut_off()
    bench.post(*(bench.write(number) for number in range(3)), {"opcode": 99}, {"opcode": DescriptorOpcode.NOP,
                                                                             "flags": COMPLETION})  # fmt: skip
    entries = [bench.pair.local.completion() for _ in range(2)]
    assert [(entry["context"], entry["status"]) for entry in entries] == [
        (3, ReturnCode.LOCAL_BAD_DESCRIPTOR), (4, OK)
    ]  # fmt: skip


def test_immediate_data_leaves_with_the_first_packet(bench: Bench) -> None:
    source = bench.pair.initiator.buffer(3 * SIZE)
    bench.pair.local.execute(
        opcode=DescriptorOpcode.WRITE, flags=COMPLETION | DescriptorFlags.IMMEDIATE, length=3 * SIZE,
        local=source.address, compare=0x123, remote_address=bench.region.address, remote_key=1,
    )  # fmt: skip
    sent = [header for header in bench.frames() if header.is_request]
    places = [0x123, SIZE << 32 | SIZE, SIZE << 32 | 2 * SIZE]
    assert [(header.flags, header.header_data) for header in sent] == list(zip((5, 0, 0x22), places, strict=True))


# Fences


def test_a_fenced_request_begins_when_all_before_it_to_its_peer_are_answered(bench: Bench) -> None:
    bench.answers.fate = losing(answer(1), count=2)
    bench.post(bench.add(), bench.add(), bench.write(1, flags=COMPLETION | INLINE | FENCE), bench.write(2))
    assert bench.statuses(4) == [OK] * 4
    frames = bench.frames()
    fenced = next(place for place, header in enumerate(frames) if request(2)(header))
    answered = next(place for place, header in enumerate(frames) if answer(1)(header))
    assert answered < fenced
    assert bench.here(Counter.TIMEOUTS) >= 1


def test_only_the_first_packet_of_a_fenced_request_waits(bench: Bench) -> None:
    read = {"opcode": DescriptorOpcode.READ, "flags": COMPLETION | FENCE, "length": 3 * SIZE, "remote_key": 1}
    bench.post(bench.add(), read)
    bench.statuses(2)
    kinds = [(header.is_request, header.psn - FIRST_PSN) for header in bench.frames()]
    assert kinds[:2] == [(True, 0), (False, 0)]
    assert kinds.index((True, 3)) < kinds.index((False, 1))


def test_a_fence_does_not_wait_for_other_peers(bench: Bench) -> None:
    bench.pair.initiator.peer(1, bench.pair.remote)
    bench.requests.fate = losing(lambda header: header.spdcid == 0, count=2)
    bench.post(bench.add(), bench.write(7, peer=1, flags=COMPLETION | INLINE | FENCE, context=5))
    assert bench.pair.local.completion()["context"] == 5


# Chains


def chain(bench: Bench, *keys: int) -> list[dict[str, int]]:
    """Writes of 8 bytes, one behind the other, that are one request; a piece with a wrong key fails."""
    last = len(keys) - 1
    return [
        bench.write(
            number + 1, place=8 * number, remote_key=key, flags=INLINE | (COMPLETION if number == last else CHAINED)
        )
        for number, key in enumerate(keys)
    ]


def next_completion(bench: Bench) -> tuple[int, int, int]:
    """(place in the posting, status, index of the descriptor) of the only completion that comes."""
    entry = bench.pair.local.completion()
    bench.pair.run(30)
    assert bench.pair.local.poll() is None
    return entry["context"], entry["status"], entry["descriptor"]


def test_a_chain_has_one_completion(bench: Bench) -> None:
    bench.post(*chain(bench, *[Pair.KEY] * 4))
    assert next_completion(bench) == (3, OK, 3)
    assert [bench.region.integer(8 * number) for number in range(4)] == [1, 2, 3, 4]
    assert bench.here(Counter.DESCRIPTORS) == 4


@pytest.mark.parametrize("wrong", [0, 1, 2, 3])
def test_a_chain_completes_with_the_first_status_that_is_not_ok(bench: Bench, wrong: int) -> None:
    keys = [Pair.KEY] * 4
    keys[wrong] = 1
    pieces = chain(bench, *keys)
    if wrong < 3:
        pieces[3]["remote_address"] += 1 << 40  # fails, too, but later
    bench.post(*pieces)
    assert next_completion(bench) == (3, ReturnCode.BAD_MKEY, 3)


def test_the_status_of_a_chain_is_not_that_of_the_next_request(bench: Bench) -> None:
    bench.post(*chain(bench, 1, Pair.KEY), bench.write(9, context=2))
    assert [bench.pair.local.completion()["status"] for _ in range(2)] == [ReturnCode.BAD_MKEY, OK]


def test_a_refused_piece_completes_at_once_and_breaks_its_chain(bench: Bench) -> None:
    pieces = chain(bench, 1, Pair.KEY, Pair.KEY)
    pieces[1]["opcode"] = 99
    bench.post(*pieces)
    entries = [bench.pair.local.completion() for _ in range(2)]
    assert [(entry["context"], entry["status"]) for entry in entries] == [
        (1, ReturnCode.LOCAL_BAD_DESCRIPTOR), (2, OK)
    ]  # fmt: skip


def test_two_chains_to_two_peers_do_not_mix(bench: Bench) -> None:
    bench.pair.initiator.peer(1, bench.pair.remote)
    bench.requests.fate = losing(lambda header: header.spdcid == 0, count=3)  # the second chain is answered first
    first = chain(bench, 1, Pair.KEY)
    second = [{**fields, "peer": 1} for fields in chain(bench, Pair.KEY, Pair.KEY)]
    bench.post(*first, *second)
    entries = [bench.pair.local.completion() for _ in range(2)]
    assert [(entry["context"], entry["status"]) for entry in entries] == [(3, OK), (1, ReturnCode.BAD_MKEY)]


def test_pieces_give_their_places_back(bench: Bench) -> None:
    for _ in range(20):  # the completion ring has 16 entries
        bench.post(*chain(bench, *[Pair.KEY] * 6))
        assert next_completion(bench)[1] == OK


def test_a_chain_to_a_failed_peer_completes_once(bench: Bench) -> None:
    bench.cut_off()
    bench.post(*chain(bench, *[Pair.KEY] * 3))
    assert next_completion(bench)[:2] == (2, ReturnCode.LOCAL_PDC_FAILED)
    bench.post(*chain(bench, *[Pair.KEY] * 3))
    assert next_completion(bench)[:2] == (2, ReturnCode.LOCAL_PDC_FAILED)


# Closing


def test_a_close_waits_for_everything_before_and_holds_up_everything_behind(bench: Bench) -> None:
    bench.post(bench.add(), bench.add(), CLOSE, bench.add())
    assert bench.statuses(4) == [OK] * 4
    frames = [(header.is_request, header.is_control, header.psn - FIRST_PSN) for header in bench.frames()]
    anew = first_psn((0, 0, 0), 0, FIRST_PSN + 3) - FIRST_PSN
    assert frames[-4:] == [(True, True, 2), (False, False, 2), (True, False, anew), (False, False, anew)]
    assert {frame[2] for frame in frames[:-4]} == {0, 1}


def test_the_packet_behind_a_close_opens_the_pdc_anew(bench: Bench) -> None:
    bench.post(bench.add(), CLOSE, bench.add(), bench.add())
    assert bench.statuses(4) == [OK] * 4
    sent = [header for header in bench.frames() if header.is_request]
    assert [(header.syn, header.dpdcid, header.message_id) for header in sent] == [
        (True, 0, 0), (False, bench.pair.target.parameters.peers, 0), (True, 0, 0), (True, 1, 1)
    ]  # fmt: skip
    assert [header.clear_psn_offset for header in sent] == [0xFFFF, 0xFFFF, 0xFFFF, 0xFFFE]


def test_a_lost_close_is_sent_again(bench: Bench) -> None:
    bench.requests.fate = losing(request(1))
    bench.post(bench.add(), CLOSE, bench.add())
    assert bench.statuses(3) == [OK] * 3
    assert bench.here(Counter.TIMEOUTS) == bench.here(Counter.RETRANSMISSIONS) == 1


def test_the_lost_answer_of_a_close_is_replayed(bench: Bench) -> None:
    bench.answers.fate = losing(answer(1))
    bench.post(bench.add(), CLOSE, bench.add())
    assert bench.statuses(3) == [OK] * 3
    assert bench.there(Counter.DUPLICATES) == 1


def test_a_close_whose_pdc_the_target_has_forgotten_is_done(bench: Bench) -> None:
    """Its answer was lost, and the PDC has been given to another sender since."""
    bench.post(bench.add())
    assert bench.statuses(1) == [OK]
    bench.cut_off()
    bench.post(CLOSE)
    bench.sent(2)
    bench.say(is_control=True, nack_code=NackCode.INV_DPDCID, psn=FIRST_PSN + 1)
    assert bench.statuses(1) == [OK]
    bench.requests.fate = arrives
    bench.post(bench.add())
    assert bench.statuses(1) == [OK]
    assert bench.here(Counter.FAILED_PDCS) == 0


def test_a_close_to_a_silent_peer_fails_like_any_packet(bench: Bench) -> None:
    bench.cut_off()
    bench.post(CLOSE, bench.add())
    assert bench.statuses(2) == [ReturnCode.LOCAL_PDC_FAILED] * 2


def test_closing_makes_space_for_more_senders_than_there_are_pdcs(make_model_pair: MakePair) -> None:
    bench = Bench(make_model_pair(NicParameters(target_pdcs=2)))
    for peer in range(6):
        bench.pair.initiator.peer(peer, bench.pair.remote, initial_psn=0x100 * peer)
        bench.post(bench.add(peer=peer), {**CLOSE, "peer": peer})
        assert bench.statuses(2) == [OK, OK]
    assert bench.region.integer(0) == 6
    assert bench.there(Counter.NACKS_SENT) == 0
