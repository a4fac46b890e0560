"""Netlists of an Artix-7's cells, and the figures from the reports of place and route."""

import json
import sys
from collections import Counter
from pathlib import Path

import pytest
from amaranth.hdl import Module
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out
from amoeba_hw.artix7 import (
    NETLIST,
    WorstPath,
    place_and_route,
    read_report,
    write_harness,
    write_netlist,
)
from amoeba_hw.synthesis import ToolStoppedError

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import fpga_tools


class TwoMemories(wiring.Component):
    """One memory for block RAM and one for LUT RAM, each of 40 bits."""

    address: In(10)
    data: In(40)
    enable: In(1)
    large: Out(40)
    small: Out(40)

    def elaborate(self, platform):
        m = Module()
        for rows, domain, read_data in ((1024, "sync", self.large), (16, "comb", self.small)):
            m.submodules[f"rows_{rows}"] = rows_ = memory.Memory(shape=40, depth=rows, init=[])
            write, read = rows_.write_port(), rows_.read_port(domain=domain)
            m.d.comb += [
                write.addr.eq(self.address),
                write.data.eq(self.data),
                write.en.eq(self.enable),
                read.addr.eq(self.address),
                read_data.eq(read.data),
            ]
        return m


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("artix7")
    component = TwoMemories()
    assert write_netlist(component, path).startswith("attribute ")
    write_harness(component, path)
    return path


def cells(path, module):
    found = json.loads(path.read_text())["modules"][module]["cells"].values()
    return Counter(cell["type"] for cell in found)


def test_a_netlist_has_the_components_ports_and_only_memories_that_nextpnr_times(folder):
    module = json.loads((folder / "netlist.json").read_text())["modules"][NETLIST]
    assert {name: len(port["bits"]) for name, port in module["ports"].items()} == {
        "clk": 1, "rst": 1, "address": 10, "data": 40, "enable": 1, "large": 40, "small": 40,
    }  # fmt: skip
    # 1,024 rows of 18, 18 and 4 bits; eight bits in each RAM32M.
    assert cells(folder / "netlist.json", NETLIST) == {"RAMB18E1": 3, "RAM32M": 5}
    assert f"module {NETLIST}(" in (folder / "netlist.v").read_text()


def test_the_harness_adds_pads_and_a_clock_buffer_around_the_same_cells(folder):
    found = cells(folder / "top.json", "top")
    assert (found["RAMB18E1"], found["RAM32M"]) == (3, 5)
    assert (found["IBUF"], found["OBUF"], found["BUFG"]) == (3, 1, 1)
    assert json.loads((folder / "top.json").read_text())["modules"]["top"]["ports"].keys() == {"clk", "rst", "i", "o"}


def step(kind, delay, start, end, net=None):
    ends = {"from": {"cell": start, "port": "Q"}, "to": {"cell": end, "port": "D"}}
    return {"type": kind, "delay": delay, **ends, **({"net": net} if net else {})}


CLOCK = "posedge clk"
REPORT = {
    "utilization": {
        "SLICE_LUTX": {"used": 5}, "SLICE_FFX": {"used": 2}, "CARRY4": {"used": 1},
        "RAMB18E1_RAMB18E1": {"used": 3}, "RAMB36E1_RAMB36E1": {"used": 0}, "DSP48E1_DSP48E1": {"used": 0},
    },
    "fmax": {"clk": {"achieved": 80.5}, "other": {"achieved": 90}},
    "critical_paths": [
        {"from": "async", "to": CLOCK, "path": [step("routing", 99.0, "pad", "first", "i")]},
        {
            "from": CLOCK,
            "to": CLOCK,
            "path": [
                step("clk-to-q", 0.35, "first", "first"),
                step("routing", 1.0, "first", "lut", "block.cells.nic.core.target.valid"),
                step("logic", 0.125, "lut", "lut"),
                step("routing", 2.0, "lut", "second", "$abc$7$new"),
                step("setup", 0.1, "second", "second"),
            ],
        },
    ],
    "detailed_net_timings": [
        {"endpoints": [{"cell": "second", "delay": [1.0, 4.25]}, {"cell": "first", "delay": [1.0, 3.0]}]},
        {"endpoints": [{"cell": "first", "delay": [1.0, 2.0]}]},
    ],
}  # fmt: skip
REGISTERS = {
    "modules": {
        "top": {
            "netnames": {
                "$1": {"bits": [2]},
                "block.cells.nic.core.target.valid": {"bits": [2]},
                "block.cells.nic.core.memory.table.row": {"bits": [3, 4]},
            },
            "cells": {
                "first": {"type": "FDRE", "connections": {"Q": [2]}},
                "second": {"type": "FDSE", "connections": {"Q": [4]}},
            },
        }
    }
}


def test_a_report_gives_size_speed_and_slow_paths_by_the_names_of_registers():
    routed = read_report(REPORT, REGISTERS)
    assert (routed.luts, routed.registers, routed.carries, routed.block_rams) == (5, 2, 1, 3)
    assert routed.frequency_mhz == 80.5
    assert routed.critical_path == (
        (0.0, "core.target.valid"),
        (1.35, "core.target.valid"),
        (3.58, "core.memory.table.row[1]"),
    )
    assert routed.worst == (
        WorstPath("core.memory", 4.25, "core.memory.table.row[1]"),
        WorstPath("core.target", 3.0, "core.target.valid"),
    )


def test_without_nextpnr_a_line_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ToolStoppedError, match="expected nextpnr-himbaechel-xilinx on the PATH"):
        place_and_route(tmp_path, seed=1, frequency_mhz=50)


@pytest.mark.long
def test_a_small_component_is_routed_with_its_memories_timed(folder, monkeypatch):
    try:
        monkeypatch.setenv("PATH", f"{fpga_tools.fetch_tools()}", prepend=":")
    except fpga_tools.OutOfReachError as error:
        pytest.skip(str(error))
    routed = place_and_route(folder, seed=1, frequency_mhz=50)
    assert (routed.block_rams, routed.multipliers) == (3, 0)
    assert routed.frequency_mhz > 50
    # The slowest path of shift registers around memories is that of a block RAM.
    assert routed.critical_path[0][1].startswith("rows_1024")
    assert (folder / "seed1" / "top.fasm").stat().st_size
