"""When the function may ask the host for anything, and how it begins anew."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["FunctionReset"]


class FunctionReset(wiring.Component):
    """Bus Master Enable and function level reset (Base Specification 6.6.2).

    Without Bus Master Enable no request begins; what has begun goes on, and what waits, waits. A reset stops requests
    likewise, then waits for those in flight: a memory write that the link has part of goes out whole, and reads
    complete or are given up, so that no completion can meet a tag's next user: tags of reads that were given up stay
    out of use behind the reset as well (ReadTags). Then accesses to the BARs pause while everything behind them is
    reset, a few cycles whatever the link does::

        RUN -> STOP: merger_idle, reads_idle -> HOLD: accesses_idle -> RESET: reset -> DONE: reset_done -> RUN

    Members
    -------
    bus_master : In
    reset_request : In
        A function level reset is asked for. Stays until ``reset_done``; may stay for some cycles longer.
    run : Out
        For RequestMerger.
    merger_idle : In
        As of RequestMerger: once there while ``run`` is low, it stays.
    reads_idle : In
        As of CompletionBuffer. Stays while ``merger_idle`` does.
    hold : Out; accesses_idle : In
        For and of Completer: once there while ``hold`` is high, it stays.
    reset : Out
        Two cycles, for the core, the requesters, CompletionBuffer, RequestMerger and MsixTable; not for Completer,
        nor for what serves the link.
    reset_done : Out
        Pulse, after ``reset``.
    """

    def __init__(self):
        super().__init__(
            {
                "bus_master": In(1),
                "reset_request": In(1),
                "run": Out(1),
                "merger_idle": In(1),
                "reads_idle": In(1),
                "hold": Out(1),
                "accesses_idle": In(1),
                "reset": Out(1),
                "reset_done": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        again = Signal()
        with m.FSM(name="reset"):
            with m.State("RUN"):
                m.d.comb += self.run.eq(self.bus_master)
                with m.If(self.reset_request):
                    m.next = "STOP"
            with m.State("STOP"), m.If(self.merger_idle & self.reads_idle):
                m.next = "HOLD"
            with m.State("HOLD"):
                m.d.comb += self.hold.eq(1)
                m.d.sync += again.eq(0)
                with m.If(self.accesses_idle):
                    m.next = "RESET"
            with m.State("RESET"):
                m.d.comb += [self.hold.eq(1), self.reset.eq(1)]
                m.d.sync += again.eq(1)
                with m.If(again):
                    m.next = "DONE"
            with m.State("DONE"):
                m.d.comb += self.reset_done.eq(1)
                m.next = "WAIT"
            with m.State("WAIT"), m.If(~self.reset_request):
                m.next = "RUN"
        return m
