"""Verilog of a component, the same bytes on every machine."""

import gc
import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager

from amoeba_hw.rtlil import generate_rtlil
from amoeba_hw.yosys import write_verilog

__all__ = ["generate_verilog", "with_loops", "without_collection"]

_EQUAL_ROWS = re.compile(
    r"^  initial begin\n"
    r"(    (?P<memory>\S+ ?)\[0\] = (?P<value>\S+);\n(?:    (?P=memory)\[\d+\] = (?P=value);\n)+)"
    r"  end\n",
    re.MULTILINE,
)
"""Yosys' initial block of a memory whose rows are all the same: a line for each."""


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
        return with_loops(write_verilog(generate_rtlil(component, name)))


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
