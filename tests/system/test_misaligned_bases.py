"""Found B7: a driver may write any address, and user buffers may lie anywhere.

The registers of rings, slots, answer memory and event counters have no low bits. Before, the RTL sent bursts across
4 KiB, which end a simulation, and model and RTL looked for entries at different places.
"""

from collections.abc import Callable

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode, EventKind
from amoeba_model.wire.uet import ReturnCode

from tests.support.pairs import PAIRS
from tests.support.raw_driver import Buffer, Pair, RawContext, RawNic

MakePair = Callable[..., Pair]
PAGE = 4096
BEFORE_A_PAGE = 0xFC0
KEY = 0x77
KINDS = pytest.mark.parametrize("make_pair", PAIRS[:2], indirect=True)


class Displaced(Buffer):
    """A buffer whose first bytes are the last ones of a page."""

    def __init__(self, size: int, fill: int = 0, offset: int = BEFORE_A_PAGE) -> None:
        super().__init__(size + PAGE, fill)
        self.address += offset
        self.size = size


def misalign(nic: RawNic, low: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let rings and slots begin before a page, and set these bits in each address that is not 0."""
    write = nic.set_wide

    def buffer(size: int, fill: int = 0, *, writable: bool = True, context: int | None = None) -> Buffer:
        made = Displaced(size, fill)
        nic.device.grant(made.address, size, writable=writable, context=context)
        nic._granted.append(made)
        return made

    def set_wide(block: str, index: int = 0, **values: int) -> None:
        write(block, index, **{name: value | low if value else 0 for name, value in values.items()})

    monkeypatch.setattr(nic, "buffer", buffer)
    monkeypatch.setattr(nic, "set_wide", set_wide)


@KINDS
@pytest.mark.parametrize("low", [0x20, 0x3F, 0x08])
def test_b7_low_bits_of_addresses_are_ignored(make_pair: MakePair, monkeypatch: pytest.MonkeyPatch, low: int) -> None:
    """0x20 makes the row's input: each base ends in 0xFE0."""
    pair = make_pair()
    contexts: list[RawContext] = []
    with monkeypatch.context() as patch:
        for nic in (pair.initiator, pair.target):
            misalign(nic, low, patch)
            contexts.append(nic.context(1, event_size=5, receive_size=4))
            nic.answer_memory()
            nic.counter_memory()
    sender, receiver = contexts
    pair.initiator.peer(1, receiver, context=1, initial_psn=0x5000)
    region = pair.target.buffer(PAGE, fill=0x11)
    pair.target.key(KEY, region.address, PAGE, write_counter=5)
    source, result = pair.initiator.buffer(64, fill=0xAA), pair.initiator.buffer(64)
    there = {"remote_address": region.address, "remote_key": KEY, "length": 64, "peer": 1}
    for _ in range(10):
        sender.put(opcode=DescriptorOpcode.WRITE, flags=DescriptorFlags.COMPLETION, local=source.address, **there)
    sender.ring()
    assert [sender.completion()["status"] for _ in range(10)] == [ReturnCode.OK] * 10
    assert sender.execute(opcode=DescriptorOpcode.READ, result=result.address, **there)["status"] == ReturnCode.OK
    assert result[:] == b"\xaa" * 64
    send = {"opcode": DescriptorOpcode.SEND, "length": 64, "local": source.address, "peer": 1}
    places = [pair.target.buffer(64) for _ in range(6)]
    for place in places:
        receiver.put_receive(address=place.address, length=64)
    receiver.ring_receives()
    pair.run(20)
    for _ in range(7):
        assert sender.execute(**send)["status"] == ReturnCode.OK
    assert [receiver.event()["kind"] for _ in range(6)] == [EventKind.RECEIVED] * 6
    assert [place[:] for place in places] == [b"\xaa" * 64] * 6
    kept = pair.target.buffer(64)
    receiver.receive(address=kept.address, length=64)
    event = receiver.event()
    assert event["kind"] == EventKind.UNEXPECTED
    assert receiver.slot(event["slot"], 64) == b"\xaa" * 64
    pair.run(20)
    assert pair.target.event_counter(5) == (10, 0)
    assert not pair.initiator.device.faults() + pair.target.device.faults()


@KINDS
def test_b7_buffers_of_programs_lie_anywhere(device_pair: Pair) -> None:
    """Operands, results and regions across the end of a page, at odd addresses."""
    pair, local = device_pair, device_pair.local
    for offset in (0xFE0, 0xFE1, 0xFFF):
        source, result, region = (Displaced(96, fill, offset) for fill in (0x5A, 0, 0))
        for nic, buffer in ((pair.initiator, source), (pair.initiator, result), (pair.target, region)):
            nic.device.grant(buffer.address, buffer.size)
        slot = pair.target.key(Pair.KEY, region.address, region.size)
        there = {"remote_address": region.address, "remote_key": Pair.KEY, "length": 96}
        assert local.execute(opcode=DescriptorOpcode.WRITE, local=source.address, **there)["status"] == ReturnCode.OK
        assert local.execute(opcode=DescriptorOpcode.READ, result=result.address, **there)["status"] == ReturnCode.OK
        assert region[:] == result[:] == b"\x5a" * 96
        pair.target.withdraw(slot)
        for nic, buffer in ((pair.initiator, source), (pair.initiator, result), (pair.target, region)):
            nic.device.revoke(buffer.address, buffer.size)
    assert not pair.initiator.device.faults() + pair.target.device.faults()
