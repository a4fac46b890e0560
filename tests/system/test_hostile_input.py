"""Frames and register writes from hell: a NIC never raises, never strays, and works on afterwards."""

import random
from collections.abc import Callable

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.device import DeviceError
from amoeba_model.network import SimulatedDevice
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.registers import Counter
from amoeba_model.wire.codec import DecodedFrame, Drop, decode
from amoeba_model.wire.render import layers, summary
from amoeba_model.wire.uet import AtomicOpcode, RequestOpcode, ReturnCode, SesFlags, message_place
from hypothesis import given
from hypothesis import strategies as st

from tests.support.raw_driver import Buffer, Pair
from tests.support.stranger import WHOLE, Stranger

SIZE = 4096
INLINE = DescriptorFlags.COMPLETION | DescriptorFlags.INLINE


def assert_works(pair: Pair, region: Buffer) -> None:
    before = region.integer(0)
    completion = pair.local.execute(
        opcode=DescriptorOpcode.ATOMIC, op=Op.FI_SUM, datatype=Datatype.FI_UINT64, flags=INLINE, length=8, local=1,
        remote_address=region.address, remote_key=Pair.KEY,
    )  # fmt: skip
    assert completion["status"] == ReturnCode.OK
    assert region.integer(0) == (before + 1) % (1 << 64)


@given(st.binary(max_size=200))
def test_no_bytes_make_the_codec_raise(data: bytes) -> None:
    assert isinstance(decode(data), Drop)
    assert "undecodable" in layers(data)[0].name
    assert summary(data)


def sample_frames(pair: Pair) -> list[bytes]:
    """Good frames of every kind, to and from the target, as seen on the network."""
    pair.network.recording = True
    region = pair.target.buffer(SIZE)
    pair.target.key(1, region.address, SIZE)
    result = pair.initiator.buffer(SIZE)
    fields = {
        "datatype": Datatype.FI_UINT64, "length": 8, "flags": INLINE, "result": result.address,
        "remote_address": region.address, "remote_key": 1,
    }  # fmt: skip
    for opcode, op in ((1, 0), (2, 0), (3, Op.FI_SUM), (4, Op.FI_SUM), (5, Op.FI_CSWAP)):
        assert pair.local.execute(opcode=opcode, op=op, **fields)["status"] == ReturnCode.OK
    pair.network.recording = False
    return [frame.data for _, frame in pair.network.log]


@pytest.mark.parametrize("seed", range(4))
def test_damaged_frames_are_dropped_and_counted(device_pair: Pair, seed: int) -> None:
    pair = device_pair
    region = pair.memory(SIZE, fill=0xA5)
    samples = sample_frames(pair)
    generator = random.Random(seed)
    received = [nic.counter(Counter.FRAMES_RECEIVED) for nic in (pair.initiator, pair.target)]
    for _ in range(300):
        frame = bytearray(generator.choice(samples))
        match generator.randrange(3):
            case 0:
                frame = frame[: generator.randrange(1, len(frame))]
            case 1:
                # Behind the headers that the CRC does not cover, any single burst is found.
                place = generator.randrange(42, len(frame))
                frame[place] ^= generator.randrange(1, 256)
            case 2:
                frame = bytearray(generator.randbytes(generator.randrange(1, 300)))
        for nic in (pair.initiator, pair.target):
            nic.device.deliver(bytes(frame), 0)  # type: ignore[attr-defined]
        pair.network.step()
    pair.run(20)
    assert [nic.counter(Counter.FRAMES_RECEIVED) for nic in (pair.initiator, pair.target)] == received
    for nic in (pair.initiator, pair.target):
        drops = (Counter.DROPPED_MALFORMED, Counter.DROPPED_CHECK, Counter.DROPPED_ADDRESS)
        assert sum(nic.counter(drop) for drop in drops) == 300
        assert nic.device.faults() == []
    assert region[:] == b"\xa5" * SIZE
    assert_works(pair, region)


def test_a_frame_has_at_least_one_byte(make_device: Callable[[], SimulatedDevice]) -> None:
    with pytest.raises(DeviceError, match="at least one byte"):
        make_device().deliver(b"", 0)


OPCODES = [*RequestOpcode, 0x3F, *[1, 2, 3, 4, 0x30] * 8]


@pytest.mark.parametrize("seed", range(4))
def test_requests_with_random_fields_are_answered_and_stay_within_the_region(device_pair: Pair, seed: int) -> None:
    pair = device_pair
    arena = pair.target.buffer(3 * SIZE, fill=0xA5)
    pair.target.key(Pair.KEY, arena.address + SIZE, SIZE)
    stranger = Stranger(pair)
    generator = random.Random(seed)
    codes = set()
    for _ in range(300):
        length = generator.choice([0, 1, 8, 8, 8, 16, 24, 64, generator.randrange(5000), generator.getrandbits(32)])
        size = generator.choice([min(length, 4096), min(length, 4096), 0, 32, generator.randrange(100)])
        fields = {
            "opcode": generator.choice(OPCODES),
            "atomic_opcode": generator.choice([*AtomicOpcode, 0x99]),
            "atomic_datatype": generator.choice([*range(18), 0xE0, 0xE1, 0x50]),
            "semantic_control": generator.getrandbits(8),
            "request_length": length,
            "buffer_offset": arena.address
            + generator.choice([SIZE, SIZE + generator.randrange(-99, 99), 2 * SIZE - generator.randrange(-9, 99)]),
            "initiator": generator.getrandbits(32),
            "header_data": generator.choice([generator.getrandbits(64), message_place(size, 0), message_place(8, 8)]),
            "flags": generator.choice([WHOLE] * 8 + [SesFlags(flags) for flags in range(8)]),
            "message_id": 1,
            "clear_psn_offset": -generator.randrange(257) & 0xFFFF,
        }
        answer = stranger.ask(generator.randbytes(size), **fields)
        assert answer.header.psn == stranger.psn - 1
        codes.add(answer.header.return_code)
        assert answer.header.return_code == ReturnCode.OK or not answer.payload
    usual = {ReturnCode.OK, ReturnCode.AMO_UNSUPPORTED_OP, ReturnCode.UNSUPPORTED_OP, ReturnCode.BAD_ADDR}
    assert usual | {ReturnCode.OP_VIOLATION} <= codes
    assert arena[:SIZE] == arena[2 * SIZE :] == b"\xa5" * SIZE
    assert pair.target.device.faults() == []


@pytest.mark.parametrize("seed", range(4))
def test_random_descriptors_complete_and_write_only_where_granted(device_pair: Pair, seed: int) -> None:
    pair = device_pair
    region = pair.memory(SIZE)
    result = pair.initiator.buffer(SIZE)
    generator = random.Random(seed)
    statuses = set()
    for index in range(200):
        entry = pair.local.execute(
            opcode=generator.choice([0, 1, 2, 3, 3, 4, 4, 5, 5, 6, 7, 255]),
            op=generator.randrange(22),
            datatype=generator.randrange(22),
            flags=generator.choice([1, 1, 1, 3, 3, 1 | 1 << generator.choice([1, 2, 3, 5, 6, 7])]),
            length=generator.choice([0, 1, 8, 16, 32, 64, generator.randrange(4000)]),
            peer=generator.choice([0, 0, 0, 0, generator.getrandbits(16)]),
            remote_address=region.address + generator.choice([0, 64, generator.randrange(-50, SIZE)]),
            remote_key=generator.choice([Pair.KEY, Pair.KEY, Pair.KEY, generator.getrandbits(64)]),
            local=generator.choice([region.address, result.address, generator.getrandbits(64)]),
            compare=generator.choice([result.address, generator.getrandbits(64)]),
            result=generator.choice([result.address, result.address, generator.getrandbits(64)]),
            context=index,
        )
        assert entry["context"] == index
        statuses.add(entry["status"])
    assert {1, 0x30, 0x31, ReturnCode.AMO_UNSUPPORTED_OP, ReturnCode.LOCAL_DMA_FAULT} <= statuses
    assert_works(pair, region)


@pytest.mark.parametrize("seed", range(4))
def test_random_answers_are_dropped_or_reported_and_written_only_to_the_result(device_pair: Pair, seed: int) -> None:
    """A target that answers nonsense: the right psn and message, any code, any amount of data."""
    pair = device_pair
    region = pair.memory(SIZE)
    samples = [decode(frame) for frame in sample_frames(pair)]
    answers = [frame for frame in samples if isinstance(frame, DecodedFrame) and not frame.header.is_request]
    generator = random.Random(seed)
    result = pair.initiator.buffer(SIZE, fill=0xEE)
    pair.network.detach(pair.target.device)  # type: ignore[arg-type]
    liar = Stranger(pair, mac=pair.target.mac, ip=pair.target.ip)
    good = 0
    for index in range(50):
        pair.local.post(
            opcode=DescriptorOpcode.READ, length=8, result=result.address + 1024, remote_address=region.address,
            remote_key=Pair.KEY,
        )  # fmt: skip
        data = generator.choice([b"", bytes(8), bytes(9), bytes(64)])
        header = liar.header(
            mac=pair.initiator.mac, ip=pair.initiator.ip, is_request=False, opcode=2 if data else 1, version=0,
            psn=answers[-1].header.psn + 1 + index, dpdcid=0, spdcid=generator.getrandbits(16),
            message_id=answers[-1].header.message_id + 1 + index,
            return_code=generator.choice([0, 1, 1, 1, 2, 28, 63]), modified_length=generator.getrandbits(32),
        )  # fmt: skip
        pair.initiator.device.deliver(liar.frame(header, data), pair.network.now + 2000)  # type: ignore[attr-defined]
        status = pair.local.completion()["status"]
        expected = header.return_code
        if expected == ReturnCode.OK and len(data) != 8:
            expected = ReturnCode.UNCOR
        assert status == expected
        good += status == ReturnCode.OK
    assert good
    assert result[:] == b"\xee" * 1024 + bytes(8) + b"\xee" * (SIZE - 1032)


@pytest.mark.parametrize("seed", range(2))
def test_random_register_writes_never_raise_nor_touch_memory(device_pair: Pair, seed: int) -> None:
    device = device_pair.initiator.device
    region = device_pair.initiator.buffer(SIZE, fill=0xA5)
    generator = random.Random(seed)
    device_pair.initiator.set("contexts", 0, control=0)
    for _ in range(3000):
        block = generator.choice([0, 0x1000, 0x2000, 0x3000, 0x4000, 0x5000, *range(0x2_0000, 0x2_4000, 0x1000)])
        offset = block + 4 * generator.randrange(0x60)
        device.write(offset, generator.choice([0, 1, 2, generator.getrandbits(16), generator.getrandbits(32)]))
        assert 0 <= device.read(offset) < 1 << 32
    device_pair.run(20)
    assert region[:] == b"\xa5" * SIZE
