# amaranth: UnusedElaboratable=no
"""Every path from one clock to another on the boards has a named synchronizer; small designs have none."""

from dataclasses import replace

import pytest
from amaranth.hdl import ClockDomain, ClockSignal, Instance, Module, ResetSignal, Signal
from amaranth.lib import cdc, fifo, memory, wiring
from amaranth.lib.wiring import In, Out
from amoeba_hw.analysis.crossings import UNCLOCKED, clock_crossings
from amoeba_hw.analysis.design import ElaboratedDesign
from amoeba_hw.boards.board import BOARDS
from amoeba_hw.boards.top import BoardTop
from amoeba_hw.pcie.nic import PcieNic
from amoeba_model.parameters import BUILDS

from tests.hw.boards.test_top import StandIn


class TwoClocks(wiring.Component):
    """A bit from one clock to the other, by what ``cross`` adds."""

    clk_a: In(1)
    clk_b: In(1)
    i: In(8)
    o: Out(8)

    def __init__(self, cross):
        self._cross = cross
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        for name in ("a", "b"):
            domain = ClockDomain(name, reset_less=True)
            m.domains += domain
            m.d.comb += domain.clk.eq(getattr(self, f"clk_{name}"))
        sent = Signal(8)
        m.d.a += sent.eq(self.i)
        self._cross(m, sent, self.o)
        return m


def unsynchronized(component, clocks=None):
    clocks = {"i": "clk_a"} if clocks is None else clocks
    found = clock_crossings(ElaboratedDesign(component), clocks)
    return {(each.source, each.target) for each in found if not each.synchronizer}


def direct(m, sent, o):
    m.d.b += o.eq(sent)


def with_logic(m, sent, o):
    m.submodules.late = cdc.FFSynchronizer(sent + 1, o, o_domain="b")


def synchronized(m, sent, o):
    m.submodules.late = cdc.FFSynchronizer(sent, o, o_domain="b")


def queued(m, sent, o):
    m.submodules.queue = queue = fifo.AsyncFIFO(width=8, depth=4, w_domain="a", r_domain="b")
    m.d.comb += [queue.w_data.eq(sent), queue.w_en.eq(1), queue.r_en.eq(1)]
    m.d.b += o.eq(queue.r_data)


def stored(m, sent, o, *, domain="b"):
    m.submodules.rows = rows = memory.Memory(shape=8, depth=4, init=[])
    write, read = rows.write_port(domain="a"), rows.read_port(domain=domain)
    m.d.comb += [write.en.eq(1), write.data.eq(sent)]
    m.d.b += o.eq(read.data)


def stored_without_clock(m, sent, o):
    stored(m, sent, o, domain="comb")


def test_a_register_of_another_clock_is_found():
    assert unsynchronized(TwoClocks(direct)) == {("sent", "o")}


def test_a_synchronizer_takes_registers_and_no_logic():
    assert unsynchronized(TwoClocks(synchronized)) == set()
    assert unsynchronized(TwoClocks(with_logic)) == {("sent", "late.stage0")}


def test_an_asynchronous_queue_crosses():
    assert unsynchronized(TwoClocks(queued)) == set()


@pytest.mark.parametrize(
    ("cross", "path"),
    [(stored, ("rows", "read__data")), (stored_without_clock, ("read__data", "o"))],
)
def test_a_memory_between_two_clocks_is_found(cross, path):
    assert unsynchronized(TwoClocks(cross)) == {path}


def test_an_input_needs_its_clock_stated():
    component = TwoClocks(synchronized)
    found = clock_crossings(ElaboratedDesign(component))
    assert {(each.source, each.from_clock, each.target) for each in found if not each.synchronizer} == {
        ("i", UNCLOCKED, "sent")
    }


class Primitive(wiring.Component):
    """A black box whose output a register takes."""

    clk: In(1)
    o: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = ClockDomain(reset_less=True)
        m.d.comb += ClockSignal().eq(self.clk)
        value = Signal()
        m.submodules.box = Instance("BOX", i_clk=self.clk, o_value=value)
        m.d.sync += self.o.eq(value)
        return m


def test_an_output_of_a_primitive_needs_its_clock_stated():
    assert unsynchronized(Primitive()) == {("BOX.value", "o")}
    assert unsynchronized(Primitive(), {"BOX": "clk"}) == set()
    assert unsynchronized(Primitive(), {"BOX": "another"}) == {("BOX.value", "o")}


class AsynchronousReset(wiring.Component):
    """A register that another clock's register resets at any time."""

    clk_a: In(1)
    clk_b: In(1)
    i: In(1)
    o: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.domains.a = ClockDomain(reset_less=True)
        m.domains.b = ClockDomain(async_reset=True)
        cause = Signal()
        m.d.comb += [ClockSignal("a").eq(self.clk_a), ClockSignal("b").eq(self.clk_b), ResetSignal("b").eq(cause)]
        m.d.a += cause.eq(self.i)
        m.d.b += self.o.eq(1)
        return m


def test_an_asynchronous_reset_is_a_path():
    assert unsynchronized(AsynchronousReset()) == {("cause", "o")}


def stated_clocks(board):
    """Return the clock of all that the two integrated blocks drive: each has one for its user."""
    pcie, cmac = f"pcie.{board.pcie}_0", "cmac.cmac_usplus_0"
    return {pcie: f"{pcie}.user_clk", cmac: f"{cmac}.gt_txusrclk2"}


def assert_synchronized(board, nic):
    found = clock_crossings(ElaboratedDesign(BoardTop(board, nic)), stated_clocks(board))
    assert [str(each) for each in sorted(found) if not each.synchronizer] == []
    clocks = {each.from_clock for each in found} | {each.to_clock for each in found}
    assert len(clocks - {UNCLOCKED}) == (2 if board.nic_mhz is None else 3)


@pytest.mark.parametrize("name", sorted(BOARDS))
@pytest.mark.parametrize("nic_mhz", [None, 200])
def test_every_path_between_clocks_of_a_board_has_a_named_synchronizer(name, nic_mhz):
    assert_synchronized(replace(BOARDS[name], nic_mhz=nic_mhz), StandIn())


@pytest.mark.long
def test_the_nic_itself_adds_no_other_path_between_clocks():
    nic = PcieNic(replace(BUILDS["tiny"], data_width=512))
    assert_synchronized(replace(BOARDS["u200"], nic_mhz=200), nic)
