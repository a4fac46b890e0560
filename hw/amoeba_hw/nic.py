"""The NIC on standard buses: the top level of the generated Verilog."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.trace import Requester

from amoeba_hw.core import MEMORY_CLOCK, Core, TraceSignature
from amoeba_hw.host.axi import Axi4LiteSignature, Axi4Signature, AxiStreamSignature
from amoeba_hw.host.axi_dma import AxiDma
from amoeba_hw.host.axi_lite import AxiLite
from amoeba_hw.host.frames import connect_frames
from amoeba_hw.host.line_order import LineOrder
from amoeba_hw.host.register_bank import ADDRESS_WIDTH
from amoeba_hw.host.write_fence import WriteFence
from amoeba_hw.stream import connect_streams

__all__ = ["Nic"]


class Nic(wiring.Component):
    """Core, AXI4 host memory, AXI4-Lite registers, AXI4-Stream frames.

    Parameters
    ----------
    parameters : NicParameters
    memory_clock : bool
        As of Core, for simulators.

    Members
    -------
    bar : AXI4-Lite
        Register blocks and doorbell pages.
    host : AXI4
        Host memory; AxUSER names the component that asks, and the context.
    rx, tx : AXI4-Stream
        Frames from and to the link.
    irq : one bit per context
        One-cycle pulses: MSI-X vectors.
    trace : TraceSignature
        Synthesis removes it where nothing is connected.
    """

    def __init__(self, parameters, *, memory_clock=False):
        self._parameters = parameters
        self._core = Core(parameters, memory_clock=memory_clock)
        self._memory_clock = memory_clock
        width = parameters.data_width
        super().__init__(
            {
                "bar": In(Axi4LiteSignature(ADDRESS_WIDTH)),
                "host": Out(Axi4Signature(width)),
                "rx": In(AxiStreamSignature(width)),
                "tx": Out(AxiStreamSignature(width)),
                "irq": Out(parameters.contexts),
                "trace": Out(TraceSignature()),
                **(MEMORY_CLOCK if memory_clock else {}),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.core = core = self._core
        m.submodules.registers_bus = registers_bus = AxiLite(ADDRESS_WIDTH)
        m.submodules.dma = dma = AxiDma(self._parameters.data_width)

        wiring.connect(m, wiring.flipped(self.bar), registers_bus.bus)
        connect_streams(m, registers_bus.accesses, core.accesses)
        connect_streams(m, core.read_data, registers_bus.read_data)

        m.submodules.line_order = order = LineOrder(
            self._parameters.data_width,
            lines=Requester.LINE_TABLE,
            writer=Requester.ANSWER_WRITER,
            reader=Requester.ANSWER_FETCH,
        )
        m.submodules.fence = fence = WriteFence()
        connect_streams(m, core.reads, order.i)
        connect_streams(m, order.o, dma.reads)
        connect_streams(m, dma.read_data, core.read_answers)
        connect_streams(m, core.writes, dma.writes)
        wiring.connect(m, dma.bus, wiring.flipped(self.host))
        m.d.comb += [
            order.i_user.eq(core.read_user),
            order.begun.eq(core.write_begun),
            order.answered.eq(dma.bus.bvalid & dma.bus.bready),
            fence.ask.eq(core.fence),
            fence.ordered.eq(order.ordered),
            fence.settled.eq(order.settled),
            fence.leaves.eq(1),
            core.fenced.eq(fence.done),
            dma.read_user.eq(order.o_user),
            dma.write_user.eq(core.write_user),
            core.write_error.eq(dma.write_error),
            self.irq.eq(core.irq),
        ]
        wiring.connect(m, core.trace, wiring.flipped(self.trace))
        connect_frames(m, core, self.rx, self.tx)
        if self._memory_clock:
            m.d.comb += [core.memory_clock.eq(self.memory_clock), self.memory_runs.eq(core.memory_runs)]
        return m
