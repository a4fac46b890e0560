"""Records of requests and answers, which pass between the components of the target and of message matching."""

from amaranth.hdl import Mux
from amaranth.lib import data
from amoeba_model.descriptors import ANSWER_INLINE_SIZE
from amoeba_model.wire.uet import (
    DIVISIBLE_REQUESTS,
    MESSAGE_REQUESTS,
    RequestOpcode,
    ResponseOpcode,
    ReturnCode,
    SesFlags,
)

from amoeba_hw.byte_order import SWAP_BITS
from amoeba_hw.interfaces import FRAME_HEADER, KEY_ENTRY, MEMORY_REQUEST
from amoeba_hw.packed import CUT

__all__ = [
    "ADVANCES",
    "ANSWER",
    "CHECKED_REQUEST",
    "CHECK_REPORT",
    "COUNTERS",
    "DUPLICATE",
    "EPOCH_BITS",
    "EVENT_CLAIM",
    "EVENT_ORDER",
    "GAP_PASSAGE",
    "GENERATION_BITS",
    "KEPT_ANSWER",
    "LOCATED_REQUEST",
    "MESSAGE",
    "NACK",
    "OPERAND_JOB",
    "PASSAGE",
    "RECEIVER",
    "RECEIVE_QUESTION",
    "RECEIVE_REPLY",
    "SEQUENCED_REQUEST",
    "acknowledges",
    "among_opcodes",
    "gives_up",
    "is_divisible",
    "is_message",
    "message_extent",
    "modified_length",
    "refuses",
    "response_opcode",
]

COUNTERS = 3
"""Event counters that an answer may advance: a context's or a receive's, and a key's for reads and for writes."""
GENERATION_BITS = 16
"""A context's generation changes when it is disabled; event entries that an earlier one reserved are forgotten."""

EPOCH_BITS = 8
"""A target PDC's connection epoch changes when it is opened, if something was accepted since it was opened before.
Requests of several epochs can be in the target at once, but fewer than 2**8 requests."""

PASSAGE = data.StructLayout({"offered": 1, "entered": 1, "ended": 1})
"""Items that pass in order: one is on offer, and enters when it is taken; the oldest one has ended."""

RECEIVER = data.StructLayout({"valid": 1, "context": 8})
"""The context whose receives meet the messages for a context; valid while that is enabled, and this one exists."""

GAP_PASSAGE = data.StructLayout({"enters": 1, "leaves": 1, "slot": 8})
"""Of a packet that comes before its turn: it ``enters`` a slot, or it ``leaves`` that slot since its turn has come.
Packets pass everything in this order: what enters a slot is behind what has left it."""

SEQUENCED_REQUEST = data.StructLayout(
    {
        "header": FRAME_HEADER,
        "pdc": 16,
        "epoch": EPOCH_BITS,
        "dropped": 1,  # not accepted: only its payload is still to be swallowed, or kept
        "gap": GAP_PASSAGE,
        "reserved": 1,  # an entry for its event is reserved
        "slot_reserved": 1,  # and an unexpected slot
        "receive_kept": 1,  # or a receive that it meets is kept for it
        "receiver": 8,  # the context of which they are: for messages see Receivers
        "generation": GENERATION_BITS,  # of that context at that time
        "target_generation": GENERATION_BITS,  # of the context that the request is for
    }
)
"""A request whose PDC is known."""

LOCATED_REQUEST = data.StructLayout({"request": SEQUENCED_REQUEST, "found": 1, "entry": KEY_ENTRY})
"""A request and the entry of its key, if ``found``."""

OPERAND_JOB = data.StructLayout(
    {"has_operand": 1, "has_compare": 1, "swap": SWAP_BITS, "operand": CUT, "compare": CUT}
)
"""Job with one payload: which parts are operands and compare values. With neither it is swallowed.
``swap`` makes it little-endian, as of :mod:`amoeba_hw.byte_order`; then it is cut."""

EVENT_CLAIM = data.StructLayout({"valid": 1, "context": 8, "generation": GENERATION_BITS})
"""When valid: one entry of the context's event ring is reserved, or released."""

EVENT_ORDER = data.StructLayout(
    {
        "reserved": 1,  # an entry of the ring is reserved: to be used or released
        "context": 8,
        "generation": GENERATION_BITS,
        "regardless": 1,  # written whatever became of the request; otherwise only if that was executed and is OK
        "kind": 8,  # EventKind; 0: there is no event, and its reserved entry is released
        "flags": 8,  # EventFlags
        "status": 8,  # unless the request was executed and is not OK: then that
        "user_context": 64,
        "data": 64,
        "tag": 64,
        "address": 64,
        "length": 32,
        "slot": 16,
        "initiator": 32,
        "target": 8,  # the context that the request is for
    }
)
"""Fields of the event of a request or of a receive descriptor, besides those of its answer."""

_DESTINATION = {
    "mac": 48,
    "ip": 32,
    "port": 16,
    "psn": 32,
    "clear_psn_offset": 16,
    "retx": 1,
    "marked": 1,
    "spdcid": 16,  # the target's PDC
    "dpdcid": 16,
    "epoch": EPOCH_BITS,
}
"""The answered packet, and the destination of its answer."""

ANSWER = data.StructLayout(
    _DESTINATION
    | {
        "message_id": 16,
        "job_id": 24,
        "return_code": 6,  # NULL of a CLOSE_COMMAND
        "request_length": 32,
        "length": 14,  # bytes of memory that the packet concerns
        "continues": 1,  # the packet is a message's, behind its first one
        "swap": SWAP_BITS,  # brings the data into network order, as of amoeba_hw.byte_order
        "executed": 1,  # the memory engine has a result; otherwise the return code is final
        "returns_data": 1,
        "copied": 1,  # the data goes to the answer memory, too
        "silent": 1,  # of a receive descriptor: nothing but the event
        "counters": data.ArrayLayout(8, COUNTERS),  # event counters to advance, 0: none
        "event": EVENT_ORDER,
    }
)
"""Fields of a request that its answer needs."""

ADVANCES = data.StructLayout({"counters": data.ArrayLayout(8, COUNTERS), "error": 1, "context": 8})
"""The event counters that an answer advances, 0: none. ``context``: whose receive names them; NO_CONTEXT: registers
do."""

MESSAGE = data.StructLayout(
    {
        "valid": 1,  # the request is a message or a tagged atomic; to be matched if ``answer.executed``
        "tagged": 1,
        "rendezvous": 1,
        "atomic": 1,
        "slot_reserved": 1,  # also to one that the checks refuse
        "receive_kept": 1,  # it meets a receive, and needs no slot
        "divided": 1,  # one of several packets: with ``answer.continues`` behind the first
        "ends": 1,  # with ``divided``: the last
        "target_generation": GENERATION_BITS,  # of the context that it is for, when it was accepted
    }
)
"""Fields of a request for matching. Until then ``buffer_offset`` is the memory request's address, and of the
event tag, data, initiator, target, generation and the flags IMMEDIATE and TAGGED are valid. Of a message of several
packets the address is where its part begins in it."""

CHECKED_REQUEST = data.StructLayout(
    {
        "dropped": 1,  # no answer, no execution
        "has_payload": 1,
        "gap": GAP_PASSAGE,
        "job": OPERAND_JOB,  # for the payload, if there is any
        "memory": MEMORY_REQUEST,  # if answer.executed
        "answer": ANSWER,
        "message": MESSAGE,
        "context": 8,  # for the trace
    }
)
"""A checked request, with all its work."""

CHECK_REPORT = data.StructLayout({"valid": 1, "pdc": 16, "passed": 1})
"""When valid: what came of the checks of a request that the PdcTable has accepted, one for each, in order."""

RECEIVE_QUESTION = data.StructLayout(
    {
        "valid": 1,
        "context": 8,  # whose receives
        "tagged": 1,
        "tag": 64,
        "source_ip": 32,
        "source_context": 32,
        "target": 8,
    }
)
"""When valid, until it is answered: whether a message that has not been accepted yet would meet a receive."""

RECEIVE_REPLY = data.StructLayout({"valid": 1, "found": 1})
"""When valid, in one cycle: the answer. A ``found`` receive is kept for the message, which is to be accepted next."""

KEPT_ANSWER = data.StructLayout(
    {
        "psn": 32,
        "epoch": EPOCH_BITS,
        "return_code": 6,
        "message_id": 16,
        "job_id": 24,
        "modified_length": 32,
        "payload_length": 14,
        "in_memory": 1,  # the data is in the answer memory
        "data": 8 * ANSWER_INLINE_SIZE,  # if payload_length is not above ANSWER_INLINE_SIZE
    }
)
"""An answer as it is kept, for replay."""

DUPLICATE = data.StructLayout(_DESTINATION)
"""A request received again, and where its answer is to go."""

NACK = data.StructLayout(
    {
        "mac": 48,
        "ip": 32,
        "port": 16,
        "psn": 32,
        "spdcid": 16,
        "dpdcid": 16,
        "code": 8,
        "missing": 8,
        "retx": 1,
        "marked": 1,
    }
)
"""A negative acknowledgement; ``psn`` is nack_psn."""


def among_opcodes(opcode, opcodes):
    """Whether an opcode is one of a set of RequestOpcodes."""
    return opcode.matches(*sorted(each.value for each in opcodes))


def is_message(header):
    """Whether a request (FRAME_HEADER) is a message or a tagged atomic: meets a receive, and has no key."""
    return ~header.is_control & among_opcodes(header.opcode, MESSAGE_REQUESTS)


def message_extent(header):
    """Whether a request (FRAME_HEADER) has START, and whether END."""
    return tuple((header.flags & flag.value) != 0 for flag in (SesFlags.START_OF_MESSAGE, SesFlags.END_OF_MESSAGE))


def is_divisible(opcode):
    """Whether a message of this request opcode of SES may have several packets."""
    return opcode.matches(*sorted(opcode.value for opcode in DIVISIBLE_REQUESTS))


def gives_up(header):
    """Whether the request ends a message before its last packet: a MSG_ERROR."""
    starts, ends = message_extent(header)
    return (header.opcode == RequestOpcode.MSG_ERROR.value) & ends & ~starts


def acknowledges(header, destination):
    """Statements that address an acknowledgement: ``header`` (FRAME_HEADER) answers ``destination``.

    ``destination`` is an ANSWER, a DUPLICATE or a NACK.
    """
    names = ("mac", "ip", "port", "psn", "spdcid", "dpdcid", "marked")
    return [header[name].eq(destination[name]) for name in names]


def response_opcode(return_code, has_data):
    """Return the FRAME_HEADER's opcode of an answer: without a return code there is no response."""
    with_code = Mux(has_data, ResponseOpcode.WITH_DATA.value, ResponseOpcode.RESPONSE.value)
    return Mux(return_code == ReturnCode.NULL.value, ResponseOpcode.NONE.value, with_code)


def modified_length(answer, return_code):
    """Return the ``modified_length`` of an ANSWER with that return code: the request's ``request_length`` if OK."""
    return Mux(return_code == ReturnCode.OK.value, answer.request_length, 0)


def refuses(header, nack):
    """Statements that make a whole NACK of ``header`` (FRAME_HEADER)."""
    return [
        *acknowledges(header, nack),
        header.is_control.eq(1),
        header.nack_code.eq(nack.code),
        header.missing.eq(nack.missing),
        header.retx.eq(nack.retx),
    ]
