"""The Markdown pages of registers, rings, wire headers and the trace port."""

import enum
from collections.abc import Iterable, Iterator, Sequence

from amoeba_model.descriptors import (
    COMPLETION,
    EVENT,
    EVENT_COUNTER,
    RENDEZVOUS,
    RX_DESCRIPTOR,
    TX_DESCRIPTOR,
    CompletionFlags,
    DescriptorFlags,
    DescriptorOpcode,
    EventFlags,
    EventKind,
    ReceiveFlags,
    ReceiveOpcode,
)
from amoeba_model.generate.sources import BLOCK_HEADER, WIRE_ENUMS, member_docs, notice
from amoeba_model.layout import Access, Record, Register
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import (
    ABI_VERSION,
    DOORBELL_PAGE,
    DOORBELL_PAGE_SIZE,
    DOORBELL_REGISTERS,
    ContextControl,
    Counter,
    KeyFlags,
    PeerFlags,
    bar_blocks,
)
from amoeba_model.trace import AXI_USER, TRACE_EVENT, Requester, Stage
from amoeba_model.ucp import UCP_RECORDS, MessageFlags, MessageKind
from amoeba_model.wire.uet import UDP_PORT, WIRE_RECORDS

__all__ = [
    "completions_page",
    "descriptors_page",
    "events_page",
    "receives_page",
    "registers_page",
    "trace_page",
    "ucp_page",
    "wire_page",
]

_Numbers = type[enum.IntEnum] | type[enum.IntFlag]


def registers_page() -> str:
    """Describe the BAR of a build with default parameters."""
    return _page("Registers", ("registers",), _registers())


def _registers() -> Iterator[str]:
    yield f"ABI version {ABI_VERSION}. Registers are 32 bits wide; r: read, w: write (reads as zero), rw: storage."
    yield "BAR offsets are those of a build with default parameters; a driver follows `next` instead."
    yield ""
    yield "## Header of every block"
    yield ""
    yield from _register_table(BLOCK_HEADER, 0)
    for placed in bar_blocks(NicParameters()):
        block = placed.block
        yield f"## {block.name} at {placed.offset:#07x}"
        yield ""
        yield f"Type {block.kind:#010x}, version {block.version}, {block.length:#x} bytes. {block.doc}"
        yield ""
        yield from _register_table(block.registers, placed.offset)
    yield f"## Doorbell page of context c at {DOORBELL_PAGE:#07x} + c * {DOORBELL_PAGE_SIZE:#x}"
    yield ""
    yield from _register_table(DOORBELL_REGISTERS, DOORBELL_PAGE)
    for numbers in (ContextControl, KeyFlags, PeerFlags, Counter):
        yield from _enumeration(numbers)


def descriptors_page() -> str:
    """Describe the transmit ring's entries."""
    body = [*_record(TX_DESCRIPTOR), *_enumeration(DescriptorOpcode), *_enumeration(DescriptorFlags)]
    return _page("Transmit descriptors", ("descriptors",), body)


def receives_page() -> str:
    """Describe the receive ring's entries, and the payload of a rendezvous message."""
    body = [
        *_record(RX_DESCRIPTOR),
        *_enumeration(ReceiveOpcode),
        *_enumeration(ReceiveFlags),
        *_record(RENDEZVOUS),
    ]
    return _page("Receive descriptors", ("descriptors",), body)


def completions_page() -> str:
    """Describe the completion ring's entries."""
    return _page("Completions", ("descriptors",), [*_record(COMPLETION), *_enumeration(CompletionFlags)])


def events_page() -> str:
    """Describe the event ring's entries, and event counters."""
    body = [*_record(EVENT), *_enumeration(EventKind), *_enumeration(EventFlags), *_record(EVENT_COUNTER)]
    return _page("Events", ("descriptors",), body)


def ucp_page() -> str:
    """Describe the messages between workers of UCX's API."""
    body: list[str] = []
    for record in UCP_RECORDS:
        body += _record(record)
    return _page("UCP", ("ucp",), [*body, *_enumeration(MessageKind), *_enumeration(MessageFlags)])


def wire_page() -> str:
    """All headers of a frame, and UET's numbers."""
    return _page("Wire headers", ("wire.uet",), _wire())


def _wire() -> Iterator[str]:
    yield f"Ethernet II, IPv4, UDP to port {UDP_PORT}, PDS, SES, atomic extension, payload, CRC;"
    yield "a NACK or control packet has nothing between PDS and CRC."
    yield ""
    for record in WIRE_RECORDS:
        yield from _record(record)
    for numbers in WIRE_ENUMS:
        yield from _enumeration(numbers)


def trace_page() -> str:
    """Describe the trace port."""
    what = [*_record(TRACE_EVENT), *_enumeration(Stage), *_record(AXI_USER), *_enumeration(Requester)]
    return _page("Trace port", ("trace",), what)


def _page(title: str, modules: Sequence[str], body: Iterable[str]) -> str:
    lines = [f"# {title}", "", notice(*modules), "", *body]
    return "\n".join(lines).rstrip("\n") + "\n"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
    yield ""


def _register_table(registers: Iterable[Register], base: int) -> Iterator[str]:
    def place(register: Register) -> str:
        first = f"{base + register.offset:#07x}"
        return first if register.count == 1 else f"{first} + {register.stride:#x} * i, i < {register.count}"

    def reset(register: Register) -> str:
        return f"{register.reset:#x}" if register.access is Access.RW else ""

    rows = (
        (place(register), f"`{register.name}`", register.access.value, reset(register), register.doc)
        for register in registers
    )
    yield from _table(("BAR offset", "register", "access", "reset", "meaning"), rows)


def _record(record: Record) -> Iterator[str]:
    """Fields by byte and bit as they lie in memory or on the wire."""
    yield f"## {record.name}"
    yield ""
    order = "Little-endian" if record.order == "little" else "Big-endian"
    yield f"{order}, {record.size} bytes. {record.doc}"
    yield ""
    rows = []
    position = 0
    for field in record.fields:
        doc = field.doc if field.enum is None else f"{field.doc} {field.enum.__name__}."
        rows.append((_place(position, field.width, record.order), str(field.width), f"`{field.name}`", doc))
        position += field.width
    yield from _table(("byte[:bits]", "width", "field", "meaning"), rows)


def _place(position: int, width: int, order: str) -> str:
    """First byte of a field, and its bits there (7 is the most significant) if it does not fill whole bytes."""
    byte, bit = divmod(position, 8)
    if bit == 0 and width % 8 == 0:
        return str(byte)
    if order == "little":
        return f"{byte}:{bit}+"
    return f"{byte}:{7 - bit}" + (f"..{8 - bit - width}" if width > 1 and bit + width <= 8 else "..")


def _enumeration(numbers: _Numbers) -> Iterator[str]:
    yield f"## {numbers.__name__}"
    yield ""
    flags = issubclass(numbers, enum.IntFlag)
    docs = member_docs(numbers)
    rows = [
        (f"{member.value:#x}" if flags else str(member.value), f"`{name}`", docs.get(name, ""))
        for name, member in numbers.__members__.items()
    ]
    yield from _table(("value", "name", "meaning"), rows)
