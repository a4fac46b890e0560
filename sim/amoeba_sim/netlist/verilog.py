"""Verilog of a netlist of 7-series primitives, written for the speed of its simulation.

A net is a scalar. LUTs, multiplexers and carry chains become expressions, registers with the same clock, enable and
reset share a block, and memories stay instances of the modules of ``primitives.v``.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amoeba_sim.netlist.lookup import lookup_expression
from amoeba_sim.nic_ports import BuildError

__all__ = ["netlist_verilog"]

PRIMITIVES = Path(__file__).with_name("primitives.v")

Bit = int | str
"""A net's number, or a constant: "0", "1" or "x"."""


def _net(bit: Bit) -> str:
    if isinstance(bit, int):
        return f"n{bit}"
    return "1'b1" if bit == "1" else "1'b0"


def _bits(bits: list[Bit]) -> str:
    """Concatenate nets, whose first is the least significant."""
    return f"{{{', '.join(_net(bit) for bit in reversed(bits))}}}"


@dataclass(frozen=True)
class _Cell:
    """One primitive, as Yosys' ``write_json`` describes it."""

    name: str
    type: str
    parameters: Mapping[str, str]
    connections: Mapping[str, list[Bit]]

    def number(self, parameter: str, default: int = 0) -> int:
        """Return a parameter's bits as a number; undefined bits are 0."""
        text = self.parameters.get(parameter)
        return default if text is None else int(text.replace("x", "0"), 2)

    def text(self, parameter: str, default: str) -> str:
        return self.parameters.get(parameter, default).strip()

    def inverted(self, pin: str) -> bool:
        return bool(self.number(f"IS_{pin}_INVERTED"))

    def net(self, pin: str, default: Bit = "0") -> str:
        """Return the expression of what arrives at a pin of one bit; pins without a wire have the default."""
        (bit,) = self.connections.get(pin) or [default]
        return f"(!{_net(bit)})" if self.inverted(pin) else _net(bit)

    def bus(self, pin: str, width: int) -> list[Bit]:
        """Return the nets of a pin of several bits, with zeros up to ``width``."""
        bits = self.connections.get(pin, [])
        return [*bits, *["0"] * (width - len(bits))][:width]

    def address(self, pin: str, width: int) -> list[Bit]:
        """Return the nets of an address, whose bits have one pin or a pin each."""
        return self.connections.get(pin) or [
            bit for index in range(width) for bit in self.connections.get(f"{pin}{index}", ["0"])
        ]

    def refuse(self, why: str) -> BuildError:
        return BuildError(f"The netlist has a {self.type} {why}: {self.name}")


def _assigned(cell: _Cell, pin: str, expression: str, index: int = 0) -> Iterator[str]:
    """Write the assignment of an output, if a net is there."""
    bits = cell.connections.get(pin, [])
    if index < len(bits):
        yield f"  assign {_net(bits[index])} = {expression};"


# Combinational primitives ---------------------------------------------------------------------------------


def _lut(cell: _Cell) -> Iterator[str]:
    inputs = [cell.net(f"I{index}") for index in range(int(cell.type.removeprefix("LUT")))]
    return _assigned(cell, "O", lookup_expression(cell.number("INIT"), inputs))


def _multiplexer(cell: _Cell) -> Iterator[str]:
    return _assigned(cell, "O", f"{cell.net('S')} ? {cell.net('I1')} : {cell.net('I0')}")


def _inverter(cell: _Cell) -> Iterator[str]:
    return _assigned(cell, "O", f"!{cell.net('I')}")


def _buffer(cell: _Cell) -> Iterator[str]:
    return _assigned(cell, "O", cell.net("I"))


def _carry(cell: _Cell) -> Iterator[str]:
    """Write four bits of a carry chain, whose inner carries are nets of their own."""
    carry = f"({cell.net('CI')} | {cell.net('CYINIT')})"
    for index, (select, data) in enumerate(zip(cell.bus("S", 4), cell.bus("DI", 4), strict=True)):
        yield from _assigned(cell, "O", f"{_net(select)} ^ {carry}", index)
        name = f"carry_{cell.name}_{index}"
        yield f"  wire {name} = {_net(select)} ? {carry} : {_net(data)};"
        yield from _assigned(cell, "CO", name, index)
        carry = name


# Registers ------------------------------------------------------------------------------------------------

_REGISTERS = {"FDRE": ("R", "1'b0"), "FDSE": ("S", "1'b1")}
"""By type: the pin that sets the register at an edge of its clock, and its value then."""


def _registers(cells: list[_Cell]) -> Iterator[str]:
    """Write registers, those of the same clock, enable and resets in one block."""
    blocks: dict[tuple[str, ...], list[_Cell]] = defaultdict(list)
    for cell in cells:
        reset, value = _REGISTERS[cell.type]
        edge = f"{'negedge' if cell.inverted('C') else 'posedge'} {_net(cell.connections['C'][0])}"
        blocks[edge, cell.net(reset), value, cell.net("CE", "1")].append(cell)
    for (edge, reset, value, enable), members in blocks.items():
        yield f"  always @({edge})"
        if reset != "1'b0":
            yield f"    if ({reset}) begin"
            yield from (f"      {_net(cell.connections['Q'][0])} <= {value};" for cell in members)
            yield "    end else"
        yield f"    if ({enable}) begin"
        yield from (f"      {_net(cell.connections['Q'][0])} <= {cell.net('D')};" for cell in members)
        yield "    end"


# Memories -------------------------------------------------------------------------------------------------


def _instance(module: str, name: str, parameters: Mapping[str, str], pins: Mapping[str, str]) -> Iterator[str]:
    given = ", ".join(f".{key}({value})" for key, value in parameters.items())
    connected = ", ".join(f".{key}({value})" for key, value in pins.items())
    yield f"  {module} {f'#({given}) ' if given else ''}{name} ({connected});"


def _own_module(cell: _Cell) -> Iterator[str]:
    """Write a primitive that ``primitives.v`` has by its name."""
    parameters = {
        name: f"{len(bits)}'h{cell.number(name):x}"
        for name, bits in cell.parameters.items()
        if name.startswith("INIT") and cell.number(name)
    }
    pins = {pin: cell.net(pin) if len(bits) == 1 else _bits(bits) for pin, bits in cell.connections.items()}
    return _instance(cell.type, cell.name, parameters, pins)


_SMALL_RAM = re.compile(r"RAM(16|32|64|128|256)X1([SD])")


def _small_ram(cell: _Cell) -> Iterator[str]:
    """Write a RAM of one bit, whose second port of addresses may be missing."""
    rows, ports = _SMALL_RAM.fullmatch(cell.type).groups()
    width = int(rows).bit_length() - 1
    parameters = {"BITS": str(width)}
    if cell.number("INIT"):
        parameters["INIT"] = f"{rows}'h{cell.number('INIT'):x}"
    pins = {pin: cell.net(pin) for pin in ("D", "WCLK", "WE")}
    pins |= {pin: _bits(cell.address(pin, width)) for pin in ("A", "DPRA")}
    outputs = {"O": "SPO"} if ports == "S" else {"SPO": "SPO", "DPO": "DPO"}
    pins |= {own: _net(bit) for pin, own in outputs.items() for bit in cell.connections.get(pin, [])}
    return _instance("dual_port_ram", cell.name, parameters, pins)


_BLOCK_PINS = {
    "RDCLK": "CLKARDCLK",
    "WRCLK": "CLKBWRCLK",
    "RDEN": "ENARDEN",
    "WREN": "ENBWREN",
    "RST": "RSTRAMARSTRAM",
}
_BLOCK_ROWS = 36
"""Bits of the widest row of a RAMB18E1, and twice those that one port's pins have."""


def _block_ram(cell: _Cell) -> Iterator[str]:
    """Write a RAMB18E1 in SDP mode: port A reads, port B writes, and rows of 36 bits take the pins of both."""
    if cell.text("RAM_MODE", "TDP") != "SDP" or cell.number("DOA_REG"):
        raise cell.refuse("with two ports or an output register, which primitives.v does not model")
    read, write = cell.number("READ_WIDTH_A"), cell.number("WRITE_WIDTH_B")
    values = {
        "FIRST": (_BLOCK_ROWS, _row_value(cell, "INIT", read)),
        "RESET": (_BLOCK_ROWS, _row_value(cell, "SRVAL", read)),
        "INIT": (_BLOCK_ROWS << 9, _block_content(cell)),
    }
    parameters = {
        "READ": str(read),
        "WRITE": str(write),
        "READ_FIRST": str(int(cell.text("WRITE_MODE_B", "WRITE_FIRST") == "READ_FIRST")),
        **{name: f"{width}'h{value:x}" for name, (width, value) in values.items() if value},
    }
    written = _lanes(cell, "DIA", "DIPA") + _lanes(cell, "DIB", "DIPB")
    pins = {
        "DO": f"o_{cell.name}",
        "DI": _bits(written if write == _BLOCK_ROWS else written[_BLOCK_ROWS // 2 :]),
        "RDADDR": _bits(cell.bus("ADDRARDADDR", 14)),
        "WRADDR": _bits(cell.bus("ADDRBWRADDR", 14)),
        "WE": _bits(cell.bus("WEBWE", 4)),
        **{own: cell.net(pin) for own, pin in _BLOCK_PINS.items()},
    }
    yield f"  wire [{_BLOCK_ROWS - 1}:0] o_{cell.name};"
    yield from _instance("block_ram", cell.name, parameters, pins)
    for index, bit in enumerate(_lanes(cell, "DOA", "DOPA") + _lanes(cell, "DOB", "DOPB")):
        if isinstance(bit, int):
            yield f"  assign {_net(bit)} = o_{cell.name}[{index}];"


def _lanes(cell: _Cell, data: str, parity: str) -> list[Bit]:
    """Return the nets of a port's two bytes, each with its parity. Names of pins say the port twice."""
    bits, parities = cell.bus(f"{data}{data[:-1]}", 16), cell.bus(f"{parity}{parity[:-1]}", 2)
    return [*bits[:8], parities[0], *bits[8:], parities[1]]


def _row_value(cell: _Cell, name: str, width: int) -> int:
    """Return the value of a row from parameters that have the parities after all bytes of a port."""
    values = [cell.number(f"{name}_{port}") for port in "AB"]
    if width < 9:
        return values[0]
    lanes = min(width // 9, 2)
    a, b = (_with_parities(value, lanes) for value in values)
    return a | (b << _BLOCK_ROWS // 2 if width == _BLOCK_ROWS else 0)


def _with_parities(value: int, lanes: int) -> int:
    bytes_ = [value >> 8 * lane & 0xFF for lane in range(lanes)]
    return sum((byte | (value >> 8 * lanes + lane & 1) << 8) << 9 * lane for lane, byte in enumerate(bytes_))


def _block_content(cell: _Cell) -> int:
    """Return the initial content: bytes, each with its parity."""
    data = sum(cell.number(f"INIT_{row:02X}") << 256 * row for row in range(64))
    parities = sum(cell.number(f"INITP_{row:02X}") << 256 * row for row in range(8))
    if not data and not parities:
        return 0
    lanes = zip(f"{parities:02048b}", data.to_bytes(2048, "big"), strict=True)
    return int("".join(f"{parity}{byte:08b}" for parity, byte in lanes), 2)


# The netlist ----------------------------------------------------------------------------------------------

_WRITERS: dict[str, Callable[[_Cell], Iterator[str]]] = {
    **{f"LUT{inputs}": _lut for inputs in range(1, 7)},
    "MUXF7": _multiplexer,
    "MUXF8": _multiplexer,
    "INV": _inverter,
    **dict.fromkeys(("BUFG", "IBUF", "OBUF"), _buffer),
    "CARRY4": _carry,
    **dict.fromkeys(("RAM32M", "RAM64M", "SRL16E", "SRLC32E"), _own_module),
    **{f"RAM{rows}X1{ports}": _small_ram for rows in (16, 32, 64, 128, 256) for ports in "SD"},
    "RAMB18E1": _block_ram,
}

_COMMENTS = ("$scopeinfo",)
"""Cells that only say where others come from."""


def netlist_verilog(netlist: Mapping[str, Any], top: str = "top") -> str:
    """Return Verilog of a flat netlist with the models of its memories.

    Parameters
    ----------
    netlist : mapping
        As Yosys' ``write_json`` writes it after ``synth_xilinx -family xc7``.
    top : str
        The module, which has no others inside.

    Raises
    ------
    BuildError
        The netlist has a primitive, or a setting of one, without a model.
    """
    module = netlist["modules"][top]
    cells = [
        _Cell(f"c{index}", cell["type"], cell["parameters"], cell["connections"])
        for index, cell in enumerate(module["cells"].values())
        if cell["type"] not in _COMMENTS
    ]
    unknown = sorted({cell.type for cell in cells} - _WRITERS.keys() - _REGISTERS.keys())
    if unknown:
        raise BuildError(f"The netlist has primitives without a model: {', '.join(unknown)}")
    registers = [cell for cell in cells if cell.type in _REGISTERS]
    others = [cell for cell in cells if cell.type not in _REGISTERS]
    lines = [
        *_header(top, module["ports"]),
        *_declarations(module, registers),
        *(line for cell in others for line in _WRITERS[cell.type](cell)),
        *_registers(registers),
        *_connected_ports(module["ports"]),
        "endmodule",
    ]
    return "\n".join(lines) + "\n" + PRIMITIVES.read_text()


def _header(top: str, ports: Mapping[str, Any]) -> Iterator[str]:
    yield f"module {top}({', '.join(ports)});"
    for name, port in ports.items():
        width = len(port["bits"])
        yield f"  {port['direction']} {f'[{width - 1}:0] ' if width > 1 else ''}{name};"


def _declarations(module: Mapping[str, Any], registers: list[_Cell]) -> Iterator[str]:
    """Declare every net; registers begin with their INIT."""
    starts = {cell.connections["Q"][0]: cell.number("INIT") for cell in registers}
    used = {bit for port in module["ports"].values() for bit in port["bits"]}
    used |= {bit for cell in module["cells"].values() for bits in cell["connections"].values() for bit in bits}
    for bit in sorted(bit for bit in used if isinstance(bit, int)):
        yield f"  reg n{bit} = 1'b{starts[bit]};" if bit in starts else f"  wire n{bit};"


def _connected_ports(ports: Mapping[str, Any]) -> Iterator[str]:
    for name, port in ports.items():
        if port["direction"] == "output":
            yield f"  assign {name} = {_bits(port['bits'])};"
            continue
        for index, bit in enumerate(port["bits"]):
            yield f"  assign {_net(bit)} = {name}{f'[{index}]' if len(port['bits']) > 1 else ''};"
