"""Receives that are kept for messages which could not be accepted without them."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.messages.records import RECEIVE_SEARCH
from amoeba_hw.request_records import RECEIVE_QUESTION, RECEIVE_REPLY

__all__ = ["KeptReceives"]

_ON_THE_WAY = 8
"""More than there can be messages between who accepts them and who matches them."""


class KeptReceives(wiring.Component):
    """Finds out whether a message that has not been accepted yet meets a receive, and keeps that for it.

    A search waits until all messages that were accepted before have been matched, since these come first. From its
    reply on, until the message has been matched, nothing is done that may take its receive away. So the message finds
    what was found.

    Members
    -------
    question, reply : RECEIVE_QUESTION, In, RECEIVE_REPLY, Out
        No message is accepted while there is a question, and when something was found that message is the next.
    accepted, settled : In(1)
        A message was accepted; one was matched, or will not be.
    searches : RECEIVE_SEARCH stream
    found : In(1)
        With the transfer of a search.
    keeps : Out(1)
        No receive descriptor may be done now.

    The search is offered one cycle after the question at the earliest, and the reply comes in the cycle in which the
    search is taken.
    """

    question: In(RECEIVE_QUESTION)
    reply: Out(RECEIVE_REPLY)
    accepted: In(1)
    settled: In(1)
    searches: Out(stream.Signature(RECEIVE_SEARCH))
    found: In(1)
    keeps: Out(1)

    def elaborate(self, platform):
        m = Module()
        on_the_way = Signal(range(_ON_THE_WAY))
        search, question = self.searches.p, self.question
        asks = Signal()
        """The question stays, and has no reply yet: it is known late in its first cycle."""
        m.d.sync += [
            on_the_way.eq(on_the_way + self.accepted - self.settled),
            asks.eq(question.valid & ~self.reply.valid),
        ]
        m.d.comb += [
            self.searches.valid.eq(asks & (on_the_way == 0)),
            search.context.eq(question.context),
            *(
                search.key[name].eq(question[name])
                for name in ("tagged", "tag", "source_ip", "source_context", "target")
            ),
            self.reply.valid.eq(self.searches.valid & self.searches.ready),
            self.reply.found.eq(self.found),
        ]
        with m.If(self.reply.valid):
            m.d.sync += self.keeps.eq(self.found)
        with m.Elif(self.settled):
            m.d.sync += self.keeps.eq(0)
        return m
