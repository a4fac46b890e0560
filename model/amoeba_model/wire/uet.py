"""Headers and numbers of Ultra Ethernet Transport 1.0.1, section 3, as Amoeba uses it.

All headers are big-endian. Facts are from two public implementations of the specification (xdp2's
``uet/{pds,ses}.h`` and the consortium's reference provider); where they differ or are silent, the choice is
marked "decision" here and listed in ``docs/wire.md``.
"""

import enum
from typing import NamedTuple

from amoeba_model.layout import Field, Record
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.wire.congestion import CONGESTION_STATE

UDP_PORT = 4793
"""IANA's number for UET over UDP: the destination port of every frame."""

ETHERTYPE_IPV4 = 0x0800
IP_PROTOCOL_UDP = 17
CRC_SIZE = 4
"""Every packet ends with a CRC-32C (Castagnoli), as the reference provider's. Decision: register and result inverted
as in iSCSI (RFC 3720 12.1), sent least significant byte first, as in an Ethernet FCS."""

CRC_START = 26
"""Where in the Ethernet frame the CRC begins to cover: the source address of the IPv4 header; it goes on to the end
of the payload."""

ECN_CAPABLE = 2
"""``ecn`` of requests: ECT(0) of RFC 3168, so that switches mark them instead of dropping them."""
ECN_CONGESTION = 3
"""``ecn`` of a packet that a switch has marked (CE)."""
DSCP_EXPEDITED = 46
"""``dscp`` of answers and NACKs: Expedited Forwarding, RFC 3246. They have no ECN."""

FIRST_PDC = 1
"""The number of a NIC's first PDC as an initiator: 0 is reserved."""


class PdsType(enum.IntEnum):
    TSS = 1
    RUD_REQ = 2
    ROD_REQ = 3
    RUDI_REQ = 4
    RUDI_RESP = 5
    UUD_REQ = 6
    ACK = 7
    ACK_CC = 8
    ACK_CCX = 9
    NACK = 10
    CONTROL = 11
    NACK_CCX = 12
    RUD_CC_REQ = 13
    ROD_CC_REQ = 14


class NextHeader(enum.IntEnum):
    NONE = 0
    REQUEST_SMALL = 1
    REQUEST_MEDIUM = 2
    REQUEST_STD = 3
    RESPONSE = 4
    RESPONSE_DATA = 5
    RESPONSE_DATA_SMALL = 6


class RequestOpcode(enum.IntEnum):
    """SES request opcodes."""

    NO_OP = 0
    WRITE = 1
    READ = 2
    ATOMIC = 3
    FETCHING_ATOMIC = 4
    SEND = 5
    RENDEZVOUS_SEND = 6
    DATAGRAM_SEND = 7
    DEFERRABLE_SEND = 8
    TAGGED_SEND = 9
    RENDEZVOUS_TSEND = 0xA
    DEFERRABLE_TSEND = 0xB
    READY_TO_RESTART = 0xC
    TSEND_ATOMIC = 0xD
    TSEND_FETCH_ATOMIC = 0xE
    MSG_ERROR = 0xF
    AMOEBA_COMPARE_ATOMIC = 0x30
    """Vendor opcode: compare atomics beyond one element of 16 bytes. Atomic extension, then as payload all
    operands, then all compare values, of the packet's elements."""
    AMOEBA_ATOMIC = 0x31
    """Vendor opcode: an ATOMIC of several packets, which UET does not know."""
    AMOEBA_FETCHING_ATOMIC = 0x32
    """Vendor opcode: the same of a FETCHING_ATOMIC with operands, but for compare atomics."""


UNTAGGED_MESSAGES = frozenset({RequestOpcode.SEND, RequestOpcode.RENDEZVOUS_SEND})
TAGGED_MESSAGES = frozenset(
    RequestOpcode[name] for name in ("TAGGED_SEND", "RENDEZVOUS_TSEND", "TSEND_ATOMIC", "TSEND_FETCH_ATOMIC")
)
MESSAGE_REQUESTS = UNTAGGED_MESSAGES | TAGGED_MESSAGES
"""Request opcodes of messages and tagged atomics: a receive says where they go, no key."""

DIVISIBLE_REQUESTS = frozenset(
    {
        RequestOpcode.WRITE,
        RequestOpcode.SEND,
        RequestOpcode.TAGGED_SEND,
        RequestOpcode.AMOEBA_ATOMIC,
        RequestOpcode.AMOEBA_FETCHING_ATOMIC,
        RequestOpcode.AMOEBA_COMPARE_ATOMIC,
    }
)
"""Request opcodes whose messages may have several packets, the first with START, the last with END."""

_MESSAGE_OFFSET_BITS = 32
_PAYLOAD_LENGTH_BITS = 14


class MessagePlace(NamedTuple):
    """Content of ``header_data`` in a packet without START: the packet's place in its message."""

    payload_length: int
    """Bytes of remote memory that the packet concerns."""
    message_offset: int


def message_place(payload_length: int, message_offset: int) -> int:
    """Return ``header_data`` of a packet without START."""
    return payload_length << _MESSAGE_OFFSET_BITS | message_offset


def place_in_message(header_data: int) -> MessagePlace:
    """Return what ``header_data`` of a packet without START says; its upper 18 bits mean nothing."""
    offset = header_data & (1 << _MESSAGE_OFFSET_BITS) - 1
    return MessagePlace(header_data >> _MESSAGE_OFFSET_BITS & (1 << _PAYLOAD_LENGTH_BITS) - 1, offset)


class ControlType(enum.IntEnum):
    """Types of PDS control packets (``next_header`` of its prologue)."""

    NOOP = 0
    ACK_REQUEST = 1
    CLEAR_COMMAND = 2
    CLEAR_REQUEST = 3
    CLOSE_COMMAND = 4
    CLOSE_REQUEST = 5
    PROBE = 6
    CREDIT = 7
    CREDIT_REQUEST = 8
    NEGOTIATION = 9


class NackCode(enum.IntEnum):
    """Why a packet was not accepted."""

    TRIMMED = 1
    TRIMMED_LASTHOP = 2
    TRIMMED_ACK = 3
    NO_PDC_AVAIL = 4
    NO_CCC_AVAIL = 5
    NO_BITMAP = 6
    NO_PKT_BUFFER = 7
    NO_GTD_DEL_AVAIL = 8
    NO_SES_MSG_AVAIL = 9
    NO_RESOURCE = 0xA
    PSN_OOR_WINDOW = 0xB
    ROD_OOO = 0xD
    INV_DPDCID = 0xE
    PDC_HDR_MISMATCH = 0xF
    CLOSING = 0x10
    CLOSING_IN_ERR = 0x11
    PKT_NOT_RCVD = 0x12
    GTD_RESP_UNAVAIL = 0x13
    ACK_WITH_DATA = 0x14
    INVALID_SYN = 0x15
    PDC_MODE_MISMATCH = 0x16
    NEW_START_PSN = 0x17
    RCVD_SES_PROCG = 0x18
    UNEXP_EVENT = 0x19
    RCVR_INFER_LOSS = 0x1A


class ResponseOpcode(enum.IntEnum):
    DEFAULT = 0
    RESPONSE = 1
    WITH_DATA = 2
    NONE = 3


class ReturnCode(enum.IntEnum):
    """SES return codes; from 0x30 on Amoeba's own, used in completions for errors found at the initiator."""

    NULL = 0
    OK = 1
    BAD_GENERATION = 2
    DISABLED = 3
    DISABLED_GEN = 4
    NO_MATCH = 5
    UNSUPPORTED_OP = 6
    UNSUPPORTED_SIZE = 7
    AT_INVALID = 8
    AT_PERM = 9
    AT_ATS_ERROR = 0xA
    AT_NO_TRANS = 0xB
    AT_OUT_OF_RANGE = 0xC
    HOST_POISONED = 0xD
    HOST_UNSUCCESS_CMPL = 0xE
    AMO_UNSUPPORTED_OP = 0xF
    AMO_UNSUPPORTED_DT = 0x10
    AMO_UNSUPPORTED_SIZE = 0x11
    AMO_UNALIGNED = 0x12
    AMO_FP_NAN = 0x13
    AMO_FP_UNDERFLOW = 0x14
    AMO_FP_OVERFLOW = 0x15
    AMO_FP_INEXACT = 0x16
    PERM_VIOLATION = 0x17
    OP_VIOLATION = 0x18
    BAD_INDEX = 0x19
    BAD_PID = 0x1A
    BAD_JOB_ID = 0x1B
    BAD_MKEY = 0x1C
    BAD_ADDR = 0x1D
    CANCELLED = 0x1E
    UNDELIVERABLE = 0x1F
    UNCOR = 0x20
    UNCOR_TRNSNT = 0x21
    TOO_LONG = 0x22
    INITIATOR_ERROR = 0x23
    DROPPED = 0x24
    LOCAL_BAD_DESCRIPTOR = 0x30
    """The descriptor's opcode, flags, length or alignment of length make no sense."""
    LOCAL_BAD_PEER = 0x31
    """The descriptor names a peer table entry that is not valid, or is another context's."""
    LOCAL_DMA_FAULT = 0x32
    """The host refused the NIC's access to a local buffer."""
    LOCAL_PDC_FAILED = 0x33
    """The peer does not answer, or no longer knows this PDC; whether the request was executed is unknown."""
    LOCAL_NIC_RESET = 0x34
    """The NIC was reset, and has forgotten the request: the driver's word, as no NIC can tell. Whether it was
    executed is unknown."""
    LOCAL_PEER_PDC_TABLE_FULL = 0x35
    """The peer's table of PDCs is full, and has been for long: all of them are others', and in use."""


class AtomicOpcode(enum.IntEnum):
    """UET's atomic opcodes; not libfabric's numbers: see :data:`ATOMIC_OPCODES`."""

    MIN = 0
    MAX = 1
    SUM = 2
    DIFF = 3
    PROD = 4
    LOR = 5
    LAND = 6
    BOR = 7
    BAND = 8
    LXOR = 9
    BXOR = 0xA
    READ = 0xB
    WRITE = 0xC
    CSWAP = 0xD
    CSWAP_NE = 0xE
    CSWAP_LE = 0xF
    CSWAP_LT = 0x10
    CSWAP_GE = 0x11
    CSWAP_GT = 0x12
    MSWAP = 0x13
    INVAL = 0x14


class AtomicDatatype(enum.IntEnum):
    """UET's atomic datatypes; FP8 has none, so vendor numbers stand in."""

    INT8 = 0
    UINT8 = 1
    INT16 = 2
    UINT16 = 3
    INT32 = 4
    UINT32 = 5
    INT64 = 6
    UINT64 = 7
    INT128 = 8
    UINT128 = 9
    FLOAT = 0xA
    DOUBLE = 0xB
    FLOAT_COMPLEX = 0xC
    DOUBLE_COMPLEX = 0xD
    LONG_DOUBLE = 0xE
    LONG_DOUBLE_COMPLEX = 0xF
    BF16 = 0x10
    FP16 = 0x11
    AMOEBA_FLOAT8_E4M3 = 0xE0
    AMOEBA_FLOAT8_E5M2 = 0xE1


ATOMIC_OPCODES: dict[Op, AtomicOpcode] = {
    op: AtomicOpcode[op.name.removeprefix("FI_").removeprefix("ATOMIC_")] for op in Op
}
"""UET opcode of every libfabric operation."""

ATOMIC_DATATYPES: dict[Datatype, AtomicDatatype] = {
    **{d: AtomicDatatype[d.name.removeprefix("FI_")] for d in Datatype if d < Datatype.FI_FLOAT16},
    Datatype.FI_FLOAT16: AtomicDatatype.FP16,
    Datatype.FI_BFLOAT16: AtomicDatatype.BF16,
    Datatype.FI_FLOAT8_E4M3: AtomicDatatype.AMOEBA_FLOAT8_E4M3,
    Datatype.FI_FLOAT8_E5M2: AtomicDatatype.AMOEBA_FLOAT8_E5M2,
}
"""UET datatype of every libfabric datatype."""


class PdsFlags(enum.IntFlag):
    """Prologue flags of requests (7 bits)."""

    RETX = 0x10
    ACK_REQUEST = 0x08
    SYN = 0x04


class ControlFlags(enum.IntFlag):
    """Prologue flags of control packets (7 bits)."""

    IS_ROD = 0x20
    RETX = 0x10
    ACK_REQUEST = 0x08
    SYN = 0x04


class AckFlags(enum.IntFlag):
    """Prologue flags of acknowledgements and negative ones (7 bits)."""

    MARKED = 0x20
    """The packet answered carried a congestion mark (ECN)."""
    RETX = 0x10
    REQUEST_CLEAR = 0x02
    """The target asks for a CLEAR_COMMAND."""


class SesFlags(enum.IntFlag):
    """Second byte of the SES request header, below the version."""

    DELIVERY_COMPLETE = 0x20
    """Every answer is a delivery completion; set in the last packet of a request, by which event counters count."""
    INITIATOR_ERROR = 0x10
    RELATIVE = 0x08
    """``pid_on_fep`` counts within the job; otherwise within the NIC."""
    HEADER_DATA = 0x04
    END_OF_MESSAGE = 0x02
    START_OF_MESSAGE = 0x01


class SemanticControl(enum.IntFlag):
    """Semantic control of the atomic extension; bit positions as in the reference provider."""

    CACHEABLE = 0x01
    CPU_COHERENT = 0x02
    AMOEBA_CSWAP_BY_BITS = 0x80
    """Vendor bit: FI_CSWAP compares floating point by bits."""


ETHERNET = Record(
    "ethernet",
    14,
    (
        Field("destination", 48, "MAC address of the receiver."),
        Field("source", 48, "MAC address of the sender."),
        Field("ethertype", 16, "0x0800: IPv4."),
    ),
    "Ethernet II header.",
    "big",
)

IPV4 = Record(
    "ipv4",
    20,
    (
        Field("version", 4, "4."),
        Field("header_words", 4, "5: no options."),
        Field("dscp", 6, "Of requests the register dscp; of answers and NACKs 46 (Expedited Forwarding)."),
        Field("ecn", 2, "Of requests 2, ECN-capable, or 3 once marked; of answers and NACKs 0."),
        Field("total_length", 16, "Bytes from here to the end of the packet's CRC."),
        Field("identification", 16, "Zero: never fragmented."),
        Field("flags_fragment", 16, "0x4000: don't fragment."),
        Field("ttl", 8, "64."),
        Field("protocol", 8, "17: UDP."),
        Field("checksum", 16, "RFC 791 header checksum."),
        Field("source", 32, "IPv4 address of the sender."),
        Field("destination", 32, "IPv4 address of the receiver."),
    ),
    "IPv4 header.",
    "big",
)

UDP = Record(
    "udp",
    8,
    (
        Field("source_port", 16, "Entropy."),
        Field("destination_port", 16, "4793."),
        Field("length", 16, "Bytes from here to the end of the packet's CRC."),
        Field("checksum", 16, "Zero: unused, the packet has a CRC (RFC 768)."),
    ),
    "UDP header.",
    "big",
)

PDS_REQUEST = Record(
    "pds_request",
    12,
    (
        Field("type", 5, "ROD_REQ.", PdsType),
        Field("next_header", 4, "Header that follows.", NextHeader),
        Field("flags", 7, "Retransmission, acknowledge request, SYN.", PdsFlags),
        Field("clear_psn_offset", 16, "Signed, relative to psn: responses up to there need not be kept."),
        Field("psn", 32, "Packet sequence number."),
        Field("spdcid", 16, "Sender's PDC, not 0."),
        Field("dpdcid", 16, "Receiver's PDC; with SYN {4 bits zero, psn - first psn of the PDC: 12}."),
    ),
    "PDS header of a reliable ordered (ROD) request, in either direction.",
    "big",
)

PDS_ACK = Record(
    "pds_ack",
    12,
    (
        Field("type", 5, "ACK.", PdsType),
        Field("next_header", 4, "Header that follows.", NextHeader),
        Field("flags", 7, "Whether the request answered had RETX, and a congestion mark.", AckFlags),
        Field("ack_psn_offset", 16, "Signed, relative to cack_psn: the packet answered."),
        Field("cack_psn", 32, "Executed up to here; what has no answer of its own was OK, without data."),
        Field("spdcid", 16, "Sender's PDC, not 0."),
        Field("dpdcid", 16, "Receiver's PDC."),
    ),
    "PDS header of an acknowledgement.",
    "big",
)

PDS_NACK = Record(
    "pds_nack",
    16,
    (
        Field("type", 5, "NACK.", PdsType),
        Field("next_header", 4, "NONE.", NextHeader),
        Field("flags", 7, "Whether the request refused had RETX, and a congestion mark.", AckFlags),
        Field("nack_code", 8, "Why.", NackCode),
        Field(
            "vendor_code", 8, "With ROD_OOO: packets missing from nack_psn on, if all behind them is kept; else 0."
        ),
        Field("nack_psn", 32, "The packet to go on from; with ROD_OOO the first that has to come again."),
        Field("spdcid", 16, "Sender's PDC; zero without one."),
        Field("dpdcid", 16, "Receiver's PDC."),
        Field("payload", 32, "Zero."),
    ),
    "PDS header of a negative acknowledgement; nothing but the CRC follows.",
    "big",
)

PDS_CONTROL = Record(
    "pds_control",
    16,
    (
        Field("type", 5, "CONTROL.", PdsType),
        Field("control_type", 4, "CLOSE_COMMAND, CLEAR_COMMAND, ACK_REQUEST or CLOSE_REQUEST.", ControlType),
        Field("flags", 7, "Acknowledge request, retransmission, SYN.", ControlFlags),
        Field("probe_opaque", 16, "Zero."),
        Field("psn", 32, "Packet sequence number: a CLOSE_COMMAND takes one, an ACK_REQUEST names one."),
        Field("spdcid", 16, "Sender's PDC, not 0."),
        Field("dpdcid", 16, "Receiver's PDC; with SYN as in a request."),
        Field("payload", 32, "Of a CLEAR_COMMAND: answers up to this psn need not be kept."),
    ),
    "PDS header of a control packet; nothing but the CRC follows.",
    "big",
)

SES_REQUEST = Record(
    "ses_request",
    44,
    (
        Field("reserved0", 2, "Zero."),
        Field("opcode", 6, "Operation.", RequestOpcode),
        Field("version", 2, "Zero."),
        Field("flags", 6, "Message and delivery flags.", SesFlags),
        Field("message_id", 16, "Number of the message's first packet in its PDC; the same in all its packets."),
        Field("ri_generation", 8, "Of a message: what the target's BAD_GENERATION said last; else 0."),
        Field("job_id", 24, "Job of the addressed process."),
        Field("reserved1", 4, "Zero."),
        Field("pid_on_fep", 12, "Addressed process."),
        Field("reserved2", 4, "Zero."),
        Field("resource_index", 12, "Addressed context."),
        Field(
            "buffer_offset",
            64,
            "Where the message begins: remote address, virtual or offset; of a rendezvous: the message's length.",
        ),
        Field("initiator", 32, "Sender's context."),
        Field("memory_key", 64, "Key of the remote region; match bits of a tagged message."),
        Field("header_data", 64, "Immediate data if HEADER_DATA."),
        Field(
            "request_length", 32, "Bytes of remote memory that the message concerns; 32 with compare-and-swap values."
        ),
    ),
    "SES standard request header, of a packet with START.",
    "big",
)

_PLACE_FIELDS = (
    Field("reserved3", 18, "Zero."),
    Field("payload_length", 14, "Bytes of remote memory that the packet concerns."),
    Field("message_offset", 32, "Where they begin, counted from the message's first byte."),
)

SES_REQUEST_PART = Record(
    "ses_request_part",
    SES_REQUEST.size,
    tuple(
        part
        for field in SES_REQUEST.fields
        for part in (_PLACE_FIELDS if field.name == "header_data" else (field,))
    ),
    "SES standard request header, of a packet without START: the packet's place stands where header_data is.",
    "big",
)

ATOMIC_EXTENSION = Record(
    "atomic_extension",
    4,
    (
        Field("opcode", 8, "Operation.", AtomicOpcode),
        Field("datatype", 8, "Datatype.", AtomicDatatype),
        Field("semantic_control", 8, "Options.", SemanticControl),
        Field("reserved", 8, "Zero."),
    ),
    "Follows the SES header of every atomic.",
    "big",
)

CSWAP_VALUES_SIZE = 32
"""A compare atomic of one element of at most 16 bytes is a FETCHING_ATOMIC whose atomic extension is followed by
compare value and swap value: UET's compare-and-swap extension, of which ``request_length`` is the length. Being
fields of a header they have 128 bits, of which the element's bytes stand last, in the order of all operands. MSWAP
travels likewise (compare = mask)."""

SES_RESPONSE = Record(
    "ses_response",
    12,
    (
        Field("list", 2, "Zero: expected."),
        Field("opcode", 6, "RESPONSE, or DEFAULT.", ResponseOpcode),
        Field("version", 2, "Zero."),
        Field("return_code", 6, "Outcome.", ReturnCode),
        Field("message_id", 16, "message_id of the request."),
        Field("ri_generation", 8, "Zero; of others, with BAD_GENERATION the right one."),
        Field("job_id", 24, "job_id of the request."),
        Field("modified_length", 32, "With OK the request_length of the request, else 0."),
    ),
    "SES response without data.",
    "big",
)

SES_RESPONSE_DATA = Record(
    "ses_response_data",
    20,
    (
        Field("list", 2, "Zero: expected."),
        Field("opcode", 6, "WITH_DATA.", ResponseOpcode),
        Field("version", 2, "Zero."),
        Field("return_code", 6, "Outcome.", ReturnCode),
        Field("message_id", 16, "message_id of the request."),
        Field("ri_generation", 8, "Zero; of others, with BAD_GENERATION the right one."),
        Field("job_id", 24, "job_id of the request."),
        Field("read_request_message_id", 16, "message_id of the request."),
        Field("reserved", 2, "Zero."),
        Field("payload_length", 14, "Bytes of data that follow."),
        Field("modified_length", 32, "With OK the request_length of the request, else 0."),
        Field("message_offset", 32, "Zero: one packet answers one packet."),
    ),
    "SES response with data, in an ACK or in a request of the target.",
    "big",
)

ENCAPSULATION_SIZE = ETHERNET.size + IPV4.size + UDP.size

WIRE_RECORDS = (
    ETHERNET,
    IPV4,
    UDP,
    PDS_REQUEST,
    PDS_ACK,
    CONGESTION_STATE,
    PDS_NACK,
    PDS_CONTROL,
    SES_REQUEST,
    SES_REQUEST_PART,
    ATOMIC_EXTENSION,
    SES_RESPONSE,
    SES_RESPONSE_DATA,
)
