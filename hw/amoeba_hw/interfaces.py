"""The streams between the NIC's blocks. Nothing here knows a bus.

``width`` is always the datapath width in bits; a beat has ``width // 8`` bytes, the first in the low bits.
"""

from amaranth.lib import data, enum
from amoeba_model.trace import TRACE_EVENT

from amoeba_hw.layout import struct_layout

__all__ = [
    "CONTEXT",
    "COUNTER_ADMISSION",
    "COUNT_ORDER",
    "DMA_COMMAND",
    "FRAME_HEADER",
    "KEY_ENTRY",
    "KEY_STORE",
    "MEMORY_REQUEST",
    "PDC_COMMAND",
    "PDC_VIEW",
    "PEER",
    "PEER_STORE",
    "READ_REQUEST",
    "RETRANSMISSION",
    "RING_INDEX",
    "SLOT_RELEASE",
    "TRACE_SLOT",
    "WRITE_BEGUN",
    "MemoryKind",
    "packet_beat",
    "read_beat",
    "write_beat",
]

READ_REQUEST = data.StructLayout({"address": 64, "length": 13, "context": 8})
"""A host read: 1 to 4,096 bytes, not crossing a 4 KiB boundary.

``context``, as of every access to the host: whose descriptor, ring, receive or slot it is; NO_CONTEXT of what no
descriptor names: regions by their keys, answer memory, event counters.
"""


def read_beat(width: int) -> data.StructLayout:
    """One beat of a host read's answer: the aligned lines that cover the request, in order.

    ``error`` (on any beat): the host refused; data is undefined. Answers come in the order of requests.
    """
    return data.StructLayout({"data": width, "last": 1, "error": 1})


def write_beat(width: int) -> data.StructLayout:
    """One beat of a host write burst: aligned consecutive lines, not crossing a 4 KiB boundary.

    ``address`` (line-aligned), ``beats`` (lines, 1 to 128) and ``context`` are valid with ``first``. ``strobe`` has a
    bit per byte. Writes are performed in the order that :class:`~amoeba_hw.host.hubs.WriteHub` gives them.
    """
    return data.StructLayout(
        {"address": 64, "beats": 8, "context": 8, "data": width, "strobe": width // 8, "first": 1, "last": 1}
    )


WRITE_BEGUN = data.StructLayout({"valid": 1, "user": 8, "address": 64})
"""Pulse: the first beat of a write burst has got its place in the order of host writes; whose, and where."""


DMA_COMMAND = data.StructLayout({"address": 64, "length": 14, "context": 8})
"""A transfer of 1 to 8,192 bytes at any address, any boundary: for PackedReader and PackedWriter."""


def packet_beat(width: int) -> data.StructLayout:
    """One beat of a packet, packed from byte 0: all beats but the last are full.

    ``count`` is the number of valid bytes (1 to ``width // 8``; 0 only in a single-beat packet without bytes).
    ``error`` counts with ``last`` only: the packet must not be used.
    """
    return data.StructLayout({"data": width, "count": (width // 8).bit_length(), "last": 1, "error": 1})


FRAME_HEADER = data.StructLayout(
    {
        # The other side: destination when transmitting, source when receiving.
        "mac": 48,
        "ip": 32,
        "port": 16,  # UDP source port (entropy)
        "is_request": 1,  # to the target: ROD request, control packet but CLOSE_REQUEST; otherwise to the initiator
        "is_control": 1,  # control packet, or NACK: nothing but PDS fields is valid, and there is no payload
        "clears": 1,  # the control packet is a CLEAR_COMMAND, not a CLOSE_COMMAND; its psn is the last one cleared
        "asks": 1,  # received: the control packet is an ACK_REQUEST, for the answer to psn, or a CLOSE_REQUEST
        "retx": 1,  # PDS: the packet, or the one answered, was sent again
        "marked": 1,  # the packet, or the one answered, came with a congestion mark; requests are sent without
        "returns": 1,  # psn counts in the return direction: READ's data, CLOSE_REQUEST, or the ACK or NACK of one
        "wants_clear": 1,  # received, of an ACK: the target asks for a CLEAR_COMMAND
        "mpr": 8,  # received, of an ACK_CC: packets that may be unanswered, in units of 128; 0: not said
        "nack_code": 8,  # of a NACK
        "missing": 8,  # of a NACK ROD_OOO: packets missing from psn on, if all behind them is kept; else 0
        "cack_psn": 32,  # of an ACK: cumulative
        # PDS
        "psn": 32,  # of the packet; of an ACK: the packet answered; of a NACK: nack_psn
        "clear_psn_offset": 16,
        # The own one is an entry of a table, the other one less than the number on the wire.
        "spdcid": 16,  # NO_PDC of a NACK about none
        "dpdcid": 16,  # with syn: psn - first psn
        "syn": 1,
        # SES
        "opcode": 6,  # request or response opcode; NONE of an ACK without a response
        "version": 2,
        "flags": 6,  # SesFlags
        "message_id": 16,  # with returns: the READ's
        "ri_generation": 8,  # of a message; in a refusal with BAD_GENERATION the right one
        "job_id": 24,
        "pid_on_fep": 12,
        "resource_index": 12,
        "buffer_offset": 64,  # with returns: message_offset
        "initiator": 32,
        "memory_key": 64,
        "header_data": 64,
        "request_length": 32,
        # Atomic extension, present for atomic opcodes
        "atomic_opcode": 8,
        "atomic_datatype": 8,
        "semantic_control": 8,
        # Responses
        "return_code": 6,
        "modified_length": 32,
        "payload_length": 14,  # bytes after the headers, CRC excluded; compare-and-swap values count as payload
    }
)
"""Everything a frame says besides its payload, in both directions."""


class MemoryKind(enum.Enum, shape=2):
    READ = 0
    WRITE = 1
    ATOMIC = 2


MEMORY_REQUEST = data.StructLayout(
    {
        "address": 64,
        "context": 8,  # whose receive or slot it is; NO_CONTEXT: a region
        "length": 14,  # bytes of target memory, 0 to the payload limit
        "kind": MemoryKind,
        "op": 5,  # libfabric's number
        "datatype": 5,  # libfabric's number
        "has_operand": 1,  # operands come on the operand stream (WRITE, ATOMIC but FI_ATOMIC_READ)
        "has_compare": 1,  # compare values come on the compare stream
        "cswap_by_bits": 1,
        "returns_data": 1,  # the old bytes are wanted
        "pdc": 16,  # for the trace
        "psn": 32,  # for the trace
    }
)
"""Request of the target to the memory engine; checked already."""

PEER = data.StructLayout(
    {
        "mac": 48,
        "ip": 32,
        "job_id": 24,
        "pid_on_fep": 12,
        "resource_index": 12,
        "initial_psn": 32,
        "entropy": 16,
        "valid": 1,
        "context": 8,
        "initiator": 12,
        "relative": 1,  # its process id counts within its job
        "whole_window": 1,  # it takes as many unanswered packets as a NIC like this one
    }
)
"""One peer table entry as the driver stored it."""

KEY_ENTRY = data.StructLayout(
    {"key": 64, "base": 64, "length": 64, "domain": 8, "flags": 8, "read_counter": 8, "write_counter": 8}
)
"""One key table entry as the driver stored it; flags are KeyFlags."""

KEY_STORE = data.StructLayout({"slot": 16, "entry": KEY_ENTRY})
PEER_STORE = data.StructLayout({"index": 16, "peer": PEER, "fail": 1})
"""A table entry that the driver stored, and where; with ``fail`` none: the PDC that is there is to be given up."""

RETRANSMISSION = data.StructLayout({"timeout": 32, "limit": 8})
"""The registers retransmit_timeout and retransmit_limit."""

PDC_COMMAND = data.StructLayout({"select": 1, "close": 1, "pdc": 16})
"""A write to the registers of the target PDCs, in the cycle in which it is taken."""

PDC_VIEW = data.StructLayout(
    {"state": 2, "ip": 32, "spdcid": 16, "job_id": 24, "context": 12, "expected": 32, "came": 48}
)
"""Values of these registers for the target PDC that was selected last."""

RING_INDEX = data.StructLayout({"context": 8, "index": 16})
"""A write to a doorbell page: the context whose page it is, and the ring index written."""

COUNT_ORDER = data.StructLayout({"counter": 8, "error": 1, "context": 8})
"""Advance an event counter: its errors, or its successes. Counter 0 is none. ``context``: whose descriptor names it;
NO_CONTEXT: a register does."""

COUNTER_ADMISSION = data.StructLayout({"counter": 8, "contexts": 32})
"""The contexts, a bit each, whose descriptors may advance a counter from now on."""

SLOT_RELEASE = data.StructLayout({"context": 8, "slot": 16})
"""A write to ``slot_release`` of a doorbell page."""

CONTEXT = data.StructLayout(
    {
        "enable": 1,
        "cswap_by_bits": 1,
        "data_by_key": 1,
        "shares_receives": 1,
        "announces": 1,  # messages that meet no receive write an event
        "relative": 1,  # its process id counts within its job
        "receive_context": 8,  # whose receives its messages meet, with shares_receives
        "transmit_base": 64,
        "transmit_size": 4,  # log2 of entries
        "completion_base": 64,
        "completion_size": 4,
        "event_base": 64,  # 0: none
        "event_size": 4,
        "receive_base": 64,
        "receive_size": 4,
        "unexpected_base": 64,  # 0: no messages
        "read_counter": 8,  # event counters; 0: none
        "write_counter": 8,
        "domain": 8,
        "job_id": 24,
        "pid_on_fep": 12,
    }
)
"""One context's registers."""

TRACE_SLOT = data.StructLayout({"valid": 1, "event": struct_layout(TRACE_EVENT)})
"""One stage's slot on the trace port: an event when valid, never waits."""
