"""Order and acknowledgements of a target's own packets: data of READs, and CLOSE_REQUESTs; and CLEARs."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.trace import NO_CONTEXT
from amoeba_model.wire.uet import NackCode, ResponseOpcode, ReturnCode

from amoeba_hw.initiator.peer_table import ANSWERED
from amoeba_hw.interfaces import FRAME_HEADER
from amoeba_hw.stream import Queue

__all__ = ["ReturnOrder"]

_ECHOED = ("mac", "ip", "port", "retx", "marked", "message_id", "job_id", "modified_length")
"""Fields of a packet that its answer repeats."""
_ACKNOWLEDGEMENT = data.StructLayout(
    {
        **{name: FRAME_HEADER[name].shape for name in _ECHOED},
        "refuses": 1,
        "clears": 1,
        "bare": 1,  # without a response
        "psn": 32,
        "cack_psn": 32,
        "spdcid": 16,
        "dpdcid": 16,
    }
)
PLACES = 16
"""Acknowledgements and CLEARs that may wait for the link."""


class ReturnOrder(wiring.Component):
    """Knows of each PDC which psn comes next in the return direction, and answers the packets that come.

    ::

        cycle       0         1         2         3
        packet    look up | name    | judge   | verdict

    Parameters
    ----------
    peers, window : int

    Members
    -------
    header : in
        The packet's, from ``name`` until it is ``taken`` or ``dropped``.
    look_up : in
        The PDC to be in hand from the next cycle on.
    peer : in
        The PDC in hand.
    name, judge : in
        Pulses, one cycle and two cycles after ``look_up``.
    state : in
        With ``name``: of the PDC in hand.
    named : out
        The packet whose data it is, from ``judge`` on.
    due : out
        The verdict: the packet comes next, and there is a place for its acknowledgement.
    whole : out
        With the verdict: the packet has all data of an answer as long as it.
    taken : in
        Pulse: the packet, which was due, answers its READ, or is a CLOSE_REQUEST.
    dropped, waits : in
        Pulse: the packet does not; whether the PDC has unanswered packets. One that was taken before is acknowledged
        again; one that comes early leads to a NACK, one for each gap.
    clears, clear_psn, clear_pdc : in
        Pulse: the sender of ``header``, which is no packet of the return direction, is to hear that it need not keep
        the answers of its PDC ``clear_pdc`` up to ``clear_psn``.
    forget : in
        Pulse: the PDC in hand begins anew.
    opened, opened_peer : in
        Pulse: a PDC is a new one.
    close_requests : out, a bit per peer
        The target has asked for a CLOSE since the PDC began.
    acknowledgements : FRAME_HEADER stream
        At most :data:`PLACES` wait; what finds no place is left out.
    """

    def __init__(self, peers, window):
        self._peers, self._window = peers, window
        index = range(peers)
        super().__init__(
            {
                "header": In(FRAME_HEADER),
                "look_up": In(index),
                "peer": In(index),
                "name": In(1),
                "judge": In(1),
                "state": In(ANSWERED),
                "named": Out(32),
                "due": Out(1),
                "whole": Out(1),
                "taken": In(1),
                "dropped": In(1),
                "waits": In(1),
                "clears": In(1),
                "clear_psn": In(32),
                "clear_pdc": In(16),
                "forget": In(1),
                "opened": In(1),
                "opened_peer": In(index),
                "close_requests": Out(peers),
                "acknowledgements": Out(stream.Signature(FRAME_HEADER)),
            }
        )
        self._next = Signal(32)
        """The psn that comes next."""
        self._taken = Signal(32)
        """Packets taken since the PDC began."""
        self._is_own = Signal()
        """The packet is of the target's PDC, as far as that is known."""
        self._before = Signal()
        self._early = Signal()

    def elaborate(self, platform):
        m = Module()
        m.submodules.acknowledgements = queue = Queue(_ACKNOWLEDGEMENT, PLACES)
        self._elaborate_psns(m)
        ahead, behind = Signal(32), Signal(32)
        m.d.comb += [ahead.eq(self.header.psn - self._next), behind.eq(self._next - self.header.psn)]
        with m.If(self.judge):
            m.d.sync += [
                self.due.eq((ahead == 0) & self._is_own & queue.i.ready),
                self._before.eq((ahead != 0) & (behind <= self._window) & (behind <= self._taken) & self._is_own),
                self.whole.eq(
                    (self.header.buffer_offset[:32] == 0)
                    & (self.header.modified_length == self.header.payload_length)
                ),
                self._early.eq((ahead != 0) & (ahead < self._window) & self._is_own),
            ]
        self._elaborate_answer(m, queue)
        self._elaborate_output(m, queue.o)
        return m

    def _elaborate_psns(self, m):
        """Look up the psn that comes next, and advance it."""
        m.submodules.psns = psns = memory.Memory(shape=32, depth=self._peers, init=[])
        read, write = psns.read_port(), psns.write_port()
        # Without a valid psn nothing has been taken since the PDC began.
        valid = Signal(self._peers)
        expected = Mux(valid.bit_select(self.peer, 1), read.data, self.state.start_psn)
        message = self.state.first_message + self.header.message_id
        m.d.comb += [
            read.addr.eq(self.look_up),
            write.addr.eq(self.peer),
            write.data.eq(self.header.psn + 1),
            write.en.eq(self.taken),
        ]
        with m.If(self.name):
            m.d.sync += [
                self._next.eq(expected),
                self._taken.eq(expected - self.state.start_psn),
                self._is_own.eq(~self.state.established | (self.header.spdcid == self.state.dpdcid)),
                self.named.eq(self.state.oldest_psn + (message - self.state.oldest_psn)[:16]),
            ]
        gone = self._of(self.forget, self.peer) | self._of(self.opened, self.opened_peer)
        asked = self._of(self.taken & self.header.is_control, self.peer)
        m.d.sync += [
            valid.eq((valid & ~gone) | self._of(self.taken, self.peer)),
            self.close_requests.eq((self.close_requests & ~gone) | asked),
        ]

    def _elaborate_answer(self, m, queue):
        """Acknowledge or refuse the packet in hand, or answer it by a CLEAR."""
        # A gap that a NACK was sent for.
        refused = Signal(self._peers)
        refuses, answer = Signal(), queue.i.p
        m.d.comb += [
            refuses.eq(self.dropped & self._early & self.waits & ~refused.bit_select(self.peer, 1)),
            queue.i.valid.eq(self.taken | refuses | (self.dropped & self._before) | self.clears),
            *(answer[name].eq(self.header[name]) for name in _ECHOED),
            answer.refuses.eq(refuses),
            answer.clears.eq(self.clears),
            answer.bare.eq(self.header.is_control),
            answer.psn.eq(Mux(self.clears, self.clear_psn, Mux(refuses, self._next, self.header.psn))),
            answer.cack_psn.eq(Mux(self.taken, self.header.psn, self._next - 1)),
            answer.spdcid.eq(self.peer),
            answer.dpdcid.eq(Mux(self.clears, self.clear_pdc, self.header.spdcid)),
        ]
        gone = self._of(self.taken | self.forget, self.peer) | self._of(self.opened, self.opened_peer)
        m.d.sync += refused.eq((refused & ~gone) | self._of(refuses & queue.i.ready, self.peer))

    def _elaborate_output(self, m, source):
        target, p = self.acknowledgements, source.p
        acknowledges = ~p.refuses & ~p.clears
        m.d.comb += [
            target.valid.eq(source.valid),
            source.ready.eq(target.ready),
            *(target.p[name].eq(p[name]) for name in ("mac", "ip", "port", "clears")),
            *(target.p[name].eq(p[name] & ~p.clears) for name in ("retx", "marked")),
            *(target.p[name].eq(p[name]) for name in ("psn", "spdcid", "dpdcid")),
            target.p.returns.eq(~p.clears),
            target.p.is_request.eq(p.clears),
            target.p.initiator.eq(Mux(p.clears, NO_CONTEXT, 0)),
            target.p.is_control.eq(p.refuses | p.clears),
            target.p.nack_code.eq(Mux(p.refuses, NackCode.ROD_OOO, 0)),
        ]
        with m.If(acknowledges):
            m.d.comb += [
                target.p.opcode.eq(Mux(p.bare, ResponseOpcode.NONE, ResponseOpcode.DEFAULT)),
                target.p.return_code.eq(Mux(p.bare, 0, ReturnCode.OK)),
                *(target.p[name].eq(p[name]) for name in ("cack_psn", "message_id", "job_id", "modified_length")),
            ]

    def _of(self, pulse, peer):
        """Return a bit per PDC: that of ``peer`` while there is ``pulse``."""
        return Mux(pulse, Const(1, self._peers) << peer, 0)[: self._peers]
