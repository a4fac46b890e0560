"""The grants of one context are out of reach of the others: row 10 of the hostile list (test_hostile_rows.py).

A context's descriptors could name all memory that its NIC was granted, and every event counter. Each test is one of
the ways that were used, with the figure or finding of the NIC that had no answer yet.
"""

from collections.abc import Callable

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode, EventKind
from amoeba_model.device import DeviceError
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.trace import NO_CONTEXT
from amoeba_model.wire.uet import ReturnCode

from tests.support.pairs import PAIRS
from tests.support.raw_driver import Pair

MakePair = Callable[..., Pair]
OK = ReturnCode.OK
INLINE = DescriptorFlags.COMPLETION | DescriptorFlags.INLINE
SUM = {"op": Op.FI_SUM, "datatype": Datatype.FI_UINT64}
COUNTER = 5
LATE = 100
"""Steps in which everything that is in flight has ended."""


class Neighbours:
    """Contexts ``a`` and ``b`` of one NIC with rings of their own, a buffer of b's, and a region at the target."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.nic = pair.initiator
        self.nic.private = True
        self.a = self.nic.context(0, event_size=5, receive_size=4)
        self.b = self.nic.context(1, event_size=5, receive_size=4)
        for number in range(2):
            self.nic.peer(number, pair.remote, context=number, initial_psn=0x4000 * (1 + number))
        self.secret = self.nic.buffer(4096, fill=0x5E, context=1)
        self.region = pair.memory(4096, fill=0x11)

    def ask(self, **fields: int) -> dict[str, int]:
        """Fields of a descriptor that concerns the region's first bytes; ``peer``: 0 of a's, 1 of b's."""
        return {"remote_address": self.region.address, "remote_key": Pair.KEY, "length": 64, **fields}

    def refused(self) -> set[tuple[str, int | None]]:
        """(requester, context) of what the host has refused since the last call."""
        self.pair.run(LATE)
        return {(fault.requester, fault.context) for fault in self.nic.device.faults()}

    def untouched(self) -> bool:
        return self.secret[:] == b"\x5e" * self.secret.size


@pytest.fixture
def neighbours(make_pair: MakePair) -> Neighbours:
    return Neighbours(make_pair())


KINDS = pytest.mark.parametrize("make_pair", PAIRS[:2], indirect=True)
"""Each kind of device with its like."""


@KINDS
def test_a_context_does_not_send_another_s_buffer_away(neighbours: Neighbours) -> None:
    """Before, the access ended with status OK."""
    a, secret = neighbours.a, neighbours.secret.address
    for fields in (
        {"opcode": DescriptorOpcode.WRITE, "local": secret},
        {"opcode": DescriptorOpcode.ATOMIC, "local": secret, **SUM},
        {"opcode": DescriptorOpcode.COMPARE_ATOMIC, **SUM, "op": Op.FI_CSWAP, "local": secret, "compare": secret},
    ):  # fmt: skip
        assert a.execute(**neighbours.ask(**fields))["status"] == ReturnCode.LOCAL_DMA_FAULT
    assert neighbours.region[:] == b"\x11" * 4096
    assert neighbours.refused() == {("OPERAND_FETCH", 0), ("COMPARE_FETCH", 0)}
    # whose it is may
    assert neighbours.b.execute(**neighbours.ask(opcode=DescriptorOpcode.WRITE, local=secret, peer=1))["status"] == OK
    assert neighbours.region[:64] == b"\x5e" * 64


@KINDS
def test_a_context_does_not_overwrite_another_s_buffer_with_what_it_reads(neighbours: Neighbours) -> None:
    """Before, the access ended with status OK."""
    secret = neighbours.secret.address
    neighbours.a.execute(**neighbours.ask(opcode=DescriptorOpcode.READ, result=secret))
    neighbours.a.execute(**neighbours.ask(opcode=DescriptorOpcode.FETCH_ATOMIC, flags=INLINE, length=8, local=1,
                                          result=secret, **SUM))  # fmt: skip
    assert neighbours.refused() == {("RESULT_WRITER", 0)}
    assert neighbours.untouched()
    read = neighbours.ask(opcode=DescriptorOpcode.READ, result=secret, remote_address=neighbours.region.address + 64)
    assert neighbours.b.execute(**read, peer=1)["status"] == OK
    assert neighbours.secret[:64] == b"\x11" * 64


@KINDS
@pytest.mark.parametrize("ring", ["completions", "events", "transmit"])
def test_a_context_does_not_write_to_another_s_rings(neighbours: Neighbours, ring: str) -> None:
    """Before, the NIC wrote a completion there that the other took for its own; descriptors were possible, too."""
    place = getattr(neighbours.b, ring)
    before = place[:]
    neighbours.region[0] = b"\xff" * 4096  # phase and all
    neighbours.a.execute(**neighbours.ask(opcode=DescriptorOpcode.READ, result=place.address))
    assert neighbours.refused() == {("RESULT_WRITER", 0)}
    assert place[:] == before
    assert neighbours.b.poll() is None
    assert neighbours.b.poll_event() is None


@KINDS
def test_a_context_does_not_advance_another_s_event_counter(neighbours: Neighbours) -> None:
    """Any descriptor advanced any."""
    nic = neighbours.nic
    nic.counter_memory()
    write = neighbours.ask(opcode=DescriptorOpcode.WRITE, flags=INLINE, length=8, counter=COUNTER)

    def counted() -> tuple[int, int]:
        assert neighbours.a.execute(**write)["status"] == OK
        assert neighbours.b.execute(**write, peer=1)["status"] == OK
        neighbours.pair.run(LATE)
        return nic.event_counter(COUNTER)

    nic.set("device", counter_clear=COUNTER, counter_contexts=1 << 1, counter_admit=COUNTER)
    assert counted() == (1, 0)
    nic.set("device", counter_contexts=0, counter_admit=COUNTER)
    assert counted() == (1, 0)
    nic.set("device", counter_contexts=0b11, counter_admit=COUNTER)
    assert counted() == (3, 0)
    nic.set("device", counter_contexts=0, counter_admit=COUNTER, counter_clear=COUNTER)  # which lets all in
    assert counted() == (2, 0)


@KINDS
def test_a_receive_neither_counts_nor_reaches_what_belongs_to_another(neighbours: Neighbours) -> None:
    """A receive put messages, and let tagged atomics of a peer change something, wherever it said."""
    nic, secret = neighbours.nic, neighbours.secret
    nic.counter_memory()
    nic.set("device", counter_contexts=1 << 1, counter_admit=COUNTER)
    neighbours.a.receive(address=secret.address, length=64, counter=COUNTER)
    neighbours.a.receive(address=secret.address + 8, length=64, tag=3, flags=1)
    neighbours.pair.run(LATE)
    source = neighbours.pair.target.buffer(64, fill=0xAA)
    message = {"opcode": DescriptorOpcode.SEND, "length": 64, "local": source.address}
    neighbours.pair.remote.execute(**message)
    atomic = {"opcode": DescriptorOpcode.TAGGED_ATOMIC, "flags": INLINE, "length": 8, "local": 1, "remote_key": 3}
    entry = neighbours.pair.remote.execute(**atomic, **SUM)
    assert entry["status"] == ReturnCode.HOST_UNSUCCESS_CMPL
    assert neighbours.refused() == {("LINE_TABLE", 0)}
    assert neighbours.untouched()
    assert nic.event_counter(COUNTER) == (0, 0)
    assert [neighbours.a.event()["kind"] for _ in range(2)] == [EventKind.RECEIVED, EventKind.ATOMIC_RECEIVED]


@KINDS
def test_a_key_reaches_regions_and_nothing_that_belongs_to_a_context(neighbours: Neighbours) -> None:
    """Rings, slots and buffers are no regions, for any content of the key table."""
    nic, remote = neighbours.nic, neighbours.pair.remote
    region = nic.buffer(4096, fill=0x22, context=NO_CONTEXT)
    nic.key(0x77, region.address, 4096)
    nic.key(0x78, neighbours.secret.address, 4096)
    add = {"opcode": DescriptorOpcode.ATOMIC, "flags": INLINE, "length": 8, "local": 1, **SUM}
    assert remote.execute(**add, remote_address=region.address, remote_key=0x77)["status"] == OK
    entry = remote.execute(**add, remote_address=neighbours.secret.address, remote_key=0x78)
    assert entry["status"] == ReturnCode.HOST_UNSUCCESS_CMPL
    assert region.integer(0) == 0x2222_2222_2222_2223
    assert neighbours.refused() == {("LINE_TABLE", NO_CONTEXT)}
    assert neighbours.untouched()
    # nor does a region belong to whoever names it
    entry = neighbours.b.execute(**neighbours.ask(opcode=DescriptorOpcode.WRITE, local=region.address, peer=1))
    assert entry["status"] == ReturnCode.LOCAL_DMA_FAULT


@KINDS
def test_a_line_that_is_there_for_one_is_not_there_for_another(neighbours: Neighbours) -> None:
    """Peers keep the region's line on the NIC, while a message for a context that may not touch it arrives."""
    nic, remote = neighbours.nic, neighbours.pair.remote
    region = nic.buffer(4096, context=NO_CONTEXT)
    nic.key(0x77, region.address, 4096)
    source = neighbours.pair.target.buffer(64, fill=0xAA)
    add = {"opcode": DescriptorOpcode.ATOMIC, "flags": DescriptorFlags.INLINE, "length": 8, "local": 1, **SUM}
    for _ in range(4):
        neighbours.a.receive(address=region.address, length=8)
    neighbours.pair.run(LATE)
    for _ in range(4):
        for _ in range(2):
            remote.put(**add, remote_address=region.address, remote_key=0x77)
        remote.put(opcode=DescriptorOpcode.SEND, length=8, local=source.address)
    remote.ring()
    neighbours.pair.run(4 * LATE)
    assert region.integer(0) == 8
    assert neighbours.refused() == {("LINE_TABLE", 0)}


@KINDS
def test_what_was_granted_is_revoked_for_the_same_context(make_pair: MakePair) -> None:
    nic = make_pair().initiator
    buffer = nic.buffer(4096, context=1)
    with pytest.raises(DeviceError, match="never granted to context 2"):
        nic.device.revoke(buffer.address, 4096, context=2)
    with pytest.raises(DeviceError, match="never granted"):
        nic.device.revoke(buffer.address, 4096)
    nic.device.revoke(buffer.address, 4096, context=1)
    with pytest.raises(DeviceError, match="expected a context, 0 to 255"):
        nic.device.grant(buffer.address, 4096, context=256)
