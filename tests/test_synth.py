"""``make synth``: its page, its levels of a block, and the tools that it fetches."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import artix7  # noqa: E402  where scripts are found from now on
import debian  # noqa: E402
import fpga_tools  # noqa: E402
import nic_levels  # noqa: E402
import synth  # noqa: E402
from amoeba_hw.artix7 import RoutedDesign  # noqa: E402
from amoeba_hw.stream import RegisterSlice  # noqa: E402
from amoeba_model.parameters import BUILDS  # noqa: E402
from rich.console import Console  # noqa: E402


def test_the_page_is_what_the_stored_figures_render():
    assert synth.PAGE.read_text() == synth.render(synth.load())


@pytest.mark.parametrize("name", synth.LEVELS_BY_DEFAULT)
def test_levels_and_area_of_whole_nics_are_published_with_tools_and_hashes(name):
    row = synth.load()["levels"][name]
    assert row["yosys"]
    assert len(row["rtlil"]) == 64
    blocks = row["blocks"]
    assert {"line_order", "core.read_hub", "core.write_hub", "core.initiator", "core.target", "core.memory"} <= {
        *blocks
    }
    assert row["paths"][0]["levels"] == max(block["levels"] for block in blocks.values())
    page = synth.PAGE.read_text()
    assert f"### {name}\n" in page
    assert f"Commit {row['commit']}, RTLIL {row['rtlil'][:12]}, Yosys {row['yosys']}, " in page


def test_levels_of_a_block_are_a_summary_of_its_paths():
    row = nic_levels.measure_block(RegisterSlice(8))
    assert row["blocks"][""]["registers"] == 9
    # Valid and payload wait for one LUT: not valid, or ready.
    assert row["blocks"][""]["levels"] == 1
    first, second = nic_levels.summary("RegisterSlice", row).splitlines()
    assert first.startswith("RegisterSlice: 1 levels of LUT4, ")
    assert second.startswith("  1: ")


def run(*arguments):
    command = [sys.executable, ROOT / "scripts" / "synth.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_name_that_nothing_has_is_refused_in_a_line():
    done = run("--levels", "Core2")
    assert done.returncode == 1
    assert done.stderr.startswith("expected a block of smallest, full, tiny, node, FastLanes, ")
    assert done.stderr.endswith("got 'Core2'\n")


# Artix-7 ------------------------------------------------------------------------------------------------------

ROUTED = {
    "luts": 50_000, "registers": 30_000, "carries": 900, "block_rams": 12, "multipliers": 0,
    "critical_path": [[0.0, "core.target.first"], [18.25, "core.target.second"]],
    "worst": [{"block": "core.target", "delay_ns": 19.0, "end": "core.target.second"}],
}  # fmt: skip
ROW = {
    "commit": "abc", "rtlil": "0123456789abcdef", "date": "2026-01-02", "yosys": "0.70 (native)", "nextpnr": "0.11.1",
    "cells": {"LUT2": 10, "LUT6": 20, "INV": 1, "RAM32M": 2, "FDRE": 7, "CARRY4": 3, "RAMB18E1": 73}, "seeds": {},
}  # fmt: skip


def test_only_a_nic_with_a_routed_seed_is_called_routed():
    lines = artix7.render_artix7({"node": ROW})
    assert "### node, synthesized" in lines
    assert "Yosys alone counts 39 LUT (0 % of 134,600), 8 of them LUT RAM," in lines
    assert "73 RAMB18 (10 %)." in lines
    stopped = {"stopped": "placed, 48 MHz estimated before routing; nextpnr failed"}
    lines = artix7.render_artix7({"node": {**ROW, "seeds": {"1": stopped}, "notes": ["The longest path is long."]}})
    assert lines[-1] == "The longest path is long."
    assert "### node, synthesized" in lines
    assert "| 1 | | | | | | placed, 48 MHz estimated before routing; nextpnr failed |" in lines


def test_routed_seeds_give_median_worst_and_the_slowest_path():
    seeds = {str(seed): {**ROUTED, "frequency_mhz": speed} for seed, speed in ((1, 52.31), (2, 50.04), (3, 55.0))}
    lines = artix7.render_artix7({"node": {**ROW, "seeds": seeds}})
    assert "### node, routed" in lines
    assert "Commit abc, RTLIL 0123456789ab, Yosys 0.70 (native), nextpnr 0.11.1, 2026-01-02." in lines
    assert "| 2 | 50,000 (37 %) | 30,000 | 900 | 12 | 0 | 50.0 |" in lines
    assert "Median 52.3 MHz, worst 50.0 MHz." in lines
    assert "| 18.2 | `core.target.second` |" in lines
    assert "| core.target | 19.0 | `core.target.second` |" in lines


def test_rows_of_nics_on_the_artix_7_name_tools_commit_and_hash():
    for row in synth.load().get(synth.ARTIX7, {}).values():
        assert all(row[name] for name in ("yosys", "nextpnr", "commit"))
        assert len(row["rtlil"]) == 64


def test_each_seed_is_a_row_whether_it_was_routed_or_stopped(monkeypatch, tmp_path):
    def place_and_route(folder, *, seed, frequency_mhz, timeout):
        assert (folder, frequency_mhz, timeout) == (tmp_path / "node", 50.0, 120)
        if seed == 2:
            raise synth.ToolStoppedError("late", "Max frequency for clock 'clk': 40.4 MHz")
        return RoutedDesign(1, 2, 3, 4, 5, 60.0, (), ())

    monkeypatch.setattr(artix7, "FOLDER", tmp_path)
    monkeypatch.setattr(artix7, "fetch_tools", lambda: tmp_path)
    monkeypatch.setattr(artix7, "tool_versions", lambda _: {artix7.ROUTER: "0.11.1"})
    monkeypatch.setattr(artix7, "write_netlist", lambda *_: "text")
    monkeypatch.setattr(artix7, "write_harness", lambda *_: None)
    monkeypatch.setattr(artix7, "count_cells", lambda _: {"LUT6": 1})
    monkeypatch.setattr(artix7, "place_and_route", place_and_route)
    monkeypatch.setenv("PATH", "/nowhere")
    former = {"2": {}, "3": {"frequency_mhz": 55.0}}
    before = {"rtlil": hashlib.sha256(b"text").hexdigest(), "seeds": former, "notes": ["Long."]}
    *_, row = artix7.route_nic("node", BUILDS["node"], before, commit="abc", seeds=(1, 2), minutes=2)
    assert row["seeds"]["1"]["frequency_mhz"] == 60.0
    assert row["seeds"]["2"] == {"stopped": "placed, 40 MHz estimated before routing; late"}
    assert os.environ["PATH"] == f"{tmp_path}{os.pathsep}/nowhere"
    assert row["seeds"]["3"] == {"frequency_mhz": 55.0}, "of the same hardware, measured before"
    assert "notes" not in row, "they are of what was measured before"
    (row,) = artix7.route_nic("node", BUILDS["node"], {**before, "rtlil": "other"}, commit="abc", seeds=(), minutes=2)
    assert row["seeds"] == {}


# Tools --------------------------------------------------------------------------------------------------------


def test_without_debians_tools_a_line_says_what_runs_instead(monkeypatch, tmp_path):
    def unpack(*_, **__):
        raise debian.OutOfReachError("apt-get failed: no network")

    monkeypatch.setattr(fpga_tools, "unpack", unpack)
    monkeypatch.setattr(synth, "fetch_tools", lambda: fpga_tools.fetch_tools(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    console = Console(record=True, width=200)
    synth.use_native_tools(console)
    assert console.export_text().splitlines() == [
        "no native nextpnr: apt-get failed: no network; PyPI's WebAssembly runs instead, several times slower"
    ]
    assert os.environ["PATH"] == "/nowhere"


def test_a_nextpnr_on_the_path_is_taken(monkeypatch, tmp_path):
    tool = tmp_path / "nextpnr-ecp5"
    tool.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(synth, "fetch_tools", pytest.fail)
    synth.use_native_tools(Console())
    assert os.environ["PATH"] == str(tmp_path)


def test_a_system_without_apt_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(debian.OutOfReachError, match="apt-get is not here, which fetches tools from Debian"):
        debian.unpack(tmp_path, "tools", ["yosys"], suites=["sid"])


def test_commands_are_written_again_after_an_interruption(monkeypatch, tmp_path):
    programs, libraries = tmp_path / "tools" / "usr" / "bin", tmp_path / "tools" / "usr" / "lib" / "x86_64-linux-gnu"
    programs.mkdir(parents=True)
    libraries.mkdir(parents=True)
    (tmp_path / "tools" / "usr" / "share" / "nextpnr").mkdir(parents=True)
    shutil.copy("/bin/true", libraries / "ld-linux-x86-64.so.2")
    for name in ("yosys", "yosys-abc", "nextpnr-ecp5", "nextpnr-himbaechel-xilinx", "ecppack"):
        (programs / name).write_bytes(b"/usr/share/nextpnr/ecp5")
    monkeypatch.setattr(fpga_tools, "unpack", lambda *_, **__: None)
    commands = fpga_tools.fetch_tools(tmp_path)
    (commands / "complete").unlink()
    assert fpga_tools.fetch_tools(tmp_path) == commands
    assert (programs / "nextpnr-ecp5").read_bytes() == b"/proc/self/fd/9////ecp5"
    assert (programs / "yosys-abc.program").read_bytes() == b"/usr/share/nextpnr/ecp5"
    assert f"'{programs}/yosys-abc.program'" in (programs / "yosys-abc").read_text()
    subprocess.run([commands / "yosys"], check=True)


def test_lists_of_packages_are_fetched_anew_after_a_failure(monkeypatch, tmp_path):
    called = []

    def run(*command):
        called.append("update" if "update" in command else "install")
        if called[-1] == "install":
            raise debian.OutOfReachError("apt-get failed: version not found")

    monkeypatch.setattr(debian, "_run", run)
    monkeypatch.setattr(debian.shutil, "which", lambda tool: f"/usr/bin/{tool}")
    monkeypatch.setattr(debian, "_KEYRING", __file__)
    for _ in range(2):
        with pytest.raises(debian.OutOfReachError, match="version not found"):
            debian.unpack(tmp_path, "tools", ["yosys=0.1"], suites=["sid"])
    assert called == ["update", "install"] * 2


def test_a_version_that_is_not_the_pinned_one_is_refused(tmp_path):
    for name in ("yosys", "nextpnr-ecp5", "nextpnr-himbaechel-xilinx", "ecppack"):
        (tmp_path / name).write_text("#!/bin/sh\necho 'Yosys 0.99 (git)'\n")
        (tmp_path / name).chmod(0o755)
    with pytest.raises(debian.OutOfReachError, match=r"expected yosys 0\.66-1, got Yosys 0\.99"):
        fpga_tools.tool_versions(tmp_path)


BLINK = """
module top(input clk, output reg led);
  always @(posedge clk) led <= ~led;
endmodule
"""


@pytest.fixture(scope="module")
def commands():
    try:
        return fpga_tools.fetch_tools()
    except debian.OutOfReachError as error:
        pytest.skip(str(error))


@pytest.mark.long
def test_debians_tools_have_the_pinned_versions(commands):
    assert len(fpga_tools.tool_versions(commands)) == 4


@pytest.mark.long
def test_debians_tools_make_a_bitstream_for_the_ecp5(commands, tmp_path):
    (tmp_path / "top.v").write_text(BLINK)
    for command, *arguments in (
        ("yosys", "-q", "-p", "read_verilog top.v; synth_ecp5 -top top -json top.json"),
        ("nextpnr-ecp5", "-q", "--um5g-85k", "--package", "CABGA756", "--json", "top.json", "--textcfg", "top.config",
         "--lpf-allow-unconstrained"),
        ("ecppack", "top.config", "top.bit"),
    ):  # fmt: skip
        subprocess.run([commands / command, *arguments], cwd=tmp_path, check=True)
    assert (tmp_path / "top.bit").stat().st_size > 1_000_000


@pytest.mark.long
def test_debians_tools_place_and_route_for_the_artix_7(commands, tmp_path):
    (tmp_path / "top.v").write_text(BLINK)
    (tmp_path / "top.xdc").write_text("set_property PACKAGE_PIN R4 [get_ports clk]\n"
                                      "set_property IOSTANDARD LVCMOS33 [get_ports clk]\n"
                                      "set_property PACKAGE_PIN T14 [get_ports led]\n"
                                      "set_property IOSTANDARD LVCMOS25 [get_ports led]\n")  # fmt: skip
    script = "read_verilog top.v; synth_xilinx -family xc7 -top top; write_json top.json"
    subprocess.run([commands / "yosys", "-q", "-p", script], cwd=tmp_path, check=True)
    arguments = ("--device", "xc7a200tsbg484-1", "--json", "top.json", "-o", "xdc=top.xdc", "-o", "fasm=top.fasm")
    subprocess.run([commands / "nextpnr-himbaechel-xilinx", "-q", *arguments], cwd=tmp_path, check=True)
    assert "INIT" in (tmp_path / "top.fasm").read_text()
