"""Where the headers of a frame lie, and how they become a FRAME_HEADER and back.

A frame has one of eleven shapes; everything variable about it follows from the shape and the payload's length.
"""

import enum

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.wire import uet
from amoeba_model.wire.codec import ATOMIC_REQUESTS, NO_PDC, first_target_pdc
from amoeba_model.wire.congestion import CONGESTION_STATE

from amoeba_hw.interfaces import FRAME_HEADER
from amoeba_hw.layout import pack_wire, unpack_wire
from amoeba_hw.packed import select
from amoeba_hw.stream import SkidBuffer, connect_streams

__all__ = [
    "BUILT_HEADER",
    "HEADER_MAXIMUM",
    "NO_CONTEXT",
    "SENT_SHAPES",
    "SHAPE",
    "SHORTEST_FRAME",
    "FrameShape",
    "HeaderBuilder",
    "by_shape",
    "is_atomic_opcode",
    "parse_headers",
]


class FrameShape(enum.Enum):
    """Headers of a frame behind UDP's, in order."""

    ACK = (uet.PDS_ACK,)
    RESPONSE = (uet.PDS_ACK, uet.SES_RESPONSE)
    RESPONSE_DATA = (uet.PDS_ACK, uet.SES_RESPONSE_DATA)
    NACK = (uet.PDS_NACK,)
    REQUEST = (uet.PDS_REQUEST, uet.SES_REQUEST)
    ATOMIC_REQUEST = (uet.PDS_REQUEST, uet.SES_REQUEST, uet.ATOMIC_EXTENSION)
    CONTROL = (uet.PDS_CONTROL,)
    RETURN_DATA = (uet.PDS_REQUEST, uet.SES_RESPONSE_DATA)
    ACK_CC = (uet.PDS_ACK, CONGESTION_STATE)
    RESPONSE_CC = (uet.PDS_ACK, CONGESTION_STATE, uet.SES_RESPONSE)
    RESPONSE_DATA_CC = (uet.PDS_ACK, CONGESTION_STATE, uet.SES_RESPONSE_DATA)

    @property
    def records(self):
        """All headers, Ethernet's first."""
        return (uet.ETHERNET, uet.IPV4, uet.UDP, *self.value)

    @property
    def header_bytes(self):
        """Bytes of all headers: where the payload begins."""
        return sum(record.size for record in self.records)

    @property
    def packet_overhead(self):
        """Bytes of the IP packet that are not payload."""
        return self.header_bytes - uet.ETHERNET.size + uet.CRC_SIZE


SENT_SHAPES = tuple(shape for shape in FrameShape if CONGESTION_STATE not in shape.value)
"""Frames with congestion state are received only."""

HEADER_MAXIMUM = max(shape.header_bytes for shape in FrameShape)
"""Bytes of the longest headers."""

SHORTEST_FRAME = min(shape.header_bytes for shape in FrameShape) + uet.CRC_SIZE
"""Bytes, without FCS."""

SHAPE = data.StructLayout({shape.name.lower(): 1 for shape in FrameShape})
"""A bit per FrameShape, of which at most one is set."""


def by_shape(shape, width, value_of):
    """Select a constant of ``width`` bits by a SHAPE: ``value_of`` its FrameShape; zero without any."""
    return select(width, ((shape[kind.name.lower()], Const(value_of(kind), width)) for kind in FrameShape))


def is_atomic_opcode(opcode):
    """Whether a request opcode has the atomic extension."""
    return opcode.matches(*(int(code) for code in sorted(ATOMIC_REQUESTS)))


NO_CONTEXT = 0xFF
"""In the trace, of a response and of a received control packet: the frame does not say."""

BUILT_HEADER = data.StructLayout(
    {
        "bytes": 8 * HEADER_MAXIMUM,
        "kind": SHAPE,
        "length": 15,  # of the frame without its CRC
        "payload_length": 14,
        "is_request": 1,
        "is_control": 1,
        "context": 8,
        "pdc": 16,
        "psn": 32,
        "status": 8,
    }
)
"""All headers of a frame as they travel, first byte in the low bits, and what the trace wants to know."""

_IPV4_CONSTANTS = {
    "version": 4,
    "header_words": 5,
    "flags_fragment": 0x4000,
    "ttl": 64,
    "protocol": uet.IP_PROTOCOL_UDP,
}


_ACK_HEADERS = {
    FrameShape.ACK: uet.NextHeader.NONE,
    FrameShape.RESPONSE: uet.NextHeader.RESPONSE,
    FrameShape.RESPONSE_DATA: uet.NextHeader.RESPONSE_DATA,
}


_REQUEST_HEADERS = {
    FrameShape.REQUEST: uet.NextHeader.REQUEST_STD,
    FrameShape.ATOMIC_REQUEST: uet.NextHeader.REQUEST_STD,
    FrameShape.RETURN_DATA: uet.NextHeader.RESPONSE_DATA,
}


def _choose_shape(m, shape, header):
    """Drive ``shape`` with the one that a FRAME_HEADER asks for."""
    with_data = header.opcode == int(uet.ResponseOpcode.WITH_DATA)
    alone = header.opcode == int(uet.ResponseOpcode.NONE)
    atomic = is_atomic_opcode(header.opcode)
    request, response = header.is_request & ~header.is_control, ~header.is_request & ~header.is_control
    m.d.comb += [
        shape.ack.eq(response & alone),
        shape.response.eq(response & ~with_data & ~alone),
        shape.response_data.eq(response & with_data & ~header.returns),
        shape.return_data.eq(response & with_data & header.returns),
        shape.nack.eq(~header.is_request & header.is_control),
        shape.request.eq(request & ~atomic),
        shape.atomic_request.eq(request & atomic),
        shape.control.eq(header.is_request & header.is_control),
    ]


def _ses_values(shape, record, header):
    """Values of a SES header's fields: those of equal name, and those of another name or fixed."""
    shared = {field.name for field in record.fields} & {name for name, _ in FRAME_HEADER}
    values = {name: header[name] for name in shared}
    if record is uet.SES_RESPONSE_DATA:
        values["read_request_message_id"] = header.message_id
        if shape is FrameShape.RETURN_DATA:
            values["message_offset"] = header.buffer_offset[:32]
    if record is uet.ATOMIC_EXTENSION:
        values |= {"opcode": header.atomic_opcode, "datatype": header.atomic_datatype}
    return values


def _pds_header(shape, header, peers):
    """Pack the PDS header of a shape as it travels; ``peers`` is the size of the own peer table."""
    record = shape.value[0]
    # A flag has the same place in all packets that have it.
    retx = Mux(header.retx, int(uet.PdsFlags.RETX), 0)
    of_answers = retx | Mux(header.marked, int(uet.AckFlags.MARKED), 0)
    of_requests = Mux(header.syn, int(uet.PdsFlags.SYN), 0) | int(uet.PdsFlags.ACK_REQUEST) | retx
    if record is uet.PDS_REQUEST:
        values = {
            "type": uet.PdsType.ROD_REQ,
            "next_header": _REQUEST_HEADERS[shape],
            "flags": of_requests,
            "clear_psn_offset": header.clear_psn_offset,
            "psn": header.psn,
        }
    elif record is uet.PDS_CONTROL:
        values = {
            "type": uet.PdsType.CONTROL,
            "control_type": Mux(header.clears, uet.ControlType.CLEAR_COMMAND, uet.ControlType.CLOSE_COMMAND),
            "flags": Mux(header.clears, 0, of_requests),
            "psn": Mux(header.clears, 0, header.psn),
            "payload": Mux(header.clears, header.psn, 0),
        }
    elif record is uet.PDS_NACK:
        values = {
            "type": uet.PdsType.NACK,
            "next_header": uet.NextHeader.NONE,
            "flags": of_answers,
            "nack_code": header.nack_code,
            "vendor_code": header.missing,
            "nack_psn": header.psn,
        }
    else:
        values = {
            "type": uet.PdsType.ACK,
            "next_header": _ACK_HEADERS[shape],
            "flags": of_answers,
            "ack_psn_offset": (header.psn - header.cack_psn)[:16],
            "cack_psn": header.cack_psn,
        }
    return pack_wire(record, values | _numbers(shape, header, peers))


def _numbers(shape, header, peers):
    """Turn entries of tables into numbers of PDCs; with SYN ``dpdcid`` is neither."""
    target = first_target_pdc(peers)
    if shape is FrameShape.RETURN_DATA:
        own, is_number = target, True
    elif shape in _ACK_HEADERS or shape is FrameShape.NACK:
        own, is_number = Mux(header.returns, uet.FIRST_PDC, target), True
    else:
        own, is_number = uet.FIRST_PDC, ~header.syn
    own_number = (header.spdcid + own)[:16]
    if shape is FrameShape.NACK:
        own_number = Mux(header.spdcid == NO_PDC, 0, own_number)
    return {
        "spdcid": own_number,
        "dpdcid": (header.dpdcid + Mux(is_number, uet.FIRST_PDC, 0))[:16],
    }


class HeaderBuilder(wiring.Component):
    """Turns FRAME_HEADERs into bytes.

    Parameters
    ----------
    every_cycle : bool
        Take a header in every cycle, at the price of a place for a second one; otherwise in every other cycle.
    peers : int
        Entries of the own peer table, behind whose numbers those of the target's PDCs begin.

    Members
    -------
    mac, ip : In
        Own addresses.
    dscp : In(6)
        Of requests.
    i : FRAME_HEADER stream
    o : BUILT_HEADER stream
        Latency two cycles. The first chooses the frame's shape and length, the second sums the IPv4 checksum.
        ``i.ready`` comes from a register.
    """

    def __init__(self, every_cycle, peers):
        self._every_cycle, self._peers = every_cycle, peers
        super().__init__(
            {
                "mac": In(48),
                "ip": In(32),
                "dscp": In(6),
                "i": In(stream.Signature(FRAME_HEADER)),
                "o": Out(stream.Signature(BUILT_HEADER)),
            }
        )
        self._header = Signal(FRAME_HEADER)
        self._shape = Signal(SHAPE)
        self._total_length = Signal(16)
        self._service = Signal(8)
        """DSCP and ECN."""
        self._halves = Signal(17)
        """Sum of both halves of the other side's IP address."""
        self._valid = Signal()

    def elaborate(self, platform):
        m = Module()
        advance = Signal()
        total_length = Signal(16)
        shape = Signal(SHAPE)
        service = Signal(8)
        source = self.i
        if self._every_cycle:
            m.submodules.skid = skid = SkidBuffer(FRAME_HEADER)
            connect_streams(m, wiring.flipped(self.i), skid.i)
            source = skid.o
        _choose_shape(m, shape, source.p)
        of_requests = Cat(Const(uet.ECN_CAPABLE, 2), self.dscp)
        m.d.comb += [
            service.eq(Mux(source.p.is_request | shape.return_data, of_requests, uet.DSCP_EXPEDITED << 2)),
            advance.eq(self._valid & (~self.o.valid | self.o.ready)),
            source.ready.eq(~self._valid | (advance if self._every_cycle else 0)),
            total_length.eq(by_shape(shape, 14, lambda kind: kind.packet_overhead) + source.p.payload_length),
        ]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        assembled = self._assemble(m)
        with m.If(advance):
            m.d.sync += [self._valid.eq(0), self.o.valid.eq(1)]
            m.d.sync += assembled
        with m.If(source.ready):
            m.d.sync += [
                self._valid.eq(source.valid),
                self._header.eq(source.p),
                self._shape.eq(shape),
                self._total_length.eq(total_length),
                self._service.eq(service),
                self._halves.eq(source.p.ip[:16] + source.p.ip[16:]),
            ]
        return m

    def _checksum_sum(self):
        """Sum of the 16-bit words of the IPv4 header."""
        fixed = uet.IPV4.pack(**_IPV4_CONSTANTS)
        constant = sum(int.from_bytes(fixed[at : at + 2], "big") for at in range(0, len(fixed), 2))
        own = (self.ip[:16] + self.ip[16:]) + (self._service + constant)
        return own + (self._halves + self._total_length)

    def _assemble(self, m):
        """Statements that put the second stage's header together."""
        header, built = self._header, self.o.p
        words = Signal(19)
        folded = Signal(17)
        checksum = Signal(16)
        m.d.comb += [
            words.eq(self._checksum_sum()),
            folded.eq(words[:16] + words[16:]),
            checksum.eq(~(folded[:16] + folded[16])),
        ]
        common = Cat(
            pack_wire(
                uet.ETHERNET,
                {"destination": header.mac, "source": self.mac, "ethertype": uet.ETHERTYPE_IPV4},
            ),
            pack_wire(
                uet.IPV4,
                _IPV4_CONSTANTS
                | {
                    "dscp": self._service[2:],
                    "ecn": self._service[:2],
                    "total_length": self._total_length,
                    "checksum": checksum,
                    "source": self.ip,
                    "destination": header.ip,
                },
            ),
            pack_wire(
                uet.UDP,
                {
                    "source_port": header.port,
                    "destination_port": uet.UDP_PORT,
                    "length": (self._total_length - uet.IPV4.size)[:16],
                },
            ),
        )
        transport = []
        for kind in SENT_SHAPES:
            ses = [pack_wire(record, _ses_values(kind, record, header)) for record in kind.value[1:]]
            transport.append((self._shape[kind.name.lower()], Cat(_pds_header(kind, header, self._peers), *ses)))
        return [
            built.bytes.eq(Cat(common, select(8 * HEADER_MAXIMUM - len(common), transport))),
            built.kind.eq(self._shape),
            built.length.eq(self._total_length + (uet.ETHERNET.size - uet.CRC_SIZE)),
            built.payload_length.eq(header.payload_length),
            built.is_request.eq(header.is_request),
            built.is_control.eq(header.is_control),
            built.context.eq(Mux(header.is_request, header.initiator[:8], NO_CONTEXT)),
            built.pdc.eq(header.spdcid),
            built.psn.eq(header.psn),
            built.status.eq(Mux(header.is_request | header.is_control, 0, header.return_code)),
        ]


def parse_headers(travelled):
    """Fields of all headers that a frame might have, from its first bytes: a dict of dicts by record name.

    Only those of the frame's shape mean anything.
    """
    start, size = 8 * (uet.ENCAPSULATION_SIZE + uet.PDS_ACK.size), 8 * CONGESTION_STATE.size
    prologue = unpack_wire(uet.PDS_ACK, travelled[8 * uet.ENCAPSULATION_SIZE : start])
    state, behind = travelled[start : start + size], travelled[start + size : start + 2 * size]
    # A response, which is no longer than the congestion state, may follow it.
    has_state = prologue["type"] == int(uet.PdsType.ACK_CC)
    joined = Cat(travelled[:start], Mux(has_state, behind, state), travelled[start + size :])
    fields = {CONGESTION_STATE.name: unpack_wire(CONGESTION_STATE, state)}
    for shape in SENT_SHAPES:
        position = 0
        for record in shape.records:
            bits = joined[8 * position : 8 * (position + record.size)]
            fields[record.name] = unpack_wire(record, bits)
            position += record.size
    return fields
