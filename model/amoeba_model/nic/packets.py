"""Packetizer, OperandStage and PacketNumberer: from a request to its frames."""

from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.nic.core import Core
from amoeba_model.nic.descriptors import FORMS
from amoeba_model.nic.frames import FrameTransmitter
from amoeba_model.nic.host import HostMemory
from amoeba_model.nic.peers import Packet, Peer
from amoeba_model.nic.tables import Request
from amoeba_model.nic.timing import HOST_READ, PACKETIZE
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.registers import Counter
from amoeba_model.trace import Requester, Stage
from amoeba_model.wire.byte_order import NUMBER_SIZES, swap_bytes
from amoeba_model.wire.codec import FrameHeader
from amoeba_model.wire.uet import (
    ATOMIC_DATATYPES,
    ATOMIC_OPCODES,
    CSWAP_VALUES_SIZE,
    DIVISIBLE_REQUESTS,
    MESSAGE_REQUESTS,
    RequestOpcode,
    SemanticControl,
    SesFlags,
    message_place,
)

__all__ = ["OperandStage", "PacketNumberer", "Packetizer", "ses_opcode_of"]

_REQUESTS_SENT = Counter.REQUESTS_SENT.value
_RETRANSMISSIONS = Counter.RETRANSMISSIONS.value
_SEND_STAGE = Stage.REQUEST_SENT
_OPERAND_FETCH = Requester.OPERAND_FETCH
_COMPARE_FETCH = Requester.COMPARE_FETCH
_INLINE = DescriptorFlags.INLINE.value
_INLINE_SIZE = 8
_IMMEDIATE = DescriptorFlags.IMMEDIATE.value
_CHAINED = DescriptorFlags.CHAINED.value
_WRITE = DescriptorOpcode.WRITE.value
_READ = DescriptorOpcode.READ.value
_COMPARE_ATOMIC = DescriptorOpcode.COMPARE_ATOMIC.value
_CLOSE = DescriptorOpcode.CLOSE.value
_RETURNS_DATA = frozenset(
    {
        _READ,
        DescriptorOpcode.FETCH_ATOMIC.value,
        _COMPARE_ATOMIC,
        DescriptorOpcode.TAGGED_FETCH_ATOMIC.value,
    }
)
_WITHOUT_PAYLOAD = frozenset({_READ, _CLOSE})
_ATOMIC_READ = Op.FI_ATOMIC_READ
_HALF_CSWAP = CSWAP_VALUES_SIZE // 2
_START = SesFlags.START_OF_MESSAGE.value
_END = SesFlags.END_OF_MESSAGE.value
_RELATIVE = SesFlags.RELATIVE.value
_MESSAGES = frozenset(opcode.value for opcode in MESSAGE_REQUESTS)
_HEADER_DATA = SesFlags.HEADER_DATA.value
_DELIVERY_COMPLETE = SesFlags.DELIVERY_COMPLETE.value
_INITIATOR_ERROR = SesFlags.INITIATOR_ERROR.value
_CSWAP_BY_BITS = SemanticControl.AMOEBA_CSWAP_BY_BITS.value
_NO_OP = RequestOpcode.NO_OP.value
_MSG_ERROR = RequestOpcode.MSG_ERROR.value
_DIVISIBLE = frozenset(opcode.value for opcode in DIVISIBLE_REQUESTS)
_FETCHING_ATOMIC = RequestOpcode.FETCHING_ATOMIC.value
_VENDOR_COMPARE = RequestOpcode.AMOEBA_COMPARE_ATOMIC.value
_LONG_ATOMICS = {
    DescriptorOpcode.ATOMIC.value: RequestOpcode.AMOEBA_ATOMIC.value,
    DescriptorOpcode.FETCH_ATOMIC.value: RequestOpcode.AMOEBA_FETCHING_ATOMIC.value,
}
"""Atomics of several packets."""
_SES_OPCODES = {
    _WRITE: RequestOpcode.WRITE.value,
    _READ: RequestOpcode.READ.value,
    DescriptorOpcode.ATOMIC.value: RequestOpcode.ATOMIC.value,
    DescriptorOpcode.FETCH_ATOMIC.value: _FETCHING_ATOMIC,
    DescriptorOpcode.SEND.value: RequestOpcode.SEND.value,
    DescriptorOpcode.TAGGED_SEND.value: RequestOpcode.TAGGED_SEND.value,
    DescriptorOpcode.RENDEZVOUS_SEND.value: RequestOpcode.RENDEZVOUS_SEND.value,
    DescriptorOpcode.RENDEZVOUS_TAGGED_SEND.value: RequestOpcode.RENDEZVOUS_TSEND.value,
    DescriptorOpcode.TAGGED_ATOMIC.value: RequestOpcode.TSEND_ATOMIC.value,
    DescriptorOpcode.TAGGED_FETCH_ATOMIC.value: RequestOpcode.TSEND_FETCH_ATOMIC.value,
    DescriptorOpcode.PING.value: _NO_OP,
    _CLOSE: _NO_OP,  # there is no SES header
}
_ATOMIC_OPCODES = [ATOMIC_OPCODES[op].value for op in Op]
_ATOMIC_DATATYPES = [ATOMIC_DATATYPES[datatype].value for datatype in Datatype]
_ELEMENT_SIZES = [datatype.size for datatype in Datatype]


class Packetizer:
    """Cuts requests into packets."""

    def __init__(self, core: Core) -> None:
        self._payload = core.parameters.payload

    def cut(self, request: Request, peer: Peer) -> Packet:
        """Cut the request's next packet, which takes a place in the peer's window; for a failed peer, its last."""
        opcode, position = request.opcode, request.position
        ses_opcode = ses_opcode_of(request, self._payload)
        if opcode == _CLOSE or peer.failed:
            size, is_last = 0, True
        else:
            limit = self._payload // 2 if ses_opcode == _VENDOR_COMPARE else self._payload
            size = min(limit, request.length - position)
            request.position = position + size
            is_last = request.position == request.length
        request.begun = True
        expected = size if opcode in _RETURNS_DATA else 0
        psn = peer.number()
        if not position or ses_opcode not in _DIVISIBLE:
            request.message = (psn - peer.first_message) & 0xFFFF
        packet = Packet(psn, request, ses_opcode, position, size, expected, is_last, request.message)
        peer.outstanding.append(packet)
        return packet


class OperandStage:
    """Reads what a packet carries, and brings operands into network order."""

    def __init__(self, host: HostMemory) -> None:
        self._host = host

    def read(self, packet: Packet) -> bytes | None:
        """Read the payload; None if the host refuses any of it."""
        request = packet.request
        opcode = request.opcode
        if opcode in _WITHOUT_PAYLOAD or (request.op == _ATOMIC_READ and opcode in FORMS) or not packet.size:
            return b""
        operands = self._read(packet, request.local, _OPERAND_FETCH)
        if opcode not in FORMS:
            return operands
        number = NUMBER_SIZES[request.datatype]
        if opcode != _COMPARE_ATOMIC:
            return operands if operands is None else swap_bytes(operands, number)
        compares = self._read(packet, request.compare, _COMPARE_FETCH)
        if operands is None or compares is None:
            return None
        operands, compares = swap_bytes(operands, number), swap_bytes(compares, number)
        if packet.opcode == _FETCHING_ATOMIC:
            return compares.rjust(_HALF_CSWAP, b"\0") + operands.rjust(_HALF_CSWAP, b"\0")
        return operands + compares

    def _read(self, packet: Packet, source: int, requester: Requester) -> bytes | None:
        if packet.request.flags & _INLINE:
            return source.to_bytes(_INLINE_SIZE, "little")[: packet.size]
        return self._host.read(source + packet.position, packet.size, requester, packet.request.context.number)


class PacketNumberer:
    """Makes frames of packets, for the first time or again, with what the PDC knows when they leave."""

    def __init__(self, core: Core, operands: OperandStage, transmitter: FrameTransmitter) -> None:
        self._core = core
        self._operands = operands
        self._transmitter = transmitter
        self._ready = 0
        """Cycle at which the last packet was ready: packets never overtake each other."""

    def send(self, pdc: int, peer: Peer, packet: Packet) -> int:
        """Send a new packet of ``peer``, whose index is ``pdc``; the cycle at which the frame has left."""
        payload = self._load(packet)
        if packet.fault:
            packet.is_last = True
        return self._transmit(pdc, peer, packet, payload, False)

    def send_again(self, pdc: int, peer: Peer, packet: Packet) -> int:
        """Send an unanswered packet again; the cycle at which it has left."""
        self._core.counters[_RETRANSMISSIONS] += 1
        return self._transmit(pdc, peer, packet, self._load(packet), True)

    def _load(self, packet: Packet) -> bytes:
        """Read the packet's payload. A packet whose payload cannot be read becomes a NO_OP."""
        payload = None if packet.fault else self._operands.read(packet)
        if payload is None:
            packet.fault = True
            packet.expected = 0
            return b""
        return payload

    def _transmit(self, pdc: int, peer: Peer, packet: Packet, payload: bytes, retx: bool) -> int:
        core = self._core
        request = packet.request
        context = request.context.number
        fetched = max(core.now, request.ready)
        if payload and not request.flags & _INLINE:
            fetched += HOST_READ + len(payload) // core.beat_bytes
        if payload and core.tracing:
            core.trace(fetched, Stage.OPERAND, context, pdc, packet.psn)
        ready = fetched + PACKETIZE
        if ready > self._ready:
            self._ready = ready
        core.counters[_REQUESTS_SENT] += 1
        header = _header(pdc, peer, packet, retx)
        return self._transmitter.send(
            header, payload, self._ready, (_SEND_STAGE, peer.initiator & 0xFF, pdc, packet.psn, 0), retx
        )


def _header(pdc: int, peer: Peer, packet: Packet, retx: bool) -> FrameHeader:
    request, psn, target_pdc = packet.request, packet.psn, peer.target_pdc
    number = psn - peer.start_psn
    syn = target_pdc is None
    # In the order of the fields: by their names it takes three times as long.
    header = FrameHeader(
        peer.mac, peer.ip, peer.entropy, True, False, retx, 0, 0, 0, psn, (peer.last_answered - psn) & 0xFFFF, pdc,
        number & 0xFFF if target_pdc is None else target_pdc, syn,
    )  # fmt: skip
    if request.opcode == _CLOSE:
        header.is_control = True
        return header
    divisible = packet.opcode in _DIVISIBLE
    starts = not packet.position or not divisible
    ends = packet.is_last or packet.fault or not divisible
    header.flags = (_START if starts else 0) | (_END if ends else 0) | (_RELATIVE if peer.relative else 0)
    header.message_id = packet.message
    if packet.opcode in _MESSAGES:
        header.ri_generation = peer.generation_of(packet.opcode)
    header.job_id = peer.job_id
    header.pid_on_fep = peer.pid_on_fep
    header.resource_index = peer.resource_index
    before = 0 if divisible else packet.position
    header.buffer_offset = (request.remote_address + before) & 0xFFFF_FFFF_FFFF_FFFF
    header.initiator = peer.initiator
    header.memory_key = request.remote_key
    if not starts:
        header.header_data = message_place(0 if packet.fault else packet.size, packet.position)
    if packet.fault:
        header.opcode = _NO_OP if starts else _MSG_ERROR
        header.flags |= _INITIATOR_ERROR
        header.request_length = 0 if starts else request.length
        return header
    header.opcode = packet.opcode
    is_extended = request.opcode == _COMPARE_ATOMIC and packet.opcode == _FETCHING_ATOMIC
    length = request.length if divisible else packet.size
    header.request_length = CSWAP_VALUES_SIZE if is_extended else length
    if packet.is_last and not request.flags & _CHAINED:
        header.flags |= _DELIVERY_COMPLETE
    if request.flags & _IMMEDIATE and (starts if divisible else packet.is_last):
        header.flags |= _HEADER_DATA
        header.header_data = request.compare
    if request.opcode in FORMS:
        header.atomic_opcode = _ATOMIC_OPCODES[request.op]
        header.atomic_datatype = _ATOMIC_DATATYPES[request.datatype]
        if request.context.cswap_by_bits:
            header.semantic_control = _CSWAP_BY_BITS
    return header


def ses_opcode_of(request: Request, payload: int) -> int:
    """Return the SES opcode of a request; ``payload``: most bytes of a packet.

    UET's compare-and-swap extension carries one element of up to 16 bytes, and its atomics have one packet. Vendor
    opcodes do all else, but for FI_ATOMIC_READ: each packet of that is a message of its own, as of a READ.
    """
    if request.opcode != _COMPARE_ATOMIC:
        if request.length > payload and request.op != _ATOMIC_READ and request.opcode in _LONG_ATOMICS:
            return _LONG_ATOMICS[request.opcode]
        return _SES_OPCODES[request.opcode]
    if request.length == _ELEMENT_SIZES[request.datatype] <= _HALF_CSWAP:
        return _FETCHING_ATOMIC
    return _VENDOR_COMPARE
