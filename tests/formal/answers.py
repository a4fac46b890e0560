"""On their way to the host, answers wait for the host alone."""

from amaranth.hdl import Assert, Assume, Cover, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_hw.initiator.answer_order import AnswerOrder
from amoeba_hw.interfaces import TRACE_SLOT

from tests.formal.rules import StreamRules, never_reset

__all__ = ["AnswersSinkSpec"]


class AnswersSinkSpec(wiring.Component):
    """An answer that was decided while there was no crowd never waits for the barrier, which may hold for ever.

    The environment decides as the ResponseHandler does: it looks at ``crowd`` when it makes up its mind, has one
    answer in its hand at a time, and holds it out until it is taken.
    """

    def __init__(self, results=3, completions=7, decided=5):
        self._dut = AnswerOrder(results, completions, decided)
        members = dict(self._dut.signature.members)
        del members["answers"], members["trace_result_written"]
        super().__init__(
            {
                **members,
                "decides": In(1),
                "completes": In(1),
                "trace_result_written": Out(TRACE_SLOT),
            }
        )

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.dut = dut = self._dut
        m.submodules.environment_nops = StreamRules(self.nops, Assume)
        pending, completes = Signal(), Signal()
        taken = dut.answers.valid & dut.answers.ready
        decided = self.decides & ~dut.crowd & (~pending | taken)
        with m.If(decided):
            m.d.sync += [pending.eq(1), completes.eq(self.completes)]
        with m.Elif(taken):
            m.d.sync += pending.eq(0)
        m.d.comb += [
            dut.answers.valid.eq(pending),
            dut.answers.p.completes.eq(completes),
            # Its results are written already: what is left to wait for is not the host.
            dut.answers.p.writes.eq(0),
            # Who it is about does not matter here.
            dut.nops.p.eq(0),
            dut.nops.valid.eq(self.nops.valid),
            self.nops.ready.eq(dut.nops.ready),
            dut.resending.eq(self.resending),
            dut.loaded.eq(self.loaded),
            dut.o.ready.eq(self.o.ready),
            self.o.valid.eq(dut.o.valid),
            self.o.p.eq(dut.o.p),
            self.crowd.eq(dut.crowd),
            self.held.eq(dut.held),
        ]
        waited = Signal(3)
        m.d.sync += waited.eq(0)
        with m.If(pending & ~taken):
            m.d.sync += waited.eq(waited + (waited != 7))
        m.d.comb += [
            # A queue of three hands on what it got two cycles before.
            Assert(waited < 4),
            Cover(dut.crowd & dut.held),
        ]
        return m
