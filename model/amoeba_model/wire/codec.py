"""Frames to and from bytes: what FrameTransmitter and FrameReceiver do to headers, as two functions."""

from typing import NamedTuple

import google_crc32c

from amoeba_model.layout import LayoutError
from amoeba_model.registers import Counter
from amoeba_model.unroll import packer, unpacker
from amoeba_model.wire.congestion import CONGESTION_STATE
from amoeba_model.wire.encapsulation import encapsulation, read_encapsulation
from amoeba_model.wire.frame_header import NO_PDC, FrameHeader
from amoeba_model.wire.uet import (
    ATOMIC_EXTENSION,
    CRC_SIZE,
    CRC_START,
    DSCP_EXPEDITED,
    ECN_CAPABLE,
    ENCAPSULATION_SIZE,
    FIRST_PDC,
    PDS_ACK,
    PDS_CONTROL,
    PDS_NACK,
    PDS_REQUEST,
    SES_REQUEST,
    SES_RESPONSE,
    SES_RESPONSE_DATA,
    UDP,
    AckFlags,
    ControlFlags,
    ControlType,
    NextHeader,
    PdsFlags,
    PdsType,
    RequestOpcode,
    ResponseOpcode,
)

__all__ = ["ATOMIC_REQUESTS", "NO_PDC", "DecodedFrame", "Drop", "FrameHeader", "decode", "encode", "first_target_pdc"]

ATOMIC_REQUESTS = frozenset(
    {
        RequestOpcode.ATOMIC,
        RequestOpcode.FETCHING_ATOMIC,
        RequestOpcode.AMOEBA_ATOMIC,
        RequestOpcode.AMOEBA_FETCHING_ATOMIC,
        RequestOpcode.AMOEBA_COMPARE_ATOMIC,
        RequestOpcode.TSEND_ATOMIC,
        RequestOpcode.TSEND_FETCH_ATOMIC,
    }
)
"""Request opcodes whose SES header is followed by the atomic extension."""

_ATOMIC_REQUESTS = frozenset(opcode.value for opcode in ATOMIC_REQUESTS)


class DecodedFrame(NamedTuple):
    """A frame that :func:`decode` accepted."""

    header: FrameHeader
    payload: bytes


class Drop(NamedTuple):
    """A frame that :func:`decode` refused, with the counter that counts it."""

    cause: Counter


_DROP_MALFORMED = Drop(Counter.DROPPED_MALFORMED)
_DROP_ADDRESS = Drop(Counter.DROPPED_ADDRESS)
_DROP_CHECK = Drop(Counter.DROPPED_CHECK)

_REQUEST_FIELDS = (
    "pds_request.clear_psn_offset",
    "pds_request.psn",
    "pds_request.spdcid",
    "pds_request.dpdcid",
    "ses_request.opcode",
    "ses_request.version",
    "ses_request.flags",
    "ses_request.message_id",
    "ses_request.job_id",
    "ses_request.pid_on_fep",
    "ses_request.resource_index",
    "ses_request.buffer_offset",
    "ses_request.initiator",
    "ses_request.memory_key",
    "ses_request.header_data",
    "ses_request.request_length",
    "ses_request.ri_generation",
)
_EXTENSION_FIELDS = (
    "atomic_extension.opcode",
    "atomic_extension.datatype",
    "atomic_extension.semantic_control",
)
_PDS_REQUEST_CONSTANTS = {
    "pds_request.type": PdsType.ROD_REQ,
    "pds_request.next_header": NextHeader.REQUEST_STD,
}
_REQUEST_ARGUMENTS = ("pds_request.flags", *_REQUEST_FIELDS)
_ACK_ARGUMENTS = (
    "pds_ack.flags",
    "pds_ack.ack_psn_offset",
    "pds_ack.cack_psn",
    "pds_ack.spdcid",
    "pds_ack.dpdcid",
)
_NACK_FIELDS = tuple(
    f"pds_nack.{name}" for name in ("flags", "nack_code", "vendor_code", "nack_psn", "spdcid", "dpdcid")
)
_CONTROL_FIELDS = tuple(
    f"pds_control.{name}" for name in ("control_type", "flags", "psn", "spdcid", "dpdcid", "payload")
)

_pack_request = packer((PDS_REQUEST, SES_REQUEST), _REQUEST_ARGUMENTS, _PDS_REQUEST_CONSTANTS)
_pack_extension = packer((ATOMIC_EXTENSION,), _EXTENSION_FIELDS)
_pack_ack = packer((PDS_ACK,), _ACK_ARGUMENTS, {"pds_ack.type": PdsType.ACK, "pds_ack.next_header": NextHeader.NONE})
_pack_response = packer(
    (PDS_ACK, SES_RESPONSE),
    (
        *_ACK_ARGUMENTS,
        "ses_response.opcode",
        "ses_response.version",
        "ses_response.return_code",
        "ses_response.message_id",
        "ses_response.job_id",
        "ses_response.modified_length",
        "ses_response.ri_generation",
    ),
    {"pds_ack.type": PdsType.ACK, "pds_ack.next_header": NextHeader.RESPONSE},
)
_DATA_ARGUMENTS = tuple(
    f"ses_response_data.{name}"
    for name in (
        "opcode", "version", "return_code", "message_id", "job_id", "read_request_message_id", "payload_length",
        "modified_length", "ri_generation",
    )
)  # fmt: skip
_pack_response_data = packer(
    (PDS_ACK, SES_RESPONSE_DATA),
    (*_ACK_ARGUMENTS, *_DATA_ARGUMENTS),
    {"pds_ack.type": PdsType.ACK, "pds_ack.next_header": NextHeader.RESPONSE_DATA},
)
_RETURN_FIELDS = tuple(f"pds_request.{name}" for name in ("flags", "clear_psn_offset", "psn", "spdcid", "dpdcid"))
_pack_return = packer(
    (PDS_REQUEST, SES_RESPONSE_DATA),
    (*_RETURN_FIELDS, *_DATA_ARGUMENTS, "ses_response_data.message_offset"),
    {"pds_request.type": PdsType.ROD_REQ, "pds_request.next_header": NextHeader.RESPONSE_DATA},
)
_pack_nack = packer(
    (PDS_NACK,), _NACK_FIELDS, {"pds_nack.type": PdsType.NACK, "pds_nack.next_header": NextHeader.NONE}
)
_pack_control = packer((PDS_CONTROL,), _CONTROL_FIELDS, {"pds_control.type": PdsType.CONTROL})

_unpack_prologue = unpacker((PDS_REQUEST,), ("pds_request.type", "pds_request.next_header", "pds_request.flags"))
_unpack_request = unpacker((PDS_REQUEST, SES_REQUEST), _REQUEST_FIELDS)
_unpack_extension = unpacker((ATOMIC_EXTENSION,), _EXTENSION_FIELDS)
_unpack_ack = unpacker((PDS_ACK,), ("pds_ack.ack_psn_offset", "pds_ack.cack_psn", "pds_ack.spdcid", "pds_ack.dpdcid"))
_unpack_nack = unpacker((PDS_NACK,), _NACK_FIELDS[1:])
_unpack_control = unpacker((PDS_CONTROL,), _CONTROL_FIELDS[2:])
_unpack_congestion = unpacker((CONGESTION_STATE,), ("congestion_state.mpr",))
_RESPONSE_FIELDS = (
    "list", "opcode", "version", "return_code", "message_id", "job_id", "modified_length", "ri_generation",
)  # fmt: skip
_unpack_response = unpacker((SES_RESPONSE,), [f"ses_response.{name}" for name in _RESPONSE_FIELDS])
_unpack_response_data = unpacker(
    (SES_RESPONSE_DATA,), [f"ses_response_data.{name}" for name in (*_RESPONSE_FIELDS, "payload_length")]
)
_unpack_return = unpacker(
    (PDS_REQUEST, SES_RESPONSE_DATA),
    (
        *_RETURN_FIELDS[1:],
        *(f"ses_response_data.{name}" for name in ("list", "opcode", "version", "return_code", "job_id")),
        *(f"ses_response_data.{name}" for name in ("read_request_message_id", "payload_length", "modified_length")),
        "ses_response_data.message_offset",
        "ses_response_data.ri_generation",
    ),
)
_REQUEST_END = ENCAPSULATION_SIZE + PDS_REQUEST.size + SES_REQUEST.size
_RESPONSE_START = ENCAPSULATION_SIZE + PDS_ACK.size
_RETURN_END = ENCAPSULATION_SIZE + PDS_REQUEST.size + SES_RESPONSE_DATA.size
_UDP_AND_CRC = UDP.size + CRC_SIZE
_EXTENSION_SIZE = ATOMIC_EXTENSION.size
_RESPONSE_SIZE = SES_RESPONSE.size
_RESPONSE_DATA_SIZE = SES_RESPONSE_DATA.size
_STATE_SIZE = CONGESTION_STATE.size
_CONTROL_SIZE = PDS_CONTROL.size
"""Also that of a NACK."""
_ROD_REQUEST, _ACK, _ACK_CC, _NACK, _CONTROL = (
    kind.value for kind in (PdsType.ROD_REQ, PdsType.ACK, PdsType.ACK_CC, PdsType.NACK, PdsType.CONTROL)
)
_REQUEST_STD = NextHeader.REQUEST_STD.value
_RESPONSE, _RESPONSE_DATA = NextHeader.RESPONSE.value, NextHeader.RESPONSE_DATA.value
_NO_HEADER = NextHeader.NONE.value
_CLOSE, _CLEAR = ControlType.CLOSE_COMMAND.value, ControlType.CLEAR_COMMAND.value
_ASK, _ASK_TO_CLOSE = ControlType.ACK_REQUEST.value, ControlType.CLOSE_REQUEST.value
_WITH_DATA, _NO_RESPONSE = ResponseOpcode.WITH_DATA.value, ResponseOpcode.NONE.value
_WITHOUT_DATA = frozenset({ResponseOpcode.RESPONSE.value, ResponseOpcode.DEFAULT.value})
_ACK_REQUEST, _SYN, _RETX = PdsFlags.ACK_REQUEST.value, PdsFlags.SYN.value, PdsFlags.RETX.value
_MARKED, _WANTS_CLEAR = AckFlags.MARKED.value, AckFlags.REQUEST_CLEAR.value
# A flag has the same place in all packets that have it.
assert {AckFlags.RETX.value, ControlFlags.RETX.value} == {_RETX}
assert (ControlFlags.ACK_REQUEST.value, ControlFlags.SYN.value) == (_ACK_REQUEST, _SYN)
_CLEARED = 0xFFFF
"""``clear_psn_offset`` of a CLOSE_COMMAND: everything before it has been answered."""
_UNSAID = 0x8001
"""``clear_psn_offset`` of an ACK_REQUEST, which does not say what has been answered: its answer covers nothing."""
_CRC_RESIDUE = 0x4867_4BC7
"""The CRC of anything with its own CRC behind it."""


def first_target_pdc(peers: int) -> int:
    """Return the number of a NIC's first PDC as a target: behind those of the ``peers`` entries of its peer table."""
    return FIRST_PDC + peers


def encode(
    header: FrameHeader, payload: bytes, own_mac: int, own_ip: int, dscp: int = 0, peers: int = 0
) -> bytes:
    """Encode a frame, from the Ethernet header to the packet's CRC, without padding.

    ``dscp`` is that of requests, ``peers`` the size of the sender's peer table. ``header.payload_length`` is not
    looked at. Raises LayoutError when a value does not fit its field, and when there is a payload where none may be.
    """
    returned = _is_returned(header)
    own = FIRST_PDC if header.is_request or (header.returns and not returned) else first_target_pdc(peers)
    numbers = _numbers(header, own)
    if header.is_control:
        if payload:
            raise LayoutError(f"a control packet or NACK has no payload, got {len(payload)} bytes")
        is_nack = not (header.is_request or returned)
        packet = _encode_nack(header, numbers) if is_nack else _encode_control(header, numbers)
    elif header.is_request:
        packet = _encode_request(header, numbers)
    elif returned:
        packet = _encode_return(header, numbers, len(payload))
    else:
        packet = _encode_ack(header, numbers, len(payload))
        if header.mpr:
            packet = _with_state(packet, header.mpr)
    udp_length = _UDP_AND_CRC + len(packet) + len(payload)
    tos = dscp << 2 | ECN_CAPABLE if header.is_request or returned else DSCP_EXPEDITED << 2
    outer, crc = encapsulation(header.mac, header.ip, header.port, udp_length, own_mac, own_ip, tos)
    crc = google_crc32c.extend(google_crc32c.extend(crc, packet), payload)
    return b"".join((outer, packet, payload, crc.to_bytes(CRC_SIZE, "little")))


def _is_returned(header: FrameHeader) -> bool:
    """Whether a packet is a target's own, in the return direction; otherwise, there, the initiator's answer to it."""
    return header.returns and (header.opcode == _WITH_DATA or header.asks)


def _encode_request(header: FrameHeader, numbers: tuple[int, int]) -> bytes:
    packet = _pack_request(
        _ACK_REQUEST | _syn_and_retx(header),
        header.clear_psn_offset,
        header.psn,
        *numbers,
        header.opcode,
        header.version,
        header.flags,
        header.message_id,
        header.job_id,
        header.pid_on_fep,
        header.resource_index,
        header.buffer_offset,
        header.initiator,
        header.memory_key,
        header.header_data,
        header.request_length,
        header.ri_generation,
    )
    if header.opcode in _ATOMIC_REQUESTS:
        packet += _pack_extension(header.atomic_opcode, header.atomic_datatype, header.semantic_control)
    return packet


def _encode_return(header: FrameHeader, numbers: tuple[int, int], size: int) -> bytes:
    return _pack_return(
        _ACK_REQUEST | (_RETX if header.retx else 0),
        header.clear_psn_offset,
        header.psn,
        *numbers,
        header.opcode,
        header.version,
        header.return_code,
        header.message_id,
        header.job_id,
        header.message_id,
        size,
        header.modified_length,
        header.ri_generation,
        header.buffer_offset,
    )


def _encode_ack(header: FrameHeader, numbers: tuple[int, int], size: int) -> bytes:
    psn, cack_psn = header.psn, header.cack_psn
    distance = (psn - cack_psn + 0x8000) & 0xFFFF_FFFF
    if distance > 0xFFFF or psn >> 32:
        raise LayoutError(f"ack_psn_offset holds 16 signed bits; psn {psn:#x} is too far from cack_psn {cack_psn:#x}")
    pds = (
        _marked_and_retx(header) | (_WANTS_CLEAR if header.wants_clear else 0),
        (distance - 0x8000) & 0xFFFF,
        cack_psn,
        *numbers,
    )
    if header.opcode == _NO_RESPONSE:
        if size:
            raise LayoutError(f"an ACK without a response has no payload, got {size} bytes")
        return _pack_ack(*pds)
    ses = (header.opcode, header.version, header.return_code, header.message_id, header.job_id)
    if header.opcode == _WITH_DATA:
        return _pack_response_data(*pds, *ses, header.message_id, size, header.modified_length, header.ri_generation)
    return _pack_response(*pds, *ses, header.modified_length, header.ri_generation)


def _with_state(packet: bytes, mpr: int) -> bytes:
    """Turn an ACK into an ACK_CC that says a window."""
    prologue = int.from_bytes(packet[:2], "big") + (_ACK_CC - _ACK << 11)
    state = CONGESTION_STATE.pack(mpr=mpr)
    return prologue.to_bytes(2, "big") + packet[2 : PDS_ACK.size] + state + packet[PDS_ACK.size :]


def _encode_nack(header: FrameHeader, numbers: tuple[int, int]) -> bytes:
    return _pack_nack(
        _marked_and_retx(header),
        header.nack_code,
        header.missing,
        header.psn,
        *numbers,
    )


def _encode_control(header: FrameHeader, numbers: tuple[int, int]) -> bytes:
    if header.clears:
        return _pack_control(_CLEAR, 0, 0, *numbers, header.psn)
    if header.returns:
        return _pack_control(_ASK_TO_CLOSE, _ACK_REQUEST | (_RETX if header.retx else 0), header.psn, *numbers, 0)
    if header.asks:
        return _pack_control(_ASK, _RETX if header.retx else 0, header.psn, *numbers, 0)
    return _pack_control(_CLOSE, _ACK_REQUEST | _syn_and_retx(header), header.psn, *numbers, 0)


def _numbers(header: FrameHeader, own: int) -> tuple[int, int]:
    """``spdcid`` and ``dpdcid`` as they travel; with SYN, which requests may have, the latter is no PDC.

    ``own`` is the number of the first entry in the table of ``spdcid``.
    """
    spdcid, dpdcid = header.spdcid, header.dpdcid
    if (spdcid | dpdcid) >> 16:
        raise LayoutError(f"spdcid and dpdcid hold 16 bits, which {spdcid:#x} and {dpdcid:#x} do not fit")
    opens = header.is_request and header.syn
    number = 0 if spdcid == NO_PDC else (spdcid + own) & 0xFFFF
    return number, dpdcid if opens else (dpdcid + FIRST_PDC) & 0xFFFF


def _syn_and_retx(header: FrameHeader) -> int:
    return (_SYN if header.syn else 0) | (_RETX if header.retx else 0)


def _marked_and_retx(header: FrameHeader) -> int:
    return (_MARKED if header.marked else 0) | (_RETX if header.retx else 0)


def _signed(number: int) -> int:
    """Return the value of 16 bits in two's complement."""
    return number - (number >> 15 << 16)


def decode(
    frame: bytes, own_mac: int | None = None, own_ip: int | None = None, peers: int = 0
) -> DecodedFrame | Drop:
    """Decode a frame's header and payload, or say why it is dropped, in the order of hw/amoeba_hw/wire/README.md.

    Without ``own_mac`` or ``own_ip`` every destination is accepted. ``peers`` is the size of the receiver's peer
    table. Never raises, whatever the bytes are.
    """
    if len(frame) < ENCAPSULATION_SIZE:
        return _DROP_MALFORMED
    outer = read_encapsulation(frame[:ENCAPSULATION_SIZE])
    if outer is None:
        return _DROP_MALFORMED
    destination, ip_destination, mac, ip, port, end, marked = outer
    if end + CRC_SIZE > len(frame):
        return _DROP_MALFORMED
    if (own_mac is not None and destination != own_mac) or (own_ip is not None and ip_destination != own_ip):
        return _DROP_ADDRESS
    if google_crc32c.value(frame[CRC_START : end + CRC_SIZE]) != _CRC_RESIDUE:
        return _DROP_CHECK
    if end < _RESPONSE_START:
        return _DROP_MALFORMED
    kind, next_header, pds_flags = _unpack_prologue(frame, ENCAPSULATION_SIZE)
    if kind == _ROD_REQUEST and next_header == _REQUEST_STD:
        return _decode_request(frame, end, (mac, ip, port), pds_flags, marked, peers)
    if kind == _ROD_REQUEST and next_header == _RESPONSE_DATA:
        return _decode_return(frame, end, mac, ip, port, pds_flags, marked)
    if kind in (_ACK, _ACK_CC) and next_header in (_NO_HEADER, _RESPONSE, _RESPONSE_DATA):
        return _decode_ack(frame, end, mac, ip, port, pds_flags, next_header, kind == _ACK_CC)
    if end != ENCAPSULATION_SIZE + _CONTROL_SIZE:
        return _DROP_MALFORMED
    if kind == _NACK and next_header == _NO_HEADER:
        return _decode_nack(frame, mac, ip, port, pds_flags)
    if kind == _CONTROL and next_header in (_CLOSE, _CLEAR, _ASK):
        return _decode_control(frame, (mac, ip, port), next_header, pds_flags, marked, peers)
    if kind == _CONTROL and next_header == _ASK_TO_CLOSE:
        return _decode_close_request(frame, mac, ip, port, pds_flags, marked)
    return _DROP_MALFORMED


def _decode_request(
    frame: bytes, end: int, source: tuple[int, int, int], pds_flags: int, marked: bool, peers: int
) -> DecodedFrame | Drop:
    start = _REQUEST_END
    if start > end:
        return _DROP_MALFORMED
    (
        clear_psn_offset, psn, spdcid, dpdcid, opcode, version, flags, message_id, job_id, pid_on_fep, resource_index,
        buffer_offset, initiator, memory_key, header_data, request_length, ri_generation,
    ) = _unpack_request(frame, ENCAPSULATION_SIZE)  # fmt: skip
    if not spdcid:
        return _DROP_MALFORMED
    atomic_opcode = atomic_datatype = semantic_control = 0
    if opcode in _ATOMIC_REQUESTS:
        if start + _EXTENSION_SIZE > end:
            return _DROP_MALFORMED
        atomic_opcode, atomic_datatype, semantic_control = _unpack_extension(frame, start)
        start += _EXTENSION_SIZE
    syn, retx = pds_flags & _SYN != 0, pds_flags & _RETX != 0
    if not syn:
        dpdcid = (dpdcid - first_target_pdc(peers)) & 0xFFFF
    header = FrameHeader(
        *source, True, False, retx, 0, 0, 0, psn, clear_psn_offset, spdcid - FIRST_PDC, dpdcid, syn, opcode,
        version, flags, message_id, job_id, pid_on_fep, resource_index, buffer_offset, initiator, memory_key,
        header_data, request_length, atomic_opcode, atomic_datatype, semantic_control, 0, 0, end - start, marked,
    )  # fmt: skip
    header.ri_generation = ri_generation
    return DecodedFrame(header, frame[start:end])


def _decode_return(
    frame: bytes, end: int, mac: int, ip: int, port: int, pds_flags: int, marked: bool
) -> DecodedFrame | Drop:
    start = _RETURN_END
    if start > end:
        return _DROP_MALFORMED
    (
        clear_psn_offset, psn, spdcid, dpdcid, listed, opcode, version, return_code, job_id, message_id, length,
        modified_length, message_offset, ri_generation,
    ) = _unpack_return(frame, ENCAPSULATION_SIZE)  # fmt: skip
    if listed or version or opcode != _WITH_DATA or length != end - start or not spdcid:
        return _DROP_MALFORMED
    header = FrameHeader(
        mac=mac,
        ip=ip,
        port=port,
        is_request=False,
        retx=bool(pds_flags & _RETX),
        psn=psn,
        clear_psn_offset=clear_psn_offset,
        spdcid=spdcid - FIRST_PDC,
        dpdcid=(dpdcid - FIRST_PDC) & 0xFFFF,
        opcode=opcode,
        message_id=message_id,
        job_id=job_id,
        buffer_offset=message_offset,
        return_code=return_code,
        modified_length=modified_length,
        payload_length=length,
        marked=marked,
        returns=True,
        ri_generation=ri_generation,
    )
    return DecodedFrame(header, frame[start:end])


def _decode_ack(
    frame: bytes, end: int, mac: int, ip: int, port: int, pds_flags: int, next_header: int, has_state: bool
) -> DecodedFrame | Drop:
    offset, cack_psn, spdcid, dpdcid = _unpack_ack(frame, ENCAPSULATION_SIZE)
    start = _RESPONSE_START
    mpr = length = return_code = message_id = job_id = modified_length = ri_generation = 0
    if has_state:
        if start + _STATE_SIZE > end:
            return _DROP_MALFORMED
        (mpr,) = _unpack_congestion(frame, start)
        start += _STATE_SIZE
    opcode = _NO_RESPONSE
    if next_header == _RESPONSE_DATA:
        if start + _RESPONSE_DATA_SIZE > end:
            return _DROP_MALFORMED
        (
            listed, opcode, version, return_code, message_id, job_id, modified_length, ri_generation, length,
        ) = _unpack_response_data(frame, start)  # fmt: skip
        start += _RESPONSE_DATA_SIZE
        if listed or version or opcode != _WITH_DATA:
            return _DROP_MALFORMED
    elif next_header == _RESPONSE:
        if start + _RESPONSE_SIZE > end:
            return _DROP_MALFORMED
        (
            listed, opcode, version, return_code, message_id, job_id, modified_length, ri_generation,
        ) = _unpack_response(frame, start)  # fmt: skip
        start += _RESPONSE_SIZE
        if listed or version or opcode not in _WITHOUT_DATA:
            return _DROP_MALFORMED
    if length != end - start or not spdcid:
        return _DROP_MALFORMED
    psn, retx = (cack_psn + _signed(offset)) & 0xFFFF_FFFF, pds_flags & _RETX != 0
    header = FrameHeader(
        mac, ip, port, False, False, retx, 0, 0, cack_psn, psn, 0, spdcid - FIRST_PDC, (dpdcid - FIRST_PDC) & 0xFFFF,
        False, opcode, 0, 0, message_id, job_id, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, return_code, modified_length, length,
        pds_flags & _MARKED != 0,
    )  # fmt: skip
    header.wants_clear, header.mpr, header.ri_generation = pds_flags & _WANTS_CLEAR != 0, mpr, ri_generation
    return DecodedFrame(header, frame[start:end])


def _decode_nack(frame: bytes, mac: int, ip: int, port: int, pds_flags: int) -> DecodedFrame:
    nack_code, missing, psn, spdcid, dpdcid = _unpack_nack(frame, ENCAPSULATION_SIZE)
    header = FrameHeader(
        mac=mac,
        ip=ip,
        port=port,
        is_request=False,
        is_control=True,
        retx=bool(pds_flags & _RETX),
        nack_code=nack_code,
        missing=missing,
        psn=psn,
        spdcid=(spdcid - FIRST_PDC) & 0xFFFF,
        dpdcid=(dpdcid - FIRST_PDC) & 0xFFFF,
        marked=bool(pds_flags & _MARKED),
    )
    return DecodedFrame(header, b"")


def _decode_control(
    frame: bytes, source: tuple[int, int, int], kind: int, pds_flags: int, marked: bool, peers: int
) -> DecodedFrame | Drop:
    psn, spdcid, dpdcid, payload = _unpack_control(frame, ENCAPSULATION_SIZE)
    if not spdcid:
        return _DROP_MALFORMED
    syn = kind == _CLOSE and bool(pds_flags & _SYN)
    header = FrameHeader(
        *source,
        is_control=True,
        retx=kind != _CLEAR and bool(pds_flags & _RETX),
        psn=payload if kind == _CLEAR else psn,
        clear_psn_offset=_UNSAID if kind == _ASK else _CLEARED,
        spdcid=spdcid - FIRST_PDC,
        dpdcid=dpdcid if syn else (dpdcid - first_target_pdc(peers)) & 0xFFFF,
        syn=syn,
        marked=marked,
        clears=kind == _CLEAR,
        asks=kind == _ASK,
    )
    return DecodedFrame(header, b"")


def _decode_close_request(
    frame: bytes, mac: int, ip: int, port: int, pds_flags: int, marked: bool
) -> DecodedFrame | Drop:
    psn, spdcid, dpdcid, _ = _unpack_control(frame, ENCAPSULATION_SIZE)
    if not spdcid:
        return _DROP_MALFORMED
    header = FrameHeader(
        mac=mac,
        ip=ip,
        port=port,
        is_request=False,
        is_control=True,
        retx=bool(pds_flags & _RETX),
        psn=psn,
        spdcid=spdcid - FIRST_PDC,
        dpdcid=(dpdcid - FIRST_PDC) & 0xFFFF,
        marked=marked,
        returns=True,
        asks=True,
    )
    return DecodedFrame(header, b"")
