"""Requests that come before their turn: kept by the target until those before them have come, and then executed."""

from collections.abc import Callable
from typing import Any

import pytest
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import Counter, KeyFlags
from amoeba_model.wire.codec import FrameHeader
from amoeba_model.wire.uet import (
    AtomicDatatype,
    AtomicOpcode,
    NackCode,
    RequestOpcode,
    ResponseOpcode,
    ReturnCode,
    SesFlags,
)

from tests.support.raw_driver import ALL_RIGHTS, Buffer, Pair
from tests.support.stranger import WHOLE, Stranger

MakePair = Callable[..., Pair]
FETCH_ADD = {
    "opcode": RequestOpcode.FETCHING_ATOMIC, "atomic_opcode": AtomicOpcode.SUM,
    "atomic_datatype": AtomicDatatype.UINT64, "request_length": 8,
}  # fmt: skip

EVENT = WHOLE | SesFlags.HEADER_DATA


class Early(Stranger):
    """Sends fetching additions of their psn, in any order."""

    def add(self, number: int, **fields: Any) -> list[tuple[Any, ...]]:
        """Packet ``number`` of the PDC; what comes back: ("OK", psn, data) or ("NACK", code, psn, missing)."""
        psn = self.first_psn + number & 0xFFFF_FFFF
        header = self.header(psn=psn, dpdcid=number & 0xFFF, **{**FETCH_ADD, **fields})
        return self.say(header, number.to_bytes(8, "big"))

    def say(self, header: FrameHeader, payload: bytes = b"") -> list[tuple[Any, ...]]:
        self.send(self.frame(header, payload))
        return [
            (
                "NACK",
                NackCode(answer.header.nack_code),
                (answer.header.psn - self.first_psn) & 0xFFFF_FFFF,
                answer.header.missing,
            )
            if answer.header.is_control
            else (ReturnCode(answer.header.return_code).name, (answer.header.psn - self.first_psn) & 0xFFFF_FFFF)
            for answer in self.answers()
        ]

    def count(self, counter: Counter) -> int:
        return self.pair.target.counter(counter)

    def counts(self) -> dict[str, int]:
        """Of those that a request is counted by once."""
        kinds = (Counter.REQUESTS_RECEIVED, Counter.DROPPED_SEQUENCE, Counter.DROPPED_PDC, Counter.DUPLICATES)
        return {kind.name: self.count(kind) for kind in kinds if self.count(kind)}


def gap(psn: int, missing: int) -> list[tuple[Any, ...]]:
    return [("NACK", NackCode.ROD_OOO, psn, missing)]


def early(make_pair: MakePair, **parameters: Any) -> tuple[Early, Buffer]:
    stranger = Early(make_pair(NicParameters(**parameters)))
    return stranger, stranger.pair.memory(4096, flags=ALL_RIGHTS & ~KeyFlags.VIRTUAL)


def total(region: Buffer) -> int:
    return region.integer(0)


def test_what_came_before_its_turn_is_executed_when_that_has_come(make_model_pair: MakePair) -> None:
    stranger, region = early(make_model_pair)
    assert stranger.add(0) == [("OK", 0)]
    assert stranger.add(2) == gap(1, 1)
    assert stranger.add(3) == []
    assert total(region) == 0
    assert stranger.counts() == {"REQUESTS_RECEIVED": 1}
    assert stranger.add(1) == [("OK", 1), ("OK", 2), ("OK", 3)]
    assert total(region) == 6
    assert stranger.counts() == {"REQUESTS_RECEIVED": 4}
    assert (stranger.count(Counter.FRAMES_RECEIVED), stranger.count(Counter.NACKS_SENT)) == (4, 1)
    # From then on these are packets like others.
    assert stranger.add(2) == [("OK", 2)]
    assert stranger.counts() == {"REQUESTS_RECEIVED": 4, "DUPLICATES": 1}
    assert total(region) == 6


def test_each_gap_is_asked_for_once(make_model_pair: MakePair) -> None:
    stranger, region = early(make_model_pair)
    stranger.add(0)
    assert stranger.add(3) == gap(1, 2)
    assert stranger.add(7) == gap(4, 3)
    assert stranger.add(5, retx=True) == []
    assert stranger.add(8) == []
    assert stranger.add(5, retx=True) == []  # it is kept already
    assert stranger.counts() == {"REQUESTS_RECEIVED": 1, "DROPPED_SEQUENCE": 1}
    assert stranger.add(1) == [("OK", 1)]
    assert stranger.add(2) == [("OK", 2), ("OK", 3)]
    assert stranger.add(6) == []
    assert stranger.add(4) == [("OK", number) for number in range(4, 9)]
    assert total(region) == sum(range(9))
    assert stranger.counts() == {"REQUESTS_RECEIVED": 9, "DROPPED_SEQUENCE": 1}


def test_without_a_free_slot_packets_have_to_come_again(make_model_pair: MakePair) -> None:
    stranger, region = early(make_model_pair, out_of_order_entries=2)
    stranger.add(0)
    assert stranger.add(2) == gap(1, 1)
    assert stranger.add(3) == []
    assert stranger.add(4) == gap(1, 0)
    assert stranger.add(5) == []
    assert stranger.add(5, retx=True) == gap(1, 0)
    assert stranger.add(1) == [("OK", 1), ("OK", 2), ("OK", 3)]
    assert stranger.add(5) == gap(4, 1)
    assert stranger.add(4) == [("OK", 4), ("OK", 5)]
    assert total(region) == 15
    assert stranger.counts() == {"REQUESTS_RECEIVED": 6, "DROPPED_SEQUENCE": 3}


READ = {"opcode": RequestOpcode.READ, "request_length": 8}
WRITE = {"opcode": RequestOpcode.WRITE, "request_length": 8}


@pytest.mark.parametrize(
    ("fields", "number", "retx", "psn"),
    [
        pytest.param(READ, 5, False, 4, id="a READ"),
        pytest.param(READ, 6, False, 4, id="a READ further on"),
        pytest.param(READ, 5, True, 4, id="a READ that was sent again"),
        pytest.param(WRITE, 5, False, 1, id="a WRITE"),
        pytest.param({}, 5, False, 1, id="an atomic"),
    ],
)
def test_a_read_without_a_slot_has_what_is_kept_not_sent_again(
    make_model_pair: MakePair, fields: dict[str, Any], number: int, retx: bool, psn: int
) -> None:
    stranger, region = early(make_model_pair, out_of_order_entries=2)
    stranger.add(0)
    assert stranger.add(2) == gap(1, 1)
    assert stranger.add(3) == []
    assert stranger.add(number, retx=retx, **fields) == gap(psn, 0)
    # What it asked for before, and asks for now, is enough.
    for again in (1, *range(max(psn, 2), number + 1)):
        stranger.add(again, retx=True)
    assert total(region) == sum(range(number + 1))


def test_a_read_before_what_was_asked_for_has_what_comes_behind_it_sent_again(make_model_pair: MakePair) -> None:
    stranger, _ = early(make_model_pair, out_of_order_entries=2)
    stranger.add(0)
    assert stranger.add(3) == gap(1, 2)
    assert stranger.add(4) == []
    assert stranger.add(2, **READ) == gap(2, 0)


def test_without_slots_nothing_is_kept(make_model_pair: MakePair) -> None:
    stranger, _ = early(make_model_pair, out_of_order_entries=0)
    stranger.add(0)
    assert stranger.add(2) == gap(1, 0)
    assert stranger.add(3) == []
    assert stranger.add(2, retx=True) == gap(1, 0)
    assert stranger.add(1) == [("OK", 1)]
    assert stranger.counts() == {"REQUESTS_RECEIVED": 2, "DROPPED_SEQUENCE": 3}


def test_nobody_has_a_slot_for_longer_than_a_timeout_if_it_is_wanted(make_model_pair: MakePair) -> None:
    stranger, region = early(make_model_pair, out_of_order_entries=1)
    other = Early(stranger.pair, mac=0x0200_0000_00BB, ip=0x0A00_00BB)
    assert stranger.add(0) == other.add(0) == [("OK", 0)]
    stranger.pair.target.set("device", retransmit_timeout=2_000)
    assert stranger.add(2) == gap(1, 1)
    assert other.add(2) == gap(1, 0)
    until = stranger.device.cycles + 2_000
    while stranger.device.cycles < until:
        stranger.pair.run(1)
    assert other.add(2, retx=True) == gap(1, 1)
    assert stranger.counts() == {"REQUESTS_RECEIVED": 2, "DROPPED_SEQUENCE": 2}
    # Whose packet was thrown away sends it again.
    assert stranger.add(1) == [("OK", 1)]
    assert stranger.add(2, retx=True) == [("OK", 2)]
    assert other.add(1) == [("OK", 1), ("OK", 2)]
    assert total(region) == 6


def test_a_kept_packet_may_find_no_space_when_its_turn_has_come(make_model_pair: MakePair) -> None:
    pair = make_model_pair()
    pair.remote = pair.target.context(event_size=3)  # 4 entries of 8 are reserved
    stranger = Early(pair)
    region = pair.memory(4096, flags=ALL_RIGHTS & ~KeyFlags.VIRTUAL)
    for number in range(3):
        assert stranger.add(number, flags=EVENT) == [("OK", number)]
    assert stranger.add(4, flags=EVENT) == gap(3, 1)
    assert stranger.add(5, flags=EVENT) == stranger.add(6) == []
    # Space is what there is when its turn has come.
    assert stranger.add(3) == [("OK", 3), ("OK", 4), ("NACK", NackCode.NO_RESOURCE, 5, 0)]
    assert stranger.counts() == {"REQUESTS_RECEIVED": 5, "DROPPED_SEQUENCE": 1}
    assert stranger.add(5, flags=EVENT, retx=True) == [("NACK", NackCode.NO_RESOURCE, 5, 0)]
    assert stranger.add(7) == []
    pair.remote.event()
    pair.remote.release_events()
    assert stranger.add(5, flags=EVENT, retx=True) == [("OK", 5), ("OK", 6), ("OK", 7)]
    assert total(region) == sum(range(8))
    assert stranger.counts() == {"REQUESTS_RECEIVED": 8, "DROPPED_SEQUENCE": 2}


def test_what_is_kept_is_thrown_away_with_its_pdc(make_model_pair: MakePair) -> None:
    stranger, _ = early(make_model_pair, out_of_order_entries=2)
    stranger.add(0)
    assert stranger.add(2) == gap(1, 1)
    assert stranger.add(3) == []
    closed = stranger.say(stranger.close(psn=501, dpdcid=1))
    assert closed == [("NULL", 1)]
    assert stranger.counts() == {"REQUESTS_RECEIVED": 2, "DROPPED_SEQUENCE": 2}
    # A PDC that is opened anew knows nothing of what was kept in it before; it has all slots again.
    stranger.first_psn = 502
    assert stranger.add(0) == [("OK", 0)]
    assert stranger.add(2) == gap(1, 1)
    assert stranger.add(3) == []
    assert stranger.add(1) == [("OK", 1), ("OK", 2), ("OK", 3)]


def test_a_pdc_that_is_not_proven_loses_what_it_keeps_with_its_place(make_model_pair: MakePair) -> None:
    stranger, region = early(make_model_pair, out_of_order_entries=2, target_pdcs=2)
    for spdcid in (10, 11):
        stranger.spdcid = spdcid
        assert stranger.add(0, memory_key=99) == [("BAD_MKEY", 0)]
        assert stranger.add(2) == gap(1, 1)
    stranger.spdcid = 12
    assert stranger.add(0) == [("OK", 0)]
    assert stranger.add(1) == [("OK", 1)]
    assert stranger.add(3) == gap(2, 1)
    assert stranger.add(2) == [("OK", 2), ("OK", 3)]
    assert total(region) == 6
    assert stranger.counts() == {"REQUESTS_RECEIVED": 6, "DROPPED_SEQUENCE": 1}


def test_a_close_command_that_came_early_closes_in_its_turn(make_model_pair: MakePair) -> None:
    stranger, _ = early(make_model_pair)
    stranger.add(0)
    assert stranger.say(stranger.close(psn=502, dpdcid=2)) == gap(1, 1)
    stranger.send(stranger.frame(stranger.header(psn=501, dpdcid=1)))
    answers = [answer.header for answer in stranger.answers()]
    assert [(answer.psn, answer.opcode) for answer in answers] == [
        (501, ResponseOpcode.RESPONSE),
        (502, ResponseOpcode.NONE),
    ]


@pytest.mark.parametrize("first", [500, 0xFFFF_FFFE, 0x7FFF_FFFE])
def test_what_is_too_far_ahead_is_not_kept(make_model_pair: MakePair, first: int) -> None:
    stranger, region = early(make_model_pair, window=8)
    stranger.first_psn = first
    stranger.add(0)
    (nack,) = stranger.add(9)
    assert nack[2:] == (1, 0)
    assert stranger.add(8, clear_psn_offset=-9 & 0xFFFF, retx=True)[0][3] == 0  # its answer could not be kept
    assert stranger.add(8)[0][3] == 7
    for number in range(1, 7):
        assert stranger.add(number) == [("OK", number)]
    assert stranger.add(7) == [("OK", 7), ("OK", 8)]
    assert total(region) == sum(range(9))


def test_no_more_can_be_missing_than_a_nack_can_say(make_model_pair: MakePair) -> None:
    stranger, _ = early(make_model_pair, window=512)
    stranger.add(0)
    assert stranger.add(257, retx=True) == gap(1, 0)
    assert stranger.add(256) == gap(1, 255)
    assert stranger.add(400) == gap(257, 143)
