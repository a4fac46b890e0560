"""Immediate data at the target: who it is from, and what refuses it."""

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode, EventKind
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.registers import ContextControl, KeyFlags
from amoeba_model.wire.uet import ReturnCode

from tests.support.raw_driver import ALL_RIGHTS, Buffer, Pair

DATA = 0x0123_4567_89AB_CDEF
CERTAIN = 0xCE
OK, DISABLED = ReturnCode.OK, ReturnCode.DISABLED


@pytest.fixture
def region(device_pair: Pair) -> Buffer:
    return device_pair.memory()


def fields(region: Buffer, opcode: DescriptorOpcode, **changes: int) -> dict[str, int]:
    """Of a request of 8 bytes with immediate data."""
    inline = DescriptorFlags(0) if opcode == DescriptorOpcode.READ else DescriptorFlags.INLINE
    return {
        "opcode": opcode, "op": Op.FI_SUM, "datatype": Datatype.FI_UINT64, "local": 5, "length": 8, "compare": DATA,
        "flags": DescriptorFlags.COMPLETION | DescriptorFlags.IMMEDIATE | inline,
        "remote_address": region.address, "remote_key": Pair.KEY, **changes,
    }  # fmt: skip


@pytest.mark.parametrize("initiator", [0, 2, 0xABC])
def test_an_event_names_its_source_as_the_senders_peer_entry_says(
    device_pair: Pair, region: Buffer, initiator: int
) -> None:
    pair = device_pair
    pair.remote = pair.target.context(event_size=3)
    pair.initiator.peer(9, pair.remote, initiator=initiator)
    assert pair.local.execute(**fields(region, DescriptorOpcode.WRITE, peer=9))["status"] == OK
    event = pair.remote.poll_event()
    assert event is not None
    assert (event["source_ip"], event["source_context"], event["source_pdc"]) == (pair.initiator.ip, initiator, 9)


def test_a_context_may_take_the_immediate_data_of_reads_by_certain_keys_alone(
    device_pair: Pair, region: Buffer
) -> None:
    pair = device_pair
    pair.target.key(CERTAIN, region.address, 4096, flags=ALL_RIGHTS | KeyFlags.DATA)
    pair.remote = pair.target.context(event_size=3, control=ContextControl.ENABLE | ContextControl.DATA_BY_KEY)
    result = pair.initiator.buffer(64)
    for opcode, key in (
        (DescriptorOpcode.WRITE, CERTAIN),
        (DescriptorOpcode.ATOMIC, CERTAIN),
        (DescriptorOpcode.FETCH_ATOMIC, CERTAIN),
        (DescriptorOpcode.READ, Pair.KEY),
        (DescriptorOpcode.READ, 1),  # which is not there
    ):
        refused = fields(region, opcode, result=result.address, remote_key=key)
        assert pair.local.execute(**refused)["status"] == DISABLED
    read = fields(region, DescriptorOpcode.READ, result=result.address, remote_key=CERTAIN)
    assert pair.local.execute(**read)["status"] == OK
    event = pair.remote.poll_event()
    assert event is not None
    assert (event["kind"], event["data"]) == (EventKind.REMOTE_READ, DATA)
    assert pair.remote.poll_event() is None
    without = fields(region, DescriptorOpcode.WRITE)
    without["flags"] &= ~DescriptorFlags.IMMEDIATE
    assert pair.local.execute(**without)["status"] == OK
    assert region[:8] == (5).to_bytes(8, "little")
