"""Strangers send whatever a link can carry, and a tenant tells the NIC anything, while two others do honest work."""

import random
from collections import Counter as Multiset
from dataclasses import replace
from typing import Any

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.network import SimulatedDevice
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import BUILDS
from amoeba_model.registers import ContextControl, Counter, KeyFlags
from amoeba_model.wire.codec import DecodedFrame, decode, encode
from amoeba_model.wire.uet import NackCode, ReturnCode

from tests.support.devices import DEVICES
from tests.support.frame_fuzz import Attacker
from tests.support.out_of_order_entries import throw_away_kept
from tests.support.raw_driver import Buffer, Pair, RawContext, RawNic, connect

pytestmark = [pytest.mark.long, pytest.mark.ci]

SIZE = 8192
THEIR_KEY = 0x7777_0000_0001
DROPS = (Counter.DROPPED_MALFORMED, Counter.DROPPED_CHECK, Counter.DROPPED_ADDRESS)
ACCEPTED_OR_DROPPED = (Counter.FRAMES_RECEIVED, Counter.DROPPED_OVERFLOW, *DROPS)
ACCEPTED = (
    Counter.REQUESTS_RECEIVED, Counter.DUPLICATES, Counter.DROPPED_PDC, Counter.DROPPED_SEQUENCE,
    Counter.RESPONSES_RECEIVED, Counter.NACKS_RECEIVED, Counter.DROPPED_RESPONSE,
)  # fmt: skip
"""The fates of a received frame: exactly one of these."""
WAYS = (Counter.LINE_READS, Counter.LINE_WRITES, Counter.LINE_HITS)
"""Counters that tell how, not what: hardware takes elements that lie across lines in more steps than the model."""


class HonestWork:
    """Additions to a counter and copies to and fro, one after the other, by context 0 of a pair."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.region = pair.memory(SIZE)
        self.local = pair.initiator.buffer(SIZE)
        self.done = 0

    def go_on(self) -> None:
        """One more of each: the counter's next value, and bytes that come back as they went."""
        data = random.Random(self.done).randbytes(700)
        self.local[2048] = data
        where = {"remote_key": Pair.KEY, "remote_address": self.region.address + 1024, "length": 700}
        self._execute(opcode=DescriptorOpcode.WRITE, local=self.local.address + 2048, **where)
        self._execute(opcode=DescriptorOpcode.READ, result=self.local.address + 4096, **where)
        assert self.local[4096:4796] == data
        self._execute(
            opcode=DescriptorOpcode.FETCH_ATOMIC, op=Op.FI_SUM, datatype=Datatype.FI_UINT64, length=8, local=1,
            flags=DescriptorFlags.COMPLETION | DescriptorFlags.INLINE, result=self.local.address,
            remote_key=Pair.KEY, remote_address=self.region.address,
        )  # fmt: skip
        assert self.local.integer(0) == self.done
        self.done += 1

    def _execute(self, **fields: int) -> None:
        self.pair.local.post(context=self.done, **fields)
        entry = self.pair.local.completion()
        assert (entry["context"], entry["status"]) == (self.done, ReturnCode.OK)

    def check(self) -> None:
        assert self.region.integer(0) == self.done
        assert self.region[8:1024] == bytes(1016)
        assert self.region[1724:] == bytes(SIZE - 1724)


def attacker_of(nic: RawNic, context: RawContext, seed: int) -> tuple[Attacker, Buffer]:
    """Somebody with a region of his own, in the middle of a buffer whose rest no peer may access."""
    arena = nic.buffer(3 * SIZE, fill=0xA5)
    rights = KeyFlags.REMOTE_READ | KeyFlags.REMOTE_WRITE
    nic.key(THEIR_KEY, arena.address + SIZE, SIZE, flags=KeyFlags.VALID | rights)
    return Attacker(seed, nic.mac, nic.ip, context, THEIR_KEY), arena


def deliver(nic: RawNic, frame: bytes) -> None:
    assert isinstance(nic.device, SimulatedDevice)
    nic.device.deliver(frame, 0)


def assert_every_frame_is_counted_once(pair: Pair, delivered: int) -> None:
    """``delivered``: frames that did not come through the network."""
    delivered += sum(throw_away_kept(nic, pair.network) for nic in (pair.initiator, pair.target))
    values = [{counter: nic.counter(counter) for counter in Counter} for nic in (pair.initiator, pair.target)]
    for counters in values:
        assert counters[Counter.FRAMES_RECEIVED] == sum(counters[counter] for counter in ACCEPTED), counters
    judged = sum(counters[counter] for counters in values for counter in ACCEPTED_OR_DROPPED)
    assert judged == pair.network.traffic.delivered + delivered


@pytest.mark.parametrize("seed", range(3))
def test_any_frames_from_strangers_disturb_nobody(device_pair: Pair, seed: int) -> None:
    pair, work = device_pair, HonestWork(device_pair)
    sides = [(pair.initiator, pair.local), (pair.target, pair.remote)]
    attacks = [(nic, *attacker_of(nic, context, seed)) for nic, context in sides]
    work.go_on()
    generator = random.Random(seed)
    delivered = 0
    for _ in range(40):
        for nic, attacker, _ in attacks:
            for _ in range(generator.randint(0, 12)):
                deliver(nic, attacker.frame())
                delivered += 1
        work.go_on()
    pair.run(50)
    work.check()
    for nic, _, arena in attacks:
        assert arena[:SIZE] == arena[2 * SIZE :] == b"\xa5" * SIZE
        assert nic.device.faults() == []
        for counter in (*DROPS, Counter.REFUSED_REQUESTS, Counter.DROPPED_PDC, Counter.DROPPED_SEQUENCE,
                        Counter.DROPPED_RESPONSE, Counter.DUPLICATES, Counter.NACKS_SENT):  # fmt: skip
            assert nic.counter(counter) or counter is Counter.DROPPED_ADDRESS, counter.name
    assert_every_frame_is_counted_once(pair, delivered)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", DEVICES, ids=["specification", "hardware"])
def test_frames_from_strangers_disturb_no_work_on_a_memory_node(kind: str) -> None:
    pair = connect(DEVICES["model"], DEVICES[kind], BUILDS["tiny"], target_parameters=BUILDS["node"])
    work = HonestWork(pair)
    attacker, arena = attacker_of(pair.target, pair.remote, 5)
    for _ in range(40):
        for _ in range(12):
            deliver(pair.target, attacker.frame())
        work.go_on()
    pair.run(50)
    work.check()
    assert arena[:SIZE] == arena[2 * SIZE :] == b"\xa5" * SIZE
    assert pair.target.device.faults() == []
    assert pair.target.counter(Counter.MESSAGES_MATCHED) == pair.target.counter(Counter.MESSAGES_UNEXPECTED) == 0
    assert_every_frame_is_counted_once(pair, 480)
    for nic in (pair.initiator, pair.target):
        nic.device.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(2))
def test_storms_of_old_frames_in_the_name_of_the_other_side_change_nothing(device_pair: Pair, seed: int) -> None:
    """Answers, NACKs, requests and CLOSEs for psns that are long past, in a PDC that is in use."""
    pair, work = device_pair, HonestWork(device_pair)
    pair.network.recording = True
    for _ in range(3):
        work.go_on()
    seen = [frame for _, frame in pair.network.log]
    pair.network.recording = False
    old = [decoded for decoded in (decode(frame.data) for frame in seen) if isinstance(decoded, DecodedFrame)]
    generator = random.Random(seed)
    delivered = 0
    for _ in range(30):
        for _ in range(generator.randint(1, 15)):
            header, payload = generator.choice(old)
            psn = (header.psn - generator.choice((0, 0, 50, 1 << 30))) & 0xFFFF_FFFF
            first = pair.target.parameters.peers if header.is_request else 0
            header = replace(header, syn=False, dpdcid=first, psn=psn, cack_psn=psn)
            to, by = (pair.target, pair.initiator) if header.is_request else (pair.initiator, pair.target)
            kind = generator.randrange(3)
            if kind == 1 and not header.is_request:
                header, payload = replace(header, is_control=True, nack_code=generator.choice(list(NackCode))), b""
            elif kind == 2 and header.is_request:
                header, payload = replace(header, is_control=True), b""
            header = replace(header, mac=to.mac, ip=to.ip, retx=generator.random() < 0.5)
            deliver(to, encode(header, payload, by.mac, by.ip))
            delivered += 1
        work.go_on()
    pair.run(50)
    work.check()
    assert pair.target.counter(Counter.REQUESTS_RECEIVED) == 3 * work.done
    assert pair.initiator.counter(Counter.FAILED_PDCS) == pair.initiator.counter(Counter.NACKS_RECEIVED) == 0
    assert pair.target.counter(Counter.DUPLICATES) > 50
    assert pair.initiator.counter(Counter.DROPPED_RESPONSE) > 50
    assert_every_frame_is_counted_once(pair, delivered)


# Model and RTL, frame by frame


def judged_by(
    kind: str, seed: int, count: int, build: str = "full"
) -> tuple[list[tuple[Any, ...]], bytes, dict[str, int]]:
    """The frames of a NIC, its memory afterwards, and its counters."""
    parameters = BUILDS[build]
    device = DEVICES[kind](parameters)
    nic = RawNic(device, 0x0200_0000_0001, 0x0A00_0001, parameters)
    context = nic.context(event_size=12)
    if not parameters.has_messages:  # what the context would need for them changes nothing
        nic.set_wide("contexts", 0, unexpected_base=nic.buffer(SIZE).address)
    nic.answer_memory()
    attacker, arena = attacker_of(nic, context, seed)
    sent: list[tuple[Any, ...]] = []
    for number in range(count):
        frame = attacker.frame()
        deliver(nic, frame)
        # Long enough for any answer, to thousands of misaligned elements too: the order of events decides nothing.
        device.run_until(device.cycles + 1200 + 6 * len(frame))
        sent += [(number, frame.data) for frame in device.take_frames()]
    counters = {counter.name: nic.counter(counter) for counter in Counter if counter not in WAYS}
    assert device.faults() == []
    device.close()
    return sent, arena[:], counters


def test_a_model_judges_frames_of_every_kind() -> None:
    """The material of the next test is worth comparing."""
    sent, _, counters = judged_by("model", 3, 600)
    codes = Multiset(decoded.header.return_code for decoded in (decode(data) for _, data in sent))
    assert codes[ReturnCode.OK] > 30
    assert {
        ReturnCode.OP_VIOLATION, ReturnCode.BAD_INDEX, ReturnCode.BAD_JOB_ID, ReturnCode.BAD_PID,
        ReturnCode.UNSUPPORTED_OP, ReturnCode.AMO_UNSUPPORTED_OP, ReturnCode.AMO_UNSUPPORTED_DT,
        ReturnCode.UNSUPPORTED_SIZE, ReturnCode.AMO_UNSUPPORTED_SIZE, ReturnCode.BAD_MKEY, ReturnCode.BAD_ADDR,
    } <= set(codes)  # fmt: skip
    quiet = {Counter(counter).name for counter in Counter if not counters.get(Counter(counter).name, 1)}
    assert not quiet & {counter.name for counter in (*DROPS, Counter.DROPPED_PDC, Counter.DROPPED_SEQUENCE,
                                                     Counter.DUPLICATES, Counter.EVENTS)}  # fmt: skip


def test_a_model_of_a_memory_node_refuses_the_messages_of_strangers() -> None:
    sent, _, counters = judged_by("model", 3, 2000, "node")
    codes = Multiset(decoded.header.return_code for decoded in (decode(data) for _, data in sent))
    assert codes[ReturnCode.OK] > 10
    assert codes[ReturnCode.UNSUPPORTED_OP] > 10
    assert ReturnCode.NO_MATCH not in codes
    assert counters[Counter.MESSAGES_UNEXPECTED.name] == 0


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("build", "seed"), [("full", 0), ("full", 1), ("node", 2), ("node", 3)])
def test_rtl_and_model_judge_any_frame_alike(build: str, seed: int) -> None:
    expected, actual = judged_by("model", seed, 200, build), judged_by("rtl", seed, 200, build)
    for ours, theirs in zip(actual[0], expected[0], strict=False):
        assert ours == theirs, f"frame {min(ours[0], theirs[0])} of Attacker({seed}): {ours[1].hex()}"
    assert len(actual[0]) == len(expected[0])
    assert actual[2] == expected[2]
    assert actual[1] == expected[1]


# A tenant next door


@pytest.mark.parametrize("seed", range(3))
def test_a_context_with_any_rings_descriptors_and_doorbells_disturbs_no_other(device_pair: Pair, seed: int) -> None:
    pair, work = device_pair, HonestWork(device_pair)
    tenant = pair.initiator.context(1, transmit_size=15, completion_size=15)  # no size leads beyond them
    guard = pair.initiator.buffer(SIZE, fill=0xA5)
    theirs, local = pair.target.buffer(SIZE), pair.initiator.buffer(SIZE)
    pair.target.key(THEIR_KEY, theirs.address, SIZE)
    pair.initiator.peer(8, pair.remote, context=1, initial_psn=0x0700_0000)
    generator = random.Random(seed)
    for _ in range(60):
        for _ in range(generator.randint(0, 5)):
            meddle(pair.initiator, tenant, local, theirs, generator)
        work.go_on()
    pair.run(50)
    work.check()
    assert guard[:] == b"\xa5" * SIZE
    for fault in pair.initiator.device.faults():
        # Only what the tenant named, and nobody granted: 64 random bits, beyond what user space can have.
        assert fault.address >> 47, fault
    assert pair.target.device.faults() == []


def meddle(nic: RawNic, tenant: RawContext, local: Buffer, theirs: Buffer, generator: random.Random) -> None:
    """A descriptor, a doorbell or a register of a context, with good values and absurd ones."""
    nowhere = generator.getrandbits(63) | 1 << 63

    def anything_or(*good: int) -> int:
        return generator.choice((*good, *good, generator.getrandbits(64)))

    match generator.randrange(8):
        case 0 | 1 | 2 | 3:
            tenant.post(
                opcode=generator.choice((*range(8), 255)), op=generator.randrange(32),
                datatype=generator.randrange(32), flags=generator.choice((1, 1, 3, generator.getrandbits(8))),
                length=generator.choice((0, 8, 16, 64, 5000, 1 << 30 | 1, generator.randrange(SIZE))),
                peer=generator.choice((8, 8, 8, 0, generator.getrandbits(16))), remote_key=anything_or(THEIR_KEY),
                remote_address=anything_or(theirs.address), local=generator.choice((local.address, nowhere)),
                compare=generator.choice((local.address, nowhere)), result=generator.choice((local.address, nowhere)),
            )  # fmt: skip
        case 4:
            register = generator.choice(("transmit_tail", "completion_head", "arm", "event_head", "event_arm"))
            tenant.doorbell(register, generator.getrandbits(generator.choice((4, 16, 32))))
        case 5:
            nic.set("contexts", 1, control=generator.choice((0, 1, 1, 1, 3)))
        case 6:
            nic.set("contexts", 1, transmit_size=generator.randrange(16), completion_size=generator.randrange(16))
        case 7:
            base = generator.choice((tenant.transmit.address, nowhere & ~63))
            nic.set("contexts", 1, control=0)
            nic.set_wide("contexts", 1, **{generator.choice(("transmit_base", "completion_base")): base})
            nic.set("contexts", 1, control=ContextControl.ENABLE)
            tenant.tail = tenant.head = 0


