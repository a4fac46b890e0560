"""ReceiveFetch: from a context's receive ring to an order for its lists."""

from dataclasses import dataclass

from amoeba_model.descriptors import RX_DESCRIPTOR, ReceiveFlags, ReceiveOpcode
from amoeba_model.nic.core import Core
from amoeba_model.nic.host import HostMemory
from amoeba_model.nic.matching import Receive
from amoeba_model.nic.tables import Context
from amoeba_model.nic.timing import DESCRIPTOR_SPACING, HOST_READ
from amoeba_model.trace import Requester
from amoeba_model.unroll import unpacker
from amoeba_model.wire.uet import ReturnCode

__all__ = ["ReceiveFetch", "ReceiveOrder"]

_KNOWN_OPCODES = frozenset(ReceiveOpcode)
_KNOWN_FLAGS = sum(flag.value for flag in ReceiveFlags)
_TAGGED, _MULTI = ReceiveFlags.TAGGED.value, ReceiveFlags.MULTI.value
_DIRECTED, _ADDRESSED = ReceiveFlags.DIRECTED.value, ReceiveFlags.ADDRESSED.value
_ORDER_FIELDS = (
    "opcode", "flags", "tag", "ignore", "source_ip", "source_context", "target_context", "context", "address",
    "length", "least_space", "counter",
)  # fmt: skip
_unpack_order = unpacker((RX_DESCRIPTOR,), [f"{RX_DESCRIPTOR.name}.{name}" for name in _ORDER_FIELDS])


@dataclass(slots=True, eq=False)
class ReceiveOrder:
    """One receive descriptor."""

    opcode: int
    """ReceiveOpcode, unless ``status`` is not OK."""
    receive: Receive
    """The wanted messages and, for a RECEIVE, the buffer; for a CANCEL only ``context`` has a meaning."""
    status: ReturnCode
    """LOCAL_BAD_DESCRIPTOR or LOCAL_DMA_FAULT if there is nothing to do but to say so."""
    ready: int
    """Cycle at which the descriptor is at hand."""


class ReceiveFetch:
    """Reads the next descriptor of a receive ring."""

    def __init__(self, core: Core, host: HostMemory) -> None:
        self._core = core
        self._host = host
        self._free = 0
        """Cycle at which the next descriptor can be asked for."""

    def fetch(self, context: Context) -> ReceiveOrder:
        """Fetch the next order; if the host refuses the read, only its status has a meaning."""
        index = context.receive_head
        context.receive_head = (index + 1) & 0xFFFF
        start = max(self._core.now, self._free)
        self._free = start + DESCRIPTOR_SPACING
        slot = index & ((1 << context.receive_size) - 1)
        address = context.receive_base + slot * RX_DESCRIPTOR.size
        data = self._host.read(address, RX_DESCRIPTOR.size, Requester.RECEIVE_FETCH, context.number)
        if data is None:
            return ReceiveOrder(0, Receive(False, 0, 0), ReturnCode.LOCAL_DMA_FAULT, start + HOST_READ)
        return _order(data, start + HOST_READ)


def _order(data: bytes, ready: int) -> ReceiveOrder:
    (
        opcode, flags, tag, ignore, source_ip, source_context, target_context, context, address, length, least_space,
        counter,
    ) = _unpack_order(data, 0)  # fmt: skip
    receive = Receive(
        tagged=flags & _TAGGED != 0,
        tag=tag,
        ignore=ignore,
        source=(source_ip, source_context) if flags & _DIRECTED else None,
        target=target_context if flags & _ADDRESSED else None,
        context=context,
        address=address,
        space=length,
        multi=flags & _MULTI != 0,
        least_space=least_space,
        counter=counter,
    )
    known = opcode in _KNOWN_OPCODES and not flags & ~_KNOWN_FLAGS
    status = ReturnCode.OK if known else ReturnCode.LOCAL_BAD_DESCRIPTOR
    return ReceiveOrder(opcode, receive, status, ready)
