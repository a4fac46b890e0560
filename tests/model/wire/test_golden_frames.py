"""Whole frames, CRC included, typed as bytes: what is sent is exactly this, and this is understood.

The CRCs are from a bit-by-bit CRC-32C written for it (``tests.support.uet_dissector``), checked by RFC 3720's
examples.

Covers ``wire/congestion.py`` and ``wire/frame_header.py``.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from amoeba_model.wire.codec import NO_PDC, DecodedFrame, FrameHeader, decode, encode

from tests.support.uet_dissector import crc32c, dissect

MAC_A, MAC_B = 0x02_00_00_00_00_01, 0x02_00_00_00_00_02
IP_A, IP_B = 0x0A_00_00_01, 0x0A_00_00_02
PEERS = 4
"""Of each NIC: target PDCs have numbers from 5 on."""
SES = {"job_id": 0xABCDE0, "pid_on_fep": 0x120, "resource_index": 3, "initiator": 2}


class Golden(NamedTuple):
    """A frame, from A to B if it is a request, else from B to A.

    ``header`` is without addresses; ``spdcid`` and ``dpdcid`` are one less than on the wire.
    """

    text: str
    header: dict[str, Any]
    payload: bytes = b""


ASKED = "020000000002 020000000001 0800"  # MAC addresses, IPv4
TOLD = "020000000001 020000000002 0800"
A_TO_B, B_TO_A = "0a000001 0a000002 c001 12b9", "0a000002 0a000001 c001 12b9"  # addresses and ports: 49153, 4793
SENT = {
    "WRITE with immediate data, which opens its PDC": Golden(
        f"{ASKED} 4502 005d 0000 4000 4011 268c {A_TO_B} 0049 0000"
        "198c ffff fffffffe 0006 0000"  # ROD_REQ, standard, ACK_REQUEST + SYN; PDC 6, its first packet
        "01 27 0000 00 abcde0 0120 0003 1122334455667788 00000002 8877665544332211 feedfacecafebeef 00000005"
        "0102030405 acf834d8",
        SES
        | {
            "psn": 0xFFFF_FFFE,
            "clear_psn_offset": 0xFFFF,
            "spdcid": 5,
            "syn": True,
            "opcode": 1,
            "flags": 0x27,
            "buffer_offset": 0x1122334455667788,
            "memory_key": 0x8877665544332211,
            "header_data": 0xFEEDFACECAFEBEEF,
            "request_length": 5,
        },
        b"\1\2\3\4\5",
    ),
    "the last 5 bytes of a WRITE of 13": Golden(
        f"{ASKED} 4502 005d 0000 4000 4011 268c {A_TO_B} 0049 0000"
        "1988 ffff 00000002 0006 000a"  # ROD_REQ, standard, ACK_REQUEST; PDC 6 to PDC 10
        # END; payload_length 5 and message_offset 8 in the place of header_data; request_length of the whole message
        "01 22 0000 00 abcde0 0120 0003 1122334455667788 00000002 8877665544332211 0000000500000008 0000000d"
        "0102030405 e9de8822",
        SES
        | {
            "psn": 2,
            "clear_psn_offset": 0xFFFF,
            "spdcid": 5,
            "dpdcid": 9,
            "opcode": 1,
            "flags": 0x22,
            "buffer_offset": 0x1122334455667788,
            "memory_key": 0x8877665544332211,
            "header_data": 0x5_0000_0008,
            "request_length": 13,
        },
        b"\1\2\3\4\5",
    ),
    "CSWAP of a UINT64, sent again": Golden(
        f"{ASKED} 4502 007c 0000 4000 4011 266d {A_TO_B} 0068 0000"
        "1998 fffe 00000001 0006 000a"  # ROD_REQ, standard, RETX + ACK_REQUEST; PDC 6 to PDC 10
        "04 23 0003 00 abcde0 0120 0003 0000000000000040 00000002 0000000000000077 0000000000000000 00000020"
        "0d 07 00 00"  # CSWAP, UINT64
        "0000000000000000 0102030405060708 0000000000000000 1112131415161718"  # compare value, swap value
        "a3596a8a",
        SES
        | {
            "psn": 1,
            "clear_psn_offset": 0xFFFE,
            "spdcid": 5,
            "dpdcid": 9,
            "retx": True,
            "opcode": 4,
            "flags": 0x23,
            "message_id": 3,
            "buffer_offset": 0x40,
            "memory_key": 0x77,
            "request_length": 32,
            "atomic_opcode": 0xD,
            "atomic_datatype": 7,
        },
        bytes(8) + bytes(range(1, 9)) + bytes(8) + bytes(range(0x11, 0x19)),
    ),
    "fetching SUM of 5 to a UINT64": Golden(
        f"{ASKED} 4502 0064 0000 4000 4011 2685 {A_TO_B} 0050 0000"
        "1988 ffff 00000003 0006 000a"
        "04 23 0005 00 abcde0 0120 0003 0000000000000040 00000002 0000000000000077 0000000000000000 00000008"
        "02 07 00 00 0000000000000005"  # SUM, UINT64; the operand
        "1bd75fb0",
        SES
        | {
            "psn": 3,
            "clear_psn_offset": 0xFFFF,
            "spdcid": 5,
            "dpdcid": 9,
            "opcode": 4,
            "flags": 0x23,
            "message_id": 5,
            "buffer_offset": 0x40,
            "memory_key": 0x77,
            "request_length": 8,
            "atomic_opcode": 2,
            "atomic_datatype": 7,
        },
        bytes(7) + b"\5",
    ),
    "READ": Golden(
        f"{ASKED} 4502 0058 0000 4000 4011 2691 {A_TO_B} 0044 0000"
        "1988 ffff 00000002 0006 000a"
        "02 23 0004 00 abcde0 0120 0003 0000000000000040 00000002 0000000000000077 0000000000000000 00000010"
        "175d89f1",
        SES
        | {
            "psn": 2,
            "clear_psn_offset": 0xFFFF,
            "spdcid": 5,
            "dpdcid": 9,
            "opcode": 2,
            "flags": 0x23,
            "message_id": 4,
            "buffer_offset": 0x40,
            "memory_key": 0x77,
            "request_length": 16,
        },
    ),
    "CLOSE": Golden(
        f"{ASKED} 4502 0030 0000 4000 4011 26b9 {A_TO_B} 001c 0000"
        "5a08 0000 00000003 0006 000a 00000000"  # CONTROL, CLOSE_COMMAND, ACK_REQUEST
        "588e5f0b",
        {"psn": 3, "clear_psn_offset": 0xFFFF, "spdcid": 5, "dpdcid": 9, "is_control": True},
    ),
    "CLEAR": Golden(
        f"{ASKED} 4502 0030 0000 4000 4011 26b9 {A_TO_B} 001c 0000"
        "5900 0000 00000000 0006 000a 0000007f"  # CONTROL, CLEAR_COMMAND; no psn, answers up to packet 127
        "b0f9c01c",
        {"psn": 127, "clear_psn_offset": 0xFFFF, "spdcid": 5, "dpdcid": 9, "is_control": True, "clears": True},
    ),
    "answer": Golden(
        f"{TOLD} 45b8 0038 0000 4000 4011 25fb {B_TO_A} 0024 0000"
        "3a00 0000 fffffffe 000a 0006"  # ACK, response
        "01 01 0000 00 abcde0 00000005"  # RESPONSE, OK
        "588d895a",
        {
            "is_request": False,
            "psn": 0xFFFF_FFFE,
            "cack_psn": 0xFFFF_FFFE,
            "spdcid": 9,
            "dpdcid": 5,
            "opcode": 1,
            "return_code": 1,
            "job_id": 0xABCDE0,
            "modified_length": 5,
        },
    ),
    "answer to the CSWAP, given again": Golden(
        f"{TOLD} 45b8 0048 0000 4000 4011 25eb {B_TO_A} 0034 0000"
        "3a90 0001 00000000 000a 0006"  # ACK, response with data, RETX; the packet behind cack_psn
        "02 01 0003 00 abcde0 0003 0008 00000020 00000000"  # WITH_DATA, OK; the length of the request
        "0102030405060708 0c875921",
        {
            "is_request": False,
            "retx": True,
            "psn": 1,
            "cack_psn": 0,
            "spdcid": 9,
            "dpdcid": 5,
            "opcode": 2,
            "return_code": 1,
            "message_id": 3,
            "job_id": 0xABCDE0,
            "modified_length": 32,
        },
        bytes(range(1, 9)),
    ),
    "answer to a CLOSE": Golden(
        f"{TOLD} 45b8 002c 0000 4000 4011 2607 {B_TO_A} 0018 0000"
        "3800 0000 00000003 000a 0006"  # ACK, nothing follows
        "54faac3f",
        {"is_request": False, "psn": 3, "cack_psn": 3, "spdcid": 9, "dpdcid": 5, "opcode": 3},
    ),
    "answer to a request that a switch has marked": Golden(
        f"{TOLD} 45b8 0038 0000 4000 4011 25fb {B_TO_A} 0024 0000"
        "3a20 0000 00000002 000a 0006"  # ACK, response, M
        "01 01 0004 00 abcde0 00000000"
        "f910d49b",
        {
            "is_request": False,
            "marked": True,
            "psn": 2,
            "cack_psn": 2,
            "spdcid": 9,
            "dpdcid": 5,
            "opcode": 1,
            "return_code": 1,
            "message_id": 4,
            "job_id": 0xABCDE0,
        },
    ),
    "NACK of a request that a switch has marked": Golden(
        f"{TOLD} 45b8 0030 0000 4000 4011 2603 {B_TO_A} 001c 0000"
        "5020 0d 02 00000002 000a 0006 00000000"  # NACK, M; ROD_OOO, two packets
        "601ebc06",
        {
            "is_request": False,
            "is_control": True,
            "marked": True,
            "nack_code": 0xD,
            "missing": 2,
            "psn": 2,
            "spdcid": 9,
            "dpdcid": 5,
        },
    ),
    "answer to data in the return direction": Golden(
        f"{TOLD} 45b8 0038 0000 4000 4011 25fb {B_TO_A} 0024 0000"
        "3a00 0000 00000003 000a 0006"  # ACK, response; cack_psn of the return direction
        "00 01 0007 00 abcde0 00000008"  # DEFAULT, OK
        "deca43ef",
        {
            "is_request": False,
            "returns": True,
            "psn": 3,
            "cack_psn": 3,
            "spdcid": 9,
            "dpdcid": 5,
            "opcode": 0,
            "return_code": 1,
            "message_id": 7,
            "job_id": 0xABCDE0,
            "modified_length": 8,
        },
    ),
    "answer to a CLOSE_REQUEST": Golden(
        f"{TOLD} 45b8 002c 0000 4000 4011 2607 {B_TO_A} 0018 0000"
        "3800 0000 00000004 000a 0006"  # ACK, nothing follows; cack_psn of the return direction
        "10f4da97",
        {
            "is_request": False,
            "returns": True,
            "psn": 4,
            "cack_psn": 4,
            "spdcid": 9,
            "dpdcid": 5,
            "opcode": 3,
        },
    ),
    "NACK about no PDC": Golden(
        f"{TOLD} 45b8 0030 0000 4000 4011 2603 {B_TO_A} 001c 0000"
        "5000 0e 00 00000002 0000 0006 00000000"  # NACK; INV_DPDCID
        "cff937cc",
        {
            "is_request": False,
            "is_control": True,
            "nack_code": 0xE,
            "psn": 2,
            "spdcid": NO_PDC,
            "dpdcid": 5,
        },
    ),
}
"""Frames that Amoeba sends."""

RECEIVED = {
    "a CLOSE_REQUEST": Golden(
        f"{TOLD} 4502 0030 0000 4000 4011 26b9 {B_TO_A} 001c 0000"
        "5a88 0000 00000004 000a 0006 00000000"  # CONTROL, CLOSE_REQUEST, ACK_REQUEST; psn of the return direction
        "7b100e47",
        {
            "is_request": False,
            "is_control": True,
            "returns": True,
            "asks": True,
            "psn": 4,
            "spdcid": 9,
            "dpdcid": 5,
        },
    ),
    "a CLOSE of a low class that a switch has marked": Golden(
        f"{ASKED} 4523 0030 0000 4000 4011 2698 {A_TO_B} 001c 0000"  # DSCP 8, CE
        "5a08 0000 00000003 0006 000a 00000000"
        "588e5f0b",
        {
            "psn": 3,
            "clear_psn_offset": 0xFFFF,
            "spdcid": 5,
            "dpdcid": 9,
            "is_control": True,
            "marked": True,
        },
    ),
    "the reference provider's answer to a packet before its window": Golden(
        f"{TOLD} 4500 0038 0000 4000 4011 26b3 {B_TO_A} 0024 0000"
        "3a00 fffe 00000002 000a 0006"  # ACK, response; two packets before cack_psn
        "00 00 0002 00000000 00000000"  # DEFAULT, NULL; message 2, no job
        "b580b0ff",
        {
            "is_request": False,
            "psn": 0,
            "cack_psn": 2,
            "spdcid": 9,
            "dpdcid": 5,
            "opcode": 0,
            "message_id": 2,
        },
    ),
    "the reference provider's answer to a CLOSE, which does not count in cack_psn": Golden(
        f"{TOLD} 4500 002c 0000 4000 4011 26bf {B_TO_A} 0018 00003800 0001 00000002 000a 0006b04383f3",
        {"is_request": False, "psn": 3, "cack_psn": 2, "spdcid": 9, "dpdcid": 5, "opcode": 3},
    ),
    "data of a READ in the return direction": Golden(
        f"{TOLD} 4502 0048 0000 4000 4011 26a1 {B_TO_A} 0034 0000"
        "1a88 ffff 00000003 000a 0006"  # ROD_REQ, response with data, ACK_REQUEST
        "02 01 0007 00 abcde0 0007 0008 00000008 00000000"  # WITH_DATA, OK; the READ's message, 8 bytes from 0 on
        "0102030405060708 169cb50c",
        {
            "is_request": False,
            "returns": True,
            "psn": 3,
            "clear_psn_offset": 0xFFFF,
            "spdcid": 9,
            "dpdcid": 5,
            "opcode": 2,
            "return_code": 1,
            "message_id": 7,
            "job_id": 0xABCDE0,
            "modified_length": 8,
        },
        bytes(range(1, 9)),
    ),
    "the reference provider's answer that asks for a clear_psn": Golden(
        f"{TOLD} 4500 0038 0000 4000 4011 26b3 {B_TO_A} 0024 0000"
        "3a02 0001 00000002 000a 0006"  # request: clear
        "01 01 0005 00 abcde0 00000000"
        "82dd3300",
        {
            "is_request": False,
            "psn": 3,
            "cack_psn": 2,
            "spdcid": 9,
            "dpdcid": 5,
            "opcode": 1,
            "return_code": 1,
            "message_id": 5,
            "job_id": 0xABCDE0,
            "wants_clear": True,
        },
    ),
    "an answer with data and congestion state": Golden(
        f"{TOLD} 4500 005c 0000 4000 4011 268f {B_TO_A} 0048 0000"
        "4280 0001 00000002 000a 0006"  # ACK_CC, response with data
        "00 02 0001 0000000000000003 0102030405060708"  # NSCC; 256 packets
        "02 01 0005 00 abcde0 0005 0008 00000008 00000000 0102030405060708"
        "68dfa77a",
        {
            "is_request": False,
            "psn": 3,
            "cack_psn": 2,
            "spdcid": 9,
            "dpdcid": 5,
            "opcode": 2,
            "return_code": 1,
            "message_id": 5,
            "job_id": 0xABCDE0,
            "modified_length": 8,
            "mpr": 2,
        },
        bytes(range(1, 9)),
    ),
    "an answer to a CLOSE with congestion state": Golden(
        f"{TOLD} 4500 0040 0000 4000 4011 26ab {B_TO_A} 002c 0000"
        "4000 0001 00000002 000a 0006"  # ACK_CC, nothing
        "10 01 0000 0000000000000000 0000000000000000"  # CREDIT; 128 packets
        "97760ffa",
        {"is_request": False, "psn": 3, "cack_psn": 2, "spdcid": 9, "dpdcid": 5, "opcode": 3, "mpr": 1},
    ),
    "ACK_REQUEST": Golden(
        f"{ASKED} 4502 0030 0000 4000 4011 26b9 {A_TO_B} 001c 0000"
        "5880 0000 00000003 0006 000a 00000005"  # CONTROL, ACK_REQUEST; packet 3 of message 5
        "f12e1ac7",
        {"psn": 3, "clear_psn_offset": 0x8001, "spdcid": 5, "dpdcid": 9, "is_control": True, "asks": True},
    ),
}
"""Frames that others send."""


def header_of(golden: Golden, *, received: bool) -> FrameHeader:
    """As the sender, or the receiver, has it: with the other one's addresses."""
    header = FrameHeader(port=0xC001, **golden.header)
    other_is_b = header.is_request != received
    mac, ip = (MAC_B, IP_B) if other_is_b else (MAC_A, IP_A)
    if received:
        is_own_target = header.is_request and not header.syn
        header = replace(header, returns=header.returns and (header.opcode == 2 or header.asks))
        numbers = {"dpdcid": header.dpdcid - PEERS} if is_own_target else {}
        return replace(header, mac=mac, ip=ip, payload_length=len(golden.payload), **numbers)
    is_own_target = not header.is_request and not header.returns and header.spdcid != NO_PDC
    return replace(header, mac=mac, ip=ip, spdcid=header.spdcid - PEERS * is_own_target)


@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (bytes(32), 0x8A91_36AA),
        (b"\xff" * 32, 0x62A8_AB43),
        (bytes(range(32)), 0x46DD_794E),
        (bytes(range(31, -1, -1)), 0x113F_DB5C),
    ],
)
def test_the_dissectors_crc_is_that_of_rfc_3720(data: bytes, crc: int) -> None:
    assert crc32c(data) == crc


@pytest.mark.parametrize("name", SENT)
def test_frames_are_sent_as_they_are_typed(name: str) -> None:
    golden = SENT[name]
    header = header_of(golden, received=False)
    mac, ip = (MAC_A, IP_A) if header.is_request else (MAC_B, IP_B)
    assert encode(header, golden.payload, mac, ip, peers=PEERS) == bytes.fromhex(golden.text)
    assert dissect(bytes.fromhex(golden.text))["psn"] == header.psn


@pytest.mark.parametrize("name", [*SENT, *RECEIVED])
def test_frames_are_understood_as_they_are_typed(name: str) -> None:
    golden = (SENT | RECEIVED)[name]
    header = header_of(golden, received=True)
    mac, ip = (MAC_B, IP_B) if header.is_request else (MAC_A, IP_A)
    assert decode(bytes.fromhex(golden.text), mac, ip, PEERS) == DecodedFrame(header, golden.payload)
