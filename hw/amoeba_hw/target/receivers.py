"""Receivers: the context whose receives meet the messages for a context."""

from amaranth.hdl import Cat, Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.interfaces import CONTEXT
from amoeba_hw.request_records import RECEIVER

__all__ = ["Receivers"]


class Receivers(wiring.Component):
    """The receivers that contexts share (messages/README.md). Combinational.

    Parameters
    ----------
    contexts : int

    Members
    -------
    contexts : array of CONTEXT, In
    receivers : array of RECEIVER, Out
        For each context, the one whose receives meet its messages.
    takes_messages : Out, a bit per context
        The receiver is valid and has what messages need.
    """

    def __init__(self, contexts):
        self._contexts = contexts
        super().__init__(
            {
                "contexts": In(CONTEXT).array(contexts),
                "receivers": Out(RECEIVER).array(contexts),
                "takes_messages": Out(contexts),
            }
        )

    def elaborate(self, platform):
        m = Module()
        able = Cat(
            context.enable & (context.event_base != 0) & (context.unexpected_base != 0) for context in self.contexts
        )
        for index in range(self._contexts):
            context, receiver = self.contexts[index], self.receivers[index]
            m.d.comb += [
                receiver.context.eq(Mux(context.shares_receives, context.receive_context, index)),
                receiver.valid.eq(context.enable & (receiver.context < self._contexts)),
                self.takes_messages[index].eq(receiver.valid & able.bit_select(receiver.context, 1)),
            ]
        return m
