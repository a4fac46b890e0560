"""The codec against itself: what it writes it reads back, and whatever it reads it could have written."""

import dataclasses
import struct
from typing import Any

import google_crc32c
import pytest
from amoeba_model.wire.codec import ATOMIC_REQUESTS, DecodedFrame, Drop, FrameHeader, decode, encode
from amoeba_model.wire.render import layers, summary
from hypothesis import given
from hypothesis import strategies as st

OWN_MAC, OWN_IP = 0x02_00_00_00_00_0A, 0x0A_00_00_01


def bits(width: int) -> st.SearchStrategy[int]:
    return st.integers(0, (1 << width) - 1)


ADDRESSED = {"mac": bits(48), "ip": bits(32), "port": bits(16)}
PDS = {"retx": st.booleans(), "psn": bits(32), "spdcid": st.integers(0, 0xFFFE), "dpdcid": bits(16)}
NACK = {"nack_code": bits(8), "missing": bits(8), "spdcid": bits(16)}
ECHO = {"marked": st.booleans()}
OF_REQUESTS = {"syn": st.booleans(), "clear_psn_offset": bits(16)}
SES_REQUEST = {
    "version": bits(2),
    "flags": bits(6),
    "message_id": bits(16),
    "job_id": bits(24),
    "pid_on_fep": bits(12),
    "resource_index": bits(12),
    "buffer_offset": bits(64),
    "initiator": bits(32),
    "memory_key": bits(64),
    "header_data": bits(64),
    "request_length": bits(32),
    "ri_generation": bits(8),
}
ATOMIC_EXTENSION = {"atomic_opcode": bits(8), "atomic_datatype": bits(8), "semantic_control": bits(8)}
SES_RESPONSE = {
    "return_code": bits(6),
    "message_id": bits(16),
    "job_id": bits(24),
    "modified_length": bits(32),
    "ri_generation": bits(8),
}
TO_INITIATOR = {"wants_clear": st.booleans(), "mpr": st.just(0) | bits(8)}


def headers(fields: dict[str, st.SearchStrategy[Any]], **fixed: Any) -> st.SearchStrategy[FrameHeader]:
    return st.fixed_dictionaries(ADDRESSED | PDS | fields).map(lambda values: FrameHeader(**values, **fixed))


def with_payload(
    chosen: st.SearchStrategy[FrameHeader], payloads: st.SearchStrategy[bytes]
) -> st.SearchStrategy[DecodedFrame]:
    def make(header: FrameHeader, payload: bytes) -> DecodedFrame:
        return DecodedFrame(dataclasses.replace(header, payload_length=len(payload)), payload)

    return st.builds(make, chosen, payloads)


def answers(opcode: int, fields: dict[str, st.SearchStrategy[Any]] = SES_RESPONSE) -> st.SearchStrategy[FrameHeader]:
    """Answers whose ``psn`` is as far from ``cack_psn`` as 16 signed bits allow, or nearer."""

    def make(header: FrameHeader, offset: int) -> FrameHeader:
        return dataclasses.replace(header, cack_psn=(header.psn - offset) % (1 << 32))

    chosen = headers(fields | ECHO | TO_INITIATOR, is_request=False, opcode=opcode)
    return st.builds(make, chosen, st.integers(-0x8000, 0x7FFF))


def requests() -> st.SearchStrategy[FrameHeader]:
    def of(opcode: int) -> st.SearchStrategy[FrameHeader]:
        extension = ATOMIC_EXTENSION if opcode in ATOMIC_REQUESTS else {}
        return headers(OF_REQUESTS | SES_REQUEST | extension, opcode=opcode)

    return bits(6).flatmap(of)


PAYLOADS = st.binary(max_size=100)
FRAMES = {
    "request": with_payload(requests(), PAYLOADS),
    "answer": with_payload(answers(1), st.just(b"")),
    "default answer": with_payload(answers(0), st.just(b"")),
    "ACK": with_payload(answers(3, {}), st.just(b"")),
    "answer with data": with_payload(answers(2), PAYLOADS),
    "data in the return direction": with_payload(
        headers(
            SES_RESPONSE | {"clear_psn_offset": bits(16), "buffer_offset": bits(32)},
            is_request=False,
            opcode=2,
            returns=True,
        ),
        PAYLOADS,
    ),
    "NACK": with_payload(
        headers(ECHO | NACK, is_request=False, is_control=True),
        st.just(b""),
    ),
    "CLOSE_COMMAND": with_payload(
        headers({"syn": st.booleans()}, clear_psn_offset=0xFFFF, is_control=True), st.just(b"")
    ),
    "CLEAR_COMMAND": with_payload(
        headers({"retx": st.just(False)}, clear_psn_offset=0xFFFF, is_control=True, clears=True), st.just(b"")
    ),
    "CLOSE_REQUEST": with_payload(
        headers({}, is_request=False, is_control=True, returns=True, asks=True), st.just(b"")
    ),
    "ACK_REQUEST": with_payload(headers({}, clear_psn_offset=0x8001, is_control=True, asks=True), st.just(b"")),
}
"""The possible results of decode, by kind of frame."""


def encoded(frame: DecodedFrame) -> bytes:
    """The frame as its sender made it: ``decode`` gives the sender's address, ``encode`` wants the receiver's."""
    header = dataclasses.replace(frame.header, mac=OWN_MAC, ip=OWN_IP)
    return encode(header, frame.payload, frame.header.mac, frame.header.ip)


@pytest.mark.parametrize("kind", FRAMES)
def test_what_is_encoded_is_decoded(kind: str) -> None:
    @given(FRAMES[kind])
    def check(frame: DecodedFrame) -> None:
        assert decode(encoded(frame), OWN_MAC, OWN_IP) == frame

    check()


@given(st.one_of(*FRAMES.values()), st.data())
def test_a_frame_with_any_pds_and_ses_is_dropped_or_could_have_been_sent(
    frame: DecodedFrame, draw: st.DataObject
) -> None:
    damaged = bytearray(encoded(frame))
    transport = len(damaged) - 42 - 4
    for place in draw.draw(st.lists(st.integers(0, 8 * min(transport, 60) - 1), min_size=1, max_size=3)):
        damaged[42 + place // 8] ^= 1 << place % 8
    damaged[-4:] = struct.pack("<I", google_crc32c.value(bytes(damaged[26:-4])))
    again = decode(bytes(damaged), OWN_MAC, OWN_IP)
    assert layers(bytes(damaged))
    assert summary(bytes(damaged))
    if not isinstance(again, Drop):
        assert decode(encoded(again), OWN_MAC, OWN_IP) == again


@given(st.one_of(*FRAMES.values()), st.data())
def test_a_frame_with_any_bit_wrong_is_dropped(frame: DecodedFrame, draw: st.DataObject) -> None:
    damaged = bytearray(encoded(frame))
    # The source's MAC address is protected by Ethernet's FCS alone.
    place = draw.draw(st.integers(0, 8 * len(damaged) - 1).filter(lambda bit: not 48 <= bit < 96))
    damaged[place // 8] ^= 1 << place % 8
    assert isinstance(decode(bytes(damaged), OWN_MAC, OWN_IP), Drop)
