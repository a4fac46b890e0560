"""Target PDCs: which packets are executed, which are answered again, and which are refused, and how.

Covers ``nic/target.py``, ``nic/tables.py``, ``nic/connection_epochs.py``, ``nic/credits.py``
and ``nic/responder.py``.
"""

from collections.abc import Callable
from typing import Any

import pytest
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import Counter, KeyFlags
from amoeba_model.wire.codec import NO_PDC, FrameHeader
from amoeba_model.wire.uet import (
    AtomicDatatype,
    AtomicOpcode,
    NackCode,
    RequestOpcode,
    ResponseOpcode,
    ReturnCode,
    SesFlags,
    message_place,
)

from tests.support.raw_driver import ALL_RIGHTS, Buffer, Pair
from tests.support.stranger import Stranger

MakePair = Callable[..., Pair]
SIZE = 4096
EIGHT = b"\x11" * 8
FETCH_ADD = {
    "opcode": RequestOpcode.FETCHING_ATOMIC, "atomic_opcode": AtomicOpcode.SUM,
    "atomic_datatype": AtomicDatatype.UINT64, "request_length": 8,
}  # fmt: skip
ONE = (1).to_bytes(8, "big")


@pytest.fixture
def stranger(make_model_pair: MakePair) -> Stranger:
    return Stranger(make_model_pair())


@pytest.fixture
def region(stranger: Stranger) -> Buffer:
    """Memory that every request of a stranger lies at the start of."""
    return addressed_by_offset(stranger.pair)


def addressed_by_offset(pair: Pair) -> Buffer:
    return pair.memory(SIZE, flags=ALL_RIGHTS & ~KeyFlags.VIRTUAL)


def say(stranger: Stranger, header: FrameHeader, payload: bytes = b"") -> list[FrameHeader]:
    """Send a frame; the headers of all that comes back."""
    stranger.send(stranger.frame(header, payload))
    return [answer.header for answer in stranger.answers()]


def nacks(answers: list[FrameHeader]) -> list[tuple[NackCode, int, int]]:
    """(code, psn, spdcid) of the answers, all of which are NACKs."""
    assert all(answer.is_control for answer in answers)
    return [(NackCode(answer.nack_code), answer.psn, answer.spdcid) for answer in answers]


def counter(stranger: Stranger, counter: Counter) -> int:
    return stranger.pair.target.counter(counter)


# Opening


def test_pdcs_are_numbered_in_the_order_in_which_they_are_opened(stranger: Stranger, region: Buffer) -> None:
    assert [stranger.ask(spdcid=spdcid, psn=7, dpdcid=0).header.spdcid for spdcid in (30, 20, 30, 10)][:2] == [0, 1]


def test_the_same_number_of_another_sender_is_another_pdc(stranger: Stranger, region: Buffer) -> None:
    other = Stranger(stranger.pair, mac=0x0200_0000_00BB, ip=0x0A00_00BB)
    assert (stranger.ask().header.spdcid, other.ask().header.spdcid) == (0, 1)


def test_the_first_packet_of_a_pdc_opens_it_and_later_ones_with_syn_find_it(
    stranger: Stranger, region: Buffer
) -> None:
    assert [stranger.ask().header.spdcid for _ in range(3)] == [0, 0, 0]
    assert stranger.ask(syn=False, dpdcid=0).header.return_code == ReturnCode.OK


def test_a_syn_packet_that_is_not_the_first_asks_for_the_first(stranger: Stranger, region: Buffer) -> None:
    for expected in (1, 2):  # every time: there is no PDC to remember it
        assert nacks(say(stranger, stranger.header(psn=510, dpdcid=10))) == [(NackCode.ROD_OOO, 500, NO_PDC)]
        assert counter(stranger, Counter.DROPPED_PDC) == counter(stranger, Counter.NACKS_SENT) == expected
    stranger.ask()
    assert nacks(say(stranger, stranger.header(psn=710, dpdcid=10))) == [(NackCode.ROD_OOO, 700, NO_PDC)]
    assert stranger.ask().header.return_code == ReturnCode.OK  # of the PDC that is open all the while


def test_another_first_packet_opens_a_pdc_beside_the_one_that_is_open(stranger: Stranger, region: Buffer) -> None:
    assert stranger.ask(ONE, **FETCH_ADD).payload == bytes(8)
    stranger.psn = stranger.first_psn = 0x1000_0000
    assert [stranger.ask(ONE, **FETCH_ADD).header.spdcid for _ in range(2)] == [1, 1]
    (again,) = say(stranger, stranger.header(psn=500, syn=False, dpdcid=0, **FETCH_ADD), ONE)
    assert (again.retx, again.spdcid) == (True, 0)
    (next_one,) = say(stranger, stranger.header(psn=501, syn=False, dpdcid=0, **FETCH_ADD), ONE)
    assert (next_one.retx, next_one.return_code) == (False, ReturnCode.OK)
    assert region.integer(0) == 4


def test_a_pdc_that_is_not_proven_is_opened_anew_and_its_answers_are_forgotten(stranger: Stranger) -> None:
    assert stranger.ask(opcode=RequestOpcode.NO_OP).header.spdcid == 0
    stranger.psn = stranger.first_psn = 502  # 501 would be its next packet
    assert stranger.ask(opcode=RequestOpcode.NO_OP).header.spdcid == 0
    assert say(stranger, stranger.header(psn=500, syn=False, dpdcid=0, opcode=RequestOpcode.NO_OP)) == []


def test_idle_pdcs_are_given_away_when_the_table_is_full_the_one_unused_longest_first(
    make_model_pair: MakePair,
) -> None:
    stranger = Stranger(make_model_pair(NicParameters(target_pdcs=4)))
    addressed_by_offset(stranger.pair)
    stranger.pair.target.set("device", retransmit_limit=0)  # 32 timeouts
    timeout = stranger.pair.target.get("device", "retransmit_timeout")

    def first(spdcid: int) -> FrameHeader:
        (answer,) = say(stranger, stranger.header(spdcid=spdcid, psn=900, dpdcid=0))
        return answer

    def after(timeouts: int) -> None:
        until = stranger.device.cycles + timeouts * timeout
        while stranger.device.cycles < until:
            stranger.pair.run(1)

    assert [first(spdcid).spdcid for spdcid in (10, 11, 12, 13)] == [0, 1, 2, 3]
    after(30)
    assert nacks([first(14)]) == [(NackCode.NO_PDC_AVAIL, 900, NO_PDC)]
    for spdcid, pdc in ((11, 1), (10, 0)):  # next; and received before
        psn = 901 if spdcid == 11 else 900
        say(stranger, stranger.header(spdcid=spdcid, psn=psn, syn=False, dpdcid=pdc))
    after(4)
    assert [first(spdcid).spdcid for spdcid in (14, 15)] == [2, 3]
    assert nacks([first(16)]) == [(NackCode.NO_PDC_AVAIL, 900, NO_PDC)]
    # Its former owner learns that it is another's.
    late = stranger.header(spdcid=12, psn=901, syn=False, dpdcid=2)
    assert nacks(say(stranger, late)) == [(NackCode.INV_DPDCID, 901, 2)]
    after(34)
    assert [first(spdcid).spdcid for spdcid in (16, 17, 18, 19)] == [1, 0, 2, 3]


def test_an_idle_pdc_in_the_middle_of_a_message_is_given_away_last(make_model_pair: MakePair) -> None:
    stranger = Stranger(make_model_pair(NicParameters(target_pdcs=4)))
    region = addressed_by_offset(stranger.pair)
    stranger.pair.target.set("device", retransmit_limit=0)
    message = {"opcode": RequestOpcode.WRITE, "request_length": 16, "buffer_offset": 0, "message_id": 5}

    def first(spdcid: int) -> FrameHeader:
        (answer,) = say(stranger, stranger.header(spdcid=spdcid, psn=900, dpdcid=0))
        return answer

    def part(flags: SesFlags, psn: int, place: int) -> FrameHeader:
        fields = {**message, "flags": flags, "header_data": place}
        (answer,) = say(stranger, stranger.header(spdcid=11, psn=psn, syn=False, dpdcid=1, **fields), ONE)
        return answer

    def fall_idle() -> None:
        until = stranger.device.cycles + 33 * stranger.pair.target.get("device", "retransmit_timeout")
        while stranger.device.cycles < until:
            stranger.pair.run(1)

    assert [first(spdcid).spdcid for spdcid in (10, 11, 12, 13)] == [0, 1, 2, 3]
    assert part(SesFlags.START_OF_MESSAGE, 901, 0).return_code == ReturnCode.OK
    fall_idle()
    assert [first(spdcid).spdcid for spdcid in (14, 15, 16)] == [0, 2, 3]
    assert part(SesFlags.END_OF_MESSAGE, 902, message_place(8, 8)).return_code == ReturnCode.OK
    assert region[:16] == ONE + ONE
    assert nacks([first(17)]) == [(NackCode.NO_PDC_AVAIL, 900, NO_PDC)]
    # It is not kept when there is no other.
    assert part(SesFlags.START_OF_MESSAGE, 903, 0).return_code == ReturnCode.OK
    fall_idle()
    assert [first(spdcid).spdcid for spdcid in (17, 18, 19, 20)] == [0, 2, 3, 1]


def test_the_table_is_exhausted_until_a_pdc_is_closed(make_model_pair: MakePair) -> None:
    stranger = Stranger(make_model_pair(NicParameters(target_pdcs=4)))
    addressed_by_offset(stranger.pair)

    def first(spdcid: int) -> FrameHeader:
        return stranger.header(spdcid=spdcid, psn=900, dpdcid=0)

    assert [say(stranger, first(spdcid))[0].spdcid for spdcid in (10, 11, 12, 13)] == [0, 1, 2, 3]
    assert nacks(say(stranger, first(14))) == [(NackCode.NO_PDC_AVAIL, 900, NO_PDC)]
    for spdcid in (12, 10):
        (closed,) = say(stranger, stranger.close(spdcid=spdcid, psn=901, dpdcid=1))
        assert closed.opcode == ResponseOpcode.NONE
    # Those that were closed are taken in the order in which they were, and their senders are strangers then.
    assert [say(stranger, first(spdcid))[0].spdcid for spdcid in (14, 15)] == [2, 0]
    late = stranger.header(spdcid=12, psn=901, syn=False, dpdcid=2)
    assert nacks(say(stranger, late)) == [(NackCode.INV_DPDCID, 901, 2)]
    for spdcid in (16, 17):
        assert nacks(say(stranger, first(spdcid))) == [(NackCode.NO_PDC_AVAIL, 900, NO_PDC)]
    assert counter(stranger, Counter.DROPPED_PDC) == 4


def test_until_a_request_has_passed_all_checks_a_pdc_is_evictable(make_model_pair: MakePair) -> None:
    """A PING passes none, nor does what is refused; who is given the place is taken from the front of one line."""
    stranger = Stranger(make_model_pair(NicParameters(target_pdcs=4)))
    addressed_by_offset(stranger.pair)

    def first(spdcid: int, **fields: Any) -> FrameHeader:
        return stranger.header(spdcid=spdcid, psn=900, dpdcid=0, **fields)

    ping, refused = {"opcode": RequestOpcode.NO_OP}, {"memory_key": 99}
    for number, fields in enumerate((ping, refused, {}, refused)):
        assert say(stranger, first(10 + number, **fields))[0].spdcid == number
    # The second is proven now, the first goes to the end of the line by opening anew.
    assert say(stranger, stranger.header(spdcid=11, psn=901, dpdcid=1))[0].return_code == ReturnCode.OK
    assert say(stranger, stranger.header(spdcid=10, psn=5_000, dpdcid=0, **ping))[0].spdcid == 0
    assert [say(stranger, first(20 + number, **refused))[0].spdcid for number in range(3)] == [3, 0, 3]
    for spdcid, pdc in ((11, 1), (12, 2)):
        again = say(stranger, stranger.header(spdcid=spdcid, psn=902, dpdcid=pdc, syn=False))
        assert again[0].is_control == (spdcid == 12)  # that one has a gap
    assert counter(stranger, Counter.DROPPED_PDC) == 0
    late = stranger.header(spdcid=13, psn=901, dpdcid=3, syn=False)
    assert nacks(say(stranger, late)) == [(NackCode.INV_DPDCID, 901, 3)]


def test_without_syn_the_pdc_must_be_one_of_the_sender(stranger: Stranger, region: Buffer) -> None:
    stranger.ask()
    other = Stranger(stranger.pair, mac=0x0200_0000_00BB, ip=0x0A00_00BB)
    assert nacks(say(other, other.header(syn=False, dpdcid=0))) == [(NackCode.INV_DPDCID, 500, 0)]
    for wrong, named in (
        ({"dpdcid": 1}, NO_PDC),
        ({"dpdcid": 0xFFFF}, NO_PDC),
        ({"dpdcid": 0, "spdcid": 8}, 0),  # there is one, but another's
    ):
        assert nacks(say(stranger, stranger.header(syn=False, **wrong))) == [(NackCode.INV_DPDCID, 501, named)]
    assert counter(stranger, Counter.DROPPED_PDC) == 4


# Order


def test_without_slots_a_gap_is_reported_once_until_it_is_filled_or_asked_about_with_retx(
    make_model_pair: MakePair,
) -> None:
    stranger = Stranger(make_model_pair(NicParameters(out_of_order_entries=0)))
    addressed_by_offset(stranger.pair)
    stranger.ask()
    gap = [(NackCode.ROD_OOO, 501, 0)]
    assert nacks(say(stranger, stranger.header(psn=503, dpdcid=3))) == gap
    assert say(stranger, stranger.header(psn=504, dpdcid=4)) == []
    assert nacks(say(stranger, stranger.header(psn=504, dpdcid=4, retx=True))) == gap
    assert counter(stranger, Counter.DROPPED_SEQUENCE) == 3
    stranger.ask()
    assert nacks(say(stranger, stranger.header(psn=503, dpdcid=3))) == [(NackCode.ROD_OOO, 502, 0)]


def test_a_nack_says_whether_the_packet_had_retx(stranger: Stranger) -> None:
    for retx in (False, True):
        (nack,) = say(stranger, stranger.header(syn=False, dpdcid=3, retx=retx))
        assert (nack.retx, nack.dpdcid, nack.is_control) == (retx, stranger.spdcid, True)


def test_order_holds_across_the_end_of_the_sequence_numbers(stranger: Stranger, region: Buffer) -> None:
    stranger.first_psn = stranger.psn = 0xFFFF_FFFE
    for count in range(4):
        psn = (0xFFFF_FFFE + count) & 0xFFFF_FFFF
        request = stranger.header(psn=psn, dpdcid=count, **FETCH_ADD)
        for repeated in (False, True):
            (answer,) = say(stranger, request, ONE)
            assert (answer.psn, answer.retx) == (psn, repeated)
    assert nacks(say(stranger, stranger.header(psn=5, dpdcid=7))) == [(NackCode.ROD_OOO, 2, 0)]
    assert region.integer(0) == 4


def test_a_packet_too_far_ahead_of_the_answers_its_sender_has_is_refused(stranger: Stranger, region: Buffer) -> None:
    stranger.ask()
    window = stranger.pair.target.parameters.window
    far = stranger.header(clear_psn_offset=-(window + 1) & 0xFFFF)
    assert nacks(say(stranger, far)) == [(NackCode.PSN_OOR_WINDOW, 501, 0)]
    assert counter(stranger, Counter.DROPPED_SEQUENCE) == 1
    assert stranger.ask(clear_psn_offset=-window & 0xFFFF).header.return_code == ReturnCode.OK


# Answers that are replayed


def test_an_atomic_is_executed_once_however_often_it_arrives(stranger: Stranger, region: Buffer) -> None:
    frame = stranger.frame(stranger.header(**FETCH_ADD), ONE)
    first = stranger.ask(ONE, **FETCH_ADD)
    for repetition in range(1, 4):
        stranger.send(frame)
        (again,) = stranger.answers()
        assert (again.payload, again.header.retx, again.header.psn) == (first.payload, True, first.header.psn)
        assert (again.header.modified_length, again.header.message_id) == (8, first.header.message_id)
        assert counter(stranger, Counter.DUPLICATES) == repetition
    assert not first.header.retx
    assert region.integer(0) == 1
    assert counter(stranger, Counter.REQUESTS_RECEIVED) == 1
    assert counter(stranger, Counter.RESPONSES_SENT) == 4


def test_a_refusal_is_repeated_though_its_reason_is_gone(stranger: Stranger) -> None:
    assert stranger.ask(EIGHT, request_length=8).header.return_code == ReturnCode.BAD_MKEY
    stranger.pair.memory(SIZE)
    (again,) = say(stranger, stranger.header(psn=500, dpdcid=0, request_length=8), EIGHT)
    assert (again.return_code, again.modified_length) == (ReturnCode.BAD_MKEY, 0)


def test_a_duplicate_is_not_answered_before_the_request_itself(stranger: Stranger, region: Buffer) -> None:
    frame = stranger.frame(stranger.header(**FETCH_ADD), ONE)
    stranger.device.deliver(frame, 0)
    stranger.send(frame)
    (answer,) = stranger.answers()
    assert not answer.header.retx
    assert counter(stranger, Counter.DUPLICATES) == 1
    assert region.integer(0) == 1


@pytest.mark.parametrize("beyond", [0, 1])
def test_the_last_window_of_answers_is_kept_and_no_more(make_model_pair: MakePair, beyond: int) -> None:
    stranger = Stranger(make_model_pair(NicParameters(window=8)))
    region = addressed_by_offset(stranger.pair)
    for _ in range(8 + beyond):
        stranger.ask(ONE, **FETCH_ADD)
    answers = say(stranger, stranger.header(psn=500, dpdcid=0, **FETCH_ADD), ONE)
    assert len(answers) == 1 - beyond
    assert counter(stranger, Counter.DUPLICATES) == 1
    assert region.integer(0) == 8 + beyond


def read(length: int) -> dict[str, Any]:
    return {"opcode": RequestOpcode.READ, "request_length": length}


def test_long_answers_are_repeated_from_the_answer_memory(stranger: Stranger, region: Buffer) -> None:
    memory = stranger.pair.target.answer_memory()
    region[0] = bytes(range(256)) * 16
    stranger.ask()
    stranger.ask(**read(SIZE))
    place = (501 % 256) * 4096  # of PDC 0
    assert memory[place : place + SIZE] == region[:]
    region[0] = b"\xee" * SIZE
    stranger.send(stranger.frame(stranger.header(psn=501, dpdcid=1, **read(SIZE))))
    (again,) = stranger.answers()
    assert (again.payload, again.header.retx) == (bytes(range(256)) * 16, True)


@pytest.mark.parametrize(("length", "kept"), [(16, True), (17, False)])
def test_without_answer_memory_only_short_answers_are_repeated(
    stranger: Stranger, region: Buffer, length: int, kept: bool
) -> None:
    stranger.ask(**read(length))
    answers = say(stranger, stranger.header(psn=500, dpdcid=0, **read(length)))
    if kept:
        assert [answer.payload_length for answer in answers] == [length]
    else:
        assert nacks(answers) == [(NackCode.GTD_RESP_UNAVAIL, 500, 0)]
    assert stranger.pair.target.device.faults() == []


def test_an_answer_memory_that_the_host_refuses_costs_repetitions_only(stranger: Stranger, region: Buffer) -> None:
    memory = stranger.pair.target.answer_memory()
    stranger.pair.target.device.revoke(memory.address, memory.size)
    assert len(stranger.ask(**read(64)).payload) == 64
    answers = say(stranger, stranger.header(psn=500, dpdcid=0, **read(64)))
    assert nacks(answers) == [(NackCode.GTD_RESP_UNAVAIL, 500, 0)]
    faults = stranger.pair.target.device.faults()
    assert [(fault.requester, fault.write) for fault in faults] == [("ANSWER_WRITER", True), ("ANSWER_FETCH", False)]
    assert counter(stranger, Counter.DMA_WRITE_ERRORS) == counter(stranger, Counter.DMA_READ_ERRORS) == 1


# Cumulative acknowledgements


def test_an_answer_covers_plain_ones_before_it_back_to_what_its_packet_cleared(
    stranger: Stranger, region: Buffer
) -> None:
    # Each packet says that no answer has come since 499.
    clears = [-(count + 1) & 0xFFFF for count in range(6)]
    covered = [
        stranger.ask(clear_psn_offset=clears[0]).header.cack_psn,
        stranger.ask(clear_psn_offset=clears[1]).header.cack_psn,
        stranger.ask(ONE, clear_psn_offset=clears[2], **FETCH_ADD).header.cack_psn,
        stranger.ask(clear_psn_offset=clears[3]).header.cack_psn,
        stranger.ask(clear_psn_offset=clears[4]).header.cack_psn,
        stranger.ask(clear_psn_offset=-2 & 0xFFFF).header.cack_psn,
    ]
    # 502 has data: it can only be answered by itself, and what 503 and 504 cover ends before it.
    assert covered == [500, 501, 502, 499, 499, 505]


def test_an_error_has_to_be_answered_by_itself(stranger: Stranger, region: Buffer) -> None:
    error = stranger.ask(EIGHT, request_length=8, memory_key=1)
    assert (error.header.return_code, error.header.cack_psn) == (ReturnCode.BAD_MKEY, 500)
    assert stranger.ask(clear_psn_offset=-2 & 0xFFFF).header.cack_psn == 499
    assert stranger.ask(clear_psn_offset=-2 & 0xFFFF).header.cack_psn == 502


def test_a_repeated_answer_covers_nothing_but_what_its_packet_cleared(stranger: Stranger, region: Buffer) -> None:
    for _ in range(3):
        stranger.ask()
    for clear, cack in ((-1, 501), (-3, 499), (0, 502), (-0x8000, 502 - 0x7FFF)):
        (again,) = say(stranger, stranger.header(psn=502, dpdcid=2, clear_psn_offset=clear & 0xFFFF))
        assert (again.psn, again.cack_psn) == (502, cack & 0xFFFF_FFFF)


# Closing


def test_a_closed_pdc_repeats_its_answers_and_takes_nothing_new(stranger: Stranger, region: Buffer) -> None:
    stranger.ask(ONE, **FETCH_ADD)
    (closed,) = say(stranger, stranger.close(psn=501, dpdcid=1))
    assert (closed.opcode, closed.psn, closed.cack_psn) == (ResponseOpcode.NONE, 501, 501)
    for psn, header, payload, opcode in (
        (500, stranger.header(psn=500, dpdcid=0, **FETCH_ADD), ONE, ResponseOpcode.WITH_DATA),
        (501, stranger.close(psn=501, dpdcid=1), b"", ResponseOpcode.NONE),
        (501, stranger.close(psn=501, syn=False, dpdcid=0), b"", ResponseOpcode.NONE),
    ):
        (again,) = say(stranger, header, payload)
        assert (again.psn, again.retx, again.opcode) == (psn, True, opcode)
    assert nacks(say(stranger, stranger.header(psn=502, dpdcid=2))) == [(NackCode.INV_DPDCID, 502, 0)]
    late = stranger.header(psn=505, syn=False, dpdcid=0)
    assert nacks(say(stranger, late)) == [(NackCode.INV_DPDCID, 505, 0)]
    assert region.integer(0) == 1
    assert counter(stranger, Counter.DROPPED_PDC) == 2


def test_a_closed_pdc_is_opened_anew_by_its_sender(stranger: Stranger, region: Buffer) -> None:
    stranger.ask()
    say(stranger, stranger.close(psn=501, dpdcid=1))
    stranger.psn = stranger.first_psn = 502
    assert [stranger.ask().header.spdcid for _ in range(2)] == [0, 0]


def test_a_close_command_may_be_all_that_a_pdc_ever_gets(stranger: Stranger) -> None:
    (closed,) = say(stranger, stranger.close())
    assert (closed.opcode, closed.spdcid) == (ResponseOpcode.NONE, 0)
    assert nacks(say(stranger, stranger.header(psn=501, dpdcid=1))) == [(NackCode.INV_DPDCID, 501, 0)]


@pytest.mark.parametrize("first", [503, 70_000, 501 + 2**31, 502 + 2**31, 2**32 - 70_000])
def test_a_close_of_a_former_epoch_is_told_to_have_been_executed(
    stranger: Stranger, region: Buffer, first: int
) -> None:
    """The PDC was opened since, in the sender's name or not; and the packet closes nothing."""
    stranger.ask()
    say(stranger, stranger.close(psn=501, dpdcid=1))
    stranger.psn = stranger.first_psn = first
    assert stranger.ask().header.spdcid == 0
    for _ in range(2):
        late = stranger.close(psn=501, syn=False, dpdcid=0, retx=True)
        assert nacks(say(stranger, late)) == [(NackCode.INV_DPDCID, 501, 0)]
    assert counter(stranger, Counter.DROPPED_PDC) == 2
    assert stranger.ask(syn=False, dpdcid=0).header.return_code == ReturnCode.OK


def test_a_close_command_keeps_its_order(stranger: Stranger, region: Buffer) -> None:
    stranger.ask()
    assert nacks(say(stranger, stranger.close(psn=502, dpdcid=2))) == [(NackCode.ROD_OOO, 501, 0)]
    asked, closed = say(stranger, stranger.header(psn=501, dpdcid=1))
    assert (asked.return_code, closed.opcode) == (ReturnCode.OK, ResponseOpcode.NONE)
    assert counter(stranger, Counter.REQUESTS_RECEIVED) == 3
