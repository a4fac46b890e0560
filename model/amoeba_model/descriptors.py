"""What driver and NIC exchange through host memory: transmit descriptors, completions and events.

Every ring has a power-of-two number of entries. Producer and consumer indices count modulo 2**16 and are
taken modulo the ring size to find an entry. A completion entry is valid when its phase bit differs from what
the driver left there: the ring starts zeroed, and the NIC writes phase 1 on its first lap, 0 on the second.
"""

import enum

from amoeba_model.layout import Field, Record
from amoeba_model.opcodes import Datatype, Op

__all__ = [
    "ANSWER_INLINE_SIZE",
    "COMPLETION",
    "EVENT",
    "TX_DESCRIPTOR",
    "CompletionFlags",
    "DescriptorFlags",
    "DescriptorOpcode",
    "EventFlags",
    "EventKind",
]

ANSWER_INLINE_SIZE = 16
"""Bytes of data that an answer kept on the chip may have; longer ones are kept in the answer memory (host)."""


class DescriptorOpcode(enum.IntEnum):
    """What a transmit descriptor asks for."""

    NOP = 0
    """Nothing; completes at once."""
    WRITE = 1
    READ = 2
    ATOMIC = 3
    FETCH_ATOMIC = 4
    COMPARE_ATOMIC = 5
    CLOSE = 6
    """Close the peer's PDC in order; the next packet opens it anew."""


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


TX_DESCRIPTOR = Record(
    "tx_descriptor",
    64,
    (
        Field("opcode", 8, "What to do.", DescriptorOpcode),
        Field("op", 8, "Atomic operation, libfabric's number.", Op),
        Field("datatype", 8, "Atomic datatype, libfabric's number.", Datatype),
        Field("flags", 8, "Modifiers.", DescriptorFlags),
        Field("length", 32, "Bytes of remote memory concerned; for atomics a multiple of the element size."),
        Field("peer", 16, "Index into the peer table: whom to talk to."),
        Field("reserved0", 16, "Zero."),
        Field("reserved1", 32, "Zero."),
        Field("remote_address", 64, "Virtual address or offset in the remote region."),
        Field("remote_key", 64, "Key of the remote region."),
        Field("local", 64, "Address of the source buffer or of the operands; their value if INLINE."),
        Field("result", 64, "Address that receives read or fetched data."),
        Field("compare", 64, "Address of the compare values; their value if INLINE; immediate data if IMMEDIATE."),
        Field("context", 64, "The application's context, returned in the completion."),
    ),
    "One request of a transmit ring, in host memory.",
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
    """What happened to memory of a context, or to a message for it, that nobody here asked for."""

    REMOTE_WRITE = 1
    """A WRITE with immediate data was performed."""
    REMOTE_READ = 2
    """A READ with immediate data was performed."""
    REMOTE_ATOMIC = 3
    """An atomic with immediate data was performed."""


class EventFlags(enum.IntFlag):
    PHASE = 1 << 7
    """As in completions; part of the last byte written."""
    IMMEDIATE = 1 << 0
    """``data`` is valid."""


EVENT = Record(
    "event",
    64,
    (
        Field("context", 64, "Zero; reserved for the application's context of a posted receive."),
        Field("data", 64, "Immediate data."),
        Field("tag", 64, "Zero; reserved for a message's match bits."),
        Field("address", 64, "Virtual address of the first byte concerned."),
        Field("length", 32, "Bytes of the packet that carried the immediate data."),
        Field("source_ip", 32, "IPv4 address of the initiator."),
        Field("source_context", 32, "``initiator`` of the request: the initiator's context."),
        Field("source_pdc", 16, "The initiator's PDC (its peer index)."),
        Field("reserved0", 16, "Zero."),
        Field("reserved1", 32, "Zero."),
        Field("reserved2", 32, "Zero."),
        Field("reserved3", 32, "Zero."),
        Field("reserved4", 8, "Zero."),
        Field("kind", 8, "What happened.", EventKind),
        Field("status", 8, "Return code."),
        Field("flags", 8, "Phase bit; what is valid.", EventFlags),
    ),
    "One entry of a context's event ring, in host memory; written by a single write, phase byte last.",
)
