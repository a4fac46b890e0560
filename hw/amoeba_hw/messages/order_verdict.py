"""Verdict on a receive descriptor."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.descriptors import EventFlags, EventKind, ReceiveFlags, ReceiveOpcode
from amoeba_model.wire.uet import ReturnCode

from amoeba_hw.messages.buffer_use import BufferUse
from amoeba_hw.messages.records import POSTED_RECEIVE, RECEIVE_ORDER, WAITING_MESSAGE, asks_for, message_flags
from amoeba_hw.packed import select
from amoeba_hw.request_records import CHECKED_REQUEST

__all__ = ["OrderVerdict"]


class OrderVerdict(wiring.Component):
    """Decides about a receive descriptor with the message or receive found for it, or without one. Combinational.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    order : RECEIVE_ORDER, In
    found, message, slot : In(1), WAITING_MESSAGE, In
        The oldest unexpected message that matches; of a CANCEL ``found`` says that a posted receive does.
    receive : POSTED_RECEIVE, Out
        The receive as it is posted; depends on ``order`` alone.
    refused, cancels : Out(1)
        It makes no sense, or could not be read: nothing is looked for; or it is a CANCEL. Depend on ``order`` alone.
    posts, takes : Out(1)
        It joins the posted receives; the message leaves its list.
    again, used : Out(1), Out(32)
        It wants to look once more, without so many bytes of its buffer.
    entry : CHECKED_REQUEST, Out
        Its event, unless it ``posts``.
    """

    def __init__(self, parameters):
        super().__init__(
            {
                "order": In(RECEIVE_ORDER),
                "found": In(1),
                "message": In(WAITING_MESSAGE),
                "slot": In(range(parameters.unexpected)),
                "receive": Out(POSTED_RECEIVE),
                "refused": Out(1),
                "cancels": Out(1),
                "posts": Out(1),
                "takes": Out(1),
                "again": Out(1),
                "used": Out(32),
                "entry": Out(CHECKED_REQUEST),
            }
        )
        self._is = {opcode: Signal(name=f"is_{opcode.name.lower()}") for opcode in ReceiveOpcode}
        """By opcode, whether the order has it and is not refused."""

    def elaborate(self, platform):
        m = Module()
        m.submodules.use = use = BufferUse()
        fields, receives = self.order.fields, self._is[ReceiveOpcode.RECEIVE]
        m.d.comb += [
            *(signal.eq(asks_for(opcode, self.order)) for opcode, signal in self._is.items()),
            use.address.eq(fields.address),
            use.space.eq(fields.length),
            use.length.eq(self.message.length),
            use.multi.eq(self.receive.multi),
            use.least_space.eq(fields.least_space),
            self.refused.eq(~Cat(self._is.values()).any()),
            self.cancels.eq(self._is[ReceiveOpcode.CANCEL]),
            self.posts.eq(receives & ~self.found),
            self.takes.eq(self.found & (receives | self._is[ReceiveOpcode.TAKE])),
            self.again.eq(receives & self.found & ~use.used_up),
            self.used.eq(use.used),
        ]
        self._elaborate_receive(m)
        self._elaborate_entry(m)
        return m

    def _elaborate_receive(self, m):
        receive, fields = self.receive, self.order.fields
        flags = {name: ReceiveFlags[name.upper()] for name in ("tagged", "multi", "directed", "addressed")}
        same = ("tag", "ignore", "source_ip", "source_context", "address", "least_space", "counter")
        m.d.comb += [
            *(receive[name].eq((fields.flags & flag.value) != 0) for name, flag in flags.items()),
            *(receive[name].eq(fields[name]) for name in same),
            receive.target.eq(fields.target_context),
            receive.user_context.eq(fields.context),
            receive.space.eq(fields.length),
        ]

    def _elaborate_entry(self, m):
        """Assign the entry: an answer to nobody, with an event."""
        answer, event, message = self.entry.answer, self.entry.answer.event, self.message
        shows = Signal()
        """The event is about a message."""
        m.d.comb += [
            shows.eq(self.found & ~self.cancels),
            self.entry.context.eq(self.order.context),
            answer.silent.eq(1),
            answer.return_code.eq(ReturnCode.OK.value),
            answer.ip.eq(Mux(shows, message.source_ip, 0)),
            answer.dpdcid.eq(Mux(shows, message.source_pdc, 0)),
            event.reserved.eq(1),
            event.regardless.eq(1),
            event.context.eq(self.order.context),
            event.generation.eq(self.order.generation),
            event.user_context.eq(Mux(self.order.error, 0, self.receive.user_context)),
            event.address.eq(Mux(shows & self._is[ReceiveOpcode.RECEIVE], self.receive.address, 0)),
            *(event[name].eq(Mux(shows, message[name], 0)) for name in ("data", "tag", "length")),
            event.initiator.eq(Mux(shows, message.source_context, 0)),
            event.target.eq(Mux(shows, message.target, 0)),
            event.slot.eq(Mux(shows, self.slot, 0)),
            event.flags.eq(
                Mux(self.again | (self.cancels & ~self.found), 0, EventFlags.RELEASED.value)
                | Mux(shows, message_flags(message) | EventFlags.IN_SLOT.value, 0)
            ),
        ]
        self._elaborate_outcome(m)

    def _elaborate_outcome(self, m):
        event, rendezvous = self.entry.answer.event, self.message.rendezvous
        kind, status = Signal(8), Signal(8)
        m.d.comb += [
            kind.eq(EventKind.NO_MATCH.value),
            status.eq(ReturnCode.NO_MATCH.value),
            # Apart from the conditions: in Verilog, bits that are constant would become processes of constants beside
            # conditional ones, and simulators never start those.
            event.kind.eq(kind),
            event.status.eq(status),
        ]
        with m.If(self.refused):
            fault = Mux(self.order.error, ReturnCode.LOCAL_DMA_FAULT.value, ReturnCode.LOCAL_BAD_DESCRIPTOR.value)
            m.d.comb += [kind.eq(EventKind.REFUSED.value), status.eq(fault)]
        with m.Elif(self.found & self.cancels):
            m.d.comb += [kind.eq(EventKind.CANCELLED.value), status.eq(ReturnCode.CANCELLED.value)]
        with m.Elif(self.found):
            kinds = {
                ReceiveOpcode.RECEIVE: Mux(rendezvous, EventKind.RENDEZVOUS.value, EventKind.UNEXPECTED.value),
                ReceiveOpcode.PEEK: EventKind.FOUND.value,
                ReceiveOpcode.TAKE: EventKind.TAKEN.value,
            }
            m.d.comb += [
                kind.eq(select(8, ((self._is[opcode], kind) for opcode, kind in kinds.items()))),
                status.eq(ReturnCode.OK.value),
            ]
