"""The trace port: what happens to a request, stage by stage, for people and for scoreboards.

Each stage of the NIC has one slot on the port and reports at most one event per clock cycle.
"""

import enum
from dataclasses import dataclass
from typing import NamedTuple

from amoeba_model.layout import Field, Record

__all__ = [
    "AXI_USER", "NO_CONTEXT", "TRACE_EVENT", "UNKNOWN_PDC", "BusEvent", "BusState", "Channel", "Requester", "Stage",
    "TraceEvent",
]  # fmt: skip

NO_CONTEXT = 0xFF
"""``context`` of an event that concerns none."""
UNKNOWN_PDC = 0xFFFF
"""``pdc`` of an event before the PDC has been looked up."""


class Stage(enum.IntEnum):
    """Stages of a request's life, in the order in which a fetching atomic passes them.

    The comment says what ``pdc`` and ``psn`` of the event mean where they are not the packet's own.
    """

    DOORBELL = 0
    """Tail written; psn = the tail."""
    DESCRIPTOR = 1
    """Descriptor arrived; psn = its index in the ring."""
    OPERAND = 2
    """Last operand byte at hand."""
    REQUEST_SENT = 3
    """First beat of the request or CLOSE_COMMAND leaves; context = the low 8 bits of ``initiator``."""
    REQUEST_RECEIVED = 4
    """Request frame complete, headers and CRC right; its PDC has not been looked up yet, and may drop it:
    pdc = 0xFFFF with SYN, else the PDC that dpdcid names; a CLOSE_COMMAND has no context."""
    REQUEST_CHECKED = 5
    """Sequence, key, bounds and rights checked; status = return code, NULL of a CLOSE_COMMAND."""
    LINE_READ = 6
    """Line fetch issued to host memory; psn = low 32 bits of the line address."""
    EXECUTED = 7
    """Last beat of the request went through the atomic unit."""
    LINE_WRITTEN = 8
    """Line written back to host memory, with the changes of one or more requests; pdc = 0; psn = low 32 bits of
    the line address."""
    RESPONSE_SENT = 9
    """First beat of the acknowledge frame or NACK leaves; no context; pdc = 0xFFFF of a NACK about none; status =
    return code, 0 of a NACK and of the answer to a CLOSE_COMMAND."""
    RESPONSE_RECEIVED = 10
    """Acknowledge frame or NACK complete, headers and CRC right, whether or not it was expected; no context; pdc =
    the one that dpdcid names; status = return code, 0 of a NACK."""
    RESULT_WRITTEN = 11
    """Last beat of fetched or read data handed to the host bus."""
    COMPLETION_WRITTEN = 12
    """Completion entry handed to the host bus; psn = its index in the ring; status = its status."""
    INTERRUPT = 13
    """Interrupt raised."""
    EVENT_WRITTEN = 14
    """Event entry handed to the host bus; psn = its index in the ring; status = its status; pdc = 0 of a receive
    descriptor."""


TRACE_EVENT = Record(
    "trace_event",
    8,
    (
        Field("psn", 32, "Packet sequence number, or what Stage says."),
        Field("pdc", 16, "PDC: the initiator's on its side (peer index), the target's on the other."),
        Field("context", 8, "Context concerned; 0xFF where none is."),
        Field("status", 8, "Return code where one is known."),
    ),
    "One slot of the trace port.",
)


class Requester(enum.IntEnum):
    """Components that access host memory; AxUSER[7:0] on the AXI4 port carries this number."""

    DESCRIPTOR_FETCH = 1
    OPERAND_FETCH = 2
    COMPARE_FETCH = 3
    LINE_TABLE = 4
    RESULT_WRITER = 5
    COMPLETION_WRITER = 6
    EVENT_WRITER = 7
    ANSWER_WRITER = 8
    ANSWER_FETCH = 9
    RECEIVE_FETCH = 10
    COUNTER_WRITER = 11


AXI_USER = Record(
    "axi_user",
    2,
    (
        Field("requester", 8, "The component that asks.", Requester),
        Field("context", 8, "For which context it does; 0xFF: for none's descriptor."),
    ),
    "AxUSER of the AXI4 port, with every access to host memory: what an IOMMU needs to keep contexts apart.",
)


@dataclass(frozen=True)
class TraceEvent:
    """One event as a simulated device reports it."""

    cycle: int
    stage: Stage
    context: int
    pdc: int
    psn: int
    status: int

    @classmethod
    def from_bits(cls, cycle: int, stage: Stage, data: int) -> "TraceEvent":
        fields = TRACE_EVENT.unpack(data.to_bytes(TRACE_EVENT.size, "little"))
        return cls(cycle, stage, fields["context"], fields["pdc"], fields["psn"], fields["status"])


class Channel(enum.IntEnum):
    """Channels of the NIC's buses, as the simulation watches them."""

    HOST_READ_ADDRESS = 0
    HOST_READ_DATA = 1
    HOST_WRITE_ADDRESS = 2
    HOST_WRITE_DATA = 3
    HOST_WRITE_RESPONSE = 4
    LINK_RECEIVE = 5
    LINK_TRANSMIT = 6


class BusState(enum.IntEnum):
    """Activity of a channel in a cycle."""

    IDLE = 0
    MOVES = 1
    """A beat is transferred."""
    WAITS = 2
    """A beat is on offer, and the other side does not take it yet: back-pressure."""


class BusEvent(NamedTuple):
    """From ``cycle`` on, until its next event, a channel is in this state."""

    cycle: int
    channel: Channel
    state: BusState
