"""Inputs that once stopped a NIC, each as it was found, and their results now.

docs/security.md says who can do what, and which ways are still open. A test's docstring has the figure of the NIC
that had no answer yet. Other files have the rest: standstills on links that push back in
test_push_back.py, first psns in driver/test_first_psns.py, releases of slots in hw/test_slot_releases.py.
"""

from collections.abc import Callable

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode, EventKind
from amoeba_model.registers import ContextControl, Counter
from amoeba_model.wire.uet import AtomicDatatype, AtomicOpcode, NackCode, RequestOpcode, ReturnCode

from tests.support.lossy_bench import FIRST_PSN, Bench
from tests.support.messages import Mailbox
from tests.support.pairs import PAIRS
from tests.support.raw_driver import Pair
from tests.support.stranger import Stranger

MakePair = Callable[..., Pair]
OK = ReturnCode.OK
KINDS = pytest.mark.parametrize("make_pair", PAIRS[:2], indirect=True)
"""Each kind of device with its like."""


@KINDS
def test_row_1_unread_messages_of_one_sender_do_not_keep_another_from_a_posted_receive(make_pair: MakePair) -> None:
    """Before, the packets were repeated for ever, with 3,605 NACKs and no error."""
    box = Mailbox(make_pair(), event_size=8, receive_size=8)
    for _ in range(box.pair.target.parameters.unexpected):
        assert box.send() == OK
    stranger = Stranger(box.pair)
    box.receive(tag=3)
    box.pair.run(20)  # until it is posted
    answer = stranger.ask(
        bytes(8), opcode=RequestOpcode.TAGGED_SEND, memory_key=3, request_length=8, payload_length=8
    )
    assert answer.header.return_code == OK
    assert box.event()["kind"] == EventKind.RECEIVED
    assert box.pair.target.counter(Counter.NACKS_SENT) == 0


@pytest.mark.parametrize("make_pair", PAIRS, indirect=True)
@pytest.mark.parametrize("behind", [0, 60])
def test_row_2_what_is_held_back_for_one_peer_delays_no_other(make_pair: MakePair, behind: int) -> None:
    """A message without a place, and a WRITE to another peer behind it took up to 4,300 cycles instead of 500.

    ``behind``: so many messages more wait for the same peer.
    """
    pair = make_pair()
    # Places for all that waits.
    pair.local = pair.initiator.context(transmit_size=7, completion_size=7)
    box = Mailbox(pair, event_size=8, receive_size=8)
    pair.initiator.peer(1, pair.remote, initial_psn=0x9000)
    region = pair.memory(4096)

    def write(value: int) -> dict[str, int]:
        return {
            "opcode": DescriptorOpcode.WRITE, "flags": DescriptorFlags.COMPLETION | DescriptorFlags.INLINE,
            "length": 8, "local": value, "remote_address": region.address, "remote_key": Pair.KEY, "peer": 1,
            "context": value,
        }  # fmt: skip

    def cycles(value: int) -> int:
        begin = pair.network.now
        pair.local.post(**write(value))
        assert pair.local.completion()["context"] == value
        return pair.network.now - begin

    for _ in range(pair.target.parameters.unexpected):
        assert box.send() == OK
    cycles(1)  # opens the PDC
    quiet = cycles(2)
    for _ in range(1 + behind):
        pair.local.post(**box.message(context=3))
    for _ in range(20):
        pair.network.step()
    assert pair.target.counter(Counter.NACKS_SENT) > 0
    assert max(cycles(value) for value in range(4, 14)) <= 1.5 * quiet + 200
    assert region.integer(0) == 13


@KINDS
def test_row_5_what_was_recorded_is_not_executed_when_its_pdc_is_another_s(make_pair: MakePair) -> None:
    """Before, the packet was executed: a target remembered nothing of a PDC but while it had a place."""
    stranger = Stranger(make_pair())
    region = stranger.pair.memory()
    add = {
        "opcode": RequestOpcode.FETCHING_ATOMIC, "atomic_opcode": AtomicOpcode.SUM,
        "atomic_datatype": AtomicDatatype.UINT64, "request_length": 8, "buffer_offset": region.address,
    }  # fmt: skip
    one = (1).to_bytes(8, "big")
    recorded = stranger.frame(stranger.header(**add), one)
    assert stranger.ask(one, **add).header.return_code == OK
    stranger.send(stranger.frame(stranger.close()))
    stranger.answers()
    # Its own sender opens another, far away: that takes its place.
    stranger.psn = stranger.first_psn = 0x9000_0000
    assert stranger.ask(one, **add).header.spdcid == 0
    for _ in range(3):
        stranger.send(recorded)
        (answer,) = stranger.answers()
        assert answer.header.nack_code == NackCode.INVALID_SYN
    assert region.integer(0) == 2
    assert stranger.ask(one, **add).header.return_code == OK
    assert region.integer(0) == 3


@KINDS
def test_row_6_a_forged_cumulative_answer_completes_nothing(make_pair: MakePair) -> None:
    """One completed ten WRITEs of which none had been executed, for who knew PDC and psn alone."""
    bench = Bench(make_pair(), timeout=100_000)
    bench.cut_off()
    bench.post(*(bench.write(number) for number in range(10)))
    bench.sent(10)
    job = bench.pair.remote.job_id
    last = FIRST_PSN + 9
    for forged in ({"job_id": job ^ 1}, {"message_id": 8}, {"job_id": 0, "message_id": 0}):
        bench.say(psn=last, cack_psn=last - 1, **forged)
    assert bench.here(Counter.DROPPED_RESPONSE) == 3
    assert bench.pair.local.poll() is None


@KINDS
def test_row_6_forged_data_is_not_delivered(make_pair: MakePair) -> None:
    bench = Bench(make_pair(), timeout=100_000)
    bench.cut_off()
    bench.post(bench.add())
    bench.sent(1)
    liar = Stranger(bench.pair, mac=bench.pair.target.mac, ip=bench.pair.target.ip)
    header = liar.header(
        mac=bench.pair.initiator.mac, ip=bench.pair.initiator.ip, is_request=False, opcode=2, version=0,
        psn=FIRST_PSN, dpdcid=0, return_code=OK, modified_length=8, message_id=0, job_id=1, payload_length=8,
        cack_psn=FIRST_PSN - 1,
    )  # fmt: skip
    bench.pair.initiator.device.deliver(liar.frame(header, b"forged!!"), 0)  # type: ignore[attr-defined]
    bench.pair.run(5)
    assert bench.pair.local.poll() is None
    assert bench.result[:8] == b"\xee" * 8
    assert bench.here(Counter.DROPPED_RESPONSE) == 1


@KINDS
@pytest.mark.parametrize("code", [NackCode.INV_DPDCID, 0xFF], ids=lambda code: f"{int(code):#x}")
def test_row_6_a_nack_that_makes_no_sense_ends_nothing(make_pair: MakePair, code: int) -> None:
    """Any code failed a PDC, in 100 cycles."""
    bench = Bench(make_pair(), timeout=100_000)
    bench.cut_off()
    bench.post(bench.add())
    bench.sent(1)
    bench.say(is_control=True, nack_code=code)
    assert bench.here(Counter.FAILED_PDCS) == 0
    assert bench.here(Counter.DROPPED_RESPONSE) == 1


@KINDS
def test_row_6_a_nack_now_and_then_does_not_keep_a_dead_peer_alive(make_pair: MakePair) -> None:
    """Before, the peer lived for ever: each answer was a sign of life, and the timeouts before it forgotten."""
    timeout = 2000
    bench = Bench(make_pair(), timeout=timeout, limit=5)
    bench.cut_off()
    bench.post(bench.write(1))
    bench.sent(1)
    for _ in range(4):
        bench.pair.run(40 * timeout // 100)  # five timeouts, each twice as long
        if bench.here(Counter.FAILED_PDCS):
            break
        bench.say(is_control=True, nack_code=NackCode.NO_RESOURCE)
    assert bench.statuses(1) == [ReturnCode.LOCAL_PDC_FAILED]


ATOMICS = 300


def own_write(pair: Pair, flood: Callable[[], None]) -> int:
    """Cycles that the target's own WRITE of 8 bytes takes, while the ``flood`` goes on: a part of it every step."""
    local = pair.initiator.buffer(4096)
    pair.initiator.key(0x77, local.address, 4096)
    fields = {
        "opcode": DescriptorOpcode.WRITE, "flags": DescriptorFlags.COMPLETION | DescriptorFlags.INLINE, "length": 8,
        "local": 5, "remote_address": local.address, "remote_key": 0x77,
    }  # fmt: skip
    pair.remote.execute(**fields)  # opens the PDC
    for _ in range(20):
        flood()
        pair.network.step()
    begin = pair.network.now
    pair.remote.post(**fields)
    for _ in range(400):
        flood()
        pair.network.step()
        if pair.remote.poll() is not None:
            return pair.network.now - begin
    raise AssertionError("no completion in 40,000 cycles")


@KINDS
def test_row_8_what_others_ask_of_a_nic_does_not_hold_up_what_it_asks(make_pair: MakePair) -> None:
    """300 tagged atomics that match none of 64 receives, and its own WRITE took 19,746 cycles instead of 996.

    Answers came through the store of requests then: what a target has to do held up what it had done.
    """
    pair = make_pair()
    quiet = own_write(pair, lambda: None)
    pair = make_pair()
    box = Mailbox(pair, event_size=8, receive_size=8)
    pair.target.peer(0, pair.local, initial_psn=0x2000)
    for _ in range(60):
        box.receive(tag=9)
    pair.run(50)
    stranger = Stranger(pair)
    left = ATOMICS

    def flood() -> None:
        nonlocal left
        for _ in range(min(left, 10)):  # one every ten cycles: the target takes 71
            left -= 1
            header = stranger.header(
                opcode=RequestOpcode.TSEND_ATOMIC, memory_key=3, request_length=8, payload_length=8,
                atomic_opcode=AtomicOpcode.SUM, atomic_datatype=AtomicDatatype.UINT64,
            )  # fmt: skip
            stranger.psn += 1
            stranger.device.deliver(stranger.frame(header, bytes(8)), 0)

    assert own_write(pair, flood) <= 1.5 * quiet + 100


@KINDS
def test_row_11_clients_of_one_context_take_no_pdc_that_is_kept_for_another(make_pair: MakePair) -> None:
    """Before, the clients took all PDCs, and a client of another context had none until one of them was idle."""
    pair = make_pair()
    other = pair.target.context(1)
    stranger = Stranger(pair)
    region = pair.memory()
    pdcs = pair.target.parameters.target_pdcs
    opened, refused = [], 0
    for number in range(pdcs + 3):
        header = stranger.header(spdcid=10 + number, buffer_offset=region.address)
        stranger.send(stranger.frame(header))
        (answer,) = stranger.answers()
        if answer.header.is_control:
            assert answer.header.nack_code == NackCode.NO_PDC_AVAIL
            refused += 1
        else:
            assert answer.header.return_code == OK
            opened.append(answer.header.spdcid)
    kept = pair.target.parameters.reserved_pdcs[other.number]
    assert sorted(opened) == [number for number in range(pdcs) if number != kept]
    assert refused == 4
    stranger.spdcid = 9
    answer = stranger.ask(resource_index=other.number, buffer_offset=region.address)
    assert (answer.header.return_code, answer.header.spdcid) == (OK, kept)


@KINDS
def test_row_18_an_answer_to_an_earlier_life_of_a_context_is_not_given_to_a_later_one(make_pair: MakePair) -> None:
    """Generations had four bits: the sixteenth restart took it for its own."""
    pair = make_pair()
    region = pair.memory(4096, fill=0xA5)
    result = pair.initiator.buffer(64, fill=0xEE)
    pair.local.post(
        opcode=DescriptorOpcode.READ, length=8, result=result.address, remote_address=region.address,
        remote_key=Pair.KEY,
    )  # fmt: skip
    while pair.initiator.counter(Counter.REQUESTS_SENT) == 0:
        pair.network.step()
    pair.network.pause(pair.target.device)  # type: ignore[arg-type]
    for _ in range(15):
        pair.initiator.set("contexts", 0, control=0)
        pair.initiator.set("contexts", 0, control=ContextControl.ENABLE)
    anew = pair.initiator.context()
    pair.network.resume(pair.target.device)  # type: ignore[arg-type]
    pair.run(100)
    assert anew.poll() is None
    assert result[:] == b"\xee" * 64
