"""Models of primitives against Yosys' own, from the reset on and for all inputs; and what has no model."""

import json
from itertools import count

import pytest
from amoeba_hw.synthesis import run_yosys
from amoeba_sim.netlist.verilog import netlist_verilog
from amoeba_sim.nic_ports import BuildError

STEPS = 2
"""Clock cycles from the initial values that the proof covers: enough to read what was written."""


def lookups() -> str:
    """Instances of LUT1 to LUT6, of multiplexers, an inverter, buffers and a carry chain."""
    tables = {1: 0x1, 2: 0xB, 3: 0xE4, 4: 0xCA3C, 5: 0x6996_F00F, 6: 0x0123_4567_89AB_CDEF}
    lines = []
    for inputs, table in tables.items():
        pins = ", ".join(f".I{index}(i[{index}])" for index in range(inputs))
        lines.append(f"LUT{inputs} #(.INIT({1 << inputs}'h{table:x})) l{inputs} ({pins}, .O(o[{inputs}]));")
    return "\n".join(
        [
            *lines,
            "MUXF7 m7 (.I0(i[0]), .I1(i[1]), .S(i[2]), .O(o[7]));",
            "MUXF8 m8 (.I0(i[2]), .I1(i[3]), .S(i[4]), .O(o[8]));",
            "INV inverter (.I(i[0]), .O(o[9]));",
            "BUFG buffer (.I(i[1]), .O(o[10]));",
            "CARRY4 first (.CI(1'b0), .CYINIT(i[0]), .DI(i[4:1]), .S(i[8:5]), .O(o[14:11]), .CO(o[18:15]));",
            "CARRY4 second (.CI(o[18]), .CYINIT(1'b0), .DI(i[8:5]), .S(i[4:1]), .O(o[22:19]), .CO(o[26:23]));",
        ]
    )


def registers() -> str:
    """Registers of each kind, each value and both senses of their pins."""
    lines, number = [], count()
    for kind, pin in (("FDRE", "R"), ("FDSE", "S")):
        for init in (0, 1):
            for inverted in ("", f".IS_{pin}_INVERTED(1'b1), ", ".IS_D_INVERTED(1'b1), "):
                index = next(number)
                lines.append(
                    f"{kind} #({inverted}.INIT(1'b{init})) r{index} "
                    f"(.C(clk), .CE(i[0]), .{pin}(i[1]), .D(i[2]), .Q(o[{index}]));"
                )
    return "\n".join(lines)


def memories() -> str:
    """RAMs and shift registers, which share their inputs."""
    return """
    RAM32M #(.INIT_A(64'h123456789abcdef0), .INIT_D(64'hfedc)) ram32m (
        .ADDRA(i[4:0]), .ADDRB(i[5:1]), .ADDRC(i[6:2]), .ADDRD(i[7:3]), .DIA(i[9:8]), .DIB(i[10:9]), .DIC(i[11:10]),
        .DID(i[12:11]), .WCLK(clk), .WE(i[13]), .DOA(o[1:0]), .DOB(o[3:2]), .DOC(o[5:4]), .DOD(o[7:6]));
    RAM64M #(.INIT_B(64'h123456789abcdef0), .INIT_C(64'hfedc)) ram64m (
        .ADDRA(i[5:0]), .ADDRB(i[6:1]), .ADDRC(i[7:2]), .ADDRD(i[8:3]), .DIA(i[9]), .DIB(i[10]), .DIC(i[11]),
        .DID(i[12]), .WCLK(clk), .WE(i[13]), .DOA(o[8]), .DOB(o[9]), .DOC(o[10]), .DOD(o[11]));
    RAM32X1D #(.INIT(32'h6a5b4c3d)) ram32 (
        .A0(i[0]), .A1(i[1]), .A2(i[2]), .A3(i[3]), .A4(i[4]), .DPRA0(i[5]), .DPRA1(i[6]), .DPRA2(i[7]), .DPRA3(i[8]),
        .DPRA4(i[9]), .D(i[10]), .WCLK(clk), .WE(i[11]), .SPO(o[12]), .DPO(o[13]));
    RAM128X1D #(.INIT(128'h0123456789abcdeffedcba9876543210)) ram128 (
        .A(i[6:0]), .DPRA(i[13:7]), .D(i[14]), .WCLK(clk), .WE(i[15]), .SPO(o[14]), .DPO(o[15]));
    RAM128X1S #(.INIT(128'h5a23456789abcdeffedcba987654a510)) single (
        .A0(i[0]), .A1(i[1]), .A2(i[2]), .A3(i[3]), .A4(i[4]), .A5(i[5]), .A6(i[6]), .D(i[14]), .WCLK(clk),
        .WE(i[15]), .O(o[16]));
    SRL16E #(.INIT(16'h9d2c)) shift16 (
        .A0(i[0]), .A1(i[1]), .A2(i[2]), .A3(i[3]), .CE(i[4]), .CLK(clk), .D(i[5]), .Q(o[17]));
    SRLC32E #(.INIT(32'h9d2c1b3a)) shift32 (
        .A(i[4:0]), .CE(i[5]), .CLK(clk), .D(i[6]), .Q(o[18]), .Q31(o[19]));
    """


MITER = "; ".join(
    [
        "read_verilog -icells +/xilinx/cells_sim.v; read_verilog gold.v; prep -flatten -top gold; design -stash gold",
        "read_verilog -sv gate.v; prep -flatten -top gold; rename gold gate; design -stash gate",
        "design -copy-from gold -as gold gold; design -copy-from gate -as gate gate",
        "miter -equiv -flatten -make_assert gold gate miter",
        f"sat -verify -prove-asserts -set-def-inputs -tempinduct -tempinduct-baseonly -maxsteps {STEPS} miter",
    ]
)


@pytest.fixture(params=[lookups, registers, memories], ids=["lookups", "registers", "memories"])
def folder(request, tmp_path):
    """A folder with instances of Yosys' primitives, ``gold.v``, and with ours, ``gate.v``."""
    gold = f"module gold(input clk, input [15:0] i, output [31:0] o);\n{request.param()}\nendmodule\n"
    (tmp_path / "gold.v").write_text(gold)
    instances = "read_verilog -lib +/xilinx/cells_sim.v; read_verilog gold.v; hierarchy -top gold; select gold"
    run_yosys(tmp_path, f"{instances}; write_json -selected gold.json")
    (tmp_path / "gate.v").write_text(netlist_verilog(json.loads((tmp_path / "gold.json").read_text()), "gold"))
    return tmp_path


def test_primitives_do_what_yosys_says(folder):
    assert "Reached maximum number of time steps -> proved base case" in run_yosys(folder, MITER)


def netlist(type_: str, parameters: dict[str, str]) -> dict[str, object]:
    cell = {"type": type_, "parameters": parameters, "connections": {}}
    return {"modules": {"top": {"ports": {}, "cells": {"unit": cell}}}}


@pytest.mark.parametrize(
    ("type_", "parameters", "says"),
    [
        ("DSP48E1", {}, "primitives without a model: DSP48E1"),
        ("RAMB18E1", {"RAM_MODE": "TDP"}, "RAMB18E1 with two ports or an output register"),
        ("RAMB18E1", {"RAM_MODE": "SDP", "DOA_REG": "1"}, "RAMB18E1 with two ports or an output register"),
    ],
)
def test_primitives_without_a_model_are_refused(type_, parameters, says):
    with pytest.raises(BuildError, match=says):
        netlist_verilog(netlist(type_, parameters))
