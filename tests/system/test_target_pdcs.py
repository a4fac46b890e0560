"""The registers of the target PDCs, on every device: who is there, and who is not to be any more."""

from collections.abc import Callable

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.nic.first_psns import first_psn
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import Counter, TargetPdcState
from amoeba_model.wire.uet import NackCode, ReturnCode

from tests.support.lossy_bench import FIRST_PSN, Bench
from tests.support.pairs import PAIRS
from tests.support.raw_driver import Pair, RawNic
from tests.support.saboteur import arrives
from tests.support.stranger import Stranger

MakePair = Callable[..., Pair]
OK, FAILED = ReturnCode.OK, ReturnCode.LOCAL_PDC_FAILED
FREE, OPEN, CLOSED, EXPELLED = TargetPdcState
NAMES = ("state", "ip", "spdcid", "job_id", "context", "expected")


def look(nic: RawNic, number: int) -> dict[str, int]:
    """A target PDC, as its registers show it."""
    nic.set("target_pdcs", select=number)
    return {name: nic.get("target_pdcs", name) for name in NAMES}


def close(nic: RawNic, number: int) -> None:
    nic.set("target_pdcs", close=number)
    for _ in range(3):  # reads, which come later than the write
        nic.settle()


@pytest.mark.parametrize("make_pair", PAIRS[:2], indirect=True)
def test_what_is_there_is_shown_as_it_was_when_it_was_selected(make_pair: MakePair) -> None:
    bench = Bench(make_pair())
    target, nothing = bench.pair.target, dict.fromkeys(NAMES, 0)
    last = target.parameters.target_pdcs
    assert [look(target, number) for number in (0, 1, last - 1, last, 0xFFFF)] == [nothing] * 5
    bench.post(bench.add(), bench.add())
    assert bench.statuses(2) == [OK, OK]
    remote = bench.pair.remote
    shown = {
        "state": OPEN, "ip": bench.pair.initiator.ip, "spdcid": 0, "job_id": remote.job_id,
        "context": remote.number, "expected": FIRST_PSN + 2,
    }  # fmt: skip
    assert look(target, 0) == shown
    came = target.get("target_pdcs", "came_low")
    assert 0 < came < target.get("device", "cycles_low")
    bench.post(bench.add())
    assert bench.statuses(1) == [OK]
    assert {name: target.get("target_pdcs", name) for name in NAMES} == shown  # until it is selected again
    assert look(target, 0) == shown | {"expected": FIRST_PSN + 3}
    assert target.get("target_pdcs", "came_low") > came
    assert look(target, 1) == nothing
    assert target.get("target_pdcs", "came_low") == 0


@pytest.mark.parametrize("make_pair", PAIRS, indirect=True)
def test_who_is_expelled_is_told_so_and_can_come_again(make_pair: MakePair) -> None:
    bench = Bench(make_pair())
    target, other, here = bench.pair.target, Stranger(bench.pair), {"buffer_offset": bench.region.address}
    bench.post(bench.add())
    assert bench.statuses(1) == [OK]
    assert other.ask(**here).header.spdcid == 1
    close(target, 0)
    assert look(target, 0)["state"] == EXPELLED
    bench.post(bench.add(), bench.add())
    assert bench.statuses(2) == [FAILED, FAILED]
    assert bench.region.integer(0) == 1
    # Nobody else notices.
    assert other.ask(**here).header.return_code == OK
    bench.pair.initiator.peer(0, bench.pair.remote, initial_psn=0x9000_0000)
    bench.post(bench.add())
    assert bench.statuses(1) == [OK]
    assert bench.region.integer(0) == 2
    assert [look(target, number)["state"] for number in range(4)] == [EXPELLED, OPEN, OPEN, FREE]
    assert bench.here(Counter.FAILED_PDCS) == 1


@pytest.mark.parametrize("expelled", [False, True], ids=["open", "expelled"])
@pytest.mark.parametrize("make_pair", PAIRS, indirect=True)
def test_row_5_a_forged_syn_does_not_hide_that_a_close_was_executed(make_pair: MakePair, expelled: bool) -> None:
    """Before, the forged packet took the place of the closed PDC, and a CLOSE whose answer was lost got none.

    The target took its repetitions for packets of the forged PDC, until it failed with all that was queued behind it.
    """
    bench = Bench(make_pair(), timeout=5000, limit=8)
    target, initiator = bench.pair.target, bench.pair.initiator
    first = 0x9000_0000
    forger = Stranger(bench.pair, initiator.mac, initiator.ip, spdcid=0, psn=first, first_psn=first)
    bench.post(bench.add())
    assert bench.statuses(1) == [OK]
    # The first answer is lost, and the forged SYN comes before the repetition.
    bench.answers.fate = lambda frame: []
    bench.post({"opcode": DescriptorOpcode.CLOSE, "flags": DescriptorFlags.COMPLETION}, bench.add())
    bench.sent(2)
    assert look(target, 0)["state"] == CLOSED
    forger.send(forger.frame(forger.header(buffer_offset=bench.region.address)))
    assert look(target, 0) | {"job_id": 0, "context": 0} == {
        "state": OPEN, "ip": initiator.ip, "spdcid": 0, "job_id": 0, "context": 0, "expected": first + 1,
    }  # fmt: skip
    if expelled:
        close(target, 0)
    bench.answers.fate = arrives
    assert bench.statuses(2) == [OK, OK]
    assert bench.region.integer(0) == 2
    assert bench.here(Counter.FAILED_PDCS) == 0


def closed_and_forged(pair: Pair, psn: int) -> Bench:
    """A bench whose PDC was closed, and opened in its initiator's name with that psn; it then posts an addition."""
    bench = Bench(pair, timeout=500, limit=3)
    initiator = bench.pair.initiator
    bench.post(bench.add(), {"opcode": DescriptorOpcode.CLOSE, "flags": DescriptorFlags.COMPLETION})
    assert bench.statuses(2) == [OK, OK]
    forger = Stranger(bench.pair, initiator.mac, initiator.ip, spdcid=0, psn=psn, first_psn=psn)
    # Its key is wrong, so that no request of it is executed; the target then expects the next psn.
    forger.send(forger.frame(forger.header(memory_key=1)))
    bench.post(bench.add())
    return bench


@pytest.mark.parametrize("make_pair", PAIRS[:2], indirect=True)
@pytest.mark.parametrize("above", [1, 60_000])
def test_b11_where_a_connection_ended_does_not_say_where_the_next_one_begins(make_pair: MakePair, above: int) -> None:
    bench = closed_and_forged(make_pair(), FIRST_PSN + 2 + above)
    assert bench.statuses(1) == [OK]
    assert bench.region.integer(0) == 2


@pytest.mark.parametrize("make_pair", PAIRS[:2], indirect=True)
@pytest.mark.parametrize("above", [1, 60_000, 65_535, 65_536, 70_000])
def test_b11_a_forged_syn_above_the_next_psn_costs_one_connection_at_most(make_pair: MakePair, above: int) -> None:
    """The target takes the SYN for an earlier one, without an answer: 15 timeouts here, 159 by default.

    From 2^16 on the forged SYN has no effect. The forger knows the key of the first psns.
    """
    psn = (first_psn((0, 0, 0), 0, FIRST_PSN + 2) + above) & 0xFFFF_FFFF
    bench = closed_and_forged(make_pair(), psn)
    initiator = bench.pair.initiator
    hit = above < 1 << 16
    assert bench.statuses(1) == [FAILED if hit else OK]
    assert bench.region.integer(0) == 1 + (not hit)
    if hit:
        initiator.peer(0, bench.pair.remote, initial_psn=(psn + (1 << 31)) & 0xFFFF_FFFF)
        bench.post(bench.add())
        assert bench.statuses(1) == [OK]
        assert bench.region.integer(0) == 2


@pytest.mark.parametrize("make_pair", PAIRS[:2], indirect=True)
def test_closing_what_is_free_or_closed_or_no_pdc_changes_nothing(make_pair: MakePair) -> None:
    stranger = Stranger(make_pair())
    target = stranger.pair.target
    for number in (0, 1, 0xFFFF):
        close(target, number)
    assert stranger.ask().header.spdcid == 0
    stranger.send(stranger.frame(stranger.close()))
    close(target, 0)
    assert look(target, 0)["state"] == CLOSED
    stranger.answers()
    late = stranger.header(psn=stranger.psn + 1, syn=False, dpdcid=0)
    stranger.send(stranger.frame(late))
    (nack,) = stranger.answers()
    assert nack.header.nack_code == NackCode.INV_DPDCID


def test_nothing_is_executed_twice_though_no_answer_came(make_model_pair: MakePair) -> None:
    """Answers are lost, the PDC is closed, and all other places are asked for: what is unanswered ends with an error,
    and is not sent to a PDC opened anew."""
    bench = Bench(make_model_pair(NicParameters(target_pdcs=2)), timeout=2000, limit=3)
    stranger = Stranger(bench.pair)
    bench.post(bench.add())
    assert bench.statuses(1) == [OK]
    bench.answers.fate = lambda frame: []
    bench.post(*(bench.add(result=bench.result.address + 8 * n) for n in range(3)))
    bench.sent(4)
    assert bench.region.integer(0) == 4
    close(bench.pair.target, 0)
    for spdcid in range(10, 20):  # none of them is given its place
        header = stranger.header(spdcid=spdcid, psn=900, dpdcid=0, buffer_offset=bench.region.address)
        stranger.send(stranger.frame(header))
    assert look(bench.pair.target, 0) | {"expected": 0} == {
        "state": EXPELLED, "ip": bench.pair.initiator.ip, "spdcid": 0, "job_id": bench.pair.remote.job_id,
        "context": 0, "expected": 0,
    }  # fmt: skip
    bench.answers.fate = arrives
    bench.pair.local.put(**bench.add(context=3))
    bench.pair.local.ring()
    statuses = bench.statuses(4)
    assert statuses[3] == FAILED
    assert bench.region.integer(0) == 4


def test_what_waits_for_its_turn_goes_with_its_pdc(make_model_pair: MakePair) -> None:
    stranger = Stranger(make_model_pair())
    stranger.pair.memory()
    stranger.ask()
    stranger.send(stranger.frame(stranger.header(psn=503, dpdcid=3)))
    assert stranger.pair.target.counter(Counter.DROPPED_SEQUENCE) == 0
    close(stranger.pair.target, 0)
    assert stranger.pair.target.counter(Counter.DROPPED_SEQUENCE) == 1
    stranger.answers()
    # What was answered is answered again; a CLOSE learns that there is nothing to close.
    for header, code in (
        (stranger.header(psn=500, dpdcid=0), None),
        (stranger.header(psn=501, dpdcid=1), NackCode.CLOSING),
        (stranger.header(psn=502, syn=False, dpdcid=0), NackCode.CLOSING),
        (stranger.close(psn=501, syn=False, dpdcid=0), NackCode.CLOSING),
    ):
        stranger.send(stranger.frame(header))
        (answer,) = stranger.answers()
        assert (answer.header.nack_code if answer.header.is_control else None) == code


def test_a_closed_pdc_s_place_is_given_away_when_nothing_has_come_for_long(make_model_pair: MakePair) -> None:
    stranger = Stranger(make_model_pair(NicParameters(target_pdcs=2)))
    target = stranger.pair.target
    here = {"buffer_offset": stranger.pair.memory().address}
    target.set("device", retransmit_timeout=1000, retransmit_limit=0)

    def first(spdcid: int) -> tuple[bool, int]:
        stranger.send(stranger.frame(stranger.header(spdcid=spdcid, psn=900, dpdcid=0, **here)))
        (answer,) = stranger.answers()
        return answer.header.is_control, answer.header.spdcid

    assert [first(spdcid) for spdcid in (10, 11)] == [(False, 0), (False, 1)]
    close(target, 0)
    for spdcid in (10, 11):  # their PDCs
        assert first(spdcid)[1] == spdcid - 10
    assert first(12)[0]
    until = stranger.device.cycles + 33 * 1000
    while stranger.device.cycles < until:
        assert first(11) == (False, 1)
    assert first(12) == (False, 0)
    assert look(target, 0)["state"] == OPEN
