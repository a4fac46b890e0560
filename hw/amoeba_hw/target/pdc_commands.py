"""Commands of the host to the target PDCs: view one, or close it."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.registers import TargetPdcState

from amoeba_hw.interfaces import PDC_COMMAND, PDC_VIEW
from amoeba_hw.target.sequence import PDC_ENTRY

__all__ = ["PdcCommands"]


class PdcCommands(wiring.Component):
    """Takes the registers' commands at once, whatever the table is doing.

    Parameters
    ----------
    pdcs : int

    Members
    -------
    command : PDC_COMMAND, In
    exists : In(1)
        The PDC that it names was opened since reset.
    entry : PDC_ENTRY, In
        In the cycle after a command that selects, and until the next one: what was there.
    view : PDC_VIEW, Out
        From the cycle after such a command on. A PDC that an earlier command is to close is EXPELLED already.
    closes : Out, a bit per PDC
        It is to close, whoever it belongs to at that moment.
    done, pdc : In
        Pulse: this PDC was closed, or is another's from now on.
    """

    def __init__(self, pdcs):
        self._pdcs = pdcs
        super().__init__(
            {
                "command": In(PDC_COMMAND),
                "exists": In(1),
                "entry": In(PDC_ENTRY),
                "view": Out(PDC_VIEW),
                "closes": Out(pdcs),
                "done": In(1),
                "pdc": In(range(pdcs)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        command, entry, view = self.command, self.entry, self.view
        shows, closing, expelled = Signal(), Signal(), Signal()
        with m.If(command.select):
            m.d.sync += [shows.eq(self.exists), closing.eq(self.closes.bit_select(command.pdc, 1))]
        m.d.comb += expelled.eq(Mux(entry.state.closed, entry.state.expelled, closing))
        with m.If(shows):
            m.d.comb += [
                view.state.eq(Mux(entry.state.closed, TargetPdcState.CLOSED.value, TargetPdcState.OPEN.value)),
                view.expected.eq(entry.state.expected),
                *(view[name].eq(entry[name]) for name in ("ip", "spdcid", "job_id", "context", "came")),
            ]
            with m.If(expelled):
                m.d.comb += view.state.eq(TargetPdcState.EXPELLED.value)
        for number in range(self._pdcs):
            with m.If(self.done & (self.pdc == number)):
                m.d.sync += self.closes[number].eq(0)
            with m.Elif(command.close & self.exists & (command.pdc == number)):
                m.d.sync += self.closes[number].eq(1)
        return m
