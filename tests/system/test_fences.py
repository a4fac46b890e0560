"""Fences: what begins, or completes, only when what was sent before has been answered; by peer and by context."""

import random

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.registers import Counter
from amoeba_model.wire.uet import ReturnCode

from tests.support.lossy_bench import Bench, request
from tests.support.raw_driver import Pair, RawContext
from tests.support.saboteur import losing

OK, FAILED = ReturnCode.OK, ReturnCode.LOCAL_PDC_FAILED
COMPLETION, FENCE, FENCE_ALL = DescriptorFlags.COMPLETION, DescriptorFlags.FENCE, DescriptorFlags.FENCE_ALL
SILENT_INLINE = DescriptorFlags.INLINE
INLINE = COMPLETION | DescriptorFlags.INLINE
NOWHERE = 0xFFFF
"""No entry of any peer table."""


def nop(flags: int, peer: int = 0, **fields: int) -> dict[str, int]:
    return {"opcode": DescriptorOpcode.NOP, "flags": COMPLETION | flags, "peer": peer, **fields}


@pytest.fixture
def bench(device_pair: Pair) -> Bench:
    """With a second entry, 1, of the same context for the same peer."""
    bench = Bench(device_pair)
    device_pair.initiator.peer(1, device_pair.remote, initial_psn=0x9000)
    device_pair.initiator.settle()
    return bench


def contexts(local: RawContext, count: int) -> list[int]:
    """``context`` of the next completions, which are all OK."""
    entries = [local.completion(20_000) for _ in range(count)]
    assert {entry["status"] for entry in entries} == {OK}
    return [entry["context"] for entry in entries]


def nothing_more(bench: Bench, local: RawContext | None = None) -> bool:
    bench.pair.run(8)
    return (local or bench.pair.local).poll() is None


def test_a_fenced_nop_completes_behind_everything_sent_to_its_peer(bench: Bench) -> None:
    bench.post(bench.write(1), bench.write(2), nop(FENCE), nop(0))
    assert contexts(bench.pair.local, 4) == [3, 0, 1, 2]  # the plain one waits for nothing


def test_what_is_read_lies_in_memory_when_a_fenced_nop_completes(bench: Bench) -> None:
    bench.region[0] = bytes(range(64)) * 64
    silent = {"opcode": DescriptorOpcode.READ, "flags": 0, "length": 4096, "result": bench.result.address,
              "remote_address": bench.region.address, "remote_key": Pair.KEY}  # fmt: skip
    for fence in (FENCE, FENCE_ALL):
        bench.result[0] = bytes(4096)
        bench.post(silent, nop(fence))
        assert contexts(bench.pair.local, 1) == [1]
        assert bench.result[:] == bench.region[:]


def test_a_fenced_nop_waits_for_its_own_peer_alone(bench: Bench) -> None:
    bench.requests.fate = losing(request(0), count=1)
    bench.post(bench.write(1), bench.write(2, peer=1), nop(FENCE, peer=1))
    assert contexts(bench.pair.local, 2) == [1, 2]
    assert contexts(bench.pair.local, 1) == [0]
    assert bench.here(Counter.TIMEOUTS) == 1


def test_fence_all_waits_for_every_peer_of_the_context(bench: Bench) -> None:
    bench.requests.fate = losing(request(0), count=1)
    bench.post(bench.write(1), bench.write(2, peer=1), nop(FENCE_ALL, peer=1))
    assert contexts(bench.pair.local, 3) == [1, 0, 2]
    assert bench.here(Counter.TIMEOUTS) == 1


def test_a_request_with_fence_all_begins_when_all_peers_have_answered(bench: Bench) -> None:
    bench.requests.fate = losing(request(0), count=2)
    bench.post(bench.write(1, place=8), bench.write(2, place=8, peer=1, flags=INLINE | FENCE_ALL))
    assert contexts(bench.pair.local, 2) == [0, 1]
    assert bench.region.integer(8) == 2
    first = [header.psn for header in bench.frames() if header.is_request]
    assert first == [0x1000, 0x9000]


def test_only_the_first_packet_of_a_request_waits(bench: Bench) -> None:
    size = 3 * 4096
    source, target = bench.pair.initiator.buffer(size, fill=7), bench.pair.target.buffer(size)
    bench.pair.target.key(5, target.address, size)
    long = {"opcode": DescriptorOpcode.WRITE, "flags": COMPLETION | FENCE_ALL, "length": size,
            "local": source.address, "remote_address": target.address, "remote_key": 5}  # fmt: skip
    bench.post(bench.write(1, peer=1), long)
    bench.answers.fate = lambda frame: [(6, frame)]
    assert contexts(bench.pair.local, 2) == [0, 1]
    assert target[:] == source[:]
    requests = [header.psn for header in bench.frames() if header.is_request]
    assert requests == [0x9000, 0x1000, 0x1001, 0x1002]


def test_the_packets_of_other_contexts_are_not_waited_for(bench: Bench) -> None:
    pair = bench.pair
    other = pair.initiator.context(1)
    pair.initiator.peer(2, pair.remote, context=1, initial_psn=0x5000)
    pair.initiator.settle()
    bench.requests.fate = losing(lambda header: header.psn == 0x5000)
    other.post(**bench.write(5, place=16, peer=2))
    bench.post(bench.write(1), nop(FENCE_ALL))
    assert contexts(pair.local, 2) == [0, 1]
    assert other.poll() is None
    assert contexts(other, 1) == [0]


def test_a_fence_holds_up_no_other_context(bench: Bench) -> None:
    pair = bench.pair
    other = pair.initiator.context(1)
    pair.initiator.peer(2, pair.remote, context=1, initial_psn=0x5000)
    pair.initiator.settle()
    bench.requests.fate = losing(request(0))
    bench.post(bench.write(1), nop(FENCE_ALL), bench.write(2))
    pair.run(2)
    other.post(**bench.write(5, place=16, peer=2))
    assert contexts(other, 1) == [0]
    assert pair.local.poll() is None
    assert contexts(pair.local, 3) == [0, 1, 2]


def test_a_fenced_nop_needs_a_peer_of_its_context_and_fence_all_none(bench: Bench) -> None:
    pair = bench.pair
    pair.initiator.context(1)
    pair.initiator.peer(2, pair.remote, context=1, initial_psn=0x5000)
    pair.initiator.settle()
    bad = ReturnCode.LOCAL_BAD_PEER
    for peer, status in ((0, OK), (2, bad), (3, bad), (NOWHERE, bad)):
        for flags in (FENCE, FENCE | FENCE_ALL):
            assert pair.local.execute(**nop(flags, peer))["status"] == status, (peer, flags)
        for flags in (0, FENCE_ALL):
            assert pair.local.execute(**nop(flags, peer))["status"] == OK


def test_a_fenced_nop_is_completed_like_others(bench: Bench) -> None:
    """Silently unless it asks for a completion, advancing its counter, with its own fields."""
    pair = bench.pair
    pair.initiator.counter_memory()
    pair.initiator.settle()
    bench.post(nop(FENCE_ALL, counter=3, length=77), {**nop(FENCE, counter=3), "flags": FENCE}, nop(FENCE))
    first, second = pair.local.completion(), pair.local.completion()
    assert (first["context"], first["length"], first["opcode"]) == (0, 77, DescriptorOpcode.NOP)
    assert (second["context"], second["descriptor"]) == (2, 2)
    assert pair.initiator.event_counter(3) == (2, 0)


def test_what_a_failed_peer_leaves_unanswered_ends_a_fence(bench: Bench) -> None:
    bench.pair.initiator.set("device", retransmit_limit=0)
    bench.cut_off()
    bench.post(bench.write(1), bench.write(2, peer=1), bench.write(3), nop(FENCE_ALL), bench.write(4, peer=1))
    entries = [bench.pair.local.completion() for _ in range(5)]
    assert [entry["context"] for entry in entries][3:] == [3, 4]
    assert sorted((entry["context"], entry["status"]) for entry in entries) == [
        (0, FAILED), (1, FAILED), (2, FAILED), (3, OK), (4, FAILED),
    ]  # fmt: skip


def test_a_fence_waits_for_the_answer_to_a_close(bench: Bench) -> None:
    close = {"opcode": DescriptorOpcode.CLOSE, "flags": COMPLETION, "peer": 1}
    bench.post(bench.write(1, peer=1), close, nop(FENCE_ALL), nop(FENCE, peer=1), bench.write(2, peer=1))
    assert contexts(bench.pair.local, 5) == [0, 1, 2, 3, 4]


def test_a_fence_within_a_chain_lets_its_piece_wait(bench: Bench) -> None:
    chained = SILENT_INLINE | DescriptorFlags.CHAINED
    bench.requests.fate = losing(lambda header: header.psn == 0x9000)
    bench.post(bench.write(9, peer=1), bench.write(1, flags=chained), bench.write(2, flags=INLINE | FENCE_ALL))
    assert contexts(bench.pair.local, 2) == [0, 2]
    requests = [header.psn for header in bench.frames() if header.is_request]
    assert requests == [0x1000, 0x9000, 0x1001]


def test_an_entry_that_is_stored_anew_is_waited_for_no_more(bench: Bench) -> None:
    pair = bench.pair
    bench.cut_off()
    bench.post(bench.write(1, peer=1, flags=SILENT_INLINE), nop(FENCE_ALL), nop(FENCE, peer=1))
    bench.sent(1)
    assert nothing_more(bench)
    pair.initiator.peer(1, pair.remote, initial_psn=0x19000)
    assert contexts(pair.local, 2) == [1, 2]


def test_a_fence_of_a_context_that_is_disabled_vanishes_and_what_it_sent_is_waited_for(bench: Bench) -> None:
    pair = bench.pair
    bench.requests.fate = losing(request(0), count=1)
    bench.post(bench.write(1), nop(FENCE_ALL), nop(FENCE), bench.write(2))
    bench.sent(1)
    again = pair.initiator.context(0)
    again.post(**nop(FENCE_ALL, context=77))
    assert nothing_more(bench, again)
    assert contexts(again, 1) == [77]
    assert (bench.region.integer(8), bench.here(Counter.TIMEOUTS)) == (1, 1)
    assert pair.local.poll() is None


@pytest.mark.parametrize("seed", range(4))
def test_random_programs_complete_each_fence_behind_what_it_waits_for(device_pair: Pair, seed: int) -> None:
    generator = random.Random(seed)
    bench = Bench(device_pair, limit=20)
    pair = bench.pair
    for peer in range(1, 4):
        pair.initiator.peer(peer, pair.remote, initial_psn=0x9000 * peer)
    pair.initiator.settle()
    chance = generator.choice((0, 0.05, 0.2))
    for side in (bench.requests, bench.answers):
        side.fate = lambda frame: [] if generator.random() < chance else [(generator.randrange(4), frame)]
    program: list[dict[str, int]] = []
    for _ in range(60):
        peer, flags = generator.randrange(4), COMPLETION | generator.choice((0, 0, 0, FENCE, FENCE_ALL))
        kind = generator.choice(("write", "write", "nop", "add", "ping"))
        if kind == "nop":
            program.append(nop(flags, peer))
        elif kind == "ping":
            program.append({"opcode": DescriptorOpcode.PING, "flags": flags, "peer": peer})
        else:
            fields = bench.write(1) if kind == "write" else bench.add(result=bench.result.address + 512 + 8 * peer)
            program.append({**fields, "flags": flags | DescriptorFlags.INLINE, "peer": peer})
    ended: list[int] = []
    for start in range(0, len(program), 15):
        for number in range(start, start + 15):
            pair.local.put(**{**program[number], "context": number})
        pair.local.ring()
        ended += contexts(pair.local, 15)
    place = {number: index for index, number in enumerate(ended)}
    for number, fields in enumerate(program):
        for before in range(number):
            sent = program[before]["opcode"] != DescriptorOpcode.NOP
            fenced = fields["flags"] & FENCE_ALL or (
                fields["flags"] & FENCE and fields["peer"] == program[before]["peer"]
            )
            if sent and fenced:
                assert place[before] < place[number], f"seed {seed}: {number} completed before {before}"
