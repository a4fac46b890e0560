"""The register that gives a peer up: everything to it ends at once, and nothing of it is touched afterwards."""

import random
from collections.abc import Iterator

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.network import SimulatedDevice
from amoeba_model.nic import ModelDevice
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import Counter
from amoeba_model.wire.uet import NackCode, ReturnCode

from tests.support.devices import DEVICES
from tests.support.lossy_bench import FIRST_PSN, SIZE, TIMEOUT, Bench
from tests.support.raw_driver import Pair, RawNic, connect

OK, FAILED = ReturnCode.OK, ReturnCode.LOCAL_PDC_FAILED
COMPLETION = DescriptorFlags.COMPLETION
INLINE = COMPLETION | DescriptorFlags.INLINE


def fail(nic: RawNic, entry: int) -> None:
    nic.set("peers", fail=entry)
    nic.settle()


@pytest.fixture
def bench(device_pair: Pair) -> Bench:
    """With a second entry, 1, of the same context for the same peer. Timeouts would take for ever."""
    bench = Bench(device_pair, timeout=1 << 24)
    device_pair.initiator.peer(1, device_pair.remote, initial_psn=0x9000)
    device_pair.initiator.settle()
    return bench


def close(**fields: int) -> dict[str, int]:
    return {"opcode": DescriptorOpcode.CLOSE, "flags": COMPLETION, **fields}


def test_all_that_is_outstanding_to_a_failed_peer_ends_at_once_and_in_order(bench: Bench) -> None:
    bench.cut_off()
    ping = {"opcode": DescriptorOpcode.PING, "flags": COMPLETION}
    bench.post(bench.write(1), bench.add(), ping, close(), bench.write(2), bench.add())
    bench.sent(3)  # the CLOSE waits for these
    before = bench.pair.initiator.device.cycles  # type: ignore[attr-defined]
    fail(bench.pair.initiator, 0)
    assert bench.statuses(6) == [FAILED] * 6
    assert bench.pair.initiator.device.cycles - before < TIMEOUT  # type: ignore[attr-defined]
    assert (bench.here(Counter.FAILED_PDCS), bench.here(Counter.TIMEOUTS)) == (1, 0)


def test_requests_posted_to_a_failed_peer_end_without_a_frame(bench: Bench) -> None:
    fail(bench.pair.initiator, 0)
    bench.pair.run(4)  # hardware comes by all entries in turn
    bench.post(bench.write(1), bench.add())
    assert bench.statuses(2) == [FAILED] * 2
    assert (bench.here(Counter.REQUESTS_SENT), bench.here(Counter.FAILED_PDCS)) == (0, 1)


def test_other_entries_go_on_as_if_nothing_had_happened(bench: Bench) -> None:
    bench.answers.fate = lambda frame: [(5, frame)]
    bench.post(bench.write(1, peer=1), bench.write(2), bench.write(3, peer=1))
    bench.sent(2)
    fail(bench.pair.initiator, 0)
    entries = sorted((entry["context"], entry["status"]) for entry in (bench.pair.local.completion() for _ in "123"))
    assert entries == [(0, OK), (1, FAILED), (2, OK)]
    assert bench.pair.local.execute(**bench.write(4, peer=1))["status"] == OK


def test_a_late_answer_is_not_taken(bench: Bench) -> None:
    late: list[bytes] = []
    bench.answers.fate = lambda frame: late.append(frame) or []  # type: ignore[func-returns-value]
    bench.post(bench.add(), bench.write(1))
    bench.pair.run(20)
    assert late
    fail(bench.pair.initiator, 0)
    assert bench.statuses(2) == [FAILED] * 2
    dropped = bench.here(Counter.DROPPED_RESPONSE)
    for frame in late:
        bench.pair.initiator.device.deliver(frame, 0)  # type: ignore[attr-defined]
    bench.pair.run(20)
    assert bench.here(Counter.DROPPED_RESPONSE) == dropped + len(late)
    assert bench.result[:] == b"\xee" * SIZE
    assert bench.pair.local.poll() is None


def test_a_peer_that_is_held_back_or_sends_again_fails_too(bench: Bench) -> None:
    bench.cut_off()
    for code in (NackCode.NO_RESOURCE, NackCode.ROD_OOO):
        bench.post(*(bench.write(number) for number in range(4)))
        bench.sent(bench.here(Counter.REQUESTS_SENT) + 4)
        bench.say(is_control=True, nack_code=code, psn=FIRST_PSN)
        fail(bench.pair.initiator, 0)
        assert bench.statuses(4) == [FAILED] * 4
        bench.pair.initiator.peer(0, bench.pair.remote)
        bench.pair.initiator.settle()


def test_a_failed_peer_that_is_stored_anew_is_used_as_before(bench: Bench) -> None:
    bench.cut_off()
    bench.post(bench.write(1))
    bench.sent(1)
    fail(bench.pair.initiator, 0)
    assert bench.statuses(1) == [FAILED]
    bench.requests.fate = lambda frame: [(0, frame)]
    bench.pair.initiator.peer(0, bench.pair.remote, initial_psn=0x30000)
    assert bench.add_three() == [OK] * 3


def test_a_register_written_before_an_entry_is_stored_fails_what_was_there_before(bench: Bench) -> None:
    nic = bench.pair.initiator
    for _ in range(3):
        nic.set("peers", fail=0)
        nic.peer(0, bench.pair.remote, initial_psn=0x30000)
    nic.settle()
    assert bench.add_three() == [OK] * 3


def test_failing_twice_counts_once_and_an_index_outside_means_nobody(bench: Bench) -> None:
    for entry in (0, 0, NicParameters().peers, 0xFFFF, 0):
        fail(bench.pair.initiator, entry)
        bench.pair.run(4)
    assert bench.here(Counter.FAILED_PDCS) == 1
    assert bench.pair.local.execute(**bench.write(1, peer=1))["status"] == OK


def test_an_entry_that_was_never_stored_may_be_failed(bench: Bench) -> None:
    fail(bench.pair.initiator, 7)
    bench.pair.run(4)
    bench.pair.initiator.peer(7, bench.pair.remote, initial_psn=0x70000)
    bench.pair.initiator.settle()
    assert bench.pair.local.execute(**bench.write(1, peer=7))["status"] == OK


def test_a_long_request_that_was_begun_ends_without_its_rest(bench: Bench) -> None:
    size = 64 * SIZE
    source = bench.pair.initiator.buffer(size)
    bench.cut_off()
    bench.post({"opcode": DescriptorOpcode.WRITE, "flags": COMPLETION, "length": size, "local": source.address})
    bench.sent(2)
    fail(bench.pair.initiator, 0)
    assert bench.statuses(1) == [FAILED]
    sent = bench.here(Counter.REQUESTS_SENT)
    bench.pair.run(20)
    assert bench.here(Counter.REQUESTS_SENT) == sent


@pytest.mark.parametrize("seed", range(40))
def test_whenever_it_fails_buffers_are_left_alone_behind_the_completion(make_model_pair, seed: int) -> None:
    """Random programs over a lossy link, failed at any moment: after its completion a request reads nothing, and
    nothing comes to lie in its result; before, it has its data if it is OK. Memory is withdrawn to see."""
    check_failing(make_model_pair(), seed)


@pytest.mark.parametrize("seed", range(2))
def test_whenever_it_fails_buffers_are_left_alone_on_every_device(device_pair: Pair, seed: int) -> None:
    check_failing(device_pair, 1000 + seed)


def check_failing(pair: Pair, seed: int) -> None:
    generator = random.Random(seed)
    bench = Bench(pair, timeout=3000, limit=10)
    nic, local = pair.initiator, pair.local
    chance = generator.choice((0, 0.1, 0.3))
    for side in (bench.requests, bench.answers):
        side.fate = lambda frame: [] if generator.random() < chance else [(generator.randrange(3), frame)]
    bench.region[0] = bytes([0x5A]) * SIZE
    for lap in range(3):
        nic.peer(0, pair.remote, initial_psn=0x100_0000 * (lap + 1))
        nic.settle()
        buffers, kinds = [], []
        for number in range(12):
            length = generator.choice((8, 64, SIZE, SIZE))
            kind = generator.choice((DescriptorOpcode.READ, DescriptorOpcode.WRITE, DescriptorOpcode.FETCH_ATOMIC))
            buffer = nic.buffer(SIZE, fill=0xEE if kind == DescriptorOpcode.READ else 0x11)
            place = {"remote_address": bench.region.address, "remote_key": Pair.KEY}
            fields = {"opcode": kind, "flags": COMPLETION, "length": length, "context": number, **place}
            if kind == DescriptorOpcode.READ:
                fields["result"] = buffer.address
            elif kind == DescriptorOpcode.WRITE:
                fields["local"] = buffer.address
            else:
                fields |= {"op": Op.FI_BOR, "datatype": Datatype.FI_UINT64, "length": min(length, 64),
                           "local": buffer.address, "result": buffer.address + SIZE // 2}  # fmt: skip
            local.put(**fields)
            buffers.append(buffer)
            kinds.append((kind, fields["length"]))
        local.ring()
        moment, ended, copies = generator.randrange(40), 0, {}
        for step in range(4000):
            if step == moment:
                fail(nic, 0)
            while (entry := local.poll()) is not None:
                number = entry["context"]
                assert entry["status"] in (OK, FAILED), f"seed {seed}: {entry}"
                kind, length = kinds[number]
                if entry["status"] == OK and kind == DescriptorOpcode.READ:
                    assert buffers[number][:length] != b"\xee" * length, f"seed {seed}: no data"
                copies[number] = buffers[number][:]
                nic.device.revoke(buffers[number].address, SIZE)
                ended += 1
            if ended == 12 and step > moment:
                break
            pair.run(1)
        assert ended == 12, f"seed {seed}: {ended} of 12 ended"
        pair.run(40)
        assert nic.device.faults() == [], f"seed {seed}: touched behind its completion"
        for number, copy in copies.items():
            assert buffers[number][:] == copy, f"seed {seed}: request {number} changed behind its completion"
        assert local.poll() is None


LIFE = 4000
"""Cycles after which every operation below has ended, if nothing fails."""
OPERATIONS: dict[str, tuple[DescriptorOpcode, dict[str, int]]] = {
    "a read of two packets": (DescriptorOpcode.READ, {"length": SIZE + 64}),
    "a write of two packets": (DescriptorOpcode.WRITE, {"length": SIZE + 64}),
    "a fetching atomic": (
        DescriptorOpcode.FETCH_ATOMIC,
        {"op": Op.FI_SUM, "datatype": Datatype.FI_UINT64, "length": 512},
    ),
    "a comparing atomic": (
        DescriptorOpcode.COMPARE_ATOMIC,
        {"op": Op.FI_CSWAP, "datatype": Datatype.FI_UINT64, "length": 64},
    ),
}


class Life:
    """Operations of the initiator's, one after the other, with buffers that they are allowed only until their end."""

    def __init__(self, pair: Pair, *, lost: int) -> None:
        """Of each operation the first ``lost`` frames vanish."""
        self.pair = pair
        self.bench = Bench(pair, timeout=250, limit=20)
        self.lost = lost
        self.size = 4 * SIZE
        self.far = pair.target.buffer(self.size, fill=0x5A)
        pair.target.key(9, self.far.address, self.size)
        pair.target.answer_memory()
        # A PDC that failed here stays open there until it has been idle for 32 times both, and there are but 64.
        pair.target.set("device", retransmit_timeout=16, retransmit_limit=1)
        self.buffers = {name: pair.initiator.buffer(self.size) for name in ("local", "compare", "result")}
        self.ended_with: list[int] = []
        self.laps = 0

    def run(self, kind: DescriptorOpcode, fields: dict[str, int], moment: int) -> None:
        """Post the operation, let its peer fail ``moment`` cycles later; nothing may happen behind its completion."""
        nic, local, device = self.pair.initiator, self.pair.local, self.pair.initiator.device
        self.laps += 1
        left = self.lost

        def fate(frame: bytes) -> list[tuple[int, bytes]]:
            nonlocal left
            left -= 1
            return [] if left >= 0 else [(0, frame)]

        self.bench.requests.fate = fate
        nic.peer(0, self.pair.remote, initial_psn=0x40_0000 * self.laps & 0xFFFF_FFFF)
        for name, buffer in self.buffers.items():
            buffer[0] = bytes([0xEE if name == "result" else 0x11]) * self.size
            device.grant(buffer.address, self.size)
        self.pair.run(1)
        local.post(
            opcode=kind, remote_address=self.far.address, remote_key=9, **fields,
            **{name: buffer.address for name, buffer in self.buffers.items()},
        )  # fmt: skip
        self._advance(moment)
        nic.set("peers", fail=0)
        before = device.cycles
        while (completion := local.poll(release=False)) is None:
            assert device.cycles < before + LIFE, f"failed in cycle {moment}, it never ended"
            self._advance(1)
        copy = self.buffers["result"][:]
        for buffer in self.buffers.values():
            device.revoke(buffer.address, self.size)
        local.release()
        self._advance(200)  # answers come late
        assert device.faults() == [], f"failed in cycle {moment}: touched behind its completion"
        assert self.buffers["result"][:] == copy, f"failed in cycle {moment}: its result changed"
        assert completion["status"] in (OK, FAILED)
        if completion["status"] == OK and kind == DescriptorOpcode.READ:
            assert copy[: fields["length"]] == self.far[: fields["length"]], f"failed in cycle {moment}: OK, no data"
        assert local.poll() is None
        self.ended_with.append(completion["status"])

    def _advance(self, cycles: int) -> None:
        """So many cycles of the initiator's; the network has its steps when they are due."""
        network, device = self.pair.network, self.pair.initiator.device
        assert isinstance(device, SimulatedDevice)
        while cycles > 0:
            most = min(cycles, max(network.now + network.latency - device.cycles, 1))
            device.run_until(device.cycles + most)
            cycles -= most
            if device.cycles >= network.now + network.latency:
                network.step()


@pytest.fixture(params=["rtl", "model"])
def watched_pair(request: pytest.FixtureRequest, lost: int) -> Iterator[Pair]:
    """Such a device, and a model as its target close to it.

    Where frames are sent again, the host is slow: then operands are still on their way when a peer has failed.
    """

    def open_slowly(parameters: NicParameters) -> SimulatedDevice:
        from amoeba_sim.rtl import open_rtl

        return open_rtl(parameters)

    slow = request.param == "rtl" and lost
    pair = connect(open_slowly if slow else DEVICES[request.param], ModelDevice, latency=20)
    yield pair
    pair.initiator.device.close()
    pair.target.device.close()


def fail_in_many_cycles(pair: Pair, name: str, lost: int, stride: int) -> None:
    """From the doorbell on to where three operations in a row have ended well before their peer failed."""
    life = Life(pair, lost=lost)
    moment = random.Random(name).randrange(stride)
    while life.ended_with[-3:] != [OK] * 3:
        assert moment < LIFE
        life.run(*OPERATIONS[name], moment)
        moment += stride
    assert life.ended_with.count(FAILED) > 100 // stride


@pytest.mark.parametrize("lost", [0, 1])
@pytest.mark.parametrize("name", OPERATIONS)
def test_in_whichever_cycle_it_fails_nothing_is_touched_behind_the_completion(
    watched_pair: Pair, name: str, lost: int
) -> None:
    fail_in_many_cycles(watched_pair, name, lost, 29)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "lost", "stride"), [
    ("a read of two packets", 0, 1), ("a fetching atomic", 0, 1), ("a write of two packets", 1, 1),
    ("a comparing atomic", 1, 3),
])  # fmt: skip
def test_in_every_cycle_it_may_fail_and_nothing_is_touched_behind_the_completion(
    watched_pair: Pair, name: str, lost: int, stride: int
) -> None:
    """Of the comparing atomic with a frame lost in every third: it lives for more than a thousand."""
    fail_in_many_cycles(watched_pair, name, lost, stride)
