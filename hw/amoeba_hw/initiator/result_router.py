"""Sends the data of an answer to the host or away, and what follows from it to the completions."""

from amaranth.hdl import Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, flipped

from amoeba_hw.byte_order import SWAP_BITS, swap_bytes
from amoeba_hw.initiator.fork import Fork
from amoeba_hw.initiator.records import ANSWER
from amoeba_hw.interfaces import DMA_COMMAND, packet_beat
from amoeba_hw.stream import Queue, connect_streams

__all__ = ["DECISION", "ResultRouter"]

DECISION = data.StructLayout({"answer": ANSWER, "result": 64, "length": 14, "swap": SWAP_BITS})
"""Where an answer's data goes, and its effects."""
_ROUTE = data.StructLayout({"forward": 1, "swap": SWAP_BITS})
_ROUTES = 16


class ResultRouter(wiring.Component):
    """Executes decisions about answers, in order.

    Parameters
    ----------
    width : int
        Of the datapath, in bits.

    Members
    -------
    i : DECISION stream; select : in, with ``i``
        The first bit of ``select``: data is written; the second: the answer has data; the third: ``answers`` gets the
        effects. ``i.ready`` is that of :class:`Fork`.
    payload : packet stream
        The data of each answer that has any, in the order of the decisions.
    result_commands : DMA_COMMAND stream
    results : packet stream
        One packet of exactly the command's length per command, in order, within the cycle of ``payload``. Results of
        atomics are little-endian again.
    answers : ANSWER stream
    """

    def __init__(self, width):
        beat = packet_beat(width)
        super().__init__(
            {
                "i": In(stream.Signature(DECISION)),
                "select": In(3),
                "payload": In(stream.Signature(beat)),
                "result_commands": Out(stream.Signature(DMA_COMMAND)),
                "results": Out(stream.Signature(beat)),
                "answers": Out(stream.Signature(ANSWER)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.fork = fork = Fork(DECISION, 3)
        m.submodules.routes = routes = Queue(_ROUTE, _ROUTES)
        connect_streams(m, flipped(self.i), fork.i)
        m.d.comb += fork.select.eq(self.select)
        command, route, answer = fork.o[0], fork.o[1], fork.o[2]
        m.d.comb += [
            self.result_commands.valid.eq(command.valid),
            self.result_commands.p.address.eq(command.p.result),
            self.result_commands.p.length.eq(command.p.length),
            self.result_commands.p.context.eq(command.p.answer.order.ticket.context),
            command.ready.eq(self.result_commands.ready),
            routes.i.valid.eq(route.valid),
            routes.i.p.forward.eq(route.p.answer.writes),
            routes.i.p.swap.eq(route.p.swap),
            route.ready.eq(routes.i.ready),
            self.answers.valid.eq(answer.valid),
            self.answers.payload.eq(answer.p.answer),
            answer.ready.eq(self.answers.ready),
        ]
        source, target, forward = self.payload, self.results, routes.o.p.forward
        m.d.comb += [
            target.payload.eq(source.payload),
            target.p.data.eq(swap_bytes(m, "result", source.p.data, routes.o.p.swap)),
            target.valid.eq(routes.o.valid & forward & source.valid),
            source.ready.eq(routes.o.valid & (~forward | target.ready)),
            routes.o.ready.eq(source.valid & source.ready & source.p.last),
        ]
        return m
