"""An initiator whose packets are refused, and could be later: how long it waits, and for whom."""

import random
from collections.abc import Callable

import pytest
from amoeba_model.descriptors import DescriptorOpcode
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import PDC_REFUSALS, Counter
from amoeba_model.wire.uet import NackCode, ReturnCode

from tests.support.lossy_bench import FIRST_PSN, Bench
from tests.support.messages import Mailbox
from tests.support.raw_driver import Pair
from tests.support.saboteur import Saboteur, arrives

MakePair = Callable[..., Pair]
OK, FAILED, FULL = ReturnCode.OK, ReturnCode.LOCAL_PDC_FAILED, ReturnCode.LOCAL_PEER_PDC_TABLE_FULL
TIMEOUT = 2000


def crowded(make_model_pair: MakePair) -> Bench:
    """A target whose only PDC is that of the first peer, which is never idle there; so the second has none."""
    bench = Bench(make_model_pair(NicParameters(target_pdcs=1)), timeout=TIMEOUT, limit=0)
    bench.pair.target.set("device", retransmit_timeout=1 << 30)
    bench.pair.initiator.peer(1, bench.pair.remote)
    assert bench.pair.local.execute(**bench.add())["status"] == OK
    return bench


def test_who_finds_no_pdc_for_long_ends_with_a_status_that_says_so(make_model_pair: MakePair) -> None:
    bench = crowded(make_model_pair)
    local = bench.pair.local
    begun = bench.pair.initiator.device.cycles
    local.post(**bench.add(peer=1))
    assert local.completion(20_000)["status"] == FULL
    assert PDC_REFUSALS * TIMEOUT // 4 <= bench.pair.initiator.device.cycles - begun <= 2 * PDC_REFUSALS * TIMEOUT
    assert (bench.here(Counter.TIMEOUTS), bench.here(Counter.FAILED_PDCS)) == (0, 1)
    assert bench.here(Counter.NACKS_RECEIVED) == PDC_REFUSALS + 1
    assert bench.region.integer(0) == 1


def test_operations_of_a_refused_peer_alone_fail_until_it_is_opened_anew(make_model_pair: MakePair) -> None:
    bench = crowded(make_model_pair)
    local = bench.pair.local
    for number in range(3):
        local.put(**bench.add(peer=1, context=number))
    local.ring()
    assert [local.completion(20_000)["status"] for _ in range(3)] == [FULL] * 3
    assert local.execute(**bench.add(peer=1))["status"] == FULL
    assert local.execute(**bench.add())["status"] == OK
    assert local.execute(opcode=DescriptorOpcode.CLOSE, peer=0)["status"] == OK
    bench.pair.initiator.peer(1, bench.pair.remote, initial_psn=0x9000_0000)
    assert local.execute(**bench.add(peer=1))["status"] == OK
    assert bench.region.integer(0) == 3


def test_an_answer_begins_the_count_anew(make_model_pair: MakePair) -> None:
    bench = Bench(make_model_pair(), timeout=TIMEOUT, limit=0)
    bench.cut_off()
    bench.post(bench.write(0), bench.write(1))
    bench.sent(2)
    for _ in range(PDC_REFUSALS):
        bench.say(is_control=True, nack_code=NackCode.NO_PDC_AVAIL)
    bench.say(cack_psn=FIRST_PSN)
    assert bench.statuses(1) == [OK]
    for _ in range(PDC_REFUSALS):
        bench.say(is_control=True, nack_code=NackCode.NO_PDC_AVAIL, psn=FIRST_PSN + 1)
    # So does a refusal for another reason: there is a PDC then.
    bench.say(is_control=True, nack_code=NackCode.NO_RESOURCE, psn=FIRST_PSN + 1)
    for _ in range(PDC_REFUSALS):
        bench.say(is_control=True, nack_code=NackCode.NO_PDC_AVAIL, psn=FIRST_PSN + 1)
    assert bench.here(Counter.FAILED_PDCS) == 0
    bench.say(is_control=True, nack_code=NackCode.NO_PDC_AVAIL, psn=FIRST_PSN + 1)
    assert bench.pair.local.completion()["status"] == FULL


@pytest.mark.parametrize("code", [NackCode.NO_RESOURCE, NackCode.NO_PDC_AVAIL])
def test_a_nack_now_and_then_does_not_keep_a_dead_peer_alive(make_model_pair: MakePair, code: NackCode) -> None:
    """Before, the peer lived for ever: each answer was a sign of life."""
    bench = Bench(make_model_pair(), timeout=TIMEOUT, limit=8)
    bench.cut_off()
    bench.post(bench.write(1))
    bench.sent(1)
    for _ in range(8):
        bench.pair.run(40 * TIMEOUT // 100)  # five timeouts, each twice as long
        if bench.here(Counter.FAILED_PDCS):
            break
        bench.say(is_control=True, nack_code=code)
    assert bench.statuses(1) == [FAILED]


@pytest.mark.parametrize("loss", [0.0, 0.05, 0.1])
def test_a_receiver_that_is_not_ready_is_waited_for_over_a_bad_link(make_model_pair: MakePair, loss: float) -> None:
    """Messages without a slot, 1,000 times refused: resource management has the sender wait for its receiver."""
    box = Mailbox(make_model_pair(), event_size=8, receive_size=8)
    for _ in range(box.pair.target.parameters.unexpected):
        assert box.send() == OK
    initiator = box.pair.initiator
    initiator.set("device", retransmit_timeout=TIMEOUT)
    rng = random.Random(7)
    for nic in (initiator, box.pair.target):
        saboteur = Saboteur(nic.device)  # type: ignore[arg-type]
        saboteur.fate = lambda frame: [] if rng.random() < loss else arrives(frame)
    box.pair.local.post(**box.message(tag=5))
    before = initiator.counter(Counter.NACKS_RECEIVED)
    while initiator.counter(Counter.NACKS_RECEIVED) < before + 1000:
        box.pair.run(20)
        assert initiator.counter(Counter.FAILED_PDCS) == 0, f"seed 7, loss {loss}"
    assert (initiator.counter(Counter.TIMEOUTS) > 0) == (loss > 0)
    box.receive(tag=5)
    assert box.pair.local.completion(20_000)["status"] == OK
