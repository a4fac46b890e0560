"""The Verilog that the hardware is shipped and simulated as."""

from amoeba_hw.stream import Queue
from amoeba_hw.verilog import generate_verilog


def test_verilog_is_the_same_text_each_time_and_names_no_source_file():
    first, second = (generate_verilog(Queue(8, 3), "queue") for _ in range(2))
    assert first == second
    assert "\nmodule queue(" in first
    assert ".py" not in first


def test_the_top_ports_are_named_after_the_members_of_the_signature():
    text = generate_verilog(Queue(8, 3))
    for port in ("input clk", "input rst", "input i__valid", "output [7:0] o__payload", "output [1:0] level"):
        assert f"  {port};" in text
