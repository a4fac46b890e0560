"""What driver and NIC exchange through host memory: transmit descriptors and completions.

Both rings have a power-of-two number of entries. Producer and consumer indices count modulo 2**16 and are
taken modulo the ring size to find an entry. A completion entry is valid when its phase bit differs from what
the driver left there: the ring starts zeroed, and the NIC writes phase 1 on its first lap, 0 on the second.
"""

import enum

from amoeba_model.layout import Field, Record
from amoeba_model.opcodes import Datatype, Op

__all__ = ["COMPLETION", "TX_DESCRIPTOR", "CompletionFlags", "DescriptorFlags", "DescriptorOpcode"]


class DescriptorOpcode(enum.IntEnum):
    """What a transmit descriptor asks for."""

    NOP = 0
    """Nothing; completes at once."""
    WRITE = 1
    READ = 2
    ATOMIC = 3
    FETCH_ATOMIC = 4
    COMPARE_ATOMIC = 5


class DescriptorFlags(enum.IntFlag):
    COMPLETION = 1 << 0
    """Write a completion entry on success, too; errors always write one."""
    INLINE = 1 << 1
    """``local`` and ``compare`` hold the operand and compare values themselves: at most 8 bytes."""


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
        Field("compare", 64, "Address of the compare values; their value if INLINE."),
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
        Field("data", 64, "Immediate data; zero so far."),
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
