"""Windows and control packets of an independent UET endpoint: CLEAR, ACK_CC, ACK_REQUEST, and hostile ones."""

import random
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.registers import Counter, PeerFlags

from tests.support import uet_packets as uet
from tests.support.uet_endpoint import Initiator, Target
from tests.system.test_interoperation import CONTENT, JOB, KEY, NICS, PID, STEPS, Bench, bench_of


@pytest.fixture(params=tuple(NICS))
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    yield from bench_of(request.param)


@pytest.fixture
def model_bench() -> Iterator[Bench]:
    yield from bench_of("model")


# The initiator. The smallest NIC's window is too small for the first two.


def write_in_vain(bench: Bench, count: int, **peer: int) -> Target:
    """Send WRITEs to a target that never answers, which is peer 0; the target."""
    target = bench.target()
    if peer:
        bench.nic.set("peers", **peer)
        bench.nic.set("peers", store=0)
    bench.context = bench.nic.context(0, transmit_size=9, completion_size=9, job_id=JOB, pid_on_fep=PID)
    for _ in range(count):
        bench.context.put(opcode=DescriptorOpcode.WRITE, length=8, local=bench.source.address, remote_key=KEY)
    bench.context.ring()
    target.lose = 1 << 20
    for _ in range(STEPS):
        target.serve()
    return target


@pytest.mark.parametrize(("flags", "most"), [(PeerFlags.VALID, 128), (PeerFlags.VALID | PeerFlags.WHOLE_WINDOW, 256)])
def test_a_peer_that_is_no_amoeba_has_at_most_128_packets_to_answer(
    model_bench: Bench, flags: PeerFlags, most: int
) -> None:
    target = write_in_vain(model_bench, 300, flags=flags)
    assert len({uet.request_of(packet).psn for packet in target.packets}) == most


@pytest.mark.parametrize(("mpr", "most"), [(0, 128), (1, 128), (2, 256), (255, 256)])
def test_an_answer_says_how_many_packets_may_be_unanswered(model_bench: Bench, mpr: int, most: int) -> None:
    bench, target = model_bench, model_bench.target()
    target.congestion_state, target.window = True, mpr * uet.MPR_UNIT or uet.WINDOW
    if not mpr:
        target.congestion_state = False
    assert bench.execute(target, DescriptorOpcode.WRITE, length=8, remote_address=0) == 1
    target = write_in_vain(bench, 300)
    assert len({uet.request_of(packet).psn for packet in target.packets}) == most


def fetch_from_a_target_that_keeps_four_answers(bench: Bench, lost: int | None = None) -> Target:
    """Fetch and add 10 times; the target's window is 4 packets, all answers are guaranteed, and a frame is lost."""
    target = bench.target()
    target.window, count = 4, 10
    bench.station.lost = set() if lost is None else {lost}
    operation = {"op": Op.FI_SUM, "datatype": Datatype.FI_UINT64, "length": 8, "local": 1, "remote_address": 0x40}
    flags = DescriptorFlags.COMPLETION | DescriptorFlags.INLINE
    for number in range(count):
        result = bench.result.address + 8 * number
        bench.context.put(opcode=DescriptorOpcode.FETCH_ATOMIC, flags=flags, result=result, **operation)
    bench.context.ring()
    assert [bench.status(target) for _ in range(count)] == [1] * count
    before = int.from_bytes(CONTENT[0x40:0x48], "little")
    assert [bench.result.integer(8 * number) for number in range(count)] == list(range(before, before + count))
    return target


def test_answers_are_cleared_when_the_target_asks_for_it(bench: Bench) -> None:
    target = fetch_from_a_target_that_keeps_four_answers(bench)
    clears = [packet for packet in target.packets if packet.prologue[:2] == (uet.CONTROL, uet.CLEAR_COMMAND)]
    assert clears
    for packet in clears:
        flags, probe, psn, spdcid, dpdcid, payload = struct.unpack(">HHIHHI", packet.data)
        assert (flags & 0x7F, probe, psn, spdcid, dpdcid) == (0, 0, 0, 1, 1)
        assert 0x4000_0003 <= payload < 0x4000_000A


@pytest.mark.parametrize("kind", NICS)
def test_any_frame_may_be_lost_while_answers_are_cleared(kind: str) -> None:
    frames = 1000
    for lost in range(frames):
        with contextmanager(bench_of)(kind) as bench:
            fetch_from_a_target_that_keeps_four_answers(bench, lost)
            if bench.station.frames <= lost:
                return
    pytest.fail(f"there are more than {frames} frames")


# The target


def ask_for_an_ack(bench: Bench, peer: Initiator, psn: int) -> list[uet.Packet]:
    """Send an ACK_REQUEST; what comes back."""
    bench.station.send(bench.address, peer.control(uet.ACK_REQUEST_COMMAND, 100, flags=0, psn=psn))
    for _ in range(Initiator.STEPS):
        bench.station.step()
    return bench.station.arrived()


def test_a_request_for_an_ack_is_answered(bench: Bench) -> None:
    peer = bench.initiator()
    peer.write(KEY, 0, b"four")
    first = peer.fetch_add(KEY, 8, 1)
    assert [packet.prologue[0] for packet in ask_for_an_ack(bench, peer, 0x1234_0000)] == [uet.ACK]
    (packet,) = ask_for_an_ack(bench, peer, 0x1234_0001)
    answer = uet.answer_of(packet)
    assert (answer.psn, answer.code, answer.data) == (0x1234_0001, uet.RC_OK, first.to_bytes(8, "big"))
    assert peer.fetch_add(KEY, 8, 1) == first + 1


def test_the_answer_to_a_request_for_an_ack_covers_no_packet_before_it(bench: Bench) -> None:
    peer = bench.initiator()
    refused = peer.ask(peer.header(uet.WRITE, key=KEY + 1, length=4) + b"four")
    assert refused.code != uet.RC_OK  # as if this answer had been lost
    peer.write(KEY, 0, b"five")
    (packet,) = ask_for_an_ack(bench, peer, 0x1234_0001)
    assert uet.answer_of(packet).code == uet.RC_OK
    (cack,) = struct.unpack(">I", packet.data[4:8])
    assert cack < refused.psn


@pytest.mark.parametrize("ahead", [0, 1, 31, 1 << 20])
def test_a_request_for_an_ack_of_a_packet_that_has_not_come_gets_a_nack(bench: Bench, ahead: int) -> None:
    peer = bench.initiator()
    peer.write(KEY, 0, b"four")
    (packet,) = ask_for_an_ack(bench, peer, 0x1234_0001 + ahead)
    assert (uet.answer_of(packet).nack, uet.answer_of(packet).psn) == (0x12, 0x1234_0001 + ahead)
    peer.write(KEY, 0, b"five")
    assert bench.region[:4] == b"five"


def test_a_request_for_an_ack_opens_no_pdc(bench: Bench) -> None:
    peer = bench.initiator()
    (packet,) = ask_for_an_ack(bench, peer, 0x1234_0000)
    assert uet.answer_of(packet).nack == 0x0E
    peer.write(KEY, 0, b"four")
    assert [uet.answer_of(packet).nack for packet in ask_for_an_ack(bench, bench.initiator(), 0x1234_0000)] == [0x0E]


# Hostile frames


def settle(bench: Bench) -> list[uet.Packet]:
    """Let the NIC do what it has to; what comes back."""
    for _ in range(Initiator.STEPS):
        bench.station.step()
    return bench.station.arrived()


def test_a_clear_of_anybody_changes_nothing(bench: Bench) -> None:
    peer, rng = bench.initiator(), random.Random(6)
    values = [peer.fetch_add(KEY, 8, 1)]
    for _ in range(40):
        fields = struct.pack(
            ">HIHHI", rng.getrandbits(16), rng.getrandbits(32), rng.choice((7, 8, 0)), rng.choice((0, 1, 999)),
            rng.choice((0x1234_0000, 0x1233_0000, 0x1234_1000, rng.getrandbits(32))),
        )  # fmt: skip
        bench.station.send(bench.address, uet.prologue(uet.CONTROL, uet.CLEAR_COMMAND, rng.getrandbits(7)) + fields)
        assert settle(bench) == []
    values.append(peer.fetch_add(KEY, 8, 1))
    assert values[1] == values[0] + 1
    (packet,) = ask_for_an_ack(bench, peer, 0x1234_0000)
    assert uet.answer_of(packet).data == values[0].to_bytes(8, "big")


def test_a_control_packet_leads_to_one_answer_at_most_and_closes_nothing(bench: Bench) -> None:
    peer, rng = bench.initiator(), random.Random(7)
    peer.write(KEY, 0, b"four")
    for _ in range(150):
        kind = rng.choice([kind for kind in range(16) if kind != uet.CLOSE_COMMAND])
        psn = rng.choice((0x1234_0000, 0x1234_0001, 0x1234_0002, rng.getrandbits(32)))
        fields = struct.pack(
            ">HIHHI", rng.getrandbits(16), psn, rng.choice((7, 7, 8, 0)), rng.choice((1, 1, 0, 999)),
            rng.getrandbits(32),
        )  # fmt: skip
        bench.station.send(bench.address, uet.prologue(uet.CONTROL, kind, rng.getrandbits(7)) + fields)
        answers = settle(bench)
        assert len(answers) <= (kind == uet.ACK_REQUEST_COMMAND)
        assert all(len(answer.data) <= 24 for answer in answers)  # an ACK without data, or a NACK
    peer.write(KEY, 0, b"five")
    assert bench.region[:4] == b"five"


def test_answers_to_nothing_are_not_cleared(bench: Bench) -> None:
    target = bench.target()
    assert bench.execute(target, DescriptorOpcode.WRITE, length=8, remote_address=0) == 1
    before, rng = bench.nic.counter(Counter.DROPPED_RESPONSE), random.Random(8)
    for _ in range(60):
        kind = rng.choice((uet.ACK, uet.ACK_CC))
        psn = rng.choice((0x4000_0000, 0x4000_0001, rng.getrandbits(32)))
        answer = uet.prologue(kind, uet.RESPONSE, uet.REQUEST_CLEAR | rng.getrandbits(7))
        answer += struct.pack(">hIHH", 0, psn, rng.choice((1, 9)), rng.choice((1, 2, 900)))
        answer += rng.randbytes(20) if kind == uet.ACK_CC else b""
        answer += struct.pack(">BBHII", uet.DEFAULT, uet.RC_OK, rng.getrandbits(2), 0, 8)
        bench.station.send(bench.address, answer)
    assert settle(bench) == []
    assert bench.nic.counter(Counter.DROPPED_RESPONSE) == before + 60
    assert bench.execute(target, DescriptorOpcode.WRITE, length=8, remote_address=0) == 1


@pytest.mark.parametrize("following", [uet.NO_HEADER, uet.RESPONSE, uet.RESPONSE_DATA])
@pytest.mark.parametrize("cut", [1, 12, 20])
def test_an_ack_with_congestion_state_that_is_cut_is_malformed(bench: Bench, following: int, cut: int) -> None:
    size = {uet.NO_HEADER: 32, uet.RESPONSE: 44, uet.RESPONSE_DATA: 52}[following]
    packet = (uet.prologue(uet.ACK_CC, following, 0) + struct.pack(">hIHH", 0, 5, 1, 1) + bytes(40))[:size]
    bench.station.send(bench.address, packet[: size - cut])
    settle(bench)
    assert bench.nic.counter(Counter.DROPPED_MALFORMED) == 1
