"""Frames for people: every header field by name, numbers of an enumeration with its names."""

import enum
from typing import NamedTuple

from amoeba_model.layout import Field, Record
from amoeba_model.wire.codec import ATOMIC_REQUESTS, DecodedFrame, Drop, FrameHeader, decode
from amoeba_model.wire.congestion import CONGESTION_STATE
from amoeba_model.wire.uet import (
    ATOMIC_EXTENSION,
    CRC_SIZE,
    ENCAPSULATION_SIZE,
    ETHERNET,
    FIRST_PDC,
    IPV4,
    MESSAGE_REQUESTS,
    PDS_ACK,
    PDS_CONTROL,
    PDS_NACK,
    PDS_REQUEST,
    SES_REQUEST,
    SES_REQUEST_PART,
    SES_RESPONSE,
    SES_RESPONSE_DATA,
    TAGGED_MESSAGES,
    UDP,
    AtomicDatatype,
    AtomicOpcode,
    NackCode,
    PdsType,
    RequestOpcode,
    ResponseOpcode,
    ReturnCode,
    SesFlags,
    place_in_message,
)

__all__ = ["FieldText", "Layer", "layers", "records_of", "summary", "summary_of"]

_ACK_END = ENCAPSULATION_SIZE + PDS_ACK.size
_SHOWN_BYTES = 32
"""Payload bytes that are printed; a longer payload ends in an ellipsis."""

_RENDEZVOUS = frozenset({RequestOpcode.RENDEZVOUS_SEND, RequestOpcode.RENDEZVOUS_TSEND})


class FieldText(NamedTuple):
    """One field of a layer, as text."""

    name: str
    value: str


class Layer(NamedTuple):
    """One header of a frame, its payload, or its CRC."""

    name: str
    fields: tuple[FieldText, ...]

    def lines(self) -> list[str]:
        """Render the layer as aligned lines, the first one its name."""
        width = max((len(field.name) for field in self.fields), default=0)
        return [self.name, *(f"  {field.name:<{width}}  {field.value}" for field in self.fields)]


def layers(frame: bytes) -> list[Layer]:
    """All layers of a frame in wire order; of one that is not Amoeba's, a single layer with the reason and bytes."""
    decoded = decode(frame)
    if isinstance(decoded, Drop):
        return [Layer("undecodable", (FieldText("cause", decoded.cause.name), FieldText("bytes", frame.hex(" "))))]
    header, payload = decoded
    shown: list[Layer] = []
    position = 0
    for record in records_of(frame, header):
        shown.append(_record_layer(record, frame[position : position + record.size]))
        position += record.size
    if payload:
        shown.append(Layer("payload", (FieldText(f"{len(payload)} bytes", _hex(payload)),)))
        position += len(payload)
    crc = int.from_bytes(frame[position : position + CRC_SIZE], "little")
    shown.append(Layer("crc", (FieldText("crc32c", f"{crc:#010x}"),)))
    return shown


def records_of(frame: bytes, header: FrameHeader) -> list[Record]:
    """List the headers of a frame in wire order; its payload and CRC follow."""
    records: list[Record] = [ETHERNET, IPV4, UDP]
    if header.is_control:
        records.append(PDS_CONTROL if header.is_request or header.asks else PDS_NACK)
    elif header.is_request:
        records += [PDS_REQUEST, SES_REQUEST if header.flags & SesFlags.START_OF_MESSAGE else SES_REQUEST_PART]
        if header.opcode in ATOMIC_REQUESTS:
            records.append(ATOMIC_EXTENSION)
    elif header.returns:
        records += [PDS_REQUEST, SES_RESPONSE_DATA]
    else:
        records.append(PDS_ACK)
        if PDS_ACK.unpack(frame[ENCAPSULATION_SIZE:_ACK_END])["type"] == PdsType.ACK_CC:
            records.append(CONGESTION_STATE)
        if header.opcode != ResponseOpcode.NONE:
            records.append(SES_RESPONSE_DATA if header.opcode == ResponseOpcode.WITH_DATA else SES_RESPONSE)
    return records


def summary(frame: bytes) -> str:
    """Describe the frame on one line: sender, receiver, content, and its place in the sequence."""
    decoded = decode(frame)
    return f"{len(frame)} bytes, {decoded.cause.name}" if isinstance(decoded, Drop) else summary_of(decoded)


def summary_of(decoded: DecodedFrame) -> str:
    """:func:`summary` of a frame that was decoded already."""
    header = decoded.header
    source = f"{_ip(header.ip)} PDC {(header.spdcid + FIRST_PDC) & 0xFFFF}"
    if header.is_control:
        is_nack = not (header.is_request or header.asks)
        what = f"NACK {_member(NackCode, header.nack_code)}" if is_nack else _control_text(header)
    else:
        what = _request_text(decoded) if header.is_request else _response_text(decoded)
    chosen = (("SYN", header.syn), ("RETX", header.retx), ("MARKED", header.marked))
    flags = "".join(f", {name}" for name, is_set in chosen if is_set)
    return f"{source} psn {header.psn}: {what}{flags}"


def _control_text(header: FrameHeader) -> str:
    if header.clears:
        return "CLEAR_COMMAND"
    if header.asks:
        return "CLOSE_REQUEST" if header.returns else "ACK_REQUEST"
    return "CLOSE_COMMAND"


def _request_text(frame: DecodedFrame) -> str:
    header = frame.header
    text = _member(RequestOpcode, header.opcode)
    if header.opcode in ATOMIC_REQUESTS:
        operation = _member(AtomicOpcode, header.atomic_opcode)
        text += f" {operation} {_member(AtomicDatatype, header.atomic_datatype)}"
    text += f", {_place_text(header)}, context {header.resource_index}"
    if not header.flags & SesFlags.START_OF_MESSAGE:
        text += f", from byte {place_in_message(header.header_data).message_offset} on"
    elif header.flags & SesFlags.HEADER_DATA:
        text += f", immediate data {header.header_data:#x}"
    return f"{text}, {len(frame.payload)} bytes of payload"


def _place_text(header: FrameHeader) -> str:
    """Describe the target of a request: bytes of a region, or a message."""
    if header.opcode not in MESSAGE_REQUESTS:
        return f"{header.request_length} bytes at {header.buffer_offset:#x}, key {header.memory_key:#x}"
    text = f"{header.buffer_offset if header.opcode in _RENDEZVOUS else header.request_length} bytes"
    if header.opcode in ATOMIC_REQUESTS:
        text += f" at {header.buffer_offset:#x}"
    return f"{text}, tag {header.memory_key:#x}" if header.opcode in TAGGED_MESSAGES else text


def _response_text(frame: DecodedFrame) -> str:
    header = frame.header
    if header.opcode not in (ResponseOpcode.RESPONSE, ResponseOpcode.WITH_DATA):
        return "answer without a response" if header.opcode == ResponseOpcode.NONE else "answer by default"
    if header.returns:
        place = f"{len(frame.payload)} bytes from byte {header.buffer_offset} on"
        return f"data for message {header.message_id}, {place}, {_member(ReturnCode, header.return_code)}"
    data = f", {len(frame.payload)} bytes of data" if frame.payload else ""
    return f"answer {_member(ReturnCode, header.return_code)}, {header.modified_length} bytes concerned{data}"


def _record_layer(record: Record, data: bytes) -> Layer:
    values = record.unpack(data)
    return Layer(
        record.name, tuple(FieldText(field.name, _text(field, values[field.name])) for field in record.fields)
    )


def _text(field: Field, value: int) -> str:
    if field.enum is not None and issubclass(field.enum, enum.IntFlag):
        names = "|".join(member.name for member in field.enum if member & value and member.name)
        return f"{value:#x} ({names})" if names else f"{value:#x}"
    if field.enum is not None:
        return f"{value} ({_member(field.enum, value)})"
    if field.width == 48:
        return value.to_bytes(6, "big").hex(":")
    if field.width == 32 and field.name in ("source", "destination"):
        return _ip(value)
    return f"{value} ({value:#x})" if value > 9 else str(value)


def _member(numbers: type[enum.IntEnum], value: int) -> str:
    """Return the name of a number, or "unknown" with the number."""
    return numbers(value).name if value in numbers.__members__.values() else f"unknown {value:#x}"


def _ip(address: int) -> str:
    return ".".join(str(byte) for byte in address.to_bytes(4, "big"))


def _hex(data: bytes) -> str:
    return data[:_SHOWN_BYTES].hex(" ") + (" ..." if len(data) > _SHOWN_BYTES else "")
