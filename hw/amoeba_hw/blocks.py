"""The blocks whose size is counted: by ``make synth`` for the record, by ``amoeba explore`` at any parameters."""

from collections.abc import Callable

from amaranth.hdl import DomainRenamer, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters

from amoeba_hw.atomic.control import Control, is_pipelined
from amoeba_hw.atomic.lanes import FastLanes
from amoeba_hw.atomic.measure import Measure, measured_operand
from amoeba_hw.atomic.pipeline import ArithmeticPipeline
from amoeba_hw.atomic.prepare import PrepareOperands, magnitudes, prepared_operands
from amoeba_hw.core import Core
from amoeba_hw.host.register_bank import RegisterBank
from amoeba_hw.initiator.initiator import Initiator
from amoeba_hw.memory.engine import MemoryEngine
from amoeba_hw.memory.operations import merge
from amoeba_hw.nic import Nic
from amoeba_hw.pcie.completer import Completer
from amoeba_hw.pcie.function_reset import FunctionReset
from amoeba_hw.pcie.host import PcieHost
from amoeba_hw.pcie.link_crossing import LinkCrossing
from amoeba_hw.pcie.msix_table import MsixTable
from amoeba_hw.pcie.ultrascale.link import UltraScaleLink
from amoeba_hw.target.target import Target
from amoeba_hw.wire.receiver import FrameReceiver
from amoeba_hw.wire.transmitter import FrameTransmitter

__all__ = ["BLOCKS", "PCIE_BLOCKS", "Block", "LanesLoop", "PreparedLanes", "UntracedNic", "fitting"]

Block = Callable[[NicParameters], wiring.Component]


class LanesLoop(wiring.Component):
    """FastLanes in their one-cycle read-modify-write, with the registers that they have in the atomic unit.

    All members are of the cycle before; ``forward`` says that the next target is the result, not ``target``.
    """

    def __init__(self, data_width: int, datatypes: tuple[Datatype, ...], ops: tuple[Op, ...], products: bool):
        self._lanes = FastLanes(data_width, datatypes, ops, products)
        super().__init__(
            {
                "control": In(Control),
                "prepared": In(prepared_operands(data_width)),
                "target": In(data_width),
                "forward": In(1),
                "result": Out(data_width),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.lanes = lanes = self._lanes
        next_targets = [Signal.like(self.target, name=f"next_target_{raised}") for raised in range(2)]
        for next_target, outcome in zip(next_targets, (lanes.if_not, lanes.if_raised), strict=True):
            m.d.comb += next_target.eq(Mux(self.forward, outcome, self.target))
        with m.If(self.forward & lanes.calculates):
            m.d.comb += next_targets[1].eq(lanes.calculated)
        m.d.comb += self.result.eq(lanes.result)
        if_not, if_raised = (magnitudes(self.prepared, next_target) for next_target in next_targets)
        for port, value in (
            (lanes.control, self.control),
            (lanes.prepared, self.prepared),
            (lanes.target, merge(lanes.raised, next_targets[1], next_targets[0])),
            (lanes.magnitudes, merge(lanes.raised, if_raised, if_not)),
        ):
            register = Signal.like(port, reset_less=True)
            m.d.sync += register.eq(value)
            m.d.comb += port.eq(register)
        return m


class PreparedLanes(wiring.Component):
    """LanesLoop behind Measure and PrepareOperands, each followed by a register, as in the atomic unit.

    Members are those of all, ``compared`` being Measure's value; ``target`` and ``forward`` belong to the operands of
    the cycle before.
    """

    def __init__(
        self,
        data_width: int,
        datatypes: tuple[Datatype, ...],
        ops: tuple[Op, ...] = tuple(Op),
        single_cycle_products: bool = False,
    ):
        self._measure = Measure(data_width, datatypes, ops)
        self._prepare = PrepareOperands(data_width, datatypes, ops)
        self._loop = LanesLoop(data_width, datatypes, ops, single_cycle_products)
        super().__init__(
            {
                "control": In(Control),
                "operand": In(data_width),
                "compare": In(data_width),
                "compared": In(data_width),
                "target": In(data_width),
                "forward": In(1),
                "result": Out(data_width),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.measure = measure = self._measure
        m.submodules.prepare = prepare = self._prepare
        m.submodules.loop = loop = self._loop
        control = Signal(Control, reset_less=True)
        operand, compare = (Signal.like(self.operand, name=f"{name}_1") for name in ("operand", "compare"))
        measured = Signal(measured_operand(len(self.operand)), reset_less=True)
        m.d.comb += [
            measure.control.eq(self.control),
            measure.value.eq(self.compared),
            prepare.control.eq(control),
            prepare.operand.eq(operand),
            prepare.compare.eq(compare),
            prepare.measured.eq(measured),
            loop.control.eq(control),
            loop.prepared.eq(prepare.prepared),
            loop.target.eq(self.target),
            loop.forward.eq(self.forward),
            self.result.eq(loop.result),
        ]
        m.d.sync += [
            control.eq(self.control),
            operand.eq(self.operand),
            compare.eq(self.compare),
            measured.eq(measure.measured),
        ]
        return m


class UntracedNic(wiring.Component):
    """A whole NIC, whose trace port is left open: synthesis removes it.

    Members are those of :class:`amoeba_hw.nic.Nic` but ``trace``.
    """

    def __init__(self, parameters: NicParameters):
        self._nic = Nic(parameters)
        super().__init__({name: member for name, member in self._nic.signature.members.items() if name != "trace"})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.nic = nic = self._nic
        own = {path: value for path, _, value in self.signature.flatten(self)}
        for path, member, value in nic.signature.flatten(nic):
            if path in own:
                m.d.comb += value.eq(own[path]) if member.flow == In else own[path].eq(value)
        return m


def fitting(parameters: NicParameters) -> tuple[Datatype, ...]:
    """Datatypes whose elements fit into a beat; wider ones the memory engine handles in another way."""
    return tuple(datatype for datatype in parameters.datatypes if datatype.size <= parameters.beat_bytes)


def _pipelined(parameters: NicParameters) -> tuple[Datatype, ...]:
    """Datatypes of which an operation takes the pipeline."""
    return tuple(
        datatype
        for datatype in fitting(parameters)
        if any(is_pipelined(op, datatype, parameters.single_cycle_products) for op in parameters.ops)
    )


BLOCKS: dict[str, tuple[str, Block]] = {
    "FastLanes": (
        "single-cycle lanes of the atomic unit and their PrepareOperands, all datatypes",
        lambda p: PreparedLanes(p.data_width, fitting(p), p.ops, p.single_cycle_products),
    ),
    "ArithmeticPipeline": (
        "sums and products of the atomic unit that take more than one cycle",
        lambda p: ArithmeticPipeline(p.data_width, _pipelined(p), p.ops),
    ),
    "MemoryEngine": ("the atomic unit: line table, lanes, pipeline, write-back", MemoryEngine),
    "Initiator": ("descriptors to requests, answers to completions", Initiator),
    "Target": ("PDC, keys, checks, answers", Target),
    "FrameTransmitter": ("frames out", FrameTransmitter),
    "FrameReceiver": ("frames in", FrameReceiver),
    "RegisterBank": ("the BAR", RegisterBank),
    "Core": ("the NIC without its buses", Core),
}
"""By name: what it is, and how it is made."""

PCIE_BLOCKS: dict[str, tuple[str, Block]] = {
    "PcieHost": (
        "PCI Express: the core's reads, writes and interrupts to packets and back; 1,024 lines, 256 tags",
        lambda p: PcieHost(p.data_width),
    ),
    "Completer": ("PCI Express: accesses to the BARs", lambda _: Completer()),
    "MsixTable": ("PCI Express: BAR 2, interrupts", lambda p: MsixTable(p.contexts)),
    "FunctionReset": ("PCI Express: function level reset", lambda _: FunctionReset()),
    "UltraScaleLink": ("PCI Express: adapters to the integrated block", lambda p: UltraScaleLink(p.data_width)),
    "LinkCrossing": (
        "PCI Express: to another clock than the NIC's; taken with one for both",
        lambda p: DomainRenamer({"link": "sync"})(LinkCrossing(p.data_width)),
    ),
}
"""The same of the NIC as a PCI function, at the widths of the integrated block."""
