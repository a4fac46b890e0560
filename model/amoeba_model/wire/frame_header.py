"""Fields of a frame, of whatever headers it has."""

from dataclasses import dataclass

__all__ = ["NO_PDC", "FrameHeader"]

NO_PDC = 0xFFFF
"""``spdcid`` of a NACK about no PDC: number 0 on the wire, which no PDC has."""


@dataclass(slots=True)
class FrameHeader:
    """Everything a frame says besides its payload, in both directions: ``amoeba_hw``'s FRAME_HEADER.

    ``mac`` and ``ip`` are the other side's: destination when transmitting, source when receiving. The own one of
    ``spdcid`` and ``dpdcid`` is an entry of the table that it is in, counted from 0; the other side's is one less
    than its number on the wire.
    """

    mac: int = 0
    ip: int = 0
    port: int = 0
    """UDP source port (entropy)."""
    is_request: bool = True
    """To the target: ROD request, or control packet; otherwise to the initiator: ACK, NACK, a READ's data, or a
    CLOSE_REQUEST."""
    is_control: bool = False
    """Control packet, or NACK: nothing but PDS fields is valid, and there is no payload. A CLOSE_COMMAND, unless the
    packet ``clears`` or ``asks``."""
    retx: bool = False
    """The packet, or the one answered, was sent again."""
    nack_code: int = 0
    missing: int = 0
    """Of a NACK ROD_OOO: how many packets from ``psn`` on are missing, if the target keeps what it got behind them;
    0: it keeps none. Sent and received as it is with any code, in 8 bits."""
    cack_psn: int = 0
    """Of an ACK: everything up to here was executed; ``psn`` lies within 16 signed bits of it."""
    psn: int = 0
    """Of the packet; of an acknowledgement: the packet answered; of a NACK: nack_psn; of a CLEAR_COMMAND: the last
    packet whose answer need not be kept."""
    clear_psn_offset: int = 0
    """Signed 16-bit number in two's complement."""
    spdcid: int = 0
    """NO_PDC of a NACK about none."""
    dpdcid: int = 0
    """With ``syn``: psn - first psn."""
    syn: bool = False
    opcode: int = 0
    """Request or response opcode; ResponseOpcode.NONE of an ACK without a response: all fields below are 0 then."""
    version: int = 0
    flags: int = 0
    message_id: int = 0
    job_id: int = 0
    pid_on_fep: int = 0
    resource_index: int = 0
    buffer_offset: int = 0
    initiator: int = 0
    memory_key: int = 0
    header_data: int = 0
    """Immediate data, valid with HEADER_DATA in ``flags``; sent and received as it is in any case."""
    request_length: int = 0
    atomic_opcode: int = 0
    atomic_datatype: int = 0
    semantic_control: int = 0
    return_code: int = 0
    modified_length: int = 0
    payload_length: int = 0
    """Bytes after the headers, CRC excluded; :func:`encode` takes it from the payload."""
    marked: bool = False
    """Received: the request has a congestion mark, or the answer says that its request had. Of an answer sent: the
    request had one. Requests are sent unmarked."""
    returns: bool = False
    """``psn`` counts in the return direction. With WITH_DATA, to the initiator: a ROD request of the target with a
    READ's data. ``message_id`` is the READ's, and ``buffer_offset`` is ``message_offset``. With ``asks``: a
    CLOSE_REQUEST. Otherwise the initiator's ACK or NACK of such a packet."""
    clears: bool = False
    """The control packet is a CLEAR_COMMAND, which has no psn of its own."""
    asks: bool = False
    """The control packet is an ACK_REQUEST, which no NIC sends: the answer to packet ``psn`` is wanted again. If the
    packet ``returns``, it is a CLOSE_REQUEST, which no NIC sends either: the initiator is to close the PDC."""
    wants_clear: bool = False
    """Of an ACK, not of a NIC: the target asks for a CLEAR_COMMAND."""
    mpr: int = 0
    """Of an ACK_CC, which no NIC sends: how many packets may be unanswered, in units of MPR_UNIT; 0: not said."""
    ri_generation: int = 0
    """Of the receives that a message is for; in a refusal with BAD_GENERATION the right one."""
