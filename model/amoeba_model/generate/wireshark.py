"""The Wireshark dissector, in Lua: UDP port 4793 as PDS, SES, atomic extension, payload, CRC."""

import enum
from collections.abc import Iterator

from amoeba_model.generate.sources import WIRE_ENUMS, notice
from amoeba_model.layout import Field, Record
from amoeba_model.wire.codec import ATOMIC_REQUESTS
from amoeba_model.wire.congestion import CONGESTION_STATE
from amoeba_model.wire.uet import (
    ATOMIC_EXTENSION,
    CRC_SIZE,
    PDS_ACK,
    PDS_CONTROL,
    PDS_NACK,
    PDS_REQUEST,
    SES_REQUEST,
    SES_REQUEST_PART,
    SES_RESPONSE,
    SES_RESPONSE_DATA,
    UDP_PORT,
    NextHeader,
    PdsType,
    ResponseOpcode,
    SesFlags,
)

__all__ = ["dissector"]

_PDS_HEADERS = {
    PdsType.ROD_REQ: PDS_REQUEST,
    PdsType.ACK: PDS_ACK,
    PdsType.ACK_CC: PDS_ACK,
    PdsType.NACK: PDS_NACK,
    PdsType.CONTROL: PDS_CONTROL,
}
_RECORDS = (
    *dict.fromkeys(_PDS_HEADERS.values()), CONGESTION_STATE, SES_REQUEST, SES_REQUEST_PART, ATOMIC_EXTENSION,
    SES_RESPONSE, SES_RESPONSE_DATA,
)  # fmt: skip

_DISSECTOR = """\
-- Adds the fields of one header to the tree; returns its values and the offset behind it.
-- A header that is cut off adds nothing and returns nil.
local function add_header(tree, tvb, offset, header)
  if tvb:len() < offset + header.size then
    return nil
  end
  local branch = tree:add(uet, tvb(offset, header.size), header.title)
  local values = {}
  for _, field in ipairs(header.fields) do
    local range = tvb(offset + field.start, field.length)
    branch:add(field.proto, range)
    if field.length <= 4 then
      values[field.name] = math.floor(range:uint() / field.divisor) % field.modulus
    end
    for _, flag in ipairs(field.flags) do
      branch:add(flag, range)
    end
  end
  return values, offset + header.size
end

local function name_of(names, value)
  return names[value] or string.format("unknown 0x%x", value)
end

local function dissect_request(tree, tvb, offset)
  local values
  local header = headers.ses_request
  if tvb:len() > offset + 1 and tvb(offset + 1, 1):uint() % 2 < START then
    header = headers.ses_request_part
  end
  values, offset = add_header(tree, tvb, offset, header)
  if values == nil then
    return nil
  end
  local text = name_of(enums.RequestOpcode, values.opcode)
  if atomic_requests[values.opcode] then
    local atomic
    atomic, offset = add_header(tree, tvb, offset, headers.atomic_extension)
    if atomic == nil then
      return nil
    end
    text = text .. " " .. name_of(enums.AtomicOpcode, atomic.opcode)
      .. " " .. name_of(enums.AtomicDatatype, atomic.datatype)
  end
  return text, offset
end

local function dissect_response(tree, tvb, offset, header)
  local values
  values, offset = add_header(tree, tvb, offset, header)
  if values == nil then
    return nil
  end
  local text = name_of(enums.ReturnCode, values.return_code)
  if values.opcode == RESPONSE_DEFAULT then
    text = "by default"
  end
  return text, offset
end

-- The packet that a PDS header speaks about.
local function psn_of(kind, values)
  if kind ~= PDS_ACK then
    return values.psn or values.nack_psn
  end
  local offset = values.ack_psn_offset
  if offset >= 32768 then
    offset = offset - 65536
  end
  return (values.cack_psn + offset) % 4294967296
end

function uet.dissector(tvb, pinfo, tree)
  if tvb:len() < 2 then
    return 0
  end
  local prologue = tvb(0, 2):uint()
  local kind = math.floor(prologue / 2048)
  local next_header = math.floor(prologue / 128) % 16
  pinfo.cols.protocol = "UET"
  local root = tree:add(uet, tvb(), "Ultra Ethernet Transport")
  local info = name_of(enums.PdsType, kind)
  local values, offset, text
  if pds_headers[kind] then
    values, offset = add_header(root, tvb, 0, pds_headers[kind])
  end
  if values and kind == PDS_ACK_CC then
    kind = PDS_ACK
    local state
    state, offset = add_header(root, tvb, offset, headers.congestion_state)
    values = state and values
  end
  if values == nil then
    pinfo.cols.info = info
    return tvb:len()
  end
  info = info .. " psn " .. string.format("%.0f", psn_of(kind, values))
  if kind == PDS_ROD_REQ and next_header == NEXT_REQUEST_STD then
    text, offset = dissect_request(root, tvb, offset)
  elseif kind == PDS_ROD_REQ and next_header == NEXT_RESPONSE_DATA then
    text, offset = dissect_response(root, tvb, offset, headers.ses_response_data)
    text = text and "data in the return direction " .. text
  elseif kind == PDS_ACK and next_header == NEXT_RESPONSE then
    text, offset = dissect_response(root, tvb, offset, headers.ses_response)
  elseif kind == PDS_ACK and next_header == NEXT_RESPONSE_DATA then
    text, offset = dissect_response(root, tvb, offset, headers.ses_response_data)
  elseif kind == PDS_ACK and next_header == NEXT_NONE then
    text = "without a response"
  elseif kind == PDS_NACK then
    text = name_of(enums.NackCode, values.nack_code)
  elseif kind == PDS_CONTROL then
    text = name_of(enums.ControlType, values.control_type)
  end
  pinfo.cols.info = info .. (text and (" " .. text) or "")
  if text == nil then
    return tvb:len()
  end
  local rest = tvb:len() - offset - CRC_SIZE
  if rest > 0 then
    root:add(payload_field, tvb(offset, rest))
  end
  if rest >= 0 then
    root:add_le(crc_field, tvb(offset + rest, CRC_SIZE))
  end
  return tvb:len()
end

DissectorTable.get("udp.port"):add(UDP_PORT, uet)"""


def dissector() -> str:
    """Generate ``amoeba_uet.lua``, for Wireshark's plugin folder or its option -X lua_script:."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield f"-- {notice('wire.uet')}"
    yield "-- Dissects Ultra Ethernet Transport on UDP as Amoeba sends it."
    yield ""
    yield 'local uet = Proto("amoeba_uet", "Ultra Ethernet Transport (Amoeba)")'
    yield ""
    yield f"local UDP_PORT = {UDP_PORT}"
    yield f"local CRC_SIZE = {CRC_SIZE}"
    for kind in _PDS_HEADERS:
        yield f"local PDS_{kind.name} = {kind.value}"
    yield f"local START = {SesFlags.START_OF_MESSAGE.value}"
    yield f"local NEXT_NONE = {NextHeader.NONE.value}"
    yield f"local NEXT_REQUEST_STD = {NextHeader.REQUEST_STD.value}"
    yield f"local NEXT_RESPONSE = {NextHeader.RESPONSE.value}"
    yield f"local NEXT_RESPONSE_DATA = {NextHeader.RESPONSE_DATA.value}"
    yield f"local RESPONSE_DEFAULT = {ResponseOpcode.DEFAULT.value}"
    atomics = ", ".join(f"[{opcode.value}] = true" for opcode in sorted(ATOMIC_REQUESTS))
    yield f"local atomic_requests = {{ {atomics} }}"
    yield ""
    yield "local enums = {"
    for numbers in WIRE_ENUMS:
        if issubclass(numbers, enum.IntEnum):
            yield f"  {numbers.__name__} = {{"
            for name, member in numbers.__members__.items():
                yield f'    [{member.value}] = "{name}",'
            yield "  },"
    yield "}"
    yield ""
    yield "local headers = {"
    for record in _RECORDS:
        yield from _header(record)
    yield "}"
    by_kind = ", ".join(f"[PDS_{kind.name}] = headers.{record.name}" for kind, record in _PDS_HEADERS.items())
    yield f"local pds_headers = {{ {by_kind} }}"
    yield ""
    yield 'local payload_field = ProtoField.bytes("amoeba_uet.payload", "payload")'
    yield 'local crc_field = ProtoField.uint32("amoeba_uet.crc", "crc", base.HEX)'
    yield "local all = { payload_field, crc_field }"
    yield "for _, header in pairs(headers) do"
    yield "  for _, field in ipairs(header.fields) do"
    yield "    all[#all + 1] = field.proto"
    yield "    for _, flag in ipairs(field.flags) do"
    yield "      all[#all + 1] = flag"
    yield "    end"
    yield "  end"
    yield "end"
    yield "uet.fields = all"
    yield ""
    yield _DISSECTOR


def _header(record: Record) -> Iterator[str]:
    yield f'  {record.name} = {{ title = "{record.name}", size = {record.size}, fields = {{'
    position = 0
    for field in record.fields:
        if not field.name.startswith("reserved"):
            yield from _field(record, field, position)
        position += field.width
    yield "  } },"


def _field(record: Record, field: Field, position: int) -> Iterator[str]:
    """One field: the bytes that hold it, the Wireshark field that shows it, and how to compute its value."""
    start, bit = divmod(position, 8)
    length = (bit + field.width + 7) // 8
    shift = 8 * length - bit - field.width
    mask = ((1 << field.width) - 1) << shift
    abbreviation = f"amoeba_uet.{record.name}.{field.name}"
    names = "nil"
    if field.enum is not None and issubclass(field.enum, enum.IntEnum):
        names = f"enums.{field.enum.__name__}"
    shown = "base.HEX" if field.width == 64 or (names == "nil" and field.enum is not None) else "base.DEC"
    # A mask as wide as the bytes says nothing, and Lua's numbers hold no 64-bit mask.
    masked = "" if field.width == 8 * length else f", {mask:#x}"
    constructor = f'ProtoField.uint{8 * length}("{abbreviation}", "{field.name}", {shown}, {names}{masked})'
    yield f'    {{ name = "{field.name}", start = {start}, length = {length},'
    yield f"      divisor = {1 << shift}, modulus = {1 << min(field.width, 32)},"
    yield f"      proto = {constructor},"
    flags = []
    if field.enum is not None and issubclass(field.enum, enum.IntFlag):
        flags = [
            f'ProtoField.bool("{abbreviation}.{member.name.lower()}", "{member.name}", {8 * length}, nil,'
            f" {member.value << shift:#x})"
            for member in field.enum
            if member.name is not None
        ]
    if flags:
        yield "      flags = {"
        for flag in flags:
            yield f"        {flag},"
        yield "      } },"
    else:
        yield "      flags = {} },"
