"""The commands of synthesis, and the figures from the logs of place and route."""

import json
import os
import re

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_hw import synthesis
from amoeba_hw.synthesis import (
    SynthesisResult,
    ToolStoppedError,
    count_ecp5,
    nextpnr_version,
    occupied,
    progress,
    run_tool,
    run_yosys,
    synthesize,
)

PACKED = """\
Info: Device utilisation:
Info: \t              DP16KD:      29/    208    13%
Info: \t          MULT18X18D:      84/    156    53%
Info: \t          TRELLIS_FF:   30784/  83640    36%
Info: \t        TRELLIS_COMB:   52325/  83640    62%
"""
PLACED = PACKED + "Info: Max frequency for clock '$glbnet$clk': 45.98 MHz (FAIL at 125.00 MHz)\n"
ROUTING = (
    PLACED
    + """\
Info: Routing 218828 arcs.
Info:       1000 |        3        996 |    3   996 |    217943|       1.16       1.16|
Info:     107000 |    17437      89562 |  183   817 |    157646|       4.16     233.12|
"""
)
ROUTED = (
    ROUTING
    + """\
Info:     57 arcs ripped up due to negative slack WNS=-0.51ns TNS=-8.20ns.
Info:     31 arcs ripped up due to negative slack WNS=-0.43ns TNS=-4.05ns.
"""
)


def test_what_a_block_occupies_is_known_before_it_is_placed():
    assert occupied(PACKED) == SynthesisResult(52325, 30784, 84, 29, 0.0)
    assert occupied(PACKED, 103.5).frequency_mhz == 103.5


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (PACKED, "not placed"),
        (PLACED, "placed, 46 MHz estimated before routing"),
        (ROUTING, "placed, 46 MHz estimated before routing; 157,646 of 218,828 arcs not routed"),
        (ROUTED, "routed, 0.43 ns too slow, and what is too slow was being routed again"),
    ],
)
def test_a_stopped_run_says_how_far_it_got(log, words):
    assert progress(log) == words


def test_a_tool_that_fails_shows_the_end_of_its_log(tmp_path):
    with pytest.raises(ToolStoppedError, match="failed:\nbefore") as caught:
        run_tool(tmp_path, "python", "-c", "print('before'); raise SystemExit(3)")
    assert caught.value.log == "before\n"


def test_a_tool_that_takes_too_long_is_stopped(tmp_path):
    script = "import time; print('before', flush=True); time.sleep(60)"
    with pytest.raises(ToolStoppedError, match="did not finish within 2 s") as caught:
        run_tool(tmp_path, "python", "-c", script, timeout=2)
    assert caught.value.log == "before\n"


FAKE_YOSYS = """
class Design: pass
def run_pass(command, design): print(f"<{command}>")
"""


def test_yosys_runs_as_machine_code_where_it_is_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(synthesis, "native_yosys", lambda: True)
    (tmp_path / "pyosys").mkdir()
    (tmp_path / "pyosys" / "__init__.py").touch()
    (tmp_path / "pyosys" / "libyosys.py").write_text(FAKE_YOSYS)
    assert run_yosys(tmp_path, "read_rtlil top.il; tee -o stat.json stat").split("\n") == [
        "<read_rtlil top.il>",
        "<tee -o stat.json stat>",
        "",
    ]


def put_on_path(monkeypatch, folder, says):
    tool = folder / "nextpnr-ecp5"
    tool.write_text(f"#!/bin/sh\necho '{says}' \"$@\"\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return str(tool)


def test_nextpnr_runs_as_machine_code_where_it_is_on_the_path(tmp_path, monkeypatch):
    tool = put_on_path(monkeypatch, tmp_path, "nextpnr-ecp5 -- Next Generation Place and Route (Version 0.11.1-2)")
    assert nextpnr_version() == "0.11.1-2 (native)"
    assert "Place and Route" in run_tool(tmp_path, tool, "--seed", "1")
    assert "--seed 1" in (tmp_path / "nextpnr-ecp5.log").read_text()


def test_a_nextpnr_that_is_something_else_is_refused(tmp_path, monkeypatch):
    put_on_path(monkeypatch, tmp_path, "hello")
    with pytest.raises(ToolStoppedError, match="got:\nhello"):
        nextpnr_version()


def test_nextpnr_runs_as_webassembly_elsewhere(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert nextpnr_version().endswith("(WebAssembly)")


def test_yosys_runs_as_webassembly_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(synthesis, "native_yosys", lambda: False)
    run_yosys(tmp_path, "design -reset; tee -o said.txt log here")
    assert "here" in (tmp_path / "said.txt").read_text()
    with pytest.raises(ToolStoppedError, match="failed"):
        run_yosys(tmp_path, "read_rtlil missing.il")


class SumOfProducts(wiring.Component):
    """Two registered products of 16 bits, and their sum."""

    a: In(16).array(2)
    b: In(16).array(2)
    total: Out(33)

    def elaborate(self, platform):
        m = Module()
        products = [Signal(32, name=f"product_{index}", reset_less=True) for index in range(2)]
        for product, a, b in zip(products, self.a, self.b, strict=True):
            factors = [Signal(16, name=f"{product.name}_{side}", reset_less=True) for side in "ab"]
            m.d.sync += [factors[0].eq(a), factors[1].eq(b), product.eq(factors[0] * factors[1])]
        m.d.comb += self.total.eq(products[0] + products[1])
        return m


def test_a_block_is_counted_in_its_harness_with_the_registers_of_its_multipliers_moved():
    counted = count_ecp5(SumOfProducts())
    # Yosys makes one of what is held of a bit, and of the next bit that is shifted.
    shifted, result, folded = 64 + 1, 33, 9 + 3 + 1
    assert counted.registers == shifted + result + folded
    assert (counted.multipliers, counted.block_rams) == (2, 0)
    # The sum has a carry cell for every two bits; a bit that is left over is passed on without a LUT.
    assert counted.luts == 2 * 17 + 8 + 2 + 1


def test_all_pins_of_the_harness_have_their_sites(tmp_path, monkeypatch):
    tool = tmp_path / "nextpnr-ecp5"
    report = json.dumps({"fmax": {"clk": {"achieved": 123.4}}})
    tool.write_text(f"#!/bin/sh\ncp top.json top.lpf {tmp_path}\necho '{report}' > report.json\necho '{PACKED}'\n")
    tool.chmod(0o755)
    monkeypatch.setattr(synthesis, "_native_nextpnr", lambda: str(tool))
    assert synthesize(SumOfProducts()) == SynthesisResult(52325, 30784, 84, 29, 123.4)
    placed = dict(re.findall(r'LOCATE COMP "(\w+)" SITE "(\w+)";', (tmp_path / "top.lpf").read_text()))
    assert set(placed) == set(json.loads((tmp_path / "top.json").read_text())["modules"]["top"]["ports"])
    assert len(set(placed.values())) == len(placed)
