"""Finds the moment from which the requests that the target has accepted touch host memory no more."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.request_records import PASSAGE

__all__ = ["Drain", "Passage"]

_LEVEL_BITS = 10
"""Far more requests, or reads of receive descriptors, than the target's queues hold."""
_QUIET = 8
"""Cycles in which a register write takes effect, once it has left its queue, on all that enters."""


class Passage(wiring.Component):
    """Counts items in flight, and says when those of one moment have ended.

    Members
    -------
    items : PASSAGE, In
        No more than 1,023 are in flight.
    mark : In
        Pulse: those in flight from now on, with the one on offer, are waited for.
    passed : Out
        From the cycle after ``mark`` on: they have ended in earlier cycles.
    """

    items: In(PASSAGE)
    mark: In(1)
    passed: Out(1)

    def __init__(self):
        super().__init__()
        self._level, self._remaining = Signal(_LEVEL_BITS), Signal(_LEVEL_BITS)

    def elaborate(self, platform):
        m = Module()
        items = self.items
        m.d.comb += self.passed.eq(self._remaining == 0)
        m.d.sync += self._level.eq(self._level + items.entered - items.ended)
        with m.If(self.mark):
            m.d.sync += self._remaining.eq(self._level + items.offered - items.ended)
        with m.Elif(items.ended & ~self.passed):
            m.d.sync += self._remaining.eq(self._remaining - 1)
        return m


class Drain(wiring.Component):
    """The register ``drain`` of the target ("Draining" in README.md).

    Parameters
    ----------
    quiet : int
        Cycles that earlier register writes take to have their effect.

    Members
    -------
    begin : In
        Pulse: the register is written.
    held : In
        Writes to the key table before ``begin`` have not left their queue.
    requests : PASSAGE, In
        Of requests with an answer, from the key's lookup to the answer.
    fetches : PASSAGE, In
        Of reads of receive descriptors.
    writes_event : In
        An event is on its way to the host.
    fence, fenced : Out, In
        ``fence`` stays until ``fenced``: all host writes that had their place in WriteHub's order when it rose have
        reached the host.
    draining : Out
        From the cycle after ``begin`` until all of that is over.

    Items end in order, so the component waits for those in flight at one moment, whatever comes later::

        state     REST      HOLD                    DRAIN                         FENCE
        work      begin     earlier writes take     those in flight end,          their writes
                            effect: 8 cycles        no event is being written     reach the host
    """

    begin: In(1)
    held: In(1)
    requests: In(PASSAGE)
    fetches: In(PASSAGE)
    writes_event: In(1)
    fence: Out(1)
    fenced: In(1)
    draining: Out(1)

    def __init__(self, quiet=_QUIET):
        super().__init__()
        self._quiet = quiet

    def elaborate(self, platform):
        m = Module()
        quiet, mark, writes_event = Signal(range(self._quiet)), Signal(), Signal()
        passed = []
        for name in ("requests", "fetches"):
            m.submodules[name] = passage = Passage()
            # A cycle late: the streams are ready late in their cycle.
            m.d.sync += passage.items.eq(getattr(self, name))
            m.d.comb += passage.mark.eq(mark)
            passed.append(passage.passed)
        m.d.sync += [writes_event.eq(self.writes_event), quiet.eq(Mux(self.held, 0, quiet + 1))]
        with m.FSM(name="step") as step:
            with m.State("REST"):
                self._begin(m)
            with m.State("HOLD"):
                with m.If(~self.held & (quiet == self._quiet - 1)):
                    m.d.comb += mark.eq(1)
                    m.next = "DRAIN"
                self._begin(m)
            with m.State("DRAIN"):
                with m.If(passed[0] & passed[1] & ~writes_event):
                    m.next = "FENCE"
                self._begin(m)
            with m.State("FENCE"):
                m.d.comb += self.fence.eq(1)
                with m.If(self.fenced):
                    m.next = "REST"
                self._begin(m)
            m.d.comb += self.draining.eq(~step.ongoing("REST"))
        with m.If(self.begin):
            m.d.sync += quiet.eq(0)
        return m

    def _begin(self, m):
        """Begin, or begin anew: what is in flight then is more, and ends later."""
        with m.If(self.begin):
            m.next = "HOLD"
