# amaranth: UnusedElaboratable=no
"""Top levels of boards: Yosys elaborates them with the IPs as black boxes, whose ports are those of the lists.

Covers ``boards/board.py``, ``boards/cmac_block.py``, ``boards/cmac_receive.py``, ``boards/cmac_transmit.py``,
``boards/nic_clock.py``, ``boards/pcie_block.py`` and ``pcie/nic.py``.
"""

import json
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator
from amoeba_hw.boards.board import BOARDS
from amoeba_hw.boards.cmac_block import CmacBlock
from amoeba_hw.boards.cmac_receive import CmacReceive
from amoeba_hw.boards.cmac_transmit import CmacTransmit
from amoeba_hw.boards.nic_clock import NicClock
from amoeba_hw.boards.pcie_block import PcieBlock
from amoeba_hw.boards.top import BoardTop
from amoeba_hw.host.axi import AxiStreamSignature
from amoeba_hw.pcie.interfaces import PcieLinkSignature
from amoeba_hw.pcie.nic import PcieNic
from amoeba_hw.pcie.ultrascale.link import UltraScaleLink
from amoeba_hw.synthesis import run_yosys
from amoeba_hw.verilog import without_collection
from amoeba_model import pci
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import BAR_SIZE

FOLDER = Path(__file__).parents[3] / "hw" / "boards"
PRIMITIVES = {
    "IBUFDS_GTE4": {"I": "input", "IB": "input", "CEB": "input", "O": "output", "ODIV2": "output"},
    "BUFGCE_DIV": {"I": "input", "CE": "input", "CLR": "input", "O": "output"},
    "BUFGCE": {"I": "input", "CE": "input", "O": "output"},
    "MMCME4_BASE": {
        "CLKIN1": "input", "CLKFBIN": "input", "RST": "input", "PWRDWN": "input",
        "CLKFBOUT": "output", "CLKOUT0": "output", "LOCKED": "output",
    },
}  # fmt: skip
OWN_CLOCKS = {
    f"{name} at {mhz} MHz": replace(BOARDS[name], nic_mhz=mhz) for name, mhz in (("u200", 200), ("u50", 320))
}
TOPS = {**BOARDS, **OWN_CLOCKS}
"""The designs that are elaborated: every board, and some with a clock of the NIC's own."""


class StandIn(wiring.Component):
    """A NIC that sends back what it receives, and answers nothing."""

    link: Out(PcieLinkSignature(512))
    rx: In(AxiStreamSignature(512))
    tx: Out(AxiStreamSignature(512))
    reset_request: In(1)
    reset_done: Out(1)

    def elaborate(self, platform):
        m = Module()
        wiring.connect(m, wiring.flipped(self.rx), wiring.flipped(self.tx))
        m.d.sync += self.reset_done.eq(self.reset_request)
        return m


def ports(name):
    return json.loads((FOLDER / "ports" / f"{name}.json").read_text())["ports"]


def black_boxes(board):
    """Verilog of what the top level instantiates."""
    modules = {
        f"{ip}_0": {name: (direction, width) for name, (direction, width) in ports(ip).items()}
        for ip in (board.pcie, "cmac_usplus")
    }
    modules |= {
        name: {port: (direction, 1) for port, direction in each.items()} for name, each in PRIMITIVES.items()
    }
    parameters = {
        "IBUFDS_GTE4": "parameter REFCLK_HROW_CK_SEL = 0;",
        "BUFGCE_DIV": "parameter BUFGCE_DIVIDE = 1;",
        "MMCME4_BASE": "parameter CLKIN1_PERIOD = 0.0; parameter CLKFBOUT_MULT_F = 5.0; "
        "parameter CLKOUT0_DIVIDE_F = 1.0;",
    }
    return "\n".join(
        f"(* blackbox *) module {module} ({', '.join(each)}); {parameters.get(module, '')}\n"
        + "".join(f"  {direction} [{width - 1}:0] {name};\n" for name, (direction, width) in each.items())
        + "endmodule"
        for module, each in modules.items()
    )


def connections(text, module):
    """Ports that the only cell of this kind in RTLIL connects."""
    (cell,) = re.findall(rf"^  cell \\{module} .*?^  end$", text, re.M | re.S)
    return set(re.findall(r"^    connect \\(\S+) ", cell, re.M))


@pytest.mark.parametrize("name", TOPS)
def test_the_top_level_drives_every_input_of_the_ips_and_names_no_other_port(name):
    board = TOPS[name]
    text = rtlil.convert(BoardTop(board, StandIn()))
    for ip in (board.pcie, "cmac_usplus"):
        listed, connected = ports(ip), connections(text, f"{ip}_0")
        inputs = {port for port, (direction, _) in listed.items() if direction == "input"}
        assert connected <= set(listed)
        assert inputs <= connected, "an input is left open"


@pytest.mark.parametrize(
    ("block", "ip"),
    [
        (PcieBlock("pcie4_uscale_plus"), "pcie4_uscale_plus"),
        (PcieBlock("pcie4c_uscale_plus"), "pcie4c_uscale_plus"),
        (PcieBlock("pcie4c_uscale_plus", crosses=True), "pcie4c_uscale_plus"),
        (CmacBlock(), "cmac_usplus"),
    ],
    ids=["pcie4", "pcie4c", "pcie4c across", "cmac"],
)
def test_what_is_connected_has_direction_and_width_of_the_list(block, ip):
    listed = ports(ip)
    instance, _ = block.elaborate(None)._named_submodules["block"]
    assert instance.type == f"{ip}_0"
    directions = {"i": "input", "o": "output"}
    found = {name: [directions[kind], len(value)] for name, (value, kind) in instance.ports.items()}
    assert found == {name: listed[name] for name in found}


@pytest.mark.parametrize("name", TOPS)
def test_yosys_elaborates_it_with_the_ips_as_black_boxes(name, tmp_path):
    """``hierarchy -check`` finds modules and ports that are not there."""
    board = TOPS[name]
    (tmp_path / "top.il").write_text(rtlil.convert(BoardTop(board, StandIn())))
    (tmp_path / "boxes.v").write_text(black_boxes(board))
    run_yosys(
        tmp_path,
        "read_verilog -lib boxes.v; read_rtlil top.il; hierarchy -check -top top; proc; "
        "check -assert; select -assert-count 1 t:cmac_usplus_0; "
        f"select -assert-count 1 t:{board.pcie}_0; tee -o stat.txt stat -top top",
    )
    assert "cells" in (tmp_path / "stat.txt").read_text()


@pytest.mark.parametrize("name", OWN_CLOCKS)
def test_a_nic_s_own_clock_is_made_once_with_the_frequency_asked_for(name, tmp_path):
    board = OWN_CLOCKS[name]
    text = rtlil.convert(BoardTop(board, StandIn()))
    mmcm = re.search(r"^  cell \\MMCME4_BASE .*?^  end$", text, re.M | re.S)[0]
    settings = dict(re.findall(r"parameter real \\(\w+) \"?([\d.]+)", mmcm))
    names = ("CLKIN1_PERIOD", "CLKFBOUT_MULT_F", "CLKOUT0_DIVIDE_F")
    period, times, divider = (float(settings[name]) for name in names)
    assert 800 <= 1000 / period * times <= 1600
    assert 1000 / period * times / divider == board.nic_mhz
    assert divider * 8 == int(divider * 8)
    (tmp_path / "top.il").write_text(text)
    (tmp_path / "boxes.v").write_text(black_boxes(board))
    run_yosys(
        tmp_path,
        "read_verilog -lib boxes.v; read_rtlil top.il; hierarchy -check -top top; proc; "
        "select -assert-count 1 t:MMCME4_BASE; select -assert-count 1 t:BUFGCE",
    )


def test_a_clock_that_the_mmcm_cannot_make_is_refused():
    with pytest.raises(ValueError, match=r"one of 50, .*, 200, 250, 320, 400 MHz for the NIC.s clock, got 300"):
        NicClock(300)


@pytest.mark.parametrize("crosses", [False, True])
def test_credits_are_left_for_reads_that_come_late(crosses):
    """READS_LATE more where reads cross from another clock."""
    adapter = PcieBlock("pcie4_uscale_plus", crosses=crosses).adapter
    fewest = 4 + 6 * crosses
    found = {}

    async def look(ctx):
        for credits in range(16):
            ctx.set(adapter.tfc_nph_av, credits)
            found[credits] = ctx.get(adapter.link.read_credit)

    simulator = Simulator(adapter)
    simulator.add_clock(1e-6)
    simulator.add_testbench(look)
    simulator.run()
    assert found == {credits: credits > fewest for credits in range(16)}


@pytest.mark.parametrize("margin", [3, 15])
def test_a_margin_that_the_block_cannot_tell_is_refused(margin):
    with pytest.raises(ValueError, match=f"margin of 4 to 14 credits for reads, got {margin}"):
        UltraScaleLink(512, read_margin=margin)


@pytest.mark.long
def test_a_nic_with_one_operation_stands_on_a_board(tmp_path):
    """All blocks of the NIC, with little arithmetic in them: the whole one takes minutes to elaborate."""
    board = BOARDS["u50"]
    parameters = NicParameters(
        data_width=512, contexts=2, peers=8, lines=8, datatypes=(Datatype.FI_UINT64,), ops=(Op.FI_SUM,)
    )
    with without_collection():
        text = rtlil.convert(BoardTop(board, PcieNic(parameters)))
    (tmp_path / "top.il").write_text(text)
    (tmp_path / "boxes.v").write_text(black_boxes(board))
    run_yosys(tmp_path, "read_verilog -lib boxes.v; read_rtlil top.il; hierarchy -check -top top")


@pytest.mark.parametrize("name", ["u200", "u50"])
def test_every_pin_has_a_place_and_no_two_have_the_same(name):
    text = (FOLDER / name / "pins.xdc").read_text()
    placed = re.findall(r"LOC (\w+).*\[get_ports \{?([\w\[\]]+?)\}?\]$", text, re.M)
    assert len({place for place, _ in placed}) == len(placed)
    top = BoardTop(BOARDS[name], StandIn())
    pins = {
        pin if width == 1 else f"{pin}[{index}]"
        for pin, member in top.signature.members.items()
        for width in (len(getattr(top, pin)),)
        for index in range(width)
        if not re.search(r"_n$", pin) or pin == "pcie_reset_n"
        if member.is_port
    }
    assert {pin for _, pin in placed} == pins


def test_the_configuration_of_the_ip_is_that_of_the_model():
    values = dict(re.findall(r"CONFIG\.(\w+) \{(.*?)\}", (FOLDER / "pcie.tcl").read_text()))
    assert int(values["vendor_id"], 16) == pci.VENDOR_ID
    assert int(values["PF0_DEVICE_ID"], 16) == pci.DEVICE_ID
    assert int(values["PF0_REVISION_ID"], 16) == pci.REVISION
    assert int(values["PF0_CLASS_CODE"], 16) == pci.CLASS_CODE
    assert int(values["pf0_bar0_size"]) << 10 == BAR_SIZE
    assert int(values["pf0_bar2_size"]) << 10 == pci.MSIX_BAR_SIZE
    assert int(values["PF0_MSIX_CAP_PBA_OFFSET"], 16) == pci.MSIX_PBA_OFFSET
    assert int(values["PF0_MSIX_CAP_TABLE_SIZE"], 16) == NicParameters().contexts - 1
    assert values["PF0_MSIX_CAP_TABLE_BIR"] == values["PF0_MSIX_CAP_PBA_BIR"] == "BAR_3:2"
    assert pci.MSIX_BAR == 2
    assert {value for name, value in values.items() if "STRADDLE" in name} == {"false"}


# Frames


def run_frames(dut, frames, *, gaps, waits, error=lambda number: False):
    """(beats that came out, cycle of each, pulses of dropped): frames are lists of numbers, a beat each."""
    out, dropped = [], []
    rng = random.Random(3)
    total = sum(len(frame) for frame in frames)

    async def send(ctx):
        for number, frame in enumerate(frames):
            for index, value in enumerate(frame):
                while rng.random() < gaps:
                    ctx.set(dut.i.tvalid, 0)
                    await ctx.tick()
                ctx.set(dut.i.tvalid, 1)
                ctx.set(dut.i.tdata, value)
                ctx.set(dut.i.tkeep, 0xFF)
                ctx.set(dut.i.tlast, index == len(frame) - 1)
                if hasattr(dut, "error"):
                    ctx.set(dut.error, index == len(frame) - 1 and error(number))
                await ctx.tick().until(dut.i.tready)
        ctx.set(dut.i.tvalid, 0)

    async def take(ctx):
        for cycle in range(8 * total + 400):
            ctx.set(dut.o.tready, rng.random() >= waits)
            watched = [dut.o.tvalid, dut.o.tready, dut.o.tdata, dut.o.tlast]
            watched += [dut.dropped] if hasattr(dut, "dropped") else []
            _, _, valid, ready, data, last, *drop = await ctx.tick().sample(*watched)
            if valid:
                out.append((cycle, data, last, ready))
            if drop and drop[0]:
                dropped.append(cycle)

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(send)
    simulator.add_testbench(take)
    simulator.run()
    return out, dropped


def make_frames(count, longest):
    rng = random.Random(7)
    return [[rng.getrandbits(64) for _ in range(rng.randint(1, longest))] for _ in range(count)]


def frames_of(out):
    found, frame = [], []
    for _, data, last, ready in out:
        if ready:
            frame.append(data)
            if last:
                found.append(frame)
                frame = []
    assert frame == []
    return found


@pytest.mark.parametrize(("gaps", "waits"), [(0, 0), (0.6, 0), (0.6, 0.3), (0, 0.5)])
def test_a_frame_goes_out_without_gaps_however_it_came(gaps, waits):
    frames = make_frames(40, 30)
    out, _ = run_frames(CmacTransmit(64, 32), frames, gaps=gaps, waits=waits)
    assert frames_of(out) == frames
    inside = None
    for cycle, _, last, ready in out:
        assert inside in (None, cycle - 1), "a gap within a frame"
        inside = None if last and ready else cycle


@pytest.mark.parametrize("gaps", [0, 0.5])
def test_damaged_frames_are_dropped_and_others_are_not(gaps):
    frames = make_frames(40, 30)
    bad = {3, 4, 17, 39}
    out, dropped = run_frames(CmacReceive(64, 128), frames, gaps=gaps, waits=0, error=bad.__contains__)
    assert frames_of(out) == [frame for number, frame in enumerate(frames) if number not in bad]
    assert len(dropped) == len(bad)


def test_frames_without_space_are_dropped_as_a_whole():
    frames = make_frames(60, 20)
    out, dropped = run_frames(CmacReceive(64, 32), frames, gaps=0, waits=0.6)
    found = frames_of(out)
    assert dropped
    assert len(found) + len(dropped) == len(frames)
    rest = iter(frames)
    assert all(frame in rest for frame in found), "whole frames, in order"
