"""The Verilog that the hardware is shipped and simulated as."""

import pytest
from amoeba_hw.generate import parameters_from, write_nic
from amoeba_hw.stream import Queue
from amoeba_hw.verilog import generate_verilog
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters


def test_verilog_is_the_same_text_each_time_and_names_no_source_file():
    first, second = (generate_verilog(Queue(8, 3), "queue") for _ in range(2))
    assert first == second
    assert "\nmodule queue(" in first
    assert ".py" not in first


def test_the_top_ports_are_named_after_the_members_of_the_signature():
    text = generate_verilog(Queue(8, 3))
    for port in ("input clk", "input rst", "input i__valid", "output [7:0] o__payload", "output [1:0] level"):
        assert f"  {port};" in text


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
        (["ops=SUM+ADD"], "ops: expected some of MIN, .*, joined by [+], got 'ADD'"),
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
