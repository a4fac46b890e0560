"""The initiator: TransmitScheduler and RequestQueues, between the stages of a request."""

from collections import deque

from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.nic.capabilities import Capabilities
from amoeba_model.nic.completion import CompletionWriter, ResultOrder
from amoeba_model.nic.core import Core
from amoeba_model.nic.descriptors import DescriptorCheck, DescriptorFetch
from amoeba_model.nic.event_counters import EventCounters
from amoeba_model.nic.frames import FrameTransmitter
from amoeba_model.nic.host import HostMemory
from amoeba_model.nic.packets import OperandStage, Packetizer, PacketNumberer
from amoeba_model.nic.peers import Peer
from amoeba_model.nic.responses import ResponseHandler
from amoeba_model.nic.retransmitter import Retransmitter
from amoeba_model.nic.returns import ReturnOrder
from amoeba_model.nic.rings import Interrupts
from amoeba_model.nic.tables import Context, Request
from amoeba_model.trace import Stage
from amoeba_model.wire.codec import FrameHeader

__all__ = ["Initiator"]

_CLOSE = DescriptorOpcode.CLOSE.value
_NOP = DescriptorOpcode.NOP.value
_FENCE = DescriptorFlags.FENCE.value


class Initiator:
    """Takes descriptors from the transmit rings, sends their packets, and completes them when they are answered."""

    def __init__(
        self,
        core: Core,
        host: HostMemory,
        capabilities: Capabilities,
        contexts: list[Context],
        peers: list[Peer],
        transmitter: FrameTransmitter,
        interrupts: Interrupts,
        event_counters: EventCounters,
    ) -> None:
        self.completions = CompletionWriter(core, host, interrupts, event_counters)
        results = ResultOrder(core, host, self.completions)
        self._core = core
        self._contexts = contexts
        self._peers = peers
        self._fetch = DescriptorFetch(core, host)
        self._check = DescriptorCheck(core.parameters, capabilities, peers)
        self._packetizer = Packetizer(core)
        self._numberer = PacketNumberer(core, OperandStage(host), transmitter)
        self.retransmitter = Retransmitter(core, peers, self._numberer, results)
        self._responses = ResponseHandler(
            core, peers, results, self.retransmitter, ReturnOrder(core, transmitter)
        )
        self._window = core.parameters.window
        self._window_after_loss = core.parameters.window_after_loss
        self._scheduled: deque[Context] = deque()

    def ring_doorbell(self, context: Context, tail: int) -> None:
        """Doorbell: the producer index of the transmit ring."""
        context.tail = tail
        if self._core.tracing:
            self._core.trace(self._core.now, Stage.DOORBELL, context.number, 0, tail)
        self._schedule(context)

    def consume(self, context: Context, head: int) -> None:
        """Doorbell: the consumer index of the completion ring."""
        context.completions.consumed = head
        self._schedule(context)

    def open_peer(self, index: int, peer: Peer) -> None:
        """Register: store an entry. The unanswered packets of the PDC before it are forgotten."""
        before, self._peers[index] = self._peers[index], peer
        for number in (before.context, peer.context):
            if number < len(self._contexts):
                self._schedule(self._contexts[number])

    def fail_peer(self, value: int) -> None:
        """Register: give a PDC up now."""
        index = value & 0xFFFF
        if index < len(self._peers):
            peer = self._peers[index]
            if not peer.failed:
                self.retransmitter.fail(index, peer)
            if peer.context < len(self._contexts):
                self._schedule(self._contexts[peer.context])

    def close_requests(self, word: int) -> int:
        """Register: a bit for each of 32 entries whose peer asks for a CLOSE."""
        peers = self._peers[32 * word : 32 * word + 32]
        return sum(1 << bit for bit, peer in enumerate(peers) if peer.close_requested and not peer.failed)

    def receive(self, header: FrameHeader, payload: bytes, cycle: int) -> None:
        """Handle an acknowledgement, a NACK, or a packet in the return direction."""
        peer = self._responses.handle(header, payload, cycle)
        if peer is not None:
            context = self._contexts[peer.context]
            if context.requests or context.tail != context.head:
                self._schedule(context)
            if self._scheduled:
                self.run()

    def expire(self) -> None:
        """Do what the timers ask for by now."""
        for peer in self.retransmitter.expire():
            self._schedule(self._contexts[peer.context])
        self.run()

    @property
    def has_work(self) -> bool:
        """Whether :meth:`run` may find something to do."""
        return any(context.requests or context.tail != context.head for context in self._scheduled)

    def run(self) -> None:
        """Let every scheduled context send what it may, in turn, a packet each."""
        scheduled = self._scheduled
        while scheduled:
            context = scheduled.popleft()
            if not context.enabled:
                continue
            # A descriptor is taken also when the request before it may not go on.
            took = context.may_take_descriptor()
            if took:
                self._take_descriptor(context)
            if (context.requests and self._send_packet(context)) or took:
                scheduled.append(context)

    def _schedule(self, context: Context) -> None:
        """TransmitScheduler: something changed that may let the context go on."""
        if context not in self._scheduled:
            self._scheduled.append(context)

    def _take_descriptor(self, context: Context) -> None:
        """Take the context's next descriptor into its queue, or complete it."""
        request = self._fetch.fetch(context)
        if self._check.check(request):
            context.requests.push(request)
        else:
            self.completions.complete(request, request.ready)

    def _send_packet(self, context: Context) -> bool:
        """Send the next packet of the first queue in turn of which one may leave; whether there was one."""
        queues = context.requests
        if queues.is_fenced() and not self._has_unanswered(context):
            queues.release()
        turns = queues.turns
        for _ in range(len(turns)):
            request = turns[0][0]
            turns.rotate(-1)
            if self._may_go_on(request):
                if self._go_on(request):
                    queues.leave()
                return True
        return False

    def _may_go_on(self, request: Request) -> bool:
        """Whether the first request of its queue may send its next packet, or end if it has none."""
        peer = None
        if request.flags & _FENCE and not request.begun:
            peer = self._peers[request.peer]
            if peer.outstanding:
                return False
        if request.opcode == _NOP:
            return True
        if peer is None:
            peer = self._peers[request.peer]
        return peer.may_send(self._window, self._window_after_loss) and not (
            request.opcode == _CLOSE and peer.outstanding
        )

    def _go_on(self, request: Request) -> bool:
        """Send the request's next packet; whether it is the last. A NOP, which has none, is over."""
        if request.opcode == _NOP:
            self.completions.complete(request, max(self._core.now, request.ready))
            return True
        peer = self._peers[request.peer]
        packet = self._packetizer.cut(request, peer)
        if peer.failed:
            self.retransmitter.flush(request.peer, peer)
        else:
            self.retransmitter.sent(peer, self._numberer.send(request.peer, peer, packet))
        return packet.is_last

    def _has_unanswered(self, context: Context) -> bool:
        """Whether packets to any peer of the context are unanswered."""
        return any(peer.outstanding and peer.context == context.number for peer in self._peers)
