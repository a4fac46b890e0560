"""The register map in SystemRDL 2.0: other tools turn it into UVM models, IP-XACT and documents."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from amoeba_model.generate.sources import BLOCK_HEADER, member_docs, notice
from amoeba_model.layout import Access, Register
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import (
    BAR_SIZE,
    DOORBELL_PAGE,
    DOORBELL_PAGE_SIZE,
    DOORBELL_REGISTERS,
    PlacedBlock,
    bar_blocks,
)

__all__ = ["system_rdl"]

_ACCESS = {
    Access.R: "sw = r; hw = w;",
    Access.RW: "sw = rw; hw = r;",
    Access.W: "sw = w; hw = r;",
}
_RESERVED = {"type"}
"""The names of registers that are keywords of SystemRDL."""
_WORD = 4


def system_rdl() -> str:
    """Return the text of ``amoeba.rdl``: the BAR of a build with default parameters."""
    return "\n".join(_lines(NicParameters())) + "\n"


def _lines(parameters: NicParameters) -> Iterator[str]:
    yield f"// {notice('registers')}"
    yield "// Offsets and numbers of elements are those of a build with default parameters."
    yield "// Write zero to bits without a field."
    yield ""
    yield "addrmap amoeba {"
    yield f"    desc = {_text(f'The BAR of the NIC, {BAR_SIZE:#x} bytes.')};"
    yield "    default regwidth = 32;"
    yield "    default accesswidth = 32;"
    yield "    littleendian;"
    for placed in bar_blocks(parameters):
        yield ""
        yield from _indented(_block(placed))
    yield ""
    pages = f"doorbells[{parameters.contexts}] @ {DOORBELL_PAGE:#x} += {DOORBELL_PAGE_SIZE:#x}"
    yield from _indented(_file(pages, "Doorbell pages, one for each context.", _registers(DOORBELL_REGISTERS)))
    yield "};"


def _block(placed: PlacedBlock) -> Iterator[str]:
    block = placed.block
    header = block.header(placed.following)
    body = [line for register in BLOCK_HEADER for line in _constant(register, header[register.offset])]
    for layout, registers in groupby(block.registers, lambda register: (register.count, register.stride)):
        if layout[1] == _WORD:
            body += _registers(registers)
        else:
            body += _elements(*layout, list(registers))
    return _file(f"{block.name} @ {placed.offset:#x}", block.doc, body)


def _elements(count: int, stride: int, registers: list[Register]) -> Iterator[str]:
    """Yield registers whose arrays lie in each other as one array of files, since SystemRDL's arrays do not."""
    start = min(register.offset for register in registers)
    body = [line for register in registers for line in _register(register, start)]
    return _file(f"element[{count}] @ {start:#x} += {stride:#x}", "The registers of one element.", body)


def _file(head: str, doc: str, body: Iterable[str]) -> Iterator[str]:
    yield "regfile {"
    yield f"    desc = {_text(doc)};"
    yield from _indented(body)
    yield f"}} {head};"


def _registers(registers: Iterable[Register]) -> Iterator[str]:
    for register in registers:
        array = f"[{register.count}]" if register.count > 1 else ""
        yield from _register(register, 0, array, f" += {register.stride:#x}" if array else "")


def _register(register: Register, start: int, array: str = "", stride: str = "") -> Iterator[str]:
    yield "reg {"
    yield f"    desc = {_text(register.doc)};"
    yield from _indented(_fields(register))
    yield f"}} {_name(register.name)}{array} @ {register.offset - start:#x}{stride};"


def _fields(register: Register) -> Iterator[str]:
    access = _ACCESS[register.access]
    if register.flags is None:
        lowest = register.multiple_of.bit_length() - 1
        reset = f" = {register.reset >> lowest:#x}" if register.access is Access.RW else ""
        yield f"field {{ {access} }} value[31:{lowest}]{reset};"
        return
    docs = member_docs(register.flags)
    for flag in register.flags:
        bit = flag.value.bit_length() - 1
        desc = f" desc = {_text(docs[flag.name or ''])};" if flag.name in docs else ""
        yield f"field {{ {access}{desc} }} {flag.name}[{bit}:{bit}] = {register.reset >> bit & 1};"


def _constant(register: Register, value: int) -> Iterator[str]:
    yield "reg {"
    yield f"    desc = {_text(register.doc)};"
    yield f"    field {{ sw = r; hw = na; }} value[31:0] = {value:#x};"
    yield f"}} {_name(register.name)} @ {register.offset:#x};"


def _name(name: str) -> str:
    return f"\\{name}" if name in _RESERVED else name


def _text(words: str) -> str:
    return '"' + words.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"    {line}" if line else "" for line in lines)
