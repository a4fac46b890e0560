"""Records that driver and NIC exchange through host memory: descriptors, completions, events and counters.

Every ring has a power-of-two number of entries. Producer and consumer indices count modulo 2**16 and are
taken modulo the ring size to find an entry. A completion entry is valid when its phase bit differs from the one
that the driver left there: the ring starts zeroed, and the NIC writes phase 1 on its first lap, 0 on the second.
"""

import enum

from amoeba_model.layout import Field, Record
from amoeba_model.opcodes import Datatype, Op

__all__ = [
    "ANSWER_INLINE_SIZE",
    "COMPLETION",
    "EVENT",
    "EVENT_COUNTER",
    "MULTI_ALIGNMENT",
    "RENDEZVOUS",
    "RX_DESCRIPTOR",
    "TX_DESCRIPTOR",
    "CompletionFlags",
    "DescriptorFlags",
    "DescriptorOpcode",
    "EventFlags",
    "EventKind",
    "ReceiveFlags",
    "ReceiveOpcode",
]

MULTI_ALIGNMENT = 64
"""In a MULTI receive each message but the first begins at an address that is a multiple of it."""

ANSWER_INLINE_SIZE = 16
"""Bytes of data that an answer kept on the chip may have; longer ones are kept in the answer memory (host)."""


class DescriptorOpcode(enum.IntEnum):
    """Operations of transmit descriptors."""

    NOP = 0
    """Nothing; completes at once, or with FENCE or FENCE_ALL when what these wait for has been answered."""
    WRITE = 1
    READ = 2
    ATOMIC = 3
    FETCH_ATOMIC = 4
    COMPARE_ATOMIC = 5
    CLOSE = 6
    """Close the peer's PDC in order; the next packet opens it anew."""
    SEND = 7
    """A message for the oldest receive that matches. Above ``payload`` it has several packets, and is refused with
    NO_MATCH unless a receive is posted when the first one comes."""
    TAGGED_SEND = 8
    """The same, with the tag in ``remote_key``."""
    RENDEZVOUS_SEND = 9
    """A message that the receiver reads: ``local`` holds a RENDEZVOUS, ``length`` is its size, ``remote_address`` the
    message's length."""
    RENDEZVOUS_TAGGED_SEND = 10
    """The same, with the tag in ``remote_key``."""
    TAGGED_ATOMIC = 11
    """An atomic on the buffer of the oldest receive that matches the tag in ``remote_key``, ``remote_address`` bytes
    behind its start: one packet."""
    TAGGED_FETCH_ATOMIC = 12
    """The same, with the old values as its result."""
    PING = 13
    """Nothing but an answer: OK from a peer's NIC that is there. ``length`` 0; no key, no memory."""


class DescriptorFlags(enum.IntFlag):
    COMPLETION = 1 << 0
    """Write a completion entry on success, too; errors always write one."""
    INLINE = 1 << 1
    """``local`` and ``compare`` hold the operand and compare values themselves: at most 8 bytes."""
    FENCE = 1 << 2
    """Begin only when everything sent to this peer before has been answered."""
    IMMEDIATE = 1 << 3
    """``compare`` holds immediate data for the target's event ring; not with COMPARE_ATOMIC."""
    CHAINED = 1 << 4
    """The next descriptor continues this request: no completion here, a bad status is handed on to its end."""
    FENCE_ALL = 1 << 5
    """Begin only when everything that the context sent before, to whichever peer, has been answered."""


TX_DESCRIPTOR = Record(
    "tx_descriptor",
    64,
    (
        Field("opcode", 8, "Operation.", DescriptorOpcode),
        Field("op", 8, "Atomic operation, libfabric's number.", Op),
        Field("datatype", 8, "Atomic datatype, libfabric's number.", Datatype),
        Field("flags", 8, "Modifiers.", DescriptorFlags),
        Field("length", 32, "Bytes of remote memory concerned; for atomics a multiple of the element size."),
        Field("peer", 16, "Index into the peer table: whom to talk to."),
        Field("counter", 8, "Event counter that the end of the request advances; 0: none."),
        Field("reserved0", 8, "Zero."),
        Field("reserved1", 32, "Zero."),
        Field(
            "remote_address",
            64,
            "Virtual address or offset in the remote region; of a tagged atomic in the receive.",
        ),
        Field("remote_key", 64, "Key of the remote region; tag of a tagged message."),
        Field("local", 64, "Address of the source buffer or of the operands; their value if INLINE."),
        Field("result", 64, "Address that receives read or fetched data."),
        Field("compare", 64, "Address of the compare values; their value if INLINE; immediate data if IMMEDIATE."),
        Field("context", 64, "The application's context, returned in the completion."),
    ),
    "One request of a transmit ring, in host memory.",
)


class ReceiveOpcode(enum.IntEnum):
    """Operations of receive descriptors."""

    RECEIVE = 1
    """Receive a message, or with MULTI several."""
    PEEK = 2
    """Say which unexpected message would be received."""
    TAKE = 3
    """The same, and take it out of the list."""
    CANCEL = 4
    """Take back the posted receive with the same ``context``."""


class ReceiveFlags(enum.IntFlag):
    TAGGED = 1 << 0
    """Tagged messages are wanted, else only untagged ones."""
    MULTI = 1 << 1
    """The buffer takes message after message while ``least_space`` bytes are left. Each but the first begins at the
    nearest address behind the one before that is a multiple of 64."""
    DIRECTED = 1 << 2
    """Only messages from ``source_ip`` and ``source_context``."""
    ADDRESSED = 1 << 3
    """Only messages for the context ``target_context``, of those that share these receives."""


RX_DESCRIPTOR = Record(
    "rx_descriptor",
    64,
    (
        Field("opcode", 8, "Operation.", ReceiveOpcode),
        Field("flags", 8, "Modifiers.", ReceiveFlags),
        Field("counter", 8, "Event counter that every message received into the buffer advances; 0: none."),
        Field("target_context", 8, "Context that the message is for if ADDRESSED."),
        Field("length", 32, "Bytes of the buffer."),
        Field("tag", 64, "Tag wanted."),
        Field("ignore", 64, "Bits of the tag that need not match."),
        Field("address", 64, "The buffer."),
        Field("context", 64, "The application's context, returned in events."),
        Field("source_ip", 32, "IPv4 address wanted if DIRECTED."),
        Field("source_context", 32, "Context of the sender wanted if DIRECTED."),
        Field("least_space", 32, "A MULTI buffer with less free space than this is used up."),
        Field("reserved1", 32, "Zero."),
        Field("reserved2", 64, "Zero."),
    ),
    "One entry of a context's receive ring, in host memory.",
)

RENDEZVOUS = Record(
    "rendezvous",
    32,
    (
        Field("key", 64, "Key to read the message with, from ``buffer_offset`` 0 on."),
        Field(
            "token",
            64,
            "Even. Immediate data of the last READ, of 0 bytes if none is wanted: the sender may go on. With "
            "token + 1: nobody will read the message.",
        ),
        Field("mac_low", 32, "MAC address of the NIC that it is read from, bytes 5 (least significant) to 2."),
        Field("mac_high", 16, "The same, bytes 1 (least significant) and 0."),
        Field("resource_index", 16, "The sender's context that READs go to."),
        Field("job_id", 32, "Its UET job."),
        Field("pid_on_fep", 16, "Its UET process id."),
        Field("relative", 16, "1: that counts within the job; 0: within the NIC."),
    ),
    "Payload of a rendezvous message instead of its data; NICs copy it like any other, drivers use it.",
)


class CompletionFlags(enum.IntFlag):
    PHASE = 1 << 7
    """Toggles from lap to lap of the ring; part of the last byte written."""


COMPLETION = Record(
    "completion",
    32,
    (
        Field("context", 64, "``context`` of the descriptor."),
        Field("data", 64, "Zero."),
        Field("length", 32, "``length`` of the descriptor."),
        Field("descriptor", 16, "Producer index of the descriptor in its transmit ring (modulo 2**16)."),
        Field("opcode", 8, "``opcode`` of the descriptor.", DescriptorOpcode),
        Field("status", 8, "Return code: UET's, from 0x30 on Amoeba's own."),
        Field("reserved0", 32, "Zero."),
        Field("reserved1", 16, "Zero."),
        Field("reserved2", 8, "Zero."),
        Field("flags", 8, "Phase bit.", CompletionFlags),
    ),
    "One entry of a completion ring, in host memory; written by a single write, phase byte last.",
)


class EventKind(enum.IntEnum):
    """Kinds of events: accesses by peers to the memory of a context, and the fate of messages and receives."""

    REMOTE_WRITE = 1
    """A WRITE with immediate data was performed."""
    REMOTE_READ = 2
    """A READ with immediate data was performed."""
    REMOTE_ATOMIC = 3
    """An atomic with immediate data was performed."""
    RECEIVED = 4
    """A message met a posted receive and lies at ``address``; status TOO_LONG if it was cut."""
    UNEXPECTED = 5
    """A receive met a message that lies in ``slot``."""
    RENDEZVOUS = 6
    """A message met a receive, and its RENDEZVOUS record lies in ``slot``."""
    ATOMIC_RECEIVED = 7
    """A tagged atomic was performed on the buffer of a receive, at ``address``."""
    NO_MATCH = 8
    """No unexpected message for a PEEK or TAKE, no posted receive for a CANCEL."""
    FOUND = 9
    """The unexpected message of a PEEK; it stays."""
    TAKEN = 10
    """The unexpected message of a TAKE lies in ``slot``."""
    CANCELLED = 11
    """The receive of a CANCEL has been taken back."""
    REFUSED = 12
    """A receive descriptor that makes no sense (LOCAL_BAD_DESCRIPTOR) or cannot be read (LOCAL_DMA_FAULT)."""
    ARRIVED = 13
    """A message met no receive and lies in ``slot``, the youngest of the unexpected ones; only with ANNOUNCE.

    ``context`` is the number of receive descriptors, modulo 2**16, that were done before the message.
    """


class EventFlags(enum.IntFlag):
    PHASE = 1 << 7
    """As in completions; part of the last byte written."""
    IMMEDIATE = 1 << 0
    """``data`` is valid."""
    TAGGED = 1 << 1
    """The message is a tagged one: ``tag`` is valid."""
    RELEASED = 1 << 2
    """The receive with this ``context`` is used up."""
    IN_SLOT = 1 << 3
    """``slot`` is valid. But for FOUND and ARRIVED the driver is to release it."""
    LONG = 1 << 4
    """The message is a rendezvous: what lies in the slot is a RENDEZVOUS, ``length`` the message's."""


EVENT = Record(
    "event",
    64,
    (
        Field(
            "context",
            64,
            "``context`` of the receive descriptor; of ARRIVED: receive descriptors done before it, modulo 2**16.",
        ),
        Field("data", 64, "Immediate data."),
        Field("tag", 64, "Tag of the message if TAGGED."),
        Field(
            "address",
            64,
            "Virtual address of the first byte concerned; of a message: of its place.",
        ),
        Field("length", 32, "Bytes of the packet that carried the immediate data; of a message: its length."),
        Field("source_ip", 32, "IPv4 address of the initiator."),
        Field("source_context", 32, "``initiator`` of the request: the initiator's context."),
        Field("source_pdc", 16, "The initiator's PDC (its peer index)."),
        Field("slot", 16, "Unexpected slot if IN_SLOT."),
        Field("reserved1", 32, "Zero."),
        Field("reserved2", 32, "Zero."),
        Field("reserved3", 32, "Zero."),
        Field("target_context", 8, "Context that the request was for."),
        Field("kind", 8, "Kind of the event.", EventKind),
        Field("status", 8, "Return code."),
        Field("flags", 8, "Phase bit; what is valid.", EventFlags),
    ),
    "One entry of a context's event ring, in host memory; written by a single write, phase byte last.",
)

EVENT_COUNTER = Record(
    "event_counter",
    16,
    (
        Field("success", 64, "Requests or messages that succeeded."),
        Field("error", 64, "Requests or messages that failed."),
    ),
    "One entry of the event counters in host memory; written by a single write, never read.",
)
