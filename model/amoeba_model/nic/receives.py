"""ReceiveFetch: from a context's receive ring to an order for its lists."""

from dataclasses import dataclass

from amoeba_model.descriptors import RX_DESCRIPTOR, ReceiveFlags, ReceiveOpcode
from amoeba_model.nic.core import Core
from amoeba_model.nic.host import HostMemory
from amoeba_model.nic.matching import Receive
from amoeba_model.nic.tables import Context
from amoeba_model.nic.timing import DESCRIPTOR_SPACING, HOST_READ
from amoeba_model.trace import Requester
from amoeba_model.wire.uet import ReturnCode

__all__ = ["ReceiveFetch", "ReceiveOrder"]

_KNOWN_OPCODES = frozenset(ReceiveOpcode)
_KNOWN_FLAGS = sum(ReceiveFlags)


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
        return _order(RX_DESCRIPTOR.unpack(data), start + HOST_READ)


def _order(fields: dict[str, int], ready: int) -> ReceiveOrder:
    flags = fields["flags"]
    directed, addressed = flags & ReceiveFlags.DIRECTED, flags & ReceiveFlags.ADDRESSED
    receive = Receive(
        tagged=bool(flags & ReceiveFlags.TAGGED),
        tag=fields["tag"],
        ignore=fields["ignore"],
        source=(fields["source_ip"], fields["source_context"]) if directed else None,
        target=fields["target_context"] if addressed else None,
        context=fields["context"],
        address=fields["address"],
        space=fields["length"],
        multi=bool(flags & ReceiveFlags.MULTI),
        least_space=fields["least_space"],
        counter=fields["counter"],
    )
    known = fields["opcode"] in _KNOWN_OPCODES and not flags & ~_KNOWN_FLAGS
    status = ReturnCode.OK if known else ReturnCode.LOCAL_BAD_DESCRIPTOR
    return ReceiveOrder(fields["opcode"], receive, status, ready)
