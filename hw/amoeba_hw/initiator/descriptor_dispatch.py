"""Separates descriptors that become requests from those that end at once."""

from amaranth.hdl import Array, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.descriptors import DescriptorFlags
from amoeba_model.wire.uet import ReturnCode

from amoeba_hw.initiator.descriptor_check import DescriptorCheck
from amoeba_hw.initiator.records import COMPLETION_ORDER, DESCRIPTOR, GENERATION_BITS, REQUEST
from amoeba_hw.interfaces import TRACE_SLOT

__all__ = ["DescriptorDispatch"]


class DescriptorDispatch(wiring.Component):
    """Sends valid descriptors on as requests; all others straight to their completion.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    descriptors : DESCRIPTOR stream
        One every two cycles; what a disabled or restarted context left behind is dropped.
    generations : array of GENERATION_BITS
    peer_index : out; peer_allowed, peer_context : in
        To the peer table, which answers one cycle later.
    requests : REQUEST stream
    completions : COMPLETION_ORDER stream
        NOPs without a fence, and refused descriptors.
    ended : out, a bit per context
        Pulse: a descriptor was taken that does not become a request.
    trace_descriptor : TRACE_SLOT
    count_descriptors : out
    """

    def __init__(self, parameters):
        self._parameters = parameters
        self._contexts = parameters.contexts
        super().__init__(
            {
                "descriptors": In(stream.Signature(DESCRIPTOR)),
                "generations": In(GENERATION_BITS).array(parameters.contexts),
                "peer_index": Out(range(parameters.peers)),
                "peer_allowed": In(1),
                "peer_context": In(8),
                "requests": Out(stream.Signature(REQUEST)),
                "completions": Out(stream.Signature(COMPLETION_ORDER)),
                "ended": Out(self._contexts),
                "trace_descriptor": Out(TRACE_SLOT),
                "count_descriptors": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.check = check = DescriptorCheck(self._parameters)
        descriptor, fields = self.descriptors.payload, self.descriptors.p.fields
        current = Signal()
        status = Signal(8)
        m.d.comb += [
            self.peer_index.eq(fields.peer),
            current.eq(Array(self.generations)[descriptor.context] == descriptor.generation),
            check.descriptor.eq(fields),
            check.peer_allowed.eq(
                self.peer_allowed & (self.peer_context == descriptor.context) & (fields.peer < self._parameters.peers)
            ),
            status.eq(Mux(descriptor.error, ReturnCode.LOCAL_DMA_FAULT, check.status)),
        ]
        with m.FSM(name="dispatch"):
            with m.State("LOOK_UP"), m.If(self.descriptors.valid):
                m.next = "DECIDE"
            with m.State("DECIDE"):
                goes_out = check.becomes_request & ~descriptor.error
                target_free = Signal()
                m.d.comb += [
                    target_free.eq(
                        Mux(
                            goes_out,
                            ~self.requests.valid | self.requests.ready,
                            ~self.completions.valid | self.completions.ready,
                        )
                    ),
                    self.descriptors.ready.eq(target_free | ~current),
                ]
                with m.If(self.descriptors.ready):
                    m.next = "LOOK_UP"
                    m.d.comb += self.count_descriptors.eq(1)
                    m.d.comb += self.trace_descriptor.valid.eq(1)
                    m.d.comb += [
                        ended.eq((descriptor.context == index) & ~(goes_out & current))
                        for index, ended in enumerate(self.ended)
                    ]
        with m.If(self.requests.ready):
            m.d.sync += self.requests.valid.eq(0)
        with m.If(self.completions.ready):
            m.d.sync += self.completions.valid.eq(0)
        with m.If(self.descriptors.ready & current):
            with m.If(goes_out):
                m.d.sync += [self.requests.valid.eq(1), self._request(check)]
            with m.Else():
                m.d.sync += [
                    self.completions.valid.eq(1),
                    self._ticket(self.completions.p.ticket, ~descriptor.error),
                    self.completions.p.status.eq(status),
                ]
        m.d.comb += [
            self.trace_descriptor.event.context.eq(descriptor.context),
            self.trace_descriptor.event.pdc.eq(Mux(descriptor.error, 0, fields.peer)),
            self.trace_descriptor.event.psn.eq(descriptor.index),
        ]
        return m

    def _ticket(self, ticket, known):
        """Assign the ticket of the descriptor; if it could not be read, all fields are zero."""
        descriptor, fields, flagged = self.descriptors.payload, self.descriptors.p.fields, self._flagged
        return [
            ticket.context.eq(descriptor.context),
            ticket.generation.eq(descriptor.generation),
            ticket.index.eq(descriptor.index),
            ticket.peer.eq(Mux(known, fields.peer, 0)),
            ticket.user_context.eq(Mux(known, fields.context, 0)),
            ticket.length.eq(Mux(known, fields.length, 0)),
            ticket.opcode.eq(Mux(known, fields.opcode, 0)),
            ticket.counter.eq(Mux(known, fields.counter, 0)),
            # On success: what continues a request says nothing of its own.
            ticket.wants_completion.eq(flagged(DescriptorFlags.COMPLETION) & ~flagged(DescriptorFlags.CHAINED)),
            ticket.chained.eq(known & flagged(DescriptorFlags.CHAINED)),
        ]

    def _flagged(self, flag):
        return (self.descriptors.p.fields.flags & flag).bool()

    def _request(self, check):
        request, fields = self.requests.payload, self.descriptors.p.fields
        return [
            *self._ticket(request.ticket, Const(1)),
            request.ses_opcode.eq(check.ses_opcode),
            request.is_atomic.eq(check.is_atomic),
            request.atomic_opcode.eq(check.atomic_opcode),
            request.atomic_datatype.eq(check.atomic_datatype),
            request.kind.eq(check.kind),
            request.inline.eq(self._flagged(DescriptorFlags.INLINE)),
            request.is_close.eq(check.is_close),
            request.is_nop.eq(check.is_nop),
            request.fence.eq(self._flagged(DescriptorFlags.FENCE)),
            request.fence_all.eq(self._flagged(DescriptorFlags.FENCE_ALL)),
            request.immediate.eq(self._flagged(DescriptorFlags.IMMEDIATE) & ~check.is_close),
            request.returns_data.eq(check.returns_data),
            request.remote_address.eq(fields.remote_address),
            request.remote_key.eq(fields.remote_key),
            request.result.eq(fields.result),
            request.local.eq(fields.local),
            request.compare.eq(fields.compare),
            # A CLOSE is one packet, whatever its length.
            request.length.eq(Mux(check.is_close, 0, fields.length)),
        ]
