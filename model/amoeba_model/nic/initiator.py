"""The initiator's sending half: TransmitScheduler, DescriptorFetch, OperandFetch, Packetizer."""

from collections import deque

from amoeba_model.atomic.matrix import COMPARE_OPS
from amoeba_model.descriptors import TX_DESCRIPTOR, DescriptorFlags, DescriptorOpcode
from amoeba_model.nic.capabilities import Capabilities
from amoeba_model.nic.completion import CompletionWriter
from amoeba_model.nic.core import Core
from amoeba_model.nic.frames import Announcement, FrameTransmitter
from amoeba_model.nic.host import HostMemory
from amoeba_model.nic.tables import Context, Packet, Peer, Request
from amoeba_model.nic.timing import DESCRIPTOR_SPACING, HOST_READ, PACKETIZE
from amoeba_model.opcodes import Datatype, Form, Op
from amoeba_model.registers import Counter
from amoeba_model.trace import Requester, Stage
from amoeba_model.unroll import unpacker
from amoeba_model.wire.codec import FrameHeader
from amoeba_model.wire.uet import (
    ATOMIC_DATATYPES,
    ATOMIC_OPCODES,
    CSWAP_VALUES_SIZE,
    RequestOpcode,
    ReturnCode,
    SemanticControl,
    SesFlags,
)

__all__ = ["Initiator"]

_DESCRIPTORS = Counter.DESCRIPTORS.value
_REQUESTS_SENT = Counter.REQUESTS_SENT.value
_DESCRIPTOR_FIELDS = [field.name for field in TX_DESCRIPTOR.fields if not field.name.startswith("reserved")]
"""In this order :class:`Request` takes them, too."""
_unpack_descriptor = unpacker((TX_DESCRIPTOR,), [f"tx_descriptor.{name}" for name in _DESCRIPTOR_FIELDS])

_FORMS = {
    DescriptorOpcode.ATOMIC.value: Form.BASE,
    DescriptorOpcode.FETCH_ATOMIC.value: Form.FETCH,
    DescriptorOpcode.COMPARE_ATOMIC.value: Form.COMPARE,
}
_KNOWN_FLAGS = (DescriptorFlags.COMPLETION | DescriptorFlags.INLINE).value
_INLINE = DescriptorFlags.INLINE.value
_INLINE_SIZE = 8
_LENGTH_LIMIT = 1 << 30
_WHOLE_MESSAGE = (SesFlags.START_OF_MESSAGE | SesFlags.END_OF_MESSAGE).value
_HALF_CSWAP = CSWAP_VALUES_SIZE // 2

# Members of an enumeration, bound once: looking one up costs more than most of what is done with it.
_OK = ReturnCode.OK.value
_FETCHING_ATOMIC = RequestOpcode.FETCHING_ATOMIC.value
_VENDOR_COMPARE = RequestOpcode.AMOEBA_COMPARE_ATOMIC.value
_ATOMIC_READ = Op.FI_ATOMIC_READ
_COMPARE = Form.COMPARE
_DESCRIPTOR_FETCH = Requester.DESCRIPTOR_FETCH
_OPERAND_FETCH = Requester.OPERAND_FETCH
_COMPARE_FETCH = Requester.COMPARE_FETCH
_SEND_STAGE = Stage.REQUEST_SENT
_DESCRIPTOR_SIZE = TX_DESCRIPTOR.size
_NOP = DescriptorOpcode.NOP.value
_WRITE = DescriptorOpcode.WRITE.value
_READ = DescriptorOpcode.READ.value
_RETURNS_DATA = frozenset({_READ, DescriptorOpcode.FETCH_ATOMIC.value, DescriptorOpcode.COMPARE_ATOMIC.value})
_ATOMIC_OPCODES = [ATOMIC_OPCODES[op].value for op in Op]
_ATOMIC_DATATYPES = [ATOMIC_DATATYPES[datatype].value for datatype in Datatype]
_SIZES = [datatype.size for datatype in Datatype]
_SES_OPCODES = {
    _WRITE: RequestOpcode.WRITE.value,
    _READ: RequestOpcode.READ.value,
    DescriptorOpcode.ATOMIC.value: RequestOpcode.ATOMIC.value,
    DescriptorOpcode.FETCH_ATOMIC.value: _FETCHING_ATOMIC,
}


class Initiator:
    """Takes descriptors from the transmit rings and sends their request packets."""

    def __init__(
        self,
        core: Core,
        host: HostMemory,
        capabilities: Capabilities,
        contexts: list[Context],
        peers: list[Peer],
        transmitter: FrameTransmitter,
        completions: CompletionWriter,
    ) -> None:
        self._core = core
        self._host = host
        self._capabilities = capabilities
        self._contexts = contexts
        self._peers = peers
        self._transmitter = transmitter
        self._completions = completions
        self._scheduled: deque[Context] = deque()
        self._fetch_free = 0
        """Cycle at which DescriptorFetch takes the next descriptor."""
        self._packet_ready = 0
        """Cycle at which the last packet was ready: packets never overtake each other."""

    def ring_doorbell(self, context: Context, tail: int) -> None:
        """Doorbell: the producer index of the transmit ring."""
        context.tail = tail
        if self._core.tracing:
            self._core.trace(self._core.now, Stage.DOORBELL, context.number, 0, tail)
        self.schedule(context)

    def consume(self, context: Context, head: int) -> None:
        """Doorbell: the consumer index of the completion ring."""
        context.consumed = head
        self.schedule(context)

    def schedule(self, context: Context) -> None:
        """TransmitScheduler: something changed that may let the context go on."""
        if context not in self._scheduled:
            self._scheduled.append(context)

    def run(self) -> None:
        """Let every scheduled context send what it may, in turn, a packet each."""
        scheduled = self._scheduled
        while scheduled:
            context = scheduled.popleft()
            if context.enabled and self._proceed(context):
                scheduled.append(context)

    def _proceed(self, context: Context) -> bool:
        """Take the context's next descriptor or packet; whether it could."""
        request = context.current
        if request is None:
            if not (context.has_descriptor() and context.has_room()):
                return False
            request = self.fetch_descriptor(context)
            if request is None:
                return True
            status = self.check_descriptor(request)
            if status != _OK or request.opcode == _NOP:
                request.status = status
                self._completions.complete(request, request.ready)
                return True
            context.current = request
        peer = self._peers[request.peer]
        if len(peer.outstanding) >= self._core.parameters.window:
            return False
        if self.send_packet(request, peer):
            context.current = None
        return True

    def fetch_descriptor(self, context: Context) -> Request | None:
        """DescriptorFetch: the next descriptor of the ring; None, and an error completion, if the host refuses."""
        core = self._core
        index = context.head
        context.head = (index + 1) & 0xFFFF
        context.in_flight += 1
        core.counters[_DESCRIPTORS] += 1
        start = max(core.now, self._fetch_free)
        self._fetch_free = start + DESCRIPTOR_SPACING
        ready = start + HOST_READ
        slot = index & ((1 << context.transmit_size) - 1)
        address = context.transmit_base + slot * _DESCRIPTOR_SIZE
        data = self._host.read(address, _DESCRIPTOR_SIZE, _DESCRIPTOR_FETCH)
        if data is None:
            # Nothing of the descriptor is known but its place in the ring.
            request = Request(context, context.epoch, index, ready, *(0,) * len(_DESCRIPTOR_FIELDS))
            request.status = ReturnCode.LOCAL_DMA_FAULT.value
            self._completions.complete(request, ready)
            return None
        request = Request(context, context.epoch, index, ready, *_unpack_descriptor(data, 0))
        if core.tracing:
            core.trace(ready, Stage.DESCRIPTOR, context.number, request.peer, index)
        return request

    def check_descriptor(self, request: Request) -> int:
        """What is wrong with a descriptor before anything is sent, in the architecture's order; else OK."""
        opcode, length = request.opcode, request.length
        form = _FORMS.get(opcode)
        if (
            (form is None and opcode not in (_NOP, _WRITE, _READ))
            or request.flags & ~_KNOWN_FLAGS
            or (request.flags & _INLINE and length > _INLINE_SIZE)
            or (form is not None and not _is_whole_elements(request.datatype, length))
            or length > _LENGTH_LIMIT
        ):
            return ReturnCode.LOCAL_BAD_DESCRIPTOR.value
        if opcode == _NOP:
            return _OK
        if form is not None and not self._capabilities.executes(form, request.op, request.datatype):
            return ReturnCode.AMO_UNSUPPORTED_OP.value
        if request.peer >= len(self._peers):
            return ReturnCode.LOCAL_BAD_PEER.value
        peer = self._peers[request.peer]
        if not peer.valid or peer.context != request.context.number:
            return ReturnCode.LOCAL_BAD_PEER.value
        return _OK

    def send_packet(self, request: Request, peer: Peer) -> bool:
        """Packetizer: send the request's next packet; whether it was the last."""
        core = self._core
        opcode, position = request.opcode, request.position
        form = _FORMS.get(opcode)
        ses_opcode = _compare_opcode(request) if form is _COMPARE else _SES_OPCODES[opcode]
        limit = core.parameters.payload
        if ses_opcode == _VENDOR_COMPARE:
            limit //= 2
        size = min(limit, request.length - position)
        request.position = position + size
        is_last = request.position == request.length
        payload = self.fetch_operands(request, ses_opcode, position, size)
        fault = payload is None
        if payload is None:
            payload = b""
            is_last = True
        psn = (peer.initial_psn + peer.sent) & 0xFFFF_FFFF
        syn = peer.answered == 0
        header = FrameHeader(
            mac=peer.mac,
            ip=peer.ip,
            port=peer.entropy,
            is_request=True,
            psn=psn,
            clear_psn_offset=(peer.answered - peer.sent - 1) & 0xFFFF,
            spdcid=request.peer,
            dpdcid=peer.sent & 0xFFF if syn else peer.target_pdc,
            syn=syn,
            opcode=ses_opcode,
            flags=_WHOLE_MESSAGE,
            message_id=peer.sent & 0xFFFF,
            job_id=peer.job_id,
            pid_on_fep=peer.pid_on_fep,
            resource_index=peer.resource_index,
            buffer_offset=(request.remote_address + position) & 0xFFFF_FFFF_FFFF_FFFF,
            initiator=request.context.number,
            memory_key=request.remote_key,
            request_length=size,
        )
        if fault:
            header.opcode = RequestOpcode.NO_OP.value
            header.flags |= SesFlags.INITIATOR_ERROR.value
            header.request_length = 0
        elif form is not None:
            header.atomic_opcode = _ATOMIC_OPCODES[request.op]
            header.atomic_datatype = _ATOMIC_DATATYPES[request.datatype]
            if request.context.cswap_by_bits:
                header.semantic_control = SemanticControl.AMOEBA_CSWAP_BY_BITS.value
        expected = size if opcode in _RETURNS_DATA and not fault else 0
        peer.outstanding.append(Packet(psn, request, position, expected, is_last, fault))
        peer.sent += 1
        core.counters[_REQUESTS_SENT] += 1
        fetched = max(core.now, request.ready)
        if payload and not request.flags & _INLINE:
            fetched += HOST_READ + len(payload) // core.beat_bytes
        if payload and core.tracing:
            core.trace(fetched, Stage.OPERAND, request.context.number, request.peer, psn)
        self._packet_ready = max(self._packet_ready, fetched + PACKETIZE)
        announcement = Announcement(_SEND_STAGE, request.context.number, request.peer, psn)
        self._transmitter.send(header, payload, self._packet_ready, announcement)
        return is_last

    def fetch_operands(self, request: Request, ses_opcode: int, position: int, size: int) -> bytes | None:
        """OperandFetch: a packet's payload; None if the host refuses any of it."""
        opcode = request.opcode
        if opcode == _READ or (opcode != _WRITE and request.op == _ATOMIC_READ) or not size:
            return b""
        operands = self._operand(request, request.local, position, size, _OPERAND_FETCH)
        if request.op not in COMPARE_OPS or opcode == _WRITE:
            return operands
        compares = self._operand(request, request.compare, position, size, _COMPARE_FETCH)
        if operands is None or compares is None:
            return None
        if ses_opcode == _FETCHING_ATOMIC:
            return compares.ljust(_HALF_CSWAP, b"\0") + operands.ljust(_HALF_CSWAP, b"\0")
        return operands + compares

    def _operand(self, request: Request, source: int, position: int, size: int, requester: Requester) -> bytes | None:
        if request.flags & _INLINE:
            return source.to_bytes(_INLINE_SIZE, "little")[:size]
        return self._host.read(source + position, size, requester)


def _is_whole_elements(datatype: int, length: int) -> bool:
    """A positive multiple of the element size; that of an unknown datatype is 1, for the next check to refuse."""
    return length > 0 and (datatype >= len(_SIZES) or length % _SIZES[datatype] == 0)


def _compare_opcode(request: Request) -> int:
    """UET's compare-and-swap extension carries one element of up to 16 bytes; the vendor opcode all else."""
    if request.length == _SIZES[request.datatype] <= _HALF_CSWAP:
        return _FETCHING_ATOMIC
    return _VENDOR_COMPARE
