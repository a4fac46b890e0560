"""The ports of a NIC, as the C++ harness of ``sim/harness`` finds them: checks, registers and a C++ header."""

import re
from dataclasses import dataclass
from pathlib import Path

from amaranth.hdl import Shape
from amaranth.lib import data
from amoeba_hw.host.register_bank import ADDRESS_WIDTH
from amoeba_hw.pcie.interfaces import (
    CONFIGURATION,
    REGISTER_COMPLETION,
    REGISTER_REQUEST,
    completion_beat,
    request_beat,
)
from amoeba_model.pci import MSIX_BAR, REGISTER_BAR

__all__ = [
    "BOUNDARY", "BuildError", "Port", "check_nic_ports", "harness_sources", "ports_header", "ports_of",
    "registered_inputs",
]  # fmt: skip

CLOCKS = ("clk", "memory_clock")

BOUNDARY = "boundary"
"""The module that :func:`registered_inputs` writes."""


class BuildError(Exception):
    """A simulation could not be built: a tool is missing, or rejected its input, or a port of the NIC is wrong."""


@dataclass(frozen=True)
class Port:
    """One port of a module."""

    name: str
    direction: str
    """``input`` or ``output``."""
    width: int


def ports_of(verilog: str, top: str) -> dict[str, Port]:
    """Parse the ports of module ``top`` in Verilog as Amaranth writes it (one declaration to a line)."""
    module = re.search(rf"^module {re.escape(top)}\b.*?^endmodule", verilog, re.MULTILINE | re.DOTALL)
    if module is None:
        raise BuildError(f"Expected a module {top!r} in the Verilog, found none")
    declaration = re.compile(r"^\s*(input|output)\s+(?:wire\s+)?(?:\[(\d+):0\]\s*)?(\w+)\s*;", re.MULTILINE)
    return {name: Port(name, direction, int(msb or 0) + 1) for direction, msb, name in declaration.findall(module[0])}


# Port groups of the NIC: names and widths, 0 where the width is free, W for the data path, K for W / 8; of the
# streams of a NIC on PCI Express Q for requests, C for completions.
_INPUTS = """
clk 1, rst 1, rx__tdata W, rx__tkeep K, rx__tlast 1, rx__tvalid 1, tx__tready 1
"""
_OUTPUTS = """
rx__tready 1, tx__tdata W, tx__tkeep K, tx__tlast 1, tx__tvalid 1
"""
_AXI_INPUTS = """
bar__awaddr 0, bar__awvalid 1, bar__wdata 32, bar__wstrb 4, bar__wvalid 1, bar__bready 1,
bar__araddr 0, bar__arvalid 1, bar__rready 1,
host__awready 1, host__wready 1, host__bid 0, host__bresp 2, host__bvalid 1,
host__arready 1, host__rid 0, host__rdata W, host__rresp 2, host__rlast 1, host__rvalid 1
"""
_AXI_OUTPUTS = """
bar__awready 1, bar__wready 1, bar__bresp 2, bar__bvalid 1, bar__arready 1, bar__rdata 32, bar__rresp 2,
bar__rvalid 1,
host__awid 0, host__awaddr 64, host__awlen 8, host__awsize 3, host__awburst 2, host__awuser 16, host__awvalid 1,
host__wdata W, host__wstrb K, host__wlast 1, host__wvalid 1, host__bready 1,
host__arid 0, host__araddr 64, host__arlen 8, host__arsize 3, host__arburst 2, host__aruser 16, host__arvalid 1,
host__rready 1, irq 0
"""
_PCIE_INPUTS = """
link__requests__ready 1, link__read_credit 1, link__completions__payload C, link__completions__valid 1,
link__register_requests__payload 256, link__register_requests__valid 1, link__register_completions__ready 1,
link__configuration 12, reset_request 1
"""
_PCIE_OUTPUTS = """
link__requests__payload Q, link__requests__valid 1, link__completions__ready 1, link__register_requests__ready 1,
link__register_completions__payload 128, link__register_completions__valid 1, reset_done 1
"""
_DATA_WIDTHS = (64, 128, 256, 512)


def _on_pcie(ports: dict[str, Port]) -> bool:
    return "link__requests__valid" in ports


def check_nic_ports(ports: dict[str, Port]) -> None:
    """Raise BuildError if these are not the ports of a NIC that the harness can drive."""
    data_width = ports["rx__tdata"].width if "rx__tdata" in ports else 0
    if data_width not in _DATA_WIDTHS:
        raise BuildError(f"Expected rx__tdata of 64, 128, 256 or 512 bits, got {data_width or 'no such port'}")
    symbols = {"W": data_width, "K": data_width // 8}
    if _on_pcie(ports):
        symbols |= {
            "Q": Shape.cast(request_beat(data_width)).width,
            "C": Shape.cast(completion_beat(data_width)).width,
        }
    inputs, outputs = (_PCIE_INPUTS, _PCIE_OUTPUTS) if _on_pcie(ports) else (_AXI_INPUTS, _AXI_OUTPUTS)
    problems = []
    for direction, tables in (("input", (_INPUTS, inputs)), ("output", (_OUTPUTS, outputs))):
        for name, width in (entry.split() for table in tables for entry in table.split(",")):
            expected = symbols.get(width) or int(width)
            port = ports.get(name)
            if port is None or port.direction != direction or expected not in (0, port.width):
                got = f"{port.direction} of {port.width} bits" if port else "nothing"
                problems.append(f"expected {direction} {name} of {expected or 'any'} bits, got {got}")
    if "irq" in ports and ports["irq"].width > 64:
        problems.append(f"expected irq of at most 64 bits, got {ports['irq'].width}")
    for stage in _trace_stages(ports):
        if ports.get(f"trace__{stage}__data", Port("", "", 65)).width > 64:
            problems.append(f"expected output trace__{stage}__data of at most 64 bits")
    if problems:
        raise BuildError("The NIC's ports do not fit the harness: " + "; ".join(problems))


def _trace_stages(ports: dict[str, Port]) -> list[str]:
    return [found[1] for name in ports if (found := re.fullmatch(r"trace__(\w+)__valid", name))]


def ports_header(ports: dict[str, Port]) -> str:
    """Generate the part of the harness that depends on the design: widths, and the trace stages as a macro list."""

    def member(name: str) -> str:
        # How Verilator spells a port in C++, where names with two underscores are reserved.
        return name.replace("__", "___05F")

    stages = " ".join(
        f'X({index}, "{stage}", {member(f"trace__{stage}__valid")}, {member(f"trace__{stage}__data")})'
        for index, stage in enumerate(_trace_stages(ports))
    )
    data_width = ports["rx__tdata"].width
    return (
        "// Generated from the ports of the design.\n"
        '#pragma once\n#include "Vtop.h"\n'
        f"constexpr unsigned DATA_WIDTH = {data_width};\n"
        f"constexpr unsigned BAR_BITS = {ADDRESS_WIDTH if _on_pcie(ports) else ports['bar__awaddr'].width};\n"
        f"#define TRACE_STAGES(X) {stages}\n"
        f"#define AMOEBA_MEMORY_CLOCK {int('memory_clock' in ports)}\n"
        f"#define AMOEBA_PCIE {int(_on_pcie(ports))}\n" + (_pcie_header(data_width) if _on_pcie(ports) else "")
    )


def _pcie_header(data_width: int) -> str:
    """Where the fields of packets lie in the payloads of their streams."""

    def fields(layout: data.StructLayout) -> dict[str, data.Field]:
        """Merge the fields of a header with the beat's own."""
        inner = {name: field for name, field in layout if isinstance(field.shape, data.StructLayout)}
        below = {name: field for header in inner.values() for name, field in header.shape}
        return {name: field for name, field in (below | dict(layout)).items() if name not in inner}

    layouts = {
        "request_header": request_beat(data_width),
        "completion_header": completion_beat(data_width),
        "register_request": REGISTER_REQUEST,
        "register_completion": REGISTER_COMPLETION,
        "configuration": CONFIGURATION,
    }
    lines = ["#include <cstdint>", "struct Bits { uint32_t at, width; };"]
    for name, layout in layouts.items():
        places = " ".join(
            f"constexpr Bits {field_name}{{{field.offset}, {Shape.cast(field.shape).width}}};"
            for field_name, field in fields(layout).items()
        )
        lines.append(f"namespace {name} {{ {places} }}")
    lines += [f"constexpr uint32_t {name} = {value};" for name, value in
              (("REGISTER_BAR", REGISTER_BAR), ("MSIX_BAR", MSIX_BAR))]  # fmt: skip
    return "\n".join(lines) + "\n"


def registered_inputs(ports: dict[str, Port], top: str) -> str:
    """Generate a module around ``top`` with the same ports, whose inputs but the clocks come from registers.

    The harness sets the next inputs just before the clock edge. Only registers then depend on the new values, and
    logic is evaluated once a cycle, not once for its inputs and once for its registers.
    """

    def declared(port: Port) -> str:
        return f"[{port.width - 1}:0] {port.name}"

    inputs = [port for port in ports.values() if port.direction == "input" and port.name not in CLOCKS]
    registers = {port.name: f"{port.name}_registered" for port in inputs}
    lines = [
        f"module {BOUNDARY}({', '.join(f'{port.direction} {declared(port)}' for port in ports.values())});",
        # In reset from the start: the first edge is one that the harness has set nothing for.
        *(f"  reg [{port.width - 1}:0] {registers[port.name]} = {int(port.name == 'rst')};" for port in inputs),
        "  always @(posedge clk) begin",
        *(f"    {registered} <= {name};" for name, registered in registers.items()),
        "  end",
        f"  {top} nic({', '.join(f'.{name}({registers.get(name, name)})' for name in ports)});",
        "endmodule",
    ]
    return "\n".join(lines) + "\n"


def harness_sources() -> list[Path]:
    """List the C++ sources: beside the package in a checkout, inside it when installed from a wheel."""
    package = Path(__file__).resolve().parent
    inside = package / "harness"
    folder = inside if inside.is_dir() else package.parent / "harness"
    return sorted(path for path in folder.iterdir() if path.suffix in (".h", ".cpp"))
