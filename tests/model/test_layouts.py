"""Layouts against bytes and addresses typed by hand, and what a wrong declaration or use says.

Covers ``layout.py``, ``unroll.py``, ``nic/registers.py`` and ``registers.py``.
"""

import random
import struct

import numpy as np
import pytest
from amoeba_model.descriptors import COMPLETION, EVENT, TX_DESCRIPTOR
from amoeba_model.layout import Access, Field, LayoutError, Record, Register, RegisterBlock
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import DOORBELL_REGISTERS, bar_blocks, key_slots
from amoeba_model.trace import TRACE_EVENT
from amoeba_model.unroll import packer, unpacker
from amoeba_model.wire.uet import WIRE_RECORDS

DESCRIPTOR_BYTES = bytes.fromhex(
    "04 02 07 03"  # FETCH_ATOMIC, FI_SUM, FI_UINT64, COMPLETION | INLINE
    "08 00 00 00"  # length
    "05 00 00 00 00 00 00 00"  # peer, reserved
    "f0 de bc 9a 78 56 34 12"  # remote address
    "ef cd ab 89 67 45 23 01"  # remote key
    "25 00 00 00 00 00 00 00"  # local: the operand 37
    "00 10 00 00 ff 7f 00 00"  # result
    "00 00 00 00 00 00 00 00"  # compare
    "63 00 00 00 00 00 00 80"  # context
)
DESCRIPTOR_FIELDS = {
    "opcode": 4,
    "op": 2,
    "datatype": 7,
    "flags": 3,
    "length": 8,
    "peer": 5,
    "remote_address": 0x123456789ABCDEF0,
    "remote_key": 0x0123456789ABCDEF,
    "local": 37,
    "result": 0x7FFF_0000_1000,
    "context": 0x8000_0000_0000_0063,
}
COMPLETION_BYTES = bytes.fromhex(
    "63 00 00 00 00 00 00 80"  # context
    "00 00 00 00 00 00 00 00"  # data
    "08 00 00 00"  # length
    "fe ff"  # descriptor 65534
    "04 1c"  # FETCH_ATOMIC, BAD_MKEY
    "00 00 00 00 00 00 00 80"  # reserved, phase
)
COMPLETION_FIELDS = {
    "context": 0x8000_0000_0000_0063,
    "length": 8,
    "descriptor": 65534,
    "opcode": 4,
    "status": 0x1C,
    "flags": 0x80,
}
EVENT_BYTES = bytes.fromhex(
    "00 00 00 00 00 00 00 00"  # context
    "ef cd ab 89 67 45 23 01"  # data
    "00 00 00 00 00 00 00 00"  # tag
    "00 10 00 00 ff 7f 00 00"  # address
    "00 10 00 00"  # length
    "02 00 00 0a"  # source_ip
    "03 00 00 00"  # source_context
    "1f 00 00 00"  # source_pdc, reserved
    "00 00 00 00 00 00 00 00"  # reserved
    "00 00 00 00"  # reserved
    "00 01 01 81"  # reserved, REMOTE_WRITE, OK, PHASE | IMMEDIATE
)
EVENT_FIELDS = {
    "data": 0x0123456789ABCDEF,
    "address": 0x7FFF_0000_1000,
    "length": 4096,
    "source_ip": 0x0A00_0002,
    "source_context": 3,
    "source_pdc": 31,
    "kind": 1,
    "status": 1,
    "flags": 0x81,
}


@pytest.mark.parametrize(
    ("record", "fields", "data"),
    [
        (TX_DESCRIPTOR, DESCRIPTOR_FIELDS, DESCRIPTOR_BYTES),
        (COMPLETION, COMPLETION_FIELDS, COMPLETION_BYTES),
        (EVENT, EVENT_FIELDS, EVENT_BYTES),
    ],
    ids=["descriptor", "completion", "event"],
)
def test_ring_entries_have_the_bytes_of_the_specification(
    record: Record, fields: dict[str, int], data: bytes
) -> None:
    assert record.pack(**fields) == data
    assert {name: value for name, value in record.unpack(data).items() if value} == fields
    row = np.frombuffer(data, record.dtype())[0]
    assert {name: int(row[name]) for name in fields} == fields


def test_trace_events_have_the_bits_of_the_specification() -> None:
    assert TRACE_EVENT.pack(psn=0x11223344, pdc=0x5566, context=0x77, status=0x88) == struct.pack(
        "<IHBB", 0x11223344, 0x5566, 0x77, 0x88
    )


def test_registers_lie_at_the_addresses_of_the_specification() -> None:
    blocks = {placed.block.name: placed for placed in bar_blocks(NicParameters())}
    addresses = {
        ("device", "abi_version", 0): 0x0010,
        ("device", "mac_low", 0): 0x0030,
        ("device", "ip", 0): 0x0038,
        ("atomics", "base", 2): 0x1028,
        ("atomics", "compare", 18): 0x1168,
        ("contexts", "control", 0): 0x2040,
        ("device", "retransmit_timeout", 0): 0x0040,
        ("device", "answer_base_high", 0): 0x004C,
        ("contexts", "transmit_base_low", 1): 0x20C4,
        ("contexts", "pid_on_fep", 3): 0x21E4,
        ("contexts", "event_size", 2): 0x2170,
        ("contexts", "receive_size", 0): 0x207C,
        ("contexts", "write_counter", 1): 0x210C,
        ("device", "counter_clear", 0): 0x0064,
        ("device", "counter_contexts", 0): 0x0068,
        ("device", "counter_admit", 0): 0x006C,
        ("keys", "write_counter", 0): 0x3038,
        ("keys", "store", 0): 0x3030,
        ("peers", "store", 0): 0x4038,
        ("peers", "fail", 0): 0x4040,
        ("counters", "value", 0): 0x5010,
        ("counters", "value", 28): 0x5080,
        ("target_pdcs", "close", 0): 0x6014,
        ("target_pdcs", "came_high", 0): 0x6034,
    }
    assert {key: blocks[key[0]].address(key[1], key[2]) for key in addresses} == addresses
    assert [placed.following for placed in blocks.values()] == [0x1000, 0x2000, 0x3000, 0x4000, 0x5000, 0x6000, 0]
    assert {register.name: register.offset for register in DOORBELL_REGISTERS} == {
        "transmit_tail": 0,
        "completion_head": 4,
        "arm": 8,
        "event_head": 12,
        "event_arm": 16,
        "receive_tail": 20,
        "slot_release": 24,
    }


def test_a_key_may_lie_in_eight_slots_that_begin_at_its_folded_value() -> None:
    # 0x1111 ^ 0x2222 ^ 0x4444 ^ 0x8888 = 0xFFFF
    assert list(key_slots(0x1111_2222_4444_8888, 64)) == [63, 0, 1, 2, 3, 4, 5, 6]
    assert list(key_slots(5, 4)) == [1, 2, 3, 0]


def test_a_record_whose_fields_do_not_fill_its_size_is_refused() -> None:
    with pytest.raises(LayoutError, match="thing is declared as 2 bytes, but its fields have 12 bits"):
        Record("thing", 2, (Field("a", 12, ""),), "")


def test_a_record_with_a_field_twice_is_refused() -> None:
    with pytest.raises(LayoutError, match="thing declares the field 'a' twice"):
        Record("thing", 2, (Field("a", 8, ""), Field("a", 8, "")), "")


def test_packing_names_the_field_that_overflows_or_does_not_exist() -> None:
    with pytest.raises(LayoutError, match=r"completion.status holds 8 bits, which 0x100 does not fit"):
        COMPLETION.pack(status=256)
    with pytest.raises(LayoutError, match="completion has no field 'colour'; it has context"):
        COMPLETION.pack(colour=1)
    with pytest.raises(LayoutError, match="completion needs 32 bytes, got 31"):
        COMPLETION.unpack(bytes(31))


def test_unaligned_fields_have_no_numpy_type() -> None:
    with pytest.raises(LayoutError, match=r"thing.a \(12 bits at bit 0\) is not naturally aligned"):
        Record("thing", 2, (Field("a", 12, ""), Field("b", 4, "")), "").dtype()


@pytest.mark.parametrize(
    ("registers", "complaint"),
    [
        ((Register("a", 0x10, Access.R, ""), Register("b", 0x10, Access.R, "")), r"b\[0\] collides with a"),
        ((Register("a", 8, Access.R, ""),), r"a\[0\] collides with header"),
        ((Register("a", 0x12, Access.R, ""),), r"a\[0\] at 0x12 is unaligned or outside"),
        ((Register("a", 0x18, Access.R, "", count=3),), r"a\[2\] at 0x20 is unaligned or outside"),
    ],
)
def test_a_block_whose_registers_collide_or_stick_out_is_refused(
    registers: tuple[Register, ...], complaint: str
) -> None:
    with pytest.raises(LayoutError, match=complaint):
        RegisterBlock("block", 1, 1, 0x20, registers, "")


def test_registers_outside_an_array_or_a_block_are_named() -> None:
    register = Register("a", 0x10, Access.R, "", count=2)
    with pytest.raises(LayoutError, match="a has 2 elements, index 2 is outside"):
        register.address(2)
    with pytest.raises(LayoutError, match="block block has no register 'b'"):
        RegisterBlock("block", 1, 1, 0x20, (register,), "")["b"]


ALL_RECORDS = (*WIRE_RECORDS, TX_DESCRIPTOR, COMPLETION, EVENT, TRACE_EVENT)


@pytest.mark.parametrize("record", ALL_RECORDS, ids=lambda record: record.name)
def test_unrolled_functions_do_what_the_record_does(record: Record) -> None:
    generator = random.Random(record.name)
    names = [f"{record.name}.{field.name}" for field in record.fields]
    pack, unpack = packer((record,), names), unpacker((record,), names)
    for _ in range(200):
        values = [generator.getrandbits(field.width) for field in record.fields]
        data = record.pack(**{field.name: value for field, value in zip(record.fields, values, strict=True)})
        assert pack(*values) == data
        assert unpack(b"xyz" + data, 3) == tuple(values)


def test_unrolled_packing_refuses_what_does_not_fit() -> None:
    pack = packer((COMPLETION,), ["completion.status", "completion.length"])
    with pytest.raises(LayoutError, match="completion_status holds 8 bits, which 0x100 does not fit"):
        pack(256, 0)
    with pytest.raises(LayoutError, match="completion_length holds 32 bits, which -0x1 does not fit"):
        pack(0, -1)
    with pytest.raises(LayoutError, match=r"no field 'completion.colour'"):
        packer((COMPLETION,), ["completion.colour"])
    with pytest.raises(LayoutError, match=r"completion.flags holds 8 bits"):
        packer((COMPLETION,), [], {"completion.flags": 300})
    with pytest.raises(LayoutError, match="different byte order"):
        packer((COMPLETION, WIRE_RECORDS[0]), [])
