"""The initiator's receiving half: ResponseHandler, ResultWriter, CompletionWriter, interrupts."""

from amoeba_model.descriptors import COMPLETION, CompletionFlags, DescriptorFlags
from amoeba_model.nic.core import Core
from amoeba_model.nic.host import HostMemory
from amoeba_model.nic.tables import Context, Packet, Peer, Request
from amoeba_model.nic.timing import COMPLETION as COMPLETION_COST
from amoeba_model.nic.timing import RESULT
from amoeba_model.registers import Counter
from amoeba_model.trace import Requester, Stage
from amoeba_model.unroll import packer
from amoeba_model.wire.codec import FrameHeader
from amoeba_model.wire.uet import ReturnCode

__all__ = ["CompletionWriter", "ResponseHandler"]

_COMPLETIONS = Counter.COMPLETIONS.value
_DROPPED_RESPONSE = Counter.DROPPED_RESPONSE.value
_ERROR_COMPLETIONS = Counter.ERROR_COMPLETIONS.value
_INTERRUPTS = Counter.INTERRUPTS.value
_RESPONSES_RECEIVED = Counter.RESPONSES_RECEIVED.value
_pack_completion = packer(
    (COMPLETION,),
    [f"completion.{name}" for name in ("context", "length", "descriptor", "opcode", "status", "flags")],
)
_ENTRY_SIZE = COMPLETION.size
_COMPLETION_WRITER = Requester.COMPLETION_WRITER
_RESULT_WRITER = Requester.RESULT_WRITER
_OK = ReturnCode.OK.value
_WANTS_COMPLETION = DescriptorFlags.COMPLETION.value
_PHASE = CompletionFlags.PHASE.value


class CompletionWriter:
    """Writes completion entries and raises interrupts."""

    def __init__(self, core: Core, host: HostMemory) -> None:
        self.interrupts = 0
        """Vectors raised and not yet taken, as a bit mask; a context's vector is its number."""
        self._core = core
        self._host = host

    def complete(self, request: Request, cycle: int) -> None:
        """CompletionWriter: a request is over; write its completion if it wants one or failed."""
        context = request.context
        if not request.is_live():
            return
        context.in_flight -= 1
        if request.status == _OK and not request.flags & _WANTS_COMPLETION:
            return
        core = self._core
        index = context.written
        slot = index & ((1 << context.completion_size) - 1)
        first_lap = not index >> context.completion_size & 1
        entry = _pack_completion(
            request.user_context,
            request.length,
            request.index,
            request.opcode,
            request.status,
            _PHASE if first_lap else 0,
        )
        self._host.write(context.completion_base + slot * _ENTRY_SIZE, entry, _COMPLETION_WRITER)
        context.written = (index + 1) & 0xFFFF
        core.counters[_COMPLETIONS] += 1
        if request.status != _OK:
            core.counters[_ERROR_COMPLETIONS] += 1
        cycle += COMPLETION_COST
        if core.tracing:
            core.trace(cycle, Stage.COMPLETION_WRITTEN, context.number, request.peer, index, request.status)
        if context.armed is not None and _is_at_or_after(index, context.armed):
            self._raise_interrupt(context, cycle)

    def arm(self, context: Context, index: int) -> None:
        """Doorbell: interrupt at completion ``index`` or later, at once if it has been written already."""
        context.armed = index
        if _is_at_or_after(context.written - 1, index):
            self._raise_interrupt(context, self._core.now)

    def _raise_interrupt(self, context: Context, cycle: int) -> None:
        context.armed = None
        self.interrupts |= 1 << context.number
        self._core.counters[_INTERRUPTS] += 1
        if self._core.tracing:
            self._core.trace(cycle, Stage.INTERRUPT, context.number, 0, 0)


class ResponseHandler:
    """Matches answers with outstanding packets, in order, and hands over data and outcome."""

    def __init__(self, core: Core, host: HostMemory, peers: list[Peer], completions: CompletionWriter) -> None:
        self._core = core
        self._host = host
        self._peers = peers
        self._completions = completions

    def handle(self, header: FrameHeader, payload: bytes, cycle: int) -> int | None:
        """ResponseHandler: the number of the context that may go on; None if nothing waits for this answer."""
        core = self._core
        peer = self._peers[header.dpdcid] if header.dpdcid < len(self._peers) else None
        if peer is None or not peer.outstanding or peer.outstanding[0].psn != header.psn or peer.ip != header.ip:
            core.counters[_DROPPED_RESPONSE] += 1
            return None
        packet = peer.outstanding.popleft()
        peer.answered += 1
        peer.target_pdc = header.spdcid
        core.counters[_RESPONSES_RECEIVED] += 1
        request = packet.request
        status = self._outcome(packet, header, payload)
        if status == _OK and payload and request.is_live():
            cycle = self.write_result(packet, header.dpdcid, payload, cycle)
        if request.status == _OK:
            request.status = status
        if packet.is_last:
            self._completions.complete(request, cycle)
        return request.context.number

    @staticmethod
    def _outcome(packet: Packet, header: FrameHeader, payload: bytes) -> int:
        """The packet's part in the status of its request."""
        if packet.fault:
            return ReturnCode.LOCAL_DMA_FAULT.value
        if header.return_code == _OK and len(payload) != packet.expected:
            return ReturnCode.UNCOR.value
        return header.return_code

    def write_result(self, packet: Packet, pdc: int, payload: bytes, cycle: int) -> int:
        """ResultWriter: fetched or read data to host memory; the cycle of its last beat."""
        core = self._core
        self._host.write(packet.request.result + packet.position, payload, _RESULT_WRITER)
        cycle += RESULT + len(payload) // core.beat_bytes
        if core.tracing:
            core.trace(cycle, Stage.RESULT_WRITTEN, packet.request.context.number, pdc, packet.psn)
        return cycle


def _is_at_or_after(index: int, other: int) -> bool:
    """Order of indices that count modulo 2**16."""
    return (index - other) & 0xFFFF < 0x8000
