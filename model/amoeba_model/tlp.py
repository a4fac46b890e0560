"""Transaction layer packets as the NIC's own blocks hand them to each other, without a link's or an IP's format.

The words are those of the PCI Express Base Specification (chapter 2): DW is a 32-bit word, byte 0 in its low bits.
The streams that carry these headers are in :mod:`amoeba_hw.pcie.interfaces`.
"""

import enum
from typing import NamedTuple

from amoeba_model.layout import Field, Record
from amoeba_model.trace import Requester

__all__ = [
    "COMPLETION_HEADER",
    "LONGEST_PAYLOAD",
    "REGISTER_COMPLETION",
    "REGISTER_REQUEST",
    "REQUEST_HEADER",
    "CompletionStatus",
    "LinkPacket",
    "PacketKind",
    "RegisterRequestKind",
    "RequestKind",
    "size_bytes",
]

LONGEST_PAYLOAD = 4096
"""Bytes that one packet carries or asks for at most, whatever is configured."""


def size_bytes(code: int) -> int:
    """Bytes that a code of Max_Payload_Size or Max_Read_Request_Size means (7.5.3.4).

    Raises ValueError unless the code is 0 to 5.
    """
    if not 0 <= code <= 5:
        raise ValueError(f"Expected a size code from 0 (128 bytes) to 5 (4096 bytes), got {code}")
    return 128 << code


class RequestKind(enum.IntEnum):
    """Requests of the NIC to the host."""

    MEMORY_READ = 0
    """Non-posted: completions with its tag answer it."""
    MEMORY_WRITE = 1
    """Posted; an interrupt is one, too: of one DW."""


class CompletionStatus(enum.IntEnum):
    """How a request ended (2.2.9.1). All but SC end it, whatever was still to come."""

    SC = 0
    """Successful."""
    UR = 1
    """Unsupported request."""
    CRS = 2
    """Configuration request retry: never an answer to a memory request."""
    CA = 4
    """Completer abort."""
    TIMED_OUT = 7
    """No packet says this: the link's own logic gave the request up, and will swallow what comes for it later."""


class RegisterRequestKind(enum.IntEnum):
    """Requests of the host to the NIC."""

    MEMORY_READ = 0
    MEMORY_WRITE = 1
    """Posted: nothing answers it, whatever it was."""
    OTHER_POSTED = 2
    """Anything else that wants no completion: messages."""
    OTHER_NON_POSTED = 3
    """Anything else that wants a completion: I/O, locked reads, PCIe's own atomics. It is answered with UR."""


REQUEST_HEADER = Record(
    "tlp_request_header",
    16,
    (
        Field("address", 64, "Host address of the first DW; its low two bits are 0."),
        Field("dwords", 11, "DWs of payload, or asked for: 1 to 1024. With the address they never cross 4 KiB."),
        Field("kind", 2, "Kind of the request.", RequestKind),
        Field("reserved0", 3, "0."),
        Field("first_be", 4, "Byte enables of the first DW; never 0."),
        Field("last_be", 4, "Byte enables of the last DW: 0 exactly if there is one DW only."),
        Field("tag", 8, "Of a read. Undefined in a write."),
        Field("user", 8, "Requester, as AxUSER[7:0]; 0xFF for interrupts. For traces only."),
        Field("reserved1", 24, "0."),
    ),
    "A request of the NIC to the host: memory read or memory write.",
)

COMPLETION_HEADER = Record(
    "tlp_completion_header",
    8,
    (
        Field("tag", 8, "Of the read that it answers."),
        Field("status", 3, "How the read went.", CompletionStatus),
        Field("poisoned", 1, "The data is known to be wrong (EP)."),
        Field("dwords", 11, "DWs of payload, 0 to 1024; 0 unless the status is SC."),
        Field("reserved0", 1, "0."),
        Field("byte_count", 13, "Bytes of the read still to come, those of this completion included: 1 to 4096."),
        Field("reserved1", 3, "0."),
        Field("lower_address", 7, "Low bits of the host address of the completion's first byte that was asked for."),
        Field("reserved2", 17, "0."),
    ),
    "The host's answer to a read of the NIC, or one of several; those of one tag come in the order of addresses.",
)

REGISTER_REQUEST = Record(
    "tlp_register_request",
    32,
    (
        Field("address", 64, "Byte offset in the BAR; its low two bits are 0."),
        Field("data", 64, "Of a write: the first two DWs of its payload."),
        Field("dwords", 11, "DWs of payload, or asked for, 1 to 1024. Of a longer write the rest has been dropped."),
        Field("kind", 2, "Kind of the request.", RegisterRequestKind),
        Field("bar", 3, "Number of the BAR that was hit."),
        Field("first_be", 4, "Byte enables of the first DW; 0 in a read of no bytes."),
        Field("last_be", 4, "Byte enables of the last DW: 0 if there is one DW only."),
        Field("poisoned", 1, "The payload is known to be wrong (EP): nothing is to be written."),
        Field("traffic_class", 3, "To be returned."),
        Field("attributes", 3, "To be returned: no snoop in bit 0, relaxed ordering 1, ID-based ordering 2."),
        Field("reserved0", 1, "0."),
        Field("requester_id", 16, "ID of the requester, to be returned: bus, device, function."),
        Field("tag", 10, "To be returned."),
        Field("reserved1", 70, "0."),
    ),
    "A request of the host to a BAR of the NIC.",
)

REGISTER_COMPLETION = Record(
    "tlp_register_completion",
    16,
    (
        Field("data", 64, "Payload, the first DW in the low bits."),
        Field("status", 3, "How the request went: SC, UR or CA.", CompletionStatus),
        Field("dwords", 2, "DWs of payload: 0 to 2."),
        Field("traffic_class", 3, "Of the request."),
        Field("attributes", 3, "Of the request."),
        Field("lower_address", 7, "Low bits of the offset of the first byte asked for; 0 without payload."),
        Field("byte_count", 13, "Bytes from the first one asked for to the last: 1 to 8; 4 without payload."),
        Field("requester_id", 16, "Of the request."),
        Field("tag", 10, "Of the request."),
        Field("reserved0", 7, "0."),
    ),
    "The NIC's answer to a request that wants one. One completion ends it.",
)


class PacketKind(enum.IntEnum):
    """Packets on the link, as the simulated host sees them."""

    READ = 0
    """Of host memory, by the NIC."""
    WRITE = 1
    """To host memory, by the NIC."""
    INTERRUPT = 2
    """An MSI-X message: a write of one DW."""
    COMPLETION = 3
    """The host's answer to a read, or a part of it."""
    REGISTER_READ = 4
    """Of a BAR, by the host."""
    REGISTER_WRITE = 5
    """To a BAR, by the host."""
    REGISTER_COMPLETION = 6
    """The NIC's answer to a read of a BAR."""


_BY_HOST = {PacketKind.COMPLETION, PacketKind.REGISTER_READ, PacketKind.REGISTER_WRITE}
_OF_BARS = {PacketKind.REGISTER_READ, PacketKind.REGISTER_WRITE, PacketKind.REGISTER_COMPLETION}
_WITHOUT_TAG = {PacketKind.WRITE, PacketKind.INTERRUPT, PacketKind.REGISTER_WRITE}


class LinkPacket(NamedTuple):
    """A transaction layer packet, as a simulated host reports it."""

    cycle: int
    """In which its first beat is transferred."""
    kind: PacketKind
    address: int
    """Of the first byte that it is about: in host memory, or the offset in a BAR."""
    size: int
    """Bytes that it is about, from the first enabled one to the last; 0 of a completion without data."""
    data: int
    """Payload of a write, or of the NIC's completion, of one or two DWs; 0 of others."""
    raw_tag: int
    user: int
    """Block of the NIC that made the request: a Requester, or 0xFF for interrupts. For BAR accesses, the BAR."""
    status: int
    """A CompletionStatus; SC of requests."""

    @property
    def by_host(self) -> bool:
        """Whether it goes from the host to the NIC."""
        return self.kind in _BY_HOST

    @property
    def tag(self) -> int | None:
        """Of a read, or of the one that a completion answers; writes have none that means anything."""
        return None if self.kind in _WITHOUT_TAG else self.raw_tag

    @property
    def requester(self) -> Requester | None:
        """The component of the NIC whose access to host memory it is, or answers."""
        return None if self.kind in _OF_BARS or self.kind == PacketKind.INTERRUPT else Requester(self.user)

    @property
    def bar(self) -> int | None:
        """Number of the BAR that is accessed."""
        return self.user if self.kind in _OF_BARS else None
