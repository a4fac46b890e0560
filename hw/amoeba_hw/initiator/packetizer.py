"""Cuts requests into packets."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.wire.uet import ReturnCode

from amoeba_hw.initiator.records import (
    ABORT,
    COMPLETION_ORDER,
    FENCES,
    GENERATION_BITS,
    PACKET,
    REQUEST,
    Obstacle,
    PayloadKind,
)
from amoeba_hw.request_records import is_divisible

__all__ = ["Packetizer"]

_PROGRESS = data.StructLayout({"done": 30, "number": 8})
"""Of a queue's first request: the bytes in its packets, if any was cut, and its number."""


class Packetizer(wiring.Component):
    """Cuts the first requests of the queues into packets, a packet each in turn.

    A queue whose first request may not go on costs the others a turn, once. The rest of a request vanishes when it is
    aborted, or when its context was disabled before its first packet; if the context is disabled later, the request
    ends with one packet that has ``fault``. A request to a failed peer ends with one packet without operands. A NOP,
    which is here for its fences, ends where its first packet would be cut.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    offered, queue, take, request, in_order, stays, pop, fails, obstacle, passes
        To and from the RequestQueues.
    generations : array of GENERATION_BITS
        Of each context.
    abort_peer : out; abort : in
        ABORT of that peer, in the same cycle.
    may_send, all_answered, failed : in, a bit per peer
        Whether a packet may be cut, also for a failed peer; whether no packet cut before is still to be answered;
        whether the PDC has failed. Exact two cycles after each ``cut``.
    ended : COMPLETION_ORDER stream
        NOPs, later than all packets that they waited for were answered.
    packets : PACKET stream
        One every two cycles, the first two cycles after its queue is on offer.
    cut, cut_peer, cut_close : out
        Pulse: a packet for this peer takes its place in the window; whether it is a CLOSE.
    """

    def __init__(self, parameters):
        self._payload = parameters.payload
        self._contexts = parameters.contexts
        self._queues = parameters.peers + parameters.contexts
        peers = parameters.peers
        super().__init__(
            {
                "offered": In(1),
                "queue": In(range(self._queues)),
                "take": Out(1),
                "request": In(REQUEST),
                "in_order": In(1),
                "stays": Out(1),
                "pop": Out(1),
                "fails": Out(1),
                "obstacle": Out(Obstacle),
                "passes": Out(1),
                "generations": In(GENERATION_BITS).array(parameters.contexts),
                "abort_peer": Out(range(peers)),
                "abort": In(ABORT),
                "may_send": In(peers),
                "all_answered": In(peers),
                "failed": In(peers),
                "ended": Out(stream.Signature(COMPLETION_ORDER)),
                "packets": Out(stream.Signature(PACKET)),
                "cut": Out(1),
                "cut_peer": Out(range(peers)),
                "cut_close": Out(1),
            }
        )
        self._chosen = Signal.like(self.queue)
        self._begun = Signal(self._queues)
        """Queues of whose first request a packet was cut."""
        self._current = Signal(_PROGRESS)
        """Of the queue chosen; nothing is done of what has not begun."""
        self._begins = Signal()
        """The request of the queue chosen has not begun."""
        self._following = Signal(_PROGRESS)

    def elaborate(self, platform):
        m = Module()
        goes, vanishes, truncated = self._elaborate_permission(m)
        last = self._elaborate_packet(m, truncated)
        self._elaborate_progress(m)
        with m.If(self.ended.ready):
            m.d.sync += self.ended.valid.eq(0)
        with m.FSM(name="cut"):
            with m.State("CHOOSE"):
                m.d.comb += self.take.eq(self.offered)
                with m.If(self.offered):
                    m.d.sync += self._chosen.eq(self.queue)
                    m.next = "CUT"
            with m.State("CUT"):
                with m.If(~goes):
                    m.d.comb += self.fails.eq(1)
                    m.next = "CHOOSE"
                with m.Elif(vanishes):
                    m.d.comb += self.pop.eq(1)
                    m.next = "CHOOSE"
                with m.Elif(self.request.is_nop), m.If(~self.ended.valid | self.ended.ready):
                    m.d.comb += self.pop.eq(1)
                    m.d.sync += [
                        self.ended.valid.eq(1),
                        self.ended.p.ticket.eq(self.request.ticket),
                        self.ended.p.status.eq(ReturnCode.OK),
                    ]
                    m.next = "CHOOSE"
                with m.Elif(~self.packets.valid | self.packets.ready):
                    m.d.comb += [self.cut.eq(1), self.pop.eq(last), self.stays.eq(~last)]
                    m.next = "CHOOSE"
        return m

    def _elaborate_permission(self, m):
        """Whether the request may go on; whether without a packet; whether with a last one that asks for nothing."""
        request, begins = self.request, self._begins
        peer = self.cut_peer
        context = request.ticket.context[: max(1, (self._contexts - 1).bit_length())]
        stale, aborted, barred, shut, early = (
            Signal(name=name) for name in ("stale", "aborted", "barred", "shut", "early")
        )
        goes, vanishes = Signal(), Signal()
        m.d.comb += [
            self.abort_peer.eq(peer),
            stale.eq(request.ticket.generation != Array(self.generations)[context]),
            aborted.eq(~begins & self.abort.valid & (self.abort.number == self._current.number)),
            barred.eq(begins & (request.fence | request.is_close) & ~self.all_answered.bit_select(peer, 1)),
            shut.eq(~request.is_nop & ~self.may_send.bit_select(peer, 1)),
            early.eq(begins & ~self.in_order),
            # A request that has begun ends with a packet that says so; after an abort, the failed packet has said it.
            vanishes.eq(aborted | (stale & begins)),
            goes.eq(vanishes | ~(barred | shut | early)),
            self.obstacle.eq(Mux(early, Obstacle.ORDER, Mux(barred, Obstacle.FENCE, Obstacle.WINDOW))),
            self.passes.eq((self.cut | self.pop) & begins),
        ]
        return goes, vanishes, stale

    def _elaborate_progress(self, m):
        m.submodules.progress = progress = memory.Memory(shape=_PROGRESS, depth=self._queues, init=[])
        write, read = progress.write_port(), progress.read_port()
        m.d.comb += [
            read.addr.eq(Mux(self.take, self.queue, self._chosen)),
            self._begins.eq(~self._begun.bit_select(self._chosen, 1)),
            self._current.number.eq(read.data.number),
            self._current.done.eq(Mux(self._begins, 0, read.data.done)),
            write.en.eq(self.cut | self.pop),
            write.addr.eq(self._chosen),
            write.data.eq(self._following),
        ]
        with m.If(self.cut | self.pop):
            m.d.sync += self._begun.bit_select(self._chosen, 1).eq(self.stays)

    def _elaborate_packet(self, m, truncated):
        """Make the packet that ``cut`` sends; return whether it is its request's last."""
        request, packet, done = self.request, self.packets.payload, self._current.done
        remaining = Signal(31)
        limit = Signal(14)
        length = Signal(14)
        final = Signal()
        failed = Signal()
        last = Signal()
        m.d.comb += [
            self.cut_peer.eq(request.ticket.peer),
            self.cut_close.eq(request.is_close),
            remaining.eq(request.length - done),
            limit.eq(Mux(request.kind == PayloadKind.VECTORS, self._payload // 2, self._payload)),
            final.eq(remaining <= limit),
            length.eq(Mux(truncated, 0, Mux(final, remaining, limit))),
            failed.eq(self.failed.bit_select(self.cut_peer, 1)),
            last.eq(final | failed | truncated),
        ]
        divisible = is_divisible(request.ses_opcode)
        own = ("kind", "immediate", "length", "remote_address", "result", "local", "compare", *FENCES)
        with m.If(self.packets.ready):
            m.d.sync += self.packets.valid.eq(0)
        with m.If(self.cut):
            m.d.sync += [
                self.packets.valid.eq(1),
                *(getattr(packet, name).eq(getattr(request, name)) for name, _ in REQUEST if name not in own),
                packet.kind.eq(Mux(failed | truncated, PayloadKind.NONE, request.kind)),
                packet.immediate.eq(request.immediate & Mux(divisible, done == 0, final) & ~truncated),
                packet.position.eq(Mux(divisible, done, 0)),
                packet.length.eq(length),
                packet.number.eq(self._current.number),
                packet.last.eq(last),
                packet.fault.eq(truncated),
                packet.remote_address.eq(request.remote_address + Mux(divisible, 0, done)),
                packet.result.eq(request.result + done),
                # Values that are inline fit into the first packet; header data is no address.
                packet.local.eq(request.local + done),
                packet.compare.eq(request.compare + Mux(request.immediate, 0, done)),
            ]
        m.d.comb += [
            self._following.done.eq(done + length),
            self._following.number.eq(self._current.number + ((self.cut & last) | (self.pop & ~self._begins))),
        ]
        return last
