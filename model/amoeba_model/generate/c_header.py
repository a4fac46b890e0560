"""The C header: registers, rings, enumerations and wire headers for programs in C and C++."""

import enum
from collections.abc import Iterator

from amoeba_model.descriptors import COMPLETION, EVENT, EVENT_COUNTER, RENDEZVOUS, RX_DESCRIPTOR, TX_DESCRIPTOR
from amoeba_model.generate.sources import BLOCK_HEADER, HOST_ENUMS, WIRE_ENUMS, notice, summary
from amoeba_model.layout import Record, Register
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import (
    ABI_VERSION,
    BAR_SIZE,
    DOORBELL_PAGE,
    DOORBELL_PAGE_SIZE,
    DOORBELL_REGISTERS,
    KEY_PROBES,
    bar_blocks,
)
from amoeba_model.trace import TRACE_EVENT
from amoeba_model.ucp import UCP_RECORDS
from amoeba_model.wire.uet import UDP_PORT, WIRE_RECORDS

__all__ = ["c_header"]


def c_header() -> str:
    """Generate the text of ``amoeba.h``."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield f"/* {notice('registers', 'descriptors', 'trace', 'opcodes', 'ucp', 'wire.uet')} */"
    yield ""
    yield "#ifndef AMOEBA_H"
    yield "#define AMOEBA_H"
    yield ""
    yield "#include <stdint.h>"
    yield ""
    yield "/* The BAR: a linked list of register blocks, then one doorbell page per context; 32-bit registers. */"
    yield _define("ABI_VERSION", ABI_VERSION)
    yield _define("BAR_SIZE", BAR_SIZE, 5)
    yield _define("DOORBELL_PAGE", DOORBELL_PAGE, 5)
    yield _define("DOORBELL_PAGE_SIZE", DOORBELL_PAGE_SIZE, 5)
    yield _define("KEY_PROBES", KEY_PROBES)
    yield ""
    yield "/* Registers of a doorbell page, from its start. */"
    for register in DOORBELL_REGISTERS:
        yield from _register("DOORBELL", register)
    yield ""
    yield "/* Every block begins with these; offsets below are from the start of the block. */"
    for register in BLOCK_HEADER:
        yield from _register("BLOCK", register)
    for placed in bar_blocks(NicParameters()):
        block = placed.block
        yield ""
        yield f"/* {block.doc} */"
        yield _define(f"{block.name}_TYPE", block.kind, 8)
        yield _define(f"{block.name}_VERSION", block.version)
        for register in block.registers:
            yield from _register(block.name, register)
    for record in (TX_DESCRIPTOR, RX_DESCRIPTOR, RENDEZVOUS, COMPLETION, EVENT, EVENT_COUNTER, TRACE_EVENT):
        yield ""
        yield from _struct(record)
    for numbers in (*HOST_ENUMS, *WIRE_ENUMS):
        yield ""
        yield from _enumeration(numbers)
    yield ""
    yield "/* Wire headers, big-endian: OFFSET is in bits from the most significant bit of the first byte. */"
    yield _define("UET_UDP_PORT", UDP_PORT)
    for record in WIRE_RECORDS:
        yield ""
        yield f"/* {record.doc} */"
        yield from _fields(f"UET_{record.name}", record)
    yield ""
    yield "/* Of UCX's API, little-endian: OFFSET is in bits from the least significant bit of the first byte. */"
    for record in UCP_RECORDS:
        yield ""
        yield f"/* {record.doc} */"
        yield from _fields(record.name, record)
    yield ""
    yield "#endif"


def _define(name: str, value: int, digits: int | None = None) -> str:
    return f"#define AMOEBA_{name.upper()} {value if digits is None else f'{value:#0{digits + 2}x}'}"


def _register(block: str, register: Register) -> Iterator[str]:
    name = f"{block}_{register.name}"
    comment = f"{register.access.value.upper()}: {register.doc}"
    yield f"{_define(name, register.offset, 3)} /* {comment} */"
    if register.count > 1:
        yield _define(f"{name}_STRIDE", register.stride, 3)


def _struct(record: Record) -> Iterator[str]:
    """Yield a little-endian record of naturally aligned fields, which C lays out the same way."""
    record.dtype()  # raises LayoutError if a field were not naturally aligned
    yield f"/* {record.doc} */"
    yield f"struct amoeba_{record.name} {{"
    for field in record.fields:
        yield f"    uint{field.width}_t {field.name}; /* {field.doc} */"
    yield "};"


def _enumeration(numbers: type[enum.IntEnum] | type[enum.IntFlag]) -> Iterator[str]:
    doc = summary(numbers)
    yield f"enum amoeba_{_snake(numbers.__name__)} {{{f' /* {doc} */' if doc else ''}"
    prefix = f"AMOEBA_{_snake(numbers.__name__).upper()}"
    flags = issubclass(numbers, enum.IntFlag)
    for name, member in numbers.__members__.items():
        yield f"    {prefix}_{name} = {f'{member.value:#x}' if flags else member.value},"
    yield "};"


def _fields(name: str, record: Record) -> Iterator[str]:
    """Where every field of a record is that C need not lay out the same way."""
    yield _define(f"{name}_SIZE", record.size)
    offset = 0
    for field in record.fields:
        if not field.name.startswith("reserved"):
            yield _define(f"{name}_{field.name}_OFFSET", offset)
            yield _define(f"{name}_{field.name}_WIDTH", field.width)
        offset += field.width


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).removeprefix("_")
