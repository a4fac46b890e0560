"""DescriptorFetch and DescriptorCheck: from the transmit ring to a request that may be sent."""

from amoeba_model.descriptors import RENDEZVOUS, TX_DESCRIPTOR, DescriptorFlags, DescriptorOpcode
from amoeba_model.nic.capabilities import Capabilities
from amoeba_model.nic.core import Core
from amoeba_model.nic.host import HostMemory
from amoeba_model.nic.peers import Peer
from amoeba_model.nic.tables import Context, Request
from amoeba_model.nic.timing import DESCRIPTOR_SPACING, HOST_READ
from amoeba_model.opcodes import Datatype, Form
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import Counter
from amoeba_model.trace import Requester, Stage
from amoeba_model.unroll import unpacker
from amoeba_model.wire.uet import ReturnCode

__all__ = ["FORMS", "DescriptorCheck", "DescriptorFetch"]

FORMS = {
    DescriptorOpcode.ATOMIC.value: Form.BASE,
    DescriptorOpcode.FETCH_ATOMIC.value: Form.FETCH,
    DescriptorOpcode.COMPARE_ATOMIC.value: Form.COMPARE,
    DescriptorOpcode.TAGGED_ATOMIC.value: Form.BASE,
    DescriptorOpcode.TAGGED_FETCH_ATOMIC.value: Form.FETCH,
}
"""The form of an atomic, by the descriptor's opcode; other opcodes have none."""

_DESCRIPTORS = Counter.DESCRIPTORS.value
_FIELDS = [field.name for field in TX_DESCRIPTOR.fields if not field.name.startswith("reserved")]
"""In this order :class:`Request` takes them, too."""
_unpack_descriptor = unpacker((TX_DESCRIPTOR,), [f"tx_descriptor.{name}" for name in _FIELDS])
_SIZE = TX_DESCRIPTOR.size
_DESCRIPTOR_FETCH = Requester.DESCRIPTOR_FETCH
_KNOWN_OPCODES = frozenset(opcode.value for opcode in DescriptorOpcode)
_KNOWN_FLAGS = sum(DescriptorFlags)
_IMMEDIATE = DescriptorFlags.IMMEDIATE.value
_INLINE = DescriptorFlags.INLINE.value
_INLINE_SIZE = 8
_LENGTH_LIMIT = 1 << 30
_FENCE = DescriptorFlags.FENCE.value
_FENCES = (DescriptorFlags.FENCE | DescriptorFlags.FENCE_ALL).value
_NOP = DescriptorOpcode.NOP.value
_PING = DescriptorOpcode.PING.value
_COMPARE_ATOMIC = DescriptorOpcode.COMPARE_ATOMIC.value
_ONE_PACKET = frozenset({DescriptorOpcode.TAGGED_ATOMIC.value, DescriptorOpcode.TAGGED_FETCH_ATOMIC.value})
_RENDEZVOUS = frozenset({DescriptorOpcode.RENDEZVOUS_SEND.value, DescriptorOpcode.RENDEZVOUS_TAGGED_SEND.value})
_RENDEZVOUS_SIZE = RENDEZVOUS.size
_OK = ReturnCode.OK.value
_ELEMENT_SIZES = [datatype.size for datatype in Datatype]


class DescriptorFetch:
    """Reads the next descriptor of a ring."""

    def __init__(self, core: Core, host: HostMemory) -> None:
        self._core = core
        self._host = host
        self._free = 0
        """Cycle at which the next descriptor can be asked for."""

    def fetch(self, context: Context) -> Request:
        """Fetch the next request, which is in flight from now on. If the host refuses, its status is not OK."""
        core = self._core
        index = context.head
        context.head = (index + 1) & 0xFFFF
        context.in_flight += 1
        core.counters[_DESCRIPTORS] += 1
        start = max(core.now, self._free)
        self._free = start + DESCRIPTOR_SPACING
        ready = start + HOST_READ
        slot = index & ((1 << context.transmit_size) - 1)
        data = self._host.read(context.transmit_base + slot * _SIZE, _SIZE, _DESCRIPTOR_FETCH, context.number)
        if data is None:
            # Nothing of the descriptor is known but its place in the ring.
            request = Request(context, context.epoch, index, ready, *(0,) * len(_FIELDS))
            request.status = ReturnCode.LOCAL_DMA_FAULT.value
            return request
        request = Request(context, context.epoch, index, ready, *_unpack_descriptor(data, 0))
        if core.tracing:
            core.trace(ready, Stage.DESCRIPTOR, context.number, request.peer, index)
        return request


class DescriptorCheck:
    """Finds what is wrong with a descriptor before anything is sent."""

    def __init__(self, parameters: NicParameters, capabilities: Capabilities, peers: list[Peer]) -> None:
        self._payload = parameters.payload
        self._capabilities = capabilities
        self._peers = peers

    def check(self, request: Request) -> bool:
        """Whether the request is to wait for its turn; else it is over, with its status."""
        if request.status == _OK:
            request.status = self._status(request)
        return request.status == _OK and (request.opcode != _NOP or bool(request.flags & _FENCES))

    def _status(self, request: Request) -> int:
        """Find the first error of a request, in the order of hw/amoeba_hw/initiator/README.md; else OK."""
        opcode, length = request.opcode, request.length
        form = FORMS.get(opcode)
        if (
            opcode not in _KNOWN_OPCODES
            or request.flags & ~_KNOWN_FLAGS
            or (request.flags & _INLINE and length > _INLINE_SIZE)
            or (request.flags & _IMMEDIATE and opcode in (_COMPARE_ATOMIC, _PING))
            or (form is not None and not _is_whole_elements(request.datatype, length))
            or length > _LENGTH_LIMIT
            or (opcode in _ONE_PACKET and length > self._payload)
            or (opcode in _RENDEZVOUS and length != _RENDEZVOUS_SIZE)
            or (opcode == _PING and length != 0)
        ):
            return ReturnCode.LOCAL_BAD_DESCRIPTOR.value
        if opcode == _NOP and not request.flags & _FENCE:
            return _OK
        if form is not None and not self._capabilities.executes(form, request.op, request.datatype):
            return ReturnCode.AMO_UNSUPPORTED_OP.value
        if request.peer >= len(self._peers):
            return ReturnCode.LOCAL_BAD_PEER.value
        peer = self._peers[request.peer]
        if not peer.valid or peer.context != request.context.number:
            return ReturnCode.LOCAL_BAD_PEER.value
        return _OK


def _is_whole_elements(datatype: int, length: int) -> bool:
    """Check for a positive multiple of the element size: 1 for unknown datatypes, which the next check refuses."""
    return length > 0 and (datatype >= len(_ELEMENT_SIZES) or length % _ELEMENT_SIZES[datatype] == 0)
