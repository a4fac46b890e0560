"""The NIC on PCI Express, without the link itself."""

from amaranth.hdl import Module, ResetInserter
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.core import MEMORY_CLOCK, Core, TraceSignature
from amoeba_hw.host.axi import AxiStreamSignature
from amoeba_hw.host.frames import connect_frames
from amoeba_hw.pcie.completer import Completer
from amoeba_hw.pcie.function_reset import FunctionReset
from amoeba_hw.pcie.host import PcieHost
from amoeba_hw.pcie.interfaces import PcieLinkSignature
from amoeba_hw.pcie.msix_table import MsixTable
from amoeba_hw.stream import connect_streams

__all__ = ["PcieNic"]


class PcieNic(wiring.Component):
    """Core, host memory, registers and interrupts as a PCI function; frames on AXI4-Stream.

    Parameters
    ----------
    parameters : NicParameters
    memory_clock : bool
        As of Core, for simulators.
    host : keyword arguments
        Sizes, as of PcieHost.

    Members
    -------
    link : PcieLinkSignature
        Port for an adapter to a link's IP.
    rx, tx : AXI4-Stream
        Frames from and to the network.
    reset_request : In; reset_done : Out
        Function level reset, as of FunctionReset.
    count_refused, count_unexpected, count_failed : Out
        Pulses: a write to a BAR was not performed; a completion came that nothing waits for; a read failed.
    trace : TraceSignature
        Synthesis removes it where nothing is connected.
    """

    def __init__(self, parameters, *, memory_clock=False, **host):
        self._parameters = parameters
        self._core = Core(parameters, memory_clock=memory_clock)
        self._memory_clock = memory_clock
        width = parameters.data_width
        self._host = PcieHost(width, **host)
        super().__init__(
            {
                "link": Out(PcieLinkSignature(width)),
                "rx": In(AxiStreamSignature(width)),
                "tx": Out(AxiStreamSignature(width)),
                "reset_request": In(1),
                "reset_done": Out(1),
                "count_refused": Out(1),
                "count_unexpected": Out(1),
                "count_failed": Out(1),
                "trace": Out(TraceSignature()),
                **(MEMORY_CLOCK if memory_clock else {}),
            }
        )

    def elaborate(self, platform):
        m = Module()
        core, host = self._core, self._host
        table = MsixTable(self._parameters.contexts)
        m.submodules.reset = reset = FunctionReset()
        m.submodules.completer = completer = Completer()
        # A function level reset reaches these; the completer goes on, as its requests are the link's.
        within = ResetInserter({"sync": reset.reset, "memory": reset.reset})
        m.submodules.core, m.submodules.host, m.submodules.table = within(core), within(host), within(table)
        self._connect_registers(m, core, completer, table)
        self._connect_memory(m, core, host, table, reset)
        connect_frames(m, core, self.rx, self.tx)
        wiring.connect(m, core.trace, wiring.flipped(self.trace))
        m.d.comb += [
            reset.bus_master.eq(self.link.configuration.bus_master),
            reset.reset_request.eq(self.reset_request),
            reset.merger_idle.eq(host.merger_idle),
            reset.reads_idle.eq(host.reads_idle),
            reset.accesses_idle.eq(completer.idle),
            completer.hold.eq(reset.hold),
            self.reset_done.eq(reset.reset_done),
            self.count_refused.eq(completer.count_refused),
            self.count_unexpected.eq(host.unexpected),
            self.count_failed.eq(host.failed),
        ]
        if self._memory_clock:
            m.d.comb += [core.memory_clock.eq(self.memory_clock), self.memory_runs.eq(core.memory_runs | reset.reset)]
        return m

    def _connect_registers(self, m, core, completer, table):
        link = wiring.flipped(self.link)
        connect_streams(m, link.register_requests, completer.requests)
        connect_streams(m, completer.completions, link.register_completions)
        connect_streams(m, completer.accesses, core.accesses)
        connect_streams(m, core.read_data, completer.read_data)
        connect_streams(m, completer.table_accesses, table.accesses)
        connect_streams(m, table.read_data, completer.table_read_data)

    def _connect_memory(self, m, core, host, table, reset):
        link = wiring.flipped(self.link)
        connect_streams(m, core.reads, host.reads)
        connect_streams(m, host.read_answers, core.read_answers)
        connect_streams(m, core.writes, host.writes)
        connect_streams(m, table.messages, host.interrupts)
        connect_streams(m, host.requests, link.requests)
        connect_streams(m, link.completions, host.completions)
        m.d.comb += [
            host.read_user.eq(core.read_user),
            host.write_user.eq(core.write_user),
            host.write_begun.eq(core.write_begun),
            host.write_level.eq(core.write_level),
            host.fence.eq(core.fence),
            core.fenced.eq(host.fenced),
            host.read_credit.eq(self.link.read_credit),
            host.configuration.eq(self.link.configuration),
            host.run.eq(reset.run),
            table.irq.eq(core.irq),
            table.enable.eq(self.link.configuration.msix_enable),
            table.function_mask.eq(self.link.configuration.msix_mask),
        ]
