"""Accesses that the host refuses: the status of the request, and the memory that stays as it was."""

from collections.abc import Iterator

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.device import DmaFault
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.registers import Counter
from amoeba_model.wire.codec import DecodedFrame, decode
from amoeba_model.wire.uet import ReturnCode, SesFlags

from tests.support.raw_driver import Buffer, Pair
from tests.support.stranger import WHOLE

INLINE = DescriptorFlags.COMPLETION | DescriptorFlags.INLINE
SIZE = 4096


def faults_of(faults: list[DmaFault]) -> Iterator[tuple[str, bool]]:
    return ((fault.requester, fault.write) for fault in faults)


@pytest.mark.parametrize("opcode", [DescriptorOpcode.WRITE, DescriptorOpcode.ATOMIC])
def test_operands_that_the_host_refuses_end_the_request(device_pair: Pair, region: Buffer, opcode: int) -> None:
    pair = device_pair
    pair.network.recording = True
    source = Buffer(8192)
    pair.initiator.device.grant(source.address, 4096)
    fields = {
        "opcode": opcode, "op": Op.FI_SUM, "datatype": Datatype.FI_UINT64, "remote_address": region.address,
        "remote_key": Pair.KEY,
    }  # fmt: skip
    completion = pair.local.execute(length=8, local=source.address + 4096, **fields)
    assert completion["status"] == ReturnCode.LOCAL_DMA_FAULT
    assert set(faults_of(pair.initiator.device.faults())) == {("OPERAND_FETCH", False)}
    assert pair.initiator.counter(Counter.DMA_READ_ERRORS) == 1
    assert region[:] == b"\xa5" * SIZE
    sent = decode(pair.network.log[0][1].data)
    assert isinstance(sent, DecodedFrame)
    assert (sent.header.opcode, sent.header.flags, sent.payload) == (0, WHOLE | SesFlags.INITIATOR_ERROR, b"")
    assert pair.local.execute(length=8, local=source.address, **fields)["status"] == ReturnCode.OK


def test_a_request_whose_second_packet_cannot_be_read_is_not_sent_further(device_pair: Pair) -> None:
    pair = device_pair
    region = pair.memory(4 * SIZE, fill=0xA5)
    source = Buffer(4 * SIZE, fill=0x11)
    pair.initiator.device.grant(source.address, 4096)
    completion = pair.local.execute(
        opcode=DescriptorOpcode.WRITE, length=4 * SIZE, local=source.address, remote_address=region.address,
        remote_key=Pair.KEY,
    )  # fmt: skip
    assert completion["status"] == ReturnCode.LOCAL_DMA_FAULT
    assert pair.initiator.counter(Counter.REQUESTS_SENT) == 2
    assert region[:] == b"\x11" * 4096 + b"\xa5" * (4 * SIZE - 4096)


def test_the_first_status_in_packet_order_is_that_of_the_request(device_pair: Pair, region: Buffer) -> None:
    pair = device_pair
    source = Buffer(8192, fill=0x11)
    pair.initiator.device.grant(source.address, 4096)
    completion = pair.local.execute(
        opcode=DescriptorOpcode.WRITE, length=8192, local=source.address, remote_address=region.address,
        remote_key=Pair.KEY + 1,
    )  # fmt: skip
    assert completion["status"] == ReturnCode.BAD_MKEY
    assert set(faults_of(pair.initiator.device.faults())) == {("OPERAND_FETCH", False)}


def test_compare_values_that_the_host_refuses_end_the_request(device_pair: Pair, region: Buffer) -> None:
    operands = device_pair.initiator.buffer(64)
    completion = device_pair.local.execute(
        opcode=DescriptorOpcode.COMPARE_ATOMIC, op=Op.FI_CSWAP, datatype=Datatype.FI_UINT64, length=16,
        local=operands.address, compare=Buffer(64).address, remote_address=region.address, remote_key=Pair.KEY,
    )  # fmt: skip
    assert completion["status"] == ReturnCode.LOCAL_DMA_FAULT
    assert set(faults_of(device_pair.initiator.device.faults())) == {("COMPARE_FETCH", False)}
    assert region[:] == b"\xa5" * SIZE


def test_a_region_that_the_host_does_not_grant_is_reported_to_the_initiator(device_pair: Pair) -> None:
    pair = device_pair
    secret = Buffer(4096, fill=0xA5)
    result = pair.initiator.buffer(64, fill=0xEE)
    pair.target.key(Pair.KEY, secret.address, 4096)
    fields = {
        "op": Op.FI_SUM, "datatype": Datatype.FI_UINT64, "flags": INLINE, "length": 8, "result": result.address,
        "remote_address": secret.address, "remote_key": Pair.KEY,
    }  # fmt: skip
    for opcode in (DescriptorOpcode.READ, DescriptorOpcode.ATOMIC, DescriptorOpcode.FETCH_ATOMIC):
        assert pair.local.execute(opcode=opcode, **fields)["status"] == ReturnCode.HOST_UNSUCCESS_CMPL
        assert set(faults_of(pair.target.device.faults())) == {("LINE_TABLE", False)}
    assert secret[:] == b"\xa5" * 4096
    assert result[:] == b"\xee" * 64
    pair.target.device.grant(secret.address, 4096)
    assert pair.local.execute(opcode=DescriptorOpcode.FETCH_ATOMIC, **fields)["status"] == ReturnCode.OK
    assert result[:8] == b"\xa5" * 8


def test_a_request_over_partly_granted_memory_leaves_what_was_refused_alone(device_pair: Pair) -> None:
    """The content of the granted lines afterwards is open, element by element: the old value or the new one."""
    pair = device_pair
    memory = Buffer(8192, fill=0xA5)
    pair.target.device.grant(memory.address, 4096)
    pair.target.key(Pair.KEY, memory.address, 8192)
    result = pair.initiator.buffer(4096, fill=0xEE)
    operands = pair.initiator.buffer(128, fill=0x11)
    fields = {
        "op": Op.FI_SUM, "datatype": Datatype.FI_UINT64, "local": operands.address, "length": 128,
        "result": result.address, "remote_address": memory.address + 4096 - 64, "remote_key": Pair.KEY,
    }  # fmt: skip
    for opcode, status, new in (
        (DescriptorOpcode.READ, ReturnCode.HOST_UNSUCCESS_CMPL, 0xA5),
        (DescriptorOpcode.FETCH_ATOMIC, ReturnCode.HOST_UNSUCCESS_CMPL, 0xB6),
        (DescriptorOpcode.ATOMIC, ReturnCode.HOST_UNSUCCESS_CMPL, 0xB6),
        (DescriptorOpcode.WRITE, ReturnCode.OK, 0x11),
    ):
        memory[0] = b"\xa5" * 4096
        assert pair.local.execute(opcode=opcode, **fields)["status"] == status
        faults = pair.target.device.faults()
        assert set(faults_of(faults)) == {("LINE_TABLE", opcode == DescriptorOpcode.WRITE)}
        assert all(fault.address + fault.size > memory.address + 4096 for fault in faults)
        assert memory[: 4096 - 64] == b"\xa5" * (4096 - 64)
        assert memory[4096:] == b"\xa5" * 4096
        for place in range(4096 - 64, 4096, 8):
            assert memory[place : place + 8] in (b"\xa5" * 8, bytes([new]) * 8)
    assert result[:] == b"\xee" * 4096
    memory[0] = b"\xa5" * 4096
    fields |= {"remote_address": memory.address, "length": 8}
    assert pair.local.execute(opcode=DescriptorOpcode.FETCH_ATOMIC, **fields)["status"] == ReturnCode.OK
    assert memory[:16] == b"\xb6" * 8 + b"\xa5" * 8
    assert result[:8] == b"\xa5" * 8


def test_a_result_buffer_that_the_host_refuses_is_not_written(device_pair: Pair, region: Buffer) -> None:
    pair = device_pair
    result = Buffer(4096, fill=0xEE)
    pair.initiator.device.grant(result.address, 4096, writable=False)
    fields = {"opcode": DescriptorOpcode.READ, "length": 8, "remote_address": region.address, "remote_key": Pair.KEY}
    assert pair.local.execute(result=result.address, **fields)["status"] == ReturnCode.OK  # writes are posted
    (fault,) = pair.initiator.device.faults()
    assert (fault.requester, fault.write) == ("RESULT_WRITER", True)
    assert fault.address <= result.address < fault.address + fault.size
    pair.run(1)  # the host's answer to that write may come after the completion
    assert pair.initiator.counter(Counter.DMA_WRITE_ERRORS) == 1
    assert result[:] == b"\xee" * 4096


def test_memory_is_out_of_reach_once_its_grant_is_revoked(device_pair: Pair, region: Buffer) -> None:
    pair = device_pair
    fields = {"flags": INLINE, "length": 8, "remote_address": region.address, "remote_key": Pair.KEY}
    write = {**fields, "opcode": DescriptorOpcode.WRITE}
    assert pair.local.execute(local=1, **write)["status"] == ReturnCode.OK
    pair.target.device.revoke(region.address, SIZE)
    add = {**fields, "opcode": DescriptorOpcode.ATOMIC, "op": Op.FI_SUM, "datatype": Datatype.FI_UINT64}
    assert pair.local.execute(local=2, **add)["status"] == ReturnCode.HOST_UNSUCCESS_CMPL
    assert set(faults_of(pair.target.device.faults())) == {("LINE_TABLE", False)}
    assert pair.local.execute(local=3, **write)["status"] == ReturnCode.OK  # writes are posted
    assert set(faults_of(pair.target.device.faults())) == {("LINE_TABLE", True)}
    assert pair.target.counter(Counter.DMA_WRITE_ERRORS) == 1
    assert region.integer(0) == 1
