"""Messages of several packets, by model and RTL: random WRITEs in parts, right and wrong, and long atomics.

The RTL is the smallest NIC, with packets of 1,024 bytes.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode, EventKind
from amoeba_model.network import SimulatedDevice
from amoeba_model.nic import ModelDevice
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import BUILDS, NicParameters
from amoeba_model.registers import Counter
from amoeba_model.wire.uet import RequestOpcode, ReturnCode, SesFlags, message_place

from tests.support.messages import Mailbox
from tests.support.raw_driver import Buffer, Pair, connect
from tests.support.stranger import Stranger

OK = ReturnCode.OK
START, END, HEADER_DATA = SesFlags.START_OF_MESSAGE, SesFlags.END_OF_MESSAGE, SesFlags.HEADER_DATA
SIZE = 1 << 14
TINY = BUILDS["tiny"]
LIES: list[Callable[[dict[str, Any]], dict[str, Any]]] = [
    lambda fields: {"message_id": fields["message_id"] ^ 1},
    lambda fields: {"request_length": fields["request_length"] + 1},
    lambda fields: {"buffer_offset": fields["buffer_offset"] + 1},
    lambda fields: {"memory_key": fields["memory_key"] ^ 1},
    lambda fields: {"header_data": fields["header_data"] + 1},
    lambda fields: {"header_data": fields["header_data"] ^ 1 << 32},
    lambda fields: {"flags": fields["flags"] ^ END},
    lambda fields: {"initiator": 3},
    lambda fields: {"opcode": 2},
]
"""Ways in which a part behind the first one does not continue its message."""


def _rtl(parameters: NicParameters) -> SimulatedDevice:
    from amoeba_sim.rtl import open_rtl

    return open_rtl(parameters, host_latency=40)


@pytest.fixture(params=[ModelDevice, _rtl], ids=["model", "tiny"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    pair = connect(request.param, request.param, TINY)
    yield pair
    for nic in (pair.initiator, pair.target):
        nic.device.close()


def parts_of(generator: random.Random, region: Buffer, number: int) -> list[tuple[bytes, dict[str, Any]]]:
    """Payload and fields of each packet of a random WRITE."""
    sizes = [generator.choice((1, 8, 33, TINY.payload)) for _ in range(generator.randint(2, 4))]
    content, same = generator.randbytes(sum(sizes)), {"message_id": number, "request_length": sum(sizes)}
    same["buffer_offset"] = region.address + generator.randrange(SIZE - sum(sizes))
    flags, parts, at = generator.choice((0, HEADER_DATA)), [], 0
    for size in sizes:
        end = at + size
        place = {"header_data": message_place(size, at) if at else number, "memory_key": Pair.KEY}
        place["flags"] = flags | (0 if at else START) | (END if end == len(content) else 0)
        parts.append((content[at:end], {**same, **place}))
        at = end
    return parts


@pytest.mark.parametrize("seed", range(2))
def test_a_message_is_told_whole_or_not_at_all(pair: Pair, seed: int) -> None:
    generator = random.Random(seed)
    context = pair.target.context(event_size=4)
    region = pair.memory(SIZE)
    pair.target.key(Pair.KEY ^ 1, region.address, SIZE)
    stranger = Stranger(pair)
    told = 0
    for number in range(40):
        parts = parts_of(generator, region, number)
        wrong = generator.choice((None, None, *range(1, len(parts))))
        before = region[:]
        done = 0
        for place, (payload, fields) in enumerate(parts):
            lie = generator.choice(LIES)(fields) if place == wrong else {}
            code = stranger.ask(payload, context=context, **{**fields, **lie}).header.return_code
            assert (code == OK) == (wrong is None or place < wrong), (place, wrong, lie)
            done += len(payload) if code == OK else 0
        at = parts[0][1]["buffer_offset"] - region.address
        content = b"".join(payload for payload, _ in parts)[:done]
        assert region[:] == before[:at] + content + before[at + done :]
        event = context.poll_event()
        if wrong is None and parts[0][1]["flags"] & HEADER_DATA:
            assert event is not None
            assert (event["data"], event["length"], event["address"]) == (number, done, region.address + at)
            told += 1
        else:
            assert event is None
    assert told > 5


def test_a7_a_write_of_ten_thousand_bytes_is_reported_with_its_length(pair: Pair) -> None:
    context = pair.target.context(event_size=4)
    region, source = pair.memory(SIZE), pair.initiator.buffer(SIZE, fill=0x5A)
    status = pair.local.execute(
        opcode=DescriptorOpcode.WRITE, flags=DescriptorFlags.COMPLETION | DescriptorFlags.IMMEDIATE, length=10_000,
        local=source.address, remote_address=region.address, remote_key=Pair.KEY, compare=0x123,
    )["status"]  # fmt: skip
    event = context.poll_event()
    assert event is not None
    assert (status, event["data"], event["length"], event["address"]) == (OK, 0x123, 10_000, region.address)
    assert region[:10_001] == source[:10_000] + b"\0"


ATOMICS = {DescriptorOpcode.ATOMIC: Op.FI_SUM, DescriptorOpcode.FETCH_ATOMIC: Op.FI_SUM,
           DescriptorOpcode.COMPARE_ATOMIC: Op.FI_CSWAP}  # fmt: skip


@pytest.mark.parametrize("opcode", ATOMICS, ids=lambda opcode: opcode.name)
def test_a8_a_long_atomic_is_executed_once_or_refused_whole(pair: Pair, opcode: DescriptorOpcode) -> None:
    count = 5 * TINY.payload // 16  # two and a half packets, or five of a compare atomic
    region, result = pair.memory(8 * count), pair.initiator.buffer(8 * count)
    ones, zeros = pair.initiator.buffer(8 * count + 8), pair.initiator.buffer(8 * count + 8)
    ones[0] = (1).to_bytes(8, "little") * (count + 1)
    atomic = {"opcode": opcode, "op": ATOMICS[opcode], "datatype": Datatype.FI_UINT64, "remote_key": Pair.KEY,
              "remote_address": region.address, "local": ones.address, "compare": zeros.address,
              "result": result.address}  # fmt: skip
    assert pair.local.execute(**atomic, length=8 * count + 8)["status"] == ReturnCode.BAD_ADDR
    assert region[:] == bytes(8 * count)
    assert pair.local.execute(**atomic, length=8 * count)["status"] == OK
    assert region[:] == ones[: 8 * count]
    assert pair.local.execute(**atomic, length=8 * count)["status"] == OK
    swapped = opcode == DescriptorOpcode.COMPARE_ATOMIC
    assert region[:] == (1 if swapped else 2).to_bytes(8, "little") * count
    assert result[:] == (bytes(8 * count) if opcode == DescriptorOpcode.ATOMIC else ones[: 8 * count])


def test_operands_refused_halfway_end_the_message_without_an_event(pair: Pair) -> None:
    context = pair.target.context(event_size=4)
    region, source = pair.memory(SIZE), Buffer(SIZE, fill=0x5A)
    pair.initiator.device.grant(source.address, 4096)
    write = {"opcode": DescriptorOpcode.WRITE, "flags": DescriptorFlags.COMPLETION | DescriptorFlags.IMMEDIATE,
             "local": source.address, "remote_address": region.address, "remote_key": Pair.KEY}  # fmt: skip
    assert pair.local.execute(**write, length=10_000)["status"] == ReturnCode.LOCAL_DMA_FAULT
    assert pair.local.execute(**write, length=4096, compare=7)["status"] == OK
    event = context.poll_event()
    assert event is not None
    assert (event["data"], event["length"]) == (7, 4096)
    assert region[4096:] == bytes(SIZE - 4096)


def test_long_sends_go_to_the_receives_that_their_first_packets_meet(pair: Pair) -> None:
    box, generator, payload = Mailbox(pair), random.Random(5), TINY.payload
    assert box.send(payload + 1) == ReturnCode.NO_MATCH
    for number in range(10):
        length = generator.choice((payload + 1, 2 * payload, 3 * payload - 5, generator.randint(1, 4 * payload)))
        space = generator.choice((length, length + 9, length // 2, 0))
        place, start = generator.randrange(64), generator.randrange(64)
        tag = generator.choice(({}, {"tag": 6}))
        box.buffer[0] = bytes(box.SIZE)
        box.receive(place, space, context=number, **tag)
        pair.run(100)  # the NIC reads the descriptor before the message comes
        assert box.send(length, start, **tag) == OK
        (event,) = box.events(1)
        status = OK if length <= space else ReturnCode.TOO_LONG
        assert (event["kind"], event["status"], event["length"]) == (EventKind.RECEIVED, status, length)
        fits = min(length, space)
        assert box.buffer[: place + fits + 64] == bytes(place) + box.sent(fits, start) + bytes(64)
    assert pair.target.counter(Counter.MESSAGES_MATCHED) == 10


def test_a_context_that_was_disabled_hears_nothing_of_the_messages_before(pair: Pair) -> None:
    box, target = Mailbox(pair), pair.target
    stranger = Stranger(pair)
    target.counter_memory()
    part = {"opcode": RequestOpcode.SEND, "flags": START, "request_length": 9}
    for is_disabled in (False, True):
        box.receive(0, 64, counter=1)
        pair.run(100)  # the NIC reads the descriptor before the message comes
        assert stranger.ask(bytes(8), **part).header.return_code == OK
        if is_disabled:
            target.set("contexts", control=0)
            box = Mailbox(pair)
        assert stranger.ask(opcode=RequestOpcode.NO_OP).header.return_code == OK
        assert [event["status"] for event in box.events(not is_disabled)] == [0x23] * (not is_disabled)
        assert target.event_counter(1) == (0, 1)
