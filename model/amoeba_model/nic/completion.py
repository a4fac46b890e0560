"""ResultOrder and CompletionWriter: what an answer, or the lack of one, means to the application."""

from amoeba_model.descriptors import COMPLETION, DescriptorFlags
from amoeba_model.nic.core import Core
from amoeba_model.nic.descriptors import FORMS
from amoeba_model.nic.event_counters import EventCounters
from amoeba_model.nic.host import HostMemory
from amoeba_model.nic.peers import Packet, Peer
from amoeba_model.nic.rings import Interrupts, RingWriter
from amoeba_model.nic.tables import Context, Request
from amoeba_model.nic.timing import COMPLETION as COMPLETION_COST
from amoeba_model.nic.timing import RESULT
from amoeba_model.registers import Counter
from amoeba_model.trace import Requester, Stage
from amoeba_model.unroll import packer
from amoeba_model.wire.byte_order import NUMBER_SIZES, swap_bytes
from amoeba_model.wire.uet import ReturnCode

__all__ = ["CompletionWriter", "ResultOrder"]

_ERROR_COMPLETIONS = Counter.ERROR_COMPLETIONS.value
_pack_completion = packer(
    (COMPLETION,),
    [f"completion.{name}" for name in ("context", "length", "descriptor", "opcode", "status", "flags")],
)
_RESULT_WRITER = Requester.RESULT_WRITER
_OK = ReturnCode.OK.value
_UNCOR = ReturnCode.UNCOR.value
_LOCAL_DMA_FAULT = ReturnCode.LOCAL_DMA_FAULT.value
_WANTS_COMPLETION = DescriptorFlags.COMPLETION.value
_CHAINED = DescriptorFlags.CHAINED.value


class CompletionWriter:
    """Writes completion entries, and lets requests that complete be counted."""

    def __init__(self, core: Core, host: HostMemory, interrupts: Interrupts, event_counters: EventCounters) -> None:
        self._core = core
        self._event_counters = event_counters
        self._writer = RingWriter(
            core,
            host,
            interrupts,
            COMPLETION,
            Requester.COMPLETION_WRITER,
            Stage.COMPLETION_WRITTEN,
            Counter.COMPLETIONS,
        )

    def complete(self, request: Request, cycle: int) -> None:
        """End a request: write its completion if it wants one or failed, unless its context is gone."""
        if not request.is_live():
            return
        context = request.context
        context.in_flight -= 1
        status, flags = request.status, request.flags
        if status == _OK and flags & _CHAINED:
            return
        if status != _OK or flags & _WANTS_COMPLETION:
            self._write(request, cycle)
        if request.counter:
            self._event_counters.advance(request.counter, status == _OK, context.number)

    def _write(self, request: Request, cycle: int) -> None:
        context, status = request.context, request.status
        ring = context.completions
        entry = _pack_completion(
            request.user_context, request.length, request.index, request.opcode, status, ring.phase()
        )
        if status != _OK:
            self._core.counters[_ERROR_COMPLETIONS] += 1
        self._writer.write(ring, context.number, entry, request.peer, status, cycle + COMPLETION_COST)

    def hand_on(self, request: Request) -> None:
        """End a piece that the next one continues. Its status is the chain's, so that no completion is written."""
        if request.is_live():
            request.context.in_flight -= 1

    def arm(self, context: Context, index: int) -> None:
        """Doorbell."""
        self._writer.arm(context.completions, context.number, index)


class ResultOrder:
    """Takes the outcomes of a PDC's packets in their order: first their data, then their request's completion."""

    def __init__(self, core: Core, host: HostMemory, completions: CompletionWriter) -> None:
        self._core = core
        self._host = host
        self._completions = completions

    def note(self, pdc: int, packet: Packet, code: int, payload: bytes, cycle: int) -> int:
        """``packet`` of the PDC was answered: its data goes to its place; the cycle at which it is there."""
        if packet.fault:
            packet.status = _LOCAL_DMA_FAULT
        elif code == _OK and len(payload) != packet.expected:
            packet.status = _UNCOR
        else:
            packet.status = code
        if packet.status == _OK and payload and packet.request.is_live():
            return self._write_result(pdc, packet, payload, cycle)
        return cycle

    def conclude(self, peer: Peer, packet: Packet, cycle: int) -> None:
        """Note what the answer to ``packet``, the oldest of ``peer``, means for its request."""
        request = packet.request
        if request.status == _OK:
            assert packet.status is not None
            request.status = packet.status
        if packet.is_last:
            self._end(peer, request, cycle)

    def _write_result(self, pdc: int, packet: Packet, payload: bytes, cycle: int) -> int:
        """Write fetched or read data to host memory, and return the cycle of its last beat."""
        core = self._core
        request = packet.request
        if request.opcode in FORMS:
            payload = swap_bytes(payload, NUMBER_SIZES[request.datatype])
        self._host.write(request.result + packet.position, payload, _RESULT_WRITER, request.context.number)
        cycle += RESULT + len(payload) // core.beat_bytes
        if core.tracing:
            core.trace(cycle, Stage.RESULT_WRITTEN, request.context.number, pdc, packet.psn)
        return cycle

    def _end(self, peer: Peer, request: Request, cycle: int) -> None:
        """Complete a request whose last packet is answered, or hand its status on in its chain."""
        before = peer.chained
        if before is not None and request.continues(before) and before.status != _OK:
            request.status = before.status
        if request.flags & _CHAINED:
            peer.chained = request
            self._completions.hand_on(request)
        else:
            peer.chained = None
            self._completions.complete(request, cycle)
