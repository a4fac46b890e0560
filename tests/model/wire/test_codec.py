"""The codec against frames built by scapy and struct, byte by byte; what it drops, and in which order.

Covers ``wire/encapsulation.py``, ``wire/render.py``, ``wire/uet.py`` and ``wire/nacks.py``.
"""

import struct
from dataclasses import replace
from typing import Any

import google_crc32c
import pytest
from amoeba_model.layout import LayoutError
from amoeba_model.registers import Counter
from amoeba_model.wire.codec import DecodedFrame, Drop, FrameHeader, decode, encode
from amoeba_model.wire.render import layers, summary
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

MAC_A, MAC_B = 0x02_00_00_00_00_0A, 0x02_00_00_00_00_0B
IP_A, IP_B = 0x0A_00_00_01, 0x0A_00_00_02

REQUEST_BODY = (
    struct.pack(">HhIHH", 3 << 11 | 3 << 7 | 0x0C, -2, 0x0001_0003, 6, 3)  # ROD_REQ, std, ackreq+syn; -2; psn; pdcs
    + struct.pack(">BBHI", 4, 0x03, 0x0203, 0xABCDEF)  # FETCHING_ATOMIC, whole message, message, job
    + struct.pack(">HH", 0x123, 0x002)  # pid_on_fep, resource_index
    + struct.pack(">QIQQI", 0x1122334455667788, 1, 0x8877665544332211, 0, 8)
    + bytes([2, 7, 0, 0])  # SUM, UINT64
    + struct.pack("<Q", 37)
)
REQUEST_HEADER: dict[str, Any] = {
    "mac": MAC_B,
    "ip": IP_B,
    "port": 0xC001,
    "is_request": True,
    "psn": 0x0001_0003,
    "clear_psn_offset": 0xFFFE,
    "spdcid": 5,
    "dpdcid": 3,
    "syn": True,
    "opcode": 4,
    "flags": 3,
    "message_id": 0x0203,
    "job_id": 0xABCDEF,
    "pid_on_fep": 0x123,
    "resource_index": 2,
    "buffer_offset": 0x1122334455667788,
    "initiator": 1,
    "memory_key": 0x8877665544332211,
    "request_length": 8,
    "atomic_opcode": 2,
    "atomic_datatype": 7,
}
ACK_DATA_BODY = (
    struct.pack(">HhIHH", 7 << 11 | 5 << 7, 0, 0x0001_0003, 10, 6)  # ACK, response with data
    + struct.pack(">BBHI", 2, 1, 0x0203, 0xABCDEF)  # WITH_DATA, OK
    + struct.pack(">HHII", 0x0203, 8, 8, 0)  # read request, payload length, modified length, offset
    + struct.pack("<Q", 5)
)
ACK_BODY = (
    struct.pack(">HhIHH", 7 << 11 | 4 << 7, 0, 0xFFFF_FFFF, 10, 6)
    + struct.pack(">BBHI", 1, 0x1C, 0xFFFF, 0xABCDEF)  # RESPONSE, BAD_MKEY
    + struct.pack(">I", 0)
)
ACK_OFFSET_BODY = (
    bytes.fromhex("3a10 fffd 00000002 000a 0006")  # ACK, response, RETX; the packet answered is 2 - 3
    + bytes.fromhex("01 01 0203 00abcdef 00000040")  # RESPONSE, OK, message, job, 64 bytes
)
BARE_ACK_BODY = bytes.fromhex("3800 0001 00010002 000a 0006")  # ACK, no next header; the packet behind cack_psn
NACK_BODY = bytes.fromhex("5010 0d 00 fffffffe 000a 0006 00000000")  # NACK, no next header, RETX; ROD_OOO; psn
CLOSE_BODY = bytes.fromhex("5a18 0000 00010003 0006 0004 00000000")  # CONTROL, CLOSE_COMMAND, RETX+ackreq
CLOSE_REQUEST_BODY = bytes.fromhex("5a98 0000 00010003 0006 0004 00000000")  # CONTROL, CLOSE_REQUEST, RETX+ackreq
CLOSE_SYN_BODY = bytes.fromhex("5a0c 0000 00010003 0006 0003 00000000")  # ackreq+SYN; the fourth packet
BARE_ACK_HEADER: dict[str, Any] = {
    "mac": MAC_B,
    "ip": IP_B,
    "port": 0xC001,
    "is_request": False,
    "cack_psn": 0x0001_0002,
    "psn": 0x0001_0003,
    "spdcid": 9,
    "dpdcid": 5,
    "opcode": 3,
}
NACK_HEADER: dict[str, Any] = {
    "mac": MAC_B,
    "ip": IP_B,
    "port": 0xC001,
    "is_request": False,
    "is_control": True,
    "retx": True,
    "nack_code": 0x0D,
    "psn": 0xFFFF_FFFE,
    "spdcid": 9,
    "dpdcid": 5,
}
CLOSE_HEADER: dict[str, Any] = {
    "mac": MAC_B,
    "ip": IP_B,
    "port": 0xC001,
    "is_request": True,
    "is_control": True,
    "retx": True,
    "psn": 0x0001_0003,
    "clear_psn_offset": 0xFFFF,
    "spdcid": 5,
    "dpdcid": 3,
}


def mac_text(address: int) -> str:
    return address.to_bytes(6, "big").hex(":")


def frame_of(body: bytes, *, check: int | None = None, **ip_fields: Any) -> bytes:
    """A frame from A to B around PDS, SES and payload, with all other headers by scapy."""
    is_answer = bool(body) and body[0] >> 3 in (7, 10)  # ACK, NACK
    ip_fields = {"tos": 0xB8 if is_answer else 2} | ip_fields
    ip = IP(src="10.0.0.1", dst="10.0.0.2", id=0, flags="DF", ttl=64, **ip_fields)
    udp = UDP(sport=0xC001, dport=4793, chksum=0)
    frame = bytes(Ether(src=mac_text(MAC_A), dst=mac_text(MAC_B)) / ip / udp / (body + bytes(4)))
    crc = google_crc32c.value(frame[26:-4]) if check is None else check
    return frame[:-4] + struct.pack("<I", crc)


def test_a_request_has_the_bytes_of_the_specification() -> None:
    payload = struct.pack("<Q", 37)
    assert encode(FrameHeader(**REQUEST_HEADER), payload, MAC_A, IP_A) == frame_of(REQUEST_BODY)


def test_an_answer_with_data_has_the_bytes_of_the_specification() -> None:
    header = FrameHeader(
        mac=MAC_B, ip=IP_B, port=0xC001, is_request=False, cack_psn=0x0001_0003, psn=0x0001_0003, spdcid=9, dpdcid=5,
        opcode=2, message_id=0x0203, job_id=0xABCDEF, return_code=1, modified_length=8,
    )  # fmt: skip
    assert encode(header, struct.pack("<Q", 5), MAC_A, IP_A) == frame_of(ACK_DATA_BODY)


def test_an_answer_without_data_has_the_bytes_of_the_specification() -> None:
    header = FrameHeader(
        mac=MAC_B, ip=IP_B, port=0xC001, is_request=False, cack_psn=0xFFFF_FFFF, psn=0xFFFF_FFFF, spdcid=9, dpdcid=5,
        opcode=1, message_id=0xFFFF, job_id=0xABCDEF, return_code=0x1C,
    )  # fmt: skip
    assert encode(header, b"", MAC_A, IP_A) == frame_of(ACK_BODY)


def test_an_answer_names_its_packet_relative_to_what_it_covers() -> None:
    header = FrameHeader(
        mac=MAC_B, ip=IP_B, port=0xC001, is_request=False, retx=True, cack_psn=2, psn=0xFFFF_FFFF, spdcid=9, dpdcid=5,
        opcode=1, message_id=0x0203, job_id=0xABCDEF, return_code=1, modified_length=64,
    )  # fmt: skip
    assert encode(header, b"", MAC_A, IP_A) == frame_of(ACK_OFFSET_BODY)
    received = replace(header, mac=MAC_A, ip=IP_A)
    assert decode(frame_of(ACK_OFFSET_BODY), MAC_B, IP_B) == DecodedFrame(received, b"")


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        (NACK_HEADER, NACK_BODY),
        (NACK_HEADER | {"spdcid": 0xFFFF}, NACK_BODY[:8] + bytes(2) + NACK_BODY[10:]),
        (CLOSE_HEADER, CLOSE_BODY),
        (CLOSE_HEADER | {"retx": False, "syn": True}, CLOSE_SYN_BODY),
        (BARE_ACK_HEADER, BARE_ACK_BODY),
    ],
    ids=["NACK", "NACK about no PDC", "CLOSE_COMMAND", "CLOSE_COMMAND with SYN", "ACK without a response"],
)
def test_frames_without_ses_headers_have_the_bytes_of_the_specification(fields: dict[str, Any], body: bytes) -> None:
    assert encode(FrameHeader(**fields), b"", MAC_A, IP_A) == frame_of(body)
    received = FrameHeader(**{**fields, "mac": MAC_A, "ip": IP_A})
    assert decode(frame_of(body), MAC_B, IP_B) == DecodedFrame(received, b"")


def test_a_request_with_immediate_data_that_is_sent_again_has_the_bytes_of_the_specification() -> None:
    fields = {**REQUEST_HEADER, "retx": True, "syn": False, "dpdcid": 2}
    fields |= {"flags": 0x07, "header_data": 0x0123_4567_89AB_CDEF}
    body = bytearray(REQUEST_BODY)
    body[:2] = bytes.fromhex("1998")  # ROD_REQ, standard, RETX + acknowledge request
    body[13] = 0x07  # HEADER_DATA, whole message
    body[44:52] = bytes.fromhex("0123456789abcdef")
    payload = struct.pack("<Q", 37)
    assert encode(FrameHeader(**fields), payload, MAC_A, IP_A) == frame_of(bytes(body))
    received = FrameHeader(**{**fields, "mac": MAC_A, "ip": IP_A, "payload_length": 8})
    assert decode(frame_of(bytes(body)), MAC_B, IP_B) == DecodedFrame(received, payload)


@pytest.mark.parametrize(
    ("header", "payload", "complaint"),
    [
        (FrameHeader(**NACK_HEADER), b"x", "a control packet or NACK has no payload, got 1 bytes"),
        (FrameHeader(**CLOSE_HEADER), bytes(2), "a control packet or NACK has no payload, got 2 bytes"),
        (FrameHeader(**BARE_ACK_HEADER), b"x", "an ACK without a response has no payload, got 1 bytes"),
        (FrameHeader(**{**NACK_HEADER, "nack_code": 256}), b"", "nack_code holds 8 bits, which 0x100 does not fit"),
        (
            FrameHeader(**{**CLOSE_HEADER, "spdcid": 0x1_0000}),
            b"",
            "spdcid and dpdcid hold 16 bits, which 0x10000 and 0x3 do not fit",
        ),
        (
            FrameHeader(is_request=False, cack_psn=1, psn=0x8001),
            b"",
            "ack_psn_offset holds 16 signed bits; psn 0x8001 is too far from cack_psn 0x1",
        ),
        (FrameHeader(is_request=False, psn=1 << 32), b"", "psn 0x100000000 is too far from cack_psn 0x0"),
    ],
)
def test_a_header_that_no_frame_can_say_is_refused(header: FrameHeader, payload: bytes, complaint: str) -> None:
    with pytest.raises(LayoutError, match=complaint):
        encode(header, payload, MAC_A, IP_A)


def test_a_request_is_read_back_with_its_sender() -> None:
    decoded = decode(frame_of(REQUEST_BODY), MAC_B, IP_B)
    expected = FrameHeader(**{**REQUEST_HEADER, "mac": MAC_A, "ip": IP_A, "payload_length": 8})
    assert decoded == DecodedFrame(expected, struct.pack("<Q", 37))


@pytest.mark.parametrize(("offset", "psn"), [(0, 0x0001_0003), (-4, 0x0000_FFFF), (5, 0x0001_0008)])
def test_an_answer_is_read_back_with_the_psn_that_it_answers(offset: int, psn: int) -> None:
    body = ACK_DATA_BODY[:2] + struct.pack(">h", offset) + ACK_DATA_BODY[4:]
    decoded = decode(frame_of(body), MAC_B, IP_B)
    assert isinstance(decoded, DecodedFrame)
    assert (decoded.header.psn, decoded.header.is_request, decoded.header.return_code) == (psn, False, 1)
    assert decoded.header.cack_psn == 0x0001_0003
    assert (decoded.header.spdcid, decoded.header.dpdcid, decoded.payload) == (9, 5, struct.pack("<Q", 5))


def test_padding_behind_the_ip_packet_is_ignored() -> None:
    assert decode(frame_of(ACK_BODY) + bytes(20), MAC_B, IP_B) == decode(frame_of(ACK_BODY), MAC_B, IP_B)


def replaced(frame: bytes, offset: int, data: bytes) -> bytes:
    """The frame with some bytes changed, and a right IP header checksum."""
    changed = bytearray(frame)
    changed[offset : offset + len(data)] = data
    header = bytearray(changed[14:34])
    header[10:12] = b"\0\0"
    total = sum(struct.unpack(">10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    changed[24:26] = struct.pack(">H", ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF)
    return bytes(changed)


GOOD = frame_of(REQUEST_BODY)


def body_with(offset: int, data: bytes, body: bytes = REQUEST_BODY) -> bytes:
    return frame_of(body[:offset] + data + body[offset + len(data) :])


@pytest.mark.parametrize(
    ("frame", "cause"),
    [
        (b"", Counter.DROPPED_MALFORMED),
        (GOOD[:41], Counter.DROPPED_MALFORMED),
        (replaced(GOOD, 12, b"\x86\xdd"), Counter.DROPPED_MALFORMED),
        (replaced(GOOD, 14, b"\x65"), Counter.DROPPED_MALFORMED),
        (replaced(GOOD, 14, b"\x46"), Counter.DROPPED_MALFORMED),
        (replaced(GOOD, 20, b"\x20"), Counter.DROPPED_MALFORMED),
        (replaced(GOOD, 21, b"\x01"), Counter.DROPPED_MALFORMED),
        (replaced(GOOD, 23, b"\x06"), Counter.DROPPED_MALFORMED),
        (GOOD[:24] + b"\0\0" + GOOD[26:], Counter.DROPPED_MALFORMED),
        (replaced(GOOD, 36, b"\x12\xba"), Counter.DROPPED_MALFORMED),
        (replaced(GOOD, 38, struct.pack(">H", len(GOOD) - 33)), Counter.DROPPED_MALFORMED),
        (GOOD[:-1], Counter.DROPPED_MALFORMED),
        (frame_of(b"")[:-1], Counter.DROPPED_MALFORMED),
        (frame_of(b""), Counter.DROPPED_MALFORMED),
        (frame_of(b"", check=1), Counter.DROPPED_CHECK),
        (replaced(GOOD, 0, b"\x03"), Counter.DROPPED_ADDRESS),
        (replaced(GOOD, 33, b"\x03"), Counter.DROPPED_ADDRESS),
        (GOOD[:-1] + bytes([GOOD[-1] ^ 1]), Counter.DROPPED_CHECK),
        (replaced(GOOD, 29, b"\x03"), Counter.DROPPED_CHECK),  # another sender
        (replaced(GOOD, 34, b"\xc0\x02"), Counter.DROPPED_CHECK),  # another source port
        (GOOD[:60] + b"\xff" + GOOD[61:], Counter.DROPPED_CHECK),
        (body_with(0, b"\x11"), Counter.DROPPED_MALFORMED),
        (body_with(0, struct.pack(">H", 3 << 11 | 2 << 7 | 12)), Counter.DROPPED_MALFORMED),
        (frame_of(REQUEST_BODY[:55]), Counter.DROPPED_MALFORMED),
        (frame_of(REQUEST_BODY[:59]), Counter.DROPPED_MALFORMED),
        (frame_of(ACK_BODY[:23]), Counter.DROPPED_MALFORMED),
        (frame_of(ACK_DATA_BODY[:31]), Counter.DROPPED_MALFORMED),
        (frame_of(ACK_DATA_BODY[:-1]), Counter.DROPPED_MALFORMED),
        (frame_of(ACK_BODY + b"\0"), Counter.DROPPED_MALFORMED),
        (body_with(0, struct.pack(">H", 7 << 11 | 6 << 7), ACK_BODY), Counter.DROPPED_MALFORMED),
        (body_with(12, b"\x41", ACK_BODY), Counter.DROPPED_MALFORMED),
        (body_with(12, b"\x02", ACK_BODY), Counter.DROPPED_MALFORMED),
        (body_with(12, b"\x03", ACK_BODY), Counter.DROPPED_MALFORMED),
        (frame_of(BARE_ACK_BODY[:-1]), Counter.DROPPED_MALFORMED),
        (frame_of(BARE_ACK_BODY + b"\0"), Counter.DROPPED_MALFORMED),
        (frame_of(BARE_ACK_BODY + bytes(4)), Counter.DROPPED_MALFORMED),
        *(
            (body_with(8, b"\0\0", body), Counter.DROPPED_MALFORMED)  # PDC 0
            for body in (REQUEST_BODY, ACK_BODY, ACK_DATA_BODY, BARE_ACK_BODY, CLOSE_BODY, CLOSE_REQUEST_BODY)
        ),
        (body_with(13, b"\x5c", ACK_BODY), Counter.DROPPED_MALFORMED),
        (frame_of(NACK_BODY[:-1]), Counter.DROPPED_MALFORMED),
        (frame_of(NACK_BODY + b"\0"), Counter.DROPPED_MALFORMED),
        (body_with(0, b"\x52\x00", NACK_BODY), Counter.DROPPED_MALFORMED),  # next header RESPONSE
        (body_with(0, b"\x60\x00", NACK_BODY), Counter.DROPPED_MALFORMED),  # NACK_CCX
        (frame_of(CLOSE_BODY[:-1]), Counter.DROPPED_MALFORMED),
        (frame_of(CLOSE_BODY + b"\0"), Counter.DROPPED_MALFORMED),
        (body_with(0, b"\x5b\x3c", CLOSE_BODY), Counter.DROPPED_MALFORMED),  # PROBE
        (body_with(0, b"\x58\x3c", CLOSE_BODY), Counter.DROPPED_MALFORMED),  # NOOP
        (frame_of(ACK_BODY[:16]), Counter.DROPPED_MALFORMED),
    ],
)
def test_a_bad_frame_is_dropped_for_its_first_mistake(frame: bytes, cause: Counter) -> None:
    assert decode(frame, MAC_B, IP_B) == Drop(cause)


@pytest.mark.parametrize(
    ("body", "offset", "data"),
    [
        (NACK_BODY, 1, b"\x5f"),  # the other flags
        (NACK_BODY, 12, b"\xff\xff\xff\xff"),  # payload
        (CLOSE_BODY, 1, b"\x7b"),  # the other flags, IS_ROD among them
        (CLOSE_BODY, 2, b"\xff\xff"),  # probe_opaque
        (CLOSE_BODY, 12, b"\x12\x34\x56\x78"),  # payload
        (CLOSE_REQUEST_BODY, 1, b"\xfb"),  # the other flags, SYN among them
        (CLOSE_REQUEST_BODY, 2, b"\xff\xff"),  # probe_opaque
        (CLOSE_REQUEST_BODY, 12, b"\x12\x34\x56\x78"),  # payload
        (BARE_ACK_BODY, 1, b"\x4d"),  # the other flags
    ],
)
def test_what_nack_and_close_do_not_use_is_not_looked_at(body: bytes, offset: int, data: bytes) -> None:
    assert decode(body_with(offset, data, body)) == decode(frame_of(body))


@pytest.mark.parametrize("ecn", range(4))
@pytest.mark.parametrize("body", [REQUEST_BODY, CLOSE_BODY, CLOSE_REQUEST_BODY])
def test_a_request_is_marked_by_its_ip_header_alone(body: bytes, ecn: int) -> None:
    plain = decode(frame_of(body))
    assert isinstance(plain, DecodedFrame)
    assert not plain.header.marked
    marked = plain._replace(header=replace(plain.header, marked=ecn == 3))
    assert decode(frame_of(body, tos=0xFC | ecn)) == marked
    assert decode(replaced(frame_of(body), 15, bytes([ecn]))) == marked  # the CRC does not cover what switches change


@pytest.mark.parametrize("body", [ACK_BODY, ACK_DATA_BODY, BARE_ACK_BODY, NACK_BODY])
def test_an_answer_is_marked_by_its_flag_alone(body: bytes) -> None:
    plain = decode(frame_of(body))
    assert isinstance(plain, DecodedFrame)
    assert decode(frame_of(body, tos=3)) == plain
    assert decode(body_with(1, bytes([body[1] | 0x20]), body)) == plain._replace(
        header=replace(plain.header, marked=True)
    )


def test_the_class_of_requests_is_chosen_and_that_of_answers_is_not() -> None:
    payload = struct.pack("<Q", 37)
    assert encode(FrameHeader(**REQUEST_HEADER), payload, MAC_A, IP_A, 0x2A) == frame_of(REQUEST_BODY, tos=0xAA)
    assert encode(FrameHeader(**CLOSE_HEADER), b"", MAC_A, IP_A, 63) == frame_of(CLOSE_BODY, tos=0xFE)
    assert encode(FrameHeader(**NACK_HEADER), b"", MAC_A, IP_A, 0x2A) == frame_of(NACK_BODY)


def test_a_nack_hands_on_how_many_packets_are_missing() -> None:
    plain, told = decode(frame_of(NACK_BODY)), decode(body_with(3, b"\xfe", NACK_BODY))
    assert isinstance(plain, DecodedFrame)
    assert told == plain._replace(header=replace(plain.header, missing=0xFE))


def test_the_receiver_checks_in_the_documented_order() -> None:
    everything = replaced(frame_of(b"\xff" * 80, check=1), 0, b"\x03")
    assert decode(replaced(everything, 12, b"\x86\xdd"), MAC_B, IP_B) == Drop(Counter.DROPPED_MALFORMED)
    assert decode(everything, MAC_B, IP_B) == Drop(Counter.DROPPED_ADDRESS)
    assert decode(everything) == Drop(Counter.DROPPED_CHECK)
    assert decode(frame_of(b"\xff" * 80)) == Drop(Counter.DROPPED_MALFORMED)


def test_a_request_is_rendered_with_the_names_of_its_numbers() -> None:
    shown = {layer.name: dict(layer.fields) for layer in layers(GOOD)}
    assert shown["ethernet"]["source"] == "02:00:00:00:00:0a"
    assert shown["ipv4"]["destination"] == "10.0.0.2"
    assert shown["pds_request"]["type"] == "3 (ROD_REQ)"
    assert shown["pds_request"]["flags"] == "0xc (ACK_REQUEST|SYN)"
    assert shown["ses_request"]["opcode"] == "4 (FETCHING_ATOMIC)"
    assert shown["atomic_extension"]["datatype"] == "7 (UINT64)"
    assert shown["payload"] == {"8 bytes": "25 00 00 00 00 00 00 00"}
    assert shown["crc"] == {"crc32c": f"{google_crc32c.value(GOOD[26:-4]):#010x}"}
    assert "FETCHING_ATOMIC SUM UINT64, 8 bytes at 0x1122334455667788" in summary(GOOD)


@pytest.mark.parametrize(
    ("opcode", "text"),
    [
        (5, "SEND, 8 bytes, context 2, 12 bytes of payload"),
        (9, "TAGGED_SEND, 8 bytes, tag 0x8877665544332211, context 2, 12 bytes of payload"),
        (6, "RENDEZVOUS_SEND, 1234605616436508552 bytes, context 2, 12 bytes of payload"),
        (10, "RENDEZVOUS_TSEND, 1234605616436508552 bytes, tag 0x8877665544332211, context 2, 12 bytes of payload"),
        (
            13,
            "TSEND_ATOMIC SUM UINT64, 8 bytes at 0x1122334455667788, tag 0x8877665544332211, context 2, "
            "8 bytes of payload",
        ),
        (
            14,
            "TSEND_FETCH_ATOMIC SUM UINT64, 8 bytes at 0x1122334455667788, tag 0x8877665544332211, context 2, "
            "8 bytes of payload",
        ),
    ],
)
def test_a_message_is_rendered_with_its_length_and_tag(opcode: int, text: str) -> None:
    assert summary(body_with(12, bytes([opcode]))).removeprefix("10.0.0.1 PDC 6 psn 65539: ") == f"{text}, SYN"


@pytest.mark.parametrize("opcode", [13, 14])
def test_a_tagged_atomic_has_the_atomic_extension(opcode: int) -> None:
    frame = body_with(12, bytes([opcode]))
    assert decode(frame) == DecodedFrame(
        replace(FrameHeader(**REQUEST_HEADER), mac=MAC_A, ip=IP_A, opcode=opcode, payload_length=8),
        struct.pack("<Q", 37),
    )
    assert encode(FrameHeader(**REQUEST_HEADER | {"opcode": opcode}), struct.pack("<Q", 37), MAC_A, IP_A) == frame
    assert "atomic_extension" in {layer.name for layer in layers(frame)}
    cut_off = REQUEST_BODY[:12] + bytes([opcode]) + REQUEST_BODY[13:58]
    assert decode(frame_of(cut_off)) == Drop(Counter.DROPPED_MALFORMED)


def test_an_answer_is_rendered_with_its_return_code() -> None:
    shown = {layer.name: dict(layer.fields) for layer in layers(frame_of(ACK_BODY))}
    assert shown["ses_response"]["return_code"] == "28 (BAD_MKEY)"
    assert "answer BAD_MKEY" in summary(frame_of(ACK_BODY))
    assert "answer OK, 8 bytes concerned, 8 bytes of data" in summary(frame_of(ACK_DATA_BODY))


def test_nack_and_close_are_rendered_with_their_codes() -> None:
    shown = {layer.name: dict(layer.fields) for layer in layers(frame_of(NACK_BODY))}
    assert list(shown) == ["ethernet", "ipv4", "udp", "pds_nack", "crc"]
    assert shown["pds_nack"]["nack_code"] == "13 (ROD_OOO)"
    assert summary(frame_of(NACK_BODY)) == "10.0.0.1 PDC 10 psn 4294967294: NACK ROD_OOO, RETX"
    shown = {layer.name: dict(layer.fields) for layer in layers(frame_of(CLOSE_BODY))}
    assert list(shown) == ["ethernet", "ipv4", "udp", "pds_control", "crc"]
    assert shown["pds_control"]["flags"] == "0x18 (RETX|ACK_REQUEST)"
    assert summary(frame_of(CLOSE_BODY)) == "10.0.0.1 PDC 6 psn 65539: CLOSE_COMMAND, RETX"
    shown = {layer.name: dict(layer.fields) for layer in layers(frame_of(CLOSE_REQUEST_BODY))}
    assert list(shown) == ["ethernet", "ipv4", "udp", "pds_control", "crc"]
    assert summary(frame_of(CLOSE_REQUEST_BODY)) == "10.0.0.1 PDC 6 psn 65539: CLOSE_REQUEST, RETX"


def test_answers_without_a_return_code_are_rendered_as_such() -> None:
    shown = [layer.name for layer in layers(frame_of(BARE_ACK_BODY))]
    assert shown == ["ethernet", "ipv4", "udp", "pds_ack", "crc"]
    assert summary(frame_of(BARE_ACK_BODY)) == "10.0.0.1 PDC 10 psn 65539: answer without a response"
    default = body_with(12, b"\0\0", ACK_BODY)
    assert decode(default) == DecodedFrame(
        FrameHeader(
            mac=MAC_A, ip=IP_A, port=0xC001, is_request=False, cack_psn=0xFFFF_FFFF, psn=0xFFFF_FFFF, spdcid=9,
            dpdcid=5, opcode=0, message_id=0xFFFF, job_id=0xABCDEF,
        ),
        b"",
    )  # fmt: skip
    assert summary(default) == "10.0.0.1 PDC 10 psn 4294967295: answer by default"


def test_immediate_data_is_rendered_only_where_it_is_valid() -> None:
    data = bytes.fromhex("0123456789abcdef")
    assert "immediate" not in summary(body_with(44, data))
    with_flag = REQUEST_BODY[:13] + b"\x07" + REQUEST_BODY[14:]
    assert "immediate data 0x123456789abcdef" in summary(body_with(44, data, with_flag))


def test_numbers_without_a_name_and_foreign_frames_are_rendered_as_such() -> None:
    shown = {layer.name: dict(layer.fields) for layer in layers(body_with(56, b"\x77"))}
    assert shown["atomic_extension"]["opcode"] == "119 (unknown 0x77)"
    assert [layer.lines() for layer in layers(b"\x01\x02")] == [
        ["undecodable", "  cause  DROPPED_MALFORMED", "  bytes  01 02"]
    ]
    assert summary(b"\x01\x02") == "2 bytes, DROPPED_MALFORMED"
