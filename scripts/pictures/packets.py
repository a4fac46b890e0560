"""Frames as RFCs draw them, 32 bits to a row, from the declarations of their headers."""

from amoeba_model.layout import Record
from amoeba_model.wire.uet import (
    ATOMIC_EXTENSION,
    ETHERNET,
    IPV4,
    PDS_ACK,
    PDS_NACK,
    PDS_REQUEST,
    SES_REQUEST,
    SES_RESPONSE_DATA,
    UDP,
)
from svg import Drawing

__all__ = ["FRAMES", "packet"]

FRAMES = {
    "frame-request": ("An atomic's request", (PDS_REQUEST, SES_REQUEST, ATOMIC_EXTENSION), ("operands", "CRC")),
    "frame-answer": ("An answer with data", (PDS_ACK, SES_RESPONSE_DATA), ("data", "CRC")),
    "frame-nack": ("A NACK", (PDS_NACK,), ("CRC",)),
}
"""Content of each drawing: its title, the headers behind UDP's, and the payload behind them."""
BITS, ROW, LEFT, NAMES = 24, 24, 30, 160
KINDS = ("host", "send", "memory", "answer")


def packet(name: str) -> str:
    """Draw one kind of frame."""
    title, records, rest = FRAMES[name]
    rows = sum(-(-record.size // 4) for record in records) + len(rest)
    drawing = Drawing(LEFT + 32 * BITS + NAMES, 112 + ROW * rows + 6 * (len(records) + 1), title)
    drawing.text(LEFT, 22, f"{title}: {_sizes(records)}", "title")
    around = ", ".join(f"{record.name} {record.size}" for record in (ETHERNET, IPV4, UDP))
    drawing.text(LEFT, 44, f"first {around} bytes; each number is the bit in its word of 32", "dim")
    for bit in range(0, 33, 4):
        drawing.text(LEFT + bit * BITS + (4 if bit < 32 else -4), 64, str(min(bit, 31)), "small dim",
                     at="start" if bit < 32 else "end")  # fmt: skip
    y = 70.0
    for number, record in enumerate(records):
        y = _record(drawing, record, y, KINDS[number]) + 6
    for words in rest:
        drawing.box(LEFT, y, 32 * BITS, ROW, round=0)
        drawing.text(LEFT + 16 * BITS, y + 16, words, at="middle")
        y += ROW
    return str(drawing)


def _sizes(records: tuple[Record, ...]) -> str:
    return ", ".join(f"{record.name} {record.size}" for record in records) + " bytes"


def _record(drawing: Drawing, record: Record, top: float, kind: str) -> float:
    """Draw a header's fields; return where the next header begins."""
    place = 0
    for field in record.fields:
        hint, left = f"{field.name}, {field.width} bits: {field.doc}", field.width
        pieces = []
        while left:
            taken = min(left, 32 - place % 32)
            pieces.append((place, taken))
            place += taken
            left -= taken
        widest = max(pieces, key=lambda piece: piece[1])
        for at, width in pieces:
            x, y = LEFT + at % 32 * BITS, top + at // 32 * ROW
            drawing.box(x, y, width * BITS, ROW, hint=hint, round=0)
            if (at, width) == widest:
                _words(drawing, field.name, x + width * BITS / 2, y + 16, width * BITS)
    bottom = top + -(-place // 32) * ROW
    drawing.box(LEFT - 10, top + 1, 6, bottom - top - 2, kind, round=2)
    drawing.text(LEFT + 32 * BITS + 8, top + 16, record.name, "code")
    return bottom


def _words(drawing: Drawing, name: str, x: float, y: float, space: float) -> None:
    """Draw as much of a name as fits: all of it is shown where the pointer rests."""
    shown = name if not name.startswith("reserved") else "0"
    fits = int(space / 6.8)
    drawing.text(x, y, shown if len(shown) <= fits else shown[: max(fits - 1, 1)] + "…", "small", at="middle")
