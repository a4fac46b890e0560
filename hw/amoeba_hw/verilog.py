"""Verilog of a component, the same bytes on every machine."""

import gc
import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager

from amoeba_hw.rtlil import generate_rtlil
from amoeba_hw.yosys import write_verilog

__all__ = ["generate_verilog", "portable", "with_loops", "without_collection"]

_EQUAL_ROWS = re.compile(
    r"^  initial begin\n"
    r"(    (?P<memory>\S+ ?)\[0\] = (?P<value>\S+);\n(?:    (?P=memory)\[\d+\] = (?P=value);\n)+)"
    r"  end\n",
    re.MULTILINE,
)
"""Yosys' initial block of a memory whose rows are all the same: a line for each."""

_YOSYS_TRIGGER = re.compile(
    r"^  (?:reg \\\$auto\$verilog_backend\S+  = 0;|  if \(\\\$auto\$verilog_backend\S+ \) begin end)\n", re.MULTILINE
)
"""The register by which Yosys wants blocks to run at time zero, and its uses."""

_CONNECTION = re.compile(r"^  always @\*\n(    \S.*;\n)", re.MULTILINE)
"""A connection to bits of a register, whose other bits a block writes."""

_BLOCK = "  always @* begin\n"
_START = r"""  reg \$start ;
  // verilator lint_off INITIALDLY
  initial \$start  <= 1'h1;
  // verilator lint_on INITIALDLY
"""

_YOSYS_NAME = re.compile(r"\\\$auto\$[^\s:]+:\d+:(?=\S+\$\d+ )")
"""The beginning of a name that Yosys made: its own source line. The rest of the name is unique without it."""


@contextmanager
def without_collection() -> Iterator[None]:
    """No garbage collection inside: a design is millions of objects, none of them garbage before it is written.

    Elaboration otherwise spends a third of its time looking through them. Nests.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def generate_verilog(component, name="top"):
    """Verilog text of ``component`` as a module called ``name``, without source locations.

    Yosys writes it, from its wheel or the program that the environment variable ``YOSYS`` names. The wheels' versions
    are pinned, so that the text does not depend on the machine. Raises ``amaranth.back.verilog.YosysError`` if there
    is none.
    """
    with without_collection():
        return with_loops(portable(write_verilog(generate_rtlil(component, name))))


def portable(text):
    r"""Verilog as Yosys writes it, made to mean the same in every simulator and every viewer of waveforms.

    IEEE 1364 runs ``always @*`` when an input changes. Yosys writes blocks whose inputs are constants, or registers
    that begin with their values, so that nothing changes and the outputs stay unknown. Each block reads the register
    ``\$start`` too, which changes once. That assignment is nonblocking: all blocks wait for their inputs by then.

    GTKWave reads no names with the colons that Yosys writes.
    """
    modules = text.split("endmodule\n")
    return _YOSYS_NAME.sub(r"\\$", "endmodule\n".join(map(_started, modules)))


def _started(module):
    """Verilog of one module, whose combinational logic runs at time zero."""
    module = _YOSYS_TRIGGER.sub("", module)
    module = _CONNECTION.sub(r"  always @* begin\n\1  end\n", module)
    module = module.replace(_BLOCK, f"{_BLOCK}    if (\\$start ) begin end\n")
    return module.replace(_BLOCK, _START + _BLOCK, 1)


def with_loops(text):
    """Verilog as Yosys writes it, with a loop where all rows of a memory begin with the same value.

    Of the NIC's 28 megabytes ten are such rows. A simulator compiles every one of them, as statements of their own: a
    sixth of the time that its build takes.
    """
    numbers = itertools.count()

    def loop(match):
        rows, memory, value = match[1].count("\n"), match["memory"], match["value"]
        return (
            f"  initial begin : equal_rows_{next(numbers)}\n"
            "    integer row;\n"
            f"    for (row = 0; row < {rows}; row = row + 1)\n"
            f"      {memory}[row] = {value};\n"
            "  end\n"
        )

    return _EQUAL_ROWS.sub(loop, text)
