"""Cuts requests into packets, in turns of the contexts."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.wire.uet import ReturnCode

from amoeba_hw.initiator.records import (
    ABORT,
    COMPLETION_ORDER,
    FENCES,
    GENERATION_BITS,
    HEAD,
    PACKET,
    REQUEST,
    PayloadKind,
)

__all__ = ["Packetizer"]

_PROGRESS = data.StructLayout({"begun": 1, "done": 30, "number": 8})
"""Of a context's first request: whether a packet of it was cut, the bytes in its packets, and its number."""


class _Permission(wiring.Component):
    """Whether the first request of one context may go on, and how; combinational but for ``hint``."""

    def __init__(self, peers):
        self._peer_bits = (peers - 1).bit_length()
        super().__init__(
            {
                "head": In(HEAD),
                "generation": In(GENERATION_BITS),
                "progress": In(_PROGRESS),
                "abort": In(ABORT),
                "may_send": In(peers),
                "all_answered": In(peers),
                "context_answered": In(1),
                "vanishes": Out(1),  # goes without a packet
                "truncated": Out(1),  # goes with a last packet that asks for nothing
                "goes": Out(1),
                "hint": Out(1),  # may go, as of one cycle ago; 1 where that was not known
            }
        )

    def elaborate(self, platform):
        m = Module()
        head, progress = self.head, self.progress
        peer = head.peer[: self._peer_bits]
        stale = Signal()
        aborted = Signal()
        barred = Signal()
        m.d.comb += [
            stale.eq(head.generation != self.generation),
            aborted.eq(self.abort.valid & (self.abort.number == progress.number)),
            barred.eq(
                ~progress.begun
                & (
                    (head.barrier & ~self.all_answered.bit_select(peer, 1))
                    | (head.barrier_all & ~self.context_answered)
                )
            ),
            # What was begun ends with a packet that says so; after an abort, the packet that failed has said it.
            self.vanishes.eq(aborted | (stale & ~progress.begun)),
            self.truncated.eq(stale),
            self.goes.eq(
                head.known & (self.vanishes | ((head.is_nop | self.may_send.bit_select(peer, 1)) & ~barred))
            ),
        ]
        m.d.sync += self.hint.eq(~head.known | self.goes)
        return m


class Packetizer(wiring.Component):
    """Cuts the first requests of the contexts into packets, a packet each in turn.

    A context whose first request may not go on is passed over: it costs the others nothing. What a request still
    has to send vanishes when it is aborted, or when its context was disabled before its first packet; disabled
    later, it ends with one packet that has ``fault``. A request to a failed peer ends with one packet without
    operands. A NOP, which is here for its fences, ends where its first packet would be cut.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    heads, head_context, request, pop
        To and from the RequestQueues.
    generations : array of GENERATION_BITS
    aborts : array of ABORT
        For each context.
    may_send, all_answered, failed : in, a bit per peer
        Whether a packet may be cut, also for a failed peer; whether no packet cut before is still to be answered;
        whether the PDC has failed. Exact two cycles after each ``cut``.
    context_answered : in, a bit per context
        Whether no packet cut before for any peer of the context is still to be answered; as exact.
    ended : COMPLETION_ORDER stream
        NOPs, later than all packets that they waited for were answered.
    packets : PACKET stream
        One every two cycles, the first two cycles after its request is at the head.
    cut, cut_peer, cut_close : out
        Pulse: a packet for this peer takes its place in the window; whether it is a CLOSE.
    """

    def __init__(self, parameters):
        self._payload = parameters.payload
        self._contexts = contexts = parameters.contexts
        self._peers = peers = parameters.peers
        super().__init__(
            {
                "heads": In(HEAD).array(contexts),
                "head_context": Out(range(contexts)),
                "request": In(REQUEST),
                "pop": Out(1),
                "generations": In(GENERATION_BITS).array(contexts),
                "aborts": In(ABORT).array(contexts),
                "may_send": In(peers),
                "all_answered": In(peers),
                "failed": In(peers),
                "context_answered": In(contexts),
                "ended": Out(stream.Signature(COMPLETION_ORDER)),
                "packets": Out(stream.Signature(PACKET)),
                "cut": Out(1),
                "cut_peer": Out(range(peers)),
                "cut_close": Out(1),
            }
        )
        self._progress = Signal(data.ArrayLayout(_PROGRESS, contexts))
        self._chosen = Signal(range(contexts))
        self._served = Signal(range(contexts), init=contexts - 1)
        self._current = Signal(_PROGRESS)
        """Of the context chosen."""
        self._following = Signal(_PROGRESS)

    def elaborate(self, platform):
        m = Module()
        permissions = [_Permission(self._peers) for _ in range(self._contexts)]
        for index, permission in enumerate(permissions):
            m.submodules[f"permission{index}"] = permission
            m.d.comb += [
                permission.head.eq(self.heads[index]),
                permission.generation.eq(self.generations[index]),
                permission.progress.eq(self._progress[index]),
                permission.abort.eq(self.aborts[index]),
                permission.may_send.eq(self.may_send),
                permission.all_answered.eq(self.all_answered),
                permission.context_answered.eq(self.context_answered[index]),
            ]
        goes = Array(permission.goes for permission in permissions)[self._chosen]
        vanishes = Array(permission.vanishes for permission in permissions)[self._chosen]
        truncated = Array(permission.truncated for permission in permissions)[self._chosen]
        is_nop = Array(head.is_nop for head in self.heads)[self._chosen]
        hints = Signal(self._contexts)
        for index, permission in enumerate(permissions):
            m.d.comb += hints[index].eq(self.heads[index].present & permission.hint)
        following = self._elaborate_turn(m, hints)
        last = self._elaborate_packet(m, truncated)
        with m.If(self.ended.ready):
            m.d.sync += self.ended.valid.eq(0)
        with m.FSM(name="cut"):
            with m.State("CHOOSE"):
                m.d.comb += self.head_context.eq(following)
                with m.If(hints.any()):
                    m.d.sync += [self._chosen.eq(following), self._current.eq(self._progress[following])]
                    m.next = "CUT"
            with m.State("CUT"):
                # A hint may be wrong by now; the turn is lost to nobody, since only those served move it on.
                m.d.comb += self.head_context.eq(self._chosen)
                with m.If(~goes):
                    m.next = "CHOOSE"
                with m.Elif(vanishes):
                    m.d.comb += self.pop.eq(1)
                    m.next = "CHOOSE"
                with m.Elif(is_nop), m.If(~self.ended.valid | self.ended.ready):
                    m.d.comb += self.pop.eq(1)
                    m.d.sync += [
                        self.ended.valid.eq(1),
                        self.ended.p.ticket.eq(self.request.ticket),
                        self.ended.p.status.eq(ReturnCode.OK),
                    ]
                    m.next = "CHOOSE"
                with m.Elif(~self.packets.valid | self.packets.ready):
                    m.d.comb += [self.cut.eq(1), self.pop.eq(last)]
                    m.next = "CHOOSE"
        with m.If(self.cut | self.pop):
            m.d.sync += [self._progress[self._chosen].eq(self._following), self._served.eq(self._chosen)]
        return m

    def _elaborate_turn(self, m, hints):
        """The next context in turn that is expected to go on."""
        following = Signal(range(self._contexts))
        with m.Switch(self._served):
            for served in range(self._contexts):
                with m.Case(served):
                    # The last assignment wins: the nearest context after the one served before.
                    for distance in range(self._contexts, 0, -1):
                        candidate = (served + distance) % self._contexts
                        with m.If(hints[candidate]):
                            m.d.comb += following.eq(candidate)
        return following

    def _elaborate_packet(self, m, truncated):
        """Makes the packet that ``cut`` sends; returns whether it is its request's last."""
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
        own = ("kind", "immediate", "length", "remote_address", "result", "local", "compare", *FENCES)
        with m.If(self.packets.ready):
            m.d.sync += self.packets.valid.eq(0)
        with m.If(self.cut):
            m.d.sync += [
                self.packets.valid.eq(1),
                *(getattr(packet, name).eq(getattr(request, name)) for name, _ in REQUEST if name not in own),
                packet.kind.eq(Mux(failed | truncated, PayloadKind.NONE, request.kind)),
                packet.immediate.eq(request.immediate & final & ~truncated),
                packet.length.eq(length),
                packet.number.eq(self._current.number),
                packet.last.eq(last),
                packet.fault.eq(truncated),
                packet.remote_address.eq(request.remote_address + done),
                packet.result.eq(request.result + done),
                # Values that are inline fit into the first packet; header data is no address.
                packet.local.eq(request.local + done),
                packet.compare.eq(request.compare + Mux(request.immediate, 0, done)),
            ]
        m.d.comb += self._following.eq(self._current)
        with m.If(last | ~self.cut):
            m.d.comb += [
                self._following.begun.eq(0),
                self._following.done.eq(0),
                self._following.number.eq(self._current.number + (self.cut | self._current.begun)),
            ]
        with m.Else():
            m.d.comb += [self._following.begun.eq(1), self._following.done.eq(done + length)]
        return last
