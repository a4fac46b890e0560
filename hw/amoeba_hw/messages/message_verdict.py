"""Verdict on a message."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.descriptors import EventFlags, EventKind
from amoeba_model.wire.uet import ReturnCode

from amoeba_hw.interfaces import MemoryKind
from amoeba_hw.messages.buffer_use import BufferUse
from amoeba_hw.messages.open_receives import OPEN_RECEIVE
from amoeba_hw.messages.records import POSTED_RECEIVE, WAITING_MESSAGE, message_flags
from amoeba_hw.request_records import CHECKED_REQUEST

__all__ = ["MessageVerdict"]

_SOURCE = ("source_ip", "source_context", "source_pdc", "target")
_TOLD = ("user_context", "address", "counter")
"""Fields of a receive that the event of its message, or the counting of that, needs."""


class MessageVerdict(wiring.Component):
    """Decides about a message with the receive that was found for it, or without one. Combinational.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    request : CHECKED_REQUEST, In
        The message.
    allowed : In(1)
        It has what it needs; otherwise it is DISABLED.
    found, receive : In(1), POSTED_RECEIVE, In
        The oldest receive that matches.
    open_receive, is_open : OPEN_RECEIVE, In, In(1)
        The receive that the first packet of the request's message has met, unless this is the first one.
    slot, unexpected_base : In
        Where it goes if it has to wait.
    announces, orders_done : In(1), In(16)
        If it has to wait it has an event, too, with the number of receive descriptors done.
    message : WAITING_MESSAGE, Out
        The message as the lists keep it; depends on ``request`` alone.
    meets : Out(1)
        It meets the receive.
    begins, met : Out(1), OPEN_RECEIVE, Out
        The message is the first of several packets, and meets the receive.
    continues, ends : Out(1)
        The message is not the first of several packets, of which the first has met a receive; it is the last.
    rest, used_up : POSTED_RECEIVE, Out(1)
        The receive afterwards, unless it is used up.
    waits, into_slot : Out(1)
        It joins the unexpected messages; it takes a slot, be it for that or because it is a rendezvous.
    decided : CHECKED_REQUEST, Out
        ``answer.event.reserved`` only if it has an event: if it meets a receive, or is announced.
    """

    def __init__(self, parameters):
        self._payload = parameters.payload
        super().__init__(
            {
                "request": In(CHECKED_REQUEST),
                "allowed": In(1),
                "found": In(1),
                "receive": In(POSTED_RECEIVE),
                "open_receive": In(OPEN_RECEIVE),
                "is_open": In(1),
                "slot": In(range(parameters.unexpected)),
                "unexpected_base": In(64),
                "announces": In(1),
                "orders_done": In(16),
                "message": Out(WAITING_MESSAGE),
                "meets": Out(1),
                "begins": Out(1),
                "met": Out(OPEN_RECEIVE),
                "continues": Out(1),
                "ends": Out(1),
                "rest": Out(POSTED_RECEIVE),
                "used_up": Out(1),
                "waits": Out(1),
                "into_slot": Out(1),
                "decided": Out(CHECKED_REQUEST),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.use = use = BufferUse()
        request, receive, kind = self.request, self.receive, self.request.message
        outside = Signal()
        m.d.comb += [
            use.address.eq(receive.address),
            use.space.eq(receive.space),
            use.length.eq(self.message.length),
            use.multi.eq(receive.multi & ~kind.atomic & ~kind.divided),
            use.least_space.eq(receive.least_space),
            outside.eq(request.memory.address + request.answer.request_length > receive.space),
            self.meets.eq(self.allowed & self.found & ~(kind.atomic & outside)),
            self.waits.eq(self.allowed & ~self.found & ~kind.atomic & ~kind.divided),
            self.continues.eq(self.allowed & kind.divided & request.answer.continues & self.is_open),
            self.begins.eq(self.meets & kind.divided),
            self.ends.eq(self.continues & kind.ends),
            self.met.context.eq(request.answer.event.context),
            self.met.generation.eq(request.answer.event.generation),
            *(self.met[name].eq(receive[name]) for name in ("user_context", "address", "counter")),
            *(self.met[name].eq(self.message[name]) for name in _SOURCE),
            self.met.size.eq(use.size),
            self.into_slot.eq(self.waits | (self.meets & kind.rendezvous)),
            self.used_up.eq(use.used_up),
            self.rest.eq(receive),
            self.rest.address.eq(receive.address + use.used),
            self.rest.space.eq(use.left),
        ]
        self._elaborate_message(m)
        self._elaborate_execution(m, use)
        self._elaborate_event(m, use)
        return m

    def _elaborate_message(self, m):
        message, answer, kind = self.message, self.request.answer, self.request.message
        immediate = (answer.event.flags & EventFlags.IMMEDIATE.value) != 0
        m.d.comb += [
            message.tagged.eq(kind.tagged),
            message.immediate.eq(immediate),
            message.rendezvous.eq(kind.rendezvous),
            message.tag.eq(Mux(kind.tagged, answer.event.tag, 0)),
            message.data.eq(Mux(immediate, answer.event.data, 0)),
            # Of a rendezvous, buffer_offset says how long the message is.
            message.length.eq(Mux(kind.rendezvous, self.request.memory.address, answer.request_length)),
            message.source_ip.eq(answer.ip),
            message.source_context.eq(answer.event.initiator),
            message.source_pdc.eq(answer.dpdcid),
            message.target.eq(answer.event.target),
        ]

    def _elaborate_execution(self, m, use):
        """Where its bytes go, or its operation is performed, and its return code."""
        request, decided, receive, kind = self.request, self.decided, self.receive, self.request.message
        # Of one of several packets, the space for it behind those before.
        space = Mux(self.continues, self.open_receive.size - request.memory.address[:32], use.size)
        size, part = Signal(14), Mux(kind.divided, request.memory.length, request.answer.request_length)
        m.d.comb += decided.eq(request)
        with m.If(self.into_slot | (space >= part)):
            m.d.comb += size.eq(part)
        with m.Elif(space > 0):
            m.d.comb += size.eq(space)
        with m.If(self.meets & kind.atomic):
            m.d.comb += decided.memory.address.eq(receive.address + request.memory.address)
        with m.Elif(self.meets | self.waits | self.continues):
            slot_address = self.unexpected_base + self.slot * self._payload
            buffer = Mux(self.continues, self.open_receive.address + request.memory.address[:32], receive.address)
            m.d.comb += [
                decided.memory.address.eq(Mux(self.into_slot, slot_address, buffer)),
                decided.memory.length.eq(size),
                decided.memory.kind.eq(MemoryKind.WRITE),
                decided.memory.has_operand.eq(size != 0),
                decided.memory.has_compare.eq(0),
                decided.memory.returns_data.eq(0),
                decided.job.eq(0),
                decided.job.has_operand.eq(size != 0),
                decided.job.operand.length.eq(size),
            ]
        with m.Else():
            code = Mux(self.found & kind.atomic, ReturnCode.BAD_ADDR.value, ReturnCode.NO_MATCH.value)
            m.d.comb += [
                decided.answer.return_code.eq(Mux(self.allowed, code, ReturnCode.DISABLED.value)),
                decided.answer.executed.eq(0),
                decided.answer.returns_data.eq(0),
                decided.answer.copied.eq(0),
                decided.job.has_operand.eq(0),
                decided.job.has_compare.eq(0),
            ]

    def _elaborate_event(self, m, use):
        event, message = self.decided.answer.event, self.message
        kind = self.request.message
        meets, receive = Signal(), Signal(data.StructLayout({name: OPEN_RECEIVE[name].shape for name in _TOLD}))
        met_kind = Mux(kind.atomic, EventKind.ATOMIC_RECEIVED.value, EventKind.RECEIVED.value)
        met_kind = Mux(kind.rendezvous, EventKind.RENDEZVOUS.value, met_kind)
        has_event, address = Signal(), Signal(64)
        cut = Mux(self.ends, self.open_receive.size < message.length, use.cut)
        too_long = cut & ~kind.rendezvous & ~kind.atomic
        m.d.comb += [
            meets.eq((self.meets & ~kind.divided) | self.ends),
            *(receive[name].eq(Mux(self.ends, self.open_receive[name], self.receive[name])) for name in _TOLD),
            has_event.eq(meets | (self.waits & self.announces)),
            address.eq(receive.address + Mux(kind.atomic, self.request.memory.address, 0)),
            event.reserved.eq(has_event),
            event.regardless.eq(has_event),
            event.kind.eq(Mux(meets, met_kind, EventKind.ARRIVED.value)),
            event.flags.eq(
                message_flags(message)
                | Mux(meets & (use.used_up | self.ends), EventFlags.RELEASED.value, 0)
                | Mux(self.into_slot, EventFlags.IN_SLOT.value, 0)
            ),
            event.status.eq(Mux(meets & too_long, ReturnCode.TOO_LONG.value, ReturnCode.OK.value)),
            event.user_context.eq(Mux(meets, receive.user_context, self.orders_done)),
            event.data.eq(message.data),
            event.tag.eq(message.tag),
            event.address.eq(Mux(meets, address, 0)),
            event.length.eq(message.length),
            event.slot.eq(Mux(self.into_slot, self.slot, 0)),
            # Of a rendezvous the driver says when the message is received.
            self.decided.answer.counters[0].eq(Mux(meets & ~kind.rendezvous, receive.counter, 0)),
        ]
